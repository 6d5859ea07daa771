"""Weights that were trained elsewhere: a PyTorch state dict of a published solution becomes a ranker."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core
from tpugraphs.errors import CheckpointError, ConfigError, RecipeError
from tpugraphs.recipes import Recipe, get_recipe, list_recipes
from tpugraphs.system import counted, few, file_name, tensorfile

if TYPE_CHECKING:
    from tpugraphs.network.network import Network

_GUIDE = "docs/weights-from-outside.md shows how"
# Of names in DataParallel, Lightning, torch.compile, and in TensorFlow checkpoints, which have a suffix, too.
_PREFIXES, _SUFFIX = ("module.", "model.", "_orig_mod.", "net.", "model/"), "/.ATTRIBUTES/VARIABLE_VALUE"
_KERNEL = "/kernel"  # of Keras, which has inputs first
_FLOATS = ("F16", "BF16", "F32", "F64")
_SHOWN = 8
_USUAL = "first-layout"  # recipe of weights without a mark

# Other names of the tile model, used where the head's columns are in our order.
_OTHER_TILE = {"dense_cfg.": "config_mlp.", "dense.": "head."}


def published_name(recipe: Recipe, name: str) -> str:
    """Return what the published PyTorch model calls the parameter `name`.

    Raises
    ------
    RecipeError
        The names of that recipe's model are not known.
    """
    matches = ((re.fullmatch(pattern, name), there) for pattern, there in recipe.published)
    if found := next((match.expand(there) for match, there in matches if match), ""):
        return found
    known = ", ".join(one for one in list_recipes() if get_recipe(one).published)
    what = f"for its {name}, with these fields" if recipe.published else "for it"
    raise RecipeError(
        f"recipe {recipe.name}: no published weights are known {what}; those of {known} can be read"
    )


def recipe_of(weights: Mapping[str, NDArray[np.float32]]) -> str:
    """Find the recipe whose model has such parameters: see `published_marks` of a recipe."""

    def marked(recipe: Recipe) -> bool:
        found = (any(re.match(mark, name) for name in weights) for mark in recipe.published_marks)
        return bool(recipe.published_marks) and all(found)

    known = [recipe for recipe in map(get_recipe, list_recipes()) if marked(recipe)]
    most = max((len(recipe.published_marks) for recipe in known), default=0)
    known = [recipe for recipe in known if len(recipe.published_marks) == most]
    if len(known) > 1:
        known.sort(key=lambda recipe: _misfits(recipe, weights))
    return known[0].name if known else _USUAL


def _misfits(recipe: Recipe, weights: Mapping[str, NDArray[np.float32]]) -> int:
    """Count the published parameters of a recipe that have another shape in the weights."""
    fields = recipe.fields("full", recipe.published_fields)
    sizes = recipe.pipeline(fields).sizes
    planned = _core.plan_parameters(
        recipe.model(fields, sizes), sizes.node, sizes.config, sizes.graph, sizes.digits
    )
    return sum(np.shape(weights.get(published_name(recipe, name), ())) != shape for name, shape in planned)


def _own_name(name: str, rename: Mapping[str, str]) -> str:
    while prefix := next((p for p in _PREFIXES if name.startswith(p)), ""):
        name = name.removeprefix(prefix)
    return _begun(name.removesuffix(_SUFFIX), rename)


def _begun(name: str, beginnings: Mapping[str, str]) -> str:
    """Replace the beginning of a name."""
    start = next((start for start in beginnings if name.startswith(start)), None)
    return name if start is None else beginnings[start] + name.removeprefix(start)


def _read(path: str) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        start = file.read(9)
    if start[8:] != b"{" and start.startswith((b"PK", b"\x80")):
        found, todo = "a PyTorch file (a pickle, which is never loaded)", f"convert it; {_GUIDE}"
        raise CheckpointError.of("file", "a .safetensors file", found, todo, file=path)
    return tensorfile.tensors_of(path, f"convert the weights again; {_GUIDE}", _FLOATS)[1]


def read_weights(
    source: str | os.PathLike[str] | Mapping[str, Any], rename: Mapping[str, str] | None = None
) -> tuple[dict[str, NDArray[np.float32]], str | None]:
    """Return weights by published name, float32, and the file they are from.

    Parameters
    ----------
    source : path, or mapping of str to array
        A .safetensors file, or arrays: anything NumPy makes a float array of. Prefixes of wrappers
        (``module.``, ``model.``, ``_orig_mod.``, ``net.``) are dropped from the names.
    rename : mapping of str to str, optional
        Beginnings of names, without such prefixes -> their replacements.

    Raises
    ------
    CheckpointError
        Not such a file, values that are not finite floats, or two names that are equal without prefix.
    OSError
        The file cannot be opened.
    """
    path = None if isinstance(source, Mapping) else os.path.expanduser(file_name(source))
    given = source if isinstance(source, Mapping) else _read(str(path))
    weights: dict[str, NDArray[np.float32]] = {}
    problems: list[str] = []
    for name, value in given.items():
        own = _own_name(str(name), rename or {})
        try:
            if own in weights:
                raise ValueError("is there twice, with and without a prefix")
            weights[own] = _array(value)
        except ValueError as error:
            problems.append(f"{name} {error}")
    if problems:
        raise _error(path, problems)
    return weights, path


def _array(value: Any) -> NDArray[np.float32]:
    """Return an array or a PyTorch tensor as finite float32; ValueError if its storage was freed."""
    if isinstance(value, Mapping):
        raise ValueError("is a dict, not an array: give that one")
    try:
        if hasattr(value, "untyped_storage"):
            if value.numel() and not value.untyped_storage().nbytes():
                raise ValueError("its storage was freed; gather the weights first")
            value = value.detach().float() if value.is_floating_point() else value
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"cannot become an array: {error}") from None
    if array.dtype.kind != "f":
        raise ValueError(f"is {array.dtype}, expected floats")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(array).all():
        raise ValueError("has NaN or infinity")
    return array


def _error(path: str | None, problems: list[str]) -> CheckpointError:
    return CheckpointError(f"these weights cannot be used: {'; '.join(problems)}", file=path, field="weights")


def take_weights(
    network: Network, weights: Mapping[str, NDArray[np.float32]], path: str | None, preset: str
) -> None:
    """Copy published weights into a network, with rows and columns in its order.

    The first place's tile model was published with two sets of names, which show the order of a file.

    Raises
    ------
    CheckpointError
        Names all that are missing, not expected, or of another shape.
    """
    recipe, own = network.recipe, network.parameters
    other = recipe.name == "first-tile" and any(name.startswith("config_mlp.") for name in weights)
    order = recipe.published_order(network.fields)
    names = {order.get(name, {}).get("name") or published_name(recipe, name): name for name in own}
    if other:
        names, order = {_begun(name, _OTHER_TILE): here for name, here in names.items()}, {}
    unread = re.compile("|".join(recipe.published_unread) or "(?!)")
    weights = {name: array for name, array in weights.items() if not unread.fullmatch(name)}
    missing = [name for name in names if name not in weights]
    unexpected = [name for name in weights if name not in names]
    wrong, taken = [], {}
    for name in names.keys() & weights.keys():
        mine = own[names[name]]
        given = weights[name].T if name.endswith(_KERNEL) else weights[name]
        taken[name] = _ordered(given, order.get(names[name], {}))
        if [n for n in taken[name].shape if n > 1] != [n for n in mine.shape if n > 1]:  # () is (1,)
            wrong.append(f"{name} {given.shape} instead of {mine.shape}")
    found = (("missing", missing), ("not expected", unexpected), ("of another shape", sorted(wrong)))
    problems = [f"{what}: {few(listed, _SHOWN)}" for what, listed in found if listed]
    if problems:
        raise _error(path, [f"they do not fit recipe {recipe.name}, preset {preset!r}", *problems])
    for name, here in names.items():
        own[here][...] = taken[name].reshape(own[here].shape)


def _ordered(array: NDArray[np.float32], order: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return a published array with rows and columns in our order; unchanged if it has other sizes."""
    for axis, name in enumerate(("rows", "columns")):
        if name in order:
            if axis >= array.ndim or array.shape[axis] != len(order[name]):
                return array
            array = np.take(array, order[name], axis)
    return array


