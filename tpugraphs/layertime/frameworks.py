"""Frameworks that run layers to be measured: PyTorch, eager, and JAX, where a step is one compiled function.

Another one has the members of these two, and a row of `FRAMEWORKS`.
"""

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.devices import torch_library
from tpugraphs.layertime.kinds import KINDS, Input
from tpugraphs.system import machine, optional

Step = Callable[[], Any]
"""Runs a layer once, forward or in training, and returns when that is done."""

_RATE = 1e-6  # of all optimizers: weights hardly change, however often a step is repeated
_MOMENTUM = {"momentum": 0.9}
# Value of the column -> the optimizer of torch.optim with its options, and that of optax with the defaults
# and initial states of torch.optim.
_OPTIMIZERS: dict[str, tuple[tuple[str, dict[str, float]], tuple[str, dict[str, float]]]] = {
    "SGD": (("SGD", {}), ("sgd", {})),
    "Momentum": (("SGD", _MOMENTUM), ("sgd", _MOMENTUM)),
    "Adagrad": (("Adagrad", {}), ("adagrad", {"initial_accumulator_value": 0.0, "eps": 1e-10})),
    "RMSProp": (("RMSprop", {}), ("rmsprop", {"decay": 0.99, "eps_in_sqrt": False})),
    "Adadelta": (("Adadelta", {}), ("adadelta", {"rho": 0.9, "eps": 1e-6})),
    "Adam": (("Adam", {}), ("adam", {})),
}


