"""Costs of layers by device: how they are fitted, and what a device takes over from the others."""

import numpy as np
import pytest
from refusals import refuses
from test_layertime import layers

from tpugraphs import _core
from tpugraphs.layertime import read_table, roofline_ms
from tpugraphs.layertime.costs import Costs, fitted


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
