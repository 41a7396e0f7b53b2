"""Validation of the shape, names, types and kinds of columns, which never quotes values."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from os import PathLike
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.feature_selection import SelectorMixin
from sklearn.multioutput import ClassifierChain, RegressorChain
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.validation import validate_data

from skpublicdp._internal.redaction import NO_CHECKS, NotNumbersError, call_or_raise, call_silently
from skpublicdp._internal.text import is_valid_text
from skpublicdp.data.column import Column
from skpublicdp.data.container import object_array
from skpublicdp.data.schema import column_names, feature_labels, has_numbers_as_names
from skpublicdp.data.streaming import is_streamed
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    ColumnType,
    Table,
    is_frame,
)
from skpublicdp.data.value_conversion import (
    MAX_LISTED_COLUMNS,
    common_kind,
    date_advice,
    is_missing,
    kind_of_object,
    not_numbers_message,
    printed_texts,
    remedy_for,
    to_numbers,
    unreadable_message,
)
from skpublicdp.exceptions import warn
from skpublicdp.typing import Floats

PIPELINE_ADVICE = (
    ". In a pipeline, the earlier steps must also transform X_public: enable metadata routing and "
    "pass transform_input=['X_public'] to Pipeline."
)
"""Advice for the case that public rows do not match private rows that earlier steps transformed."""


SELECTORS = (SelectorMixin, BaggingClassifier, BaggingRegressor, ClassifierChain, RegressorChain)
"""Meta-estimators that remove or add columns of `X`, but not of `X_public`."""


def pipeline_advice() -> str:
    """Return the end of a message: advice within the `fit` of a pipeline or selector, or a stop."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline):
            return PIPELINE_ADVICE
        if isinstance(caller, SELECTORS):
            return (
                f". {type(caller).__name__} may change the columns of X only: mark the public rows "
                "of X with is_public instead of passing X_public."
            )
        frame = frame.f_back
    return "."


def check_types(table: Table) -> None:
    """Raise ValueError if a column has a type that no estimator supports."""
    for name, type_ in zip(column_names(table), table.types, strict=True):
        if not is_valid_text(name):
            raise ValueError(
                "The names of the columns must be text that can be written in UTF-8, but the name "
                f"{name!r} contains surrogates. Rename the column."
            )
        if type_.kind == "complex numbers":
            raise ValueError(
                f"Complex data not supported: column {name} must contain real numbers. Use its "
                "real part, or drop it."
            )
        if not type_.usable:
            raise ValueError(
                f"Column {name} must contain numbers, booleans, dates, text or categories; got "
                f"{type_.kind}. {remedy_for(type_.kind)}"
            )


def keep_kinds(estimator: Any, table: Table, *, numeric: bool) -> None:
    """Store the column kinds declared at `fit` in an estimator without a schema.

    If an estimator accepts only numbers, columns of dtype object are treated as numeric, since a
    single private number written as text changes the dtype to object.
    """
    if hasattr(type(estimator), "_columns_at_fit"):
        return
    kinds = tuple(map(kind_of_type, table.types))
    if not table.is_frame:
        kinds = tuple(ANYTHING if kind in (NUMBER, BOOLEAN) else kind for kind in kinds)
    elif numeric:
        kinds = tuple(NUMBER if kind == ANYTHING else kind for kind in kinds)
    estimator._kinds = kinds


def infer_public_kind(values: NDArray[Any]) -> str:
    """Return the common kind of the public values in a column of dtype object.

    The kind is ANYTHING if the values are of several kinds or are all missing.
    """
    return common_kind(value for value in values.tolist() if not is_missing(value))


