"""The documentation site. `make docs` builds it in build/docs. docs/generated/ is not kept in git."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import fields  # noqa: E402  (next to this file)
import reference  # noqa: E402
import tutorials  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.ext.autodoc.mock import mock  # noqa: E402
from sphinx.util import logging  # noqa: E402

import tpugraphs  # noqa: E402

project = "tpugraphs"
author = "the authors of tpugraphs"
copyright = author
version = release = tpugraphs.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "static", "**.txt"]
nitpicky = True
default_role = "code"  # `name` in docstrings

autodoc_typehints = "none"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off"  # they are stored with outputs
nb_output_stderr = "remove"  # progress bars

html_theme = "pydata_sphinx_theme"
html_title = f"tpugraphs {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "static" / "scorer.js")
html_sidebars = {page: [] for page in ("recipes", "changelog")}  # which have no pages below
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

logger = logging.getLogger(__name__)
with mock([name for name in tpugraphs._OPTIONAL.values() if find_spec(name) is None]):
    HOMES = dict(reference.aliases())  # imports all modules: their pages need no PyTorch and no JAX


def at_home(node: Any, known: Any) -> str | None:
    """Return the documented path of what a docstring names: a name, a member, or one of its module."""
    name, module = node["reftarget"], node.get("py:module") or ""
    for full in (name, f"{module}.{name}", f"{node.get('py:class')}.{name}"):
        owner, _, member = full.rpartition(".")
        target = HOMES.get(full) or f"{HOMES.get(owner)}.{member}"
        if target in known:
            return target
    same = {home for home in HOMES.values() if home.endswith(f".{name}")}
    return same.pop() if len(same) == 1 else None


def resolve(app: Any, env: Any, node: Any, content: nodes.Node) -> nodes.Node | None:
    """Lead references to a name's other paths to the page that it has."""
    domain = env.get_domain("py")
    known = domain.objects | domain.modules
    if node.get("refdomain") != "py" or (entry := known.get(target := at_home(node, known))) is None:
        return None
    uri = app.builder.get_relative_uri(node["refdoc"], entry.docname) + "#" + entry.node_id
    return nodes.reference("", "", content, internal=True, refuri=uri, reftitle=target)


def escape(app: Any, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    """Keep bars in docstrings bars, and list the fields of a recipe with what they say about themselves."""
    if what == "class" and (found := reference.fields(value)):  # type: ignore[arg-type]
        lines += ["", "Attributes", "----------"]
        for field, doc in found.items():
            lines += [f"{field} : default {getattr(value, field)!r}", f"    {doc[:1].upper()}{doc[1:]}."]
    lines[:] = [line if ">>>" in line else reference.escaped(line) for line in lines]


def complete(app: Any, env: Any) -> None:
    """Warn, which fails the build, of every public name without an entry of its own."""
    for path, why in reference.ABSENT.items():
        logger.warning("%s has no page: %s", path, why)
    domain = env.get_domain("py")
    for path in sorted(set(reference.paths().values()) | set(reference.modules())):
        if path not in domain.objects and path not in domain.modules:
            logger.warning("the public name %s has no page", path)


def prepare(app: Any, page: str, source: list[str]) -> None:
    """Give results without a heading one; lead links between notebooks and docs to pages of the site."""
    text = source[0]
    if page.startswith("results/") and not re.search("^# ", text, re.M):
        text = f"# Recipes compared: {page.removeprefix('results/recipes-')}\n\n{text}"
    text = re.sub(r"\]\((?:\.\./)+notebooks/(\w+)\.ipynb\)", r"](/generated/tutorials/\1.ipynb)", text)
    text = re.sub(r"\]\((?:\.\./)+docs/results/?\)", "](/results/index.md)", text)
    source[0] = re.sub(r"\]\((?:\.\./)+docs/", "](/", text)


def write(folder: Path, made: dict[str, str]) -> None:
    """Write files into a folder and remove all others. Unchanged ones are left alone, and not built again."""
    for old in folder.rglob("*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in made:
            old.unlink()
    for name, text in made.items():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        if not page.is_file() or page.read_text() != text:
            page.write_text(text)


def setup(app: Any) -> None:
    """Make the pages that are not kept, and connect the checks."""
    made = {f"reference/{name}": text for name, text in reference.pages().items()}
    made |= {f"fields/{name}": text for name, text in fields.pages().items()}
    write(DOCS / "generated", made | {f"tutorials/{name}": text for name, text in tutorials.pages().items()})
    app.connect("missing-reference", resolve)
    app.connect("env-check-consistency", complete)
    app.connect("source-read", prepare)
    app.connect("autodoc-process-docstring", escape, priority=400)  # before numpydoc reads them
