"""Does the suite notice small faults? Mutations of the sources, one at a time, each against the tests that concern it.

    python tests/mutate.py --seed 0 --count 60 --out docs/results/mutations.md

Half of the mutations are in C, half in Python: a constant plus one, another comparison or operator, a statement left
out, a condition turned round. They are drawn by the seed from the tracked sources and applied in a copy of the
tree (`--folder`), where only the changed file is compiled again. A mutation is killed if a test fails, hangs or
cannot start, and survives if all tests that concern its file pass. Which tests these are follows from `TESTS` below, the
names of the files, and the public names that tests mention. C that does not compile, and Python that stays
the same code, is drawn again. About a minute each on two cores. The folder keeps what was killed, so that the same
command continues a run that was ended, and tries survivors again. `--list` shows the mutations and their tests alone.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import fnmatch
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks import machine  # noqa: E402

MOST = 10  # files of tests per mutation
HANGS = 300  # seconds of one test
BUILDS = 120  # seconds of the processor for one file of C, and for the stubs
LIMIT = 420  # seconds of the processor for these; of the clock, which others slow down, four times as many
LEFT_OUT = ("csrc/fuzz/*", "tpugraphs/xla/zoo/*")

# Pattern of sources -> tests that concern it, beyond those with the same name. The first that matches counts.
TESTS = {
    "csrc/base/attr*": "loss_table contract prepare recipes",
    "csrc/base/json*": "safetensors own_files clib_score",
    "csrc/base/utf8*": "safetensors hlo",
    "csrc/base/[ac]*": "checks workspace threads live",
    "csrc/base/*": "threads workspace sampling ops training",
    "csrc/features/*": "hlo prepare preprocess data",
    "csrc/kernels/*digits*": "ops clib_score packs",
    "csrc/kernels/gemm*": "precision ops",
    "csrc/kernels/listwise*": "losses loss_table lists",
    "csrc/kernels/*": "ops vmath precision reference_ops op_ranges tokens",
    "csrc/graph/*": "preprocess_graphs preprocess prepare",
    "csrc/configs/*": "sampling data packs preprocess tile",
    "csrc/io/blake2b*": "clib_score integrity",
    "csrc/io/pack*": "packs corrupt mutated_files",
    "csrc/io/*": "data corrupt mutated_files integrity safetensors packs",
    "csrc/hlo/*": "hlo mutated_files",
    "csrc/ops/*": "ops op_ranges op_flags operator_rows contract tokens parts segments",
    "csrc/rank/*": "losses loss_table lists metrics row_spaces",
    "csrc/optim/*": "optim",
    "csrc/trees/*": "trees joint clib_score",
    "csrc/model/*": "model model_errors plan workspace contract segments out parts",
    "csrc/prepare/*": "prepare preprocess graph_config refits extra clib_score",
    "csrc/score/*": "clib_score clib",
    "csrc/store/*": "training segments scoring sampling resume live",
    "csrc/py/py_graph*": "model contract hostile_arguments",
    "csrc/py/py_rank*": "metrics losses loss_table hostile_arguments",
    "csrc/py/*": "bad_input hostile_arguments model training prepare data packs trees contract optim",
    "tpugraphs/cli/layertime/*": "layertime_cli",
    "tpugraphs/cli/*": "cli cli_train completion",
    "tpugraphs/data/pack*": "packs corrupt mutated_files hlo",
    "tpugraphs/data/*": "data schema frames",
    "tpugraphs/download/*": "download transfer",
    "tpugraphs/evaluation/*": "evaluation official plot",
    "tpugraphs/kernels/*": "ops losses optim",
    "tpugraphs/layertime/measuring.py": "layertime_measure",
    "tpugraphs/layertime/frameworks.py": "layertime_measure",
    "tpugraphs/layertime/networks/*": "layertime_networks",
    "tpugraphs/layertime/*": "layertime layertime_calibration layertime_range layertime_shipped layertime_mlpredict",
    "tpugraphs/network/*": "scoring published_weights weights training",
    "tpugraphs/preprocess/*": "preprocess preprocess_graphs prepare refits weights",
    "tpugraphs/ranker/*": "ranker sklearn ensemble",
    "tpugraphs/recipes/*": "recipes own_model graph_config published solutions docs",
    "tpugraphs/submission/*": "submission competition",
    "tpugraphs/system/*": "texts tables progress saves",
    "tpugraphs/torch/*": "torch_bridge torch_loss torch_pyg",
    "tpugraphs/training/*": "training resume seeds",
    "tpugraphs/xla/*": "xla relayout work zoo",
    "tpugraphs/metrics.py": "metrics",
    "tpugraphs/*": "names package messages",
}

# Mutations that change nothing, by file and line after: why no test can notice them.
SAME = {
    ("csrc/py/py_ops.c", "return -2;"): "every caller asks whether it is below 0",
    (
        "csrc/kernels/columns.inc",
        "TG_ASSERT(count > 1 && count <= 4);",
    ): "an assertion, which only builds with checks have",
    (
        "csrc/model/run.c",
        "for (int i = 0; TG_REDZONE > 1 && i < bind->plan->n_buffers; i++)",
    ): "0 in all builds but those with checks, there far above 1",
    (
        "csrc/ops/add.c",
        "for (int i = 0; i <= e->n_in; i++) repeated |= e->in[i].space != e->out.space;",
    ): "an input that is not there is empty: at most the other of two ways to the same bits is taken",
    (
        "csrc/kernels/gemm_bf16.inc",
        "const int block = gemm_rows(bf16_words(k)), depth = bf16_words(k), slice = BF16_SLICE + BF16_PER_WORD;",
    ): "columns that are converted at a time: fewer give the same products up to rounding, and more slowly",
}

# What may stand in place of an operator.
SWAPS = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "//": ("*",), "%": ("*",), "&&": ("||",), "||": ("&&",),
    "and": ("or",), "or": ("and",), "is": ("is not",), "is not": ("is",), "in": ("not in",), "not in": ("in",),
    "+=": ("-=",), "-=": ("+=",), "*=": ("+=",), "&": ("|",), "|": ("&",), "<<": (">>",), ">>": ("<<",),
}  # fmt: skip
COMPARED = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
COMPUTED = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One change of one file: `old`, which stands at an offset, becomes `new`."""

    path: str
    at: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        assert text[self.at :].startswith(self.old)
        return text[: self.at] + self.new + text[self.at + len(self.old) :]

    def place(self, text: str) -> str:
        return f"{self.path}:{text.count(chr(10), 0, self.at) + 1}"

    def shown(self, text: str) -> str:
        """The line before and after, with what is changed marked; of a statement its first line."""
        start, end = text.rfind("\n", 0, self.at) + 1, text.find("\n", self.at)
        return f"`{text[start:end].strip()}` → `{self.after(text)}`".replace("|", "\\|")

    def after(self, text: str) -> str:
        """The line, or the first of a statement, as it becomes."""
        start, end = text.rfind("\n", 0, self.at) + 1, text.find("\n", self.at)
        line, column = text[start:end], self.at - start
        return (line[:column] + self.new + line[column + len(self.old.split("\n")[0]) :]).strip()


