"""Every op of the core against its float64 reference, over threads and instruction sets."""

import copy
import inspect
import itertools

import cases
import numpy as np
import operators
import pytest
import scipy.stats
from cases import distance
from hypothesis import given, settings
from hypothesis import strategies as st
from operators import config_linear, embedding, instance_norm, linear, mix, sage
from reference import optim
from reference.activations import ACTIVATIONS, activate, activate_slope
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

CASES = pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.id)
LEVELS = _core.isa_levels()


def both(case, arguments):
    """Forward result and all gradients of the core, one dict."""
    y = cases.forward32(case, arguments)
    return {"y": y, **cases.backward32(case, cases.direction_of(case, y), arguments)}


# ---- the core against the references --------------------------------------------------------------------


def test_every_op_has_a_case():
    assert {case.op for case in cases.CASES} == {op["name"] for op in _core.ops()} == set(operators.MODULES)
    assert len({case.id for case in cases.CASES}) == len(cases.CASES)


@pytest.mark.values
@CASES
def test_forward_equals_the_reference(case):
    arguments = case.arguments()
    y = cases.forward32(case, arguments)
    assert y.dtype == np.float32 and y.flags.c_contiguous
    assert distance(y, cases.forward64(case, arguments), case.floor) <= case.tolerance


@pytest.mark.values
@CASES
def test_backward_equals_the_reference(case):
    arguments = case.arguments()
    dy = cases.direction_of(case, cases.forward64(case, arguments))
    got, expected = cases.backward32(case, dy, arguments), cases.backward64(case, dy, arguments)
    assert set(got) == set(expected)
    for name, gradient in expected.items():
        assert got[name].dtype == np.float32
        assert distance(got[name], gradient, case.floor) <= case.tolerance, name


@CASES
def test_same_bits_for_any_thread_count(case):
    arguments = case.arguments()
    results = []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        results.append(both(case, arguments))
    for other in results[1:]:
        for name, value in results[0].items():
            assert value.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("case", cases.LARGE, ids=lambda case: case.id)
def test_large_call_equals_the_reference_with_the_same_bits(case):
    arguments = case.arguments()
    y = cases.forward64(case, arguments)
    expected = {"y": y, **cases.backward64(case, cases.direction_of(case, y), arguments)}
    results = []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        results.append(both(case, arguments))
    for name, value in results[0].items():
        assert distance(value, expected[name]) <= case.tolerance, name
        assert all(value.tobytes() == other[name].tobytes() for other in results[1:]), name


@CASES
def test_every_instruction_set_agrees(case):
    arguments = case.arguments()
    fastest = {name: value.astype(np.float64) for name, value in both(case, arguments).items()}
    for level in LEVELS:
        _core.set_isa(level)
        assert _core.get_isa() == level
        for name, value in both(case, arguments).items():
            assert distance(value, fastest[name], case.floor) <= 1e-5, (level, name)


@pytest.mark.values
@CASES
def test_inputs_are_not_modified(case):
    arguments = cases.single(case.arguments())
    before = {name: value.copy() for name, value in arguments.items()}
    for value in arguments.values():
        value.flags.writeable = False
    y = cases.FACES[case.op](**arguments, **case.attrs)
    dy = np.ones_like(y)
    cases.FACES[case.op + "_backward"](dy, **arguments, **case.attrs)
    assert np.all(dy == 1)
    for name, value in arguments.items():
        assert np.array_equal(value, before[name]), name


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 20),
    c=st.integers(1, 20),
    f=st.integers(1, 40),
    o=st.integers(1, 40),
    kind=st.sampled_from(["none", "line", "star", "random", "odd"]),
    direction=st.sampled_from(["forward", "reverse", "both"]),
)
def test_any_sage(n, c, f, o, kind, direction):
    check_case(
        cases.Case("sage", f"{n}-{c}-{f}-{o}-{kind}", *sage.call(kind, n, c, f, o, direction=direction))
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(3, 12),
    c=st.integers(1, 70),
    d=st.integers(1, 40),
    r=st.integers(0, 6),
    cross=st.booleans(),
    residual=st.booleans(),
    norm=st.booleans(),
    act=st.sampled_from(["none", "relu", "gelu", "prelu"]),
)
def test_any_mix(n, c, d, r, cross, residual, norm, act):
    made = mix.call(n, c, d, r, cross, residual, norm=norm, act=act)
    check_case(cases.Case("mix", f"{n}-{c}-{d}-{r}", *made, 2e-5, 1e-2))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 12),
    c=st.integers(1, 20),
    k=st.integers(0, 12),
    f=st.integers(1, 40),
    o=st.integers(1, 40),
    d=st.integers(1, 8),
    column=st.integers(0, 40),
)
def test_any_config_linear(n, c, k, f, o, d, column):
    made = config_linear.call(n, c, min(n, k), f, o, d, min(column, f))
    check_case(cases.Case("config_linear", f"{n}-{c}-{k}-{f}-{o}-{d}", *made))


