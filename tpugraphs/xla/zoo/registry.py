"""The table of families and their splits, and the programs made of it."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.names import SPLITS

__all__ = ["GROUPS", "Arrays", "Built", "Draw", "Family", "Program", "families", "family", "programs"]

Arrays = tuple[NDArray[Any], ...]
Built = tuple[Callable[..., Any], Arrays]

# Group of related families -> split. Families that share their main part are in one group.
GROUPS = {
    **dict.fromkeys(
        (
            *("perceptron", "embedding", "pointwise", "normalisation", "products"),
            *("cnn", "depthwise", "deconvolution", "attention", "gated recurrence"),
            *("segments", "sorting", "fourier", "differences", "composed"),
        ),
        "train",
    ),
    **dict.fromkeys(
        (
            *("mixer", "latent", "volume", "linear attention", "stencil"),
            *("gather", "prefix", "neighbours", "tensor network"),
        ),
        "valid",
    ),
    **dict.fromkeys(
        (
            *("transformer", "unet", "neuron", "state space", "message passing"),
            *("pricing", "resampling", "iteration"),
        ),
        "test",
    ),
}


class Draw:
    """Arrays for a program, the same for the same seed.

    Parameters
    ----------
    seed : int
        Seed of the generator.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> NDArray[np.float32]:
        """Return float32 numbers of a normal distribution around 0 with this standard deviation."""
        return (scale * self._rng.standard_normal(shape)).astype(np.float32)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float32]:
        """Return float32 numbers between two bounds."""
        return self._rng.uniform(low, high, shape).astype(np.float32)

    def weights(self, *shape: int, fan_in: int | None = None) -> NDArray[np.float32]:
        """Return weights that keep the variance of their input; the last axis is the output by default."""
        fan = fan_in or int(np.prod(shape[:-1]))
        return self.normal(*shape, scale=float(1 / np.sqrt(fan)))

    def chain(self, widths: Sequence[int], *taps: int) -> list[NDArray[np.float32]]:
        """Return the weights (*taps, in, out) of layers from each width to the next."""
        return [self.weights(*taps, *pair) for pair in itertools.pairwise(widths)]

    def pick(self, *items: Any) -> Any:
        """Return one of some items."""
        return items[int(self._rng.integers(len(items)))]

    def order(self, count: int) -> NDArray[np.int64]:
        """Return the numbers from 0 to ``count - 1`` in some order."""
        return self._rng.permutation(count)

    def axis(self, shape: Sequence[int]) -> int:
        """Return an axis of a shape."""
        return int(self._rng.integers(len(shape)))

    def below(self, bound: int, *shape: int) -> NDArray[np.int32]:
        """Return int32 numbers from 0 to ``bound - 1``."""
        return self._rng.integers(0, bound, shape, dtype=np.int32)


@dataclass(frozen=True)
class Family:
    """One program at several sizes.

    Attributes
    ----------
    name : str
        As in ``"encoder-block"``.
    group : str
        Related families, which are in the same split: a key of `GROUPS`.
    sizes : tuple of Mapping
        Arguments of ``make``, one mapping per size.
    make : callable
        Takes a `Draw` and the arguments of a size; returns a function and its NumPy arguments.
    """

    name: str
    group: str
    sizes: tuple[Mapping[str, Any], ...] = field(hash=False)
    make: Callable[..., Built] = field(repr=False)

    @property
    def split(self) -> str:
        """``"train"``, ``"valid"`` or ``"test"``."""
        return GROUPS[self.group]


_FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Program:
    """A family at one size. It can be compared, hashed and sent to another process.

    Attributes
    ----------
    family : str
        Name of the family.
    size : int
        Place among the sizes of the family, from 0.
    split : str
        ``"train"``, ``"valid"`` or ``"test"``: that of the family.
    """

    family: str
    size: int
    split: str

    @property
    def name(self) -> str:
        """Family and size, as in ``"encoder-block.1"``."""
        return f"{self.family}.{self.size}"

    def build(self) -> Built:
        """Make the function and its arguments.

        Returns
        -------
        fn : callable
            Pure function of arrays, for ``jax.jit``; returns an array or a tuple of arrays.
        args : tuple of ndarray
            float32 and int32 arrays, the same bits in every call. All outputs are finite.
        """
        entry = _FAMILIES[self.family]
        return entry.make(Draw(zlib.crc32(self.name.encode())), **entry.sizes[self.size])


def family(
    name: str, group: str, *sizes: Mapping[str, Any]
) -> Callable[[Callable[..., Built]], Callable[..., Built]]:
    """Add the decorated function to the table as `Family.make`.

    Parameters
    ----------
    name, group : str
        Name of the family, and its group, a key of `GROUPS`.
    *sizes : Mapping
        Arguments of the function, one mapping per size.
    """

    def add(make: Callable[..., Built]) -> Callable[..., Built]:
        if name in _FAMILIES or group not in GROUPS:
            raise ConfigError(
                f"family {name!r} of group {group!r}: the name is taken, or the group is not in GROUPS"
            )
        _FAMILIES[name] = Family(name, group, sizes, make)
        return make

    return add


def families() -> dict[str, Family]:
    """Return all families by name."""
    return dict(_FAMILIES)


def programs(split: str | None = None, family: str | None = None) -> tuple[Program, ...]:
    """List the programs of the zoo.

    Parameters
    ----------
    split : str, optional
        Only those of ``"train"``, ``"valid"`` or ``"test"``.
    family : str, optional
        Only those of this family.

    Returns
    -------
    tuple of Program
        In the order of the table, small sizes and large ones of a family together.

    Raises
    ------
    ConfigError
        If there is no such split or family.
    """
    if split is not None and split not in SPLITS:
        raise ConfigError(f"split: expected one of {', '.join(SPLITS)}, found {split!r}")
    if family is not None and family not in _FAMILIES:
        raise ConfigError(f"family: expected one of {', '.join(_FAMILIES)}, found {family!r}")
    return tuple(
        Program(entry.name, size, entry.split)
        for entry in _FAMILIES.values()
        if split in (None, entry.split) and family in (None, entry.name)
        for size in range(len(entry.sizes))
    )
