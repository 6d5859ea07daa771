"""`tg.Ranker("auto")`: what it chooses, by which values, and what it does with the time."""

import time

import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import small_any, small_graph, small_tile

import tpugraphs as tg
from tpugraphs.cli import main
from tpugraphs.errors import CheckpointError, ConfigError, Error
from tpugraphs.ranker import auto, multitask, process, trees
from tpugraphs.ranker.auto import NETWORK, PROCESS, ROWS, TREES, Choice

GRAPHS = [small_any(seed) for seed in range(6)]
QUICK = {"steps": 20, "cv": 2}


def fitted(graphs=GRAPHS, valid=None, **fields):
    return tg.Ranker("auto", **{**QUICK, **fields}).fit(graphs, valid, verbose=False)


@pytest.fixture
def no_trees(monkeypatch):
    """As without LightGBM."""

    def missing(name, why):
        raise Error(why)

    monkeypatch.setattr(trees, "optional", missing)


# ---- what is chosen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["first", "best-of-k", "order"])
def test_what_is_chosen_is_as_good_as_the_best_by_its_own_values(objective):
    ranker = fitted(objective=objective)
    choice = ranker.choice_
    assert choice.objective == objective and choice.judged == 6 and choice.folds == 2
    better, other = sorted((NETWORK, ROWS), key=lambda name: name not in choice.values)
    single = {PROCESS, better} | ({TREES} - choice.left_out.keys())
    assert single <= choice.values.keys() and f"{other} of 20 steps" in choice.values
    assert len(choice.values) == 2 ** len(single)  # all means, and the other network
    named = " + ".join(choice.members)
    assert named in choice.values and choice.members[0] in str(choice) and objective in str(choice)
    values = np.array([*choice.values.values()])
    sign = -1 if objective == "order" else 1
    assert sign * (choice.values[named] - (sign * values).min() * sign) <= np.ptp(values)
    assert ranker.score(small_any(9)) > 0.5
    assert ranker.history_.seconds > 0 and ranker.knows(GRAPHS[0]) and not ranker.knows(small_any(9))


def tried(*scores):
    return auto._Tried([np.array(one, float) for one in scores], None, 0.0)


def search(objective, times, **members):
    """A search after its last fold, with these scores."""
    estimator = tg.Ranker("auto", objective=objective, tried=2).estimator
    found = auto._Search(estimator, GRAPHS, None, None, time.monotonic(), None)
    found.times = [np.array(one, float) for one in times]
    found.tried = {
        (name.rstrip("0123456789"), int(name.strip("abcdefghijklmnopqrstuvwxyz") or 250)): one
        for name, one in members.items()
    }
    return found._best()


TIMES = [[10, 20, 40, 80], [10, 30, 50, 70]]


def test_the_best_by_the_objective_is_taken_and_a_mean_where_it_is_better():
    right, wrong = [[0, 1, 2, 3]] * 2, [[3, 2, 1, 0]] * 2
    choice = search("first", TIMES, process=tried(*wrong), trees=tried(*right))
    assert choice.members == (TREES,) and choice.values == {
        PROCESS: 650.0,
        TREES: 0.0,
        "process + trees": 0.0,
    }
    # each is wrong about another graph
    choice = search(
        "order", TIMES, process=tried([0, 9, 18, 27], [3, 2, 1, 0]), trees=tried([3, 2, 1, 0], [0, 9, 18, 27])
    )
    assert choice.members == (PROCESS, TREES) and choice.values["process + trees"] == 1.0
    assert "tau 1.000 (order)" in str(choice) and "process -0 " not in str(choice)


def test_of_what_is_equally_good_the_best_order_is_taken():
    choice = search(
        "first", TIMES, process=tried([0, 3, 2, 1], [0, 3, 2, 1]), trees=tried([0, 1, 3, 2], [0, 1, 3, 2])
    )
    assert choice.members == (TREES,) and choice.values[PROCESS] == choice.values[TREES] == 0


def test_the_best_network_takes_part_and_the_others_are_told():
    long, short = tried([0, 1, 2, 3], [0, 1, 2, 3]), tried([1, 0, 2, 3], [0, 1, 2, 3])
    choice = search(
        "first", TIMES, process=tried([3, 2, 1, 0], [3, 2, 1, 0]), network250=short, network1000=long
    )
    assert choice.members == (NETWORK,) and choice.steps == 1000
    assert choice.values["network of 250 steps"] == 50 and choice.values[NETWORK] == 0


