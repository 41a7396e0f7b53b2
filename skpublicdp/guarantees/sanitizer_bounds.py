"""How near the rows of a sanitizer are to the population, and how many rows that takes.

The proofs are in docs/proofs/guarantees.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from skpublicdp.guarantees.growth import check_ranges, growth_function, smallest_integer
from skpublicdp.guarantees.sample_size import SampleSize, n_finite

COUNT_SHARE = Fraction(2, 5)
"""Share of a column's budget for the masses; the medians have the rest, each level as much."""

SPURIOUS_PROBABILITY = 0.05
"""Probability with which noise may pass for rows in some part of a column that holds none."""

MIN_LEVELS, MAX_LEVELS = 2, 6

UNBOUNDED_PRIOR_RATIO = 100_022
"""Prior weight of all candidates of a column without bounds, over the least of one."""

MAX_MULTISETS = 1 << 16
"""More data sets to draw from are refused."""


def n_levels(n: int, epsilon: float) -> int:
    """Choose how often to halve a column, by public numbers.

    Parameters
    ----------
    n : int
        Number of rows.
    epsilon : float
        Privacy budget of the column.

    Returns
    -------
    int
        0 where so few rows would tell nothing; otherwise 2 to 6, one more each time `n * epsilon`
        is four times as much. Rules of thumb: few and good cuts make a small cover.

    Examples
    --------
    >>> [n_levels(n, 1.0) for n in (10, 100, 1_000, 10_000)]
    [0, 2, 3, 5]
    """
    rows = n * epsilon
    if rows < 16:
        return 0
    return min(max(2 + math.floor(math.log(rows / 128, 4)), MIN_LEVELS), MAX_LEVELS)


def max_spurious_mass(parts: int, scale: float) -> float:
    """Return the noisy mass up to which a part of a column may well be empty.

    Noise is above t times its scale with probability about exp(-t) / 2.
    """
    return scale * math.log(parts / (2 * SPURIOUS_PROBABILITY))


def quantile_error(n: int, beta: float, epsilon: float, odds: float, n_columns: int = 1) -> float:
    """Bound how far the distribution functions of `QuantileSanitizer` are from the population's.

    Parameters
    ----------
    n : int
        Number of rows, drawn independently.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    epsilon : float
        Privacy budget of all columns, which have equal shares.
    odds : float
        Prior weight of all candidates over the least weight of one, at most.
    n_columns : int, default=1
        Number of columns.

    Returns
    -------
    float
        At most 1: no threshold on a candidate of any column has a share of the population above it
        that differs more from the share of the released distribution. It is the sum of

        - sampling, by the inequality of Dvoretzky, Kiefer and Wolfowitz;
        - the largest space between neighbouring cuts: each median leaves at most half of a node and
          half of what its draw may lose on either side, so after L levels ``n / 2^L`` and that;
        - noise: of the sums of all masses up to a cut, by Doob's maximal inequality, and of the
          masses that are dropped, at most `max_spurious_mass` each.

    References
    ----------
    Massart (1990); Kaplan, Schnapp and Stemmer (2022); docs/proofs/guarantees.md.

    Examples
    --------
    >>> round(quantile_error(10**6, beta=0.05, epsilon=1.0, odds=100_022), 3)
    0.031
    """
    check_ranges(n=n, beta=beta, epsilon=epsilon, odds=odds, n_columns=n_columns)
    column, beta = epsilon / n_columns, beta / (4 * n_columns)
    levels = n_levels(n, column)
    if not levels:
        return 1.0
    parts: int = 2 ** (levels + 1) - 1
    halving = column * float(1 - COUNT_SHARE) / levels
    scale = 2 / (column * float(COUNT_SHARE)) * (1 + 2**-20)  # spreads are rounded up
    lost = 4 / halving * (math.log(odds) + math.log(2**levels - 1) - math.log(beta))
    dropped = max(max_spurious_mass(parts, scale), scale * math.log(2 * parts / beta))
    noise = _laplace_sums(parts, scale, beta) + parts * dropped
    if noise >= n:
        return 1.0
    sampling = math.sqrt(math.log(2 / beta) / (2 * n))
    return min(1.0, sampling + 0.5**levels + lost / n + 2 * noise / (n - noise))


