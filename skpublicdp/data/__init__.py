"""Rows: where they are, which are public, and what their columns are."""

from skpublicdp.data.description import describe_columns

__all__ = ["describe_columns"]
