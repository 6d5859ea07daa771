"""Losses of the solutions in PyTorch, as they were published: of the scores of one list, without its shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as fn

from . import Slate


def per_slate(loss: Callable[..., Tensor]) -> Callable[[Sequence[Slate]], Tensor]:
    """The mean of `loss(scores, runtimes, values)` over the slates of a batch."""
    return lambda slates: torch.stack([loss(*slate) for slate in slates]).mean()


def hinge(scores: Tensor, runtimes: Tensor, margin: float) -> Tensor:
    """(L, L): what is missing where i is slower than j and does not score higher by `margin`, else 0."""
    missing = fn.relu(margin - (scores[:, None] - scores[None, :]))
    return missing * (runtimes[:, None] > runtimes[None, :])


def list_mle(scores: Tensor, runtimes: Tensor) -> Tensor:
    """Minus the logarithm of the chance that a Plackett-Luce model draws the order, slowest first."""
    ordered = scores[runtimes.argsort(descending=True)]
    return (ordered.flip(0).logcumsumexp(0).flip(0) - ordered).sum()
