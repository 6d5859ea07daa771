"""The English of comments, docstrings, messages and pages: phrases that made readers stop are not used again."""

import json
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
# CONTRIBUTING.md, "Words", says what to write instead. Spaces stand for any gap, also from line to line.
AVOID = [
    r"(?:is|are|was|were|be) told (?:by|apart by)",
    r"unless told",
    r"(?:go|goes|going|gone|went) on",
    r"beside(?! : mapping)",  # that is an argument of tg.leave_out
    r"(?<!there\s)(?:is|are|was|were) no (?!longer|more|less|fewer|worse|better)[a-z]+",
    r"what (?:is|are) none",
    r"(?:is|are) none of (?:that|these|those|them)",
    r"that (?:is|are) none",
    r"of now",
    r"anew",
    r"so many",
    r"so much",
    r"as of",
    r"can be had",
    r"that (?:is|are) there",
    r"learned",
]
GAP = r"""[\s*#>"']+"""
BANNED = re.compile(r"(?<![\w`=.-])(?:" + "|".join(AVOID).replace(" ", GAP) + r")(?![\w=])", re.I)
TEXT_OF_C = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
TEXT_OF_PYTHON = (
    tokenize.COMMENT,
    tokenize.STRING,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
)


def hidden(text):
    """As many characters in as many lines, none of which is prose."""
    return re.sub(r"\S", "\0", text)


def of_c(text):
    spans = [match.span() for match in TEXT_OF_C.finditer(text)]
    return only(text, spans)


def of_python(text):
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    tokens = tokenize.generate_tokens(iter(lines).__next__)
    return only(
        text,
        [
            (starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1])
            for t in tokens
            if t.type in TEXT_OF_PYTHON
        ],
    )


def only(text, spans):
    """The text with everything outside the spans hidden."""
    parts, at = [], 0
    for start, end in spans:
        parts += [hidden(text[at:start]), text[start:end]]
        at = end
    return "".join([*parts, hidden(text[at:])])


def of_page(text):
    """Without code, and without the table of what is not to be written."""
    text = re.sub(r"^```.*?^```", lambda match: hidden(match.group()), text, flags=re.S | re.M)
    return re.sub(r"^\| not \|.*?^(?!\|)", lambda match: hidden(match.group()), text, flags=re.S | re.M)


def of_notebook(text):
    cells = json.loads(text)["cells"]
    return "\n\0\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


PROSE = {
    ".py": of_python, ".pyi": of_python, ".c": of_c, ".h": of_c, ".inc": of_c, ".md": of_page,
    ".ipynb": of_notebook,
}  # fmt: skip
FILES = [
    path
    for place in ("tpugraphs", "csrc", "notebooks", "docs", "README.md", "CONTRIBUTING.md")
    for path in ([ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*")))
    if path.suffix in PROSE and "results" not in path.parts
]


def hits(prose):
    """(line, phrase) of every phrase that is not to be used."""
    return [
        (prose.count("\n", 0, m.start()) + 1, " ".join(m.group().split())) for m in BANNED.finditer(prose)
    ]


def test_no_phrase_that_made_readers_stop():
    assert len(FILES) > 200
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}"
        for path in FILES
        for line, phrase in hits(PROSE[path.suffix](path.read_text()))
    ]
    assert not found, "write it in other words (CONTRIBUTING.md, 'Words'):\n" + "\n".join(found)


def test_phrases_are_found_where_prose_is_and_nowhere_else():
    python = (
        '"""Resumes.\n\nGoes\n    on."""\nbeside = 1  # that is\n# none\nx = f(beside, "unless"\n"told")\n'
    )
    assert hits(of_python(python)) == [(3, "Goes on"), (5, "that is # none"), (7, 'unless" "told')]
    assert hits(of_c('int anew; /* begun\n * anew */ char *s = "so many";\n')) == [
        (2, "anew"),
        (2, "so many"),
    ]
    assert hits(of_page("a\n```\nanew\n```\n| not | but |\n| beside | near |\n\nis no path\n")) == [
        (8, "is no path")
    ]
    cells = [{"cell_type": "markdown", "source": ["of\n", "now"]}, {"cell_type": "code", "source": ["anew"]}]
    assert hits(of_notebook(json.dumps({"cells": cells}))) == [(1, "of now")]
    assert not hits("there is no such file; `beside=` names others; this is no longer than that; leave it")
