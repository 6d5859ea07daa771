import copy
import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass

import models
import numpy as np
import pytest
from check_recipe import CHECKS, WITH_FILES, check_recipe, checks, needs
from rankers import SMALL_GRAPHS, small_graph, small_ranker
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core, recipes
from tpugraphs.preprocess.targets import TARGETS, targets
from tpugraphs.recipes import Recipe, TrainingFields, get_recipe, option, plain
from tpugraphs.training.optimizer import parameter_groups


@pytest.mark.parametrize(
    ("recipe", "check"), [(recipe, check) for recipe in tg.list_recipes() for check in checks(recipe)]
)
def test_every_recipe_keeps_the_contract(recipe, check, tmp_path):
    needs(recipe)
    CHECKS[check](recipe, *([tmp_path] if check in WITH_FILES else []))


def test_recipes_are_listed_by_kind():
    names = tg.list_recipes()
    assert names == sorted(names) and {"first-layout", "first-layout-cross", "first-tile"} <= set(names)
    assert sorted({name for kind in SMALL_GRAPHS for name in tg.list_recipes(kind)}) == names
    assert all(get_recipe(name).source for name in names)


PROTOCOL_BUFFERS = 30 * 512  # weights of columns that published files do not have
PUBLISHED = [
    ("first-layout", {}, 460_577),
    ("first-layout-cross", {}, 215_013),
    ("first-tile", {}, 540_645),
    ("official-tile", {"variant": "early-sage"}, 61_889),
    ("official-tile", {"variant": "late-sage"}, 60_353),
    ("official-tile", {"variant": "early-resgcn"}, 49_825),
    ("official-tile", {"variant": "late-resgcn"}, 49_825),
    ("official-tile", {"variant": "mlp"}, 20_705),
    ("official-layout", {}, 19_520),
    ("second-xla", {}, 265_093),
    ("second-nlp", {}, 2_272_101),
    ("second-tile", {}, 2_272_485),
    ("third-layout", {}, 3_672_448 - PROTOCOL_BUFFERS),
    ("third-tile", {}, 224_641),
    ("fifth-layout", {}, 1_006_145),
    ("fifth-dimension", {}, 1_837_121),
    ("fifth-tile", {}, 1_837_121),
    ("sixth-layout", {"trainable_scale": False}, 778_881),
    ("sixth-gin", {"trainable_scale": False}, 714_369),
    ("sixth-tile", {"trainable_scale": False}, 783_489),
]


@pytest.mark.parametrize(("name", "fields", "parameters"), PUBLISHED)
def test_the_full_presets_have_the_published_number_of_parameters(name, fields, parameters):
    assert tg.Ranker(name, preset="full", **fields).num_parameters == parameters


def test_the_full_presets_of_the_fifth_place_train_as_published():
    same = {
        "optimizer": "adamw", "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "clip": 1.0,
        "schedule": "cosine", "drop_edge": 0.15, "dedup": "none", "graph_sampling": "sqrt-configs",
        "config_sampling": "even", "close": 0.0, "accumulate": 1, "average": "none", "steps": None,
    }  # fmt: skip
    layout = {"learning_rate": 1e-4, "slates": 4, "configs": 8, "margin": 1.0, "epochs": 2}
    tile = {"learning_rate": 1e-3, "slates": 128, "configs": 32, "margin": 0.1, "epochs": 16}
    for name, own in (("fifth-layout", layout), ("fifth-dimension", layout), ("fifth-tile", tile)):
        recipe = get_recipe(name)
        values = plain(recipe.fields("full"))
        assert {key: values[key] for key in same | own} == same | own
        assert [(term["weight"], term.get("over")) for term in recipe.loss(recipe.fields("full"))] == [
            (0.5, None), (0.5, "batch"),
        ]  # fmt: skip


