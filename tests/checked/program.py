"""A user's program, as type checkers see it: read by mypy and pyright in test_types.py, never run.

A line that is wrong has a comment to ignore it. Both checkers complain about a comment that is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import tpugraphs as tg
from tpugraphs.data.auditing import Audit
from tpugraphs.data.schema import LAYOUT
from tpugraphs.kernels.losses import Result
from tpugraphs.ranker.seeds import train_seeds

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

# Graphs and their files
collection = tg.open_collection("options:xla:cpu")
assert_type(collection, tg.data.Collection)
assert_type(collection.train, tg.data.Split)
assert_type(collection.train[0], tg.Graph)
assert_type(collection.train[:2], tg.data.Split)
graph = tg.load("alexnet.npz")
assert_type(graph, tg.Graph)
assert_type(tg.data.load_all("tuning.pb", padding=0), list[tg.Graph])  # type: ignore
assert_type(tg.data.load_all("tuning.pb"), list[tg.Graph])
assert_type(tg.sample("alexnet"), tg.Graph)
assert_type(tg.list_samples(), list[str])
assert_type(graph.node_feat, Floats)
assert_type(graph.node_opcode, NDArray[np.uint8] | None)
assert_type(graph.config_runtime, Numbers | Doubles)
assert_type(graph.select(slice(0, 10)), tg.Graph)
assert_type(graph.ran, Numbers)
assert_type(tg.from_frame({"gpu": ["A", "B"], "ms": [1.0, 2.0]}, group="gpu"), list[tg.Graph])
assert_type(tg.nearest(collection.train, graph), Numbers)
assert_type(tg.audit("folder"), Audit)
assert_type(LAYOUT, tg.Schema)
print(graph.num_confgs)  # type: ignore

# Rankers
ranker = tg.Ranker("first-layout", seed=1, width=32, optimizer="adam", loss="list_mle", prune=None)
assert_type(ranker, tg.Ranker)
tg.Ranker(sed=1)  # type: ignore
tg.Ranker("first-layout", widht=3)  # type: ignore
tg.Ranker("first-layout", width="wide")  # type: ignore
tg.Ranker("first-layout", optimizer="adamm")  # type: ignore
assert_type(tg.recipes.get_recipe("first-layout"), tg.recipes.Recipe)
own = tg.recipes.Recipe(name="mine", summary="My own.")
assert_type(tg.Ranker(own, fields_of_my_own=3), tg.Ranker)
ranker.fit(graph)
ranker.fit([graph, tg.sample("tile_00")], 0.1, sample_weight=[None, np.ones(3)], steps=10)
ranker.fit(collection.train, collection.valid)
ranker.fit("folder")  # type: ignore
ranker.fit(graph, stps=3)  # type: ignore
assert_type(ranker.predict(graph), Floats)
assert_type(ranker.predict(graph, slice(0, 5), precision="int8"), Floats)
assert_type(ranker.rank(graph, [1, 2, 3]), Numbers)
assert_type(ranker.choose(graph, 5, tta=2), Numbers)
assert_type(ranker.score([graph]), float)
assert_type(ranker.adapt(graph, steps=5), tg.Ranker)
assert_type(ranker.parameters, dict[str, Floats])
assert_type(tg.Ranker.load("ranker.safetensors"), tg.Ranker)
assert_type(tg.Ranker.from_torch("weights.safetensors", "first-layout", graphs=[graph]), tg.Ranker)
tg.Ranker.from_torch("weights.safetensors", widht=3)  # type: ignore
assert_type(tg.load_ranker("any.safetensors"), tg.ranker.ScorerBase)
assert_type(tg.list_recipes("tile"), list[str])

# Reports, seeds, ensembles
report = ranker.evaluate(collection.valid, draws=100, tta=2)
assert_type(report, tg.evaluation.Report)
ranker.evaluate(collection.valid, drws=100)  # type: ignore
assert_type(report.mean("tau"), float)
runs = tg.train_seeds("first-layout", collection.train, 0.1, seeds=3, steps=10, width=16)
assert_type(runs, tg.SeedRuns)
assert_type(train_seeds(own, collection.train, fields_of_my_own=3), tg.SeedRuns)
tg.train_seeds("first-layout", graph, sed=3)  # type: ignore
assert_type(runs.ensemble(), tg.Ensemble)
assert_type(runs.rankers, tuple[tg.Ranker, ...])
ensemble = tg.Ensemble([ranker, tg.ranker.RandomBaseline()], normalize="rank")
assert_type(ensemble.predict(graph, tta=3), Floats)
ensemble.predict(graph, tat=3)  # type: ignore
assert_type(ensemble.weighted(collection.valid), tg.Ensemble)
assert_type(tg.train_members(["first-layout", ranker], [graph]), tg.Ensemble)
assert_type(tg.leave_out(ranker, [graph], steps=5), tg.evaluation.Report)
tg.leave_out(ranker, [graph], stps=5)  # type: ignore
assert_type(tg.cross_validate("first-layout", [graph], folds=3, steps=5), tg.evaluation.Report)
tg.cross_validate("first-layout", [graph], fold=3)  # type: ignore
assert_type(tg.cross_validate(lambda seed: tg.ranker.RandomBaseline(seed), [graph]), tg.evaluation.Report)
assert_type(tg.compare(["first-layout"], tg.ranker.unseen_configs(graph), steps=5), tg.ranker.Comparison)
assert_type(tg.distill(ensemble, "first-layout", [graph], steps=5), tg.Ranker)
assert_type(tg.pseudo_label(graph, ensemble, tta=2), tg.Graph)
assert_type(tg.Nearest(ranker).predict(graph), Floats | Doubles)
assert_type(tg.Routed({"layout": ranker}).route(graph), tg.ranker.Scorer)


class Mine(tg.ranker.ScorerBase):
    """A custom scorer is a scorer for type checkers, too."""

    @property
    def kind(self) -> str:
        return "any"

    def predict(
        self,
        graph: tg.Graph,
        configs: tg.data.Rows | None = None,
        tta: int = 0,
        *,
        precision: str | None = None,
        verbose: bool | None = None,
    ) -> Doubles:
        return np.zeros(graph.row_numbers(configs).size)


assert_type(tg.Ensemble([Mine(), ranker]), tg.Ensemble)
assert_type(Mine().rank(graph), Numbers)


def collections() -> Iterator[tg.Graph]:
    """Any iterable of graphs will do."""
    yield graph


class Watch(tg.training.Callback):
    """Callbacks are typed."""

    def on_step(self, fit: tg.training.Fit) -> None:
        assert_type(fit.step, int)
        assert_type(fit.history, tg.training.History)
        assert_type(fit.history.loss, list[float])


ranker.fit(collections(), callbacks=[Watch(), tg.training.EarlyStopping(3)])

# Kernels, losses, metrics
x, w = np.zeros((4, 8), np.float32), np.zeros((2, 8), np.float32)
edges = np.zeros((5, 2), np.int64)
assert_type(tg.kernels.linear(x, w, None, act="gelu"), Floats)
assert_type(tg.kernels.linear_backward(x, x, w, None), dict[str, Floats])
tg.kernels.linear(x, w, None, act="swish")  # type: ignore
assert_type(tg.kernels.gatv2(x, edges, heads=2, direction="both"), Floats)
assert_type(tg.kernels.gatv2_backward(x, x, edges), dict[str, Floats])
tg.kernels.gatv2(x, edges, head=2)  # type: ignore
tg.kernels.gatv2(x)  # type: ignore
assert_type(tg.kernels.ranknet(x[0], edges[:, 0], sigma=2.0), Result)
tg.kernels.ranknet(x[0], edges[:, 0], reduction="men")  # type: ignore
tg.torch.lineer(x)  # type: ignore
tg.torch.linear(x, w, None, actt="gelu")  # type: ignore
tg.torch.gatv2(x, edges, out=x)  # type: ignore

# Tables in place of graphs, as scikit-learn has them
rows, seconds = np.ones((9, 3)), np.ones(9)
assert_type(tg.Ranker("graph-config").fit(rows, seconds), tg.Ranker)
assert_type(ranker.predict(rows), Floats)
assert_type(ranker.score(rows, seconds), float)
ranker.predict([1.0, 2.0])  # type: ignore
assert_type(tg.kernels.list_mle(x[0], edges[:, 0]), Result)
assert_type(tg.metrics.kendall_tau([1.0, 2.0], [3, 4]), float)
assert_type(tg.metrics.mean_ranks([1.0, 2.0]), Doubles)
tau: Callable[..., float] = tg.metrics.kendall_tau

# Other wings
assert_type(
    tg.prune(tg.LayoutGraph(node_feat=x, node_opcode=[1], edge_index=edges), "k-hop", hops=2), tg.LayoutGraph
)
assert_type(tg.submission.score("submission.csv", collection.valid), tg.submission.Score)
network = tg.Model()
assert_type(network.linear(network.config_feat, out=3), str)
network.linearr(network.config_feat, out=3)  # type: ignore
model = tg.layertime.LayerTimeModel("dense", members=2, steps=100)
assert_type(model.fit("dense_K40.csv.gz"), tg.layertime.LayerTimeModel)
tg.layertime.LayerTimeModel("dense", membrs=2)  # type: ignore
assert_type(model.predict({"batch": [32], "dim_input": [8]}, device="K40"), Doubles)
layers = tg.layertime.read_layers("network.json")
assert_type(layers, tg.layertime.LayerList)
assert_type(tg.layertime.network_time({"dense": model}, layers, 32), tg.layertime.Estimate)
assert_type(tg.xla.graph(np.sin, x), tg.LayoutGraph)
assert_type(tg.xla.collect(np.sin, x, n_configs=5), tg.Graph)
assert_type(tg.get_num_threads(), int)
