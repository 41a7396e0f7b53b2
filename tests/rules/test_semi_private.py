"""SemiPrivateClassifier: what goes in, what comes out, and what must never come out."""

import io
import itertools
import json
import logging
import pickle
import warnings
from fractions import Fraction

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skpublicdp import PublicFit, SemiPrivateClassifier
from skpublicdp.exceptions import NoPublicDataWarning, SlicedPublicDataWarning
from skpublicdp.guarantees import uniform_error
from skpublicdp.hypotheses import DecisionTrees, Stumps, Thresholds
from tests.helpers import assert_fits, assert_private, outcome_probabilities, public_sample
from tests.internals.hypotheses import tabulate
from tests.internals.mechanisms import probabilities
from tests.kit import enumerate_runs

RNG = np.random.default_rng(0)
N = 1500
X = RNG.normal(size=(N, 3))
Y = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0.3), "sick", "well")
PUBLIC = RNG.normal(size=(200, 3))


def fitted(**parameters):
    data = {"X": X, "y": Y, "X_public": PUBLIC}
    data |= {key: parameters.pop(key) for key in ("X_public", "y_public") if key in parameters}
    return SemiPrivateClassifier(**{"random_state": 0, **parameters}).fit(**data)


def test_learns_an_interaction():
    clf = fitted(epsilon=0.5)
    assert clf.score(X, Y) > 0.97
    assert clf.classes_.tolist() == ["sick", "well"]
    assert "x0 >" in str(clf.hypothesis_)
    assert "predict sick" in str(clf.hypothesis_)


def test_public_attributes():
    clf = fitted(epsilon=0.5)
    assert type(clf.cover_size_) is int
    assert clf.cover_size_ == (3 * 19) ** 3 * 2**4
    receipt = clf.privacy_
    assert (receipt.epsilon, receipt.delta) == (0.5, 0.0)
    assert (receipt.n_private, receipt.n_public) == (N, 200)
    assert receipt.unit.startswith("replace one private row")
    assert not receipt.secure_randomness
    with pytest.raises(AttributeError):
        receipt.epsilon = 0.1
    for part in ("ε = 0.5, δ = 0", "1500 private, 200 public", "exponential mechanism", "seeded"):
        assert part in repr(receipt)
    assert json.loads(json.dumps(receipt.to_dict()))["mechanisms"][0]["epsilon"] == 0.5
    assert clf.certificate_.probability == pytest.approx(0.95)
    stumps = fitted(hypotheses=Stumps(), epsilon=0.5)  # equally likely a priori
    expected = 2 * (np.log(stumps.cover_size_) + np.log(20)) / (0.5 * N)
    assert stumps.certificate_.excess_error == pytest.approx(expected)
    # a prior over trees makes the least likely one a little dearer
    assert (
        1
        < clf.certificate_.excess_error / (2 * (np.log(clf.cover_size_) + np.log(20)) / (0.5 * N))
        < 1.3
    )


def test_cover_radius_follows_alpha():
    radii = [fitted(alpha=alpha, hypotheses=Stumps()).cover_radius_ for alpha in (0.001, 0.05, 0.3)]
    assert radii[0] == 0
    assert 0 < radii[1] <= 0.05 < radii[2] <= 0.3
    assert fitted(alpha=0.05).cover_radius_ == pytest.approx(3 * radii[1])


def test_mask_and_separate_rows_are_the_same_thing():
    rows = np.vstack([X, PUBLIC])
    labels = np.concatenate([Y, np.full(200, "-1")])
    mask = np.arange(len(rows)) >= N
    masked = SemiPrivateClassifier(random_state=0).fit(rows, labels, is_public=mask)
    separate = fitted()
    assert str(masked.hypothesis_) == str(separate.hypothesis_)
    assert masked.privacy_ == separate.privacy_
    both = SemiPrivateClassifier(random_state=0).fit(
        rows, labels, is_public=mask, X_public=PUBLIC[:50]
    )
    assert both.privacy_.n_public == 250
    frame = pd.DataFrame(rows, columns=["age", "dose", "bmi"])
    series = pd.Series(mask, index=frame.index)
    with pytest.raises(ValueError, match="same index"):
        SemiPrivateClassifier().fit(frame, labels, is_public=series[::-1])
    named = SemiPrivateClassifier(random_state=0).fit(frame, labels, is_public=series)
    assert "age > " in str(named.hypothesis_)
    assert str(named.hypothesis_).replace("age", "x0").replace("dose", "x1") == str(
        masked.hypothesis_
    )


