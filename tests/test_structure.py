"""The house keeps its rooms: one-way includes, sizes, names, headers that stand alone, one version."""

import ast
import graphlib
import io
import os
import re
import shutil
import subprocess
import sysconfig
import tokenize
import tomllib
import types
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tpugraphs
from tpugraphs import _core
from tpugraphs.names import KINDS

ROOT = Path(__file__).parents[1]
CSRC = ROOT / "csrc"
# A room may include itself and every room with a smaller number.
ROOMS = {
    "base": 0,
    "features": 1,
    "kernels": 2,
    "graph": 3,
    "configs": 3,
    "io": 4,
    "trees": 4,
    "hlo": 5,
    "ops": 4,
    "rank": 4,
    "optim": 4,
    "model": 5,
    "search": 5,
    "prepare": 6,
    "store": 7,
    "score": 7,
    "clib": 8,
    "py": 8,
}
FILES = sorted(p for p in CSRC.rglob("*") if p.suffix in (".c", ".h", ".inc") and "fuzz" not in p.parts)
HEADERS = [p for p in FILES if p.suffix == ".h"]
PUBLIC = ROOT / "include" / "tpugraphs.h"
LITERALS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def bare(path):
    """The text without comments and literals, lines kept."""
    return LITERALS.sub(lambda match: "\n" * match.group().count("\n") or " ", path.read_text())


def room(path):
    return path.relative_to(CSRC).parts[0]


def name(path):
    return str(path.relative_to(ROOT))


def functions(text):
    """(name, first line, lines) of every function body; preprocessor lines do not count as code."""
    depth, start, head, directive = 0, 0, "", False
    for number, line in enumerate(text.splitlines(), 1):
        directive, skip = (directive or line.startswith("#")) and line.endswith("\\"), directive
        if skip or line.startswith("#"):
            continue
        if depth == 0:
            start = start if head else number
            head += " " + line.strip() if line.strip() else ""
        before, depth = depth, depth + line.count("{") - line.count("}")
        if depth == 0:
            found = re.search(r"(\w+)\s*\([^{=;()]*(?:\([^()]*\)[^{=;()]*)*\)\s*\{", head)
            if found:
                yield found.group(1), start, number - start + 1
            if before or "{" in line or line.rstrip().endswith(";"):
                head = ""


def test_the_sources_are_there():
    assert {room(p) for p in FILES} == set(ROOMS)
    assert len(FILES) > 60


def test_includes_point_one_way():
    wrong = []
    for path in FILES:
        for include in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M):
            target, here = include.split("/")[0], room(path)
            assert (CSRC / include).exists(), f"{name(path)} includes {include}, which is not under csrc/"
            if target != here and ROOMS[target] >= ROOMS[here]:
                wrong.append(f"{name(path)} includes {include}")
    assert not wrong


def test_files_that_ops_share_call_one_way():
    """What runs ops stands on norms, these on loops: no circle of files."""
    ops = {op["name"] for op in _core.ops()}
    texts = {
        p.name: bare(p) for p in FILES if p.parent == CSRC / "ops" and p.suffix == ".c" and p.stem not in ops
    }
    home = {
        found: file for file, text in texts.items() for found, _, _ in functions(text) if found[:3] == "tg_"
    }
    above = {
        file: {home[n] for n in re.findall(r"\btg_\w+", text) if n in home} - {file}
        for file, text in texts.items()
    }
    assert "norm.c" in above["op.c"] and "loop.c" in above["norm.c"]
    assert list(graphlib.TopologicalSorter(above).static_order())  # CycleError names the files


def test_models_are_built_without_readers_of_files():
    computing = ("graph", "configs", "ops", "rank", "optim", "model", "prepare")
    bad = [p for p in FILES if room(p) in computing and '#include "io/' in p.read_text()]
    assert not [name(p) for p in bad]


def test_openmp_stays_above_the_kernels():
    bad = [
        p
        for p in FILES
        if room(p) == "kernels" and re.search(r"#\s*pragma\s+omp\b|\bomp\.h\b", p.read_text())
    ]
    assert not [name(p) for p in bad]


