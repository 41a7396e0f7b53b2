"""One rule for names and types: what a release returns fits together, and fits its input.

Every method of a release, for every type of column, is merged with the others, asked as a query,
and written to and read from CSV and Parquet.
"""

import datetime as dt
import io
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.data import describe_columns
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.query_release import CustomQueries, MarginalQueries, ThresholdQueries
from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.data import MISSING, OTHER, parse_bounds

pytestmark = pytest.mark.skipif(
    pd.Series(["a"]).dtype == object, reason="pandas declares text from version 3 on"
)

N, M = 1500, 120
EASTERN = "US/Eastern"
RESULT_COLUMNS = (
    *("fraction", "share", "low", "high", "count", "count_low", "count_high"),
    *("mean", "total", "ratio", "p", "quantile", "x", "bin", "quality"),
)
"""Names of all columns with values in frames that can have group columns."""


def _some_missing(rng, values, dtype):
    values = np.array(values, dtype=object)
    values[rng.random(len(values)) < 0.2] = None
    return pd.Series(pd.array(values, dtype=dtype))


def _days(rng, n, dtype):
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"))
    zone = getattr(dtype, "tz", None)
    return (days if zone is None else days.dt.tz_localize(zone)).astype(dtype)


TYPES = {
    "text": lambda r, n: pd.Series(r.choice(["a", "b", "c"], n)),
    "text of digits": lambda r, n: pd.Series(r.choice(["001", "010", "9"], n)),
    "text with missing": lambda r, n: _some_missing(r, r.choice(["a", "b"], n), "str"),
    "python string": lambda r, n: _some_missing(r, r.choice(["a", "b"], n), "string"),
    "object text": lambda r, n: _some_missing(r, r.choice(["a", "b"], n), "str").astype(object),
    "arrow text": lambda r, n: _some_missing(r, r.choice(["a", "b"], n), "string[pyarrow]"),
    "bool": lambda r, n: pd.Series(r.random(n) < 0.3),
    "boolean": lambda r, n: _some_missing(r, r.random(n) < 0.3, "boolean"),
    "object bool": lambda r, n: _some_missing(r, r.random(n) < 0.3, "boolean").astype(object),
    "categorical": lambda r, n: pd.Series(pd.Categorical(r.choice(["x", "y"], n), ["y", "x", "z"])),
    "ordered": lambda r, n: pd.Series(
        pd.Categorical(r.choice(["lo", "mid", "hi"], n), ["lo", "mid", "hi"], ordered=True)
    ),
    "ordered numbers": lambda r, n: pd.Series(
        pd.Categorical(r.choice([1, 2, 9], n), [9, 2, 1], ordered=True)
    ),
    "codes": lambda r, n: pd.Series(pd.Categorical(r.choice([1, 2, 9], n), [1, 2, 9])),
    "int64": lambda r, n: pd.Series(r.integers(0, 4, n)),
    "uint8": lambda r, n: pd.Series(r.integers(0, 250, n).astype("uint8")),
    "large int": lambda r, n: pd.Series(2**60 + r.integers(0, 40, n)),
    "Int64": lambda r, n: _some_missing(r, r.integers(0, 4, n), "Int64"),
    "large Int64": lambda r, n: _some_missing(r, 2**60 + r.integers(0, 40, n), "Int64"),
    "float": lambda r, n: pd.Series(r.normal(50, 10, n).round(1)),
    "whole float": lambda r, n: pd.Series(r.integers(0, 4, n).astype(float)),
    "float32": lambda r, n: pd.Series(r.normal(size=n).astype("float32")),
    "float with missing": lambda r, n: pd.Series(np.where(r.random(n) < 0.2, np.nan, r.random(n))),
    "Float64": lambda r, n: _some_missing(r, r.random(n).round(2), "Float64"),
    "arrow int": lambda r, n: _some_missing(r, r.integers(0, 4, n), "int64[pyarrow]"),
    "large float": lambda r, n: pd.Series(2e7 + r.gamma(2, 60, n).round()),
    "ns dates": lambda r, n: _days(r, n, np.dtype("M8[ns]")),
    "s dates": lambda r, n: _days(r, n, np.dtype("M8[s]")),
    "dates with missing": lambda r, n: _days(r, n, np.dtype("M8[us]")).mask(r.random(n) < 0.2),
    "dates with zone": lambda r, n: _days(r, n, pd.DatetimeTZDtype("us", EASTERN)),
    "dates with offset": lambda r, n: _days(r, n, pd.DatetimeTZDtype("us", "+02:00")),
}


