"""What a draw from a public cover promises in the population: cover, draw and sampling.

The proofs are in docs/proofs/guarantees.md. All numbers are public.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import betainccinv

from skpublicdp.guarantees.certificates import excess_error
from skpublicdp.guarantees.growth import check_ranges


class Cuts(NamedTuple):
    """Of a cover of rules that cut single columns: how far a rule is from its stand-in.

    Attributes
    ----------
    per_rule : int
        Most cuts of a rule; 0 where every rule is its own stand-in.
    columns : int
        Columns that may be cut.
    rows : int
        Public rows.
    missed : int
        Most of them between a cut and the nearest one kept, or beyond all rows.
    allowed : int
        Bound of `missed` that does not depend on the rows, by their number alone.
    merged : bool
        Whether cuts of different columns stand for each other where they part the rows alike.
    """

    per_rule: int
    columns: int
    rows: int
    missed: int
    allowed: int
    merged: bool

    @property
    def radius(self) -> float:
        """Largest share of the public rows on which a rule may disagree with its stand-in."""
        return min(1.0, self.per_rule * self.missed / self.rows)


class Promise(NamedTuple):
    """What a fitted learner promises, and why.

    Attributes
    ----------
    bound : float or None
        Excess error in the population over the best of the class, at most 1; None where nothing is
        proved.
    reason : str
        One sentence.
    """

    bound: float | None
    reason: str


def capped_guarantee(bound: float, reason: str) -> Promise:
    """Return the guarantee of a bound that is a sum of terms, capped at 1.

    `reason` is a sentence without its full stop. A bound of 1 or more holds for every rule, which
    a second sentence adds.
    """
    if bound < 1:
        return Promise(bound, f"{reason}.")
    return Promise(1.0, f"{reason}. Errors are at most 1, so this is no bound for so few rows.")


def dichotomies_radius(m: int, beta: float, growth: int) -> float:
    """Bound how well one member for each dichotomy of m rows covers a class of two labels.

    Parameters
    ----------
    m : int
        Number of rows, drawn independently.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    growth : int
        In how many ways the class can label 2m rows, or a bound on it.

    Returns
    -------
    float
        ``b / m``, at most 1, with the least integer b of ``growth^2 / 2^b <= beta``: no member of
        the class disagrees with its stand-in on a larger share of the population.

    Notes
    -----
    Lemma 3.3 of the paper with tighter constants: `cover_radius` has the paper's own.

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
    """Bound how well cuts next to public values cover all rules of few cuts of single columns.

    Parameters
    ----------
    m : int
        Number of public rows, drawn independently.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    cuts : int
        Most cuts of a rule: 1 for a threshold, 2 for an interval, 3 for a tree of depth 2.
    columns : int, default=1
        Columns that may be cut.
    missed : int, default=0
        Most public rows between a cut and the nearest one kept; 0 if there is one in every gap. It
        must not depend on the rows.

    Returns
    -------
    float
        ``cuts * t``, at most 1: no rule disagrees with its stand-in on a larger share of the
        population. The mass between the i-th value of a column and the one ``missed + 1`` further
        is at most a Beta(missed + 1, m - missed) number, which is above t with probability ``beta /
        (columns * (m - missed + 1))``; there are as many such pairs.

    References
    ----------
    Clopper and Pearson (1934) have the same t; docs/proofs/guarantees.md.

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
    share = beta / (columns * (m - missed + 1))
    return min(1.0, cuts * float(betainccinv(missed + 1, m - missed, share)))


def uniform_error(m: int, beta: float, growth: int) -> float:
    """Bound by how much the error on m rows may flatter, or wrong, any member of a class.

    Parameters
    ----------
    m : int
        Number of rows, drawn independently.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    growth : int
        In how many ways the class can label 2m rows, or a bound on it.

    Returns
    -------
    float
        ``1 / m + sqrt((m + 1) ln(2 growth / beta)) / m``, at most 1, for one of the two sides.

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
    """Bound what sampling adds to the excess error of any member of a finite cover.

    Parameters
    ----------
    n : int
        Number of rows, drawn independently of the cover.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    size : int
        Number of members.

    Returns
    -------
    float
        ``sqrt(ln(3 size / beta) / 2n) + sqrt(ln(3 / 2 beta) / 2n)``: no member looks better than it
        is by more than the first part, with probability 1 - beta/3, and the best one looks worse by
        at most the second, with probability 1 - 2 beta/3.

    References
    ----------
    Hoeffding (1963), Theorem 1.

    Examples
    --------
    >>> round(sampling_error(10_000, beta=0.05, size=1000), 4)
    0.0365
    """
    check_ranges(n=n, beta=beta, size=size)
    every, best = math.log(3 * size) - math.log(beta), math.log(1.5) - math.log(beta)
    return (math.sqrt(every) + math.sqrt(best)) / math.sqrt(2 * n)


def finite_excess(n: int, beta: float, epsilon: float, size: int) -> float:
    """Bound the excess error in the population of one draw from a public finite family.

    Parameters
    ----------
    n : int
        Number of private rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    epsilon : float
        Privacy budget.
    size : int
        Number of hypotheses, all equally likely.

    Returns
    -------
    float
        `excess_error` at beta/4 and `sampling_error` at 3 beta/4; `n_finite` is its inverse.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4.

    Examples
    --------
    >>> round(finite_excess(10_000, beta=0.05, epsilon=1.0, size=1000), 4)
    0.0396
    """
    return excess_error(size, n, epsilon, beta / 4) + sampling_error(n, 3 * beta / 4, size)
