"""Progress bars: when there is one, and what it looks like."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from tpugraphs.system.logs import log

__all__ = ["Progress", "notice", "quiet", "tracked", "wanted"]

Item = TypeVar("Item")

_DELAY = 1.0  # seconds before a bar appears: short work shows none
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Show neither bars nor notices in this block where ``verbose`` is left to the default."""
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


def notice(text: str, verbose: bool | None = None) -> None:
    """Log a line, and print it on stderr, above a bar if there is one; no print if `verbose` is False."""
    log.info("%s", text)
    if (verbose is None and _quiet.get()) or verbose is False or sys.stderr is None:
        return
    from tqdm import tqdm

    tqdm.write(text, file=sys.stderr)


class Progress:
    """A bar on stderr that goes away at the end; none where not `wanted`, or over soon.

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
            from tqdm.auto import tqdm

            look = {"unit": unit, "unit_scale": unit == "B", "delay": _DELAY}
            self._bar = tqdm(total=total, desc=what, leave=False, dynamic_ncols=True, **look)

    def update(self, count: int) -> None:
        """Count work that is done."""
        if self._bar is not None:
            self._bar.update(count)

    def move(self, done: int, total: int | None) -> None:
        """Show how much is done of how much."""
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
        """Show how much is done in all, and values next to it. Such a bar comes at once and stays."""
        if self._bar is not None:
            self._bar.leave, self._bar.delay = True, 0
            self._bar.set_postfix({name: f"{value:.4f}" for name, value in values.items()}, refresh=False)
            self._bar.update(done - self._bar.n)


def tracked(items: Iterable[Item], what: str, unit: str, verbose: bool | None) -> Iterator[Item]:
    """Yield items under a bar that counts them; arguments: see `Progress`."""
    total = len(items) if isinstance(items, Sized) else None
    with Progress(total, what, unit, verbose) as bar:
        for item in items:
            yield item
            bar.update(1)
