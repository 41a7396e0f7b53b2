"""Scores of a regressor: R² and errors of clipped outcomes, from noisy sums of powers."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from skpublicdp import PrivacyBudget, SemiPrivateBoostingRegressor
from skpublicdp.accounting import Gaussian
from skpublicdp.data import open_rows
from skpublicdp.metrics import private_scores
from tests.contracts.test_guard import LoudNumber, LoudText
from tests.helpers import FALSE_ALARM
from tests.internals.metrics import (
    POWERS,
    SUM_RANGES,
    SUM_SENSITIVITY,
    SUM_UNITS,
    NoisySums,
    ResidualCounter,
    _parts,
    _sampling_variance,
    release_residual_sums,
    residual_interval,
    residual_value,
    scaled_rows,
)
from tests.internals.privacy import Ledger
from tests.kit import Recorder
from tests.metrics.test_coverage import Quick
from tests.metrics.test_metrics import Scored, numbers_of, silently

BOUNDS = (-2.0, 6.0)
METRICS = ("r2", "rmse", "mae")


class Foretold:
    """The first feature is the prediction."""

    def predict(self, X):
        return np.asarray(X)[:, 0]


def outcomes_of(predicted, rng):
    return predicted + rng.normal(size=len(predicted))


class TestWithoutNoise:
    rng = np.random.default_rng(0)
    X = rng.normal(2, 2.5, size=(800, 1))
    y = outcomes_of(X[:, 0], rng)
    scores = silently(Foretold(), X, y, outcome_bounds=BOUNDS)

    def test_metrics_of_clipped_outcomes(self):
        clipped, predicted = np.clip(self.y, *BOUNDS), np.clip(self.X[:, 0], *BOUNDS)
        assert (clipped != self.y).mean() > 0.05
        assert self.scores.metrics_ == METRICS
        assert self.scores.outcome_bounds_ == BOUNDS
        assert self.scores.r2 == pytest.approx(r2_score(clipped, predicted), abs=1e-5)
        expected = root_mean_squared_error(clipped, predicted)
        assert self.scores.rmse == pytest.approx(expected, abs=1e-5)
        assert self.scores.mae == pytest.approx(mean_absolute_error(clipped, predicted), abs=1e-5)

    def test_a_model_that_is_worse_than_the_mean(self):
        scores = silently(Foretold(), -self.X, self.y, outcome_bounds=BOUNDS)
        clipped, predicted = np.clip(self.y, *BOUNDS), np.clip(-self.X[:, 0], *BOUNDS)
        assert scores.r2 == pytest.approx(r2_score(clipped, predicted), abs=1e-5)
        assert scores.r2 < -1
        low, high = scores.interval("r2")
        assert low < scores.r2 < high < 0

    def test_units(self):
        """Errors are in the units of the outcome, and R² has none."""
        other = silently(Foretold(), 10 * self.X + 7, 10 * self.y + 7, outcome_bounds=(-13, 67))
        assert other.r2 == pytest.approx(self.scores.r2, abs=1e-6)
        for name in ("rmse", "mae"):
            assert getattr(other, name) == pytest.approx(10 * getattr(self.scores, name), rel=1e-4)
            ends = np.array(self.scores.interval(name))
            assert other.interval(name) == pytest.approx(10 * ends, rel=1e-4)

    @pytest.mark.parametrize("metric", METRICS)
    def test_the_sampling_variance_is_that_of_rows(self, metric):
        """The sum of squares of each row's part of A - θ B, from the sums alone."""
        residuals, positions = scaled_rows(self.y, self.X[:, 0], BOUNDS)
        sums = self.scores._sums
        numerator, denominator = _parts(metric, sums)
        ratio = sums.total(numerator) / sums.total(denominator)
        error = residuals if metric == "mae" else residuals**2
        deviation = error + (positions - positions.mean()) ** 2 if metric == "r2" else 1.0
        expected = ((error - ratio * deviation) ** 2).sum()
        found = _sampling_variance(numerator - ratio * denominator, without_noise(sums))
        assert found == pytest.approx(expected, rel=1e-4)


