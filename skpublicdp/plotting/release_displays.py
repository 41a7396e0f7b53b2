"""Displays of query releases: a CDF, a marginal, and the fidelity of synthetic rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from skpublicdp.data.binning import cut_points
from skpublicdp.data.schema import MISSING, OTHER, Column
from skpublicdp.data.validation import read_table
from skpublicdp.plotting.display import (
    GREY,
    LIGHT,
    PUBLIC,
    RELEASED,
    Display,
    check_matplotlib,
    plain_text,
    with_margin,
)
from skpublicdp.query_release import PAPQueryRelease
from skpublicdp.query_release.discretize import has_bin_per_value
from skpublicdp.typing import Floats

MAX_HIDDEN_SHARE = 0.001
"""Maximum fraction of the distribution that lies beyond each side of a CDF display."""

N_GRID_POINTS = 512
"""Number of points at which the curves are evaluated, not counting their jumps."""

MAX_DISPLAY_BINS = 16
"""Maximum number of bins of a numeric column, if the release has no bins."""

MARGINAL_BAR_THICKNESS = 0.4
"""Thickness of a bar, as a fraction of the space available for a category."""


@dataclass(eq=False, repr=False, kw_only=True)
class ReleaseDisplay(Display):
    """Base class of displays that compare a release with public rows."""

    public: Floats | None = None
    n_public: int | None = None
    name: str = "x0"
    label: str = "released"

    @property
    def _public_style(self) -> dict[str, Any]:
        """Colour and legend label of the public rows."""
        return {"color": PUBLIC, "label": f"{self.n_public} public rows"}


@dataclass(eq=False, repr=False)
class CDFDisplay(ReleaseDisplay):
    """Display of a released CDF together with the CDF of the public rows.

    Create a display with `from_estimator`. The release is public, since it was computed with
    differential privacy. Any rows passed to the display are shown without protection: **pass public
    rows only**.

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
        Legend label of the release.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    line_ : matplotlib Line2D
        The released curve.
    band_ : matplotlib PolyCollection or None
        The shaded confidence band.
    public_line_ : matplotlib Line2D or None
        The curve of the public rows.

    See Also
    --------
    MarginalDisplay : Marginal of a single column of any kind.
    skpublicdp.PAPQueryRelease : The displayed release.

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

    x: Floats
    released: Floats
    _: KW_ONLY
    band: Floats | None = None

    @classmethod
    def from_estimator(
        cls,
        release: PAPQueryRelease,
        X_public: Any = None,
        *,
        column: str | int | None = None,
        limits: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the CDF of a numeric column of a fitted release.

        Parameters
        ----------
        release : PAPQueryRelease
            A fitted release with at least one numeric column.
        X_public : array-like or DataFrame, shape (m, n_features), default=None
            Public rows, with all columns, whose CDF is also drawn. The rows are not protected:
            **pass public rows only**.
        column : str or int, default=None
            Name or position of a numeric column. The default is the only column of the release.
        limits : pair of float, default=None
            Limits of the x-axis; the default is the range from the released quantile 0.001 to
            0.999, plus a margin.
        name : str, default=None
            Name of the column; the default is its name in the DataFrame, or ``x0``.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        CDFDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the column is not numeric, if there are several columns but none is specified, or if
            the limits are not two increasing numbers.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(release)
        position = _numeric_position(cls.__name__, release, column)
        public_values = np.empty(0)
        if X_public is not None and release.n_features_in_ == 1:
            public_values = validate_data(release, X_public, reset=False, dtype=np.float64)[:, 0]
        elif X_public is not None:
            public_rows = read_table(release, X_public, reset=False, numeric=False)
            public_values = release._schema.encode(public_rows)[:, position]
            public_values = public_values[~np.isnan(public_values)]  # as in `cdf`
        if limits is None:
            ends_of_axis = [MAX_HIDDEN_SHARE, 1 - MAX_HIDDEN_SHARE]
            limits = with_margin(*release.quantile(ends_of_axis, position))
        ends = np.asarray(limits, dtype=np.float64)
        if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
            raise ValueError(f"limits must contain two increasing numbers; got {ends.tolist()}.")
        if name is None:
            name = release._schema.names[position]
        jumps = np.concatenate([release._released.rows.column(position).rows[:, 0], public_values])
        x = evaluation_points(ends, jumps)
        display = cls(
            x,
            release.cdf(x, position),
            band=error_band(release, x, position),
            name=str(name),
            label=released_label(release),
        )
        if X_public is not None:
            display.n_public = len(public_values)
            n_at_most = np.searchsorted(np.sort(public_values), x, side="right")
            display.public = n_at_most / display.n_public
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
            Axes to plot on. If None, a new figure is created.
        line_kwargs, band_kwargs, public_kwargs : dict, default=None
            Keyword arguments passed to matplotlib's `plot`, `fill_between` and `plot`.

        Returns
        -------
        CDFDisplay
            The display itself.
        """
        ax = self._set_axes(ax)
        self.band_ = self.public_line_ = None
        if self.band is not None:
            style: dict[str, Any] = {"color": LIGHT, "linewidth": 0, "label": "95% error band"}
            self.band_ = ax.fill_between(
                self.x, *np.transpose(self.band), **style | (band_kwargs or {})
            )
        style = {"color": RELEASED, "label": self.label} | (line_kwargs or {})
        (self.line_,) = ax.plot(self.x, self.released, **style)
        if self.public is not None:
            style = self._public_style | {"linestyle": "--", "linewidth": 1}
            (self.public_line_,) = ax.plot(self.x, self.public, **style | (public_kwargs or {}))
        ax.set(xlim=(self.x[0], self.x[-1]), ylim=(-0.02, 1.02))
        ax.set(xlabel=plain_text(self.name), ylabel="fraction of rows at or below")
        ax.legend(loc="upper left", frameon=False)
        return self


@dataclass(eq=False, repr=False)
class MarginalDisplay(ReleaseDisplay):
    """Display of a column's released marginal together with the marginal of the public rows.

    Create a display with `from_estimator`. The release is public, since it was computed with
    differential privacy. Any rows passed to the display are shown without protection: **pass public
    rows only**. The display has no error bars, since no valid error bars are known for marginals.

    Parameters
    ----------
    labels : sequence of str
        Names of the categories or bins.
    released : ndarray of shape (n_labels,)
        Released fraction of the rows in each category or bin.
    public : ndarray of shape (n_labels,), default=None
        Fraction of the public rows in each category or bin.
    n_public : int, default=None
        Number of public rows.
    name : str, default="x0"
        Name of the column.
    label : str, default="released"
        Legend label of the release.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    bars_ : matplotlib BarContainer
        The bars of the released marginal.
    public_bars_ : matplotlib BarContainer or None
        The bars of the public rows' marginal.

    See Also
    --------
    CDFDisplay : CDF of a single numeric column.
    skpublicdp.PAPQueryRelease : The displayed release.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpublicdp import PAPQueryRelease
    >>> from skpublicdp.plotting import MarginalDisplay
    >>> rng = np.random.default_rng(0)
    >>> def people(n):
    ...     job = rng.choice(["farm", "shop"], size=n)
    ...     return pd.DataFrame({"job": job, "age": rng.integers(18, 90, size=n)})
    >>> public = people(100)
    >>> release = PAPQueryRelease(random_state=0).fit(people(5000), X_public=public)
    >>> display = MarginalDisplay.from_estimator(release, "job", public)
    >>> display.labels
    ['farm', 'shop', '(other)', '(missing)']
    """

    labels: Sequence[str]
    released: Floats

    @classmethod
    def from_estimator(
        cls,
        release: PAPQueryRelease,
        column: str | int,
        X_public: Any = None,
        *,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the marginal of a column of a fitted release.

        Parameters
        ----------
        release : PAPQueryRelease
            A fitted release with columns of any kind.
        column : str or int
            Name or position of the column. A numeric column is displayed in the bins of
            `MarginalQueries`, or in at most 16 bins for other query classes.
        X_public : array-like or DataFrame, shape (m, n_features), default=None
            Public rows, with all columns, whose marginal is also drawn. The rows are not protected:
            **pass public rows only**.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        MarginalDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the release has no column with this name or position, or if the columns of `X_public`
            differ.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(release)
        schema = release._schema
        position = schema.position(column)
        column_schema = schema.columns[position]
        cuts = None if column_schema.categorical else find_cuts(release, position)
        released = released_marginal(release, position, cuts)
        public = None
        if X_public is not None:
            public_rows = read_table(release, X_public, reset=False, numeric=False)
            public_values = schema.encode(public_rows)[:, position]
            equal_weights = np.full(len(public_values), 1 / len(public_values))
            public = category_shares(column_schema, cuts, public_values, equal_weights)
        labels = category_names(column_schema, cuts)
        if cuts is not None and column_schema.nullable:
            labels = [*labels, MISSING]
        queries = release._released.queries
        has_own_bins = cuts is not None and has_bin_per_value(column_schema, cuts)
        if queries.has_tables and (has_own_bins or queries.bin_edges(position) is not None):
            labels = [*map(str, queries.cell_names(position))]  # as in the table of the column
        # empty categories for other and missing values are omitted
        is_nonempty = released + (0 if public is None else public) > 0
        order = column_schema.display_order if cuts is None else list(range(len(labels)))
        shown = [
            code
            for code in order
            if is_nonempty[code] or cuts is not None or labels[code] not in (OTHER, MISSING)
        ]
        display = cls(
            [labels[position] for position in shown],
            released[shown],
            public=None if public is None else public[shown],
            n_public=None if public is None else len(X_public),
            name=column_schema.name,
            label=released_label(release),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        bar_kwargs: dict[str, Any] | None = None,
        public_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        bar_kwargs, public_kwargs : dict, default=None
            Keyword arguments passed to matplotlib's `barh`.

        Returns
        -------
        MarginalDisplay
            The display itself.
        """
        height = max(2.4, 1 + 0.3 * len(self.labels))
        ax = self._set_axes(ax, figsize=(6.4, height), layout="constrained")
        positions = np.arange(len(self.labels))
        offset = 0 if self.public is None else MARGINAL_BAR_THICKNESS / 2
        style: dict[str, Any]
        style = {"color": RELEASED, "height": MARGINAL_BAR_THICKNESS, "label": self.label}
        style |= bar_kwargs or {}
        self.bars_ = ax.barh(positions - offset, self.released, **style)
        self.public_bars_ = None
        if self.public is not None:
            style = self._public_style | {"height": MARGINAL_BAR_THICKNESS, "alpha": 0.6}
            style |= public_kwargs or {}
            self.public_bars_ = ax.barh(positions + offset, self.public, **style)
        ax.set_yticks(positions)
        ax.set_yticklabels([plain_text(label) for label in self.labels])
        ax.set_ylim(len(self.labels) - 0.4, -0.6)  # the first label on top
        ax.set(xlabel="share", ylabel=plain_text(self.name))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncol=2, frameon=False)  # above the bars
        return self


