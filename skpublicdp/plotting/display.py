"""Base class of all displays, with shared colours and margins and the check for matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

RELEASED, PUBLIC, LIGHT, GREY = "#0072b2", "#d55e00", "#c6dff0", "#808080"
"""Colours that remain distinguishable for people with colour vision deficiency."""

AXIS_MARGIN = 0.05
"""Margin on each side of an axis, as a fraction of the range of the data."""


class Display:
    """Base class of displays that have a single panel.

    The fields of a display contain the numbers to be drawn. A class method such as `from_estimator`
    computes these numbers from a fitted object and calls `plot`, which can be called repeatedly.
    """

    def _set_axes(self, ax: Any, **figure_params: Any) -> Any:
        """Store the axes to plot on and their figure, and return the axes."""
        check_matplotlib(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(**figure_params)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with installation instructions if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - imported to check that it is installed
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. Install it with `pip install matplotlib`."
        ) from error


def plain_text(text: Any) -> str:
    """Return text from data so that matplotlib draws it as it is, and never as mathematics.

    Lone surrogates, which no font has, are written as escape sequences.
    """
    drawable = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return drawable.replace("$", r"\$")


def with_margin(low: Any, high: Any) -> tuple[Any, Any]:
    """Return axis limits (low, high) widened by `AXIS_MARGIN`, or by 1 if both are equal."""
    margin = np.where(high > low, AXIS_MARGIN * (high - low), 1.0)
    return low - margin, high + margin
