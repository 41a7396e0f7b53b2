"""Promises at the smallest sizes that their functions return, counted over seeded populations.

A rate of beta exceeds the limit with probability FALSE_ALARM only. Each test names the rate above
which it fails, and most have a control: a learner that is broken, or has too few rows, is refuted.
"""

import itertools
import math

import numpy as np
import pytest

from skpublicdp import GenericLearnerClassifier, PAPQueryRelease, PPMHalfspaceClassifier
from skpublicdp.guarantees import (
    n_generic_learner,
    n_ppm_paper,
    n_public,
    n_query_release,
    n_uniform,
)
from skpublicdp.hypotheses import Thresholds
from skpublicdp.query_release import ThresholdQueries
from skpublicdp.sanitizers import BLRSanitizer
from tests.helpers import allowed_failures
from tests.internals.sanitizers import blr_sanitizer

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.LargeDeltaWarning"),
]

BETA = 0.3


class TestUniform:
    """`n_uniform`: labels are fair coins, so every rule has error 1/2 in the population."""

    def thresholds(self, n, trials):
        steps = np.random.default_rng(0).choice([-1, 1], size=(trials, n))
        sums = np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0))).astype(float)
        sums -= sums[:, -1:] / 2  # wrong to the left of the cut, and right to the right of it
        return np.abs(sums).max(axis=1) / n

    def all_sets(self, n, trials, d):
        rng = np.random.default_rng(0)
        cells = rng.multinomial(n, np.full(2 * d, 1 / (2 * d)), size=trials).reshape(trials, d, 2)
        return np.abs(cells[:, :, 0] - cells[:, :, 1]).sum(axis=1) / 2 / n

    @pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5])
    def test_thresholds(self, alpha):
        """Fails from a rate of .38 on."""
        n = n_uniform(alpha, BETA, 1)
        assert (self.thresholds(n, 1000) > alpha).sum() <= allowed_failures(1000, BETA)

    @pytest.mark.parametrize("d", [1, 3, 30])
    def test_all_labellings_of_d_cells(self, d):
        """Fails from a rate of .35 on. The rows of a cell are labelled by their majority."""
        n = n_uniform(0.1, BETA, d)
        assert (self.all_sets(n, 3000, d) > 0.1).sum() <= allowed_failures(3000, BETA)

    def test_too_few_rows_are_refuted(self):
        n = n_uniform(0.1, BETA, 1) // 150
        assert (self.thresholds(n, 1000) > 0.1).sum() > allowed_failures(1000, BETA)
        n = n_uniform(0.1, BETA, 30) // 600
        assert (self.all_sets(n, 3000, 30) > 0.1).sum() > allowed_failures(3000, BETA)


class PapersSanitizer(BLRSanitizer):
    """The sanitizer with as many points as in the paper; the learner uses distinct points only."""

    def sample(self, n=1):
        return np.unique(self.points_, axis=0)


class TestGenericLearner:
    """`n_generic_learner` on two points, where a data set of 74,320 of them can be drawn."""

    ALPHA, EPSILON = 0.9, 8.0

    def n_failures(self, trials, monkeypatch):
        monkeypatch.setattr(blr_sanitizer, "MAX_MULTISETS", 1 << 17)
        size = n_generic_learner(self.ALPHA, BETA, self.EPSILON, 1, 2)
        pair_dimension = 5  # 6^2 dichotomies of pairs are at least 2^5, 7^2 are fewer than 2^6
        n_points = math.ceil(5000 * pair_dimension / self.ALPHA**2 * math.log(10 / self.ALPHA))
        domain = np.array([[0.0], [1.0]])
        learner = GenericLearnerClassifier(
            Thresholds(), epsilon=self.EPSILON, alpha=1e-6, classes=[0, 1]
        )
        is_labelled = np.arange(sum(size)) < size.labelled
        failures = 0
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            cells = (rng.random(sum(size)) < 0.08).astype(int)  # an error at 0 is above alpha
            truth = np.array([[1, 1], [0, 1]][seed % 2])
            learner.set_params(
                random_state=seed, sanitizer=PapersSanitizer(domain, n_points=n_points)
            ).fit(domain[cells], truth[cells], is_labelled=is_labelled)
            assert learner.cover_size_ == 3
            failures += (learner.predict(domain) != truth) @ [0.92, 0.08] > self.ALPHA
        return failures

    @pytest.mark.slow
    def test_it_is_kept(self, monkeypatch):
        """Fails from a rate of .54 on."""
        assert self.n_failures(100, monkeypatch) <= allowed_failures(100, BETA)

    def test_it_is_kept_in_a_few_runs(self, monkeypatch):
        """Fails if all runs fail.

        A smoke test, which sees gross errors only.
        """
        assert self.n_failures(12, monkeypatch) <= allowed_failures(12, BETA)


