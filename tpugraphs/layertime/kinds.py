"""Kinds of layers, a row of `KINDS` each: their columns, their work, and how frameworks run them.

``conv2d`` and ``dense`` are named as in the tables of the ml-performance-prediction project, others after
them; ``conv``, ``linear``, ``bmm``, ``elementwise``, ``softmax`` and ``layernorm`` as in NeuSight's: products
(M, N) x (N, K), and B rows of H numbers. NeuSight's times show that N is the dimension summed over: on one
GPU, products with M or K of 64 run at half the rate of those with 128, products with N of 64 at nine tenths.
"""

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.system import check_choice

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.generic]]
Layer = Any
"""A layer with its columns as attributes: whole numbers and words, or arrays (n,) of float64 and words."""

# Times that an update reads or writes an array as large as the weights: weights, gradient, its state.
_UPDATE = {"None": 0, "SGD": 3, "Momentum": 5, "Adagrad": 5, "RMSProp": 7, "Adadelta": 7, "Adam": 7}
OPTIMIZERS = tuple(_UPDATE)
_OPTIMIZER_NAMES = {**{name.lower(): name for name in OPTIMIZERS}, "adamw": "Adam"}  # whose passes are Adam's
BYTES = 4
"""Bytes of a float32."""


def optimizer_named(name: object) -> str:
    """Return the name that tables use for an optimizer: ignore case, map None to ``None`` and AdamW to Adam.

    Raises
    ------
    ConfigError
        No such optimizer.
    """
    spelled = "none" if name is None else name.lower() if isinstance(name, str) else ""
    return _OPTIMIZER_NAMES.get(spelled) or str(check_choice("optimizer", name, (*OPTIMIZERS, "AdamW")))


class Column(NamedTuple):
    """A column of whole numbers, or of words.

    Attributes
    ----------
    name : str
    high : int
        The largest number that a table may hold.
    drawn : (int, int)
        Smallest and largest number of layers that are drawn to be measured.
    low : int
        The smallest number that a table may hold.
    default : int, str or None
        Value if a table lacks the column; None: the column is required.
    dimensions : int
        Dimensions of the image or kernel that has a side of this size.
    aliases : tuple of str
        Other names of the column.
    values : tuple of str
        Values of a column of text; empty for a column of numbers.
    """

    name: str
    high: int = 0
    drawn: tuple[int, int] = (1, 1)
    low: int = 1
    default: int | str | None = None
    dimensions: int = 1
    aliases: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class Work(NamedTuple):
    """Amount of work of layers, every field of shape (n,).

    Attributes
    ----------
    flops : array
        Operations, all passes together.
    read, weights, written : array
        Bytes of inputs, weights and outputs of the forward pass.
    passes : array
        Times that these are moved: 1 for a forward pass alone, 3 for forward and both backward passes.
    update : array
        Bytes that the optimizer reads and writes.
    product : (rows, cols, depth, count) or None
        Sizes of the matrix product (rows, depth) x (depth, cols) that the forward pass is, and how many there
        are (an array or 1); None for other layers.
    row : array or None
        Numbers of a row that is reduced as a whole; None where there are no rows.
    """

    flops: Floats
    read: Floats
    weights: Floats
    written: Floats
    passes: Floats
    update: Floats
    product: tuple[Floats, Floats, Floats, Floats] | None = None
    row: Floats | None = None

    @property
    def moved(self) -> Floats:
        """Fewest bytes read and written, all passes together."""
        return (self.read + self.weights + self.written) * self.passes + self.update


