"""The schedule of LabelBoost and its budget: functions of public sizes and settings alone.

The proofs of all bounds are in docs/proofs/label_boost.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from typing import Any

from skpublicdp.accounting import base_epsilon, subsampled_epsilon
from skpublicdp.accounting.rounding import (
    float_above,
    float_below,
    precise_context,
    relative_error,
    to_decimal,
)


@dataclass(frozen=True)
class Round:
    """One round: thin out the labelled rows and some new ones, and relabel what is kept.

    Attributes
    ----------
    n_labelled, n_new : int
        Labelled rows at its start, and rows without a label that it takes in.
    kept_labelled, kept_new : int
        How many of them are kept.
    epsilon : Fraction
        Parameter of the draw that relabels.
    """

    n_labelled: int
    n_new: int
    kept_labelled: int
    kept_new: int
    epsilon: Fraction

    @property
    def kept(self) -> int:
        """Rows that leave the round with a label."""
        return self.kept_labelled + self.kept_new


@dataclass(frozen=True)
class Plan:
    """All sizes and budgets of one fit.

    Attributes
    ----------
    epsilon, delta : Fraction
        Budget of the whole.
    first_labelled, first_unlabelled : int
        Rows of either kind kept before the first round.
    rounds : tuple of Round
        The rounds.
    base_rows : int
        Rows kept for the base learner.
    resampled : bool
        Whether the base learner gets as many rows drawn from these with replacement.
    base_epsilon, base_delta : float
        Budget of the base learner.
    """

    epsilon: Fraction
    delta: Fraction
    first_labelled: int
    first_unlabelled: int
    rounds: tuple[Round, ...]
    base_rows: int
    resampled: bool
    base_epsilon: float
    base_delta: float


def relabelled_epsilon(
    after: Fraction, epsilon: Fraction, n_classes: int = 2
) -> tuple[float, float]:
    """Bound the privacy of relabelling rows and running an algorithm on what comes out.

    Parameters
    ----------
    after : Fraction
        Budget of the algorithm.
    epsilon : Fraction
        Parameter of the draw that relabels.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    tuple of float
        ``after + 2 ln(n_classes - 1 + u)`` with ``u = exp(epsilon / 2)`` for labelled rows, and
        ``after + 2 ln(n_classes)`` for those without a label; rounded up. δ stays what it is.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Lemma 4.1, sharpened.

    Examples
    --------
    >>> relabelled_epsilon(Fraction(0), Fraction(1))
    (1.9481..., 1.3862...)
    """
    with localcontext(precise_context(after, epsilon)):
        labelled, new = _prices(epsilon, n_classes)
        slack = 1 + relative_error()
        start = to_decimal(after)
        return float_above((start + labelled) * slack), float_above((start + new) * slack)


def rounds_epsilon(
    rounds: tuple[Round, ...], base: Fraction, n_classes: int = 2
) -> list[tuple[float, float]]:
    """Bound the privacy of each round together with all that follows it.

    Parameters
    ----------
    rounds : tuple of Round
        The rounds, first to last.
    base : Fraction
        Budget of the base learner.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    list of (float, float)
        For each round, the ε of rows that are labelled at its start and of the others, rounded up.
    """
    labelled, others = float(base), 0.0
    bounds = []
    for step in reversed(rounds):
        before = relabelled_epsilon(Fraction(labelled), step.epsilon, n_classes)
        labelled = subsampled_epsilon(
            Fraction(before[0]), _rate(step.kept_labelled, step.n_labelled)
        )
        if step.kept_new:
            new = subsampled_epsilon(Fraction(before[1]), _rate(step.kept_new, step.n_new))
            others = max(others, new)
        bounds.append((labelled, others))
    return bounds[::-1]


def affordable(
    epsilon: Fraction, delta: Fraction, rounds: tuple[Round, ...], n_classes: int = 2
) -> tuple[float, float]:
    """Return the largest budget of a base learner that runs after some rounds.

    Parameters
    ----------
    epsilon, delta : Fraction
        Budget of the whole.
    rounds : tuple of Round
        The rounds, first to last.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    tuple of float
        ε, negative where there is none left, and δ; rounded down.
    """
    left, share = epsilon, Fraction(1)
    for step in rounds:
        rates = _rate(step.kept_labelled, step.n_labelled), _rate(step.kept_new, step.n_new)
        with localcontext(precise_context(epsilon, step.epsilon)):
            # a row that no round has taken before has spent nothing yet
            remains = [
                to_decimal(Fraction(base_epsilon(budget, rate))) - price
                for budget, rate, price in zip(
                    (left, epsilon), rates, _prices(step.epsilon, n_classes), strict=True
                )
                if rate
            ]
            left = Fraction(float_below(min(remains) - relative_error()))
        if left <= 0:
            return float(left), 0.0
        share = max(share * rates[0], rates[1])  # the greatest chance to reach the base learner
    with localcontext(precise_context(delta, share)):
        slack = 1 - relative_error() if rounds else 1
        return float(left), float_below(to_decimal(delta / share) * slack)


def _prices(epsilon: Fraction, n_classes: int) -> tuple[Any, Any]:
    """Return what relabelling costs labelled and other rows, in the decimals of the context."""
    u = (to_decimal(epsilon) / 2).exp()
    return 2 * (n_classes - 1 + u).ln(), 2 * to_decimal(Fraction(n_classes)).ln()


def _rate(kept: int, of: int) -> Fraction:
    return Fraction(kept, of) if of else Fraction(0)
