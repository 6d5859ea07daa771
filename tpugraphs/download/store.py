"""The folder where downloads wait until they are complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tpugraphs.system.files import locked

__all__ = ["store_below"]


@contextmanager
def store_below(folder: Path) -> Iterator[Path]:
    """Make ``folder/.download`` and hold it alone; at the end it is removed if nothing is left in it.

    Raises
    ------
    ConfigError
        Another process downloads to the same folder.
    KeyboardInterrupt
        Ctrl-C: says that what is there is kept.
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
