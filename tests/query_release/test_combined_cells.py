"""Lists and ranges in queries, collapsed tables, contrasts, and ordered categories."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import BinnedNumberWarning
from skpublicdp.query_release import MarginalQueries
from tests.internals.query_release import (
    Contrast,
    collapse_posterior,
    covariance,
    difference,
    ratio,
)

EDGES = {"age": [17, 29, 44, 64, 90], "income": [0, 10, 20, 50, 200]}
TABLES = [("age", "region", "work"), ("income", "region"), ("grade",)]
GRADES = ["low", "middle", "high"]


def people(n, seed, unemployed=0.08):
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, size=n)
    work = np.where(age > 64, "retired", "employed")
    work = np.where(rng.random(n) < unemployed, "unemployed", work)
    region = rng.choice(["North", "South", "West"], size=n, p=[0.5, 0.3, 0.2])
    grade = pd.Categorical(rng.choice(GRADES, n, p=[0.2, 0.5, 0.3]), GRADES, ordered=True)
    income = rng.gamma(2, 10, size=n).round(1).clip(0, 200)
    return pd.DataFrame(
        {"age": age, "region": region, "work": work, "income": income, "grade": grade}
    )


def fitted(seed, n=20_000, epsilon=3.0, **settings):
    queries = MarginalQueries(workload=TABLES, bins=EDGES)
    release = PAPQueryRelease(
        queries, epsilon=epsilon, bounds={"age": (17, 90), "income": (0, 200)}, random_state=seed
    )
    return release.fit(people(n, [seed, 1], **settings), X_public=people(300, [seed, 2]))


@pytest.fixture(scope="module")
def release():
    return fitted(0)


@pytest.fixture(scope="module")
def population():
    return people(400_000, 99)


QUESTIONS = [
    {"age": (None, 29), "region": "South", "work": "unemployed"},
    {"age": (17, 44)},
    {"region": ["South", "West"]},
    {"work": {"unemployed", "retired"}},
    {"income": pd.Interval(10, 50)},
]


@pytest.mark.parametrize("query", QUESTIONS)
def test_the_interval_of_a_combined_cell_covers_the_truth(release, population, query):
    """Holds for this seed; `test_coverage` counts."""
    truth = release.holds(query, population).mean()
    (answer,) = release.answer(query)
    low, high = release.interval(query)[0]
    assert low <= truth <= high
    assert low <= answer <= high
    assert high - low < 0.03


def test_an_answer_is_the_sum_of_its_cells(release):
    cells = [{"age": "(16.999, 29.0]", "region": region} for region in ("South", "West")]
    combined = {"age": (17, 29), "region": np.array(["South", "West", "South"])}
    np.testing.assert_allclose(release.answer(combined), [release.answer(cells).sum()])
    # all other forms of the same query
    for age in ((None, 29), slice(None, 29), pd.Interval(17, 29, closed="both"), [(16.5, 29)]):
        for regions in (["West", "South"], {"South", "West"}, pd.Series(["South", "West"])):
            query = {"age": age, "region": regions}
            np.testing.assert_allclose(release.answer([query]), release.answer(combined))
    frame = pd.DataFrame({"age": [(17, 29)], "region": [["South", "West"]]})
    np.testing.assert_allclose(release.interval(frame), release.interval(combined))


def test_a_list_of_one_value_is_that_value(release):
    plain, listed = {"region": "South", "work": "retired"}, {"region": ["South"], "work": "retired"}
    assert release.interval(listed).tolist() == release.interval(plain).tolist()
    for level in (0.8, 0.99):
        simultaneous = release.interval(listed, level, simultaneous=True)
        assert simultaneous.tolist() == release.interval(plain, level, simultaneous=True).tolist()


def test_a_list_of_all_values_restricts_nothing(release):
    everybody = {"region": ["North", "South", "West", "(other)", "(missing)"]}
    assert release.answer({**everybody, "age": (None, None)}) == 1
    assert release.interval(everybody).tolist() == [[1, 1]]


def test_simultaneous_intervals_are_longer(release):
    single = release.interval(QUESTIONS)
    joint = release.interval(QUESTIONS, simultaneous=True)
    assert (joint[:, 0] <= single[:, 0]).all()
    assert (joint[:, 1] >= single[:, 1]).all()
    assert (joint[:, 1] > single[:, 1]).any()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"age": (17, 30)}, "numbers from 30 to 44"),
        ({"age": (29, 44)}, "numbers from 17 to 29"),
        ({"income": (10, 50)}, "pandas.Interval"),
        ({"age": (50, 20)}, "contains no number"),
        ({"age": (100, None)}, "contains no number"),
        ({"age": []}, "at least one value"),
        ({"age": slice(17, 29, 2)}, "step"),
        ({"age": ("a", 29)}, "must be numbers or dates"),
        ({"region": ("South", "West")}, "Pass a list"),
        ({"region": ["South", "nowhere"]}, "no category 'nowhere'"),
        ({"grade": ("low", "nowhere")}, "not a category"),
    ],
)
def test_ranges_consist_of_entire_bins(release, query, message):
    with pytest.raises(ValueError, match=message):
        release.answer(query)


def test_ends_of_ranges(release):
    """A whole number at the lower end of a bin belongs to the bin below."""
    middle = release.answer({"age": "(29.0, 44.0]"})
    for age in ((30, 44), pd.Interval(29, 44), pd.Interval(30, 45, closed="left")):
        assert release.answer({"age": age}) == middle


def test_dates():
    days = pd.date_range("2024-01-01", "2024-12-31")
    rng = np.random.default_rng(0)
    edges = [pd.Timestamp("2023-12-31"), pd.Timestamp("2024-06-30"), pd.Timestamp("2024-12-31")]
    queries = MarginalQueries(bins={"day": edges})
    frame = pd.DataFrame({"day": rng.choice(days, 4000), "sex": rng.choice(["f", "m"], 4000)})
    bounds = {"day": (edges[0], edges[-1])}
    release = PAPQueryRelease(queries, bounds=bounds, epsilon=10, random_state=0)
    release = release.fit(frame[200:], X_public=frame[:200])
    truth = (frame["day"] <= edges[1]).mean()
    assert abs(release.answer({"day": (None, "2024-06-30")})[0] - truth) < 0.01
    later = release.answer({"day": pd.Interval(edges[1], edges[2])})
    assert abs(later[0] - (1 - truth)) < 0.01


def test_a_number_that_stands_for_its_bin_warns(release):
    with pytest.warns(BinnedNumberWarning, match=r"number 30 .* bin '\(29.0, 44.0\]'"):
        release.answer({"age": 30})
    kids = pd.DataFrame({"kids": np.arange(4000) % 3})
    queries = MarginalQueries(bins={"kids": [-1, 0, 1, 3]})
    counted = PAPQueryRelease(queries, bounds={"kids": (-1, 3)}, random_state=0)
    counted = counted.fit(kids, X_public=kids[:100].copy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted.answer([{"kids": 0}, {"kids": 1}, {"kids": "(1.0, 3.0]"}])  # bins of one number
    with pytest.warns(BinnedNumberWarning):
        counted.answer({"kids": 2})


def test_answers_of_other_methods_are_sums():
    rows = people(500, 0)
    public = PAPQueryRelease(MarginalQueries(bins=EDGES), method="public", random_state=0)
    public = public.fit(people(100, 1), X_public=rows)
    query = {"region": ["South", "West"]}
    expected = rows["region"].isin(["South", "West"]).mean()
    np.testing.assert_allclose(public.answer(query), expected)
    with pytest.raises(ValueError, match="auto"):
        public.interval(query)


def test_there_are_no_intervals_after_calibration(release):
    shares = {"North": 0.4, "South": 0.4, "West": 0.2}
    calibrated = release.calibrate({"region": shares})
    assert abs(calibrated.answer({"region": ["South", "West"]})[0] - 0.6) < 1e-9
    for call in (
        lambda: calibrated.interval({"region": ["South", "West"]}),
        lambda: calibrated.table("region", collapse={"region": {"a": ["South", "West"]}}),
        lambda: calibrated.contrast({"region": "South"}, {"region": "West"}),
    ):
        with pytest.raises(ValueError, match="calibrate"):
            call()


def test_the_column_of_weights_cannot_be_queried():
    rows, public = people(3_000, 0)[["age", "region"]], people(200, 1)[["age", "region"]]
    rows["weight"], public["weight"] = 1.5, 1.0
    release = PAPQueryRelease(
        MarginalQueries(bins={"age": EDGES["age"]}), weights="weight",
        bounds={"age": (17, 90), "weight": (0, 2)}, random_state=0,
    )  # fmt: skip
    release = release.fit(rows, X_public=public)
    low, high = release.interval({"region": ["South", "West"]})[0]
    assert low < 0.5 < high
    for values in ([1], (0, 2), slice(None, 1)):
        with pytest.raises(ValueError, match="weight column cannot be queried"):
            release.answer({"weight": values, "region": ["South", "West"]})


# ---- collapsed tables ----------------------------------------------------------------------------


def test_a_collapsed_table_has_the_answers_and_intervals_of_combined_cells(release):
    collapse = {"age": [17, 44, 90], "region": {"coast": ["South", "West"]}}
    table = release.table(["age", "region"], collapse=collapse)
    assert table["age"].unique().tolist() == ["(16.999, 44.0]", "(44.0, 90.0]"]
    assert table["region"].unique().tolist() == ["North", "coast", "(other)", "(missing)"]
    row = table[(table["age"] == "(44.0, 90.0]") & (table["region"] == "coast")]
    query = {"age": (45, 90), "region": ["South", "West"]}
    np.testing.assert_allclose(row["fraction"], release.answer(query))
    np.testing.assert_allclose(row[["low", "high"]], release.interval(query), atol=2e-3)
    assert abs(table["fraction"].sum() - 1) < 1e-9


def test_shares_and_wide_tables_of_combined_cells(release, population):
    collapse = {"work": {"idle": ["unemployed", "retired"]}}
    shares = release.table("work", within="region", collapse=collapse)
    assert shares.loc[shares["region"] == "South", "share"].sum() == pytest.approx(1)
    idle = shares[(shares["region"] == "South") & (shares["work"] == "idle")].iloc[0]
    truth = population.loc[population["region"] == "South", "work"].ne("employed").mean()
    assert idle["low"] <= truth <= idle["high"]
    wide = release.table(["region", "work"], counts=True, wide=True, collapse=collapse)
    assert list(wide.columns) == ["region", "employed", "idle", "(other)", "(missing)"]


def test_order_and_names_of_combined_categories(release):
    table = release.table("grade", collapse={"grade": {"at least middle": ("middle", "high")}})
    assert table["grade"].tolist() == ["low", "at least middle", "(other)", "(missing)"]
    assert table["grade"].cat.ordered


@pytest.mark.parametrize(
    ("collapse", "message"),
    [
        ({"income": [0, 200]}, "not in the table"),
        ({"region": ["South", "West"]}, "must be a dict"),
        ({"region": {"a": ["South"], "b": ["South", "West"]}}, "overlap"),
        ({"age": [17, 30, 90]}, "counted in one bin"),
    ],
)
def test_invalid_groups(release, collapse, message):
    with pytest.raises(ValueError, match=message):
        release.table(["age", "region"], collapse=collapse)


# ---- contrasts -----------------------------------------------------------------------------------

UNEMPLOYED, FORCE = {"work": "unemployed"}, {"work": ["unemployed", "employed"]}
SOUTH, WEST = {"region": "South"}, {"region": "West"}


def holds(result, truth):
    return result.low <= truth <= result.high and result.low <= result.estimate <= result.high


def test_contrasts_cover_the_truth(release, population):
    is_in_force = population["work"] != "retired"
    rate = (population["work"] == "unemployed").mean() / is_in_force.mean()
    assert holds(release.contrast(UNEMPLOYED, FORCE, kind="ratio"), rate)
    assert holds(release.contrast(UNEMPLOYED, UNEMPLOYED, within=(SOUTH, WEST)), 0)
    assert holds(release.contrast(SOUTH, WEST), 0.1)
    last_year = fitted(1, unemployed=0.12)
    change = release.contrast(UNEMPLOYED, UNEMPLOYED, other=last_year)
    assert holds(change, -0.04)
    assert change.high < 0
    rates = release.contrast(UNEMPLOYED, UNEMPLOYED, other=last_year, within=FORCE)
    assert rates.low < rates.estimate < change.estimate


def test_a_rate_is_at_most_one(release):
    rate = release.contrast({"age": (17, 29)}, {"age": (17, 64)}, kind="ratio")
    assert 0 < rate.low < rate.high < 1
    assert release.contrast(SOUTH, {}).high < 0
    same = release.contrast(SOUTH, {"region": ["South", "(other)"]}, kind="ratio")
    assert same.high <= 1


def test_errors_of_contrast(release):
    with pytest.raises(ValueError, match="kind must be"):
        release.contrast(SOUTH, WEST, kind="sum")
    with pytest.raises(ValueError, match="must be a dict"):
        release.contrast([SOUTH], WEST)
    with pytest.raises(ValueError, match="No row"):
        release.contrast(SOUTH, WEST, within={"region": "North"})
    with pytest.raises(ValueError, match="not released"):
        release.contrast({"grade": "low", "region": "South"}, WEST)


def test_a_group_that_may_be_empty(release):
    nobody = {"region": "(other)"}
    result = release.contrast(UNEMPLOYED, UNEMPLOYED, within=(nobody, SOUTH))
    assert np.isnan(result.estimate)
    assert result.low < 0 < 0.5 < result.high
    result = release.contrast(SOUTH, nobody, kind="ratio")
    assert np.isnan(result.estimate)
    assert (result.low, result.high) == (0, np.inf)


def test_intervals_of_normal_answers():
    """For normal answers, MOVER gives the normal interval, and Fieller's for the ratio."""
    a, b = Contrast(0.5, 0.5 - 0.08, 0.5 + 0.08), Contrast(0.3, 0.3 - 0.06, 0.3 + 0.06)
    expected = np.sqrt(0.08**2 + 0.06**2 - 2 * 0.25 * 0.08 * 0.06)
    result = difference(a, b, 0.25)
    np.testing.assert_allclose([result.low, result.high], [0.2 - expected, 0.2 + expected])
    fraction = ratio(a, b, 0.25)
    for end in (fraction.low, fraction.high):
        width = np.sqrt(0.08**2 + (end * 0.06) ** 2 - 2 * 0.25 * 0.08 * end * 0.06)
        assert abs(a.estimate - end * b.estimate) == pytest.approx(width)