def test_python_and_numpy_stay_in_py():
    bad = [
        p
        for p in FILES
        if room(p) != "py" and re.search(r"#\s*include\s+[<\"](Python\.h|numpy/)", p.read_text())
    ]
    assert not [name(p) for p in bad]


def test_python_objects_are_in_the_state_of_the_module():
    variable = re.compile(r"^(?:[ \t]*static\s+)?Py\w*Object\s*\*\w+\s*[=,;]", re.M)
    assert not [name(p) for p in FILES if variable.search(bare(p))]


def test_files_are_opened_in_one_place():
    opening = [p for p in FILES if re.search(r"(?<![\w.>])(?:open|openat|mmap)\s*\(", bare(p))]
    assert [name(p) for p in opening] == ["csrc/io/source.c"]


def test_files_and_functions_are_short():
    long = [f"{name(p)}: {n} lines" for p in FILES if (n := p.read_text().count("\n")) > 600]
    seen = 0
    for path in FILES:
        for function, line, lines in functions(bare(path)):
            seen += 1
            if lines > 60:
                long.append(f"{name(path)}:{line}: {function} has {lines} lines")
    assert seen > 100, "the counter of functions found hardly any"
    assert not long


def test_the_function_counter_counts():
    body = "".join(f"    x += {i};\n" for i in range(70))
    text = f"#define A {{\nint f(int a,\n      int b) {{\n{body}}}\nstatic int g(void) {{ return 1; }}\nint t[] = {{1, 2}};\n"
    assert list(functions(text)) == [("f", 2, 73), ("g", 75, 1)]


def test_file_names_are_unique():
    assert not [n for n, count in Counter(p.name for p in FILES).items() if count > 1]


def test_every_shared_function_has_a_header():
    headers = "\n".join(bare(p) for p in [*HEADERS, PUBLIC])
    missing = []
    for path in FILES:
        if path.suffix != ".c":
            continue
        text = bare(path)
        for function in re.findall(r"^(?!static\b)\w[\w\s*]*?\b(tg_\w+)\([^;{]*\)\s*\{", text, re.M):
            if not re.search(rf"\b{function}\b", headers):
                missing.append(f"{name(path)}: {function} is in no header")
        missing += [f"{name(path)}: declares {d}" for d in re.findall(r"^extern\b.*\b(tg_\w+)\(", text, re.M)]
    assert not missing


def test_every_header_is_guarded_and_says_what_it_is_for():
    for path in HEADERS:
        text = path.read_text()
        guard = "TG_" + path.stem.upper() + "_H"
        assert text.startswith("/*"), f"{name(path)} opens without a comment that says what it is for"
        assert f"#ifndef {guard}\n#define {guard}\n" in text, f"{name(path)} has no guard {guard}"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_every_header_compiles_alone():
    command = [
        "gcc",
        "-fsyntax-only",
        "-std=gnu11",
        "-fopenmp",
        "-Wall",
        "-Wextra",
        "-Wno-unused-function",
        "-Werror",
    ]
    command += [
        f"-I{CSRC}",
        f"-I{PUBLIC.parent}",
        f"-I{np.get_include()}",
        f"-I{sysconfig.get_paths()['include']}",
    ]
    command += ["-DPy_LIMITED_API=0x030B0000", "-DNPY_NO_DEPRECATED_API=NPY_1_25_API_VERSION"]
    command += ["-DNPY_TARGET_VERSION=NPY_1_25_API_VERSION", "-x", "c", *map(str, HEADERS)]
    plain = {
        k: v for k, v in os.environ.items() if k != "LD_PRELOAD"
    }  # the compiler is not what is sanitized
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr


