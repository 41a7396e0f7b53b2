"""Columns of Python objects, as readers of files and databases return them, are read or named."""

import datetime as dt
import enum
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skpublicdp import (
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.data.column import Column
from skpublicdp.data.tables import Table
from skpublicdp.data.value_conversion import to_numbers
from skpublicdp.query_release import MarginalQueries

pytestmark = [
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.UnknownCategoriesWarning"),
]

LEARNERS = pytest.mark.parametrize(
    "learner", [SemiPrivateBoostingClassifier, SemiPrivateClassifier]
)
ZONE = dt.timezone(dt.timedelta(hours=2))


def days(n, seed):
    numbers = np.random.default_rng(seed).integers(0, 3000, n)
    return np.datetime64("2015-01-01") + numbers, numbers > 1500


DAYS, LABELS = days(800, 0)
PUBLIC_DAYS, _ = days(120, 1)
NEW_DAYS, _ = days(60, 2)


def frame(values, k=None):
    k = pd.Series(values) if k is None else pd.Series(k, dtype=object)
    return pd.DataFrame({"other": np.arange(len(values)) % 7, "day": k})


def python_dates(values):
    return frame(values, values.tolist())


def datetimes(values):
    return frame(values, [dt.datetime.combine(day, dt.time()) for day in values.tolist()])


def with_zone(values):
    return frame(values, [dt.datetime.combine(day, dt.time(2), ZONE) for day in values.tolist()])


def timestamps(values):
    return frame(values, [pd.Timestamp(day) for day in values])


def from_parquet(values):
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"other": np.arange(len(values)) % 7, "day": values}), file)
    read = pd.read_parquet(pa.BufferReader(file.getvalue()))
    assert read["day"].dtype == object  # Python dates
    return read


def from_arrow(values):
    return pa.table({"other": np.arange(len(values)) % 7, "day": values})


def from_polars(values):
    return pl.from_arrow(from_arrow(values))


def iso(values):
    return frame(values, [str(day) for day in values])


def json_text(values):
    return frame(values, [f"{day}T00:00:00.000Z" for day in values])


AT_FIT = [python_dates, datetimes, with_zone, timestamps, from_parquet, from_arrow, from_polars]


@LEARNERS
@pytest.mark.parametrize("read", AT_FIT)
def test_dates_of_each_reader_are_those_of_datetime64(learner, read):
    expected = learner(random_state=0).fit(frame(DAYS), LABELS, X_public=frame(PUBLIC_DAYS))
    model = learner(random_state=0).fit(read(DAYS), LABELS, X_public=read(PUBLIC_DAYS))
    labels = expected.predict(frame(NEW_DAYS))
    assert len(set(labels)) == 2
    np.testing.assert_array_equal(model.predict(read(NEW_DAYS)), labels)
    for served in (frame, python_dates, iso, json_text):
        if read is with_zone and served is frame:
            with pytest.raises(ValueError, match="must contain dates with a time zone, as at fit"):
                model.predict(served(NEW_DAYS))
        else:
            np.testing.assert_array_equal(model.predict(served(NEW_DAYS)), labels)
        np.testing.assert_array_equal(expected.predict(served(NEW_DAYS)), labels)


def test_public_dates_of_another_container_are_dates():
    expected = SemiPrivateBoostingClassifier(random_state=0).fit(
        frame(DAYS), LABELS, X_public=frame(PUBLIC_DAYS)
    )
    for X, public in (
        (python_dates(DAYS), frame(PUBLIC_DAYS)),
        (frame(DAYS), python_dates(PUBLIC_DAYS)),
    ):
        model = SemiPrivateBoostingClassifier(random_state=0).fit(X, LABELS, X_public=public)
        np.testing.assert_array_equal(
            model.predict_proba(frame(NEW_DAYS)), expected.predict_proba(frame(NEW_DAYS))
        )


def test_missing_dates_in_objects():
    def gaps(values, missing):
        return frame(values, [missing if i % 5 == 0 else d for i, d in enumerate(values.tolist())])

    models = [
        SemiPrivateBoostingClassifier(random_state=0).fit(
            gaps(DAYS, missing), LABELS, X_public=gaps(PUBLIC_DAYS, missing)
        )
        for missing in (None, pd.NaT, np.nan, pd.NA)
    ]
    expected = models[0].predict_proba(gaps(NEW_DAYS, None))
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(gaps(NEW_DAYS, pd.NaT)), expected)


def test_bounds_of_python_dates():
    bounds = {"day": (dt.date(2015, 1, 1), "2023-12-31")}
    release = PAPQueryRelease(MarginalQueries(1), bounds=bounds, random_state=0)
    release.fit(python_dates(DAYS), X_public=python_dates(PUBLIC_DAYS))
    assert str(release.quantile(0.5, "day"))[:4] in {"2018", "2019"}
    assert release.sample(20)["day"].dtype.kind == "M"


def test_a_value_that_is_no_date_is_refused_without_a_quote():
    model = SemiPrivateBoostingClassifier(random_state=0)
    model.fit(frame(DAYS), LABELS, X_public=frame(PUBLIC_DAYS))
    for values in ("yesterday", "2024-13-01", "", 17):
        with pytest.raises(ValueError, match="Column day must contain dates only") as caught:
            model.predict(frame(NEW_DAYS, [values, *iso(NEW_DAYS)["day"][1:]]))
        assert "yesterday" not in str(caught.value)
    text = frame(DAYS, [*DAYS[:-1].tolist(), "secret"])
    with pytest.raises(ValueError, match=r"missing or is no date|dates in day") as caught:
        SemiPrivateClassifier().fit(text, LABELS, X_public=python_dates(PUBLIC_DAYS))
    assert "secret" not in str(caught.value)


