"""One's own programs: their graphs, kernels and measured configs, and what may happen to the child process."""

import errno
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import hlo_files
import numpy as np
import pytest
from hlo_files import Writer
from refusals import refuses

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.data import hlo
from tpugraphs.data.schema import LAYOUT, opcode_name
from tpugraphs.errors import ConfigError, Error
from tpugraphs.names import SpaceRow
from tpugraphs.system import files

jax = pytest.importorskip("jax", reason="needs JAX: pip install 'tpugraphs[jax]'")
jnp = jax.numpy

from tpugraphs.xla import building, collecting, process, relayout, spaces  # noqa: E402
from tpugraphs.xla.process import Child, ChildError  # noqa: E402
from tpugraphs.xla.programs import Program  # noqa: E402

X = np.linspace(-1, 1, 24 * 16, dtype=np.float32).reshape(24, 16)
W = np.cos(np.arange(16 * 16, dtype=np.float32)).reshape(16, 16)
QUICK = {"rounds": 2, "passes": 1, "least": 1e-4, "verbose": False}


def softmax(x, w):
    return jax.nn.softmax(jnp.tanh(jnp.tanh(x @ w) @ w) @ w).sum(0)


def endless(x):
    return jax.lax.while_loop(lambda c: c.sum() < 1e30, jnp.sin, x)


@pytest.fixture(scope="module")
def child():
    with Child([X, W], 60) as running:
        running.add("", Program(softmax, (X, W)).module)
        yield running


@pytest.fixture(scope="module")
def measured():
    """A graph of every space, made when it is first asked for."""
    return functools.cache(
        lambda space: tg.xla.collect(
            softmax, X, W, space=space, n_configs=np.int64(6), seed=np.int64(1), **QUICK
        )
    )


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, env={**os.environ, **environment}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- graphs and kernels -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("space", tg.xla.SPACES)
def test_candidates_are_the_configs_that_would_be_measured(measured, space):
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (X, W)]
    found, graph = tg.xla.candidates(softmax, *shapes, space=space, n_configs=6, seed=1), measured(space)
    assert found.schema == graph.schema and found.num_configs == graph.num_configs
    names = ("node_feat", "node_opcode", "edge_index", "graph_feat", "config_feat", "node_config_ids")
    for name in (*names, "node_config_feat"):
        mine, theirs = getattr(found, name, None), getattr(graph, name, None)
        assert (mine is None) == (theirs is None), name
        assert mine is None or np.array_equal(mine, theirs), name
    assert not found.runtime.any() and found.about["space"] == space


def test_values_that_xla_computes_once_are_laid_out_once():
    """Two equations, one node: the configs name it once."""
    (program,) = (program for program in tg.xla.zoo.programs() if program.name == "image-resampling.0")
    fn, args = program.build()
    graph = tg.xla.candidates(fn, *args, space="constraint", n_configs=3)
    assert len(np.unique(graph.node_config_ids)) == graph.num_config_nodes > 0
    graph.validate()


def test_a_ranker_chooses_candidates_and_only_these_are_measured():
    ranker = tg.ranker.MultiTaskGaussianProcess().fit(tg.open_collection("options:xla:cpu").train[:20])
    found = tg.xla.candidates(softmax, X, W, n_configs=40)
    some = found.select(ranker.choose(found, 3))
    again = tg.xla.collect(softmax, X, W, configs=some, **QUICK)
    assert again.num_configs == 4 and again.runtime[0] > 0
    assert np.array_equal(again.config_feat[1:], some.config_feat)
    for bad, text in (
        ({"n_configs": 1}, "n_configs"),
        ({"seed": -1}, "seed"),
        ({"space": "tiles"}, "space"),
        ({"timeout": 0}, "timeout"),
    ):
        with pytest.raises(ConfigError, match=f"{text}: expected"):
            tg.xla.candidates(softmax, X, W, **bad)


def test_graph_is_the_program_before_layout_assignment(tmp_path, monkeypatch):
    """As plain JAX compiles it; modules that lie in the current folder are not imported."""
    python(
        f"""
        import jax, numpy as np
        from jax import numpy as jnp
        def softmax(x, w):
            return jax.nn.softmax(jnp.tanh(jnp.tanh(x @ w) @ w) @ w).sum(0)
        options = {{"xla_dump_to": {str(tmp_path)!r}, "xla_dump_hlo_as_proto": True,
                    "xla_dump_hlo_pass_re": "layout-assignment"}}
        x, w = np.zeros((24, 16), np.float32), np.zeros((16, 16), np.float32)
        jax.jit(softmax).lower(x, w).compile(compiler_options=options)
        """
    )
    expected = tg.load(str(next(tmp_path.glob("*before_layout-assignment*.pb"))))
    (tmp_path / "json.py").write_text("raise SystemExit('not the json of Python')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    found = tg.xla.graph(jax.jit(softmax), jax.ShapeDtypeStruct(X.shape, X.dtype), W)
    assert found.name == "softmax" and found.num_configs == 0
    np.testing.assert_array_equal(found.node_opcode, expected.node_opcode)
    np.testing.assert_array_equal(found.edge_index, expected.edge_index)
    np.testing.assert_array_equal(found.node_feat, expected.node_feat)


def test_kernels_are_the_fused_computations():
    kernels = tg.xla.kernels(lambda a: softmax(a["x"], a["w"]), {"x": X, "w": W}, name="mine")
    names = [kernel.name for kernel in kernels]
    assert len(set(names)) == len(names) >= 2 and all(name.startswith("mine.") for name in names)
    opcodes = [[opcode_name(code) for code in kernel.node_opcode] for kernel in kernels]
    reducing = [codes for codes in opcodes if "reduce" in codes]
    assert reducing and all(
        {"add", "maximum"} & set(codes) for codes in reducing
    )  # with what the reduction calls
    assert all(codes.count("parameter") >= 1 for codes in opcodes)


def test_a_program_without_fusions_has_no_kernels():
    assert tg.xla.kernels(lambda x: x, X) == []


def test_fusions_come_with_what_they_call():
    adds, inner, main = (hlo_files.chain(computation=number)["computations"][0] for number in (3 << 32, 2, 1))
    inner["name"], inner["instructions"][1]["opcode"] = "inner", "reduce"
    inner["instructions"][1]["calls"] = [3 << 32]
    main["instructions"][1] |= {"opcode": "fusion", "calls": [2]}
    program = {"name": "m", "computations": [adds, inner, main], "entry": 1}
    (found,) = hlo.fusions(Writer().module(program), "mine")
    alone = hlo.read_bytes(Writer().module({"name": "inner", "computations": [adds, inner]}), "mine.inner")
    for name, value in alone.fields().items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)
    twice = Writer().module({**program, "computations": [adds, main | {"id": 7}, inner, main]})
    assert [graph.num_nodes for graph in hlo.fusions(twice)] == [4, 4]
    assert hlo.fusions(Writer().module({"name": "m", "computations": [adds]})) == []
    for wrong, text in (
        ({2: 9}, "calls of computations of this module, found computation id 9"),
        ({2: 1}, "circle"),
    ):
        main["instructions"][1]["calls"] = [wrong[2]]
        with pytest.raises(tg.DataError, match=f"graph 'mine': .*{text}"):
            hlo.fusions(Writer().module(program), "mine")
    refuses(lambda: hlo.fusions(twice, max_bytes=1000), tg.DataError, "max_bytes")