def without_noise(sums):
    variances = np.zeros_like(sums.variances)
    return NoisySums(sums.sums, variances, sums.bounds, sums.event, sums.design_effect)


def interval_by_search(metric, sums, failure):
    """All values of a ratio that are not refuted, for Gaussian noise."""
    numerator, denominator = _parts(metric, sums)
    total, whole = sums.total(numerator), sums.total(denominator)
    difference = numerator - np.clip(total / whole, 0, 1) * denominator
    sampling = _sampling_variance(difference, sums)
    ratios = np.linspace(0, 1, 200_001)
    weights = numerator[:, :, None] - ratios * denominator[:, :, None]
    variance = (weights**2 * sums.variances[:, :, None]).sum((0, 1)) + sampling
    kept = ratios[(total - ratios * whole) ** 2 <= norm.isf(failure / 2) ** 2 * variance]
    return kept[0], kept[-1]


def test_intervals_are_all_ratios_that_are_not_refuted():
    rng = np.random.default_rng(1)
    X = rng.normal(2, 1.5, size=(3000, 1))
    settings = {"outcome_bounds": BOUNDS, "delta": 1e-6, "epsilon": 3.0, "random_state": 0}
    scores = private_scores(Foretold(), X, outcomes_of(X[:, 0], rng), **settings)
    assert isinstance(scores._sums.event, Gaussian)
    for metric in METRICS:
        low, high = interval_by_search(metric, scores._sums, 0.01)
        expected = {
            "r2": lambda ratio: 1 - ratio / (1 - ratio),
            "rmse": lambda ratio: 8 * ratio**0.5,
            "mae": lambda ratio: 8 * ratio,
        }[metric]
        ends = sorted([expected(low), expected(high)])
        assert residual_interval(metric, scores._sums, 0.01) == pytest.approx(ends, abs=1e-3)


def test_the_noise_of_sums():
    """Weights of the noise are found by moving one released number at a time."""
    X, y = np.linspace(-1, 4, 9)[:, None], np.linspace(0, 3, 9)
    settings = {"outcome_bounds": BOUNDS, "random_state": 0}
    with Recorder() as recorder:
        base = private_scores(Foretold(), X, y, **settings)._sums
    (call,) = recorder.calls
    u, v = np.random.default_rng(2).normal(size=(2, 5, 5))
    moves = []
    for cell in range(len(POWERS)):
        outcome = call.outcome.copy()
        outcome[cell] += 1
        with Recorder([outcome]):
            moved = private_scores(Foretold(), X, y, **settings)._sums
        moves.append([moved.total(w) - base.total(w) for w in (u, v)])
    moves = np.array(moves)
    variance = 0.5 / np.sinh(0.5 / float(call.spread)) ** 2
    assert base.covariance(u, v) == pytest.approx(variance * moves[:, 0] @ moves[:, 1])
    expected = 3 * variance**2 * (moves[:, 0] ** 4).sum()
    assert base.fourth_cumulant(u) == pytest.approx(expected)


