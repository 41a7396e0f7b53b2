"""Invalid arguments of `fit`, each with the message of its error."""

import datetime
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from scipy import sparse

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
    SubsamplingActiveLearner,
)
from skpublicdp.data import describe_columns, open_rows
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.sanitizers import QuantileSanitizer

N, M = 40, 30
SECRET, SECRET_TEXT = 8675309.25, "Tommy Tutone"
SECRETS = ("8675309", "8.675309", "8.67531", "Tutone")
RNG = np.random.default_rng(0)


def frame(n, **changed):
    """Return a frame of n rows with the columns age and hours, and with changed columns."""
    columns = {"age": RNG.integers(17, 90, n) + 0.5, "hours": RNG.integers(1, 99, n) + 0.25}
    return pd.DataFrame({**columns, **changed})


X, X_PUBLIC = frame(N), frame(M)
Y, Y_PUBLIC = np.arange(N) % 2, np.arange(M) % 2
MASK = np.arange(N) < 10
PERSONS = np.arange(N)


@dataclass(frozen=True)
class Learner:
    """An estimator, the arguments of its `fit` and the rows that it accepts.

    Attributes
    ----------
    make : callable
        Returns a new estimator with given parameters.
    takes : frozenset of str
        Names of the arguments of `fit`.
    text, missing, streams, dated : bool
        Whether it accepts columns of text, missing numbers, streams and dates.
    """

    make: Any
    takes: frozenset
    text: bool = False
    missing: bool = False
    streams: bool = False
    dated: bool = False

    def fit_arguments(self, **changed):
        """Return valid arguments of `fit`, with changed ones in their place."""
        arguments = {"X": X, "y": Y, "X_public": X_PUBLIC, **changed}
        return {name: value for name, value in arguments.items() if name in self.takes}


def takes(*names):
    return frozenset({"X", *names})


PARTLY = ("y", "X_public", "is_public", "is_labelled", "groups")
ALL = ("y", "X_public", "y_public", "is_public", "groups")
LEARNERS = {
    "semi_private": Learner(SemiPrivateClassifier, takes(*ALL), streams=True, dated=True),
    "ppm": Learner(PPMHalfspaceClassifier, takes(*ALL)),
    "selection": Learner(
        lambda **kw: PrivateSelectionClassifier(n_candidates=4, **kw),
        takes(*ALL),
        streams=True,
        dated=True,
    ),
    "votes": Learner(PrivateVotesClassifier, takes(*ALL), streams=True, dated=True),
    "boosting": Learner(
        SemiPrivateBoostingClassifier,
        takes(*ALL),
        text=True,
        missing=True,
        streams=True,
        dated=True,
    ),
    "regression": Learner(
        lambda **kw: SemiPrivateBoostingRegressor(outcome_bounds=(0, 1), **kw),
        takes(*ALL),
        text=True,
        missing=True,
        streams=True,
        dated=True,
    ),
    "logistic": Learner(
        SemiPrivateLogisticRegression,
        takes(*ALL),
        text=True,
        missing=True,
        streams=True,
        dated=True,
    ),
    "linear": Learner(
        lambda **kw: SemiPrivateLinearRegression(outcome_bounds=(0, 1), **kw),
        takes(*ALL),
        text=True,
        missing=True,
        streams=True,
        dated=True,
    ),
    "release": Learner(
        PAPQueryRelease,
        takes("X_public", "is_public", "groups"),
        text=True,
        streams=True,
        dated=True,
    ),
    "generic": Learner(
        GenericLearnerClassifier, takes("y", "X_public", "is_public", "is_labelled", "groups")
    ),
    "label_boost": Learner(
        LabelBoostClassifier, takes("y", "X_public", "is_public", "is_labelled", "groups")
    ),
    "active": Learner(
        lambda **kw: SubsamplingActiveLearner(n_labels=10, **kw),
        takes("y", "X_public", "y_public", "groups"),
    ),
    "sanitizer": Learner(QuantileSanitizer, takes("groups")),
    "public_fit": Learner(PublicFit, takes("X_public", "is_public"), missing=True),
    "search": Learner(
        lambda **kw: SemiPrivateSearchCV(
            SemiPrivateClassifier(), {"alpha": [0.05, 0.2]}, cv=2, **kw
        ),
        takes(*ALL),
        dated=True,
    ),
}

