"""Boosted trees in the core: LightGBM's bits, without LightGBM, out of any text."""

from __future__ import annotations

import copy
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tree_models
from rankers import small_any, small_graph, small_tile
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.preprocess import layout_table_names
from tpugraphs.training import Callback

MODELS = int(os.environ.get("TPUGRAPHS_TREE_MODELS", "300"))
SMALL = tree_models.SMALL
lightgbm = pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")


def forest(text: str = SMALL, columns: int = 3) -> Any:
    return _core.Forest(text, np.arange(columns), columns)


# ---- LightGBM's bits


@pytest.mark.parametrize("part", range(4))
def test_predictions_are_those_of_lightgbm(part: int) -> None:
    """Raw scores of any number of trees, and chances: the same bits. Gains: as the text has them, 6 digits."""
    refused = 0
    for seed in range(part, MODELS, 4):
        booster, rows = tree_models.random_model(seed)
        text, width = booster.model_to_string(), rows.shape[1]
        raw = {k: booster.predict(rows, num_iteration=k, raw_score=True) for k in (1, 3, 1000)}
        if not np.isfinite(raw[1000]).all():
            refuses(lambda: forest(text, width), tg.DataError, "leaf_value", "finite")
            refused += 1
            continue
        mine = forest(text, width)
        for k, expected in raw.items():
            assert mine.scores(rows, k).tobytes() == expected.tobytes(), f"seed {seed}, {k} trees"
        if mine.binary:
            assert mine.scores(rows, 1000, chances=True).tobytes() == booster.predict(rows).tobytes()
        gains = booster.feature_importance("gain")
        np.testing.assert_allclose(mine.gains(1000), gains, 1e-5, 1e-30, err_msg=f"seed {seed}")
    assert refused <= MODELS // 100


def test_the_model_by_hand() -> None:
    """A threshold with missing values right, a set, and one where zeros count as missing and go left."""
    rows = np.array(
        [[0.5, 9, 2], [0.5, 9, 1], [0.4, 9, 40], [0.4, 9, 4e9], [0.4, 9, -0.9], [np.nan, 0, 0], [9, 1e-36, 0],
         [9, np.nan, 0], [9, 2e-35, 0], [9, -1, 0]],
        np.float32,
    )  # fmt: skip
    leaves = [-1.5, 0.25, -1.5, 0.25, -1.5, 1e-3, 1e-3, 1e-3, 3, 1e-3]
    found = forest().scores(rows, 1)
    assert found.tolist() == leaves
    np.testing.assert_array_equal(forest().scores(rows, 2), np.array(leaves) + 0.5)
    chances = forest().scores(rows, 2, chances=True)
    np.testing.assert_allclose(chances, 1 / (1 + np.exp(-2 * (np.array(leaves) + 0.5))), 1e-14)
    booster = lightgbm.Booster(model_str=re.sub("tree_sizes=.*\n", "", SMALL))
    assert booster.predict(rows, raw_score=True).tobytes() == forest().scores(rows, 2).tobytes()
    assert forest().gains(9).tolist() == [5, float(np.float32(1e-7)), 2.5] and forest().trees == 2
    narrow = _core.Forest(SMALL, np.array([1, 4, 6]), 9)  # columns that a row lacks are missing
    assert narrow.scores(np.array([[9, 0.4]], np.float32), 1).tolist() == [0.25]
    assert narrow.scores(np.array([[9, 9]], np.float32), 1).tolist() == [1e-3]


@pytest.mark.parametrize("threads", [2, 3])
def test_sums_do_not_depend_on_threads(threads: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30_011, 3)).astype(np.float32)
    text = tree_models.chain(300)
    before = _core.get_num_threads()
    try:
        _core.set_num_threads(1)
        expected = forest(text).scores(rows, 1)
        _core.set_num_threads(threads)
        assert forest(text).scores(rows, 1).tobytes() == expected.tobytes()
    finally:
        _core.set_num_threads(before)


def test_ctrl_c_ends_long_sums() -> None:
    """A tree as deep as it is large: 400,000 rows would take minutes."""
    deep, rows = forest(tree_models.chain(100_000)), np.ones((400_000, 1), np.float32)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            deep.scores(rows, 1)
        assert time.monotonic() - start < 5  # of a busy machine; alone 0.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# ---- texts that are none

