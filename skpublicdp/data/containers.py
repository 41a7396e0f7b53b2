"""Reject unsupported containers (sparse, masked, structured, streamed) by type, before reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from skpublicdp.data.streaming import is_streamed

RESHAPE = (
    "Reshape your data with array.reshape(-1, 1) if it has a single feature or "
    "array.reshape(1, -1) if it is a single row"
)


def check_container(
    estimator: Any, X: Any, name: str = "X", *, accept_sparse: bool = False
) -> None:
    """Raise unless X is a table in memory.

    Parameters
    ----------
    estimator : estimator
        Its `_in_memory_since`, if it has that, says why it reads no streams.
    X : object
        What was given as rows; none of its values is looked at.
    name : str
        What it was given as.
    accept_sparse : bool
        Whether sparse matrices are read.

    Raises
    ------
    TypeError
        If it is sparse.
    ValueError
        If it is no table, or streamed.
    """
    if sparse.issparse(X):
        if accept_sparse:
            return
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required: use {name}.toarray()."
        )
    if np.ma.isMaskedArray(X):
        raise ValueError(
            f"{name} must be an array without a mask, or a frame; got a masked array: fill it in, "
            f"for instance with {name}.filled(np.nan)."
        )
    if getattr(getattr(X, "dtype", None), "names", None):
        raise ValueError(
            f"{name} must be a table of columns; got a structured array: make a DataFrame of it."
        )
    if not isinstance(X, type) and not isinstance(X, Iterator) and is_streamed(X) and not _calls(X):
        raise ValueError(_streamed(estimator, name))
    shape = _shape(X)
    if not shape:
        raise ValueError(
            f"{name} must be a table, rows by columns: a DataFrame, a two-dimensional array or a "
            f"list of rows; got {_described(X)}."
        )
    if len(shape) == 1 and hasattr(X, "to_frame"):
        raise ValueError(
            f"{name} must be a table, rows by columns; got one column, a {type(X).__name__}: use "
            f"{name}.to_frame()."
        )
    if len(shape) == 1 and not isinstance(X, Sequence):
        raise ValueError(
            f"Expected 2D array, got 1D array instead: {name} must be a table, rows by columns; "
            f"{RESHAPE}."
        )


def count_given_rows(X: Any) -> int:
    """Return the number of rows, which is public; 0 without a shape."""
    return int((_shape(X) or (0,))[0])


def check_shape(shape: tuple[int, ...], name: str = "X") -> None:
    """Refuse arrays that are not rows by columns, or have none of either."""
    if len(shape) < 2:  # of a list, whatever its rows are
        raise ValueError(
            f"Expected 2D array, got 1D array instead: a list as {name} must hold rows that are "
            f"lists of the same length (make a DataFrame of dicts); {RESHAPE}."
        )
    if len(shape) > 2:
        raise ValueError(
            f"{name} must have rows and columns only, dim 2; got an array of dim {len(shape)}: "
            "reshape it, or drop what is nested."
        )
    for what, size in zip(("sample", "feature"), shape, strict=True):
        if not size:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required: "
                f"{name} must have a row and a column at least."
            )


def _calls(X: Any) -> bool:
    """Indicate whether X is a plain callable, such as a factory of record batches."""
    return callable(X) and not hasattr(X, "shape")


def _shape(X: Any) -> tuple[int, ...] | None:
    shape: Any = None if isinstance(X, type) else getattr(X, "shape", None)
    if isinstance(shape, tuple):
        return shape
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return (len(X),)
    if hasattr(X, "__array__") and not isinstance(X, type):
        return np.asarray(X).shape
    return None


def _described(X: Any) -> str:
    if isinstance(X, str | PathLike):
        return "a text or a path: open files with skpublicdp.data.open_rows"
    if isinstance(X, dict):
        return "a dict: make a DataFrame of it"
    if isinstance(X, Iterator):
        return "an iterator, which can be read only once: make a list or a DataFrame of it"
    if X is None:
        return "None"
    return f"{type(X).__name__}: convert it"


def _streamed(estimator: Any, name: str) -> str:
    reason = getattr(estimator, "_in_memory_since", None)
    own = type(estimator).__name__
    if name != "X" or reason is None:
        return (
            f"{name} must be in memory for {own}; got streamed rows: read them into an array or a "
            "frame first."
        )
    return (
        f"{own} needs all rows in memory, since {reason}; read them into an array or a frame, or "
        "use SemiPrivateClassifier or SemiPrivateBoostingClassifier, which read rows in chunks."
    )
