"""Privacy budget of the steps of a fit, in a unit that adds up over steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity
from skpublicdp.accounting.events import DRAW_MU_SQUARED_RATE
from skpublicdp.accounting.rounding import root_below
from skpublicdp.privacy.ledger import Ledger


@dataclass(frozen=True)
class StageBudget:
    """Privacy budget in a unit that adds up over steps: ε under pure DP, and μ² (GDP) otherwise."""

    amount: Fraction
    pure: bool  # whether the amount is ε (pure DP) rather than μ²

    def fraction(self, share: Fraction) -> StageBudget:
        """Return the given fraction of the budget."""
        return StageBudget(self.amount * share, self.pure)

    @property
    def event(self) -> Gaussian | Pure:
        """Privacy event of Laplace or Gaussian noise that spends the entire budget."""
        return Pure(self.amount) if self.pure else Gaussian(self.amount)

    @property
    def draw(self) -> Draw:
        """Privacy event of a draw that spends the entire budget, accounted for in zCDP or a plan.

        In zCDP, a draw with parameter ε satisfies ρ = ε²/8, as does Gaussian noise with μ² = ε²/4.
        """
        return Draw(self.amount if self.pure else root_below(4 * self.amount))

    @property
    def draw_as_gaussian(self) -> Draw:
        """Privacy event of a draw that spends the entire budget, accounted for as Gaussian noise.

        A draw with parameter ε satisfies μ-Gaussian DP for μ² = (π/8) ε² (docs/proofs/moments.md).
        """
        return Draw(self.amount if self.pure else root_below(self.amount / DRAW_MU_SQUARED_RATE))

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return the variance of the noise of a release that spends the entire budget."""
        if self.pure:
            return 2 * (sensitivity.absolute / float(self.amount)) ** 2
        return sensitivity.squared / float(self.amount)


def make_stage_budget(ledger: Ledger) -> StageBudget:
    """Return the total budget of all steps under the ledger's default plan.

    Steps that are accounted for as Gaussian noise compose to a single Gaussian mechanism,
    regardless of their number and shares.
    """
    match ledger.event:
        case Gaussian(mu_squared):
            return StageBudget(mu_squared, pure=False)
    return StageBudget(ledger.epsilon, pure=True)