def check_kinds_at_prediction(estimator: Any, table: Table) -> None:
    """Reject columns whose kind differs from that at fit, unless each value can be converted.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator. The estimator stores the columns of its schema in `_columns_at_fit`, or
        the kinds saved by `keep_kinds`.
    table : Table
        Rows to predict, with the columns in the order of `fit`. Only the column types are read.

    Raises
    ------
    ValueError
        If the kind of a column differs from its kind at fit. The message names the first such
        column.
    """
    kinds: Sequence[str] = getattr(estimator, "_kinds", ())
    columns_at_fit: Sequence[Column | str] = getattr(estimator, "_columns_at_fit", kinds)
    names = column_names(table)
    for name, at_fit, type_ in zip(names, columns_at_fit, table.types, strict=False):
        new_kind = kind_of_type(type_)
        if new_kind == ANYTHING:
            continue
        if isinstance(at_fit, str):
            expected, is_accepted = at_fit, new_kind in _ACCEPTED[at_fit]
        else:
            expected, is_accepted = _accepted_by_schema(at_fit, new_kind)
        # A single text value changes the type of all columns of an array. The estimator then
        # converts the values of numeric columns, so their type is not a reason for rejection.
        is_converted = not table.is_frame and new_kind != DATE and expected in (NUMBER, BOOLEAN)
        if isinstance(at_fit, Column) and at_fit.is_datetime and new_kind == DATE:
            had_zone, has_zone = at_fit.time_zone is not None, type_.time_zone is not None
            with_zone = {True: "dates with a time zone", False: "dates without a time zone"}
            if had_zone != has_zone:
                expected, actual = with_zone[had_zone], with_zone[has_zone]
                raise ValueError(kind_mismatch_message(name, expected, actual))
        is_categorical = isinstance(at_fit, Column) and at_fit.categorical
        if not is_accepted and (is_categorical or not is_converted):
            raise ValueError(kind_mismatch_message(name, expected, type_.kind))


def kind_mismatch_message(name: str, expected: str, actual: str) -> str:
    """Return the error message about a column whose kind differs from its kind at fit."""
    hint = ""
    if actual.startswith(NUMBER):
        hint = " (readers of CSV files store a column without any value as numbers)"
    return (
        f"Column {name} must contain {expected}, as at fit; got {actual}{hint}. Convert the column "
        "to the type that it had at fit."
    )


_ACCEPTED = {
    NUMBER: {NUMBER},
    BOOLEAN: {BOOLEAN, NUMBER},
    DATE: {DATE},
    TEXT: {TEXT},
    ANYTHING: {NUMBER, BOOLEAN, TEXT, DATE},
}
"""For estimators without a schema: the kinds accepted at prediction, given the kind at fit."""


def kind_of_type(type_: ColumnType) -> str:
    """Return the kind of a column's values according to the declared type.

    The kind of a categorical column is the common kind of its declared categories, or text if no
    categories are declared.
    """
    if type_.kind != CATEGORY:
        return type_.kind
    if type_.categories is None:
        return TEXT
    return common_kind(type_.categories)


def _accepted_by_schema(column: Column, new_kind: str) -> tuple[str, bool]:
    """Return the kind of a schema column, and whether it accepts values of a given kind.

    Columns of numbers or dates accept text, since each string is separately converted to a number
    or a date, or rejected.
    """
    if column.is_datetime:
        return DATE, new_kind in (DATE, TEXT)
    if column.categorical:
        return _accepted_as_category(column, new_kind)
    if new_kind == BOOLEAN:  # booleans can replace 0 and 1, but no other numbers
        return NUMBER, bool(np.isin(column.values, (0, 1)).all())
    return NUMBER, new_kind in (NUMBER, TEXT)


def _accepted_as_category(column: Column, new_kind: str) -> tuple[str, bool]:
    """Return the common kind of a column's categories, and whether values of a kind can match.

    Numbers and booleans match categories that equal their text representations.
    """
    kind = column.kind_of_categories
    if kind == ANYTHING:
        return ANYTHING, True
    if kind == TEXT and new_kind in (NUMBER, BOOLEAN):
        categories = column.values.tolist()
        if new_kind == NUMBER:
            return kind, any(map(_is_printed_number, categories))
        return kind, bool({"True", "False"} & set(categories))
    accepted_kinds = {BOOLEAN: {BOOLEAN, NUMBER}, NUMBER: {NUMBER, TEXT}}
    return kind, new_kind in accepted_kinds.get(kind, {kind})


def _is_printed_number(text: str) -> bool:
    """Indicate whether a text category is the text representation of a finite number."""
    try:
        number = float(text)
        is_integer_text = number.is_integer() and text.lstrip("-").isdigit()
        value = int(text) if is_integer_text else number
        return math.isfinite(number) and text in printed_texts(value)
    except (ValueError, OverflowError):
        return False


