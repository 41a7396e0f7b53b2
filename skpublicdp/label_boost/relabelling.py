"""Relabelling of private rows by a rule that is drawn from all labellings of these rows.

The module implements LabelBoostProcedure of Beimel, Nissim and Stemmer (2015), Algorithm 2. Privacy
is proved in docs/proofs/label_boost.md. The labellings, the drawn rule and the new labels depend on
private rows and must be neither stored nor shown.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw
from skpublicdp.hypotheses import (
    FiniteClass,
    Halfspaces,
    HypothesisClass,
    Intervals,
    PublicSample,
    Rectangles,
    Stumps,
    Thresholds,
)
from skpublicdp.hypotheses.boxes import BoxGrid, n_boxes
from skpublicdp.label_boost.labelings import (
    BoxLabelings,
    ExplicitLabelings,
    GridLabelings,
    HalfplaneLabelings,
    IntervalLabelings,
    Labelings,
    SplitLabelings,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats

RELABELLING_PROOF = "Beimel, Nissim and Stemmer (2015), Lemma 4.1; docs/proofs/label_boost.md"

MAX_INTERVALS = 1 << 26
"""Maximum number of intervals to enumerate; each interval requires one integer (512 MB in total).
"""

MAX_HALFPLANES = 1 << 22
"""Maximum number of halfplanes to enumerate; enumerating them takes seconds."""

MAX_BOX_SIDES = 1 << 15
"""Maximum number of pairs of left and right box sides to enumerate; this takes seconds."""

MAX_GRID_CELLS = 48
"""Maximum number of cells per column between the cuts of `Rectangles`.

With this number of cells, enumerating the boxes on two columns takes nine seconds."""

RELABELLING_CLASSES = (Thresholds, Stumps, Intervals, Rectangles, Halfspaces, FiniteClass)
"""Hypothesis classes whose labellings of private rows can be listed without duplicates."""

MAX_COLUMNS = 2
"""Maximum number of columns of boxes and halfspaces whose labellings can be listed.

`Rectangles` with cuts can use three columns."""

MAX_GRID_BOXES = 1 << 23
"""Maximum number of boxes between the cuts of three columns, including the empty box.

