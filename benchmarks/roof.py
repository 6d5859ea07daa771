"""The least time a machine needs: operations that cannot be avoided, over measured operations per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

FEATURES, EMBEDDED, DIGITS = (
    134,
    24 + 16,
    18,
)  # scaled columns; six layouts and the opcode; digits of a config


@dataclass(frozen=True)
class Sizes:
    """N, E, K, C, and how many nodes the neighbours' product must be computed for."""

    nodes: int
    edges: int
    configurable: int
    configs: int
    linked: int

    @classmethod
    def of(cls, arrays: dict[str, Any], configs: int) -> Sizes:
        """Sizes of the arrays of a workload.

        The product with SAGEConv's weight of the neighbours and the mean over them commute, so it is needed
        either for the nodes that send or for those that receive, whichever are fewer.
        """
        edges = arrays["edge_index"]
        linked = min(len(np.unique(edges[:, side])) for side in (0, 1)) if len(edges) else 0
        return cls(len(arrays["node_feat"]), len(edges), len(arrays["config_nodes"]), configs, linked)


def layout_parts(
    sizes: Sizes, cross: bool, width: int = 256, blocks: int = 2
) -> dict[str, tuple[float, float]]:
    """Floating-point operations of the first place's layout model that no implementation can leave out.

    By step of the model, those of the forward and of the backward pass. Counted are products (a
    multiplication and an addition are two) and the additions of looked-up rows:

    - first layer, once per node: its 174 columns times O, where O is half of `width` with attention across
      configs; once per configurable node and config: 18 rows of the table of digit x weight;
    - second layer, per node and config: ``2 * width * O``;
    - a SAGE block: ``2 * width * O`` per node and config for the node itself, and the same for the
      neighbours, but only for linked nodes (see `Sizes.of`);
    - each of the ``2 + blocks`` gates, per node and config: two products O x O/8;
    - the head, per config: ``2 * width``.

    The backward pass has the gradients of both factors of each product, twice the forward pass; of the first
    layer's input only the 40 embedded columns need one. Elementwise work (norm, softmax, GELU, dropout),
    aggregation, the loss and the optimizer are left out: they are no products. So is computing
    anything a second time in the backward pass, which a program does to save memory.
    """
    out = width // 2 if cross else width
    rows = sizes.nodes * sizes.configs
    per_node = 2.0 * sizes.nodes * out
    digits = float(sizes.configurable * sizes.configs * DIGITS * out)
    first = per_node * (FEATURES + EMBEDDED) + digits
    gate = 2.0 * 2.0 * out * (out // 8) * rows
    parts = {"linear1": (first, first + per_node * EMBEDDED)}
    products = {"linear2": 2.0 * width * out * rows, "mix1": gate, "mix2": gate}
    for i in range(blocks):
        products[f"sage{i}"] = 2.0 * width * out * (rows + sizes.linked * sizes.configs)
        products[f"block{i}"] = gate
    products["head"] = 2.0 * width * sizes.configs
    return parts | {name: (flops, 2.0 * flops) for name, flops in products.items()}


def layout_flops(
    sizes: Sizes, cross: bool, width: int = 256, blocks: int = 2, training: bool = True
) -> float:
    """Sum of `layout_parts`: of a training step, or of its forward pass alone."""
    parts = layout_parts(sizes, cross, width, blocks).values()
    return sum(forward + backward if training else forward for forward, backward in parts)


def milliseconds(
    peaks: dict[str, dict[str, float]], flops: float, precision: str, threads: int
) -> float | None:
    """Time at the peak of that precision, None if it was not measured.

    Numbers rounded to bf16 may be multiplied as float32 too, so bf16 has the better of the two peaks.
    """
    ways = ("bf16", "f32") if precision == "bf16" else (precision,)
    rate = max(peaks.get(way, {}).get(str(threads), 0.0) for way in ways)
    return None if not rate else 1e3 * flops / rate
