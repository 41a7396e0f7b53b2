"""Queries of one's own: the posterior by plain algebra, the price, what the limits are."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.accounting import Gaussian, Pure
from skpublicdp.ledger import Ledger
from skpublicdp.query_release import CustomQueries, StumpQueries
from skpublicdp.query_release.custom import _posterior, release_answers

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_posterior_is_the_linear_one(n):
    half = RNG.normal(size=(n, n))
    covariance, precisions = half @ half.T + 0.01 * np.eye(n), RNG.uniform(1, 50, n)
    mean, values = RNG.normal(size=(2, n))
    found, variance, factor = _posterior(mean, covariance, values, precisions, 1.0, trust=4.0)
    assert factor == 0.25
    prior = 0.25 * covariance
    gain = prior @ np.linalg.inv(prior + np.diag(1 / precisions))
    np.testing.assert_allclose(found, mean + gain @ (values - mean), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variance, np.diag(prior - gain @ prior), rtol=1e-9, atol=1e-12)


def test_values_without_noise_are_believed():
    covariance, values = np.diag([0.2, 0.1]) + 0.05, np.array([0.9, 0.1])
    found, variance, _ = _posterior(np.full(2, 0.5), covariance, values, np.full(2, 1e14), 1e-3)
    np.testing.assert_allclose(found, values, atol=1e-9)
    assert (variance < 1e-9).all()


def test_drift_is_noticed():
    covariance, mean = 0.25 * np.eye(40), np.full(40, 0.5)
    precise = np.full(40, 1e6)
    near = mean + RNG.normal(0, np.sqrt(0.25e-3), 40)
    assert _posterior(mean, covariance, near, precise, 1e-3)[2] == 1e-3
    assert _posterior(mean, covariance, near + 0.2, precise, 1e-3)[2] > 0.02


@pytest.mark.parametrize("n_queries", [1, 3])
def test_a_replaced_row_moves_each_count_by_at_most_one(n_queries):
    """So that the noise is that of the sensitivity which the release claims."""
    answers = list(itertools.product([0, 1], repeat=n_queries))
    moves = np.array([np.subtract(a, b) for a in answers for b in answers])
    assert np.abs(moves).sum(axis=1).max() == n_queries
    assert np.square(moves).sum(axis=1).max() == n_queries
    ledgers = {"gaussian": Ledger(1, Fraction(1, 10**6), 0), "pure": Ledger(1, 0, 0)}
    spreads = {}
    for kind, ledger in ledgers.items():
        drawn = []
        ledger._sample_noise = lambda event, spread, table, drawn=drawn: (
            drawn.append((event, spread)) or np.zeros_like(table)
        )
        counts = np.arange(n_queries) + 40
        release_answers(counts, 100, np.zeros((0, n_queries), dtype=int), ledger=ledger)
        ((event, spreads[kind]),) = drawn
        assert event == ledger.event
        if isinstance(event, Gaussian):
            assert spreads[kind] >= Fraction(n_queries) / event.mu_squared
            assert spreads[kind] <= Fraction(n_queries) / event.mu_squared * Fraction(10001, 10000)
        else:
            assert isinstance(event, Pure)
            assert spreads[kind] == n_queries


def test_public_rows_tell_how_queries_go_together():
    """One query that is measured badly is told by another that holds for the same rows."""
    ties = RNG.random(4000) < 0.3
    public = np.column_stack([ties] * 30).astype(int)
    private = RNG.random(50_000) < 0.4
    counts = np.full(30, private.sum())
    release = release_answers(
        counts, len(private), public, ledger=Ledger(Fraction(1, 100), Fraction(1, 10**9), 0)
    )
    found = np.array([release.fractions[j,][1] for j in range(30)])
    alone = release_answers(
        counts, len(private), public[:0], ledger=Ledger(Fraction(1, 100), Fraction(1, 10**9), 0)
    )
    apart = np.array([alone.fractions[j,][1] for j in range(30)])
    assert np.abs(found - private.mean()).max() < 0.3 * np.abs(apart - private.mean()).max()


@pytest.mark.parametrize("delta", [None, 0])
def test_columns_share_what_the_plan_holds(delta):
    X = np.column_stack([RNG.normal(size=2000), RNG.integers(3, size=2000)])
    release = PAPQueryRelease(StumpQueries(), delta=delta, random_state=0).fit(
        X[200:], X_public=X[:200]
    )
    mechanisms = release.privacy_.mechanisms
    assert len(mechanisms) == 2
    if delta == 0:
        assert sum(Fraction(each.epsilon) for each in mechanisms) <= 1
    answers = release.answer([[0, 0.0], [1, 1.0]])
    lines = release._released.table.lines
    np.testing.assert_array_equal(answers, [lines[0].cdf(0.0), lines[1].cdf(1.0)])
    low, high = release.interval([[0, 0.0], [1, 1.0]]).T
    assert (low < answers).all()
    assert (answers < high).all()


def test_a_position_that_is_not_listed():
    X = RNG.normal(size=(500, 2))
    queries = CustomQueries(lambda X: X > 0)
    release = PAPQueryRelease(queries, random_state=0).fit(X[100:], X_public=X[:100])
    with pytest.raises(ValueError, match="positions below 2"):
        release.answer([[2]])