def _scaler_state(what: str, constants: Any, columns: int) -> dict[str, NDArray[Any]]:
    """Return the state of a scaler with given constants.

    Parameters
    ----------
    what : str
        The argument, for errors.
    constants : (mean, std)
        Each (columns,) numbers; a standard deviation of 0 counts as 1.
    columns : int

    Raises
    ------
    ConfigError
        `constants` is anything else.
    """
    try:
        mean, std = (np.asarray(part, np.float64) for part in constants)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{what}: expected a pair (mean, std) of {counted(columns, 'number')} each"
        ) from None
    for name, part, least in (("mean", mean, -np.inf), ("std", std, 0)):
        if part.shape != (columns,) or not (np.isfinite(part) & (part >= least)).all():
            limit = " >= 0" if name == "std" else ""
            raise ConfigError(
                f"{what}: {name}: expected {counted(columns, 'finite number')}{limit}, found shape "
                f"{part.shape}{' with others among them' if part.shape == (columns,) else ''}"
            )
    std = np.where(std == 0, 1, std)
    return {"count": np.array([1]), "mean": mean, "m2": std * std}


def load(
    network: Network,
    weights: Mapping[str, NDArray[np.float32]],
    path: str | None,
    scalers: Mapping[str, ArrayLike | Any],
    graphs: Any,
    preset: str,
) -> None:
    """Fill a new network: weights, and constants that are given or fitted on graphs."""
    take_weights(network, weights, path, preset)
    needed = network.pipeline.scalers()
    given = {name: constants for name, constants in scalers.items() if constants is not None}
    if (graphs is not None) == bool(given) and (needed or given):
        raise ConfigError(
            "give the constants that the features were scaled with, scaler=(mean, std), or else graphs= with "
            "the training graphs, to compute them from"
        )
    if graphs is not None:
        network.pipeline.fit([graphs] if hasattr(graphs, "node_feat") else graphs)
        return
    if set(given) != set(needed):
        wanted = " and ".join(f"{n}=(mean, std)" for n in needed) or "no constants: it scales nothing"
        raise ConfigError(f"recipe {network.recipe.name} needs {wanted}")
    tensors: dict[str, NDArray[Any]] = {}
    for name, constants in given.items():
        state = _scaler_state(name, constants, needed[name])
        tensors |= {f"{name}.{key}": array for key, array in state.items()}
    network.pipeline.load(tensors)
