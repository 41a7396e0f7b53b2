"""Answers to queries about combined cells, and their intervals from collapsed tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.answers import FittedRelease, TableAnswers
from skpublicdp.query_release.marginals.collapse import (
    Groups,
    collapse_measurement,
    collapse_posterior,
)
from skpublicdp.query_release.marginals.noisy_fractions import NoisyFractions
from skpublicdp.query_release.marginals.zeros import possible_cells
from skpublicdp.query_release.queries.base import WILDCARD
from skpublicdp.query_release.queries.combined import CombinedQuery, expand
from skpublicdp.typing import Floats


def answer(released: FittedRelease, Q: Any) -> Floats:
    """Return the estimated fractions of rows that satisfy the user's queries."""
    queries = released.queries.combined(Q, released.schema)
    return released.answer(Q) if queries is None else answer_combined(released, queries)


def answer_combined(released: FittedRelease, queries: Sequence[CombinedQuery]) -> Floats:
    """Return the answers to queries about combined cells, which are sums of cells."""
    cells, starts = expand(queries, len(released.schema.columns), WILDCARD)
    fractions: Floats = np.add.reduceat(released.answers.answer(cells), starts)
    return np.minimum(fractions, 1)


def holds(released: FittedRelease, Q: Any, rows: Floats) -> NDArray[np.bool_]:
    """Indicate whether each of the user's queries holds for each encoded row."""
    queries = released.queries.combined(Q, released.schema)
    if queries is None:
        return released.queries.holds(released.queries.encode(Q, released.schema), rows)
    cells, starts = expand(queries, len(released.schema.columns), WILDCARD)
    return np.logical_or.reduceat(released.queries.holds(cells, rows), starts)


def intervals(
    released: FittedRelease, Q: Any, level: float, *, simultaneous: bool = False
) -> Floats:
    """Return confidence intervals for the fractions of the user's queries."""
    queries = released.queries.combined(Q, released.schema)
    if queries is None:
        return released.intervals(Q, level, simultaneous=simultaneous)
    return combined_intervals(released, queries, level, simultaneous=simultaneous)


def combined_intervals(
    released: FittedRelease,
    queries: Sequence[CombinedQuery],
    level: float,
    *,
    simultaneous: bool = False,
) -> Floats:
    """Return confidence intervals for queries about combined cells, shape (n_queries, 2).

    For each query, the codes of each column are collapsed to two: whether they satisfy the query.
    """
    answers = check_joint(released)
    release = answers.release
    failure = (1 - level) / (2 * len(queries))  # Bonferroni, over both ends of all intervals
    ends = np.ones((len(queries), 2))  # the interval [1, 1] for queries that restrict no column
    for number, query in enumerate(queries):
        if not query:
            continue
        columns, codes = tuple(query), tuple(query.values())
        answers.check_released(columns)
        possible = possible_cells(release.zeros, columns, release.fractions[columns].shape)
        if possible is not None and not possible[np.ix_(*codes)].any():
            ends[number] = 0
            continue
        if all(len(members) == 1 for members in codes):
            noisy = release.noisy(columns, codes)
            ends[number] = release.intervals(columns, codes, level)[0]
        else:
            groups = groups_of(query, release.sizes)
            posterior = collapse_posterior(release.posteriors[columns], groups)
            values, variances = collapse_measurement(release, columns, groups)
            # all columns satisfy the query in the last cell
            noisy = NoisyFractions(
                values.ravel()[-1:], variances.ravel()[-1:], release.persons, release.gaussian
            )
            last = np.array([values.size - 1])
            ends[number] = posterior.intervals(last, level, noisy)[0]
        if simultaneous:
            low, high = noisy.bounds(failure)
            ends[number] = min(ends[number, 0], low[0]), max(ends[number, 1], high[0])
    return ends


def groups_of(query: CombinedQuery, sizes: Sequence[int]) -> Groups:
    """Return the code 1 for each code that satisfies the query, and 0 for others, by column."""
    return {
        column: np.isin(np.arange(sizes[column]), codes).astype(np.intp)
        for column, codes in query.items()
    }


def check_joint(released: FittedRelease) -> TableAnswers:
    """Return the answers after checking that the release has a joint posterior of its cells."""
    answers = released.answers
    if not (isinstance(answers, TableAnswers) and answers.has_column_intervals):
        raise ValueError(
            "Intervals of combined cells require tables released with method='auto', and are not "
            "available after calling calibrate. Use the release as it was before calibration."
        )
    return answers


def read_query(released: FittedRelease, query: Any) -> CombinedQuery:
    """Return a query of the user as the codes that satisfy it, by column."""
    if not isinstance(query, Mapping):
        raise ValueError(
            f"The query must be a dict from columns to values; got {type(query).__name__}."
        )
    check_joint(released)
    combined = released.queries.combined(query, released.schema)
    if combined is not None:
        return combined[0]
    (cells,) = released.queries.encode(query, released.schema)
    return {column: cells[[column]] for column in np.flatnonzero(cells != WILDCARD).tolist()}
