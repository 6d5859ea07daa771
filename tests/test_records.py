"""Records: nothing of a journal is lost, whoever is killed; other tuners' files are read as they mean it."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import math
import os
import random
import resource
import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest
from conftest import DATA
from refusals import refuses

import tpugraphs as tg
from tpugraphs import records
from tpugraphs.records import Journal, Record
from tpugraphs.system import journal as lines

ODD = {
    "int": 16, "text of a number": "16", "float": 16.0, "small": 5e-324, "bool": True, "text of a bool": "True",
    "zero": -0.0, "order": (2, 0, 1), "nested": ((1, 2), (None, "a")), "none": None, "null": "null", "empty": "",
    "comma": 'a,"b"\nc', "space": " 7", "wörd": "ü\r\n", "nan": "NaN", "inf": "Infinity", "huge": "1e999",
    "long": 2**63 - 1, "object": '{"a": 1}', "list": "[1, 2]", "zeros": "007", "tuple of one": (1,), "none in": (),
}  # fmt: skip
FULL = Record(
    ODD, (1.5, 1.25, 1 / 3), "correct", "a problem", "GPU 1", {"python": "3.11", "processor": "x"},
    "2026-11-24T17:00:00Z", 12.5, 3,
)  # fmt: skip
SOME = [
    FULL,
    Record({"x": 1}, (2.0,)),
    Record({"x": 2}, status="timeout", compile=0.1),
    Record({"x": 3, "y": "a"}, (1.0, 2.0), status="correctness", round=0),
    *(Record({"x": 4}, status=status) for status in records.STATUSES[1:]),
]


def types(value):
    """A value with the types in it, since 1 == 1.0 == True in Python."""
    return (type(value), tuple(map(types, value)) if isinstance(value, tuple) else repr(value))


def numbered(writer, number):
    return Record({"writer": writer, "number": number}, (1.0 + number,), problem="p" * (number % 50))


# ---- a record


def test_a_record_holds_values_of_python():
    given = {"a": np.int8(3), "b": np.float32(0.5), "c": np.bool_(True), "d": [1, [2]], "e": np.array([1, 2])}
    record = Record({**given, "f": np.str_("x")}, np.array([1, 2.5]))
    assert {n: types(v) for n, v in record.config.items()} == {
        n: types(v) for n, v in {"a": 3, "b": 0.5, "c": True, "d": (1, (2,)), "e": (1, 2), "f": "x"}.items()
    }
    assert record.runtimes == (1.0, 2.5) and type(record.runtimes[0]) is float and record.runtime == 1.75
    given["a"] = 4
    assert record.config["a"] == 3
    assert math.isnan(Record({}, (1.0,), "timeout").runtime)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.status = "compile"


def test_the_identity_of_a_record_is_all_of_its_content():
    changed = [
        {"config": {**ODD, "int": 17}}, {"config": {**ODD, "int": 16.0}}, {"config": {**ODD, "bool": 1}},
        {"runtimes": (1.5, 1.25)}, {"status": "runtime"}, {"problem": ""}, {"device": "GPU 2"},
        {"environment": {}}, {"time": ""}, {"compile": None}, {"round": 0},
    ]  # fmt: skip
    found = {dataclasses.replace(FULL, **one).digest for one in changed} | {FULL.digest}
    assert len(found) == len(changed) + 1
    assert Record(dict(reversed(ODD.items())), *dataclasses.astuple(FULL)[1:]).digest == FULL.digest
    assert Record.of(json.loads(json.dumps(FULL.to_dict()))) == FULL


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"config": [1]}, ["config"]),
        ({"config": {1: 2}}, ["config"]),
        ({"config": {"a": math.nan}}, ["config.a", "finite", "nan"]),
        ({"config": {"a": np.float32("inf")}}, ["config.a", "inf"]),
        ({"config": {"a": (1, math.inf)}}, ["config.a", "inf"]),
        ({"config": {"a": {}}}, ["config.a"]),
        ({"config": {"a": "\ud800"}}, ["config.a", "UTF-8"]),
        ({"config": {"\ud800": 1}}, ["config"]),
        ({"problem": "\ud800"}, ["problem"]),
        ({"environment": {"a": "\ud800"}}, ["environment"]),
        ({"config": {"a": 1j}}, ["config.a"]),
        ({"config": {"a": 10**5000}}, ["config.a", "64 bits"]),
        ({"config": {"a": ((((((1,),),),),),)}}, ["config.a"]),
        ({"runtimes": ()}, ["runtimes", "at least one"]),
        ({"runtimes": 1.0}, ["runtimes"]),
        ({"runtimes": (math.nan,)}, ["runtimes", "nan"]),
        ({"runtimes": (True,)}, ["runtimes"]),
        ({"runtimes": (10**400,)}, ["runtimes"]),
        ({"compile": 10**5000}, ["compile", "digits"]),
        ({"round": 2**63}, ["round"]),
        ({"runtimes": ("1",)}, ["runtimes"]),
        ({"status": "fine"}, ["status", "correctness", "fine"]),
        ({"status": []}, ["status"]),
        ({"problem": 1}, ["problem"]),
        ({"device": None}, ["device"]),
        ({"environment": {"a": 1}}, ["environment"]),
        ({"environment": None}, ["environment"]),
        ({"time": 5}, ["time"]),
        ({"compile": "1"}, ["compile"]),
        ({"compile": math.inf}, ["compile"]),
        ({"round": 1.5}, ["round"]),
        ({"round": True}, ["round"]),
    ],
)
def test_a_record_refuses(fields, names):
    refuses(lambda: Record(**{"config": {}, "runtimes": (1.0,), **fields}), tg.DataError, *names)


def test_the_environment_names_versions_and_no_machine():
    found = records.environment()
    assert found["tpugraphs"] == tg.__version__ and found["numpy"] == np.__version__
    assert found["python"].startswith("3.") and all(type(value) is str for value in found.values())
    assert not {os.uname().nodename, os.environ.get("USER", "?")} & set(found.values())
    Record({}, (1.0,), environment=found)


# ---- a journal


def test_a_journal_keeps_values_and_their_types(tmp_path):
    journal = Journal(tmp_path / "a.jsonl")
    assert journal.read() == []
    journal.append(SOME[0])
    journal.append(one for one in SOME[1:])
    journal.append([])
    found = journal.read()
    assert found == SOME and found == records.read(journal.path)
    assert [types(tuple(one.config.items())) for one in found] == [
        types(tuple(one.config.items())) for one in SOME
    ]
    text = (tmp_path / "a.jsonl").read_text()
    assert text.isascii() and len(text.splitlines()) == len(SOME)
    for line in text.splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_last_line_that_was_cut_off_is_lost_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    journal = Journal(path)
    journal.append(SOME[:2])
    whole = path.read_bytes()
    journal.append(SOME[2])
    last = path.read_bytes()[len(whole) :]
    for cut in range(len(last)):
        path.write_bytes(whole + last[:cut])
        assert journal.read() == SOME[:2], cut
        journal.append(SOME[3])
        assert journal.read() == [*SOME[:2], SOME[3]], cut
    for rest in (b"\0" * 100_000, b"x" * 200_000):  # longer than what is read back at a time
        path.write_bytes(whole + rest)
        journal.append(SOME[3])
        assert journal.read() == [*SOME[:2], SOME[3]]
    path.write_bytes(last[:-1])  # nothing but a line that was cut off
    assert journal.read() == [] == records.read(path)
    journal.append(SOME[3])
    assert journal.read() == [SOME[3]]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    journal = Journal(path)
    journal.append(SOME[1:4])
    first, second, third = path.read_bytes().splitlines(keepends=True)
    draw = random.Random(1)
    for at in range(len(second)):
        damaged = bytearray(second)
        damaged[at] = draw.choice([byte for byte in b'\n "x0,}\xff' if byte != damaged[at]])
        path.write_bytes(first + damaged + third)
        refuses(journal.read, tg.DataError, str(path), "line 2")
    for wrong, names in [
        (second[:-1] + third, ["line 2"]),
        (b"\n", ["line 2"]),
        (second.replace(b'"record":1', b'"record":2'), ["line 2", "version 1"]),
        (second.replace(b'"x":2', b'"x":7'), ["line 2", "digest"]),
        (b"[" * 100_000 + b"\n", ["line 2"]),
        (b"x" * (lines.MOST_LINE + 1), ["line 2", "MiB"]),
    ]:
        path.write_bytes(first + wrong + third)
        refuses(journal.read, tg.DataError, str(path), *names)
    assert refuses(journal.read, tg.DataError).field == "line 2"


def alone(script, *args, timeout=120):
    """Run a script in a process that has no threads, and return what it prints."""
    run = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


KILLED = """
import os, random, signal, sys, time
from tpugraphs.records import Journal, Record

