"""SQLite file of a privacy budget, with its terms (cap, accountant), entries and totals."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from skpublicdp.accounting import Event
from skpublicdp.accounting.events import to_text
from skpublicdp.accounting.filters import Filter
from skpublicdp.exceptions import PrivacyBudgetError

LOCK_TIMEOUT = 300
"""Maximum time, in seconds, that a process waits for other processes to finish writing."""

TABLES = """
CREATE TABLE IF NOT EXISTS terms (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, who TEXT NOT NULL,
    event TEXT NOT NULL, n_rows INTEGER NOT NULL, disjoint TEXT NOT NULL, total TEXT NOT NULL,
    ticket TEXT UNIQUE, seeded INTEGER NOT NULL DEFAULT 1
);
"""
"""Schema of the file.

`disjoint` is the name of a group, or empty for all rows. `total` is the group's total cost up to
and including this entry. `seeded` is 1 if the noise came from a `random_state`. It is also 1 for
entries of earlier versions, which did not record the source of randomness. The seed itself is not
stored.
"""


UNUSABLE_FILE = (
    "The file of this PrivacyBudget cannot be used ({}), so fits are refused. Open the budget on "
    "the machine that stores the file, and use a permanent path."
)
"""Error message for a file that is missing, has been replaced, or cannot be read."""


class Entry(NamedTuple):
    """Record of one fit that was charged to a budget. The record contains only public numbers."""

    number: int  # number of the entry in the budget, counted from 1
    time: str  # time at which the fit was charged, which precedes its first draw: ISO 8601, UTC
    who: str  # name of the estimator that was fitted
    event: Event  # Plan of the fit. The cost of this plan was charged.
    n_rows: int  # number of private rows
    group: str | None  # name of the disjoint group of rows, or None for all rows
    # Whether the randomness came from a `random_state`. It is also True for entries of earlier
    # versions, which did not record the source of randomness.
    seeded: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as a JSON-serializable dict, in which the event is a string."""
        fields = ("number", "time", "who", "n_rows", "group", "seeded")
        return {name: getattr(self, name) for name in fields} | {"event": to_text(self.event)}


@dataclass(frozen=True)
class BudgetFile:
    """Handle for the SQLite file of one budget. All copies of a handle share the file."""

    path: str  # absolute path
    identity: str  # random identifier of the file, used to detect that the file has been replaced
    # what the budget protects of a private row: "rows", "labels" or a JSON list of columns
    protects: str = "rows"
    for_tests: bool = False  # whether the budget accepts any number of seeded fits

    @classmethod
    def open(
        cls, path: str, cap: Filter, *, protects: str = "rows", for_tests: bool = False
    ) -> BudgetFile:
        """Create the file, or open an existing file that has the same terms.

        Parameters
        ----------
        path : str
            Absolute path.
        cap : Filter
            The total (ε, δ) and the accountant.
        protects : str
            What the budget protects of a private row: ``"rows"``, ``"labels"`` or a JSON list of
            columns.
        for_tests : bool
            Whether the budget accepts any number of seeded fits.
        """
        terms = {
            "epsilon": str(cap.epsilon),
            "delta": str(cap.delta),
            "by": cap.accountant,
            "protects": protects,
            "for_tests": str(for_tests),
        }
        try:
            with closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT)) as connection:
                connection.executescript(f"BEGIN IMMEDIATE;{TABLES}COMMIT;")
                connection.execute("BEGIN IMMEDIATE")
                # each record of table_info is (position, name, type, ...)
                columns = connection.execute("PRAGMA table_info(entries)").fetchall()
                if "seeded" not in {column[1] for column in columns}:  # from an earlier version
                    connection.execute(
                        "ALTER TABLE entries ADD COLUMN seeded INTEGER NOT NULL DEFAULT 1"
                    )
                stored = dict(connection.execute("SELECT name, value FROM terms").fetchall())
                if not stored:
                    stored = {**terms, "identity": secrets.token_hex(16)}
                    connection.executemany("INSERT INTO terms VALUES (?, ?)", stored.items())
                connection.execute("COMMIT")
                # from an earlier version
                stored.setdefault("for_tests", "False")
                stored.setdefault("protects", "rows")
        except sqlite3.Error as error:
            raise PrivacyBudgetError(
                "path must be the file of an existing PrivacyBudget or a file that can be created: "
                f"{error}."
            ) from None
        if terms.items() <= stored.items():
            return cls(path, str(stored["identity"]), protects, for_tests)
        epsilon, delta = (float(Fraction(stored[name])) for name in ("epsilon", "delta"))
        raise PrivacyBudgetError(
            f"The file at path holds a budget of epsilon={epsilon:g}, delta={delta:g}, "
            f"accountant={stored['by']!r}, protects={stored['protects']!r} and "
            f"for_tests={stored['for_tests']}. These values cannot be changed; open the file with "
            "the same values."
        )

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for one transaction; threads and forks must not share it.

        Raises `PrivacyBudgetError` unless the file exists and has the identity of this budget.
        """
        address = f"{Path(self.path).as_uri()}?mode=rw"
        try:
            connection = sqlite3.connect(
                address, timeout=LOCK_TIMEOUT, isolation_level=None, uri=True
            )
            with closing(connection):
                connection.execute("PRAGMA synchronous = EXTRA")  # entries survive a power cut
                query = "SELECT value FROM terms WHERE name = 'identity'"
                if connection.execute(query).fetchone() != (self.identity,):
                    raise PrivacyBudgetError(UNUSABLE_FILE.format("it was replaced"))
                yield connection
        except sqlite3.Error as error:
            raise PrivacyBudgetError(UNUSABLE_FILE.format(error)) from None

    def read(self, query: str) -> list[Any]:
        """Return the records that an SQL query selects from the budget file."""
        with self.connected() as connection:
            return connection.execute(query).fetchall()
