"""Growth function, and error bounds of a private draw on the scored rows and in the population.

The bound for the population is the sum of a term for the cover, a term for the draw and a term for
sampling. All numbers are public. The bounds are proved in docs/proofs/guarantees.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from scipy.optimize import minimize_scalar
from scipy.special import betainccinv

MAX_VC_DIMENSION = 1 << 16
"""Maximum VC dimension for which sample sizes are computed."""

MAX_EXACT_DIMENSION = 64
"""Maximum VC dimension for which `log_growth` sums the binomial coefficients of Sauer's bound."""


class HasGrowth(Protocol):
    """A hypothesis class that provides an upper bound on its own growth function."""

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the class."""


def growth_function(m: int, d: int) -> int:
    """Return the maximum number of labellings of m rows by a class of VC dimension d (Sauer).

    Parameters
    ----------
    m : int
        Number of rows.
    d : int
        VC dimension.

    Returns
    -------
    int
        The sum of the binomial coefficients C(m, k) over k <= d.

    References
    ----------
    Sauer (1972), Theorem 1.

    Examples
    --------
    >>> growth_function(10, 2)  # for example, intervals on a line
    56
    """
    m, d = int(m), int(d)  # integers of numpy would overflow
    if m <= d:
        return 1 << m
    total = term = 1
    for k in range(d):
        term = term * (m - k) // (k + 1)
        total += term
    return total


def vc_dimension(hypotheses: HasGrowth, n_features: int) -> int:
    """Return an upper bound on the VC dimension of a hypothesis class with two labels.

    Parameters
    ----------
    hypotheses : HypothesisClass
        A class with a method ``growth(m, n_features)`` that returns an upper bound on the number of
        labellings of m rows.
    n_features : int
        Number of features.

    Returns
    -------
    int
        The largest v with ``growth(v, n_features) >= 2^v``, since larger sets of rows cannot be
        shattered. The bound equals the VC dimension if `growth` is exact.

    Raises
    ------
    TypeError
        If the class does not have a method `growth`.
    ValueError
        If the bound exceeds 65536.

    References
    ----------
    Vapnik and Chervonenkis (1971).

    Examples
    --------
    >>> class Intervals:
    ...     def growth(self, m, n_features):
    ...         return growth_function(m, 2)
    >>> vc_dimension(Intervals(), n_features=1)
    2
    """
    if not hasattr(hypotheses, "growth"):
        raise TypeError(
            "hypotheses must have a method growth(m, n_features), from which the VC dimension is "
            f"computed; {type(hypotheses).__name__} has no such method."
        )

    def is_not_shattered(v: int) -> bool:
        if v > MAX_VC_DIMENSION:  # otherwise a class without a VC dimension would never end
            raise ValueError(
                f"hypotheses must have a VC dimension of at most {MAX_VC_DIMENSION}; got "
                f"{hypotheses!r}."
            )
        return hypotheses.growth(v, n_features) < 1 << v

    return smallest_integer(is_not_shattered) - 1


def n_public(
    alpha: float, beta: float, d: int, *, realizable: bool = False, constants: str = "paper"
) -> int:
    """Return the number of public rows whose dichotomies form a cover of radius alpha.

    Parameters
    ----------
    alpha : float
        Radius, in (0, 1): every rule of the class disagrees with some rule of the cover on at most
        this fraction of the population.
    beta : float
        Probability, in (0, 1), with which the cover may fail.
    d : int
        VC dimension of the class, or an upper bound.
    realizable : bool, default=False
        Whether only one fixed rule needs to be covered: the rule that makes no error, or the best
        rule if `n_private` has a `best_error`. In this case, every rule that agrees with it on the
        rows differs from it on at most alpha of the population. This number of labelled rows
        therefore also suffices to learn the class without privacy if some rule makes no error.
    constants : {"paper", "tight"}, default="paper"
        Whether to use the constants of the paper or smaller constants.

    Returns
    -------
    int
        With the paper's constants, the smallest m such that ``2 (2em/d)^(2d) exp(-alpha m / 4) <=
        beta``, inequality (1) of the paper, holds for m and all larger numbers. With the tight
        constants, the smallest m such that ``2 growth_function(2m, d)^2 <= beta 2^(alpha m)`` holds
        for m and all larger numbers, see `dichotomies_radius`. If `realizable`, the exponent 2d is
        replaced by d, and the tight inequality is ``4 growth_function(2m, d) <= beta 2^(alpha m)``.

    Raises
    ------
    ValueError
        If a number is out of range, or `constants` is invalid.

    References
    ----------
    Alon, Bassily and Moran (2019), Lemma 3.3; Beimel, Nissim and Stemmer (2015), Theorem B.4, for
    `realizable`; docs/proofs/guarantees.md.

    Examples
    --------
    >>> n_public(alpha=0.1, beta=0.05, d=1)
    820
    >>> n_public(alpha=0.1, beta=0.05, d=1, constants="tight")
    231
    >>> n_public(alpha=0.1, beta=0.05, d=1, realizable=True, constants="tight")
    146
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    if constants not in ("paper", "tight"):
        raise ValueError(f"constants must be 'paper' or 'tight'; got {constants!r}.")
    n_rules = 1 if realizable else 2  # that vary: one is fixed in the realizable case
    if constants == "tight":
        # the left side is concave in m and exceeds the right side at m = 1, so it crosses once
        log_failure = math.log((4 if realizable else 2) / beta)
        return smallest_integer(
            lambda m: n_rules * log_growth(2 * m, d) + log_failure <= alpha * m * math.log(2)
        )
    # the left side of the inequality decreases for larger m, and exceeds 1 here
    start = math.ceil(4 * n_rules * d / alpha)
    return smallest_integer(lambda m: _radius(m, beta, d, n_rules) <= alpha, start=start)


