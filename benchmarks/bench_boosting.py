"""Compare SemiPrivateBoostingClassifier with DP-EBM and non-private models, and test its limits.

``python benchmarks/bench_boosting.py --data-dir DIR --peer FILE`` takes a few minutes. DIR contains
the census tables. ``--only PART ...`` measures selected parts:

* speed: a fit on a million synthetic rows, its time and the peak memory of the process;
* tables: test accuracy and ROC-AUC at the same ε and δ on real tables, the mean of some seeds. Of
  all rows, 300 random rows are public and unlabelled, and a random quarter of the remaining rows is
  the test set. Private fits are repeated with other noise for each seed, on small tables three
  times as often. ``--pure`` adds fits of δ = 0;
* drift: accuracy compared with a single private tree on the same rows, with public rows from
  another region or a biased sample, and the number of fits with a `DriftWarning` at ε = 0.1;
* labels: accuracy and ROC-AUC with public labels that are withheld, correct, inverted or shuffled,
  without a public model;
* constraints: ROC-AUC with and without true monotone constraints.

The last two parts always use 4 splits and 2 draws of the noise.

The peer is `interpret.privacy.DPExplainableBoostingClassifier` (package ``interpret-core``). The
peer is fitted if it is installed. If FILE is given, its results are read from this CSV instead,
with the columns data, seed, epsilon, method, accuracy and auc, as written by ``--only tables`` to
``results/boosting.csv``. The peer gets information for free that would cost a private user budget:
feature types detected from private rows, missing values imputed with the medians of private rows,
and the true minimum and maximum of every numeric feature. Its noise hides the presence of a row.
Ours hides the contents of a row, which requires more noise for the same ε.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait slow small fits down

import numpy as np
import pandas as pd
from bench_core import seconds
from datasets import available, encoder, load, load_acs, load_biased, public_labels
from report import RESULTS, line, print_lines, print_table, save_table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import PublicFit, SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.exceptions import DriftWarning

ROWS = 1_000_000
NUMBERS, TEXTS = 10, 4  # features of the synthetic rows
PUBLIC = 300
DELTA = 1e-6
EPSILONS = [0.1, 1.0, 3.0, 10.0, 30.0]
TABLES = (
    "adult", "acs_national", "acs_tx", "acs_ma", "wa_churn", "credit_data", "HealthInsurance",
    "CPS1988", "TV16", "mlc_churn",
)  # fmt: skip
IMBALANCED = ("lending_club", "covid_testing", "MplsStops", "nassCDS")
DRIFTS = (("ma", "tx"), ("tx", "ma"), ("national", "ma"))  # private region, public region
BIASES = {  # the public rows have too many large or too many small values of one feature
    "adult": ("age", "hours_per_week"),
    "wa_churn": ("tenure", "monthly_charges"),
    "TV16": ("age", "pid7na"),
}
STRENGTHS = (4, -4)
OURS, PURE, PEER, TREE = "boosting", "boosting, δ = 0", "DP-EBM", "private tree"
OPEN, OPEN_BOOSTING = "LR", "HGB"  # without privacy
PARTS = ("speed", "tables", "drift", "labels", "constraints")
LABELS = (  # table, ε, private rows (None: all), public rows
    ("credit_data", 0.1, None, PUBLIC),
    ("wa_churn", 0.1, None, PUBLIC),
    ("adult", 0.1, None, PUBLIC),
    ("wa_churn", 1.0, 1000, PUBLIC),
    ("adult", 10.0, 5000, 5000),
)
CONSTRAINTS = {  # columns in which the label cannot become less likely
    "CPS1988": ("education",),
    "adult": ("education_num", "capital_gain", "hours_per_week"),
}
SPLITS, DRAWS = 4, 2
SHIFT_SEEDS = 15
FEW = ("credit_data", "mlc_churn", "acs_ma")  # tables of fewer private rows than 5,000
SMALL, MORE = 5000, 3  # fewer private rows are fitted so many times as often: noise counts more
SEEDS_APART = 1000  # of fits that differ in their noise alone


def speed(boosting):
    """Fit a million rows. The process must not have used more memory before."""
    generator = np.random.default_rng(0)

    def draw(n):
        numbers = generator.normal(size=(n, NUMBERS))
        frame = pd.DataFrame(numbers, columns=[f"number_{k}" for k in range(NUMBERS)])
        for k in range(TEXTS):
            letters = generator.integers(2 + 4 * k, size=n)
            frame[f"text_{k}"] = np.array([*"abcdefghijklmnop"])[letters]
        return frame

    X = draw(ROWS)
    score = X["number_0"] * X["number_1"] + X["number_2"] + (X["text_1"] == "a")
    y = (score + generator.logistic(size=ROWS) > 0).to_numpy().astype(int)
    clf = boosting(epsilon=1.0, delta=DELTA, random_state=0)
    elapsed = seconds(lambda: clf.fit(X, y, X_public=draw(PUBLIC)))
    # the peak so far: the data and the fit
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_gb = peak * (1 if sys.platform == "darwin" else 1024) / 1e9
    fit = f"fit of 1e6 rows x {NUMBERS} numbers and {TEXTS} texts"
    yield line(fit, elapsed, 60, "s")
    yield line(f"{fit}, peak memory of the process", peak_gb, 2, "GB")
    yield line("predict_proba of the same rows", seconds(lambda: clf.predict_proba(X)), None, "s")


def logistic(rows, X, y, X_test, seed):
    """Fit without privacy, so the encoder may use all rows."""
    model = make_pipeline(encoder(), StandardScaler(), LogisticRegression(max_iter=1000))
    return model.fit(X, y).predict_proba(X_test)[:, 1]


def open_boosted(rows, X, y, X_test, seed):
    """Fit scikit-learn's gradient boosting without privacy, with strings as categories."""
    texts = X.select_dtypes(exclude="number").columns
    types = {name: pd.CategoricalDtype(X[name].dropna().unique()) for name in texts}
    model = HistGradientBoostingClassifier(learning_rate=0.06, random_state=seed)
    return model.fit(X.astype(types), y).predict_proba(X_test.astype(types))[:, 1]