# --- programs and their arguments ----------------------------------------------------------------------------


def test_arguments_survive_the_trip_bit_for_bit():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(3, 4)) * 100
    kinds = ("bfloat16", "float16", "float32", "float64", "int8", "uint16", "int64", "bool", "complex64",
             "complex128", "float8_e4m3fn", "int4")  # fmt: skip
    given = [numbers.astype(jnp.dtype(kind)) for kind in kinds]
    given += [np.float32(2.5), np.zeros((0, 3), np.int32), X.T, np.array([np.nan, -0.0, np.inf], np.float32)]
    with Child(given, 10) as unstarted, jax.enable_x64(True):
        received = process.arguments(str(unstarted._file("arguments.npz")), unstarted._types)
        for sent, got in zip(given, received, strict=True):
            assert got.dtype == sent.dtype and got.shape == np.shape(sent)
            assert np.asarray(got).tobytes() == np.asarray(sent).tobytes()


def test_leaves_that_are_no_arrays_are_constants():
    program = Program(lambda tree, power, nothing: tree["a"] ** power, ({"a": X}, 2, None))
    assert len(program.arguments) == 1 and "integer_pow" in str(program.jaxpr)


def test_weak_types_are_kept():
    program = Program(lambda x, scale: x * scale, (jnp.zeros(3, jnp.bfloat16), jnp.asarray(2.0)))
    assert [aval.dtype.name for aval in program.jaxpr.out_avals] == ["bfloat16"]


def test_scalars_donated_arguments_and_odd_types_are_measured():
    @functools.partial(jax.jit, donate_argnums=0)
    def mixed(x, scale, mask, k, unused):
        return jnp.where(mask, x * scale, 0) @ x.T, k + 1

    arguments = jnp.ones((8, 8), jnp.bfloat16), jnp.asarray(2.0), X[:8, :8] > 0, jnp.int8(3), X
    graph = tg.xla.collect(mixed, *arguments, n_configs=2, tolerance=0.1, **QUICK)
    assert graph.valid[0] and graph.name == "mixed"
    assert not arguments[0].is_deleted()


def test_what_cannot_be_measured_is_refused():
    gone = jnp.ones(3)
    gone.delete()
    shape, bare = (
        jax.ShapeDtypeStruct((3,), np.float32),
        {"node_feat": X[:, :1], "edge_index": np.zeros((0, 2))},
    )
    for call, *names in (
        (lambda: Program(lambda k: k, (jax.random.key(0),)), "random keys", "jax.random.key_data"),
        (lambda: Program(lambda x: jax.random.key(0), (X,)), "outputs", "random keys"),
        (lambda: Program(lambda x: None, (X,), "void"), "void", "arrays"),
        (lambda: Program(lambda x: x @ np.ones(3), (X,), "bad"), "bad", "TypeError"),
        (lambda: Program(lambda x: jax.pure_callback(abs, shape, x), (X[0, :3],)).module(), "callbacks"),
        (lambda: Program(lambda x: (jax.debug.print("{}", x), x)[1], (X,)).module(), "callbacks"),
        (lambda: tg.xla.collect(lambda x: x, shape), "arrays", "jax.ShapeDtypeStruct"),
        (lambda: tg.xla.collect(lambda x: x, gone), "deleted"),
        (lambda: tg.xla.collect(softmax, X, W, space="tile"), "space", "options"),
        *(
            (lambda option=option: tg.xla.collect(softmax, X, W, **option), next(iter(option)))
            for option in (
                {"rounds": 1}, {"passes": 0}, {"n_configs": True}, {"seed": -1}, {"timeout": 0}, {"seconds": 0}, {"tolerance": float("nan")},
            )
        ),
        (lambda: tg.xla.collect(softmax, X, W, out="x.csv"), "out", ".npz", ".tgpack"),
        (lambda: tg.xla.collect(softmax, X, W, out="no/x.npz"), "out", "folder"),
        *((lambda value=value: tg.Graph(**bare, about={"a": value}), "about", "JSON") for value in ({1}, np.nan)),
    ):  # fmt: skip
        refuses(call, ConfigError, *names)


def test_a_program_that_does_not_compile_is_named():
    with Child([], 30) as child, pytest.raises(Error, match="mine: XLA cannot compile it: "):
        child.dump("mine", lambda: b"nonsense")


