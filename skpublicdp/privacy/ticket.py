"""One-time tickets: a fit on a secret subsample may run only once."""

from __future__ import annotations

import os
import secrets
from threading import Lock

from skpublicdp.exceptions import PrivacyBudgetError

USED_TICKET = (
    "A query is good for one fit, and this one or a copy of it has been fitted; call query again."
)
"""Message for a ticket that was used before."""

_REDEEMED_TICKETS: set[str] = set()
_REDEMPTION_LOCK = Lock()


def new_ticket() -> str:
    """Return a random ticket that pays for one fit, in this process or with one budget."""
    return f"{os.getpid()}-{secrets.token_hex(16)}"


def redeem_ticket(ticket: str) -> None:
    """Mark a ticket as used, or raise if it was used before or made in another process.

    It serves fits without a budget. The file of a budget checks the tickets of all other fits.
    """
    with _REDEMPTION_LOCK:
        if ticket in _REDEEMED_TICKETS or not ticket.startswith(f"{os.getpid()}-"):
            raise PrivacyBudgetError(USED_TICKET)
        _REDEEMED_TICKETS.add(ticket)
