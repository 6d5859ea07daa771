"""Networks or trees that learn the residual of the linear roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tpugraphs.data.graph import Graph
from tpugraphs.errors import DataError
from tpugraphs.layertime.features import Space, matrix
from tpugraphs.layertime.files import File
from tpugraphs.layertime.intervals import FAR
from tpugraphs.layertime.kinds import Kind
from tpugraphs.layertime.methods.base import Floats, LeftOut, configs, log_of
from tpugraphs.layertime.methods.roofline import Roofline
from tpugraphs.layertime.table import LayerTable, one_layer
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.progress import Progress
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["Residual", "Trees"]

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # candidates for the share of the smooth members' correction
_USUAL_SHARE = 0.5  # if no device can be left out
_EPOCHS = 60  # at most, of tables with few layers
_FEWEST = 150  # steps, however few layers there are
_BATCH = 1024  # layers in a step


class Member(NamedTuple):
    """A network, and the space of the layers it was trained on."""

    ranker: Ranker
    space: Space


class Residual(Roofline):
    """Networks of log(ms / linear roofline), trained in the core.

    Members with device flags predict layers in range on the training devices. Smooth members, trained with
    noise and dropout and without device flags, predict all others; beyond the range, the former give way to
    the latter gradually. Further smooth members are each trained without one of the devices. Their errors
    stand for those on an unseen device, and set the share of the correction that serves it best: 0 leaves the
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

    def __init__(self, seed: int, members: int = 2, steps: int = 4000, width: int = 128) -> None:
        super().__init__(seed)
        self._set(members=members, steps=steps, width=width)

    def _set(self, **fields: int) -> None:
        self.fields = {name: check_whole(name, value, 1) for name, value in fields.items()}
        self.networks = 2 * self.fields["members"]  # of both sorts

    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        super()._learn(layers, bar)
        members = []
        for number in range(self.networks):
            members.append(self._trained(layers, number, smooth=number >= self.fields["members"]))
            bar.update(1)
        self._take(members)

    def _take(self, members: Sequence[Member]) -> None:
        count = self.fields["members"]
        self.known, self.smooth = members[:count], members[count:]

    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        member = self._trained(others, self.networks + number, smooth=True)
        plain = super()._leave_out(number, name, others, own)
        return plain._replace(correction=_mean([member], self._columns(own, name)))

    def _choose_share(self, left_out: Sequence[LeftOut]) -> float:
        def off(share: float) -> float:
            return float(np.mean(np.abs(np.expm1(-np.stack([one.errors(share) for one in left_out])))))

        return min(_SHARES, key=off) if left_out else _USUAL_SHARE

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict fixed overhead and work-dependent time in ms: (n,) each."""
        columns, known = self._columns(table), np.isin(table.per_device_name(), self.costs.names)
        near = np.exp(-self.known[0].space.excess(columns, table.kind) / FAR)
        factor, smooth = np.zeros(len(table)), (near < 1) | ~known
        if smooth.any():
            share = self.share * np.where(known, 1 - near, 1)
            factor[smooth] = share[smooth] * _mean(self.smooth, columns[smooth])
        if known.any():
            flagged = self._with_device_flags(columns[known], table.take(known))
            factor[known] += near[known] * _mean(self.known, flagged)
        fixed, working = self.costs.parts(table)
        return fixed * np.exp(factor), working * np.exp(factor)

    def _trained(self, table: LayerTable, number: int, smooth: bool) -> Member:
        assert table.ms is not None
        columns = self._columns(table)
        if not smooth:
            columns = self._with_device_flags(columns, table)
        member = Member(self._ranker(1000 * self.seed + number, len(table), smooth), Space.of(columns))
        if not member.space.size:
            raise DataError(
                f"table: expected layers that differ, found {len(table)} that are alike; the method "
                "'roofline' learns from such layers"
            )
        ratio = table.ms / np.exp(log_of(self.costs.parts(table)))
        pass_on_interrupt(member.ranker.fit([_graph(member, columns, ratio)], verbose=False))
        return member

    def _columns(self, table: LayerTable, without: str | None = None) -> Floats:
        """Return features and shares of the costs (n, F)."""
        return np.concatenate([matrix(table), self.costs.shares(table, without)], 1)

    def _with_device_flags(self, columns: Floats, table: LayerTable) -> Floats:
        """Return columns and a flag per device (n, F + D)."""
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

    def write(self, file: File) -> None:
        """Add the method to a file."""
        super().write(file)
        both = [*self.known, *self.smooth]
        file.metadata["share"] = self.share
        file.put_rankers([member.ranker for member in both])
        file.put(**{f"{i}.space": member.space.to_file() for i, member in enumerate(both)})

    def read(self, file: File, kind: Kind) -> None:
        """Restore what `write` added, of a model of that kind of layers."""
        super().read(file, kind)
        self.share = file.entry("share", float)
        if not 0 <= self.share <= 1:
            raise file.wrong("share", "a number from 0 to 1", f"{self.share}")
        smooth = self._columns(replace(one_layer(kind), devices=self.devices[:1])).shape[1]
        rankers, members = file.get_rankers(self.networks), []
        for i, ranker in enumerate(rankers):
            count = smooth + (len(self.devices) if i < self.fields["members"] else 0)
            members.append(Member(ranker, Space.read(file, f"{i}.space", count)))
        self._take(members)


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
        super().__init__(seed)
        self._set(members=members, rounds=rounds, leaves=leaves)

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


def _graph(member: Member, columns: Floats, ratio: Floats | None = None) -> Graph:
    """Return layers (n, F) as a member sees them."""
    placed = member.space.place(columns, clipped=True)
    return configs([f"column {i}" for i in range(placed.shape[1])], placed, ratio)


def _mean(members: Sequence[Member], columns: Floats) -> Floats:
    """Return the mean of the members' predictions for layers (n, F)."""
    scores = [member.ranker.predict(_graph(member, columns), verbose=False) for member in members]
    found: Floats = np.mean(scores, 0, dtype=np.float64)
    return found
