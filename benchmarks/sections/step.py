"""A training step of the first place's layout model beside PyTorch's: same weights, same loss, in turn."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from .. import layout, timing, workloads
from ..context import Context
from ..process import ChildError, Reply
from ..record import Record
from ..roof import Sizes, layout_flops

TITLE = "Training step"
ABOUT = (
    "The first place's layout model: 215,013 parameters with attention across the configs of a slate, "
    "460,577 without (`-plain`). Dropout, pairwise hinge, clipping and AdamW are in the time. S is "
    "AlexNet, the others are synthetic; all are pruned before, so both sides see the same N, E, C. f32 "
    "is compared with PyTorch's f32, bf16 with its bf16 (autocast), eager or compiled, whichever is "
    "faster if compiled was measured. *Peak memory* is that of the whole process (VmHWM) in which one "
    "side takes three steps. *Untuned* is PyTorch with glibc's default allocator."
)
DEFAULT = ("tiny", "S", "S-plain", "M", "M-plain", "M64", "L64")
LARGE = ("L", "FULL")  # the peer with its tuned allocator does not fit: it is measured untuned, one step

REQUIRED = {
    ("S", "f32"): 4, ("S", "bf16"): 5, ("M", "f32"): 4, ("M", "bf16"): 5, ("M-plain", "f32"): 2.5,
    ("M-plain", "bf16"): 4, ("L64", "f32"): 4, ("L64", "bf16"): 5, ("L", "f32"): 6, ("L", "bf16"): 10,
    ("FULL", "f32"): 6, ("FULL", "bf16"): 10,
}  # fmt: skip
REQUIRED_MEMORY = {"M": 10, "L64": 10, "FULL": 8}
REQUIRED_THREADS = 1.9

# Untuned PyTorch 2.13 f32, huge pages for large blocks, one step, measured on 2026-11-21 on two cores of an
# AMD EPYC (family 25, model 17): for machines without the memory (or time) for it. Milliseconds, bytes.
STORED = {"L": (23462.0, int(14.72 * 2**30)), "FULL": (31374.0, int(18.29 * 2**30))}


# ---- in child processes -----------------------------------------------------------------------------------


def race(
    name: str, precision: str, threads: int, rounds: int, budget: float, peers: bool, compiled: bool = False
) -> dict[str, Any]:
    """Times of ours (also on one thread) and of the peer in one precision."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    ours = layout.Ours(name)
    sides: dict[str, layout.Call] = {}
    if layout.works(ours.stepper(precision)):
        sides["ours"] = ours.stepper(precision)
        if threads > 1:
            sides["ours, 1 thread"] = ours.stepper(precision, threads=1)
    if peers:
        layout.setup_torch(threads)
        for kind in ("eager", "compiled")[: 1 + compiled]:
            peer = layout.Peer(
                ours.arrays, ours.runtimes, ours.cross, ours.model(), kind == "compiled", precision=precision
            )
            sides[f"PyTorch {precision} {kind}"] = peer.step
    sizes = Sizes.of(ours.arrays, len(ours.runtimes))
    losses = {side: step() for side, step in sides.items()}  # of the first step, by equal weights
    return {
        "sizes": vars(sizes),
        "flops": layout_flops(sizes, ours.cross),
        "losses": losses,
        "times": timing.race(sides, rounds, budget),
    }


def ours_alone(name: str, threads: int, steps: int, precision: str = "f32") -> dict[str, Any]:
    """Steps of ours: their seconds (the first is a warm-up)."""
    from tpugraphs import _core

    _core.set_num_threads(threads)
    step = layout.Ours(name).stepper(precision)
    return {"times": [timing.once(step) for _ in range(steps)]}


def peer_alone(name: str, threads: int, steps: int, precision: str = "f32") -> dict[str, Any]:
    """The same for the peer."""
    arrays, runtimes = workloads.load(name)
    layout.setup_torch(threads)
    step = layout.Peer(arrays, runtimes, workloads.crosses(name), precision=precision).step
    return {"times": [timing.once(step) for _ in range(steps)]}


# ---- records ----------------------------------------------------------------------------------------------


def run(context: Context) -> Iterator[Record]:
    """All workloads asked for; one that fails does not stop the others."""
    default = ["tiny"] if context.quick else list(DEFAULT)
    for name in filter(context.can, context.workloads or default):
        with context.attempt(f"step {name}"):
            yield from _large(context, name) if name in LARGE else _usual(context, name)


def _race(context: Context, name: str, precision: str, peers: bool, rounds: int) -> dict[str, Any]:
    """One precision in a process: two peers would not fit into memory together on the larger workloads."""
    found: dict[str, Any] = context.call(
        "sections.step:race",
        name=name,
        precision=precision,
        threads=context.threads,
        rounds=rounds,
        budget=context.budget,
        peers=peers,
        compiled=context.compile and peers,
    ).value
    return found


