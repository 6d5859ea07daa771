"""Layouts as a choice: from one traced JAX program, many that compute the same in other physical orders.

A *site* is a value of the program whose physical order may be chosen. Two ways to apply a choice:

- `transposed`: the value is stored transposed, and all its readers are rewritten. XLA sees another program of
row-major values.
- `constrained`: XLA must give the value this layout, and chooses the others around it.

An *order* lists dimensions from major to minor, as ``jax.experimental.layout.Layout.major_to_minor`` does.
Published layout digits run from minor to major: `digits` and `order_of` convert.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations as all_orders
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    gensym,
    new_jaxpr_eqn,
    no_effects,
    primitives,
)

from tpugraphs import _core
from tpugraphs.system.words import counted
from tpugraphs.xla.passing import (
    CUMULATIVE,
    ELEMENTWISE,
    MADE,
    REDUCED_WINDOWS,
    REDUCTIONS,
    Order,
    Value,
    apply,
    apply_row_major,
    inverse,
    row_major,
)

_DIGITS: int = _core.SCHEMA["layout_digits"]
_PRODUCTS = ("dot_general", "conv_general_dilated")
_MOVES = (
    CUMULATIVE
    | REDUCED_WINDOWS
    | REDUCTIONS
    | set("concatenate gather reshape scatter scatter-add select_and_scatter_add stack transpose".split())
)
_OPCODES = {  # possible opcodes of the instruction for a primitive, likeliest first
    "add": "add", "add_any": "add", "concatenate": "concatenate", "conv_general_dilated": "convolution",
    "div": "divide", "dot_general": "dot", "gather": "gather", "max": "maximum", "min": "minimum",
    "mul": "multiply", "parameter": "parameter", "reshape": "reshape", "scatter": "scatter",
    "scatter-add": "scatter", "select_and_scatter_add": "select-and-scatter scatter", "select_n": "select",
    "stack": "concatenate", "sub": "subtract", "transpose": "transpose dot convolution",
    **dict.fromkeys(REDUCTIONS, "reduce"), **dict.fromkeys(CUMULATIVE | REDUCED_WINDOWS, "reduce-window"),
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A value of a program whose physical order may be chosen.

    Parameters
    ----------
    index : int
        Position of the equation that makes it in the flat program; -1 - i for argument i.
    primitive : str
        Name of the equation's primitive, or "parameter".
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

    @property
    def scope(self) -> str:
        """Mark of the site in XLA's instruction names: a named scope, or the name of the argument."""
        return _scope(self.index) if self.index >= 0 else f"args[{-1 - self.index}]"


@dataclass(frozen=True)
class _Flat:
    """A program without calls; its values are JAX variables or constants."""

    constants: dict[Any, Any]  # by variable
    inputs: Sequence[Any]
    eqns: Sequence[JaxprEqn]
    outputs: Sequence[Any]


def _avals(atoms: Sequence[Any]) -> list[Any]:
    """Return the abstract values of variables and constants."""
    return [atom.aval for atom in atoms]


def _scope(index: int) -> str:
    return f"tg{index}"


def _callee(eqn: JaxprEqn) -> ClosedJaxpr | Jaxpr | None:
    """Return the program of an equation that only calls it once with its operands."""
    key = {
        primitives.jit_p: "jaxpr",
        primitives.remat_p: "jaxpr",
        primitives.custom_jvp_call_p: "call_jaxpr",
        primitives.custom_vjp_call_p: "call_jaxpr",
        primitives.closed_call_p: "call_jaxpr",
    }.get(eqn.primitive)
    called: ClosedJaxpr | Jaxpr | None = eqn.params[key] if key else None
    return called


