"""BudgetDisplay: the privacy budget that remains after each fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skpublicdp.plotting.display import (
    LIGHT,
    PUBLIC,
    RELEASED,
    Display,
    check_matplotlib,
    plain_text,
)
from skpublicdp.privacy.budget import PrivacyBudget

MAX_ANNOTATED_NAMES = 12
"""Maximum number of spender names to annotate; if there are more, all names are omitted."""


@dataclass(eq=False, repr=False)
class BudgetDisplay(Display):
    """Display of the privacy budget that remains after each fit.

    Create a display with `from_budget`. All displayed information is public. How much of the budget
    is available for another fit depends on the mechanism of that fit, see
    `PrivacyBudget.remaining`.

    Parameters
    ----------
    spent : array-like of float, shape (n_fits,)
        Cumulative ε spent after each fit, in order.
    epsilon, delta : float
        The total privacy budget.
    who : list of str, default=None
        Name of the spender for each fit. In a sequence of fits by the same spender, only the first
        fit is annotated.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    line_ : matplotlib StepPatch
        The remaining ε after each fit.
    cap_ : matplotlib Line2D
        The line that marks the total budget.

    See Also
    --------
    skpublicdp.PrivacyBudget : The displayed budget.

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

    spent: ArrayLike
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0
    who: Sequence[str] | None = None

    @classmethod
    def from_budget(cls, budget: PrivacyBudget, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the remaining budget.

        Parameters
        ----------
        budget : PrivacyBudget
            The budget to display. For a group's budget, the display shows the remaining budget of
            that group.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        **kwargs : dict
            Keyword arguments passed to `plot`.

        Returns
        -------
        BudgetDisplay
            The display that was created.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        PrivacyBudgetError
            If the file of the budget cannot be accessed.
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
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.
        line_kwargs, cap_kwargs : dict, default=None
            Keyword arguments passed to matplotlib's `stairs` and `axhline`.

        Returns
        -------
        BudgetDisplay
            The display itself.
        """
        ax = self._set_axes(ax)
        from matplotlib.ticker import MaxNLocator

        remaining = np.maximum(self.epsilon - np.append(0.0, self.spent), 0.0)
        edges = np.arange(len(remaining) + 1) - 0.5
        style: dict[str, Any] = {
            "color": LIGHT,
            "edgecolor": RELEASED,
            "fill": True,
            "linewidth": 1.5,
        }
        self.line_ = ax.stairs(remaining, edges, **style | (line_kwargs or {}))
        style = {"color": PUBLIC, "linestyle": "--", "linewidth": 1} | (cap_kwargs or {})
        self.cap_ = ax.axhline(self.epsilon, **style)
        for fit, name in self._annotations():
            text = plain_text(name)
            ax.text(fit, 0.02 * self.epsilon, text, rotation=90, ha="center", fontsize=8)
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * self.epsilon))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        delta = f" at δ = {self.delta:g}" if self.delta else ""
        ax.set(xlabel="fits", ylabel=f"ε not spent of {self.epsilon:g}{delta}")
        return self

    def _annotations(self) -> list[tuple[int, str]]:
        """Return (fit number, spender) for each fit whose spender differs from the previous one.

        Fits are numbered from 1. The result is empty if there are more than `MAX_ANNOTATED_NAMES`
        entries.
        """
        annotations, previous_name = [], None
        for number, name in enumerate(self.who or [], start=1):
            if name != previous_name:
                annotations.append((number, name))
            previous_name = name
        return annotations if len(annotations) <= MAX_ANNOTATED_NAMES else []
