"""Steps of small networks, predicted from their layers, against their measured times.

``python -m benchmarks.layertime_networks`` runs forward and training steps of three networks in PyTorch on
one thread, predicts them with the models that come with the package, without and with the fixed cost that
a step of the same network with one sample shows, and prints a line each; with ``--out DIR`` it writes
``layertime-networks.md`` there. On another processor than the one of the package's table the models are
calibrated first, by layers that are measured then.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import tpugraphs as tg
from tpugraphs.layertime import Device, LayerTimeModel
from tpugraphs.system.files import atomic_write

from . import machine

SEEN = tg.layertime.measured_layers("dense").devices[0]
KINDS = (
    "conv2d", "depthwise", "dense", "attention", "elementwise", "layernorm", "batchnorm", "pooling",
    "embedding",
)  # fmt: skip
CALIBRATED_BY = 40  # layers of every kind
LIKE = 0.25  # how far the peak of the same processor may be off
BATCHES = (1, 8, 32)
CALIBRATED = f", calibrated by {CALIBRATED_BY} layers of each kind that were measured here"
OPTIMIZERS = ("None", "SGD", "Adam")
HEAD = (
    "network", "batch", "step", "measured ms", "predicted ms", "80 % interval", "error",
    "with fixed cost", "error",
)  # fmt: skip


def networks(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Return modules by name, and what makes an input for a batch of a size."""
    nn = torch.nn

    def cnn() -> Any:
        blocks = [
            part
            for cin, cout in ((3, 32), (32, 64), (64, 128))
            for part in (nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        ]
        return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))

    def mobile() -> Any:
        parts = [nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()]
        for cin, cout, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)):
            parts += [nn.Conv2d(cin, cin, 3, stride, 1, groups=cin), nn.BatchNorm2d(cin), nn.ReLU()]
            parts += [nn.Conv2d(cin, cout, 1), nn.BatchNorm2d(cout), nn.ReLU()]
        return nn.Sequential(*parts, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(256, 10))

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix = nn.MultiheadAttention(width, 4, batch_first=True)
            self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            seen = self.before(x)
            x = x + self.mix(seen, seen, seen, need_weights=False)[0]
            return x + self.wide(self.after(x))

    def transformer() -> Any:
        return nn.Sequential(nn.Embedding(5000, 256), Block(256), Block(256), nn.Linear(256, 64))

    return {
        "three convolutions, two dense": (cnn(), lambda n: torch.randn(n, 3, 32, 32)),
        "separable convolutions, batch norm": (mobile(), lambda n: torch.randn(n, 3, 64, 64)),
        "two transformer blocks": (transformer(), lambda n: torch.randint(5000, (n, 128))),
    }


def measured_ms(torch: Any, module: Any, inputs: Any, optimizer: str, repeats: int) -> float:
    """Return the median time of a step."""
    made = {"SGD": lambda p: torch.optim.SGD(p, 1e-3), "Adam": lambda p: torch.optim.Adam(p, 1e-3)}
    update = made[optimizer](module.parameters()) if optimizer != "None" else None
    module.train(update is not None)

    def step() -> None:
        if update is None:
            with torch.no_grad():
                module(inputs)
            return
        update.zero_grad(set_to_none=True)
        module(inputs).mean().backward()
        update.step()

    times = []
    for i in range(repeats + 3):
        began = time.perf_counter()
        step()
        if i >= 3:
            times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def same(here: Device) -> bool:
    """Whether this is the processor of the package's table: in a cloud others have its name."""
    return here.name == SEEN.name and abs(here.peak_gflops / SEEN.peak_gflops - 1) < LIKE


def models(device: Device) -> dict[str, LayerTimeModel]:
    """Return models for this processor, calibrated unless it is the one of the package's table."""
    found = {kind: tg.layertime.load_models("pytorch-cpu")[kind] for kind in KINDS}
    if device.name != SEEN.name:
        for kind, model in found.items():
            layers = tg.layertime.measured_layers(kind)
            columns = {name: list(values) for name, values in layers.columns.items()}
            chosen = model.suggest(CALIBRATED_BY, columns, device)
            few = layers.take(chosen)
            model.calibrate(tg.layertime.measure(kind, "torch", layers=few, device=device, threads=1))
    return found


