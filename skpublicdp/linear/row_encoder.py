"""Private rows as integer vectors of bounded length, and the sums of these vectors.

Every integer is a function of one row, of public numbers and of earlier releases. The proofs are in
docs/proofs/linear.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Sensitivity
from skpublicdp.data.dataset import Dataset
from skpublicdp.linear.design_columns import COLUMN_UNIT, MAX_DEVIATIONS, DesignColumns
from skpublicdp.linear.glm_loss import GLMLoss
from skpublicdp.typing import Floats, Integers

LENGTH_BITS = 20
"""Binary digits to which the length of an integer row is computed from its largest entry."""

MARGIN_LENGTHS = 16
"""Number of clipping lengths beyond which a row is shortened before its margin is computed."""

SLOPE_BITS = 28
"""Binary digits of the largest length of integer coefficients, so that integer margins are below
2^53."""

BLOCK_ENTRIES = 2**17
"""Number of entries of the rows that are encoded at a time, so that they stay in the cache of the
processor. Sums over a block are integers below 2^53."""


def shorten(vectors: Floats, factor: float, limit: int) -> tuple[Floats, Floats]:
    """Multiply vectors by a factor, round them to integers, and bound their Euclidean lengths.

    Parameters
    ----------
    vectors : ndarray of float64, shape (n, k)
        One vector per row. Vectors that are not finite become 0.
    factor : float
        Positive factor.
    limit : int
        Largest length of a returned vector. A longer vector is multiplied by a smaller factor.

    Returns
    -------
    ndarray of float64, shape (n, k)
        Integer vectors with a squared length of at most ``limit**2``, which is checked in exact
        arithmetic.
    ndarray of float64, shape (n,)
        Factor of each vector divided by `factor`, at most 1.
    """
    return _shorten(vectors, _upper_lengths(vectors), factor, limit)


def _upper_lengths(vectors: Floats) -> Floats:
    """Return upper bounds on the lengths of vectors, shape (n,), which are not rounded down."""
    largest = np.maximum(
        vectors.max(axis=1, initial=0.0),
        -vectors.min(axis=1, initial=0.0),
    )
    _, exponents = np.frexp(largest)
    exponents = np.maximum(exponents, LENGTH_BITS - 1000)  # the power of two is finite
    # integers of at most LENGTH_BITS digits, whose sum of squares is exact in any order
    leading = vectors * np.ldexp(1.0, LENGTH_BITS - exponents)[:, None]
    np.trunc(leading, out=leading)
    leading_lengths = np.sqrt(squared_lengths(leading))
    max_rounding = math.sqrt(max(1, vectors.shape[1]))  # truncation removes at most 1 per entry
    return np.ldexp(leading_lengths + max_rounding, exponents - LENGTH_BITS)


def squared_lengths(vectors: Floats) -> Floats:
    """Return the sums of squares of vectors of integers, shape (n,)."""
    return np.asarray(np.einsum("ij,ij->i", vectors, vectors))


def _shorten(vectors: Floats, lengths: Floats, factor: float, limit: int) -> tuple[Floats, Floats]:
    """Return the results of `shorten`, given upper bounds on the lengths of the vectors."""
    max_rounding = math.sqrt(max(1, vectors.shape[1]))
    room = limit - max_rounding / 2 - 1  # rounding adds at most 1/2 to every entry
    factors = np.minimum(factor, room / lengths)
    integers = vectors * factors[:, None]
    np.rint(integers, out=integers)
    is_short = squared_lengths(integers) <= float(limit) ** 2  # False if not finite
    integers[~is_short] = 0
    weights = np.where(is_short, factors / factor, 0.0)
    return integers, weights


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Integer vectors of rows, with the intercept in column 0, shape (n, 1 + n_axes)."""

    weighted: Floats  # length of columns 1 and later at most `RowEncoder.limit`
    # not weighted, but at most `MARGIN_LENGTHS` times as long; used for margins
    plain: Floats
    weights: Floats  # (n,): weights between 0 and 1


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """Encoder of rows as integer vectors along public axes, weighted by a public length."""

    columns: DesignColumns
    # (n_design, n_axes): integer matrix that maps standardised rows in units of 1 / COLUMN_UNIT to
    # coordinates in units of 2^-exponent
    matrix: Floats
    exponent: int
    limit: int  # integer that represents the clipping length, a power of two
    intercept: int  # integer of the intercept column, or 0 without an intercept

    @classmethod
    def from_basis(
        cls, columns: DesignColumns, basis: Floats, *, limit: int, has_intercept: bool
    ) -> RowEncoder:
        """Return an encoder that rounds a basis, which maps the clipping length to 1."""
        largest = MAX_DEVIATIONS * COLUMN_UNIT  # largest integer of a standardised column
        exact = basis * (limit / COLUMN_UNIT)
        exponent = 0
        sums = np.abs(exact).sum(axis=0).max(initial=0.0)
        if sums > 0:
            exponent = math.floor(51 - math.log2(largest * sums))
        matrix = np.rint(np.ldexp(exact, exponent))
        # coordinates and all of their partial sums are at most 2^53
        while np.abs(matrix).sum(axis=0).max(initial=0.0) * largest > 2.0**53:
            exponent -= 1
            matrix = np.rint(np.ldexp(exact, exponent))
        intercept = limit // 2 if has_intercept else 0
        return cls(columns, matrix, exponent, limit, intercept)

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients, including the intercept."""
        return 1 + self.matrix.shape[1]

    @property
    def n_block_rows(self) -> int:
        """Number of rows that are encoded at a time."""
        return max(1, BLOCK_ENTRIES // max(self.n_coefficients, len(self.matrix)))

    @property
    def has_intercept(self) -> bool:
        """Whether rows have an intercept column. Otherwise, column 0 is 0."""
        return self.intercept > 0

    @property
    def first_coefficient(self) -> int:
        """Position of the first column that has a coefficient."""
        return 0 if self.has_intercept else 1

    @property
    def intercept_value(self) -> float:
        """Value of the intercept column, in units of the clipping length."""
        return self.intercept / self.limit

    @property
    def basis(self) -> Floats:
        """The rounded basis, which maps standardised rows to coordinates, shape (d, n_axes)."""
        return np.ldexp(self.matrix * COLUMN_UNIT, -self.exponent) / self.limit

    def encode(self, rows: Floats) -> EncodedRows:
        """Return the integer vectors of rows that were encoded by the schema."""
        return self._from_coordinates(self._coordinates(rows), self._factor)

    def encode_weighted(self, rows: Floats) -> Floats:
        """Return the weighted integer vectors of rows that were encoded by the schema."""
        coordinates = self._coordinates(rows)
        lengths = _upper_lengths(coordinates)
        return self._with_intercept(*_shorten(coordinates, lengths, self._factor, self.limit))

    @property
    def _factor(self) -> float:
        """Factor from coordinates to integer vectors."""
        return math.ldexp(1.0, -self.exponent)

    def _coordinates(self, rows: Floats) -> Floats:
        """Return the coordinates of rows along the axes, in units of 2^-exponent."""
        standardised = self.columns.integers(rows)
        # exact in any order of summation, since all partial sums are integers below 2^53
        coordinates: Floats = standardised @ self.matrix
        return coordinates

    def _with_intercept(self, integers: Floats, weights: Floats) -> Floats:
        """Return integer vectors of rows with the weighted intercept in column 0."""
        intercept = np.trunc(self.intercept * weights)
        return np.column_stack([intercept, integers])

    def encode_scaled(self, scaled: Floats) -> EncodedRows:
        """Return the integer vectors of public rows in units of the clipping length."""
        return self._from_coordinates(scaled, float(self.limit))

    def _from_coordinates(self, coordinates: Floats, factor: float) -> EncodedRows:
        """Return the integer vectors of rows with the given coordinates, times a factor."""
        lengths = _upper_lengths(coordinates)
        margin_limit = MARGIN_LENGTHS * self.limit
        weighted, weights = _shorten(coordinates, lengths, factor, self.limit)
        plain, _ = _shorten(coordinates, lengths, factor, margin_limit)
        return EncodedRows(
            weighted=self._with_intercept(weighted, weights),
            plain=self._with_intercept(plain, np.ones_like(weights)),
            weights=weights,
        )


def label_sum_sensitivity(loss: GLMLoss, limit: int, intercept: int, n_axes: int) -> Sensitivity:
    """Return the sensitivity of the first release, by Lemmas 3 to 5 and 7 of docs/proofs/linear.md.

    The limit and the intercept are those of a `RowEncoder` with the given number of axes.
    """
    if loss.n_margins > 1:
        return class_sum_sensitivity(limit, intercept, n_axes)
    levels = loss.levels
    same_target = 20 * limit**2 + 4 * intercept**2
    opposite_target = 16 * limit**2 + 16 * intercept**2
    squared = levels**2 * max(same_target, opposite_target)
    max_row_sum = math.isqrt(n_axes * limit**2) + 1
    absolute = levels * (4 * intercept + 6 * max_row_sum)
    if loss.releases_squares:
        max_square = levels * limit // 2
        squared += max_square**2
        absolute += max_square
    return Sensitivity(absolute, squared)


def class_sum_sensitivity(limit: int, intercept: int, n_axes: int) -> Sensitivity:
    """Return the sensitivity of sums of rows by label, by Lemma 7 of docs/proofs/linear.md."""
    same_label = 4 * limit**2 + intercept**2
    other_label = 2 * (limit**2 + intercept**2)
    max_row_sum = math.isqrt(n_axes * limit**2) + 1
    return Sensitivity(2 * (intercept + max_row_sum), max(same_label, other_label))


def correction_sensitivity(limit: int, n_coefficients: int) -> Sensitivity:
    """Return the sensitivity of a correction, by Lemma 6 of docs/proofs/linear.md."""
    max_row_sum = math.isqrt(n_coefficients * limit**2) + 1
    return Sensitivity(2 * max_row_sum, 4 * limit**2)


def label_sums(data: Dataset, encoder: RowEncoder, loss: GLMLoss) -> Integers:
    """Return the exact integers of the first release.

    These are the sums of 2 t (a0, a) and of Y a over all private rows, where t is the integer
    target between -Y and Y. For outcomes, the last entry is the sum of t², in units of 2 Y / limit.
    """
    levels = loss.levels
    square_unit = encoder.limit // (2 * levels)

    def of_block(rows: Floats, targets: Floats) -> Integers:
        """Return the sums over one block of rows."""
        weighted = encoder.encode_weighted(rows)
        t = loss.integer_targets(targets)
        products = 2 * (t @ weighted)
        row_sums = weighted[:, 1:].sum(axis=0)
        sums = np.append(products, levels * row_sums)
        if loss.releases_squares:
            sums = np.append(sums, square_unit * (t @ t))
        return sums.astype(np.int64)

    return sum_blocks(data, of_block, encoder.n_block_rows)


@dataclass(frozen=True, eq=False)
class CorrectionTerms:
    """Terms of a correction: the mean of a row at a released model, times the row, clipped.

    The term of a row is p a - f, where p is its predicted mean at integer coefficients, a its
    weighted integer vector, and f the public mean of these products.
    """

    loss: GLMLoss
    coefficients: Floats  # (k,): integers
    coefficient_exponent: int  # a margin is an integer times 2^-coefficient_exponent
    public_mean: Floats  # (k,): integers in units of 1 / MEAN_UNIT
    factor: float  # factor from integer terms to clipped integers
    limit: int

    def exact(self, weighted: Floats, plain: Floats) -> Floats:
        """Return the terms before clipping, in units of 1 / MEAN_UNIT, shape (n, k)."""
        # exact in any order of summation, since all partial sums are integers below 2^53
        margins = np.ldexp(plain @ self.coefficients, -self.coefficient_exponent)
        means = self.loss.integer_means(margins)
        return means[:, None] * weighted - self.public_mean

    def clipped(self, weighted: Floats, plain: Floats) -> Floats:
        """Return the clipped integer terms, shape (n, k)."""
        return shorten(self.exact(weighted, plain), self.factor, self.limit)[0]


def integer_coefficients(coefficients: Floats, limit: int) -> tuple[Floats, int]:
    """Return coefficients as integers of bounded length, and the exponent of their margins.

    A margin is the product of an integer row and the integers, times two to the power of minus the
    exponent. The limit is the integer that represents the clipping length. Coefficients have the
    shape (k,), or (k, n_labels), in which case every column has a bounded length.
    """
    lengths = np.linalg.norm(coefficients, axis=0)
    length = float(lengths.max())
    _, digits = math.frexp(length)
    exponent = SLOPE_BITS - 1 - digits if 0 < length < math.inf else 0
    integers = np.rint(np.ldexp(coefficients, exponent))
    squared_lengths = (integers * integers).sum(axis=0)
    if not np.all(squared_lengths <= 4.0**SLOPE_BITS):
        integers = np.zeros_like(coefficients)  # coefficients that are not finite
    row_exponent = limit.bit_length() - 1
    return integers, exponent + row_exponent


def correction_sums(data: Dataset, encoder: RowEncoder, terms: CorrectionTerms) -> Integers:
    """Return the exact sums of the clipped terms over all private rows."""

    def of_block(rows: Floats, targets: Floats) -> Integers:
        """Return the sums over one block of rows."""
        encoded = encoder.encode(rows)
        return terms.clipped(encoded.weighted, encoded.plain).sum(axis=0).astype(np.int64)

    return sum_blocks(data, of_block, encoder.n_block_rows)


def sum_blocks(
    data: Dataset, of_block: Callable[[Floats, Floats], Integers], n_block_rows: int
) -> Integers:
    """Return the sum of a function of blocks of rows over all private rows."""

    def of_chunk(rows: Floats, targets: NDArray[np.generic]) -> Integers:
        """Return the sum over one chunk, block by block."""
        starts = range(0, max(1, len(rows)), n_block_rows)
        blocks = [slice(start, start + n_block_rows) for start in starts]
        sums = [of_block(rows[b], targets[b].astype(np.float64)) for b in blocks]
        return np.sum(sums, axis=0)

    table: Integers = data.fold(of_chunk)
    return table
