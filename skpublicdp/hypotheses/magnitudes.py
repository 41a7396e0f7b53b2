"""Magnitudes of public values for which products and squares neither overflow nor underflow."""

from __future__ import annotations

from collections.abc import Sequence

from skpublicdp.typing import Floats

MAX_MAGNITUDE = 1e140
"""Maximum magnitude of public values, so that sums of products of two values are finite."""

MIN_RANGE = 1e-140
"""Minimum range of a column that is not constant, so that its variance is positive."""


def check_magnitudes(points: Floats, names: Sequence[str], used_by: str) -> None:
    """Raise ValueError if halfspaces cannot be computed from public values of a column.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    names : sequence of str
        Names of the columns.
    used_by : str
        Plural noun for the message, such as "halfspaces".
    """
    if not len(points):
        return
    low, high = points.min(axis=0), points.max(axis=0)
    for name, least, largest in zip(names, low.tolist(), high.tolist(), strict=True):
        is_large = max(-least, largest) > MAX_MAGNITUDE
        # the range of large values can overflow
        if is_large or 0 < largest - least < MIN_RANGE:
            raise ValueError(
                f"Column {name} must have public values and bounds of at most {MAX_MAGNITUDE:g} in "
                f"absolute value and a range of at least {MIN_RANGE:g}, unless they are all equal, "
                f"because {used_by} are computed from products of values. Multiply the column and "
                "its bounds by a constant, in X and in X_public."
            )