def frames(kind, seed=0):
    rng = np.random.default_rng(seed)
    rows, public = (
        pd.DataFrame(
            {"c": TYPES[kind](rng, n), "x": rng.normal(size=n), "g": rng.choice(["u", "v"], n)}
        )
        for n in (N, M)
    )
    return rows, public


def fitted(rows, public, queries=None, **settings):
    return PAPQueryRelease(queries, random_state=0, **settings).fit(rows, X_public=public)


def results(release):
    """Return the frames of all methods that have the column c among their groups."""
    return {
        "table": release.table("c", counts=True),
        "two columns": release.table(["c", "g"]),
        "shares": release.table("g", within="c"),
        "mean": release.mean("x", by="c"),
        "mean interval": release.mean_interval("x", by="c"),
        "cdf": release.cdf([0.0], "x", by="c"),
        "cdf interval": release.cdf_interval([0.0], "x", by="c"),
        "quantile": release.quantile([0.5], "x", by="c"),
        "quantile interval": release.quantile_interval([0.5], "x", by="c"),
    }


@pytest.fixture(params=TYPES, scope="module")
def case(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, public = frames(request.param)
        return request.param, fitted(rows, public), rows, public


@pytest.fixture(scope="module")
def outputs(case):
    _, release, _, _ = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return results(release)


@pytest.mark.one_in(5)
def test_all_methods_have_the_same_cells(outputs):
    cells = outputs["table"]
    assert cells["c"].is_unique
    for name, output in outputs.items():
        assert output["c"].dtype == cells["c"].dtype, name
        merged = output.merge(cells, on="c")
        assert len(merged) == len(output), name
        assert set(output["c"]) <= set(cells["c"]), name
        assert output.columns.is_unique, name


@pytest.mark.one_in(5)
def test_each_cell_is_a_query(case):
    _, release, _, _ = case
    table = release.table("c")
    np.testing.assert_array_equal(release.answer(table[["c"]]), table["fraction"])
    one_by_one = [release.answer({"c": cell})[0] for cell in table["c"]]
    np.testing.assert_array_equal(one_by_one, table["fraction"])
    totals = dict(zip(table["c"], table["fraction"], strict=True))
    calibrated = release.calibrate({"c": totals}).table("c")
    np.testing.assert_allclose(calibrated["fraction"], table["fraction"], atol=1e-9)


@pytest.mark.one_in(5)
def test_frames_are_written_and_read(outputs):
    for name, output in outputs.items():
        file = io.BytesIO()
        output.to_parquet(file)
        pd.testing.assert_frame_equal(pd.read_parquet(file), output)
        text = output.to_csv(index=False)
        read = pd.read_csv(io.StringIO(text), dtype={"c": str}, keep_default_na=False)
        assert read["c"].tolist() == output["c"].astype(str).tolist(), name


TYPES_OF_SYNTHETIC_ROWS = {
    "object text": "str",
    "python string": "str",
    "arrow text": "str",
    "boolean": "object",
    "uint8": "int64",
    "Int64": "float64",
    "whole float": "int64",
    "float32": "float64",
    "Float64": "float64",
    "arrow int": "float64",
    "large float": "int64",
    "ns dates": "M8[us]",
    "s dates": "M8[us]",
}
"""Types in pandas of synthetic rows that differ from the declared type of the private rows, which a
private value can change."""


@pytest.mark.one_in(5)
def test_synthetic_rows_have_the_types_of_public_values(case):
    kind, release, rows, public = case
    type_ = TYPES_OF_SYNTHETIC_ROWS.get(kind, rows["c"].dtype)
    for n in (0, 1, 400):
        sample = release.sample(n)
        assert list(sample.columns) == list(rows.columns)
        assert sample["x"].dtype == rows["x"].dtype
        assert sample["g"].dtype == rows["g"].dtype
        if n == 400 or not rows["c"].isna().any():  # a missing value changes the type
            assert sample["c"].dtype == type_
    if rows["c"].isna().any():
        assert sample["c"].isna().mean() == pytest.approx(0.2, abs=0.1)
        assert not release.sample(200, keep_missing=False)["c"].isna().any()
    known = set(sample["c"].dropna())
    assert MISSING not in known
    assert known <= {*rows["c"], *public["c"], OTHER}
    file = io.BytesIO()
    sample.to_parquet(file)
    read = pd.read_parquet(file)
    read_values, values = (
        frame.astype(object).where(frame.notna(), None) for frame in (read, sample)
    )
    pd.testing.assert_frame_equal(read_values, values)
    # the next release accepts them as public rows
    again = fitted(rows, sample.head(150))
    assert again.table("c")["c"].is_unique


def test_booleans_without_missing_public_values_are_bool():
    """Under much noise, "(missing)" has released mass, which no column of bool can hold."""
    rows, public = frames("bool")
    release = fitted(rows, public, epsilon=0.2)
    assert release.table("c").set_index("c")["fraction"][MISSING] > 0
    for n in (10, 10_000):
        assert release.sample(n)["c"].dtype == bool
    assert not release.sample(3000, constraints=lambda X: ~X["c"])["c"].any()
    # a private value must not decide
    assert fitted(rows.astype({"c": object}), public).sample(10_000)["c"].dtype == bool


def test_categories_that_no_type_lists_include_other():
    pa = pytest.importorskip("pyarrow")
    dictionary = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
    rng = np.random.default_rng(0)
    rows, public = (
        pd.DataFrame({"c": pd.Series(rng.choice(list(letters), n)).astype(dictionary)})
        for letters, n in (("abz", N), ("ab", M))
    )
    release = fitted(rows, public, epsilon=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample = release.sample(600)["c"]
    assert sample.cat.categories.tolist() == ["a", "b", OTHER]
    assert (sample == OTHER).mean() == pytest.approx(1 / 3, abs=0.1)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize(
    "kind",
    [
        "text with missing",
        "boolean",
        "Int64",
        "uint8",
        "float32",
        "Float64",
        "ns dates",
        "dates with missing",
        "dates with zone",
        "ordered",
        "large Int64",
    ],
)
def test_other_libraries(kind, library):
    pl = pytest.importorskip("polars")
    rows, public = map(pl.from_pandas, frames(kind))
    if kind == "ordered":
        enum = pl.Enum(["lo", "mid", "hi"])
        rows, public = (frame.with_columns(pl.col("c").cast(enum)) for frame in (rows, public))
    if library == "pyarrow":
        rows, public = rows.to_arrow(), public.to_arrow()
    release = fitted(rows, public)
    sample = release.sample(300)
    if library == "pyarrow":
        missing = sample["c"].null_count
        as_polars = pl.from_arrow(sample)
    else:
        missing = sample["c"].null_count()
        as_polars = sample
    types = {"uint8": pl.Int64, "float32": pl.Float64, "ns dates": pl.Datetime("us")}
    type_ = types.get(kind, pl.from_pandas(frames(kind)[0]).schema["c"])
    if kind == "ordered":
        type_ = enum if library == "polars" else as_polars.schema["c"]
        assert library == "polars" or sample.schema.field("c").type.ordered
    assert as_polars.schema == {"c": type_, "x": pl.Float64, "g": pl.String}
    if kind == "large Int64":  # which floats cannot represent
        known = {*frames(kind)[0]["c"].dropna(), *frames(kind)[1]["c"].dropna()}
        assert set(as_polars["c"].drop_nulls()) <= known
    if "missing" in kind or kind in ("boolean", "Int64", "Float64", "large Int64"):
        assert missing == pytest.approx(60, abs=30)
    cells = release.table("c")
    groups = release.mean("x", by="c")
    if library == "pyarrow":
        assert cells.schema.field("c") == groups.schema.field("c")
    else:
        assert cells.schema["c"] == groups.schema["c"]
        assert len(groups.join(cells, on="c")) == len(groups)
        if kind == "ordered":
            assert cells["c"].dtype == pl.Enum(["lo", "mid", "hi", OTHER, MISSING])
    np.testing.assert_array_equal(release.answer(cells.select(["c"])), cells["fraction"])


@pytest.mark.parametrize("queries", [ThresholdQueries(), MarginalQueries()])
@pytest.mark.parametrize("values", [None, 3])
def test_names_of_bins_in_a_narrow_range_differ(queries, values):
    rng = np.random.default_rng(0)

    def draw(n):
        numbers = rng.random(n) if values is None else rng.integers(0, values, n)
        return pd.DataFrame({"x": 1000 + 0.001 * numbers + 0.0001})

    names = fitted(draw(N), draw(M), queries).table("x")["x"].astype(str)
    assert names.str.strip("<=> ").is_unique


@pytest.mark.parametrize("zone", [None, EASTERN])
@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_cells_of_single_dates_are_dates(library, zone):
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    times = pd.Timestamp("2020-01-01 22:00", tz=zone) + pd.to_timedelta(np.arange(4), "D")
    rows, public = (
        pl.from_pandas(pd.DataFrame({"c": rng.choice(times, n), "x": rng.normal(size=n)}))
        for n in (N, M)
    )
    if library == "pyarrow":
        rows, public = rows.to_arrow(), public.to_arrow()
    release = fitted(rows, public, bounds={"c": ("2020-01-01 22:00", "2020-01-04 22:00")})
    table, means = release.table("c"), release.mean("x", by="c")
    np.testing.assert_array_equal(release.answer(table.select(["c"])), table["fraction"])
    if library == "pyarrow":
        table, means = pl.from_arrow(table), pl.from_arrow(means)
    assert table.schema["c"] == pl.Datetime("us", zone)
    assert table["c"].dt.day().to_list() == [1, 2, 3, 4]
    table.write_parquet(io.BytesIO())
    assert len(means.join(table, on="c")) == 4


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        (np.arange(300).reshape(-1, 1) % 7, np.int64),
        ((np.arange(300).reshape(-1, 1) % 7).astype("int8"), np.int64),
        ((np.arange(300).reshape(-1, 1) % 7).astype(float), np.int64),
        (np.arange(300, dtype="float32").reshape(-1, 1) / 2, np.float64),
        (np.arange(300).reshape(-1, 1) % 2 > 0, np.int64),
        (np.datetime64("2020-01-01", "D") + np.arange(300).reshape(-1, 1), object),
    ],
)
def test_types_of_arrays_follow_public_values(rows, dtype):
    queries = MarginalQueries() if rows.dtype.kind == "M" else ThresholdQueries()
    sample = fitted(rows, rows[:50].copy(), queries).sample(100)
    assert sample.dtype == dtype
    assert sample.shape == (100, 1)


