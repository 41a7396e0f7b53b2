"""Augment public rows that show too few values, from bounds and declared categories."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from skpublicdp.data.reference import evenly, reference_sample
from skpublicdp.data.schema import Column, Schema
from skpublicdp.data.tables import Table
from skpublicdp.data.validation import pipeline_advice
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.typing import Floats, Mask

N_ADDED_ROWS = 300
"""Number of added rows, the default of `describe_columns`."""


@dataclass(frozen=True, eq=False, repr=False)
class AugmentedSample:
    """Public rows, of which some may be synthetic.

    Attributes
    ----------
    rows : ndarray of float64, shape (m, n_features)
        Encoded rows: the given ones in their order, then others.
    is_synthetic : ndarray of bool, shape (m,)
        Which rows contain a value that no given public row has.
    """

    rows: Floats
    is_synthetic: Mask


def not_augmented(rows: Floats) -> AugmentedSample:
    """Return the rows as given, none of them synthetic."""
    return AugmentedSample(rows, np.zeros(len(rows), dtype=bool))


def augment_public(
    schema: Schema,
    X_public: Floats,
    tables: Sequence[Table],
    bounded: Collection[int],
    labelled: Mask,
    least: int,
) -> AugmentedSample:
    """Add values spread over bounds and declared categories where public rows show too few.

    If there are too few, others are added. If they show fewer than two values of a column, half of
    them get values that are spread evenly. Where nothing else is known of a column, a warning says
    so.

    Parameters
    ----------
    schema : Schema
        The columns.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows, at least one.
    tables : sequence of Table
        Looked at for the types of the columns only: what these declare is known.
    bounded : collection of int
        Positions of the columns whose bounds are known.
    labelled : ndarray of bool, shape (m,)
        Which rows have a label; these change last.
    least : int
        Fewer rows are too few.

    Returns
    -------
    Filled
        The rows.

    Raises
    ------
    ValueError
        If no public value of a column lies within its bounds.
    """
    for column in (schema.columns[at] for at in bounded):
        shown = column.values
        if column.categorical or not len(shown):
            continue
        if not ((column.low <= shown) & (shown <= column.high)).any():
            raise ValueError(
                f"Some public value of column {column.name} must lie within its bounds, and none "
                f"does: give both in one unit{pipeline_advice()}"
            )
    columns = enumerate(schema.columns)
    known = np.array([_is_known(column, at, tables, bounded) for at, column in columns])
    m = len(X_public)
    if m < least:
        unknown = _names(schema, ~known)
        if unknown:
            warn(
                f"Only {m} public row{'s were' if m > 1 else ' was'} given, where {least} would "
                f"show what values there are in {_listed(unknown)}",
                NoPublicDataWarning,
            )
        if not known.any():
            return not_augmented(X_public)
        others = _spread(schema, X_public[np.arange(N_ADDED_ROWS) % m], known)
        return AugmentedSample(np.concatenate([X_public, others]), np.arange(m + N_ADDED_ROWS) >= m)
    values = zip(schema.columns, X_public.T, strict=True)
    silent = np.array([_n_values(column, line) < 2 for column, line in values])
    unknown = _names(schema, silent & ~known)
    if unknown:
        warn(f"Public rows show fewer than two values of {_listed(unknown)}", NoPublicDataWarning)
    made_up = np.zeros(m, dtype=bool)
    if not (silent & known).any():
        return not_augmented(X_public)
    # in no order that rows may have come in, and the same ones for all columns
    order = np.random.default_rng(0).permutation(m)
    order = order[np.argsort(labelled[order], kind="stable")]
    made_up[order[: m // 2]] = True
    rows = X_public.copy()
    rows[made_up] = _spread(schema, X_public[made_up], silent & known)
    return AugmentedSample(rows, made_up)


def _is_known(
    column: Column, position: int, tables: Sequence[Table], bounded: Collection[int]
) -> bool:
    """Indicate whether bounds or a declared type determine the possible values."""
    if not column.categorical:
        return position in bounded
    declared = any(table.types[position].categories for table in tables)
    return declared or column.values.tolist() == [False, True]


def _n_values(column: Column, line: Floats) -> int:
    """Return the number of distinct finite values in a column."""
    shown = line < len(column.values) if column.categorical else np.isfinite(line)
    return len(np.unique(line[shown]))


def _spread(schema: Schema, rows: Floats, which: Mask) -> Floats:
    """Return rows with other values in some columns."""
    places = reference_sample(rows.shape[1], (0, 1), len(rows))
    spread = rows.copy()
    for position in np.flatnonzero(which):
        spread[:, position] = evenly(schema.columns[position], places[:, position])
    return spread


def _names(schema: Schema, which: Mask) -> list[str]:
    """Return the names of some columns."""
    return [name for name, chosen in zip(schema.names, which, strict=True) if chosen]


def _listed(names: list[str]) -> str:
    """Return the end of a warning: the columns, the consequence and the remedies."""
    more = f" and {len(names) - 5} others" if len(names) > 5 else ""
    return (
        f"{', '.join(names[:5])}{more}, so private rows that differ there may be taken for alike; "
        f"pass bounds={{{names[0]!r}: (low, high)}} for numbers, declare the categories of others "
        "in the type of the column, pass rows in which they vary, such as "
        "skpublicdp.data.describe_columns writes, or drop what never does."
    )
