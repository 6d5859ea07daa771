"""Measured graphs published by others: :func:`sample` reads them from a data folder, or downloads them."""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tpugraphs import _core
from tpugraphs.data.collections import load, load_all
from tpugraphs.data.origins import PublicFile, find, get
from tpugraphs.data.published import Graph, LayoutGraph
from tpugraphs.errors import ConfigError

__all__ = ["list_samples", "sample", "sample_info"]

_GOOGLE = {
    "repository": "google-research-datasets/tpu_graphs",
    "commit": "ddd187c583cd3b0c72fb5adada905ad7b7532794",
    "folder": "tpu_graphs/process_data/tensorflow_ops/testdata/",
}
_ALEXNET = PublicFile(
    "cleaned_alexnet.npz",
    "056a905c0b457a74e7b0196494f39d8232c232310dfd61e6987244e274096eba",
    repository="trialan/tpu_graphs_compiling",
    commit="69e77fb72054c9ccd1a24fe3c84f16359e15a604",
    size=1_106_353,
)
# The same file after _alexnet, in the published schema.
_ALEXNET_WHOLE = (
    "alexnet_dev.npz", "ec8b559d0990715d5d633f4d0437655b107870bb3ea82dcb4790b99d5ba8b05e",
)  # fmt: skip
_UNET = PublicFile(
    "module_tuning_data_layout.pb",
    "cdfd4b169a2078fcc5333c11d8d9868ca5f18e59877d6b92dc5683589785e9b6",
    size=638_070,
    **_GOOGLE,
)
_TILES = PublicFile(
    "op_tuning_data.pb",
    "a412941b90c036aa51a73e9e3c7872624a66d972a650b1f3507651226a4d7088",
    size=61_766,
    **_GOOGLE,
)
_KERNELS = {
    "fusion.232": 61, "fusion.191": 579, "fusion.261": 16, "fusion.209": 16, "fusion.205": 16,
    "fusion.245": 23, "copy.24": 10, "copy.25": 11, "fusion.181": 5, "fusion.207": 3,
    "fusion.206": 3, "fusion.250": 2, "reshape.37": 3, "reshape.39": 2, "reshape.38": 2,
}  # fmt: skip


class _Sample(NamedTuple):
    kind: str
    kernel: str
    what: str
    file: PublicFile
    how: str  # the sample is made from the file
    read: Callable[[bool], Graph]  # takes whether to download


def _alexnet(download: bool) -> Graph:
    """Read AlexNet, with the columns that its authors dropped and the 33,774 runs of the sample.

    The public file lacks 70 node columns and 8 config columns, which are constant: 0, products of empty lists
    1, digits that are not set -1. ``alexnet.json`` lists the columns and, as bits, the runs.
    """
    whole = find(*_ALEXNET_WHOLE)
    if whole is not None:
        return load(whole)
    path = get(_ALEXNET, download)
    how = json.loads(Path(__file__).with_name("alexnet.json").read_text(encoding="utf-8"))
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


def _unet(download: bool) -> Graph:
    return load(get(_UNET, download))


def _kernel(number: int, download: bool) -> Graph:
    return load_all(get(_TILES, download))[number]


@cache
def _samples() -> dict[str, _Sample]:
    extractor = "read as the official feature extractor does"
    restored = "33,774 of its runs, constant columns restored"
    runs = "layout configs measured on a TPU"
    found = {
        "alexnet": _Sample(
            "layout", "AlexNet", f"AlexNet: 33,774 of the 47,712 {runs}", _ALEXNET, restored, _alexnet
        ),
        "unet3d_train": _Sample(
            "layout", "main__.10904", f"Training step of a 3-D U-Net: 112 {runs}", _UNET, extractor, _unet
        ),
    }
    for i, (kernel, count) in enumerate(_KERNELS.items()):
        what = f"Kernel {kernel} with {count} tile sizes measured on a TPU"
        how = f"kernel {i}, {extractor}"
        found[f"tile_{i:02}"] = _Sample("tile", kernel, what, _TILES, how, partial(_kernel, i))
    return found


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
    return {
        "file": found.file.name,
        "kind": found.kind,
        "kernel": found.kernel,
        "what": found.what,
        "source": f"{found.file.source}, {found.how}",
        "url": found.file.url,
        "licence": "Apache-2.0",
    }


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
    return _named(name).read(download)._with(name=name)