# ---- ordered categories --------------------------------------------------------------------------


def test_ordered_categories_have_a_cdf_and_a_median(release):
    np.testing.assert_allclose(release.cdf(GRADES, "grade"), [0.2, 0.7, 1], atol=0.02)
    ends = release.cdf_interval(["low", "middle"], "grade")
    assert ((ends[:, 0] <= [0.2, 0.7]) & (ends[:, 1] >= [0.2, 0.7])).all()
    assert release.quantile(0.5, "grade") == "middle"
    assert release.quantile([0.1, 0.9], "grade").tolist() == ["low", "high"]
    assert release.quantile_interval(0.7, "grade").tolist() == ["middle", "high"]
    assert release.quantile_interval([0.1, 0.5], "grade")[1].tolist() == ["middle", "middle"]
    wider = release.cdf_interval("low", "grade", simultaneous=True)
    assert wider[0] < ends[0, 0] < ends[0, 1] < wider[1]
    with pytest.raises(ValueError, match="categories of column grade"):
        release.cdf("best", "grade")


# ---- coverage ------------------------------------------------------------------------------------


def test_coverage(population):
    """Of 30 fits with 9 intervals, at least 88% hold; 95% are expected.

    The intervals of a fit are dependent. If all of its intervals failed together, 30 fits would
    have a standard error of .04.
    """
    truths = [float(fitted(0).holds(query, population).mean()) for query in QUESTIONS]
    rate = population["work"].eq("unemployed").mean() / population["work"].ne("retired").mean()
    n_held = n_intervals = 0
    for seed in range(30):
        release = fitted(seed + 100, n=5_000, epsilon=1.0)
        ends = release.interval(QUESTIONS)
        held = [low <= truth <= high for truth, (low, high) in zip(truths, ends, strict=True)]
        held.append(holds(release.contrast(UNEMPLOYED, FORCE, kind="ratio"), rate))
        held.append(holds(release.contrast(SOUTH, WEST), 0.1))
        held.append(holds(release.contrast(UNEMPLOYED, UNEMPLOYED, within=(SOUTH, WEST)), 0))
        n_held, n_intervals = n_held + sum(held), n_intervals + len(held)
    assert n_held >= 0.88 * n_intervals


