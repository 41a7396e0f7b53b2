"""Run one job of the comparison, with the Python interpreter of its environment.

``python head_to_head_fits.py JOB`` reads a pickle written by `head_to_head.py` and prints a line of
JSON for each fit. Initially, only NumPy, pandas and scikit-learn are imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import resource
import sys
import time
import warnings
from functools import partial
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

DELTA = 1e-6
FRAMES = ("X", "X_test", "X_public")
LABEL = "its label"  # a column of released tables
WORKLOADS = ("pairs with the label", "all pairs", "triples with the label")


def numbers_of(X):
    return list(X.select_dtypes("number").columns)


# classification: (task, ε, seed) -> scores of the test rows, whose sign at 1/2 is the label


def boosting(task, epsilon, seed, *, delta=DELTA, labelled=False):
    from skpublicdp import SemiPrivateBoostingClassifier

    clf = SemiPrivateBoostingClassifier(epsilon=epsilon, delta=delta, random_state=seed)
    labels = {"y_public": task["y_public"]} if labelled else {}
    clf.fit(task["X"], task["y"], X_public=task["X_public"], **labels)
    return clf.predict_proba(task["X_test"])[:, 1]


def boosting_without_public(task, epsilon, seed):
    """Fit with the information that the peers get for free: categories, minima and maxima."""
    from skpublicdp import SemiPrivateBoostingClassifier

    X = task["X"]
    texts = X.columns.difference(numbers_of(X))
    types = {name: pd.CategoricalDtype(sorted(X[name].dropna().unique())) for name in texts}
    clf = SemiPrivateBoostingClassifier(
        epsilon=epsilon, delta=DELTA, bounds=bounds_of(X), random_state=seed
    )
    clf.fit(X.astype(types), task["y"])
    return clf.predict_proba(task["X_test"].astype(types))[:, 1]


def one_rule(task, epsilon, seed):
    from skpublicdp import PublicFit, SemiPrivateClassifier

    X, X_public = task["X"], task["X_public"]
    encode = PublicFit(encoder(X)).fit(X, X_public=X_public)
    X, X_public, X_test = map(encode.transform, (X, X_public, task["X_test"]))
    clf = SemiPrivateClassifier(epsilon=epsilon, random_state=seed)
    return clf.fit(X, task["y"], X_public=X_public).predict(X_test).astype(float)


def dp_ebm(task, epsilon, seed):
    from interpret.privacy import DPExplainableBoostingClassifier

    X = task["X"]
    numbers = numbers_of(X)
    fills = X[numbers].median().to_dict()
    fills |= dict.fromkeys(X.columns.difference(numbers), "missing")
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon, delta=DELTA, privacy_bounds=bounds_of(X), n_jobs=1, random_state=seed
    )
    model.fit(X.fillna(fills), task["y"])
    return model.predict_proba(task["X_test"].fillna(fills))[:, 1]


def diffprivlib(task, epsilon, seed, *, model):
    from diffprivlib import models
    from sklearn.preprocessing import MinMaxScaler

    encode, scale = encoder(task["X"]), MinMaxScaler(clip=True)
    X = scale.fit_transform(encode.fit_transform(task["X"]))
    given = {
        "LogisticRegression": {"data_norm": float(np.linalg.norm(X, axis=1).max())},
        "GaussianNB": {"bounds": (0, 1)},
        "RandomForestClassifier": {"bounds": (0, 1), "classes": [0, 1]},
    }[model]
    clf = getattr(models, model)(epsilon=epsilon, random_state=seed, **given).fit(X, task["y"])
    X_test = scale.transform(encode.transform(task["X_test"]))
    return np.nan_to_num(clf.predict_proba(X_test)[:, 1])


def logistic(task, epsilon, seed, *, on=("X", "y")):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = (task[name] for name in on)
    model = make_pipeline(encoder(X), StandardScaler(), LogisticRegression(max_iter=1000))
    return model.fit(X, y).predict_proba(task["X_test"])[:, 1]


def public_forest(task, epsilon, seed):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    forest = RandomForestClassifier(300, min_samples_leaf=3, random_state=seed)
    model = make_pipeline(encoder(task["X_public"]), forest)
    return model.fit(task["X_public"], task["y_public"]).predict_proba(task["X_test"])[:, 1]


def gradient_boosting(task, epsilon, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, X_test = task["X"], task["X_test"]
    texts = X.columns.difference(numbers_of(X))
    types = {name: pd.CategoricalDtype(X[name].dropna().unique()) for name in texts}
    model = HistGradientBoostingClassifier(learning_rate=0.06, random_state=seed)
    return model.fit(X.astype(types), task["y"]).predict_proba(X_test.astype(types))[:, 1]


def on_synthetic_rows(task, epsilon, seed, *, workload):
    """Fit gradient boosting to rows of `PAPQueryRelease.sample`, as many as there are private ones.

    The release has public rows with their labels, and knows which numeric columns have gaps.
    """
    from skpublicdp import PAPQueryRelease
    from skpublicdp.query_release import MarginalQueries

    X, X_public = task["X"], task["X_public"]
    numbers = numbers_of(X)
    texts = [name for name in X if name not in numbers]

    def with_label(X, y):
        labels = pd.Categorical(np.where(y == 1, "yes", "no"), ["no", "yes"])
        return X.assign(**{LABEL: labels})

    queries = MarginalQueries(
        workload={
            "all pairs": None,
            "pairs with the label": [(name, LABEL) for name in X],
            "triples with the label": [(*pair, LABEL) for pair in combinations(X, 2)],
        }[workload],
        missing=[name for name in numbers if X[name].isna().any()],
    )
    release = PAPQueryRelease(queries, epsilon=epsilon, delta=DELTA, random_state=seed)
    release.fit(with_label(X, task["y"]), X_public=with_label(X_public, task["y_public"]))
    sample = release.sample(len(X)).astype(dict.fromkeys([*texts, LABEL], object))
    sample = sample[sample[LABEL].isin(["no", "yes"])]
    y = (sample.pop(LABEL) == "yes").to_numpy().astype(int)
    if y.min() == y.max():
        return np.full(len(task["y_test"]), float(y[0]))
    sample[texts] = sample[texts].mask(sample[texts].isin(["(missing)", "(other)"]))
    return gradient_boosting({"X": sample, "y": y, "X_test": task["X_test"]}, epsilon, seed)


def majority(task, epsilon, seed):
    return np.full(len(task["y_test"]), float(np.mean(task["y"]) > 0.5))


def encoder(X):
    """Return an encoder with median imputation of numbers and one-hot encoding of strings."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    numbers = numbers_of(X)
    text = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return make_column_transformer(
        (text, [name for name in X if name not in numbers]),
        (SimpleImputer(strategy="median", keep_empty_features=True), numbers),
    )


