"""Layers beyond those that were learnt from: what counts as beyond, and how their predictions are marked."""

import inspect
import math

import numpy as np
import pytest
from refusals import refuses
from test_layertime import error, layers

import tpugraphs as tg
from tpugraphs.layertime import KINDS, LayerTimeModel, read_table
from tpugraphs.layertime.features import Space, features, matrix
from tpugraphs.layertime.methods import LEVELS, METHODS, ErrorQuantiles, MethodFields

SIZES = ("batch", "dim_input", "dim_output")


def of(batch, dim_input, dim_output, device="K40"):
    sizes = zip(SIZES, ([batch], [dim_input], [dim_output]), strict=True)
    return {**dict(sizes), "optimizer": ["None"], "activation": ["None"], "device": [device]}


def light(rows=2000):
    """Return layers of every size, none of which takes as many operations as its sizes would let it."""
    table = layers(rows)
    few = np.prod([np.asarray(table[name], float) for name in SIZES], 0) < 2e7
    return {name: np.asarray(values)[few] for name, values in table.items()}


@pytest.fixture(scope="module")
def model():
    return LayerTimeModel("dense", "roofline").fit(light())


def test_operations_have_a_range_as_sizes_have():
    table = read_table(layers(500), "dense")
    space, columns = Space.of(matrix(table)), matrix(table)
    names = list(features(table))
    assert (space.excess(columns, KINDS["dense"]) == 0).all()
    far = columns.copy()
    flops, size = names.index("log flops"), names.index("log dim_input")
    far[0, flops] = space.high[flops] + 0.5
    far[1, size] = space.low[size] - 0.25
    far[2, [flops, size]] = space.high[[flops, size]] + [0.5, 0.75]
    far[3, names.index("log compute ms")] += 9  # tells the device, not the layer
    np.testing.assert_allclose(space.excess(far, KINDS["dense"])[:5], [0.5, 0.25, 0.75, 0, 0])


def test_a_range_reaches_as_far_as_the_layers_that_are_added():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(50, 6))
    columns[:, 2] = 7  # does not vary, and has no place
    space, more = Space.of(columns), rng.normal(size=(10, 6)) * 3
    more[:, 2] = 7
    wider = space.reaching(space.place(more))
    both = np.concatenate([columns, more])
    np.testing.assert_allclose(wider.low, both.min(0))
    np.testing.assert_allclose(wider.high, both.max(0))
    np.testing.assert_array_equal(space.place(more), wider.place(more))


def test_beyond_the_range_intervals_are_wider(model):
    assert not model.out_of_range(of(50, 300, 300))
    widths = []
    for layer in (of(50, 300, 300), of(60, 4000, 4000), of(64, 40000, 4000)):
        low, high = np.log(model.predict_interval(layer))[0]
        widths.append(high - low)
    assert list(model.out_of_range(of(60, 4000, 4000))) == [True]  # each of its sizes is usual
    assert widths[0] < widths[1] < widths[2]
    single = LayerTimeModel("dense", "roofline").fit(layers(300, devices=("K40",)))
    narrow, wide = (np.diff(np.log(single.predict_interval(of(64, n, 3000)))) for n in (3000, 30000))
    assert narrow < wide  # no device was left out


def test_errors_beyond_the_range_grow_by_the_wider_rule():
    own, other = -0.1 + 0.2 * LEVELS, -1 + 2 * LEVELS
    table = read_table(layers(4, devices=("K40", "M60")), "dense")
    table = table.take(np.argsort(table.per_device_name(), kind="stable"))
    known = table.per_device_name() == "K40"
    assert 0 < known.sum() < 4
    for quantiles, beyond, half in (
        (ErrorQuantiles({"K40": own}, other), 0.0, 0.08),
        (ErrorQuantiles({"K40": own}, other), math.log(2), 0.08 + (1 - math.exp(-1)) * 0.8),
        (ErrorQuantiles({"K40": own}, other), 20.0, 0.08 * 41),
        (ErrorQuantiles({"K40": own, "M60": other}, None), 3.0, 0.08 * 7),
    ):
        found = quantiles.bounds(table, 0.8, np.full(4, beyond))
        np.testing.assert_allclose(found[known], np.tile([-half, half], (known.sum(), 1)))
        others = 0.8 if quantiles.other is not None else 0.8 * 7
        np.testing.assert_allclose(found[~known], np.tile([-others, others], (4 - known.sum(), 1)))


def test_layers_that_a_device_was_calibrated_by_are_in_its_range(model, tmp_path):
    large = {**layers(30, seed=3, devices=("M60",)), "batch": [64] * 30, "dim_output": [4000] * 30}
    model.save(tmp_path / "plain")
    own = LayerTimeModel.load(tmp_path / "plain").calibrate(large)
    between = of(64, int(np.mean(large["dim_input"])), 4000, "M60")
    assert model.out_of_range(between) and not own.out_of_range(between)
    assert own.out_of_range({**between, "device": ["K40"]})  # the others stay as they were
    own.save(tmp_path / "own")
    assert not LayerTimeModel.load(tmp_path / "own").out_of_range(between)


@pytest.mark.parametrize(("slow", "share"), [(("K40", "P100"), 1.0), (("K40",), 0.0)])
def test_devices_left_out_tell_what_networks_are_worth_to_others(slow, share):
    table = layers(2000)
    odd = (np.asarray(table["dim_output"]) % 2 == 1) * np.isin(table["device"], slow)
    table["ms"] = np.asarray(table["ms"]) * np.where(odd, 3.0, 1.0)
    model = LayerTimeModel("dense", members=1, steps=400, width=24).fit(table)
    assert model._method.share == share
    other = layers(300, seed=1, devices=("M60",))
    plain = LayerTimeModel("dense", "roofline").fit(table)
    if share == 0:
        np.testing.assert_array_equal(model.predict(other), plain.predict(other))
    else:
        other["ms"] = np.asarray(other["ms"]) * np.where(np.asarray(other["dim_output"]) % 2 == 1, 3.0, 1.0)
        assert error(model, other) < 0.6 * error(plain, other)


def test_every_device_is_on_both_sides_of_a_split():
    table = layers(400)
    table["device"] = np.where(np.arange(400) < 3, "M60", table["device"])
    read = read_table(table, "dense")
    for share in (0.01, 0.25, 0.99):
        known, unseen = tg.layertime.unseen_layers(read, share)
        for side in (known, unseen):
            assert {name for name, _ in side.by_device()} == {"K40", "P100", "M60"}
    one = read.take(np.r_[0, 10:20])
    refuses(lambda: tg.layertime.unseen_layers(one), tg.ConfigError, "'M60'", "two layers")


def test_fields_of_methods_have_types():
    fields = {
        name: set(kind.__forward_arg__.split(" | ")) for name, kind in MethodFields.__annotations__.items()
    }
    found = {}
    for method in METHODS.values():
        for one in list(inspect.signature(method).parameters.values())[1:]:
            found.setdefault(one.name, set()).update(one.annotation.split(" | "))
    assert found == fields


def test_fields_of_methods_are_named():
    refuses(lambda: LayerTimeModel("dense", widht=3), tg.ConfigError, "'residual'", "'widht'", "width")
    refuses(lambda: LayerTimeModel("dense", "roofline", steps=3), tg.ConfigError, "'roofline'", "'steps'")
