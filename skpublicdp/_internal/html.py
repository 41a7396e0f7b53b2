"""HTML tables and lists, as shown in notebooks and model cards. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any


class Html(str):
    """String that is already HTML and must not be escaped."""

    __slots__ = ()


def table(rows: Iterable[Iterable[Any]], *, header: Iterable[str] = ()) -> str:
    """Return an HTML table of cells, with a header row if column names are given."""
    header_row = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = [f"<tr>{header_row}</tr>"] if header_row else []
    lines += ["<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def named_table(rows: Iterable[tuple[str, Any]]) -> str:
    """Return an HTML table of (name, text) rows, or "" if there are no rows."""
    lines = [f"<tr><th>{escape(name)}</th><td>{_text(text)}</td></tr>" for name, text in rows]
    return f"<table>{''.join(lines)}</table>" if lines else ""


def named_list(items: Iterable[tuple[str, str]]) -> str:
    """Return an HTML list of (name, text) items with their names in bold."""
    lines = (f"<li><b>{escape(name)}</b> {escape(text)}</li>" for name, text in items)
    return f"<ul>{''.join(lines)}</ul>"


def _text(cell: Any) -> str:
    """Return the HTML of a table cell."""
    return cell if isinstance(cell, Html) else escape(str(cell))
