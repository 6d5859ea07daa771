"""A Gaussian process over programs and configs: alike configs have alike effects on alike programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Valid
from tpugraphs.errors import CheckpointError, ConfigError, DataError, Error
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.preprocess.checks import check_measured
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.conventions import learnable
from tpugraphs.ranker.process import Process, pipeline_of, squares
from tpugraphs.system import tensorfile
from tpugraphs.system.arguments import check_number, check_whole
from tpugraphs.training.trainset import as_graphs

__all__ = ["MultiTaskGaussianProcess"]

_MOST = 1000  # programs, and different configs: memory grows with the square, time with the cube
_COMMON = 10.0  # variance of what all programs share, in units of what alike ones share besides
_LEAST = 1e-9  # standard deviation of a column that varies
_HUGE = 1e100  # what is below can be squared
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
    programs, by their features. The second is the sum of a constant (an effect on all programs), of a part
    that falls with the distance, and of an effect on the program alone. Distances enter by the squared
    exponential (RBF), in units of their median. Columns are those of the recipe ``graph-config``,
    standardised. Without features of graphs, programs are described by their opcodes. From 100 programs with
    100 configs it learns in half a second, and nothing is random.

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
    Variances are those of a full grid: `choose` is as sure as if all programs had measured all configs. For a
    program it has learnt from, it predicts as for a new one with the same features.

    Multi-task Gaussian processes: Bonilla, Chai and Williams (NIPS 2007). Covariance of tasks by their
    features: Bonilla, Agakov and Williams (AISTATS 2007).
    """

    _samples = 4096  # with 512 the choice of five, and so what it costs, differs between seeds

    def __init__(self, length: float = 0.5, own: float = 1.0, noise: float = 1.0, seed: int = 0) -> None:
        self.length = check_number("length", length)
        self.own, self.noise = check_number("own", own), check_number("noise", noise)
        self.seed = check_whole("seed", seed, 0)
        self.pipeline = pipeline_of()
        self._tensors = {}

    @property
    def name(self) -> str:
        """Name in reports."""
        return "multi-task-gaussian-process"

    def fit(self, train: Graphs, valid: Valid = None) -> Self:
        """Learn from graphs of one schema.

        Parameters
        ----------
        train : graph or sequence of graphs
            Whose configs are features, with measured runtimes.
        valid : array of runtimes, optional
            y of scikit-learn, in place of those of the graphs; anything else is not used.

        Returns
        -------
        MultiTaskGaussianProcess
            This one.

        Raises
        ------
        DataError
            A graph whose configs are digits, without runtimes or of another schema; one config in all.
        ConfigError
            More than 1,000 graphs or different configs.
        """
        listed = as_graphs("train", learnable(train, valid)[0])
        if len(listed) > _MOST:
            raise ConfigError(f"train: expected at most {_MOST:,} graphs, got {len(listed):,}")
        graphs = [listed[i] for i in range(len(listed))]
        for graph in graphs:
            check_measured(graph, self.kind)
            if graph.config_feat is None or graph.schema.digits:
                raise DataError(
                    "config_feat: expected configs that are features and nothing else, found digits of "
                    "nodes: effects are those of configs that programs share",
                    file=str(graph.name), field="config_feat", found="digits", expected="features",
                )  # fmt: skip
        made = copy(self)  # so that a fit that fails changes nothing
        made.pipeline = pipeline_of().fit(graphs)
        told = np.stack([made._described(graph) for graph in graphs])
        parts = [made._columns(graph, graph.ran) for graph in graphs]
        configs, which = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
        if len(configs) > _MOST:
            raise ConfigError(
                f"train: expected at most {_MOST:,} different configs, got {len(configs):,}: measure "
                "programs with the same configs, or train a Ranker"
            )
        if len(configs) == 1:
            raise DataError(
                "config_feat: all configs are the same, so nothing can be learnt",
                file=str(graphs[0].name), field="config_feat", found="1 distinct", expected="at least 2",
            )  # fmt: skip
        effects, there = _grid(graphs, np.cumsum([0, *map(len, parts)]), which.ravel(), len(configs))
        tensors = {**_scaled("program", told, self.length), **_scaled("config", configs, 1.0)}
        made._factor(tensors)
        made._tensors = tensors | {"weight": _solve(made._factors, effects, there, self.noise)}
        vars(self).update(vars(made))
        return self

    def _factor(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Factor the covariances of programs and of configs."""
        programs = _COMMON + _alike(tensors["program"], tensors["program"])
        programs[np.diag_indices(len(programs))] += self.own
        (a, u), (b, v) = map(np.linalg.eigh, (programs, _alike(tensors["config"], tensors["config"])))
        self._factors = _Factors(np.maximum(a, 0), u, np.maximum(b, 0), v)

    # What is known of a graph

    def _described(self, graph: Graph) -> Floats:
        """Features (F,) of a program: its own, or how often it has each opcode."""
        sizes = self.pipeline.sizes
        if sizes.graph:
            return np.asarray(self.pipeline.apply(graph, configs=False).nodes.graph_feat, np.float64).ravel()
        if sizes.opcodes is None:
            return np.zeros(0)
        return np.log1p(
            np.bincount(np.asarray(graph.node_opcode), minlength=sizes.opcodes).astype(np.float64)
        )

    def moments(self, graph: Graph, columns: Floats, together: bool = False) -> tuple[Floats, Floats]:
        """Return means and variances of the effects of configs.

        Parameters
        ----------
        graph : Graph
            The graph of the configs.
        columns : (n, F) float64
            What preprocessing makes of the configs.
        together : bool
            The covariance in place of variances.

        Returns
        -------
        mean : (n,) float64
            Smaller means predicted faster.
        variance : (n,) or (n, n) float64
            Of the same unit, squared.
        """
        learnt, factors = self._tensors, self._factors
        program = _standard(learnt, "program", self._described(graph)[None])
        configs = _standard(learnt, "config", columns)
        alike = _COMMON + _alike(program, learnt["program"])[0]
        cross = _alike(configs, learnt["config"])
        known = ((alike @ factors.by_program)[:, None] ** 2 / factors.noisy(self.noise)).sum(0)  # (U,)
        turned, most = cross @ factors.by_config, _COMMON + 1 + self.own
        mean = cross @ (alike @ learnt["weight"])
        if together:
            return mean, most * _alike(configs, configs) - (turned * known) @ turned.T
        return mean, most - (turned * turned) @ known

    # Files

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata, and what was learnt."""
        metadata, tensors = super().to_file()
        return {**metadata, "length": self.length, "own": self.own, "noise": self.noise}, tensors

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Self:
        """Make it of what `to_file` gave, from the file `path`; CheckpointError if that is damaged."""
        length, own, noise = (tensorfile.entry(path, metadata, n, float) for n in ("length", "own", "noise"))
        try:
            made = cls(length, own, noise, tensorfile.entry(path, metadata, "seed", int))
        except ConfigError as error:
            raise CheckpointError(f"{error}; the file is damaged", file=path) from None
        made._restore(path, metadata, tensors)
        sizes, learnt, rows = made.pipeline.sizes, dict[str, NDArray[Any]](), list[int]()

        def take(name: str, *shape: int, dtype: Any = np.float64) -> None:
            learnt[name] = tensorfile.take(path, tensors, name, shape, dtype)
            if not (np.abs(learnt[name]) < _HUGE).all():
                raise tensorfile.fail(path, name, f"numbers below {_HUGE:g}", "others")

        for kind, wide in (("program", sizes.graph or sizes.opcodes or 0), ("config", sizes.config)):
            shape = tensors[kind].shape if kind in tensors else ()
            if len(shape) != 2 or not 0 < shape[0] <= _MOST:
                raise tensorfile.fail(path, kind, f"a table of 1 to {_MOST:,} rows", f"shape {shape}")
            rows.append(shape[0])
            take(kind, *shape)
            take(f"{kind}.mean", shape[1])
            take(f"{kind}.scale", shape[1])
            take(f"{kind}.column", shape[1], dtype=np.int64)
            column = learnt[f"{kind}.column"]
            if not ((column >= 0) & (column < wide)).all() or not (learnt[f"{kind}.scale"] > 0).all():
                raise tensorfile.fail(path, f"{kind}.column", f"columns in 0..{wide - 1} that vary", "others")
        take("weight", *rows)
        made._factor(learnt)
        made._tensors = learnt
        return made


def _alike(x: Floats, z: Floats) -> Floats:
    """Squared exponential (n, m) of the distances of rows x (n, F) and z (m, F)."""
    return np.asarray(np.exp(-0.5 * np.maximum(squares(x, z), 0)))


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
    away = squares(x, x)[np.triu_indices(len(x), 1)]
    middle = float(np.median(away)) if away.size else 0.0
    found[f"{kind}.scale"] = found[f"{kind}.scale"] * length * (math.sqrt(middle) if middle > 0 else 1.0)
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
    else:
        raise Error(f"no solution in {_STEPS} steps; give a larger `noise`")
    return weights
