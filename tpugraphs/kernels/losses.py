"""Losses over lists of scores: value and gradient in one call.

``_core.losses()`` is their table: name, meaning, attributes with ranges, reductions, and inputs.

- A ranking loss reads ``runtimes``, of which only the order matters, and compares them exactly. A score rises
  with run time: ``runtimes[i] > runtimes[j]`` asks for ``scores[i] > scores[j]``.
- A pointwise loss reads ``values``, the numbers that scores predict: for ``mse``, ``msle`` and ``mape`` a
  score is a value, for ``log_mse`` the logarithm of one, for ``cross_entropy`` the logit of a share from 0 to
  1. The caller chooses the values (times, log-times, percentiles).

Within a list, ``"sum"`` adds up, ``"mean"`` divides by W, the sum of the list's weights (its length if there
are none), ``"mean-all"`` by W**2 for pairs and by W for ListMLE, ``"mean-pairs"`` by the total weight of the
pairs. The loss is the mean over lists; a list too short for a loss adds 0 but counts. With sample weights
w, pair (i, j) weighs ``w[i] * w[j]`` and a term of one entry as much as the entry; an entry of weight 0 still
has its place in a ranking. Sums are made of 64-bit numbers and have the same bits for any number of threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.kernels.signatures import Argument, Meta, attribute, declared, document, made, signature
from tpugraphs.system.arguments import check_whole

__all__ = ["ratio_ranks", "weighted_sum"]

Result = tuple[float, NDArray[np.float32]]
Runtimes = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.float64] | NDArray[np.float32]


def ratio_ranks(runtimes: NDArray[np.int64], normalizers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank normalised runtimes: whole numbers with exactly the order of ``runtimes / normalizers``.

    Losses compare whole numbers. Quotients are compared here, once per graph, by 128-bit cross products,
    without rounding.

    Parameters
    ----------
    runtimes, normalizers : (n,) int64
        Normalizers are positive.

    Returns
    -------
    (n,) int64
        From 1, the least quotient; equal quotients share their rank.

    Raises
    ------
    DataError
        A normalizer that is not positive.
    """
    return _core.ratio_ranks(runtimes, normalizers)


def weighted_sum(
    scores: NDArray[np.float32],
    losses: list[dict[str, Any]],
    runtimes: Runtimes | None = None,
    values: NDArray[np.float64] | None = None,
    *,
    weights: NDArray[np.float32] | None = None,
    offsets: NDArray[np.int64] | None = None,
    index: NDArray[np.int64] | None = None,
    scale: NDArray[np.float32] | None = None,
    shift: NDArray[np.float32] | None = None,
    seed: int = 0,
) -> Result:
    """Return the weighted sum of losses over lists of scores.

    Parameters
    ----------
    scores : (L,) float32
        Finite numbers.
    losses : list of dict
        One dict for each term (at most 8). ``"loss"`` is its name; optional are ``"weight"`` (1, at least 0),
        ``"reduction"``, the attributes of the loss, and ``"over"``: ``"list"``, or ``"batch"`` for a term
        that takes all lists together as one.
    runtimes : (L,) int64, int32, float64 or float32, optional
        Only their order matters. NaN is an error.
    values : (L,) float64, optional
        Finite numbers that scores predict.
    weights : (L,) float32, optional
        Sample weights, finite and at least 0.
    offsets : (B+1,) int64, optional
        List ``b`` is ``[offsets[b], offsets[b+1])`` of `index`, or of the scores without `index`. Without
        offsets, everything is one list.
    index : (E,) int64, optional
        Positions of scores, each at most once: a list takes entries from anywhere. The others take no part in
        the loss; their gradient is 0.
    scale, shift : (L,) float32, optional
        The losses see ``scale * scores + shift``, rounded to float32.
    seed : int
        Key of the draws, 0 <= seed < 2**64: tie breaks of ListMLE, permutations. Draws of a list also depend
        on its number.

    Returns
    -------
    loss : float
    dscores : (L,) float32
        Gradient of the loss with respect to `scores`.

    Raises
    ------
    ShapeError
        Wrong dtype, shape or memory order; offsets that do not run from 0 to the number of entries.
    DataError
        A number that is not finite or is out of range; an index that is out of range or given twice.
    ConfigError
        An unknown loss, attribute or reduction, a number out of its range, no runtimes or values for a loss
        that reads them.
    """
    key = check_whole("seed", seed, -(2**63), 2**64 - 1)
    return _core.losses_run(losses, scores, runtimes, values, weights, offsets, index, scale, shift, key)


