"""Population error bounds of sanitizers, and sample sizes of learners that use sanitizers.

The bounds are proved in docs/proofs/guarantees.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from skpublicdp.guarantees.population import check_ranges, growth_function, smallest_integer
from skpublicdp.guarantees.sample_size import SampleSize, n_finite

COUNT_SHARE = Fraction(2, 5)
"""Fraction of a column's privacy budget that is spent on the noisy counts.

The rest of the budget is divided equally among the levels."""

SPURIOUS_PROBABILITY = 0.05
"""Probability that some empty part of a column has a noisy count above the drop threshold."""

MIN_LEVELS, MAX_LEVELS = 2, 6
"""Minimum and maximum number of levels of medians, for columns with enough rows."""

UNBOUNDED_PRIOR_RATIO = 100_022
"""Sum of a column's prior candidate weights divided by the smallest weight, without bounds."""

MIN_MEDIAN_SIGNAL = 16
"""Minimum value of n ε for which a column is cut; below it, the drawn medians would be noise."""

TWO_LEVEL_SIGNAL = 128
"""Value of n ε for which a column has two levels of medians.

Each additional factor of 4 in n ε adds a level."""

MAX_MULTISETS = 1 << 16
"""Maximum number of datasets from which `BLRSanitizer` draws."""

MAX_BLR_POINTS = 1000
"""Maximum number of points in a dataset that `BLRSanitizer` draws."""


def n_levels(n: int, epsilon: float) -> int:
    """Return the number of levels at which `QuantileSanitizer` bisects a column at medians.

    Examples
    --------
    >>> [n_levels(n, 1.0) for n in (10, 100, 1_000, 10_000)]
    [0, 2, 3, 5]
    """
    signal = n * epsilon
    if signal < MIN_MEDIAN_SIGNAL:
        return 0
    levels = 2 + math.floor(math.log(signal / TWO_LEVEL_SIGNAL, 4))
    return min(max(levels, MIN_LEVELS), MAX_LEVELS)


def max_spurious_mass(n_parts: int, scale: float) -> float:
    """Return the noisy count below which a part of a column is dropped as possibly empty.

    Laplace noise exceeds t times its scale with probability approximately exp(-t) / 2. By a union
    bound over the parts, all empty parts are dropped except with probability
    `SPURIOUS_PROBABILITY`.
    """
    return scale * math.log(n_parts / (2 * SPURIOUS_PROBABILITY))


def quantile_error(n: int, beta: float, epsilon: float, odds: float, n_columns: int = 1) -> float:
    """Return a bound on the population error of the CDFs of `QuantileSanitizer`.

    Parameters
    ----------
    n : int
        Number of independently drawn rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    epsilon : float
        Privacy budget of all columns together, divided into equal shares.
    odds : float
        Sum of the prior weights of the candidates divided by the smallest weight, or an upper
        bound.
    n_columns : int, default=1
        Number of columns.

    Returns
    -------
    float
        The maximum difference, over all thresholds on candidates of all columns, between the
        population fraction above the threshold and the released fraction. The bound is capped at 1
        and is the sum of three terms:

        - sampling, using the Dvoretzky-Kiefer-Wolfowitz inequality;
        - the largest mass between neighbouring cuts: each median leaves at most half of a node on
          either side, plus half of the error of its draw, so the mass after L levels is ``n / 2^L``
          plus the error of a draw;
        - noise: the noise in the sums of all counts up to a cut, bounded by Doob's maximal
          inequality, and the dropped counts, which are at most `max_spurious_mass` each.

    References
    ----------
    Massart (1990); Kaplan, Schnapp and Stemmer (2022); docs/proofs/guarantees.md.

    Examples
    --------
    >>> round(quantile_error(10**6, beta=0.05, epsilon=1.0, odds=100_022), 3)
    0.031
    """
    check_ranges(n=n, beta=beta, epsilon=epsilon, odds=odds, n_columns=n_columns)
    column_epsilon, column_beta = epsilon / n_columns, beta / (4 * n_columns)
    levels = n_levels(n, column_epsilon)
    if not levels:
        return 1.0
    n_parts: int = 2 ** (levels + 1) - 1
    level_epsilon = column_epsilon * float(1 - COUNT_SHARE) / levels
    # Replacing a row changes two counts by 1. The scale is larger by a factor of 1 + 2^-20, since
    # noise scales are rounded up.
    scale = 2 / (column_epsilon * float(COUNT_SHARE)) * (1 + 2**-20)
    log_nodes = math.log(2**levels - 1)
    draw_rows = 4 / level_epsilon * (math.log(odds) + log_nodes - math.log(column_beta))
    dropped_rows = max(
        max_spurious_mass(n_parts, scale), scale * math.log(2 * n_parts / column_beta)
    )
    noise_rows = _max_laplace_sum(n_parts, scale, column_beta) + n_parts * dropped_rows
    if noise_rows >= n:
        return 1.0
    sampling = math.sqrt(math.log(2 / column_beta) / (2 * n))
    noise = 2 * noise_rows / (n - noise_rows)
    return min(1.0, sampling + 0.5**levels + draw_rows / n + noise)


