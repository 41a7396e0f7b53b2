"""PAPQueryRelease: answers of all methods, receipts, invalid input, and scikit-learn."""

import datetime
import pickle
import re
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.accounting import (
    Draw,
    Gaussian,
    Steps,
    exact_fraction,
    gaussian_epsilon,
    gaussian_mu_squared,
    plan_delta,
)
from skpublicdp.exceptions import (
    BinnedNumberWarning,
    CoverSizeError,
    LargeDeltaWarning,
    NoPublicDataWarning,
    TooFewRowsWarning,
    UncoveredBoundsWarning,
)
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.internals.data import streaming
from tests.internals.query_release import geometric, mechanisms, pmw_release, run_pmw

RNG = np.random.default_rng(0)
N, M = 4000, 150
LINE, LINE_PUBLIC = RNG.normal(size=(N, 1)), RNG.normal(size=(M, 1))
PLANE, PLANE_PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(M, 2))


def people(n, rng):
    age = rng.integers(18, 90, size=n)
    job = np.where(rng.random(n) < age / 100, "retired", rng.choice(["farm", "shop"], size=n))
    return pd.DataFrame({"age": age, "job": job, "sex": rng.choice(["f", "m"], size=n)})


FRAME, FRAME_PUBLIC = people(N, RNG), people(M, RNG)
METHODS = ("auto", "pmw", "public")
few_rows = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
no_public = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
pytestmark = few_rows


@pytest.fixture(autouse=True)
def _few_halfspaces(monkeypatch):
    """Use fewer halfspaces, in a tenth of the time."""
    monkeypatch.setattr(geometric, "MAX_HALFSPACES", 120)


def fitted(queries=None, X=LINE, X_public=LINE_PUBLIC, is_public=None, **settings):
    settings = {"random_state": 0, **settings}
    return PAPQueryRelease(queries, **settings).fit(X, X_public=X_public, is_public=is_public)


def weighted_rows_of(release):
    """Return the weighted rows, on which any query can be evaluated."""
    return release._released.rows


def custom_function(rows):
    return np.column_stack([rows["age"] > 65, rows["job"] == "retired"])


# query class, rows, public rows, an array of queries
CASES = {
    "thresholds": (ThresholdQueries(), LINE, LINE_PUBLIC, [[-1.0], [0.3]]),
    "intervals": (IntervalQueries(), LINE, LINE_PUBLIC, [[-1.0, 0.5], [0, np.inf]]),
    "rectangles": (RectangleQueries(), PLANE, PLANE_PUBLIC, [[[-1, 1], [-np.inf, 0.2]]]),
    "halfspaces": (HalfspaceQueries(), PLANE, PLANE_PUBLIC, [[1.0, 1.0, 0.5], [1, -2, -1]]),
    "stumps": (StumpQueries(), PLANE, PLANE_PUBLIC, [[1, 0.4], [0, -1]]),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [None, 0])
def test_answers(case, method, delta):
    queries, X, X_public, Q = CASES[case]
    release = fitted(queries, X, X_public, method=method, delta=delta)
    answers = release.answer(Q)
    truth = queries.holds(Q, X).mean(axis=1)
    assert answers.shape == (len(Q),)
    assert ((answers >= 0) & (answers <= 1)).all()
    tolerance = 0.5 if method == "pmw" else 0.12
    assert np.abs(answers - truth).max() < tolerance
    np.testing.assert_array_equal(release.transform(Q), answers[:, None])
    table = weighted_rows_of(release)
    assert table.weights.sum() == pytest.approx(1)
    assert len(table.weights) == len(table.rows)
    assert (table.weights >= 0).all()
    assert release.privacy_.delta == (0 if delta == 0 or method == "public" else 1 / N**2)


@pytest.mark.parametrize("method", METHODS)
def test_mixed_columns(method):
    release = fitted(MarginalQueries(2, bins=4), FRAME, FRAME_PUBLIC, method=method)
    Q = pd.DataFrame({"age": [20, None], "job": [None, "retired"], "sex": ["f", "m"]})
    answers = release.answer(Q)
    np.testing.assert_array_equal(
        release.answer([[20, None, "f"], [None, "retired", "m"]]), answers
    )
    truth = ((FRAME["job"] == "retired") & (FRAME["sex"] == "m")).mean()
    assert abs(answers[1] - truth) < (0.3 if method == "pmw" else 0.08)
    sample = release.sample(50)
    assert isinstance(sample, pd.DataFrame)
    assert list(sample.columns) == ["age", "job", "sex"]
    assert set(sample["job"].dropna()) <= {"retired", "farm", "shop", "(other)"}
    assert sample["age"].dtype == FRAME["age"].dtype


