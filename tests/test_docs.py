"""Pages are true: made from the core where they can be, and every file, link and name in them exists."""

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "decisions").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
]
SOURCES = [
    path
    for top in "tpugraphs csrc include examples tests benchmarks docs notebooks release .ci".split()
    for path in (ROOT / top).rglob("*")
    if path.is_file()
] + [path for path in ROOT.glob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("script", "page"),
    [("tables", "tables.md"), ("solutions", "recipes.md"), ("pictures", "img/rooms.svg")],
)
def test_pages_made_of_the_code_are_up_to_date(script, page):
    spec = importlib.util.spec_from_file_location(script, DOCS / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / page).read_text() == module.text(), "run `make tables`"


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        to = (page.parent / target).resolve() if target else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_pages_exist(page):
    """`csrc/ops/op.c` is a path from the root, or its end: `op.c` and `loss.h` name the only such file."""
    known = ["/" + path.relative_to(ROOT).as_posix() for path in SOURCES]
    named = re.findall(r"(?<![\w<>*./-])(?:[\w.-]+/)*\w+\.(?:py|pyi|c|h|inc|sh)\b(?!\w|<)", page.read_text())
    named = {name for name in named if not name.startswith(("my", "sample_submission"))}
    missing = [name for name in sorted(named) if not any(path.endswith("/" + name) for path in known)]
    missing += [
        name
        for name in sorted(named)
        if name.startswith(("tpugraphs/", "csrc/", "tests/", "benchmarks/")) and not (ROOT / name).is_file()
    ]
    assert not missing


@pytest.mark.parametrize(
    ("table", "heading"), [("ROOMS", "### Rooms of csrc"), ("WINGS", "### Wings of tpugraphs")]
)
def test_the_architecture_page_lists_all_parts(table, heading):
    """Every part of the table in test_structure.py has its row under the heading, and no other has one."""
    section = (DOCS / "architecture.md").read_text().split(heading)[1].split("\n#")[0]
    cells = " ".join(re.findall(r"^\| (`.*?) \|", section, re.M))
    structure = (ROOT / "tests" / "test_structure.py").read_text()
    listed = re.search(rf"^{table} = {{(.*?)^}}", structure, re.S | re.M).group(1)
    assert set(re.findall(r"`(\w+)(?:/|\.py)`", cells)) == set(re.findall(r'"(\w+)":', listed))


def test_the_architecture_is_read_in_ten_minutes():
    """What does not fit is a decision of its own, in docs/decisions; the list there names all of them."""
    assert (DOCS / "architecture.md").stat().st_size <= 15_000
    found = sorted((DOCS / "decisions").glob("*.md"))
    listed = re.findall(r"\]\((\w[\w-]*\.md)\)", (DOCS / "decisions" / "index.md").read_text())
    assert sorted([*listed, "index.md"]) == [page.name for page in found]
    assert not [page.name for page in found if page.name != "index.md" and page.stat().st_size > 2_000]


def test_names_in_docstrings_exist():
    wrong = []
    for path in sorted((ROOT / "tpugraphs").rglob("*.py")):
        for name in re.findall(r":(?:mod|class|func|meth|data|attr):`~?(tpugraphs[\w.]*)`", path.read_text()):
            found, parts = importlib.import_module("tpugraphs"), name.split(".")
            for i, part in enumerate(parts[1:], 2):
                if not hasattr(found, part):
                    try:
                        found = importlib.import_module(".".join(parts[:i]))
                    except ImportError:
                        wrong.append(f"{path.relative_to(ROOT)}: {name}")
                        break
                else:
                    found = getattr(found, part)
    assert not wrong


def run_examples(text, folder, monkeypatch):
    """Run Python of a page as in a notebook, in an empty folder, and return how many blocks there were."""
    monkeypatch.chdir(folder)
    blocks, names = re.findall(r"```python\n(.*?)```", text, re.S), {}
    for block in blocks:
        exec(compile(block, "page", "exec"), names)
    return len(blocks)


def test_the_example_of_tuning_in_the_readme_runs(tmp_path, monkeypatch, capsys):
    section = (ROOT / "README.md").read_text().split("\n## Tune anything\n")[1].split("\n## ")[0]
    assert run_examples(section, tmp_path, monkeypatch) == 1
    assert "best: block=1024, unroll=1\n" in capsys.readouterr().out and (tmp_path / "A100.jsonl").is_file()


def test_the_examples_of_the_page_of_tuning_run(tmp_path, monkeypatch, capsys):
    page = (DOCS / "tuning.md").read_text()
    assert run_examples(page, tmp_path, monkeypatch) == 7
    shown = re.search(r"^print\(tuned.config\)  # (.+)$", page, re.M)[1]
    told = capsys.readouterr().out
    assert told.splitlines()[0] == shown and f"\n{shown}\n" in told, (
        "the first device, and the second's second"
    )
    assert re.search("tau of matmul, A100 +1.00", told)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_the_commands_of_the_page_of_tuning_run(tmp_path):
    (lines,) = re.findall(r"```sh\n(.*?)```", (DOCS / "tuning.md").read_text(), re.S)
    (tmp_path / "mykernel.c").write_text("volatile int x;\nint main(void) { x = BLOCK; return 0; }\n")
    for name in ("others", "laptop", "cluster"):
        config = '{"block": 16, "O": "1"}'
        script = f"records.Journal('{name}.jsonl').append(records.Record({config}, (1.5,), device='{name}'))"
        subprocess.run(
            [sys.executable, "-c", f"from tpugraphs import records; {script}"], cwd=tmp_path, check=True
        )
    assert "--budget 60s" in lines
    script = f'tpugraphs() {{ "{sys.executable}" -m tpugraphs "$@"; }}\n' + lines.replace("60s", "3")
    done = subprocess.run(["bash", "-e"], input=script, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "gain over the default" in done.stdout and "laptop" in done.stdout
    assert (tmp_path / "all.csv").read_text().count("\n") == 3