def _max_laplace_sum(n_terms: int, scale: float, beta: float) -> float:
    """Return a bound on the absolute value of all partial sums of n independent Laplace variables.

    The bound holds with probability 1 - beta. The bound is Doob's inequality with E exp(r Z) <= 1 /
    (1 - (r scale)^2), at the best rate in a grid. The noise can be discrete or continuous.
    """
    rates = [step / 32 for step in range(1, 32)]
    log_failure = math.log(2 / beta)
    bound: float = min((log_failure - n_terms * math.log1p(-r * r)) / r for r in rates)
    return scale * bound


def n_multisets(n_points: int, domain_size: int) -> int:
    """Return the number of datasets with n points from a domain, regardless of order.

    Examples
    --------
    >>> n_multisets(3, domain_size=4)
    20
    """
    return math.comb(domain_size + n_points - 1, n_points)


def blr_error(
    n: int, beta: float, epsilon: float, *, n_points: int, domain_size: int, n_queries: int
) -> float:
    """Return a bound on the population error of answers from `BLRSanitizer`.

    Parameters
    ----------
    n : int
        Number of independently drawn rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    epsilon : float
        Privacy budget.
    n_points : int
        Number l of points that the sanitizer draws.
    domain_size : int
        Number N of possible rows.
    n_queries : int
        Number of queries.

    Returns
    -------
    float
        The bound is capped at 1 and is the sum of three terms:

        - approximation: the smallest error of any l points, which is at most N / 4l by rounding
          each cell, and at most ``sqrt(ln(2 n_queries + 1) / 2l)``, which l random rows attain with
          positive probability;
        - the draw: `excess_error` at beta/2 for all C(N + l - 1, l) datasets;
        - sampling: ``sqrt(ln(4 n_queries / beta) / 2n)``, by the two-sided Hoeffding inequality.

    References
    ----------
    Blum, Ligett and Roth (2013), Theorem 3.1; Beimel, Nissim and Stemmer (2015), Theorem A.3.

    Examples
    --------
    >>> size = {"n_points": 12, "domain_size": 8, "n_queries": 28}
    >>> round(blr_error(10_000, beta=0.05, epsilon=1.0, **size), 3)
    0.189
    """
    check_ranges(n=n, beta=beta, epsilon=epsilon)
    check_ranges(n_points=n_points, domain_size=domain_size, n_queries=n_queries)
    log_n_sets = math.log(n_multisets(n_points, domain_size))
    log_failure = math.log(2 / beta)
    draw = 2 * (log_n_sets + log_failure) / (epsilon * n)
    log_n_events = math.log(4 * n_queries / beta)
    sampling = math.sqrt(log_n_events / (2 * n))
    approximation = approximation_error(n_points, domain_size, n_queries)
    return min(1.0, approximation + draw + sampling)


def approximation_error(n_points: int, domain_size: int, n_queries: int) -> float:
    """Return a bound on the error of the best dataset with n points, for any population."""
    sampling_bound = math.sqrt(math.log(2 * n_queries + 1) / (2 * n_points))
    rounding_bound = domain_size / (4 * n_points)
    return min(sampling_bound, rounding_bound)


def n_blr_points(n: int, epsilon: float, *, domain_size: int, n_queries: int) -> int:
    """Return the number of points for which the error bound of `BLRSanitizer` is smallest.

    Examples
    --------
    >>> n_blr_points(100_000, 1.0, domain_size=8, n_queries=28)
    12
    """

    def error(n_points: int) -> float:
        draw_error = 2 * math.log(n_multisets(n_points, domain_size)) / (epsilon * n)
        return approximation_error(n_points, domain_size, n_queries) + draw_error

    return min(range(1, max_points(domain_size) + 1), key=error)


def max_points(domain_size: int) -> int:
    """Return the maximum number of points in a dataset that `BLRSanitizer` can draw.

    A dataset has at most 1000 points, and the domain has at most 2^16 datasets of this size. The
    result is at least 1: domains with more than 2^16 points are rejected elsewhere.
    """

    def is_too_large(n_points: int) -> bool:
        return n_points > MAX_BLR_POINTS or n_multisets(n_points, domain_size) > MAX_MULTISETS

    return max(1, smallest_integer(is_too_large) - 1)


class BLRSize(NamedTuple):
    """Sample sizes for `GenericLearnerClassifier` with `BLRSanitizer`.

    Attributes
    ----------
    labelled, unlabelled : int
        Numbers of private rows with and without a label.
    n_points : int
        Number of points that the sanitizer draws.
    """

    labelled: int
    unlabelled: int
    n_points: int


