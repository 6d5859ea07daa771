"""Progress bars: when to show one, and what it looks like."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, Self, TextIO, TypeVar

from tpugraphs.errors import printable
from tpugraphs.system.logs import log

Item = TypeVar("Item")

_DELAY = 1.0  # seconds before a bar appears: short work shows none
_PATIENCE = 1.0  # seconds after which the lock of the bars is taken from whoever kept it
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Show neither bars nor notices in this block, unless ``verbose`` is set."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def wanted(verbose: bool | None) -> bool:
    """Return whether to show progress: as asked, by default (None) in a terminal or notebook."""
    if verbose is not None:
        return bool(verbose)
    if _quiet.get() or sys.stderr is None:  # Python without a console has none
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Lock:
    """Lock of the bars of this process. It is replaced if nobody frees it: a bar out of place beats a hang.

    tqdm's own lock is a semaphore that forked processes share: it stays locked if one of them is killed. Any
    lock stays locked if Ctrl-C interrupts its thread before the release.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)  # the thread that holds it is not in the child

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def acquire(self, *_: object) -> bool:
        while not (lock := self._lock).acquire(timeout=_PATIENCE):
            if self._lock is lock:
                self._renew()
        return True

    def release(self, *_: object) -> None:
        with suppress(RuntimeError):  # it was replaced, or never taken
            self._lock.release()

    __enter__, __exit__ = acquire, release


class _Open:
    """tqdm's set of open bars. Others change it under another lock, so loops are over a copy."""

    def __init__(self, bars: Any) -> None:
        self.add, self.remove, self._bars = bars.add, bars.remove, bars

    def __iter__(self) -> Iterator[Any]:
        return iter([bar for known in self._bars.data.copy() if (bar := known()) is not None])


@cache
def _bars() -> Any:
    """Return tqdm's bar for a terminal or a notebook, with our own lock and without its monitor thread."""
    from tqdm.auto import tqdm

    own = {"_lock": _Lock(), "_instances": _Open(tqdm._instances), "monitor_interval": 0}
    return type("Bar", (tqdm,), own)


def hush() -> None:
    """Show no bars and notices any more, as `quiet` does for a while."""
    _quiet.set(True)


def notice(text: str, verbose: bool | None = None, file: TextIO | None = None) -> None:
    """Log a line; unless `verbose` is False, print it on stderr or `file`, too, above a bar."""
    log.info("%s", text)
    file = sys.stderr if file is None else file
    if (verbose is None and _quiet.get()) or verbose is False or file is None:
        return
    _bars().write(printable(text), file=file)


class Progress:
    """A bar on stderr that goes away at the end; none if not `wanted`, or for short work.

    Parameters
    ----------
    total : int or None
        Units of work, if that is known.
    what, unit : str
        Shown before the bar, and what is counted; ``"B"`` for bytes.
    verbose : bool, optional
        See :func:`wanted`.
    """

    def __init__(self, total: int | None, what: str, unit: str, verbose: bool | None) -> None:
        self._bar: Any = None
        self._what, self._began = f"{what}: {'' if total is None else f'{total:,} '}{unit}", time.monotonic()
        if wanted(verbose):
            look = {"desc": printable(what, ""), "unit": unit, "unit_scale": unit == "B", "delay": _DELAY}
            self._bar = _bars()(total=total, leave=False, dynamic_ncols=True, **look)

    def update(self, count: int) -> None:
        """Count work that is done."""
        if self._bar is not None:
            self._bar.update(count)

    def move(self, done: int, total: int | None) -> None:
        """Show a count of done items and a total."""
        if self._bar is not None:
            self._bar.total = total
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        ended = "over" if error[0] is None else "broken off"
        log.debug("%s, %s after %.3f s", self._what, ended, time.monotonic() - self._began)
        if self._bar is not None:
            self._bar.close()

    def show(self, done: int, values: dict[str, float]) -> None:
        """Show how much is done in all, and values next to it. The bar appears at once and stays."""
        if self._bar is not None:
            self._bar.leave, self._bar.delay = True, 0
            self._bar.set_postfix({name: f"{value:.4f}" for name, value in values.items()}, refresh=False)
            self._bar.update(done - self._bar.n)


def tracked(
    items: Iterable[Item], what: str, unit: str, verbose: bool | None, total: int | None = None
) -> Iterator[Item]:
    """Yield items under a bar that counts them; `total` if they have no length. See `Progress`."""
    total = len(items) if isinstance(items, Sized) else total
    with Progress(total, what, unit, verbose) as bar:
        for item in items:
            yield item
            bar.update(1)
