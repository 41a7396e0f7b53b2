"""Data input: containers and sources, private and public roles, column schemas, and labels."""

from skpublicdp.data.public_rows import describe_columns
from skpublicdp.data.sites import Site, open_sites
from skpublicdp.data.sources.sites_reader import SiteAnswer
from skpublicdp.data.streaming import RowSource, open_rows

__all__ = ["RowSource", "Site", "SiteAnswer", "describe_columns", "open_rows", "open_sites"]
