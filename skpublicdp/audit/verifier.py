"""A single verification, with its fits, the checks of each fit, and the results so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.accounting import Approximate, Event, exact_fraction
from skpublicdp.accounting.receipts import REPLACE_PERSON
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
from skpublicdp.audit.recorder import MechanismCall
from skpublicdp.audit.sensitivity import IncomparableError, add_loss, entry_mismatch
from skpublicdp.audit.verification import FLOAT_TOLERANCE, Verification
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.privacy.budget import PrivacyBudget

GRID_TOLERANCE = 0.02
"""Relative error of δ over many steps that is due to the grid of privacy losses."""

MAX_FINDINGS = 8
"""Maximum number of findings in a verification."""

MAX_FAILURES = 8
"""Maximum number of datasets to try until a fit succeeds."""


class Verifier:
    """Checks each individual fit in a verification, and collects the results of all comparisons.

    The verification methods `verify_by_enumeration` and `verify_by_replay` fit estimators through
    this object and report the losses attained by pairs of neighbours.

    Parameters
    ----------
    make_estimator : callable
        Function that returns a new estimator.
    domain : Domain
        Datasets to verify.
    fit_params : dict
        Additional arguments of `fit`, equal for all datasets.
    look : callable or None
        Function that returns further observable values of a fitted estimator.
    max_fits : int
        Approximate maximum number of fits.

    Attributes
    ----------
    claimed : tuple of (float, float) or None
        The ε and δ of the receipt, which are available once a fit has succeeded.
    witness : str
        Method of verification.
    n_sets, n_pairs : int
        Numbers of datasets and of compared pairs of neighbours.
    """

    def __init__(
        self,
        make_estimator: Callable[[], Any],
        domain: Domain,
        fit_params: dict[str, Any],
        look: Callable[[Any], Any] | None,
        max_fits: int,
    ) -> None:
        self.domain, self.max_fits = domain, max_fits
        self.claimed: tuple[float, float] | None = None
        # what each private row is protected against, according to the receipt
        self.protects = "rows"
        self.witness = ""
        self.n_sets = self.n_pairs = 0
        self._make, self._fit_params, self._look = make_estimator, fit_params, look
        max_rows = getattr(make_estimator(), "max_rows_per_group", None)
        # protected rows per person, or None if the unit of privacy is a row
        self._protected_rows = None
        if max_rows:
            self._protected_rows = min(int(max_rows), domain.rows_per_person or 1)
        self._X_new = domain.values()
        self._findings: dict[str, None] = {}  # an ordered set
        self._shares: dict[tuple[str, str], float] = {}  # largest share by (name, kind) of a call
        self._attained = self._attained_delta = 0.0
        self._n_fits = 0

    def result(self, name: str) -> Verification:
        """Return the results of all checks so far, under the given name."""
        claimed, delta = self.claimed or (0.0, 0.0)
        uses = tuple(
            {"use": use, "kind": kind, "share": share}
            for (use, kind), share in self._shares.items()
        )
        return Verification(
            name, claimed, delta, self._attained, self._attained_delta, self.witness,
            self.n_sets, self.n_pairs, self._n_fits, uses, tuple(self._findings),
        )  # fmt: skip

    def record_success(self) -> tuple[PersonKinds, Any]:
        """Return a dataset on which `fit` succeeds, and the recorder of this fit."""
        failure = None
        for data_set in self.domain.sample(MAX_FAILURES, np.random.default_rng(1)):
            recorder, fit = self.record(data_set)
            if fit.failure is None:
                return data_set, recorder
            failure = fit.failure
        raise ValueError(
            f"fit must succeed on at least one of the data sets; its last error was: {failure}"
        ) from failure

    def add_finding(self, finding: str) -> None:
        """Add a finding, unless there are already `MAX_FINDINGS` findings."""
        if len(self._findings) < MAX_FINDINGS:
            self._findings[finding] = None

    # fits

    def fit(self, data_set: PersonKinds) -> ObservedFit:
        """Count a fit to one dataset, and return everything observable about it."""
        self._n_fits += 1
        arguments = self.domain.arguments(data_set)
        return fit_once(self._make, arguments, self._fit_params, self._X_new, self._look)

    def record(
        self, data_set: PersonKinds, recorder_type: Any = FitRecorder
    ) -> tuple[Any, ObservedFit]:
        """Fit with new randomness, check the recorded calls, and return recorder and fit."""
        with recorder_type() as recorder:
            fit = self.fit(data_set)
        self.check(recorder, fit)
        for call in recorder.calls:
            min_bits = _min_random_bits(call, noise=recorder_type is not NoiselessRecorder)
            if call.bits < min_bits:
                self.add_finding(
                    f"{call.name or call.kind}: {call.bits} random bits were drawn, but at least "
                    f"{min_bits} are needed"
                )
        return recorder, fit

    def replay(self, outcomes: Any, data_set: PersonKinds) -> tuple[Any, ObservedFit]:
        """Return the recorder and the fit of a dataset, given the outcomes of all mechanisms."""
        with FitRecorder(outcomes) as recorder:
            fit = self.fit(data_set)
        return recorder, fit

    def check(self, recorder: Any, fit: ObservedFit) -> None:
        """Check the ledger entries of a fit, and the receipt of the first fit that has one."""
        for fault in recorder.faults:
            self.add_finding(fault)
        for call in recorder.calls:
            if mismatch := entry_mismatch(call):
                self.add_finding(f"{call.name or call.kind}: {mismatch}")
        if fit.receipt is not None and self.claimed is None:
            self._check_receipt(fit.receipt, recorder)
        elif fit.failure is None and self.claimed is None:
            self.claimed = (0.0, 0.0)

    def _check_receipt(self, receipt: Any, recorder: Any) -> None:
        """Store the claim of a receipt, and compare it with its event and with the parameters."""
        epsilon, delta = float(receipt.epsilon), float(receipt.delta)
        self.claimed = epsilon, delta
        self.protects = receipt.protects
        for losses in smallest_losses(receipt.event, pure=not delta):
            event_epsilon = losses.epsilon(delta_with_tolerance(losses, delta))
            if event_epsilon > epsilon * (1 + FLOAT_TOLERANCE):
                self.add_finding("the receipt's event costs more than its epsilon and delta")
        parameters = self._parameters()
        parameter = parameters.get("epsilon")
        if parameter is not None and epsilon > exact_fraction(parameter) * (1 + FLOAT_TOLERANCE):
            self.add_finding(
                f"the receipt states epsilon = {epsilon:g}, but the parameter epsilon is "
                f"{parameter}"
            )
        if self._protected_rows and not receipt.unit.startswith(REPLACE_PERSON):
            self.add_finding(
                "the receipt covers single rows only, although max_rows_per_group is set"
            )
        is_seeded = any(state is not None for state in recorder.states)
        if receipt.secure_randomness and is_seeded:
            self.add_finding("the receipt describes seeded randomness as secure")
        if parameters.get("random_state") is None and is_seeded:
            self.add_finding("a ledger was seeded although random_state is None")

    def check_budget(self, data_set: PersonKinds) -> None:
        """Check that a budget is charged with the receipt's event before anything is drawn."""
        if "budget" not in self._parameters() or self.claimed is None:
            return
        for accountant in ("auto", "pure"):
            epsilon, delta = (exact_fraction(claimed) for claimed in self.claimed)
            protects: Any = "labels" if self.protects == "labels" else "rows"
            if columns := self._parameters().get("private_columns"):
                # the columns of an array are called x0, x1 and so on
                protects = [c if isinstance(c, str) else f"x{c}" for c in columns]
            budget = PrivacyBudget(
                2 * epsilon + 1,
                2 * delta,
                accountant=accountant,
                protects=protects,
                for_tests=True,
            )
            with FitRecorder(budget=budget) as recorder:
                fit = self._fit_uncounted(data_set, budget=budget)
            if isinstance(fit.failure, PrivacyBudgetError) and accountant == "auto":
                continue  # zCDP cannot price a fit that is only known to be (ε, δ)-private
            for fault in recorder.faults:
                self.add_finding(fault)
            charged = [entry.event for entry in budget.ledger]
            has_spent = any(call.kind in ("draw", "noise") for call in recorder.calls)
            valid_charges: list[list[Event]] = [[]]
            if fit.receipt is not None and has_spent:
                valid_charges = [[fit.receipt.event]]
            if accountant == "pure" and has_spent:
                valid_charges.append([Approximate(epsilon, delta)])
            if fit.failure is not None or charged not in valid_charges:
                self.add_finding("the event charged to a budget differs from the receipt's event")

    def check_seed(self, data_set: PersonKinds) -> None:
        """Check that the receipt of a seeded fit mentions the seed."""
        if "random_state" in self._parameters():
            with FitRecorder():
                fit = self._fit_uncounted(data_set, random_state=0)
            if fit.receipt is None or fit.receipt.secure_randomness:
                self.add_finding("the receipt describes seeded randomness as secure")

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of a new estimator, or no parameters if it has no `get_params`."""
        return getattr(self._make(), "get_params", dict)()

    def _fit_uncounted(self, data_set: PersonKinds, **params: Any) -> ObservedFit:
        """Return a fit with changed parameters, which is not counted in `n_fits`."""

        def make_estimator() -> Any:
            """Return a new estimator with the changed parameters."""
            return self._make().set_params(**params)

        arguments = self.domain.arguments(data_set)
        return fit_once(make_estimator, arguments, self._fit_params, self._X_new, self._look)

    # privacy losses

    def add_attained(self, epsilon: float, delta: float = 0.0) -> None:
        """Add the ε and δ attained by a pair of neighbours."""
        self._attained = max(self._attained, epsilon)
        self._attained_delta = max(self._attained_delta, delta)

    def add_certainty(self, finding: str) -> None:
        """Add the finding that two neighbours are distinguishable with certainty."""
        self.add_finding(finding)
        self.add_attained(math.inf, 1.0)

    def add_losses(
        self,
        losses: PrivacyLosses,
        calls: list[MechanismCall],
        neighbour_calls: list[MechanismCall],
    ) -> None:
        """Add the losses of all calls for two neighbours to `losses`, in place.

        Each loss is compared with the ledger entry of its call.

        Parameters
        ----------
        losses : PrivacyLosses
            Losses, which are updated in place.
        calls, neighbour_calls : list of MechanismCall
            Calls of the same mechanisms, on neighbouring datasets.

        Raises
        ------
        IncomparableError
            If the calls belong to different mechanisms.
        """
        if len(calls) != len(neighbour_calls):
            raise IncomparableError("neighbouring data sets make different mechanism calls")
        protected_rows, after_secret = self._protected_rows or 1, False
        for call, neighbour_call in zip(calls, neighbour_calls, strict=True):
            share = add_loss(losses, call, neighbour_call)
            after_secret = after_secret or call.secret  # a secret draw may relabel all rows
            if call.kind not in ("draw", "noise") or after_secret:
                continue
            # an inner learner that accounts for one row per person is affected by all rows of a
            # person
            uncovered_rows = max(1, protected_rows / call.rows_per_person)
            # group privacy: ε grows linearly in the number of rows, μ² quadratically
            share /= uncovered_rows ** (2 if call.gaussian else 1)
            key = call.name, call.kind
            self._shares[key] = max(self._shares.get(key, 0.0), share)
            if share > 1 + FLOAT_TOLERANCE:
                self.add_finding(
                    f"{call.name or call.kind}: the privacy loss exceeds its ledger entry"
                )


def delta_with_tolerance(losses: PrivacyLosses, delta: float) -> float:
    """Return δ with a tolerance for the rounding of floats, or of losses on a grid."""
    tolerance = GRID_TOLERANCE if losses.ends else FLOAT_TOLERANCE
    return delta * (1 + tolerance)


def _min_random_bits(call: MechanismCall, noise: bool) -> int:
    """Return the minimum number of random bits that a call must have drawn."""
    if call.kind == "noise":
        return BITS_PER_WORD * int(call.exact_input.size) if noise else 0
    if call.kind == "draw":
        return int(call.exact_input.size > 1)
    if call.kind == "subset":
        n, k = call.exact_input
        return int(0 < k < n)
    if call.kind == "order":
        (n,) = call.exact_input
        return int(n > 1)
    return 0
