"""Privacy of releases: only the ledger answers about private rows, within the paid sensitivity.

A fit is run on a data set, and on all its neighbours with the same noise outcomes. The stored
state, warnings and answers must be equal, byte by byte. The exact inputs of the mechanisms may
differ by at most the sensitivity that the noise was calibrated to.
"""

import itertools
import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease, PrivacyBudget
from skpublicdp.accounting import (
    Draw,
    Gaussian,
    Pure,
    Steps,
    basic_price,
    gaussian_mu_squared,
    mu_squared_price,
    plan_delta,
    rho_price,
    zcdp_rho,
)
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.internals.query_release import synthetic
from tests.kit import Recorder

quiet = pytest.mark.filterwarnings(
    "ignore::skpublicdp.exceptions.TooFewRowsWarning",
    "ignore::skpublicdp.exceptions.NoPublicDataWarning",
)
DELTA = 1e-6
LINE = [[-7.0], [0.0], [0.4], [1.7], [3.0], [50.0]]
PLANE = [[0.0, 0.0], [1.0, 0.0], [1.0, 2.5], [-9.0, 2.5], [0.2, 50.0]]
UNKNOWN_AGES = [[20, "shop"], [np.nan, "farm"], [20, "farm"], [np.nan, "spy"], [99.5, None]]
PEOPLE = [[20, "shop"], [20, "farm"], [70, "spy"], [70, "farm"], [99.5, None]]
# some private rows have the same values as public rows
LINE_PUBLIC = np.array([[0.0], [1.0], [1.0], [1.7]])
PLANE_PUBLIC = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.5], [2.0, 2.0]])


def people(rows):
    return pd.DataFrame(rows, columns=["age", "job"])


PEOPLE_PUBLIC = people([[20, "farm"], [65, "shop"], [70, "farm"], [30, "shop"]])


def custom_function(rows):
    return np.column_stack([rows[:, 0] > 0.3, rows.sum(axis=1) > 2])


# two numbers and a survey weight, of which the last may be outside the bounds (0, 3)
WEIGHTED = [[0.0, 0.0, 3.0], [1.0, 0.0, 3.0], [1.0, 2.5, 0.0], [0.2, 1.0, 99.0], [0.0, 2.5, -1.0]]

# name: query class, possible rows, container of rows, public rows or None, queries to answer
CASES = {
    "thresholds": (ThresholdQueries(), LINE, np.array, LINE_PUBLIC, [[0.4], [2.0]]),
    "thresholds alone": (ThresholdQueries(), LINE, np.array, None, [[0.4], [2.0]]),
    "intervals": (IntervalQueries(), LINE, np.array, LINE_PUBLIC, [[0.4, 2.0]]),
    "marginals": (MarginalQueries(), PEOPLE, people, PEOPLE_PUBLIC, [[20, None], [70, "farm"]]),
    "marginals, missing numbers": (
        *(MarginalQueries(missing=["age"]), UNKNOWN_AGES, people, PEOPLE_PUBLIC),
        [{"age": "(missing)"}, {"age": 20, "job": "farm"}],
    ),
    "marginals, sums": (
        *(MarginalQueries(sums={"age": "job"}), PEOPLE, people, PEOPLE_PUBLIC),
        [[20, None], [70, "farm"]],
    ),
    "marginals alone": (MarginalQueries(), PLANE, np.array, None, [[0.4, None], [1.0, 2.5]]),
    "stumps": (StumpQueries(), PLANE, np.array, PLANE_PUBLIC, [[0, 0.4], [1, 2.0]]),
    "stumps alone": (StumpQueries(), PLANE, np.array, None, [[0, 0.4], [1, 2.0]]),
    "rectangles": (RectangleQueries(), PLANE, np.array, PLANE_PUBLIC, [[[0, 1], [0, 3]]]),
    "halfspaces": (HalfspaceQueries(), PLANE, np.array, PLANE_PUBLIC, [[1.0, 1.0, 1.0]]),
    "custom": (CustomQueries(custom_function), PLANE, np.array, PLANE_PUBLIC, [[0], [1]]),
    "custom alone": (CustomQueries(custom_function), PLANE, np.array, None, [[0], [1]]),
    "marginals, weights": (
        *(MarginalQueries(k=1), WEIGHTED, np.array, PLANE_PUBLIC[:, [0, 0, 1]]),
        [[0.4, None, None], [None, 1.0, None]],
    ),
}
AGES = {"age": (0, 100)}
BOUNDS = dict.fromkeys(["marginals", "marginals, missing numbers", "marginals, sums"], AGES)
WITH_INTERVALS = ("thresholds", "intervals", "marginals", "custom")
WEIGHTS = {"marginals, weights": 2}
RUNS = [*itertools.product(CASES, ["auto", "pmw"]), ("stumps", "public")]
RUNS.remove(("marginals, weights", "pmw"))
RUNS.remove(("marginals, sums", "pmw"))