def test_parameters_have_the_shapes_of_the_published_model():
    shapes = {
        name: array.shape for name, array in tg.Ranker("first-layout-cross", preset="full").parameters.items()
    }
    assert shapes["embedding_opcode.weight"] == (120, 16)
    assert shapes["embedding_layout.weight"] == (8, 4)
    assert shapes["linear1.weight"] == (128, 246)
    assert shapes["linear2.weight"] == (128, 256)
    assert shapes["mix1.gate1_weight"] == (16, 128) and shapes["mix1.temperature"] == (1,)
    assert shapes["sage1.weight_l"] == shapes["sage1.weight_r"] == (128, 256)
    assert shapes["head.weight"] == (1, 256)
    assert not any("temperature" in name for name in tg.Ranker("first-layout").parameters)


@pytest.mark.parametrize("name", ["first-layout", "first-layout-cross", "first-tile"])
@pytest.mark.parametrize(
    "fields", [{"blocks": 0}, {"blocks": 3, "direction": "both"}, {"gate_reduction": 64}]
)
def test_fields_give_models_that_can_be_built(name, fields):
    recipe = get_recipe(name)
    steps = recipe.steps(recipe.fields("cpu", {"width": 32, **fields}))
    configs = 24 if recipe.kind == "tile" else 0
    assert _core.Model(steps, 0, config_features=configs).num_parameters > 0
    assert json.loads(json.dumps(steps)) == steps


def test_fields_are_plain_values():
    values = plain(get_recipe("first-layout").fields("cpu", {"steps": np.int64(7), "clip": np.float32(0.5)}))
    assert json.loads(json.dumps(values))["steps"] == 7 and values["clip"] == 0.5


def test_bad_fields_and_names_are_refused_with_what_is_valid():
    for name, value, *names in (
        ("widht", 3, "widht", "'width'", "learning_rate"),
        ("width", 1, "width", "16..4096", "1"),
        ("width", 32.5, "width", "whole number", "32.5"),
        ("width", True, "width", "True"),
        ("steps", "many", "steps", "many"),
        ("dropout", float("nan"), "dropout", "nan"),
        ("direction", "sideways", "direction", "forward, reverse, both"),
        ("prune", 3, "prune", "none, config-1hop", "3"),
        ("prune", "1-hop", "prune", "none, config-1hop", "'1-hop'"),
        ("preset", "gpu", "cpu, full"),
        ("precision", "f64", "precision"),
        *(("seed", seed, "seed") for seed in (-1, 1.5, "x", True)),
        ("loss", 3, "loss", "a list of dicts", "a function", "3"),
        *(
            ("loss", loss, "loss")
            for loss in (["mse"], "mean", [], [3], {"loss": "list_mle"}, [{"weight": 1.0}])
        ),
        ("loss", [{"loss": "list_mle", "weight": "x", "y": None}], "loss"),
    ):
        refuses(lambda: tg.Ranker(**{name: value}), tg.ConfigError, *names)
    far = {"recipe": "official-layout", "config_shift": 100.5}
    refuses(lambda: tg.Ranker(**far), tg.ConfigError, "config_shift", "-100..100", "100.5")
    refuses(lambda: tg.Ranker("first-layuot"), tg.RecipeError, "'first-layout'", "first-layout-cross")


@pytest.mark.parametrize(("name", "cross"), [("first-layout", False), ("first-layout-cross", True)])
def test_the_recipes_build_the_model_that_is_compared_with_pytorch(name, cross):
    def numbered(steps):
        """Slots by order of appearance: their names do not matter."""
        slots = {}
        return [
            {
                **s,
                "in": [slots.setdefault(i, len(slots)) for i in s["in"]],
                "out": slots.setdefault(s["out"], len(slots)),
            }
            for s in steps
        ]

    recipe = get_recipe(name)
    ours = recipe.steps(recipe.fields("full"))
    assert numbered(ours) == numbered(models.first_layout(cross=cross, dropout=0.2))


# ---- custom recipes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnFields(TrainingFields):
    width: int = option(16, 1, 64, doc="columns of the layer")
    act: str = option("gelu", choices=("gelu", "relu"), doc="activation of the layer")
    bias: bool = option(True, doc="nothing: a field that is true or false")


