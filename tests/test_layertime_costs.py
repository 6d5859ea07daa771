"""Costs of layers by device: how they are fitted, and what a device takes over from the others."""

import numpy as np
import pytest
from refusals import refuses
from test_layertime import layers

from tpugraphs import _core
from tpugraphs.layertime import DEVICES, read_table, roofline_ms
from tpugraphs.layertime.costs import Costs, fitted
from tpugraphs.layertime.devices import FIGURES


def test_short_and_long_layers_weigh_alike():
    """Most layers are short and take as long as their term; a few of every length take twice as long."""
    term = np.concatenate([np.ones(150), np.repeat(10.0 ** np.arange(1, 7), 40)])
    ms = term * np.where(term == 1, 1, 2)
    found, _, _ = fitted(term[:, None], ms)
    assert found[0] == pytest.approx(2, rel=0.02)
    few = np.r_[:150, 150:190]  # of one length alone, the short ones have it
    assert fitted(term[few, None], ms[few])[0][0] == pytest.approx(1, rel=0.02)


def test_a_device_takes_over_what_it_did_not_run():
    """Only the other device trained layers, each of which takes 5 ms more than its work."""
    table = read_table(layers(600), "dense")
    trained = table.columns["optimizer"] != "None"
    own = table.per_device_name() == "P100"
    ms = 0.1 + 2 * roofline_ms(table) + 5 * trained
    timed = read_table({**table.columns, "device": table.per_device_name(), "ms": ms}, "dense")
    costs = Costs.fit(timed.take(~(trained & own)))
    fixed, working = costs.parts(timed)
    off = np.abs((fixed + working) / ms - 1)
    assert off[own & trained].mean() < 0.15 and off[own & ~trained].mean() < 0.05


def test_the_range_of_log_time_has_twelve_bins():
    """The squared weight of a layer falls with the root of the number of layers in its bin."""
    place = np.repeat([0.0, 0.08, 0.086, 1.0], 5)  # the first two groups share the bin up to 1 / 12
    ms = np.exp(3 * place)
    groups = (place[:, None] == np.unique(place)) * ms[:, None]
    found, products, _ = fitted(groups, ms)
    np.testing.assert_allclose(found, 1)
    np.testing.assert_allclose(np.diag(products) / products[3, 3], [0.5**0.5, 0.5**0.5, 1, 1])


def test_own_layers_outweigh_those_of_other_devices():
    """Of two devices of equal figures, one takes four times as long. The other counts a hundredth.

    With factors c of work and a weight w of the other, the fast one minimises (c - 1)^2 + w (c / 4 - 1)^2, and
    the slow one (c / 4 - 1)^2 + w (c - 1)^2.
    """
    one = read_table(layers(400), "dense")
    figures = {name: np.full(len(one), getattr(DEVICES["P100"], name)) for name in FIGURES}
    slow = np.arange(len(one)) % 2 == 1
    times = np.where(slow, 4, 1)
    described = {**one.columns, **figures, "device": np.where(slow, "slow", "fast")}
    ms = roofline_ms(read_table(described, "dense", timed=False)) * times
    table = read_table({**described, "ms": ms}, "dense")
    off = np.log(np.sum(Costs.fit(table).parts(table), 0) / ms)
    assert 0 < off[~slow].mean() < 0.01 and off[slow].mean() == pytest.approx(np.log(0.26 / 0.29), rel=0.3)


def test_least_squares_have_no_negative_factors():
    rng = np.random.default_rng(0)
    for count in (1, 3, 9, 20):
        rows, ms = rng.normal(size=(60, count)), rng.normal(size=60)
        products, moments = rows.T @ rows, rows.T @ ms
        found = _core.nonnegative(products, moments, 400)
        slope = products @ found - moments
        assert (found >= 0).all() and (slope[found == 0] >= -1e-4).all()
        np.testing.assert_allclose(slope[found > 0], 0, atol=1e-4)
    products[4] = products[:, 4] = 0  # a term that no layer has
    assert _core.nonnegative(products, moments, 400)[4] == 0
    for wrong in ((products, moments[:9], 1), (products.astype(np.float32), moments, 1), (None, None, 1)):
        with pytest.raises((TypeError, ValueError)):
            _core.nonnegative(*wrong)
    refuses(lambda: _core.nonnegative(np.zeros((65, 65)), np.zeros(65), 1), ValueError, "got 65")