def test_stumps_of_mixed_columns():
    release = fitted(StumpQueries(), FRAME, FRAME_PUBLIC)
    answers = release.answer([["age", 50], ["job", "retired"], [2, "f"]])
    truth = [
        (FRAME["age"] <= 50).mean(),
        (FRAME["job"] == "retired").mean(),
        (FRAME["sex"] == "f").mean(),
    ]
    np.testing.assert_allclose(answers, truth, atol=0.05)
    with pytest.raises(ValueError, match="category 'x'"):
        release.answer([["sex", "x"]])


@pytest.mark.parametrize("method", ["auto", "public"])
def test_custom_queries(method):
    release = fitted(CustomQueries(custom_function), FRAME, FRAME_PUBLIC, method=method)
    truth = custom_function(FRAME).mean(axis=0)
    np.testing.assert_allclose(release.answer([[0], [1]]), truth, atol=0.09)


def test_default_query_class():
    assert isinstance(fitted().queries_, ThresholdQueries)
    assert repr(fitted(X=PLANE, X_public=PLANE_PUBLIC).queries_) == repr(MarginalQueries())
    one = fitted(X=FRAME[["sex"]], X_public=FRAME_PUBLIC[["sex"]])
    assert one.answer([["f"]]) == pytest.approx((FRAME["sex"] == "f").mean(), abs=0.05)


class TestOneColumn:
    @pytest.mark.parametrize("method", METHODS)
    def test_cdf_quantile_and_histogram(self, method):
        release = fitted(method=method)
        grid = np.linspace(-4, 4, 50)
        curve = release.cdf(grid)
        assert (np.diff(curve) >= 0).all()
        np.testing.assert_allclose(release.answer(grid[:, None]), curve, atol=1e-12)
        assert np.abs(curve - (grid >= LINE).mean(axis=0)).max() < (0.4 if method == "pmw" else 0.1)
        quantiles = release.quantile([0.1, 0.5, 0.9])
        assert (np.diff(quantiles) > 0).all()
        assert (release.cdf(quantiles) >= np.array([0.1, 0.5, 0.9]) - 1e-9).all()
        edges = [np.nextafter(-1, -2), 0, 2]  # the first bin has both of its edges
        with pytest.warns(UncoveredBoundsWarning):
            shares = release.histogram([-1, 0, 2])
        np.testing.assert_allclose(shares, np.diff(release.cdf(edges)))
        assert release.cdf(0.0).shape == ()

    @pytest.mark.parametrize("queries", [ThresholdQueries(), MarginalQueries()])
    @pytest.mark.parametrize("method", METHODS)
    def test_histogram_bins_contain_the_lowest_edge(self, queries, method):
        """As in ``pandas.cut(..., include_lowest=True)``. Three rows in five are at this edge."""
        if method == "pmw" and isinstance(queries, MarginalQueries):
            pytest.skip("one column has one cover")
        generator = np.random.default_rng(0)
        visits, few = generator.poisson(0.5, (8000, 1)), generator.poisson(0.5, (300, 1))
        release = fitted(queries, visits, few, method=method, bounds=(0, 20))
        edges = [0, 1, 2, 20]
        counts = pd.cut(visits[:, 0], edges, include_lowest=True).value_counts()
        found = release.histogram(edges)
        assert found.sum() == pytest.approx(1)
        np.testing.assert_allclose(found, counts / 8000, atol=0.1)
        with pytest.warns(UncoveredBoundsWarning, match="from 0 to 2,"):
            inside = release.histogram([0, 1, 2])
        np.testing.assert_array_equal(inside, found[:2])

    def test_values_beyond_the_bounds(self):
        release = fitted(bounds=(-3, 3))
        assert release.cdf([-99.0, 99.0]).tolist() == [0.0, 1.0]
        low, high = release.quantile([0.0, 1.0])
        assert -3 <= low <= high <= 3

    def test_sample(self):
        release = fitted()
        sample = release.sample(3000)
        assert sample.shape == (3000, 1)
        assert np.abs((sample <= 0.5).mean() - release.cdf(0.5)) < 0.05
        np.testing.assert_array_equal(sample, release.sample(3000))
        assert fitted(random_state=None).sample(2).shape == (2, 1)

    @pytest.mark.parametrize("public", [LINE_PUBLIC, LINE_PUBLIC + 1])
    def test_intervals_contain_answers_and_truth(self, public):
        release = fitted(X_public=public)
        Q = np.linspace(-2, 2, 21)[:, None]
        intervals = release.interval(Q)
        assert intervals.shape == (21, 2)
        low, high = intervals.T
        answers = release.answer(Q)
        assert (low <= answers).all()
        assert (answers <= high).all()
        truth = (Q[:, 0] >= LINE).mean(axis=0)
        assert ((low <= truth) & (truth <= high)).mean() > 0.8
        assert (high - low).max() < 0.3

    def test_classes_and_methods_without_intervals(self):
        for release, Q in (
            (fitted(RectangleQueries(), PLANE, PLANE_PUBLIC), [[[0, 1], [0, 1]]]),
            (fitted(method="public"), [[0.0]]),
            (fitted(method="pmw"), [[0.0]]),
        ):
            with pytest.raises(ValueError, match="Intervals"):
                release.interval(Q)

    def test_invalid_arguments(self):
        release = fitted()
        with pytest.raises(ValueError, match="p must lie"):
            release.quantile([0.5, 1.1])
        with pytest.raises(ValueError, match="increasing"):
            release.histogram([1, 0])
        with pytest.raises(ValueError, match="single numeric"):
            fitted(X=PLANE, X_public=PLANE_PUBLIC).cdf([0.0])
        with pytest.raises(ValueError, match="non-negative integer"):
            release.sample(-1)


