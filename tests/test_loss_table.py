"""Every loss of the table against its reference, and what sums, weights and lists do with any of them."""

import inspect
from itertools import product

import numpy as np
import pytest
from loss_cases import CASES, EACH, IDS, TABLE, data, run
from reference import losses as ref
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core

each = pytest.mark.parametrize(("case", "reduction"), EACH, ids=IDS)
every_case = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
every_loss = pytest.mark.parametrize("loss", TABLE.values(), ids=list(TABLE))
OFFSETS = np.array([0, 0, 1, 20, 320, 321, 420, 500])


def close(got, expected, tolerance=1e-6, what=""):
    value, grad = got
    assert value == pytest.approx(expected[0], rel=1e-9, abs=1e-12), what
    assert grad.dtype == np.float32
    assert np.linalg.norm(grad - expected[1]) <= tolerance * np.linalg.norm(expected[1]) + 1e-12, what


def same(a, b):
    assert a[0] == b[0]
    assert a[1].tobytes() == b[1].tobytes()


def reference(case, reduction, scores, **given):
    return ref.weighted_sum(scores, [case.term(reduction)], **given)


# ---- the table ----


@every_loss
def test_every_loss_has_a_reference_and_cases(loss):
    cases = [case for case in CASES if case.loss == loss["name"]]
    assert callable(getattr(ref, loss["name"], None)), f"tests/reference/losses.py has no {loss['name']}"
    assert cases, f"tests/loss_cases.py has no row for {loss['name']}"
    assert any(not case.attrs for case in cases), "the defaults are no case"
    for attribute in loss["attrs"]:
        tried = {case.attrs.get(attribute["name"], attribute["default"]) for case in cases}
        wanted = set(attribute.get("choices", ()))
        assert len(tried) > 1 and wanted <= tried, f"{attribute['name']}: cases try {tried} only"


def test_every_case_and_reference_is_of_a_loss():
    assert {case.loss for case in CASES} == set(TABLE)
    assert len({case.id for case in CASES}) == len(CASES)


@every_loss
def test_the_table_says_everything(loss):
    assert loss["name"].isidentifier() and loss["doc"] and loss["least"] in (1, 2)
    assert loss["reads"] and set(loss["reads"]) <= set(loss["may_read"]) <= {"runtimes", "values"}
    assert loss["reductions"] and len(set(loss["reductions"])) == len(loss["reductions"])
    for a in loss["attrs"]:
        assert a["doc"] and a["name"] not in ("loss", "weight", "reduction", "over", "seed", "scores")
        if a["kind"] == "choice":
            assert a["default"] in a["choices"]
        else:
            assert a["low"] <= a["default"] <= a["high"]
            assert type(a["default"]) is {"int": int, "real": float}[a["kind"]]


@every_case
def test_what_a_sum_reads(case):
    reads = _core.losses_need([case.term()])
    assert set(reads) <= set(TABLE[case.loss]["may_read"])
    if not case.attrs:
        assert reads == TABLE[case.loss]["reads"]
    both = _core.losses_need([case.term(), {"loss": "mse"}, {"loss": "ranknet"}])
    assert both == ("runtimes", "values")


# ---- each loss ----


@each
def test_equals_reference(case, reduction):
    for length, ties, weights in product([0, 1, 2, 3, 17, 64, 255, 300], [False, True], [False, True]):
        scores, given = data(case, 1, length, ties, weights)
        got = run(case, reduction, scores, **given, seed=7)
        close(got, reference(case, reduction, scores, **given, seed=7), what=(length, ties, weights))


@every_case
@pytest.mark.parametrize("length", [5, 8, 67, 1100])
def test_equals_reference_on_every_isa(case, length):
    """Lengths around vectors; the longest is worked on in several chunks."""
    scores, given = data(case, 2, length)
    expected = reference(case, None, scores * np.float32(5), **given)
    for level in _core.isa_levels():
        _core.set_isa(level)
        close(run(case, None, scores * np.float32(5), **given), expected, what=level)


