"""Differences of two releases: what is reported has changed."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skpublicdp import PAPQueryRelease
from skpublicdp.metrics import measure_drift, private_scores
from skpublicdp.query_release import MarginalQueries
from tests.metrics.test_metrics import Scored
from tests.metrics.test_thresholds import rare

REGIONS = np.array(["north", "south", "west"])


def people(n, rng, shift=0.0, north=0.5):
    region = rng.choice(REGIONS, size=n, p=[north, 0.9 - north, 0.1])
    return pd.DataFrame({"age": rng.normal(40 + shift, 10, size=n), "region": region})


PUBLIC = people(300, np.random.default_rng(0))


def released(rows, seed=0, **settings):
    return PAPQueryRelease(random_state=seed, **settings).fit(rows, X_public=PUBLIC)


def share_of(cell, shift):
    """The probability of a cell of age."""
    low, high = -np.inf, np.inf
    if "to" in cell:
        low, high = map(float, cell.split(" to "))
    elif cell.startswith("<="):
        high = float(cell.removeprefix("<= "))
    elif cell.startswith("> "):
        low = float(cell.removeprefix("> "))
    else:
        return 0.0
    return float(np.diff(norm.cdf([low, high], 40 + shift, 10))[0])


@pytest.mark.once
def test_intervals_contain_the_differences_of_the_populations():
    held, named = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        before = released(people(20_000, rng), seed)
        after = released(people(5000, rng, shift=5), seed + 100)
        drift = measure_drift(before, after)
        table = next(table for table in drift.tables if table.columns == ("age",))
        true = np.array([share_of(cell, 5) - share_of(cell, 0) for (cell,) in table.cells])
        assert np.abs(true).sum() > 0.2
        held += ((table.low <= true) & (true <= table.high)).all()
        assert table.least_change <= np.abs(true).sum() / 2 or not held
        named += drift.drifted == ("age",)
    assert held >= 19
    assert named >= 18


@pytest.mark.once
def test_two_samples_of_one_population_have_not_drifted():
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        before, after = released(people(20_000, rng), seed), released(people(5000, rng), seed + 50)
        alarms += measure_drift(before, after).drifted != ()
    assert alarms <= 1


def test_a_release_has_not_drifted_from_itself():
    release = released(people(3000, np.random.default_rng(1)))
    drift = measure_drift(release, release)
    assert drift.drifted == ()
    assert "no change is certain" in repr(drift)
    assert {table.columns for table in drift.tables} == {("age",), ("region",), ("age", "region")}
    for table in drift.tables:
        assert (table.difference == 0).all()
        assert (table.low <= 0).all()
        assert (table.high >= 0).all()
        assert len(table.cells) == len(table.low)


def test_the_largest_change_comes_first_and_pairs_only_if_no_column_is_named():
    rng = np.random.default_rng(2)
    before = released(people(20_000, rng), epsilon=5)
    after = released(people(20_000, rng, shift=3, north=0.2), 1, epsilon=5)
    drift = measure_drift(before, after)
    assert set(drift.drifted) == {"age", "region"}
    changes = [table.least_change for table in drift.tables]
    assert changes == sorted(changes, reverse=True)
    assert "region: changed by at least 0.2" in repr(drift)
    region = next(table for table in drift.tables if table.columns == ("region",))
    place = region.cells.index(("north",))
    assert region.high[place] < -0.25
    assert 0.25 < region.least_change <= 0.3 + 1e-9


def test_an_association_that_appears():
    rng = np.random.default_rng(3)

    def pair(n, copied):
        one = rng.integers(2, size=n)
        other = np.where(rng.random(n) < copied, one, rng.integers(2, size=n))
        return pd.DataFrame({"one": one.astype(str), "other": other.astype(str)})

    public = pair(300, 0)
    before, after = (
        PAPQueryRelease(random_state=seed).fit(pair(20_000, copied), X_public=public)
        for seed, copied in enumerate([0, 0.5])
    )
    assert measure_drift(before, after).drifted == ("one × other",)


@pytest.mark.parametrize("kind", ["polars", "array"])
def test_other_containers(kind):
    rng = np.random.default_rng(4)
    rows, other = (people(2000, rng)[["age"]].assign(b=rng.normal(size=2000)) for _ in range(2))
    public = PUBLIC[["age"]].assign(b=rng.normal(size=300))
    convert = np.asarray
    if kind == "polars":
        convert = pytest.importorskip("polars").from_pandas

    def drift(convert):
        queries = MarginalQueries(k=1)
        releases = [
            PAPQueryRelease(queries, random_state=0).fit(convert(one), X_public=convert(public))
            for one in (rows, other)
        ]
        return measure_drift(*releases)

    found = drift(convert).tables
    for one, two in zip(drift(pd.DataFrame).tables, found, strict=True):
        np.testing.assert_allclose(one.low, two.low)
        assert one.cells == two.cells
    expected = {("x0",), ("x1",)} if kind == "array" else {("age",), ("b",)}
    assert {table.columns for table in found} == expected


def test_scores():
    rng = np.random.default_rng(5)
    x, y = rare(5000, rng, share=0.4)
    before = private_scores(Scored(), x, y, random_state=0)
    same, worse = rare(5000, rng, share=0.4), (x, rng.permutation(y))
    assert measure_drift(before, private_scores(Scored(), *same, random_state=1)).drifted == ()
    after = private_scores(Scored(), *worse, random_state=1)
    drift = measure_drift(before, after)
    assert set(drift.drifted) == {"accuracy", "balanced_accuracy", "roc_auc", "brier"}
    (accuracy,) = (table for table in drift.tables if table.columns == ("accuracy",))
    assert accuracy.difference[0] == pytest.approx(after.accuracy - before.accuracy)
    low, high = after.interval("accuracy", 0.975)
    assert accuracy.high[0] == pytest.approx(high - before.interval("accuracy", 0.975)[0])
    assert accuracy.low[0] == pytest.approx(low - before.interval("accuracy", 0.975)[1])


def test_refusals():
    release = released(people(500, np.random.default_rng(6)))
    scores = private_scores(Scored(), np.full((30, 1), 0.3), ["no"] * 30)
    with pytest.raises(TypeError, match="got PAPQueryRelease and PrivateScores"):
        measure_drift(release, scores)
    other = PAPQueryRelease(MarginalQueries(k=1)).fit(
        people(500, np.random.default_rng(7)).rename(columns=str.upper),
        X_public=PUBLIC.rename(columns=str.upper),
    )
    with pytest.raises(ValueError, match="same cells in common"):
        measure_drift(release, other)
    with pytest.raises(ValueError, match="level"):
        measure_drift(release, release, level=1.0)
