"""Values near the largest and smallest floats: a fit works, or names the column beforehand."""

import inspect
import re
import warnings

import numpy as np
import pytest

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
    SubsamplingActiveLearner,
)
from skpublicdp.data import describe_columns
from skpublicdp.hypotheses import (
    HalfspaceIntersections,
    Halfspaces,
    Intervals,
    PublicSample,
    Rectangles,
    Stumps,
    Union,
)
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.query_release import (
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    RegressionRelease,
    StumpQueries,
    ThresholdQueries,
)
from tests.internals.data import column_medians, cut_points, midpoint
from tests.internals.hypotheses import MAX_MAGNITUDE, MIN_RANGE, check_public_values

N, M = 200, 60
LARGEST = np.finfo(float).max
COLUMNS = {
    "ordinary": [-1.5, 0.25, 2.0],
    "largest": [-LARGEST, LARGEST],
    "1e308": [-1e308, 0.0, 1e308],
    "positive": [1.6e308, 1.65e308, 1.7e308],
    "1e300": [-1e300, 1e300],
    "denormal": [-5e-324, 0.0, 5e-324, 1e-323],
    "mixed": [1e308, -1e308, 1e300, 5e-324, -5e-324, 0.0, 1.0],
}
EXTREME = sorted(COLUMNS.keys() - {"ordinary"})
Y_PUBLIC = np.arange(M) % 2.0
NARROW = HalfspaceIntersections(2, max_halfspaces=40)
LEARNERS = {
    "trees": SemiPrivateClassifier(alpha=0.2),
    "stumps": SemiPrivateClassifier(Stumps(), alpha=0.2),
    "boxes": SemiPrivateClassifier(Union([Rectangles(), Intervals(1)]), alpha=0.2),
    "halfspaces": SemiPrivateClassifier(Union([Stumps(), Halfspaces()]), alpha=0.2),
    "directions": SemiPrivateClassifier(Halfspaces("directions", 50), alpha=0.2),
    "intersections": SemiPrivateClassifier(NARROW, alpha=0.2),
    "ppm": PPMHalfspaceClassifier(max_halfspaces=40),
    "ppm boxes": PPMHalfspaceClassifier(pool="axes"),
    "selection": PrivateSelectionClassifier(n_candidates=10),
    "votes": PrivateVotesClassifier(epsilon=20.0),
    "generic": GenericLearnerClassifier(Halfspaces("directions", 50), alpha=0.3),
    "label boost": LabelBoostClassifier(),
    "labeler": LabelBoostClassifier(
        SemiPrivateClassifier(), hypotheses=Halfspaces("directions", 50), release_labeler=True
    ),
    "label boost of halfspaces": LabelBoostClassifier(
        SemiPrivateClassifier(Halfspaces("directions", 50), alpha=0.2), hypotheses=Stumps()
    ),
    "active": SubsamplingActiveLearner(n_labels=40),
    "active halfspaces": SubsamplingActiveLearner(
        SemiPrivateClassifier(Halfspaces("directions", 50), alpha=0.2), n_labels=40
    ),
    "boosting": SemiPrivateBoostingClassifier(epsilon=3.0),
    "newton": SemiPrivateBoostingClassifier(epsilon=20.0),
    "regression": SemiPrivateBoostingRegressor(outcome_bounds=(0, 1), epsilon=20.0),
    "logistic": SemiPrivateLogisticRegression(epsilon=20.0),
    "linear": SemiPrivateLinearRegression(outcome_bounds=(0, 1), epsilon=20.0),
    "search": SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}),
    "tables": PAPQueryRelease(MarginalQueries(2)),
    "thresholds": PAPQueryRelease(ThresholdQueries()),
    "intervals pmw": PAPQueryRelease(IntervalQueries(), method="pmw", alpha=0.2),
    "halfspace queries": PAPQueryRelease(HalfspaceQueries()),
    "halfspaces pmw": PAPQueryRelease(HalfspaceQueries(), method="pmw", alpha=0.2),
    "boxes pmw": PAPQueryRelease(RectangleQueries(), method="pmw", alpha=0.2),
    "stump queries": PAPQueryRelease(StumpQueries()),
    "second moments": RegressionRelease(),
}
ONE_COLUMN = ("thresholds", "intervals pmw")
WITH_PRODUCTS = (
    "halfspaces",
    "directions",
    "intersections",
    "ppm",
    "ppm boxes",
    "generic",
    "labeler",
    "label boost of halfspaces",
    "active halfspaces",
    "halfspaces pmw",
)
WITH_ESTIMATOR = ("selection", "votes")  # scikit-learn refuses large public values
WITH_CDFS = ("thresholds", "halfspace queries", "stump queries")

pytestmark = pytest.mark.filterwarnings("ignore", "error::RuntimeWarning")


