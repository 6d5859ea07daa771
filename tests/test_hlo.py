"""Graphs out of protocol buffers of HLO: equal to the extractor's, whatever the file looks like, or refused."""

import json
import linecache
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import hlo_files
import numpy as np
import pytest
from hlo_files import Writer, chain, content, number, tag, varint
from reference import hlo as reference
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core, cli
from tpugraphs.data import hlo, samples
from tpugraphs.preprocess.padding import padding_of
from tpugraphs.system.words import counted

GOLDEN = samples.data_folder()
STYLES = {
    "packed": {},
    "one by one": {"packed": False},
    "unknown fields": {"unknown": True},
    "any order": {"packed": False, "unknown": True, "rng": np.random.default_rng(5)},
}


def core(path, padding=0, extra=True, in_order=True):
    message, graphs = _core.hlo_read(str(path), padding, extra, in_order, 1 << 30)
    return message, graphs


def same(found, expected):
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def read(tmp_path, raw, **options):
    path = tmp_path / "x.pb"
    path.write_bytes(raw)
    return tg.load(path, **options)


# --- the extractor's results --------------------------------------------------------------------------------


def golden(place):
    files = sorted((GOLDEN / place).glob("*.pb"))
    return files or [
        pytest.param(None, marks=pytest.mark.skip(f"needs data of others: {place} in {samples.VARIABLE}"))
    ]


@pytest.mark.parametrize("path", [*golden("tpu_pb_golden"), *golden("xla_hlo_golden")])
def test_files_of_the_extractor_are_met_bit_for_bit(path):
    stem = path.name.removesuffix(".pb").removesuffix(".hlo")
    results = sorted(path.parent.glob(f"{stem}.*golden.npz"))
    _, graphs = core(path)
    raw, loaded = core(path, in_order=False)[1], tg.load(path)
    loaded = loaded if isinstance(loaded, list) else [loaded]
    assert len(results) == len(graphs) == len(loaded) > 0
    for result, graph, unsorted, g in zip(results, graphs, raw, loaded, strict=True):
        with np.load(result) as file:
            expected = dict(file)
        insertion_order = expected.pop("extra_edge_index_insertion_order")
        np.testing.assert_array_equal(unsorted["edge_index"], insertion_order)
        normalizers = expected.pop("extra_default_runtime", None)
        if normalizers is not None:
            np.testing.assert_array_equal(graph["config_runtime_normalizers"], normalizers)
        for name in ("instruction_ids", "computation_sizes"):
            np.testing.assert_array_equal(graph[name], expected.pop(f"extra_{name}"))
        splits = expected.pop("extra_node_splits", None)
        expected.setdefault("node_splits", splits)
        for name, array in expected.items():
            found = np.asarray(getattr(g, name))
            assert found.dtype == array.dtype and found.tobytes() == array.tobytes(), name
        g.validate()


# --- programs of our own ------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(12))
def test_programs_are_read_as_by_the_rules(tmp_path, seed, style):
    module, writer, path = hlo_files.program(seed), Writer(**STYLES[style]), tmp_path / "x.pb"
    for padding in (0, -1):
        expected = reference.graph(module, padding)
        order = expected.pop("insertion_order")
        for raw, kind in ((writer.module(module), "HloModuleProto"), (writer.hlo(module), "HloProto")):
            path.write_bytes(raw)
            message, [found] = core(path, padding)
            assert message == kind and found["name"] == module["name"]
            same(found, expected)
            assert found["runs"] == 0 and found["unusable"] is None
            np.testing.assert_array_equal(core(path, padding, in_order=False)[1][0]["edge_index"], order)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(6))
def test_measurements_are_read_as_by_the_rules(tmp_path, seed, style):
    writer, path = Writer(**STYLES[style]), tmp_path / "x.pb"
    tuned = hlo_files.layouts(seed)
    path.write_bytes(writer.tuned(tuned))
    message, [found] = core(path)
    assert message == "ModuleTuningData"
    same(found, reference.layouts(tuned))
    several = [hlo_files.tiles(seed), hlo_files.tiles(seed + 50)]
    path.write_bytes(writer.tuning(several))
    message, graphs = core(path)
    assert message == "TuningData"
    for graph, tuned in zip(graphs, several, strict=True):
        same(graph, reference.tiles(tuned))
    path.write_bytes(writer.tuned(several[0]))
    message, [found] = core(path)
    assert message == "ModuleTuningData"
    same(found, reference.tiles(several[0]))


