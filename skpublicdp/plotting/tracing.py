"""TracingDisplay: ROC curve of a tracing attack, with the bound of differential privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from skpublicdp.plotting.style import LIGHT, RELEASED, axes_for, check_matplotlib

if TYPE_CHECKING:
    from skpublicdp.audit.tracing import TracingAttack

GREY = "#808080"


class TracingDisplay:
    """Display of the ROC curve of a tracing attack.

    Make one with `from_attack`, or with `plot` of the attack.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        False and true positive rates.
    auc : float
        Area under the curve.
    epsilon : float, default=None
        Shades the rates that ε-differential privacy allows.
    name : str, default=None
        What was attacked, for the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        What ε-differential privacy allows.

    See Also
    --------
    skpublicdp.audit.tracing_attack : Makes the attack.

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

    def __init__(
        self,
        fpr: NDArray[np.float64],
        tpr: NDArray[np.float64],
        auc: float,
        *,
        epsilon: float | None = None,
        name: str | None = None,
    ) -> None:
        self.fpr = fpr
        self.tpr = tpr
        self.auc = auc
        self.epsilon = epsilon
        self.name = name

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
            With the scores.
        epsilon : float, default=None
            Shades the rates that ε-differential privacy allows.
        name : str, default=None
            What was attacked, for the legend.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        TracingDisplay
            The picture.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{cls.__name__}.from_attack")
        fpr, tpr = attack.roc_curve()
        return cls(fpr, tpr, attack.auc, epsilon=epsilon, name=name).plot(ax=ax)

    def plot(self, ax: Any = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **line : dict
            For `matplotlib.axes.Axes.plot`, of the curve.

        Returns
        -------
        TracingDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        self.band_ = None
        if self.epsilon is not None:
            # P(found | member) <= e^ε P(found | not), and the same of not being found
            ratio = math.exp(self.epsilon)
            at = np.array([0, 1, ratio, 1 + ratio]) / (1 + ratio)
            self.band_ = ax.fill_between(
                at,
                np.maximum(at / ratio, 1 - ratio * (1 - at)),
                np.minimum(at * ratio, 1 - (1 - at) / ratio),
                facecolor=LIGHT,
                edgecolor=GREY,
                linewidth=0.5,
                label=f"ε = {self.epsilon:g} allows",
            )
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
        label = f"AUC {self.auc:.3f}"
        settings = {"color": RELEASED, "label": f"{self.name}, {label}" if self.name else label}
        (self.line_,) = ax.plot(self.fpr, self.tpr, **{**settings, **line})
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        ax.set(xlabel="others taken for members", ylabel="members found")
        ax.legend(loc="lower right", frameon=False)
        return self
