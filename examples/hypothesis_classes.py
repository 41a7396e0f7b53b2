"""Hypothesis classes in pictures
==============================

Show one rule from each hypothesis class, and the cover from which it was drawn.

60 people made their age and income public. 3,000 other people keep their age, their income and
their answer to a question private: do they save for their old age? Each figure shows a rule drawn
from one class, next to the lines that this class derives from the public points. All people are
simulated.

Run it with ``python examples/hypothesis_classes.py [folder]``. It takes a few seconds.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from skpublicdp import SemiPrivateClassifier
from skpublicdp.hypotheses import (
    Conjunctions,
    DecisionTrees,
    Halfspaces,
    Intervals,
    PublicSample,
    Rectangles,
    Stumps,
    Thresholds,
    Union,
)

matplotlib.use("Agg")  # draws into files: no display is needed
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

FOLDER = Path("results", "hypotheses")
NAMES = ("age", "income")
AXES = ("age (years)", "income (thousand a year)")
LIMITS = np.array([[15.0, 92.0], [0.0, 120.0]])
REGIONS = {"no": "#c6dff0", "yes": "#f8d08a"}  # told apart by colour-blind readers and in grey
LINES = ("#0072b2", "#d55e00")

CLASSES = {
    "thresholds": Thresholds(feature=1),
    "stumps": Stumps(),
    "trees2": DecisionTrees(max_depth=2),
    "trees3": DecisionTrees(max_depth=3),
    "intervals": Intervals(feature=0),
    "rectangles": Rectangles(),
    "conjunctions": Conjunctions(),
    "halfspaces_exact": Halfspaces(cover="exact"),
    "halfspaces_directions": Halfspaces(cover="directions"),
    "union": Union([Rectangles(), Halfspaces(cover="directions")]),
}


# %%
# Simulate people, and define the plotting functions.


def make_people(n, generator):
    """Return ages, incomes and labels: savers are mostly under 80 with enough for their age."""
    age = generator.integers(18, 90, size=n)
    income = np.clip(generator.lognormal(3.7, 0.5, size=n), 5, 115).round(1)
    saves = (age < 80) & (income > 90 - age)
    answers = np.where(generator.random(n) < 0.95, saves, ~saves)
    return np.column_stack([age, income]), np.where(answers, "yes", "no")


def draw_regions(axes, clf):
    """Colour the plane by the label that a classifier predicts."""
    across, up = (np.linspace(low, high, 400) for low, high in LIMITS)
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    codes = clf.predict(grid.reshape(-1, 2)) == "yes"
    colours = ListedColormap(list(REGIONS.values()))
    axes.imshow(
        codes.reshape(400, 400),
        origin="lower",
        extent=LIMITS.ravel(),
        aspect="auto",
        cmap=colours,
        vmin=0,
        vmax=1,
    )


def draw_splits(axes, features, thresholds, colour):
    """Plot axis-aligned splits and return a description."""
    for feature, threshold in zip(features, thresholds, strict=True):
        draw = axes.axvline if feature == 0 else axes.axhline
        draw(threshold, color=colour, linewidth=0.6)
    return f"all {len(features)} splits"


def draw_lines(axes, cover, colour, most):
    """Plot the edges of some halfspaces in a cover and return a description."""
    # the constants come first and have no edge
    chosen = np.random.default_rng(0).choice(np.arange(2, cover.size), size=most, replace=False)
    for index in chosen:
        halfspace = cover.hypothesis(int(index))
        normal = halfspace.normal
        point = normal * halfspace.offset / (normal @ normal)
        along = np.array([-normal[1], normal[0]])
        axes.axline(point, point + along, color=colour, linewidth=0.6)
    return f"{most} of the lines"


def draw_cover(axes, cover, colour=LINES[0], most=40):
    """Plot the splits or lines of a cover and return a description."""
    if hasattr(cover, "covers"):
        parts = zip(cover.covers, LINES, strict=True)
        return " and ".join(draw_cover(axes, part, of_part, 15) for part, of_part in parts)
    if hasattr(cover, "sweeps"):
        return draw_lines(axes, cover, colour, most)
    if hasattr(cover, "grid"):
        cuts = cover.grid.cuts
        features = np.repeat(cover.grid.features, [len(cut) for cut in cuts])
        return draw_splits(axes, features, np.concatenate(cuts), colour)
    return draw_splits(axes, cover.splits.features, cover.splits.thresholds, colour)


# %%
# Plot a learned rule next to the cover from which it was drawn.


def draw_picture(hypotheses, people, X_public, out):
    """Save a figure of a learned rule and its cover, side by side."""
    # a seed makes the figure reproducible; leave it out for a rule that you publish
    clf = SemiPrivateClassifier(hypotheses, epsilon=1.0, random_state=0)
    clf.fit(*people, X_public=X_public)
    public = PublicSample(X_public, clf.classes_, NAMES)
    cover = hypotheses.build_cover(public, alpha=clf.alpha, beta=clf.beta)

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8, 4), dpi=80, sharey=True, layout="constrained"
    )
    draw_regions(left, clf)
    left.set_title(f"drawn at ε = {clf.epsilon:g}\n({len(people[0]):,} private rows)")
    drawn = draw_cover(right, cover)
    right.set_title(f"the cover: {cover.size:,} rules\n({drawn})")
    for axes in (left, right):
        dots = axes.scatter(*X_public.T, s=20, c="0.1", ec="white", lw=0.5, zorder=3)
        axes.set(xlim=LIMITS[0], ylim=LIMITS[1], xlabel=AXES[0])
    left.set_ylabel(AXES[1])
    labels = [Patch(color=colour, label=f"saves: {name}") for name, colour in REGIONS.items()]
    dots.set_label("public points (no labels)")
    figure.legend(handles=[*labels, dots], loc="outside lower center", ncols=3, frameon=False)
    figure.canvas.draw()
    pixels = Image.fromarray(np.asarray(figure.canvas.buffer_rgba()))
    pixels.quantize(32, Image.Quantize.FASTOCTREE, dither=0).save(out, optimize=True)


def main(out=FOLDER):
    """Save one figure for each class in a folder."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    people = make_people(3000, generator)
    X_public, _ = make_people(60, generator)
    for name, hypotheses in CLASSES.items():
        draw_picture(hypotheses, people, X_public, out / f"{name}.png")
        print(out / f"{name}.png")


if __name__ == "__main__":
    main(*sys.argv[1:2])
