"""Graphs as those of PyTorch Geometric and back; the page on PyTorch runs; errors where packages are missing."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import made
import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg

PAGE = Path(__file__).parents[1] / "docs" / "pytorch.md"


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="the bridge needs PyTorch: pip install '.[torch]'")


@pytest.fixture
def pyg(torch):
    """`torch_geometric.data`, which warns of what it lacks when it is imported."""
    reason = "graphs of PyTorch Geometric need it: pip install '.[pyg]'"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torch_geometric.data", reason=reason)


def any_graph(configs=6, **fields):
    rng = np.random.default_rng(0)
    return tg.Graph(
        node_feat=rng.normal(size=(4, 3)),
        node_opcode=[1, 2, 3, 2],
        edge_index=[[0, 1], [1, 2], [0, 3]],
        graph_feat=[1.0, 2.0],
        config_feat=rng.normal(size=(configs, 2)),
        node_config_ids=[2, 0],
        node_config_feat=rng.integers(-1, 3, (configs, 2, 5)),
        runtime=rng.uniform(1, 2, configs),
        valid=[True] * (configs - 1) + [False],
        repeats=rng.uniform(1, 2, (configs, 3)),
        about={"device": "made up"},
        name="one",
        **fields,
    )


def tile():
    rng = np.random.default_rng(1)
    return tg.TileGraph(
        node_feat=rng.normal(size=(3, 140)),
        node_opcode=[1, 2, 3],
        edge_index=[[0, 1], [1, 2]],
        config_feat=rng.normal(size=(5, 24)),
        config_runtime=[5, 4, 3, 2, 9],
        config_runtime_normalizers=[7, 7, 7, 7, 8],
        node_splits=[0, 3],
        collection="tile:xla",
    )


GRAPHS = {
    "any": any_graph,
    "bare": lambda: tg.Graph(config_feat=[[1.0], [2.0]], runtime=[3, 4]),
    "layout": lambda: made.program(0),
    "tile": tile,
    "options": lambda: tg.open_collection("options:xla:cpu").test[0],
}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


def same_fields(a, b):
    for field, value in a.items():
        other = b[field]
        if field == "node_config_feat":
            value, other = np.asarray(value), np.asarray(other)
        if isinstance(value, np.ndarray):
            assert value.dtype == other.dtype
            np.testing.assert_array_equal(value, other, field)
        elif field != "path":
            assert value == other, field


@pytest.mark.parity
@every_graph
def test_there_and_back(pyg, graph):
    graph = graph()
    data = tg.torch.to_pyg(graph)
    data.validate(raise_on_error=True)
    assert type(data) is pyg.Data and data.num_nodes == graph.num_nodes and data.num_edges == graph.num_edges
    back = tg.torch.from_pyg(data)
    assert type(back) is type(graph)
    same_fields(graph.fields(), back.fields())


@pytest.mark.parity
def test_fields_dtypes_and_directions(torch, pyg):
    graph = any_graph()
    data = tg.torch.to_pyg(graph)
    assert data.x.dtype == torch.float32 and data.x.shape == (4, 3)
    assert data.edge_index.tolist() == [[0, 1, 0], [1, 2, 3]] and data.edge_index.is_contiguous()
    assert data.node_opcode.tolist() == [1, 2, 3, 2] and data.node_opcode.dtype == torch.int64
    assert data.graph_feat.tolist() == [[1, 2]] and data.config_node_index.tolist() == [2, 0]
    assert data.digits.shape == (2, 6, 5) and data.digits.dtype == torch.int8
    assert np.array_equal(data.digits.numpy(), graph.config_digits.transpose(1, 0, 2))
    assert data.num_configs == 6 and data.runtime.dtype == torch.float64
    some = tg.torch.to_pyg(graph, [4, 1])
    assert some.num_configs == 2 and torch.equal(some.digits, data.digits[:, [4, 1]])
    assert torch.equal(some.runtime, data.runtime[[4, 1]])


@pytest.mark.parity
def test_tensors_and_graphs_share_no_memory(torch, pyg):
    graph = any_graph()
    kept = {k: np.array(v) for k, v in graph.fields().items() if isinstance(v, np.ndarray)}
    data = tg.torch.to_pyg(graph)
    back = tg.torch.from_pyg(data)
    for key in data.keys():
        if isinstance(data[key], torch.Tensor):
            data[key].zero_()
    for each in (graph, back):
        for name, array in kept.items():
            np.testing.assert_array_equal(getattr(each, name), array)


@pytest.mark.parity
def test_a_batch_counts_on_in_nodes_and_joins_configs(torch, pyg):
    graphs = [any_graph(7), any_graph(7)]
    graphs = [graph.select(graph.ran) for graph in graphs]
    batch = pyg.Batch.from_data_list([tg.torch.to_pyg(graph) for graph in graphs])
    assert batch.config_node_index.tolist() == [2, 0, 6, 4]
    assert (
        batch.edge_index.max() == 7 and batch.digits.shape == (4, 6, 5) and batch.graph_feat.shape == (2, 2)
    )
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), batch.num_configs.cumsum(0)])
    scores = torch.randn(12, requires_grad=True)
    loss = tg.torch.list_mle(scores, batch.runtime, offsets=offsets)
    apart = [tg.torch.list_mle(scores[i : i + 6], batch.runtime[i : i + 6]) for i in (0, 6)]
    torch.testing.assert_close(loss, sum(apart) / 2)
    refuses(lambda: tg.torch.from_pyg(batch), tg.errors.ConfigError, "data.to_data_list()")
    same_fields(graphs[1].fields(), tg.torch.from_pyg(batch.to_data_list()[1]).fields())


@pytest.mark.parity
def test_a_data_of_ones_own(torch, pyg):
    import torch_geometric

    x, edges = torch.randn(3, 2, dtype=torch.float64, requires_grad=True), torch.tensor([[0, 1], [1, 2]])
    data = pyg.Data(x=x, edge_index=edges, y=torch.tensor([3.0, 4.0]), other="is ignored")
    graph = tg.torch.from_pyg(data, runtime=data.y, config_feat=torch.eye(2).T, name="mine")
    assert (
        graph.name == "mine"
        and graph.runtime.tolist() == [3, 4]
        and graph.edge_index.tolist() == [[0, 1], [1, 2]]
    )
    np.testing.assert_array_equal(graph.node_feat, x.detach().float().numpy())
    assert graph.schema.inferred
    back = tg.torch.from_pyg(data, edge_index=edges.flip(0))  # two rows here, too
    assert back.edge_index.tolist() == [[1, 0], [2, 1]]
    with pytest.raises(tg.DataError, match=r"edge_index: expected shape \(2, E\), .*; transpose it"):
        tg.torch.from_pyg(data, edge_index=torch.zeros((1, 2), dtype=torch.int64))
    own = tg.torch.from_pyg(pyg.Data(x=x, edge_index=torch_geometric.EdgeIndex(edges)))
    assert own.edge_index.tolist() == [[0, 1], [1, 2]]
    half = pyg.Data(x=torch.ones(3, 2, dtype=torch.bfloat16), edge_index=edges)
    assert tg.torch.from_pyg(half).node_feat.tolist() == [[1, 1]] * 3


@pytest.mark.parity
def test_what_is_not_one_graph_is_refused(torch, pyg):
    one, edges = torch.ones(3, 1), torch.tensor([[0, 1, 1], [1, 2, 0]])
    for wrong, *names in (
        ({"x": one}, "from_pyg", "torch_geometric.data.Data", "dict"),
        (pyg.HeteroData(), "HeteroData"),
        (pyg.Data(x=one, kind="cube"), "kind", "graph, layout, tile", "'cube'"),
        (pyg.Data(x=one, kind=["tile"]), "kind", "['tile']"),
        (pyg.Data(x=torch.ones(3, 1, device="meta")), "x:", "CPU"),
    ):
        refuses(lambda: tg.torch.from_pyg(wrong), tg.errors.ConfigError, *names)
    for fields, *names in (
        ({"edge_index": edges.T.contiguous()}, "edge_index", "(2, E)", "(3, 2)", "transpose"),
        ({"edge_index": edges + 2}, "edge_index"),
        ({"digits": torch.zeros(2, 5)}, "digits", "(K, C, D)"),
        ({"schema": "{"}, "tpugraphs_schema", "JSON"),
        ({"schema": 7}, "schema", "int"),
        ({"kind": "layout"}, "node_opcode", "'layout'"),
    ):
        data = pyg.Data(x=one, **fields)
        refuses(lambda: tg.torch.from_pyg(data), tg.DataError, *names)
    refuses(lambda: tg.torch.to_pyg("a.npz"), tg.errors.ConfigError, "to_pyg", "str", "tg.load")
    refuses(lambda: tg.torch.to_pyg(any_graph(), [6]), tg.DataError, "configs")


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_documentation_trains_a_model_of_pyg(pyg, capsys):
    """It learns more than chance, on programs of families that it has not seen."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    names = {}  # as in a notebook: a block uses what those before it made
    for block in blocks:
        exec(compile(re.sub(r"^EPOCHS = \d+", "EPOCHS = 2", block, flags=re.M), str(PAGE), "exec"), names)
    assert re.search(r"^tau 0\.\d\d$", capsys.readouterr().out, re.M)
    assert names["tau"] > 0.1