def check_case(case):
    arguments = case.arguments()
    y = cases.forward64(case, arguments)
    got = both(case, arguments)
    expected = {"y": y, **cases.backward64(case, cases.direction_of(case, y), arguments)}
    for name, value in expected.items():
        assert distance(got[name], value, case.floor) <= case.tolerance, name


# ---- special cases --------------------------------------------------------------------------------------


def test_norm_of_one_node_is_zero():
    x = np.full((1, 3, 5), 7.25, np.float32)
    assert np.all(tg.kernels.instance_norm(x) == 0)
    assert np.all(tg.kernels.instance_norm_backward(np.ones_like(x), x)["x"] == 0)


def test_norm_of_constant_channels_is_zero():
    x = np.tile(np.arange(8, dtype=np.float32) * 1e3, (9, 2, 1))
    assert np.all(np.abs(tg.kernels.instance_norm(x)) <= 1e-6)


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_norm_with_a_mean_far_from_zero(offset):
    # statistics from plain sums of squares would lose every digit here
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(300, 2, 9)) + offset).astype(np.float32)
    assert distance(tg.kernels.instance_norm(x), instance_norm.forward(x.astype(np.float64))) <= 2e-7 * offset


def test_pool_gives_the_gradient_to_the_first_maximum():
    x = np.array([1, 3, 3, 2], np.float32).reshape(4, 1, 1)
    got = tg.kernels.pool_backward(np.ones((1, 1), np.float32), x, "max")["x"]
    assert got.ravel().tolist() == [0, 1, 0, 0]


def test_pool_of_negative_values():
    x = -np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
    assert np.array_equal(tg.kernels.pool(x, "max"), x[0])


def test_message_direction_on_one_edge():
    x = np.array([[1.0], [10.0]], np.float32)
    one, zero, edge = np.ones((1, 1), np.float32), np.zeros(1, np.float32), np.array([[0, 1]])
    none = np.zeros((1, 1), np.float32)
    got = {
        d: tg.kernels.sage_conv(x, edge, one, zero, none, d).ravel().tolist()
        for d in ("forward", "reverse", "both")
    }
    assert got == {"forward": [0, 1], "reverse": [10, 0], "both": [10, 1]}


def test_duplicate_edges_and_self_loops_count():
    x = np.array([[1.0], [4.0], [10.0]], np.float32)
    one, zero, none = np.ones((1, 1), np.float32), np.zeros(1, np.float32), np.zeros((1, 1), np.float32)
    edge = np.array([[0, 2], [0, 2], [1, 2], [2, 2]])
    assert tg.kernels.sage_conv(x, edge, one, zero, none).ravel().tolist() == [0, 0, 4]
    both_ways = tg.kernels.sage_conv(x, edge, one, zero, none, "both").ravel()
    assert both_ways == pytest.approx([10, 10, (1 + 1 + 4 + 10 + 10) / 5])


def test_opcode_outside_the_table_is_row_zero():
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    index = np.array([[1], [2], [3], [255]], np.uint8)
    got = tg.kernels.embedding(np.zeros((4, 1), np.float32), index, weight, source="opcode")
    assert got[:, 1:].tolist() == [[2, 3], [4, 5], [0, 1], [0, 1]]


