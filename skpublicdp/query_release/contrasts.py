"""Differences and ratios of two answers, from one release or from two, with intervals.

The intervals combine the intervals of both answers and their correlation (MOVER, the method of
variance estimates recovery). The correlation is that of the joint posterior of the cells and of the
sampling of rows; answers of two releases of different people are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np

from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.combined_cells import (
    answer_combined,
    check_joint,
    combined_intervals,
    groups_of,
    read_query,
)
from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.queries.base import WILDCARD
from skpublicdp.query_release.queries.combined import CombinedQuery, expand
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Floats

PROJECTION_SWEEPS = 20
"""Number of sweeps over the axes of a table that remove the effects of its margins."""


class Contrast(NamedTuple):
    """A difference or ratio of two answers, with the ends of its interval."""

    estimate: float
    low: float
    high: float


class Share:
    """The fraction of rows that satisfy a query, or their share of the rows in a group.

    The group is empty for all rows.
    """

    def __init__(
        self, released: FittedRelease, query: CombinedQuery, group: CombinedQuery, level: float
    ) -> None:
        self.released, self.query, self.group = released, query, group
        part = intersection(query, group)
        self.queries = [part, group]
        if is_empty(part):
            raise ValueError("No row of the group within can satisfy the query.")
        # intervals come first, so that an unreleased table raises an error instead of a warning
        self.ends = combined_intervals(released, self.queries, level)
        self.fractions = answer_combined(released, self.queries)  # of the query and the group

    @cached_property
    def estimate(self) -> Contrast:
        """The share with its interval."""
        rows = np.column_stack([self.fractions, self.ends])
        part, whole = map(Contrast._make, rows.tolist())
        if not self.group:
            return part
        variances = covariance(self.released, self.queries)
        share = ratio(part, whole, _correlation(variances))
        return at_most_one(share)

    def gradient(self) -> Floats:
        """Return the derivatives of the share by the fractions of the query and the group."""
        part, whole = self.fractions
        return np.array([1, -part / whole]) / whole if whole > 0 else np.array([1.0, 0.0])


def contrast(
    a: Share, b: Share, kind: Literal["difference", "ratio"], *, is_nested: bool
) -> Contrast:
    """Return the difference or the ratio of two shares, with its interval.

    `is_nested` states that the rows of `a` are among those of `b`, so that the ratio is at most 1.
    """
    correlation = 0.0
    if a.released is b.released:
        joint = covariance(a.released, a.queries + b.queries)
        gradients = np.zeros((2, 4))
        gradients[0, :2] = a.gradient()
        gradients[1, 2:] = b.gradient()
        variances = gradients @ joint @ gradients.T
        correlation = _correlation(variances)
    combine = difference if kind == "difference" else ratio
    result = combine(a.estimate, b.estimate, correlation)
    return at_most_one(result) if is_nested else result


def at_most_one(contrast: Contrast) -> Contrast:
    """Return a contrast whose estimate and ends are lowered to 1."""
    return Contrast(*np.minimum(contrast, 1).tolist())


def contrast_of_queries(
    released: FittedRelease,
    other: FittedRelease,
    queries: tuple[Any, Any],
    within: Any,
    kind: Literal["difference", "ratio"],
    level: float,
) -> Contrast:
    """Return the contrast of two of the user's queries, as `PAPQueryRelease.contrast` describes."""
    if kind not in ("difference", "ratio"):
        raise ValueError(f"kind must be 'difference' or 'ratio'; got {kind!r}.")
    is_pair = isinstance(within, tuple | list) and len(within) == 2
    groups = within if is_pair else (within, within)
    shares = [
        Share(
            fitted,
            read_query(fitted, query),
            {} if group is None else read_query(fitted, group),
            level,
        )
        for fitted, query, group in zip((released, other), queries, groups, strict=True)
    ]
    a, b = shares
    is_nested = kind == "ratio" and released is other and is_part(a.query, b.query)
    is_nested = is_nested and is_part(a.group, b.group) and is_part(b.group, a.group)
    return contrast(a, b, kind, is_nested=is_nested)


def difference(a: Contrast, b: Contrast, correlation: float) -> Contrast:
    """Return a - b with its interval by MOVER (Zou and Donner 2008)."""

    def distance(first: float, second: float) -> float:
        """Return the distance of an end from the estimate, given those of both answers."""
        product = correlation * first * second
        square = first**2 + second**2 - 2 * product
        return float(np.sqrt(max(square, 0)))

    estimate = a.estimate - b.estimate
    if np.isnan(estimate):  # a group may be empty
        return Contrast(estimate, a.low - b.high, a.high - b.low)
    a_below, a_above = a.estimate - a.low, a.high - a.estimate
    b_below, b_above = b.estimate - b.low, b.high - b.estimate
    low = estimate - distance(a_below, b_above)
    high = estimate + distance(a_above, b_below)
    return Contrast(estimate, low, high)


