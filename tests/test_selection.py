"""Selection of rankers: rules against a reference, and bootstrap intervals."""

import math

import numpy as np
import pytest
from refusals import refuses

import tpugraphs as tg
from tpugraphs.evaluation.bootstrap import bootstrap_tau, deviations
from tpugraphs.metrics import kendall_tau
from tpugraphs.training.selection import ONE_STANDARD_ERROR, Rule, SeedMetrics


def judged(seed=0, rankers=5, graphs=6, n=80, spread=0.5):
    """Rankers that know the runtimes more or less well."""
    rng = np.random.default_rng(seed)
    runtimes = [rng.permutation(n) + 1 for _ in range(graphs)]
    noise = rng.uniform(10, 10 + 60 * spread, rankers)
    scores = [[(y + rng.normal(0, s, n)).astype(np.float32) for y in runtimes] for s in noise]
    return SeedMetrics(scores, runtimes, kendall_tau), scores, runtimes


def test_means_and_spread():
    j, scores, runtimes = judged()
    values = np.array([[kendall_tau(s, y) for s, y in zip(own, runtimes, strict=True)] for own in scores])
    assert (j.values == values).all() and j.over == "graphs"
    assert j.mean == pytest.approx(values.mean()) and j.sd == pytest.approx(values.mean(axis=1).std(ddof=1))
    low, high = j.interval
    assert low < j.mean < high
    # About two standard errors of the mean over graphs to each side.
    error = values.mean(axis=0).std(ddof=1) / math.sqrt(6)
    assert 2 * error < high - low < 5 * error


@pytest.mark.parametrize("seed", range(6))
def test_one_standard_error_of_the_difference(seed):
    j, _, _ = judged(seed)
    best = int(np.argmax(j.values.mean(axis=1)))
    choices = j.choose(Rule.parse(ONE_STANDARD_ERROR))
    for i, choice in enumerate(choices):
        d = j.values[best] - j.values[i]
        expected = i == best or d.mean() <= d.std(ddof=1) / math.sqrt(d.size)
        assert choice.selected == expected and f"{j.means[i]:.4f}" in choice.why
    assert "is the best" in choices[best].why


def test_one_graph_is_judged_over_its_configs():
    j, scores, runtimes = judged(graphs=1, n=400)
    assert j.over == "configs"
    drawn = deviations([own[0] for own in scores], runtimes[0], kendall_tau, draws=1000, seed=0)
    assert j.standard_error(1, 2) == pytest.approx((drawn[1] - drawn[2]).std(ddof=1))
    low, high = j.interval
    assert low < j.mean < high
    alone = SeedMetrics([scores[0]], runtimes, kendall_tau)
    assert math.isnan(alone.sd) and alone.interval == pytest.approx(bootstrap_tau(scores[0][0], runtimes[0]))
    same = SeedMetrics([scores[0], scores[0]], runtimes, kendall_tau)
    assert same.standard_error(0, 1) == 0 and all(
        c.selected for c in same.choose(Rule.parse(ONE_STANDARD_ERROR))
    )


def test_what_makes_all_graphs_hard_does_not_count():
    """Graphs of very different difficulty: a ranker that is worse on each of them is not kept."""
    rng = np.random.default_rng(0)
    runtimes = [rng.permutation(200) + 1 for _ in range(8)]
    scores = [
        [(y + rng.normal(0, 3.0**g * extra, 200)).astype(np.float32) for g, y in enumerate(runtimes)]
        for extra in (1.0, 1.6)
    ]
    j = SeedMetrics(scores, runtimes, kendall_tau)
    assert j.values[0].std() > 5 * (j.means[0] - j.means[1])
    assert [c.selected for c in j.choose(Rule.parse(ONE_STANDARD_ERROR))] == [True, False]


@pytest.mark.parametrize("k", [1, 3, 9])
def test_the_best_k(k):
    j, _, _ = judged(3)
    for select in (k, f"best-{k}", np.int64(k)):
        choices = j.choose(Rule.parse(select))
        kept = {i for i, c in enumerate(choices) if c.selected}
        assert kept == set(np.argsort(-j.means, kind="stable")[:k].tolist())
    assert "number 1, among the best" in choices[j.best].why


def test_of_equal_ones_the_first_is_the_best():
    _, scores, runtimes = judged()
    j = SeedMetrics([scores[0], scores[0], scores[0]], runtimes, kendall_tau)
    assert [c.selected for c in j.choose(Rule.parse(2))] == [True, True, False] and j.best == 0


def test_all():
    j, _, _ = judged()
    assert all(c.selected for c in j.choose(Rule.parse("all")))


@pytest.mark.parametrize(
    "select", ["best", "best-0", "best-", 0, -1, 1.5, True, None, [], "one standard error"]
)
def test_other_rules_are_refused(select):
    refuses(lambda: Rule.parse(select), tg.ConfigError, "select", "'all'", "'one-standard-error'", "'best-3'")


def test_rules_have_words():
    texts = {Rule.parse(select).text for select in ("all", ONE_STANDARD_ERROR, 1, "best-3")}
    assert len(texts) == 4
