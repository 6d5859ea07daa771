"""HTML in notebooks: escaped, well formed, self-contained, without colours that a theme could hide."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET

import madeup
import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs.system import markup
from tpugraphs.training import History

EVIL = "<script>alert('&\"')</script>"
SMALL = {"width": 32, "configs": 16, "evaluate_every": 2, "steps": 6}


def parsed(page):
    """The page as a tree, which only well-formed HTML is."""
    return ET.fromstring(f"<div>{page}</div>")


def texts(page):
    return " ".join("".join(parsed(page).itertext()).split())


def fitted():
    ranker = tg.Ranker("first-layout", **SMALL)
    ranker.fit(madeup.graph("program"), 0.2, verbose=False)
    return ranker


def history():
    made = History(total_steps=300, seconds=61.0, skipped={EVIL: EVIL}, stopped=EVIL)
    made.loss = [1 / (i + 1) for i in range(200)]
    made.evaluated(100, 0.5)
    made.evaluated(200, 0.4)
    return made


def seeds():
    train = {"seeds": 2, "verbose": False, **SMALL}
    return tg.train_seeds("first-layout", madeup.graph("program"), 0.2, **train)


def collection(folder):
    place = folder / "npz" / "tile" / "xla" / "train"
    os.makedirs(place)
    for name in ("a<b>", "c&d"):
        madeup.graph("kernel_00").save(place / f"{name}.npz")
    return tg.open_collection("tile:xla", folder, exclude="<none>")


def audit():
    graph = madeup.graph(madeup.CONSTANT[0]).replace(name=EVIL)
    return tg.audit([graph, madeup.graph("program")], verbose=False)


OBJECTS = ("ranker", "unfitted", "history", "empty history", "seeds", "collection", "audit", "broken audit")


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "broken.npz").write_bytes(b"no zip")
    values = (
        fitted(), tg.Ranker("tenth-tile"), history(), History(), seeds(), collection(folder), audit(),
        tg.audit(folder / "broken.npz", verbose=False),
    )  # fmt: skip
    return dict(zip(OBJECTS, values, strict=True))


@pytest.mark.parametrize("name", OBJECTS)
def test_pages_are_well_formed_and_need_nothing_else(objects, name):
    page = objects[name]._repr_html_()
    tree = parsed(page)
    assert "<script" not in page and "http" not in page and "url(" not in page
    tags = {element.tag for element in tree.iter()}
    assert not tags & {"script", "style", "link", "img", "iframe", "object", "image", "use"}
    for element in tree.iter():
        assert not [
            key for key in element.attrib if key.startswith("on") or key in ("href", "src", "id", "class")
        ]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", OBJECTS)
def test_pages_are_legible_in_light_and_dark(objects, name):
    """Text has the colour of the page. Other colours have a contrast of 3 with white and nearly black (WCAG 2)."""
    page = objects[name]._repr_html_()
    assert not re.search(r"(?<![-\w])(?:background-)?colou?r:(?!inherit)", page)
    assert not re.search(r"background:(?!none)", page)
    for colour in set(re.findall(r'(?:fill|stroke)="(#\w+)"', page)):
        own = luminance(colour)
        assert min(1.05 / (own + 0.05), (own + 0.05) / (luminance("#1e1e1e") + 0.05)) >= 3
    others = set(re.findall(r'(?:fill|stroke)="([^"#]+)"', page))
    assert others <= {"none", "currentColor"}


def test_a_ranker_says_what_it_is(objects):
    told = texts(objects["ranker"]._repr_html_())
    ranker = objects["ranker"]
    assert "Ranker first-layout fitted" in told and f"parameters{ranker.num_parameters:,}" in told.replace(
        " ", ""
    )
    assert "width=32" in told and "6 of 6" in told and "best tau" in told
    for field in ranker.fields.__dataclass_fields__:
        assert field in told
    assert (
        "not fitted" in texts(objects["unfitted"]._repr_html_())
        and "<svg" not in objects["unfitted"]._repr_html_()
    )


def test_own_texts_are_escaped():
    page = history()._repr_html_()
    assert EVIL in texts(page) and "&lt;script&gt;" in page
    assert EVIL in texts(audit()._repr_html_())
    card = markup.card(EVIL, EVIL, EVIL, {EVIL: EVIL}, markup.folded(EVIL, markup.items([EVIL])))
    assert texts(card).count(EVIL) == 7
    line = markup.Line(EVIL, [1, 2], [3, 4], markup.BLUE)
    assert texts(markup.chart([line], EVIL, EVIL)).count(EVIL) == 3


def test_seeds_are_listed_with_what_was_chosen(objects):
    runs, told = objects["seeds"], texts(objects["seeds"]._repr_html_())
    assert "2 seeds" in told and runs.rule.text in told
    for run in runs.runs:
        assert run.why in told and f"{run.metric:.4f}" in told
    assert objects["seeds"]._repr_html_().count("<polyline") == 2


def test_a_collection_lists_its_graphs_without_reading_them(objects, monkeypatch):
    monkeypatch.setattr("tpugraphs.data.collections.load_all", None)
    told = texts(objects["collection"]._repr_html_())
    assert "tile:xla" in told and "a<b>" in told and "c&d" in told and "<none>" in told
    assert told.count("not here") == 2


def test_an_audit_says_what_its_table_says(objects):
    told = texts(objects["audit"]._repr_html_())
    for line in ("2 graphs; ", "suggestion: exclude=", "one config only"):
        assert line in told
    assert "unreadable" in texts(objects["broken audit"]._repr_html_())


# ---- charts


def places(svg):
    found = []
    for line in parsed(svg).iter("polyline"):
        found.append(np.array([list(map(float, p.split(","))) for p in line.attrib["points"].split()]))
    return found


def test_a_chart_shows_values_where_they_belong():
    line = markup.Line("a", [0, 5, 10], [1.0, 3.0, 2.0], markup.BLUE)
    (xy,) = places(markup.chart([line], "step", "a"))
    assert xy[0, 0] < xy[1, 0] < xy[2, 0] and np.isclose(xy[1, 0] - xy[0, 0], xy[2, 0] - xy[1, 0])
    assert xy[1, 1] < xy[2, 1] < xy[0, 1]  # SVG counts from above
    other = markup.Line("b", [0, 10], [1e9, 2e9], markup.ORANGE, right=True)
    both = places(markup.chart([line, other], "step", "a", "b"))
    np.testing.assert_array_equal(both[0], xy)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1], [2.0]),
        ([1, 2], [3.0, 3.0]),
        ([1, 2, 3], [1.0, float("nan"), float("inf")]),
        ([1, 2], [-1.7e308, 1.7e308]),
        ([1, 2], [1.1e308, 1.7e308]),
        ([1, 2], [0.0, 5e-324]),
    ],
)
def test_charts_of_odd_values_stay_inside(x, y):
    svg = markup.chart([markup.Line("a", x, y, markup.BLUE)], "step", "a")
    (xy,) = places(svg)
    assert "nan" not in svg and "inf" not in svg
    assert np.isfinite(xy).all() and (xy >= 0).all() and (xy[:, 0] <= 640).all() and (xy[:, 1] <= 220).all()


def test_nothing_to_draw_is_no_chart():
    assert markup.chart([], "step") == ""
    assert markup.chart([markup.Line("a", [1], [float("nan")], markup.BLUE)], "step") == ""


def test_long_lines_are_averaged():
    y = np.sin(np.arange(100_000) / 10_000)
    svg = markup.chart([markup.Line("a", range(y.size), y.tolist(), markup.BLUE)], "step", "a")
    (xy,) = places(svg)
    assert 100 < len(xy) <= 400 and len(svg) < 12_000