def _flat(program: ClosedJaxpr) -> _Flat:
    """Inline the calls of a program. Each call gets new variables, as a function may be called twice."""
    constants: dict[Any, Any] = {}
    eqns: list[JaxprEqn] = []
    new: Callable[[Any], Any] = gensym()

    def inline(called: ClosedJaxpr | Jaxpr, operands: Sequence[Any]) -> list[Any]:
        """Add the equations of a program that is applied to these operands; return its results."""
        jaxpr = called.jaxpr if isinstance(called, ClosedJaxpr) else called
        env: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
        env.update((var, new(var.aval)) for var in jaxpr.constvars)
        constants.update(zip(map(env.get, jaxpr.constvars), getattr(called, "consts", ()), strict=True))

        def read(atoms: Sequence[Any]) -> list[Any]:
            return [atom if isinstance(atom, Literal) else env[atom] for atom in atoms]

        for eqn in jaxpr.eqns:
            callee, inputs = _callee(eqn), read(eqn.invars)
            outputs = add(eqn, inputs) if callee is None else inline(callee, held(eqn, inputs))
            env.update(zip(eqn.outvars, outputs, strict=True))
        return read(jaxpr.outvars)

    def add(eqn: JaxprEqn, inputs: list[Any]) -> list[Any]:
        outputs = [new(aval) for aval in _avals(eqn.outvars)]
        eqns.append(eqn.replace(invars=inputs, outvars=outputs))
        return outputs

    def held(eqn: JaxprEqn, inputs: list[Any]) -> list[Any]:
        """Keep values that are computed twice to save memory from being merged, as JAX does."""
        wanted = eqn.params.get("prevent_cse", False) if eqn.params.get("differentiated") else False
        kept = wanted if isinstance(wanted, tuple) else (wanted,) * len(inputs)
        atoms = [atom for atom, keep in zip(eqn.invars, kept, strict=True) if keep]
        if not atoms:
            return inputs
        barrier = new_jaxpr_eqn(atoms, atoms, lax.optimization_barrier_p, {}, no_effects)
        made = iter(add(barrier, [value for value, keep in zip(inputs, kept, strict=True) if keep]))
        return [next(made) if keep else value for value, keep in zip(inputs, kept, strict=True)]

    inputs = [new(aval) for aval in program.in_avals]
    return _Flat(constants, inputs, eqns, inline(program, inputs))


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
        return tuple(all_orders(plain))
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
        raise ValueError(
            f"layout digits: found {tuple(layout)}, expected a permutation, minor to major, then -1"
        )
    return order or None


def _work(eqn: JaxprEqn) -> int:
    """Return the floating-point operations of a product or convolution, plus the bytes of the result."""
    out, *operands = _avals([*eqn.outvars[:1], *eqn.invars])
    count = prod(out.shape)
    work = count * out.dtype.itemsize
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        work += 2 * count * prod(operands[0].shape[d] for d in contracted)
    if eqn.primitive.name == "conv_general_dilated":
        kernel, spec = operands[1].shape, eqn.params["dimension_numbers"].rhs_spec
        work += 2 * count * prod(kernel[d] for d in spec[1:])
    return int(work)


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


def _candidates(flat: _Flat) -> list[Site]:
    """Return all sites of a program, in its order."""
    found: list[Site] = []
    used = {var for eqn in flat.eqns for var in _variables(eqn.invars)}
    # Origin of a value's order: the equation that made it, traced through elementwise ones; or None.
    origin: dict[Any, int | None] = {var: -1 - i for i, var in enumerate(flat.inputs)}
    origin.update(dict.fromkeys(flat.constants))
    read: dict[Any, int] = {}  # largest work of a product that reads a value
    for index, eqn in enumerate(flat.eqns):
        name, operands = eqn.primitive.name, _variables(eqn.invars)
        origins = {origin[var] for var in operands} - {None}
        meets = name in ELEMENTWISE and len(origins) > 1
        if name in MADE:
            mine: int | None = None
        elif name in ELEMENTWISE and not meets:
            mine = next(iter(origins), None)
        else:
            mine = index
        origin.update((var, mine) for var in eqn.outvars)
        if name in _PRODUCTS:
            for var in operands:
                read[var] = max(read.get(var, 0), _work(eqn))
        aval: Any = _avals(eqn.outvars)[0] if len(eqn.outvars) == 1 else None
        # A result that nothing reads returns to row-major order at once; a product may still be made in
        # another.
        moves = used.issuperset(eqn.outvars) and (name in _MOVES or meets)
        if (name in _PRODUCTS or moves) and _eligible(aval):
            found.append(Site(index, name, aval.shape, _orders(eqn, aval.ndim), _work(eqn)))
    arguments = []
    for i, (var, aval) in enumerate(zip(flat.inputs, _avals(flat.inputs), strict=True)):
        if var in read and _eligible(aval):
            arguments.append(Site(-1 - i, "parameter", aval.shape, permutations(aval.ndim), read[var]))
    return arguments[::-1] + found


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def sites(program: ClosedJaxpr, max_sites: int = 20, arguments: bool = False) -> tuple[Site, ...]:
    """Return the values of a program whose physical order is worth choosing.

    Calls (jit, remat, custom derivatives) are inlined; the bodies of scan, while and cond are not searched.

    Parameters
    ----------
    program : ClosedJaxpr
        What ``jax.make_jaxpr(fn)(*args)`` returns.
    max_sites : int
        Maximum number to return: those with the most work.
    arguments : bool
        Whether arguments that products read are sites, too. XLA folds most of their transpositions into the
        product, which gives the same program again.

    Returns
    -------
    tuple of Site
        In the order of the program: results of products, convolutions, reductions, windows, transpositions,
        reshapes, concatenations, gathers and scatters, and elementwise results in which values of different
        origin meet.
    """
    found = [site for site in _candidates(_flat(program)) if arguments or site.index >= 0]
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


