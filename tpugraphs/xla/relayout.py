"""Layouts as a choice: from one traced JAX program, many that compute the same in other physical orders.

A *site* is a value of the program whose physical order may be chosen. Two ways to apply a choice:

- `transposed`: the value is stored transposed, and all its readers are rewritten. XLA sees another program of
row-major values.
- `constrained`: XLA must give the value this layout, and chooses the others around it.

An *order* lists dimensions from major to minor, as ``jax.experimental.layout.Layout.major_to_minor`` does.
Published layout digits run from minor to major: `digits` and `order_of` convert.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, new_jaxpr_eqn, no_effects, primitives

from tpugraphs import _core
from tpugraphs.system.words import counted
from tpugraphs.xla import passing
from tpugraphs.xla.passing import Order, Value, inverse, row_major

_DIGITS: int = _core.SCHEMA["layout_digits"]
_PRODUCTS = ("dot_general", "conv_general_dilated")
_MOVES = (
    passing.CUMULATIVE
    | passing.REDUCED_WINDOWS
    | passing.REDUCTIONS
    | set("concatenate gather reshape scatter scatter-add select_and_scatter_add stack transpose".split())
)
_OPCODES = {  # possible opcodes of the instruction for a primitive, likeliest first
    "add": "add", "add_any": "add", "concatenate": "concatenate", "conv_general_dilated": "convolution",
    "div": "divide", "dot_general": "dot", "gather": "gather", "max": "maximum", "min": "minimum",
    "mul": "multiply", "reshape": "reshape", "scatter": "scatter", "scatter-add": "scatter",
    "select_and_scatter_add": "select-and-scatter scatter", "select_n": "select", "stack": "concatenate",
    "sub": "subtract", "transpose": "transpose dot convolution",
    **dict.fromkeys(passing.CUMULATIVE | passing.REDUCED_WINDOWS, "reduce-window"),
    **dict.fromkeys(passing.REDUCTIONS, "reduce"),
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A value of a program whose physical order may be chosen.

    Parameters
    ----------
    index : int
        Position of the equation that makes it, see `equations`.
    primitive : str
        Name of the equation's primitive.
    shape : tuple of int
        Shape of the value, of rank 2 to 6.
    orders : tuple of tuple of int
        Candidate orders, major to minor, row-major first.
    work : int
        Floating-point operations of a product or convolution, plus the bytes of the value.
    """

    index: int
    primitive: str
    shape: tuple[int, ...]
    orders: tuple[Order, ...]
    work: int


def _scope(index: int) -> str:
    """Return the named scope of an equation, which XLA writes into the names of its instructions."""
    return f"tg{index}"


# Primitives of equations that only call a program once with their operands.
_CALLING = ("jit", "remat", "custom_jvp_call", "custom_vjp_call", "closed_call")
_CALLS = [getattr(primitives, f"{name}_p") for name in _CALLING]