def test_row_order_does_not_matter():
    order = np.random.default_rng(1).permutation(N)
    one = fitted()
    other = SemiPrivateClassifier(random_state=0).fit(X[order], Y[order], X_public=PUBLIC)
    assert str(one.hypothesis_) == str(other.hypothesis_)


def scored_rows(clf):
    """How many rows a certificate counts, by comparing it with one over N rows."""
    alone = fitted(epsilon=clf.epsilon, hypotheses=clf.hypotheses)
    return N * alone.certificate_.excess_error / clf.certificate_.excess_error


def test_labelled_public_rows_join_the_score():
    labels = np.where((PUBLIC[:, 0] > 0) ^ (PUBLIC[:, 1] > 0.3), "sick", "well")
    few, few_labels = X[:30], Y[:30]
    scores = {}
    for weight in (0, 1, 50):
        clf = SemiPrivateClassifier(epsilon=0.1, random_state=0, public_weight=weight)
        clf.fit(few, few_labels, X_public=PUBLIC, y_public=labels)
        scores[weight] = clf.score(X, Y)
        assert scored_rows(clf) == pytest.approx(30 + weight * 200)
    assert scores[50] > 0.9 > scores[0]


def test_partly_labelled_public_rows():
    labels = np.array(["-1"] * 150 + ["sick"] * 25 + ["well"] * 25)
    clf = fitted(y_public=labels, public_weight=3)
    assert clf.classes_.tolist() == ["sick", "well"]
    assert scored_rows(clf) == pytest.approx(N + 3 * 50)


@pytest.mark.parametrize("private", [[-1, 1], [1]])
def test_minus_one_is_a_label_where_private_rows_or_classes_say_so(private):
    labels = np.resize(private, N)
    mask = np.arange(N) < 100
    public_labels = np.where(mask, np.resize([-1, 1], N), labels)
    clf = SemiPrivateClassifier(Thresholds(), random_state=0)
    clf.fit(X, public_labels, is_public=mask)
    assert clf.classes_.tolist() == private
    clf.set_params(classes=[-1, 1]).fit(X, public_labels, is_public=mask)
    assert clf.classes_.tolist() == [-1, 1]


def test_public_rows_without_labels_stay_so_whatever_the_labels_are():
    labels = np.where(Y == "sick", 1, -1)
    clf = SemiPrivateClassifier(Stumps(), random_state=0)
    clf.fit(X, labels, X_public=np.tile(PUBLIC, (50, 1)))
    assert scored_rows(clf) == pytest.approx(N)
    # 10 of the rows are public, and their real labels still count once
    clf.fit(X, labels, X_public=PUBLIC[10:], is_public=np.arange(N) < 10)
    assert clf.certificate_.excess_error == pytest.approx(
        2 * (np.log(clf.cover_size_) + np.log(20)) / N
    )


def test_warnings_point_at_the_caller():
    for kind, arguments in (
        (NoPublicDataWarning, {}),
        (SlicedPublicDataWarning, {"X_public": X + 1}),
    ):
        for estimator in (SemiPrivateClassifier(), PublicFit()):
            with pytest.warns(kind) as caught:
                estimator.fit(X, Y, **arguments)
            assert caught[0].filename == __file__


def test_object_labels_with_an_integer_mark():
    labels = Y.astype(object)
    mask = np.arange(N) < 300
    labels[mask] = -1
    clf = SemiPrivateClassifier(random_state=0).fit(X, labels, is_public=mask)
    assert clf.classes_.tolist() == ["sick", "well"]


def test_declared_classes():
    clf = fitted(classes=["well", "unknown", "sick"])
    assert clf.classes_.tolist() == ["sick", "unknown", "well"]
    assert "set of labels" not in repr(clf.privacy_)
    assert "set of labels" in repr(fitted().privacy_)


