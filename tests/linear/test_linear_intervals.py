"""Linear models: intervals of coefficients, and their table."""

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from skpublicdp import SemiPrivateLinearRegression, SemiPrivateLogisticRegression
from skpublicdp.plotting import CoefficientDisplay
from tests.internals.linear import (
    LogisticGLMLoss,
    ObservedSums,
    PublicDesign,
    estimate_coefficients,
)

COLUMNS = ["a", "b", "c"]
SLOPES, INTERCEPT = np.array([1.0, -0.5, 0.0]), -0.7


def people(n, seed):
    """Correlated rows, labels and outcomes of a linear truth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.5], [0.0, 0.0, 1.0]]) + 2
    margins = X @ SLOPES + INTERCEPT
    return X, (rng.random(n) < expit(margins)).astype(int), margins + rng.normal(size=n)


def fitted(kind, seed, *, n=4000, m=300, epsilon=4.0, shift=0.0, **settings):
    X, labels, outcomes = people(n, [seed, 0])
    public = people(m, [seed, 1])[0]
    if kind == "labels":
        learner, y = SemiPrivateLogisticRegression(classes=[0, 1]), labels
    else:
        learner, y = SemiPrivateLinearRegression(outcome_bounds=(-8, 8)), outcomes
    learner.set_params(epsilon=epsilon, random_state=seed, **settings)
    return learner.fit(X + shift, y, X_public=public + shift)


@pytest.mark.parametrize("kind", ["labels", "outcomes"])
def test_intervals_contain_the_truth(kind):
    """Intervals of 90% contain at least 85%, except with a probability of 1e-6."""
    truth = np.append(INTERCEPT, SLOPES)
    tables = [fitted(kind, seed).summary(level=0.9) for seed in range(60)]
    hits = [(table["low"] <= truth) & (truth <= table["high"]) for table in tables]
    # the intercept and the slopes of a fit are correlated: as if 2 of 4 were independent
    assert np.mean(hits) >= binom.ppf(1e-6, 120, 0.85) / 120
    widths = [table["high"] - table["low"] for table in tables]
    errors = [table["estimate"] - truth for table in tables]
    normal_width = 2 * 1.645 * np.std(errors, axis=0)
    np.testing.assert_allclose(np.mean(widths, axis=0), normal_width, rtol=0.5)


def test_intervals_of_columns_with_two_values():
    """Rows that are not normal, and without correlations to show how far to shrink."""
    truth = np.array([-0.7, 2.0, -1.0, 0.0])
    hits = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = (rng.random((20_300, 3)) < 0.3).astype(float)
        y = (rng.random(20_300) < expit(truth[0] + X @ truth[1:])).astype(int)
        learner = SemiPrivateLogisticRegression(epsilon=8, classes=[0, 1], random_state=seed)
        table = learner.fit(X[300:], y[300:], X_public=X[:300]).summary()
        hits.append((table["low"] <= truth) & (truth <= table["high"]))
    assert np.mean(hits) >= binom.ppf(1e-6, 80, 0.92) / 80


def test_estimate_from_exact_sums_is_the_maximum_likelihood_with_its_covariance():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(3000), rng.normal(size=(3000, 3))])
    y = (rng.random(3000) < expit(rows @ [0.3, 1.0, -1.0, 0.0])).astype(int)
    sample = PublicDesign(rows, rows, np.ones(len(rows)))
    observed = ObservedSums(
        n=3000, sums=(y - 0.5) @ rows, noise=0.0, row_noise=0.0, mean_square=0.0, public_factor=0.0
    )
    estimate = estimate_coefficients(
        sample,
        LogisticGLMLoss(),
        observed,
        [],
        start=np.zeros(4),
        is_intercept=np.arange(4) == 0,
        to_columns=np.eye(4),
    )
    best = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-8).fit(rows, y).coef_[0]
    np.testing.assert_allclose(estimate.coefficients, best, atol=1e-3)
    shares = expit(rows @ best)
    information = (rows * (shares * (1 - shares))[:, None]).T @ rows
    np.testing.assert_allclose(estimate.covariance, np.linalg.inv(information), rtol=1e-2)
    for error in ("noise", "row_noise", "public_factor"):  # each of them adds variance
        wide = estimate_coefficients(
            sample,
            LogisticGLMLoss(),
            ObservedSums(**{**vars(observed), "public_factor": 1e5, error: 1e6}),
            [],
            start=np.zeros(4),
            is_intercept=np.arange(4) == 0,
            to_columns=np.eye(4),
        )
        assert (np.diag(wide.covariance) > 1.1 * np.diag(estimate.covariance)).all()


def test_error_of_public_rows():
    """Exact sums of 20,000 rows and 300 public rows, moved to the mean of the private rows."""
    rng, truth = np.random.default_rng(0), np.array([0.3, 1.5, -1.5])
    n, m = 20_000, 300
    is_intercept = np.arange(3) == 0
    z_scores = []
    for _ in range(60):
        rows = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
        y = rng.random(n) < expit(rows @ truth)
        public = np.column_stack([np.ones(m), rng.normal(size=(m, 2))])
        public += rows.mean(axis=0) - public.mean(axis=0)
        estimate = estimate_coefficients(
            PublicDesign(public, public, np.ones(m)),
            LogisticGLMLoss(),
            ObservedSums(n, (y - 0.5) @ rows, 0.0, 0.0, 0.0, public_factor=n * n / m + n),
            [],
            start=truth,
            is_intercept=is_intercept,
            to_columns=np.eye(3),
        )
        deviations = np.sqrt(np.diag(estimate.covariance))
        z_scores.append((estimate.coefficients - truth) / deviations)
    assert 0.75 < np.std(z_scores) < 1.3


def test_intervals_shrink_with_the_budget():
    widths = [np.diff(fitted("labels", 0, epsilon=epsilon).coef_interval()) for epsilon in (1, 30)]
    assert (widths[1] < widths[0]).all()


def test_levels():
    learner = fitted("labels", 0)
    narrow, wide = learner.coef_interval(0.5), learner.coef_interval(0.99)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    table = learner.summary(0.5)
    np.testing.assert_allclose(learner.coef_interval(0.5)[:, 0], table["low"][1:])
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level"):
            learner.coef_interval(level)
        with pytest.raises(ValueError, match="level"):
            learner.summary(level)


def test_table_of_arrays_and_frames():
    X, labels, outcomes = people(3000, 0)
    public = people(300, 1)[0]
    learner = SemiPrivateLogisticRegression(epsilon=5, random_state=0)
    table = learner.fit(X, labels, X_public=public).summary()
    assert list(table) == [
        *("name", "coefficient", "estimate", "standard_error", "low", "high"),
        *("odds_ratio", "odds_ratio_low", "odds_ratio_high"),
    ]
    assert table["name"].tolist() == ["(intercept)", "x0", "x1", "x2"]
    np.testing.assert_array_equal(table["coefficient"], [learner.intercept_[0], *learner.coef_[0]])
    np.testing.assert_allclose(np.log(table["odds_ratio_high"]), table["high"])

    frame, frame_public = (pd.DataFrame(rows, columns=COLUMNS) for rows in (X, public))
    model = SemiPrivateLinearRegression(
        epsilon=5, outcome_bounds=(-8, 8), fit_intercept=False, random_state=0
    )
    table = model.fit(frame, outcomes, X_public=frame_public).summary()
    assert isinstance(table, pd.DataFrame)
    assert table["name"].tolist() == COLUMNS
    assert table.columns.tolist() == [
        *("name", "coefficient", "estimate", "standard_error", "low", "high")
    ]


@pytest.mark.parametrize("kind", ["labels", "outcomes"])
def test_moved_columns_have_the_same_slopes(kind):
    tables = [fitted(kind, 0, shift=shift).summary() for shift in (0.0, 100.0)]
    for name in ("estimate", "standard_error"):
        np.testing.assert_allclose(tables[0][name][1:], tables[1][name][1:], rtol=1e-2, atol=1e-3)
    moved = tables[1]["estimate"][0] + 100 * tables[1]["estimate"][1:].sum()
    assert moved == pytest.approx(tables[0]["estimate"][0], abs=0.05)


def test_constant_columns_have_no_interval():
    X, labels, _ = people(3000, 0)
    public = people(300, 1)[0]
    public[:, 1] = 2.0
    learner = SemiPrivateLogisticRegression(epsilon=5, random_state=0)
    with pytest.warns(UserWarning, match="x1"):
        learner.fit(X, labels, X_public=public)
    assert np.isnan(learner.coef_interval()).all(axis=1).tolist() == [False, True, False]
    assert np.isfinite(learner.summary()["low"][0])


class TestDisplay:
    def test_draws_the_largest_coefficients_with_intervals(self):
        learner = fitted("outcomes", 0)
        display = CoefficientDisplay.from_estimator(learner, level=0.9, n_coefficients=2)
        assert display.names == ["x0", "x1"]
        deviations = people(300, [0, 1])[0].std(axis=0)[:2]
        low = display.lines_.get_paths()[0].vertices[0, 0]
        assert low == pytest.approx(learner.coef_interval(0.9)[0, 0] * deviations[0], rel=1e-3)
        estimates = learner.summary()["estimate"][1:3]
        np.testing.assert_allclose(display.points_.get_xdata(), estimates * deviations, rtol=1e-3)
        assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["x0", "x1"]
        matplotlib.pyplot.close(display.figure_)

    def test_without_intervals(self):
        learner = fitted("labels", 0, m=100, fit_intercept=False)
        axes = matplotlib.pyplot.subplots()[1]
        display = CoefficientDisplay.from_estimator(learner, ax=axes)
        assert display.ax_ is axes
        assert display.lines_ is None
        assert "log-odds of 1" in axes.get_xlabel()
        np.testing.assert_array_equal(
            np.sign(display.effects), np.sign(learner.coef_[0][[int(n[1]) for n in display.names]])
        )
        matplotlib.pyplot.close(display.figure_)

    def test_other_estimators(self):
        with pytest.raises(TypeError, match="got LogisticRegression"):
            CoefficientDisplay.from_estimator(LogisticRegression())


class TestUnavailable:
    X, LABELS, _ = people(2000, 0)
    PUBLIC = people(300, 1)[0]

    def check(self, reason, X=X, public=PUBLIC, *, groups=None, **settings):
        learner = SemiPrivateLogisticRegression(epsilon=2, classes=[0, 1], random_state=0)
        learner.set_params(**settings).fit(X, self.LABELS, X_public=public, groups=groups)
        with pytest.raises(ValueError, match=f"not available, since .*{reason}"):
            learner.coef_interval()
        table = learner.summary()
        assert np.isnan(np.asarray(table["high"])).all()
        assert np.isfinite(np.asarray(table["coefficient"])).all()

    def test_persons(self):
        self.check("correlated", groups=np.arange(2000) // 2, max_rows_per_group=2)

    def test_categories(self):
        frames = [
            pd.DataFrame({"a": rows[:, 0], "b": np.where(rows[:, 1] > 2, "x", "y")})
            for rows in (self.X, self.PUBLIC)
        ]
        self.check("collinear", *frames)

    def test_few_public_rows(self):
        self.check("300 public rows", public=self.PUBLIC[:299])

    def test_few_public_rows_per_column(self):
        rng = np.random.default_rng(0)
        X, public = rng.normal(size=(2000, 101)), rng.normal(size=(302, 101))
        self.check("3 public rows per column", X, public, epsilon=20)

    def test_many_columns(self):
        rng = np.random.default_rng(0)
        X, public = rng.normal(size=(2000, 130)), rng.normal(size=(390, 130))
        self.check("128 coefficients", X, public, epsilon=20)

    def test_collinear_columns(self):
        X, public = (np.column_stack([rows, rows[:, 0]]) for rows in (self.X, self.PUBLIC))
        self.check("collinear|not measured", X, public, epsilon=20)

    def test_little_budget(self):
        self.check("epsilon", epsilon=0.005)
