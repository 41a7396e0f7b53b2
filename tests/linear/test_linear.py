"""Linear models: accuracy, coefficients, columns, and steps of the fit."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import (
    PublicFit,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from skpublicdp.exceptions import NoPublicDataWarning
from tests.internals.data import Table, build_schema
from tests.internals.linear import (
    CoefficientPrior,
    CoefficientSums,
    DesignColumns,
    LabelSums,
    LogisticGLMLoss,
    PublicDesign,
    SquaredGLMLoss,
    energy_shares,
    expected_error,
    fit_labelled_rows,
    fit_posterior,
    linear_fit,
    misfit,
    shrunk_covariance,
)

D = 30


def people(n, seed=0, d=D, noise=1.0):
    """Rows with correlated columns, labels and outcomes of a linear truth."""
    rng, truth = np.random.default_rng(seed), np.random.default_rng(99)
    mixing = truth.normal(size=(d, d)) / np.sqrt(d)
    coefficients = truth.normal(size=d)
    X = rng.normal(size=(n, d)) @ mixing + 3
    margins = X @ coefficients - 3 * coefficients.sum()
    y = (margins + noise * rng.logistic(size=n) > 0).astype(int)
    return X, y, margins + noise * rng.normal(size=n)


X, Y, OUTCOMES = people(6000)
PUBLIC, Y_PUBLIC, OUTCOMES_PUBLIC = people(250, seed=1)
TEST, Y_TEST, OUTCOMES_TEST = people(3000, seed=2)


def auc(epsilon, *, X=X, y=Y, seed=0, **options):
    learner = SemiPrivateLogisticRegression(epsilon=epsilon, random_state=seed)
    learner.fit(X, y, X_public=PUBLIC, **options)
    return roc_auc_score(Y_TEST, learner.decision_function(TEST))


def r2(epsilon, seed=0, **options):
    learner = SemiPrivateLinearRegression(
        epsilon=epsilon, outcome_bounds=(-20, 20), random_state=seed
    )
    learner.fit(X, OUTCOMES, X_public=PUBLIC, **options)
    return r2_score(OUTCOMES_TEST, learner.predict(TEST))


def mean(score, *args, **options):
    return np.mean([score(*args, seed=seed, **options) for seed in range(3)])


class TestAccuracy:
    def test_labels_approach_the_fit_without_privacy(self):
        best = roc_auc_score(
            Y_TEST, LogisticRegression(max_iter=1000).fit(X, Y).decision_function(TEST)
        )
        scores = [mean(auc, epsilon) for epsilon in (0.3, 1, 8, 50)]
        assert np.all(np.diff(scores) > 0)
        assert scores[1] > best - 0.05
        assert scores[2] > best - 0.02
        assert scores[3] > best - 0.005

    def test_outcomes_approach_the_fit_without_privacy(self):
        best = r2_score(OUTCOMES_TEST, Ridge().fit(X, OUTCOMES).predict(TEST))
        scores = [mean(r2, epsilon) for epsilon in (0.3, 1, 8, 50)]
        assert np.all(np.diff(scores) > 0)
        assert scores[2] > best - 0.05
        assert scores[3] > best - 0.02

    def test_labels_of_public_rows_help_and_do_not_hurt(self):
        public = LogisticRegression(C=0.1).fit(PUBLIC, Y_PUBLIC)
        of_public = roc_auc_score(Y_TEST, public.decision_function(TEST))
        for epsilon in (0.01, 0.1, 0.3, 1):
            assert mean(auc, epsilon, y_public=Y_PUBLIC) > of_public - 0.01
        assert mean(auc, 0.1, y_public=Y_PUBLIC) > mean(auc, 0.1) + 0.03
        assert mean(r2, 0.1, y_public=OUTCOMES_PUBLIC) > mean(r2, 0.1) + 0.2

    def test_wrong_labels_of_public_rows_lose_their_weight(self):
        assert mean(auc, 3, y_public=1 - Y_PUBLIC) > mean(auc, 3) - 0.03

    def test_public_rows_with_another_share_of_labels(self):
        """The intercept follows private rows, whose labels are rarely 1."""
        kept = (Y == 0) | (np.random.default_rng(0).random(len(Y)) < 0.05)
        means = []
        for seed in range(5):
            learner = SemiPrivateLogisticRegression(epsilon=0.1, random_state=seed)
            learner.fit(X[kept], Y[kept], X_public=PUBLIC, y_public=Y_PUBLIC)
            means.append(learner.predict_proba(X[kept])[:, 1].mean())
        assert abs(np.mean(means) - Y[kept].mean()) < 0.05

    def test_public_rows_of_another_mean(self):
        learner = SemiPrivateLogisticRegression(epsilon=3, random_state=0)
        learner.fit(X, Y, X_public=PUBLIC + 1)
        assert roc_auc_score(Y_TEST, learner.decision_function(TEST)) > auc(3) - 0.03
        assert abs(learner.predict_proba(TEST)[:, 1].mean() - Y_TEST.mean()) < 0.1

    def test_pure_privacy(self):
        learner = SemiPrivateLogisticRegression(epsilon=5, delta=0, random_state=0)
        learner.fit(X, Y, X_public=PUBLIC)
        assert roc_auc_score(Y_TEST, learner.decision_function(TEST)) > 0.8

    def test_no_public_rows(self):
        learner = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        with pytest.warns(NoPublicDataWarning):
            learner.fit((X - 3) / X.std(axis=0), Y)
        assert roc_auc_score(Y_TEST, learner.decision_function((TEST - 3) / X.std(axis=0))) > 0.9

    def test_bounds_in_place_of_public_rows(self):
        learner = SemiPrivateLogisticRegression(epsilon=8, bounds=(-7, 13), random_state=0)
        with pytest.warns(NoPublicDataWarning):
            learner.fit(X, Y)
        assert roc_auc_score(Y_TEST, learner.decision_function(TEST)) > 0.85


class TestCoefficients:
    def test_of_labels(self):
        learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
        learner.fit(X, Y, X_public=PUBLIC)
        assert learner.coef_.shape == (1, D)
        margins = TEST @ learner.coef_[0] + learner.intercept_[0]
        np.testing.assert_allclose(learner.decision_function(TEST), margins, atol=1e-9)
        np.testing.assert_allclose(
            learner.predict_log_proba(TEST), np.log(learner.predict_proba(TEST)), atol=1e-12
        )
        np.testing.assert_array_equal(learner.predict(TEST), (margins > 0).astype(int))

    def test_of_outcomes_are_in_their_units(self):
        fits = []
        for low, width in ((-20, 40), (180, 400)):
            y = low + width * (OUTCOMES + 20) / 40
            learner = SemiPrivateLinearRegression(
                epsilon=20, outcome_bounds=(low, low + width), random_state=0
            )
            fits.append(learner.fit(X, y, X_public=PUBLIC))
        assert fits[0].coef_.shape == (D,)
        np.testing.assert_allclose(fits[1].coef_, 10 * fits[0].coef_, atol=1e-6)
        predicted = TEST @ fits[0].coef_ + fits[0].intercept_
        np.testing.assert_allclose(fits[0].predict(TEST), np.clip(predicted, -20, 20))

    def test_do_not_depend_on_units_of_columns(self):
        units = 10.0 ** np.random.default_rng(0).integers(-5, 6, D)
        fits = [
            SemiPrivateLogisticRegression(epsilon=5, random_state=0).fit(
                X * factors, Y, X_public=PUBLIC * factors
            )
            for factors in (np.ones(D), units)
        ]
        np.testing.assert_allclose(fits[1].coef_ * units, fits[0].coef_, rtol=1e-3, atol=1e-4)

    def test_without_an_intercept(self):
        learner = SemiPrivateLogisticRegression(epsilon=20, fit_intercept=False, random_state=0)
        learner.fit(X - 3, Y, X_public=PUBLIC - 3)
        assert learner.intercept_[0] == 0
        assert learner.decision_function(np.zeros((1, D)))[0] == 0
        assert roc_auc_score(Y_TEST, learner.decision_function(TEST - 3)) > 0.9

    @pytest.mark.parametrize("bounds", [(-4, 9), None])
    def test_without_an_intercept_of_outcomes(self, bounds):
        learner = SemiPrivateLinearRegression(
            epsilon=20, outcome_bounds=bounds, fit_intercept=False, random_state=0
        )
        learner.fit(X - 3, OUTCOMES, X_public=PUBLIC - 3, y_public=OUTCOMES_PUBLIC)
        low, high = learner.outcome_bounds_
        assert low == -high
        if bounds:
            assert high == 9
        assert learner.intercept_ == 0
        assert learner.predict(np.zeros((1, D)))[0] == 0
        assert r2_score(OUTCOMES_TEST, learner.predict(TEST - 3)) > 0.8

    def test_constant_public_columns_have_none(self):
        public = PUBLIC.copy()
        public[:, [0, 4]] = 2.0
        learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
        with pytest.warns(NoPublicDataWarning):
            learner.fit(X, Y, X_public=public)
        assert np.flatnonzero(learner.coef_[0] == 0).tolist() == [0, 4]

    def test_only_constant_public_columns_leave_the_intercept(self):
        learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
        y = np.arange(len(X)) % 5 == 0
        with pytest.warns(NoPublicDataWarning):
            learner.fit(X, y, X_public=np.ones((40, D)))
        assert not learner.coef_.any()
        np.testing.assert_allclose(learner.predict_proba(TEST)[:, 1], 0.2, atol=0.02)


class TestColumns:
    def test_categories_and_missing_numbers(self):
        rng = np.random.default_rng(0)

        def table(n):
            city = rng.choice(["Bern", "Rome"], n)
            age = rng.normal(50, 10, n)
            y = (city == "Rome") * 2.0 + (age - 50) / 10 + rng.logistic(size=n) > 1
            age[rng.random(n) < 0.1] = np.nan
            return pd.DataFrame({"city": city, "age": age}), y

        (rows, y), (public, _) = table(4000), table(200)
        learner = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        learner.fit(rows, y, X_public=public)
        names = learner.coef_names_.tolist()
        assert names == ["city=Bern", "city=Rome", "city=(other)", "city=(missing)", "age"]
        coefficients = dict(zip(names, learner.coef_[0], strict=True))
        assert coefficients["city=Rome"] - coefficients["city=Bern"] == pytest.approx(2, abs=0.5)
        assert coefficients["age"] == pytest.approx(0.1, abs=0.03)
        mean_age = public["age"].mean()
        filled, missing = [
            pd.DataFrame({"city": ["Bern"], "age": [age]}) for age in (mean_age, np.nan)
        ]
        np.testing.assert_allclose(
            learner.decision_function(filled), learner.decision_function(missing)
        )

    def test_infinite_numbers_count_as_missing(self):
        learner = SemiPrivateLogisticRegression(random_state=0).fit(X, Y, X_public=PUBLIC)
        rows = np.repeat(TEST[:1], 2, axis=0)
        rows[:, 3] = np.nan, np.inf
        assert np.ptp(learner.decision_function(rows)) == 0

    def test_whole_numbers_beyond_floats(self):
        base = 2**60
        values = np.arange(4000) % 200
        y = values > 100
        learner = SemiPrivateLogisticRegression(epsilon=10, random_state=0)
        learner.fit(
            pd.DataFrame({"id": base + values}),
            y,
            X_public=pd.DataFrame({"id": base + np.arange(200)}),
        )
        assert (
            learner.score(pd.DataFrame({"id": base + np.arange(200)}), np.arange(200) > 100) > 0.9
        )

    def test_in_a_pipeline_with_a_public_scaler(self):
        model = make_pipeline(
            PublicFit(StandardScaler()),
            SemiPrivateLogisticRegression(epsilon=5, random_state=0),
            transform_input=["X_public"],
        )
        with sklearn.config_context(enable_metadata_routing=True):
            model.fit(X, Y, X_public=PUBLIC)
        assert model.score(TEST, Y_TEST) > 0.75

    def test_declared_bounds_clip(self):
        learner = SemiPrivateLogisticRegression(epsilon=5, bounds=(-2, 8), random_state=0)
        learner.fit(X, Y, X_public=np.clip(PUBLIC, -2, 8))
        np.testing.assert_array_equal(
            learner.decision_function(TEST * 100),
            learner.decision_function(np.clip(TEST * 100, -2, 8)),
        )

    def test_scales_of_extreme_columns(self):
        public = np.array([[1e300, 5e-324, 1.0], [-1e300, 0.0, np.nan], [1e299, 5e-324, 3.0]])
        schema = build_schema(Table(public), [Table(public)], nullable=True)
        columns = DesignColumns.from_public(schema, public, centred=True)
        standardised = columns.standardised(public)
        assert np.isfinite(standardised).all()
        assert standardised[:, 0].std() == pytest.approx(1, abs=1e-3)
        assert not standardised[:, 1].any()  # as good as constant
        assert standardised[1, 2] == 0  # the mean in place of a missing number


class TestRefusals:
    def test_tiny_epsilon(self):
        with pytest.raises(ValueError, match="so small that the noise of sums is too large"):
            SemiPrivateLogisticRegression(epsilon=1e-9, random_state=0).fit(X, Y, X_public=PUBLIC)

    def test_many_rows_per_person(self):
        learner = SemiPrivateLogisticRegression(
            epsilon=0.1, max_rows_per_group=10**6, random_state=0
        )
        with pytest.raises(ValueError, match="Reduce max_rows_per_group, which is 1000000"):
            learner.fit(X, Y, X_public=PUBLIC, groups=np.arange(len(X)))

    def test_small_epsilon_has_coarser_integers(self):
        learner = SemiPrivateLogisticRegression(epsilon=1e-3, random_state=0)
        assert np.isfinite(learner.fit(X, Y, X_public=PUBLIC).coef_).all()


class TestSteps:
    def test_corrections_grow_with_the_budget(self):
        numbers = [
            SemiPrivateLogisticRegression(epsilon=epsilon, random_state=0)
            .fit(X, Y, X_public=PUBLIC)
            .n_corrections_
            for epsilon in (0.05, 1, 8, 50)
        ]
        assert numbers[0] == 0
        assert numbers == sorted(numbers)
        assert 2 <= numbers[-1] <= linear_fit.MAX_CORRECTIONS

    def test_water_filling_is_a_minimum(self):
        variances, information = np.array([4.0, 2.0, 1.0, 0.01]), np.array([40.0, 20, 10, 0.1])
        shares = energy_shares(variances, 0.5, information, 3.0)
        assert shares.sum() == pytest.approx(1)
        assert shares[3] == 0
        best = expected_error(variances, shares, 0.5, information, 3.0)
        for one in range(3):
            for other in range(3):
                moved = shares.copy()
                moved[one] += 0.01
                moved[other] -= 0.01
                assert expected_error(variances, moved, 0.5, information, 3.0) >= best

    @pytest.mark.parametrize("noise", 10.0 ** np.arange(0, 60, 4))
    def test_much_noise_leaves_the_best_axis(self, noise):
        variances = np.array([1.0, 4.0, 2.0])
        shares = energy_shares(variances, 0.5, 10 * variances, noise)
        assert shares.sum() == pytest.approx(1)
        assert shares.argmax() == 1

    def test_covariance_is_shrunk_as_much_as_it_is_uncertain(self):
        rng = np.random.default_rng(0)
        scales = np.array([3.0, 1.0, 0.3])
        few = shrunk_covariance(rng.normal(size=(10, 3)) * scales)
        many = shrunk_covariance(rng.normal(size=(10_000, 3)) * scales)
        assert many.identity_weight < 0.01 < few.identity_weight
        np.testing.assert_allclose(np.sqrt(many.variances), scales, rtol=0.05)

    @pytest.mark.parametrize("n_rows", [10, 300])
    def test_axes_do_not_depend_on_the_library(self, monkeypatch, n_rows):
        """Signs are arbitrary, and so is any rotation of axes of equal variance (10 rows)."""
        rows = np.random.default_rng(0).normal(size=(n_rows, 30))
        expected = shrunk_covariance(rows)
        eigh = np.linalg.eigh

        def turned(matrix):
            values, vectors = eigh(matrix)
            n_equal = int((values < values[0] * (1 + 1e-9)).sum())
            turn = np.linalg.qr(np.random.default_rng(1).normal(size=(n_equal, n_equal)))[0]
            vectors[:, :n_equal] = vectors[:, :n_equal] @ turn
            vectors[:, n_equal::2] *= -1
            return values, vectors

        monkeypatch.setattr(np.linalg, "eigh", turned)
        found = shrunk_covariance(rows)
        np.testing.assert_allclose(found.axes, expected.axes, atol=1e-9)
        assert np.allclose(found.axes.T @ found.axes, np.eye(30))

    def test_weighted_public_rows_move_to_the_mean_of_exact_sums(self):
        rng = np.random.default_rng(0)
        plain, weights = rng.normal(size=(500, 3)), rng.random(500)
        sample = PublicDesign(plain * weights[:, None], plain, weights)
        target = np.array([0.1, -0.1, 0.02])
        sums = LabelSums(
            n=10**4,
            sums=np.zeros(3),
            noise=0.0,
            row_sums=10**4 * target,
            row_noise=0.0,
            mean_square=0.0,
            residual_variance=1.0,
        )
        sums.move_to_private_mean(sample, mean_factor=10**4)
        np.testing.assert_allclose(sample.weighted.mean(axis=0), target)
        np.testing.assert_allclose(sample.weighted, sample.plain * weights[:, None])

    def test_misfit_is_the_factor_of_the_variance(self):
        differences = np.random.default_rng(0).normal(size=4000)
        ones = np.ones(4000)
        assert misfit(0.5 * differences, ones, 0 * ones) == pytest.approx(1, abs=0.01)
        assert misfit(5 * differences, ones, 0 * ones) == pytest.approx(25, rel=0.1)

    @pytest.mark.parametrize("given", ["sums", "rows"])
    def test_posterior_without_noise_is_the_fit_of_scikit_learn(self, given):
        """Sums of the rows themselves have no public error, and a wide prior shrinks little."""
        rng = np.random.default_rng(0)
        n, k = 4000, 6
        rows = np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))])
        y = (rows @ np.arange(-2, 4) / 2 + rng.logistic(size=n) > 0).astype(int)
        targets, nothing = y - 0.5, np.zeros(k)
        blocks, is_intercept = np.zeros(k, dtype=int), np.arange(k) == 0
        prior = CoefficientPrior(nothing, 10 + nothing, blocks, is_intercept, has_mean=False)
        if given == "rows":
            posterior = fit_labelled_rows(rows, targets, LogisticGLMLoss(), prior)
        else:
            design = PublicDesign(rows, rows, np.ones(n))
            observed = CoefficientSums(n, targets @ rows, nothing, 0.0, 1.0)
            posterior = fit_posterior(design, LogisticGLMLoss(), observed, prior, None)
        fitted = LogisticRegression(C=np.inf, max_iter=1000).fit(rows[:, 1:], y)
        # the prior variance of rows is chosen by cross-validation, which shrinks a little
        np.testing.assert_allclose(posterior.mode[1:], fitted.coef_[0], atol=0.03)
        assert posterior.mode[0] == pytest.approx(fitted.intercept_[0], abs=0.02)
        assert np.all(posterior.variances > 0)

    @pytest.mark.parametrize("epsilon", [1, 100])
    def test_columns_that_are_copies(self, epsilon):
        learner = SemiPrivateLogisticRegression(epsilon=epsilon, random_state=0)
        twice = np.tile(np.arange(D), 2)
        learner.fit(X[:, twice], Y, X_public=PUBLIC[:, twice])
        assert roc_auc_score(Y_TEST, learner.decision_function(TEST[:, twice])) > 0.8

    @pytest.mark.parametrize("loss", [LogisticGLMLoss(), SquaredGLMLoss()])
    def test_losses(self, loss):
        margins = np.linspace(-3, 3, 1001)
        slope = np.gradient(loss.log_partition(margins), margins)
        np.testing.assert_allclose(loss.mean(margins)[1:-1], slope[1:-1], atol=1e-4)
        curvature = np.gradient(loss.mean(margins), margins)
        np.testing.assert_allclose(
            loss.curvature(loss.mean(margins))[1:-1], curvature[1:-1], atol=1e-4
        )
        assert loss.curvature(loss.mean(np.zeros(1)))[0] == loss.curvature_at_zero
        integers = loss.integer_means(margins)
        np.testing.assert_allclose(integers / 2**20, loss.mean(margins), atol=2e-4)
        assert np.abs(loss.integer_means(np.array([-1e300, 1e300]))).max() <= 2**22
        targets = loss.integer_targets(np.array([0.0, 1.0]))
        assert targets.tolist() == [-loss.levels, loss.levels]
