"""Differentially private release of the answers to all queries in a class."""

from skpublicdp.query_release.label_parts import (
    ErrorQueries,
    LabelParts,
    LearnedRule,
    label_parts,
    learner_from_label_parts,
    learner_from_release,
)
from skpublicdp.query_release.planning import epsilon_for, expected_error
from skpublicdp.query_release.queries.base import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.geometric import (
    HalfspaceQueries,
    RectangleQueries,
    StumpQueries,
)
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.regression_release import RegressionRelease
from skpublicdp.query_release.release import PAPQueryRelease

__all__ = [
    "CustomQueries",
    "ErrorQueries",
    "HalfspaceQueries",
    "IntervalQueries",
    "LabelParts",
    "LearnedRule",
    "MarginalQueries",
    "PAPQueryRelease",
    "QueryClass",
    "RectangleQueries",
    "RegressionRelease",
    "StumpQueries",
    "ThresholdQueries",
    "epsilon_for",
    "expected_error",
    "label_parts",
    "learner_from_label_parts",
    "learner_from_release",
]
