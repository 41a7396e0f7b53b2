"""PolytopeDisplay: decision region of a polytope rule with two features."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from skpublicdp.plotting.style import LIGHT, PUBLIC, RELEASED, axes_for, check_matplotlib
from skpublicdp.rules.ppm import PPMHalfspaceClassifier
from skpublicdp.typing import Floats

POINT_STYLES = ((PUBLIC, "o"), ("0.35", "x"))
"""Colour and marker of the points of the first and of the second label."""

MARGIN = 0.05
"""Margin around the points, as a fraction of their extent."""


class PolytopeDisplay:
    """Display of a rule with two features: its region, its edges and public points.

    Make one with `from_estimator`. The rule is public: it was drawn with differential privacy.
    The points are shown as they are, so **pass public rows only**. Nothing here can tell them from
    private ones.

    Parameters
    ----------
    vertices : ndarray of float, shape (n_vertices, 2)
        Corners, in order, of the part of the region that is within the limits; none where nothing
        is.
    limits : array-like of float, shape (2, 2)
        Least and largest value of each feature in the picture.
    label : label
        Label that the region gets.
    X, y : array-like, shapes (n, 2) and (n,), default=None
        Public points to show and their labels.
    feature_names : sequence of str, default=("x0", "x1")
        Names of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    region_ : matplotlib Polygon or None
        The shaded region.
    edges_ : list of matplotlib Line2D
        A line for each edge in the picture.
    points_ : list of matplotlib PathCollection
        The points, a collection for each label.

    See Also
    --------
    PPMHalfspaceClassifier : The classifier that is shown.
    sklearn.inspection.DecisionBoundaryDisplay : For any other rule.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from skpublicdp import PPMHalfspaceClassifier
    >>> from skpublicdp.plotting import PolytopeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = np.where(X @ [1, 2] > 1, "positive", "negative")
    >>> clf = PPMHalfspaceClassifier(private_label="negative", random_state=0).fit(X, y)
    >>> public = y == "positive"
    >>> display = PolytopeDisplay.from_estimator(clf, X[public], y[public])
    >>> display.ax_.get_xlabel()
    'x0'
    """

    def __init__(
        self,
        vertices: Floats,
        limits: Floats,
        label: Any,
        *,
        X: Any = None,
        y: Any = None,
        feature_names: Sequence[str] = ("x0", "x1"),
    ) -> None:
        self.vertices = vertices
        self.limits = limits
        self.label = label
        self.X = X
        self.y = y
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator: PPMHalfspaceClassifier,
        X: Any = None,
        y: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        limits: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the rule of a fitted classifier.

        Parameters
        ----------
        estimator : PPMHalfspaceClassifier
            Fitted on two features.
        X : array-like of float, shape (n, 2), default=None
            Points to show. They are not protected: **public rows only**.
        y : array-like, shape (n,), default=None
            Their labels, which get a colour and a marker each.
        feature_names : sequence of str, default=None
            Names of the axes; by default the classifier's, or ``x0`` and ``x1``.
        limits : array-like of float, shape (2, 2), default=None
            Least and largest value of each feature in the picture; by default around the points.
            One of `X` and `limits` is needed.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        PolytopeDisplay
            The picture.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the classifier has not two features, or there is nothing to set the limits by.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator, "halfspaces_")
        if estimator.n_features_in_ != 2:
            raise ValueError(
                f"{cls.__name__} draws rules with two features; this classifier has "
                f"{estimator.n_features_in_}. Print its hypothesis_ instead."
            )
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", ("x0", "x1"))
        if len(feature_names) != 2:
            raise ValueError(f"feature_names must be two names; got {len(feature_names)}.")
        if X is not None:
            X = check_array(X, dtype=np.float64)
            if X.shape[1] != 2:
                raise ValueError(f"X must have two columns; got {X.shape[1]}.")
            if y is not None:
                y = np.asarray(y)
                check_consistent_length(X, y)
        if limits is None:
            if X is None:
                raise ValueError("Pass public points as X, or limits, to say what to show.")
            limits = limits_around(X)
        limits = np.asarray(limits, dtype=np.float64)
        private = estimator.classes_[-1]
        if estimator.private_label is not None:
            private = estimator.private_label
        others = [label for label in estimator.classes_.tolist() if label != private]
        vertices = clip_rectangle(*estimator.halfspaces_, limits)
        # without a halfspace one label is everywhere, and any point tells which
        if not len(estimator.halfspaces_[1]) and estimator.predict(vertices[:1])[0] not in others:
            vertices = vertices[:0]
        display = cls(
            vertices,
            limits,
            others[0] if others else None,
            X=X,
            y=y,
            feature_names=tuple(map(str, feature_names)),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        region_kwargs: dict[str, Any] | None = None,
        edge_kwargs: dict[str, Any] | None = None,
        point_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        region_kwargs, edge_kwargs, point_kwargs : dict, default=None
            Passed to matplotlib's `fill`, `plot` and `scatter`.

        Returns
        -------
        PolytopeDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        self.region_ = None
        if len(self.vertices):
            style: dict[str, Any] = {"facecolor": LIGHT, "edgecolor": "none", "zorder": 0}
            style |= {"label": f"predict {self.label}"} | (region_kwargs or {})
            (self.region_,) = ax.fill(*self.vertices.T, **style)
        self.edges_ = self._draw_edges(ax, {"color": RELEASED, "zorder": 3} | (edge_kwargs or {}))
        self.points_ = self._draw_points(ax, point_kwargs or {})
        ax.set(xlim=self.limits[0], ylim=self.limits[1])
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        return self

    def _draw_edges(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        """Draw the edges of the region that are not edges of the picture."""
        lines = []
        for start, end in zip(self.vertices, np.roll(self.vertices, -1, axis=0), strict=True):
            on_frame = (start == end)[:, None] & (start[:, None] == self.limits)
            if not on_frame.any():
                lines += ax.plot(*np.stack([start, end], axis=1), **style)
        return lines

    def _draw_points(self, ax: Any, given: dict[str, Any]) -> list[Any]:
        if self.X is None:
            return []
        if self.y is None:
            parts = [("public points", self.X)]
        else:
            parts = [(f"public: {label}", self.X[self.y == label]) for label in np.unique(self.y)]
        return [
            ax.scatter(
                *part.T, **{"s": 12, "color": colour, "marker": marker, "label": name} | given
            )
            for (name, part), (colour, marker) in zip(
                parts, itertools.cycle(POINT_STYLES), strict=False
            )
        ]


def limits_around(X: Floats) -> Floats:
    """Return the limits of points with a margin."""
    low, high = X.min(axis=0), X.max(axis=0)
    margin = np.where(high > low, MARGIN * (high - low), 1.0)
    return np.stack([low - margin, high + margin], axis=1)


def clip_rectangle(normals: Floats, offsets: Floats, limits: Floats) -> Floats:
    """Return the ordered vertices of a rectangle intersected with halfspaces.

    Parameters
    ----------
    normals : ndarray of float, shape (n_halfspaces, 2)
        Normals, pointing inwards.
    offsets : ndarray of float, shape (n_halfspaces,)
        A point is kept where ``normals @ point >= offsets``.
    limits : ndarray of float, shape (2, 2)
        Least and largest value of either coordinate.

    Returns
    -------
    ndarray of float, shape (n_corners, 2)
        Corners; none where nothing is left.

    Examples
    --------
    >>> clip_rectangle(np.array([[1.0, 1.0]]), np.array([1.0]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    array([[1., 0.],
           [1., 1.],
           [0., 1.]])
    """
    (left, right), (bottom, top) = limits
    corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], dtype=float)
    for normal, offset in zip(normals, offsets, strict=True):
        heights = corners @ normal - offset
        # corners that an opposite halfspace has left are on this line, up to rounding
        slack = 1e-9 * float(np.abs(limits).max(axis=1) @ np.abs(normal))
        heights[np.abs(heights) <= slack] = 0
        kept = []
        for here, there in zip(range(len(corners)), np.roll(range(len(corners)), -1), strict=True):
            if heights[here] >= 0:
                kept.append(corners[here])
            if heights[here] * heights[there] < 0:
                share = heights[here] / (heights[here] - heights[there])
                kept.append(corners[here] + share * (corners[there] - corners[here]))
        corners = np.array(kept).reshape(-1, 2)
    return corners
