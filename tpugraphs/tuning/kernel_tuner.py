"""Kernel Tuner: our tuner as a strategy of ``kernel_tuner.tune_kernel``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tpugraphs.errors import ConfigError
from tpugraphs.system.arguments import check_whole
from tpugraphs.tuning.space import Space
from tpugraphs.tuning.tuner import Tuner

__all__ = ["Strategy"]

_STATUS = {"CompilationFailedConfig": "compile", "InvalidConfig": "constraints"}


class Strategy:
    """A strategy that asks a tuner; the budget is Kernel Tuner's, ``max_fevals`` or ``time_limit``.

    Parameters
    ----------
    batch : int
        Configs asked for at once.
    make : callable, optional
        Makes the tuner, as `Tuner` is called; by default that.
    **options
        Arguments of the tuner, such as `seed` and `records`.

    Attributes
    ----------
    tuner : Tuner or None
        That of the last call of `tune`.

    Examples
    --------
    ::

        strategy = tg.tuning.kernel_tuner.Strategy(records=tg.records.read("other_gpus.json"))
        kernel_tuner.tune_kernel(..., strategy=strategy, strategy_options={"max_fevals": 100})
    """

    def __init__(self, batch: int = 1, make: Callable[..., Any] = Tuner, **options: Any) -> None:
        self.batch, self.make, self.options = check_whole("batch", batch, 1, 1 << 20), make, options
        self.tuner: Any = None

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Search; Kernel Tuner calls this.

        Parameters
        ----------
        searchspace, runner, tuning_options
            Those of Kernel Tuner.

        Returns
        -------
        list of dict
            Its results.

        Raises
        ------
        ConfigError
            There is more than one objective.
        """
        from kernel_tuner.strategies.common import CostFunc
        from kernel_tuner.util import StopCriterionReached

        if len(tuning_options.objective) != 1:
            raise ConfigError(f"objective: expected one, got {', '.join(tuning_options.objective)}")
        (objective,), (more,) = tuning_options.objective, tuning_options.objective_higher_is_better
        names = list(searchspace.tune_params)
        space = Space.from_table([dict(zip(names, row, strict=True)) for row in searchspace.list])
        self.tuner = self.make(space, direction="maximize" if more else "minimize", **self.options)
        cost = CostFunc(searchspace, tuning_options, runner, scaling=False, snap=False)
        results: list[dict[str, Any]] = cost.results
        try:
            while configs := self.tuner.ask(self.batch):
                done = len(results)
                cost.eval_all([tuple(config[name] for name in names) for config in configs])
                new = results[done:]
                values = [math.nan if "__error__" in one else float(one[objective]) for one in new]
                self.tuner.tell(configs, values, [_status(one) for one in new])
        except StopCriterionReached as stopped:
            if tuning_options.verbose:
                print(stopped)
        return results


def _status(result: dict[str, Any]) -> str:
    """Return the status of a result of Kernel Tuner, as `Tuner.tell` takes it."""
    if "__error__" not in result:
        return "correct"
    return _STATUS.get(type(result["__error__"]).__name__, "runtime")
