"""Private quantiles of one column, found by halving; the proof is docs/proofs/generic_learner.md.

The tree of medians is that of Kaplan, Schnapp and Stemmer (2022). Each median is an exact draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Pure, Sensitivity
from skpublicdp.guarantees.sanitizer_bounds import COUNT_SHARE, max_spurious_mass
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers.candidates import Candidates
from skpublicdp.typing import Codes, Floats, Integers

PROOF = "docs/proofs/generic_learner.md"
MEDIANS = "medians by exact draws and discrete Laplace noise on masses, of a feature"


def split_budget(epsilon: Fraction, levels: int) -> tuple[Fraction, Fraction]:
    """Return the budgets of each level and of the masses."""
    counting = epsilon * COUNT_SHARE
    return (epsilon - counting) / levels, counting


@dataclass(frozen=True, eq=False)
class Column:
    """A distribution on the line: segments with masses. All of it is released.

    Attributes
    ----------
    starts, ends : ndarray of float64, shape (n_segments,)
        Where segments start and end; one that starts where it ends is a single value.
    masses : ndarray of float64, shape (n_segments,)
        Positive, with sum 1; spread evenly over each segment.
    """

    starts: Floats
    ends: Floats
    masses: Floats

    def quantile(self, p: Floats) -> Floats:
        """Return the numbers below which shares p lie."""
        below = np.cumsum(self.masses)
        place = np.minimum(np.searchsorted(below, p), len(below) - 1)
        start, end = self.starts[place], self.ends[place]
        inside = np.clip(1 - (below[place] - p) / self.masses[place], 0, 1)
        # a single value is kept to the last digit: many are 0 or 1
        return np.where(start == end, start, start * (1 - inside) + end * inside)


def release_column(
    column: Floats, candidates: Candidates, *, levels: int, epsilon: Fraction, ledger: Ledger
) -> Column:
    """Release an approximation of a column of private numbers.

    Parameters
    ----------
    column : ndarray of float64
        Private numbers; each is moved to the nearest candidate.
    candidates : Candidates
        Where quantiles may lie.
    levels : int
        How often to halve, positive.
    epsilon : Fraction
        Privacy budget: the release is ε-differentially private.
    ledger : Ledger
        Pays.

    Returns
    -------
    Column
        The 2^levels - 1 quantiles, and the spaces between them, with noisy masses.
    """
    halving, counting = split_budget(epsilon, levels)
    column_ledger = ledger.sub_ledger(Pure(epsilon), name=MEDIANS, proof=PROOF)
    counts = np.bincount(candidates.nearest(column), minlength=len(candidates))
    below = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cuts = find_medians(below, candidates.prior, levels, halving, column_ledger)
    # parts of the line in turn: below the first cut, on it, between it and the second, ...
    ends = np.concatenate([[0], (cuts[:, None] + [0, 1]).ravel(), [len(candidates)]])
    noisy = column_ledger.add_noise(
        np.diff(below[ends]),
        Sensitivity(2, 2),  # a replaced row leaves one part and enters another
        Pure(counting),
        name=MEDIANS,
        proof=PROOF,
    )
    return arrange(candidates.values, cuts, noisy.values, float(noisy.spread))


def find_medians(
    below: Integers, prior: NDArray[np.int64], levels: int, epsilon: Fraction, ledger: Ledger
) -> Codes:
    """Draw a median, one of the numbers below it and one of those above it, and so on.

    Parameters
    ----------
    below : ndarray of int64, shape (n_candidates + 1,)
        How many numbers lie before each candidate, and in the end all of them.
    prior : ndarray of int64, shape (n_candidates,)
        Prior weights of the candidates.
    levels : int
        How often to halve.
    epsilon : Fraction
        Privacy budget of each level.
    ledger : Ledger
        Pays.

    Returns
    -------
    ndarray of intp
        Places of the medians among the candidates, increasing.
    """
    nodes = [(0, len(prior))]
    cuts: list[int] = []
    for _ in range(levels):
        halves: list[tuple[int, int]] = []
        # the nodes of a level hold different rows
        level = ledger.sub_ledger(Pure(epsilon), name=MEDIANS, proof=PROOF, by_theorem=True)
        for start, stop in nodes:
            errors = median_errors(below[start : stop + 1])
            family = Choice(Leaf(errors[:, None]), prior[start:stop])
            # a row that is replaced leaves one node and enters another: the errors of two nodes
            # change by at most 1, or those of a single one by 2
            option, _ = level.draw(family, Draw(epsilon), 2, name=MEDIANS, proof=PROOF)
            cuts.append(start + option)
            halves += [(start, start + option), (start + option + 1, stop)]
        nodes = [(start, stop) for start, stop in halves if start < stop]
    return np.sort(np.array(cuts, dtype=np.intp))


def median_errors(below: Integers) -> Integers:
    """Count for each candidate how many numbers too many lie on one side of it.

    Parameters
    ----------
    below : ndarray of int64, shape (n_candidates + 1,)
        As in `find_medians`, of a node.

    Returns
    -------
    ndarray of int64, shape (n_candidates,)
        0 for a median. One more or one fewer number changes each by at most 1.

    Examples
    --------
    >>> median_errors(np.array([0, 3, 3, 4]))  # three numbers, none and one
    array([0, 2, 2])
    """
    left, at, right = below[:-1] - below[0], np.diff(below), below[-1] - below[1:]
    errors: Integers = np.maximum(np.abs(left - right) - at, 0)
    return errors


def arrange(values: Floats, cuts: Codes, noisy: Integers, scale: float) -> Column:
    """Make a distribution of cuts and the noisy masses of the parts they make.

    Parameters
    ----------
    values : ndarray of float64
        Candidates.
    cuts : ndarray of intp
        Places of the cuts, increasing.
    noisy : ndarray of int64, shape (2 * n_cuts + 1,)
        Masses below the first cut, on it, between it and the second, and so on.
    scale : float
        Scale of their noise.

    Returns
    -------
    Column
        The parts whose mass is more than noise; where there are none, the cuts.
    """
    middle = [float(value) for value in values[cuts]]
    first, last = float(values[0]), float(values[-1])
    # a tail is as wide as the space next to it: without bounds its true end may be far away
    tails = (
        max(first, middle[0] - (middle[min(1, len(middle) - 1)] - middle[0])),
        min(last, middle[-1] + (middle[-1] - middle[max(-2, -len(middle))])),
    )
    starts = np.array(list(_interleaved([tails[0], *middle], middle)))
    ends = np.array(list(_interleaved([*middle, tails[1]], middle)))
    masses = np.where(noisy > max_spurious_mass(len(noisy), scale), noisy, 0).astype(np.float64)
    if not masses.any():
        masses[1::2] = 1.0
    kept = masses > 0
    return Column(starts[kept], ends[kept], masses[kept] / masses.sum())


def _interleaved(spaces: list[float], cuts: list[float]) -> Iterator[float]:
    for space, cut in zip(spaces, cuts, strict=False):
        yield space
        yield cut
    yield spaces[-1]
