"""Hypothesis classes of intervals and rectangles, scored with summed-area tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import Cuts, growth_function
from skpublicdp.hypotheses.base import (
    MAX_BLOCK_ERRORS,
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    check_binary,
)
from skpublicdp.hypotheses.splits import format_threshold, measure_cuts, quantile_thresholds
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path
from skpublicdp.typing import Codes, Floats, Integers

MAX_BOXES = 1 << 30
"""Maximum number of boxes in a cover; the error count of every box is computed."""


class Box(Hypothesis):
    """Rule that predicts the second label inside a box and the first label outside it.

    Parameters
    ----------
    grid : BoxGrid
        The features and the cuts of each feature.
    low, high : tuple of int
        For each feature, the index of the first cell inside the box and of the first cell above the
        box.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(
        self, grid: BoxGrid, low: tuple[int, ...], high: tuple[int, ...], public: PublicSample
    ) -> None:
        self.grid = grid
        self.low = low
        self.high = high
        self._inside = len(public.classes) - 1
        self._names = [public.feature_names[feature] for feature in grid.features]
        self._labels = str(public.classes[0]), str(public.classes[-1])

    def predict(self, X: Floats) -> Codes:
        """Return the predicted label code of each row."""
        cells = self.grid.cells(X)
        low, high = np.array(self.low)[:, None], np.array(self.high)[:, None]
        inside = ((low <= cells) & (cells < high)).all(axis=0)
        return np.where(inside, self._inside, 0).astype(np.intp)

    def rule(self) -> str:
        """Return `if low < name <= high and ...: predict label, else: predict label`."""
        outside, inside = self._labels
        if any(low >= high for low, high in zip(self.low, self.high, strict=True)):  # empty box
            return f"predict {outside}"
        intervals = zip(self._names, self.grid.cuts, self.low, self.high, strict=True)
        conditions = [_interval_condition(*interval) for interval in intervals]
        # a feature whose cells are all in the box has no condition
        condition = " and ".join(filter(None, conditions))
        if not condition:
            return f"predict {inside}"
        return f"if {condition}:\n    predict {inside}\nelse:\n    predict {outside}"


def _interval_condition(name: str, cuts: Floats, low: int, high: int) -> str:
    """Return the text `a < name <= b` for the interval with cells low, ..., high - 1.

    An interval that is unbounded on one side has a single comparison. The text is empty if the
    interval is unbounded on both sides.
    """
    has_lower_end = low > 0
    has_upper_end = high <= len(cuts)
    lower_end = format_threshold(cuts[low - 1], name) if has_lower_end else ""
    upper_end = format_threshold(cuts[high - 1], name) if has_upper_end else ""
    if has_lower_end and has_upper_end:
        return f"{lower_end} < {name} <= {upper_end}"
    if has_lower_end:
        return f"{name} > {lower_end}"
    return f"{name} <= {upper_end}" if has_upper_end else ""


class BoxGrid:
    """Grid of cells that lie between the cuts of several features.

    Parameters
    ----------
    features : sequence of int
        Columns.
    cuts : sequence of ndarray of float64
        Cuts of each feature, in increasing order. Cell i is the interval (cut i - 1, cut i].
    """

    def __init__(self, features: Sequence[int], cuts: Sequence[Floats]) -> None:
        self.features = tuple(features)
        self.cuts = tuple(cuts)
        self.shape = tuple(len(cut) + 1 for cut in self.cuts)

    def cells(self, X: Floats) -> Codes:
        """Return the cells of each row, shape (n_features, n), for both scoring and prediction."""
        axes = zip(self.features, self.cuts, strict=True)
        cells = [np.searchsorted(cuts, X[:, feature], side="left") for feature, cuts in axes]
        return np.array(cells, dtype=np.intp)


