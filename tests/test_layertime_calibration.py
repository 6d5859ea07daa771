"""Calibration of a device by a few of its layers: the Gaussian process, and which layers to measure."""

import math

import numpy as np
import pytest

from tpugraphs.layertime.calibration import Calibration, Views, choose
from tpugraphs.layertime.costs import cost_terms, fitted_scales
from tpugraphs.layertime.table import read_table

TRIED = {
    "linear": (0.01, 0.03, 0.1, 0.3, 1.0),
    "near": (1e-4, 1e-3, 1e-2, 3e-2, 1e-1),
    "each": (1e-5, 1e-2, 3e-2, 1e-1),
    "noise": (0.03, 0.06, 0.1),
    "length": (0.5, 1.5, 3.0),
    "reach": (0.1, 0.3),
}


def views(count, seed):
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(count, 1)) + 0.2 * rng.normal(size=(count, 3))
    return Views(seen, rng.uniform(0.1, 0.2, count), np.exp(seen.mean(1)), rng.normal(size=(count, 4)))


def columns(of, scales, center):
    """Linear columns and places, written out row by row."""
    linear, places = [], []
    for i in range(len(of.seen)):
        usual = np.mean(of.seen[i])
        own = math.log(scales[0] * of.fixed[i] + scales[1] * of.working[i])
        linear.append([*(of.seen[i] - usual), 1.0, own - usual, 0.3 * (usual - center)])
        places.append([*of.places[i], 0.4 * math.sqrt(of.places.shape[1]) * (usual - center)])
    return np.array(linear), np.array(places)


def kernel(a, b, linear=0.1, near=0.01, length=1.5, each=0.01, reach=0.3):
    """The covariance, written out; by default the usual one."""
    apart = (a[1][:, None] - b[1][None]) ** 2
    close = np.exp(-apart.mean(-1) / (2 * length**2))
    alone = np.exp(-apart / (2 * reach**2)).mean(-1)
    return linear * a[0] @ b[0].T + near * close + each * alone


def test_a_device_is_a_gaussian_process_over_the_known_ones():
    known, new, rng = views(12, 0), views(7, 1), np.random.default_rng(2)
    ms = np.exp(known.seen @ [0.5, 0.5, 0.0] + 0.1 * rng.normal(size=12))
    found = Calibration.fit(known, ms)
    assert found.scales == fitted_scales(known.fixed, known.working, ms)
    usual = known.seen.mean(1)
    assert found.center == pytest.approx(usual.mean())
    old, young = (columns(one, found.scales, found.center) for one in (known, new))
    wanted = np.log(ms) - usual

    def evidence(noise, **parts):
        whole = kernel(old, old, **parts) + noise**2 * np.eye(12)
        return -0.5 * wanted @ np.linalg.solve(whole, wanted) - 0.5 * np.linalg.slogdet(whole)[1]

    chosen = found.covariance._asdict()
    assert evidence(**chosen) > evidence(0.06) + 0.1  # than with the usual one
    for name, values in TRIED.items():
        assert chosen[name] in values
        for value in values:
            assert evidence(**{**chosen, name: value}) <= evidence(**chosen) + 1e-9
    noise = chosen.pop("noise")
    whole = kernel(old, old, **chosen) + noise**2 * np.eye(12)
    across = kernel(young, old, **chosen)
    expected = new.seen.mean(1) + across @ np.linalg.solve(whole, wanted)
    np.testing.assert_allclose(found.log_ms(new), expected, rtol=1e-9)
    rest = np.arange(12) != 4
    said = whole[4, rest] @ np.linalg.solve(whole[np.ix_(rest, rest)], wanted[rest])
    assert found.left[4] == pytest.approx(wanted[4] - said)


