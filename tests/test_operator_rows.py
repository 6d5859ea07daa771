"""Every op of the core has rows in the benchmarks, and they run."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))  # at the end: tpugraphs is the one under test

from benchmarks import operators, sections
from benchmarks.context import Context
from benchmarks.sections.kernels import Setting
from tpugraphs import _core

OPS = {op["name"] for op in _core.ops()}


def test_every_op_has_rows():
    assert set(operators.NAMES) | set(operators.ELSEWHERE) == OPS
    assert not set(operators.NAMES) & set(operators.ELSEWHERE)
    assert {section for section, _ in operators.ELSEWHERE.values()} <= set(sections.NAMES)


@pytest.mark.parametrize("name", operators.NAMES)
def test_rows_of_an_op_run(name):
    found = list(operators.cases(name, Setting(True, None, False, np.random.default_rng(0))))
    assert found and len({case.name for case in found}) == len(found)
    for case in found:
        assert name in case.name and not case.peers
        case.ours()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", operators.NAMES)
def test_peers_of_an_op_run(name):
    torch = pytest.importorskip("torch")
    found = list(operators.cases(name, Setting(True, torch, False, np.random.default_rng(0))))
    assert any(case.peers for case in found)
    for case in found:
        for peer in case.peers.values():
            peer()


@pytest.mark.slow
def test_the_section_runs(monkeypatch):
    """Of two ops, since each has a process of its own: rows of all are above."""
    monkeypatch.setattr(operators, "NAMES", operators.NAMES[:2])
    records = list(
        sections.get("operators").run(Context(quick=True, peers=False, rounds=3, budget=0.1, threads=1))
    )
    assert {record.facts["group"] for record in records} == set(operators.NAMES)
