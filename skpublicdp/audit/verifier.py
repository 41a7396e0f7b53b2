"""What both witnesses have in common: fits under watch, and what must hold of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.accounting import REPLACE_ONE, Approximate, exact_fraction
from skpublicdp.audit.data_sets import Chosen, Domain
from skpublicdp.audit.losses import Losses
from skpublicdp.audit.prices import least_losses
from skpublicdp.audit.sensitivity import UnlikeError, add_loss, faults_of_entry
from skpublicdp.audit.verification import ROUNDED, Verification
from skpublicdp.audit.watch import WORD, Attempt, Noiseless, Watching, fit_once
from skpublicdp.budget import PrivacyBudget
from skpublicdp.exceptions import PrivacyBudgetError

GRID = 0.02
"""Share by which δ of many steps may err, of the grids of their losses."""

MOST_FINDINGS = MOST_FAILURES = 8


class Verifier:
    """One verification while it goes on."""

    def __init__(
        self,
        make_estimator: Callable[[], Any],
        domain: Domain,
        given: dict[str, Any],
        look: Callable[[Any], Any] | None,
        max_fits: int,
    ) -> None:
        self._make, self._domain, self._given = make_estimator, domain, given
        self._look, self._max_fits = look, max_fits
        most = getattr(make_estimator(), "max_rows_per_group", None)
        # rows of a person that count, or None where rows are protected
        self._counted = most and min(int(most), domain.rows_per_person or 1)
        self._X_new = domain.values()
        self._findings: dict[str, None] = {}
        self._shares: dict[tuple[str, str], float] = {}
        self._priced: dict[tuple[object, ...], tuple[float, float]] = {}
        self._attained = self._delta = 0.0
        self._claimed: tuple[float, float] | None = None
        self._n_sets = self._n_pairs = self._n_fits = 0
        self._witness = ""

    def result(self, name: str) -> Verification:
        """Return what was found."""
        claimed, delta = self._claimed or (0.0, 0.0)
        uses = tuple(
            {"use": use, "kind": kind, "share": share}
            for (use, kind), share in self._shares.items()
        )
        return Verification(
            name, claimed, delta, self._attained, self._delta, self._witness,
            self._n_sets, self._n_pairs, self._n_fits, uses, tuple(self._findings),
        )  # fmt: skip

    def _first(self) -> tuple[Chosen, Any]:
        """Fit to a data set on which that does not fail."""
        failure = None
        for chosen in self._domain.sample(MOST_FAILURES, np.random.default_rng(1)):
            tape, attempt = self._recorded(chosen)
            if attempt.failure is None:
                return chosen, tape
            failure = attempt.failure
        raise ValueError(
            f"fit must not fail on the data sets to verify; it says: {failure}"
        ) from failure

    def _find(self, finding: str) -> None:
        if len(self._findings) < MOST_FINDINGS:
            self._findings[finding] = None

    # fits

    def _fit(self, chosen: Chosen) -> Attempt:
        self._n_fits += 1
        arguments = self._domain.arguments(chosen)
        return fit_once(self._make, arguments, self._given, self._X_new, self._look)

    def _recorded(self, chosen: Chosen, kind: Any = Watching) -> tuple[Any, Attempt]:
        """Fit with true draws, and check what holds of every fit."""
        with kind() as tape:
            attempt = self._fit(chosen)
        self._check(tape, attempt)
        for use in tape.uses:
            least = _least_bits(use, noise=kind is not Noiseless)
            if use.bits < least:
                self._find(f"{use.name or use.kind}: {use.bits} random bits for {least} or more")
        return tape, attempt

    def _check(self, tape: Any, attempt: Attempt) -> None:
        for fault in tape.faults:
            self._find(fault)
        for use in tape.uses:
            if fault := faults_of_entry(use):
                self._find(f"{use.name or use.kind}: {fault}")
        if attempt.receipt is not None and self._claimed is None:
            self._check_receipt(attempt.receipt, tape)
        elif attempt.failure is None and self._claimed is None:
            self._claimed = (0.0, 0.0)

    def _check_receipt(self, receipt: Any, tape: Any) -> None:
        epsilon, delta = float(receipt.epsilon), float(receipt.delta)
        self._claimed = epsilon, delta
        for losses in least_losses(receipt.event, pure=not delta):
            if losses.epsilon(loosely(losses, delta)) > epsilon * (1 + ROUNDED):
                self._find("the receipt's event costs more than its epsilon and delta")
        parameters: dict[str, Any] = getattr(self._make(), "get_params", dict)()
        asked = parameters.get("epsilon")
        if asked is not None and epsilon > exact_fraction(asked) * (1 + ROUNDED):
            self._find(f"the receipt says epsilon = {epsilon:g}, and {asked} was asked for")
        if self._counted and receipt.unit == REPLACE_ONE:
            self._find("the receipt protects a row, and persons are to be protected")
        if receipt.secure_randomness and any(state is not None for state in tape.states):
            self._find("the receipt calls seeded randomness secure")
        state = parameters.get("random_state")
        if state is None and any(of is not None for of in tape.states):
            self._find("a ledger was given a seed that nobody asked for")

    def _charged(self, chosen: Chosen) -> None:
        """Check that a budget is charged first, and no less than the receipt says."""
        if "budget" not in getattr(self._make(), "get_params", dict)() or self._claimed is None:
            return
        made = self._make
        for accountant in ("auto", "pure"):
            epsilon, delta = (exact_fraction(claimed) for claimed in self._claimed)
            budget = PrivacyBudget(
                2 * epsilon + 1, 2 * delta, accountant=accountant, for_tests=True
            )
            with Watching(budget=budget) as tape:
                attempt = fit_once(
                    lambda b=budget: made().set_params(budget=b),  # type: ignore[misc]
                    self._domain.arguments(chosen),
                    self._given,
                    self._X_new,
                    self._look,
                )
            if isinstance(attempt.failure, PrivacyBudgetError) and accountant == "auto":
                continue  # it has no price for a fit of which no more than ε and δ is known
            for fault in tape.faults:
                self._find(fault)
            entries = [entry.event for entry in budget.ledger]
            spent = any(use.kind in ("draw", "noise") for use in tape.uses)
            owed = [[attempt.receipt.event]] if attempt.receipt is not None and spent else [[]]
            if accountant == "pure" and spent:
                owed.append([Approximate(epsilon, delta)])
            if attempt.failure is not None or entries not in owed:
                self._find("what a budget is charged is not the event of the receipt")

    def _seeded(self, chosen: Chosen) -> None:
        """Check that the receipt of a seeded fit says so."""
        if "random_state" in getattr(self._make(), "get_params", dict)():
            with Watching():
                fitted = self._make().set_params(random_state=0)
                rows = self._domain.arguments(chosen)
                attempt = fit_once(lambda: fitted, rows, self._given, self._X_new, self._look)
            if attempt.receipt is None or attempt.receipt.secure_randomness:
                self._find("the receipt calls seeded randomness secure")

    def _told_apart(self, finding: str) -> None:
        self._find(finding)
        self._attained, self._delta = math.inf, 1.0

    def _add(self, losses: Losses, mine: list[Any], yours: list[Any]) -> None:
        if len(mine) != len(yours):
            raise UnlikeError("neighbouring data sets are asked different questions")
        counted, secret = self._counted or 1, False
        for use, match in zip(mine, yours, strict=True):
            share = add_loss(losses, use, match)
            secret = secret or use.secret  # rows that it relabelled may all be others
            if use.kind not in ("draw", "noise") or secret:
                continue
            # a learner inside, paid for one row of a person, is moved by all of them
            share /= max(1, counted / use.rows_per_person) ** (1 + use.gaussian)
            key = use.name, use.kind
            self._shares[key] = max(self._shares.get(key, 0.0), share)
            if share > 1 + ROUNDED:
                self._find(f"{use.name or use.kind}: moved further than is paid for")


def loosely(losses: Losses, delta: float) -> float:
    """Return δ with room for the errors of floats and grids."""
    return delta * (1 + (GRID if losses.ends else ROUNDED))


def _least_bits(use: Any, noise: bool) -> int:
    """Return how many random bits something must take at least."""
    if use.kind == "noise":
        return WORD * int(use.answer.size) * noise
    if use.kind == "draw":
        return int(use.answer.size > 1)
    if use.kind == "subset":
        n, k = use.answer
        return int(0 < k < n)
    return 0