HELD = X.assign(hours=SECRET)  # rows of most faults; no error may quote a value of them


def with_column(values, name="job", rows=X):
    return rows.assign(**{name: values})


def spoiled(value, kind=object):
    """Return all rows, with another value in the last row of the column hours."""
    column = HELD["hours"].astype(kind)
    column.iloc[-1] = value
    return HELD.assign(hours=column)


def both(change):
    """Return a function that makes X and X_public, both changed in the same way."""
    return lambda: {"X": change(HELD), "X_public": change(X_PUBLIC)}


def x(make):
    """Return a function that makes X."""
    return lambda: {"X": make()}


@dataclass(frozen=True)
class Fault:
    """Invalid arguments of `fit`, and their error.

    Attributes
    ----------
    make_arguments : callable
        Returns the arguments of `fit` that differ from valid ones.
    message : str
        Regular expression of the error.
    is_fault_of : callable
        Takes a learner and returns whether the arguments are invalid for it.
    parameters : dict
        Parameters of the estimator.
    """

    make_arguments: Any
    message: str
    is_fault_of: Any = lambda learner: True
    parameters: dict = field(default_factory=dict)

    def applies_to(self, learner, argument):
        """Return whether an estimator has the argument and the parameters of the fault."""
        has_parameters = set(learner.make().get_params()) >= set(self.parameters)
        return has_parameters and argument in learner.takes and self.is_fault_of(learner)


HELD_ARRAY = HELD.to_numpy(copy=True)
HELD_LIST = HELD_ARRAY.tolist()
HELD_POLARS = pl.DataFrame(HELD)
DROP = r".*([Cc]onvert|[Ee]ncode)"
ENCODE = r"olumn job .*(text|categories).*(Boosting.* needs no encoding.*encode|ColumnTransformer)"
MISSING = r"Columns? .*hours.*missing.*PublicFit.*Boosting"


def numeric(learner):
    return not learner.text


def complete(learner):
    return not learner.missing


def complete_public_rows(learner):
    """Missing public numbers say that a release has a cell for missing numbers."""
    return complete(learner) and learner.make is not PAPQueryRelease


def needs(*names):
    return lambda learner: learner.takes >= set(names)


def arrays(make):
    return lambda: {"X": make(N), "X_public": make(M)}


TEXTS = ["clerk", "nurse"]
ARROW = pa.Table.from_pandas(HELD)
LISTS = pa.array([[1, 2]] * N)