class TestReceipts:
    @pytest.mark.parametrize("method", METHODS)
    def test_receipt_contents(self, method):
        release = fitted(RectangleQueries(), PLANE, PLANE_PUBLIC, method=method, epsilon=0.5)
        receipt = release.privacy_
        assert receipt.epsilon == (0 if method == "public" else 0.5)
        assert (receipt.n_private, receipt.n_public) == (N, M)
        assert bool(receipt.mechanisms) == (method != "public")
        assert all(0 < used.epsilon <= 0.5 + 1e-12 for used in receipt.mechanisms)
        assert not receipt.secure_randomness
        assert fitted(random_state=None).privacy_.secure_randomness

    @pytest.mark.parametrize("method", ["auto", "pmw"])
    def test_pure_budgets_add_up(self, method):
        """With δ = 0 the ε of all mechanisms add up."""
        for case in ("thresholds", "stumps"):
            receipt = fitted(*CASES[case][:3], method=method, delta=0, epsilon=0.5).privacy_
            assert sum(used.epsilon for used in receipt.mechanisms) <= 0.5 + 1e-9
            assert sum(used.epsilon for used in receipt.mechanisms) > 0.4
            assert receipt.delta == 0

    @pytest.mark.parametrize("case", ["thresholds", "stumps", "rectangles", "halfspaces"])
    def test_gaussian_noise_is_rounded_and_adds_up(self, case):
        receipt = fitted(*CASES[case][:3], epsilon=0.5).privacy_
        events = [used.event for used in receipt.mechanisms]
        assert sum(event.mu_squared for event in events) == receipt.event.mu_squared
        assert receipt.event == Gaussian(gaussian_mu_squared(0.5, 1 / N**2))
        for used in receipt.mechanisms:
            assert used.name
            assert isinstance(used.event, Gaussian)
            assert used.epsilon == gaussian_epsilon(used.event.mu_squared, used.delta)

    def test_pmw_rounds_add_up(self):
        receipt = fitted(method="pmw").privacy_
        assert {type(used.event) for used in receipt.mechanisms} == {Draw}
        assert receipt.event == Steps(used.event for used in receipt.mechanisms)
        assert 0.98 / N**2 < plan_delta(receipt.event, 1) <= 1 / N**2

    @pytest.mark.filterwarnings("ignore:(The public rows contain|Only 1 public row)")
    @pytest.mark.parametrize("n", [1, 2, 3, 999, 1001, 3571])
    def test_delta_by_default(self, n):
        """δ is 1/n², but at most 1e-6: for two rows, 1/4 would permit publishing one of them."""
        receipt = fitted(X=np.arange(float(n))[:, None], X_public=[[0.0]] * 4).privacy_
        delta = exact_fraction(receipt.delta)
        assert 0.999 / n**2 <= delta or receipt.delta == 1e-6
        assert n * n * delta <= 1
        assert delta <= exact_fraction(1e-6)

    def test_delta_by_default_counts_private_rows(self):
        X = np.concatenate([LINE, LINE_PUBLIC])
        receipt = fitted(X=X, X_public=None, is_public=np.arange(len(X)) >= N).privacy_
        assert receipt.delta == 1 / N**2

    def test_large_delta_warning(self):
        with pytest.warns(LargeDeltaWarning, match=r"delta = 0\.01") as caught:
            fitted(X=LINE[:50], delta=0.01)
        assert caught[0].filename == __file__


