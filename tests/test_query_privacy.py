"""Private rows leave a release through its ledger alone, and no faster than is paid for.

A fit is run on some rows, and again on all neighbours with the same outcomes dictated. All that is
stored, warned and answered must then be equal, byte by byte, and exact answers may differ by no
more than the sensitivity for which noise and draws were paid.
"""

import itertools
import pickle
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
from tests.kit import Recorder

quiet = pytest.mark.filterwarnings(
    "ignore::skpublicdp.exceptions.TooFewRowsWarning",
    "ignore::skpublicdp.exceptions.NoPublicDataWarning",
)
DELTA = 1e-6
LINE = [[-7.0], [0.0], [0.4], [1.7], [3.0], [50.0]]
PLANE = [[0.0, 0.0], [1.0, 0.0], [1.0, 2.5], [-9.0, 2.5], [0.2, 50.0]]
PEOPLE = [[20, "shop"], [20, "farm"], [70, "spy"], [70, "farm"], [99.5, None]]
# some kinds of private rows are public rows, too
LINE_PUBLIC = np.array([[0.0], [1.0], [1.0], [1.7]])
PLANE_PUBLIC = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.5], [2.0, 2.0]])


def people(rows):
    return pd.DataFrame(rows, columns=["age", "job"])


PEOPLE_PUBLIC = people([[20, "farm"], [65, "shop"], [70, "farm"], [30, "shop"]])


def mine(rows):
    return np.column_stack([rows[:, 0] > 0.3, rows.sum(axis=1) > 2])


# public rows lack two columns, and of private ones some is missing or beyond what is declared
LABELLED = [[0.0, 1.0, "yes"], [1.0, 0.0, "no"], [0.4, 2.5, None], [-9.0, 50, "no"], [1, 1, "yes"]]


def labelled(rows):
    frame = pd.DataFrame(rows, columns=["x", "pay", "label"])
    return frame.assign(label=pd.Categorical(frame["label"], categories=["no", "yes"]))


def about_labels(rows):
    yes = rows["label"] == "yes"
    return np.column_stack([rows["x"] > 0.3, yes, yes & (rows["x"] > 0.3), rows["pay"] > 2])


# name: queries, what a row may be, how rows are given, public rows or none, queries to answer
CASES = {
    "thresholds": (ThresholdQueries(), LINE, np.array, LINE_PUBLIC, [[0.4], [2.0]]),
    "thresholds alone": (ThresholdQueries(), LINE, np.array, None, [[0.4], [2.0]]),
    "intervals": (IntervalQueries(), LINE, np.array, LINE_PUBLIC, [[0.4, 2.0]]),
    "marginals": (MarginalQueries(), PEOPLE, people, PEOPLE_PUBLIC, [[20, None], [70, "farm"]]),
    "marginals alone": (MarginalQueries(), PLANE, np.array, None, [[0.4, None], [1.0, 2.5]]),
    "stumps": (StumpQueries(), PLANE, np.array, PLANE_PUBLIC, [[0, 0.4], [1, 2.0]]),
    "stumps alone": (StumpQueries(), PLANE, np.array, None, [[0, 0.4], [1, 2.0]]),
    "rectangles": (RectangleQueries(), PLANE, np.array, PLANE_PUBLIC, [[[0, 1], [0, 3]]]),
    "halfspaces": (HalfspaceQueries(), PLANE, np.array, PLANE_PUBLIC, [[1.0, 1.0, 1.0]]),
    "custom": (CustomQueries(mine), PLANE, np.array, PLANE_PUBLIC, [[0], [1]]),
    "custom alone": (CustomQueries(mine), PLANE, np.array, None, [[0], [1]]),
    "custom lacking": (
        *(CustomQueries(about_labels), LABELLED, labelled),
        *(labelled(LABELLED)[["x"]], [[0], [1], [2], [3]]),
    ),
}
BOUNDS = {"marginals": {"age": (0, 100)}, "custom lacking": {"pay": (0, 3)}}
WITH_INTERVALS = ("thresholds", "intervals", "marginals", "custom")
RUNS = [*itertools.product(CASES, ["auto", "pmw"]), ("stumps", "public")]
RUNS.remove(("custom lacking", "pmw"))  # which needs public rows that have all columns


