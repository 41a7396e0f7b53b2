"""Bounds of shares against the exact law of counts and noise, summed up."""

import numpy as np
import pytest
from scipy.stats import binom, dlaplace, norm

from skpublicdp.query_release.binomial_intervals import binomial_bounds

REACH = 4000
NOISE = np.arange(-REACH, REACH + 1)


def tails(noisy, chances, n):
    """P(sum <= noisy) and P(sum >= noisy) of a Binomial(n, p) plus noise, for every p."""

    def of(p):
        counts = binom.pmf(np.arange(n + 1), n, p)
        below = np.cumsum(chances)
        at = np.clip(noisy - np.arange(n + 1) + REACH, -1, 2 * REACH)
        lower = np.where(at < 0, 0, below[at])
        without = np.where(at < 1, 0, below[at - 1])
        return counts @ lower, counts @ (1 - without)

    return of


def laws():
    for scale in (0.3, 1.0, 5.0, 40.0):
        yield f"laplace {scale}", dlaplace.pmf(NOISE, 1 / scale), dlaplace.var(1 / scale), False
    for sigma in (0.6, 1.0, 5.0, 40.0):
        edges = norm.cdf((NOISE[:, None] + [-0.5, 0.5]) / sigma)
        chances = np.diff(edges, axis=1).ravel()
        yield f"gaussian {sigma}", chances, (chances * NOISE**2).sum(), True


@pytest.mark.parametrize("law", laws(), ids=lambda law: law[0])
@pytest.mark.parametrize("n", [50, 1000])
def test_bounds_are_where_the_exact_tails_say(law, n):
    """Each bound is one at which so rare a sum is about as rare as was asked for."""
    _, chances, variance, gaussian = law
    for noisy in (-5, 0, 1, 3, 10, n // 3, n - 1, n + 3):
        exact = tails(noisy, chances, n)
        for failure in (0.025, 1e-4):
            low, high = (
                float(bound)
                for bound in binomial_bounds(
                    noisy / n, variance / n**2, n, failure, gaussian=gaussian
                )
            )
            assert 0 <= low <= high <= 1
            if 1e-9 < high < 1 - 1e-9:
                assert 0.5 < exact(high)[0] / failure < 2
            if 1e-2 < low * n < n - 1e-2:
                assert 0.5 < exact(low)[1] / failure < 2


def test_what_was_not_measured_is_not_bounded():
    for gaussian in (True, False):
        low, high = binomial_bounds([0.3, 0.0], 1e12, 1000, 1e-3, gaussian=gaussian)
        np.testing.assert_allclose(low, 0, atol=1e-6)
        np.testing.assert_allclose(high, 1, atol=1e-6)


def test_without_noise_it_is_the_exact_interval():
    """Clopper and Pearson's: of 3 in 40 rows, [.0157, .2039] at 95%."""
    low, high = binomial_bounds(3 / 40, 0.0, 40, 0.025, gaussian=True)
    np.testing.assert_allclose([low, high], [0.0157, 0.2039], atol=2e-3)
