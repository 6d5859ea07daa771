"""Graphs known to be corrupt, and leaving them out."""

from __future__ import annotations

import json

import madeup
import pytest

import tpugraphs as tg
from tpugraphs import cli, data
from tpugraphs.data import corrupt

UNET, BERT = "unet_3d.4x4.bf16", "mlperf_bert_batch_24_2x2"


def collection(root, name, graphs, split="valid"):
    folder = root / "npz" / data.COLLECTIONS[name] / split
    folder.mkdir(parents=True, exist_ok=True)
    for graph in graphs:
        madeup.graph("program").select([0, 1]).save(folder / f"{graph}.npz")
    return folder


def test_the_table_names_collections_and_reasons():
    for where, graph, why in corrupt.KNOWN_CORRUPT:
        assert where in data.COLLECTIONS and graph and len(why) > 20
        assert corrupt.reason(graph, where) == why and corrupt.reason(graph, None)
    assert corrupt.reason(BERT, "layout:xla:default") and not corrupt.reason(BERT, "layout:xla:random")
    assert corrupt.reason(UNET, "layout:xla:random") and not corrupt.reason(UNET, "tile:xla")
    assert not corrupt.reason("resnet50.4x4.fp16", "layout:xla:random")


@pytest.mark.parametrize(
    "name, exclude, left",
    [
        ("layout:xla:random", None, [BERT, "resnet", "unet_2d", UNET]),
        ("layout:xla:random", "known-corrupt", [BERT, "resnet", "unet_2d"]),
        ("layout:xla:default", "known-corrupt", ["resnet", "unet_2d"]),
        ("layout:nlp:random", ["known-corrupt"], [BERT, "resnet", "unet_2d", UNET]),
        ("layout:xla:random", ["known-corrupt", "*unet*"], [BERT, "resnet"]),
        ("layout:xla:default", ("res*", "known-corrupt"), ["unet_2d"]),
    ],
)
def test_exclude(tmp_path, name, exclude, left):
    collection(tmp_path, name, [UNET, BERT, "resnet", "unet_2d"])
    assert tg.open_collection(name, tmp_path, exclude=exclude).valid.names == left
    if exclude is not None:
        assert tg.open_collection(name, tmp_path).valid.exclude(exclude).names == left


def test_exclude_on_the_command_line(tmp_path, capsys):
    folder = collection(tmp_path, "layout:xla:default", [UNET, "resnet"])
    for spec in ("layout:xla:default/valid", folder):
        argv = ["inspect", spec, "--root", tmp_path, "--exclude", "known-corrupt", "--json"]
        assert cli.main([str(arg) for arg in argv]) == 0
        assert json.loads(capsys.readouterr().out)["name"] == "resnet"
