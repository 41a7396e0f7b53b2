"""The rest of a privacy budget, as the largest ε of one more fit."""

from __future__ import annotations

from decimal import ROUND_FLOOR
from typing import NamedTuple

from skpublicdp.accounting.filters import four_digits


class Remaining(NamedTuple):
    """The largest ε that one more fit may have, by the kind of fit.

    Fits of different kinds compose differently, so no field is ε minus the spent ε.

    Attributes
    ----------
    pure : float
        Largest ε of any fit with ``delta=0``.
    draw : float
        Largest ε of a fit that only draws a rule by the exponential mechanism.
    gaussian : float
        Largest ε of a fit that adds Gaussian noise, at the δ of the budget. 0 if that δ is 0.
    approximate : float
        Largest ε of any other fit with δ > 0, at the remaining δ.
    """

    pure: float
    draw: float
    gaussian: float
    approximate: float

    def __bool__(self) -> bool:
        return any(self)

    def __repr__(self) -> str:
        epsilons = ", ".join(
            f"{kind} {four_digits(epsilon, ROUND_FLOOR)}"
            for kind, epsilon in self._asdict().items()
        )
        return f"Largest ε of one more fit, by its kind, as kinds compose differently: {epsilons}"
