"""Schemas and the graphs that have one: what fits, what is refused, and the messages."""

import dataclasses
import json
import pickle
from types import SimpleNamespace

import madeup
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rankers import small_graph, small_ranker
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.data.schema import KINDS, LAYOUT, TILE, UNITS, Column, Digit, Schema

NAMES = st.text(min_size=1, max_size=8)
VALUES = st.one_of(
    st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4, unique=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4, unique=True),
)


@st.composite
def column_of(draw, name):
    kind = draw(st.sampled_from(KINDS))
    return Column(name, kind, tuple(draw(VALUES)) if kind == "category" else ())


@st.composite
def schemas(draw):
    def group(most):
        names = draw(st.lists(NAMES, max_size=most, unique=True))
        return tuple(draw(column_of(name)) for name in names)

    digits = tuple(
        Digit(name, draw(st.integers(2, 32))) for name in draw(st.lists(NAMES, max_size=3, unique=True))
    )
    return Schema(
        node=group(3), graph=group(3), config=group(3), digits=digits,
        opcodes=draw(st.none() | st.integers(1, 256)), unit=draw(st.none() | st.sampled_from(list(UNITS))),
        inferred=draw(st.booleans()),
    )  # fmt: skip


SOME = Schema(
    node=(Column("size", "log"), Column("weight")),
    graph=(Column("gpu", "category", ("A", "B")),),
    config=(Column("block", "log"), Column("cached", "flag"), Column("tile", "category", (1, 2, 4))),
    opcodes=5,
    unit="ms",
)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(schemas())
def test_json_both_ways(schema):
    again = Schema.from_json(schema.to_json())
    assert again == schema and hash(again) == hash(schema) and again.inferred == schema.inferred
    assert again.to_json() == schema.to_json() and again.difference(schema) is None
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@settings(max_examples=50, deadline=None, derandomize=True)
@given(schemas(), schemas())
def test_a_difference_is_named_exactly_where_there_is_one(a, b):
    assert (a.difference(b) is None) == (a == b)


def test_published_schemas():
    assert len(LAYOUT.node) == 140 and len(LAYOUT.digits) == 18 and not LAYOUT.config
    assert len(TILE.config) == 24 and not TILE.digits and TILE.node == LAYOUT.node
    assert {digit.values for digit in LAYOUT.digits} == {6}
    assert (TILE.metric, LAYOUT.metric, SOME.metric) == ("top5", "tau", "tau")
    names = [column.name for column in LAYOUT.node]
    # places given in the documentation of the data set
    for place, name in {
        0: "is_root", 14: "element_type_f64", 21: "shape_dimension_0", 28: "shape_dimension_product",
        30: "parameter_number", 37: "window_size_0", 91: "window_reversal_true_count", 93: "conv_input_batch",
        107: "feature_group_count", 109: "slice_start_0", 132: "pad_high_product", 133: "is_stable",
        134: "layout_minor_to_major_0",
    }.items():  # fmt: skip
        assert names[place] == name
    assert madeup.graph("program").schema is LAYOUT and madeup.graph("kernel_00").schema is TILE
    assert "LAYOUT" in repr(LAYOUT) and "2 node" in repr(SOME)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"node": SOME.node[::-1]}, "node column 0: expected 'size', found 'weight'"),
        ({"node": SOME.node[:1]}, "node column 1: expected 'weight', found only 1"),
        ({"graph": ()}, "graph column 0: expected 'gpu', found only 0"),
        (
            {"graph": (*SOME.graph, Column("more"))},
            "graph column 1: expected only 1 column, found 'more' too",
        ),
        (
            {"config": (Column("block"), *SOME.config[1:])},
            "config column 0: 'block' is a log column, found a number",
        ),
        (
            {"graph": (Column("gpu", "category", ("A", "C")),)},
            "graph column 0: 'gpu' has the value 'B', found 'C' in its place",
        ),
        ({"graph": (Column("gpu", "category", ("A",)),)}, "graph column 0: 'gpu' has 2 values, found 1"),
        ({"opcodes": None}, "opcodes: expected 5, found none"),
        ({"unit": "us"}, "unit: expected ms, found us"),
        ({"config": (), "digits": (Digit("d", 2),)}, "config column 0: expected 'block', found only 0"),
    ],
)
def test_first_difference(change, words):
    other = dataclasses.replace(SOME, **change)
    assert SOME.difference(other).startswith(words) and other.difference(SOME)
    refuses(lambda: SOME.join(other), tg.DataError, "schema")


