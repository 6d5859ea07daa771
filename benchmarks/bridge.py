"""The bridge to PyTorch: its cost next to the bare kernels, its gain next to PyTorch's own functions.

Forward and backward of an op or a loss, on three sides in turn: `tg.kernels` over arrays, `tg.torch` over
tensors, and PyTorch (or PyG) doing the same job, which is compared first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import machine, process, timing

SIDES = ("kernels", "bridge", "PyTorch")
Function = Callable[..., Any]


def ops(torch: Any, small: bool) -> Iterator[tuple[str, str, list[Any], Function]]:
    """Name of an op, what it is given, its tensors, and the same by PyTorch."""
    fn = torch.nn.functional
    large, configs = (20, 2) if small else (4000, 64)
    for rows, width in ((8, 8), (large, 64), (large, 256)):
        tensors = [torch.randn(rows, width), torch.randn(width, width) / width**0.5, torch.randn(width)]
        yield "linear", f"{rows:,} x {width} to {width}", tensors, fn.linear
    x, weight, bias = tensors
    yield "linear", "the same, float64", [x.double(), weight.double(), bias.double()], fn.linear
    yield "linear", "the same, not contiguous", [x.T.contiguous().T, weight, bias], fn.linear
    yield "gelu", f"{large:,} x 256", [x], fn.gelu
    norm = [x, torch.ones(256), torch.zeros(256)]
    yield "layer_norm", f"{large:,} x 256", norm, lambda x, w, b: fn.layer_norm(x, (256,), w, b)
    nodes = large // 4
    edges = torch.randint(0, nodes, (2, 2 * nodes))
    from torch_geometric.nn import SAGEConv

    conv = SAGEConv(64, 64)

    def sage(x: Any, edges: Any, w_l: Any, b_l: Any, w_r: Any) -> Any:
        weights = {"lin_l.weight": w_l, "lin_l.bias": b_l, "lin_r.weight": w_r}
        shape = x.shape  # PyG has the nodes in the last dimension but one
        wide = x.movedim(0, -2) if len(shape) == 3 else x
        y = torch.func.functional_call(conv, weights, (wide, edges))
        return y.movedim(-2, 0) if len(shape) == 3 else y

    weights = [torch.randn(64, 64) / 8, torch.randn(64), torch.randn(64, 64) / 8]
    for shape, what in (((nodes, 64), ""), ((nodes, configs, 64), f", {configs} configs")):
        name = f"{nodes:,} nodes, {2 * nodes:,} edges{what}, 64 to 64"
        yield "sage_conv", name, [torch.randn(shape), edges, *weights], sage


def losses(torch: Any, small: bool) -> Iterator[tuple[str, int, Function]]:
    """Name of a loss, the length of its list, and the same by PyTorch."""
    fn = torch.nn.functional

    def hinge(s: Any, t: Any) -> Any:
        pairs = t[:, None] > t
        return ((1 - (s[:, None] - s)).clamp(min=0) * pairs).sum() / len(s) ** 2

    def list_mle(s: Any, t: Any) -> Any:
        ranked = s[t.argsort(descending=True)]
        return (ranked.flip(0).logcumsumexp(0).flip(0) - ranked).sum()

    for length in (10,) if small else (128, 2000):
        yield "pairwise_hinge", length, hinge
        yield "list_mle", length, list_mle
        yield "mse", length, lambda s, t: fn.mse_loss(s, t.to(s.dtype))


def of_op(torch: Any, name: str, tensors: list[Any], theirs: Function) -> dict[str, Function]:
    """Forward and backward on every side; both of tensors must give the same."""
    import tpugraphs as tg

    leaves = [tensor.requires_grad_() if tensor.is_floating_point() else tensor for tensor in tensors]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    bridge = tg.torch.bridge
    arrays = [bridge.as_array("x", leaf) for leaf in leaves]
    arrays = [array if array.dtype.kind == "f" else bridge.by_edge(array) for array in arrays]
    forward, backward = getattr(tg.kernels, name), getattr(tg.kernels, f"{name}_backward")
    dy = torch.randn(forward(*arrays).shape, dtype=wanted[0].dtype)
    start = dy.float().numpy()

    def of(function: Function) -> Function:
        return lambda: torch.autograd.grad(function(*leaves), wanted, dy)

    sides = {
        "kernels": lambda: (forward(*arrays), backward(start, *arrays)),
        "bridge": of(getattr(tg.torch, name)),
        "PyTorch": of(theirs),
    }
    for ours, other in zip(sides["bridge"](), sides["PyTorch"](), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))
    return sides


def of_loss(torch: Any, name: str, length: int, theirs: Function) -> dict[str, Function]:
    """Value and gradient on every side; both of tensors must give the same."""
    import tpugraphs as tg

    scores, order = torch.randn(length, requires_grad=True), torch.randperm(length)
    targets = order.double() if name == "mse" else order
    arrays, kernel = (scores.detach().numpy(), targets.numpy()), getattr(tg.kernels, name)

    def of(function: Function) -> Function:
        return lambda: torch.autograd.grad(function(scores, targets), scores)

    sides = {
        "kernels": lambda: kernel(*arrays),
        "bridge": of(getattr(tg.torch, name)),
        "PyTorch": of(theirs),
    }
    torch.testing.assert_close(sides["bridge"](), sides["PyTorch"](), rtol=1e-3, atol=1e-6)
    return sides


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Let both use one thread; as many as before afterwards."""
    import tpugraphs as tg

    before = tg.get_num_threads(), torch.get_num_threads()
    tg.set_num_threads(1)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[1])
        tg.set_num_threads(before[0])


