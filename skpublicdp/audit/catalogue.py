"""Every public estimator of the package with a domain so tiny that it can be verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from skpublicdp.active import SubsamplingActiveLearner
from skpublicdp.audit.subjects import (
    PublishedScore,
    RowSampledBoosting,
    area_of,
    balanced_of,
    beyond_half,
    known_true,
    matrix_of,
    scores_of,
)
from skpublicdp.audit.verification import Verification
from skpublicdp.audit.verify import verify_privacy
from skpublicdp.boosting import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.hypotheses import (
    Conjunctions,
    DecisionTrees,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from skpublicdp.label_boost import LabelBoostClassifier
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.preprocessing import PublicFit
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    PAPQueryRelease,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from skpublicdp.rules.generic_learner import GenericLearnerClassifier
from skpublicdp.rules.ppm import PPMHalfspaceClassifier
from skpublicdp.rules.semi_private import SemiPrivateClassifier
from skpublicdp.sanitizers import BLRSanitizer, QuantileSanitizer

BITS, LINE = [[0.0], [1.0]], [[0.0], [1.0], [2.0]]
PLANE = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
PUBLIC = np.array([[0.5], [1.5], [0.2]])
SPREAD = np.random.default_rng(0).normal(1, 1, (30, 2))
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
TWO = (0, 1)


@dataclass(frozen=True)
class Case:
    """One estimator and the data it is verified on.

    Attributes
    ----------
    name : str
        Of the estimator, and what is set.
    make : callable
        Returns it.
    domain, n, labels, fit_params, rows_per_person, look, max_fits
        As in `verify_privacy`.
    """

    name: str
    make: Callable[[], Any]
    domain: Any
    n: int
    labels: Any = None
    fit_params: dict[str, Any] = field(default_factory=dict)
    rows_per_person: int | None = None
    look: Callable[[Any], Any] | None = None
    max_fits: int = 200

    def verify(self) -> Verification:
        """Verify it."""
        return verify_privacy(
            self.make, self.domain, self.n,
            labels=self.labels, fit_params=self.fit_params, rows_per_person=self.rows_per_person,
            look=self.look, max_fits=self.max_fits, name=self.name,
        )  # fmt: skip


def _rule(hypotheses: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: SemiPrivateClassifier(hypotheses, classes=TWO, **settings)


def _released(queries: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: PAPQueryRelease(queries, bounds=(0, 3), **{"epsilon": 6, **settings})


def _rules() -> list[Case]:
    line: dict[str, Any] = {"labels": TWO, "fit_params": {"X_public": PUBLIC}}
    plane: dict[str, Any] = {"labels": TWO, "fit_params": {"X_public": CORNERS}}
    name = "SemiPrivateClassifier, "
    return [
        Case(name + "thresholds", _rule(Thresholds()), LINE, 2, **line, max_fits=400),
        Case(name + "stumps", _rule(Stumps(), epsilon=2), PLANE, 2, **plane, max_fits=400),
        Case(name + "intervals", _rule(Intervals()), LINE, 2, **line, max_fits=400),
        Case(name + "rectangles", _rule(Rectangles()), PLANE, 1, **plane, max_fits=900),
        Case(name + "conjunctions", _rule(Conjunctions()), PLANE, 1, **plane, max_fits=900),
        Case(name + "halfspaces", _rule(Halfspaces(), epsilon=2), PLANE, 1, **plane),
        Case(
            name + "trees", _rule(DecisionTrees()), BITS, 2, TWO, {"X_public": PUBLIC[:2]},
            max_fits=400,
        ),
        Case(name + "trees of depth 1", _rule(DecisionTrees(1)), LINE, 2, **line, max_fits=400),
        Case(
            name + "in rounds",
            _rule(Halfspaces("directions", directions=5, rounds=3), epsilon=50), PLANE, 2, **plane,
        ),
        Case(
            name + "labelled public rows",
            _rule(Thresholds(), public_weight=1), BITS, 2, TWO,
            {"X_public": PUBLIC, "y_public": np.array([0, 1, 0])},
        ),
        Case(
            name + "three labels",
            lambda: SemiPrivateClassifier(Stumps(), classes=(0, 1, 2)), BITS, 1, (0, 1, 2),
            {"X_public": PUBLIC}, max_fits=400,
        ),
        Case(
            name + "persons",
            _rule(Thresholds(), max_rows_per_group=2), BITS, 1, **line, rows_per_person=2,
        ),
        Case(
            "PPMHalfspaceClassifier", lambda: PPMHalfspaceClassifier(private_label=1),
            PLANE[:2], 1, TWO, {"X_public": CORNERS[:3], "y_public": np.array([0, 1, 0])},
            max_fits=600,
        ),
        Case(
            "PPMHalfspaceClassifier, weights",
            lambda: PPMHalfspaceClassifier(private_label=1, class_weight={0: 1, 1: 3}),
            PLANE, 2, TWO, {"X_public": CORNERS[:3], "y_public": np.array([0, 1, 0])}, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, balanced",
            lambda: PPMHalfspaceClassifier(private_label=1, class_weight="balanced"),
            PLANE, 2, TWO, {"X_public": CORNERS[:3], "y_public": np.array([0, 1, 0])}, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, persons",
            lambda: PPMHalfspaceClassifier(private_label=1, max_rows_per_group=2),
            PLANE[:2], 1, TWO, {"X_public": CORNERS[:3], "y_public": np.array([0, 1, 0])}, 2,
            max_fits=60,
        ),
        Case(
            "SemiPrivateSearchCV, rules",
            lambda: SemiPrivateSearchCV(
                SemiPrivateClassifier(Thresholds()), {"alpha": [0.05, 0.4]}, classes=TWO
            ),
            LINE, 1, **line,
        ),
        Case(
            "SemiPrivateSearchCV, boosting",
            lambda: SemiPrivateSearchCV(
                SemiPrivateBoostingClassifier(), {"method": ["moments", "votes"]},
                epsilon=20, delta=1e-6, classes=TWO,
            ),
            LINE, 4, **line, max_fits=60,
        ),
    ]  # fmt: skip


def _boosting() -> list[Case]:
    line: dict[str, Any] = {"labels": TWO, "fit_params": {"X_public": PUBLIC}}
    plane: dict[str, Any] = {"labels": TWO, "fit_params": {"X_public": CORNERS}}

    def boost(**settings: Any) -> Callable[[], Any]:
        return lambda: SemiPrivateBoostingClassifier(**{"classes": TWO, **settings})

    def regress(**settings: Any) -> Callable[[], Any]:
        return lambda: SemiPrivateBoostingRegressor(outcome_bounds=(0, 2), **settings)

    name = "SemiPrivateBoosting"
    outcomes: dict[str, Any] = {"labels": (0.0, 1.0, 5.0), "fit_params": {"X_public": PUBLIC}}
    return [
        Case(name + "Classifier", boost(), LINE, 6, **line, max_fits=100),
        Case(name + "Classifier, rounds", boost(epsilon=40), PLANE, 12, **plane, max_fits=100),
        Case(
            name + "Classifier, drift",
            boost(epsilon=40), PLANE, 60, TWO, {"X_public": np.tile(CORNERS, (50, 1))},
            max_fits=100,
        ),
        Case(
            name + "Classifier, trees grown",
            boost(epsilon=100_000), PLANE, 60, TWO, {"X_public": SPREAD}, max_fits=50,
        ),
        Case(
            name + "Classifier, some rows",
            lambda: RowSampledBoosting(classes=TWO, epsilon=100_000),
            PLANE, 60, TWO, {"X_public": SPREAD},
            max_fits=50,
        ),
        Case(name + "Classifier, moments", boost(method="moments", epsilon=60), PLANE, 12, **plane,
             max_fits=60),
        Case(name + "Classifier, pure", boost(delta=0), LINE, 2, **line, max_fits=100),
        Case(
            name + "Classifier, pure rounds",
            boost(delta=0, epsilon=30, method="moments", classes=(0, 1, 2)), LINE, 12, (0, 1, 2),
            {"X_public": PUBLIC}, max_fits=60,
        ),
        Case(
            name + "Classifier, votes",
            boost(delta=0, method="votes", max_rounds=1), BITS, 2, TWO, {"X_public": PUBLIC[:2]},
            max_fits=400,
        ),
        Case(
            name + "Classifier, three labels, trees",
            boost(delta=0, epsilon=120, classes=(0, 1, 2)), LINE, 6, (0, 1, 2),
            {"X_public": PUBLIC}, max_fits=60,
        ),
        Case(
            name + "Classifier, three labels, drift",
            boost(classes=(0, 1, 2), epsilon=20), LINE, 30, (0, 1, 2),
            {"X_public": np.repeat(LINE, [300, 2, 1], axis=0)}, max_fits=60,
        ),
        Case(
            name + "Classifier, votes, Gaussian",
            boost(method="votes", max_rounds=4, epsilon=2), LINE, 6, **line, max_fits=60,
        ),
        Case(
            name + "Classifier, persons",
            boost(epsilon=60, max_rows_per_group=2), BITS, 6, **line, rows_per_person=2,
            max_fits=60,
        ),
        Case(name + "Regressor", regress(), LINE, 6, **outcomes, max_fits=100),
        Case(name + "Regressor, rounds", regress(epsilon=40), LINE, 12, **outcomes, max_fits=60),
        Case(name + "Regressor, trees grown", regress(epsilon=100_000), LINE, 60, **outcomes,
             max_fits=60),
        Case(name + "Regressor, pure", regress(delta=0), LINE, 6, **outcomes, max_fits=100),
    ]  # fmt: skip


def _few_labels() -> list[Case]:
    def base(**settings: Any) -> Any:
        return SemiPrivateClassifier(Thresholds(), **settings)

    def ask(**settings: Any) -> Callable[[], Any]:
        return lambda: SubsamplingActiveLearner(base(), n_labels=1, classes=TWO, **settings)

    def boosted(**settings: Any) -> Callable[[], Any]:
        return lambda: LabelBoostClassifier(base(), classes=TWO, **settings)

    def first(labelled: int, n: int) -> dict[str, Any]:
        return {"is_labelled": np.arange(n) < labelled, "X_public": PUBLIC}

    def generic(**settings: Any) -> Callable[[], Any]:
        return lambda: GenericLearnerClassifier(
            Thresholds(), classes=TWO, bounds=(0, 3), **settings
        )

    asked: dict[str, Any] = {"labels": TWO, "fit_params": {"X_public": PUBLIC}}
    # of two rules, and at a beta near 1, so few rows are relabelled at so small an ε
    two = FiniteClass([DecisionTreeClassifier().fit(BITS, labels) for labels in ((0, 1), (1, 0))])
    points = np.array(LINE)
    return [
        Case("SubsamplingActiveLearner", ask(), LINE, 2, **asked, max_fits=400),
        Case("SubsamplingActiveLearner, roles of the paper", ask(roles="paper"), LINE, 2, **asked,
             max_fits=400),
        Case("SubsamplingActiveLearner, known rows", ask(transcript_private=True), LINE, 2, **asked,
             max_fits=400),
        Case("SubsamplingActiveLearner, persons", ask(max_rows_per_group=2), BITS, 1, **asked,
             rows_per_person=2, max_fits=400),
        Case("LabelBoostClassifier, no round", boosted(), BITS, 2, TWO, first(1, 2), max_fits=400),
        Case("LabelBoostClassifier, a round",
             boosted(hypotheses=two, epsilon=8, beta=0.99, n_base=10**6), BITS, 2, TWO,
             first(1, 2), max_fits=800),
        Case("LabelBoostClassifier, released labeler",
             boosted(release_labeler=True, hypotheses=Thresholds(), bounds=(0, 3)), BITS, 2, TWO,
             first(1, 2), max_fits=800),
        Case("LabelBoostClassifier, persons", boosted(max_rows_per_group=2), BITS, 2, TWO,
             first(2, 4), 2, max_fits=400),
        Case("GenericLearnerClassifier", generic(epsilon=20), LINE, 12, TWO,
             {"is_labelled": np.arange(12) < 3}, max_fits=80),
        Case("GenericLearnerClassifier, few rows", generic(epsilon=3), LINE, 12, TWO,
             {"is_labelled": np.arange(12) < 3}, max_fits=80),
        Case("GenericLearnerClassifier, persons",
             generic(epsilon=3, sanitizer=BLRSanitizer(points, n_points=2), max_rows_per_group=2),
             LINE, 3, TWO, {"is_labelled": np.arange(6) < 3}, 2, max_fits=80),
        Case("QuantileSanitizer", lambda: QuantileSanitizer(epsilon=20), LINE, 6, max_fits=100),
        Case("QuantileSanitizer, many columns", lambda: QuantileSanitizer(epsilon=60),
             [[0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7]], 12,
             max_fits=50),
        Case("QuantileSanitizer, persons",
             lambda: QuantileSanitizer(epsilon=40, max_rows_per_group=2), LINE, 4,
             rows_per_person=2, max_fits=60),
        Case("BLRSanitizer", lambda: BLRSanitizer(points, n_points=2), LINE, 2,
             max_fits=400),
        Case("PublicFit", PublicFit, LINE, 2, fit_params={"X_public": PUBLIC}),
    ]  # fmt: skip


def _releases() -> list[Case]:
    line: dict[str, Any] = {"fit_params": {"X_public": PUBLIC}}
    plane: dict[str, Any] = {"fit_params": {"X_public": CORNERS}}
    queries: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "thresholds": (ThresholdQueries(), LINE, line),
        "intervals": (IntervalQueries(), LINE, line),
        "stumps": (StumpQueries(), PLANE, plane),
        "marginals": (MarginalQueries(), PLANE, plane),
        "rectangles": (RectangleQueries(), PLANE, plane),
        "halfspaces": (HalfspaceQueries(), PLANE, plane),
        "custom": (CustomQueries(beyond_half), PLANE, plane),
    }
    cases = []
    for kind, (of, domain, given) in queries.items():
        name, few = f"PAPQueryRelease, {kind}", 50 if domain is LINE else 30
        cases += [
            Case(name, _released(of), domain, 6, **given, max_fits=few),
            Case(f"{name}, pure", _released(of, delta=0), domain, 2, **given, max_fits=few),
            Case(f"{name}, pmw", _released(of, method="pmw", delta=0, epsilon=60), domain, 6,
                 **given, max_fits=50),
        ]  # fmt: skip
    return [
        *cases,
        Case("PAPQueryRelease, thresholds, cells refined",
             _released(ThresholdQueries(), epsilon=3000), [[0.0], [1.0], [1.01], [2.0]], 12, **line,
             max_fits=50),
        Case("PAPQueryRelease, thresholds, pmw with δ", _released(ThresholdQueries(), method="pmw"),
             LINE, 6, **line, max_fits=50),
        Case("PAPQueryRelease, marginals, persons",
             _released(MarginalQueries(), max_rows_per_group=2, epsilon=12), PLANE, 3, **plane,
             rows_per_person=2, max_fits=50),
        Case("PAPQueryRelease, public", _released(StumpQueries(), method="public"), PLANE, 2,
             **plane),
    ]  # fmt: skip


def _frames() -> list[Case]:
    """Return releases of a frame in which a missing value could change the type of a column."""
    try:
        import polars as pl
    except ImportError:
        return []
    kinds = pl.DataFrame({"sick": [True, False, None], "age": [1.0, 2.0, 1.0]})
    release = partial(PAPQueryRelease, epsilon=6, delta=0, bounds={"age": (0, 3)})
    known: dict[str, Any] = {"fit_params": {"X_public": kinds[[0, 1, 1]]}, "max_fits": 50}
    return [
        Case(f"PAPQueryRelease, {name} of a frame", partial(release, queries), kinds, 3, **known)
        for name, queries in (
            ("custom", CustomQueries(known_true)),
            ("marginals", MarginalQueries()),
        )
    ]


def _scores() -> list[Case]:
    known: dict[str, Any] = {"labels": ("no", "yes"), "max_fits": 60}
    releases = {
        "private_scores": scores_of,
        "private_roc_auc_score": area_of,
        "private_confusion_matrix": matrix_of,
        "private_balanced_accuracy_score": balanced_of,
    }
    return [
        Case(f"{name}{kind}", _of_scores(release, delta), [[0.1], [0.6], [0.9]], 2, **known)
        for name, release in releases.items()
        for kind, delta in ((", pure", 0), ("", 1e-5))
    ]


def _of_scores(release: Callable[..., Any], delta: float) -> Callable[[], Any]:
    return lambda: PublishedScore(release, epsilon=0.5, delta=delta)


def catalogue() -> list[Case]:
    """Return every public estimator with all of its ways to spend."""
    return [*_rules(), *_boosting(), *_few_labels(), *_releases(), *_frames(), *_scores()]