ROWS = {
    "None": Fault(x(lambda: None), r"X must be a table"),
    "a number": Fault(x(lambda: SECRET), r"X must be a table"),
    "a text": Fault(x(lambda: SECRET_TEXT), r"X must be a table"),
    "bytes": Fault(x(lambda: SECRET_TEXT.encode()), r"X must be a table"),
    "a dict": Fault(x(lambda: {"age": [SECRET] * N}), r"X must be a table.*DataFrame"),
    "a set": Fault(x(lambda: {SECRET}), r"X must be a table"),
    "a generator": Fault(x(lambda: (row for row in [[SECRET, 1]])), r"only once|list"),
    "an object": Fault(x(object), r"X must be a table"),
    "a class": Fault(x(lambda: pd.DataFrame), r"X must be a table|record batch"),
    "an array of 0 dimensions": Fault(x(lambda: np.array(SECRET)), r"X must be a table"),
    "an array of 1 dimension": Fault(x(lambda: np.full(N, SECRET)), r"2D array.*reshape"),
    "an array of 3 dimensions": Fault(x(lambda: np.full((N, 2, 2), SECRET)), r"two-dimensional"),
    "a list of 1 dimension": Fault(x(lambda: [SECRET] * N), r"2D array.*reshape"),
    "a list of texts": Fault(x(lambda: [SECRET_TEXT] * N), r"2D array.*reshape|rows of the same"),
    "a list of dicts": Fault(x(lambda: [{"age": SECRET}] * N), r"DataFrame"),
    "a ragged list": Fault(x(lambda: [[SECRET, 2.0]] * (N - 1) + [[SECRET]]), r"same length"),
    "a list of a number and rows": Fault(
        x(lambda: [SECRET] + [[SECRET, 1]] * (N - 1)), r"same length"
    ),
    "a nested list": Fault(x(lambda: [[[SECRET], [1.0]]] * N), r"two-dimensional"),
    "an empty list": Fault(x(list), r"2D array"),
    "empty lists": Fault(x(lambda: [[]] * N), r"0 feature"),
    "no rows": Fault(x(lambda: np.empty((0, 2))), r"0 sample"),
    "a frame without rows": Fault(x(lambda: HELD.iloc[:0]), r"0 sample"),
    "no columns": Fault(x(lambda: np.empty((N, 0))), r"0 feature"),
    "a frame without columns": Fault(x(lambda: HELD[[]]), r"0 feature"),
    "a Series": Fault(x(lambda: HELD["hours"]), r"X must be a table.*single column.*to_frame"),
    "a polars Series": Fault(x(lambda: pl.Series(HELD["hours"])), r"X must be a table.*to_frame"),
    "an Arrow array": Fault(x(lambda: pa.array(HELD["hours"])), r"X must be a table"),
    "a chunked array": Fault(x(lambda: ARROW["hours"]), r"X must be a table"),
    "a sparse matrix": Fault(x(lambda: sparse.csr_array(HELD.to_numpy())), r"[Ss]parse.*toarray"),
    "complex numbers": Fault(arrays(lambda n: np.ones((n, 2), complex)), r"[Cc]omplex.*x0"),
    "durations": Fault(arrays(lambda n: np.ones((n, 2), "m8[s]")), r"x0 .*durations.*Convert"),
    "a structured array": Fault(
        x(lambda: np.zeros(N, [("age", float), ("hours", float)])), r"structured.*DataFrame"
    ),
    "raw memory": Fault(arrays(lambda n: np.zeros((n, 2), "V8")), r"x0 .*Convert or drop"),
    "lists in an array": Fault(
        x(lambda: np.array([[[SECRET], 1.0]] * N, dtype=object)), r"x0.*numbers", complete
    ),
    "bytes in an array": Fault(arrays(lambda n: np.full((n, 2), b"1")), r"x0 .*bytes.*Convert"),
    "text in an array": Fault(
        arrays(lambda n: np.full((n, 2), SECRET_TEXT)),
        r"numbers.*(Boosting|[Cc]onvert|[Ee]ncode)",
        numeric,
    ),
    "a list with text": Fault(
        x(lambda: [[1.0, 2.0]] * (N - 1) + [[1.0, SECRET_TEXT]]), r"x0, x1.*numbers", complete
    ),
    "a list with None": Fault(
        x(lambda: [[1.0, 2.0]] * (N - 1) + [[SECRET, None]]), r"x0, x1.*missing.*Boosting", complete
    ),
    "NaN in an array": Fault(
        x(lambda: spoiled(np.nan, float).to_numpy()), r"x0, x1.*missing.*Boosting", complete
    ),
    "a masked array": Fault(
        x(lambda: np.ma.masked_less(spoiled(-1.0, float).to_numpy(), 0)), r"mask.*filled"
    ),
}

