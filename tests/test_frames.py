"""Tables to graphs: what from_frame infers, and every way in which a table can be wrong."""

import gzip
import importlib.util
import json
import os
import re
import tracemalloc
from pathlib import Path

import hlo_files
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.data import samples
from tpugraphs.data.schema import Column, Digit

MEASURED = samples.data_folder() / "measured"


def table(**change):
    made = {
        "gpu": ["A", "A", "B", "A", "B"],
        "size": [512, 512, 512, 512, 512],
        "block": [16, 32, 256, 64, 16],
        "unroll": [True, False, True, True, False],
        "order": ["xy", "yx", "xy", "xy", "zz"],
        "depth": [0.5, 0.25, 0.5, 0.75, 1.0],
        "ms": [2.0, 1.5, 3.0, 2.5, 3.5],
        "note": [None, "x", 3, 4.0, []],
    }
    return {**made, **change}


ARGUMENTS = {
    "group": ["gpu"], "features": ["size", "gpu"], "config": ["block", "unroll", "order", "depth"],
    "runtime": "ms",
}  # fmt: skip


def frame(data=None, **change):
    return tg.from_frame(table() if data is None else data, **{**ARGUMENTS, **change})


def test_one_graph_per_problem():
    a, b = frame()
    assert (a.name, b.name) == ("gpu=A", "gpu=B") and (a.num_configs, b.num_configs) == (3, 2)
    assert a.schema is b.schema and not a.schema.inferred and a.schema.unit == "ms"
    assert a.schema.config == (
        Column("block", "log"), Column("unroll", "flag"), Column("order", "category", ("xy", "yx", "zz")),
        Column("depth", "number"),
    )  # fmt: skip
    assert a.schema.graph == (Column("size"), Column("gpu", "category", ("A", "B")))
    np.testing.assert_array_equal(
        a.config_feat, np.array([[16, 1, 0, 0.5], [32, 0, 1, 0.25], [64, 1, 0, 0.75]], np.float32)
    )
    assert a.runtime.tolist() == [2, 1.5, 2.5] and b.graph_feat.tolist() == [512, 1]
    assert a.valid is None and a.num_nodes == 1 and a.num_edges == 0


def test_order_of_columns_does_not_matter():
    turned = dict(reversed(table().items()))
    for a, b in zip(frame(), frame(turned), strict=True):
        assert a.schema == b.schema
        np.testing.assert_array_equal(a.config_feat, b.config_feat)


def test_a_table_that_is_one_problem():
    (graph,) = tg.from_frame({"x": [1, 2], "time": [3, 4]}, config="x", runtime="time")
    assert graph.name == "graph" and graph.runtime.dtype == np.int64 and graph.schema.unit is None
    (ranked,) = tg.from_frame({"x": [1, 2]}, config="x", runtime=None)
    assert not ranked.has_runtimes and ranked.num_configs == 2


def test_several_group_columns_and_a_problem_with_one_config():
    graphs = frame(table(size=[1, 1, 1, 2, 1]), group=["gpu", "size"], features=["size"])
    assert [g.name for g in graphs] == ["gpu=A, size=1", "gpu=B, size=1", "gpu=A, size=2"]
    assert [g.num_configs for g in graphs] == [2, 2, 1]


@pytest.mark.parametrize(
    "values, kind",
    [
        ([1, 2, 4], "number"), ([1, 2, 16], "log"), ([0, 1, 16], "log"), ([0, 1, 15], "number"),
        ([-1, 1, 100], "number"), ([0.001, 0.01, 0.9], "number"), ([0.01, 0.5, 1.0], "log"), ([0, 0, 0], "number"),
        ([True, False, True], "flag"), (["1", "2", "3"], "category"), ([2**60, 2**61, 1], "log"),
    ],
)  # fmt: skip
def test_kinds_are_inferred_by_the_rule(values, kind):
    data = {"x": values, "ms": [1, 2, 3]}
    for given in (data, {key: np.array(value) for key, value in data.items()}):
        (graph,) = tg.from_frame(given, config="x")
        assert graph.schema.config[0].kind == kind