class TestSensitivity:
    ENDS = np.array([-9.0, -2.0, -1.3, 2.0, 3.7, 6.0, 99.0, np.inf, -np.inf, np.nan])

    def test_of_each_sum(self):
        """Every summand is in a range of the stated width, which the ends of the bounds attain."""
        counter = ResidualCounter(Foretold(), BOUNDS)
        summands = np.array(
            [
                counter.count(np.array([[predicted]]), np.array([outcome]), 1)
                for predicted, outcome in itertools.product(self.ENDS, self.ENDS)
            ]
        )
        width = summands.max(0) - summands.min(0)
        assert (width <= SUM_RANGES).all()
        assert (width == SUM_RANGES).all()

    def test_of_all_sums(self):
        """No two rows of a grid differ by more than the price, and some by nearly as much."""
        counter = ResidualCounter(Foretold(), (0, 1))
        ends = np.linspace(0, 1, 21)
        pairs = np.array(list(itertools.product(ends, ends)))
        rows = np.array([counter.count(row[:1, None], row[1:], 1) for row in pairs])
        changes = np.abs(rows[:, None] - rows)
        assert SUM_SENSITIVITY.absolute - 9 <= changes.sum(-1).max() <= SUM_SENSITIVITY.absolute
        assert (changes**2).sum(-1).max() <= SUM_SENSITIVITY.squared == (SUM_RANGES**2).sum()

    def test_one_row_changes_no_sum_of_others(self):
        """Rows are read one by one: sums of rows are sums of their summands."""
        rng = np.random.default_rng(3)
        X, y = rng.choice(self.ENDS, size=(2, 200))
        counter = ResidualCounter(Foretold(), BOUNDS)
        apart = sum(counter.count(X[i : i + 1, None], y[i : i + 1], 1) for i in range(200))
        np.testing.assert_array_equal(counter.count(X[:, None], y, 200), apart)


class TestRows:
    X = np.array([[1.0], [2.0], [3.0], [2.0]])
    y = (1.0, 3.0, 3.0, 2.0)

    def scores(self, y, X=X, **settings):
        return silently(Foretold(), X, y, outcome_bounds=(0, 4), **settings)

    def test_a_missing_outcome_is_as_wrong_as_can_be(self):
        for missing in (None, np.nan, pd.NA, "unknown", (1.0,)):
            assert self.scores([*self.y[:3], missing]).mae == pytest.approx((0 + 1 + 0 + 4) / 4)
        predicted = np.array([[1.0], [2.0], [3.0], [np.nan]])
        assert self.scores(self.y, predicted).mae == pytest.approx((0 + 1 + 0 + 4) / 4)

    def test_hidden_outcomes_are_missing(self):
        y = np.ma.MaskedArray(self.y, [False, False, False, True])
        assert self.scores(y).mae == pytest.approx(1.25)

    @pytest.mark.parametrize("kind", ["number", "text", "none"])
    def test_no_outcome_is_heard(self, kind):
        odd = {"number": LoudNumber(7), "text": LoudText("SECRET"), "none": None}[kind]
        y = np.array(self.y, dtype=object)
        settings = {"outcome_bounds": (0, 4), "random_state": 0}
        with Recorder() as recorder:
            first = private_scores(Foretold(), self.X, y, **settings)
        y[2] = odd
        with Recorder(recorder.outcomes):
            second = private_scores(Foretold(), self.X, y, **settings)
        assert pickle.dumps(first) == pickle.dumps(second)

    def test_chunks_give_what_rows_in_memory_give(self):
        pa = pytest.importorskip("pyarrow")
        rng = np.random.default_rng(4)
        x = rng.normal(2, 2, size=300)
        y, persons = outcomes_of(x, rng), np.arange(300) // 3
        rows = open_rows(pa.table({"x": x, "y": y, "who": persons}).to_batches(max_chunksize=70))

        class OfTables(Foretold):
            def predict(self, X):
                return np.asarray(X["x"])

        streamed = (OfTables(), rows.drop("y", "who"), rows["y"])
        one = silently(*streamed, outcome_bounds=(0, 4))
        assert numbers_of(one) == numbers_of(self.scores(y, x[:, None]))
        settings = {"max_rows_per_group": 2, "random_state": 0}
        one = silently(*streamed, outcome_bounds=(0, 4), groups=rows["who"], **settings)
        other = self.scores(y, x[:, None], groups=persons, **settings)
        assert numbers_of(one) == numbers_of(other)
        assert one.n_rows_ == 200

    def test_persons_widen_what_rows_say(self):
        rng = np.random.default_rng(5)
        x = np.repeat(rng.normal(2, 1, size=600), 3)
        y, persons = x + np.repeat(rng.normal(size=600), 3) / 2, np.arange(1800) // 3
        low, high = self.scores(y, x[:, None], epsilon=1000.0).interval("rmse")
        settings = {"groups": persons, "max_rows_per_group": 3}
        wide = self.scores(y, x[:, None], epsilon=3000.0, **settings).interval("rmse")
        assert wide[1] - wide[0] == pytest.approx(3**0.5 * (high - low), rel=0.1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"outcome_bounds": (1, 1)}, "outcome_bounds must"),
        ({"outcome_bounds": (0, np.inf)}, "outcome_bounds must"),
        ({"outcome_bounds": 3}, "outcome_bounds must"),
        ({"outcome_bounds": None}, "pass outcome_bounds"),
        ({"classes": [0, 1]}, "classes applies"),
        ({"pos_label": 1}, "pos_label applies"),
        ({"threshold": 0.5}, "threshold applies"),
        ({"epsilon": 1e-30}, "to be drawn"),
        ({"y": [1.0]}, "one entry per row"),
    ],
)
def test_sentences(settings, sentence):
    rows = {"X": np.zeros((3, 1)), "y": [0.0, 1.0, 2.0], "outcome_bounds": (0, 2)}
    budget = PrivacyBudget(10.0, for_tests=True)
    with pytest.raises(ValueError, match=sentence):
        private_scores(Foretold(), **rows | settings, budget=budget)
    assert budget.ledger == []


