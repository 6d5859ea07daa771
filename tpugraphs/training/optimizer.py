"""What changes the weights of a network: steps of an optimizer, fine-tuning, averages, adaptation."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import ConfigError, DataError, RecipeError
from tpugraphs.recipes.functions import PREFIX, is_lost, plain_name
from tpugraphs.system.arguments import check_number, check_whole

if TYPE_CHECKING:
    from tpugraphs.network.network import Network

Layout = Sequence[tuple[str, int, tuple[int, ...]]]  # name, begin and shape of every parameter
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
        _check_losses(network.loss)
        f, layout, self.trainer = network.fields, network.model.layout, network.trainer
        self.scores: list[NDArray[np.float32]] = []
        self._pass: dict[str, Any] = {
            "losses": network.loss,
            "lists": (f.lists, int(f.part)),
            "seed": network.seed,
            "precision": network.precision,
        }
        across = f.lists == "batch" or any(term.get("over") == "batch" for term in network.loss)
        # parts of a step that can be computed apart
        self.units = int(f.accumulate) * (1 if across else int(f.slates))
        self._targets = (f.target if "values" in network.reads else None, across)
        self._weightless = "times" in network.reads
        tuning = tuning or Tuning()
        self._frozen = tuning.frozen(layout)
        numbers = ("clip", "beta1", "beta2", "eps", "momentum")
        self._optimizer = {
            "kind": f.optimizer,
            "groups": parameter_groups(network.groups, layout, float(f.weight_decay), tuning.patterns),
            **{name: float(getattr(f, name)) for name in numbers},
        }

    def gradients(
        self, step: int, slates: Sequence[tuple[Any, ...]], part: tuple[int, int] = (0, 1)
    ) -> float:
        """Return the loss of part i of n of a step's batch, and add its gradients to those of earlier parts.

        Parameters
        ----------
        step : int
            From 1 on.
        slates : sequence of (_core.Prepared, (n,) int64), or of what ``_core.Segments.draw`` returns
            Prepared graphs, and which of their configs. There may follow the segment that is trained (None:
            the whole graph), and a pair: losses see ``scale * scores + shift``, numbers or arrays (n,).
        part : tuple of int
            ``(i, n)``.
        """
        if self._weightless and any(prepared.weights is not None for prepared, *_ in slates):
            raise ConfigError(
                "sample_weight: a loss that is a Python function sees no weights; weigh its terms inside"
            )
        loss: float
        loss, self.scores = self.trainer.gradients(slates, self._targets, step=step, part=part, **self._pass)
        if not math.isfinite(loss):
            raise DataError(f"the loss is not finite, but {loss}")
        return loss

    def update(self, step: int, learning_rate: float, norms: list[float]) -> None:
        """Update the parameters by the gradients and append the norm of the gradients to `norms`.

        Both happen in one call in C, so Ctrl-C cannot come in between: the list says whether the step was
        taken.
        """
        optimizer = {**self._optimizer, "lr": learning_rate, "step": step}
        for begin, end in self._frozen:  # they do not count in the norm that clips the others
            self.trainer.grads[begin:end] = 0
        norms.extend(map(self.trainer.update, [optimizer]))


def _check_losses(terms: Sequence[Mapping[str, Any]]) -> None:
    """Check the functions among the terms of a loss; the core checks what they return.

    A function takes `scores` (E,) float32, smaller is faster; `runtimes` (E,) float64, in nanoseconds or the
    unit of the schema, of tile graphs normalised; and `lists` (B+1,) int64: list i is
    ``[lists[i], lists[i+1])``. Configs of different lists are not to be compared. All three are copies. It
    returns the loss, a finite number, and its gradient with respect to the scores, (E,) float32 or float64.

    Raises
    ------
    ConfigError
        A term is a function that was not in the file of the ranker, or takes other arguments.
    """
    for loss in (term["loss"] for term in terms):
        if is_lost(loss):
            name = loss.removeprefix(PREFIX).partition("#")[0]
            raise ConfigError(
                f"loss: this ranker was trained with the Python function {name}, and files hold no code: "
                f"give it with ranker.set_params(loss={name}), which keeps what was learnt, or choose another"
            )
        if isinstance(loss, str):
            continue
        try:
            signature = inspect.signature(loss)
        except (TypeError, ValueError):  # of a function in C it may not be known
            continue
        try:
            signature.bind(None, None, None)
        except TypeError:
            name = plain_name(loss)
            raise ConfigError(
                f"loss {name}: expected a function of three arguments (scores, runtimes, lists), got "
                f"{name}{signature}"
            ) from None


# Parameters by patterns of their names


def _first_matches(patterns: Sequence[Mapping[str, Any]], layout: Layout) -> list[int | None]:
    """Return the number of the first pattern that matches each parameter, None where none does."""
    numbered = list(enumerate(patterns))
    return [next((i for i, p in numbered if fnmatchcase(name, p["match"])), None) for name, _, _ in layout]


def _unmatched(pattern: Any, layout: Layout) -> str:
    """Return the text of an error about a pattern that applies to no parameter."""
    names = [name for name, _, _ in layout]
    near = difflib.get_close_matches(pattern, names, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    text = f"{pattern!r} matches no parameter that an earlier pattern left{hint}"
    return f"{text}; there are {', '.join(names)}"


class Tuning:
    """What a fit trains differently from its recipe; see :meth:`tpugraphs.Ranker.fit`.

    Parameters
    ----------
    freeze : str or sequence of str
        Patterns of names of parameters that do not change.
    groups : sequence of mapping
        ``{"match": "head.*", "learning_rate": 10.0}``: a factor of the rate, ``weight_decay``, or both.

    Attributes
    ----------
    patterns : list of dict
        All of them; the first that matches a parameter decides.

    Raises
    ------
    ConfigError
        Anything else, or a number that is negative or not finite.
    """

    def __init__(self, freeze: Any = (), groups: Any = ()) -> None:
        given = [freeze] if isinstance(freeze, str) else freeze
        if not isinstance(given, (list, tuple)) or not all(isinstance(pattern, str) for pattern in given):
            raise ConfigError(f"freeze: expected patterns of names of parameters, got {freeze!r:.80}")
        if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Mapping) for group in groups):
            raise ConfigError(f"groups: expected a list of dicts, got {groups!r:.80}")
        self.freeze, self.groups = list(given), [_checked(group) for group in groups]
        still = [{"match": pattern, "learning_rate": 0.0, "weight_decay": 0.0} for pattern in self.freeze]
        self.patterns: list[dict[str, Any]] = [*still, *self.groups]

    def frozen(self, layout: Layout) -> list[tuple[int, int]]:
        """Return the ranges (begin, end) of the frozen parameters in the flat array of weights.

        Raises
        ------
        ConfigError
            A pattern that applies to no parameter, or no parameter is left to train.
        """
        found, count = _first_matches(self.patterns, layout), len(self.freeze)
        for i, pattern in enumerate(self.patterns):
            if i not in found:
                what = "freeze" if i < count else "groups"
                raise ConfigError(f"{what}: {_unmatched(pattern['match'], layout)}")
        still = [i is not None and i < count for i in found]
        if all(still):
            expected = "some parameter to be left to train"
            raise ConfigError(f"freeze: expected {expected}, got patterns of all of them")
        return [(begin, begin + math.prod(shape)) for _, begin, shape in compress(layout, still)]


def _checked(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group as plain values."""
    match, numbers = group.get("match"), {name: value for name, value in group.items() if name != "match"}
    if not isinstance(match, str) or not numbers or not group.keys() <= _KEYS:
        raise ConfigError(
            "groups: expected dicts such as {'match': 'head.*', 'learning_rate': 10.0, 'weight_decay': 0.0}, "
            f"got {dict(group)!r:.80}"
        )
    what = "groups: {} of {!r}"
    return {"match": match} | {n: check_number(what.format(n, match), v, 0, 1e9) for n, v in numbers.items()}


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
        for name in pattern.keys() - {"match"}:
            check_number(f"groups: {name} of {pattern['match']!r}", pattern[name], 0, 1e9)
    recipe, fit = _first_matches(patterns, layout), _first_matches(over, layout)
    for i, pattern in enumerate(patterns):
        if i not in recipe:
            raise RecipeError(f"groups: {_unmatched(pattern['match'], layout)}")
    groups: list[tuple[int, int, float, float]] = []
    for (_, begin, shape), one, other in zip(layout, recipe, fit, strict=True):
        chosen, tuned = {} if one is None else patterns[one], {} if other is None else over[other]
        rate = float(chosen.get("learning_rate", 1.0)) * float(tuned.get("learning_rate", 1.0))
        kind = (rate, float(tuned.get("weight_decay", chosen.get("weight_decay", weight_decay))))
        end = begin + math.prod(shape)
        if groups and groups[-1][2:] == kind:
            begin = groups.pop()[0]
        groups.append((begin, end, *kind))
    return groups


