"""Bounds of PPMHalfspaceClassifier by counted errors, and for a status that may differ."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import clone

from skpublicdp import PPMHalfspaceClassifier, PrivacyBudget
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import TooFewRowsWarning, UnprovedWarning
from skpublicdp.hypotheses import HalfspaceIntersections, Halfspaces
from tests.helpers import allowed_failures, public_sample
from tests.internals.guarantees import (
    ErrorCounts,
    evaluated_guarantee,
    laplace_quantile,
    ppm_guarantee,
    upper_binomial_limit,
)
from tests.internals.hypotheses import tabulate
from tests.internals.privacy import Ledger
from tests.internals.rules import cover_search, ppm

pytestmark = pytest.mark.once

few_rows = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
EVALUATED = PPMHalfspaceClassifier(
    private_label=1, evaluation_share=0.2, max_halfspaces=40, random_state=0
)


def mixture(rng, n, d, public_share, noise=0.0, status_error=0.0):
    """Rows on both sides of a hyperplane, with labels and a mask of public rows."""
    y = (rng.random(n) >= public_share).astype(int)
    X = rng.normal(size=(n, d))
    X[:, 0] = np.where(y == 1, 1, -1) * np.abs(X[:, 0])
    y = np.where(rng.random(n) < noise, 1 - y, y)
    return X, y, (y == 0) & (rng.random(n) >= status_error)


class TestLimits:
    @pytest.mark.parametrize("n", [1, 7, 400])
    @pytest.mark.parametrize("log_beta", [math.log(0.3), -5.0, -20.0])
    def test_the_binomial_limit_is_where_the_tail_is_beta(self, n, log_beta):
        for successes in {0, n // 3, n - 1}:
            limit = upper_binomial_limit(successes, n, log_beta)
            assert binom.logcdf(successes, n, limit) == pytest.approx(log_beta, rel=1e-6)
        assert upper_binomial_limit(n, n, log_beta) == 1

    def test_it_is_one_without_rows_or_below_the_smallest_float(self):
        assert upper_binomial_limit(0, 0, -1.0) == 1
        assert upper_binomial_limit(0, 100, -700.0) == 1

    @pytest.mark.parametrize("scale", [Fraction(1, 9), Fraction(1), Fraction(7, 2), Fraction(60)])
    @pytest.mark.parametrize("beta", [0.6, 0.2, 1e-3, 1e-9])
    def test_the_quantile_of_the_noise(self, scale, beta):
        """The smallest one, by the sum of all probabilities."""
        values = np.arange(-4000, 4001)
        weights = np.exp(-np.abs(values) / float(scale))
        below = np.cumsum(weights / weights.sum())  # P(Z <= value)
        t = laplace_quantile(scale, beta)
        assert below[4000 - t - 1] <= beta * (1 + 1e-9)
        assert t == 0 or below[4000 - t] > beta


@functools.cache
def bound(*counts, beta):
    return evaluated_guarantee(ErrorCounts(*counts), beta, 0.0).bound


class TestExactFrequency:
    """The probability that the bound fails, summed over all outcomes, for one fixed rule."""

    @pytest.mark.parametrize("beta", [0.2, 0.8])
    @pytest.mark.parametrize(
        ("share", "private_error", "public_error"),
        [(0.3, 0.2, 0.5), (0.5, 0.05, 0.9), (0.8, 0.6, 0.1), (0.1, 0.0, 1.0), (0.5, 1.0, 0.0)],
    )
    def test_it_is_at_most_beta(self, beta, share, private_error, public_error):
        n, scale = 12, Fraction(1, 2)
        error = share * public_error + (1 - share) * private_error
        noise = np.arange(-14, 15)
        noise_chances = np.exp(-np.abs(noise) / float(scale))
        noise_chances /= noise_chances.sum()
        failure = 0.0
        for m in range(n + 1):
            n_private, held_out = n - m, m // 2
            for k, wrong in itertools.product(range(n_private + 1), range(held_out + 1)):
                chance = (
                    binom.pmf(m, n, share)
                    * binom.pmf(k, n_private, private_error)
                    * binom.pmf(wrong, held_out, public_error)
                )
                fails = [
                    bound(n_private, int(k + z), scale, m, held_out, wrong, beta=beta) < error
                    for z in noise
                ]
                failure += chance * noise_chances[fails].sum()
        assert failure <= beta


class TestManyRules:
    def test_the_best_of_many_worthless_rules(self):
        """Each errs on half of the population. The union over all rules is needed."""
        rng = np.random.default_rng(0)
        n, held_out, n_rules, trials = 60, 30, 2000, 300
        failures = {0.0: 0, math.log(n_rules): 0}
        for _ in range(trials):
            private = rng.binomial(n, 0.5, n_rules)
            public = rng.binomial(held_out, 0.5, n_rules)
            best = np.argmin(private + public)
            counts = ErrorCounts(
                n, int(private[best]), Fraction(1, 20), 2 * held_out, held_out, int(public[best])
            )
            for log_rules in failures:
                promised = evaluated_guarantee(counts, 0.2, log_rules).bound
                failures[log_rules] += promised < 0.5
        assert failures[math.log(n_rules)] <= allowed_failures(trials, 0.2)
        assert failures[0.0] > trials / 2

    @few_rows
    @pytest.mark.parametrize("n_draws", [1, 3])
    def test_all_draws_are_counted(self, n_draws, monkeypatch):
        X, y, _ = mixture(np.random.default_rng(0), 3000, 5, 0.4)
        monkeypatch.setattr(cover_search, "n_rounds", lambda *_: n_draws)
        seen = []
        monkeypatch.setattr(
            ppm,
            "evaluated_guarantee",
            lambda *arguments: seen.append(arguments) or evaluated_guarantee(*arguments),
        )
        clf = clone(EVALUATED).fit(X, y)
        size = clf.cover_size_
        ((counts, beta, log_rules),) = seen
        assert log_rules == pytest.approx(math.log(sum(size**t for t in range(1, n_draws + 1))))
        assert beta == 0.05
        assert counts[0] == (y == 1).sum()
        assert counts[3:5] == ((y == 0).sum(), (y == 0).sum() // 2)


@few_rows
class TestFit:
    def test_the_count_is_exact_but_for_its_noise(self, monkeypatch):
        X, y, mask = mixture(np.random.default_rng(0), 2000, 3, 0.4, status_error=0.2)
        tables = []

        def add_seventeen(self, event, scale, table):
            tables.append(table)
            return np.full_like(table, 17)

        monkeypatch.setattr(Ledger, "_sample_noise", add_seventeen)
        clf = clone(EVALUATED).fit(X, y, is_public=mask)
        wrong = (clf.predict(X) != y)[~mask].sum()
        assert tables == [wrong]
        assert tables[0].dtype == np.int64
        assert f"about {wrong + 17} errors in {(~mask).sum()} rows" in clf.guarantee_reason_

    @pytest.mark.parametrize("share", [Fraction(1, 10), 0.5])
    def test_draws_and_count_spend_epsilon_together(self, share):
        X, y, _ = mixture(np.random.default_rng(0), 2000, 5, 0.4)
        clf = clone(EVALUATED).set_params(evaluation_share=share, epsilon=0.7).fit(X, y)
        *draws, count = clf.privacy_.mechanisms
        assert count.epsilon == pytest.approx(0.7 * float(share))
        assert sum(draw.epsilon for draw in draws) == pytest.approx(0.7 * (1 - float(share)))
        assert clf.privacy_.epsilon == pytest.approx(0.7)

    @pytest.mark.parametrize("pool", ["auto", "paper"])
    def test_held_out_rows_generate_nothing(self, pool, monkeypatch):
        X, y, _ = mixture(np.random.default_rng(0), 1501, 3, 0.4)
        seen = []
        cover = PPMHalfspaceClassifier._cover

        def spy(self, rows, supports):
            seen.append(supports)
            return cover(self, rows, supports)

        monkeypatch.setattr(PPMHalfspaceClassifier, "_cover", spy)
        model = clone(EVALUATED).set_params(pool=pool)
        model.fit(X, y)
        m = (y == 0).sum()
        n_generating = (m + 1) // 2 if pool == "auto" else 19
        assert len(seen[0]) == n_generating
        # all other public rows change, on a plane, and the supports are the same rows
        is_support = (X[:, None] == seen[0][None]).all(axis=2).any(axis=1)
        moved = np.where(((y == 0) & ~is_support)[:, None], np.round(X) * [1, 1, 0], X)
        if pool == "auto":
            model.fit(moved, y)
            np.testing.assert_array_equal(seen[0], seen[1])

    def test_any_pool_weight_and_status_has_a_bound(self):
        X, y, mask = mixture(np.random.default_rng(0), 6000, 4, 0.4, noise=0.05, status_error=0.2)
        for parameters, rows in [
            ({}, {}),
            ({"pool": "paper"}, {}),
            ({"class_weight": "balanced"}, {}),
            ({"max_intersections": 1}, {}),
            ({}, {"is_public": mask}),
        ]:
            clf = clone(EVALUATED).set_params(epsilon=5.0, **parameters).fit(X, y, **rows)
            assert (clf.predict(X) != y).mean() < clf.guarantee_ < 0.6

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_extreme_numbers_of_rows(self):
        X, y, _ = mixture(np.random.default_rng(0), 300, 2, 0.5)
        for labels in (np.ones(300, dtype=int), np.zeros(300, dtype=int)):
            clf = clone(EVALUATED).fit(X, labels)
            assert 0 < clf.guarantee_ < 0.2 or labels[0] == 0
        for m in (0, 1, 2):
            clf = clone(EVALUATED).fit(X, y, is_public=np.arange(300) < m)
            assert 0 < clf.guarantee_ <= 1

    def test_where_it_has_none_it_says_why(self):
        X, y, _ = mixture(np.random.default_rng(0), 400, 2, 0.3)
        public = y == 0
        described = describe_columns({"a": (-3, 3), "b": (-3, 3)}, size=40)
        for parameters, rows, word in [
            ({"max_rows_per_group": 2}, {"groups": np.arange(public.sum(), 400) // 2}, "a person"),
            ({}, {"X_public": X[public]}, "without labels"),
            ({}, {"X_public": described, "y_public": np.zeros(40)}, "from a description"),
        ]:
            rows = {"X_public": X[public], "y_public": y[public], **rows}
            if word == "without labels":
                del rows["y_public"]
            with pytest.warns(UnprovedWarning, match="evaluation_share"):
                clf = clone(EVALUATED).set_params(**parameters).fit(X[~public], y[~public], **rows)
            assert clf.guarantee_ is None
            assert word in clf.guarantee_reason_

    @pytest.mark.parametrize("share", [-0.1, 1, 1.5, "much", None])
    def test_invalid_shares(self, share):
        X, y, _ = mixture(np.random.default_rng(0), 50, 2, 0.5)
        with pytest.raises(ValueError, match="evaluation_share"):
            clone(EVALUATED).set_params(evaluation_share=share).fit(X, y)


class TestNothingFromPublicNumbers:
    @pytest.mark.parametrize("d", [4, 6])
    def test_every_member_is_as_bad_as_a_constant(self, d):
        """The mixture of the proposition: private rows next to a heavy public point."""
        rng = np.random.default_rng(d)
        heavy = rng.normal(size=d)
        public = np.concatenate([np.tile(heavy, (90, 1)), rng.normal(size=(10, d))])
        family = HalfspaceIntersections(max_halfspaces=60)
        cover = family.build_cover(public_sample(public), alpha=0.05, beta=0.05)
        assert cover.size > 1000
        normal = rng.normal(size=d)
        private = np.tile(heavy + 1e-9 * normal, (100, 1))
        X, y = np.concatenate([public, private]), np.repeat([0, 1], 100)
        halfspace = X @ normal > heavy @ normal + 5e-10 * normal @ normal
        assert (halfspace != y).sum() <= 10
        assert cover.family(tabulate(cover, X, y)).errors.min() >= 90


class TestStatusError:
    @pytest.mark.parametrize("d", [1, 2, 3])
    @given(
        seed=st.integers(0, 10**6),
        n_public=st.integers(1, 5),
        n_private=st.integers(1, 12),
        size=st.integers(2, 5),
        flat=st.booleans(),
    )
    @settings(max_examples=40)
    def test_some_member_errs_where_the_halfspace_or_the_status_does(
        self, d, seed, n_public, n_private, size, flat
    ):
        """By all halfspaces on a grid: only private rows with the public label are added."""
        rng = np.random.default_rng(seed)
        public = rng.integers(0, size, size=(n_public, d)).astype(float)
        if flat:
            public[:, -1] = public[:, 0]
        X = np.concatenate([public, rng.integers(0, size, size=(n_private, d))]).astype(float)
        y = rng.integers(2, size=n_public + n_private)
        odd = (np.arange(len(y)) >= n_public) & (y == 0)
        exact = Halfspaces("exact").build_cover(public_sample(X), alpha=0.05, beta=0.05)
        others = exact.family(tabulate(exact, X, y, np.where(odd, 0, 1))).errors.min()
        family = HalfspaceIntersections(pool="paper")
        cover = family.build_cover(public_sample(public), alpha=0.05, beta=0.05)
        members = cover.family(tabulate(cover, X, y))
        best = min(member[1] for member in members.members())
        assert best <= others + odd.sum()

    def test_it_is_added(self):
        X, y, _ = mixture(np.random.default_rng(0), 3000, 2, 0.05)
        paper = PPMHalfspaceClassifier(private_label=1, pool="paper", random_state=0)
        usual = clone(paper).fit(X, y)
        with_error = clone(paper).set_params(status_error=0.125).fit(X, y)
        assert with_error.guarantee_ == pytest.approx(usual.guarantee_ + 0.125)
        assert str(with_error.hypothesis_) == str(usual.hypothesis_)
        assert "share 0.125 of them are private and have the public" in with_error.guarantee_reason_
        assert with_error.guarantee_reason_.endswith("(sampling) + 0.125 (status_error).")
        with pytest.warns(TooFewRowsWarning, match="No accuracy bound"):
            assert clone(paper).set_params(status_error=1).fit(X, y).guarantee_ == 1

    def test_all_its_sum_is_in_the_function(self):
        numbers = (3000, 150, 150, 1.0, 0.05, 2, 10**6)
        usual, larger = (
            ppm_guarantee(*numbers, n_dimensions=2, cones=True, status_error=eta)
            for eta in (0.0, 0.25)
        )
        assert larger.bound - usual.bound == pytest.approx(0.25)

    @pytest.mark.parametrize("value", [-0.1, 1.1, None, "little"])
    def test_invalid_values(self, value):
        X, y, _ = mixture(np.random.default_rng(0), 50, 2, 0.5)
        with pytest.raises(ValueError, match="status_error"):
            clone(EVALUATED).set_params(status_error=value).fit(X, y)


def n_violations(model, trials, n, d, public_share, noise=0.0, status_error=0.0):
    """Count how often the error exceeds `guarantee_`; the best halfspace is the first feature's."""
    failures = 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        X, y, mask = mixture(rng, n, d, public_share, noise, status_error)
        clf = clone(model).set_params(random_state=seed).fit(X, y, is_public=mask)
        assert clf.guarantee_ < 1
        X, y, _ = mixture(rng, 40_000, d, public_share, noise, status_error)
        excess = (clf.predict(X) != y).mean() - (0 if clf.evaluation_share else noise)
        failures += excess > clf.guarantee_
    return failures


