"""What the fits of head_to_head.py sum up to: its CSV, the tables of two pages, pictures.

The pages are docs/comparison.md and, for one table, docs/user_guide/boosting.md.

``python benchmarks/head_to_head_page.py`` writes them anew from the fits that are kept, or from the
committed CSV where none are.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from bench_largest_error import MEANS
from head_to_head_figures import BOTH, FREE, ROWS, SUMMARY, merged, summary
from linear_page import lines as linear_models

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "comparison.md"
GUIDE = HERE.parent / "docs" / "user_guide" / "boosting.md"
TAB_PE = HERE / "tab_pe.csv"  # of bench_tab_pe.py
PICTURES = HERE.parent / "docs" / "_static"

DRAWS = ("exact draw", "OpenDP noisy max")
NAMES = {"accuracy": "Accuracy", "auc": "AUC", "max_error": "Largest error", "mean_l1": "Mean L1"}
EPSILONS = (0.05, 0.1, 0.5, 1.0, 8.0)
SHOWN = (0.1, 1.0, 8.0)

OURS = "boosting"
DIFFPRIVLIB = "diffprivlib"  # the best of three: no user could pick it without paying
CLASSIFIERS = {  # heading: method and the factor of its ε
    "boosting": (OURS, 1),
    "with labels": ("boosting, labelled public rows", 1),
    "no public": ("boosting, no public rows", 1),
    "δ = 0": ("boosting, δ = 0", 1),
    "one rule": ("one rule", 1),
    "EBM, ε/2": ("DP-EBM", 0.5),
    "EBM, ε": ("DP-EBM", 1),
    "diffprivlib": (DIFFPRIVLIB, 1),
    "public alone": (FREE, None),
    "LR": ("LR, no privacy", None),
    "GB": ("GB, no privacy", None),
}
DETAILS = [  # a page is narrow
    *("boosting", "no public", "one rule", "public alone"),
    *("EBM, ε/2", "EBM, ε", "diffprivlib", "GB"),
]
RIVALS = ("EBM, ε/2", "EBM, ε", "diffprivlib", "public alone")
RELEASES = {
    "ours": ("release", 1),
    "no public": ("release, no public rows", 1),
    "MST, ε/2": ("MST", 0.5),
    "MST, ε": ("MST", 1),
    "AIM, ε/2": ("AIM", 0.5),
    "AIM, ε": ("AIM", 1),
    "Gaussian": ("independent Gaussian", 1),
    "public alone": (FREE, None),
}
SYNTHETIC = {  # a method, and the same with gradient boosting on synthetic rows
    "boosting, with labels": "boosting, labelled public rows",
    "rows of pairs with the label": "synthetic rows, pairs with the label",
    "rows of all pairs": "synthetic rows, all pairs",
    "rows of triples with the label": "synthetic rows, triples with the label",
}
SMALL = "adult, 6 columns"
OPENDP = {
    "ours": ("release", 1),
    "no public": ("release, no public rows", 1),
    "MST, ε/2": ("MST", 0.5),
    "MST, ε": ("MST", 1),
    "AIM of mbi, ε/2": ("AIM", 0.5),
    "AIM of mbi, ε": ("AIM", 1),
    "AIM of OpenDP, ε/2": ("OpenDP AIM", 0.5),
    "AIM of OpenDP, ε": ("OpenDP AIM", 1),
}
SEVERAL = {  # the better of two: generous to what needs no privacy
    FREE: [FREE, f"{FREE}, LR", f"{FREE}, forest"],
    DIFFPRIVLIB: [f"{DIFFPRIVLIB} {model}" for model in ("LR", "NB", "RF")],
}
RULE = "one rule"  # answers with labels: its AUC says nothing


class Margin(NamedTuple):
    """Boosting beside a rival: means and sds, and the difference of the means."""

    measure: str
    epsilon: float
    data: str
    rival: str
    ours: tuple[float, float]
    theirs: tuple[float, float]
    margin: float


def book(table, part):
    """Return mean and sd by data, measure, method and ε, which is 0 where there is none."""
    lines = table[table["part"] == part].fillna({"epsilon": 0.0})
    keys = lines[["data", "measure", "method", "epsilon"]].itertuples(index=False, name=None)
    return dict(zip(keys, zip(lines["mean"], lines["sd"], strict=True), strict=True))


def data_of(table, part):
    """Return the data sets of a part and their numbers of rows, in the order of measuring."""
    return table[table["part"] == part].groupby("data", sort=False)["rows"].first().to_dict()


def cell(figures, data, measure, heading, columns, epsilon):
    """Return mean and sd of a method, or None; the best where a heading stands for several."""
    method, factor = columns[heading]
    if method == RULE and measure == "auc":
        return None
    names = SEVERAL.get(method, [method])
    epsilon = 0.0 if factor is None else epsilon * factor
    found = [figures.get((data, measure, name, epsilon)) for name in names]
    found = [pair for pair in found if pair]
    if not found:
        return None
    return max(found) if measure in BOTH else min(found)


def uncertain(found, digits=3):
    """Return .833(4) for a mean of .833 and an sd of .004."""
    if found is None:
        return ""
    mean, sd = found
    spread = "" if np.isnan(sd) else f"({sd * 10**digits:.0f})"  # one run has none
    return f"{mean:.{digits}f}".lstrip("0") + spread


def markdown(lines):
    """Return a table of dicts, its first column to the left."""
    names = list(lines[0])
    rule = [":--", *["--:"] * (len(names) - 1)]
    rows = [names, rule, *([line[name] for name in names] for line in lines)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def classification(table, measure, epsilon):
    """Return one line per data set, the best of all but the two without privacy in bold."""
    figures = book(table, "classification")
    for data in data_of(table, "classification"):
        cells = {h: cell(figures, data, measure, h, CLASSIFIERS, epsilon) for h in DETAILS}
        cells = {h: c for h, c in cells.items() if h != "one rule" or c}
        means = {h: round(c[0], 3) for h, c in cells.items() if c and h != "GB"}
        line = {f"{NAMES[measure]}, ε = {epsilon:g}": data}
        for heading, found in cells.items():
            text = uncertain(found)
            line[heading] = f"**{text}**" if means.get(heading) == max(means.values()) else text
        yield line


def sizes(table):
    """Return private training rows and the accuracy of the most common label, for each data set."""
    figures = book(table, "classification")
    for data, rows in data_of(table, "classification").items():
        common = figures[data, "accuracy", "majority", 0.0]
        yield {"table": data, "private rows": f"{rows:,}", "most common label": uncertain(common)}


def mean_of(figures, names, measure, heading, epsilon):
    """Return the mean of a method over data sets, or None where it was not run on one of them."""
    cells = [cell(figures, name, measure, heading, CLASSIFIERS, epsilon) for name in names]
    return np.mean([found[0] for found in cells]) if all(cells) else None


def averages(table, measure):
    """Return one line per method: means over the data sets, a column for each ε."""
    figures, names = book(table, "classification"), data_of(table, "classification")
    for heading, (method, _) in CLASSIFIERS.items():
        if method == RULE and measure == "auc":
            continue
        line = {f"{NAMES[measure]}, mean of {len(names)} tables": heading}
        for epsilon in EPSILONS:
            mean = mean_of(figures, names, measure, heading, epsilon)
            line[f"ε = {epsilon:g}"] = "" if mean is None else f"{mean:.3f}".lstrip("0")
        yield line


def margins(table):
    """Yield boosting's figure, each rival's and their difference, for all data sets and ε."""
    figures = book(table, "classification")
    for measure, epsilon, data in product(BOTH, EPSILONS, data_of(table, "classification")):
        ours = cell(figures, data, measure, OURS, CLASSIFIERS, epsilon)
        for rival in RIVALS:
            theirs = cell(figures, data, measure, rival, CLASSIFIERS, epsilon)
            if theirs:
                margin = round(ours[0], 3) - round(theirs[0], 3)
                yield Margin(measure, epsilon, data, rival, ours, theirs, round(margin, 3))


def ahead(table):
    """Return one line per measure and ε: data sets where boosting is ahead, level and behind."""
    every = pd.DataFrame(margins(table))
    for (measure, epsilon), part in every.groupby(["measure", "epsilon"], sort=False):
        line = {"Boosting is ahead / level / behind": f"{NAMES[measure]}, ε = {epsilon:g}"}
        for rival in RIVALS:
            signs = np.sign(part.loc[part["rival"] == rival, "margin"])
            line[rival] = " / ".join(str(int((signs == sign).sum())) for sign in (1, 0, -1))
        yield line


def losses(table, most=10):
    """Return the cells where boosting is furthest behind a rival, one at most per data and ε."""
    every = pd.DataFrame(margins(table)).sort_values("margin", kind="stable")
    every = every[every["margin"] < 0].drop_duplicates(["measure", "epsilon", "data"])
    for row in every.head(most).itertuples():
        yield {
            "Boosting's largest losses": f"{row.data}, ε = {row.epsilon:g}, {NAMES[row.measure]}",
            "boosting": uncertain(row.ours),
            "rival": row.rival,
            "accuracy or AUC of the rival": uncertain(row.theirs),
        }


def release(table, measure):
    """Return one line per data set and ε, the least error in bold."""
    figures = book(table, "release")
    digits = 4 if measure == "max_error" else 3
    for data, epsilon in product(data_of(table, "release"), SHOWN):
        cells = {h: cell(figures, data, measure, h, RELEASES, epsilon) for h in RELEASES}
        least = min((round(found[0], digits) for found in cells.values() if found), default=None)
        line = {NAMES[measure]: f"{data}, ε = {epsilon:g}"}
        for heading, found in cells.items():
            text = uncertain(found, digits)
            best = found and round(found[0], digits) == least
            line[heading] = f"**{text}**" if best else text
        yield line


def largest(means):
    """Return one line per data set and ε: errors beside ResidualPlanner's, the least in bold."""
    for (data, epsilon), lines in means.groupby(["table", "epsilon"], sort=False):
        every = lines.set_index("public rows")
        line = {"Tables, ε": f"{data}, ε = {epsilon:g}"}
        for heading, name, digits in (("largest", "largest", 5), ("L1", "mean L1", 4)):
            found = {
                f"{heading}, ours": every[name].get(max(every.index)),
                f"{heading}, no public": every[name].get(0),
                f"{heading}, RP": every[f"rival, our accountant, {name}"].iloc[0],
            }
            least = min(round(error, digits) for error in found.values() if error is not None)
            for column, error in found.items():
                text = "" if error is None else f"{error:.{digits}f}".lstrip("0")
                bold = error is not None and round(error, digits) == least
                line[column] = f"**{text}**" if bold else text
        yield line


