"""Colours, axes and the import check of matplotlib, shared by all displays."""

from __future__ import annotations

from typing import Any

RELEASED, PUBLIC, LIGHT, GREY = "#0072b2", "#d55e00", "#c6dff0", "#808080"
"""Colours that are distinguishable with colour vision deficiency."""


def check_matplotlib(caller: str) -> None:
    """Raise ImportError with the command that installs matplotlib, if it is missing."""
    try:
        import matplotlib  # noqa: F401 - imported to check that it is installed
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. Install it with `pip install matplotlib`."
        ) from error


def axes_for(display: Any, ax: Any, **figure_params: Any) -> Any:
    """Return the axes to draw a display on, and store them as its `ax_` and `figure_`.

    Parameters
    ----------
    display : object
        The display.
    ax : matplotlib Axes or None
        Axes that the user passed. ``None`` makes a new figure.
    **figure_params : dict
        Arguments of `plt.subplots` for a new figure.
    """
    check_matplotlib(f"{type(display).__name__}.plot")
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(**figure_params)
    display.ax_, display.figure_ = ax, ax.figure
    return ax
