"""A Gaussian process over programs and configs: alike configs have alike effects on alike programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.errors import CheckpointError, ConfigError, DataError
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.network.network import schema_of
from tpugraphs.preprocess.pipeline import Pipeline, check_measured
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.process import Process, matern, pipeline_of
from tpugraphs.ranker.scorer import check_whole
from tpugraphs.system import tensorfile
from tpugraphs.training.trainset import as_graphs

__all__ = ["MultiTaskGaussianProcess"]

_MOST = 1000  # programs, and different configs: memory grows with the square, time with the cube
_COMMON = 10.0  # variance of what all programs share, in units of what alike ones share besides
_LEAST = 1e-9  # standard deviation of a column that varies
_ENOUGH = 1e-16  # of the squared residual of a solution, relative
_STEPS = 500  # of its search, at most
Floats = NDArray[np.float64]


class _Factors(NamedTuple):
    """Eigenvalues (P,) and vectors (P, P) of programs, (U,) and (U, U) of configs."""

    programs: Floats
    by_program: Floats
    configs: Floats
    by_config: Floats

    def noisy(self, noise: float) -> Floats:
        """Eigenvalues (P, U) of the covariance of all measurements."""
        return self.programs[:, None] * self.configs + noise


@filekinds.register("multi-task-gaussian-process")
class MultiTaskGaussianProcess(Process):
    """Rank configs by their effects on the programs most alike, and choose which to measure together.

    The target is the quantile of the normal distribution at the place of the runtime among those of its
    program. Its covariance is a product: one factor for two configs, by their columns, and one for two
    programs, by their features. The second is the sum of a constant (an effect on all programs), of Matern
    3/2, and of an effect on the program alone. Columns are those of the recipe ``graph-config``,
    standardised; distances are in units of their median. Without features of graphs, programs are described
    by their opcodes. It learns in well under a second; training has no random part.

    Programs should share configs, as those that :func:`tpugraphs.xla.collect` measures in the space of
    options do: up to 1,000 programs and 1,000 different configs can be learnt from.

    Parameters
    ----------
    length : float
        Distance over which programs count as alike.
    own : float
        Variance of the effect on one program alone, in units of what alike ones share.
    noise : float
        Variance of a measurement, in these units.
    seed : int
        Of the samples in `choose`.

    Notes
    -----
    Multi-task Gaussian processes: Bonilla, Chai and Williams (NIPS 2007). Covariance of tasks by their
    features: Bonilla, Agakov and Williams (AISTATS 2007).
    """

    def __init__(self, length: float = 0.5, own: float = 1.0, noise: float = 1.0, seed: int = 0) -> None:
        self.length, self.own, self.noise = (
            _positive(name, value) for name, value in (("length", length), ("own", own), ("noise", noise))
        )
        self.seed = check_whole("seed", seed, 0)
        self.pipeline = pipeline_of()
        self._tensors: dict[str, NDArray[Any]] = {}

    @property
    def name(self) -> str:
        """Name in reports."""
        return "multi-task-gaussian-process"

    @property
    def fitted(self) -> bool:
        """Whether it has learnt something."""
        return bool(self._tensors)

    def fit(self, train: Any, valid: Any = None) -> Self:
        """Learn from graphs of one schema; `valid` is not used.

        Raises
        ------
        DataError
            A graph whose configs are digits, without runtimes or of another schema.
        ConfigError
            More than 1,000 graphs or different configs.
        """
        listed = as_graphs("train", train)
        graphs = [listed[i] for i in range(len(listed))]
        if len(graphs) > _MOST:
            raise ConfigError(f"train: expected at most {_MOST:,} graphs, got {len(graphs):,}")
        for graph in graphs:
            check_measured(graph, self.kind)
            if graph.config_feat is None or graph.schema.digits:
                raise DataError(
                    "config_feat: expected configs that are features and nothing else, found digits of "
                    "nodes: effects are those of configs that programs share",
                    file=str(graph.name), field="config_feat", found="digits", expected="features",
                )  # fmt: skip
        self.pipeline = pipeline_of().fit(graphs)
        told = np.stack([self._described(graph) for graph in graphs])
        parts = [self._columns(graph, graph.ran) for graph in graphs]
        configs, which = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
        if len(configs) > _MOST:
            raise ConfigError(
                f"train: expected at most {_MOST:,} different configs, got {len(configs):,}: measure "
                "programs with the same configs, or train a Ranker"
            )
        effects, there = _grid(graphs, np.cumsum([0, *map(len, parts)]), which.ravel(), len(configs))
        tensors = {**_scaled("program", told, self.length), **_scaled("config", configs, 1.0)}
        factors = self._factor(tensors)
        self._learn(tensors | {"weight": _solve(factors, effects, there, self.noise)}, factors)
        return self

    def _factor(self, tensors: dict[str, NDArray[Any]]) -> _Factors:
        """Factor the covariances of programs and of configs."""
        programs = _COMMON + matern(tensors["program"], tensors["program"])[0]
        programs[np.diag_indices(len(programs))] += self.own
        found = [
            np.linalg.eigh(covariance)
            for covariance in (programs, matern(tensors["config"], tensors["config"])[0])
        ]
        (a, u), (b, v) = found
        return _Factors(np.maximum(a, 0), u, np.maximum(b, 0), v)

    def _learn(self, tensors: dict[str, NDArray[Any]], factors: _Factors) -> None:
        self._tensors, self._factors = tensors, factors

    # What is known of a graph

    def _described(self, graph: Graph) -> Floats:
        """Features (F,) of a program: its own, or how often it has each opcode."""
        sizes = self.pipeline.sizes
        if sizes.graph:
            return np.asarray(self._prepared(graph, graph.ran[:2]).graph_feat, np.float64).ravel()
        if sizes.opcodes is None:
            return np.zeros(0)
        counts = np.bincount(np.asarray(graph.node_opcode), minlength=sizes.opcodes)
        return np.log1p(counts[: sizes.opcodes].astype(np.float64))

    def _columns(self, graph: Graph, rows: NDArray[np.int64]) -> Floats:
        """Columns (n, T) of configs."""
        return np.asarray(self._prepared(graph, rows).config_feat, np.float64)

    def _prepared(self, graph: Graph, rows: NDArray[np.int64]) -> Any:
        return self.pipeline.apply(graph.select(rows)).graph

    def moments(self, graph: Graph, rows: NDArray[np.int64], together: bool = False) -> tuple[Floats, Floats]:
        """Return means (n,), and variances (n,) or, together, the covariance (n, n)."""
        learnt, factors = self._tensors, self._factors
        program = _standard(learnt, "program", self._described(graph)[None])
        configs = _standard(learnt, "config", self._columns(graph, rows))
        alike = _COMMON + matern(program, learnt["program"])[0][0]
        cross = matern(configs, learnt["config"])[0]
        known = ((alike @ factors.by_program)[:, None] ** 2 / factors.noisy(self.noise)).sum(0)  # (U,)
        turned, most = cross @ factors.by_config, _COMMON + 1 + self.own
        mean = cross @ (alike @ learnt["weight"])
        if together:
            return mean, most * matern(configs, configs)[0] - (turned * known) @ turned.T
        return mean, most - (turned * turned) @ known

    # Files

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and what was learnt."""
        self.require_fit("save")
        assert self.pipeline.schema is not None
        metadata = {
            "length": self.length,
            "own": self.own,
            "noise": self.noise,
            "seed": self.seed,
            "preprocessing": self.pipeline.steps,
            "schema": self.pipeline.schema.to_dict(),
        }
        return metadata, {
            **self._tensors,
            **{f"pipeline.{n}": a for n, a in self.pipeline.tensors().items()},
        }

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Make it of what `to_file` gave, from the file `path`; CheckpointError if that is damaged."""
        length, own, noise = (tensorfile.entry(path, metadata, n, float) for n in ("length", "own", "noise"))
        try:
            made = cls(length, own, noise, tensorfile.entry(path, metadata, "seed", int))
        except ConfigError as error:
            raise CheckpointError(f"{error}; the file is damaged", file=path) from None
        made.pipeline.schema = schema_of(path, metadata)
        state = {n.removeprefix("pipeline."): a for n, a in tensors.items() if n.startswith("pipeline.")}
        made.pipeline = Pipeline.from_file(path, metadata.get("preprocessing"), state, made.pipeline)
        sizes, learnt, rows = made.pipeline.sizes, {}, []
        for kind, wide in (("program", sizes.graph or sizes.opcodes or 0), ("config", sizes.config)):
            shape = tensors[kind].shape if kind in tensors and tensors[kind].ndim == 2 else (0, 0)
            if not 0 < shape[0] <= _MOST:
                raise tensorfile.fail(path, kind, f"1 to {_MOST:,} rows", f"{shape[0]:,}")
            rows.append(shape[0])
            learnt[kind] = tensorfile.take(path, tensors, kind, shape, np.float64)
            for part in ("mean", "scale"):
                name = f"{kind}.{part}"
                learnt[name] = tensorfile.take(path, tensors, name, (shape[1],), np.float64)
            name = f"{kind}.column"
            learnt[name] = column = tensorfile.take(path, tensors, name, (shape[1],), np.int64)
            if not ((column >= 0) & (column < wide)).all() or not (learnt[f"{kind}.scale"] > _LEAST).all():
                raise tensorfile.fail(path, name, f"columns in 0..{wide - 1} that vary", "others")
        learnt["weight"] = tensorfile.take(path, tensors, "weight", (rows[0], rows[1]), np.float64)
        try:
            with np.errstate(over="raise", invalid="raise"):
                made._learn(learnt, made._factor(learnt))
        except (np.linalg.LinAlgError, ArithmeticError):  # of values that no fit finds
            raise tensorfile.fail(path, "program", "rows that were learnt from", "others") from None
        return made


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, (int, float, np.floating)) or not 0 < value < math.inf:
        raise ConfigError(f"{name}: expected a number above 0, got {value!r}")
    return float(value)


def _grid(
    graphs: Sequence[Graph], starts: NDArray[np.int64], which: NDArray[np.int64], configs: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return targets (P, U) by program and config, the mean where one was measured twice, and which exist."""
    sums, counts = np.zeros((len(graphs), configs)), np.zeros((len(graphs), configs))
    for i, graph in enumerate(graphs):
        columns = which[starts[i] : starts[i + 1]]
        np.add.at(sums[i], columns, targets(measured_runtimes(graph, graph.ran), "normal-score"))
        np.add.at(counts[i], columns, 1)
    return sums / np.maximum(counts, 1), counts > 0


