"""Error bounds and sample sizes for LabelBoost and for active learning by subsampling.

The bounds are proved in docs/proofs/label_boost.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

from skpublicdp.guarantees.population import check_ranges, log_growth, n_uniform, smallest_integer
from skpublicdp.guarantees.sample_size import SampleSize

LogCount = Callable[[int], float]
"""Function that returns an upper bound on the logarithm of the number of labellings of n rows."""

MAX_BASE_ROWS = 2**60
"""Number of rows at which a search fails if the `BaseAccuracy` error is still too large."""


@dataclass(frozen=True)
class BaseAccuracy:
    """Declared accuracy of a base learner of `LabelBoostClassifier`.

    The accuracy is an assumption and is not checked. The privacy guarantee does not depend on it.

    Parameters
    ----------
    error : callable
        ``error(n, epsilon, beta)`` bounds the fraction of its own n rows on which the base learner
        makes errors. The bound must apply to any n rows with two labels that are assigned by a rule
        of LabelBoost's hypothesis class. For this ε, the bound may fail with probability `beta`.
        The bound must not increase with n.
    vc_dimension : int
        Upper bound on the VC dimension of the rules that the base learner can return, at least 1.
        For example, the VC dimension of a histogram is its number of cells.

    Raises
    ------
    ValueError
        If `vc_dimension` is not a positive integer.

    See Also
    --------
    n_label_boost : Number of rows that LabelBoost requires with a given base learner.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 4.13, which is for every base learner.

    Examples
    --------
    A draw by the exponential mechanism from 100 thresholds:

    >>> from skpublicdp.guarantees import BaseAccuracy, excess_error
    >>> accuracy = BaseAccuracy(
    ...     lambda n, epsilon, beta: excess_error(100, n, epsilon, beta), vc_dimension=1
    ... )
    >>> round(accuracy.error_on_rows(n=10_000, epsilon=0.5, beta=0.05), 4)
    0.003
    >>> accuracy.n_rows(alpha=0.01, beta=0.05, epsilon=0.5)
    3041
    """

    error: Callable[[int, float, float], float]
    vc_dimension: int

    def __post_init__(self) -> None:
        d: object = self.vc_dimension
        if isinstance(d, bool) or not isinstance(d, Integral) or d < 1:
            raise ValueError(f"vc_dimension must be an integer >= 1; got {d!r}.")

    def error_on_rows(self, n: int, epsilon: float, beta: float) -> float:
        """Return the declared error bound, capped at 1.

        Parameters
        ----------
        n : int
            Number of rows of the base learner.
        epsilon : float
            Privacy budget of the base learner.
        beta : float
            Probability, in (0, 1), with which the bound may fail.

        Returns
        -------
        float
            Bound on the fraction of the rows on which the base learner makes errors.

        Raises
        ------
        ValueError
            If `error` raises an exception, or returns a negative number, NaN or no number.
        """
        try:
            declared_error = float(self.error(n, epsilon, beta))
        except Exception as failure:  # its arguments are public numbers, so it may be quoted
            raise ValueError(
                f"The error of BaseAccuracy must return a number for all numbers of rows; for {n} "
                f"rows at ε = {epsilon:g} and β = {beta:g}, it raised {type(failure).__name__}: "
                f"{failure}"
            ) from failure
        if not declared_error >= 0:
            raise ValueError(
                f"The error of BaseAccuracy must not be negative or NaN; got {declared_error!r} "
                f"for {n} rows at ε = {epsilon:g}."
            )
        return min(declared_error, 1.0)

    def n_rows(self, alpha: float, beta: float, epsilon: float = 1.0) -> int:
        """Return the smallest number of rows for which the declared bound is at most `alpha`.

        Parameters
        ----------
        alpha : float
            Maximum fraction of the rows, in (0, 1), on which the base learner makes errors.
        beta : float
            Probability, in (0, 1), with which the bound may fail.
        epsilon : float, default=1.0
            Privacy budget of the base learner.

        Returns
        -------
        int
            Number of rows.

        Raises
        ------
        ValueError
            If the declared bound never decreases to `alpha`.
        """
        check_ranges(alpha=alpha, beta=beta, epsilon=epsilon)
        return self._n_rows(
            lambda n: self.error_on_rows(n, epsilon, beta) <= alpha, f"alpha = {alpha:g}"
        )

    def _n_rows(self, is_enough: Callable[[int], bool], target: str) -> int:
        """Return the smallest sufficient number of rows; `target` describes the requirement."""
        if not is_enough(MAX_BASE_ROWS):
            raise ValueError(
                "The error of BaseAccuracy must decrease with the number of rows, but it does not "
                f"reach {target} for any number of rows. Declare a more accurate base learner, or "
                "pass a larger alpha."
            )
        return smallest_integer(is_enough)


class LabellerDraw(NamedTuple):
    """Sizes and ε of the exponential mechanism's draw in a relabelling round."""

    n_scored: int  # number of labelled rows whose errors are the scores of the draw
    n_listed: int  # number of rows whose labellings are enumerated, including the scored rows
    epsilon: float  # privacy budget ε of the exponential mechanism


