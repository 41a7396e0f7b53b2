"""The package gets heavier only for a stated reason."""

from collections import Counter

from tests.weight import ALLOWED, FIGURES, excess, figures, read_table, weigh


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


SOURCE = '''"""A module
of two lines."""

LIMIT, RATES = 10, (0.5, 1e-3)
NAMES = ("a", "b")
"""A constant."""


class Public:
    """A class
    for users."""

    def method(self):
        """A method for users."""
        # a comment
        return 1

    def _helper(self):
        """An internal
        method."""


class Internal:
    """One line."""

    def method(self):
        """One line."""
'''

DENSE = """def f(a, b):
    c = a + b * (a - b) / (a + b) - a * b
    d = c + b * (a - b) / (a + b) - a * b
    e = c + d * (a - b) / (a + b) - a * b
    f = c + d * (e - b) / (a + b) - a * b
    g = c + d * (e - f) / (a + b) - a * b
    return c + d * (e - f) / (g + b) - a * b
"""


def test_figures():
    assert weigh(SOURCE, {"Public"}) == Counter(
        {"code": 8, "internal docstrings": 6, "numbers": 1, "dense functions": 0}
    )


def test_dense_functions():
    assert weigh(DENSE, set())["dense functions"] == 1


def test_short_functions_and_plain_ones_are_not_dense():
    lines = DENSE.splitlines()
    assert weigh("\n".join(lines[:5]), set())["dense functions"] == 0
    plain = "def f(a):\n" + "".join(f"    b{i} = g(a)\n" for i in range(8))
    assert weigh(plain, set())["dense functions"] == 0
