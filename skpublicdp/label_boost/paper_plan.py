"""The schedule of Algorithm 3 of Beimel, Nissim and Stemmer (2015), with its own constants.

The proofs of the bounds are in docs/proofs/label_boost.md ("The paper's constants").
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from skpublicdp.accounting import subsampled_epsilon
from skpublicdp.base_learner import epsilon_delta, mechanism_event
from skpublicdp.guarantees import n_label_boost
from skpublicdp.label_boost.privacy_plan import LabelBoostPlan, RelabellingRound, n_base_rows

ROUND_SHRINKAGE = 100
"""Each round samples one row in 100 (Algorithm 3, step 2(c))."""

FINAL_SHRINKAGE = 300
"""One row in 300 is sampled for the base learner (Algorithm 3, step 3)."""

NEW_ROWS_PER_BASE_ROW = 30_000
"""Maximum number of new rows of a round, per row of the base learner (Algorithm 3)."""

MAX_ROUND_EXPONENT = 600
"""Exponents up to this are safe for `math.exp`, which overflows from 710 on."""


def paper_plan(
    n_labelled: int,
    n_unlabelled: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    alpha: float,
    beta: float,
    n_base: int | None,
    vc: int,
) -> LabelBoostPlan:
    """Return the plan of Algorithm 3, whose error is at most 11 alpha with probability 1 - 2 beta.

    Parameters
    ----------
    n_labelled, n_unlabelled : int
        Rows with and without a label.
    epsilon, delta : Fraction
        Budget of the fit. Below ε = 1 the rows of either kind are subsampled first
        (Theorem 4.14).
    alpha, beta, n_base
        As in `n_base_rows`.
    vc : int
        VC dimension of the class that relabels.

    Returns
    -------
    LabelBoostPlan
        The schedule.

    Raises
    ------
    ValueError
        If `epsilon` is above 1, if Lemma 4.12 gives no bound for `alpha` and `beta`, or if there
        are fewer rows than `guarantees.n_label_boost` counts.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Algorithm 3 and Lemma 4.12.
    """
    if epsilon > 1:
        raise ValueError(
            "constants='paper' needs epsilon of at most 1 for a row, the limit of Claims 4.3 and "
            f"4.5 of Beimel, Nissim and Stemmer (2015); got {float(epsilon):g}. Lower epsilon, or "
            "use constants='tight'."
        )
    error, failure = 11 * alpha, 2 * beta
    if error >= 1 or failure >= 1:
        raise ValueError(
            "constants='paper' needs alpha below 1/11 and beta below 1/2, since its error bound "
            "is 11 alpha with probability 1 - 2 beta (Lemma 4.12); "
            f"got {alpha:g} and {beta:g}."
        )
    n = n_base_rows(alpha, beta, n_base)
    min_labelled, min_unlabelled = n_label_boost(
        error, failure, float(epsilon), vc, n, realizable=True
    )
    if n_labelled < min_labelled or n_unlabelled < min_unlabelled:
        raise ValueError(
            f"constants='paper' needs at least {min_labelled} labelled and {min_unlabelled} "
            f"unlabelled rows around a base learner that needs {n}, for an error of "
            f"11 alpha = {error:.3g} with probability 1 - 2 beta = {1 - failure:.3g}; got "
            f"{n_labelled} and {n_unlabelled}, so {max(min_labelled - n_labelled, 0)} and "
            f"{max(min_unlabelled - n_unlabelled, 0)} are missing."
        )
    initial_labelled = _subsample_size(n_labelled, epsilon)
    rounds = _paper_rounds(initial_labelled, n, alpha, beta, vc)
    n_final = rounds[-1].n_relabelled if rounds else initial_labelled
    # Lemma 4.6: the base learner has ε = 1, and all stages together at most 41 times its δ
    base_epsilon, base_delta = epsilon_delta(mechanism_event(Fraction(1), delta / 41))
    return LabelBoostPlan(
        epsilon=epsilon,
        delta=delta,
        initial_labelled=initial_labelled,
        initial_unlabelled=_subsample_size(n_unlabelled, epsilon),
        rounds=rounds,
        base_rows=n_final // FINAL_SHRINKAGE,
        resampled=True,
        base_epsilon=base_epsilon,
        base_delta=base_delta,
    )


def _subsample_size(n: int, epsilon: Fraction) -> int:
    """Return the size of the largest sample of n rows on which ε = 1 costs at most epsilon.

    By subsampling amplification the cost at the sampling rate q is ``ln(1 + q (e - 1))``.
    """
    if epsilon >= 1:
        return n
    # floats give the size up to rounding, and the exact bound then decides
    size = math.floor(n * math.expm1(epsilon) / math.expm1(1)) + 1
    while size > 0 and subsampled_epsilon(Fraction(1), Fraction(size, n)) > epsilon:
        size -= 1
    return size


def _paper_rounds(
    n_labelled: int, n: int, alpha: float, beta: float, vc: int
) -> tuple[RelabellingRound, ...]:
    """Return the rounds of Algorithm 3, until there are enough labelled rows for the base learner.

    The loop ends, since by Claim 4.9 each round has more labelled rows than the previous one.

    Parameters
    ----------
    n_labelled : int
        Labelled rows before the first round.
    n : int
        Rows that the base learner needs.
    alpha, beta : float
        Parameters of Algorithm 3. Round i gets the shares alpha / (10 2^i) and beta / (4 2^i).
    vc : int
        VC dimension of the class that relabels.
    """
    rounds: list[RelabellingRound] = []
    for i in itertools.count(1):
        if n_labelled >= FINAL_SHRINKAGE * n:
            return tuple(rounds)
        alpha_i, beta_i = alpha / (10 * 2**i), beta / (4 * 2**i)
        exponent = alpha_i * n_labelled / (200 * vc)
        n_new = NEW_ROWS_PER_BASE_ROW * n
        if exponent <= MAX_ROUND_EXPONENT:  # beyond it the maximum number of new rows applies
            n_new = min(n_new, int(beta_i * vc * math.exp(exponent)) - n_labelled)
        relabelling = RelabellingRound(
            n_labelled=n_labelled,
            n_new=n_new,
            sampled_labelled=n_labelled // ROUND_SHRINKAGE,
            sampled_new=n_new // ROUND_SHRINKAGE,
            epsilon=Fraction(1),
        )
        rounds.append(relabelling)
        n_labelled = relabelling.n_relabelled
    raise AssertionError("unreachable: itertools.count does not end")