def test_kinds_can_be_said():
    a, _ = frame(kinds={"block": "category", "depth": "log", "size": "category", "unroll": "number"})
    assert a.schema.config[0] == Column("block", "category", (16, 32, 64, 256))
    assert [c.kind for c in a.schema.config] == ["category", "number", "category", "log"]
    assert a.schema.graph[0] == Column("size", "category", (512,)) and a.config_feat[2, 0] == 2
    refuses(lambda: frame(kinds={"order": "flag"}), tg.DataError, "'order'", "'xy' in row 0")
    refuses(lambda: frame(kinds={"depth": "flag"}), tg.DataError, "'depth'", "0.5 in row 0", "'gpu=A'")
    refuses(lambda: frame(kinds={"ms": "log"}), tg.ConfigError, "'ms'")
    refuses(lambda: frame(kinds={"depth": "ln"}), tg.ConfigError, "kind")


def test_the_schema_of_training():
    schema = frame()[0].schema
    again = frame(table(block=[1] * 5), schema=schema)
    assert again[0].schema is schema
    with pytest.raises(tg.DataError) as caught:
        frame(table(order=["xy", "yx", "xy", "xy", "zx"]), schema=schema)
    text = str(caught.value)
    assert "column 'order': expected one of 'xy', 'yx', 'zz', found 'zx' in row 4 (problem 'gpu=B')" in text
    assert caught.value.field == "order"
    with pytest.raises(tg.DataError, match="'gpu'.*'C' in row 2"):
        frame(table(gpu=["A", "A", "C", "A", "C"]), schema=schema)
    with pytest.raises(tg.DataError, match="config.*no 'depth'"):
        frame(schema=schema, config=["block", "unroll", "order"])
    with pytest.raises(tg.DataError, match="features.*'note' too"):
        frame(schema=schema, features=["size", "gpu", "note"], data=table(note=[1] * 5))
    with pytest.raises(tg.DataError, match="run times in ms.*found in us"):
        frame({**table(), "time_us": [1] * 5}, schema=schema, runtime="time_us")
    refuses(lambda: frame(schema=schema, kinds={"block": "log"}), tg.ConfigError, "kinds")
    turned = frame(schema=schema, config=["depth", "order", "unroll", "block"])
    np.testing.assert_array_equal(turned[0].config_feat, frame()[0].config_feat)


@pytest.mark.parametrize(
    "name, unit", [("ms", "ms"), ("time_us", "us"), ("t_ns", "ns"), ("s", "s"), ("kms", None), ("time", None)]
)
def test_units(name, unit):
    data = {"x": [1, 2], name: [3, 4], "u": ["us", "us"]}
    assert tg.from_frame(data, config="x", runtime=name)[0].schema.unit == unit
    if unit in (None, "us"):
        for said in ("us", "u"):
            assert tg.from_frame(data, config="x", runtime=name, unit=said)[0].schema.unit == "us"
    else:
        with pytest.raises(tg.DataError, match=f"run times in us, as unit= says, found in {unit}"):
            tg.from_frame(data, config="x", runtime=name, unit="us")


def test_two_units():
    with pytest.raises(tg.DataError, match="'u'.*'ms'.*'us' in row 3"):
        frame(table(u=["ms", "ms", "ms", "us", "ms"]), unit="u")
    with pytest.raises(tg.DataError, match="unit.*'min'"):
        frame(table(u=["min"] * 5), unit="u", runtime="depth", config="block")
    refuses(lambda: frame(unit="hours"), tg.DataError, "'hours'")


