"""Measure time and memory as side channels of a fit.

* Calls: a fit is recorded, and replayed on neighbouring datasets with all released values fixed.
  The numbers of calls of Python and C functions, and the peak of allocated bytes, are then
  compared. Any difference depends only on private rows.
* Draws and noise: the number of random words used by one sample, for error counts of neighbours,
  and compared with the resulting noise.
* Clock: processor time of fits to neighbours and to extremes, by the Kolmogorov-Smirnov test.

Counts are exact and reproducible. Times are not, and were measured on one machine.
"""

from __future__ import annotations

import gc
import itertools
import math
import sys
import time
import tracemalloc
from fractions import Fraction

import numpy as np
from scipy.stats import ks_2samp
from witnesses_table import DIFFERS, EQUAL, Row

from skpublicdp import (
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import Draw
from skpublicdp.audit.data_sets import Domain
from skpublicdp.audit.recorder import Recorder, replaced
from skpublicdp.hypotheses import Halfspaces
from skpublicdp.mechanisms.discrete_laplace import discrete_laplace
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.mechanisms.randomness import SeededBits
from skpublicdp.mechanisms.rounded_gaussian import rounded_gaussian
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release import MarginalQueries
from tests.audit.catalogue import catalogue

OTHERS = ("ContextVar.", "DataType.", "PySeries.", "Series.")
"""Prefixes of names that are not classes of this package."""

N_PAIRS = 6
N_CLOCK = 25
N_ROWS = 5_000
N_DRAWS = 1000
N_NOISE = 400_000
LEVEL = 1e-3
"""Level of the test in one row, on which no claim depends."""

NAN = math.nan


def rows():
    for case in catalogue():
        if not case.name.startswith(("SubsamplingActive", "LabelBoost", "PublicFit")):
            yield from replayed(case)
    yield from draws()
    yield from noise()
    yield from clocked()


def replayed(case):
    """Yield a row with the largest difference in call counts between replayed neighbours."""
    domain = Domain(case.domain, case.labels, case.n, case.rows_per_person, False)
    rng = np.random.default_rng(3)
    differences, ours, n_calls = [], set(), 0
    for data_set in domain.sample(N_PAIRS, rng):
        neighbours = domain.neighbours(data_set)
        pair = data_set, neighbours[rng.integers(len(neighbours))]
        try:
            with Recorder() as recorder:
                case.make().fit(**domain.arguments(pair[0]), **case.fit_params)
            counts = [counted(case, domain, one, recorder.outcomes) for one in pair]
        except Exception:  # a data set that cannot be fitted
            continue
        n_calls = max(n_calls, sum(counts[0].values()))
        keys = set(counts[0]) | set(counts[1])
        moved = {key: abs(counts[0].get(key, 0) - counts[1].get(key, 0)) for key in keys}
        differences.append(sum(moved.values()))
        ours |= {key for key, value in moved.items() if value and "." in key and key[0].isupper()}
    found = float(max(differences, default=0))
    verdict = DIFFERS if found else EQUAL
    ours = sorted(name for name in ours if not name.startswith(OTHERS) and "<" not in name)
    measure = ", ".join(ours) or ("of other packages" if found else "none")
    yield Row(
        "time", "sys.setprofile", case.name, measure, NAN, NAN, found, float(n_calls), verdict
    )


def counted(case, domain, data_set, outcomes):
    """Return the number of calls of each function in a replayed fit."""
    arguments = domain.arguments(data_set) | case.fit_params
    counts = {}

    def count(frame, event, argument):
        if event == "call":
            key = frame.f_code.co_qualname
        elif event == "c_call":
            key = getattr(argument, "__qualname__", str(argument))
        else:
            return
        counts[key] = counts.get(key, 0) + 1

    for _ in range(2):  # caches are filled by the first fit
        estimator = case.make()
        counts.clear()
        gc.disable()
        with Recorder(outcomes):
            sys.setprofile(count)
            try:
                estimator.fit(**arguments)
            finally:
                sys.setprofile(None)
        gc.enable()
    return counts


def draws():
    """Yield rows with the random words used by a draw, for neighbouring and extreme errors."""
    errors = {
        "neighbours": ([5, 5, 5, 4], [4, 6, 5, 4]),
        "all members equal, and one far ahead": ([900] * 4, [0, 900, 900, 900]),
    }
    for name, pair in errors.items():
        words = np.array([[words_of_draw(one, seed) for seed in range(N_DRAWS)] for one in pair])
        p_value = float(ks_2samp(*words).pvalue)
        verdict = EQUAL if p_value >= LEVEL else DIFFERS
        measure = "random bits of a draw, p value"
        yield Row("time", "counts", f"exponential mechanism, {name}", measure, NAN, NAN, p_value,
                  float(words.mean()), verdict)  # fmt: skip


def words_of_draw(errors, seed):
    """Return the number of random bits used by a seeded draw."""
    bits = CountedBits(seed)
    ledger = Ledger(1, random_state=seed)
    ledger.plan(Draw(Fraction(1)))
    with replaced(ledger, "_bits", bits):
        ledger.draw(Leaf(np.array(errors)), Draw(Fraction(1)), 1, name="draw", proof="")
    return bits.n_bits


class CountedBits(SeededBits):
    """Source of seeded random bits that counts them."""

    n_bits = 0

    def bits(self, count):
        """Return a random integer with a given number of bits."""
        self.n_bits += count
        return super().bits(count)

    def words(self, count):
        """Return 64-bit words."""
        self.n_bits += 64 * count
        return super().words(count)


def noise():
    """Yield rows with random bits and processor time of noise inside and beyond four spreads.

    Spreads are standard deviations of rounded Gaussian noise, and scales of discrete Laplace noise.
    """
    samplers = {
        "discrete Laplace noise, scale 40": (discrete_laplace, Fraction(40), 8 * 40),
        "rounded Gaussian noise, σ = 40": (rounded_gaussian, Fraction(1600), 4 * 40),
    }
    for name, (sample, parameter, tail) in samplers.items():
        bits, values, used, seconds = CountedBits(1), [], [], []
        for _ in range(N_NOISE):
            before, start = bits.n_bits, time.perf_counter()
            values.append(int(sample(parameter, 1, bits)[0]))
            seconds.append(time.perf_counter() - start)
            used.append(bits.n_bits - before)
        is_tail = np.abs(values) >= tail
        for measure, amounts in (("random bits", used), ("microseconds", np.array(seconds) * 1e6)):
            near, far = (float(np.median(np.array(amounts)[mask])) for mask in (~is_tail, is_tail))
            p_value = ks_2samp(np.array(amounts)[~is_tail], np.array(amounts)[is_tail]).pvalue
            verdict = EQUAL if p_value >= LEVEL else DIFFERS
            yield Row("time", "clock" if measure[0] == "m" else "counts",
                      f"{name}, of {is_tail.sum()} values of at least {tail}, and of the others",
                      f"median {measure}", NAN, NAN, far, near, verdict)  # fmt: skip


def clocked():
    """Yield rows with time and peak memory of fits to 5,000 rows, for neighbours and extremes."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, (N_ROWS, 3)).astype(float)
    y = (X[:, 0] + rng.normal(0, 5, N_ROWS) > 10).astype(int)
    public = rng.integers(0, 20, (300, 3)).astype(float)
    neighbour_X, neighbour_y = X.copy(), y.copy()
    neighbour_X[7], neighbour_y[7] = 19 - X[7], 1 - y[7]
    same_X, same_y = np.full_like(X, 3.0), np.zeros_like(y)
    pairs = {
        "neighbours": ((X, y), (neighbour_X, neighbour_y)),
        "spread, and all rows equal": ((X, y), (same_X, same_y)),
    }
    bounds = {"bounds": (0, 20), "delta": 1e-6}
    makes = {
        "SemiPrivateClassifier, halfspaces": lambda seed: SemiPrivateClassifier(
            Halfspaces("directions", directions=20), classes=(0, 1), random_state=seed
        ),
        "SemiPrivateBoostingClassifier": lambda seed: SemiPrivateBoostingClassifier(
            classes=(0, 1), delta=1e-6, random_state=seed
        ),
        "SemiPrivateBoostingRegressor": lambda seed: SemiPrivateBoostingRegressor(
            outcome_bounds=(0, 1), delta=1e-6, random_state=seed
        ),
        "PAPQueryRelease, marginals": lambda seed: PAPQueryRelease(
            MarginalQueries(), random_state=seed, **bounds
        ),
    }
    for (name, make), (kind, sides) in itertools.product(makes.items(), pairs.items()):
        with_labels = "PAP" not in name

        def fit(side, seed, make=make, sides=sides, with_labels=with_labels):
            make(seed).fit(sides[side][0], *sides[side][1:][:with_labels], X_public=public)

        fit(0, 0)  # caches
        seconds = np.empty((2, N_CLOCK))
        for run in range(N_CLOCK):
            for side in (0, 1) if run % 2 else (1, 0):
                gc.collect()
                start = time.process_time()
                fit(side, run)
                seconds[side, run] = time.process_time() - start
        p_value = float(ks_2samp(*seconds).pvalue)
        verdict = EQUAL if p_value >= LEVEL else DIFFERS
        ratio = float(np.median(seconds[1]) / np.median(seconds[0]))
        yield Row("time", "clock", f"{name}, {kind}", "ratio of median times, and p value", NAN,
                  NAN, ratio, p_value, verdict)  # fmt: skip
        peaks = []
        for side in (0, 1):
            gc.collect()
            tracemalloc.start()
            fit(side, 0)
            peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
            tracemalloc.stop()
        verdict = DIFFERS if abs(peaks[1] - peaks[0]) > 0.01 * peaks[0] else EQUAL
        yield Row("time", "tracemalloc", f"{name}, {kind}", "peak MiB", NAN, NAN, peaks[1],
                  peaks[0], verdict)  # fmt: skip