@pytest.mark.parametrize("dtype", [object, "category", "string", None])
@pytest.mark.parametrize("classes", [None, ["sick", "well"]])
def test_pandas_labels(dtype, classes):
    labels = pd.Series(Y, dtype=dtype)
    clf = SemiPrivateClassifier(classes=classes, random_state=0).fit(X, labels, X_public=PUBLIC)
    assert (clf.predict(X) == Y).mean() > 0.95
    public_labels = pd.Series(["sick"] * 200, dtype=dtype)
    clf.fit(X, labels, X_public=PUBLIC, y_public=public_labels)
    assert clf.classes_.tolist() == ["sick", "well"]


class TestOneRowDoesNotRecodeTheOthers:
    """A single odd label is an error or stays alone; it never changes how other labels are read."""

    def test_text_among_numbers(self):
        rows = np.repeat(np.arange(40.0), 50)[:, None]
        labels = [10 if row[0] >= 20 else 2 for row in rows]
        labels[0] = "2"
        for classes in (list(range(40)), None):
            with pytest.raises(ValueError, match="all numbers"):
                SemiPrivateClassifier(Stumps(), classes=classes).fit(
                    rows, labels, X_public=rows[::50].copy()
                )
        with pytest.raises(ValueError, match="all numbers"):
            SemiPrivateClassifier(Stumps(), classes=list(range(40))).fit(
                rows, np.array(labels), X_public=rows[::50].copy()
            )

    def test_numbers_that_floats_confuse(self):
        big = 2**53
        labels = [big + 1 + int(row > 0) for row in X[:, 0]]
        for odd in (labels, [float(big), *labels[1:]]):
            with pytest.raises(ValueError, match=r"below 2\*\*53"):
                SemiPrivateClassifier(classes=[1, 2]).fit(X, odd, X_public=PUBLIC)

    def test_a_float_among_integers(self):
        labels = [int(row > 0) for row in X[:, 0]]
        clf = SemiPrivateClassifier(classes=[0, 1], random_state=0)
        plain = str(clf.fit(X, labels, X_public=PUBLIC).hypothesis_)
        labels[0] = float(labels[0])
        assert str(clf.fit(X, labels, X_public=PUBLIC).hypothesis_) == plain

    def test_labels_are_plain_objects(self):
        labels = np.array([np.str_(label) for label in Y], dtype=object)
        clf = SemiPrivateClassifier(random_state=0).fit(X, labels, X_public=PUBLIC)
        assert {type(label) for label in clf.classes_} == {str}

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
    @pytest.mark.filterwarnings("error")
    def test_no_warning_counts_private_labels(self):
        rows = RNG.normal(size=(40, 1))
        for distinct in (20, 21, 40):
            labels = np.arange(40) % distinct
            SemiPrivateClassifier(classes=range(40), random_state=0).fit(
                rows, labels, X_public=PUBLIC[:, :1]
            )

    def test_complex_labels_are_not_quoted(self):
        with pytest.raises(ValueError, match="all numbers") as caught:
            SemiPrivateClassifier().fit(X, [1 + 8675309j, *[1] * (N - 1)], X_public=PUBLIC)
        assert "8675309" not in str(caught.value)


def test_multi_class():
    y = np.select([X[:, 0] > 0.5, X[:, 1] > 0], ["a", "b"], "c")
    clf = SemiPrivateClassifier(random_state=0).fit(X, y, X_public=PUBLIC)
    assert clf.score(X, y) > 0.95


@pytest.mark.parametrize("hypotheses", [Thresholds(), Stumps(), DecisionTrees(max_depth=1)])
def test_other_hypotheses(hypotheses):
    y = (X[:, 0] > 0.2).astype(int)
    clf = SemiPrivateClassifier(hypotheses, random_state=0).fit(X, y, X_public=PUBLIC)
    assert clf.score(X, y) > 0.95


def test_repeatable_with_a_seed_and_different_without():
    # almost no budget: the draw is close to uniform over 3e6 trees, so equal ones are a 1e-6 event
    def tree(random_state):
        hypothesis = fitted(epsilon=1e-3, random_state=random_state).hypothesis_
        parts = hypothesis.splits.features, hypothesis.splits.thresholds, hypothesis.leaves
        return [part.tolist() for part in parts]

    assert tree(5) == tree(5)
    assert tree(None) != tree(None)
    assert fitted(random_state=None).privacy_.secure_randomness