def bounds_of(X):
    ends = {name: (float(X[name].min()), float(X[name].max())) for name in numbers_of(X)}
    return {name: (low, high if low < high else low + 1) for name, (low, high) in ends.items()}


CLASSIFIERS = {
    "boosting": boosting,
    "boosting, δ = 0": lambda *job: boosting(*job, delta=0),
    "boosting, labelled public rows": lambda *job: boosting(*job, labelled=True),
    "boosting, no public rows": boosting_without_public,
    "one rule": one_rule,
    "DP-EBM": dp_ebm,
    "diffprivlib LR": lambda *job: diffprivlib(*job, model="LogisticRegression"),
    "diffprivlib NB": lambda *job: diffprivlib(*job, model="GaussianNB"),
    "diffprivlib RF": lambda *job: diffprivlib(*job, model="RandomForestClassifier"),
    **{
        f"synthetic rows, {workload}": partial(on_synthetic_rows, workload=workload)
        for workload in WORKLOADS
    },
    "majority": majority,
    "public rows alone, LR": lambda *job: logistic(*job, on=("X_public", "y_public")),
    "public rows alone, forest": public_forest,
    "LR, no privacy": logistic,
    "GB, no privacy": gradient_boosting,
}


def classify(task, method, epsilon, seed):
    from sklearn.metrics import roc_auc_score

    start = time.process_time()
    scores = CLASSIFIERS[method](task, epsilon, seed)
    seconds = time.process_time() - start
    return {
        "accuracy": np.mean((scores > 0.5) == task["y_test"]),
        "auc": roc_auc_score(task["y_test"], scores),
        "seconds": seconds,
    }


