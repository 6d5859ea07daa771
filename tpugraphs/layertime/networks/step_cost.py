"""What a step of a network costs besides its layers, from measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.kinds import Floats
from tpugraphs.layertime.networks.estimate import STEP, Estimate, positive


class StepCost(NamedTuple):
    """Milliseconds that a step takes besides its layers, as `network_time` takes them.

    Attributes
    ----------
    step_ms : float
        Once a step: the loop around it, its input, its loss.
    layer_ms : float
        Once a layer: the time that the framework takes to start it.
    """

    step_ms: float = 0.0
    layer_ms: float = 0.0


def calibrate_network(estimates: Sequence[Estimate], measured_ms: Sequence[float]) -> StepCost:
    """Learn the fixed cost of a step from measured steps.

    Layers are measured one by one. In a step the framework also has to start each of them, which matters most
    at small batches. The costs minimise the squares of (predicted - measured) / measured and are never
    negative. Two networks of different depth give both costs. Networks of one depth give the cost per layer.

    Parameters
    ----------
    estimates : list of Estimate
        The results of `network_time` for these steps. Use short steps, whose fixed cost weighs most, and
        calibrate inference and training separately.
    measured_ms : list of float
        Their measured milliseconds.

    Returns
    -------
    StepCost
        As `network_time` takes it: ``network_time(..., **cost._asdict())``.

    Raises
    ------
    ConfigError
        Different lengths, none at all, a time that is not a finite number above 0, or steps of inference
        among those of training.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> models = tg.layertime.load_models("tensorflow-gpu")
    >>> layers = [tg.layertime.Layer("fc", "dense", {"dim_input": 784, "dim_output": 10})] * 3
    >>> found = tg.layertime.network_time(models, layers, 1, device="V100")
    >>> cost = tg.layertime.calibrate_network([found], [found.ms + 0.3])
    >>> round(cost.layer_ms, 6), cost.step_ms
    (0.1, 0.0)
    >>> found = tg.layertime.network_time(models, layers * 5, 1, device="V100", **cost._asdict())
    >>> found.per_layer[-1].kind, round(found.per_layer[-1].ms, 6)
    ('step', 1.5)
    """
    if wrong := [one for one in estimates if not isinstance(one, Estimate)]:
        raise ConfigError(f"estimates: expected those of network_time, got {type(wrong[0]).__name__}")
    if len({one.optimizer == "None" for one in estimates}) > 1:
        raise ConfigError("estimates: some of inference and some of training; calibrate each apart")
    layers = [[row.ms for row in one.per_layer if row.kind != STEP] for one in estimates]
    predicted, measured = positive(predicted_ms=[sum(one) for one in layers], measured_ms=measured_ms)
    counts = np.array([sum(row.kind not in (STEP, "link") for row in one.per_layer) for one in estimates])
    design = np.column_stack([np.ones(len(counts)), counts]) / measured[:, None]
    missing = 1 - predicted / measured
    columns = [(0, 1), (1,), (0,), ()] if len(set(counts.tolist())) > 1 else [(1,), ()]
    fits = [_least_squares(design, missing, some) for some in columns]
    costs = min((x for x in fits if (x >= 0).all()), key=lambda x: float(np.sum((design @ x - missing) ** 2)))
    return StepCost(*costs.tolist())


def _least_squares(design: Floats, wanted: Floats, columns: tuple[int, ...]) -> Floats:
    """Solve for these columns of the design; the other costs are 0. Return (2,)."""
    found = np.zeros(2)
    if columns:
        found[list(columns)] = np.linalg.lstsq(design[:, columns], wanted, rcond=None)[0]
    return found
