"""Error bounds and sample sizes of LabelBoost and of active learning by subsampling.

The proofs are in docs/proofs/label_boost.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from skpublicdp.guarantees.growth import check_ranges, log_growth, n_uniform, smallest_integer
from skpublicdp.guarantees.sample_size import SampleSize

LogCount = Callable[[int], float]
"""Bounds the logarithm of the number of labelings of so many rows."""


class LabellerDraw(NamedTuple):
    """The draw by which a round relabels rows.

    Attributes
    ----------
    n_scored : int
        Labelled rows whose errors are the scores of the draw.
    n_listed : int
        Rows of which all labelings are listed; the scored ones are among them.
    epsilon : float
        Parameter of the exponential mechanism.
    """

    n_scored: int
    n_listed: int
    epsilon: float


def labeller_error(
    labellers: Sequence[LabellerDraw], log_n_labelings: LogCount, beta: float
) -> float:
    """Bound the excess error of the last labeller over the best member of the class.

    Parameters
    ----------
    labellers : sequence of LabellerDraw
        First to last, at least one. The first is scored by true labels, each later one by the
        labels that its predecessor gave.
    log_n_labelings : callable
        Bounds the logarithm of the number of labelings of so many rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail.

    Returns
    -------
    float
        A sum of bounds, each failing with probability b = beta / (2 r + 1) for r labellers. Of
        the first one, with s scored of N listed rows: ``2 (L(N) + ln(1 / b)) / (epsilon s)`` for
        the draw (Proposition A.1), and ``1 / s + sqrt((s + 1) (L(2 s) + ln(2 / b))) / s`` and
        ``sqrt(ln(1 / b) / (2 s))`` for sampling, L being `log_n_labelings`. Of each later one,
        for which some labeling has no error: the same bound t for the draw, carried over to the
        population by `relative_deviation_bound` for pairs of members.

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
    (s, _, _), *_ = labellers
    total = (1 + math.sqrt((s + 1) * (log_n_labelings(2 * s) + math.log(2 / beta_share)))) / s
    total += math.sqrt(math.log(1 / beta_share) / (2 * s))
    for position, (n_scored, n_listed, epsilon) in enumerate(labellers):
        draw_error = (
            2 * (log_n_labelings(n_listed) + math.log(1 / beta_share)) / (epsilon * n_scored)
        )
        total += (
            relative_deviation_bound(
                draw_error, n_scored, 2 * log_n_labelings(2 * n_scored), beta_share
            )
            if position
            else draw_error
        )
    return total


def relative_deviation_bound(error: float, n: int, log_pairs: float, beta: float) -> float:
    """Bound the disagreement of two rules in a population by their disagreement on n rows.

    Parameters
    ----------
    error : float
        Share of the n rows on which the rules disagree.
    n : int
        Number of rows.
    log_pairs : float
        Logarithm of the number of ways in which pairs of rules disagree on 2n rows.
    beta : float
        Probability, in (0, 1), with which the bound may fail for some pair.

    Returns
    -------
    float
        ``x + L / 2 + sqrt(x L + L^2 / 4)`` with ``L = 4 (log_pairs + ln(4 / beta)) / n``, by
        relative deviations. The same bound holds with population and rows exchanged.

    References
    ----------
    Anthony and Shawe-Taylor (1993), Theorem 2.1.

    Examples
    --------
    >>> round(relative_deviation_bound(0.01, 100_000, 20.0, 0.05), 4)
    0.0136
    """
    half = 2 * (log_pairs + math.log(4 / beta)) / n
    return error + half + math.sqrt(2 * error * half + half**2)


