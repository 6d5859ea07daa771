"""Ctrl-C during long work."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Interrupts:
    """Let Ctrl-C take effect at safe places only.

    While `armed` (a pass of the core is running, which leaves the parameters untouched when interrupted) it
    raises KeyboardInterrupt at once; otherwise it is remembered in `pressed`. A second one always raises.
    """

    def __init__(self, armed: bool = False) -> None:
        self.armed, self.pressed, self.installed = armed, False, False

    def __enter__(self) -> Interrupts:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self.installed = True
        return self

    def _handle(self, number: int, frame: Any) -> None:
        again, self.pressed = self.pressed, True
        if again or self.armed:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed: Python drops it in a callback of gc, as in JAX."""
        if self.pressed:
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        if self.installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