def test_configs_that_are_chosen_together_count_as_the_process_chooses_them():
    together = tried([3, 2, 1, 0], [3, 2, 1, 0])
    together.chosen = [np.array([0, 3]), np.array([0, 3])]
    choice = search("best-of-k", TIMES, process=together, trees=tried([2, 0, 1, 3], [2, 1, 0, 3]))
    assert choice.values[PROCESS] == 0 and choice.values[TREES] == 150.0
    assert PROCESS in choice.members


# ---- time -------------------------------------------------------------------------------------------------


def test_longer_networks_are_tried_while_there_is_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(auto.time, "monotonic", lambda: clock[0])
    member = auto.AutoEstimator._member

    def made(self, name, train, steps, *callbacks):
        clock[0] += steps / 1000 if name == NETWORK else 0.1
        return member(self, name, train, min(steps, 5), *callbacks)

    monkeypatch.setattr(auto.AutoEstimator, "_member", made)
    some = tg.Ranker("auto", seconds=20, cv=2).fit(GRAPHS, verbose=False)
    assert {"network of 250 steps", "network of 1,000 steps"} & some.choice_.values.keys()
    assert "network of 16,000 steps" not in some.choice_.values and clock[0] <= 20
    clock[0] = 0.0
    least = tg.Ranker("auto", seconds=0, cv=3).fit(GRAPHS, verbose=False).choice_
    assert least.folds == 1 and least.judged == 2 and "network of 1,000 steps" not in least.values


def test_bits_do_not_depend_on_the_number_of_threads_or_the_time():
    found = []
    for threads in (1, 3):
        tg.set_num_threads(threads)
        ranker = tg.Ranker("auto", members="process + network", steps=9).fit(GRAPHS, verbose=False)
        found.append(ranker.predict(GRAPHS[0]).tobytes())
    assert found[0] == found[1]


# ---- members ----------------------------------------------------------------------------------------------


def test_scores_are_means_of_those_of_the_members():
    graph = small_any(9)
    network = tg.Ranker("graph-config", steps=9).fit(GRAPHS, verbose=False).predict(graph)
    process = tg.ranker.MultiTaskGaussianProcess().fit(GRAPHS).predict(graph)
    alone = fitted(members="network", steps=9)
    np.testing.assert_array_equal(alone.predict(graph), network)
    both = fitted(members="process+network", steps=9)
    np.testing.assert_allclose(both.predict(graph), (network + process) / 2, rtol=1e-5)
    assert "not chosen" in str(both.choice_) and both.choice_.members == (PROCESS, NETWORK)
    chosen = tg.ranker.MultiTaskGaussianProcess().fit(GRAPHS).choose(graph, 4)
    np.testing.assert_array_equal(both.choose(graph, 4), chosen)
    np.testing.assert_array_equal(alone.choose(graph, 4), alone.rank(graph)[:4])


def test_a_network_of_rows_sees_no_nodes():
    graph = small_any(9)
    rows = fitted(members="row network", steps=9)
    other = graph.replace(node_feat=graph.node_feat[::-1].copy(), edge_index=graph.edge_index[:1])
    np.testing.assert_array_equal(rows.predict(graph), rows.predict(other))
    assert (fitted(members="network", steps=9).predict(graph) != rows.predict(graph)).any()
    bare = [one.replace(graph_feat=None, schema=None) for one in GRAPHS]
    assert not [name for name in fitted(bare, steps=3).choice_.values if ROWS in name]


def test_without_lightgbm_the_others_are_tried(no_trees):
    choice = fitted().choice_
    assert TREES not in choice.members and "lightgbm" in choice.left_out[TREES]
    assert "Left out: trees" in str(choice)


def test_digits_are_left_to_the_network(no_trees):
    graphs = [
        tg.Graph(
            node_feat=g.node_feat, node_opcode=g.node_opcode, edge_index=g.edge_index,
            node_config_ids=g.node_config_ids, node_config_feat=g.node_config_feat, runtime=g.config_runtime,
            name=g.name,
        )
        for g in (small_graph(seed) for seed in range(3))
    ]  # fmt: skip
    choice = fitted(graphs, steps=3).choice_
    assert choice.members == (NETWORK,) and PROCESS in choice.left_out


