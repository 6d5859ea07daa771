"""How each JAX primitive passes on the physical order of its operands.

The order of a value lists its logical dimensions from major to minor, as ``major_to_minor`` of a JAX layout
does. A value of order ``p`` is stored as the array ``transpose(logical, p)``: axis k of the array is
dimension ``p[k]`` of the value. A rule computes with the arrays as stored and returns results with their
orders. A primitive without a rule gets row-major operands.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import jax
from jax import lax
from jax.extend.core import JaxprEqn

Order = tuple[int, ...]

ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz
    complex conj convert_element_type copy cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2 expm1
    floor ge gt igamma igammac imag integer_pow is_finite le le_to lgamma log log1p logistic lt lt_to
    max min mul mulhi name ne neg nextafter not or polygamma population_count pow real reduce_precision
    regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
    """.split()
)
REDUCTIONS = frozenset(
    "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor".split()
)
CUMULATIVE = frozenset("cumlogsumexp cummax cummin cumprod cumsum".split())
REDUCED_WINDOWS = frozenset("reduce_window_max reduce_window_min reduce_window_sum".split())
WINDOWS = REDUCED_WINDOWS | {"select_and_gather_add", "select_and_scatter_add"}
_FROM_STARTS = frozenset(("dynamic_slice", "dynamic_update_slice"))  # one scalar per dimension comes last
MADE = frozenset(("broadcast_in_dim", "iota"))  # a few numbers repeated: as cheap in one order as in another

# Parameters that have one entry per dimension. Others name one dimension (axis, dimension) or several (axes,
# dimensions). Primitives where these names mean something else have separate rules.
_PER_DIMENSION = frozenset(
    """
    base_dilation limit_indices padding padding_config reps slice_sizes start_indices strides
    window_dilation window_dimensions window_strides
    """.split()
)


def row_major(rank: int) -> Order:
    """Return the order of a row-major value."""
    return tuple(range(rank))


