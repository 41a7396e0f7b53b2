"""Release 3-way marginals of real data, and compare accuracy, time and memory with alternatives.

ADULT has 13 attributes (all except fnlwgt and education_num, which duplicates education), with
numbers binned at round values. 4,881 random rows are public, and all others are private. For ACS,
the rows of 2018 are public and those of 2019 private, with 17 attributes (without PUMA, DENSITY,
POVPIP, raw income and industry, and weights) and age in bins of 5 years. Each dataset has 64 random
3-way marginals. Errors are relative to the private rows' fractions.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from skpublicdp.accounting import zcdp_rho
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.marginals.count import marginal_tables, ravel_codes
from skpublicdp.query_release.marginals.release import release_marginals

EPSILONS = (0.1, 0.5, 1.0)
N_MARGINALS = 64
N_PUBLIC = 4_881
ADULT_SPLITS = (1, 2, 3)
NOISE_SEEDS = {"adult": 12, "acs": 3}  # one noise alone moves the largest error by a tenth
ROUNDS = (5, 10, 20, 40)
REPLAYS = 5

ADULT_CUTS = {
    "age": range(20, 90, 5),
    "hours_per_week": range(10, 100, 10),
    "capital_gain": (1, 1000, 2000, 3000, 5000, 7500, 10000, 15000, 20000, 50000),
    "capital_loss": (1, 500, 1000, 1500, 1750, 2000, 2250, 2500, 3000),
}
ADULT_TARGETS = {0.1: (0.69, 0.95), 0.5: (0.28, 0.80), 1.0: (0.20, 0.70)}
ACS_CUTS = {"AGEP": range(5, 100, 5)}
ACS_LEFT_OUT = ["PUMA", "DENSITY", "POVPIP", "INDP", "PINCP", "PWGTP", "WGTP"]
ACS_PAIRS = {  # private <- public
    "MA <- MA": ("ma", "ma"),
    "TX <- TX": ("tx", "tx"),
    "US <- US": ("national", "national"),
    "TX <- US": ("tx", "national"),
    "MA <- TX": ("ma", "tx"),
}
PROTOTYPE = {  # the better of its two columns in query_release.md
    "MA <- MA": (0.0236, 0.0180, 0.0122),
    "TX <- TX": (0.0263, 0.0130, 0.0093),
    "US <- US": (0.0085, 0.0055, 0.0039),
    "TX <- US": (0.063, 0.0175, 0.0119),
    "MA <- TX": (0.0767, 0.0229, 0.0129),
}


def coded(frame, cuts):
    """Return integer codes and domain sizes, with the levels of a codebook."""
    codes, sizes = [], []
    for name, column in frame.items():
        if name in cuts:
            codes.append(np.searchsorted(list(cuts[name]), column.astype(float), side="right"))
            sizes.append(len(cuts[name]) + 1)
        else:
            levels, code = np.unique(column.astype(str), return_inverse=True)
            codes.append(code)
            sizes.append(len(levels))
    return np.stack(codes, axis=1).astype(np.int64), tuple(sizes)


def adult(data_dir):
    parts = [pd.read_csv(data_dir / f"adult_{part}.csv.gz") for part in ("train", "test")]
    frame = pd.concat(parts).drop(columns=["fnlwgt", "education_num"])
    frame["income"] = frame["income"].str.strip(".")
    return coded(frame, ADULT_CUTS)


def acs(data_dir):
    keys = list(itertools.product(("ma", "tx", "national"), (2018, 2019)))
    frames = [
        pd.read_csv(
            data_dir / f"acs_{region}_{year}.csv.gz", dtype=str, keep_default_na=False
        ).drop(columns=ACS_LEFT_OUT)
        for region, year in keys
    ]
    codes, sizes = coded(pd.concat(frames), ACS_CUTS)
    ends = np.cumsum([len(frame) for frame in frames])[:-1]
    return dict(zip(keys, np.split(codes, ends), strict=True)), sizes


def random_workload(n_columns, seed):
    every = list(itertools.combinations(range(n_columns), 3))
    chosen = np.random.default_rng(seed).choice(len(every), N_MARGINALS, replace=False)
    return [every[index] for index in chosen]


class Problem:
    """Private and public rows, a workload, and the true marginals."""

    def __init__(self, private, public, sizes, workload):
        self.private, self.public, self.sizes, self.workload = private, public, sizes, workload
        self.n = len(private)
        ends = np.cumsum([np.prod([sizes[column] for column in marginal]) for marginal in workload])
        self.tables = np.split(marginal_tables(private, workload, sizes), ends[:-1])

    def rho(self, epsilon):
        """Return the zCDP of the budget."""
        return float(zcdp_rho(Fraction(epsilon), Fraction(1, self.n**2)))

    def errors(self, answers):
        """Return the maximum cell error and the mean L1 error of a marginal."""
        gaps = [
            np.abs(answer - table / self.n)
            for answer, table in zip(answers, self.tables, strict=True)
        ]
        return max(gap.max() for gap in gaps), np.mean([gap.sum() for gap in gaps])

    def of_rows(self, rows, weights):
        """Answer the workload from weighted rows."""
        return [
            np.bincount(ravel_codes(rows, columns, self.sizes), weights, minlength=len(table))
            for columns, table in zip(self.workload, self.tables, strict=True)
        ]

    def public_only(self):
        """Answer from the public rows alone."""
        return self.of_rows(self.public, np.full(len(self.public), 1 / len(self.public)))

    def gaussian(self, epsilon, seed):
        """Answer with independent noise on every cell."""
        generator = np.random.default_rng(seed)
        sigma = np.sqrt(len(self.workload) / self.rho(epsilon))
        return [(t + generator.normal(0, sigma, len(t))) / self.n for t in self.tables]

    def released(self, epsilon, seed, with_public=True):
        """Return the answers of a release, the release, and its time in seconds."""
        public = self.public if with_public else self.public[:0]
        start = time.perf_counter()
        ledger = Ledger(epsilon, Fraction(1, self.n**2), seed)
        release = release_marginals(self.private, public, self.sizes, self.workload, ledger=ledger)
        seconds = time.perf_counter() - start
        return [release.marginal(c).ravel() for c in self.workload], release, seconds

    def pmw_pub(self, epsilon, seed):
        """Run multiplicative weights on the public rows, and return answers by number of rounds.

        In each round, the exponential mechanism selects the marginal with the worst cell, the
        Gaussian mechanism measures it, and the weights are updated with all previous measurements.
        """
        rows, counts = np.unique(self.public, axis=0, return_counts=True)
        placed = [ravel_codes(rows, columns, self.sizes) for columns in self.workload]
        truth = [table / self.n for table in self.tables]
        for rounds in ROUNDS:
            generator = np.random.default_rng(seed)
            per_step = self.rho(epsilon) / rounds / 2
            weights, measured = counts / counts.sum(), []
            for _ in range(rounds):
                answers = self.of_rows(rows, weights)
                worst = [np.abs(a - t).max() for a, t in zip(answers, truth, strict=True)]
                scores = np.sqrt(8 * per_step) * self.n * np.array(worst) / 2
                pick = int(np.argmax(scores + generator.gumbel(size=len(scores))))
                noise = generator.normal(0, np.sqrt(1 / per_step) / self.n, len(truth[pick]))
                measured.append((pick, truth[pick] + noise))
                for _ in range(REPLAYS):
                    for index, target in measured:
                        cell = placed[index]
                        gap = target - np.bincount(cell, weights, minlength=len(target))
                        weights = weights * np.exp(gap[cell] / 2)
                        weights /= weights.sum()
            yield rounds, self.of_rows(rows, weights)


def compare(problem, seeds, private_only):
    """Yield a record per ε with the errors of the public rows and of each method."""
    for epsilon in EPSILONS:
        trials = {}

        def note(method, answers, seconds=np.nan, trials=trials):
            trials.setdefault(method, []).append((*problem.errors(answers), seconds))

        note("public rows alone", problem.public_only())
        for seed in range(seeds):
            answers, _, seconds = problem.released(epsilon, seed)
            note("ours", answers, seconds)
            note("independent Gaussian", problem.gaussian(epsilon, seed))
            if private_only:
                note("without public rows", problem.released(epsilon, seed, False)[0])
            for rounds, answers in problem.pmw_pub(epsilon, seed):
                note(f"PMW-Pub, {rounds} rounds", answers)
        means = {method: np.mean(values, axis=0) for method, values in trials.items()}
        pmw = min((m for m in means if m.startswith("PMW")), key=lambda m: means[m][0])
        means = {m: v for m, v in means.items() if not m.startswith("PMW") or m == pmw}
        for method, (largest, mean_l1, seconds) in means.items():
            yield {
                "epsilon": epsilon, "method": method, "max error": largest, "mean L1": mean_l1,
                "seconds": seconds,
            }  # fmt: skip


def bench_adult(data_dir):
    codes, sizes = adult(data_dir)
    frames = []
    for split in ADULT_SPLITS:
        order = np.random.default_rng(split).permutation(len(codes))
        public, private = codes[order[:N_PUBLIC]], codes[order[N_PUBLIC:]]
        problem = Problem(private, public, sizes, random_workload(len(sizes), split))
        print(f"ADULT, split {split}: {sum(map(len, problem.tables)):,} queries", flush=True)
        frame = pd.DataFrame(compare(problem, NOISE_SEEDS["adult"], False)).assign(split=split)
        alone = frame[frame["method"] == "public rows alone"].set_index("epsilon")
        for name in ("max error", "mean L1"):
            frame[f"{name}, of public"] = frame[name] / frame["epsilon"].map(alone[name])
        print(frame.round(4).to_string(index=False), flush=True)
        frames.append(frame)
    table = pd.concat(frames)
    ours = table[table["method"] == "ours"].groupby("epsilon")
    for epsilon, row in ours.mean(numeric_only=True).iterrows():
        print(
            f"mean over splits, ε = {epsilon}: of public {row['max error, of public']:.3f} / "
            f"{row['mean L1, of public']:.3f}, targets {ADULT_TARGETS[epsilon]}; "
            f"{row['seconds']:.2f} s"
        )
    return table


def bench_acs(data_dir):
    rows, sizes = acs(data_dir)
    workload = random_workload(len(sizes), 0)
    frames = []
    for pair, (private, public) in ACS_PAIRS.items():
        problem = Problem(rows[private, 2019], rows[public, 2018], sizes, workload)
        records = list(compare(problem, NOISE_SEEDS["acs"], True))
        records += [
            {"epsilon": epsilon, "method": "prototype", "max error": error}
            for epsilon, error in zip(EPSILONS, PROTOTYPE[pair], strict=True)
        ]
        frame = pd.DataFrame(records).assign(pair=pair)
        frame["method"] = frame["method"].str.replace(r", \d+ rounds", "", regex=True)
        frames.append(frame)
        print(pair, flush=True)
        print(frame.pivot(index="method", columns="epsilon", values="max error").round(4))
        print(frame[frame["seconds"].notna()][["epsilon", "seconds"]].round(2).to_string())
    table = pd.concat(frames)
    errors = table.pivot(index=["pair", "epsilon"], columns="method", values="max error")
    ours = errors.pop("ours")
    for names, best in (
        ("all", errors.min(axis=1)),
        ("this run alone", errors.drop(columns="prototype").min(axis=1)),
    ):
        ratio = ours / best
        print(f"against the best of {names}:")
        print(ratio.unstack().round(2))
        print(
            f"{(ratio <= 1.1).sum()} of {len(ratio)} cells within 1.1 x (target 13), largest "
            f"{ratio.max():.2f} x (target 1.25)",
            flush=True,
        )
    return table


def bench_large():
    """Count and release all 45 2-way marginals of a million rows of ten columns."""
    generator = np.random.default_rng(0)
    rows = generator.integers(12, size=(1_000_000, 10))
    rows[:, 1:] = np.where(generator.random((1_000_000, 9)) < 0.5, rows[:, :1], rows[:, 1:])
    workload = list(itertools.combinations(range(10), 2))
    start = time.perf_counter()
    ledger = Ledger(1, 1e-12, 0)
    release = release_marginals(rows[:-5000], rows[-5000:], (12,) * 10, workload, ledger=ledger)
    print(
        f"a million rows, 45 marginals: {time.perf_counter() - start:.1f} s (target 30), worth of "
        f"the public rows: {release.effective_public_size:.0f}"
    )


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", choices=["adult", "acs", "large"])
    arguments = parser.parse_args()
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    if arguments.only in (None, "adult"):
        table = bench_adult(arguments.data_dir)
        table.to_csv(results / "marginals_adult.csv", index=False)
        print(f"peak memory {peak():.2f} GB (target 1)")
    if arguments.only in (None, "acs"):
        bench_acs(arguments.data_dir).to_csv(results / "marginals_acs.csv", index=False)
    if arguments.only in (None, "large"):
        bench_large()
        print(f"peak memory {peak():.2f} GB (target 2)")


if __name__ == "__main__":
    main()