def boosted(rows, X, y, X_test, seed, *, boosting, epsilon, delta=DELTA):
    """Fit the raw table. The estimator handles strings and missing values."""
    clf = boosting(epsilon=epsilon, delta=delta, random_state=seed)
    return clf.fit(X, y, X_public=rows.X_public).predict_proba(X_test)[:, 1]


def single_tree(rows, X, y, X_test, seed, *, epsilon):
    """Fit one private tree and use its labels as probabilities."""
    public_fit = PublicFit(encoder()).fit(X, X_public=rows.X_public)
    X, X_public, X_test = map(public_fit.transform, (X, rows.X_public, X_test))
    clf = SemiPrivateClassifier(epsilon=epsilon, random_state=seed)
    return clf.fit(X, y, X_public=X_public).predict(X_test)


def dp_ebm(rows, X, y, X_test, seed, *, peer, epsilon):
    """Fit the peer with all allowed public information. It does not support missing values."""
    numbers = X.select_dtypes("number").columns
    texts = X.columns.difference(numbers, sort=False)
    fills = X[numbers].median().to_dict() | dict.fromkeys(texts, "missing")
    bounds = {name: (float(rows.X[name].min()), float(rows.X[name].max())) for name in numbers}
    model = peer(epsilon=epsilon, delta=DELTA, privacy_bounds=bounds, n_jobs=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # detected types and a seed: not what one should release
        model.fit(X.fillna(fills), y)
    return model.predict_proba(X_test.fillna(fills))[:, 1]


def installed_peer():
    """Return the peer's class, or None."""
    try:
        from interpret.privacy import DPExplainableBoostingClassifier
    except ImportError:
        return None
    return DPExplainableBoostingClassifier


def measure(rows, seed, fits, draws):
    """Yield one record per method, ε and noise draw, with the seconds of fit and prediction."""
    X, X_test, y, y_test = train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed)
    draws *= 1 if len(X) >= SMALL else MORE
    for (method, epsilon), fit in fits.items():
        for draw in range(1 if method in (OPEN, OPEN_BOOSTING) else draws):
            start = time.perf_counter()
            positive = fit(rows, X, y, X_test, seed + SEEDS_APART * draw)
            record = {"seed": seed, "epsilon": epsilon, "method": method, "draw": draw}
            record["accuracy"] = np.mean((positive > 0.5) == y_test)
            record["auc"] = roc_auc_score(y_test, positive)
            yield record | {"seconds": time.perf_counter() - start}


def tables(boosting, peer, names, options):
    """Yield the records of all methods on random public rows."""
    fits = {}
    fits[OPEN_BOOSTING, max(options.epsilons)] = open_boosted  # knows no ε
    for epsilon in options.epsilons:
        fits[OPEN, epsilon] = logistic  # knows no ε, yet is quick
        ours = partial(boosted, boosting=boosting, epsilon=epsilon)
        fits[OURS, epsilon] = ours
        if options.pure:
            fits[PURE, epsilon] = partial(ours, delta=0)
        if peer is not None:
            fits[PEER, epsilon] = partial(dp_ebm, peer=peer, epsilon=epsilon)
    for name in names:
        for seed in range(options.seeds):
            rows = load(name, options.data_dir, PUBLIC, seed)
            yield from (
                {"data": name} | record for record in measure(rows, seed, fits, options.draws)
            )


