"""SemiPrivateBoostingRegressor: what it learns, how sure it is, and what a row may tell."""

import json
import pickle
import warnings
from fractions import Fraction

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

from skpublicdp import PrivacyBudget, SemiPrivateBoostingRegressor
from skpublicdp.accounting import gaussian_mu_squared
from skpublicdp.exceptions import NoPublicDataWarning, UnknownCategoriesWarning
from skpublicdp.plotting import ShapeDisplay
from tests.boosting.test_privacy import compared
from tests.internals.boosting import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    POISSON,
    RESIDUAL_EDGES,
    SQUARED,
    OutcomeRange,
    residual_fractions,
    residual_quantiles,
)
from tests.internals.data import TARGET_LEVELS
from tests.kit import Recorder

matplotlib.use("Agg")

no_public = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
may_drift = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")


def rows(n, seed):
    """Rows of four numbers, their mean outcomes, and outcomes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    means = 100 + 3 * X[:, 0] + 2 * np.sin(2 * X[:, 1]) + (X[:, 2] > 0)
    return X, means, means + rng.normal(0, 2, n)


X, MEANS, Y = rows(5000, 0)
PUBLIC, _, PUBLIC_Y = rows(300, 1)
NEW, NEW_MEANS, NEW_Y = rows(4000, 2)
REG = SemiPrivateBoostingRegressor(random_state=0, outcome_bounds=(85, 115))


def fitted(X=X, y=Y, *, public=PUBLIC, y_public=None, is_public=None, groups=None, **parameters):
    reg = clone(REG).set_params(**parameters)
    return reg.fit(X, y, X_public=public, y_public=y_public, is_public=is_public, groups=groups)


def same(one, other):
    return pickle.dumps(vars(one)) == pickle.dumps(vars(other))


# What it learns


@pytest.mark.parametrize("delta", [0, 1e-6])
@may_drift
def test_more_budget_explains_more(delta):
    found = [
        fitted(epsilon=epsilon, delta=delta, random_state=1).score(NEW, NEW_Y)
        for epsilon in (0.1, 1, 10)
    ]
    assert found == sorted(found)
    best = 1 - 4 / NEW_Y.var()  # of one who knows the law
    assert found[1] > 0.8 * best
    assert found[2] > 0.9 * best


def test_tables_of_mixed_columns_with_missing_values():
    rng = np.random.default_rng(0)

    def people(n):
        frame = pd.DataFrame({"age": rng.normal(50, 10, n), "job": rng.choice(["a", "b"], n)})
        wage = 1000 + 20 * (frame["age"] - 50) + 400 * (frame["job"] == "a")
        frame.loc[rng.random(n) < 0.1, "age"] = np.nan
        return frame, wage + rng.normal(0, 100, n)

    X, y = people(4000)
    reg = fitted(X, y, public=people(250)[0], outcome_bounds=(0, 2000), epsilon=3)
    assert reg.score(*people(2000)) > 0.6
    assert reg.feature_names_in_.tolist() == ["age", "job"]
    job = dict(zip(reg.shapes_[1].cells, reg.shapes_[1].scores[0], strict=True))
    assert job["a"] - job["b"] == pytest.approx(400, abs=100)
    assert reg.intercept_ == pytest.approx(1200, abs=60)
    with pytest.warns(UnknownCategoriesWarning):
        assert np.isfinite(reg.predict(pd.DataFrame({"age": [np.nan], "job": ["c"]}))).all()
    assert "job (importance" in reg.explain()
    assert "log-odds" not in reg.explain()


def test_predictions_are_sums_of_bin_scores_in_units_of_the_outcome():
    reg = fitted(epsilon=10, method="moments")
    assert reg.trees_ == ()
    total = np.full(len(NEW), reg.intercept_)
    for shape, column in zip(reg.shapes_, NEW.T, strict=True):
        total += shape.scores[0][np.searchsorted(shape.cuts, column)]
    np.testing.assert_allclose(reg.predict(NEW), np.clip(total, 85, 115), rtol=1e-12)
    scaled = fitted(y=1e6 * Y, epsilon=10, method="moments", outcome_bounds=(85e6, 115e6))
    np.testing.assert_allclose(scaled.predict(NEW), 1e6 * reg.predict(NEW))
    np.testing.assert_allclose(scaled.interval(NEW), 1e6 * reg.interval(NEW))
    np.testing.assert_allclose(scaled.feature_importances_, 1e6 * reg.feature_importances_)


def test_trees_find_what_columns_do_together():
    def law(X):
        return 100 + 5 * np.sign(X[:, 0] * X[:, 1])

    reg = fitted(y=law(X), epsilon=8)
    assert (
        reg.score(NEW, law(NEW))
        > 0.8
        > 0.3
        > fitted(y=law(X), epsilon=8, method="moments").score(NEW, law(NEW))
    )
    assert "predict higher" in reg.trees_[0].rule
    assert np.abs(reg.trees_[0].scores).max() > 2
    assert reg.trees_[0].rule.splitlines()[0] in reg.explain()


# How sure it is


def test_newton_boosting_fits_a_line():
    """The first fit has steps of four years; were they kept, means would be off by .36."""
    rng = np.random.default_rng(0)
    years = np.repeat(np.arange(18, 66), 3)
    new = np.column_stack([years, np.tile(np.arange(3), 48)]).astype(float)
    wrong, held = [], []
    for seed in range(4):
        given = np.column_stack([rng.integers(18, 66, 5300), rng.integers(0, 3, 5300)]).astype(
            float
        )
        y = 12 + 0.3 * (given[:, 0] - 18) + 6 * (given[:, 1] == 1) + rng.normal(0, 3, 5300)
        reg = SemiPrivateBoostingRegressor(epsilon=10, outcome_bounds=(0, 50), random_state=seed)
        reg.fit(given[300:], y[300:], X_public=given[:300])
        means = 12 + 0.3 * (new[:, 0] - 18) + 6 * (new[:, 1] == 1)
        low, high = reg.interval(new, of="mean").T
        wrong.append(np.mean((reg.predict(new) - means) ** 2))
        held.append(np.mean((low <= means) & (means <= high)))
    assert np.sqrt(np.mean(wrong)) < 0.3
    assert np.mean(held) > 0.8


@pytest.mark.one_in(2)
@may_drift
@pytest.mark.parametrize(
    ("n", "epsilon", "most"),
    # with little budget what rows say is taken for less sure than it is
    [(5000, 1, 0.995), (5000, 10, 0.95), (50_000, 1, 0.95), (50_000, 10, 0.95)],
)
def test_intervals_cover(n, epsilon, most):
    found = []
    for seed in range(3):
        X, _, y = rows(n, 10 + seed)
        reg = fitted(X, y, epsilon=epsilon, random_state=seed)
        ends, of_mean = reg.interval(NEW), reg.interval(NEW, of="mean")
        assert (of_mean[:, 0] <= reg.predict(NEW)).all()
        assert (reg.predict(NEW) <= of_mean[:, 1]).all()
        found.append(
            [
                np.mean((ends[:, 0] <= NEW_Y) & (ends[:, 1] >= NEW_Y)),
                np.mean((of_mean[:, 0] <= NEW_MEANS) & (of_mean[:, 1] >= NEW_MEANS)),
            ]
        )
    assert (np.mean(found, axis=0) > 0.8).all()
    assert (np.mean(found, axis=0) < most).all()


def test_levels_are_nested_and_bounds_hold():
    reg = fitted(epsilon=10)
    half, most = reg.interval(NEW, level=0.5), reg.interval(NEW, level=0.99)
    assert (most[:, 0] <= half[:, 0]).all()
    assert (half[:, 1] <= most[:, 1]).all()
    inside = np.mean((half[:, 0] <= NEW_Y) & (half[:, 1] >= NEW_Y))
    assert inside == pytest.approx(0.5, abs=0.06)
    ends = fitted(epsilon=0.02).interval(NEW, level=0.999)
    assert (ends.min(), ends.max()) >= (85, 0)
    assert ends.max() <= 115
    for wrong in ({"level": 1.0}, {"level": 90}, {"of": "median"}):
        with pytest.raises(ValueError, match="parameter of"):
            reg.interval(NEW, **wrong)


def test_residual_fractions_are_a_projection():
    counts = np.diff(10_000 * norm.cdf(RESIDUAL_EDGES / 0.1))
    shares = residual_fractions(counts, 10_000)
    levels = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(
        residual_quantiles(shares, levels), 0.1 * norm.ppf(levels), atol=2e-3
    )
    noisy = counts + np.random.default_rng(0).normal(0, 50, len(counts))
    shares = residual_fractions(noisy, 10_000)
    assert shares.min() == 0
    assert shares.sum() == pytest.approx(1)
    # nothing else with these properties is nearer
    slope = shares - noisy / 10_000
    np.testing.assert_allclose(slope[shares > 0], slope[shares > 0][0])
    assert (slope[shares == 0] >= slope[shares > 0][0] - 1e-12).all()


# What goes in


def test_outcomes_are_clipped():
    reg = fitted(outcome_bounds=(99, 101), epsilon=10)
    same_ends = fitted(y=np.clip(Y, 99, 101), outcome_bounds=(99, 101), epsilon=10)
    assert same(reg.set_params(random_state=0), same_ends)
    assert reg.predict(NEW).min() >= 99
    assert reg.predict(NEW).max() <= 101
    wild = fitted(y=np.where(Y > 101, 1e300, Y), outcome_bounds=(99, 101), epsilon=10)
    np.testing.assert_array_equal(wild.predict(NEW), reg.predict(NEW))


def test_default_bounds_from_public_outcomes():
    reg = fitted(outcome_bounds=None, y_public=PUBLIC_Y)
    assert reg.outcome_bounds_ == tuple(np.quantile(PUBLIC_Y, [0.005, 0.995]))
    few = np.where(np.arange(300) < 50, PUBLIC_Y, np.nan)
    reg = fitted(outcome_bounds=None, y_public=few)
    low, high = PUBLIC_Y[:50].min(), PUBLIC_Y[:50].max()
    assert reg.outcome_bounds_ == pytest.approx((1.1 * low - 0.1 * high, 1.1 * high - 0.1 * low))
    assert reg.privacy_.n_public == 300
    mask = np.arange(5300) >= 5000
    whole = np.concatenate([X, PUBLIC])
    masked = fitted(whole, np.append(Y, few), public=None, is_public=mask, outcome_bounds=None)
    np.testing.assert_array_equal(masked.predict(NEW), reg.predict(NEW))


def test_public_rows_with_outcomes_are_learned_from():
    alone = fitted(X[:200], Y[:200], epsilon=0.5)
    more_X, _, more_y = rows(20_000, 5)
    helped = fitted(X[:200], Y[:200], epsilon=0.5, public=more_X, y_public=more_y)
    assert helped.score(NEW, NEW_Y) > alone.score(NEW, NEW_Y) + 0.2
    assert helped.privacy_.n_private == 200


@no_public
def test_no_public_rows():
    with pytest.warns(NoPublicDataWarning):
        reg = fitted(public=None, bounds=(-3, 3), epsilon=10)
    assert reg.score(NEW, NEW_Y) > 0.55
    assert reg.drift_ is None
    weak = fitted(public=None, bounds=(-3, 3), epsilon=0.5)
    assert weak.score(NEW, NEW_Y) > 0.1
    with pytest.raises(ValueError, match="outcome_bounds="):
        fitted(public=None, outcome_bounds=None)


@no_public
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outcome_bounds": None}, "Pass outcome_bounds="),
        ({"outcome_bounds": None, "y_public": np.full(300, np.nan)}, "Pass outcome_bounds="),
        ({"outcome_bounds": None, "y_public": np.full(300, 7.0)}, "public outcomes"),
        ({"outcome_bounds": (3, 1)}, "low < high"),
        ({"outcome_bounds": (0, np.inf)}, "low < high"),
        ({"outcome_bounds": 3.0}, "outcome_bounds"),
        ({"y": np.where(np.arange(5000) == 3, np.nan, Y)}, "must be finite"),
        ({"y": np.where(np.arange(5000) == 3, np.inf, Y)}, "must be finite"),
        ({"y": np.where(np.arange(5000) == 3, "a secret", "1")}, "Classifier for labels"),
        ({"y_public": np.full(300, np.inf)}, "must be finite"),
        ({"loss": "gamma"}, "'loss' parameter"),
        ({"loss": "poisson"}, "must begin at 0"),
        ({"loss": "poisson", "outcome_bounds": None, "y_public": -PUBLIC_Y}, "positive public"),
        ({"epsilon": 1e-9}, r"epsilon = 1e-09 .*value\.$"),
        ({"epsilon": 1e-9, "delta": 0, "public": None}, "is so small"),
    ],
)
def test_errors_are_a_sentence_without_private_values(arguments, message):
    budget = PrivacyBudget(1, 1e-6, for_tests=True)
    with pytest.raises(ValueError, match=message) as caught:
        fitted(**{"budget": budget, **arguments})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert budget.ledger == []


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("n_columns", [1, 15])
def test_a_fit_with_too_much_noise_spends_nothing(n_columns, delta):
    """Without public rows, sums of outcomes and of squared residuals have the largest noise."""
    rng = np.random.default_rng(0)
    rows, n_failures = rng.normal(size=(200, n_columns)), 0
    for epsilon in (1e-8, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2):
        budget = PrivacyBudget(1, 1e-6, for_tests=True)
        reg = SemiPrivateBoostingRegressor(
            epsilon=epsilon, delta=delta, outcome_bounds=(-3, 3), random_state=0, budget=budget
        )
        try:
            reg.fit(rows, rows[:, 0])
        except ValueError:
            n_failures += 1
            assert budget.ledger == []
    assert 0 < n_failures < 8


# How it gets on elsewhere


def test_receipts_list_every_stage():
    receipt = fitted(epsilon=8).privacy_
    names = [call.name for call in receipt.mechanisms]
    for name in ("histogram of the outcomes", "sum of squared residuals", "histogram of residuals"):
        assert sum(name in used for used in names) == 1
    assert "labels" not in str(receipt)
    assert (receipt.epsilon, receipt.delta, receipt.n_private) == (8, 1e-6, 5000)


# What a row may tell


def few(seed, n=60, gap=0.0):
    generator = np.random.default_rng(seed)
    X = np.column_stack([generator.normal(gap, 1, n), generator.integers(0, 3, n)])
    return X, X[:, 0] + X[:, 1] - gap + generator.normal(size=n)


FEW_PUBLIC, FEW_PUBLIC_Y = few(99, 30)
CONFIGURATIONS = {
    "grown": {"epsilon": 400},
    "grown, pure": {"epsilon": 600, "delta": 0},
    "grown, persons": {"epsilon": 2000, "k": 2},
    "grown from nothing": {"epsilon": 400, "public": None},
    "rounds": {"epsilon": 5},
    "rounds, pure": {"epsilon": 5, "delta": 0},
    "drifted": {"epsilon": 40, "gap": 3.0},
    "no public rows": {"epsilon": 5, "public": None},
    "counts, grown": {"epsilon": 2000, "loss": "poisson"},
    "counts, grown, pure": {"epsilon": 4000, "delta": 0, "loss": "poisson"},
    "counts, rounds": {"epsilon": 5, "loss": "poisson"},
    "public outcomes": {"epsilon": 400, "y_public": FEW_PUBLIC_Y, "outcome_bounds": None},
}


def watched(X, y, *, k=None, gap=0.0, public=FEW_PUBLIC, **parameters):
    """Fit, and return all that is to be seen of it."""
    low = 0 if parameters.get("loss") == "poisson" else -3
    parameters = {"outcome_bounds": (low, 5), "max_rows_per_group": k} | parameters
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reg = fitted(X, y, public=public, groups=None if k is None else persons(k), **parameters)
        reg.interval(X[:1]) if reg.loss == "squared_error" else reg.predict(X[:1])
    return reg, pickle.dumps([vars(reg), [(w.category, str(w.message)) for w in caught]])


def persons(k):
    return np.arange(60) % (60 // (k + 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_replaced_row_moves_answers_as_paid_for_and_nothing_else(name):
    options = CONFIGURATIONS[name]
    k = options.get("k")
    X, y = few(1, gap=options.get("gap", 0.0))

    def neighbours():
        odd_ones = [
            ([1e300, -np.inf], -1e300),
            ([np.nan, np.nan], 1e300),
            ([0, 0], 5.0),
            ([0, 2], -3.0),
        ]
        for position, (new, outcome) in enumerate(odd_ones):
            replaced = [position] if k is None else persons(k) == position
            other_X, other_y = X.copy(), y.copy()
            other_X[replaced], other_y[replaced] = new, outcome
            yield X if position == 2 else other_X, other_y  # once the outcome alone

    _, uses = compared(lambda X, y: watched(X, y, **options), (X, y), neighbours())
    is_newton = options["epsilon"] > 100 or name == "no public rows"
    assert is_newton == any("hessian" in call.name for call in uses)
    assert affordable(uses, options["epsilon"], options.get("delta", 1e-6))


def affordable(uses, epsilon, delta):
    """Whether steps fit a budget: ε adds up, or μ², draws being noise of μ² = (π/8) ε²."""
    uses = [call for call in uses if call.kind != "order"]
    if not delta:
        return sum(call.cost for call in uses) <= epsilon
    costs = [call.cost if call.kind == "noise" else np.pi / 8 * call.cost**2 for call in uses]
    return float(sum(costs)) <= float(gaussian_mu_squared(Fraction(epsilon), Fraction(delta)))


# Clipping: the range of the outcomes, and residuals


class TestOutcomeRange:
    def test_it_holds_most_outcomes_whatever_the_bounds(self):
        """Wide bounds lose little, since the fit takes place in the range of most outcomes."""
        narrow, wide = (
            fitted(epsilon=0.5, outcome_bounds=bounds).score(NEW, NEW_Y)
            for bounds in ((85, 115), (0, 200))
        )
        assert wide > narrow - 0.15 > 0.3

    @pytest.mark.parametrize("pure", [False, True])
    def test_the_share_is_public_and_small_budgets_release_the_sum(self, pure):
        names = {}
        for n in (60, 5000):
            with Recorder() as recorder:
                fitted(X[:n], Y[:n], epsilon=0.5, delta=0 if pure else 1e-6)
            names[n] = [call.name for call in recorder.calls]
        assert not any("histogram of the outcomes" in name for name in names[60])
        assert any("histogram of the outcomes" in name for name in names[5000])

    def test_encoding_is_a_function_of_each_outcome(self):
        outcome_range = OutcomeRange(0.25, 0.75, 0.5)
        levels = np.arange(TARGET_LEVELS + 1) / TARGET_LEVELS
        encoded = outcome_range.encode(levels)
        assert encoded.min() == 0
        assert encoded.max() == 1
        assert (np.diff(encoded) >= 0).all()
        assert (encoded * TARGET_LEVELS == np.rint(encoded * TARGET_LEVELS)).all()
        assert (encoded[levels <= 0.25] == 0).all()
        assert (encoded[levels >= 0.75] == 1).all()


class TestClippedResiduals:
    @pytest.mark.parametrize("max_residual", [0.01, 0.1, 0.4])
    def test_gradients_are_those_of_hubers_loss(self, max_residual):
        loss = SQUARED.clipped((max_residual / 2) ** 2)
        margins = np.arange(-2 * MARGIN_UNIT, 2 * MARGIN_UNIT, 37)
        for y in np.linspace(0, 1, 9):
            gradients, hessians = loss.gradient_hessian(margins[None], np.full(len(margins), y))
            residuals = (y - loss.mean(margins)) / (2 * max_residual)
            expected = 2 * MAX_GRADIENT * np.clip(residuals, -0.5, 0.5)
            assert np.abs(gradients - expected).max() <= 0.5 + 1e-9
            # the hessian is the derivative of the gradient where nothing is clipped
            slope = loss.hessian_unit * hessians / (2 * MAX_GRADIENT)
            assert slope == pytest.approx(1 / (8 * max_residual))

    def test_residuals_as_wide_as_the_outcomes_are_not_clipped(self):
        assert SQUARED.clipped(1 / 16) is SQUARED

    @no_public
    def test_correlated_columns_without_public_rows(self):
        """Copies of a column must not be added up as if they were independent."""
        generator = np.random.default_rng(0)
        signal = generator.normal(size=3000)
        X = signal[:, None] + 0.1 * generator.normal(size=(3000, 8))
        y = signal + 0.5 * generator.normal(size=3000)
        reg = SemiPrivateBoostingRegressor(
            epsilon=2, outcome_bounds=(-6, 6), bounds=(-4, 4), random_state=0
        ).fit(X, y)
        assert reg.score(X, y) > 0.6


# Counts


def counts(n, seed):
    """Rows of four numbers, and counts with their means, which are products of effects."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    means = np.exp(0.3 + 0.8 * X[:, 0] - 0.5 * np.abs(X[:, 1]) + 0.6 * (X[:, 2] > 0))
    return X, rng.poisson(means).astype(float), means