def read_table(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    numeric: bool,
    name: str = "X",
    kinds: bool = True,
) -> Table:
    """Return rows as a `Table` after validating their shape, column names and column types.

    Errors do not depend on values. In particular, this function does not detect missing or invalid
    values.

    Parameters
    ----------
    estimator : estimator
        Estimator whose feature names and number of features are set or used for comparison.
    X : array-like or DataFrame
        Rows.
    reset : bool
        Whether to set the feature names, as in `fit`. Otherwise, the columns are compared with
        those seen in `fit` and reordered accordingly.
    numeric : bool
        Whether text and categorical columns are rejected.
    name : str
        Name of the argument, used in error messages.
    kinds : bool
        Whether columns must have the same kinds as in `fit`.
    """
    check_container(estimator, X, name)
    if is_frame(X):
        table = Table(X)
        label, count = Counter(table.labels).most_common(1)[0] if table.labels else (None, 0)
        if count > 1:
            raise ValueError(
                f"Columns must have different names, but {label!r} occurs twice. Rename one "
                "of these columns."
            )
        check_shape(table.shape, name)
    else:
        # numpy infers the type of a list from its values, so the type would depend on private
        # values
        has_type = isinstance(getattr(X, "dtype", None), np.dtype) or sparse.issparse(X)
        dtype = None if has_type else object
        table = Table(read_array(X, dtype, ensure_all_finite=False, name=name))
    return check_columns(estimator, table, reset=reset, numeric=numeric, name=name, kinds=kinds)


def check_columns(
    estimator: Any,
    table: Table,
    *,
    reset: bool,
    numeric: bool,
    name: str = "X",
    kinds: bool = True,
) -> Table:
    """Validate column names and types, and return the table with columns in the order of `fit`."""
    table = _in_fitted_order(estimator, table, reset=reset, name=name)
    check_types(table)
    if numeric and table.is_frame:
        columns = dict(zip(column_names(table), (type_.kind for type_ in table.types), strict=True))
        # text in a column of dates is converted row by row
        at_fit = () if reset else getattr(estimator, "_columns_at_fit", ())
        dates = {column.name for column in at_fit if column.is_datetime}
        encodable = {
            column: kind
            for column, kind in columns.items()
            if kind in (TEXT, CATEGORY) and column not in dates
        }
        if encodable and kinds and not reset:
            column, kind = next(iter(encodable.items()))
            raise NotNumbersError(kind_mismatch_message(column, NUMBER, kind))
        if encodable:
            raise NotNumbersError(_encoding_advice(estimator, encodable))
    if reset:
        keep_kinds(estimator, table, numeric=numeric)
    elif kinds:
        check_kinds_at_prediction(estimator, table)
    return table


def _encoding_advice(estimator: Any, kinds: Mapping[Any, str]) -> str:
    """Return the message about text or categorical columns that an estimator cannot read.

    Parameters
    ----------
    kinds : mapping of str or int to str
        Kind of each of these columns, indexed by name or, in an array, by position.
    """
    columns = list(kinds)
    named = [column if isinstance(column, str) else f"x{column}" for column in columns]
    is_cut = len(columns) > MAX_LISTED_COLUMNS
    named = named[:MAX_LISTED_COLUMNS] + [f"{len(columns) - MAX_LISTED_COLUMNS} others"] * is_cut
    subject = f"Column {named[0]}"
    if len(columns) > 1:
        subject = f"Columns {', '.join(named[:-1])} and {named[-1]}"
    listed = ", ".join([*map(repr, columns[:MAX_LISTED_COLUMNS]), *["..."] * is_cut])
    return (
        f"{subject} must contain numbers for {type(estimator).__name__}; got "
        f"{' and '.join(dict.fromkeys(kinds.values()))}. Use SemiPrivateBoostingClassifier, which "
        "needs no encoding, or encode only these columns with "
        "PublicFit(make_column_transformer((OneHotEncoder(sparse_output=False, "
        f"handle_unknown='ignore'), [{listed}]), remainder='passthrough')), which is fitted on the "
        "public rows (describe_columns can create these rows); convert dates and amounts as text."
    )


