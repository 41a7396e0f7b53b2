"""TracingDisplay: ROC curve of a tracing attack, with the bound of differential privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from skpublicdp.plotting.style import GREY, LIGHT, RELEASED, axes_for, check_matplotlib

if TYPE_CHECKING:
    from skpublicdp.audit.tracing import TracingAttack


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
        Shades the region of the rates that ε-differential privacy allows.
    name : str, default=None
        Name of the attacked release in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        Region of the rates that ε-differential privacy allows.

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
            An attack with its scores.
        epsilon : float, default=None
            Shades the region of the rates that ε-differential privacy allows.
        name : str, default=None
            Name of the attacked release in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.

        Returns
        -------
        TracingDisplay
            The display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        check_matplotlib(f"{cls.__name__}.from_attack")
        fpr, tpr = attack.roc_curve()
        return cls(fpr, tpr, attack.auc, epsilon=epsilon, name=name).plot(ax=ax)

    def plot(self, ax: Any = None, **line_kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default of a new figure.
        **line_kwargs : dict
            Arguments of `matplotlib.axes.Axes.plot` for the curve.

        Returns
        -------
        TracingDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
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
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
        label = f"AUC {self.auc:.3f}"
        style = {"color": RELEASED, "label": f"{self.name}, {label}" if self.name else label}
        (self.line_,) = ax.plot(self.fpr, self.tpr, **style | line_kwargs)
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        ax.legend(loc="lower right", frameon=False)
        return self
