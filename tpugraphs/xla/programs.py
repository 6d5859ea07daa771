"""A function of JAX as a program: traced once, written as StableHLO, and read back as a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import numpy as np

from tpugraphs.data import hlo
from tpugraphs.data.collections import load
from tpugraphs.data.published import LayoutGraph
from tpugraphs.errors import ConfigError
from tpugraphs.xla import modules
from tpugraphs.xla.child import Child

__all__ = ["Program", "graph", "kernels"]

# Calls that JAX does not promise to keep between versions; here both sides are of one version.
_CUSTOM_CALLS = ("LayoutConstraint", "Sharding")


class Program:
    """A function with its arguments, flat: arrays in, a tuple of arrays out.

    Parameters
    ----------
    fn : callable
        A function of JAX, ``jax.jit`` or not.
    args : tuple
        Its arguments, pytrees of arrays. Other leaves (numbers, None) are constants of the program.
    name : str, optional
        By default that of the function.

    Attributes
    ----------
    name : str
    arguments : list of array
    jaxpr : jax.extend.core.ClosedJaxpr
        Of the flat function.

    Raises
    ------
    ConfigError
        `fn` cannot be traced with these arguments.
    """

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], name: str | None = None) -> None:
        self.name = name or getattr(fn, "__name__", "program").strip("<>")
        leaves, tree = jax.tree.flatten(args)
        is_array = [hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves]
        given = [leaf for leaf, array in zip(leaves, is_array, strict=True) if array]
        if any(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended) for leaf in given):
            raise ConfigError(
                f"{self.name}: expected plain arrays, found random keys; pass jax.random.key_data(key)"
            )
        self.arguments = [np.asarray(leaf) for leaf in given]

        def flat(*arrays: Any) -> tuple[Any, ...]:
            some = iter(arrays)
            filled = [next(some) if array else leaf for leaf, array in zip(leaves, is_array, strict=True)]
            return tuple(jax.tree.leaves(fn(*jax.tree.unflatten(tree, filled))))

        self._flat = flat
        try:
            self.jaxpr = jax.make_jaxpr(flat)(*self.arguments)
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            raise ConfigError(f"{self.name}: cannot be traced: {type(error).__name__}: {text}") from error
        if not self.jaxpr.out_avals:
            raise ConfigError(f"{self.name}: expected a function that returns arrays, found none")

    def module(self, function: Callable[..., Any] | None = None) -> bytes:
        """Write the program, or another function of the same arguments, as :mod:`jax.export` does.

        Raises
        ------
        ConfigError
            It cannot be written, as with callbacks into Python.
        """
        checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in _CUSTOM_CALLS]
        try:
            exported = jax.export.export(jax.jit(function or self._flat), disabled_checks=checks)
            return bytes(exported(*self.arguments).serialize())
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            raise ConfigError(f"{self.name}: cannot be exported: {type(error).__name__}: {text}") from error


def graph(fn: Callable[..., Any], *args: Any, name: str | None = None, timeout: float = 120.0) -> LayoutGraph:
    """Make the graph of a function: its HLO before layout assignment, where XLA chooses layouts.

    The function is compiled for the default device in a child process and is not run.

    Parameters
    ----------
    fn : callable
        A function of JAX, ``jax.jit`` or not.
    *args : pytree of arrays
        Arguments; only shapes and types matter.
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
    with Child(program.arguments, timeout) as child:
        child.add("", program.module())
        before, _ = child.dump("")
        found: LayoutGraph = load(before).replace(name=program.name, path=None)
        return found


def kernels(
    fn: Callable[..., Any], *args: Any, name: str | None = None, timeout: float = 120.0
) -> list[LayoutGraph]:
    """Make the graphs of a function's kernels: the fused computations of the optimised program.

    They are what the kernels of TpuGraphs' tile collection are. Arguments and errors are those of
    :func:`graph`.

    Returns
    -------
    list of LayoutGraph
        Without configs, in the order of the program; called ``name.fusion``. Empty if XLA fused nothing.
    """
    program = Program(fn, args, name)
    with Child(program.arguments, timeout) as child:
        child.add("", program.module())
        _, after = child.dump("")
        module = after.read_bytes()
        return [
            hlo.read_bytes(kernel, name=f"{program.name}.{part}") for part, kernel in modules.fusions(module)
        ]
