"""Marginal tables, which contain the row count for each combination of codes in a few columns.

A table is a sum over rows. Tables of disjoint sets of rows can therefore be added, and counts do
not depend on how rows are divided among chunks or threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Sensitivity
from skpublicdp.exceptions import UncoveredBoundsWarning, warn
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

Attributes = tuple[int, ...]
"""Indices of the columns of a marginal, in increasing order."""

COUNT_CHUNK_ROWS = 1 << 15
"""Number of rows counted at a time, which is small enough for their codes to fit into the
processor's cache."""

MEMORY_BYTES = 1 << 28
"""Maximum size of a large array in bytes. Larger arrays are computed in blocks or not kept in
memory."""

MAX_MARGINAL_CELLS = 10_000_000
"""Maximum number of cells in one marginal. A larger table would be nearly empty."""

MAX_COMBINATION_ID = 1 << 62
"""Upper bound on the integers that identify combinations of codes, which lies below the limit of
int64."""


def check_sizes(sizes: Sequence[int]) -> Attributes:
    """Return the number of codes of each column, as a tuple of positive integers."""
    checked = tuple(int(size) for size in sizes)
    if not checked or min(checked) < 1:
        raise ValueError(
            "sizes must contain at least one column, and each size must be a positive number of "
            "codes."
        )
    return checked