@pytest.mark.parametrize(
    "copy",
    [
        lambda clf: pickle.loads(pickle.dumps(clf)),
        lambda clf: joblib.load(_joblib_buffer(clf)),
        lambda clf: clone(clf).fit(X, Y, X_public=PUBLIC),
    ],
)
def test_round_trips(copy):
    clf = fitted()
    again = copy(clf)
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again.privacy_ == clf.privacy_
    assert str(again.hypothesis_) == str(clf.hypothesis_)


def _joblib_buffer(clf):
    buffer = io.BytesIO()
    joblib.dump(clf, buffer)
    buffer.seek(0)
    return buffer


def test_workers_do_not_change_the_result():
    n = 150_000
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    rules = {
        str(
            SemiPrivateClassifier(n_jobs=n_jobs, random_state=0)
            .fit(rows, labels, X_public=rows[:100].copy())
            .hypothesis_
        )
        for n_jobs in (None, 2)
    }
    assert len(rules) == 1


class TestNoPublicRows:
    """The cover must then look at nothing but parameters."""

    def test_warns_and_learns(self):
        with pytest.warns(NoPublicDataWarning, match="standard-normal"):
            clf = SemiPrivateClassifier(random_state=0).fit(X, Y)
        assert clf.score(X, Y) > 0.95
        assert clf.privacy_.n_public == 0

    def test_bounds(self):
        clf = SemiPrivateClassifier(bounds=(0, 100), random_state=0)
        rows = 50 + 10 * X
        with pytest.warns(NoPublicDataWarning, match="the given bounds"):
            clf.fit(rows, Y)
        assert clf.score(rows, Y) > 0.8
        clf.set_params(bounds=[(0, 100), (20, 80), (-1, 1)])
        with pytest.warns(NoPublicDataWarning):
            clf.fit(rows, Y)

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_cover_does_not_look_at_the_rows(self):
        sizes = set()
        for rows in (X, 1000 * X, np.zeros_like(X)):
            sizes.add(SemiPrivateClassifier().fit(rows, Y).cover_size_)
        assert len(sizes) == 1

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    @pytest.mark.parametrize("empty", [np.empty((0, 3)), []])
    def test_empty_public_rows_are_none(self, empty):
        SemiPrivateClassifier().fit(X, Y, X_public=np.reshape(empty, (0, 3)))

    @pytest.mark.parametrize("bounds", [(1, 0), (0, np.inf), [(0, 1)] * 2, (0, 1, 2)])
    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    @pytest.mark.parametrize("public", [None, PUBLIC])
    def test_bad_bounds(self, bounds, public):
        with pytest.raises(ValueError, match="bounds must be"):
            SemiPrivateClassifier(bounds=bounds).fit(X, Y, X_public=public)


SECRET = 8675309.125


def private_rows():
    rows = X.copy()
    rows[7] = SECRET
    return rows


