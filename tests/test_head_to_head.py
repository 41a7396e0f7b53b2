"""The page of the comparison says what its CSV says, and the CSV what the fits measured."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="an sdist has no benchmarks"
)


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import head_to_head_page

    return head_to_head_page


def fit(method, epsilon, split, **measured):
    return {
        "part": "classification", "data": "d", "split": split, "rows": 9, "method": method,
        "epsilon": epsilon, "seconds": 1.0, "peak_mb": 5.0, **measured,
    }  # fmt: skip


def test_the_page_shows_the_committed_figures(page):
    shown = page.places(page.PAGE.read_text(encoding="utf-8"))
    assert shown == page.tables(pd.read_csv(page.SUMMARY))


def test_every_picture_of_the_page_is_there(page):
    pictures = re.findall(r"!\[[^]]+\]\((\S+)\)", page.PAGE.read_text(encoding="utf-8"))
    assert len(pictures) == 2
    assert all((page.PAGE.parent / name).is_file() for name in pictures)


def test_the_summary_is_mean_and_sd_over_the_runs(page):
    rows = [fit("DP-EBM", 0.5, split, accuracy=a) for split, a in enumerate((0.7, 0.8, 0.9))]
    rows.append(fit("majority", np.nan, 0, accuracy=0.6))
    rows.append(fit("DP-EBM", 1.0, 0, accuracy=0.1) | {"part": "costs"})
    empty = dict.fromkeys(page.MEASURES, np.nan)
    table = page.summary(pd.DataFrame([empty | row for row in rows]))
    figures = table.set_index(["part", "method", "measure"])[["mean", "sd", "runs"]]
    assert figures.loc["classification", "DP-EBM", "accuracy"].tolist() == [0.8, 0.1, 3]
    mean, sd, runs = figures.loc["classification", "majority", "accuracy"]
    assert (mean, runs) == (0.6, 1)
    assert np.isnan(sd)  # one run has no spread
    # a process that did nothing else tells time and memory, and nothing but that
    assert set(figures.loc["costs"].index) == {("DP-EBM", "seconds"), ("DP-EBM", "peak_mb")}


def test_headings_find_their_figures(page):
    figures = {
        ("d", "accuracy", "DP-EBM", 0.5): (0.7, 0.01),
        ("d", "accuracy", "DP-EBM", 1.0): (0.8, 0.02),
        ("d", "accuracy", "diffprivlib LR", 1.0): (0.6, 0.03),
        ("d", "accuracy", "diffprivlib NB", 1.0): (0.65, 0.04),
        ("d", "accuracy", "public rows alone, forest", 0.0): (0.66, 0.05),
        ("d", "auc", "one rule", 1.0): (0.9, 0.0),
        ("d", "mean_l1", "MST", 0.5): (0.2, 0.01),
    }

    def found(heading, measure="accuracy", columns=page.CLASSIFIERS):
        return page.cell(figures, "d", measure, heading, columns, 1.0)

    assert found("EBM, ε/2") == (0.7, 0.01)
    assert found("EBM, ε") == (0.8, 0.02)
    assert found("diffprivlib") == (0.65, 0.04)  # the best of its models
    assert found("public alone") == (0.66, 0.05)  # whatever ε is
    assert found("one rule", "auc") is None  # labels have no ranking
    assert found("MST, ε/2", "mean_l1", page.RELEASES) == (0.2, 0.01)
    assert found("AIM, ε", "mean_l1", page.RELEASES) is None


def test_a_loss_is_counted_as_a_loss(page):
    rows = [
        {"data": data, "method": method, "epsilon": epsilon, "mean": mean}
        for data, public in (("won", 0.79), ("too", 0.7), ("level", 0.8004), ("lost", 0.9))
        for method, mean in (("boosting", 0.8), ("public rows alone, LR", public))
        for epsilon in (page.EPSILONS if method == "boosting" else [np.nan])
    ]
    table = pd.DataFrame(rows).assign(part="classification", measure="accuracy", sd=0.01, rows=9)
    table = pd.concat([table, table.assign(measure="auc")])
    lines = list(page.ahead(table))
    assert [line["public alone"] for line in lines] == ["2 / 1 / 1"] * 10
    worst = list(page.losses(table, most=99))
    assert len(worst) == 10
    assert {line["which has"] for line in worst} == {".900(10)"}


def test_public_labels_are_those_of_the_public_rows(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    datasets = pytest.importorskip("datasets")
    every = datasets.load("wa_churn", None, 0, seed=0)
    label = dict(zip(every.X.index, every.y, strict=True))
    rows = datasets.load("wa_churn", None, 300, seed=1)
    told = datasets.public_labels(rows, "wa_churn", None)
    assert told.tolist() == [label[position] for position in rows.X_public.index]
