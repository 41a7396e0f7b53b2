"""What public rows lead to expect, and weights for those that look unlike the private ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from skpublicdp.boosting.features import FeatureMap
from skpublicdp.boosting.posterior import PublicDesign

Floats = NDArray[np.float64]


def expected_shares(features: FeatureMap, design: PublicDesign) -> Floats:
    """Return the share of rows the public ones lead to expect in each cell.

    Categories that no public row has get the share that Good and Turing estimate from those that
    one public row has: max(f, 1/2) / m, f of them being seen once.
    """
    counts = design.X.sum(axis=0)
    m = len(design.X)
    shares = design.weights @ design.X
    for start, feature in zip(features.offsets, features.features, strict=False):
        if feature.column.categorical:
            known = slice(start, start + feature.size - 2)
            once = int((counts[known] == 1).sum())
            unseen = max(once, 0.5) / m
            shares[start : start + feature.size] *= 1 - unseen
            shares[start + feature.size - 2] = unseen
    expected: Floats = shares
    return expected


def tilt(design: PublicDesign, Z: Floats, counts: Floats, variance: float) -> PublicDesign:
    """Reweigh public rows towards released counts.

    Minimises m KL(w || u) + ½ Σ (counts - n Zᵀw)² / variance by damped Newton steps on the dual,
    whose optimum has log(w / u) linear in what is counted. u are the weights so far, and m is as
    many rows of equal weight as say as much.

    Parameters
    ----------
    design : PublicDesign
        Public rows.
    Z : ndarray of float64, shape (m, n_measured)
        What each of them adds to a count.
    counts : ndarray of float64, shape (n_measured,)
        Counts of private rows, with noise.
    variance : float
        Variance of the noise.
    """
    n, m = design.n, design.size
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
    return PublicDesign(design.X, weights, n)
