"""Linear models: lengths of integer rows, what one row changes, and independence of chunks."""

import itertools

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from skpublicdp.linear import SemiPrivateLinearRegression, SemiPrivateLogisticRegression
from tests.internals.data import Table, build_schema
from tests.internals.linear import (
    CorrectionTerms,
    DesignColumns,
    LogisticGLMLoss,
    RowEncoder,
    SquaredGLMLoss,
    correction_sensitivity,
    correction_sums,
    integer_coefficients,
    label_sum_sensitivity,
    label_sums,
    row_encoder,
    shorten,
)

ODD = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 1e-300, 3e5, -7.0, 1.0, -1.0]
LOSSES = {"labels": LogisticGLMLoss(), "outcomes": SquaredGLMLoss()}


class Rows:
    """Private rows that are read in one chunk, or in several."""

    def __init__(self, X, targets, cuts=()):
        self.X, self.targets, self.cuts = np.atleast_2d(X), np.atleast_1d(targets), cuts

    def fold(self, f):
        parts = zip(np.split(self.X, self.cuts), np.split(self.targets, self.cuts), strict=True)
        return sum(f(*part) for part in parts)


def odd_rows(n, d, seed=0):
    """Rows of odd values, of ordinary ones and of both, each with its antipode."""
    rng = np.random.default_rng(seed)
    odd, plain = rng.choice(ODD, (n, d)), 2 * rng.standard_t(2, (n, d))
    mixed = np.where(rng.random((n, d)) < 0.3, odd, plain)
    rows = np.concatenate([odd, plain, mixed])
    return np.concatenate([rows, -rows])


def make_encoder(d=3, *, bits=20, has_intercept=True, length=2.0):
    """An encoder along random axes of random public rows."""
    rng = np.random.default_rng(1)
    public = rng.normal(size=(50, d)) * 10.0 ** rng.integers(-2, 3, d) + 5
    schema = build_schema(Table(public), [Table(public)], nullable=True)
    columns = DesignColumns.from_public(schema, public, centred=has_intercept)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    basis = axes * rng.random(d) / length
    return RowEncoder.from_basis(columns, basis, limit=2**bits, has_intercept=has_intercept)


def changes(one, other):
    """The exact sums of absolute and of squared differences of two integer tables."""
    difference = [int(a) - int(b) for a, b in zip(one.ravel(), other.ravel(), strict=True)]
    return sum(map(abs, difference)), sum(value * value for value in difference)


def exact_length(integers):
    return sum(int(value) ** 2 for value in integers)


def test_a_constant_public_column_at_the_end_of_floats():
    """The deviation of a private number overflows, and the scale of the column is infinite."""
    public = np.column_stack([np.full(20, -1.5e308), np.arange(20.0)])
    schema = build_schema(Table(public), [Table(public)], nullable=True)
    columns = DesignColumns.from_public(schema, public, centred=True)
    with np.errstate(all="raise"):
        standardised = columns.standardised(np.array([[1.5e308, 1.5e308], [-1.5e308, -1.5e308]]))
    assert np.abs(standardised).max() == 2**10
    assert not standardised[:, 0].any()


@pytest.mark.parametrize("bits", [10, 20])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_rows_are_bounded_and_encoded_alone(bits, has_intercept):
    encoder = make_encoder(5, bits=bits, has_intercept=has_intercept)
    rows = odd_rows(60, 5)
    encoded = encoder.encode(rows)
    limit = 2**bits
    n_at_the_limit = 0
    for position, row in enumerate(rows):
        alone = encoder.encode(row[None])
        np.testing.assert_array_equal(alone.weighted[0], encoded.weighted[position])
        np.testing.assert_array_equal(alone.plain[0], encoded.plain[position])
        intercept, *vector = encoded.weighted[position]
        assert all(value == int(value) for value in encoded.weighted[position])
        assert 0 <= intercept <= encoder.intercept <= limit / 2
        assert exact_length(vector) <= limit**2
        assert exact_length(encoded.plain[position][1:]) <= (16 * limit) ** 2
        n_at_the_limit += exact_length(vector) > 0.98 * limit**2
    assert n_at_the_limit > 20
    assert (encoder.intercept > 0) == has_intercept


@pytest.mark.parametrize("n_columns", [1, 7, 300])
def test_vectors_are_shortened_to_the_limit(n_columns):
    rng = np.random.default_rng(0)
    vectors = np.rint(rng.standard_cauchy((200, n_columns)) * 2.0 ** rng.integers(0, 40, (200, 1)))
    vectors[0] = np.nan
    integers, factors = shorten(vectors, 0.25, 1024)
    assert max(map(exact_length, integers)) <= 1024**2
    assert not integers[0].any()
    assert factors[0] == 0
    assert factors.max() == 1
    short = factors == 1
    assert 0 < short.sum() < 200
    np.testing.assert_array_equal(integers[short], np.rint(vectors[short] / 4))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("has_intercept", [True, False])
