"""The result of a verification, and the names of the verification methods."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

ALL_OUTCOMES = "all outcomes"
ALL_DRAWS = "all draws, noise by sensitivity"
REPLAY = "replay"
SAMPLES = "samples"
ERRORS = "errors"

FLOAT_TOLERANCE = 1e-9
"""Relative tolerance for the attained ε and δ, which are floats."""


@dataclass(frozen=True, repr=False)
class Verification:
    """The claimed privacy of an estimator, and the privacy it attains on tiny datasets.

    Attributes
    ----------
    name : str
        Name of the verified estimator or mechanism.
    claimed, claimed_delta : float
        The ε and δ stated in the receipt.
    attained : float
        The smallest ε that holds at the claimed δ for all compared pairs of neighbours. With the
        witness "all outcomes", the value is exact and covers everything observable. Otherwise, the
        value is computed from the changes in the mechanisms' inputs between neighbours. The value
        is infinite if neighbours are distinguishable with certainty.
    attained_delta : float
        The smallest δ at the claimed ε, computed in the same way.
    witness : {"all outcomes", "all draws, noise by sensitivity", "replay", "samples", "errors"}
        Method of verification. "samples" compares a mechanism with its distribution, and "errors"
        compares error messages; these two methods only produce findings.
    n_data_sets, n_pairs, n_fits : int
        Numbers of datasets, of compared pairs of neighbours, and of fits.
    uses : tuple of dict
        One dict for each mechanism call, with its name (``use``), its ``kind``, and the largest
        ``share`` of its stated privacy loss that a pair of neighbours attained.
    findings : tuple of str
        Descriptions of the violations that were found.

    See Also
    --------
    verify_privacy : Verifies an estimator.
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
        """Return one dict for each mechanism call, suitable for creating a DataFrame.

        Returns
        -------
        list of dict
            Dicts with the keys ``use``, ``kind`` and ``share``.
        """
        return [dict(use) for use in self.uses]

    def __repr__(self) -> str:
        lines = [f"Verification of {self.name}: {'holds' if self.holds else 'VIOLATED'}"]
        if self.n_fits:
            attained = "∞" if math.isinf(self.attained) else f"{self.attained:.4g}"
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