class TestPMW:
    def test_warning_without_a_guarantee(self):
        with pytest.warns(TooFewRowsWarning, match="more than 30") as caught:
            release = fitted(X_public=LINE_PUBLIC[:30], method="pmw", alpha=0.2, epsilon=0.05)
        assert (
            release.guarantee_ == 1
        )  # a bound of a fraction is at most 1; its parts add up to 2.5
        assert caught[0].filename == __file__

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("alpha", [None, 0.3])
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_number_of_rows_in_the_warning_suffices(self, alpha, delta):
        rng = np.random.default_rng(0)
        X, X_public = rng.normal(size=(10**6, 1)), rng.normal(size=(1500, 1))
        settings = {"method": "pmw", "alpha": alpha, "delta": delta, "epsilon": 4.0}
        with pytest.warns(TooFewRowsWarning) as caught:
            fitted(ThresholdQueries(), X[:100], X_public, **settings)
        message = str(caught[0].message)
        match = re.search(
            r"With 1500 public rows, an error of \S+ requires (\d+) private rows", message
        )
        needed = int(match[1])
        release = fitted(ThresholdQueries(), X[:needed], X_public, **settings)
        assert 0.9 * (alpha or 0.1) < release.guarantee_ <= (alpha or 0.1)

    @pytest.mark.filterwarnings("error")
    def test_no_warning_with_a_guarantee(self):
        rng = np.random.default_rng(1)
        X, X_public = rng.normal(size=(50_000, 1)), rng.normal(size=(400, 1))
        release = fitted(None, X, X_public, method="pmw")
        assert release.guarantee_ < 1
        grid = np.linspace(-3, 3, 40)
        assert np.abs(release.cdf(grid) - (grid >= X).mean(axis=0)).max() < release.guarantee_

    def test_guarantee_is_none_without_a_proof(self):
        with pytest.warns(NoPublicDataWarning), pytest.warns(TooFewRowsWarning):
            alone = fitted(X_public=None, method="pmw", bounds=(0, 9))
        assert alone.guarantee_ is None
        assert "no public rows" in alone.guarantee_reason_
        for method in ("auto", "public"):
            release = fitted(method=method)
            assert release.guarantee_ is None
            assert 'only method="pmw"' in release.guarantee_reason_
        release = fitted(method="pmw")
        parts = re.findall(r"at most ([\d.]+) .* ([\d.]+) for sampling and ([\d.]+)",
                           release.guarantee_reason_)  # fmt: skip
        assert sum(map(float, parts[0])) == pytest.approx(release.guarantee_, abs=2e-3)

    def test_answers_are_constant_between_public_values(self):
        """Thresholds between the same two public values have the same answer."""
        release = fitted(method="pmw")
        low, high = np.sort(LINE_PUBLIC[:, 0])[70:72]
        answers = release.answer([[low + 1e-9], [high - 1e-9]])
        assert answers[0] == answers[1]

    def test_guarantee_with_few_distinct_values(self):
        """Ages have few distinct values, so that the cover is exact."""
        rng = np.random.default_rng(3)
        X, many = (rng.integers(18, 90, size=(size, 1)) for size in (200_000, 10_000))
        for m, expected in ((500, 0.08), (10_000, 0.06)):
            release = fitted(ThresholdQueries(), X, many[:m], method="pmw")
            assert release.guarantee_ == pytest.approx(expected, abs=0.006)
            ages = np.arange(18, 90)
            errors = np.abs(release.cdf(ages) - (ages >= X).mean(axis=0))
            assert errors.max() < 0.01

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("continuous", [False, True])
    @pytest.mark.parametrize(
        "queries",
        [
            *(ThresholdQueries(), IntervalQueries(), StumpQueries()),
            *(RectangleQueries(), HalfspaceQueries(), CustomQueries(lambda X: X > 1)),
        ],
    )
    def test_guarantees_fall_with_private_and_public_rows(self, queries, continuous, monkeypatch):
        # the guarantee depends on the plan of the rounds, and not on the draws
        monkeypatch.setattr(
            pmw_release,
            "run_pmw",
            lambda counts, n, arrangement, plan, ledger: run_pmw(
                counts, n, arrangement, replace(plan, rounds=1), ledger
            ),
        )
        rng = np.random.default_rng(4)
        width = 1 if isinstance(queries, ThresholdQueries | IntervalQueries) else 2
        draw = rng.normal if continuous else partial(rng.integers, 4)
        X, X_public = draw(size=(20_000, width)), draw(size=(8000, width))
        settings = {"method": "pmw", "alpha": 0.8}  # fewer rounds, and the same number for all
        if isinstance(queries, HalfspaceQueries):  # their cover has the largest part of the error
            settings |= {"alpha": 0.3, "epsilon": 30.0}
        few = fitted(queries, X[:2000], X_public[:1500], **settings).guarantee_
        private = fitted(queries, X, X_public[:1500], **settings).guarantee_
        both = fitted(queries, X, X_public, **settings).guarantee_
        assert few > private + (0.05 if few < 1 else 0.02)
        assert private > both + 0.005
        assert both < 0.9

    def test_guarantee_holds(self):
        """Over random rows from a known population."""
        ends = np.arange(-0.5, 6)
        low, high = np.triu_indices(len(ends), k=1)
        Q, truth = np.column_stack([ends[low], ends[high]]), (high - low) / 6
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X, X_public = rng.integers(6, size=(20_000, 1)), rng.integers(6, size=(2000, 1))
            release = fitted(IntervalQueries(), X, X_public, method="pmw", random_state=seed)
            assert np.abs(release.answer(Q) - truth).max() < release.guarantee_ < 0.3

    def test_bits(self):
        """The class of section 4: stumps on {0,1}^p, with 2^p cells."""
        rng = np.random.default_rng(101)
        for p, n, tolerance in ((8, 200_000, 0.03), (100, 20_000, 0.15)):
            shares = rng.random(p)
            X, X_public = rng.random((n, p)) < shares, rng.random((1000, p)) < shares
            release = fitted(StumpQueries(), 1.0 * X, 1.0 * X_public, method="pmw", epsilon=1)
            Q = np.column_stack([np.arange(p), np.zeros(p)])
            assert np.abs(release.answer(Q) - 1 + X.mean(axis=0)).max() < tolerance
            assert np.abs(release.sample(3000).mean(axis=0) - X.mean(axis=0)).max() < tolerance
            assert release.guarantee_ < 1

    def test_cover_size_error(self):
        rng = np.random.default_rng(0)
        X, X_public = rng.normal(size=(50, 11)), rng.normal(size=(30, 11))
        with pytest.raises(CoverSizeError, match="number of cells"):
            fitted(RectangleQueries(), X, X_public, method="pmw")

    def test_warning_if_cells_are_the_limit(self):
        rng = np.random.default_rng(0)
        X, X_public = rng.normal(size=(500, 4)), rng.normal(size=(300, 4))
        with pytest.warns(TooFewRowsWarning, match="too many cells"):
            fitted(RectangleQueries(), X, X_public, method="pmw", alpha=0.4)


