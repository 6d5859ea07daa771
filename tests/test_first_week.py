"""What a newcomer gives by mistake is refused in words that name the next step."""

import numpy as np
import pytest

import tpugraphs as tg

TABLE = tg.Graph(config_feat=np.arange(6).reshape(3, 2), runtime=[1.0, 2.0, 3.0], name="table")
MORE = tg.Graph(config_feat=np.arange(6).reshape(3, 2), runtime=[3.0, 2.0, 1.0], name="more")


@pytest.fixture(scope="module")
def ranker():
    return tg.Ranker("graph-config", steps=2).fit([TABLE, MORE])


def test_modules_whose_extra_is_missing_are_not_listed(monkeypatch):
    """help(tg) reads all that dir() names."""
    monkeypatch.setattr(tg, "find_spec", lambda name: None)
    assert not {"torch", "xla"} & set(dir(tg)) and "Ranker" in dir(tg)
