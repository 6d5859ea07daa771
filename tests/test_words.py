"""Numbers and their nouns agree: one helper makes them, and no message writes its own."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import tpugraphs as tg
from tpugraphs.system.words import counted, plural

PACKAGE = Path(tg.__file__).parent
NOUNS = (
    "archives arrays attempts bytes columns configs configurations devices digits dimensions draws "
    "edges entries evaluations fields files folds graphs indices kernels layers lines losses members "
    "names nodes numbers opcodes others parameters problems programs rankers recipes rounds rows runs "
    "runtimes samples scores seeds segments sizes slots steps strings threads trees trials validations "
    "values warnings weights"
).split()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 graphs"), (1, "1 graph"), (2, "2 graphs"), (1234, "1,234 graphs")]
)
def test_a_number_has_its_noun(count, text):
    assert counted(count, "graph") == text
    assert counted(np.int64(count), "graph") == text


def test_nouns_that_take_no_s():
    assert counted(1, "index", "indices") == "1 index"
    assert counted(2, "index", "indices") == "2 indices"
    assert (plural(1, "is", "are"), plural(2, "is", "are")) == ("is", "are")


def own_plurals(text):
    """(line, text) of f-strings with a number before a fixed plural, and of plurals made by hand."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            number = ast.unparse(value.value)
            word = re.search(
                r"\b(?:kind|group|name|recipe|place)\b|\bjoin\(|\['\w+'\]$|^_?[A-Z][A-Z_]+$", number
            )
            if not word and re.match(rf" (?:(?!of|has)[a-z]+ )?(?:{'|'.join(NOUNS)})\b", after.value):
                found.append((node.lineno, ast.unparse(node)))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.search(r"\w\(s\)", node.value)
        ):
            found.append((node.lineno, node.value))
    made = r"""['"]s['"] ?(?:if|\*)|['"]['"] if [^"']* == 1 else ['"]s['"]"""
    lines = enumerate(text.splitlines(), 1)
    return found + [(number, line.strip()) for number, line in lines if re.search(made, line)]


# What is never 1, or not for people, and why.
EXEMPT = {
    "configs are different": "one config is told in other words",
    "all {runtimes.size:,} configs": "the only config is told in other words",
    "programs, each compiled by XLA": "of a collection in the package",
    "sha256 {": "the size of an archive",
    "first {some} steps": "2 or more",
    "bytes, max_bytes": "what is left of a limit",
    "expected at most {most} columns": "a constant",
    "graphs can be trained on": "a single graph raises its own error",
    "rounds{kept}": "2 or more",
    "digest([": "what a checkpoint is compared by",
}


def test_every_plural_comes_from_the_helper():
    found = [
        (f"{path.relative_to(PACKAGE)}:{line}", text)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in own_plurals(path.read_text())
    ]
    wrong = [": ".join(one) for one in found if not any(known in one[1] for known in EXEMPT)]
    assert not wrong, "use tpugraphs.system.words.counted:\n" + "\n".join(wrong)
    unused = [known for known in EXEMPT if not any(known in text for _, text in found)]
    assert not unused


def test_own_plurals_are_found():
    assert own_plurals('f"{len(a)} graphs are"') and own_plurals('f"{n:,} finite numbers"')
    assert own_plurals("x = f\"{n} row{'s' * (n != 1)}\"") and own_plurals("'graph(s) there'")
    assert not own_plurals('f"{name} graphs"') and not own_plurals("f\"{counted(n, 'row')} of {path}\"")