def test_the_digest_sees_values():
    def inner(w):
        nested = jax.jit(lambda x: x @ w)
        return Program(lambda x: jax.lax.fori_loop(0, 2, lambda _, c: nested(c), x), (X,))

    def random(seed):
        key = jax.random.key(seed)
        return Program(lambda x: x + jax.random.normal(key, x.shape), (X,))

    for make, a, b in ((inner, W, 2 * W), (random, 1, 2), (lambda x: Program(jnp.sin, (x,)), X, -X)):
        digests = [collecting.fingerprint(make(value), [], {}, {}) for value in (a, a, b)]
        assert digests[0] == digests[1] != digests[2]


# --- measurements ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", tg.xla.SPACES)
def test_collect(measured, space, tmp_path):
    graph = measured(space)
    count = graph.num_configs
    assert 2 <= count <= 6 and graph.valid[0] and graph.repeats.shape == (count, 2)
    good = graph.repeats[graph.valid]
    np.testing.assert_array_equal(graph.runtime[graph.valid], np.rint(good.min(1)))
    assert len(np.unique(good, axis=0)) <= graph.about["distinct_programs"]  # equal programs share one
    about = graph.about
    assert (about["space"], about["seed"], about["rounds"]) == (space, 1, 2)
    assert {"device", "platform", "cores", "threads", "jax", "jaxlib", "xla_flags"} <= set(about["machine"])
    assert sum(about["failed"].values()) == len(about["failures"]) == (~graph.valid).sum()
    assert -1 <= about["noise_ceiling"] <= 1 and len(about["date"]) == 10
    names = [column.name for column in graph.schema.config]
    if space in ("options", "combined"):
        assert "xla_disable_hlo_passes:fusion" in names and "xla_backend_optimization_level" in names
        first = dict(zip(names, graph.config_feat[0], strict=True))
        assert first["xla_cpu_experimental_ynn_fusion_type:REDUCE"] == 1
        assert first["xla_disable_hlo_passes:fusion"] == 0
        assert len(np.unique(graph.config_feat, axis=0)) > 1
    if space != "options":
        digits = graph.node_config_feat
        assert digits.shape == (count, len(graph.node_config_ids), len(LAYOUT.digits))
        assert (digits[:, :, 6:] == -1).all() and len(np.unique(np.asarray(digits), axis=0)) > 1
        assert (graph.schema == LAYOUT) == (space != "combined")
    for suffix in ("npz", "tgpack"):
        file = tmp_path / f"g.{suffix}"
        graph.save(file)
        assert tg.load(str(file)).about == about


def test_equal_programs_share_one_measurement():
    graph = tg.xla.collect(lambda x, w: x @ w, X, W, n_configs=12, **QUICK)  # little to choose in a product
    count = graph.about["distinct_programs"]
    assert count < graph.num_configs == len(graph.ran)
    assert len(np.unique(graph.repeats, axis=0)) == count


@pytest.mark.slow
def test_costs_are_what_jax_says_of_each_compiled_config(measured):
    graph = tg.xla.collect(softmax, X, W, n_configs=6, seed=1, costs=True, **QUICK)
    assert graph.about["costs"] and graph.schema.names("config")[:-6] == measured("options").schema.names(
        "config"
    )
    assert [name for name in graph.schema.names("config") if name.startswith("cost:")] == [
        "cost:flops", "cost:bytes accessed", "cost:transcendentals", "cost:temp_size_in_bytes",
        "cost:peak_memory_in_bytes", "cost:same program",
    ]  # fmt: skip
    costs, found = graph.config_feat[:, -6:], {}
    for row in graph.ran.tolist():
        compiled = jax.jit(softmax).lower(X, W).compile(compiler_options=tg.xla.compiler_options(graph, row))
        work, memory = compiled.cost_analysis(), compiled.memory_analysis()
        sizes = [memory.temp_size_in_bytes, memory.peak_memory_in_bytes]
        found[row] = np.log1p([work[key] for key in ("flops", "bytes accessed", "transcendentals")] + sizes)
        np.testing.assert_allclose(costs[row, :5], found[row] - found[0], atol=1e-5)
    same = (graph.repeats == graph.repeats[0]).all(1)
    assert costs[0].tolist() == [0, 0, 0, 0, 0, 1] and np.array_equal(costs[:, 5] == 1, same)
    assert len(np.unique(costs[graph.ran], axis=0)) > 1
    chosen = tg.xla.candidates(softmax, X, W, n_configs=6, seed=1, costs=True)
    assert chosen.schema == graph.schema
    np.testing.assert_array_equal(chosen.config_feat[graph.ran], graph.config_feat[graph.ran])
    again = tg.xla.collect(softmax, X, W, configs=graph.select([2, 3]), **QUICK)  # without them
    np.testing.assert_array_equal(again.config_feat, graph.config_feat[[0, 2, 3], :-6])
    for call in (tg.xla.candidates, tg.xla.collect):
        wrong = {"space": "constraint", "costs": True}
        refuses(lambda call=call: call(softmax, X, W, **wrong), ConfigError, "costs", "options")


def test_costs_of_what_was_not_compiled():
    one = {"hash": "a", "costs": [1.0, 2, 3, 4, 5]}
    found = spaces._costs([one, None, {"hash": "b", "costs": [3.0, 2, 3, 4, 0]}, one])
    assert found[[0, 1, 3]].tolist() == [[0] * 5 + [1], [0] * 6, [0] * 5 + [1]]
    np.testing.assert_allclose(found[2], [np.log(2), 0, 0, 0, -np.log(6), 0], rtol=1e-6)
    with pytest.raises(Error, match="the default cannot be compiled"):
        spaces._costs([None, one])


def test_costs_where_layouts_vary_too():
    graph = tg.xla.candidates(softmax, X, W, space="combined", n_configs=4, costs=True)
    assert spaces.has_costs(graph.schema) and len(np.unique(graph.config_feat[:, -6:], axis=0)) > 1
    plain = spaces.without_costs(graph)
    assert not spaces.has_costs(plain.schema) and spaces.without_costs(plain) is plain
    np.testing.assert_array_equal(plain.node_config_feat, graph.node_config_feat)