def write(pipe, child):
    journal, number = Journal(sys.argv[1]), 0
    while True:
        journal.append([Record({"child": child, "number": number}, (1.0,), problem="p" * (number % 4000))])
        number += 1
        os.write(pipe, b".")

draw, torn, expected = random.Random(0), 0, []
for child in range(200):
    out, into = os.pipe()
    process = os.fork()
    if process == 0:
        write(into, child)
    os.close(into)
    os.read(out, 1)  # has begun
    time.sleep(draw.uniform(0, 0.004))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    said = 1
    while more := os.read(out, 65536):
        said += len(more)
    os.close(out)
    expected.append(said)
    if child % 4 == 0:  # as if the machine had stopped in the middle of a line
        torn += 1
        with open(sys.argv[1], "ab") as file:
            file.write(b'{"record":1,"digest":"' + b"0" * draw.randrange(60))
found = {}
for record in Journal(sys.argv[1]).read():
    numbers = found.setdefault(record.config["child"], [])
    assert record.config["number"] == len(numbers), record
    numbers.append(len(numbers))
assert list(found) == list(range(200))
late = [len(found[child]) - said for child, said in enumerate(expected)]
assert set(late) <= {0, 1}, late  # one may have been written and not reported
print(sum(expected), torn)
"""


def test_two_hundred_killed_writers_lose_nothing_that_they_had_written(tmp_path):
    written, torn = map(int, alone(KILLED, tmp_path / "a.jsonl").split())
    assert written >= 200 and torn == 50


APPENDING = """
import sys
from tpugraphs.records import Journal, Record
journal = Journal(sys.argv[1])
for number in range(int(sys.argv[3])):
    journal.append(Record({"writer": int(sys.argv[2]), "number": number}, (1.0,), problem="p" * (number % 50)))
