"""One word for one thing: sources and pages use the words of CONTRIBUTING.md, and none of the synonyms it lists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
PLACES = ("tpugraphs", "csrc", "notebooks", "docs", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".py", ".pyi", ".c", ".h", ".inc", ".md", ".ipynb"}
FILES = [
    path
    for place in map(ROOT.joinpath, PLACES)
    for path in ([place] if place.is_file() else sorted(place.rglob("*")))
    if path.suffix in SUFFIXES and "results" not in path.parts
]


def table(head):
    """First cells of the table of CONTRIBUTING.md that begins with this head, one per word."""
    rows = re.search(rf"^\| {head} \|.*\n\|.*\n((?:\|.*\n)+)", PAGE.read_text(), re.M)[1]
    return [word.strip() for row in rows.splitlines() for word in row.split("|")[1].split(",")]


def prose(path):
    """The text of a file; of the glossary's own page, without its table of synonyms."""
    text = path.read_text()
    return re.sub(r"^\| not \|(?:.*\n)(?:\|.*\n)+", "", text, flags=re.M) if path == PAGE else text


def test_sources_use_the_words_of_the_glossary():
    text = "\n".join(map(prose, FILES)).lower()
    unused = [word for word in table("word") if not re.search(rf"\b{word.removeprefix('to ')}", text)]
    assert len(table("word")) > 30 and not unused


def test_sources_use_no_synonym_of_them():
    synonyms = table("not")
    banned = re.compile(rf"(?<![\w/.-])(?:{'|'.join(synonyms)})s?(?![\w/=-])", re.I)
    assert banned.search("of many datasets") and not banned.search("data/dataset/x")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()!r}"
        for path in FILES
        for number, line in enumerate(prose(path).splitlines(), 1)
        for match in banned.finditer(line)
    ]
    assert len(FILES) > 200 and not found, "use the words of CONTRIBUTING.md:\n" + "\n".join(found)
