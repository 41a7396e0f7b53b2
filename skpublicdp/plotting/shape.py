"""ShapeDisplay: what each column adds to log-odds or a mean outcome, with its noise band."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpublicdp.data.columns import MISSING, OTHER
from skpublicdp.plotting.style import LIGHT, RELEASED, check_matplotlib

PANELS = 6
"""Most features that are drawn unless they are named."""

ACROSS = 3
"""Panels in a row of a new figure."""

DEVIATIONS = 2
"""Half the width of a band, in standard deviations."""

THICKNESS = 0.7
"""Of a bar, as a share of the room of a category."""

BAND = f"± {DEVIATIONS} standard deviations"


class ShapeDisplay:
    """Picture of the shapes of a boosting model: what each column adds to what is predicted.

    Make one with `from_estimator`. All that is shown was released with differential privacy or is
    of public rows. A numeric column is a step function, a categorical one has a bar for each
    category; missing values are shown apart, where public rows have them. Bands and error bars are
    two standard deviations of what is believed of a score beside an average public row.

    Parameters
    ----------
    shapes : sequence of Shape
        What is drawn, a panel for each, as in `shapes_` of the model.
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

    def __init__(self, shapes, *, limits=None, target=0, label="log-odds"):
        self.shapes = shapes
        self.limits = limits
        self.target = target
        self.label = label

    @classmethod
    def from_estimator(cls, clf, features=None, *, target=None, ax=None, **kwargs):
        """Draw the shapes of a fitted model.

        Parameters
        ----------
        clf : SemiPrivateBoostingClassifier or SemiPrivateBoostingRegressor
            Fitted.
        features : str, int or sequence of these, default=None
            Names or positions of columns, in the order of the panels. By default the six with the
            largest `feature_importances_`, the most important one first.
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
            If the model has no shapes, or there is no such column or label.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(clf)
        if not hasattr(clf, "shapes_"):
            raise ValueError(
                f"{cls.__name__} draws a SemiPrivateBoostingClassifier or "
                f"SemiPrivateBoostingRegressor; got {type(clf).__name__}."
            )
        if not any(shape.deviations.any() for shape in clf.shapes_):
            raise ValueError(
                f"{cls.__name__} draws what single columns add; this model has nothing but "
                "trees, which are in trees_."
            )
        positions = find_features(clf, features)
        position, sign, label = find_target(clf, target)
        shapes = [clf.shapes_[place] for place in positions]
        public = [clf._features.features[place].column.values for place in positions]
        display = cls(
            shapes if sign > 0 else [replace(shape, scores=-shape.scores) for shape in shapes],
            limits=[
                find_limits(shape.cuts, values) if len(shape.cuts) else None
                for shape, values in zip(shapes, public, strict=True)
            ],
            target=position,
            label=label,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, step_kwargs=None, band_kwargs=None, bar_kwargs=None):
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
        self.steps_, self.bands_, self.missing_, self.bars_ = [], [], [], []
        styles = step_kwargs or {}, band_kwargs or {}, bar_kwargs or {}
        limits = [None] * len(self.shapes) if self.limits is None else self.limits
        for axes, shape, limit in zip(self.axes_, self.shapes, limits, strict=True):
            axes.set_title(shape.name)
            if len(shape.cuts):
                self._draw_steps(axes, shape, limit, *styles[:2])
            else:
                self._draw_bars(axes, shape, styles[2])
        self._share_limits()
        self._explain_bands(outside=ax is None)
        return self

    def _new_axes(self):
        """Return axes in a grid, whose rows are as high as their longest list of categories."""
        import matplotlib.pyplot as plt

        across = min(ACROSS, len(self.shapes))
        heights = [
            max(
                2.6,
                *(0.8 + 0.22 * len(self._shown(shape)) * (not len(shape.cuts)) for shape in row),
            )
            for row in (self.shapes[i : i + across] for i in range(0, len(self.shapes), across))
        ]
        figure, grid = plt.subplots(
            len(heights),
            across,
            figsize=(3.6 * across, sum(heights)),
            height_ratios=heights,
            layout="constrained",
            squeeze=False,
        )
        for spare in grid.ravel()[len(self.shapes) :]:
            figure.delaxes(spare)
        return grid.ravel()[: len(self.shapes)]

    def _shown(self, shape):
        """Return the cells with bars: nobody need see that there might have been other ones."""
        scores = shape.scores[self.target]
        shown = [
            k
            for k, cell in enumerate(shape.cells)
            if shape.shares[k] or cell not in (OTHER, MISSING)
        ]
        return sorted(shown, key=lambda k: scores[k])

    def _draw_steps(self, axes, shape, limit, step_kwargs, band_kwargs):
        scores, halves = shape.scores[self.target], DEVIATIONS * shape.deviations[self.target]
        low, high = find_limits(shape.cuts) if limit is None else limit
        edges = np.concatenate([[low], shape.cuts, [high]])
        style = {"color": LIGHT, "fill": True, "linewidth": 0}
        style |= {"baseline": (scores - halves)[:-1]} | band_kwargs
        self.bands_.append(axes.stairs((scores + halves)[:-1], edges, **style))
        style = {"color": RELEASED, "linewidth": 1.8, "baseline": None} | step_kwargs
        self.steps_.append(axes.stairs(scores[:-1], edges, **style))
        self.bars_.append(None)
        axes.axhline(0, color="0.6", linewidth=0.8, zorder=1.5)  # over the band, under the steps
        axes.set_xlim(low, high)
        axes.set_ylabel(self.label)
        missing = None
        if shape.shares[-1]:
            width = high - low
            ticks = [tick for tick in axes.get_xticks() if low <= tick <= high - 0.1 * width]
            place = high + 0.14 * width
            style = {"color": RELEASED, "ecolor": LIGHT, "elinewidth": 6, "marker": "_"}
            missing = axes.errorbar(
                place, scores[-1], halves[-1], **style, markersize=14, markeredgewidth=1.8
            )
            axes.axvline(high, color="0.6", linestyle=":", linewidth=0.8)
            axes.set_xlim(low, high + 0.28 * width)
            axes.set_xticks([*ticks, place], [*(f"{tick:g}" for tick in ticks), "missing"])
        self.missing_.append(missing)

    def _draw_bars(self, axes, shape, bar_kwargs):
        shown = self._shown(shape)
        scores, deviations = shape.scores[self.target, shown], shape.deviations[self.target, shown]
        style = {"color": RELEASED, "height": THICKNESS, "xerr": DEVIATIONS * deviations}
        style |= {"ecolor": "0.35", "error_kw": {"elinewidth": 1}} | bar_kwargs
        self.bars_.append(axes.barh(np.arange(len(shown)), scores, **style))
        for parts in (self.steps_, self.bands_, self.missing_):
            parts.append(None)
        axes.axvline(0, color="0.6", linewidth=0.8)
        axes.set_ylim(-0.8, len(shown) - 0.2)
        axes.set_yticks(np.arange(len(shown)), [shape.cells[k] for k in shown])
        axes.set_xlabel(self.label)

    def _explain_bands(self, *, outside):
        """Say once what bands and error bars are."""
        drawn = zip(self.bands_, self.bars_, strict=True)
        handles = [band or bars.errorbar for band, bars in drawn]
        first = next((k for k, band in enumerate(self.bands_) if band), 0)
        where = {"loc": "outside lower center"} if outside else {"loc": "best"}
        on = self.figure_ if outside else self.axes_[first]
        on.legend([handles[first]], [BAND], frameon=False, fontsize="small", **where)

    def _share_limits(self):
        """Give the scores of all panels one scale, so that they compare."""
        drawn = [
            (shape.scores[self.target, cells], shape.deviations[self.target, cells])
            for shape in self.shapes
            for cells in [self._shown(shape)]
        ]
        low = min((scores - DEVIATIONS * half).min() for scores, half in drawn)
        high = max((scores + DEVIATIONS * half).max() for scores, half in drawn)
        margin = 0.05 * (high - low) or 1.0
        for axes, bars in zip(self.axes_, self.bars_, strict=True):
            set_limits = axes.set_ylim if bars is None else axes.set_xlim
            set_limits(low - margin, high + margin)


def find_features(clf, features):
    """Return the positions of the columns to draw."""
    n = len(clf.shapes_)
    if features is None:
        return np.argsort(-clf.feature_importances_, kind="stable")[:PANELS].tolist()
    if isinstance(features, str) or not np.iterable(features):
        features = [features]
    names = [shape.name for shape in clf.shapes_]
    positions = []
    for feature in features:
        if isinstance(feature, str) and feature in names:
            positions.append(names.index(feature))
        elif isinstance(feature, Integral) and 0 <= feature < n:
            positions.append(int(feature))
        else:
            raise ValueError(
                f"A feature must be given by its name or by its position below {n}; got "
                f"{feature!r}."
            )
    if not positions:
        raise ValueError("features must name at least one column.")
    return positions


def find_target(clf, target):
    """Return which scores are to be drawn, with which sign, and what they add to."""
    if not hasattr(clf, "classes_"):
        if target is not None:
            raise ValueError("target is a label, and a regressor has none; leave it out.")
        return 0, 1, "mean outcome"
    labels = clf.classes_.tolist()
    if target is None and len(labels) == 2:
        target = labels[1]
    if target not in labels:
        raise ValueError(f"target must be one of the labels {labels}; got {target!r}.")
    label = f"log-odds of {target}"
    if len(labels) == 2:
        return 0, 1 if target == labels[1] else -1, label
    return labels.index(target), 1, label


def find_limits(cuts, values=None):
    """Return where to begin and to end: the next cell's width away, or at the last public value.

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