"""


def writers(path, count, each):
    return [
        subprocess.Popen([sys.executable, "-c", APPENDING, path, str(i), str(each)]) for i in range(count)
    ]


def check_all_there(found, count, each):
    counts = Counter(one.config["writer"] for one in found)
    assert counts == dict.fromkeys(range(count), each)
    assert len({one.digest for one in found}) == count * each


def test_processes_append_at_once_and_lose_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    running = writers(path, 4, 250)
    assert [process.wait(120) for process in running] == [0] * 4
    found = Journal(path).read()
    check_all_there(found, 4, 250)
    for writer in range(4):
        mine = [one.config["number"] for one in found if one.config["writer"] == writer]
        assert mine == sorted(mine)


def test_a_journal_without_a_line_has_no_records(tmp_path):
    path = tmp_path / "new.jsonl"
    path.touch()
    assert records.read(path) == [] and Journal(path).read() == []


def test_merging_a_journal_in_use_loses_nothing(tmp_path):
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    Journal(other).append(Record({"writer": 9, "number": 0}, (1.0,)))
    running = writers(path, 2, 300)
    merges = 0
    while any(process.poll() is None for process in running):
        if path.exists():
            records.merge(path, [other])
            merges += 1
    assert [process.wait() for process in running] == [0] * 2 and merges > 3
    check_all_there([one for one in Journal(path).read() if one.config["writer"] != 9], 2, 300)


FULL_DISK = """
import os, resource, sys
from tpugraphs.records import Journal, Record
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
journal, written = Journal(sys.argv[1]), []
try:
    while True:
        record = Record({"number": len(written)}, (1.0,), problem="p" * 37)
        journal.append(record)
        written.append(record)
except OSError as error:
    assert error.filename == sys.argv[1], error
assert written and journal.read() == written
several = [Record({"number": -1}, (1.0,), problem="p" * 3000)] * 2
try:
    journal.append(several)
    raise SystemExit("it fits")
except OSError:
    pass
assert journal.read() == written
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(sys.argv[1]) + 5000, resource.RLIM_INFINITY))
try:
    journal.append(several)
    raise SystemExit("both fit")
except OSError:
    pass
