"""Histograms by group, frames that spreadsheets accept, and the paragraph about the method."""

import numpy as np
import pandas as pd
import pytest

import skpublicdp
from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import UncoveredBoundsWarning
from skpublicdp.query_release import MarginalQueries

EDGES = [0, 10, 20, 50, 200]


def people(n, seed):
    rng = np.random.default_rng(seed)
    region = rng.choice(["North", "South"], size=n, p=[0.6, 0.4])
    scale = np.where(region == "North", 12, 8)
    return pd.DataFrame(
        {
            "region": region,
            "income": rng.gamma(2, scale).round(1).clip(0, 200),
            "married": rng.random(n) < 0.5,
            "born": pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "weight": rng.uniform(0.5, 2, n),
        }
    )


def fitted(rows, queries=None, **settings):
    queries = queries or MarginalQueries(bins={"income": EDGES})
    bounds = {"income": (0, 200), "weight": (0, 2)}
    bounds = {name: bound for name, bound in bounds.items() if name in rows}
    release = PAPQueryRelease(queries, bounds=bounds, random_state=0, **settings)
    return release.fit(rows, X_public=people(300, 1)[list(rows)])


@pytest.fixture(scope="module")
def release():
    return fitted(people(20_000, 0).drop(columns="weight"))


def test_histogram_by_group(release):
    table = release.histogram(column="income", by="region")
    assert list(table.columns) == ["region", "bin", "fraction"]
    labels = release.table("income")["income"].tolist()
    north = table[table["region"] == "North"]
    assert north["bin"].tolist() == labels
    assert north["fraction"].sum() == pytest.approx(1)
    large = people(400_000, 2)
    truth = np.histogram(large.loc[large["region"] == "North", "income"], EDGES)[0]
    truth = truth / truth.sum()
    ends = release.histogram_interval(column="income", by="region")
    ends = ends[ends["region"] == "North"]
    np.testing.assert_allclose(ends["fraction"], north["fraction"])
    joint = release.histogram_interval(column="income", by="region", simultaneous=True)
    joint = joint[joint["region"] == "North"]
    assert ((joint["low"] <= truth) & (truth <= joint["high"])).all()
    assert (joint["high"] - joint["low"] >= ends["high"] - ends["low"]).all()


def test_own_edges_of_a_histogram_by_group(release):
    table = release.histogram([-np.inf, 20, np.inf], "income", by="region")
    assert table["bin"].unique().tolist() == ["(-inf, 20.0]", "(20.0, inf]"]
    with pytest.warns(UncoveredBoundsWarning):
        release.histogram([0, 20], "income", by="region")
    with pytest.raises(ValueError, match="not released"):
        PAPQueryRelease.histogram(
            fitted(people(3_000, 0).drop(columns="weight"), MarginalQueries(k=1)),
            EDGES, "income", by="region",
        )  # fmt: skip


def test_frames_fit_into_a_spreadsheet(release):
    """One header row of text, and cells of plain types."""
    frames = [
        release.table(["region", "income"], counts="whole", quality=True, suppress="D"),
        release.table(["region", "income"], wide=True),
        release.table("income", collapse={"income": [0, 20, 200]}),
        release.histogram_interval(column="income", by="region"),
        release.mean_interval("income", by="married"),
        release.quantile_interval(0.5, "born", by="region"),
        release.cdf_interval([10.0], "income", by="region"),
        release.fidelity(200),
        *release.tables(counts=True),
    ]
    for frame in frames:
        assert frame.columns.nlevels == 1
        assert all(isinstance(name, str) for name in frame.columns)
        assert isinstance(frame.index, pd.RangeIndex)
        for _, column in frame.items():
            values = column.astype(object)
            plain = (str, int, float, bool, np.number, np.bool_, pd.Timestamp)
            assert all(isinstance(value, plain) for value in values)
            assert not any(getattr(value, "tzinfo", None) for value in values)


def test_the_paragraph_states_the_facts(release):
    text = release.describe_method()
    receipt = release.privacy_
    for fact in (
        "(ε, δ)-differential privacy with ε = 1 and δ = 2.5e-09",
        receipt.unit,
        "20,000 private rows and 300 public rows",
        "region × income; region × married",
        "income was limited to 0 to 200 and counted in 4 cells",
        "born was limited to ",
        "random numbers were seeded",
        "simple random sample",
        f"skpublicdp {skpublicdp.__version__}, PAPQueryRelease",
        "on 10 tables",
        *receipt.assumptions,
    ):
        assert fact in text
    calibrated = release.calibrate({"region": {"North": 0.5, "South": 0.5}})
    assert "raked to known totals of region" in calibrated.describe_method()


def test_paragraphs_of_other_releases():
    rows = people(3_000, 0)
    weighted = fitted(rows, weights="weight", delta=0).describe_method()
    assert "ε-differential privacy with ε = 1." in weighted
    assert "Rows were weighted by weight, at most 2." in weighted
    public = PAPQueryRelease(method="public", random_state=0)
    text = public.fit(rows[["region"]], X_public=people(300, 1)[["region"]]).describe_method()
    assert "No private row was used" in text
    assert "Intervals" not in text
    grouped = PAPQueryRelease(MarginalQueries(), max_rows_per_group=2, random_state=0)
    grouped = grouped.fit(
        rows[["region"]], X_public=people(300, 1)[["region"]], groups=np.arange(3_000) // 2
    )
    assert "person" in grouped.describe_method()
