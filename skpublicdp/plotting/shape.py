"""ShapeDisplay: shape functions and pair terms of a boosting model, with noise bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skpublicdp.boosting.explain import Pair, Shape
from skpublicdp.data.schema import MISSING, OTHER
from skpublicdp.plotting.axis_limits import Limits, date_ticks, find_limits
from skpublicdp.plotting.heat_map import draw_pair, heat_map
from skpublicdp.plotting.shape_selection import Boosting, Feature, find_shapes, find_target
from skpublicdp.plotting.style import LIGHT, RELEASED, check_matplotlib

PANELS_PER_ROW = 3
"""Number of panels per row of a new figure."""

BAND_DEVIATIONS = 2
"""Half-width of a noise band, in standard deviations."""

SHAPE_BAR_THICKNESS = 0.7
"""Thickness of a bar, as a fraction of the space of a category."""

BAND_LABEL = f"± {BAND_DEVIATIONS} standard deviations"


class ShapeDisplay:
    """Display of the shape functions and pair terms of a boosting model.

    Make one with `from_estimator`. All that is shown was released with differential privacy or is
    of public rows. A numeric column is a step function, a categorical one has a bar for each
    category; missing values are shown apart, where public rows have them. Bands and error bars are
    two standard deviations of what is believed of a score beside an average public row. A pair,
    which is what trees of two columns add, is a heat map with both written in its fields; where it
    has many fields, those that are less than two standard deviations from 0 are hatched.

    Parameters
    ----------
    shapes : sequence of Shape or Pair
        What is drawn, a panel for each, as in `shapes_` and `pairs_` of the model.
    limits : sequence of pair of float or None, default=None
        Where the step function of each begins and ends; by default a cell's width outside its cuts.
    target : int, default=0
        Which scores of each shape are drawn: a position among `n_targets`.
    label : str, default="log-odds"
        What the scores add to.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (n_shapes,)
        Where they were drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    steps_ : list of matplotlib StepPatch or None
        Step functions, ``None`` for columns with bars.
    bands_ : list of matplotlib StepPatch or None
        Their bands.
    missing_ : list of matplotlib ErrorbarContainer or None
        Scores of missing numbers, where public rows have them.
    bars_ : list of matplotlib BarContainer or None
        Bars, that of the highest score on top; ``None`` for columns with steps.
    maps_ : list of matplotlib QuadMesh or None
        Heat maps, ``None`` for single columns.

    See Also
    --------
    skpublicdp.SemiPrivateBoostingClassifier : Shapes add to log-odds.
    skpublicdp.SemiPrivateBoostingRegressor : Shapes add to the mean outcome.

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

    def __init__(
        self,
        shapes: Sequence[Shape | Pair],
        *,
        limits: Sequence[Limits | None] | None = None,
        target: int = 0,
        label: str = "log-odds",
    ) -> None:
        self.shapes = shapes
        self.limits = limits
        self.target = target
        self.label = label

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
        """Draw the shapes of a fitted model.

        Parameters
        ----------
        clf : SemiPrivateBoostingClassifier or SemiPrivateBoostingRegressor
            Fitted.
        features : str, int or sequence of these or of pairs of these, default=None
            Names or positions of columns, in the order of the panels; a tuple of two is a pair. By
            default the six columns and pairs that add most, the most important one first.
        target : label, default=None
            One of `classes_`, whose log-odds are drawn. By default the second of two; where there
            are more it must be given. A regressor has none.
        ax : matplotlib Axes or sequence of Axes, default=None
            Where to draw, one for each feature; by default a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        ShapeDisplay
            The picture.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the model has no shapes, or there is no such column, pair or label.
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
                f"{cls.__name__} draws what single columns and pairs add; this model has nothing "
                "but other trees, which are in trees_."
            )
        shapes = find_shapes(clf, features)
        position, sign, label = find_target(clf, target)
        columns = [feature.column for feature in clf._binner.columns]
        public = {shape: column.values for shape, column in zip(clf.shapes_, columns, strict=True)}
        display = cls(
            shapes if sign > 0 else [replace(shape, scores=-shape.scores) for shape in shapes],
            limits=[
                find_limits(shape.cuts, public[shape])
                if shape in public and len(shape.cuts)
                else None
                for shape in shapes
            ],
            target=position,
            label=label,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        step_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        bar_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of Axes, default=None
            Where to draw, one for each shape; by default a new figure.
        step_kwargs, band_kwargs, bar_kwargs : dict, default=None
            Passed to matplotlib's `stairs`, `stairs` and `barh`.

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
                    f"ax must hold one Axes for each of {len(self.shapes)} features; got "
                    f"{len(self.axes_)}."
                )
        self.figure_ = self.axes_[0].figure
        self.steps_: list[Any] = []
        self.bands_: list[Any] = []
        self.missing_: list[Any] = []
        self.bars_: list[Any] = []
        self.maps_: list[Any] = []
        styles = step_kwargs or {}, band_kwargs or {}, bar_kwargs or {}
        limits = [None] * len(self.shapes) if self.limits is None else self.limits
        for axes, shape, limit in zip(self.axes_, self.shapes, limits, strict=True):
            if isinstance(shape, Pair):
                self._draw_map(axes, shape)
                continue
            self.maps_.append(None)
            axes.set_title(shape.name)
            if len(shape.cuts):
                self._draw_steps(axes, shape, limit, *styles[:2])
            else:
                self._draw_bars(axes, shape, styles[2])
        if not all(self.maps_):
            self._share_limits()
            self._explain_bands(outside=ax is None)
        return self

    def _new_axes(self) -> NDArray[np.object_]:
        """Return a grid of axes whose row heights fit the longest list of categories."""
        import matplotlib.pyplot as plt

        across = min(PANELS_PER_ROW, len(self.shapes))
        pairs = any(isinstance(shape, Pair) for shape in self.shapes)
        heights = [
            max(2.6, *map(self._height, row))
            for row in (self.shapes[i : i + across] for i in range(0, len(self.shapes), across))
        ]
        figure, grid = plt.subplots(
            len(heights),
            across,
            figsize=((4.6 if pairs else 3.6) * across, sum(heights)),
            height_ratios=heights,
            layout="constrained",
            squeeze=False,
        )
        for spare in grid.ravel()[len(self.shapes) :]:
            figure.delaxes(spare)
        return grid.ravel()[: len(self.shapes)]

    def _height(self, shape: Shape | Pair) -> float:
        """Return the height of a panel, in inches."""
        if isinstance(shape, Pair):
            return 1.0 + 0.28 * len(heat_map(shape, self.target).y.cells)
        return 0.8 + 0.22 * len(self._bars_shown(shape)) * (not len(shape.cuts))

    def _bars_shown(self, shape: Shape) -> list[int]:
        """Return the bins with bars, without empty bins for other and missing values."""
        scores = shape.scores[self.target]
        shown = [
            k
            for k, cell in enumerate(shape.cells)
            if shape.shares[k] or cell not in (OTHER, MISSING)
        ]
        return sorted(shown, key=lambda k: scores[k])

    def _draw_steps(
        self,
        axes: Any,
        shape: Shape,
        limit: Limits | None,
        step_kwargs: dict[str, Any],
        band_kwargs: dict[str, Any],
    ) -> None:
        scores, halves = shape.scores[self.target], BAND_DEVIATIONS * shape.deviations[self.target]
        low, high = find_limits(shape.cuts) if limit is None else limit
        edges = np.concatenate([[low], shape.cuts, [high]])
        style: dict[str, Any] = {"color": LIGHT, "fill": True, "linewidth": 0}
        style |= {"baseline": (scores - halves)[:-1]} | band_kwargs
        self.bands_.append(axes.stairs((scores + halves)[:-1], edges, **style))
        style = {"color": RELEASED, "linewidth": 1.8, "baseline": None} | step_kwargs
        self.steps_.append(axes.stairs(scores[:-1], edges, **style))
        self.bars_.append(None)
        axes.axhline(0, color="0.6", linewidth=0.8, zorder=1.5)  # over the band, under the steps
        axes.set_xlim(low, high)
        axes.set_ylabel(self.label)
        ticks = date_ticks(shape, low, high)
        if ticks:
            axes.set_xticks(*zip(*ticks, strict=True))
        missing = None
        if shape.shares[-1]:
            width = high - low
            ticks = ticks or [(tick, f"{tick:g}") for tick in axes.get_xticks()]
            ticks = [(tick, text) for tick, text in ticks if low <= tick <= high - 0.1 * width]
            place = high + 0.14 * width
            style = {"color": RELEASED, "ecolor": LIGHT, "elinewidth": 6, "marker": "_"}
            missing = axes.errorbar(
                place, scores[-1], halves[-1], **style, markersize=14, markeredgewidth=1.8
            )
            axes.axvline(high, color="0.6", linestyle=":", linewidth=0.8)
            axes.set_xlim(low, high + 0.28 * width)
            axes.set_xticks(*zip(*ticks, (place, "missing"), strict=True))
        self.missing_.append(missing)

    def _draw_bars(self, axes: Any, shape: Shape, bar_kwargs: dict[str, Any]) -> None:
        shown = self._bars_shown(shape)
        scores, deviations = shape.scores[self.target, shown], shape.deviations[self.target, shown]
        style: dict[str, Any]
        style = {
            "color": RELEASED,
            "height": SHAPE_BAR_THICKNESS,
            "xerr": BAND_DEVIATIONS * deviations,
        }
        style |= {"ecolor": "0.35", "error_kw": {"elinewidth": 1}} | bar_kwargs
        self.bars_.append(axes.barh(np.arange(len(shown)), scores, **style))
        for parts in (self.steps_, self.bands_, self.missing_):
            parts.append(None)
        axes.axvline(0, color="0.6", linewidth=0.8)
        axes.set_ylim(-0.8, len(shown) - 0.2)
        axes.set_yticks(np.arange(len(shown)), [shape.cells[k] for k in shown])
        axes.set_xlabel(self.label)

    def _draw_map(self, axes: Any, pair: Pair) -> None:
        found = [heat_map(one, self.target) for one in self.shapes if isinstance(one, Pair)]
        limit = max(np.abs(one.scores).max() for one in found) or 1.0
        axes.set_title(" & ".join(pair.names))
        drawn = draw_pair(axes, heat_map(pair, self.target), limit, BAND_DEVIATIONS, self.label)
        self.maps_.append(drawn)
        for parts in (self.steps_, self.bands_, self.missing_, self.bars_):
            parts.append(None)

    def _explain_bands(self, *, outside: bool) -> None:
        """Add one legend for bands and error bars."""
        drawn = zip(self.bands_, self.bars_, strict=True)
        handles = [band or (bars and bars.errorbar) for band, bars in drawn]
        ranked = [*self.bands_, *handles]
        first = next(k for k, handle in enumerate(ranked) if handle) % len(handles)
        where = {"loc": "outside lower center"} if outside else {"loc": "best"}
        on = self.figure_ if outside else self.axes_[first]
        on.legend([handles[first]], [BAND_LABEL], frameon=False, fontsize="small", **where)

    def _share_limits(self) -> None:
        """Use the same score limits in all panels."""
        drawn = [
            (shape.scores[self.target, cells], shape.deviations[self.target, cells])
            for shape in self.shapes
            if not isinstance(shape, Pair)
            for cells in [self._bars_shown(shape)]
        ]
        low = min((scores - BAND_DEVIATIONS * half).min() for scores, half in drawn)
        high = max((scores + BAND_DEVIATIONS * half).max() for scores, half in drawn)
        margin = 0.05 * (high - low) or 1.0
        for axes, bars, drawn in zip(self.axes_, self.bars_, self.maps_, strict=True):
            if drawn:
                continue
            set_limits = axes.set_ylim if bars is None else axes.set_xlim
            set_limits(low - margin, high + margin)
