"""Tune anything that can be measured: spaces of configurations, and what to measure next."""

from tpugraphs.tuning.report import TunerReport
from tpugraphs.tuning.space import Space
from tpugraphs.tuning.tuner import Tuner

__all__ = ["Space", "Tuner", "TunerReport"]