def test_extreme_values_stay_finite():
    z = np.array([-100, -30, 0, 30, 100], np.float32).reshape(1, 5, 1) * np.ones((2, 5, 7), np.float32)
    weights = {
        "gate1_weight": np.full((2, 7), 5, np.float32),
        "gate1_bias": np.zeros(2, np.float32),
        "gate2_weight": np.full((7, 2), 5, np.float32),
        "gate2_bias": np.full(7, -3, np.float32),
        "temperature": np.array([0.01], np.float32),
    }
    attrs = {"gate": 2, "cross": True, "act": "gelu"}
    y = cases.FACES["mix"](z, **weights, **attrs)
    expected = mix.forward(z.astype(float), **{k: v.astype(float) for k, v in weights.items()}, act="gelu")
    assert np.isfinite(y).all() and distance(y, expected) <= 1e-5
    grads = cases.FACES["mix_backward"](np.ones_like(y), z, **weights, **attrs)
    assert all(np.isfinite(g).all() for g in grads.values())


@pytest.mark.parametrize("temperature", [-0.5, 3.0])
def test_any_temperature(temperature):
    case = cases.Case("mix", "temperature", *mix.call(3, 7, 12, 2, True, act="gelu"))
    arguments = case.arguments() | {"temperature": np.array([temperature])}
    y = cases.forward64(case, arguments)
    dy = cases.direction_of(case, y)
    assert distance(cases.forward32(case, arguments), y) <= 1e-5
    got = cases.backward32(case, dy, arguments)
    for name, gradient in cases.backward64(case, dy, arguments).items():
        assert distance(got[name], gradient) <= 1e-5, name


def test_gelu_over_its_whole_range():
    x = np.linspace(-12, 12, 20001, dtype=np.float32).reshape(-1, 1)
    one, zero = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    for level in LEVELS:
        _core.set_isa(level)
        got = tg.kernels.linear(x, one, zero, "gelu").astype(np.float64)
        assert np.max(np.abs(got - activate(x.astype(np.float64), "gelu"))) <= 2e-6
        slope = tg.kernels.linear_backward(np.ones_like(x), x, one, zero, "gelu")["x"].astype(np.float64)
        assert np.max(np.abs(slope - activate_slope(x.astype(np.float64), "gelu"))) <= 2e-6


# ---- dropout --------------------------------------------------------------------------------------------


def mask_of(shape, p, **kwargs):
    return tg.kernels.mix(np.ones(shape, np.float32), dropout=p, **kwargs)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5])
def test_dropout_statistics(p):
    mask = mask_of((100, 20, 100), p, key=11, step=3)
    assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / (1 - p))}
    kept = mask > 0
    sigma = np.sqrt(p * (1 - p))
    for axes in ((0, 1, 2), (1, 2), (0, 2), (0, 1)):  # overall, per node, per config, per channel
        rate = kept.mean(axes)
        count = kept.size / np.size(rate)
        assert np.max(np.abs(rate - (1 - p))) <= 5 * sigma / np.sqrt(count)
    centred = kept - (1 - p)
    for axis in range(3):  # neighbours in node, config and channel are uncorrelated
        a, b = (
            np.take(centred, range(1, kept.shape[axis]), axis),
            np.take(centred, range(kept.shape[axis] - 1), axis),
        )
        assert abs((a * b).mean()) <= 5 * sigma**2 / np.sqrt(a.size)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5])
