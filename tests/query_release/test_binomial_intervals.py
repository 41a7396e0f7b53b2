"""Bounds of fractions, compared with the exact distribution of binomial counts plus noise."""

import numpy as np
import pytest
from scipy.stats import binom, dlaplace, norm

from tests.internals.query_release import binomial_bounds

MAX_NOISE = 4000
NOISE = np.arange(-MAX_NOISE, MAX_NOISE + 1)


def exact_tails(noisy, noise_pmf, n, p):
    """Return P(sum <= noisy) and P(sum >= noisy) of a Binomial(n, p) plus noise."""
    count_pmf = binom.pmf(np.arange(n + 1), n, p)
    noise_cdf = np.cumsum(noise_pmf)
    index = np.clip(noisy - np.arange(n + 1) + MAX_NOISE, -1, 2 * MAX_NOISE)
    at_most = np.where(index < 0, 0, noise_cdf[index])
    below = np.where(index < 1, 0, noise_cdf[index - 1])
    return count_pmf @ at_most, count_pmf @ (1 - below)


def noise_distributions():
    """Yield names, probability mass functions, variances, and whether the noise is Gaussian."""
    for scale in (0.3, 1.0, 5.0, 40.0):
        yield f"laplace {scale}", dlaplace.pmf(NOISE, 1 / scale), dlaplace.var(1 / scale), False
    for sigma in (0.6, 1.0, 5.0, 40.0):
        edges = norm.cdf((NOISE[:, None] + [-0.5, 0.5]) / sigma)
        noise_pmf = np.diff(edges, axis=1).ravel()
        yield f"gaussian {sigma}", noise_pmf, (noise_pmf * NOISE**2).sum(), True


@pytest.mark.parametrize("noise", noise_distributions(), ids=lambda noise: noise[0])
@pytest.mark.parametrize("n", [50, 1000])
def test_tails_at_the_bounds_are_close_to_failure(noise, n):
    """The tail probability at each bound is within a factor of two of `failure`."""
    _, noise_pmf, variance, gaussian = noise
    for noisy in (-5, 0, 1, 3, 10, n // 3, n - 1, n + 3):
        for failure in (0.025, 1e-4):
            low, high = (
                float(bound)
                for bound in binomial_bounds(
                    noisy / n, variance / n**2, n, failure, gaussian=gaussian
                )
            )
            assert 0 <= low <= high <= 1
            if 1e-9 < high < 1 - 1e-9:
                assert 0.5 < exact_tails(noisy, noise_pmf, n, high)[0] / failure < 2
            if 1e-2 < low * n < n - 1e-2:
                assert 0.5 < exact_tails(noisy, noise_pmf, n, low)[1] / failure < 2


def test_bounds_under_huge_noise():
    for gaussian in (True, False):
        low, high = binomial_bounds([0.3, 0.0], 1e12, 1000, 1e-3, gaussian=gaussian)
        np.testing.assert_allclose(low, 0, atol=1e-6)
        np.testing.assert_allclose(high, 1, atol=1e-6)


def test_bounds_without_noise_are_clopper_pearson():
    """Clopper and Pearson's: of 3 in 40 rows, [.0157, .2039] at 95%."""
    low, high = binomial_bounds(3 / 40, 0.0, 40, 0.025, gaussian=True)
    np.testing.assert_allclose([low, high], [0.0157, 0.2039], atol=2e-3)


@pytest.mark.parametrize("gaussian", [True, False])
def test_bounds_near_0_and_1_are_exact(gaussian):
    """Rounding errors must not exclude a share of exactly 0 or 1."""
    noisy = np.linspace(-0.02, 0.02, 401)
    for ends in (noisy, 1 - noisy):
        low, high = binomial_bounds(ends, 2e-5, 20_000, 1e-5, gaussian=gaussian)
        assert ((low == 0) | (low > 1e-9)).all()
        assert ((high == 1) | (high < 1 - 1e-9)).all()
        assert (low == 0).any() or (high == 1).any()