class Step(NamedTuple):
    """A measured step, and its time predicted from its layers."""

    network: str
    layers: Any
    ms: float
    found: tg.layertime.Estimate


def fixed_cost(step: Step, steps: list[Step]) -> tg.layertime.StepCost:
    """Return what a step of the same network with one sample says."""
    (one,) = (
        other
        for other in steps
        if other.network == step.network
        and other.found.batch_size == 1
        and other.found.optimizer == step.found.optimizer
    )
    return tg.layertime.calibrate_network([one.found], [one.ms])


def cells(step: Step, more: tg.layertime.Estimate, errors: list[float]) -> tuple[str, ...]:
    """Return a row of the page."""
    found, (low, high) = step.found, step.found.interval
    kind = "forward" if found.optimizer == "None" else f"training, {found.optimizer}"
    first = (step.network, f"{found.batch_size}", kind, f"{step.ms:.2f}", f"{found.ms:.2f}")
    return (
        *first,
        f"{low:.2f} to {high:.2f}",
        f"{errors[0]:+.0f} %",
        f"{more.ms:.2f}",
        f"{errors[1]:+.0f} %",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30, help="of every step")
    parser.add_argument("--out", type=Path, help="write layertime-networks.md here")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    tg.set_num_threads(1)
    here = tg.layertime.this_device(1)
    device = SEEN if same(here) else replace(here, name="this machine")
    known, steps = models(device), []
    for name, (module, inputs) in networks(torch).items():
        for batch in BATCHES:
            layers = tg.layertime.read_layers(module, inputs(batch))
            for optimizer in OPTIMIZERS:
                whole = measured_ms(torch, module, inputs(batch), optimizer, args.repeats)
                found = tg.layertime.network_time(known, layers, batch, optimizer, device)
                steps.append(Step(name, layers, whole, found))
                print(name, batch, optimizer, f"{whole:.2f} {found.ms:.2f}", sep="  ", flush=True)
    rows, errors = [], []
    for step in steps:
        cost = fixed_cost(step, steps)
        more = tg.layertime.network_time(
            known, step.layers, step.found.batch_size, step.found.optimizer, device, **cost._asdict()
        )
        errors.append([100 * (one.ms / step.ms - 1) for one in (step.found, more)])
        rows.append(cells(step, more, errors[-1]))
    means = [statistics.mean(map(abs, column)) for column in zip(*errors, strict=True)]
    large = [error for step, error in zip(steps, errors, strict=True) if step.found.batch_size > 1]
    beyond = [statistics.mean(map(abs, column)) for column in zip(*large, strict=True)]
    mean = (
        f"Mean of the errors' sizes: {means[0]:.0f} %; at batches 8 and 32 {beyond[0]:.0f} %, with the fixed "
        f"cost {beyond[1]:.0f} %."
    )
    print(mean)
    if args.out:
        command = " ".join(["python -m benchmarks.layertime_networks", *sys.argv[1:]])
        page = [
            "# Times of small networks from their layers",
            "",
            f"Made by `{command}` on {machine.describe()['cpu']}, PyTorch {torch.__version__} on one thread:",
            "median step times of whole networks, and the predictions of the models of layers that come with",
            f"the package{'' if device is SEEN else CALIBRATED}. The first prediction is fitted to",
            "no network. That with a fixed cost has what `calibrate_network` finds in the step of the same",
            "network at batch 1, a time that grows with neither work nor batch; so larger batches judge it.",
            "",
            *(f"| {' | '.join(row)} |" for row in (HEAD, ("---", *["---:"] * 8), *rows)),
            "",
            mean,
            "",
        ]
        with atomic_write(args.out / "layertime-networks.md") as file:
            file.write("\n".join(page).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
