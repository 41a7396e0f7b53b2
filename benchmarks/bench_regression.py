"""Compare SemiPrivateBoostingRegressor with private linear regression, DP-EBM and open boosting.

``python benchmarks/bench_regression.py --data-dir DIR`` takes a few minutes. DIR contains the
census tables. The results are the test R² at the same ε and δ on real tables, averaged over seeds,
and the coverage of intervals at level 0.9. Of all rows, 300 random rows are public and have no
outcome. In the American Community Survey, public rows are from the previous year. A random quarter
of the remaining rows is the test set. Outcomes are clipped to public bounds, for all methods and in
the test set.

* AdaSSP (Wang 2018): ridge regression from noisy sufficient statistics, which hides the contents of
  a row, like our estimator. Columns are encoded and scaled by public rows.
* DP-EBM, `interpret.privacy.DPExplainableBoostingRegressor`, is fitted if it is installed. It
  receives bounds and types computed from private rows, and hides the presence of a row.
* scikit-learn's HistGradientBoostingRegressor has no privacy.

`regression.csv` beside this script contains the figures of the guide: ``--seeds 2 --draws 2
--guide``, with the census tables.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait slow small fits down

import numpy as np
import pandas as pd
from datasets import encoder, load_outcomes, with_outcomes
from report import RESULTS, line, print_lines, print_table, save_table
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from skpublicdp import PublicFit, SemiPrivateBoostingRegressor
from skpublicdp.accounting import gaussian_mu_squared
from skpublicdp.exceptions import DriftWarning

PUBLIC = 300
DELTA = 1e-6
LEVEL = 0.9
EPSILONS = [0.1, 1.0, 10.0]
OURS, LINEAR, PEER, OPEN = "boosting", "AdaSSP", "DP-EBM", "open boosting"
SHORTEST = 0.5  # standard deviation of an even column of 0 and 1
GUIDE = Path(__file__).parent / "regression.csv"
SEEDS_APART = 1000  # of fits that differ in their noise alone


def boosted(rows, X, y, X_test, seed, *, epsilon):
    """Fit the raw table, and return predictions and intervals."""
    reg = SemiPrivateBoostingRegressor(
        epsilon=epsilon, delta=DELTA, outcome_bounds=rows.bounds, random_state=seed
    ).fit(X, y, X_public=rows.X_public)
    return reg.predict(X_test), reg.interval(X_test, level=LEVEL)


def linear(rows, X, y, X_test, seed, *, epsilon):
    """Fit a ridge regression to noisy X'X, X'y and smallest eigenvalue (sufficient statistics)."""
    encode = PublicFit(encoder()).fit(X, X_public=rows.X_public)
    public = encode.transform(rows.X_public)
    # rare categories stay short: a long row makes all others weigh less
    center, spread = public.mean(axis=0), np.maximum(public.std(axis=0), SHORTEST)
    norms = np.linalg.norm((public - center) / spread, axis=1)
    longest = float(np.quantile(norms, 0.95))

    def design(X):
        Z = (encode.transform(X) - center) / spread
        Z = Z * np.minimum(1, longest / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-9))
        return np.hstack([Z / longest, np.ones((len(Z), 1))]) / np.sqrt(2)  # of length 1 at most

    middle, half = np.mean(rows.bounds), np.ptp(rows.bounds) / 2
    Z, rng = design(X), np.random.default_rng(seed)
    d, A = Z.shape[1], Z.T @ Z
    scale = np.sqrt(3 / float(gaussian_mu_squared(epsilon, DELTA)))  # a third for each statistic
    noise = np.triu(rng.normal(0, np.sqrt(2) * scale, (d, d)))
    noisy_A = A + noise + np.triu(noise, 1).T
    noisy_b = Z.T @ ((y - middle) / half) + rng.normal(0, 2 * scale, d)
    least = np.linalg.eigvalsh(A)[0] + rng.normal(0, scale) - scale * np.sqrt(2 * np.log(20))
    ridge = np.sqrt(2 * d * np.log(2 * d**2 / 0.05)) * scale - max(least, 0)
    weights = np.linalg.solve(noisy_A + max(ridge, 0) * np.eye(d), noisy_b)
    return np.clip(middle + half * (design(X_test) @ weights), *rows.bounds), None


def dp_ebm(rows, X, y, X_test, seed, *, peer, epsilon):
    """Fit the peer with all allowed public information. It does not support missing values."""
    numbers = X.select_dtypes("number").columns
    fills = X[numbers].median().to_dict()
    fills |= dict.fromkeys(X.columns.difference(numbers, sort=False), "missing")
    bounds = {name: (float(rows.X[name].min()), float(rows.X[name].max())) for name in numbers}
    model = peer(
        epsilon=epsilon,
        delta=DELTA,
        privacy_bounds=bounds,
        privacy_target_min=rows.bounds[0],
        privacy_target_max=rows.bounds[1],
        n_jobs=1,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # detected types and a seed: not what one should release
        model.fit(X.fillna(fills), y)
    return model.predict(X_test.fillna(fills)), None


def gradient(rows, X, y, X_test, seed):
    """Fit without privacy."""
    texts = X.select_dtypes(exclude="number").columns
    known = {name: X[name].value_counts().index[:200] for name in texts}

    def typed(X):
        return X.assign(
            **{
                name: pd.Categorical(X[name].where(X[name].isin(kept)), kept)
                for name, kept in known.items()
            }
        )

    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=seed)
    return model.fit(typed(X), y).predict(typed(X_test)), None


def installed_peer():
    """Return the peer's class, or None."""
    try:
        from interpret.privacy import DPExplainableBoostingRegressor
    except ImportError:
        return None
    return DPExplainableBoostingRegressor