def refuse_text(estimator: Any, public: Table) -> None:
    """Raise NotNumbersError if a column of dtype object contains text in a public row.

    Only public values are read, so the message cannot reveal that a private row contains text. For
    estimators that accept only numbers, dates are refused, too.
    """
    reads_dates = hasattr(type(estimator), "_columns_at_fit")
    text: dict[Any, str] = {}
    for position, (name, type_) in enumerate(zip(column_names(public), public.types, strict=True)):
        if type_.kind != ANYTHING:
            continue
        column = public.column(position)
        _, failure = call_silently(to_numbers, column, name)
        values = column.tolist()
        if failure is None:
            continue
        kinds = dict.fromkeys(kind_of_object(value) for value in values if not is_missing(value))
        if set(kinds) == {"dates"} and not reads_dates:
            raise NotNumbersError(date_advice(name))
        if not kinds.keys() <= {"numbers", "text", "booleans", "dates"}:
            raise NotNumbersError(unreadable_message(name, kinds))
        if "text" not in kinds:
            continue
        if any(isinstance(value, Real) and value == value for value in values):
            raise NotNumbersError(
                f"Column {name} must contain numbers for {type(estimator).__name__}, but its "
                "public values include text. Convert the text to numbers, or to missing values and "
                "impute them with PublicFit(SimpleImputer()), or use SemiPrivateBoostingClassifier."
            )
        text[name if public.is_frame else position] = "text"
    if text:
        raise NotNumbersError(_encoding_advice(estimator, text))


def _in_fitted_order(estimator: Any, table: Table, *, reset: bool, name: str) -> Table:
    """Return the table with its columns in the order of `fit`.

    If `reset`, the feature names and the number of features are set on the estimator. Otherwise,
    they are compared for frames of all libraries, with the errors of scikit-learn.
    """
    labels = table.labels if table.is_frame else ()
    is_text = [isinstance(label, str) for label in labels]
    if any(is_text) and not all(is_text):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but X also "
            "has column labels of other types. Rename these columns."
        )
    has_names = any(is_text)
    # scikit-learn reads only the column names of pandas, so it is passed an array of the same width
    placeholder = np.empty((1, table.shape[1]))
    if reset:
        validate_data(estimator, placeholder, reset=True, skip_check_array=True)
        vars(estimator).pop("_numbers_as_names", None)  # of an earlier fit
        if has_names:
            estimator.feature_names_in_ = np.array(labels, dtype=object)
        elif labels and all(isinstance(label, int | float | np.number) for label in labels):
            estimator._numbers_as_names = tuple(labels)
        return table
    fitted_names = getattr(estimator, "feature_names_in_", None)
    numbers = feature_labels(estimator)
    are_names = has_numbers_as_names(numbers) and has_numbers_as_names(labels)
    if numbers and (are_names or set(labels) == set(numbers)):
        fitted_names, has_names = numbers, True
    if fitted_names is None or not has_names:
        validate_data(estimator, placeholder, reset=False, skip_check_array=True)
        if has_names:
            if name == "X_public":
                message = (
                    "X_public has feature names, but X has none, so columns are matched by position"
                    f"{pipeline_advice()}"
                )
            else:
                message = (
                    f"{name} has feature names, but {type(estimator).__name__} was fitted without "
                    "feature names"
                )
            warn(message, UserWarning)
        return table
    fitted_names = list(fitted_names)
    differences = _name_differences(labels, fitted_names)
    if differences:
        if name == "X_public":
            advice = pipeline_advice()
            if "is missing" in differences and advice == ".":
                advice = (
                    ". Add a missing column to X_public, with the values that it may have, or "
                    "leave it out of X."
                )
            raise ValueError(f"The columns should be those of X; {differences}{advice}")
        raise ValueError(
            f"The feature names should match those that were passed during fit; {differences}."
        )
    return table.select(fitted_names)


def _name_differences(names: Iterable[Any], fitted_names: Sequence[Any]) -> str:
    """Return which names of columns are missing and which unknown, or "" if none are."""
    given, fitted = dict.fromkeys(names), dict.fromkeys(fitted_names)
    if given.keys() == fitted.keys():
        return ""
    missing = [name for name in fitted if name not in given]
    unknown = [name for name in given if name not in fitted]
    return " and ".join(
        f"{', '.join(map(str, columns[:MAX_LISTED_COLUMNS]))} is {status}"
        for columns, status in ((missing, "missing"), (unknown, "unknown"))
        if columns
    )


def is_list_of_records(X: Any) -> bool:
    """Indicate whether X is a list of dicts, like rows from JSON."""
    return isinstance(X, list) and bool(X) and all(isinstance(item, Mapping) for item in X)


def read_records(estimator: Any, records: Sequence[Mapping[Any, Any]]) -> Table:
    """Return records as a table of objects, whose columns are in the order of `fit`.

    The types of a frame would depend on all records, and so would the prediction of each one.
    """
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        raise ValueError(
            "X can be a list of dicts only if the columns had names in fit; "
            f"{type(estimator).__name__} was fitted without feature names. Pass an array."
        )
    rows = np.empty((len(records), len(names)), dtype=object)
    for position, record in enumerate(records):
        differences = _name_differences(record, names.tolist())
        if differences:
            raise ValueError(
                "The keys of each dict in X should match the feature names that were passed during "
                f"fit; {differences}. Use None for a missing value."
            )
        rows[position] = object_array([record[name] for name in names])
    return Table(rows)


