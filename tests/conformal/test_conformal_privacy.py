"""Prediction sets: privacy over all neighbours, and coverage over all data sets of small cases."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp import ConformalClassifier, ConformalRegressor
from skpublicdp.data import open_rows
from tests.internals.conformal import (
    LabelScoreCounter,
    ResidualScoreCounter,
    half_width_thresholds,
    max_shortfall,
    min_excess,
    plan_quantile,
    probability_thresholds,
    rank_errors,
    score_quantile,
)
from tests.kit import Recorder, enumerate_runs, index_by_release, worst_ratio

EPSILON = Fraction(3)
NAN = float("nan")


class Scored:
    """Its only feature is the probability of "yes"."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0.5).astype(int)]


class ScoredColumn(Scored):
    """Its score is a column of a table of arrow."""

    def predict_proba(self, X):
        return super().predict_proba(np.array(X["x"].to_pylist(), dtype=float)[:, None])


class FirstFeature:
    """Its only feature is the predicted outcome."""

    def predict(self, X):
        return X[:, 0]


SCORED, FIRST_FEATURE = Scored(), FirstFeature()  # a repr has their addresses


def classifier(**settings):
    return ConformalClassifier(SCORED, coverage=0.05, **{"epsilon": EPSILON, **settings})


def regressor(**settings):
    settings = {"epsilon": EPSILON, "outcome_bounds": (0, 1), **settings}
    return ConformalRegressor(FIRST_FEATURE, coverage=0.05, **settings)


SUBJECTS = {
    "labels": (classifier, list(itertools.product((0.1, 0.6, NAN), ("no", "yes", None)))),
    "outcomes": (regressor, list(itertools.product((0.1, 0.9, NAN), (0.0, 1.0, 7.0, None)))),
}


@pytest.fixture
def four_thresholds(monkeypatch):
    monkeypatch.setattr(score_quantile, "MIN_THRESHOLDS", 4)
    monkeypatch.setattr(score_quantile, "MAX_THRESHOLDS", 4)


def arrays(rows):
    targets = np.empty(len(rows), dtype=object)
    targets[:] = [target for _, target in rows]
    return np.array([[feature] for feature, _ in rows]), targets


def compositions(n, n_bins):
    """Return all counts of n rows in bins."""
    for cuts in itertools.combinations(range(n + n_bins - 1), n_bins - 1):
        yield np.diff([-1, *cuts, n + n_bins - 1]) - 1


@pytest.mark.parametrize(("n", "n_bins"), [(1, 2), (3, 3), (5, 4)])
def test_a_replaced_row_changes_each_error_by_at_most_one(n, n_bins):
    largest = 0
    for counts in compositions(n, n_bins):
        for rank in range(1, n + 1):
            errors = rank_errors(counts, rank)
            ranked_bin = np.repeat(np.arange(n_bins), counts)[rank - 1]
            assert np.flatnonzero(errors == 0).tolist() == [ranked_bin]
            for source, target in itertools.product(np.flatnonzero(counts), range(n_bins)):
                neighbour = counts.copy()
                neighbour[source] -= 1
                neighbour[target] += 1
                largest = max(largest, np.abs(rank_errors(neighbour, rank) - errors).max())
    assert largest == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.usefixtures("four_thresholds")
def test_exact_privacy_over_all_neighbours(name):
    make, kinds = SUBJECTS[name]

    def runs(chosen):
        X, y = arrays([kinds[k] for k in chosen])
        return index_by_release(enumerate_runs(lambda: make(random_state=0).fit(X, y)))

    n = 3
    data_sets = itertools.combinations_with_replacement(range(len(kinds)), n)
    runs_of = {chosen: runs(chosen) for chosen in data_sets}
    worst = 0
    for chosen, known in runs_of.items():
        assert len(known) == 4
        for kind in range(len(kinds)):
            neighbour = tuple(sorted((*chosen[1:], kind)))
            worst = max(worst, worst_ratio(known, runs_of[neighbour], EPSILON))
    assert math.exp(-EPSILON / 2) < worst <= 1


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.usefixtures("four_thresholds")
def test_nothing_else_leaves(name):
    """With the threshold dictated, whatever can be seen of a fit is the same for all data."""
    make, kinds = SUBJECTS[name]

    def seen(rows):
        fitted = make(random_state=0).fit(*arrays(rows))
        return pickle.dumps((fitted, vars(fitted), repr(fitted)))

    with Recorder() as recorder:
        expected = seen([kinds[0]] * 3)
    assert [call.kind for call in recorder.calls] == ["draw"]
    for rows in itertools.combinations_with_replacement(kinds, 3):
        with Recorder(recorder.outcomes):
            assert seen(rows) == expected


