"""Public rows that say too little are filled up from bounds and types, or a warning says so."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.hypotheses import FiniteClass
from skpublicdp.sanitizers import QuantileSanitizer
from tests.data.internals import (
    N_ADDED_ROWS,
    N_BINS,
    LabelReader,
    read_fit_inputs,
    read_training_data,
    reference_sample,
)

RNG = np.random.default_rng(0)
N, M = 3000, 80
LIMITS = (0, 100)


def people(n):
    age, job = RNG.normal(50, 15, n).clip(*LIMITS), RNG.choice(["clerk", "nurse", "pilot"], n)
    return pd.DataFrame({"age": age, "job": job, "dose": RNG.normal(size=n)})


X, PUBLIC = people(N), people(M)
Y = (X["age"] + 15 * RNG.logistic(size=N) > 50).astype(int)
NUMBERS = ["age", "dose"]
JOBS = pd.CategoricalDtype(["clerk", "nurse", "pilot"])
quiet = pytest.mark.filterwarnings(
    "ignore::skpublicdp.exceptions.DriftWarning", "ignore::skpublicdp.exceptions.TooFewRowsWarning"
)
pytestmark = quiet


def boosting(**settings):
    return SemiPrivateBoostingClassifier(epsilon=1.0, random_state=0, **settings)


def tree(**settings):
    return SemiPrivateClassifier(epsilon=1.0, random_state=0, **settings)


def warned(fit):
    """Return what a fit warns of about public rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if one.category is NoPublicDataWarning]


@pytest.mark.parametrize("make", [boosting, tree])
@pytest.mark.parametrize("value", [50.0, np.nan])
def test_a_column_that_does_not_vary_is_learned_from_its_bounds(make, value):
    if make is tree and np.isnan(value):
        pytest.skip("numbers may not be missing there")
    public = PUBLIC.assign(age=value)[NUMBERS]
    (said,) = warned(lambda: make().fit(X[NUMBERS], Y, X_public=public))
    assert "age" in said
    assert "dose" not in said
    assert "bounds={'age'" in said
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoPublicDataWarning)
        known = make(bounds={"age": LIMITS}).fit(X[NUMBERS], Y, X_public=public)
        best = make().fit(X[NUMBERS], Y, X_public=PUBLIC[NUMBERS])
    assert known.score(X[NUMBERS], Y) > best.score(X[NUMBERS], Y) - 0.02 > 0.63


def test_declared_categories_and_booleans_are_known():
    job = X["job"].astype(JOBS)
    rows = pd.DataFrame({"job": job, "left": X["age"] > 50, "dose": X["dose"]})
    y = (job == "nurse").astype(int)
    public = pd.DataFrame({"job": ["clerk"] * M, "left": [True] * M, "dose": PUBLIC["dose"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoPublicDataWarning)
        clf = boosting().fit(rows, y, X_public=public.astype({"job": JOBS}))
    assert clf.score(rows, y) > 0.95
    text = rows.astype({"job": str})
    (said,) = warned(lambda: boosting().fit(text, y, X_public=public))
    assert "job" in said
    assert "dose" not in said
    assert "categories" in said


def test_one_warning_names_all_columns_and_no_value():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(N, 8)), columns=[f"c{i}" for i in range(8)])
    public = pd.DataFrame(np.full((M, 8), 8675309.0), columns=rows.columns)
    (said,) = warned(lambda: boosting(bounds={"c0": (0, 1e7)}).fit(rows, Y, X_public=public))
    assert "c1, c2, c3, c4, c5 and 2 others" in said
    assert "8675309" not in said


@pytest.mark.parametrize(("make", "least"), [(boosting, N_BINS), (tree, 20)])
def test_few_rows(make, least):
    for m in (1, 2, least - 1):
        (said,) = warned(lambda m=m: make().fit(X[NUMBERS], Y, X_public=PUBLIC[NUMBERS][:m].copy()))
        assert {str(m), str(least)} <= set(said.split())
        assert "age, dose" in said
        with warnings.catch_warnings():
            warnings.simplefilter("error", NoPublicDataWarning)
            bounds = {"age": LIMITS, "dose": (-4, 4)}
            clf = make(bounds=bounds).fit(X[NUMBERS], Y, X_public=PUBLIC[NUMBERS][:m].copy())
            make().fit(X[NUMBERS], Y, X_public=PUBLIC[NUMBERS][:least].copy())
        assert clf.score(X[NUMBERS], Y) > 0.65
        assert clf.privacy_.n_public == m


def test_what_is_warned_of_depends_on_public_rows_alone():
    alone = warned(lambda: boosting().fit(X[NUMBERS], Y, X_public=PUBLIC[NUMBERS][:3].copy()))
    turned = X[NUMBERS].sample(frac=1, random_state=0) * 7
    other = warned(lambda: boosting().fit(turned, Y, X_public=PUBLIC[NUMBERS][:3].copy()))
    assert alone == other