def _walk(
    program: ClosedJaxpr,
    arguments: Sequence[Any],
    lift: Callable[[Any], Any],
    step: Callable[[int, JaxprEqn, list[Any]], Sequence[Any]],
) -> list[Any]:
    """Evaluate a program with its calls inlined.

    `lift` makes a value of a constant. `step` takes the number of an equation, the equation and the values of
    its operands, and returns those of its results.
    """
    numbers = itertools.count()

    def run(called: Any, consts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        env = dict(zip([*called.constvars, *called.invars], [*map(lift, consts), *operands], strict=True))

        def read(atoms: Sequence[Any]) -> list[Any]:
            return [lift(atom.val) if isinstance(atom, Literal) else env[atom] for atom in atoms]

        for eqn in called.eqns:
            values = read(eqn.invars)
            if eqn.primitive in _CALLS:
                inner = eqn.params.get("call_jaxpr", eqn.params.get("jaxpr"))
                own = getattr(inner, "consts", ())
                results: Sequence[Any] = run(getattr(inner, "jaxpr", inner), own, held(eqn, values))
            else:
                results = step(next(numbers), eqn, values)
            env.update(zip(eqn.outvars, results, strict=True))
        return read(called.outvars)

    def held(eqn: JaxprEqn, values: list[Any]) -> list[Any]:
        """Keep values that are computed twice to save memory from being merged, as JAX does."""
        wanted = eqn.params.get("differentiated") and eqn.params.get("prevent_cse", False)
        places = [i for i in range(len(values)) if (wanted[i] if isinstance(wanted, tuple) else wanted)]
        if places:
            atoms = [eqn.invars[i] for i in places]
            barrier = new_jaxpr_eqn(atoms, atoms, lax.optimization_barrier_p, {}, no_effects)
            results = step(next(numbers), barrier, [values[i] for i in places])
            for i, value in zip(places, results, strict=True):
                values[i] = value
        return values

    return run(program.jaxpr, program.consts, arguments)


def equations(program: ClosedJaxpr) -> list[JaxprEqn]:
    """List the equations of a program with its calls inlined; the index of a site is a place in this list."""
    found = []

    def step(_: int, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        found.append(eqn)
        return list(eqn.outvars)

    _walk(program, program.in_avals, lambda value: value, step)
    return found


# --- sites ----------------------------------------------------------------------------------------


@cache
def permutations(rank: int) -> tuple[Order, ...]:
    """Return orders worth trying for a value of a rank, row-major first.

    Parameters
    ----------
    rank : int
        Number of dimensions, 2 to 6.

    Returns
    -------
    tuple of tuple of int
        Major to minor. All orders for ranks 2 and 3. For higher ranks: those that move one dimension and keep
        the order of the rest (NHWC to NCHW, heads before or behind time, batch last, a matrix transposed),
        the first two dimensions moved last (HWNC), and the reverse.
    """
    if not 2 <= rank <= _DIGITS:
        raise ValueError(f"rank: found {rank}, expected 2 to {_DIGITS}")
    plain = row_major(rank)
    if rank <= 3:
        return tuple(itertools.permutations(plain))
    found = {plain[2:] + plain[:2], plain[::-1]}
    for moved in plain:
        rest = [d for d in plain if d != moved]
        found |= {(*rest[:place], moved, *rest[place:]) for place in plain}
    return tuple(sorted(found))


def digits(order: Order) -> tuple[int, ...]:
    """Write an order as published layout digits: (6,), minor to major, padded with -1."""
    return (*order[::-1], *(-1,) * (_DIGITS - len(order)))


def order_of(layout: Sequence[int]) -> Order | None:
    """Return the order for published layout digits; None if all are -1: no choice.

    Raises
    ------
    ValueError
        The digits are not a permutation followed by -1.
    """
    order = tuple(int(d) for d in layout if d >= 0)[::-1]
    if sorted(order) != list(range(len(order))) or (len(order) and digits(order) != tuple(layout)):
        expected = "a permutation, minor to major, then -1"
        raise ValueError(f"layout digits: found {tuple(layout)}, expected {expected}")
    return order or None


def _work(eqn: JaxprEqn) -> int:
    """Return the floating-point operations of a product or convolution, plus the bytes of the result."""
    out, *operands = [atom.aval for atom in (eqn.outvars[0], *eqn.invars)]
    size, terms, numbers = prod(out.shape), 0, eqn.params.get("dimension_numbers")
    if eqn.primitive.name == "dot_general":
        terms = prod(operands[0].shape[d] for d in numbers[0][0])
    elif eqn.primitive.name == "conv_general_dilated":
        terms = prod(operands[1].shape[d] for d in numbers.rhs_spec[1:])
    return int(size * (out.dtype.itemsize + 2 * terms))


def _eligible(aval: Any) -> bool:
    """Whether the order of a value can matter: at least two dimensions are longer than 1."""
    shape = getattr(aval, "shape", ())
    number = isinstance(getattr(aval, "dtype", None), np.dtype)
    return number and 2 <= len(shape) <= _DIGITS and sum(n > 1 for n in shape) >= 2 and 0 not in shape


def _orders(eqn: JaxprEqn, rank: int) -> tuple[Order, ...]:
    """Return candidate orders of a result; for a transposition also the one where nothing moves."""
    known = permutations(rank)
    free = inverse(eqn.params["permutation"]) if eqn.primitive.name == "transpose" else known[0]
    return known if free in known else (*known, free)


@dataclass(eq=False)
class _Seen:
    """A value: which equation chose its order, traced through elementwise ones, and whether one reads it."""

    origin: int | None  # -1 - i for argument i; None for constants
    read: bool = False


def sites(program: ClosedJaxpr, max_sites: int = 20) -> tuple[Site, ...]:
    """Return the values of a program whose physical order is worth choosing.

    Calls (jit, remat, custom derivatives) are inlined; the bodies of scan, while and cond are not searched.
    Arguments are no sites: XLA folds most of their transpositions into the product that reads them, which
    gives the same program again.

    Parameters
    ----------
    program : ClosedJaxpr
        What ``jax.make_jaxpr(fn)(*args)`` returns.
    max_sites : int
        Maximum number to return: those with the most work.

    Returns
    -------
    tuple of Site
        In the order of the program: results of products, convolutions, reductions, windows, transpositions,
        reshapes, concatenations, gathers and scatters, and elementwise results in which values of different
        origin meet.
    """
    candidates: list[tuple[Site, _Seen]] = []

    def step(index: int, eqn: JaxprEqn, values: list[_Seen]) -> list[_Seen]:
        name, mine = eqn.primitive.name, None if eqn.primitive.name in passing.MADE else index
        origins = {value.origin for value in values} - {None}
        meets = name in passing.ELEMENTWISE and len(origins) > 1
        if name in passing.ELEMENTWISE and not meets:
            mine = next(iter(origins), None)
        for value in values:
            value.read = True
        results = [_Seen(mine) for _ in eqn.outvars]
        aval: Any = eqn.outvars[0].aval if len(results) == 1 else None
        if (name in _PRODUCTS or name in _MOVES or meets) and _eligible(aval):
            site = Site(index, name, aval.shape, _orders(eqn, aval.ndim), _work(eqn))
            candidates.append((site, results[0]))
        return results

    _walk(program, [_Seen(-1 - i) for i in range(len(program.in_avals))], lambda _: _Seen(None), step)
    # A result that nothing reads returns to row-major order at once; a product may still be made in another.
    found = [site for site, result in candidates if result.read or site.primitive in _PRODUCTS]
    largest = sorted(found, key=lambda site: -site.work)[:max_sites]
    return tuple(sorted(largest, key=lambda site: site.index))


def draw(sites: Sequence[Site], rng: np.random.Generator, changes: float = 3.0) -> dict[int, Order]:
    """Draw an assignment that leaves most sites unchanged.

    Parameters
    ----------
    sites : sequence of Site
        Sites to choose from.
    rng : numpy.random.Generator
        The only source of randomness.
    changes : float
        Mean number of sites to change; at least one.

    Returns
    -------
    dict of int to tuple of int
        Order by index of the site. Other sites keep the program's order.
    """
    if not sites:
        return {}
    count = min(len(sites), 1 + int(rng.poisson(max(changes - 1, 0))))
    chosen = sorted(rng.choice(len(sites), size=count, replace=False).tolist())
    return {sites[i].index: sites[i].orders[int(rng.integers(1, len(sites[i].orders)))] for i in chosen}


_SCOPES = re.compile(r"(?:^|/)(tg\d+)(?=/)")


def node_of(site: Site, op_names: Sequence[str], opcodes: Sequence[str]) -> int | None:
    """Find the instruction for a site in a graph of the program.

    Parameters
    ----------
    site : Site
        A site of the program.
    op_names : sequence of str
        ``metadata.op_name`` of every node of the graph: the program that `transposed` or `constrained` trace
        without any choice, before layout assignment.
    opcodes : sequence of str
        Opcode of every node, as XLA spells them. They distinguish the instruction from the bodies of
        reductions, and from instructions that XLA added under the same name.

    Returns
    -------
    int or None
        Index of the node; None if XLA has removed it.
    """
    wanted, scope = _OPCODES.get(site.primitive, "").split(), _scope(site.index)

    def names_it(op_name: str) -> bool:
        """Return whether an instruction of this name was traced for the site."""
        as_itself = op_name.endswith(f"/{site.primitive}")
        return _SCOPES.findall(op_name)[-1:] == [scope] and (as_itself or bool(wanted))

    named = [i for i, name in enumerate(op_names) if any(map(names_it, name.split(";")))]
    for opcode in wanted:
        if fitting := [i for i in named if opcodes[i] == opcode]:
            return fitting[-1]
    return named[-1] if named and not wanted else None


# --- the two spaces -------------------------------------------------------------------------------


def _checked(program: ClosedJaxpr, choices: Mapping[int, Sequence[int]]) -> dict[int, Order]:
    """Return choices as orders, checked to be of results that exist."""
    made: dict[int, Sequence[Any]] = {-1 - i: [aval] for i, aval in enumerate(program.in_avals)}
    made.update((i, [var.aval for var in eqn.outvars[:1]]) for i, eqn in enumerate(equations(program)))
    for index, choice in choices.items():
        if index not in made:
            raise ValueError(f"site: found {index}, expected the index of a site, {min(made)} to {max(made)}")
        rank = sum(len(getattr(aval, "shape", ())) for aval in made[index])
        if sorted(choice) != list(range(rank)):
            expected = f"a permutation of {counted(rank, 'dimension')}"
            raise ValueError(f"order of site {index}: found {tuple(choice)}, expected {expected}")
    return {index: tuple(choice) for index, choice in choices.items()}


def _interpreter(
    program: ClosedJaxpr,
    choices: Mapping[int, Sequence[int]],
    apply_eqn: Callable[[JaxprEqn, Sequence[Value], Order | None], list[Value]],
    choose: Callable[[Value, Order], Value],
) -> Callable[..., list[Any]]:
    """Return a function that applies each equation in its scope; `choose` puts a value into an order."""
    orders = _checked(program, choices)

    def step(index: int, eqn: JaxprEqn, values: list[Value]) -> list[Value]:
        with jax.named_scope(_scope(index)):
            results = apply_eqn(eqn, values, orders.get(index))
            if index in orders:
                results[0] = choose(results[0], orders[index])
        for value in results:
            value.scope = _scope(index)
        return results

    def run(*args: Any) -> list[Any]:
        arguments = [Value.plain(x) for x in args]
        for i, value in enumerate(arguments):
            if -1 - i in orders:
                arguments[i] = choose(value, orders[-1 - i])
        return [value.logical() for value in _walk(program, arguments, Value.plain, step)]

    return run


def transposed(program: ClosedJaxpr, choices: Mapping[int, Sequence[int]]) -> Callable[..., list[Any]]:
    """Apply choices as transpositions: space "transpose".

    A value keeps its order through all operations that can work in it: products and convolutions with renamed
    dimension numbers, elementwise operations, reductions, windows, slices, reshapes that keep neighbours
    together. Everything else reads row-major values, as do callers of the result.

    Parameters
    ----------
    program : ClosedJaxpr
        What ``jax.make_jaxpr(fn)(*args)`` returns.
    choices : mapping of int to tuple of int
        Order, major to minor, by index of the site. The first result of the equation, or the argument, gets
        it.

    Returns
    -------
    callable
        Takes the flat arguments of the program and returns the list of its flat results. It may be traced,
        compiled and exported. Without choices it is the program itself with calls inlined. Differentiate
        before, not after.

    Raises
    ------
    ValueError
        A choice is not for a value of the program, or not a permutation of its dimensions.
    """

    def choose(value: Value, order: Order) -> Value:
        return Value(value.at(order), order)

    return _interpreter(program, choices, passing.apply, choose)


def constrained(program: ClosedJaxpr, choices: Mapping[int, Sequence[int]]) -> Callable[..., list[Any]]:
    """Apply choices as layouts that XLA must give to the values: space "constraint".

    Parameters, result and errors: see `transposed`. Every value keeps its logical shape; XLA inserts copies
    where its own choice differs.
    """

    def choose(value: Value, order: Order) -> Value:
        pin: Any = with_layout_constraint
        return Value.plain(pin(value.logical(), Layout(major_to_minor=order)))

    return _interpreter(program, choices, passing.apply_row_major, choose)