def n_label_boost(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    n_base: int,
    *,
    realizable: bool = False,
    constants: str = "paper",
    most_rows: int | None = None,
) -> SampleSize:
    """Count the rows of LabelBoost around a base learner.

    Parameters
    ----------
    alpha : float
        Error in the population over that of the best member, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget of the whole; of the paper's constants at most 1.
    d : int
        VC dimension of the class, or a bound on it.
    n_base : int
        Rows with which the base learner, at epsilon = 1, errs on at most alpha/11 with probability
        at least 1 - beta/2; of the tight constants on at most alpha/4 of the rows it is given. Its
        rules are members of the class.
    realizable : bool, default=False
        Whether some member of the class makes no error.
    constants : {"paper", "tight"}, default="paper"
        Those of `LabelBoostClassifier`.
    most_rows : int, optional
        Maximum number of rows that can be relabelled at once. `LabelBoostClassifier` relabels 255
        rows by `Rectangles` over two columns, 2048 by `Halfspaces` of two columns and 11584 by
        `Intervals` or `Rectangles` of one column, any number by other classes. ``None`` means any.

    Returns
    -------
    SampleSize
        Labelled and unlabelled rows.

    Raises
    ------
    ValueError
        If a number is out of range, as `epsilon` above 1 is for the paper's constants, or if more
        than `most_rows` rows would be relabelled, which the learner cannot.

    Notes
    -----
    *The paper's.* With a = alpha/11 and b = beta/2: 90000 n_base unlabelled and 96000 d / a ln(2240
    / (a b)) labelled rows at epsilon = 1 (Claim 4.9 and Lemma 4.12). With a and b as its `alpha`
    and `beta`, `LabelBoostClassifier(constants="paper")` refuses fewer rows than those for a
    realizable class. For the agnostic form the
    paper has O(·): also at least 100 ``n_uniform(a / 20, b / 8, d)``, so that the first labeller,
    from a hundredth of them, is within 3 a/20 of the best (one part for the draw, two for
    sampling); the later rounds copy it as in the paper. There must then be a first round, even
    where the base learner has rows enough without. Both numbers are divided by the rate q =
    (e^epsilon - 1) / (e - 1) at which a fixed-size subsample of each part gives epsilon; the
    paper's Claim 4.3 has q = epsilon / (3 + e).

    *Tight.* One round, with half of epsilon for the base learner and as the parameter of the draw.
    The base learner gets N rows, as many as n_base at its budget and as make alpha/4 of them
    alpha/2 in the population (`relative_deviation_bound`). Enough of them are labelled for
    `labeller_error` of at most alpha/2; for a realizable class `relative_deviation_bound` of the
    draw's error may be at most alpha/2 instead. Of the labelled and unlabelled rows shares q and q'
    are kept, q (e^(epsilon/2) (1 + e^(epsilon/4))^2 - 1) = e^epsilon - 1 and q' (4 e^(epsilon/2) -
    1) = e^epsilon - 1.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorems 4.13, 4.14 and 4.16; Balle, Barthe and Gaboardi
    (2018), Theorem 9.

    Examples
    --------
    >>> n_label_boost(alpha=0.1, beta=0.05, epsilon=1.0, d=1, n_base=1000, realizable=True)
    SampleSize(labelled=170053921, unlabelled=90000000)
    >>> n_label_boost(alpha=0.1, beta=0.05, epsilon=1.0, d=1, n_base=100_000, constants="tight")
    SampleSize(labelled=70057, unlabelled=599652)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, n_base=n_base)
    if constants not in ("paper", "tight"):
        raise ValueError(f"constants must be 'paper' or 'tight'; got {constants!r}.")
    if most_rows is not None:
        check_ranges(most_rows=most_rows)
    if constants == "tight":
        return _tight_sizes(alpha, beta, epsilon, d, n_base, realizable, most_rows)
    if epsilon > 1:
        raise ValueError(
            "epsilon must be at most 1 for constants='paper', where Claims 4.3 and 4.5 of Beimel, "
            f"Nissim and Stemmer (2015) stop; got {epsilon!r}."
        )
    a, b = alpha / 11, beta / 2
    labelled = n_labelled_paper(a, b, d)
    if not realizable:
        labelled = max(labelled, 100 * n_uniform(a / 20, b / 8, d))
    if not realizable or labelled < 300 * n_base:  # else there is no round
        _check_relabelled(labelled // 100, most_rows)
    return SampleSize(n_subsampling(labelled, epsilon), n_subsampling(90000 * n_base, epsilon))


def n_labelled_paper(alpha: float, beta: float, d: int) -> int:
    """Count the labelled rows from which each round of Algorithm 3 has enough.

    Parameters
    ----------
    alpha, beta : float
        Error of the base learner, and the probability with which it may be larger.
    d : int
        VC dimension of the class.

    Returns
    -------
    int
        ``96000 d / alpha ln(2240 / (alpha beta))``, rounded up.

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
    n_base: int,
    realizable: bool,
    most_rows: int | None,
) -> SampleSize:
    def log_n_labelings(n: int) -> float:
        return log_growth(n, d)

    def base_error_transfers(n: int) -> bool:
        return (
            relative_deviation_bound(alpha / 4, n, 2 * log_n_labelings(2 * n), beta / 4)
            <= alpha / 2
        )

    half = epsilon / 2
    n_base_kept = max(smallest_integer(base_error_transfers), math.ceil(n_base / half))

    def draw_is_accurate(s: int) -> bool:
        n_listed = max(s, n_base_kept)
        if (
            labeller_error([LabellerDraw(s, n_listed, half)], log_n_labelings, beta / 4)
            <= alpha / 2
        ):
            return True
        draw_error = 2 * (log_n_labelings(n_listed) + math.log(8 / beta)) / (half * s)
        return (
            realizable
            and relative_deviation_bound(draw_error, s, 2 * log_n_labelings(2 * s), beta / 8)
            <= alpha / 2
        )

    labelled = smallest_integer(draw_is_accurate)
    _check_relabelled(
        max(n_base_kept, 2 * labelled), most_rows
    )  # at most half of them are labelled
    privacy_loss = math.expm1(epsilon)
    rates = (
        privacy_loss / (math.exp(half) * (1 + math.exp(half / 2)) ** 2 - 1),
        privacy_loss / (4 * math.exp(half) - 1),
    )
    unlabelled = max(n_base_kept - labelled, 0)
    return SampleSize(
        *(math.ceil(n / min(q, 1)) for n, q in zip((labelled, unlabelled), rates, strict=True))
    )