def own_steps(fields):
    return [
        models.step("config_linear", "first", "node_feat", "z", column=134, cols=4, out=fields.width),
        models.step("mix", "act", "z", "x", act=fields.act),
        models.step("pool", "pool", "x", "pooled", kind="mean"),
        models.step("linear", "head", "pooled", "scores", out=1),
    ]


def own_loss(fields):
    return [{"loss": "list_mle", "weight": 1.0, "reduction": "mean-all"}]


def own_groups(fields):
    return [
        {"match": "first.table", "learning_rate": 0.1, "weight_decay": 0.0},
        {"match": "*.bias", "weight_decay": 0.0},
    ]


def own(**changes):
    first = get_recipe("first-layout")
    given = {
        "name": "own",
        "summary": "One layer.",
        "options": OwnFields,
        "steps": own_steps,
        "preprocessing": lambda fields: first.preprocessing(first.fields()),
        "loss": own_loss,
        "groups": own_groups,
    }
    return Recipe(**{**given, **changes})


@pytest.fixture
def registered():
    recipe = own()
    recipes.register(recipe)
    yield recipe
    recipes.unregister("own")


def test_a_recipe_of_ones_own_keeps_the_contract_once_it_is_registered(registered, tmp_path):
    check_recipe("own", tmp_path)
    assert "own" in tg.list_recipes("layout") and "own" not in tg.list_recipes("tile")


def test_a_recipe_that_is_not_registered_trains_and_its_file_opens_without_it(tmp_path):
    r, g, path = tg.Ranker(own(), steps=2, configs=8), small_graph(), tmp_path / "r.safetensors"
    r.fit(g, verbose=False)
    assert r.recipe == "own" and isinstance(r.get_params()["recipe"], Recipe)
    twin = copy.deepcopy(r)
    assert (twin.predict(g) == r.predict(g)).all()
    assert (
        r.set_params(width=20).fields.width == 20
        and r.set_params(recipe="first-layout").recipe == "first-layout"
    )
    twin.save(path)
    assert (tg.Ranker.load(path).predict(g) == twin.predict(g)).all()
    recipes.register(own(preprocessing=twin._recipe.preprocessing))
    try:
        assert (tg.Ranker.load(path).predict(g) == twin.predict(g)).all()
        assert pickle.loads(pickle.dumps(twin)).get_params() == twin.get_params()
    finally:
        recipes.unregister("own")


def test_names_are_taken_once(registered):
    recipes.register(registered)  # the same one again
    for clash in (own(summary="Another."), own(name="first-layout")):
        for use in (recipes.register, tg.Ranker):
            refuses(lambda: use(clash), tg.RecipeError, "another recipe")
    refuses(lambda: recipes.register("own"), tg.RecipeError, "Recipe", "str")
    refuses(lambda: recipes.unregister("first-layout"), tg.RecipeError, "registered")


def test_a_module_of_the_package_is_found_by_itself(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tpugraphs.recipes.base import Recipe\n"
        "RECIPES = (Recipe(name='mine', summary='Mine.', steps=lambda f: [], preprocessing=lambda f: []),)\n"
    )
    code = f"import tpugraphs.recipes as r; r.__path__.append({str(tmp_path)!r}); print(*r.list_recipes())"
    names = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert set(names.split()) == {*tg.list_recipes(), "mine"}


class Plain:
    pass


@dataclass(frozen=True)
class WithoutMeaning(TrainingFields):
    width: int = option(16, 1, 64)


@dataclass(frozen=True)
class WithoutOption(TrainingFields):
    depth: int = 32


@dataclass(frozen=True)
class OfAnotherType(TrainingFields):
    width: complex = option(16, doc="columns")


@dataclass(frozen=True)
class OutOfRange(TrainingFields):
    width: int = option(0, 1, 64, doc="columns")


@dataclass(frozen=True)
class WithoutType(TrainingFields):
    configs = 32


@dataclass(frozen=True)
class OtherDefaults(TrainingFields):
    configs: int = 32
    margin: float = 0.5
    chunk: int = option(16, high=64)


class Undecorated(TrainingFields):
    width: int = option(16, 1, 64, doc="columns")


