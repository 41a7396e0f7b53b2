"""One-time tickets, which ensure that each query of an active learner is used in only one fit."""

from __future__ import annotations

import os
import secrets
from threading import Lock

from skpublicdp.exceptions import PrivacyBudgetError

USED_TICKET = (
    "A query is valid for one fit only, and this query or a copy of it has already been used. Call "
    "query again."
)
"""Error message for a ticket that has already been used."""

_REDEEMED_TICKETS: set[str] = set()
_REDEMPTION_LOCK = Lock()


def new_ticket() -> str:
    """Return a random ticket that admits one fit, in this process or with one budget."""
    return f"{os.getpid()}-{secrets.token_hex(16)}"


def redeem_ticket(ticket: str) -> None:
    """Mark a ticket as used, or raise if it has already been used or was made in another process.

    This function is intended for fits without a budget. For all other fits, tickets are checked in
    the budget's file.
    """
    with _REDEMPTION_LOCK:
        if ticket in _REDEEMED_TICKETS or not ticket.startswith(f"{os.getpid()}-"):
            raise PrivacyBudgetError(USED_TICKET)
        _REDEEMED_TICKETS.add(ticket)