COLUMNS = {
    "two of a name": Fault(
        both(lambda rows: rows.set_axis(["age", "age"], axis=1)), r"'age' occurs twice.*Rename"
    ),
    "names of several types": Fault(
        both(lambda rows: rows.set_axis(["age", 1], axis=1)), r"string names.*Rename"
    ),
    "text": Fault(both(lambda rows: with_column("clerk", rows=rows)), ENCODE, numeric),
    "polars text": Fault(
        both(lambda rows: pl.DataFrame(with_column("clerk", rows=rows))), ENCODE, numeric
    ),
    "Arrow text": Fault(
        both(lambda rows: pa.Table.from_pandas(with_column("clerk", rows=rows))), ENCODE, numeric
    ),
    "categories": Fault(
        both(lambda rows: with_column(pd.Categorical(["a"] * len(rows)), rows=rows)),
        ENCODE,
        numeric,
    ),
    "text among objects": Fault(
        lambda: {"X": spoiled(SECRET_TEXT), "X_public": X_PUBLIC},
        r"hours must contain numbers.*Boosting",
        complete,
    ),
    "NaN": Fault(x(lambda: spoiled(np.nan, float)), MISSING, complete),
    "infinity": Fault(x(lambda: spoiled(np.inf, float)), MISSING, complete),
    "pandas NA": Fault(x(lambda: spoiled(pd.NA, "Float64")), r"Column.* hours.*Boosting", complete),
    "None among objects": Fault(x(lambda: spoiled(None)), r"hours.*Boosting", complete),
    "polars null": Fault(
        x(lambda: pl.DataFrame(spoiled(None)).cast(pl.Float64)), MISSING, complete
    ),
    "Arrow null": Fault(x(lambda: pa.Table.from_pandas(spoiled(np.nan, float))), MISSING, complete),
    "a huge number": Fault(x(lambda: spoiled(10**400)), r"hours.*Boosting", complete),
    "Decimal NaN": Fault(x(lambda: spoiled(Decimal("sNaN"))), r"hours.*Boosting", complete),
    "lists among objects": Fault(x(lambda: spoiled([SECRET])), r"hours.*Boosting", complete),
    "dates": Fault(
        both(lambda rows: with_column(np.datetime64("2020-01-01"), "born", rows)),
        r"olumn born .*dates.*([Cc]onvert|[Ee]ncode)",
        lambda learner: not learner.dated,
    ),
    "durations in a column": Fault(
        both(lambda rows: with_column(pd.Timedelta("1D"), "span", rows)), r"span .*durations" + DROP
    ),
    "polars durations": Fault(
        both(lambda rows: pl.DataFrame(with_column(pd.Timedelta("1D"), "span", rows))),
        r"span .*durations" + DROP,
    ),
    "periods": Fault(
        both(lambda rows: with_column(pd.Period("2020-01"), "month", rows)), r"month" + DROP
    ),
    "intervals": Fault(
        both(lambda rows: with_column(pd.Interval(0, 1), "span", rows)), r"span" + DROP
    ),
    "complex column": Fault(
        both(lambda rows: with_column(1j, "wave", rows)), r"[Cc]omplex.* wave "
    ),
    "Arrow lists": Fault(x(lambda: ARROW.set_column(1, "hours", LISTS)), r"hours .*lists" + DROP),
    "Arrow structs": Fault(
        x(lambda: ARROW.set_column(1, "hours", pa.array([{"a": 1}] * N))), r"hours .*structs" + DROP
    ),
    "Arrow bytes": Fault(
        x(lambda: ARROW.set_column(1, "hours", pa.array([b"1"] * N))), r"hours .*bytes" + DROP
    ),
    "Arrow times": Fault(
        x(lambda: ARROW.set_column(1, "hours", pa.array([datetime.time(1)] * N))),
        r"hours .*times of day" + DROP,
    ),
    "polars lists": Fault(
        x(lambda: pl.DataFrame({"age": HELD["age"].to_list(), "hours": [[1]] * N})),
        r"hours .*lists" + DROP,
    ),
    "polars objects": Fault(
        x(lambda: pl.DataFrame({"age": HELD["age"].to_list(), "hours": pl.Series([object()] * N)})),
        r"hours",
        complete,
    ),
    "pandas lists": Fault(
        both(lambda rows: with_column(pd.Series([[1]] * len(rows)), "hours", rows)), r"hours"
    ),
    "pandas Arrow lists": Fault(
        x(lambda: X.assign(hours=pd.Series(LISTS, dtype=pd.ArrowDtype(LISTS.type)))),
        r"hours .*lists" + DROP,
    ),
}


def public(make):
    return lambda: {"X": HELD, "X_public": make()}