COUNTS, COUNTS_PUBLIC, COUNTS_NEW = counts(8000, 0), counts(300, 1), counts(10_000, 2)


def fitted_counts(loss="poisson", **parameters):
    parameters = {"loss": loss, "outcome_bounds": (0, 30), "public": COUNTS_PUBLIC[0]} | parameters
    return fitted(*COUNTS[:2], **parameters)


class TestCounts:
    @pytest.mark.parametrize(
        "options",
        [
            {"epsilon": 0.3},
            {"epsilon": 3, "delta": 0},
            {"epsilon": 10},
            {"epsilon": 10, "public": None},
            {"y_public": COUNTS_PUBLIC[1]},
            {"y_public": COUNTS_PUBLIC[1], "public_model": PoissonRegressor()},
        ],
    )
    @no_public
    def test_predictions_are_positive_calibrated_and_better_than_those_of_squared_errors(
        self, options
    ):
        X_new, y_new, _ = COUNTS_NEW
        predicted = fitted_counts(**options).predict(X_new)
        others = fitted_counts("squared_error", **options).predict(X_new)
        of_mean = np.full(len(y_new), COUNTS[1].mean())
        error, other_error, mean_error = (
            mean_poisson_deviance(y_new, np.maximum(means, 0.01))
            for means in (predicted, others, of_mean)
        )
        assert predicted.min() > 0
        assert predicted.mean() == pytest.approx(y_new.mean(), rel=0.12)
        assert error < other_error
        # the deviance of the true means is 1.1, and that of their mean is 2.1
        assert error < 0.75 * mean_error

    def test_more_budget_comes_near_the_true_means(self):
        X_new, y_new, means = COUNTS_NEW
        errors = [
            mean_poisson_deviance(y_new, fitted_counts(epsilon=epsilon).predict(X_new))
            for epsilon in (0.3, 100)
        ]
        truth = mean_poisson_deviance(y_new, means)
        assert truth < errors[1] < 1.05 * truth < errors[0]

    def test_explanations_add_up_to_the_logarithm_of_the_prediction(self):
        reg = fitted_counts(y_public=COUNTS_PUBLIC[1], epsilon=10)
        rows = COUNTS_NEW[0][:50]
        np.testing.assert_allclose(reg.explain_local(rows).total, np.log(reg.predict(rows)))
        assert reg.explain().startswith("log of the mean outcome of an average public row")
        assert ShapeDisplay.from_estimator(reg).label == "log of the mean outcome"
        assert -1 < reg.intercept_ < 1

    def test_a_second_fit_keeps_nothing_of_the_first(self):
        reg = fitted_counts(loss="squared_error")
        assert json.loads(reg.set_params(loss="poisson").to_json())["loss"] == "squared_error"
        reg.fit(*COUNTS[:2], X_public=COUNTS_PUBLIC[0])
        assert set(vars(reg)) == set(vars(fitted_counts()))

    def test_all_public_counts_are_zero(self):
        zeros = np.zeros(len(COUNTS_PUBLIC[0]))
        reg = fitted_counts(y_public=zeros, epsilon=10)
        assert np.isfinite(reg.predict(COUNTS_NEW[0])).all()

    @pytest.mark.parametrize(
        ("n_public", "highest"), [(20, -1.0), (300, -1.0), (300, 5e-324), (300, 1e160)]
    )
    def test_public_counts_of_no_use(self, n_public, highest):
        y_public = np.append(np.full(n_public - 1, -1.0), highest)
        y_public[::3] = highest
        with pytest.raises(ValueError, match=r"public outcomes"):
            fitted_counts(
                outcome_bounds=None, public=COUNTS_PUBLIC[0][:n_public], y_public=y_public
            )

    def test_json_is_enough_to_predict(self):
        reg = fitted_counts(epsilon=10, method="moments")
        model = json.loads(reg.to_json())
        rows = COUNTS_NEW[0][:50]
        margins = np.full(len(rows), model["intercept"][0])
        for column, values in zip(model["columns"], rows.T, strict=True):
            margins += np.array(column["scores"][0])[
                np.searchsorted(column["cuts"], values, "right")
            ]
        assert (model["loss"], model["trees"]) == ("poisson", [])
        means = model["outcome_bounds"][1] * np.exp(margins / model["unit"]) / 2
        np.testing.assert_allclose(means, reg.predict(rows))

    def test_intervals_are_refused_and_cost_nothing(self):
        reg = fitted_counts()
        with pytest.raises(ValueError, match="loss='squared_error'"):
            reg.interval(COUNTS_NEW[0][:1])
        assert not any("histogram of residuals" in line.name for line in reg.privacy_.mechanisms)

    def test_bounds_of_public_counts_begin_at_zero(self):
        reg = fitted_counts(outcome_bounds=None, y_public=COUNTS_PUBLIC[1] + 3)
        assert reg.outcome_bounds_[0] == 0
        assert reg.outcome_bounds_[1] > 4

    def test_monotone_constraints_hold(self):
        reg = fitted_counts(monotonic_cst=[-1, 0, 0, 0])
        line = np.column_stack([np.linspace(-3, 3, 99), np.zeros((99, 3))])
        assert (np.diff(reg.predict(line)) <= 0).all()

    def test_copies(self):
        reg = fitted_counts(epsilon=10)
        copied = pickle.loads(pickle.dumps(reg))
        np.testing.assert_array_equal(copied.predict(X), reg.predict(X))
        assert len(pickle.dumps(reg)) < 200_000  # without the tables of the loss
        clipped = POISSON.clipped(0.02)
        again = pickle.loads(pickle.dumps(clipped))
        margins = np.arange(-3000, 1000)[None]
        np.testing.assert_array_equal(
            again.gradient_hessian(margins, np.full(4000, 0.5)),
            clipped.gradient_hessian(margins, np.full(4000, 0.5)),
        )

    @pytest.mark.parametrize("dispersion", [0.3, 0.02, 1e-4])
    def test_gradients_are_residuals_that_are_clipped_at_rare_counts(self, dispersion):
        loss = POISSON.clipped(dispersion)
        margins = np.arange(-4 * MARGIN_UNIT, MARGIN_UNIT, 37)
        means = loss.mean(margins)
        for y in np.linspace(0, 1, 9):
            gradients, hessians = loss.gradient_hessian(margins[None], np.full(len(margins), y))
            limits = np.minimum(
                np.maximum(means, 1 - means), 3 * (np.sqrt(dispersion * means) + dispersion)
            )
            expected = MAX_GRADIENT * np.clip((y - means) / limits, -1, 1)
            assert np.abs(gradients - expected).max() <= 0.5 + 1e-9
            slopes = MAX_GRADIENT * means / limits / loss.hessian_unit
            assert np.abs(hessians - slopes).max() <= 0.5 + 1e-9
        draws = np.random.default_rng(0).poisson(0.1 / dispersion, 10_000) * dispersion
        at = np.searchsorted(loss.mean(np.arange(-20_000, 700)), 0.1) - 20_000
        gradients, _ = loss.gradient_hessian(np.full((1, 10_000), at), np.minimum(draws, 1))
        assert (np.abs(gradients) == MAX_GRADIENT).mean() < 0.01

    def test_likelihood_is_largest_at_the_true_means(self):
        _, y, means = COUNTS_NEW
        found = [POISSON.log_likelihood(f * means[None] / 30, y[None] / 30) for f in (0.8, 1, 1.2)]
        assert found[1] > max(found[0], found[2])


def test_few_rows_and_little_budget_are_little_worse_than_the_mean():
    """Before the mean was shrunk and pooled, the mean R² was below -1."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    scores = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        public, private, test = order[110:160], order[160:], order[:110]
        for labels in ({}, {"y_public": y[public]}):
            model = SemiPrivateBoostingRegressor(
                epsilon=0.1, outcome_bounds=(25, 346), random_state=seed
            )
            model.fit(X[private], y[private], X_public=X[public], **labels)
            scores.append(model.score(X[test], y[test]))
    assert np.mean(scores[::2]) > -0.5
    assert min(scores[1::2]) > 0.2
