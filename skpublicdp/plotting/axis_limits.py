"""Axis limits and date ticks of numeric and date columns."""

from __future__ import annotations

import numpy as np

from skpublicdp.boosting.explain import Shape
from skpublicdp.typing import Floats

Limits = tuple[float, float]
"""Smallest and largest value on an axis."""

DATE_CHARACTERS = len("2026-01-31")

AXIS_MARGIN = 0.05
"""Margin at either side of an axis, as a fraction of the extent of the data."""


def date_ticks(shape: Shape, low: float, high: float) -> list[tuple[float, str]]:
    """Return up to three (position, text) ticks for the axis of a date column.

    Ticks are at the cuts nearest to 1/6, 1/2 and 5/6 of the axis. The text is the upper end of the
    bin below the cut, without the time of day. A column of numbers has no ticks here, and the list
    is empty.

    Parameters
    ----------
    shape : Shape
        Shape function of a numeric or date column, whose cuts are numbers and whose bin names are
        texts.
    low, high : float
        Limits of the axis.
    """
    is_numeric = shape.cells[0] == f"<= {shape.cuts[0]:.6g}"
    if is_numeric:
        return []
    ticks = []
    # the bin with the same position ends at the cut; the last bins end at none
    for cut, bin_name in zip(shape.cuts, shape.cells[: len(shape.cuts)], strict=True):
        if low <= cut <= high:
            upper_end = bin_name.split(" to ")[-1].removeprefix("<= ")
            ticks.append((cut, upper_end[:DATE_CHARACTERS]))
    if not ticks:
        return []
    sixths = np.linspace(low, high, 7)
    tick_positions = np.array([position for position, _ in ticks])
    nearest = {int(np.argmin(np.abs(tick_positions - position))) for position in sixths[1::2]}
    return [ticks[index] for index in sorted(nearest)]


def find_limits(cuts: Floats, values: Floats | None = None) -> Limits:
    """Return the axis limits of a shape function: one bin width beyond the first and last cut.

    With public `values`, shape (m,), the limits do not exceed the smallest and largest of them.

    Examples
    --------
    >>> find_limits(np.array([1.0, 2.0, 4.0])), find_limits(np.array([5.0]))
    ((0.0, 6.0), (0.0, 10.0))
    >>> find_limits(np.array([1.0, 2.0, 4.0]), np.array([0.5, 90.0]))
    (0.5, 6.0)
    """
    # the width for a single cut is its absolute value, or 1 if it is 0
    widths = np.diff(cuts) if len(cuts) > 1 else np.abs(cuts) + (cuts == 0)
    low, high = cuts[0] - widths[0], cuts[-1] + widths[-1]
    if values is not None:
        low, high = max(low, values.min()), min(high, values.max())
    return float(low), float(high)