def released_label(release: PAPQueryRelease) -> str:
    """Return the legend label of a release, including its ε."""
    epsilon = release.privacy_.epsilon
    return f"released, ε = {epsilon:g}" if epsilon else "released, no private rows used"


def _numeric_position(display: str, release: PAPQueryRelease, column: str | int | None) -> int:
    """Return the position of the column to be drawn by a `CDFDisplay`, after checking its kind."""
    schema = release._schema
    if column is None and len(schema.columns) > 1:
        raise ValueError(
            f"{display} draws one numeric column, but this release has {len(schema.columns)} "
            "columns. Pass the name of one of them as column."
        )
    position = 0 if column is None else schema.position(column)
    if not schema.numeric[position]:
        raise ValueError(
            f"{display} draws one numeric column, but column {schema.names[position]} is "
            "categorical. To draw its fractions, use MarginalDisplay."
        )
    if schema.columns[position].has_offset:
        raise ValueError(
            f"{display} draws one numeric column, but column {schema.names[position]} contains "
            "dates or numbers beyond 2**53. Pass values of this column to cdf instead."
        )
    return position


def error_band(release: PAPQueryRelease, x: Floats, position: int) -> Floats | None:
    """Return 95% confidence intervals of a released CDF, shape (n, 2), or ``None``."""
    try:
        return release.cdf_interval(x, position)
    except ValueError:  # the release has no valid intervals
        return None