def test_options_are_drawn_alike_for_all_programs():
    def drawn(sites, seed=3):
        space = spaces.Space.__new__(spaces.Space)
        space.options, space.sites, space._row = spaces.CPU, sites, SpaceRow(changes=2.0)
        space._fixed = set()
        return space.draw(20, np.random.default_rng(seed))

    sites = relayout.sites(jax.make_jaxpr(softmax)(X, W))
    plain, both = drawn(()), drawn(sites)
    assert [c.options for c in plain] == [c.options for c in both] != [c.options for c in drawn((), 4)]
    assert any(c.layouts for c in both) and not (plain[0].options or both[0].options or both[0].layouts)


def test_options_that_xla_does_not_know_are_left_out(child):
    prefix = spaces.CPU[0].prefix
    names = spaces._names("xla_cpu_experimental_ynn_fusion_type", "DOT TEA", "TEA", 0.5, prefix)
    given = (
        spaces.Option("xla_no_such_option", (1, 2), 0.5),
        spaces.Option("xla_cpu_prefer_vector_width", (256, "wide", 128), 0.5),
        spaces.Option("xla_cpu_enable_fast_math", (False, "perhaps"), 0.5),
        *names,
    )  # fmt: skip
    known = spaces._known(given, child)
    assert [option.name for option in known] == [given[1].name, names[0].name]
    assert known[0].values == (256, 128) and known[1] == names[0]
    assert spaces.changed(known[1:], [True]) == {names[0].name[:-4]: "LIBRARY_FUSION_TYPE_DOT"}
    with pytest.raises(ConfigError, match="knows none of the options"):
        spaces._known(given[:1], child)
    other = SimpleNamespace(ask=child.ask, device={"platform": "gpu"})
    refuses(lambda: spaces._known(given, other), ConfigError, "platform 'gpu'")


def test_names_of_a_list_are_put_together():
    names = spaces._names("list", "a b c", "b", 0.5, "x_")
    options = [*names, spaces.Option("width", (3, 4), 0.5)]
    assert spaces.changed(options, [False, True, False, 3]) == {}
    assert spaces.changed(options, [True, True, True, 4]) == {"list": "x_a,x_b,x_c", "width": 4}
    assert spaces.changed(options, [False, False, False, 3]) == {"list": ""}


def test_lists_may_be_empty(child):
    default = child.compile("", {})
    for option in {option.parts[0] for option in spaces.CPU if option.parts[1]}:
        assert child.compile("", {option: ""})["deviation"] < 1e-5
    assert child.compile("", {}) == default


# --- what may happen to the child ------------------------------------------------------------------------------


def interfere(monkeypatch, method, act):
    """Call `act(child, n, arguments)` before the n-th call of a method of the child."""
    real, calls = getattr(Child, method), []

    def patched(self, *args, **fields):
        calls.append((args, fields))
        act(self, len(calls), *args, **fields)
        return real(self, *args, **fields)

    monkeypatch.setattr(Child, method, patched)
    return calls


def hit(child, number):
    os.kill(child._process.pid, number)


@pytest.mark.slow
def test_crashes_hangs_and_wrong_outputs_are_invalid(monkeypatch):
    keys = []

    def act(child, n, key, *_):
        if key not in keys:
            keys.append(key)
            if len(keys) == 2:
                hit(child, signal.SIGKILL)
            if len(keys) == 3:
                hit(child, signal.SIGSTOP)

    real = spaces.Space.module

    made = [""]

    def module(self, candidate):
        made.extend({candidate.key} - set(made))
        wrong = made.index(candidate.key) == 3
        return self._program.module(lambda x, w: (softmax(x, w) + 1,)) if wrong else real(self, candidate)

    interfere(monkeypatch, "_compile", act)
    monkeypatch.setattr(spaces.Space, "module", module)
    graph = tg.xla.collect(softmax, X, W, space="transpose", n_configs=5, seed=2, timeout=5, **QUICK)
    assert graph.valid.tolist() == [True, False, False, False, True]
    assert np.isfinite(graph.repeats[graph.valid]).all() and np.isnan(graph.repeats[~graph.valid]).all()
    failures = graph.about["failures"]
    assert "SIGKILL" in failures["1"] and "no answer within 5 s" in failures["2"]
    assert failures["3"].startswith("relative error")
    assert graph.about["failed"] == {"not compiled or run": 2, "other outputs": 1}


def test_a_program_that_ends_the_child_later_is_not_run_again(monkeypatch):
    """It is killed in the second round, and left alone in the third."""
    timed, killed = [], []

    def act(child, n, do, **fields):
        if do == "time":
            timed.append(fields["key"])
            if default and not killed and timed.count(fields["key"]) == 2 and fields["key"] != default[0]:
                killed.append(fields["key"])
                hit(child, signal.SIGKILL)

    default = []
    real = collecting._Run.time
    monkeypatch.setattr(
        collecting._Run, "time", lambda self, *a: (default.append(self.hashes[0]), real(self, *a))[1]
    )
    interfere(monkeypatch, "ask", act)
    graph = tg.xla.collect(softmax, X, W, space="constraint", n_configs=4, **{**QUICK, "rounds": 3})
    assert timed.count(killed[0]) == 2 and timed.count(default[0]) == 3
    (failure,) = graph.about["failures"].values()
    assert "time: the process ended with signal SIGKILL" in failure
    assert graph.valid[0] and graph.valid.sum() == 3


