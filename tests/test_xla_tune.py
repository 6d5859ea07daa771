"""Make my function fast: stages against a reference, what is given back, files, journals and refusals."""

import dataclasses
import json
import os
import warnings

import numpy as np
import pytest
from refusals import refuses
from scipy.stats import norm

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.records import Journal

jax = pytest.importorskip("jax", reason="needs JAX: pip install 'tpugraphs[jax]'")
jnp = jax.numpy

from tpugraphs.xla import stages, tuned, tuning  # noqa: E402
from tpugraphs.xla.process import Child  # noqa: E402

pytestmark = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="runs compilers of JAX, which take minutes there"
)
X = np.linspace(-1, 1, 48 * 32, dtype=np.float32).reshape(48, 32)
QUICK = {"budget": 2, "n_configs": 8, "confirm": 3, "least": 1e-3, "verbose": False}


def small(x):
    return jnp.tanh(x @ x.T).sum(0)


@pytest.fixture(scope="module")
def shipped():
    return tg.open_collection("options:xla:cpu")


@pytest.fixture(scope="module")
def ranker(shipped):
    return tg.ranker.MultiTaskGaussianProcess().fit(shipped.train[:30])


@pytest.fixture(scope="module")
def made(ranker, tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "journal.jsonl"
    return tg.xla.tune(small, X, ranker=ranker, journal=path, **QUICK), path


# --- stages -----------------------------------------------------------------------------------------------


def reference(mean, covariance, told, noise=0.5):
    """Expected improvement of all configs, by definition in float64."""
    rows, scores = list(told), np.array(list(told.values()))
    inner = np.linalg.inv(covariance[np.ix_(rows, rows)] + noise * np.eye(len(rows)))
    after = mean + covariance[:, rows] @ inner @ (scores - mean[rows])
    left = np.sqrt(np.diag(covariance - covariance[:, rows] @ inner @ covariance[rows]))
    u = (min(scores) - after) / left
    gains = left * (u * norm.cdf(u) + norm.pdf(u))
    gains[rows] = -np.inf
    return after, left**2, gains


def score(ratio):
    logs = np.log(ratio)
    return 8 * (0.3 * np.tanh(logs / 0.3) if logs > 0 else logs)


def test_the_next_config_is_that_of_the_largest_expected_improvement(ranker, shipped):
    graph = shipped.test[0]
    tuner = tg.xla.Stages(graph, ranker)
    mean, covariance = ranker.prior(graph)
    covariance = covariance + 1 + 1e-9 * np.trace(covariance)
    told = {}
    for row in (0, *np.random.default_rng(0).permutation(np.arange(1, 112))[:6].tolist()):
        ratio = float(graph.runtime[row] / graph.runtime[0])
        tuner.tell([tuner.configs[row]], [2.0 * ratio])
        told[row] = score(ratio)
        after, variance, gains = reference(mean, covariance, told)
        found = tuner.expected()
        np.testing.assert_allclose(found[0], after, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found[1], variance, rtol=1e-6, atol=1e-8)
        assert tuner.ask()[0] == tuner.configs[int(np.argmax(gains))]


def test_a_failure_counts_as_slow_and_is_not_asked_for_again(ranker, shipped):
    tuner = tg.xla.Stages(shipped.test[0], ranker)
    tuner.tell([tuner.configs[0]], [1.0])
    first = tuner.ask()[0]
    assert tuner.ask() == [first]  # asking changes nothing
    tuner.tell([first], [float("nan")])
    row = tuner.configs.index(first)
    assert tuner._measured()[row] == pytest.approx(8 * 0.3) and tuner.ask()[0] != first
    several = tuner.ask(5)
    assert len({stages.key(one) for one in several}) == 5 and first not in several
    assert len(tuner.ask(500)) == 110


def test_equal_programs_are_told_without_a_measurement(ranker, shipped):
    graph = shipped.test[0]
    tuner = tg.xla.Stages(graph, ranker, known=lambda row: 1.0 if row != 7 else None)
    tuner.tell([tuner.configs[0]], [1.0])
    assert tuner.ask(3) == [tuner.configs[7]] and len(tuner.runtimes) == 111


def test_a_ranker_that_is_no_process_gives_the_order_and_a_process_the_covariance(ranker, shipped):
    graph = shipped.test[0]
    mean = tg.ranker.MeanEffect().fit(shipped.train[:5])
    tuner = tg.xla.Stages(graph, mean, ranker)
    order = np.argsort(mean.predict(graph), kind="stable")
    assert np.all(np.diff(tuner._mean[order]) >= 0)
    refuses(lambda: tg.xla.Stages(graph, mean), tg.ConfigError, "expected a Gaussian process")


def test_a_ranker_that_learnt_costs_gets_those_of_all_candidates(ranker, monkeypatch):
    learnt = tg.xla.candidates(small, X, n_configs=8, costs=True)
    order = np.random.default_rng(0).permutation(len(learnt.config_feat))
    costed = tg.ranker.MeanEffect().fit(learnt.replace(runtime=1000 + order))
    given, built = [], []
    monkeypatch.setattr(tuning, "learn", lambda: ranker)
    monkeypatch.setattr(
        costed, "predict", lambda graph, **how: given.append(graph) or np.arange(float(graph.num_configs))
    )
    build = Child.build
    monkeypatch.setattr(Child, "build", lambda self, *args: built.append(args) or build(self, *args))
    made = tg.xla.tune(small, X, ranker=costed, **QUICK)
    (graph,) = given
    assert graph.schema == learnt.schema and len(built) >= graph.num_configs
    np.testing.assert_array_equal(graph.config_feat, learnt.config_feat)
    assert all(not name.startswith("cost:") for record in made.records for name in record.config)


def test_options_that_the_ranker_does_not_know_are_measured_from_scratch(ranker, shipped):
    graph = shipped.test[0]
    schema = dataclasses.replace(graph.schema, config=graph.schema.config[:-1])
    fewer = tg.Graph(
        node_feat=graph.node_feat, edge_index=graph.edge_index, node_opcode=graph.node_opcode, schema=schema,
        graph_feat=graph.graph_feat, config_feat=graph.config_feat[:, :-1],
    )  # fmt: skip
    with pytest.warns(UserWarning, match="nothing is known before the first measurement: .*only 17 columns"):
        tuner = tg.xla.Stages(fewer, ranker)
    tuner.tell([tuner.configs[0]], [1.0])
    tuner.tell([tuner.configs[5]], [0.5])
    like = np.linalg.norm(
        (fewer.config_feat - fewer.config_feat[5]) / (fewer.config_feat.std(0) + 1e-9), axis=1
    )
    mean, variance = tuner.expected()
    assert np.corrcoef(like, mean)[0, 1] > 0.3 and variance[5] < np.median(variance)


def test_stages_find_fast_configs_of_programs_never_seen(ranker, shipped):
    """Ten measurements are closer to the best than ten by chance are expected to be."""
    gaps, chance = [], []
    for graph in shipped.test:
        tuner = tg.xla.Stages(graph, ranker)
        times = np.where(graph.valid, graph.runtime, np.nan) if graph.valid is not None else graph.runtime
        tuner.tell([tuner.configs[0]], [float(times[0])])
        for _ in range(10):
            config = tuner.ask()[0]
            tuner.tell([config], [float(times[tuner.configs.index(config)])])
        best = np.nanmin(times)
        gaps.append(np.nanmin(list(tuner.runtimes.values())) / best - 1)
        rng = np.random.default_rng(0)
        chance.append(np.mean([np.nanmin(times[rng.permutation(112)[:11]]) / best - 1 for _ in range(50)]))
    assert np.mean(gaps) < 0.7 * np.mean(chance)


# --- tune -------------------------------------------------------------------------------------------------


def test_tune_gives_back_the_function(made):
    found, path = made
    assert isinstance(found, tg.xla.TunedFunction)
    np.testing.assert_allclose(found(X), small(X), rtol=1e-4, atol=1e-5)
    assert found.evaluations == 2 and found.gain >= 1 and (found.gain == 1) == (not found.options)
    assert set(found.options) <= {option.parts[0] for option in tg.xla.spaces.CPU}
    assert found.options == {} or found.interval[0] > 1
    text = found.report()
    assert "options: " in text and ("no difference beyond the noise" in text) >= (not found.options)
    if found.memory is not None:
        assert found.memory.gain > 0 and len(found.memory.faults) == 2 and "page faults per call" in text
    assert [one.round for one in Journal(path).read()][:2] == [None, 0]


def test_a_journal_is_gone_on_from(made, ranker, monkeypatch):
    found, path = made
    before = Journal(path).read()
    monkeypatch.setattr(tuning._Runs, "measure", lambda self, config: 1 / 0)
    again = tg.xla.tune(small, X, ranker=ranker, journal=path, **QUICK)
    assert Journal(path).read() == before and again.evaluations == 2
    assert [one.runtimes for one in again.records] == [one.runtimes for one in found.records]


def test_learn_takes_journals(made, shipped):
    _, path = made
    base, more = tg.xla.learn(), tg.xla.learn(path)
    assert len(more.learnt["program"]) == len(base.learnt["program"]) + 1
    graph = shipped.test[0]
    assert len(tg.xla.learn([graph]).learnt["program"]) == len(base.learnt["program"]) + 1
    plain = [record for record in Journal(path).read() if stages.WORK not in record.environment]
    refuses(lambda: tg.xla.learn(plain), tg.DataError, "expected the work of small")


def test_what_was_measured_is_learnt(ranker, shipped):
    """A program in a journal is expected to be as it was measured, where it was measured."""
    graph = shipped.test[0]
    tuner = tg.xla.Stages(graph, ranker)
    work = {stages.WORK: json.dumps([float(value) for value in graph.graph_feat.ravel()])}
    measured, rest = graph.ran[graph.ran % 2 == 1], graph.ran[graph.ran % 2 == 0]
    records = [
        tg.records.Record(tuner.configs[row], (graph.runtime[row] / 1e6,), problem="p", environment=work)
        for row in (0, *measured)
    ]
    failed = next(row for row in range(112) if row not in graph.ran)
    records.append(tg.records.Record(tuner.configs[failed], status="correctness", problem="p"))
    found = stages._program(ranker, graph, ("p", ""), records)
    assert tg.metrics.kendall_tau(found.runtime[measured], graph.runtime[measured]) > 0.7
    assert found.runtime[failed] > np.median(found.runtime)
    plain = tg.metrics.kendall_tau(ranker.predict(graph)[rest], graph.runtime[rest])
    assert tg.metrics.kendall_tau(found.runtime[rest], graph.runtime[rest]) > plain


@pytest.mark.slow
def test_gains_are_taken_only_beyond_the_noise(ranker, monkeypatch):
    for time, options in ((0.5, True), (0.98, False)):

        def turns(self, child, keys, start, time=time):
            wobble = 1 + 0.1 * np.sin(start + np.arange(len(keys)) + turns.calls)
            turns.calls += 1
            return [*(time * wobble[:-1]), float(wobble[-1])]

        turns.calls = 0
        monkeypatch.setattr(tuning._Proof, "_turns", turns)
        monkeypatch.setattr(tuning._Runs, "best", lambda self, records: [1, 2])
        found = tg.xla.tune(small, X, ranker=ranker, without=["memory"], **QUICK)
        assert bool(found.options) is options and len(found.finalists) == 3
        assert found.gain == (pytest.approx(1 / time, rel=0.2) if options else 1.0)
        assert not found.keeps_memory and found.memory is None


def test_a_default_that_does_not_run_is_an_error(ranker, monkeypatch):
    real = Child.ask

    def broken(self, do, **fields):
        if do == "compile":
            raise tg.xla.process.ChildError("out of luck")
        return real(self, do, **fields)

    monkeypatch.setattr(Child, "ask", broken)
    text = "small: the default cannot be compiled and run: out of luck"
    refuses(lambda: tg.xla.tune(small, X, ranker=ranker, **QUICK), tg.Error, text)


def test_configs_that_fail_are_told_and_never_chosen(ranker, monkeypatch):
    """The first crashes when it is compiled, the second computes something else; only memory is left."""
    real, seen = Child.ask, []

    def ask(self, do, **fields):
        if do == "compile" and fields["options"]:
            seen.append(fields["options"])
            if fields["options"] == seen[0]:
                raise tg.xla.process.ChildError("compile: the process ended with signal SIGSEGV")
            return {**real(self, do, **fields), "deviation": 0.5}
        return real(self, do, **fields)

    monkeypatch.setattr(Child, "ask", ask)
    found = tg.xla.tune(small, X, ranker=ranker, **QUICK)
    assert [one.status for one in found.records] == ["correct", "compile", "correctness"]
    assert found.options == {} and not any(one.config for one in found.finalists)


@pytest.mark.slow
def test_a_finalist_that_crashes_in_a_fresh_process_is_none(ranker, monkeypatch):
    real = Child.ask

    def ask(self, do, **fields):
        if proving and do == "compile" and fields["options"] == bad:
            self.kill()
            raise tg.xla.process.ChildError("compile: the process ended with signal SIGSEGV")
        return real(self, do, **fields)

    def rounds(self, count, real=tuning._Proof.rounds):
        proving.append(True)
        bad.update(self.configs[0])
        found = real(self, count)
        assert [one.config for one in found[1]].count(bad) == 0 and {} in [one.config for one in found[1]]
        return found

    proving, bad = [], {}
    monkeypatch.setattr(Child, "ask", ask)
    monkeypatch.setattr(tuning._Proof, "rounds", rounds)
    monkeypatch.setattr(tuning._Runs, "best", lambda self, records: [1, 2])
    assert tg.xla.tune(small, X, ranker=ranker, **QUICK).options != bad


@pytest.mark.parametrize(
    "how, text",
    [
        ({"budget": "soon"}, "budget: expected"), ({"budget": 0}, "budget: expected"),
        ({"confirm": 2}, "confirm"), ({"least": 0}, "least"), ({"timeout": -1}, "timeout"),
        ({"without": ["nothing"]}, "without"), ({"n_configs": 1}, "n_configs"),
    ],
)  # fmt: skip
def test_refusals(ranker, how, text):
    refuses(lambda: tg.xla.tune(small, X, ranker=ranker, **{**QUICK, **how}), tg.ConfigError, text)


# --- the callable -----------------------------------------------------------------------------------------


def function(fn=small, options=None):
    options = {"xla_backend_optimization_level": 0} if options is None else options
    return tg.xla.TunedFunction(fn, "small", options, False, 2.0, (1.5, 2.5), None, 1.0, {}, 3)


def test_options_apply_outside_and_under_vmap():
    found = function()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(found(X), small(X), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            jax.vmap(found)(np.stack([X, 2 * X])), jax.vmap(small)(np.stack([X, 2 * X])), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    "wrap",
    [jax.jit, lambda f: jax.grad(lambda x: f(x).sum()), lambda f: jax.vmap(jax.grad(lambda x: f(x).sum()))],
)
def test_inside_of_jit_and_grad_the_function_runs_and_says_that_options_do_not_apply(wrap):
    x = np.stack([X, X]) if "vmap" in repr(wrap(small)) else X
    try:
        expected = wrap(small)(x)
    except (TypeError, ValueError):
        x = np.stack([X, X])
        expected = wrap(small)(x)
    with pytest.warns(UserWarning, match="options do not apply inside of jax.jit"):
        found = wrap(function())(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_leaves_that_are_no_arrays_are_constants():
    def powers(x, n, scale=None, *, kind="sum"):
        assert isinstance(n, int) and scale is None
        return getattr(jnp, kind)(x**n)

    found = function(powers)
    for n in (2, 3):
        np.testing.assert_allclose(found(X, n, kind="max"), np.max(X**n), rtol=1e-6)


def test_errors_of_the_function_are_its_own():
    def wrong(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        function(wrong)(X)


def test_saved_and_applied(made, tmp_path):
    found, _ = made
    found.save(tmp_path / "f.json")
    again = tg.xla.apply(tmp_path / "f.json", small)
    assert again.to_dict() == found.to_dict()
    np.testing.assert_allclose(again(X), found(X), rtol=1e-6)
    text = json.loads((tmp_path / "f.json").read_text())
    text["machine"]["jaxlib"] = "0.0.1"
    (tmp_path / "g.json").write_text(json.dumps(text))
    with pytest.warns(UserWarning, match=r"tuned for jaxlib 0\.0\.1, here "):
        tg.xla.apply(tmp_path / "g.json", small)
    for bad in ("{}", "[]", "no JSON", json.dumps({**text, "options": 3})):
        (tmp_path / "h.json").write_text(bad)
        refuses(lambda: tg.xla.apply(tmp_path / "h.json", small), tg.DataError, "tune again")


def test_reports_name_risks_and_what_is_together():
    found = function(options={"xla_cpu_enable_fast_math": True})
    assert "risk: xla_cpu_enable_fast_math: NaN" in found.report() and "2.00× (1.50 … 2.50)" in repr(found)
    found.memory = tuned.Memory(3.0, (2.0, 4.0), (1000.0, 0.0), (100.0, 120.0))
    found.keeps_memory = True
    assert "together 6.00×" in found.report() and "1,000 → 0" in found.report()


# --- the command ------------------------------------------------------------------------------------------


def test_the_command(tmp_path, capsys, monkeypatch, ranker):
    source = "import jax.numpy as jnp\nimport numpy as np\n"
    source += "def build():\n    return lambda x: jnp.tanh(x @ x), (np.eye(32, dtype=np.float32),)\n"
    (tmp_path / "model.py").write_text(source)
    program, out = f"{tmp_path / 'model.py'}:build", str(tmp_path / "t.json")
    monkeypatch.setattr(tuning, "learn", lambda: ranker)
    argv = [
        "tune",
        program,
        "--budget",
        "1",
        "--out",
        out,
        "--confirm",
        "4",
        "--without",
        "fast_math",
        "--json",
    ]
    assert cli.main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["name"] == "model" and found["evaluations"] == 1
    assert json.loads((tmp_path / "t.json").read_text()) == found
    assert cli.main(["tune", program, "--space", "s.toml"]) == 2
    assert "--space: expected without" in capsys.readouterr().err
    assert cli.main(["tune", "--command", "x"]) == 2 and "--space: expected" in capsys.readouterr().err
