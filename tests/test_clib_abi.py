"""The binary interface of the C library only grows: symbols, enumerators and fields are where tests/clib/abi.txt says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEADER = (ROOT / "include" / "tpugraphs.h").read_text()
CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
RECORDED = ROOT / "tests" / "clib" / "abi.txt"


def structs():
    """{name: [field, ...]} of the structs whose fields are public."""
    found = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", CODE, re.S)
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


def interface(folder):
    """Lines about everything that a compiled caller relies on."""
    lines = [" ".join(found.split()) for found in re.findall(r"^TG_API ([^;]*);", CODE, re.M)]
    prints = []
    for name, fields in structs().items():
        prints.append(f'printf("struct {name} alignment %zu\\n", _Alignof({name}));')
        for field in fields:
            what = f"offsetof({name}, {field}), sizeof ((({name} *)0)->{field})"
            prints.append(f'printf("field {name}.{field} at %zu, %zu bytes\\n", {what});')
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", CODE, re.S):
        for name in re.findall(r"\bTG_\w+", body):
            prints.append(f'printf("value {name} %d\\n", (int){name});')
    source = folder / "abi.c"
    source.write_text(
        "#include <stdio.h>\n#include <tpugraphs.h>\nint main(void) {\n"
        + "\n".join(prints)
        + "\nreturn 0;\n}\n"
    )
    subprocess.run(["gcc", "-std=c11", f"-I{ROOT}/include", source, "-o", folder / "abi"], check=True)
    return (
        lines
        + subprocess.run([folder / "abi"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    )


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_nothing_has_moved(tmp_path):
    """A line that is gone or differs breaks callers; one that is new belongs into the list, at its end."""
    recorded = RECORDED.read_text().splitlines()
    found = interface(tmp_path)
    assert len(found) > 70
    gone = [line for line in recorded if line not in found]
    assert not gone, "callers that were compiled before would break"
    assert [line for line in found if line not in recorded] == []


def test_structs_begin_with_their_size():
    found = {name: fields for name, fields in structs().items() if not name.startswith("tg_embedded_")}
    assert len(found) >= 5
    assert {fields[0] for fields in found.values()} == {"size"}


def test_the_statuses_are_those_of_the_core():
    """csrc/base/status.h has the same list, with other comments."""
    core = re.sub(r"/\*.*?\*/", "", (ROOT / "csrc" / "base" / "status.h").read_text(), flags=re.S)
    lists = [
        re.findall(r"\bTG_\w+", re.search(r"enum tg_status \{(.*?)\}", text, re.S)[1])
        for text in (CODE, core)
    ]
    assert lists[0] == lists[1] and lists[0][-1] == "TG_E_BUSY"
