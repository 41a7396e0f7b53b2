"""ShapeDisplay: the shape functions and pair terms of a boosting model, with noise bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skpublicdp.boosting import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.boosting.explain import Pair, Shape, term_importance
from skpublicdp.data.schema import MISSING, OTHER
from skpublicdp.plotting.display import (
    LIGHT,
    PUBLIC,
    RELEASED,
    check_matplotlib,
    plain_text,
    with_margin,
)
from skpublicdp.typing import Floats

MAX_ANNOTATED_COLUMNS = 5
"""Maximum number of columns for which the cells of a heat map have text annotations."""

MAX_JOINED_NAMES = 3
"""Maximum number of joined categories that are all listed by name.

If there are more categories, only the first is listed by name."""

MAX_TICK_CHARACTERS = 30
"""Number of tick label characters that fit side by side below a heat map."""


@dataclass(frozen=True, eq=False)
class Side:
    """One axis of a heat map, with the joined bins of a column."""

    name: str  # name of the column
    cells: list[list[int]]  # groups of joined bins
    # Positions and labels of the ticks. Cuts of numeric columns lie between bins.
    ticks: list[tuple[float, str]]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A pair term for one target, in which equal adjacent bins are joined."""

    # The two columns. The column with fewer joined bins comes first.
    x: Side
    y: Side
    # (n_joined of x, n_joined of y): scores of the pair, and the standard deviations of these
    # scores
    scores: NDArray[np.float64]
    deviations: NDArray[np.float64]


def heat_map(pair: Pair, target: int) -> HeatMap:
    """Return the heat map of a pair, joining bins with equal scores and standard deviations.

    Bins for other values and for missing values are omitted if they contain no public row.
    """
    scores = pair.scores[target]
    deviations = pair.deviations[target]
    values = np.stack([scores, deviations], axis=-1)  # (n_bins, n_bins of the second column, 2)
    has_first = pair.shares.sum(axis=1) > 0
    has_second = pair.shares.sum(axis=0) > 0
    first = _join_bins(pair, 0, values, has_public_rows=has_first)
    second = _join_bins(pair, 1, values.swapaxes(0, 1), has_public_rows=has_second)
    # each group of joined bins has the values of its first bin
    first_bins = [group[0] for group in first.cells]
    second_bins = [group[0] for group in second.cells]
    grid = np.ix_(first_bins, second_bins)
    scores = scores[grid]
    deviations = deviations[grid]
    if len(first_bins) > len(second_bins):
        return HeatMap(second, first, scores=scores.T, deviations=deviations.T)
    return HeatMap(first, second, scores=scores, deviations=deviations)


def _join_bins(
    pair: Pair, axis: int, values: NDArray[np.float64], has_public_rows: NDArray[np.bool_]
) -> Side:
    """Return one axis of a heat map, with equal bins joined.

    Parameters
    ----------
    pair : Pair
        Pair term of a model.
    axis : {0, 1}
        Column of the pair.
    values : ndarray of float64, shape (n_bins, n_bins of the other column, 2)
        Scores and standard deviations. Bins with equal values are joined.
    has_public_rows : ndarray of bool, shape (n_bins,)
        Whether the bin contains a public row.
    """
    names = pair.cells[axis]
    cuts = pair.cuts[axis]
    is_numeric = len(cuts) > 0
    groups: list[list[int]] = []
    group_of_values: dict[bytes, list[int]] = {}
    for bin_position, name in enumerate(names):
        if name in (OTHER, MISSING) and not has_public_rows[bin_position]:
            continue
        bin_values = values[bin_position].tobytes()  # bytes are hashable
        # numeric bins are joined with the preceding bin, categories with any equal category
        group = groups[-1] if groups and is_numeric else group_of_values.get(bin_values)
        if group and values[group[-1]].tobytes() == bin_values and name != MISSING:
            group.append(bin_position)
        else:
            group_of_values[bin_values] = [bin_position]
            groups.append(group_of_values[bin_values])
    ticks = []
    for position, group in enumerate(groups):
        last_bin = group[-1]
        if is_numeric and last_bin < len(cuts):  # a group of numbers that has an upper end
            upper_end = names[last_bin].split(" to ")[-1].removeprefix("<= ")
            ticks.append((position + 1.0, upper_end))
        elif not is_numeric or names[last_bin] == MISSING:
            joined_name = ", ".join(names[k] for k in group)
            if len(group) > MAX_JOINED_NAMES:
                joined_name = f"{names[group[0]]} and {len(group) - 1} others"
            ticks.append((position + 0.5, joined_name))
    return Side(pair.names[axis], groups, ticks)


