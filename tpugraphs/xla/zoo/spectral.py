"""Programs around the fast Fourier transform."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from tpugraphs.xla.zoo.layers import layer_norm, swish
from tpugraphs.xla.zoo.registry import Built, Draw, family


@family(
    "fourier-mixing",
    "fourier",
    {"batch": 6, "tokens": 64, "width": 64},
    {"batch": 3, "tokens": 256, "width": 32},
    {"batch": 8, "tokens": 256, "width": 128},
    {"batch": 5, "tokens": 512, "width": 512},
)
def fourier_mixing(draw: Draw, batch: int, tokens: int, width: int) -> Built:
    """Tokens mixed by a transform of two axes in place of attention, then a perceptron."""

    def forward(x: Array, scale: Array, up: Array, down: Array) -> Array:
        mixed = jnp.real(jnp.fft.fft2(x, axes=(1, 2))) / jnp.sqrt(tokens * width)
        x = layer_norm(x + mixed, scale)
        return x + swish(x @ up) @ down

    weights = draw.weights(width, 2 * width), draw.weights(2 * width, width)
    return forward, (draw.normal(batch, tokens, width), draw.uniform(width, low=0.5, high=1.5), *weights)


@family(
    "spectral-convolution",
    "fourier",
    {"batch": 2, "length": 512, "width": 32, "modes": 16},
    {"batch": 16, "length": 64, "width": 32, "modes": 20},
    {"batch": 8, "length": 2048, "width": 32, "modes": 32},
    {"batch": 11, "length": 8192, "width": 64, "modes": 64},
)
def spectral_convolution(draw: Draw, batch: int, length: int, width: int, modes: int) -> Built:
    """Neural operator: the low frequencies are mixed over channels, the rest is dropped."""

    def forward(x: Array, real: Array, imaginary: Array, bypass: Array) -> Array:
        low = jnp.fft.rfft(x, axis=1)[:, :modes]
        mixed = jnp.einsum("bmi,mio->bmo", low, lax.complex(real, imaginary))
        padded = jnp.pad(mixed, ((0, 0), (0, length // 2 + 1 - modes), (0, 0)))
        return swish(jnp.fft.irfft(padded, n=length, axis=1) + x @ bypass)

    kernels = [draw.weights(modes, width, width, fan_in=width) for _ in range(2)]
    return forward, (draw.normal(batch, length, width), *kernels, draw.weights(width, width))
