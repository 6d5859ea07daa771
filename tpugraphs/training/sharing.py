"""Steps whose slates are divided among ranks: the same bits on any number of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.distributed.ranks import Ranks

Fresh = tuple[int, int, int, NDArray[np.int64], NDArray[np.float32]]
"""Scores to be stored: graph, its number of segments, which of them, configs (n,), scores (n,)."""


class SharedStep:
    """Shares the units of every step of a fit, which are passes of the core over some slates.

    Parameters
    ----------
    ranks : Ranks
        Those that share them.
    units : int
        Number of units in a step.
    parameters : int
        Length of their gradients.
    """

    def __init__(self, ranks: Ranks, units: int, parameters: int) -> None:
        self.ranks, self.own = ranks, ranks.share(units)
        ends = [ranks.share(units, rank).stop for rank in range(ranks.size)]
        self.sum = _core.TreeSum(parameters, ends, ranks.rank)

    def take(
        self, work: Sequence[int], compute: Callable[[int], tuple[float, list[Fresh]]],
        grads: NDArray[np.float32], check: Callable[[], None],
    ) -> tuple[list[float], list[Fresh]]:  # fmt: skip
        """Compute the units of this rank and sum over all.

        Parameters
        ----------
        work : sequence of int
            How much work each unit of the step is, the same on every rank.
        compute : callable
            Takes the number of a unit, adds its gradients to `grads`, and returns its loss and scores.
        grads : (n,) float32 array
            The sum of all gradients afterwards, in an order that does not depend on the ranks.
        check : callable
            Raises KeyboardInterrupt if the step is to end, which then ends on all ranks.

        Returns
        -------
        losses : list of float
            Of all units.
        fresh : list of Fresh
            Of all units.
        """
        order = self.sum.order(np.array(work, np.int64)).tolist()

        def share() -> Any:
            found = list[tuple[float, list[Fresh]]]()
            self.sum.clear()
            for place in self.own:
                check()
                grads[:] = 0  # as of the first unit
                found.append(compute(order[place]))
                self.sum.add(grads)
            check()
            return found

        units = [unit for found in self.ranks.exchange(share) for unit in found]
        self.sum.total(self.ranks.comm, grads)
        return [loss for loss, _ in units], [one for _, found in units for one in found]