assert journal.read() == written, "one of two is there"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append(several)
assert journal.read() == written + several
print(len(written))
"""


def test_a_full_disk_is_an_error_and_nothing_is_lost(tmp_path):
    assert int(alone(FULL_DISK, tmp_path / "a.jsonl")) > 5
    if os.path.exists("/dev/full"):
        refuses(lambda: Journal("/dev/full").append(SOME[1]), OSError, "/dev/full", "No space left")


@pytest.mark.parametrize("count", [0, 5, None])
def test_ctrl_c_leaves_whole_lines(count, tmp_path, monkeypatch):
    """Those that are written stay, for another process may have read them; part of a line goes."""
    path, write = tmp_path / "a.jsonl", os.write

    def interrupted(handle, given):
        write(handle, given[:count])
        raise KeyboardInterrupt

    lines.append_lines(path, b"first\n")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "write", interrupted)
        lines.append_lines(path, b"second\nthird\n")
    assert path.read_bytes() == b"first\n" + (b"second\nthird\n" if count is None else b"")


def test_a_folder_that_is_missing_is_named(tmp_path):
    refuses(lambda: Journal(tmp_path / "no" / "a.jsonl").append(SOME[1]), FileNotFoundError, "no/a.jsonl")
    refuses(lambda: Journal(tmp_path).append(SOME[1]), IsADirectoryError, str(tmp_path))


def test_a_journal_keeps_the_files_that_are_open_to_a_minimum(tmp_path):
    """A handle for each append would end a long run."""
    before = len(os.listdir("/proc/self/fd"))
    journal = Journal(tmp_path / "a.jsonl")
    for number in range(50):
        journal.append(numbered(0, number))
    assert len(os.listdir("/proc/self/fd")) == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0


# ---- merge


def test_a_merge_does_not_depend_on_the_order_of_files(tmp_path):
    parts = [SOME[:3], SOME[1:5], [*SOME[4:], numbered(1, 1)]]
    names = [tmp_path / name for name in ("a.jsonl", "b.json", "c.csv")]
    for name, part in zip(names, parts, strict=True):
        records.write(name, part)
    first = records.merge(tmp_path / "one.jsonl", names)
    assert first == records.merge(tmp_path / "two.jsonl", names[::-1]) == records.read(tmp_path / "one.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert Counter(one.digest for one in first) == {one.digest: 1 for one in [*SOME, numbered(1, 1)]}
    assert records.merge(tmp_path / "one.jsonl", []) == first  # what is there stays
    assert [one.time for one in first] == sorted(one.time for one in first)
    (tmp_path / "bad.json").write_text("{")
    before = (tmp_path / "one.jsonl").read_bytes()
    refuses(lambda: records.merge(tmp_path / "one.jsonl", [tmp_path / "bad.json"]), tg.DataError, "bad.json")
    none = tmp_path / "none.jsonl"
    refuses(lambda: records.merge(tmp_path / "one.jsonl", [none]), FileNotFoundError, str(none))
    assert (tmp_path / "one.jsonl").read_bytes() == before


# ---- writing and reading


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.jsonl", "a.journal"])
def test_what_is_written_is_read(name, tmp_path):
    records.write(tmp_path / name, SOME)
    found = records.read(tmp_path / name)
    assert found == SOME and [one.digest for one in found] == [one.digest for one in SOME]
    assert [types(tuple(one.config.items())) for one in found] == [
        types(tuple(one.config.items())) for one in SOME
    ]
    (tmp_path / "packed").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert records.read(tmp_path / "packed") == SOME
    assert records.read([tmp_path / name, str(tmp_path / "packed")]) == SOME * 2


def test_records_are_written_as_drawn(tmp_path):
    """Many small configs, in every format."""
    draw = random.Random(7)

    def value(deep=0):
        kinds = [draw.randrange(-9, 9), draw.random() * 10 ** draw.randrange(-300, 300), draw.random() < 0.5]
        kinds += ["".join(draw.choices('0123456789.eE+-[]{}", \n\rantrufl', k=draw.randrange(4))), None]
        if deep < 2:
            kinds.append(tuple(value(deep + 1) for _ in range(draw.randrange(3))))
        return draw.choice(kinds)

    some = [
        Record({f"p{i}": value() for i in range(draw.randrange(1, 5))}, (draw.random(),), time=f"t{n}")
        for n in range(300)
    ]
    for name in ("a.json", "a.csv", "a.jsonl"):
        records.write(tmp_path / name, some)
        assert [one.digest for one in records.read(tmp_path / name)] == [one.digest for one in some], name


def test_t4_has_the_members_of_its_schema(tmp_path):
    records.write(tmp_path / "a.json", [FULL, SOME[2]])
    found = json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)
    assert found["schema_version"] == "1.0.0"
    first, second = found["results"]
    assert first["times"] == {"compilation_time": 12.5, "runtimes": [1.5, 1.25, 1 / 3]}
    assert (first["invalidity"], first["correctness"], first["objectives"]) == ("correct", 1, ["time"])
    assert first["measurements"] == [{"name": "time", "value": 1.25, "unit": ""}]
    assert (second["invalidity"], second["correctness"]) == ("timeout", 0)


def test_a_format_is_named_by_the_name_or_the_argument(tmp_path):
    records.write(tmp_path / "a.txt", SOME, format="csv")
    assert records.read(tmp_path / "a.txt") == SOME
    refuses(lambda: records.write(tmp_path / "b.txt", SOME), tg.ConfigError, "format", ".jsonl", "b.txt")
    refuses(lambda: records.write(tmp_path / "b.txt", SOME, "xml"), tg.ConfigError, "format", "t4", "xml")
    refuses(lambda: records.write(tmp_path / "b.csv", []), tg.ConfigError, "records")
    odd = [Record({"device": "x"}, (1.0,))]
    refuses(lambda: records.write(tmp_path / "b.csv", odd), tg.ConfigError, "device", "rename")
    assert not (tmp_path / "b.csv").exists()


def test_records_are_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = records.to_frame(SOME[1:4])
    assert isinstance(frame, pandas.DataFrame) and frame["x"].tolist() == [1, 2, 3]
    assert frame["runtime"].isna().tolist() == [False, True, True]
    ran = frame[frame["status"] == "correct"]
    (graph,) = tg.from_frame(ran, config="x", runtime="runtime", unit="ms")
    assert graph.runtime.tolist() == [2.0]


# ---- files of other tuners


CACHE = """{
"device_name": "GPU 1",
"kernel_name": "add",
"problem_size": [4, 8],
"tune_params_keys": ["x", "name"],
"tune_params": {"x": [1, 2], "name": ["a", "b{"]},
"objective": "time",
"cache": {
"1,a": {"x": 1, "name": "a", "time": 2.0, "times": [1.0, 3.0], "compile_time": 5, "timestamp": "2023"},
"1,b{": {"x": 1, "name": "b{", "time": "RuntimeFailedConfig", "compile_time": 5.0},
"2,a": {"x": 2, "name": "a", "time": "CompilationFailedConfig"},
"2,b{": {"x": 2, "name": "b{", "time": "InvalidConfig"},
"3,a": {"x": 3, "name": "a", "time": 1e20},
"3,b{": {"x": 3, "name": "b{", "__error__": "CompilationFailedConfig"},
"4,a": {"x": 4, "name": "a", "time": 7}}
}"""
ADD = {"problem": "add 4x8", "device": "GPU 1"}
OF_CACHE = [
    Record({"x": 1, "name": "a"}, (1.0, 3.0), **ADD, compile=5, time="2023"),
    Record({"x": 1, "name": "b{"}, (), "runtime", **ADD, compile=5.0),
    Record({"x": 2, "name": "a"}, (), "compile", **ADD),
    Record({"x": 2, "name": "b{"}, (), "constraints", **ADD),
    Record({"x": 3, "name": "a"}, (), "runtime", **ADD),
    Record({"x": 3, "name": "b{"}, (), "compile", **ADD),
    Record({"x": 4, "name": "a"}, (7.0,), **ADD),
]
T4 = json.dumps({
    "metadata": {"timeunit": "ms"}, "schema_version": "1.0.0",
    "results": [
        {"timestamp": "2023", "configuration": {"x": 1}, "invalidity": "correct", "correctness": 1,
         "times": {"compilation": 9.5, "runtimes": [1, 2.5]}},
        {"configuration": {"x": 2}, "invalidity": "correct", "correctness": 1, "objectives": ["GFLOP/s"],
         "times": {"compilation_time": 8, "runtimes": [4.0]}},
        {"configuration": {"x": 3}, "invalidity": "timeout", "correctness": 0, "times": {}},
    ],
})  # fmt: skip
OF_T4 = [
    Record({"x": 1}, (1.0, 2.5), time="2023", compile=9.5),
    Record({"x": 2}, (4.0,), compile=8),
    Record({"x": 3}, (), "timeout"),
]
TRITON = json.dumps({
    "key": ["1024", "torch.float16"],
    "configs_timings": [
        [{"kwargs": {"BLOCK": 64}, "num_warps": 4, "num_ctas": 1, "num_stages": 3, "maxnreg": None,
          "pre_hook": None, "ir_override": None}, [0.5, 0.4, 0.75]],
        [{"kwargs": {"BLOCK": 128}, "num_warps": 8, "num_ctas": 1, "num_stages": 3, "maxnreg": 64,
          "pre_hook": None}, [math.inf, math.inf, math.inf]],
        [{"kwargs": {}, "num_warps": 1}, 0.25],
    ],
})  # fmt: skip
KERNEL = {"problem": "mul: 1024, torch.float16"}
OF_TRITON = [
    Record({"BLOCK": 64, "num_warps": 4, "num_ctas": 1, "num_stages": 3}, (0.5,), **KERNEL),
    Record(
        {"BLOCK": 128, "num_warps": 8, "num_ctas": 1, "num_stages": 3, "maxnreg": 64}, (), "compile", **KERNEL
    ),
    Record({"num_warps": 1}, (0.25,), **KERNEL),
]
HELION = """run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config
r,0.50,1,0,started,,1.50,"Config(block_sizes=[16, 32], loop_orders=[[1, 0]], indexing='pointer', num_warps=4)"
r,1.00,1,0,ok,0.125000,1.50,"Config(block_sizes=[16, 32], loop_orders=[[1, 0]], indexing='pointer', num_warps=4)"
r,1.50,2,1,error,,,"helion.Config(block_sizes=[8], range_flattens=[None, True])"
r,2.00,3,1,timeout,,0.25,"{""block_sizes"": [8]}"
r,2.50,4,1,peer_compilation_fail,,,"Config()"
r,2.50,5,1,accuracy_error,0.5,,"Config(num_warps=-1)"
"""
OF_HELION = [
    Record({"block_sizes": (16, 32), "loop_orders": ((1, 0),), "indexing": "pointer", "num_warps": 4}, (0.125,),
           problem="r", compile=1500.0, round=0),
    Record({"block_sizes": (8,), "range_flattens": (None, True)}, (), "runtime", "r", round=1),
    Record({"block_sizes": (8,)}, (), "timeout", "r", compile=250.0, round=1),
    Record({}, (), "compile", "r", round=1),
    Record({"num_warps": -1}, (), "correctness", "r", round=1),
]  # fmt: skip
ARGS = '{"x":"bf16[384,64]","axis":-1}'
MEASURED = {
    '{"block_m":32,"block_n":null}': {
        "compile_time_ms": 5.5, "lower_time_ms": 7.0, "evaluation_times_ms": [3.0, 1.0, 2.0, 5.0, 4.0],
        "metadata": {}, "peak_memory_mb": 37.7,
    },
    "{}": {"compile_time_ms": 1, "evaluation_times_ms": [0.5]},
}  # fmt: skip
TOKAMAX = json.dumps({ARGS: MEASURED})
OF_TOKAMAX = [
    Record({"block_m": 32, "block_n": None}, (3.0, 1.0, 2.0, 5.0, 4.0), problem=ARGS, compile=5.5),
    Record({}, (0.5,), problem=ARGS, compile=1),
]
RESULT = json.dumps({"device_kind": "TPU v5", "data": [[{"op": "norm"}, MEASURED]]})
OF_RESULT = [dataclasses.replace(one, problem='{"op": "norm"}', device="TPU v5") for one in OF_TOKAMAX]
TABLE = "block,fast,layout,runtime,device,problem,time\n16,True,nchw,1.5,A,mm 1,7\n32,False,,nan,A,mm 1,8\n64,True,x,,B,5,9\n"
OF_TABLE = [
    Record({"block": 16, "fast": True, "layout": "nchw", "time": 7}, (1.5,), device="A", problem="mm 1"),
    Record({"block": 32, "fast": False, "time": 8}, (), "runtime", device="A", problem="mm 1"),
    Record({"block": 64, "fast": True, "layout": "x", "time": 9}, (), "runtime", device="B", problem="5"),
]
FILES = {
    "cache.json": (CACHE, OF_CACHE),
    "t4.json": (T4, OF_T4),
    "mul.autotune.json": (TRITON, OF_TRITON),
    "log.csv": (HELION, OF_HELION),
    "tokamax.json": (TOKAMAX, OF_TOKAMAX),
    "result.json": (RESULT, OF_RESULT),
    "table.csv": (TABLE, OF_TABLE),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_tuners(name, tmp_path):
    text, expected = FILES[name]
    path = tmp_path / name
    path.write_text(text)
    found = records.read(path)
    assert found == expected and [one.digest for one in found] == [one.digest for one in expected]
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert records.read(path) == expected
    path.write_bytes(gzip.compress(text.encode()))
    assert records.read(path) == expected
    if "autotune" not in name:  # Triton's names the kernel
        path = path.rename(tmp_path / "anything")
        assert records.read(path) == expected


def test_what_a_file_does_not_name_is_given(tmp_path):
    (tmp_path / "t4.json").write_text(T4)
    (tmp_path / "cache.json").write_text(CACHE)
    found = records.read([tmp_path / "t4.json", tmp_path / "cache.json"], problem="p", device="d")
    assert {(one.problem, one.device) for one in found[:3]} == {("p", "d")}
    assert {(one.problem, one.device) for one in found[3:]} == {("add 4x8", "GPU 1")}


def test_a_cache_that_was_cut_off_has_the_entries_before(tmp_path):
    path = tmp_path / "cache.json"
    ends = [i + 1 for i, one in enumerate(CACHE) if one == "}" and CACHE[i + 1 : i + 2] in (",", "}")]
    ends = [end for end in ends if end > CACHE.index('"1,a"')][: len(OF_CACHE)]
    assert len(ends) == len(OF_CACHE)
    begin = CACHE.index('"cache"') + len('"cache"')
    for cut in range(begin, len(CACHE)):
        path.write_text(CACHE[:cut])
        assert records.read(path) == OF_CACHE[: sum(end <= cut for end in ends)], CACHE[:cut][-40:]
    for cut in range(1, begin):
        path.write_text(CACHE[:cut])
        refuses(lambda: records.read(path), tg.DataError, str(path))


def spoilt(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


WRONG = [
    (spoilt(CACHE, '"GPU 1"', "5"), ["cache[1,a]", "device"]),
    (spoilt(CACHE, '"tune_params_keys": [', '"tune_params_keys": ["z", '), ["cache[1,a]", "z", "none"]),
    (spoilt(CACHE, '"tune_params_keys": ["x", "name"]', '"tune_params_keys": 5'), ["tune_params_keys", "list"]),
    (spoilt(CACHE, "RuntimeFailed", "Odd"), ["cache[1,b{]", "OddConfig", "CompilationFailedConfig"]),
    (spoilt(CACHE, "[1.0, 3.0]", '["x"]'), ["cache[1,a]", "runtimes", "x"]),
    (spoilt(CACHE, '"time": 7', '"time": NaN'), ["cache[4,a]", "runtimes", "nan"]),
    (spoilt(CACHE, '"time": 7', '"other": 7'), ["cache[4,a]", "runtimes", "None"]),
    (spoilt(CACHE, '"compile_time": 5,', '"compile_time": "x",'), ["cache[1,a]", "compile"]),
    (spoilt(CACHE, '{"x": 4, "name": "a", "time": 7}', "7"), ["cache[4,a]", "object"]),
    ('{"tune_params_keys": [], "cache": []}', ["cache", "object"]),
    (spoilt(T4, '"results": [', '"results": [7, '), ["results[0]", "object"]),
    (spoilt(T4, '"invalidity": "correct"', '"invalidity": "odd"'), ["results[0]", "status", "odd"]),
    (spoilt(T4, '"invalidity": "correct", ', ""), ["results[0]", "invalidity"]),
    (spoilt(T4, '"configuration": {"x": 1}', '"configuration": {"x": {}}'), ["results[0]", "config.x"]),
    (spoilt(T4, '"configuration": {"x": 1}', '"configuration": 1'), ["results[0]", "configuration", "object"]),
    (spoilt(T4, "[1, 2.5]", "[1, Infinity]"), ["results[0]", "runtimes", "inf"]),
    (spoilt(T4, "[1, 2.5]", "5"), ["results[0]", "runtimes", "5"]),
    (spoilt(T4, "[1, 2.5]", "[]"), ["results[0]", "runtimes", "at least one"]),
    (spoilt(T4, '"2023"', "2023"), ["results[0]", "time"]),
    ('{"results": 5}', ["results", "list"]),
    (spoilt(TRITON, '["1024", "torch.float16"]', "7"), ["key", "list"]),
    (spoilt(TRITON, '"kwargs": {"BLOCK": 64}', '"kwargs": 3'), ["configs_timings[0]", "kwargs"]),
    (spoilt(TRITON, "[0.5, 0.4, 0.75]", "[]"), ["configs_timings[0]", "runtimes"]),
    (spoilt(TRITON, "[0.5, 0.4, 0.75]", "[NaN]"), ["configs_timings[0]", "runtimes", "nan"]),
    (spoilt(TRITON, "0.25]", "0.25, 1]"), ["configs_timings[2]", "pair"]),
    ('{"key": [], "configs_timings": {}}', ["configs_timings", "list"]),
    (spoilt(HELION, "ok", "odd"), ["row 1", "status", "odd"]),
    (spoilt(HELION, "0.125000", ""), ["row 1", "runtimes"]),
    (spoilt(HELION, "0.125000", "nan"), ["row 1", "runtimes", "nan"]),
    (spoilt(HELION, "0.25", "soon"), ["row 3", "compile", "soon"]),
    (spoilt(HELION, ",1,0,ok", ",1,1.5,ok"), ["row 1", "round"]),
    (spoilt(HELION, "Config()", "Config(os.getcwd())"), ["row 4", "config", "getcwd"]),
    (spoilt(HELION, "Config()", "Config(a=os.getcwd())"), ["row 4", "config", "getcwd"]),
    (spoilt(HELION, "Config()", "Config(**{})"), ["row 4", "config"]),
    (spoilt(HELION, "Config()", "(" * 5000), ["row 4", "config"]),
    (spoilt(TOKAMAX, '{\\"block_m\\":32', "{block"), ["arguments 0", "config"]),
    (spoilt(TOKAMAX, "[3.0", '["3.0"'), ["arguments 0", "runtimes"]),
    (spoilt(TOKAMAX, '"evaluation_times_ms": [0.5]', '"evaluation_times_ms": []'), ["arguments 0", "runtimes"]),
    (spoilt(RESULT, '[[{"op"', '[7, [{"op"'), ["arguments 0", "pair"]),
    (spoilt(TABLE, "1.5", "fast"), ["row 0", "runtimes", "fast"]),
    (spoilt(TABLE, "runtime", "ms"), ["runtime", "ms", "rename"]),
    (spoilt(TABLE, "A,mm 1,7", "A,mm 1"), ["line 2", "7 fields"]),
    ("", ["line"]),
    ("\n", ["line"]),
    ("hello", ["line"]),
    ("[]", ["format", "T4", "list"]),
    ('{"a": 1}', ["format", "Kernel Tuner", "a"]),
    ('{"General": {}, "ConfigurationSpace": {}}', ["format", "Space.read"]),
    ("{", ["JSON"]),
    ('{"a":' * 100_000, ["JSON"]),
    ("[" * 5_000_000, ["JSON"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_wrong_is_named_by_file_and_place(number, tmp_path):
    text, names = WRONG[number]
    path = tmp_path / "file"
    path.write_text(text)
    error = refuses(lambda: records.read(path), tg.DataError, str(path), *names)
    assert str(error).count(str(path)) == 1


def test_files_are_not_trusted(tmp_path):
    path = tmp_path / "file"
    for raw, names in [
        (gzip.compress(bytes(1 << 20) * 300), ["MiB"]),
        (gzip.compress(CACHE.encode())[:-20], ["gzip"]),
        (b"\x1f\x8b", ["gzip"]),
        (b"PAR1 and nothing more", []),
        (b"\xff\xfe\x00", ["UTF-8"]),
    ]:
        path.write_bytes(raw)
        error = tg.ConfigError if raw[:4] == b"PAR1" and not has_parquet() else tg.DataError
        refuses(lambda: records.read(path), error, str(path), *names)


def has_parquet():
    try:
        import pandas
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return bool(pandas)


@pytest.mark.parametrize("name", FILES)
def test_no_damage_makes_another_error(name, tmp_path):
    """Readers of damaged files raise DataError, or read what is there."""
    text, path, draw = FILES[name][0].encode(), tmp_path / name, random.Random(3)
    refused = 0
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(damaged))
            change = draw.choice(
                [b"", b"[", b"]", b"{", b"}", b'"', b",", b":", b"0", b"null", b"-", b"\0", b"1e999"]
            )
            damaged[at : at + draw.randrange(3)] = change
        path.write_bytes(damaged)
        try:
            assert all(isinstance(one, Record) for one in records.read(path))
        except tg.DataError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 30


def test_columns_of_a_parquet_table(tmp_path, monkeypatch):
    """What pandas makes of one: NumPy's types, missing values of several kinds."""
    pandas = pytest.importorskip("pandas")
    columns = {
        "block": pandas.array([16, None], dtype="Int64"), "name": ["a", None], "fast": [True, False],
        "runtime": [1.5, math.nan],
    }  # fmt: skip
    monkeypatch.setattr(pandas, "read_parquet", lambda path: pandas.DataFrame(columns))
    (tmp_path / "table").write_bytes(b"PAR1")
    first, second = records.read(tmp_path / "table")
    assert first == Record({"block": 16, "name": "a", "fast": True}, (1.5,))
    assert second == Record({"fast": False}, (), "runtime")


