"""Files of scorers and layer models, changed at random: an error that names the file, or finite scores.

Digests of a mutated file agree with it, as whoever makes such a file sees to that. By hand, for many more and in
pieces, from this folder: ``python test_mutated_files.py KIND FIRST COUNT``.
"""

import functools
import resource
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from broken.mutations import mutated
from broken.rankers import changed, rewrite
from rankers import small_any, small_graph, small_ranker, small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs.ranker import (
    GaussianProcess,
    LinearBaseline,
    MeanEffect,
    MultiTaskGaussianProcess,
    RandomBaseline,
)

SECONDS = 20  # that opening a file and scoring may take, at most
LAYERS = {"batch": [8, 16, 32, 64] * 10, "dim_input": list(range(100, 140)), "dim_output": [64] * 40}
TABLE = {**LAYERS, "ms": [0.1 + 0.001 * i for i in range(40)], "device": ["K40", "V100"] * 20}


def ranker(recipe, graph, **fields):
    return small_ranker(recipe, steps=1, **fields).fit(graph, verbose=False)


def own():
    model = tg.Model()
    x = model.linear(model.config_feat, out=8, act="silu")
    model.linear(x, out=1, to="scores")
    return tg.Ranker(model.recipe("own"), steps=1).fit(small_any(), verbose=False)


def layers(method, **fields):
    model = tg.layertime.LayerTimeModel("dense", method=method, **fields).fit(TABLE)
    few = {name: values[:5] for name, values in TABLE.items() if name != "device"}
    return model.calibrate({**few, "device": ["T4"] * 5})


MADE = {
    "layout": lambda: ranker("first-layout-cross", small_graph()),
    "tile": lambda: ranker("first-tile", small_tile()),
    "graph": lambda: ranker("graph-config", small_any(), width=8),
    "transformer": lambda: ranker("fifth-tile", small_tile()),
    "convolutions": lambda: ranker("sixth-gin", small_graph()),
    "segments": lambda: ranker("seventh-gst", small_graph()),
    "own": own,
    "ensemble": lambda: tg.Ensemble([own(), LinearBaseline().fit(small_any())]),
    "routed": lambda: tg.Routed({"graph": own(), "*": RandomBaseline()}),
    "process": lambda: GaussianProcess(own()).fit(small_any(configs=12)),
    "multitask": lambda: MultiTaskGaussianProcess().fit([small_any(configs=12), small_any(1, configs=12)]),
    "mean": lambda: MeanEffect().fit([small_any(configs=12)]),
    "linear-layout": lambda: LinearBaseline().fit(small_graph()),
    "linear-tile": lambda: LinearBaseline().fit(small_tile()),
    "random": lambda: RandomBaseline(1),
    "roofline": lambda: layers("roofline"),
    "residual": lambda: layers("residual", steps=2, width=8, members=1),
    "mlpredict": lambda: layers("mlpredict", steps=2),
}
GRAPHS = {"layout": small_graph(), "tile": small_tile(), "graph": small_any(), "any": small_any()}


@functools.cache
def file_of(kind):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MADE[kind]().save(Path(folder) / "a.safetensors")
        return (Path(folder) / "a.safetensors").read_bytes()


def outcome(kind, number, path):
    """What becomes of mutation `number`: "error", "scores" or "cannot score"; raises where it must not."""
    path.write_bytes(mutated(np.random.default_rng([number, *kind.encode()]), file_of(kind)))
    is_model = kind in ("roofline", "residual", "mlpredict")
    try:
        found = (tg.layertime.LayerTimeModel.load if is_model else tg.load_ranker)(path)
    except tg.Error as error:
        assert str(path) in str(error), f"does not name the file: {error!r}"
        return "error"
    try:
        if is_model:
            scores = np.concatenate([found.predict(LAYERS, one) for one in ("K40", "T4", "P100")])
            found.predict_interval(LAYERS, 0.8, "T4")
        else:
            scores = found.predict(GRAPHS[found.kind])
    except tg.Error as error:
        assert len(str(error)) < 3000
        return "cannot score"
    assert scores.dtype in (np.float32, np.float64) and np.isfinite(scores).all()
    return "scores"


