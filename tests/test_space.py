"""Spaces of configurations: expressions as Python has them, uniform draws, counts, neighbours, files."""

import ast
import copy
import gc
import gzip
import itertools
import json
import pickle
import random
import weakref
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.errors import ConfigError, DataError, ShapeError
from tpugraphs.system import write_whole

Space = tg.Space
DATA = Path(__file__).parents[2] / "shared" / "data" / "measured"


def cut(space, budget):
    """The core of the same space, with at most so many nodes in a tree."""
    kind, arguments = space.core.__reduce__()
    return kind(*arguments[:3], budget)


def rows(configs):
    return {tuple(config.values()) for config in configs}


def brute(parameters, holds):
    """Configs that a Python function takes, listed one by one."""
    names = list(parameters)
    return [
        config
        for values in itertools.product(*parameters.values())
        if holds(**(config := dict(zip(names, values, strict=True))))
    ]


# ---- expressions ----

KINDS = {"a": 7, "b": -3, "c": 0, "x": 2.5, "y": -0.75, "s": "nchw", "t": "tile", "f": True, "g": False}


class Writer:
    """Random expressions: whole and real numbers, texts and truths where they can stand."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def number(self, depth):
        pick = self.draw.random() if depth else 0
        if pick < 0.3:
            literals = ["0", "1", "2", "3", "10", "0x1F", "0b101", "0o17", "1_000", "2.5", ".5", "1e2", "3."]
            return self.draw.choice(["a", "b", "c", "x", "y", "f", "g", *literals])
        left, right = self.number(depth - 1), self.number(depth - 1)
        if pick < 0.7:
            return f"({left} {self.draw.choice(['+', '-', '*', '/', '//', '%'])} {right})"
        if pick < 0.76:
            return f"{self.draw.choice('+-')}{left}"
        if pick < 0.8:
            return f"({left}) ** {self.draw.choice(['0', '1', '2', '3', '-1', '0.5', 'f'])}"
        if pick < 0.86:
            return f"{self.draw.choice(['min', 'max'])}({left}, {right}, {self.number(0)})"
        if pick < 0.9:
            return f"abs({left})"
        if pick < 0.95:
            return f"({left} if {self.truth(depth - 1)} else {right})"
        return f"(a {self.draw.choice(['&', '|', '^', '<<', '>>'])} {self.draw.choice(['3', 'c', 'f', '1'])})"

    def text(self):
        return self.draw.choice(["s", "t", '"nchw"', "'til'", '"a b"', '"\\n"'])

    def truth(self, depth):
        pick = self.draw.random()
        signs = ["<", "<=", ">", ">=", "==", "!="]
        if depth <= 0 or pick < 0.35:
            chain = [self.number(1)]
            for _ in range(self.draw.choice([1, 1, 2, 3])):
                chain += [self.draw.choice(signs), self.number(1)]
            return " ".join(chain)
        if pick < 0.45:
            return f"{self.text()} {self.draw.choice(signs)} {self.text()}"
        if pick < 0.55:
            listed = ", ".join([self.number(1), self.text(), self.number(0)])
            return f"{self.draw.choice([self.number(1), self.text()])} {self.draw.choice(['in', 'not in'])} [{listed}]"
        if pick < 0.65:
            return f"not {self.truth(depth - 1)}"
        if pick < 0.9:
            return f"{self.truth(depth - 1)} {self.draw.choice(['and', 'or'])} {self.truth(depth - 1)}"
        return f"({self.truth(depth - 1)})"


def known(text):
    """Python's value; None where a part of the text is none that int64 and float64 hold."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and not isinstance(node, ast.List):
            try:
                value = eval(compile(ast.Expression(node), "", "eval"), {}, KINDS)
            except TypeError:  # of complex numbers
                return None
            except (ArithmeticError, NameError):
                continue
            if isinstance(value, complex) or (isinstance(value, (int, float)) and abs(value) > 2**53):
                return None
    try:
        return (eval(text, {}, KINDS),)
    except ArithmeticError:
        return ("undefined",)


def of(text):
    """The space of those values and a constraint."""
    return Space({name: [value] for name, value in KINDS.items()} | {"free": [True, False]}, [text])


def decides(text):
    """Whether a space with those values takes the expression as met."""
    return of(f"free or ({text})").size == 2