def grid(width, d):
    return np.array(list(itertools.product(range(width), repeat=d)), dtype=float)


class TestPPMPaper:
    """`n_ppm_paper`: Algorithm 2, with all intersections of d of all supported halfspaces."""

    ALPHA, EPSILON = 0.3, 1.0

    def n_failures(self, trials, points, noise, *, realizable=False, share=1.0):
        d = points.shape[1]
        n = n_ppm_paper(self.ALPHA, BETA, self.EPSILON, d, realizable=realizable)
        learner = PPMHalfspaceClassifier(
            epsilon=self.EPSILON, private_label=1, max_intersections=d, beta=BETA
        )
        failures = 0
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            masses = rng.dirichlet(np.ones(len(points)))
            scores = points @ rng.normal(size=d)
            order = np.argsort(scores)
            median = scores[order][np.searchsorted(np.cumsum(masses[order]), 0.5)]
            truth = (scores >= median).astype(int)
            cells = rng.choice(len(points), size=math.ceil(share * n), p=masses)
            y = truth[cells] ^ (rng.random(len(cells)) < noise)
            learner.set_params(random_state=seed).fit(points[cells], y)
            assert learner.guarantee_ is not None  # the pool is complete
            wrong = learner.predict(points) != truth
            failures += (1 - 2 * noise) * masses[wrong].sum() > self.ALPHA
        return failures

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize(("width", "d"), [(40, 1), (5, 2)])
    @pytest.mark.parametrize(("noise", "realizable"), [(0.0, False), (0.0, True), (0.1, False)])
    def test_it_is_kept(self, width, d, noise, realizable):
        """Fails from a rate of .54 on."""
        failures = self.n_failures(100, grid(width, d), noise, realizable=realizable)
        assert failures <= allowed_failures(100, BETA)

    @pytest.mark.slow
    @pytest.mark.parametrize(("width", "d"), [(40, 1), (5, 2)])
    def test_it_is_kept_often(self, width, d):
        """Fails from a rate of .4 on."""
        assert self.n_failures(600, grid(width, d), 0.1) <= allowed_failures(600, BETA)

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    @pytest.mark.parametrize(("width", "d", "share"), [(40, 1, 0.01), (5, 2, 0.005)])
    def test_too_few_rows_are_refuted(self, width, d, share):
        assert self.n_failures(200, grid(width, d), 0.1, share=share) > allowed_failures(200, BETA)


class TestQueryRelease:
    """`n_query_release`: all thresholds at once, against the population."""

    def n_failures(self, trials, alpha, epsilon, delta, constants, *, share=1.0):
        n = n_query_release(alpha, BETA, epsilon, delta, 1, 1, constants=constants)
        m = n_public(alpha / (2 if constants == "paper" else 4), BETA / 2, 1, constants=constants)
        release = PAPQueryRelease(
            ThresholdQueries(), epsilon=epsilon, delta=delta, method="pmw", alpha=alpha, beta=BETA
        )
        at = np.linspace(0, 1, 200)
        failures = 0
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            mass = 0.9 if seed % 4 else 0.0  # of zero: far from uniform on the public values

            def numbers(size, rng=rng, mass=mass):
                return np.where(rng.random(size) < mass, 0.0, rng.random(size))[:, None]

            rows = numbers(math.ceil(share * n))
            release.set_params(random_state=seed).fit(rows, X_public=numbers(m))
            failures += np.abs(release.cdf(at) - (mass + (1 - mass) * at)).max() > alpha
        return failures

    def test_it_is_kept(self):
        """Fails from a rate of .7 on, at 1,213 rows."""
        assert self.n_failures(40, 0.5, 0.9, 0.1, "tight") <= allowed_failures(40, BETA)

    def test_too_few_rows_are_refuted(self):
        failures = self.n_failures(40, 0.5, 0.9, 0.1, "tight", share=0.01)
        assert failures > allowed_failures(40, BETA)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("alpha", "delta", "constants", "trials"),
        [
            (0.3, 1e-6, "tight", 150),
            (0.5, 0.0, "tight", 150),
            (0.5, 0.1, "paper", 150),
            (0.5, 1e-6, "paper", 100),
        ],
    )
    def test_it_is_kept_often(self, alpha, delta, constants, trials):
        """Fails from a rate of .5 on with 150 runs, and of .54 on with 100."""
        failures = self.n_failures(trials, alpha, 0.9, delta, constants)
        assert failures <= allowed_failures(trials, BETA)
