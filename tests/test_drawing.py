"""Graphs as pictures and as graphs of NetworkX."""

import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import hlo_files
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg

NODE = re.compile(r'  (\d+) \[label="((?:[^"\\]|\\.)*)"((?:, \w+=(?:\w+|"[^"]*"))*)\];')
SVG = "{http://www.w3.org/2000/svg}"
EDGE = re.compile(r"  (\d+) -> (\d+)( \[style=dashed\])?;")


@pytest.fixture
def graph(tmp_path):
    """A convolution whose layout can be chosen, in a fusion."""
    shape = {"type": 16, "dims": [8, 64], "layout": [1, 0]}
    inner = [
        {"id": 1, "opcode": "parameter", "shape": shape},
        {"id": 2, "opcode": "convolution", "shape": shape, "operands": [1]},
    ]
    outer = [
        {"id": 3, "opcode": "constant", "shape": {"type": 5}},
        {
            "id": 4,
            "opcode": "fusion",
            "shape": {"type": 13, "tuple": [shape] * 3},
            "operands": [3],
            "calls": [7],
        },
    ]
    module = {
        "name": "m",
        "computations": [
            {"id": 7, "name": "fused", "root": 2, "instructions": inner},
            {"id": 8, "name": "main", "root": 4, "instructions": outer},
        ],
    }
    runs = [{"layout": [[[1, 0]]], "ns": 5, "default": True}]
    path = tmp_path / 'a "quoted" name.pb'
    path.write_bytes(hlo_files.Writer().tuned({"module": module, "runs": runs, "nodes": [1]}))
    return tg.load(path)


def parsed(text):
    """Nodes {number: (label, attributes)} and edges [(from, to, dashed)]; every line is one of the known ones."""
    lines = text.splitlines()
    assert lines[0].startswith("digraph") and lines[-1] == "}"
    nodes = {int(m[1]): (m[2], m[3]) for line in lines[3:-1] if (m := NODE.fullmatch(line))}
    edges = [(int(m[1]), int(m[2]), bool(m[3])) for line in lines[3:-1] if (m := EDGE.fullmatch(line))]
    assert len(nodes) + len(edges) == len(lines) - 4
    return nodes, edges


def test_a_kernel_is_drawn_with_its_configurable_nodes(graph):
    nodes, edges = parsed(graph.to_dot())
    assert graph.to_dot().startswith('digraph "a \\"quoted\\" name" {')
    assert {number: label for number, (label, _) in nodes.items()} == {
        0: r"0 parameter\nbf16[8,64]{1,0}",
        1: r"1 convolution\nbf16[8,64]{1,0}\nconfigurable 0",
        2: r"2 constant\ns64[]",
        3: r"3 fusion\ntuple of 3",
    }
    marked = {number for number, (_, attributes) in nodes.items() if "#ffd27f" in attributes}
    roots = {number for number, (_, attributes) in nodes.items() if "peripheries=2" in attributes}
    assert marked == {1} and roots == {1, 3}
    assert sorted(edges) == [(0, 1, False), (1, 3, True), (2, 3, False)]


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_what_it_is_given(graph):
    done = subprocess.run(["dot", "-Tsvg"], input=graph.to_dot(), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    drawn = ElementTree.fromstring(done.stdout)
    groups = {"node": {}, "edge": {}}
    for group in drawn.iter(f"{SVG}g"):
        if group.get("class") in groups:
            groups[group.get("class")][group.findtext(f"{SVG}title")] = group
    texts = {title: [text.text for text in node.iter(f"{SVG}text")] for title, node in groups["node"].items()}
    assert texts["1"] == ["1 convolution", "bf16[8,64]{1,0}", "configurable 0"] and len(texts) == 4
    assert sorted(groups["edge"]) == ["0->1", "1->3", "2->3"]
    fills = {title: node[1].get("fill") for title, node in groups["node"].items()}
    assert fills == {"0": "white", "1": "#ffd27f", "2": "white", "3": "white"}
    heights = {title: float(node.find(f"{SVG}text").get("y")) for title, node in groups["node"].items()}
    assert heights["0"] < heights["1"] < heights["3"]  # what is used stands above what uses it


def test_any_graph_is_drawn():
    g = tg.Graph(node_feat=np.zeros((2, 1)), edge_index=[[1, 0]], node_opcode=[3, 4])
    nodes, edges = parsed(g.to_dot())
    assert nodes[1][0] == "1 4" and edges == [(0, 1, False)]
    table = tg.Graph(config_feat=[[1.0], [2.0]], runtime=[1, 2])
    assert parsed(table.to_dot()) == ({0: ("0", "")}, [])


def test_networkx_gets_nodes_and_edges(graph):
    pytest.importorskip("networkx")
    g = graph.to_networkx()
    assert sorted(g.edges) == [(0, 1), (1, 3), (2, 3)] and g.graph["name"] == graph.name
    assert g.nodes[1] == {
        "opcode": "convolution", "configurable": 0, "shape": "bf16[8,64]", "layout": "{1,0}", "is_root": True,
    }  # fmt: skip


def test_without_networkx_the_error_says_what_to_install(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    refuses(graph.to_networkx, ImportError, "pip install networkx")
