"""Layers and models that come with the package."""

from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.layertime import KINDS, MODELS, load_models, measured_layers, unseen_layers

FOLDER = Path(tg.__file__).parent / "measured" / "layers"


@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_every_kind_were_measured(kind):
    table = measured_layers(kind)
    assert len(table) >= 300 and len(table.devices) == 1
    trained = table.columns["optimizer"] != "None"
    assert 0.4 < trained.mean() < 0.6


def test_models_know_their_devices():
    assert set(MODELS) == {path.name for path in FOLDER.iterdir() if path.is_dir()}
    own, nvidia, older = (load_models(name) for name in ("pytorch-cpu", "pytorch-gpu", "tensorflow-gpu"))
    assert set(own) == set(KINDS) and set(older) == {"conv2d", "dense"}
    assert set(nvidia) == {"linear", "bmm", "elementwise", "softmax", "layernorm"}
    assert all(model.kind == kind for models in (own, nvidia, older) for kind, model in models.items())
    assert older["dense"].devices == ("GTX1080Ti", "K40", "K80", "M60", "P100")
    assert "A100-80GB" in nvidia["bmm"].devices
    assert own["dense"].devices == (measured_layers("dense").devices[0].name,)


@pytest.mark.parametrize("kind", ["dense", "linear", "bmm", "attention"])
def test_models_are_of_the_layers_next_to_them(kind):
    table, model = measured_layers(kind), load_models("pytorch-cpu")[kind]
    _, some = unseen_layers(table, 0.5)
    error = np.abs(model.predict(some) / some.ms - 1)
    assert np.median(error) < 0.15 and not model.out_of_range(some).any()
    low, high = model.predict_interval(some, 0.8).T
    assert np.mean((low <= some.ms) & (some.ms <= high)) > 0.7


def test_they_are_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 5e6


def test_what_there_is_not_is_refused():
    refuses(lambda: load_models("tpu"), tg.ConfigError, "models")
    refuses(lambda: measured_layers("gru"), tg.ConfigError, "kind")
