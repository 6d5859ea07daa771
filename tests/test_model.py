"""The core's model: whole gradients against the float64 reference, batches, optimizer, plan, determinism, errors."""

import gc
import itertools
import signal
import threading
import time

import numpy as np
import pytest
from models import (
    COLUMNS,
    HINGE,
    LIST_MLE,
    SPECS,
    Trained,
    first_layout,
    graph_arrays,
    hinge,
    make,
    named,
    rows,
    slate,
    step,
    zoo,
)
from reference import losses, optim
from reference import model as ref_model
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core


def relative(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected)


def reference(model, steps, arrays, chosen, runtimes, margin=1.0):
    params = {name: value.astype(np.float64) for name, value in named(model).items()}
    loss = lambda s: losses.pairwise_hinge(s, runtimes, margin)  # noqa: E731
    return ref_model.scores_and_gradients(steps, params, arrays, chosen, loss)


# ---- gradients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "odd", "star", "none"])
@pytest.mark.parametrize("spec", SPECS)
def test_scores_loss_and_gradients_equal_the_reference(spec, kind):
    model = make(spec)
    arrays, one, runtimes = slate(kind=kind, use=[8, 0, 3, 3, 5, 7])  # a row twice
    scores, value, grads = reference(model, SPECS[spec](COLUMNS), arrays, one[1], runtimes)
    assert relative(model.scores([one])[0], scores) <= 1e-5
    loss, (trained,) = model.gradients([one], [runtimes], loss=HINGE)
    assert loss == pytest.approx(value, rel=1e-5)
    assert relative(trained, scores) <= 1e-5
    got = named(model, "grads")
    assert set(got) == set(grads)
    for name, gradient in grads.items():
        # a bias before a norm has no gradient: compare what is small with the size of the whole
        scale = max(np.linalg.norm(gradient), 1e-2 * max(np.linalg.norm(g) for g in grads.values()))
        assert np.linalg.norm(got[name] - gradient) <= 1e-4 * scale, name
    everything = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    assert relative(model.grads, everything) <= 2e-5


@pytest.mark.parametrize(
    ("nodes", "configs", "k"), [(1, 1, 1), (1, 5, 0), (2, 1, 2), (17, 33, 0), (5, 70, 5)]
)
@pytest.mark.parametrize("spec", ["cross", "zoo"])
def test_edge_sizes(spec, nodes, configs, k):
    model = make(spec)
    arrays, one, runtimes = slate(3, nodes, configs, k, kind="none" if nodes == 1 else "random")
    scores, value, grads = reference(model, SPECS[spec](COLUMNS), arrays, one[1], runtimes)
    loss, (got,) = model.gradients([one], [runtimes], loss=HINGE)
    assert np.linalg.norm(got - scores) <= 1e-4 * max(np.linalg.norm(scores), 1)
    assert loss == pytest.approx(value, rel=1e-4, abs=1e-6)
    everything = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    # with one score for all configs the gradient is zero, and what is left is rounding
    assert np.linalg.norm(model.grads - everything) <= 1e-4 * max(np.linalg.norm(everything), 3e-2)


