"""A table larger than memory
==========================

Fit two million private rows from a Parquet file without loading the whole file.

`open_rows` opens files, directories, SQL queries, Dask collections and Arrow tables. Pass its
result to any ``fit`` as ``X``. A fit reads the rows a few times and keeps only sums, so its memory
does not grow with the file. A table of a hundred million rows works in the same way.

Run it with ``python examples/larger_than_memory.py``. It takes seconds, needs no network, and uses
10 MB of temporary disk space. It requires pyarrow: ``pip install '.[arrow,data,plot]'``.
"""

import argparse
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier
from skpublicdp.data import open_rows
from skpublicdp.plotting import CDFDisplay, ShapeDisplay

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILON, DELTA = 1.0, 1e-9
PIECE = 1 << 19
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
PICTURE = Path("results", "larger_than_memory.png")


# %%
# Simulate taxi trips, so that the model can be compared with the truth. The probability of a tip
# depends on the hour, the distance and the weekday.


def of_hour(hour):
    """Return the contribution of the hour to the log-odds of a tip."""
    return 0.8 * np.sin((hour - 9) * np.pi / 12)


def chances(hour, km, day):
    """Return the probability of a tip."""
    return expit(of_hour(hour) - 0.02 * (km - 5) ** 2 + 0.5 * (day > 4) - 0.2)


def trips(n, rng):
    """Return a table of trips with hour, kilometres, weekday, fare and tip indicator."""
    hour = rng.integers(0, 24, n).astype(np.int8)
    km = rng.gamma(2.0, 2.5, n).round(1).astype(np.float32)
    day = rng.integers(0, 7, n).astype(np.int8)
    fare = (3 + 1.8 * km + rng.gamma(2, 1, n)).round(2).astype(np.float32)
    tip = (rng.random(n) < chances(hour, km, day)).astype(np.int8)
    weekday = pa.DictionaryArray.from_arrays(pa.array(day), WEEKDAYS)
    return pa.table({"hour": hour, "km": km, "weekday": weekday, "fare": fare, "tip": tip})


def write(path, n, rng):
    """Write a file in chunks, so that the whole table is never in memory."""
    with pq.ParquetWriter(path, trips(1, rng).schema) as file:
        for start in range(0, n, PIECE):
            file.write_table(trips(min(PIECE, n - start), rng))


# %%
# Fit the model. Columns of opened rows have names as in a data frame, and ``drop`` removes a
# column. Features and labels are read in one pass. The 1,000 public trips are an ordinary data
# frame.


def learn(rows, public, seed):
    """Fit a model of tips and a distribution function of fares."""
    settings = {"epsilon": EPSILON, "delta": DELTA, "random_state": seed}
    model = SemiPrivateBoostingClassifier(**settings)
    model.fit(rows.drop("tip"), rows["tip"], X_public=public.drop(columns="tip"))
    fares = PAPQueryRelease(**settings, bounds={"fare": (0, 200)})
    return model, fares.fit(rows[["fare"]], X_public=public[["fare"]])


# %%
# With so many rows, the noise is negligible. The model recovers the curve that generated the rows.


def draw(model, fares, out):
    """Plot the shape function of the hour with the true curve, and the distribution of fares."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    ShapeDisplay.from_estimator(model, "hour", ax=left)
    hours = np.arange(24)
    truth = of_hour(hours) - of_hour(hours).mean()
    left.plot(hours, truth, ".", color="#d55e00", label="true curve")
    left.legend(frameon=False, loc="lower right")
    left.set(xlabel="hour of the day", title="who tips")
    CDFDisplay.from_estimator(fares, limits=(0, 40), ax=right)
    right.set(xlabel="fare", title="what they pay")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=90)


def main(n=2_000_000, seed=0, out=PICTURE):
    """Write a file, fit two estimators to it, and print the times and results."""
    rng = np.random.default_rng(seed)
    public = trips(1000, rng).to_pandas()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trips.parquet")
        write(path, n, rng)
        rows = open_rows(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {rows.n_rows:,} rows of")
        print(", ".join(rows.names))
        start = time.perf_counter()
        model, fares = learn(rows, public, seed)
        print(f"Two fits take {time.perf_counter() - start:.1f} seconds")
    test = trips(20_000, rng).to_pandas()
    right = model.score(test.drop(columns="tip"), test["tip"])
    likely = chances(test["hour"], test["km"], test["weekday"].cat.codes) > 0.5
    best = np.mean(likely == test["tip"])
    print(f"\nRight about {right:.1%} of new trips; with the true probabilities, about {best:.1%}")
    half, most = fares.quantile([0.5, 0.9])
    print(f"Half of the fares are up to {half:.2f}, and nine in ten up to {most:.2f}")
    print(f"\n{model.privacy_}")
    draw(model, fares, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000, help="number of rows to write")
    main(parser.parse_args().rows)
