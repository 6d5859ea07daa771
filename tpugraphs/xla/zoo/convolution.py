"""Convolutions: plain, residual, depthwise, transposed, U-shaped, in three dimensions."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
from jax import Array, lax

from tpugraphs.xla.zoo.layers import NHWC, conv, relu, swish
from tpugraphs.xla.zoo.registry import Arrays, Built, Draw, family

NCHW = ("NCHW", "OIHW", "NCHW")
NDHWC = ("NDHWC", "DHWIO", "NDHWC")


@family(
    "cnn-nhwc",
    "cnn",
    {"batch": 8, "side": 32, "widths": (3, 16, 32, 64)},
    {"batch": 1, "side": 128, "widths": (3, 8, 16, 16)},
    {"batch": 38, "side": 64, "widths": (3, 32, 64, 128)},
    {"batch": 46, "side": 160, "widths": (3, 32, 64, 128, 256)},
)
def cnn_nhwc(draw: Draw, batch: int, side: int, widths: tuple[int, ...]) -> Built:
    """Convolutions with stride 2, global mean, classes; channels last."""

    def forward(x: Array, *weights: Array) -> Array:
        for kernel in weights[:-1]:
            x = relu(conv(x, kernel, stride=2))
        return jnp.mean(x, axis=(1, 2)) @ weights[-1]

    kernels = draw.chain(widths, 3, 3)
    return forward, (draw.normal(batch, side, side, widths[0]), *kernels, draw.weights(widths[-1], 10))


@family(
    "cnn-nchw",
    "cnn",
    {"batch": 4, "side": 32, "widths": (3, 16, 32, 32)},
    {"batch": 16, "side": 10, "widths": (64, 64, 96)},
    {"batch": 16, "side": 32, "widths": (3, 32, 64, 64)},
    {"batch": 11, "side": 96, "widths": (3, 32, 64, 128)},
)
def cnn_nchw(draw: Draw, batch: int, side: int, widths: tuple[int, ...]) -> Built:
    """Convolutions with biases and pooling by maximum; channels first."""

    def forward(x: Array, *weights: Array) -> Array:
        for kernel, bias in zip(weights[0::2], weights[1::2], strict=True):
            x = relu(conv(x, kernel, layout=NCHW) + bias[:, None, None])
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jnp.mean(x, axis=(2, 3))

    weights = [
        array
        for i, o in itertools.pairwise(widths)
        for array in (draw.weights(o, i, 3, 3, fan_in=9 * i), draw.normal(o, scale=0.1))
    ]
    return forward, (draw.normal(batch, widths[0], side, side), *weights)


@family(
    "resnet-block",
    "cnn",
    {"batch": 4, "side": 28, "width": 32, "inner": 16},
    {"batch": 8, "side": 7, "width": 128, "inner": 48},
    {"batch": 5, "side": 56, "width": 64, "inner": 16},
    {"batch": 7, "side": 28, "width": 512, "inner": 128},
)
def resnet_block(draw: Draw, batch: int, side: int, width: int, inner: int) -> Built:
    """Two bottleneck blocks with folded batch norms."""

    def block(x: Array, k1: Array, k2: Array, k3: Array, scale: Array, shift: Array) -> Array:
        y = relu(conv(x, k1) * scale + shift)
        y = relu(conv(y, k2) * scale + shift)
        return relu(x + conv(y, k3))

    def forward(x: Array, *weights: Array) -> Array:
        return block(block(x, *weights[:5]), *weights[5:])

    def of_block() -> Arrays:
        kernels = (
            draw.weights(1, 1, width, inner),
            draw.weights(3, 3, inner, inner),
            draw.weights(1, 1, inner, width),
        )
        return *kernels, draw.uniform(inner, low=0.5, high=1.5), draw.normal(inner, scale=0.1)

    return forward, (draw.normal(batch, side, side, width), *of_block(), *of_block())


@family(
    "mobilenet-block",
    "depthwise",
    {"batch": 2, "side": 28, "width": 16, "expand": 4, "stride": 1},
    {"batch": 4, "side": 14, "width": 32, "expand": 4, "stride": 1},
    {"batch": 1, "side": 28, "width": 32, "expand": 6, "stride": 1},
    {"batch": 2, "side": 112, "width": 28, "expand": 6, "stride": 2},
)
def mobilenet_block(draw: Draw, batch: int, side: int, width: int, expand: int, stride: int) -> Built:
    """Expand, depthwise convolution, squeeze and excite, project."""
    inner = width * expand

    def forward(x: Array, up: Array, depthwise: Array, s1: Array, s2: Array, down: Array) -> Array:
        y = jnp.clip(conv(x, up), 0.0, 6.0)
        y = jnp.clip(conv(y, depthwise, stride, groups=inner), 0.0, 6.0)
        gate = jax.nn.sigmoid(relu(jnp.mean(y, axis=(1, 2)) @ s1) @ s2)
        y = conv(y * gate[:, None, None, :], down)
        return x + y if stride == 1 else y

    kernels = draw.weights(1, 1, width, inner), draw.weights(3, 3, 1, inner)
    excite = draw.weights(inner, width), draw.weights(width, inner)
    return forward, (
        draw.normal(batch, side, side, width),
        *kernels,
        *excite,
        draw.weights(1, 1, inner, width),
    )


@family(
    "depthwise-convolution",
    "depthwise",
    {"batch": 2, "side": 32, "width": 32, "taps": 3},
    {"batch": 1, "side": 14, "width": 128, "taps": 5},
    {"batch": 1, "side": 28, "width": 96, "taps": 3},
    {"batch": 1, "side": 112, "width": 40, "taps": 5},
)
def depthwise_convolution(draw: Draw, batch: int, side: int, width: int, taps: int) -> Built:
    """Two depthwise convolutions, no mixing of channels."""

    def forward(x: Array, k1: Array, k2: Array) -> Array:
        y = swish(conv(x, k1, groups=width))
        return x + conv(y, k2, groups=width)

    return forward, (
        draw.normal(batch, side, side, width),
        *(draw.weights(taps, taps, 1, width) for _ in range(2)),
    )


@family(
    "transposed-convolution",
    "deconvolution",
    {"batch": 2, "side": 16, "widths": (64, 32, 16), "taps": 4},
    {"batch": 1, "side": 32, "widths": (16, 8, 4), "taps": 3},
    {"batch": 4, "side": 16, "widths": (128, 64, 32), "taps": 4},
    {"batch": 2, "side": 32, "widths": (128, 64, 32, 16), "taps": 4},
)
def transposed_convolution(draw: Draw, batch: int, side: int, widths: tuple[int, ...], taps: int) -> Built:
    """Transposed convolutions with stride 2 (reported slow: jax issue 23783)."""
    layers = len(widths) - 1

    def forward(x: Array, *weights: Array) -> Array:
        for kernel, bias in zip(weights[:layers], weights[layers:], strict=True):
            x = swish(lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=NHWC) + bias)
        return x

    biases = [draw.normal(n, scale=0.1) for n in widths[1:]]
    return forward, (draw.normal(batch, side, side, widths[0]), *draw.chain(widths, taps, taps), *biases)


@family(
    "deconvolution-3d-gradient",
    "deconvolution",
    {"side": 5, "width": 8, "out": 1},
    {"side": 6, "width": 2, "out": 4},
    {"side": 7, "width": 8, "out": 4},
    {"side": 12, "width": 16, "out": 8},
)
def deconvolution_gradient(draw: Draw, side: int, width: int, out: int) -> Built:
    """Gradient of a transposed convolution in three dimensions, as reported in jax issue 31662."""

    def loss(kernel: Array, x: Array, target: Array) -> Array:
        y = lax.conv_transpose(x, kernel, (2, 2, 2), "SAME", dimension_numbers=NDHWC)
        return jnp.mean(jnp.square(y - target))

    def forward(kernel: Array, x: Array, target: Array) -> tuple[Array, tuple[Array, Array]]:
        value, slopes = jax.value_and_grad(loss, argnums=(0, 1))(kernel, x, target)
        return value, slopes

    x, target = draw.normal(1, side, side, side, width), draw.normal(1, *(2 * side,) * 3, out)
    return forward, (draw.weights(3, 3, 3, width, out), x, target)


@family(
    "gan-generator",
    "deconvolution",
    {"batch": 4, "latent": 64, "side": 4, "widths": (64, 32, 16, 3)},
    {"batch": 16, "latent": 32, "side": 7, "widths": (32, 16, 1)},
    {"batch": 29, "latent": 100, "side": 4, "widths": (128, 64, 32, 3)},
    {"batch": 45, "latent": 128, "side": 8, "widths": (256, 128, 64, 3)},
)
def gan_generator(draw: Draw, batch: int, latent: int, side: int, widths: tuple[int, ...]) -> Built:
    """Noise to images: dense layer, then normalised transposed convolutions."""

    def forward(noise: Array, start: Array, *kernels: Array) -> Array:
        x = (noise @ start).reshape(batch, side, side, widths[0])
        for kernel in kernels:
            centred = x - jnp.mean(x, axis=(0, 1, 2))
            x = relu(centred * lax.rsqrt(jnp.mean(jnp.square(centred), axis=(0, 1, 2)) + 1e-4))
            x = lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=NHWC)
        return jnp.tanh(x)

    kernels = draw.chain(widths, 4, 4)
    return forward, (draw.normal(batch, latent), draw.weights(latent, side * side * widths[0]), *kernels)


@family(
    "unet-block",
    "unet",
    {"batch": 2, "side": 32, "width": 16},
    {"batch": 1, "side": 64, "width": 8},
    {"batch": 7, "side": 64, "width": 16},
    {"batch": 4, "side": 200, "width": 32},
)
def unet_block(draw: Draw, batch: int, side: int, width: int) -> Built:
    """Downsample by pooling, convolve, upsample by repetition, concatenate the skip connection, convolve."""

    def forward(x: Array, enter: Array, k1: Array, k2: Array, leave: Array) -> Array:
        kept = relu(conv(x, enter))
        low = lax.reduce_window(kept, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        low = relu(conv(relu(conv(low, k1)), k2))
        up = jnp.repeat(jnp.repeat(low, 2, axis=1), 2, axis=2)
        return conv(jnp.concatenate([kept, up], axis=-1), leave)

    kernels = draw.weights(3, 3, 4, width), draw.weights(3, 3, width, 2 * width)
    more = draw.weights(3, 3, 2 * width, width), draw.weights(3, 3, 2 * width, 4)
    return forward, (draw.normal(batch, side, side, 4), *kernels, *more)


@family(
    "volume-convolution",
    "volume",
    {"batch": 1, "side": 12, "width": 8},
    {"batch": 2, "side": 6, "width": 20},
    {"batch": 1, "side": 13, "width": 16},
    {"batch": 2, "side": 21, "width": 28},
)
def volume_convolution(draw: Draw, batch: int, side: int, width: int) -> Built:
    """Residual block of convolutions in three dimensions with pooling by mean."""

    def forward(x: Array, k1: Array, k2: Array, k3: Array) -> Array:
        y = relu(conv(x, k1, layout=NDHWC))
        y = x + conv(y, k2, layout=NDHWC)
        y = lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "VALID") / 8.0
        return conv(relu(y), k3, layout=NDHWC)

    kernels = [draw.weights(3, 3, 3, width, width) for _ in range(2)]
    return forward, (
        draw.normal(batch, *(side,) * 3, width),
        *kernels,
        draw.weights(1, 1, 1, width, 2 * width),
    )