def measure(rows, seed, fits, draws):
    """Yield one record per method, ε and noise draw, with the seconds of fit and prediction."""
    X, X_test, y, y_test = train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed)
    for (method, epsilon), fit in fits.items():
        for draw in range(1 if method == OPEN else draws):
            start = time.perf_counter()
            found, ends = fit(rows, X, y, X_test, seed + SEEDS_APART * draw)
            record = {"seed": seed, "epsilon": epsilon, "method": method, "draw": draw}
            record |= {"r2": r2_score(y_test, found), "coverage": np.nan, "width": np.nan}
            if ends is not None:
                record["coverage"] = np.mean((ends[:, 0] <= y_test) & (y_test <= ends[:, 1]))
                record["width"] = np.mean(np.diff(ends)) / np.ptp(rows.bounds)
            yield record | {"seconds": time.perf_counter() - start}


def tables(peer, names, options):
    """Yield the records of all methods."""
    fits = {(OPEN, epsilon): gradient for epsilon in options.epsilons[-1:]}
    for epsilon in options.epsilons:
        fits[OURS, epsilon] = partial(boosted, epsilon=epsilon)
        fits[LINEAR, epsilon] = partial(linear, epsilon=epsilon)
        if peer is not None:
            fits[PEER, epsilon] = partial(dp_ebm, peer=peer, epsilon=epsilon)
    for name in names:
        for seed in range(options.seeds):
            rows = load_outcomes(name, options.data_dir, PUBLIC, seed)
            records = measure(rows, seed, fits, options.draws)
            yield from ({"data": name, "rows": len(rows.y)} | record for record in records)


def guide_figures(records):
    """Return the means for the guide, with one line per dataset, ε and method."""
    cells = records.groupby(["data", "rows", "epsilon", "method"], sort=False)
    return cells[["r2", "coverage"]].mean().round(4).reset_index()


def summary(records):
    """Return one printable line per dataset and ε, with a column per method."""
    cells = records.groupby(["data", "rows", "epsilon", "method"], sort=False)
    r2, coverage = cells["r2"].mean().unstack(), cells["coverage"].mean().unstack()[OURS]
    r2[OPEN] = r2[OPEN].groupby(level="data").transform("max")
    order = [name for name in (OURS, LINEAR, PEER, OPEN) if name in r2]
    table = r2[order].map("{:.3f}".format)
    table[f"coverage of {LEVEL:g}"] = coverage.map("{:.3f}".format)
    table["width"] = cells["width"].mean().unstack()[OURS].map("{:.3f}".format)
    table[f"{OURS}, s"] = cells["seconds"].median().unstack()[OURS].map("{:.2f}".format)
    return table.reset_index().sort_values(["data", "epsilon"], kind="stable")


def reached(records):
    """Compare the means over the seeds with their targets."""
    means = records.groupby(["data", "epsilon", "method"])[["r2", "coverage"]].mean().unstack()
    r2 = means["r2"]
    for other in (LINEAR, PEER):
        if other in r2:
            ahead = (r2[OURS] - r2[other]).dropna()
            what = f"{OURS}: R² at or above {other}, cells of {len(ahead)}"
            yield line(what, int((ahead >= 0).sum()), len(ahead) - 1, at_least=True)
    enough = means["coverage"][OURS].loc[:, 1.0:]
    yield line("coverage from ε = 1 on, least", enough.min(), 0.87, at_least=True)
    yield line("coverage from ε = 1 on, most", enough.max(), 0.95)


def main():
    warnings.simplefilter("ignore", DriftWarning)  # a year later people earn more
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--datasets", nargs="+", help="by default all at hand")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=4, help="private fits for each seed")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--guide", action="store_true", help=f"write the means to {GUIDE.name}")
    options = parser.parse_args()
    at_hand = with_outcomes(options.data_dir)
    unknown = set(options.datasets or []) - set(at_hand)
    if unknown:
        parser.error(f"not at hand: {', '.join(sorted(unknown))}; there are {', '.join(at_hand)}")
    peer = installed_peer()
    if peer is None:
        print(f"\nNo {PEER}: install interpret-core", flush=True)
    records = pd.DataFrame(tables(peer, options.datasets or at_hand, options))
    save_table(records, "regression")
    if options.guide:
        guide_figures(records).to_csv(GUIDE, index=False)
    means = f"means of {options.seeds} seeds and {options.draws} draws, {PUBLIC} public rows"
    print_table(summary(records), f"Test R², {means}")
    lines = [*reached(records)]
    print_lines(lines, f"Regression: {means}")
    save_table(pd.DataFrame(lines), "regression_lines")
    print(f"\nWritten: {RESULTS / 'regression_lines.csv'} and what it sums up")


if __name__ == "__main__":
    main()
