"""Compare the samplers of this package with independent samplers of the same distributions.

* OpenDP's discrete Laplace noise on integers, its Gaussian noise on floats, rounded to integers
  afterwards, and its noisy maximum with Gumbel noise, which has the distribution of the exponential
  mechanism.
* Algorithms 1 and 2 of Canonne, Kamath and Steinke (2020) for discrete Laplace noise, implemented
  here from the paper. SampCert proves these algorithms in Lean.
* dp-accounting's δ(ε) of discrete Laplace noise, compared with that of our sampler's thresholds.

Rounded Gaussian noise is not discrete Gaussian noise, so the two are not compared.

Our draws are seeded. OpenDP uses randomness from the operating system and cannot be seeded. Each
test is a two-sample chi-square test at level `LEVEL`.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from importlib.metadata import version

import numpy as np
import opendp.prelude as dp
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import chi2_contingency
from witnesses_table import ABOVE, HOLDS, Row

from skpublicdp.accounting import Draw
from skpublicdp.mechanisms.discrete_laplace import _geometric, discrete_laplace
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.mechanisms.randomness import SeededBits
from skpublicdp.mechanisms.rounded_gaussian import rounded_gaussian
from skpublicdp.privacy.ledger import Ledger

LEVEL = 1e-6
N_NOISE = 200_000
N_DRAWS = 20_000
N_PAPER = 50_000
"""Numbers of samples, smaller for the paper's algorithms in plain Python."""

SCALES = (Fraction(1, 2), Fraction(7, 3), Fraction(40), Fraction(10**5))
ROUNDING = 1e-12
"""Tolerance for floating-point sums."""

ERRORS = (0, 3, 3, 7, 20)
OPENDP = f"OpenDP {version('opendp')}"
PAPER = "Canonne et al. (2020)"

dp.enable_features("contrib")


def rows():
    for scale in SCALES:
        ours = discrete_laplace(scale, N_NOISE, SeededBits(1))
        subject = f"discrete Laplace noise, scale {scale}"
        yield compared(OPENDP, subject, ours, opendp_laplace(scale))
        if scale < 100:
            yield compared(PAPER, subject, ours, paper(paper_laplace, scale))
    for sigma in SCALES:
        ours = rounded_gaussian(sigma**2, N_NOISE, SeededBits(2))
        subject = f"rounded Gaussian noise, σ = {sigma}"
        yield compared(OPENDP, subject, ours, opendp_gaussian(sigma))
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(4)):
        subject = f"exponential mechanism, ε = {epsilon}"
        yield compared(OPENDP, subject, our_draws(epsilon), opendp_draws(epsilon))
    for scale in SCALES[1:3]:
        yield from thresholds(scale)


def compared(tool, subject, ours, theirs):
    """Return a row with the p-value for the equality of two sample distributions."""
    p_value = two_sample_p_value(ours, theirs)
    verdict = HOLDS if p_value >= LEVEL else ABOVE
    number = float(len(theirs))
    return Row(
        "samplers",
        tool,
        subject,
        "p value of equality",
        math.nan,
        math.nan,
        p_value,
        number,
        verdict,
    )


def two_sample_p_value(first, second):
    """Return the p-value of a chi-square test on about 40 bins of at least 20 samples each."""
    both = np.sort(np.concatenate([first, second]))
    edges = np.unique(both[np.linspace(0, len(both) - 1, 41).astype(int)])
    counts = np.array(
        [np.bincount(np.searchsorted(edges, x), minlength=len(edges)) for x in (first, second)]
    )
    return float(chi2_contingency(counts[:, counts.sum(axis=0) >= 20]).pvalue)


def opendp_laplace(scale):
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return np.array(dp.m.make_laplace(*space, scale=float(scale))([0] * N_NOISE))


def opendp_gaussian(sigma):
    """Return OpenDP's Gaussian noise on a grid of about 2^-50, rounded to integers."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), N_NOISE), dp.l2_distance(T=float)
    noise = dp.m.make_gaussian(*space, scale=float(sigma), k=-50)([0.0] * N_NOISE)
    return np.rint(noise).astype(np.int64)


def opendp_draws(epsilon):
    """Return draws by the noisy maximum of the negative errors with Gumbel noise of scale 2/ε."""
    noisy_max = dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T=int)),
        dp.linf_distance(T=int),
        dp.zero_concentrated_divergence(),  # with which its noise is Gumbel
        scale=2 / float(epsilon),
    )
    scores = [-error for error in ERRORS]
    return np.array([noisy_max(scores) for _ in range(N_DRAWS)])


def our_draws(epsilon):
    entry = {"name": "draw", "proof": ""}
    found = []
    for seed in range(N_DRAWS):
        ledger = Ledger(epsilon, random_state=seed)
        ledger.plan(Draw(epsilon))
        found.append(ledger.draw(Leaf(np.array(ERRORS)), Draw(epsilon), 1, **entry))
    return np.array(found)


def thresholds(scale):
    """Yield rows with the δ of noise on an integer that changes by 2, from exact thresholds."""
    sampler = _geometric(1 / scale)
    assert not sampler._digits, "the thresholds of one geometric variable"
    survival = np.r_[1.0, sampler._high._words.astype(float) / 2.0**64]
    geometric = -np.diff(survival)  # up to e^-8; further values are draws of the same kind
    ratio = math.exp(-sampler._last / float(scale))
    geometric = np.concatenate([geometric * ratio**k for k in range(5)])
    noise = np.convolve(geometric, geometric[::-1])
    tool = f"dp-accounting {version('dp-accounting')}"
    for share in (0, Fraction(1, 2)):
        epsilon = float(share * 2 / scale)
        ours = float(
            np.maximum(0, np.pad(noise, (0, 2)) - math.exp(epsilon) * np.pad(noise, (2, 0))).sum()
        )
        low, high = (
            pld.from_discrete_laplace_mechanism(
                1 / float(scale), sensitivity=2, pessimistic_estimate=is_high,
                value_discretization_interval=1e-6,
            ).get_delta_for_epsilon(epsilon)
            for is_high in (False, True)
        )  # fmt: skip
        verdict = HOLDS if low - ROUNDING <= ours <= high + ROUNDING else ABOVE
        subject = f"discrete Laplace noise, scale {scale}: its table of thresholds"
        measure = f"δ at ε = {epsilon:.4g} of a value that moves by 2"
        nan = math.nan
        yield Row("samplers", tool, subject, measure, nan, nan, ours, high, verdict)


def paper(sample, scale):
    """Return samples of an algorithm of the paper, with a seeded source."""
    source = random.Random(5)
    return np.array([sample(scale, source) for _ in range(N_PAPER)])


def bernoulli_exp(gamma, source):
    """Return a sample of Bernoulli(exp(-γ)): Algorithm 1 of the paper."""
    if gamma <= 1:
        k = 1
        while source.randrange(k * gamma.denominator) < gamma.numerator:
            k += 1
        return k % 2 == 1
    for _ in range(math.floor(gamma)):
        if not bernoulli_exp(Fraction(1), source):
            return False
    return bernoulli_exp(gamma - math.floor(gamma), source)


def paper_laplace(scale, source):
    """Return a sample of discrete Laplace noise: Algorithm 2, with t = numerator of the scale."""
    t, s = scale.numerator, scale.denominator
    while True:
        low = source.randrange(t)
        if not bernoulli_exp(Fraction(low, t), source):
            continue
        high = 0
        while bernoulli_exp(Fraction(1), source):
            high += 1
        magnitude = (low + t * high) // s
        is_negative = source.randrange(2)
        if not (is_negative and magnitude == 0):
            return -magnitude if is_negative else magnitude
