"""Axis limits and date ticks of numeric and date columns."""

from __future__ import annotations

import numpy as np

from skpublicdp.boosting.explain import Shape
from skpublicdp.typing import Floats

Limits = tuple[float, float]

AXIS_MARGIN = 0.05
"""Margin at either side of an axis, as a fraction of the extent of the data."""


def date_ticks(shape: Shape, low: float, high: float) -> list[tuple[float, str]]:
    """Return up to three (cut, text) ticks within limits for a date column, else an empty list.

    Ticks are at the cuts nearest to 1/6, 1/2 and 5/6 of the axis. The text is the upper end of the
    bin below the cut, without the time of day.
    """
    is_numeric = shape.cells[0] == f"<= {shape.cuts[0]:.6g}"
    if is_numeric:
        return []
    ticks = [
        (cut, bin_name.split(" to ")[-1].removeprefix("<= ")[:10])
        for cut, bin_name in zip(shape.cuts, shape.cells, strict=False)
        if low <= cut <= high
    ]
    if not ticks:
        return []
    positions = np.linspace(low, high, 7)[1::2]
    nearest = {min(ticks, key=lambda tick: abs(tick[0] - position)) for position in positions}
    return sorted(nearest)


def find_limits(cuts: Floats, values: Floats | None = None) -> Limits:
    """Return the axis limits of a shape function: one bin width beyond the first and last cut.

    With public values, the limits are not beyond the smallest and largest of them.

    Examples
    --------
    >>> find_limits(np.array([1.0, 2.0, 4.0])), find_limits(np.array([5.0]))
    ((0.0, 6.0), (0.0, 10.0))
    >>> find_limits(np.array([1.0, 2.0, 4.0]), np.array([0.5, 90.0]))
    (0.5, 6.0)
    """
    widths = np.diff(cuts) if len(cuts) > 1 else np.abs(cuts) + (cuts == 0)
    low, high = cuts[0] - widths[0], cuts[-1] + widths[-1]
    if values is not None:
        low, high = max(low, values.min()), min(high, values.max())
    return float(low), float(high)