def random_steps(rng):
    """A valid model drawn at random: a chain with residuals from any earlier slot of the same width."""
    steps, slot, width, stats, wide = [], "node_feat", COLUMNS, False, {}

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    def add(op, out_width, inputs=None, **attrs):
        nonlocal slot, width, stats
        name = f"{op}{len(steps)}"
        steps.append(step(op, name, inputs or slot, f"s{len(steps)}", **attrs))
        slot, width, stats = steps[-1]["out"], out_width, bool(attrs.get("stats"))

    acts = ("none", "relu", "gelu")
    for _ in range(rng.integers(3)):
        out = int(rng.integers(1, 20))
        kind = pick("linear", "sage", "embedding")
        if kind == "linear":
            add("linear", out, out=out, act=pick(*acts))
        elif kind == "sage":
            add("sage", out, out=out, direction=pick("forward", "reverse", "both"))
        else:
            add("embedding", width + 6 * 3, source="layout", rows=8, cols=3)
    out, table = int(rng.integers(1, 20)), [s["name"] for s in steps if s["op"] == "embedding"]
    share = f"{table[0]}.weight" if table else None
    add(
        "config_linear",
        out,
        out=out,
        column=int(rng.integers(width + 1)),
        cols=3,
        stats=pick(0, 1),
        share=share,
    )
    for _ in range(rng.integers(1, 7)):
        wide.setdefault(width, []).append(slot)
        out, kind = int(rng.integers(1, 20)), pick("linear", "sage", "mix", "mix", "instance_norm")
        if kind == "linear":
            add("linear", out, out=out, act=pick(*acts), stats=pick(0, 1))
        elif kind == "sage":
            add(
                "sage",
                out,
                out=out,
                direction=pick("forward", "reverse", "both"),
                norm=int(stats),
                stats=pick(0, 1),
            )
        elif kind == "instance_norm" and stats:
            add("instance_norm", width)
        else:
            cross = pick(0, 1)
            other = wide.get(width * (1 + cross), [])
            inputs = f"{slot} {pick(*other)}" if other and pick(True, False) else slot
            norm, gate = int(stats and pick(True, False)), pick(0, 3)
            add(
                "mix",
                width * (1 + cross),
                inputs,
                norm=norm,
                gate=gate,
                cross=cross,
                act=pick(*acts),
                stats=pick(0, 1),
            )
    kind = pick("mean", "max", "sum", "mean+max", "mean+max+sum")
    add("pool", width * (1 + kind.count("+")), kind=kind)
    steps.append(step("linear", "head", slot, "scores", out=1))
    return steps


@pytest.mark.parametrize("seed", range(60))
def test_random_models_equal_the_reference(seed):
    rng = np.random.default_rng(seed)
    steps = random_steps(rng)
    model = Trained(steps, seed, COLUMNS)
    kind = ["random", "odd", "star", "line"][seed % 4]
    arrays, one, runtimes = slate(seed, 12 + seed % 5, 1 + seed % 11, seed % 7, kind)
    scores, value, grads = reference(model, steps, arrays, one[1], runtimes, 100.0)  # all pairs active
    loss, (got,) = model.gradients([one], [runtimes], loss=hinge(100.0))
    assert np.linalg.norm(got - scores) <= 1e-4 * np.linalg.norm(scores)
    assert loss == pytest.approx(value, rel=1e-5)
    everything = np.concatenate([grads[name].ravel() for name, _, _ in model.layout])
    assert np.linalg.norm(model.grads - everything) <= 1e-3 * max(np.linalg.norm(everything), 1e-2)


def test_gradient_with_dropout_is_the_slope_of_the_loss():
    model = make("cross", dropout=0.4)
    _, one, runtimes = slate(2, nodes=31, configs=12)
    args = {"loss": hinge(5.0), "step": 3, "seed": 17}
    model.gradients([one], [runtimes], **args)
    gradient, start = model.grads.copy(), model.params.copy()
    norm = np.linalg.norm(gradient.astype(np.float64))
    h = 2e-3 / norm
    sides = []
    for sign in (1, -1):
        model.params[:] = start + np.float32(sign * h / norm) * gradient
        sides.append(model.gradients([one], [runtimes], **args)[0])
    assert (sides[0] - sides[1]) / (2 * h) == pytest.approx(norm, rel=0.02)


def test_dropout_follows_seed_and_step_and_is_off_for_scores():
    model = make("plain", dropout=0.5)
    _, one, runtimes = slate()

    def trained(**kw):
        return model.gradients([one], [runtimes], loss=HINGE, **kw)[1][0].tobytes()

    first = trained(step=1, seed=5)
    assert first == trained(step=1, seed=5)
    assert len({first, trained(step=2, seed=5), trained(step=1, seed=6)}) == 3
    plain = make("plain")
    assert model.scores([one])[0].tobytes() == plain.scores([one])[0].tobytes()
    assert model.scores([one])[0].tobytes() != first
    # two slates of one batch have masks of their own
    two = model.gradients([one, one], [runtimes, runtimes], loss=HINGE, step=1, seed=5)[1]
    assert two[0].tobytes() != two[1].tobytes()


