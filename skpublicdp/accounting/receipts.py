"""What was spent, on whom and how: receipts that can be shown to anybody."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

REPLACE_ONE = "replace one private row (features and label)"
"""The unit of privacy: neighbouring data sets differ by replacing one private row."""


@dataclass(frozen=True)
class Mechanism:
    """One use of the private rows.

    Attributes
    ----------
    name : str
        What was run.
    epsilon, delta : float
        What it spent.
    reference : str
        Where its privacy is proved.
    """

    name: str
    epsilon: float
    delta: float
    reference: str


@dataclass(frozen=True, repr=False)
class PrivacyReceipt:
    """The privacy of one fit, from public numbers only.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee: the fitted object is (epsilon, delta)-differentially private.
    unit : str
        What neighbouring data sets may differ in.
    n_private, n_public : int
        Rows protected and rows not protected.
    mechanisms : tuple of Mechanism
        Every use of the private rows.
    secure_randomness : bool
        False when the randomness is seeded: the run is then repeatable, and whoever knows the
        seed is not bound by the guarantee.
    assumptions : tuple of str
        What is taken to be public.
    """

    epsilon: float
    delta: float
    unit: str
    n_private: int
    n_public: int
    mechanisms: tuple[Mechanism, ...]
    secure_randomness: bool
    assumptions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain dicts, lists, strings and numbers, ready for JSON."""
        fields = asdict(self)
        fields["mechanisms"] = list(fields["mechanisms"])
        fields["assumptions"] = list(fields["assumptions"])
        return fields

    def __repr__(self) -> str:
        spent = (f"{m.name} (ε = {m.epsilon:g}, δ = {m.delta:g})" for m in self.mechanisms)
        randomness = (
            "operating system's secure generator"
            if self.secure_randomness
            else "seeded, repeatable: for tests and papers, not for release"
        )
        return "\n".join(
            [
                f"PrivacyReceipt: ε = {self.epsilon:g}, δ = {self.delta:g}",
                f"  unit        {self.unit}",
                f"  rows        {self.n_private} private, {self.n_public} public",
                f"  mechanisms  {', '.join(spent)}",
                f"  randomness  {randomness}",
                "  scope       this fit alone; every other use of the same rows adds its own",
                *(f"  assumes     {assumption}" for assumption in self.assumptions),
            ]
        )


def exact_fraction(value: Real) -> Fraction:
    """Read a budget exactly as it is stored.

    Examples
    --------
    >>> exact_fraction(0.5)
    Fraction(1, 2)
    """
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(float(value))
