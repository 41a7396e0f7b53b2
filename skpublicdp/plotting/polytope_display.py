"""PolytopeDisplay: the decision region of a polytope rule with two features."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.plotting.display import (
    LIGHT,
    PUBLIC,
    RELEASED,
    Display,
    check_matplotlib,
    plain_text,
    with_margin,
)
from skpublicdp.rules.ppm import PPMHalfspaceClassifier
from skpublicdp.typing import Floats

POINT_STYLES = ((PUBLIC, "o"), ("0.35", "x"))
"""Colours and markers for points with the first and the second label."""


@dataclass(eq=False, repr=False)
class PolytopeDisplay(Display):
    """Display of a rule with two features, showing its region, its edges and public points.

    Create a display with `from_estimator`. The rule is public, since it was drawn with differential
    privacy. The displayed points are not protected: **pass public rows only**.

    Parameters
    ----------
    vertices : ndarray of float, shape (n_vertices, 2)
        Corners of the region within the axis limits, in order. The region is empty if there are no
        vertices.
    limits : array-like of float, shape (2, 2)
        Smallest and largest value of each feature on the axes.
    label : label
        Predicted label of the region.
    X, y : array-like, shapes (n, 2) and (n,), default=None
        Public points to display, and their labels.
    feature_names : sequence of str, default=("x0", "x1")
        Names of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    region_ : matplotlib Polygon or None
        The shaded region.
    edges_ : list of matplotlib Line2D
        The lines, one for each edge of the region within the limits.
    points_ : list of matplotlib PathCollection
        The points, with one collection for each label.

    See Also
    --------
    PPMHalfspaceClassifier : The classifier whose rule is displayed.
    sklearn.inspection.DecisionBoundaryDisplay : Display of arbitrary rules.

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

    vertices: Floats
    limits: Floats
    label: Any
    _: KW_ONLY
    X: Any = None
    y: Any = None
    feature_names: Sequence[str] = ("x0", "x1")

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
            A fitted classifier with two features.
        X : array-like of float, shape (n, 2), default=None
            Points to display. The points are not protected: **pass public rows only**.
        y : array-like, shape (n,), default=None
            Labels of the points. Each label has its own colour and marker.
        feature_names : sequence of str, default=None
            Names of the axes; the default is the feature names of the classifier, or ``x0`` and
            ``x1``.
        limits : array-like of float, shape (2, 2), default=None
            Smallest and largest value of each feature on the axes; the default is the range of the
            points plus a margin. At least one of `X` and `limits` is required.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        PolytopeDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the classifier does not have two features, or if both `X` and `limits` are missing.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator, "halfspaces_")
        if estimator.n_features_in_ != 2:
            raise ValueError(
                f"{cls.__name__} draws rules with two features, but this classifier has "
                f"{estimator.n_features_in_} features. Print the classifier's hypothesis_ instead."
            )
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", ("x0", "x1"))
        if len(feature_names) != 2:
            raise ValueError(f"feature_names must contain two names; got {len(feature_names)}.")
        X, y = _check_points(X, y)
        if limits is None:
            if X is None:
                raise ValueError(
                    "The limits of the axes are unknown. Pass public points as X, or pass limits."
                )
            limits = np.stack(with_margin(X.min(axis=0), X.max(axis=0)), axis=1)
        limits = np.asarray(limits, dtype=np.float64)
        vertices, label = find_region(estimator, limits)
        names = tuple(map(str, feature_names))
        return cls(vertices, limits, label, X=X, y=y, feature_names=names).plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        region_kwargs: dict[str, Any] | None = None,
        edge_kwargs: dict[str, Any] | None = None,
        point_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        region_kwargs, edge_kwargs, point_kwargs : dict, default=None
            Keyword arguments passed to matplotlib's `fill`, `plot` and `scatter`.

        Returns
        -------
        PolytopeDisplay
            The display itself.
        """
        ax = self._set_axes(ax)
        self.region_ = None
        if len(self.vertices):
            style: dict[str, Any] = {"facecolor": LIGHT, "edgecolor": "none", "zorder": 0}
            style["label"] = f"predict {plain_text(self.label)}"
            style |= region_kwargs or {}
            (self.region_,) = ax.fill(*self.vertices.T, **style)
        edge_style = {"color": RELEASED, "zorder": 3} | (edge_kwargs or {})
        self.edges_ = self._draw_edges(ax, edge_style)
        self.points_ = self._draw_points(ax, point_kwargs or {})
        x_name = plain_text(self.feature_names[0])
        y_name = plain_text(self.feature_names[1])
        ax.set(xlim=self.limits[0], ylim=self.limits[1], xlabel=x_name, ylabel=y_name)
        return self

    def _draw_edges(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        """Draw the edges of the region that do not lie on the frame, and return their lines."""
        lines = []
        next_vertices = np.roll(self.vertices, -1, axis=0)
        for start, end in zip(self.vertices, next_vertices, strict=True):
            # a coordinate is constant along the edge, and equals one of its two limits
            is_constant = start == end
            is_limit = start[:, None] == self.limits  # (2, 2)
            on_frame = is_constant[:, None] & is_limit
            if not on_frame.any():
                lines += ax.plot(*np.stack([start, end], axis=1), **style)
        return lines

    def _draw_points(self, ax: Any, point_kwargs: dict[str, Any]) -> list[Any]:
        """Draw the public points, and return one matplotlib collection for each label."""
        if self.X is None:
            return []
        points_of_name = {"public points": self.X}
        if self.y is not None:
            points_of_name = {
                f"public: {label}": self.X[self.y == label] for label in np.unique(self.y)
            }
        collections = []
        styles = itertools.cycle(POINT_STYLES)
        for (name, points), (colour, marker) in zip(points_of_name.items(), styles, strict=False):
            style = {
                "s": 12,
                "color": colour,
                "marker": marker,
                "label": plain_text(name),
            } | point_kwargs
            collections.append(ax.scatter(*points.T, **style))
        return collections


def _check_points(X: Any, y: Any) -> tuple[Any, Any]:
    """Return public points as floats of shape (n, 2) and their labels, or None if not given."""
    if X is None:
        return None, y
    X = check_array(X, dtype=np.float64)
    if X.shape[1] != 2:
        raise ValueError(f"X must have two columns; got {X.shape[1]}.")
    if y is not None:
        y = np.asarray(y)
        check_consistent_length(X, y)
    return X, y


def find_region(estimator: PPMHalfspaceClassifier, limits: Floats) -> tuple[Floats, Any]:
    """Return the vertices of a rule's region within limits, shape (n, 2), and its label.

    The label is the prediction inside the region, or None if there is only one label. This is the
    label other than `private_label`, except for some boxes and for some rules with more than five
    halfspaces.
    """
    private_label = estimator.classes_[-1]
    if estimator.private_label is not None:
        private_label = estimator.private_label
    region_labels = [label for label in estimator.classes_.tolist() if label != private_label]
    vertices = clip_rectangle(*estimator.halfspaces_, limits)
    # without halfspaces, the rule is constant
    is_constant = not len(estimator.halfspaces_[1])
    if is_constant and estimator.predict(vertices[:1])[0] not in region_labels:
        vertices = vertices[:0]
    label = region_labels[0] if region_labels else None
    hypothesis = cast(Polytope, estimator.hypothesis_)
    if not is_constant and hypothesis.inside:  # the private label is inside
        label = private_label
    return vertices, label


def clip_rectangle(normals: Floats, offsets: Floats, limits: Floats) -> Floats:
    """Return, in order, the vertices of the intersection of a rectangle and halfspaces.

    The rectangle is clipped by one halfspace after another (Sutherland and Hodgman 1974).

    Parameters
    ----------
    normals : ndarray of float, shape (n_halfspaces, 2)
        Normals, pointing inwards.
    offsets : ndarray of float, shape (n_halfspaces,)
        The intersection is the set of points with ``normals @ point >= offsets``.
    limits : ndarray of float, shape (2, 2)
        Smallest and largest value of each coordinate of the rectangle.

    Returns
    -------
    ndarray of float, shape (n_vertices, 2)
        Vertices of the intersection, which has none if it is empty.

    Examples
    --------
    >>> clip_rectangle(np.array([[1.0, 1.0]]), np.array([1.0]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    array([[1., 0.],
           [1., 1.],
           [0., 1.]])
    """
    (left, right), (bottom, top) = limits
    corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], dtype=float)
    largest = np.abs(limits).max(axis=1)
    for normal, offset in zip(normals, offsets, strict=True):
        heights = corners @ normal - offset  # above 0 inside of the halfspace
        # up to rounding, corners created by the opposite halfspace lie on this line
        tolerance = 1e-9 * float(largest @ np.abs(normal))
        heights[np.abs(heights) <= tolerance] = 0
        # edges from each corner to the next one, and from the last to the first
        next_corners = np.roll(corners, -1, axis=0)
        next_heights = np.roll(heights, -1)
        clipped = []
        for corner, height, next_corner, next_height in zip(
            corners, heights, next_corners, next_heights, strict=True
        ):
            if height >= 0:
                clipped.append(corner)
            if height * next_height < 0:  # the edge crosses the line
                fraction = height / (height - next_height)
                clipped.append(corner + fraction * (next_corner - corner))
        corners = np.array(clipped).reshape(-1, 2)
    return corners