def test_parquet_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="needs pyarrow, which reads parquet")
    table = pandas.DataFrame({"block": [16, 32], "name": ["a", "b"], "runtime": [1.5, math.nan]})
    table.to_parquet(tmp_path / "table")
    expected = [Record({"block": 16, "name": "a"}, (1.5,)), Record({"block": 32, "name": "b"}, (), "runtime")]
    assert records.read(tmp_path / "table") == expected


def test_a_table_is_what_the_csv_module_reads(tmp_path):
    records.write(tmp_path / "a.csv", SOME)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text(), newline="")))
    assert [row["x"] for row in rows][:4] == ["", "1", "2", "3"]
    assert [row["runtime"] for row in rows][:4] == ["1.25", "2.0", "", ""]


# ---- summaries


def test_a_summary_by_problem_and_device():
    some = [
        Record({"x": 1}, (2.0, 4.0), problem="p", device="a"),
        Record({"x": 2}, (1.0, 1.0), problem="p", device="a"),
        Record({"x": 2}, (3.0,), problem="p", device="a", round=1),
        Record({"x": 3}, (), "compile", problem="p", device="a"),
        Record({"x": 3}, (), "compile", problem="p", device="b"),
    ]
    first, second = records.summarize(some)
    spreads = [np.std([2, 4], ddof=1) / 3, np.std([1, 1, 3], ddof=1) / (5 / 3)]
    assert first.pop("spread") == pytest.approx(np.median(spreads))
    assert first == {
        "problem": "p", "device": "a", "records": 4, "configs": 3, "statuses": {"correct": 3, "compile": 1},
        "runtime": 1.0, "config": {"x": 2},
    }  # fmt: skip
    assert (second["runtime"], second["config"], second["spread"]) == (None, None, None)
    assert records.summarize(some, "maximize")[0]["config"] == {"x": 1}
    assert records.summarize([]) == []
    refuses(lambda: records.summarize(some, "best"), tg.ConfigError, "direction", "best")