class Input(NamedTuple):
    """An array that a layer takes: normal numbers, or whole numbers from 0 to `below` - 1.

    Attributes
    ----------
    shape : tuple of int
        In the order of PyTorch: channels before the sides of an image.
    in_jax : tuple of int, optional
        The same axes in the order of JAX, where it differs.
    below : int, optional
        Exclusive bound of whole numbers.
    positive : bool
        Draw absolute values: powers of negative numbers are NaN and take a different time.
    """

    shape: tuple[int, ...]
    in_jax: tuple[int, ...] | None = None
    below: int | None = None
    positive: bool = False

    def draw(self, rng: np.random.Generator, for_jax: bool = False) -> NDArray[Any]:
        """Return the array, float32 or int32."""
        order = self.in_jax if for_jax and self.in_jax else range(len(self.shape))
        shape = [self.shape[axis] for axis in order]
        if self.below is not None:
            return rng.integers(0, self.below, shape, np.int32)
        drawn = rng.standard_normal(shape, np.float32)
        return np.abs(drawn) + np.float32(0.1) if self.positive else drawn


Inputs = Callable[[Layer], tuple[Input, ...]]
InJax = tuple[Callable[..., Any], dict[str, Input]]
"""A function of weights and inputs, and the weights by name."""


def shaped(*shapes: str, in_jax: tuple[int, ...] | None = None, below: str = "") -> Inputs:
    """Return the inputs of a kind by their axes, names of columns: ``"batch dim_input"``."""

    def inputs(layer: Layer) -> tuple[Input, ...]:
        sizes = [tuple(getattr(layer, name) for name in shape.split()) for shape in shapes]
        return tuple(Input(size, in_jax, getattr(layer, below, None)) for size in sizes)

    return inputs


def images(batch: str, channels: str, side: str, dimensions: int = 2) -> Inputs:
    """Return inputs that are images. XLA's convolutions are fastest on a CPU if channels come last."""
    in_jax = (0, *range(2, 2 + dimensions), 1)
    return shaped(" ".join((batch, channels, *[side] * dimensions)), in_jax=in_jax)


@dataclass(frozen=True)
class Kind:
    """A kind of layers.

    Attributes
    ----------
    name : str
    columns : tuple of Column
        The first grows with the batch, unless `grows` names another one.
    count : callable
        Maps layers to their `Work`.
    inputs : callable
        Maps a layer to the arrays that it takes.
    torch : callable
        Maps PyTorch and a layer to the module or function that takes these arrays.
    jax : callable
        Maps JAX and a layer to a function of weights and these arrays, and to the weights. Both frameworks
        apply the column ``activation`` afterwards.
    most_flops : float
        Most operations of a drawn layer, all passes together.
    held : callable, optional
        Maps layers to how many numbers (n,) they hold besides inputs, weights and outputs.
    grows : str
    """

    name: str
    columns: tuple[Column, ...]
    count: Callable[[Layer], Work] = field(repr=False)
    inputs: Inputs = field(repr=False)
    torch: Callable[[Any, Layer], Callable[..., Any]] = field(repr=False)
    jax: Callable[[Any, Layer], InJax] = field(repr=False)
    most_flops: float = 1e10
    held: Callable[[Layer], Floats] | None = field(default=None, repr=False)
    grows: str = ""

    def work(self, columns: Columns) -> Work:
        """Return the work of layers, from their columns."""
        return self.count(layers_of(columns))

    @property
    def per_sample(self) -> str:
        """The column that grows with the batch: ``batch``, ``B``, or ``M`` of ``linear``."""
        return self.grows or self.columns[0].name


def layers_of(columns: Columns) -> Layer:
    """Return layers with their columns as attributes."""
    words = {name: values for name, values in columns.items() if values.dtype.kind == "U"}
    numbers = {name: values.astype(np.float64) for name, values in columns.items() if name not in words}
    return SimpleNamespace(**words, **numbers)


def passing(
    c: Any, operations: Floats, read: Floats, written: Floats, weights: Floats, training: int = 2, **more: Any
) -> Work:
    """Return the work of layers that take, give and keep these numbers, in `training` passes if trained.

    The optimizer updates the weights, or as many numbers as `updated` says.
    """
    times = np.zeros(weights.shape)
    for name, value in _UPDATE.items():
        times[c.optimizer == name] = value
    passes = np.where(c.optimizer == "None", 1.0, training)
    sizes = (BYTES * read, BYTES * weights, BYTES * written)
    return Work(operations * passes, *sizes, passes, times * BYTES * more.pop("updated", weights), **more)