def test_a_learner_of_numbers_says_that_dates_are_dates():
    with pytest.raises(ValueError, match="Column day must contain numbers here; got dates"):
        PPMHalfspaceClassifier().fit(
            python_dates(DAYS), LABELS.astype(int), X_public=python_dates(PUBLIC_DAYS)
        )


Color = enum.Enum("Color", "red blue")
UNREADABLE = {
    "times of day": (lambda i: dt.time(i % 24), "minutes since midnight"),
    "durations": (lambda i: dt.timedelta(i), "total_seconds"),
    "bytes": (lambda i: b"red" if i % 2 else b"blue", "decode"),
    "lists": (lambda i: [i], "drop the column"),
    "dicts": (lambda i: {"a": i}, "drop the column"),
    "values of type UUID": (lambda i: uuid.UUID(int=i), "astype"),
    "values of type Color": (lambda i: Color(1 + i % 2), "astype"),
    "numbers and dates": (
        lambda i: i if i % 2 else dt.date(2020, 1, 1),
        "Convert all values to dates",
    ),
}


@LEARNERS
@pytest.mark.parametrize("kind", UNREADABLE)
def test_public_objects_that_cannot_be_read_are_named(learner, kind):
    make, remedy = UNREADABLE[kind]
    X, public = (frame(d, [make(i + 1) for i in range(len(d))]) for d in (DAYS, PUBLIC_DAYS))
    with pytest.raises(ValueError, match=f"its public values are .*{kind.split()[-1]}") as caught:
        learner().fit(X, LABELS, X_public=public)
    assert remedy in str(caught.value)
    assert kind in str(caught.value) or "numbers" in kind


def test_lists_among_text_are_named():
    X, public = (frame(d, ["a", ["b"]] * (len(d) // 2)) for d in (DAYS, PUBLIC_DAYS))
    with pytest.raises(ValueError, match="its public values are text and lists"):
        SemiPrivateBoostingClassifier().fit(X, LABELS, X_public=public)


def test_declared_types_that_cannot_be_read_name_a_remedy():
    X, public = (frame(d, None).assign(day=d - d.min()) for d in (DAYS, PUBLIC_DAYS))
    with pytest.raises(ValueError, match=r"got durations. Convert them to numbers.*total_seconds"):
        SemiPrivateBoostingClassifier().fit(X, LABELS, X_public=public)


def test_private_objects_without_public_rows_are_told_to_be_converted():
    with pytest.raises(ValueError, match="convert dates with pandas"):
        PAPQueryRelease().fit(python_dates(DAYS))


def test_public_dates_and_private_text_name_the_conversion():
    with pytest.raises(ValueError, match="text to dates"):
        SemiPrivateBoostingClassifier().fit(
            iso(DAYS).astype({"day": "string"}), LABELS, X_public=frame(PUBLIC_DAYS)
        )


BITS = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


@LEARNERS
@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("part", ["all", "low", "high"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, None])
def test_integers_of_each_type_are_read_in_order(learner, dtype, part, library):
    low, high = BITS[dtype]
    middle = (low + high) // 2
    low, high = {"all": (low, high), "low": (low, middle), "high": (middle, high)}[part]

    def column(n, seed):
        rng = np.random.default_rng(seed)
        values = [low, high] + [low + int((high - low) * share) for share in rng.random(n - 2)]
        numbers = np.array(values, dtype=dtype)
        above = np.array([int(v) > (low + high) // 2 for v in numbers])
        return (numbers[:, None] if library is None else library({"k": numbers})), above

    (X, y), (public, _), (new, expected) = column(600, 0), column(90, 1), column(60, 2)
    model = learner(epsilon=30, random_state=0).fit(X, y, X_public=public)
    assert np.mean(model.predict(new) == expected) > 0.9


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_numbers_far_from_the_public_ones_keep_their_side(dtype):
    low, high = BITS[dtype]
    for offset in (low + 5, high - 5, (low + high) // 2, 2**62):
        values = np.array([low, low + 1, high - 1, high], dtype=dtype)
        exact = [float(int(value) - offset) for value in values]
        assert to_numbers(values, "k", offset).tolist() == exact


def test_large_unsigned_integers_are_decoded():
    column = Column(
        "k", np.array([-5.0, 5.0]), False, low=-9e18, high=9e18, integral=True, offset=2**63 + 10
    )
    decoded = column.decode(np.array([-5.0, 0.0, 5.0, -1e19, 1e19]))
    assert decoded.dtype == np.uint64
    assert decoded.tolist() == [2**63 + 5, 2**63 + 10, 2**63 + 15, 0, 2**64 - 1]


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("uint64", 2**63 - 2**60, 2**63 + 2**60),
        ("int64", 2**61, 2**62),  # the range is too large for exact floats
        ("int64", -(2**62), -(2**61)),
        ("int64", 2**60, 2**60 + 1000),
    ],
)
def test_a_release_of_large_integers_is_in_their_range(dtype, low, high):
    rng = np.random.default_rng(0)
    X, public = (pd.DataFrame({"k": rng.integers(low, high, n, dtype=dtype)}) for n in (900, 90))
    release = PAPQueryRelease(MarginalQueries(1), random_state=0).fit(X, X_public=public)
    sampled = [int(value) for value in release.sample(50)["k"]]
    assert release.sample(50)["k"].dtype == dtype
    assert low - (high - low) <= min(sampled) < max(sampled) <= high + (high - low)
    assert low < int(release.quantile(0.5, "k")) < high


def test_integers_of_128_bits_are_read_as_floats():
    ids = pl.Series([2**70, *range(300)], dtype=pl.Int128)
    values = Table(pl.DataFrame({"id": ids})).column(0)
    assert values.tolist() == [float(value) for value in ids.to_list()]
