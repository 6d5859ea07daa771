"""Training: the fit loop, what it learns from, schedules, callbacks, selection among seeds."""

from tpugraphs.data.splits import split_configs
from tpugraphs.kernels.schedules import warmup_cosine as learning_rate
from tpugraphs.training.callbacks import Callback, EarlyStopping, History, LiveCurve
from tpugraphs.training.checkpoint import CHECKPOINT
from tpugraphs.training.fit import Fit

__all__ = [
    "CHECKPOINT", "Callback", "EarlyStopping", "Fit", "History", "LiveCurve", "learning_rate",
    "split_configs",
]  # fmt: skip
