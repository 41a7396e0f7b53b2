"""Stage budget: a privacy budget that is divided among steps, and the plan of these steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from skpublicdp.accounting import Draw, Either, Event, Gaussian, Pure, Sensitivity, Steps
from skpublicdp.accounting.events import DRAW_MU_SQUARED_RATE
from skpublicdp.accounting.rounding import root_below
from skpublicdp.privacy.ledger import Ledger

CLASS_COUNT_SHARE = Fraction(1, 50)
"""Share of the budget for the class counts, and as much for squared residuals of a regression."""

LEAF_SHARE = Fraction(1, 4)
"""Share of a tree's budget for the noisy sums of its leaves. The rest is for the draw."""


@dataclass(frozen=True)
class TreeTrial:
    """Budget for trying an interaction tree after the histograms.

    Attributes
    ----------
    first, second : Fraction
        Share of the budget for the first tree, and for a second tree or another histogram.
    min_signal : float
        Smallest `signal_to_noise` of a draw with the whole budget at which the tree is tried.
    """

    first: Fraction
    second: Fraction
    min_signal: float


TREE_TRIALS = (
    TreeTrial(Fraction(1, 10), Fraction(3, 10), 13.0),
    TreeTrial(Fraction(3, 10), Fraction(2, 5), 9.0),
)
"""A small share for a strong signal, and a larger one for a moderate signal."""


@dataclass(frozen=True)
class StageBudget:
    """Privacy budget in a unit that adds up over steps: ε for pure steps, otherwise μ² (GDP).

    Attributes
    ----------
    amount : Fraction
        ε or μ².
    pure : bool
        Whether the amount is ε.
    """

    amount: Fraction
    pure: bool

    def fraction(self, share: Fraction) -> StageBudget:
        """Return a fraction of the budget."""
        return StageBudget(self.amount * share, self.pure)

    @property
    def event(self) -> Gaussian | Pure:
        """Event of Laplace or Gaussian noise that takes the whole budget."""
        return Pure(self.amount) if self.pure else Gaussian(self.amount)

    @property
    def draw(self) -> Draw:
        """Event of one exponential mechanism that takes the whole budget, in zCDP or in a plan.

        A draw with ε has ρ = ε²/8 in zCDP, like Gaussian noise with μ² = ε²/4.
        """
        return Draw(self.amount if self.pure else root_below(4 * self.amount))

    @property
    def draw_as_gaussian(self) -> Draw:
        """Event of one exponential mechanism that takes the whole budget, as Gaussian noise.

        A draw with ε is μ-Gaussian DP for μ² = (π/8) ε² (docs/proofs/moments.md).
        """
        return Draw(self.amount if self.pure else root_below(self.amount / DRAW_MU_SQUARED_RATE))

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return the variance of noise that takes the whole budget."""
        if self.pure:
            return 2 * (sensitivity.absolute / float(self.amount)) ** 2
        return sensitivity.squared / float(self.amount)


def make_stage_budget(ledger: Ledger, *, trees: bool) -> StageBudget:
    """Return the budget of all steps, and register their plan with the ledger.

    All steps that are accounted as Gaussian noise add up to one Gaussian mechanism, for any number
    and shares of steps. This is the default plan of the ledger. Only interaction trees after the
    histograms need a plan with branches.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the fit.
    trees : bool
        Whether interaction trees may follow the histograms.
    """
    if trees:
        amount = ledger.calibrate(_plan_with_trees)
        ledger.plan(_plan_with_trees(amount))
        return StageBudget(amount, pure=False)
    match ledger.event:
        case Gaussian(mu_squared):
            return StageBudget(mu_squared, pure=False)
    return StageBudget(ledger.epsilon, pure=True)


def _plan_with_trees(amount: Fraction) -> Event:
    """Return the plan of class counts, histograms and perhaps a tree trial, for an amount of μ²."""
    budget = StageBudget(amount, pure=False)
    # the released class counts determine the trial
    trials = Either(tuple(trial_event(budget, trial) for trial in TREE_TRIALS))
    return Steps((budget.fraction(CLASS_COUNT_SHARE).event, trials))


def trial_event(budget: StageBudget, trial: TreeTrial) -> Event:
    """Return the plan of histograms after the class counts, and of the trial that follows."""
    trial_share = trial.first + trial.second
    second_budget = budget.fraction(trial.second)
    second_step = Either((second_budget.event, _tree_event(second_budget)))
    with_tree = Steps((_tree_event(budget.fraction(trial.first)), second_step))
    without_tree = budget.fraction(trial_share).event
    histograms = budget.fraction(1 - CLASS_COUNT_SHARE - trial_share).event
    # the released histograms decide whether a tree is tried
    return Steps((histograms, Either((without_tree, with_tree))))


def _tree_event(budget: StageBudget) -> Event:
    """Return the plan of one tree: its draw, then the noisy sums of its leaves."""
    return Steps((budget.fraction(1 - LEAF_SHARE).draw, budget.fraction(LEAF_SHARE).event))
