"""Layouts as a choice: the same numbers from every assignment, and the assignment in the program."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.ad_checkpoint import checkpoint_name  # noqa: E402
from jax.extend.core import Primitive, primitives  # noqa: E402

from tpugraphs.xla import passing, relayout  # noqa: E402

QUICK = {"xla_backend_optimization_level": 0}


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


# --- programs -------------------------------------------------------------------------------------


def norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def heads_first(x, w):
    """Attention with heads before time: (b, h, t, d)."""
    b, t, d = x.shape
    q, k, v = ((x @ m).reshape(b, t, 2, d // 2).transpose(0, 2, 1, 3) for m in w[:3])
    weights = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k), -1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(b, t, d) @ w[3]


def heads_last(x, w):
    """Attention with heads behind time: (b, t, h, d)."""
    b, t, d = x.shape
    q, k, v = ((x @ m).reshape(b, t, 2, d // 2) for m in w[:3])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    causal = jnp.tril(jnp.ones((t, t), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, d) @ w[3]


def encoder(x, w, up, down):
    x = x + heads_last(norm(x), w)
    return x + jax.nn.gelu(norm(x) @ up) @ down


def cnn(layout):
    kernel = {"NHWC": "HWIO", "NCHW": "OIHW"}[layout]
    space = [layout.index("H"), layout.index("W")]
    window = tuple(2 if d in space else 1 for d in range(4))

    def fn(x, k):
        y = jax.nn.relu(
            lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=(layout, kernel, layout))
        )
        y = lax.reduce_window(y, -jnp.inf, lax.max, window, window, "VALID")
        y = jnp.pad(y, [(0, 0), *([(1, 1)] * 3)])
        return y.mean(tuple(space)), y

    return fn


def training_step(params, x, y):
    def loss(params):
        k, w = params
        h = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = lax.reduce_window(jnp.tanh(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return ((h.reshape(len(x), -1) @ w - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def lstm(x, w, u):
    def cell(state, x):
        c, h = state
        i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    zero = jnp.zeros((x.shape[0], u.shape[0]))
    _, out = lax.scan(cell, (zero, zero), x.swapaxes(0, 1))
    return out.swapaxes(0, 1)


def remembered(x, w):
    """A remat, a custom derivative and an outer product of batches, differentiated."""

    @jax.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

    @jax.checkpoint
    def block(x):
        return jnp.tanh(twice(x) @ w) @ w.T

    return jax.grad(lambda x: (block(block(x)) ** 2).sum())(x)


PROGRAMS = {
    "heads first": (heads_first, (numbers(2, 5, 8), [numbers(8, 8, seed=i) for i in range(4)])),
    "heads last": (heads_last, (numbers(2, 5, 8), [numbers(8, 8, seed=i) for i in range(4)])),
    "encoder": (
        encoder,
        (numbers(2, 5, 8), [numbers(8, 8, seed=i) for i in range(4)], numbers(8, 12), numbers(12, 8)),
    ),
    "NHWC": (cnn("NHWC"), (numbers(2, 8, 6, 3), numbers(3, 3, 3, 4))),
    "NCHW": (cnn("NCHW"), (numbers(2, 3, 8, 6), numbers(4, 3, 3, 3))),
    "training step": (
        training_step,
        ((numbers(3, 3, 2, 4), numbers(4 * 2 * 4, 5)), numbers(2, 8, 4, 2), numbers(2, 5)),
    ),
    "LSTM": (lstm, (numbers(3, 4, 5), numbers(5, 24), numbers(6, 24))),
    "remembered": (remembered, (numbers(3, 4, 6), numbers(6, 6))),
    "gather": (
        lambda table, ids: (table[ids] * 2).transpose(1, 0, 2).sum(1),
        (numbers(7, 4), np.array([[1, 2, 6], [0, 3, 3]], np.int32)),
    ),
    "sort": (
        lambda x, y: (jnp.sort(x @ y, 1), jnp.argsort(x @ y, 0), lax.top_k(x @ y, 2)),
        (numbers(4, 3), numbers(3, 5)),
    ),
    "einsum": (
        lambda a, b, c: jnp.einsum("abcd,bed,fa->ebcf", a, b, c),
        (numbers(2, 3, 4, 5), numbers(3, 6, 5), numbers(7, 2)),
    ),
    "windows": (
        lambda x: (
            lax.reduce_window(x, 0.0, lax.add, (1, 3, 2), (1, 2, 1), ((0, 0), (1, 0), (0, 1))),
            jnp.cumsum(x, 1),
            jnp.flip(x, 2),
            lax.dynamic_update_slice(x, x[:1, :2] * 2, (1, 0, 0)),
        ),
        (numbers(2, 6, 5),),
    ),
    "segment sum": (
        lambda x, w, s: jax.ops.segment_sum(x @ w, s, 4) @ w.T,
        (numbers(6, 3), numbers(3, 5), np.array([0, 1, 1, 3, 0, 2], np.int32)),
    ),
    "integers": (
        lambda x, y: (jnp.argmax(x @ y, 0), (x @ y).astype(jnp.int32).sum(1), (x > 0).sum(0)),
        (numbers(4, 3), numbers(3, 5)),
    ),
    "noise": (
        lambda x, key: x @ jax.random.normal(jax.random.wrap_key_data(key), x.shape[::-1]) + x[:, :1],
        (numbers(4, 3), np.array([3, 4], np.uint32)),
    ),
    "stack": (
        lambda x, y: jnp.stack([x @ y, jnp.tile(x, (1, 1, 2))], -1)[..., ::-1].reshape(2, 4, -1, 2),
        (numbers(2, 4, 3), numbers(3, 6)),
    ),
}


def prepared(name):
    fn, args = PROGRAMS[name]
    return fn, args, jax.make_jaxpr(fn)(*args), jax.tree.leaves(args)


def anything(program, rng):
    """Arbitrary orders for about a third of all values, whether worth choosing or not."""
    avals = {-1 - i: a for i, a in enumerate(program.in_avals)}
    for index, eqn in enumerate(relayout.equations(program)):
        avals[index] = eqn.outvars[0].aval
    ranks = {i: len(a.shape) for i, a in avals.items() if len(getattr(a, "shape", ())) > 1}
    return {i: tuple(rng.permutation(r).tolist()) for i, r in ranks.items() if rng.random() < 0.35}


def close(got, expected):
    for a, b in zip(got, jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        scale = max(np.abs(b).max(initial=0), 1e-6)
        assert np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max(initial=0) <= 1e-4 * scale


def transposes(jaxpr):
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "transpose"]


SPACES = [relayout.transposed, relayout.constrained]


# --- outputs --------------------------------------------------------------------------------------


def instructions(compiled):
    """Instructions of an optimised program in some order, without names, which differ from trace to trace."""
    text = re.sub(r", metadata=\{[^}]*\}", "", compiled.as_text())
    return sorted(re.sub(r"%[\w.-]+", "%", line) for line in text.splitlines() if " = " in line)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_choice_is_the_program_itself(name):
    fn, args, program, flat = prepared(name)
    original = jax.jit(fn).lower(*args).compile()
    expected = jax.tree.leaves(original(*args))
    for space in SPACES:
        compiled = jax.jit(space(program, {})).lower(*flat).compile()
        for a, b in zip(compiled(*flat), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        assert instructions(compiled) == instructions(original)


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_assignment_gives_the_same_numbers(name, space):
    fn, args, program, flat = prepared(name)
    expected = jax.jit(fn)(*args)
    rng = np.random.default_rng(len(name))
    known = relayout.sites(program, 99)
    each = 3 if space is relayout.transposed else 1
    drawn = [anything(program, rng) for _ in range(each)] + [
        relayout.draw(known, rng, 4) for _ in range(each)
    ]
    for choices in drawn:
        got = jax.jit(space(program, choices), compiler_options=QUICK)(*flat)
        try:
            close(got, expected)
        except AssertionError as error:
            raise AssertionError(f"{choices}") from error


# --- choices are in the program -------------------------------------------------------------------


def test_a_choice_is_seen_in_the_traced_program():
    program = jax.make_jaxpr(lambda x, w: jnp.tanh(x @ w))(numbers(4, 3), numbers(3, 5))
    traced = jax.make_jaxpr(relayout.transposed(program, {0: (1, 0)}))(numbers(4, 3), numbers(3, 5))
    assert [eqn.primitive.name for eqn in traced.eqns] == ["dot_general", "tanh", "transpose"]
    assert traced.eqns[0].outvars[0].aval.shape == traced.eqns[1].outvars[0].aval.shape == (5, 4)


def test_a_batch_dimension_between_others_needs_no_transposition_before_the_end():
    a, b = numbers(2, 3, 4), numbers(2, 4, 5)
    program = jax.make_jaxpr(jnp.matmul)(a, b)
    for order, moves in {(0, 1, 2): 0, (0, 2, 1): 1, (1, 0, 2): 2, (2, 1, 0): 2}.items():
        traced = jax.make_jaxpr(relayout.transposed(program, {0: order}))(a, b)
        assert len(transposes(traced.jaxpr)) == moves, order


def test_a_constraint_is_seen_by_xla():
    a, b = numbers(4, 3), numbers(3, 5)
    program = jax.make_jaxpr(lambda x, w: jnp.tanh(x @ w))(a, b)

    def text(choices):
        return jax.jit(relayout.constrained(program, choices)).lower(a, b).as_text()

    assert "LayoutConstraint" not in text({})
    for choices in ({0: (1, 0)}, {-1: (1, 0)}):
        assert text(choices).count("custom_call @LayoutConstraint") == 1


def test_a_transposition_can_be_free():
    program = jax.make_jaxpr(lambda x: jnp.exp(x.transpose(0, 2, 1)).sum(1))(numbers(2, 3, 4))
    fixed = jax.make_jaxpr(relayout.transposed(program, {}))(numbers(2, 3, 4))
    free = jax.make_jaxpr(relayout.transposed(program, {0: (0, 2, 1)}))(numbers(2, 3, 4))
    assert len(transposes(fixed.jaxpr)) == 1 and not transposes(free.jaxpr)


def test_a_value_is_transposed_once_for_all_its_readers():
    x = numbers(3, 4).astype(np.complex64)
    program = jax.make_jaxpr(lambda x: (lax.fft(x, "FFT", (4,)), lax.fft(x, "IFFT", (4,))))(x)
    traced = jax.make_jaxpr(relayout.transposed(program, {-1: (1, 0)}))(x)
    assert len(transposes(traced.jaxpr)) == 2  # in, and back for both


def test_a_reshape_keeps_what_it_can():
    x = numbers(2, 3, 4, 5)
    cases = {
        ((2, 3, 20), (2, 3, 0, 1)): 0,  # (20, 2, 3): neighbours stay neighbours
        ((2, 3, 2, 2, 5), (2, 0, 1, 3)): 0,  # a dimension splits wherever it is
        ((2, 1, 3, 4, 5, 1), (3, 2, 1, 0)): 0,  # dimensions of size 1 have no place
        ((6, 4, 5), (1, 0, 2, 3)): 1,  # merged in the other order
    }
    for (shape, order), moves in cases.items():
        program = jax.make_jaxpr(lambda x: -x.reshape(shape))(x)
        traced = jax.make_jaxpr(relayout.transposed(program, {-1: order}))(x)
        inner = [e for e in transposes(traced.jaxpr) if not ends(traced.jaxpr, e)]
        assert len(inner) == moves, shape
        np.testing.assert_array_equal(relayout.transposed(program, {-1: order})(x)[0], -x.reshape(shape))


def ends(jaxpr, eqn):
    """Whether a transposition reads an argument of the program or writes a result."""
    return eqn.invars[0] in jaxpr.invars or eqn.outvars[0] in jaxpr.outvars


# --- primitives that pass an order on -------------------------------------------------------------

A, B = numbers(4, 6, 5), numbers(4, 6, 5, seed=1)
IMAGE, KERNEL = numbers(2, 6, 5, 3), numbers(3, 3, 3, 4)
WINDOW = {"window_dimensions": (1, 2, 2), "window_strides": (1, 2, 1), "padding": ((0, 0), (0, 0), (0, 1))}
DILATED = {"base_dilation": (1, 1, 1), "window_dilation": (1, 2, 1)}
NHWC = ("NHWC", "HWIO", "NHWC")
LAX = {
    "argmax": (lambda x: lax.argmax(x, 1, np.int32), A),
    "argmin": (lambda x: lax.argmin(x, 0, np.int32), A),
    "broadcast_in_dim": (lambda x: -lax.broadcast_in_dim(x, (4, 6, 5, 2), (0, 1, 2)), A),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 1), A, B),
    "conv_general_dilated": (
        lambda x: lax.conv_general_dilated(x, KERNEL, (1, 2), "SAME", dimension_numbers=NHWC),
        IMAGE,
    ),
    "convert_element_type": (lambda x: lax.convert_element_type(x, np.int32), A),
    "dot_general": (lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))), A, B),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 2, 3), (2, 3, 1)), A),
    "dynamic_update_slice": (lambda x: lax.dynamic_update_slice(x, x[:2, :3, :1], (1, 2, 3)), A),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), A),
    "iota": (lambda x: x + lax.broadcasted_iota(np.float32, (4, 6, 5), 2), A),
    "name": (lambda x: checkpoint_name(x, "x"), A),
    "optimization_barrier": (lambda x, y: lax.optimization_barrier((x, y)), A, B),
    "pad": (lambda x: lax.pad(x, np.float32(0), [(1, 0, 0), (0, 0, 1), (-1, 2, 0)]), A),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), A),
    "reshape": (lambda x: lax.reshape(x, (4, 2, 3, 5)), A),
    "rev": (lambda x: lax.rev(x, (0, 2)), A),
    "select_and_gather_add": (
        lambda x, y: lax.select_and_gather_add_p.bind(x, y, select_prim=lax.ge_p, **WINDOW, **DILATED),
        A,
        B,
    ),
    "select_and_scatter_add": (
        lambda x, y: lax.select_and_scatter_add_p.bind(y[:, ::2][:, :3], x, select_prim=lax.ge_p, **WINDOW),
        A,
        B,
    ),
    "slice": (lambda x: lax.slice(x, (1, 0, 2), (4, 6, 5), (2, 1, 1)), A),
    "sort": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), A, B),
    "split": (lambda x: lax.split(x, (2, 4), 1), A),
    "squeeze": (lambda x: lax.squeeze(x[:, 2:3], (1,)), A),
    "stack": (lambda x, y: jnp.stack([x, y], 1), A, B),
    "tile": (lambda x: lax.tile(x, (1, 2, 3)), A),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 1)), A),
    "unstack": (lambda x: jnp.unstack(x, axis=1), A),
}


def call_of(name):
    """A function that consists of the primitive and arguments for it, of rank 3 at least."""
    if name in LAX:
        return LAX[name]
    spelled = "add_jaxvals" if name == "add_any" else name
    primitive = getattr(primitives, spelled + "_p", None) or getattr(lax, spelled + "_p")
    known = [{}, {"accuracy": None}, {"rounding_method": lax.RoundingMethod.TO_NEAREST_EVEN}]
    if name in passing.REDUCTIONS:
        known = [{"axes": (0, 2)}, {"axes": (0, 2), "out_sharding": None}]
    if name in passing.CUMULATIVE:
        known = [{"axis": 1, "reverse": True}]
    if name in passing.REDUCED_WINDOWS:
        known = [WINDOW | DILATED]
    for count, params in itertools.product((1, 2, 3), known):
        for kinds in itertools.product((np.float32, np.int32, bool, np.complex64), repeat=count):
            args = [(np.abs(x) * 0.4 + 0.05).astype(k) for x, k in zip((A, B, A + B), kinds, strict=False)]

            def fn(*args):
                return primitive.bind(*args, **params)

            try:
                jax.jit(fn).lower(*args)
            except (AssertionError, TypeError, ValueError):
                continue
            return (fn, *args)
    raise AssertionError(f"no call of {name} found")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(passing.PASSING))
def test_no_needless_transposition(name):
    fn, *args = call_of(name)
    program = jax.make_jaxpr(fn)(*args)
    assert name in {eqn.primitive.name for eqn in relayout.equations(program)}
    orders = [(2, 0, 1), (1, 2, 0)] if args[0].ndim == 3 else [(3, 0, 1, 2), (1, 2, 0, 3)]
    for order in orders:
        choices = {-1 - i: order for i in range(len(args))}
        run = relayout.transposed(program, choices)
        moved = jax.make_jaxpr(run)(*args).jaxpr
        assert all(ends(moved, eqn) for eqn in transposes(moved)), moved
        assert len([eqn for eqn in transposes(moved) if eqn.invars[0] in moved.invars]) == len(args)
        if name not in passing.ELEMENTWISE:
            close(jax.jit(run, compiler_options=QUICK)(*args), jax.jit(fn)(*args))


def test_what_passes_nothing_on_reads_row_major_values():
    opaque = Primitive("opaque")
    seen = []
    opaque.def_abstract_eval(lambda x: x)
    opaque.def_impl(lambda x: (seen.append(np.asarray(x)), x)[1])
    x = numbers(3, 4)
    program = jax.make_jaxpr(lambda x: opaque.bind(jnp.sin(x)) * 2)(x)
    (out,) = relayout.transposed(program, {-1: (1, 0), 1: (1, 0)})(x)
    np.testing.assert_array_equal(seen[-1], jnp.sin(x))
    np.testing.assert_array_equal(out, jnp.sin(x) * 2)


def test_operands_agree_on_the_order_that_moves_least():
    x, y = numbers(8, 3), numbers(8, 3)
    program = jax.make_jaxpr(lambda x, y: jnp.sin(x) + jnp.cos(y) * jnp.arange(3.0))(x, y)
    moved = jax.make_jaxpr(relayout.transposed(program, {-1: (1, 0), -2: (1, 0)}))(x, y)
    assert (
        len(transposes(moved.jaxpr)) == 3
    )  # two arguments and the result; the repeated vector is made as needed
    mixed = jax.make_jaxpr(relayout.transposed(program, {-1: (1, 0)}))(x, y)
    assert len(transposes(mixed.jaxpr)) in (2, 3)


# --- dimension numbers ----------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_products_in_any_orders_equal_einsum(data):
    letters = "abcdefgh"
    counts = [data.draw(st.integers(0, 2), label=what) for what in ("batch", "sum", "left", "right")]
    size = {c: data.draw(st.integers(1, 4)) for c in letters[: sum(counts)]}
    cuts = np.cumsum([0, *counts])
    batch, summed, left, right = (letters[a:b] for a, b in itertools.pairwise(cuts))
    lhs = data.draw(st.permutations(batch + summed + left))
    rhs = data.draw(st.permutations(batch + summed + right))
    x, y = (numbers(*(size[c] for c in side), seed=i) for i, side in enumerate((lhs, rhs)))
    pairs = tuple(tuple(tuple(side.index(c) for c in of) for side in (lhs, rhs)) for of in (summed, batch))
    out = batch + "".join(c for c in lhs if c in left) + "".join(c for c in rhs if c in right)
    program = jax.make_jaxpr(lambda x, y: lax.dot_general(x, y, pairs))(x, y)
    choices = {}
    for index, rank in ((-1, x.ndim), (-2, y.ndim), (0, len(out))):
        if data.draw(st.booleans()):
            choices[index] = tuple(data.draw(st.permutations(range(rank))))
    (got,) = jax.jit(relayout.transposed(program, choices), compiler_options=QUICK)(x, y)
    expected = np.einsum(f"{''.join(lhs)},{''.join(rhs)}->{out}", x, y)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", [("NHWC", "HWIO", "NCHW"), ("NCHW", "OIHW", "NHWC"), ("HWNC", "HWIO", "CWHN")]
)
def test_convolutions_in_any_orders(spec):
    size = {"N": 2, "H": 7, "W": 5, "C": 4, "I": 2, "O": 6}
    x, k = (
        numbers(*(size[c] for c in spec[0])),
        numbers(*({"H": 3, "W": 2, **size}[c] if c in "IO" else {"H": 3, "W": 2}[c] for c in spec[1])),
    )

    def fn(x, k):
        return lax.conv_general_dilated(
            x, k, (2, 1), ((1, 0), (0, 2)), (1, 2), (2, 1), dimension_numbers=spec, feature_group_count=2
        )

    program, expected = jax.make_jaxpr(fn)(x, k), fn(x, k)
    rng = np.random.default_rng(3)
    for _ in range(8):
        choices = {i: tuple(rng.permutation(4).tolist()) for i in (-2, -1, 0) if rng.random() < 0.7}
        close(relayout.transposed(program, choices)(x, k), expected)


# --- sites, orders, draws -------------------------------------------------------------------------


def test_sites_are_the_values_of_most_work():
    _, _, program, _ = prepared("encoder")
    everything = relayout.sites(program, 99)
    assert {"dot_general", "reshape", "reduce_max", "add"} <= {s.primitive for s in everything}
    assert [s.index for s in everything] == sorted(s.index for s in everything)
    few = relayout.sites(program, 5)
    assert len(few) == 5 and min(s.work for s in few) >= sorted(s.work for s in everything)[-5]
    for site in everything:
        rank = len(site.shape)
        assert 2 <= rank <= 6 and site.orders[0] == passing.row_major(rank)
        assert set(site.orders) >= set(relayout.permutations(rank))
    eqn = relayout.equations(program)[[s for s in everything if s.primitive == "add"][-1].index]
    assert eqn.primitive.name == "add"


def test_work_counts_operations():
    program = jax.make_jaxpr(cnn("NHWC"))(*PROGRAMS["NHWC"][1])
    convolution = next(s for s in relayout.sites(program) if s.primitive == "conv_general_dilated")
    assert convolution.work == (2 * 8 * 6 * 4) * (2 * (3 * 3 * 3) + 4)


def test_elementwise_values_are_sites_where_origins_meet():
    x, w = numbers(4, 4), numbers(4, 4)

    def fn(x, w):
        y = x @ w
        return -(jnp.tanh(y) * y + 1.0 + x)

    program = jax.make_jaxpr(fn)(x, w)
    found = relayout.sites(program)
    assert [s.primitive for s in found] == ["dot_general", "add"] and found[1].index == 4


def test_loops_are_not_looked_into():
    _, _, program, _ = prepared("LSTM")
    assert "dot_general" not in {s.primitive for s in relayout.sites(program)}


def test_equations_without_results_are_kept():
    x, seen = numbers(3, 4), []

    def fn(x):
        jax.debug.callback(lambda y: seen.append(np.asarray(y)), jnp.sin(x))
        return x @ x.T

    program = jax.make_jaxpr(fn)(x)
    site = relayout.sites(program)[-1]
    for space in SPACES:
        jax.jit(space(program, {site.index: (1, 0), -1: (1, 0)}))(x)
        jax.effects_barrier()
        np.testing.assert_allclose(seen.pop(), np.sin(x), rtol=1e-6)
    callback = next(i for i, eqn in enumerate(relayout.equations(program)) if not eqn.outvars)
    with pytest.raises(ValueError, match=f"order of site {callback}: .* a permutation of 0 dimensions"):
        relayout.transposed(program, {callback: (0, 1)})


def test_what_is_computed_twice_on_purpose_stays_so():
    fn, args, program, flat = prepared("remembered")
    original = jax.jit(fn).lower(*args).as_text().count("optimization_barrier")
    copy = jax.jit(relayout.transposed(program, {})).lower(*flat).as_text().count("optimization_barrier")
    assert original == copy > 0


def test_orders_worth_trying():
    assert relayout.permutations(2) == ((0, 1), (1, 0)) and len(relayout.permutations(3)) == 6
    for rank, count in {4: 12, 5: 19, 6: 28}.items():
        orders = relayout.permutations(rank)
        assert len(orders) == len(set(orders)) == count and orders[0] == passing.row_major(rank)
        assert all(sorted(order) == list(range(rank)) for order in orders)
    known = relayout.permutations(4)
    for order in [
        (0, 3, 1, 2),
        (0, 2, 3, 1),
        (1, 2, 3, 0),
        (2, 3, 0, 1),
        (0, 2, 1, 3),
        (0, 1, 3, 2),
        (3, 2, 1, 0),
    ]:
        assert (
            order in known
        )  # to NCHW, to NHWC, batch last, HWNC, heads and time, transposed matrix, reverse
    for rank in (1, 7):
        with pytest.raises(ValueError, match=f"rank: found {rank}, expected 2 to 6"):
            relayout.permutations(rank)


def test_a_transposition_may_keep_its_operand_where_it_is():
    program = jax.make_jaxpr(lambda x: x.transpose(2, 3, 1, 0) * 2)(numbers(2, 3, 4, 5))
    (site,) = relayout.sites(program)
    assert set(site.orders) - set(relayout.permutations(4)) == {(3, 2, 0, 1)}
    moved = jax.make_jaxpr(relayout.transposed(program, {site.index: (3, 2, 0, 1)}))(numbers(2, 3, 4, 5))
    assert [e.primitive.name for e in moved.eqns] == ["mul", "transpose"]


def test_digits_run_from_minor_to_major():
    assert relayout.digits((0, 2, 3, 1)) == (1, 3, 2, 0, -1, -1)
    for rank in range(2, 7):
        for order in itertools.permutations(range(rank)):
            assert relayout.order_of(relayout.digits(order)) == order
    assert relayout.order_of((-1,) * 6) is None
    for wrong in [(0, 2, -1, -1, -1, -1), (0, -1, 1, -1, -1, -1), (0, 0, -1, -1, -1, -1), (1, 0)]:
        refuses(lambda: relayout.order_of(wrong), ValueError, "layout digits")


def test_draws_follow_from_the_seed_and_change_little():
    _, _, program, _ = prepared("encoder")
    known = relayout.sites(program)
    drawn = [relayout.draw(known, np.random.default_rng(seed)) for seed in range(300)]
    assert drawn == [relayout.draw(known, np.random.default_rng(seed)) for seed in range(300)]
    by_index = {s.index: s for s in known}
    assert all(order in by_index[i].orders[1:] for choices in drawn for i, order in choices.items())
    sizes = [len(choices) for choices in drawn]
    assert min(sizes) == 1 and 2.5 < np.mean(sizes) < 3.5
    assert {i for choices in drawn for i in choices} == set(by_index)
    assert relayout.draw((), np.random.default_rng(0)) == {}


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_wrong_choices_are_refused(space):
    x = numbers(3, 4)
    program = jax.make_jaxpr(lambda x: x.T)(x)
    for index in (1, -2):
        with pytest.raises(ValueError, match=rf"site: found {index}, expected the index of a site, -1 to 0"):
            space(program, {index: (0, 1)})
    for order in [(0, 0), (0,), (1, 2), (0, 1, 2)]:
        with pytest.raises(
            ValueError, match=r"order of site 0: found .*, expected a permutation of 2 dimensions"
        ):
            space(program, {0: order})
    with pytest.raises(ValueError, match="zip"):
        space(program, {})(x, x)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_a_program_can_be_exported(space):
    fn, args, program, flat = prepared("heads first")
    (site, *_) = relayout.sites(program, 1)
    allowed = [jax.export.DisabledSafetyCheck.custom_call("LayoutConstraint")]
    jitted = jax.jit(space(program, {site.index: site.orders[-1]}))
    exported = jax.export.export(jitted, disabled_checks=allowed)(*flat)
    close(jax.export.deserialize(exported.serialize()).call(*flat), jax.jit(fn)(*args))


# --- nodes ----------------------------------------------------------------------------------------


def nodes_of(program, flat, folder):
    """(opcodes, names, shapes) of the program before layout assignment."""
    options = {
        "xla_dump_to": str(folder),
        "xla_dump_hlo_pass_re": "layout-assignment",
        "xla_dump_hlo_as_text": True,
    }
    jax.jit(relayout.transposed(program, {})).lower(*flat).compile(compiler_options=options)
    (path,) = folder.glob("*before_layout-assignment*.txt")
    opcodes, names, shapes = [], [], []
    for line in path.read_text().splitlines():
        found = re.match(r"\s*(?:ROOT )?%\S+ = (\(.*?\)|\S+) ([\w-]+)\(", line)
        if found:
            name = re.search(r'op_name="([^"]*)"', line)
            opcodes.append(found[2])
            names.append(name[1] if name else "")
            shapes.append(tuple(int(n) for n in re.findall(r"\d+", re.sub(r"^\w+\[|\].*", "", found[1]))))
    return opcodes, names, shapes


@pytest.mark.parametrize("name", ["heads first", "heads last", "encoder", "NCHW", "training step", "windows"])
def test_sites_are_found_in_the_graph(name, tmp_path):
    _, _, program, flat = prepared(name)
    opcodes, names, shapes = nodes_of(program, flat, tmp_path)
    known = relayout.sites(program, 99)
    nodes = {s: relayout.node_of(s, names, opcodes) for s in known}
    found = {s: n for s, n in nodes.items() if n is not None}
    assert len(set(found.values())) == len(found)
    assert len(known) - len(found) <= (name == "training step")  # a product and its transposition become one
    for site, node in found.items():
        assert np.prod(shapes[node]) == np.prod(site.shape), (site, opcodes[node], shapes[node])


def test_a_site_that_xla_removes_has_no_node(tmp_path):
    program = jax.make_jaxpr(lambda x: jnp.sin((x.T * 1.0).T + x))(numbers(3, 4))
    opcodes, names, _ = nodes_of(program, [numbers(3, 4)], tmp_path)
    first = next(s for s in relayout.sites(program) if s.primitive == "transpose")
    assert relayout.node_of(first, names, opcodes) is None
    last = relayout.sites(program)[-1]
    assert opcodes[relayout.node_of(last, names, opcodes)] == "add"


def test_nodes_are_told_apart_by_scope_and_opcode():
    site = relayout.Site(1, "reduce_max", (2, 3), relayout.permutations(2), 0)
    names = [
        "jit(run)/tg1/reduce_max",
        "jit(run)/tg11/reduce_max",
        "jit(run)/tg1/reduce_max",
        "jit(run)/tg2/tg1/neg",
    ]
    assert relayout.node_of(site, names, ["maximum", "reduce", "reduce", "negate"]) == 2
    assert relayout.node_of(site, names, ["maximum", "reduce", "maximum", "negate"]) is None
    assert relayout.node_of(site, names[1:2], ["reduce"]) is None
    assert relayout.node_of(site, ["jit(run)/tg3/add;jit(run)/tg3/tg1/reduce_max"], ["reduce"]) == 0
    unlisted = relayout.Site(1, "atan2", (2, 3), relayout.permutations(2), 0)  # found by its name alone
    named = ["jit(run)/tg1/atan2", "jit(run)/tg1/atan2", "jit(run)/tg1/neg", "jit(run)/tg1/tg2/atan2"]
    assert relayout.node_of(unlisted, named, ["any"] * 4) == 1
    assert relayout.node_of(unlisted, named[2:], ["any"] * 2) is None
    transposition = relayout.Site(1, "transpose", (2, 3), relayout.permutations(2), 0)
    assert relayout.node_of(transposition, ["jit(run)/tg1/transpose"], ["dot"]) == 0