def drifting(names, data_dir):
    """Yield settings with misleading public rows, and their loaders."""
    for region, public_region in DRIFTS:
        if f"acs_{region}" in names:
            name = f"acs: {region} 2019 <- {public_region} 2018"
            yield name, partial(load_acs, region, public_region, data_dir)
    for name, features in BIASES.items():
        if name in names:
            for feature, strength in product(features, STRENGTHS):
                kind = "large" if strength > 0 else "small"
                loader = partial(load_biased, name, feature, strength, data_dir)
                yield f"{name} <- {kind} {feature}", loader


def drift(boosting, names, options):
    """Yield the records of boosting and of a single tree with misleading public rows."""
    fits = {}
    for epsilon in options.epsilons:
        fits[OURS, epsilon] = partial(boosted, boosting=boosting, epsilon=epsilon)
        fits[TREE, epsilon] = partial(single_tree, epsilon=epsilon)
    for name, loader in drifting(names, options.data_dir):
        for seed in range(options.seeds):
            rows = loader(PUBLIC, seed)
            yield from (
                {"data": name} | record for record in measure(rows, seed, fits, options.draws)
            )


def detected(boosting, names, data_dir):
    """Yield one line per biased sample: in how many fits to 5,000 rows the shift was detected."""
    biased = [case for case in drifting(names, data_dir) if not case[0].startswith("acs")]
    for name, loader in biased:
        found = []
        for seed in range(SHIFT_SEEDS):
            rows = loader(PUBLIC, seed)
            X, _, y, _ = train_test_split(rows.X, rows.y, train_size=SMALL, random_state=seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", DriftWarning)
                boosting(epsilon=0.1, delta=DELTA, random_state=seed).fit(
                    X, y, X_public=rows.X_public
                )
            found.append(any(issubclass(one.category, DriftWarning) for one in caught))
        yield line(f"{name}: fits of {len(found)} that detected the shift, ε = 0.1", sum(found))


def given_labels(y_public, seed):
    """Return the public labels of each kind, or None where they are withheld."""
    shuffled = np.random.default_rng(seed).permutation(y_public)
    return {"none": None, "correct": y_public, "all wrong": 1 - y_public, "shuffled": shuffled}


def labels(boosting, names, data_dir):
    """Yield the records of boosting with public labels of each kind, without a public model."""
    for name, epsilon, n_private, n_public in LABELS:
        for seed in range(SPLITS) if name in names else ():
            rows = load(name, data_dir, n_public, seed)
            X, X_test, y, y_test = train_test_split(
                rows.X, rows.y, test_size=0.25, train_size=n_private, random_state=seed
            )
            kinds = given_labels(public_labels(rows, name, data_dir), seed)
            for (kind, y_public), draw in product(kinds.items(), range(DRAWS)):
                clf = boosting(
                    epsilon=epsilon,
                    delta=DELTA,
                    public_model=None,
                    random_state=seed + SEEDS_APART * draw,
                ).fit(X, y, X_public=rows.X_public, y_public=y_public)
                p = clf.predict_proba(X_test)[:, 1]
                setting = f"{name}, {len(X):,} private and {n_public:,} public rows"
                record = {"data": setting, "seed": seed, "epsilon": epsilon, "draw": draw}
                scores = {"accuracy": np.mean((p > 0.5) == y_test), "auc": roc_auc_score(y_test, p)}
                yield record | {"labels": kind} | scores


def constraints(boosting, names, options):
    """Yield the records of boosting with and without monotone constraints that are true."""
    for name, epsilon, seed in product(CONSTRAINTS, (0.1, 1.0, 10.0), range(SPLITS)):
        if name not in names:
            continue
        rows = load(name, options.data_dir, PUBLIC, seed)
        X, X_test, y, y_test = train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed)
        directions = {"free": None, "constrained": dict.fromkeys(CONSTRAINTS[name], 1)}
        for (kind, chosen), draw in product(directions.items(), range(DRAWS)):
            clf = boosting(
                epsilon=epsilon,
                delta=DELTA,
                monotonic_cst=chosen,
                random_state=seed + SEEDS_APART * draw,
            ).fit(X, y, X_public=rows.X_public)
            auc = roc_auc_score(y_test, clf.predict_proba(X_test)[:, 1])
            yield {"data": name, "epsilon": epsilon, "seed": seed, "fit": kind, "auc": auc}


