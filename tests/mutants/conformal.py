"""Defects of prediction sets: the sensitivity of their quantile, and its thresholds."""

from tests.mutants.mutant import SENSITIVITY, STRUCTURE, Mutant, Patch

CLASSIFIER, REGRESSOR = "ConformalClassifier", "ConformalRegressor"

MUTANTS = (
    Patch(
        "a quantile with half the required sensitivity",
        SENSITIVITY,
        "rank_errors",
        """def replacement(counts, rank):
    return 2 * original(counts, rank)
""",
        (CLASSIFIER,),
    ),
    Mutant(
        "half widths up to the largest private residual",
        STRUCTURE,
        "conformal/prediction_sets.py",
        "            thresholds = half_width_thresholds(n_thresholds, high - low)\n",
        "            residuals = np.abs(np.asarray(y) - self.estimator.predict(X))\n"
        "            thresholds = half_width_thresholds(n_thresholds, residuals.max())\n",
        (REGRESSOR,),
    ),
)
