"""What the core takes as the arrays of a graph: every type of number, against NumPy, and nothing else."""

import copy
import pickle

import numpy as np
import pytest
from rankers import small_any, small_graph

import tpugraphs as tg
from tpugraphs import _core

DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]  # fmt: skip


def numbers(dtype, seed=0):
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, (31, 5)).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        high = min(info.max, 2**63 - 1)
        values = rng.integers(
            info.min, high, (31, 5), endpoint=True, dtype=np.int64 if kind == "i" else np.uint64
        )
        values[:3] = [[info.min, high, 0, 1, 7]] * 3
        return values.astype(dtype)
    values = rng.normal(size=(31, 5)) * 2.0 ** rng.integers(-24, 15, (31, 5))
    values[0] = [0.0, -0.0, 6e-8, 65504, -1e-7]  # the ends of half numbers, subnormal ones
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "form", [np.ascontiguousarray, np.asfortranarray, lambda x: x[::-1], lambda x: x.tolist()]
)
def test_numbers_are_those_of_numpy(dtype, form):
    given = form(numbers(dtype))
    expected = np.asarray(given)
    found = _core.as_floats("x", given, "NF", (-1, 5))
    assert found.dtype == np.float32 and not found.flags.writeable
    assert found.tobytes() == np.ascontiguousarray(expected.astype(np.float32)).tobytes()
    if expected.dtype.kind != "f":
        whole = _core.as_whole("x", given, "NF")
        assert (
            whole.dtype == np.int64
            and whole.tobytes() == np.ascontiguousarray(expected.astype(np.int64)).tobytes()
        )
    else:
        rounded = np.rint(expected)
        np.testing.assert_array_equal(_core.as_whole("x", rounded, "NF"), rounded.astype(np.int64))


@pytest.mark.parametrize(
    ("value", "letters", "sizes", "words"),
    [
        ([[1.0, np.nan]], "NF", (), r"x: expected finite numbers, found nan at \(0, 1\)"),
        ([1e39], "N", (), r"finite numbers, found 1e\+39 at 0"),
        (np.array(np.inf, np.float16), "", (), "finite numbers, found inf;"),
        ([[1.0, 2.0]], "N", (), r"shape \(N,\), found shape \(1, 2\)"),
        ([[1.0, 2.0]], "NF", (-1, 3), r"shape \(N, 3\), found shape \(1, 2\)"),
        (np.zeros((2, 5)), "EF", (-1, 2), "transpose it"),
        (["a"], "N", (), "array of numbers, found dtype"),
        (np.zeros(2, complex), "N", (), "array of numbers, found dtype complex128"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "N", (), "without a mask, found 1 masked"),
    ],
)
def test_what_is_no_float_is_refused(value, letters, sizes, words):
    with pytest.raises(tg.DataError, match=words):
        _core.as_floats("x", value, letters, sizes)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0.5], "whole numbers, found 0.5 at 0"),
        ([1.0, 2.0**63], r"whole numbers, found 9.2\d*e\+18 at 1"),
        ([-np.inf], "whole numbers, found -inf"),
        (np.array([2**63], np.uint64), r"numbers below 2\^63, found 9223372036854775808"),
    ],
)
def test_what_is_not_whole_is_refused(value, words):
    with pytest.raises(tg.DataError, match=words):
        _core.as_whole("x", value, "N")


def test_arrays_of_others_are_neither_shared_nor_changed():
    given = {"node_feat": np.ones((3, 2), np.float32), "edge_index": np.zeros((0, 2), np.int64)}
    graph = tg.Graph(**given, config_feat=np.ones((2, 1), np.float32), runtime=[1, 2])
    given["node_feat"][:] = 5
    assert (graph.node_feat == 1).all()
    for array in (graph.node_feat, graph.edge_index, graph.config_feat, graph.runtime):
        with pytest.raises(ValueError):
            array.flags.writeable = True


# ---- digits ---------------------------------------------------------------------------------------------