def product(c: Any, rows: Floats, cols: Floats, depth: Floats, count: Any = 1, **more: Any) -> Work:
    """Return the work of `count` products.

    By default the inputs `read` and the `weights` are their first and second factors.
    """
    flops, written = 2 * rows * cols * depth * count, rows * cols * count
    sizes = {"read": count * rows * depth, "weights": count * depth * cols, "training": 3}
    return passing(c, flops, written=written, product=(rows, cols, depth, count), **sizes | more)


# ---- columns of several kinds

_LONG, _WIDE = 1 << 20, 1 << 30  # most that tables hold
_BATCH = Column("batch", _LONG, (1, 64))
_MANY = Column("batch", _LONG, (1, 4096))
_ACTIVATION = Column("activation", values=("None", "relu", "tanh", "sigmoid"), default="None")
# None: the forward pass alone; any other: forward, backward and update.
_OPTIMIZER = Column("optimizer", values=OPTIMIZERS, default="None")


def _sizes(most: int, **drawn: tuple[int, int]) -> tuple[Column, ...]:
    return tuple(Column(name, most, bounds) for name, bounds in drawn.items())


# ---- kernels that slide over images: convolutions and pooling

_SIDE = Column("matsize", 1 << 16, (4, 512), dimensions=2)
_KERNEL = Column("kernelsize", 1 << 10, (1, 7), dimensions=2)
_STRIDES = Column("strides", 1 << 10, (1, 4), default=1)
_PADDING = Column("padding", values=("VALID", "SAME"), default="VALID")
_POOL = Column("op", values=("max", "average"), default="max")
_SLIDING = ("matsize", "kernelsize", "strides")


def output_size(c: Layer, size: str, kernel: str, stride: str) -> Any:
    """Return how many places a kernel takes along a side, 0 if it is larger: (n,)."""
    side, wide, step = (getattr(c, name) for name in (size, kernel, stride))
    if hasattr(c, "Padding"):
        return np.maximum(np.floor((side + 2 * c.Padding - wide) / step) + 1, 0)
    return np.where(c.padding == "SAME", np.ceil(side / step), np.ceil(np.maximum(side - wide + 1, 0) / step))


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after a side for ceil(side / stride) outputs, as TensorFlow splits them."""
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


def _ends(layer: Layer, side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after a side, from the columns of a layer."""
    if getattr(layer, "padding", None) == "SAME":
        return same_padding(side, kernel, stride)
    return (getattr(layer, "Padding", 0),) * 2


def _padded(
    torch: Any, ends: tuple[int, int], dimensions: int, make: Callable[[int], Any], fill: float = 0.0
) -> Any:
    """Return the module `make` (padding), with a module of padding before it where the ends differ."""
    if ends[0] == ends[1]:
        return make(ends[0])
    pad = getattr(torch.nn, f"ConstantPad{dimensions}d")
    return torch.nn.Sequential(pad(ends * dimensions, fill), make(0))


