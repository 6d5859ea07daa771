"""Checkpoints: the state of a fit in a file, from which the same fit resumes with the same bits."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from tpugraphs import _core
from tpugraphs.data.identity import digest
from tpugraphs.errors import CheckpointError, printable
from tpugraphs.preprocess.pipeline import Pipeline
from tpugraphs.recipes import plain
from tpugraphs.recipes.declared import plain_value
from tpugraphs.recipes.functions import function_name
from tpugraphs.system import counted, tensorfile
from tpugraphs.system.arguments import is_number

if TYPE_CHECKING:
    from tpugraphs.training.fit import Fit, FitOptions

#: Name of the file with the state of a fit, in its folder of checkpoints.
CHECKPOINT = "checkpoint.safetensors"
# Of a history in a checkpoint: lists, and entries of the metadata with their types.
_CURVES = {"valid_steps": np.int64} | dict.fromkeys(("loss", "learning_rate", "valid_metric"), np.float64)
_TEXT, _NUMBER = (str, NoneType), (float, int)
_FACTS: dict[str, Any] = {"best_step": (int, NoneType), "seconds": _NUMBER, "stopped": _TEXT, "skipped": dict}
_LONGEST = 1e12  # seconds of a fit
State = tuple[dict[str, Any], dict[str, Any]]  # metadata and tensors of a checkpoint


def identity(fit: Fit, how: FitOptions) -> dict[str, Any]:
    """Return the entries that a checkpoint must match before a fit resumes from it."""
    network, extra, init = fit.network, fit.network.pipeline.extra, how.init
    # what name and fields of a custom recipe do not fix
    model = [network.pipeline.steps, network.steps, network.recipe.losses(fit.fields), network.groups]
    return {
        "recipe": network.recipe.name,
        "seed": fit.seed,
        "precision": network.precision,
        **{f"field {n}": v for n, v in plain(fit.fields).items() if n not in ("steps", "epochs")},
        "total steps": fit.total,
        **fit.data.hashes,
        **({} if fit.shared is None else {"gradients": "by slate, balanced"}),
        **({} if extra is None else {"extra": function_name(extra)}),
        **({} if init is None else {"init": digest([init.network.model.params])}),
        "model": digest([json.dumps(plain_value(model))], 8),
        **{name: given for name in ("freeze", "groups") if (given := getattr(how.tuning, name))},
        "callbacks": [type(callback).__name__ for callback in fit.callbacks],
    }


def write(fit: Fit, path: str) -> None:
    """Write the state of a fit."""
    tensorfile.write(path, "checkpoint", *contents(fit))


def read(path: str) -> State:
    """Read what `write` wrote; CheckpointError if it is damaged."""
    return tensorfile.read(path, "checkpoint")


def contents(fit: Fit) -> State:
    """Return the state of a fit."""
    history, pipeline = fit.history, fit.network.pipeline
    metadata = {
        **{name: getattr(history, name) for name in _FACTS},
        "identity": fit.identity,
        "preprocessing": pipeline.steps,
        "instruction_sets": fit.instruction_sets,
        "step": fit.step,
        "sampler": {"visit": fit.visit},
        "seconds_of": [history.step_seconds, history.evaluation_seconds],
        "callbacks": [callback.state() for callback in fit.callbacks],
    }
    optional = {"best_params": fit.best, "average": fit.average.value}
    tensors = {
        **{name: np.asarray(getattr(history, name), kind) for name, kind in _CURVES.items()},
        **{name: array for name, array in optional.items() if array is not None},
        **fit.network.weights(),
        **pipeline.tensors(),
        **fit.segments.tensors(),
    }
    return metadata, tensors


def restore(fit: Fit, path: str, state: State) -> None:
    """Continue a fit from the state in a file; CheckpointError if it cannot be one, or is another fit's."""
    metadata, tensors = state
    entry = functools.partial(tensorfile.entry, path, metadata)
    take = functools.partial(tensorfile.take, path, tensors)
    _compare(fit, path, entry("identity", dict))

    def check(fine: bool, name: str, expected: str, found: Any) -> None:
        if not fine:
            raise tensorfile.fail(path, name, expected, repr(found)[:80])

    facts = {name: entry(name, kinds) for name, kinds in _FACTS.items()}
    step, states = entry("step", int), entry("callbacks", list)
    visit = tensorfile.entry(path, entry("sampler", dict), "visit", int)
    sets = entry("instruction_sets", list) if "instruction_sets" in metadata else []  # a later addition
    check(all(isinstance(name, str) for name in sets), "instruction_sets", "names", sets)
    fits = 0 <= step <= fit.total and len(states) == len(fit.callbacks)
    check(fits, "step", f"a step of {fit.total}", step)
    least = step * fit.per_step
    bound = 100 * (least + 1) * fit.visits.period  # each visit too many costs time
    most = bound if facts["skipped"] else least
    after = f"{least} to {most} after {counted(step, 'step')}"
    check(least <= visit <= most, "sampler.visit", after, visit)
    spent = entry("seconds_of", list)
    times = len(spent) == 2 and all(is_number(one, 0, _LONGEST) for one in spent)
    check(times, "seconds_of", "two numbers", spent)
    size = (fit.network.num_parameters,)
    arrays = {name: take(name, size, np.float32) for name in ("params", "moment1", "moment2")}
    best = take("best_params", size, np.float32) if facts["best_step"] is not None else None
    average = take("average", size, np.float64) if fit.average.begun(step) else None
    judged = np.size(tensors.get("valid_steps", ()))
    lengths = {"valid_steps": judged, "valid_metric": judged}
    curves = {n: take(n, (lengths.get(n, step),), kind).tolist() for n, kind in _CURVES.items()}
    pipeline = Pipeline.from_file(path, entry("preprocessing", list), tensors, fit.network.pipeline)
    for name, mine in fit.network.pipeline.tensors().items():
        same = np.array_equal(mine, pipeline.tensors()[name])
        check(same, name, "the constants of these graphs", "others")
    try:
        for callback, own in zip(fit.callbacks, states, strict=True):
            callback.restore(own)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise tensorfile.fail(path, "callbacks", "states of these callbacks", repr(error)[:80]) from error
    fit.segments.restore(path, tensors, len(fit.data.graphs))
    fit.network.set_weights(arrays)
    fit.best, fit.step, fit.visit, fit.average.value = best, step, visit, average
    fit.network.trained_steps, fit.network.fitted = step, step > 0
    fit.history.skipped.update(facts.pop("skipped"))  # the dict of the graphs' set
    seconds = dict(zip(("step_seconds", "evaluation_seconds"), map(float, spent), strict=True))
    vars(fit.history).update(curves, **facts, **seconds)
    _note_instruction_sets(fit, sets)


