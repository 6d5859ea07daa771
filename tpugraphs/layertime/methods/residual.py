"""What the linear roofline leaves over: learnt by networks in the core, or by trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.costs import Costs
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.features import Space, matrix
from tpugraphs.layertime.intervals import FAR, HELD, ErrorQuantiles, error_quantiles, pooled
from tpugraphs.layertime.kinds import Kind
from tpugraphs.layertime.methods.base import File, Floats, joined, log_of, quantiles_by_device
from tpugraphs.layertime.splits import unseen_layers
from tpugraphs.layertime.table import LayerTable, one_layer
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system import tensorfile
from tpugraphs.system.progress import Progress
from tpugraphs.system.words import counted
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["Residual", "Trees"]


_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of what smooth members say
_USUAL_SHARE = 0.5  # if no device can be left out
_EPOCHS = 60  # at most, of tables with few layers
_FEWEST = 150  # steps, however few layers there are
_BATCH = 1024  # layers in a step


class Member(NamedTuple):
    """A network, and the space of what it was trained on."""

    ranker: Ranker
    space: Space


class Residual:
    """Networks of log(ms / linear roofline), trained in the core.

    Members that know the device serve layers in range on the devices that were learnt from. All others have
    members that are kept smooth, with noise and dropout, and do not see which device it is; beyond the range
    the ones give way to the others by and by. Further ones, each trained without one of the devices, tell how
    far off a device never seen is, and which share of what smooth members say serves it best: 0 leaves the
    roofline alone.

    Parameters
    ----------
    seed : int
    members : int
        Networks of each sort; their mean is taken.
    steps : int
        Training steps of a network at most; tables with few layers take fewer.
    width : int
        Columns of its layers.
    """

    errors: ErrorQuantiles
    costs: Costs
    share: float

    def __init__(self, seed: int, members: int = 2, steps: int = 4000, width: int = 128) -> None:
        self._set(seed, members=members, steps=steps, width=width)

    def _set(self, seed: int, **fields: int) -> None:
        for name, value in fields.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}: expected a whole number from 1 on, got {value!r}")
        self.seed, self.members, self.fields = seed, fields["members"], fields
        self.known: list[Member] = []
        self.smooth: list[Member] = []

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices that were learnt from."""
        return self.costs.devices

    def fit(self, table: LayerTable, verbose: bool | None) -> None:
        """Learn from measured layers, with a bar of progress where that is `wanted`."""
        learnt, held = unseen_layers(table, HELD, self.seed)
        self.costs = Costs.fit(learnt)
        count = len(self.costs.names)
        with Progress(2 * self.members + (count if count > 1 else 0), "fit", "member", verbose) as bar:
            self._fit(learnt, held, bar)

    def _fit(self, learnt: LayerTable, held: LayerTable, bar: Progress) -> None:
        self.known = [self._trained(learnt, True, i, bar) for i in range(self.members)]
        self.smooth = [self._trained(learnt, False, self.members + i, bar) for i in range(self.members)]
        left_out = []  # layers, roofline and correction
        for i, (name, rows) in enumerate(learnt.by_device() if len(self.costs.names) > 1 else ()):
            member = self._trained(learnt.take(~rows), False, 2 * self.members + i, bar)
            part = held.take(held.per_device_name() == name)
            factor = _mean([member], self._columns(part, name))
            left_out.append((part, log_of(self.costs.parts(part, without=name)), factor))

        def quantiles(share: float) -> list[Floats]:
            return [error_quantiles(part, plain + share * factor) for part, plain, factor in left_out]

        def off(share: float) -> float:
            return float(np.mean(np.abs(np.expm1(-np.stack(quantiles(share))))))

        self.share = min(_SHARES, key=off) if left_out else _USUAL_SHARE
        known = quantiles_by_device(held, log_of(self.parts(held)))
        self.errors = ErrorQuantiles(known, pooled(quantiles(self.share)))

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict milliseconds (n,) that pass without work, and of the work."""
        columns, known = self._columns(table), np.isin(table.per_device_name(), self.costs.names)
        near = np.exp(-self.known[0].space.excess(columns, table.kind) / FAR)
        factor, smooth = np.zeros(len(table)), (near < 1) | ~known
        if smooth.any():
            share = self.share * np.where(known, 1 - near, 1)
            factor[smooth] = share[smooth] * _mean(self.smooth, columns[smooth])
        if known.any():
            told = self._told(columns[known], table.take(known))
            factor[known] += near[known] * _mean(self.known, told)
        fixed, working = self.costs.parts(table)
        return fixed * np.exp(factor), working * np.exp(factor)

    def _trained(self, table: LayerTable, told: bool, number: int, bar: Progress) -> Member:
        assert table.ms is not None
        columns = self._told(self._columns(table), table) if told else self._columns(table)
        ranker = self._ranker(1000 * self.seed + number, len(table), smooth=not told)
        member = Member(ranker, Space.of(columns))
        if not member.space.size:
            raise DataError(
                f"table: expected layers that differ, found {len(table)} that are alike; the method "
                "'roofline' learns from such layers"
            )
        ratio = table.ms / np.exp(log_of(self.costs.parts(table)))
        pass_on_interrupt(
            member.ranker.fit([_graph(member.space.place(columns, clipped=True), ratio)], verbose=False)
        )
        bar.update(1)
        return member

    def _columns(self, table: LayerTable, without: str | None = None) -> Floats:
        """Return features and shares of the costs (n, F)."""
        return np.concatenate([matrix(table), self.costs.shares(table, without)], 1)

    def _told(self, columns: Floats, table: LayerTable) -> Floats:
        """Return columns and flags of the devices (n, F + D)."""
        return np.concatenate([columns, table.per_device_name()[:, None] == np.array(self.costs.names)], 1)

    def _ranker(self, seed: int, layers: int, smooth: bool) -> Ranker:
        """Return an untrained member, to learn from that number of layers."""
        steps = min(self.fields["steps"], max(_FEWEST, _EPOCHS * layers // _BATCH))
        return Ranker(
            "graph-config",
            seed=seed,
            width=self.fields["width"],
            blocks=2,
            steps=min(steps, max(_FEWEST, self.fields["steps"] // 4)) if smooth else steps,
            configs=_BATCH,
            target="log-runtime",
            loss=[{"loss": "quantile"}],  # the median: half the mean absolute error
            noise=0.4 if smooth else 0.0,
            dropout=0.2 if smooth else 0.0,
            powers=False,
            weight_decay=0.05 if smooth else 0.0,
            learning_rate=2e-3,
            average="ema",
            ema_decay=0.995,
        )

    def to_file(self) -> File:
        """Return metadata and tensors."""
        both = [*self.known, *self.smooth]
        members, tensors = filekinds.write_members([member.ranker for member in both])
        spaces = {f"{i}.space": member.space.to_file() for i, member in enumerate(both)}
        return joined(
            self.costs.to_file(),
            self.errors.to_file(),
            ({"members": members, "share": self.share}, {**tensors, **spaces}),
        )

    def from_file(
        self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]], kind: Kind
    ) -> None:
        """Take them from a file."""
        self.costs = Costs.from_file(path, metadata, tensors, kind)
        self.errors = ErrorQuantiles.from_file(path, metadata, tensors)
        self.share = tensorfile.entry(path, metadata, "share", float)
        if not 0 <= self.share <= 1:
            raise tensorfile.fail(path, "share", "a number from 0 to 1", f"{self.share}")
        rankers = filekinds.read_members(path, metadata, tensors)
        expected = 2 * self.members
        if len(rankers) != expected or not all(isinstance(one, Ranker) for one in rankers):
            raise tensorfile.fail(
                path, "members", counted(expected, "ranker"), counted(len(rankers), "member")
            )
        smooth = self._columns(replace(one_layer(kind), devices=self.devices[:1])).shape[1]
        counts = [smooth + len(self.devices)] * self.members + [smooth] * self.members
        members = [
            Member(one, Space.from_file(path, tensors, f"{i}.space", count))
            for i, (one, count) in enumerate(zip(rankers, counts, strict=True))
        ]
        self.known, self.smooth = members[: self.members], members[self.members :]


class Trees(Residual):
    """Boosted trees in place of the networks; only `fit` needs LightGBM (the extra ``[lightgbm]``).

    Parameters
    ----------
    seed : int
    members : int
        Of each sort, as in `Residual`.
    rounds : int
        Trees of a member.
    leaves : int
        Leaves of a tree, at most.
    """

    def __init__(self, seed: int, members: int = 1, rounds: int = 600, leaves: int = 63) -> None:
        self._set(seed, members=members, rounds=rounds, leaves=leaves)

    def _ranker(self, seed: int, layers: int, smooth: bool) -> Ranker:
        return Ranker(
            "eighth-lightgbm",
            seed=seed,
            steps=max(1, self.fields["rounds"] // (3 if smooth else 1)),
            num_leaves=max(2, self.fields["leaves"] // (2 if smooth else 1)),
            configs=1 << 20,
            objective="l1",
            target="log-runtime",
        )


def _graph(columns: Floats, ratio: Floats | None = None) -> Graph:
    """Return layers (n, F) as the configs of a graph."""
    schema = Schema(config=tuple(Column(f"column {i}") for i in range(columns.shape[1])))
    return Graph(config_feat=columns.astype(np.float32), runtime=ratio, schema=schema)


def _mean(members: Sequence[Member], columns: Floats) -> Floats:
    """Return the mean of what members say of layers (n, F)."""
    scores = [
        member.ranker.predict(_graph(member.space.place(columns, clipped=True)), verbose=False)
        for member in members
    ]
    found: Floats = np.mean(scores, 0, dtype=np.float64)
    return found