def _usual(context: Context, name: str) -> Iterator[Record]:
    races = {p: _race(context, name, p, context.peers, context.rounds) for p in layout.TRAINING}
    for precision, found in races.items():
        peer = timing.fastest(found["times"], [side for side in found["times"] if "PyTorch" in side])
        yield _record(context, found, name, precision, peer)
    facts = races["f32"]["sizes"] | {"workload": name, "threads": context.threads}
    for precision, found in races.items():
        if "ours, 1 thread" in found["times"]:
            yield _threads(context, found["times"], name, precision, facts)
    if not context.peers:
        return
    sizes = {"name": name, "threads": context.threads, "steps": 2 if context.quick else 4}
    ours = context.call("sections.step:ours_alone", settings="own", alone=True, **sizes)
    peer = context.call("sections.step:peer_alone", settings="default", alone=True, **sizes)
    mine, theirs = (statistics.median(reply.value["times"][1:]) for reply in (ours, peer))
    yield Record(
        "step",
        f"{name} f32, untuned",
        1e3 * mine,
        1e3 * theirs,
        "PyTorch f32, default allocator",
        notes=f"each alone, in a user's settings, median of {sizes['steps'] - 1}",
        facts=facts | {"precision": "f32", "kind": "untuned"},
    )
    yield _memory(context, name, facts, ours)


def _size(sizes: dict[str, Any]) -> str:
    return f"N={sizes['nodes']} E={sizes['edges']} K={sizes['configurable']} C={sizes['configs']}"


def _record(context: Context, found: dict[str, Any], name: str, precision: str, peer: str | None) -> Record:
    times, losses = found["times"], found["losses"]
    notes = [_size(found["sizes"]), f"{found['flops'] / 1e9:.1f} GFLOP"]
    if "ours" not in times:
        notes.append("not supported by this build or processor")
    else:
        notes.append(f"{len(times['ours'])} rounds")
        if peer:
            notes.append(f"first losses {losses['ours']:.4f}, {losses[peer]:.4f}")
    return Record(
        "step",
        f"{name} {precision}",
        timing.scaled(timing.median(times, "ours"), 1e3),
        timing.scaled(timing.median(times, peer or ""), 1e3),
        peer or "",
        ratio=timing.ratio(times, "ours", peer or ""),
        required=REQUIRED.get((name, precision)),
        roof=context.roof_ms(found["flops"], precision),
        notes="; ".join(notes),
        facts=found["sizes"]
        | {"workload": name, "precision": precision, "kind": "step", "flops": found["flops"]},
    )


def _threads(
    context: Context, times: timing.Times, name: str, precision: str, facts: dict[str, Any]
) -> Record:
    return Record(
        "step",
        f"{name} {precision}, {context.threads} threads",
        timing.scaled(timing.median(times, "ours"), 1e3),
        timing.scaled(timing.median(times, "ours, 1 thread"), 1e3),
        "ours, 1 thread",
        ratio=timing.ratio(times, "ours", "ours, 1 thread"),
        required=REQUIRED_THREADS if context.threads == 2 and name in ("M", "M-plain", "L64") else None,
        facts=facts | {"precision": precision, "kind": "threads"},
    )


def _memory(context: Context, name: str, facts: dict[str, Any], ours: Reply) -> Record:
    """Ours in a user's settings, the peer with the tuned allocator."""
    peer = context.try_alone("sections.step:peer_alone", name=name, threads=context.threads, steps=3)
    other, notes = (
        (None, "the peer ran out of memory") if isinstance(peer, ChildError) else (peer.peak_bytes, "")
    )
    return Record(
        "step",
        f"{name} f32, peak memory",
        ours.peak_bytes / 2**20,
        timing.scaled(other, 2**-20),
        "PyTorch f32, tuned allocator",
        "MiB",
        required=REQUIRED_MEMORY.get(name),
        notes=notes,
        facts=facts | {"precision": "f32", "kind": "memory"},
    )


def _large(context: Context, name: str) -> Iterator[Record]:
    """Too large for PyTorch with the tuned allocator: one step of the untuned one, after a warm-up."""
    races = {p: _race(context, name, p, False, 3) for p in layout.TRAINING}
    found = races["f32"]
    sizes = {"name": name, "threads": context.threads}
    facts = found["sizes"] | {"workload": name, "threads": context.threads}
    peer_ms = peer_bytes = None
    label, notes = "PyTorch f32, default allocator", "one step of the peer"
    if context.peers and not context.stored:
        alone = context.try_alone("sections.step:peer_alone", settings="default", steps=2, **sizes)
        if not isinstance(alone, ChildError):
            peer_ms, peer_bytes = 1e3 * alone.value["times"][-1], alone.peak_bytes
    if peer_ms is None and name in STORED:
        peer_ms, peer_bytes = STORED[name]
        notes = (
            "the peer's figure is STORED, from 2026-11-21 on the machine named in benchmarks/sections/step.py"
        )
    for precision, one in races.items():
        yield Record(
            "step",
            f"{name} {precision}",
            timing.scaled(timing.median(one["times"], "ours"), 1e3),
            peer_ms,
            label,
            required=REQUIRED.get((name, precision)),
            roof=context.roof_ms(found["flops"], precision),
            notes=f"{_size(found['sizes'])}; {found['flops'] / 1e9:.1f} GFLOP; {notes}",
            facts=facts | {"precision": precision, "kind": "step", "flops": found["flops"]},
        )
    ours = context.call("sections.step:ours_alone", settings="own", alone=True, steps=2, **sizes)
    yield Record(
        "step",
        f"{name} f32, peak memory",
        ours.peak_bytes / 2**20,
        timing.scaled(peer_bytes, 2**-20),
        label,
        "MiB",
        required=REQUIRED_MEMORY.get(name),
        notes=notes,
        facts=facts | {"precision": "f32", "kind": "memory"},
    )