def test_a_measurement_is_the_fastest_of_its_passes(monkeypatch):
    times = {}

    def timed(self, program, number):
        some = times.setdefault(number, [])
        some.append((7 * len(some) % 5 + 1 + number) * 1e-3)
        return some[-1]

    monkeypatch.setattr(collecting._Run, "_time", timed)
    graph = tg.xla.collect(softmax, X, W, space="constraint", n_configs=3, **{**QUICK, "passes": 3})
    assert graph.about["passes"] == 3 and len(times) == graph.about["distinct_programs"]
    for number, some in times.items():
        assert len(some) == 6
        np.testing.assert_allclose(graph.repeats[number], 1e9 * np.reshape(some, (2, 3)).min(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seconds, rounds, passes",
    [(None, 6, 3), (1e6, 6, 3), (3.5, 6, 1), (3.0, 5, 1), (1.0, 4, 1), (1e-6, 4, 1)],
)
def test_a_long_program_is_measured_in_fewer_rounds(monkeypatch, tmp_path, seconds, rounds, passes):
    clock, times = [0.0], []

    def timed(self, program, number):
        times.append(number)
        clock[0] += 0.2
        return 0.2 + 0.01 * number

    monkeypatch.setattr(collecting._Run, "_time", timed)
    monkeypatch.setattr(collecting.time, "monotonic", lambda: clock[0])
    how = {
        **QUICK,
        "rounds": 6,
        "passes": 3,
        "out": tmp_path / "x.npz",
        "n_configs": 3,
        "space": "constraint",
    }
    graph = tg.xla.collect(softmax, X, W, seconds=seconds, **how)
    count = graph.about["distinct_programs"]
    assert count == 3 and graph.repeats.shape[1] == graph.about["rounds"] == rounds
    assert len(times) == count * rounds * passes and graph.about.get("seconds") == seconds
    again = tg.xla.collect(softmax, X, W, seconds=seconds, **how)
    assert len(times) == count * rounds * passes and again.about["digest"] == graph.about["digest"]


def test_the_default_must_run(monkeypatch):
    interfere(monkeypatch, "compile", lambda child, *_: hit(child, signal.SIGKILL))
    with pytest.raises(Error, match="softmax.*SIGKILL"):
        tg.xla.collect(softmax, X, W, space="constraint", n_configs=2, **QUICK)


def test_no_candidate_is_compared_with_itself(monkeypatch):
    """If the default fails in a new child, the next candidate must not be what all are compared with."""
    calls = []

    def ask(do, path, **_):
        calls.append(key := path)
        if calls == ["", "", ""]:
            raise ChildError("no memory")
        return {"hash": key, "deviation": 0.0}

    with Child([], 5) as child:
        monkeypatch.setattr(child, "ask", ask)
        child._modules = {key: key for key in ("", "1:(1, 0)", "2:(1, 0)")}
        child.compile("", {})
        child.compile("", {})
        child.kill()
        with pytest.raises(ChildError):
            child.compile("1:(1, 0)", {})
        child.compile("2:(1, 0)", {})
        assert calls == ["", "", "", "", "2:(1, 0)"] and child.programs == {"", "2:(1, 0)"}


def test_a_child_that_cannot_start_is_ended():
    with Child([X], 5) as child:
        child._file("arguments.npz").write_bytes(b"damaged")
        with pytest.raises(ChildError, match="process for XLA could not be started: .*"):
            child.ask("probe", options={})
        assert child._process is None


def test_the_child_ends_with_its_parent(tmp_path):
    """Even while it computes: a killed parent leaves nobody who would stop it."""
    code = """
    import sys, numpy as np
    sys.path.insert(0, sys.argv[1])
    from test_xla import Child, Program, endless
    x = np.ones(3, np.float32)
    with Child([x], 100) as child:
        child.add("", Program(endless, (x,)).module)
        child.ask("probe", options={})
        print(child._process.pid, flush=True)
        child.compile("", {})
    """
    folders = lambda: [one for one in tmp_path.iterdir() if one.is_dir()]  # noqa: E731  # not locks
    command = [sys.executable, "-c", textwrap.dedent(code), str(Path(__file__).parent)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as parent:
        try:
            pid = int(parent.stdout.readline())
            time.sleep(1.5)
            assert alive(pid) and len(folders()) == 1
        finally:
            parent.kill()
    limit = time.monotonic() + 10
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not alive(pid) or os.kill(pid, signal.SIGKILL)
    assert folders() == []


def swallowed():
    """Press Ctrl-C where Python drops the exception: in a callback of the garbage collector, as JAX has one."""
    press = lambda phase, info: phase == "stop" and signal.raise_signal(signal.SIGINT)  # noqa: E731
    gc.callbacks.append(press)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(press)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Python says that it was dropped
@pytest.mark.parametrize("press", [swallowed, lambda: signal.raise_signal(signal.SIGINT)])
@pytest.mark.parametrize("stage", ["_compile", "_time"])
def test_ctrl_c_before_two_rounds_leaves_nothing(monkeypatch, stage, press, tmp_path):
    left = []
    real = getattr(collecting._Run, stage)

    def patched(self, *args):
        left.append((self.child._process and self.child._process.pid, Path(self.child._folder.name)))
        if len(left) == 3:
            press()
        return real(self, *args)

    monkeypatch.setattr(collecting._Run, stage, patched)
    handles = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        tg.xla.collect(softmax, X, W, space="constraint", n_configs=3, out=tmp_path / "g.npz", **QUICK)
    assert left[-1][0] and not any(pid and alive(pid) for pid, _ in left)
    assert not left[-1][1].exists() and not (tmp_path / "g.npz").exists()
    assert len(os.listdir("/proc/self/fd")) <= handles


# --- files ----------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_zoo(monkeypatch, tmp_path):
    measured = []

    def early(fn, *args, name, **how):
        measured.append(name)
        return SimpleNamespace(about={"interrupted": len(measured) == 2})

    monkeypatch.setattr(building, "collect", early)
    refuses(lambda: tg.xla.build(tmp_path), KeyboardInterrupt, "attention-bhtd.1")
    assert len(measured) == 2


def test_a_program_without_layouts_does_not_end_the_zoo(tmp_path):
    """Nothing in it has two dimensions: it is left out, and the others are measured."""
    found = []
    how = {"only": ["sort-top-k"], "sizes": 1, "space": "constraint", "n_configs": 2, **QUICK}
    with pytest.raises(tg.DataError, match="splits"):
        tg.xla.build(tmp_path, report=lambda program, graph: found.append((program.name, str(graph))), **how)
    assert found == [
        ("sort-top-k.0", "sort-top-k.0: there is no value with two dimensions or more to lay out")
    ]


@pytest.mark.slow
def test_an_interrupted_measurement_continues(monkeypatch, tmp_path):
    out, journal = tmp_path / "g.tgpack", tmp_path / "g.tgpack.journal"
    fields = {**QUICK, "space": "constraint", "n_configs": 3, "rounds": 4, "out": out}
    with monkeypatch.context() as patch:
        real, calls = collecting._Run._time, []

        def interrupted(self, *args):
            calls.append(args)
            if len(calls) == 2 * len(set(self.hashes.values())) + 2:
                signal.raise_signal(signal.SIGINT)
            return real(self, *args)

        patch.setattr(collecting._Run, "_time", interrupted)
        with pytest.warns(UserWarning, match="interrupted after 2 of 4 rounds.*journal keeps them"):
            early = tg.xla.collect(softmax, X, W, **fields)
    assert early.about["rounds"] == 2 and early.about["interrupted"] and not out.exists()
    assert len(journal.read_text().splitlines()) == 3

    def full(source, target):
        if str(target) == str(out):
            raise OSError(errno.ENOSPC, "No space left on device", str(source))
        return os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            tg.xla.collect(softmax, X, W, **fields)
    assert os.listdir(tmp_path) == [journal.name] and len(journal.read_text().splitlines()) == 5
    with monkeypatch.context() as patch:
        patch.setattr(collecting._Run, "_time", None)  # nothing is left to be timed
        graph = tg.xla.collect(softmax, X, W, **fields)
    np.testing.assert_array_equal(graph.repeats[:, :2], early.repeats)
    np.testing.assert_array_equal(graph.node_config_feat, early.node_config_feat)  # of the same seed
    assert graph.repeats.shape == (3, 4) and os.listdir(tmp_path) == [out.name]
    with monkeypatch.context() as patch:
        patch.setattr(Child, "compile", None)
        assert tg.xla.collect(softmax, X, W, **fields).about == graph.about
        with pytest.raises(TypeError):  # another measurement is not in the file, and neither are more rounds
            tg.xla.collect(softmax, X, W, **{**fields, "rounds": 5})


def journal(out, digest="mine"):
    found = collecting._Journal(out)
    found.read(digest)
    return found


def test_journals(tmp_path):
    out = tmp_path / "g.npz"
    written = journal(out)
    assert written.start(["a", "b"]) == []
    written.add(1, [1.0, 2.0])
    written.add(2, [float("nan"), 3.0])
    whole = written.path.read_text()
    assert [json.loads(line)["digest"] for line in whole.splitlines()] == ["mine"] * 3
    for cut in ("", '{"digest": "mi', "\0\0"):  # the last line was being written when the machine stopped
        written.path.write_text(whole + cut)
        found = journal(out).start(["a", "b"])
        assert found[0] == [1.0, 2.0] and np.isnan(found[1][0]) and found[1][1] == 3.0
        assert written.path.read_text() == whole
    for cut in (whole[:-2], ""):
        written.path.write_text(cut)
        assert len(journal(out).start(["a", "b"])) == cut.count("\n") // 2
    with pytest.warns(UserWarning, match="g.npz.journal: other programs than before: measured again"):
        assert journal(out).start(["b", "a"]) == []
    nowhere = journal(None)
    with nowhere.locked():
        assert nowhere.start(["a"]) == []
        nowhere.add(1, [1.0])
        nowhere.remove()


def test_journals_of_earlier_versions_continue(tmp_path):
    """Their rounds are lists alone."""
    (tmp_path / "g.npz.journal").write_text('{"digest": "mine", "programs": ["a"]}\n[1.0]\n[NaN]\n')
    old = journal(tmp_path / "g.npz")
    assert len(old.start(["a"])) == 2
    old.add(3, [3.0])
    assert journal(tmp_path / "g.npz").start(["a"])[::2] == [[1.0], [3.0]]


HEAD = '{"digest": "mine", "programs": ["a"]}'
ROUND = '{"digest": "mine", "round": 1, "seconds": [1.0]}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [HEAD.replace("mine", "theirs"), ROUND],
            "line 1: rounds of another measurement; call with the same",
        ),
        ([ROUND], "line 1: expected the programs of a measurement"),
        (["[]", HEAD], "line 1: expected the programs"),
        (["[" * 10**5], "line 1: expected the programs"),
        ([HEAD, ROUND.replace("mine", "theirs")], "line 2: of another measurement than line 1"),
        ([HEAD, ROUND, HEAD], "line 3: expected round 2, found None"),
        ([HEAD, ROUND, ROUND], "line 3: expected round 2, found 1"),
        ([HEAD, ROUND.replace("1,", "2,")], "line 2: expected round 1, found 2"),
        ([HEAD, "\0\0", ROUND], "line 2: not a round"),
        ([HEAD, ROUND, "[1.0, 2.0]"], "line 3: expected 1 time in seconds"),
        ([HEAD, '["x"]'], "line 2: expected 1 time"),
        ([HEAD, "[-1.0]"], "line 2: expected 1 time"),
        ([HEAD, "[Infinity]"], "line 2: expected 1 time"),
        ([HEAD, "[]"], "line 2: expected 1 time"),
    ],
)
def test_a_lying_journal_is_named_by_file_and_line(lines, message, tmp_path):
    path = tmp_path / "g.npz.journal"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises((tg.DataError, tg.ConfigError), match=f"g.npz.journal: {message}.*remove the file"):
        journal(tmp_path / "g.npz")
    assert path.read_text().splitlines() == lines