def check_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Floats:
    """Return rows of numbers as one float64 array after comparing the columns with those of `fit`.

    If `reset` is true, the columns are stored instead of compared. Errors quote no values.
    """
    return as_numbers(read_table(estimator, X, reset=reset, numeric=True))


def as_numbers(table: Table) -> Floats:
    """Return the values of a table as a single float64 array, shape (n_rows, n_columns).

    If some value is not a finite number, a NotNumbersError is raised, which does not quote the
    value.
    """
    names = column_names(table)
    dates = [name for name, type_ in zip(names, table.types, strict=True) if type_.kind == DATE]
    if dates:
        raise ValueError(date_advice(dates[0]))
    nullable = [name for name, type_ in zip(names, table.types, strict=True) if type_.nullable]
    # all columns share one error, since private rows determine which column is invalid
    refusal = NotNumbersError(not_numbers_message(nullable or names))

    def convert() -> Floats:
        """Return all columns as floats. Exceptions can quote a value."""
        rows = np.empty(table.shape)
        for position, name in enumerate(names):
            rows[:, position] = to_numbers(table.column(position), name)
        assert_all_finite(rows)
        return rows

    return call_or_raise(convert, error=refusal)


def read_array(
    X: Any,
    dtype: Any,
    *,
    accept_sparse: bool = False,
    ensure_all_finite: bool | str = True,
    name: str = "X",
) -> Any:
    """Return rows as an array or a sparse matrix, like scikit-learn's `check_array`.

    Error messages depend only on the shape and the declared types. The parameters are those of
    `check_array`, and `name` is the name of the argument in messages.
    """
    refusal = _invalid_values_error(X, dtype, name)
    if sparse.issparse(X):
        X = check_array(X, accept_sparse=accept_sparse, dtype=None, ensure_all_finite=False)
    else:
        X = call_or_raise(check_array, X, dtype=dtype, error=refusal, **NO_CHECKS)
        check_shape(X.shape, name)
    if ensure_all_finite:
        allow_nan = ensure_all_finite == "allow-nan"
        call_or_raise(assert_all_finite, X, allow_nan=allow_nan, error=refusal)
    return X


def _invalid_values_error(X: Any, dtype: Any, name: str) -> ValueError:
    """Return the same error for all invalid values in rows. The error depends on types alone."""
    kinds = declared_kinds(X)
    if "c" in kinds:  # complex numbers
        return ValueError(
            f"Complex data not supported: column x0 and all other columns of {name} must contain "
            "real numbers. Use their real parts."
        )
    if kinds <= set("biuf"):  # booleans and numbers
        return ValueError(
            f"Input {name} contains NaN, or {name} contains infinity or a value too large for "
            "float64. Drop invalid rows, or impute the values."
        )
    if dtype is object:
        return ValueError(
            f"Input {name} contains NaN, or values that cannot be compared, or is a list whose "
            "items are not rows. Drop invalid rows, or impute the values."
        )
    return NotNumbersError(
        f"{name} must contain numbers only, without missing or infinite values, in rows of the "
        "same length (each argument must be a number, or a string that is a number). Encode text "
        "first, for example with PublicFit(OneHotEncoder(sparse_output=False)), and convert dicts "
        "to a DataFrame."
    )


def declared_kinds(X: Any) -> set[str]:
    """Return the set of numpy `dtype.kind` values of all columns of an array-like or a frame.

    Lists and columns without a numpy type have the kind "O".
    """
    is_frame_like = hasattr(X, "columns")
    dtypes = getattr(X, "dtypes", [None]) if is_frame_like else [getattr(X, "dtype", None)]
    return {str(getattr(dtype, "kind", "O")) for dtype in dtypes}


