"""Test on public rows whether a function's result for a row depends on the other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skpublicdp._internal.redaction import call_silently

MAX_ROWS = 500
"""Maximum number of public rows that are tried, a matter of time."""

N_ALONE = 8
"""Number of rows that are tried alone, a matter of time."""

_Take = Callable[[Any, NDArray[np.intp]], Any]


def couples_rows(
    function: Callable[[Any], Any], rows: Any, n_rows: int, take: _Take, *, alone: int = N_ALONE
) -> bool:
    """Indicate whether the result for a public row was seen to depend on other public rows.

    The function is called on all rows, on the rows with every other one replaced, and on single
    rows alone. A single row is repeated to the same number of rows: the results of functions of
    one row are then equal up to rounding, since shapes and positions decide how sums are ordered.

    A function that fails, that returns another number of rows or that is random shows nothing.

    Parameters
    ----------
    function : callable
        Maps rows to an array, a sparse matrix or a frame with one row each.
    rows : array-like or DataFrame, shape (n_rows, n_features)
        Public rows.
    n_rows : int
        Number of rows.
    take : callable
        Selects rows by their positions.
    alone : int
        Number of rows that are tried alone.
    """
    if n_rows < 2:
        return False
    n_tried = min(n_rows, MAX_ROWS)
    sample = np.linspace(0, n_rows - 1, n_tried).astype(np.intp)

    def result(positions: NDArray[np.intp]) -> NDArray[Any] | None:
        values, error = call_silently(lambda: _as_array(function(take(rows, sample[positions]))))
        return values if error is None and values.shape[:1] == (n_tried,) else None

    everything = np.arange(n_tried)
    whole, again = result(everything), result(everything)
    if whole is None or again is None or _differ(whole, again):
        return False
    for kept, substitute in ((everything % 2 == 0, 0), (everything % 2 == 1, 1)):
        changed = result(np.where(kept, everything, substitute))
        if changed is not None and _differ(whole, changed, kept):
            return True
    for row in np.unique(np.linspace(0, n_tried - 1, alone).astype(np.intp)):
        changed = result(np.full(n_tried, row))
        if changed is not None and _differ(whole, changed, everything == row):
            return True
    return False


def _as_array(result: Any) -> NDArray[Any]:
    if sparse.issparse(result):
        return np.asarray(result.toarray())
    return np.asarray(result.to_numpy() if hasattr(result, "to_numpy") else result)


def _differ(
    whole: NDArray[Any], other: NDArray[Any], kept: NDArray[np.bool_] | None = None
) -> bool:
    """Indicate whether two results differ in the kept rows by more than rounding."""
    if whole.shape != other.shape:
        return True
    kept = np.ones(len(whole), dtype=bool) if kept is None else kept
    first, second = whole[kept], other[kept]
    if first.dtype.kind == second.dtype.kind == "f":
        precision = np.sqrt(max(np.finfo(first.dtype).eps, np.finfo(second.dtype).eps))
        magnitudes = np.abs(np.where(np.isfinite(whole), whole, 0)).max(axis=0, initial=0)
        tolerances = precision * np.broadcast_to(magnitudes, first.shape)
        with np.errstate(all="ignore"):
            near = np.abs(first - second) <= tolerances
        return not bool(np.all(near | (first == second) | np.isnan(first) & np.isnan(second)))
    missing = (first != first) & (second != second)
    equal, error = call_silently(lambda: bool(np.all((first == second) | missing)))
    return error is None and not equal