def test_no_path_of_a_machine():
    home = re.compile(r"(?<![\w.~}/])/(?:root|home|Users|work)/\w")
    carriers = []
    for folder in "csrc include examples tpugraphs tests docs benchmarks notebooks release .ci".split():
        for path in (ROOT / folder).rglob("*"):
            if (
                path.suffix in (".c", ".h", ".inc", ".py", ".pyi", ".md", ".ipynb", ".json", ".sh", "")
                and path.is_file()
            ):
                if home.search(path.read_text(errors="replace")):
                    carriers.append(name(path))
    carriers += [
        p.name for p in ROOT.glob("*.*") if p.suffix in (".md", ".py", ".toml") and home.search(p.read_text())
    ]
    assert not carriers


# Numbers of the published schemas, which stand in csrc/features/schema.h alone. 18, 24 and 120 are also shifts, offsets
# in files, lengths of messages and the like, so those are looked for only where they cannot be anything else.
PUBLISHED = {140, 134, 117649}
WIDTHS = {18, 24, 120}
UNRELATED = {
    "csrc/io/blake2b.c", "csrc/io/crc.c", "csrc/base/numbers.c", "csrc/io/inflate.c", "csrc/io/npy.c",
    "csrc/io/pack.c", "csrc/io/zip.c", "csrc/kernels/digits.inc", "csrc/kernels/gemm_bf16.inc",
    "csrc/kernels/listwise.inc", "csrc/kernels/vmath.h",
    "csrc/ops/linear_attention.c", "csrc/py/py_products.c",
    "tpugraphs/evaluation/plot.py", "tpugraphs/recipes/fifth.py",
}  # fmt: skip
PACKAGE = sorted((ROOT / "tpugraphs").rglob("*.py"))


def numbers(path):
    """Whole numbers that stand in the code, one by one."""
    if path.suffix == ".py":
        with tokenize.open(path) as file:
            tokens = list(tokenize.generate_tokens(file.readline))
        return [int(t.string) for t in tokens if t.type == tokenize.NUMBER and t.string.isdigit()]
    return [int(n) for n in re.findall(r"(?<![\w.])(\d+)(?![\w.])", bare(path))]


def test_the_numbers_of_the_published_schemas_have_one_home():
    home = CSRC / "features" / "schema.h"
    assert PUBLISHED | WIDTHS <= set(numbers(home))
    wrong = []
    for path in [*FILES, *PACKAGE]:
        if path == home:
            continue
        hidden = set(numbers(path)) & (PUBLISHED | (set() if name(path) in UNRELATED else WIDTHS))
        wrong += [f"{name(path)}: {number} is to be called by its name" for number in sorted(hidden)]
    assert not wrong
    assert all(WIDTHS & set(numbers(ROOT / unrelated)) for unrelated in UNRELATED), "an exception too many"


def test_schema_numbers_are_consistent():
    s = _core.SCHEMA
    assert s["node_features"] == s["scaled_features"] + s["layout_digits"]
    assert s["digits"] % s["layout_digits"] == 0 and s["digit_states"] == s["digit_max"] - s["digit_min"] + 2
    assert s["layout_codes"] == (s["digit_max"] - s["digit_min"] + 1) ** s["layout_digits"]


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == tpugraphs.__version__
    assert f"## [{tpugraphs.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {tpugraphs.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'  version: "{tpugraphs.__version__}"\n' in (ROOT / "release/conda/recipe.yaml").read_text()


def test_the_conda_recipe_needs_what_the_wheel_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "release/conda/recipe.yaml").read_text()
    run = re.search(r"^  run:\n((?:    - .+\n)+)", recipe, re.M)[1]
    found = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()} - {"python"}
    assert found == {need.replace("matplotlib", "matplotlib-base") for need in project["dependencies"]}


def test_licence_is_apache_2():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


# The wings of the package, lowest first: a wing may import itself and those on floors below.
WINGS = {
    "errors": 0,
    "system": 1,
    "names": 0,
    "distributed": 2,
    "metrics": 2,
    "kernels": 2,
    "data": 3,
    "download": 4,
    "preprocess": 4,
    "evaluation": 4,
    "records": 4,
    "recipes": 5,
    "submission": 5,
    "search": 5,
    "tuning": 6,
    "torch": 6,
    "network": 6,
    "training": 7,
    "ranker": 8,
    "layertime": 9,
    "xla": 9,
    "cli": 10,
}
FREE = {"_core", "__version__"}  # of the core, and the package's own number