# ---- real measurements


def measured(name):
    path = DATA / "measured" / f"kernel_tuner_{name}.json.gz"
    if not path.exists():
        pytest.skip(f"needs {path.name} in the data folder")
    return records.read(path)


def test_real_results_in_both_formats_of_kernel_tuner():
    """T1's cache and T4 hold the same 4,362 configs of a convolution on an A100."""
    old, new = measured("convolution_A100_T1"), measured("convolution_A100_T4")
    assert Counter(one.status for one in old) == {"correct": 4201, "runtime": 155, "compile": 6}
    assert {one.problem for one in old} == {"convolution_kernel 4096x4096"}
    assert {one.device for one in old} == {"NVIDIA A100-PCIE-40GB"}
    assert [dataclasses.replace(one, problem="", device="") for one in old] == new
    assert min(one.runtime for one in new if one.runtimes) == pytest.approx(0.5499, abs=1e-4)


def test_real_results_survive_every_format(tmp_path):
    found = measured("convolution_A6000_T4")
    assert Counter(one.status for one in found) == {"correct": 3889, "compile": 252, "runtime": 221}
    for name in ("a.json", "a.csv", "a.jsonl"):
        records.write(tmp_path / name, found)
        assert records.read(tmp_path / name) == found
    assert len(records.merge(tmp_path / "all.jsonl", [tmp_path / "a.json", tmp_path / "a.csv"])) == len(found)