def _attributes(loss: Meta) -> list[Argument]:
    """Return the arguments specific to a loss: its attributes and its reduction."""
    words = loss["reductions"]
    reduction = {"name": "reduction", "kind": "choice", "doc": "within a list", "choices": words}
    return [attribute(attr) for attr in (*loss["attrs"], {**reduction, "default": words[0]})]


def _arguments(loss: Meta) -> list[Argument]:
    """Return all arguments of a loss: scores and targets, then keyword arguments, specific and common."""
    shared = inspect.signature(weighted_sum).parameters
    first = ["scores", *loss["reads"]]
    found = [Argument(name, shared[name].annotation.removesuffix(" | None")) for name in first]
    rest = [name for name in loss["may_read"] if name not in first] + ["weights", "offsets"]
    last = [Argument(name, shared[name].annotation, default=None, keyword=True) for name in rest]
    return [*found, *_attributes(loss), *last]


def _face(loss: Meta, doc: str, shown: inspect.Signature) -> Callable[..., Result]:
    """Make the function of one loss."""
    name, attributes = loss["name"], [one.name for one in _attributes(loss)]

    def run(given: dict[str, Any]) -> Result:
        term = {"loss": name} | {key: given.pop(key) for key in attributes}
        return weighted_sum(given.pop("scores"), [term], **given)

    return made(run, name, doc, shown, __name__)


def _of_table(loss: Meta) -> Callable[..., Result]:
    """Make the function of a loss with the arguments of its table row."""
    arguments = _arguments(loss)
    shared = ", ".join(one.name for one in arguments if not one.form)
    listed = [Argument(shared, "", "", "As for `weighted_sum`."), *_attributes(loss)]
    _, section, rest = (inspect.getdoc(weighted_sum) or "").partition("\nReturns\n")
    doc = document(f"Value and gradient of a loss: {loss['doc']}.", listed, section + rest)
    return _face(loss, doc, signature(arguments, "Result"))


def _declare(function: Callable[..., None]) -> Callable[..., Result]:
    """Make the function of a loss with the name, arguments and docstring of the function below."""
    loss = _LOSSES[function.__name__]
    types = {"seed": "int", **{one.name: one.type for one in _arguments(loss)}}
    errors = (inspect.getdoc(weighted_sum) or "").partition("\n\nRaises")[1:]
    doc = "".join([inspect.getdoc(function) or "", *errors])
    return _face(loss, doc, declared(function, types, {}, "Result"))


_LOSSES: dict[str, Meta] = {loss["name"]: loss for loss in _core.losses()}


@_declare
def pairwise_hinge(scores, runtimes, margin=1.0, reduction="mean-all", offsets=None, *, weights=None):
    """Hinge over all pairs: ``max(0, margin - (scores[i] - scores[j]))`` for ``runtimes[i] > runtimes[j]``.

    Equal runtimes make no pair. A pair exactly on the margin has gradient 0. Lists up to 256 entries are
    compared pair by pair, longer ones by sorting in O(L log L): both count the same pairs, so there is no
    jump between them.

    Parameters
    ----------
    scores, runtimes, offsets, weights
        As for `weighted_sum`; a list of fewer than two entries adds 0 but counts.
    margin : float
        At least 0; taken as float32.
    reduction : {"mean-all", "sum", "mean-pairs"}
        Divide a list's sum by L**2 (the first place of the Kaggle competition; entries without a pair count
        as zeros), by nothing, or by the number of pairs of different runtimes.

    Returns
    -------
    loss : float
    dscores : (L,) float32
        Gradient of the loss with respect to the scores.
    """


@_declare
def list_mle(
    scores, runtimes, reduction="sum", seed=0, offsets=None, *, temperature=1.0, max_norm=0.0, weights=None
):
    """ListMLE (Xia et al. 2008): ``sum_k log(sum_{l>=k} exp(s_l)) - s_k``, entries in order slowest first.

    Every suffix sum is shifted by its own maximum, so nothing under- or overflows and no epsilon stands
    inside the logarithm. Entries of equal runtime are put in an order drawn from `seed`.

    Parameters
    ----------
    scores, runtimes, seed, offsets, weights
        As for `weighted_sum`.
    reduction : {"sum", "mean-all"}
        Sum over a list, or that divided by its length.
    temperature : float
        Scores are divided by it; from 0.001 to 1e6.
    max_norm : float
        A list's scores are scaled down to this norm first; 0: never.

    Returns
    -------
    loss : float
    dscores : (L,) float32
    """


_DECLARED = {"pairwise_hinge": pairwise_hinge, "list_mle": list_mle}
FACES = {name: _DECLARED.get(name) or _of_table(loss) for name, loss in _LOSSES.items()}
globals().update(FACES)
__all__ += FACES
