"""Lower bounds: their proofs' steps by enumeration, and no algorithm that beats them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import binom, norm

from skpublicdp.guarantees import (
    n_active_lower,
    n_labelled_lower,
    n_public,
    n_public_lower,
    n_query_release_lower,
)
from skpublicdp.query_release import label_parts, learner_from_label_parts
from tests.helpers import allowed_failures
from tests.internals.guarantees import lower_bounds

pytestmark = pytest.mark.once


def holds_below(Q, X):
    """Return which rows are at most each threshold, shape (n_queries, n)."""
    return np.asarray(Q) >= np.asarray(X)[:, 0]


class GivenAnswers:
    """A release of the thresholds -1, 0, 1, ... with given answers."""

    guarantee_ = None

    def __init__(self, answers):
        self.answers = answers

    def holds(self, Q, X):
        return holds_below(Q, X)

    def answer(self, Q):
        return self.answers[(np.asarray(Q)[:, 0] + 1).astype(int)]


class TestPublic:
    @pytest.mark.parametrize("pure", [False, True])
    @pytest.mark.parametrize(("alpha", "beta"), [("1/5000", "1/100"), ("1/9999", "1/18")])
    def test_the_budget_of_failures_is_spent_to_the_last_row(self, alpha, beta, pure):
        alpha, beta = Fraction(alpha), Fraction(beta)
        allowed = Fraction(1, 10) if pure else Fraction(1, 16)
        m = n_public_lower(float(alpha), float(beta), pure=pure)

        def failure(m):
            """Of the private learner that Lemma 4.4 makes: the learner's, or a real public row."""
            return beta + 1 - (1 - alpha / allowed) ** m

        assert failure(m - 1) <= allowed < failure(m)

    def test_what_the_paper_states_is_not_what_its_proof_gives(self):
        # 1/18 and two failures of 0.01 are more than 1/16
        assert 1 / 18 + 0.02 > 1 / 16
        assert n_public_lower(1e-6, 1 / 18) == pytest.approx(1e6 / 2296, rel=3e-3)
        assert n_public_lower(1e-6, 1e-6) == pytest.approx(1e6 / 248, rel=3e-3)
        assert n_public_lower(1e-6, 1e-6, pure=True) == pytest.approx(1e6 / 95, rel=3e-3)

    def test_the_public_rows_of_the_learner_are_enough(self):
        for alpha, beta in itertools.product((0.01, 1e-3, 1e-4), (0.001, 0.05)):
            assert 0 <= n_public_lower(alpha, beta, pure=True) < n_public(alpha, beta, d=1)

    @pytest.mark.parametrize("pure", [False, True])
    def test_a_release_of_any_class(self, pure):
        """Two releases fail twice as often, and the learner of Lemma 17 loses 4 alpha."""
        allowed = Fraction(1, 10) if pure else Fraction(1, 16)
        for alpha, beta in itertools.product(
            (Fraction(1, 10**5), Fraction(1, 5000)), (Fraction(1, 100),)
        ):
            m = n_public_lower(float(alpha), float(beta), pure=pure, release="any")

            def failure(m, alpha=alpha, beta=beta):
                return 2 * beta + 1 - (1 - 4 * alpha / allowed) ** m

            assert failure(m - 1) < allowed <= failure(m)
            # thresholds need one release only, so that their bound is the larger one
            assert m <= n_public_lower(float(alpha), float(beta), pure=pure, release=True)
        assert n_public_lower(1e-6, 0.04, release="any") == 0 < n_public_lower(1e-6, 0.04)
        with pytest.raises(ValueError, match="release must"):
            n_public_lower(1e-6, 0.01, release="all")

    @pytest.mark.parametrize("pure", [False, True])
    @pytest.mark.parametrize("alpha", [2e-4, 5e-5])
    def test_the_learner_of_two_releases_often(self, alpha, pure):
        """The reduction of Theorem 4, with one public row less than the bound.

        The learner fails if a public row is no dummy, or if a release fails. Otherwise all answers
        err by alpha, against the best threshold. It fails more rarely than a private learner must.
        """
        beta, runs, allowed = 0.01, 2000, 0.1 if pure else 1 / 16
        m = n_public_lower(alpha, beta, pure=pure, release="any") - 1
        p, size, rng = 4 * alpha / allowed, 8, np.random.default_rng(m)
        assert m > 0
        X, y = (cells.ravel() for cells in np.meshgrid(range(size), range(2)))
        fillers, Q = np.array([[0.0], [size - 1.0]]), np.arange(-1.0, size)[:, None]
        failures, max_error = 0, 0.0
        for _ in range(runs):
            mass, dummy = rng.dirichlet(np.full(size, 0.3), 2)
            best, worse = rng.choice(size + 1, 2, replace=False)  # positions in Q
            real = np.where(y == (Q[best] >= X), mass[X], 0.0)
            weights = p * real + (1 - p) * dummy[X] / 2
            answers = [
                holds_below(Q, part) @ weights for part in label_parts(X[:, None], y, fillers)
            ]
            favoured = np.where(np.arange(len(Q)) == worse, alpha, -alpha)
            releases = [
                GivenAnswers(answers[0] - favoured),
                GivenAnswers(answers[1] + favoured),
                GivenAnswers(answers[2]),  # the error of a count tends to zero
            ]
            learned = learner_from_label_parts(*releases, Q, fillers).rule.query
            error = mass[(Q[best] >= np.arange(size)) != (learned >= np.arange(size))].sum()
            max_error = max(max_error, error)
            failures += error > allowed or rng.random(2).min() < beta or rng.random(m).min() < p
        assert allowed / 2 < max_error <= allowed
        assert failures <= allowed_failures(runs, allowed)

    def test_nothing_is_proved(self):
        assert n_public_lower(1e-4, 0.07) == 0 < n_public_lower(1e-4, 0.07, pure=True)
        assert n_public_lower(0.07, 0.01) == 0
        assert n_public_lower(0.02, 0.01, release=True) == 0 < n_public_lower(0.02, 0.01)

    @settings(max_examples=200, deadline=None)
    @given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 2**32 - 1))
    def test_released_thresholds_learn(self, size, cut, seed):
        """4 alpha / p bounds the error, whatever the answers are that err by at most alpha."""
        rng = np.random.default_rng(seed)
        p, alpha, cut = rng.uniform(0.2, 1), rng.uniform(0, 0.2), min(cut, size)
        mass = rng.dirichlet(np.ones(size))
        # dummies lie below all, rows of label 0 above
        true = 1 - p + p * np.append(0, np.cumsum(np.where(np.arange(size) < cut, mass, 0)))
        answers = true + rng.uniform(-alpha, alpha, size + 1)
        learned = int(np.argmax(answers >= answers[-1] - 2 * alpha))
        assert learned <= cut or mass[cut:learned].sum() == 0
        assert p * mass[learned:cut].sum() <= 4 * alpha + 1e-12


