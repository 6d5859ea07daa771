"""Public files that the package reads but does not ship: from a data folder, or downloaded.

Each is known by its SHA-256. A file with another digest is never read, wherever it comes from.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tpugraphs.errors import DataError
from tpugraphs.system.files import absolute, digest_of
from tpugraphs.system.progress import notice
from tpugraphs.system.transfer import Retries, fetch
from tpugraphs.system.words import counted

__all__ = ["GITHUB", "VARIABLE", "PublicFile", "data_folder", "find", "get"]

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
    return next((path for path in _named(name) if digest_of(path) == sha256), None)


def _named(name: str) -> Iterator[Path]:
    """Yield files of this name, first those in the folder of downloads."""
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
            if digest != file.sha256:
                raise _missing(file, f"the file at this address has SHA-256 {digest}, expected {file.sha256}")
            os.replace(part, store / file.name)
    except DataError as error:
        if error.field == "sha256":
            raise
        raise _missing(file, f"cannot be downloaded: {error.found}") from None
    except OSError as error:
        raise _missing(file, f"cannot be stored: {error.filename}: {error.strerror}") from None
    return store / file.name


def _missing(file: PublicFile, found: str) -> DataError:
    wrong = ", ".join(str(path) for path in _named(file.name))
    other = f" ({wrong} has another SHA-256 and is not used)" if wrong else ""
    text = (
        f"{file.name} is not in {data_folder()}{other} and {found}; get it from this "
        f"address by other means and put it into {data_folder() / _STORE}, or set {VARIABLE} to a folder "
        "that has it"
    )
    return DataError(text, file=file.url, field="sha256", expected=file.sha256, found=found)