def test_a_replaced_row_changes_label_sums_by_at_most_the_sensitivity(name, has_intercept):
    loss, targets = LOSSES[name], [0.0, 1.0] if name == "labels" else [0.0, 0.25, 0.5, 1.0]
    # one axis, along which antipodes are opposite
    for encoder in (
        make_encoder(1, has_intercept=has_intercept),
        make_encoder(4, has_intercept=has_intercept),
    ):
        allowed = label_sum_sensitivity(
            loss, encoder.limit, encoder.intercept, encoder.n_coefficients - 1
        )
        sums = [
            label_sums(Rows(row, target), encoder, loss)
            for row, target in itertools.product(odd_rows(4, encoder.matrix.shape[0]), targets)
        ]
        pairs = [changes(a, b) for a, b in itertools.combinations(sums, 2)]
        absolute, squared = map(max, zip(*pairs, strict=True))
        assert absolute <= allowed.absolute
        assert 0.8 * allowed.squared < squared <= allowed.squared


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("length", [0.0, 1.0, 1e6, np.inf])
def test_a_replaced_row_changes_corrections_by_at_most_the_sensitivity(name, length):
    encoder, loss = make_encoder(4), LOSSES[name]
    direction = np.random.default_rng(2).normal(size=encoder.n_coefficients)
    with np.errstate(invalid="ignore"):
        coefficients, exponent = integer_coefficients(length * direction, encoder.limit)
    assert coefficients.any() == (0 < length < np.inf)
    mean = np.rint(1e10 * direction)
    allowed = correction_sensitivity(encoder.limit, encoder.n_coefficients)
    terms = CorrectionTerms(loss, coefficients, exponent, mean, 1e-4, encoder.limit)
    sums = [correction_sums(Rows(row, 0.0), encoder, terms) for row in odd_rows(10, 4)]
    pairs = [changes(a, b) for a, b in itertools.combinations(sums, 2)]
    absolute, squared = map(max, zip(*pairs, strict=True))
    assert absolute <= allowed.absolute
    assert squared <= allowed.squared
    if length == 1e6:
        assert squared > 0.7 * allowed.squared


@pytest.mark.parametrize("name", LOSSES)
def test_sums_do_not_depend_on_order_or_chunks(name, monkeypatch):
    encoder, loss = make_encoder(4), LOSSES[name]
    X = odd_rows(40, 4)
    targets = np.random.default_rng(0).integers(0, 2, len(X)).astype(float)
    direction = np.random.default_rng(2).normal(size=encoder.n_coefficients)
    coefficients, exponent = integer_coefficients(direction, encoder.limit)
    terms = CorrectionTerms(loss, coefficients, exponent, 0 * direction, 1e-4, encoder.limit)
    whole = label_sums(Rows(X, targets), encoder, loss)
    whole_correction = correction_sums(Rows(X, targets), encoder, terms)
    order = np.random.default_rng(1).permutation(len(X))
    monkeypatch.setattr(row_encoder, "BLOCK_ENTRIES", 40)
    for cuts in ((), (1, 50, 51, 200)):
        rows = Rows(np.asfortranarray(X[order]), targets[order], cuts)
        np.testing.assert_array_equal(label_sums(rows, encoder, loss), whole)
        np.testing.assert_array_equal(correction_sums(rows, encoder, terms), whole_correction)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("kind", ["labels", "outcomes"])
def test_fits_do_not_depend_on_order_or_threads(kind, delta, monkeypatch):
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(400, 12)), rng.normal(size=(60, 12))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    learner = (
        SemiPrivateLogisticRegression(epsilon=20, delta=delta, random_state=0)
        if kind == "labels"
        else SemiPrivateLinearRegression(
            epsilon=20, delta=delta, outcome_bounds=(0, 1), random_state=0
        )
    )
    learner.fit(X, y, X_public=public)
    coefficients, intercept = learner.coef_, learner.intercept_
    assert learner.n_corrections_ > 0
    order = rng.permutation(400)
    monkeypatch.setattr(row_encoder, "BLOCK_ENTRIES", 200)
    learner.fit(np.asfortranarray(X[order]), y[order], X_public=public)
    np.testing.assert_array_equal(learner.coef_, coefficients)
    np.testing.assert_array_equal(learner.intercept_, intercept)


@pytest.mark.parametrize("persons", [None, 2])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_whole_budget_is_spent(delta, persons):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    learner = SemiPrivateLogisticRegression(
        epsilon=9, delta=delta, random_state=0, max_rows_per_group=persons
    )
    groups = None if persons is None else np.arange(300) // 2
    learner.fit(X, X[:, 0] > 0, X_public=rng.normal(size=(80, 3)), groups=groups)
    names = [mechanism.name for mechanism in learner.privacy_.mechanisms]
    assert names == [
        "noisy sums of rows times targets",
        *["noisy correction of public means"] * learner.n_corrections_,
    ]
    assert learner.n_corrections_ > 0
    assert learner.privacy_.epsilon == 9
    events = [mechanism.event for mechanism in learner.privacy_.mechanisms]
    if delta == 0:
        assert sum(event.epsilon for event in events) == 9
    else:
        total = sum(event.mu_squared for event in events)
        assert total == learner.privacy_.event.mu_squared


SECRET = 12345.0


class RememberingModel(ClassifierMixin, BaseEstimator):
    """Published model that stores whether it has predicted a row with the secret number."""

    classes_ = np.arange(2)
    has_seen_ = False

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        self.has_seen_ |= bool(np.any(X == SECRET))
        shares = 1 / (1 + np.exp(-np.clip(X[:, 0], -3, 3)))
        return np.column_stack([1 - shares, shares])


def test_a_public_model_cannot_store_private_rows():
    rng = np.random.default_rng(0)
    X, public, model = rng.normal(size=(300, 3)), rng.normal(size=(60, 3)), RememberingModel()
    X[7, 1] = SECRET
    learner = SemiPrivateLogisticRegression(epsilon=20, public_model=model, random_state=0)
    learner.fit(X, X[:, 0] > 0, X_public=public)
    assert learner.n_corrections_ > 0
    assert not model.has_seen_
    learner.predict(X)
    assert model.has_seen_  # predictions after the fit are made by the model itself
