"""Programs that are alike: families, nearest graphs, folds by family, rankers of the nearest, pseudo-labels."""

import json

import numpy as np
import pytest
from rankers import Lazy, small_any, small_graph, small_ranker, small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.data import family
from tpugraphs.ranker import LinearBaseline, MeanEffect
from tpugraphs.ranker.folds import _dealt

NAMES = {
    "small_bert_bert_en_uncased_L-2_H-768_A-12_batch_size_16_test": "bert",
    "albert_en_base_batch_size_16_test": "albert",
    "talking-heads_large_batch_size_16_train": "talking-heads",
    "mlperf_bert_batch_24_2x2": "bert",
    "mask_rcnn_resnet50.4x4.bf16.performance": "mask_rcnn",
    "resnet_v1_50_official_batch_128_bf16": "resnet",
    "ResNet50.4x4.fp16": "resnet",
    "unet_3d.4x4.bf16": "unet",
    "magenta_dynamic": "magenta",
    "attention-bhtd.1": "attention",
    "attention-fused.0": "attention",
    "0b1ed0ea4a6a8bd2bb7d2d6c2b8a1f3c": "0b1ed0ea4a6a8bd2bb7d2d6c2b8a1f3c",
    "17": "17",
}


@pytest.mark.parametrize("name", NAMES)
def test_families_by_name(name):
    assert family(small_graph().replace(name=name)) == NAMES[name]


# Nearest graphs


def test_nearest_by_size():
    graphs = [small_graph(i, nodes=n) for i, n in enumerate((40, 14, 13, 60, 14))]
    own = small_graph(9, nodes=14)
    assert tg.nearest(graphs, own, 4).tolist() == [1, 4, 2, 0]
    assert tg.nearest(graphs, own, 99).tolist() == [1, 4, 2, 0, 3]
    # twice as large is as far as half as large
    few = [small_graph(0, nodes=n) for n in (7, 31, 16)]
    apart = [abs(np.log(n + 1) - np.log(16)) + abs(np.log(n) - np.log(15)) for n in (7, 31, 16)]
    assert tg.nearest(few, small_graph(1, nodes=15), 3).tolist() == np.argsort(apart).tolist()
    assert tg.nearest(Lazy(0, 1, 2), own).tolist() == [0]


def test_nearest_by_opcodes():
    def of(*opcodes):
        return small_graph(nodes=len(opcodes), config_nodes=1).replace(node_opcode=np.array(opcodes))

    own = of(1, 1, 2, 3)
    graphs = [of(4, 5, 6, 7), of(1, 1, 2, 2), of(1, 2, 1, 3), of(1, 1, 2, 3, 3, 3, 3, 3)]
    assert tg.nearest(graphs, own, 4, by="opcodes").tolist() == [2, 1, 3, 0]  # 0, 2/8, 4/12, 1


def test_nearest_refuses_what_cannot_be_compared(tmp_path):
    graph, scorer = small_graph(), tg.Nearest(small_ranker())
    for wrong in ({"n": 0}, {"n": 1.5}, {"n": True}, {"by": "name"}, {"graphs": []}):
        given = {"graphs": [graph], "graph": graph, **wrong}
        refuses(lambda: tg.nearest(**given), tg.ConfigError, f"{next(iter(wrong))}:")
    bare = tg.Graph(node_feat=np.ones((2, 1)), name="bare")
    refuses(lambda: tg.nearest([bare], bare, by="opcodes"), tg.DataError, "node_opcode", "by='size'")
    refuses(lambda: scorer.predict(graph), tg.Error, "learnt nothing")
    refuses(lambda: scorer.fit(graph).save(tmp_path / "x.safetensors"), tg.ConfigError, "saved")
    refuses(lambda: tg.Nearest("first-layout"), tg.ConfigError, "ranker", "str")
    refuses(lambda: tg.Nearest(small_ranker(), by="name"), tg.ConfigError, "by:", "'name'")
    for name in ("sample_weight", "checkpoint_dir"):
        refuses(lambda: scorer.fit([graph], **{name: "given"}), tg.ConfigError, name)


