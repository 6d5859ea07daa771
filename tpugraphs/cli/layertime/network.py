r"""Predict the time of a step, an epoch and a run of a network, from models of its kinds of layers.

example:
  tpugraphs layertime network pytorch-cpu --layers net.onnx --batch-size 8 --device this --optimizer adam
  tpugraphs layertime network conv2d.safetensors dense.safetensors --layers net.json --batch-size 32 \
      --device V100 --optimizer SGD --samples 50000 --epochs 10
"""

from __future__ import annotations

from typing import Any

import tpugraphs as tg
from tpugraphs.cli.common import Args, Parser, chosen, emit, option, stdin, whole
from tpugraphs.cli.layertime import shared
from tpugraphs.errors import ConfigError
from tpugraphs.system import tables


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    from tpugraphs.layertime.kinds import OPTIMIZERS

    meaning = (
        "from `tpugraphs layertime fit`, one of each kind of layers in the network; or a set of the package: "
        + ", ".join(tg.layertime.MODELS)
    )
    option(parser, "model MODEL", meaning, nargs="+")
    meaning = (
        'the network: a model of ONNX (.onnx), or JSON, a list such as [{"kind": "dense", "dim_input": 784, '
        '"dim_output": 10}]; - reads JSON from standard input'
    )
    option(parser, "--layers FILE", meaning, required=True)
    option(parser, "--size NAME=N ...", "a size that a model of ONNX leaves open")
    meaning = "samples of a step, of all replicas together"
    option(parser, "--batch-size N", meaning, type=whole(1), required=True)
    shared.add_device(parser, "where it runs", required=True)
    meaning = (
        f"forward, backward and update with one of {', '.join(OPTIMIZERS[1:])}, AdamW; None: forward alone"
    )
    option(parser, "--optimizer NAME", meaning, default="None")
    option(parser, "--without NAME ...", "layers to leave out, by name, kind or operator")
    meaning = "divide the sum of the layers by this, see tg.layertime.fit_factor"
    option(parser, "--factor X", meaning, type=float, default=1.0)
    meaning = "fixed cost of a step, and of each layer, in ms, see tg.layertime.calibrate_network"
    option(parser, "--step-ms X", meaning, type=float, default=0.0)
    option(parser, "--layer-ms X", "see --step-ms", type=float, default=0.0)
    shared.add_level(parser)
    option(parser, "--samples N", "samples of an epoch, to show its time, too", type=whole(1, 2**62 - 1))
    option(parser, "--epochs E", "epochs of a run, to show its time, too", type=whole(1, 2**62 - 1))
    group = parser.add_argument_group("several devices")
    option(group, "--replicas N", "devices that share the batch", type=whole(1), default=1)
    meaning = "1e9 bytes per second between them; needed to train with replicas"
    option(group, "--link-gbps X", meaning, type=float)
    option(group, "--latency-ms X", "latency of each turn of the all-reduce", type=float, default=0.0)
    meaning = "share of computing in which gradients are already sent, 0 to 1"
    option(group, "--overlap X", meaning, type=float, default=0.0)


def run(args: Args) -> None:
    """Sum up the layers."""
    if args.epochs is not None and args.samples is None:
        raise ConfigError("--epochs goes with --samples")
    models: dict[str, Any] = {}
    for name in args.model:
        for model in shared.models_of(name):
            if model.kind in models:
                raise ConfigError(f"{name}: a second model of kind {model.kind!r}; give one of each kind")
            models[model.kind] = model
    layers = tg.layertime.read_layers(stdin(args, args.layers), sizes=dict(map(_size, args.size)))
    how = chosen(args, "step_ms", "layer_ms", "replicas", "factor", "link_gbps", "latency_ms")
    how |= chosen(args, "overlap", "level", "without")
    where = shared.device(args.device)
    estimate = tg.layertime.network_time(models, layers, args.batch_size, args.optimizer, where, **how)
    lines, spans = [_text(estimate)], {}
    if args.samples is not None:
        spans["epoch_s"] = estimate.epoch_s(args.samples)
    if args.epochs is not None:
        spans["run_s"] = estimate.run_s(args.samples, args.epochs)
    lines += [f"{name.removesuffix('_s')}: {_time(seconds)}" for name, seconds in spans.items()]
    emit(args, _result(estimate) | spans, "\n".join(lines))


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isascii() or not size.isdigit() or not 0 < len(size) < 10:
        raise ConfigError(f"--size {text}: expected NAME=N, for example sequence=128")
    return name, int(size)


def _text(estimate: tg.layertime.Estimate) -> str:
    """Return a line per layer in the order of the network, and the sum."""
    known = estimate.level is not None
    heads = ["layer", "kind", "ms", *(["low", "high"] if known else []), "%"]
    low, high = estimate.interval
    rows = [(*row[:5], row.share) for row in estimate.per_layer] + [("sum", "", estimate.ms, low, high, 1.0)]
    cells = [
        [name, kind, *(f"{value:.3g}" for value in (times if known else times[:1])), f"{100 * share:.1f}"]
        for name, kind, *times, share in rows
    ]
    return "\n".join((str(estimate).partition("\n")[0], tables.text("", heads, cells)))


def _result(estimate: tg.layertime.Estimate) -> dict[str, Any]:
    names = ("ms", "device", "batch_size", "replicas", "optimizer", "level")
    result = {name: getattr(estimate, name) for name in names}
    low, high = estimate.interval
    result = {"ms": result.pop("ms"), "low_ms": low, "high_ms": high, **result}
    renamed = {"low": "low_ms", "high": "high_ms"}
    layers = [
        {renamed.get(key, key): value for key, value in row._asdict().items()} for row in estimate.per_layer
    ]
    for entry in (result, *layers) if estimate.level is None else ():
        del entry["low_ms"], entry["high_ms"]
    return result | {"layers": layers}


def _time(seconds: float) -> str:
    """Format seconds."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit} ({seconds:.4g} s)"
    return f"{seconds:.3g} s"