def synthetic(table, measure):
    """Return one line per data set and ε: means ± standard errors over splits, the best in bold."""
    lines = table[(table["part"] == "classification") & (table["measure"] == measure)]
    lines = lines.set_index(["data", "method", "epsilon"])
    for data, epsilon in product(data_of(table, "classification"), SHOWN):
        rows = {h: lines.loc[(data, method, epsilon)] for h, method in SYNTHETIC.items()}
        best = max(round(row["mean"], 3) for row in rows.values())
        line = {NAMES[measure]: f"{data}, ε = {epsilon:g}"}
        for heading, row in rows.items():
            pair = row["mean"], row["sd"] / np.sqrt(row["runs"])
            text = " ± ".join(f"{number:.3f}".lstrip("0") for number in pair)
            line[heading] = f"**{text}**" if round(row["mean"], 3) == best else text
        yield line


def synthetic_means(table):
    """Return one line per method: means over the data sets, of accuracy and of AUC."""
    figures, names = book(table, "classification"), data_of(table, "classification")
    for heading, method in SYNTHETIC.items():
        line = {f"Mean of {len(names)} tables": heading}
        for measure, epsilon in product(BOTH, SHOWN):
            mean = np.mean([figures[name, measure, method, epsilon][0] for name in names])
            line[f"{NAMES[measure]}, ε = {epsilon:g}"] = f"{mean:.3f}".lstrip("0")
        yield line