class TestReservedNames:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("name", [*RESULT_COLUMNS, "fraction_"])
    def test_a_column_of_the_user_is_never_overwritten(self, name):
        rows, public = frames("text")
        plain = fitted(rows, public)
        new_names = {"c": name, "x": "number"}
        release = fitted(rows.rename(columns=new_names), public.rename(columns=new_names))
        pairs = (
            (release.table([name, "g"], counts=True), plain.table(["c", "g"], counts=True)),
            (release.table("g", within=name), plain.table("g", within="c")),
            (release.mean("number", by=name), plain.mean("x", by="c")),
            (release.mean_interval("number", by=name), plain.mean_interval("x", by="c")),
            (release.cdf([0], "number", by=name), plain.cdf([0], "x", by="c")),
            (release.cdf_interval([0], "number", by=name), plain.cdf_interval([0], "x", by="c")),
            (release.quantile([0.5], "number", by=name), plain.quantile([0.5], "x", by="c")),
            (
                release.quantile_interval([0.5], "number", by=name),
                plain.quantile_interval([0.5], "x", by="c"),
            ),
        )
        for output, expected in pairs:
            assert output.columns.is_unique
            # only the colliding name has an underscore
            new_names = {"c": name, name: f"{name}_"}
            assert list(output.columns) == [new_names.get(each, each) for each in expected]
            values = output.set_axis(expected.columns, axis=1)
            pd.testing.assert_frame_equal(values, expected)
        wide = release.table(["g", name], wide="fraction")
        assert list(wide.columns) == ["g", "a", "b", "c", OTHER, MISSING]

    def test_no_result_has_another_name(self):
        release = fitted(*frames("text"))
        names = {name for output in results(release).values() for name in output}
        assert names - {"c", "g"} <= set(RESULT_COLUMNS)

    @pytest.mark.parametrize("marker", [OTHER, MISSING])
    @pytest.mark.parametrize("where", ["private", "public", "both", "declared"])
    def test_markers_in_the_input_are_their_cells(self, marker, where):
        """Rows called "(other)" or "(missing)" are counted in the one cell of this name."""
        rows, public = frames("text")
        is_marked = np.arange(N) % 5 == 0
        if where != "public":
            rows.loc[is_marked, "c"] = marker
        if where != "private":
            public.loc[::5, "c"] = marker
        if where == "declared":
            dtype = pd.CategoricalDtype([marker, "a", "b", "c"])
            rows, public = rows.astype({"c": dtype}), public.astype({"c": dtype})
        release = fitted(rows, public, epsilon=20)
        table = release.table("c")
        assert table["c"].tolist() == ["a", "b", "c", OTHER, MISSING]
        share = 0.0 if where == "public" else is_marked.mean()
        assert release.answer({"c": marker})[0] == pytest.approx(share, abs=0.02)
        sample = release.sample(500)
        assert sample["c"].dtype == rows["c"].dtype
        if where != "public":
            drawn = sample["c"].isna() if marker == MISSING else sample["c"] == OTHER
            assert drawn.mean() == pytest.approx(share, abs=0.1)


