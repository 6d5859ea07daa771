"""Download public tables of measured layers, in the columns that ``tpugraphs.layertime`` reads.

``layer_times.json`` names the files as their authors published them, with size and SHA-256. They are
downloaded to ``FOLDER/.download``, compared, written again as CSV tables, and removed. A file with another
digest is never read.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpugraphs.data.samples import GITHUB, PublicFile
from tpugraphs.download.sources import store_below
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system import Progress, absolute, check_choice, digest_of, notice, write_whole
from tpugraphs.system.transfer import Retries, check_url, fetch

__all__ = ["PICKLED", "PublicTable", "run", "tables"]

PICKLED = (
    "ml-performance-prediction: its authors (CDECatapult/ml-performance-prediction, commit e649f32, "
    "Apache-2.0) published their layers as pickles alone, in prediction_model/data/raw_data. Reading a "
    "pickle can run any program, so tpugraphs never does. Write them as dense_DEVICE.csv with the columns "
    "batch, dim_input, dim_output, activation, optimizer and time_median_ms, and as conv2d_DEVICE.csv with "
    "batch, matsize, kernelsize, channels_in, channels_out, strides, padding, use_bias, activation, "
    "optimizer and time_median_ms. Their numbers stand for words, from 0: activation None, relu, tanh, "
    "sigmoid; optimizer None, SGD, Adadelta, Adagrad, Momentum, Adam, RMSProp; padding VALID, SAME"
)
"""What to do about tables that their authors published as pickles."""
_PICKLED_NAME = PICKLED.partition(":")[0]
_Rows = Iterator[Sequence[str]]


@dataclass(frozen=True)
class PublicTable:
    """A table that is made of public files.

    Attributes
    ----------
    name : str
    columns : tuple of str
        Sizes of a layer that are taken as they are.
    parts : tuple of PublicFile
    licence : str
    """

    name: str
    columns: tuple[str, ...]
    parts: tuple[PublicFile, ...]
    licence: str

    @property
    def file(self) -> str:
        """Name of the file that is written."""
        return f"{self.name}.csv.gz" if self.columns else f"{self.name}.csv"

    @property
    def source(self) -> str:
        """Repository, commit and licence, for people."""
        return f"{self.parts[0].repository}, commit {self.parts[0].commit[:7]}, {self.licence}"

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(part.size for part in self.parts)


def tables(what: Iterable[str] = ()) -> list[PublicTable]:
    """List the public tables.

    Parameters
    ----------
    what : list of str
        Their names, such as ``neusight_linear``; all if empty.

    Returns
    -------
    list of PublicTable
        In the order in which they were named.

    Raises
    ------
    ConfigError
        Unknown table, or one that was published as pickles only.
    """
    known: dict[str, PublicTable] = {}
    for origin in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")):
        where = {name: origin[name] for name in ("repository", "commit")}
        for name, entry in origin["tables"].items():
            parts = []
            for path, size, sha256 in entry["files"]:
                folder, slash, file = f"{origin['folder']}{path}".rpartition("/")
                parts.append(PublicFile(file, sha256, **where, size=size, folder=folder + slash))
            known[name] = PublicTable(name, tuple(entry["columns"]), tuple(parts), origin["licence"])
    chosen = list(what) or list(known)
    for name in chosen:
        if name == _PICKLED_NAME:
            raise ConfigError(PICKLED)
        check_choice("table", name, known)
    return [known[name] for name in chosen]


def run(
    folder: str | os.PathLike[str],
    what: Iterable[str] = (),
    url: str = GITHUB,
    *,
    keep: bool = False,
    retries: Retries | None = None,
    verbose: bool | None = None,
) -> list[dict[str, Any]]:
    """Download public tables and write them as CSV; the same call resumes where an earlier one stopped.

    NeuSight's single operators keep their sizes, device, kernel and time (``ms``), with ``op`` and ``part``
    (train or test, as its authors divide them). Gavel's throughputs become rows of device, job, workers and
    steps per second. Numbers are as published.

    Parameters
    ----------
    folder : path
        Where the tables go; it is made.
    what : list of str
        See `tables`.
    url : str
        Address to use in place of ``https://raw.githubusercontent.com``.
    keep : bool
        Keep the published files, in ``folder/.download``.
    retries : Retries, optional
        When to try again, and when to give up.
    verbose : bool, optional
        Show a progress bar, by default in a terminal or notebook. False: also no line on stderr.

    Returns
    -------
    list of dict
        Per table: table, file, bytes, source, state (``"downloaded"`` or ``"already there"``).

    Raises
    ------
    DataError
        A file is missing or has another digest, or there is no connection for too long.
    ConfigError
        No such table, or another process downloads to the same folder.
    KeyboardInterrupt
        Ctrl-C. The bytes so far are kept.
    """
    chosen, base, target = tables(what), check_url(url), Path(absolute(folder))
    results = []
    with store_below(target) as store:
        for table in chosen:
            path, state = target / table.file, "already there"
            if not path.is_file():
                parts = _get(table, store, base, retries or Retries(), verbose)
                _write(path, _operators(table, parts) if table.columns else _throughputs(parts[0]))
                state = "downloaded"
                for part in () if keep else parts:
                    part.unlink()
            written = {"table": table.name, "file": str(path), "bytes": path.stat().st_size}
            results.append({**written, "source": table.source, "state": state})
    return results


def _get(table: PublicTable, store: Path, base: str, retries: Retries, verbose: bool | None) -> list[Path]:
    """Return the paths of a table's files, each with the expected digest."""
    found, done = [], 0

    def note(text: str) -> None:
        notice(f"{table.name}: {text}", verbose)

    with Progress(table.size, f"{table.name}: download", "B", verbose) as bar:
        for part in table.parts:
            path = store / part.sha256  # many have the same name

            def move(there: int, _: int | None, before: int = done) -> None:
                bar.move(before + there, table.size)

            if not path.is_file():
                fetch(part.at(base), path, retries, move, note)
            if (digest := digest_of(path)) != part.sha256:
                path.unlink()
                todo = "download it through another network, or from the repository by other means"
                raise DataError.of("sha256", part.sha256, digest, todo, file=part.at(base))
            done += part.size
            found.append(path)
    return found


def _operators(table: PublicTable, paths: Sequence[Path]) -> _Rows:
    """Yield NeuSight's rows: times in ms of single operators."""
    taken = {"Latency": "ms", "Device": "device", "Kernel Name": "kernel", **{n: n for n in table.columns}}
    taken["OPName"] = "op"
    yield [*taken.values(), "part"]
    for part, path in zip(table.parts, paths, strict=True):
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            head = next(rows)
            places = [head.index(name) for name in taken]
            which = "test" if part.folder.endswith("/test/") else "train"
            for row in rows:
                yield [*(row[place] for place in places), which]


def _throughputs(path: Path) -> _Rows:
    """Yield Gavel's rows of jobs that run alone, without those that share a GPU."""
    yield ["device", "job", "workers", "steps_per_second"]
    for device, jobs in json.loads(path.read_text(encoding="utf-8")).items():
        for key, found in jobs.items():
            job = re.fullmatch(r"\('(.*)', ([0-9]+)\)", key)
            assert job is not None
            yield [device, *job.groups(), repr(found["null"])]


def _write(path: Path, rows: _Rows) -> None:
    """Write rows as CSV, compressed if the name says so; the same rows give the same bytes."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    content = text.getvalue().encode()
    write_whole(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
