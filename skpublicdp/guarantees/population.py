"""Error bounds of a single private draw: on the scored rows, and for the population.

The bound for the population is the sum of a term for the cover, a term for the draw and a term for
sampling. All numbers are public. The bounds are proved in docs/proofs/guarantees.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from scipy.optimize import minimize_scalar
from scipy.special import betainccinv

from skpublicdp.guarantees.growth import check_ranges


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


def dichotomies_radius(m: int, beta: float, growth: int) -> float:
    """Return the population radius of a cover that has one member per dichotomy of m rows.

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
        ``b / m``, capped at 1, with the smallest integer b such that ``growth^2 / 2^b <= beta``. No
        rule of the class disagrees with its representative on a larger fraction of the population.

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
    return min(1.0, math.ceil((2 * math.log(growth) - math.log(beta)) / math.log(2)) / m)


def cuts_radius(m: int, beta: float, cuts: int, *, columns: int = 1, missed: int = 0) -> float:
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

    Returns
    -------
    float
        ``cuts * t``, capped at 1. No rule disagrees with its representative on a larger fraction of
        the population. If `missed` values of a column lie between two values, the probability mass
        between those two values is bounded by a Beta(missed + 1, m - missed) variable. Such a Beta
        variable exceeds t with probability ``beta / (columns * (m - missed + 1))``, which permits a
        union bound over all pairs and columns.

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
    beta_share = beta / (columns * (m - missed + 1))
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
