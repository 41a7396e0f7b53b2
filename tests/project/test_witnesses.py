"""The page of outside tools shows the committed table, which covers every public estimator."""

import inspect
import math
import re
from fractions import Fraction

import pytest
from sklearn.base import BaseEstimator

from skpublicdp.accounting import (
    Approximate,
    Draw,
    Either,
    Gaussian,
    Pure,
    Steps,
    Subsampled,
    gaussian_mu_squared,
)
from tests import ROOT
from tests.internals.accounting import equal_draws

DELTA = Fraction(1, 10**6)
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="an sdist has no benchmarks"
)


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import witnesses_table

    return witnesses_table


@pytest.fixture
def accounting(monkeypatch):
    pytest.importorskip("dp_accounting")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import witnesses_accounting

    return witnesses_accounting


def public_estimators():
    """Return the names of all public estimators and private scores."""
    names = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").split()
    found = set()
    for name in names:
        module, _, last = name.rpartition(".")
        public = getattr(__import__(module, fromlist=[last]), last, None) if module else None
        is_estimator = inspect.isclass(public) and issubclass(public, BaseEstimator)
        if is_estimator and hasattr(public, "fit"):
            found.add(public.__name__)  # not the alias of a class
        if inspect.isfunction(public) and last.startswith("private_"):
            found.add(last)
    return found


def test_every_estimator_has_a_row(table):
    subjects = {line.subject.split(",")[0] for line in table.read() if line.part == "accounting"}
    assert public_estimators() <= subjects


def test_nothing_is_above_its_claim(table):
    rows = table.read()
    observed = (table.EQUAL, table.DIFFERS)  # of time and memory, about which nothing is claimed
    for line in rows:
        verdicts = observed if line.part == "time" else (table.HOLDS, table.FOUND)
        assert line.verdict in verdicts, line
        if not math.isnan(line.claimed) and line.verdict == table.HOLDS:
            assert line.found <= line.claimed, line
    assert {line.part for line in rows} == set(table.COLUMNS)


def test_planted_defects_of_all_classes_are_found(table):
    planted = [line for line in table.read() if line.subject.startswith("planted: ")]
    assert [line.verdict for line in planted] == [table.FOUND] * 6


def test_the_page_shows_the_committed_table(table):
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.with_tables(text) == text
    assert set(re.findall(r"<!-- witnesses: (\w+) -->", text)) == set(table.COLUMNS)


def test_a_row_of_the_page_is_the_closest_to_its_claim(table):
    """A row with another verdict has a row of its own, so no violation is hidden by other cases."""

    def rows(*found):
        for number, value in enumerate(found):
            yield table.row("accounting", "a tool", f"One, {number}", "ε", 1.0, 0.0, value)
        yield table.row("accounting", "a tool", "Two", "ε", 1.0, 0.0, 0.5)

    def shown(*found):
        return [(kind.line.subject, kind.cases) for kind in table.kinds(rows(*found))]

    assert shown(0.7, 0.9, 0.8) == [("One, 1", 3), ("Two", 1)]
    assert shown(0.7, 1.1, 0.8) == [("One, 2", 2), ("One, 1", 1), ("Two", 1)]


def test_a_row_of_the_page_has_the_smallest_p_value_or_the_largest_difference(table):
    def row(part, tool, subject, measure, found, other=1.0):
        return table.row(part, tool, subject, measure, math.nan, math.nan, found, other)

    noise = [row("samplers", "a tool", f"noise, {p}", "p value", p) for p in (0.3, 0.1, 0.2)]
    times = [row("time", "clock", f"{ratio}, equal", table.RATIO, ratio) for ratio in (1.1, 0.5)]
    memory = [row("time", "traces", f"{found}, equal", table.MEMORY, found) for found in (0.9, 2)]
    for rows, subject in ((noise, "noise, 0.1"), (times, "0.5, equal"), (memory, "2, equal")):
        ((line, cases),) = table.kinds(rows)
        assert (line.subject, cases) == (subject, len(rows))


def test_an_excess_is_a_verdict(table):
    line = table.row("accounting", "a tool", "an estimator", "ε", 1.0, 0.0, 1.01)
    assert line.verdict == table.ABOVE


@pytest.mark.parametrize("excess", [Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (lambda share: Gaussian(share * gaussian_mu_squared(1, DELTA)), DELTA),
        (lambda share: Steps((Pure(share / 2), Draw(share / 2))), 0),
        (lambda share: Steps((Draw(share * equal_draws(Fraction(1), DELTA, 4)),) * 4), DELTA),
        (lambda share: Either((Pure(share / 2), Approximate(share, DELTA / 2))), DELTA),
        (lambda share: Subsampled(Fraction(1, 2), Pure(share * 1.4899)), 0),
    ],
)
def test_dp_accounting_tells_more_than_the_budget_from_less(accounting, event, delta, excess):
    low, high = accounting.epsilons(event(excess), 1.0, float(delta))
    assert low <= high
    assert (low > 1) == (high > 1) == (excess > 1)


def test_a_large_epsilon_is_found_in_spite_of_overflow(accounting):
    event = Gaussian(gaussian_mu_squared(3000, DELTA))
    low, high = accounting.epsilons(event, 3000.0, float(DELTA))
    assert 2999 < low <= 3000
    assert low <= high < 3000.001