def numbered(labels):
    """Return rows whose columns have numbers as names: text, text and numbers."""
    parts = []
    for n, seed in ((N, 0), (M, 1)):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(
            {0: rng.choice(["a", "b"], n), 1: rng.choice(["u", "v"], n), 2: rng.integers(0, 9, n)}
        )
        parts.append(frame.set_axis(list(labels), axis=1))
    return parts


class TestNumbersAsNames:
    @pytest.mark.parametrize("labels", [(1, 2, 3), (1, 0, 2), (2018, 2019, 2020), (2.5, 1.0, 7.0)])
    def test_a_number_is_a_name(self, labels):
        rows, public = numbered(labels)
        first, second, third = labels
        queries = MarginalQueries(k=2, bins={third: 3})
        release = fitted(rows, public, queries, bounds={third: (0, 8)})
        assert release.table(first).iloc[:, 0].tolist()[:2] == ["a", "b"]
        assert release.table(second).iloc[:, 0].tolist()[:2] == ["u", "v"]
        assert len(release.table(third)) == 3
        assert release.table(str(first)).equals(release.table(first))
        assert release.mean(third) == pytest.approx(rows[third].mean(), abs=0.5)
        assert list(release.mean(third, by=first)) == [str(first), "mean"]
        answers = [
            release.answer(query)[0] for query in ({first: "a"}, pd.DataFrame({first: ["a"]}))
        ]
        np.testing.assert_allclose(answers, release.table(first)["fraction"][0])
        calibrated = release.calibrate({first: {"a": 1, "b": 3}}).table(first)
        assert calibrated["fraction"].tolist()[:2] == pytest.approx([0.25, 0.75])
        assert list(release.sample(3).columns) == list(labels)

    def test_positions_are_no_names(self):
        release = fitted(*numbered((1, 2, 3)))
        with pytest.raises(ValueError, match="because the names of the columns are numbers; got 0"):
            release.table(0)
        with pytest.raises(ValueError, match="bounds refers to a column that X does not have: 0"):
            fitted(*numbered((1, 2, 3)), bounds={0: (0, 1)})
        with pytest.raises(ValueError, match="missing must list columns of X"):
            fitted(*numbered((1, 2, 3)), MarginalQueries(missing=[0]))

    def test_default_labels_and_text_are_positions(self):
        for labels in ((0, 1, 2), ("1", "0", "2")):
            release = fitted(*numbered(labels))
            assert release.table(0).iloc[:, 0].tolist()[:2] == ["a", "b"]
        assert release.table("0").iloc[:, 0].tolist()[:2] == ["u", "v"]

    def test_public_rows_are_matched_by_name(self):
        rows, public = numbered((1, 2, 3))
        expected = fitted(rows, public).table(1)
        pd.testing.assert_frame_equal(fitted(rows, public[[3, 1, 2]]).table(1), expected)
        with pytest.raises(ValueError, match="those of X; 3 is missing and 4 is unknown"):
            fitted(rows, public.rename(columns={3: 4}))
        # also where the names of X could be positions
        rows, public = numbered((0, 1, 2))
        expected = fitted(rows, public).table(0)
        pd.testing.assert_frame_equal(fitted(rows, public[[1, 0, 2]]).table(0), expected)

    @pytest.mark.parametrize("labels", [(2018, 2019), (0, 1)])
    def test_rows_at_prediction_are_matched_by_name(self, labels):
        rng = np.random.default_rng(0)
        rows = pd.DataFrame(rng.random((600, 2)), columns=list(labels))
        y = (rows[labels[0]] > 0.5).astype(int)
        model = SemiPrivateBoostingClassifier(epsilon=20, random_state=0)
        model.fit(rows, y, is_public=np.arange(600) < 200)
        assert model.score(rows[[labels[1], labels[0]]], y) == model.score(rows, y) > 0.9
        if labels == (2018, 2019):
            with pytest.raises(ValueError, match="2018 is missing and 7 is unknown"):
                model.predict(rows.rename(columns={2018: 7}))
        # an array has no names, and the labels 0 and 1 can be those of an array
        assert model.score(rows.to_numpy(), y) == model.score(rows, y)
        assert model.score(pd.DataFrame(rows.to_numpy()), y) == model.score(rows, y)

    def test_labels_of_an_earlier_fit_are_forgotten(self):
        rng = np.random.default_rng(0)
        numbered_rows = pd.DataFrame({2: rng.random(300), 5: rng.random(300)})
        rows = numbered_rows.set_axis(["a", "b"], axis=1)
        sanitizer = QuantileSanitizer(bounds={2: (0, 1), 5: (0, 1)}, random_state=0)
        sanitizer.fit(numbered_rows)
        sanitizer.set_params(bounds={0: (0, 1), 1: (0, 1)}).fit(rows)

    def test_learners_read_bounds_by_name(self):
        """Bounds of the column named 2 hold for this column, which is the first one."""
        rng = np.random.default_rng(0)
        rows, public = (pd.DataFrame({2: rng.random(n), 5: rng.random(n)}) for n in (400, 60))
        y = (rows[2] > 0.5).to_numpy()
        for estimator in (
            SemiPrivateClassifier(bounds={5: (0, 1)}),
            SemiPrivateBoostingClassifier(bounds={5: (0, 1)}),
            SemiPrivateBoostingClassifier(monotonic_cst={5: 1}),
            GenericLearnerClassifier(bounds={5: (0, 1)}),
            LabelBoostClassifier(bounds={5: (0, 1)}, epsilon=30),
        ):
            estimator.set_params(random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                is_rule = isinstance(estimator, GenericLearnerClassifier | LabelBoostClassifier)
                labels = np.where(rows.index < 200, y, -1) if is_rule else y.astype(int)
                estimator.fit(rows, labels, X_public=public)
                wrong = "bounds" if estimator.get_params().get("bounds") else "monotonic_cst"
                estimator.set_params(**{wrong: {0: (0, 1) if wrong == "bounds" else 1}})
                with pytest.raises(ValueError, match="column"):
                    estimator.fit(rows, labels, X_public=public)


class TestTimeZones:
    def release(self):
        rng = np.random.default_rng(0)
        late = pd.Timestamp("2020-01-01 22:00", tz=EASTERN)
        rows, public = (
            pd.DataFrame({"t": late + pd.to_timedelta(rng.integers(0, 366, n), "D")})
            for n in (3000, 200)
        )
        bounds = {"t": ("2020-01-01", "2020-12-31 23:59")}
        return rows, fitted(rows, public, MarginalQueries(), bounds=bounds, epsilon=20)

    def test_days_are_those_of_the_zone(self):
        rows, release = self.release()
        sample = release.sample(1000)["t"]
        assert set(sample.dt.tz_convert("UTC").dt.hour) <= {2, 3}
        assert set(sample.dt.hour) == set(rows["t"].dt.hour)
        assert set(sample.dt.year) == {2020}
        names = release.table("t")["t"]
        assert names[0].startswith("2020-01-01 to ")
        assert names.iloc[-1].endswith(" to 2020-12-31 23:59:00")
        half = (rows["t"] <= pd.Timestamp("2020-06-30 23:59", tz=EASTERN)).mean()
        for date in (
            "2020-06-30 23:59",
            "2020-07-01T03:59Z",
            np.datetime64("2020-06-30T23:59"),
            pd.Timestamp("2020-06-30 23:59", tz=EASTERN),
            pd.Timestamp("2020-07-01 03:59", tz="UTC"),
        ):
            assert release.cdf([date], "t")[0] == pytest.approx(half, abs=0.02)
        median = release.quantile(0.5, "t").item()
        assert abs(median - rows["t"].median().to_pydatetime()) < pd.Timedelta(days=15)
        assert str(median.tzinfo) == EASTERN
        assert str(release.mean("t").tzinfo) == EASTERN
        sample = release.sample(100, constraints=lambda rows: rows["t"] >= "2020-12-01")["t"]
        assert sample.min() >= pd.Timestamp("2020-12-01", tz=EASTERN)

    def test_dates_at_the_ends_of_the_calendar(self):
        _, release = self.release()
        late = [dt.datetime.max, np.datetime64("10000-01-01")]
        early = [dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))]
        assert release.cdf(late, "t").tolist() == [1, 1]
        assert release.cdf(early, "t").tolist() == [0]

    def test_a_series_keeps_its_zone(self):
        pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
        _, release = self.release()
        dates = pd.Series(pd.date_range("2020-02-01 11:30", periods=5, freq="40D", tz="Asia/Tokyo"))
        expected = release.cdf(dates.tolist(), "t")
        without_value = pd.Series([pd.NaT, *dates])
        np.testing.assert_array_equal(release.cdf(without_value, "t")[1:], expected)
        for series in (dates, pl.from_pandas(dates), pa.array(dates), pd.DatetimeIndex(dates)):
            np.testing.assert_array_equal(release.cdf(series, "t"), expected)

    def test_a_zone_without_a_known_name(self):
        rows, _ = self.release()
        zone = dt.timezone(dt.timedelta(hours=2), "CEST")
        rows["t"] = rows["t"].dt.tz_convert(zone)
        with pytest.raises(ValueError, match="Convert the dates to a zone with a name of the IANA"):
            fitted(rows, rows[:50].copy())
        objects = rows.astype(object)  # as from a driver of a database, whose zones have no names
        assert fitted(objects, objects[:50].copy()).sample(3)["t"].dtype == "datetime64[us, UTC]"

    def test_zones_on_one_side_are_refused(self):
        rows, _ = self.release()
        naive = rows[:50].assign(t=rows["t"].dt.tz_localize(None))
        with pytest.raises(ValueError, match="must contain dates with a time zone in both"):
            fitted(rows, naive)
        with pytest.raises(ValueError, match="Column t contains dates"):
            fitted(naive, naive[::2].copy()).cdf([pd.Timestamp("2020-06-30", tz="UTC")])

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_functions_of_rows_receive_dates_in_the_zone(self, library):
        pl = pytest.importorskip("polars")
        rows, _ = self.release()
        public = rows[:200].copy()
        if library == "polars":
            rows, public = pl.from_pandas(rows), pl.from_pandas(public)
        hour = {"pandas": lambda t: t.dt.hour, "polars": lambda t: t.dt.hour()}[library]
        queries = CustomQueries(lambda X: (hour(X["t"]) >= 22).to_numpy())
        release = fitted(rows, public, queries, bounds={"t": ("2020-01-01", "2021-01-02")})
        assert release.answer([0])[0] > 0.9

    def test_described_dates_are_of_the_zone(self):
        rows, _ = self.release()
        described = describe_columns(
            {"t": (np.datetime64("2020-01-01"), np.datetime64("2021-01-02"))}
        )
        release = fitted(rows, described, MarginalQueries())
        assert release.table("t")["t"][0].startswith("2020-01-01 to ")


