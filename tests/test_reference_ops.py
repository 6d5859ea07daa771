"""The float64 references are true: their gradients are the slopes of their forward passes."""

import cases
import numpy as np
import pytest

pytestmark = pytest.mark.values


def slope(case, arguments, name, dy, v, h=1e-6):
    """Central difference of <dy, forward> along v in one argument, error O(h^4)."""
    at = [cases.forward64(case, arguments | {name: arguments[name] + s * h * v}) for s in (-2, -1, 1, 2)]
    return np.sum(dy * (at[0] - 8 * at[1] + 8 * at[2] - at[3])) / (12 * h)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.id)
def test_reference_gradient_is_the_slope_of_its_forward(case):
    arguments = case.arguments()
    dy = cases.direction_of(case, cases.forward64(case, arguments))
    gradients = cases.backward64(case, dy, arguments)
    for name in case.gradients(arguments):
        assert gradients[name].shape == arguments[name].shape
        scale = np.linalg.norm(gradients[name]) + 1e-3 * np.linalg.norm(dy)
        # A direction may step over a kink of relu; a wrong gradient is wrong in every direction.
        assert any(
            abs(slope(case, arguments, name, dy, v) - np.sum(gradients[name] * v)) <= 1e-6 * scale
            for v in np.random.default_rng(7).normal(size=(3, *arguments[name].shape))
        ), name
    assert set(gradients) - {"digits"} == set(case.gradients(arguments))


@pytest.mark.parametrize("case", [c for c in cases.CASES if c.op == "config_linear"], ids=lambda c: c.id)
def test_reference_digit_gradient_is_the_change_of_a_digit(case):
    # the op is linear in every digit's one-hot vector, so the finite difference is exact
    arguments = case.arguments()
    y = cases.forward64(case, arguments)
    dy = cases.direction_of(case, y)
    gradient = cases.backward64(case, dy, arguments)["digits"]
    assert gradient.shape == (*arguments["digits"].shape, 8)
    rng = np.random.default_rng(3)
    for _ in range(10 if arguments["digits"].size else 0):
        c, k, j = (int(rng.integers(0, size)) for size in arguments["digits"].shape)
        old, new = int(arguments["digits"][c, k, j]), int(rng.integers(-1, 6))
        changed = arguments["digits"].copy()
        changed[c, k, j] = new
        change = np.sum(dy * (cases.forward64(case, arguments | {"digits": changed}) - y))
        expected = gradient[c, k, j, new + 2] - gradient[c, k, j, old + 2]
        assert change == pytest.approx(expected, rel=1e-9, abs=1e-9)
