"""The first place's layout model in PyTorch and PyG: what parity tests compare with and benchmarks race."""

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


def tensors(graph):
    """The arrays of a graph as `Published` reads them."""
    whole = ("digits", "layout_digits", "node_opcode", "config_nodes")
    made = {name: torch.tensor(graph[name]).long() for name in whole}
    edges = torch.tensor(graph["edge_index"].T.copy())
    return made | {"node_feat": torch.tensor(graph["node_feat"]), "edges": edges}


def hinge(scores, runtimes):
    times = torch.as_tensor(runtimes)
    wrong = fn.relu(1.0 - (scores[:, None] - scores[None, :]))
    return (wrong * (times[:, None] > times[None, :])).mean()
