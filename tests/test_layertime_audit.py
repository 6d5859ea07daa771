"""What is suspicious in tables of measured layers."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.layertime import audit, read_table

SIZES = {"batch": 64, "dim_input": 2048, "dim_output": 2048}


def table(count=400, seed=0, device="K40"):
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(1, high + 1, count) for name, high in SIZES.items()} | {
        "device": [device] * count
    }
    least = tg.layertime.roofline_ms(read_table(columns, "dense", timed=False))
    return columns | {"ms": (0.1 + 2 * least) * rng.lognormal(0, 0.1, count)}


def joined(*parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_a_step_of_the_level_is_found_where_it_is():
    slow = table(200, 1)
    slow["ms"] = 2.5 * slow["ms"]
    found = audit(joined(table(300, 2, "P100"), table(300, 3), slow), "dense")
    assert found.shifted == ("K40",) and [one.device for one in found.devices] == ["K40", "P100"]
    first, second = found.devices[0].stretches
    assert abs(first.last - 599) <= 3 and second.first == first.last + 1 and second.last == 799
    assert second.level / first.level == pytest.approx(2.5, rel=0.1)
    assert first.gflops / second.gflops == pytest.approx(2.5, rel=0.3)
    assert "K40: 500 layers, the level shifts:\n  rows 300 to" in str(found)
    assert found.to_dict()["devices"][1]["stretches"][0]["layers"] == 300


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_step(seed):
    noisy = table(300, seed)
    noisy["ms"] = noisy["ms"] * np.random.default_rng(seed + 100).lognormal(0, 0.6, 300)
    assert not audit(noisy, "dense").shifted


def test_repeated_and_impossible_layers_are_counted():
    once = table(50, 4)
    again = {name: np.asarray(values)[:20] for name, values in once.items()}
    again["ms"] = again["ms"] * 1.25
    (found,) = audit(joined(once, again), "dense").devices
    assert found.repeated == 20 and found.spread == pytest.approx(1.25)
    once["ms"] = np.where(np.arange(50) < 7, 1e-6, once["ms"])
    (found,) = audit(once, "dense").devices
    assert found.impossible == 7 and found.repeated == 0 and found.spread == 1
    assert "7 faster than the device's peak" in str(audit(once, "dense"))


def test_wrong_tables_are_refused():
    refuses(lambda: audit(table()), tg.ConfigError, "kind")
    refuses(lambda: audit(read_table(table(), "dense", timed=False)), tg.ConfigError, "times")
    with pytest.raises(tg.DataError, match="times"):
        audit({"batch": [1], "dim_input": [1], "dim_output": [1], "device": ["K40"]}, "dense")


@pytest.mark.parametrize(("kind", "shifted"), [("linear", ("P4",)), ("softmax", ()), ("layernorm", ())])
def test_the_throttled_gpu_of_a_public_table(kind, shifted):
    path = Path(os.environ.get("TPUGRAPHS_DATA", "")) / "measured" / f"neusight_{kind}.csv.gz"
    if not path.is_file():
        pytest.skip(f"needs data of others: {path.name}")
    found = audit(path, kind)
    assert found.shifted == shifted
    if shifted:
        with gzip.open(path, "rt") as file:
            lines = file.read().splitlines()
        part = [line.split(",")[-1] for line in lines[1:]]
        stretches = found.devices[[one.device for one in found.devices].index("P4")].stretches
        assert part[stretches[-1].first] == "test" and part[stretches[-2].last] == "train"
        assert stretches[-1].gflops > 1.9 * stretches[0].gflops
