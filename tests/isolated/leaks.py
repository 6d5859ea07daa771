"""Does repeated work keep memory? `python leaks.py WHAT LIMIT` prints the bytes that 10 repetitions left allocated.

The least of up to 40 such windows, until one is below the limit: Python's caches grow now and then, a leak
grows in every window.

Runs in a process of its own with MALLOC_ARENA_MAX=1 and PYTHONMALLOC=malloc, so that glibc's mallinfo2 sees
every byte of C and of Python.
"""

import contextlib
import ctypes
import gc
import importlib.util
import sys
import tempfile
from pathlib import Path

import cases
import hlo_files
import madeup
import models
import numpy as np
from broken import npz
from prepare_cases import BAD_GRAPHS, BAD_STEPS, PROGRAMS, as_graph, stored

import tpugraphs as tg
from tpugraphs import _core


class MallInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def in_use():
    gc.collect()
    sys._clear_type_cache()  # it keeps names that were looked up by other strings, up to 4,096 of them
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
    info = mallinfo()
    return info.uordblks + info.hblkhd


ARGUMENTS = [(case, cases.single(case.arguments())) for case in cases.CASES]
FOLDER = tempfile.TemporaryDirectory()
BROKEN = [npz.npz(npz.layout())[:cut] for cut in (0, 10, 500, 1500)]
BROKEN.append(npz.npz({**npz.layout(), "edge_index": np.full((3, 2), 99)}))


def ops():
    for case, arguments in ARGUMENTS:
        backward = cases.FACES[case.op + "_backward"]
        y = cases.FACES[case.op](**arguments, **case.attrs)
        backward(y, **arguments, **case.attrs)
        with contextlib.suppress(tg.Error):
            backward(y[:0], **arguments, **case.attrs)


def model():
    core = models.Trained(models.zoo(), 1, 11, inputs={"extra": ("CONFIG", 2)}, outputs=("scores",))
    graph = _core.ModelGraph(**models.graph_arrays(9, 6, 3, 11, 0))
    slates = [(graph, np.arange(4, dtype=np.int64))]
    runtimes, extra = [np.arange(4, dtype=np.int64)], {"extra": [np.ones((4, 2), np.float32)]}
    start = [np.ones(4, np.float32)]
    core.gradients(slates, runtimes, inputs=extra, of=["node_feat", "extra", "digits"])
    lists = {"offsets": np.array([0, 2]), "index": np.array([3, 1]), "shift": np.ones(4, np.float32)}
    core.gradients(slates, {"order": runtimes, "weight": start}, inputs=extra, lists=lists)
    core.step(slates, runtimes, models.HINGE, 1e-3, 0.0, 1.0, 1, inputs=extra)
    core.update({"kind": "adamw", "lr": 1e-3, "weight_decay": 0.0, "clip": 1.0, "step": 2})
    core.scores(slates, inputs=extra, workspace=(workspace := _core.Workspace()))
    core.run(slates, ["scores", "m", "node_feat"], extra)
    core.input_gradients(slates, start, ["node_feat", "digits", "extra"], extra, workspace=workspace)
    _core.plan_parameters(models.zoo(), 11)
    _core.plan_slots(models.zoo(), ["scores"], {"more": ("CONFIG", 3)}, 11)
    times = {"time": [np.ones(4)]}

    def own(result):
        core.trainer.gradients(
            slates, times, [{"loss": lambda *given: result(*given)}], inputs=extra, lists=lists
        )

    own(lambda scores, times, offsets: (1.0, scores))
    other = _core.Model(models.zoo(), 1, 11)
    other.share_memory(core.model)
    _ = other.slots, other.layout, other.profile, core.profile
    for wrong in (
        lambda: core.scores(slates),
        lambda: core.scores(slates, inputs={"extra": [np.ones((3, 2), np.float32)]}),
        lambda: core.run(slates, ["scores", "scores"], extra),
        lambda: core.gradients(slates, runtimes, inputs=extra, lists={"offsets": np.array([0, 9])}),
        lambda: core.gradients(slates, {"weight": start}, inputs=extra),
        lambda: core.input_gradients(slates, start, ["nothing"], extra),
        lambda: core.scores([(graph, np.array([99]))], inputs=extra),
        lambda: _core.Trainer(core.model, workspace=3),
        lambda: _core.plan_parameters([*models.zoo()[:3], {}], 11),
        lambda: _core.plan_slots(models.zoo()[:3], ["nothing"], None, 11),
        lambda: _core.plan_slots(models.zoo(), [3], {"more": ("CONFIG", 3)}, 11),
        lambda: _core.plan_slots(models.zoo(), object(), {"more": ("CONFIG", 3)}, 11),
        lambda: own(lambda *given: None),
        lambda: own(lambda *given: (1.0, given[1])),
        lambda: own(lambda *given: ("x", given[0])),
        lambda: own(lambda *given: int("x")),
        lambda: _core.Model(models.zoo(), 1, 11, inputs={"extra": ("UNIQUE", 2)}),
        lambda: _core.Model([*models.zoo()[:3], models.step("nonsense", "x", "p", "scores")], 1, 11),
    ):
        with contextlib.suppress(tg.Error, ValueError, TypeError):
            wrong()
    tile = models.Trained(models.first_tile(width=16, columns=11), 1, 11, config_features=24)
    tile_graph = _core.ModelGraph(**models.tile_arrays(9, 6, 11, 0))
    tile.gradients([(tile_graph, slates[0][1])], runtimes)
    with contextlib.suppress(ValueError):
        tile.scores(slates)
    tg.kernels.ratio_ranks(np.arange(1, 9), np.arange(2, 10))