# release: (task, ε, seed) -> answers of the tables of the workload, as fractions


def ours(task, epsilon, seed, *, public=True):
    from skpublicdp import PAPQueryRelease
    from skpublicdp.query_release import MarginalQueries

    # codes are categories of a codebook: named beforehand, as the peers' domains are
    types = {f"c{k}": pd.CategoricalDtype(range(size)) for k, size in enumerate(task["sizes"])}

    def frame(codes):
        return pd.DataFrame(codes, columns=list(types)).astype(types)

    queries = MarginalQueries(workload=[tuple(f"c{k}" for k in c) for c in task["workload"]])
    release = PAPQueryRelease(queries, epsilon=epsilon, delta=task["delta"], random_state=seed)
    given = {"X_public": frame(task["public"])} if public else {}
    release.fit(frame(task["private"]), **given)
    for columns in task["workload"]:
        sizes = [task["sizes"][k] for k in columns]
        every = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
        asked = pd.DataFrame(every, columns=[f"c{k}" for k in columns])
        yield release.answer(asked)


def gaussian(task, epsilon, seed):
    """Add noise to every cell, for replaced rows and zCDP at the same ε and δ."""
    from skpublicdp.accounting import zcdp_rho

    generator = np.random.default_rng(seed)
    rho = float(zcdp_rho(epsilon, task["delta"]))
    sigma = np.sqrt(len(task["workload"]) / rho)  # a replaced row moves two cells of each table
    for table in truth(task):
        yield table + generator.normal(0, sigma / len(task["private"]), len(table))


def mbi_data(task):
    """Return the private rows in the format of mbi, imported from the given checkout."""
    sys.path[:0] = [str(Path(task["mbi"]) / part) for part in ("src", "mechanisms")]
    from mbi import Dataset, Domain

    domain = Domain.fromdict({f"c{k}": size for k, size in enumerate(task["sizes"])})
    return Dataset({f"c{k}": column for k, column in enumerate(task["private"].T)}, domain)


def mst(task, epsilon, seed):
    data = mbi_data(task)
    from mst import MST

    np.random.seed(seed)  # noqa: NPY002 - the peer draws from it
    return of_rows(task, rows_of(task, MST(data, epsilon, task["delta"])))


def aim(task, epsilon, seed):
    data = mbi_data(task)
    from aim import AIM

    np.random.seed(seed)  # noqa: NPY002 - the peer draws from it
    workload = [(tuple(f"c{k}" for k in columns), 1.0) for columns in task["workload"]]
    mechanism = AIM(epsilon, task["delta"], max_model_size=task["max_model_size"])
    with contextlib.redirect_stdout(sys.stderr):
        _, rows = mechanism.run(data, workload)
    return of_rows(task, rows_of(task, rows))


def opendp_aim(task, epsilon, seed):
    """Release with OpenDP, whose rows are added or removed; it draws from the operating system.

    Each column has a cell for null, which no row has: it is cut off. The zCDP is ours, since a loss
    of ε and δ at once would be converted less tightly.
    """
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{k}" for k in range(len(task["sizes"]))]
    rows = pl.LazyFrame(dict(zip(names, task["private"].T.astype(np.int64), strict=True)))
    context = dp.Context.compositor(
        data=rows,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=task["rho"][epsilon]),
        split_evenly_over=1,
    )
    workload = [tuple(names[k] for k in columns) for columns in task["workload"]]
    algorithm = dp.mbi.AIM(
        queries=[dp.mbi.Count(by=columns) for columns in workload],
        max_size=task["max_model_size"],
        rounds=task["rounds"],
    )
    keys = {name: list(range(size)) for name, size in zip(names, task["sizes"], strict=True)}
    query = context.query().select(*names).contingency_table(keys=keys, algorithm=algorithm)
    table = query.release()
    for columns, place in zip(workload, task["workload"], strict=True):
        counts = np.asarray(table.project(columns), dtype=float)
        counts = counts[tuple(slice(task["sizes"][k]) for k in place)].ravel()
        yield counts / counts.sum()


