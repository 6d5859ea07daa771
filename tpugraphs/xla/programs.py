"""A function of JAX as a program: traced once, written as StableHLO, and read back as a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.export
import numpy as np

from tpugraphs.data import LayoutGraph, hlo
from tpugraphs.errors import ConfigError
from tpugraphs.xla.process import Child

# JAX may change these calls between versions; here both sides use one version.
_CUSTOM_CALLS = ("LayoutConstraint", "Sharding")
_ARRAYS = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)


class Program:
    """A function with its arguments, flattened: arrays in, a tuple of arrays out.

    Parameters
    ----------
    fn : callable
        A function of JAX, ``jax.jit`` or not.
    args : tuple
        Its arguments, pytrees of arrays or of ``jax.ShapeDtypeStruct``. Other leaves (numbers, None) are
        constants of the program.
    name : str, optional
        Name; by default that of the function.

    Attributes
    ----------
    name : str
    jaxpr : jax.extend.core.ClosedJaxpr
        Jaxpr of the flat function.

    Raises
    ------
    ConfigError
        `fn` cannot be traced with these arguments.
    """

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], name: str | None = None) -> None:
        self.name = name or getattr(fn, "__name__", "program").strip("<>")
        leaves, tree = jax.tree.flatten(args)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _ARRAYS)]
        self._given = [leaves[i] for i in places]
        if any(_is_key(leaf) for leaf in self._given):
            todo = "pass jax.random.key_data(key), and call jax.random.wrap_key_data in the function"
            raise ConfigError(f"{self.name}: expected plain arrays, found random keys; {todo}")
        self._avals = [
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))
            for leaf in self._given
        ]

        def flat(*arrays: Any) -> tuple[Any, ...]:
            filled = dict(enumerate(leaves)) | dict(zip(places, arrays, strict=True))
            return tuple(jax.tree.leaves(fn(*jax.tree.unflatten(tree, filled.values()))))

        self._flat = flat
        try:
            self.jaxpr = jax.make_jaxpr(flat)(*self._avals)
        except Exception as error:
            raise self._refused("cannot be traced", error) from error
        if not self.jaxpr.out_avals:
            raise ConfigError(f"{self.name}: expected a function that returns arrays, found none")
        if any(_is_key(aval) for aval in self.jaxpr.out_avals):
            raise ConfigError(f"{self.name}: expected plain arrays as outputs, found random keys")

    @cached_property
    def tolerance(self) -> float:
        """Relative error that a program of its types may have: four steps of the coarsest, at least 1e-3."""
        eqns = self.jaxpr.jaxpr.eqns
        avals = [*self.jaxpr.in_avals, *(one.aval for eqn in eqns for one in eqn.outvars)]
        types = {aval.dtype for aval in avals if hasattr(aval, "dtype")}
        steps = [float(jax.numpy.finfo(t).eps) for t in types if jax.numpy.issubdtype(t, np.inexact)]
        return min(max([1e-3, *(4 * step for step in steps)]), 0.1)

    def _refused(self, what: str, error: Exception, remedy: str = "") -> ConfigError:
        """Make a one-line error from an exception of JAX."""
        text = " ".join(str(error).split())[:300]
        return ConfigError(f"{self.name}: {what}: {type(error).__name__}: {text}{remedy}")

    @cached_property
    def arguments(self) -> list[Any]:
        """Values of the arguments; ConfigError if there are none or they were deleted."""
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in self._given):
            raise ConfigError(f"{self.name}: expected arrays to run with, found a jax.ShapeDtypeStruct")
        try:
            return [np.asarray(leaf) for leaf in self._given]
        except Exception as error:  # from JAX: an array that was donated, or is on another machine
            raise self._refused("the values of its arguments cannot be read", error) from error

    def module(self, function: Callable[..., Any] | None = None) -> bytes:
        """Write the program, or another function of the same arguments, as :mod:`jax.export` does.

        Raises
        ------
        ConfigError
            It cannot be written, for example because of callbacks into Python.
        """
        checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in _CUSTOM_CALLS]
        try:
            exported = jax.export.export(jax.jit(function or self._flat), disabled_checks=checks)
            return bytes(exported(*self._avals).serialize())
        except Exception as error:
            todo = "; take out callbacks into Python (jax.pure_callback, jax.debug.print)"
            todo = todo if "callback" in str(error) else ""
            raise self._refused("cannot be exported", error, todo) from error


def _is_key(value: Any) -> bool:
    """Return whether an array, or its description, holds random keys."""
    return bool(jax.numpy.issubdtype(value.dtype, jax.dtypes.extended))


def graph(
    fn: Callable[..., object], *args: object, name: str | None = None, timeout: float = 120.0
) -> LayoutGraph:
    """Make the graph of a function: its HLO before layout assignment, where XLA chooses layouts.

    The function is compiled for the default device in a child process and is not run.

    Parameters
    ----------
    fn : callable
        A function of JAX, ``jax.jit`` or not.
    *args : pytree of arrays
        Arguments; only shapes and types matter, so ``jax.ShapeDtypeStruct`` does as well.
    name : str, optional
        Name of the graph, by default that of the function.
    timeout : float
        Seconds the compiler may take.

    Returns
    -------
    LayoutGraph
        With the node features of TpuGraphs and without configs.

    Raises
    ------
    ConfigError
        The function cannot be traced or exported.
    Error
        XLA cannot compile it.
    """
    program = Program(fn, args, name)
    with Child([], timeout) as child:
        found: LayoutGraph = hlo.read_bytes(child.dump(program.name, program.module)[0], program.name)
        return found


def kernels(
    fn: Callable[..., object], *args: object, name: str | None = None, timeout: float = 120.0
) -> list[LayoutGraph]:
    """Make the graphs of a function's kernels: the fused computations of the optimised program.

    They correspond to the kernels of TpuGraphs' tile collection. Arguments and errors are those of
    :func:`graph`.

    Parameters
    ----------
    fn : callable
        A function of JAX.
    *args
        Its arguments.
    name : str, optional
        Name of the program; by default that of the function.
    timeout : float
        Seconds until the compiler is stopped.

    Returns
    -------
    list of LayoutGraph
        Without configs, in the order of the program; called ``name.fusion``. Empty if XLA fused nothing.
    """
    program = Program(fn, args, name)
    with Child([], timeout) as child:
        return hlo.fusions(child.dump(program.name, program.module)[1], program.name)