def store():
    """Prepared graphs, with and without segments, and a store whose keys come and go."""
    graph, rows, kept = (
        _core.ModelGraph(**models.graph_arrays(9, 6, 3, 11, 0)),
        np.arange(2),
        np.array([0, 3, 5]),
    )
    core, kept_values = models.Trained(models.zoo(), 1, 11), _core.Store(nbytes=2)
    whole = _core.Prepared(graph, "g", measured=np.array([3, 1, 2]), kept=kept, segments=4)
    _ = whole.runtimes, whole.across, whole.times, whole.by_runtime, whole.values("percentile")
    core.model.score_prepared(whole.with_configs(np.zeros((2, 3, 18), np.int8)), rows, 1, done=str)
    core.trainer.gradients([(whole, rows, 1)], ("runtime", True), models.HINGE)
    for _ in range(5):
        kept_values.put(np.zeros(3), whole, 1)
        kept_values.put(4, graph, 1)
    for wrong in (
        lambda: _core.Prepared(graph, "g", measured=np.ones(3, np.float32)),
        lambda: core.model.score_prepared(whole, rows, 1, done=lambda count: int("x")),
        lambda: core.model.scores([(whole, rows + 2)]),
        lambda: core.trainer.gradients([(whole, rows)], ("speed", True), models.HINGE),
        lambda: kept_values.put(3.5, graph),
    ):
        with contextlib.suppress(tg.Error, ValueError, TypeError):
            wrong()


def optimizer():
    w, g, moments = np.zeros(99, np.float32), np.ones(99, np.float32), np.zeros((2, 99), np.float32)
    groups = [(0, 9, 0.1, 0.0), (9, 99, 1.0, 0.1)]
    for change in (
        {},
        {"kind": "nonsense"},
        {"groups": [(0, 9, 1.0)]},
        {"groups": 3},
        {"lr": -1.0},
        {"x": 1},
    ):
        described = {"kind": "adam", "lr": 0.1, "step": 1, "groups": groups, **change}
        with contextlib.suppress(tg.Error, TypeError):
            tg.kernels.optimizer_step(described, w, g, moments)
    with contextlib.suppress(tg.Error):
        tg.kernels.optimizer_step({"kind": "sgd", "lr": 0.1, "step": 1}, w, g * np.nan, moments[:1])
    for given in ({}, {"schedule": "nonsense"}, {"decay": -1.0}, 3, [object()]):
        with contextlib.suppress(tg.Error):
            _core.learning_rate(given, 3, 9)


def data():
    tile, layout = madeup.graph("kernel_00"), madeup.graph("program")
    _ = tile.config_feat, layout.node_config_feat[[0, 1]], tg.prune(layout), tg.dedup(layout)


def bad_data():
    path = Path(FOLDER.name) / "g.npz"
    for content in BROKEN:
        path.write_bytes(content)
        with contextlib.suppress(tg.Error):
            tg.load(path)


def packs():
    """Packs, good and broken, and the mapping of files."""
    path = Path(FOLDER.name) / "g.tgpack"
    for name, graph in (("layout", tg.LayoutGraph), ("tile", tg.TileGraph)):
        graph(**getattr(npz, name)(), name=name).save(path)
        content = path.read_bytes()
        read = tg.load(path).validate()
        read.distinct_configs()
        path.write_bytes(content[:-1])
        with contextlib.suppress(tg.Error):
            tg.load(path)
        path.write_bytes(content[:2000] + b"xx" + content[2002:])
        with contextlib.suppress(tg.Error):
            tg.load(path).validate()
    read.select([0])
    codes, table = np.zeros((3, 2, 3), np.uint8), np.zeros((1, 6), np.int8)
    _core.Digits((3, 2, 18), codes=codes, table=table).take(slice(None))
    nodes = (np.zeros((2, 3), np.float32), np.zeros(2, np.uint8), None, np.zeros((1, 2), int), np.arange(2))
    _core.ModelGraph(*nodes, (codes, table))
    for wrong in ((codes, table + 9), (codes[:, :1], table), (codes,)):
        with contextlib.suppress(tg.Error, TypeError):
            _core.ModelGraph(*nodes, wrong)
    with contextlib.suppress(tg.Error):
        _core.Digits((3, 2, 18), codes=codes + 1, table=table).take(slice(None))