@pytest.mark.parametrize(
    "change, field, words",
    [
        ({"block": [16, 32]}, "block", "2; the table is ragged"),
        ({"block": [16, 32, float("nan"), 64, 16]}, "block", "nan in row 2 (problem 'gpu=B')"),
        ({"block": np.array([16, 32, np.inf, 64, 16])}, "block", "inf in row 2 (problem 'gpu=B')"),
        ({"block": [16, 32, None, 64, 16]}, "block", "None in row 2"),
        ({"block": [16, 32, "64", 64, 16]}, "block", "numbers as in row 0 (problem 'gpu=A'), found '64' (string) in row 2"),
        ({"unroll": [True, 1, True, True, False]}, "unroll", "found 1 (number) in row 1"),
        ({"order": ["xy", "yx", 3, "xy", "zz"]}, "order", "found 3 (number) in row 2"),
        ({"order": ["xy", "yx", None, "xy", "zz"]}, "order", "None in row 2"),
        ({"depth": [[1], [2], [3], [4], [5]]}, "depth", "[1] in row 0"),
        ({"depth": np.ones((5, 2))}, "depth", "shape (5, 2)"),
        ({"depth": np.ones(5, complex)}, "depth", "dtype complex128"),
        ({"depth": 0.5}, "depth", "one value per row, found one float"),
        ({"gpu": "ABABA"}, "gpu", "one value per row, found one str"),
        ({"depth": np.arange(5).astype("M8[D]")}, "depth", "dtype datetime64[D]; convert it"),
        ({"ms": np.arange(1, 6).astype("m8[ns]")}, "ms", "dtype timedelta64[ns]; convert it"),
        ({"gpu": ["A", "A", float("nan"), "A", "B"]}, "gpu", "nan in row 2"),
        ({"depth": [1e300, 1, 1, 1, 1]}, "depth", "float32"),
        ({"block": [2**70, 1, 1, 1, 1]}, "block", "2^63"),
        ({"gpu": ["A", "A", None, "A", "B"]}, "gpu", "None in row 2"),
        ({"size": [512, 512, 512, 256, 512]}, "size", "512 as in row 0, found 256 in row 3 (problem 'gpu=A')"),
        ({"ms": [2.0, 1.5, 0.0, 2.5, 3.5]}, "ms", "0.0 in row 2 (problem 'gpu=B')"),
        ({"ms": [2.0, 1.5, -3.0, 2.5, 3.5]}, "ms", "-3.0 in row 2"),
        ({"ms": [2.0, 1.5, np.nan, 2.5, 3.5]}, "ms", "nan in row 2 (problem 'gpu=B')"),
        ({"ms": [2.0, 1.5, "Timeout", 2.5, 3.5]}, "ms", "'Timeout' (string) in row 2 (problem 'gpu=B')"),
        ({"ms": ["2", "1", "3", "2", "3"]}, "ms", "'2' in row 0"),
        ({"ms": [True] * 5}, "ms", "True in row 0"),
        ({key: [] for key in table()}, "table", "at least one row"),
    ],
)  # fmt: skip
def test_wrong_tables(change, field, words):
    with pytest.raises(tg.DataError) as caught:
        frame(table(**change))
    assert caught.value.field == field and words in str(caught.value)


def test_arguments_of_another_type():
    for change, *names in (
        ({"runtime": 5}, "runtime", "int"),
        ({"valid": True}, "valid", "bool"),
        ({"unit": ["ms"]}, "unit", "ns, us, ms, s"),
        ({"kinds": ["block"]}, "kinds", "dict"),
        ({"schema": "published"}, "schema", "str"),
        ({"config": (), "digits": ["block"]}, "digits", "dict"),
        ({"config": [("a", "b")]}, "config", "('a', 'b')"),
    ):
        refuses(lambda: frame(**change), tg.ConfigError, *names)


def test_repeats():
    several = [1.5, None, 3.0, float("nan"), 4.0]
    a, b = frame(table(again=several, third=np.float32([1, np.nan, 2, 3, 4])), repeats=["again", "third"])
    np.testing.assert_array_equal(a.repeats, [[1.5, 1], [np.nan, np.nan], [np.nan, 3]])
    np.testing.assert_array_equal(b.repeats, [[3, 2], [4, 4]])
    failed = table(again=[1.5, "Timeout", 3.0, 2.0, 4.0], ok=[True, False, True, True, True])
    assert np.isnan(frame(failed, repeats="again", valid="ok")[0].repeats[1, 0])
    for value, words in (
        (-1.0, "found -1.0 in row 2"), ("3", "'3' (string) in row 2"), (np.inf, "inf in row 2"),
        ([3], "[3] in row 2"),
    ):  # fmt: skip
        with pytest.raises(tg.DataError) as caught:
            frame(table(again=[1.5, 2.0, value, 2.0, 4.0]), repeats="again")
        assert caught.value.field == "again" and words in str(caught.value)
        assert "(problem 'gpu=B'); leave it out" in str(caught.value)