def draw_pair(
    axes: Any, joined: HeatMap, max_score: float, band_deviations: int, label: str
) -> Any:
    """Draw a pair term as coloured cells with their scores and the half-widths of their bands.

    With more than `MAX_ANNOTATED_COLUMNS` columns, cells are not annotated. Instead, cells whose
    band includes 0 are hatched.

    Parameters
    ----------
    axes : matplotlib Axes
        Axes to plot on.
    joined : HeatMap
        Pair term with joined bins.
    max_score : float
        Absolute score that is drawn in the strongest colour.
    band_deviations : int
        Half-width of a band, in standard deviations.
    label : str
        Label of the colour bar, which names the quantity to which scores are added.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    colors = LinearSegmentedColormap.from_list("", [PUBLIC, "white", RELEASED])
    style: dict[str, Any] = {
        "cmap": colors,
        "vmin": -max_score,
        "vmax": max_score,
        "edgecolors": "white",
        "linewidth": 1,
    }
    mesh = axes.pcolormesh(joined.scores.T, **style)
    has_texts = len(joined.x.cells) <= MAX_ANNOTATED_COLUMNS
    for (x, y), score in np.ndenumerate(joined.scores):
        half_width = band_deviations * joined.deviations[x, y]
        if has_texts:
            style = {"ha": "center", "va": "center", "fontsize": 7}
            is_dark = abs(score) > 0.75 * max_score
            style["color"] = "white" if is_dark else "black"
            text = f"{score:+.2f}"
            if half_width:
                text += f" ± {half_width:.2f}"
            axes.text(x + 0.5, y + 0.5, text, **style)
        elif abs(score) <= half_width:
            style = {"fill": False, "hatch": "////", "edgecolor": "0.6", "linewidth": 0}
            axes.add_patch(Rectangle((x, y), 1, 1, **style))
    for set_ticks, side in ((axes.set_xticks, joined.x), (axes.set_yticks, joined.y)):
        texts = [plain_text(text) for _, text in side.ticks]
        set_ticks([position for position, _ in side.ticks], texts)
    max_characters = MAX_TICK_CHARACTERS / max(len(joined.x.cells), 1)  # per column
    if any(len(text) > max_characters for _, text in joined.x.ticks):
        axes.tick_params(axis="x", labelrotation=20)
        for tick_label in axes.get_xticklabels():
            tick_label.set_ha("right")
    axes.set(xlabel=plain_text(joined.x.name), ylabel=plain_text(joined.y.name))
    axes.figure.colorbar(mesh, ax=axes, label=plain_text(label))
    return mesh


Boosting = SemiPrivateBoostingClassifier | SemiPrivateBoostingRegressor
Feature = str | int | tuple[str | int, str | int]
"""A column, given by name or position, or a pair of columns."""

MAX_PANELS = 6
"""Maximum number of columns and pairs that are drawn by default."""


def find_shapes(
    clf: Boosting, features: str | int | Sequence[Feature] | None
) -> list[Shape | Pair]:
    """Return the shape functions and pair terms that are to be drawn.

    Parameters
    ----------
    clf : SemiPrivateBoostingClassifier or SemiPrivateBoostingRegressor
        A fitted model.
    features : str, int, sequence of these or of pairs of these, or None
        Columns and pairs to draw. ``None`` selects the `MAX_PANELS` most important columns and
        pairs.
    """
    if features is None:
        candidates: list[tuple[float, Shape | Pair]] = []
        # without any posterior deviation, the model only has trees, and its columns are empty
        if any(shape.deviations.any() for shape in clf.shapes_):
            starts = clf._binner.source_starts
            importances = np.add.reduceat(clf.feature_importances_, starts).tolist()
            candidates += zip(importances, clf.shapes_, strict=True)
        candidates += [(term_importance(pair), pair) for pair in clf.pairs_]
        ranked = sorted(candidates, key=lambda candidate: -candidate[0])
        return [shape for _, shape in ranked[:MAX_PANELS]]
    if isinstance(features, str) or not np.iterable(features):
        features = [features]
    selected: list[Shape | Pair] = []
    for feature in features:
        if isinstance(feature, tuple) and len(feature) == 2:
            selected.append(find_pair(clf, feature))
        else:
            selected.append(clf.shapes_[column_position(clf, feature)])
    if not selected:
        raise ValueError("features must name at least one column.")
    return selected


def column_position(clf: Boosting, feature: Any) -> int:
    """Return the position in `shapes_` of a column given by name or position.

    A member of a one-hot column selects the entire column.
    """
    names = [shape.name for shape in clf.shapes_]
    source_names = [column.name for column in clf._binner.source_columns]
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, str) and feature in source_names:
        feature = source_names.index(feature)
    if isinstance(feature, Integral) and 0 <= int(feature) < len(source_names):
        starts = clf._binner.source_starts
        return int(np.searchsorted(starts, int(feature), side="right")) - 1
    raise ValueError(
        f"A feature must be given by its name or by its position below {len(source_names)}; got "
        f"{feature!r}."
    )


def find_pair(clf: Boosting, columns: tuple[str | int, str | int]) -> Pair:
    """Return the pair term of a model for two columns given by names or positions."""
    names = {clf.shapes_[column_position(clf, column)].name for column in columns}
    for pair in clf.pairs_:
        if set(pair.names) == names:
            return pair
    pairs = "; ".join(" & ".join(pair.names) for pair in clf.pairs_) or "none"
    raise ValueError(
        f"A pair must be one of the pair terms of the model ({pairs}); got "
        f"{' & '.join(map(str, columns))}."
    )


class ScoreSelection(NamedTuple):
    """The scores of a model that are to be drawn."""

    target: int  # index of the target, which is the first axis of the scores
    sign: int  # factor by which the scores are multiplied
    label: str  # label of the axis, which names the quantity to which scores are added


def find_target(clf: Boosting, target: Any) -> ScoreSelection:
    """Return the scores to draw for a label of a classifier, or for a regressor.

    A binary classifier has scores only for the second label; the scores of the first label have the
    opposite sign.
    """
    if not hasattr(clf, "classes_"):
        if target is not None:
            raise ValueError(
                "target must be None for a regressor, because it selects a label and a regressor "
                "has none."
            )
        return ScoreSelection(0, 1, clf._loss.output_name)
    labels = clf.classes_.tolist()
    if target is None and len(labels) == 2:
        target = labels[1]
    if target not in labels:
        raise ValueError(f"target must be one of the labels {labels}; got {target!r}.")
    label = f"log-odds of {target}"
    if len(labels) == 2:
        return ScoreSelection(0, 1 if target == labels[1] else -1, label)
    return ScoreSelection(labels.index(target), 1, label)


PANELS_PER_ROW = 3
"""Number of panels per row of a new figure."""

BAND_DEVIATIONS = 2
"""Half-width of a noise band, in standard deviations."""

SHAPE_BAR_THICKNESS = 0.7
"""Thickness of a bar, as a fraction of the space available for a category."""

MISSING_SPACE = 0.28
"""Width of the area that shows the score of missing values, as a fraction of the numeric axis."""

Limits = tuple[float, float]
"""Smallest and largest value on an axis."""

DATE_CHARACTERS = len("2026-01-31")

BAND_LABEL = f"± {BAND_DEVIATIONS} standard deviations"


@dataclass(eq=False, repr=False)
class ShapeDisplay:
    """Display of the shape functions and pair terms of a boosting model.

    Create a display with `from_estimator`. All displayed content was released with differential
    privacy or comes from public rows. A numeric column is drawn as a step function, and a
    categorical column is drawn as one bar per category. Missing values are drawn separately if they
    occur in public rows. Bands and error bars extend two posterior standard deviations of a score,
    relative to an average public row. A pair term, which is the contribution of trees with two
    columns, is drawn as a heat map. If a heat map has many cells, cells less than two standard
    deviations from 0 are hatched instead.

    Parameters
    ----------
    shapes : sequence of Shape or Pair
        Terms to draw, with one panel for each, as in `shapes_` and `pairs_` of the model.
    limits : sequence of pair of float or None, default=None
        Limits of each step function; the default is one bin width beyond its cuts.
    target : int, default=0
        Index of the scores of each shape, below `n_targets`.
    label : str, default="log-odds"
        Label of the axes, which names the quantity to which scores are added.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (n_shapes,)
        Axes of the panels.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    steps_ : list of matplotlib StepPatch or None
        Step functions; ``None`` for columns with bars.
    bands_ : list of matplotlib StepPatch or None
        Bands of the step functions.
    missing_ : list of matplotlib ErrorbarContainer or None
        Scores of missing numbers, if they occur in public rows.
    bars_ : list of matplotlib BarContainer or None
        Bars, with the highest score on top; ``None`` for columns with steps.
    maps_ : list of matplotlib QuadMesh or None
        Heat maps; ``None`` for single columns.

    See Also
    --------
    skpublicdp.SemiPrivateBoostingClassifier : Model whose shapes are added to log-odds.
    skpublicdp.SemiPrivateBoostingRegressor : Model whose shapes are added to the mean outcome.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateBoostingClassifier
    >>> from skpublicdp.plotting import ShapeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = (X[:, 1] + rng.logistic(size=5000) > 0).astype(int)
    >>> clf = SemiPrivateBoostingClassifier(random_state=0)
    >>> clf = clf.fit(X, y, X_public=rng.normal(size=(300, 3)))
    >>> display = ShapeDisplay.from_estimator(clf)
    >>> display.axes_[0].get_title()
    'x1'
    """

    shapes: Sequence[Shape | Pair]
    _: KW_ONLY
    limits: Sequence[Limits | None] | None = None
    target: int = 0
    label: str = "log-odds"

    @classmethod
    def from_estimator(
        cls,
        clf: Boosting,
        features: str | int | Sequence[Feature] | None = None,
        *,
        target: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw shape functions and pair terms of a fitted model, one per panel.

        Parameters
        ----------
        clf : SemiPrivateBoostingClassifier or SemiPrivateBoostingRegressor
            A fitted model.
        features : str, int or sequence of these or of pairs of these, default=None
            Names or positions of columns, in the order of the panels; a tuple of two columns is a
            pair. The default is the six most important columns and pairs, in descending order of
            importance.
        target : label, default=None
            Label in `classes_` whose log-odds are drawn; for two labels, the default is the second
            label. The target is required if there are more than two labels. The target must be None
            for a regressor.
        ax : matplotlib Axes or sequence of Axes, default=None
            Axes to plot on, one for each feature. If None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        ShapeDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the model has no shapes, or does not contain the column, pair or label.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(clf)
        if not hasattr(clf, "shapes_"):
            raise ValueError(
                f"{cls.__name__} draws a SemiPrivateBoostingClassifier or "
                f"SemiPrivateBoostingRegressor; got {type(clf).__name__}."
            )
        if not clf.pairs_ and not any(shape.deviations.any() for shape in clf.shapes_):
            raise ValueError(
                f"{cls.__name__} draws terms of single columns and pairs, but this model contains "
                "no such terms. Inspect trees_ instead."
            )
        shapes = find_shapes(clf, features)
        position, sign, label = find_target(clf, target)
        public_values = {
            shape: bins.column.values
            for shape, bins in zip(clf.shapes_, clf._binner.columns, strict=True)
        }
        limits: list[Limits | None] = []
        for shape in shapes:
            limit = None
            if isinstance(shape, Shape) and len(shape.cuts):
                limit = find_limits(shape.cuts, public_values[shape])
            limits.append(limit)
        if sign < 0:  # the first of two labels
            shapes = [replace(shape, scores=-shape.scores) for shape in shapes]
        display = cls(shapes, limits=limits, target=position, label=label)
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        step_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        bar_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of Axes, default=None
            Axes to plot on, one for each shape. If None, a new figure is created.
        step_kwargs, band_kwargs, bar_kwargs : dict, default=None
            Keyword arguments passed to matplotlib's `stairs`, `stairs` and `barh`.

        Returns
        -------
        ShapeDisplay
            The display itself.
        """
        check_matplotlib(f"{type(self).__name__}.plot")
        if ax is None:
            self.axes_ = self._new_axes()
        else:
            self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
            if len(self.axes_) != len(self.shapes):
                raise ValueError(
                    f"ax must contain one Axes for each of {len(self.shapes)} features; got "
                    f"{len(self.axes_)}."
                )
        self.figure_ = self.axes_[0].figure
        panels: list[dict[str, Any]] = []
        limits = [None] * len(self.shapes) if self.limits is None else self.limits
        for axes, shape, limit in zip(self.axes_, self.shapes, limits, strict=True):
            if isinstance(shape, Pair):
                panels.append(self._draw_map(axes, shape))
            elif len(shape.cuts):
                styles = step_kwargs or {}, band_kwargs or {}
                panels.append(self._draw_steps(axes, shape, limit, *styles))
            else:
                panels.append(self._draw_bars(axes, shape, bar_kwargs or {}))
        self.steps_ = [artists.get("steps") for artists in panels]
        self.bands_ = [artists.get("band") for artists in panels]
        self.missing_ = [artists.get("missing") for artists in panels]
        self.bars_ = [artists.get("bars") for artists in panels]
        self.maps_ = [artists.get("map") for artists in panels]
        if not all(self.maps_):
            self._share_limits()
            self._add_legend(outside=ax is None)
        return self

    def _new_axes(self) -> NDArray[np.object_]:
        """Return the axes of a new figure, shape (n_shapes,), in rows of suitable heights."""
        import matplotlib.pyplot as plt

        n_columns = min(PANELS_PER_ROW, len(self.shapes))
        has_pairs = any(isinstance(shape, Pair) for shape in self.shapes)
        rows = [self.shapes[i : i + n_columns] for i in range(0, len(self.shapes), n_columns)]
        heights = [max(2.6, *map(self._panel_height, row)) for row in rows]  # in inches
        figure, grid = plt.subplots(
            len(heights),
            n_columns,
            figsize=((4.6 if has_pairs else 3.6) * n_columns, sum(heights)),
            height_ratios=heights,
            layout="constrained",
            squeeze=False,
        )
        for unused_axes in grid.ravel()[len(self.shapes) :]:
            figure.delaxes(unused_axes)
        return grid.ravel()[: len(self.shapes)]

    def _panel_height(self, shape: Shape | Pair) -> float:
        """Return the height of a panel in inches, which depends on its number of rows or bars."""
        if isinstance(shape, Pair):
            return 1.0 + 0.28 * len(heat_map(shape, self.target).y.cells)
        if len(shape.cuts):  # a step function has no bars
            return 0.8
        return 0.8 + 0.22 * len(self._bar_order(shape))

    def _bar_order(self, shape: Shape) -> list[int]:
        """Return the positions of a column's drawn bins, in order of increasing score.

        Bins for other values and for missing values are omitted if they contain no public row.
        """
        scores = shape.scores[self.target]
        shown_bins = [
            position
            for position, cell in enumerate(shape.cells)
            if shape.shares[position] or cell not in (OTHER, MISSING)
        ]
        return sorted(shown_bins, key=lambda position: scores[position])

    def _draw_steps(
        self,
        axes: Any,
        shape: Shape,
        limit: Limits | None,
        step_kwargs: dict[str, Any],
        band_kwargs: dict[str, Any],
    ) -> dict[str, Any]:
        """Draw a step function and its band, with the score of missing values beside them."""
        axes.set_title(plain_text(shape.name))
        scores = shape.scores[self.target]
        half_widths = BAND_DEVIATIONS * shape.deviations[self.target]
        low, high = find_limits(shape.cuts) if limit is None else limit
        edges = np.concatenate([[low], shape.cuts, [high]])
        style: dict[str, Any] = {"color": LIGHT, "fill": True, "linewidth": 0}
        style |= {"baseline": (scores - half_widths)[:-1]} | band_kwargs
        band = axes.stairs((scores + half_widths)[:-1], edges, **style)
        style = {"color": RELEASED, "linewidth": 1.8, "baseline": None} | step_kwargs
        steps = axes.stairs(scores[:-1], edges, **style)
        axes.axhline(0, color="0.6", linewidth=0.8, zorder=1.5)  # above the band, below the steps
        axes.set_xlim(low, high)
        axes.set_ylabel(plain_text(self.label))
        ticks = date_ticks(shape, low, high)
        if ticks:
            axes.set_xticks(*zip(*ticks, strict=True))
        missing = None
        has_missing = shape.shares[-1] > 0  # the last bin
        if has_missing:
            width = high - low
            ticks = ticks or [(tick, f"{tick:g}") for tick in axes.get_xticks()]
            # no ticks near the end, where their labels would overlap the text "missing"
            ticks = [(tick, text) for tick, text in ticks if low <= tick <= high - 0.1 * width]
            position = high + MISSING_SPACE / 2 * width
            style = {"color": RELEASED, "ecolor": LIGHT, "elinewidth": 6, "marker": "_"}
            missing = axes.errorbar(
                position, scores[-1], half_widths[-1], **style, markersize=14, markeredgewidth=1.8
            )
            axes.axvline(high, color="0.6", linestyle=":", linewidth=0.8)
            axes.set_xlim(low, high + MISSING_SPACE * width)
            axes.set_xticks(*zip(*ticks, (position, "missing"), strict=True))
        return {"steps": steps, "band": band, "missing": missing}

    def _draw_bars(self, axes: Any, shape: Shape, bar_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Draw the bars of a categorical column, with error bars."""
        axes.set_title(plain_text(shape.name))
        order = self._bar_order(shape)
        scores, deviations = shape.scores[self.target, order], shape.deviations[self.target, order]
        style: dict[str, Any] = {
            "color": RELEASED,
            "height": SHAPE_BAR_THICKNESS,
            "xerr": BAND_DEVIATIONS * deviations,
        }
        style |= {"ecolor": "0.35", "error_kw": {"elinewidth": 1}} | bar_kwargs
        bars = axes.barh(np.arange(len(order)), scores, **style)
        axes.axvline(0, color="0.6", linewidth=0.8)
        axes.set_ylim(-0.8, len(order) - 0.2)
        names = [plain_text(shape.cells[position]) for position in order]
        axes.set_yticks(np.arange(len(order)), names)
        axes.set_xlabel(plain_text(self.label))
        return {"bars": bars}

    def _draw_map(self, axes: Any, pair: Pair) -> dict[str, Any]:
        """Draw the heat map of a pair. All pairs have the same colour scale."""
        pairs = [shape for shape in self.shapes if isinstance(shape, Pair)]
        heat_maps = [heat_map(term, self.target) for term in pairs]
        max_score = max(np.abs(term.scores).max() for term in heat_maps) or 1.0
        title = " & ".join(pair.names)
        axes.set_title(plain_text(title))
        joined = heat_map(pair, self.target)
        image = draw_pair(
            axes, joined, max_score, band_deviations=BAND_DEVIATIONS, label=self.label
        )
        return {"map": image}

    def _add_legend(self, *, outside: bool) -> None:
        """Add one legend for all bands and error bars.

        The legend symbol is the band of the first step function, or the first error bar if there is
        none.
        """
        bands = zip(self.axes_, self.bands_, strict=True)
        bars_of_axes = zip(self.axes_, self.bars_, strict=True)
        handles = [(axes, band) for axes, band in bands if band]
        handles += [(axes, bars.errorbar) for axes, bars in bars_of_axes if bars]
        axes, handle = handles[0]
        if outside:
            owner, location = self.figure_, "outside lower center"
        else:
            owner, location = axes, "best"
        owner.legend([handle], [BAND_LABEL], frameon=False, fontsize="small", loc=location)

    def _share_limits(self) -> None:
        """Set the same score limits in all panels of single columns, to make them comparable."""
        lows, highs = [], []
        for shape in self.shapes:
            if isinstance(shape, Pair):
                continue
            bins = self._bar_order(shape)
            half_widths = BAND_DEVIATIONS * shape.deviations[self.target, bins]
            lows.append((shape.scores[self.target, bins] - half_widths).min())
            highs.append((shape.scores[self.target, bins] + half_widths).max())
        low, high = with_margin(min(lows), max(highs))
        for axes, bars, pair_map in zip(self.axes_, self.bars_, self.maps_, strict=True):
            if pair_map:
                continue
            set_limits = axes.set_ylim if bars is None else axes.set_xlim
            set_limits(low, high)


def date_ticks(shape: Shape, low: float, high: float) -> list[tuple[float, str]]:
    """Return up to three ticks (position, text) for the axis of a date column.

    Ticks are placed at the cuts nearest to 1/6, 1/2 and 5/6 of the axis. The text of a tick is the
    upper end of the bin below the cut, without the time of day. For a numeric column, the list is
    empty.

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
    # the bin with the same position ends at the cut; the last bins do not end at a cut
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

    If public `values`, shape (m,) with m > 0, are given, the limits do not extend beyond the
    smallest and the largest value.

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
    if values is not None and len(values):
        low, high = max(low, values.min()), min(high, values.max())
    return float(low), float(high)