def test_one_table_and_too_few_configs_to_choose_by():
    rng = np.random.default_rng(0)
    x = rng.integers(1, 64, (80, 3)).astype(float)
    ranker = tg.Ranker("auto", **QUICK).fit(x, np.abs(x - 20).sum(1), verbose=False)
    assert ranker.choice_.judged == 2 and ranker.score(x, np.abs(x - 20).sum(1)) > 0.6
    assert ranker.n_features_in_ == 3 and ranker.choose(x, 3).shape == (3,)
    few = tg.Ranker("auto", **QUICK).fit(x[:8], np.abs(x[:8] - 20).sum(1), verbose=False)
    assert few.choice_.values == {} and few.choice_.members == (PROCESS,)


def test_graphs_to_validate_on_replace_the_folds():
    choice = fitted(GRAPHS[:4], GRAPHS[4:]).choice_
    assert choice.folds == 1 and choice.judged == 2
    assert fitted(GRAPHS, 0.2).choice_ == fitted().choice_  # a share has no effect


def test_callbacks_see_what_is_trained_in_the_end():
    class Seen(tg.training.Callback):
        steps = 0

        def on_step(self, fit):
            self.steps = fit.step

    seen = Seen()
    tg.Ranker("auto", members="network", steps=7).fit(GRAPHS, callbacks=[seen], verbose=False)
    assert seen.steps == 7


def test_the_command_line_trains_it(tmp_path, capsys):
    for graph in GRAPHS[:3]:
        graph.save(tmp_path / f"{graph.name}.npz")
    out = tmp_path / "auto.safetensors"
    words = [
        "train",
        "--data",
        tmp_path,
        "--recipe",
        "auto",
        "--steps",
        5,
        "--set",
        "objective=order",
        "--out",
        out,
    ]
    assert main([*map(str, words)]) == 0
    assert (
        tg.load_ranker(out).choice_.objective == "order" and "by cross-validation" in capsys.readouterr().out
    )


def test_families_stay_together():
    named = [small_any(seed, name=f"{'abcdef'[seed // 2]}-{seed}") for seed in range(6)]
    for fold in auto._folds(named, None, 3, 0):
        assert {graph.name[0] for graph in fold.train}.isdisjoint({graph.name[0] for graph in fold.unseen})
    assert len(auto._folds(named, None, 5, 0)) == 3  # as many as families
    assert len(auto._folds(GRAPHS, None, 6, 0)) == 6  # one family: each graph for itself


# ---- files and errors -------------------------------------------------------------------------------------


def test_files_hold_the_choice_and_are_checked(tmp_path):
    ranker, path, graph = fitted(), tmp_path / "auto.safetensors", small_any(9)
    ranker.save(path)
    loaded = tg.load_ranker(path)
    assert loaded.choice_ == ranker.choice_ and isinstance(loaded.choice_, Choice)
    np.testing.assert_array_equal(loaded.predict(graph), ranker.predict(graph))
    choice = ranker.to_file()[0]["choice"]
    for broken in ({}, 3, {**choice, "members": 3}, {**choice, "values": {"process": "x"}}):
        bad = rewrite(path, tmp_path / "bad.safetensors", lambda m, t, broken=broken: m.update(choice=broken))
        with pytest.raises(CheckpointError, match="choice|steps|members"):
            tg.load_ranker(bad)


def test_what_it_does_not_take():
    with pytest.raises(ConfigError, match="callbacks"):
        tg.Ranker("auto").fit(GRAPHS, callbacks=[3])
    for given in (
        {"sample_weight": [np.ones(48)] * 6},
        {"checkpoint_dir": "somewhere"},
        {"communicator": tg.distributed.SingleCommunicator()},
    ):
        with pytest.raises(ConfigError, match=f"{next(iter(given))}: auto"):
            tg.Ranker("auto").fit(GRAPHS, **given)
    with pytest.raises(
        ConfigError, match="members: expected some of process, trees, network and row network.*'forest'"
    ):
        fitted(members="process + forest")
    with pytest.raises(AttributeError, match="choice_"):
        tg.Ranker("auto").choice_  # noqa: B018
    with pytest.raises(Error, match="trains no network"):
        fitted().adapt(GRAPHS[0])


