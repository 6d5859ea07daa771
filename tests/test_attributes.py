"""Attributes that Python declares, in the form of those of ops: the core judges values and says what it takes."""

import numpy as np
import pytest

from tpugraphs import _core

REAL = {"kind": "real", "low": 1e-6, "high": 0.9999999}
INT = {"kind": "int", "low": 1, "high": 1 << 20}
CHOICE = {"kind": "choice", "choices": ("none", "log")}
FLAG, TEXT, LIST = {"kind": "flag"}, {"kind": "text"}, {"kind": "list"}


@pytest.mark.parametrize(
    ("attr", "words", "fine", "wrong"),
    [
        (REAL, "a number in 1e-06..0.9999999", [0.5, 1e-6, np.float32(0.5)], [0, 1, np.nan, "0.5", True, None, [0.5]]),
        (INT, "a whole number in 1..1048576", [1, np.int8(3), 1 << 20], [0, 2.0, 10**400, -(10**400), True, "1", {}]),
        ({"kind": "real"}, "a number", [0, -1e300, np.float64(3)], [np.inf, -np.inf, np.nan, 10**400, 1j]),
        (CHOICE, "one of none, log", ["none", "log"], ["", "lo", "none|log", "n\0", "\ud800", 0, None, ["log"]]),
        (FLAG, "True or False", [True, False, np.True_], [0, 1, "true", None]),
        (TEXT, "a string", ["", "x", '{"a": 1}', "é|"], [0, None, b"x", ["x"]]),
        (LIST, "a list of at most 65536 entries", [[], [1, "x"], (1,), [{}]], [{}, "[]", 3, [0] * 65537, [object()]]),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else None,
)  # fmt: skip
def test_values_are_judged_and_described(attr, words, fine, wrong):
    assert _core.attr_expects(attr) == words
    assert all(_core.attr_takes(attr, value) for value in fine)
    assert not any(_core.attr_takes(attr, value) for value in wrong)


def test_those_of_the_core_take_their_own_defaults():
    attrs = [*_core.optimizer_attrs(), *_core.schedule_attrs()]
    attrs += [
        attr for one in (*_core.ops(), *_core.losses(), *_core.prepare_steps()) for attr in one["attrs"]
    ]
    given = [attr for attr in attrs if attr["default"] is not None]
    assert len(given) > 100 and all(_core.attr_takes(attr, attr["default"]) for attr in given)
    assert not any(_core.attr_takes(attr, object()) for attr in attrs)


@pytest.mark.parametrize(
    "attr",
    [3, {}, {"kind": "integer"}, {"kind": 3}, {"kind": "choice"}, {"kind": "choice", "choices": 3},
     {"kind": "choice", "choices": ("a", 3)}, {"kind": "int", "low": "x"}, {"kind": "\ud800"}],
)  # fmt: skip
def test_what_is_no_attribute_is_refused(attr):
    for call in (_core.attr_expects, lambda attr: _core.attr_takes(attr, 1)):
        with pytest.raises((TypeError, ValueError)):
            call(attr)
