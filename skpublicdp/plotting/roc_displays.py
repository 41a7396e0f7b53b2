"""Displays of ROC curves for a release, with a confidence band, and for a tracing attack."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skpublicdp.plotting.display import (
    GREY,
    LIGHT,
    RELEASED,
    Display,
    check_matplotlib,
    plain_text,
)
from skpublicdp.typing import Floats

if TYPE_CHECKING:
    from skpublicdp.audit.tracing import TracingAttack
    from skpublicdp.metrics.scores import PrivateScores


@dataclass(eq=False, repr=False)
class ScoresDisplay(Display):
    """Display of a released ROC curve with its confidence band.

    Create a display with `from_scores`, or with the `plot` method of the release.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        False and true positive rates.
    band : ndarray of shape (n_points, 2)
        Ends of the simultaneous confidence band of the true positive rates.
    level : float
        Confidence level of the band.
    label : str
        Legend label of the curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection
        The confidence band.

    See Also
    --------
    skpublicdp.metrics.private_scores : Releases the displayed curve.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp.metrics import private_scores
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = X[:, 0] + rng.normal(size=3000) > 0
    >>> clf = LogisticRegression().fit(X[:1000], y[:1000])
    >>> display = private_scores(clf, X[1000:], y[1000:], random_state=0).plot()
    >>> display.ax_.get_xlabel()
    'false positive rate'
    """

    fpr: Floats
    tpr: Floats
    band: Floats
    _: KW_ONLY
    level: float
    label: str

    @classmethod
    def from_scores(
        cls, scores: PrivateScores, *, level: float = 0.95, ax: Any = None, pos_label: Any = None
    ) -> Self:
        """Draw the ROC curve of a release.

        Parameters
        ----------
        scores : PrivateScores
            A release that contains a ROC curve.
        level : float, default=0.95
            Confidence level of the band, in (0, 1).
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        ScoresDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_matplotlib(f"{cls.__name__}.from_scores")
        fpr, tpr, _ = scores.roc_curve(pos_label)
        band = scores.interval("roc_curve", level, pos_label=pos_label)
        label = f"released, ε = {scores.privacy_.epsilon:g}\nAUC"
        area = scores.roc_auc
        low, high = scores.interval("roc_auc", level)
        if "roc_auc_per_class" in scores.metrics_:
            pos_label = scores.pos_label_ if pos_label is None else pos_label
            position = scores.classes_.tolist().index(pos_label)
            area = scores.roc_auc_per_class[position]
            intervals = scores.interval("roc_auc_per_class", level)
            low, high = intervals[position]
            label += f" of {pos_label}"
        label += f" {area:.3f} [{low:.3f}, {high:.3f}]"
        return cls(fpr, tpr, band, level=level, label=label).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        ScoresDisplay
            The display itself.
        """
        ax = self._set_axes(ax)
        label = f"{self.level:.0%} simultaneous band"
        low, high = self.band.T
        style: dict[str, Any] = {"color": LIGHT, "linewidth": 0, "label": label}
        self.band_ = ax.fill_between(self.fpr, low, high, **style)
        line_style = {"label": plain_text(self.label)}
        self.line_ = draw_roc_curve(ax, self.fpr, self.tpr, line_kwargs=line_style)
        return self


@dataclass(eq=False, repr=False)
class TracingDisplay(Display):
    """Display of the ROC curve of a tracing attack.

    Create a display with `from_attack`, or with the `plot` method of the attack.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        False and true positive rates.
    auc : float
        Area under the curve.
    epsilon : float, default=None
        If given, the region of rates permitted by ε-differential privacy is shaded.
    name : str, default=None
        Name of the attacked release, shown in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        The region of rates permitted by ε-differential privacy.

    See Also
    --------
    skpublicdp.audit.tracing_attack : Runs the attack.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> import numpy as np
    >>> from skpublicdp.audit import TracingAttack
    >>> rng = np.random.default_rng(0)
    >>> attack = TracingAttack(rng.normal(2, 1, 500), rng.normal(0, 1, 500))
    >>> display = attack.plot(epsilon=1.0, name="exact answers")
    >>> display.line_.get_label()
    'exact answers, AUC 0.932'
    """

    fpr: Floats
    tpr: Floats
    auc: float
    _: KW_ONLY
    epsilon: float | None = None
    name: str | None = None

    @classmethod
    def from_attack(
        cls,
        attack: TracingAttack,
        *,
        epsilon: float | None = None,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the ROC curve of an attack.

        Parameters
        ----------
        attack : TracingAttack
            An attack together with its scores.
        epsilon : float, default=None
            If given, the region of rates permitted by ε-differential privacy is shaded.
        name : str, default=None
            Name of the attacked release, shown in the legend.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        TracingDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_matplotlib(f"{cls.__name__}.from_attack")
        fpr, tpr = attack.roc_curve()
        return cls(fpr, tpr, attack.auc, epsilon=epsilon, name=name).plot(ax=ax)

    def plot(self, ax: Any = None, **line_kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        **line_kwargs : dict
            Keyword arguments passed to `matplotlib.axes.Axes.plot` for the curve.

        Returns
        -------
        TracingDisplay
            The display itself.
        """
        ax = self._set_axes(ax)
        self.band_ = None
        if self.epsilon is not None:
            # tpr <= e^ε fpr and 1 - fpr <= e^ε (1 - tpr), and both with fpr and tpr exchanged
            ratio = math.exp(self.epsilon)
            fpr = np.array([0, 1, ratio, 1 + ratio]) / (1 + ratio)
            self.band_ = ax.fill_between(
                fpr,
                np.maximum(fpr / ratio, 1 - ratio * (1 - fpr)),
                np.minimum(fpr * ratio, 1 - (1 - fpr) / ratio),
                facecolor=LIGHT,
                edgecolor=GREY,
                linewidth=0.5,
                label=f"ε = {self.epsilon:g} allows",
            )
        label = f"AUC {self.auc:.3f}"
        style = {"label": f"{plain_text(self.name)}, {label}" if self.name else label}
        self.line_ = draw_roc_curve(ax, self.fpr, self.tpr, style | line_kwargs)
        return self


def draw_roc_curve(ax: Any, fpr: Floats, tpr: Floats, line_kwargs: dict[str, Any]) -> Any:
    """Draw a ROC curve above the diagonal of random guessing, and return its line."""
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
    (line,) = ax.plot(fpr, tpr, **{"color": RELEASED} | line_kwargs)
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.set(xlabel="false positive rate", ylabel="true positive rate")
    ax.legend(loc="lower right", frameon=False)
    return line
