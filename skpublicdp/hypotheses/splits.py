"""Axis-aligned splits `x[feature] > threshold`, placed at public quantiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import Cuts
from skpublicdp.hypotheses.base import (
    FeatureName,
    PublicSample,
)
from skpublicdp.hypotheses.contingency import (
    MAX_TABLE_BYTES,
    contingency_bytes,
    contingency_table,
    pair_counts,
)
from skpublicdp.typing import Codes, Floats, Integers

MIN_SPLITS_PER_COLUMN = 8
"""With more splits for each column, counting pairs of cells is faster than pairs of splits."""

CELL_BLOCK_ROWS = 1 << 15
"""Rows whose cells are held at a time."""


class Predicates(ABC):
    """What a tree may ask of a row, each of one column.

    Attributes
    ----------
    features : ndarray of intp, shape (n_predicates,)
        Column each one looks at.
    """

    features: Codes

    def __len__(self) -> int:
        return len(self.features)

    @abstractmethod
    def __getitem__(self, index: int | slice | Codes) -> Self: ...

    @abstractmethod
    def met(self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write 1 where a column meets a predicate, 0 elsewhere."""

    @abstractmethod
    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return one predicate, or its opposite, in words."""

    @abstractmethod
    def span(self, predicate: int) -> tuple[float, float]:
        """Return the values that meet a predicate: those above the first, up to the second."""

    def above(self, X: NDArray[Any], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Tell which rows meet which predicates; scoring and predicting both come here.

        Parameters
        ----------
        X : ndarray, shape (n, n_features)
            Rows without NaN.
        out : ndarray of float32, shape (n_predicates, n), optional
            Where to write.

        Returns
        -------
        ndarray of float32, shape (n_predicates, n)
            1 where one is met, 0 otherwise: ready for an exact matrix product.
        """
        if out is None:
            out = np.empty((len(self), len(X)), dtype=np.float32)
        columns = {f: np.ascontiguousarray(X[:, f]) for f in np.unique(self.features).tolist()}
        for predicate, feature in enumerate(self.features.tolist()):
            self.met(predicate, columns[feature], out[predicate])
        return out

    def tabulate(
        self, X: NDArray[Any], y: Codes, weights: Integers, n_classes: int, order: int
    ) -> Integers:
        """Weigh each label above each split, each pair or each triple of splits.

        Parameters
        ----------
        X, y, weights
            Rows, codes of their labels and weights, as in `Cover.tabulate`.
        n_classes : int
            Number of labels.
        order : {0, 1, 2, 3}
            How many splits are met at a time.

        Returns
        -------
        ndarray of int64, shape (n_classes,) + order * (K + 1,)
            With an always-true split put first, so that for order 2 entry (c, i, j) weighs the
            rows of label c above splits i and j, (c, i, 0) those above split i and (c, 0, 0) all.
        """
        return contingency_table(self.above, len(self), X, y, weights, n_classes, order)