def test_a_unit_column_may_have_another_role():
    data = {"u": ["us", "us"], "x": [1, 2], "time": [3, 4]}
    arguments = {"config": "x", "group": "u", "features": "u", "unit": "u", "runtime": "time"}
    assert tg.from_frame(data, **arguments)[0].schema.unit == "us"


def test_many_rows_take_little_memory():
    rng = np.random.default_rng(0)
    rows, problems = 40_000, 100
    data = {
        "p": rng.integers(0, problems, rows), "q": rng.integers(0, 2, rows) * 2**62, "x": rng.normal(size=rows),
        "ms": 1 + rng.random(rows),
    }  # fmt: skip
    tracemalloc.start()
    graphs = tg.from_frame(data, group=["p", "q"], config="x")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 300 * rows
    first = list(dict.fromkeys(zip(data["p"].tolist(), data["q"].tolist(), strict=True)))
    assert [g.name for g in graphs] == [f"p={p}, q={q}" for p, q in first]
    for graph, (p, q) in zip(graphs, first, strict=True):
        mine = (data["p"] == p) & (data["q"] == q)
        np.testing.assert_array_equal(graph.config_feat[:, 0], data["x"][mine].astype(np.float32))
        np.testing.assert_array_equal(graph.runtime, data["ms"][mine])


def test_failed_configs():
    times = [2.0, "CompileError", 3.0, None, 3.5]
    ok = [True, False, True, False, True]
    a, b = frame(table(ms=times, ok=ok), valid="ok")
    assert a.valid.tolist() == [True, False, False] and a.runtime[0] == 2 and np.isnan(a.runtime[1:]).all()
    assert b.valid.all() and a.ran.tolist() == [0]
    assert frame(table(ms=times, ok=[1, 0, 1, 0, 1]), valid="ok")[0].valid.tolist() == [True, False, False]
    refuses(lambda: frame(table(ms=times)), tg.DataError, "'ms'", "'CompileError'", "row 1", "valid=")
    with pytest.raises(tg.DataError, match="'ms'.*row 3"):
        frame(table(ms=times, ok=[True, False, True, True, True]), valid="ok")
    with pytest.raises(tg.DataError, match="'gpu=A'"):
        frame(table(ms=times, ok=[False, False, True, False, True]), valid="ok")
    with pytest.raises(tg.DataError, match="'ok'.*2 in row 4"):
        frame(table(ms=times, ok=[1, 0, 1, 0, 2]), valid="ok")
    with pytest.raises(tg.DataError, match="'ok'.*'yes' in row 0"):
        frame(table(ms=times, ok=["yes"] * 5), valid="ok")


def test_columns_that_are_missing_or_there_twice():
    refuses(lambda: frame(config=["blocks"]), tg.DataError, "'blocks'", "'block'")
    refuses(lambda: frame(runtime="us"), tg.DataError, "'us'")
    for change in (
        {"config": ["block", "block"]}, {"config": ["block", "ms"]}, {"config": ["gpu"]}, {"features": ["block"]},
        {"group": ["gpu", "gpu"]}, {"group": ["ms"]}, {"valid": "ms"}, {"repeats": ["ms"]},
    ):  # fmt: skip
        refuses(lambda: frame(**change), tg.ConfigError, "name it once")
    for change in (
        {"config": []},
        {"digits": {0: ["block"]}},
        {"config": [3]},
        {"config": [], "digits": {0: []}},
    ):
        with pytest.raises(tg.ConfigError):
            frame(**change)
    for what in (None, 3, [1, 2], "table"):
        refuses(lambda: frame(what if what is not None else np.ones(3)), tg.ConfigError, "DataFrame")


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    data = pandas.DataFrame(table())
    for a, b in zip(frame(data), frame(), strict=True):
        assert a.schema == b.schema and a.name == b.name
        np.testing.assert_array_equal(a.config_feat, b.config_feat)
        np.testing.assert_array_equal(a.runtime, b.runtime)
    data["order"] = data["order"].astype("category")
    assert frame(data.iloc[::-1])[1].schema == frame()[0].schema
    twice = pandas.concat([data, data[["block"]]], axis=1)
    refuses(lambda: frame(twice), tg.DataError, "'block'", "found 2")
    refuses(lambda: frame(data.set_index(["gpu", "block"])), tg.DataError, "'gpu'", "reset_index")
    for values, found in (
        (pandas.array([1, 2, None, 4, 5], dtype="Int64"), "nan in row 2"),
        (pandas.array([True, None, True, True, False], dtype="boolean"), "<NA> in row 1"),
        (pandas.Categorical(["a", "b", None, "a", "b"]), "nan in row 2"),
        (pandas.date_range("2020", periods=5), "dtype datetime64"),
        (pandas.date_range("2020", periods=5, tz="UTC"), "Timestamp"),
    ):
        with pytest.raises(tg.DataError, match=f"column 'depth': .*{found}"):
            frame(data.assign(depth=values))
    with pytest.raises(tg.DataError, match="'ms'.*dtype timedelta64"):
        frame(data.assign(ms=pandas.to_timedelta(data["ms"], unit="ms")))


