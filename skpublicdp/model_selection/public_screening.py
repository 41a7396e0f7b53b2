"""Labelled public rows first: what they rule out is not tried, and costs nothing."""

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
from skpublicdp.data.masks import take
from skpublicdp.model_selection.candidates import Candidate
from skpublicdp.model_selection.search_rows import SearchRows

LEVEL = 0.05
"""Probability with which public rows may rule out the candidate that is the best on them."""

LARGEST_EPSILON = 1 << 20


def not_ruled_out(
    candidates: Sequence[Candidate],
    rows: SearchRows,
    epsilon: float,
    delta: float,
    *,
    cv: int,
    n_jobs: int | None,
) -> list[int]:
    """Return the places of the candidates that labelled public rows do not rule out.

    Each candidate is cross-validated on them as if they were private, with an ε as many times
    larger as they are fewer: what it learns from n rows at ε hangs on their product. Those are
    ruled out that a sign test finds worse than the one with the fewest mistakes.
    """
    everyone = list(range(len(candidates)))
    m = len(rows.labelled)
    folds = min(cv, m)
    if len(candidates) < 2 or folds < 2 or 0.5**m > LEVEL / (len(candidates) - 1):
        return everyone  # no outcome of the tests could rule one out
    scaled = min(epsilon * max(1.0, len(rows) / (m - math.ceil(m / folds))), LARGEST_EPSILON)
    order = KFold(folds, shuffle=True, random_state=0)
    splits = list(order.split(np.zeros((m, 1))))
    tried = [(one.learner, rows.features(one).X_public) for one in candidates]
    labelled, classes = rows.labelled, rows.classes
    labels = classes[rows.public_codes]
    found, failure = call_silently(
        Parallel(n_jobs=n_jobs),
        [
            # public things alone travel to other processes
            delayed(_mistakes)(learner, X, labelled, labels, classes, split, scaled, delta)
            for learner, X in tried
            for split in splits
        ],
    )
    if failure is not None:
        return everyone
    per_fold = np.array(found).reshape(len(candidates), len(splits), -1)
    mistakes: NDArray[np.bool_] = np.logical_or.reduce(per_fold, axis=1)
    best = int(mistakes.sum(axis=1).argmin())
    level = LEVEL / (len(candidates) - 1)
    return [other for other in everyone if not _worse(mistakes[other], mistakes[best], level)]


def _worse(mine: NDArray[np.bool_], best: NDArray[np.bool_], level: float) -> bool:
    """Tell whether mistakes are clearly more than others on the same rows, by a sign test."""
    more, fewer = int((mine & ~best).sum()), int((best & ~mine).sum())
    if more <= fewer:
        return False
    return bool(binomtest(more, more + fewer, alternative="greater").pvalue <= level)


def _mistakes(
    learner: Any,
    X_public: Any,
    labelled: NDArray[np.intp],
    labels: NDArray[Any],
    classes: NDArray[Any],
    split: tuple[NDArray[np.intp], NDArray[np.intp]],
    epsilon: float,
    delta: float,
) -> NDArray[np.bool_]:
    """Tell which labelled public rows of a test fold are mistaken, False elsewhere."""
    train, test = split
    model = fit_base(
        clone(learner),
        epsilon,
        take(X_public, labelled[train]),
        labels[train],
        delta=delta,
        random_state=0,
        classes=classes,
        X_public=X_public,
    )
    mistaken = np.zeros(len(labels), dtype=bool)
    predicted = model.predict(take(X_public, labelled[test]))
    mistaken[test] = predicted != labels[test]
    return mistaken