def labeller_error(
    labellers: Sequence[LabellerDraw], log_n_labelings: LogCount, beta: float
) -> float:
    """Return a bound on the excess error of the last labeller over the best rule of the class.

    Parameters
    ----------
    labellers : sequence of LabellerDraw
        One or more draws, first to last. The first draw is scored by true labels, and each later
        draw is scored by the labels of its predecessor.
    log_n_labelings : callable
        Function that returns an upper bound on the logarithm of the number of labellings of n rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Claims 4.2 and 4.11 with Theorem B.5, tightened.

    Examples
    --------
    >>> first = LabellerDraw(n_scored=30_000, n_listed=300_000, epsilon=0.5)
    >>> round(labeller_error([first], lambda n: math.log(n + 1), beta=0.05), 4)
    0.0335
    """
    beta_share = beta / (2 * len(labellers) + 1)
    s = labellers[0].n_scored
    # sampling error of the first labeller: uniform over the class, then of the best rule
    total = (1 + math.sqrt((s + 1) * (log_n_labelings(2 * s) + math.log(2 / beta_share)))) / s
    total += math.sqrt(math.log(1 / beta_share) / (2 * s))
    for position, (n_scored, n_listed, epsilon) in enumerate(labellers):
        log_size = log_n_labelings(n_listed) + math.log(1 / beta_share)
        draw_error = 2 * log_size / (epsilon * n_scored)
        if position == 0:
            total += draw_error
        else:
            log_pairs = 2 * log_n_labelings(2 * n_scored)
            total += relative_deviation_bound(draw_error, n_scored, log_pairs, beta_share)
    return total


def relative_deviation_bound(error: float, n: int, log_pairs: float, beta: float) -> float:
    """Return a bound on the population disagreement of two rules, given n sampled rows.

    References
    ----------
    Anthony and Shawe-Taylor (1993), Theorem 2.1.

    Examples
    --------
    >>> round(relative_deviation_bound(0.01, 100_000, 20.0, 0.05), 4)
    0.0136
    """
    deviation = 2 * (log_pairs + math.log(4 / beta)) / n  # L / 2
    return error + deviation + math.sqrt(2 * error * deviation + deviation**2)