def ratio(a: Contrast, b: Contrast, correlation: float) -> Contrast:
    """Return a / b with its interval by MOVER (Donner and Zou 2012), and NaN if b may be 0.

    The interval contains the ratios r for which the interval of a - r b contains 0.
    """
    if b.low <= 0 or np.isnan(a.estimate):
        return Contrast(np.nan, 0.0, np.inf)

    def root(end_a: float, end_b: float, sign: int) -> float:
        """Return the ratio at which one end of the interval of a - r b is 0."""
        middle = a.estimate * b.estimate - correlation * abs(a.estimate - end_a) * abs(
            end_b - b.estimate
        )
        numerator = end_a * (2 * a.estimate - end_a)
        denominator = end_b * (2 * b.estimate - end_b)
        if denominator <= 0:  # b is so uncertain that the ratio has no lower limit
            return 0.0
        root_of = np.sqrt(max(middle**2 - numerator * denominator, 0.0))
        return float((middle + sign * root_of) / denominator)

    estimate = a.estimate / b.estimate
    low, high = root(a.low, b.high, -1), root(a.high, b.low, 1)
    return Contrast(estimate, min(max(low, 0.0), estimate), max(high, estimate))


def intersection(a: CombinedQuery, b: CombinedQuery) -> CombinedQuery:
    """Return the query that holds where both queries hold."""
    both = {column: np.intersect1d(a[column], b[column]) for column in a.keys() & b.keys()}
    return dict(sorted({**a, **b, **both}.items()))


def is_empty(query: CombinedQuery) -> bool:
    """Indicate whether no row can satisfy a query."""
    return any(len(codes) == 0 for codes in query.values())


def is_part(a: CombinedQuery, b: CombinedQuery) -> bool:
    """Indicate whether all rows that satisfy a query satisfy another query as well."""
    return all(column in a and np.isin(a[column], codes).all() for column, codes in b.items())


def covariance(released: FittedRelease, queries: Sequence[CombinedQuery]) -> Floats:
    """Return the covariance matrix of the errors of several answers of one release.

    The error of a sum of cells consists of the sampling error, of the deviations of its cells from
    their margins, and of the errors of these margins, of which each cell inherits its share.
    """
    release = check_joint(released).release
    fractions = answer_combined(released, queries)
    coefficients = [_coefficients(released, query) for query in queries]
    n_queries = len(queries)
    shared = np.diag(fractions)  # fractions of the rows that satisfy two queries
    for i, j in combinations(range(n_queries), 2):
        shared[i, j] = shared[j, i] = _shared_fraction(released, queries[i], queries[j])
    products = np.outer(fractions, fractions)
    matrix = (shared - products) / release.persons
    for i, first in enumerate(coefficients):
        for j, second in enumerate(coefficients):
            for columns in first.keys() & second.keys():
                variances = _deviation_variances(released, columns)
                weights = variances * first[columns]
                matrix[i, j] += (weights * second[columns]).sum()
    return matrix


def _coefficients(released: FittedRelease, query: CombinedQuery) -> dict[Attributes, Floats]:
    """Return the coefficients of a query's answer in the deviations of each table.

    The deviations of a table sum to zero along each axis. Multiples of margins are therefore
    removed from the coefficients, by regression with the variances as weights.
    """
    release, columns = check_joint(released).release, tuple(query)
    coefficients: dict[Attributes, Floats] = {}
    if not columns:
        return coefficients
    check_joint(released).check_released(columns)
    table = release.fractions[columns]
    groups = groups_of(query, release.sizes)
    is_inside = np.ones(table.shape)
    for axis, column in enumerate(columns):
        is_inside = np.moveaxis(np.moveaxis(is_inside, axis, -1) * groups[column], -1, axis)
    for n_columns in range(1, len(columns) + 1):
        for subset in combinations(columns, n_columns):
            others = tuple(axis for axis, column in enumerate(columns) if column not in subset)
            share = is_inside
            if others:
                inside = (table * is_inside).sum(axis=others)
                share = ratios(inside, table.sum(axis=others))
            variances = _deviation_variances(released, subset)
            for _ in range(PROJECTION_SWEEPS):
                for axis in range(share.ndim):
                    weights = variances.sum(axis=axis, keepdims=True)
                    share = share - (variances * share).sum(axis=axis, keepdims=True) / weights
            coefficients[subset] = share
    return coefficients


def _deviation_variances(released: FittedRelease, columns: Attributes) -> Floats:
    """Return the posterior variance of each cell of a table, given its margins."""
    posterior = check_joint(released).release.posteriors[columns]
    variances = posterior.sizes.weights @ posterior.deviation_variances
    return np.maximum(variances, np.finfo(np.float64).tiny).reshape(posterior.estimate.shape)


def _shared_fraction(released: FittedRelease, a: CombinedQuery, b: CombinedQuery) -> float:
    """Return the fraction of rows that satisfy two queries, without a table from synthetic rows."""
    both = intersection(a, b)
    if is_empty(both):
        return 0.0
    columns = tuple(both)
    if not columns or columns in check_joint(released).release.fractions:
        return float(answer_combined(released, [both])[0])
    cells, _ = expand([both], len(released.schema.columns), WILDCARD)
    return float(released.rows.answer(released.queries, cells).sum())


def _correlation(matrix: Floats) -> float:
    """Return the correlation that belongs to a covariance matrix of two numbers."""
    scale = np.sqrt(matrix[0, 0] * matrix[1, 1])
    return float(np.clip(matrix[0, 1] / scale, -1, 1)) if scale > 0 else 0.0
