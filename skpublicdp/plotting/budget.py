"""BudgetDisplay: remaining privacy budget after each fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skpublicdp.plotting.style import LIGHT, PUBLIC, RELEASED, axes_for, check_matplotlib
from skpublicdp.privacy.budget import PrivacyBudget

MAX_ANNOTATED_NAMES = 12
"""Maximum number of annotated spender names; with more, names are left out."""


class BudgetDisplay:
    """Display of the remaining privacy budget after each fit.

    Make one with `from_budget`. All that is shown is public. How much one more fit may have depends
    on its kind; `PrivacyBudget.remaining` says it.

    Parameters
    ----------
    spent : array-like of float, shape (n_fits,)
        ε that was spent after each fit, in order.
    epsilon, delta : float
        The budget.
    who : list of str, default=None
        Who spent; of fits in a row with the same name, the first is named.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib StepPatch
        What was not spent, from fit to fit.
    cap_ : matplotlib Line2D
        The budget.

    See Also
    --------
    skpublicdp.PrivacyBudget : The budget that is shown.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws without a display
    >>> from fractions import Fraction
    >>> from skpublicdp import PrivacyBudget
    >>> from skpublicdp.accounting import Draw
    >>> from skpublicdp.plotting import BudgetDisplay
    >>> budget = PrivacyBudget(1.0)
    >>> for _ in range(3):
    ...     number = budget.spend(Draw(Fraction(1, 5)), who="SemiPrivateClassifier")
    >>> display = BudgetDisplay.from_budget(budget)
    >>> display.line_.get_data().values.round(1)
    array([1. , 0.8, 0.6, 0.4])
    """

    def __init__(
        self,
        spent: ArrayLike,
        *,
        epsilon: float,
        delta: float = 0.0,
        who: Sequence[str] | None = None,
    ) -> None:
        self.spent = spent
        self.epsilon = epsilon
        self.delta = delta
        self.who = who

    @classmethod
    def from_budget(cls, budget: PrivacyBudget, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the remaining budget.

        Parameters
        ----------
        budget : PrivacyBudget
            Of a group, it is shown what is left for that group.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        BudgetDisplay
            The picture.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        PrivacyBudgetError
            If the file of the budget cannot be reached.
        """
        check_matplotlib(f"{cls.__name__}.from_budget")
        entries = budget.ledger
        display = cls(
            [spent.epsilon for spent in budget.history()[: len(entries)]],
            epsilon=budget.epsilon,
            delta=budget.delta,
            who=[entry.who for entry in entries],
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kwargs: dict[str, Any] | None = None,
        cap_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        line_kwargs, cap_kwargs : dict, default=None
            Passed to matplotlib's `stairs` and `axhline`.

        Returns
        -------
        BudgetDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        from matplotlib.ticker import MaxNLocator

        left = np.maximum(self.epsilon - np.append(0.0, self.spent), 0.0)
        edges = np.arange(len(left) + 1) - 0.5
        style: dict[str, Any] = {
            "color": LIGHT,
            "edgecolor": RELEASED,
            "fill": True,
            "linewidth": 1.5,
        }
        self.line_ = ax.stairs(left, edges, **style | (line_kwargs or {}))
        style = {"color": PUBLIC, "linestyle": "--", "linewidth": 1} | (cap_kwargs or {})
        self.cap_ = ax.axhline(self.epsilon, **style)
        for fit, name in self._first_of_runs():
            ax.text(fit, 0.02 * self.epsilon, name, rotation=90, ha="center", fontsize=8)
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * self.epsilon))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        delta = f" at δ = {self.delta:g}" if self.delta else ""
        ax.set(xlabel="fits", ylabel=f"ε not spent of {self.epsilon:g}{delta}")
        return self

    def _first_of_runs(self) -> list[tuple[int, str]]:
        """Return (number of the fit, name) of the first fit of each run of one spender."""
        names = self.who or []
        runs = [
            (number, name)
            for number, name in enumerate(names, start=1)
            if number == 1 or names[number - 2] != name
        ]
        return runs if len(runs) <= MAX_ANNOTATED_NAMES else []