_SCOPE = re.compile(r"tg\d+")


def node_of(site: Site, op_names: Sequence[str], opcodes: Sequence[str] | None = None) -> int | None:
    """Find the instruction for a site in a graph of the program.

    Parameters
    ----------
    site : Site
        A site of the program.
    op_names : sequence of str
        ``metadata.op_name`` of every node of the graph: the program that `transposed` or `constrained` trace
        without any choice, before layout assignment.
    opcodes : sequence of str, optional
        Opcode of every node, as XLA spells them. They distinguish the instruction from the bodies of
        reductions, and from instructions that XLA added under the same name.

    Returns
    -------
    int or None
        Index of the node; None if XLA has removed it.
    """
    wanted = _OPCODES.get(site.primitive, "").split() if opcodes is not None else []
    named = [
        i
        for i, name in enumerate(op_names)
        if any(_names(site, part, not wanted) for part in name.split(";"))
    ]
    for opcode in wanted:
        fitting = [i for i in named if opcodes is not None and opcodes[i] == opcode]
        if fitting:
            return fitting[-1]
    return named[-1] if named and not wanted else None


def _names(site: Site, op_name: str, exactly: bool) -> bool:
    """Whether an instruction of this name was traced for a site; `exactly`: as the primitive itself."""
    if site.index < 0:
        return op_name == site.scope
    *path, last = op_name.split("/")
    scopes = [part for part in path if _SCOPE.fullmatch(part)]
    return scopes[-1:] == [site.scope] and (last == site.primitive or not exactly)


# --- the two spaces -------------------------------------------------------------------------------


def _checked(flat: _Flat, choices: Mapping[int, Sequence[int]]) -> dict[int, Order]:
    """Return choices as orders, checked to be of results that exist."""
    checked = {}
    for index, choice in choices.items():
        if not -len(flat.inputs) <= index < len(flat.eqns):
            bounds = f"{-len(flat.inputs)} to {len(flat.eqns) - 1}"
            raise ValueError(f"site: found {index}, expected the index of a site, {bounds}")
        made = _avals(flat.eqns[index].outvars[:1] if index >= 0 else [flat.inputs[-1 - index]])
        order, rank = tuple(choice), len(getattr(made[0], "shape", ()) if made else ())
        if sorted(order) != list(range(rank)):
            expected = f"a permutation of {counted(rank, 'dimension')}"
            raise ValueError(f"order of site {index}: found {order}, expected {expected}")
        checked[index] = order
    return checked


def _interpreter(
    program: ClosedJaxpr,
    choices: Mapping[int, Sequence[int]],
    apply_eqn: Callable[[JaxprEqn, Sequence[Value], Order | None], list[Value]],
    choose: Callable[[Value, Order], Value],
) -> Callable[..., list[Any]]:
    """Return a function that applies each equation in its scope; `choose` puts a value into an order."""
    flat = _flat(program)
    orders = _checked(flat, choices)

    def run(*args: Any) -> list[Any]:
        if len(args) != len(flat.inputs):
            raise TypeError(f"arguments: found {len(args)}, expected {len(flat.inputs)}, flat")
        env = {
            var: Value.plain(x) for var, x in [*zip(flat.inputs, args, strict=True), *flat.constants.items()]
        }
        for i, var in enumerate(flat.inputs):
            if -1 - i in orders:
                env[var] = choose(env[var], orders[-1 - i])

        def read(atoms: Sequence[Any]) -> list[Value]:
            return [Value.plain(atom.val) if isinstance(atom, Literal) else env[atom] for atom in atoms]

        for index, eqn in enumerate(flat.eqns):
            with jax.named_scope(_scope(index)):
                results = apply_eqn(eqn, read(eqn.invars), orders.get(index))
                if index in orders:
                    results[0] = choose(results[0], orders[index])
            for var, value in zip(eqn.outvars, results, strict=True):
                value.scope = _scope(index)
                env[var] = value
        return [value.logical() for value in read(flat.outputs)]

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

    return _interpreter(program, choices, apply, choose)


def constrained(program: ClosedJaxpr, choices: Mapping[int, Sequence[int]]) -> Callable[..., list[Any]]:
    """Apply choices as layouts that XLA must give to the values: space "constraint".

    Parameters, result and errors: see `transposed`. Every value keeps its logical shape; XLA inserts copies
    where its own choice differs.
    """

    def choose(value: Value, order: Order) -> Value:
        pin: Any = with_layout_constraint
        return Value.plain(pin(value.logical(), Layout(major_to_minor=order)))

    return _interpreter(program, choices, apply_row_major, choose)
