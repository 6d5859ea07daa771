"""Programs composed of random steps: many short ones, each with another mix of work.

The effect of an option depends on the work: sums along one axis or another, small or large products, a loop
over few elements. Real programs are too few to separate these, so composed ones fill the gaps. A family draws
half of its steps from one kind. All are in one group, which is for training only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tpugraphs.xla.zoo.layers import conv, layer_norm, swish
from tpugraphs.xla.zoo.registry import Arrays, Built, Draw, family

# A step maps x and its parameters to the next x. It is made for a shape; None if that is not possible.
Step = tuple[Callable[..., Array], Arrays]
Maker = Callable[[Draw, tuple[int, ...]], Step | None]

STEPS: dict[str, list[Maker]] = {}
_SMALLEST, _LARGEST = 1 << 9, 1 << 19  # elements between two steps; more in a program of more
_HEAVIEST = 1 << 21  # bytes of the parameters of a step, likewise
_SIZES = tuple(  # of programs, and of their gradients, which take several times as long
    tuple({"steps": steps, "elements": 1 << bits} for steps, bits in ((2, 17), (3, 13), *larger))
    for larger in (((4, 20), (5, 22)), ((4, 19), (5, 20)))
)


def step(kind: str) -> Callable[[Maker], Maker]:
    """Add a maker of steps to a kind."""

    def add(make: Maker) -> Maker:
        STEPS.setdefault(kind, []).append(make)
        return make

    return add


# ------------------------------------------------------------------------------------------ elementwise


@step("elementwise")
def affine(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Scale and shift the columns, then squash."""
    return lambda x, a, b: jnp.tanh(x * a + b), (draw.normal(shape[-1]), draw.normal(shape[-1]))