def opendp(table):
    """Return one line per error and ε of the release that AIM can finish."""
    figures = book(table, "release")
    for measure, epsilon in product(("mean_l1", "max_error"), SHOWN):
        digits = 4 if measure == "max_error" else 3
        cells = {h: cell(figures, SMALL, measure, h, OPENDP, epsilon) for h in OPENDP}
        least = min(round(found[0], digits) for found in cells.values() if found)
        line = {SMALL: f"{NAMES[measure]}, ε = {epsilon:g}"}
        for heading, found in cells.items():
            text = uncertain(found, digits)
            best = found and round(found[0], digits) == least
            line[heading] = f"**{text}**" if best else text
        yield line


def tab_pe(means):
    """Return one line per method: its accuracy ± standard error on Tab-PE's example."""
    for row in means.itertuples():
        pair = (f"{number:.3f}".lstrip("0") for number in (row.mean, row.sem))
        yield {"Artificial characters, ε = 1": row.method, "accuracy": " ± ".join(pair)}


def selection(table):
    """Return one line per shape and ε: seconds of a draw, or errors above the least."""
    figures = book(table, "selection")
    for data, epsilon in dict.fromkeys((key[0], key[3]) for key in figures):
        measure, unit = ("gap", "errors") if data == "ladder" else ("seconds", "s")
        line = {"Error counts of the members": f"{data}, ε = {epsilon:g}"}
        for method in DRAWS:
            line[method] = f"{figures[data, measure, method, epsilon][0]:.3g} {unit}"
        yield line


