"""Several seeds side by side: the same bits as alone, one set of data, exact resume, Ctrl-C, selection, the log."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import madeup
import numpy as np
import pytest
from broken.json_files import BROKEN
from rankers import FIELDS, Break, Lazy, small_graph, state
from test_distributed import together
from test_resume import same

import tpugraphs as tg
from tpugraphs import _core, cli, training
from tpugraphs.data import packs
from tpugraphs.preprocess import pipeline
from tpugraphs.training import Callback, EarlyStopping, trainset

RECIPE, SMALL = "first-layout-cross", {**FIELDS, "steps": 16, "evaluate_every": 4}


def graphs():
    return [small_graph(i, configs=60) for i in range(3)]


VALID = [small_graph(8), small_graph(9)]


def train(train=None, valid=VALID, **options):
    given = graphs() if train is None else train
    return tg.train_seeds(RECIPE, given, valid, **{"seeds": 3, "verbose": False, **SMALL, **options})


def alone(seed, valid=VALID, **options):
    fields = {name: options.pop(name) for name in list(options) if name in SMALL}
    ranker = tg.Ranker(RECIPE, seed=seed, **{**SMALL, **fields})
    return ranker, ranker.fit(graphs(), valid, verbose=False, **options).history_


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("workers", [None, 1, 2, 5])
def test_every_seed_has_the_bits_that_it_has_alone(threads, workers):
    tg.set_num_threads(threads)
    runs = train(seeds=[4, 0, 9], workers=workers)
    assert tg.get_num_threads() == threads
    assert [run.seed for run in runs.runs] == [4, 0, 9] and not runs.interrupted
    for run in runs.runs:
        ranker, history = alone(run.seed)
        assert (run.ranker.model.params == ranker.model.params).all() and same(run.history, history)
        assert run.metric == pytest.approx(history.best_metric, rel=1e-12)
        assert (run.ranker.predict(VALID[0]) == ranker.predict(VALID[0])).all()


def test_data_is_read_and_prepared_once(monkeypatch):
    calls = []
    real = pipeline.Pipeline._prepared
    monkeypatch.setattr(
        pipeline.Pipeline, "_prepared", lambda self, *a, **k: calls.append(1) or real(self, *a, **k)
    )
    lazy = Lazy(0, 1, 2)
    train(lazy, seeds=4)
    assert lazy.reads == 6 and len(calls) == 3 + len(VALID)  # to fit the scaler, and to prepare


def test_memory_of_a_step_is_handed_on():
    tg.set_num_threads(2)
    (one,), (two,) = (
        {ranker.model.memory for ranker in train(seeds=6, workers=count).rankers} for count in (1, 2)
    )
    assert 0 < one and 0 < two <= 2 * one  # whoever has it: there is as much as there are workers


def test_seeds_advance_together():
    steps, widest = {}, []

    class Watch(Callback):
        def __init__(self, seed):
            self.seed = seed

        def on_step(self, fit):
            steps[self.seed] = fit.step
            widest.append(max(steps.values()) - min(steps.values()) if len(steps) == 5 else 0)

    train(seeds=5, callbacks=lambda seed: [Watch(seed)], workers=1)
    assert max(widest) == 1 and set(steps.values()) == {16}


def test_what_the_result_tells(tmp_path):
    runs = train(seeds=4, select="best-2", valid_configs=1000)
    means = [run.metric for run in runs.runs]
    assert runs.mean == pytest.approx(np.mean(means)) and runs.sd == pytest.approx(np.std(means, ddof=1))
    assert runs.interval[0] <= runs.mean <= runs.interval[1] and runs.judgement.over == "graphs"
    best = sorted(range(4), key=lambda i: -means[i])[:2]
    assert [run.selected for run in runs.runs] == [i in best for i in range(4)]
    assert runs.selected == tuple(runs.rankers[i] for i in sorted(best)) and len(runs.ensemble()) == 2
    for run in runs.runs:
        taus = [tg.metrics.kendall_tau(run.ranker.predict(g), g.config_runtime) for g in VALID]
        assert run.values == taus

    runs.save(tmp_path / "log.json")
    log = json.loads((tmp_path / "log.json").read_text())
    assert log["rule"] == {"select": "best-2", "text": runs.rule.text} and log["interval_over"] == "graphs"
    assert log["selected"] == sorted(best) and log["fields"]["width"] == 16 and log["recipe"] == RECIPE
    for run, told in zip(runs.runs, log["runs"], strict=True):
        assert told["seed"] == run.seed and told["why"] == run.why and told["metric"] == run.metric
        assert (
            len(told["history"]["loss"]) == 16 and told["history"]["valid_metric"] == run.history.valid_metric
        )
    for text in (repr(runs), runs.table()):
        assert "seed 0: " in text and " ± " in text and "rule: keep the 2" in text
    assert runs.metrics == {run.seed: run.metric for run in runs.runs}

    report = runs.evaluate(VALID, draws=10)
    assert {row.scorer for row in report.rows} == {"seed 0", "seed 1", "seed 2", "seed 3", "ensemble"}
    values = [report.mean("tau", scorer=f"seed {i}") for i in range(4)]
    assert runs.spread(report) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert report.mean("tau", scorer="ensemble") == runs.ensemble().evaluate(VALID, draws=10).mean("tau")


def test_tile_graphs():
    names = ("kernel_00", "kernel_01", "kernel_05", "kernel_06")
    train, valid = [madeup.graph(name) for name in names[:2]], [madeup.graph(name) for name in names[2:]]
    fields = {"width": 16, "steps": 6, "evaluate_every": 2, "graph_sampling": "sqrt-configs", "slates": 2}
    for options in ({"valid": valid}, {"valid": 0.3}):
        runs = tg.train_seeds("first-tile", train, seeds=2, verbose=False, **options, **fields)
        twin = tg.Ranker("first-tile", seed=0, **fields)
        history = twin.fit(train, **options, verbose=False).history_
        assert (runs.rankers[0].model.params == twin.model.params).all()
        assert runs.metrics[0] == pytest.approx(history.best_metric, rel=1e-12)
        assert runs.to_dict()["metric"] == "top5" and "validation top5" in runs.table()
    assert runs.evaluate(valid, draws=10).mean("slowdown@5", scorer="ensemble") >= 0


def test_packs_give_the_same_bits_side_by_side(tmp_path, monkeypatch):
    """Workers read mapped files while pages that others read are given back."""
    for i, graph in enumerate(graphs()):
        graph.save(tmp_path / f"g{i}.npz")
    packs.pack_tree(tmp_path, tmp_path / "packs", verbose=False)
    packed = [tg.load(path) for path in sorted((tmp_path / "packs").iterdir())]
    assert len(packed) == 3
    monkeypatch.setattr(trainset, "MAPPED_BYTES", 1)
    runs = train(packed, seeds=3, workers=3)
    for run in runs.runs:
        assert (run.ranker.model.params == alone(run.seed)[0].model.params).all()


def test_one_validation_graph_or_a_share_or_none():
    runs = train(valid=VALID[0])
    assert runs.judgement.over == "configs" and runs.rule.name == "one-standard-error"
    share = train(valid=0.25, seeds=[5, 6])
    twin, history = alone(5, valid=0.25)
    assert (share.rankers[0].model.params == twin.model.params).all()
    assert share.metrics[5] == pytest.approx(history.best_metric, rel=1e-12)
    for none in (None, []):
        bare = train(valid=none, seeds=2)
        assert bare.mean is bare.sd is bare.interval is None and len(bare.selected) == 2
        assert "all are kept" in bare.table() and bare.to_dict()["mean"] is None
    single = train(seeds=1)
    assert single.to_dict()["sd"] is None and " ± " not in single.table() and len(single.selected) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"seeds": 0}, "seeds"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "different"),
        ({"seeds": [1.5]}, "seeds"),
        ({"seeds": "ab"}, "seeds"),
        ({"seeds": True}, "seeds"),
        ({"seeds": [-1]}, "seeds: expected"),
        ({"select": "mine"}, "select"),
        ({"select": 2, "valid": None}, "give valid"),
        ({"valid": None, "select": "one-standard-error"}, "give valid"),
        ({"workers": 0}, "workers"),
        ({"callbacks": [EarlyStopping()]}, "function of the seed"),
        ({"callbacks": lambda seed: EarlyStopping()}, "expected a list"),
        ({"steps": 0}, "steps"),
        ({"breadth": 3}, "breadth"),
        ({"valid": 1.5}, "between 0 and 1"),
    ],
)
def test_wrong_arguments(options, word):
    with pytest.raises(tg.ConfigError, match=word):
        train(**options)
    with pytest.raises(tg.ConfigError, match="train: expected a graph"):
        tg.train_seeds(RECIPE)


def test_callbacks_are_those_of_a_seed():
    class Stop(Callback):
        def __init__(self, at):
            self.at = at

        def on_step(self, fit):
            if fit.step == self.at:
                fit.stop("enough")

    runs = train(seeds=3, callbacks=lambda seed: [Stop(5 + 3 * seed)])
    assert [len(run.history.loss) for run in runs.runs] == [5, 8, 11]
    assert all(run.history.stopped == "enough" for run in runs.runs) and not runs.interrupted


class Poison(Callback):
    def on_step(self, fit):
        if fit.step == 3:
            fit.model.params[:] = np.inf


def test_a_seed_that_diverges_is_left_out():
    runs = train(callbacks=lambda seed: [Poison()] if seed == 1 else [])
    assert not runs.interrupted and [run.ranker.fitted for run in runs.runs] == [True, False, True]
    assert "diverged at step 4" in runs.runs[1].failed and "failed" in runs.table()
    assert len(runs.rankers) == 2 and not runs.runs[1].selected and len(runs.judgement.means) == 2
    assert runs.to_dict()["runs"][1]["history"] is None
    with pytest.raises(tg.Error, match="failed with every seed.*diverged"):
        train(callbacks=lambda seed: [Poison()])


def test_a_seed_that_diverges_on_one_rank_is_left_out_on_all():
    poisons = lambda seed: [Poison()] if seed == 1 else []  # noqa: E731
    expected = train(callbacks=poisons)
    for runs in together(2, lambda comm: train(callbacks=poisons, communicator=comm)):
        assert "diverged at step 4" in runs.runs[1].failed
        assert [run.why for run in runs.runs] == [run.why for run in expected.runs]


def test_other_errors_end_all():
    before = threading.active_count()
    with pytest.raises(OSError, match="broken"):
        train(callbacks=lambda seed: [Break(4)] if seed == 2 else [])
    assert threading.active_count() == before


# Checkpoints


# ---- over ranks


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ranks_share_the_seeds_and_all_get_all(size):
    valid, expected = (
        [*VALID, small_graph(7)],
        train(valid=[*VALID, small_graph(7)], seeds=4, select="best-2"),
    )
    called = {}

    def work(comm):
        calls = called.setdefault(comm.rank, [])
        note = lambda seed: [Noted(calls, seed)]  # noqa: E731
        return train(valid=valid, seeds=4, select="best-2", callbacks=note, communicator=comm)

    for rank, runs in enumerate(together(size, work)):
        assert sorted(set(called[rank])) == list(range(4))[rank::size]
        for run, one in zip(runs.runs, expected.runs, strict=True):
            assert state(run.ranker) == state(one.ranker) and same(run.history, one.history)
            assert (run.metric, run.values, run.selected) == (one.metric, one.values, one.selected)
            assert run.why == one.why
            assert (run.ranker.predict(VALID[0]) == one.ranker.predict(VALID[0])).all()
        assert [one.seed for one in runs.selected] == [one.seed for one in expected.selected]
        assert runs.interval == expected.interval and not runs.interrupted


class Noted(Callback):
    """Its calls are those of the rank that trains the seed."""

    def __init__(self, calls, seed):
        self.calls, self.seed = calls, seed

    def on_step(self, fit):
        self.calls.append(self.seed)


def test_ranks_with_other_graphs_are_refused():
    def work(comm):
        return train([small_graph(i + comm.rank, configs=60) for i in range(3)], communicator=comm)

    for error in together(2, work):
        assert isinstance(error, tg.ConfigError) and "ranks differ in graphs to train on" in str(error)


def test_seeds_go_on_with_another_number_of_ranks(tmp_path):
    expected = train()
    folder = {"checkpoint_dir": tmp_path, "checkpoint_every": 1}

    broken = lambda seed: [Break(3 + seed)]  # noqa: E731
    first = together(2, lambda comm: train(callbacks=broken, communicator=comm, **folder))
    assert all(isinstance(one, Exception) for one in first)
    kept = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert kept == ["seed-0", "seed-1", "seed-2"]
    for size in (1, 3):
        whole = lambda seed: [Break()]  # noqa: E731
        for runs in together(size, lambda comm: train(callbacks=whole, communicator=comm, **folder)):
            assert [state(run.ranker) for run in runs.runs] == [state(run.ranker) for run in expected.runs]


def test_everything_resumes_exactly(tmp_path):
    whole = train(callbacks=lambda seed: [Break()])
    for at in (3, 9, 14):
        with pytest.raises(OSError, match="broken"):
            train(
                callbacks=lambda seed, at=at: [Break(at + seed)], checkpoint_dir=tmp_path, checkpoint_every=2
            )
    again = train(callbacks=lambda seed: [Break()], checkpoint_dir=tmp_path, checkpoint_every=2)
    for a, b in zip(whole.runs, again.runs, strict=True):
        assert same(a.history, b.history) and a.metric == b.metric and a.selected == b.selected
        assert state(a.ranker) == state(b.ranker)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["seed-0", "seed-1", "seed-2", "seeds.json"]
    finished = train(callbacks=lambda seed: [Break(1)], checkpoint_dir=tmp_path, checkpoint_every=2)
    assert finished.metrics == whole.metrics  # nothing was trained again


def test_a_seed_can_go_on_alone_and_back(tmp_path):
    train(checkpoint_dir=tmp_path)
    ranker, history = alone(1, checkpoint_dir=tmp_path / "seed-1")
    twin, expected = alone(1)
    assert same(history, expected) and (ranker.model.params == twin.model.params).all()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"select": "best-1"}, "select"), ({"seeds": 4}, "seeds"), ({"seeds": [0, 2, 1]}, "seeds")],
)
def test_a_rule_cannot_be_changed_afterwards(tmp_path, options, field):
    train(checkpoint_dir=tmp_path)
    with pytest.raises(tg.CheckpointError, match="was stated before the training") as error:
        train(checkpoint_dir=tmp_path, **options)
    assert error.value.field == field and error.value.file == str(tmp_path / "seeds.json")


def test_damaged_plans_are_refused(tmp_path):
    train(checkpoint_dir=tmp_path, steps=2)
    for content in BROKEN.values():
        (tmp_path / "seeds.json").write_bytes(content)
        with pytest.raises(tg.CheckpointError, match=r"seeds\.json"):
            train(checkpoint_dir=tmp_path, steps=2)


def test_two_runs_cannot_share_a_folder(tmp_path):
    class Second(Callback):
        def on_step(self, fit):
            if fit.step == 2:
                with pytest.raises(tg.ConfigError, match="another fit is using this folder"):
                    train(checkpoint_dir=tmp_path)

    train(seeds=1, callbacks=lambda seed: [Second()], checkpoint_dir=tmp_path)


# Ctrl-C


class PressSoon(Callback):
    """Ctrl-C after the fifth step of a seed. All seeds are slow from then on: none ends before it is noticed."""

    def __init__(self, delay=None, slow=False):
        self.delay, self.slow = delay, slow

    def on_step(self, fit):
        if fit.step == 5 and self.delay is not None:
            threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        if fit.step > 5 and self.slow:
            time.sleep(0.01)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_leaves_usable_rankers_and_is_exact(tmp_path, workers):
    fields = {"steps": 60, "evaluate_every": 4, "valid_configs": 300, "width": 64, "workers": workers}
    whole = train(callbacks=lambda seed: [PressSoon()], **fields)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        delay = 0.005 * attempt
        with pytest.warns(UserWarning, match="the same call with the same checkpoint_dir resumes"):
            runs = train(
                callbacks=lambda seed, delay=delay: [PressSoon(delay if seed == 1 else None, slow=True)],
                checkpoint_dir=folder,
                **fields,
            )
        assert runs.interrupted and all(3 <= len(run.history.loss) < 60 for run in runs.runs)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        for run, full in zip(runs.runs, whole.runs, strict=True):
            assert run.history.loss == full.history.loss[: len(run.history.loss)] and run.history.interrupted
        assert tg.Ensemble(runs.selected).predict(VALID[0]).shape == (96,)
        again = train(callbacks=lambda seed: [PressSoon()], checkpoint_dir=folder, **fields)
        for run, full in zip(again.runs, whole.runs, strict=True):
            assert run.history.loss == full.history.loss and run.metric == full.metric
            assert (run.ranker.model.params == full.ranker.model.params).all()


def test_an_interrupt_before_the_first_step_is_passed_on():
    class Press(Callback):
        def on_fit_begin(self, fit):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(seeds=1, callbacks=lambda seed: [Press()])


def test_long_passes_are_left_at_once(monkeypatch):
    """A step, or a chunk of an evaluation, that takes long is not waited for."""
    graph = small_graph(0, nodes=1000, configs=600, config_nodes=200, config_runtime=np.arange(600) + 1000)
    pressed = []

    class Press(Callback):
        def on_step(self, fit):
            if fit.step == 1 and not pressed:
                pressed.append(time.monotonic())
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr(training.Fit, "valid_scores", lambda self: iter(()))
    with pytest.warns(UserWarning, match="interrupted after steps"):
        runs = tg.train_seeds(
            RECIPE, graph, seeds=2, steps=500, configs=96, width=128, verbose=False,
            callbacks=lambda seed: [Press()], prune="none",
        )  # fmt: skip
    assert runs.interrupted and time.monotonic() - pressed[0] < 0.3 + 1.0


def test_a_bar_is_shown_when_asked_for(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    train(seeds=2, verbose=True)
    shown = capsys.readouterr().err
    assert "2 x first-layout-cross" in shown and "32/32" in shown


@pytest.mark.slow
def test_fork_afterwards_does_not_hang():
    code = (
        "import os, sys\n"
        "from test_seeds import *\n"
        "runs = train(seeds=2)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    runs.ensemble().predict(VALID[0]); os._exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{os.environ['PYTHONPATH']}",
    }
    assert (
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, timeout=60).returncode
        == 7
    )


# The command line


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_train_with_seeds(capsys, tmp_path):
    out, log = tmp_path / "e.safetensors", tmp_path / "e.json"
    arguments = ("train", "--data", madeup.path("program"), "--recipe", RECIPE, "--steps", 4, "--seeds", 3)
    small = ("--set", "width=16", "--set", "configs=16", "--set", "evaluate_every=2", "--out", out)
    code, text, err = run(capsys, *arguments, *small, "--seed", 7, "--normalize", "rank")
    assert code == 0 and "seed 7: " in text and " ± " in text and str(log) in text
    assert "seed 8, step 2 of 4: tau" in err
    told = json.loads(log.read_text())
    assert told["rule"]["select"] == "one-standard-error" and [r["seed"] for r in told["runs"]] == [7, 8, 9]
    ensemble = tg.Ensemble.load(out)
    assert [r.seed for r in ensemble] == told["selected"] and ensemble.normalize == "rank"
    code, text, _ = run(
        capsys,
        *arguments,
        *small,
        "--workers",
        1,
        "--select",
        "best-2",
        "--log",
        tmp_path / "l.json",
        "--json",
    )
    told = json.loads(text)
    assert code == 0 and len(told["selected"]) == 2 and told["log"] == str(tmp_path / "l.json")
    assert len(tg.Ensemble.load(out)) == 2


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_going_on_works(tmp_path):
    out, folder = tmp_path / "e.safetensors", tmp_path / "state"
    command = [
        sys.executable, "-m", "tpugraphs", "train", "--data", madeup.path("long"), "--seeds", "2", "--valid", "0",
        "--steps", "800", "--set", "width=16", "--set", "configs=16", "--out", str(out),
        "--checkpoint-dir", str(folder),
    ]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "to train on" in child.stdout.readline()
    deadline = time.monotonic() + 60
    while not (folder / "seed-1").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and "interrupted" in err and not out.exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and len(tg.Ensemble.load(out)) == 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--seeds", 0], "--seeds: expected at least 1"),
        (["--select", "all"], "go with --seeds"),
        (["--seeds", 2, "--workers", 0], "--workers: expected at least 1"),
        (["--seeds", 2, "--select", "mine"], "select"),
        (["--seeds", 2, "--valid", 0, "--select", "best-1"], "give valid"),
    ],
)
def test_wrong_options(capsys, tmp_path, options, word):
    arguments = ("train", "--data", madeup.path("program"), "--steps", 1, "--out", tmp_path / "x.safetensors")
    code, _, err = run(capsys, *arguments, *options)
    assert code == 2 and word in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_the_core_has_no_limit_left():
    assert _core.get_num_threads() == tg.get_num_threads() >= 1


def test_training_ends_for_all_seeds_where_no_graph_is_of_use(monkeypatch):
    prepare = trainset.TrainingSet._prepare

    def slowly(self, index):
        time.sleep(0.05)
        return prepare(self, index)

    monkeypatch.setattr(trainset.TrainingSet, "_prepare", slowly)
    same = [small_graph(seed, node_config_feat=np.zeros((96, 4, 18), np.int8)) for seed in range(2)]
    with pytest.raises(tg.DataError, match="none of the 2 graphs"):
        tg.train_seeds("first-layout", same, seeds=2, workers=2, steps=3, verbose=False, **FIELDS)
