"""Implement ResidualPlanner (Xiao, He, Zhang and Kifer 2023, arXiv 2305.08175) for comparison.

Each residual of a set of columns, the part of its table that its margins do not determine, gets
Gaussian noise with its own variance. The plan minimises the maximum cell variance over all tables
of the workload. As in the package, the number of rows is public and neighbours replace one row. The
tables are projected onto the simplex of nonnegative counts with sum n.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Columns = tuple[int, ...]
Floats = NDArray[np.float64]

ITERATIONS = 60
"""Number of multiplicative weight updates. Five times as many change errors by less than 1%."""


class ResidualPlan(NamedTuple):
    """Noise variances of residuals at μ² = 1, to be multiplied by 1/μ² for another budget."""

    residuals: list[Columns]
    variances: Floats


def plan_residuals(sizes: Sequence[int], workload: Sequence[Columns]) -> ResidualPlan:
    """Return the plan that minimises the maximum variance over the tables of a workload.

    Parameters
    ----------
    sizes : sequence of int
        Number of codes in each column.
    workload : sequence of tuple of int
        The columns of each table, in increasing order.
    """
    open_share = 1 - 1 / np.array(sizes, dtype=float)
    residuals = sorted({part for columns in workload for part in _parts(columns)},
                       key=lambda part: (len(part), part))  # fmt: skip
    place = {part: index for index, part in enumerate(residuals)}
    used = sorted({column for columns in workload for column in columns})
    changed = np.array(list(itertools.product((False, True), repeat=len(used))))[1:]
    # squared distance of neighbours in a residual at variance 1, by the columns that differ
    distances = np.empty((len(changed), len(residuals)), dtype=np.float32)
    for index, part in enumerate(residuals):
        products = np.ones(len(changed))
        for column in part:
            differs = changed[:, used.index(column)]
            products *= np.where(differs, open_share[column] - 1, open_share[column])
        distances[:, index] = 2 * (open_share[list(part)].prod() - products)
    factors = np.zeros((len(workload), len(residuals)))  # from variances to those of cells
    for row, columns in enumerate(workload):
        for part in _parts(columns):
            rest = [column for column in columns if column not in part]
            spread = np.prod([1 / sizes[column] ** 2 for column in rest])
            factors[row, place[part]] = open_share[list(part)].prod() * spread
    weights = np.full(len(workload), 1 / len(workload))
    largest = distances.max(axis=0)
    for _ in range(ITERATIONS):
        variances = np.sqrt(largest / (weights @ factors + 1e-300))
        variances *= (distances @ (1 / variances)).max()
        of_tables = factors @ variances
        weights *= (of_tables / of_tables.max()) ** 2
        weights /= weights.sum()
    return ResidualPlan(residuals, variances)


def release_residuals(
    counts: Sequence[Floats],
    sizes: Sequence[int],
    workload: Sequence[Columns],
    plan: ResidualPlan,
    mu_squared: float,
    seed: int,
) -> list[Floats]:
    """Return flattened noisy tables for the counts of a workload's tables."""
    generator = np.random.default_rng(seed)
    noise = {}
    for part, variance in zip(plan.residuals, plan.variances / mu_squared, strict=True):
        residual = generator.normal(0, np.sqrt(variance), [sizes[column] for column in part])
        for axis in range(len(part)):
            residual = residual - residual.mean(axis=axis, keepdims=True)
        noise[part] = residual
    released = []
    for columns, table in zip(workload, counts, strict=True):
        error = np.zeros([sizes[column] for column in columns])
        for part in _parts(columns):
            shape = [sizes[column] if column in part else 1 for column in columns]
            rest = np.prod([sizes[column] for column in columns if column not in part])
            error = error + noise[part].reshape(shape) / rest
        released.append(_on_simplex(table.ravel() + error.ravel(), float(table.sum())))
    return released


def _parts(columns: Columns) -> list[Columns]:
    return [part for width in range(1, len(columns) + 1)
            for part in itertools.combinations(columns, width)]  # fmt: skip


def _on_simplex(values: Floats, total: float) -> Floats:
    """Return the Euclidean projection onto nonnegative numbers with a given sum."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[np.flatnonzero(descending > excess)[-1]], 0)
