"""Digits of configs as columns of all nodes, beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..sections.kernels import Call, Case, Setting
from . import config_graph


def cases(setting: Setting) -> Iterator[Case]:
    from tpugraphs import _core

    nodes, configs, known = setting.size(10_000, 40), setting.size(16, 3), setting.size(1000, 5)
    ids = setting.rng.permutation(nodes)[:known].astype(np.int64)
    digits = setting.rng.integers(-1, 6, (configs, known, 18)).astype(np.int8)
    graph = config_graph(nodes, ids, digits)
    out = np.empty((nodes, configs, 18), np.float32)
    peers: dict[str, Call] = {}
    if setting.torch:
        given, at = setting.torch.from_numpy(digits), setting.torch.from_numpy(ids)

        def peer() -> object:
            y = setting.torch.zeros(nodes, configs, 18)
            y[at] = given.transpose(0, 1).float()
            return y

        peers["PyTorch"] = peer
    yield Case(
        f"config_columns {known} of {nodes} nodes, {configs} configs",
        lambda: _core.op_forward("config_columns", {}, (), (), graph, configs, 0, False, None, out),
        peers,
        1.0,
        notes="forward alone: only digits have a gradient",
    )
