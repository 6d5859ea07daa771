"""Graphs of the published collections whose measurements are known to be corrupt, and why.

``exclude="known-corrupt"`` leaves them out and ``tpugraphs audit`` names them. A graph is in the table if
somebody inspected its published runtimes and found that they cannot be right. Files that are merely
uninformative (one config, constant runtimes) are not: `audit` finds them by their content.
"""

from __future__ import annotations

__all__ = ["KEYWORD", "KNOWN_CORRUPT", "reason"]

KEYWORD = "known-corrupt"
"""Pattern of ``exclude=`` that stands for the graphs of the table."""

_SECOND = "found by the second place of the Kaggle competition"
_UNET = f"badly corrupted runtimes, {_SECOND}, who left all unet graphs of layout:xla out for that (valid)"
_BERT = f"corrupted runtimes that make validation unstable, {_SECOND} (valid)"
_MAGENTA = f"runtimes over the file cannot be of one graph, {_SECOND} (train)"

# (collection, name of the graph, why). Found in train and valid files: test files hold placeholders.
KNOWN_CORRUPT: tuple[tuple[str, str, str], ...] = (
    ("layout:xla:random", "unet_3d.4x4.bf16", _UNET),
    ("layout:xla:default", "unet_3d.4x4.bf16", _UNET),
    ("layout:xla:default", "mlperf_bert_batch_24_2x2", _BERT),
    ("layout:xla:random", "magenta_dynamic", _MAGENTA),
    ("layout:xla:default", "magenta_dynamic", _MAGENTA),
)


def reason(name: str, collection: str | None) -> str | None:
    """Return why the measurements of this graph are known to be corrupt, or None.

    Parameters
    ----------
    name : str
        Of the graph.
    collection : str or None
        None: a graph of that name in any collection counts.

    Returns
    -------
    str or None
        None if no corruption is known.
    """
    matches = (why for where, graph, why in KNOWN_CORRUPT if graph == name and collection in (where, None))
    return next(matches, None)