def n_label_boost(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    n_base: int | BaseAccuracy,
    *,
    realizable: bool = False,
    constants: str = "paper",
    most_rows: int | None = None,
) -> SampleSize:
    """Return the numbers of rows that LabelBoost requires for a given base learner.

    Parameters
    ----------
    alpha : float
        Excess population error over the best rule of the class, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget of the fit; at most 1 with the paper's constants.
    d : int
        VC dimension of the class, or an upper bound.
    n_base : int or BaseAccuracy
        Number of rows with which the base learner, at epsilon = 1, has an error of at most alpha/11
        with probability at least 1 - beta/2. With the tight constants, its error on its own rows
        must be at most alpha/4 with probability at least 1 - beta/4. The base learner must return
        rules of the class. With the tight constants, the declared accuracy of any base learner is
        also accepted, and its rules need not belong to the class.
    realizable : bool, default=False
        Whether some rule of the class makes no error.
    constants : {"paper", "tight"}, default="paper"
        ``"tight"`` are those of `LabelBoostClassifier`. ``"paper"`` are those of Algorithm 3 and
        its proof, which no estimator runs.
    most_rows : int, optional
        Maximum number of rows that one round can relabel. For `LabelBoostClassifier`, this number
        is 255 with `Rectangles` on two columns, 2048 with `Halfspaces` on two columns, and 11584
        with `Intervals` or `Rectangles` on one column. With other classes, and with `Rectangles`
        that have few `cuts`, there is no limit. The default, ``None``, means that the number is
        unlimited.

    Returns
    -------
    SampleSize
        Numbers of labelled and unlabelled rows, at least one of each kind.

    Raises
    ------
    ValueError
        If a number is out of range, for example an `epsilon` above 1 with the paper's constants, or
        if a round would relabel more than `most_rows` rows.

    Notes
    -----
    *The paper's constants.* Let a = alpha/11 and b = beta/2. At epsilon = 1, the numbers are 90000
    n_base unlabelled rows and 96000 d / a ln(2240 / (a b)) labelled rows (Claim 4.9 and Lemma
    4.12). In the agnostic case, for which the paper states O(·), at
    least 100 ``n_uniform(a / 20, b / 8, d)`` labelled rows are also required. The first labeller,
    which is drawn using one hundredth of these rows, is then within 3 a/20 of the best rule: a/20
    is due to the draw, and twice a/20 is due to sampling. All later rounds imitate the first
    labeller, as in the paper. This argument requires a first round, even if the base learner has
    enough rows without one. Both numbers are divided by the sampling rate q = (e^epsilon - 1) / (e
    - 1), at which subsampling each kind of rows results in epsilon. Claim 4.3 of the paper uses q =
    epsilon / (3 + e).

    *The tight constants.* There is one round, with half of epsilon as the parameter of the draw and
    the other half for the base learner. The base learner receives N rows: at least n_base at its
    budget, and enough rows for an error of alpha/4 on these rows to be at most alpha/2 in the
    population (`relative_deviation_bound`). With a `BaseAccuracy`, alpha/4 is replaced with the
    base learner's error on N rows at its budget. The number of labelled rows is large enough for a
    `labeller_error` of at most alpha/2. For a realizable class, it is also sufficient that
    `relative_deviation_bound` of the error of the draw is at most alpha/2. The sampling rates q of
    labelled rows and q' of unlabelled rows solve q (e^(epsilon/2) (1 + e^(epsilon/4))^2 - 1) =
    e^epsilon - 1 and q' (4 e^(epsilon/2) - 1) = e^epsilon - 1.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorems 4.13, 4.14 and 4.16; Balle, Barthe and Gaboardi
    (2018), Theorem 9.

    Examples
    --------
    >>> n_label_boost(alpha=0.1, beta=0.05, epsilon=1.0, d=1, n_base=1000, realizable=True)
    SampleSize(labelled=170053921, unlabelled=90000000)
    >>> n_label_boost(alpha=0.1, beta=0.05, epsilon=1.0, d=1, n_base=100_000, constants="tight")
    SampleSize(labelled=65541, unlabelled=602977)
    >>> histogram = BaseAccuracy(lambda n, epsilon, beta: 500 / (epsilon * n), vc_dimension=100)
    >>> n_label_boost(alpha=0.1, beta=0.05, epsilon=1.0, d=1, n_base=histogram, constants="tight")
    SampleSize(labelled=65120, unlabelled=300668)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d)
    if not isinstance(n_base, BaseAccuracy):
        check_ranges(n_base=n_base)
    if constants not in ("paper", "tight"):
        raise ValueError(f"constants must be 'paper' or 'tight'; got {constants!r}.")
    if most_rows is not None:
        check_ranges(most_rows=most_rows)
    if constants == "tight":
        return _tight_sizes(alpha, beta, epsilon, d, n_base, realizable, most_rows)
    if isinstance(n_base, BaseAccuracy):
        raise ValueError(
            "n_base must be a number of rows for constants='paper'; got a BaseAccuracy. Pass "
            "n_base.n_rows(alpha / 11, beta / 2), or use constants='tight'."
        )
    if epsilon > 1:
        raise ValueError(
            "epsilon must be at most 1 for constants='paper', because Claims 4.3 and 4.5 of "
            f"Beimel, Nissim and Stemmer (2015) require it; got {epsilon!r}."
        )
    a, b = alpha / 11, beta / 2
    labelled = n_labelled_paper(a, b, d)
    if not realizable:
        labelled = max(labelled, 100 * n_uniform(a / 20, b / 8, d))
    if not realizable or labelled < 300 * n_base:  # otherwise there is no round
        _check_relabelled(labelled // 100, most_rows)  # Algorithm 3 samples one row in 100
    return SampleSize(n_subsampling(labelled, epsilon), n_subsampling(90000 * n_base, epsilon))


def n_labelled_paper(alpha: float, beta: float, d: int) -> int:
    """Return the number of labelled rows that suffices for every round of Algorithm 3.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Claim 4.9.

    Examples
    --------
    >>> n_labelled_paper(0.99, 0.05, 1)
    1039517
    """
    return math.ceil(96000 * d / alpha * math.log(2240 / (alpha * beta)))


def _tight_sizes(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    n_base: int | BaseAccuracy,
    realizable: bool,
    max_rows: int | None,
) -> SampleSize:
    """Return the sample sizes of `n_label_boost` with the tight constants of its notes.

    `max_rows` is the maximum number of rows that one round can relabel.
    """

    def log_n_labelings(n: int) -> float:
        return log_growth(n, d)

    half_epsilon = epsilon / 2

    def is_enough_for_base_learner(n: int) -> bool:
        # its error on n rows is then at most alpha/2 in the population
        error = alpha / 4
        log_labelings = log_base_rules = log_n_labelings(2 * n)
        if isinstance(n_base, BaseAccuracy):
            error = n_base.error_on_rows(n, half_epsilon, beta / 4)
            log_base_rules = log_growth(2 * n, n_base.vc_dimension)
        log_pairs = log_labelings + log_base_rules
        return relative_deviation_bound(error, n, log_pairs, beta / 4) <= alpha / 2

    if isinstance(n_base, BaseAccuracy):
        base_rows = n_base._n_rows(is_enough_for_base_learner, f"alpha / 2 = {alpha / 2:g}")
    else:
        base_rows = max(
            smallest_integer(is_enough_for_base_learner), math.ceil(n_base / half_epsilon)
        )

    def is_enough_for_draw(s: int) -> bool:
        n_listed = max(s, base_rows)
        labeller = LabellerDraw(s, n_listed, half_epsilon)
        if labeller_error([labeller], log_n_labelings, beta / 2) <= alpha / 2:
            return True
        if not realizable:
            return False
        draw_error = 2 * (log_n_labelings(n_listed) + math.log(4 / beta)) / (half_epsilon * s)
        log_pairs = 2 * log_n_labelings(2 * s)
        return relative_deviation_bound(draw_error, s, log_pairs, beta / 4) <= alpha / 2

    labelled = smallest_integer(is_enough_for_draw)
    # at most half of the relabelled rows have a label before the round
    _check_relabelled(max(base_rows, 2 * labelled), max_rows)
    # the bound is for one round, and without unlabelled rows there is none
    unlabelled = max(base_rows - labelled, 1)
    # the sampling rates q and q' in the Notes of `n_label_boost`
    privacy_loss = math.expm1(epsilon)
    labelled_rate = privacy_loss / (
        math.exp(half_epsilon) * (1 + math.exp(half_epsilon / 2)) ** 2 - 1
    )
    unlabelled_rate = privacy_loss / (4 * math.exp(half_epsilon) - 1)
    return SampleSize(
        math.ceil(labelled / min(labelled_rate, 1)),
        math.ceil(unlabelled / min(unlabelled_rate, 1)),
    )


def _check_relabelled(n: int, max_rows: int | None) -> None:
    """Raise ValueError if the n rows of a round exceed the maximum that its class can relabel."""
    if max_rows is not None and n > max_rows:
        raise ValueError(
            f"LabelBoost would have to relabel {n} rows in one round, but most_rows is {max_rows}. "
            "Pass a larger alpha, a smaller n_base, or a class that can relabel more rows."
        )


def n_subsampling(
    n: int, epsilon: float, epsilon_base: float = 1.0, *, roles: str = "random"
) -> int:
    """Return the pool size for which a subsample of n rows has a given privacy budget.

    Parameters
    ----------
    n : int
        Number of rows of the base learner, labelled and unlabelled together.
    epsilon : float
        Privacy budget of the subsampled base learner; at most 1 with the paper's roles.
    epsilon_base : float, default=1.0
        Privacy budget of the base learner.
    roles : {"random", "paper"}, default="random"
        How the labelled rows are chosen among the n rows: uniformly at random, or as the first rows
        in the order of the pool.

    Returns
    -------
    int
        Size of the pool. With random roles, the size is n (e^epsilon_base - 1) / (e^epsilon - 1),
        which is exact. With the paper's roles, it is n (3 + e^(2 epsilon_base)) / epsilon, using
        the paper's constant. The number of labels does not depend on epsilon: with
        ``n_label_boost`` at epsilon = 1 as the base learner, it is the same for every epsilon
        (Theorem 5.8).

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Claim 5.7 and Theorem 5.8; Balle, Barthe and Gaboardi (2018),
    Theorem 9.

    Examples
    --------
    >>> n_subsampling(1000, epsilon=0.1)
    16338
    >>> n_subsampling(1000, epsilon=0.1, roles="paper")
    103891
    """
    check_ranges(n=n, epsilon=epsilon, epsilon_base=epsilon_base)
    if roles not in ("random", "paper"):
        raise ValueError(f"roles must be 'random' or 'paper'; got {roles!r}.")
    if roles == "paper":
        if epsilon > 1:
            raise ValueError(
                "epsilon must be at most 1 for roles='paper', because Claims 4.3 and 5.7 of "
                f"Beimel, Nissim and Stemmer (2015) require it; got {epsilon!r}."
            )
        return math.ceil(n * (3 + math.exp(2 * epsilon_base)) / epsilon)
    return math.ceil(n * max(1.0, math.expm1(epsilon_base) / math.expm1(epsilon)))
