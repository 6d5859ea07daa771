"""The first place's models in PyTorch and PyG: what parity tests compare with and benchmarks race."""

import torch
from torch import nn
from torch.nn import functional as fn
from torch_geometric.nn import SAGEConv

# Tensors are (C, N, F).


class Tail(nn.Module):
    """Gate, and with `cross` the product with the softmax over the configs beside it."""

    def __init__(self, width, cross):
        super().__init__()
        self.attn = nn.ModuleDict(
            {"linear1": nn.Linear(width, width // 8), "linear2": nn.Linear(width // 8, width)}
        )
        if cross:
            self.cross_attn = nn.ParameterDict({"temperature": nn.Parameter(torch.tensor([0.5]))})
        self.cross = cross

    def tail(self, x):
        x = x * self.attn["linear2"](self.attn["linear1"](x).relu()).sigmoid()
        if self.cross:
            x = torch.cat([x, x * torch.softmax(x / self.cross_attn["temperature"], 0)], -1)
        return x


def over_nodes(x):
    """Instance norm of PyTorch wants (batch, channels, length): configs, channels, nodes."""
    return fn.instance_norm(x.transpose(1, 2)).transpose(1, 2)


class Dense(Tail):
    def __init__(self, features, width, cross):
        super().__init__(width, cross)
        self.linear = nn.Linear(features, width)

    def forward(self, x):
        return fn.gelu(self.tail(over_nodes(self.linear(x))))


class Block(Tail):
    def __init__(self, features, width, cross, dropout):
        super().__init__(width, cross)
        self.conv = SAGEConv(features, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, edges):
        return self.dropout(fn.gelu(self.tail(self.conv(over_nodes(x), edges)) + x))


class Published(nn.Module):
    def __init__(self, cross, width=256, blocks=2, columns=134, dropout=0.0):
        super().__init__()
        out = width // 2 if cross else width
        self.embedding_op = nn.Embedding(120, 16)
        self.embedding_layout_cfg = nn.Embedding(8, 4)
        self.linear = Dense(columns + 16 + 24 * 4, out, cross)
        self.linear2 = Dense(width, out, cross)
        self.convs = nn.ModuleList(Block(width, out, cross, dropout) for _ in range(blocks))
        self.classifier = nn.Linear(width, 1)

    def forward(self, graph):
        """Scores of all configs; `graph` holds the arrays of a graph, or their `tensors`."""
        if not torch.is_tensor(graph["node_feat"]):
            graph = tensors(graph)
        feat, digits = graph["node_feat"], graph["digits"]
        n, c = len(feat), len(digits)
        every = torch.full((c, n, 18), -2)
        every[:, graph["config_nodes"]] = digits
        layout = self.embedding_layout_cfg(graph["layout_digits"] + 2).flatten(-2)
        opcode = self.embedding_op(graph["node_opcode"])
        node = [part.expand(c, n, -1) for part in (feat, layout, opcode)]
        x = torch.cat([node[0], self.embedding_layout_cfg(every + 2).flatten(-2), *node[1:]], -1)
        x = self.linear2(self.linear(x))
        for block in self.convs:
            x = block(x, graph["edges"])
        return self.classifier(x.mean(1)).flatten()


class PublishedTile(nn.Module):
    """Late fusion: the graph branch with one config, beside a network over each config."""

    def __init__(self, width=256, blocks=2, columns=134, configs=24, dropout=0.0):
        super().__init__()
        self.embedding_op = nn.Embedding(120, 16)
        self.embedding_layout_cfg = nn.Embedding(8, 4)
        self.linear = Dense(columns + 16 + 6 * 4, width // 2, True)
        self.linear2 = Dense(width, width // 2, True)
        self.convs = nn.ModuleList(Block(width, width // 2, True, dropout) for _ in range(blocks))
        between = (nn.Dropout(dropout), nn.GELU())
        self.dense_cfg = nn.Sequential(nn.Linear(configs, width), *between, nn.Linear(width, width))
        self.dense = nn.Sequential(
            nn.Linear(3 * width, width), *between, nn.Linear(width, width), *between, nn.Linear(width, 1)
        )

    def forward(self, graph):
        """Scores of all configs."""
        if not torch.is_tensor(graph["node_feat"]):
            graph = tensors(graph)
        layout = self.embedding_layout_cfg(graph["layout_digits"] + 2).flatten(-2)
        x = torch.cat([graph["node_feat"], layout, self.embedding_op(graph["node_opcode"])], -1)[None]
        x = self.linear2(self.linear(x))
        for block in self.convs:
            x = block(x, graph["edges"])
        row = torch.cat([x[0].amax(0), x[0].mean(0)])
        configs = self.dense_cfg(graph["config_feat"])
        return self.dense(torch.cat([configs, row.expand(len(configs), -1)], -1)).flatten()


def tensors(graph):
    """The arrays of a graph as these models read them."""
    whole = ("digits", "layout_digits", "node_opcode", "config_nodes")
    made = {name: torch.tensor(graph[name]).long() for name in whole if name in graph}
    edges = torch.tensor(graph["edge_index"].T.copy())
    made |= {name: torch.tensor(graph[name]) for name in ("node_feat", "config_feat") if name in graph}
    return made | {"edges": edges}


def hinge(scores, runtimes):
    times = torch.as_tensor(runtimes)
    wrong = fn.relu(1.0 - (scores[:, None] - scores[None, :]))
    return (wrong * (times[:, None] > times[None, :])).mean()
