"""Internal names of prediction sets that tests use."""

from skpublicdp.conformal import score_quantile
from skpublicdp.conformal.prediction_sets import (
    LabelScoreCounter,
    ResidualScoreCounter,
    half_width_thresholds,
    probability_thresholds,
)
from skpublicdp.conformal.score_quantile import (
    count_thresholds,
    max_shortfall,
    min_excess,
    plan_quantile,
    rank_errors,
)

__all__ = [
    "LabelScoreCounter",
    "ResidualScoreCounter",
    "count_thresholds",
    "half_width_thresholds",
    "max_shortfall",
    "min_excess",
    "plan_quantile",
    "probability_thresholds",
    "rank_errors",
    "score_quantile",
]
