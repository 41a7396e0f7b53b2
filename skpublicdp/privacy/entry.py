"""Entries of a privacy budget: the fits that were charged to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from skpublicdp.accounting import Event
from skpublicdp.accounting.events import to_text


class Entry(NamedTuple):
    """One fit that was charged to a budget, in public numbers only.

    Attributes
    ----------
    number : int
        Number of the entry in the budget, from 1.
    time : str
        Time at which the fit was charged, before its first draw: ISO 8601, UTC.
    who : str
        Name of the estimator.
    event : Event
        Plan of the fit, which was charged.
    n_rows : int
        Number of private rows.
    group : str or None
        Name of the disjoint group of rows, or None for all rows.
    seeded : bool
        Whether the randomness came from a `random_state`. It is also True for entries of earlier
        versions that did not record it.
    """

    number: int
    time: str
    who: str
    event: Event
    n_rows: int
    group: str | None
    seeded: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as a dict that JSON can store, with the event as text."""
        fields = ("number", "time", "who", "n_rows", "group", "seeded")
        return {name: getattr(self, name) for name in fields} | {"event": to_text(self.event)}