def feature_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the column names seen in `fit`, or x0, x1 and so on for unnamed columns."""
    default_names = [f"x{column}" for column in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", default_names)))


RESHAPE = (
    "Reshape your data with array.reshape(-1, 1) if it has a single feature or "
    "array.reshape(1, -1) if it is a single row"
)


def check_container(
    estimator: Any, X: Any, name: str = "X", *, accept_sparse: bool = False
) -> None:
    """Raise an error unless the argument `X` of an estimator is a table in memory.

    Parameters
    ----------
    estimator : estimator
        Estimator. If the estimator has an attribute `_in_memory_since`, this is the reason given in
        the message about streamed rows.
    X : object
        Argument that should contain rows. No value is read.
    name : str
        Name of the argument, used in error messages.
    accept_sparse : bool
        Whether sparse matrices are accepted.

    Raises
    ------
    TypeError
        If `X` is sparse.
    ValueError
        If `X` is not a table or is streamed.
    """
    if sparse.issparse(X):
        if accept_sparse:
            return
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required. Use {name}.toarray()."
        )
    if np.ma.isMaskedArray(X):
        raise ValueError(
            f"{name} must be a data frame or an array without a mask; got a masked array. Fill the "
            f"masked values, for example with {name}.filled(np.nan)."
        )
    if getattr(getattr(X, "dtype", None), "names", None):
        raise ValueError(
            f"{name} must be a table of columns; got a structured array. Convert it to a DataFrame."
        )
    # functions and iterators are passed by mistake and are not streamed rows
    is_function = callable(X) and not hasattr(X, "shape")
    if not isinstance(X, type | Iterator) and not is_function and is_streamed(X):
        raise ValueError(_streamed_message(estimator, name))
    shape = _shape(X)
    if not shape:
        raise ValueError(
            f"{name} must be a table of rows and columns (a DataFrame, a two-dimensional array or "
            f"a list of rows); got {_actual_and_remedy(X)}."
        )
    if len(shape) == 1 and hasattr(X, "to_frame"):
        raise ValueError(
            f"{name} must be a table of rows and columns; got a single column, a "
            f"{type(X).__name__}. Use {name}.to_frame()."
        )
    if len(shape) == 1 and not isinstance(X, Sequence):
        raise ValueError(
            f"Expected 2D array, got 1D array instead: {name} must be a table of rows and columns. "
            f"{RESHAPE}."
        )


def check_shape(shape: tuple[int, ...], name: str = "X") -> None:
    """Raise ValueError unless an array has two dimensions, at least one row and one column."""
    if len(shape) < 2:  # a list whose items are not rows
        raise ValueError(
            f"Expected 2D array, got 1D array instead: if {name} is a list, it must contain lists "
            f"of the same length as rows (convert a list of dicts to a DataFrame). {RESHAPE}."
        )
    if len(shape) > 2:
        raise ValueError(
            f"{name} must be two-dimensional, with rows and columns; got an array with dim "
            f"{len(shape)}. Reshape it, or drop nested values."
        )
    for axis, size in zip(("sample", "feature"), shape, strict=True):
        if not size:
            raise ValueError(
                f"Found array with 0 {axis}(s) (shape={shape}) while a minimum of 1 is required: "
                f"{name} must have at least one row and one column."
            )


def _shape(X: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or a frame, (length,) for a sequence, or else None."""
    shape: Any = None if isinstance(X, type) else getattr(X, "shape", None)
    if isinstance(shape, tuple):
        return shape
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return (len(X),)
    if hasattr(X, "__array__") and not isinstance(X, type):
        return np.asarray(X).shape
    return None


def _actual_and_remedy(X: Any) -> str:
    """Return the end of a message about an object that is no table, with its type and a remedy."""
    if isinstance(X, str | PathLike):
        return "a string or a path. Open files with skpublicdp.data.open_rows"
    if isinstance(X, dict):
        return (
            "a dict. Convert it to a DataFrame, or pass one row to predict as a list of dicts: "
            "[record]"
        )
    if isinstance(X, Iterator):
        return "an iterator, which can be read only once. Convert it to a list or a DataFrame"
    if X is None:
        return "None"
    return f"{type(X).__name__}. Convert it"


def _streamed_message(estimator: Any, name: str) -> str:
    """Return the message about streamed rows, for an estimator that needs rows in memory."""
    reason = getattr(estimator, "_in_memory_since", None)
    estimator_name = type(estimator).__name__
    if name != "X" or reason is None:
        return (
            f"{name} must be in memory for {estimator_name}; got streamed rows. Read them into an "
            "array or a data frame first."
        )
    return (
        f"{estimator_name} requires all rows in memory, because {reason}. Read the rows into an "
        "array or a data frame, or use SemiPrivateClassifier or SemiPrivateBoostingClassifier, "
        "which read rows in chunks."
    )