def test_what_a_release_does_not_have():
    scores = silently(Foretold(), np.zeros((3, 1)), [0, 1, 2], outcome_bounds=(0, 2))
    assert (len(scores.classes_), scores.pos_label_, len(scores.thresholds_)) == (0, None, 0)
    for name in ("accuracy", "roc_auc", "confusion_matrix", "brier"):
        with pytest.raises(AttributeError, match=f"{name} .* are r2, rmse"):
            getattr(scores, name)
        with pytest.raises(ValueError, match="metric"):
            scores.interval(name)
    labelled = silently(Scored(), np.zeros((3, 1)), ["no"] * 3)
    for name in METRICS:
        with pytest.raises(AttributeError, match=f"{name} was not"):
            getattr(labelled, name)


def test_bounds_of_the_estimator():
    rng = np.random.default_rng(6)
    X = rng.normal(2, 1, size=(300, 1))
    y = outcomes_of(X[:, 0], rng)
    reg = SemiPrivateBoostingRegressor(outcome_bounds=(-1, 5), random_state=0)
    reg = reg.fit(X, y, X_public=rng.normal(2, 1, size=(30, 1)))
    assert silently(reg, X, y).outcome_bounds_ == (-1.0, 5.0)
    assert silently(reg, X, y, outcome_bounds=(0, 3)).outcome_bounds_ == (0.0, 3.0)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("rows", ["one", "constant", "perfect", "many"])
def test_there_are_always_numbers(rows, epsilon, delta):
    X = {
        "one": [[1.0]],
        "constant": np.ones((40, 1)),
        "perfect": np.linspace(0, 4, 40)[:, None],
        "many": np.random.default_rng(7).normal(2, 1, size=(2000, 1)),
    }[rows]
    y = np.asarray(X)[:, 0] + (rows == "many")
    for seed in range(5):
        settings = {"epsilon": epsilon, "delta": delta, "random_state": seed}
        scores = private_scores(Foretold(), X, y, outcome_bounds=(0, 4), **settings)
        for name, most in (("r2", 1), ("rmse", 4), ("mae", 4)):
            low, high = scores.interval(name)
            assert low <= getattr(scores, name) <= high <= most
            assert name == "r2" or low >= 0
        assert repr(scores).startswith(f"PrivateScores of {len(X)} rows")
        if rows == "one":
            assert scores.interval("r2")[0] == -np.inf


