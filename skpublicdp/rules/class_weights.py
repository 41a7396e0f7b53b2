"""Integer weights of private and public rows, computed from the parameter `class_weight`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, Literal

import numpy as np

from skpublicdp.accounting import exact_fraction
from skpublicdp.data.inputs import MixedRows

MAX_WEIGHT_DENOMINATOR = 16
"""Maximum denominator of a rounded class-weight ratio; the limit keeps integer scores small."""

MAX_WEIGHT_RATIO = 1 << 30
"""Maximum ratio of the two class weights; the limit prevents weight sums from overflowing."""


def integer_class_weights(
    class_weight: Literal["balanced"] | Mapping[Any, float | Fraction] | None, rows: MixedRows
) -> tuple[int, int]:
    """Return integer weights for private and public rows, computed only from public numbers.

    Parameters
    ----------
    class_weight : "balanced" or dict or None
        See `PPMHalfspaceClassifier`.
    rows : MixedRows
        The rows. Only the row counts and the set of labels are used.

    Raises
    ------
    ValueError
        If a weight is not positive, a label is unknown, or the ratio is too large.
    """
    n_private, n_public = len(rows.y_private), len(rows.y_public)
    if class_weight is None or (class_weight == "balanced" and not (n_private and n_public)):
        return 1, 1
    if class_weight == "balanced":
        return _small_integers(n_public, n_private)
    classes = rows.classes.tolist()
    are_positive = all(
        isinstance(weight, Real) and 0 < weight < np.inf for weight in class_weight.values()
    )
    if not are_positive or not set(class_weight) <= set(classes):
        raise ValueError(
            'class_weight must be "balanced" or a dict that maps labels of y to positive numbers; '
            f"got {class_weight!r}."
        )
    # a single label has code 0, and both populations get its weight
    private_label = classes[rows.private_code % len(classes)]
    public_label = classes[(1 - rows.private_code) % len(classes)]
    private_weight = class_weight.get(private_label, 1)
    public_weight = class_weight.get(public_label, 1)
    smaller, larger = sorted([private_weight, public_weight])
    if larger > MAX_WEIGHT_RATIO * smaller:
        raise ValueError(
            "The ratio of the weights in class_weight must be between 2**-30 and 2**30; got "
            f"{class_weight!r}."
        )
    return _small_integers(private_weight, public_weight)


def _small_integers(
    private_weight: float | Fraction, public_weight: float | Fraction
) -> tuple[int, int]:
    """Return integer weights for private and public rows whose ratio approximates a given ratio.

    A ratio of large integers is rounded to a fraction with denominator at most
    `MAX_WEIGHT_DENOMINATOR`.
    """
    smaller, larger = sorted([exact_fraction(private_weight), exact_fraction(public_weight)])
    ratio = larger / smaller
    if ratio.numerator > MAX_WEIGHT_RATIO:  # ratios of floats have denominators up to 2**52
        ratio = ratio.limit_denominator(MAX_WEIGHT_DENOMINATOR)
    if private_weight > public_weight:
        return ratio.numerator, ratio.denominator
    return ratio.denominator, ratio.numerator
