"""Results written to arrays that are there: ``out`` of the single kernels."""

import inspect

import cases
import numpy as np
import pytest
from cases import distance
from refusals import refuses

from tpugraphs import ShapeError, _core
from tpugraphs import kernels as k

RNG = np.random.default_rng(3)
CASES = pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.id)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def same(a, b):
    return a.tobytes() == b.tobytes() and a.shape == b.shape


@CASES
def test_every_op_fills_the_arrays_it_is_given(case):
    arguments = cases.single(case.arguments())
    forward, backward = cases.FACES[case.op], cases.FACES[case.op + "_backward"]
    y = forward(**arguments, **case.attrs)
    out = np.full_like(y, np.nan)
    result = "result" if "out" in inspect.signature(cases.forward_of(case.op)).parameters else "out"
    assert forward(**arguments, **case.attrs, **{result: out}) is out and same(out, y)
    dy = np.float32(cases.direction_of(case, y))
    expected = backward(dy, **arguments, **case.attrs)
    outs = {key: np.full_like(value, np.nan) for key, value in expected.items()}
    found = backward(dy, **arguments, **case.attrs, **{result: outs})
    assert list(found) == list(expected)
    for key, value in expected.items():
        assert found[key] is outs[key] and same(found[key], value), key
    for first in list(outs)[:1]:
        some = backward(dy, **arguments, **case.attrs, **{result: {first: outs[first]}})
        assert some[first] is outs[first] and all(same(some[key], value) for key, value in expected.items())


def test_parts_of_mix_and_mlp():
    x, dy = array(5, 4, 16), array(5, 4, 16)
    w1, b1, w2, b2, t = array(3, 16), array(3), array(16, 3), array(16), np.float32([0.5])
    for forward, backward, rest in (
        (k.gelu, k.gelu_backward, ()),
        (k.channel_attention, k.channel_attention_backward, (w1, b1, w2, b2)),
        (k.config_attention, k.config_attention_backward, (t,)),
    ):
        out, dx = np.empty_like(x), np.empty_like(x)
        assert forward(x, *rest, out=out) is out and same(out, forward(x, *rest))
        expected = backward(dy, x, *rest)
        found = backward(dy, x, *rest, out={"x": dx})
        assert found["x"] is dx and all(same(found[key], expected[key]) for key in expected)
    weights, biases, out = [array(8, 16), array(2, 8)], [array(8), array(2)], np.empty((5, 4, 2), np.float32)
    assert k.mlp(x, weights, biases, out=out) is out and same(out, k.mlp(x, weights, biases))


@pytest.mark.parametrize("precision", ("f32", "bf16", "int8"))
def test_products(precision):
    x, w, bias, dy = array(70, 40), array(24, 40), array(24), array(70, 24)
    out = np.full((70, 24), np.nan, np.float32)
    assert k.matmul(x, w, bias, precision, out) is out
    assert same(out, k.matmul(x, w, bias, precision))
    plus = _core.product(x, w, precision, None, dy)
    assert _core.product(x, w, precision, None, dy, False, out) is out and same(out, plus)
    total = dy.copy()  # added to in place
    assert _core.product(x, w, precision, None, total, False, total) is total and same(total, plus)
    dw = np.full((24, 40), np.nan, np.float32)
    assert _core.product_tn(dy, x, precision, None, dw) is dw and distance(dw, dy.T.astype(float) @ x) < 1e-2
    plus = _core.product_tn(dy, x, precision, w)
    assert same(_core.product_tn(dy, x, precision, w, dw), plus)


def test_what_cannot_be_written_to_is_refused():
    x, w, bias, dy = array(6, 4), array(3, 4), array(3), array(6, 3)
    read_only = np.empty((6, 3), np.float32)
    read_only.flags.writeable = False
    for wrong, error, name in (
        (np.empty((6, 4), np.float32), ShapeError, "out: expected float32 array of shape (6, 3)"),
        (np.empty((6, 3)), ShapeError, "float64"),
        (np.empty((3, 6), np.float32).T, ShapeError, "not C-contiguous"),
        (read_only, ValueError, "read-only"),
    ):
        refuses(lambda: k.linear(x, w, bias, out=wrong), error, name)
        refuses(lambda: k.matmul(x, w, out=wrong), error, name)
    square, eye = array(4, 4), np.eye(4, dtype=np.float32)
    for shared in (square, eye):
        refuses(lambda: k.matmul(square, eye, out=shared), ValueError, "share memory")
        refuses(lambda: k.linear(square, eye, array(4), out=shared), ValueError, "share memory")
    own = np.empty_like(w)
    for out in ({"weight": dy.reshape(-1)[:12].reshape(3, 4)}, {"weight": own, "bias": own.reshape(-1)[:3]}):
        refuses(lambda: k.linear_backward(dy, x, w, bias, out=out), ValueError, "share memory")
    refuses(lambda: k.linear_backward(dy, x, w, bias, out={"w": w}), ValueError, "'w'", "x, weight, bias")
    refuses(lambda: k.linear_backward(dy, x, w, bias, out={"x": dy}), ShapeError, "out['x']", "(6, 4)")
    call = ("linear", {"out": 3}, (x,), (w, bias), 6, 1, 0, False)
    refuses(lambda: _core.op_backward(*call, dy, (None,)), TypeError, "outs", "3")
    refuses(lambda: _core.product_tn(square, square, "f32", None, square), ValueError, "share memory")


@CASES
def test_gradients_that_are_asked_for_have_the_same_bits(case):
    arguments = cases.single(case.arguments())
    dy = np.float32(cases.direction_of(case, cases.forward32(case, arguments)))
    expected = cases.backward32(case, dy, arguments)
    for key, value in expected.items():
        found = cases.backward32(case, dy, arguments, only=[key])
        assert list(found) == [key] and same(found[key], value), key
    assert cases.backward32(case, dy, arguments, only=()) == {}


def test_only_of_parts_of_mix_and_mlp():
    x, dy, t = array(5, 4, 16), array(5, 4, 16), np.float32([0.5])
    expected = k.config_attention_backward(dy, x, t)
    for key in ("x", "temperature"):
        found = k.config_attention_backward(dy, x, t, only=[key])
        assert list(found) == [key] and same(found[key], expected[key])
    assert list(k.gelu_backward(dy, x, only=["x"])) == ["x"] and k.gelu_backward(dy, x, only=[]) == {}
    refuses(lambda: k.gelu_backward(dy, x, only=["z"]), ValueError, "only", "'z'")
    layers = [array(8, 16), array(16, 8)], [array(8), array(16)]
    every, some = k.mlp_backward(dy, x, *layers), k.mlp_backward(dy, x, *layers, only=["weights"])
    assert list(some) == ["weights"] and all(map(same, some["weights"], every["weights"]))
    with pytest.raises(ValueError, match="only.*'w'.*x, weights, biases"):
        k.mlp_backward(dy, x, *layers, only=["w"])


def test_only_fills_the_arrays_of_what_it_names():
    x, w, bias, dy = array(6, 4), array(3, 4), array(3), array(6, 3)
    dx, untouched = np.empty_like(x), np.full_like(w, 7)
    found = k.linear_backward(dy, x, w, bias, out={"x": dx, "weight": untouched}, only={"x", "bias"})
    assert list(found) == ["x", "bias"] and found["x"] is dx and np.all(untouched == 7)
    assert same(dx, k.linear_backward(dy, x, w, bias)["x"])