def means_by(records, kind):
    """Return one printable line per dataset and ε, with a column per kind of fit."""
    cells = records.groupby(["data", "epsilon", kind], sort=False)
    shown = cells["auc"].mean().map("{:.4f}".format)
    if "accuracy" in records:
        shown = cells["accuracy"].mean().map("{:.4f}/".format) + shown
    return shown.unstack(sort=False).reset_index()


def read_peer(path, names, options):
    """Return the peer's results for the settings that we also measure."""
    records = pd.read_csv(path)
    return records[
        (records["method"] == PEER)
        & records["data"].isin(names)
        & records["epsilon"].isin(options.epsilons)
        & (records["seed"] < options.seeds)
    ]


def margins(records, method, other):
    """Return the advantage of a method in each cell, over the seeds that both methods have."""
    keys = ["data", "epsilon", "seed"]
    ours, theirs = (
        records[records["method"] == name].groupby(keys, sort=False)[["accuracy", "auc"]].mean()
        for name in (method, other)
    )
    return (ours - theirs).dropna().groupby(level=["data", "epsilon"], sort=False).mean()


def cells_won(records, method, names, measures):
    """Count the pairs of dataset and ε for which a method is at or above the peer."""
    margin = margins(records, method, PEER)
    margin = margin[margin.index.get_level_values("data").isin(names)]
    expected = len(names) * len(EPSILONS)
    for column, shown, judged in measures if len(margin) else []:
        count = int((margin[column] >= -1e-12).sum())  # ties count, rounded as they may be
        target = expected - 1 if judged and len(margin) == expected else None
        what = f"{method}: {shown} at or above {PEER}, cells of {len(margin)}"
        yield line(what, count, target, at_least=True)


def reached(records):
    """Compare the means over the seeds with their targets."""
    methods, names = set(records["method"]), set(records["data"])
    if PEER in methods:
        both = [("auc", "AUC", True), ("accuracy", "accuracy", True)]
        yield from cells_won(records, OURS, TABLES, both)
        rare = [("auc", "AUC, imbalanced,", True), ("accuracy", "accuracy, imbalanced,", False)]
        yield from cells_won(records, OURS, IMBALANCED, rare)
        if PURE in methods and names & set(TABLES):
            yield from cells_won(records, PURE, TABLES, [("auc", "AUC", False)])
            margin = margins(records, PURE, PEER)["auc"]
            margin = margin[margin.index.get_level_values("data").isin(TABLES)]
            what = f"{PURE}: mean AUC - {PEER}'s, {len(margin)} cells"
            yield line(what, margin.mean(), -0.005, at_least=True)
    largest = records[records["epsilon"] == 1]
    behind = margins(largest[largest["data"].isin(set(TABLES) - {"mlc_churn"})], OPEN, OURS)
    for column, shown in (("accuracy", "accuracy"), ("auc", "AUC")):
        if len(behind):
            worst, _ = behind[column].idxmax()
            what = f"{OPEN} - {OURS}, ε = 1: {shown}, worst of {len(behind)} ({worst})"
            yield line(what, behind[column].max(), 0.01)
    ours = records[records["method"] == OURS].set_index("data")
    yield from grown(ours)
    most = records[records["epsilon"] == 30]
    behind = margins(most[~most["data"].isin(FEW)], OPEN_BOOSTING, OURS)["auc"]
    if len(behind):
        what = f"{OPEN_BOOSTING} - {OURS}, ε = 30: AUC, worst of {len(behind)}, n ≥ 5,000"
        yield line(f"{what} ({behind.idxmax()[0]})", behind.max(), 0.008)
    if "mlc_churn" in names and len(largest):
        accuracy = ours.loc[["mlc_churn"]].query("epsilon == 1")["accuracy"].mean()
        what = f"{OURS}: accuracy on mlc_churn, ε = 1"
        yield line(what, accuracy, 0.875, at_least=True)
    if "adult" in names:
        longest = ours.loc[["adult"], "seconds"].max()
        yield line(f"{OURS}: longest fit and prediction on adult", longest, 2, "s")


def grown(ours):
    """Compare the growth with ε with its targets."""
    means = ours.groupby(["data", "epsilon"])[["accuracy", "auc"]].mean()
    falls = -means["auc"].groupby("data").diff().dropna()
    if len(falls):
        name, epsilon = falls.idxmax()
        what = f"{OURS}: AUC lost from an ε to the next, worst of {len(falls)}"
        yield line(f"{what} ({name}, ε = {epsilon:g})", falls.max(), 0.002)
    if ("adult", 3.0) in means.index:
        for column, least in (("accuracy", 0.865), ("auc", 0.918)):
            found = means.loc[("adult", 3.0), column]
            yield line(f"{OURS}: {column} on adult, ε = 3", found, least, at_least=True)