class Torch:
    """PyTorch on the CPU or the current GPU."""

    def __init__(self, gpu: bool | None, threads: int | None) -> None:
        self._torch = torch = torch_library(gpu)
        self.version = str(torch.__version__)
        self.gpu = torch.cuda.is_available() if gpu is None else gpu
        self._device = torch.device("cuda" if self.gpu else "cpu")
        self._threads_before = torch.get_num_threads()
        if threads is not None:
            torch.set_num_threads(threads)
        self.threads = int(torch.get_num_threads())  # of the CPU that a layer may take

    def gpu_properties(self) -> Any:
        """Return name and figures of the GPU."""
        return self._torch.cuda.get_device_properties(self._device)

    def optimizer(self, name: str, parameters: Any, lr: float = _RATE) -> Any:
        """Return the optimizer that the column names."""
        (rule, options), _ = _OPTIMIZERS[name]
        return getattr(self._torch.optim, rule)(parameters, lr=lr, **options)

    def forward(self, kind: str, layer: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """Return a layer as a module or function, and the arrays to call it with."""
        torch, rng, sizes = self._torch, np.random.default_rng(0), SimpleNamespace(**layer)
        with torch.random.fork_rng(devices=[]), torch.device(self._device):
            function = KINDS[kind].torch(torch, sizes)
        if layer.get("activation", "None") != "None":
            activation = {"relu": "ReLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}[layer["activation"]]
            function = torch.nn.Sequential(function, getattr(torch.nn, activation)())
        inputs = KINDS[kind].inputs(sizes)
        return function, [torch.from_numpy(one.draw(rng)).to(self._device) for one in inputs]

    def step(self, kind: str, layer: Mapping[str, Any]) -> Step:
        """Build a layer and its arrays."""
        torch = self._torch
        function, inputs = self.forward(kind, layer)
        is_module = isinstance(function, torch.nn.Module)
        wait = torch.cuda.synchronize if self.gpu else lambda: None
        if layer["optimizer"] == "None":
            if is_module:
                function.eval()

            def forward() -> None:
                with torch.no_grad():
                    function(*inputs)
                wait()

            return forward
        for one in inputs:
            one.requires_grad_(one.is_floating_point())
        weights = list(function.parameters()) if is_module else []
        update = self.optimizer(layer["optimizer"], weights) if weights else None
        with torch.no_grad():
            shape = tuple(function(*inputs).shape)
        gradient = torch.from_numpy(Input(shape).draw(np.random.default_rng(1))).to(self._device)

        def train() -> None:
            for one in (*inputs, *weights):
                one.grad = None
            torch.autograd.backward(function(*inputs), gradient)
            if update is not None:
                update.step()
            wait()

        return train

    def close(self) -> None:
        """Restore the settings of the process."""
        self._torch.set_num_threads(self._threads_before)


class Jax:
    """JAX on the CPU or its first GPU."""

    def __init__(self, gpu: bool | None, threads: int | None) -> None:
        todo = "is not installed: pip install tpugraphs[jax]"
        jax, optax = optional("jax", f"JAX {todo}"), optional("optax", f"optax {todo}")
        self._jax, self._optax, self.version = jax, optax, str(jax.__version__)
        self.gpu = jax.default_backend() == "gpu" if gpu is None else gpu
        self.threads = machine.usable_processors()
        try:
            self._device = jax.devices("gpu" if self.gpu else "cpu")[0]
        except RuntimeError as error:
            raise ConfigError(f"gpu: expected a GPU that JAX can use, found none ({error})") from None
        if threads is not None and not self.gpu and threads != self.threads:
            todo = f"start Python on {threads} of them with `taskset`, or leave threads out"
            all_of_them = f"all {self.threads} processors that the process may use"
            raise ConfigError(f"threads: JAX takes {all_of_them}, and no setting changes that; {todo}")

    def gpu_properties(self) -> Any:
        """Return the name of the GPU; JAX does not report its bandwidth or peak."""
        return SimpleNamespace(name=str(self._device.device_kind))

    def forward(self, kind: str, layer: Mapping[str, Any]) -> tuple[Any, dict[str, Any], list[Any]]:
        """Return a layer as a function of weights and inputs, with both."""
        rng, jax, sizes = np.random.default_rng(0), self._jax, SimpleNamespace(**layer)
        plain, weights = KINDS[kind].jax(jax, sizes)
        activation = getattr(jax.nn, layer.get("activation", "None"), lambda y: y)

        def function(weights: Any, *inputs: Any) -> Any:
            return activation(plain(weights, *inputs))

        drawn = {name: _scaled(one.draw(rng)) for name, one in weights.items()}
        inputs = [one.draw(rng, for_jax=True) for one in KINDS[kind].inputs(sizes)]
        return function, jax.device_put(drawn, self._device), jax.device_put(inputs, self._device)

    def step(self, kind: str, layer: Mapping[str, Any]) -> Step:
        """Build a layer and its arrays."""
        jax = self._jax
        function, weights, inputs = self.forward(kind, layer)
        if layer["optimizer"] == "None":
            compiled = jax.jit(function)
            return lambda: jax.block_until_ready(compiled(weights, *inputs))
        optimizer = self.optimizer(layer["optimizer"])
        whole = jax.jit(self.training(function, optimizer), donate_argnums=(0, 1))
        shape = jax.eval_shape(function, weights, *inputs).shape
        gradient = jax.device_put(Input(shape).draw(np.random.default_rng(1)), self._device)
        state = jax.device_put(optimizer.init(weights), self._device)
        kept = [weights, state]  # the step reuses their memory, and returns them

        def train() -> None:
            kept[0], kept[1], *rest = whole(*kept, inputs, gradient)
            jax.block_until_ready((kept, rest))

        return train

    def optimizer(self, name: str, rate: float = _RATE) -> Any:
        """Return the optimizer that the column names."""
        _, (rule, options) = _OPTIMIZERS[name]
        return getattr(self._optax, rule)(rate, **options)

    def training(self, function: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
        """Return a function of weights, optimizer state, inputs and gradient that does a whole step.

        The outputs are among its results: otherwise the compiler would drop what the gradients do not need.
        """
        jax, optax = self._jax, self._optax

        def step(weights: Any, state: Any, inputs: list[Any], gradient: Any) -> tuple[Any, ...]:
            floats = [i for i, one in enumerate(inputs) if one.dtype == np.float32]

            def layer(weights: Any, given: list[Any]) -> Any:
                merged = dict(enumerate(inputs)) | dict(zip(floats, given, strict=True))
                return function(weights, *merged.values())

            y, pull = jax.vjp(layer, weights, [inputs[i] for i in floats])
            slopes, rest = pull(gradient)
            updates, state = optimizer.update(slopes, state, weights)
            return optax.apply_updates(weights, updates), state, y, rest

        return step

    def close(self) -> None:
        """Do nothing: there are no settings to restore."""


def _scaled(weights: Any) -> Any:
    """Return weights that make outputs about as large as inputs."""
    return weights / np.float32(math.sqrt(math.prod(weights.shape[:-1])))


FRAMEWORKS: dict[str, type[Torch] | type[Jax]] = {"torch": Torch, "jax": Jax}
"""Frameworks that layers can run in, by name."""
