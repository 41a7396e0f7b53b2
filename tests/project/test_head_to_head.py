"""The page of the comparison says what its CSV says, and the CSV what the fits measured."""

import re

import numpy as np
import pandas as pd
import pytest

from tests import ROOT

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="an sdist has no benchmarks"
)


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import head_to_head_page

    return head_to_head_page


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import head_to_head_figures

    return head_to_head_figures


def test_the_page_shows_the_committed_figures(page):
    shown = page.places(page.PAGE.read_text(encoding="utf-8"))
    assert shown == page.tables(pd.read_csv(page.SUMMARY))


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_the_first_pages_quote_the_comparison(page, name):
    """Mean accuracies at ε = 1 and at the ends of the picture, and the numbers of private rows."""
    text = (ROOT / name).read_text(encoding="utf-8")
    table = pd.read_csv(page.SUMMARY)
    lines, epsilons = page.summary_lines(table), list(page.EPSILONS)
    figures, rows = page.book(table, "classification"), page.data_of(table, "classification")
    free = page.mean_of(figures, rows, "accuracy", "LR", 1.0)
    labelled, unlabelled, rival, boosting, public = (lines[heads] for heads in page.SUMMARY_LINES)

    at_one = text[text.index("At ε = 1,") : text.index("comparison", text.index("At ε = 1,"))]
    one = epsilons.index(1.0)
    means = [unlabelled[one], labelled[one], boosting[one], free, rival[one]]
    assert quoted(at_one) == [rounded(mean) for mean in means]
    picture = re.search(r"!\[([^]]+)\]\([^)]*mean_accuracy.png\)", text)[1]
    ends = [labelled[0], labelled[-1], boosting[0], rival[0], rival[-1]]
    assert quoted(picture) == [rounded(mean) for mean in ends]
    assert f"ten real tables with {min(rows.values()) // 1000},000 to" in text
    assert f"to {max(rows.values()) // 1000},000 private rows" in text
    # where the public rows alone are ahead of boosting that does not see their labels
    assert [mean < public[0] for mean in unlabelled] == [True, True, False, False, False]


def quoted(text):
    """Return the fractions of three digits in a text."""
    return re.findall(r"(?<!\d)\.\d{3}", text)


def rounded(mean):
    return f"{mean:.3f}".lstrip("0")


def test_every_picture_of_the_page_is_there(page):
    pictures = re.findall(r"!\[[^]]+\]\((\S+)\)", page.PAGE.read_text(encoding="utf-8"))
    assert len(pictures) == 2
    assert all((page.PAGE.parent / name).is_file() for name in pictures)


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
    assert {line["accuracy or AUC of the rival"] for line in worst} == {".900(10)"}


def test_public_labels_are_those_of_the_public_rows(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    datasets = pytest.importorskip("datasets")
    every = datasets.load("wa_churn", None, 0, seed=0)
    label = dict(zip(every.X.index, every.y, strict=True))
    rows = datasets.load("wa_churn", None, 300, seed=1)
    told = datasets.public_labels(rows, "wa_churn", None)
    assert told.tolist() == [label[position] for position in rows.X_public.index]