def late(number, frame):
    raise TimeoutError(f"more than {SECONDS} s")


def run(kind, first, count, path):
    """Outcomes of mutations by their number, and what failed."""
    found, failed = {}, {}
    before = signal.signal(signal.SIGALRM, late)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(first, first + count):
                signal.alarm(SECONDS)
                try:
                    what = outcome(kind, number, path)
                    found[what] = found.get(what, 0) + 1
                except BaseException as error:  # MemoryError, RecursionError, SystemError, Ctrl-C
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    failed[number] = f"{type(error).__name__}: {error}"[:300]
                finally:
                    signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
    return found, failed


@pytest.mark.parametrize("kind", MADE)
def test_a_mutated_file_is_an_error_or_scores(kind, tmp_path):
    found, failed = run(kind, 0, 40, tmp_path / "mutated.safetensors")
    assert not failed
    assert sum(found.values()) == 40 and found.get("error", 0) > 10


# --- what no fit leaves in a file ---------------------------------------------------------------------------------


def damaged(kind, change):
    def made(path):
        path.write_bytes(file_of(kind))
        return rewrite(path, path, change)

    return made


def into(name, value):
    """A change of the first number of a tensor."""

    def change(metadata, tensors):
        tensors[name] = tensors[name].copy()
        tensors[name].reshape(-1)[0] = value

    return change


def kind_of_member(kind):
    return lambda metadata, tensors: metadata["members"][0].update(kind=kind)


def deep(metadata, tensors):
    for _ in range(40):
        inside = {**metadata}
        metadata.clear()
        metadata.update(inside, kind="ensemble", weights=[1.0], normalize="none", members=[inside])


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        *[("linear-layout", into("column", n), "column: expected numbers from 0") for n in (-1, -(2**63))],
        *[("linear-tile", into("column", n), "column: expected numbers from 0 to 23, found others") for n in (-1, 24)],
        *[("linear-layout", into("digit", n), "digit: expected numbers from -1 to 5") for n in (-2, 6, 2**62)],
        *[("linear-tile", into("scale", n), "scale: expected numbers from 1e-100") for n in (0.0, -1.0, 1e-200)],
        *[("linear-tile", into(name, 1e200), f"{name}: expected numbers from -1e.100 to 1e.100") for name in ("weight", "mean")],
        ("linear-tile", changed(intercept=-1e200), "intercept: expected a number below"),
        *[("linear-tile", changed(alpha=n), "alpha: expected a number from 1e-100") for n in (0, -1.0)],
        *[(kind, changed(graphs="graphs"), "graphs: expected one of layout, tile") for kind in ("linear-tile", "random")],
        ("random", changed(seed=-1), "seed: expected a whole number of at least 0"),
        *[(kind, into("column", n), "column: expected numbers from 0") for kind in ("process",) for n in (-1, 99)],
        *[("multitask", into(f"{k}.column", n), "column: expected numbers from 0") for k in ("program", "config") for n in (-1, 99)],
        *[(kind, changed(seed=-1), "seed: expected") for kind in ("layout", "process", "multitask")],
        *[("ensemble", kind_of_member(n), r"members\[0\].kind: expected ensemble, ") for n in ([], {}, 3, "x" * 500)],
        ("random", deep, "members: expected at most 32 scorers inside each other"),
    ],
)  # fmt: skip
def test_numbers_that_no_fit_leaves_in_a_file(kind, change, message, tmp_path):
    path = damaged(kind, change)(tmp_path / "a.safetensors")
    with pytest.raises(tg.CheckpointError, match=message) as caught:
        tg.load_ranker(path)
    assert str(path) in str(caught.value)


def test_scores_beyond_all_range_are_an_error(tmp_path):
    many = tg.Ensemble([LinearBaseline().fit(small_any())] * 2)
    many.rankers[0].intercept = 1e60
    refuses(lambda: many.predict(small_any()), tg.Error, "scores", "finite")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    with tempfile.TemporaryDirectory() as folder:
        print(sys.argv[1:], *run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(folder) / "mutated"))