def test_a_lying_journal_is_named_before_anything_is_compiled(tmp_path, monkeypatch):
    (tmp_path / "g.npz.journal").write_text('{"digest": "theirs", "programs": ["a"]}\n')
    monkeypatch.setattr(Child, "compile", None)
    with pytest.raises(tg.ConfigError, match=r"g\.npz\.journal: line 1: rounds of another measurement"):
        tg.xla.collect(softmax, X, W, **QUICK, n_configs=2, out=tmp_path / "g.npz")


@pytest.mark.slow
def test_two_processes_never_share_a_journal(tmp_path):
    """The second says so at once, and the times of the first are its own."""
    script = """
import sys, jax, numpy as np, tpugraphs as tg
given = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
how = {"passes": 1, "least": 1e-4, "verbose": False, "n_configs": 2}
tg.xla.collect(jax.numpy.tanh, given, name="tanh", out=sys.argv[1], rounds=1000000, **how)
"""
    out, kept = tmp_path / "g.npz", tmp_path / "g.npz.journal"
    given = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    how = {**QUICK, "rounds": 3, "n_configs": 2, "out": out}
    first = subprocess.Popen([sys.executable, "-c", script, out], stderr=subprocess.PIPE, text=True)
    try:
        while first.poll() is None and (not kept.exists() or kept.read_text().count("\n") < 4):
            time.sleep(0.05)
        first.send_signal(signal.SIGSTOP)  # it need not measure on
        with pytest.raises(ConfigError, match="another measurement is using this file now") as caught:
            tg.xla.collect(jnp.sort, given, name="sort", **how)
        assert str(caught.value).startswith(f"{kept}: ") and first.poll() is None
        before = kept.read_text()
        first.send_signal(signal.SIGCONT)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=120)
    finally:
        first.kill()
        first.wait()
    assert kept.read_text().startswith(before) and os.listdir(tmp_path) == [kept.name]
    head, *rounds = map(json.loads, kept.read_text().splitlines())
    assert {line["digest"] for line in rounds} == {head["digest"]} and len(rounds) >= 3
    tg.xla.collect(jnp.tanh, given, name="tanh", **how)
    assert os.listdir(tmp_path) == [out.name]
    expected = [float(f"{seconds * 1e9:.4g}") for line in rounds[:3] for seconds in line["seconds"]]
    assert set(tg.load(out).repeats.ravel()) == set(expected)