def _check_relabelled(n: int, most_rows: int | None) -> None:
    """Refuse a size at which the learner cannot list the labelings of the rows of a round."""
    if most_rows is not None and n > most_rows:
        raise ValueError(
            f"LabelBoost would have to relabel {n} rows at once and most_rows is {most_rows}; "
            "give a larger alpha, a smaller n_base, or a class that relabels more rows."
        )


def n_subsampling(
    n: int, epsilon: float, epsilon_base: float = 1.0, *, roles: str = "random"
) -> int:
    """Count the pool from which a subsample of n rows brings a base learner's epsilon down.

    Parameters
    ----------
    n : int
        Rows the base learner takes, labelled and unlabelled together.
    epsilon : float
        Privacy budget wanted; with the paper's roles at most 1.
    epsilon_base : float, default=1.0
        Privacy budget of the base learner.
    roles : {"random", "paper"}, default="random"
        Which of the n rows are labelled: a uniform choice, or those that come first in the pool.

    Returns
    -------
    int
        Pool size. With random roles n (e^epsilon_base - 1) / (e^epsilon - 1), which is exact; with
        the paper's n (3 + e^(2 epsilon_base)) / epsilon, its own constant. The number of labels
        asked for does not change, so with ``n_label_boost`` at epsilon = 1 as the base learner it
        is free of epsilon (Theorem 5.8).

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
                "epsilon must be at most 1 for roles='paper', where Claims 4.3 and 5.7 of Beimel, "
                f"Nissim and Stemmer (2015) stop; got {epsilon!r}."
            )
        return math.ceil(n * (3 + math.exp(2 * epsilon_base)) / epsilon)
    return math.ceil(n * max(1.0, math.expm1(epsilon_base) / math.expm1(epsilon)))