def measure(rounds: int, small: bool = False) -> list[dict[str, Any]]:
    """Measure all rows on one thread: medians in seconds of it, and ratios as medians over rounds."""
    import torch

    with one_thread(torch):
        return _measure(torch, rounds, small)


def _measure(torch: Any, rounds: int, small: bool) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    cases = [
        (f"`{name}`, {what}", of_op(torch, name, tensors, theirs))
        for name, what, tensors, theirs in ops(torch, small)
    ]
    cases += [
        (f"`{name}`, {length:,} scores", of_loss(torch, name, length, theirs))
        for name, length, theirs in losses(torch, small)
    ]
    rows = []
    for case, sides in cases:
        least = 1e-3 if small else 0.01
        times = timing.race(sides, rounds, budget=20.0, least=least, clock=time.process_time)
        rows.append(
            {
                "case": case,
                **{side: statistics.median(times[side]) for side in SIDES},
                "cost": timing.ratio(times, "kernels", "bridge"),
                "gain": timing.ratio(times, "bridge", "PyTorch"),
            }
        )
    return rows


def text(rows: list[dict[str, Any]]) -> str:
    """The page of results."""
    about = machine.describe()
    packages = ", ".join(f"{name} {version}" for name, version in sorted(about["packages"].items()))
    share = about["busy"]
    busy = "" if share is None else f"Other work took {share:.0%} of the processors' time after the run."
    head = [
        "# The bridge to PyTorch",
        "",
        "Made by `python -m benchmarks.bridge --out docs/results/bridge.md`; figures are not edited. Forward "
        "and backward, in turn in one process, PyTorch with a tuned allocator: processor time on one thread. "
        "Cost: the time of `tg.torch` over that of the bare kernels, which make all gradients. Gain: "
        "PyTorch's time over that of `tg.torch`. Both are medians over rounds.",
        "",
        f"{about['cpu']}; {packages}. {busy}",
        "",
        "| | `tg.kernels`, µs | `tg.torch`, µs | PyTorch, µs | cost | gain |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines = [
        f"| {row['case']} | {' | '.join(f'{1e6 * row[side]:,.0f}' for side in SIDES)} "
        f"| {row['cost']:.2f} | {row['gain']:.2f} |"
        for row in rows
    ]
    return "\n".join([*head, *lines]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bridge", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page of results there")
    parser.add_argument("--json", action="store_true", help="print all figures")
    args = parser.parse_args(arguments)
    rows = process.call("bridge:measure", settings="one thread", rounds=args.rounds).value
    page = text(rows)  # once: it looks at what else the machine does
    print(json.dumps(rows, indent=1) if args.json else page, end="")
    if args.out is not None:
        args.out.write_text(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