def _scaled(kind: str, table: Floats, length: float) -> dict[str, NDArray[Any]]:
    """Standardise the columns that vary; distances are in units of `length` medians."""
    spread = table.std(0)
    column = np.flatnonzero(spread > _LEAST)
    found = {f"{kind}.column": column, f"{kind}.mean": table.mean(0)[column], f"{kind}.scale": spread[column]}
    x = _standard(found, kind, table)
    square = (x * x).sum(1)
    away = (square[:, None] + square - 2 * x @ x.T)[np.triu_indices(len(x), 1)]
    middle = float(np.median(away)) if away.size else 0.0
    found[f"{kind}.scale"] = found[f"{kind}.scale"] * length * (math.sqrt(middle) if middle > _LEAST else 1.0)
    return found | {kind: _standard(found, kind, table)}


def _standard(learnt: dict[str, NDArray[Any]], kind: str, table: Floats) -> Floats:
    x = (table[:, learnt[f"{kind}.column"]] - learnt[f"{kind}.mean"]) / learnt[f"{kind}.scale"]
    return np.ascontiguousarray(x)  # in the order of a file: equal bits


def _solve(factors: _Factors, effects: Floats, there: NDArray[np.bool_], noise: float) -> Floats:
    """Return weights (P, U), 0 where nothing was measured: (covariance + noise) @ weights = effects.

    Conjugate gradients on the measurements; the inverse for a full grid, which the eigenvectors give, is
    the preconditioner. A full grid takes one step.
    """
    u, v, spectrum = factors.by_program, factors.by_config, factors.noisy(noise)

    def turn(x: Floats, by: Floats) -> Floats:
        return np.where(there, u @ ((u.T @ x @ v) * by) @ v.T, 0)

    weights, left = np.zeros_like(effects), np.where(there, effects, 0)
    enough = _ENOUGH * float((left * left).sum())
    near = turn(left, 1 / spectrum)
    ahead, slope = near, float((left * near).sum())
    for _ in range(_STEPS):
        if float((left * left).sum()) <= enough:
            break
        moved = turn(ahead, spectrum)
        step = slope / float((ahead * moved).sum())
        weights, left = weights + step * ahead, left - step * moved
        near = turn(left, 1 / spectrum)
        before, slope = slope, float((left * near).sum())
        ahead = near + slope / before * ahead
    return weights
