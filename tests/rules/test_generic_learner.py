"""GenericLearnerClassifier and its sanitizer: private quantiles and what comes out of them."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from skpublicdp import GenericLearnerClassifier, PAPQueryRelease
from skpublicdp.exceptions import AmbiguousLabelWarning, NoPublicDataWarning, TooFewRowsWarning
from skpublicdp.hypotheses import (
    Conjunctions,
    DecisionTrees,
    FiniteClass,
    HalfspaceIntersections,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    Union,
)
from skpublicdp.query_release import RectangleQueries
from skpublicdp.sanitizers import QuantileSanitizer
from tests.helpers import public_sample
from tests.internals.data import reference_sample
from tests.internals.hypotheses import tabulate
from tests.internals.privacy import Ledger
from tests.internals.rules import RuleSearch, search_cover

RNG = np.random.default_rng(0)
N, LABELLED = 6000, 1000
X = np.column_stack(
    [RNG.lognormal(8, 1.5, size=N), RNG.normal(40, 10, size=N).round(), RNG.random(N) < 0.3]
).astype(float)
TRUTH = np.where((X[:, 0] > 4000) ^ (X[:, 2] == 1), "sick", "well")
Y = np.where(np.arange(N) < LABELLED, TRUTH, "-1")
WIDE = [(-1e7, 1e7), (-2000, 3000), (-50, 50)]


def fitted(**parameters):
    X_, y = parameters.pop("X", X), parameters.pop("y", Y)
    return GenericLearnerClassifier(**{"random_state": 0, **parameters}).fit(X_, y)


def test_sanitizer_receipt_and_few_rows():
    sanitizer = QuantileSanitizer(epsilon=0.5, random_state=0).fit(X)
    receipt = sanitizer.privacy_
    assert (receipt.epsilon, receipt.delta, receipt.n_private) == (0.5, 0.0, N)
    assert sum(spent.epsilon for spent in receipt.mechanisms) == pytest.approx(0.5)
    with pytest.warns(NoPublicDataWarning, match="10 rows with 3") as caught:
        sanitizer.fit(X[:10])
    assert caught[0].filename == __file__
    assert sanitizer.privacy_.epsilon == 0
    np.testing.assert_array_equal(sanitizer.sample(50), reference_sample(3, size=50))
    for n in (-1, 0.5):
        with pytest.raises(ValueError, match="non-negative integer"):
            sanitizer.sample(n)


@pytest.mark.parametrize("bounds", [None, WIDE])
def test_learns_from_few_labels_without_knowing_the_scale(bounds):
    clf = fitted(bounds=bounds)
    assert clf.score(X, TRUTH) > 0.9
    assert clf.classes_.tolist() == ["sick", "well"]
    assert "x0 >" in str(clf.hypothesis_)


def test_public_attributes():
    clf = fitted(epsilon=0.5)
    assert clf.sanitized_.shape == (1000, 3)
    assert set(clf.sanitized_[:, 2]) == {0.0, 1.0}
    assert type(clf.cover_size_) is int
    assert 0 < clf.cover_radius_ <= 3 * 0.05
    receipt = clf.privacy_
    assert (receipt.epsilon, receipt.delta) == (0.5, 0.0)
    assert (receipt.n_private, receipt.n_public) == (N, 0)
    parts = {"on the labelled rows": 0.0, "on the unlabelled rows": 0.0}
    for spent in receipt.mechanisms:
        parts[spent.name.split(":")[0]] += spent.epsilon
    assert list(parts.values()) == pytest.approx([0.5, 0.5])
    assert "which rows are labelled" in repr(receipt)
    assert clf.certificate_.probability == pytest.approx(0.95)
    expected = 2 * (np.log(clf.certificate_.effective_size) + np.log(20)) / (0.5 * LABELLED)
    assert clf.certificate_.excess_error == pytest.approx(expected)


CLASSES = [
    (Thresholds(), 1),
    (Thresholds(feature=1), 3),
    (Stumps(), 3),
    (Intervals(), 1),
    (Rectangles(), 2),
    (Rectangles(features=[0, 2]), 3),
    (Conjunctions(), 3),
    (Conjunctions(max_literals=3), 3),
    (DecisionTrees(max_depth=1), 3),
    (DecisionTrees(max_depth=3), 3),
    (Halfspaces(), 1),
    (Halfspaces(cover="directions", directions=100), 2),
    (Halfspaces(directions=100), 3),
    (Halfspaces(directions=100), 6),
    (HalfspaceIntersections(max_halfspaces=50), 2),
    (HalfspaceIntersections(max_halfspaces=200), 5),
    (Union([Stumps(), Halfspaces(directions=50)]), 3),
    (FiniteClass([LogisticRegression().fit(10 * np.eye(3), [0, 1, 1])]), 3),
]


@pytest.mark.parametrize(("hypotheses", "n_features"), CLASSES, ids=str)
@pytest.mark.parametrize("n", [3000, 500])
def test_every_hypothesis_class(hypotheses, n_features, n):
    rows = 50 + 10 * np.random.default_rng(1).normal(size=(3000, n_features))
    column = 1 if isinstance(hypotheses, Thresholds) and hypotheses.feature else 0
    labels = np.where(rows[:, column] > 50, 1, 0)
    marked = np.arange(len(rows)) < 500
    clf = GenericLearnerClassifier(hypotheses, epsilon=2.0, classes=[0, 1], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if n == 500 else "error", NoPublicDataWarning)
        clf.fit(rows[:n], labels[:n], is_labelled=marked[:n])
    if n == 3000 and not isinstance(hypotheses, FiniteClass):
        assert clf.score(rows, labels) > 0.8
    assert set(clf.predict(rows)) <= {0, 1}


def test_multi_class():
    truth = np.select([X[:, 0] > 4000, X[:, 2] == 1], ["a", "b"], "c")
    clf = fitted(y=np.where(np.arange(N) < 2000, truth, "-1"))
    assert clf.score(X, truth) > 0.9


class TestOtherSanitizers:
    @pytest.mark.parametrize(
        "sanitizer",
        [
            QuantileSanitizer(bounds=WIDE),
            PAPQueryRelease(delta=0),
            PAPQueryRelease(RectangleQueries(), delta=0),
        ],
    )
    def test_any_release_that_samples(self, sanitizer):
        rows = np.column_stack([X[:, 1], X[:, 2], np.log(X[:, 0])])
        clf = fitted(X=rows, bounds=[(0, 100), (0, 1), (0, 20)], sanitizer=sanitizer, epsilon=2.0)
        assert clf.score(rows, TRUTH) > 0.8
        assert (clf.privacy_.epsilon, clf.privacy_.delta) == (2.0, 0.0)
        assert sanitizer.epsilon == 1.0
        assert not hasattr(sanitizer, "privacy_")

    def test_what_it_says_of_rows_is_withheld(self):
        class Talks(QuantileSanitizer):
            def fit(self, X, y=None):
                warnings.warn(f"the largest is {X.max()}", UserWarning, stacklevel=2)
                if X.max() > 1e8:
                    raise ValueError(f"cannot handle {X.max()}")
                return super().fit(X)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", TooFewRowsWarning)
            fitted(sanitizer=Talks())
            with pytest.raises(ValueError, match="could not be fitted") as caught:
                fitted(X=np.where(X[-1, 0] == X, 4.242e9, X), sanitizer=Talks())
        assert "4242" not in str(caught.value)
        assert caught.value.__context__ is None

    def test_a_seeded_one_without_a_receipt_is_not_secure(self):
        class Silent(QuantileSanitizer):
            def fit(self, X, y=None):
                super().fit(X)
                del self.privacy_
                return self

        for seed in (0, None):
            clf = GenericLearnerClassifier(sanitizer=Silent(random_state=seed)).fit(X, Y)
            assert clf.privacy_.secure_randomness == (seed is None)

    def test_it_has_bits_of_its_own(self):
        """Who knows its noise must not know the draw: the seeds differ, for all learners."""
        seeds = []

        class Tells(QuantileSanitizer):
            def fit(self, X, y=None):
                seeds.append(self.random_state)
                return super().fit(X)

        for seed in range(5):
            fitted(sanitizer=Tells(), random_state=seed)
        assert len({*seeds, *range(5)}) == 10
        fitted(sanitizer=Tells(), random_state=0)
        fitted(sanitizer=Tells(random_state=7), random_state=0)
        fitted(sanitizer=Tells(), random_state=None)
        assert seeds[5:] == [seeds[0], 7, None]

    def test_labels_that_are_not_asked_for_choose_no_type(self):
        labelled = np.arange(N) < LABELLED
        y = [*TRUTH[:LABELLED], *["a very rare disease"] * (N - LABELLED)]
        clf = GenericLearnerClassifier(random_state=0).fit(X, y, is_labelled=labelled)
        assert clf.classes_.dtype == np.dtype("<U4")
        y[-1] = None
        again = GenericLearnerClassifier(random_state=0).fit(X, y, is_labelled=labelled)
        assert (again.predict(X) == clf.predict(X)).all()

    def test_delta_is_passed_on(self):
        clf = fitted(X=X[:, 1:2], bounds=(0, 100), sanitizer=PAPQueryRelease(delta=1e-6))
        assert (clf.privacy_.epsilon, clf.privacy_.delta) == (1.0, 1e-6)
        named = " ".join(spent.name for spent in clf.privacy_.mechanisms)
        assert "on the unlabelled rows: " in named
        assert "Gaussian" in named

    def test_one_without_a_receipt(self):
        class Own(BaseEstimator):
            def __init__(self, epsilon=1.0):
                self.epsilon = epsilon

            def fit(self, X):
                return self

            def sample(self, n):
                return np.tile([[0, 0, 0], [1e4, 80.0, 1.0]], (n // 2, 1))

        clf = fitted(sanitizer=Own(), epsilon=0.5)
        assert len(clf.sanitized_) == 1000
        assert "on the unlabelled rows: Own" in repr(clf.privacy_)

    @pytest.mark.parametrize(
        ("method", "message"),
        [
            (lambda self, n: np.zeros((n, 2)), "in the same columns"),
            (lambda self, n: np.full((n, 3), np.nan), "in the same columns"),
            (lambda self, n: np.zeros((0, 3)), "in the same columns"),
        ],
    )
    def test_bad_samples(self, monkeypatch, method, message):
        monkeypatch.setattr(QuantileSanitizer, "sample", method)
        with pytest.raises(ValueError, match=message):
            fitted()

    def test_one_that_spends_more(self):
        class Spends(QuantileSanitizer):
            def fit(self, X, y=None):
                self.privacy_ = QuantileSanitizer(epsilon=2 * self.epsilon).fit(X).privacy_

        with pytest.raises(ValueError, match="must not spend more"):
            fitted(sanitizer=Spends())

    def test_one_without_epsilon(self):
        class NoBudget(QuantileSanitizer):
            def __init__(self):
                pass

        with pytest.raises(ValueError, match="parameter 'epsilon'"):
            fitted(sanitizer=NoBudget())


class TestFewUnlabelledRows:
    @pytest.mark.parametrize(("n", "few"), [(0, "No"), (5, "Too few")])
    @pytest.mark.parametrize(("bounds", "where"), [(None, "standard-normal"), (WIDE, "the given")])
    def test_the_reference_stands_in(self, n, few, bounds, where):
        marks = np.where(np.arange(1000 + n) < 1000, TRUTH[: 1000 + n], "-1")
        with pytest.warns(NoPublicDataWarning, match=f"{few} unlabelled.*{where}") as caught:
            clf = fitted(X=X[: 1000 + n], y=marks, bounds=bounds)
        assert caught[0].filename.endswith("test_generic_learner.py")
        np.testing.assert_array_equal(clf.sanitized_, reference_sample(3, bounds))
        spent = {m.epsilon for m in clf.privacy_.mechanisms if "on the unlabelled rows" in m.name}
        assert spent == ({0.0} if n else set())

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_the_cover_does_not_look_at_labelled_rows(self):
        sizes = {fitted(X=scale * X[:500], y=TRUTH[:500]).cover_size_ for scale in (0.001, 1, 1000)}
        assert len(sizes) == 1


class TestLabels:
    def test_mask_and_mark_are_the_same_thing(self):
        mask = np.arange(N) < LABELLED
        masked = GenericLearnerClassifier(random_state=0).fit(X, TRUTH, is_labelled=mask)
        assert str(masked.hypothesis_) == str(fitted().hypothesis_)
        assert masked.privacy_ == fitted().privacy_

    def test_ambiguous_labels(self):
        labels = np.where(TRUTH == "sick", 1, -1)
        with pytest.warns(NoPublicDataWarning), pytest.warns(AmbiguousLabelWarning) as caught:
            clf = GenericLearnerClassifier(random_state=0).fit(X, labels)
        assert clf.classes_.tolist() == [-1, 1]
        assert {warning.filename for warning in caught} == {__file__}

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
    @pytest.mark.filterwarnings("error")
    def test_cross_validation_with_the_mask(self):
        mask = np.arange(N) % 3 == 0
        scores = cross_val_score(
            GenericLearnerClassifier(random_state=0), X, TRUTH, cv=3, params={"is_labelled": mask}
        )
        assert scores.mean() > 0.9

    def test_one_class(self):
        clf = fitted(y=np.where(np.arange(N) < 10, "sick", "-1"), classes=["sick"])
        assert set(clf.predict(X)) == {"sick"}


def credit_table(seed, n=20_000, n_features=20):
    """Amounts, ages, counts and flags; few of them tell who defaults."""
    generator = np.random.default_rng(seed)
    latent = generator.normal(size=(n, n_features))
    latent[:, 1:] = 0.8 * latent[:, 1:] + 0.6 * latent[:, :1]
    risk = np.where(latent[:, 2] > 1, 0.6 + 0.2 * (latent[:, 6] > 0), 0.11)
    labels = (generator.random(n) < risk).astype(int)
    kinds = [
        lambda z: 3 * z + 10,
        lambda z: np.exp(1.5 * z) * 1000,
        lambda z: np.round(np.clip(2 * z, 0, None)),
        lambda z: np.round(40 + 12 * z),
        lambda z: (z > 1).astype(float),
    ]
    columns = [kinds[column % 5](latent[:, column]) for column in range(n_features)]
    return np.column_stack(columns), labels


def test_near_exact_quantiles_when_bounds_are_a_hundred_times_too_wide():
    accuracy = {"exact": [], "grid": [], "wide": [], "none": []}
    for seed in range(3):
        rows, labels = credit_table(seed)
        test, marked, rest = rows[:5000], slice(5000, 6000), rows[6000:]
        low, high = rows.min(axis=0), rows.max(axis=0)
        bounds = np.column_stack([51 * low - 50 * high, 51 * high - 50 * low])
        marks = np.append(labels[marked], np.full(len(rest), -1))
        for name, limits in (("wide", bounds), ("none", None)):
            clf = GenericLearnerClassifier(bounds=limits, classes=[0, 1], random_state=seed)
            clf.fit(rows[5000:], marks)
            accuracy[name].append(clf.score(test, labels[:5000]))
        for name, points in (("exact", rest[:1000]), ("grid", reference_sample(20, bounds))):
            cover = DecisionTrees().build_cover(public_sample(points), alpha=0.05, beta=0.05)
            search = RuleSearch(
                cover=cover,
                tabulate=lambda cover, m=marked, r=rows, y=labels: tabulate(cover, r[m], y[m]),
                ledger=Ledger(1, random_state=seed),
                scored=1000,
            )
            drawn = search_cover(search, beta=0.05)
            accuracy[name].append((drawn.hypothesis.predict(test) == labels[:5000]).mean())
    mean = {name: np.mean(values) for name, values in accuracy.items()}
    assert mean["wide"] > mean["exact"] - 0.01
    assert mean["none"] > mean["exact"] - 0.01
    assert mean["wide"] > mean["grid"] + 0.02