def check_codes(name: str, codes: NDArray[np.integer], sizes: Attributes) -> NDArray[np.integer]:
    """Return coded rows after checking that all codes are integers from 0 to size - 1."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != len(sizes):
        raise ValueError(
            f"{name} must have shape (rows, {len(sizes)}), one column per size; "
            f"got shape {codes.shape}."
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"{name} must contain integers; got dtype {codes.dtype}.")
    if len(codes) and (codes.min() < 0 or (codes.max(axis=0) >= np.array(sizes)).any()):
        raise ValueError(
            f"{name} must contain codes from 0 to one less than the size of the column."
        )
    return codes


def check_workload(workload: Iterable[Sequence[int]], sizes: Attributes) -> tuple[Attributes, ...]:
    """Return the distinct marginals of a workload, each as a tuple of increasing columns."""
    checked = []
    for columns in workload:
        marginal = tuple(sorted(int(column) for column in columns))
        is_distinct = len(set(marginal)) == len(marginal) > 0
        if not is_distinct or marginal[0] < 0 or marginal[-1] >= len(sizes):
            raise ValueError(
                f"A marginal must be a list of distinct column numbers from 0 to {len(sizes) - 1}; "
                f"got {tuple(columns)}."
            )
        n_cells = math.prod(sizes[column] for column in marginal)
        if n_cells > MAX_MARGINAL_CELLS:
            raise ValueError(
                f"The marginal {marginal} has {n_cells} cells, but at most {MAX_MARGINAL_CELLS} "
                "are allowed. Use fewer columns or coarser bins."
            )
        checked.append(marginal)
    if not checked:
        raise ValueError("The workload must contain at least one marginal.")
    return tuple(dict.fromkeys(checked))


def ravel_codes(
    codes: NDArray[np.integer],  # (n_rows, n_columns)
    columns: Attributes,
    sizes: Attributes,
    dtype: type[np.integer] = np.int64,
) -> NDArray[np.integer]:
    """Return the cell index of each row in the marginal of some columns."""
    cell = codes[:, columns[0]].astype(dtype)
    for column in columns[1:]:
        cell *= sizes[column]
        cell += codes[:, column].astype(dtype, copy=False)
    return cell


def combination_ids(codes: Integers) -> NDArray[np.intp]:
    """Return an identifier from 0 to n_combinations - 1 for each row's combination of codes.

    Unlike `ravel_codes`, this function numbers only the combinations that occur, so it never
    overflows.
    """
    ids, n_ids = np.zeros(len(codes), dtype=np.int64), 1  # mixed radix numbers of the codes
    for column in codes.T:
        n_codes = int(column.max()) + 1
        if n_ids * n_codes > MAX_COMBINATION_ID:  # renumber to avoid overflow
            ids = np.unique(ids, return_inverse=True)[1].ravel()
            n_ids = int(ids.max()) + 1
        ids = ids * n_codes + column
        n_ids *= n_codes
    return np.unique(ids, return_inverse=True)[1].ravel()


def marginal_tables(
    codes: NDArray[np.integer],
    workload: Sequence[Attributes],
    sizes: Attributes,
    weights: Integers | None = None,
) -> Integers:
    """Count the rows in each cell of each marginal, or sum their weights; tables are in C order.

    Tables of disjoint sets of rows can be added. The sum of integer weights must be below 2^53.

    Examples
    --------
    >>> import numpy as np
    >>> marginal_tables(np.array([[0, 1], [1, 1], [0, 1]]), [(0,), (0, 1)], (2, 2))
    array([2, 1, 0, 2, 0, 1])
    """
    n_cells = [math.prod(sizes[column] for column in columns) for columns in workload]
    boundaries = np.cumsum([0, *n_cells]).tolist()
    counts = np.zeros(boundaries[-1], dtype=np.int64)
    tables = [counts[start:stop] for start, stop in pairwise(boundaries)]  # views
    for start in range(0, len(codes), COUNT_CHUNK_ROWS):
        stop = start + COUNT_CHUNK_ROWS
        rows_of_chunk = slice(start, stop)
        chunk_codes = codes[rows_of_chunk]
        chunk = np.asfortranarray(chunk_codes)
        chunk_weights = None if weights is None else weights[rows_of_chunk]
        for columns, table in zip(workload, tables, strict=True):
            # memory bandwidth is the bottleneck, so the smallest type is the fastest
            is_small = len(table) < 1 << 16
            dtype = np.uint16 if is_small else np.int64
            cells = ravel_codes(chunk, columns, sizes, dtype)
            sums = np.bincount(cells, chunk_weights, minlength=len(table))
            table += sums.astype(np.int64)  # sums below 2^53 are exact
    return counts


WEIGHT_UNITS = 1 << 12
"""Integer weight of a row with the maximum weight. Weights are rounded to multiples of 1/4096 of
the maximum, with a rounding error of at most 1/8192 of the maximum."""

TOTALS_SHARE = Fraction(1, 16)
"""Share of the budget that is spent on the sums of the weights and of their squares."""

MAX_LOWERED_SHARE = 0.1
"""Largest fraction of public weights above the declared maximum that gives no warning. Offices
often trim a few percent of the weights."""

MAX_MEAN_WEIGHT = 0.9
"""Largest released mean weight, in units of the declared maximum, that gives no warning."""

WEIGHTS_PROOF = "docs/proofs/marginals.md"


@dataclass(frozen=True)
class WeightColumn:
    """Numeric column that contains the survey weights of the rows."""

    position: int
    maximum: float  # maximum weight, as declared by the user
    offset: float = 0.0  # number that is added to encoded values of the column

    def units(self, rows: Floats) -> Integers:
        """Return the weights of encoded rows as integers from 0 to `WEIGHT_UNITS`.

        The weight of a row depends only on this row and lies in this range for any number in the
        column.
        """
        shares = (rows[:, self.position] + self.offset) / self.maximum
        finite = np.where(np.isfinite(shares), shares, 0.0)
        return np.rint(np.clip(finite, 0, 1) * WEIGHT_UNITS).astype(np.int64)

    def totals(self, rows: Floats) -> Integers:
        """Return the sum of the weights and the sum of their squares, both in `WEIGHT_UNITS`.

        Squares are divided by `WEIGHT_UNITS` and rounded down, so that they lie in the same range
        as the weights.
        """
        units = self.units(rows)
        return np.array([units.sum(), (units * units // WEIGHT_UNITS).sum()], dtype=np.int64)


class WeightTotals(NamedTuple):
    """Released sums over the weights of all private rows."""

    # Sum of the weights, in units of the maximum weight. The sum lies between 1 and the number of
    # rows.
    total: float
    variance: float  # noise variance of `total`
    # Kish's effective sample size, i.e. the squared sum divided by the sum of squares.
    effective_rows: float


def warn_if_lowered(name: str, share: float) -> None:
    """Warn if many public weights of a column exceed the declared maximum.

    `share` is the fraction of public weights that are lowered to the maximum.
    """
    if share > MAX_LOWERED_SHARE:
        warn(
            f"{share:.0%} of the public weights in column {name} exceed the declared maximum. "
            "Weights above the maximum are lowered to it, so that weighted fractions are biased. "
            "Declare a larger maximum in bounds.",
            UncoveredBoundsWarning,
        )


def warn_of_mean_weight(name: str, mean: float) -> None:
    """Warn if the released mean weight, in units of the declared maximum, is close to it.

    Equal weights may be at the maximum. They have no effect on weighted fractions.
    """
    if mean > MAX_MEAN_WEIGHT:
        warn(
            f"The mean weight in column {name} is {mean:.0%} of the declared maximum, so many "
            "weights may have been lowered to the maximum. If weights differ much between rows, "
            "declare a larger maximum in bounds.",
            UncoveredBoundsWarning,
        )


def weighted_sensitivity(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity of summed integer weights, given the sensitivity of row counts."""
    absolute, squared = sensitivity
    return Sensitivity(WEIGHT_UNITS * absolute, WEIGHT_UNITS**2 * squared)


def release_weight_totals(
    count: Callable[[], Integers], n_private: int, ledger: Ledger
) -> WeightTotals:
    """Release the sums of the weights and of their squares, with a share of the budget."""
    noisy = ledger.add_noise(
        count(),
        weighted_sensitivity(Sensitivity(2, 2)),
        ledger.noise.scaled(TOTALS_SHARE),
        name=f"{ledger.noise.noise_name} on the sums of weights and of their squares",
        proof=WEIGHTS_PROOF,
    )
    total, squares = (noisy.values / WEIGHT_UNITS).tolist()
    total = min(max(total, 1.0), float(n_private))
    # the sum of squares is at most the sum of weights, and at least total² / n (Cauchy-Schwarz)
    effective_rows = min(max(total**2 / max(squares, 1.0), total), float(n_private))
    return WeightTotals(total, noisy.variance / WEIGHT_UNITS**2, effective_rows)