# --- hashes and outputs ------------------------------------------------------------------------------------------

TEXT = """HloModule jit_call, is_scheduled=true, entry_computation_layout={(f32[3,2]{1,0})->f32[3,2]{1,0}}

FileNames
1 "a.py"

%fused (p: f32[3,2]) -> f32[3,2] {
  %p = f32[3,2]{1,0} parameter(0)
  ROOT %add.3 = f32[3,2]{1,0} add(%p, %p), metadata={op_name="a{b}\\"c" stack_frame_id=6}
}

ENTRY %main (x: f32[3,2]) -> f32[3,2] {
  %x = f32[3,2]{1,0} parameter(0), metadata={op_name="x"}
  %c.1 = f32[8]{0} constant({...})
  ROOT %f = f32[3,2]{1,0} fusion(%x), kind=kLoop, calls=%fused
}
"""


def test_hashes_of_programs():
    base = process.program_hash(TEXT, [])
    for old, new in (
        ("add.3", "add.77"), ("jit_call", "jit_f"), ('"a.py"', '"b.py"'), ("stack_frame_id=6", "stack_frame_id=7"),
        ("a{b}", "else}"), ("%fused", "%other"),
    ):  # fmt: skip
        assert old in TEXT and process.program_hash(TEXT.replace(old, new), []) == base, old
    for old, new in (
        ("%x = f32[3,2]{1,0}", "%x = f32[3,2]{0,1}"), ("(f32[3,2]{1,0})->", "(f32[3,2]{0,1})->"),
        ("f32[8]", "f32[9]"), ("kLoop", "kInput"), ("add(%p, %p)", "add(%p, %x)"), ("add(", "multiply("),
    ):  # fmt: skip
        assert old in TEXT and process.program_hash(TEXT.replace(old, new), []) != base, old
    codes = [[b"a"], [b"b"], [b"a", b"a"], [b"a", b"b"]]
    assert len({base, *(process.program_hash(TEXT, code) for code in codes)}) == 5
    assert process.program_hash(TEXT, [b"b", b"a"]) == process.program_hash(TEXT, [b"a", b"b"])


