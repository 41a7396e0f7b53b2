"""Labels and scores of private rows as codes and cells: each row is looked at alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import RefusedError, call_or_raise

Codes = NDArray[np.intp]
Floats = NDArray[np.float64]

UNREADABLE = "{name} must be a one-dimensional container with one entry per row."
FAILED = (
    "{method} of the estimator must give one {what} per row of X; it failed or gave something "
    "else. Why is not shown, for it may quote private rows: try it on public rows like these."
)


def count_rows(name: str, X: Any, *, least: int = 1) -> int:
    """Return how many rows there are, which is public."""
    try:
        n = int(X.shape[0]) if hasattr(X, "shape") else len(X)
    except (IndexError, TypeError):
        raise ValueError(f"{name} must be a container of rows; got a {type(X).__name__}.") from None
    if n < least:
        raise ValueError(f"{name} must hold at least one row; got none.")
    return n


def check_lengths(**columns: Any) -> int:
    """Return how many rows all containers have, or tell which differ."""
    counts = {name: count_rows(name, column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(f"All must have one entry per row; got {told}.")
    return next(iter(counts.values()))


def known_labels(name: str, classes: Any) -> list[Any]:
    """Return public labels as plain, distinct values, in the order given."""
    given = np.asarray(classes, dtype=object)
    labels = [_plain(label) for label in given.ravel()]
    if given.ndim != 1 or len(set(labels)) < len(labels) or not labels:
        raise ValueError(f"{name} must list distinct labels, at least one; got {classes!r}.")
    return labels


def label_codes(name: str, labels: Any, classes: list[Any]) -> Codes:
    """Return the position of each label among the classes, -1 where it is none of them."""
    column = _column(name, labels)
    kinds = {"U" if isinstance(label, str) else "n" for label in classes}
    if column.dtype.kind in "biuf" and kinds == {"n"}:
        known = np.array(classes, dtype=np.float64)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], column), len(known) - 1)
        codes: Codes = np.where(known[order][place] == column, order[place], -1)
        return codes
    if column.dtype.kind in "biufU" and kinds != {"U" if column.dtype.kind == "U" else "n"}:
        raise ValueError(f"{name} and the classes must be of one kind, all text or all numbers.")
    return _codes_of_objects(column, {label: code for code, label in enumerate(classes)})


def wrong_if_unknown(codes: Codes, predicted: Codes, n_labels: int) -> tuple[Codes, Codes]:
    """Let a label that is none of the classes count as the one after what is predicted."""
    predicted = np.where(predicted < 0, (codes + 1) % n_labels, predicted)
    return np.where(codes < 0, (predicted + 1) % n_labels, codes), predicted


def table_of(codes: Codes, places: Codes, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Count rows by label and cell."""
    flat = np.bincount(codes * shape[1] + places, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def equal_rows(y_true: Any, y_pred: Any) -> NDArray[np.bool_]:
    """Tell for each row whether two labels are equal; what cannot be compared is not."""
    one, other = _column("y_true", y_true), _column("y_pred", y_pred)
    kinds = {column.dtype.kind for column in (one, other)}
    if "O" not in kinds and ("U" in kinds) and len(kinds) > 1:
        raise ValueError("y_true and y_pred must be of one kind, all text or all numbers.")
    if kinds <= set("biuf"):
        return np.asarray(one == other)
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return np.fromiter(call_or_raise(_equal, pairs, error=_unreadable("y_true")), bool, len(one))


def score_column(name: str, scores: Any) -> Floats:
    """Return scores as floats."""
    return np.asarray(call_or_raise(_floats, scores, error=_unreadable(name)))


def call(estimator: Any, method: str, X: Any, n: int, width: int | None = None) -> Any:
    """Call a method of the estimator on private rows, in silence."""
    what = "score for each class" if width else "value"
    error = RefusedError(FAILED.format(method=method, what=what))
    # numbers among texts would be text, if numpy found a type for a list of labels
    array: Any = _as_column if method == "predict" else np.asarray
    answer = call_or_raise(lambda: array(getattr(estimator, method)(X)), error=error)
    if answer.shape != ((n,) if width is None else (n, width)):
        raise error
    return answer


def _unreadable(name: str) -> ValueError:
    return ValueError(UNREADABLE.format(name=name))


def _column(name: str, labels: Any) -> NDArray[Any]:
    """Return labels as an array of the type that they declare, or of objects."""
    column: NDArray[Any] = call_or_raise(_as_column, labels, error=_unreadable(name))
    return column


def _as_column(labels: Any) -> NDArray[Any]:
    typed = isinstance(getattr(labels, "dtype", None), np.dtype)
    if typed and not isinstance(labels, np.ma.MaskedArray):
        column = np.asarray(labels)
        if column.dtype.kind not in "biufU":
            column = column.astype(object)
    else:
        # the type that numpy finds for a list would depend on all rows at once
        to_list = getattr(labels, "to_pylist", getattr(labels, "tolist", None))
        values = list(labels) if to_list is None else to_list()
        column = np.empty(len(values), dtype=object)
        for row, value in enumerate(values):
            column[row] = value
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError
    return column


def _plain(label: Any) -> Any:
    """Return text, a boolean or a number as one of Python's own, whose hash and == are silent."""
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, bool | np.bool_):
        return bool(label)
    if isinstance(label, int | np.integer):
        return int(label)
    if isinstance(label, float | np.floating):
        return float(label)
    raise TypeError("Labels must be text, booleans or numbers.")


def _attempted(label: Any) -> Any:
    """Return a label as a plain one, or something that equals nothing."""
    try:
        return _plain(label)
    except Exception:
        return object()


def _codes_of_objects(column: NDArray[Any], codes: dict[Any, int]) -> Codes:
    def found() -> list[int]:
        return [codes.get(_attempted(label), -1) for label in column.tolist()]

    return np.array(call_or_raise(found, error=_unreadable("y")), dtype=np.intp)


def _equal(pairs: Any) -> list[bool]:
    return [_attempted(one) == _attempted(other) for one, other in pairs]


def _floats(scores: Any) -> Floats:
    column = np.ma.filled(np.ma.asarray(scores, dtype=np.float64), np.nan)
    if column.ndim != 1:
        raise ValueError
    return column