def test_digits_differ():
    a, b = Schema(digits=(Digit("d", 3), Digit("e", 4))), Schema(digits=(Digit("d", 3), Digit("e", 5)))
    assert a.difference(b) == "digit 1: 'e' has 4 values, found 5"
    assert a.difference(Schema(digits=(Digit("d", 3), Digit("f", 4)))) == "digit 1: expected 'e', found 'f'"


def test_what_is_no_schema():
    for make in (
        lambda: Column(""),
        lambda: Column(7),
        lambda: Column("a", "ln"),
        lambda: Column("a", "category"),
        lambda: Column("a", "flag", (0, 1)),
        lambda: Column("a", "category", ("x", "x")),
        lambda: Column("a", "category", ("x", 1)),
        lambda: Column("a", "category", (1, 2.0)),
        lambda: Column("a", "category", (True, False)),
        lambda: Column("a", "category", (float("nan"),)),
        lambda: Column("a", "category", "xyz"),
        lambda: Digit("a", 1),
        lambda: Digit("a", 33),
        lambda: Digit("a", 2.0),
        lambda: Digit("", 2),
        lambda: Schema(node=(Column("a"), Column("a", "log"))),
        lambda: Schema(digits=(Digit("a", 2), Digit("a", 2))),
        lambda: Schema(digits=tuple(Digit(f"d{i}", 2) for i in range(65))),
        lambda: Schema(node=("a",)),
        lambda: Schema(opcodes=0),
        lambda: Schema(opcodes=257),
        lambda: Schema(opcodes=2.0),
        lambda: Schema(unit="minutes"),
        lambda: Schema.from_json("{"),
        lambda: Schema.from_json("[]"),
        lambda: Schema.from_dict({"nodes": []}),
        lambda: Schema.from_dict({"node": [{"name": "a", "sort": "log"}]}),
        lambda: Schema.from_dict({"node": [["a", "log"]]}),
    ):
        refuses(make, tg.ConfigError)


# ---- graphs -----------------------------------------------------------------------------------------------


def some_graph(**change):
    rng = np.random.default_rng(0)
    arrays = {
        "node_feat": rng.random((4, 2)), "edge_index": [[1, 0], [2, 1]], "node_opcode": [0, 4, 1, 1],
        "graph_feat": [1], "config_feat": [[16, 0, 2], [32, 1, 0], [64, 1, 1]], "runtime": [1.5, 1.25, 2.0],
        "schema": SOME, "name": "some",
    }  # fmt: skip
    return tg.Graph(**{**arrays, **change})


def test_attributes(tmp_path):
    g = some_graph(valid=[True, False, True], repeats=[[1, 2], [3, 4], [5, np.nan]])
    assert g.kind == "graph" and g.schema is SOME and (g.num_nodes, g.num_edges, g.num_configs) == (4, 2, 3)
    assert g.node_feat.dtype == np.float32 and g.config_feat.shape == (3, 3) and g.runtime.dtype == np.float64
    assert np.isnan(g.runtime[1]) and np.isnan(g.repeats[1]).all()
    assert g.config_runtime.tolist() == [1.5, np.inf, 2.0]
    assert g.ran.tolist() == [0, 2] and g.has_runtimes and g.num_config_nodes == 0
    assert g.node_config_ids.shape == (0,) and g.node_config_feat.shape == (3, 0, 0)
    for array in (g.node_feat, g.config_feat, g.runtime, g.valid, g.repeats, g.graph_feat):
        assert not array.flags.writeable
    part = g.select([2, 0])
    np.testing.assert_array_equal(part.runtime, [2.0, 1.5])
    np.testing.assert_array_equal(part.config_feat, g.config_feat[[2, 0]])
    assert part.valid.all() and part.repeats.shape == (2, 2)
    with pytest.raises(AttributeError):
        g.name = "x"
    failed = g.select([1])
    for name in ("failed.npz", "failed.tgpack"):  # could not be opened
        refuses(lambda: failed.save(tmp_path / name), tg.DataError, "config", "none of 1")
        assert not (tmp_path / name).exists()
    assert g.replace(name="x").name == "x" and isinstance(pickle.loads(pickle.dumps(g)), tg.Graph)


