"""Steps whose slates are divided among ranks: the same bits on any number of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.distributed.ranks import Message, Ranks, TreeSum, Vectors, balanced

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
    """

    def __init__(self, ranks: Ranks, units: int) -> None:
        self.ranks, self.tree, self._sent = ranks, TreeSum(units), bytearray()

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
        ranks, tree, order, own = self.ranks, self.tree, balanced(work), self.ranks.share(len(work))
        vectors: Vectors = {}

        def share() -> Message:
            losses, fresh = list[float](), list[Fresh]()
            check()
            for place in own:
                check()
                grads[:] = 0  # as of the first unit
                loss, found = compute(order[place])
                losses.append(loss)
                fresh += found
                tree.put(vectors, place, grads)
            heads = np.array([len(fresh), *(n for one in fresh for n in (*one[:3], len(one[3])))])
            parts = [one[3] for one in fresh] + [one[4] for one in fresh]
            roots = [tree.add(vectors, *root) for root in tree.roots(own)]
            sent = [np.array(losses), heads, *parts, *roots]
            size = sum(one.nbytes for one in sent)
            if len(self._sent) != size:  # memory of the system costs more than the message
                self._sent = bytearray(size)
            np.concatenate([one.view(np.uint8) for one in sent], out=np.frombuffer(self._sent, np.uint8))
            return self._sent

        losses, scored, received = list[float](), list[Fresh](), Vectors()
        for rank, message in enumerate(ranks.exchange(share)):
            mine, at = ranks.share(len(work), rank), 0

            def take(count: int, kind: Any, message: Message = message) -> NDArray[Any]:
                nonlocal at
                at += count * np.dtype(kind).itemsize
                return np.frombuffer(message, kind, count, at - count * np.dtype(kind).itemsize)

            losses += take(len(mine), np.float64).tolist()
            heads = take(4 * int(take(1, np.int64)[0]), np.int64).reshape(-1, 4).tolist()
            rows = [take(head[3], np.int64) for head in heads]
            scores = [take(head[3], np.float32).copy() for head in heads]
            scored += [(*head[:3], *pair) for head, *pair in zip(heads, rows, scores, strict=True)]
            roots = {root: take(grads.size, np.float32) for root in tree.roots(mine)}
            received |= {root: np.require(one, requirements="W") for root, one in roots.items()}
        tree.free(vectors)
        grads[:] = tree.add(received, tree.levels - 1, 0)
        return losses, scored
