"""Private release of binary columns, and a private draw that identifies the many-valued columns.

Tables often have dozens of binary columns for each column of amounts. A single draw of the
exponential mechanism identifies all columns with more than two common values. These columns receive
most of the budget. For each other (binary) column, one cut between two values and one count are
released. The proof is in docs/proofs/generic_learner.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Pure, Sensitivity
from skpublicdp.guarantees.sanitizer_bounds import max_spurious_mass
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers.quantiles import SANITIZER_PROOF, CandidateGrid, QuantileColumn
from skpublicdp.typing import Floats, Integers

COLUMN_DRAW_NAME = "which features have many values, by one exact draw"
CUT_NAME = "cut by an exact draw and discrete Laplace noise on its count, of a two-valued feature"

MIN_FEATURES_FOR_COLUMN_DRAW = 8
"""Minimum number of features for which drawing the set of many-valued columns justifies its
cost."""

COLUMN_DRAW_SHARE = Fraction(1, 10)
"""Share of the budget that is spent on drawing the many-valued columns."""

CUT_SHARE = Fraction(1, 2)
"""Share of a binary column's budget that is spent on the cut. The remainder is spent on the
count."""

MANY_VALUED_WEIGHT = 12
"""Budget of a many-valued column relative to the budget of a binary column."""

ZERO_ONE_CUT_WEIGHT = 8
"""Prior weight of a cut between 0 and 1, relative to the weight of all other cuts together."""


def count_other_values(column: Floats) -> int:
    """Return the number of rows whose value is not one of the two most common values.

    Examples
    --------
    >>> count_other_values(np.array([0.0, 1.0, 0.0, 7.0, 1.0]))
    1
    """
    _, counts = np.unique(column, return_counts=True)
    return len(column) - int(np.sort(counts)[-2:].sum())


def draw_many_valued_columns(
    other_counts: Integers, epsilon: Fraction, ledger: Ledger
) -> NDArray[np.bool_]:
    """Select the columns to be treated as many-valued by a private draw, and return them as a mask.

    One draw of the exponential mechanism chooses among all sets of columns. The score of a set is
    the largest count of other values among the columns outside it. Replacing a row changes the
    score by at most 1, regardless of the number of columns.

    Parameters
    ----------
    other_counts : ndarray of int64, shape (n_columns,)
        `count_other_values` of each column.
    epsilon : Fraction
        Privacy budget.

    Returns
    -------
    ndarray of bool, shape (n_columns,)
        Mask of the many-valued columns.
    """
    n_columns = len(other_counts)
    # prior odds that a column is outside the set; the expected number inside is a quarter
    odds_against = 4 * n_columns
    order = np.argsort(-other_counts, kind="stable")
    # Columns are sorted by decreasing counts, and sets are grouped by the first column outside. The
    # score of a set is the count of this column. Earlier columns are inside, and later columns are
    # free. The last group is the set of all columns, with score 0.
    prior = [odds_against * (odds_against + 1) ** (n_columns - 1 - i) for i in range(n_columns)]
    scores = np.append(other_counts[order], 0)
    family = Choice(Leaf(scores[:, None]), [*prior, 1])
    first_outside, _ = ledger.draw(
        family, Draw(epsilon), 1, name=COLUMN_DRAW_NAME, proof=SANITIZER_PROOF
    )
    is_many_valued = np.zeros(n_columns, dtype=bool)
    is_many_valued[order[:first_outside]] = True
    for column in order[first_outside + 1 :]:
        is_many_valued[column] = ledger.uniform_below(odds_against + 1) == 0
    return is_many_valued


def split_budget_over_columns(
    epsilon: Fraction, n_many_valued: int, n_columns: int
) -> tuple[Fraction, Fraction]:
    """Return the budgets ε of each binary and of each many-valued column, which receives more.

    Examples
    --------
    >>> split_budget_over_columns(Fraction(1), 2, 10)
    (Fraction(1, 32), Fraction(3, 8))
    """
    binary = epsilon / (n_columns + (MANY_VALUED_WEIGHT - 1) * n_many_valued)
    return binary, MANY_VALUED_WEIGHT * binary


def release_cut(
    column: Floats, candidates: CandidateGrid, *, epsilon: Fraction, ledger: Ledger
) -> QuantileColumn:
    """Release a cut near the median of a private column, and the noisy masses on both sides.

    Parameters
    ----------
    column : ndarray of float64
        Private numbers.
    candidates : CandidateGrid
        Candidate values. Each cut lies between neighbouring candidates, or between 0 and 1.
    epsilon : Fraction
        Privacy budget. The release is ε-differentially private.

    Returns
    -------
    QuantileColumn
        One value on each side of the cut. For a binary column, every threshold between these two
        values separates the values of the column.
    """
    lower, upper, prior = _cut_candidates(candidates)
    middle = lower / 2 + upper / 2
    n = len(column)
    n_below = np.searchsorted(np.sort(column), middle, side="right")
    # the score of a cut is the number of rows on its larger side, smallest for a median
    errors = np.maximum(n_below, n - n_below).astype(np.int64)
    family = Choice(Leaf(errors[:, None]), prior)
    cut_ledger = ledger.sub_ledger(Pure(epsilon), name=CUT_NAME, proof=SANITIZER_PROOF)
    cut_event = Draw(epsilon * CUT_SHARE)
    cut, _ = cut_ledger.draw(family, cut_event, 1, name=CUT_NAME, proof=SANITIZER_PROOF)
    # n is public, so one count determines both masses; a replaced row changes the count by at most
    # 1
    count = np.array([n_below[cut]], dtype=np.int64)
    count_event = Pure(epsilon * (1 - CUT_SHARE))
    noisy = cut_ledger.add_noise(
        count, Sensitivity(1, 1), count_event, name=CUT_NAME, proof=SANITIZER_PROOF
    )
    return two_point_column(
        lower=float(lower[cut]),
        upper=float(upper[cut]),
        n_lower=int(noisy.values[0]),
        n=n,
        scale=float(noisy.scale),
    )


def two_point_column(
    lower: float, upper: float, n_lower: int, n: int, scale: float
) -> QuantileColumn:
    """Return the distribution on two values, given the noisy count of the lower value.

    If the count of the rarer value could be pure Laplace noise of the given scale, the distribution
    contains only the more common value.
    """
    masses = np.array([n_lower, n - n_lower], dtype=np.float64)
    threshold = max_spurious_mass(1, scale)
    # the larger mass is at least n / 2, so the cap always keeps the more common value
    is_significant = masses > min(threshold, n / 2 - 1)
    values = np.array([lower, upper])[is_significant]
    return QuantileColumn(values, values, masses[is_significant] / masses[is_significant].sum())


def _cut_candidates(candidates: CandidateGrid) -> tuple[Floats, Floats, Integers]:
    """Return the values below and above each cut, and the prior weights of the cuts.

    A cut lies between neighbouring candidates, or between 0 and 1 if both are in range.
    """
    values = candidates.values
    lower, upper = values[:-1], values[1:]
    prior = candidates.prior[:-1]
    if values[0] <= 0 and values[-1] >= 1:
        zero_one_weight = ZERO_ONE_CUT_WEIGHT * prior.sum()
        lower = np.append(lower, 0.0)
        upper = np.append(upper, 1.0)
        prior = np.append(prior, zero_one_weight)
    return lower, upper, prior.astype(np.int64)
