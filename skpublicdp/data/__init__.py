"""Read rows: containers and sources, roles of rows, schema of columns, labels."""

from skpublicdp.data.description import describe_columns
from skpublicdp.data.streaming import RowSource, open_rows

__all__ = ["RowSource", "describe_columns", "open_rows"]
