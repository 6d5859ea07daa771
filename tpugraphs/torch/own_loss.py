"""Custom losses written in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.recipes.functions import plain_name
from tpugraphs.torch.bridge import Array

Loss = Callable[[NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]], tuple[float, NDArray[Any]]]


def _value_and_gradient(function: Any, scores: Array, runtimes: Array, lists: Array) -> tuple[float, Array]:
    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.from_numpy(scores).requires_grad_()
        value = function(leaf, torch.from_numpy(runtimes), torch.from_numpy(lists))
        what = f"loss {plain_name(function)}: expected it to return a real torch.Tensor of one number"
        if not isinstance(value, torch.Tensor):
            raise ConfigError(f"{what}, got {type(value).__name__}; the gradient follows from it")
        if value.numel() != 1 or not value.is_floating_point():
            raise ConfigError(f"{what}, got {value.dtype} {tuple(value.shape)}; take its mean or sum")
        found = torch.autograd.grad(value, leaf, allow_unused=True)[0] if value.requires_grad else None
    if found is None:
        text = f"{what} that depends on the scores, got one that does not"
        raise ConfigError(
            f"{text}; do not detach them; of lists with nothing to compare return 0 * scores.sum()"
        )
    return value.item(), found.numpy(force=True)


def as_loss(function: Callable[..., Any]) -> Loss:
    """Make a loss for recipes from a function of tensors; PyTorch computes its gradient (extra ``[torch]``).

    >>> import tpugraphs as tg
    >>> def squares(scores, runtimes, lists):
    ...     return (scores - runtimes.log()).square().mean()
    >>> programs = tg.open_collection("options:xla:cpu").train[:4]
    >>> tg.Ranker("graph-config", loss=tg.torch.as_loss(squares), steps=5).fit(programs, verbose=False)
    <Ranker('graph-config', seed=0, preset='cpu', steps=5, loss=squares): 90,090 parameters, fitted>

    Parameters
    ----------
    function : callable
        ``function(scores, runtimes, lists)``: tensors (E,) float32, smaller is faster; (E,) float64 in
        nanoseconds or the unit of the schema, normalised for tile graphs; and (B+1,) int64: list i is
        ``scores[lists[i]:lists[i + 1]]``. It returns the loss, a float tensor of one number that depends on
        the scores. It is differentiated once, whatever its dtype; float64 is rounded to float32 at the end.

    Returns
    -------
    callable
        A loss for the field ``loss`` of a recipe or one of its terms: ``loss(scores, runtimes, lists)`` over
        arrays returns value and gradient. In files it has the name of `function`; it can be pickled if
        `function` can.

    Raises
    ------
    ConfigError
        `function` is not callable; later, in training: it returned anything else.
    """
    if not callable(function):
        raise ConfigError(f"as_loss: expected a function of tensors, got {type(function).__name__}")
    name = plain_name(function)
    if isinstance(function, torch.nn.Module):
        function = function.forward  # its code and numbers go into digests
    loss: Any = functools.partial(_value_and_gradient, function)
    loss.__qualname__, loss.__wrapped__ = name, function
    return loss  # type: ignore[no-any-return]