BAD = {
    "no text": ("tree$[^$]*", "", "trees: expected a text of LightGBM"),
    "another head": ("^tree", "forest", "trees: expected a text of LightGBM"),
    "later version": ("version=v4", "version=v5", "version: expected v2, v3 or v4, .* found 'v5' in line 2"),
    "no version": ("version=v4\n", "", "version: expected"),
    "three classes": ("num_class=1", "num_class=3", "num_class: expected 1, found '3' in line 3"),
    "many trees at a time": ("iteration=1", "iteration=1000000", "num_tree_per_iteration: expected 1"),
    "no trees at a time": ("iteration=1", "iteration=0", "num_tree_per_iteration: expected 1, found '0'"),
    "columns": ("max_feature_idx=2", "max_feature_idx=3", "max_feature_idx: expected 2, found '3'"),
    "no columns": ("max_feature_idx=2\n", "", "max_feature_idx: expected 2, found none"),
    "twice": ("version=v4", "version=v4\nversion=v4", "version: expected one line, found 'a second'"),
    "infinite sigmoid": ("sigmoid:2", "sigmoid:inf", "objective: expected a factor"),
    "no sigmoid": (" sigmoid:2", "", "objective: expected a factor"),
    "cut off": ("end of trees[^$]*", "", "trees: expected the line 'end of trees', found the end of the text"),
    "lost tree": ("Tree=1", "Tree=2", "Tree: expected the trees in order"),
    "no trees": ("Tree=0[^$]*end of", "end of", "trees: expected at least one tree"),
    "many leaves": ("leaves=4", "leaves=1000000000", r"num_leaves: expected a whole number in 1\.\.4, found"),
    "few leaves": ("leaves=4", "leaves=2", "leaf_value: expected 2 numbers, .* found 4 in line 21"),
    "negative leaves": ("leaves=4", "leaves=-4", "num_leaves: expected"),
    "no leaves": ("leaves=4", "leaves=", "num_leaves: expected"),
    "many sets": ("num_cat=1", "num_cat=1000000000", r"num_cat: expected a whole number in 0\.\.1"),
    "linear": ("is_linear=0", "is_linear=1", "is_linear: expected 0, found '1' in line 29"),
    "a feature beyond": ("feature=0 2 1", "feature=0 3 1", "split_feature: expected .*, found '3' in line 15"),
    "a feature before": ("feature=0 2 1", "feature=0 -1 1", "split_feature: .* found '-1'"),
    "few features": ("feature=0 2 1", "feature=0 2", "split_feature: expected 3 numbers, .* found 2 in line"),
    "many features": ("feature=0 2 1", "feature=0 2 1 1", "split_feature: expected 3 .* found 4"),
    "a feature of text": ("feature=0 2 1", "feature=0 x 1", "split_feature: .* found 'x'"),
    "a child beyond": ("left_child=1", "left_child=3", "left_child: .* found '3' in line 19"),
    "a leaf beyond": ("left_child=1 -1", "left_child=1 -5", "left_child: .* found '-5'"),
    "a circle": ("left_child=1 -1", "left_child=1 0", "left_child: .* found '0'"),
    "itself": ("left_child=1 -1", "left_child=1 1", "left_child: .* found '1'"),
    "one child twice": ("right_child=2 -2", "right_child=2 -1", "right_child: expected every split and"),
    "a split twice": ("right_child=2", "right_child=1", "right_child: expected every split and"),
    "half a child": ("left_child=1", "left_child=1.5", "left_child: .* found '1.5'"),
    "NaN leaf": ("value=-1.5", "value=nan", "leaf_value: expected 4 numbers, finite .* found 'nan'"),
    "infinite leaf": ("value=-1.5", "value=1e999", "leaf_value: .* found '1e999'"),
    "large leaves": ("value=-1.5 0.25 1e-3 3\n([^$]*)value=0.5", r"value=2e38 0 0 0\n\1value=2e38", "whose sums"),
    "NaN threshold": ("threshold=0.5", "threshold=nan", "threshold: .* found 'nan' in line 17"),
    "a set beyond": ("threshold=0.5 0", "threshold=0.5 1", "threshold: .* found '1'"),
    "a type beyond": ("type=8", "type=12", "decision_type: expected .* 0..11, found '12'"),
    "bounds beyond": ("boundaries=0 2", "boundaries=0 3", "cat_boundaries: .* found '3'"),
    "bounds back": ("boundaries=0 2", "boundaries=1 2", "cat_boundaries: .* found '1'"),
    "many bounds": ("boundaries=0 2", "boundaries=0 2 2", "cat_boundaries: expected no numbers beyond"),
    "half a word": ("cat_threshold=5 256", "cat_threshold=5 -1", "cat_threshold: .* found '-1'"),
    "a long number": ("value=-1.5", "value=" + 60 * "1", "leaf_value: .* found '1{40}'"),
    "half a character": ("objective", "\ud800", "trees: expected a text of LightGBM, found one with half"),
}  # fmt: skip