class BoxCover(Cover):
    """Cover that consists of all boxes between the cuts of a grid, and the empty box.

    Parameters
    ----------
    grid : BoxGrid
        The features and the cuts of each feature.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(self, grid: BoxGrid, public: PublicSample) -> None:
        self.grid = grid
        self._public = public
        # all intervals of cells along each axis: arrays of their first cells, and of the first
        # cells after the interval
        self._intervals = [np.triu_indices(n_cells + 1, 1) for n_cells in grid.shape]

    @property
    def size(self) -> int:
        """Number of boxes, as a Python integer."""
        return 1 + math.prod(len(low) for low, _ in self._intervals)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the weight of the rows by label and cell, shape (n_classes, *grid.shape)."""
        shape = (len(self._public.classes), *self.grid.shape)
        entry_of_row = np.ravel_multi_index((y, *self.grid.cells(X)), shape)
        table = np.bincount(entry_of_row, weights, math.prod(shape))
        return table.astype(np.int64).reshape(shape)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all boxes as nested choices of one interval per feature.

        A box mislabels the rows with the first label inside it and the rows with the last label
        outside it. The error count of a box is therefore the error count of the empty box plus the
        excess weight of the first label in the cells of the box. The sum over the cells is a
        difference of cumulative sums along each axis. With a single label, all error counts are 0.
        """
        excess = table[0] - table[-1]
        empty_box_errors = int(table[-1].sum()) if len(table) > 1 else 0
        # entry (i, j, ...): the excess weight in the first i cells of axis 0, the first j of axis
        # 1, ...
        cumulative = excess
        for axis in range(cumulative.ndim):
            cumulative = np.cumsum(cumulative, axis=axis)
            cumulative = np.insert(cumulative, 0, 0, axis=axis)
        first_starts, first_stops = self._intervals[0]
        n_intervals = len(first_starts)

        def build(start: int, stop: int) -> Family:
            """Return the boxes whose interval on the first axis is in ``start:stop``."""
            block = slice(start, stop)
            sums = cumulative[first_stops[block]] - cumulative[first_starts[block]]
            for axis, (starts, stops) in enumerate(self._intervals[1:], start=1):
                sums = sums.take(stops, axis=axis) - sums.take(starts, axis=axis)
            if sums.ndim == 1:  # with a single feature, each interval is a family of one box
                sums = sums[:, None]
            # the last axis lists the members; each axis in between is a choice of an interval
            family: Family = Leaf(empty_box_errors + sums)
            for _ in range(sums.ndim - 2):
                family = Choice(family)
            return family

        step = max(1, MAX_BLOCK_ERRORS * n_intervals // self.size)
        boxes = Choice(Lazy(n_intervals, build, step))
        return OneOf([boxes, Leaf(np.array([empty_box_errors], dtype=np.int64))])

    def hypothesis(self, path: Path) -> Box:
        """Return the box that a path in `family`, which consists of nested indices, leads to.

        The path is (0, (i, (j, k))) for three features, (0, (i, j)) for two features and (0, (i,
        0)) for one feature. The empty box has path (1, 0).
        """
        option, inner = path
        n_axes = len(self._intervals)
        if option == 1:
            return Box(self.grid, (0,) * n_axes, (0,) * n_axes, self._public)
        indices = []
        for _ in range(n_axes - 1):
            index, inner = inner
            indices.append(index)
        if n_axes == 1:
            inner, _ = inner
        indices.append(inner)
        low = tuple(int(starts[i]) for (starts, _), i in zip(self._intervals, indices, strict=True))
        high = tuple(int(stops[i]) for (_, stops), i in zip(self._intervals, indices, strict=True))
        return Box(self.grid, low, high, self._public)


def n_boxes(cuts: Sequence[Floats]) -> int:
    """Return the number of boxes between the cuts of each feature, including the empty box.

    The n cuts of a feature define n + 1 cells, which form (n + 1) (n + 2) / 2 intervals.
    """
    return 1 + math.prod((len(axis) + 1) * (len(axis) + 2) // 2 for axis in cuts)


class Rectangles(HypothesisClass):
    """Axis-aligned boxes on up to three features: rules that predict the second label inside a box.

    Parameters
    ----------
    features : sequence of int, default=None
        One, two or three columns; ``None`` uses all columns.
    cuts : sequence of array-like of float, default=None
        For each feature, the possible positions of the sides of a box, in increasing order. In each
        feature, a box contains the values above one cut and up to another cut, or is unbounded.
        With `cuts`, the class consists of exactly these boxes, and public rows have no influence on
        it. Cuts must not be computed from private rows; `between_quantiles` places cuts at public
        rows. ``None`` allows boxes with arbitrary sides.

    Notes
    -----
    A cover supports at most three features and 2^30 boxes. `LabelBoostClassifier` relabels any
    number of rows by boxes between cuts if there are at most 47 cuts for each of two features, or
    at most 2^23 boxes on three features, for example 18 cuts for each feature. Since every box is
    counted, the number of boxes is the limiting factor: k cuts for each of three features define
    ((k + 1) (k + 2) / 2)^3 boxes, which is 66^3 for 10 cuts and 153^3 for 16 cuts.

    See Also
    --------
    Intervals : Ranges of one feature.
    Conjunctions : Boxes that are bounded on one side in each feature.

    Examples
    --------
    >>> from skpublicdp.hypotheses import PublicSample, Rectangles
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> public = PublicSample(X, np.array([0, 1]), ("age", "dose"))
    >>> Rectangles().build_cover(public, alpha=0.05, beta=0.05).size
    44101
    >>> Rectangles(cuts=[[18, 40, 65], [0.5]]).build_cover(public, alpha=0.05, beta=0.05).size
    31
    """

    def __init__(
        self,
        features: Sequence[int] | None = None,
        cuts: Sequence[ArrayLike] | None = None,
    ) -> None:
        self.features = features
        self.cuts = cuts

    @classmethod
    def between_quantiles(
        cls, X_public: ArrayLike, alpha: float, features: Sequence[int] | None = None
    ) -> Rectangles:
        """Return the boxes whose sides are at quantiles of public rows, without using labels.

        Parameters
        ----------
        X_public : array-like of float, shape (m, n_features)
            Public rows. Private rows must not be passed, since the cuts would reveal their values.
        alpha : float
            Maximum fraction of the rows between neighbouring cuts, unless a single value exceeds
            this fraction. If alpha is below 1/m, there is a cut between any two distinct values.
        features : sequence of int, optional
            One, two or three columns; the default is all columns.

        Returns
        -------
        Rectangles
            The class with these `cuts`. A bound on an error relative to the best of these boxes
            also holds relative to the best of all boxes if ``guarantees.cuts_radius(m, beta, cuts=2
            * d, columns=d, missed=ceil(alpha * m / 2))`` is added to the bound, for d columns and m
            independent rows. The failure probability of the bound then increases by `beta`.

        Examples
        --------
        >>> X_public = np.arange(20.0).reshape(10, 2)
        >>> Rectangles.between_quantiles(X_public, alpha=0.5)
        Rectangles(cuts=[array([9.]), array([10.])])
        """
        rows = np.asarray(X_public, dtype=np.float64)
        columns = rows.T if features is None else rows.T[list(features)]
        return cls(features, [quantile_thresholds(column, alpha) for column in columns])

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> BoxCover:
        """Build the cover: boxes between the public `alpha`-quantiles of the features, or `cuts`.

        Raises
        ------
        ValueError
            If there are more than two labels, a column does not exist or `cuts` are invalid.
        CoverSizeError
            If there are too many features or boxes.
        """
        check_binary(self, public)
        n_features = public.X.shape[1]
        features = range(n_features) if self.features is None else self.features
        if not len(features) or not all(0 <= feature < n_features for feature in features):
            raise ValueError(f"features must be column numbers below {n_features}; got {features}.")
        cuts = self.grid_cuts(len(features))
        if cuts is None:
            cuts = [quantile_thresholds(public.X[:, feature], alpha) for feature in features]
        size = n_boxes(cuts) - 1  # without the empty one
        if len(features) > 3 or size > MAX_BOXES:
            raise CoverSizeError(
                f"{len(features)} features have {size:.1e} boxes, but at most three features and "
                f"{MAX_BOXES:.1e} boxes are allowed. Select two or three features, increase alpha, "
                "or use Conjunctions() or DecisionTrees()."
            )
        cover = BoxCover(BoxGrid(features, cuts), public)
        if self.cuts is not None:
            cover.radius = 0.0
            cover.cuts = Cuts(
                per_rule=0,  # the cover is the whole class
                columns=len(features),
                rows=len(public.X),
                missed=0,
                allowed=0,
                merged=False,
            )
            return cover
        cover.cuts = measure_cuts(public, alpha, features, cuts_per_rule=2 * len(features))
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which boxes can label m rows.

        Boxes have a VC dimension of 2 per feature. With `cuts`, the number of labellings is at most
        the number of boxes.
        """
        n_features = n_features if self.features is None else len(self.features)
        growth = growth_function(m, 2 * n_features)
        cuts = self.grid_cuts(n_features)
        return growth if cuts is None else min(growth, n_boxes(cuts))

    def grid_cuts(self, n_features: int) -> list[Floats] | None:
        """Return `cuts` as one array per feature, or None if `cuts` is None.

        Raises
        ------
        ValueError
            If the number of cut sequences differs from the number of features, or if a sequence is
            not finite and increasing.
        """
        if self.cuts is None:
            return None
        cuts = [np.asarray(cuts_of_feature, dtype=np.float64) for cuts_of_feature in self.cuts]
        if len(cuts) != n_features or not all(
            axis.ndim == 1 and np.isfinite(axis).all() and (np.diff(axis) > 0).all()
            for axis in cuts
        ):
            raise ValueError(
                "cuts must contain one increasing sequence of finite numbers for each of the "
                f"{n_features} features of {type(self).__name__}; got {len(cuts)} sequences of "
                f"lengths {[axis.size for axis in cuts]}."
            )
        return cuts


class Intervals(HypothesisClass):
    """Intervals on a single feature: rules that predict the second label inside the interval.

    Parameters
    ----------
    feature : int, default=0
        Column.

    See Also
    --------
    Rectangles : Ranges of several features.

    Examples
    --------
    >>> from skpublicdp.hypotheses import Intervals, PublicSample
    >>> public = PublicSample(np.array([[1.0], [2.0], [3.0]]), np.array(["no", "yes"]), ("age",))
    >>> cover = Intervals().build_cover(public, alpha=0.1, beta=0.05)
    >>> cover.size  # the growth function of three rows: 1 + 3 + 3
    7
    >>> print(cover.hypothesis((0, (3, 0))))
    if 1.5 < age <= 2.5:
        predict yes
    else:
        predict no
    """

    def __init__(self, feature: int = 0) -> None:
        self.feature = feature

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> BoxCover:
        """Build the cover: intervals between the public `alpha`-quantiles of the feature."""
        return Rectangles([self.feature]).build_cover(public, alpha=alpha, beta=beta)

    def growth(self, m: int, n_features: int) -> int:
        """Return the number of ways in which intervals can label m rows; the VC dimension is 2."""
        return growth_function(m, 2)
