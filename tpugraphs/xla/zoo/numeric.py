"""Numerical programs: differences, prices, images resampled, iterations on matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.ndimage import map_coordinates

from tpugraphs.xla.zoo.registry import Built, Draw, family


@family(
    "difference-penalty",
    "differences",
    {"shape": (64, 64, 64)},
    {"shape": (16, 64, 400)},
    {"shape": (144, 128, 128)},
    {"shape": (13, 30, 50, 400)},
)
def difference_penalty(draw: Draw, shape: tuple[int, ...]) -> Built:
    """Squares of differences along every axis, summed, with the gradient (jax issue 37465)."""

    def penalty(x: Array) -> Array:
        costs = [jnp.sum(jnp.square(jnp.diff(x, axis=axis))) for axis in range(x.ndim)]
        return jnp.sum(jnp.stack(costs)) / x.size

    def forward(x: Array) -> tuple[Array, Array]:
        value, slope = jax.value_and_grad(penalty)(x)
        return value, x - 0.1 * x.size * slope

    return forward, (draw.normal(*shape),)


@family(
    "option-pricing",
    "pricing",
    {"spots": 256, "strikes": 256, "maturities": 1},
    {"spots": 1000, "strikes": 4, "maturities": 8},
    {"spots": 550, "strikes": 256, "maturities": 8},
    {"spots": 1300, "strikes": 256, "maturities": 20},
)
def option_pricing(draw: Draw, spots: int, strikes: int, maturities: int) -> Built:
    """Prices of European calls on a grid of spots, strikes and maturities, with their deltas."""

    def forward(spot: Array, strike: Array, years: Array, spread: Array, book: Array) -> tuple[Array, Array]:
        s, k, t = spot[:, None, None], strike[None, :, None], years[None, None, :]
        deviation = spread[None, :, None] * jnp.sqrt(t)
        d1 = (jnp.log(s / k) + 0.02 * t) / deviation + 0.5 * deviation
        delta = 0.5 * (1.0 + lax.erf(d1 / jnp.sqrt(2.0)))
        second = 0.5 * (1.0 + lax.erf((d1 - deviation) / jnp.sqrt(2.0)))
        price = s * delta - k * jnp.exp(-0.02 * t) * second
        return jnp.einsum("skt,kt->s", price, book), jnp.max(delta, axis=0)

    market = draw.uniform(spots, low=0.5, high=2.0), draw.uniform(strikes, low=0.5, high=2.0)
    rest = draw.uniform(maturities, low=0.2, high=3.0), draw.uniform(strikes, low=0.1, high=0.5)
    return forward, (*market, *rest, draw.weights(strikes, maturities, fan_in=strikes * maturities))


@family(
    "image-resampling",
    "resampling",
    {"height": 160, "width": 160, "to": 128, "channels": 3},
    {"height": 48, "width": 300, "to": 96, "channels": 8},
    {"height": 512, "width": 512, "to": 310, "channels": 3},
    {"height": 1080, "width": 1920, "to": 460, "channels": 3},
)
def image_resampling(draw: Draw, height: int, width: int, to: int, channels: int) -> Built:
    """Image scaled to a square, then turned and sheared with bilinear interpolation."""

    def forward(image: Array, turn: Array) -> Array:
        square = jax.image.resize(image, (to, to, channels), "bilinear", antialias=True)
        grid = jnp.linspace(-1.0, 1.0, to)
        y, x = grid[:, None], grid[None, :]
        rows = (turn[0, 0] * y + turn[0, 1] * x + 1.0) * (to - 1) / 2.0
        columns = (turn[1, 0] * y + turn[1, 1] * x + 1.0) * (to - 1) / 2.0

        def warp(channel: Array) -> Array:
            warped: Array = map_coordinates(channel, [rows, columns], order=1, mode="nearest")
            return warped

        return jax.vmap(warp, in_axes=-1, out_axes=-1)(square)

    return forward, (draw.uniform(height, width, channels), draw.normal(2, 2, scale=0.6))


@family(
    "newton-schulz",
    "iteration",
    {"batch": 8, "rows": 32, "columns": 64},
    {"batch": 1, "rows": 96, "columns": 128},
    {"batch": 14, "rows": 96, "columns": 128},
    {"batch": 17, "rows": 256, "columns": 384},
)
def newton_schulz(draw: Draw, batch: int, rows: int, columns: int) -> Built:
    """Orthogonal factor of matrices by five cubic iterations, and its deviation from orthogonality."""

    def forward(x: Array) -> tuple[Array, Array]:
        y = x / jnp.sqrt(jnp.sum(jnp.square(x), axis=(1, 2), keepdims=True))
        for _ in range(5):
            gram = y @ jnp.swapaxes(y, 1, 2)  # (batch, rows, rows)
            y = 1.5 * y - 0.5 * gram @ y
        return y, jnp.mean(jnp.square(y @ jnp.swapaxes(y, 1, 2) - jnp.eye(rows)), axis=(1, 2))

    return forward, (draw.normal(batch, rows, columns),)


@family(
    "power-iteration",
    "iteration",
    {"size": 256, "vectors": 4, "steps": 12},
    {"size": 64, "vectors": 32, "steps": 20},
    {"size": 1024, "vectors": 8, "steps": 4},
    {"size": 4096, "vectors": 4, "steps": 3},
)
def power_iteration(draw: Draw, size: int, vectors: int, steps: int) -> Built:
    """Vectors multiplied by a matrix with a gap in its spectrum and normalised, in a loop."""

    def forward(matrix: Array, start: Array) -> tuple[Array, Array]:
        def advance(v: Array, _: None) -> tuple[Array, Array]:
            w = matrix @ v + matrix.T @ v
            length = jnp.sqrt(jnp.sum(jnp.square(w), axis=0))
            return w / length, length

        last, lengths = lax.scan(advance, start, None, length=steps)
        return last, lengths

    return forward, (draw.weights(size, size) + 2.0 / size, draw.uniform(size, vectors))
