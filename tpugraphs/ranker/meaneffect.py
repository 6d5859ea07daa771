"""What a ranker of several programs must beat: the mean effect of a config on those that were measured."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Rows, Valid
from tpugraphs.data.schema import Schema
from tpugraphs.errors import DataError
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.network.network import schema_of
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import learnable
from tpugraphs.ranker.scorer import PredictOptions, ScorerBase
from tpugraphs.system import tensorfile
from tpugraphs.training.trainset import as_graphs

__all__ = ["MeanEffect"]


@filekinds.register("mean-effect")
class MeanEffect(ScorerBase):
    """Rank configs by their mean effect on other programs.

    The effect of a config on a program is ln(runtime / geometric mean of the program's runtimes). Configs
    are equal if all their features are, so programs must share them, as those that
    :func:`tpugraphs.xla.collect` measures in the space of options do. One that was never measured
    scores 0, as the average does. Nothing of the program itself is used.
    """

    schema: Schema

    @property
    def kind(self) -> str:
        """Kind of the graphs: any schema with features of configs."""
        return "graph"

    @property
    def name(self) -> str:
        """Name in reports."""
        return "mean effect"

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return hasattr(self, "effects")

    def fit(self, train: Graphs, valid: Valid = None) -> Self:
        """Average the effects over graphs. `valid` is not used, unless it is y (runtimes).

        Raises
        ------
        DataError
            A graph without features of configs, without runtimes or of another schema.
        """
        made = copy(self)  # so that a fit that fails changes nothing
        sums: dict[bytes, tuple[float, int, NDArray[np.float32]]] = {}
        graphs = as_graphs("train", learnable(train, valid)[0])
        for i in range(len(graphs)):
            graph = graphs[i]
            table = _table(graph)
            if i == 0:
                made.schema = graph.schema
            made.schema.check(graph, runtimes=True)
            rows = graph.ran
            logs = np.log(measured_runtimes(graph, rows))
            for config, effect in zip(table[rows], logs - logs.mean(), strict=True):
                total, count, _ = sums.get(config.tobytes(), (0.0, 0, config))
                sums[config.tobytes()] = total + float(effect), count + 1, config
        made._take(
            np.stack([config for _, _, config in sums.values()]),
            np.array([total / count for total, count, _ in sums.values()]),
        )
        vars(self).update(vars(made))
        return self

    def _take(self, configs: NDArray[np.float32], effects: NDArray[np.float64]) -> None:
        self.configs, self.effects = configs, effects
        self._known = {
            config.tobytes(): float(effect) for config, effect in zip(configs, effects, strict=True)
        }

    def predict(
        self, graph: Graph, configs: Rows | None = None, tta: int = 0, **options: Unpack[PredictOptions]
    ) -> NDArray[np.float64]:
        """Return mean effects (n,) of rows `configs` (all if not given); `tta` and `options` do nothing.

        Raises
        ------
        Error
            Not fitted.
        DataError
            The graph does not fit the schema of the others.
        """
        self.require_fit("predict")
        table = _table(graph)
        self.schema.check(graph)
        return np.array([self._known.get(table[row].tobytes(), 0.0) for row in graph.row_numbers(configs)])

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learnt."""
        self.require_fit("save")
        return {"schema": self.schema.to_dict()}, {"configs": self.configs, "effects": self.effects}

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Make it of what `to_file` gave; CheckpointError if that is damaged."""
        made = cls()
        made.schema = schema_of(path, metadata)
        count = len(tensors["configs"]) if "configs" in tensors else 0
        shape = (count, len(made.schema.config))
        configs = tensorfile.take(path, tensors, "configs", shape, np.float32)
        made._take(configs, tensorfile.take(path, tensors, "effects", (count,), np.float64))
        return made


def _table(graph: Graph) -> NDArray[np.float32]:
    """Return the features of configs (C, T), with one sign of zero."""
    if graph.config_feat is None or graph.schema.digits:
        text = "expected configs as features alone: a mean over programs needs configs that they share"
        raise DataError(text, file=str(graph.name), field="config_feat", found="digits", expected="features")
    table: NDArray[np.float32] = graph.config_feat + np.float32(0)
    return table