def taken(public, y_public=None, bounds=None, least=2, rows=X[NUMBERS]):
    clf = boosting(bounds=bounds)
    return read_fit_inputs(
        clf,
        rows,
        Y,
        LabelReader(None),
        X_public=public,
        y_public=y_public,
        nullable=True,
        min_public_rows=least,
    )


def test_half_of_the_rows_keep_their_values_those_with_labels_first():
    public = PUBLIC[NUMBERS].assign(age=50.0)
    labels = np.where(np.arange(M) % 2, 1, -1)
    rows = taken(public, labels, {"age": LIMITS})
    assert rows.is_synthetic.sum() == M // 2
    assert not rows.is_synthetic[labels == 1].any()
    np.testing.assert_array_equal(rows.X_public[:, 1], public["dose"])
    np.testing.assert_array_equal(rows.X_public[~rows.is_synthetic, 0], 50.0)
    step = 100 / (M // 2)
    np.testing.assert_allclose(
        np.sort(rows.X_public[rows.is_synthetic, 0]), step * (np.arange(40) + 0.5)
    )
    np.testing.assert_array_equal(rows.X_labelled[:, 0], 50.0)
    assert rows.n_public == M


def test_a_row_whose_value_is_made_up_has_no_label():
    public = PUBLIC[NUMBERS].assign(age=50.0)
    labels = np.random.default_rng(1).integers(0, 2, M)
    found = read_training_data(
        boosting(bounds={"age": LIMITS}), X[NUMBERS], Y, X_public=public, y_public=labels
    )
    assert len(found.public_labels.rows) == M // 2
    np.testing.assert_array_equal(found.X_public[found.public_labels.rows, 0], 50.0)
    np.testing.assert_array_equal(found.public_labels.outcomes[0], labels[found.public_labels.rows])
    both = public.assign(dose=1.0)
    bounds = {"age": LIMITS, "dose": (0, 2)}
    found = read_training_data(
        boosting(bounds=bounds), X[NUMBERS], Y, X_public=both, y_public=labels
    )
    kept = np.isin(np.arange(M), found.public_labels.rows)
    assert (found.X_public[kept] == [50.0, 1.0]).all()  # the same rows in both columns


def test_few_rows_are_followed_by_others():
    public = PUBLIC[NUMBERS][:5].copy()
    with pytest.warns(NoPublicDataWarning, match="dose"):
        rows = taken(public, bounds={"age": LIMITS}, least=12)
    np.testing.assert_array_equal(rows.X_public[:5], public)
    assert len(rows.X_public) == 5 + N_ADDED_ROWS
    assert rows.is_synthetic.tolist() == [False] * 5 + [True] * N_ADDED_ROWS
    assert set(rows.X_public[5:, 1]) == set(public["dose"])
    assert np.ptp(rows.X_public[5:, 0]) > 99


def test_enough_rows_that_vary_are_left_alone():
    rows = taken(PUBLIC[NUMBERS], bounds={"age": LIMITS}, least=12)
    np.testing.assert_array_equal(rows.X_public, PUBLIC[NUMBERS])
    assert not rows.is_synthetic.any()


def test_whole_numbers_stay_whole():
    """One value does not tell that all are: shares may be all 0 among public rows."""
    whole = X[NUMBERS].round()
    few = taken(whole[:9].copy(), bounds={"age": LIMITS, "dose": (-9, 9)}, rows=whole, least=12)
    assert (few.X_public[:, 0] % 1 == 0).all()
    alike = taken(whole[:M].copy().assign(age=0.0, dose=0.0), bounds=(0, 1), rows=whole)
    assert len(np.unique(alike.X_public[:, 0])) > 30


def test_nothing_is_promised_where_values_are_made_up():
    public = PUBLIC[NUMBERS].assign(age=50.0)
    clf = tree(bounds={"age": LIMITS}).fit(X[NUMBERS], Y, X_public=public)
    assert clf.guarantee_ is None
    assert "bounds" in clf.guarantee_reason_
    release = PAPQueryRelease(method="pmw", bounds=LIMITS, delta=1e-6, random_state=0)
    release.fit(X[["age"]], X_public=public[["age"]])
    assert release.guarantee_ is None
    assert "bounds" in release.guarantee_reason_


def test_tables_of_a_release():
    public = PUBLIC[NUMBERS].assign(age=50.0)
    release = PAPQueryRelease(bounds={"age": LIMITS}, random_state=0)
    sample = release.fit(X[NUMBERS], X_public=public).sample(2000)["age"]
    for share in (0.25, 0.75):
        assert abs(sample.quantile(share) - X["age"].quantile(share)) < 5
    (said,) = warned(lambda: PAPQueryRelease(random_state=0).fit(X[NUMBERS], X_public=public))
    assert "age" in said


def test_a_finite_class_needs_no_public_rows_that_vary():
    old = DecisionTreeClassifier(max_depth=1)
    old = old.fit(PUBLIC[NUMBERS].to_numpy(), (PUBLIC["age"] > 50).astype(int))
    clf = tree(hypotheses=FiniteClass([old]))
    assert not warned(lambda: clf.fit(X[NUMBERS], Y, X_public=PUBLIC[NUMBERS][:1].copy()))
    assert clf.guarantee_ is not None


def test_public_rows_that_are_all_that_is_looked_at_are_left_alone():
    public = PUBLIC[NUMBERS].assign(age=50.0)
    release = PAPQueryRelease(method="public", bounds={"age": LIMITS}, random_state=0)
    release.fit(X[NUMBERS], X_public=public)
    assert (release.sample(300)["age"] == 50.0).all()


BOUNDED = [
    boosting,
    tree,
    PAPQueryRelease,
    GenericLearnerClassifier,
    LabelBoostClassifier,
    QuantileSanitizer,
]


@pytest.mark.parametrize("make", BOUNDED)
@pytest.mark.parametrize("named", [True, False])
def test_bounds_are_given_by_name_or_by_position(make, named):
    """For frames and arrays alike, with public rows and without."""
    rows = X[NUMBERS] if named else X[NUMBERS].to_numpy()
    names = NUMBERS if named else ["x0", "x1"]
    ways = [
        [LIMITS, (-4, 4)],
        {names[0]: LIMITS, names[1]: (-4, 4)},
        {0: LIMITS, 1: (-4, 4)},
        {np.int64(1): (-4, 4), names[0]: LIMITS},
    ]
    found = set()
    for bounds in ways:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoPublicDataWarning)
            fitted = make(bounds=bounds).set_params(random_state=0).fit(rows, Y)
        found.add(str(fitted.predict(rows) if hasattr(fitted, "predict") else fitted.sample(9)))
    assert len(found) == 1
    for wrong in ("zip", 2, -1, 0.5, None):
        with pytest.raises(ValueError, match="bounds"):
            make(bounds={wrong: LIMITS}).fit(rows, Y)