@dataclass(frozen=True, eq=False)
class Splits(Predicates):
    """Predicates `x[feature] > threshold`.

    Parameters
    ----------
    features : ndarray of intp, shape (n_splits,)
        Column each split looks at.
    thresholds : ndarray of float64, shape (n_splits,)
        A row is above a split when its value is strictly greater.
    """

    features: Codes
    thresholds: Floats

    def __getitem__(self, index: int | slice | Codes) -> Splits:
        return Splits(np.atleast_1d(self.features[index]), np.atleast_1d(self.thresholds[index]))

    def met(self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write 1 for each row that is above a split."""
        np.greater(column, self.thresholds[predicate], out=out)

    def tabulate(
        self, X: NDArray[Any], y: Codes, weights: Integers, n_classes: int, order: int
    ) -> Integers:
        """Weigh each label above splits, by the cells between the splits of a feature."""
        used, labels = np.unique(self.features).tolist(), np.arange(n_classes)
        heaviest = int(weights.max(initial=1))
        if (
            order != 2
            or len(self) < MIN_SPLITS_PER_COLUMN * len(used)
            or heaviest * len(X) >= 1 << 53
        ):
            return super().tabulate(X, y, weights, n_classes, order)
        table = np.zeros((n_classes, len(self) + 1, len(self) + 1), dtype=np.int64)
        mine = [np.flatnonzero(self.features == feature) for feature in used]
        mine = [which[np.argsort(self.thresholds[which], kind="stable")] + 1 for which in mine]
        for start in range(0, len(X), CELL_BLOCK_ROWS):
            at = slice(start, start + CELL_BLOCK_ROWS)
            columns = [
                self._cells(X[at, feature], which - 1)
                for feature, which in zip(used, mine, strict=True)
            ]
            sizes = [len(which) + 1 for which in mine]
            for a, b, counts in pair_counts(columns, sizes, y[at], weights[at], n_classes):
                # rows are above a split if their cell is after it
                above = counts[:, ::-1, ::-1].cumsum(axis=1).cumsum(axis=2)[:, ::-1, ::-1]
                table[np.ix_(labels, mine[a], mine[b])] += above[:, 1:, 1:]
                if a == b:
                    table[:, mine[a], 0] += above[:, 1:, 0]
                    if a == 0:
                        table[:, 0, 0] += above[:, 0, 0]
        rows = np.concatenate(mine)
        table[:, 0, rows] = table[:, rows, 0]
        for a, which in enumerate(mine):
            for others in mine[:a]:
                lower = table[np.ix_(labels, others, which)]
                table[np.ix_(labels, which, others)] = lower.swapaxes(1, 2)
        return table

    def _cells(self, column: NDArray[Any], ordered: Codes) -> NDArray[np.integer[Any]]:
        """Return how many of some splits each value is above."""
        values = np.ascontiguousarray(column)
        cells = np.zeros(len(values), np.min_scalar_type(len(ordered)))
        for threshold in self.thresholds[ordered]:  # of numpy: no value loses digits
            cells += values > threshold
        return cells

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return one split as `name > threshold`, or its opposite as `name <= threshold`."""
        sign = ">" if above else "<="
        name = names[self.features[predicate]]
        return f"{name} {sign} {shown(self.thresholds[predicate], name)}"

    def span(self, predicate: int) -> tuple[float, float]:
        """Return a threshold and infinity."""
        return float(self.thresholds[predicate]), math.inf


def shown(threshold: float, name: str = "") -> str:
    """Return a threshold of a column in full, and as short as it can be."""
    number = float(threshold)
    if isinstance(name, FeatureName):
        return name.write(number)
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else repr(number)


def check_table(splits: Splits, public: PublicSample, order: int, remedy: str) -> None:
    """Refuse a table of pairs or triples that would not fit in memory."""
    n_bytes = contingency_bytes(len(splits), len(public.classes), order)
    if n_bytes > MAX_TABLE_BYTES:
        raise CoverSizeError(
            f"{len(splits)} splits and {len(public.classes)} classes need a table of "
            f"{n_bytes / 2**30:.1f} GiB and {MAX_TABLE_BYTES / 2**30:.0f} are allowed; "
            f"raise alpha, drop features or {remedy}."
        )


def quantile_thresholds(column: Floats, alpha: float) -> Floats:
    """Choose thresholds so that any cut of the column is within a mass `alpha` of one of them.

    Where one value fills more than half of the column (amounts that are mostly zero), the mass is
    that of the other values: the tail then gets as many thresholds as any other column.

    Parameters
    ----------
    column : ndarray of float64, shape (m,)
        Public values.
    alpha : float
        Largest share of the values between neighbouring thresholds, save where a single value
        weighs more; below 1/m every gap between distinct values gets its threshold.

    Returns
    -------
    ndarray of float64
        Increasing, each the shortest decimal in the middle half of a gap between two neighbouring
        distinct values.

    Examples
    --------
    >>> quantile_thresholds(np.arange(10.0), alpha=0.25)
    array([1.5, 3.5, 5.5, 7.5])
    >>> quantile_thresholds(np.array([0.0, 0.0, 1.0]), alpha=0.1)
    array([0.5])
    """
    values, counts = np.unique(column, return_counts=True)
    spread = counts[2 * counts <= len(column)].sum()
    spacing = float(alpha * spread * (1 + 1e-9))  # a multiple of 1/m is meant exactly
    below = np.cumsum(counts).tolist()
    kept = []
    last = 0
    for gap in range(len(values) - 1):
        if below[gap + 1] - last > spacing:
            kept.append(gap)
            last = below[gap]
    return np.array([_between(*values[gap : gap + 2].tolist()) for gap in kept])


def _between(low: float, high: float) -> float:
    """Return the shortest decimal well inside a gap, so that a printed rule is the rule itself."""
    middle = low / 2 + high / 2
    quarter = high / 4 - low / 4
    width = min(high - low, 1e307)  # to more than 307 places before the point nothing rounds
    for decimals in range(-math.floor(math.log10(width)), 325):
        threshold = round(middle, decimals)
        if abs(threshold - middle) <= quarter and low <= threshold < high:
            return threshold
    return low  # neighbouring floats have nothing between them: `> low` separates them as well


def public_splits(public: PublicSample, alpha: float) -> Splits:
    """Place splits of all features at public quantiles, one for each partition of the public rows.

    Parameters
    ----------
    public : PublicSample
        Public rows.
    alpha : float
        Quantile spacing.

    Returns
    -------
    Splits
        Ordered by feature. Of splits that part the public rows alike, the first is kept: one
        representative of each dichotomy covers (Alon, Bassily and Moran 2019, Algorithm 1).
    """
    columns = public.X.T
    thresholds = [quantile_thresholds(column, alpha) for column in columns]
    features = np.repeat(np.arange(len(columns)), [len(cuts) for cuts in thresholds])
    splits = Splits(features, np.concatenate(thresholds))
    return splits[one_per_partition(splits, public.X)]


def one_per_partition(splits: Predicates, X: NDArray[Any]) -> Codes:
    """Return the positions of the first of all splits that part rows alike, in their order."""
    sides = splits.above(X).astype(bool)
    sides ^= sides[:, :1]  # a split and its complement part the rows alike
    _, first = np.unique(np.packbits(sides, axis=1), axis=0, return_index=True)
    kept: Codes = np.sort(first)
    return kept[sides[kept].any(axis=1)]


def cuts_of(
    public: PublicSample,
    alpha: float,
    features: Sequence[int],
    per_rule: int,
    splits: Predicates | None = None,
) -> Cuts:
    """Measure how far `quantile_thresholds` leave rules of few cuts from those that are kept.

    Parameters
    ----------
    public : PublicSample
        Public rows.
    alpha : float
        Quantile spacing.
    features : sequence of int
        Columns.
    per_rule : int
        Most cuts of a rule: moving one moves the rows between its old and its new place.
    splits : Predicates, optional
        What `public_splits` kept; by default all quantiles are.

    Returns
    -------
    Cuts
        Most rows between a cut and the nearest one that is kept or beyond all rows; none when every
        gap between distinct values has its threshold. Neighbouring quantiles have at most
        ``alpha m`` of m rows between them, unless it is a single value, so it is at most half of
        that, whatever the rows are.
    """
    m = len(public.X)
    missed = placed = 0
    for feature in features:
        column = np.sort(public.X[:, feature])
        cuts = quantile_thresholds(column, alpha)
        kept = np.searchsorted(column, np.concatenate([[-np.inf], cuts, [np.inf]]), side="right")
        any_cut = np.searchsorted(column, column, side="right")
        above = np.searchsorted(kept, any_cut).clip(1)
        distance = np.minimum(any_cut - kept[above - 1], kept[above] - any_cut)
        missed = max(missed, int(distance.max()))
        placed += len(cuts)
    return Cuts(
        per_rule=per_rule,
        columns=len(features),
        rows=m,
        missed=missed,
        allowed=math.floor(alpha * m * (1 + 1e-9) / 2),
        merged=splits is not None and len(splits) < placed,
    )


def split_prior(splits: Predicates, public: PublicSample, alpha: float) -> Integers:
    """Weigh splits before any private row is seen.

    Parameters
    ----------
    splits : Splits
        Splits at public quantiles.
    public : PublicSample
        Public rows.
    alpha : float
        Quantile spacing.

    Returns
    -------
    ndarray of int64, shape (n_splits,)
        Positive weights, in proportion to the public rows on the smaller side (at least a share
        `alpha` of all) over the square root of the splits of the same feature. A split with few
        rows on one side moves few predictions, and a feature with many splits should not outweigh a
        yes/no question by as much.
    """
    n = len(public.X)
    above = splits.above(public.X).sum(axis=1, dtype=np.int64)
    moved = np.maximum(np.minimum(above, n - above), alpha * n)
    siblings = np.bincount(splits.features)[splits.features]
    weights: Integers = np.rint(1024 * moved / n / np.sqrt(siblings)).astype(np.int64)
    return np.maximum(weights, 1)


def stump_growth(m: int, n_features: int) -> int:
    """Bound the labelings of m rows by one split and two labels, constants included.

    A feature labels exactly k rows 1 in at most two ways: its k lowest or its k highest.
    """
    return 2 + sum(min(math.comb(m, k), 2 * n_features) for k in range(1, m))
