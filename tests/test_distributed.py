"""Ranks: sums in a fixed order, the same bits on any number of them, and what happens when one fails or ends."""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import rank_fit
from rankers import FIELDS, small_graph

import tpugraphs as tg
from tpugraphs import _core, distributed
from tpugraphs._core import TreeSum
from tpugraphs.data import packs
from tpugraphs.data.collections import sources_in
from tpugraphs.distributed import LocalCommunicator, SingleCommunicator
from tpugraphs.distributed.ranks import Ranks
from tpugraphs.errors import ConfigError, Error, ShapeError
from tpugraphs.recipes import get_recipe

HERE = Path(__file__).parent
PACKAGE = str(Path(tg.__file__).parents[1])  # installed, or the sources
TEN = (
    "first-layout", "first-tile", "second-xla", "third-layout", "fourth-layout", "fifth-dimension", "sixth-gin",
    "seventh-gst", "ninth-transformer", "official-tile", "graph-config",
)  # fmt: skip  # gst draws segments, the transformer drops out, official-tile compares across slates
processes = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="takes minutes there")
KILLS = int(os.environ.get("TPUGRAPHS_KILLS", "1"))


def together(size, work):
    """What `work(communicator)` returns or raises on each rank, in threads of this process."""
    ends = [[None] * size for _ in range(size)]
    for i in range(size):
        for j in range(i):
            ends[i][j], ends[j][i] = socket.socketpair()
    found = [None] * size

    def one(rank):
        try:
            found[rank] = work(LocalCommunicator(rank, ends[rank]))
        except BaseException as error:
            found[rank] = error
        finally:
            for end in ends[rank]:
                if end is not None:
                    end.close()

    threads = [threading.Thread(target=one, args=[rank]) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def start(size, *words, threads=1, **options):
    """Start `tpugraphs ranks`, or one process alone for 0 ranks."""
    ranks = ["-m", "tpugraphs", "ranks", str(size)] if size else []
    path = os.pathsep.join([str(HERE), PACKAGE])
    return subprocess.Popen(
        [sys.executable, *ranks, *map(str, words)], env={**os.environ, "PYTHONPATH": path, "TPUGRAPHS_NUM_THREADS": str(threads)},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE, **options,
    )  # fmt: skip


def finished(process, seconds=120):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


# ---- sums


def by_tree(vectors):
    """Reference: the sum of a binary tree, by recursion over the leaves."""
    if len(vectors) == 1:
        return vectors[0]
    half = 1 << (len(vectors) - 1).bit_length() - 1
    return by_tree(vectors[:half]) + by_tree(vectors[half:])


def ends_of(count, size):
    return [count * (rank + 1) // size for rank in range(size)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 20])
def test_a_tree_adds_in_the_same_order_however_it_is_shared(count, size):
    rng = np.random.default_rng(count * size)
    vectors = (rng.normal(size=(count, 7)) * 10.0 ** rng.integers(-6, 7, (count, 7))).astype(np.float32)
    bounds, ends = [0, *ends_of(count, size)], ends_of(count, size)

    def work(comm):
        tree = TreeSum(7, ends, comm.rank)
        for _ in range(2):  # the second after a sum that was broken off
            tree.clear()
            for i in range(*bounds[comm.rank : comm.rank + 2]):
                tree.add(vectors[i])
        return tree.total(comm, None)

    for total in together(size, work):
        np.testing.assert_array_equal(total, by_tree(list(vectors)))
        np.testing.assert_allclose(total, vectors.astype(np.float64).sum(0), rtol=1e-5, atol=1e-1)


class Counting(SingleCommunicator):
    """A rank of several that notes how much it sends, and gets zeros."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def allgather(self, mine, sizes, to):
        assert len(mine) == sizes[self.rank] and len(to) == sum(sizes)
        self.sizes, to[:] = sizes, 0


def test_a_rank_sends_few_subtrees():
    for ends, roots in [
        ([4, 8], [1, 1]),
        ([3, 8], [2, 2]),
        ([0, 8], [0, 1]),
        ([4, 6], [1, 1]),
        ([1, 5], [1, 3]),
    ]:
        comm = Counting(0, len(ends))
        tree = TreeSum(3, ends, 0)
        for _ in range(ends[0]):
            tree.add(np.ones(3, np.float32))
        np.testing.assert_array_equal(tree.total(comm, None), np.zeros(3))
        assert comm.sizes == [12 * n for n in roots]


@pytest.mark.parametrize("given", [
    (3, [], 0), (3, [0], 0), (3, [2, 1], 0), (3, [-1, 1], 0), (3, [1 << 40], 0), (3, [1], 1), (3, [1], -1), (-1, [1], 0),
    (1 << 62, [1, 2], 0), (3, ["x"], 0), (3, (1,), 0),
])  # fmt: skip
def test_sums_that_cannot_be(given):
    with pytest.raises((ValueError, TypeError, OverflowError, MemoryError)):
        TreeSum(*given)


def test_a_sum_is_used_as_it_is_meant():
    tree, one = TreeSum(3, [1, 2], 0), np.ones(3, np.float32)
    with pytest.raises(ValueError, match="are missing"):
        tree.total(Counting(0, 2), None)
    with pytest.raises(ShapeError, match="vector"):
        tree.add(np.ones(4, np.float32))
    tree.add(one)
    with pytest.raises(ValueError, match="have been added"):
        tree.add(one)
    with pytest.raises(AttributeError):
        tree.total(object(), None)

    def again(mine, sizes, to):
        for call in (lambda: tree.add(one), lambda: tree.total(comm, None), tree.clear):
            with pytest.raises(RuntimeError, match="in use"):
                call()
        to[:] = 0

    comm = Counting(0, 2)
    comm.allgather = again
    np.testing.assert_array_equal(tree.total(comm, None), np.zeros(3))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_units_are_ordered_so_that_neighbours_take_as_much_work(count):
    rng = np.random.default_rng(count)
    shared, given = 0.0, 0.0
    for _ in range(20):
        work = rng.integers(1, 100, count).tolist()
        order = TreeSum.order(np.array(work)).tolist()
        assert sorted(order) == list(range(count))
        for size in (2, 4):
            parts = [range(count * i // size, count * (i + 1) // size) for i in range(size)]
            shared += max(sum(work[order[i]] for i in part) for part in parts)
            given += max(sum(work[i] for i in part) for part in parts)
    assert shared <= given * (1.1 if count & (count - 1) else 1 if count < 8 else 0.9)
    for work, order in [([5, 1, 4, 2], [0, 1, 2, 3]), ([1, 1, 5], [2, 1, 0]), ([], [])]:
        assert TreeSum.order(np.array(work, np.int64)).tolist() == order


# ---- messages


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_messages_of_any_length_reach_all(size):
    lengths = [0, 1, 3_000_000, 17]
    sent = [os.urandom(lengths[(rank + 1) % 4]) for rank in range(size)]

    def work(comm):
        found = [Ranks(comm).exchange(lambda: sent[comm.rank]) for _ in range(3)]
        to = bytearray(sum(map(len, sent[:size])))
        comm.allgather(sent[comm.rank], [*map(len, sent)], to)
        return [
            *found,
            [to[end - n : end] for n, end in zip(map(len, sent), accumulate(map(len, sent)), strict=True)],
        ]

    assert together(size, work) == [[sent] * 4] * size


def test_values_arrive_as_they_are():
    def value(rank):
        table = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2] + rank
        return {
            "table": table,
            "none": np.zeros((0, 3)),
            "more": (b"\n\0{", [1.5, None, "\n"]),
            "one": np.int64([rank]),
        }

    for found in together(3, lambda comm: Ranks(comm).exchange(lambda: value(comm.rank))):
        for rank, one in enumerate(found):
            assert one["more"] == [b"\n\0{", [1.5, None, "\n"]]
            for name in ("table", "none", "one"):
                np.testing.assert_array_equal(one[name], value(rank)[name], strict=True)
            one["table"] += 1  # it may be written to

    for error in together(2, lambda comm: Ranks(comm).exchange(lambda: {1, 2})):
        assert "values of JSON, bytes and arrays, got set" in str(error)


def test_an_error_on_one_rank_ends_the_work_of_all():
    def work(comm):
        def own():
            if comm.rank == 1:
                raise ValueError("broken here")
            return b"fine"

        return Ranks(comm).exchange(own)

    found = together(3, work)
    assert isinstance(found[1], ValueError)
    for rank in (0, 2):
        assert isinstance(found[rank], Error) and "rank 1: ValueError: broken here" in str(found[rank])


def test_ctrl_c_on_one_rank_is_one_on_all():
    def work(comm):
        def own():
            if comm.rank == 2:
                raise KeyboardInterrupt
            return b""

        return Ranks(comm).exchange(own)

    assert all(isinstance(one, KeyboardInterrupt) for one in together(3, work))


def test_a_rank_that_ends_is_named_by_the_others():
    found = together(3, lambda comm: None if comm.rank == 1 else Ranks(comm).exchange(lambda: b"x" * 100_000))
    for rank in (0, 2):
        assert isinstance(found[rank], Error) and "has ended" in str(found[rank])
        assert "rank 1" in str(found[rank]) or "rank 0" in str(found[rank]) or "rank 2" in str(found[rank])


def test_facts_that_differ_are_named():
    def work(comm):
        Ranks(comm).agree(lambda: {"version": "1", "instruction set": "avx2" if comm.rank else "avx512"})

    for found in together(2, work):
        assert isinstance(found, ConfigError)
        assert all(word in str(found) for word in ("instruction set", "'avx2'", "'avx512'", "rank"))


def test_several_instruction_sets_are_refused_or_told(monkeypatch):
    mine = {}
    monkeypatch.setattr(_core, "get_isa", lambda: mine[threading.get_ident()])

    def work(comm):
        mine[threading.get_ident()] = "avx2" if comm.rank else "avx512"
        Ranks(comm).agree_on_bits(dict)

    assert all("TPUGRAPHS_MIXED_ISA=1" in str(one) for one in together(2, work))
    monkeypatch.setenv("TPUGRAPHS_MIXED_ISA", "1")
    with pytest.warns(UserWarning, match="sets avx2 and avx512: last bits differ"):
        assert together(2, work) == [None, None]


def test_ranks_with_other_graphs_are_refused_before_a_step():
    for what in ("train", "validate"):

        def work(comm, what=what):
            graphs = rank_fit.graphs("layout")
            train = graphs[comm.rank * (what == "train") :]
            valid = graphs[comm.rank * (what == "validate") :]
            tg.Ranker("first-layout", steps=2).fit(train, valid, communicator=comm, verbose=False)

        for error in together(2, work):
            assert isinstance(error, ConfigError) and f"differ in graphs to {what} on" in str(error)


class Files(Sequence):
    """Graphs that are opened when indexed."""

    def __init__(self, graphs):
        self.graphs, self.names, self.opened = graphs, [graph.name for graph in graphs], []

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, index):
        self.opened.append(index)
        return self.graphs[index]


class Begun(tg.training.Callback):
    """Notes how many graphs a fit has opened before its first step."""

    def __init__(self, files):
        self.files, self.count = files, None

    def on_fit_begin(self, fit):
        self.count = len(self.files.opened)


def test_a_rank_opens_its_share_of_graphs_and_those_of_its_slates():
    graphs = [small_graph(seed) for seed in range(12)]

    def work(comm):
        train, valid = Files(graphs[:9]), Files(graphs[9:])
        begun = Begun(train)
        ranker = tg.Ranker("first-layout", **FIELDS, steps=1, slates=3)
        ranker.fit(train, valid, communicator=comm, callbacks=[begun], verbose=False)
        return train.opened[: begun.count], train.opened[begun.count :], valid.opened, ranker

    (first, later, judged, one), *_ = together(1, work)
    assert first == [*range(9)] and len(later) == 3 and judged == [0, 1, 2]
    for rank, (looked_at, trained_on, validated_on, ranker) in enumerate(together(3, work)):
        assert looked_at == [3 * rank, 3 * rank + 1, 3 * rank + 2] and validated_on == [rank]
        assert 1 <= len(trained_on) <= 2 and set(trained_on) <= set(later)  # one was sized for all ranks
        np.testing.assert_array_equal(ranker.network.model.params, one.network.model.params)
        assert ranker.history_.valid_metric == one.history_.valid_metric


@pytest.mark.filterwarnings("ignore")
def test_graphs_without_an_order_are_left_out_on_all_ranks():
    same = small_graph(2, config_runtime=np.full(96, 7))
    unmeasured = small_graph(3, config_runtime=np.zeros(96, np.int64))
    train = [small_graph(0), same, small_graph(1), unmeasured]

    def work(comm):
        ranker = tg.Ranker("first-layout", **FIELDS, steps=6, slates=2)
        ranker.fit(train, [unmeasured, small_graph(5)], communicator=comm, verbose=False)
        return ranker.network.model.params.copy(), ranker.history_.skipped, ranker.history_.valid_metric

    (params, skipped, metric), *_ = together(1, work)
    assert skipped.keys() == {same.name, unmeasured.name}
    for size in (2, 3):
        for found in together(size, work):
            np.testing.assert_array_equal(found[0], params)
            assert found[1] == skipped and found[2] == metric
    only = {"train": [same, unmeasured], "valid": None}, {"train": train, "valid": [unmeasured] * 3}
    for given in only:

        def refused(comm, given=given):
            ranker = tg.Ranker("first-layout", **FIELDS, steps=2, slates=2)
            ranker.fit(**given, communicator=comm, verbose=False)

        for error in together(2, refused):
            assert isinstance(error, Error) and "none of the" in str(error), repr(error)


def test_a_file_with_other_content_on_a_rank_is_refused():
    def work(comm):
        files = Files([small_graph(seed, configs=90 + comm.rank) for seed in range(6)])
        tg.Ranker("first-layout", **FIELDS, steps=9, slates=2).fit(files, communicator=comm, verbose=False)

    for error in together(2, work):
        assert "small" in str(error) and "give all ranks the same files" in str(error), repr(error)


def changed(graph):
    """The same name, shapes and runtimes, and one digit that differs."""
    digits = graph.config_digits.copy()
    digits[0, 0, 0] = -1 if digits[0, 0, 0] == 2 else 2
    return graph.replace(node_config_feat=digits)


@pytest.mark.parametrize("suffix", ["", "npz", "tgpack"])
@pytest.mark.parametrize("work", ["fit", "evaluate", "compare", "audit", "members"])
def test_ranks_with_one_digit_that_differs_are_refused_at_the_start(suffix, work, tmp_path):
    ours = [small_graph(seed) for seed in range(6)]
    theirs = [*ours[:4], changed(ours[4]), ours[5]]
    splits = [ours, theirs]
    if suffix:
        for rank, graphs in enumerate(splits):
            (tmp_path / f"{rank}").mkdir()
            for graph in graphs:
                path = tmp_path / f"{rank}" / f"{graph.name}.{suffix}"
                graph.save(path) if suffix == "npz" else packs.write(path, graph)
        splits = [tg.data.Split(sources_in(tmp_path / f"{rank}")) for rank in range(2)]
    reads = [0, 0]

    def read(rank, source):
        reads[rank] += 1
        return source.read()

    def on_rank(comm):
        graphs, options = splits[comm.rank], {"communicator": comm, "verbose": False}
        if suffix:
            graphs = tg.data.Split(one._replace(read=partial(read, comm.rank, one)) for one in graphs.sources)
        if work == "fit":
            tg.Ranker("first-layout", **FIELDS, steps=9, slates=2).fit(graphs, **options)
        elif work == "evaluate":
            tg.evaluation.evaluate(lambda graph: np.zeros(graph.num_configs), graphs, **options)
        elif work == "compare":
            fold = tg.ranker.Fold("one", graphs[:5], [], graphs[5:])
            tg.compare(["first-layout"], [fold], seeds=1, steps=1, **options)
        elif work == "audit":
            tg.audit(graphs, **options)
        else:
            members = [tg.Ranker("eighth-lightgbm", seed=seed) for seed in range(2)]
            tg.train_members(members, graphs, **options)

    for error in together(2, on_rank):
        assert isinstance(error, ConfigError), repr(error)
        assert "ranks differ in" in str(error) and "'small4 " in str(error), error
    assert (
        max(reads) <= 1
    )  # `compare` reads one to see which kind it is; else only the checksums in the files


def test_a_graph_that_is_of_use_on_one_rank_only_ends_all():
    graphs = [small_graph(seed) for seed in range(6)]

    def work(comm):
        files = Files(graphs)
        if comm.rank == 1:  # the same runtimes, but all configs are the same
            files.graphs = [g.replace(node_config_feat=np.zeros_like(g.node_config_feat)) for g in graphs]
        tg.Ranker("first-layout", **FIELDS, steps=9, slates=2).fit(files, communicator=comm, verbose=False)

    assert all(isinstance(error, Error) for error in together(2, work))


def test_seeds_with_other_files_to_validate_on_are_refused():
    def work(comm):
        valid = Files([small_graph(9, config_runtime=small_graph(8 + comm.rank).config_runtime)])
        train = [small_graph(seed) for seed in range(2)]
        tg.train_seeds("first-layout", train, valid, seeds=2, steps=2, communicator=comm, verbose=False)

    assert all("differ in contents of graphs to validate on" in str(error) for error in together(2, work))


def test_weights_on_one_rank_only_are_refused():
    def work(comm):
        weights = [np.ones(96)] * 2 if comm.rank else None
        train = [small_graph(0), small_graph(1)]
        tg.Ranker("first-layout", steps=2).fit(train, sample_weight=weights, communicator=comm, verbose=False)

    assert all("differ in sample weights" in str(error) for error in together(2, work))


def test_weights_and_further_features_are_those_of_one_rank():
    graphs = [small_graph(seed) for seed in range(5)]
    weights = [np.linspace(0, 1 + i, 96) for i in range(5)]

    def read(graph):
        return {
            "node": {"read": np.bincount(graph.edge_index[:, 1], minlength=graph.num_nodes).astype(float)}
        }

    recipe = dataclasses.replace(get_recipe("first-layout"), name="sees-more", extra=read)

    def work(comm):
        ranker = tg.Ranker(recipe, **FIELDS, steps=3, slates=2)
        ranker.fit(graphs, valid=0.2, sample_weight=weights, communicator=comm, verbose=False)
        return ranker.network.model.params.copy(), ranker.network.pipeline.tensors()

    (params, state), *_ = together(1, work)
    for found, learnt in together(3, work):
        np.testing.assert_array_equal(found, params)
        assert learnt.keys() == state.keys() and all((learnt[n] == state[n]).all() for n in state)


def test_schemas_widen_as_on_one_rank():
    rng = np.random.default_rng(0)
    graphs = [
        tg.Graph(
            config_feat=rng.integers(1, 9, (30, 3)).astype(float), node_feat=np.ones((4, 1)),
            edge_index=np.zeros((0, 2), np.int64), node_config_ids=np.array([0, 1]),
            node_config_feat=rng.integers(-1, 2 + i % 3, (30, 2, 2)), runtime=rng.random(30) + 1, name=f"g{i}",
        )
        for i in range(4)
    ]  # fmt: skip

    def work(comm):
        ranker = tg.Ranker("graph-config", steps=4, slates=2)
        ranker.fit(graphs, communicator=comm, verbose=False)
        return ranker.network.model.params.copy(), [digit.values for digit in ranker.schema.digits]

    (params, values), *_ = together(1, work)
    assert values == [4, 4] and {digit.values for graph in graphs for digit in graph.schema.digits} == {
        2,
        3,
        4,
    }
    for found, widened in together(3, work):
        np.testing.assert_array_equal(found, params)
        assert widened == values


def test_a_message_that_is_no_message_is_refused():
    for message in (b"\xff" * 13, b"tgrk\0" + b"\xff" * 8):
        one, other = socket.socketpair()
        other.send(message)
        with pytest.raises(Error, match="at most"):
            Ranks(LocalCommunicator(0, [None, one])).exchange(lambda: b"")
        one.close(), other.close()


@pytest.mark.parametrize("text", ["", "0", "0,x", "0,-1,99999", "5,-1"])
def test_environments_that_are_wrong(text, monkeypatch):
    monkeypatch.setenv("TPUGRAPHS_RANKS", text)
    with pytest.raises(ConfigError, match="tpugraphs ranks"):
        LocalCommunicator.inherited()


# ---- fits


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Digests of one process, with three threads."""
    folder = tmp_path_factory.mktemp("alone")
    code, _, err = finished(start(0, HERE / "rank_fit.py", folder / "out.json", folder, *TEN, threads=3))
    assert code == 0, err
    return json.loads((folder / "out.json").read_text())


@processes
@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_have_the_same_bits(size, alone, tmp_path):
    names = TEN if size == 2 else TEN[:: size - 1]
    code, _, err = finished(start(size, HERE / "rank_fit.py", tmp_path / "out.json", tmp_path, *names))
    assert code == 0, err
    found = json.loads((tmp_path / "out.json").read_text())
    assert found.items() <= alone.items() and len(found) == len(rank_fit.SHAPES) * len(names)


@processes
def test_mpi_has_the_same_bits(alone, tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpirun = shutil.which(
        "mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    if mpirun is None:
        pytest.skip("no mpirun")
    words = [mpirun, "-n", "2", sys.executable, HERE / "rank_fit.py", tmp_path / "out.json", tmp_path, *TEN]
    path = os.pathsep.join([str(HERE), PACKAGE])
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "TPUGRAPHS_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run(
        list(map(str, words)), env=env, cwd=HERE, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.json").read_text()) == alone


def test_a_fit_over_ranks_learns_as_one_without():
    _, ranker = rank_fit.fit("first-layout", SingleCommunicator(), steps=20, slates=3)
    _, plain = rank_fit.fit("first-layout", None, steps=20, slates=3)
    np.testing.assert_allclose(ranker.history_.loss, plain.history_.loss, rtol=1e-3)


def test_a_checkpoint_without_ranks_is_of_another_fit(tmp_path):
    rank_fit.fit("first-layout", None, folder=tmp_path)
    with pytest.raises(tg.errors.CheckpointError, match="gradients"):
        rank_fit.fit("first-layout", SingleCommunicator(), folder=tmp_path)


def children(process):
    return [int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.slow
@processes
def test_a_killed_rank_ends_all_and_the_fit_goes_on_with_the_same_bits(tmp_path):
    long = [HERE / "rank_fit.py", tmp_path / "out.json"]
    assert finished(start(1, *long, tmp_path / "whole", "long"))[0] == 0
    whole = json.loads((tmp_path / "out.json").read_text())
    rng = np.random.default_rng(0)
    for i in range(KILLS):
        folder, size = tmp_path / str(i), int(rng.integers(2, 4))
        process = start(size, *long, folder, "long")
        seen = time.monotonic()
        while not (folder / "checkpoint.safetensors").exists() and process.poll() is None:
            assert time.monotonic() < seen + 60
            time.sleep(0.01)
        time.sleep(float(rng.random()) * 0.2)
        ranks = children(process)
        if process.poll() is None and len(ranks) == size:
            os.kill(ranks[int(rng.integers(size))], signal.SIGKILL)
            killed = time.monotonic()
            code, _, err = finished(process, 30)
            if code:  # it was not over yet
                assert "has ended" in err and time.monotonic() < killed + 10, err
        else:
            finished(process)
        (tmp_path / "out.json").unlink(missing_ok=True)
        assert finished(start(int(rng.integers(1, 4)), *long, folder, "long"))[0] == 0
        assert json.loads((tmp_path / "out.json").read_text()) == whole


@pytest.mark.slow
@processes
@pytest.mark.skipif(sys.platform != "linux", reason="by prctl")
def test_a_killed_launcher_takes_its_ranks_with_it(tmp_path):
    process = start(2, HERE / "rank_fit.py", tmp_path / "out.json", tmp_path / "c", "long")
    while not (tmp_path / "c" / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    ranks = children(process)
    process.kill()
    finished(process)
    until = time.monotonic() + 10
    while any(
        Path(f"/proc/{rank}/cmdline").exists() and Path(f"/proc/{rank}/cmdline").read_bytes()
        for rank in ranks
    ):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
@processes
def test_ctrl_c_ends_all_ranks_after_whole_steps(tmp_path):
    process = start(
        2, HERE / "rank_fit.py", tmp_path / "out.json", tmp_path / "c", "long", start_new_session=True
    )
    while not (tmp_path / "c" / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, _, err = finished(process, 30)
    assert "Traceback" not in err, err
    assert finished(start(3, HERE / "rank_fit.py", tmp_path / "out.json", tmp_path / "c", "long"))[0] == 0


# ---- scores


def test_a_report_over_ranks_is_that_of_one(tmp_path):
    graphs = rank_fit.graphs("layout")
    _, ranker = rank_fit.fit("first-layout", None)
    scorers = {"ranker": ranker.predict, "random": tg.ranker.RandomBaseline(seed=5).fit(graphs).predict}
    alone = tg.evaluation.evaluate(scorers, graphs, verbose=False)
    opened = [[], [], []]

    class Lazy(list):
        def __init__(self, rank):
            super().__init__(graphs)
            self.rank = rank

        def __getitem__(self, number):
            opened[self.rank].append(number)
            return super().__getitem__(number)

    def work(comm):
        return tg.evaluation.evaluate(scorers, Lazy(comm.rank), verbose=False, communicator=comm)

    for report in together(3, work):
        assert report.to_dict() == alone.to_dict()
        for one, other in zip(report.rows, alone.rows, strict=True):
            np.testing.assert_array_equal(one.scores, other.scores)
            np.testing.assert_array_equal(one.runtimes, other.runtimes)
    assert opened == [[0, 3], [1], [2]]
    known = ranker.evaluate(graphs, verbose=False).known
    assert known == ("small0", "small1")  # which it has learnt from, each judged by another rank
    judged = together(2, lambda comm: ranker.evaluate(graphs, verbose=False, communicator=comm).known)
    assert [*judged] == [known, known]


@pytest.mark.slow
@processes
def test_commands_over_ranks_print_and_write_once(tmp_path):
    ranker = tmp_path / "ranker.safetensors"
    *train, _ = list(tg.open_collection("options:xla:cpu").train[:4])
    tg.Ranker("graph-config", steps=3).fit(train, verbose=False).save(ranker)
    outs = []
    for size in (1, 3):
        one = tmp_path / str(size)
        words = [ranker, "options:xla:cpu/test"]
        code, text, err = finished(start(size, "predict", *words, "--out", f"{one}.csv"))
        assert code == 0, err
        code, report, err = finished(start(size, "evaluate", *words, "--out", f"{one}.json", "--json"))
        assert code == 0, err
        outs.append(
            [
                Path(f"{one}.csv").read_text(),
                Path(f"{one}.json").read_text(),
                report,
                text.replace(str(one), ""),
            ]
        )
    assert outs[0] == outs[1] and outs[0][2]


# ---- the command


@processes
def test_train_over_ranks_writes_one_ranker(tmp_path):
    words = ["train", "--data", "options:xla:cpu", "--steps", "3", "--set", "slates=2", "--seed", "1"]
    files = [tmp_path / f"{size}.safetensors" for size in (1, 2)]
    for size, file in zip((1, 2), files, strict=True):
        code, out, err = finished(start(size, *words, "--out", file))
        assert code == 0 and out.count("wrote") + err.count("wrote") == 1, err
    graph = tg.open_collection("options:xla:cpu").test[0]
    one, two = (tg.load_ranker(file).predict(graph) for file in files)
    np.testing.assert_array_equal(one, two)


@processes
def test_seeds_and_packs_over_ranks_are_those_of_one_process(tmp_path):
    words = ["train", "--data", "options:xla:cpu", "--steps", "3", "--seeds", "3", "--select", "best-2"]
    logs = []
    for size in (0, 2):
        out = tmp_path / f"{size}.safetensors"
        command = words if size else ["-m", "tpugraphs", *words]
        code, text, err = finished(start(size, *command, "--out", out))
        assert code == 0 and (text + err).count("wrote") == 1, err
        log = json.loads(out.with_suffix(".json").read_text())
        logs.append([log["selected"], log["mean"], [run["history"]["loss"] for run in log["runs"]]])
    assert logs[0] == logs[1]
    graph = tg.open_collection("options:xla:cpu").test[0]
    one, two = (tg.load_ranker(tmp_path / f"{size}.safetensors").predict(graph) for size in (0, 2))
    np.testing.assert_array_equal(one, two)
    (tmp_path / "npz").mkdir()
    for graph in rank_fit.graphs("layout"):
        graph.save(tmp_path / "npz" / f"{graph.name}.npz")
    code, text, err = finished(start(2, "pack", tmp_path / "npz", "--out", tmp_path / "packs"))
    assert code == 0 and (text + err).count(" packed") == 1, err
    assert len(list((tmp_path / "packs").glob("*.tgpack"))) == len(list((tmp_path / "npz").glob("*.npz")))


@processes
@pytest.mark.parametrize(
    "words, named",
    [
        (["ranks", "0", "x.py"], "1"),
    ],
)
def test_what_ranks_refuse(words, named):
    code, _, err = finished(start(0, "-m", "tpugraphs", *words))
    assert code == 2 and named in err


def test_no_communicator_without_a_launcher(monkeypatch):
    for name in ("TPUGRAPHS_RANKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    distributed.communicator.cache_clear()
    assert distributed.communicator() is None
    distributed.communicator.cache_clear()
