"""Columns of a linear model: numbers and one-hot categories, centred and scaled by public rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from skpublicdp.data.column import MISSING, OTHER
from skpublicdp.data.schema import Schema
from skpublicdp.typing import Floats

COLUMN_UNIT = 2**16
"""Number of integer units in one public standard deviation of a column."""

MAX_DEVIATIONS = 2**10
"""Number of public standard deviations at which values are clipped."""

LARGEST_DEVIATION = 1e150
"""Number of public standard deviations at which values are clipped in predictions, so that margins
are finite."""

MODEL_COLUMN = "public model"
"""Name of the column with the predictions of a public model."""


@dataclass(frozen=True, eq=False)
class ModelColumn:
    """Column with the predictions of a public model: log-odds, or outcomes."""

    # margins of encoded rows, shape (1, n), each of its row alone
    margins: Callable[[Floats], Floats]
    low: float  # limits of the predictions
    high: float
    zero: float  # prediction at which the margin is 0
    step: float  # change of the prediction per unit of `margins`
    unit: float  # change of the prediction per unit of the margins of a linear model

    def predict(self, rows: Floats) -> Floats:
        """Return the predictions of encoded rows."""
        return self.zero + self.step * self.margins(rows)[0]


@dataclass(frozen=True, eq=False)
class DesignColumns:
    """Centre and scale of each column of the design matrix, which are functions of public rows."""

    names: tuple[str, ...]
    # (n_design,): position of the column of the schema
    sources: tuple[int, ...]
    # (n_design,): code of the category that a column indicates, or -1 for numbers
    codes: tuple[int, ...]
    fill: Floats  # (n_design,): value in place of missing and infinite numbers
    low: Floats  # (n_design,): values are clipped to declared bounds
    high: Floats  # (n_design,)
    centre: Floats  # (n_design,)
    scale: Floats  # (n_design,): public standard deviations, or infinity for constant columns
    model: ModelColumn | None = None  # the last column, if there is a public model

    @classmethod
    def from_public(
        cls,
        schema: Schema,
        rows: Floats,
        *,
        centred: bool,
        bounded: Collection[int] = (),
        model: ModelColumn | None = None,
    ) -> DesignColumns:
        """Return the design columns of encoded public rows. Without centring, all centres are 0.

        Values of the columns at the positions in `bounded` are clipped to the bounds. The
        predictions of a public model are the last column.
        """
        names, sources, codes, limits = [], [], [], []
        for position, column in enumerate(schema.columns):
            if not column.categorical:
                names.append(column.name)
                sources.append(position)
                codes.append(-1)
                is_bounded = position in bounded
                limits.append((column.low, column.high) if is_bounded else (-np.inf, np.inf))
                continue
            categories = [str(value) for value in column.values] + [OTHER, MISSING]
            for code, category in enumerate(categories):
                names.append(f"{column.name}={category}")
                sources.append(position)
                codes.append(code)
                limits.append((0.0, 1.0))
        if model is not None:
            names.append(MODEL_COLUMN)
            sources.append(-1)
            codes.append(-1)
            limits.append((model.low, model.high))
        low, high = np.array(limits).reshape(-1, 2).T
        zeros = np.zeros(len(names))
        design = cls(
            tuple(names),
            tuple(sources),
            tuple(codes),
            fill=zeros,
            low=low,
            high=high,
            centre=zeros,
            scale=zeros,
            model=model,
        )
        values = design._raw(rows)
        n_finite = np.maximum(1, np.isfinite(values).sum(axis=0))
        finite = np.where(np.isfinite(values), values, 0)
        magnitude = np.maximum(np.abs(finite).max(axis=0, initial=0), 1e-300)
        finite /= magnitude  # so that squares do not overflow
        mean = finite.sum(axis=0) / n_finite
        centre = mean if centred else zeros
        deviations = np.where(np.isfinite(values), finite - centre, 0)
        scale = np.sqrt((deviations**2).sum(axis=0) / n_finite)
        is_constant = scale <= 1e-9
        scale = np.where(is_constant, np.inf, scale * magnitude)
        scale = np.where(scale < 1e-290, np.inf, scale)
        mean, centre = mean * magnitude, centre * magnitude
        return replace(design, fill=mean, centre=centre, scale=scale)

    def values(self, rows: Floats) -> Floats:
        """Return the design matrix of encoded rows, in the units of the columns."""
        values = self._raw(rows)
        np.copyto(values, self.fill, where=~np.isfinite(values))
        return np.clip(values, self.low, self.high, out=values)

    def standardised(self, rows: Floats) -> Floats:
        """Return the centred and scaled design matrix, clipped, in multiples of 1 / COLUMN_UNIT."""
        return self.integers(rows) / COLUMN_UNIT

    def integers(self, rows: Floats) -> Floats:
        """Return the centred and scaled design matrix, clipped, in units of 1 / COLUMN_UNIT.

        All operations are elementwise, so the result for a row does not depend on other rows.
        """
        deviations = self.deviations(rows)
        np.clip(deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS, out=deviations)
        deviations *= COLUMN_UNIT
        return np.rint(deviations, out=deviations)

    def deviations(self, rows: Floats) -> Floats:
        """Return the centred and scaled design matrix of encoded rows, shape (n, n_design)."""
        values = self.values(rows)
        with np.errstate(over="ignore"):
            values /= 2  # halves, whose difference does not overflow
            values -= self.centre / 2
            values /= self.scale / 2
        return np.clip(values, -LARGEST_DEVIATION, LARGEST_DEVIATION, out=values)

    def _raw(self, rows: Floats) -> Floats:
        """Return the design matrix without replacing missing values, shape (n, n_design)."""
        codes = np.array(self.codes)
        if (codes < 0).all() and self.model is None:  # there are only numbers
            return np.array(rows, dtype=np.float64, order="C")
        values = np.empty((len(rows), len(codes)))
        starts = np.flatnonzero(codes <= 0).tolist()  # of the numbers, and of each first category
        for start, stop in pairwise([*starts, len(codes)]):
            source = self.sources[start]
            if source < 0:
                assert self.model is not None
                margins = self.model.margins(rows)[0]
                values[:, start] = self.model.zero + self.model.step * margins
                continue
            column = rows[:, source, None]
            if codes[start] >= 0:
                column = column == codes[start:stop]
            values[:, start:stop] = column
        return values

    @property
    def prior_slopes(self) -> Floats:
        """Coefficients of the standardised columns that give the margins of the public model."""
        slopes = np.zeros(len(self.names))
        if self.model is not None and np.isfinite(self.scale[-1]):
            slopes[-1] = self.scale[-1] / self.model.unit
        return slopes

    @property
    def prior_intercept(self) -> float:
        """Margin of the public model at the centre of the columns."""
        if self.model is None:
            return 0.0
        return float(self.fill[-1] - self.model.zero) / self.model.unit
