"""Submission files in plain Python: which rows there are, and whether each is a ranking; the competition's score."""

import csv
import io
import re
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

COLLECTIONS = [
    "tile:xla",
    "layout:xla:default",
    "layout:xla:random",
    "layout:nlp:default",
    "layout:nlp:random",
]


def rows(content):
    """(line, ID or None, ranking or None) of every line below the header of bytes in UTF-8."""
    found = []
    lines = content.split(b"\n")
    for number, raw in enumerate(lines[:-1] if lines[-1] == b"" else lines, 1):
        if number > 1:
            found.append((number, *_row(raw.removesuffix(b"\r"))))
    return found


def _row(raw):
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None, None
    match = re.fullmatch(rf"((?:{'|'.join(COLLECTIONS)}):[^\s\x00-\x1f\x7f,;:\"]+),(.*)", text, re.S)
    if match is None:
        return None, None
    row_id, listed = match.groups()
    if not re.fullmatch(r"[0-9]{1,10}(;[0-9]{1,10})*", listed):
        return row_id, None
    ranking = [int(token) for token in listed.split(";")]
    free = row_id.startswith("tile:") and len(ranking) >= 5
    good = len(set(ranking)) == len(ranking) if free else sorted(ranking) == list(range(len(ranking)))
    return row_id, ranking if good else None


def score(path, truths):
    """Score of a submission file on graphs with known runtimes: (total, {collection: mean}).

    `truths`: ID -> (runtimes (C,), normalizers (C,) or None).
    """
    table = csv.reader(io.StringIO(Path(path).read_text()))
    assert next(table) == ["ID", "TopConfigs"]
    given = {row_id: [int(k) for k in listed.split(";")] for row_id, listed in table}
    values = {name: [] for name in COLLECTIONS}
    for row_id, (runtimes, normalizers) in truths.items():
        y = np.asarray(runtimes, np.float64)
        if row_id not in given:
            value = 0.0
        elif normalizers is None:
            place = np.argsort(given[row_id])
            value = kendalltau(place, y).statistic
            value = 0.0 if np.isnan(value) else value
        else:
            y = y / np.asarray(normalizers, np.float64)
            value = 2 - min(y[k] for k in given[row_id][: min(5, len(y))]) / y.min()
        values[row_id.rpartition(":")[0]].append(value)
    means = {name: float(np.mean(v)) for name, v in values.items() if v}
    return sum(means.values()) / 5, means