def evaluation_points(limits: Floats | tuple[float, float], jumps: Floats) -> Floats:
    """Return increasing numbers at which to evaluate a CDF with jumps for a line plot.

    The numbers consist of a grid within the limits and, for each jump, the position of the jump and
    the preceding float, which makes the line vertical there.

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


def find_cuts(release: PAPQueryRelease, position: int) -> Floats:
    """Return the cuts between the bins used to draw a numeric column of a release.

    These are the cuts of the release if it has bins, and quantiles of the released values
    otherwise.
    """
    cuts: Floats | None = release._released.queries.bin_cuts(position)
    if cuts is not None:
        return cuts
    return cut_points(release._released.rows.rows[:, position], MAX_DISPLAY_BINS)


def released_marginal(release: PAPQueryRelease, position: int, cuts: Floats | None) -> Floats:
    """Return the released fraction of rows in each category, or between the cuts, of a column."""
    marginal: Floats | None = release._released.answers.column_marginal(position)
    if marginal is not None:
        return marginal
    if cuts is not None and release._released.only_column is not None:
        # within a cell, the released CDF is more precise than the row that represents the cell
        return np.diff(release.cdf(cuts), prepend=0.0, append=1.0)
    weighted_rows = release._released.rows
    values = weighted_rows.rows[:, position]
    column = release._schema.columns[position]
    return category_shares(column, cuts, values, weighted_rows.weights)


def category_shares(column: Column, cuts: Floats | None, values: Floats, weights: Floats) -> Floats:
    """Return the total weight of the rows in each category or bin of a column."""
    if cuts is None:
        n_cells = column.n_categories
        codes = values.astype(np.intp)
    else:
        n_cells = len(cuts) + 1 + column.nullable
        codes = np.searchsorted(cuts, values)
        codes[np.isnan(values)] = n_cells - 1
    return np.bincount(codes, weights=weights, minlength=n_cells).astype(np.float64)


def category_names(column: Column, cuts: Floats | None) -> list[str]:
    """Return the names of a column's categories, or the ranges of its bins.

    Examples
    --------
    >>> from skpublicdp.data.schema import Column
    >>> age = Column("age", np.empty(0), False, integral=True)
    >>> category_names(age, np.array([30.5, 31.5, 60.0]))
    ['<= 30', '31', '32 to 60', '>= 61']
    >>> category_names(Column("wage", np.empty(0), False), np.array([1.25, 8.0]))
    ['<= 1.25', '1.25 to 8', '> 8']
    """
    if cuts is None:
        return [*map(str, column.names)]
    if not len(cuts):
        return ["all"]
    if not column.integral:
        inner = [f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(cuts)]
        return [f"<= {cuts[0]:.3g}", *inner, f"> {cuts[-1]:.3g}"]
    largest = np.floor(cuts).astype(np.int64)  # largest integer of each bin but the last
    smallest = largest + 1  # smallest integer of each bin but the first
    inner = [
        f"{low}" if low == high else f"{low} to {high}"
        for low, high in zip(smallest, largest[1:], strict=False)
    ]
    return [f"<= {largest[0]}", *inner, f">= {smallest[-1]}"]


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
