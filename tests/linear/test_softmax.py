"""Logistic regression of more than two labels: privacy of its sums, accuracy and odd inputs."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skpublicdp import LabelBoostClassifier, SemiPrivateLogisticRegression
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.plotting import CoefficientDisplay
from tests.internals.linear import (
    ResidualTerms,
    SoftmaxGLMLoss,
    class_sums,
    correction_sensitivity,
    evidence_variances,
    fit_labelled_softmax,
    integer_coefficients,
    label_sum_sensitivity,
    linear_fit,
    residual_sums,
    row_encoder,
    softmax_rows,
)
from tests.linear.test_linear_privacy import Rows, changes, make_encoder, odd_rows

DIGITS, TEN = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(TEN))
DIGITS, TEN = DIGITS[ORDER], TEN[ORDER]
DIGITS = DIGITS[:, DIGITS[450:650].std(axis=0) > 0]  # columns that vary in the public rows
D = DIGITS.shape[1]
TEST, Y_TEST = DIGITS[:450], TEN[:450]
PUBLIC, Y_PUBLIC = DIGITS[450:650], TEN[450:650]
X, Y = DIGITS[650:], TEN[650:]


def make_terms(encoder, loss, *, length=1.0, factor=1e-6):
    shape = encoder.n_coefficients, loss.n_margins
    direction = np.random.default_rng(2).normal(size=shape)
    with np.errstate(invalid="ignore"):
        coefficients, exponent = integer_coefficients(length * direction, encoder.limit)
    return ResidualTerms(loss, coefficients, exponent, factor, encoder.limit)


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("d", [1, 4])
def test_a_replaced_row_changes_class_sums_by_at_most_the_sensitivity(d, has_intercept):
    encoder = make_encoder(d, has_intercept=has_intercept)
    allowed = label_sum_sensitivity(SoftmaxGLMLoss(3), encoder.limit, encoder.intercept, d)
    sums = [
        class_sums(Rows(row, label), encoder, 3)
        for row, label in itertools.product(odd_rows(6, d), [0.0, 2.0])
    ]
    assert sums[0].shape == (3, 1 + d)
    pairs = [changes(a, b) for a, b in itertools.combinations(sums, 2)]
    absolute, squared = map(max, zip(*pairs, strict=True))
    assert absolute <= allowed.absolute
    assert 0.9 * allowed.squared < squared <= allowed.squared


@pytest.mark.parametrize("length", [0.0, 1.0, 1e6, np.inf])
@pytest.mark.parametrize("factor", [1e-8, 1e-6, 1e9])
def test_a_replaced_row_changes_residual_sums_by_at_most_the_sensitivity(length, factor):
    encoder, loss = make_encoder(3), SoftmaxGLMLoss(4)
    terms = make_terms(encoder, loss, length=length, factor=factor)
    assert terms.coefficients.any() == (0 < length < np.inf)
    allowed = correction_sensitivity(encoder.limit, 4 * encoder.n_coefficients)
    sums = [
        residual_sums(Rows(row, label), encoder, terms)
        for row, label in itertools.product(odd_rows(6, 3), [0.0, 3.0])
    ]
    pairs = [changes(a, b) for a, b in itertools.combinations(sums, 2)]
    absolute, squared = map(max, zip(*pairs, strict=True))
    assert absolute <= allowed.absolute
    assert squared <= allowed.squared
    if length == 1e6 and factor == 1e9:
        assert squared > 0.5 * allowed.squared
    for table in sums:
        assert sum(int(value) ** 2 for value in table.ravel()) <= encoder.limit**2


def test_sums_do_not_depend_on_order_or_chunks(monkeypatch):
    encoder, loss = make_encoder(4), SoftmaxGLMLoss(3)
    rows = odd_rows(40, 4)
    labels = np.random.default_rng(0).integers(0, 3, len(rows)).astype(float)
    terms = make_terms(encoder, loss)
    whole = class_sums(Rows(rows, labels), encoder, 3)
    whole_residuals = residual_sums(Rows(rows, labels), encoder, terms)
    alone = sum(
        residual_sums(Rows(row, label), encoder, terms)
        for row, label in zip(rows, labels, strict=True)
    )
    np.testing.assert_array_equal(alone, whole_residuals)
    order = np.random.default_rng(1).permutation(len(rows))
    monkeypatch.setattr(row_encoder, "BLOCK_ENTRIES", 30)
    monkeypatch.setattr(softmax_rows, "MAX_BLOCK_ENTRIES", 100)
    for cuts in ((), (1, 50, 51, 200)):
        parts = Rows(np.asfortranarray(rows[order]), labels[order], cuts)
        np.testing.assert_array_equal(class_sums(parts, encoder, 3), whole)
        np.testing.assert_array_equal(residual_sums(parts, encoder, terms), whole_residuals)


def test_integer_probabilities():
    loss = SoftmaxGLMLoss(5)
    margins = np.random.default_rng(0).normal(0, 3, (200, 5))
    integers = loss.integer_means(margins)
    np.testing.assert_array_equal(integers, np.rint(integers))
    np.testing.assert_allclose(integers / 2**20, loss.mean(margins), atol=1e-3)
    for row, expected in zip(margins, integers, strict=True):
        np.testing.assert_array_equal(loss.integer_means(row[None])[0], expected)
    huge = loss.integer_means(np.array([[1e300, -1e300, 0, np.inf, np.nan]]))
    assert np.isfinite(huge).all()
    step = 1e-5 * np.eye(5)[2]
    slope = (loss.log_partition(margins + step) - loss.log_partition(margins - step)) / 2e-5
    np.testing.assert_allclose(loss.mean(margins)[:, 2], slope, atol=1e-6)
    of_contrasts = loss.curvature(loss.mean(np.zeros((1, 5))))
    np.testing.assert_allclose(of_contrasts * 4 / 5, loss.curvature_at_zero)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("persons", [None, 2])
def test_the_whole_budget_is_spent(delta, persons):
    learner = SemiPrivateLogisticRegression(
        epsilon=80, delta=delta, random_state=0, max_rows_per_group=persons
    )
    groups = None if persons is None else np.arange(len(X)) // 2
    learner.fit(X, Y, X_public=PUBLIC, groups=groups)
    names = [mechanism.name for mechanism in learner.privacy_.mechanisms]
    assert names == [
        "noisy sums of rows by label",
        *["noisy sum of clipped residuals"] * learner.n_corrections_,
    ]
    assert learner.n_corrections_ > 0
    events = [mechanism.event for mechanism in learner.privacy_.mechanisms]
    if delta == 0:
        assert sum(event.epsilon for event in events) == 80
    else:
        total = sum(event.mu_squared for event in events)
        assert total == learner.privacy_.event.mu_squared


def test_fits_do_not_depend_on_order_or_threads(monkeypatch):
    learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
    coefficients = learner.fit(X, Y, X_public=PUBLIC).coef_
    order = np.random.default_rng(1).permutation(len(X))
    monkeypatch.setattr(row_encoder, "BLOCK_ENTRIES", 200)
    learner.fit(np.asfortranarray(X[order]), Y[order], X_public=PUBLIC)
    np.testing.assert_array_equal(learner.coef_, coefficients)


def accuracy(epsilon, n_seeds=3, y=Y, delta=1e-6, **options):
    scores = [
        SemiPrivateLogisticRegression(epsilon=epsilon, delta=delta, random_state=seed)
        .fit(X, y, X_public=PUBLIC, **options)
        .score(TEST, Y_TEST)
        for seed in range(n_seeds)
    ]
    return np.mean(scores)


class TestAccuracy:
    def test_grows_with_epsilon(self):
        scores = [accuracy(epsilon) for epsilon in (0.1, 0.3, 1, 3, 8, 30)]
        assert np.all(np.diff(scores) > 0)
        assert np.all(np.array(scores[1:]) > [0.45, 0.77, 0.87, 0.9, 0.92])

    def test_labels_of_public_rows_help_and_do_not_hurt(self):
        public = LogisticRegression(C=0.1, max_iter=1000).fit(PUBLIC / 16, Y_PUBLIC)
        of_public = public.score(TEST / 16, Y_TEST)
        for epsilon in (0.01, 0.1, 1):
            assert accuracy(epsilon, y_public=Y_PUBLIC) > of_public - 0.01
        assert accuracy(8, y_public=Y_PUBLIC) > of_public + 0.01

    def test_few_labels_of_public_rows(self):
        few = np.where(np.arange(len(PUBLIC)) < 30, Y_PUBLIC, -1)
        assert accuracy(0.1, y_public=few) > 0.6
        assert accuracy(8, y_public=few) > 0.9

    def test_wrong_labels_of_public_rows_lose_their_weight(self):
        wrong = (Y_PUBLIC + 1) % 10
        for epsilon in (1, 8):
            assert accuracy(epsilon, y_public=wrong) > accuracy(epsilon) - 0.03

    def test_pure_privacy(self):
        assert accuracy(8, n_seeds=1, delta=0) > 0.85

    def test_public_rows_of_another_mean(self):
        learner = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        learner.fit(X, Y, X_public=PUBLIC + PUBLIC.std(axis=0))
        assert learner.score(TEST, Y_TEST) > 0.85

    def test_no_public_rows(self):
        learner = SemiPrivateLogisticRegression(epsilon=8, bounds=(0, 16), random_state=0)
        with pytest.warns(NoPublicDataWarning):
            learner.fit(X, Y)
        assert learner.score(TEST, Y_TEST) > 0.8

    def test_outliers(self):
        factors = np.where(np.arange(len(X)) % 50 == 0, 1e6, 1.0)
        learner = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        learner.fit(X * factors[:, None], Y, X_public=PUBLIC)
        assert learner.score(TEST, Y_TEST) > 0.88


class TestPredictions:
    def test_shapes_and_relations(self):
        names = np.array(list("abcdefghij"))
        learner = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        learner.fit(X, names[Y], X_public=PUBLIC)
        assert learner.coef_.shape == (10, D)
        assert learner.intercept_.shape == (10,)
        margins = TEST @ learner.coef_.T + learner.intercept_
        np.testing.assert_allclose(learner.decision_function(TEST), margins, atol=1e-8)
        probabilities = learner.predict_proba(TEST)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        np.testing.assert_allclose(learner.predict_log_proba(TEST), np.log(probabilities))
        np.testing.assert_array_equal(
            learner.predict(TEST), learner.classes_[probabilities.argmax(axis=1)]
        )

    def test_without_an_intercept(self):
        learner = SemiPrivateLogisticRegression(epsilon=8, fit_intercept=False, random_state=0)
        learner.fit(X, Y, X_public=PUBLIC)
        assert not learner.intercept_.any()
        assert learner.score(TEST, Y_TEST) > 0.85

    def test_explanation_has_one_list_per_label(self):
        learner = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        lines = learner.fit(X, Y, X_public=PUBLIC).explain().splitlines()
        heads = [line.partition(":")[0] for line in lines if "if all columns" in line]
        assert heads == [f"margin of {digit}" for digit in range(10)]
        assert len(lines) == 10 * 12


class TestOddInputs:
    def test_a_label_without_private_rows(self):
        rest = Y != 4
        learner = SemiPrivateLogisticRegression(
            epsilon=20, classes=np.arange(10), random_state=0
        ).fit(X[rest], Y[rest], X_public=PUBLIC)
        assert learner.coef_.shape == (10, D)
        assert np.mean(learner.predict(TEST) == 4) < 0.02
        assert learner.score(TEST[Y_TEST != 4], Y_TEST[Y_TEST != 4]) > 0.88

    def test_only_constant_public_columns_leave_the_shares(self):
        learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
        y = np.minimum(np.arange(len(X)) % 10, 2)
        with pytest.warns(NoPublicDataWarning):
            learner.fit(X, y, X_public=np.ones((40, D)))
        assert not learner.coef_.any()
        np.testing.assert_allclose(learner.predict_proba(TEST)[0], [0.1, 0.1, 0.8], atol=0.05)

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    @pytest.mark.parametrize("n", [3, 50])
    @pytest.mark.parametrize("n_public", [1, 2, 30])
    @pytest.mark.parametrize("labelled", [False, True])
    def test_few_rows(self, n, n_public, labelled):
        learner = SemiPrivateLogisticRegression(classes=np.arange(77), random_state=0)
        y_public = {"y_public": Y_PUBLIC[:n_public]} if labelled else {}
        learner.fit(X[:n], Y[:n], X_public=PUBLIC[:n_public], **y_public)
        assert np.isfinite(learner.predict_proba(TEST)).all()

    def test_columns_that_are_copies(self):
        twice = np.tile(np.arange(D), 2)
        learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
        learner.fit(X[:, twice], Y, X_public=PUBLIC[:, twice])
        assert learner.score(TEST[:, twice], Y_TEST) > 0.88


class TestSteps:
    def test_corrections_grow_with_the_budget(self):
        numbers = [
            SemiPrivateLogisticRegression(epsilon=epsilon, random_state=0)
            .fit(X, Y, X_public=PUBLIC)
            .n_corrections_
            for epsilon in (0.1, 1, 3, 8, 50)
        ]
        assert numbers[0] == 0
        assert numbers == sorted(numbers)
        assert numbers[-1] == linear_fit.MAX_CORRECTIONS

    def test_variances_of_evidence(self):
        rng = np.random.default_rng(0)
        truth = np.where(np.arange(31) < 15, 4.0, 0.25)
        values = rng.normal(size=(31, 400)) * np.sqrt(truth + 1)[:, None]
        found = evidence_variances(values, np.ones(values.shape), np.ones(31))
        np.testing.assert_allclose(found, truth, rtol=0.3)

    def test_labelled_rows_give_the_fit_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        rows = np.column_stack([np.ones(4000), rng.normal(size=(4000, 3))])
        truth = rng.normal(size=(4, 3))
        y = (rows @ truth + rng.gumbel(size=(4000, 3))).argmax(axis=1)
        mode, variances = fit_labelled_softmax(rows, y, SoftmaxGLMLoss(3), 10 * np.ones(4), 1)
        expected = LogisticRegression(C=np.inf, max_iter=1000).fit(rows[:, 1:], y)
        np.testing.assert_allclose(mode[1:].T, expected.coef_, atol=0.02)
        assert np.all(variances > 0)


class TestFamily:
    def test_private_search(self):
        search = SemiPrivateSearchCV(
            SemiPrivateLogisticRegression(),
            {"fit_intercept": [True, False]},
            epsilon=20,
            delta=1e-6,
            random_state=0,
        )
        search.fit(X, Y, X_public=PUBLIC)
        assert search.score(TEST, Y_TEST) > 0.8

    def test_label_boost(self):
        learner = LabelBoostClassifier(SemiPrivateLogisticRegression(), epsilon=20, random_state=0)
        y = np.where(np.arange(len(X)) < 800, Y, -1)
        learner.fit(X, y, X_public=PUBLIC)
        assert learner.score(TEST, Y_TEST) > 0.6

    def test_private_scores(self):
        model = SemiPrivateLogisticRegression(epsilon=8, random_state=0)
        model.fit(X, Y, X_public=PUBLIC)
        scores = private_scores(model, TEST, Y_TEST, epsilon=5, random_state=0)
        assert scores.accuracy == pytest.approx(model.score(TEST, Y_TEST), abs=0.05)


def test_a_table_of_coefficients_has_the_rows_of_each_label():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(500, 3)), rng.normal(size=(300, 3))
    y = np.array(["a", "b", "c"])[X.argmax(axis=1)]
    clf = SemiPrivateLogisticRegression(random_state=0).fit(X, y, X_public=public)
    table = clf.summary()
    assert table["label"].tolist() == [label for label in "abc" for _ in range(4)]
    assert table["name"].tolist() == 3 * ["(intercept)", "x0", "x1", "x2"]
    together = np.column_stack([clf.intercept_, clf.coef_])
    np.testing.assert_array_equal(table["coefficient"], together.ravel())
    with pytest.raises(ValueError, match="more than two labels"):
        clf.coef_interval()
    with pytest.raises(ValueError, match="public_model requires two labels or outcomes"):
        SemiPrivateLogisticRegression(public_model=clf).fit(X, y, X_public=public)
    display = pytest.importorskip("matplotlib") and CoefficientDisplay.from_estimator(
        clf, label="b"
    )
    largest = np.argsort(-np.abs(clf.coef_[1] * public.std(axis=0)))
    assert display.names == [f"x{position}" for position in largest]
    with pytest.raises(ValueError, match="label must be one of the labels"):
        CoefficientDisplay.from_estimator(clf)
