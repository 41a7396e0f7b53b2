"""Weights of errors by the status of a row, as small integers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, Literal

import numpy as np

from skpublicdp.accounting import exact_fraction
from skpublicdp.data.labelled_inputs import MixedRows

LARGEST_DENOMINATOR = 16
"""Ratios of weights are rounded to fractions of this denominator, to keep scores small integers."""

LARGEST_RATIO = 1 << 30
"""A larger ratio of weights is refused, so that no sum of them overflows."""


def weights_of(
    class_weight: Literal["balanced"] | Mapping[Any, float | Fraction] | None, rows: MixedRows
) -> tuple[int, int]:
    """Return the weights of a private and of a public row, by public numbers alone.

    Parameters
    ----------
    class_weight : "balanced" or dict or None
        As in `PPMHalfspaceClassifier`.
    rows : MixedRows
        Their numbers and the labels count.

    Returns
    -------
    tuple of int
        In the ratio of the weights, or about so.

    Raises
    ------
    ValueError
        If weights are not positive, of other labels, or too far apart.
    """
    sizes = len(rows.y_private), len(rows.y_public)
    if class_weight is None or (class_weight == "balanced" and not all(sizes)):
        return 1, 1
    if class_weight == "balanced":
        return _small_integers(sizes[1], sizes[0])
    known = rows.classes.tolist()
    given = class_weight.values()
    positive = all(isinstance(weight, Real) and 0 < weight < np.inf for weight in given)
    if not positive or not set(class_weight) <= set(known):
        raise ValueError(
            'class_weight must be "balanced" or map labels of y to positive numbers; '
            f"got {class_weight!r}."
        )
    private, public = (
        class_weight.get(known[code % len(known)], 1)
        for code in (rows.private_code, 1 - rows.private_code)
    )
    if max(private, public) > LARGEST_RATIO * min(private, public):
        raise ValueError(
            f"One class weight is at most 2**30 times the other; got {class_weight!r}."
        )
    return _small_integers(private, public)


def _small_integers(private: float | Fraction, public: float | Fraction) -> tuple[int, int]:
    """Return integers in the ratio of two weights, or about so; nothing else of them matters."""
    ratio = exact_fraction(max(private, public)) / exact_fraction(min(private, public))
    if ratio.numerator > LARGEST_RATIO:  # floats are fractions of 2**52: scores would overflow
        ratio = ratio.limit_denominator(LARGEST_DENOMINATOR)
    sizes = ratio.numerator, ratio.denominator
    return sizes if private > public else sizes[::-1]
