"""What XLA makes of a program, counted: by hand for small programs, and for files made by hand."""

from __future__ import annotations

import functools

import hlo_files
import numpy as np
import pytest
from hlo_files import BODY, TRIPS, Writer, op
from reference import work as reference

jax = pytest.importorskip("jax", reason="programs are written in jax")
import jax.numpy as jnp  # noqa: E402

import tpugraphs as tg  # noqa: E402
from tpugraphs import _core  # noqa: E402
from tpugraphs.data import hlo  # noqa: E402
from tpugraphs.data.collections import DEFAULT_MAX_BYTES  # noqa: E402
from tpugraphs.xla import zoo  # noqa: E402

X = np.ones((64, 48), np.float32)
W = np.ones((48, 48), np.float32)


NAMES = _core.hlo_work_columns()


def columns_of(module):
    return _core.hlo_work(module, DEFAULT_MAX_BYTES)[1][0]


def counts_of(module):
    """By column, and as the reference counts them."""
    found = columns_of(module)
    np.testing.assert_array_equal(found, reference.work(module))
    return dict(zip(NAMES, found.tolist(), strict=True))


def counted(fn, *args):
    compiled = jax.jit(fn).lower(*args).compile()
    return counts_of(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())


def in_all(counts, kind):
    return sum(counts[f"{place} {kind}"] for place in ("library", "fused", "alone"))


def test_a_product_has_as_many_multiplications():
    counts = counted(lambda x, w: x @ w, X, W)
    assert in_all(counts, "dot") == pytest.approx(64 * 48 * 48)
    assert counts["kernels"] >= 1 and counts["loops"] == 0
    assert counts["largest array"] == 64 * 48
    assert counts["dot batched"] == counts["dot with a vector"] == 0


def test_loops_count_as_often_as_they_run():
    once = counted(lambda x, w: jnp.tanh(x @ w), X, W)
    often = counted(lambda x, w: jax.lax.fori_loop(0, 7, lambda _, y: jnp.tanh(y @ w), x), X, W)
    assert often["loops"] == 1 and often["most runs of a loop"] == 7
    assert in_all(often, "dot") == pytest.approx(7 * in_all(once, "dot"))
    assert in_all(often, "transcendental") == 7 * 64 * 48
    nested = counted(
        lambda x, w: jax.lax.fori_loop(
            0, 3, lambda _, y: jax.lax.fori_loop(0, 5, lambda _, z: jnp.tanh(z @ w), y) + 1.0, x
        ),
        X,
        W,
    )
    assert nested["loops"] == 1 + 3 and nested["most runs of a loop"] == 15
    assert in_all(nested, "dot") == pytest.approx(15 * in_all(once, "dot"))


def test_kinds_of_work():
    assert in_all(counted(lambda x: jnp.sort(x), X), "sort") >= X.size
    summed = counted(lambda x: x.sum(0), X)  # in two steps, of which the first is a window
    assert in_all(summed, "reduce") + in_all(summed, "window") >= X.size
    assert in_all(counted(lambda x: x[:, ::-1] * 2.0, X), "move") >= X.size
    gathered = counted(lambda x, i: x[i], X, np.arange(9, dtype=np.int32))
    assert in_all(gathered, "gather") + in_all(gathered, "dynamic") >= 9 * 48
    batched = counted(lambda x, y: jnp.einsum("bij,bjk->bik", x, y), *(np.ones((4, 8, 8), np.float32),) * 2)
    assert batched["dot batched"] == in_all(batched, "dot") == 4 * 8 * 8 * 8
    assert batched["dot with a vector"] == 0
    vector = counted(lambda x, v: x @ v, X, np.ones(48, np.float32))
    assert vector["dot with a vector"] == in_all(vector, "dot") == 64 * 48
    assert vector["dot transposed left"] == vector["dot transposed right"] == 0
    flat = counted(lambda x, y: x @ y, np.ones((8, 1024), np.float32), np.ones((1024, 8), np.float32))
    assert flat["dot with a vector"] == 0