def wing(path):
    return path.relative_to(ROOT / "tpugraphs").with_suffix("").parts[0]


def own_imports(path):
    """(names of the modules of the package that a file imports, line, whether inside a function)."""
    tree = ast.parse(path.read_text())
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tpugraphs":
            names = [node.module.partition(".")[2]] if "." in node.module else [a.name for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name.partition(".")[2] for a in node.names if a.name.startswith("tpugraphs.")]
        else:
            continue
        yield [name for name in names if name], node.lineno, id(node) in inside


def test_wings_import_one_way():
    here = {wing(path) for path in PACKAGE} - {"__init__", "__main__"}
    assert here == set(WINGS), "a wing without a floor, or a floor without a wing"
    wrong = []
    for path in PACKAGE:
        mine = wing(path)
        for names, line, _ in own_imports(path) if mine in WINGS else ():
            for other in {name.split(".")[0] for name in names} - FREE - {mine}:
                if WINGS[other] >= WINGS[mine]:
                    wrong.append(f"{name(path)}:{line} imports {other}")
    assert not wrong


# Code lines of Python by wing, at most: lower a number when its wing shrinks.
THIN = {
    "": 259,
    "ranker": 3678,
    "layertime": 3221,
    "data": 2812,
    "recipes": 2510,
    "cli": 2313,
    "xla": 2050,
    "training": 1393,
    "system": 1041,
    "evaluation": 781,
    "kernels": 690,
    "preprocess": 460,
    "network": 486,
    "submission": 387,
    "download": 339,
    "tuning": 1282,
    "torch": 340,
    "records": 508,
    "search": 226,
    "distributed": 360,
}  # fmt: skip
THIN_IN_ALL = 25136


def code_lines(path):
    """Lines of a file without docstrings, comments and blank ones."""
    text = path.read_text()
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    layout = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for t in tokens if t.type not in layout for line in range(t.start[0], t.end[0] + 1)}
    return len(lines - documented)


def test_python_stays_thin():
    """C owns graphs, specs and caches; stubs and the zoo's programs do not count."""
    found = dict.fromkeys(THIN, 0) | {"": 0}
    for path in PACKAGE:
        if "zoo" not in path.parts:
            found[wing(path) if wing(path) in THIN else ""] += code_lines(path)
    assert not {name: lines for name, lines in found.items() if lines > THIN.get(name, 240)}
    assert sum(found.values()) <= THIN_IN_ALL


def test_the_counter_of_lines_counts():
    text = '"""Two\n\nlines."""\n\nx = """a\nb"""  # three\n\n\ndef f():\n    """Doc."""\n    return (\n        1\n    )\n'
    path = types.SimpleNamespace(read_text=lambda: text)
    assert code_lines(path) == 6


def names_a_kind(node):
    values = getattr(node, "elts", [node])
    return any(isinstance(value, ast.Constant) and value.value in KINDS for value in values) or (
        isinstance(node, ast.Subscript) and names_a_kind(node.slice)
    )


def test_code_asks_what_follows_from_a_kind():
    """Names of kinds of graphs are compared only where two kinds do different work; all else is in `names.KINDS`."""
    found = []
    for path in PACKAGE:
        if wing(path) not in ("layertime", "xla"):
            for node in ast.walk(ast.parse(path.read_text())):
                sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
                text = ast.unparse(node)
                if any(map(names_a_kind, sides)) and re.search(r"\b_?kind(_named)?\b", text):
                    found.append(f"{name(path)}:{node.lineno}: {text}")
    assert len(found) <= 12, "\n".join(found)


def test_imports_inside_functions_are_for_speed_alone():
    """Only the commands, which start fast, import the package's modules late: elsewhere it would hide a circle."""
    late = [
        f"{name(path)}:{line}: {', '.join(names)}"
        for path in PACKAGE
        if wing(path) != "cli"
        for names, line, inside in own_imports(path)
        if inside and names
    ]
    assert not late, "\n".join(late)