def test_whole_runtimes_stay_whole():
    g = tg.Graph(config_feat=np.eye(2), runtime=[2**60 + 1, 5])
    assert g.runtime.dtype == np.int64 and g.runtime[0] == 2**60 + 1
    assert tg.Graph(config_feat=np.eye(2), runtime=[2, 5], valid=[True, False]).runtime.tolist() == [2, 0]


def test_a_table_of_configs_is_a_graph():
    g = tg.Graph(config_feat=[[1.0, 2.0], [3.0, 4.0]], runtime=[1, 2])
    assert (g.num_nodes, g.num_edges) == (1, 0) and g.node_feat.shape == (1, 0) and g.node_opcode is None
    assert g.schema.inferred and [c.name for c in g.schema.config] == ["config_0", "config_1"]
    assert {c.kind for c in g.schema.config} == {"number"} and g.schema.unit is None
    assert tg.Graph(node_opcode=[1, 2, 3]).num_nodes == 3 and not tg.Graph().has_runtimes


def test_published_graphs_are_such_graphs():
    layout, tile = madeup.graph("program"), madeup.graph("kernel_00")
    for graph in (layout, tile):
        assert isinstance(graph, tg.Graph) and graph.runtime is graph.config_runtime
        assert graph.valid is None and graph.repeats is None and graph.graph_feat is None
        assert graph.ran.size == graph.num_configs
    assert layout.config_feat is None and tile.node_config_feat.shape == (tile.num_configs, 0, 0)
    assert (layout.kind, tile.kind, tile.num_config_nodes) == ("layout", "tile", 0)


@pytest.mark.parametrize(
    "change, field, words",
    [
        ({"config_feat": [[16, 0, 2], [32, 1, np.nan], [64, 1, 1]]}, "config_feat", "nan at (1, 2), column 'tile'"),
        ({"graph_feat": [np.inf]}, "graph_feat", "inf at 0, column 'gpu'"),
        ({"config_feat": [[16, 0, 2], [32, 1, 3], [64, 1, 1]]}, "tile", "found 3 in row 1"),
        ({"config_feat": [[16, 0, 2], [32, 2, 0], [64, 1, 1]]}, "cached", "expected 0 or 1 in a flag, found 2 in row 1"),
        ({"config_feat": [[16, 0, 2], [-32, 1, 0], [64, 1, 1]]}, "block", "found -32 in row 1"),
        ({"config_feat": [[16, 0], [32, 1], [64, 1]]}, "config_feat", "3 columns, as in the schema, found 2"),
        ({"graph_feat": None}, "graph_feat", "1 column, as in the schema, found 0"),
        ({"graph_feat": [2]}, "gpu", "0..1, found 2"),
        ({"node_opcode": [0, 5, 1, 1]}, "node_opcode", "5 at 1"),
        ({"node_opcode": None}, "node_opcode", "opcodes, as in the schema, found none"),
        ({"runtime": [1, 2]}, "runtime", "shape (3,), found shape (2,)"),
        ({"runtime": [1, 0, 2]}, "runtime", "times > 0, found 0 at 1"),
        ({"runtime": [1, -2, 2]}, "runtime", "found -2 at 1"),
        ({"runtime": [1, np.nan, 2]}, "runtime", "found nan at 1"),
        ({"runtime": [True, True, False]}, "runtime", "bools"),
        ({"runtime": ["1", "2", "3"]}, "runtime", "array of numbers"),
        ({"valid": [False] * 3}, "valid", "at least one config that ran, found none of 3"),
        ({"valid": [1, 0, 1]}, "valid", "True or False"),
        ({"repeats": [[1, 2], [0, 1], [2, 2]]}, "repeats", "0 at (1, 0)"),
        ({"repeats": [[1, 2]]}, "repeats", "shape (3, R)"),
        ({"config_feat": None}, "config_feat", "there are runtimes"),
        ({"node_config_ids": [0]}, "node_config_feat", "node_config_ids and node_config_feat together"),
        ({"edge_index": [[0, 4]]}, "edge_index", "4 at (0, 1)"),
        ({"node_feat": None, "node_opcode": 3}, "node_opcode", "shape (N,), found shape ()"),
        ({"schema": "layout"}, "schema", "a tpugraphs.Schema"),
        ({"node_feat": np.ones((0, 2)), "node_opcode": []}, "node_feat", "at least one node"),
    ],
)  # fmt: skip
def test_arrays_that_are_no_graph(change, field, words):
    with pytest.raises(tg.DataError) as caught:
        some_graph(**change)
    assert caught.value.field == field and words in str(caught.value)
    assert str(caught.value).startswith("graph 'some': ")