BUFFERS = content(1, number(1, 3) + number(2, 64))  # of a BufferAssignmentProto
ASSIGNMENTS = {
    "buffers": BUFFERS * 2,
    "allocations": BUFFERS + content(3, number(2, 64)),
    "traces": BUFFERS + content(4, content(1, number(1, 1)) + number(2, 1)),
    "empty": b"",
}


@pytest.mark.parametrize("what", ASSIGNMENTS)
def test_a_buffer_assignment_is_not_a_run(tmp_path, what):
    path = tmp_path / "x.pb"
    path.write_bytes(content(1, Writer().module(chain())) + content(3, ASSIGNMENTS[what]))
    assert core(path)[0] == "HloProto"


@pytest.mark.parametrize("part", [number(2, 5), number(4, 1), content(4, b"\x01"), content(3, number(5, 1))])
def test_any_measurement_makes_a_module_a_measured_one(tmp_path, part):
    path = tmp_path / "x.pb"
    path.write_bytes(part + content(1, Writer().module(chain())))
    assert core(path)[0] == "ModuleTuningData"


def test_load_makes_graphs_of_the_published_kinds(tmp_path):
    tuned = hlo_files.layouts(3, rank=6)
    g = read(tmp_path, Writer().tuned(tuned))
    assert type(g) is tg.LayoutGraph and g.name == "x" and g.path == str(tmp_path / "x.pb")
    g.validate()
    again = tg.LayoutGraph(**g.fields())  # the constructor checks what the core has made
    assert again.num_configs == g.num_configs > 0
    assert not g.node_feat.flags.writeable and not g.config_digits.flags.writeable
    tiles = read(tmp_path, Writer().tuning([hlo_files.tiles(1), hlo_files.tiles(2)]))
    assert [g.name for g in tiles] == ["x.00.program.1", "x.01.program.2"]
    assert all(type(g) is tg.TileGraph and tg.TileGraph(**g.fields()).num_configs for g in tiles)
    g = read(tmp_path, Writer().module(chain()))
    assert type(g) is tg.LayoutGraph and (g.num_configs, g.num_config_nodes) == (0, 0)
    for graph in (again, tiles[0], g):
        graph.save(tmp_path / "y.npz")
        other = tg.load(tmp_path / "y.npz")
        np.testing.assert_array_equal(other.node_feat, graph.node_feat)


def test_padding_is_chosen_and_recorded(tmp_path):
    raw = Writer().module(hlo_files.program(1))
    graphs = {padding: read(tmp_path, raw, padding=padding) for padding in (0, -1)}
    assert {padding: padding_of(g) for padding, g in graphs.items()} == {0: 0, -1: -1}
    graphs[-1].save(tmp_path / "y.npz")
    assert padding_of(tg.load(tmp_path / "y.npz")) == -1
    refuses(lambda: read(tmp_path, raw, padding=1), tg.ConfigError, "padding", "got 1")
    refuses(lambda: tg.load(tmp_path / "y.npz", padding=-1), tg.ConfigError, "padding")


@pytest.mark.parametrize("seed", range(4))
def test_extra_columns_of_the_third_place_are_appended(tmp_path, seed):
    raw = Writer().tuned(hlo_files.layouts(seed, rank=6))
    g, plain = read(tmp_path, raw, extra=True), read(tmp_path, raw)
    expected = reference.graph(hlo_files.layouts(seed, rank=6)["module"])["extra"]
    np.testing.assert_array_equal(g.node_feat, np.concatenate([plain.node_feat, expected], 1))
    names = [column.name for column in g.schema.node]
    assert len(names) == len(set(names)) == 186 and names[:140] == [c.name for c in plain.schema.node]
    picked = {
        name: names.index(name) - 140 for name in names[140:] if "_0" not in name or name.endswith("_0")
    }
    assert picked["gather_slice_sizes_0"] == 3 and picked["has_dynamic_com"] == 8
    assert picked["lhs_batch_dimensions_0"] == 12 and picked["start_index_map_0"] == 27
    assert picked["operand_1_shape_dimension_0"] == 38 and names[-1] == "operand_1_shape_dimension_product"
    np.testing.assert_array_equal(g.config_digits, plain.config_digits)
    np.testing.assert_array_equal(g.runtime, plain.runtime)
    for ending in ("npz", "tgpack"):
        g.save(tmp_path / f"y.{ending}")
        again = tg.load(tmp_path / f"y.{ending}")
        assert again.schema == g.schema
        np.testing.assert_array_equal(again.node_feat, g.node_feat)