def miss_probability(counts, prior, epsilon, rank):
    """Return the exact probability that a random one of the rows is not covered by the others."""
    misses = 0.0
    for row_bin in np.flatnonzero(counts):
        others = counts.copy()
        others[row_bin] -= 1
        admitted = np.cumsum(others)
        below = np.maximum(rank - admitted, 0)
        above = np.maximum(np.concatenate([[0], admitted[:-1]]) + 1 - rank, 0)
        weights = prior * np.exp(-float(epsilon) / 2 * (below + above))
        misses += counts[row_bin] * weights[:row_bin].sum() / weights.sum()
    return misses / counts.sum()


@pytest.mark.parametrize("power", [0, 1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1), Fraction(5)])
def test_the_coverage_is_proved_for_all_data_sets(power, epsilon):
    smallest_gap = np.inf
    for n, n_bins in ((6, 3), (14, 3), (7, 4), (5, 5)):
        prior = np.arange(1, n_bins + 1) ** power
        for rank in range(1, n + 1):
            shortfall = float(max_shortfall(prior, epsilon, n, rank))
            proved = (rank - shortfall) / (n + 1)
            worst = max(
                miss_probability(counts, prior, epsilon, rank)
                for counts in compositions(n + 1, n_bins)
            )
            assert 1 - worst >= proved - 1e-12
            smallest_gap = min(smallest_gap, (n + 1) * (1 - worst - proved))
    assert smallest_gap < 1  # row


def test_the_bound_of_split_conformal_prediction_fails():
    """Without a shortfall, the coverage of rank r is at least r / (n + 1)."""
    n, rank, epsilon, prior = 14, 13, Fraction(1, 2), np.ones(5, dtype=int)
    worst = max(miss_probability(counts, prior, epsilon, rank) for counts in compositions(n + 1, 5))
    assert (
        n + 1 - rank + 1 < (n + 1) * worst < n + 1 - rank + max_shortfall(prior, epsilon, n, rank)
    )


@pytest.mark.parametrize("q", [0.2, 0.7, 0.97])
@pytest.mark.parametrize("v", [0.0, 0.8, 5.0])
@pytest.mark.parametrize("max_rows", [1, 4, 9])
def test_the_least_excess_is_that_of_all_sequences(q, v, max_rows):
    sums = []
    for members in itertools.product([False, True], repeat=max_rows):
        y = [*np.flatnonzero(members), max_rows]
        terms = [q ** (y[t] + 1) * (v + q * y[t + 1]) for t in range(len(y) - 1)]
        sums.append(v + q * y[0] + sum(terms))
    np.testing.assert_allclose(min_excess(v, q, max_rows), min(sums))


@pytest.mark.parametrize("epsilon", ["0.05", "0.3", "1", "8"])
@pytest.mark.parametrize("coverage", ["0.5", "0.9", "0.99"])
def test_plans(epsilon, coverage):
    """The rank is the lowest that is proved, and too few rows have none."""
    epsilon, coverage = Fraction(epsilon), Fraction(coverage)
    plans = {n: plan_quantile(n, epsilon, coverage) for n in (1, 20, 400, 3000, 10**6)}
    assert plans[1] is None
    for n, plan in plans.items():
        if plan is not None:
            assert (np.diff(plan.prior) > 0).all()
            assert coverage <= plan.coverage < coverage + Fraction(1, n)
            assert coverage * (n + 1) < plan.rank <= n