def test_failure_probabilities_add_up():
    scores = silently(Foretold(), np.zeros((3, 1)), [0, 1, 2], outcome_bounds=(0, 2))
    assert sum(scores._failure(name, 0.95, None) for name in METRICS) == pytest.approx(0.05)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_release_is_one_entry(delta):
    budget = PrivacyBudget(1.0, delta, for_tests=True)
    X = np.linspace(0, 4, 50)[:, None]
    settings = {"epsilon": 0.4, "delta": delta, "outcome_bounds": (0, 4), "budget": budget}
    scores = private_scores(Foretold(), X, X[:, 0], **settings)
    numbers_of(scores)
    (entry,) = budget.ledger
    assert (entry.who, entry.n_rows, scores.privacy_.entry) == ("private_scores", 50, 1)
    assert len(scores.privacy_.mechanisms) == 1


WORLDS = {
    "normal": lambda f, e: (0.5 + 0.15 * f, 0.1 * e),
    "narrow": lambda f, e: (0.3 + 0.03 * f, 0.03 * e),
    "useless": lambda f, e: (np.full(len(f), 0.5), 0.2 * e),
    "skewed": lambda f, e: (
        0.05 * np.exp(0.7 * f), 0.05 * np.exp(0.7 * f) * (np.exp(0.4 * e - 0.08) - 1)
    ),
    "ends": lambda f, e: (norm.cdf(3 * f), 0.3 * norm.cdf(3 * f) * norm.sf(3 * f) * e),
    "two outcomes": lambda f, e: (norm.cdf(f), (norm.cdf(f) > norm.cdf(e)) - norm.cdf(f)),
}  # fmt: skip
"""Predictions and errors from independent normal variables; outcomes are clipped to [0, 1]."""


def drawn_rows(world, n, rng):
    predicted, errors = WORLDS[world](*rng.normal(size=(2, n)))
    return scaled_rows(predicted + errors, predicted, (0, 1))


def check_coverage(world, n, epsilon, delta=0.0, repeats=1000):
    """Intervals at level 0.95 hold in 94 of 100 test sets at least, up to false alarms."""
    rng = np.random.default_rng(n)
    residuals, positions = drawn_rows(world, 2_000_000, rng)
    truths = {
        "r2": 1 - (residuals**2).mean() / positions.var(),
        "rmse": (residuals**2).mean() ** 0.5,
        "mae": residuals.mean(),
    }
    ledger = Ledger(Fraction(str(epsilon)), Fraction(str(delta)), 0, None, who="test")
    ledger.add_noise = Quick(rng).add_noise
    held = dict.fromkeys(METRICS, 0)
    for _ in range(repeats):
        residuals, positions = drawn_rows(world, n, rng)
        summands = residuals[:, None] ** POWERS[:, 0] * positions[:, None] ** POWERS[:, 1]
        exact = np.rint(summands * SUM_UNITS).astype(np.int64).sum(0)
        sums = release_residual_sums(exact, n, (0.0, 1.0), ledger, 1.0)
        for name, truth in truths.items():
            low, high = residual_interval(name, sums, 0.05)
            value = residual_value(name, sums)
            held[name] += min(low, value) <= truth <= max(high, value)
    for name, covered in held.items():
        assert covered >= binom.ppf(FALSE_ALARM, repeats, 0.94), (name, covered / repeats)


@pytest.mark.once
@pytest.mark.parametrize(
    ("world", "n", "epsilon"), [("normal", 1000, 1.0), ("two outcomes", 200, 10.0)]
)
def test_coverage(world, n, epsilon):
    check_coverage(world, n, epsilon, repeats=400)


SCALES = [
    *itertools.product((200, 2000, 20_000), (0.1, 1.0, 10.0, 100.0), (0.0,)),
    *itertools.product((2000, 20_000), (0.2, 1.0), (1e-6,)),
]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("n", "epsilon", "delta"), SCALES)
@pytest.mark.parametrize("world", WORLDS)
def test_coverage_at_every_scale(world, n, epsilon, delta):
    check_coverage(world, n, epsilon, delta)