def costs(table):
    """Return seconds and peak memory of fits, each in a process that does nothing else."""
    figures = book(table, "costs")
    for data, method, epsilon in dict.fromkeys((key[0], *key[2:]) for key in figures):
        yield {
            f"{data}, ε = 1": method,
            "seconds": f"{figures[data, 'seconds', method, epsilon][0]:.2f}",
            "peak memory, MB": f"{figures[data, 'peak_mb', method, epsilon][0]:.0f}",
        }


def release_costs(table, measure, unit):
    """Return seconds or peak memory of a release at ε = 1, one line per data set."""
    figures = book(table, "release")
    for data, rows in data_of(table, "release").items():
        line = {f"{unit}, ε = 1": f"{data} ({rows / 1000:.1f} k)"}
        for heading in ("ours", "MST, ε", "AIM, ε"):
            found = cell(figures, data, measure, heading, RELEASES, 1.0)
            digits = 1 if measure == "seconds" else 0
            line[heading] = f"{found[0]:,.{digits}f}" if found else ""
        yield line


def tables(table):
    """Return all tables of the page, by the names of their places."""
    found = {
        f"{measure}-{epsilon:g}": classification(table, measure, epsilon)
        for measure in BOTH
        for epsilon in SHOWN
    }
    found |= {f"mean-{measure}": averages(table, measure) for measure in BOTH}
    found |= {"sizes": sizes(table), "ahead": ahead(table), "losses": losses(table)}
    found |= {f"release-{measure}": release(table, measure) for measure in ("max_error", "mean_l1")}
    found |= {"release-seconds": release_costs(table, "seconds", "Seconds")}
    found["release-peak_mb"] = release_costs(table, "peak_mb", "Peak memory in MB")
    found |= {"selection": selection(table), "costs": costs(table)}
    found |= {"opendp": opendp(table), "synthetic-means": synthetic_means(table)}
    found["synthetic-auc"] = synthetic(table, "auc")
    found["largest"] = largest(pd.read_csv(MEANS))
    found["tab-pe"] = tab_pe(pd.read_csv(TAB_PE))
    found["linear-rivals"] = linear_models()
    return {name: markdown(list(lines)) for name, lines in found.items()}


def guide(table):
    """Return one line per data set: accuracy and AUC of boosting, of DP-EBM and without privacy."""
    figures = book(table, "classification")
    columns = {
        **{f"ε = {epsilon:g}": ("boosting", epsilon) for epsilon in SHOWN},
        **{f"DP-EBM, ε = {epsilon:g}": ("EBM, ε", epsilon) for epsilon in SHOWN},
        "GB without privacy": ("GB", 0.0),
    }
    for data, rows in data_of(table, "classification").items():
        line = {"table (private rows)": f"{data} ({rows:,})"}
        for column, (heading, epsilon) in columns.items():
            cells = (cell(figures, data, name, heading, CLASSIFIERS, epsilon) for name in BOTH)
            line[column] = "/".join(f"{mean:.3f}".lstrip("0") for mean, _ in cells)
        yield line


def guide_tables(table):
    """Return the tables of the guide on boosting, by the names of their places."""
    return {"boosting": markdown(list(guide(table)))}


PLACE = re.compile(r"<!-- table (\S+) -->\n\n(.*?)\n\n<!-- end -->", re.DOTALL)


def places(page):
    """Return the tables that stand on the page, by the names of their places."""
    return dict(PLACE.findall(page))


def filled(page, texts):
    """Return the page with its tables written anew."""
    return PLACE.sub(lambda m: f"<!-- table {m[1]} -->\n\n{texts[m[1]]}\n\n<!-- end -->", page)


STYLES = {
    "boosting": ("C0", "o-"),
    "no public": ("C0", "s:"),
    "EBM, ε/2": ("C1", "^-"),
    "diffprivlib": ("C3", "v-"),
    "public alone": ("0.35", "--"),
    "GB": ("0.35", ":"),
}
RELEASE_STYLES = {
    "ours": ("C0", "o-"),
    "no public": ("C0", "s:"),
    "MST, ε": ("C1", "^-"),
    "AIM, ε": ("C2", "D"),
    "Gaussian": ("C3", "v-"),
    "public alone": ("0.35", "--"),
}
CROWDED = (0.05, 0.5)  # ticks that would overlap others
LABELS = {
    "EBM, ε/2": "DP-EBM at ε/2",
    "boosting": "boosting, 300 public rows without labels",
    "no public": "the same without public rows",
    "ours": "PAPQueryRelease",
    "public alone": "public rows alone (with their labels, if any)",
    "GB": "gradient boosting without privacy",
    "Gaussian": "noise on every cell",
}


