"""Descriptions of models, batches and graphs that are wrong: refused, naming what."""

import numpy as np
import pytest
from models import COLUMNS, HINGE, Trained, first_layout, graph_arrays, make, rows, slate, step, zoo
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core


def broken(change):
    """The zoo with one step changed, by name -> update."""
    return [s | change.get(s["name"], {}) for s in zoo()]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (broken({"wide": {"op": "dense"}}), ["wide", "dense"]),
        (broken({"wide": {"in": ["nothing"]}}), ["wide", "nothing"]),
        (broken({"wide": {"out": "c"}}), ["wide", "'c'"]),
        (broken({"wide": {"name": "config"}}), ["config", "twice"]),
        (broken({"wide": {"in": ["c", "c"]}}), ["wide", "'row'", "graph"]),
        (broken({"norm": {"in": ["w", "w"]}}), ["norm", "1 input"]),
        (broken({"hidden": {"in": ["config_feat"]}}), ["hidden", "config_feat"]),
        (broken({"wide": {"attrs": {"out": 12, "size": 3}}}), ["wide", "size"]),
        (broken({"wide": {"attrs": {"out": "many"}}}), ["wide", "out"]),
        (broken({"wide": {"attrs": {"out": 0}}}), ["wide", "out"]),
        (broken({"wide": {"attrs": {"out": 12, "act": "sine", "stats": 1}}}), ["wide", "act"]),
        (broken({"norm": {"in": ["c"]}}), ["norm", "stats"]),
        (broken({"normed": {"in": ["s"]}}), ["normed", "stats"]),
        (broken({"pool": {"in": ["q"]}}), ["scores", "config"]),
        (broken({"pool": {"attrs": {"kind": "median"}}}), ["pool", "kind"]),
        (broken({"crossed": {"in": ["q"]}}), ["scores", "config"]),
        (broken({"crossed": {"attrs": {"dropout": 1.0}}}), ["crossed", "dropout"]),
        (broken({"add": {"in": ["s", "q"]}}), ["add", "residual"]),
        (broken({"config": {"in": ["scores"]}}), ["config", "scores"]),
        (broken({"config": {"attrs": {"out": 4, "column": 8}}}), ["config", "column"]),
        (broken({"config": {"share": {"table": "pre.weight"}}}), ["config", "table"]),
        (broken({"config": {"share": {"table": "nowhere.weight"}}}), ["config", "nowhere.weight"]),
        (broken({"both": {"attrs": {"out": 12, "direction": "up"}}}), ["both", "direction"]),
        (broken({"out": {"out": "result"}}), ["scores"]),
        (broken({"out": {"attrs": {"out": 2}}}), ["scores"]),
        ([*zoo()[:-1], step("linear", "spare", "z", "unread", out=2), zoo()[-1]], ["unread"]),
        ([], ["scores"]),
    ],
    ids=lambda v: "-".join(v).replace("'", "") if isinstance(v[0] if v else None, str) else "",
)  # fmt: skip
def test_wrong_models_name_the_step(steps, words):
    refuses(lambda: _core.Model(steps, 0, COLUMNS), tg.Error, *words)


@pytest.mark.parametrize("seed", range(100))
def test_mutated_models_work_or_raise(seed):
    rng = np.random.default_rng(seed)
    pick = lambda values: values[rng.integers(len(values))]  # noqa: E731
    steps = [dict(s, attrs=dict(s["attrs"])) for s in pick([zoo(), first_layout(width=16, columns=COLUMNS)])]
    names = [s["out"] for s in steps] + ["node_feat", "", "x" * 63]
    ops = [*(op["name"] for op in _core.ops()), "conv"]
    values = [
        -1,
        0,
        1,
        2,
        3,
        7,
        40,
        0.5,
        1e9,
        1e300,
        -1e300,
        np.nan,
        np.inf,
        True,
        "relu",
        "layout",
        "max",
        "x" * 70,
        None,
    ]
    for _ in range(rng.integers(1, 4)):
        made = pick(steps)
        key = pick(["op", "name", "out", "in", "share", "attrs", "attrs", "attrs", "attrs"])
        if key == "attrs":
            known = [
                "out",
                "column",
                "cols",
                "rows",
                "gate",
                "cross",
                "norm",
                "stats",
                "act",
                "kind",
                "dropout",
                "init",
            ]
            made["attrs"][pick([*made["attrs"], *known])] = pick(values)
        elif key == "in":
            made["in"] = [pick(names) for _ in range(rng.integers(4))]
        elif key == "share":
            made["share"] = {"table": f"{pick(steps)['name']}.{pick(['weight', 'table', 'bias'])}"}
        else:
            made[key] = pick(ops) if key == "op" else pick(names)
    _, one, runtimes = slate(seed)
    try:
        model = Trained(steps, 0, COLUMNS)
    except (tg.Error, ValueError, TypeError) as error:
        assert str(error)
        return
    loss, (scores,) = model.gradients([one], [runtimes], loss=HINGE)
    assert np.isfinite(loss) and scores.shape == (9,)


@pytest.mark.parametrize(
    "steps",
    [None, [None], [{}], [{"op": "linear"}], [step("linear", "a", "node_feat", "b") | {"in": "node_feat"}],
     [step("linear", "a" * 100, "node_feat", "b")], [step("linear", "a", "node_feat", "b") | {"attrs": [1]}],
     [step("linear", "a", "node_feat", "b") | {"share": "table"}], [step("linear", "a\0b", "node_feat", "c")],
     [step("pool", f"p{i}", "node_feat", f"q{i}") for i in range(500)]],
)  # fmt: skip
def test_malformed_steps_raise(steps):
    with pytest.raises((TypeError, ValueError, tg.Error)):
        _core.Model(steps, 0, COLUMNS)


