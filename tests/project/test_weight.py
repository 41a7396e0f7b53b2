"""The package gets heavier only for a stated reason."""

from collections import Counter

from tests.weight import ALLOWED, FIGURES, excess, figures, read_table


def test_no_folder_is_heavier_than_its_row_in_the_table():
    """Lower the table with `python -m tests.weight`, or state in ALLOWED what an increase buys."""
    assert excess(figures(), read_table()) == {}


def test_allowances_are_increases_with_a_reason():
    for (folder, name), increases in ALLOWED.items():
        assert folder in read_table() or folder in figures()
        assert name in FIGURES
        assert all(number > 0 and reason for number, reason in increases)


def test_an_increase_needs_an_allowance():
    now, table = {"rules": Counter(code=12, numbers=3)}, {"rules": Counter(code=10, numbers=3)}
    assert list(excess(now, table, {})) == [("rules", "code")]
    assert excess(now, table, {("rules", "code"): [(2, "a reason")]}) == {}
    assert list(excess({"new": Counter(code=1)}, table, {})) == [("new", "code")]