class Frame:
    """What a DataFrame has that is asked for."""

    def __init__(self, data, names):
        self.columns, self._data = names, data

    def __getitem__(self, name):
        return self._data[name]


def test_frames_of_anybody():
    data = table()
    assert frame(Frame(data, list(data)))[0].schema == frame()[0].schema
    refuses(lambda: frame(Frame(data, [*data, "block"])), tg.DataError, "found 2")


def test_graphs_with_nodes_edges_and_digits():
    data = {
        "net": ["n", "m", "n"], "l0a": [0, 1, 2], "l0b": [3, -1, 0], "l2a": [1, 1, 1], "l2b": [4, 4, 0],
        "us": [5, 6, 7], "r1": [5.0, 6.0, np.nan], "r2": [5.5, 6.5, 7.5],
    }  # fmt: skip
    edges = {"n": [[1, 0], [2, 1]], "m": [[2, 0]]}
    arguments = {"group": "net", "digits": {0: ["l0a", "l0b"], 2: ["l2a", "l2b"]}, "runtime": "us"}
    n, m = tg.from_frame(data, **arguments, edges=edges, repeats=["r1", "r2"])
    assert n.schema.digits == (Digit("l0a", 3), Digit("l0b", 5)) and n.schema.unit == "us"
    assert n.num_nodes == m.num_nodes == 3 and n.num_edges == 2 and n.repeats.shape == (2, 2)
    assert n.node_config_ids.tolist() == [0, 2]
    assert n.config_digits.tolist() == [[[0, 3], [1, 4]], [[2, 0], [1, 0]]]
    n, m = tg.from_frame(
        data, **arguments, edges=edges, nodes=np.eye(3), opcodes={"n": [1, 2, 3], "m": [0, 0, 9]}
    )
    assert n.schema.opcodes == 10 and len(n.schema.node) == 3 and m.schema is n.schema
    refuses(lambda: tg.from_frame(data, **arguments, edges={"n": edges["n"]}), tg.DataError, "'m'")
    for value, found in ((0.5, "0.5"), (-2, "-2"), (32, "32")):
        with pytest.raises(
            tg.DataError, match=rf"column 'l2b': .*in -1\.\.31, found {found} in row 1 \(problem 'net=m'\)"
        ):
            tg.from_frame({**data, "l2b": [1, value, 2]}, **arguments, edges=edges)
    with pytest.raises(tg.DataError, match="'l2b'.*'a' in row 0"):
        tg.from_frame({**data, "l2b": ["a", "b", "c"]}, **arguments, edges=edges)
    turned = {0: ["l0b", "l0a"], 2: ["l2b", "l2a"]}
    again = tg.from_frame(data, **{**arguments, "digits": turned}, edges=edges, schema=n.schema, opcodes=[1, 2, 3],
                          nodes=np.eye(3))  # fmt: skip
    np.testing.assert_array_equal(again[0].config_digits, n.config_digits)
    with pytest.raises(tg.DataError, match="'l2b'.*5 in row 1"):
        tg.from_frame({**data, "l2b": [1, 5, 2]}, **arguments, edges=edges, schema=m.schema)
    with pytest.raises(tg.DataError, match="'net=m'.*node_opcode.*256"):
        tg.from_frame(data, **arguments, opcodes={"n": [1, 2, 3], "m": [256, 1, 1]})
    with pytest.raises(tg.DataError, match="'net=m'.*'node_0'"):
        tg.from_frame(data, **arguments, nodes={"n": np.ones((3, 0)), "m": np.ones((3, 1))})
    refuses(lambda: tg.from_frame(data, **arguments, edges="ab"), tg.DataError, "edge_index", "dtype")
    refuses(lambda: tg.from_frame(data, **arguments), tg.DataError, "'net=n'", "node_config_ids")