# ---- mutations of C ----------------------------------------------------------------------------------------

NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.M)
NUMBER = re.compile(r"(?<![\w.\"])(?:\d+\.\d*f?|\d+)(?![\w.])")
BINARY = re.compile(r"(?<= )(?:<=|>=|==|!=|&&|\|\||<<|>>|\+=|-=|\*=|[-+*/%<>&|])(?= )")
STATEMENT = re.compile(r"(?<=[;{}:\0]\n)[ ]{4,}(?:[\w.\->\[\]*()+ ]+? [-+*/|&]?= |\w+\()[^;{}]*;(?=\n)")
CONDITION = re.compile(r"\b(?:if|while) \((?=[^()]*(?:\([^()]*\)[^()]*)*\))")
DECLARED = re.compile(
    r"\s*(?:const |static |return\b|case\b|(?:unsigned |struct )?\w+ \**\w+ = |\w+ \**\w+\[)"
)


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\0", match.group())


def of_c(path: str, text: str) -> Iterator[Mutation]:
    bare = DIRECTIVE.sub(blank, NOT_CODE.sub(blank, text))
    for found in NUMBER.finditer(bare):
        number = found.group().rstrip("f")
        more = str(int(number) + 1) if number.isdigit() else f"({found.group()} + 1)"
        yield Mutation(path, found.start(), found.group(), more)
    for found in BINARY.finditer(bare):
        if found.group() == "*" and re.search(
            r"(?:^|[(,;{]\s*|const |struct )\w+ $", bare[: found.start()][-80:]
        ):
            continue  # a pointer
        for new in SWAPS[found.group()]:
            yield Mutation(path, found.start(), found.group(), new)
    for found in STATEMENT.finditer(bare):
        if not DECLARED.match(found.group()) and "fetch" not in found.group():  # which only saves time
            indent = len(found.group()) - len(found.group().lstrip())
            whole = text[found.start() + indent : found.end()]
            yield Mutation(path, found.start() + indent, whole, ";")
    for found in CONDITION.finditer(bare):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(bare[end], 0)
            end += 1
        condition = text[found.end() : end - 1]
        yield Mutation(path, found.end(), condition, f"!({condition})")