@step("elementwise")
def function(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Apply a costly function."""
    bell: Any = lambda x: jnp.exp(-jnp.square(x))  # noqa: E731
    return draw.pick(bell, swish, lax.erf, jnp.sin, lambda x: jnp.sign(x) * jnp.log1p(jnp.abs(x))), ()


@step("elementwise")
def cheap(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Clip, bend or divide."""
    return draw.pick(
        lambda x: jnp.clip(x, -1.0, 1.5),
        lambda x: jnp.where(x > 0.0, x, 0.1 * x),
        lambda x: x / (1.0 + jnp.abs(x)),
        lambda x: x * lax.rsqrt(0.5 + x * x),
    ), ()


@step("elementwise")
def weighed(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Weigh every element separately and gate the rows."""
    return lambda x, w, gate: x * w * jax.nn.sigmoid(gate), (draw.normal(*shape), draw.normal(*shape[1:]))


# ------------------------------------------------------------------------------------------- reductions


@step("reductions")
def norm(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Centre and scale along one axis, or along all but one."""
    axis = draw.axis(shape)
    others = tuple(a for a in range(len(shape)) if a != axis)
    return partial(layer_norm, axis=draw.pick(axis, others), shift=0.1), (draw.uniform(shape[-1], low=0.5),)


@step("reductions")
def share(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Take the softmax along an axis, of mean 1."""
    axis = draw.axis(shape)
    return lambda x: shape[axis] * jax.nn.softmax(x, axis=axis), ()


@step("reductions")
def collapse(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Reduce an axis to one number."""
    axis = draw.axis(shape)
    if len(shape) < 3 or shape[axis] < 3:
        return None
    kinds: Any = jnp.max, jax.nn.logsumexp, lambda x, axis: jnp.sum(x, axis) / math.sqrt(shape[axis])
    return partial(draw.pick(*kinds), axis=axis), ()


@step("reductions")
def relative(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Compare with the largest or the mean along an axis."""
    axis, reduce = draw.axis(shape), draw.pick(jnp.max, jnp.mean)
    return lambda x: x - reduce(x, axis=axis, keepdims=True), ()


# --------------------------------------------------------------------------------------------- products


@step("products")
def dense(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Multiply the last axis by a matrix."""
    return lambda x, w: x @ w, (draw.weights(shape[-1], draw.pick(8, 20, 64, 200)),)


@step("products")
def mixed(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Multiply the first axis by a matrix, or the one before the last."""
    axis = draw.pick(0, len(shape) - 2)
    weights = draw.weights(shape[axis], draw.pick(8, 32, 100))
    return lambda x, w: jnp.moveaxis(jnp.tensordot(x, w, (axis, 0)), -1, axis), (weights,)


@step("products")
def gram(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Multiply matrices by their own transpose."""
    return lambda x: jnp.einsum("...ik,...jk->...ij", x, x) / math.sqrt(shape[-1]), ()


@step("products")
def batched(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Multiply each matrix of a batch by a separate one."""
    if len(shape) < 3 or math.prod(shape[:-2]) > 256:
        return None
    return jnp.matmul, (draw.weights(*shape[:-2], shape[-1], draw.pick(8, 32), fan_in=shape[-1]),)


@step("products")
def bottleneck(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Multiply by two thin matrices, with a residual."""
    inner = draw.pick(4, 16, 48)
    first, second = draw.weights(shape[-1], inner), draw.weights(inner, shape[-1])
    return lambda x, a, b: x + jnp.maximum(x @ a, 0.0) @ b, (first, second)


# ---------------------------------------------------------------------------------------------- windows


@step("windows")
def convolution(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Convolve images or sequences, channels last; every channel on its own, or all together."""
    if len(shape) not in (3, 4) or shape[-1] > 128 or min(shape[1:-1]) < 3:
        return None
    layout: Any = ("NHC", "HIO", "NHC") if len(shape) == 3 else ("NHWC", "HWIO", "NHWC")
    taps = (draw.pick(1, 3, 3),) * (len(shape) - 2)
    groups, out = draw.pick((1, 16), (1, 40), (shape[-1], shape[-1]))
    kernel = draw.weights(*taps, shape[-1] // groups, out)
    return partial(conv, stride=draw.pick(1, 1, 2), layout=layout, groups=groups), (kernel,)


@step("windows")
def smooth(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Take the mean of neighbours along an axis."""
    axis = draw.axis(shape)
    window = tuple(3 if a == axis else 1 for a in range(len(shape)))
    if shape[axis] < 5:
        return None
    return lambda x: lax.reduce_window(x, 0.0, lax.add, window, (1,) * x.ndim, "SAME") / 3.0, ()


@step("windows")
def pool(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Keep the largest of two or three neighbours along an axis."""
    axis, width = draw.axis(shape), draw.pick(2, 3)
    window = tuple(width if a == axis else 1 for a in range(len(shape)))
    if shape[axis] < 2 * width:
        return None
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID"), ()


@step("windows")
def difference(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Compare with the neighbour along an axis, in a ring or with an end."""
    axis = draw.axis(shape)
    ring: Any = lambda x: x - 0.5 * jnp.roll(x, 1, axis)  # noqa: E731
    return draw.pick(ring, lambda x: jnp.diff(x, axis=axis, append=0.0)), ()


# --------------------------------------------------------------------------------------------- movement


@step("movement")
def transpose(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Put the axes in another order."""
    order = tuple(int(a) for a in draw.order(len(shape)))
    return lambda x: jnp.transpose(x, order) * 0.9 + 0.1, ()


@step("movement")
def reshape(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Split an even axis in two, or merge two."""
    axis = draw.axis(shape)
    if len(shape) == 4 or (len(shape) == 3 and draw.pick(True, False)):
        place = min(axis, len(shape) - 2)
        merged = (*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :])
        return lambda x: x.reshape(merged), ()
    factor = draw.pick(2, 4, 8)
    if shape[axis] % factor:
        return None
    split = (*shape[:axis], shape[axis] // factor, factor, *shape[axis + 1 :])
    return lambda x: x.reshape(split), ()


@step("movement")
def join(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Concatenate along an axis with the values in reverse, or with a constant."""
    axis = draw.axis(shape)
    widths = [(1, 2) if a == axis else (0, 0) for a in range(len(shape))]
    return draw.pick(
        lambda x: jnp.concatenate([x, jnp.flip(x, axis)], axis),
        lambda x: jnp.pad(x, widths, constant_values=0.1),
    ), ()


@step("movement")
def thin(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Keep every second place of an axis."""
    axis = draw.axis(shape)
    return None if shape[axis] < 8 else (lambda x: lax.slice_in_dim(x, 0, shape[axis], 2, axis), ())


@step("movement")
def spread(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Repeat everything with another weight each time."""
    if len(shape) > 3:
        return None
    front = draw.normal(draw.pick(2, 5), *(1 for _ in shape))
    back = draw.normal(*shape, 1) if draw.pick(True, False) else None
    return (lambda x, w: x * w, (front,)) if back is None else (lambda x, w: x[..., None] + w, (back,))


# -------------------------------------------------------------------------------------------- irregular


@step("irregular")
def gather(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Take random rows, or random elements within each row."""
    if draw.pick(True, False):
        rows = draw.below(shape[0], draw.pick(16, shape[0], 2 * shape[0]))
        return lambda x, i: jnp.take(x, i, axis=0), (rows,)
    cells = draw.below(shape[-1], *shape)
    return lambda x, i: jnp.take_along_axis(x, i, axis=-1), (cells,)


@step("irregular")
def scatter(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Add rows up in random places, with sorted places or not."""
    places = max(shape[0] // draw.pick(1, 4), 2)
    index = draw.below(places, shape[0])
    ordered = draw.pick(True, False)
    add = partial(jax.ops.segment_sum, num_segments=places, indices_are_sorted=ordered)
    return lambda x, i: 0.5 * add(x, i), (np.sort(index) if ordered else index,)


@step("irregular")
def sort(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Sort along an axis, or keep the largest few."""
    axis, few = draw.axis(shape), draw.pick(2, 8)
    if math.prod(shape) > 1 << 15:
        return None
    if draw.pick(True, False) or shape[-1] <= few:
        return lambda x: jnp.sort(x, axis=axis), ()
    return lambda x: lax.top_k(x, few)[0], ()


@step("irregular")
def cumulate(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Take sums or maxima of all before, along an axis."""
    axis = draw.axis(shape)
    sums: Any = lambda x: jnp.cumsum(x, axis) / math.sqrt(shape[axis])  # noqa: E731
    return draw.pick(sums, sums, lambda x: lax.cummax(x, axis)), ()


# ------------------------------------------------------------------------------------------------ loops


@step("loops")
def recurrence(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Carry a state along the first axis, element by element."""
    if not 8 <= shape[0] <= 512:
        return None

    def run(x: Array, decay: Array) -> Array:
        def one(state: Array, now: Array) -> tuple[Array, Array]:
            state = jnp.tanh(decay * state + now)
            return state, state

        return lax.scan(one, jnp.zeros(shape[1:], x.dtype), x)[1]

    return run, (draw.uniform(*shape[1:]),)


@step("loops")
def recurrent_dense(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Carry a state along the first axis, with a product in every step."""
    if not 4 <= shape[0] <= 64 or shape[-1] > 4096:
        return None

    def run(x: Array, w: Array) -> Array:
        def one(state: Array, now: Array) -> tuple[Array, Array]:
            state = jnp.tanh(state @ w + now)
            return state, state

        return lax.scan(one, jnp.zeros(shape[1:], x.dtype), x)[1]

    return run, (draw.weights(shape[-1], shape[-1]),)


@step("loops")
def relax(draw: Draw, shape: tuple[int, ...]) -> Step:
    """Mix every element with its neighbour a number of times."""
    axis = draw.axis(shape)
    one: Any = lambda _, x: 0.6 * x + 0.4 * jnp.tanh(jnp.roll(x, 1, axis))  # noqa: E731
    return partial(lax.fori_loop, 0, draw.pick(4, 16), one), ()


@step("loops")
def iterate(draw: Draw, shape: tuple[int, ...]) -> Step | None:
    """Multiply by the same matrix a number of times."""
    if shape[-1] > 128:
        return None
    times = draw.pick(3, 10)
    return lambda x, w: lax.fori_loop(0, times, lambda _, y: jnp.tanh(y @ w) + 0.1 * x, x), (
        draw.weights(shape[-1], shape[-1]),
    )


# --------------------------------------------------------------------------------------------- programs


def composed(draw: Draw, kind: str, gradient: bool, steps: int, elements: int) -> Built:
    """Draw steps, half of them of one kind; with `gradient`, that of half the sum of squares."""
    shape = _shape(draw, elements)
    largest, heaviest = max(_LARGEST, 2 * elements), max(_HEAVIEST, 4 * elements)
    every = [maker for makers in STEPS.values() for maker in makers]
    x = draw.normal(*shape)
    chain: list[Callable[..., Array]] = []
    parameters: list[Arrays] = []
    while len(chain) < steps:
        found = draw.pick(*(STEPS[kind] if len(chain) % 2 == 0 else every))(draw, shape)
        if found is None or sum(array.nbytes for array in found[1]) > heaviest:
            continue
        after = jax.eval_shape(found[0], jax.ShapeDtypeStruct(shape, x.dtype), *found[1]).shape
        if _SMALLEST <= math.prod(after) <= largest and 2 <= len(after) <= 4:
            shape = after
            chain.append(found[0])
            parameters.append(found[1])

    def forward(x: Array, *flat: Array) -> Array:
        rest = list(flat)
        for apply, own in zip(chain, parameters, strict=True):
            x = apply(x, *rest[: len(own)])
            del rest[: len(own)]
        return x

    args = (x, *(array for own in parameters for array in own))
    if not gradient:
        return forward, args
    moving = [place for place, array in enumerate(args) if array.dtype == np.float32]

    def backward(*args: Array) -> tuple[Array, ...]:
        def loss(*some: Array) -> Array:
            given = list(args)
            for place, array in zip(moving, some, strict=True):
                given[place] = array
            y = forward(*given)
            return jnp.sum(jnp.square(y)) / math.sqrt(y.size)

        slopes: tuple[Array, ...] = jax.grad(loss, tuple(range(len(moving))))(*(args[i] for i in moving))
        return slopes

    return backward, args


def _shape(draw: Draw, elements: int) -> tuple[int, ...]:
    """Draw a shape of two to four dimensions, none of them tiny, with about this number of elements."""
    rank = draw.pick(2, 3, 3, 4)
    left, shape = elements, []
    for place in range(rank - 1):
        most = left >> 2 * (rank - 1 - place)  # at least 4 for each of the rest
        size = 1 << draw.pick(*range(2, max(most.bit_length(), 4)))
        shape.append(min(size, most))
        left //= shape[-1]
    shape.append(left)
    return tuple(shape[a] for a in draw.order(rank).tolist())


for _kind in STEPS:
    for _suffix, _gradient in (("", False), ("-gradient", True)):
        family(f"composed-{_kind}{_suffix}", "composed", *_SIZES[_gradient])(
            partial(composed, kind=_kind, gradient=_gradient)
        )
