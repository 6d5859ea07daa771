"""Selection among several trained rankers by rules that are stated before the training."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.evaluation.bootstrap import bootstrap_mean, deviations
from tpugraphs.system.arguments import is_whole

__all__ = ["ONE_STANDARD_ERROR", "Choice", "Rule", "SeedMetrics"]

#: Name of the rule that keeps all seeds within one standard error of the best.
ONE_STANDARD_ERROR = "one-standard-error"
_DRAWS, _LEVEL = 1000, 0.95


@dataclass(frozen=True)
class Rule:
    """A rule of selection.

    Parameters
    ----------
    name : str
        As in `select` of :func:`tpugraphs.train_seeds`.
    most : int, optional
        Keep at most this many, the best.
    """

    name: str
    most: int | None = None

    @classmethod
    def parse(cls, select: str | int) -> Rule:
        """Return the rule that a word names.

        Parameters
        ----------
        select : str or int
            ``"all"``, ``"one-standard-error"``, ``"best-3"``, or a number: that many of the best.

        Returns
        -------
        Rule
            With its text.

        Raises
        ------
        ConfigError
            Unknown rule.
        """
        if select in ("all", ONE_STANDARD_ERROR):
            return cls(str(select))
        found = re.fullmatch(r"best-(\d{1,9})", select) if isinstance(select, str) else None
        most = int(found[1]) if found else select
        if is_whole(most, 1):
            return cls(f"best-{int(most)}", int(most))
        raise ConfigError(
            f"select: expected 'all', {ONE_STANDARD_ERROR!r}, or 'best-3' for the best three, got {select!r}"
        )

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.most is not None:
            return f"keep the {self.most} with the greatest validation metric; of equal ones the first seeds"
        if self.name == "all":
            return "keep all"
        return (
            "keep those whose validation metric is less than the best one's by at most one standard error "
            "of that difference"
        )


@dataclass(frozen=True)
class Choice:
    """Whether one ranker was selected, and why.

    Attributes
    ----------
    selected : bool
        Whether it is kept.
    why : str
        The reason, in a few words.
    """

    selected: bool
    why: str


class SeedMetrics:
    """Validation metrics of several rankers on the same graphs.

    Parameters
    ----------
    scores : sequence of sequence of (n,) arrays
        Scores by every ranker for every graph.
    runtimes : sequence of (n,) arrays
        Runtimes of every graph.
    metric : callable
        ``metric(scores, runtimes)``: greater is better.

    Attributes
    ----------
    values : (rankers, graphs) float64
    means : (rankers,) float64
        Means over the graphs.
    mean, sd : float
        Mean and sample standard deviation of `means`; `sd` is NaN for a single ranker.
    interval : (float, float)
        95 % bootstrap interval of `mean`.
    over : str
        What was redrawn for it: ``"graphs"``, or ``"configs"`` where there is one graph.
    """

    def __init__(
        self,
        scores: Sequence[Sequence[NDArray[Any]]],
        runtimes: Sequence[NDArray[Any]],
        metric: Callable[[NDArray[Any], NDArray[Any]], float],
    ) -> None:
        self.values = np.array(
            [[metric(s, y) for s, y in zip(own, runtimes, strict=True)] for own in scores], np.float64
        )
        self.means = self.values.mean(axis=1)
        self.mean = float(self.means.mean())
        self.sd = float(self.means.std(ddof=1)) if len(self.means) > 1 else math.nan
        self.over = "graphs" if len(runtimes) > 1 else "configs"
        if self.over == "graphs":
            self._samples, self._size = self.values, len(runtimes)
            self.interval = bootstrap_mean(self.values.mean(axis=0), _DRAWS, _LEVEL, 0)
            return
        tail, own = (1 - _LEVEL) / 2, [of[0] for of in scores]
        self._samples, self._size = deviations(own, runtimes[0], metric, draws=_DRAWS, seed=0), 1
        low, high = self.mean + np.quantile(self._samples.mean(axis=0), [tail, 1 - tail])
        self.interval = (float(low), float(high))

    @property
    def best(self) -> int:
        """Ranker with the greatest mean, the first of equal ones."""
        return int(np.argmax(self.means))

    def standard_error(self, one: int, other: int) -> float:
        """Return the standard error of the difference of two rankers' metrics.

        It is taken over the graphs, or over redrawn configs of a single graph. Both rankers are judged on
        the same ones, so the difficulty that these have in common cancels.

        Parameters
        ----------
        one, other : int
            Places of the two rankers.

        Returns
        -------
        float
            In the unit of the metric.
        """
        differences = self._samples[one] - self._samples[other]
        return float(differences.std(ddof=1) / math.sqrt(self._size))

    def choose(self, rule: Rule) -> list[Choice]:
        """Apply a rule to all rankers.

        Parameters
        ----------
        rule : Rule
            What decides.

        Returns
        -------
        list of Choice
            One per ranker, in their order.
        """
        places = np.argsort(np.argsort(-self.means, kind="stable"))
        return [self._choice(rule, i, place) for i, place in enumerate(places.tolist())]

    def _choice(self, rule: Rule, i: int, place: int) -> Choice:
        number = f"{self.means[i]:.4f}"
        if rule.name == "all":
            return Choice(True, f"{number}: all are kept")
        if rule.most is not None:
            kept = place < rule.most
            limit = f"{'among' if kept else 'not among'} the best {rule.most}"
            return Choice(kept, f"{number} is number {place + 1}, {limit}")
        if i == self.best:
            return Choice(True, f"{number} is the best")
        error, gap = self.standard_error(self.best, i), float(self.means[self.best] - self.means[i])
        kept = gap <= error
        return Choice(
            kept,
            f"{number} is {gap:.4f} below the best, {'at most' if kept else 'more than'} one standard error "
            f"of {error:.4f}",
        )
