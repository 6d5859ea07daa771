"""The installed wheel works on this Python: a ranker learns from a made-up program, saves and loads."""

import sys
import tempfile
from pathlib import Path

import numpy as np

import tpugraphs as tg

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import made

graph, other = made.program(0), made.program(1)
rows = np.arange(32)
ranker = tg.Ranker("first-layout-cross", seed=0)
losses = [ranker.partial_fit(graph, rows) for _ in range(12)]
assert losses[-1] < losses[0], losses
scores = ranker.predict(graph, rows)
with tempfile.TemporaryDirectory() as folder:
    ranker.save(Path(folder) / "ranker.safetensors")
    again = tg.Ranker.load(Path(folder) / "ranker.safetensors")
assert np.array_equal(again.predict(graph, rows), scores)
assert sorted(again.rank(other)) == list(range(other.num_configs))
tau = tg.metrics.kendall_tau(scores, graph.config_runtime[rows])
print(f"tpugraphs {tg.__version__} on Python {sys.version.split()[0]}, NumPy {np.__version__}: loss "
      f"{losses[0]:.3f} to {losses[-1]:.3f}, tau {tau:.2f}")  # fmt: skip