PUBLIC = {
    "X itself": Fault(lambda: {"X": HELD, "X_public": HELD}, r"shares memory.*is_public"),
    "a view of X": Fault(
        lambda: {"X": HELD_ARRAY, "X_public": HELD_ARRAY[5:]}, r"shares memory.*is_public"
    ),
    "a frame around X": Fault(
        lambda: {"X": HELD_ARRAY, "X_public": pd.DataFrame(HELD_ARRAY, copy=False)[5:]},
        r"shares memory.*is_public",
    ),
    "polars X": Fault(
        lambda: {"X": HELD_POLARS, "X_public": HELD_POLARS}, r"shares memory.*is_public"
    ),
    "the list X": Fault(
        lambda: {"X": HELD_LIST, "X_public": HELD_LIST}, r"shares memory.*is_public"
    ),
    "a column less": Fault(public(lambda: X_PUBLIC[["age"]]), r"X_public.*hours is missing"),
    "a column more": Fault(
        public(lambda: with_column(1.0, "zip", X_PUBLIC)), r"X_public.*zip is unknown"
    ),
    "another name": Fault(
        public(lambda: X_PUBLIC.rename(columns={"hours": "time"})),
        r"X_public.*hours is missing and time is unknown",
    ),
    "other names in polars": Fault(
        public(lambda: pl.DataFrame(X_PUBLIC).rename({"hours": "time"})),
        r"X_public.*hours is missing and time is unknown",
    ),
    "two of its names": Fault(
        public(lambda: X_PUBLIC.set_axis(["age", "age"], axis=1)), r"X_public.*'age' occurs twice"
    ),
    "an array less wide": Fault(
        lambda: {"X": HELD_ARRAY, "X_public": np.ones((M, 1))}, r"X_public.*1 .*2"
    ),
    "one row": Fault(public(lambda: [1.0, 2.0]), r"X_public.*2D array"),
    "its number": Fault(public(lambda: 3.5), r"X_public must be a table"),
    "its text": Fault(public(lambda: "people.csv"), r"X_public must be a table"),
    "its dict": Fault(public(lambda: {"age": [1.0]}), r"X_public must be a table"),
    "its Series": Fault(public(lambda: X_PUBLIC["age"]), r"X_public must be a table"),
    "its NaN": Fault(
        public(lambda: X_PUBLIC.where(X_PUBLIC["age"] > 30)),
        r"X_public|public rows.*column age",
        complete_public_rows,
    ),
    "other kinds": Fault(public(lambda: X_PUBLIC.astype({"hours": str})), r"olumn hours .*text.*"),
    "dates for numbers": Fault(
        public(lambda: X_PUBLIC.assign(hours=np.datetime64("2020-01-01"))), r"olumn hours .*dates"
    ),
    "a stream": Fault(
        public(lambda: open_rows(pa.Table.from_pandas(X_PUBLIC).to_batches())),
        r"X_public.*in memory",
    ),
    "a description of less": Fault(
        public(lambda: describe_columns({"age": (17, 90)})), r"X_public.*hours"
    ),
    "a description without names": Fault(
        lambda: {"X": HELD_ARRAY, "X_public": describe_columns({"age": (17, 90)})},
        r"describes 1 columns by name",
    ),
    "labels alone": Fault(
        lambda: {"X_public": None, "y_public": Y_PUBLIC},
        r"y_public was passed without X_public",
        needs("y_public"),
    ),
    "too few labels": Fault(
        lambda: {"y_public": Y_PUBLIC[1:]}, r"y_public.*29 .*30", needs("y_public")
    ),
    "labels of 2 dimensions": Fault(
        lambda: {"y_public": np.ones((M, 2))}, r"y_public|1d array", needs("y_public")
    ),
    "dated labels": Fault(
        lambda: {"y_public": np.full(M, np.datetime64("2020"))}, r"\by_public\b", needs("y_public")
    ),
}