@pytest.fixture(autouse=True)
def few_rows_are_drawn(monkeypatch):
    """Draw few synthetic rows, since their number does not change who can see what."""
    monkeypatch.setattr(synthetic, "N_TREE_ROWS", 500)


def budgets(case, method):
    """Return a small ε, with which noise dominates, and a large one."""
    if method == "auto" and CASES[case][1] is LINE:
        return 0.5, 6.0  # a larger ε would make too many cells
    return 0.5, 60.0


def fit(case, rows, outcomes=None, **settings):
    """Return the calls of the ledger, and all other visible results as bytes."""
    queries, _, container, public, Q = CASES[case]
    bounds = BOUNDS.get(case, (0, 3))
    groups, method = settings.pop("groups", None), settings["method"]
    weights = WEIGHTS.get(case)
    release = PAPQueryRelease(queries, bounds=bounds, weights=weights, random_state=0, **settings)
    with Recorder(outcomes) as recorder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release.fit(container(rows), X_public=public, groups=groups)
    visible = [release, release.answer(Q), release.sample(4), release.privacy_.to_dict()]
    visible += [release.fidelity(4), release.sample_guarantee(4)]
    if release._released.only_column is not None:
        visible += [release.cdf([0.2, 1.7]), release.quantile([0.3, 0.8])]
    if method == "auto" and re.split("[ ,]", case)[0] in WITH_INTERVALS:
        visible.append(release.interval(Q))
    messages = [(warning.category, str(warning.message)) for warning in caught]
    return recorder.calls, pickle.dumps((visible, messages))


def twelve_rows(case):
    """Return rows of three kinds. The last kind has one row, so that a neighbour has none of it."""
    return [CASES[case][1][kind] for kind in (1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3)]


def neighbours(case):
    """Yield the rows in another order, and all replacements of the first and the last row."""
    rows = twelve_rows(case)
    yield rows[::-1]
    for position, row in itertools.product((0, 11), CASES[case][1]):
        yield [*rows[:position], row, *rows[position + 1 :]]


def exact_input(call):
    """Return the exact integers that a mechanism was applied to."""
    return np.asarray(call.exact_input.errors if call.kind == "draw" else call.exact_input).astype(
        np.int64
    )


def max_sensitivity_ratio(calls, other_calls):
    """Return the largest ratio of a distance of exact inputs to its declared sensitivity.

    Asserts that two fits call the same mechanisms, and that no ratio is above 1.
    """
    for call, other in zip(calls, other_calls, strict=True):
        mechanisms = [
            (each.kind, each.name, each.event, each.sensitivity, each.spread)
            for each in (call, other)
        ]
        assert mechanisms[0] == mechanisms[1]
    ratios = [0.0]
    for call, other in zip(calls, other_calls, strict=True):
        if call.kind == "order":  # of a person's rows, from which the kept ones are taken
            continue
        distances = np.abs(exact_input(call) - exact_input(other))
        if call.kind == "draw":
            ratios.append(distances.max() / call.sensitivity)
        else:
            assert (distances**2).sum() <= call.sensitivity.squared
            ratios.append(distances.sum() / call.sensitivity.absolute)
    assert max(ratios) <= 1
    return max(ratios)


def spent_event(calls):
    """Return the privacy event of all calls, computed from their sensitivities and noise scales."""
    calls = [call for call in calls if call.kind != "order"]
    return Steps(
        Draw(call.cost) if call.kind == "draw" else (Gaussian if call.gaussian else Pure)(call.cost)
        for call in calls
    )


def assert_spends_all(calls, epsilon, delta):
    """Assert that the calls spend between 99% and 100% of the budget."""
    event = spent_event(calls)
    if not delta:
        assert 0.99 * epsilon < basic_price(event)[0] <= epsilon
    elif all(call.gaussian for call in calls if call.kind != "order"):
        assert 0.99 * gaussian_mu_squared(epsilon, delta) < mu_squared_price(event)
        assert mu_squared_price(event) <= gaussian_mu_squared(epsilon, delta)
    else:
        assert plan_delta(event, epsilon) <= delta < plan_delta(event, 0.99 * epsilon)


