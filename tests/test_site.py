"""Pages that the site makes of the package: groups of the reference, members by use, fields of recipes, the first page."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tpugraphs as tg

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def made():
    """The modules that make pages, by their files: tests have a `reference`, too."""
    found = {}
    for name in ("reference", "fields"):
        spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
        found[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    return found


def test_the_reference_puts_every_module_into_one_group_with_a_line(made):
    groups = made["reference"].groups()
    modules = made["reference"].modules()
    listed = [path for paths in groups.values() for path in paths if path in modules]
    assert sorted(listed) == sorted(modules)
    assert set(groups) - {made["reference"].INTERNALS} == set(made["reference"].GROUPS)
    assert len(groups[made["reference"].INTERNALS]) > 20, "the face is apart from what it is made of"
    overview = made["reference"].overview()
    for path in modules:
        (line,) = re.findall(rf"^\| \[`{re.escape(path)}`\]\(\S+\) \| (.+) \|$", overview, re.M)
        assert len(line) > 20 and ":" + "func" not in line


@pytest.mark.parametrize("name", ["Ranker", "Ensemble", "Nearest"])
def test_members_of_a_scorer_are_ordered_by_use(made, name):
    cls, path = getattr(tg, name), f"class/tpugraphs.{name}.rst"
    page = made["reference"].pages()[path]
    members = re.findall(rf"^\.\. auto(?:method|property|attribute):: {name}\.(\w+)$", page, re.M)
    public = {one for one in dir(cls) if not one.startswith("_") and getattr(cls, one).__doc__}
    assert public <= {*members} and len(members) == len(set(members))
    order = [
        members.index(one) for one in ("fit", "predict", "rank", "evaluate", "save", "get_params", "to_file")
    ]
    assert order == sorted(order)


def test_every_field_of_every_recipe_is_on_its_pages(made):
    pages = made["fields"].pages()
    assert set(pages) == {"index.md", *(f"{name}.md" for name in tg.list_recipes())}
    for name in tg.list_recipes():
        for field, option in tg.recipes.get_recipe(name).describe()["options"].items():
            assert f"\n### {field}\n" in pages["index.md"]
            (row,) = re.findall(rf"^\| \[`{field}`\]\(index\.md#{field}\) \|.*$", pages[f"{name}.md"], re.M)
            assert (
                option["expected"].replace("|", r"\|") in row
                and option["meaning"][1:].replace("|", r"\|") in row
            )
    said = pages["index.md"].split("\n### config_temperature\n")[1].split("###")[0]
    assert "Gumbel" in said and "0.01..100" in said and "Default: `1.0`" in said


def test_figures_of_the_first_page_are_those_of_the_readme():
    rows = re.findall(r"^\| .+%.+\|$", (DOCS / "index.md").read_text(), re.M)
    assert len(rows) == 3 and not [row for row in rows if row not in (ROOT / "README.md").read_text()]


def test_the_page_of_own_data_is_found_by_what_people_ask_for():
    page = (DOCS / "your-own-data.md").read_text()
    (title,) = re.findall(r"^# (.+)$", page, re.M)
    (keywords,) = re.findall(r'"keywords lang=en": "(.+)"', page)
    assert {"own", "data", "csv"} <= {word.lower() for word in re.findall(r"\w+", title)}
    assert {"how", "use", "my", "own", "csv"} <= {word.lower() for word in re.findall(r"\w+", keywords)}


def test_the_extra_brings_what_the_build_in_place_asks_for():
    """`pip install '.[docs]' && make docs` in an environment of its own, whose setuptools may be old."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (setuptools,) = (one for one in project["build-system"]["requires"] if one.startswith("setuptools"))
    assert setuptools in project["project"]["optional-dependencies"]["docs"]


def test_modules_that_need_an_extra_have_pages_without_it(tmp_path):
    pytest.importorskip("sphinx", reason="the extra [docs]")
    code = (
        "import importlib.util as util, sys, sphinx.application, docutils.nodes, sphinx.ext.autodoc\n"
        "util.find_spec = lambda name, package=None: None\n"  # as if neither PyTorch nor JAX were there
        "import conf\n"
        "assert not conf.reference.ABSENT and 'torch' not in sys.modules\n"
        "assert 'function/tpugraphs.torch.list_mle.rst' in conf.reference.pages()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": f"{Path(tg.__file__).parents[1]}:{DOCS}", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