ODD = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-300, 5e-324, 1e16, -1e16, 1e308, np.inf, -np.inf, NAN]


def test_the_bin_of_an_outcome_is_its_first_interval():
    """Bisection finds the intervals of `predict_interval`, in spite of rounding."""
    rng = np.random.default_rng(0)
    predicted = np.concatenate([np.repeat(ODD, len(ODD)), 1e6 + rng.random(300)])
    y = np.concatenate([np.tile(ODD, len(ODD)), predicted[len(ODD) ** 2 :] + rng.normal(size=300)])
    half_widths = half_width_thresholds(200, 2.0)
    counter = ResidualScoreCounter(FirstFeature(), half_widths)
    total = 0
    for prediction, outcome in zip(predicted, y, strict=True):
        with np.errstate(all="ignore"):
            low, high = prediction - half_widths[:-1], prediction + half_widths[:-1]
        first = np.flatnonzero((low <= outcome) & (outcome <= high)).tolist()
        counts = counter.count(np.array([[prediction]]), [outcome], 1)
        assert np.flatnonzero(counts).tolist() == (first or [199])[:1]
        total += counts
    np.testing.assert_array_equal(counter.count(predicted[:, None], y, len(y)), total)


def test_the_bin_of_a_label_is_its_first_set():
    thresholds = probability_thresholds(200)
    counter = LabelScoreCounter(Scored(), ["no", "yes"], thresholds)
    scores = np.array([0.0, 1.0, 0.5, 1e-300, NAN, -1.0, *thresholds, *np.linspace(0, 1, 301)])
    total = 0
    for score, label in itertools.product(scores, ["no", "yes", "other", None, 1]):
        own = {"no": 1 - score, "yes": score}.get(label, NAN)
        first = np.flatnonzero(own >= thresholds[:-1]).tolist()
        counts = counter.count(np.array([[score]]), [label], 1)
        assert np.flatnonzero(counts).tolist() == (first or [199])[:1]
        total += counts
    rows = [*itertools.product(scores, ["no", "yes", "other", None, 1])]
    X, y = arrays(rows)
    np.testing.assert_array_equal(counter.count(X, y, len(rows)), total)


@pytest.mark.parametrize("n", [200, 777, 1000])
def test_thresholds_are_ordered(n):
    probabilities, half_widths = probability_thresholds(n), half_width_thresholds(n, 3.0)
    assert len(probabilities) == len(half_widths) == n
    assert probabilities[-1] == 0 < probabilities[-2] < probabilities[0] < 1
    assert (np.diff(probabilities) < 0).all()
    assert (np.diff(half_widths) > 0).all()
    assert (half_widths[-2], half_widths[-1]) == (3.0, np.inf)


def drawn_errors(fit):
    """Return the exact errors of the only draw of a fit."""
    with Recorder() as recorder:
        fit()
    (call,) = recorder.calls
    return call.exact_input.options.errors


@pytest.mark.usefixtures("keep_first_rows")
def test_persons_and_streams():
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    scores, labels = rng.random(60), rng.choice(["no", "yes"], 60)
    persons = np.arange(60) // 3
    settings = {"coverage": 0.2, "epsilon": 3, "max_rows_per_group": 2, "random_state": 0}

    def in_memory():
        sets = ConformalClassifier(Scored(), **settings)
        return sets.fit(scores[:, None], labels, groups=persons)

    def streamed():
        table = pa.table({"x": scores, "y": labels, "who": persons})
        rows = open_rows(table.to_batches(max_chunksize=7))
        sets = ConformalClassifier(ScoredColumn(), **settings)
        return sets.fit(rows.drop("y", "who"), rows["y"], groups=rows["who"])

    np.testing.assert_array_equal(drawn_errors(in_memory), drawn_errors(streamed))
    receipt = in_memory().privacy_
    assert receipt.unit == "replace one person, up to 2 private rows"
    assert (receipt.n_private, receipt.n_omitted) == (40, 20)
