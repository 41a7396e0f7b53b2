"""Tables in which categories or bins are combined, and the distribution of ordered categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from skpublicdp.query_release.answers import FittedRelease, TableAnswers
from skpublicdp.query_release.combined_cells import check_joint, read_query
from skpublicdp.query_release.contrasts import Contrast, Share
from skpublicdp.query_release.discretize import bin_labels, encode_edges
from skpublicdp.query_release.marginals.collapse import (
    Groups,
    collapse_measurement,
    collapse_posterior,
    collapse_table,
)
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.marginals.table import TableMeasurement
from skpublicdp.query_release.queries.base import WILDCARD
from skpublicdp.query_release.queries.combined import Ends
from skpublicdp.query_release.table_frames import TableOptions, arrange, cell_values
from skpublicdp.query_release.table_rounding import publish, whole_counts
from skpublicdp.typing import Codes, Floats, Integers


def describe_collapsed(
    released: FittedRelease,
    positions: Sequence[int],
    within: Sequence[int],
    options: TableOptions,
    wide: bool | str,
    collapse: Mapping[Any, Any],
) -> Any:
    """Return a table in which cells are combined, as a frame or a dict."""
    answers, queries = check_joint(released), released.queries
    columns = tuple(sorted(positions))
    queries.table_cells(positions)  # raises an error for a repeated column
    answers.check_released(columns)
    groups: dict[int, Codes] = {}
    names: dict[int, list[str]] = {}
    for column, parts in collapse.items():
        position = released.schema.position(column)
        if position not in positions:
            raise ValueError(
                f"collapse has an entry for column {column}, which is not in the table."
            )
        groups[position], names[position] = _read_groups(released, position, parts)
    axes = []  # new codes of each column in the order of the table
    for position in positions:
        cells, cell_names = queries.table_cells([position])
        codes = cells[:, position]
        if position in groups:
            codes = groups[position][codes]
        else:
            name_of_code = dict(zip(codes.tolist(), cell_names[0], strict=True))
            names[position] = [name_of_code[code] for code in range(len(codes))]
        axes.append(list(dict.fromkeys(codes.tolist())))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    new_cells = np.full((len(grid), len(released.schema.columns)), WILDCARD)
    new_cells[:, list(positions)] = grid
    keys = {
        position: [names[position][code] for code in codes]
        for position, codes in zip(positions, grid.T.tolist(), strict=True)
    }
    collapsed = _CollapsedAnswers(answers, collapse_release(answers.release, columns, groups))
    values = cell_values(replace(released, answers=collapsed), new_cells, within, options)
    if options.whole:  # sums of the whole counts of the table
        assert options.n_rows is not None
        counts = whole_counts(released, columns, options.n_rows).astype(np.float64)
        sums = collapse_table(counts, columns, groups)
        values["count"] = sums[tuple(new_cells[:, list(columns)].T)].astype(np.int64)
    values = publish(values, [len(axis) for axis in axes], options)
    levels = {
        position: [names[position][code] for code in axis]
        for position, axis in zip(positions, axes, strict=True)
        if position in groups
    }
    return arrange(released, keys, values, wide, len(axes[-1]), levels)


class _CollapsedAnswers(TableAnswers):
    """Answers about the cells of a collapsed release."""

    def __init__(self, answers: TableAnswers, release: MarginalRelease) -> None:
        vars(self).update({**vars(answers), "release": release})


def collapse_release(
    release: MarginalRelease, columns: Sequence[int], groups: Groups
) -> MarginalRelease:
    """Return the tables over some columns, with combined cells."""
    subsets = [
        subset for size in range(1, len(columns) + 1) for subset in combinations(columns, size)
    ]
    posteriors = {
        subset: collapse_posterior(release.posteriors[subset], groups) for subset in subsets
    }
    measured = {}
    for subset in subsets:
        if groups.keys().isdisjoint(subset):
            measured[subset] = release.measured[subset]
        else:
            measured[subset] = TableMeasurement(*collapse_measurement(release, subset, groups))
    return replace(
        release,
        fractions={
            subset: collapse_table(release.fractions[subset], subset, groups) for subset in subsets
        },
        deviations={
            subset: posterior.deviations(release.persons)
            for subset, posterior in posteriors.items()
        },
        measured=measured,
        posteriors=posteriors,
        zeros={
            # a combined cell is impossible if all of its cells are
            subset: collapse_table((~mask).astype(np.float64), subset, groups) == 0
            for subset, mask in release.zeros.items()
            if set(subset) <= set(columns)
        },
    )


def _read_groups(released: FittedRelease, position: int, parts: Any) -> tuple[Codes, list[str]]:
    """Return the new code of each code of a column, and the names of the new codes.

    The user passes a dict from names to values, lists or ranges, or the edges of wider bins.
    """
    column, cell_names = released.schema.columns[position], released.queries.cell_names(position)
    if isinstance(parts, Mapping):
        named_parts = {str(name): part for name, part in parts.items()}
    elif column.categorical:
        raise ValueError(
            f"The groups of column {column.name} must be a dict from names to lists of categories; "
            f"got {type(parts).__name__}."
        )
    else:
        edges = encode_edges(parts, column)
        labels = bin_labels(edges, replace(column, low=edges[0], high=edges[-1]))
        user_edges = column.to_user(edges).tolist()
        named_parts = {
            name: Ends(low, high, has_low=number == 0)
            for number, (name, (low, high)) in enumerate(
                zip(labels, pairwise(user_edges), strict=True)
            )
        }
    new_codes = np.full(len(cell_names), -1)
    names = list(named_parts)
    for number, (name, part) in enumerate(named_parts.items()):
        query = read_query(released, {column.name: part})
        codes = query.get(position, np.arange(len(cell_names)))
        if (new_codes[codes] >= 0).any():
            raise ValueError(
                f"Groups of column {column.name} overlap: {name} contains cells of another group."
            )
        new_codes[codes] = number
    rest = np.flatnonzero(new_codes < 0)
    new_codes[rest] = len(names) + np.arange(len(rest))
    names += [str(cell_names[code]) for code in rest]
    return new_codes, names


def cumulative_shares(
    released: FittedRelease, position: int, level: float
) -> tuple[list[Any], list[Contrast]]:
    """Return the ordered categories of a column, and for each the share of rows up to it.

    The shares refer to the rows with a known category, and the last share is 1.
    """
    column = released.schema.columns[position]
    order = column.display_order[: len(column.values)]
    known = {position: np.sort(order)}
    shares = [
        Share(released, {position: np.sort(order[:stop])}, known, level).estimate
        for stop in range(1, len(order))
    ]
    everything = Contrast(1.0, 1.0, 1.0)
    categories = [column.names[code] for code in order]
    return categories, [*shares, everything]


def ordered_cdf(
    released: FittedRelease, position: int, x: Any, level: float
) -> tuple[Floats, Floats]:
    """Return the shares of rows up to each category of x, and their intervals."""
    categories, shares = cumulative_shares(released, position, level)
    number_of = {str(category): number for number, category in enumerate(categories)}
    array = np.asarray(x, dtype=object)
    unknown = [value for value in array.ravel() if str(value) not in number_of]
    if unknown:
        raise ValueError(
            f"x must contain categories of column {released.schema.names[position]}, which are "
            f"{', '.join(map(repr, categories))}; got {unknown[0]!r}."
        )
    numbers = [number_of[str(value)] for value in array.ravel()]
    chosen = np.array(shares)[numbers]
    chosen = chosen.reshape(*array.shape, 3)
    return chosen[..., 0], chosen[..., 1:]


def ordered_quantiles(
    released: FittedRelease, position: int, p: Floats, level: float
) -> tuple[Any, Any]:
    """Return the first category whose share of rows up to it reaches p, and the ends of intervals.

    An interval contains the categories that the intervals of the shares allow.
    """
    categories, shares = cumulative_shares(released, position, level)
    names = np.array(categories, dtype=object)
    increasing = np.maximum.accumulate(np.array(shares), axis=0)
    cdf, low, high = increasing.T

    def first(heights: Floats) -> Integers:
        """Return the number of the first category at which heights reach p."""
        return np.minimum(np.searchsorted(heights, p), len(names) - 1)

    smallest, largest = names[first(high)], names[first(low)]
    ends = np.stack([smallest, largest], axis=-1)
    return names[first(cdf)], ends
