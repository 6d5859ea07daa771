"""Files of rankers of own recipes: they open where the recipe is not known, and hostile ones are refused."""

import copy
import json
import struct
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import Break, small_any, small_graph, small_tile, state
from refusals import refuses
from sklearn.base import clone

import tpugraphs as tg
from tpugraphs.recipes import Recipe, TrainingFields, described, get_recipe, option
from tpugraphs.recipes.base import encode, opcodes, step


@dataclass(frozen=True)
class OwnFields(TrainingFields):
    width: int = option(8, 1, 64, doc="columns of the layer")
    act: str = option("silu", choices=("silu", "relu"), doc="activation of the layer")
    deep: bool = option(True, doc="whether there is a second layer")
    slope: float | None = option(None, 0.0, 1.0, doc="slope of something, if it has one")
    configs: int = option(12, 2, 1 << 20, doc="configs of a slate, at most")


def middle(fields, slot):
    deep = [step("linear", "second", ["x"], out=fields.width, act=fields.act)] if fields.deep else []
    return [step("linear", "first", [slot], "x", out=fields.width, act=fields.act), *deep]


def head(fields, *more):
    return step("linear", "head", ["second" if fields.deep else "x", *more], "scores", out=1)


def any_steps(fields, sizes):
    return [
        opcodes("node_feat", sizes.opcodes, 4),
        step("pool", "pool", ["opcodes"], "pooled", kind="mean"),
        step("concat", "about", ["pooled", "graph_feat"]),
        *middle(fields, "config_feat"),
        head(fields, "about"),
    ]


def layout_steps(fields):
    return [
        step("config_linear", "digits", ["node_feat"], "z", column=134, cols=2, out=fields.width),
        step("pool", "pool", ["z"], "pooled", kind="mean"),
        *middle(fields, "pooled"),
        head(fields),
    ]


def tile_steps(fields):
    pool = step("pool", "pool", ["node_feat"], "pooled", kind="mean")
    return [pool, *middle(fields, "config_feat"), head(fields, "pooled")]


def borrowed(name):
    other = get_recipe(name)
    return lambda fields, *schema: other.preprocessing(other.fields(), *schema)


RECIPES = {
    "graph": Recipe(
        name="mine-graph", summary="Two layers.", options=OwnFields, kind="graph", steps=any_steps,
        preprocessing=lambda fields, schema: [encode(schema)], source="here",
        loss=lambda fields: [{"loss": "list_mle", "weight": 2.0}],
        groups=lambda fields: [{"match": "*.bias", "weight_decay": 0.0, "learning_rate": 0.5}],
    ),
    "layout": Recipe(
        name="mine-layout", summary="Digits.", options=OwnFields, steps=layout_steps,
        preprocessing=borrowed("first-layout"),
    ),
    "tile": Recipe(
        name="mine-tile", summary="Tiles.", options=OwnFields, kind="tile", steps=tile_steps,
        preprocessing=borrowed("first-tile"), presets={"cpu": {}, "wide": {"width": 16}},
    ),
}  # fmt: skip
GRAPHS = {"graph": small_any, "layout": small_graph, "tile": small_tile}


def fitted(kind, **fields):
    ranker = tg.Ranker(RECIPES[kind], seed=5, **{"steps": 3, "learning_rate": 1e-2, **fields})
    ranker.fit([GRAPHS[kind](0), GRAPHS[kind](1)], verbose=False)
    return ranker


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "graph.safetensors"
    fitted("graph").save(path)
    return path


@pytest.mark.parametrize("kind", RECIPES)
def test_it_predicts_adapts_and_is_tuned_to_the_same_bits(kind, tmp_path):
    fields = {"preset": "wide"} if kind == "tile" else {"width": 12}
    ranker, path, graph = fitted(kind, **fields), tmp_path / "r.safetensors", GRAPHS[kind](2)
    ranker.save(path)
    loaded = tg.load_ranker(path)
    assert loaded.recipe == ranker.recipe and loaded.kind == kind and loaded.steps == ranker.steps
    assert (loaded.predict(graph) == ranker.predict(graph)).all()
    assert loaded.loss == ranker.loss and loaded.groups == ranker.groups
    assert loaded.get_params() == {**ranker.get_params(), "recipe": loaded.get_params()["recipe"]}
    adapted = [r.adapt(graph, range(8), steps=2) for r in (ranker, loaded)]
    assert state(adapted[0].network) == state(adapted[1].network) != state(ranker.network)
    tuned = []
    for start in (ranker, loaded):
        r = clone(start).set_params(learning_rate=3e-3)
        r.fit(graph, init=start, freeze="first.*", verbose=False)
        tuned.append(r)
    assert state(tuned[0].network) == state(tuned[1].network) != state(ranker.network)
    again = tmp_path / "again.safetensors"
    tg.load_ranker(path).save(again)
    both = tg.Ensemble([loaded, tuned[1]])
    both.save(tmp_path / "both.safetensors")
    assert (tg.load_ranker(again).predict(graph) == ranker.predict(graph)).all()
    assert (tg.load_ranker(tmp_path / "both.safetensors").predict(graph) == both.predict(graph)).all()


