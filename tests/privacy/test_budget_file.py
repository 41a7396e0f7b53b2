"""What a budget believes of its file: totals are compared with events, and entries read back."""

import json
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from skpublicdp import PrivacyBudget
from skpublicdp.accounting import Approximate, Draw, Gaussian, Pure
from skpublicdp.exceptions import PrivacyBudgetError

EVENTS = [Pure(Fraction(1, 10)), Draw(Fraction(1, 7)), Gaussian(Fraction(1, 50))]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "budget.sqlite"
    budget = PrivacyBudget(4.0, 1e-6, path=path)
    for event in EVENTS:
        budget.spend(event)
        budget.group("a").spend(event)
    budget.group("b").spend(Approximate(Fraction(1, 10), Fraction(1, 10**9)))
    return path


def change(path, query, *values):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(query, values)
        connection.commit()


def totals(path, number):
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT total FROM entries WHERE number = ?"
        return json.loads(connection.execute(query, (number,)).fetchone()[0])


def test_an_honest_file_opens_again(path):
    before = PrivacyBudget(4.0, 1e-6, path=path)
    assert before.spent() == PrivacyBudget(4.0, 1e-6, path=path).spent()
    assert len(before.ledger) == 7


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("field", ["pure", "mu_squared", "fits"])
def test_a_total_below_its_events_is_refused_on_open(path, number, field):
    fields = totals(path, number)
    price = Fraction(fields[field])
    if not price:
        pytest.skip("this kind of fit does not cost anything here")
    fields[field] = str(price * Fraction(99, 100))
    change(path, "UPDATE entries SET total = ? WHERE number = ?", json.dumps(fields), number)
    with pytest.raises(PrivacyBudgetError, match=f"total of entry {number} is below its events"):
        PrivacyBudget(4.0, 1e-6, path=path)


def test_a_removed_entry_is_no_reason_to_refuse_but_its_cost_stays(path):
    spent = PrivacyBudget(4.0, 1e-6, path=path).spent()
    change(path, "DELETE FROM entries WHERE number = 1")
    assert PrivacyBudget(4.0, 1e-6, path=path).spent() == spent


def test_a_negative_total_is_refused_at_any_time(path):
    budget = PrivacyBudget(4.0, 1e-6, path=path)
    fields = totals(path, 5) | {"pure": "-5"}
    change(path, "UPDATE entries SET total = ? WHERE number = 5", json.dumps(fields))
    for use in (lambda: budget.spend(EVENTS[0]), budget.spent, budget.remaining):
        with pytest.raises(PrivacyBudgetError, match="a total is negative"):
            use()


def test_an_event_that_cannot_be_read_is_named(path):
    change(path, "UPDATE entries SET event = 'free' WHERE number = 2")
    with pytest.raises(PrivacyBudgetError, match="event of entry 2 cannot be read"):
        PrivacyBudget(4.0, 1e-6, path=path)


@pytest.mark.parametrize(
    "action",
    [
        "DELETE FROM entries WHERE number = NEW.number",
        "UPDATE entries SET total = '{}' WHERE number = NEW.number",
        "UPDATE entries SET disjoint = 'z' WHERE number = NEW.number",
    ],
)
def test_a_file_that_does_not_keep_entries_is_refused(path, action):
    budget = PrivacyBudget(4.0, 1e-6, path=path)
    change(path, f"CREATE TRIGGER t AFTER INSERT ON entries BEGIN {action}; END")
    before = budget.ledger
    with pytest.raises(PrivacyBudgetError, match="does not keep new entries"):
        budget.spend(EVENTS[0])
    assert budget.ledger == before


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_surrogates_in_names_are_refused(path, text):
    budget = PrivacyBudget(4.0, 1e-6, path=path)
    with pytest.raises(ValueError, match="without surrogate characters"):
        budget.group(text)
    with pytest.raises(ValueError, match="who must be a string"):
        budget.spend(EVENTS[0], who=text)
    assert len(budget.ledger) == 7
    budget.group("ümlaut 😀").spend(EVENTS[0])