def test_digits_of_all_forms_are_the_same(tmp_path):
    graph = small_graph()
    graph.save(tmp_path / "g.npz")
    graph.save(tmp_path / "g.tgpack")
    expected, rows = graph.config_digits, np.array([5, 0, 5, 95])
    masks = np.zeros(len(expected), bool)
    masks[rows] = True
    forms = [graph._digits, tg.load(tmp_path / "g.npz")._digits, tg.load(tmp_path / "g.tgpack")._digits]
    for digits in forms:
        assert digits.shape == expected.shape and digits.values is None
        for one in (digits, pickle.loads(pickle.dumps(digits)), copy.deepcopy(digits)):
            np.testing.assert_array_equal(one.take(rows), expected[rows])
            np.testing.assert_array_equal(one.take(masks), expected[masks])
            np.testing.assert_array_equal(one.take(slice(-3, None, -1)), expected[-3::-1])
            np.testing.assert_array_equal(one.select(rows).get(), expected[rows])
            np.testing.assert_array_equal(one.get(), expected)
            assert [a.tolist() for a in one.distinct()] == [a.tolist() for a in graph.distinct_configs()]
            one.validate()
        for wrong in ([96], [-97], [0.5], np.ones(3, bool), "a", [[1]]):
            with pytest.raises((IndexError, ValueError, TypeError)):
                digits.take(wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"shape": (1, 2)}, {"shape": (1, 2, 18)}, {"shape": (1, 2, 18), "array": np.zeros((1, 2, 18))},
        {"shape": (1, 2, 18), "array": np.zeros((2, 2, 18), np.int8)},
        {"shape": (1, 2, 3), "array": np.zeros((1, 2, 3), np.int8)},
        {"shape": (1, 2, 3), "array": np.zeros((1, 2, 3), np.int8), "values": (2, 2)},
        {"shape": (1, 2, 1), "array": np.zeros((1, 2, 1), np.int8), "values": (99,)},
        {"shape": (1, 2, 1), "array": np.zeros((1, 2, 1), np.int8), "values": "ab"},
        {"shape": (1, 2, 18), "stamp": (1, 2, 3, 4)}, {"shape": (1, 2, 18), "path": "x", "stamp": (1, 2)},
        {"shape": (1, 2, 18), "codes": np.zeros((1, 2, 3), np.uint8)},
        {"shape": (2, 2, 18), "codes": np.zeros((1, 2, 3), np.uint8), "table": np.zeros((1, 6), np.int8)},
    ],
)  # fmt: skip
def test_what_are_no_digits_is_refused(arguments):
    with pytest.raises((TypeError, ValueError, tg.ShapeError)):
        _core.Digits(**arguments)


def test_numbers_without_an_entry_are_found_when_they_are_read():
    codes, table = np.full((3, 1, 3), 7, np.uint8), np.zeros((2, 6), np.int8)
    digits = _core.Digits((3, 1, 18), codes=codes, table=table, path="some.tgpack")
    for use in (digits.get, digits.validate, lambda: digits.take([1])):
        with pytest.raises(tg.DataError, match=r"some\.tgpack"):
            use()


# ---- the graph of the core ------------------------------------------------------------------------------


def test_a_graph_of_the_core_is_filled_with_its_fields_only():
    graph = _core.Graph()
    assert graph.node_feat is None and graph.name is None
    graph._set(node_feat=np.ones((2, 3), np.float32), name="mine")
    assert graph._with(name="yours").node_feat is graph.node_feat
    for fields in (
        {"weights": 1},
        {"node_feat": np.ones(3)},
        {"node_feat": [[1.0]]},
        {"runtime": np.ones(2, "i4")},
    ):
        with pytest.raises((TypeError, tg.ShapeError)):
            graph._set(**fields)
    with pytest.raises(TypeError):
        graph._with(int)
    with pytest.raises(TypeError):
        graph.__setstate__([])


@pytest.mark.parametrize("make", [small_graph, small_any])
def test_a_graph_can_neither_be_changed_nor_lose_a_field(make):
    graph = make()
    with pytest.raises(AttributeError, match=r"read-only: use g\.replace\(name="):
        graph.name = "other"
    with pytest.raises(AttributeError, match="read-only"):
        del graph.node_feat
    for other in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert type(other) is type(graph) and other.name == graph.name and other.schema == graph.schema
        for name, array in graph.__getstate__().items():
            if isinstance(array, np.ndarray):
                assert getattr(other, name).tobytes() == array.tobytes()
                assert not getattr(other, name).flags.writeable
        np.testing.assert_array_equal(other.config_digits, graph.config_digits)
