"""Layout model of the first place in the Kaggle competition "Google - Fast or Slow?" (2023).

``first-layout`` is what it trained for the *random* collections, ``first-layout-cross`` with attention across
the configs of a slate for the *default* ones. The ``full`` presets are as published (460,577 and 215,013
parameters); the ``cpu`` presets were chosen by measurement on two cores.

With the published PyTorch names on the right, parameters correspond as follows; shapes are the same::

    embedding_opcode.weight        embedding_op.weight
    embedding_layout.weight        embedding_layout_cfg.weight
    linear1.weight, .bias          linear.linear.*
    mix1.gate1_*, gate2_*          linear.attn.linear1.*, linear.attn.linear2.*
    mix1.temperature               linear.cross_attn.temperature
    linear2.*, mix2.*              linear2.* in the same way
    sage<i>.weight_l, bias_l       convs.<i>.conv.lin_l.weight, .bias
    sage<i>.weight_r               convs.<i>.conv.lin_r.weight
    block<i>.gate1_* ...           convs.<i>.attn.linear1.* ...
    head.weight, .bias             classifier.*
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tpugraphs.recipes import Recipe, Sampling, option

SCALED_COLUMNS = 134  # node features before the layout columns: scaled; the layout columns are embedded
OPCODE_ROWS = 120
LAYOUT_ROWS = 8  # digits -2 (not configurable) .. 5


@dataclass(frozen=True)
class FirstLayout(Sampling):
    """Fields of both recipes.

    Model: `width` of every layer; `blocks` with message passing; `gate_reduction` of the gate; columns
    of the two embeddings; `dropout` in the blocks; `direction` of messages. Loss: hinge with `margin`.
    Training: `configs` per slate, `steps` or else `epochs` (one visit of every graph each), AdamW
    with `learning_rate`, `weight_decay`, gradient norm at most `clip`, linear `warmup` over that share of the
    steps, then cosine to 0. `evaluate_every` so many steps on `valid_configs` in all, evenly from the graphs.
    `slates`, `accumulate`, `close` and `graph_sampling`: see :class:`tpugraphs.recipes.Sampling`.
    `chunk`: configs scored together in prediction. `prune` and `dedup` (training only): see
    :mod:`tpugraphs.preprocess`; ``"none"``: off.
    """

    width: int = option(256, 16, 4096)
    blocks: int = option(2, 0, 16)
    gate_reduction: int = option(8, 1, 64)
    opcode_columns: int = option(16, 1, 256)
    layout_columns: int = option(4, 1, 64)
    dropout: float = option(0.2, 0.0, 0.95)
    direction: str = option("forward", choices=("forward", "reverse", "both"))
    margin: float = option(1.0, 0.0, 1e6)
    configs: int = option(64, 2, 4096)
    steps: int | None = option(None, 1, 10**9)
    epochs: int | None = option(1000, 1, 10**9)
    learning_rate: float = option(1e-3, 0.0, 10.0)
    weight_decay: float = option(1e-5, 0.0, 10.0)
    clip: float = option(1.0, 1e-6, 1e9)
    warmup: float = option(0.05, 0.0, 1.0)
    evaluate_every: int = option(200, 1, 10**9)
    valid_configs: int = option(4000, 2, 10**7)
    chunk: int = option(128, 1, 4096)
    prune: str = option("config-1hop")
    dedup: str = option("first", choices=("none", "first", "min", "mean"))


def preprocessing(fields: FirstLayout) -> list[dict[str, Any]]:
    """Prune, remove equal configs (training only), digits of the layout columns, scale the other columns."""
    return [
        {"step": "prune", "method": fields.prune},
        {"step": "dedup", "keep": fields.dedup},
        {"step": "layout-digits"},
        {"step": "standardize", "columns": SCALED_COLUMNS},
    ]


def steps(fields: FirstLayout, cross: bool) -> list[dict[str, Any]]:
    """List the steps of the model.

    Parameters
    ----------
    fields : FirstLayout
    cross : bool
        Attention across configs: every layer makes half of the width, its product with the softmax over the
        configs the other half.
    """
    out = fields.width // 2 if cross else fields.width
    mix = {"gate": max(1, out // fields.gate_reduction), "cross": cross, "act": "gelu"}
    linear = {"out": out, "stats": True, "init": "xavier"}
    model = [
        _step("embedding", "embedding_layout", ["node_feat"], "with_layout",
              source="layout", rows=LAYOUT_ROWS, cols=fields.layout_columns),
        _step("embedding", "embedding_opcode", ["with_layout"], "nodes",
              source="opcode", rows=OPCODE_ROWS, cols=fields.opcode_columns),
        _step("config_linear", "linear1", ["nodes"], "z1", column=SCALED_COLUMNS, **linear)
        | {"share": {"table": "embedding_layout.weight"}},
        _step("mix", "mix1", ["z1"], "x1", norm=True, **mix),
        _step("linear", "linear2", ["x1"], "z2", **linear),
        _step("mix", "mix2", ["z2"], "h0", norm=True, stats=fields.blocks > 0, **mix),
    ]  # fmt: skip
    for i in range(fields.blocks):
        last = i == fields.blocks - 1
        model += [
            _step("sage", f"sage{i}", [f"h{i}"], f"s{i}", out=out, direction=fields.direction, norm=True),
            _step(
                "mix",
                f"block{i}",
                [f"s{i}", f"h{i}"],
                f"h{i + 1}",
                dropout=fields.dropout,
                stats=not last,
                **mix,
            ),
        ]
    return [
        *model,
        _step("pool", "pool", [f"h{fields.blocks}"], "pooled", kind="mean"),
        _step("linear", "head", ["pooled"], "scores", out=1),
    ]


def _step(op: str, name: str, inputs: list[str], slot: str, /, **attrs: Any) -> dict[str, Any]:
    return {"op": op, "name": name, "in": inputs, "out": slot, "attrs": attrs}


_SOURCE = "first place of the Kaggle competition 'Google - Fast or Slow? Predict AI Model Runtime', 2023"

RECIPES = (
    Recipe(
        name="first-layout",
        summary="GraphSAGE over layout configs as the first place trained it for the random collections.",
        options=FirstLayout,
        presets={
            "cpu": {"steps": 2000, "configs": 64, "width": 128},
            "full": {"configs": 128, "chunk": 512, "evaluate_every": 2000, "valid_configs": 20000},
        },
        steps=partial(steps, cross=False),
        preprocessing=preprocessing,
        source=_SOURCE,
    ),
    Recipe(
        name="first-layout-cross",
        summary="The same with attention across the configs of a slate, as for the default collections.",
        options=FirstLayout,
        presets={
            "cpu": {"steps": 2000, "configs": 64, "width": 128, "learning_rate": 3e-3, "chunk": 64},
            "full": {"configs": 64, "evaluate_every": 2000, "valid_configs": 20000},
        },
        steps=partial(steps, cross=True),
        preprocessing=preprocessing,
        source=_SOURCE,
    ),
)