def test_extra_columns_of_kernels_and_of_programs_without_configs(tmp_path):
    [g] = read(tmp_path, Writer().tuning([hlo_files.tiles(1)]), extra=True)
    assert g.kind == "graph" and g.config_feat.shape[1] == 24 and g.node_feat.shape[1] == 186
    g = read(tmp_path, Writer().module(chain(("parameter", "tan"))), extra=True)
    assert (g.num_configs, g.num_config_nodes) == (0, 0) and g.node_opcode[1] == 120


def test_a_computation_that_is_called_twice_is_one_edge(tmp_path):
    module = chain()
    module["computations"].append(
        {
            "id": 9,
            "name": "b",
            "root": 1,
            "instructions": [{"id": 1, "opcode": "conditional", "calls": [0, 0]}],
        }
    )
    assert read(tmp_path, Writer().module(module)).edge_index.tolist() == [[1, 0], [2, 1]]


def test_the_order_of_computations_and_instructions_does_not_matter(tmp_path):
    module = chain(("parameter", "add", "fusion"))
    module["computations"][0]["instructions"][2]["calls"] = [9]
    module["computations"].append({**chain()["computations"][0], "id": 9})
    assert read(tmp_path, Writer().module(module)).edge_index.tolist() == [[1, 0], [2, 1], [2, 4], [4, 3]]
    module["computations"][0]["instructions"].reverse()
    assert read(tmp_path, Writer().module(module)).edge_index.tolist() == [[0, 1], [0, 4], [1, 2], [4, 3]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda t: [run.update(default=False) for run in t["runs"]],
            "none without error is marked as the default",
        ),
        (lambda t: t["runs"].__delitem__(slice(1, None)), "there is only one"),
        (lambda t: t["runs"][2].pop("tile"), "one has no tile sizes"),
        (
            lambda t: [run.update(error=True) for run in t["runs"]],
            "none of them has a config, a time and no error",
        ),
    ],
)
def test_runs_that_the_extractor_drops_are_dropped_with_a_warning(tmp_path, change, why):
    tuned = hlo_files.tiles(4)
    change(tuned)
    runs = len(tuned["runs"])
    lost = f"{counted(runs, 'run')} {'is' if runs == 1 else 'are'} left out"
    with pytest.warns(UserWarning, match=rf"x\.00\.program\.4: its {lost}: {why}") as caught:
        [g] = read(tmp_path, Writer().tuning([tuned]))
    where = caught[0].filename, caught[0].lineno  # of whoever called load
    assert where[0] == __file__ and "tg.load(" in linecache.getline(*where)
    assert g.num_configs == 0 and g.kind == "tile"


def test_names_are_names_of_files(tmp_path):
    raw = Writer().tuning([hlo_files.tiles(1)])
    assert read(tmp_path, raw.replace(b"program.1", b"../\x00a b\xff1"))[0].name == "x.00...__a_b_1"


def test_opcodes_are_numbered_as_published():
    names = _core.OPCODES.split()
    assert len(names) == _core.SCHEMA["opcodes"] == len(set(names))
    assert [names[i - 1] for i in (1, 26, 34, 75, 97, 101, 120)] == [
        *("abs", "convolution", "dot", "reshape", "trace", "tuple-select", "tan"),
    ]


# --- what is refused ----------------------------------------------------------------------------------------


def broken(change, make=chain):
    module = make()
    change(module["computations"])
    return Writer().module(module)


def three():
    return chain(("parameter", "add", "negate"))


def put(place, instruction, **fields):
    return lambda computations: computations[place]["instructions"][instruction].update(fields)