class AlsoUndecorated(Undecorated):
    width: int = 8
    depth: int = option(2, 1, 4, doc="layers")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": Plain}, "derives from TrainingFields.*Plain"),
        ({"options": WithoutMeaning}, "own: width: say what it means"),
        ({"options": WithoutOption}, "own: depth: say what it means"),
        ({"options": WithoutType}, "own: configs: 32 has no effect without a type"),
        ({"options": OfAnotherType}, "own: width: expected int.*complex"),
        ({"options": OutOfRange}, r"own: width: the default must be a whole number in 1\.\.64, got 0"),
        ({"presets": {"cpu": {"widht": 3}}}, "did you mean 'width'"),
        ({"presets": {"cpu": {"width": 65}}}, r"width must be a whole number in 1\.\.64, got 65"),
        ({"presets": {"full": {}}}, "expected 'cpu'"),
        ({"kind": "layouts"}, "own: kind: expected one of layout, tile, graph, got 'layouts'"),
        ({"kind": "any"}, "own: kind: expected one of layout, tile, graph, got 'any'"),
        ({"loss": lambda fields: []}, r"own: loss: expected a list of 1\.\.8 terms"),
        (
            {"loss": lambda fields: [{"weight": 1.0}]},
            "own: loss: expected for every term an object with its name",
        ),
        ({"loss": lambda fields: [{"loss": "mle"}]}, "own: loss: expected one of .*list_mle.*found 'mle'"),
        (
            {"loss": lambda fields: [{"loss": "list_mle", "weight": np.nan}]},
            "own: loss: list_mle: weight: expected a number",
        ),
    ],
)
def test_a_recipe_is_checked_when_it_is_made(changes, words):
    with pytest.raises(tg.RecipeError, match=words):
        own(**changes)


def test_a_class_of_fields_needs_no_decorator():
    recipe = own(options=AlsoUndecorated, steps=lambda fields: [])
    fields = recipe.fields("cpu", {"depth": 3})
    assert (fields.width, fields.depth) == (8, 3) and fields == recipe.fields("cpu", {"depth": 3})
    with pytest.raises(FrozenInstanceError):
        fields.width = 9
    with pytest.raises(tg.ConfigError, match=r"width must be a whole number in 1\.\.64, got 65"):
        recipe.fields("cpu", {"width": 65})
    assert Undecorated().width == 16


def test_a_field_declared_again_keeps_what_it_does_not_say():
    options = own(options=OtherDefaults, steps=lambda fields: []).describe()["options"]
    shared = get_recipe("first-layout").describe()["options"]
    assert options["configs"]["default"]["cpu"] == 32 and options["configs"]["high"] == 1 << 20
    assert options["configs"]["meaning"] == shared["configs"]["meaning"]
    assert options["margin"] == {**shared["margin"], "default": {"cpu": 0.5, "full": 0.5}}
    assert options["chunk"]["expected"] == "a whole number in 1..64"
    refuses(lambda: own(options=OtherDefaults).fields("cpu", {"chunk": 65}), tg.ConfigError, "chunk", "65")


# ---- losses, groups, targets -----------------------------------------------------------------------------


def test_the_loss_can_be_chosen():
    recipe, r = get_recipe("first-layout"), small_ranker("first-layout", margin=0.5)
    own = {"loss": "pairwise_hinge", "margin": 0.5, "reduction": "mean-all"}
    given = {"loss": "list_mle", "reduction": "mean-all"}
    assert r.loss == [own]
    for loss, expected in (
        ("pairwise_hinge", [{**own, "weight": 1.0}]),  # the recipe's, with its margin
        ([{"loss": "pairwise_hinge"}], [{"loss": "pairwise_hinge"}]),
        ("list_mle", [{"loss": "list_mle"}]),
        ([given, own], [given, own]),
    ):
        r.set_params(loss=loss)
        assert r.loss == expected
        assert recipe.losses(r.fields) == expected
    g = small_graph()
    assert (
        r.fit(g, steps=2, verbose=False).history_.loss
        != small_ranker("first-layout").fit(g, steps=2, verbose=False).history_.loss
    )