def test_a_graph_of_options_has_them():
    graph = tg.xla.collect(
        lambda x, w: jnp.tanh(x @ w), X, W, n_configs=2, rounds=2, passes=1, least=1e-4, verbose=False
    )
    assert [column.name for column in graph.schema.graph] == NAMES
    found = dict(zip((c.name for c in graph.schema.graph), graph.graph_feat.tolist(), strict=True))
    assert in_all(found, "dot") == pytest.approx(64 * 48 * 48)


@pytest.mark.slow
@pytest.mark.parametrize("program", zoo.programs()[::9], ids=lambda program: program.name)
def test_programs_of_the_zoo_have_finite_work(program):
    fn, args = program.build()
    counts = counted(fn, *args)
    assert all(np.isfinite(v) and v >= 0 for v in counts.values())
    assert counts["kernels"] >= 1 and counts["traffic"] > 0
    assert counts["library kernels"] + counts["fused kernels"] <= counts["kernels"]


# --- modules made by hand ------------------------------------------------------------------------------------


def module(*computations, **fields):
    return Writer().module(hlo_files.sequence(*computations, **fields))


def test_the_columns_are_those_of_graphs_of_today():
    assert NAMES == list(reference._NAMES) and len(NAMES) == 56


def test_a_loop_of_an_unknown_number_of_runs_counts_as_ten():
    counts = counts_of(module(BODY, [op(1, "parameter", (9,)), op(2, "while", (), calls=[1])]))
    assert counts["most runs of a loop"] == counts["small kernels"] == counts["kernels"] == 10
    assert counts["alone cheap"] == 20 * 10
    for trips in ("", "x", "7x", "-1"):
        odd = module(BODY, [op(2, "while", (), calls=[1], config=TRIPS % trips)])
        assert counts_of(odd)["most runs of a loop"] == 10
    assert counts_of(module(BODY, [op(2, "while", config=TRIPS % 3)]))["alone cheap"] == 1  # without a body


@pytest.mark.parametrize("writer", [Writer(), Writer(packed=False, unknown=True)], ids=["plain", "odd"])
def test_fusions_branches_and_loops_in_loops(writer):
    counts = counts_of(writer.module(hlo_files.optimised()))
    assert counts["loops"] == 1 + 7 and counts["most runs of a loop"] == 35
    assert counts["fused kernels"] == counts["library kernels"] == counts["parallel kernels"] == 7 * 5 + 7
    assert counts["fused transcendental"] == 42 * 6 * 7 and counts["library reduce"] == 42 * 6 * 7
    assert counts["parallel elements"] == 6 * 42 and counts["alone cheap"] == 20 * (7 + 1) + 2
    assert counts["alone dot"] == counts["dot transposed right"] == 6 * 6 * 7


def test_products_by_the_shape_of_their_sides():
    def product(left, right, out, dot):
        operands = [op(1, "parameter", left), op(2, "parameter", right)]
        return counts_of(module([*operands, op(3, "dot", out, operands=[1, 2], dot=dot)]))

    names = ("dot transposed left", "dot transposed right", "dot batched", "dot with a vector", "alone dot")
    for given, expected in {
        ((8, 9), (9, 7), (8, 7), ((1,), (0,), (), ())): (0, 0, 0, 0, 1),
        ((9, 8), (7, 9), (8, 7), ((0,), (1,), (), ())): (1, 1, 0, 0, 1),
        ((2, 8, 9), (2, 9, 7), (2, 8, 7), ((2,), (1,), (0,), (0,))): (0, 0, 1, 0, 1),
        ((8, 9), (9,), (8,), ((1,), (0,), (), ())): (0, 0, 0, 1, 1),
    }.items():
        counts, amount = product(*given), np.prod(given[2]) * 9
        assert [counts[name] for name in names] == [n * amount for n in expected]
    assert counts_of(module([op(1, "dot", (3, 4))]))["alone dot"] == 12  # of no sides that are known


