"""Cases of all public learners and sanitizers, each with a tiny domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skpublicdp import (
    GenericLearnerClassifier,
    PPMHalfspaceClassifier,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    PublicFit,
    SemiPrivateClassifier,
)
from skpublicdp.active import SubsamplingActiveLearner
from skpublicdp.boosting import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.hypotheses import (
    Conjunctions,
    Corrections,
    DecisionTrees,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from skpublicdp.label_boost import LabelBoostClassifier
from skpublicdp.linear import SemiPrivateLinearRegression, SemiPrivateLogisticRegression
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.sanitizers import BLRSanitizer, QuantileSanitizer
from tests.audit.case import (
    BITS,
    CORNERS,
    LABELS,
    LINE,
    NORMAL_POINTS,
    ONE_HOT,
    PLANE,
    PUBLIC_LINE,
    WIDE_POINTS,
    WIDE_ROWS,
    Case,
)
from tests.audit.subjects import (
    CarelessClassifier,
    ColumnOfFixedOutcomes,
    ColumnOfFixedRows,
    LabelsOfFixedRows,
    RiskScore,
    RowSampledBoosting,
)


def _make_rule(hypotheses: Any, **settings: Any) -> Callable[[], Any]:
    """Return a function that makes a `SemiPrivateClassifier` with a hypothesis class."""
    return lambda: SemiPrivateClassifier(hypotheses, classes=LABELS, **settings)


def rule_cases() -> list[Case]:
    """Return the audit cases of learners that draw a single rule, one for each hypothesis class."""
    line: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": PUBLIC_LINE}}
    plane: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": CORNERS}}
    name = "SemiPrivateClassifier, "
    return [
        Case(name + "thresholds", _make_rule(Thresholds()), LINE, 2, **line, max_fits=400),
        Case(name + "stumps", _make_rule(Stumps(), epsilon=2), PLANE, 2, **plane, max_fits=400),
        Case(name + "intervals", _make_rule(Intervals()), LINE, 2, **line, max_fits=400),
        Case(name + "rectangles", _make_rule(Rectangles()), PLANE, 1, **plane, max_fits=900),
        Case(name + "conjunctions", _make_rule(Conjunctions()), PLANE, 1, **plane, max_fits=900),
        Case(name + "halfspaces", _make_rule(Halfspaces(), epsilon=2), PLANE, 1, **plane),
        Case(
            name + "trees",
            _make_rule(DecisionTrees()), BITS, 2, LABELS, {"X_public": PUBLIC_LINE[:2]},
            max_fits=400,
        ),
        Case(
            name + "corrections",
            _make_rule(Corrections(DecisionTreeClassifier().fit(LINE, (0, 1, 1)), Stumps())),
            LINE, 2, **line, max_fits=400,
        ),
        Case(name + "trees of depth 1", _make_rule(DecisionTrees(1)), LINE, 2, **line,
             max_fits=400),
        Case(
            name + "in rounds",
            _make_rule(Halfspaces("directions", directions=5, rounds=3), epsilon=50),
            PLANE, 2, **plane,
        ),
        Case(
            name + "labelled public rows",
            _make_rule(Thresholds(), public_weight=1), BITS, 2, LABELS,
            {"X_public": PUBLIC_LINE, "y_public": np.array([0, 1, 0])},
        ),
        Case(
            name + "three labels",
            lambda: SemiPrivateClassifier(Stumps(), classes=(0, 1, 2)), BITS, 1, (0, 1, 2),
            {"X_public": PUBLIC_LINE}, max_fits=400,
        ),
        Case(
            name + "persons",
            _make_rule(Thresholds(), max_rows_per_group=2), BITS, 1, **line, rows_per_person=2,
        ),
        Case(
            name + "two of three rows of a person",
            _make_rule(Thresholds(), max_rows_per_group=2), BITS, 2, **line, rows_per_person=3,
        ),
    ]  # fmt: skip


def ppm_cases() -> list[Case]:
    """Return the audit cases of `PPMHalfspaceClassifier`, whose public rows have one label."""
    labelled_public = {"X_public": CORNERS[:3], "y_public": np.array([0, 1, 0])}
    return [
        Case(
            "PPMHalfspaceClassifier", lambda: PPMHalfspaceClassifier(private_label=1),
            PLANE[:2], 1, LABELS, labelled_public, max_fits=600,
        ),
        Case(
            "PPMHalfspaceClassifier, weights",
            lambda: PPMHalfspaceClassifier(private_label=1, class_weight={0: 1, 1: 3}),
            PLANE, 2, LABELS, labelled_public, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, balanced",
            lambda: PPMHalfspaceClassifier(private_label=1, class_weight="balanced"),
            PLANE, 2, LABELS, labelled_public, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, persons",
            lambda: PPMHalfspaceClassifier(private_label=1, max_rows_per_group=2),
            PLANE[:2], 1, LABELS, labelled_public, 2, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, counted errors",
            lambda: PPMHalfspaceClassifier(private_label=1, evaluation_share=0.8),
            PLANE[:2], 1, LABELS, labelled_public, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, boxes",
            lambda: PPMHalfspaceClassifier(private_label=1, pool="axes"),
            PLANE[:2], 1, LABELS, labelled_public, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, growing boxes",
            lambda: PPMHalfspaceClassifier(
                private_label=1, pool="axes", max_intersections=6, class_weight={0: 1, 1: 3}
            ),
            PLANE, 2, LABELS, labelled_public, max_fits=60,
        ),
        Case(
            "PPMHalfspaceClassifier, growing polytopes",
            lambda: PPMHalfspaceClassifier(private_label=1, max_intersections=6),
            PLANE, 2, LABELS, labelled_public, max_fits=60,
        ),
    ]  # fmt: skip


def search_cases() -> list[Case]:
    """Return the audit cases of private hyperparameter searches."""
    line: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": PUBLIC_LINE}}
    return [
        Case(
            "SemiPrivateSearchCV, rules",
            lambda: SemiPrivateSearchCV(
                SemiPrivateClassifier(Thresholds()), {"alpha": [0.05, 0.4]}, classes=LABELS
            ),
            LINE, 1, **line,
        ),
        Case(
            "SemiPrivateSearchCV, boosting",
            lambda: SemiPrivateSearchCV(
                SemiPrivateBoostingClassifier(), {"method": ["moments", "votes"]},
                epsilon=20, delta=1e-6, classes=LABELS,
            ),
            LINE, 4, **line, max_fits=60,
        ),
    ]  # fmt: skip


def linear_cases() -> list[Case]:
    """Return the audit cases of linear models, with and without corrections."""
    plane: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": CORNERS}}
    wild = [[0.0, 0.0], [np.nan, np.inf], [1e300, -1e300], [-40.0, 1.0]]

    def label(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a logistic regression."""
        return lambda: SemiPrivateLogisticRegression(classes=LABELS, **settings)

    def three(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a logistic regression of three labels."""
        return lambda: SemiPrivateLogisticRegression(classes=(0, 1, 2), **settings)

    def regress(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a linear regression of outcomes in [0, 2]."""
        return lambda: SemiPrivateLinearRegression(outcome_bounds=(0, 2), **settings)

    name = "SemiPrivateLogisticRegression"
    outcomes = (0.0, 1.0, 5.0)
    points: dict[str, Any] = {"X_public": NORMAL_POINTS}
    return [
        Case(name, label(), PLANE, 6, **plane, max_fits=60),
        Case(name + ", corrections", label(epsilon=40), PLANE, 12, LABELS, points, max_fits=60),
        Case(name + ", any rows", label(epsilon=40), wild, 6, LABELS, points, max_fits=60),
        Case(
            name + ", no intercept",
            label(epsilon=40, fit_intercept=False), PLANE, 12, LABELS, points, max_fits=40,
        ),
        Case(name + ", pure", label(delta=0, epsilon=40), PLANE, 6, **plane, max_fits=40),
        Case(
            name + ", public model",
            label(epsilon=40, public_model=RiskScore()), PLANE, 12, LABELS, points, max_fits=40,
        ),
        Case(
            name + ", labelled public rows",
            label(epsilon=40), PLANE, 12, LABELS,
            {**points, "y_public": np.arange(len(NORMAL_POINTS)) % 2}, max_fits=40,
        ),
        Case(
            name + ", persons",
            label(epsilon=40, max_rows_per_group=2), BITS, 6, LABELS, {"X_public": PUBLIC_LINE},
            rows_per_person=2, max_fits=40,
        ),
        Case(name + ", three labels", three(epsilon=40), PLANE, 12, (0, 1, 2), points, max_fits=60),
        Case(
            name + ", three labels, any rows",
            three(epsilon=40), wild, 6, (0, 1, 2), points, max_fits=60,
        ),
        Case(
            "SemiPrivateLinearRegression",
            regress(epsilon=40), PLANE, 6, outcomes, points, max_fits=60,
        ),
        Case(
            "SemiPrivateLinearRegression, no intercept",
            regress(epsilon=40, fit_intercept=False), PLANE, 6, outcomes, points, max_fits=40,
        ),
        Case(
            "SemiPrivateLinearRegression, pure",
            regress(delta=0, epsilon=40), PLANE, 6, outcomes, points, max_fits=40,
        ),
    ]  # fmt: skip


def boosting_cases() -> list[Case]:
    """Return the audit cases of boosting, with all of its methods and stages.

    The privacy parameters are far larger than in use, so that each stage runs on few rows.
    """
    line: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": PUBLIC_LINE}}
    plane: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": CORNERS}}

    def boost(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a boosting classifier, of two labels by default."""
        return lambda: SemiPrivateBoostingClassifier(**{"classes": LABELS, **settings})

    def regress(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a boosting regressor of outcomes in [0, 2]."""
        return lambda: SemiPrivateBoostingRegressor(outcome_bounds=(0, 2), **settings)

    name = "SemiPrivateBoosting"
    outcomes: dict[str, Any] = {"labels": (0.0, 1.0, 5.0), "fit_params": {"X_public": PUBLIC_LINE}}
    return [
        Case(name + "Classifier", boost(), LINE, 6, **line, max_fits=100),
        Case(name + "Classifier, rounds", boost(epsilon=40), PLANE, 12, **plane, max_fits=100),
        Case(
            name + "Classifier, drift",
            boost(epsilon=40), PLANE, 60, LABELS, {"X_public": np.tile(CORNERS, (50, 1))},
            max_fits=100,
        ),
        Case(
            name + "Classifier, trees grown",
            boost(epsilon=100_000), PLANE, 150, LABELS, {"X_public": NORMAL_POINTS}, max_fits=50,
        ),
        Case(
            name + "Classifier, some rows",
            lambda: RowSampledBoosting(classes=LABELS, epsilon=100_000),
            PLANE, 150, LABELS, {"X_public": NORMAL_POINTS},
            max_fits=50,
        ),
        Case(
            name + "Classifier, one-hot",
            boost(epsilon=40), PLANE, 12, LABELS, {"X_public": ONE_HOT}, max_fits=100,
        ),
        Case(name + "Classifier, moments", boost(method="moments", epsilon=60), PLANE, 12, **plane,
             max_fits=60),
        Case(
            name + "Classifier, many numbers",
            boost(epsilon=40), WIDE_ROWS, 6, LABELS, {"X_public": WIDE_POINTS}, max_fits=20,
        ),
        Case(
            name + "Classifier, many numbers and columns",
            boost(epsilon=100_000), WIDE_ROWS, 12, LABELS, {"X_public": WIDE_POINTS}, max_fits=8,
        ),
        Case(name + "Classifier, pure", boost(delta=0), LINE, 2, **line, max_fits=100),
        Case(
            name + "Classifier, pure rounds",
            boost(delta=0, epsilon=30, method="moments", classes=(0, 1, 2)), LINE, 12, (0, 1, 2),
            {"X_public": PUBLIC_LINE}, max_fits=60,
        ),
        Case(
            name + "Classifier, votes",
            boost(delta=0, method="votes", max_rounds=1), BITS, 2, LABELS,
            {"X_public": PUBLIC_LINE[:2]}, max_fits=400,
        ),
        Case(
            name + "Classifier, three labels, trees",
            boost(delta=0, epsilon=120, classes=(0, 1, 2)), LINE, 6, (0, 1, 2),
            {"X_public": PUBLIC_LINE}, max_fits=60,
        ),
        Case(
            name + "Classifier, three labels, few rows",
            boost(classes=(0, 1, 2)), LINE, 6, (0, 1, 2), {"X_public": PUBLIC_LINE}, max_fits=60,
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
        Case(
            name + "Classifier, public model",
            boost(epsilon=2, public_model=RiskScore()), PLANE, 12, LABELS,
            # public rows of one score, so that those of private rows are clipped
            {"X_public": np.tile(CORNERS[CORNERS[:, 0] != CORNERS[:, 1]], (8, 1))}, max_fits=60,
        ),
        Case(
            name + "Classifier, public model, three labels",
            boost(epsilon=20, classes=(0, 1, 2), public_model=RiskScore(3)), PLANE, 12, (0, 1, 2),
            {"X_public": CORNERS}, max_fits=60,
        ),
        Case(
            name + "Classifier, votes, public model",
            boost(method="votes", max_rounds=4, epsilon=2, public_model=RiskScore()), PLANE, 6,
            **plane, max_fits=60,
        ),
        Case(name + "Regressor", regress(), LINE, 6, **outcomes, max_fits=100),
        Case(name + "Regressor, rounds", regress(epsilon=40), LINE, 12, **outcomes, max_fits=60),
        Case(name + "Regressor, trees grown", regress(epsilon=100_000), LINE, 60, **outcomes,
             max_fits=60),
        Case(name + "Regressor, pure", regress(delta=0), LINE, 6, **outcomes, max_fits=100),
        Case(name + "Regressor, counts", regress(loss="poisson", epsilon=100_000), LINE, 60,
             **outcomes, max_fits=60),
    ]  # fmt: skip


def label_efficient_cases() -> list[Case]:
    """Return the audit cases of learners that need the labels of few rows only."""

    def make_active(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes an active learner, which asks for one label."""
        return lambda: SubsamplingActiveLearner(
            SemiPrivateClassifier(Thresholds()), n_labels=1, classes=LABELS, **settings
        )

    def make_label_boost(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a `LabelBoostClassifier` of thresholds."""
        return lambda: LabelBoostClassifier(
            SemiPrivateClassifier(Thresholds()), classes=LABELS, **settings
        )

    def labelled_first(n_labelled: int, n: int) -> dict[str, Any]:
        """Return arguments of `fit` by which the first of n private rows are labelled."""
        return {"is_labelled": np.arange(n) < n_labelled, "X_public": PUBLIC_LINE}

    line: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": PUBLIC_LINE}}
    # with two rules only and beta near 1, few rows are relabelled at a small ε
    two_rules = FiniteClass([DecisionTreeClassifier().fit(BITS, y) for y in ((0, 1), (1, 0))])
    return [
        Case("SubsamplingActiveLearner", make_active(), LINE, 2, **line, max_fits=400),
        Case("SubsamplingActiveLearner, roles of the paper", make_active(roles="paper"),
             LINE, 2, **line, max_fits=400),
        Case("SubsamplingActiveLearner, known rows", make_active(transcript_private=True),
             LINE, 2, **line, max_fits=400),
        Case("SubsamplingActiveLearner, persons", make_active(max_rows_per_group=2),
             BITS, 1, **line, rows_per_person=2, max_fits=400),
        Case("LabelBoostClassifier, no round", make_label_boost(),
             BITS, 2, LABELS, labelled_first(1, 2), max_fits=400),
        Case("LabelBoostClassifier, a round",
             make_label_boost(hypotheses=two_rules, epsilon=8, beta=0.99, n_base=10**6),
             BITS, 2, LABELS, labelled_first(1, 2), max_fits=800),
        Case("LabelBoostClassifier, boxes between cuts",
             make_label_boost(hypotheses=Rectangles(cuts=[[0.5], [0.5]]), epsilon=30, beta=0.99,
                              n_base=10**6),
             PLANE, 2, LABELS, labelled_first(1, 2) | {"X_public": CORNERS}, max_fits=900),
        Case("LabelBoostClassifier, released labeler",
             make_label_boost(release_labeler=True, hypotheses=Thresholds(), bounds=(0, 3)),
             BITS, 2, LABELS, labelled_first(1, 2), max_fits=800),
        Case("LabelBoostClassifier, persons", make_label_boost(max_rows_per_group=2),
             BITS, 2, LABELS, labelled_first(2, 4), 2, max_fits=400),
    ]  # fmt: skip


def any_classifier_cases() -> list[Case]:
    """Return the audit cases of learners that make any classifier private."""

    def make_votes(estimator: Any, **settings: Any) -> Callable[[], Any]:
        """Return a function that makes a `PrivateVotesClassifier`, by default of three blocks."""
        settings = {"n_blocks": 3, **settings}
        return lambda: PrivateVotesClassifier(estimator, classes=LABELS, **settings)

    line: dict[str, Any] = {"labels": LABELS, "fit_params": {"X_public": PUBLIC_LINE}}
    labelled = {"X_public": CORNERS, "y_public": np.array([0, 1, -1, 1])}
    stump = DecisionTreeClassifier(max_depth=1)
    return [
        Case("PrivateSelectionClassifier",
             lambda: PrivateSelectionClassifier(stump, n_candidates=3, classes=LABELS),
             LINE, 2, **line, max_fits=400),
        Case("PrivateSelectionClassifier, labelled public rows",
             lambda: PrivateSelectionClassifier(stump, n_candidates=4, classes=LABELS),
             PLANE, 2, LABELS, labelled, max_fits=400),
        Case("PrivateSelectionClassifier, persons",
             lambda: PrivateSelectionClassifier(
                 stump, n_candidates=3, classes=LABELS, max_rows_per_group=2),
             BITS, 1, **line, rows_per_person=2, max_fits=400),
        Case("PrivateVotesClassifier", make_votes(stump), LINE, 6, **line),
        Case("PrivateVotesClassifier, pure", make_votes(stump, delta=0),
             PLANE, 6, LABELS, labelled),
        Case("PrivateVotesClassifier, careless classifier", make_votes(CarelessClassifier()),
             LINE, 6, **line),
        Case("PrivateVotesClassifier, persons", make_votes(stump, max_rows_per_group=2),
             LINE, 4, **line, rows_per_person=2),
    ]  # fmt: skip


def sanitizer_cases() -> list[Case]:
    """Return the audit cases of sanitizers, of the learner on them, and of `PublicFit`."""

    def generic(**settings: Any) -> Callable[[], Any]:
        """Return a function that makes a `GenericLearnerClassifier` of thresholds."""
        return lambda: GenericLearnerClassifier(
            Thresholds(), classes=LABELS, bounds=(0, 3), **settings
        )

    points = np.array(LINE)
    return [
        Case("GenericLearnerClassifier", generic(epsilon=20), LINE, 12, LABELS,
             {"is_labelled": np.arange(12) < 3}, max_fits=80),
        Case("GenericLearnerClassifier, few rows", generic(epsilon=3), LINE, 12, LABELS,
             {"is_labelled": np.arange(12) < 3}, max_fits=80),
        Case("GenericLearnerClassifier, persons",
             generic(epsilon=3, sanitizer=BLRSanitizer(points, n_points=2), max_rows_per_group=2),
             LINE, 3, LABELS, {"is_labelled": np.arange(6) < 3}, 2, max_fits=80),
        Case("QuantileSanitizer", lambda: QuantileSanitizer(epsilon=20), LINE, 6, max_fits=100),
        Case("QuantileSanitizer, many columns", lambda: QuantileSanitizer(epsilon=60),
             [[0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7]], 12,
             max_fits=50),
        Case("QuantileSanitizer, persons",
             lambda: QuantileSanitizer(epsilon=40, max_rows_per_group=2), LINE, 4,
             rows_per_person=2, max_fits=60),
        Case("BLRSanitizer", lambda: BLRSanitizer(points, n_points=2), LINE, 2,
             max_fits=400),
        Case("PublicFit", PublicFit, LINE, 2, fit_params={"X_public": PUBLIC_LINE}),
    ]  # fmt: skip


def label_privacy_cases() -> list[Case]:
    """Return the audit cases of labels of rows whose features are public."""
    public, private = DummyClassifier(strategy="prior"), SemiPrivateClassifier(Thresholds())
    rows, name = [[0.0]], "LabelPrivateClassifier"
    settings: dict[str, Any] = {"classes": LABELS, "epsilon": 2}
    persons = {"max_rows_per_group": 2}
    return [
        Case(name, lambda: LabelsOfFixedRows(public, **settings), rows, 3, labels=LABELS),
        Case(
            f"{name}, persons", lambda: LabelsOfFixedRows(public, **settings | persons),
            rows, 1, labels=LABELS, rows_per_person=2,
        ),
        Case(
            f"{name}, private estimator", lambda: LabelsOfFixedRows(private, **settings),
            rows, 3, labels=LABELS,
        ),
    ]  # fmt: skip


def private_column_cases() -> list[Case]:
    """Return the audit cases of a private column of rows whose labels are public."""
    name, tree = "PrivateColumnsClassifier", DecisionTreeClassifier(max_depth=1, random_state=0)
    settings: dict[str, Any] = {"private_columns": ["x"], "public_model": tree, "epsilon": 2}
    public: dict[str, Any] = {"fit_params": {"X_public": PUBLIC_LINE}}
    rule, boosting = SemiPrivateClassifier(Stumps()), SemiPrivateBoostingClassifier()
    regressor = SemiPrivateLinearRegression()
    stump = DecisionTreeRegressor(max_depth=1, random_state=0)
    return [
        Case(name, lambda: ColumnOfFixedRows(rule, **settings), BITS, 6, **public),
        Case(
            f"{name}, persons", lambda: ColumnOfFixedRows(rule, **settings, max_rows_per_group=2),
            BITS, 1, rows_per_person=2, **public,
        ),
        Case(
            f"{name}, boosting", lambda: ColumnOfFixedRows(boosting, **settings), BITS, 3, **public
        ),
        Case(
            "PrivateColumnsRegressor",
            lambda: ColumnOfFixedOutcomes(regressor, **settings | {"public_model": stump}),
            BITS, 3, **public,
        ),
    ]  # fmt: skip
