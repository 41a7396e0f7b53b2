"""Parts of tables in the user's own kind: arrays, and frames as narwhals reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray


def wrapped(table: Any) -> Any:
    """Return a frame or series as narwhals sees it, and anything else as it is."""
    return nw.from_native(table, eager_only=True, allow_series=True, pass_through=True)


def unwrapped(table: Any) -> Any:
    """Return what `wrapped` was given."""
    return nw.to_native(table, pass_through=True)


def height(table: Any) -> int:
    """Return the number of rows."""
    shape = getattr(table, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else len(table)


def width(table: Any) -> int:
    """Return the number of columns; 1 for a series or a flat array."""
    shape = getattr(table, "shape", ())
    return int(shape[1]) if isinstance(shape, tuple) and len(shape) > 1 else 1


def cut(table: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` to before `stop`, without copying them."""
    if start == 0 and stop == height(table):
        return table
    return unwrapped(wrapped(table)[start:stop])


def pick_rows(table: Any, positions: NDArray[np.intp]) -> Any:
    """Return the rows at the positions, in their order, as a copy."""
    table = wrapped(table)
    return (
        np.asarray(table[positions])
        if isinstance(table, np.ndarray)
        else unwrapped(table[positions])
    )


def pick_columns(table: Any, columns: Sequence[int]) -> Any:
    """Return the columns at the positions, in their order; side by side they are no copy."""
    if list(columns) == list(range(width(table))):
        return table
    if isinstance(table, np.ndarray) and list(columns) == list(
        range(columns[0], columns[0] + len(columns)) if columns else ()
    ):
        return table[:, columns[0] : columns[0] + len(columns)] if columns else table[:, :0]
    return unwrapped(wrapped(table)[:, list(columns)])


def column(table: Any, position: int) -> Any:
    """Return one column as a series or a flat array."""
    return unwrapped(wrapped(table)[:, position])


def joined(tables: Sequence[Any]) -> Any:
    """Return tables of one kind under each other."""
    if len(tables) == 1:
        return tables[0]
    parts = [wrapped(table) for table in tables]
    if isinstance(parts[0], nw.DataFrame):
        return unwrapped(nw.concat(parts))
    if isinstance(parts[0], nw.Series):
        name = parts[0].name
        frames = [part.alias("y").to_frame() for part in parts]
        return unwrapped(nw.concat(frames)["y"].alias(name))
    return np.concatenate(parts)
