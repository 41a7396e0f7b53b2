"""Screening of candidates by cross-validation on labelled public rows, which costs no ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.model_selection import KFold

from skpublicdp._internal.redaction import call_silently
from skpublicdp.accounting.filters import MAX_FIT_EPSILON
from skpublicdp.base_learner import fit_base
from skpublicdp.data.public_rows import mark_described
from skpublicdp.data.tables import take_rows
from skpublicdp.model_selection.candidates import Candidate
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.privacy.ledger import public_computation

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
