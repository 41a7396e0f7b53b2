"""Errors of the means of 20 regions with and without measured sums, and of Laplace noise alone.

``python benchmarks/bench_sums.py [N_FITS]`` prints the table of the guide to releases.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from scipy.stats import norm

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries

REGIONS, HIGHEST = np.array([f"r{k:02}" for k in range(20)]), 1e6
LOCATIONS = 10 + 0.02 * np.arange(20)
REACHED = norm.cdf(np.log(HIGHEST) - LOCATIONS - 1), norm.sf(np.log(HIGHEST) - LOCATIONS)
MEANS = np.exp(LOCATIONS + 0.5) * REACHED[0] + HIGHEST * REACHED[1]  # of the population


def people(n, rng):
    """Return rows with lognormal incomes, which are top-coded at a million."""
    region = rng.integers(0, 20, n)
    income = np.exp(rng.normal(LOCATIONS[region], 1)).clip(0, HIGHEST).round(2)
    return pd.DataFrame({"region": REGIONS[region], "income": income})


def laplace_means(groups, epsilon, rng):
    """Return noisy sums over noisy counts, with half of ε each, for replaced rows."""
    sums = groups.sum() + rng.laplace(0, 2 * HIGHEST / (epsilon / 2), 20)
    return sums / (groups.count() + rng.laplace(0, 2 / (epsilon / 2), 20))


def run(n, epsilon, n_fits):
    """Return root mean square errors and coverage over fits."""
    squares, hits = {"bins": [], "sums": [], "Laplace": []}, []
    for seed in range(n_fits):
        rng = np.random.default_rng(1000 + seed)
        private, public = people(n, rng), people(300, rng)
        groups = private.groupby("region").income
        for name, sums in (("bins", None), ("sums", {"income": "region"})):
            release = PAPQueryRelease(
                MarginalQueries(sums=sums), epsilon=epsilon, bounds={"income": (0, HIGHEST)},
                random_state=seed,
            ).fit(private, X_public=public)  # fmt: skip
            means = release.mean_interval("income", by="region").set_index("region").loc[REGIONS]
            squares[name].append((means["mean"] - groups.mean()) ** 2)
        hits.append((means.low <= MEANS) & (means.high >= MEANS))
        squares["Laplace"].append((laplace_means(groups, epsilon, rng) - groups.mean()) ** 2)
    errors = {name: np.sqrt(np.mean(values)) for name, values in squares.items()}
    return errors | {"coverage of sums": np.mean(hits)}


def main(n_fits=24):
    warnings.simplefilter("ignore")
    for n in (20_000, 200_000, 2_000_000):
        for epsilon in (1.0, 10.0):
            results = run(n, epsilon, n_fits if n < 1_000_000 else max(1, n_fits // 3))
            print(n, epsilon, {name: float(f"{x:.4g}") for name, x in results.items()}, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
