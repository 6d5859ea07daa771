"""Public files that the package reads but does not ship, and the measured graphs in them: :func:`sample`.

Files come from a data folder, or are downloaded. Each is known by its SHA-256. A file with another digest is
never read, wherever it comes from.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from tpugraphs import _core
from tpugraphs.data.collections import load, load_all
from tpugraphs.data.published import Graph, LayoutGraph
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system import absolute, counted, digest_of, notice
from tpugraphs.system.transfer import Retries, fetch

GITHUB = "https://raw.githubusercontent.com"
VARIABLE = "TPUGRAPHS_DATA"
_STORE = "samples"  # of the data folder: where downloaded files go


@dataclass(frozen=True)
class PublicFile:
    """A file as its authors published it.

    Attributes
    ----------
    name : str
        Of the file, without folders.
    sha256 : str
    repository, commit, folder : str
        Where it is on GitHub; the folder is "" or ends with a slash.
    size : int
        Bytes.
    """

    name: str
    sha256: str
    repository: str
    commit: str
    size: int
    folder: str = ""

    @property
    def url(self) -> str:
        """Address of this version of the file."""
        return self.at(GITHUB)

    def at(self, base: str) -> str:
        """Return its address with `base` in place of `GITHUB`."""
        return f"{base}/{quote(f'{self.repository}/{self.commit}/{self.folder}{self.name}')}"

    @property
    def source(self) -> str:
        """Repository, commit and name, as text."""
        return f"{self.repository}, commit {self.commit[:7]}, {self.name}"


def data_folder() -> Path:
    """Return the folder in ``TPUGRAPHS_DATA``, or ``~/data/tpugraphs``."""
    return Path(absolute(os.environ.get(VARIABLE) or "~/data/tpugraphs"))


def find(name: str, sha256: str) -> Path | None:
    """Find a file in the data folder or one of the folders in it; None unless it has this digest."""
    return next((path for path in _files_named(name) if digest_of(path) == sha256), None)


def _files_named(name: str) -> Iterator[Path]:
    """Yield the paths of files of this name, those in the download folder first."""
    folder = data_folder()
    others = (path for path in sorted(folder.glob(f"*/{name}")) if path.parent.name != _STORE)
    for path in (folder / _STORE / name, folder / name, *others):
        if path.is_file():
            yield path


def get(file: PublicFile, download: bool = True) -> Path:
    """Return the path of a public file; if it is missing, download it into the data folder, with a notice.

    Parameters
    ----------
    file : PublicFile
    download : bool
        False: raise an error if it is missing.

    Raises
    ------
    DataError
        It is missing and not downloaded; the message names the address, the folder in which to put it by hand
        and the environment variable.
    """
    found = find(file.name, file.sha256)
    if found is None and not download:
        raise _missing(file, "is not to be downloaded")
    return found or _download(file)


def _download(file: PublicFile) -> Path:
    store = data_folder() / _STORE
    notice(f"tpugraphs: downloading {file.url} ({counted(file.size, 'byte')}) to {store}")
    try:
        store.mkdir(parents=True, exist_ok=True)
        # In a separate folder, so that several processes may do this at a time.
        with tempfile.TemporaryDirectory(prefix=".download-", dir=store) as folder:
            part = Path(folder, file.name)
            fetch(file.url, part, Retries(2, timeout=20))
            digest = digest_of(part)
            if digest == file.sha256:
                os.replace(part, store / file.name)
                return store / file.name
    except DataError as error:
        raise _missing(file, f"cannot be downloaded: {error.found}") from None
    except OSError as error:
        raise _missing(file, f"cannot be stored: {error.filename}: {error.strerror}") from None
    raise _missing(file, f"the file at this address has SHA-256 {digest}, expected {file.sha256}")


def _missing(file: PublicFile, found: str) -> DataError:
    wrong = ", ".join(str(path) for path in _files_named(file.name))
    other = f" ({wrong} has another SHA-256 and is not used)" if wrong else ""
    text = (
        f"{file.name} is not in {data_folder()}{other} and {found}; get it from this "
        f"address by other means and put it into {data_folder() / _STORE}, or set {VARIABLE} to a folder "
        "that has it"
    )
    return DataError(text, file=file.url, field="sha256", expected=file.sha256, found=found)


# --- samples ------------------------------------------------------------------------------------------------


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


def _row(name: Any) -> _Sample:
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
    found = _row(name)
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
    found = _row(name)
    if found.place is None:
        return _alexnet(download)._with(name=name)
    return load_all(get(found.file, download))[found.place]._with(name=name)
