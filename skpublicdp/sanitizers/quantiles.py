"""Private quantiles of one column by recursive medians (proof: docs/proofs/generic_learner.md).

The recursion is the one of Kaplan, Schnapp and Stemmer (2022). Each median is an exact draw of the
exponential mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skpublicdp.accounting import Draw, Pure, Sensitivity
from skpublicdp.guarantees.sanitizer_bounds import COUNT_SHARE, max_spurious_mass
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers.candidate_grid import CandidateGrid
from skpublicdp.typing import Codes, Floats, Integers

SANITIZER_PROOF = "docs/proofs/generic_learner.md"
QUANTILES_NAME = "medians by exact draws and discrete Laplace noise on masses, of a feature"
"""Name of the quantiles of one column in the receipt."""


def split_budget(epsilon: Fraction, levels: int) -> tuple[Fraction, Fraction]:
    """Return the budget ε of the medians of one level of the recursion, and the one of all masses.

    The masses are counted once and get the share `COUNT_SHARE`. The levels share the rest equally.
    """
    mass_budget = epsilon * COUNT_SHARE
    return (epsilon - mass_budget) / levels, mass_budget


@dataclass(frozen=True, eq=False)
class QuantileColumn:
    """Released distribution of one column: a mixture of uniform distributions and single values.

    Attributes
    ----------
    starts, ends : ndarray of float64, shape (n_segments,)
        Ends of each segment. A segment with equal ends is a single value.
    masses : ndarray of float64, shape (n_segments,)
        Positive fractions of the rows, with sum 1. The mass of a segment is spread evenly over it.
    """

    starts: Floats
    ends: Floats
    masses: Floats

    def quantile(self, p: Floats) -> Floats:
        """Return the quantile of the released distribution for each fraction `p` in [0, 1]."""
        cumulative = np.cumsum(self.masses)
        segment = np.minimum(np.searchsorted(cumulative, p), len(cumulative) - 1)
        start, end = self.starts[segment], self.ends[segment]
        fraction = np.clip(1 - (cumulative[segment] - p) / self.masses[segment], 0, 1)
        # single values are returned without rounding error, since many of them are 0 or 1
        return np.where(start == end, start, start * (1 - fraction) + end * fraction)


Column = QuantileColumn
"""Former name of `QuantileColumn`."""


def release_column(
    column: Floats, candidates: CandidateGrid, *, levels: int, epsilon: Fraction, ledger: Ledger
) -> QuantileColumn:
    """Release quantiles of a private column and the masses of the segments between them.

    Parameters
    ----------
    column : ndarray of float64
        Private numbers. Each is moved to the nearest candidate.
    candidates : CandidateGrid
        Candidate values of the quantiles.
    levels : int
        Depth of the recursion, at least 1.
    epsilon : Fraction
        Privacy budget. The release is ε-differentially private.
    ledger : Ledger
        Privacy ledger that is charged.

    Returns
    -------
    QuantileColumn
        Up to 2^levels - 1 quantiles and the segments between them, with noisy masses.
    """
    level_budget, mass_budget = split_budget(epsilon, levels)
    column_ledger = ledger.sub_ledger(Pure(epsilon), name=QUANTILES_NAME, proof=SANITIZER_PROOF)
    counts = np.bincount(candidates.nearest(column), minlength=len(candidates))
    n_before = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cuts = find_medians(n_before, candidates.prior, levels, level_budget, column_ledger)
    # segments in order: before the first cut, the first cut itself, before the second cut, ...
    boundaries = np.concatenate([[0], (cuts[:, None] + [0, 1]).ravel(), [len(candidates)]])
    noisy = column_ledger.add_noise(
        np.diff(n_before[boundaries]),
        Sensitivity(2, 2),  # a replaced row leaves one segment and enters another
        Pure(mass_budget),
        name=QUANTILES_NAME,
        proof=SANITIZER_PROOF,
    )
    return build_quantile_column(candidates.values, cuts, noisy.values, float(noisy.spread))


def find_medians(
    n_before: Integers, prior: Integers, levels: int, epsilon: Fraction, ledger: Ledger
) -> Codes:
    """Return private quantiles: a median of the rows, the medians on each side of it, and so on.

    A node of the recursion is a range of candidates. Its drawn median splits it into two nodes.

    Parameters
    ----------
    n_before : ndarray of int64, shape (n_candidates + 1,)
        Number of rows before each candidate. The last entry is the number of all rows.
    prior : ndarray of int64, shape (n_candidates,)
        Prior weights of the candidates.
    levels : int
        Depth of the recursion.
    epsilon : Fraction
        Privacy budget of each level.
    ledger : Ledger
        Privacy ledger that is charged.

    Returns
    -------
    ndarray of intp
        Increasing indices of the medians among the candidates.
    """
    nodes = [(0, len(prior))]  # start and stop of each range of candidates
    cuts: list[int] = []
    for _ in range(levels):
        children: list[tuple[int, int]] = []
        # parallel composition: the nodes of a level hold different rows
        level_ledger = ledger.sub_ledger(
            Pure(epsilon), name=QUANTILES_NAME, proof=SANITIZER_PROOF, by_theorem=True
        )
        for start, stop in nodes:
            errors = median_errors(n_before[start : stop + 1])
            family = Choice(Leaf(errors[:, None]), prior[start:stop])
            # a replaced row changes the errors of two nodes by at most 1 each, or the errors of one
            # node by at most 2
            option, _ = level_ledger.draw(
                family, Draw(epsilon), 2, name=QUANTILES_NAME, proof=SANITIZER_PROOF
            )
            cuts.append(start + option)
            children += [(start, start + option), (start + option + 1, stop)]
        nodes = [(start, stop) for start, stop in children if start < stop]
    return np.sort(np.array(cuts, dtype=np.intp))


def median_errors(n_before: Integers) -> Integers:
    """Return how far each candidate is from a median of the rows, in rows.

    Parameters
    ----------
    n_before : ndarray of int64, shape (n_candidates + 1,)
        The part of the array of `find_medians` that belongs to one node.

    Returns
    -------
    ndarray of int64, shape (n_candidates,)
        Difference between the numbers of rows on both sides of the candidate, less the rows at it.
        It is 0 for a median. Adding or removing one row changes it by at most 1.

    Examples
    --------
    >>> median_errors(np.array([0, 3, 3, 4]))  # 3 rows at the first candidate, 0 and 1 at others
    array([0, 2, 2])
    """
    n_left, n_right = n_before[:-1] - n_before[0], n_before[-1] - n_before[1:]
    n_equal = np.diff(n_before)
    errors: Integers = np.maximum(np.abs(n_left - n_right) - n_equal, 0)
    return errors


def build_quantile_column(
    values: Floats, cuts: Codes, noisy_masses: Integers, scale: float
) -> QuantileColumn:
    """Return the distribution of a column, given its cuts and the noisy counts of all segments.

    Parameters
    ----------
    values : ndarray of float64
        Candidates.
    cuts : ndarray of intp, shape (n_cuts,)
        Increasing indices of the cuts among the candidates.
    noisy_masses : ndarray of int64, shape (2 * n_cuts + 1,)
        Noisy numbers of rows before the first cut, at it, between it and the second, and so on.
    scale : float
        Scale of the Laplace noise.

    Returns
    -------
    QuantileColumn
        The segments whose mass is larger than plausible noise. If there are none, the cuts with
        equal masses.
    """
    cut_values = [float(value) for value in values[cuts]]
    low, high = float(values[0]), float(values[-1])
    # a tail is as wide as the gap next to it: without bounds the last candidate is far away
    has_gaps = len(cut_values) > 1  # a single cut has no gap, and its tails have no width
    first_gap = cut_values[1] - cut_values[0] if has_gaps else 0.0
    last_gap = cut_values[-1] - cut_values[-2] if has_gaps else 0.0
    tail_start = max(low, cut_values[0] - first_gap)
    tail_end = min(high, cut_values[-1] + last_gap)
    starts = _interleave([tail_start, *cut_values], cut_values)
    ends = _interleave([*cut_values, tail_end], cut_values)
    threshold = max_spurious_mass(len(noisy_masses), scale)
    masses = np.where(noisy_masses > threshold, noisy_masses, 0).astype(np.float64)
    if not masses.any():
        masses[1::2] = 1.0  # odd indices are the cuts
    is_positive = masses > 0
    return QuantileColumn(
        starts[is_positive], ends[is_positive], masses[is_positive] / masses.sum()
    )


def _interleave(gaps: list[float], cuts: list[float]) -> Floats:
    """Return the array gaps[0], cuts[0], gaps[1], cuts[1], ..., gaps[-1]."""
    interleaved = np.empty(len(gaps) + len(cuts))
    interleaved[::2], interleaved[1::2] = gaps, cuts
    return interleaved
