"""Private columns: replay on all values, order of rows, out-of-fold scores, budgets, containers."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skpublicdp import (
    LabelPrivateClassifier,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    PrivateColumnsClassifier,
    PrivateColumnsRegressor,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.hypotheses import Stumps
from skpublicdp.label_boost import LabelBoostClassifier
from tests.internals.privacy import Ledger
from tests.kit import Recorder

RNG = np.random.default_rng(0)
N = 3000
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "height", "income"])
X["colour"] = RNG.choice(["red", "green"], N)
Y = np.where(X["age"] + X["height"] + X["income"] + RNG.normal(size=N) > 0, "ill", "well")
PUBLIC = X[:300].sample(frac=1, random_state=0).reset_index(drop=True)
BOOSTING = SemiPrivateBoostingClassifier()
RULE = SemiPrivateClassifier(Stumps())


def classifier(estimator=BOOSTING, columns=("income",), **settings):
    settings = {"random_state": 0, **settings}
    return PrivateColumnsClassifier(estimator, private_columns=list(columns), **settings)


def test_a_fit_is_the_same_function_of_a_draw_for_all_private_values():
    """The draw is the only thing that sees the private column, and all else follows from it."""
    public, y = np.arange(4.0), [0, 1, 0, 1]
    X_public = np.column_stack([np.linspace(0, 3, 20), np.tile([0.0, 1.0], 10)])

    def fitted(private):
        tree = DecisionTreeClassifier(max_depth=2, random_state=0)
        clf = classifier(RULE, [1], public_model=tree, random_state=None)
        return clf.fit(np.column_stack([public, private]), y, X_public=X_public)

    for private in itertools.product((0.0, 1.0), repeat=4):
        with Recorder() as recorder:
            one = fitted(private)
        assert [call.kind for call in recorder.calls] == ["order", "draw"]
        for neighbour in itertools.product((0.0, 1.0), repeat=4):
            if sum(a != b for a, b in zip(private, neighbour, strict=True)) != 1:
                continue
            with Recorder(recorder.outcomes):
                assert pickle.dumps(fitted(neighbour)) == pickle.dumps(one)


def test_the_order_of_rows_has_no_effect(monkeypatch):
    """A shuffle of sorted rows has the distribution of a shuffle of the rows in any other order."""
    rows, y, persons = X[:500], Y[:500], np.arange(500) // 2
    first = RNG.permutation(500)
    by_income = np.argsort(rows["income"].to_numpy())

    def fitted(rows, y, persons, order):
        monkeypatch.setattr(Ledger, "order", lambda self, n: order)
        clf = classifier(max_rows_per_group=2)
        return clf.fit(rows, y, X_public=PUBLIC, groups=persons)

    one = fitted(rows, y, persons, first)
    position_of_row = np.argsort(by_income)
    other = fitted(rows.iloc[by_income], y[by_income], persons[by_income], position_of_row[first])
    assert (one.predict_proba(X) == other.predict_proba(X)).all()


def test_the_public_model_sees_public_columns_only():
    changed = X.assign(income=-X["income"])
    one, other = (
        classifier(columns=["income", "colour"], public_model=GaussianNB()).fit(
            rows, Y, X_public=PUBLIC
        )
        for rows in (X, changed)
    )
    assert one.public_model_.n_features_in_ == 2
    assert (one.public_model_.theta_ == other.public_model_.theta_).all()
    assert type(classifier().fit(X, Y, X_public=PUBLIC).public_model_) is tuple


def test_scores_of_the_fit_come_from_models_of_other_rows():
    """A tree that knows its rows by heart would hide what the private column says."""
    noise = pd.DataFrame({"noise": RNG.normal(size=N), "income": X["income"]})
    y = X["income"].to_numpy() + RNG.normal(size=N) / 3 > 0
    clf = classifier(public_model=DecisionTreeClassifier(random_state=0), epsilon=2)
    clf.fit(noise, y, X_public=noise[:300].copy())
    new = noise.assign(noise=RNG.normal(size=N))
    assert clf.score(new, y) > 0.85


def test_accuracy_with_a_small_epsilon():
    """The public columns cost nothing, and the private column adds to them."""
    clf = classifier(epsilon=0.2).fit(X, Y, X_public=PUBLIC)
    alone = GaussianNB().fit(X[["age", "height"]], Y)
    whole = SemiPrivateBoostingClassifier(epsilon=0.2, random_state=0).fit(X, Y, X_public=PUBLIC)
    score = clf.score(X, Y)
    assert score > alone.score(X[["age", "height"]], Y) + 0.02
    assert score > whole.score(X, Y) + 0.02


@pytest.mark.parametrize("estimator", [BOOSTING, SemiPrivateLogisticRegression(), RULE])
def test_receipts_name_the_private_columns(estimator):
    clf = classifier(estimator, ["income", 1]).fit(X, Y, X_public=PUBLIC)
    receipt = clf.privacy_
    assert receipt == clf.estimator_.privacy_
    assert receipt.protects == "columns"
    unit = "replace one private row (not protected: labels, and all columns but height, income)"
    assert receipt.unit == unit
    assert receipt.epsilon == 1
    first = "all columns but height, income are public in all rows, and so are the labels"
    assert receipt.assumptions[0] == first
    assert "whose labels and public columns are equal" in receipt.in_words()
    assert not any("without the private rows" in text for text in receipt.assumptions)
    assert clf.estimator_.guarantee_ is None
    assert clf.private_columns_ == ["height", "income"]


def test_receipts_of_persons():
    clf = classifier(max_rows_per_group=2).fit(X, Y, X_public=PUBLIC, groups=np.arange(N) // 3)
    assert clf.privacy_.unit == (
        "replace one person, up to 2 private rows "
        "(not protected: labels, and all columns but income)"
    )
    assert clf.privacy_.n_private == 2000
    with pytest.raises(ValueError, match="groups"):
        classifier(max_rows_per_group=2).fit(X, Y, X_public=PUBLIC)


def test_receipts_state_what_a_given_model_needs():
    given = LogisticRegression().fit(X[["age", "height"]], Y)
    clf = classifier(public_model=given, columns=["income", "colour"]).fit(X, Y, X_public=PUBLIC)
    text = "public_model was made without the private columns, and its prediction for a row"
    assert any(assumption.startswith(text) for assumption in clf.privacy_.assumptions)
    assert clf.public_model_ is given


def test_a_budget_of_columns(tmp_path):
    path = tmp_path / "b.sqlite"
    budget = PrivacyBudget(9, 1e-5, protects=["income"], path=path, for_tests=True)
    classifier(budget=budget).fit(X, Y, X_public=PUBLIC)
    classifier(columns=["colour", "income"], budget=budget).fit(X, Y, X_public=PUBLIC)
    SemiPrivateBoostingClassifier(budget=budget, random_state=0).fit(X, Y, X_public=PUBLIC)
    assert len(budget.ledger) == 3
    again = PrivacyBudget(9, 1e-5, protects=("income", "income"), path=path, for_tests=True)
    assert again == budget
    assert again.protects == ["income"] == budget.to_dict()["protects"]
    assert "protects=['income']" in repr(budget)
    assert "of the columns income" in budget._repr_html_()
    with pytest.raises(PrivacyBudgetError, match="cannot be changed"):
        PrivacyBudget(9, 1e-5, protects=["age"], path=path, for_tests=True)


@pytest.mark.parametrize("protects", ["rows", "labels", ["age"], ["age", "income"]])
def test_other_budgets_refuse(protects):
    budget = PrivacyBudget(9, 1e-5, protects=protects, for_tests=True)
    with pytest.raises(PrivacyBudgetError, match="only the columns income"):
        classifier(budget=budget).fit(X, Y, X_public=PUBLIC)
    assert not budget.ledger


def test_a_budget_of_columns_refuses_fits_that_reveal_them():
    budget = PrivacyBudget(9, 1e-5, protects=["income"], for_tests=True)
    with pytest.raises(PrivacyBudgetError, match="the columns income"):
        LabelPrivateClassifier(LogisticRegression(), budget=budget).fit(X[["age"]], Y)
    with pytest.raises(PrivacyBudgetError, match="labels may be a protected column"):
        PPMHalfspaceClassifier(budget=budget).fit(X[["age"]], Y)
    too_small = PrivacyBudget(0.5, protects=["income"], for_tests=True)
    with pytest.raises(PrivacyBudgetError, match=r"0\.5"):
        classifier(RULE, budget=too_small).fit(X, Y, X_public=PUBLIC)
    assert not budget.ledger
    assert not too_small.ledger


@pytest.mark.parametrize("protects", [[], "income", [1], None])
def test_columns_of_a_budget_are_a_list_of_names(protects):
    with pytest.raises(ValueError, match="protects must be 'rows', 'labels' or a list"):
        PrivacyBudget(1, protects=protects)


# the noise is secret, and may look like a shift
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")
@pytest.mark.parametrize(
    ("values", "changed", "public"),
    [
        ([True, False] * 15, [None] + [False, True] * 14 + [True], [True, False] * 15),
        ([1.5, 2.5] * 15, ["1.5", 2.5] * 15, [1.5, 2.5] * 15),
        ([1, 2] * 15, [1, 2.5] * 15, [1, 2] * 15),
    ],
    ids=["booleans", "numbers", "integers"],
)
@pytest.mark.parametrize("as_array", [False, True])
def test_the_type_of_a_private_column_leaves_no_trace(values, changed, public, as_array):
    """A single private value can change the type of its column, or of the whole array."""
    y = [0, 1, 1] * 10

    def table(column):
        frame = pd.DataFrame({"a": [True, False, True] * 10, "b": column})
        return frame.to_numpy() if as_array else frame

    def fitted(column):
        tree = DecisionTreeClassifier(max_depth=1, random_state=0)
        boosting = SemiPrivateBoostingClassifier(method="votes")
        clf = classifier(boosting, [1], public_model=tree, random_state=None)
        return pickle.dumps(clf.fit(table(column), y, X_public=table(public)[:29]))

    with Recorder() as recorder:
        one = fitted(values)
    with Recorder(recorder.outcomes):
        assert fitted(changed) == one


def test_a_column_may_be_called_none():
    named = X.rename(columns={"income": "None"})
    public = PUBLIC.rename(columns={"income": "None"})
    assert classifier(columns=["None"]).fit(named, Y, X_public=public).private_columns_ == ["None"]


def test_casts_of_private_numbers_are_silent():
    wide = X.iloc[:, :3].to_numpy().astype(np.longdouble)
    wide[0, 2] = np.longdouble("1e4000")
    public = PUBLIC.iloc[:, :3].to_numpy()
    with np.errstate(all="raise"):
        classifier(columns=[2]).fit(wide, Y, X_public=public.astype(np.longdouble))


# the noise is secret, and may look like a shift
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("public", [np.int64, np.float64, np.bool_])
def test_the_type_of_an_array_of_numbers_has_no_effect(dtype, public):
    rows = RNG.integers(2, size=(60, 2))

    def fitted(dtype):
        tree = DecisionTreeClassifier(max_depth=1, random_state=0)
        clf = classifier(columns=[1], public_model=tree, random_state=None)
        return pickle.dumps(clf.fit(rows.astype(dtype), rows[:, 0], X_public=X_public))

    X_public = RNG.integers(2, size=(40, 2)).astype(public)
    with Recorder() as recorder:
        one = fitted(np.float64)
    with Recorder(recorder.outcomes):
        assert fitted(dtype) == one


def test_copies_keep_a_given_model():
    given = LogisticRegression().fit(X[["age", "height"]], Y)
    copied = clone(classifier(public_model=given, columns=["income", "colour"]))
    assert copied.public_model is given
    fitted = classifier().fit(X, Y, X_public=PUBLIC)
    assert not hasattr(clone(classifier(fitted.estimator_)).estimator, "classes_")


def test_a_model_of_the_private_estimator_is_in_the_receipt():
    given = LogisticRegression().fit(X[["income"]], Y)
    boosting = SemiPrivateBoostingClassifier(public_model=given)
    clf = classifier(boosting, public_model=None).fit(X, Y, X_public=PUBLIC)
    assert clf.estimator_.public_model_ is given
    assert any("without the private rows" in text for text in clf.privacy_.assumptions)


def test_reports_say_what_neighbours_share(tmp_path):
    receipt = classifier().fit(X, Y, X_public=PUBLIC).privacy_
    domain = receipt.to_registry()["deployment"]["dp_variant"]["data_domain"]
    assert "with the declared columns and equal labels and public columns" in domain


def test_containers():
    expected = classifier().fit(X, Y, X_public=PUBLIC).predict_proba(X)
    for convert in (pl.from_pandas, pa.Table.from_pandas):
        clf = classifier().fit(convert(X), Y, X_public=convert(PUBLIC))
        assert (clf.predict_proba(convert(X)) == expected).all()
    objects = classifier(columns=[2]).fit(X.to_numpy(), Y, X_public=PUBLIC.to_numpy())
    assert (objects.predict_proba(X.to_numpy()) == expected).all()
    numbers, public = X.iloc[:, :3].to_numpy(), PUBLIC.iloc[:, :3].to_numpy()
    arrays = classifier(columns=[2]).fit(numbers, Y, X_public=public)
    assert arrays.privacy_.unit.endswith("columns but x2)")
    lists = classifier(columns=[2]).fit(numbers.tolist(), Y.tolist(), X_public=public.tolist())
    assert (lists.predict(numbers) == arrays.predict(numbers)).all()
    labelled = pd.DataFrame(numbers, columns=[5, 6, 7])
    by_number = classifier(columns=[7]).fit(labelled, Y, X_public=labelled[:300].copy())
    assert by_number.private_columns_ == ["7"]
    assert pickle.loads(pickle.dumps(arrays)).predict(numbers[:9]).tolist() == (
        arrays.predict(numbers[:9]).tolist()
    )


def test_new_rows_are_matched_by_name_and_may_have_new_values():
    clf = classifier().fit(X, Y, X_public=PUBLIC)
    assert (clf.predict_proba(X[X.columns[::-1]]) == clf.predict_proba(X)).all()
    new = X[:3].copy()
    new.loc[0, "age"], new.loc[1, "age"], new.loc[2, "colour"] = 1e9, np.nan, "blue"
    assert np.isfinite(clf.predict_proba(new)).all()
    with pytest.raises(ValueError, match="income is missing"):
        clf.predict(X.drop(columns="income"))
    assert clf.feature_names_in_.tolist() == list(X.columns)


def test_several_labels_of_a_linear_model():
    y = np.digitize(X["age"] + X["income"], [-1, 1])
    numbers = X.drop(columns="colour")
    clf = classifier(SemiPrivateLogisticRegression(), epsilon=2)
    assert clf.fit(numbers, y, X_public=numbers[:300].copy()).score(numbers, y) > 0.75


def test_several_labels():
    y = np.digitize(X[["age", "height", "income"]].sum(axis=1), [-1, 1])
    clf = classifier(epsilon=2).fit(X, y, X_public=PUBLIC)
    assert clf.score(X, y) > 0.75
    assert clf.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert clf.classes_.tolist() == [0, 1, 2]


def test_public_rows_may_be_described_or_labelled_or_missing():
    description = describe_columns(
        {"age": (-3, 3), "height": (-3, 3), "income": (-3, 3), "colour": ["red", "green"]}
    )
    clf = classifier().fit(X, Y, X_public=description)
    assert any("come from a description" in text for text in clf.privacy_.assumptions)
    array = classifier(columns=[3]).fit(X.to_numpy(), Y, X_public=description)
    assert array.score(X.to_numpy(), Y) > 0.6
    y_public = np.append(["-1"], Y[1:300])
    clf = classifier().fit(X, Y, X_public=PUBLIC, y_public=y_public)
    assert clf.classes_.tolist() == ["ill", "well"]
    with pytest.warns(UserWarning, match="public"):
        classifier().fit(X.drop(columns="colour"), Y)


def test_without_a_public_model():
    none = classifier(public_model=None).fit(X, Y, X_public=PUBLIC)
    few = classifier().fit(X[:20], Y[:20], X_public=PUBLIC)
    for clf in (none, few):
        assert clf.public_model_ is None
        assert clf.estimator_.n_features_in_ == 1
        assert clf.predict(X[:5]).shape == (5,)


class OwnRule(LogisticRegression):
    protects_all_rows = True

    def __init__(self, epsilon=1.0):
        super().__init__()
        self.epsilon = epsilon


def test_a_grid_search_routes_public_rows():
    grid = GridSearchCV(classifier(), {"epsilon": [0.1, 1.0]}, cv=2)
    grid.fit(X, Y, X_public=PUBLIC)
    assert grid.best_params_["epsilon"] == 1.0


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "has no such parameter"),
        (SemiPrivateBoostingRegressor(), "is a regressor"),
        (PPMHalfspaceClassifier(), "treats some of these rows as public"),
        (PrivateColumnsClassifier(BOOSTING, private_columns=[0]), "treats some of these rows"),
        (OwnRule(), "fit accepts X_public"),
    ],
)
def test_other_estimators_are_refused(estimator, message):
    with pytest.raises(ValueError, match=message):
        classifier(estimator).fit(X, Y, X_public=PUBLIC)


def test_errors():
    for columns in (["weight"], [], [9], [False, False, True, False]):
        with pytest.raises(ValueError, match="private_columns must be a list of columns of X"):
            classifier(columns=columns).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(ValueError, match="At least one column must be public"):
        classifier(columns=range(4)).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(ValueError, match="private_columns"):
        PrivateColumnsClassifier(BOOSTING, private_columns="income").fit(X, Y)
    with pytest.raises(ValueError, match="treats some of these rows as public"):
        LabelBoostClassifier(classifier()).fit(X[["age", "income"]], Y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        classifier().fit(X, Y[:5], X_public=PUBLIC)
    with pytest.raises(ValueError, match="share"):
        classifier().fit(X, Y, X_public=X)
    with pytest.raises(ValueError, match="must not contain another estimator"):
        classifier(LabelBoostClassifier()).fit(X, Y)
    numbered = pd.DataFrame(X.iloc[:, :3].to_numpy())
    for y, rows, column in (
        (X["income"].gt(0), X, "income"),
        (X[["income"]].gt(0), X, "income"),
        (pl.DataFrame({"income": Y}), X, "income"),
        (numbered[2].gt(0), numbered, 2),
    ):
        with pytest.raises(ValueError, match="y must not be a private column"):
            classifier(columns=[column]).fit(rows, y)
    with pytest.raises(ValueError, match="budget=None"):
        classifier(SemiPrivateBoostingClassifier(budget=PrivacyBudget(1, 1e-6))).fit(X, Y)
    with pytest.raises(ValueError, match="privacy budget of its own"):
        classifier(public_model=SemiPrivateBoostingClassifier()).fit(X, Y)
    with pytest.raises(ValueError, match="must not begin with 'public score'"):
        classifier(columns=["public score 0"]).fit(X.assign(**{"public score 0": 1.0}), Y)
    with pytest.raises(ValueError, match="a data frame if it contains dates"):
        classifier(columns=[0]).fit(np.zeros((5, 2), dtype="M8[D]"), [0, 1, 0, 1, 0])
    budget = PrivacyBudget(1, 1e-6, protects=["x0"], for_tests=True)
    with pytest.raises(ValueError, match="X must be a data frame if budget is set"):
        classifier(columns=[0], budget=budget).fit(X.to_numpy(), Y)


OUTCOMES = (X["age"] + X["height"] + X["income"]).to_numpy() + RNG.normal(size=N) / 2


def regressor(estimator=None, columns=("income",), **settings):
    estimator = SemiPrivateBoostingRegressor() if estimator is None else estimator
    settings = {"random_state": 0, **settings}
    return PrivateColumnsRegressor(estimator, private_columns=list(columns), **settings)


class TestRegressor:
    @pytest.mark.parametrize(
        "estimator", [SemiPrivateBoostingRegressor(), SemiPrivateLinearRegression()]
    )
    def test_the_private_column_adds_to_the_public_columns(self, estimator):
        reg = regressor(estimator, epsilon=0.5).fit(X, OUTCOMES, X_public=PUBLIC)
        public = X[["age", "height"]]
        alone = LinearRegression().fit(public, OUTCOMES).score(public, OUTCOMES)
        whole = clone(estimator).set_params(
            epsilon=0.5, random_state=0, outcome_bounds=reg.outcome_bounds_
        )
        whole.fit(X, OUTCOMES, X_public=PUBLIC)
        score = reg.score(X, OUTCOMES)
        assert score > alone + 0.1
        assert score > whole.score(X, OUTCOMES)
        unit = "replace one private row (not protected: outcomes, and all columns but income)"
        assert reg.privacy_.unit == unit
        assert reg.privacy_.protects == "columns"
        assert "whose outcomes and public columns are equal" in reg.privacy_.in_words()

    def test_a_fit_is_the_same_function_of_noise_for_all_private_values(self):
        public, y = np.arange(4.0), [0.0, 1.0, 0.5, 1.0]
        X_public = np.column_stack([np.linspace(0, 3, 20), np.tile([0.0, 1.0], 10)])

        def fitted(private):
            tree = DecisionTreeRegressor(max_depth=1, random_state=0)
            estimator = SemiPrivateLinearRegression()
            reg = regressor(estimator, [1], public_model=tree, random_state=None)
            return pickle.dumps(reg.fit(np.column_stack([public, private]), y, X_public=X_public))

        with Recorder() as recorder:
            one = fitted([0.0, 1.0, 1.0, 0.0])
        with Recorder(recorder.outcomes):
            assert fitted([0.0, 1.0, 0.0, 0.0]) == one

    def test_bounds(self):
        y = OUTCOMES.copy()
        y[0] = 1e6
        reg = regressor().fit(X, y, X_public=PUBLIC)
        low, high = reg.outcome_bounds_
        assert y.min() <= low < high < 10
        assert reg.estimator_.outcome_bounds_ == reg.outcome_bounds_
        bounded = regressor(SemiPrivateBoostingRegressor(outcome_bounds=(-2, 2)))
        predictions = bounded.fit(X, OUTCOMES, X_public=PUBLIC).predict(X)
        assert bounded.outcome_bounds_ == (-2, 2)
        assert (np.abs(predictions) <= 2).all()

    def test_counts(self):
        y = RNG.poisson(np.exp(X["age"])) + 1
        reg = regressor(SemiPrivateBoostingRegressor(loss="poisson"))
        assert reg.fit(X, y, X_public=PUBLIC).outcome_bounds_[0] == 0

    def test_intervals(self):
        reg = regressor(epsilon=2).fit(X, OUTCOMES, X_public=PUBLIC)
        low, high = reg.interval(X, level=0.8).T
        assert ((low <= OUTCOMES) & (high >= OUTCOMES)).mean() > 0.7
        assert not hasattr(regressor(SemiPrivateLinearRegression()), "interval")

    def test_a_given_model_and_a_budget(self):
        public = X[["age", "height"]]
        given = LinearRegression().fit(public, OUTCOMES)
        budget = PrivacyBudget(3, 1e-5, protects=["income"], for_tests=True)
        reg = regressor(columns=["income", "colour"], public_model=given, budget=budget)
        reg.fit(X, OUTCOMES, X_public=PUBLIC, y_public=OUTCOMES[:300])
        assert reg.public_model_ is given
        assert reg.privacy_.entry == 1
        assert not hasattr(reg, "predict_proba")

    def test_errors(self):
        for estimator in (LinearRegression(), SemiPrivateBoostingClassifier()):
            with pytest.raises(ValueError, match="estimator must be SemiPrivateBoostingRegressor"):
                regressor(estimator).fit(X, OUTCOMES, X_public=PUBLIC)
        with pytest.raises(ValueError, match="finite numbers"):
            regressor().fit(X, np.append(OUTCOMES[1:], np.nan), X_public=PUBLIC)
        with pytest.raises(ValueError, match="outcome"):
            regressor().fit(X, np.ones(N), X_public=PUBLIC)
        spent = SemiPrivateBoostingRegressor(budget=PrivacyBudget(1, 1e-6))
        with pytest.raises(ValueError, match="budget to PrivateColumnsRegressor"):
            regressor(spent).fit(X, OUTCOMES)
