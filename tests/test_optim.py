"""Optimizers and schedules against float64 and their formulas."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from reference import optim as ref
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.errors import NotFiniteError
from tpugraphs.kernels import optimizer_step, schedules

P = 40_003  # several blocks, and a rest
GROUPS = [(0, 5, 0.1, 0.0), (5, 20_001, 1.0, 0.1), (20_001, 20_001, 3.0, 0.0), (20_001, P, 0.0, 0.5)]
KINDS = sorted(_core.optimizers())


def start(kind, seed=0, size=P):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=size).astype(np.float32)
    return rng, w, [np.zeros(size, np.float32) for _ in range(_core.optimizers()[kind])]


def test_every_optimizer_has_a_reference():
    assert {kind: count for kind, (_, count) in ref.RULES.items()} == _core.optimizers()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "numbers",
    [
        {},
        {"clip": 1.0, "weight_decay": 0.05},
        {"clip": 1e9, "groups": GROUPS},
        {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3, "momentum": 0.0, "weight_decay": 0.3},
    ],
)
def test_updates_equal_the_reference(kind, numbers):
    rng, w, moments = start(kind)
    expected, state = w.astype(float), [m.astype(float) for m in moments]
    for step in range(1, 6):
        g = rng.normal(size=P).astype(np.float32)
        optimizer = {"kind": kind, "lr": 1e-2, "step": step, **numbers}
        expected, state = ref.optimizer_step(optimizer, expected, g.astype(float), state)
        norm = optimizer_step(optimizer, w, g, moments)
        assert norm == pytest.approx(np.linalg.norm(g.astype(float)), rel=1e-6)
    for got, want in zip((w, *moments), (expected, *state), strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("kind", KINDS)
def test_a_factor_of_zero_freezes_and_groups_keep_to_their_range(kind):
    rng, w, moments = start(kind)
    before, g = w.copy(), rng.normal(size=P).astype(np.float32)
    optimizer_step({"kind": kind, "lr": 1e-2, "step": 1, "groups": GROUPS}, w, g, moments)
    same = w == before
    assert same[20_001:].all() and not same[:20_001].any()
    whole, others = before.copy(), [np.zeros_like(m) for m in moments]
    optimizer_step({"kind": kind, "lr": 1e-2, "step": 1, "weight_decay": 0.1}, whole, g, others)
    assert (whole[5:20_001] == w[5:20_001]).all() and not (whole[:5] == w[:5]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_for_any_number_of_threads(kind):
    results = []
    for count in (1, 2, 3):
        tg.set_num_threads(count)
        rng, w, moments = start(kind)
        for step in (1, 2):
            g = rng.normal(size=P).astype(np.float32)
            optimizer_step(
                {"kind": kind, "lr": 0.1, "step": step, "clip": 2.0, "groups": GROUPS}, w, g, moments
            )
        results.append([v.tobytes() for v in (w, *moments)])
    assert results[0] == results[1] == results[2]


def test_adam_without_decay_has_the_bits_of_adamw():
    (_, w, moments), (_, w2, moments2) = start("adam"), start("adamw")
    g = np.random.default_rng(1).normal(size=P).astype(np.float32)
    optimizer_step({"kind": "adam", "lr": 1e-2, "step": 1}, w, g, moments)
    optimizer_step({"kind": "adamw", "lr": 1e-2, "step": 1}, w2, g, moments2)
    assert (w == w2).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(kind, value):
    rng, w, moments = start(kind)
    g = rng.normal(size=P).astype(np.float32)
    g[P - 1] = value
    before = [v.tobytes() for v in (w, *moments)]
    with pytest.raises(NotFiniteError, match="not finite"):
        optimizer_step({"kind": kind, "lr": 1e-2, "step": 1}, w, g, moments)
    assert [v.tobytes() for v in (w, *moments)] == before


def test_descriptions_that_make_no_sense_are_refused():
    _, w, moments = start("adamw", size=10)
    before, g = w.copy(), np.ones(10, np.float32)
    for change, *names in (
        ({"kind": "adagrad"}, "kind", "adamw, adam, sgd", "'adagrad'"),
        ({"kind": 3}, "kind"),
        ({"lr": -1.0}, "lr"),
        ({"lr": math.nan}, "lr", "nan"),
        ({"clip": math.inf}, "clip", "inf"),
        ({"step": 0}, "step", "found 0"),
        ({"beta1": 1.0}, "beta1"),
        ({"momentum": 1.0}, "momentum"),
        ({"eps": 0.0}, "eps"),
        ({"learning_rate": 1.0}, "kind, lr, ", "'learning_rate'"),
        ({"weight_decay": math.nan}, "weight_decay"),
        ({"groups": [(0, 9, 1.0, 0.0)]}, "10 parameters", "first 9"),
        ({"groups": [(0, 4, 1.0, 0.0), (5, 10, 1.0, 0.0)]}, "groups[1]", "from 4", "5 to 10"),
        ({"groups": [(0, 11, 1.0, 0.0)]}, "groups[0]", "10"),
        ({"groups": [(0, 10, -1.0, 0.0)]}, "factor"),
        ({"groups": [(0, 10, 1.0)]}, "four numbers", "3"),
        ({"groups": [(0, 10, 1.0, "x")]}, "weight decay"),
        ({"groups": [(0, 0, 1.0, 0.0)] * 11}, "at most as many"),
        ({"groups": []}, "first 0"),
    ):
        described = {"kind": "adamw", "lr": 1e-2, "step": 1, **change}
        refuses(lambda: optimizer_step(described, w, g, moments), (tg.ConfigError, TypeError), *names)
    assert (w == before).all()


def test_arrays_that_do_not_go_together_are_refused():
    _, w, (m1, m2) = start("adamw", size=10)
    o, g = {"kind": "adamw", "lr": 1e-2, "step": 1}, np.ones(10, np.float32)
    for moments, *names in (([m1], "2 arrays", "got 1"), ([m1, m1], "share"), ([m1, m2, g], "two")):
        refuses(lambda: optimizer_step(o, w, g, moments), ValueError, *names)
    refuses(lambda: optimizer_step(o, w, g, [m1, m2[:9]]), tg.ShapeError, "moments[1]")
    m2.flags.writeable = False
    refuses(lambda: optimizer_step(o, w, g, [m1, m2]), ValueError, "moments[1]", "writable")


# ---- schedules ------------------------------------------------------------------------------------------


def fields(schedule, **changes):
    given = {"learning_rate": 2.0, "warmup": 0.1, "decay": 0.5, "decay_every": 0.25, **changes}
    return SimpleNamespace(schedule=schedule, **given)


@pytest.mark.parametrize("schedule", schedules.SCHEDULES)
def test_schedules_follow_their_formulas(schedule):
    rates = [schedules.rate(step, 100, fields(schedule)) for step in range(1, 101)]
    warm = 10 if schedule.startswith("warmup-") else 0
    np.testing.assert_allclose(rates[:warm], 2.0 * np.arange(1, warm + 1) / 10, rtol=1e-15)
    share = np.arange(100 - warm) / (100 - warm)
    expected = {
        "constant": np.ones(100 - warm),
        "cosine": np.cos(np.pi / 2 * share) ** 2,
        "linear": 1 - share,
        "step": 0.5 ** np.floor(np.arange(100 - warm) / math.ceil(0.25 * (100 - warm))),
    }[schedule.removeprefix("warmup-")]
    np.testing.assert_allclose(rates[warm:], 2.0 * expected, rtol=1e-12)
    assert min(rates) > 0


def test_a_schedule_falls_towards_its_end():
    """As `CosineAnnealingLR(eta_min=)` of PyTorch: step t of T has done t - 1 of them."""
    rates = [schedules.rate(step, 50, fields("cosine", learning_rate_end=0.5)) for step in range(1, 51)]
    expected = 0.5 + 1.5 * np.cos(np.pi / 2 * np.arange(50) / 50) ** 2
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    for schedule in ("constant", "linear", "warmup-cosine"):
        end = 2 if schedule == "constant" else 0.5
        assert schedules.rate(51, 50, fields(schedule, learning_rate_end=0.5)) == end


@pytest.mark.parametrize("schedule", schedules.SCHEDULES)
@pytest.mark.parametrize("warmup", [0.0, 1.0])
def test_schedules_of_one_step(schedule, warmup):
    assert schedules.rate(1, 1, fields(schedule, warmup=warmup, decay_every=0.0)) == 2.0


@pytest.mark.parametrize("schedule", schedules.SCHEDULES)
def test_schedules_have_the_bits_of_their_formulas(schedule):
    """Fits that resume, and the golden bits of recipes, need the same learning rates everywhere."""
    rng = np.random.default_rng(schedules.SCHEDULES.index(schedule))
    for total in (1, 2, 7, 100, 4096, 10**6, 10**9):
        shares = {name: rng.choice([0.0, 1.0, *rng.random(3)]) for name in ("warmup", "decay", "decay_every")}
        rates = {"learning_rate": 3 * rng.random(), "learning_rate_end": rng.choice([0.0, rng.random()])}
        first = rng.choice([None, 0.0, rng.random()])
        given = {"schedule": schedule, **shares, **rates, "decay_from": first}
        for step in {1, total, *rng.integers(1, min(total, 30) + 1, 10), *rng.integers(1, total + 1, 10)}:
            found = schedules.rate(int(step), total, SimpleNamespace(**given))
            assert found == ref.learning_rate(int(step), total, given), (step, total, given)


def test_every_schedule_has_a_reference():
    assert schedules.SCHEDULES == (*ref.SHAPES, *(f"warmup-{name}" for name in ref.SHAPES))


def test_wrong_schedules_are_refused():
    for given, *names in (
        ({"schedule": "exponential"}, "schedule", "cosine", "'exponential'"),
        ({"warmup": 1.5}, "warmup", "0..1", "1.5"),
        ({"decay_from": "x"}, "decay_from", "a number", "'x'"),
        ({"lr": 1e-3}, "learning_rate", "'lr'"),
        (3, "schedule", "3"),
    ):
        refuses(lambda: _core.learning_rate(given, 1, 10), tg.ConfigError, *names)
    for step, total in ((0, 10), (1, 0), (1, 2**62 + 1)):
        refuses(lambda: _core.learning_rate({}, step, total), ValueError, "step", "total", str(total))


def test_warmup_cosine_is_the_schedule_of_that_name():
    for step in (1, 3, 50, 100):
        assert tg.kernels.warmup_cosine(step, 100, 2.0, 0.1) == schedules.rate(
            step, 100, fields("warmup-cosine")
        )
