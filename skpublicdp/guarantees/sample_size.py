"""Sample sizes for private learners."""

from __future__ import annotations

import math
from typing import NamedTuple

from skpublicdp.guarantees.population import (
    check_best_error,
    check_ranges,
    excess_error,
    finite_excess,
    growth_function,
    log_growth,
    n_public,
    n_uniform,
    sampling_error,
    smallest_integer,
)


def n_finite(
    alpha: float,
    beta: float,
    epsilon: float,
    size: int,
    *,
    realizable: bool = False,
    best_error: float | None = None,
) -> int:
    """Return the number of private rows that one draw from a public finite family requires.

    Parameters
    ----------
    alpha : float
        Excess population error over the best member, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    size : int
        Number of hypotheses, which are all equally likely.
    realizable : bool, default=False
        Whether some hypothesis makes no error in the population. This is an assumption. The number
        of rows is then of order 1/alpha and 1/(epsilon alpha) instead of 1/alpha^2.
    best_error : float, optional
        Population error of the best hypothesis, or an upper bound, in [0, 1). This is an assumption
        and must not be computed from private rows. The error of the drawn hypothesis is then at
        most `best_error` + alpha. The number of rows is of order 1/alpha (1 + 1/epsilon) +
        best_error / alpha^2. `realizable` is the same as a `best_error` of 0.

    Returns
    -------
    int
        The smallest n for which `finite_excess`, with this `best_error`, is at most alpha. The
        paper only states O(·). If `realizable`, the number is at most
        ``ln(size / beta) / -ln(1 - alpha (1 - exp(-epsilon / 2)))``, rounded up.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4;
    docs/proofs/guarantees.md, for `realizable` and `best_error`.

    Examples
    --------
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000)
    1818
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000, realizable=True)
    247
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000, best_error=0.05)
    499
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, size=size)
    if realizable and best_error:
        raise ValueError(f"best_error must be 0 or None if realizable=True; got {best_error!r}.")
    if realizable:
        best_error = 0.0

    def is_enough(n: int) -> bool:
        return finite_excess(n, beta, epsilon, size, best_error=best_error) <= alpha

    return smallest_integer(is_enough)


def epsilon_finite(alpha: float, beta: float, n: int, size: int) -> float:
    """Return the smallest ε for which one draw from a public finite family is accurate enough.

    Parameters
    ----------
    alpha : float
        Excess population error over the best member, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    n : int
        Number of private rows.
    size : int
        Number of hypotheses, which are all equally likely. A cover built by `SemiPrivateClassifier`
        from m public rows has at most ``growth_function(m, d)`` hypotheses.

    Returns
    -------
    float
        The ε at which `finite_excess` is alpha.

    Raises
    ------
    ValueError
        If the sampling error of `n` rows alone is at least alpha, in which case no ε suffices.

    See Also
    --------
    skpublicdp.query_release.epsilon_for : The ε needed to release tables or CDFs.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4.

    Examples
    --------
    >>> round(epsilon_finite(alpha=0.05, beta=0.05, n=10_000, size=1000), 3)
    0.178
    """
    check_ranges(alpha=alpha, beta=beta, n=n, size=size)
    sampling = sampling_error(n, 3 * beta / 4, size)
    if sampling >= alpha:
        raise ValueError(
            f"alpha must be above {sampling:.2g}, the sampling error of n = {n} rows, which does "
            f"not depend on epsilon; got {alpha!r}."
        )
    # the excess error of a draw is inversely proportional to ε
    return excess_error(size, n, 1.0, beta / 4) / (alpha - sampling)


def n_private(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    *,
    realizable: bool = False,
    best_error: float | None = None,
    constants: str = "paper",
) -> int:
    """Return the number of private rows that the semi-private learner requires.

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
    realizable : bool, default=False
        Whether some rule of the class makes no error in the population. This is an assumption. The
        number of rows is then of order 1/(epsilon alpha) instead of 1/alpha^2, up to logarithms.
    best_error : float, optional
        Population error of the best rule of the class, or an upper bound, in [0, 1). This is an
        assumption and must not be computed from private rows. The error of the drawn rule is then
        at most `best_error` + alpha. `realizable` is the same as a `best_error` of 0.
    constants : {"paper", "tight"}, default="paper"
        The constants used by `n_public`.

    Returns
    -------
    int
        Number of private rows required in addition to ``n_public(alpha / 2, beta / 2, d,
        constants=constants)`` public rows. The paper only states O(·). As in the paper's proof,
        half of alpha and half of beta are assigned to the cover. The other halves are assigned to
        `n_finite` on a cover with one hypothesis for each dichotomy of the m public rows, at most
        ``growth_function(m, d)``.

        If `realizable` or with a `best_error` L, the number of public rows is ``n_public(alpha / 2,
        beta / 2, d, realizable=True, constants=constants)``, since the cover needs to represent the
        best rule only. Some rule of the cover then has an error of at most L + alpha/2 in the
        population. In this case, the number is the smallest n for which `finite_excess` with a
        `best_error` of L + alpha/2 is at most alpha/2, at beta/2.

        With these numbers of rows, ``SemiPrivateClassifier(hypotheses, alpha=1 / (2 * m),
        beta=beta, epsilon=epsilon, best_error=best_error)`` has a `guarantee_` of at most alpha,
        with a `best_error` of 0 if `realizable`. The `alpha` of the classifier must be below 1/m,
        since the default results in a coarser cover. This holds for the tight constants and
        `Thresholds`, `Stumps`, `Intervals`, and `Halfspaces` of the plane with up to 725 public
        rows, whose covers have a rule for each dichotomy.

    Raises
    ------
    ValueError
        If a number is out of range, or `constants` is invalid.

    References
    ----------
    Alon, Bassily and Moran (2019), Theorem 3.1; docs/proofs/guarantees.md, for `realizable` and
    `best_error`.

    Examples
    --------
    >>> n_private(alpha=0.1, beta=0.05, epsilon=1.0, d=1)
    7336
    >>> n_public(alpha=0.1 / 2, beta=0.05 / 2, d=1)
    1823
    >>> n_private(alpha=0.1, beta=0.05, epsilon=1.0, d=1, realizable=True)
    1652
    >>> n_private(alpha=0.01, beta=0.05, epsilon=1.0, d=1, best_error=0.01)
    46795
    >>> n_private(alpha=0.01, beta=0.05, epsilon=1.0, d=1)
    726555
    """
    half, half_beta = alpha / 2, beta / 2
    if realizable and best_error:
        raise ValueError(f"best_error must be 0 or None if realizable=True; got {best_error!r}.")
    if realizable:
        best_error = 0.0
    covers_one_rule = best_error is not None
    m = n_public(half, half_beta, d, realizable=covers_one_rule, constants=constants)
    size = growth_function(m, d)
    if best_error is None:
        return n_finite(half, half_beta, epsilon, size)
    if check_best_error(best_error) + alpha >= 1:
        return 1  # no error is larger
    return n_finite(half, half_beta, epsilon, size, best_error=best_error + half)


class SampleSize(NamedTuple):
    """The numbers of labelled and unlabelled private rows that a learner requires.

    Attributes
    ----------
    labelled : int
        Number of rows with a label.
    unlabelled : int
        Number of additional rows without a label.
    """

    labelled: int
    unlabelled: int


def n_generic_learner(
    alpha: float, beta: float, epsilon: float, d: int, domain_size: int
) -> SampleSize:
    """Return the numbers of rows that the generic semi-supervised learner requires.

    Parameters
    ----------
    alpha : float
        Population error, in (0, 1), in the realizable case.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        VC dimension of the class, or an upper bound.
    domain_size : int
        Number of possible rows (features only).

    Returns
    -------
    SampleSize
        Numbers of labelled and unlabelled rows. The paper only states O(·). These numbers follow
        the paper's proof, which divides alpha and beta into fifths. `n_blr_learner` and
        `n_quantile_learner` apply to the sanitizers of this package and return far smaller numbers.

        - Both numbers are at least ``n_uniform(alpha / 5, beta / 5, d)``. The paper states 1250 d /
          alpha^2 ln(25 / (alpha beta)), which does not follow from the inequality of Vapnik and
          Chervonenkis for all alpha and beta.
        - The sanitizer draws l = 5000 v / alpha^2 ln(10 / alpha) points with the exponential
          mechanism. These points answer all h ⊕ f to within alpha/5: half of this error is the
          accuracy that l points can achieve (Theorem B.6 at alpha/10), and the other half is due to
          the draw. The sanitizer requires 20 (l ln(domain_size) + ln(5 / beta)) / (epsilon alpha)
          unlabelled rows. Here v is the VC dimension of {h ⊕ f}, whose dichotomies combine two
          dichotomies each: the largest v with ``growth_function(v, d)^2 >= 2^v``.
        - By Sauer's lemma, the final draw requires 10 ln(5 growth_function(l, d) / beta) / (epsilon
          alpha) labelled rows. The paper uses l instead of the logarithm, which explains its
          alpha^3.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3 and its proof; Blum, Ligett and Roth (2013).

    Examples
    --------
    >>> n_generic_learner(alpha=0.1, beta=0.05, epsilon=1.0, d=1, domain_size=2**20)
    SampleSize(labelled=391234, unlabelled=31920609709)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, domain_size=domain_size)
    min_uniform = n_uniform(alpha / 5, beta / 5, d)
    # VC dimension of the symmetric differences h ⊕ f, v in the docstring
    pair_dimension = smallest_integer(lambda v: growth_function(v, d) ** 2 < 2**v) - 1
    n_points = math.ceil(5000 * pair_dimension / alpha**2 * math.log(10 / alpha))
    log_failure = math.log(5 / beta)
    log_n_rules = log_growth(n_points, d)
    log_n_sets = n_points * math.log(domain_size)
    labelled = 10 * (log_n_rules + log_failure) / (epsilon * alpha)
    unlabelled = 20 * (log_n_sets + log_failure) / (epsilon * alpha)
    return SampleSize(
        labelled=max(min_uniform, math.ceil(labelled)),
        unlabelled=max(min_uniform, math.ceil(unlabelled)),
    )