def _laplace_sums(count: int, scale: float, beta: float) -> float:
    """Bound all partial sums of Laplace noise, discrete or not, with probability 1 - beta.

    Chernoff's bound at a few rates: E exp(r Z) is at most 1 / (1 - (r scale)^2).
    """
    rates = [place / 32 for place in range(1, 32)]
    tail = math.log(2 / beta)
    lost: float = min((tail - count * math.log1p(-r * r)) / r for r in rates)
    return scale * lost


def n_multisets(n_points: int, domain_size: int) -> int:
    """Count the data sets of a size over a domain, up to order.

    Examples
    --------
    >>> n_multisets(3, domain_size=4)
    20
    """
    return math.comb(domain_size + n_points - 1, n_points)


def blr_error(
    n: int, beta: float, epsilon: float, *, n_points: int, domain_size: int, n_queries: int
) -> float:
    """Bound how far the answers of `BLRSanitizer`'s points are from the population's.

    Parameters
    ----------
    n : int
        Number of rows, drawn independently.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    epsilon : float
        Privacy budget.
    n_points : int
        Number l of points drawn.
    domain_size : int
        Number N of possible rows.
    n_queries : int
        Number of queries.

    Returns
    -------
    float
        At most 1, the sum of

        - what l points cannot express: N / 4l, by rounding each cell, or ``sqrt(ln(2 n_queries + 1)
          / 2l)``, because l random rows do as well with positive probability;
        - the draw: `excess_error` at beta/2 of all C(N + l - 1, l) data sets;
        - sampling: ``sqrt(ln(4 n_queries / beta) / 2n)``, by Hoeffding on both sides.

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
    sets = math.log(n_multisets(n_points, domain_size))
    draw = 2 * (sets + math.log(2 / beta)) / (epsilon * n)
    sampling = math.sqrt(math.log(4 * n_queries / beta) / (2 * n))
    return min(1.0, approximation_error(n_points, domain_size, n_queries) + draw + sampling)


def approximation_error(n_points: int, domain_size: int, n_queries: int) -> float:
    """Bound how well the best data set of a size answers the queries, for any population."""
    random = math.sqrt(math.log(2 * n_queries + 1) / (2 * n_points))
    return min(random, domain_size / (4 * n_points))


def n_blr_points(n: int, epsilon: float, *, domain_size: int, n_queries: int) -> int:
    """Choose how many points `BLRSanitizer` draws, by the theorem.

    Parameters
    ----------
    n : int
        Number of rows.
    epsilon : float
        Privacy budget.
    domain_size, n_queries : int
        As in `blr_error`.

    Returns
    -------
    int
        The number with the least sum of what points cannot express and of what the draw loses,
        among those with at most 2^16 data sets.

    Examples
    --------
    >>> n_blr_points(100_000, 1.0, domain_size=8, n_queries=28)
    12
    """

    def loss(n_points: int) -> float:
        sets = math.log(n_multisets(n_points, domain_size))
        return approximation_error(n_points, domain_size, n_queries) + 2 * sets / (epsilon * n)

    return min(range(1, max_points(domain_size) + 1), key=loss)


def max_points(domain_size: int) -> int:
    """Return the most points of which there are at most 2^16 data sets, but no more than 1000."""
    # the first of all sizes is 1: a domain of more points is refused elsewhere
    return max(
        1, smallest_integer(lambda k: k > 1000 or n_multisets(k, domain_size) > MAX_MULTISETS) - 1
    )


class BLRSize(NamedTuple):
    """Rows and points of the generic learner with `BLRSanitizer`.

    Attributes
    ----------
    labelled, unlabelled : int
        Private rows with and without a label.
    n_points : int
        Points that the sanitizer draws.
    """

    labelled: int
    unlabelled: int
    n_points: int


def n_blr_learner(alpha: float, beta: float, epsilon: float, d: int, domain_size: int) -> BLRSize:
    """Count the rows of `GenericLearnerClassifier` with `BLRSanitizer` on a tiny domain.

    Parameters
    ----------
    alpha : float
        Excess error over the best member of the class in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        VC dimension of the class, or a bound on it.
    domain_size : int
        Number of possible rows.

    Returns
    -------
    BLRSize
        Rows with which `blr_error` of all h ⊕ f is at most alpha/2 at beta/2, for the number of
        points that needs the fewest; and `n_finite` at the other halves, for one member for each
        dichotomy of the points. `n_generic_learner` has the constants of the paper's proof.

    Raises
    ------
    ValueError
        If no number of points that the sanitizer can draw is enough for alpha.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3; Blum, Ligett and Roth (2013).

    Examples
    --------
    >>> n_blr_learner(alpha=0.4, beta=0.05, epsilon=1.0, d=1, domain_size=8)
    BLRSize(labelled=420, unlabelled=5573, n_points=12)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, domain_size=domain_size)
    queries = math.comb(growth_function(domain_size, d), 2) or 1
    sizes = {"domain_size": domain_size, "n_queries": queries}

    def rows_for(n_points: int) -> int:
        def error(n: int) -> float:
            return blr_error(n, beta / 2, epsilon, n_points=n_points, **sizes)

        return smallest_integer(lambda n: error(n) <= alpha / 2)

    found = []
    for n_points in range(1, max_points(domain_size) + 1):
        if approximation_error(n_points, **sizes) < alpha / 2:
            found.append((rows_for(n_points), n_points))
    if not found:
        raise ValueError(
            f"alpha must be larger for a domain of {domain_size} points: more data sets than "
            f"{MAX_MULTISETS} are refused; got {alpha!r}."
        )
    unlabelled, n_points = min(found)
    members = growth_function(min(n_points, domain_size), d)
    return BLRSize(n_finite(alpha / 2, beta / 2, epsilon, members), unlabelled, n_points)


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
    """Count the rows of `GenericLearnerClassifier` as it is shipped, for rules of few cuts.

    Parameters
    ----------
    alpha : float
        Excess error over the best member of the class in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    cuts : int, default=1
        Most cuts of a rule: 1 for thresholds and stumps, 2 for intervals.
    n_columns : int, default=1
        Number of columns, fewer than 8.
    odds : float, default=100022
        As in `quantile_error`; the default is that of columns without bounds.
    spacing : float, default=0.01
        The learner's own `alpha`.

    Returns
    -------
    SampleSize
        Unlabelled rows from which on rules are within alpha/2 of the cover, at beta/2: a cut is
        within `spacing` / 2 of the nearest one on s = max(1000, 2 / spacing) synthetic rows, and
        these are within ``quantile_error + 1 / s`` of the population at both ends. Labelled rows
        are `n_finite` at the other halves, for cuts among 2 / spacing + 1 of each column and labels
        on either side of each, all equally likely.

    Raises
    ------
    ValueError
        If alpha is not reached by any number of rows, as a column is cut in 64 parts at most.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3, for the shape; docs/proofs/guarantees.md.

    Examples
    --------
    >>> n_quantile_learner(alpha=0.2, beta=0.05, epsilon=1.0)
    SampleSize(labelled=1968, unlabelled=527215)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, cuts=cuts, n_columns=n_columns, odds=odds)
    check_ranges(spacing=spacing)
    fixed = spacing / 2 + 2 / max(1000, 2 / spacing)

    def reaches(n: int) -> bool:
        error = quantile_error(n, beta / 2, epsilon, odds, n_columns)
        return cuts * (fixed + 2 * error) <= alpha / 2

    floor = 2 * cuts * (fixed + 2 * 2.0**-MAX_LEVELS)
    if alpha <= floor:
        raise ValueError(
            f"alpha must be above {floor:g} for {cuts} cuts: a column is cut in at most "
            f"{2**MAX_LEVELS} parts; got {alpha!r}."
        )
    # the error falls as long as the number of levels stays, so the last of them decide
    starts = [0, *(math.ceil(128 * 4**k * n_columns / epsilon) for k in range(1, 5))]
    unlabelled = 0
    for start in reversed(starts):
        unlabelled = smallest_integer(reaches, start=start + 1)
        if unlabelled > start + 1:
            break
    members = (n_columns * math.floor(2 / spacing + 1)) ** cuts * 2 ** (cuts + 1)
    return SampleSize(n_finite(alpha / 2, beta / 2, epsilon, members), unlabelled)