def cover_radius(m: int, d: int, beta: float, missed: float = 0.0) -> float:
    """Return the radius of the cover by dichotomies of m public rows, inverting `n_public`.

    Parameters
    ----------
    m : int
        Number of public rows.
    d : int
        VC dimension of the class, or an upper bound.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    missed : float, default=0.0
        Radius of the cover on the m rows if the cover does not represent all dichotomies: the
        fraction of the rows on which a rule of the class may disagree with the nearest rule of the
        cover.

    Returns
    -------
    float
        ``r = 4 (ln(2 / beta) + 2d ln(2em / d)) / m``, capped at 1. Below m = d/2, the radius is 1,
        since Sauer's bound and inequality (1) require 2m >= d. With `missed`, the radius is
        ``missed + sqrt(missed r) + r`` at half of beta. The formula follows from relative deviation
        bounds for the disagreements, which have at most ``growth_function(m, d)^2`` dichotomies.

    References
    ----------
    Alon, Bassily and Moran (2019), Lemma 3.3; for `missed`, Anthony and Shawe-Taylor (1993).

    Examples
    --------
    >>> round(cover_radius(m=1000, d=1, beta=0.05), 4)
    0.0836
    """
    check_ranges(beta=beta, d=d, m=m)
    if 2 * m < d:
        return 1.0
    radius = _radius(m, beta / 2 if missed else beta, d)
    return min(1.0, missed + math.sqrt(missed * radius) + radius)


def _radius(m: int, beta: float, d: int, n_rules: int = 2) -> float:
    """Return the alpha for which inequality (1) of Alon, Bassily and Moran (2019) is an equality.

    The inequality applies to pairs of rules. If `n_rules` is 1, one of the two rules is fixed.
    """
    return 4 * (math.log(2 / beta) + n_rules * d * (1 + math.log(2 * m / d))) / m


def population_share_bound(share: float, m: int, beta: float) -> float:
    """Return an upper bound on a population fraction, given its value among m sampled rows.

    The bound holds with probability 1 - beta. By Chernoff's bound, the fraction among the rows is
    below p - t with probability at most exp(-m t^2 / 2p), where p is the population fraction.

    Examples
    --------
    >>> round(population_share_bound(0.02, m=1000, beta=0.05), 4)
    0.0369
    """
    if not m:
        return 1.0  # without rows nothing is known about the population
    rate = -math.log(beta) / m
    # the largest p with m (p - share)^2 / 2p <= -ln(beta), rounded up to a simple expression
    return min(1.0, share + math.sqrt(2 * share * rate) + 2 * rate)


