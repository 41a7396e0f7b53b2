"""Result of a verification."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

ALL_OUTCOMES = "all outcomes"
ALL_DRAWS = "all draws, noise by its movement"
REPLAY = "replay"
SAMPLES = "samples"
ERRORS = "errors"

FLOAT_TOLERANCE = 1e-9
"""Relative tolerance of attained ε and δ, which are floats."""


@dataclass(frozen=True, repr=False)
class Verification:
    """Claimed privacy beside what is attained over data sets and their neighbours.

    Attributes
    ----------
    name : str
        What was verified.
    claimed, claimed_delta : float
        ε and δ of the receipt.
    attained : float
        The least ε that holds at the claimed δ: exact over everything that can be seen where the
        witness is "all outcomes"; otherwise given what was released, from how far the answers
        moved. Infinite where neighbours can be told apart with certainty.
    attained_delta : float
        The least δ at the claimed ε, likewise.
    witness : {"all outcomes", "all draws, noise by its movement", "replay", "samples", "errors"}
        How it was found. Of samples of a mechanism, and of errors, there are only findings, or
        none.
    n_data_sets, n_pairs, n_fits : int
        How much was tried.
    uses : tuple of dict
        Each use of the private rows: its name, its kind and the largest share of what it is paid
        for that neighbours moved its answers by.
    findings : tuple of str
        What is wrong, apart from the numbers.

    See Also
    --------
    verify_privacy : Makes it.
    """

    name: str
    claimed: float
    claimed_delta: float
    attained: float
    attained_delta: float
    witness: str
    n_data_sets: int
    n_pairs: int
    n_fits: int
    uses: tuple[dict[str, Any], ...] = field(default=())
    findings: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no finding contradicts the claim."""
        return not self.findings and self.attained <= self.claimed * (1 + FLOAT_TOLERANCE)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each mechanism call, for a data frame.

        Returns
        -------
        list of dict
            With the keys ``use``, ``kind`` and ``share``.
        """
        return [dict(use) for use in self.uses]

    def __repr__(self) -> str:
        lines = [f"Verification of {self.name}: {'holds' if self.holds else 'VIOLATED'}"]
        if self.n_fits:
            attained = "told apart" if math.isinf(self.attained) else f"{self.attained:.4g}"
            delta = f" at δ = {self.claimed_delta:g}" if self.claimed_delta else ""
            lines += [
                f"  claimed     ε = {self.claimed:g}{delta}",
                f"  attained    ε = {attained}{delta}",
                f"  witness     {self.witness}: {self.n_data_sets} data sets, {self.n_pairs} pairs "
                f"of neighbours, {self.n_fits} fits",
            ]
        lines += [
            *(f"  use         {use['use']}: {use['share']:.0%} of its budget" for use in self.uses),
            *(f"  finding     {finding}" for finding in self.findings),
        ]
        return "\n".join(lines)