# Averages over steps, and steps that do not go all the way


class Average:
    """Average of a network's weights over steps of a fit, which depends less on the last few steps.

    ``"ema"``: ``value = d value + (1 - d) params`` after every step. d is `ema_decay`, but at first
    ``(1 + step) / (10 + step)``, so that the weights of the beginning are forgotten.

    ``"swa"`` (Izmailov et al. 2018): the mean of the weights after some steps. These are the last step and
    every `swa_every`-th before it, as far as they come after the share `swa_start` of all steps.

    Parameters
    ----------
    fields : object
        `average`, `ema_decay`, `swa_start`, `swa_every`.
    total : int
        Steps of the fit.

    Attributes
    ----------
    value : (P,) float64 or None
        None as long as no step is part of it.
    """

    def __init__(self, fields: Any, total: int) -> None:
        self._kind, self._decay, self._every = fields.average, float(fields.ema_decay), int(fields.swa_every)
        start = min(int(fields.swa_start * total), total - 1)
        self._first = start + 1 + (total - start - 1) % self._every
        self.value: NDArray[np.float64] | None = None

    def begun(self, step: int) -> bool:
        """Return whether there is an average after this many steps."""
        return step >= {"none": np.inf, "ema": 1, "swa": self._first}[self._kind]

    def add(self, step: int, params: NDArray[np.float32]) -> None:
        """Take the weights (P,) after a step into the average, if that is one of its steps."""
        number, remainder = divmod(step - self._first, self._every)
        if not self.begun(step) or (self._kind == "swa" and remainder):
            return
        share = 1 / (number + 1) if self._kind == "swa" else max(1 - self._decay, 9 / (10 + step))
        if self.value is None:
            self.value = params.astype(np.float64)
        else:
            _core.average(self.value, params, share)

    @contextmanager
    def in_use(self, params: NDArray[np.float32]) -> Iterator[None]:
        """Put the average into the weights (P,) as long as the context lasts, if there is one."""
        own = params.copy()
        params[:] = own if self.value is None else self.value
        try:
            yield
        finally:
            params[:] = own


def adapt(
    network: Network, step: Callable[[], Any], steps: int, anchor: float, only: Sequence[str] | None
) -> None:
    """Learn from a few measurements without forgetting what was learnt from many.

    See :meth:`tpugraphs.Ranker.adapt`; `step` takes one step.
    """
    check_whole("steps", steps, 1)
    anchor = check_number("anchor", anchor, 0, 1)
    patterns = ["*"] if only is None else [only] if isinstance(only, str) else list(only)
    names = network.parameters
    if not patterns or not all(any(fnmatchcase(name, p) for name in names) for p in patterns):
        raise ConfigError(f"only: expected patterns that match names of {', '.join(names)}; got {only!r}")
    back = np.ones(network.num_parameters, np.float32)  # the share of its way that each weight moves back
    for name, begin, shape in network.model.layout:
        if any(fnmatchcase(name, p) for p in patterns):
            back[begin : begin + math.prod(shape)] = anchor
    weights = network.model.params
    before = weights.copy()
    for _ in range(steps):
        step()
        weights[:] = before + (1 - back) * (weights - before)