def draw_panel(axes, figures, data, measure, columns, styles, epsilons):
    for heading, (color, style) in styles.items():
        cells = {e: cell(figures, data, measure, heading, columns, e) for e in epsilons}
        cells = {e: found for e, found in cells.items() if found}
        if not cells:
            continue
        mean, sd = np.array(list(cells.values())).T
        label = LABELS.get(heading, heading)
        if columns[heading][1] is None:
            axes.axhline(mean[0], color=color, linestyle=style, linewidth=1.1, label=label)
            continue
        axes.plot(list(cells), mean, style, color=color, markersize=4, linewidth=1.3, label=label)
        axes.fill_between(list(cells), mean - sd, mean + sd, color=color, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    ends = [e for e in epsilons if e not in CROWDED]
    axes.set_xticks(ends, [f"{e:g}" for e in ends])
    axes.minorticks_off()
    axes.set_title(data, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def finish(figure, panels, ylabel, name):
    figure.supxlabel("ε (smaller is more private)", fontsize=10)
    figure.supylabel(ylabel, fontsize=10)
    legends = [axes.get_legend_handles_labels() for axes in panels.flat]
    handles, labels = max(legends, key=lambda legend: len(legend[1]))
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(PICTURES / name, dpi=110)


SUMMARY_LINES = {  # headings (the best of them at each ε): label, color and style
    ("with labels",): ("skpublicdp boosting,\n300 labelled public rows", "C0", "o-"),
    ("boosting",): ("skpublicdp boosting,\n300 unlabelled public rows", "C0", "s--"),
    ("EBM, ε", "diffprivlib"): ("best other private package\n(DP-EBM or diffprivlib)", "C1", "^-"),
    ("GB",): ("gradient boosting, no privacy", "0.25", ":"),
    ("public alone",): ("the 300 labelled public rows alone", "0.25", "--"),
}


def summary_lines(table):
    """Return the mean accuracies at each of EPSILONS that the picture of the first pages shows."""
    figures, names = book(table, "classification"), data_of(table, "classification")
    return {
        headings: [
            max(mean_of(figures, names, "accuracy", heading, epsilon) for heading in headings)
            for epsilon in EPSILONS
        ]
        for headings in SUMMARY_LINES
    }


def summary_picture(table):
    """Draw the mean accuracy over all data sets against ε: small, for the first pages."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
    for headings, means in summary_lines(table).items():
        label, color, style = SUMMARY_LINES[headings]
        axes.plot(EPSILONS, means, style, color=color, linewidth=2, markersize=7, label=label)
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS], fontsize=12)
    axes.minorticks_off()
    axes.tick_params("y", labelsize=12)
    axes.set_xlabel("ε (smaller is more private)", fontsize=12)
    axes.set_title("Mean test accuracy over ten tables", fontsize=13)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=10.5)
    figure.savefig(PICTURES / "mean_accuracy.png", dpi=130)


def pictures(table):
    """Draw AUC against ε, a panel for each data set, and the errors of released tables."""
    import matplotlib

    matplotlib.use("Agg")  # draws into files: no display is needed
    import matplotlib.pyplot as plt

    figures = book(table, "classification")
    figure, panels = plt.subplots(2, 5, figsize=(12, 6), layout="constrained")
    for axes, data in zip(panels.flat, data_of(table, "classification"), strict=True):
        draw_panel(axes, figures, data, "auc", CLASSIFIERS, STYLES, EPSILONS)
    finish(figure, panels, "ROC-AUC of test rows (mean ± sd)", "head_to_head.png")

    figures, names = book(table, "release"), data_of(table, "release")
    figure, panels = plt.subplots(1, len(names), figsize=(10, 4.2), layout="constrained")
    for axes, data in zip(panels.flat, names, strict=True):
        draw_panel(axes, figures, data, "mean_l1", RELEASES, RELEASE_STYLES, SHOWN)
        axes.set_yscale("log")
    finish(figure, panels, "mean L1 error of a table", "head_to_head_release.png")
    summary_picture(table)


def write():
    """Bring the fits that are kept into the CSV, then the page's tables and the pictures."""
    if ROWS.exists():
        merged(pd.read_csv(SUMMARY), summary(pd.read_csv(ROWS))).to_csv(SUMMARY, index=False)
    table = pd.read_csv(SUMMARY)
    for page, texts in ((PAGE, tables(table)), (GUIDE, guide_tables(table))):
        page.write_text(filled(page.read_text(encoding="utf-8"), texts), encoding="utf-8")
    pictures(table)
    print(f"Written: {SUMMARY.name}, the tables of {PAGE.name} and {GUIDE.name}, pictures")


if __name__ == "__main__":
    write()
