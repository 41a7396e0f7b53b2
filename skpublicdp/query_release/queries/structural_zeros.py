"""Structural zeros that users declare: impossible combinations of values, and hierarchies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from skpublicdp.data.schema import Column, Schema
from skpublicdp.data.tables import is_frame
from skpublicdp.query_release.answers import by_table
from skpublicdp.query_release.marginals.count import Attributes, check_workload
from skpublicdp.query_release.marginals.zeros import with_margins
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.queries.combined import Objects
from skpublicdp.query_release.queries.marginal import check_categories, object_table
from skpublicdp.typing import Codes, Integers, Mask


def impossible_combinations(
    queries: QueryClass, schema: Schema, codes_public: Integers
) -> dict[Attributes, Mask]:
    """Return the combinations of codes that `zeros` and `hierarchy` of bound queries exclude.

    With either parameter, the codes that the types of columns exclude are impossible as well.
    Private rows are not used. `codes_public` contains the codes of public rows, and may be empty.
    """
    if queries.zeros is None and queries.hierarchy is None:
        return {}
    sizes = queries.sizes
    zeros: dict[Attributes, Mask] = {}

    def mask_of(columns: Attributes) -> Mask:
        """Return the mask of a set of columns, which is added if it is absent."""
        check_workload([columns], sizes)  # raises an error if there are too many cells
        shape = tuple(sizes[column] for column in columns)
        return zeros.setdefault(columns, np.zeros(shape, dtype=bool))

    for position, column in enumerate(schema.columns):
        if column.categorical:
            is_excluded = column.is_impossible(np.arange(sizes[position], dtype=np.float64))
            if is_excluded.any():
                mask_of((position,))[is_excluded] = True
    for combinations in _read_zeros(queries.zeros, schema):
        _check_whole_cells(combinations, queries, schema)
        for columns, _, codes in by_table(queries.encode(combinations, schema)):
            if not columns:
                raise ValueError(
                    "Each entry of zeros must name at least one column, with the values that are "
                    "impossible together."
                )
            mask_of(columns)[codes] = True
    for child_name, declared in (queries.hierarchy or {}).items():
        child, parent, parent_of_code = _read_hierarchy(child_name, declared, schema, codes_public)
        known_codes = np.flatnonzero(parent_of_code >= 0)
        is_impossible = np.ones((len(known_codes), sizes[parent]), dtype=bool)
        is_impossible[np.arange(len(known_codes)), parent_of_code[known_codes]] = False
        mask = mask_of((min(child, parent), max(child, parent)))
        child_first = mask if child < parent else mask.T  # a view
        child_first[known_codes] |= is_impossible
    completed = with_margins(zeros)
    for columns, mask in completed.items():
        if mask.all():
            names = ", ".join(schema.names[column] for column in columns)
            raise ValueError(f"zeros and hierarchy exclude all values of {names}.")
    return completed


def _read_zeros(zeros: Any, schema: Schema) -> list[Objects]:
    """Return the entries of `zeros` as arrays of impossible combinations, with None for any value.

    A mapping with lists of values stands for all combinations of the listed values.
    """
    entries = [zeros] if isinstance(zeros, Mapping) or is_frame(zeros) else list(zeros or ())
    tables = []
    for entry in entries:
        if isinstance(entry, Mapping):
            values = [
                list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
                for value in entry.values()
            ]
            entry = [
                dict(zip(entry, combination, strict=True))
                for combination in itertools.product(*values)
            ]
        elif not is_frame(entry):
            raise ValueError(
                "zeros must be a list of dicts from columns to a value or a list of values, or of "
                f"data frames; got an entry of type {type(entry).__name__}."
            )
        tables.append(object_table(entry, schema))
    return tables


def _check_whole_cells(combinations: Objects, queries: QueryClass, schema: Schema) -> None:
    """Raise a ValueError if a number in an impossible combination is only a part of a bin."""
    for position, column in enumerate(schema.columns):
        if column.categorical:
            continue
        names = queries.cell_names(position)
        for value in combinations[:, position]:
            if not (value is None or isinstance(value, str) or value in names):
                raise ValueError(
                    f"Values of column {column.name} in zeros must be whole bins, because the "
                    f"number {value} shares a bin with other numbers. Pass the name of a bin, as "
                    "in the table of the column."
                )


def _read_hierarchy(
    child_name: Any, declared: Any, schema: Schema, codes_public: Integers
) -> tuple[int, int, Codes]:
    """Return the positions of a child and its parent, and the parent's code for each child code.

    The code of the parent is -1 where it is unknown. It is unknown for all values that neither the
    declaration nor a public row contains, as well as for unknown categories and missing values.
    """
    has_mapping = isinstance(declared, tuple)
    parent_name, mapping = declared if has_mapping else (declared, {})
    child, parent = schema.position(child_name), schema.position(parent_name)
    column, parent_column = schema.columns[child], schema.columns[parent]
    if child == parent or not (column.categorical and parent_column.categorical):
        raise ValueError(
            f"hierarchy must map a categorical column to another one; got {column.name} and "
            f"{parent_column.name}."
        )
    if has_mapping:
        pairs = np.array([*dict(mapping).items()], dtype=object).reshape(-1, 2)
        is_known = np.isin(pairs[:, 0].astype(str), [str(value) for value in column.values])
        pairs = pairs[is_known]  # other values are in the cell of unknown categories
        check_categories(pairs[:, 1], parent_column)
        child_codes = column.encode(pairs[:, 0]).astype(np.intp)
        parent_codes = parent_column.encode(pairs[:, 1]).astype(np.intp)
    else:
        child_codes, parent_codes = codes_public[:, child], codes_public[:, parent]
        has_values = (child_codes < len(column.values)) & (parent_codes < len(parent_column.values))
        child_codes, parent_codes = child_codes[has_values], parent_codes[has_values]
        if not len(child_codes):
            raise ValueError(
                f"The hierarchy of {column.name} requires public rows with both columns. Without "
                f"them, pass hierarchy={{{column.name!r}: ({parent_column.name!r}, {{value: "
                f"{parent_column.name}}})}}."
            )
    parent_of_code = np.full(column.n_categories, -1)
    parent_of_code[child_codes] = parent_codes
    _check_unique(column, parent_column, parent_of_code[child_codes] == parent_codes, child_codes)
    return child, parent, parent_of_code


def _check_unique(column: Column, parent: Column, agrees: Mask, child_codes: Codes) -> None:
    """Raise a ValueError if public rows place a value of a column in several parents."""
    if not agrees.all():
        value = column.names[int(child_codes[~agrees][0])]
        raise ValueError(
            f"In a hierarchy, each value of {column.name} must lie in one value of {parent.name}, "
            f"but {value!r} lies in several among the public rows. Correct these rows, or pass "
            f"hierarchy={{{column.name!r}: ({parent.name!r}, {{value: {parent.name}}})}}."
        )
