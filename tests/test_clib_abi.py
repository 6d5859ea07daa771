"""The binary interface of the C library only grows: functions, enumerators and fields are where tests/clib/abi.h has them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEADER = ROOT / "include" / "tpugraphs.h"
RECORDED = ROOT / "tests" / "clib" / "abi.h"


def code(header):
    return re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)


def functions(header):
    return [" ".join(found.split()) for found in re.findall(r"^TG_API ([^;]*);", code(header), re.M)]


def structs(header):
    """{name: [field, ...]} of the structs whose fields are public."""
    found = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", code(header), re.S)
    fields = {}
    for name, body in found:
        fields[name] = [
            re.sub(r"[*\s]|\[.*\]", "", re.search(r"\(\*(\w+)\)|([\w*\s]+?(\[\w+\])?)$", one)[0].split()[-1])
            if "(*" not in one
            else re.search(r"\(\*(\w+)\)", one)[1]
            for part in body.split(";")
            if part.strip()
            for one in (part.split(",") if "(" not in part else [part])
        ]
    return fields


def compiled(header, made, *options, main=""):
    """A C file that begins with the header."""
    made.with_suffix(".c").write_text(f'#include "{header}"\n{main}')
    subprocess.run(["gcc", "-std=c11", *options, made.with_suffix(".c"), "-o", made], check=True)
    return made


def interface(header, folder):
    """Lines about everything that a compiled caller relies on."""
    prints = []
    for name, fields in structs(header).items():
        prints.append(f'printf("struct {name} alignment %zu\\n", _Alignof({name}));')
        for field in fields:
            what = f"offsetof({name}, {field}), sizeof ((({name} *)0)->{field})"
            prints.append(f'printf("field {name}.{field} at %zu, %zu bytes\\n", {what});')
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", code(header), re.S):
        for name in re.findall(r"\bTG_\w+", body):
            prints.append(f'printf("value {name} %d\\n", (int){name});')
    main = "#include <stdio.h>\nint main(void) {\n" + "\n".join(prints) + "\nreturn 0;\n}\n"
    told = subprocess.run(
        [compiled(header, folder / "told", main=main)], capture_output=True, text=True, check=True
    )
    return functions(header) + told.stdout.split("\n")[:-1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_nothing_has_moved(tmp_path):
    """A line that is gone or differs breaks callers; one that is new belongs into the record, at its end."""
    recorded, found = interface(RECORDED, tmp_path), interface(HEADER, tmp_path)
    assert len(found) > 70
    gone = [line for line in recorded if line not in found]
    assert not gone, "callers that were compiled before would break"
    assert [line for line in found if line not in recorded] == []


def library(header, made):
    """With the interface of a header: functions that do nothing."""
    main = "\n".join(f"{one} {{ for (;;) {{}} }}" for one in functions(header))
    return compiled(header, made, "-g", "-fPIC", "-shared", main=main)


@pytest.mark.skipif(shutil.which("abidiff") is None, reason="needs abidiff (Debian: abigail-tools)")
def test_a_judge_of_its_own_finds_no_change_that_breaks(tmp_path):
    def judged(header):
        command = [
            "abidiff",
            "--no-added-syms",
            library(RECORDED, tmp_path / "then.so"),
            library(header, tmp_path / "now.so"),
        ]
        return subprocess.run(command, capture_output=True, text=True)

    assert judged(HEADER).returncode == 0
    broken = tmp_path / "broken.h"
    broken.write_text(HEADER.read_text().replace("double margin", "float margin"))
    assert judged(broken).returncode & 4


def test_structs_begin_with_their_size():
    found = {name: fields for name, fields in structs(HEADER).items() if not name.startswith("tg_embedded_")}
    assert len(found) >= 5
    assert {fields[0] for fields in found.values()} == {"size"}


def test_the_statuses_are_those_of_the_core():
    """csrc/base/status.h has the same list, with other comments."""
    core = re.sub(r"/\*.*?\*/", "", (ROOT / "csrc" / "base" / "status.h").read_text(), flags=re.S)
    lists = [
        re.findall(r"\bTG_\w+", re.search(r"enum tg_status \{(.*?)\}", text, re.S)[1])
        for text in (code(HEADER), core)
    ]
    assert lists[0] == lists[1] and lists[0][-1] == "TG_E_BUSY"
