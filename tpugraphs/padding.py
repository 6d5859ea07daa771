"""How the lists in the node features of a graph are padded: with 0, as published, or with -1.

Columns 31-36 (``dimensions``), 95-98 and 101-104 (spatial dimensions of convolutions) hold lists of
dimension numbers. Published files pad them with 0, which also is a dimension; the first place of the Kaggle
competition wrote all features anew from the protobuf files, padded with -1. Features of one kind mean nothing
to weights that were trained on the other. (Columns 134-139, the layout, have the same flaw, but a node's rank
tells where their padding begins: see :func:`tpugraphs.preprocess.fix_padding`.)
"""

from __future__ import annotations

from typing import Any

from tpugraphs.errors import DataError

__all__ = ["COLUMNS", "check", "padding_of"]

COLUMNS = (*range(31, 37), *range(95, 99), *range(101, 105))


def padding_of(graph: Any) -> int:
    """Return -1 or 0: with which number the lists of a graph are padded.

    No list is as long as its columns in every node of a graph, so -1 anywhere says how it was made.
    """
    return -1 if bool((graph.node_feat[:, COLUMNS] < 0).any()) else 0


def check(graph: Any, expected: int) -> None:
    """Raise DataError unless the lists of `graph` are padded with `expected`."""
    found = padding_of(graph)
    if found != expected:
        remedy = (
            "give features written from the .pb files with padding -1, as the authors of the weights did, or "
            "train on this data"
            if expected
            else "give the published files as they are"
        )
        raise DataError(
            f"node_feat: this ranker's weights were trained on features padded with {expected} (columns "
            f"31-36, 95-98, 101-104), these are padded with {found}; {remedy} "
            "(docs/weights-from-outside.md)",
            file=str(graph.path or graph.name),
            field="node_feat",
            expected=f"padding {expected}",
            found=f"padding {found}",
        )