def test_graphs_without_an_order_are_left_out_with_a_warning():
    same, unmeasured = small_any(7, runtime=np.ones(48)), small_any(8, runtime=None)
    with pytest.warns(UserWarning, match="2 graphs left out of the fit: small7"):
        ranker = fitted([same, *GRAPHS, unmeasured])
    assert ranker.choice_.judged == 6 and ranker.history_.skipped.keys() == {"small7", "small8"}
    assert ranker.choice_ == fitted().choice_ and not ranker.knows(same)
    with pytest.raises(tg.DataError, match="none of the 2 graphs can be trained on; the last: small8"):
        fitted([same, unmeasured])


def test_what_learns_the_folds_but_not_all_graphs_is_left_out(monkeypatch, no_trees):
    configs = len(np.unique(np.concatenate([graph.config_feat for graph in GRAPHS]), axis=0))
    monkeypatch.setattr(multitask, "_PROGRAMS", configs - 1)
    monkeypatch.setattr(auto, "_as_good", lambda value, best: True)  # then the order decides: the process
    choice = fitted(objective="order", steps=1).choice_
    assert "different configs" in choice.left_out[PROCESS] and choice.members in ((NETWORK,), (ROWS,))


def test_the_process_learns_some_configs_of_a_large_table(monkeypatch):
    monkeypatch.setattr(auto, "_ROWS", 20)
    x = np.random.default_rng(0).integers(1, 64, (80, 3)).astype(float)
    ranker = tg.Ranker("auto", members="process").fit(x, np.abs(x - 20).sum(1), verbose=False)
    assert len(ranker.estimator.ensemble.rankers[0].learnt["x"]) == 20


def test_schemas_that_were_inferred_are_joined(no_trees):
    rng = np.random.default_rng(0)
    graphs = [
        tg.Graph(
            config_feat=rng.integers(1, 9, (30, 3)).astype(float), node_config_ids=np.array([0, 1]),
            node_feat=np.ones((4, 1)), edge_index=np.zeros((0, 2), np.int64), name=f"g{i}",
            node_config_feat=rng.integers(-1, 2 + i, (30, 2, 2)), runtime=rng.random(30) + 1,
        )
        for i in range(4)
    ]  # fmt: skip
    ranker = fitted(graphs, steps=3)
    assert ranker.choice_.judged == 4 and [digit.values for digit in ranker.schema.digits] == [5, 5]
    few = fitted(graphs[0].select(range(8)), steps=3)
    assert few.choice_.members == (NETWORK,) and PROCESS in few.choice_.left_out
    with pytest.raises(Error, match="auto: process: g0: .*digits"):
        fitted(graphs, members="process")


def test_a_longer_network_that_fails_leaves_the_shorter_one(monkeypatch, no_trees):
    member, calls = auto.AutoEstimator._member, []

    def made(self, name, train, steps, *callbacks):
        calls.append((name, steps))
        if steps == 1000 and calls.count((name, steps)) == 1:
            raise Error("training diverged")
        return member(self, name, train, min(steps, 3), *callbacks)

    monkeypatch.setattr(auto.AutoEstimator, "_member", made)
    choice = tg.Ranker("auto", seconds=1000, cv=2).fit(GRAPHS, verbose=False).choice_
    assert choice.left_out.keys() == {TREES} and "network" in str(choice.values)
    assert not [name for name in choice.values if "1,000" in name]


def test_what_is_judged_is_what_is_trained(monkeypatch):
    made = []
    for kind in (process.GaussianProcess, multitask.MultiTaskGaussianProcess):
        fit = kind.fit
        monkeypatch.setattr(kind, "fit", lambda *given, fit=fit, kind=kind: made.append(kind) or fit(*given))
    fitted(GRAPHS[:2], steps=1)
    assert set(made) == {multitask.MultiTaskGaussianProcess}


def test_published_graphs_are_learnt_by_networks():
    choice = fitted([small_tile(seed) for seed in range(3)], steps=3).choice_
    assert "alone" in choice.left_out[TREES] and NETWORK in choice.values


def test_a_table_of_equal_rows_has_nothing_to_choose_by():
    x = np.repeat([[1.0, 2.0], [3.0, 4.0]], 10, axis=0)
    assert fitted_table(x, np.arange(1.0, 21)).choice_.values == {}


def fitted_table(x, y):
    return tg.Ranker("auto", **QUICK).fit(x, y, verbose=False)