# ---- the posterior of combined cells -------------------------------------------------------------


def test_collapsed_posteriors(release):
    """Codes that are only renamed change nothing, and fractions of one column sum to 1."""
    tables = release._released.answers.release
    columns = (0, 1, 2)
    reverse = {column: np.arange(tables.sizes[column])[::-1] for column in columns}
    for subset in [columns, (0, 2)]:
        posterior = tables.posteriors[subset]
        renamed = collapse_posterior(posterior, reverse)
        np.testing.assert_allclose(renamed.estimate, np.flip(posterior.estimate))
        for before, after in zip(posterior.cells, renamed.cells, strict=True):
            np.testing.assert_allclose(after, before[::-1], rtol=1e-3, atol=1e-9)
    one_way = tables.posteriors[0,]
    halves = {0: np.arange(tables.sizes[0]) % 2}
    collapsed = collapse_posterior(one_way, halves)
    assert collapsed.cells.values.sum() == pytest.approx(1)
    # both cells have the same error, whose variance is that of the difference of noisy cells
    noise = 1 / one_way.cells.precisions
    odd = halves[0] == 1
    expected = noise[odd].sum() * noise[~odd].sum() / noise.sum()
    variances = collapsed.cells.residual_noise_share / collapsed.cells.precisions
    np.testing.assert_allclose(variances, expected)
    deficit = 1 - one_way.cells.values.sum()
    expected = one_way.cells.values[odd].sum() + deficit * noise[odd].sum() / noise.sum()
    np.testing.assert_allclose(collapsed.cells.values[1], expected)


def test_errors_have_the_size_that_the_posterior_says():
    """Root mean square of standardised differences of two answers; 1 is expected."""
    queries = [{1: np.array([1])}, {1: np.array([2])}]
    squares = []
    for seed in range(40):
        release = fitted(seed + 200, n=3_000, epsilon=0.3)
        matrix = covariance(release._released, queries)
        names = [release._schema.columns[1].names[code] for code in (1, 2)]
        truth = {"North": 0.5, "South": 0.3, "West": 0.2}
        estimates = release.answer([{"region": name} for name in names])
        error = estimates[0] - estimates[1] - truth[names[0]] + truth[names[1]]
        squares.append(error**2 / (matrix[0, 0] + matrix[1, 1] - 2 * matrix[0, 1]))
    # 40 squares of normal numbers have a mean between .3 and 2.3 with probability 1 - 1e-5
    assert 0.3 < np.mean(squares) < 2.3