@pytest.mark.parametrize("seed", range(8))
def test_expressions_have_pythons_values(seed):
    writer, compared, undefined = Writer(seed), 0, 0
    for _ in range(400):
        text = writer.number(4) if writer.draw.random() < 0.5 else writer.truth(3)
        value = known(text)
        if value is None:
            continue
        if value == ("undefined",):
            assert not decides(text), text
            undefined += 1
            continue
        compared += 1
        assert decides(text) == bool(value[0]), text
        if isinstance(value[0], (bool, int, float)):
            assert decides(f"({text}) == {value[0]!r}"), (text, value[0])
            assert not decides(f"({text}) != {value[0]!r}"), (text, value[0])
    assert compared > 250 and undefined > 3


@pytest.mark.parametrize(
    "text",
    [
        "-2 ** 2 == -4", "2 ** 3 ** 2 == 512", "2 ** -1 == 0.5", "7 // -2 == -4", "-7 % 3 == 2", "7 % -3 == -2",
        "-7.5 // 2 == -4", "5.5 % -2 == -0.5", "1 < 2 < 3", "not 1 < 2 < 2", "1 if 0 else 2 if 0 else 3", "not not a",
        "True + True == 2", "1 == 1.0 == True", "'a' < 'ab' < 'b'", "1 != 'a'", "a in (7,)", "a in {1, 7}", "7 in [a]",
        "a not in [1, 2,]", "1 | 2 ^ 3 & 1 == 3", "1 << 2 + 1 == 8", "~a == -8", "min([3, a]) == 3", "max(1, 2.5) == 2.5",
        "9007199254740993 > 9007199254740992.0", "9223372036854775807 + 1 == 2.0 ** 63", "(a*b*c == 0 and a\n>\t1)",
        "c == 0 or 1 / c", "c and 1 / c or 1", "'it\\'s' == \"it's\"", "a if a > 5 and b < 0 or 1/c else c", "(1)in[1]",
        "10 ** 18 * 10 ** 18 > 10 ** 35", "(-9223372036854775807 - 1) // -1 > 0", "(-9223372036854775807 - 1) % -1 == 0",
        "abs(-9223372036854775807 - 1) > 0", "0 ** 0 == 1", "1 << 70 > 2 ** 69", "-1 >> 80 == -1", "0.1 + 0.2 != 0.3",
    ],
)  # fmt: skip
def test_corners_of_expressions(text):
    assert bool(eval(text, {}, KINDS)) is True and decides(text)


@pytest.mark.parametrize(
    "text",
    ["1 / c", "a % c", "1 // 0", "0 ** -1", "(-8) ** 0.5", "1 << -1", "10.0 ** 400", "1 if 1 / c else 1"],
)
def test_what_python_refuses_is_not_met(text):
    assert not decides(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["character 1"]), ("a +", ["character 4", "the end"]), ("a b", ["character 3", "'b'"]),
        ("nothing > 1", ["character 1", "'nothing'", "min", "free"]), ("a = 1", ["character 3", "'='"]),
        ("__import__('os').system('true')", ["'__import__'"]), ("a.__class__", ["'.'"]), ("abs(1, 2)", ["abs"]),
        ("min(1)", ["min"]), ("max()", ["')'"]), ("(a", ["')'"]), ("a)", ["')'"]), ("lambda: 1", ["'lambda'"]),
        ("[a]", ["'['"]), ("a in 3", ["'3'", "list"]), ("a in (7)", ["list"]), ("a in []", ["list"]), ("a in [7] == 1", ["'in'"]),
        ("'open", ["quotation"]), ("'\\x41' == 'A'", ["escapes"]), ("012 == a", ["'012'"]), ("1__0", ["number"]), ("1e", ["number"]),
        ("1e999 > a", ["number"]), ("0x", ["number"]), ("3j", ["'3j'"]), ("a := 1", ["':'"]), ("a if b", ["'else'"]), ("min", ["'('"]),
        ("pow(a, 2)", ["'pow'"]), ("a(1)", ["only min, max and abs"]), ("not", ["the end"]), ("é > 1", ["'é'"]), ("f'{a}'", ["'''"]),
        ("a; b", ["';'"]), ("a @ b", ["'@'"]), ("a is b", ["'is'"]), ("a <> b", ["'>'"]), ("*a", ["'*'"]), ("a\x00", ["?"]),
        ("s + 1", ["'+'", "a text"]), ("-s", ["'-'", "a text"]), ("s < a", ["'<'", "a text and a whole number"]), ("a[0]", ["permutation"]),
        ("min(s, 1)", ["min"]), ("x & 1", ["'&'", "a number"]), ("~x", ["'~'"]),
    ],
)  # fmt: skip
def test_expressions_that_are_refused(text, names):
    refuses(lambda: of(text), ConfigError, "constraint", *names)


