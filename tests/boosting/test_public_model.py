"""A public model beside boosting: its margins, how far it is believed, and what is told of it."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpublicdp import (
    ConformalClassifier,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.data import open_rows
from skpublicdp.hypotheses import Corrections, Stumps
from tests.internals.boosting import (
    LOGISTIC,
    MAX_GRADIENT,
    SQUARED,
    MultinomialLoss,
    PublicLabels,
    _plan_equal_draws,
    public_models,
    read_training_data,
    stacking,
)
from tests.internals.privacy import Ledger

N_PUBLIC = 300


def interacting(n, seed):
    """Rows whose log-odds no additive model has."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    odds = 2.5 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2]
    return X, (rng.random(n) < expit(odds)).astype(int), odds


X, Y, ODDS = interacting(3000, 0)
PUBLIC, PUBLIC_Y, PUBLIC_ODDS = interacting(N_PUBLIC, 1)
NEW, NEW_Y, NEW_ODDS = interacting(4000, 2)


class Truth(ClassifierMixin, BaseEstimator):
    """Score of somebody else: the true log-odds times a factor."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def decision_function(self, X):
        return self.factor * (2.5 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2])


class TrueMean(RegressorMixin, BaseEstimator):
    """The true mean of the outcome."""

    def fit(self, X, y):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return 2.5 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2]


TRUTH, REVERSED = Truth().fit(X, Y), Truth(-1.0).fit(X, Y)


def auc(model, y_public=None, *, X_public=PUBLIC, epsilon=0.3, seeds=3, **parameters):
    scores = []
    for seed in range(seeds):
        clf = SemiPrivateBoostingClassifier(
            epsilon=epsilon, public_model=model, random_state=seed, **parameters
        )
        clf.fit(X, Y, X_public=X_public, y_public=y_public)
        scores.append(roc_auc_score(NEW_Y, clf.decision_function(NEW)))
    return np.mean(scores)


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"epsilon": 8},
        {"delta": 0},
        {"y_public": PUBLIC_Y},
        {"X_public": None, "bounds": (-4, 4)},
        {"method": "votes"},
        {"method": "moments", "epsilon": 1},
        {"epsilon": 1e-5, "method": "votes"},
    ],
)
def test_a_good_model_helps(parameters):
    with_model, without = auc(TRUTH, **parameters), auc(None, **parameters)
    assert with_model > min(without + 0.03, 0.85)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("parameters", [{}, {"epsilon": 3}, {"epsilon": 2, "delta": 0}])
@pytest.mark.parametrize("y_public", [None, PUBLIC_Y])
def test_a_reversed_model_is_not_believed(parameters, y_public):
    assert auc(REVERSED, y_public, **parameters) > auc(None, y_public, **parameters) - 0.015


def test_the_default_model_is_of_the_labelled_rows():
    clf = SemiPrivateBoostingClassifier(epsilon=0.05, random_state=0)
    clf.fit(X, Y, X_public=PUBLIC, y_public=PUBLIC_Y)
    trees, linear, forest = clf.public_model_
    assert trees.n_iter_ == 40
    assert linear.coef_.shape[0] == 1
    assert len(forest.estimators_) == 50
    assert clf.public_weight_ > 0.3
    assert auc("auto", PUBLIC_Y, epsilon=0.05) > auc(None, PUBLIC_Y, epsilon=0.05) + 0.05
    for few in (None, np.where(np.arange(N_PUBLIC) < 29, PUBLIC_Y, -1)):
        clf.fit(X, Y, X_public=PUBLIC, y_public=few)
        assert (clf.public_model_, clf.public_weight_, clf.boosting_weight_) == (None, 0.0, 1.0)
    clf.fit(X, Y, X_public=PUBLIC, y_public=np.ones(N_PUBLIC, dtype=int))  # one label
    assert clf.public_model_ is None


def test_margins_of_the_default_model_are_weighted_sums_of_its_estimators():
    frame = pd.DataFrame(PUBLIC, columns=list("abcd")).assign(text=np.resize(["u", "v", "w"], 300))
    frame.loc[3, "a"] = np.nan
    for y in (PUBLIC_Y, np.digitize(PUBLIC_ODDS, [-1, 1])):
        clf = SemiPrivateBoostingClassifier(classes=np.unique(y))
        read = read_training_data(
            clf, frame.iloc[:20].copy(), y[:20], X_public=frame.copy(), y_public=y
        )
        model = read.public_margins.model
        encoded = read.X_public
        features = public_models._tree_features(model.binner, encoded)
        design = (
            public_models._linear_design(model.binner, encoded) - model.centres
        ) / model.widths
        floor = 0.005 if read.n_targets == 1 else 0.01
        shares = [model.trees.predict_proba(features)]
        shares += [member.predict_proba(design) for member in (model.linear, model.forest)]
        clipped = [np.clip(p, floor, 1 - floor if read.n_targets == 1 else 1) for p in shares]
        if read.n_targets == 1:
            members = [np.log(p[:, 1] / (1 - p[:, 1]))[None] for p in clipped]
        else:
            members = [np.log(p.T) for p in clipped]
        expected = np.tensordot(model.weights, members, axes=1)
        found = model.predict_margins(encoded)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        # bit for bit the margin of a row alone
        alone = [model.predict_margins(encoded[[i]])[:, 0] for i in range(300)]
        np.testing.assert_array_equal(found, np.array(alone).T)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("effects_are_linear", [False, True])
def test_held_out_rows_decide_the_weights_of_the_default_model(effects_are_linear, regression):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 6))
    odds = rows @ [1, -1, 1, 1, -1, 1] if effects_are_linear else 6 * (rows[:, 0] * rows[:, 1] > 0)
    odds = odds + rng.normal(size=400)
    if regression:
        model = SemiPrivateBoostingRegressor(outcome_bounds=(-10, 10), random_state=0)
        y = odds
    else:
        model = SemiPrivateBoostingClassifier(random_state=0)
        y = (odds > np.median(odds)).astype(int)
    private_rows = rng.normal(size=(399, 6))
    model.fit(private_rows, y[:399], X_public=rows, y_public=y)
    trees, linear, forest = model._public_term.public.model.weights
    assert (linear > max(trees, forest)) == effects_are_linear


def test_the_default_model_does_not_predict_noise():
    """Every member is judged by rows to which it was not fitted, and the forest out of bag."""
    noise = np.random.default_rng(5).integers(0, 2, N_PUBLIC)
    clf = SemiPrivateBoostingClassifier()
    read = read_training_data(clf, X, Y, X_public=PUBLIC, y_public=noise)
    public = read.public_margins
    in_sample = public.model.margins_of_members(read.X_public)[2][0]
    assert roc_auc_score(noise, in_sample) > 0.9
    assert roc_auc_score(noise, public.of_public[0]) < 0.65
    assert public.model.weights[2] < 0.1


def test_numbers_beyond_single_precision_are_no_error():
    """The deviation of the labelled rows is exactly 0, so it does not bound the numbers."""
    rows, private, is_labelled = PUBLIC.copy(), X.copy(), np.arange(N_PUBLIC) < 128
    rows[:, 3] = np.where(is_labelled, 1.0, np.resize([2.0**400, 2.0**401], N_PUBLIC))
    private[:, 3] = np.resize(rows[:, 3], len(X))
    y_public = np.where(is_labelled, PUBLIC_Y, -1)
    clf = SemiPrivateBoostingClassifier(random_state=0)
    clf.fit(private, Y, X_public=rows, y_public=y_public)
    assert clf.public_model_[2].n_jobs == 1  # the sum over trees has a fixed order
    assert np.isfinite(clf.predict_proba(np.array([[0, 0, 0, 1e200], [0, 0, 0, -1e200]]))).all()


def test_columns_without_values_in_some_folds():
    public, private = PUBLIC.copy(), X.copy()
    public[public_models.make_folds(PUBLIC_Y.astype(float)) != 0, 3] = np.nan
    private[300:, 3] = np.nan
    clf = SemiPrivateBoostingClassifier(random_state=0)
    clf.fit(private, Y, X_public=public, y_public=PUBLIC_Y)
    assert clf.public_model_ is not None


def test_margins_of_labelled_rows_are_out_of_fold():
    """A model that memorises its rows is believed as far as it predicts others."""
    noise = np.random.default_rng(5).integers(0, 2, N_PUBLIC)
    forest = RandomForestClassifier(20, min_samples_leaf=1, random_state=0)
    clf = SemiPrivateBoostingClassifier(public_model=forest)
    read = read_training_data(clf, X, Y, X_public=PUBLIC, y_public=noise)
    margins = read.public_margins.of_public[0].astype(float)
    assert abs(roc_auc_score(noise, margins) - 0.5) < 0.2
    fitted = read.public_margins.model.estimator
    assert roc_auc_score(noise, fitted.predict_proba(PUBLIC)[:, 1]) > 0.99
    folds = public_models.make_folds(noise.astype(float))
    assert np.bincount(folds).tolist() == [60] * 5
    for fold in range(5):
        assert abs(noise[folds == fold].mean() - noise.mean()) < 0.04


@pytest.mark.parametrize(("factor", "expected"), [(1.0, 1.0), (2.0, 0.5), (0.6, 1.6), (-1.0, 0.0)])
def test_the_slope_calibrates_the_model(factor, expected):
    clf = SemiPrivateBoostingClassifier(public_model=Truth(factor).fit(X, Y))
    read = read_training_data(clf, X, Y, X_public=PUBLIC, y_public=PUBLIC_Y)
    assert abs(read.public_margins.slope - expected) < 0.2


# Sums and weights


def pair_of(loss, seed, n=400):
    """A pair of models of random margins, in place of fitted ones."""

    class Model:
        def raw_predict(self, codes):
            return codes

    class Data:
        pass

    class Fitted:
        pass

    rng = np.random.default_rng(seed)
    fitted, of_public = Fitted(), rng.normal(0, 1500, (2, loss.n_targets, n)).astype(np.int64)
    fitted.loss, fitted.model, fitted.data = loss, Model(), Data()
    fitted.data.public_codes, fitted.row_weights = of_public[0], np.full(n, 1 / n)

    class Public:
        pass

    public = Public()
    public.of_public = of_public[1]
    pair = stacking._ModelPair.from_public_rows(fitted, public, is_calibrated=False)
    return pair, of_public


LOSSES = {
    "labels": LOGISTIC,
    "outcomes": SQUARED,
    "three labels": MultinomialLoss(3, pure=False),
    "pure, five labels": MultinomialLoss(5, pure=True),
}


@pytest.mark.parametrize("name", LOSSES)
def test_no_row_adds_more_than_the_sensitivity_allows(name):
    loss = LOSSES[name]
    pair, _ = pair_of(loss, 0)
    rng = np.random.default_rng(1)
    margins = rng.integers(-16384, 16385, (2, loss.n_targets, 20000))
    margins[:, :, :4000] = rng.choice([-16384, 0, 16384], (2, loss.n_targets, 4000))
    for weights in np.array([[1, 0], [0.2, 0.8], [0, 1]]):
        for label in range(max(2, loss.n_targets)):
            y = np.full(20000, label)
            gradients, _ = loss.gradient_hessian(pair.baseline(margins, weights), y)
            clipped = pair.clipped(pair.directions(margins))
            products = stacking.DIRECTION_UNIT * (gradients * clipped).sum(axis=1)
            assert np.abs(np.rint(products)).max() <= stacking.LARGEST_PRODUCT
    bound = 2 * stacking.LARGEST_PRODUCT
    assert stacking.STACKING_SENSITIVITY.absolute == 2 * bound
    assert stacking.STACKING_SENSITIVITY.squared == 2 * bound**2
    assert stacking.LARGEST_PRODUCT == 64 * MAX_GRADIENT


@pytest.mark.parametrize("name", ["labels", "three labels", "pure, five labels"])
def test_exact_sums_recover_the_weights_that_made_the_labels(name):
    """Without noise and with many rows the posterior mean is the truth, to first order."""
    loss = LOSSES[name]
    pair, of_public = pair_of(loss, 3, n=200)
    expected, true = np.array([0.6, 0.4]), np.array([0.75, 0.35])
    baseline = pair.baseline(of_public, expected)
    means = loss.mean(pair.baseline(of_public, true))
    clipped = pair.clipped(pair.directions(of_public))
    # expected gradients under the true weights, a label at a time
    n_labels = max(2, loss.n_targets)
    likelihood = np.vstack([1 - means, means]) if loss.n_targets == 1 else means
    sums = np.zeros(2)
    for label in range(n_labels):
        gradients, _ = loss.gradient_hessian(baseline, np.full(200, label))
        products = (gradients / (2 * MAX_GRADIENT) * clipped).sum(axis=1)
        sums += products @ likelihood[label]
    n = 10**9
    found = stacking._weights_given_sums(
        pair, expected, n * sums / 200, 1.0, n, pure=name.startswith("pure")
    )
    np.testing.assert_allclose(found, true, atol=0.03)


def test_sums_of_noise_leave_what_was_expected():
    pair, _ = pair_of(LOGISTIC, 4)
    expected = np.array([0.3, 0.7])
    found = stacking._weights_given_sums(pair, expected, np.zeros(2), 1e12, 1000, pure=True)
    np.testing.assert_allclose(found, 0.9 * expected + [0.1, 0.0], atol=1e-3)


def test_the_mean_outcome_is_between_those_of_both_models(monkeypatch):
    """With public outcomes; boosting alone would be far off at this budget."""
    outcome, known = 5 + ODDS, 5 + PUBLIC_ODDS
    reg = SemiPrivateBoostingRegressor(epsilon=0.01, outcome_bounds=(-50, 50), random_state=0)
    true, found = stacking._stacked, []

    def noting(pair, weights, *args):
        result = true(pair, weights, *args)
        margins = result.model.raw_predict(result.data.public_codes)
        margins = margins + result.public_term.of_margins(result.public_term.public.of_public)
        means = [pair.loss.mean(m).mean() for m in (*pair.of_public, margins)]
        found.append((weights[1] / weights.sum(), *means))
        return result

    monkeypatch.setattr(stacking, "_stacked", noting)
    reg.fit(X, outcome, X_public=PUBLIC, y_public=known)
    ((share, boosted, public, stacked),) = found
    assert abs(stacked - ((1 - share) * boosted + share * public)) < 1e-3
    assert share > 0.3
    assert abs(reg.predict(NEW).mean() - 5) < 2


def test_mean_outcomes_of_public_rows_are_kept(monkeypatch):
    labels = np.digitize(ODDS, [-2, 2])
    found = []
    true = stacking._stacked

    def noting(pair, *args):
        result = true(pair, *args)
        margins = result.model.raw_predict(result.data.public_codes)
        margins = margins + result.public_term.of_margins(result.public_term.public.of_public)
        found.append([pair.loss.mean(m) @ result.row_weights for m in (pair.of_public[0], margins)])
        return result

    monkeypatch.setattr(stacking, "_stacked", noting)
    for y, model in ((Y, TRUTH), (labels, LogisticRegression().fit(PUBLIC, np.arange(300) % 3))):
        clf = SemiPrivateBoostingClassifier(public_model=model, random_state=0)
        clf.fit(X, y, X_public=PUBLIC)
    reg = SemiPrivateBoostingRegressor(
        public_model=TrueMean().fit(X, Y), outcome_bounds=(-6, 6), random_state=0
    )
    reg.fit(X, ODDS, X_public=PUBLIC)
    for before, after in found:
        np.testing.assert_allclose(before, after, atol=2e-3)
    assert len(found) == 3


def test_votes_and_sums_share_what_the_budget_allows():
    for epsilon, delta, count in ((1, 0, 5), (1, 1e-6, 3), (0.5, 1e-6, 32), (2, 1e-4, 12)):
        ledger = Ledger(epsilon, delta)
        draw, later = _plan_equal_draws(ledger, count, stacking.STACKING_SHARE)
        assert ledger.fits(ledger.event)
        assert later.pure or delta
        alone = Ledger(epsilon, delta).equal_draws(count)
        assert 0.9 * alone < draw.epsilon < alone


# Regression, several labels


def test_a_regression_uses_a_model():
    outcome = ODDS + np.random.default_rng(0).normal(size=len(ODDS))
    scores = []
    for model in (None, TrueMean().fit(X, Y)):
        reg = SemiPrivateBoostingRegressor(
            epsilon=2, public_model=model, outcome_bounds=(-8, 8), random_state=0
        )
        reg.fit(X, outcome, X_public=PUBLIC)
        scores.append(reg.score(NEW, NEW_ODDS))
        low, high = reg.interval(NEW).T
        new = NEW_ODDS + np.random.default_rng(1).normal(size=len(NEW))
        assert abs(((low <= new) & (new <= high)).mean() - 0.9) < 0.05
    assert scores[1] > scores[0] + 0.05
    assert reg.public_weight_ > 0.2


@pytest.mark.parametrize("parameters", [{}, {"delta": 0}, {"epsilon": 8}])
def test_three_labels_use_a_model(parameters):
    def three(odds):
        return np.digitize(odds, [-2, 2])

    losses = []
    for model in (None, "auto"):
        clf = SemiPrivateBoostingClassifier(
            **{"epsilon": 0.1} | parameters, public_model=model, random_state=0
        )
        clf.fit(X, three(ODDS), X_public=PUBLIC, y_public=three(PUBLIC_ODDS))
        losses.append(log_loss(three(NEW_ODDS), clf.predict_proba(NEW)))
    assert losses[1] < losses[0] + 0.02


# What is told


def test_the_model_is_a_term():
    clf = SemiPrivateBoostingClassifier(public_model=TRUTH, random_state=0)
    clf.fit(X, Y, X_public=PUBLIC)
    assert "public model (importance" in clf.explain()
    told = clf.explain_local(NEW[:50])
    assert told.terms[-1] == "public model"
    np.testing.assert_allclose(told.total, clf.decision_function(NEW[:50]), atol=1e-9)
    assert np.corrcoef(told.contributions[:, -1], NEW_ODDS[:50])[0, 1] > 0.95
    assert "public model" in str(told[0] if hasattr(told, "__getitem__") else told)
    described = json.loads(clf.to_json())["public_model"]
    assert described == {"estimators": ["Truth"], "slope": 1.0, "weight": clf.public_weight_}
    assert clf.public_model_ is TRUTH
    assert any("public_model was made without" in line for line in clf.privacy_.assumptions)
    names = [mechanism.name for mechanism in clf.privacy_.mechanisms]
    assert names[-1] == "noisy sums that weigh the public model"
    copied = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copied.decision_function(NEW), clf.decision_function(NEW))


def test_a_model_of_text_columns_sees_the_values_of_the_user():
    frame = pd.DataFrame({"a": X[:, 0], "job": np.where(X[:, 1] > 0, "nurse", "cook")})
    public, new = frame[:300], frame[300:].copy()
    steps = make_pipeline(
        OneHotEncoder(handle_unknown="ignore", max_categories=20), LogisticRegression()
    )
    fitted = steps.fit(public.round(1), Y[:300])
    clf = SemiPrivateBoostingClassifier(public_model=fitted, random_state=0)
    clf.fit(new.round(1), Y[300:], X_public=public.round(1))
    assert clf.public_weight_ > 0
    new.iloc[0] = [np.nan, "sailor"]  # unknown and missing
    assert np.isfinite(clf.decision_function(new)).all()


def test_streamed_rows_have_the_same_public_model(tmp_path):
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(job=np.where(X[:, 2] > 0, "u", "v"))
    public, private = frame[:200].copy(), frame[200:].assign(y=Y[200:])
    private.to_parquet(tmp_path / "rows.parquet")
    encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    fitted = make_pipeline(encode, LogisticRegression()).fit(public, Y[:200])
    rows = open_rows(tmp_path / "rows.parquet")
    found = []
    for model, y_public in ((fitted, None), ("auto", Y[:200])):
        clf = SemiPrivateBoostingClassifier(public_model=model, random_state=0)
        for private_rows, y in (
            (private.drop(columns="y"), private["y"]),
            (rows.drop("y"), rows["y"]),
        ):
            clf.fit(private_rows, y, X_public=public, y_public=y_public)
            found.append(clf.decision_function(public))
        np.testing.assert_array_equal(*found[-2:])
        assert clf.public_weight_


# Refusals


class Batch(Truth):
    """A model whose prediction depends on the other rows."""

    def decision_function(self, X):
        return X[:, 0] - X[:, 0].mean()


def test_an_error_on_public_rows_is_shown():
    clf = SemiPrivateBoostingClassifier(public_model=Picky().fit(X, Y), random_state=0)
    with pytest.raises(ValueError, match=r"as numpy\.ndarray") as caught:
        clf.fit(X, Y, X_public=1000 * np.abs(PUBLIC))
    assert "is too large" in str(caught.value.__cause__)


class Picky(Truth):
    """A model that refuses large values, and tells them."""

    def decision_function(self, X):
        if (X > 100).any():
            raise ValueError(f"{X.max()} is too large")
        return X[:, 0]


class Scaled(Truth):
    """A model whose prediction depends on other rows only if one of these is extreme."""

    def decision_function(self, X):
        return X[:, 0] / max(1.0, np.abs(X).max() / 1e6)


class Keeps(Truth):
    """A model that keeps the rows that it predicts."""

    def decision_function(self, X):
        self.last_ = X.copy()
        return X[:, 0]


def test_the_rows_that_a_model_keeps_are_not_stored():
    clf = SemiPrivateBoostingClassifier(public_model=Keeps().fit(X, Y), random_state=0)
    clf.fit(X, Y, X_public=PUBLIC)
    assert len(clf.public_model_.last_) <= N_PUBLIC
    rule = SemiPrivateClassifier(Corrections(Keeps2().fit(X, Y), Stumps()), random_state=0)
    rule.fit(X, Y, X_public=PUBLIC)
    assert not hasattr(rule.hypotheses.model, "last_")


class Keeps2(Truth):
    """The same for labels."""

    def predict(self, X):
        self.last_ = X.copy()
        return (X[:, 0] > 0).astype(int)


def test_infinite_numbers_of_labelled_public_rows():
    public, private = PUBLIC.copy(), X.copy()
    public[:3, 0], private[:30, 0] = np.inf, -np.inf
    clf = SemiPrivateBoostingClassifier(random_state=0)
    clf.fit(private, Y, X_public=public, y_public=PUBLIC_Y)
    assert clf.public_model_ is not None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Scaled().fit(X, Y), "independently"),
        (Batch().fit(X, Y), "independently"),
        (LogisticRegression(), "not fitted"),
        (LogisticRegression().fit(X, Y + 5), "classes_"),
        (LinearRegression().fit(X, Y), "predict_proba"),
        (StandardScaler().fit(X), "predict_proba"),
        (np.arange(3), "public_model"),
    ],
)
def test_refused_models(model, message):
    clf = SemiPrivateBoostingClassifier(public_model=model, random_state=0)
    with pytest.raises(ValueError, match=message):
        clf.fit(X, Y, X_public=PUBLIC)
    assert not hasattr(clf, "privacy_")


def test_an_error_on_private_rows_does_not_quote_them():
    clf = SemiPrivateBoostingClassifier(public_model=Picky().fit(X, Y), random_state=0)
    private = X.copy()
    private[7, 3] = 12345.0
    with pytest.raises(ValueError, match="cannot predict") as caught:
        clf.fit(private, Y, X_public=PUBLIC)
    assert "12345" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_model_is_not_monotone():
    clf = SemiPrivateBoostingClassifier(
        public_model=TRUTH, monotonic_cst=[1, 0, 0, 0], random_state=0
    )
    with pytest.raises(ValueError, match="monotonic_cst"):
        clf.fit(X, Y, X_public=PUBLIC)
    clf.set_params(public_model="auto").fit(X, Y, X_public=PUBLIC, y_public=PUBLIC_Y)
    assert clf.public_model_ is None


def test_likelihoods():
    means = np.array([[0.2, 0.9]])
    found = LOGISTIC.log_likelihood(means, np.array([[0.0, 1.0]]))
    assert np.isclose(found, np.log(0.8) + np.log(0.9))
    several = np.array([[0.2, 0.5], [0.8, 0.5]])
    found = MultinomialLoss(2, pure=False).log_likelihood(several, np.eye(2))
    assert np.isclose(found, np.log(0.2) + np.log(0.5))
    better = SQUARED.log_likelihood(means, means + 0.1)
    worse = SQUARED.log_likelihood(means, means + 0.2)
    assert np.isclose(better - worse, 2 * np.log(2))
    labels = PublicLabels(np.arange(2), np.array([[0.0, 1.0]]))
    assert public_models._outcome_codes(labels).tolist() == [0.0, 1.0]


@pytest.mark.filterwarnings("error:invalid value:RuntimeWarning")
@pytest.mark.parametrize("label", [0, 1])
def test_public_labels_of_one_class(label):
    y_public = np.full(len(PUBLIC), label)
    model = LogisticRegression().fit(PUBLIC, PUBLIC_Y)
    clf = SemiPrivateBoostingClassifier(
        epsilon=2, classes=[0, 1], public_model=model, random_state=0
    ).fit(X, Y, X_public=PUBLIC, y_public=y_public)
    assert np.isfinite(clf.public_weight_)
    assert clf.score(X, Y) > 0.6


class TestRenewal:
    def lines(self, model, **settings):
        clf = SemiPrivateBoostingClassifier(
            epsilon=0.5, public_model=model, random_state=0, **settings
        ).fit(X, Y, X_public=PUBLIC)
        return " | ".join(clf.privacy_.assumptions)

    def fitted(self, **settings):
        clf = SemiPrivateBoostingClassifier(
            epsilon=0.25, public_model=None, random_state=0, **settings
        )
        return clf.fit(X, Y, X_public=PUBLIC)

    def test_the_receipt_states_the_cost_of_a_private_model(self):
        for model in (self.fitted(), make_pipeline(self.fitted())):
            text = self.lines(model)
            assert "a private fit with (ε, δ) = (0.25, 1e-06), which adds up" in text
            assert "depends on this row alone" in text
            assert "without the private rows" not in text
            assert "budget" not in text

    def test_the_budget_says_whether_it_adds_up_both(self):
        budget, other = (PrivacyBudget(2.0, 1e-6, for_tests=True) for _ in range(2))
        model = self.fitted(budget=budget)
        text = self.lines(model, budget=budget)
        assert "both are entries of the same budget (that of public_model is 1)" in text
        assert len(budget.ledger) == 2
        assert "the budget of this fit does not contain it" in self.lines(model, budget=other)
        uncharged = self.fitted()
        assert "does not contain it" in self.lines(uncharged, budget=budget)

    def test_a_model_that_privacy_does_not_cover(self):
        scaled = make_pipeline(StandardScaler().fit(X), self.fitted())
        for model in (TRUTH, scaled):
            assert "made without the private rows" in self.lines(model)

    def test_a_calibration_covers_no_fit(self):
        """Its receipt is about a threshold, and not about the rows of the classifier inside."""
        calibrated = ConformalClassifier(LogisticRegression().fit(X, Y), random_state=0).fit(X, Y)
        text = self.lines(calibrated)
        assert "made without the private rows" in text
        assert "a private fit" not in text

    def test_an_equal_entry_of_another_budget_is_not_the_model(self):
        """The first entries of both budgets are equal, and just one of them is the model."""
        budget, other = (PrivacyBudget(2.0, 1e-6, for_tests=True) for _ in range(2))
        model = self.fitted(budget=budget)
        self.fitted(budget=other)
        assert "the budget of this fit does not contain it" in self.lines(model, budget=other)
        copied = pickle.loads(pickle.dumps(model))
        assert "both are entries of the same budget" in self.lines(copied, budget=budget)
        # costs of disjoint groups do not add up
        model = self.fitted(budget=budget.group("a"))
        text = self.lines(model, budget=budget.group("b"))
        assert "the budget of this fit does not contain it" in text

    def test_what_the_earlier_receipt_protects_and_assumes(self):
        first = self.fitted()
        second = SemiPrivateBoostingClassifier(epsilon=0.75, public_model=first)
        second = second.fit(X, Y, X_public=PUBLIC)
        text = self.lines(second)
        assert "its unit of privacy is to replace one private row" in text
        assert "its receipt assumes that public_model is a private fit with (ε, δ) = (0.25" in text
        assert "with (ε, δ) = (0.75, 1e-06), which adds up" in text
        assert (
            "public_model: its unit of privacy is to replace one private row (features and " in text
        )
        assert "its receipt assumes that public_model: its unit" in text
        # the second fit is not seeded, but the first one, and this fit, are
        assert text.count("its noise was seeded") == 1
        assert "its noise was seeded" in self.lines(first)
