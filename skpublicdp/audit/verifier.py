"""Base of both verification methods: observed fits and the checks of every single fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.accounting import REPLACE_ONE, Approximate, exact_fraction
from skpublicdp.audit.data_sets import Domain, PersonKinds
from skpublicdp.audit.event_loss import smallest_losses
from skpublicdp.audit.observed_fit import (
    BITS_PER_WORD,
    FitRecorder,
    NoiselessRecorder,
    ObservedFit,
    fit_once,
)
from skpublicdp.audit.privacy_loss import PrivacyLosses
from skpublicdp.audit.sensitivity import IncomparableError, add_loss, faults_of_entry
from skpublicdp.audit.verification import FLOAT_TOLERANCE, Verification
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.privacy.budget import PrivacyBudget

GRID_TOLERANCE = 0.02
"""Relative error of δ of many steps, from the grid of their privacy losses."""

MAX_FINDINGS = MAX_FAILURES = 8


class Verifier:
    """State and checks of one verification."""

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
        # protected rows per person, or None if rows are protected
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
        """Return the verification so far."""
        claimed, delta = self._claimed or (0.0, 0.0)
        uses = tuple(
            {"use": call, "kind": kind, "share": share}
            for (call, kind), share in self._shares.items()
        )
        return Verification(
            name, claimed, delta, self._attained, self._delta, self._witness,
            self._n_sets, self._n_pairs, self._n_fits, uses, tuple(self._findings),
        )  # fmt: skip

    def _fit_without_failure(self) -> tuple[PersonKinds, Any]:
        """Return a data set on which fit succeeds, and its recorder."""
        failure = None
        for chosen in self._domain.sample(MAX_FAILURES, np.random.default_rng(1)):
            recorder, attempt = self._recorded(chosen)
            if attempt.failure is None:
                return chosen, recorder
            failure = attempt.failure
        raise ValueError(
            f"fit must not fail on the data sets to verify; it says: {failure}"
        ) from failure

    def _add_finding(self, finding: str) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings[finding] = None

    # fits

    def _fit(self, chosen: PersonKinds) -> ObservedFit:
        self._n_fits += 1
        arguments = self._domain.arguments(chosen)
        return fit_once(self._make, arguments, self._given, self._X_new, self._look)

    def _recorded(self, chosen: PersonKinds, kind: Any = FitRecorder) -> tuple[Any, ObservedFit]:
        """Fit with true randomness and check the recorded calls."""
        with kind() as recorder:
            attempt = self._fit(chosen)
        self._check(recorder, attempt)
        for call in recorder.calls:
            least = _least_bits(call, noise=kind is not NoiselessRecorder)
            if call.bits < least:
                self._add_finding(
                    f"{call.name or call.kind}: {call.bits} random bits for {least} or more"
                )
        return recorder, attempt

    def _check(self, recorder: Any, attempt: ObservedFit) -> None:
        for fault in recorder.faults:
            self._add_finding(fault)
        for call in recorder.calls:
            if fault := faults_of_entry(call):
                self._add_finding(f"{call.name or call.kind}: {fault}")
        if attempt.receipt is not None and self._claimed is None:
            self._check_receipt(attempt.receipt, recorder)
        elif attempt.failure is None and self._claimed is None:
            self._claimed = (0.0, 0.0)

    def _check_receipt(self, receipt: Any, recorder: Any) -> None:
        epsilon, delta = float(receipt.epsilon), float(receipt.delta)
        self._claimed = epsilon, delta
        for losses in smallest_losses(receipt.event, pure=not delta):
            if losses.epsilon(delta_with_tolerance(losses, delta)) > epsilon * (
                1 + FLOAT_TOLERANCE
            ):
                self._add_finding("the receipt's event costs more than its epsilon and delta")
        parameters: dict[str, Any] = getattr(self._make(), "get_params", dict)()
        asked = parameters.get("epsilon")
        if asked is not None and epsilon > exact_fraction(asked) * (1 + FLOAT_TOLERANCE):
            self._add_finding(f"the receipt says epsilon = {epsilon:g}, and {asked} was asked for")
        if self._counted and receipt.unit == REPLACE_ONE:
            self._add_finding("the receipt protects a row, and persons are to be protected")
        if receipt.secure_randomness and any(state is not None for state in recorder.states):
            self._add_finding("the receipt calls seeded randomness secure")
        state = parameters.get("random_state")
        if state is None and any(of is not None for of in recorder.states):
            self._add_finding("a ledger was given a seed that nobody asked for")

    def _check_budget(self, chosen: PersonKinds) -> None:
        """Check that a budget is charged before any draw, with the event of the receipt."""
        if "budget" not in getattr(self._make(), "get_params", dict)() or self._claimed is None:
            return
        made = self._make
        for accountant in ("auto", "pure"):
            epsilon, delta = (exact_fraction(claimed) for claimed in self._claimed)
            budget = PrivacyBudget(
                2 * epsilon + 1, 2 * delta, accountant=accountant, for_tests=True
            )
            with FitRecorder(budget=budget) as recorder:
                attempt = fit_once(
                    lambda b=budget: made().set_params(budget=b),  # type: ignore[misc]
                    self._domain.arguments(chosen),
                    self._given,
                    self._X_new,
                    self._look,
                )
            if isinstance(attempt.failure, PrivacyBudgetError) and accountant == "auto":
                continue  # zCDP cannot price a fit that is only known to be (ε, δ)-private
            for fault in recorder.faults:
                self._add_finding(fault)
            entries = [entry.event for entry in budget.ledger]
            spent = any(call.kind in ("draw", "noise") for call in recorder.calls)
            owed = [[attempt.receipt.event]] if attempt.receipt is not None and spent else [[]]
            if accountant == "pure" and spent:
                owed.append([Approximate(epsilon, delta)])
            if attempt.failure is not None or entries not in owed:
                self._add_finding("what a budget is charged is not the event of the receipt")

    def _check_seed(self, chosen: PersonKinds) -> None:
        """Check that the receipt of a seeded fit states it."""
        if "random_state" in getattr(self._make(), "get_params", dict)():
            with FitRecorder():
                fitted = self._make().set_params(random_state=0)
                rows = self._domain.arguments(chosen)
                attempt = fit_once(lambda: fitted, rows, self._given, self._X_new, self._look)
            if attempt.receipt is None or attempt.receipt.secure_randomness:
                self._add_finding("the receipt calls seeded randomness secure")

    def _distinguishable(self, finding: str) -> None:
        self._add_finding(finding)
        self._attained, self._delta = math.inf, 1.0

    def _add(self, losses: PrivacyLosses, mine: list[Any], yours: list[Any]) -> None:
        if len(mine) != len(yours):
            raise IncomparableError("neighbouring data sets are asked different questions")
        counted, secret = self._counted or 1, False
        for call, match in zip(mine, yours, strict=True):
            share = add_loss(losses, call, match)
            secret = secret or call.secret  # a secret draw may relabel all rows
            if call.kind not in ("draw", "noise") or secret:
                continue
            # an inner learner that pays for one row per person is changed by all of them
            share /= max(1, counted / call.rows_per_person) ** (1 + call.gaussian)
            key = call.name, call.kind
            self._shares[key] = max(self._shares.get(key, 0.0), share)
            if share > 1 + FLOAT_TOLERANCE:
                self._add_finding(f"{call.name or call.kind}: moved further than is paid for")


def delta_with_tolerance(losses: PrivacyLosses, delta: float) -> float:
    """Return δ with a tolerance for the errors of floats and grids."""
    return delta * (1 + (GRID_TOLERANCE if losses.ends else FLOAT_TOLERANCE))


def _least_bits(call: Any, noise: bool) -> int:
    """Return the minimum number of random bits of a call."""
    if call.kind == "noise":
        return BITS_PER_WORD * int(call.exact_input.size) * noise
    if call.kind == "draw":
        return int(call.exact_input.size > 1)
    if call.kind == "subset":
        n, k = call.exact_input
        return int(0 < k < n)
    return 0