@pytest.fixture(autouse=True)
def few_rows_are_drawn(monkeypatch):
    """How many rows are drawn from released tables does not matter to who sees what."""
    monkeypatch.setattr("skpublicdp.query_release.synthetic.N_TREE_ROWS", 500)


def budgets(case, method):
    """Two ε each: one that leaves little but noise, and one that leaves less noise."""
    if method == "auto" and CASES[case][1] is LINE:
        return 0.5, 6.0  # more would be many cells
    return 0.5, 60.0


def fit(case, rows, outcomes=None, **settings):
    """Return what was asked of the ledger, and all else that somebody could see."""
    queries, _, given, public, Q = CASES[case]
    bounds = BOUNDS.get(case, (0, 3))
    groups, method = settings.pop("groups", None), settings["method"]
    release = PAPQueryRelease(queries, bounds=bounds, random_state=0, **settings)
    with (
        Recorder(outcomes) as recorder,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        release.fit(given(rows), X_public=public, groups=groups)
    seen = [release, release.answer(Q), release.sample(4), release.privacy_.to_dict()]
    if release._released.only_column is not None:
        seen += [release.cdf([0.2, 1.7]), release.quantile([0.3, 0.8])]
    if method == "auto" and case.split()[0] in WITH_INTERVALS:
        seen.append(release.interval(Q))
    warned = [(each.category, str(each.message)) for each in caught]
    return recorder.calls, pickle.dumps((seen, warned))


def twelve(case):
    """Rows of three kinds; the last kind has one row, so that one neighbour leaves it empty."""
    return [CASES[case][1][kind] for kind in (1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3)]


def neighbours(case):
    rows = twelve(case)
    yield rows[::-1]
    for place, row in itertools.product((0, 11), CASES[case][1]):
        yield [*rows[:place], row, *rows[place + 1 :]]


def exact(call):
    return np.asarray(call.exact_input.errors if call.kind == "draw" else call.exact_input).astype(
        np.int64
    )


def assert_paid(uses, others):
    """Two fits asked for the same, and their exact answers are as near as they paid for.

    Returns the largest share of a sensitivity that was made use of.
    """
    for call, other in zip(uses, others, strict=True):
        asked = [
            (one.kind, one.name, one.event, one.sensitivity, one.spread) for one in (call, other)
        ]
        assert asked[0] == asked[1]
    shares = [0.0]
    for call, other in zip(uses, others, strict=True):
        moved = np.abs(exact(call) - exact(other))
        if call.kind == "draw":
            shares.append(moved.max() / call.sensitivity)
        else:
            assert (moved**2).sum() <= call.sensitivity.squared
            shares.append(moved.sum() / call.sensitivity.absolute)
    assert max(shares) <= 1
    return max(shares)


def spent(uses):
    """What was done, from the sensitivity and the spread that were drawn with."""
    return Steps(
        Draw(call.cost) if call.kind == "draw" else (Gaussian if call.gaussian else Pure)(call.cost)
        for call in uses
    )


def assert_spends_all(uses, epsilon, delta):
    """The budget is kept, and one that is smaller by a hundredth would not be."""
    event = spent(uses)
    if not delta:
        assert 0.99 * epsilon < basic_price(event)[0] <= epsilon
    elif all(call.gaussian for call in uses):
        assert 0.99 * gaussian_mu_squared(epsilon, delta) < mu_squared_price(event)
        assert mu_squared_price(event) <= gaussian_mu_squared(epsilon, delta)
    else:
        assert plan_delta(event, epsilon) <= delta < plan_delta(event, 0.99 * epsilon)


@quiet
@pytest.mark.parametrize("delta", [DELTA, 0])
@pytest.mark.parametrize(("case", "method"), RUNS)
def test_all_else_is_equal(case, method, delta):
    for epsilon in budgets(case, method):
        settings = {"epsilon": epsilon, "delta": delta, "method": method}
        uses, seen = fit(case, twelve(case), **settings)
        outcomes, shares = [call.outcome for call in uses], []
        for rows in neighbours(case):
            others, also_seen = fit(case, rows, outcomes, **settings)
            assert also_seen == seen
            shares.append(assert_paid(uses, others))
        if method == "public":
            assert not uses
        else:
            assert_spends_all(uses, epsilon, delta)
            assert max(shares) > 0.2  # rows do matter, until noise is added


# persons with several rows


PERSONS = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0, 5]  # the last two rows are one too many


