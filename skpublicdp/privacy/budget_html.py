"""HTML representation of a privacy budget in notebooks."""

from __future__ import annotations

from html import escape
from typing import Any


def budget_html(budget: Any) -> str:
    """Return the terms, the spending and the entries of a `PrivacyBudget` as HTML."""
    spent = budget.spent()
    rows = "".join(
        f"<tr><td>{entry.number}</td><td>{entry.time}</td><td>{escape(entry.who)}</td>"
        f"<td>{entry.n_rows}</td><td>{escape(entry.group or '')}</td></tr>"
        for entry in budget.ledger
    )
    tests = " For tests only: it gives no protection." if budget.for_tests else ""
    return (
        f"<div><p><b>Privacy budget: ε = {budget.epsilon:g}, δ = {budget.delta:g}.{tests}</b> "
        f"Spent: ε = {spent.epsilon:.4g}, δ = {spent.delta:g}. {budget.remaining()}.</p>"
        f'<progress max="{budget.epsilon}" value="{spent.epsilon}"></progress>'
        "<table><tr><th>entry</th><th>time (UTC)</th><th>who</th><th>private rows</th>"
        f"<th>group</th></tr>{rows}</table></div>"
    )