class TestLabelled:
    @staticmethod
    def failure(m, share, alpha, rare):
        """Of the best learner: it knows the labels of what it saw, and guesses the others."""
        seen = np.zeros(rare + 1)  # distribution of how many of the rare rows were seen
        seen[0] = 1
        for _ in range(m):
            new = share * (rare - np.arange(rare + 1)) / rare
            seen = seen * (1 - new) + np.append(0, (seen * new)[:-1])
        unseen = rare - np.arange(rare + 1)
        most = math.floor(alpha * rare / share + 1e-9)
        return float(seen @ binom.sf(most, unseen, 0.5))

    @pytest.mark.parametrize("d", [2, 3, 9, 101])
    @pytest.mark.parametrize("beta", [0.01, 0.1, 0.3])
    def test_no_learner_is_good_with_fewer(self, d, beta):
        alpha = 0.02
        m = n_labelled_lower(alpha, beta, d) - 1
        shares = [alpha * (1 + 1e-9), *(alpha * k for k in range(2, 50))]
        rare = itertools.product(shares, {1, d - 1})
        assert max(self.failure(m, share, alpha, rows) for share, rows in rare) > beta

    def test_it_grows_like_d_over_alpha(self):
        # ln(5 / 2) / 5, less what beta takes
        assert n_labelled_lower(1e-5, 1e-4, 2001) == pytest.approx(0.183158 * 2000 / 1e-5, rel=1e-4)
        assert n_labelled_lower(0.01, 0.05, 1) == 0