def _convolution(
    name: str, dimensions: int, columns: tuple[Column, ...], roles: str, most_flops: float = 1e10
) -> Kind:
    """Return a kind of convolutions.

    `roles` names the columns of batch, side, kernel, stride, channels in and channels out. Where these two
    are one column, each channel is a group.
    """
    names = roles.split()
    batch_, side_, kernel_, stride_, cin_, cout_ = names

    def count(c: Layer) -> Work:
        batch, side, kernel, _, cin, cout = (getattr(c, name) for name in names)
        groups = cin if cin_ == cout_ else np.ones_like(cin)
        rows, depth = batch * output_size(c, side_, kernel_, stride_) ** dimensions, kernel**dimensions * cin
        depth /= groups
        read = batch * side**dimensions * cin
        return product(c, rows, cout / groups, depth, groups, read=read, weights=depth * cout)

    def settings(layer: Layer) -> tuple[list[int], int, bool, tuple[int, int]]:
        sizes = [getattr(layer, name) for name in (cin_, cout_, kernel_, stride_)]
        groups = sizes[0] if cin_ == cout_ else 1
        around = _ends(layer, getattr(layer, side_), *sizes[2:])
        return sizes, groups, getattr(layer, "use_bias", 0) == 1, around

    def torch(torch: Any, layer: Layer) -> Any:
        sizes, groups, bias, around = settings(layer)
        make = partial(getattr(torch.nn, f"Conv{dimensions}d"), *sizes, groups=groups, bias=bias)
        return _padded(torch, around, dimensions, make)

    def jax(jax: Any, layer: Layer) -> InJax:
        (cin, cout, kernel, stride), groups, bias, around = settings(layer)
        space = "DHW"[-dimensions:]
        how: dict[str, Any] = {"dimension_numbers": (f"N{space}C", f"{space}IO", f"N{space}C")}
        how |= {"window_strides": [stride] * dimensions, "padding": [around] * dimensions}
        weights = {"w": Input((*[kernel] * dimensions, cin // groups, cout))}

        def run(p: dict[str, Any], x: Any) -> Any:
            y = jax.lax.conv_general_dilated(x, p["w"], feature_group_count=groups, **how)
            return y + p["b"] if bias else y

        return run, weights | ({"b": Input((cout,))} if bias else {})

    inputs = images(batch_, cin_, side_, dimensions)
    return Kind(name, columns, count, inputs, torch, jax, most_flops)


def _pooling(c: Layer) -> Work:
    written = c.batch * output_size(c, *_SLIDING) ** 2 * c.channels
    operations, read = c.kernelsize**2 * written, c.batch * c.matsize**2 * c.channels
    return passing(c, operations, read, written, 0 * c.batch)


def _pooling_torch(torch: Any, layer: Layer) -> Any:
    sizes, largest = [getattr(layer, name) for name in _SLIDING], layer.op == "max"
    pool = partial(torch.nn.MaxPool2d if largest else torch.nn.AvgPool2d, *sizes[1:])
    return _padded(torch, _ends(layer, *sizes), 2, pool, fill=-np.inf if largest else 0.0)


def _pooling_jax(jax: Any, layer: Layer) -> InJax:
    kernel, stride = layer.kernelsize, layer.strides
    sizes = ((1, kernel, kernel, 1), (1, stride, stride, 1), layer.padding)
    if layer.op == "max":
        return lambda p, x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, *sizes), {}
    return lambda p, x: jax.lax.reduce_window(x, 0.0, jax.lax.add, *sizes) / kernel**2, {}


_SETTINGS = (_STRIDES, _PADDING, Column("use_bias", 1, (0, 1), 0, 0), _ACTIVATION, _OPTIMIZER)
_CHANNELS = _sizes(_LONG, channels_in=(1, 1024), channels_out=(1, 1024))
_LINE = (_BATCH, *_sizes(_LONG, length=(8, 8192)), _KERNEL._replace(dimensions=1), *_CHANNELS)
_SQUARE = (_BATCH, _SIDE, _KERNEL)
_CUBE = (
    _BATCH._replace(drawn=(1, 16)),
    _SIDE._replace(drawn=(4, 64), dimensions=3),
    _KERNEL._replace(dimensions=3),
    *_sizes(_LONG, channels_in=(1, 256), channels_out=(1, 1024)),
)
_NEUSIGHT = (
    *_sizes(_LONG, B=(1, 64), Input_Channel=(1, 1024), Output_Channel=(1, 1024)),
    # the alias is how NeuSight's files spell it
    _KERNEL._replace(name="Kernel_Size", aliases=("Kernel_Szie",)),
    _SIDE._replace(name="Input_Size"),
    _STRIDES._replace(name="Stride"),
    Column("Padding", 1 << 10, (0, 3), 0, 0),
    _OPTIMIZER,
)
_ROLES = "batch matsize kernelsize strides channels_in channels_out"
_DEPTHWISE = "batch matsize kernelsize strides channels channels"

_IMAGES = (
    _convolution("conv1d", 1, (*_LINE, *_SETTINGS), _ROLES.replace("matsize", "length")),
    _convolution("conv2d", 2, (*_SQUARE, *_CHANNELS, *_SETTINGS), _ROLES),
    _convolution("conv3d", 3, (*_CUBE, *_SETTINGS), _ROLES, 4e9),
    _convolution("depthwise", 2, (*_SQUARE, *_sizes(_LONG, channels=(1, 1024)), *_SETTINGS), _DEPTHWISE, 1e9),
    _convolution("conv", 2, _NEUSIGHT, "B Input_Size Kernel_Size Stride Input_Channel Output_Channel"),
)

# ---- matrix products


def _affine(cin: int, cout: int) -> InJax:
    """Return a product with a matrix of weights, and its bias."""
    return lambda p, x: x @ p["w"] + p["b"], {"w": Input((cin, cout)), "b": Input((cout,))}


def _attention(c: Layer) -> Work:
    """Return the work of products of queries and keys, and of their softmax and values."""
    count = c.batch * c.heads
    read = count * c.head_size * (c.queries + 2 * c.keys)
    return product(c, c.queries, c.head_size, 2 * c.keys, count, read=read, weights=0 * c.batch)


def _lstm(c: Layer) -> Work:
    """Return the work of an LSTM: all steps read the weights of the four gates."""
    cols, depth = 4 * c.dim_hidden, c.dim_input + c.dim_hidden
    read = c.batch * c.length * c.dim_input
    return product(c, c.batch, cols, depth, c.length, read=read, weights=cols * depth)


def _lstm_torch(torch: Any, layer: Layer) -> Any:
    class Outputs(torch.nn.LSTM):  # type: ignore[misc]  # of all steps, without the last state
        def forward(self, x: Any) -> Any:
            return super().forward(x)[0]

    return Outputs(layer.dim_input, layer.dim_hidden, batch_first=True)


def _lstm_jax(jax: Any, layer: Layer) -> InJax:
    hidden = layer.dim_hidden
    sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh
    gates_of, weights = _affine(layer.dim_input, 4 * hidden)

    def run(p: dict[str, Any], x: Any) -> Any:
        before = jax.numpy.swapaxes(gates_of(p, x), 0, 1)  # of all steps, the products with inputs

        def one(state: tuple[Any, Any], gates: Any) -> tuple[tuple[Any, Any], Any]:
            h, c = state
            i, f, g, o = jax.numpy.split(gates + h @ p["u"], 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
            return (h, c), h

        zeros = jax.numpy.zeros((layer.batch, hidden), x.dtype)
        return jax.numpy.swapaxes(jax.lax.scan(one, (zeros, zeros), before)[1], 0, 1)

    return run, weights | {"u": Input((hidden, 4 * hidden))}


def _matrices(most: int, count: int, rows: int) -> tuple[Column, ...]:
    sizes = _sizes(_WIDE, M=(1, rows), N=(1, most), K=(1, most))
    return (Column("B", _WIDE, (1, count), default=1), *sizes, _OPTIMIZER)


_PRODUCTS = (
    Kind(
        "dense",
        (_MANY, *_sizes(_WIDE, dim_input=(1, 8192), dim_output=(1, 8192)), _ACTIVATION, _OPTIMIZER),
        lambda c: product(c, c.batch, c.dim_output, c.dim_input),
        inputs=shaped("batch dim_input"),
        torch=lambda torch, layer: torch.nn.Linear(layer.dim_input, layer.dim_output),
        jax=lambda jax, layer: _affine(layer.dim_input, layer.dim_output),
    ),
    Kind(
        "linear",
        _matrices(8192, 64, 4096),
        lambda c: product(c, c.B * c.M, c.K, c.N),
        inputs=shaped("B M N"),
        torch=lambda torch, layer: torch.nn.Linear(layer.N, layer.K),
        jax=lambda jax, layer: _affine(layer.N, layer.K),
        grows="M",  # measured tables hold one product of many rows
    ),
    Kind(
        "bmm",
        _matrices(2048, 256, 2048),
        lambda c: product(c, c.M, c.K, c.N, c.B, updated=0),
        inputs=shaped("B M N", "B N K"),
        torch=lambda torch, layer: torch.bmm,
        jax=lambda jax, layer: (lambda p, a, b: jax.numpy.matmul(a, b), {}),
    ),
    Kind(
        "attention",
        (
            _BATCH,
            Column("heads", 1 << 16, (1, 32)),
            *_sizes(_LONG, queries=(1, 2048), keys=(1, 2048)),
            Column("head_size", 1 << 16, (8, 256)),
            _OPTIMIZER,
        ),
        _attention,
        inputs=shaped(
            "batch heads queries head_size", *["batch heads keys head_size"] * 2, in_jax=(0, 2, 1, 3)
        ),
        torch=lambda torch, layer: torch.nn.functional.scaled_dot_product_attention,
        jax=lambda jax, layer: (lambda p, q, k, v: jax.nn.dot_product_attention(q, k, v), {}),
        held=lambda c: c.batch * c.heads * c.queries * c.keys,
    ),
    Kind(
        "lstm",
        (_BATCH, *_sizes(_LONG, length=(1, 256), dim_input=(1, 2048), dim_hidden=(1, 2048)), _OPTIMIZER),
        _lstm,
        inputs=shaped("batch length dim_input"),
        torch=_lstm_torch,
        jax=_lstm_jax,
        most_flops=5e9,
    ),
)

# ---- layers that pass over memory: elementwise functions, norms, embeddings

_TWO_ARRAYS = ("add", "mul", "div", "pow")
_ONE_ARRAY = ("addu", "mulu", "divu", "powu", "relu", "tanh", "gelu", "sigmoid", "silu")
_EPSILON = 1e-5  # of norms
_MORE = Column("channels", _LONG, (1, 2048))
_ROWS = _sizes(_WIDE, B=(1, 1 << 17), H=(1, 1 << 16))


def _elementwise(c: Layer) -> Work:
    numbers = c.B * c.H
    read = np.where(np.isin(c.op, _TWO_ARRAYS), 2.0, 1.0) * numbers
    return passing(c, numbers, read, numbers, 0 * c.B)


def _elementwise_inputs(layer: Layer) -> tuple[Input, ...]:
    one = Input((layer.B, layer.H), positive="pow" in layer.op)
    return (one, one) if layer.op in _TWO_ARRAYS else (one,)


def _function(op: str, known: Callable[[str], Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function of an op; ``addu`` is ``add`` with a number in place of the second array."""
    if op.removesuffix("u") not in _TWO_ARRAYS:
        return known(op)
    function = known(op.removesuffix("u"))
    return function if op in _TWO_ARRAYS else lambda x: function(x, 1.5)


def _elementwise_torch(torch: Any, layer: Layer) -> Any:
    return _function(layer.op, lambda op: getattr(torch, op, None) or getattr(torch.nn.functional, op))


def _elementwise_jax(jax: Any, layer: Layer) -> InJax:
    jnp, nn = jax.numpy, jax.nn
    known = {"mul": jnp.multiply, "div": jnp.divide, "pow": jnp.power}
    known["gelu"] = lambda x: nn.gelu(x, approximate=False)
    function = _function(layer.op, lambda op: known.get(op) or getattr(nn, op, None) or getattr(jnp, op))
    return lambda p, *arrays: function(*arrays), {}


def _batchnorm(c: Layer) -> Work:
    numbers = c.batch * c.matsize**2 * c.channels
    return passing(c, 8 * numbers, numbers, numbers, 2 * c.channels)


def _norm_jax(jax: Any, channels: int, axes: tuple[int, ...], given: bool = False) -> InJax:
    """Return a norm over axes, by their mean and variance or by given ones."""

    def run(p: dict[str, Any], x: Any) -> Any:
        mean = p["mean"] if given else x.mean(axes, keepdims=True)
        variance = p["variance"] if given else x.var(axes, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + _EPSILON) * p["w"] + p["b"]

    names = ("w", "b", "mean", "variance") if given else ("w", "b")
    return run, {name: Input((channels,), positive=name == "variance") for name in names}


def _embedding(c: Layer) -> Work:
    """Return the work of gathering rows; training writes a gradient of the whole table and updates it all."""
    taken = c.batch * c.length * c.dim_output
    return passing(c, taken, taken, taken, 0 * c.batch, updated=c.dim_input * c.dim_output)


_MEMORY = (
    Kind(
        "elementwise",
        (*_ROWS, Column("op", values=(*_TWO_ARRAYS, *_ONE_ARRAY)), _OPTIMIZER),
        _elementwise,
        _elementwise_inputs,
        _elementwise_torch,
        _elementwise_jax,
    ),
    Kind(
        "softmax",
        (*_ROWS, _OPTIMIZER),
        lambda c: passing(c, 5 * c.B * c.H, c.B * c.H, c.B * c.H, 0 * c.B, row=c.H),
        shaped("B H"),
        torch=lambda torch, layer: torch.nn.Softmax(-1),
        jax=lambda jax, layer: (lambda p, x: jax.nn.softmax(x, -1), {}),
    ),
    Kind(
        "layernorm",
        (*_ROWS, _OPTIMIZER),
        lambda c: passing(c, 8 * c.B * c.H, c.B * c.H, c.B * c.H, 2 * c.H, row=c.H),
        shaped("B H"),
        torch=lambda torch, layer: torch.nn.LayerNorm(layer.H),
        jax=lambda jax, layer: _norm_jax(jax, layer.H, (-1,)),
    ),
    Kind(
        "batchnorm",
        (_BATCH, _SIDE._replace(drawn=(2, 512)), _MORE, _OPTIMIZER),
        _batchnorm,
        images("batch", "channels", "matsize"),
        torch=lambda torch, layer: torch.nn.BatchNorm2d(layer.channels),
        jax=lambda jax, layer: _norm_jax(jax, layer.channels, (0, 1, 2), layer.optimizer == "None"),
    ),
    Kind(
        "pooling",
        (*_SQUARE, _MORE, _STRIDES, _PADDING, _POOL, _OPTIMIZER),
        _pooling,
        images("batch", "channels", "matsize"),
        _pooling_torch,
        _pooling_jax,
        most_flops=1e9,
    ),
    Kind(
        "embedding",
        (
            *_sizes(_LONG, batch=(1, 256), length=(1, 512)),
            Column("dim_input", _WIDE, (2, 1 << 20)),
            Column("dim_output", _LONG, (1, 2048)),
            _OPTIMIZER,
        ),
        _embedding,
        inputs=shaped("batch length", below="dim_input"),
        torch=lambda torch, layer: torch.nn.Embedding(layer.dim_input, layer.dim_output),
        jax=lambda jax, layer: (lambda p, x: p["w"][x], {"w": Input((layer.dim_input, layer.dim_output))}),
        held=lambda c: c.dim_input * c.dim_output,
    ),
)

KINDS = {kind.name: kind for kind in (*_IMAGES, *_PRODUCTS, *_MEMORY)}
"""Known kinds by name."""


def _named(name: str) -> Kind:
    return KINDS[name]


copyreg.pickle(Kind, lambda kind: (_named, (kind.name,)))  # its functions cannot be pickled