class TestBadInput:
    def test_no_public_rows(self):
        with pytest.warns(NoPublicDataWarning, match="given bounds") as caught:
            release = fitted(X_public=None, bounds=(-4, 4))
        assert caught[0].filename == __file__
        assert abs(release.cdf(0.0) - (LINE <= 0).mean()) < 0.1
        assert release.privacy_.n_public == 0

    @no_public
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("case", ["intervals", "halfspaces", "stumps"])
    def test_no_public_rows_with_each_method(self, case, method):
        queries, X, _, Q = CASES[case]
        assert np.isfinite(fitted(queries, X, None, method=method).answer(Q)).all()

    def test_categories_come_from_public_rows(self):
        with pytest.raises(ValueError, match="column job"):
            fitted(X=FRAME, X_public=None)

    @pytest.mark.filterwarnings("ignore:(The public rows contain|Only 1 public row)")
    def test_single_private_row(self):
        for method in METHODS:
            for delta in (0, None):
                release = fitted(X=LINE[:1], method=method, delta=delta)
                assert 0 <= release.cdf(0.0) <= 1
                two = fitted(X=PLANE[:2], X_public=PLANE_PUBLIC[:1], method=method, delta=delta)
                assert np.isfinite(weighted_rows_of(two).weights).all()

    @pytest.mark.filterwarnings("ignore:(The public rows contain|Only 1 public row)")
    @pytest.mark.parametrize("method", METHODS)
    def test_constant_columns(self, method):
        constant = np.full((200, 1), 7.0)
        release = fitted(X=constant, X_public=constant[:20].copy(), method=method)
        assert release.quantile(0.5) == pytest.approx(7, abs=0.2)
        both = np.column_stack([LINE[:200], constant])
        fitted(X=both, X_public=both[:50].copy(), method=method)

    @pytest.mark.parametrize("method", METHODS)
    def test_unknown_categories_are_other(self, method):
        private = FRAME.assign(job=np.where(FRAME["sex"] == "f", "spy", FRAME["job"]))
        release = fitted(MarginalQueries(1), private, FRAME_PUBLIC, method=method)
        sample = release.sample(200)
        assert "spy" not in set(sample["job"])
        assert b"spy" not in pickle.dumps(release)
        answer = release.answer([[None, "(other)", None]])[0]
        if method == "auto":
            assert answer == pytest.approx((private["sex"] == "f").mean(), abs=0.1)

    def test_missing_values_are_a_category(self):
        is_missing = FRAME["sex"] == "f"
        private = FRAME.assign(job=FRAME["job"].where(~is_missing))
        release = fitted(MarginalQueries(1), private, FRAME_PUBLIC)
        assert release.answer([[None, "(missing)", None]])[0] == pytest.approx(
            is_missing.mean(), abs=0.1
        )

    @pytest.mark.parametrize(
        ("queries", "X", "public", "message"),
        [
            (ThresholdQueries(), PLANE, PLANE_PUBLIC, "X has 2"),
            (RectangleQueries(), FRAME, FRAME_PUBLIC, "column job"),
            (MarginalQueries(workload=[["age", "pay"]]), FRAME, FRAME_PUBLIC, "'pay'"),
            (MarginalQueries(k=0), FRAME, FRAME_PUBLIC, "'k' parameter"),
            (MarginalQueries(bins=2.5), FRAME, FRAME_PUBLIC, "'bins' parameter"),
            (MarginalQueries(workload=[]), FRAME, FRAME_PUBLIC, "workload must"),
            (MarginalQueries(workload=[[0, 0]]), FRAME, FRAME_PUBLIC, "distinct columns"),
            (None, PLANE, PLANE_PUBLIC[:, :1], "X_public must have"),
        ],
    )
    def test_queries_that_do_not_match_the_columns(self, queries, X, public, message):
        for method in METHODS:
            with pytest.raises(ValueError, match=message):
                fitted(queries, X, public, method=method)

    @pytest.mark.parametrize("case", CASES)
    def test_queries_of_invalid_shape(self, case):
        queries, X, X_public, _ = CASES[case]
        release = fitted(queries, X, X_public)
        numbers = [] if case == "thresholds" else [[0.5]]  # each number is a query
        for wrong in (*numbers, [[0.1, 0.2, 0.3, 0.4, 0.5]], [[["a"]]], "cdf"):
            with pytest.raises(ValueError, match=r"Queries|queries|features"):
                release.answer(wrong)