_writer = hlo_files.Writer()
PROTOCOL_BUFFERS = [
    _writer.tuned(hlo_files.layouts(3)), _writer.tuning([hlo_files.tiles(1), hlo_files.tiles(2)]),
    _writer.module(hlo_files.program(1)),
]  # fmt: skip


def protocol_buffers():
    """Programs of XLA: whole, cut off in many places, with too little memory allowed."""
    path = Path(FOLDER.name) / "g.pb"
    for raw in PROTOCOL_BUFFERS:
        path.write_bytes(raw)
        tg.load(path)
        tg.load(path, extra=True, padding=-1)
        for limit in (10, 30000):
            with contextlib.suppress(tg.Error):
                tg.load(path, max_bytes=limit)
        for size in range(0, len(raw), 1 + len(raw) // 20):
            path.write_bytes(raw[:size])
            with contextlib.suppress(tg.Error):
                tg.load(path)


def tensor_file(dtype="BF16", notes='{"a":"b"}', end=8):
    header = f'{{"__metadata__":{notes},"x":{{"dtype":"{dtype}","shape":[4],"data_offsets":[0,{end}]}}}}'
    return len(header).to_bytes(8, "little") + header.encode() + bytes(8)


def tensors():
    path = Path(FOLDER.name) / "f"
    for content in (tensor_file(), tensor_file("U64"), tensor_file(notes="[]"), tensor_file(end=7), b"x"):
        path.write_bytes(content)
        for limit, allowed in ((1 << 20, None), (4, None), (1 << 20, ("F32",))):
            with contextlib.suppress(tg.Error):
                _core.safetensors_load(str(path), allowed, limit)


def losses_and_metrics():
    scores, runtimes = np.linspace(0, 1, 300, dtype=np.float32), np.arange(300, 0, -1)
    tg.kernels.pairwise_hinge(scores, runtimes)
    tg.kernels.list_mle(scores, runtimes)
    tg.metrics.kendall_tau(scores, runtimes)
    tg.metrics.spearman(scores, runtimes)
    tg.metrics.ndcg(scores, runtimes)
    with contextlib.suppress(tg.Error, ValueError):
        tg.metrics.kendall_tau(np.full(3, np.nan), np.arange(3))


def prepare():
    """Preprocessing: programs, fits, graphs and state, good and refused."""
    for steps, options in PROGRAMS.values():
        core, graph = _core.Prepare(steps), stored(acyclic=False, **options)
        kept = core.fit(*as_graph(graph))
        core.finish()
        made = core.apply(*as_graph(graph), kept=kept).nodes
        made.with_configs(np.zeros((2, made.num_config_nodes, 18), np.int8))
        _core.Prepare(steps).set_state(core.get_state())
        if core.columns["config"] > 0:
            core.configs(graph["config_feat"])
        with contextlib.suppress(tg.Error):
            _core.Prepare(steps).set_state({})
    for wrong, _ in BAD_STEPS.values():
        with contextlib.suppress(tg.Error):
            _core.Prepare(wrong)
    core = _core.Prepare(PROGRAMS["encode"][0])
    core.fit(*as_graph(stored()))
    core.finish()
    for change, _ in BAD_GRAPHS.values():
        graph = stored()
        change(graph)
        with contextlib.suppress(tg.Error):
            core.apply(*as_graph(graph))
    _core.prepare_steps()


def attributes():
    _core.optimizer_attrs()
    _core.schedule_attrs()
    rows = [
        {"kind": "int", "low": 1, "high": 9},
        {"kind": "choice", "choices": ("a", "b")},
        {"kind": "choice"},
    ]
    rows += [{"kind": "choice", "choices": ("a", 3)}, {"kind": "int", "low": "x"}, {"kind": "\ud800"}, {}, 3]
    for row in rows:
        for value in (3, "a", "\ud800", None, [1, {"a": 2}], object()):
            with contextlib.suppress(TypeError, ValueError):
                _core.attr_takes(row, value)
        with contextlib.suppress(TypeError, ValueError):
            _core.attr_expects(row)


def imports():
    """The core imported once more, used, and dropped with everything it made."""
    spec = importlib.util.spec_from_file_location("tpugraphs._core", _core.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    graph = again.ModelGraph(**models.graph_arrays(20, 4, 5, 134, 0))
    again.Model(models.first_layout(), 0, 134).scores([(graph, models.rows(4))])
    del again, graph
    gc.collect()


WORK = {
    f.__name__: f
    for f in (
        ops,
        model,
        store,
        optimizer,
        data,
        bad_data,
        packs,
        protocol_buffers,
        prepare,
        tensors,
        losses_and_metrics,
        attributes,
        imports,
    )
}

if __name__ == "__main__":
    work, limit = WORK[sys.argv[1]], int(sys.argv[2])
    least = sys.maxsize
    for _ in range(40):
        before = in_use()
        for _ in range(10):
            work()
        least = min(least, in_use() - before)
        if least < limit:
            break
    print(least)
