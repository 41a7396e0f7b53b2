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
from skpublicdp.base_learner import fit_base
from skpublicdp.data.tables import take_rows
from skpublicdp.model_selection.candidates import Candidate
from skpublicdp.model_selection.search_rows import SearchRows

SCREENING_LEVEL = 0.05
"""Family-wise level of the sign tests: the chance of excluding an equally good candidate."""

MAX_SCREENING_EPSILON = 1 << 20


def screen_candidates(
    candidates: Sequence[Candidate],
    rows: SearchRows,
    epsilon: float,
    delta: float,
    *,
    cv: int,
    n_jobs: int | None,
) -> list[int]:
    """Return the indices of the candidates that labelled public rows do not exclude.

    Each candidate is cross-validated on the public rows as if they were private. Its ε is scaled
    so that n ε stays the same, since accuracy depends on this product. A candidate is excluded
    if a sign test finds it worse than the candidate with the fewest errors.
    """
    all_indices = list(range(len(candidates)))
    m = len(rows.labelled)
    folds = min(cv, m)
    if len(candidates) < 2 or folds < 2 or 0.5**m > SCREENING_LEVEL / (len(candidates) - 1):
        return all_indices  # no outcome of the tests can be significant
    scaled = min(epsilon * max(1.0, len(rows) / (m - math.ceil(m / folds))), MAX_SCREENING_EPSILON)
    folding = KFold(folds, shuffle=True, random_state=0)
    splits = list(folding.split(np.zeros((m, 1))))
    learners = [(candidate.learner, rows.features(candidate).X_public) for candidate in candidates]
    labelled, classes = rows.labelled, rows.classes
    labels = classes[rows.public_codes]
    results, failure = call_silently(
        Parallel(n_jobs=n_jobs),
        [
            # only public data are sent to other processes
            delayed(_public_mistakes)(learner, X, labelled, labels, classes, split, scaled, delta)
            for learner, X in learners
            for split in splits
        ],
    )
    if failure is not None:
        return all_indices
    per_fold = np.array(results).reshape(len(candidates), len(splits), -1)
    mistakes: NDArray[np.bool_] = np.logical_or.reduce(per_fold, axis=1)
    best = int(mistakes.sum(axis=1).argmin())
    level = SCREENING_LEVEL / (len(candidates) - 1)
    return [index for index in all_indices if not _is_worse(mistakes[index], mistakes[best], level)]


def _is_worse(mistakes: NDArray[np.bool_], best_mistakes: NDArray[np.bool_], level: float) -> bool:
    """Indicate whether a candidate has significantly more errors than the best, by a sign test."""
    n_more, n_fewer = int((mistakes & ~best_mistakes).sum()), int((best_mistakes & ~mistakes).sum())
    if n_more <= n_fewer:
        return False
    return bool(binomtest(n_more, n_more + n_fewer, alternative="greater").pvalue <= level)


def _public_mistakes(
    learner: Any,
    X_public: Any,
    labelled: NDArray[np.intp],
    labels: NDArray[Any],
    classes: NDArray[Any],
    split: tuple[NDArray[np.intp], NDArray[np.intp]],
    epsilon: float,
    delta: float,
) -> NDArray[np.bool_]:
    """Return a mask of the labelled public rows of a test fold that are misclassified."""
    train, test = split
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
    mistaken = np.zeros(len(labels), dtype=bool)
    predicted = model.predict(take_rows(X_public, labelled[test]))
    mistaken[test] = predicted != labels[test]
    return mistaken
