"""Receipts: what a fit spent on private rows, from public numbers only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.accounting.events import (
    Event,
    from_text,
    mu_squared_price,
    rho_price,
    to_text,
)
from skpublicdp.accounting.plans import plan_delta
from skpublicdp.accounting.references import reference_html

REPLACE_ONE = "replace one private row (features and label)"
"""The unit of privacy: neighbouring data sets differ by replacing one private row."""

REPLACE_PERSON = "replace one person"
"""How the unit begins where all rows of a person are protected together (`max_rows_per_group`)."""

CURVE_POINTS = 24
"""Values of ε at which a trade-off curve is supported."""


@dataclass(frozen=True)
class Mechanism:
    """One use of the private rows.

    Attributes
    ----------
    name : str
        What was run.
    epsilon, delta : float
        What it costs alone.
    reference : str
        Where its privacy is proved.
    event : Event, optional
        What happened.
    """

    name: str
    epsilon: float
    delta: float
    reference: str
    event: Event | None = field(default=None, repr=False)


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
    event : Event
        What happened to the private rows, to be composed with what happens later.
    entry : int or None
        Number of the fit in its `PrivacyBudget`.
    for_tests : bool
        Whether that budget admits any number of seeded fits, so that its sum protects nobody.

    See Also
    --------
    skpublicdp.PrivacyBudget : One budget for many fits.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Draw
    >>> one = PrivacyReceipt(1.0, 0.0, "row", 100, 10, (), True, event=Draw(Fraction(1)))
    >>> round(one.mu, 2), round(one.rho, 3)
    (0.63, 0.125)
    >>> print(one.in_words())
    Suppose an attacker knows every other row and considers this person and one other person equally
    likely. From this result they can tell which one it was at most 62.3% of the time; guessing
    blindly gives 50%.
    """

    epsilon: float
    delta: float
    unit: str
    n_private: int
    n_public: int
    mechanisms: tuple[Mechanism, ...]
    secure_randomness: bool
    assumptions: tuple[str, ...] = ()
    event: Event = field(kw_only=True)
    entry: int | None = None
    for_tests: bool = False

    @property
    def mu(self) -> float:
        """The μ of Gaussian differential privacy that it costs; infinite where none is known."""
        return math.sqrt(mu_squared_price(self.event))

    @property
    def rho(self) -> float:
        """The ρ of zero-concentrated differential privacy that it costs, or infinity."""
        return float(rho_price(self.event))

    def delta_at(self, epsilon: float) -> float:
        """Return the least δ that is proved at some ε, by itself or by the guarantee."""
        # of a tiny ε the plan says no more than the guarantee, and takes a fine grid to say it
        proved = plan_delta(self.event, Fraction(epsilon)) if self.epsilon > 1e-12 else 1.0
        lost = (math.exp(min(self.epsilon, 700.0)) - math.exp(epsilon)) * (1 - self.delta)
        promised = self.delta + max(0.0, lost / (1 + math.exp(min(self.epsilon, 700.0))))
        return min(proved, promised * (1 + 1e-12), 1.0)

    def trade_off(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """Return how often a test must miss a person, given how often it gives false alarms.

        Parameters
        ----------
        alpha : array-like of float
            False-alarm rates in [0, 1], of a test whether a person's row or another one is in the
            data.

        Returns
        -------
        ndarray of float64
            At least so often a person who is in is missed (Dong, Roth and Su 2019, Definition 2.1).

        Examples
        --------
        >>> from fractions import Fraction
        >>> from skpublicdp.accounting import Draw
        >>> one = PrivacyReceipt(1.0, 0.0, "row", 100, 10, (), True, event=Draw(Fraction(1)))
        >>> one.trade_off([0.05, 0.5]).round(2)
        array([0.87, 0.27])
        """
        alpha = np.asarray(alpha, dtype=np.float64)
        if not ((alpha >= 0) & (alpha <= 1)).all():
            raise ValueError("alpha must lie in [0, 1].")
        missed = np.zeros_like(alpha)
        for epsilon in np.linspace(0, min(self.epsilon, 100.0), CURVE_POINTS):
            delta, factor = self.delta_at(float(epsilon)), math.exp(epsilon)
            for line in (1 - delta - factor * alpha, (1 - delta - alpha) / factor):
                missed = np.maximum(missed, line)
        return missed

    def in_words(self) -> str:
        """Return the guarantee in plain words: the success rate of the best guess at even odds.

        Returns
        -------
        str
            With neighbouring data sets equally likely beforehand, the best guess from the result
            is right with probability at most (1 + δ(0)) / 2, where δ(0) bounds their total
            variation distance. The percentage is rounded up. It does not hold for other odds.
        """
        success = 50 * (1 + self.delta_at(0.0))
        percentage = f"{math.ceil(10 * success) / 10:.1f}"
        persons = self.unit.startswith(REPLACE_PERSON)
        known = "all rows of everybody else" if persons else "every other row"
        sentence = (
            f"Suppose an attacker knows {known} and considers this person and one other person "
            "equally likely. From this result they can tell which one it was at most "
            f"{percentage}% of the time; guessing blindly gives 50%."
        )
        if not self.secure_randomness:
            sentence += " This does not hold against an attacker who knows or guesses the seed."
        return sentence

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per mechanism, for a data frame.

        Returns
        -------
        list of dict
            With the keys ``mechanism``, ``epsilon``, ``delta`` and ``proof``.
        """
        return [
            {"mechanism": m.name, "epsilon": m.epsilon, "delta": m.delta, "proof": m.reference}
            for m in self.mechanisms
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain dicts, lists, strings and numbers, ready for JSON."""
        kept = ("name", "epsilon", "delta", "reference")
        lines = [
            {name: getattr(m, name) for name in kept} | {"event": m.event and to_text(m.event)}
            for m in self.mechanisms
        ]
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "n_private": self.n_private,
            "n_public": self.n_public,
            "mechanisms": lines,
            "secure_randomness": self.secure_randomness,
            "assumptions": list(self.assumptions),
            "event": to_text(self.event),
            "entry": self.entry,
            "for_tests": self.for_tests,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> PrivacyReceipt:
        """Read what `to_dict` wrote."""
        changed = {
            "mechanisms": tuple(
                Mechanism(**one | {"event": one["event"] and from_text(one["event"])})
                for one in fields["mechanisms"]
            ),
            "assumptions": tuple(fields["assumptions"]),
            "event": from_text(fields["event"]),
        }
        return cls(**fields | changed)

    def __repr__(self) -> str:
        spent = [
            f"{_times_prefix(k)}{m.name} (ε = {m.epsilon:g}, δ = {m.delta:g})"
            for m, k in self._alike()
        ]
        return "\n".join(
            [
                f"PrivacyReceipt: ε = {self.epsilon:g}, δ = {self.delta:g}",
                *(f"  {name:<11} {text}" for name, text in self._lines(spent or ["none"])),
            ]
        )

    def _repr_html_(self) -> str:
        table = [
            "<tr><th>mechanism</th><th>ε</th><th>δ</th><th>proof</th></tr>",
            *(
                f"<tr><td>{_times_prefix(k)}{escape(m.name)}</td><td>{m.epsilon:g}</td>"
                f"<td>{m.delta:g}</td><td>{reference_html(m.reference)}</td></tr>"
                for m, k in self._alike()
            ),
        ]
        notes = (f"<li><b>{name}</b> {escape(text)}</li>" for name, text in self._lines([]))
        return (
            f"<div><p><b>Privacy receipt: ε = {self.epsilon:g}, δ = {self.delta:g}.</b> "
            f"{escape(self.in_words())}</p><table>{''.join(table)}</table>"
            f"<ul>{''.join(notes)}</ul></div>"
        )

    def _alike(self) -> Iterable[tuple[Mechanism, int]]:
        """Return the mechanisms, equal ones once, and how often each was used."""
        return Counter(self.mechanisms).items()

    def _lines(self, spent: list[str]) -> Iterable[tuple[str, str]]:
        randomness = (
            "operating system's secure generator"
            if self.secure_randomness
            else "seeded, repeatable: for tests and papers, not for release"
        )
        scope = "this fit alone; every other use of the same rows adds its own"
        if self.entry is not None:
            scope = f"this fit, entry {self.entry} of its budget, which adds up all fits"
        if self.for_tests:
            scope = f"this fit, entry {self.entry} of a budget for tests, which protects nobody"
        together = ""
        if sum(m.epsilon for m in self.mechanisms) > self.epsilon * (1 + 1e-9):
            together = (
                f"ε = {self.epsilon:g}, δ = {self.delta:g}, and not the sum: the numbers behind a "
                "mechanism are for it alone"
            )
        return [
            ("unit", self.unit),
            ("rows", f"{self.n_private} private, {self.n_public} public"),
            *zip(("mechanisms", *[""] * len(spent)), spent, strict=False),
            *([("together", together)] if together else []),
            ("randomness", randomness),
            ("scope", scope),
            *(("assumes", assumption) for assumption in self.assumptions),
        ]


def _times_prefix(count: int) -> str:
    return f"{count} × " if count > 1 else ""