def rows_of(task, synthetic):
    columns = synthetic.to_dict()
    return np.stack([np.asarray(columns[f"c{k}"]) for k in range(len(task["sizes"]))], axis=1)


def of_rows(task, rows):
    for columns in task["workload"]:
        sizes = [task["sizes"][k] for k in columns]
        cells = np.ravel_multi_index(rows[:, columns].T, sizes)
        yield np.bincount(cells, minlength=np.prod(sizes)) / len(rows)


def truth(task):
    return of_rows(task, task["private"])


RELEASES = {
    "release": ours,
    "release, no public rows": lambda *job: ours(*job, public=False),
    "MST": mst,
    "AIM": aim,
    "OpenDP AIM": opendp_aim,
    "independent Gaussian": gaussian,
    "public rows alone": lambda task, epsilon, seed: of_rows(task, task["public"]),
}


def release(task, method, epsilon, seed):
    start = time.process_time()
    answers = list(RELEASES[method](task, epsilon, seed))
    seconds = time.process_time() - start
    gaps = [np.abs(a - t) for a, t in zip(answers, truth(task), strict=True)]
    return {
        "max_error": max(gap.max() for gap in gaps),
        "mean_l1": np.mean([gap.sum() for gap in gaps]),
        "seconds": seconds,
    }


# selection: errors of members and ε -> a way to draw the position of one with few errors


def exact_draw(errors, epsilon):
    from fractions import Fraction

    from skpublicdp.mechanisms.exponential import draw
    from skpublicdp.mechanisms.families import Leaf
    from skpublicdp.mechanisms.randomness import SecureBits

    return lambda: draw(Leaf(errors), Fraction(epsilon), 1, SecureBits())


def noisy_max(errors, epsilon):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    drawn = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2 / epsilon, negate=True)
    if not np.isclose(drawn.map(1), epsilon):  # one error more or less, in any direction
        raise ValueError(f"the scale must give ε = {epsilon}, and gives {drawn.map(1)}")
    return lambda: drawn(errors)


SELECTIONS = {"exact draw": exact_draw, "OpenDP noisy max": noisy_max}


def select(task, method, epsilon, seed):
    """Time draws from many members, and return the excess errors over the best member.

    The draws are not seeded, because both libraries use randomness from the operating system.
    """
    errors = task["errors"]
    once = SELECTIONS[method](errors, epsilon)
    once()
    times, gaps = [], []
    for _ in range(task["repeats"]):
        start = time.process_time()
        position = once()
        times.append(time.process_time() - start)
        gaps.append(errors[position] - errors.min())
    return {"gap": np.mean(gaps), "seconds": np.median(times)}


PARTS = {"classification": classify, "release": release, "selection": select}


def peak_megabytes():
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells on Linux includes the process that started this one
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    warnings.simplefilter("ignore")  # types detected, seeds, drift: not what one should release
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    measure = PARTS[job["part"]]
    task = {
        key: pd.DataFrame(value) if isinstance(value, dict) and key in FRAMES else value
        for key, value in job["task"].items()
    }
    for method, epsilons in job["methods"].items():
        for epsilon in epsilons:
            outcome = measure(task, method, epsilon or 1.0, job["seed"])
            outcome["peak_mb"] = peak_megabytes()
            outcome = {name: float(value) for name, value in outcome.items()}
            print(json.dumps({"method": method, "epsilon": epsilon, **outcome}), flush=True)


if __name__ == "__main__":
    main()
