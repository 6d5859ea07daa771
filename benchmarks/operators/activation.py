"""Activations beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row, or one per kind."""
    nodes, width = setting.size(10_000, 60), 64
    names = {"leaky": "leaky_relu"}
    for act in ("relu", "leaky", "elu", "gelu", "silu", "sigmoid", "tanh"):

        def peer(x: Any, act: str = act) -> Any:
            return getattr(setting.torch.nn.functional, names.get(act, act))(x)

        arrays = {"x": setting.array(nodes, width)}
        yield from case(setting, "activation", arrays, peer, what=act, act=act)
    arrays = {"x": setting.array(nodes, width), "slope": setting.array(width)}
    prelu = lambda x, slope: setting.torch.nn.functional.prelu(x, slope)  # noqa: E731
    yield from case(
        setting, "activation", arrays, prelu, what="prelu", required=3.0, act="prelu", per_column=True
    )
