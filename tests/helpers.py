"""Shared by the tests: exact probabilities, tiny domains, statistics of a stated level."""

from __future__ import annotations

import decimal
import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.stats import binom, chi2

from skpublicdp.hypotheses import PublicSample
from tests.internals.hypotheses import tabulate
from tests.internals.mechanisms import exp_minus, probabilities

FALSE_ALARM = 1e-6


def allowed_failures(trials, beta):
    """Return a number of failures that a rate of beta exceeds with probability FALSE_ALARM only.

    There must be enough trials for more failures than that, or else the test could not fail.
    """
    limit = binom.isf(FALSE_ALARM, trials, beta)
    assert limit < trials, f"{trials} trials cannot refute a rate of {beta}"
    return limit


def two_up(value):
    """The second float above: a float rounded down is below in both readings, see `readings`."""
    return math.nextafter(math.nextafter(value, math.inf), math.inf)


def two_down(value):
    """The second float below."""
    return -two_up(-value)


def readings(value):
    """A float as it is stored, and as the decimal that it is written as."""
    return Fraction(value), Fraction(repr(value))


def best_delta(rho, epsilon):
    """The δ of ρ-zCDP, by bisection and with 90 digits.

    The infimum of Corollary 13 of Canonne, Kamath and Steinke (2020).
    """
    with decimal.localcontext(prec=90):
        rho, epsilon = (decimal.Decimal(v.numerator) / v.denominator for v in (rho, epsilon))
        low, high = decimal.Decimal(10) ** -25, (epsilon + 70) / rho + 1
        for _ in range(220):
            beta = (low + high) / 2
            if (2 * beta + 1) * rho - epsilon - (1 + 1 / beta).ln() < 0:
                low = beta
            else:
                high = beta
        power = beta * (beta + 1) * rho - beta * epsilon
        return (power + beta * beta.ln() - (beta + 1) * (beta + 1).ln()).exp()


def public_sample(X, classes=(0, 1)):
    X = np.asarray(X, dtype=float)
    names = tuple(f"x{column}" for column in range(X.shape[1]))
    return PublicSample(X, np.array(classes), names)


def outcome_probabilities(cover, data_sets, epsilon, sensitivity=1):
    """For each (X, y), bounds of the exact probability of every rule that can come out.

    Paths that print alike are one outcome.
    """
    paths_of = None
    for X, y in data_sets:
        family = cover.family(tabulate(cover, X, y))
        bounds = probabilities(family, epsilon, sensitivity, precision=96)
        if paths_of is None:
            paths_of = defaultdict(list)
            for path in bounds:
                paths_of[str(cover.hypothesis(path))].append(path)
        assert len(bounds) == sum(map(len, paths_of.values()))
        added = {}  # of rules whose paths have the same bounds, once
        outcomes = {}
        for rule, paths in paths_of.items():
            parts = sorted((bounds[path] for path in paths), key=id)
            alike = tuple(map(id, parts))
            if alike not in added:
                added[alike] = tuple(sum(ends, Fraction(0)) for ends in zip(*parts, strict=True))
            outcomes[rule] = added[alike]
        yield outcomes


def assert_private(outcomes, neighbours, epsilon):
    """Check P <= e^ε P' and P' <= e^ε P outcome by outcome, with rational bounds."""
    _, shrink = exp_minus(epsilon, 96)
    growth = Fraction(1 << 96, shrink)  # a lower bound of e^ε: the check errs on the strict side
    assert outcomes.keys() == neighbours.keys()
    # many outcomes are given the very same bounds: each pair of them is compared once
    pairs = {(id(mine), id(neighbours[name])): (mine, neighbours[name])
             for name, mine in outcomes.items()}  # fmt: skip
    for (lower, upper), (other_lower, other_upper) in pairs.values():
        assert lower > 0
        assert upper <= growth * other_lower
        assert other_upper <= growth * lower


def all_data_sets(points, n, classes=(0, 1)):
    """All labelled data sets of n rows over given points, up to order."""
    rows = list(itertools.product(range(len(points)), classes))
    return itertools.combinations_with_replacement(rows, n)


def as_arrays(points, chosen):
    X = np.array([points[index] for index, _ in chosen], dtype=float)
    return X, np.array([label for _, label in chosen])


def neighbours_of(chosen, points, classes=(0, 1)):
    """All data sets with one row replaced, up to order."""
    rows = list(itertools.product(range(len(points)), classes))
    found = set()
    for position in range(len(chosen)):
        for row in rows:
            found.add(tuple(sorted((*chosen[:position], *chosen[position + 1 :], row))))
    return found


def assert_fits(counts, expected_shares):
    """Chi-square test of observed counts against exact probabilities, at FALSE_ALARM."""
    counts = np.asarray(counts, dtype=float)
    expected = np.asarray(expected_shares, dtype=float) * counts.sum()
    common = expected >= 5  # the rest is pooled, as the test's approximation asks
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    kept = expected > 0
    assert observed[~kept].sum() == 0
    statistic = ((observed[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    assert statistic < chi2.isf(FALSE_ALARM, kept.sum() - 1)
