"""Judge rankings against measured runtimes: reports, intervals, pictures, the published metrics."""

from tpugraphs.evaluation import plot
from tpugraphs.evaluation.bootstrap import bootstrap_tau
from tpugraphs.evaluation.evaluator import evaluate, measured_runtimes
from tpugraphs.evaluation.report import LAYOUT_METRICS, TILE_METRICS, Group, Report, Row

__all__ = [
    "LAYOUT_METRICS", "TILE_METRICS", "Group", "Report", "Row", "bootstrap_tau", "evaluate",
    "measured_runtimes", "plot",
]  # fmt: skip
