"""Lines of a privacy receipt: the events that a ledger has recorded while a fit runs."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from skpublicdp.accounting import Event, Gaussian, Mechanism, basic_price, gaussian_epsilon


class ReceiptLine(NamedTuple):
    """One event that a ledger has recorded, with its name and reference.

    Attributes
    ----------
    name : str
        Name of the mechanism.
    event : Event
        The event, which determines the privacy cost.
    proof : str
        Reference of the proof.
    sub_lines : list of ReceiptLine
        Lines of the sub-ledger whose cost the event covers. They replace this line in the receipt.
    """

    name: str
    event: Event
    proof: str
    sub_lines: list[ReceiptLine]

    @property
    def displayed_lines(self) -> list[ReceiptLine]:
        """The lines that the receipt shows for this event: its sub-lines, or else this line."""
        return self.sub_lines or [self]

    def to_mechanism(self, max_epsilon: Fraction, delta: Fraction) -> Mechanism:
        """Return the mechanism for the receipt, with its privacy cost (ε, δ) if used alone.

        Gaussian noise has an ε only at a positive δ. It is quoted at the δ of the fit, and is at
        most the ε of the fit.
        """
        mechanism_epsilon, mechanism_delta = basic_price(self.event)
        if isinstance(self.event, Gaussian):
            event_epsilon = gaussian_epsilon(self.event.mu_squared, delta)
            mechanism_epsilon, mechanism_delta = min(event_epsilon, float(max_epsilon)), delta
        return Mechanism(
            self.name, float(mechanism_epsilon), float(mechanism_delta), self.proof, self.event
        )
