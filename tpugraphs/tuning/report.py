"""Report of a tuner: its measurements and its surrogate, as a table, a picture and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpugraphs.system import json_text, tables
from tpugraphs.tuning.tuned import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class TunerReport:
    """Report on a tuner: its measurements, and how well its surrogate ranks them.

    Attributes
    ----------
    best : dict or None
        The best configuration.
    runtime : float
        Its runtime.
    direction : str
        ``"minimize"`` or ``"maximize"``.
    runtimes : list of float
        Measured values in order; NaN where a configuration failed.
    failures : dict of str to int
        Configurations that failed, by status.
    surrogate : dict
        The ``model`` of the last `ask`, and Kendall's tau of the ``process`` and of ``trees`` by
        cross-validation.
    priors : dict of str to float
        Kendall's tau of what was known before, each ranker and group of records, with what was measured.
    """

    best: dict[str, Any] | None
    runtime: float
    direction: str
    runtimes: list[float]
    failures: dict[str, int]
    surrogate: dict[str, Any]
    priors: dict[str, float]

    def table(self) -> str:
        """Return a text table."""
        rows = [{"what": "measurements", "value": f"{len(self.runtimes):,}"}]
        rows += [{"what": f"failed: {status}", "value": f"{n:,}"} for status, n in self.failures.items()]
        rows += [{"what": f"best {self.direction}d", "value": f"{self.runtime:.6g}"}]
        rows += [{"what": name, "value": str(value)} for name, value in (self.best or {}).items()]
        rows += [{"what": f"surrogate: {k}", "value": _short(v)} for k, v in self.surrogate.items()]
        rows += [{"what": f"tau of {name}", "value": _short(tau)} for name, tau in self.priors.items()]
        return tables.text(*tables.section("tuner", rows))

    def curve(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the best so far (n,) after each measurement; NaN before one ran."""
        best = np.fmin if self.direction == "minimize" else np.fmax
        return np.asarray(best.accumulate(np.array(self.runtimes, np.float64)))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw measurements and the best so far.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; by default a new figure.

        Returns
        -------
        Axes
            Of the picture.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        number = np.arange(1, len(self.runtimes) + 1)
        ax.plot(number, self.runtimes, ".", color="0.7", label="measured")
        ax.step(number, self.curve(), where="post", label="best so far")
        ax.set(xlabel="measurements", ylabel="runtime" if self.direction == "minimize" else "value")
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None for numbers that are not finite."""
        numbers = ("runtime", "runtimes", "surrogate", "priors")
        return asdict(self) | {name: plain(getattr(self, name)) for name in numbers}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json_text(self.to_dict()) + "\n"

    def __str__(self) -> str:
        return self.table()


def _short(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
