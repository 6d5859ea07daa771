"""Graphs and their files: collections, npz and packs, tables, schemas, audits of measurements."""

from tpugraphs.data import hlo as hlo  # adds its format
from tpugraphs.data.auditing import audit
from tpugraphs.data.collections import Collection, Split, load, load_all, open_collection
from tpugraphs.data.extra import with_extra
from tpugraphs.data.frames import from_frame
from tpugraphs.data.graph import Graph, Graphs, Rows, TableLike
from tpugraphs.data.joint import JOINT, as_joint
from tpugraphs.data.packs import PackReport, pack_tree
from tpugraphs.data.published import LayoutGraph, TileGraph
from tpugraphs.data.samples import list_samples, sample, sample_info
from tpugraphs.data.schema import Column, Digit, Schema
from tpugraphs.data.splits import as_samples, family, nearest, split_configs
from tpugraphs.names import COLLECTIONS, SPLITS, collection_of

__all__ = [
    "COLLECTIONS", "JOINT", "SPLITS", "Collection", "Column", "Digit", "Graph", "Graphs", "LayoutGraph",
    "PackReport", "Rows", "Schema", "Split", "TableLike", "TileGraph", "as_joint", "as_samples", "audit",
    "collection_of", "family", "from_frame", "list_samples", "load", "load_all", "nearest",
    "open_collection", "pack_tree", "sample", "sample_info", "split_configs", "with_extra",
]  # fmt: skip
