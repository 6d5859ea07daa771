"""Columns have names, and names count: of tables, of graphs made of them, of what learnt from either."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.data.arrays import column_names
from tpugraphs.data.schema import Column, Schema
from tpugraphs.ranker import GaussianProcess, LinearBaseline, MeanEffect, MultiTaskGaussianProcess

NAMES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(120, 3))
TIMES = np.exp(VALUES[:, 0] + 0.2 * VALUES[:, 1])


class Frame:
    """A table with columns by name, as a user's library might have it."""

    def __init__(self, values: Any, names: Any) -> None:
        self.values, self.columns, self.shape = np.asarray(values), names, np.shape(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)


def table(*order: str, names: Any = None) -> Frame:
    places = [NAMES.index(name) for name in order or NAMES]
    return Frame(VALUES[:, places], [(names or NAMES)[place] for place in places])


def ranker(recipe: str = "graph-config") -> tg.Ranker:
    return tg.Ranker(recipe, steps=40)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A table like the one that was learnt from is taken without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(params=["graph-config", "mlpredict", "eighth-lightgbm"])
def fitted(request: pytest.FixtureRequest) -> tg.Ranker:
    if request.param.endswith("lightgbm"):
        pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    return ranker(request.param).fit(table(), TIMES, verbose=False)


# ---- tables -----------------------------------------------------------------------------------------------


def test_the_names_are_kept(fitted: tg.Ranker, tmp_path: Path) -> None:
    fitted.save(tmp_path / "r.safetensors")
    for one in (fitted, tg.load_ranker(tmp_path / "r.safetensors")):
        found = one.feature_names_in_
        assert found.tolist() == NAMES and found.dtype == object and one.n_features_in_ == 3
        assert one.score(table(), TIMES) > 0.8


@pytest.mark.parametrize(
    ("order", "renamed", "words"),
    [
        (
            ("c", "b", "a"),
            None,
            r"must be in the same order as they were in fit\.\nUse X\[\['a', 'b', 'c'\]\]",
        ),
        (
            (),
            ["a", "b", "d"],
            r"unseen at fit time:\n- d\nFeature names seen at fit time, yet now missing:\n- c",
        ),
        (("a", "b"), None, r"yet now missing:\n- c\n"),
        (("a", "b", "c", "a"), ["a", "b", "c"], "same order"),
    ],
)
def test_other_columns_are_refused(fitted: tg.Ranker, order: Any, renamed: Any, words: str) -> None:
    """Without names the reversed table ranked at random (tau -0.04), without a word."""
    other = table(*order, names=renamed)
    for use in (lambda: fitted.predict(other), lambda: fitted.score(other, TIMES)):
        with pytest.raises(tg.errors.DataError, match=words):
            use()
    if fitted.recipe != "eighth-lightgbm":
        with pytest.raises(tg.errors.DataError, match=words):
            fitted.partial_fit(other, TIMES)


def test_names_on_one_side_alone_are_a_warning(fitted: tg.Ranker) -> None:
    bare = ranker(fitted.recipe).fit(VALUES, TIMES, verbose=False)
    assert not hasattr(bare, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but Ranker was fitted without") as caught:
        scores = bare.predict(table())
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="does not have valid feature names, but Ranker was fitted with"):
        assert (fitted.predict(VALUES) == scores).all()  # names change nothing but the check
    with pytest.raises(tg.errors.DataError, match="X has 2 features, but Ranker is expecting 3"):
        bare.predict(VALUES[:, :2])


def test_scorers_of_scorers_know_the_names() -> None:
    one = ranker().fit(table(), TIMES, verbose=False)
    both = tg.Ensemble([one, one])
    assert both.score(table(), TIMES) > 0.8
    for scorer in (both, tg.Routed({"*": one}), tg.Nearest(ranker()).fit(table(), TIMES)):
        with pytest.raises(tg.errors.DataError, match="'a'|same order"):
            scorer.score(table("c", "b", "a"), TIMES)


@pytest.mark.parametrize("module", ["pandas", "pyarrow", "polars"])
def test_names_of_libraries(module: str) -> None:
    library = pytest.importorskip(module, reason=f"needs {module}")
    make = library.table if module == "pyarrow" else library.DataFrame
    frame = make({name: VALUES[:, i] for i, name in enumerate(NAMES)})
    assert column_names(frame) == tuple(NAMES)
    one = ranker().fit(frame, TIMES, verbose=False)
    assert one.feature_names_in_.tolist() == NAMES and (one.predict(frame) == one.predict(table())).all()


