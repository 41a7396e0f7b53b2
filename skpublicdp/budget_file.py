"""The file of a budget: terms, entries and what they add up to, in SQLite."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from skpublicdp.accounting.filters import Filter
from skpublicdp.exceptions import PrivacyBudgetError

WAIT = 300
"""Seconds that a process waits for others that spend at the same moment."""

TABLES = """
CREATE TABLE IF NOT EXISTS terms (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, who TEXT NOT NULL,
    event TEXT NOT NULL, n_rows INTEGER NOT NULL, disjoint TEXT NOT NULL, total TEXT NOT NULL,
    ticket TEXT UNIQUE, seeded INTEGER NOT NULL DEFAULT 1
);
"""
"""`disjoint` is a group, or empty; `total` is what its own entries have spent with this one;
`seeded` is 1 if the noise came from a `random_state`, of which nothing else is kept, or
if an earlier version wrote the entry, which does not say."""


@dataclass(frozen=True)
class BudgetFile:
    """A file that holds one budget; a copy of this object is good wherever the file is.

    Attributes
    ----------
    path : str
        Where it is.
    identity : str
        Tells it from any other budget's file.
    for_tests : bool
        Whether any number of seeded fits may be charged to it.
    """

    path: str
    identity: str
    for_tests: bool = False

    @classmethod
    def open(cls, path: str, cap: Filter, *, for_tests: bool = False) -> BudgetFile:
        """Make a file, or check that the one that is there has the same terms."""
        given = {
            "epsilon": str(cap.epsilon),
            "delta": str(cap.delta),
            "by": cap.accountant,
            "for_tests": str(for_tests),
        }
        try:
            with closing(sqlite3.connect(path, timeout=WAIT)) as connection:
                connection.executescript(f"BEGIN IMMEDIATE;{TABLES}COMMIT;")
                connection.execute("BEGIN IMMEDIATE")
                columns = connection.execute("PRAGMA table_info(entries)").fetchall()
                if "seeded" not in {column[1] for column in columns}:  # of an earlier version
                    connection.execute(
                        "ALTER TABLE entries ADD COLUMN seeded INTEGER NOT NULL DEFAULT 1"
                    )
                known = dict(connection.execute("SELECT name, value FROM terms").fetchall())
                if not known:
                    known = {**given, "identity": secrets.token_hex(16)}
                    connection.executemany("INSERT INTO terms VALUES (?, ?)", known.items())
                connection.execute("COMMIT")
                known.setdefault("for_tests", "False")  # a file of an earlier version
        except sqlite3.Error as error:
            raise PrivacyBudgetError(
                f"path must be a file of a PrivacyBudget, or one that can be made: {error}."
            ) from None
        if given.items() <= known.items():
            return cls(path, str(known["identity"]), for_tests)
        epsilon, delta = (float(Fraction(known[name])) for name in ("epsilon", "delta"))
        raise PrivacyBudgetError(
            f"The file at path holds a budget of epsilon={epsilon:g}, delta={delta:g}, "
            f"accountant={known['by']!r} and for_tests={known['for_tests']}, which nothing "
            "changes; open it with these."
        )

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction: connections must not cross threads and forks."""
        address = f"{Path(self.path).as_uri()}?mode=rw"
        try:
            connection = sqlite3.connect(address, timeout=WAIT, isolation_level=None, uri=True)
            with closing(connection):
                connection.execute("PRAGMA synchronous = EXTRA")  # an entry outlives a power cut
                query = "SELECT value FROM terms WHERE name = 'identity'"
                if connection.execute(query).fetchone() != (self.identity,):
                    raise PrivacyBudgetError(LOST.format("it is another one"))
                yield connection
        except sqlite3.Error as error:
            raise PrivacyBudgetError(LOST.format(error)) from None

    def read(self, query: str) -> list[Any]:
        """Return the rows of one query."""
        with self.connected() as connection:
            return connection.execute(query).fetchall()


LOST = (
    "The file of this PrivacyBudget cannot be used ({}), so nothing can be spent; open the budget "
    "where its file is, with a path that lasts."
)
