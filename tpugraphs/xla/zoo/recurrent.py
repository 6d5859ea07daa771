"""Loops over time: gated cells, a neuron, a stencil, and a linear recurrence without a loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from tpugraphs.xla.zoo.registry import Built, Draw, family

GATED = (
    {"steps": 32, "batch": 8, "inputs": 64, "width": 64},
    {"steps": 12, "batch": 64, "inputs": 32, "width": 96},
    {"steps": 64, "batch": 1, "inputs": 16, "width": 128},
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
    {"steps": 100, "cells": 1, "compartments": 32},
    {"steps": 16, "cells": 4, "compartments": 1024},
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
    {"steps": 40, "rows": 40, "columns": 50},
)
def heat_stencil(draw: Draw, steps: int, rows: int, columns: int) -> Built:
    """Diffusion with a reaction on a grid, in a loop with a fixed number of steps."""

    def forward(field: Array, conductivity: Array) -> Array:
        def advance(_: int, u: Array) -> Array:
            padded = jnp.pad(u, 1, mode="edge")
            around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
            return u + 0.2 * conductivity * (around - 4.0 * u) + 0.01 * u * (1.0 - jnp.square(u))

        return lax.fori_loop(0, steps, advance, field)

    return forward, (draw.normal(rows, columns), draw.uniform(rows, columns))


@family(
    "state-space",
    "state space",
    {"batch": 4, "steps": 64, "width": 64, "state": 4},
    {"batch": 1, "steps": 256, "width": 32, "state": 8},
    {"batch": 16, "steps": 16, "width": 96, "state": 2},
)
def state_space(draw: Draw, batch: int, steps: int, width: int, state: int) -> Built:
    """Gated linear recurrence, computed as an associative scan along time."""

    def forward(x: Array, decay: Array, step: Array, enter: Array, leave: Array) -> Array:
        def join(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
            return left[0] * right[0], right[0] * left[1] + right[1]

        size = jax.nn.softplus(x @ step)[..., None]  # (b, t, d, 1)
        rates = jnp.exp(-size * decay)  # (b, t, d, state)
        _, states = lax.associative_scan(join, (rates, size * (x @ enter)[..., None, :]), axis=1)
        return jnp.einsum("btds,ds->btd", states, leave) * lax.logistic(x)

    weights = draw.weights(width, width), draw.weights(width, state), draw.normal(width, state)
    return forward, (
        draw.normal(batch, steps, width),
        draw.uniform(width, state, low=0.5, high=2.0),
        *weights,
    )