MARKS = {
    "texts": ["yes", "no"] * (N // 2),
    "missing marks": [True, None] * (N // 2),
    "NaN marks": [1.0, np.nan] * (N // 2),
    "NA marks": pd.array([True, pd.NA] * (N // 2), dtype="boolean"),
    "other numbers": np.arange(N),
    "texts of Arrow": pa.array(["True", "False"] * (N // 2)),
}
MISSHAPEN = {
    "too few marks": MASK[1:],
    "marks of 2 dimensions": MASK[:, None],
    "one mark": True,
    "positions": [1, 2, 3],
    "a dict of marks": {"age": True},
    "ragged marks": [[True]] * (N - 1) + [True],
}
MASKS = {
    f"{name}: {mask}": Fault(
        lambda name=name, marks=marks: {"X": HELD, name: marks}, says.format(name=name), needs(name)
    )
    for name in ("is_public", "is_labelled")
    for says, table in (
        (r"{name} must contain True or False.*{name}.eq\(1\)", MARKS),
        (r"{name} must contain one boolean per row", MISSHAPEN),
    )
    for mask, marks in table.items()
} | {
    "all public": Fault(
        lambda: {"is_public": np.ones(N, bool)},
        r"at least one private row",
        lambda one: (
            "is_public" in one.takes and one.make not in (PPMHalfspaceClassifier, PublicFit)
        ),
    ),
    "nothing labelled": Fault(
        lambda: {"is_labelled": np.zeros(N, bool)}, r"at least one label", needs("is_labelled")
    ),
    "a stream with marks": Fault(
        lambda: {"X": STREAM, "y": STREAM_Y, "is_public": MASK},
        r"is_public.*X_public",
        lambda learner: learner.streams,
    ),
}

TWO = {"max_rows_per_group": 2}
GROUPS = {
    "groups without a number": Fault(
        lambda: {"groups": PERSONS}, r"but max_rows_per_group is not set"
    ),
    "a number without groups": Fault(lambda: {}, r"groups was not passed", needs("groups"), TWO),
    "too few persons": Fault(
        lambda: {"groups": PERSONS[1:]}, r"one person per row", parameters=TWO
    ),
    "one person": Fault(lambda: {"groups": "me"}, r"one person per row", parameters=TWO),
    "persons of 2 dimensions": Fault(
        lambda: {"groups": PERSONS[:, None]}, r"one person per row", parameters=TWO
    ),
    "a missing person": Fault(
        lambda: {"groups": [*PERSONS[1:], None]}, r"person for every private row", parameters=TWO
    ),
    "a NaN person": Fault(
        lambda: {"groups": [*PERSONS[1:], np.nan]}, r"person for every private row", parameters=TWO
    ),
    "persons in lists": Fault(
        lambda: {"groups": [[1]] * (N - 1) + [[1, 2]]}, r"groups must identify", parameters=TWO
    ),
    "persons in dicts": Fault(
        lambda: {"groups": [{"name": SECRET_TEXT}] * N}, r"groups must identify", parameters=TWO
    ),
}


BOUNDS = {
    f"{name}": Fault(lambda: {}, says, parameters={"bounds": bounds})
    for name, says, bounds in [
        ("of 3", r"bounds must be one pair", [1, 2, 3]),
        ("for too few columns", r"bounds must be one pair", [[1, 2]]),
        ("reversed", r"bounds must be finite with low < high", (9, 1)),
        ("NaN", r"bounds must be finite with low < high", (0, np.nan)),
        ("infinite", r"bounds must be finite with low < high", (0, np.inf)),
        ("of text", r"bounds must contain numbers", ["low", "high"]),
        ("ragged", r"bounds must", [[1, 2], [3]]),
        ("complex", r"bounds must contain numbers", [1j, 2j]),
        ("None", r"bounds must be", [None, 2]),
        ("of another column", r"bounds.*'zip'.*age, hours", {"zip": (0, 1)}),
        ("of a column reversed", r"bounds.*column age", {"age": (1, 0)}),
        ("of a column of text", r"bounds.*column age", {"age": ("a", "b")}),
        ("one alone", r"bounds.*column age", {"age": 3}),
    ]
}


def y(make):
    return lambda: {"X": HELD, "y": make()}


def classifies(learner):
    return learner.make().__sklearn_tags__().estimator_type == "classifier"


LABELS = {
    "no labels": Fault(y(lambda: None), r"requires y to be passed"),
    "a label alone": Fault(y(lambda: 1), r"\by\b.*1d|y must"),
    "a text as labels": Fault(
        y(lambda: SECRET_TEXT), r"\by\b.*1d|\by must|^y contains missing outcomes"
    ),
    "a dict of labels": Fault(y(lambda: {"y": 1}), r"\by\b"),
    "labels of 2 columns": Fault(y(lambda: np.column_stack([Y, Y])), r"\by\b.*1d.*\(40, 2\)"),
    "a frame of labels": Fault(y(lambda: HELD), r"\by\b.*1d.*\(40, 2\)"),
    "too few labels": Fault(y(lambda: Y[1:]), r"\by\b.*39"),
    "too many labels": Fault(y(lambda: [*Y, 1]), r"\by\b.*41"),
    "ragged labels": Fault(y(lambda: [[1]] * (N - 1) + [[1, 2]]), r"\by\b"),
    "labels in lists": Fault(
        y(lambda: np.array([*[[1]] * (N - 1), [1, 2]], dtype=object)), r"\by\b"
    ),
    "NaN labels": Fault(
        y(lambda: [*Y[1:].tolist(), np.nan]), r"^y contains missing (labels|outcomes)"
    ),
    "None labels": Fault(y(lambda: [*Y[1:].tolist(), None]), r"^y contains missing "),
    "pandas NA labels": Fault(
        y(lambda: pd.array([*Y[1:].tolist(), pd.NA], dtype="Int64")), r"\by\b"
    ),
    "infinite labels": Fault(y(lambda: [*Y[1:].tolist(), np.inf]), r"\by\b"),
    "complex labels": Fault(y(lambda: Y + 1j), r"[Cc]omplex"),
    "dated labels": Fault(y(lambda: pd.Series([pd.Timestamp("2020")] * N)), r"\by\b"),
    "labels of time": Fault(y(lambda: np.ones(N, "m8[s]")), r"\by\b"),
    "mixed labels": Fault(y(lambda: [SECRET_TEXT, *Y[1:].tolist()]), r"\by\b"),
    "texts for outcomes": Fault(
        y(lambda: ["low"] * N), r"outcomes must be finite", lambda one: not classifies(one)
    ),
    "fractions for labels": Fault(y(lambda: Y + SECRET), r"whole", classifies),
    "huge labels": Fault(y(lambda: [one * 2**70 for one in Y.tolist()]), r"64 bits", classifies),
    "huge floats for labels": Fault(y(lambda: Y * 2.0**60), r"2\*\*53", classifies),
    "one label": Fault(
        y(lambda: np.ones(N, int)),
        r"at least two classes",
        lambda one: one.text and classifies(one),
    ),
    "labels beyond classes": Fault(
        y(lambda: Y), r"labels that are not listed in classes", classifies, {"classes": [1, 2]}
    ),
    "texts and numbers": Fault(
        y(lambda: Y), r"all text or all numbers", classifies, {"classes": ["1", "2"]}
    ),
    "classes of 2 columns": Fault(y(lambda: Y), r"classes", classifies, {"classes": [[0, 1]]}),
    "NaN among classes": Fault(y(lambda: Y), r"classes", classifies, {"classes": [0, np.nan]}),
    "no classes": Fault(y(lambda: Y), r"classes", classifies, {"classes": []}),
    "three labels": Fault(
        y(lambda: np.arange(N) % 3), r"binary", lambda one: one.make is PPMHalfspaceClassifier
    ),
}


def stream(change=lambda rows: rows):
    def make():
        rows = open_rows(ds.dataset(pa.Table.from_pandas(change(HELD).assign(label=Y))))
        return {"X": rows.drop("label"), "y": rows["label"]}

    return make


def streams(learner):
    return learner.streams


def held(learner):
    return not learner.streams


def learns(learner):
    return learner.streams and "y" in learner.takes


STREAM, STREAM_Y = stream()().values()
LONG = {
    "a stream": Fault(stream(), r"requires all rows in memory, .*", held),
    "a lazy frame": Fault(lambda: {"X": pl.LazyFrame(HELD)}, r"requires all rows in memory", held),
    "a relation": Fault(
        lambda: {"X": duckdb.from_arrow(ARROW)}, r"requires all rows in memory", held
    ),
    "a stream with text": Fault(
        stream(lambda rows: with_column("clerk", rows=rows)),
        ENCODE,
        lambda one: learns(one) and not one.text,
    ),
    "a stream with lists": Fault(
        stream(lambda rows: with_column(pd.Series([[1]] * N), rows=rows)),
        r"Column job .*lists" + DROP,
        streams,
    ),
    "a stream with NaN": Fault(
        stream(lambda rows: spoiled(np.nan, float)),
        MISSING,
        lambda one: learns(one) and not one.text,
    ),
    "a stream beside other columns": Fault(
        lambda: {**stream()(), "X_public": X_PUBLIC[["age"]]},
        r"X_public.*hours is missing",
        streams,
    ),
    "a stream beside other kinds": Fault(
        lambda: {**stream()(), "X_public": X_PUBLIC.astype({"hours": str})},
        r"olumn hours .*text",
        streams,
    ),
    "a stream with other labels": Fault(
        lambda: {"X": STREAM, "y": Y[1:]}, r"same number of rows", learns
    ),
    "a stream without labels": Fault(lambda: {"X": STREAM, "y": None}, r"requires y", learns),
    "a stream with dated labels": Fault(
        lambda: {"X": STREAM, "y": np.full(N, np.datetime64("2020"))}, r"\by\b", learns
    ),
    "an empty stream": Fault(
        lambda: {"X": open_rows([ARROW[:0]]), "y": Y[:0]}, r"at least one private row", streams
    ),
    "a path": Fault(lambda: {"X": "people.parquet"}, r"X must be a table.*open_rows"),
}

PARAMETERS = {
    name: Fault(lambda: {}, says, parameters=parameters)
    for name, says, parameters in [
        ("no jobs", r"'n_jobs'.*Got 0", {"n_jobs": 0}),
        ("a text of jobs", r"'n_jobs'.*Got 'two'", {"n_jobs": "two"}),
        ("half a job", r"'n_jobs'.*Got 0.5", {"n_jobs": 0.5}),
        ("no epsilon", r"'epsilon'.*Got 0", {"epsilon": 0}),
        ("a text as epsilon", r"'epsilon'.*Got '1'", {"epsilon": "1"}),
        ("NaN epsilon", r"'epsilon'.*Got nan", {"epsilon": float("nan")}),
        ("no budget", r"'budget'.*Got 3", {"budget": 3}),
        ("infinite epsilon", r"'epsilon'.*Got inf", {"epsilon": float("inf")}),
        ("half a row", r"'max_rows_per_group'.*Got 0", {"max_rows_per_group": 0}),
        ("all of delta", r"'delta'.*Got 1", {"delta": 1.0}),
        ("an alpha of 2", r"'alpha'.*Got 2", {"alpha": 2}),
        ("no beta", r"'beta'.*Got 0", {"beta": 0}),
        ("half a public row", r"'public_weight'.*Got 0.5", {"public_weight": 0.5}),
        ("a text as hypotheses", r"'hypotheses'.*Got 'trees'", {"hypotheses": "trees"}),
        ("another method", r"'method'.*Got 'best'", {"method": "best"}),
    ]
}

FAULTS = {
    f"{group}: {name}": (argument, fault)
    for group, argument, table in [
        ("X", "X", ROWS),
        ("column", "X", COLUMNS),
        ("X_public", "X_public", PUBLIC),
        ("mask", "X", MASKS),
        ("groups", "groups", GROUPS),
        ("bounds", "X", BOUNDS),
        ("y", "y", LABELS),
        ("stream", "X", LONG),
        ("parameters", "X", PARAMETERS),
    ]
    for name, fault in table.items()
}
"""All faults by name, each with the name of the invalid argument."""