def test_hostile_expressions_end():
    for text in (
        "(" * 10**6,
        "not " * 3000 + "a",
        "-" * 9000 + "1",
        "2**" * 3000 + "1",
        "[" * 9000,
        "min(" * 3000,
    ):
        refuses(lambda text=text: of(text), ConfigError, "at")
    refuses(lambda: of("a" * 10**6), ConfigError, "16384 bytes", "1000000")
    refuses(lambda: decides("a in [" + "1," * 4000 + "]"), ConfigError, "1,024")
    refuses(lambda: decides("a if 1 else " * 100 + "1"), ConfigError, "64")
    assert decides("+".join(["a"] * 4000) + "== 28000")
    assert decides("a in [" + "1," * 1000 + "7]")
    assert decides("(" * 60 + "a" + ")" * 60)
    assert decides(" and ".join(["a < 8"] * 1500))


def test_elements_of_permutations():
    space = Space({"order": Space.permutation(4), "n": range(4)}, ["order[0] < order[1]", "order[-1] == n"])
    found = rows(space.configs(space.core.all(1000)))
    assert found == {(p, p[3]) for p in itertools.permutations(range(4)) if p[0] < p[1]}
    refuses(lambda: Space({"p": Space.permutation(3)}, ["p[5] == 1"]), ConfigError, "p[5] == 1")  # never met


# ---- which configs are feasible ----

SMALL = {
    "a": list(range(1, 7)),
    "b": [1, 2, 4, 8],
    "c": [0.5, 1.5, 2.5],
    "d": ["x", "y", "z"],
    "e": [False, True],
    "g": [3, 1, 2],
}
RULES = ["a * b <= 12", "c < a and b >= c", "d != 'z' or not e", "a % 2 == 0 or d == 'x'"]


def small(**config):
    return all(eval(rule, {}, config) for rule in RULES)


def calls():
    """The same constraints as functions."""
    return [
        lambda a, b: a * b <= 12,
        lambda b, a, c: c < a and b >= c,
        lambda config: config["d"] != "z" or not config["e"],
        lambda a, d: a % 2 == 0 or d == "x",
    ]


@pytest.mark.parametrize(
    "rules", [RULES, calls(), [RULES[0], calls()[1], *RULES[2:]]], ids=["text", "calls", "both"]
)
@pytest.mark.parametrize("budget", [2**20, 40, 5, 0])
def test_counts_and_membership_as_one_by_one(rules, budget):
    expected = brute(SMALL, small)
    core = cut(Space(SMALL, rules), budget)
    whole = all(whole for _, _, whole in core.groups)
    assert core.size == (len(expected) if whole else None) and whole == (budget > 1000)
    every = np.array(list(itertools.product(*(range(n) for n in core.sizes))), np.int32)
    assert rows(core.configs(every[core.feasible(every)])) == rows(expected)
    drawn = core.sample(10**4, 1)  # all there are
    assert rows(core.configs(drawn)) == rows(expected) and len(drawn) == len(expected)
    size, error = core.estimate()
    assert abs(size - len(expected)) <= 4 * error and (error == 0) == whole
    if whole:
        assert core.all(len(expected) - 1) is None
        assert rows(core.configs(core.all(len(expected)))) == rows(expected)
    else:
        assert core.all(10**9) is None


def chi_square(counts, expected):
    return float((((counts - expected) ** 2) / expected).sum())


