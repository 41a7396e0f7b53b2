"""Test, using public rows, whether a function's result for one row depends on other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skpublicdp._internal.redaction import call_silently
from skpublicdp.typing import Codes, Mask

MAX_ROWS = 500
"""Maximum number of public rows in a test, set to limit the run time."""

N_SINGLE = 8
"""Number of rows that are tested individually, set to limit the run time."""

_Take = Callable[[Any, Codes], Any]


def couples_rows(
    function: Callable[[Any], Any], rows: Any, n_rows: int, take: _Take, *, n_single: int = N_SINGLE
) -> bool:
    """Indicate whether the result for some public row was seen to depend on other public rows.

    The function is called on all rows, on the rows with every second one replaced, and on
    individual rows. Each individual row is repeated to obtain the same number of rows, since the
    order of floating-point sums depends on shapes and positions. If each result depends on a single
    row, the results of all calls agree up to rounding. The answer is False for a function that
    fails, is random, or returns a different number of rows.

    Parameters
    ----------
    function : callable
        Function that maps rows to an array, a sparse matrix or a frame with the same number of
        rows.
    rows : array-like or DataFrame, shape (n_rows, n_features)
        Public rows.
    n_rows : int
        Number of rows.
    take : callable
        Function of (rows, positions) that selects rows.
    n_single : int
        Number of rows that are tested individually.
    """
    if n_rows < 2:
        return False
    n_tested = min(n_rows, MAX_ROWS)
    sample = np.linspace(0, n_rows - 1, n_tested).astype(np.intp)

    def call(positions: Codes) -> NDArray[Any] | None:
        """Return the function's result for the sampled rows at the given positions.

        The result is None if the function fails or does not return one result per row.
        """
        values, error = call_silently(lambda: _as_array(function(take(rows, sample[positions]))))
        return values if error is None and values.shape[:1] == (n_tested,) else None

    all_rows = np.arange(n_tested)
    reference, repetition = call(all_rows), call(all_rows)
    if reference is None or repetition is None or _differ(reference, repetition):
        return False
    # every second row is replaced by a row that is kept (row 0, then row 1)
    for unchanged, substitute in ((all_rows % 2 == 0, 0), (all_rows % 2 == 1, 1)):
        result = call(np.where(unchanged, all_rows, substitute))
        if result is not None and _differ(reference, result, unchanged):
            return True
    for row in np.unique(np.linspace(0, n_tested - 1, n_single).astype(np.intp)):
        result = call(np.full(n_tested, row))
        if result is not None and _differ(reference, result, all_rows == row):
            return True
    return False


def _as_array(result: Any) -> NDArray[Any]:
    """Convert a function's result, which is an array, a sparse matrix or a frame, to an array."""
    if sparse.issparse(result):
        return np.asarray(result.toarray())
    return np.asarray(result.to_numpy() if hasattr(result, "to_numpy") else result)


def _differ(reference: NDArray[Any], result: NDArray[Any], compared: Mask | None = None) -> bool:
    """Indicate whether two results differ by more than rounding errors in the compared rows.

    The tolerance for floats is the square root of the machine precision, relative to the largest
    magnitude in the same column of `reference`. Missing values are treated as equal.

    Parameters
    ----------
    reference, result : ndarray, shape (n_rows, ...)
        Results for the same rows.
    compared : ndarray of bool, shape (n_rows,), optional
        Mask of the rows to compare. By default, all rows are compared.
    """
    if reference.shape != result.shape:
        return True
    if compared is None:
        compared = np.ones(len(reference), dtype=bool)
    first, second = reference[compared], result[compared]
    if first.dtype.kind == second.dtype.kind == "f":
        machine_precision = max(np.finfo(first.dtype).eps, np.finfo(second.dtype).eps)
        finite = np.where(np.isfinite(reference), reference, 0)
        magnitudes = np.abs(finite).max(axis=0, initial=0)
        tolerances = np.sqrt(machine_precision) * magnitudes
        with np.errstate(all="ignore"):
            is_close = np.abs(first - second) <= tolerances
        is_close |= first == second  # infinities
        is_close |= np.isnan(first) & np.isnan(second)
        return not bool(np.all(is_close))
    both_missing = (first != first) & (second != second)  # NaN is not equal to itself
    is_equal, error = call_silently(lambda: bool(np.all((first == second) | both_missing)))
    return error is None and not is_equal