def held(records):
    """Compare boosting with a single tree for misleading public rows."""
    margin = margins(records, OURS, TREE)["accuracy"]
    where, epsilon = margin.idxmin()
    what = f"{OURS} - {TREE}: accuracy, worst of {len(margin)} ({where}, ε = {epsilon:g})"
    yield line(what, margin.min(), -0.01, at_least=True)


def summary(records):
    """Return one printable line per dataset and ε, with a column per method."""
    cells = records.groupby(["data", "epsilon", "method"], sort=False)
    accuracy, auc = cells["accuracy"].mean(), cells["auc"].mean().map(" / {:.3f}".format)
    auc[auc.index.get_level_values("method") == TREE] = ""  # labels alone
    order = [
        name
        for name in (OURS, PURE, PEER, TREE, OPEN, OPEN_BOOSTING)
        if name in set(records["method"])
    ]
    table = (accuracy.map("{:.3f}".format) + auc).unstack(sort=False)[order].fillna("")
    fits = cells["seconds"].median().unstack(sort=False)[OURS]
    return table.assign(**{f"{OURS}, s": fits.map("{:.2f}".format)}).reset_index()


def main():
    warnings.simplefilter("ignore", DriftWarning)  # some public rows are wrong on purpose
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--datasets", nargs="+", help="by default those of the targets, at hand")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=4, help="private fits for each seed")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--pure", action="store_true", help="fit with δ = 0, too")
    parser.add_argument("--peer", type=Path, metavar="FILE", help=f"results of {PEER}, as CSV")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    at_hand = available(options.data_dir)
    unknown = set(options.datasets or []) - set(at_hand)
    if unknown:
        parser.error(f"not at hand: {', '.join(sorted(unknown))}; there are {', '.join(at_hand)}")
    means = f"means of {options.seeds} seeds and {options.draws} draws, {PUBLIC} public rows"
    lines = []
    if "speed" in options.only:  # first: the peak memory of the process is then that of the fit
        lines += speed(SemiPrivateBoostingClassifier)
        print_lines(lines, "Speed")
    if "tables" in options.only:
        names = options.datasets or [n for n in (*TABLES, *IMBALANCED) if n in at_hand]
        peer = None if options.peer else installed_peer()
        records = pd.DataFrame(tables(SemiPrivateBoostingClassifier, peer, names, options))
        if options.peer:
            records = pd.concat([records, read_peer(options.peer, names, options)])
        elif peer is None:
            print(f"\nNo {PEER}: install interpret-core, or give --peer FILE", flush=True)
        save_table(records, "boosting")
        print_table(summary(records), f"Test accuracy / ROC-AUC, {means}")
        targets = [*reached(records)]
        if targets:
            print_lines(targets, f"Accuracy: {means}")
        lines += targets
    if "drift" in options.only:
        records = pd.DataFrame(
            drift(SemiPrivateBoostingClassifier, options.datasets or at_hand, options)
        )
        if len(records):
            save_table(records, "boosting_drift")
            print_table(summary(records), f"Public rows that mislead: accuracy / ROC-AUC, {means}")
            targets = [*held(records)]
            targets += detected(
                SemiPrivateBoostingClassifier, options.datasets or at_hand, options.data_dir
            )
            print_lines(targets, f"Public rows that mislead: {means}")
            lines += targets
    means = f"means of {SPLITS} splits and {DRAWS} draws"
    if "labels" in options.only:
        names = options.datasets or at_hand
        records = labels(SemiPrivateBoostingClassifier, names, options.data_dir)
        records = pd.DataFrame(records)
        save_table(records, "boosting_labels")
        print_table(means_by(records, "labels"), f"Public labels: accuracy/ROC-AUC, {means}")
    if "constraints" in options.only:
        records = constraints(SemiPrivateBoostingClassifier, options.datasets or at_hand, options)
        records = pd.DataFrame(records)
        save_table(records, "boosting_constraints")
        print_table(means_by(records, "fit"), f"Monotone constraints: ROC-AUC, {means}")
    if lines:
        save_table(pd.DataFrame(lines), "boosting_lines")
        print(f"\nWritten: {RESULTS / 'boosting_lines.csv'} and what it sums up")


if __name__ == "__main__":
    main()