def table(kind, n, seed):
    """Return n rows, the first column of the given kind."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.choice(COLUMNS[kind], n), rng.normal(size=n)])


def fitted(name, X, X_public):
    """Fit a learner with warnings of numpy as errors; return it and its budget."""
    learner, budget = LEARNERS[name], PrivacyBudget(50, 0.1, for_tests=True)
    learner = type(learner)(**learner.get_params(deep=False))
    learner.set_params(random_state=0, budget=budget)
    if name in ONE_COLUMN:
        X, X_public = X[:, :1], X_public[:, :1]
    names = inspect.signature(learner.fit).parameters
    y = np.arange(N) % 2
    is_partly_labelled = "is_labelled" in names
    arguments = {
        "y": np.where(np.arange(N) < 120, y, -1) if is_partly_labelled else y,
        "y_public": np.arange(M) % 2,
    }
    arguments = {key: value for key, value in arguments.items() if key in names}
    error = None
    try:
        learner.fit(X, X_public=X_public, **arguments)
        for rows in (X, X_public):
            if hasattr(learner, "predict") and not (name in WITH_ESTIMATOR and rows.max() > 1e300):
                learner.predict(rows)
            if isinstance(learner, SemiPrivateBoostingRegressor):
                assert np.isfinite(learner.interval(rows)).all()
        if name == "tables":
            assert np.isfinite(learner.mean_interval("x0")).all()
        if name == "second moments":
            learner.correlation()
            learner.regression(0)
            learner.regression(1)
    except ValueError as refusal:
        error = str(refusal)
    return error, budget


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("kind", EXTREME)
class TestFits:
    @pytest.mark.one_in(3)
    def test_no_private_value_makes_a_fit_fail_or_warn(self, name, kind):
        error, _ = fitted(name, table(kind, N, 0), table("ordinary", M, 1))
        assert error is None

    @pytest.mark.one_in(2)
    def test_public_values_work_or_their_column_is_named_beforehand(self, name, kind):
        error, budget = fitted(name, table("ordinary", N, 0), table(kind, M, 1))
        if name in WITH_PRODUCTS:
            assert re.match(r"Column x0 .*public values .*1e\+140", error)
        elif name in WITH_CDFS and kind != "1e300":
            assert re.match(r"Column x0 .*bounds .*1e\+300", error)
        elif name not in WITH_ESTIMATOR or kind == "denormal":
            assert error is None
        if error is not None:
            assert len(budget.ledger) == 0


@pytest.mark.parametrize("name", WITH_PRODUCTS)
@pytest.mark.parametrize("public", [[-MAX_MAGNITUDE, MAX_MAGNITUDE, MIN_RANGE], [0.0, MIN_RANGE]])
def test_products_of_allowed_values_do_not_overflow(name, public):
    rng = np.random.default_rng(1)
    X_public = np.column_stack([rng.choice(public, M), rng.normal(size=M)])
    error, _ = fitted(name, table("mixed", N, 0), X_public)
    assert error is None


def test_bounds_of_a_sanitizer_are_checked_before_it_spends():
    X = table("ordinary", N, 0)
    budget = PrivacyBudget(2, for_tests=True)
    clf = GenericLearnerClassifier(
        Union([Stumps(), Halfspaces()]), bounds={1: (-1e200, 1e200)}, budget=budget, random_state=0
    )
    with pytest.raises(ValueError, match="Column x1"):
        clf.fit(X, np.where(np.arange(N) < 120, np.arange(N) % 2, -1))
    assert len(budget.ledger) == 0


def test_no_points_and_constant_columns_are_valid():
    check_public_values(Halfspaces(), [np.empty((0, 1)), None], ("x0",))
    public = PublicSample(np.full((5, 2), 1e-300), np.array([0, 1]), ("x0", "x1"))
    Halfspaces().build_cover(public, alpha=0.1, beta=0.05)


def test_wide_bounds_of_outcomes_are_refused():
    X, y = table("ordinary", N, 0), np.linspace(0, 1, N)
    wide = (-1.7e308, 1.7e308)
    for bounds in (wide, (0, 1e-170)):
        reg = SemiPrivateBoostingRegressor(outcome_bounds=bounds, random_state=0)
        with pytest.raises(ValueError, match="outcome_bounds"):
            reg.fit(X, y)
    for outcomes in (1e308 * (Y_PUBLIC - 0.5) * 3, Y_PUBLIC[:3] * 1e308, Y_PUBLIC * 1e-200):
        with pytest.raises(ValueError, match="public outcomes"):
            SemiPrivateBoostingRegressor().fit(
                X, y, X_public=table("ordinary", len(outcomes), 1), y_public=outcomes
            )
    reg = reg.set_params(outcome_bounds=(0, 1)).fit(X, y)
    with pytest.raises(ValueError, match="outcome_bounds"):
        private_scores(reg, X, y, epsilon=1, outcome_bounds=wide, random_state=0)


def test_midpoints_and_medians_of_large_values_are_finite():
    large = np.array([1.0e308, 1.5e308])
    assert midpoint(large[:1], large[1:]) == pytest.approx(1.25e308)
    assert cut_points(large, 2) == pytest.approx([1.25e308])
    assert column_medians(np.column_stack([large, -large, [1.0, 2.0]])).tolist() == [
        1.25e308,
        -1.25e308,
        1.5,
    ]
    assert midpoint(np.array([-np.inf]), np.array([1.0])) == -np.inf


@pytest.mark.parametrize("ends", [(-1.7e308, 1.7e308), (-1.7e308, 1.7e308, 1.6e308)])
def test_described_values_lie_within_large_bounds(ends):
    with warnings.catch_warnings(action="error"):
        values = describe_columns({"a": ends}, size=100).columns["a"]
    assert np.isfinite(values).all()
    assert (np.abs(values) <= 1.7e308).all()
    middle = ends[2] if len(ends) == 3 else 0.0
    assert (values <= middle).mean() == pytest.approx(0.5)


def test_outcomes_within_the_widest_bounds_are_learned():
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(size=(N, 1)), rng.normal(size=(M, 1))
    reg = SemiPrivateBoostingRegressor(
        outcome_bounds=(-5e149, 5e149), public_model="auto", epsilon=20.0, random_state=0
    )
    reg.fit(X, np.where(X[:, 0] > 0, 1e308, -1e308), X_public=X_public, y_public=X_public[:, 0])
    assert np.isfinite(reg.predict(X)).all()
    assert reg.predict([[2.0]]) > reg.predict([[-2.0]])
