"""Measured graphs published by others: :func:`sample` reads them from a data folder, or downloads them."""

from __future__ import annotations

import base64
import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tpugraphs import _core
from tpugraphs.data.collections import load, load_all
from tpugraphs.data.origins import PublicFile, find, get
from tpugraphs.data.published import Graph, LayoutGraph
from tpugraphs.errors import ConfigError

__all__ = ["list_samples", "sample", "sample_info"]


class _Sample(NamedTuple):
    kind: str
    kernel: str
    what: str
    file: PublicFile
    how: str  # the sample is made from the file
    place: int | None  # of the graph in the file; None: see _alexnet


def _json(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@cache
def _samples() -> dict[str, _Sample]:
    table = _json("samples.json")
    files = {name: PublicFile(**entry) for name, entry in table["files"].items()}
    return {
        name: _Sample(**entry | {"file": files[entry["file"]]}) for name, entry in table["samples"].items()
    }


def _alexnet(download: bool) -> Graph:
    """Read AlexNet, with the columns that its authors dropped and the 33,774 runs of the sample.

    The public file lacks 70 node columns and 8 config columns, which are constant: 0, products of empty lists
    1, digits that are not set -1. ``alexnet.json`` lists the columns and, as bits, the runs.
    """
    whole = find(**_json("samples.json")["restored"])
    if whole is not None:
        return load(whole)
    path = get(_samples()["alexnet"].file, download)
    how = _json("alexnet.json")
    with np.load(path, allow_pickle=False) as file:
        given = {name: file[name] for name in file.files}
    features, configs = given["node_feat"], given["node_config_feat"]
    rows = np.unpackbits(np.frombuffer(base64.b85decode(how["runs"]), np.uint8), count=len(configs)) > 0
    given["node_feat"] = np.zeros((len(features), _core.SCHEMA["node_features"]), np.float32)
    given["node_feat"][:, how["node_columns"]] = features
    given["node_feat"][:, how["ones"]] = 1
    digits = np.full((int(rows.sum()), configs.shape[1], _core.SCHEMA["digits"]), -1, np.int8)
    digits[:, :, how["config_columns"]] = configs[rows]
    given |= {"node_config_feat": digits, "config_runtime": given["config_runtime"][rows]}
    return LayoutGraph(**given, path=str(path))


def list_samples() -> list[str]:
    """Return the names of the graphs that :func:`sample` reads."""
    return list(_samples())


def _named(name: Any) -> _Sample:
    samples, hint = _samples(), "tpugraphs.list_samples() names them"
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a sample, found {name!r}; {hint}")
    if name not in samples:
        near = difflib.get_close_matches(name, samples, n=1)
        raise ConfigError(f"no sample {name!r}; {f'did you mean {near[0]!r}?' if near else hint}")
    return samples[name]


def sample_info(name: str) -> dict[str, Any]:
    """Describe a sample without reading it.

    Parameters
    ----------
    name : str
        One of :func:`list_samples`.

    Returns
    -------
    dict
        Its kind, kernel, file, source, address and licence.
    """
    found = _named(name)
    known = {"kind": found.kind, "kernel": found.kernel, "what": found.what, "licence": "Apache-2.0"}
    source = f"{found.file.source}, {found.how}"
    return {"file": found.file.name, **known, "source": source, "url": found.file.url}


def sample(name: str, download: bool = True) -> Graph:
    """Read a measured graph published by others; see :func:`list_samples`.

    ``alexnet`` (AlexNet on a TPU, 33,774 measured layouts), ``unet3d_train`` (training step of a 3-D U-Net,
    112 layouts), ``tile_00`` to ``tile_14`` (fused kernels with their tile sizes).

    The files (2 MB) are searched for in the data folder, ``TPUGRAPHS_DATA`` or ``~/data/tpugraphs``, and its
    subfolders. A missing file is downloaded from GitHub to ``samples`` in the data folder, with a notice on
    stderr; the version and the SHA-256 are fixed.

    Parameters
    ----------
    name : str
    download : bool
        False: raise an error if the file is missing.

    Returns
    -------
    graph
        With its measured runtimes.

    Raises
    ------
    ConfigError
        When there is no such sample.
    DataError
        When its file is not in the data folder and is not downloaded, naming address and folder.
    """
    found = _named(name)
    if found.place is None:
        return _alexnet(download)._with(name=name)
    return load_all(get(found.file, download))[found.place]._with(name=name)