def _replays():
    """Yield (case, method, δ, ε); the cases and methods take turns among both δ and both ε."""
    for index, (case, method) in enumerate(RUNS):
        settings = list(itertools.product((DELTA, 0), (0, 1)))
        for number, (delta, size) in enumerate(settings):
            turn = (index + index // 2) % len(settings)  # `auto` and `pmw` alternate in RUNS
            marks = () if number == turn else pytest.mark.slow
            yield pytest.param(case, method, delta, budgets(case, method)[size], marks=marks)


@quiet
@pytest.mark.parametrize(("case", "method", "delta", "epsilon"), _replays())
def test_results_depend_on_private_rows_through_the_ledger_alone(case, method, delta, epsilon):
    settings = {"epsilon": epsilon, "delta": delta, "method": method}
    calls, visible = fit(case, twelve_rows(case), **settings)
    outcomes, ratios = [call.outcome for call in calls], []
    for rows in neighbours(case):
        other_calls, other_visible = fit(case, rows, outcomes, **settings)
        assert other_visible == visible
        ratios.append(max_sensitivity_ratio(calls, other_calls))
    if method == "public":
        assert not calls
    else:
        assert_spends_all(calls, epsilon, delta)
        assert max(ratios) > 0.2  # the exact inputs depend on the rows


# persons with several rows


PERSONS = [
    0,
    0,
    1,
    1,
    2,
    2,
    3,
    3,
    4,
    4,
    5,
    5,
    0,
    5,
]  # persons 0 and 5 have three rows, of which any two are used


@pytest.mark.one_in(3)
@quiet
@pytest.mark.parametrize("delta", [DELTA, 0])
@pytest.mark.parametrize(
    ("case", "method"),
    [
        ("thresholds", "auto"),
        ("thresholds alone", "auto"),
        ("marginals", "auto"),
        ("marginals, weights", "auto"),
        ("marginals, sums", "auto"),
        ("stumps", "auto"),
        ("stumps", "pmw"),
        ("thresholds", "pmw"),
    ],
)
def test_results_depend_on_a_person_through_the_ledger_alone(case, method, delta):
    values = CASES[case][1]
    rows = [*twelve_rows(case), values[0], values[0]]
    settings = {"delta": delta, "method": method, "epsilon": budgets(case, method)[1]}
    settings |= {"groups": PERSONS, "max_rows_per_group": 2}
    calls, visible = fit(case, rows, **settings)
    assert_spends_all(calls, settings["epsilon"], delta)
    outcomes, ratios = [call.outcome for call in calls], []
    for pair in itertools.combinations_with_replacement(values, 2):
        rows[:2], rows[12:] = pair, (values[-1], pair[0])
        other_calls, other_visible = fit(case, rows, outcomes, **settings)
        assert other_visible == visible
        ratios.append(max_sensitivity_ratio(calls, other_calls))
    assert max(ratios) > 0.5  # more than one row can reach


def test_receipt_of_persons():
    settings = {"bounds": (0, 3), "epsilon": 1.0, "random_state": 0}
    X = np.array([*twelve_rows("thresholds"), [0.0], [0.0]])
    release = PAPQueryRelease(max_rows_per_group=2, **settings)
    receipt = release.fit(X, X_public=LINE_PUBLIC, groups=PERSONS).privacy_
    assert receipt.unit == "replace one person, up to 2 private rows"
    assert receipt.n_private == 12
    with pytest.raises(ValueError, match="max_rows_per_group=2"):
        release.fit(X, X_public=LINE_PUBLIC)


# budgets


PRICES = {
    "auto": (mu_squared_price, gaussian_mu_squared),
    "gdp": (mu_squared_price, gaussian_mu_squared),
    "zcdp": (rho_price, zcdp_rho),
}


@quiet
@pytest.mark.parametrize("accountant", ["auto", "pure", "zcdp", "gdp"])
@pytest.mark.parametrize("method", ["auto", "pmw"])
@pytest.mark.parametrize("case", ["thresholds", "stumps"])
def test_fit_spends_its_share_of_a_budget(case, method, accountant):
    queries, _, _, public, _ = CASES[case]
    X = np.array(twelve_rows(case))
    budget = PrivacyBudget(2.0, DELTA, accountant=accountant)
    release = PAPQueryRelease(
        queries, method=method, epsilon=2.0, delta=DELTA, bounds=(0, 3), budget=budget
    )
    with Recorder() as recorder:
        release.fit(X, X_public=public)
    if accountant == "pure":
        assert_spends_all(recorder.calls, 2, DELTA)
    else:
        price, cap = PRICES[accountant]
        assert (
            0.99 * cap(Fraction(2), DELTA)
            < price(spent_event(recorder.calls))
            <= cap(Fraction(2), DELTA)
        )
    assert release.privacy_.entry == 1
    (entry,) = budget.ledger
    assert (entry.who, entry.n_rows) == ("PAPQueryRelease", 12)
    epsilon = 1.9 if accountant == "auto" else 0.1  # "auto" has room for a little more
    with Recorder() as recorder, pytest.raises(PrivacyBudgetError):
        release.set_params(epsilon=epsilon).fit(X, X_public=public)
    assert not recorder.calls
    assert budget.ledger == [entry]


@pytest.mark.parametrize("accountant", ["auto", "pure", "zcdp", "gdp"])
def test_method_public_is_not_charged(accountant):
    budget = PrivacyBudget(1.0, DELTA, accountant=accountant)
    X = np.array(twelve_rows("thresholds"))
    settings = {"delta": DELTA, "bounds": (0, 3), "budget": budget}
    PAPQueryRelease(epsilon=1.0, **settings).fit(X, X_public=LINE_PUBLIC)
    release = PAPQueryRelease(method="public", epsilon=50.0, **settings)
    receipt = release.fit(X, X_public=LINE_PUBLIC).privacy_
    assert (receipt.epsilon, receipt.delta, receipt.entry) == (0.0, 0.0, None)
    assert receipt.mechanisms == ()
    assert len(budget.ledger) == 1
