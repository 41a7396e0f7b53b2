"""Private answers to whole classes of queries."""

from skpublicdp.query_release.listed import CustomQueries, MarginalQueries
from skpublicdp.query_release.queries import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.regions import HalfspaceQueries, RectangleQueries, StumpQueries
from skpublicdp.query_release.release import PAPQueryRelease

__all__ = [
    "CustomQueries",
    "HalfspaceQueries",
    "IntervalQueries",
    "MarginalQueries",
    "PAPQueryRelease",
    "QueryClass",
    "RectangleQueries",
    "StumpQueries",
    "ThresholdQueries",
]