@pytest.mark.parametrize(
    ("arguments", "parameters", "message"),
    [
        ({}, {"epsilon": 0}, "'epsilon' parameter"),
        ({}, {"epsilon": -1.0}, "'epsilon' parameter"),
        ({}, {"epsilon": np.inf}, "'epsilon' parameter"),
        ({}, {"epsilon": np.nan}, "'epsilon' parameter"),
        ({}, {"epsilon": "1"}, "'epsilon' parameter"),
        ({}, {"alpha": 1.0}, "'alpha' parameter"),
        ({}, {"beta": 0}, "'beta' parameter"),
        ({}, {"public_weight": -1}, "'public_weight' parameter"),
        ({}, {"public_weight": 0.5}, "'public_weight' parameter"),
        ({}, {"hypotheses": "trees"}, "'hypotheses' parameter"),
        ({}, {"random_state": -3}, "random_state"),
        ({}, {"classes": ["sick"]}, "listed in classes"),
        ({"X": np.where(X > 3, np.nan, X)}, {}, "X contains NaN"),
        ({"X": np.where(X > 2, np.inf, X)}, {}, "X contains NaN"),
        ({"X": sparse.csr_matrix(X)}, {}, "[Ss]parse"),
        ({"X": X[:, 0]}, {}, "Reshape your data"),
        ({"X": X.astype(str).astype(object) + "?"}, {}, "numbers only"),
        (
            {"X": pd.DataFrame({"name": [f"Alice{i}" for i in range(N)]}, dtype="string")},
            {},
            "Column name must",
        ),
        ({"X": X.astype(complex)}, {}, "Complex"),
        ({"X_public": PUBLIC[:, :2]}, {}, "X_public .*got 2"),
        (
            {"X_public": np.where(PUBLIC > 2, np.nan, PUBLIC)},
            {},
            "column x0",
        ),
        ({"X_public": PUBLIC[0]}, {}, "X_public must be a"),
        ({"is_public": np.zeros(N - 1, dtype=bool)}, {}, r"got shape \(1499,\)"),
        ({"is_public": np.full(N, 2)}, {}, "is_public must"),
        ({"is_public": np.full(N, "no")}, {}, "status is unknown"),
        ({"is_public": np.ones(N, dtype=bool)}, {}, "one private row"),
        ({"y": None}, {}, "requires y"),
        ({"y": Y[:-1]}, {}, "numbers of samples"),
        ({"y": X[:, 0]}, {}, "continuous numbers"),
        (
            {"y": np.where(Y == "sick", np.nan, 1.0)},
            {},
            "y .*continuous",
        ),
        ({"y_public": ["sick"] * 199}, {}, "199 labels for 200"),
        (
            {"y_public": ["sick"] * 200, "X_public": None},
            {},
            "without X_public",
        ),
        ({"y_public": [1] * 200}, {}, "all numbers"),
    ],
)
def test_bad_input_gets_one_clear_sentence(arguments, parameters, message):
    data = {"X": X, "y": Y, "X_public": PUBLIC} | arguments
    clf = SemiPrivateClassifier(**parameters)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        clf.fit(**data)
    assert "\n" not in str(caught.value)
    assert not hasattr(clf, "hypothesis_")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows[:, 0],
        lambda rows: rows.astype(complex),
        lambda rows: np.where(rows == SECRET, "Alice", rows.astype(object)),
        lambda rows: np.vstack([rows, np.full((1, 3), np.nan)]),
    ],
)
def test_errors_never_quote_private_values(spoil):
    with pytest.raises(ValueError) as caught:
        SemiPrivateClassifier().fit(spoil(private_rows()), Y, X_public=PUBLIC)
    error = caught.value
    while error is not None:
        assert "8675309" not in str(error)
        assert "Alice" not in str(error)
        error = error.__context__


def test_a_foreign_label_is_not_quoted():
    labels = np.where(np.arange(N) == 3, "hunter2", Y)
    with pytest.raises(ValueError) as caught:
        SemiPrivateClassifier(classes=["sick", "well"]).fit(X, labels, X_public=PUBLIC)
    assert "hunter2" not in str(caught.value)


def test_feature_names_of_public_rows_must_match():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    public = pd.DataFrame(PUBLIC, columns=["a", "c", "d"])
    with pytest.raises(ValueError, match="b is missing"):
        SemiPrivateClassifier().fit(frame, Y, X_public=public)