def test_a_device_that_is_another_one_is_found():
    known, new = views(20, 3), views(200, 4)
    found = Calibration.fit(known, np.exp(known.seen[:, 1]) * 1.5)
    assert np.abs(found.log_ms(new) - new.seen[:, 1] - math.log(1.5)).mean() < 0.1
    assert np.abs(new.seen.mean(1) - new.seen[:, 1]).mean() > 0.12  # what it is without


def test_the_layers_chosen_leave_least_unknown():
    among, before = views(30, 5), views(3, 6)
    noise = 0.06**2  # of the usual covariance
    measured = Calibration.fit(before, np.exp(before.seen[:, 0]))

    def unknown(all_, known):
        whole = kernel(known, known) + noise * np.eye(len(known[0]))
        across = kernel(all_, known)
        prior = np.diag(kernel(all_, all_))
        return np.mean(prior - np.einsum("ij,ji->i", across, np.linalg.solve(whole, across.T)))

    plain = (1.0, 1.0), among.seen.mean()
    for own, (scales, center) in ((None, plain), (measured, (measured.scales, measured.center))):
        all_ = columns(among, scales, center)
        start = (np.zeros((0, 6)), np.zeros((0, 5))) if own is None else (own.linear, own.places)
        expected, rows = [], start
        for _ in range(4):
            grown = [tuple(np.vstack([a, b[i]]) for a, b in zip(rows, all_, strict=True)) for i in range(30)]
            left = [math.inf if i in expected else unknown(all_, one) for i, one in enumerate(grown)]
            expected.append(int(np.argmin(left)))
            rows = grown[expected[-1]]
        np.testing.assert_array_equal(choose(4, among, own), expected)


def test_scales_are_found():
    rng = np.random.default_rng(7)
    fixed, working = rng.uniform(0.1, 0.3, 100), np.exp(rng.normal(size=100))
    found = fitted_scales(fixed, working, 2 * fixed + 0.5 * working)
    np.testing.assert_allclose(found, (2, 0.5), rtol=1e-3)


def test_terms_of_costs():
    layer = {"batch": [100], "dim_input": [256], "dim_output": [70], "optimizer": ["SGD"]}
    table = read_table(layer, "dense", "K40", timed=False)
    (device,) = table.devices
    flops = 3 * 2 * 100 * 256 * 70
    moved = 3 * 4 * (100 * 256 + 256 * 70 + 100 * 70)
    update = 3 * 4 * 256 * 70
    rate, width = device.peak_gflops * 1e6, device.bandwidth_gbps * 1e6
    terms = [
        1,
        flops / rate,
        max(flops / rate, (moved + update) / width),
        moved / width,
        moved / rate,
        max(moved - device.cache_mb * 1e6, 0) / width,
        3 * 2 * 256 * 128 * 128 / rate,
        3 * 2 * 256 * 128 * 128 / rate,
        3 * 2 * 256 * 128 * 64 * device.units / rate,
    ]
    expected = [*np.repeat(terms, 2), update / width, update / rate]
    np.testing.assert_allclose(cost_terms(table), [expected], rtol=1e-12)
    alone = read_table(layer | {"optimizer": ["None"]}, "dense", "K40", timed=False)
    np.testing.assert_array_equal(cost_terms(alone)[0, 1::2][:9], 0)


def test_layers_of_one_size_share_what_is_odd_about_it():
    """A step in one column, on layers whose other columns are far from all that was measured."""
    known, new = views(24, 8), views(100, 9)
    for one in (known, new):
        one.places[:, 0] = np.round(one.places[:, 0])  # a few sizes
    new.places[:, 1] += 6
    ms = [np.exp(one.seen.mean(1) + 0.4 * (one.places[:, 0] % 2)) for one in (known, new)]
    found = Calibration.fit(known, ms[0])
    measured = np.isin(new.places[:, 0], known.places[:, 0])
    error = np.abs(found.log_ms(new) - np.log(ms[1]))[measured].mean()
    assert error < 0.1 < 0.15 < np.abs(new.seen.mean(1) - np.log(ms[1]))[measured].mean()
