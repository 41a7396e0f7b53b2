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

SEARCH_PROOF = "docs/proofs/search.md"
MAX_CHOICE_LOSS, CHOICE_FAILURE = 0.005, 0.05
"""Target excess error of the choice, as a fraction of the rows, and its failure probability."""


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
        """Return the only candidate, whose position is given."""
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
    """Parts of the budget of a search among several kinds, each a pair (ε, δ).

    Attributes
    ----------
    trial : pair of Fraction
        For each trial.
    choice : pair of Fraction
        For the choice, with δ = 0.
    fit : pair of Fraction
        For the final fit.
    """

    trial: tuple[Fraction, Fraction]
    choice: tuple[Fraction, Fraction]
    fit: tuple[Fraction, Fraction]


def split_budget(ledger: Ledger, kinds: int, share: float) -> BudgetSplit:
    """Split the budget of a ledger among trials, choice and final fit.

    Trials and choice have a fraction `share` of the budget. The ε of the choice is at most that of
    a trial. It is also at most the ε for which the utility bound of the exponential mechanism gives
    an excess error of `MAX_CHOICE_LOSS` with probability 1 - `CHOICE_FAILURE`.
    """
    search_share = exact_fraction(share)
    equal_epsilon = ledger.epsilon * search_share / (kinds + 1)
    n_persons = max(ledger.n_private // ledger.rows_per_person, 1)
    sufficient_epsilon = exact_fraction(
        2 * math.log(kinds / CHOICE_FAILURE) / (MAX_CHOICE_LOSS * n_persons)
    )
    choice_epsilon = min(equal_epsilon, sufficient_epsilon)
    trial_epsilon = (ledger.epsilon * search_share - choice_epsilon) / kinds
    trial = trial_epsilon, ledger.delta * search_share / kinds
    fit = ledger.epsilon * (1 - search_share), ledger.delta * (1 - search_share)
    return BudgetSplit(trial, (choice_epsilon, Fraction(0)), fit)


def fit_among(
    kinds: Sequence[CandidateFamily | SingleCandidate],
    rows: SearchRows,
    ledger: Ledger,
    share: float,
) -> FittedCandidate:
    """Fit each kind in a trial, draw a kind by the errors of the trials, and fit it again.

    Parameters
    ----------
    kinds : sequence
        At least one kind. A single kind gets the whole budget.
    rows : SearchRows
        Rows. Every step uses all of them, so the parts of the budget add up.
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
        predicted = ClassifierHypothesis(trial.learner, sample).predict(X)
        errors.append(int((predicted != rows.codes).sum()))
    name = f"choice among {len(kinds)} kinds: exponential mechanism, one exact draw"
    table = Leaf(np.array(errors, dtype=np.int64))
    chosen_kind = kinds[ledger.draw(table, draw, 1, name=name, proof=SEARCH_PROOF)]
    return chosen_kind.fit(ledger_share(ledger, split.fit, f"fit: {chosen_kind.label}"))


def ledger_share(ledger: Ledger, price: tuple[Fraction, Fraction], name: str) -> Ledger:
    """Return a sub-ledger that has a part of the (ε, δ) of a ledger."""
    sub_ledger = ledger.sub_ledger(mechanism_event(*price), name=name, proof=SEARCH_PROOF)
    sub_ledger.epsilon, sub_ledger.delta = price
    return sub_ledger