class TestActive:
    def test_no_mechanism_beats_it(self):
        """The best choice of one of two rows of four points, by a linear program."""
        points, alpha = 4, 0.12  # only the right rule is good enough
        pools = list(itertools.product(range(points), repeat=2))
        targets = range(1, points + 1)  # t: rows below t have label 1
        outcomes = list(itertools.product(range(2), targets, targets))
        place = {key: at for at, key in enumerate(itertools.product(pools, outcomes))}
        n = len(place) + 1  # the last variable is the failure
        for epsilon in (0.1, 1.0):
            rows, limits = [], []
            for t in targets:
                row = np.zeros(n)
                for pool, (asked, *answers) in itertools.product(pools, outcomes):
                    learned = answers[int(pool[asked] < t)]
                    row[place[pool, (asked, *answers)]] = (learned != t) / len(pools)
                row[-1] = -1
                rows.append(row)
                limits.append(0)
            for pool, which, other, asked in itertools.product(
                pools, range(2), range(points), range(2)
            ):
                near = tuple(other if at == which else x for at, x in enumerate(pool))
                row = np.zeros(n)
                for answers in itertools.product(targets, targets):
                    row[place[pool, (asked, *answers)]] += 1
                    row[place[near, (asked, *answers)]] -= math.exp(epsilon)
                rows.append(row)
                limits.append(0)
            whole = np.zeros((len(pools), n))
            for (pool, _), at in place.items():
                whole[pools.index(pool), at] = 1
            found = linprog(
                [*[0] * (n - 1), 1], rows, limits, whole, np.ones(len(pools)), bounds=(0, 1)
            )
            assert found.success
            assert n_active_lower(alpha, found.fun, epsilon, domain_size=points) <= 1

    @pytest.mark.parametrize("share", [0.01, 0.3, 1.0, 3.0])
    def test_random_labels_are_private_and_need_more(self, share):
        """They need no asking at all: the middle of what m of them leave is the learner."""
        alpha = 1e-3
        m = round(share / alpha)
        # the spacings beside a uniform threshold differ by more than 2 alpha as often as one does
        beta = (1 - 2 * alpha) ** (m + 1)
        assert n_active_lower(alpha, beta, 1e-9) <= m

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
    @pytest.mark.parametrize("beta", [0.01, 0.1, 0.25])
    def test_it_is_above_the_papers(self, epsilon, beta):
        alpha, delta, pool = 1e-4, 1e-9, 10**5
        paper = math.exp(-2 * epsilon) * (1 - 25 * beta / 9) / (9 * alpha)
        paper -= pool * delta * (1 + math.exp(-epsilon))
        assert n_active_lower(alpha, beta, epsilon, delta=delta, pool=pool) >= paper
        assert n_active_lower(alpha, beta, epsilon, domain_size=2**30) == pytest.approx(
            n_active_lower(alpha, beta, epsilon), rel=1e-3
        )

    def test_without_privacy_binary_search_is_enough(self):
        for alpha in (0.1, 1e-3, 1e-6):
            assert n_active_lower(alpha, 1e-9, 20.0) <= math.log2(1 / alpha)

    def test_delta_needs_the_pool(self):
        with pytest.raises(ValueError, match="pool"):
            n_active_lower(0.01, 0.05, 1.0, delta=1e-6)