def _note_instruction_sets(fit: Fit, before: list[str]) -> None:
    """Warn if steps of the fit were taken with another instruction set: the last bits of sums differ."""
    here = fit.instruction_sets[-1]
    fit.instruction_sets = [*(name for name in before if name != here), here]
    if before in ([], [here]):
        return
    same = len(before) == 1 and before[0] in _core.isa_levels()
    theirs = printable(" and ".join(before))
    warnings.warn(
        f"the steps of this checkpoint were taken with the instruction set {theirs}, here {here} is in "
        "use: the fit continues, but not with the bits of one that was never stopped"
        + (f"; TPUGRAPHS_ISA={before[0]} keeps them" if same else ""),
        stacklevel=7,
    )


def _compare(fit: Fit, path: str, theirs: Mapping[str, Any]) -> None:
    """Raise CheckpointError for a file of another fit."""
    mine = fit.identity
    defaults = {f"field {field.name}": field.default for field in fields(fit.fields)}
    theirs = {key: value for key, value in defaults.items() if key in mine} | dict(theirs)  # may be older
    differ = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    if differ:
        parts = [f"{key}: {theirs.get(key)!r} there, {mine.get(key)!r} here" for key in differ]
        text = f"this checkpoint belongs to another fit ({'; '.join(parts)})"
        todo = "use another checkpoint_dir, or delete it to start again"
        found, expected = repr(theirs.get(differ[0])), repr(mine.get(differ[0]))
        raise CheckpointError(f"{text}; {todo}", file=path, field=differ[0], found=found, expected=expected)
