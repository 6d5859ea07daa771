"""The folder where downloads wait until they are complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tpugraphs.system.files import locked


@contextmanager
def store_below(folder: Path) -> Iterator[Path]:
    """Make and lock ``folder/.download``; at the end it is removed if it is empty.

    Raises
    ------
    ConfigError
        Another process downloads to the same folder.
    KeyboardInterrupt
        Ctrl-C; the message says where the bytes so far are kept.
    """
    store = folder / ".download"
    store.mkdir(parents=True, exist_ok=True)
    try:
        with locked(str(store), "another download"):
            yield store
    except KeyboardInterrupt:
        kept = f"(what is there is kept in {folder}; the same command resumes from there)"
        raise KeyboardInterrupt(kept) from None
    with suppress(OSError):  # it is not empty
        store.rmdir()
