"""Augmentation: synthetic public rows where the actual ones show too few values of a column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from skpublicdp.data.column import MAX_LISTED_COLUMNS
from skpublicdp.data.reference import reference_sample, spread_evenly
from skpublicdp.data.schema import Column, Schema
from skpublicdp.data.tables import Table
from skpublicdp.data.validation import pipeline_advice
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.typing import Floats, Mask

N_ADDED_ROWS = 300
"""Number of synthetic rows that are added to too few public rows, as in `describe_columns`."""


@dataclass(frozen=True, eq=False, repr=False)
class AugmentedSample:
    """Actual public rows of a fit, together with synthetic rows.

    Attributes
    ----------
    rows : ndarray of float64, shape (m, n_features)
        Encoded rows: the actual public rows in their order, then added rows.
    is_synthetic : ndarray of bool, shape (m,)
        Mask of the rows with at least one value that no actual public row has.
    """

    rows: Floats
    is_synthetic: Mask


def without_augmentation(rows: Floats) -> AugmentedSample:
    """Return public rows as a sample without any synthetic row."""
    return AugmentedSample(rows, np.zeros(len(rows), dtype=bool))


def augment_public(
    schema: Schema,
    X_public: Floats,
    tables: Sequence[Table],
    bounded: Collection[int],
    has_label: Mask,
    min_rows: int,
) -> AugmentedSample:
    """Return public rows with added values, spread over bounds and declared categories.

    With fewer than `min_rows` public rows, synthetic rows are added. Otherwise, if the rows show
    fewer than two values of a column, half of the rows get evenly spread values there. A warning
    names the columns that have neither bounds nor declared categories.

    Parameters
    ----------
    schema : Schema
        The columns.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows, at least one.
    tables : sequence of Table
        Tables with the columns. Only the declared types are read.
    bounded : collection of int
        Positions of the columns with bounds.
    has_label : ndarray of bool, shape (m,)
        Mask of the labelled rows. Unlabelled rows are changed first.
    min_rows : int
        Number of public rows below which rows are added.

    Returns
    -------
    AugmentedSample
        Actual and synthetic rows.

    Raises
    ------
    ValueError
        If no public value of a column lies within its bounds.
    """
    _check_within_bounds(schema, bounded)
    has_domain = np.array(
        [
            _has_declared_domain(column, position, tables, bounded)
            for position, column in enumerate(schema.columns)
        ]
    )
    m = len(X_public)
    if m < min_rows:
        undeclared = _select_names(schema, ~has_domain)
        if undeclared:
            warn(
                f"Only {m} public row{'s were' if m > 1 else ' was'} given, and at least "
                f"{min_rows} are needed to show the values of {_columns_and_remedies(undeclared)}",
                NoPublicDataWarning,
            )
        if not has_domain.any():
            return without_augmentation(X_public)
        repeated = X_public[np.arange(N_ADDED_ROWS) % m]  # for the columns without a domain
        added = _spread_columns(schema, repeated, has_domain)
        is_added = np.arange(m + N_ADDED_ROWS) >= m
        return AugmentedSample(np.concatenate([X_public, added]), is_added)

    is_uninformative = np.array(
        [
            _n_distinct(column, values) < 2
            for column, values in zip(schema.columns, X_public.T, strict=True)
        ]
    )
    undeclared = _select_names(schema, is_uninformative & ~has_domain)
    if undeclared:
        warn(
            f"Public rows show fewer than two values of {_columns_and_remedies(undeclared)}",
            NoPublicDataWarning,
        )
    changed_columns = is_uninformative & has_domain
    if not changed_columns.any():
        return without_augmentation(X_public)
    # shuffled, since rows may be sorted, by a fixed seed, since the result is no random output
    order = np.random.default_rng(0).permutation(m)
    order = order[np.argsort(has_label[order], kind="stable")]  # unlabelled rows first
    is_synthetic = np.zeros(m, dtype=bool)
    is_synthetic[order[: m // 2]] = True  # the same half of the rows in all columns
    rows = X_public.copy()
    rows[is_synthetic] = _spread_columns(schema, X_public[is_synthetic], changed_columns)
    return AugmentedSample(rows, is_synthetic)


def _check_within_bounds(schema: Schema, bounded: Collection[int]) -> None:
    """Raise ValueError if all public values of a bounded column lie outside its bounds."""
    for position in bounded:
        column = schema.columns[position]
        public_values = column.values
        if column.categorical or not len(public_values):
            continue
        if not ((column.low <= public_values) & (public_values <= column.high)).any():
            raise ValueError(
                f"Some public value of column {column.name} must lie within its bounds, and none "
                f"does: give both in one unit{pipeline_advice()}"
            )


def _has_declared_domain(
    column: Column, position: int, tables: Sequence[Table], bounded: Collection[int]
) -> bool:
    """Indicate whether bounds or a declared type determine the possible values of a column."""
    if not column.categorical:
        return position in bounded
    has_categories = any(table.types[position].categories for table in tables)
    is_boolean = column.values.tolist() == [False, True]
    return has_categories or is_boolean


def _n_distinct(column: Column, values: Floats) -> int:
    """Return the number of distinct categories, or distinct finite numbers, among encoded values.

    `OTHER` and `MISSING` are not counted.
    """
    is_counted = values < len(column.values) if column.categorical else np.isfinite(values)
    return len(np.unique(values[is_counted]))


def _spread_columns(schema: Schema, rows: Floats, columns: Mask) -> Floats:
    """Return a copy of encoded rows with evenly spread values in the selected columns.

    Parameters
    ----------
    schema : Schema
        The columns.
    rows : ndarray of float64, shape (n, n_columns)
        Encoded rows, whose values in the other columns are kept.
    columns : ndarray of bool, shape (n_columns,)
        Mask of the columns that get new values.
    """
    fractions = reference_sample(rows.shape[1], (0, 1), len(rows))
    changed = rows.copy()
    for position in np.flatnonzero(columns):
        changed[:, position] = spread_evenly(schema.columns[position], fractions[:, position])
    return changed


def _select_names(schema: Schema, columns: Mask) -> list[str]:
    """Return the names of the columns that a mask selects."""
    return [name for name, selected in zip(schema.names, columns, strict=True) if selected]


def _columns_and_remedies(names: list[str]) -> str:
    """Return the end of a warning about columns: their names, the consequence and the remedies."""
    n_others = len(names) - MAX_LISTED_COLUMNS
    others = f" and {n_others} others" if n_others > 0 else ""
    return (
        f"{', '.join(names[:MAX_LISTED_COLUMNS])}{others}, so private rows that differ there may "
        f"be treated as equal. Pass bounds={{{names[0]!r}: (low, high)}} for numbers, declare "
        "categories in the type of the column, pass public rows that vary there (as from "
        "skpublicdp.data.describe_columns), or drop constant columns."
    )
