"""Learning curves as SVG, for notebooks; :mod:`tpugraphs.evaluation.plot` draws them with Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tpugraphs.evaluation import plot
from tpugraphs.system import markup

if TYPE_CHECKING:
    from tpugraphs.training.callbacks import History

__all__ = ["curve", "curves"]


def curve(history: History) -> str:
    """Draw the loss, as a moving mean, and the validation metric of a fit; empty before its first step."""
    loss = np.asarray(history.loss, np.float64)
    return markup.chart(
        [
            markup.Line("loss", history.steps, plot.moving_mean(loss).tolist(), markup.ORANGE),
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
