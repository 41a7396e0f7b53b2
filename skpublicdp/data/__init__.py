"""Rows: where they are, which are public, and what their columns are."""

from skpublicdp.data.description import describe_columns
from skpublicdp.data.streaming import RowSource, open_rows

__all__ = ["RowSource", "describe_columns", "open_rows"]
