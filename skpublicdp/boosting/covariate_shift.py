"""A first look: how many rows lie in one half of each column, and what that says of public rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve
from scipy.optimize import minimize
from scipy.stats import rankdata

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.posterior import WeightedPublicRows, row_space, whiten_and_reduce

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MIN_SHIFT_EVIDENCE = 2.0
"""Logarithm of the evidence beyond which public rows are taken to be of another population."""

MIN_EFFECTIVE_FRACTION = 0.1
"""Least share of the public rows that must count: beyond, no weights make them alike."""

TILT_VARIANCES = np.geomspace(0.003, 30, 25)
"""By how much the logarithms of weights may vary, as variances; evidence chooses."""


def median_split_indicators(features: Binner, design: WeightedPublicRows) -> Integers:
    """Choose the half of each column's cells that has the share of rows next to one half.

    Parameters
    ----------
    features : Binner
        The cells. Those of numbers are taken in order, those of categories the most common first.
    design : WeightedPublicRows
        Public rows.

    Returns
    -------
    ndarray of int64, shape (n_halves, n_cells)
        1 for each cell in the half of a column. Columns in which all public rows have the same cell
        are left out.
    """
    chosen, shares = [], design.weights @ design.X
    for start, feature in zip(features.offsets, features.columns, strict=False):
        share = shares[start : start + feature.size]
        order = np.arange(feature.size)
        if feature.column.categorical:
            order = np.argsort(-share, kind="stable")
        order = order[share[order] > 0]
        if len(order) < 2:
            continue
        below = np.cumsum(share[order[:-1]])
        half = np.zeros(len(shares), dtype=np.int64)
        half[start + order[: 1 + int(np.argmin(np.abs(below - 0.5)))]] = 1
        chosen.append(half)
    return np.array(chosen, dtype=np.int64).reshape(len(chosen), len(shares))


def shift_features(features: Binner, X: Floats, X_public: Floats) -> Floats:
    """Return what the log-odds of a row's being public may depend on, linearly.

    Numbers count by the log-odds of their rank, which grow without end in both tails; categories
    and missing values by themselves.

    Parameters
    ----------
    features : Binner
        The cells.
    X : ndarray of float64, shape (m, n_cells)
        Cells of the public rows, 0 and 1.
    X_public : ndarray of float64, shape (m, n_columns)
        Encoded public rows.

    Returns
    -------
    ndarray of float64, shape (m, n_tendencies)
        Columns of numbers have two, the second for missing ones.
    """
    found = []
    for start, stop, feature, values in zip(
        features.offsets, features.offsets[1:], features.columns, X_public.T, strict=False
    ):
        if feature.column.categorical:
            found.append(X[:, start:stop])
            continue
        known = ~np.isnan(values)
        line = np.zeros(len(values))
        rank = (rankdata(values[known]) - 0.5) / max(int(known.sum()), 1)
        line[known] = np.log(rank / (1 - rank))
        found += [line[:, None], X[:, stop - 1 : stop]]
    return np.hstack(found)


@dataclass(frozen=True, eq=False)
class ShiftEstimate:
    """What counts of halves say of public rows.

    Attributes
    ----------
    drift : float
        How unlike the public rows are, about 1 if they are of the same population.
    weights : ndarray of float64, shape (m,), or None
        Weights of sum 1 with which they look alike; ``None`` if they do so anyway, or if none do.
    drifted : bool
        Whether they are taken to be of another population.
    """

    drift: float
    weights: Floats | None
    drifted: bool


def estimate_shift(
    design: WeightedPublicRows,
    chosen: Integers,
    T: Floats,
    counts: Integers,
    variance: float,
    unlikely: float,
) -> ShiftEstimate:
    """Compare the halves of private rows with those of public ones, and weigh these if need be.

    Weights are multiplied by exp(T a) for a normal a, of the variance that has the most evidence,
    and among them the likeliest is taken.

    Parameters
    ----------
    design : WeightedPublicRows
        Public rows, weighed as they are so far.
    chosen : ndarray of int64, shape (n_halves, n_cells)
        The halves.
    T : ndarray of float64, shape (m, n_tendencies)
        What weights may depend on.
    counts : ndarray of int64, shape (n_halves,)
        Private rows in each half, with noise.
    variance : float
        Variance of the noise.
    unlikely : float
        Logarithm of the evidence beyond which rows are weighed.

    Returns
    -------
    ShiftEstimate
        The drift and the weights.
    """
    Z = design.X @ chosen.T
    n, weights = design.n, design.weights
    # the private rows as a sample, and the public ones
    sampling = design.concentration + 1 / n
    noise = np.full(len(counts), variance / n**2)
    chances = sampling * (weights @ (Z - weights @ Z) ** 2) + noise
    drift = float(((counts / n - weights @ Z) ** 2 / chances).mean())

    shares, Z = whiten_and_reduce(counts / n, noise, Z)
    _, T = row_space(T - weights @ T)
    centred = Z - weights @ Z
    spread = (centred * weights[:, None]).T @ centred
    chance = sampling * spread + np.eye(len(shares))
    miss = shares - weights @ Z

    # Gaussian evidence for shifts of covariance s M Mᵀ over that for none, in the axes of both
    root = np.linalg.cholesky(chance)
    moved = (centred * weights[:, None]).T @ T
    likely = np.linalg.solve(root, moved)
    values, axes = np.linalg.eigh(likely @ likely.T)
    along = (axes.T @ np.linalg.solve(root, miss)) ** 2
    ratios = TILT_VARIANCES[:, None] * np.maximum(values, 0.0)
    evidence = (along * ratios / (1 + ratios) - np.log1p(ratios)).sum(axis=1) / 2
    best = int(np.argmax(evidence))
    if evidence[best] <= unlikely:
        return ShiftEstimate(drift, None, drifted=False)

    scaled, factor = np.sqrt(TILT_VARIANCES[best]) * T, cho_factor(chance)

    def tilted(a: Floats) -> Floats:
        exponent = scaled @ a
        unnormalised = weights * np.exp(exponent - exponent.max())
        normalised: Floats = unnormalised / unnormalised.sum()
        return normalised

    def loss(a: Floats) -> tuple[float, Floats]:
        w = tilted(a)
        left = w @ Z - shares
        pull = cho_solve(factor, left)
        slope = scaled.T @ (w * (Z @ pull - w @ (Z @ pull)))
        return float(left @ pull + a @ a) / 2, slope + a

    found = tilted(minimize(loss, np.zeros(T.shape[1]), jac=True, method="L-BFGS-B").x)
    found = np.maximum(found, 1e-100)  # logarithms of weights are taken later
    found /= found.sum()
    few = 1 / (found @ found) < MIN_EFFECTIVE_FRACTION * len(found)
    return ShiftEstimate(drift, None if few else found, drifted=True)


def expected_bin_shares(features: Binner, design: WeightedPublicRows) -> Floats:
    """Return the share of rows the public ones lead to expect in each cell.

    Categories that no public row has get the share that Good and Turing estimate from those that
    one public row has: max(f, 1/2) / m, f of them being seen once.
    """
    counts = design.X.sum(axis=0)
    m = len(design.X)
    shares = design.weights @ design.X
    for start, feature in zip(features.offsets, features.columns, strict=False):
        if feature.column.categorical:
            known = slice(start, start + feature.size - 2)
            once = int((counts[known] == 1).sum())
            unseen = max(once, 0.5) / m
            shares[start : start + feature.size] *= 1 - unseen
            shares[start + feature.size - 2] = unseen
    expected: Floats = shares
    return expected


def calibrate_weights(
    design: WeightedPublicRows, Z: Floats, counts: Floats, variance: float
) -> WeightedPublicRows:
    """Reweigh public rows towards released counts.

    Minimises m KL(w || u) + ½ Σ (counts - n Zᵀw)² / variance by damped Newton steps on the dual,
    whose optimum has log(w / u) linear in what is counted. u are the weights so far, and m is as
    many rows of equal weight as say as much.

    Parameters
    ----------
    design : WeightedPublicRows
        Public rows.
    Z : ndarray of float64, shape (m, n_measured)
        What each of them adds to a count.
    counts : ndarray of float64, shape (n_measured,)
        Counts of private rows, with noise.
    variance : float
        Variance of the noise.
    """
    n, m = design.n, design.effective_size
    base = np.log(design.weights)
    dual = np.zeros(len(counts))

    def evaluate(dual: Floats) -> tuple[float, Floats]:
        exponent = n * (Z @ dual) / m + base
        top = exponent.max()
        weights = np.exp(exponent - top)
        total = weights.sum()
        value = m * (top + np.log(total)) - dual @ counts + variance * (dual @ dual) / 2
        return float(value), weights / total

    value, weights = evaluate(dual)
    for _ in range(50):
        mean = Z.T @ weights
        slope = n * mean - counts + variance * dual
        hessian = n**2 / m * ((Z * weights[:, None]).T @ Z - np.outer(mean, mean))
        hessian[np.diag_indices_from(hessian)] += variance
        step = solve(hessian, slope, assume_a="pos")
        decrease = float(slope @ step)
        if decrease < 1e-8:
            break
        size = 1.0
        while size > 1e-6:
            trial, trial_weights = evaluate(dual - size * step)
            if trial <= value - size * decrease / 4:
                break
            size /= 2
        else:
            break
        dual, value, weights = dual - size * step, trial, trial_weights
    return WeightedPublicRows(design.X, weights, n)
