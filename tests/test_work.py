"""What XLA makes of a program, counted: by hand for small programs, and for files made by hand."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="programs are written in jax")
import jax.numpy as jnp  # noqa: E402

import tpugraphs as tg  # noqa: E402
from tpugraphs.xla import modules, work, zoo  # noqa: E402

X = np.ones((64, 48), np.float32)
W = np.ones((48, 48), np.float32)


def counted(fn, *args):
    compiled = jax.jit(fn).lower(*args).compile()
    module = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return dict(zip((c.name for c in work.COLUMNS), work.columns_of(module).tolist(), strict=True))


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
    assert graph.schema.graph == work.COLUMNS
    found = dict(zip((c.name for c in graph.schema.graph), graph.graph_feat.tolist(), strict=True))
    assert in_all(found, "dot") == pytest.approx(64 * 48 * 48)


@pytest.mark.parametrize("program", zoo.programs()[::9], ids=lambda program: program.name)
def test_programs_of_the_zoo_have_finite_work(program):
    fn, args = program.build()
    counts = counted(fn, *args)
    assert all(np.isfinite(v) and v >= 0 for v in counts.values())
    assert counts["kernels"] >= 1 and counts["traffic"] > 0
    assert counts["library kernels"] + counts["fused kernels"] <= counts["kernels"]


def instruction(number, opcode, size, operands=(), called=(), config=b""):
    shape = b"".join(modules._field(3, modules._varint(n)) for n in size)
    parts = [modules._field(2, opcode.encode()), modules._field(3, shape)]
    parts += [modules._varint(35 << 3) + modules._varint(number)]
    for field, values in ((36, operands), (38, called)):
        parts.append(modules._field(field, b"".join(map(modules._varint, values))))
    return modules._field(2, b"".join([*parts, modules._field(43, config)]))


def module(*computations):
    """The first is the entry."""
    parts = [modules._varint(6 << 3) + modules._varint(1)]
    for number, instructions in enumerate(computations, 1):
        own = modules._varint(5 << 3) + modules._varint(number)
        parts.append(modules._field(3, b"".join([*instructions, own])))
    return b"".join(parts)


def test_modules_made_by_hand():
    names = [c.name for c in work.COLUMNS]
    loop = instruction(2, "while", (), (1,), (2,))
    body = [instruction(3, "add", (4, 5)), instruction(4, "parameter", (4, 5))]
    counts = dict(
        zip(names, work.columns_of(module([instruction(1, "parameter", (9,)), loop], body)), strict=True)
    )
    assert counts["most runs of a loop"] == work._UNKNOWN and counts["alone cheap"] == 20 * work._UNKNOWN
    assert counts["small kernels"] == counts["kernels"] == work._UNKNOWN
    assert not work.columns_of(b"").any() and not work.columns_of(module([])).any()
    some = [instruction(1, "fusion", (8,), (77,), (99,)), instruction(2, "dot", (2, 2), (77,))]
    dangling = module([*some, instruction(3, "dot", (2, 2), (77, 1, 1))])
    assert np.isfinite(work.columns_of(dangling)).all()
    endless = module([instruction(1, "while", (), (), (1,))])
    assert np.isfinite(work.columns_of(endless)).all()
    trips = b'"known_trip_count":{"n":"%s"}'
    long = module([instruction(1, "while", (), (), (2,), trips % (b"9" * 60))], body)
    assert np.isfinite(work.columns_of(long)).all()


@pytest.mark.parametrize("data", [b"\x0f", b"\x1a", b"\xff" * 9, b"\x1a\x02\x12", b"\x1a\x03\x12\x01\x80"])
def test_what_is_no_module(data):
    with pytest.raises(tg.DataError, match="expected a serialised HloModuleProto, found [0-9]+ bytes?"):
        work.columns_of(data)
