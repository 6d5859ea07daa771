"""Optimizer steps of a network: gradients of every part of a batch, then one update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError, DataError, RecipeError
from tpugraphs.system.words import counted
from tpugraphs.training.own_loss import with_own
from tpugraphs.training.tuning import Tuning

if TYPE_CHECKING:
    from tpugraphs import _core
    from tpugraphs.network.network import Network

    Chosen = tuple[_core.Prepared, NDArray[np.int64]]

__all__ = ["Moved", "Optimizer", "parameter_groups", "per_config"]

Layout = Sequence[tuple[str, int, tuple[int, ...]]]
Moved = tuple[Any, Any]
_KEYS = {"match", "learning_rate", "weight_decay"}


class Optimizer:
    """Takes the steps of a network with its recipe's losses, optimizer and parameter groups.

    Parameters
    ----------
    network : Network
    tuning : Tuning, optional
        What a fit trains differently from the recipe.

    Attributes
    ----------
    scores : list of (n,) float32
        Scores in the last pass of every slate, before they were scaled and shifted.

    Raises
    ------
    RecipeError
        A pattern of the recipe's groups that matches no parameter.
    ConfigError
        A loss is a function that is not in the ranker's file, or is combined with weights of configs.
    """

    def __init__(self, network: Network, tuning: Tuning | None = None) -> None:
        f, self.trainer = network.fields, network.trainer
        self.scores: list[NDArray[np.float32]] = []
        self._pass: dict[str, Any] = {
            "losses": with_own(network.loss),
            "seed": network.seed,
            "precision": network.precision,
        }
        self._values, self._times = f.target if network.reads_values else None, network.reads_times
        self._kind, self._most = f.lists, int(f.part)
        self._across = f.lists == "batch" or any(term.get("over") == "batch" for term in network.loss)
        tuning = Tuning() if tuning is None else tuning
        layout = network.model.layout
        self._frozen = tuning.frozen(layout)
        numbers = ("clip", "beta1", "beta2", "eps", "momentum")
        self._optimizer = {
            "kind": f.optimizer,
            "groups": parameter_groups(network.groups, layout, float(f.weight_decay), tuning.patterns),
            **{name: float(getattr(f, name)) for name in numbers},
        }

    def gradients(
        self,
        step: int,
        chosen: Sequence[Chosen],
        part: tuple[int, int] = (0, 1),
        moved: Sequence[Moved | None] = (),
        segments: Sequence[int | None] | None = None,
    ) -> float:
        """Return the loss of part i of n of a step's batch, and add its gradients to those of earlier parts.

        Parameters
        ----------
        step : int
            From 1 on.
        chosen : sequence of (_core.Prepared, (n,) int64)
            Prepared graphs, and which of their configs.
        part : tuple of int
            ``(i, n)``.
        moved : sequence of (scale, shift) or None, optional
            One for each of `chosen`: the losses see ``scale * scores + shift``. A number, or one per config,
            (n,). Where the scores are those of one segment of a graph, `shift` is what the others add.
        segments : sequence of int or None, optional
            Segment of each slate; None: the whole graph.
        """
        segments = [None] * len(chosen) if segments is None else segments
        slates = [(*one, segment) for one, segment in zip(chosen, segments, strict=True)]
        if self._times and any(prepared.weights is not None for prepared, _ in chosen):
            raise ConfigError(
                "sample_weight: a loss that is a Python function sees no weights; weigh its terms inside"
            )
        lists = self._lists([len(rows) for _, rows in chosen], moved)
        loss: float
        loss, self.scores = self.trainer.gradients(
            slates, (self._values, self._across), step=step, part=part, lists=lists, **self._pass
        )
        if not math.isfinite(loss):
            raise DataError(f"the loss is not finite, but {loss}")
        return loss

    def _lists(
        self, sizes: Sequence[int], moved: Sequence[Moved | None]
    ) -> dict[str, NDArray[Any] | None] | None:
        """Return the lists of slates of these sizes as the core takes them, None where each is one."""
        moves = any(one is not None for one in moved)
        if self._kind == "slate" and not moves:
            return None
        lengths = [sum(sizes)] if self._kind == "batch" else list(sizes)
        if self._kind == "part":
            cuts = [(n, -(-n // self._most)) for n in sizes]
            lengths = [n * (i + 1) // k - n * i // k for n, k in cuts for i in range(k)]
        lists: dict[str, NDArray[Any] | None] = {"offsets": np.cumsum([0, *lengths], dtype=np.int64)}
        for i, name in enumerate(("scale", "shift") if moves else ()):
            each = [(1.0, 0.0)[i] if one is None else one[i] for one in moved]
            lists[name] = np.concatenate(
                [per_config(name, value, n) for value, n in zip(each, sizes, strict=True)]
            )
        return lists

    def update(self, step: int, learning_rate: float, norms: list[float]) -> None:
        """Update the parameters by the gradients and append the norm of the gradients to `norms`.

        Both happen in one call in C, so Ctrl-C cannot come in between: the list says whether the step was
        taken.
        """
        optimizer = {**self._optimizer, "lr": learning_rate, "step": step}
        for begin, end in self._frozen:  # they do not count in the norm that clips the others
            self.trainer.grads[begin:end] = 0
        norms.extend(map(self.trainer.update, [optimizer]))


def per_config(name: str, value: Any, n: int) -> NDArray[np.float32]:
    """Return one number for each of n configs, (n,); ConfigError unless `value` is a number or has n."""
    try:
        return np.broadcast_to(np.asarray(value, np.float32), (n,))
    except (TypeError, ValueError):
        found = f"shape {np.shape(value)}" if isinstance(value, np.ndarray) else repr(value)
        raise ConfigError(
            f"{name}: expected a number or one for each of {counted(n, 'config')} of a slate, got {found}"
        ) from None


def parameter_groups(
    patterns: Sequence[Mapping[str, Any]],
    layout: Layout,
    weight_decay: float,
    over: Sequence[Mapping[str, Any]] = (),
) -> list[tuple[int, int, float, float]]:
    """Resolve patterns to groups of the core: (begin, end, factor of the learning rate, weight decay).

    Parameters
    ----------
    patterns : sequence of mapping
        ``{"match": "embedding*", "learning_rate": 0.1, "weight_decay": 0.0}``. The first pattern that matches
        a parameter's name decides. By default the factor is 1 and the decay is `weight_decay`.
    layout : list of (name, offset, shape)
        Layout of the model's parameters.
    weight_decay : float
        Weight decay of all other parameters.
    over : sequence of mapping
        Patterns of a fit: their factors multiply those of `patterns`, their weight decays replace them.

    Raises
    ------
    RecipeError
        A pattern that applies to no parameter, or an unknown entry of a group.
    """
    for pattern in patterns:
        if "match" not in pattern or not pattern.keys() <= _KEYS:
            raise RecipeError(
                f"groups: expected dicts with match, learning_rate and weight_decay, got {pattern}"
            )
    used: set[int | None] = set()
    groups: list[tuple[int, int, float, float]] = []
    for name, begin, shape in layout:
        found = next((i for i, p in enumerate(patterns) if fnmatchcase(name, p["match"])), None)
        chosen = {} if found is None else patterns[found]
        used.add(found)
        tuned = next((p for p in over if fnmatchcase(name, p["match"])), {})
        rate = float(chosen.get("learning_rate", 1.0)) * float(tuned.get("learning_rate", 1.0))
        kind = (rate, float(tuned.get("weight_decay", chosen.get("weight_decay", weight_decay))))
        end = begin + math.prod(shape)
        if groups and groups[-1][2:] == kind:
            begin = groups.pop()[0]
        groups.append((begin, end, *kind))
    for i, pattern in enumerate(patterns):
        if i not in used:
            names = ", ".join(name for name, _, _ in layout)
            raise RecipeError(
                f"groups: {pattern['match']!r} matches no parameter that an earlier pattern left; "
                f"there are {names}"
            )
    return groups
