"""PPMHalfspaceClassifier: exact draws, privacy by status, weights, and what comes out."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skpublicdp import PPMHalfspaceClassifier
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.guarantees import excess_error
from skpublicdp.hypotheses import HalfspaceIntersections
from tests.helpers import assert_fits, assert_private, public_sample
from tests.internals.mechanisms import probabilities
from tests.internals.rules import cover_search
from tests.kit import Recorder

RNG = np.random.default_rng(0)
N = 2000
X = RNG.normal(size=(N, 2))
Y = np.where(X @ [1, 2] > 0.5, "positive", "negative")  # those who tested positive share
SHARED = Y == "positive"

few_rows = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
no_public = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")


FAST = PPMHalfspaceClassifier(private_label="negative", max_halfspaces=200, random_state=0)


def fitted(rows=X, y=Y, *, is_public=None, **parameters):
    return clone(FAST).set_params(**parameters).fit(rows, y, is_public=is_public)


def fitted_apart(rows, y, *, is_public, **parameters):
    """Fit with the public rows in arguments of their own."""
    rows, y = np.asarray(rows), np.asarray(y)
    return (
        clone(FAST)
        .set_params(**parameters)
        .fit(rows[~is_public], y[~is_public], X_public=rows[is_public], y_public=y[is_public])
    )


# Public rows are fixed; each private one is any point with any label its model allows.
POINTS = [(0.0, 0.0), (1.0, 0.0), (0.5, 0.5), (3.0, -1.0)]
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
ON_A_LINE = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
MODELS = {
    # public rows and labels, labels of private rows, class weights; 1 is the private label
    "label-determined": (CORNERS, [0, 0, 0], [1], None),
    "either status": (CORNERS, [0, 0, 1], [0, 1], None),
    "public rows of both labels": (CORNERS, [0, 1, 1], [1], None),
    "heavy public": (CORNERS, [0, 1, 0], [0, 1], {0: 5, 1: 1}),
    "heavy private": (CORNERS, [0, 1, 0], [0, 1], {0: 1, 1: 2}),
    "both heavy": (CORNERS, [0, 0, 0], [0, 1], {0: 2, 1: 3}),
    "balanced": (CORNERS, [0, 0, 1], [0, 1], "balanced"),
    "a proper hull": (ON_A_LINE, [0, 0, 0], [0, 1], None),
    "one public row": (ON_A_LINE[:1], [0], [0, 1], {0: 3, 1: 2}),
}


def every_data_set(model, n_private=2):
    """All data sets up to the order of the private rows, which come first."""
    public, labels, allowed, weight = MODELS[model]
    rows = list(itertools.product(POINTS, allowed))
    for chosen in itertools.combinations_with_replacement(rows, n_private):
        every_x = np.concatenate([[point for point, _ in chosen], public])
        every_y = np.array([label for _, label in chosen] + labels)
        yield chosen, every_x, every_y, np.arange(len(every_y)) >= n_private, weight


def weights_of(model):
    return {"heavy public": (1, 5), "heavy private": (2, 1), "both heavy": (3, 2)}.get(
        model, {"balanced": (3, 2), "one public row": (2, 3)}.get(model, (1, 1))
    )


@pytest.mark.one_in(2)
@few_rows
@pytest.mark.parametrize("fit", [fitted, fitted_apart])
@pytest.mark.parametrize("model", MODELS)
def test_exact_privacy_over_all_private_rows(model, fit):
    """For public rows and statuses as they are, any private row may be any other one."""
    outcomes, epsilon = {}, Fraction(7, 10)
    for chosen, rows, y, mask, weight in every_data_set(model):
        settings = {"private_label": 1, "class_weight": weight, "epsilon": float(epsilon)}
        with Recorder() as recorder:
            fit(rows, y, is_public=mask, **settings)
        (call,) = recorder.calls
        assert call.sensitivity == weights_of(model)[0]
        outcomes[chosen] = probabilities(
            call.exact_input, call.cost, call.sensitivity, precision=96
        )
        assert 1 - Fraction(1, 2**60) < sum(low for low, _ in outcomes[chosen].values()) <= 1
    for (one, other), of_data in outcomes.items():
        for neighbour, of_neighbour in outcomes.items():
            if one in neighbour or other in neighbour:
                assert_private(of_data, of_neighbour, epsilon)


@few_rows
@pytest.mark.parametrize("fit", [fitted, fitted_apart])
@pytest.mark.parametrize("model", MODELS)
def test_scores_weigh_rows_by_their_status(model, fit):
    """Every member is scored by what it predicts; a private row weighs the same with any label."""
    for_private, for_public = weights_of(model)
    public = MODELS[model][0]
    cover = HalfspaceIntersections().build_cover(public_sample(public), alpha=0.5, beta=0.05)
    rules = [cover.hypothesis(path) for path in range(cover.size)]
    for _, rows, y, mask, weight in list(every_data_set(model))[::5]:
        with Recorder() as recorder:
            fit(rows, y, is_public=mask, private_label=1, class_weight=weight)
        wrong = np.array([rule.predict(rows) != y for rule in rules])
        expected = wrong @ np.where(mask, for_public, for_private)
        np.testing.assert_array_equal(recorder.calls[0].exact_input.errors, expected)


@few_rows
def test_public_rows_without_labels_choose_halfspaces_and_are_not_scored():
    rows, y = np.array([[0.2, 0.2], [3.0, -1.0], [0.5, 0.5], [0.5, 0.4]]), [1, 1, 0, 0]
    cover = HalfspaceIntersections().build_cover(public_sample(CORNERS), alpha=0.5, beta=0.05)
    rules = [cover.hypothesis(path) for path in range(cover.size)]
    with Recorder() as recorder:
        clf = clone(FAST).set_params(private_label=1).fit(rows, y, X_public=CORNERS)
    expected = [(rule.predict(rows) != y).sum() for rule in rules]
    np.testing.assert_array_equal(recorder.calls[0].exact_input.errors, expected)
    assert (clf.privacy_.n_private, clf.privacy_.n_public) == (4, 3)


def test_no_label_publishes_a_row_where_public_rows_come_apart():
    """All of X is private then; a mask may still say otherwise."""
    apart = X[SHARED][:40].copy()
    clf = clone(FAST).fit(X, Y, X_public=apart)
    assert (clf.privacy_.n_private, clf.privacy_.n_public) == (N, 40)
    mask = np.arange(N) < 10
    both = clone(FAST).fit(X, Y, X_public=apart, y_public=["positive"] * 40, is_public=mask)
    assert (both.privacy_.n_private, both.privacy_.n_public) == (N - 10, 50)
    assert both.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"y_public": ["positive"]}, "without X_public"),
        ({"X_public": [[0.0, 1.0]], "y_public": ["positive"] * 2}, "label per row of X_p"),
        ({"X_public": [[0.0, 1.0]], "y_public": [1]}, "all numbers"),
        ({"X_public": [[0.0, 1.0]], "y_public": ["maybe"]}, "Only binary"),
        ({"X_public": [[0.0, 1.0, 2.0]]}, "X_public"),
        ({"X_public": X[:50]}, "shares memory with X"),
        ({"X_public": [[0.0, np.nan]]}, "X_public"),
    ],
)
def test_unusable_public_rows(settings, message):
    with pytest.raises(ValueError, match=message):
        clone(FAST).fit(X, Y, **settings)


@few_rows
@pytest.mark.parametrize(
    ("private_label", "n_fits"),
    [("a", 250), *(pytest.param(label, 700, marks=pytest.mark.slow) for label in "ab")],
)
def test_fits_draw_from_the_exact_distribution(private_label, n_fits):
    """From rows to predictions, against probabilities listed by hand on a line."""
    public, private = [[1.0], [2.0]], [[0.0], [1.5], [1.5], [2.0]]
    other = {"a": "b", "b": "a"}[private_label]
    rows, y = np.array(public + private), [other] * 2 + [private_label] * 4
    # inside the hull, which is the line: nothing, all, x >= 1, x <= 1, x >= 2, x <= 2
    wrong = 3 * np.array([2, 0, 0, 1, 1, 0]) + 1 * np.array([0, 4, 3, 1, 1, 4])
    shares = np.exp(-0.8 * wrong / 2) / np.exp(-0.8 * wrong / 2).sum()
    probes = np.array([[0.0], [1.0], [1.5], [2.0], [3.0]])
    inside = [
        np.zeros(5, dtype=bool),
        np.ones(5, dtype=bool),
        *(probes[:, 0] >= 1, probes[:, 0] <= 1, probes[:, 0] >= 2, probes[:, 0] <= 2),
    ]
    outcomes = {tuple(np.where(one, other, private_label)): 0 for one in inside}
    clf = PPMHalfspaceClassifier(
        epsilon=0.8, private_label=private_label, class_weight={other: 3, private_label: 1}
    )
    for seed in range(n_fits):
        clf.set_params(random_state=seed).fit(rows, y)
        outcomes[tuple(clf.predict(probes))] += 1
    assert_fits(list(outcomes.values()), shares)


@few_rows
def test_the_check_sees_a_sensitivity_that_is_too_small():
    """A private row of weight 2 that is drawn as if it weighed 1 spends twice the budget."""
    outcomes = []
    for label in (0, 1):
        rows = np.vstack([CORNERS, [[0.2, 0.2]]])
        mask = np.array([True, True, True, False])
        settings = {"private_label": 1, "class_weight": {0: 1, 1: 2}, "epsilon": 1.0}
        with Recorder() as recorder:
            fitted(rows, [0, 0, 1, label], is_public=mask, **settings)
        outcomes.append(probabilities(recorder.calls[0].exact_input, recorder.calls[0].cost, 1))
    with pytest.raises(AssertionError):
        assert_private(*outcomes, Fraction(1))


class TestRounds:
    """Draws on halfspaces around those drawn before share the budget."""

    @few_rows
    def test_the_draws_together_spend_the_budget(self):
        for epsilon, n_draws in [(0.01, 1), (1.0, 2), (3.0, 3), (8.0, 4)]:
            with Recorder() as recorder:
                clf = fitted(epsilon=epsilon, class_weight={"negative": 2})
            assert sum(call.cost for call in recorder.calls) == Fraction(str(epsilon))
            assert [call.sensitivity for call in recorder.calls] == [2] * n_draws
            spent = [mechanism.epsilon for mechanism in clf.privacy_.mechanisms]
            shares = n_draws * (n_draws + 1) / 2
            assert spent == pytest.approx([epsilon * t / shares for t in range(1, n_draws + 1)])

    def test_the_papers_pool_is_drawn_from_once(self):
        with Recorder() as recorder:
            fitted(X[:, :1], is_public=np.arange(N) < 30, pool="paper", epsilon=100.0)
            fitted(is_public=np.arange(N) < 9, epsilon=100.0)  # so few that all fit in
        assert [call.cost for call in recorder.calls] == [100, 100]

    def test_they_pay(self, monkeypatch):
        noisy = np.where(np.random.default_rng(2).random(N) < 0.1, Y[::-1], Y)
        three = fitted(y=noisy, epsilon=8.0, max_halfspaces=100)
        monkeypatch.setattr(cover_search, "n_rounds", lambda *_: 1)
        one = fitted(y=noisy, epsilon=8.0, max_halfspaces=100)
        assert three.score(X, noisy) > one.score(X, noisy) + 0.005

    @pytest.mark.one_in(2)
    @few_rows
    @pytest.mark.parametrize("weight", [None, {0: 1, 1: 2}])
    def test_exact_privacy_of_two_draws(self, weight, monkeypatch):
        """Of all pairs of outcomes, the first of which decides what the second is drawn from."""
        public = np.random.default_rng(0).normal(size=(9, 2)).round(2)
        places = [(0.0, 0.0), (0.5, -0.5)]
        private = list(itertools.product(places, (0, 1)))
        monkeypatch.setattr(cover_search, "n_rounds", lambda *_: 2)
        outcomes = {}
        for chosen in itertools.combinations_with_replacement(private, 2):
            rows = np.vstack([public, [place for place, _ in chosen]])
            y = np.array([0] * 9 + [label for _, label in chosen])
            outcomes[chosen] = {}
            for first in range(2, 9):  # singles and a pair
                settings = {"private_label": 1, "class_weight": weight, "epsilon": 0.9}
                with Recorder([first, 0]) as recorder:
                    fitted(rows, y, is_public=np.arange(11) < 9, max_halfspaces=6, **settings)
                before, after = (
                    probabilities(call.exact_input, call.cost, call.sensitivity, precision=96)
                    for call in recorder.calls
                )
                for path, (low, high) in after.items():
                    outcomes[chosen][first, path] = (
                        before[first][0] * low,
                        before[first][1] * high,
                    )
        for (one, other), of_data in outcomes.items():
            for neighbour, of_neighbour in outcomes.items():
                if one in neighbour or other in neighbour:
                    assert_private(of_data, of_neighbour, Fraction(9, 10))


class TestLearning:
    def test_realizable(self):
        fresh = np.random.default_rng(1).normal(size=(4000, 2))
        truth = np.where(fresh @ [1, 2] > 0.5, "positive", "negative")
        models = [fitted(random_state=seed, max_halfspaces=1000) for seed in range(3)]
        assert np.mean([1 - clf.score(fresh, truth) for clf in models]) <= 0.03

    @pytest.mark.parametrize(("d", "least"), [(1, 0.98), (3, 0.9), (5, 0.86)])
    def test_dimensions(self, d, least):
        rows = np.random.default_rng(d).normal(size=(N, d))
        y = (rows.sum(axis=1) < np.sqrt(d)).astype(int)  # 16% have label 0, which is public
        assert fitted(rows, y, private_label=1, max_halfspaces=800).score(rows, y) > least

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.UnprovedWarning")
    def test_the_papers_pool(self):
        rows = np.concatenate([X[~SHARED], X[SHARED][:30]])
        y = np.repeat([1, 0], [(~SHARED).sum(), 30])
        clf = fitted(rows, y, private_label=1, pool="paper", epsilon=2.0, class_weight="balanced")
        assert clf.score(X, ~SHARED) > 0.85

    @few_rows
    def test_a_public_weight_finds_the_rare(self):
        rare = ~SHARED | (np.arange(N) % 20 == 0)
        recall = {
            weight: (fitted(X[rare], Y[rare], class_weight=weight, epsilon=0.02).predict(X) == Y)
            for weight in (None, "balanced")
        }
        assert recall["balanced"][SHARED].mean() > recall[None][SHARED].mean() + 0.1

    def test_noise(self):
        noisy = np.where(np.random.default_rng(2).random(N) < 0.1, Y[::-1], Y)
        clf = fitted(y=noisy)
        best = (noisy == Y).mean()
        assert clf.score(X, noisy) > best - 0.06

    def test_statuses_that_merely_go_with_the_label(self):
        mask = SHARED ^ (np.random.default_rng(3).random(N) < 0.15)
        clf = fitted(is_public=mask)
        assert clf.score(X, Y) > 0.93
        assert clf.privacy_.n_public == mask.sum()

    def test_public_rows_of_both_labels(self):
        mask = SHARED | (np.random.default_rng(4).random(N) < 0.2)
        assert fitted(is_public=mask).score(X, Y) > 0.93


class TestWeights:
    def weighted(self, weight, **data):
        with Recorder() as recorder:
            clf = fitted(class_weight=weight, **data)
        return clf, recorder.calls[-1].sensitivity

    @pytest.mark.parametrize(
        ("weight", "expected"),
        [
            (None, (1, 1)),
            ({}, (1, 1)),
            ({"negative": 2}, (2, 1)),
            ({"positive": 17}, (1, 17)),
            ({"positive": 6, "negative": 4}, (2, 3)),
            ({"positive": 0.5, "negative": 0.25}, (1, 2)),
            ({"positive": np.int64(3), "negative": np.float32(1.5)}, (1, 2)),
            ({"positive": 2**30, "negative": 1}, (1, 2**30)),
            ({"positive": 1, "negative": 2**30}, (2**30, 1)),
        ],
    )
    def test_only_the_ratio_counts(self, weight, expected):
        clf, sensitivity = self.weighted(weight)
        private, public = expected
        assert sensitivity == private
        total = private * (~SHARED).sum() + public * SHARED.sum()
        last = clf.privacy_.mechanisms[-1].epsilon
        assert clf.certificate_.excess_error == pytest.approx(
            excess_error(clf.cover_size_, total, last, 0.05, sensitivity=private)
        )

    @pytest.mark.parametrize(
        ("n_public", "expected"),
        [(1000, (1, 1)), (300, (3, 17)), (1999, (1999, 1)), (1, (1, 1999))],
    )
    def test_balanced(self, n_public, expected):
        """Weights follow from the numbers of rows alone; 1700 / 300 is 17 / 3."""
        for y in (Y, np.roll(Y, 1)):
            mask = np.arange(N) < n_public
            clf, sensitivity = self.weighted("balanced", y=y, is_public=mask)
            assert sensitivity == expected[0]
            total = expected[0] * (N - n_public) + expected[1] * n_public
            last = clf.privacy_.mechanisms[-1].epsilon
            assert clf.certificate_.excess_error == pytest.approx(
                excess_error(clf.cover_size_, total, last, 0.05, sensitivity=expected[0])
            )

    @pytest.mark.parametrize(
        "weight",
        [
            {"positive": 0},
            {"positive": -1.0},
            {"positive": np.inf},
            {"positive": np.nan},
            {"positive": "2"},
            {"maybe": 2},
            {"positive": 2**31},
            {"positive": 1e-30},
        ],
    )
    def test_unusable(self, weight):
        with pytest.raises(ValueError, match=r"class.weight"):
            fitted(class_weight=weight)


class TestStatuses:
    @few_rows
    def test_everything_private(self):
        with pytest.warns(NoPublicDataWarning, match="private label") as caught:
            clf = fitted(is_public=np.zeros(N, dtype=bool))
        assert caught[0].filename == __file__
        assert set(clf.predict(X)) == {"negative"}
        assert clf.cover_size_ == 1
        assert clf.halfspaces_[0].shape == (0, 2)
        assert (clf.privacy_.n_private, clf.privacy_.n_public) == (N, 0)
        with pytest.warns(NoPublicDataWarning):
            fitted(class_weight="balanced", is_public=np.zeros(N, dtype=bool))

    def test_everything_public(self):
        for weight in (None, "balanced", {"negative": 2**20}):
            clf = fitted(is_public=np.ones(N, dtype=bool), class_weight=weight)
            assert clf.privacy_.n_private == 0
        assert fitted(is_public=np.ones(N, dtype=bool)).score(X, Y) > 0.93

    def test_a_mask_that_says_what_labels_say(self):
        assert str(fitted().hypothesis_) == str(fitted(is_public=SHARED).hypothesis_)
        nullable = pd.Series(SHARED, dtype="boolean")
        assert str(fitted().hypothesis_) == str(fitted(is_public=nullable).hypothesis_)
