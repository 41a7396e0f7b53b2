"""FidelityDisplay: differences between synthetic rows and the release they were drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skpublicdp.plotting.display import GREY, RELEASED, Display, check_matplotlib

AXIS_FACTOR = 1.5
"""Factor by which log-scaled axes extend beyond the smallest and the largest value."""


@dataclass(eq=False, repr=False)
class FidelityDisplay(Display):
    """Display of the differences between synthetic rows and each released table or CDF.

    Create a display with `from_frame`. Each point represents a table. If a table lies below the
    diagonal, the difference between the synthetic rows and the release is smaller than the expected
    error of the release combined with the expected error of drawing the rows.

    Parameters
    ----------
    expected : array-like of float, shape (n_tables,)
        Expected root mean square difference due to the error of the release and the drawing of the
        rows.
    differences : array-like of float, shape (n_tables,)
        Root mean square difference between the fractions of synthetic rows and the released
        fractions.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    points_ : matplotlib PathCollection
        The points, with one point for each table.

    See Also
    --------
    skpublicdp.PAPQueryRelease.fidelity : The displayed numbers.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from skpublicdp import PAPQueryRelease
    >>> from skpublicdp.plotting import FidelityDisplay
    >>> from skpublicdp.query_release import MarginalQueries
    >>> rng = np.random.default_rng(0)
    >>> X, X_public = rng.integers(4, size=(5000, 3)), rng.integers(4, size=(100, 3))
    >>> release = PAPQueryRelease(MarginalQueries(), bounds=(0, 3), random_state=0)
    >>> frame = release.fit(X, X_public=X_public).fidelity()
    >>> len(FidelityDisplay.from_frame(frame).points_.get_offsets())
    6
    """

    expected: ArrayLike
    differences: ArrayLike

    @classmethod
    def from_frame(cls, frame: Any, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the display for a result of `PAPQueryRelease.fidelity`.

        Parameters
        ----------
        frame : DataFrame or dict of arrays
            Result of `PAPQueryRelease.fidelity`.
        ax : matplotlib Axes, default=None
            Axes to plot on. ``None`` creates a new figure.
        **kwargs : dict
            Keyword arguments passed to ``ax.scatter``.

        Returns
        -------
        FidelityDisplay

        Raises
        ------
        ValueError
            If no table or CDF was measured, as with ``method="pmw"``.
        ImportError
            If matplotlib is not installed.
        """
        check_matplotlib(f"{cls.__name__}.from_frame")
        if not len(frame["table"]):
            raise ValueError(
                "There is nothing to draw, because the release has no measured tables."
            )
        expected = np.hypot(np.asarray(frame["release_error"]), np.asarray(frame["drawing_error"]))
        return cls(expected, np.asarray(frame["rms_difference"])).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the display on logarithmic scales.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. ``None`` creates a new figure.
        **kwargs : dict
            Keyword arguments passed to ``ax.scatter``.

        Returns
        -------
        FidelityDisplay
            The display itself.
        """
        ax = self._set_axes(ax)
        expected, differences = np.asarray(self.expected), np.asarray(self.differences)
        numbers = np.concatenate([expected, differences])
        numbers = numbers[numbers > 0] if (numbers > 0).any() else np.ones(1)
        limits = numbers.min() / AXIS_FACTOR, numbers.max() * AXIS_FACTOR
        ax.plot(limits, limits, color=GREY, linestyle="--", linewidth=1)
        self.points_ = ax.scatter(
            expected, np.maximum(differences, limits[0]), **{"color": RELEASED, **kwargs}
        )
        ax.set(
            xscale="log",
            yscale="log",
            xlim=limits,
            ylim=limits,
            xlabel="expected error of the release and of drawing",
            ylabel="difference of synthetic rows",
        )
        return self
