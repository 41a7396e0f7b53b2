"""MarginalDisplay: released one-way marginal of a column."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpublicdp.data.binning import cut_points
from skpublicdp.data.schema import MISSING, OTHER, Column
from skpublicdp.data.validation import read_table
from skpublicdp.plotting.cdf_display import released_label
from skpublicdp.plotting.style import PUBLIC, RELEASED, axes_for, check_matplotlib
from skpublicdp.query_release import PAPQueryRelease
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.typing import Floats

MAX_DISPLAY_BINS = 16
"""Maximum number of bins of a numeric column, if the release has no bins."""

MARGINAL_BAR_THICKNESS = 0.4
"""Thickness of a bar, as a fraction of the space of a category."""


class MarginalDisplay:
    """Display of the released marginal of one column beside the marginal of the public rows.

    Make one with `from_estimator`. The release is public: it was made with differential privacy.
    Rows passed to it are shown without protection: **pass public rows only**.
    There are no error bars: no valid ones are known for marginals.

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
        Label of the release in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : matplotlib BarContainer
        The released marginal.
    public_bars_ : matplotlib BarContainer or None
        The marginal of the public rows.

    See Also
    --------
    CDFDisplay : CDF of one numeric column.
    skpublicdp.PAPQueryRelease : The release.

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

    def __init__(
        self,
        labels: Sequence[str],
        released: Floats,
        *,
        public: Floats | None = None,
        n_public: int | None = None,
        name: str = "x0",
        label: str = "released",
    ) -> None:
        self.labels = labels
        self.released = released
        self.public = public
        self.n_public = n_public
        self.name = name
        self.label = label

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
            Name or position of the column. A numeric column has the bins of `MarginalQueries`; for
            other classes of queries it has at most 16 bins.
        X_public : array-like or DataFrame, shape (m, n_features), default=None
            Public rows, with all columns, whose marginal is drawn as well. They are not protected:
            **public rows only**.
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.
        **kwargs : dict
            Arguments of `plot`.

        Returns
        -------
        MarginalDisplay
            The display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the release has no column of this name or position, or `X_public` has other columns.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(release)
        schema = release._schema
        position = schema.position(column)
        column_schema = schema.columns[position]
        released, cuts = release._released.column_marginal(position), None
        weighted_rows = release._released.rows
        values = weighted_rows.rows[:, position]
        if not column_schema.categorical:
            cuts = find_cuts(release, position, values)
        if released is None and cuts is not None and release._released.only_column is not None:
            # within a cell the released CDF is more precise than the row that represents it
            released = np.diff(release.cdf(cuts), prepend=0.0, append=1.0)
        elif released is None:
            released = category_shares(column_schema, cuts, values, weighted_rows.weights)
        public = None
        if X_public is not None:
            public_rows = read_table(release, X_public, reset=False, numeric=False)
            public_values = schema.encode(public_rows)[:, position]
            equal_weights = np.full(len(public_values), 1 / len(public_values))
            public = category_shares(column_schema, cuts, public_values, equal_weights)
        labels = category_names(column_schema, cuts)
        # empty categories for other and missing values are left out
        is_nonempty = released + (0 if public is None else public) > 0
        shown = [
            position
            for position, label in enumerate(labels)
            if is_nonempty[position] or cuts is not None or label not in (OTHER, MISSING)
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
            Axes to draw on; by default of a new figure.
        bar_kwargs, public_kwargs : dict, default=None
            Arguments of matplotlib's `barh`.

        Returns
        -------
        MarginalDisplay
            The display itself.
        """
        height = max(2.4, 1 + 0.3 * len(self.labels))
        ax = axes_for(self, ax, figsize=(6.4, height), layout="constrained")
        positions = np.arange(len(self.labels))
        offset = 0 if self.public is None else MARGINAL_BAR_THICKNESS / 2
        style: dict[str, Any]
        style = {"color": RELEASED, "height": MARGINAL_BAR_THICKNESS, "label": self.label}
        style |= bar_kwargs or {}
        self.bars_ = ax.barh(positions - offset, self.released, **style)
        self.public_bars_ = None
        if self.public is not None:
            style = {"color": PUBLIC, "height": MARGINAL_BAR_THICKNESS, "alpha": 0.6}
            style |= {"label": f"{self.n_public} public rows"} | (public_kwargs or {})
            self.public_bars_ = ax.barh(positions + offset, self.public, **style)
        ax.set_yticks(positions)
        ax.set_yticklabels(self.labels)
        ax.set_ylim(len(self.labels) - 0.4, -0.6)  # the first label on top
        ax.set(xlabel="share", ylabel=self.name)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncol=2, frameon=False)  # above the bars
        return self


def find_cuts(release: PAPQueryRelease, position: int, values: Floats) -> Floats:
    """Return the cuts between the bins in which a numeric column is drawn.

    They are the cuts of the release if it has bins, else quantiles of the released values.

    Parameters
    ----------
    release : PAPQueryRelease
        A fitted release.
    position : int
        Position of the column.
    values : ndarray of float64, shape (n_rows,)
        Values of the column in the rows that represent the release.
    """
    if isinstance(release.queries_, MarginalQueries):
        cuts: Floats = release._released.queries._bins.cuts[position]
        return cuts
    return cut_points(values, MAX_DISPLAY_BINS)


def category_shares(column: Column, cuts: Floats | None, values: Floats, weights: Floats) -> Floats:
    """Return the total weight of the rows in each category or bin of a column.

    Parameters
    ----------
    column : Column
        The column.
    cuts : ndarray of float64 or None
        Cuts between the bins of a numeric column; ``None`` for a categorical column.
    values : ndarray of float64, shape (n_rows,)
        Encoded values: numbers, or codes of categories.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows, of sum 1.
    """
    if cuts is None:
        codes, size = values.astype(np.intp), column.n_categories
    else:
        codes, size = np.searchsorted(cuts, values), len(cuts) + 1
    return np.bincount(codes, weights=weights, minlength=size).astype(np.float64)


def category_names(column: Column, cuts: Floats | None) -> list[str]:
    """Return the texts of a column's categories, or of the ranges of its bins.

    Examples
    --------
    >>> from skpublicdp.data.schema import Column
    >>> age = Column("age", np.empty(0), False, integral=True)
    >>> category_names(age, np.array([30.5, 31.5, 60.0]))
    ['≤ 30', '31', '32 to 60', '≥ 61']
    >>> category_names(Column("wage", np.empty(0), False), np.array([1.25, 8.0]))
    ['≤ 1.25', '1.25 to 8', '> 8']
    """
    if cuts is None:
        return [*map(str, column.names)]
    if not len(cuts):
        return ["all"]
    if not column.integral:
        inner = [f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(cuts)]
        return [f"≤ {cuts[0]:.3g}", *inner, f"> {cuts[-1]:.3g}"]
    largest = np.floor(cuts).astype(np.int64)  # largest integer of each bin but the last
    inner = [
        f"{low}" if low == high else f"{low} to {high}"
        for low, high in zip(largest + 1, largest[1:], strict=False)
    ]
    return [f"≤ {largest[0]}", *inner, f"≥ {largest[-1] + 1}"]