Counting this many boxes takes a second and half a gigabyte of memory. Within this limit, each
column can have 18 cuts."""


def check_relabelling(hypotheses: HypothesisClass, n_features: int, classes: NDArray[Any]) -> None:
    """Raise ValueError unless a class can list each labelling of private rows exactly once.

    The privacy proof requires this property. The property holds for the classes in
    `RELABELLING_CLASSES`, on at most two columns (three for `Rectangles` with few cuts), if their
    own settings are compatible with the features and labels.
    """
    # not isinstance: a subclass may list its labellings in another way
    if type(hypotheses) not in RELABELLING_CLASSES:
        raise ValueError(
            "hypotheses must be Thresholds, Stumps, Intervals, Rectangles, Halfspaces or "
            "FiniteClass, because the privacy proof requires each labelling of the private rows to "
            f"be listed exactly once; got {type(hypotheses).__name__}. Use one of these classes, "
            "or release_labeler=True, which accepts any class."
        )
    width = _width(hypotheses, n_features)
    if width > MAX_COLUMNS and not _has_few_boxes(hypotheses, width):
        three_columns = ""
        if isinstance(hypotheses, Rectangles):
            three_columns = f", or three columns with cuts and at most {MAX_GRID_BOXES} boxes"
        raise ValueError(
            f"{type(hypotheses).__name__} must use one or two columns{three_columns}, so that each "
            f"labelling of the private rows can be listed exactly once; got {width} columns. Name "
            "two columns in features, pass fewer columns, or use release_labeler=True."
        )
    # a cover of a placeholder: the class raises if its own settings do not fit features and labels
    hypotheses.build_cover(_placeholder_sample(classes, max(n_features, 1)), alpha=0.5, beta=0.5)


def _has_few_boxes(hypotheses: HypothesisClass, width: int) -> bool:
    """Return whether a class consists of boxes on three columns that are few enough to count."""
    if not isinstance(hypotheses, Rectangles) or width != MAX_COLUMNS + 1:
        return False
    cuts = hypotheses.grid_cuts(width)
    return cuts is not None and n_boxes(cuts) <= MAX_GRID_BOXES


def max_relabelled_rows(hypotheses: HypothesisClass, n_features: int) -> int | None:
    """Return the maximum number of rows whose labellings can be listed in seconds.

    None means that there is no limit. For n rows, there are n(n + 1)/2 intervals or pairs of box
    sides, or n^2 halfplanes. The result is the largest n for which this number does not exceed the
    maximum of the class. If there are few cuts, boxes are counted by cells instead of rows.
    """
    if isinstance(hypotheses, Rectangles):
        width = _width(hypotheses, n_features)
        cuts = hypotheses.grid_cuts(width)
        if cuts is not None and all(len(axis) < MAX_GRID_CELLS for axis in cuts):
            return None
        if _has_few_boxes(hypotheses, width):
            return None
    match hypotheses, _width(hypotheses, n_features):
        case (Intervals(), _) | (Rectangles(), 1):
            return math.isqrt(2 * MAX_INTERVALS) - 1
        case Rectangles(), _:
            return math.isqrt(2 * MAX_BOX_SIDES) - 1
        case Halfspaces(), 2:
            return math.isqrt(MAX_HALFPLANES)
    return None


def all_labelings(hypotheses: HypothesisClass, X: Floats, classes: NDArray[Any]) -> Labelings:
    """Return every distinct labelling of the rows by a class.

    `check_relabelling` must have accepted the class, and X must have at least one row. Since the
    list depends on the rows, it must not leave the fit.
    """
    n_classes = len(classes)
    match hypotheses:
        case Thresholds(feature=feature):
            # label 1 above the threshold and 0 below; with a single label only the constant
            pairs = [(1, 0)] if n_classes > 1 else []
            return SplitLabelings(X, [feature], pairs, n_classes)
        case Intervals(feature=feature) if n_classes == 2:
            return IntervalLabelings(X[:, feature])
        case Rectangles(features=features) if n_classes == 2:
            columns = X if features is None else X[:, list(features)]
            cuts = hypotheses.grid_cuts(columns.shape[1])
            if cuts is not None:  # a box cuts out whole cells
                grid = BoxGrid(range(len(cuts)), cuts)
                cells = grid.cells(columns)
                if len(cuts) > MAX_COLUMNS:
                    return GridLabelings(cells, grid.shape)
                columns = cells.T.astype(np.float64)
            if columns.shape[1] == 2:
                return BoxLabelings(columns)
            return IntervalLabelings(columns[:, 0])
        case Halfspaces() if n_classes == 2 and X.shape[1] == 2:
            return HalfplaneLabelings(X)
        case FiniteClass():
            cover = hypotheses.build_cover(
                _placeholder_sample(classes, X.shape[1]), alpha=0.5, beta=0.5
            )
            return ExplicitLabelings(np.stack([model.predict(X) for model in cover.hypotheses]))
    # Three cases remain: stumps, halfspaces on one column (which are stumps), and a single label
    # (which has no pair of labels, so only the constant labelling is listed).
    pairs = list(itertools.permutations(range(n_classes), 2))
    return SplitLabelings(X, range(X.shape[1]), pairs, n_classes)


def relabel(
    hypotheses: HypothesisClass,
    X: Floats,  # (n, n_features)
    y: Codes,  # (n_labelled,)
    classes: NDArray[Any],
    epsilon: Fraction,
    ledger: Ledger,
) -> Codes:
    """Return new labels of all rows, from a rule selected by a private draw.

    Neither the drawn labelling nor the new labels are private by themselves: only the output of a
    private algorithm that uses them may be released.
    """
    labelings = all_labelings(hypotheses, X, classes)
    family = labelings.family(y)
    member = ledger.draw(family, Draw(epsilon), 1, name="relabelling", proof=RELABELLING_PROOF)
    return labelings.labels(member)


def log_n_labelings(
    hypotheses: HypothesisClass, n_rows: Any, n_features: int, n_classes: int
) -> Floats:
    """Return an upper bound on the logarithm of the number of labellings, per number of rows.

    `n_rows` is a number of rows or an array of numbers. The bound depends only on public numbers.
    """
    n_rows = np.asarray(n_rows, dtype=np.float64)
    match hypotheses:
        case Thresholds():
            n_labelings = n_rows + 1
        case Intervals() | Rectangles() | Halfspaces():
            width = _width(hypotheses, n_features)
            n_labelings = _growth_function(hypotheses, n_rows, width)
            cuts = hypotheses.grid_cuts(width) if isinstance(hypotheses, Rectangles) else None
            if cuts is not None:
                n_labelings = np.minimum(n_labelings, float(n_boxes(cuts)))
        case FiniteClass(models=models, vc_dimension=vc_dimension):
            n_labelings = np.full_like(n_rows, len(models))
            # Sauer's lemma applies to two labels. The VC dimension of every finite class is at most
            # the base-2 logarithm of its size, so a larger declared dimension is no restriction.
            max_dimension = math.log2(len(models)) if n_classes <= 2 else 0.0
            if vc_dimension is not None and vc_dimension < max_dimension:
                n_labelings = np.minimum(n_labelings, _sauer_bound(n_rows, vc_dimension))
        case _:  # stumps: each split with two different labels, and the constants
            n_splits = n_features * (n_rows - 1).clip(0)
            n_labelings = n_classes * (n_classes - 1) * n_splits + n_classes
    return np.asarray(np.log(n_labelings))


def _growth_function(hypotheses: HypothesisClass, n_rows: Floats, width: int) -> Floats:
    """Return the growth function, elementwise, of boxes or halfspaces on `width` columns.

    Boxes have VC dimension 2 `width`. Halfspaces have 2 sum_{k <= width} C(n - 1, k) dichotomies of
    n points (Cover 1965).
    """
    if isinstance(hypotheses, Halfspaces):
        return 2 * _sauer_bound((n_rows - 1).clip(0), width)
    return _sauer_bound(n_rows, 2 * width)


def _sauer_bound(n_rows: Floats, d: int) -> Floats:
    """Return Sauer's bound, elementwise, on the dichotomies of n rows for VC dimension d.

    The bound is the sum of the binomial coefficients C(n, k) over k <= d.
    """
    total, binomial = np.ones_like(n_rows), np.ones_like(n_rows)
    for k in range(d):
        binomial = binomial * (n_rows - k).clip(0) / (k + 1)
        total += binomial
    return total


def _width(hypotheses: HypothesisClass, n_features: int) -> int:
    """Return the number of columns used by a rule: 1, except for boxes and halfspaces."""
    match hypotheses:
        case Rectangles(features=features):
            return n_features if features is None else len(features)
        case Halfspaces():
            return n_features
    return 1


def _placeholder_sample(classes: NDArray[Any], n_features: int) -> PublicSample:
    """Return a sample with a single row of zeros, used to let a class check its own settings."""
    names = tuple(f"x{column}" for column in range(n_features))
    return PublicSample(np.zeros((1, n_features)), classes, names)