def test_dropout_decisions_are_independent(p):
    """Chi-square of joint counts against independence; every statistic has a chance below 1e-6 to fail."""
    rows, width = 20_000, 128
    kept = mask_of((rows // 8, 8, width), p, key=21, step=5).reshape(rows, width) > 0
    later = mask_of((rows // 8, 8, width), p, key=21, step=6).reshape(rows, width) > 0

    def fits(counts, probability):
        expected = probability * counts.sum()
        common = expected >= 10
        statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
        assert scipy.stats.chi2.sf(statistic, common.sum()) > 1e-6

    kinds = np.array([i.bit_count() for i in range(1024)])
    patterns = np.where(kinds, (1 - p) ** kinds, 1.0) * p ** (10 - kinds)
    for channels in (range(10), range(100, 110), range(0, 120, 12)):
        fits(np.bincount(kept[:, channels] @ (1 << np.arange(10)), minlength=1024), patterns)
    fits(np.bincount(kept.sum(1), minlength=width + 1), scipy.stats.binom.pmf(range(width + 1), width, 1 - p))
    centred, scale = kept - (1 - p), p * (1 - p) * np.sqrt(rows)
    for other in (centred, np.roll(centred, 1, 0), later - (1 - p)):  # any two channels: same row, next, step
        z = np.float32(centred).T @ np.float32(other) / scale
        if other is centred:
            np.fill_diagonal(z, 0)
        assert np.abs(z).max() < 6.5 and abs((z**2).mean() - 1) < 0.1


def test_dropout_is_a_function_of_key_and_step():
    shape = (9, 5, 33)
    mask = mask_of(shape, 0.5, key=1, step=2)
    assert np.array_equal(mask, mask_of(shape, 0.5, key=1, step=2))
    for other in ({"key": 2, "step": 2}, {"key": 1, "step": 3}):
        agree = (mask == mask_of(shape, 0.5, **other)).mean()
        assert 0.4 < agree < 0.6
    assert np.array_equal(mask_of(shape, 0.0), np.ones(shape, np.float32))


@pytest.mark.parametrize("level", LEVELS)
def test_dropout_mask_does_not_depend_on_threads_or_instruction_set(level):
    shape = (400, 24, 48)
    mask = mask_of(shape, 0.2, key=5, step=1)
    _core.set_isa(level)
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        assert np.array_equal(mask, mask_of(shape, 0.2, key=5, step=1))


# ---- functions that are written by hand -------------------------------------------------------------------

# Function -> its op, and the arguments that it calls otherwise.
GATE = {"gate1_weight": "w1", "gate1_bias": "b1", "gate2_weight": "w2", "gate2_bias": "b2"}
BY_HAND = {
    "embedding": ("embedding", {"node_opcode": "index", "layout_digits": "index"}),
    "config_linear": ("config_linear", {}),
    "linear": ("linear", {}),
    "sage_conv": ("sage", {"weight_l": "w_l", "bias_l": "b_l", "weight_r": "w_r"}),
    "instance_norm": ("instance_norm", {}),
    "mix": ("mix", GATE),
    "pool": ("pool", {}),
}


def by_hand(function, case):
    """Arguments of the function for a case of its op, or None if it does not know one of them."""
    arguments, names = cases.single(case.arguments()), BY_HAND[function][1]
    if case.op == "embedding":
        del arguments["node_opcode" if case.attrs["source"] == "layout" else "layout_digits"]
    known = inspect.signature(getattr(tg.kernels, function)).parameters
    follows = {"out", "rows", "cols", "gate", "cross", "per_column", "values"}  # from the arrays
    attrs = {name: value for name, value in case.attrs.items() if name not in follows}
    found = {names.get(name, name): value for name, value in arguments.items()} | attrs
    return found if set(found) <= set(known) else None


@pytest.mark.parametrize("function", ["linear", "gatv2", "pool"])
def test_signatures_say_what_both_functions_take(function):
    forward = inspect.signature(getattr(tg.kernels, function))
    backward = inspect.signature(getattr(tg.kernels, function + "_backward"))
    result = "result" if "result" in forward.parameters else "out"
    assert list(backward.parameters) == ["dy", *forward.parameters, "only"]
    assert backward.parameters[result].annotation == "Mapping[str, Array] | None"
    assert backward.return_annotation == "dict[str, Array]"


def test_help_says_defaults_and_ranges():
    for function, text in (
        ("gatv2", "\nslope : float, default 0.2\n    Of the leaky ReLU, below 0. From 0 to 1.\n"),
        ("gatv2", '\ndirection : {"forward", "reverse", "both"}, default "forward"\n'),
        ("gatv2", "\nedge_index : (E, 2) int64\n    Rows (u, v): "),
        ("ranknet", '\nreduction : {"mean-pairs", "sum", "mean-all"}, default "mean-pairs"\n'),
        ("ranknet", "\nscores, runtimes, weights, offsets\n    As for `weighted_sum`.\n"),
    ):
        assert text in getattr(tg.kernels, function).__doc__


def test_wrong_calls_name_the_argument():
    k, x, a = tg.kernels, np.ones((4, 3), np.float32), np.ones((3, 2, 4), np.float32)
    w, b, none, edges = x[:2].copy(), np.ones(2, np.float32), a[:, :0].copy(), np.zeros((0, 2), np.int64)
    for call, error, *names in (
        (lambda: k.linear(x, w), TypeError, "linear", "'bias'"),
        (lambda: k.linear(np.ones((4, 3)), w, b), tg.ShapeError, "x:", "float32", "float64"),
        (lambda: k.linear_backward(x, x, w, b), tg.ShapeError, "dy:", "(4, 2)", "(4, 3)"),
        (
            lambda: k.l2_normalise_backward(x, np.ones((4, 5, 3), np.float32)),
            tg.ShapeError,
            "dy:",
            "(4, 5, 3)",
        ),
        (lambda: k.gelu(np.zeros(3)), tg.ShapeError, "x:"),
        (lambda: k.gelu_backward(a[:1], a), tg.ShapeError, "dy:"),
        (lambda: k.channel_attention(a, None, None, None, None), tg.ShapeError, "w1:"),
        (lambda: k.config_attention(a, None), tg.ShapeError, "temperature:"),
        (lambda: k.config_attention_backward(a[:1], a, b[:1]), tg.ShapeError, "dy:"),
        (lambda: k.mix(a, dropout=1.0), ValueError, "dropout"),
        (lambda: k.mix(a, dropout=-0.1), ValueError, "dropout"),
        (lambda: k.mix(a, dropout=float("nan")), ValueError, "dropout"),
        (lambda: k.mix(a, act="swish"), ValueError, "act"),
        (lambda: k.mix(a, w1=np.ones((2, 4), np.float32)), ValueError, "b1"),
        (lambda: k.pool(a, "median"), ValueError, "kind"),
        (lambda: k.linear(x, w, b, "swish"), ValueError, "act"),
        (lambda: k.sage_conv(x, edges, w, b, w, "up"), ValueError, "direction"),
        (lambda: k.sage_conv(none, edges, a[0], b, a[0]), tg.ShapeError, "one config"),
        *((lambda f=f: f(none), tg.ShapeError, "one config") for f in (k.instance_norm, k.mix, k.pool)),
        (lambda: k.instance_norm_backward(none, none), tg.ShapeError, "one config"),
        *(
            (lambda f=f, shape=shape: f(np.zeros(shape, np.float32)), ValueError)
            for f in (k.instance_norm, k.mix, k.pool)
            for shape in ((0, 2, 4), (3, 2, 0))
        ),
    ):
        refuses(call, error, *names)


@pytest.mark.parametrize("function", BY_HAND)
def test_a_function_by_hand_is_its_op(function):
    op, names = BY_HAND[function]
    for case in (case for case in cases.CASES if case.op == op):
        if (arguments := by_hand(function, case)) is None:
            continue
        y = getattr(tg.kernels, function)(**arguments)
        dy = np.float32(cases.direction_of(case, y))
        got = {"y": y, **getattr(tg.kernels, function + "_backward")(dy, **arguments)}
        for name, value in both(case, case.arguments()).items():
            assert distance(got.pop(names.get(name, name)), value.astype(np.float64)) <= 1e-6, (case.id, name)
        assert not got


def made(function, make, attrs):
    case = cases.Case(BY_HAND[function][0], "wrong", make, attrs)
    return function, by_hand(function, case)


def arrays_of(arguments):
    return {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}


def _rejects(function, arguments, name, dy=None):
    with pytest.raises(tg.ShapeError, match=rf"\b{name}\b"):
        if dy is None:
            getattr(tg.kernels, function)(**arguments)
        else:
            getattr(tg.kernels, function + "_backward")(dy, **arguments)


WRONG = {
    "opcode": made("embedding", *embedding.call(4, 3, 7, 2, "opcode")),
    "layout": made("embedding", *embedding.call(4, 3, 8, 2, "layout")),
    "config_linear": made("config_linear", *config_linear.call(5, 3, 2, 6, 4)),
    "linear": made("linear", *linear.call((4, 5), 3, 2)),
    "sage": made("sage_conv", *sage.call("random", 6, 3, 4, 2)),
    "instance_norm": made("instance_norm", instance_norm.draw(4, 3, 2), {}),
    "mix": made("mix", *mix.call(4, 3, 6, 2, True, True)),
    "pool": made("pool", instance_norm.draw(4, 3, 2), {}),
}


@pytest.mark.parametrize("which", WRONG)
def test_wrong_arrays_are_named(which):
    function, arguments = WRONG[which]
    y = getattr(tg.kernels, function)(**arguments)
    for name, value in arrays_of(arguments).items():
        other = np.float64 if value.dtype == np.float32 else np.int32
        _rejects(function, arguments | {name: value.astype(other)}, name)
        if (function, name) != ("linear", "x"):  # takes any number of dimensions
            _rejects(function, arguments | {name: value[None, None]}, name)
        _rejects(function, arguments | {name: value.tolist()}, name)
        if value.ndim > 1 and value.shape[-1] > 1:
            _rejects(function, arguments | {name: np.asfortranarray(value)}, name)
            _rejects(function, arguments | {name: np.repeat(value, 2, -1)[..., ::2]}, name)
    _rejects(function, arguments, "dy", y.astype(np.float64))
    _rejects(function, arguments, "dy", np.ascontiguousarray(y[..., :-1]) if y.shape[-1] > 1 else y[:-1])


@pytest.mark.parametrize(
    ("which", "name", "axis"),
    [
        ("config_linear", "digits", 1),
        ("config_linear", "digits", 2),
        ("config_linear", "weight", 1),
        ("config_linear", "bias", 0),
        ("config_linear", "table", 0),
        ("linear", "bias", 0),
        ("linear", "weight", 1),
        ("sage", "edge_index", 1),
        ("sage", "w_r", 0),
        ("sage", "w_l", 1),
        ("sage", "b_l", 0),
        ("mix", "residual", 0),
        ("mix", "residual", 2),
        ("mix", "w1", 1),
        ("mix", "w2", 0),
        ("mix", "b2", 0),
        ("opcode", "index", 0),
    ],
)
def test_wrong_sizes_are_named(which, name, axis):
    function, arguments = WRONG[which]
    less = np.ascontiguousarray(np.delete(arguments[name], -1, axis))
    _rejects(function, arguments | {name: less}, name)


def test_indices_outside_their_range():
    def changed(case, name, at, value):
        arguments = copy.deepcopy(WRONG[case][1])
        arguments[name].flat[at] = arguments[name].flat[0] if value == "twice" else value
        return arguments

    k = tg.kernels
    for node in (-1, 6, 2**31, 2**62, -(2**63)):
        given = changed("sage", "edge_index", 7, node)
        refuses(lambda: k.sage_conv(**given), ValueError, "edge_index")
        refuses(
            lambda: k.sage_conv_backward(np.ones((6, 3, 2), np.float32), **given), ValueError, "edge_index"
        )
    for name, values in (("digits", (-2, 6, 127, -128)), ("config_nodes", (-1, 5, 2**40, "twice"))):
        for value in values:
            given = changed("config_linear", name, -1, value)
            refuses(lambda: k.config_linear(**given), ValueError, name)
            dy = np.ones((5, 3, 4), np.float32)
            refuses(lambda: k.config_linear_backward(dy, **given), ValueError, name)
    for digit in (-3, 6, 127, -128):
        given = copy.deepcopy(WRONG["layout"][1])
        given["index"][2, 1] = digit
        with pytest.raises(ValueError, match=r"digits|index"):
            k.embedding(**given)


# ---- optimizer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clip", "weight_decay"), [(0.0, 0.0), (0.0, 0.1), (1.0, 1e-2), (1e6, 0.0)])
def test_adamw_equals_the_reference(clip, weight_decay):
    rng = np.random.default_rng(0)
    w = rng.normal(size=1003).astype(np.float32)
    m1, m2 = np.zeros_like(w), np.zeros_like(w)
    expected = (w.astype(float), m1.astype(float), m2.astype(float))
    for step in range(1, 6):
        g = rng.normal(size=w.shape).astype(np.float32)
        scale = optim.clip_scale(g.astype(float), clip)
        expected = optim.adamw_step(expected[0], g * scale, *expected[1:], step, 1e-2, weight_decay)
        norm = tg.kernels.adamw_step(w, g, m1, m2, step=step, lr=1e-2, weight_decay=weight_decay, clip=clip)
        assert norm == pytest.approx(np.linalg.norm(g.astype(float)), rel=1e-6)
    for got, want in zip((w, m1, m2), expected, strict=True):
        assert distance(got, want, 0) <= 2e-6


@pytest.mark.parametrize("level", LEVELS)
def test_adamw_bounds_over_magnitudes(level):
    """Gradients from where squares vanish in float32 to where they overflow: within 1e-6 of each update."""
    _core.set_isa(level)
    g = (
        np.float32(10.0) ** np.linspace(-18, 18, 10_007, dtype=np.float32)
        * np.float32([1, -1, 0])[np.arange(10_007) % 3]
    )
    w, m1, m2 = (np.zeros_like(g) for _ in range(3))
    expected = tuple(v.astype(float) for v in (w, m1, m2))
    for step in range(1, 4):
        expected = optim.adamw_step(expected[0], g.astype(float), *expected[1:], step, 1.0, 0.0)
        tg.kernels.adamw_step(w, g, m1, m2, step=step, lr=1.0, weight_decay=0.0)
    np.testing.assert_allclose(w, expected[0], rtol=1e-6, atol=1e-12)
    with np.errstate(over="ignore"):
        assert tg.kernels.adamw_step(w, g * np.float32(1e6), m1, m2, step=4, lr=0.0) == pytest.approx(
            np.linalg.norm(g.astype(float)) * 1e6, rel=1e-6
        )
    assert np.all(np.isfinite(w))


def test_mlp_head_and_its_gradient():
    rng = np.random.default_rng(5)
    sizes = (17, 9, 5, 1)
    weights = [rng.standard_normal((o, i)).astype(np.float32) for i, o in itertools.pairwise(sizes)]
    biases = [rng.standard_normal(o).astype(np.float32) for o in sizes[1:]]
    x = rng.standard_normal((6, 17)).astype(np.float32)
    dy = rng.standard_normal((6, 1)).astype(np.float32)

    def value(point: np.ndarray, weights: list[np.ndarray]) -> float:
        h = point.astype(np.float64)
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = linear.forward(h, w.astype(np.float64), b.astype(np.float64), act="gelu" if i < 2 else "none")
        return float((h * dy).sum())

    y = tg.kernels.mlp(x, weights, biases)
    assert y.shape == (6, 1)
    assert float((y.astype(np.float64) * dy).sum()) == pytest.approx(value(x, weights), rel=1e-5)
    grads = tg.kernels.mlp_backward(dy, x, weights, biases)
    eps = 1e-6
    direction = rng.standard_normal(x.shape)
    slope = (value(x + eps * direction, weights) - value(x - eps * direction, weights)) / (2 * eps)
    assert float((grads["x"] * direction).sum()) == pytest.approx(slope, rel=1e-4)
    for k in range(3):
        direction = rng.standard_normal(weights[k].shape)
        up, down = ([w.astype(np.float64) for w in weights] for _ in range(2))
        up[k] = up[k] + eps * direction
        down[k] = down[k] - eps * direction
        slope = (value(x, up) - value(x, down)) / (2 * eps)
        assert float((grads["weights"][k] * direction).sum()) == pytest.approx(slope, rel=1e-4)
    for layers in ((weights, biases[:2]), ([], [])):  # of none the result would be the array given
        refuses(lambda: tg.kernels.mlp(x, *layers), tg.errors.ShapeError, "biases")
        refuses(lambda: tg.kernels.mlp_backward(dy, x, *layers), tg.errors.ShapeError, "biases")


def test_dropout_close_to_one_drops():
    y = tg.kernels.mix(np.ones((3, 4, 64), np.float32), dropout=1 - 2**-34)
    assert (y == 0).all()


def test_relu_and_gate_keep_nan():
    x = np.full((1, 3), np.nan, np.float32)
    w, b = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
    assert np.isnan(tg.kernels.linear(x, w, b, "relu")).all()
    assert np.isnan(tg.kernels.pool(np.full((2, 1, 3), np.nan, np.float32), "max")).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations_keep_nan_and_reach_their_limits(act, level):
    _core.set_isa(level)
    slope = {"slope": np.ones(1, np.float32)} if act == "prelu" else {}
    x = np.array([[np.nan, 1e30, -1e30]], np.float32)
    y = tg.kernels.activation(x, **slope, act=act)[0]
    dx = tg.kernels.activation_backward(np.ones_like(x), x, **slope, act=act)["x"][0]
    assert np.isnan(y[0]) and np.isfinite(y[1:]).all() and np.isfinite(dx[1:]).all()


# ---- faces: parts of mix one by one, and what belongs to other modules -----------------------------------


def check_face(name, arguments, expected, gradients):
    """`expected` float64 (N,C,D); `gradients(dy)` the reference's, by argument name."""
    given = cases.single(arguments)
    y = getattr(tg.kernels, name)(**given)
    assert y.dtype == np.float32 and y.flags.c_contiguous and distance(y, expected) <= 1e-5
    dy = np.random.default_rng(7).normal(size=y.shape).astype(np.float32)
    got, wanted = getattr(tg.kernels, name + "_backward")(dy, **given), gradients(dy.astype(np.float64))
    assert set(got) == set(wanted) == set(arguments)
    for key, gradient in wanted.items():
        assert distance(got[key], gradient) <= 1e-5, key


def drawn(*shape):
    values = np.random.default_rng(shape).normal(size=shape)
    return values.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("shape", [(1,), (5, 3), (7, 2, 17)])
def test_gelu(shape):
    x = drawn(*shape)
    check_face("gelu", {"x": x}, activate(x, "gelu"), lambda dy: {"x": dy * activate_slope(x, "gelu")})


@pytest.mark.parametrize(("n", "c", "d", "r"), [(1, 1, 1, 1), (5, 7, 24, 3)])
def test_channel_attention(n, c, d, r):
    a = {"x": drawn(n, c, d), "w1": drawn(r, d), "b1": drawn(r), "w2": drawn(d, r), "b2": drawn(d)}
    check_face("channel_attention", a, mix.gate(**a), lambda dy: mix.gate_backward(dy, **a))


@pytest.mark.parametrize(("n", "c", "d"), [(1, 2, 3), (4, 13, 17)])
def test_config_attention(n, c, d):
    x, temperature = drawn(n, c, d), np.array([0.5])

    def gradients(dy):
        grads = mix.cross_attention_backward(dy, x, temperature)
        return {"x": grads["u"], "temperature": grads["temperature"]}

    a = {"x": x, "temperature": temperature}
    check_face("config_attention", a, mix.cross_attention(x, temperature), gradients)


def test_kernels_hold_what_other_modules_define():
    assert tg.kernels.StandardScaler is tg.preprocess.StandardScaler
    assert tg.kernels.ConfigSampler is tg.preprocess.ConfigSampler
    assert tg.kernels.warmup_cosine is tg.training.learning_rate
    with pytest.raises(AttributeError, match="nothing"):
        _ = tg.kernels.nothing