def test_digits_of_any_schema(tmp_path):
    rng = np.random.default_rng(1)
    values = rng.integers(2, 33, 64)
    digits = (rng.random((40, 3, 64)) * (values + 1)).astype(int) - 1
    schema = Schema(digits=tuple(Digit(f"d{i}", int(n)) for i, n in enumerate(values)), unit="us")
    g = tg.Graph(node_feat=np.zeros((5, 0)), node_config_ids=[4, 0, 2], node_config_feat=digits,
                 runtime=np.arange(1, 41), schema=schema)  # fmt: skip
    assert g.config_digits.dtype == np.int8 and g.node_config_feat.dtype == np.float32
    np.testing.assert_array_equal(g.node_config_feat[[3, -1]], digits[[3, -1]].astype(np.float32))
    np.testing.assert_array_equal(g.digits_of(slice(5, 9)), digits[5:9])
    for name in ("g.npz", "g.tgpack"):
        g.save(tmp_path / name)
        read = tg.load(tmp_path / name)
        assert read.schema == schema and not read.schema.inferred
        np.testing.assert_array_equal(read.digits_of([7, 3]), digits[[7, 3]])
        np.testing.assert_array_equal(read.select([7, 3]).config_digits, digits[[7, 3]])
        np.testing.assert_array_equal(read.validate().config_digits, digits)
    twice = g.select([0, 1, 0, 2, 1])
    first, inverse = twice.distinct_configs()
    assert first.tolist() == [0, 1, 3] and inverse.tolist() == [0, 1, 0, 2, 1]
    bad = digits.copy()
    bad[17, 2, 40] = values[40]
    refuses(lambda: g.replace(node_config_feat=bad), tg.DataError, "config 17, node 2, column 40")
    with pytest.raises(tg.DataError, match=r"D in 1\.\.64"):
        tg.Graph(node_config_ids=[0], node_config_feat=np.zeros((2, 1, 65)))
    with pytest.raises(tg.DataError, match="in -1..31"):
        tg.Graph(node_config_ids=[0], node_config_feat=np.full((2, 1, 3), 32))
    refuses(lambda: tg.Graph(node_config_feat=np.zeros((2, 1, 3))), tg.DataError, "node_config_ids")


def test_graphs_without_a_schema_fit_where_their_values_do():
    given = some_graph()
    bare = some_graph(schema=None)
    assert bare.schema.inferred and bare.schema != SOME
    SOME.check(given)
    SOME.check(bare)
    for change, words in (
        ({"graph_feat": [7]}, "'gpu'.*found 7"),
        ({"config_feat": [[1, 1], [0, 0], [1, 0]]}, "config column 2: expected 'tile', found only 2"),
        ({"config_feat": np.ones((3, 4))}, "config column 3: expected only 3 columns, found 'config_3' too"),
        ({"node_opcode": [9, 0, 0, 0]}, "opcodes: expected 5, found 10"),
        ({"node_opcode": None}, "opcodes: expected 5, found none"),
    ):
        with pytest.raises(tg.DataError, match=words) as caught:
            SOME.check(some_graph(schema=None, **change))
        assert "'some'" in str(caught.value)
    other = dataclasses.replace(SOME, unit="us")
    other.check(given)
    refuses(lambda: other.check(given, runtimes=True), tg.DataError, "unit", "found ms")
    refuses(lambda: LAYOUT.check(given), tg.DataError, "node column 0")
    refuses(lambda: LAYOUT.check(madeup.graph("kernel_00")), tg.DataError, "config column 0")


