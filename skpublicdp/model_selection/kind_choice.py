"""Choice among several kinds of candidates: public screening, private trials, one draw and a fit.

A kind is fitted as a unit: either a `CandidateFamily`, whose single draw chooses among its
candidates and their rules, or a `SingleCandidate`. Screening by cross-validation on labelled public
rows costs no ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.model_selection import KFold

from skpublicdp._internal.redaction import call_silently
from skpublicdp.accounting import Draw, Steps, exact_fraction
from skpublicdp.accounting.filters import MAX_FIT_EPSILON
from skpublicdp.base_learner import add_row_per_label, epsilon_delta, fit_base, mechanism_event
from skpublicdp.data.binning import column_medians
from skpublicdp.data.public_rows import mark_described
from skpublicdp.data.tables import take_rows
from skpublicdp.data.validation import check_rows
from skpublicdp.hypotheses import PublicSample
from skpublicdp.hypotheses.finite import ClassifierHypothesis
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate
from skpublicdp.model_selection.family import CandidateFamily
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.privacy.ledger import Ledger, public_computation

SCREENING_LEVEL = 0.05
"""Family-wise level of the sign tests.

This level bounds the probability that the best candidate is excluded."""


def screen_candidates(
    candidates: Sequence[Candidate],
    rows: SearchRows,
    epsilon: float,
    delta: float,
    *,
    cv: int,
    n_jobs: int | None,
) -> list[int]:
    """Return the indices of the candidates that are not excluded by labelled public rows.

    Each candidate is cross-validated on the public rows as if these rows were private. The
    candidate's ε is scaled to keep n ε constant, since accuracy depends on this product. A
    candidate is excluded if a sign test finds it worse than the candidate with the fewest errors.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates of the search.
    rows : SearchRows
        Rows of the search. Only the public rows of the search are used.
    epsilon, delta : float
        Privacy budget of the search.
    cv : int
        Number of folds.
    n_jobs : int or None
        Number of workers.
    """
    all_indices = list(range(len(candidates)))
    n_labelled = len(rows.labelled)
    n_folds = min(cv, n_labelled)
    if len(candidates) < 2 or n_folds < 2:
        return all_indices
    level = SCREENING_LEVEL / (len(candidates) - 1)  # Bonferroni
    if 0.5**n_labelled > level:  # the smallest possible p-value of a sign test
        return all_indices
    n_train = n_labelled - math.ceil(n_labelled / n_folds)
    scaled_epsilon = min(epsilon * max(1.0, len(rows) / n_train), MAX_FIT_EPSILON)
    splitter = KFold(n_folds, shuffle=True, random_state=0)  # fixed seed: public rows only
    splits = list(splitter.split(np.zeros((n_labelled, 1))))
    learners = [(candidate.learner, rows.features(candidate).X_public) for candidate in candidates]
    labelled, classes = rows.labelled, rows.classes
    labels = classes[rows.public_codes]
    results, failure = call_silently(
        Parallel(n_jobs=n_jobs),
        [
            # worker processes only receive public data
            delayed(_public_mistakes)(
                learner,
                X,
                labelled,
                labels,
                classes,
                split,
                scaled_epsilon,
                delta,
                rows.described,
            )
            for learner, X in learners
            for split in splits
        ],
    )
    if failure is not None:  # a candidate that cannot be fitted to public rows alone
        return all_indices
    # (n_candidates, n_folds, n_labelled); each row is tested in one fold
    mistakes_by_fold = np.array(results).reshape(len(candidates), len(splits), -1)
    mistakes: NDArray[np.bool_] = np.logical_or.reduce(mistakes_by_fold, axis=1)
    best = int(mistakes.sum(axis=1).argmin())
    return [index for index in all_indices if not _is_worse(mistakes[index], mistakes[best], level)]


def _is_worse(mistakes: NDArray[np.bool_], best_mistakes: NDArray[np.bool_], level: float) -> bool:
    """Return whether a candidate makes significantly more errors than the best candidate.

    The test only counts rows on which exactly one of the two candidates makes an error.
    """
    n_losses = int((mistakes & ~best_mistakes).sum())
    n_wins = int((best_mistakes & ~mistakes).sum())
    if n_losses <= n_wins:
        return False
    return bool(binomtest(n_losses, n_losses + n_wins, alternative="greater").pvalue <= level)


def _public_mistakes(
    learner: Any,
    X_public: Any,
    labelled: NDArray[np.intp],
    labels: NDArray[Any],
    classes: NDArray[Any],
    split: tuple[NDArray[np.intp], NDArray[np.intp]],
    epsilon: float,
    delta: float,
    described: bool,
) -> NDArray[np.bool_]:
    """Return a mask of the labelled public rows misclassified by one cross-validation fit.

    The learner is fitted to the training fold. The mask is False for rows outside the test fold.

    Parameters
    ----------
    learner : classifier
        Unfitted learner.
    X_public : array-like of shape (n_public, n_features)
        All public rows, with the features of the candidate.
    labelled : ndarray of intp, shape (n_labelled,)
        Indices of the labelled public rows.
    labels : ndarray of shape (n_labelled,)
        Labels of these rows.
    classes : ndarray of shape (n_classes,)
        All labels.
    split : pair of ndarray of intp
        Indices of the training and the test rows among the labelled rows.
    epsilon, delta : float
        Privacy budget of the fit.
    described : bool
        Whether the public rows come from a description.
    """
    train, test = split
    if described:  # a worker process receives a copy, which is not marked
        X_public = mark_described(X_public)
    with public_computation():
        model = fit_base(
            clone(learner),
            epsilon,
            take_rows(X_public, labelled[train]),
            labels[train],
            delta=delta,
            random_state=0,
            classes=classes,
            X_public=X_public,
        )
    mistakes = np.zeros(len(labels), dtype=bool)
    predicted = model.predict(take_rows(X_public, labelled[test]))
    mistakes[test] = predicted != labels[test]
    return mistakes


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


Budget: TypeAlias = tuple[Fraction, Fraction]
"""Privacy budget (ε, δ) of one step."""


def split_budget(ledger: Ledger, n_kinds: int, share: float) -> tuple[Budget, Fraction, Budget]:
    """Return the budget of each trial, the ε of the choice, and the budget of the final fit.

    Trials and choice together receive a fraction `share` of the budget. The ε of the choice is at
    most that of an excess error of `MAX_CHOICE_LOSS` with probability 1 - `CHOICE_FAILURE`.
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
    return trial, choice_epsilon, fit


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
    trial_budget, choice_epsilon, fit_budget = split_budget(ledger, len(kinds), share)
    draw = Draw(choice_epsilon)
    trials = [mechanism_event(*trial_budget)] * len(kinds)
    final_fit = mechanism_event(*fit_budget)
    ledger.plan(Steps((*trials, draw, final_fit)))
    errors = []  # number of misclassified private rows, by kind
    for kind in kinds:
        trial_ledger = ledger_share(ledger, trial_budget, f"trial: {kind.label}")
        trial = kind.fit(trial_ledger)
        errors.append(_count_errors(trial, kind, rows))
    name = f"choice among {len(kinds)} kinds: exponential mechanism, one exact draw"
    table = Leaf(np.array(errors, dtype=np.int64))
    chosen = ledger.draw(table, draw, 1, name=name, proof=SEARCH_PROOF)
    chosen_kind = kinds[chosen]
    rest = ledger_share(ledger, fit_budget, f"fit: {chosen_kind.label}")
    return chosen_kind.fit(rest)


def _count_errors(
    trial: FittedCandidate, kind: CandidateFamily | SingleCandidate, rows: SearchRows
) -> int:
    """Return the exact number of private rows that a trial misclassifies, which is private."""
    X = rows.features(kind.candidate(trial.position)).X
    # `ClassifierHypothesis` needs the classes of a sample, but no rows
    sample = PublicSample(np.zeros((0, 1)), rows.classes, ("row",))
    predicted = ClassifierHypothesis(trial.learner, sample).predict(X)
    return int((predicted != rows.codes).sum())


def ledger_share(ledger: Ledger, price: Budget, name: str) -> Ledger:
    """Return a sub-ledger with a share `price` of a ledger's (ε, δ), charged as a whole."""
    sub_ledger = ledger.sub_ledger(mechanism_event(*price), name=name, proof=SEARCH_PROOF)
    sub_ledger.epsilon, sub_ledger.delta = price
    return sub_ledger