def test_wrong_batches_raise():
    model = make("cross")
    _, (graph, chosen), runtimes = slate()
    good = [(graph, chosen)]

    def gradients(slates=good, times=(runtimes,), loss=HINGE):
        return model.gradients(list(slates), list(times), loss=loss)

    for slates in ([], [graph], [(graph,)], [(None, chosen)], [(graph, chosen.astype(np.int32))], [(graph, chosen[:0])],
                   [(graph, chosen[::2])]):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            gradients(slates)
        with pytest.raises((TypeError, ValueError)):
            model.scores(slates)
    for row in (-1, 9, 2**40):
        refuses(lambda: gradients([(graph, np.array([0, row]))], [runtimes[:2]]), ValueError, "rows")
    for times in ([], [runtimes, runtimes], [runtimes[:3]], [runtimes.astype(float)]):
        refuses(lambda: gradients(times=times), ValueError, "runtimes")
    for loss in ([{"loss": "hinge"}], [{**HINGE[0], "reduction": "median"}], ("pairwise_hinge",), HINGE[0]):
        with pytest.raises((TypeError, ValueError), match="loss|reduction"):
            gradients(loss=loss)
    with pytest.raises(ValueError, match="step"):
        model.step(good, [runtimes], loss=HINGE, lr=1e-3, weight_decay=0.0, clip=1.0, step=0)
    gradients()  # still works


def test_wrong_graphs_raise():
    arrays = graph_arrays(9, 4, 3, COLUMNS, 0)
    wrong = {
        "node_feat": [arrays["node_feat"].astype(np.float64), arrays["node_feat"][:0], np.asfortranarray(arrays["node_feat"]),
                      np.where(np.arange(9)[:, None] == 4, np.float32(np.nan), arrays["node_feat"])],
        "node_opcode": [arrays["node_opcode"][:-1], arrays["node_opcode"].astype(np.int32)],
        "layout_digits": [arrays["layout_digits"] + np.int8(5), arrays["layout_digits"][:, :5].copy()],
        "edge_index": [arrays["edge_index"].T.copy(), arrays["edge_index"] + 5, -1 - arrays["edge_index"]],
        "config_nodes": [arrays["config_nodes"] + 9, -1 - arrays["config_nodes"], arrays["config_nodes"][[0, 1, 0]]],
        "digits": [arrays["digits"][:, :2].copy(), arrays["digits"].astype(np.float32)],
    }  # fmt: skip
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=name):
                _core.ModelGraph(**arrays | {name: value})
    model = make("cross")
    for missing in ("layout_digits", "digits"):
        graph = _core.ModelGraph(**arrays | {missing: None})
        with pytest.raises(ValueError, match=r"layout|configs"):
            model.scores([(graph, rows(2))])
    wide = _core.ModelGraph(**graph_arrays(9, 4, 3, COLUMNS + 1, 0))
    refuses(lambda: model.scores([(wide, rows(2))]), ValueError, "features")


@pytest.mark.parametrize("digit", [-2, 6, 127, -128])
def test_digits_are_checked_when_their_rows_are_read(digit):
    arrays = graph_arrays(9, 4, 3, COLUMNS, 0)
    arrays["digits"][2, 1, 17] = digit
    graph, model = _core.ModelGraph(**arrays), make("cross")
    model.scores([(graph, np.array([0, 1, 3]))])
    refuses(lambda: model.scores([(graph, rows(4))]), ValueError, "config 2, node 1, column 17")


def test_sizes_out_of_reach_are_refused():
    first = step("config_linear", "first", "node_feat", "z0", out=8, stats=0)
    tail = [step("pool", "pool", "z30", "p"), step("linear", "head", "p", "scores", out=1)]
    for out, name in ((1.5, "1.5"), (float("nan"), "nan")):
        steps = [first, step("pool", "pool", "z0", "p"), step("linear", "head", "p", "scores", out=out)]
        refuses(lambda: _core.Model(steps, 0, 3), tg.RecipeError, "head", "out:", name)
    wide = [step("linear", f"l{i}", f"z{i}", f"z{i + 1}", out=65536) for i in range(3)]
    refuses(lambda: _core.Model([first, *wide], 0, 3), tg.RecipeError, "2^28")
    doubled = [step("mix", f"m{i}", f"z{i}", f"z{i + 1}", cross=1) for i in range(30)]
    refuses(lambda: _core.Model([first, *doubled, *tail], 0, 3), tg.RecipeError, "columns")
    cut = step("nonsense", "a" * 59 + "é", "node_feat", "x")  # the message ends inside the last character
    refuses(lambda: _core.Model([cut], 0, 3), tg.RecipeError, "a" * 50)


@pytest.mark.parametrize(
    "wrong", [{"lr": float("nan")}, {"clip": float("nan")}, {"beta1": 1.0}, {"eps": 0.0}, {"step": 0}]
)
def test_numbers_of_the_optimizer_that_make_no_sense(wrong):
    model, (_, one, runtimes) = make("cross"), slate()
    numbers = {"lr": 1e-3, "weight_decay": 0.0, "clip": 1.0, "step": 1, **wrong}
    before = model.params.copy()
    with pytest.raises(ValueError):
        model.step([one], [runtimes], HINGE, **numbers)
    np.testing.assert_array_equal(model.params, before)
