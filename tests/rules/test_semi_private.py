"""SemiPrivateClassifier: what goes in, what comes out, and what must never come out."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp import SemiPrivateClassifier
from skpublicdp.exceptions import NoPublicDataWarning
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


def test_declared_classes():
    clf = fitted(classes=["well", "unknown", "sick"])
    assert clf.classes_.tolist() == ["sick", "unknown", "well"]
    assert "set of labels" not in repr(clf.privacy_)
    assert "set of labels" in repr(fitted().privacy_)


class TestOneRowDoesNotRecodeTheOthers:
    """A single odd label is an error or stays alone; it never changes how other labels are read."""

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
    @pytest.mark.filterwarnings("error")
    def test_no_warning_counts_private_labels(self):
        rows = RNG.normal(size=(40, 1))
        for distinct in (20, 21, 40):
            labels = np.arange(40) % distinct
            SemiPrivateClassifier(classes=range(40), random_state=0).fit(
                rows, labels, X_public=PUBLIC[:, :1]
            )


def test_multi_class():
    y = np.select([X[:, 0] > 0.5, X[:, 1] > 0], ["a", "b"], "c")
    clf = SemiPrivateClassifier(random_state=0).fit(X, y, X_public=PUBLIC)
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