def changed(case: str) -> str:
    pattern, new, _ = BAD[case]
    text, count = re.subn(pattern, new, SMALL, count=1)
    assert count or case == "no text"
    return text if count else ""


@pytest.mark.parametrize("case", BAD)
def test_texts_that_are_refused(case: str) -> None:
    with pytest.raises(tg.DataError, match=BAD[case][2]) as caught:
        forest(changed(case))
    assert caught.value.field and caught.value.expected and "\n" not in str(caught.value)


@pytest.mark.parametrize("columns", [[0, 1, 3], [0, 0, 1], [-1, 0, 1], [0, 2, 1]])
def test_columns_that_are_refused(columns: list[int]) -> None:
    refuses(lambda: _core.Forest(SMALL, np.array(columns), 3), tg.DataError, "columns", "ascending")


def test_what_does_not_matter_may_be_missing_or_wrong() -> None:
    """Sizes of texts, gains, names, numbers of rows; other ends of lines; types, if all are plain."""
    rows = np.array([[0.4, 1, 2], [0.6, 1, 2]], np.float32)
    plain = re.sub("(tree_sizes|split_gain|feature_infos|leaf_weight|internal_.*)=.*\n", "", SMALL)
    for text in (plain, SMALL.replace("tree_sizes=400 100", "tree_sizes=9 -1"), SMALL.replace("\n", "\r\n")):
        assert forest(text).scores(rows, 2).tobytes() == forest().scores(rows, 2).tobytes()
    nan = SMALL.replace("split_gain=5", "split_gain=nan")
    assert forest(nan).gains(9).tolist() == [0, float(np.float32(1e-7)), 2.5]
    assert forest(tree_models.chain(3).replace("decision_type=0 0 0\n", "")).scores(rows, 1).tolist() == [
        3,
        3,
    ]


# ---- files

HOSTILE = """
import random, re, sys, warnings
import numpy as np
import tpugraphs as tg
from tpugraphs.system import tensorfile

sys.modules["lightgbm"] = None  # whoever asks for it fails
folder, seed, count, cases = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), eval(open(sys.argv[4]).read())
random.seed(seed)


def texts(entry):  # all objects in the metadata that hold a text of trees
    for one in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        if isinstance(one, dict) and isinstance(one.get("trees"), str):
            yield one
        yield from texts(one)


def mutated(text):
    if random.random() < 0.3:  # one of the lists, or a size, by name
        pattern, new = random.choice(cases)
        return re.sub(pattern, new, text, count=1)
    for _ in range(random.choice((1, 1, 1, 2, 9))):
        i, n = random.randrange(len(text)), random.choice((0, 1, 1, 1, 5))
        new = random.choice(("-", "9", "0", " ", "1e9", "\\n", "nan", "=", "\\x00", "inf", "99999999999", text[:40], ""))
        text = text[:i] + new + text[i + n:]
    return text


def tried(name, kind, load, use):
    opened = refused = 0
    good, tensors = tensorfile.read(f"{folder}/{name}", kind)
    for number in range(count):
        metadata = __import__("copy").deepcopy(good)
        one = random.choice(list(texts(metadata)))
        one["trees"] = mutated(one["trees"])
        path = f"{folder}/bad"
        tensorfile.write(path, kind, metadata, tensors)
        try:
            scores = use(load(path))
        except tg.DataError as error:
            refused += 1
            loading = isinstance(error, tg.errors.CheckpointError)
            assert not loading or path in str(error) and error.file == path, error
            continue
        opened += 1
        assert np.isfinite(scores).all(), one["trees"]
    print(name, opened, refused)


with np.errstate(all="ignore"):
    graph = tg.load(f"{folder}/graph.npz")
    for name in ("eighth", "eleventh"):
        tried(name, "ranker", tg.load_ranker, lambda ranker: ranker.predict(graph))
    layers = {"batch": [8, 3000], "dim_input": [100, 9], "dim_output": [64, 64]}
    tried("layers", "layer-time", tg.layertime.LayerTimeModel.load, lambda model: model.predict(layers, "K40"))
"""

