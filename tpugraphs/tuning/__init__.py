"""Tune anything that can be measured: spaces of configurations, and what to measure next."""

from tpugraphs.tuning.space import Space

__all__ = ["Space"]