@few_rows
class TestFrequencies:
    """A violated bound is as rare as `beta`, where families are small and β is large."""

    @pytest.mark.parametrize(("n", "d", "noise"), [(400, 4, 0.1), (2000, 8, 0.0)])
    def test_counted_errors(self, n, d, noise):
        """A smoke test, which sees gross errors only."""
        model = clone(EVALUATED).set_params(beta=0.3, max_halfspaces=10, evaluation_share=0.3)
        assert n_violations(model, 30, n, d, 0.4, noise, 0.1) <= allowed_failures(30, 0.3)

    def test_status_errors(self):
        """A third of the public label is private: .1 of all rows.

        A smoke test, which sees gross errors only.
        """
        paper = PPMHalfspaceClassifier(
            private_label=1, pool="paper", beta=0.1, status_error=0.1, epsilon=4.0
        )
        failures = n_violations(paper, 10, 3000, 1, 0.3, 0.0, 1 / 3)
        assert failures <= allowed_failures(10, 0.1)

    @pytest.mark.slow
    @pytest.mark.parametrize("d", [4, 5, 6, 7, 8])
    def test_the_default_pool_at_a_hundred_thousand_rows(self, d):
        """The bound is below 1/2 in each of 40 runs, and never violated."""
        for seed in range(40):
            rng = np.random.default_rng(1000 * d + seed)
            share, noise = (0.1, 0.3, 0.5, 0.7)[seed % 4], (0.0, 0.1)[seed // 4 % 2]
            X, y, mask = mixture(rng, 100_000, d, share, noise)
            clf = PPMHalfspaceClassifier(
                private_label=1, evaluation_share=0.1, random_state=seed
            ).fit(X, y, is_public=mask)
            X, y, _ = mixture(rng, 100_000, d, share, noise)
            assert (clf.predict(X) != y).mean() <= clf.guarantee_ < 0.5

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d", "noise"), [(150, 4, 0.3), (1000, 5, 0.1), (4000, 8, 0.0)])
    def test_counted_errors_often(self, n, d, noise):
        model = clone(EVALUATED).set_params(beta=0.3, max_halfspaces=6, evaluation_share=0.5)
        assert n_violations(model, 200, n, d, 0.4, noise, 0.1) <= allowed_failures(200, 0.3)

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d"), [(2000, 1), (6000, 2)])
    def test_status_errors_often(self, n, d):
        """A smoke test, which sees gross errors only."""
        paper = PPMHalfspaceClassifier(private_label=1, pool="paper", beta=0.1, status_error=0.1)
        failures = n_violations(paper, 30, n, d, 0.3, 0.0, 1 / 3)
        assert failures <= allowed_failures(30, 0.1)


@pytest.mark.parametrize(
    ("epsilon", "share"), [(1e-9, 0.1), (1.0, 1e-15), (1.0, 5e-324), (1e-300, 0.5)]
)
def test_noise_that_cannot_be_drawn_is_refused_before_the_budget_is_charged(epsilon, share):
    budget = PrivacyBudget(1)
    clf = PPMHalfspaceClassifier(epsilon=epsilon, evaluation_share=share, budget=budget)
    with pytest.raises(ValueError, match="drawn"):
        clf.fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    assert budget.spent().epsilon == 0
