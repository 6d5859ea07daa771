"""Loops over time: gated cells, neurons, a stencil, a linear recurrence in chunks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from tpugraphs.xla.zoo.registry import Built, Draw, family

GATED = (
    {"steps": 32, "batch": 8, "inputs": 64, "width": 64},
    {"steps": 12, "batch": 64, "inputs": 32, "width": 96},
    {"steps": 33, "batch": 32, "inputs": 128, "width": 128},
    {"steps": 41, "batch": 64, "inputs": 256, "width": 512},
)


@family("lstm", "gated recurrence", *GATED)
def lstm(draw: Draw, steps: int, batch: int, inputs: int, width: int) -> Built:
    """Long short-term memory; the inputs of all steps are projected at once."""

    def forward(x: Array, start: Array, w: Array, u: Array, b: Array) -> tuple[Array, Array]:
        def cell(state: tuple[Array, Array], projected: Array) -> tuple[tuple[Array, Array], Array]:
            h, c = state
            i, f, g, o = jnp.split(projected + h @ u, 4, axis=-1)
            c = lax.logistic(f + 1.0) * c + lax.logistic(i) * jnp.tanh(g)
            h = lax.logistic(o) * jnp.tanh(c)
            return (h, c), h

        (_, memory), outputs = lax.scan(cell, (start, start), x @ w + b)
        return memory, outputs

    weights = (
        draw.weights(inputs, 4 * width),
        draw.weights(width, 4 * width),
        draw.normal(4 * width, scale=0.1),
    )
    return forward, (draw.normal(steps, batch, inputs), draw.normal(batch, width, scale=0.1), *weights)


@family("gru", "gated recurrence", *GATED)
def gru(draw: Draw, steps: int, batch: int, inputs: int, width: int) -> Built:
    """Gated recurrent unit on (b, t, d), which projects its input in every step."""

    def forward(x: Array, start: Array, w: Array, u: Array, out: Array) -> Array:
        def cell(h: Array, now: Array) -> tuple[Array, Array]:
            wz, wr, wn = jnp.split(now @ w, 3, axis=-1)
            uz, ur, un = jnp.split(h @ u, 3, axis=-1)
            z = lax.logistic(wz + uz)
            h = z * h + (1.0 - z) * jnp.tanh(wn + lax.logistic(wr + ur) * un)
            return h, h

        _, states = lax.scan(cell, start, jnp.swapaxes(x, 0, 1))
        return jnp.swapaxes(states, 0, 1) @ out

    weights = draw.weights(inputs, 3 * width), draw.weights(width, 3 * width), draw.weights(width, inputs)
    return forward, (draw.normal(batch, steps, inputs), draw.normal(batch, width, scale=0.1), *weights)


@family(
    "neuron-simulation",
    "neuron",
    {"steps": 40, "cells": 16, "compartments": 64},
    {"steps": 100, "cells": 1, "compartments": 300},
    {"steps": 180, "cells": 16, "compartments": 256},
    {"steps": 190, "cells": 64, "compartments": 1024},
)
def neuron_simulation(draw: Draw, steps: int, cells: int, compartments: int) -> Built:
    """Branches with gated channels, simulated step by step: many small ops (as in jax issue 26145)."""

    def opening(v: Array, middle: float, slope: float) -> Array:
        return lax.logistic((v - middle) / slope)

    def forward(v: Array, current: Array, conductance: Array) -> tuple[Array, Array]:
        def advance(
            state: tuple[Array, Array, Array], now: Array
        ) -> tuple[tuple[Array, Array, Array], Array]:
            v, m, n = state
            m = m + (1.0 - jnp.exp(-0.5 / (0.2 + jnp.exp(-jnp.square(v + 0.4))))) * (
                opening(v, -0.4, 0.1) - m
            )
            n = n + (1.0 - jnp.exp(-0.1 / (0.5 + jnp.exp(-jnp.square(v + 0.6))))) * (
                opening(v, -0.5, 0.15) - n
            )
            sodium = conductance[0] * m**3 * (1.0 - n) * (v - 0.5)
            potassium = conductance[1] * n**4 * (v + 0.8)
            axial = jnp.roll(v, 1, axis=-1) + jnp.roll(v, -1, axis=-1) - 2.0 * v
            v = v + 0.05 * (axial + now[:, None] - sodium - potassium - 0.3 * (v + 0.6))
            return (v, m, n), jnp.mean(v, axis=-1)

        zero = jnp.zeros_like(v)
        (last, _, _), trace = lax.scan(advance, (v, zero, zero + 0.3), current)
        return last, trace

    v = draw.uniform(cells, compartments, low=-0.7, high=-0.5)
    return forward, (v, draw.uniform(steps, cells), draw.uniform(2, cells, compartments, low=0.5, high=1.5))


@family(
    "heat-stencil",
    "stencil",
    {"steps": 16, "rows": 128, "columns": 128},
    {"steps": 8, "rows": 16, "columns": 2048},
    {"steps": 49, "rows": 256, "columns": 256},
    {"steps": 14, "rows": 2048, "columns": 1024},
)
def heat_stencil(draw: Draw, steps: int, rows: int, columns: int) -> Built:
    """Diffusion with a reaction on a grid, in a loop with a fixed number of steps."""

    def forward(field: Array, conductivity: Array) -> Array:
        def advance(_: int, u: Array) -> Array:
            padded = jnp.pad(u, 1, mode="edge")
            around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
            return u + 0.2 * conductivity * (around - 4.0 * u) + 0.01 * u * (1.0 - jnp.square(u))

        last: Array = lax.fori_loop(0, steps, advance, field)
        return last

    return forward, (draw.normal(rows, columns), draw.uniform(rows, columns))


@family(
    "state-space",
    "state space",
    {"batch": 2, "chunks": 4, "steps": 32, "heads": 4, "width": 16, "state": 16},
    {"batch": 1, "chunks": 16, "steps": 32, "heads": 2, "width": 32, "state": 8},
    {"batch": 4, "chunks": 5, "steps": 64, "heads": 8, "width": 32, "state": 16},
    {"batch": 4, "chunks": 41, "steps": 64, "heads": 8, "width": 64, "state": 64},
)
def state_space(draw: Draw, batch: int, chunks: int, steps: int, heads: int, width: int, state: int) -> Built:
    """Linear recurrence with decays that depend on the input: products within a chunk, a loop over chunks."""

    def forward(x: Array, rate: Array, enter: Array, leave: Array) -> tuple[Array, Array]:
        earlier = lax.iota(jnp.int32, steps)[:, None] >= lax.iota(jnp.int32, steps)  # (t, s)

        def advance(carry: Array, chunk: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
            x, rate, enter, leave = chunk  # (b, t, h, d), (b, t, h), (b, t, n), (b, t, n)
            total = jnp.cumsum(-jax.nn.softplus(rate), axis=1)
            gap = total[:, :, None] - total[:, None]  # (b, t, s, h)
            decay = jnp.exp(jnp.where(earlier[:, :, None], gap, -1e9))
            scores = jnp.einsum("btn,bsn->bts", leave, enter)
            inside = jnp.einsum("bts,btsh,bshd->bthd", scores, decay, x)
            before = jnp.einsum("btn,bhdn->bthd", leave, carry) * jnp.exp(total)[..., None]
            fresh = jnp.einsum("bsn,bsh,bshd->bhdn", enter, decay[:, -1], x)
            carry = carry * jnp.exp(total[:, -1])[..., None, None] + fresh
            return carry, inside + before

        last, y = lax.scan(advance, jnp.zeros((batch, heads, width, state)), (x, rate, enter, leave))
        return last, y

    maps = [draw.normal(chunks, batch, steps, state, scale=state**-0.5) for _ in range(2)]
    lead = chunks, batch, steps, heads
    return forward, (draw.normal(*lead, width), draw.normal(*lead), *maps)
