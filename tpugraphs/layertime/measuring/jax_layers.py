"""Layers in JAX: a builder for every kind, and a step as one compiled function.

Images are (batch, height, width, channels), the order that XLA's convolutions are fastest in on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.measuring.base import Input, Layer, Step
from tpugraphs.layertime.measuring.jax_optimizers import OPTIMIZERS
from tpugraphs.system import machine

__all__ = ["BUILDERS", "Jax"]

Built = tuple[Callable[..., Any], dict[str, Input], tuple[Input, ...]]
"""A function of weights and inputs, the weights, and the inputs."""

_EPSILON = 1e-5  # of norms


def _activated(jax: Any, layer: Layer, y: Any) -> Any:
    known = {"relu": jax.nn.relu, "tanh": jax.numpy.tanh, "sigmoid": jax.nn.sigmoid}
    return known.get(layer["activation"], lambda same: same)(y)


def _product(jax: Any, x: Any, weights: dict[str, Any]) -> Any:
    """Return a product with rows of numbers, and its bias."""
    return x @ weights["w"] + weights["b"]


def _convolution(dimensions: int, size: str = "matsize", depthwise: bool = False) -> Callable[..., Built]:
    space = "DHW"[-dimensions:]
    order = (f"N{space}C", f"{space}IO", f"N{space}C")

    def build(jax: Any, layer: Layer) -> Built:
        cin, cout = (layer["channels" + ("" if depthwise else end)] for end in ("_in", "_out"))
        groups = cin if depthwise else 1
        weights = {"w": Input((*[layer["kernelsize"]] * dimensions, cin // groups, cout))}
        if layer["use_bias"]:
            weights["b"] = Input((cout,))

        def run(p: dict[str, Any], x: Any) -> Any:
            strides = [layer["strides"]] * dimensions
            y = jax.lax.conv_general_dilated(
                x, p["w"], strides, layer["padding"], dimension_numbers=order, feature_group_count=groups
            )
            return _activated(jax, layer, y + p["b"] if "b" in p else y)

        return run, weights, (Input((layer["batch"], *[layer[size]] * dimensions, cin)),)

    return build


def _conv(jax: Any, layer: Layer) -> Built:
    cin, cout, kernel = (layer[name] for name in ("Input_Channel", "Output_Channel", "Kernel_Size"))

    def run(p: dict[str, Any], x: Any) -> Any:
        strides, padding = [layer["Stride"]] * 2, [(layer["Padding"],) * 2] * 2
        return jax.lax.conv_general_dilated(
            x, p["w"], strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    side = layer["Input_Size"]
    return run, {"w": Input((kernel, kernel, cin, cout))}, (Input((layer["B"], side, side, cin)),)


def _dense(jax: Any, layer: Layer) -> Built:
    cin, cout = layer["dim_input"], layer["dim_output"]

    def run(p: dict[str, Any], x: Any) -> Any:
        return _activated(jax, layer, _product(jax, x, p))

    return run, {"w": Input((cin, cout)), "b": Input((cout,))}, (Input((layer["batch"], cin)),)


def _linear(jax: Any, layer: Layer) -> Built:
    cin, cout = layer["N"], layer["K"]

    def run(p: dict[str, Any], x: Any) -> Any:
        return _product(jax, x, p)

    return run, {"w": Input((cin, cout)), "b": Input((cout,))}, (Input((layer["B"], layer["M"], cin)),)


def _bmm(jax: Any, layer: Layer) -> Built:
    count, rows, depth, cols = (layer[name] for name in "BMNK")
    inputs = (Input((count, rows, depth)), Input((count, depth, cols)))
    return lambda p, a, b: jax.numpy.matmul(a, b), {}, inputs


def _attention(jax: Any, layer: Layer) -> Built:
    batch, heads, width = (layer[name] for name in ("batch", "heads", "head_size"))
    queries, keys = (Input((batch, layer[name], heads, width)) for name in ("queries", "keys"))
    return lambda p, q, k, v: jax.nn.dot_product_attention(q, k, v), {}, (queries, keys, keys)


def _lstm(jax: Any, layer: Layer) -> Built:
    batch, length, cin, hidden = (layer[name] for name in ("batch", "length", "dim_input", "dim_hidden"))
    sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh

    def run(p: dict[str, Any], x: Any) -> Any:
        before = jax.numpy.swapaxes(x @ p["w"] + p["b"], 0, 1)  # of all steps, the products with inputs

        def one(state: tuple[Any, Any], gates: Any) -> tuple[tuple[Any, Any], Any]:
            h, c = state
            i, f, g, o = jax.numpy.split(gates + h @ p["u"], 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
            return (h, c), h

        zeros = jax.numpy.zeros((batch, hidden), x.dtype)
        return jax.numpy.swapaxes(jax.lax.scan(one, (zeros, zeros), before)[1], 0, 1)

    weights = {"w": Input((cin, 4 * hidden)), "u": Input((hidden, 4 * hidden)), "b": Input((4 * hidden,))}
    return run, weights, (Input((batch, length, cin)),)


def _elementwise(jax: Any, layer: Layer) -> Built:
    op, one = layer["op"], Input((layer["B"], layer["H"]), positive="pow" in layer["op"])
    jnp, nn = jax.numpy, jax.nn
    two = {"add": jnp.add, "mul": jnp.multiply, "div": jnp.divide, "pow": jnp.power}
    if op in two:
        return lambda p, a, b: two[op](a, b), {}, (one, one)
    if op[:-1] in two:  # with a number instead of the second array
        return lambda p, x: two[op[:-1]](x, 1.5), {}, (one,)
    known = {"relu": nn.relu, "tanh": jnp.tanh, "sigmoid": nn.sigmoid, "silu": nn.silu}
    if op in known:
        return lambda p, x: known[op](x), {}, (one,)
    return lambda p, x: nn.gelu(x, approximate=False), {}, (one,)


def _softmax(jax: Any, layer: Layer) -> Built:
    return lambda p, x: jax.nn.softmax(x, -1), {}, (Input((layer["B"], layer["H"])),)


def _normalized(jax: Any, x: Any, mean: Any, variance: Any, p: dict[str, Any]) -> Any:
    return (x - mean) * jax.lax.rsqrt(variance + _EPSILON) * p["w"] + p["b"]


def _layernorm(jax: Any, layer: Layer) -> Built:
    def run(p: dict[str, Any], x: Any) -> Any:
        return _normalized(jax, x, x.mean(-1, keepdims=True), x.var(-1, keepdims=True), p)

    cols = layer["H"]
    return run, {"w": Input((cols,)), "b": Input((cols,))}, (Input((layer["B"], cols)),)


def _batchnorm(jax: Any, layer: Layer) -> Built:
    """In training with the mean and variance of the batch, otherwise with given ones."""
    side, channels = layer["matsize"], layer["channels"]
    weights = {name: Input((channels,)) for name in "wb"}

    def train(p: dict[str, Any], x: Any) -> Any:
        return _normalized(jax, x, x.mean((0, 1, 2)), x.var((0, 1, 2)), p)

    def run(p: dict[str, Any], x: Any) -> Any:
        return _normalized(jax, x, p["mean"], p["variance"], p)

    inputs = (Input((layer["batch"], side, side, channels)),)
    if layer["optimizer"] != "None":
        return train, weights, inputs
    given = {"mean": Input((channels,)), "variance": Input((channels,), positive=True)}
    return run, weights | given, inputs


def _pooling(jax: Any, layer: Layer) -> Built:
    kernel, side = layer["kernelsize"], layer["matsize"]
    window, strides = (1, kernel, kernel, 1), (1, layer["strides"], layer["strides"], 1)

    def run(p: dict[str, Any], x: Any) -> Any:
        if layer["op"] == "max":
            return jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, strides, layer["padding"])
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, strides, layer["padding"]) / kernel**2

    return run, {}, (Input((layer["batch"], side, side, layer["channels"])),)


def _embedding(jax: Any, layer: Layer) -> Built:
    rows = layer["dim_input"]
    taken = Input((layer["batch"], layer["length"]), below=rows)
    return lambda p, at: p["w"][at], {"w": Input((rows, layer["dim_output"]))}, (taken,)


BUILDERS: dict[str, Callable[[Any, Layer], Built]] = {
    "conv1d": _convolution(1, "length"),
    "conv2d": _convolution(2),
    "conv3d": _convolution(3),
    "depthwise": _convolution(2, depthwise=True),
    "conv": _conv,
    "dense": _dense,
    "linear": _linear,
    "bmm": _bmm,
    "attention": _attention,
    "lstm": _lstm,
    "elementwise": _elementwise,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "batchnorm": _batchnorm,
    "pooling": _pooling,
    "embedding": _embedding,
}


class Jax:
    """JAX on the CPU or its first GPU."""

    name: ClassVar[str] = "jax"
    kinds: ClassVar[Sequence[str]] = tuple(BUILDERS)

    def __init__(self, gpu: bool | None, threads: int | None) -> None:
        try:
            import jax
        except ImportError:
            raise ConfigError("JAX is not installed: pip install tpugraphs[jax]") from None
        self._jax, self.version = jax, str(jax.__version__)
        self.gpu = jax.default_backend() == "gpu" if gpu is None else gpu
        try:
            self._device = jax.devices("gpu" if self.gpu else "cpu")[0]
        except RuntimeError as error:
            raise ConfigError(f"gpu: expected a GPU that JAX can use, found none ({error})") from None
        if threads is not None and not self.gpu and threads != self.threads:
            raise ConfigError(
                f"threads: JAX takes all {self.threads} processors that the process may use, and no setting "
                f"changes that; start Python on {threads} of them with `taskset`, or leave threads out"
            )

    @property
    def threads(self) -> int:
        """How many threads of the CPU a layer may take."""
        return machine.usable_processors()

    def gpu_properties(self) -> Any:
        """Return the name of the GPU: JAX tells no figures."""
        return SimpleNamespace(name=str(self._device.device_kind))

    def forward(self, kind: str, layer: Layer) -> tuple[Any, dict[str, Any], list[Any]]:
        """Return a layer as function of weights and inputs, and these."""
        rng = np.random.default_rng(0)
        function, weights, inputs = BUILDERS[kind](self._jax, layer)
        drawn = {name: _scaled(one.draw(rng)) for name, one in weights.items()}
        put = self._jax.device_put
        return function, put(drawn, self._device), [put(one.draw(rng), self._device) for one in inputs]

    def step(self, kind: str, layer: Layer) -> Step:
        """Build a layer and its arrays."""
        jax = self._jax
        function, weights, inputs = self.forward(kind, layer)
        if layer["optimizer"] == "None":
            compiled = jax.jit(function)
            return lambda: jax.block_until_ready(compiled(weights, *inputs))
        update = OPTIMIZERS[layer["optimizer"]]
        whole = jax.jit(_training(jax, function, update), donate_argnums=(0, 1))
        shape = jax.eval_shape(function, weights, *inputs).shape
        gradient = jax.device_put(Input(shape).draw(np.random.default_rng(1)), self._device)
        state = jax.device_put(update.start(weights), self._device)
        kept = [weights, state]  # the step takes their memory, and gives them back

        def train() -> None:
            kept[0], kept[1], *rest = whole(*kept, inputs, gradient)
            jax.block_until_ready((kept, rest))

        return train

    def close(self) -> None:
        """Put back nothing: nothing was set."""


def _training(jax: Any, function: Callable[..., Any], update: Any) -> Callable[..., Any]:
    """Make the function of weights, state of the optimizer, inputs and gradient that does a whole step.

    The outputs are among its results, or the compiler would leave out what the gradients need not.
    """

    def step(weights: Any, state: Any, inputs: list[Any], gradient: Any) -> tuple[Any, ...]:
        floats = [i for i, one in enumerate(inputs) if one.dtype == np.float32]

        def layer(weights: Any, given: list[Any]) -> Any:
            merged = dict(enumerate(inputs)) | dict(zip(floats, given, strict=True))
            return function(weights, *merged.values())

        y, pull = jax.vjp(layer, weights, [inputs[i] for i in floats])
        slopes, rest = pull(gradient)
        return (*update(jax.numpy, weights, slopes, state), y, rest)

    return step


def _scaled(weights: Any) -> Any:
    """Return weights whose sums are about as large as the inputs."""
    return weights / np.float32(math.sqrt(math.prod(weights.shape[:-1])))
