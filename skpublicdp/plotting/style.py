"""Shared by all displays: the check for matplotlib, axes and colours."""

from __future__ import annotations

from typing import Any

RELEASED, PUBLIC, LIGHT = "#0072b2", "#d55e00", "#c6dff0"
"""Colours that are distinguishable with colour vision deficiency."""


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with the extra to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - whether it is there is the question
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. Install it with `pip install matplotlib`."
        ) from error


def axes_for(display: Any, ax: Any, **figure: Any) -> Any:
    """Set `ax_` and `figure_` of a display, by default of a new figure, and return the axes."""
    check_matplotlib(f"{type(display).__name__}.plot")
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(**figure)
    display.ax_, display.figure_ = ax, ax.figure
    return ax