LAYOUT = [("a.weight", 0, (3, 2)), ("a.bias", 6, (3,)), ("b.weight", 9, (2, 3)), ("b.bias", 15, (2,))]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], [(0, 17, 1.0, 0.5)]),
        ([{"match": "b.*", "learning_rate": 0.1}], [(0, 9, 1.0, 0.5), (9, 17, 0.1, 0.5)]),
        (
            [{"match": "*.bias", "weight_decay": 0.0}, {"match": "a.*", "learning_rate": 2}],
            [(0, 6, 2.0, 0.5), (6, 9, 1.0, 0.0), (9, 15, 1.0, 0.5), (15, 17, 1.0, 0.0)],
        ),
    ],
)
def test_the_first_pattern_decides_and_groups_cover_all_parameters(patterns, expected):
    assert parameter_groups(patterns, LAYOUT, 0.5) == expected


def test_groups_that_make_no_sense_are_refused():
    for patterns, *names in (
        ([{"match": "c.*"}], "'c.*'", "a.weight, a.bias"),
        ([{"match": "*"}, {"match": "a.*"}], "'a.*'", "earlier"),
        ([{"learning_rate": 0.1}], "match"),
        ([{"match": "a.*", "lr": 0.1}], "match"),
    ):
        refuses(lambda: parameter_groups(patterns, LAYOUT, 0.5), tg.RecipeError, *names)
    wrong = [{"match": "a.*", "learning_rate": "fast"}]
    refuses(lambda: parameter_groups(wrong, LAYOUT, 0.5), tg.ConfigError, "learning_rate of 'a.*'", "'fast'")


def test_groups_reach_the_parameters():
    frozen = own(groups=lambda fields: [{"match": "first.*", "learning_rate": 0.0}])
    r = tg.Ranker(frozen, steps=2, configs=8)
    before = {name: array.copy() for name, array in r.parameters.items()}
    r.fit(small_graph(), verbose=False)
    moved = {name for name, array in r.parameters.items() if not (array == before[name]).all()}
    assert moved - {"head.bias"} == {"head.weight"}  # that bias moves by rounding alone, on some processors


def test_targets_are_what_they_say():
    times = np.array([30, 10, 20, 20], np.int64)
    np.testing.assert_array_equal(targets(times, "runtime"), [30.0, 10.0, 20.0, 20.0])
    np.testing.assert_allclose(targets(times, "log-runtime"), np.log([30, 10, 20, 20]))
    np.testing.assert_allclose(targets(times, "percentile"), [1, 0, 0.5, 0.5])
    np.testing.assert_allclose(targets(times[:1], "percentile"), [0.0])
    np.testing.assert_allclose(targets(times, "min-max"), [1, 0, 0.5, 0.5])
    np.testing.assert_allclose(targets(times[:2] * 0 + 3, "min-max"), [0.0, 0.0])
    for target in TARGETS:
        made = targets(times / 7, target)
        assert made.dtype == np.float64 and (np.argsort(made, kind="stable") == [1, 2, 3, 0]).all()


def test_a_recipe_shows_what_it_is_for():
    assert repr(get_recipe("first-tile")).startswith(
        "<Recipe 'first-tile' (tile): Tile configs by late fusion"
    )


MERGE_NONE = (
    "first-tile",
    "third-layout",
    "third-tile",
    "sixth-layout",
    "sixth-gin",
    "sixth-tile",
    "seventh-gst",
)


@pytest.mark.parametrize("recipe", MERGE_NONE)
def test_full_presets_train_as_published(recipe):
    """As the authors' code does: configs that are equal stay, and so on."""
    fields = get_recipe(recipe).fields("full")
    assert fields.dedup == "none"
    if recipe.startswith("third"):
        rate, clip = fields.learning_rate_end, fields.clip
        assert (fields.schedule, rate, clip) == ("cosine", 1e-6, 1 if recipe == "third-layout" else 1e9)
    if recipe == "seventh-gst":
        told = fields.optimizer, fields.weight_decay, fields.schedule, fields.config_sampling
        assert told == ("adam", 5e-4, "cosine", "replacement")