def elf(sections, body):
    """An object file of 64 bytes of head, a body, and a table of sections of 64 bytes each."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    head[0x28:0x30] = (64 + len(body)).to_bytes(8, "little")
    head[0x3A:0x3C], head[0x3C:0x3E] = (64).to_bytes(2, "little"), sections.to_bytes(2, "little")
    return bytes(head) + body + bytes(64 * sections)


def test_object_files_are_found_in_an_executable():
    one, two = elf(2, b"code of one"), elf(3, b"code \x7fELF\x02\x01 of two")
    assert process.objects(b"head" + one + b"between" + two + b"end") == [one, two]
    assert process.objects(b"no code") == [] and process.objects(one[:70]) == [one[:70]]


def test_deviation():
    def of(a, b, kind=np.float32):
        return process.deviation([np.array(a, kind)], [np.array(b, kind)])

    inf, nan = np.inf, np.nan
    assert of([1, 2], [1, 2]) == of([], []) == of([nan, inf, -inf, 1], [nan, inf, -inf, 1]) == 0
    assert of([3.0, 4.5], [3.0, 4.0]) == pytest.approx(0.1)
    assert of([1, nan], [nan, 1]) == of([inf], [-inf]) == of([1], [nan]) == of([nan], [inf]) == inf
    assert of([1, 2], [1, 3], np.int32) == of([True], [False], bool) == inf
    assert of([1, 2], [1, 2], np.int8) == 0
    assert of([3 + 4j], [3 + 3.5j], complex) == pytest.approx(0.5 / abs(3 + 3.5j))
    assert of([1e-3], [0.0]) == pytest.approx(1e-3) and of([0.0, 0.0], [0.0, 0.0]) == 0
    assert of([1.1e200], [1e200], float) == pytest.approx(0.1)  # whose square is infinite
    assert of([1.1e-200], [1e-200], float) == pytest.approx(0.1)
    assert of([1], [1], jnp.bfloat16) == 0 and of([1.5], [1], jnp.bfloat16) == 0.5
    assert process.deviation([X], [X.T]) == process.deviation([X], [X.astype(np.float64)]) == inf
    assert process.deviation([X, 2 * X], [X, X]) == pytest.approx(1)
    assert process.deviation([], []) == 0


# --- the parent, and life without JAX -------------------------------------------------------------------------------


def test_the_parent_compiles_nothing(tmp_path):
    """In double precision, and with a cache of compiled programs, which the child leaves alone."""
    out = python(
        """
        import jax, numpy as np
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        events = []
        jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
        import tpugraphs as tg
        x = np.linspace(0, 1, 64).reshape(8, 8)
        graphs = [tg.xla.graph(lambda x: x @ x, x) for _ in range(2)]
        assert graphs[0].node_opcode.tolist() == graphs[1].node_opcode.tolist()
        g = tg.xla.collect(lambda x: x @ x, x, n_configs=2, rounds=2, least=1e-4, tolerance=1e-12)
        assert g.valid[0]
        assert not [name for name in events if "backend_compile" in name], events
        assert any("trace" in name for name in events), events
        jax.jit(lambda x: x + 1)(x)
        assert [name for name in events if "backend_compile" in name], events
        print("done")
        """,
        JAX_COMPILATION_CACHE_DIR=str(tmp_path),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )
    assert out == "done\n"


def test_without_jax():
    out = python(
        """
        import sys
        import tpugraphs as tg
        assert "jax" not in sys.modules
        sys.modules["jax"] = None
        try:
            tg.xla
        except ImportError as error:
            print(error)
        """
    )
    assert out == "tpugraphs.xla needs JAX: pip install 'tpugraphs[jax]'\n"


def test_the_best_configs_are_measured_again(measured):
    graph = measured("combined")
    best = graph.select(graph.ran[graph.runtime[graph.ran].argsort()[:2]])
    again = tg.xla.collect(softmax, X, W, space="combined", configs=best, **QUICK)
    assert again.num_configs == 3 and again.valid.all()
    np.testing.assert_array_equal(again.config_feat[0], graph.config_feat[0])  # the default comes first
    np.testing.assert_array_equal(again.config_feat[1:], best.config_feat)
    np.testing.assert_array_equal(again.config_digits[1:], best.config_digits)
    with pytest.raises(tg.ConfigError, match="columns.*configurable nodes"):
        tg.xla.collect(softmax, X, W, space="options", configs=best, **QUICK)


def test_options_of_a_config_are_those_that_jax_takes(measured):
    graph = measured("options")
    assert tg.xla.compiler_options(graph, 0) == {}
    for config in range(1, graph.num_configs):
        given, row = (
            tg.xla.compiler_options(graph, config),
            graph.schema.decode("config", graph.config_feat[config]),
        )
        for option in spaces.CPU:
            xla, name = option.parts
            if xla in given:
                assert row[option.name] == (
                    name in given[xla].split(",") if name else option.cell(given[xla])
                )
            else:
                assert row[option.name] == option.cell(option.values[0])
        assert given
    config = graph.ran[-1]
    compiled = jax.jit(softmax).lower(X, W).compile(compiler_options=tg.xla.compiler_options(graph, config))
    np.testing.assert_allclose(compiled(X, W), jax.jit(softmax)(X, W), rtol=1e-4)
    refuses(lambda: tg.xla.compiler_options(measured("constraint"), 0), tg.ConfigError, "options of XLA")


def test_the_zoo_becomes_a_collection(tmp_path, capsys):
    how = [
        "--only",
        "mlp",
        "--sizes",
        "1",
        "--configs",
        "4",
        "--rounds",
        "2",
        "--passes",
        "1",
        "--out",
        str(tmp_path),
    ]
    assert cli.main(["collect", "--zoo", *how]) == 0
    folder = tmp_path / "options" / "xla" / jax.default_backend()
    sheet = (folder / "README.md").read_text()
    assert "mlp.0" in sheet and "noise ceiling" in sheet and jax.__version__ in sheet
    collection = tg.open_collection("options:xla:cpu", root=tmp_path)
    assert collection.train.names == ["mlp.0"] and collection.train[0].num_configs == 4
    before = (folder / "train" / "mlp.0.npz").stat().st_mtime_ns
    capsys.readouterr()
    assert cli.main(["collect", "--zoo", *how, "--json"]) == 0  # not measured again
    assert (folder / "train" / "mlp.0.npz").stat().st_mtime_ns == before
    (found,) = json.loads(capsys.readouterr().out)["graphs"]
    assert (found["name"], found["configs"]) == ("mlp.0", 4) and found["best_ms"] <= found["default_ms"]
    refuses(lambda: tg.xla.data_sheet(tmp_path), tg.DataError, "splits")


def test_a_file_with_a_program_is_measured(tmp_path, capsys):
    source = "import jax.numpy as jnp\nimport numpy as np\n"
    source += "def build():\n    return lambda x: jnp.tanh(x @ x), (np.eye(32, dtype=np.float32),)\n"
    (tmp_path / "model.py").write_text(source)
    out = tmp_path / "model.npz"
    how = ["--out", str(out), "--configs", "3", "--rounds", "2", "--passes", "1"]
    assert cli.main(["collect", f"{tmp_path / 'model.py'}:build", *how]) == 0
    assert tg.load(out).num_configs == 3 and "default" in capsys.readouterr().out
    for wrong, text in (("model.py", "FILE.py:FUNCTION"), ("model.py:other", "expected a function other")):
        assert cli.main(["collect", str(tmp_path / wrong), *how]) == 2 and text in capsys.readouterr().err
    assert cli.main(["collect", str(tmp_path / "no.py:build"), *how]) == 1
    assert cli.main(["collect", *how]) == 2 and "one of them" in capsys.readouterr().err
