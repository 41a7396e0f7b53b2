"""Choice among candidates of several kinds: private trials, one draw, and the final fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skpublicdp.accounting import Draw, Steps, exact_fraction
from skpublicdp.base_learner import add_row_per_label, epsilon_delta, fit_base, mechanism_event
from skpublicdp.data.validation import check_rows
from skpublicdp.hypotheses import PublicSample
from skpublicdp.hypotheses.finite import ClassifierHypothesis
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate
from skpublicdp.model_selection.family import CandidateFamily
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.privacy.ledger import Ledger

PROOF = "docs/proofs/search.md"
MAX_CHOICE_LOSS, CHOICE_FAILURE = 0.005, 0.05
"""Target excess error of the choice and its failure probability; further ε goes to trials."""


class SingleCandidate:
    """A candidate that is fitted on its own.

    Parameters
    ----------
    position : int
        Index of the candidate in the search.
    candidate : Candidate
        The candidate.
    rows : SearchRows
        Rows.
    """

    def __init__(self, position: int, candidate: Candidate, rows: SearchRows) -> None:
        self.positions = [position]
        self._candidate, self._rows = candidate, rows
        self._features = rows.features(candidate)

    @property
    def label(self) -> str:
        """Name in the receipt."""
        return type(self._candidate.learner).__name__

    def candidate(self, position: int) -> Candidate:
        """Return the candidate with an index of the search."""
        return self._candidate

    def fit(self, ledger: Ledger) -> FittedCandidate:
        """Fit with the whole budget of a ledger."""
        rows, learner, X = self._rows, self._candidate.learner, self._features.X
        y, X_public = rows.y, self._features.X_public
        if "classes" not in learner.get_params(deep=False):
            X = check_rows(clone(learner), X, reset=True)
            centre = np.zeros(X.shape[1]) if X_public is None else np.median(X_public, axis=0)
            X, y = add_row_per_label(learner, X, y, rows.classes, centre)
        epsilon, delta = epsilon_delta(
            mechanism_event(*ledger.per_row(ledger.epsilon, ledger.delta))
        )
        fitted = fit_base(
            learner,
            epsilon,
            X,
            y,
            delta=delta,
            random_state=ledger.seed(),
            classes=rows.classes,
            X_public=X_public,
            y_public=rows.y_public,
        )
        return FittedCandidate(self.positions[0], fitted)


class BudgetSplit(NamedTuple):
    """Split of the budget of a search among kinds, as pairs (ε, δ).

    Attributes
    ----------
    trial
        Budget of each trial.
    choice
        Budget of the choice, with δ = 0.
    fit
        Budget of the final fit.
    """

    trial: tuple[Fraction, Fraction]
    choice: tuple[Fraction, Fraction]
    fit: tuple[Fraction, Fraction]


def split_budget(ledger: Ledger, kinds: int, share: float) -> BudgetSplit:
    """Split the budget of a ledger; trials and choice together get `share` of it.

    The choice gets as much as a trial, but no more than an excess error of `MAX_CHOICE_LOSS` needs
    with probability 1 - `CHOICE_FAILURE`, by the utility bound of the exponential mechanism.
    """
    search_share = exact_fraction(share)
    max_choice = ledger.epsilon * search_share / (kinds + 1)
    rows = max(ledger.n_private // ledger.rows_per_person, 1)
    choice = min(
        max_choice, exact_fraction(2 * math.log(kinds / CHOICE_FAILURE) / (MAX_CHOICE_LOSS * rows))
    )
    trial = (ledger.epsilon * search_share - choice) / kinds, ledger.delta * search_share / kinds
    fit = ledger.epsilon * (1 - search_share), ledger.delta * (1 - search_share)
    return BudgetSplit(trial, (choice, Fraction(0)), fit)


def fit_among(
    kinds: Sequence[CandidateFamily | SingleCandidate],
    rows: SearchRows,
    ledger: Ledger,
    share: float,
) -> FittedCandidate:
    """Fit each kind in a trial, draw one kind by the errors of its trial, and fit it again.

    Parameters
    ----------
    kinds : sequence
        At least one kind. A single kind gets the whole budget.
    rows : SearchRows
        All rows are used in every step, so the parts of the budget add up.
    ledger : Ledger
        Ledger of the search.
    share : float
        Share of the budget for trials and choice.
    """
    if len(kinds) == 1:
        return kinds[0].fit(ledger_share(ledger, (ledger.epsilon, ledger.delta), kinds[0].label))
    split = split_budget(ledger, len(kinds), share)
    draw = Draw(split.choice[0])
    ledger.plan(
        Steps((*[mechanism_event(*split.trial)] * len(kinds), draw, mechanism_event(*split.fit)))
    )
    sample = PublicSample(np.zeros((0, 1)), rows.classes, ("row",))
    errors = []
    for kind in kinds:
        trial = kind.fit(ledger_share(ledger, split.trial, f"trial: {kind.label}"))
        X = rows.features(kind.candidate(trial.position)).X
        errors.append(
            int((ClassifierHypothesis(trial.learner, sample).predict(X) != rows.codes).sum())
        )
    name = f"choice among {len(kinds)} kinds: exponential mechanism, one exact draw"
    table = Leaf(np.array(errors, dtype=np.int64))
    chosen_kind = kinds[ledger.draw(table, draw, 1, name=name, proof=PROOF)]
    return chosen_kind.fit(ledger_share(ledger, split.fit, f"fit: {chosen_kind.label}"))


def ledger_share(ledger: Ledger, price: tuple[Fraction, Fraction], name: str) -> Ledger:
    """Return a sub-ledger with a part of (ε, δ)."""
    sub_ledger = ledger.sub_ledger(mechanism_event(*price), name=name, proof=PROOF)
    sub_ledger.epsilon, sub_ledger.delta = price
    return sub_ledger