DESCRIPTION = {"income": (0, 1_000_000, 22000), "kids": (0, 10), "g": ["a", "b"]}


class TestDescribedBounds:
    def rows(self, container="pandas"):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {
                "kids": rng.integers(0, 3, 4000),
                "g": rng.choice(["a", "b"], 4000),
                "income": rng.gamma(2, 10_000, 4000),
            }
        )
        if container == "array":
            return frame[["income", "kids"]].to_numpy()
        return frame

    @pytest.mark.parametrize(
        ("bounds", "kids"), [(None, (0, 10)), ({"kids": (0, 5)}, (0, 5)), ({0: (0, 5)}, (0, 5))]
    )
    def test_ranges_are_the_bounds_of_a_release(self, bounds, kids):
        release = fitted(self.rows(), describe_columns(DESCRIPTION), bounds=bounds)
        columns = {column.name: column for column in release._schema.columns}
        assert (columns["income"].low, columns["income"].high) == (0, 1_000_000)
        assert (columns["kids"].low, columns["kids"].high) == kids
        assert columns["income"].is_bounded
        assert columns["kids"].is_bounded
        assert release.table("income")["income"][0].startswith("0 to ")
        explicit = {"income": (0, 1_000_000), "kids": kids}
        frame = describe_columns(DESCRIPTION).to_frame()
        expected = fitted(self.rows(), frame, bounds=explicit)
        pd.testing.assert_frame_equal(release.table("income"), expected.table("income"))
        np.testing.assert_array_equal(release.mean_interval("kids"), expected.mean_interval("kids"))

    def test_columns_of_an_array_are_in_order(self):
        description = {name: DESCRIPTION[name] for name in ("income", "kids")}
        release = fitted(self.rows("array"), describe_columns(description))
        assert [column.high for column in release._schema.columns] == [1_000_000, 10]
        everywhere = fitted(self.rows("array"), describe_columns(description), bounds=(0, 2e6))
        assert [column.high for column in everywhere._schema.columns] == [2e6, 2e6]

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize(
        "estimator",
        [
            SemiPrivateClassifier(),
            SemiPrivateBoostingClassifier(),
            GenericLearnerClassifier(),
            LabelBoostClassifier(epsilon=30),
            SemiPrivateSearchCV(SemiPrivateBoostingClassifier(), {"max_rounds": [5, 10]}),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_learners_fit_as_with_the_same_bounds(self, estimator, monkeypatch):
        """What a learner gets as bounds is what the description says."""
        seen = []

        def spy(bounds, names, types=(), labels=()):
            seen.append(bounds)
            return parse_bounds(bounds, names, types, labels)

        for module in ("data.schema", "data.inputs", "label_boost.rounds"):
            monkeypatch.setattr(f"skpublicdp.{module}.parse_bounds", spy)
        rows = self.rows().drop(columns="g")
        y = (rows["income"] > 20_000).to_numpy().astype(int)
        if isinstance(estimator, GenericLearnerClassifier | LabelBoostClassifier):
            y = np.where(rows.index < 2000, y, -1)
        description = {"kids": (0, 10), "income": (0, 1_000_000)}
        clone(estimator).set_params(random_state=0).fit(
            rows, y, X_public=describe_columns(description)
        )
        given = [{} if bounds is None else dict(bounds) for bounds in seen]
        by_position = {0: (0, 10), 1: (0, 1_000_000)}  # of learners that see no names
        assert description in given or by_position in given
