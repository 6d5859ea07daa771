"""Quantities of which more is better: rates, whose runtimes are 1 / value."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.cli import main
from tpugraphs.data.description import format_description
from tpugraphs.data.schema import Column, Schema, is_rate

BLOCK = np.tile([1.0, 2, 4, 8, 16, 32, 64, 128], 5)
GPU = np.repeat([*"ABCDE"], 8)
GFLOPS = np.round(100 * BLOCK / (1 + BLOCK) * (1 + np.repeat(np.arange(5), 8)), 3)
TABLE: dict[str, Any] = {"gpu": GPU, "block": BLOCK, "gflops": GFLOPS}
HOW: dict[str, Any] = {"group": "gpu", "config": "block", "runtime": "gflops"}


def rates(**more: Any) -> list[tg.Graph]:
    return tg.from_frame({**TABLE, **more.pop("columns", {})}, **{**HOW, "direction": "maximize", **more})


def test_the_best_has_the_largest_value() -> None:
    graphs = rates()
    first = graphs[0]
    assert first.schema.direction == "maximize" and first.schema.unit == "gflops"
    np.testing.assert_allclose(first.measured, GFLOPS[:8], rtol=1e-15)
    assert first.runtime.argmin() == GFLOPS[:8].argmax() == 7
    ranker = tg.Ranker("graph-config", steps=60).fit(graphs[:3], graphs[3], verbose=False)
    assert ranker.rank(graphs[4])[0] == 7 and ranker.score(graphs[4]) > 0.9
    for scorer in (tg.ranker.LinearBaseline().fit(first), tg.ranker.MeanEffect().fit(graphs)):
        assert scorer.rank(first)[0] == 7


def test_a_frame_of_pandas_is_taken_like_a_dict() -> None:
    pandas = pytest.importorskip("pandas")
    for unit in (None, "GFLOP/s", "gflops"):
        given: dict[str, Any] = {**HOW, "direction": "maximize", "unit": unit}
        framed = tg.from_frame(pandas.DataFrame(TABLE), **given)
        for one, other in zip(framed, tg.from_frame(TABLE, **given), strict=True):
            assert (one.runtime == other.runtime).all() and one.schema == other.schema


def test_slowdowns_are_ratios_of_the_values() -> None:
    graph = rates()[1]
    values = graph.measured
    report = tg.evaluation.evaluate(lambda g: np.arange(8.0), graph, draws=10)
    assert report.mean("slowdown@1") == pytest.approx(values.max() / values[0] - 1)
    assert report.mean("tau") == tg.metrics.kendall_tau(-np.arange(8.0), values) == -1
    assert tg.evaluation.evaluate(lambda g: -g.measured, graph, draws=10).mean("slowdown@1") == 0


def test_reports_have_the_unit() -> None:
    graph = rates(unit="GFLOP/s")[0]
    told = graph.describe()
    assert told["runtime_ns"] is None and told["runtime"]["max"] == pytest.approx(GFLOPS[7])
    assert told["schema"]["direction"] == "maximize" and told["schema"]["unit"] == "GFLOP/s"
    expected = "50 / 91.5 / 99.22 GFLOP/s, more is better (min / median / max)"
    assert f"value             {expected}" in format_description(told) and "no unit" not in expected
    assert ">value</th>" in graph._repr_html_() and expected in graph._repr_html_()
    assert repr(graph.schema) == "Schema(1 config, GFLOP/s, more is better)"
    level = graph.replace(runtime=np.full(8, 0.25))
    assert any("all runtimes are equal (4.0 GFLOP/s)" in text for text in level.describe()["warnings"])


def test_files_keep_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = rates()[0]
    for name in ("g.npz", "g.tgpack"):
        graph.save(tmp_path / name)
        again = tg.load(tmp_path / name)
        assert again.schema == graph.schema and again.schema.maximized
        assert again.runtime.tobytes() == graph.runtime.tobytes()
        assert (again.measured == graph.measured).all()
    for other in (graph.replace(name="other"), graph.select(slice(3)), tg.dedup(graph), tg.with_extra(graph)):
        assert other.schema.maximized and (other.measured == graph.measured[: other.num_configs]).all()
    assert main(["inspect", str(tmp_path / "g.npz")]) == 0
    assert "gflops, more is better" in capsys.readouterr().out
    ranker = tg.Ranker("graph-config", steps=2).fit(graph, verbose=False)
    ranker.save(tmp_path / "r.safetensors")
    assert tg.load_ranker(tmp_path / "r.safetensors").schema.maximized
    schema = Schema(config=(Column("a"),))
    assert "direction" not in schema.to_dict()  # so that earlier versions read it
    assert (
        Schema.from_json(graph.schema.to_json())
        == graph.schema
        != dataclasses.replace(graph.schema, direction="minimize", unit=None)
    )


def test_failed_ones_and_repeats() -> None:
    ran = np.arange(40) % 4 != 0
    values = [value if good else None for value, good in zip(GFLOPS, ran, strict=True)]
    several = np.where(np.arange(40) % 2, np.nan, GFLOPS)
    graph = rates(columns={"gflops": values, "ran": ran, "again": several}, valid="ran", repeats="again")[0]
    np.testing.assert_allclose(graph.measured[graph.ran], GFLOPS[:8][ran[:8]])
    assert np.isnan(graph.measured[0]) and graph.repeats is not None
    np.testing.assert_allclose(graph.repeats[2], 1 / GFLOPS[2])
    assert np.isnan(graph.repeats[1]).all()
    with pytest.raises(tg.DataError, match="> 0, found 0.0 in row 3"):
        rates(columns={"gflops": np.where(np.arange(40) == 3, 0, GFLOPS)})
    with pytest.raises(tg.DataError, match="runtime"):
        rates(columns={"gflops": np.where(np.arange(40) == 3, 1e-310, GFLOPS)})
    whole = rates(columns={"gflops": np.arange(1, 41)})[0]
    assert whole.runtime.tolist() == [1 / n for n in range(1, 9)]


@pytest.mark.parametrize(
    ("given", "unit"),
    [
        ({}, "gflops"),
        ({"unit": "TFLOP/s"}, "TFLOP/s"),
        ({"unit": "gflops"}, "gflops"),
        ({"unit": "in"}, "MB/s"),
        ({"runtime": None}, None),
        ({"runtime": None, "unit": "GB/s"}, "GB/s"),
        ({"schema": Schema(config=(Column("block"),), unit="GB/s", direction="maximize")}, "GB/s"),
        ({"schema": Schema(config=(Column("block"),), direction="maximize"), "direction": None}, "gflops"),
    ],
)
def test_units(given: dict[str, Any], unit: str | None) -> None:
    schema = given.get("schema")
    graph = rates(columns={"in": ["MB/s"] * 40}, **given)[0]
    assert graph.schema.maximized and graph.schema.unit == (unit if schema is None else schema.unit)


def test_what_is_refused() -> None:
    given: dict[str, Any]
    for given, *names in (
        ({"direction": "up"}, "direction", "minimize", "maximize", "'up'"),
        ({"direction": True}, "direction", "True"),
        ({"schema": Schema(config=(Column("block"),))}, "'minimize'", "schema"),
        ({"unit": "in"}, "unit"),
        ({"unit": "x" * 41}, "unit", "40"),
        ({"unit": "\033[31m"}, "unit"),
    ):
        refuses(lambda: rates(columns={"in": ["MB/s", "GB/s"] * 20}, **given), tg.Error, *names)


def test_names_of_rates_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="'gflops' looks like .* direction='maximize', or") as told:
        quiet = tg.from_frame(TABLE, **HOW)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tg.from_frame(TABLE, **HOW, direction="minimize")[0].schema == quiet[0].schema
        tg.from_frame({**TABLE, "ms": GFLOPS}, group="gpu", config="block")
    refuses(lambda: Schema(unit="gflops"), tg.ConfigError, "give direction='maximize'")


@pytest.mark.parametrize(
    "name",
    "gflops TFLOP/s gflop_per_s Throughput bandwidth bandwidth_gbps images_per_sec ops/s GB/s fps speedup".split(),
)
def test_names_of_rates(name: str) -> None:
    assert is_rate(name)


@pytest.mark.parametrize(
    "name", "ms time_ms runtime ns_per_op latency inverse_throughput cycles s seconds loops".split()
)
def test_names_of_times(name: str) -> None:
    assert not is_rate(name)


def test_runtimes_of_a_table_that_are_called_like_a_rate() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    y = pandas.Series(GFLOPS[:8], name="gflops")
    with pytest.warns(UserWarning, match="'gflops' looks like .* give 1 / y"):
        tg.Ranker("graph-config", steps=1).fit(BLOCK[:8, None], y, verbose=False)


def test_both_directions_in_one_fit_are_refused() -> None:
    up, down = rates()[0], tg.from_frame(TABLE, **HOW, direction="minimize")[0]
    with pytest.raises(tg.DataError, match="direction.*minimize"):
        tg.Ranker("graph-config", steps=1).fit([up, down], verbose=False)
    own = Schema(direction="maximize", unit="GB/s", inferred=True)
    graph = tg.Graph(config_feat=BLOCK[:8, None], runtime=1 / GFLOPS[:8], schema=own)
    assert graph.schema.maximized and graph.schema.unit == "GB/s" and graph.replace(name="a").schema.maximized
    plain = tg.Graph(config_feat=BLOCK[:8, None], runtime=GFLOPS[:8])
    for pair in ((graph, plain), (plain, graph), (up, plain)):
        with pytest.raises(tg.DataError, match="direction"):
            tg.Ranker("graph-config", steps=1).fit(list(pair), verbose=False)
    ranker = tg.Ranker("graph-config", steps=1).fit(up, verbose=False)
    assert (ranker.predict(down) == ranker.predict(up)).all()  # runtimes are not read


def test_they_are_plain_json() -> None:
    assert json.loads(json.dumps(rates()[0].describe()))["runtime"]["min"] == pytest.approx(50)
