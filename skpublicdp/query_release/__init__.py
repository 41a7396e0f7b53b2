"""Private answers to whole classes of queries."""

from skpublicdp.query_release.learner import ErrorQueries, Learned, learner_from_release
from skpublicdp.query_release.listed import CustomQueries, MarginalQueries
from skpublicdp.query_release.queries import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.regions import HalfspaceQueries, RectangleQueries, StumpQueries
from skpublicdp.query_release.release import PAPQueryRelease

__all__ = [
    "CustomQueries",
    "ErrorQueries",
    "HalfspaceQueries",
    "IntervalQueries",
    "Learned",
    "MarginalQueries",
    "PAPQueryRelease",
    "QueryClass",
    "RectangleQueries",
    "StumpQueries",
    "ThresholdQueries",
    "learner_from_release",
]