def n_uniform(alpha: float, beta: float, d: int) -> int:
    """Return the number of rows for which all empirical errors are close to population errors.

    The result is the sample size for uniform convergence to within alpha over a class. It also
    suffices for learning without privacy, and serves as a baseline for the other sample sizes.

    Parameters
    ----------
    alpha : float
        Maximum difference, in (0, 1), between the empirical error and the population error.
    beta : float
        Probability, in (0, 1), with which the difference may be larger for some rule.
    d : int
        VC dimension of the class, or an upper bound.

    Returns
    -------
    int
        The smallest m such that ``4 growth_function(2m, d) exp(-alpha^2 m / 8) <= beta`` holds for
        m and all larger numbers.

    References
    ----------
    Vapnik and Chervonenkis (1971), as in Anthony and Bartlett (1999), Theorem 4.3.

    Examples
    --------
    >>> n_uniform(alpha=0.1, beta=0.05, d=1)
    11544
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    # the left side is concave in m and exceeds the right side at m = 1, so it crosses once
    return smallest_integer(lambda m: math.log(4 / beta) + log_growth(2 * m, d) <= alpha**2 * m / 8)


def smallest_integer(holds: Callable[[int], bool], start: int = 1) -> int:
    """Return the smallest integer, starting from `start`, that satisfies a monotone condition.

    If `holds` is true for an integer, it must be true for all larger integers. The search doubles
    the integer until the condition is satisfied, and then bisects. The search does not terminate if
    the condition is never satisfied.
    """
    low, high = int(start) - 1, int(start)
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def log_growth(m: int, d: int) -> float:
    """Return ln(growth_function(m, d)) or, for large d, an upper bound in constant time."""
    if m <= d:
        return m * math.log(2)
    if d <= MAX_EXACT_DIMENSION:
        return math.log(growth_function(m, d))
    bound = d * (1 + math.log(m) - math.log(d))  # (em/d)^d, which is below 2^m from m = 4d on
    if m > 4 * d:
        return bound
    return min(bound, m * math.log(2))


def check_ranges(**arguments: float) -> None:
    """Raise ValueError unless each keyword argument is in the range that its name implies.

    alpha, beta and delta must lie in (0, 1), and all other numbers must be positive and finite.
    """
    for name, value in arguments.items():
        is_share = name in ("alpha", "beta", "delta")
        if not 0 < value < (1 if is_share else math.inf):
            requirement = "lie strictly between 0 and 1" if is_share else "be positive and finite"
            raise ValueError(f"{name} must {requirement}; got {value!r}.")


def excess_error(
    cover_size: int, n: int, epsilon: float, beta: float, sensitivity: int = 1
) -> float:
    """Return a bound on a private draw's excess empirical error over the best member of the cover.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses. If there is a prior, this is the sum of the weights
        divided by the smallest weight, rounded up (`Family.effective_size`).
    n : int
        Number (total weight) of the scored rows.
    epsilon : float
        Privacy budget.
    beta : float
        Probability with which the bound may fail.
    sensitivity : int, default=1
        Weight of one private row.

    Returns
    -------
    float
        ``2 * sensitivity * (ln(cover_size) + ln(1 / beta)) / (epsilon * n)``. With probability at
        least 1 - beta, the excess error of the drawn hypothesis on the rows does not exceed this
        value.

    References
    ----------
    McSherry and Talwar (2007), Theorem 7; Beimel, Nissim and Stemmer (2015), Proposition A.1.

    Examples
    --------
    >>> round(excess_error(10**8, 10_000, epsilon=1.0, beta=0.05), 5)
    0.00428
    """
    return 2 * sensitivity * (math.log(cover_size) - math.log(beta)) / (float(epsilon) * n)


MAX_DRAW_ERRORS = (0.015, 0.015 / 3, 0.015 / 9)
"""Maximum excess errors of a single draw for which a search has at least 2, 3 and 4 draws."""


def n_rounds(cover_size: int, n: int, epsilon: float) -> int:
    """Return the number of draws over which a cover search divides its privacy budget.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses in a round.
    n : int
        Number of scored rows. For weighted rows, this is their total weight in units of a private
        row's weight.
    epsilon : float
        Privacy budget of all rounds together.

    Returns
    -------
    int
        The result is 2 if ``2 ln(cover_size) / (epsilon n)``, the excess error of a single draw, is
        at most 0.015. It is 3 if this error is at most a third of 0.015, 4 if it is at most a
        ninth, and 1 otherwise. The rule is a heuristic that depends only on public numbers.

    Examples
    --------
    >>> n_rounds(60_000, n=20_000, epsilon=0.1)
    2
    """
    draw_error = 2 * math.log(cover_size) / (epsilon * n)
    return 1 + sum(draw_error <= max_error for max_error in MAX_DRAW_ERRORS)


@dataclass(frozen=True)
class Certificate:
    """Bound on the excess error of a private draw on the scored rows, from public numbers only.

    The bound applies to the scored rows and is relative to the cover. In contrast, the `guarantee_`
    of an estimator applies to the population and is relative to the entire class.

    Attributes
    ----------
    excess_error : float
        Upper bound on the error of the drawn hypothesis minus the error of the best member of the
        cover, as a fraction of the scored rows. A bound of 1 or more is vacuous.
    probability : float
        Probability, over the randomness of the draw, with which the bound holds.
    effective_size : int
        The `cover_size` of `excess_error`: the inverse prior probability of the least likely
        hypothesis, rounded up.
    """

    excess_error: float
    probability: float
    effective_size: int

    def at(self, beta: float) -> float:
        """Return the excess error bound that instead holds with probability 1 - beta.

        The bound is proportional to ln(effective_size / beta), see `excess_error`.
        """
        log_size = math.log(self.effective_size)
        log_ratio = log_size - math.log1p(-self.probability)
        new_log_ratio = log_size - math.log(beta)
        return self.excess_error * new_log_ratio / log_ratio

    def __str__(self) -> str:
        return (
            f"error on the scored rows within {self.excess_error:.4f} of the best in the cover, "
            f"with probability {self.probability:g}"
        )


class Cuts(NamedTuple):
    """Resolution of a cover for rules that cut single columns (thresholds, boxes, trees).

    The representative of a rule is obtained by moving each cut of the rule to the nearest cut of
    the cover.

    Attributes
    ----------
    per_rule : int
        Maximum number of cuts in a rule, or 0 if every rule of the class is in the cover.
    columns : int
        Number of columns in which rules can have cuts.
    rows : int
        Number of public rows.
    missed : int
        Maximum number of public rows between a cut and the nearest cut of the cover, or the end of
        the column.
    allowed : int
        Upper bound on `missed` that depends only on the number of public rows.
    merged : bool
        Whether cuts of different columns that split the rows into the same two sets share a
        representative.
    """

    per_rule: int
    columns: int
    rows: int
    missed: int
    allowed: int
    merged: bool

    @property
    def radius(self) -> float:
        """Maximum fraction of the public rows on which a rule and its representative disagree."""
        return min(1.0, self.per_rule * self.missed / self.rows)


class Promise(NamedTuple):
    """Bound on the excess population error of a fitted learner, with its explanation.

    Attributes
    ----------
    bound : float or None
        Bound on the excess error over the best rule of the class, at most 1, or None if no bound
        has been proved.
    reason : str
        The terms of the bound, or the reason why no bound has been proved.
    """

    bound: float | None
    reason: str


def capped_guarantee(bound: float, reason: str) -> Promise:
    """Return a guarantee whose bound is capped at 1, the largest possible error.

    `reason` is a sentence without its full stop. If the cap applies, a second sentence states that
    the bound is vacuous.
    """
    if bound < 1:
        return Promise(bound, f"{reason}.")
    return Promise(1.0, f"{reason}. Errors are at most 1, so this bound is vacuous.")


def dichotomies_radius(m: int, beta: float, growth: int, *, fixed_rule: bool = False) -> float:
    """Return the population radius of a cover that has one member per dichotomy of m rows.

    Parameters
    ----------
    m : int
        Number of independently drawn rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    growth : int
        Number of labellings of 2m rows by the class, or an upper bound.
    fixed_rule : bool, default=False
        Whether the bound is for a single rule, which does not depend on the rows.

    Returns
    -------
    float
        ``b / m``, capped at 1, with the smallest integer b such that ``growth^2 / 2^b <= beta``. No
        rule of the class disagrees with its representative on a larger fraction of the population.
        For a fixed rule, the condition is ``2 growth / 2^b <= beta``.

    Notes
    -----
    The bound applies to classes with two labels. The bound is Lemma 3.3 of the paper with tighter
    constants; `cover_radius` uses the paper's constants.

    References
    ----------
    Alon, Bassily and Moran (2019), Lemma 3.3; Vapnik and Chervonenkis (1971).

    Examples
    --------
    >>> dichotomies_radius(1000, beta=0.05, growth=2001)  # thresholds
    0.027
    """
    check_ranges(m=m, beta=beta, growth=growth)
    log_pairs = math.log(2 * growth) if fixed_rule else 2 * math.log(growth)
    return min(1.0, math.ceil((log_pairs - math.log(beta)) / math.log(2)) / m)


def cuts_radius(
    m: int,
    beta: float,
    cuts: int,
    *,
    columns: int = 1,
    missed: int = 0,
    fixed_rule: bool = False,
) -> float:
    """Return the radius of a cover by cuts at public values, for rules with few single-column cuts.

    Parameters
    ----------
    m : int
        Number of public rows, drawn independently.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    cuts : int
        Maximum number of cuts in a rule: 1 for a threshold, 2 for an interval, 3 for a tree of
        depth 2.
    columns : int, default=1
        Number of columns in which rules can have cuts.
    missed : int, default=0
        Maximum number of public rows between a cut and the nearest cut of the cover; 0 if the cover
        has a cut in every gap. It must not depend on the rows.
    fixed_rule : bool, default=False
        Whether the bound is for a single rule, which does not depend on the rows.

    Returns
    -------
    float
        ``cuts * t``, capped at 1. No rule disagrees with its representative on a larger fraction of
        the population. If `missed` values of a column lie between two values, the probability mass
        between those two values is bounded by a Beta(missed + 1, m - missed) variable. Such a Beta
        variable exceeds t with probability ``beta / (columns * (m - missed + 1))``, which permits a
        union bound over all pairs and columns. For a fixed rule, the probability is ``beta / (2 *
        cuts)``, for both sides of its cuts.

    References
    ----------
    Clopper and Pearson (1934), for the quantile t; docs/proofs/guarantees.md.

    Examples
    --------
    >>> round(cuts_radius(1000, beta=0.05, cuts=1), 4)
    0.0099
    >>> round(cuts_radius(1000, beta=0.05, cuts=3, columns=10, missed=25), 4)
    0.1622
    """
    check_ranges(m=m, beta=beta, columns=columns)
    if missed >= m:
        return 1.0
    beta_share = beta / (2 * cuts if fixed_rule else columns * (m - missed + 1))
    return min(1.0, cuts * float(betainccinv(missed + 1, m - missed, beta_share)))


def uniform_error(m: int, beta: float, growth: int) -> float:
    """Return a uniform bound on the difference between empirical and population errors of a class.

    Parameters
    ----------
    m : int
        Number of independently drawn rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    growth : int
        Number of labellings of 2m rows by the class, or an upper bound.

    Returns
    -------
    float
        ``1 / m + sqrt((m + 1) ln(2 growth / beta)) / m``, capped at 1. The bound is one-sided: it
        applies to either sign of the difference.

    References
    ----------
    Vapnik and Chervonenkis (1971); Serfling (1974), Corollary 1.1, for the constant.

    Examples
    --------
    >>> round(uniform_error(1000, beta=0.05, growth=2001), 3)
    0.107
    """
    check_ranges(m=m, beta=beta, growth=growth)
    return min(1.0, (1 + math.sqrt((m + 1) * (math.log(2 * growth) - math.log(beta)))) / m)


def sampling_error(n: int, beta: float, size: int) -> float:
    """Return a bound on the sampling part of the excess error for a finite cover.

    Parameters
    ----------
    n : int
        Number of rows, drawn independently of the cover.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    size : int
        Number of rules in the cover.

    Returns
    -------
    float
        ``sqrt(ln(3 size / beta) / 2n) + sqrt(ln(3 / 2 beta) / 2n)``. With probability 1 - beta/3,
        the error of no rule is underestimated by more than the first term. With probability 1 - 2
        beta/3, the error of the best rule is overestimated by at most the second term.

    References
    ----------
    Hoeffding (1963), Theorem 1.

    Examples
    --------
    >>> round(sampling_error(10_000, beta=0.05, size=1000), 4)
    0.0365
    """
    check_ranges(n=n, beta=beta, size=size)
    # logarithms of (number of members / failure probability), for the two terms
    log_all_members = math.log(3 * size) - math.log(beta)
    log_best_member = math.log(1.5) - math.log(beta)
    return (math.sqrt(log_all_members) + math.sqrt(log_best_member)) / math.sqrt(2 * n)


def finite_excess(
    n: int, beta: float, epsilon: float, size: int, *, best_error: float | None = None
) -> float:
    """Return a bound on the excess population error of one draw from a public finite family.

    Parameters
    ----------
    n : int
        Number of private rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    epsilon : float
        Privacy budget.
    size : int
        Number of hypotheses, which are all equally likely.
    best_error : float, optional
        Population error of the best rule, or an upper bound, in [0, 1); 0 in the realizable case.
        This error is an assumption and must not be computed from private rows. By default, no
        assumption is made about the error of the best rule.

    Returns
    -------
    float
        Without `best_error`, the sum of `excess_error` at beta/4 and `sampling_error` at 3 beta/4,
        which is of order ``1 / sqrt(n)``. `n_finite` is the inverse of this function.

        With `best_error` L, the result is a bound on the error of the drawn rule minus L. The
        returned bound is the smallest of the bound above, 1 - L and the small-error bound. The
        small-error bound is of order ``sqrt(L r) + r`` with ``r = ln(size / beta) (1 + 1 / epsilon)
        / n``.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    The small-error bound is the minimum of ``(1 - exp(-c - t q)) / (1 - exp(-t)) - L`` over t in
    (0, epsilon/2], with ``c = ln(2 size / beta) / n``. Here q is Bernstein's bound, at beta/2, on
    the fraction of rows on which the best rule makes errors. If L = 0, then q = 0, ``c = ln(size /
    beta) / n`` and t = epsilon/2. If the best rule of a class has error L and the family is a cover
    of radius r, the best rule of the family has an error of at most L + r.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4; for the small-error
    bound, docs/proofs/guarantees.md.

    Examples
    --------
    >>> round(finite_excess(10_000, beta=0.05, epsilon=1.0, size=1000), 4)
    0.0396
    >>> round(finite_excess(10_000, beta=0.05, epsilon=1.0, size=1000, best_error=0.01), 4)
    0.0087
    >>> round(finite_excess(10_000, beta=0.05, epsilon=1.0, size=1000, best_error=0), 4)
    0.0025
    """
    check_ranges(n=n, beta=beta, epsilon=epsilon, size=size)
    excess = excess_error(size, n, epsilon, beta / 4) + sampling_error(n, 3 * beta / 4, size)
    if best_error is None:
        return excess
    check_best_error(best_error)
    return min(excess, 1 - best_error, _small_error_excess(n, beta, epsilon, size, best_error))


def check_best_error(best_error: float) -> float:
    """Return an assumed error of the best rule, or raise ValueError if it is out of range."""
    if not 0 <= best_error < 1:
        raise ValueError(f"best_error must lie in [0, 1); got {best_error!r}.")
    return best_error


def _small_error_excess(n: int, beta: float, epsilon: float, size: int, best_error: float) -> float:
    """Return the small-error bound of `finite_excess`.

    Every t in (0, epsilon/2] yields a valid bound, so inaccurate minimization makes the bound less
    tight but not invalid. The bound is quasiconvex in t.
    """
    max_t = epsilon / 2
    if best_error == 0:
        return _tilted_error(max_t, 0.0, (math.log(size) - math.log(beta)) / n)
    # half of beta for the errors of the best rule on the rows (Bernstein), half for the draw
    log_failure = math.log(2 / beta)
    variance = best_error * (1 - best_error)
    third = log_failure / (3 * n)
    best_share = best_error + third + math.sqrt(third**2 + 2 * variance * log_failure / n)
    rate = (math.log(size) + log_failure) / n
    arguments = (best_share, rate)
    minimum = minimize_scalar(
        _tilted_error, args=arguments, bounds=(0, max_t), method="bounded", options={"xatol": 1e-9}
    )
    return float(min(minimum.fun, _tilted_error(max_t, *arguments))) - best_error


def _tilted_error(t: float, best_share: float, rate: float) -> float:
    """Return the error p that solves ``ln(1 - p (1 - exp(-t))) = -rate - t * best_share``."""
    return math.expm1(-rate - t * best_share) / math.expm1(-t)
