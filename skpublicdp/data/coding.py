"""Labels of chunks: which there are, and their codes, by way of the distinct ones."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.labels import Kind, Targets


def seen_in(kind: Kind, y: Any) -> NDArray[Any]:
    """Return what `kind` has to see of a chunk of `y` before it can read all."""
    series = _countable(y)
    return kind.seen(kind.column(y if series is None else series.unique().to_native()))


def codes_in(kind: Kind, y: Any, targets: Targets) -> NDArray[Any]:
    """Return a chunk of `y` as `targets` has its private part."""
    if targets.classes is not None and not len(y):
        return np.empty(0, dtype=np.intp)  # no labels are of no kind
    series = None if targets.classes is None else _countable(y)
    if series is None:
        return kind.encode(kind.column(y), targets)
    if series.dtype.is_integer() and not series.null_count():
        return _codes_of_integers(kind, np.asarray(series.to_numpy()), targets)
    labels = series.unique()
    codes = kind.encode(kind.column(labels.to_native()), targets)
    listed = labels.to_list()
    found = series.replace_strict(listed, codes.tolist(), return_dtype=nw.Int64).to_numpy()
    return np.asarray(found, dtype=np.intp)


def _codes_of_integers(kind: Kind, y: NDArray[Any], targets: Targets) -> NDArray[np.intp]:
    low, high = int(y.min()), int(y.max())
    if high - low > len(y):
        return np.asarray(kind.encode(kind.column(y), targets), dtype=np.intp)
    places = y.astype(np.int64) - low if y.dtype.itemsize < 8 else (y - y.dtype.type(low))
    places = places.astype(np.intp, copy=False)
    occur = np.flatnonzero(np.bincount(places))
    codes = np.zeros(high - low + 1, dtype=np.intp)
    codes[occur] = kind.encode(kind.column((occur + low).astype(y.dtype)), targets)
    found: NDArray[np.intp] = np.take(codes, places)
    return found


def _countable(y: Any) -> Any:
    """Return a series whose library finds equal values much faster than Python does."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series) or not len(series):
        return None
    quick = series.dtype in (nw.String, nw.Boolean) or series.dtype.is_integer()
    return series if quick else None