@pytest.mark.slow
def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[1] / "docs" / "your-own-data.md"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jit_f.hlo.pb").write_bytes(hlo_files.Writer().module(hlo_files.chain()))
    rows = [
        f"{gpu},256,{block},ijk,True,{block % 7 + 1}.5" for gpu in ("A100", "W6600") for block in range(12)
    ]
    (tmp_path / "measured.csv").write_text("\n".join(["gpu,width,block,order,ran,time_ms", *rows]))
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    names = {}  # as in a notebook: a block uses what those before it made
    jax = importlib.util.find_spec("jax") and "libasan" not in os.environ.get("LD_PRELOAD", "")
    for block in blocks:
        if jax or "tg.xla" not in block:
            exec(compile(block.replace("n_configs=60", "n_configs=4"), str(page), "exec"), names)
    told = capsys.readouterr().out
    assert len(blocks) == 9 and re.search(r"print\(graphs\[0\]\)  # (.*)", blocks[1]).group(1) in told
    assert tg.load("a100.npz").schema.graph[1].values == ("A100", "W6600")


def kernel_tuner(name, gpu):
    """A table of Kernel Tuner's whole space."""
    path = MEASURED / f"kernel_tuner_{name}_{gpu}_T4.json.gz"
    if not path.exists():
        pytest.skip(f"needs data of others: measured/{path.name} in {samples.VARIABLE}")
    results = json.loads(gzip.decompress(path.read_bytes()))["results"]
    columns = {key: [run["configuration"][key] for run in results] for key in results[0]["configuration"]}
    return {
        **columns,
        "gpu": [gpu] * len(results),
        "time_ms": [run["measurements"][0]["value"] for run in results],
        "ran": [run["invalidity"] == "correct" for run in results],
    }, list(columns)


@pytest.mark.parametrize(
    "name, configs, failed", [("convolution", 4362, {"A100": 161}), ("dedispersion", 11130, {})]
)
def test_measurements_of_kernel_tuner(name, configs, failed, tmp_path):
    gpus = ("A100", "A4000", "A6000", "W6600")
    parts, config = zip(*(kernel_tuner(name, gpu) for gpu in gpus), strict=True)
    data = {key: [value for part in parts for value in part[key]] for key in parts[0]}
    graphs = tg.from_frame(
        data, group="gpu", features="gpu", config=config[0], runtime="time_ms", valid="ran"
    )
    assert [g.name for g in graphs] == [f"gpu={gpu}" for gpu in gpus]
    for g, gpu in zip(graphs, gpus, strict=True):
        assert g.num_configs == configs and len(g.distinct_configs()[0]) == configs
        if gpu in failed or not failed:
            assert g.num_configs - g.ran.size == failed.get(gpu, 0)
        assert g.schema is graphs[0].schema and g.schema.unit == "ms"
    best = graphs[0].config_feat[np.nanargmin(graphs[0].runtime)]
    assert graphs[0].schema.decode("config", best)["block_size_x"] in data["block_size_x"]
    for suffix in (".npz", ".tgpack"):
        graphs[0].save(tmp_path / f"g{suffix}")
        read = tg.load(tmp_path / f"g{suffix}").validate()
        np.testing.assert_array_equal(read.runtime, graphs[0].runtime)
        np.testing.assert_array_equal(read.config_feat, graphs[0].config_feat)
        assert read.schema == graphs[0].schema
    if failed:
        with pytest.raises(tg.DataError, match="'time_ms'.*RuntimeFailedConfig.*row 766.*'gpu=A100'"):
            tg.from_frame(data, group="gpu", config=config[0], runtime="time_ms")