OTHER_MACHINE = """
import sys
import numpy as np
import tpugraphs as tg
ranker, graph = tg.load_ranker(sys.argv[1]), tg.load(sys.argv[2])
assert ranker.recipe not in tg.list_recipes()
tuned = tg.Ranker(**ranker.get_params())
tuned.fit(graph, init=ranker, steps=2, learning_rate=1e-3, verbose=False)
np.savez(sys.argv[3], scores=ranker.predict(graph), adapted=ranker.adapt(graph, range(8), steps=2).predict(graph),
         tuned=tuned.predict(graph))
"""


def test_another_process_that_knows_no_such_recipe(tmp_path):
    ranker, graph = fitted("graph"), small_any(3)
    ranker.save(tmp_path / "r.safetensors")
    graph.save(tmp_path / "g.npz")
    files = [str(tmp_path / name) for name in ("r.safetensors", "g.npz", "found.npz")]
    subprocess.run([sys.executable, "-c", OTHER_MACHINE, *files], check=True)
    found = np.load(files[2])
    tuned = copy.deepcopy(ranker)
    tuned.fit(graph, init=ranker, steps=2, learning_rate=1e-3, verbose=False)
    assert (found["scores"] == ranker.predict(graph)).all()
    assert (found["adapted"] == ranker.adapt(graph, range(8), steps=2).predict(graph)).all()
    assert (found["tuned"] == tuned.predict(graph)).all()


def test_a_fit_from_the_start_is_for_graphs_of_that_schema(saved):
    loaded, ranker = tg.load_ranker(saved), fitted("graph")
    loaded.fit([small_any(0), small_any(1)], verbose=False)
    assert state(loaded.network) == state(ranker.network)
    rng = np.random.default_rng(0)
    other = tg.Graph(config_feat=rng.normal(size=(20, 3)), runtime=rng.uniform(1, 2, 20))
    refuses(lambda: loaded.fit(other, verbose=False), tg.DataError, "schema", "register")
    assert state(loaded.network) == state(ranker.network)


def test_fields_that_the_steps_follow_from_cannot_be_changed(saved):
    loaded = tg.load_ranker(saved)
    for field, value in (("width", 9), ("act", "relu"), ("deep", False), ("slope", 0.5), ("deep", 1)):
        with pytest.raises(tg.ConfigError, match=f"{field} must be .*, as in the file of its ranker"):
            loaded.set_params(**{field: value, "steps": 7})
    assert loaded.fitted and loaded.set_params(width=8) is loaded and loaded.fitted
    assert loaded.set_params(loss="mse", steps=2).loss == [{"loss": "mse"}] and not loaded.fitted


def test_segments_are_cut_once(tmp_path):
    ranker, graph = fitted("layout", segment=6), small_graph(3)
    ranker.save(tmp_path / "r.safetensors")
    loaded = tg.load_ranker(tmp_path / "r.safetensors")
    assert (loaded.predict(graph) == ranker.predict(graph)).all()
    loaded.fit([small_graph(0), small_graph(1)], verbose=False)
    assert state(loaded.network) == state(ranker.network)
    assert loaded.pipeline.steps == ranker.pipeline.steps