def inverse(order: Sequence[int]) -> Order:
    """Return the axis of each dimension, from the dimension of each axis."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


class Value:
    """A value of a program, as arrays in one or more physical orders.

    Parameters
    ----------
    array : array or callable
        The value in `order`, or a function that makes it in any order.
    order : tuple of int
        The order in which the value comes at no cost.
    """

    def __init__(self, array: Any, order: Order) -> None:
        self.make: Callable[[Order], Any] | None = array if callable(array) else None
        self.order = order
        self.arrays = {} if self.make else {order: array}
        self.scope: str | None = None  # the named scope in which it is made

    @classmethod
    def plain(cls, array: Any) -> "Value":
        """Take an array as row-major. A value without a shape, such as a token, has rank 0."""
        return cls(array, row_major(len(getattr(array, "shape", ()))))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.order)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.home().shape)

    @property
    def bound(self) -> bool:
        """Whether another order than `order` costs a transposition."""
        return self.make is None and self.rank > 0

    def at(self, order: Order) -> Any:
        """Return the array of the value in an order, transposed at most once per order."""
        if order not in self.arrays:
            if self.make is not None:
                with jax.named_scope(self.scope) if self.scope else nullcontext():
                    self.arrays[order] = self.make(order)
            else:
                axis = inverse(self.order)
                self.arrays[order] = lax.transpose(self.home(), [axis[d] for d in order])
        return self.arrays[order]

    def home(self) -> Any:
        """Return the array of the value in its own order."""
        return self.at(self.order)

    def logical(self) -> Any:
        """Return the array of the value in row-major order."""
        return self.at(row_major(self.rank))


def bind(eqn: JaxprEqn, arrays: Iterable[Any], **changed: Any) -> list[Any]:
    """Apply the primitive of an equation to other arrays, with some of its parameters changed."""
    primitive: Any = eqn.primitive
    with eqn.ctx.manager:
        out = primitive.bind(*arrays, **primitive.get_bind_params({**eqn.params, **changed}))
    return list(out) if primitive.multiple_results else [out]


def apply_row_major(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None = None) -> list[Value]:
    """Apply an equation to row-major arrays, whatever the choice."""
    return [Value.plain(y) for y in bind(eqn, [v.logical() for v in values])]


def apply(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    """Apply an equation to values of any orders.

    Parameters
    ----------
    eqn : JaxprEqn
        The equation.
    values : list of Value
        Its operands.
    choice : tuple of int or None
        Order that its first result will get: a rule may save the transposition.

    Returns
    -------
    list of Value
        Its results. Without a choice, results of row-major operands are row-major.
    """
    name = eqn.primitive.name
    rule = _RULES.get(name)
    sharded = any(eqn.params.get(key) is not None for key in ("sharding", "out_sharding"))
    ordered = any(v.order != row_major(v.rank) for v in values)
    if rule is None or sharded or not (ordered or choice is not None or name in MADE):
        return apply_row_major(eqn, values)
    return rule(eqn, values, choice)


def _agree(values: Sequence[Value], choice: Order | None) -> Order:
    """Return the order for operands of one rank that moves the fewest bytes; the earlier of equals."""
    bound = [v for v in values if v.bound]
    free = [v.order for v in values if v.rank]
    candidates = [v.order for v in bound] or ([choice] if choice is not None else free)

    def cost(order: Order) -> int:
        moved = sum(v.size for v in bound if v.order != order)
        return moved + (bound[0].size if bound and choice not in (None, order) else 0)

    return min(candidates, key=cost)


def _renamed(eqn: JaxprEqn, order: Order) -> dict[str, Any]:
    """Return the parameters that name dimensions, for operands in an order."""
    axis = inverse(order)
    changed: dict[str, Any] = {}
    for name, given in eqn.params.items():
        if name in _PER_DIMENSION and given is not None:
            changed[name] = tuple(given[d] for d in order)
        elif name in ("axis", "dimension"):
            changed[name] = axis[given]
        elif name in ("axes", "dimensions"):
            changed[name] = tuple(axis[d] for d in given)
    return changed


def _keep(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    """Keep the rank of the operands; some may be scalars."""
    order = _agree(values, choice)
    arrays = [v.at(order) if v.rank == len(order) else v.home() for v in values]
    if eqn.primitive.name in _FROM_STARTS:
        starts = arrays[-len(order) :]
        arrays[-len(order) :] = [starts[d] for d in order]
    return [Value(y, order) for y in bind(eqn, arrays, **_renamed(eqn, order))]


def _remove(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    """Leave out some dimensions of the operand."""
    (value,), params = values, eqn.params
    removed = params.get("axes", params.get("dimensions", (params.get("axis"),)))
    left = [d for d in range(value.rank) if d not in removed]
    order = tuple(left.index(d) for d in value.order if d in left)
    return [Value(y, order) for y in bind(eqn, [value.home()], **_renamed(eqn, value.order))]


def _barrier(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    out = bind(eqn, [v.home() for v in values])
    return [Value(y, v.order) for y, v in zip(out, values, strict=True)]


def _iota(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]

    def make(order: Order) -> Any:
        return bind(eqn, [], shape=tuple(shape[d] for d in order), dimension=order.index(dimension))[0]

    return [Value(make, choice or row_major(len(shape)))]


def _broadcast(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    (value,), shape, target = values, eqn.params["shape"], eqn.params["broadcast_dimensions"]

    def make(order: Order) -> Any:
        axis = inverse(order)
        inner = tuple(sorted(range(value.rank), key=lambda d: axis[target[d]]))
        sizes, places = tuple(shape[d] for d in order), tuple(axis[target[d]] for d in inner)
        return bind(eqn, [value.at(inner)], shape=sizes, broadcast_dimensions=places)[0]

    # The operand's dimensions go where its order has them, so that nothing moves.
    order = list(range(len(shape)))
    for place, d in zip(sorted(target), value.order, strict=True):
        order[place] = target[d]
    natural = tuple(order)
    if value.bound and prod(shape) == value.size:  # nothing repeats
        return [Value(make(natural), natural)]
    return [Value(make, choice or natural)]


def _stack(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    axis, inner = eqn.params["axis"], _agree(values, None)
    order = [d + (d >= axis) for d in inner]
    # The new dimension goes before the one that follows it in the value.
    order.insert(order.index(axis + 1) if axis + 1 in order else len(order), axis)
    (out,) = bind(eqn, [v.at(inner) for v in values], axis=order.index(axis))
    return [Value(out, tuple(order))]


def _transpose(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    """Rename the dimensions: nothing moves."""
    name = inverse(eqn.params["permutation"])
    return [Value(values[0].home(), tuple(name[d] for d in values[0].order))]


def _runs(shape: Sequence[int], cuts: set[int]) -> list[list[int]]:
    """Cut the dimensions, without those of size 1, where the product of sizes so far is one of `cuts`."""
    found: list[list[int]] = [[]]
    for d in [d for d, n in enumerate(shape) if n != 1]:
        found[-1].append(d)
        if prod(shape[: d + 1]) in cuts:
            found.append([])
    return found[:-1]


def _reshape(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    (value,), new = values, eqn.params["new_sizes"]
    operand: Any = eqn.invars[0]
    old, axis = operand.aval.shape, inverse(value.order)
    if eqn.params.get("dimensions") is not None or 0 in old:
        return apply_row_major(eqn, values)
    # Dimensions that are merged or split together must be neighbours; those of size 1 have no fixed place.
    cuts = set.intersection(*({prod(shape[: d + 1]) for d in range(len(shape))} for shape in (old, new)))
    pairs = zip(_runs(old, cuts), _runs(new, cuts), strict=True)
    groups = sorted(pairs, key=lambda pair: axis[pair[0][-1]])
    wanted = iter([d for mine, _ in groups for d in mine])
    inner = tuple(d if old[d] == 1 else next(wanted) for d in value.order)
    order = [d for _, yours in groups for d in yours]
    for d, n in enumerate(new):
        if n == 1:
            order.insert(order.index(d - 1) + 1 if d else 0, d)
    (out,) = bind(eqn, [value.at(inner)], new_sizes=tuple(new[d] for d in order))
    return [Value(out, tuple(order))]


def _dot(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    """Return batch dimensions in any order, then the left operand's in its order, then the right one's.

    The operands are swapped if the choice puts the right one's dimensions first.
    """
    contracted, batched = eqn.params["dimension_numbers"]
    free, at = [], len(batched[0])
    for value, *used in zip(values, contracted, batched, strict=True):
        named = [d for d in range(value.rank) if d not in {*used[0], *used[1]}]
        free.append([at + named.index(d) for d in value.order if d in named])
        at += len(named)
    batch = list(range(len(batched[0])))
    if choice is not None:
        batch.sort(key=choice.index)
    elif values[0].order != row_major(values[0].rank):
        batch.sort(key=lambda i: values[0].order.index(batched[0][i]))
    precision = eqn.params.get("precision")
    swaps = precision is None or isinstance(precision, (lax.Precision, tuple))
    sides = [1, 0] if choice and swaps and choice[-1] in free[0] else [0, 1]
    axes = [inverse(v.order) for v in values]
    dimension_numbers = (
        tuple(tuple(axes[s][d] for d in contracted[s]) for s in sides),
        tuple(tuple(axes[s][batched[s][i]] for i in batch) for s in sides),
    )
    changed: dict[str, Any] = {"dimension_numbers": dimension_numbers}
    if isinstance(precision, tuple):
        changed["precision"] = tuple(precision[s] for s in sides)
    (out,) = bind(eqn, [values[s].home() for s in sides], **changed)
    return [Value(out, (*batch, *free[sides[0]], *free[sides[1]]))]


def _convolution(eqn: JaxprEqn, values: Sequence[Value], choice: Order | None) -> list[Value]:
    """Write the result in the chosen order, or in that of the left operand: any order is possible."""
    numbers = eqn.params["dimension_numbers"]
    specs = (numbers.lhs_spec, numbers.rhs_spec)
    moved = [tuple(inverse(v.order)[d] for d in spec) for v, spec in zip(values, specs, strict=True)]
    left, out_spec = values[0].order, numbers.out_spec
    order = choice
    if order is None:
        plain = left == row_major(len(left))
        order = left if plain else tuple(out_spec[numbers.lhs_spec.index(d)] for d in left)
    new = type(numbers)(*moved, tuple(inverse(order)[d] for d in out_spec))
    (out,) = bind(eqn, [v.home() for v in values], dimension_numbers=new)
    return [Value(out, order)]


_RULES: dict[str, Callable[[JaxprEqn, Sequence[Value], Order | None], list[Value]]] = {
    **dict.fromkeys(ELEMENTWISE | CUMULATIVE | WINDOWS | _FROM_STARTS, _keep),
    **dict.fromkeys(("concatenate", "pad", "rev", "slice", "sort", "split", "tile"), _keep),
    **dict.fromkeys((*REDUCTIONS, "squeeze", "unstack"), _remove),
    "broadcast_in_dim": _broadcast,
    "conv_general_dilated": _convolution,
    "dot_general": _dot,
    "iota": _iota,
    "optimization_barrier": _barrier,
    "reshape": _reshape,
    "stack": _stack,
    "transpose": _transpose,
}
PASSING = frozenset(_RULES)  # names of the primitives that pass on an order
