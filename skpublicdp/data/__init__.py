"""Data input: containers and sources, private and public roles, column schemas, and labels."""

from skpublicdp.data.public_rows import describe_columns
from skpublicdp.data.streaming import RowSource, open_rows

__all__ = ["RowSource", "describe_columns", "open_rows"]
