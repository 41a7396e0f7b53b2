"""CDFDisplay: a released CDF with its error band."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from skpublicdp.plotting.axis_limits import AXIS_MARGIN
from skpublicdp.plotting.style import LIGHT, PUBLIC, RELEASED, axes_for, check_matplotlib
from skpublicdp.query_release import PAPQueryRelease
from skpublicdp.query_release.queries.base import IntervalQueries, ThresholdQueries
from skpublicdp.typing import Floats

MAX_HIDDEN_SHARE = 0.001
"""Largest fraction of the distribution outside of the display at either side."""

N_GRID_POINTS = 512
"""Number of points at which the curves are evaluated, besides their jumps."""


class CDFDisplay:
    """Display of a released CDF beside the CDF of the public rows.

    Make one with `from_estimator`. The release is public: it was made with differential privacy.
    Rows passed to it are shown without protection: **pass public rows only**.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Increasing numbers at which the curves are evaluated.
    released : ndarray of shape (n_points,)
        Released fraction of the rows at or below each number.
    band : ndarray of shape (n_points, 2), default=None
        Ends of the 95% confidence interval of each fraction.
    public : ndarray of shape (n_points,), default=None
        Fraction of the public rows at or below each number.
    n_public : int, default=None
        Number of public rows.
    name : str, default="x0"
        Name of the column.
    label : str, default="released"
        Label of the release in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib Line2D
        The released curve.
    band_ : matplotlib PolyCollection or None
        The error band.
    public_line_ : matplotlib Line2D or None
        The curve of the public rows.

    See Also
    --------
    MarginalDisplay : Marginal of one column of any kind.
    skpublicdp.PAPQueryRelease : The release.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from skpublicdp import PAPQueryRelease
    >>> from skpublicdp.plotting import CDFDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, X_public = rng.normal(size=(5000, 1)), rng.normal(size=(100, 1))
    >>> release = PAPQueryRelease(bounds=(-10, 10), random_state=0).fit(X, X_public=X_public)
    >>> display = CDFDisplay.from_estimator(release, X_public)
    >>> [line.get_label() for line in display.ax_.lines]
    ['released, ε = 1', '100 public rows']
    """

    def __init__(
        self,
        x: Floats,
        released: Floats,
        *,
        band: Floats | None = None,
        public: Floats | None = None,
        n_public: int | None = None,
        name: str = "x0",
        label: str = "released",
    ) -> None:
        self.x = x
        self.released = released
        self.band = band
        self.public = public
        self.n_public = n_public
        self.name = name
        self.label = label

    @classmethod
    def from_estimator(
        cls,
        release: PAPQueryRelease,
        X_public: Any = None,
        *,
        limits: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the CDF of a fitted release.

        Parameters
        ----------
        release : PAPQueryRelease
            Fitted on one numeric column.
        X_public : array-like or DataFrame, shape (m, 1), default=None
            Public rows whose CDF is drawn as well. They are not protected: **public rows only**.
        limits : pair of float, default=None
            Limits of the x-axis; by default the released quantiles 0.001 and 0.999, and a margin.
        name : str, default=None
            Name of the column; by default its name in the data frame, or ``x0``.
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.
        **kwargs : dict
            Arguments of `plot`.

        Returns
        -------
        CDFDisplay
            The display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the release does not have exactly one column, which is numeric, or if the limits are
            not two increasing numbers.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(release)
        if release.n_features_in_ != 1 or release._released.only_column is None:
            n_columns = release.n_features_in_
            columns = "a categorical one" if n_columns == 1 else f"{n_columns} columns"
            raise ValueError(
                f"{cls.__name__} draws releases of one numeric column; this one has {columns}. "
                "Draw a marginal with MarginalDisplay."
            )
        public_values = np.empty(0)
        if X_public is not None:
            public_values = validate_data(release, X_public, reset=False, dtype=np.float64)[:, 0]
        if limits is None:
            outer_quantiles = release.quantile([MAX_HIDDEN_SHARE, 1 - MAX_HIDDEN_SHARE])
            limits = with_margin(*outer_quantiles)
        ends = np.asarray(limits, dtype=np.float64)
        if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
            raise ValueError(f"limits must be two increasing numbers; got {ends.tolist()}.")
        if name is None:
            (name,) = getattr(release, "feature_names_in_", ("x0",))
        jumps = np.concatenate([release._released.rows.rows[:, 0], public_values])
        x = evaluation_points(ends, jumps)
        public_cdf = None
        if X_public is not None:
            n_at_most = np.searchsorted(np.sort(public_values), x, side="right")
            public_cdf = n_at_most / len(public_values)
        display = cls(
            x,
            release.cdf(x),
            band=error_band(release, x),
            public=public_cdf,
            n_public=None if X_public is None else len(public_values),
            name=str(name),
            label=released_label(release),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        public_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.
        line_kwargs, band_kwargs, public_kwargs : dict, default=None
            Arguments of matplotlib's `plot`, `fill_between` and `plot`.

        Returns
        -------
        CDFDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        self.band_ = self.public_line_ = None
        if self.band is not None:
            style: dict[str, Any] = {"color": LIGHT, "linewidth": 0, "label": "95% error band"}
            self.band_ = ax.fill_between(
                self.x, *np.transpose(self.band), **style | (band_kwargs or {})
            )
        style = {"color": RELEASED, "label": self.label} | (line_kwargs or {})
        (self.line_,) = ax.plot(self.x, self.released, **style)
        if self.public is not None:
            style = {"color": PUBLIC, "linestyle": "--", "linewidth": 1}
            style |= {"label": f"{self.n_public} public rows"} | (public_kwargs or {})
            (self.public_line_,) = ax.plot(self.x, self.public, **style)
        ax.set(xlim=(self.x[0], self.x[-1]), ylim=(-0.02, 1.02))
        ax.set(xlabel=self.name, ylabel="fraction of rows at or below")
        ax.legend(loc="upper left", frameon=False)
        return self


def released_label(release: PAPQueryRelease) -> str:
    """Return the legend label of a release, with its ε."""
    epsilon = release.privacy_.epsilon
    return f"released, ε = {epsilon:g}" if epsilon else "released, no private rows used"


def error_band(release: PAPQueryRelease, x: Floats) -> Floats | None:
    """Return 95% confidence intervals of a released CDF, shape (n, 2); ``None`` without intervals.

    Parameters
    ----------
    release : PAPQueryRelease
        A fitted release of a single numeric column.
    x : ndarray of float64, shape (n,)
        Numbers at which the CDF is evaluated.
    """
    if isinstance(release.queries_, ThresholdQueries):
        queries = x[:, None]
    elif isinstance(release.queries_, IntervalQueries):
        # the CDF is the fraction of rows in (-inf, x]
        queries = np.column_stack([np.full(len(x), -np.inf), x])
    else:
        return None
    try:
        return release.interval(queries)
    except ValueError:  # the release has no valid intervals
        return None


def with_margin(low: float, high: float) -> tuple[float, float]:
    """Return axis limits (low, high) widened by `AXIS_MARGIN`, or by 1 if both are equal."""
    margin = AXIS_MARGIN * (high - low) if high > low else 1.0
    return low - margin, high + margin


def evaluation_points(limits: Floats | tuple[float, float], jumps: Floats) -> Floats:
    """Return increasing numbers at which a CDF with jumps is evaluated for a line plot.

    They are a grid within the limits, and for each jump the number itself and the float before it,
    so that the line is vertical there.

    Examples
    --------
    >>> x = evaluation_points((0.0, 1.0), np.array([0.3, 2.0]))
    >>> len(x) == N_GRID_POINTS + 2, bool(np.isin([0.0, 0.3, np.nextafter(0.3, 0), 1.0], x).all())
    (True, True)
    """
    jumps = np.unique(jumps)
    jumps = jumps[(jumps > limits[0]) & (jumps <= limits[1])]
    grid = np.linspace(limits[0], limits[1], N_GRID_POINTS)
    return np.unique(np.concatenate([grid, jumps, np.nextafter(jumps, -np.inf)]))