# ---- mutations of Python -----------------------------------------------------------------------------------


def of_python(path: str, text: str) -> Iterator[Mutation]:
    tree = ast.parse(text)
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    ascii_only = text.isascii()

    def offset(line: int, column: int) -> int:
        if ascii_only:
            return lines[line - 1] + column
        raw = text[lines[line - 1] : lines[line]].encode()
        return lines[line - 1] + len(raw[:column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, right: ast.expr, sign: str) -> Iterator[Mutation]:
        """The operator between two operands."""
        start, end = span(left)[1], span(right)[0]
        found = re.search(rf"(?<![\w*/<>=]){re.escape(sign)}(?![\w*/<>=])", text[start:end])
        if found and "#" not in text[start:end]:
            for new in SWAPS[sign]:
                yield Mutation(path, start + found.start(), sign, new)

    def visit(node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
                return
            case ast.Constant(value=bool() as value):
                yield Mutation(path, span(node)[0], str(value), str(not value))
            case ast.Constant(value=int() | float()):
                start, end = span(node)
                if text[start:end].replace(".", "", 1).isdigit():
                    yield Mutation(path, start, text[start:end], f"{node.value + 1}")
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARED:
                yield from between(left, right, COMPARED[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED:
                yield from between(left, right, COMPUTED[type(op)])
            case ast.BoolOp(op=op, values=[left, right]):
                yield from between(left, right, "and" if isinstance(op, ast.And) else "or")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                start, end = span(node)[0], span(operand)[0]
                yield Mutation(path, start, text[start:end], "")
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                start, end = span(test)
                yield Mutation(path, start, text[start:end], f"(not ({text[start:end]}))")
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise(exc=ast.expr()) | ast.Assert():
                start, end = span(node)
                yield Mutation(path, start, text[start:end], "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                start, end = span(node)
                yield Mutation(path, start, text[start:end], "pass")
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from visit(child)

    yield from visit(tree)


# ---- which mutations, and which tests ----------------------------------------------------------------------


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def drawn(seed: int, only: list[str]) -> Iterator[Mutation]:
    """Mutations in the order of the seed, by turns in C and in Python; every place of a language is as likely."""
    rng = random.Random(seed)
    languages = []
    for make, patterns in ((of_c, ("csrc/*.c", "csrc/*.inc", "csrc/*.h")), (of_python, ("tpugraphs/*.py",))):
        names = [
            name
            for name in tracked(*patterns)
            if not any(fnmatch.fnmatch(name, left) for left in LEFT_OUT)
            and (not only or any(fnmatch.fnmatch(name, pattern) for pattern in only))
        ]
        found = [one for name in names for one in make(name, (ROOT / name).read_text())]
        rng.shuffle(found)
        languages.append(found)
    for i in range(max(map(len, languages))):
        yield from (found[i] for found in languages if i < len(found))


def concerned(name: str) -> list[str]:
    """Files of tests for a source: of the same name, those that `TESTS` lists, those that mention its names most."""
    tests = {path.name: path for path in sorted((ROOT / "tests").glob("test_*.py"))}
    stem = re.sub(r"^(?:step_|py_|isa_)", "", Path(name).stem)
    found = [f"test_{stem}.py"]
    pattern = next(pattern for pattern in TESTS if fnmatch.fnmatch(name, pattern))
    found += [f"test_{word}.py" for word in TESTS[pattern].split()]
    if name.endswith(".py"):
        words = re.findall(r"^(?:def|class) (?!_)(\w{4,})", (ROOT / name).read_text(), re.M)
        asked = re.compile(rf"\b(?:{'|'.join(words)})\b") if words else None
        counts = {test: len(asked.findall(path.read_text())) for test, path in tests.items()} if asked else {}
        most = sorted(counts, key=lambda test: -counts[test])
        found[1:1] = [test for test in most[:4] if counts[test] > 1]
    return [test for test in dict.fromkeys(found) if test in tests][:MOST]


# ---- the run -----------------------------------------------------------------------------------------------


class Copy:
    """A copy of the tracked tree in which one file at a time is mutated."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in tracked():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_file() or target.read_bytes() != (ROOT / name).read_bytes():
                shutil.copyfile(ROOT / name, target)
        error = self.build()
        if error != "":
            sys.exit(f"the copy does not build:\n{error}")

    def build(self) -> str | None:
        """Compile what has changed; the compiler's errors, "", or None: stubs cannot be made of the core that it made."""
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (BUILDS, BUILDS)),
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=4 * LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
        if process.returncode == 0:
            return ""
        return said[-2000:] if re.search(r": (?:fatal )?error: ", said) else None

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def test(self, tests: list[str], seconds: int, *options: str) -> tuple[int | None, str]:
        """Exit code of pytest (None: it took too long) and its output."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            *options,
        ]
        command += [f"tests/{test}" for test in tests]
        process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=4 * seconds)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:  # it hangs, or this program was interrupted
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return None if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else process.returncode, said


class Found:
    """What earlier runs killed, a line each: mutations of texts that have not changed since."""

    def __init__(self, path: Path) -> None:
        self.path, self.results = path, {}
        for line in path.read_text().splitlines() if path.exists() else ():
            key, result = json.loads(line)
            self.results[key] = result

    def key(self, one: Mutation, text: str) -> str:
        return hashlib.sha256(f"{one.path}\0{one.apply(text)}".encode()).hexdigest()

    def of(self, one: Mutation, text: str) -> str | None:
        return self.results.get(self.key(one, text))

    def add(self, one: Mutation, text: str, result: str) -> None:
        with open(self.path, "a") as file:
            print(json.dumps([self.key(one, text), result]), file=file)


def verdict(code: int | None, said: str) -> str:
    """What became of a mutation."""
    if code == 0:
        return "**survived**"
    if code is None or "Timeout (" in said:
        return "killed: hangs"
    failed = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", said, re.M)
    return f"killed by `{failed[1].split('[')[0]}`" if failed else f"killed: pytest ends with {code}"


def table(rows: list[tuple[str, str, str]], seed: int) -> str:
    """The result as a page."""
    killed = [row for row in rows if "survived" not in row[2]]
    languages = {"C": "csrc/", "Python": "tpugraphs/"}
    shares = []
    for language, folder in languages.items():
        mine = [row for row in rows if row[0].startswith(folder)]
        shares.append(f"{language} {sum(row in killed for row in mine)} of {len(mine)}")
    lines = [
        "# Mutations",
        "",
        "A mutation is a small fault put into the sources: a constant plus one, another comparison, a statement left",
        "out. This page shows which of them the tests noticed. A killed mutation made a test fail or hang; one that",
        "survived did not. *Equivalent* ones change nothing that a test could notice, for the reason given.",
        "",
        f"Made by `python tests/mutate.py --seed {seed} --count {len(rows)} --out docs/results/mutations.md`, "
        f"{time.strftime('%Y-%m-%d')}, {machine._cpu_name()}, commit {machine._commit()}.",
        "",
        f"**{len(killed)} of {len(rows)} killed ({100 * len(killed) / len(rows):.0f} %)**: {', '.join(shares)}.",
        "",
        "| place | mutation | result |",
        "| --- | --- | --- |",
        *(f"| {place} | {shown} | {result} |" for place, shown, result in rows),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60, help="mutations")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="'csrc/ops/*': these sources"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutated", help="where the copy is")
    parser.add_argument("--out", type=Path, help="also write the table to this page")
    parser.add_argument("--list", action="store_true", help="show mutations and their tests; run nothing")
    parser.add_argument("--no-baseline", action="store_true", help="the tests are known to pass unmutated")
    options = parser.parse_args()
    unknown = {word for words in TESTS.values() for word in words.split()} - {
        path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.py")
    }
    if unknown:
        sys.exit(f"TESTS: no such files of tests: {', '.join(sorted(unknown))}")
    chosen = drawn(options.seed, options.only)
    if options.list:
        for one, _ in zip(chosen, range(options.count), strict=False):
            text = (ROOT / one.path).read_text()
            print(one.place(text), one.shown(text), " ".join(concerned(one.path)), sep="\n    ")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # and end what was started
    copy, rows = Copy(options.folder.resolve()), []
    found = Found(copy.folder / "found.jsonl")
    passing: set[str] = set()
    for one in chosen:
        if len(rows) == options.count:
            break
        text, tests = (ROOT / one.path).read_text(), concerned(one.path)
        if why := SAME.get((one.path, one.after(text))):
            rows.append((one.place(text), one.shown(text), f"survived, equivalent: {why}"))
            continue
        if result := found.of(one, text):
            rows.append((one.place(text), one.shown(text), result))
            continue
        new = [test for test in tests if test not in passing]
        if new and not options.no_baseline:
            code, said = copy.test(new, 4 * LIMIT)
            if code not in (0, 5):
                sys.exit(f"tests fail without any mutation, so they cannot judge one:\n{said[-3000:]}")
            passing.update(new)
        began = time.monotonic()
        copy.write(one.path, one.apply(text))
        try:
            errors = copy.build() if one.path.startswith("csrc/") else ""
            if errors:
                continue  # not C
            tested = (
                copy.test(tests, LIMIT, "-n", "0", "-o", f"faulthandler_timeout={HANGS}")
                if errors == ""
                else None
            )
            result = verdict(*tested) if tested else "killed: cannot be imported"
        finally:
            copy.write(one.path, text)
            if one.path.startswith("csrc/"):
                copy.build()
        rows.append((one.place(text), one.shown(text), result))
        if result.startswith("killed"):
            found.add(one, text, result)
        print(f"{len(rows)}: {' '.join(rows[-1])} ({time.monotonic() - began:.0f} s)", flush=True)
    page = table(rows, options.seed)
    print(f"\n{page}")
    if options.out:
        options.out.write_text(page)


if __name__ == "__main__":
    main()
