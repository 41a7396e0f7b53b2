"""CoefficientDisplay: the largest coefficients of a linear model, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skpublicdp.linear import SemiPrivateLinearRegression, SemiPrivateLogisticRegression
from skpublicdp.plotting.display import PUBLIC, RELEASED, Display, check_matplotlib, plain_text

MAX_COEFFICIENTS_DRAWN = 15
"""Default number of coefficients. Their names remain legible in a figure of normal size."""


@dataclass(eq=False, repr=False)
class CoefficientDisplay(Display):
    """Display of the largest coefficients of a linear model, per standard deviation of a column.

    Create a display with `from_estimator`. All displayed information is released or public.

    Parameters
    ----------
    effects : array-like of float, shape (n,)
        Coefficients times the public standard deviations of their columns, largest first.
    names : list of str
        Name of each coefficient.
    low, high : array-like of float, shape (n,), default=None
        Ends of the confidence intervals of the effects.
    quantity : str
        Quantity that the model predicts, for the label of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    points_ : matplotlib Line2D
        The effects.
    lines_ : matplotlib LineCollection or None
        The intervals, or ``None`` if they are not available.

    See Also
    --------
    skpublicdp.SemiPrivateLogisticRegression.summary : All coefficients as a table.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateLinearRegression
    >>> from skpublicdp.plotting import CoefficientDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, X_public = rng.normal(size=(5000, 3)), rng.normal(size=(300, 3))
    >>> y = X @ [0.5, 2.0, -1.0] + rng.normal(size=5000)
    >>> reg = SemiPrivateLinearRegression(outcome_bounds=(-8, 8), random_state=0)
    >>> display = CoefficientDisplay.from_estimator(reg.fit(X, y, X_public=X_public))
    >>> display.names
    ['x1', 'x2', 'x0']
    """

    effects: ArrayLike
    _: KW_ONLY
    names: Sequence[str]
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    quantity: str = "prediction"

    @classmethod
    def from_estimator(
        cls,
        estimator: SemiPrivateLogisticRegression | SemiPrivateLinearRegression,
        ax: Any = None,
        *,
        level: float = 0.95,
        n_coefficients: int = MAX_COEFFICIENTS_DRAWN,
        label: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the largest coefficients of a fitted linear model.

        Parameters
        ----------
        estimator : SemiPrivateLogisticRegression or SemiPrivateLinearRegression
            Fitted linear model.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        level : float, default=0.95
            Coverage of each interval.
        n_coefficients : int, default=15
            Maximum number of coefficients. Constant columns are omitted.
        label : object, default=None
            Label whose coefficients are drawn. It is required if there are more than two labels.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        CoefficientDisplay
            The display that was created. If intervals are available, the points are estimates
            without a prior (see `summary`). Otherwise, they are the coefficients in `coef_`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError
            If the estimator is not a linear model of this package.
        ValueError
            If there are more than two labels, and `label` is none of them.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        if not isinstance(estimator, SemiPrivateLogisticRegression | SemiPrivateLinearRegression):
            raise TypeError(
                "estimator must be a SemiPrivateLogisticRegression or a "
                f"SemiPrivateLinearRegression; got {type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        position = 0
        if np.size(estimator.intercept_) > 1:
            labels = estimator.classes_.tolist()
            if label not in labels:
                raise ValueError(f"label must be one of the labels {labels}; got {label!r}.")
            position = labels.index(label)
        table = estimator.summary(level)
        n_names = len(estimator.coef_names_)
        stop = (position + 1) * (n_names + bool(estimator.fit_intercept))
        rows = slice(stop - n_names, stop)
        columns = {
            name: np.asarray(table[name])[rows].astype(np.float64)
            for name in ("coefficient", "estimate", "low", "high")
        }
        scale = estimator._model.columns.scale
        has_intervals = bool(np.isfinite(columns["low"]).any())
        points = columns["estimate" if has_intervals else "coefficient"]
        varying = np.flatnonzero(np.isfinite(scale))
        effects = points[varying] * scale[varying]
        order = np.argsort(-np.abs(effects), kind="stable")[:n_coefficients]
        drawn = varying[order]
        ends: dict[str, Any] = {}
        if has_intervals:
            ends = {end: columns[end][drawn] * scale[drawn] for end in ("low", "high")}
        display = cls(
            effects[order],
            names=[str(name) for name in estimator.coef_names_[drawn]],
            quantity=estimator._predicted_quantity(position),
            **ends,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        point_kwargs: dict[str, Any] | None = None,
        line_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        point_kwargs, line_kwargs : dict, default=None
            Keyword arguments passed to matplotlib's `plot` and `hlines`.

        Returns
        -------
        CoefficientDisplay
            The display itself.
        """
        effects = np.asarray(self.effects, dtype=np.float64)
        rows = np.arange(len(effects))
        ax = self._set_axes(ax, figsize=(6, 1.5 + 0.25 * len(effects)), layout="constrained")
        ax.axvline(0, color=PUBLIC, linestyle="--", linewidth=1)
        self.lines_ = None
        if self.low is not None and self.high is not None:
            style = {"color": RELEASED, "linewidth": 1.5} | (line_kwargs or {})
            self.lines_ = ax.hlines(rows, self.low, self.high, **style)
        style = {"color": RELEASED, "marker": "o", "linestyle": "none"} | (point_kwargs or {})
        (self.points_,) = ax.plot(effects, rows, **style)
        ax.set_yticks(rows, [plain_text(name) for name in self.names])
        ax.invert_yaxis()
        ax.set_xlabel(plain_text(f"change of {self.quantity} per standard deviation"))
        return self
