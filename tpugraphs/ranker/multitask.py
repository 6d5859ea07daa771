"""A Gaussian process over configs and programs, which ranks configs by their effects on similar programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph, Graphs, Valid
from tpugraphs.errors import ConfigError, DataError, Error
from tpugraphs.evaluation.evaluator import measured_runtimes
from tpugraphs.preprocess.targets import targets
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.baselines import Array, Floats
from tpugraphs.ranker.conventions import learnable
from tpugraphs.ranker.process import LEAST, Process, squares, standard
from tpugraphs.system import check_number
from tpugraphs.training.trainset import as_graphs

_PROGRAMS = 1000  # and different configs: memory grows with the square, time with the cube
_COMMON = 10.0  # variance of the effect on all programs, in units of that on similar ones
_ENOUGH = 1e-16  # relative squared residual at which the solver stops
_STEPS = 500  # of the solver, at most


class _Factors(NamedTuple):
    """Eigenvalues (P,) and vectors (P, P) of programs, (U,) and (U, U) of configs."""

    programs: Floats
    by_program: Floats
    configs: Floats
    by_config: Floats

    def noisy(self, noise: float) -> Floats:
        """Return the eigenvalues (P, U) of the covariance of all measurements."""
        return self.programs[:, None] * self.configs + noise


@filekinds.register("multi-task-gaussian-process")
class MultiTaskGaussianProcess(Process):
    """Rank configs by their effects on similar programs, and choose which to measure together.

    The target is the normal quantile of the runtime's rank within its program. Its covariance is the product
    of a kernel over configs, by their columns, and a kernel over programs, by their features. The second is
    the sum of a constant (an effect on all programs), a part that falls with distance, and an effect on the
    program alone. Distances enter by the squared exponential (RBF), in units of their median. Columns are
    those of the recipe ``graph-config``, standardised. Without features of graphs, programs are described by
    their opcodes. From 100 programs with 100 configs it learns in half a second, and nothing is random.

    Programs should share configs, as those that :func:`tpugraphs.xla.collect` measures with compiler options
    do. It takes up to 1,000 programs and 1,000 different configs.

    Parameters
    ----------
    length : float
        Distance over which programs count as similar.
    own : float
        Variance of the effect on one program alone, in units of the effect that similar ones share.
    noise : float
        Variance of a measurement, in these units.
    seed : int
        Of the samples in `choose`.

    Notes
    -----
    Variances are those of a full grid, as if all configs were measured on all programs. `choose` draws from
    them around 0.7 of the means, so that the chosen configs differ more. A training program is predicted like
    a new one with the same features.

    Multi-task Gaussian processes: Bonilla, Chai and Williams (NIPS 2007). Covariance of tasks by their
    features: Bonilla, Agakov and Williams (AISTATS 2007).
    """

    name = "multi-task-gaussian-process"
    arguments: ClassVar = {"length": float, "own": float, "noise": float, "seed": int}
    arrays: ClassVar = {
        "program": Array("PA", rows=_PROGRAMS),
        "program.column": Array("A", np.int64, 0, "described"),
        "program.mean": Array("A"),
        "program.scale": Array("A", least=1e-100),
        "config": Array("UB", rows=_PROGRAMS),
        "config.column": Array("B", np.int64, 0, "columns"),
        "config.mean": Array("B"),
        "config.scale": Array("B", least=1e-100),
        "weight": Array("PU", rows=_PROGRAMS),
    }
    _samples = 4096  # with 512 the choice of five, and so what it costs, differs between seeds
    # A few programs are like none that were learnt from, so what is chosen should differ more than the
    # covariance says. Five of 112 sets of options, in collections measured on two kinds of machines (three
    # and five seeds), cost 11.6 and 8.0 % by the means as they are, 9.9 and 7.8 % by 0.7 of them, 10.2 and
    # 8.8 % by half of them.
    _trust = 0.7

    def __init__(self, length: float = 0.5, own: float = 1.0, noise: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed)
        self.length = check_number("length", length)
        self.own, self.noise = check_number("own", own), check_number("noise", noise)

    def fit(self, train: Graphs, valid: Valid = None) -> Self:
        """Learn from graphs of one schema.

        Parameters
        ----------
        train : graph or sequence of graphs
            Whose configs are features, with measured runtimes.
        valid : array of runtimes, optional
            scikit-learn's y, in place of the graphs' runtimes; anything else is not used.

        Returns
        -------
        MultiTaskGaussianProcess
            The instance itself.

        Raises
        ------
        DataError
            A graph whose configs are digits, without runtimes or of another schema; one config in all.
        ConfigError
            More than 1,000 graphs or different configs.
        """
        listed = as_graphs("train", learnable(train, valid)[0])
        if len(listed) > _PROGRAMS:  # before any is read
            raise ConfigError(f"train: expected at most {_PROGRAMS:,} graphs, got {len(listed):,}")
        graphs = [listed[i] for i in range(len(listed))]
        made = self._prepared(graphs)
        described = np.stack([made._described(graph) for graph in graphs])
        parts = [made._columns(graph, graph.ran) for graph in graphs]
        configs, which = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
        if len(configs) > _PROGRAMS:
            most = f"at most {_PROGRAMS:,} different configs, got {len(configs):,}"
            todo = "tg.tune or tg.Tuner(records=...) take more and go on measuring, a Ranker ranks them"
            raise ConfigError(f"train: expected {most}: {todo}")
        if len(configs) == 1:
            todo, name = "all are the same, so nothing can be learnt", str(graphs[0].name)
            raise DataError.of("config_feat", "at least 2 different configs", "1", todo, file=name)
        columns = np.split(which.ravel(), np.cumsum([len(part) for part in parts])[:-1])
        effects, there = _grid(graphs, columns, len(configs))
        made.learnt = _scaled("program", described, self.length) | _scaled("config", configs, 1.0)
        made._factor()
        made.learnt["weight"] = _solve(made._factors, effects, there, self.noise)
        return self._become(made)

    def _factor(self) -> None:
        programs, configs = self.learnt["program"], self.learnt["config"]
        kinship = _COMMON + _alike(programs, programs)
        kinship[np.diag_indices(len(kinship))] += self.own
        (a, u), (b, v) = map(np.linalg.eigh, (kinship, _alike(configs, configs)))
        self._factors = _Factors(np.maximum(a, 0), u, np.maximum(b, 0), v)

    def _described(self, graph: Graph) -> Floats:
        """Return the features (F,) of a program: its own, or ln(1 + count) of every opcode."""
        sizes = self.pipeline.sizes
        if sizes.graph:
            return np.asarray(self.pipeline.apply(graph, configs=False).nodes.graph_feat, np.float64).ravel()
        if sizes.opcodes is None:
            return np.zeros(0)
        counts = np.bincount(np.asarray(graph.node_opcode), minlength=sizes.opcodes)
        return np.log1p(counts.astype(np.float64))

    def moments(self, graph: Graph, columns: Floats, together: bool = False) -> tuple[Floats, Floats]:
        """Return means and variances of the effects of configs: see `Process.moments`."""
        learnt, factors = self.learnt, self._factors
        program = np.ascontiguousarray(standard(learnt, self._described(graph)[None], "program."))
        configs = np.ascontiguousarray(standard(learnt, columns, "config."))
        alike = _COMMON + _alike(program, learnt["program"])[0]
        cross = _alike(configs, learnt["config"])
        known = ((alike @ factors.by_program)[:, None] ** 2 / factors.noisy(self.noise)).sum(0)  # (U,)
        turned, most = cross @ factors.by_config, _COMMON + 1 + self.own
        mean = cross @ (alike @ learnt["weight"])
        if together:
            return mean, most * _alike(configs, configs) - (turned * known) @ turned.T
        return mean, most - (turned * turned) @ known

    def _limits(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        sizes = self.pipeline.sizes
        return {"described": (sizes.graph or sizes.opcodes or 0) - 1, "columns": sizes.config - 1}


def _alike(x: Floats, z: Floats) -> Floats:
    """Return the squared exponential (n, m) of the distances of rows x (n, F) and z (m, F)."""
    return np.asarray(np.exp(-0.5 * np.maximum(squares(x, z), 0)))


def _grid(
    graphs: Sequence[Graph], columns: Sequence[NDArray[np.int64]], configs: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return targets (P, U) by program and config, the mean where one was measured twice, and which exist."""
    sums, counts = np.zeros((len(graphs), configs)), np.zeros((len(graphs), configs))
    for i, graph in enumerate(graphs):
        np.add.at(sums[i], columns[i], targets(measured_runtimes(graph, graph.ran), "normal-score"))
        np.add.at(counts[i], columns[i], 1)
    return sums / np.maximum(counts, 1), counts > 0


def _scaled(kind: str, table: Floats, length: float) -> dict[str, NDArray[Any]]:
    """Standardise the columns that vary; distances are in units of `length` medians."""
    spread = table.std(0)
    column = np.flatnonzero(spread > LEAST)
    found = {f"{kind}.column": column, f"{kind}.mean": table.mean(0)[column], f"{kind}.scale": spread[column]}
    x = np.ascontiguousarray(standard(found, table, f"{kind}."))
    away = squares(x, x)[np.triu_indices(len(x), 1)]
    middle = float(np.median(away)) if away.size else 0.0
    found[f"{kind}.scale"] = found[f"{kind}.scale"] * length * (math.sqrt(middle) if middle > 0 else 1.0)
    # in the order of a file: equal bits
    return found | {kind: np.ascontiguousarray(standard(found, table, f"{kind}."))}


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