# Names of keys, and what stands behind them instead.
REPLACED = [
    (f"(?<=\n{name}=)[^\n]*", new)
    for name in (
        "num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child", "right_child",
        "leaf_value", "is_linear", "num_tree_per_iteration", "num_class", "max_feature_idx", "tree_sizes", "objective",
    )
    for new in ("0", "-1", "1000000", "1e30", "nan", "", "9 9 9", "4294967296", "binary sigmoid:1e9")
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rankers and a layer model of trees, and the scores of a graph."""
    folder = tmp_path_factory.mktemp("trees")
    graphs = [small_graph(seed) for seed in range(3)]
    graphs[2].save(folder / "graph.npz")
    for recipe in ("eighth", "eleventh"):
        ranker = tg.Ranker(f"{recipe}-lightgbm", steps=4, num_leaves=5, min_data_in_leaf=3).fit(graphs[:2])
        ranker.save(folder / recipe)
        np.save(folder / f"{recipe}.npy", ranker.predict(graphs[2]))
    layers = {"batch": [8, 16, 32, 64] * 10, "dim_input": list(range(100, 140)), "dim_output": [64] * 40}
    model = tg.layertime.LayerTimeModel("dense", "lightgbm", rounds=4, leaves=4)
    devices = ["K40", "P100"] * 20
    model.fit(
        {**layers, "ms": [0.1 + 0.003 * (i * i % 17) for i in range(40)], "device": devices}, verbose=False
    )
    model.save(folder / "layers")
    np.save(
        folder / "layers.npy", model.predict({name: column[:9] for name, column in layers.items()}, "K40")
    )
    return folder


def run(script: str, *arguments: Any) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_files_with_other_texts_do_no_harm(folder: Path, tmp_path: Path) -> None:
    """Each opens with finite scores, or is refused by name; nothing crashes, whatever the trees say."""
    for name in ("eighth", "eleventh", "layers", "graph.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "cases").write_text(repr(REPLACED))
    count = MODELS // 3
    said = run(HOSTILE, tmp_path, 1, count, tmp_path / "cases").split("\n")
    for line in said[:3]:
        name, opened, refused = line.split()
        assert int(opened) > count // 50 and int(refused) > count // 4, name


ALONE = """
import sys
sys.modules["lightgbm"] = None
import numpy as np
import tpugraphs as tg
graph = tg.load(f"{sys.argv[1]}/graph.npz")
for name in ("eighth", "eleventh"):
    found = tg.load_ranker(f"{sys.argv[1]}/{name}").predict(graph)
    assert found.tobytes() == np.load(f"{sys.argv[1]}/{name}.npy").tobytes(), name
model = tg.layertime.LayerTimeModel.load(f"{sys.argv[1]}/layers")
layers = {"batch": ([8, 16, 32, 64] * 10)[:9], "dim_input": list(range(100, 109)), "dim_output": [64] * 9}
assert model.predict(layers, "K40").tobytes() == np.load(f"{sys.argv[1]}/layers.npy").tobytes()
"""


def test_files_open_and_score_without_lightgbm(folder: Path) -> None:
    run(ALONE, folder)


def test_files_of_earlier_versions_open(folder: Path, tmp_path: Path) -> None:
    """They hold LightGBM's whole text, and do not say which columns are the configs'."""
    from tpugraphs.system import tensorfile

    metadata, tensors = tensorfile.read(folder / "eighth", "ranker")
    del metadata["own"]
    tensorfile.write(tmp_path / "old", "ranker", metadata, tensors)
    old = tg.load_ranker(tmp_path / "old")
    scores = old.predict(tg.load(folder / "graph.npz"))
    assert scores.tobytes() == np.load(folder / "eighth.npy").tobytes()
    assert not hasattr(old, "feature_importances_")
    for own in ([1], [0, -1], [10**30, 0], [0, 60], "0 18"):
        tensorfile.write(tmp_path / "bad", "ranker", {**metadata, "own": own}, tensors)
        refuses(lambda: tg.load_ranker(tmp_path / "bad"), tg.errors.CheckpointError, "own:")


def test_what_has_learnt_can_be_copied(folder: Path) -> None:
    graph, ranker = tg.load(folder / "graph.npz"), tg.load_ranker(folder / "eighth")
    for one in (pickle.loads(pickle.dumps(ranker)), copy.deepcopy(ranker)):
        assert one.predict(graph).tobytes() == ranker.predict(graph).tobytes()


def test_growing_trees_score() -> None:
    """What a callback asks for is that of the trees so far."""
    graph, seen = small_graph(), []

    class Watch(Callback):
        def on_step(self, fit: Any) -> None:
            seen.append(fit.ranker.predict(graph))

    options = {"num_leaves": 5, "min_data_in_leaf": 3}
    ranker = tg.Ranker("eighth-lightgbm", steps=5, **options).fit(graph, callbacks=[Watch()], verbose=False)
    short = tg.Ranker("eighth-lightgbm", steps=3, **options).fit(graph, verbose=False)
    assert seen[2].tobytes() == short.predict(graph).tobytes() != seen[4].tobytes()
    assert seen[4].tobytes() == ranker.predict(graph).tobytes() and ranker.estimator.trees[0].booster is None


# ---- importance


def test_importances_are_shares_of_the_gain_by_column() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    y = 5 + x[:, 3] + 0.2 * x[:, 1]
    ranker = tg.Ranker("eighth-lightgbm", steps=20, objective="l2", target="runtime")
    assert not hasattr(ranker, "feature_importances_") and not hasattr(tg.Ranker(), "feature_importances_")
    found = ranker.fit(x, y).feature_importances_
    assert found.shape == (5,) and found.sum() == pytest.approx(1) and found.argsort()[-2:].tolist() == [1, 3]
    table = lightgbm.Dataset(x.astype(np.float32), y)
    options = ranker.estimator._options()
    booster = lightgbm.train(options, table, 20)
    gains = booster.feature_importance("gain")
    np.testing.assert_allclose(found, gains / gains.sum(), 1e-4)
    flat = tg.Ranker("eighth-lightgbm", steps=2, min_data_in_leaf=400).fit(x, y)
    assert flat.feature_importances_.tolist() == [0] * 5


def test_importances_of_graphs(tmp_path: Path) -> None:
    """Columns of the configs; digits over all nodes and sizes; columns of the table of pairs."""
    tiles = tg.Ranker("eighth-lightgbm", steps=9, min_data_in_leaf=3).fit([small_tile(0), small_tile(1)])
    assert len(tiles.feature_importances_) == 24 and tiles.feature_importances_[:8].sum() > 0.5
    mixed = tg.Ranker("eighth-lightgbm", steps=9, min_data_in_leaf=3).fit([small_any(0), small_any(1)])
    assert mixed.feature_importances_.argmax() in (0, 3) and len(mixed.feature_importances_) == 4
    layouts = tg.Ranker("eighth-lightgbm", steps=9, min_data_in_leaf=3)
    layouts.fit([small_graph(0), small_graph(1, nodes=20, config_nodes=6)])
    assert len(layouts.estimator.trees) == 2 and len(layouts.feature_importances_) == 18
    pairs = tg.Ranker("eleventh-lightgbm", steps=9, min_data_in_leaf=3, bins=4).fit([small_graph(0)])
    assert len(pairs.feature_importances_) == len(layout_table_names(4))
    for ranker in (tiles, mixed, layouts, pairs):
        ranker.save(tmp_path / "r")
        again = tg.load_ranker(tmp_path / "r").feature_importances_
        assert again.tobytes() == ranker.feature_importances_.tobytes() and again.sum() == pytest.approx(1)