def test_what_has_no_names() -> None:
    class Interchange:
        def __dataframe__(self) -> Any:
            return self

        def column_names(self) -> list[str]:
            return NAMES

    class Through:
        def __dataframe__(self) -> Any:
            return Interchange()

    assert column_names(Through()) == tuple(NAMES)
    for bare in (
        VALUES,
        VALUES.tolist(),
        Frame(VALUES, range(3)),
        Frame(VALUES, []),
        Frame(VALUES, None),
        None,
    ):
        assert column_names(bare) is None
    refuses(lambda: column_names(Frame(VALUES, ["a", 1, "c"])), tg.errors.DataError, "['int', 'str']")
    refuses(lambda: ranker().fit(Frame(VALUES, ["a", "a", "c"]), TIMES), tg.Error, "'a'")


def test_scikit_learn_agrees() -> None:
    pytest.importorskip("sklearn", minversion="1.6", reason="needs the extra [sklearn]")
    pytest.importorskip("pandas", reason="needs pandas")
    from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_dataframe_column_names_consistency("Ranker", ranker())


# ---- graphs -----------------------------------------------------------------------------------------------


def graph(*order: str) -> tg.Graph:
    return tg.Graph(config_feat=table(*order), runtime=TIMES)


def test_a_graph_of_a_table_has_its_names(tmp_path: Path) -> None:
    named = graph()
    assert named.schema.inferred and named.schema.names("config") == tuple(NAMES)
    assert tg.Graph(config_feat=VALUES, runtime=TIMES).schema.names("config") == ()
    for name in ("g.npz", "g.tgpack"):
        named.save(tmp_path / name)
        assert tg.load(tmp_path / name).schema == named.schema
    assert named.replace(name="other").schema == named.select(slice(2)).schema == named.schema
    nodes = tg.Graph(node_feat=Frame(np.ones((2, 2)), ["size", "bits"]), config_feat=VALUES, runtime=TIMES)
    assert nodes.schema.names("node") == ("size", "bits") and nodes.schema.config[0].name == "config_0"
    with pytest.raises(tg.errors.DataError, match="config_feat.*a, b, c.*c, b, a"):
        named.replace(config_feat=table("c", "b", "a"))
    given = Schema(config=tuple(map(Column, NAMES)))
    with pytest.raises(tg.errors.DataError, match="schema.*c, b, a"):
        tg.Graph(config_feat=table("c", "b", "a"), schema=given)
    assert tg.Graph(config_feat=table(), schema=given).schema is given


def scorers() -> list[Any]:
    made = [ranker(), LinearBaseline(), MeanEffect(), GaussianProcess(), MultiTaskGaussianProcess()]
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        return made
    return [*made, ranker("eighth-lightgbm")]


@pytest.mark.parametrize("scorer", scorers(), ids=lambda one: one.name)
def test_graphs_with_columns_in_another_order_are_refused(scorer: Any) -> None:
    columns = dict(zip(NAMES, VALUES.T, strict=True)) | {"ms": TIMES}
    (given,), (turned,) = (tg.from_frame(columns, config=order) for order in (NAMES, NAMES[::-1]))
    for first, other in ((given, turned), (graph(), graph("c", "b", "a"))):
        scorer.fit(first)
        assert scorer.score(first) > 0.5
        refuses(lambda: scorer.score(other), tg.errors.DataError, "column 0", "'a'", "'c'")


def test_graphs_without_names_are_taken_by_position() -> None:
    bare = tg.Graph(config_feat=VALUES, runtime=TIMES)
    expected = ranker().fit(bare, verbose=False).predict(bare)
    for first, other in ((bare, graph()), (graph(), bare)):
        assert (ranker().fit(first, verbose=False).predict(other) == expected).all()
    both = ranker().fit([bare, graph()], verbose=False)
    assert both.feature_names_in_.tolist() == NAMES
    with pytest.raises(tg.errors.DataError, match="order"):
        ranker().fit([graph(), graph("b", "a", "c")], verbose=False)


def test_names_like_those_of_an_inferred_schema() -> None:
    like = ["config_0", "config_1", "config_2"]
    one = ranker().fit(table(names=like), TIMES, verbose=False)
    one.predict(VALUES)
    with pytest.raises(tg.errors.DataError, match="another order"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one.predict(table("c", "b", "a", names=like))


def test_importance_uses_the_names() -> None:
    one = ranker().fit(table(), TIMES, verbose=False)
    for judged in (graph(), tg.Graph(config_feat=VALUES, runtime=TIMES)):
        found = tg.permutation_importance(one, judged, repeats=1, verbose=False)
        assert {part.name for part in found} == set(NAMES) and found.parts[0].name == "a"
        assert re.search(r"config +a ", found.table())