@quiet
@pytest.mark.parametrize("delta", [DELTA, 0])
@pytest.mark.parametrize(
    ("case", "method"),
    [
        ("thresholds", "auto"),
        ("thresholds alone", "auto"),
        ("marginals", "auto"),
        ("stumps", "auto"),
        ("stumps", "pmw"),
        ("thresholds", "pmw"),
    ],
)
def test_all_else_is_equal_for_a_whole_person(case, method, delta):
    values = CASES[case][1]
    rows = [*twelve(case), values[0], values[0]]
    settings = {"delta": delta, "method": method, "epsilon": budgets(case, method)[1]}
    settings |= {"groups": PERSONS, "max_rows_per_group": 2}
    uses, seen = fit(case, rows, **settings)
    assert_spends_all(uses, settings["epsilon"], delta)
    outcomes, shares = [call.outcome for call in uses], []
    for pair in itertools.combinations_with_replacement(values, 2):
        rows[:2], rows[12:] = pair, (values[-1], pair[0])
        others, also_seen = fit(case, rows, outcomes, **settings)
        assert also_seen == seen
        shares.append(assert_paid(uses, others))
    assert max(shares) > 0.5  # what one row alone could do


def test_persons_are_named_in_the_receipt():
    settings = {"bounds": (0, 3), "epsilon": 1.0, "random_state": 0}
    X = np.array([*twelve("thresholds"), [0.0], [0.0]])
    release = PAPQueryRelease(max_rows_per_group=2, **settings)
    receipt = release.fit(X, X_public=LINE_PUBLIC, groups=PERSONS).privacy_
    assert receipt.unit == "replace one person, up to 2 private rows"
    assert receipt.n_private == 12
    with pytest.raises(ValueError, match="max_rows_per_group=2 needs groups"):
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
def test_a_fit_takes_what_it_promises_from_a_budget(case, method, accountant):
    queries, _, _, public, _ = CASES[case]
    X = np.array(twelve(case))
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
            0.99 * cap(Fraction(2), DELTA) < price(spent(recorder.calls)) <= cap(Fraction(2), DELTA)
        )
    assert release.privacy_.entry == 1
    (entry,) = budget.ledger
    assert (entry.who, entry.n_rows) == ("PAPQueryRelease", 12)
    more = 1.9 if accountant == "auto" else 0.1  # few draws leave room for some noise
    with Recorder() as recorder, pytest.raises(PrivacyBudgetError):
        release.set_params(epsilon=more).fit(X, X_public=public)
    assert not recorder.calls
    assert budget.ledger == [entry]


class Unread:
    """Rows of which only the number may be asked."""

    shape = (60, 1)

    def __getattr__(self, name):
        raise AssertionError(f"{name} of private rows was read")

    def __array__(self, *args, **kwargs):
        raise AssertionError("private rows were read")


@pytest.mark.parametrize("method", ["auto", "pmw"])
@pytest.mark.parametrize("budget", [(0.5,), (0.5, 1e-6), (2.0, 1e-9)])
def test_it_refuses_before_private_rows_are_read(method, budget):
    budget = PrivacyBudget(*budget)
    release = PAPQueryRelease(method=method, epsilon=1.9, budget=budget)
    with pytest.raises(PrivacyBudgetError):
        release.fit(Unread(), X_public=LINE_PUBLIC)
    assert budget.ledger == []


@pytest.mark.parametrize("accountant", ["auto", "pure", "zcdp", "gdp"])
def test_public_rows_are_free(accountant):
    budget = PrivacyBudget(1.0, DELTA, accountant=accountant)
    X = np.array(twelve("thresholds"))
    settings = {"delta": DELTA, "bounds": (0, 3), "budget": budget}
    PAPQueryRelease(epsilon=1.0, **settings).fit(X, X_public=LINE_PUBLIC)
    release = PAPQueryRelease(method="public", epsilon=50.0, **settings)
    receipt = release.fit(X, X_public=LINE_PUBLIC).privacy_
    assert (receipt.epsilon, receipt.delta, receipt.entry) == (0.0, 0.0, None)
    assert receipt.mechanisms == ()
    assert len(budget.ledger) == 1
