"""Comparisons of recipes: folds, finished trials, ensembles of them, tables, the command."""

import json
import math

import numpy as np
import pytest
from rankers import small_any, small_graph, small_tile
from refusals import refuses
from test_distributed import finished, processes, start, together

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.evaluation import plot
from tpugraphs.ranker import Trial
from tpugraphs.ranker.ensemble import fitted_weights

SHORT = {"steps": 3, "width": 16, "configs": 16, "evaluate_every": 1}


@pytest.fixture(scope="module")
def folds():
    return tg.ranker.unseen_configs([small_graph(0), small_graph(1)], (0.6, 0.2, 0.2))


@pytest.fixture(scope="module")
def compared(folds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trials")
    recipes = ["first-layout", ("first-layout", {"prune": "none"})]
    return tg.compare(recipes, folds, seeds=2, folder=folder, verbose=False, **SHORT), folder, recipes


def digits(graph):
    return {bytes(row) for row in graph.digits_of(np.arange(graph.num_configs))}


def test_configs_are_learnt_chosen_by_or_judged(folds):
    (fold,) = folds
    for i, graph in enumerate((small_graph(0), small_graph(1))):
        parts = [digits(part[i]) for part in (fold.train, fold.valid, fold.unseen)]
        assert set.union(*parts) == digits(graph) and sum(map(len, parts)) == len(digits(graph))
        assert len(parts[0]) > len(parts[1]) > 10 and len(parts[2]) > 10
    again, other = tg.ranker.unseen_configs(small_graph(0), folds=2)
    assert again.name != other.name and digits(again.train[0]) != digits(other.train[0])


def test_subsets_are_fixed_disjoint_and_of_one_size():
    graph = small_graph(0, configs=300)
    first, second = (tg.ranker.unseen_configs(graph, subset=10)[0].unseen for _ in range(2))
    assert [part.num_configs for part in first] == [10] * 4  # of 45
    assert all(digits(a) == digits(b) for a, b in zip(first, second, strict=True))
    assert len(set.union(*map(digits, first))) == 40
    (whole,) = tg.ranker.unseen_configs(graph, subset=45)[0].unseen
    assert whole.num_configs == 45


def test_graphs_are_judged_once_and_not_learnt_from():
    graphs = [small_graph(seed) for seed in range(7)]
    groups = [0, 0, 1, 2, 2, 3, 4]
    for divided in (
        tg.ranker.unseen_graphs(graphs),
        tg.ranker.unseen_graphs(graphs, groups),
        tg.ranker.unseen_graphs(graphs, groups, folds=3, seed=1),
        tg.ranker.unseen_graphs(graphs, lambda graph: groups[int(graph.name[-1])], folds=2),
    ):
        assert sorted(place for fold in divided for place in fold.places) == list(range(7))
        for fold in divided:
            seen = {int(graph.name[-1]) for graph in fold.train}
            unseen = {int(graph.name[-1]) for graph in fold.unseen}
            assert seen | unseen == set(range(7)) and not seen & unseen and not len(fold.valid)
            if len(divided) < 7:
                assert not {groups[i] for i in seen} & {groups[i] for i in unseen}


def test_parts_are_sequences():
    train = tg.ranker.unseen_graphs([small_graph(seed) for seed in range(4)])[1].train
    assert [graph.name for graph in train[1:]] == ["small2", "small3"] and len(train[:-1]) == 2
    assert train[-1].name == "small3"


def test_small_graphs_are_learnt_from_and_not_judged():
    graphs = [small_graph(seed, configs=30 + 10 * seed) for seed in range(4)]
    folds = tg.ranker.unseen_graphs(graphs, least=50)
    assert [fold.places for fold in folds] == [[2], [3]] and all(len(fold.train) == 3 for fold in folds)


def test_what_makes_no_sense_is_refused():
    g, r = [small_graph(0), small_graph(1)], tg.ranker
    folds, one = r.unseen_graphs(g), ["first-layout"]
    for call, *names in (
        (lambda: r.unseen_graphs(g, [1]), "label per graph"),
        (lambda: r.unseen_graphs(g, [1, 1]), "two graphs"),
        (lambda: r.unseen_graphs(g, folds=3), "folds", "at most 2"),
        (lambda: r.unseen_graphs(g, least=97), "least", "97 configs"),
        (lambda: r.unseen_graphs(g, "kin"), "group", "'family'"),
        (lambda: r.unseen_graphs(g, [["a"], ["b"]]), "groups"),
        (lambda: r.unseen_configs(g, (0.5, 0.5)), "fractions"),
        (lambda: r.unseen_configs(g, 0.5), "fractions"),
        (lambda: r.unseen_configs(g, folds=0), "folds"),
        (lambda: r.unseen_configs(g, subset=1), "subset"),
        (lambda: tg.compare(one, []), "folds", "at least one"),
        (lambda: tg.compare(one, g), "folds", "at least one"),
        (lambda: tg.compare("first-layout", folds), "recipes", "list"),
        (lambda: tg.compare([3], folds), "recipes", "pairs"),
        (lambda: tg.compare([("first-layout", 3)], folds), "recipes", "pairs"),
        (lambda: tg.compare([], folds), "recipes", "at least one"),
        (lambda: tg.compare(one, folds, wdth=3), "wdth"),
        (lambda: tg.compare(one, folds, seeds=0), "seeds"),
        (lambda: tg.compare(["no-recipe"], folds), "unknown recipe"),
        (lambda: tg.compare(one * 2, folds), "'first-layout' twice"),
        (lambda: tg.compare(one, folds * 2), "'fold 0'"),
        (lambda: tg.compare(one, [r.Fold("a", g, (), ())]), "`unseen`"),
        (lambda: tg.compare(one, [r.Fold("a", (), (), g)]), "`train`"),
        (lambda: tg.compare([("first-layout", {"seed": 1})], folds), "seed"),
    ):
        refuses(call, (tg.ConfigError, tg.RecipeError), *names)


def test_trials_are_those_of_rankers(compared, folds):
    comparison = compared[0]
    assert [(t.name, t.seed) for t in comparison.trials] == [
        (name, seed) for name in ("first-layout", "first-layout, prune=none") for seed in (0, 1)
    ]
    ranker = tg.Ranker("first-layout", seed=1, prune="none", **SHORT)
    ranker.fit(folds[0].train, folds[0].valid, verbose=False)
    trial = comparison.trials[3]
    for graph, scores in zip(folds[0].unseen, trial.scores, strict=True):
        assert (ranker.predict(graph) == scores).all()
    report = ranker.evaluate(folds[0].unseen)
    for name, value in trial.values.items():
        assert value == pytest.approx(report.mean(name))
    assert trial.parameters == ranker.num_parameters and trial.seconds > 0 and trial.per_1000 > 0
    assert trial.peak is None or trial.peak > 1e7


def test_ranks_take_turns_with_trials(compared, folds, tmp_path):
    comparison, _, recipes = compared

    def work(comm):
        return tg.compare(recipes, folds, seeds=2, folder=tmp_path, verbose=False, communicator=comm, **SHORT)

    for found in together(3, work):
        for one, other in zip(found.trials, comparison.trials, strict=True):
            assert (one.name, one.seed, one.fold, one.values) == (
                other.name,
                other.seed,
                other.fold,
                other.values,
            )
            assert all((a == b).all() for a, b in zip(one.scores, other.scores, strict=True))
    assert len(list(tmp_path.iterdir())) == len(comparison.trials)


@processes
def test_the_command_over_ranks_prints_and_writes_once(tmp_path):
    for seed in range(2):
        small_graph(seed).save(tmp_path / f"g{seed}.npz")
    words = [
        "compare",
        tmp_path / "g0.npz",
        tmp_path / "g1.npz",
        "--recipes",
        "first-layout",
        "--seeds",
        "1",
        "--json",
    ]
    words += [
        "--set",
        "steps=2",
        "--set",
        "width=16",
        "--trials",
        tmp_path / "trials",
        "--out",
        tmp_path / "out",
    ]
    code, text, err = finished(start(2, *words))
    assert code == 0, err
    told, again = json.loads(text), finished(start(0, "-m", "tpugraphs", *words))
    assert told["trials"] == json.loads(again[1])["trials"] and (tmp_path / "out.md").exists()


def test_finished_trials_are_taken_from_the_folder(compared, folds, monkeypatch):
    comparison, folder, recipes = compared
    files = sorted(folder.iterdir())
    assert len(files) == 4
    monkeypatch.setattr(tg.Ranker, "fit", lambda *args, **kwargs: pytest.fail("it was trained again"))
    again = tg.compare(recipes, folds, seeds=2, folder=folder, verbose=False, **SHORT)
    assert again.trials == comparison.trials and again.table() == comparison.table()
    for a, b in zip(again.trials, comparison.trials, strict=True):
        assert all((x == y).all() for x, y in zip(a.scores + a.choosing, b.scores + b.choosing, strict=True))
    monkeypatch.undo()
    for change in ({"steps": 2}, {"seeds": 3}, {"tta": 1}):
        before = len(list(folder.iterdir()))
        options = {"seeds": 1, **SHORT, **change}
        tg.compare(recipes[:1], folds, folder=folder, verbose=False, **options)
        assert len(list(folder.iterdir())) == before + 1, change


def test_trials_differ_by_what_a_recipe_of_that_name_is_made_of(tmp_path):
    """Nothing in the name, the fields or the losses tells these apart."""
    folds = tg.ranker.unseen_configs([small_any(0), small_any(1)], (0.6, 0.2, 0.2))

    def own(width, extra=None, **fields):
        model = tg.Model()
        model.linear(model.linear(model.config_feat, out=width), out=1, to="scores")
        return model.recipe("own", extra=extra, **fields)

    def count(graph):
        return {"graph": {"nodes": graph.num_nodes}}

    for recipe in (own(4), own(5), own(4, powers=False), own(4, count), own(4), own(4, count)):
        comparison = tg.compare([recipe], folds, seeds=1, folder=tmp_path, verbose=False, steps=2)
        again = tg.Ranker(recipe, steps=2)
        again.fit(folds[0].train, folds[0].valid, verbose=False)
        assert (comparison.trials[0].scores[0] == again.predict(folds[0].unseen[0])).all()
    assert len(list(tmp_path.iterdir())) == 4


def test_trials_differ_by_precision_and_leave_no_ranker_behind(folds, tmp_path, monkeypatch):
    learnt = []
    fit = tg.Ranker.fit
    monkeypatch.setattr(
        tg.Ranker, "fit", lambda own, *args, **options: (learnt.append(own), fit(own, *args, **options))
    )
    recipes = ["first-layout", ("first-layout", {"precision": "bf16"})]
    tg.compare(recipes, folds, seeds=1, folder=tmp_path, verbose=False, **SHORT)
    assert len(learnt) == len(list(tmp_path.iterdir())) == 2
    assert not any(ranker.fitted for ranker in learnt)


def test_graphs_and_metrics_are_refused_before_a_training(folds, monkeypatch):
    ranker = tg.Ranker("first-layout", **SHORT)
    ranker.fit(folds[0].train[0], verbose=False)
    refuses(lambda: tg.Ensemble([ranker]).weighted(folds[0].valid, metric="ndcg"), tg.ConfigError, "metric")
    refuses(lambda: tg.Ensemble([ranker]).weighted([]), tg.DataError, "valid")
    monkeypatch.setattr(tg.Ranker, "fit", lambda *args, **kwargs: pytest.fail("it was trained"))
    graph = small_graph(0)
    unmeasured = graph.replace(config_runtime=np.zeros_like(graph.config_runtime))
    fold = tg.ranker.Fold("a", [graph], (), [unmeasured])
    refuses(lambda: tg.compare(["first-layout"], [fold], verbose=False), tg.DataError, "measured runtimes")


def test_a_damaged_trial_is_refused(compared, tmp_path):
    file = next(compared[1].iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "trial.safetensors").write_bytes(content)
    refuses(lambda: Trial.load(tmp_path / "trial.safetensors"), tg.CheckpointError, "trial.safetensors")


def test_a_damaged_trial_can_be_done_again(folds, tmp_path):
    def compare():
        return tg.compare(["first-layout"], folds, seeds=1, folder=tmp_path, verbose=False, **SHORT)

    first = compare()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(tg.CheckpointError) as caught:
        compare()
    assert caught.value.__notes__ == ["delete this file, and the same call does the trial again"]
    file.unlink()
    assert compare().trials[0].values == first.trials[0].values


def test_summaries_are_means_over_seeds(compared):
    comparison = compared[0]
    for summary in comparison.summaries:
        of = [t.values["tau"] for t in comparison.trials if t.name == summary.name]
        assert summary.mean["tau"] == pytest.approx(np.mean(of))
        assert summary.sd["tau"] == pytest.approx(np.std(of, ddof=1))
    taus = [summary.mean["tau"] for summary in comparison.summaries]
    assert taus == sorted(taus, reverse=True) and abs(comparison.random.mean["tau"]) < 0.5
    names = [summary.name for summary in comparison.ensembles()]
    assert names == ["ensemble of all, minmax", "ensemble of all, rank", "ensemble, weights fitted"]


def test_an_ensemble_of_trials_is_one_of_rankers(compared, folds):
    (fold,) = folds
    rankers = []
    for fields in ({}, {"prune": "none"}):
        for seed in (0, 1):
            ranker = tg.Ranker("first-layout", seed=seed, **SHORT, **fields)
            ranker.fit(fold.train, fold.valid, verbose=False)
            rankers.append(ranker)
    for summary, normalize in zip(compared[0].ensembles(), ("minmax", "rank"), strict=False):
        report = tg.Ensemble(rankers, normalize=normalize).evaluate(fold.unseen)
        assert summary.mean["tau"] == pytest.approx(report.mean("tau"), abs=1e-3)
    weighted = tg.Ensemble(rankers, normalize="rank").weighted(fold.valid)
    assert compared[0].ensembles()[2].mean["tau"] == pytest.approx(
        weighted.evaluate(fold.unseen).mean("tau"), abs=1e-3
    )


def test_weights_are_fitted_greedily():
    rng = np.random.default_rng(0)
    times = [rng.permutation(200), rng.permutation(100)]
    noise = [[y + 40 * rng.normal(size=y.size) for y in times] for _ in range(3)]
    useless = [rng.normal(size=y.size) for y in times]
    weights = fitted_weights([*noise, useless], times, tg.metrics.kendall_tau)
    assert (weights[:3] > 0).all() and weights[3] <= weights[:3].max() / 3

    def judged(w):
        mixed = [
            np.average([tg.metrics.mean_ranks(m[i]) for m in [*noise, useless]], axis=0, weights=w)
            for i in (0, 1)
        ]
        return np.mean([tg.metrics.kendall_tau(s, y) for s, y in zip(mixed, times, strict=True)])

    assert judged(weights) >= judged(np.ones(4))
    alone = fitted_weights([useless, [y.astype(float) for y in times]], times, tg.metrics.kendall_tau)
    assert alone.tolist() == [0, 1]


def test_tile_kernels_are_compared_by_slowdown():
    kernels = [small_tile(seed) for seed in range(3)]
    folds = tg.ranker.unseen_graphs(kernels)
    comparison = tg.compare(["first-tile"], folds, seeds=1, verbose=False, **SHORT)
    assert comparison.metric == "slowdown@1" and len(comparison.trials) == 3
    (summary,) = comparison.summaries
    assert math.isnan(summary.sd["slowdown@1"]) and "slowdown@1" in comparison.table()
    assert summary.mean["opa"] == pytest.approx(np.mean([t.values["opa"] for t in comparison.trials]))


@pytest.mark.filterwarnings("ignore:.* left out of the fit")
def test_folds_in_which_any_order_will_do_do_not_count(tmp_path):
    kernels = [small_tile(seed) for seed in range(3)]
    for few in (4, 1):
        kernels[0] = kernels[0].select(np.arange(few))
        folds = tg.ranker.unseen_graphs(kernels)
        comparison = tg.compare(["first-tile"], folds, seeds=2, verbose=False, **SHORT)
        (summary,) = comparison.summaries
        for name, count in (("slowdown@1", 3 if few > 1 else 2), ("slowdown@5", 2)):
            of = [trial.values[name] for trial in comparison.trials if name in trial.values]
            assert len(of) == 2 * count and summary.mean[name] == pytest.approx(np.mean(of))
        assert "%" in comparison.table() and "nan" not in comparison.table()
        comparison.save(tmp_path / f"{few}")
    alone = tg.compare(["first-tile"], folds[:1], seeds=1, verbose=False, **SHORT)
    assert "slowdown@1" not in alone.summaries[0].mean and "nan" not in alone.table()
    alone.save(tmp_path / "alone")


def test_tables_json_and_pictures(compared, tmp_path):
    comparison = compared[0]
    comparison.save(tmp_path / "result")
    text = (tmp_path / "result.md").read_text()
    assert text.startswith("| scorer | tau |") and "first-layout, prune=none" in text and "random" in text
    told = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert len(told["trials"]) == 4 and "scores" not in told["trials"][0]
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")


def test_the_command(tmp_path, capsys):
    data = []
    for seed in range(3):
        small_graph(seed).save(tmp_path / f"g{seed}.npz")
        data.append(str(tmp_path / f"g{seed}.npz"))
    common = ["--recipes", "first-layout", "first-layout:prune=none", "--seeds", "1", "--set", "steps=2"]
    common += ["--set", "width=16", "--trials", str(tmp_path / "trials")]
    assert cli.main(["compare", *data, *common, "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "first-layout, prune=none" in shown and "random" in shown and "out.md" in shown
    written = (tmp_path / "out.md").read_text()
    assert f"tpugraphs compare {data[0]}" in written and "| first-layout, prune=none |" in written
    assert (tmp_path / "out.png").exists() and len(list((tmp_path / "trials").iterdir())) == 6  # 3 folds
    assert cli.main(["compare", data[0], *common, "--json", "--subset", "10"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {trial["fold"] for trial in told["trials"]} == {"split 0"}
    assert cli.main(["compare", *data, "--hold-out", "splits"]) == 2
    assert cli.main(["compare", *data, "--hold-out", "graphs", "--subset", "10"]) == 2
    assert "--subset goes with" in capsys.readouterr().err
    assert cli.main(["compare", data[0], "--least", "10"]) == 2
    assert "--least goes with" in capsys.readouterr().err


@pytest.fixture
def cut_short(monkeypatch):
    """Every fit of a ranker ends as if Ctrl-C had ended it; the list counts them."""
    fits, whole = [], tg.Ranker.fit

    def fit(self, *given, **options):
        fitted = whole(self, *given, **options)
        fitted.history_.interrupted = True
        fits.append(self)
        return fitted

    monkeypatch.setattr(tg.Ranker, "fit", fit)
    return fits


def work_of_several_fits():
    graphs = [small_graph(seed) for seed in range(3)]

    def rankers():
        return [tg.Ranker("first-layout", seed=seed, **SHORT) for seed in range(2)]

    def routed():
        return tg.Routed({"a*": rankers()[0], "*": rankers()[1]}, by="collection")

    return {
        "leave_out": lambda: tg.leave_out(rankers()[0], graphs, verbose=False),
        "Ensemble": lambda: tg.train_members(rankers(), graphs, verbose=False).fit(graphs, verbose=False),
        "Nearest": lambda: tg.Nearest(rankers()[0]).fit(graphs).predict(graphs[0]),
        "Routed": lambda: routed().fit(
            [g.replace(collection=c) for g, c in zip(graphs, "abc", strict=True)], verbose=False
        ),
    }


@pytest.mark.parametrize("work", work_of_several_fits())
def test_an_interrupted_fit_ends_work_of_several(cut_short, work):
    with pytest.raises(KeyboardInterrupt):
        work_of_several_fits()[work]()
    assert len(cut_short) == 1


def test_a_trial_that_was_interrupted_is_not_kept(cut_short, folds, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tg.compare(["first-layout"], folds, seeds=2, folder=tmp_path, verbose=False, **SHORT)
    assert len(cut_short) == 1 and not list(tmp_path.iterdir())


def test_the_command_takes_every_published_variant(tmp_path, monkeypatch):
    taken = []

    def compare(recipes, *rest, **options):
        taken.extend(recipes)
        raise tg.ConfigError("seen enough")

    monkeypatch.setattr(tg, "compare", compare)
    data = [str(tmp_path / f"g{seed}.npz") for seed in range(2)]
    for seed, path in enumerate(data):
        small_tile(seed).save(path)
    assert cli.main(["compare", *data]) == 2
    variants = [one[1]["variant"] for one in taken if not isinstance(one, str)]
    assert variants == ["early-sage", "late-sage", "early-resgcn", "late-resgcn", "mlp"]
    assert "first-tile" in taken and "first-layout" not in taken


def test_a_picture_leaves_out_a_random_order_that_is_far_away():
    near = plot.compared({"a": [0.2, 0.3], "b": [0.1]}, "tau", 0.0)
    far = plot.compared({"a": [0.77, 0.78], "b": [0.775]}, "tau", 0.0)
    assert near.legends and not far.legends
    assert far.axes[0].get_xlim()[0] > 0.7 and "random" in far.axes[0].get_title(loc="right")