class TestStoredState:
    @pytest.mark.parametrize("method", METHODS)
    def test_workers_do_not_change_the_result(self, method, monkeypatch):
        monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 1000)
        rng = np.random.default_rng(0)
        X, X_public = rng.normal(size=(3500, 2)), rng.normal(size=(60, 2))
        for queries in (StumpQueries(), MarginalQueries(2, bins=5)):
            weights = [
                weighted_rows_of(fitted(queries, X, X_public, method=method, n_jobs=n_jobs)).weights
                for n_jobs in (None, 2)
            ]
            np.testing.assert_array_equal(*weights)

    def test_a_column_beyond_memory_has_the_same_release(self, monkeypatch):
        monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 1000)
        cases = (
            (ThresholdQueries(), LINE, LINE_PUBLIC, [[-1.0], [0.0], [2.0]]),
            (StumpQueries(), PLANE, PLANE_PUBLIC, [[0, 0.5], [1, -0.5]]),
        )
        sorted_once = [fitted(*case[:3]).interval(case[3]) for case in cases]
        monkeypatch.setattr(mechanisms, "MAX_SORTED_NUMBERS", N - 1)
        by_chunk = [fitted(*case[:3]).interval(case[3]) for case in cases]
        np.testing.assert_array_equal(np.concatenate(sorted_once), np.concatenate(by_chunk))

    def test_estimated_trust_with_shifted_public_rows(self):
        shifted = PLANE_PUBLIC + 1
        public = fitted(RectangleQueries(), PLANE, shifted, method="public")
        auto = fitted(RectangleQueries(), PLANE, shifted)
        Q = [[[-np.inf, 0.0], [-np.inf, np.inf]]]
        assert abs(auto.answer(Q)[0] - 0.5) < 0.1
        assert abs(public.answer(Q)[0] - 0.5) > 0.2
        assert auto.effective_public_size_ < M


