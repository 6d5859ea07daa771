"""Ways to predict times of layers: a row of `METHODS` each."""

from collections.abc import Callable

from tpugraphs.layertime.methods.base import Method, log_of
from tpugraphs.layertime.methods.mlpredict import MLPredict
from tpugraphs.layertime.methods.residual import Residual, Trees
from tpugraphs.layertime.methods.roofline import Roofline

__all__ = ["METHODS", "Method", "log_of"]

METHODS: dict[str, Callable[..., Method]] = {
    "residual": Residual,
    "roofline": Roofline,
    "lightgbm": Trees,
    "mlpredict": MLPredict,
}
"""Ways to predict, by name."""