def test_numbers_have_an_end():
    """Runs, sizes and calls of calls: nothing is infinite, and nothing takes long."""
    body, huge = BODY, 2**62
    for config in (TRIPS % ("9" * 60), TRIPS % 10**9):
        counts = counts_of(module(body, [op(2, "while", (), calls=[1], config=config)]))
        assert counts["most runs of a loop"] == 1e9
    doubling = [body, *([op(1, "call", calls=[n, n]), op(2, "while", calls=[n])] for n in range(1, 200))]
    found = columns_of(module(*doubling))
    assert np.isfinite(found).all() and found.max() == np.float32(1e30)
    large = [op(1, "parameter", [huge] * 6), op(2, "parameter", [huge] * 6), op(3, "constant", [-1] * 40)]
    dot = {"operands": [1, 2], "dot": [[0, 1, 2], [0], [3, 4], []]}
    assert np.isfinite(columns_of(module([*large, op(4, "dot", [huge] * 40, **dot)]))).all()


WRONG = {
    "nothing": (b"", "found an empty file"),
    "another message": (b"\x1a\x02\x12\x00", "no instruction in it"),
    "a call of a later one": (module([op(1, "call", calls=[2])], BODY), "computation 0, instruction 0: expected calls of computations that stand before it, found computation id 2"),
    "a loop in itself": (module([op(1, "while", calls=[1])]), "calls of computations that stand before it"),
    "a fusion of nothing": (module([op(1, "fusion", calls=[9])]), "found computation id 9"),
    "an operand of nothing": (module([op(1, "add", operands=[7])]), "computation 0, instruction 0: expected operands that are in this computation, found operand id 7"),
    "one id twice": (module([op(1, "add"), op(1, "add")]), "instruction 1: expected an id of its own, found id 1 of instruction 0"),
    "no entry": (module(BODY, entry=5), "expected an entry among its computations, found computation id 5, which none has"),
    "a dimension too many": (module([op(1, "parameter", (2,)), op(2, "dot", operands=[1, 1], dot=[[1], [0], [], []])]), "instruction 1: expected dimensions that the operands have, found dimension 1 of 1"),
    "a dimension below": (module([op(1, "parameter", (2,)), op(2, "dot", operands=[1, 1], dot=[[0], [0], [2**63], []])]), "instruction 1: expected dimensions that the operands have"),
    "a deep tuple": (module([op(1, "tuple") | {"shape": functools.reduce(lambda shape, _: {"tuple": [shape]}, range(20), {})}]), "instruction 0, shape: expected tuples in at most 16 others"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_optimised_program_is_refused(what):
    data, message = WRONG[what]
    with pytest.raises(tg.DataError, match=message):
        columns_of(data)


def test_max_bytes_is_kept():
    program = module(*([op(1, "add")] for _ in range(1000)))
    with pytest.raises(tg.DataError, match="found [0-9]+ bytes and more, max_bytes is 100000"):
        _core.hlo_work(program, 100_000)
    assert _core.hlo_work(program, 1_000_000)[1][0].max() == 1


def test_the_bytes_of_anything_do_no_worse_than_an_error():
    rng = np.random.default_rng(0)
    raws = [Writer(packed=bool(seed % 2)).module(hlo_files.program(seed)) for seed in range(6)]
    raws += [
        module(BODY, [op(1, "fusion", (6,), calls=[1]), op(2, "while", calls=[1], config=TRIPS % 5)])
    ] * 3
    for number in range(3000):
        raw = bytearray(raws[number % len(raws)])
        for place in rng.integers(0, len(raw), rng.integers(1, 4)):
            raw[place] = rng.integers(0, 256)
        for call in (columns_of, hlo.fusions):
            try:
                call(bytes(raw[: rng.integers(1, len(raw) + 1)] if number % 3 else raw))
            except tg.DataError as error:
                assert "expected" in str(error)
