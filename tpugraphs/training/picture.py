"""Learning curves as SVG, for notebooks; :mod:`tpugraphs.evaluation.plot` draws them with Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tpugraphs.system import markup

if TYPE_CHECKING:
    from tpugraphs.training.callbacks import History

__all__ = ["curve", "curves"]

_LINES = 40  # the mean of a loss runs over this share of a fit


def curve(history: History) -> str:
    """Draw the loss, as a moving mean, and the validation metric of a fit; empty before its first step."""
    loss = np.asarray(history.loss, np.float64)
    width = max(1, loss.size // _LINES)
    mean = np.convolve(loss, np.ones(width) / width, "valid") if loss.size else loss
    steps = np.arange(width, loss.size + 1)
    return markup.chart(
        [
            markup.Line("loss", steps.tolist(), mean.tolist(), markup.ORANGE),
            markup.Line(
                history.metric, history.valid_steps, history.valid_metric, markup.BLUE, right=True, dots=True
            ),
        ],
        "step", "loss", f"{history.metric} on validation",
    )  # fmt: skip


def curves(histories: Mapping[str, History], metric: str) -> str:
    """Draw the validation metric of several fits by name; empty without validation."""
    lines = [
        markup.Line(name, one.valid_steps, one.valid_metric, markup.BLUE, dots=True)
        for name, one in histories.items()
    ]
    return markup.chart(lines, "step", f"{metric} on validation")