def test_joining_schemas_of_bare_graphs():
    def bare(most, opcodes):
        digits = np.zeros((2, 1, 2), int)
        digits[1, 0] = most
        return tg.Graph(node_opcode=[opcodes, 0], node_config_ids=[0], node_config_feat=digits).schema

    wide = bare((3, 9), 4).join(bare((7, 1), 8))
    assert [d.values for d in wide.digits] == [8, 10] and wide.opcodes == 9 and wide.inferred
    said = dataclasses.replace(wide, inferred=False)
    assert said.join(bare((1, 1), 1)) is said and bare((1, 1), 1).join(said) is said
    refuses(lambda: said.join(bare((8, 1), 1)), tg.DataError, "digit 0")
    refuses(lambda: wide.join(tg.Graph(config_feat=np.eye(2)).schema), tg.DataError, "does not fit")


def test_encode_and_decode():
    table = {"tile": [4, 1], "cached": [True, False], "block": [16, 64.5], "unused": ["x", "y"]}
    rows = SOME.encode("config", table)
    np.testing.assert_array_equal(rows, np.array([[16, 1, 2], [64.5, 0, 0]], np.float32))
    assert SOME.decode("config", rows[1]) == {"block": 64.5, "cached": False, "tile": 1}
    refuses(lambda: SOME.encode("config", {**table, "tile": [1, 8]}), tg.DataError, "'tile'", "8 in row 1")
    refuses(lambda: SOME.encode("config", {"tile": [1], "cached": [True]}), tg.DataError, "'block'", "none")
    with pytest.raises(tg.DataError, match="'cached'.*'1' in row 0"):
        SOME.encode("config", {**table, "cached": ["1", "0"]})
    with pytest.raises(tg.DataError, match="'tile'.*True in row 0"):
        SOME.encode("config", {**table, "tile": [True, False]})
    refuses(lambda: SOME.encode("config", {**table, "tile": [1]}), tg.DataError, "length")
    refuses(lambda: SOME.encode("config", {**table, "block": [1e300, 1]}), tg.DataError, "float32")


@pytest.mark.parametrize("runtime", [[3.0, 1.0, 2.0, 5.0, 4.0], [3, 1, 2, 5, 4]])
def test_dedup(runtime):
    g = tg.Graph(config_feat=[[0.0], [1.0], [0.0], [1.0], [2.0]], runtime=runtime,
                 valid=[True, False, True, False, True])  # fmt: skip
    first = tg.dedup(g)
    assert first.config_feat[:, 0].tolist() == [0, 1, 2] and first.valid.tolist() == [True, False, True]
    later = tg.Graph(config_feat=g.config_feat, runtime=runtime, valid=np.arange(5) > 0)
    assert tg.dedup(later).runtime.tolist() == [2, 1, 4] and tg.dedup(later).valid.all()
    least, mean = tg.dedup(g, "min"), tg.dedup(g, "mean")
    assert least.runtime[[0, 2]].tolist() == [2, 4] and least.config_feat[:, 0].tolist() == [0, 1, 2]
    assert mean.runtime[[0, 2]].tolist() == [2.5, 4] and mean.valid.tolist() == [True, False, True]
    assert tg.dedup(tg.Graph(config_feat=[[1.0], [1.0]], runtime=[1, 2]), "mean").runtime.tolist() == [1.5]


