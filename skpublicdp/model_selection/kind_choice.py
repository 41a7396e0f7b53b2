"""Choice among several kinds of candidates, by private trials, one draw and a final fit.

A kind is fitted as a unit: either a `CandidateFamily`, whose single draw chooses among its
candidates and their rules, or a `SingleCandidate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skpublicdp.accounting import Draw, Steps, exact_fraction
from skpublicdp.base_learner import add_row_per_label, epsilon_delta, fit_base, mechanism_event
from skpublicdp.data.binning import column_medians
from skpublicdp.data.validation import check_rows
from skpublicdp.hypotheses import PublicSample
from skpublicdp.hypotheses.finite import ClassifierHypothesis
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate
from skpublicdp.model_selection.family import CandidateFamily
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.privacy.ledger import Ledger

SEARCH_PROOF = "docs/proofs/search.md"
MAX_CHOICE_LOSS, CHOICE_FAILURE = 0.005, 0.05
"""Target excess error of the drawn kind (a fraction of the rows), and its failure probability."""


class SingleCandidate:
    """A kind that consists of one candidate, such as a setting of boosting.

    Parameters
    ----------
    position : int
        Index of the candidate in the search.
    candidate : Candidate
        Setting and unfitted learner.
    rows : SearchRows
        Rows of the search.
    """

    def __init__(self, position: int, candidate: Candidate, rows: SearchRows) -> None:
        self.positions = [position]
        self._candidate, self._rows = candidate, rows
        self._features = rows.features(candidate)

    @property
    def label(self) -> str:
        """Name of the kind in the receipt."""
        return type(self._candidate.learner).__name__

    def candidate(self, position: int) -> Candidate:
        """Return the only candidate. `position` is the candidate's index in the search."""
        return self._candidate

    def fit(self, ledger: Ledger) -> FittedCandidate:
        """Fit the learner, and spend the entire budget of a ledger."""
        rows, learner, X = self._rows, self._candidate.learner, self._features.X
        y, X_public = rows.y, self._features.X_public
        if "classes" not in learner.get_params(deep=False):
            X = check_rows(clone(learner), X, reset=True)
            centre = np.zeros(X.shape[1]) if X_public is None else column_medians(X_public)
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
    """Shares of a search's (ε, δ) among the steps of a choice between several kinds."""

    trial: tuple[Fraction, Fraction]
    choice: tuple[Fraction, Fraction]  # (ε, δ) of the draw that chooses a kind, with δ = 0
    fit: tuple[Fraction, Fraction]  # (ε, δ) of the final fit


def split_budget(ledger: Ledger, n_kinds: int, share: float) -> BudgetSplit:
    """Split a ledger's budget among the trials, the choice and the final fit.

    Trials and choice together receive a fraction `share` of the budget. The ε of the choice is the
    smaller of two values: an equal share, and the ε for which the exponential mechanism has an
    excess error of at most `MAX_CHOICE_LOSS` with probability 1 - `CHOICE_FAILURE`. The trials
    receive equal parts of the remaining budget.
    """
    search_share = exact_fraction(share)
    equal_epsilon = ledger.epsilon * search_share / (n_kinds + 1)
    n_persons = max(ledger.n_private // ledger.rows_per_person, 1)
    # utility bound: excess errors <= 2 ln(n_kinds / failure) / ε
    sufficient_epsilon = exact_fraction(
        2 * math.log(n_kinds / CHOICE_FAILURE) / (MAX_CHOICE_LOSS * n_persons)
    )
    choice_epsilon = min(equal_epsilon, sufficient_epsilon)
    trial_epsilon = (ledger.epsilon * search_share - choice_epsilon) / n_kinds
    trial = trial_epsilon, ledger.delta * search_share / n_kinds
    fit = ledger.epsilon * (1 - search_share), ledger.delta * (1 - search_share)
    return BudgetSplit(trial, (choice_epsilon, Fraction(0)), fit)


def fit_chosen_kind(
    kinds: Sequence[CandidateFamily | SingleCandidate],
    rows: SearchRows,
    ledger: Ledger,
    share: float,
) -> FittedCandidate:
    """Privately choose one of several kinds and fit it.

    1. Trials: each kind is fitted with an equal share of (ε, δ).
    2. Choice: one kind is drawn by the exponential mechanism. The score of a kind is the number of
       private rows that its trial misclassifies.
    3. Final fit: the drawn kind is fitted again, with the rest of (ε, δ).

    Since all steps use all private rows, their budgets add up.

    Parameters
    ----------
    kinds : sequence
        One or more kinds.
    share : float
        Share of the budget for trials and choice, in (0, 1).
    """
    if len(kinds) == 1:
        (kind,) = kinds
        return kind.fit(ledger_share(ledger, (ledger.epsilon, ledger.delta), kind.label))
    split = split_budget(ledger, len(kinds), share)
    choice_epsilon, _ = split.choice
    draw = Draw(choice_epsilon)
    trial_events = [mechanism_event(*split.trial)] * len(kinds)
    ledger.plan(Steps((*trial_events, draw, mechanism_event(*split.fit))))
    errors = []  # number of misclassified private rows, by kind
    for kind in kinds:
        trial = kind.fit(ledger_share(ledger, split.trial, f"trial: {kind.label}"))
        errors.append(_count_errors(trial, kind, rows))
    name = f"choice among {len(kinds)} kinds: exponential mechanism, one exact draw"
    table = Leaf(np.array(errors, dtype=np.int64))
    chosen_kind = kinds[ledger.draw(table, draw, 1, name=name, proof=SEARCH_PROOF)]
    return chosen_kind.fit(ledger_share(ledger, split.fit, f"fit: {chosen_kind.label}"))


def _count_errors(
    trial: FittedCandidate, kind: CandidateFamily | SingleCandidate, rows: SearchRows
) -> int:
    """Return the exact number of private rows that a trial misclassifies, which is private."""
    X = rows.features(kind.candidate(trial.position)).X
    # `ClassifierHypothesis` needs the classes of a sample, but no rows
    sample = PublicSample(np.zeros((0, 1)), rows.classes, ("row",))
    predicted = ClassifierHypothesis(trial.learner, sample).predict(X)
    return int((predicted != rows.codes).sum())


def ledger_share(ledger: Ledger, price: tuple[Fraction, Fraction], name: str) -> Ledger:
    """Return a sub-ledger with a share `price` of a ledger's (ε, δ), charged as a whole."""
    sub_ledger = ledger.sub_ledger(mechanism_event(*price), name=name, proof=SEARCH_PROOF)
    sub_ledger.epsilon, sub_ledger.delta = price
    return sub_ledger
