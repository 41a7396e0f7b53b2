"""Validate tables: shape, column names and column types; values only where errors quote none."""

from __future__ import annotations

import sys
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.validation import validate_data

from skpublicdp._internal.redaction import NO_CHECKS, NotNumbersError, call_or_raise, call_silently
from skpublicdp.data.containers import check_container, check_shape, count_given_rows
from skpublicdp.data.description import DescribedRows
from skpublicdp.data.kinds import check_kinds_at_prediction, keep_kinds, kind_mismatch_message
from skpublicdp.data.roles import warn_if_sliced
from skpublicdp.data.schema import column_names, not_numbers_message, to_numbers
from skpublicdp.data.tables import ANYTHING, CATEGORY, DATE, NUMBER, TEXT, Table, is_frame
from skpublicdp.exceptions import warn
from skpublicdp.typing import Floats

PIPED = (
    "; in a pipeline X_public must go through the steps before, too: pass "
    "transform_input=['X_public'] to Pipeline, with metadata routing enabled."
)
"""Advice for public rows that do not match what the steps before returned for private ones."""


def pipeline_advice() -> str:
    """Return advice about pipelines if the caller is a step of one, and a full stop otherwise."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), Pipeline):
            return PIPED
        frame = frame.f_back
    return "."


def read_table(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    numeric: bool,
    name: str = "X",
    kinds: bool = True,
) -> Table:
    """Check shape, names and types of columns; values are not looked at.

    Parameters
    ----------
    estimator : estimator
        Gets, or has, the names and the number of columns.
    X : array-like or DataFrame
        Rows.
    reset : bool
        Whether its columns are those of `fit`; otherwise they are brought into that order.
    numeric : bool
        Whether text and categories are refused.
    name : str
        What messages call the rows.
    kinds : bool
        Whether columns must be of the kinds of `fit`.

    Returns
    -------
    Table
        The rows, in the container that they came in.
    """
    check_container(estimator, X, name)
    if is_frame(X):
        table = Table(X)
        repeated = [label for label in table.labels if table.labels.count(label) > 1]
        if repeated:
            raise ValueError(
                f"Columns must have different names; got {repeated[0]!r} twice: rename one of them."
            )
        check_shape(table.shape, name)
    else:
        # a list has no type but that of its values, which a private one would decide
        typed = isinstance(getattr(X, "dtype", None), np.dtype) or sparse.issparse(X)
        dtype = None if typed else object
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
    """Check names and types of columns, and bring the columns into the order of `fit`."""
    table = _in_order(estimator, table, reset=reset, name=name)
    check_types(table)
    for name, type_ in zip(column_names(table), table.types, strict=True):
        if numeric and table.is_frame and type_.kind in (TEXT, CATEGORY):
            if kinds and not reset:
                raise NotNumbersError(kind_mismatch_message(name, NUMBER, type_.kind))
            raise NotNumbersError(_encode_it(estimator, name, type_.kind))
    if reset:
        keep_kinds(estimator, table, numeric=numeric)
    elif kinds:
        check_kinds_at_prediction(estimator, table)
    return table


def _encode_it(estimator: Any, name: str, kind: str) -> str:
    return (
        f"Column {name} must hold numbers for {type(estimator).__name__}; got {kind}: encode it, "
        "for instance with PublicFit(OneHotEncoder(sparse_output=False, handle_unknown='ignore')), "
        "or use SemiPrivateBoostingClassifier, which takes it as it is."
    )


def refuse_text(estimator: Any, public: Table) -> None:
    """Refuse text in columns whose declared type may be anything, by the values of public rows.

    Private values play no part, so that one private text is not told from a column of text.
    """
    for position, (name, type_) in enumerate(zip(column_names(public), public.types, strict=True)):
        if type_.kind != ANYTHING:
            continue
        values = public.column(position)
        _, failure = call_silently(to_numbers, values, name)
        listed = values.tolist()
        if failure is None or not any(isinstance(value, str) for value in listed):
            continue
        if any(isinstance(value, Real) and value == value for value in listed):
            raise NotNumbersError(
                f"Column {name} must hold numbers for {type(estimator).__name__}; got text among "
                "the numbers of public rows: convert the text to numbers or to missing values, "
                "which PublicFit(SimpleImputer()) fills in, or use SemiPrivateBoostingClassifier."
            )
        raise NotNumbersError(_encode_it(estimator, name, "text"))


def check_types(table: Table) -> None:
    """Refuse columns whose type cannot be used at all."""
    for name, type_ in zip(column_names(table), table.types, strict=True):
        if type_.kind == "complex numbers":
            raise ValueError(
                f"Complex data not supported: column {name} must hold real numbers; take its real "
                "part, or drop it."
            )
        if not type_.usable:
            raise ValueError(
                f"Column {name} must hold numbers, booleans, dates, text or categories; got "
                f"{type_.kind}: convert or drop it."
            )


def _in_order(estimator: Any, table: Table, *, reset: bool, name: str) -> Table:
    """Compare names with those of `fit` as scikit-learn does, whatever the library of frames."""
    labels = table.labels if table.is_frame else ()
    text = [isinstance(label, str) for label in labels]
    if any(text) and not all(text):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but X has "
            "column labels of other types, too; rename the columns."
        )
    bare, named = np.empty((1, table.shape[1])), any(text)
    if reset:
        validate_data(estimator, bare, reset=True, skip_check_array=True)
        if named:
            estimator.feature_names_in_ = np.array(labels, dtype=object)
        return table
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or not named:
        validate_data(estimator, bare, reset=False, skip_check_array=True)
        if named:
            warn(
                f"{name} has feature names, but {type(estimator).__name__} was fitted without "
                f"feature names{pipeline_advice() if name == 'X_public' else ''}",
                UserWarning,
            )
        return table
    lacking = [label for label in fitted if label not in labels]
    unknown = [label for label in labels if label not in fitted]
    if lacking or unknown:
        raise ValueError(
            "The feature names should match those that were passed during fit; "
            + (f"{', '.join(map(str, lacking[:5]))} is missing" if lacking else "")
            + (" and " if lacking and unknown else "")
            + (f"{', '.join(map(str, unknown[:5]))} is unknown" if unknown else "")
            + (pipeline_advice() if name == "X_public" else ".")
        )
    return table.select(fitted.tolist())


def read_public(
    estimator: Any,
    X: Table,
    X_public: Any,
    *,
    numeric: bool,
    n_rows: int | None = None,
) -> Table | None:
    """Check separate public rows, of the columns of `fit`; ``None`` if there are none.

    Parameters
    ----------
    estimator : estimator
        Has the names and the number of columns.
    X : Table
        All other rows. Only their types and place in memory are looked at.
    X_public : array-like, DataFrame, DescribedRows or None
        Public rows.
    numeric : bool
        Whether text and categories are refused.
    n_rows : int, optional
        Number of other rows, where `X` is none of them.
    """
    if X_public is None:
        return None
    if not isinstance(X_public, DescribedRows):
        check_container(estimator, X_public, "X_public")
        if count_given_rows(X_public) == 0:
            return None
    if isinstance(X_public, DescribedRows):
        X_public = X_public.like(X.container, getattr(estimator, "feature_names_in_", None))
        if not X.is_frame:
            return Table(X_public)
    width = tuple(getattr(X_public, "shape", ()))[1:]
    named = hasattr(estimator, "feature_names_in_") and is_frame(X_public)
    if len(width) == 1 and width != (estimator.n_features_in_,) and not named:
        raise ValueError(
            f"X_public must have the columns of X; got {width[0]} columns where X has "
            f"{estimator.n_features_in_}{pipeline_advice()}"
        )
    try:
        public = read_table(
            estimator, X_public, reset=False, numeric=numeric, name="X_public", kinds=False
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"X_public is not usable: {error}") from None
    if numeric:
        refuse_text(estimator, public)
    check_apart(X, public, n_rows)
    return public


SHARED_MEMORY = (
    "X_public must hold rows of its own, and it shares memory with X, so that private rows would "
    "be public; pass all rows as X once, and mark the public ones by is_public."
)


def check_apart(X: Table, public: Table, n_rows: int | None = None) -> None:
    """Refuse public rows that are among the others, or of other kinds.

    The arguments are those of `read_public`.
    """
    if n_rows is None and _overlap(X, public):
        raise ValueError(SHARED_MEMORY)
    warn_if_sliced(X.shape[0] if n_rows is None else n_rows, public.shape[0])
    check_kinds(X, public)


def _overlap(X: Table, public: Table) -> bool:
    if X.native is public.native:
        return True
    both = zip(X.types, public.types, strict=True)
    return any(
        _share(X.column(position), public.column(position))
        for position, (ours, theirs) in enumerate(both)
        if ours.usable and ours.kind == theirs.kind
    )


def _share(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    return bool(np.may_share_memory(ours, theirs) and np.shares_memory(ours, theirs))


def check_kinds(X: Table, public: Table) -> None:
    """Refuse columns that hold one kind of thing here and another one there, by their types."""
    both = zip(column_names(X), X.types, public.types, strict=True)
    for name, ours, theirs in both:
        kinds = {"text" if t.kind == CATEGORY else t.kind for t in (ours, theirs)}
        plain = not X.is_frame and not public.is_frame and kinds == {"numbers", "booleans"}
        if len(kinds) > 1 and ANYTHING not in kinds and not plain:
            raise ValueError(
                f"Column {name} must hold the same kind of values everywhere; got {ours.kind} in "
                f"X and {theirs.kind} in X_public: convert one of them."
            )


def check_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Floats:
    """Return rows of numbers as float64, all in memory; an error never quotes a value."""
    return as_numbers(read_table(estimator, X, reset=reset, numeric=True))


def as_numbers(table: Table) -> Floats:
    """Return the columns of a table as floats."""
    names = column_names(table)
    dates = [n for n, t in zip(names, table.types, strict=True) if t.kind == DATE]
    if dates:
        raise ValueError(
            f"Column {dates[0]} must hold numbers here; got dates: convert it, for instance to "
            "days since a fixed one, or use SemiPrivateClassifier or SemiPrivateBoostingClassifier,"
            " which take it as it is."
        )
    doubtful = [name for name, t in zip(names, table.types, strict=True) if t.nullable] or names
    refusal = NotNumbersError(not_numbers_message(doubtful))

    def convert() -> Floats:
        rows = np.empty(table.shape)
        for position, name in enumerate(names):
            rows[:, position] = to_numbers(table.column(position), name)
        assert_all_finite(rows)
        return rows

    rows: Floats = call_or_raise(convert, error=refusal)
    return rows


def read_array(
    X: Any,
    dtype: Any,
    *,
    accept_sparse: bool = False,
    ensure_all_finite: bool | str = True,
    name: str = "X",
) -> Any:
    """Convert rows to an array; an error depends on their shape and their declared types alone.

    The arguments are those of scikit-learn's `check_array`.
    """
    refusal = _refusal(X, dtype, name)
    if sparse.issparse(X):
        X = check_array(X, accept_sparse=accept_sparse, dtype=None, ensure_all_finite=False)
    else:
        X = call_or_raise(check_array, X, dtype=dtype, error=refusal, **NO_CHECKS)
        check_shape(X.shape, name)
    if ensure_all_finite:
        allow_nan = ensure_all_finite == "allow-nan"
        call_or_raise(assert_all_finite, X, allow_nan=allow_nan, error=refusal)
    return X


def _refusal(X: Any, dtype: Any, name: str) -> ValueError:
    """Return what is said of values that will not do, whichever they are."""
    kinds = declared_kinds(X)
    if "c" in kinds:
        return ValueError(
            f"Complex data not supported: column x0 and all others of {name} must hold real "
            "numbers; take their real parts."
        )
    if kinds <= set("biuf"):
        return ValueError(
            f"Input {name} contains NaN, or {name} contains infinity or a value too large for "
            "float64: drop such rows or fill them in."
        )
    if dtype is object:
        return ValueError(
            f"Input {name} contains NaN, or something that cannot be compared, or is a list of "
            "what are no rows: drop such rows or fill them in."
        )
    return NotNumbersError(
        f"{name} must hold numbers only, none missing or infinite, in rows of the same length "
        "(each argument must be a string that is a number, or a number): encode text first, for "
        "instance with PublicFit(OneHotEncoder(sparse_output=False)), and make a DataFrame of "
        "dicts."
    )


def declared_kinds(X: Any) -> set[str]:
    """Return the kinds of the types of the columns; "O" if they may hold anything."""
    dtypes = getattr(X, "dtypes", [None]) if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    return {str(getattr(dtype, "kind", "O")) for dtype in dtypes}


def feature_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the names of the columns seen in `fit`, or x0, x1 and so on."""
    numbered = [f"x{column}" for column in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", numbered)))
