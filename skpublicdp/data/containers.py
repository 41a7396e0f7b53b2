"""Rejection of unsupported containers (sparse, masked, structured, streamed) by type alone."""

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
    """Raise an error unless the argument `X` of an estimator is a table in memory.

    Parameters
    ----------
    estimator : estimator
        Estimator. Its attribute `_in_memory_since`, if any, is the reason in the message about
        streamed rows.
    X : object
        Argument for rows. No value is read.
    name : str
        Name of the argument in messages.
    accept_sparse : bool
        Whether sparse matrices are accepted.

    Raises
    ------
    TypeError
        If `X` is sparse.
    ValueError
        If `X` is not a table, or if it is streamed.
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
            f"{name} must be a table of columns; got a structured array: convert it to a DataFrame."
        )
    is_mistake = isinstance(X, type | Iterator) or _is_function(X)  # rather than streamed rows
    if not is_mistake and is_streamed(X):
        raise ValueError(_streamed_message(estimator, name))
    shape = _shape(X)
    if not shape:
        raise ValueError(
            f"{name} must be a table, rows by columns: a DataFrame, a two-dimensional array or a "
            f"list of rows; got {_actual_and_remedy(X)}."
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


def count_rows_in_container(X: Any) -> int:
    """Return the number of rows of a container, which is public; 0 without a shape."""
    shape = _shape(X)
    return int(shape[0]) if shape else 0


def check_shape(shape: tuple[int, ...], name: str = "X") -> None:
    """Raise ValueError unless an array has two dimensions with at least one row and one column."""
    if len(shape) < 2:  # a list whose items are not rows
        raise ValueError(
            f"Expected 2D array, got 1D array instead: a list as {name} must hold rows that are "
            f"lists of the same length (make a DataFrame of dicts); {RESHAPE}."
        )
    if len(shape) > 2:
        raise ValueError(
            f"{name} must have rows and columns only, dim 2; got an array of dim {len(shape)}: "
            "reshape it, or drop nested values."
        )
    for axis, size in zip(("sample", "feature"), shape, strict=True):
        if not size:
            raise ValueError(
                f"Found array with 0 {axis}(s) (shape={shape}) while a minimum of 1 is required: "
                f"{name} must have at least one row and one column."
            )


def _is_function(X: Any) -> bool:
    """Indicate whether X is a callable without a shape, such as a function of record batches."""
    return callable(X) and not hasattr(X, "shape")


def _shape(X: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or a frame, (length,) of a sequence, and None otherwise."""
    shape: Any = None if isinstance(X, type) else getattr(X, "shape", None)
    if isinstance(shape, tuple):
        return shape
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return (len(X),)
    if hasattr(X, "__array__") and not isinstance(X, type):
        return np.asarray(X).shape
    return None


def _actual_and_remedy(X: Any) -> str:
    """Return the end of a message about an object that is no table: its type and the remedy."""
    if isinstance(X, str | PathLike):
        return "a text or a path: open files with skpublicdp.data.open_rows"
    if isinstance(X, dict):
        return "a dict: convert it to a DataFrame"
    if isinstance(X, Iterator):
        return "an iterator, which can be read only once: convert it to a list or a DataFrame"
    if X is None:
        return "None"
    return f"{type(X).__name__}: convert it"


def _streamed_message(estimator: Any, name: str) -> str:
    """Return the message about streamed rows for an estimator that needs rows in memory."""
    reason = getattr(estimator, "_in_memory_since", None)
    estimator_name = type(estimator).__name__
    if name != "X" or reason is None:
        return (
            f"{name} must be in memory for {estimator_name}; got streamed rows: read them into an "
            "array or a frame first."
        )
    return (
        f"{estimator_name} needs all rows in memory, since {reason}; read them into an array or a "
        "frame, or use SemiPrivateClassifier or SemiPrivateBoostingClassifier, which read rows in "
        "chunks."
    )