def test_a_ranker_is_trained_on_the_nearest_graphs():
    graphs = [small_graph(i, nodes=n) for i, n in enumerate((14, 40, 15))]
    wanted, own = small_graph(7, nodes=14), small_ranker(steps=4)
    scorer = tg.Nearest(own, n=2).fit(graphs, steps=3)
    twin = small_ranker(steps=4)
    twin.fit([graphs[0], graphs[2]], steps=3, verbose=False)
    assert scorer.predict(wanted, [3, 1, 2]).tobytes() == twin.predict(wanted, [3, 1, 2]).tobytes()
    assert scorer.of(wanted) is scorer.of(small_graph(8, nodes=14))
    scorer.predict(graphs[1])
    assert list(scorer.rankers) == [(0, 2), (1, 2)] and not own.fitted
    assert scorer.kind == "layout" and 0 <= abs(scorer.score(graphs)) <= 1
    assert scorer.evaluate([wanted], draws=10).rows[0].scorer == "first-layout-cross of the nearest"
    assert "2 of 3 graphs by size" in repr(scorer)


def test_nearest_rankers_read_every_training_graph_once_to_compare():
    read = []

    class Noted(list):
        def __getitem__(self, i):
            read.append(i)
            return super().__getitem__(i)

    graphs = Noted([small_graph(i, nodes=n) for i, n in enumerate((14, 40, 15))])
    scorer = tg.Nearest(small_ranker(steps=2), by="opcodes").fit(graphs)
    for seed in range(3):
        scorer.predict(small_graph(seed, nodes=40))
    assert read == [0, 1, 2, 1]


# Cross-validation


def test_folds_are_even_and_keep_groups_together():
    for seed in range(20):
        folds = _dealt(range(23), 5, seed)
        assert sorted(np.bincount(folds)) == [4, 4, 5, 5, 5]
    assert len({tuple(_dealt(range(23), 5, seed)) for seed in range(5)}) == 5
    labels = [*"aaaaaabbbccd"]
    folds = _dealt(labels, 3, 0)
    assert sorted(np.bincount(folds)) == [3, 3, 6]
    assert all(len({f for f, name in zip(folds, labels, strict=True) if name == one}) == 1 for one in "abcd")
    refuses(lambda: _dealt(labels, 5, 0), tg.ConfigError, "4", "got 5")


def test_every_graph_is_ranked_by_those_trained_without_its_family():
    names = ("bert_a", "resnet_a", "bert_b", "unet_a", "resnet_b")
    graphs = [small_graph(i, configs=30).replace(name=name) for i, name in enumerate(names)]
    report = tg.cross_validate(
        small_ranker(steps=3), graphs, folds=3, group="family", seeds=[0, 5], verbose=False, draws=10
    )
    assert [(row.graph, row.scorer) for row in report.rows] == [
        (name, seed) for name in names for seed in ("seed 0", "seed 5")
    ]
    twin = small_ranker(steps=3, seed=5)
    twin.fit([graphs[i] for i in (1, 3, 4)], verbose=False)
    assert report.rows[1].scores.tobytes() == twin.predict(graphs[0]).tobytes()
    own = tg.cross_validate(
        small_ranker(steps=3), graphs, folds=2, group=lambda g: g.name[-1], verbose=False, draws=10
    )
    twin = small_ranker(steps=3)
    twin.fit([graphs[2], graphs[4]], verbose=False)
    assert own.rows[3].scores.tobytes() == twin.predict(graphs[3]).tobytes()
    assert {row.scorer for row in own.rows} == {"first-layout-cross"}


def test_scorers_of_any_kind_are_cross_validated():
    graphs, asked = [small_any(i) for i in range(4)], []

    def make(seed):
        asked.append(seed)
        return MeanEffect()

    report = tg.cross_validate(make, graphs, folds=2, seeds=2, verbose=False, draws=10)
    assert len(report.rows) == 8 and asked == [0, 1, 0, 1]
    report = tg.cross_validate(make, graphs, folds=4, verbose=False, draws=10)
    assert [row.scorer for row in report.rows] == ["mean effect"] * 4
    others = MeanEffect().fit([*graphs[:2], graphs[3]])
    assert (report.rows[2].scores == others.predict(graphs[2])).all()


def test_a_cross_validation_that_makes_no_sense_is_refused():
    graphs = [small_graph(i) for i in range(3)]
    for wrong, *names in (
        ({"folds": 1}, "folds", "at least 2"),
        ({"folds": 4}, "folds", "at most 3"),
        ({"folds": 2, "group": "kin"}, "group", "'family'", "'kin'"),
        ({"folds": 2, "seeds": 0}, "seeds"),
        ({"folds": 2, "beside": {"first-layout-cross": len}}, "beside", "'first-layout-cross'"),
        ({"folds": 2, "ranker": 3}, "ranker", "got 3"),
    ):
        given = {"ranker": small_ranker(), "graphs": graphs, **wrong}
        refuses(lambda: tg.cross_validate(**given), tg.ConfigError, *names)


