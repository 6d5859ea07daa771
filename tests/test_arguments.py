"""Arguments: what is a whole number, a number, a share, a choice or of a type, and how others are refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.system import arguments as checks

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("value", [1, 7, np.int8(3), np.uint64(5)])
def test_whole_numbers(value):
    assert checks.is_whole(value) and checks.is_number(value)
    found = checks.check_whole("steps", value, 1, 7)
    assert found == value and type(found) is int


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.25), np.int64(0), 10**6])
def test_numbers(value):
    found = checks.check_number("length", value, 0)
    assert found == value and type(found) is float


def test_shares_choices_and_types():
    assert checks.check_share("level", np.float32(0.5)) == 0.5
    assert checks.check_choice("by", "size", ("size", "opcodes")) == "size"
    assert checks.check_choice("by", np.str_("size"), {"size": 1}) == "size"
    assert checks.check_choice("tops", 2, [1, 2]) == 2
    assert checks.check_type("name", "x", str) == "x"
    assert checks.check_type("keep", True, bool) is True
    assert checks.check_type("after", 3, float, int) == 3
    assert checks.check_number("low", 1e-30, 0, above=True) == 1e-30


def test_others_are_refused():
    for check, args, *names in (
        *(
            (checks.check_whole, (value, 1), "at least 1")
            for value in (0, 1.0, True, "1", None, NAN, 2**63, np.True_)
        ),
        (checks.check_whole, (8, 1, 7), "from 1 to 7", "got 8"),
        (checks.check_whole, (10**5000, 1), "16,610 bits"),
        *((checks.check_number, (value,), "1e-06", "1e+06") for value in (0, 2e6, INF, NAN, False, "1", [])),
        *((checks.check_share, (value,), "0.1") for value in (0, 1, -0.1, 1.5, True, NAN, "0.5", None)),
        *((checks.check_choice, (value, (1, "a")), "1, a", repr(value)) for value in (True, "b", 1.5, None)),
        (checks.check_choice, (np.zeros(3), ("a", "b")), "a, b", "array"),
        (checks.check_type, (1, str), "str", "int"),
        (checks.check_type, (True, int, float), "int or float", "bool"),
    ):
        assert str(refuses(lambda: check("name", *args), tg.ConfigError, *names)).startswith("name: ")
    refuses(
        lambda: checks.check_number("factor", 0, 0, 5, above=True),
        tg.ConfigError,
        "factor",
        "above 0",
        "got 0",
    )


@pytest.mark.parametrize("value", [True, "1", None, NAN, [1]])
def test_what_is_no_number(value):
    assert not checks.is_number(value) and not checks.is_whole(value)