def n_blr_learner(alpha: float, beta: float, epsilon: float, d: int, domain_size: int) -> BLRSize:
    """Return the numbers of rows that `GenericLearnerClassifier` requires with `BLRSanitizer`.

    Parameters
    ----------
    alpha : float
        Excess population error over the best rule of the class, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        VC dimension of the class, or an upper bound.
    domain_size : int
        Number of possible rows.

    Returns
    -------
    BLRSize
        The number of unlabelled rows is chosen such that `blr_error` for all h ⊕ f is at most
        alpha/2 at beta/2, using the number of points that requires the fewest rows. The number of
        labelled rows is given by `n_finite` at the other halves of alpha and beta, for a cover with
        one member for each dichotomy of the points. `n_generic_learner` uses the constants of the
        paper's proof.

    Raises
    ------
    ValueError
        If alpha cannot be attained with any number of points that the sanitizer can draw.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3; Blum, Ligett and Roth (2013).

    Examples
    --------
    >>> n_blr_learner(alpha=0.4, beta=0.05, epsilon=1.0, d=1, domain_size=8)
    BLRSize(labelled=420, unlabelled=5573, n_points=12)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, domain_size=domain_size)
    n_queries = math.comb(growth_function(domain_size, d), 2) or 1
    sizes = {"domain_size": domain_size, "n_queries": n_queries}

    def n_unlabelled(n_points: int) -> int:
        def error(n: int) -> float:
            return blr_error(n, beta / 2, epsilon, n_points=n_points, **sizes)

        return smallest_integer(lambda n: error(n) <= alpha / 2)

    candidates = [
        (n_unlabelled(n_points), n_points)
        for n_points in range(1, max_points(domain_size) + 1)
        if approximation_error(n_points, **sizes) < alpha / 2
    ]
    if not candidates:
        raise ValueError(
            f"alpha must be larger for a domain of {domain_size} points, because the sanitizer can "
            f"draw from at most {MAX_MULTISETS} data sets; got {alpha!r}."
        )
    unlabelled, n_points = min(candidates)
    cover_size = growth_function(min(n_points, domain_size), d)
    return BLRSize(n_finite(alpha / 2, beta / 2, epsilon, cover_size), unlabelled, n_points)


def n_quantile_learner(
    alpha: float,
    beta: float,
    epsilon: float,
    cuts: int = 1,
    n_columns: int = 1,
    *,
    odds: float = UNBOUNDED_PRIOR_RATIO,
    spacing: float = 0.01,
) -> SampleSize:
    """Return the numbers of rows that the default `GenericLearnerClassifier` requires.

    The numbers apply to rules that cut single columns: thresholds, stumps and intervals.

    Parameters
    ----------
    alpha : float
        Excess population error over the best rule of the class, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    cuts : int, default=1
        Maximum number of cuts in a rule: 1 for thresholds and stumps, 2 for intervals.
    n_columns : int, default=1
        Number of columns, which must be below 8.
    odds : float, default=100022
        As in `quantile_error`; the default is for columns without bounds.
    spacing : float, default=0.01
        The parameter `alpha` of the learner.

    Returns
    -------
    SampleSize
        The number of unlabelled rows is large enough for every rule to be within alpha/2 of the
        cover, at beta/2. A cut is within `spacing` / 2 of the nearest cut of the cover on s =
        max(1000, 2 / spacing) synthetic rows, which are within ``quantile_error + 1 / s`` of the
        population at both ends. The number of labelled rows is that of `n_finite` at the other
        halves of alpha and beta. The cover has 2 / spacing + 1 cuts in each column, with all
        combinations of labels between cuts, all equally likely.

    Raises
    ------
    ValueError
        If no number of rows suffices for alpha, because a column is cut into at most 64 parts.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3, for the form of the bound;
    docs/proofs/guarantees.md.

    Examples
    --------
    >>> n_quantile_learner(alpha=0.2, beta=0.05, epsilon=1.0)
    SampleSize(labelled=1968, unlabelled=527215)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, cuts=cuts, n_columns=n_columns, odds=odds)
    check_ranges(spacing=spacing)
    synthetic_error = spacing / 2 + 2 / max(1000, 2 / spacing)

    def is_enough(n: int) -> bool:
        error = quantile_error(n, beta / 2, epsilon, odds, n_columns)
        return cuts * (synthetic_error + 2 * error) <= alpha / 2

    min_alpha = 2 * cuts * (synthetic_error + 2 * 2.0**-MAX_LEVELS)
    if alpha <= min_alpha:
        raise ValueError(
            f"alpha must be above {min_alpha:g} for {cuts} cuts, because a column is divided into "
            f"at most {2**MAX_LEVELS} parts; got {alpha!r}."
        )
    # The error decreases in n while the number of levels is constant, and increases where a level
    # is added. The smallest n from which the error is small enough lies in the last interval of
    # constant levels that does not begin with enough rows.
    starts = [0]  # each interval of constant levels begins after one of these numbers of rows
    for added_levels in range(1, MAX_LEVELS - MIN_LEVELS + 1):
        starts.append(math.ceil(TWO_LEVEL_SIGNAL * 4**added_levels * n_columns / epsilon))
    unlabelled = 0
    for start in reversed(starts):
        unlabelled = smallest_integer(is_enough, start=start + 1)
        if unlabelled > start + 1:
            break  # the interval does not begin with enough rows
    # cuts in any columns, and one of two labels for each of the cuts + 1 parts
    cover_size = (n_columns * math.floor(2 / spacing + 1)) ** cuts * 2 ** (cuts + 1)
    return SampleSize(n_finite(alpha / 2, beta / 2, epsilon, cover_size), unlabelled)
