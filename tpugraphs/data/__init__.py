"""Graphs and their files: collections, npz and packs, tables, schemas, and what is wrong with them."""

from tpugraphs.data.auditing import audit
from tpugraphs.data.collections import (
    COLLECTIONS,
    SPLITS,
    Collection,
    Split,
    list_samples,
    load,
    open_collection,
    sample,
    sample_info,
)
from tpugraphs.data.frames import from_frame
from tpugraphs.data.graph import Graph
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.data.schema import Column, Digit, Schema

__all__ = [
    "COLLECTIONS",
    "SPLITS",
    "Collection",
    "Column",
    "Digit",
    "Graph",
    "LayoutGraph",
    "Schema",
    "Split",
    "TileGraph",
    "audit",
    "from_frame",
    "list_samples",
    "load",
    "open_collection",
    "sample",
    "sample_info",
]