def test_the_rules_of_columns_are_those_of_the_core():
    columns = (*map(Column, ("a", "b", "c"), ("number", "log", "flag")), Column("d", "category", (5, 6)))
    fine = [[-1.0, 0, 1, 1], [1e38, 1e38, 0, 0]]
    for dtype in (np.float32, np.float64):
        _core.check_columns("here:", columns, np.array(fine, dtype))
        for column, value in ((0, np.nan), (1, -1), (2, 0.5), (3, 2), (3, -1), (3, 0.5)):
            table = np.array(fine, dtype)
            table[1, column] = value
            where = rf"^here: '{'abcd'[column]}': expected .*, found {value:g} in row 1; "
            with pytest.raises(tg.DataError, match=where):
                _core.check_columns("here:", columns, table)
            with pytest.raises(tg.DataError, match=f"found {value:g} in line 3; "):
                _core.check_columns("here:", columns, table, lambda row: f"line {row + 2}")
    with pytest.raises(tg.DataError, match="float32"):
        _core.check_columns("", columns[:1], np.array([[1e39]]))
    bare = SimpleNamespace
    for wrong in ((bare(kind="text"),), (bare(kind=3),), (bare(kind="category"),), ("number",), (3,)):
        with pytest.raises((ValueError, AttributeError)):
            _core.check_columns("", wrong, np.zeros((1, 1)))
    with pytest.raises(TypeError):
        _core.check_columns("", list(columns), np.zeros((1, 4)))
    with pytest.raises(ZeroDivisionError):
        _core.check_columns("", columns, np.full((1, 4), -2.0), lambda row: row // 0)
    with pytest.raises(tg.ShapeError):
        _core.check_columns("", columns, np.zeros((1, 3)))


def allowed(column, x):
    """Which float32 values (n,) are such as a column allows, by NumPy."""
    ends = {"log": (0, np.inf), "flag": (0, 1), "category": (0, len(column.values) - 1)}
    low, high = ends.get(column.kind, (-np.inf, np.inf))
    return (
        np.isfinite(x) & (x >= low) & (x <= high) & ((column.kind in ("number", "log")) | (np.rint(x) == x))
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_graph_refuses_the_values_that_numpy_finds(seed):
    rng = np.random.default_rng(seed)
    values = [np.nan, np.inf, -np.inf, -1, -0.0, 0, 0.5, 1, 1.0000001, 2, 3, 1e-45, 2**31, -(2.0**31), 3.4e38]
    for _ in range(50):
        kinds = rng.choice(["number", "log", "flag", "category"], 4)
        columns = [Column(f"c{i}", k, ("x", "y", "z") * (k == "category")) for i, k in enumerate(kinds)]
        table = rng.integers(0, 2, (6, 4)).astype(np.float32)
        for row, column in rng.integers(0, (6, 4), (rng.integers(3), 2)):
            table[row, column] = rng.choice(values)
        good = np.stack([allowed(c, table[:, i]) for i, c in enumerate(columns)], 1)
        given = {"config_feat": table, "schema": Schema(config=tuple(columns))}
        if good.all():
            assert np.array_equal(tg.Graph(**given).config_feat, table)
            continue
        with pytest.raises(tg.DataError) as caught:
            tg.Graph(**given)
        finite = np.isfinite(table)  # looked at first, without the schema
        row, column = np.argwhere(~good if finite.all() else ~finite)[0]
        place = f" in row {row};" if finite.all() else f" at ({row}, {column}), column 'c{column}';"
        assert place in str(caught.value)
        assert caught.value.field == (f"c{column}" if finite.all() else "config_feat")


def test_a_graph_all_of_whose_configs_failed_is_not_judged():
    failed = tg.Graph(config_feat=np.eye(3), runtime=[1.0, 2, 3], valid=[True, False, False]).select([1, 2])
    assert "all configs failed" in failed.describe()["warnings"][0]
    for judge in (
        lambda: tg.evaluation.evaluate(lambda g: np.zeros(2), failed),
        lambda: tg.ranker.LinearBaseline().fit(failed),
    ):
        refuses(judge, tg.DataError, "graph:", "valid", "2 configs")


def test_failed_configs_are_left_out_of_a_report():
    runtime = np.array([5.0, np.nan, 1.0, 3.0, 2.0])
    g = tg.Graph(config_feat=np.eye(5), runtime=runtime, valid=np.isfinite(runtime))
    report = tg.evaluation.evaluate(lambda graph: np.nan_to_num(graph.runtime, nan=0.0), g)
    (row,) = report.rows
    assert row.configs == 4 and row.values["tau"] == 1
    refuses(lambda: tg.evaluation.measured_runtimes(g), tg.DataError, "config 1 failed", "g.ran")
    np.testing.assert_array_equal(tg.evaluation.measured_runtimes(g, g.ran), [5, 1, 3, 2])
    with pytest.raises(tg.DataError, match="placeholders"):
        tg.evaluation.measured_runtimes(tg.Graph(config_feat=np.eye(2)))


def test_descriptions():
    runtime = np.array([0.5, 2.0, 3.0, 7.0])
    g = tg.Graph(config_feat=np.eye(4), runtime=runtime, valid=[True, True, True, False],
                 schema=Schema(config=tuple(Column(f"c{i}") for i in range(4)), unit="us"), name="<b>")  # fmt: skip
    told = json.loads(json.dumps(g.describe()))
    assert told["runtime_ns"] == {"min": 500.0, "median": 2000.0, "max": 3000.0}
    assert told["failed_configs"] == 1 and told["schema"]["config"][0]["name"] == "c0"
    text = tg.data.description.format_description(told)
    assert "c0 (number)" in text and "0.0005 / 0.002 / 0.003 ms" in text and "1 config failed" in text
    assert "&lt;b&gt;" in g._repr_html_() and repr(g) == "Graph('<b>', nodes=1, edges=0, configs=4)"
    bare = tg.Graph(config_feat=np.eye(2), runtime=[1, 4], node_opcode=[3])
    assert bare.describe()["runtime_ns"] is None and "no unit" in tg.data.description.format_description(
        bare.describe()
    )


def test_what_needs_a_published_graph_says_so():
    g = some_graph()
    refuses(lambda: tg.prune(g), tg.ConfigError, "layout graph", "Graph")
    with pytest.raises(tg.DataError, match="collection"):
        _ = g.submission_id
    refuses(lambda: tg.Ranker(recipe="first-layout").fit(g, steps=1), tg.DataError, "layout", "a Graph")


def test_linear_baseline_learns_from_any_schema():
    rng = np.random.default_rng(3)
    x = rng.random((80, 3))
    runtime = x @ [1.0, 2.0, 0.5] + 1
    runtime[7] = np.nan
    g = tg.Graph(config_feat=x, runtime=runtime, valid=np.isfinite(runtime))
    fitted = tg.ranker.LinearBaseline().fit(g)
    assert tg.evaluation.evaluate(fitted.predict, g).rows[0].values["tau"] > 0.9
    digits = rng.integers(-1, 9, (90, 2, 4))
    d = tg.Graph(node_config_ids=[0, 1], node_feat=np.zeros((2, 0)), node_config_feat=digits,
                 runtime=1.0 + digits[:, 0, 0] + 2 * digits[:, 1, 3] + 3)  # fmt: skip
    assert tg.evaluation.evaluate(tg.ranker.LinearBaseline().fit(d).predict, d).rows[0].values["tau"] > 0.8
    with pytest.raises(tg.DataError, match="'graph'.*schema.*config column 3"):
        fitted.predict(tg.Graph(config_feat=np.ones((2, 4))))
    with pytest.raises(tg.DataError, match="schema.*config column 2.*'config_2'"):
        fitted.predict(tg.Graph(config_feat=np.ones((2, 2))))
    refuses(lambda: fitted.predict(d), tg.DataError, "config column 0", "'config_0'")


def test_digits_of_another_schema_are_checked_as_layouts():
    digits = np.zeros((2, 1, 18), int)
    other = tg.Graph(edge_index=[], node_config_ids=[0], node_config_feat=digits, runtime=[1, 2])
    layout = {"node_feat": np.zeros((1, 140)), "node_opcode": [2], "edge_index": [], "node_config_ids": [0]}
    tg.LayoutGraph(**layout, node_config_feat=other.node_config_feat, config_runtime=[1, 2])
    digits[1, 0, 3] = 7
    other = other.replace(node_config_feat=digits)
    with pytest.raises(tg.DataError, match="7 at row 1, node 0, column 3"):
        tg.LayoutGraph(**layout, node_config_feat=other.node_config_feat, config_runtime=[1, 2])


def test_layout_recipes_take_measured_graphs_of_the_published_schema():
    """With repeats and failed configs, for which a LayoutGraph has no room; learnt as if these were not there."""
    layout = small_graph()
    count = layout.num_configs
    valid = np.arange(count) % 7 != 3
    names = ("node_feat", "node_opcode", "edge_index", "node_config_ids", "node_config_feat")
    fields = {name: getattr(layout, name) for name in names}
    runtime = np.where(valid, layout.runtime, 0)
    repeats = np.stack([runtime, runtime + 1], 1).astype(float)
    own = tg.Graph(**fields, runtime=runtime, valid=valid, repeats=repeats, schema=LAYOUT)
    expected = small_ranker(steps=3)
    expected.fit(layout.select(valid), verbose=False)
    ranker = small_ranker(steps=3)
    ranker.fit(own, verbose=False)
    np.testing.assert_array_equal(ranker.predict(own), expected.predict(layout))
    other = tg.Graph(config_feat=np.eye(3), runtime=[1, 2, 3])
    refuses(lambda: small_ranker(steps=3).fit(other, verbose=False), tg.DataError, "LayoutGraph", "a Graph")