def numbers_in(value, seen=None):
    """All numbers reachable from an object through attributes, containers and arrays."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, bool | str | type(None) | type):
        return
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, int | float | np.number | Fraction):
        yield float(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from numbers_in(item, seen)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from numbers_in(item, seen)
    elif hasattr(value, "__dict__"):
        yield from numbers_in(vars(value), seen)


def test_nothing_private_is_stored(caplog):
    """Two data sets with the same draw must leave the very same object behind."""
    clf = fitted(epsilon=5.0)
    expected = {
        "classes_",
        "hypothesis_",
        "cover_size_",
        "cover_radius_",
        "privacy_",
        "certificate_",
        "guarantee_",
        "guarantee_reason_",
    }
    learned = {name for name in vars(clf) if name.endswith("_") and not name.startswith("_")}
    assert learned == expected | {"n_features_in_"}
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other = SemiPrivateClassifier(epsilon=5.0, random_state=0).fit(
            np.vstack([X[1:], [[9.25, 9.25, 9.25]]]), np.append(Y[1:], "sick"), X_public=PUBLIC
        )
    assert not caught
    assert not caplog.records
    assert str(clf.hypothesis_) == str(other.hypothesis_)
    assert pickle.dumps(clf) == pickle.dumps(other)
    assert 9.25 not in set(numbers_in(other))


def test_equal_lengths_are_loud():
    with pytest.warns(SlicedPublicDataWarning, match=r"\(1500\)"):
        SemiPrivateClassifier().fit(X, Y, X_public=RNG.normal(size=(N, 3)))


def test_cross_validation_slices_public_rows_of_equal_length():
    """The trap as it is: scikit-learn cuts X_public with X, and the warning shows it."""
    public = RNG.normal(size=(N, 3))
    with pytest.warns(SlicedPublicDataWarning, match=r"\(1000\)"):
        cross_val_score(
            SemiPrivateClassifier(random_state=0), X, Y, cv=3, params={"X_public": public}
        )


@pytest.mark.filterwarnings("error")
def test_cross_validation_with_the_mask_is_right():
    mask = np.arange(N) % 5 == 0
    scores = cross_val_score(
        SemiPrivateClassifier(random_state=0), X, Y, cv=3, params={"is_public": mask}
    )
    assert scores.mean() > 0.95


@pytest.mark.filterwarnings("ignore:Only 2 public rows")
@pytest.mark.parametrize(
    ("weight", "epsilon", "n_fits"),
    [
        (3, 1, 300),
        pytest.param(0, 2, 1000, marks=pytest.mark.slow),
        pytest.param(3, 1, 1000, marks=pytest.mark.slow),
    ],
)
def test_fits_draw_from_the_exact_distribution(weight, epsilon, n_fits):
    """The whole path from rows to rule against exact probabilities, on a tiny domain.

    A thousand fits notice half of the budget, or public rows of one less than their weight, with a
    chance of 0.999.
    """
    rows = np.array([[0.0], [1.0], [1.0], [3.0]])
    labels = np.array([0, 1, 1, 0])
    public, public_labels = np.array([[0.5], [2.0]]), np.array([1, 0])
    clf = SemiPrivateClassifier(DecisionTrees(max_depth=1), epsilon=epsilon, public_weight=weight)
    cover = DecisionTrees(max_depth=1).build_cover(public_sample(public), alpha=0.05, beta=0.05)
    # a public row of weight w counts as w rows, a private one as one row: the budget is for these
    together = np.vstack([rows, *[public] * weight]), np.r_[labels, *[public_labels] * weight]
    (outcomes,) = outcome_probabilities(cover, [together], Fraction(epsilon))
    counts = dict.fromkeys(outcomes, 0)
    for seed in range(n_fits):
        clf.set_params(random_state=seed)
        clf.fit(rows, labels, X_public=public, y_public=public_labels)
        counts[str(clf.hypothesis_)] += 1
    assert_fits(list(counts.values()), [float(lower) for lower, _ in outcomes.values()])


def test_labelled_public_rows_cost_no_privacy():
    """With public rows in the score at any weight, one private row still spends ε alone."""
    public = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    cover = DecisionTrees().build_cover(public_sample(public), alpha=0.01, beta=0.05)
    extra = 7 * tabulate(cover, public, np.array([0, 1, 1]))

    def outcomes(rows, labels):
        family = cover.family(tabulate(cover, rows, labels) + extra)
        return probabilities(family, Fraction(1, 2), 1)

    base = outcomes(np.array([[0.5, 0.5], [3.0, 0.0]]), np.array([0, 1]))
    for row in ([0.0, 0.0], [1.5, 3.0], [9.0, -1.0]):
        for label in (0, 1):
            other = outcomes(np.array([[0.5, 0.5], row]), np.array([0, label]))
            assert_private(base, other, Fraction(1, 2))


def test_a_broken_sensitivity_is_caught():
    """The exact check sees a draw that spends more than it says."""
    cover = Stumps().build_cover(public_sample([[0.0], [1.0]]), alpha=0.01, beta=0.05)
    data = [(np.array([[0.0]]), np.array([0])), (np.array([[0.0]]), np.array([1]))]
    honest = list(outcome_probabilities(cover, data, Fraction(1)))
    assert_private(*honest, Fraction(1))
    overspent = list(outcome_probabilities(cover, data, Fraction(3)))
    with pytest.raises(AssertionError):
        assert_private(*overspent, Fraction(1))


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.SlicedPublicDataWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
class TestLabelPrivacy:
    """The features of the private rows are passed as public rows, and labels alone are private."""

    FEATURES = (
        np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0]]),
        np.array([[0.6, 1.0], [1.0, 0.0], [2.0, 3.0]]),
        np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 3.0], [2.0, 0.0]]),
    )

    def outcomes(self, hypotheses, features, labels, epsilon):
        """Return bounds of the exact probability of every rule that a fit can return."""
        # with a smaller alpha, so few rows are joined by a reference sample
        alpha = 1 / len(features)
        clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon, alpha=alpha, classes=[0, 1])
        found = {}
        runs = enumerate_runs(lambda: clf.fit(features, labels, X_public=features.copy()))
        for run in runs:
            rule = str(run.result.hypothesis_), run.path
            found[rule] = run.lower, run.upper
        assert len(found) == len(runs)
        assert 1 - Fraction(1, 2**60) < sum(lower for lower, _ in found.values()) <= 1
        return found

    def all_labels(self, hypotheses, features, epsilon):
        return {
            labels: self.outcomes(hypotheses, features, np.array(labels), epsilon)
            for labels in itertools.product((0, 1), repeat=len(features))
        }

    @pytest.mark.parametrize("features", FEATURES)
    @pytest.mark.parametrize(
        "hypotheses", [Stumps(), pytest.param(DecisionTrees(max_depth=1), marks=pytest.mark.slow)]
    )
    @pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
    def test_exactly(self, hypotheses, features, epsilon):
        """Corollary 20 of docs/proofs/tables.md, for all labels and all changes of one label."""
        outcomes = self.all_labels(hypotheses, features, epsilon)
        for labels in outcomes:
            for position in range(len(labels)):
                other = (*labels[:position], 1 - labels[position], *labels[position + 1 :])
                assert_private(outcomes[labels], outcomes[other], epsilon)

    def test_more_than_epsilon_is_noticed(self):
        outcomes = self.all_labels(Stumps(), self.FEATURES[0], Fraction(1))
        with pytest.raises(AssertionError):
            assert_private(outcomes[0, 0, 0], outcomes[0, 0, 1], Fraction(1, 2))

    def test_features_are_not_private(self):
        """The rules that can come out name public values, so a changed feature shows."""
        one, other = (
            self.outcomes(Stumps(), features, np.array([0, 1, 1]), Fraction(1))
            for features in self.FEATURES[:2]
        )
        assert one.keys() != other.keys()

    def test_same_memory_is_refused(self):
        with pytest.raises(ValueError, match="shares memory"):
            SemiPrivateClassifier().fit(X, Y, X_public=X)

    def test_bound_of_the_population(self):
        """Lemma 21 of docs/proofs/tables.md, with the numbers that a fit returns."""
        n, b, noise, threshold = 4000, 0.02, 0.1, 0.3
        terms = uniform_error(n, b, growth=2 * n + 1) + np.sqrt(np.log(1 / b) / (2 * n))
        rng = np.random.default_rng(5)
        for seed in range(40):
            x = rng.uniform(size=(n, 1))
            y = ((x[:, 0] > threshold) ^ (rng.uniform(size=n) < noise)).astype(int)
            clf = SemiPrivateClassifier(Thresholds(), classes=[0, 1], random_state=seed)
            clf.fit(x, y, X_public=x.copy())
            grid = (np.arange(100_000) + 0.5)[:, None] / 100_000
            differ = np.mean(clf.predict(grid) != (grid[:, 0] > threshold))
            excess = (1 - 2 * noise) * differ
            bound = clf.cover_radius_ + clf.certificate_.at(b) + terms
            assert bound < 0.2
            assert excess <= bound


def test_fitting_prints_nothing(capsys):
    fitted()
    assert capsys.readouterr() == ("", "")