def test_columns_without_bounds_are_standard_normal():
    (said,) = warned(lambda: tree(bounds={"age": LIMITS}).fit(X[NUMBERS], Y))
    assert "standard-normal" in said
    (said,) = warned(lambda: tree(bounds={"age": LIMITS}).fit(X[["age"]], Y))
    assert "standard-normal" not in said
    clf = GenericLearnerClassifier(bounds={"dose": (-4, 4)}, random_state=0)
    (said,) = warned(lambda: clf.fit(X[NUMBERS], Y))
    assert "standard-normal" in said
    np.testing.assert_array_equal(clf.sanitized_[:, 0], reference_sample(2)[:, 0])
    np.testing.assert_array_equal(clf.sanitized_[:, 1], reference_sample(2, (-4, 4))[:, 1])


def test_one_pair_is_for_all_numbers():
    """Beside text, which has none: the same as a pair for each number by name."""
    pair = boosting(bounds=(-100, 100)).fit(X, Y, X_public=PUBLIC)
    named = boosting(bounds=dict.fromkeys(NUMBERS, (-100, 100))).fit(X, Y, X_public=PUBLIC)
    np.testing.assert_array_equal(pair.predict_proba(X), named.predict_proba(X))
    release = PAPQueryRelease(bounds=(-100, 100), epsilon=1.0, delta=1e-6, random_state=0)
    assert set(JOBS.categories) <= set(release.fit(X, X_public=PUBLIC).table(["job"])["job"])


def test_the_range_of_numbers_without_public_rows_and_bounds():
    """The warning names the columns and the bounds that their numbers are moved to."""
    rows = {f"n{number}": np.arange(100.0) for number in range(7)}
    frame = pd.DataFrame(rows)[["n0"]].assign(kind=pd.Categorical(["a", "b"] * 50))
    release = PAPQueryRelease(epsilon=9.0, random_state=0)
    (said,) = warned(lambda: release.fit(frame))
    assert "n0" in said
    assert "±8" in said
    column = release._schema.columns[0]
    assert (column.low, column.high) == (-8, 8)
    (said,) = warned(lambda: release.fit(pd.DataFrame(rows)))
    assert "n0, n1, n2, n3, n4, ..." in said
    bounded = PAPQueryRelease(bounds=(0, 100), random_state=0)
    (said,) = warned(lambda: bounded.fit(frame[["n0"]]))
    assert "n0" not in said
    days = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=100)})
    (said,) = warned(lambda: PAPQueryRelease(random_state=0).fit(days))
    assert "day" in said
    assert "1970" in said
    alone = PAPQueryRelease(epsilon=9.0, random_state=0)
    warned(lambda: alone.fit(frame[["n0"]]))
    assert alone.quantile(0.9) <= 8
