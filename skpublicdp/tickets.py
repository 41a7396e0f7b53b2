"""Tickets: what is drawn in secret for one fit is good for one fit."""

from __future__ import annotations

import os
import secrets
from threading import Lock

from skpublicdp.exceptions import PrivacyBudgetError

USED = (
    "A query is good for one fit, and this one or a copy of it has been fitted; call query again."
)


def new_ticket() -> str:
    """Return a ticket that is good for one fit, in this process or with one budget."""
    return f"{os.getpid()}-{secrets.token_hex(16)}"


_REDEEMED: set[str] = set()
_REDEEMING = Lock()


def redeem(ticket: str) -> None:
    """Take a ticket without a budget, once and in the process it is from."""
    with _REDEEMING:
        if ticket in _REDEEMED or not ticket.startswith(f"{os.getpid()}-"):
            raise PrivacyBudgetError(USED)
        _REDEEMED.add(ticket)