# ---- batches --------------------------------------------------------------------------------------------

RAGGED = [
    {"seed": 0, "nodes": 23, "configs": 9, "k": 8},
    {"seed": 1, "nodes": 5, "configs": 1, "k": 5, "kind": "line"},
    {"seed": 2, "nodes": 40, "configs": 17, "k": 3, "kind": "odd"},
    {"seed": 3, "nodes": 7, "configs": 30, "k": 0, "kind": "none"},
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_ragged_batch_is_the_mean_of_its_slates(spec):
    model = make(spec)
    slates = [slate(**kw) for kw in RAGGED]
    singles = []
    for _, one, runtimes in slates:
        loss, (scores,) = model.gradients([one], [runtimes], loss=HINGE)
        assert scores.tobytes() == model.scores([one])[0].tobytes()
        singles.append((loss, scores, model.grads.astype(np.float64)))
    loss, scores = model.gradients([s[1] for s in slates], [s[2] for s in slates], loss=HINGE)
    assert loss == pytest.approx(np.mean([s[0] for s in singles]), rel=1e-6)
    for got, (_, expected, _) in zip(scores, singles, strict=True):
        assert got.tobytes() == expected.tobytes()  # a slate does not see its neighbours
    assert relative(model.grads, np.mean([s[2] for s in singles], axis=0)) <= 1e-5
    for got, expected in zip(model.scores([s[1] for s in slates]), scores, strict=True):
        assert got.tobytes() == expected.tobytes()


def test_equivariance_to_the_order_of_configs():
    model = make("cross")
    _, (graph, chosen), _ = slate(configs=12)
    order = np.random.default_rng(0).permutation(12)
    straight, shuffled = model.scores([(graph, chosen)])[0], model.scores([(graph, chosen[order])])[0]
    assert np.allclose(shuffled, straight[order], rtol=1e-4, atol=1e-5)


def test_list_mle_trains_too():
    model = make("cross")
    _, one, runtimes = slate()
    before = model.gradients([one], [runtimes], loss=LIST_MLE)[0]
    for i in range(1, 31):
        model.step([one], [runtimes], loss=LIST_MLE, lr=3e-3, weight_decay=0.0, clip=1.0, step=i)
    assert model.gradients([one], [runtimes], loss=LIST_MLE)[0] < 0.9 * before


# ---- the optimizer step ---------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [0.0, 1e-3, 1e6])
def test_step_is_adamw_of_the_gradients(clip):
    model, twin = make("cross", dropout=0.3), make("cross", dropout=0.3)
    _, one, runtimes = slate()
    w, m1, m2 = (v.astype(np.float64) for v in (model.params, model.moment1, model.moment2))
    for i in range(1, 4):
        twin.params[:] = model.params
        expected_loss = twin.gradients([one], [runtimes], loss=HINGE, step=i, seed=4)[0]
        g = twin.grads.astype(np.float64)
        w, m1, m2 = optim.adamw_step(w, g * optim.clip_scale(g, clip), m1, m2, i, 1e-3, 1e-2)
        loss = model.step(
            [one], [runtimes], loss=HINGE, lr=1e-3, weight_decay=1e-2, clip=clip, step=i, seed=4
        )
        assert loss == expected_loss
        assert relative(model.params, w) <= 1e-6
        assert relative(model.moment1, m1) <= 1e-6
        assert relative(model.moment2, m2) <= 1e-6
        w = model.params.astype(np.float64)


@pytest.mark.parametrize("spec", SPECS)
def test_losses_decrease(spec):
    _core.set_num_threads(1)
    model = make(spec)
    arrays, one, _ = slate(nodes=20, configs=24, k=6)
    runtimes = (
        arrays["digits"].astype(np.int64)[:, 0].sum(1) + 100
    ) * 1000  # learnable from one node's digits
    taken = [
        model.step([one], [runtimes], loss=HINGE, lr=3e-3, weight_decay=1e-5, clip=1.0, step=i)
        for i in range(1, 81)
    ]
    assert np.mean(taken[-5:]) < 0.5 * taken[0]
    assert tg.metrics.kendall_tau(model.scores([one])[0], runtimes) > 0.7


def test_cancelled_step_leaves_everything_untouched():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    columns = 134
    model = Trained(first_layout(dropout=0.2), 0, columns)
    arrays = graph_arrays(1500, 64, 300, columns, 0)
    one = (_core.ModelGraph(**arrays), rows(64))
    runtimes = np.arange(64, dtype=np.int64)
    args = {"loss": HINGE, "lr": 1e-2, "weight_decay": 0.1, "clip": 1.0}
    small = (one[0], rows(2))
    model.step([small], [runtimes[:2]], step=1, **args)
    before = [v.tobytes() for v in (model.params, model.moment1, model.moment2)]
    previous = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            model.step([one], [runtimes], step=2, **args)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert [v.tobytes() for v in (model.params, model.moment1, model.moment2)] == before
    model.step([small], [runtimes[:2]], step=2, **args)  # and the model still works
    assert model.params.tobytes() != before[0]


def test_not_finite_gradients_are_refused():
    model = make("cross")
    _, one, runtimes = slate()
    model.params[:] *= np.float32(1e30)
    before = [v.tobytes() for v in (model.params, model.moment1, model.moment2)]
    with pytest.raises(tg.Error, match="finite|NaN|nan"):
        model.step([one], [runtimes], loss=HINGE, lr=1e-3, weight_decay=0.0, clip=1.0, step=1)
    assert [v.tobytes() for v in (model.params, model.moment1, model.moment2)] == before


# ---- determinism and memory -----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["cross", "plain", "zoo"])
def test_same_bits_for_any_thread_count(spec):
    kw = {} if spec == "zoo" else {"dropout": 0.2}
    slates = [slate(0, 150, 24, 40), slate(1, 90, 31, 20)]
    results = []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        model = make(spec, **kw)
        for i in range(1, 4):
            model.step(
                [s[1] for s in slates], [s[2] for s in slates], loss=HINGE, lr=1e-3, weight_decay=1e-5, clip=1.0,
                step=i, seed=9,
            )  # fmt: skip
        results.append(
            (model.params.tobytes(), model.grads.tobytes(), model.scores([slates[0][1]])[0].tobytes())
        )
    assert results[0] == results[1] == results[2]


def test_settings_changed_during_a_pass_take_effect_after_it():
    """Threads and instruction set are fixed when a pass begins: memory is laid out for them."""
    model = make("cross")
    _, (graph, _), _ = slate(nodes=200, configs=9, k=50)
    chosen = np.tile(np.arange(9), 20)
    levels = _core.isa_levels()
    expected = {}
    for level in levels:
        _core.set_isa(level)
        expected[level] = model.scores([(graph, chosen)])[0]
    done = threading.Event()

    def change():
        for i in itertools.cycle(range(8)):
            if done.is_set():
                return
            _core.set_num_threads(1 + 9 * i)
            _core.set_isa(levels[i % len(levels)])
            time.sleep(1e-4)

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(40):
            got = model.scores([(graph, chosen)])[0]
            assert any(np.array_equal(got, one) for one in expected.values())
    finally:
        done.set()
        other.join()


@pytest.mark.parametrize("level", _core.isa_levels())
@pytest.mark.parametrize("spec", SPECS)
def test_instruction_sets_agree(spec, level):
    model = make(spec)
    _, one, runtimes = slate()
    _, (expected,) = model.gradients([one], [runtimes], loss=HINGE)
    gradient = model.grads.astype(np.float64)
    _core.set_isa(level)
    _, (scores,) = model.gradients([one], [runtimes], loss=HINGE)
    assert relative(scores, expected.astype(np.float64)) <= 1e-5
    assert relative(model.grads, gradient) <= 1e-5


def test_seeds():
    same = [_core.Model(zoo(), 3, COLUMNS).params.tobytes() for _ in range(2)]
    assert same[0] == same[1] != _core.Model(zoo(), 4, COLUMNS).params.tobytes()


def test_initial_values():
    model = Trained(first_layout(), 0, 134)
    p = named(model)
    assert p["linear1.weight"].std() == pytest.approx(np.sqrt(2 / (128 + 246)), rel=0.02)  # Xavier normal
    assert np.all(p["linear1.bias"] == np.float32(0.01)) and np.all(p["linear2.bias"] == np.float32(0.01))
    bound = 1 / np.sqrt(256)
    for name in ("sage0.weight_l", "sage0.bias_l", "sage1.weight_r", "head.weight"):
        assert np.abs(p[name]).max() <= bound and np.abs(p[name]).max() > 0.95 * bound
    assert p["sage0.weight_l"].std() == pytest.approx(bound / np.sqrt(3), rel=0.02)
    assert p["embedding_opcode.weight"].std() == pytest.approx(1, rel=0.1)
    assert p["mix1.temperature"].tolist() == [0.5]
    assert not model.moment1.any() and not model.moment2.any()


@pytest.mark.parametrize("spec", SPECS)
def test_memory_is_reused_over_changing_slates(spec):
    # leftovers of a larger or differently shaped pass must not show: same bits as a fresh model
    used = make(spec)
    sizes = [(40, 30, 9), (3, 2, 1), (23, 9, 8), (60, 17, 2), (3, 2, 1), (23, 9, 8)]
    for nodes, configs, k in sizes:
        _, one, runtimes = slate(nodes, nodes, configs, k)
        loss, (scores,) = used.gradients([one], [runtimes], loss=HINGE)
        fresh = make(spec)
        expected = fresh.gradients([one], [runtimes], loss=HINGE)
        assert (loss, scores.tobytes()) == (expected[0], expected[1][0].tobytes())
        assert used.grads.tobytes() == fresh.grads.tobytes()
        assert used.scores([one])[0].tobytes() == fresh.scores([one])[0].tobytes()


def test_memory_of_a_step():
    columns = 134
    model = Trained(first_layout(dropout=0.2), 0, columns)
    _, (graph, _), _ = slate(nodes=200, configs=64, k=50)
    graph = _core.ModelGraph(**graph_arrays(200, 64, 50, columns, 0))
    activation = 200 * 64 * 256 * 4  # bytes of one (N, C, 256) float32 array
    training, inference = (model.bytes([(graph, rows(64))], training=t) for t in (True, False))
    assert inference < training
    assert inference <= 4 * activation
    assert training <= 9 * activation  # the peer keeps more than thirty of them


def deep(mixes):
    return [
        step("config_linear", "first", "node_feat", "x0", out=4, stats=1),
        *(step("mix", f"mix{i}", f"x{i}", f"x{i + 1}", norm=1, act="gelu", stats=1) for i in range(mixes)),
        step("pool", "pool", f"x{mixes}", "pooled"),
        step("linear", "head", "pooled", "scores", out=1),
    ]


def test_the_longest_model():
    model = Trained(deep(253), 0, COLUMNS)
    _, one, runtimes = slate()
    model.gradients([one], [runtimes], loss=HINGE)
    assert np.isfinite(model.grads).all()
    refuses(lambda: _core.Model(deep(254), 0, COLUMNS), tg.Error, "256 steps")


def test_recomputed_outputs_in_a_long_chain():
    steps = deep(5)
    model = Trained(steps, 0, COLUMNS)
    arrays, one, runtimes = slate()
    scores, _, grads = reference(model, steps, arrays, one[1], runtimes)
    _, (got,) = model.gradients([one], [runtimes], loss=HINGE)
    assert relative(got, scores) <= 1e-4
    for name in ("first.weight", "first.table", "head.weight"):
        assert relative(named(model, "grads")[name], grads[name]) <= 1e-3, name


def test_a_graph_keeps_its_arrays_alive():
    model = make("cross")
    arrays, (graph, chosen), _ = slate()
    before = model.scores([(graph, chosen)])[0].tobytes()
    del arrays
    gc.collect()
    rubbish = [np.full((23, COLUMNS), 1e9, np.float32) for _ in range(50)]
    assert model.scores([(graph, chosen)])[0].tobytes() == before
    del rubbish


def test_arrays_changed_behind_the_graph_do_no_harm():
    model = make("cross")
    arrays, (graph, chosen), _ = slate()
    for digit in (-128, 127):
        arrays["layout_digits"][:] = digit
        model.scores([(graph, chosen)])
    arrays["edge_index"][:] = 10**6  # copied: not read again
    arrays["config_nodes"][:] = 10**6
    model.scores([(graph, chosen)])


def test_vectors_are_writable_views():
    model = make("cross")
    _, one, _ = slate()
    before = model.scores([one])[0].copy()
    for vector in (model.params, model.grads, model.moment1, model.moment2):
        assert vector.shape == (model.num_parameters,) and vector.dtype == np.float32
    layout = model.layout
    assert layout[0][1] == 0 and sum(int(np.prod(shape)) for _, _, shape in layout) == model.num_parameters
    named(model)["head.bias"][:] += 1
    assert np.allclose(model.scores([one])[0], before + 1, atol=1e-5)
    params = model.params
    del model
    assert np.isfinite(params).all()  # a view keeps the memory alive


@pytest.mark.parametrize(("cross", "count"), [(False, 460_577), (True, 215_013)])
def test_published_parameter_counts(cross, count):
    assert _core.Model(first_layout(cross=cross), 0, 134).num_parameters == count


def test_profile_names_every_event():
    model = make("cross")
    _, one, runtimes = slate()
    assert model.profile == []
    model.scores([one])
    forward = model.profile
    assert forward and all(phase == "forward" and seconds >= 0 for phase, _, seconds in forward)
    model.gradients([one], [runtimes], loss=HINGE)
    assert [event for event in model.profile if event[0] == "backward"][-1][1] == forward[0][1]


# ---- precision ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", _core.isa_levels())
@pytest.mark.parametrize("width", [24, 256])  # below and above what is packed at once
@pytest.mark.parametrize("cross", [True, False])
def test_lower_precision_is_near(cross, width, level):
    model = Trained(first_layout(cross, COLUMNS, width=width), 7, COLUMNS)
    _, one, runtimes = slate(use=range(9))
    _core.set_isa(level)
    loss, (scores,) = model.gradients([one], [runtimes], loss=HINGE)
    exact = model.grads.copy()
    rounded_loss, (rounded,) = model.gradients([one], [runtimes], loss=HINGE, precision="bf16")
    assert 0 < relative(rounded, scores) <= 2e-2
    assert rounded_loss == pytest.approx(loss, rel=1e-2)
    assert 0 < relative(model.grads, exact) <= 5e-2
    assert np.array_equal(model.scores([one], precision="bf16")[0], rounded)
    assert 0 < relative(model.scores([one], precision="int8")[0], scores) <= 5e-2


def test_precisions_are_named():
    model = make("cross")
    _, one, runtimes = slate()
    refuses(lambda: model.scores([one], precision="half"), ValueError, "'f32', 'bf16' or 'int8'", "'half'")
    with pytest.raises(ValueError, match="'f32' or 'bf16'.*'int8'"):
        model.gradients([one], [runtimes], loss=HINGE, precision="int8")


# ---- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_made_again_has_the_same_bits(spec):
    """Small batches keep what larger ones, and a lean model always, make again for backward."""
    _, one, runtimes = slate(use=range(9))
    grads, memory = [], []
    for lean in (False, True):
        model = Trained(SPECS[spec](COLUMNS), 3, COLUMNS, lean=lean)
        model.gradients([one], [runtimes], loss=HINGE)
        grads.append(model.grads.copy())
        memory.append([event[0] for event in model.profile].count("recompute"))
    assert np.array_equal(*grads)
    assert memory[0] == 0
    assert memory[1] > 0