DEPENDENT = {
    "text": (SMALL, RULES),
    "two groups": ({"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3], "d": [1, 2]}, ["a < b", "c >= d"]),
    "uneven": ({"a": range(1, 6), "b": range(1, 13)}, ["b % a == 0"]),
    "permutation": ({"p": Space.permutation(4), "k": range(4)}, ["p[k] == k"]),
    "free": ({"a": range(5), "b": list("uvwx")}, []),
}


@pytest.mark.parametrize("budget", [2**20, 6, 0])
@pytest.mark.parametrize("which", list(DEPENDENT))
def test_draws_are_uniform_over_what_is_feasible(which, budget):
    space = Space(*DEPENDENT[which])
    every = {tuple(row): i for i, row in enumerate(space.core.all(10**5).tolist())}
    n, core, each = len(every), cut(space, budget), 60
    first, second = np.zeros(n), np.zeros(n)
    for seed in range(n * each):
        drawn = core.sample(2, seed)
        first[every[tuple(drawn[0].tolist())]] += 1
        second[every[tuple(drawn[1].tolist())]] += 1
    limit = n - 1 + 4 * (2 * (n - 1)) ** 0.5
    assert chi_square(first, each) < limit and chi_square(second, each) < limit
    counts = np.zeros(n)  # within one long sample, too: which come in its first half
    for seed in range(200):
        for row in core.sample(n // 2, seed + 10**6).tolist():
            counts[every[tuple(row)]] += 1
    share = (n // 2) / n
    assert chi_square(counts, 200 * share) / (1 - share) < limit


def test_pairs_of_draws_are_uniform():
    space = Space({"a": range(3), "b": range(3)}, ["a + b < 4"])
    every = {tuple(row): i for i, row in enumerate(space.core.all(100).tolist())}
    for core in (space.core, cut(space, 0)):
        pairs = np.zeros((8, 8))
        for seed in range(5600):
            i, j = (every[tuple(row)] for row in core.sample(2, seed).tolist())
            pairs[i, j] += 1
        assert not pairs.diagonal().any()
        assert chi_square(pairs[~np.eye(8, dtype=bool)], 100) < 55 + 4 * 110**0.5


@pytest.mark.parametrize("budget", [2**20, 5])
def test_the_same_seed_draws_the_same_and_shorter_samples_begin_longer_ones(budget):
    core = cut(Space(SMALL, RULES), budget)
    many = core.sample(50, 7)
    assert many.dtype == np.int32 and len(np.unique(many, axis=0)) == 50
    np.testing.assert_array_equal(core.sample(50, 7), many)
    np.testing.assert_array_equal(core.sample(11, 7), many[:11])
    assert not np.array_equal(core.sample(50, 8), many)
    assert core.sample(0, 7).shape == (0, 6)


def test_bits_do_not_depend_on_threads():
    space, before = Space(SMALL, RULES), tg.get_num_threads()
    try:
        drawn = [tg.set_num_threads(n) or space.core.sample(40, 3).tobytes() for n in (1, 2, 3)]
    finally:
        tg.set_num_threads(before)
    assert len(set(drawn)) == 1


def test_large_spaces_are_not_listed():
    rules = ["p0*p1 <= p2*p3", "p4 + p5 + p6 <= 15", "p3 < p9 + p7", lambda p10, p11: p10 != p11]
    space = Space({f"p{i}": range(1, 11) for i in range(12)}, rules)
    drawn = space.sample(500, seed=2)
    assert len(rows(drawn)) == 500 and all(config in space for config in drawn)
    assert all(c["p0"] * c["p1"] <= c["p2"] * c["p3"] and c["p10"] != c["p11"] for c in drawn)
    wide = Space(
        {
            "n": Space.integers(1, 10**6),
            "m": Space.integers(1, 10**6),
            "order": Space.permutation(8),
            "x": Space.number(1e-3, 1e3, log=True),
            "block": Space.powers(1, 1024),
        },
        ["n % block == 0", "n * m >= 10 ** 6"],
    )
    assert wide.size is None and len(rows(wide.sample(300, seed=0))) == 300
    size, error = wide.estimate()
    assert 0 < error < 0.02 * size
    tight = Space({"n": Space.integers(1, 10**6), "m": range(1, 21)}, ["n + m <= 500"])
    size, error = tight.estimate()
    assert tight.size is None and abs(size - sum(500 - m for m in range(1, 21))) < 4 * error < size
    free = Space({f"n{i}": Space.integers(1, 10**9) for i in range(10)})
    assert free.size == 10**90 and free.estimate()[1] == 0 and len(free.sample(3)) == 3
    refuses(lambda: len(wide), TypeError, "estimate")


def test_the_gemm_space_of_cltune_has_its_published_size():
    """17,956 of 82,944: Tørring et al., Towards a Benchmarking Suite for Kernel Tuners, arXiv 2303.08976."""
    sizes = {"MWG": [16, 32, 64, 128], "NWG": [16, 32, 64, 128], "MDIMC": [8, 16, 32], "NDIMC": [8, 16, 32]}
    sizes |= {"MDIMA": [8, 16, 32], "NDIMB": [8, 16, 32], "VWM": [1, 2, 4, 8], "VWN": [1, 2, 4, 8]}
    sizes |= {"SA": [0, 1], "SB": [0, 1], "KWG": [32], "KWI": [2]}
    rules = ["KWG % KWI == 0", "MWG % (MDIMC * VWM) == 0", "NWG % (NDIMC * VWN) == 0"]
    rules += ["MWG % (MDIMA * VWM) == 0", "NWG % (NDIMB * VWN) == 0"]
    rules += ["KWG % ((MDIMC * NDIMC) / MDIMA) == 0", "KWG % ((MDIMC * NDIMC) / NDIMB) == 0"]
    assert Space(sizes, rules).size == 17956


@pytest.mark.parametrize(("kernel", "count"), [("convolution", 4362), ("dedispersion", 11130)])
def test_published_spaces_have_the_configs_that_were_measured(kernel, count):
    definition = DATA / f"kernel_tuner_{kernel}_milo.json"
    if not definition.exists():
        pytest.skip(f"needs {definition.name} of the data folder")
    space = Space.read(definition)
    assert space.size == len(space) == count
    with gzip.open(DATA / f"kernel_tuner_{kernel}_A100_T4.json.gz") as file:
        measured = [row["configuration"] for row in json.load(file)["results"]]
    codes = space.codes(measured)  # all are in it
    assert len(np.unique(codes, axis=0)) == count
    np.testing.assert_array_equal(np.unique(space.core.all(count), axis=0), np.unique(codes, axis=0))
    table = Space.from_table(measured)
    assert table.size == count and all(config in space for config in table.sample(50, seed=1))
    assert space.default is None or space.default in space
    assert cut(space, 50).size is None
    np.testing.assert_array_equal(
        np.unique(cut(space, 50).sample(count, 0), axis=0), np.unique(codes, axis=0)
    )


# ---- neighbours ----


def test_neighbours_differ_in_one_parameter_and_are_feasible():
    space = Space(SMALL, RULES)
    expected = brute(SMALL, small)
    for config in expected[:: len(expected) // 20]:
        near = [c for c in expected if sum(c[k] != config[k] for k in c) == 1]
        assert rows(space.neighbours(config)) == rows(near)
        code = space.codes([config])[0]
        ordered = {name: sorted(values) for name, values in SMALL.items() if name not in "d"}
        adjacent = [
            c
            for c in near
            if c["d"] != config["d"]
            or all(abs(v.index(c[k]) - v.index(config[k])) <= 1 for k, v in ordered.items())
        ]
        assert rows(space.configs(space.core.neighbours(code, True))) == rows(adjacent)


def test_neighbours_in_long_ranges_and_of_permutations():
    space = Space({"n": Space.integers(1, 10**6), "p": Space.permutation(4)}, ["n != 501"])
    near = space.neighbours({"n": 500, "p": (2, 0, 3, 1)})
    numbers = sorted(c["n"] for c in near if c["n"] != 500)
    steps = [2**i for i in range(20)]
    assert numbers == sorted(
        {500 + i for i in steps[1:] if 500 + i <= 10**6} | {500 - i for i in steps if i < 500}
    )
    orders = {c["p"] for c in near if c["n"] == 500}
    assert len(orders) == 6
    assert all(sum(a != b for a, b in zip(p, (2, 0, 3, 1), strict=True)) == 2 for p in orders)


def test_where_one_parameter_cannot_change_alone_two_do():
    values = [1, 2, 4, 8, 16, 32, 64]
    space = Space({"a": values, "b": values, "c": values, "d": [1, 2]}, ["a * b * c == 64", "d == min(a, 2)"])
    every = space.configs(space.core.all(1000))
    for config in every:
        near = space.neighbours(config)
        assert near and rows(near) == {
            tuple(c.values()) for c in every if sum(c[k] != config[k] for k in c) == 2
        }


def test_rows_of_a_table_are_the_space():
    table = {"a": [1, 2, 2, 5, 1], "b": ["u", "u", "v", "w", "u"]}
    space = Space.from_table(table, default={"a": 5, "b": "w"})
    assert space.size == 4 and space.default == {"a": 5, "b": "w"}
    assert {"a": 1, "b": "v"} not in space and {"a": 2, "b": "v"} in space and {"a": 9, "b": "v"} not in space
    assert space.neighbours({"a": 1, "b": "u"}) == [{"a": 2, "b": "u"}]
    assert rows(space.neighbours({"a": 5, "b": "w"})) == {
        (1, "u"),
        (2, "u"),
        (2, "v"),
    }  # the nearest there are
    assert rows(space.sample(100, seed=3)) == {(1, "u"), (2, "u"), (2, "v"), (5, "w")}
    listed = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    assert np.array_equal(Space.from_table(listed).core.all(9), space.core.all(9))
    counts = np.zeros(4)
    for seed in range(4000):
        counts[int(np.flatnonzero((space.core.all(9) == space.core.sample(1, seed)).all(1))[0])] += 1
    assert chi_square(counts, 1000) < 3 + 4 * 6**0.5
    pandas = pytest.importorskip("pandas")
    assert Space.from_table(pandas.DataFrame(table)).names == ("a", "b")


# ---- codes, columns ----


def test_codes_and_configs_are_inverse():
    space = Space({**SMALL, "p": Space.permutation(5), "r": range(30, 3, -3), "w": Space.powers(4, 64)})
    codes = space.core.sample(200, 1)
    configs = space.configs(codes)
    np.testing.assert_array_equal(space.codes(configs), codes)
    orders = Space({"p": Space.permutation(5)}).core.all(120)
    assert Space({"p": Space.permutation(5)}).configs(orders) == [
        {"p": p} for p in itertools.permutations(range(5))
    ]
    assert [type(v) for v in configs[0].values()] == [int, int, float, str, bool, int, tuple, int, int]
    other = {
        **configs[0],
        "a": np.int64(configs[0]["a"]),
        "r": float(configs[0]["r"]),
        "p": list(configs[0]["p"]),
    }
    np.testing.assert_array_equal(space.codes([other])[0], codes[0])


def test_configs_that_are_not_in_the_space():
    space = Space(SMALL, RULES)
    good = space.sample(1)[0]
    bad = [
        {**good, "a": 99},
        {k: v for k, v in good.items() if k != "b"},
        {**good, "new": 1},
        {**good, "d": ["x"]},
    ]
    bad.append({**good, "a": 6, "b": 8})
    codes = space.codes([good, *bad], strict=False)
    assert (
        (codes[0] >= 0).all()
        and (codes[1:] == -1).all()
        and good in space
        and not any(c in space for c in bad)
    )
    for config, names in zip(bad, (["'a'", "99"], ["'b'"], ["'new'"], ["'d'"], ["a * b <= 12"]), strict=True):
        refuses(lambda config=config: space.codes([good, config]), ConfigError, "config 1", *names)
    assert "x" not in space and space.codes([]).shape == (0, 6)
    refuses(lambda: Space.from_table([{"a": 1}, {"a": 2}]).codes([{"a": 3}]), ConfigError, "'a'", "3")
    refuses(lambda: space.configs(np.full((1, 6), 77, np.int32)), ConfigError, "77", "'a'")
    refuses(lambda: space.configs(np.zeros((1, 6))), ShapeError, "codes", "int32")
    refuses(lambda: space.core.neighbours(np.full(6, -1, np.int32)), ConfigError, "-1")


def test_columns_for_surrogates():
    space = Space(
        {
            "block": [16, 32, 64],
            "n": [1, 2, 3],
            "x": Space.number(1, 8, log=True, steps=4),
            "y": Space.number(1, 100),
            "kind": ["u", "v", "w"],
            "on": Space.flag(),
            "p": Space.permutation(3),
            "one": ["only"],
        }
    )
    assert space.core.column_names == (
        *("block", "n", "x", "y", "kind = u", "kind = v", "kind = w", "on"),
        *("place of 0 in p", "place of 1 in p", "place of 2 in p", "one"),
    )
    config = {"block": 32, "n": 3, "x": space.configs(space.core.sample(1, 0))[0]["x"], "y": 1.0, "kind": "v"}
    config |= {"on": True, "p": (2, 0, 1), "one": "only"}
    row = space.core.columns(space.codes([config]))
    assert row.dtype == np.float64 and row.shape == (1, 12)
    x = np.log(config["x"]) / np.log(8)
    assert row[0].tolist()[1:] == pytest.approx([1, x, 0, 0, 1, 0, 1, 0.5, 1, 0, 0])
    assert row[0, 0] == pytest.approx(0.5)
    numbers = Space({"n": [1, 7, 2]})  # half by place, half by size
    assert numbers.core.columns(np.array([[2]], np.int32))[0, 0] == pytest.approx((1 / 2 + 1 / 6) / 2)


# ---- refusals ----


@pytest.mark.parametrize(
    ("parameters", "constraints", "names"),
    [
        ({}, [], ["parameters"]), ({"a": []}, [], ["'a'"]), ({"a": [1, True]}, [], ["'a'", "True"]), ({"a": [1, 1.0]}, [], ["'a'", "1.0"]),
        ({"a": "text"}, [], ["'a'", "str"]), ({"a": 3}, [], ["'a'", "int"]), ({"a": [None]}, [], ["'a'", "None"]), ({"a": [[1]]}, [], ["'a'"]),
        ({"a": [float("nan")]}, [], ["'a'", "nan"]), ({"a": [2**70]}, [], ["'a'"]), ({"": [1]}, [], ["name"]), ({"a": range(0)}, [], ["'a'"]),
        ({"a": range(2**40)}, [], ["'a'"]), ({"a": range(2**70, 2**70 + 5)}, [], ["'a'"]), ({"a": [1]}, [3], ["constraints", "int"]),
        ({"a": [1]}, "a", ["constraints"]), ({"a": [1]}, [lambda: 1], ["lambda"]),
        ({"a": [1]}, [lambda a, b: a], ["lambda", "b"]), ({"a": [1]}, [lambda *a: a], ["lambda"]), ({"a": [1]}, [lambda **a: a], ["lambda"]), ({"a": [1]}, [print], ["print"]), ({"a": [1]}, [lambda x=1, a=2: a], ["lambda"]), ({"a": [1]}, ["1 > 2"], ["1 > 2"]),
        ({"a": [1, 2], "b": [1, 2]}, ["a > b", "b > a"], ["'a > b'", "'b > a'"]),
        ({"a": [1, 2], "b": [5]}, ["b < 3"], ["'b < 3'", "1"]), ({"a": [1, 2]}, [lambda a: a > 5], ["lambda", "2"]),
    ],
)  # fmt: skip
def test_spaces_that_cannot_be(parameters, constraints, names):
    refuses(lambda: Space(parameters, constraints), ConfigError, *names)


def test_nothing_feasible_names_what_left_nothing():
    parameters = {"a": range(10), "b": range(10), "c": range(10)}
    rules = ["a + b > 3", "a * b > 100", "c < 5"]
    refuses(lambda: Space(parameters, rules), ConfigError, "'a * b > 100' forbids", "'a + b > 3' forbids 10")
    wide = Space({"a": Space.integers(1, 10**9), "b": Space.integers(1, 10**9)}, ["a * b == 7919"])
    refuses(lambda: wide.sample(1), ConfigError, "'a'", "in a row")  # not proved to be empty


def test_arguments_of_values():
    refuses(lambda: Space.powers(3, 8), ConfigError, "low", "3")
    refuses(lambda: Space.powers(2, 7), ConfigError, "high", "7")
    refuses(lambda: Space.integers(3, 1), ConfigError, "high", "1")
    refuses(lambda: Space.integers(1, 3, 0), ConfigError, "step")
    refuses(lambda: Space.number(0, 1, log=True), ConfigError, "low")
    refuses(lambda: Space.number(1, 1), ConfigError, "high")
    refuses(lambda: Space.permutation(13), ConfigError, "elements", "13")
    refuses(lambda: Space({"a": [1]}).sample(-1), ConfigError, "n")
    refuses(lambda: Space({"a": [1]}).sample(1, seed=-1), ConfigError, "seed")
    refuses(lambda: Space({"a": [1]}, default={"a": 2}), ConfigError, "'a'", "2")
    for table in ([], {}, {"a": []}, {"a": [1], "b": [1, 2]}, [{"a": 1}, {"b": 1}], {"a": [[1]]}, [3], 3):
        refuses(lambda table=table: Space.from_table(table), ConfigError, "a")


def test_what_a_function_raises_comes_out():
    def breaks(a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Space({"a": [1, 2]}, [breaks])
    assert Space({"a": [0, 1, 2]}, [lambda a: 1 / a]).size == 2  # as in expressions: not met
    late = Space({"a": [1, 2]}, [lambda a, stop=[False]: True if not stop[0] else 1 / 0])
    assert late.size == 2


def test_spaces_are_copied_and_freed():
    space = Space(SMALL, RULES, default=brute(SMALL, small)[3])
    for other in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert other.default == space.default
        np.testing.assert_array_equal(other.core.sample(20, 5), space.core.sample(20, 5))

    class Holder:
        def rule(self, a):
            return a < 2

    holder = Holder()
    holder.space = Space({"a": [1, 2]}, [holder.rule])
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_a_space_is_shown():
    assert "a, b; size 6" in repr(Space({"a": range(3), "b": [1, 2]}))
    assert "about" in repr(Space({"n": Space.integers(1, 10**6), "m": Space.integers(1, 10**6)}, ["n < m"]))


# ---- files ----

TOML = """
constraints = ["block * unroll <= 128", "order[0] == 1"]
[parameters]
block = [16, 32, 64]
unroll = {powers = [1, 16]}
n = {integers = [1, 100], step = 3}
x = {number = [0.1, 10], log = true, steps = 5}
fast = {flag = true}
order = {permutation = 3}
[default]
block = 16
unroll = 8
n = 4
x = 1.0
fast = true
order = [1, 0, 2]
"""


def test_spaces_in_files(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(TOML)
    space = Space.read(path)
    assert (
        space.size
        == (4 + 3 + 2 + 1 + 0 - 0 + 0) * 0
        + sum(b * u <= 128 for b in (16, 32, 64) for u in (1, 2, 4, 8, 16)) * 34 * 5 * 2 * 2
    )
    assert space.default in space
    tuner = tmp_path / "kernel.json"
    tuner.write_text(json.dumps({"tune_params": {"a": [1, 2, 3]}, "restrictions": ["a < 3"]}))
    assert Space.read(tuner).size == 2
    same = tmp_path / "space.json"
    same.write_text(json.dumps({"parameters": {"a": {"integers": [1, 5]}}, "constraints": ["a != 3"]}))
    assert rows(Space.read(same).sample(9)) == {(1,), (2,), (4,), (5,)}


@pytest.mark.parametrize(
    ("name", "text", "error", "names"),
    [
        ("a.toml", "parameters = 3", DataError, ["parameters"]), ("a.toml", "x = [", DataError, ["TOML"]), ("a.json", "{", DataError, ["JSON"]),
        ("a.json", "[]", DataError, ["parameters"]), ("a.toml", "[parameters]\na = {power = 3}", DataError, ["'a'", "powers"]),
        ("a.toml", "[parameters]\na = {powers = [1, 2, 3]}", DataError, ["'a'"]), ("a.toml", "[parameters]\na = {powers = [1, 3]}", ConfigError, ["high"]),
        ("a.toml", "constraints = ['a > 3']\n[parameters]\na = [1]", ConfigError, ["a > 3"]), ("a.toml", "[parameters]\na = [1]\n[default]\na = 2", ConfigError, ["'a'"]),
        ("a.json", '{"ConfigurationSpace": {}}', DataError, ["TuningParameters"]),
        ("a.json", '{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Values": "__import__(\'os\')"}]}}', DataError, ["Values of a", "__import__"]),
        ("a.json", '{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Values": "' + "[" * 500 + '"}]}}', DataError, ["Values of a"]),
        ("a.json", '{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Values": "3"}]}}', ConfigError, ["'a'"]),
    ],
)  # fmt: skip
def test_files_that_are_no_spaces(tmp_path, name, text, error, names):
    write_whole(str(tmp_path / name), text)
    refuses(lambda: Space.read(tmp_path / name), error, name, *names)