def without(package, code):
    """What a process says in which a package cannot be imported."""
    code = f"import sys; sys.modules[{package!r}] = None\nimport tpugraphs as tg\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_without_pytorch_the_error_names_the_extra():
    done = without("torch", "tg.kernels\nprint('fine')\ntg.torch")
    assert done.stdout == "fine\n" and done.returncode == 1
    assert "ImportError: tpugraphs.torch needs PyTorch: pip install 'tpugraphs[torch]'" in done.stderr


@pytest.mark.parity
def test_without_pyg_ops_and_losses_work(torch):
    done = without(
        "torch_geometric",
        "import torch\nprint(tg.torch.gelu(torch.zeros(1, 1)).item())\ntg.torch.to_pyg(None)",
    )
    assert done.stdout == "0.0\n" and done.returncode == 1
    assert "need PyTorch Geometric: pip install 'tpugraphs[pyg]'" in done.stderr


@pytest.mark.parity
def test_the_name_shadows_nothing(torch):
    """PyTorch stays itself inside of the package, whichever of the two is imported first."""
    for code in ("tg.torch; import torch", "import torch; tg.torch"):
        code += "; assert torch.__file__ != tg.torch.__file__ and torch.nn and tg.torch.bridge.torch is torch"
        done = subprocess.run(
            [sys.executable, "-c", f"import tpugraphs as tg; {code}"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
