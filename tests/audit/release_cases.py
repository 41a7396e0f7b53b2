"""Cases of all query releases and private scores, each with a tiny domain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from skpublicdp import ConformalClassifier, ConformalRegressor
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    PAPQueryRelease,
    RectangleQueries,
    RegressionRelease,
    StumpQueries,
    ThresholdQueries,
)
from tests.audit.case import CORNERS, LABELS, LINE, PLANE, PUBLIC_LINE, Case
from tests.audit.subjects import (
    LabelPartsLearner,
    PublishedScore,
    ReleaseOfUnsteadyRows,
    ScoreClassifier,
    ScoreRegressor,
    exceed_half,
    is_sick,
    release_balanced_accuracy,
    release_confusion_matrix,
    release_group_scores,
    release_label_scores,
    release_residuals,
    release_roc_auc,
    release_scores,
    weigh,
)

WEIGHTED = [[0.0, 3.0], [1.0, 3.0], [1.0, 0.0], [0.0, 1.3]]
"""Possible rows of a number and its survey weight, which is at most 3."""

BOUNDED = [[0.0, 0.0], [0.0, 3.0], [1.0, 3.0], [1.0, 7.0]]
"""Possible rows of a group and a number with the bounds 0 and 3."""


def _make_release(queries: Any, **settings: Any) -> Callable[[], Any]:
    """Return a function that makes a `PAPQueryRelease` of a query class, with ε = 6 by default."""
    return lambda: PAPQueryRelease(queries, bounds=(0, 3), **{"epsilon": 6, **settings})


def release_cases() -> list[Case]:
    """Return the audit cases of query release, with each class of queries and each method."""
    line: dict[str, Any] = {"fit_params": {"X_public": PUBLIC_LINE}}
    plane: dict[str, Any] = {"fit_params": {"X_public": CORNERS}}
    queries: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "thresholds": (ThresholdQueries(), LINE, line),
        "intervals": (IntervalQueries(), LINE, line),
        "stumps": (StumpQueries(), PLANE, plane),
        "marginals": (MarginalQueries(), PLANE, plane),
        "rectangles": (RectangleQueries(), PLANE, plane),
        "halfspaces": (HalfspaceQueries(), PLANE, plane),
        "custom": (CustomQueries(exceed_half), PLANE, plane),
    }
    cases = []
    for class_name, (query_class, domain, public) in queries.items():
        name = f"PAPQueryRelease, {class_name}"
        max_fits = 50 if domain is LINE else 30
        pmw = _make_release(query_class, method="pmw", delta=0, epsilon=60)
        pure = _make_release(query_class, delta=0)
        cases += [
            Case(name, _make_release(query_class), domain, 6, **public, max_fits=max_fits),
            Case(f"{name}, pure", pure, domain, 2, **public, max_fits=max_fits),
            Case(f"{name}, pmw", pmw, domain, 6, **public, max_fits=50),
        ]
    return [
        *cases,
        Case("PAPQueryRelease, thresholds, cells refined",
             _make_release(ThresholdQueries(), epsilon=3000), [[0.0], [1.0], [1.01], [2.0]], 12,
             **line, max_fits=50),
        Case("PAPQueryRelease, thresholds, pmw with δ",
             _make_release(ThresholdQueries(), method="pmw"), LINE, 6, **line, max_fits=50),
        Case("PAPQueryRelease, marginals, weights",
             _make_release(MarginalQueries(), weights=1, delta=0), WEIGHTED, 3, **plane,
             max_fits=50),
        *(
            Case(f"PAPQueryRelease, marginals, sums{suffix}",
                 _make_release(MarginalQueries(sums={1: 0}), delta=delta), BOUNDED, 3, **plane,
                 max_fits=50)
            for suffix, delta in ((", pure", 0), ("", 1e-6))
        ),
        *(
            Case(f"PAPQueryRelease, custom numbers{suffix}",
                 _make_release(CustomQueries(weigh, bounds=(-1, 2)), delta=delta), BOUNDED, 3,
                 **plane, max_fits=50)
            for suffix, delta in ((", pure", 0), ("", 1e-6))
        ),
        Case("PAPQueryRelease, marginals, zeros",
             _make_release(MarginalQueries(zeros=[{0: 0.0, 1: ">= 1"}]), delta=0), PLANE, 2,
             **plane, max_fits=50),
        Case("PAPQueryRelease, marginals, persons",
             _make_release(MarginalQueries(), max_rows_per_group=2, epsilon=12), PLANE, 3, **plane,
             rows_per_person=2, max_fits=50),
        Case("PAPQueryRelease, marginals, two of three rows of a person",
             _make_release(MarginalQueries(), max_rows_per_group=2, epsilon=12), PLANE, 3, **plane,
             rows_per_person=3, max_fits=200),
        *_cases_of_regressions(),
        *_cases_of_unsteady_rows(),
        *(
            Case(f"learner_from_label_parts{suffix}",
                 partial(LabelPartsLearner, delta=delta), LINE, 2, LABELS,
                 {"X_public": PUBLIC_LINE, "y_public": np.array([0, 1, 0])}, max_fits=60)
            for suffix, delta in ((", pure", 0), ("", 1e-6))
        ),
        Case("PAPQueryRelease, public", _make_release(StumpQueries(), method="public"), PLANE, 2,
             **plane),
    ]  # fmt: skip


def _cases_of_regressions() -> list[Case]:
    """Return the audit cases of second moments, of corners of the bounds and of categories."""
    corners = 3 * np.array(PLANE)
    mixed = np.array([[0.0, "f"], [3.0, "m"], [3.0, "f"]], dtype=object)

    def look(release: Any) -> Any:
        """Return a regression and all correlations."""
        correlations = release.correlation() if len(release.bounds_) > 1 else None
        return release.regression(0), correlations

    return [
        Case(name, partial(RegressionRelease, epsilon=6, **settings), domain, 3,
             fit_params={"X_public": public}, look=look, max_fits=50)
        for name, settings, domain, public in (
            ("RegressionRelease", {"bounds": (0, 3)}, corners, CORNERS),
            ("RegressionRelease, pure", {"bounds": (0, 3), "delta": 0}, corners, CORNERS),
            ("RegressionRelease, categories", {"bounds": {0: (0, 3)}}, mixed, mixed[[0, 1, 0, 1]]),
        )
    ]  # fmt: skip


def _cases_of_unsteady_rows() -> list[Case]:
    """Return the audit case of streamed rows that change their order; none without pyarrow."""
    if find_spec("pyarrow") is None:
        return []

    def make() -> Any:
        """Return a new release, with more budget than needed for its smallest tables."""
        return ReleaseOfUnsteadyRows(
            MarginalQueries(), epsilon=12, bounds=(0, 3), max_rows_per_group=2
        )

    name = "PAPQueryRelease, marginals, persons of streamed rows in another order"
    public = {"X_public": CORNERS}
    return [Case(name, make, PLANE, 3, fit_params=public, rows_per_person=3, max_fits=200)]


def frame_cases() -> list[Case]:
    """Return the audit cases of query release from a polars frame; none without polars.

    The frame has a missing value. A reader that inferred the type of a column from the private
    rows would reveal whether some row has it.
    """
    try:
        import polars as pl
    except ImportError:
        return []
    rows = pl.DataFrame({"sick": [True, False, None], "age": [1.0, 2.0, 1.0]})
    ages = pl.DataFrame({"sick": [True, False, False], "age": [1.0, 2.0, None]})
    release = partial(PAPQueryRelease, epsilon=6, delta=0, bounds={"age": (0, 3)})
    return [
        Case(f"PAPQueryRelease, {name} of a frame", partial(release, queries), domain, 3,
             fit_params={"X_public": rows[[0, 1, 1]]}, max_fits=50)
        for name, queries, domain in (
            ("custom", CustomQueries(is_sick), rows),
            ("marginals", MarginalQueries(), rows),
            ("missing numbers", MarginalQueries(missing=["age"]), ages),
        )
    ]  # fmt: skip


def score_cases() -> list[Case]:
    """Return the audit cases of private scores, with Laplace and with Gaussian noise."""
    labels: tuple[Any, ...] = ("no", "yes")
    releases = {
        "private_scores": (release_scores, labels),
        "private_scores, three labels": (release_label_scores, (*labels, "other")),
        "private_scores, groups": (release_group_scores, labels),
        "private_scores, outcomes": (release_residuals, (0.0, 1.0, 7.0)),
        "private_roc_auc_score": (release_roc_auc, labels),
        "private_confusion_matrix": (release_confusion_matrix, labels),
        "private_balanced_accuracy_score": (release_balanced_accuracy, labels),
    }
    rows = [[0.1], [0.6], [0.9]]
    return [
        Case(
            f"{name}{suffix}", _make_score(release, delta), rows, 2, labels=targets, max_fits=60
        )
        for name, (release, targets) in releases.items()
        for suffix, delta in ((", pure", 0), ("", 1e-5))
    ]  # fmt: skip


def conformal_cases() -> list[Case]:
    """Return the audit cases of prediction sets, with few rows and a low coverage."""
    rows = [[0.1], [0.6], [0.9]]
    settings: dict[str, Any] = {"coverage": 0.05, "epsilon": 6}
    persons = {"epsilon": 9, "max_rows_per_group": 2}
    return [
        Case(
            "ConformalClassifier", lambda: ConformalClassifier(ScoreClassifier(), **settings),
            rows, 3, labels=("no", "yes", "other"), max_fits=60,
        ),
        Case(
            "ConformalClassifier, persons",
            lambda: ConformalClassifier(ScoreClassifier(), **settings | persons),
            rows, 2, labels=("no", "yes"), rows_per_person=2, max_fits=60,
        ),
        Case(
            "ConformalRegressor",
            lambda: ConformalRegressor(ScoreRegressor(), outcome_bounds=(0, 1), **settings),
            rows, 3, labels=(0.0, 1.0, 7.0), max_fits=60,
        ),
    ]  # fmt: skip


def _make_score(release: Callable[..., Any], delta: float) -> Callable[[], Any]:
    """Return a function that makes an estimator whose `fit` releases a private score."""
    return lambda: PublishedScore(release, epsilon=0.5, delta=delta)
