"""Which columns have many values, and a cut for those that have two.

The proof is docs/proofs/generic_learner.md. Tables have dozens of yes/no columns for one
amount. A single draw finds the columns that have more than two common values, whatever their
number, so that these get most of the budget; each of the others gets one cut, between its two
values, and one count.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Pure, Sensitivity
from skpublicdp.guarantees.sanitizer_bounds import max_spurious_mass
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers.candidates import Candidates
from skpublicdp.sanitizers.quantiles import PROOF, Column
from skpublicdp.typing import Floats, Integers

LOOK = "which features have many values, by one exact draw"
CUT = "cut by an exact draw and discrete Laplace noise on its count, of a two-valued feature"

FEWEST = 8
"""Features from which on a first look is worth its price."""

LOOKING = Fraction(1, 10)
"""Share of the budget for it."""

CUTTING = Fraction(1, 2)
"""Share of the budget of a two-valued column for its cut; its count has the rest."""

WEIGHT = 12
"""How much budget a column of many values has for one of a column of two."""

FLAGS = 8
"""Prior weight of a cut between 0 and 1 for that of all other cuts together."""


def other_values(column: Floats) -> int:
    """Count the rows that do not hold one of the two most common values.

    Examples
    --------
    >>> other_values(np.array([0.0, 1.0, 0.0, 7.0, 1.0]))
    1
    """
    _, counts = np.unique(column, return_counts=True)
    return len(column) - int(np.sort(counts)[-2:].sum())


def draw_columns(others: Integers, epsilon: Fraction, ledger: Ledger) -> NDArray[np.bool_]:
    """Draw a set of columns such that those left out have few rows of other values.

    Parameters
    ----------
    others : ndarray of int64, shape (n_columns,)
        `other_values` of each column.
    epsilon : Fraction
        Privacy budget: one draw of the exponential mechanism from all sets, whose score is the
        largest count left out. A replaced row changes it by at most 1, however many columns there
        are.
    ledger : Ledger
        Pays.

    Returns
    -------
    ndarray of bool, shape (n_columns,)
        Marks the columns of the set.
    """
    d = len(others)
    against = 4 * d  # prior odds against a column
    order = np.argsort(-others, kind="stable")
    # sets by the first column, in this order, that they leave out: those before it are in the set,
    # those after it may or may not be, and the score is its count; the last set is that of all
    prior = [against * (against + 1) ** (d - 1 - place) for place in range(d)] + [1]
    scores = np.append(others[order], 0)
    family = Choice(Leaf(scores[:, None]), prior)
    first, _ = ledger.draw(family, Draw(epsilon), 1, name=LOOK, proof=PROOF)
    chosen = np.zeros(d, dtype=bool)
    chosen[order[:first]] = True
    for column in order[first + 1 :]:
        chosen[column] = ledger.uniform_below(against + 1) == 0
    return chosen


def column_budgets(epsilon: Fraction, n_many: int, n_columns: int) -> tuple[Fraction, Fraction]:
    """Share out a budget: return that of a column of two values, and of one of many.

    Examples
    --------
    >>> column_budgets(Fraction(1), 2, 10)
    (Fraction(1, 32), Fraction(3, 8))
    """
    narrow = epsilon / (n_columns + (WEIGHT - 1) * n_many)
    return narrow, WEIGHT * narrow


def release_cut(
    column: Floats, candidates: Candidates, *, epsilon: Fraction, ledger: Ledger
) -> Column:
    """Release a cut that halves a column as well as any, and the noisy masses of its sides.

    Parameters
    ----------
    column : ndarray of float64
        Private numbers.
    candidates : Candidates
        The cuts lie between neighbours among them, or between 0 and 1.
    epsilon : Fraction
        Privacy budget: the release is ε-differentially private.
    ledger : Ledger
        Pays.

    Returns
    -------
    Column
        A value on either side of the cut; a threshold between them is one between the two values of
        a column that has no more.
    """
    lower, upper, prior = _pairs(candidates)
    n = len(column)
    below = np.searchsorted(np.sort(column), lower / 2 + upper / 2, side="right")
    errors = np.maximum(below, n - below).astype(np.int64)
    family = Choice(Leaf(errors[:, None]), prior)
    cut = ledger.sub_ledger(Pure(epsilon), name=CUT, proof=PROOF)
    option, _ = cut.draw(family, Draw(epsilon * CUTTING), 1, name=CUT, proof=PROOF)
    # n is public and a replaced row moves the cut's count by at most 1: it tells both masses
    count = np.array([below[option]], dtype=np.int64)
    noise = Pure(epsilon * (1 - CUTTING))
    noisy = cut.add_noise(count, Sensitivity(1, 1), noise, name=CUT, proof=PROOF)
    scale = float(noisy.spread)
    return two_sided(float(lower[option]), float(upper[option]), int(noisy.values[0]), n, scale)


def two_sided(lower: float, upper: float, below: int, n: int, scale: float) -> Column:
    """Make a distribution of two values and the noisy count of the lower one.

    Parameters
    ----------
    lower, upper : float
        The values.
    below : int
        How many rows of `n` hold the lower one, with noise.
    n : int
        Number of rows.
    scale : float
        Scale of the noise.

    Returns
    -------
    Column
        Both values; without the rarer one if its mass is no more than noise.
    """
    masses = np.array([below, n - below], dtype=np.float64)
    least = max_spurious_mass(1, scale)
    kept = masses > min(least, n / 2 - 1)  # the larger one always is
    values = np.array([lower, upper])[kept]
    return Column(values, values, masses[kept] / masses[kept].sum())


def _pairs(candidates: Candidates) -> tuple[Floats, Floats, Integers]:
    """List neighbours among the candidates, and 0 and 1 where they are within their range."""
    values, prior = candidates.values, candidates.prior[:-1]
    flags = [[0.0], [1.0]] if values[0] <= 0 and values[-1] >= 1 else [[], []]
    lower = np.concatenate([values[:-1], flags[0]])
    upper = np.concatenate([values[1:], flags[1]])
    return lower, upper, np.append(prior, [FLAGS * prior.sum()] * len(flags[0])).astype(np.int64)