class TestScikitLearn:
    def test_feature_names(self):
        release = fitted(None, FRAME, FRAME_PUBLIC)
        assert release.feature_names_in_.tolist() == ["age", "job", "sex"]
        with pytest.raises(ValueError, match="'work'"):
            release.answer(FRAME_PUBLIC.rename(columns={"job": "work"}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", BinnedNumberWarning)
            release.answer(FRAME_PUBLIC[["age", "sex"]])


class TestDatesAndLargeNumbers:
    DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(4000) % 1000, unit="D")
    ROWS = pd.DataFrame({"day": DAYS, "id": 2**60 + np.arange(4000) % 1000})
    PUBLIC = ROWS[::13].copy()

    @pytest.mark.parametrize("queries", [ThresholdQueries(), MarginalQueries(1)])
    @pytest.mark.parametrize("name", ["day", "id"])
    def test_one_column(self, queries, name):
        release = PAPQueryRelease(queries, random_state=0)
        release.fit(self.ROWS[[name]], X_public=self.PUBLIC[[name]])
        middle = self.ROWS[name].to_numpy()[499]
        assert release.cdf([middle])[0] == pytest.approx(0.5, abs=0.03)
        near = np.timedelta64(30, "D") if name == "day" else 30
        assert abs(release.quantile(0.5) - middle) <= near
        assert release.sample(5)[name].dtype.kind == self.ROWS[name].dtype.kind
        assert abs(np.asarray(release.mean(), middle.dtype) - middle) <= near

    @pytest.mark.parametrize(
        "when",
        [
            pytest.param("2021-05-14", id="text"),
            pytest.param(pd.Timestamp("2021-05-14"), id="pandas"),
            pytest.param(datetime.datetime(2021, 5, 14), id="datetime"),
            pytest.param(datetime.date(2021, 5, 14), id="date"),
            pytest.param(np.datetime64("2021-05-14"), id="numpy"),
        ],
    )
    def test_date_formats_of_queries(self, when):
        release = PAPQueryRelease(MarginalQueries(1, bins=4), random_state=0)
        release.fit(self.ROWS, X_public=self.PUBLIC)
        first = release.answer({"day": np.datetime64("2021-05-14T00:00:00", "us")})
        for asked in (
            {"day": when},
            [{"day": when}],
            pd.DataFrame({"day": [when]}),
            [[when, None]],
            np.array([[when, None]], dtype=object),
        ):
            np.testing.assert_array_equal(release.answer(asked), first)
        assert release.cdf(when, "day") == pytest.approx(0.5, abs=0.2)
        late = pd.Timestamp("2030-01-01")
        halves = release.histogram(pd.Series(["1900-01-01", when, late], dtype=object), "day")
        assert halves.sum() == pytest.approx(1)
        with pytest.warns(UncoveredBoundsWarning, match="to 2030-01-01"):
            release.histogram(pd.Series([when, late], dtype=object), "day")
        with pytest.raises(ValueError, match="Column day"):
            release.answer({"day": "soon"})


@pytest.mark.parametrize("Q", [{"age": 40}, [{"age": 40}], "forty"])
def test_queries_of_one_column_are_arrays(Q):
    rows = np.arange(18.0, 90.0)[:, None]
    release = PAPQueryRelease(random_state=0).fit(rows, X_public=rows[::5].copy())
    with pytest.raises(ValueError, match=r"\[\[40\]\]"):
        release.answer(Q)
    assert release.answer([[40]]).shape == (1,)
