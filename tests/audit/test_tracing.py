"""The attack finds members in exact answers, proves no ε that a release does not exceed."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from sklearn.base import BaseEstimator
from sklearn.covariance import LedoitWolf
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score, roc_curve

from skpublicdp import PAPQueryRelease, SemiPrivateClassifier
from skpublicdp.audit import TracingAttack, reduce_public_data, tracing_attack
from skpublicdp.hypotheses import Thresholds
from skpublicdp.query_release import MarginalQueries, StumpQueries
from tests.helpers import FALSE_ALARM, allowed_failures
from tests.internals.audit import epsilon_bounds, tracing


def people(rng, n, shares):
    return (rng.random((n, len(shares))) < shares).astype(float)


def is_one(columns, X):
    return X.T[columns] == 1


def stumps(seed, n_columns=1000, n=100, n_reference=1000):
    rng = np.random.default_rng(seed)
    shares = rng.random(n_columns)
    sizes = (n, n, n_reference)
    tables = (people(rng, size, shares) for size in sizes)
    return dict(zip(("members", "non_members", "reference"), tables, strict=True))


class TestCompleteness:
    @pytest.mark.parametrize("seed", range(3))
    def test_exact_answers_give_members_away(self, seed):
        rows = stumps(seed)
        columns = np.arange(1000)
        exact = rows["members"].mean(axis=0)
        attack = tracing_attack(exact, columns, holds=is_one, **rows)
        assert attack.auc > 0.95
        assert attack.epsilon_lower() > 1.5
        assert attack.rates(0.01).tpr > 0.3
        by_function = tracing_attack(lambda Q: exact[Q], columns, holds=is_one, **rows)
        np.testing.assert_array_equal(by_function.member_scores, attack.member_scores)

    def test_answers_that_overlap_are_told_apart(self):
        """Conjunctions of two columns vary with the columns: plain inner products are blind."""
        rng = np.random.default_rng(0)
        shares = rng.uniform(0.1, 0.9, 40)
        pairs = np.array(list(itertools.combinations(range(40), 2)))
        tables = [people(rng, n, shares) for n in (60, 60, 1500)]
        members, others, reference = (X[:, pairs].prod(axis=2) for X in tables)
        attack = tracing_attack(
            members.mean(axis=0),
            None,
            members=members,
            non_members=others,
            reference=reference,
            holds=lambda _, X: X.T,
        )
        centre = reference.mean(axis=0)
        towards = members.mean(axis=0) - centre
        plain = TracingAttack((members - centre) @ towards, (others - centre) @ towards)
        assert attack.auc > 0.95 > plain.auc + 0.05

    @pytest.mark.parametrize("shape", [(30, 80), (200, 25), (60, 60)])
    def test_the_score_weighs_by_the_shrunk_covariance(self, shape):
        rng = np.random.default_rng(0)
        X = rng.normal(size=shape) @ np.diag(rng.uniform(0.2, 3, shape[1]))
        X -= X.mean(axis=0)
        v = rng.normal(size=shape[1])
        covariance = LedoitWolf(assume_centered=True).fit(X).covariance_
        expected = np.linalg.solve(covariance, v)
        np.testing.assert_allclose(
            tracing._solve_shrunk_covariance(X, v), expected, rtol=1e-8, atol=1e-10
        )

    def test_two_reference_rows_have_a_singular_covariance(self):
        """The shrinkage is 0 up to rounding, and the answers differ along one direction only."""
        rng = np.random.default_rng(0)
        for n_queries in range(1, 100):
            rows = rng.integers(0, 2, (2, n_queries)).astype(float)
            centred = rows - rows.mean(axis=0)
            direction = tracing._solve_shrunk_covariance(centred, rng.normal(size=n_queries))
            assert np.isfinite(direction).all()

    def test_rows_that_are_all_alike(self):
        one = np.ones((5, 3))
        attack = tracing_attack(
            np.ones(3), None, members=one, non_members=one, reference=one, holds=lambda _, X: X.T
        )
        assert attack.auc == 0.5
        assert attack.epsilon_lower() == 0
        assert TracingAttack(np.ones(100), np.ones(100)).epsilon_lower() == 0  # ties prove nothing


class TestReleases:
    @pytest.mark.parametrize("queries", [MarginalQueries(k=1), StumpQueries()])
    def test_of_a_release_nothing_is_found(self, queries):
        rows = stumps(0, n_columns=60, n=150, n_reference=300)
        public = people(np.random.default_rng(1), 40, rows["reference"].mean(axis=0))
        release = PAPQueryRelease(queries, epsilon=1.0, bounds=(0, 1), random_state=0)
        release.fit(rows["members"], X_public=public)
        Q = [[f"x{column}", 0] for column in range(60)]
        if isinstance(queries, MarginalQueries):
            Q = [{place: 1.0} for place, _ in enumerate(Q)]
        else:
            Q = [[place, 0.5] for place, _ in enumerate(Q)]
        attack = tracing_attack(release, Q, **rows)
        assert attack.epsilon_lower(1 - FALSE_ALARM, delta=release.privacy_.delta) <= 1
        assert attack.auc < 0.75

    def test_rows_of_a_release_are_told_by_its_queries(self):
        rows = stumps(0, n_columns=30, n=20, n_reference=100)
        release = PAPQueryRelease(StumpQueries(), bounds=(0, 1), random_state=0)
        release.fit(rows["members"], X_public=rows["reference"][:50])
        Q = [[place, 0.5] for place in range(30)]
        of_release = tracing_attack(release, Q, **rows)
        below = tracing_attack(release.answer(Q), Q, holds=lambda _, X: X.T <= 0.5, **rows)
        above = tracing_attack(1 - release.answer(Q), Q, holds=lambda _, X: X.T > 0.5, **rows)
        np.testing.assert_allclose(of_release.member_scores, below.member_scores)
        np.testing.assert_allclose(of_release.non_member_scores, above.non_member_scores)

    def test_private_noise_keeps_the_promise_over_many_runs(self):
        """P(score > 3 | member) <= e^ε P(score > 3 | non-member), with one of each per run."""
        epsilon, runs, rng = 1.0, 1500, np.random.default_rng(0)
        shares = np.full(6, 0.5)
        reference = people(rng, 30, shares)
        n_detected = np.zeros(2, dtype=int)
        for _ in range(runs):
            rows = people(rng, 4, shares)
            # a replaced row moves the six counts by six in all
            answers = (rows[:3].sum(axis=0) + rng.laplace(scale=6 / epsilon, size=6)) / 3
            attack = tracing_attack(
                answers,
                np.arange(6),
                members=rows[:1],
                non_members=rows[3:],
                reference=reference,
                holds=is_one,
            )
            n_detected += attack.member_scores[0] > 3, attack.non_member_scores[0] > 3
        low = tracing.clopper_pearson(int(n_detected[0]), runs, 1 - FALSE_ALARM)[0]
        high = tracing.clopper_pearson(int(n_detected[1]), runs, 1 - FALSE_ALARM)[1]
        assert n_detected.min() > 50
        assert low <= math.exp(epsilon) * high


class TestSoundness:
    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
    def test_randomised_response_is_measured_from_below(self, epsilon):
        rng, pairs = np.random.default_rng(0), 20_000
        is_correct = rng.random(pairs) < 1 / (1 + math.exp(-epsilon))  # a coin, reported truthfully
        attack = TracingAttack(is_correct.astype(float), 1.0 - is_correct)
        assert epsilon - 0.15 < attack.epsilon_lower(1 - FALSE_ALARM) <= epsilon

    def test_abstaining_finds_the_few_who_are_given_away(self):
        rng, pairs = np.random.default_rng(0), 4000
        sure = np.arange(pairs) < 500
        is_correct = rng.random(pairs) < np.where(sure, 1 / (1 + math.exp(-3)), 0.5)
        size = np.where(sure, 2.0, 1.0) + rng.random(pairs) / 2
        attack = TracingAttack(np.where(is_correct, size, -size), np.zeros(pairs))
        assert 1.2 < attack.epsilon_lower(1 - FALSE_ALARM) <= 3
        reversed_ = TracingAttack(np.where(is_correct, -size, size), np.zeros(pairs))
        assert reversed_.epsilon_lower() == 0

    @pytest.mark.parametrize("epsilon", [0.3, 1.5])
    def test_no_mechanism_is_right_more_often(self, epsilon):
        """All pure mechanisms of three coins that tell of each alone, or of their parity."""
        q = 1 / (1 + math.exp(-epsilon))
        coins = list(itertools.product((0, 1), repeat=3))
        tables = [
            {
                c: {
                    o: math.prod(q if a == b else 1 - q for a, b in zip(c, o, strict=True))
                    for o in coins
                }
                for c in coins
            },
            {c: {o: (q if sum(c) % 2 == o[0] else 1 - q) / 4 for o in coins} for c in coins},
        ]
        for table in tables:
            for right in range(4):
                # the best guesses for each outcome, knowing the mechanism
                best = sum(
                    max(
                        sum(
                            table[c][o] / 8
                            for c in coins
                            if sum(a == b for a, b in zip(c, guess, strict=True)) >= right
                        )
                        for guess in coins
                    )
                    for o in coins
                )
                assert best <= epsilon_bounds._guess_probability(right, 3, 3, epsilon, 0.0) + 1e-12
        bounds = [
            epsilon_bounds._guess_probability(right, 3, 3, epsilon, 0.0) for right in range(4)
        ]
        np.testing.assert_allclose(bounds, binom.sf(np.arange(4) - 1, 3, q))

    @pytest.mark.parametrize("delta", [1e-3, 0.05])
    def test_telling_all_with_probability_delta(self, delta):
        epsilon, n = 0.5, 6
        q = 1 / (1 + math.exp(-epsilon))
        for right in range(n + 1):
            chance = delta + (1 - delta) * float(binom.sf(right - 1, n, q))
            assert chance <= epsilon_bounds._guess_probability(right, n, n, epsilon, delta) + 1e-12

    def test_a_large_delta_explains_everything(self):
        attack = TracingAttack(np.arange(1.0, 101), np.zeros(100))
        plain = attack.epsilon_lower()
        assert plain > 2.5
        assert attack.epsilon_lower(delta=1e-9) == pytest.approx(plain, abs=1e-3)
        assert attack.epsilon_lower(delta=0.5) == 0

    @pytest.mark.parametrize("n", [1, 7, 20])
    def test_intervals_are_those_of_clopper_and_pearson(self, n):
        for share in np.linspace(0, 1, 41):
            chances = binom.pmf(np.arange(n + 1), n, share)
            ends = [tracing.clopper_pearson(k, n, 0.9) for k in range(n + 1)]
            covered = sum(p for p, (a, b) in zip(chances, ends, strict=True) if a <= share <= b)
            assert covered >= 0.9 - 1e-12
        for k in range(n + 1):
            interval = binomtest(k, n).proportion_ci(0.9, method="exact")
            np.testing.assert_allclose(tracing.clopper_pearson(k, n, 0.9), interval, atol=1e-9)


class TestCurves:
    @pytest.mark.parametrize("tied", [False, True])
    def test_curve_and_area(self, tied):
        rng = np.random.default_rng(0)
        scores = rng.normal(size=90) + np.repeat([0.7, 0], [40, 50])
        scores = np.round(scores) if tied else scores
        attack = TracingAttack(scores[:40], scores[40:])
        labels = np.repeat([1, 0], [40, 50])
        assert attack.auc == pytest.approx(roc_auc_score(labels, scores))
        fpr, tpr = attack.roc_curve()
        expected = roc_curve(labels, scores, drop_intermediate=False)[:2]
        np.testing.assert_allclose((fpr, tpr), expected)

    def test_rates_at_few_false_alarms(self):
        attack = TracingAttack(np.arange(50.0), np.arange(100.0) / 4)
        rates = attack.rates(0.05)
        assert rates.fpr == 0.05
        assert rates.threshold == 23.5
        assert rates.tpr == np.mean(np.arange(50) > 23.5)
        assert rates.fpr_interval == tracing.clopper_pearson(5, 100, 0.95)
        assert rates.tpr_interval == tracing.clopper_pearson(26, 50, 0.95)
        assert attack.rates(0.0).fpr == 0

    def test_the_false_positive_rate_is_covered_though_the_threshold_is_looked_up(self):
        """Of uniform scores the true rate is one minus the threshold."""
        rng, missed = np.random.default_rng(0), 0
        for _ in range(2000):
            rates = TracingAttack(np.zeros(1), rng.random(40)).rates(0.1, level=0.9)
            low, high = rates.fpr_interval
            missed += not low <= 1 - rates.threshold <= high
        assert missed <= allowed_failures(2000, 0.1)


class TestRefusals:
    def test_what_is_missing(self):
        rows = stumps(0, n_columns=4, n=3, n_reference=3)
        with pytest.raises(ValueError, match="holds must be given"):
            tracing_attack(np.zeros(4), range(4), **rows)
        with pytest.raises(NotFittedError):
            tracing_attack(PAPQueryRelease(), range(4), **rows)
        with pytest.raises(ValueError, match="finite numbers"):
            tracing_attack(np.zeros((4, 1)), range(4), holds=is_one, **rows)
        with pytest.raises(ValueError, match=r"\(5, n_rows\)"):
            tracing_attack(np.zeros(5), np.arange(4), holds=is_one, **rows)
        with pytest.raises(ValueError, match="reference rows"):
            tracing_attack(
                np.zeros(4), np.arange(4), holds=is_one, **{**rows, "reference": np.ones((1, 4))}
            )


class Recorder(BaseEstimator):
    """Keeps what it is fitted on."""

    classes = (0, 1)

    def fit(self, X, y, **public):
        self.given_ = X, y, public
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def dummies(n, generator):
    return np.full((n, 1), -1.0)


def reduced(X, y, seed=0, n_private=20_000, n_public=2, **settings):
    learner = reduce_public_data(
        Recorder(), dummies, n_private=n_private, n_public=n_public, random_state=seed, **settings
    )
    return learner.fit(X, y).learner_.given_


class TestReduction:
    X = np.arange(5000.0)[:, None]
    y = np.ones(5000, dtype=int)

    def test_algorithms_3_and_4(self):
        X, y, public = reduced(self.X, self.y)
        real = X[:, 0] >= 0
        assert len(X) == 20_000
        # each row once at most, in order, among dummies with the labels of a fair coin
        np.testing.assert_array_equal(X[real], self.X[: real.sum()])
        assert (y[real] == 1).all()
        level = FALSE_ALARM
        assert binomtest(int(real.sum()), len(X), 1 / 200).pvalue > level
        assert binomtest(int(y[~real].sum()), int((~real).sum())).pvalue > level
        assert (public["X_public"] == -1).all()
        assert public["X_public"].shape == (2, 1)
        assert set(public) == {"X_public"}
        _, _, public = reduced(self.X, self.y, n_public=100, labelled=True)
        assert set(public["y_public"]) == {0, 1}

    def test_the_sample_ends_with_the_last_real_row(self):
        X, y, _ = reduced(self.X[:7], self.y[:7])
        assert X[-1] == 6
        assert len(X) == len(y) < 20_000
        assert (X >= 0).sum() == 7
        # of the paper's size it hardly ever ends early: 10 times what is expected
        lengths = [len(reduced(self.X[:1000], self.y[:1000], seed)[0]) for seed in range(20)]
        assert set(lengths) == {20_000}

    @pytest.mark.parametrize("position", [0, 3, 50, 4000])
    def test_neighbours_stay_neighbours(self, position):
        """Claim 4.5: whatever the coins, one replaced row replaces one at most."""
        other_X, other_y = self.X.copy(), self.y.copy()
        other_X[position], other_y[position] = 10**6, 0
        for seed in range(3):
            X, y, public = reduced(self.X, self.y, seed)
            X_, y_, public_ = reduced(other_X, other_y, seed)
            assert ((X != X_).any(axis=1) | (y != y_)).sum() <= 1
            np.testing.assert_array_equal(public["X_public"], public_["X_public"])

    @pytest.mark.filterwarnings("ignore:Only")
    def test_thresholds_collapse_without_public_rows(self):
        rng = np.random.default_rng(0)
        X = 1 + rng.random((3000, 1))
        y = (X[:, 0] > 1.5).astype(int)
        learner = SemiPrivateClassifier(Thresholds(), classes=(0, 1), random_state=0)
        private = reduce_public_data(
            learner, dummies, n_private=200_000, n_public=10, random_state=0
        ).fit(X, y)
        assert private.score(X, y) < 0.6
        assert private.classes_.tolist() == [0, 1]
        assert learner.fit(X, y, X_public=1 + rng.random((50, 1))).score(X, y) > 0.95

    def test_refusals(self):
        for wrong in ({"n_private": 0, "n_public": 1}, {"n_private": 1, "n_public": 0}):
            with pytest.raises(ValueError, match="must be at least 1"):
                reduce_public_data(Recorder(), dummies, **wrong)
        learner = SemiPrivateClassifier(classes=(0, 1, 2))
        private = reduce_public_data(learner, dummies, n_private=10, n_public=1)
        with pytest.raises(ValueError, match="two distinct labels"):
            private.fit(self.X, self.y)
        with pytest.raises(NotFittedError):
            private.predict(self.X)
