"""Tune anything that can be measured: a space of configs, a tuner that asks for the next, and the loop."""

from tpugraphs.tuning import kernel_tuner, triton
from tpugraphs.tuning.command import Command
from tpugraphs.tuning.loop import tune
from tpugraphs.tuning.measuring import Failed, Outcome
from tpugraphs.tuning.report import TunerReport
from tpugraphs.tuning.space import Space
from tpugraphs.tuning.tuned import Finalist, Tuned
from tpugraphs.tuning.tuner import Tuner

__all__ = [
    "Command", "Failed", "Finalist", "Outcome", "Space", "Tuned", "Tuner", "TunerReport", "kernel_tuner",
    "triton", "tune",
]  # fmt: skip
