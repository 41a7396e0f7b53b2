"""ScoresDisplay: a released ROC curve with its confidence band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from skpublicdp.plotting.style import GREY, LIGHT, RELEASED, axes_for, check_matplotlib

if TYPE_CHECKING:
    from skpublicdp.metrics.scores import PrivateScores


class ScoresDisplay:
    """Display of a released ROC curve with its confidence band.

    Make one with `from_scores`, or with `plot` of the release.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        False and true positive rates.
    band : ndarray of shape (n_points, 2)
        Ends of the simultaneous confidence band of the true positive rates.
    level : float
        Confidence level of the band.
    label : str
        Label of the curve in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection
        The band.

    See Also
    --------
    skpublicdp.metrics.private_scores : Releases the curve.

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

    def __init__(
        self,
        fpr: NDArray[np.float64],
        tpr: NDArray[np.float64],
        band: NDArray[np.float64],
        *,
        level: float,
        label: str,
    ) -> None:
        self.fpr = fpr
        self.tpr = tpr
        self.band = band
        self.level = level
        self.label = label

    @classmethod
    def from_scores(cls, scores: PrivateScores, *, level: float = 0.95, ax: Any = None) -> Self:
        """Draw the ROC curve of a release.

        Parameters
        ----------
        scores : PrivateScores
            A release with a ROC curve.
        level : float, default=0.95
            Confidence level of the band, in (0, 1).
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.

        Returns
        -------
        ScoresDisplay
            The display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{cls.__name__}.from_scores")
        fpr, tpr, _ = scores.roc_curve()
        low, high = scores.interval("roc_auc", level)
        label = (
            f"released, ε = {scores.privacy_.epsilon:g}\nAUC {scores.roc_auc:.3f} "
            f"[{low:.3f}, {high:.3f}]"
        )
        band = scores.interval("roc_curve", level)
        return cls(fpr, tpr, band, level=level, label=label).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.

        Returns
        -------
        ScoresDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        self.band_ = ax.fill_between(
            self.fpr,
            *self.band.T,
            color=LIGHT,
            linewidth=0,
            label=f"{self.level:.0%} simultaneous band",
        )
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
        (self.line_,) = ax.plot(self.fpr, self.tpr, color=RELEASED, label=self.label)
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        ax.legend(loc="lower right", frameon=False)
        return self
