"""Candidates of several kinds: a share of ε tries them and chooses, the rest fits the chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skpublicdp.accounting import Draw, Steps, exact_fraction
from skpublicdp.base_learner import as_parameters, fit_base, spends, with_all_labels
from skpublicdp.data.reading import check_rows
from skpublicdp.hypotheses import PublicSample
from skpublicdp.hypotheses.finite import ClassifierHypothesis
from skpublicdp.ledger import Ledger
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.model_selection.candidates import Candidate, Fit
from skpublicdp.model_selection.family import FamilyFit
from skpublicdp.model_selection.search_rows import SearchRows

PROOF = "docs/proofs/search.md"
ALPHA, BETA = 0.005, 0.05
"""What the choice may lose, and how often; more than that takes goes to the trials."""


class OneFit:
    """A candidate that is no member of a family.

    Parameters
    ----------
    position : int
        Place of the candidate in the search.
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
        """What it is, for the receipt."""
        return type(self._candidate.learner).__name__

    def candidate(self, position: int) -> Candidate:
        """Return the candidate at a place of the search."""
        return self._candidate

    def fit(self, ledger: Ledger) -> Fit:
        """Fit with all of a ledger's budget."""
        rows, learner, X = self._rows, self._candidate.learner, self._features.X
        y, X_public = rows.y, self._features.X_public
        if "classes" not in learner.get_params(deep=False):
            X = check_rows(clone(learner), X, reset=True)
            centre = np.zeros(X.shape[1]) if X_public is None else np.median(X_public, axis=0)
            X, y = with_all_labels(learner, X, y, rows.classes, centre)
        epsilon, delta = as_parameters(spends(*ledger.per_row(ledger.epsilon, ledger.delta)))
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
        return Fit(self.positions[0], fitted)


class Shares(NamedTuple):
    """How the budget of a search among kinds is parted; all are ε and δ.

    Attributes
    ----------
    trial
        Of each trial.
    choice
        Of the choice; its δ is 0.
    fit
        Of the last fit.
    """

    trial: tuple[Fraction, Fraction]
    choice: tuple[Fraction, Fraction]
    fit: tuple[Fraction, Fraction]


def shares_of(ledger: Ledger, kinds: int, share: float) -> Shares:
    """Part what a ledger holds, with a share of it for trials and choice.

    The choice gets as much as a trial, but no more than it takes to lose at most `ALPHA` of the
    rows, with probability 1 - `BETA`, by the bound for one draw.
    """
    part = exact_fraction(share)
    most = ledger.epsilon * part / (kinds + 1)
    rows = max(ledger.n_private // ledger.rows_per_person, 1)
    choice = min(most, exact_fraction(2 * math.log(kinds / BETA) / (ALPHA * rows)))
    trial = (ledger.epsilon * part - choice) / kinds, ledger.delta * part / kinds
    left = ledger.epsilon * (1 - part), ledger.delta * (1 - part)
    return Shares(trial, (choice, Fraction(0)), left)


def fit_among(
    kinds: Sequence[FamilyFit | OneFit], rows: SearchRows, ledger: Ledger, share: float
) -> Fit:
    """Try each kind with a small part of the budget, draw one by its errors, and fit that.

    Parameters
    ----------
    kinds : sequence
        At least one; a single one gets all of the budget.
    rows : SearchRows
        Rows; all of them are used every time, and the parts of the budget add up.
    ledger : Ledger
        Pays.
    share : float
        Share of the budget for trials and choice.
    """
    if len(kinds) == 1:
        return kinds[0].fit(paid(ledger, (ledger.epsilon, ledger.delta), kinds[0].label))
    shares = shares_of(ledger, len(kinds), share)
    draw = Draw(shares.choice[0])
    ledger.plan(Steps((*[spends(*shares.trial)] * len(kinds), draw, spends(*shares.fit))))
    sample = PublicSample(np.zeros((0, 1)), rows.classes, ("row",))
    errors = []
    for kind in kinds:
        trial = kind.fit(paid(ledger, shares.trial, f"trial: {kind.label}"))
        X = rows.features(kind.candidate(trial.position)).X
        errors.append(
            int((ClassifierHypothesis(trial.learner, sample).predict(X) != rows.codes).sum())
        )
    name = f"choice among {len(kinds)} kinds: exponential mechanism, one exact draw"
    table = Leaf(np.array(errors, dtype=np.int64))
    chosen = kinds[ledger.draw(table, draw, 1, name=name, proof=PROOF)]
    return chosen.fit(paid(ledger, shares.fit, f"fit: {chosen.label}"))


def paid(ledger: Ledger, price: tuple[Fraction, Fraction], name: str) -> Ledger:
    """Return a ledger that holds a part of (ε, δ)."""
    part = ledger.child(spends(*price), name=name, proof=PROOF)
    part.epsilon, part.delta = price
    return part
