"""Losses of lists of scores: value and gradient in one call.

``_core.losses()`` is their table: name, meaning, attributes with ranges, reductions, and what each reads.

- A ranking loss reads ``runtimes``, of which only the order matters, and compares them exactly. A score rises
  with run time, so for ``runtimes[i] > runtimes[j]`` it wants ``scores[i] > scores[j]``.
- A pointwise loss reads ``values``, numbers that scores predict: for ``mse``, ``msle`` and ``mape`` a score
  is a value, for ``log_mse`` the logarithm of one, for ``cross_entropy`` the logit of a share from 0 to 1.
  What values are (times, log-times, percentiles) is up to the caller.

Within a list, ``"sum"`` adds up, ``"mean"`` divides by W, the sum of the list's weights (its length if there
are none), ``"mean-all"`` by W**2 for pairs and by W for ListMLE, ``"mean-pairs"`` by the total weight of the
pairs. The loss is the mean over lists; a list too short for a loss adds 0 but counts. With sample weights
w, pair (i, j) weighs ``w[i] * w[j]`` and a term of one entry as much as the entry; an entry of weight 0 still
has its place in a ranking. Sums are made of 64-bit numbers and have the same bits for any number of threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.kernels.faces import attribute_type, literal
from tpugraphs.system.arguments import check_whole

__all__ = ["list_mle", "pairwise_hinge", "ratio_ranks", "weighted_sum"]

Result = tuple[float, NDArray[np.float32]]
Runtimes = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.float64] | NDArray[np.float32]
_TYPES = {  # of arguments that are not attributes of a loss
    "scores": "NDArray[np.float32]",
    "runtimes": "Runtimes",
    "values": "NDArray[np.float64]",
    "weights": "NDArray[np.float32] | None",
    "offsets": "NDArray[np.int64] | None",
}


def ratio_ranks(runtimes: NDArray[np.int64], normalizers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranks of normalised runtimes: whole numbers with exactly the order of ``runtimes / normalizers``.

    A loss compares whole numbers; quotients are compared here, once per graph, by their products crosswise in
    128 bits, so that none is rounded.

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


def pairwise_hinge(
    scores: NDArray[np.float32],
    runtimes: Runtimes,
    margin: float = 1.0,
    reduction: Literal["mean-all", "sum", "mean-pairs"] = "mean-all",
    offsets: NDArray[np.int64] | None = None,
    *,
    weights: NDArray[np.float32] | None = None,
) -> Result:
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
    terms = [{"loss": "pairwise_hinge", "reduction": reduction, "margin": margin}]
    return weighted_sum(scores, terms, runtimes, weights=weights, offsets=offsets)


def list_mle(
    scores: NDArray[np.float32],
    runtimes: Runtimes,
    reduction: Literal["sum", "mean-all"] = "sum",
    seed: int = 0,
    offsets: NDArray[np.int64] | None = None,
    *,
    temperature: float = 1.0,
    max_norm: float = 0.0,
    weights: NDArray[np.float32] | None = None,
) -> Result:
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
    terms = [{"loss": "list_mle", "reduction": reduction, "temperature": temperature, "max_norm": max_norm}]
    return weighted_sum(scores, terms, runtimes, weights=weights, offsets=offsets, seed=seed)


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
    """Weighted sum of losses over lists of scores.

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
        List ``b`` is ``[offsets[b], offsets[b+1])`` of `index`, or of the scores if there is none. Without
        offsets, everything is one list.
    index : (E,) int64, optional
        Positions of scores, each at most once: a list takes entries from anywhere. The others take no part in
        the loss; their gradient is 0.
    scale, shift : (L,) float32, optional
        The losses see ``scale * scores + shift``, rounded to float32.
    seed : int
        Key of the draws, 0 <= seed < 2**64: tie breaks of ListMLE, permutations. Those of a list also depend
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
        A number that is not finite or out of range, an index out of range or given twice.
    ConfigError
        An unknown loss, attribute or reduction, a number out of its range, no runtimes or values for a loss
        that reads them.
    """
    key = check_whole("seed", seed, -(2**63), 2**64 - 1)
    return _core.losses_run(losses, scores, runtimes, values, weights, offsets, index, scale, shift, key)


def _parameters(loss: dict[str, Any]) -> list[inspect.Parameter]:
    """Parameters of a face: scores and targets, then by keyword what every loss has and its attributes."""
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [inspect.Parameter("scores", either)]
    found += [inspect.Parameter(target, either) for target in loss["reads"]]
    defaults = {target: None for target in loss["may_read"] if target not in loss["reads"]}
    defaults |= {attribute["name"]: attribute["default"] for attribute in loss["attrs"]}
    defaults |= {"reduction": loss["reductions"][0], "weights": None, "offsets": None}
    keyword = inspect.Parameter.KEYWORD_ONLY
    found += [inspect.Parameter(name, keyword, default=value) for name, value in defaults.items()]
    types = {**_TYPES, "reduction": literal(loss["reductions"])}
    types |= {target: f"{_TYPES[target]} | None" for target in loss["may_read"] if target in defaults}
    for attribute in loss["attrs"]:
        types[attribute["name"]] = attribute_type(attribute)
    return [parameter.replace(annotation=types[parameter.name]) for parameter in found]


def _document(loss: dict[str, Any]) -> str:
    lines = [f"Value and gradient of a loss: {loss['doc']}.", "", "Parameters", "----------"]
    lines += [f"scores, {', '.join(loss['may_read'])}, weights, offsets", "    As for `weighted_sum`."]
    for a in loss["attrs"]:
        kind = " or ".join(map(repr, a["choices"])) if "choices" in a else attribute_type(a)
        limits = "" if "choices" in a else f" From {a['low']:g} to {a['high']:g}."
        lines += [f"{a['name']} : {kind}, default {a['default']!r}"]
        lines += [f"    {a['doc'][0].upper()}{a['doc'][1:]}.{limits}"]
    lines += [f"reduction : {' or '.join(map(repr, loss['reductions']))}", "    Within a list."]
    lines += ["", "Returns", "-------", "loss : float", "dscores : (L,) float32"]
    return "\n".join(lines) + "\n"


def _face(loss: dict[str, Any]) -> Callable[..., Result]:
    """Make the function of one loss from its row of the table."""
    name, attributes = loss["name"], [a["name"] for a in loss["attrs"]]
    signature = inspect.Signature(_parameters(loss), return_annotation="Result")

    def face(*args: Any, **kwargs: Any) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        term = {"loss": name} | {key: given.pop(key) for key in ["reduction", *attributes]}
        return weighted_sum(given.pop("scores"), [term], **given)

    face.__name__ = face.__qualname__ = name
    face.__doc__ = _document(loss)
    face.__signature__ = signature  # type: ignore[attr-defined]
    return face


FACES = {loss["name"]: _face(loss) for loss in _core.losses() if loss["name"] not in __all__}
globals().update(FACES)
__all__ += FACES
