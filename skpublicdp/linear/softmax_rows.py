"""Sums over private rows of more than two labels: sums of rows by label, and of clipped residuals.

Every integer is a function of one row, of public numbers and of earlier releases. The proofs are in
docs/proofs/linear.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skpublicdp.data.dataset import Dataset
from skpublicdp.linear.glm_loss import MEAN_UNIT, SoftmaxGLMLoss
from skpublicdp.linear.row_encoder import RowEncoder, squared_lengths, sum_blocks
from skpublicdp.typing import Codes, Floats, Integers

MAX_BLOCK_ENTRIES = 2**20
"""Largest number of entries of the terms of a block of rows."""


def class_sums(data: Dataset, encoder: RowEncoder, n_labels: int) -> Integers:
    """Return the exact sums of the weighted integer rows of each label, shape (n_labels, k)."""

    def of_block(rows: Floats, targets: Floats) -> Integers:
        """Return the sums over one block of rows."""
        indicators = (targets[:, None] == np.arange(n_labels)).astype(np.float64)
        # exact in any order of summation, since all partial sums are integers below 2^53
        return (indicators.T @ encoder.encode_weighted(rows)).astype(np.int64)

    return sum_blocks(data, of_block, encoder.n_block_rows)


@dataclass(frozen=True, eq=False)
class ResidualTerms:
    """Terms of a correction: the residuals of a row at a released model, times the row, clipped.

    The term of a row is r ⊗ a, where r is the indicator of its label minus the probabilities of the
    labels at integer coefficients, and a is its weighted integer vector.
    """

    loss: SoftmaxGLMLoss
    coefficients: Floats  # (k, n_labels): integers
    coefficient_exponent: int  # a margin is an integer times 2^-coefficient_exponent
    factor: float  # factor from integer terms to clipped integers
    limit: int  # largest Euclidean length of a clipped term

    def residuals(self, labels: Codes, plain: Floats) -> Floats:
        """Return the residuals in units of 1 / MEAN_UNIT, shape (n, n_labels)."""
        # exact in any order of summation, since all partial sums are integers below 2^53
        margins = np.ldexp(plain @ self.coefficients, -self.coefficient_exponent)
        residuals = -self.loss.integer_means(margins)
        residuals[np.arange(len(labels)), labels] += MEAN_UNIT
        return residuals

    def clipped(self, labels: Codes, weighted: Floats, plain: Floats) -> Floats:
        """Return the clipped integer terms, shape (n, n_labels, k)."""
        residuals = self.residuals(labels, plain)
        n_entries = residuals.shape[1] * weighted.shape[1]
        # both lengths are square roots of exact sums, so they are functions of the row
        residual_lengths = np.sqrt(squared_lengths(residuals))
        row_lengths = np.sqrt(squared_lengths(weighted))
        lengths = residual_lengths * row_lengths
        # rounding adds at most 1/2 to every entry
        room = max(0.0, self.limit - math.sqrt(n_entries) / 2 - 1)
        with np.errstate(divide="ignore"):
            factors = np.minimum(self.factor, room / lengths)
        scaled = residuals * factors[:, None]
        terms = np.rint(scaled[:, :, None] * weighted[:, None, :])
        # a sum of squares beyond 2^53 is not exact, but exceeds the limit
        squares = (terms * terms).sum(axis=(1, 2))
        is_short = squares <= float(self.limit) ** 2  # False for what is not finite
        terms[~is_short] = 0
        return terms


def residual_sums(data: Dataset, encoder: RowEncoder, terms: ResidualTerms) -> Integers:
    """Return the exact sums of the clipped terms over all private rows, shape (n_labels, k)."""
    n_entries = encoder.n_coefficients * terms.loss.n_margins
    n_block_rows = max(1, min(encoder.n_block_rows, MAX_BLOCK_ENTRIES // n_entries))

    def of_block(rows: Floats, targets: Floats) -> Integers:
        """Return the sums over one block of rows."""
        encoded = encoder.encode(rows)
        labels = targets.astype(np.int64)
        return terms.clipped(labels, encoded.weighted, encoded.plain).sum(axis=0).astype(np.int64)

    return sum_blocks(data, of_block, n_block_rows)
