"""Boosting of one-hot columns: as of one column of categories, in the user's own words."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils._testing import ignore_warnings

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.exceptions import NoPublicDataWarning
from tests.boosting.test_explanations import margins_of
from tests.boosting.test_privacy import neighbours_compared
from tests.internals.data import NONE, OTHER

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")

RNG = np.random.default_rng(0)
JOBS = ["farm", "sea", "shop", "mine", "inn"]
SHARES = [0.4, 0.3, 0.2, 0.1, 0.0]


def people(n):
    """Return a mixed table, and the scores of its rows."""
    age = RNG.integers(18, 90, size=n).astype(float)
    job, kin = RNG.choice(JOBS, size=n, p=SHARES), RNG.choice(["one", "two"], size=n)
    score = 0.05 * (age - 50) + 1.5 * (job == "sea") - 2.0 * (job == "mine") + (kin == "one")
    return pd.DataFrame({"age": age, "job": job, "kin": kin}), score + RNG.logistic(size=n)


def encoded(X):
    columns = {"age": X["age"]}
    columns |= {f"job_{job}": (X["job"] == job).astype(int) for job in JOBS}
    columns |= {f"kin_{kin}": X["kin"] == kin for kin in ("one", "two")}
    return pd.DataFrame(columns)


X, SCORE = people(4000)
PUBLIC, _ = people(300)
NEW, _ = people(200)
LABELS = {
    "two": np.where(SCORE > 0, "ill", "well"),
    "three": np.select([SCORE > 2, SCORE > 0], ["very", "ill"], "well"),
}
ENCODED_NEW = encoded(NEW)
ODD = ENCODED_NEW.iloc[:6].astype(object)
ODD.iloc[0, 1:6] = 1, 1, 0, 0, 0  # two jobs
ODD.iloc[1, 1:6] = 0, 0, 0, 0, 1  # a job without public rows
ODD.iloc[2, 1:6] = 0, 0, 0, 0, 0
ODD.iloc[3, 1:6] = 1, 0, 0, 0, 1  # the job without public rows is ignored
ODD.iloc[4, 1] = np.nan
ODD = ODD.astype(dict.fromkeys(ENCODED_NEW.columns[:6], float) | {"kin_one": bool, "kin_two": bool})


def fit(kind, X, X_public, **settings):
    if kind == "number":
        clf = SemiPrivateBoostingRegressor(outcome_bounds=(-9, 9), random_state=1, **settings)
        return clf.fit(X, SCORE.clip(-9, 9), X_public=X_public)
    clf = SemiPrivateBoostingClassifier(random_state=1, **settings)
    return clf.fit(X, LABELS[kind], X_public=X_public)


SETTINGS = {
    "two, little": ("two", {"epsilon": 0.5}),
    "two, much": ("two", {"epsilon": 8.0}),
    "two, pure": ("two", {"epsilon": 0.5, "delta": 0}),
    "two, votes": ("two", {"epsilon": 1.0, "method": "votes"}),
    "three, little": ("three", {"epsilon": 0.5}),
    "three, much": ("three", {"epsilon": 8.0}),
    "number, much": ("number", {"epsilon": 8.0}),
}


@pytest.fixture(scope="module")
def models():
    return {
        name: (fit(kind, X, PUBLIC, **settings), fit(kind, encoded(X), encoded(PUBLIC), **settings))
        for name, (kind, settings) in SETTINGS.items()
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_noise_is_added_to_the_same_sums(models, name):
    """Only the bin of rows without a job is added: no step costs more than of the mixed table."""
    _, one_hot = models[name]
    assert [shape.name for shape in one_hot.shapes_] == ["age", "job", "kin"]
    steps = [[(m.name, m.epsilon) for m in model.privacy_.mechanisms] for model in models[name]]
    assert steps[0][:3] == steps[1][:3]
    spread = [np.std(model.predict(data)) if "number" in name else
              np.std(model.decision_function(data)) for model, data in zip(
                  models[name], (NEW, ENCODED_NEW), strict=True)]  # fmt: skip
    assert spread[1] == pytest.approx(spread[0], rel=0.3)


def test_a_column_without_public_ones_needs_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoPublicDataWarning)
        fit("two", encoded(X), encoded(PUBLIC))


def test_public_rows_alone_decide():
    """Private rows with two jobs neither prevent the fold nor are they lost."""
    rows = encoded(X)
    both = np.arange(len(X)) % 2 == 0
    rows.loc[both, ["job_farm", "job_sea"]] = 1
    y = np.where(both & (SCORE > -2), "ill", "well")
    clf = SemiPrivateBoostingClassifier(epsilon=8.0, random_state=0)
    clf.fit(rows, y, X_public=encoded(PUBLIC))
    job = clf.shapes_[1]
    scores = dict(zip(job.cells, job.scores[0], strict=True))
    assert scores[OTHER] < min(scores["job_sea"], scores["job_shop"]) - 1
    # without public rows, nothing shows that the columns exclude each other
    bounds = {"age": (18, 90)} | dict.fromkeys(rows.columns[1:6], (0, 1))
    alone = SemiPrivateBoostingClassifier(bounds=bounds, random_state=0)
    with ignore_warnings(category=NoPublicDataWarning):
        alone.fit(rows, y)
    assert len(alone.shapes_) == rows.shape[1]


@pytest.mark.parametrize("name", SETTINGS)
def test_explanations_are_of_the_users_columns(models, name):
    _, model = models[name]
    data = ENCODED_NEW
    assert model.n_features_in_ == len(model.feature_importances_) == data.shape[1]
    job = model.shapes_[1]
    assert job.cells == ("job_farm", "job_sea", "job_shop", "job_mine", NONE, OTHER, "(missing)")
    local = model.explain_local(data)
    position = local.terms.index("job")
    assert local.cells[:, position].tolist() == [f"job_{value}" for value in NEW["job"]]
    if name.startswith("number"):
        np.testing.assert_allclose(local.total.clip(-9, 9), model.predict(data), atol=1e-12)
        assert (model.interval(ODD) >= -9).all()
    else:
        np.testing.assert_array_equal(local.total, model.decision_function(data))
    odd = model.explain_local(ODD).cells[:5, position]
    assert odd.tolist() == [OTHER, OTHER, NONE, "job_farm", "(missing)"]
    assert "job (importance" in model.explain() or "job" in model.explain().splitlines()[-1]


@pytest.mark.parametrize("name", SETTINGS)
def test_importances_are_divided_among_the_columns(models, name):
    _, model = models[name]
    importances = dict(zip(ENCODED_NEW.columns, model.feature_importances_, strict=True))
    assert min(importances.values()) >= 0
    assert importances["job_inn"] == 0  # in no public row
    shape = model.shapes_[1]
    deviations = np.abs(shape.scores[:, :4]).mean(axis=0)
    parts = (deviations if deviations.any() else 1) * shape.shares[:4]
    found = np.array([importances[f"job_{job}"] for job in JOBS[:4]])
    np.testing.assert_allclose(found / found.sum(), parts / parts.sum(), atol=3e-3)
    if not model.trees_:
        assert found.sum() == pytest.approx(parts.sum(), abs=1e-3)


@pytest.mark.parametrize("name", SETTINGS)
def test_json_predicts_in_another_language(models, name):
    _, model = models[name]
    read = json.loads(model.to_json())
    assert [column["kind"] for column in read["columns"]] == ["number", "one-hot", "one-hot"]
    job = read["columns"][1]
    assert job["members"] == ["job_farm", "job_sea", "job_shop", "job_mine"]
    assert job["rare_members"] == ["job_inn"]
    assert sum(column["importance"] for column in read["columns"]) == pytest.approx(
        model.feature_importances_.sum()
    )
    rows = pd.concat([ENCODED_NEW[:40].astype(float), ODD.astype(float)])
    margins = np.array([margins_of(read, row) for row in rows.to_dict("records")]).squeeze()
    data = [ENCODED_NEW[:40], ODD]
    if name.startswith("number"):
        means = -9 + 18 * np.clip(0.5 + margins / 4, 0, 1)
        expected = np.concatenate([model.predict(part) for part in data])
        np.testing.assert_allclose(means, expected, atol=1e-12)
    else:
        expected = np.concatenate([model.decision_function(part) for part in data])
        np.testing.assert_array_equal(margins, expected)


def test_columns_with_a_monotone_constraint_stay_apart():
    rows, public = encoded(X), encoded(PUBLIC)
    clf = fit("two", rows, public, epsilon=8.0, monotonic_cst={"job_shop": 1, "age": -1})
    names = [shape.name for shape in clf.shapes_]
    assert names == ["age", *(f"job_{job}" for job in JOBS), "kin"]
    assert (np.diff(clf.shapes_[3].scores[0, :2]) >= 0).all()
    assert (np.diff(clf.shapes_[0].scores[0, :-1]) <= 0).all()
    assert len(clf.feature_importances_) == rows.shape[1]


def one_hot_rows(X, y, **options):
    """Fit one-hot columns of the rows of `neighbours_compared`, some rows with two ones."""
    codes = np.nan_to_num(X[:, 1], nan=-1)
    columns = [codes == code for code in range(3)]
    columns[0] = columns[0] | (X[:, 0] > 2)  # 1e300 among them
    table = np.column_stack([X[:, 0], *columns]).astype(float)
    table[np.isnan(X[:, 1]), 1] = np.nan
    generator = np.random.default_rng(9)
    public = np.column_stack([generator.normal(size=40), np.eye(3)[np.arange(40) % 3]])
    clf = SemiPrivateBoostingClassifier(classes=range(options["n_classes"]), random_state=0)
    clf.set_params(**{k: v for k, v in options.items() if k in clf.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(table, y, X_public=public)
    assert len(clf.shapes_) == 2
    return clf, [clf.to_json(), clf.explain(), clf.feature_importances_.tobytes()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("epsilon", [20, 1000])
def test_a_replaced_row_moves_answers_as_paid_for_and_nothing_else(n_classes, delta, epsilon):
    clf, calls = neighbours_compared(
        watch=one_hot_rows, n_classes=n_classes, delta=delta, epsilon=epsilon
    )
    assert calls
    assert clf.shapes_[1].cells[-2] == OTHER


def test_displays_find_a_column_by_its_own_name_or_position(models):
    pytest.importorskip("matplotlib")
    from tests.internals.plotting import find_shapes

    _, model = models["two, much"]
    age, job, kin = model.shapes_
    assert find_shapes(model, ["age", "job", "job_sea", "kin_one"]) == [age, job, job, kin]
    assert find_shapes(model, [0, 1, 5, 7]) == [age, job, job, kin]
    shown = find_shapes(model, None)
    assert [shape in shown for shape in model.shapes_] == [True] * 3
    with pytest.raises(ValueError, match="below 8"):
        find_shapes(model, [8])
