"""LabelBoostProcedure: label private rows by a rule drawn from all labelings of these very rows.

Beimel, Nissim and Stemmer (2015), Algorithm 2; the proof is docs/proofs/label_boost.md. Everything
here depends on private rows: nothing of it may be stored or shown.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw
from skpublicdp.exceptions import CoverSizeError
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
from skpublicdp.label_boost.labelings import (
    ExplicitLabelings,
    IntervalLabelings,
    Labelings,
    SplitLabelings,
)
from skpublicdp.label_boost.labelings_2d import BoxLabelings, HalfplaneLabelings
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats

RELABELLING_PROOF = "Beimel, Nissim and Stemmer (2015), Lemma 4.1; docs/proofs/label_boost.md"

MAX_INTERVALS = 1 << 26
"""More intervals are refused: each is one number to weigh."""

MAX_HALFPLANES = 1 << 22
"""More halfplanes are refused; they take seconds."""

MAX_BOX_SIDES = 1 << 15
"""More pairs of left and right sides of boxes are refused; they take seconds, too."""

RELABELLING_CLASSES = (Thresholds, Stumps, Intervals, Rectangles, Halfspaces, FiniteClass)


def check_relabelling(hypotheses: HypothesisClass, n_features: int, classes: NDArray[Any]) -> None:
    """Refuse what cannot list each labeling of private rows once.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class to relabel with.
    n_features : int
        Number of features.
    classes : ndarray
        The labels.

    Raises
    ------
    ValueError
        If the class is none of those known here, or does not fit the rows.
    """
    # not isinstance: what a subclass lists is not known
    if type(hypotheses) not in RELABELLING_CLASSES:
        raise ValueError(
            "hypotheses must be Thresholds, Stumps, Intervals, Rectangles, Halfspaces or "
            "FiniteClass: the members are made of private rows and the privacy proof needs each "
            f"labeling of these rows listed once; got {type(hypotheses).__name__}, which "
            "release_labeler=True takes."
        )
    width = _width(hypotheses, n_features)
    if width > 2:
        raise ValueError(
            f"{type(hypotheses).__name__} must be about one or two columns for each labeling of "
            f"private rows to be listed once and got {width}; name two columns in features, give "
            "fewer columns, or use release_labeler=True."
        )
    hypotheses.build_cover(_nothing(classes, max(n_features, 1)), alpha=0.5, beta=0.5)


def max_relabelled_rows(hypotheses: HypothesisClass, n_features: int) -> int | None:
    """Return how many rows can be relabelled at once, or None if any number can.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class to relabel with.
    n_features : int
        Number of features.

    Returns
    -------
    int or None
        Rows whose labelings can be listed in seconds.
    """
    match hypotheses, _width(hypotheses, n_features):
        case (Intervals(), _) | (Rectangles(), 1):
            return math.isqrt(2 * MAX_INTERVALS) - 1
        case Rectangles(), _:
            return math.isqrt(2 * MAX_BOX_SIDES) - 1
        case Halfspaces(), 2:
            return math.isqrt(MAX_HALFPLANES)
    return None


def check_n_relabelled(hypotheses: HypothesisClass, n_features: int, n: int) -> None:
    """Refuse rows with more labelings than can be listed, by their number alone.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class to relabel with.
    n_features : int
        Number of features.
    n : int
        Number of rows.

    Raises
    ------
    CoverSizeError
        If there are too many.
    """
    most = max_relabelled_rows(hypotheses, n_features)
    if most is not None and n > most:
        raise CoverSizeError(
            f"{type(hypotheses).__name__} can relabel at most {most} rows at once and the schedule "
            f'keeps {n}; use constants="tight", or hypotheses=Stumps().'
        )


def all_labelings(hypotheses: HypothesisClass, X: Floats, classes: NDArray[Any]) -> Labelings:
    """List every way in which a class labels rows, once.

    Parameters
    ----------
    hypotheses : HypothesisClass
        One that `check_relabelling` has let pass.
    X : ndarray of float64, shape (n, n_features)
        Rows, at least one.
    classes : ndarray
        The labels.

    Returns
    -------
    Labelings
        The list; it depends on the rows.
    """
    count = len(classes)
    match hypotheses:
        case Thresholds(feature=feature):
            return SplitLabelings(X, [feature], [(1, 0)][: count - 1], count)
        case Intervals(feature=feature) if count == 2:
            return IntervalLabelings(X[:, feature])
        case Rectangles(features=features) if count == 2:
            inside = X if features is None else X[:, list(features)]
            return BoxLabelings(inside) if inside.shape[1] == 2 else IntervalLabelings(inside[:, 0])
        case Halfspaces() if count == 2 and X.shape[1] == 2:
            return HalfplaneLabelings(X)
        case FiniteClass():
            cover = hypotheses.build_cover(_nothing(classes, X.shape[1]), alpha=0.5, beta=0.5)
            return ExplicitLabelings(np.stack([model.predict(X) for model in cover.hypotheses]))
    pairs = [(over, under) for over in range(count) for under in range(count) if over != under]
    return SplitLabelings(X, range(X.shape[1]), pairs, count)


def relabel(
    hypotheses: HypothesisClass,
    X: Floats,
    y: Codes,
    classes: NDArray[Any],
    epsilon: Fraction,
    ledger: Ledger,
) -> Codes:
    """Label all rows by one rule, drawn by the exponential mechanism on the labelled ones.

    Parameters
    ----------
    hypotheses : HypothesisClass
        One that `check_relabelling` has let pass.
    X : ndarray of float64, shape (n, n_features)
        Rows, the labelled ones first.
    y : ndarray of intp, shape (n_labelled,)
        Codes of the labels.
    classes : ndarray
        The labels.
    epsilon : Fraction
        Parameter of the mechanism.
    ledger : Ledger
        Draws.

    Returns
    -------
    ndarray of intp, shape (n,)
        The new codes. They are not private by themselves: only what a private algorithm makes of
        them may be shown.
    """
    ways = all_labelings(hypotheses, X, classes)
    family = ways.family(y)
    return ways.labels(
        ledger.draw(family, Draw(epsilon), 1, name="relabelling", proof=RELABELLING_PROOF)
    )


def log_n_labelings(
    hypotheses: HypothesisClass, rows: Any, n_features: int, n_classes: int
) -> Floats:
    """Bound the logarithm of the number of labelings, from public numbers.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class.
    rows : array-like of int
        Numbers of rows.
    n_features, n_classes : int
        Numbers of features and labels.

    Returns
    -------
    ndarray of float64
        One bound for each number of rows.
    """
    rows = np.asarray(rows, dtype=np.float64)
    match hypotheses:
        case Thresholds():
            size = rows + 1
        case Intervals() | Rectangles() | Halfspaces():
            size = _polynomial(hypotheses, rows, _width(hypotheses, n_features))
        case FiniteClass(models=models, vc_dimension=vc):
            size = np.full_like(rows, len(models))
            # Sauer's lemma is about two labels, and below log2 of the models it says less
            if vc is not None and n_classes <= 2 and vc < math.log2(len(models)):
                size = np.minimum(size, _sauer(rows, vc))
        case _:
            splits = n_features * (rows - 1).clip(0)
            size = n_classes * (n_classes - 1) * splits + n_classes
    return np.asarray(np.log(size))


def _polynomial(hypotheses: HypothesisClass, rows: Floats, width: int) -> Floats:
    """Return the growth function of boxes and halfspaces, for many numbers of rows at once."""
    degree, points = 2 * width, rows
    if isinstance(hypotheses, Halfspaces):
        degree, points = width, (rows - 1).clip(0)
    total = _sauer(points, degree)
    return 2 * total if isinstance(hypotheses, Halfspaces) else total


def _sauer(rows: Floats, degree: int) -> Floats:
    """Return the sums of the binomials C(n, k) over k <= degree, for many numbers n of rows."""
    total, term = np.ones_like(rows), np.ones_like(rows)
    for k in range(degree):
        term = term * (rows - k).clip(0) / (k + 1)
        total += term
    return total


def _width(hypotheses: HypothesisClass, n_features: int) -> int:
    """Return how many columns boxes or halfspaces are about, and 1 for other classes."""
    match hypotheses:
        case Rectangles(features=features):
            return n_features if features is None else len(features)
        case Halfspaces():
            return n_features
    return 1


def _nothing(classes: NDArray[Any], n_features: int) -> PublicSample:
    """Return public rows that say nothing, for a class to check its own settings with."""
    names = tuple(f"x{column}" for column in range(n_features))
    return PublicSample(np.zeros((1, n_features)), classes, names)
