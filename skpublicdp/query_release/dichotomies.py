"""In which ways halfspaces and runs of numbers divide a few public points."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Rows = NDArray[np.float64]

LEAST_MARGIN = 1e-9
"""Standardised points nearer to a hyperplane are taken to be on it."""


def runs(values: Rows) -> Rows:
    """List closed intervals, one for each run of neighbours among the distinct values.

    Their ends are halfway between values, so that no two intervals part a pair of numbers that
    have the same nearest value. The last interval is empty.
    """
    distinct = np.unique(values)
    halfway = (distinct[:-1] + distinct[1:]) / 2
    lows = np.concatenate([[-np.inf], np.nextafter(halfway, np.inf)])
    highs = np.concatenate([halfway, [np.inf]])
    first, last = np.triu_indices(len(distinct))
    return np.append(np.column_stack([lows[first], highs[last]]), [[np.inf, -np.inf]], axis=0)


def halfspace_dichotomies(points: Rows, holds: Callable[[Rows, Rows], NDArray[np.bool_]]) -> Rows:
    """List halfspaces, one for each division of distinct points.

    Parameters
    ----------
    points : ndarray of shape (m, n_features)
        Distinct points.
    holds : callable
        Tells for which points each halfspace (normal, offset) holds; it has the last word.

    Returns
    -------
    ndarray of shape (n_dichotomies, n_features + 1)
        Normals and offsets.
    """
    centre = points.mean(axis=0)
    scale = np.ptp(points, axis=0)
    scale[scale == 0] = 1.0
    lifted = np.column_stack([(points - centre) / scale, np.ones(len(points))])

    def in_units(normal: Rows) -> Rows:
        weights = normal[:-1] / scale
        return np.append(weights, weights @ centre - normal[-1])

    constant = np.zeros(lifted.shape[1])
    found = [(np.zeros(0, dtype=bool), constant)]
    for count in range(1, len(points) + 1):
        following = []
        for signs, normal in found:
            side = bool(lifted[count - 1] @ normal > 0)
            for sign in (side, not side):
                wanted = np.append(signs, sign)
                clear = sign == side and abs(lifted[count - 1] @ normal) > 1e-3
                separator = normal if clear else _separator(lifted[:count], wanted)
                if separator is not None:
                    following.append((wanted, separator))
        found = following
    rules = np.array([in_units(normal) for _, normal in found])
    exact = (holds(rules, points) == np.array([signs for signs, _ in found])).all(axis=1)
    kept: Rows = rules[exact]
    return kept


def _separator(lifted: Rows, signs: NDArray[np.bool_]) -> Rows | None:
    """Return the normal of largest margin, or None if the signs are not separable."""
    n_weights = lifted.shape[1]
    signed = np.where(signs, 1.0, -1.0)[:, None] * lifted
    program = linprog(
        np.append(np.zeros(n_weights), -1.0),  # the margin, to be maximised
        A_ub=np.column_stack([-signed, np.ones(len(signed))]),
        b_ub=np.zeros(len(signed)),
        bounds=[(-1, 1)] * n_weights + [(None, None)],
    )
    if program.status != 0 or program.x[-1] <= LEAST_MARGIN:
        return None
    weights: Rows = program.x[:-1]
    return weights


def line_arrangement_points(lines: Rows, points: Rows) -> Rows:
    """Return points in the four cells around every crossing of lines in the plane.

    Each cell of an arrangement of lines that are not all parallel has a corner, so all cells are
    met, save those narrower than the step.

    Parameters
    ----------
    lines : ndarray of shape (n_lines, 3)
        Normals and offsets.
    points : ndarray of shape (m, 2)
        Set the scale.
    """
    lines = lines[np.any(lines[:, :2] != 0, axis=1)]
    step = 1e-6 * max(float(np.ptp(points, axis=0).max()), 1e-12)
    around = []
    for one, other in combinations(lines, 2):
        matrix = np.array([one[:2], other[:2]])
        if abs(np.linalg.det(matrix)) < 1e-12 * np.linalg.norm(one[:2]) * np.linalg.norm(other[:2]):
            continue
        corner = np.linalg.solve(matrix, [one[2], other[2]])
        units = matrix / np.linalg.norm(matrix, axis=1)[:, None]
        for left in (-step, step):
            for right in (-step, step):
                around.append(corner + np.linalg.solve(units, [left, right]))
    return np.array(around).reshape(-1, 2)