def calling(*calls):
    """Computations that call each other: pairs of ids."""
    module = {"name": "m", "computations": []}
    for place in range(3):
        module["computations"].append(chain(computation=10 + place)["computations"][0])
        called = [10 + to for source, to in calls if source == place]
        module["computations"][-1]["instructions"][0]["calls"] = called
    return Writer().module(module)


def tuned(change, make=hlo_files.layouts):
    t = make(3)
    change(t)
    return Writer().tuned(t)


def first_run(t):
    return next(run for run in t["runs"] if not run.get("error"))


WRONG = {
    "missing operand": (broken(put(0, 1, operands=[99])), "computation 0, instruction 1: expected operands that are in this computation, found operand id 99 in the instruction at byte"),
    "operand of another": (broken(lambda c: c.append({"id": 5, "name": "x", "root": 4, "instructions": [{"id": 4, "opcode": "add", "operands": [1]}]})), "computation 1, instruction 0: .*operand id 1"),
    "self edge": (broken(put(0, 1, operands=[2])), "computation 0, instruction 1: expected other operands than itself, found operand id 2"),
    "circle": (broken(put(0, 0, operands=[3]), three), "computation 0, instruction [012]: .*a circle through id [123]"),
    "same id": (broken(put(0, 1, id=1)), "computation 0, instruction 1: expected an id of its own, found id 1 of instruction 0"),
    "same computation": (broken(lambda c: c.append(chain()["computations"][0])), "computation 1: expected an id of its own, found id 0 of computation 0"),
    "no root": (broken(lambda c: c[0].update(root=7)), "computation 0: expected a root among its instructions, found root id 7, which none has"),
    "no instruction": (broken(lambda c: c.append({"id": 5, "name": "x", "root": 4, "instructions": []})), "computation 1: expected at least one instruction"),
    "missing computation": (broken(put(0, 1, calls=[2**63])), "computation 0, instruction 1: expected calls of computations of this module, found computation id -9223372036854775808"),
    "calls itself": (calling((1, 1)), "computation 1: expected calls without a circle"),
    "calls in a circle": (calling((0, 1), (1, 2), (2, 0)), "computation [012]: expected calls without a circle, found that it calls itself, at once or through others"),
    "behind a circle": (calling((0, 1), (1, 2), (2, 1)), "computation [12]: expected calls without a circle"),
    "node number": (tuned(lambda t: t["nodes"].__setitem__(0, 10**12)), "config_index_to_node 0: 1000000000000 of"),
    "node twice": (tuned(lambda t: t.update(nodes=[1, 1], runs=[{"layout": [[], []], "ns": 5, "default": True}])), "expected every node once, found node [0-9]+ twice in config_index_to_node at byte"),
    "nodes of a run": (tuned(lambda t: first_run(t)["layout"].append([])), "run 0: expected layouts of as many nodes as config_index_to_node has, found [0-9] instead of [0-9]"),
    "fewer nodes of a run": (tuned(lambda t: t.update(nodes=[0, 1], runs=[{"layout": [[[0, 1, 2, 3]]], "ns": 5, "default": True}])), "run 0: expected layouts of as many nodes as config_index_to_node has, found 1 instead of 2"),
    "digit": (tuned(lambda t: first_run(t).update(layout=[[[6]] for _ in t["nodes"]])), r"run 0, node 0, tensor 0: expected dimensions in -1\.\.5, found 6"),
    "tensors": (tuned(lambda t: first_run(t).update(layout=[[[]] * 4 for _ in t["nodes"]])), "run 0, node 0, tensor 3: expected layouts of at most three tensors"),
    "no time": (tuned(lambda t: first_run(t).update(ns=0)), "run 0: expected a time > 0 of a run without error, found compute_time_ns 0"),
    "both kinds": (tuned(lambda t: t["runs"].append({"tile": [[1], [1], []], "ns": 5})), "expected runs with layouts or with tile sizes, found 1 with tile sizes"),
    "two modules": (content(1, Writer().module(chain())) * 2, "expected one module in field 1, found a second one"),
    "second kernel": (Writer().tuning([hlo_files.tiles(1), {**hlo_files.tiles(1), "module": {"name": "m", "computations": []}}]), "module 1: expected at least one computation"),
    "opcode": (Writer().module(chain()) + content(3, content(2, number(2, 5))), "computation 1, instruction 0|expected an id of its own|computation 1"),
    "empty": (b"", "expected an HloModuleProto, HloProto, ModuleTuningData or TuningData, found an empty file; write the program"),
    "text": (b"HloModule jit_f, entry_computation_layout={}", "found HLO as text"),
    "bytecode": (b"ML\xefR\x0dMLIR", "found MLIR bytecode"),
    "zip": (b"PK\x03\x04" + bytes(50), "found a zip file"),
    "another message": (content(7, b"abc") + number(9, 1), r"found no instruction in it; field 7: bytes \(3\), field 9: a number"),
    "no module": (content(1, "jit_f") + content(3, content(1, "main")), "found no instruction in it"),
    "length": (tag(3, 2) + b"\xff" * 9 + b"\x01", "expected protobuf fields up to the end, found a field longer than what it is in at byte 0"),
    "huge length": (Writer().module(chain()) + tag(3, 2) + number(1, 2**63)[1:], "found a field longer than what it is in at byte"),
    "long number": (Writer().module(chain()) + tag(5, 0) + b"\xff" * 11, "a number of more than ten bytes"),
    "field number 0": (Writer().module(chain()) + b"\x00\x00", "an impossible field number"),
    "wire type": (Writer().module(chain()) + b"\x0f\x00", "an impossible wire type"),
    "open group": (Writer().module(chain()) + tag(99, 3), "a group without its end or beginning"),
    "end of group": (Writer().module(chain()) + tag(99, 4), "a group without its end or beginning"),
    "other group": (Writer().module(chain()) + tag(99, 3) + tag(98, 4), "the end of another group"),
    "deep groups": (Writer().module(chain()) + tag(99, 3) * 101 + tag(99, 4) * 101, "groups that are nested too deeply"),
    "computations are a number": (Writer().module(chain()) + number(3, 5), "expected a text or a message, found a number in field 3"),
    "id is a text": (Writer().module(chain()) + content(3, content(5, b"x")), "computation 1: expected a number, found bytes in field 5"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_broken_files_are_refused(tmp_path, what):
    raw, message = WRONG[what]
    with pytest.raises(tg.DataError, match=message) as caught:
        read(tmp_path, raw)
    error = caught.value
    assert str(error).startswith(str(tmp_path / "x.pb")) and "\n" not in str(error)
    assert error.file == str(tmp_path / "x.pb") and error.found and error.expected


@pytest.mark.parametrize("field", [2, 3, 9, 14, 15, 16, 17, 20, 21, 30, 33, 34, 35, 36, 38, 50, 58, 60, 67])
@pytest.mark.parametrize("kind", [1, 5])
def test_fields_of_a_wrong_type_are_refused(tmp_path, field, kind):
    wrong = content(2, "add") + number(35, 7) + tag(field, kind) + bytes(8 if kind == 1 else 4)
    raw = Writer().module(chain()) + content(3, content(2, wrong) + number(5, 9) + number(6, 7))
    with pytest.raises(tg.DataError, match=f"computation 1, instruction 0: .*bytes in field {field} at byte"):
        read(tmp_path, raw)


def test_a_field_that_is_not_read_may_have_any_type(tmp_path):
    other = content(2, "add") + number(35, 7) + number(41, 1) + content(42, b"x") + tag(45, 5) + bytes(4)
    raw = Writer().module(chain()) + content(3, content(2, other) + number(5, 9) + number(6, 7))
    assert read(tmp_path, raw).num_nodes == 3


def test_numbers_may_be_longer_than_they_need_to_be(tmp_path):
    raw = Writer().computation(chain()["computations"][0])
    for name in (b"\x9a\x00", b"\x9a\x80\x80\x00"):
        for size in (varint(len(raw)), bytes([len(raw) % 128 | 128, len(raw) // 128 | 128, 128, 0])):
            assert read(tmp_path, name + size + raw).num_nodes == 2


def test_groups_may_be_in_groups(tmp_path):
    raw = Writer().module(chain()) + tag(99, 3) * 100 + number(1, 2) + tag(99, 4) * 100
    assert read(tmp_path, raw).num_nodes == 2


@pytest.mark.parametrize("make", ["module", "layouts", "tiles"])
def test_a_file_cut_anywhere_is_refused_or_whole(tmp_path, make):
    writer = Writer(unknown=True)
    raw = {
        "module": lambda: writer.hlo(hlo_files.program(0, 2, 4)),
        "layouts": lambda: writer.tuned(hlo_files.layouts(2, 3)),
        "tiles": lambda: writer.tuning([hlo_files.tiles(2)]),
    }[make]()
    path, refused = tmp_path / "x.pb", 0
    path.write_bytes(raw)
    for size in reversed(range(len(raw))):
        os.truncate(path, size)
        try:
            core(path)
        except tg.DataError:
            refused += 1
    assert refused > 0.9 * len(raw)  # between two fields of the outermost message a shorter one is whole


@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes_never_do_worse_than_an_error(tmp_path, seed):
    rng = np.random.default_rng(seed)
    writer, path = Writer(packed=bool(seed % 2)), tmp_path / "x.pb"
    raws = [writer.tuned(hlo_files.layouts(seed)), writer.tuning([hlo_files.tiles(seed)])]
    for _ in range(400):
        raw = bytearray(raws[int(rng.integers(2))])
        for place in rng.integers(0, len(raw), rng.integers(1, 5)):
            raw[place] = rng.integers(0, 256)
        path.write_bytes(raw)
        try:
            core(path)
        except tg.DataError as error:
            assert "; " in str(error)


def test_tuples_in_tuples_are_not_followed(tmp_path):
    shape = b""
    for _ in range(5000):
        shape = content(4, shape)
    deep = content(2, "tuple") + content(3, shape) + number(35, 7)
    raw = Writer().module(chain()) + content(3, content(2, deep) + number(5, 9) + number(6, 7))
    assert read(tmp_path, raw).node_feat[2, 29] == 1


def test_max_bytes_is_kept(tmp_path):
    raw = Writer().module(chain())
    with pytest.raises(
        tg.DataError, match=r"max_bytes together, found 1[0-9]{3} bytes and more, max_bytes is 1000"
    ):
        read(tmp_path, raw, max_bytes=1000)
    assert read(tmp_path, raw, max_bytes=2000).num_nodes == 2


def test_a_folder_and_a_missing_file(tmp_path):
    (tmp_path / "a.pb").mkdir()
    refuses(lambda: tg.load(tmp_path / "a.pb"), tg.DataError, "found a directory")
    with pytest.raises(FileNotFoundError):
        tg.load(tmp_path / "b.pb")


# --- commands -----------------------------------------------------------------------------------------------


def run(capsys, *words):
    code = cli.main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    files = {
        "plain.hlo.pb": Writer().hlo(chain()),
        "layouts.pb": Writer().tuned(hlo_files.layouts(3, rank=6)),
        "tiles.pb": Writer().tuning([hlo_files.tiles(1, rank=6), hlo_files.tiles(2, rank=6)]),
    }
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    return folder


NAMES = ["layouts", "plain", "tiles.00.program.1", "tiles.01.program.2"]


def test_inspect_shows_every_graph_of_a_folder(tree, capsys):
    code, found = run(capsys, "inspect", tree)
    assert code == 0 and [graph["name"] for graph in found] == NAMES
    (tree / "broken.pb").write_bytes(b"\x0a\x05abc")
    code, found = run(capsys, "inspect", tree)
    assert code == 1 and len(found) == 5 and "longer than what it is in" in found[0]["error"]


def test_audit_takes_files_and_folders(tree, capsys):
    code, found = run(capsys, "audit", tree, tree / "layouts.pb", "--all")
    assert code == 0 and [graph["name"] for graph in found["graphs"]] == [*NAMES, "layouts"]


def test_pack_makes_a_pack_of_every_program(tree, capsys):
    code, report = run(capsys, "pack", tree, "--verify")
    assert code == 0 and (report["packed"], report["verified"]) == (4, 4)
    assert report["bytes_in"] == sum(path.stat().st_size for path in tree.glob("*.pb"))
    assert run(capsys, "pack", tree)[1]["skipped"] == 4
    assert [graph["name"] for graph in run(capsys, "inspect", tree)[1]] == NAMES  # from the packs alone
    from_pack, graph = tg.load(tree / "layouts.tgpack"), tg.load(tree / "layouts.pb")
    np.testing.assert_array_equal(from_pack.config_digits, graph.config_digits)
    np.testing.assert_array_equal(from_pack.edge_index, graph.edge_index)
    (tree / "layouts.pb").write_bytes(Writer().tuned(hlo_files.layouts(4, rank=6)))
    assert run(capsys, "pack", tree)[1]["packed"] == 1
    np.testing.assert_array_equal(
        tg.load(tree / "layouts.tgpack").edge_index, tg.load(tree / "layouts.pb").edge_index
    )


def test_evaluate_takes_the_kernels_of_a_file(tree, tmp_path, capsys):
    kernels = tg.load(tree / "tiles.pb")
    ranker = tg.Ranker("first-tile", width=16)
    ranker.fit(kernels, steps=1)
    ranker.save(tmp_path / "r.safetensors")
    code, report = run(capsys, "evaluate", tmp_path / "r.safetensors", tree / "tiles.pb")
    assert code == 0 and [row["graph"] for row in report["graphs"]] == NAMES[2:]


def test_a_collection_has_one_graph_per_file(tree, tmp_path):
    place = tmp_path / "npz" / "layout" / "xla" / "random" / "train"
    place.parent.mkdir(parents=True)
    tree.rename(place)
    split = tg.open_collection("layout:xla:random", root=tmp_path).train
    assert split.names == ["layouts", "plain", "tiles"] and split[0].num_configs > 0
    refuses(lambda: split[2], tg.DataError, "collection", "2 kernels")


def test_threads_read_at_once(tree):
    expected = tg.load(tree / "layouts.pb")
    with ThreadPoolExecutor(4) as pool:
        for g in pool.map(tg.load, [tree / "layouts.pb"] * 40):
            np.testing.assert_array_equal(g.node_feat, expected.node_feat)
            np.testing.assert_array_equal(g.config_digits, expected.config_digits)


# --- from memory, and names ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_program_in_memory_is_read_like_a_file(tmp_path, kind):
    raw = Writer().tuned(hlo_files.layouts(3, rank=6))
    a, b = read(tmp_path, raw), hlo.read_bytes(kind(raw), "f")
    assert (b.name, b.path, b.collection) == ("f", None, None)
    for field, array in a.fields().items():
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(getattr(b, field), array)
    np.testing.assert_array_equal(a.config_digits, b.config_digits)
    assert hlo.read_bytes(raw, extra=True, padding=-1).node_feat.shape[1] == 186
    kernels = hlo.read_bytes(Writer().tuning([hlo_files.tiles(1)]), "k")
    assert [g.name for g in kernels] == ["k.00.program.1"]


def test_errors_about_memory_name_the_graph():
    for raw, found in (
        (b"", "an empty file"),
        (memoryview(b""), "an empty file"),
        (b"\x0a\x05abc", "longer"),
    ):
        with pytest.raises(tg.DataError, match=f"^graph 'f': file: expected .*found .*{found}") as caught:
            hlo.read_bytes(raw, "f")
        assert caught.value.file is None
    with pytest.raises(tg.DataError, match="max_bytes is 1000"):
        hlo.read_bytes(Writer().module(chain()), max_bytes=1000)
    refuses(lambda: hlo.read_bytes("x.pb"), TypeError, "bytes-like")
    refuses(lambda: hlo.read_bytes(b"", padding=2), tg.ConfigError, "padding")
    with pytest.warns(UserWarning, match="^f: its 1 run is left out") as caught:
        hlo.read_bytes(Writer().tuned({"module": chain(), "runs": [{"tile": [[1], [], []]}]}), "f")
    assert caught[0].filename == __file__


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(3))
def test_names_are_those_of_the_nodes(tmp_path, seed, style):
    module, writer, rng = hlo_files.program(seed), Writer(**STYLES[style]), np.random.default_rng(seed)
    instructions = [i for c in module["computations"] for i in c["instructions"]]
    for place, i in enumerate(instructions):
        i["name"] = f"{i['opcode']}.{place}"
        if rng.random() < 0.7:
            i["op_name"] = "jit(f)/ö" * int(rng.integers(0, 40)) + str(place)
    expected = ([i["name"] for i in instructions], [i.get("op_name", "") for i in instructions])
    path = tmp_path / "x.pb"
    for make in (writer.module, writer.hlo):
        path.write_bytes(make(module))
        for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            assert hlo.node_names(source) == expected
    several = writer.tuning([{"module": module, "runs": []}, {"module": chain(), "runs": []}])
    assert hlo.node_names(several) == [expected, (["n", "n"], ["", ""])]


def test_names_need_not_be_utf8(tmp_path):
    raw = Writer().module(chain()).replace(content(1, "n"), content(1, b"\xff"))
    assert hlo.node_names(raw) == (["\ufffd"] * 2, ["", ""])


def test_names_of_broken_files_are_refused(tmp_path):
    wrong = content(2, "add") + content(7, number(2, 5)) + number(35, 7)
    raw = Writer().module(chain()) + content(3, content(2, wrong) + number(5, 9) + number(6, 7))
    assert read(tmp_path, raw).num_nodes == 3  # metadata is not looked at
    with pytest.raises(
        tg.DataError, match="computation 1, instruction 0, metadata: expected a text"
    ) as caught:
        hlo.node_names(tmp_path / "x.pb")
    assert caught.value.file == str(tmp_path / "x.pb")
    for size in range(len(raw) - 15, len(raw)):
        with pytest.raises(tg.DataError):
            hlo.node_names(raw[:size])
    with pytest.raises(FileNotFoundError):
        hlo.node_names(tmp_path / "missing.pb")


# --- files that were made to do harm ------------------------------------------------------------------------


def module_of(ids):
    instructions = [{"id": int(used), "opcode": "add"} for used in ids]
    return {
        "name": "m",
        "computations": [{"id": 0, "name": "main", "root": int(ids[0]), "instructions": instructions}],
    }


def test_ids_cannot_be_chosen_so_that_finding_them_is_slow(tmp_path):
    places, inverse = np.arange(1, 60001, dtype=np.uint64), np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))
    chosen = (places << np.uint64(32) | places) * inverse  # equal low bits once multiplied and folded
    seconds = []
    for ids in (places, chosen):
        raw = Writer().module(module_of(ids))
        start = time.perf_counter()
        assert hlo.read_bytes(raw).num_nodes == len(ids)
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < 10 * seconds[0] + 0.1


def test_max_bytes_counts_edges():
    instructions = [{"id": i + 1, "opcode": "add", "operands": list(range(1, i + 1))} for i in range(200)]
    module = {
        "name": "m",
        "computations": [{"id": 0, "name": "main", "root": 1, "instructions": instructions}],
    }
    raw, nodes = Writer().module(module), 200 * 600
    with pytest.raises(tg.DataError, match="instruction .*max_bytes"):
        hlo.read_bytes(raw, max_bytes=nodes + 199 * 100 * 8)
    assert hlo.read_bytes(raw, max_bytes=nodes + 199 * 100 * 16).num_edges == 199 * 100
    twice = Writer().tuning([{"module": module, "runs": []}] * 2)
    refuses(lambda: hlo.read_bytes(twice, max_bytes=nodes + 199 * 100 * 16), tg.DataError, "max_bytes")


@pytest.mark.parametrize("part", ["nodes", "run"])
def test_a_file_that_changes_while_it_is_read_is_refused_or_whole(part):
    """What was counted is missing when it is read; memory is shared with a thread that changes it."""
    t = {"module": module_of(range(1, 4001)), "nodes": [3, 4, 5],
         "runs": [{"layout": [[[1, 0]]] * 3, "ns": 7, "default": True}]}  # fmt: skip
    raw = bytearray(Writer().tuned(t))
    tail = {"nodes": Writer().numbers(4, [3, 4, 5]), "run": content(3, Writer().run(t["runs"][0]))}[part]
    place, stop = raw.rindex(tail), threading.Event()

    def change():
        while not stop.wait(0.0005):
            raw[place] ^= 0x70  # another field, which is not read

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(150):
            [
                np.full(size, 10**12) for size in (1, 3) for _ in range(20)
            ]  # what memory may hold that is not written
            try:
                with warnings.catch_warnings(action="ignore"):
                    g = hlo.read_bytes(raw)
            except tg.DataError:
                continue
            assert g.node_config_ids.tolist() in ([3, 4, 5], []), "numbers that are not in the file"
            assert g.runtime.tolist() in ([7], [])
    finally:
        stop.set()
        thread.join()
