"""Axis limits and date ticks of numeric and date columns."""

from __future__ import annotations

import numpy as np

from skpublicdp.boosting.explain import Shape
from skpublicdp.typing import Floats

Limits = tuple[float, float]


def date_ticks(shape: Shape, low: float, high: float) -> list[tuple[float, str]]:
    """Return up to three (cut, text) ticks within limits for a date column, else none."""
    if shape.cells[0] == f"<= {shape.cuts[0]:.6g}":
        return []
    ends = zip(shape.cuts, shape.cells, strict=False)
    texts = [(cut, cell.split(" to ")[-1].removeprefix("<= ")[:10]) for cut, cell in ends]
    texts = [(cut, text) for cut, text in texts if low <= cut <= high]
    positions = np.linspace(low, high, 7)[1::2]
    nearest = {
        min(texts, key=lambda one: abs(one[0] - position)) for position in positions if texts
    }
    return sorted(nearest)


def find_limits(cuts: Floats, values: Floats | None = None) -> Limits:
    """Return axis limits: one bin width beyond the cuts, or the outermost public values.

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