class TestQueryRelease:
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_fingerprinting(self, n):
        """Scores of all rows and squared errors add up to a third, whatever is answered."""
        mean = Polynomial([0, 1])
        grid = (-1.0, -0.3, 0.4, 1.0)
        rows = list(itertools.product((-1, 1), repeat=n))
        counts = sorted({sum(row) for row in rows})
        for values in itertools.product(grid, repeat=len(counts)):
            answer = dict(zip(counts, values, strict=True))
            total = Polynomial([0.0])
            for row in rows:
                chance = math.prod(((1 + x * mean) / 2 for x in row), start=Polynomial([1.0]))
                q = answer[sum(row)]
                score = (q - mean) * sum((x - mean for x in row), start=Polynomial([0.0]))
                total = total + chance * (score + (q - mean) ** 2)
            integral = total.integ()
            assert (integral(1) - integral(-1)) / 2 >= 1 / 3 - 1e-12

    def test_the_constants_are_the_integrals(self):
        def over_means(f):
            return quad(f, 0, 1)[0]  # all are even

        assert over_means(lambda t: 1 - t**2) == pytest.approx(lower_bounds.ROOT_MEAN_VARIANCE**2)
        assert over_means(lambda t: math.sqrt(1 - t**2)) == pytest.approx(
            lower_bounds.MEAN_STANDARD_DEVIATION
        )
        farthest = over_means(lambda t: (1 + t) * ((1 + t) / 2 * (1 - t) + (1 - t) / 2 * (1 + t)))
        assert farthest == pytest.approx(lower_bounds.MEAN_WEIGHTED_DEVIATION)
        assert over_means(lambda t: (1 + t) ** 2) == pytest.approx(7 / 3)

    @settings(max_examples=100, deadline=None)
    @given(st.floats(0.01, 3), st.integers(0, 2**32 - 1))
    def test_what_privacy_leaves_of_a_score(self, epsilon, seed):
        """E Z <= sinh(ε) E|Z'|, and <= e^ε E|Z'| / 2 + δ B, for close laws with E Z' = 0."""
        rng = np.random.default_rng(seed)
        z = rng.normal(size=6)
        # the law of Z' with mean zero, then the worst law within the factors of it
        z -= z.mean()
        base = np.full(6, 1 / 6)
        worst = linprog(
            -z,
            A_eq=[np.ones(6)],
            b_eq=[1],
            bounds=[(p * math.exp(-epsilon), p * math.exp(epsilon)) for p in base],
        )
        assert -worst.fun <= math.sinh(epsilon) * np.abs(z).mean() + 1e-12
        delta = rng.uniform(0, 0.3)
        moved = max(
            sum(z[at] * min(p * math.exp(epsilon), 1) for at, p in enumerate(base) if z[at] > 0)
            + delta * z.max(),
            0,
        )
        shares = linprog(  # P(S) <= e^ε P'(S) + δ and back, by the excesses over e^ε P'
            np.concatenate([-z, np.zeros(6)]),
            A_ub=np.block([[np.eye(6), -np.eye(6)], [np.zeros((1, 6)), np.ones((1, 6))]]),
            b_ub=[*(base * math.exp(epsilon)), delta],
            A_eq=[[*np.ones(6), *np.zeros(6)]],
            b_eq=[1],
            bounds=(0, 1),
        )
        bound = math.exp(epsilon) / 2 * np.abs(z).mean() + delta * np.abs(z).max()
        assert -shares.fun <= min(moved, bound) + 1e-12

    @pytest.mark.parametrize("p", [100, 10_000, 10**6])
    @pytest.mark.parametrize("alpha", [0.003, 0.02])
    def test_gaussian_noise_does_not_beat_it(self, p, alpha):
        epsilon, delta, beta = 0.5, 1e-9, 1e-3
        lowest = n_query_release_lower(alpha, beta, epsilon, p, 0, delta=delta)
        sampling = 2 * math.log(4 * p / beta) / alpha**2
        sigma = math.sqrt(p * 2 * math.log(1.25 / delta)) / epsilon  # of a sum of p shares
        noise = 2 * sigma * norm.isf(beta / (4 * p)) / alpha
        assert lowest <= max(sampling, noise)

    def test_rates(self):
        def bound(alpha=0.001, p=10**6, m=0, epsilon=1.0):
            return n_query_release_lower(alpha, 1e-6, epsilon, p, m, delta=0.0)

        assert bound(p=4 * 10**6) == pytest.approx(2 * bound(), rel=1e-3)
        assert bound(alpha=0.0005) == pytest.approx(2 * bound(), rel=1e-2)
        # what privacy leaves of a score, see above
        for epsilon in (0.01, 2.0):
            ratio = math.sinh(1) / math.sinh(epsilon)
            assert bound(epsilon=epsilon) == pytest.approx(ratio * bound(), rel=1e-3)
        # public rows help only when they are nearly enough by themselves, 1 / alpha^2
        assert bound(m=100) > 0.95 * bound()
        assert bound(m=10_000) > 0.4 * bound()
        assert bound(m=50_000) == 0

    def test_the_theorems_delta_is_a_fixed_point(self):
        n = n_query_release_lower(0.001, 1e-4, 1.0, 10**6, 10)
        assert n > 1000
        assert abs(n_query_release_lower(0.001, 1e-4, 1.0, 10**6, 10, delta=1 / (4 * n)) - n) <= 2

    def test_bad_numbers(self):
        for m, delta in ((-1, None), (1, 1.0)):
            with pytest.raises(ValueError, match=r"m must|delta must"):
                n_query_release_lower(0.01, 0.01, 1.0, 10, m, delta=delta)