def test_the_command_cross_validates(capsys, tmp_path):
    for i, name in enumerate(("bert_a", "bert_b", "unet_a")):
        small_graph(i, configs=20).replace(name=name).save(tmp_path / f"{name}.npz")
    data = [str(path) for path in sorted(tmp_path.glob("*.npz"))]

    def run(*argv):
        code = cli.main([str(arg) for arg in argv])
        return code, capsys.readouterr()

    ranker = tmp_path / "ranker.safetensors"
    own = small_ranker(steps=2)
    own.fit(small_graph(), verbose=False)
    own.save(ranker)
    code, told = run("evaluate", ranker, *data, "--folds", 2, "--by-family", "--steps", 2, "--json")
    assert code == 0, told.err
    assert [row["graph"] for row in json.loads(told.out)["graphs"]] == ["bert_a", "bert_b", "unet_a"]
    for wrong in (
        ["--by-family"],
        ["--folds", 2, "--leave-out"],
        ["--folds", 2, "--official"],
        ["--folds", 1],
    ):
        assert run("evaluate", ranker, *data, *wrong)[0] == 2
    code, told = run("evaluate", ranker, *data, "--folds", 3, "--by-family")
    assert code == 2 and "at most 2" in told.err


# Pseudo-labels


def test_pseudo_labels_are_places_of_the_scores():
    graph, ranker = small_graph(), small_ranker(steps=4)
    ranker.fit(graph, verbose=False)
    unlabelled = graph.replace(config_runtime=np.zeros(graph.num_configs, np.int64))
    assert not unlabelled.has_runtimes
    made = tg.pseudo_label(unlabelled, ranker)
    assert type(made) is tg.LayoutGraph and made.has_runtimes
    scores = ranker.predict(unlabelled)
    assert tg.metrics.kendall_tau(scores, made.config_runtime) == pytest.approx(1.0)
    assert made.config_runtime.min() == 1 and made.config_runtime.max() == len(np.unique(scores))
    small_ranker(steps=2).fit([graph, made], verbose=False)


def test_pseudo_labels_of_some_configs():
    graph, scorer = small_graph(), LinearBaseline().fit(small_graph())
    made = tg.pseudo_label(graph, scorer, 20, seed=1)
    assert made.num_configs == 20
    rows = [i for i in range(96) if (graph.config_digits[i] == made.config_digits).all((1, 2)).any()]
    places = np.argsort(np.argsort(scorer.predict(graph, rows)))
    assert (made.config_runtime == places + 1).all()
    assert (tg.pseudo_label(graph, scorer, 20, seed=1).config_digits == made.config_digits).all()
    assert (tg.pseudo_label(graph, scorer, 20, seed=2).config_digits != made.config_digits).any()
    assert tg.pseudo_label(graph, scorer, 1000).num_configs == 96


def test_pseudo_labels_of_other_kinds_of_graphs():
    kernel = small_tile()
    made = tg.pseudo_label(kernel, LinearBaseline().fit(kernel))
    assert (made.config_runtime_normalizers == 1).all()
    order = LinearBaseline().fit(kernel).predict(kernel)
    assert tg.metrics.kendall_tau(order, made.config_runtime) == pytest.approx(1.0)
    graph = small_any(valid=np.arange(48) >= 3)
    made = tg.pseudo_label(graph, LinearBaseline().fit(graph))
    assert made.num_configs == graph.num_configs - 3 and made.valid is None
    assert made.about["pseudo_labels"] == LinearBaseline().name


def test_pseudo_labels_that_cannot_be_made():
    class Broken(tg.ranker.ScorerBase):
        kind = "layout"

        def predict(self, graph, configs=None, **options):
            return np.full(graph.num_configs, np.nan)

    refuses(lambda: tg.pseudo_label(small_graph(), small_ranker()), tg.Error, "learnt nothing")
    refuses(lambda: tg.pseudo_label(small_graph(), Broken()), tg.DataError, "scores", "Broken")
    refuses(lambda: tg.pseudo_label(small_graph(), Broken(), 1), tg.ConfigError, "n_configs")