def test_it_resumes(saved, tmp_path):
    graph, options = small_any(4), {"checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    straight, resumed = tg.load_ranker(saved), tg.load_ranker(saved)
    straight.fit(graph, steps=4, callbacks=[Break()], verbose=False)
    with pytest.raises(OSError, match="broken"):
        tg.load_ranker(saved).fit(graph, steps=4, callbacks=[Break(2)], **options)
    resumed.fit(graph, steps=4, callbacks=[Break()], **options)
    assert state(straight.network) == state(resumed.network)


def test_files_of_the_recipes_of_the_package_say_no_more_than_before():
    ranker = tg.Ranker("graph-config", steps=1)
    ranker.fit(small_any(), verbose=False)
    assert described.ENTRY not in ranker.to_file()[0] and described.ENTRY in fitted("tile").to_file()[0]


def own(**values):
    return lambda metadata, tensors: metadata[described.ENTRY].update(values)


def field(**values):
    return lambda metadata, tensors: metadata["fields"].update(values)


def at(name, *place):
    """Put a value, the last of `place`, somewhere into an entry."""

    def change(metadata, tensors):
        to = metadata[name]
        for key in place[:-2]:
            to = to[key]
        to[place[-2]] = place[-1]

    return change


HOSTILE = {
    "no recipe at all": (lambda m, t: m.pop(described.ENTRY), "recipes.register"),
    "recipe is a list": (lambda m, t: m.update({described.ENTRY: []}), "own_recipe"),
    "kind of another package": (own(kind="trees"), "kind"),
    "kind that the model is not for": (own(kind="layout"), ""),
    "kind is a number": (own(kind=3), "kind"),
    "no kind": (lambda m, t: m[described.ENTRY].pop("kind"), "kind"),
    "summary is a list": (own(summary=[]), "summary"),
    "no loss": (own(loss=[]), "1..8 terms"),
    "loss of no name": (own(loss=[{"weight": 1}]), "loss"),
    "loss that there is not": (own(loss=[{"loss": "mean"}]), "loss"),
    "loss with a nested value": (own(loss=[{"loss": "mse", "weight": {"a": 1}}]), "loss"),
    "many losses": (own(loss=[{"loss": "mse"}] * 1000), "1..8 terms"),
    "loss is text": (own(loss="mse"), "loss"),
    "groups are text": (own(groups="*"), "groups"),
    "group without a pattern": (own(groups=[{"learning_rate": 1.0}]), "groups"),
    "group of a huge rate": (own(groups=[{"match": "*", "learning_rate": 10**400}]), "groups"),
    "group of a negative rate": (own(groups=[{"match": "*", "learning_rate": -1.0}]), "groups"),
    "group of a rate in words": (own(groups=[{"match": "*", "learning_rate": "1"}]), "groups"),
    "group that is true": (own(groups=[{"match": "*", "learning_rate": True}]), "groups"),
    "group of nothing": (own(groups=[{"match": "tail.*", "learning_rate": 1.0}]), "tail"),
    "many groups": (own(groups=[{"match": "*"}] * 1000), "groups"),
    "field of no name": (field(**{"": 1}), "field ''"),
    "field of Python": (field(__class__=1), "__class__"),
    "field that is code": (field(**{"a: int = print(1)": 1}), "plain value"),
    "field that is a keyword": (field(**{"lambda": 1}), "lambda"),
    "field that is an argument": (field(seed=3), "seed"),
    "field that is a list": (field(width=[8]), "width"),
    "field that is a dict": (field(width={"a": 8}), "width"),
    "field beyond all numbers": (field(width=10**400), "width"),
    "field of training out of range": (field(slates=10**9), "slates"),
    "field of training of another type": (field(steps="many"), "steps"),
    "many fields": (field(**{f"a{i}": i for i in range(1000)}), "field"),
    "fields are a list": (lambda m, t: m.update(fields=[1]), "fields"),
    "preset is a number": (lambda m, t: m.update(preset=3), "preset"),
    "recipe's name is a number": (lambda m, t: m.update(recipe=3), "recipe"),
    "schema of nothing": (lambda m, t: m.update(schema={"node": [1]}), ""),
    "no schema": (lambda m, t: m.pop("schema"), ""),
    "steps are text": (lambda m, t: m.update(steps="x"), "steps"),
    "step is a number": (at("steps", 0, 4), "steps"),
    "many steps": (lambda m, t: m.update(steps=m["steps"] * 500), "steps"),
    "huge layer": (at("steps", 3, "attrs", "out", 10**12), "out"),
    "wider layer": (at("steps", 3, "attrs", "out", 65536), "first.weight"),
    "unknown op": (at("steps", 3, "op", "teleport"), "teleport"),
    "huge embedding": (at("steps", 0, "attrs", "rows", 60000), "opcodes.weight"),
    "preprocessing is text": (lambda m, t: m.update(preprocessing="x"), "preprocessing"),
    "step of preprocessing is a number": (lambda m, t: m.update(preprocessing=[3]), "preprocessing"),
    "unknown step of preprocessing": (at("preprocessing", 0, "step", "crop"), "preprocessing"),
    "missing weight": (lambda m, t: t.pop("head.bias"), "head.bias"),
    "NaN weight": (lambda m, t: t.update({"head.bias": t["head.bias"] * np.nan}), "head.bias"),
    "deep nesting": (own(loss=json.loads("[" * 300 + "]" * 300)), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name, saved, tmp_path):
    change, word = HOSTILE[name]
    path = rewrite(saved, tmp_path / "broken.safetensors", change)
    assert len(str(refuses(lambda: tg.load_ranker(path), tg.CheckpointError, word, str(path)))) < 3000


def test_damaged_bytes_of_the_metadata_never_crash(saved, tmp_path):
    whole = saved.read_bytes()
    size, rng = struct.unpack("<Q", whole[:8])[0], np.random.default_rng(0)
    for place in rng.integers(8, size, 60):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 255))
        (tmp_path / "x").write_bytes(damaged)
        with pytest.raises(tg.CheckpointError):
            tg.load_ranker(tmp_path / "x")
