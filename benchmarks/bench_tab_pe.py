"""Compare boosting with Tab-PE's synthetic rows on one of Tab-PE's public examples.

``python benchmarks/bench_tab_pe.py --checkout DPSDA --data FOLDER`` takes minutes. DPSDA is a clone
of microsoft/DPSDA, FOLDER holds artificial-characters_train.csv and _test.csv of
toan-vt/cloud-data-store. Both are on GitHub and neither is part of this project.

Ten classes, seven numeric columns, ε = 1 and δ = 1/(n log n), as in Tab-PE's own example, with its
settings. Its weights of TabICL are not needed: scikit-learn's gradient boosting learns from the
synthetic rows. Tab-PE takes bounds and the fractions of labels from the private rows for free, and
hides whether a row is present. Ours hides which row was replaced. At ε/2 Tab-PE does so too.

`tab_pe.csv` has the figures of docs/comparison.md. Tab-PE runs in ``.venv-tabpe``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
MEANS = HERE / "tab_pe.csv"
ENVIRONMENT = HERE.parent / ".venv-tabpe"
INSTALLED = ["pandas", "scikit-learn", "scipy", "omegaconf==2.3.0", "requests", "generalimport"]
EPSILON = 1.0
N_PUBLIC = 300
LABEL = "Class"
WHOLE = ["V1", "V2", "V3", "V4", "V5"]
FRACTIONAL = ["V6", "V7"]
ITERATIONS, EXPLORING, SYNTHETIC = 15, 5, 1000  # of Tab-PE's example
UNUSED = [
    f"pe.{part}.{kind}" for part in ("api", "data", "embedding") for kind in ("image", "text")
]


def synthesize(checkout, train, epsilon, delta, seed, path):
    """Write the rows of Tab-PE; runs in its environment."""
    from unittest.mock import MagicMock

    sys.path.insert(0, str(checkout))
    sys.modules |= {name: MagicMock() for name in UNUSED}  # they would need torch and more
    from pe.api import TabularAPI
    from pe.constant.data import (
        LABEL_ID_COLUMN_NAME,
        TABULAR_DATA_COLUMN_NAME,
        VARIATION_API_FOLD_ID_COLUMN_NAME,
    )
    from pe.data import TabularCSV
    from pe.embedding import TabularEmbedding
    from pe.histogram import NearestNeighbors
    from pe.population import CompositePopulation, PEPopulation
    from pe.runner import PE

    np.random.seed(seed)  # noqa: NPY002 - the peer draws from it
    with tempfile.TemporaryDirectory() as folder:
        description = Path(folder) / "metadata.json"
        types = {"cat_columns": [], "int_columns": WHOLE, "float_columns": FRACTIONAL}
        description.write_text(json.dumps({**types, "label_columns": [LABEL]}))
        private = TabularCSV(csv_path=train, metadata_path=str(description))
    info = private.get_tab_info()
    api = TabularAPI(
        info=info, mutation_rate_init=0.5, mutation_rate_final=0.01, decay_type="polynomial",
        gamma=0.2, num_iterations=ITERATIONS,
    )  # fmt: skip
    histogram = NearestNeighbors(
        embedding=TabularEmbedding(info=info), mode="L2", lookahead_degree=0, backend="sklearn"
    )
    explore = PEPopulation(
        api=api, initial_variation_api_fold=0, next_variation_api_fold=1, keep_selected=False,
        selection_mode="sample", histogram_threshold=0,
    )  # fmt: skip
    refine = PEPopulation(
        api=api, initial_variation_api_fold=3, next_variation_api_fold=3, keep_selected=True,
        selection_mode="rank",
    )  # fmt: skip
    populations = [explore] * EXPLORING + [refine] * (ITERATIONS - EXPLORING)
    runner = PE(priv_data=private, population=CompositePopulation(populations), histogram=histogram)
    rows = runner.run([SYNTHETIC] * ITERATIONS, delta=delta, epsilon=epsilon, save_checkpoint=False)
    frame = rows.data_frame
    frame = frame[frame[VARIATION_API_FOLD_ID_COLUMN_NAME] == -1]  # as their classifier does
    features = pd.DataFrame(frame[TABULAR_DATA_COLUMN_NAME].tolist(), columns=WHOLE + FRACTIONAL)
    names = [label["column_values"][LABEL] for label in rows.metadata.label_info]
    features[LABEL] = [names[label] for label in frame[LABEL_ID_COLUMN_NAME]]
    features.to_csv(path, index=False)


def tab_pe(checkout, train, epsilon, delta, seed):
    """Return the synthetic rows of Tab-PE."""
    python = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (ENVIRONMENT / ".ready").exists():
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *INSTALLED], check=True)
        (ENVIRONMENT / ".ready").touch()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        job = [checkout, train, epsilon, delta, seed, path]
        command = [str(python), __file__, "--synthesize", *map(str, job)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return pd.read_csv(path)


def accuracy(predicted, test):
    return float(np.mean(np.asarray(predicted) == test[LABEL].to_numpy()))


def learned(rows, test, seed):
    """Return the test accuracy of gradient boosting, fitted to these rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=seed)
    model.fit(rows[WHOLE + FRACTIONAL], rows[LABEL])
    return accuracy(model.predict(test[WHOLE + FRACTIONAL]), test)