@pytest.mark.values
@each
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_reference_gradients_by_finite_differences(case, reduction, weights):
    _, given = data(case, 3, 20, ties=True, weights=weights)
    rng = np.random.default_rng(3)
    s, h = rng.normal(size=20), 1e-6
    grad = reference(case, reduction, s, **given)[1]
    for _ in range(5):
        d = rng.normal(size=20)
        ends = [reference(case, reduction, s + step * d, **given)[0] for step in (h, -h)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert abs(slope - grad @ d) <= 1e-6 * max(1.0, abs(slope))


@every_case
@pytest.mark.parametrize("length", [2, 40, 700])
def test_order_of_entries_does_not_matter(case, length):
    scores, given = data(case, 4, length, weights=True)
    scores = np.round(scores * 2) / np.float32(2)  # ties among scores
    turn = np.random.default_rng(4).permutation(length)
    value, grad = run(case, None, scores, **given)
    turned = run(case, None, scores[turn], **{k: v[turn] for k, v in given.items()})
    close(turned, (value, grad[turn].astype(np.float64)))


@every_case
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_same_bits_for_any_thread_count(case, weights):
    length = 6000 if TABLE[case.loss]["least"] == 1 else 2500  # of pairs: enough for several chunks
    scores, given = data(case, 5, length, ties=True, weights=weights)
    offsets = np.array([0, 1100, *range(1200, 1800, 100), 1850, length])
    results = []
    for threads in (1, 2, 3):
        tg.set_num_threads(threads)
        results += [run(case, None, scores, **given), run(case, None, scores, **given, offsets=offsets)]
    for i in (2, 4):
        same(results[i], results[0])
        same(results[i + 1], results[1])


@every_case
def test_extreme_scores(case):
    """Ranking losses stay finite; the gradient of a square may be beyond float32, and is then infinite."""
    scores = np.array([3e38, -3e38, 0, 1e4, -1e4, 80, 1e-30], dtype=np.float32)
    _, given = data(case, 6, 7)
    value, grad = run(case, None, scores, **given)
    expected = reference(case, None, scores, **given)
    assert np.isfinite(value) and not np.isnan(grad).any()
    assert value == pytest.approx(expected[0], rel=1e-9)
    fits = np.abs(expected[1]) < np.finfo(np.float32).max
    np.testing.assert_allclose(grad[fits], expected[1][fits], rtol=1e-6, atol=1e-30)
    assert np.isinf(grad[~fits]).all()


@every_case
@pytest.mark.parametrize("length", [1, 5, 300])
def test_everything_equal(case, length):
    scores, given = data(case, 7, length)
    scores[:] = 0.5
    given = {k: np.full_like(v, v[0]) for k, v in given.items()}
    close(run(case, None, scores, **given), reference(case, None, scores, **given))


@every_case
def test_inputs_are_not_written(case):
    scores, given = data(case, 8, 300, weights=True)
    given |= {"index": np.arange(300)[::-1].copy(), "offsets": np.array([0, 100, 300])}
    given |= {"scale": np.full(300, 2, np.float32), "shift": np.ones(300, np.float32)}
    copies = {k: v.copy() for k, v in given.items()}
    for array in (scores, *given.values()):
        array.flags.writeable = False
    kept = scores.copy()
    run(case, None, scores, **given)
    np.testing.assert_array_equal(scores, kept)
    for name, copy in copies.items():
        np.testing.assert_array_equal(given[name], copy)


# ---- lists, weights, sums ----


@each
def test_several_lists_are_averaged(case, reduction):
    scores, given = data(case, 9, 500, ties=True)
    given |= {"offsets": OFFSETS, "seed": 5}
    close(run(case, reduction, scores, **given), reference(case, reduction, scores, **given))


@every_case
def test_lists_from_all_over_the_batch(case):
    """An index has the bits of entries copied into that order; the rest has gradient 0."""
    scores, given = data(case, 10, 700, ties=True, weights=True)
    index = np.random.default_rng(10).permutation(700)[:500]
    got = run(case, None, scores, **given, index=index, offsets=OFFSETS)
    value, grad = run(case, None, scores[index], **{k: v[index] for k, v in given.items()}, offsets=OFFSETS)
    assert got[0] == value
    np.testing.assert_array_equal(got[1][index], grad)
    assert not np.delete(got[1], index).any()
    close(got, reference(case, None, scores, **given, index=index, offsets=OFFSETS))


@every_case
@pytest.mark.parametrize("indexed", [False, True])
def test_scale_and_shift_of_scores(case, indexed):
    """As of segments: the loss sees scale * score + shift, the gradient is of the scores as given."""
    scores, given = data(case, 11, 200)
    rng = np.random.default_rng(11)
    scale = rng.choice([-2, 0, 0.5, 4], 200).astype(np.float32)
    shift = (rng.integers(-8, 8, 200) / 4).astype(np.float32)
    given |= {"offsets": np.array([0, 70, 200])}
    if indexed:
        given |= {"index": rng.permutation(200)}
    got = run(case, None, scores, **given, scale=scale, shift=shift)
    close(got, reference(case, None, scores, **given, scale=scale, shift=shift), 1e-5)
    seen = (scores.astype(np.float64) * scale + shift).astype(np.float32)
    value, grad = run(case, None, seen, **given)
    assert got[0] == value
    np.testing.assert_array_equal(got[1], grad * scale)


@each
def test_weights_of_one_change_nothing_and_none_count_is_zero(case, reduction):
    scores, given = data(case, 12, 90, ties=True)
    plain = run(case, reduction, scores, **given)
    close(run(case, reduction, scores, **given, weights=np.ones(90, np.float32)), plain)
    value, grad = run(case, reduction, scores, **given, weights=np.zeros(90, np.float32))
    assert value == 0 and not grad.any()


@pytest.mark.parametrize(
    "name", ["pairwise_hinge", "ranknet", "mse", "log_mse", "msle", "mape", "quantile", "cross_entropy"]
)
def test_whole_weights_are_repetitions(name):
    """Where a ranking's places have no part, weight 3 is three such entries, and weight 0 none."""
    case = next(case for case in CASES if case.loss == name)
    scores, given = data(case, 13, 40, ties=True)
    times = np.random.default_rng(13).integers(0, 4, 40)
    many = np.repeat(np.arange(40), times)
    for reduction in TABLE[name]["reductions"]:
        value, grad = run(case, reduction, scores, **given, weights=times.astype(np.float32))
        repeated = run(case, reduction, scores[many], **{k: v[many] for k, v in given.items()})
        expected = np.bincount(many, repeated[1].astype(np.float64), 40)
        close((value, grad), (repeated[0], expected))


@pytest.mark.parametrize("first", range(0, len(TABLE), 8))
def test_weighted_sum_of_all_losses(first):
    """Eight terms at most, each with its own reduction and over lists or the batch."""
    scores, given = data(CASES[0], 14, 500, ties=True, weights=True)
    given |= {"values": np.random.default_rng(14).uniform(0.5, 1, 500), "offsets": OFFSETS, "seed": 3}
    terms = [
        {"loss": name, "weight": 0.5 + i, "over": ("list", "batch")[i % 2]} for i, name in enumerate(TABLE)
    ]
    terms = terms[first : first + 8]
    got = tg.kernels.weighted_sum(scores, terms, **given)
    close(got, ref.weighted_sum(scores, terms, **given))
    single = [tg.kernels.weighted_sum(scores, [term], **given) for term in terms]
    close(got, (sum(v for v, _ in single), sum(g.astype(np.float64) for _, g in single)))


@every_case
def test_over_the_batch_is_one_list(case):
    scores, given = data(case, 15, 500, ties=True)
    got = tg.kernels.weighted_sum(scores, [case.term(over="batch")], **given, offsets=OFFSETS)
    same(got, run(case, None, scores, **given))


def test_a_term_of_weight_zero_adds_nothing():
    scores, given = data(CASES[0], 16, 50)
    terms = [{"loss": "pairwise_hinge"}, {"loss": "ranknet", "weight": 0}]
    same(tg.kernels.weighted_sum(scores, terms, **given), run(CASES[0], None, scores, **given))


@every_case
def test_no_lists_and_short_lists(case):
    scores, given = data(case, 17, 3)
    value, grad = run(case, None, scores, **given, index=np.zeros(0, np.int64), offsets=np.zeros(1, np.int64))
    assert value == 0 and not grad.any()
    least = TABLE[case.loss]["least"]
    value, grad = run(case, None, scores, **given, offsets=np.arange(4))
    assert bool(value) == (least == 1) and grad.any() == (least == 1)


# ---- single losses ----


def test_lambda_rank_gives_equal_scores_a_gradient():
    """A model that begins with all scores equal must be able to learn; entries equal in all are treated equally."""
    runtimes = np.array([3, 1, 2, 2])
    _, grad = tg.kernels.lambda_rank(np.zeros(4, np.float32), runtimes)
    assert grad[1] > 0 > grad[0] and grad[2] == grad[3]


def test_lambda_rank_weighs_by_ndcg():
    """Two swapped at places 1 and 2 of three, by hand: gains 1, 1/2, 1/3."""
    scores = np.array([1, 0, 2], np.float32)
    value, _ = tg.kernels.lambda_rank(scores, np.array([0, 1, 2]))
    ideal = 1 + 0.5 / np.log2(3) + 1 / 6
    swaps = [(1, 0, 0.5, 1 - 1 / np.log2(3)), (2, 1, 1 / 6, 1 - 0.5), (2, 0, 2 / 3, 1 / np.log2(3) - 0.5)]
    expected = sum(g * d * np.log1p(np.exp(-(float(scores[i]) - float(scores[j])))) for i, j, g, d in swaps)
    assert value == pytest.approx(expected / ideal, rel=1e-12)


def test_schemes_of_lambda_loss_by_hand():
    """Two entries, gains 1 and 1/2, predicted the wrong way round."""
    scores, runtimes = np.array([1, 0], np.float32), np.array([0, 1])
    wrong, right = np.log2(1 + np.e), np.log2(1 + 1 / np.e)
    ideal, fall = 1 + 0.5 / np.log2(3), 1 - 1 / np.log2(3)
    expected = {
        "ndcg1": (wrong / np.log2(3) + 0.5 * right) / ideal,
        "ndcg2": 0.5 * fall * wrong / ideal,
        "arp1": wrong + 0.5 * right,
        "arp2": 0.5 * wrong,
    }
    for scheme, value in expected.items():
        assert tg.kernels.lambda_rank(scores, runtimes, scheme=scheme)[0] == pytest.approx(value, rel=1e-12)


def test_dcg_hinge_by_hand():
    """One pair, a margin of 1 and scores 0.5 the wrong way round: a hinge of 1.5."""
    value, grad = tg.kernels.dcg_hinge(np.array([0.5, 0], np.float32), np.arange(2))
    assert value == pytest.approx(1 / np.log(2) - 1 / np.log(3.5), rel=1e-14)
    assert grad[0] == pytest.approx(1 / (3.5 * np.log(3.5) ** 2), rel=1e-6) and grad[1] == -grad[0]


def test_permuted_margin_draws_by_the_seed():
    scores, given = data(CASES[0], 21, 60)
    seen = {
        tg.kernels.weighted_sum(scores, [{"loss": "permuted_margin"}], seed=seed, **given)[0]
        for seed in range(8)
    }
    assert len(seen) == 8
    many = tg.kernels.permuted_margin(scores, given["runtimes"], permutations=1024)[0]
    every = tg.kernels.pairwise_hinge(scores, given["runtimes"], 0.1, "mean-pairs")[0]
    assert many == pytest.approx(every, rel=0.02)


def test_scores_of_any_norm_have_one_loss_and_gradients_across():
    scores, given = data(CASES[0], 22, 40)
    terms = [{"loss": "list_mle", "max_norm": 1.0}]
    value, grad = tg.kernels.weighted_sum(scores, terms, **given)
    for factor in (np.float32(2), np.float32(2.0**100)):
        again = tg.kernels.weighted_sum(scores * factor, terms, **given)
        assert again[0] == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose(again[1] * factor, grad, rtol=1e-6)
    assert abs(grad.astype(np.float64) @ scores) < 1e-6 * np.linalg.norm(grad) * np.linalg.norm(scores)
    same(
        tg.kernels.weighted_sum(scores, [{"loss": "list_mle", "max_norm": 500.0}], **given),
        tg.kernels.weighted_sum(scores, [{"loss": "list_mle"}], **given),
    )


def test_ranknet_of_a_pair_by_hand():
    value, grad = tg.kernels.ranknet(np.array([2, 0], np.float32), np.array([1, 0]), sigma=0.5)
    assert value == pytest.approx(np.log1p(np.exp(-1)), rel=1e-14)
    assert grad[0] == np.float32(-0.5 / (1 + np.e)) == -grad[1]


def test_well_ordered_pairs_keep_their_tiny_loss():
    scores = np.array([0, 60, 120], np.float32)
    value, grad = tg.kernels.ranknet(scores, np.arange(3), reduction="sum")
    assert value == pytest.approx(2 * np.exp(-60) + np.exp(-120), rel=1e-12)
    assert grad[0] == pytest.approx(np.exp(-60), rel=1e-6)


# ---- what is refused ----


@every_loss
def test_attributes_out_of_range_are_named(loss):
    case = next(case for case in CASES if case.loss == loss["name"])
    scores, given = data(case, 18, 8)

    def wrong(error, match, **fields):
        with pytest.raises(error, match=match):
            tg.kernels.weighted_sum(scores, [{"loss": loss["name"], **fields}], **given)

    for a in loss["attrs"]:
        name = a["name"]
        if a["kind"] == "choice":
            for bad in ("nothing", 1.0):
                wrong(tg.ConfigError, f"{name}: expected one of .*{a['choices'][-1]}, found", **{name: bad})
            continue
        below, above = a["low"] - abs(a["low"]) / 2 - 1e-9, a["high"] * 1.5 + 1
        for bad in (
            below,
            above,
            np.nan,
            np.inf,
            "one",
            None,
            *([a["low"] + 0.5] if a["kind"] == "int" else []),
        ):
            wrong(tg.ConfigError, f"{loss['name']}: {name}: expected a", **{name: bad})
    known = "".join(f", {a['name']}" for a in loss["attrs"])
    wrong(tg.ConfigError, f"only weight, reduction, over{known}, found 'nothing'", nothing=1.0)
    for bad in ("max", 1):
        wrong(tg.ConfigError, f"reduction: expected one of .*{loss['reductions'][0]}", reduction=bad)
    wrong(tg.ConfigError, "over: expected one of list, batch", over="graph")
    for bad in (-1.0, "1", np.nan, np.inf):
        wrong(tg.ConfigError, "weight: expected a number in 0", weight=bad)


@every_case
def test_a_missing_target_is_named(case):
    scores, given = data(case, 19, 8)
    for name in _core.losses_need([case.term()]):
        with pytest.raises(tg.ConfigError, match=f"{case.loss} reads {name}"):
            run(case, None, scores, **{k: v for k, v in given.items() if k != name})


@every_case
def test_numbers_that_make_no_sense_are_named(case):
    scores, given = data(case, 20, 8, weights=True)
    reads = _core.losses_need([case.term()])
    offsets, index = np.array([0, 3, 8]), np.arange(8)[::-1].copy()
    fine = {"scale": np.ones(8, np.float32), "shift": np.zeros(8, np.float32)} | given | {"scores": scores}
    wrong = {
        "scores": (np.nan, np.inf),
        "scale": (np.nan,),
        "shift": (-np.inf,),
        "weights": (-1, np.nan, np.inf),
    }
    if "values" in reads:
        wrong["values"] = (np.nan, np.inf)
    for name, bad in ((name, bad) for name, values in wrong.items() for bad in values):
        broken = fine[name].copy()
        broken[5] = bad
        some = fine | {name: broken}
        with pytest.raises(tg.DataError, match=f"{name}: expected finite.*at index 5 .list 1"):
            run(case, None, some.pop("scores"), **some, offsets=offsets)
        some = fine | {name: broken}
        with pytest.raises(tg.DataError, match=f"{name}: expected finite.*at index 5 .list 0"):
            run(case, None, some.pop("scores"), **some, offsets=offsets, index=index)
    few = np.array([0, 1, 2])  # what is in no list is not looked at
    scores[5] = np.nan
    assert np.isfinite(run(case, None, scores, **given, index=few)[0])


def test_values_a_logarithm_cannot_take():
    scores, values = np.zeros(3, np.float32), np.array([1.0, 0.0, 2.0])
    for terms in ([{"loss": "log_mse"}], [{"loss": "mse"}, {"loss": "log_mse"}]):
        with pytest.raises(tg.DataError, match="values.*log_mse.*index 1"):
            tg.kernels.weighted_sum(scores, terms, values=values)
    assert np.isfinite(tg.kernels.log_mse(scores, values, offset=1.0)[0])
    with pytest.raises(tg.DataError, match="above -1.*index 1"):
        tg.kernels.log_mse(scores, values - [0, 1, 0], offset=1.0)
    with pytest.raises(tg.DataError, match="lambda_rank"):
        tg.kernels.lambda_rank(scores, np.arange(3), values=values, gain="inverse")
    assert np.isfinite(tg.kernels.lambda_rank(scores, np.arange(3), values=values)[0])


def test_logarithms_of_times_by_hand():
    scores, values = np.array([0.0, np.e - 1, -2.0], np.float32), np.array([np.e - 1, 0.0, -0.5])
    value, grad = tg.kernels.msle(scores, values, reduction="sum")
    assert value == pytest.approx(1 + 1 + (-2 + np.log(2)) ** 2, rel=1e-7)
    np.testing.assert_allclose(grad, [-2, 2 / np.e, 2 * (-2 + np.log(2))], rtol=1e-6)
    with pytest.raises(tg.DataError, match="values.*msle.*index 2"):
        tg.kernels.msle(scores, np.array([0.0, 1.0, -1.0]))


@pytest.mark.parametrize("bad", [-1e-9, 1.0000001])
def test_values_that_are_no_shares(bad):
    scores, values = np.zeros(3, np.float32), np.array([0.0, 1.0, bad])
    for terms in ([{"loss": "cross_entropy"}], [{"loss": "cross_entropy"}, {"loss": "mse"}]):
        with pytest.raises(tg.DataError, match="values.*cross_entropy.*index 2"):
            tg.kernels.weighted_sum(scores, terms, values=values)
    assert tg.kernels.cross_entropy(scores[:2], values[:2])[0] == pytest.approx(np.log(2), rel=1e-15)


def test_lists_that_are_none():
    scores, runtimes = np.zeros(4, np.float32), np.arange(4)

    def wrong(error, match, **lists):
        with pytest.raises(error, match=match):
            tg.kernels.ranknet(
                scores, runtimes, **lists
            ) if "index" not in lists else tg.kernels.weighted_sum(
                scores, [{"loss": "ranknet"}], runtimes, **lists
            )

    wrong(tg.DataError, r"index: expected positions.*4 at place 1", index=np.array([0, 4]))
    wrong(tg.DataError, r"index: expected positions.*-1 at place 0", index=np.array([-1]))
    wrong(
        tg.DataError,
        r"at most once, found 2 again at place 3 .list 1",
        index=np.array([2, 1, 0, 2]),
        offsets=np.array([0, 2, 4]),
    )
    wrong(tg.ShapeError, "index: expected int64", index=np.array([0], np.int32))
    wrong(
        tg.ShapeError,
        "from 0 to 2 .the number of places of the index., found 0 to 4",
        index=np.array([0, 1]),
        offsets=np.array([0, 4]),
    )
    wrong(tg.ShapeError, "offsets", offsets=np.array([0, 3, 2, 4]))
    wrong(tg.ShapeError, "more places|offsets", index=np.arange(5), offsets=np.array([0, 5]))


def test_a_scaled_score_beyond_float32_is_named():
    big = np.full(3, 3e38, np.float32)
    with pytest.raises(tg.DataError, match="scale.*index 0"):
        tg.kernels.weighted_sum(big, [{"loss": "ranknet"}], np.arange(3), scale=big)


def test_sums_that_are_none():
    scores, runtimes, one = np.zeros(4, np.float32), np.arange(4), [{"loss": "ranknet"}]
    for bad in ([], (), {"loss": "ranknet"}, "ranknet", ["ranknet"], [{}], [{"loss": 3}], [{3: 4}]):
        refuses(lambda: tg.kernels.weighted_sum(scores, bad, runtimes), tg.ConfigError, "loss:")
    hinge = [{"loss": "hinge"}]
    refuses(
        lambda: tg.kernels.weighted_sum(scores, hinge, runtimes), tg.ConfigError, "pairwise_hinge", "'hinge'"
    )
    refuses(lambda: tg.kernels.weighted_sum(scores, one * 9, runtimes), tg.ConfigError, "terms")
    for name in ("values", "weights", "scale", "shift"):
        half = {name: np.zeros(3, np.float16)}
        refuses(lambda: tg.kernels.weighted_sum(scores, one, runtimes, **half), tg.ShapeError, f"{name}:")


# ---- faces ----


@every_case
def test_every_loss_has_a_face(case):
    face = getattr(tg.kernels, case.loss)
    assert face is getattr(tg.kernels.losses, case.loss) and case.loss in tg.kernels.__all__
    scores, given = data(case, 21, 30)
    defaults = {name: p.default for name, p in inspect.signature(face).parameters.items()}
    assert defaults["reduction"] == TABLE[case.loss]["reductions"][0]
    assert all(name in face.__doc__ for name in defaults)
    named = {name: value for name, value in given.items() if name in defaults}
    attrs = {name: value for name, value in case.attrs.items() if name in defaults}
    if attrs == case.attrs:
        same(face(scores, **named, **attrs), run(case, None, scores, **given))
    with pytest.raises(TypeError):
        face(scores, **named, nothing=3)


def test_lambda_rank_of_values_that_are_not_those_of_the_order():
    """The fastest by order has a gain of 0, and no other is in reach: there is nothing to gain."""
    scores, values = np.array([0, 1], np.float32), np.array([1e308, 1e-300])
    value, grad = tg.kernels.lambda_rank(scores, np.arange(2), values=values, gain="inverse", k=1)
    assert value == 0 and not grad.any()
