"""One table of cases for every loss of the core: attributes, and what values it is given.

The tests run every case with each reduction of its loss against the float64 reference of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tpugraphs as tg
from tpugraphs import _core

TABLE = {loss["name"]: loss for loss in _core.losses()}
MARGIN = float(np.float32(0.1))


@dataclass(frozen=True)
class Case:
    """A loss and those of its attributes that are not at their default."""

    loss: str
    attrs: dict[str, Any] = field(default_factory=dict)
    signed: bool = False  # values may be negative or 0
    shares: bool = False  # values are from 0 to 1

    @property
    def id(self) -> str:
        return "-".join([self.loss, *(f"{k}={v}" for k, v in self.attrs.items())])

    def term(self, reduction: str | None = None, **more: Any) -> dict[str, Any]:
        """The case as a term of a sum."""
        chosen = {} if reduction is None else {"reduction": reduction}
        return {"loss": self.loss} | self.attrs | chosen | more


CASES = [
    Case("pairwise_hinge"),
    Case("pairwise_hinge", {"margin": MARGIN}),
    Case("pairwise_hinge", {"margin": 0.0}),
    Case("list_mle"),
    Case("list_mle", {"temperature": 10.0}),
    Case("list_mle", {"max_norm": 2.0}),
    Case("ranknet"),
    Case("ranknet", {"sigma": 8.0}),
    Case("lambda_rank"),
    Case("lambda_rank", {"k": 5}),
    Case("lambda_rank", {"gain": "linear", "sigma": 2.0}),
    Case("lambda_rank", {"gain": "inverse", "k": 10}),
    *[Case("lambda_rank", {"scheme": scheme}) for scheme in ("ndcg1", "ndcg2", "arp1", "arp2")],
    *[Case("lambda_rank", {"scheme": scheme, "k": 5, "gain": "inverse"}) for scheme in ("ndcg1", "ndcg2")],
    Case("lambda_rank", {"scheme": "arp2", "gain": "linear", "sigma": 2.0}),
    Case("mse", signed=True),
    Case("log_mse"),
    Case("log_mse", {"offset": 1.0}),
    Case("msle"),
    Case("mape"),
    Case("mape", {"epsilon": 0.5}, signed=True),
    Case("quantile"),
    Case("quantile", {"level": 0.9}, signed=True),
    Case("cross_entropy", shares=True),
    Case("permuted_margin"),
    Case("permuted_margin", {"margin": 1.0, "permutations": 3}),
    Case("dcg_hinge"),
    Case("dcg_hinge", {"margin": MARGIN}),
]
EACH = [
    (case, reduction) for case in CASES if case.loss in TABLE for reduction in TABLE[case.loss]["reductions"]
]
IDS = [f"{case.id}-{reduction}" for case, reduction in EACH]


def data(
    case: Case, seed: int, length: int, ties: bool = False, weights: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Scores, and the targets by name. With ties, in runtimes and in scores; values rise with runtimes."""
    rng = np.random.default_rng([seed, length])
    scores = rng.normal(size=length).astype(np.float32)
    runtimes = rng.integers(0, length // 3 + 2, length) if ties else rng.permutation(length)
    if ties:
        scores = np.round(scores * 2).astype(np.float32) / np.float32(2)
    values = (runtimes + 1) / (length + 1) * 3 - (1.5 if case.signed else 0)
    if case.shares:
        values = runtimes / max(1, np.max(runtimes, initial=0))
    given = {"runtimes": runtimes + 10**9, "values": values}
    given = {k: v for k, v in given.items() if k in TABLE[case.loss]["may_read"]}
    if weights:
        given["weights"] = rng.choice([0, 0.25, 1, 3], length).astype(np.float32)
    return scores, given


def run(case: Case, reduction: str | None, scores: Any, **given: Any) -> Any:
    """The core's value and gradient."""
    return tg.kernels.weighted_sum(scores, [case.term(reduction)], **given)
