"""Steps whose slates are divided among ranks: the same bits on any number of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.distributed.ranks import Message, Ranks, TreeSum, Vectors, balanced

Visited = Sequence[tuple[int, tuple[Any, ...]]]  # number of a graph, and what is trained of it
Scores = list[NDArray[np.float32]]


class SharedStep:
    """Shares the units of every step of a fit, which are passes of the core over some slates.

    Parameters
    ----------
    ranks : Ranks
        Those that share them.
    units : int
        Number of units in a step.
    """

    def __init__(self, ranks: Ranks, units: int) -> None:
        self.ranks, self.tree, self._sent = ranks, TreeSum(units), bytearray()

    def take(
        self, units: Sequence[Visited], compute: Callable[[Visited, int], tuple[float, Scores]],
        grads: NDArray[np.float32],
    ) -> tuple[list[float], list[Any]]:  # fmt: skip
        """Compute the units of this rank and sum over all.

        Parameters
        ----------
        units : sequence of visits
            The units of the whole step, the same list on every rank.
        compute : callable
            Takes a unit and its number, adds its gradients to `grads`, and returns its loss and scores.
        grads : (n,) float32 array
            The sum of all gradients afterwards, in an order that does not depend on the ranks.

        Returns
        -------
        losses : list of float
            Of all units.
        scored : list of (visit, scores)
            Of all visits.
        """
        ranks, tree, own = self.ranks, self.tree, self.ranks.share(len(units))
        order = balanced([sum(slate[0].num_nodes * len(slate[1]) for _, slate in unit) for unit in units])
        vectors: Vectors = {}

        def work() -> Message:
            losses, scores = list[float](), Scores()
            for place in own:
                grads[:] = 0  # as of the first unit
                loss, found = compute(units[order[place]], order[place])
                losses.append(loss)
                scores += found
                tree.put(vectors, place, grads)
            sent = [np.array(losses), *scores, *(tree.add(vectors, *root) for root in tree.roots(own))]
            size = sum(one.nbytes for one in sent)
            if len(self._sent) != size:  # memory of the system costs more than the message
                self._sent = bytearray(size)
            np.concatenate([one.view(np.uint8) for one in sent], out=np.frombuffer(self._sent, np.uint8))
            return self._sent

        losses, scored, received = list[float](), list[Any](), Vectors()
        for rank, message in enumerate(ranks.exchange(work)):
            mine, at = ranks.share(len(units), rank), 0

            def take(count: int, kind: Any, message: Message = message) -> NDArray[Any]:
                nonlocal at
                at += count * np.dtype(kind).itemsize
                return np.frombuffer(message, kind, count, at - count * np.dtype(kind).itemsize)

            losses += take(len(mine), np.float64).tolist()
            visits = [visit for place in mine for visit in units[order[place]]]
            scored += [(visit, take(len(visit[1][1]), np.float32).copy()) for visit in visits]
            roots = {root: take(grads.size, np.float32) for root in tree.roots(mine)}
            received |= {root: np.require(one, requirements="W") for root, one in roots.items()}
        tree.free(vectors)
        grads[:] = tree.add(received, tree.levels - 1, 0)
        return losses, scored