def measure(options, seed):
    """Yield the test accuracy of each method."""
    from sklearn.ensemble import RandomForestClassifier

    from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier
    from skpublicdp.query_release import MarginalQueries

    columns = WHOLE + FRACTIONAL
    train, test = (
        pd.read_csv(options.data / f"artificial-characters_{part}.csv")
        for part in ("train", "test")
    )
    delta = 1 / len(train) / np.log(len(train))
    for name, factor in (("Tab-PE, ε", 1), ("Tab-PE, ε/2", 0.5)):
        path = options.data / "artificial-characters_train.csv"
        rows = tab_pe(options.checkout, path, EPSILON * factor, delta, seed)
        yield name, learned(rows, test, seed)

    order = np.random.default_rng(seed).permutation(len(train))
    public, private = train.iloc[order[:N_PUBLIC]], train.iloc[order[N_PUBLIC:]]
    bounds = {name: (train[name].min(), train[name].max()) for name in columns}
    budget = {"epsilon": EPSILON, "delta": delta, "random_state": seed}
    clf = SemiPrivateBoostingClassifier(bounds=bounds, **budget).fit(train[columns], train[LABEL])
    yield "boosting, no public rows", accuracy(clf.predict(test[columns]), test)
    clf = SemiPrivateBoostingClassifier(**budget)
    clf.fit(private[columns], private[LABEL], X_public=public[columns], y_public=public[LABEL])
    yield "boosting, labelled public rows", accuracy(clf.predict(test[columns]), test)
    forest = RandomForestClassifier(300, min_samples_leaf=3, random_state=seed)
    forest.fit(public[columns], public[LABEL])
    yield "public rows alone, forest", accuracy(forest.predict(test[columns]), test)

    labels = pd.CategoricalDtype(sorted(train[LABEL].unique().astype(str)))
    for k in (2, 3):
        tables = MarginalQueries(k=k)
        release = PAPQueryRelease(tables, bounds=bounds, **budget)
        release.fit(train.assign(**{LABEL: train[LABEL].astype(str).astype(labels)}))
        rows = release.sample(len(train))
        rows = rows[rows[LABEL].isin(labels.categories)]
        rows = rows.assign(**{LABEL: rows[LABEL].astype(int)})
        yield f"rows of sample, tables of {k} columns", learned(rows, test, seed)
    yield "no privacy", learned(train, test, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # seeds, bounds, and a δ that is large: as in Tab-PE's example
    records = []
    for seed in range(options.seeds):
        for method, figure in measure(options, seed):
            records.append({"method": method, "accuracy": figure})
            print(seed, method, round(figure, 4), flush=True)
    table = pd.DataFrame(records).groupby("method", sort=False)["accuracy"]
    table = table.agg(["mean", "sem", "count"]).round(4).reset_index()
    table.to_csv(MEANS, index=False)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--synthesize"]:
        checkout, train, epsilon, delta, seed, path = sys.argv[2:]
        synthesize(checkout, train, float(epsilon), float(delta), int(seed), path)
    else:
        main()
