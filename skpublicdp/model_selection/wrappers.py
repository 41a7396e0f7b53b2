"""Table of scikit-learn's meta-estimators: own fits, number of fits of each part, and seeds."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.model_selection import KFold, PredefinedSplit

ALONE = "fit {learner} without it"

PUBLIC = "wrap it in PublicFit"

OWN_FITS: dict[str, tuple[str, str]] = {
    "CalibratedClassifierCV": (
        "fits calibrators to private labels",
        "use the probabilities of {learner} as they are, or calibrate on public rows only",
    ),
    "TunedThresholdClassifierCV": (
        "tunes a threshold by exact scores on private rows",
        "use FixedThresholdClassifier with a threshold that no private row decides",
    ),
    "AdaBoostClassifier": ("weights rows by exact errors on private rows", ALONE),
    "AdaBoostRegressor": ("weights rows by exact errors on private rows", ALONE),
    "RANSACRegressor": ("chooses rows by their exact residuals and stores which ones", ALONE),
    "RFECV": ("selects columns by exact scores on private rows", PUBLIC),
    "SequentialFeatureSelector": ("selects columns by exact scores on private rows", PUBLIC),
    "SelfTrainingClassifier": (
        "stores the private labels, and labels private rows by predictions to fit them again",
        ALONE,
    ),
    "IterativeImputer": ("fills in missing values by statistics of private rows", PUBLIC),
    "OneVsOneClassifier": (
        "fits each member to the private rows with one of two labels, whose exact number it tells",
        "use OneVsRestClassifier",
    ),
    "GradientBoostingClassifier": ("fits trees of its own to private rows", ALONE),
    "GradientBoostingRegressor": ("fits trees of its own to private rows", ALONE),
    **dict.fromkeys(
        ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
        ("chooses by exact scores on private rows", "use SemiPrivateSearchCV"),
    ),
}
"""Models that a meta-estimator itself fits to private rows, and the remedy."""

UNKNOWN_N_FITS = "k"
"""Number of fits that does not follow from the parameters."""

N_FITS: dict[str, str] = {
    "BaggingClassifier": UNKNOWN_N_FITS,
    "BaggingRegressor": UNKNOWN_N_FITS,
    "ClassifierChain": UNKNOWN_N_FITS,
    "FixedThresholdClassifier": "1",
    "MultiOutputClassifier": UNKNOWN_N_FITS,
    "MultiOutputRegressor": UNKNOWN_N_FITS,
    "OneVsRestClassifier": UNKNOWN_N_FITS,
    "OutputCodeClassifier": UNKNOWN_N_FITS,
    "RegressorChain": UNKNOWN_N_FITS,
    "RFE": UNKNOWN_N_FITS,
    "SelectFromModel": "1",
    "StackingClassifier": UNKNOWN_N_FITS,
    "StackingRegressor": UNKNOWN_N_FITS,
    "TransformedTargetRegressor": "1",
    "VotingClassifier": "1",
    "VotingRegressor": "1",
}
"""Number of fits of each part, for meta-estimators that fit nothing besides their parts."""

SEEDS: dict[str, str] = {
    **dict.fromkeys(
        ("AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor"),
        "sets a seed of 31 bits in each member and keeps it in the fitted object",
    ),
    "RANSACRegressor": "makes {learner} draw from numpy's generator and keeps its state in the "
    "fitted object",
}
"""Meta-estimators that set `random_state` of their clones. All others leave it as it is."""


class OwnFit(NamedTuple):
    """A computation of a meta-estimator itself on private rows.

    Attributes
    ----------
    problem : str
        The computation.
    remedy : str
        The remedy. ``{learner}`` stands for the private estimator inside.
    """

    problem: str
    remedy: str


def fit_of_its_own(wrapper: Any, parameters: dict[str, Any]) -> OwnFit | None:
    """Return the computation of a meta-estimator itself on private rows, or None."""
    name = _known_name(wrapper)
    if name in OWN_FITS:
        problem, remedy = OWN_FITS[name]
        has_callable_scoring = (
            callable(parameters.get("scoring")) and name != "TunedThresholdClassifierCV"
        )
        exception = " unless scoring looks at public rows only" if has_callable_scoring else ""
        return OwnFit(f"{problem}, which is not private at any ε{exception}", remedy)
    if name.startswith("Stacking") and parameters.get("final_estimator") is None:
        return OwnFit(
            "fits a final estimator without protection to private labels, which is not private "
            "at any ε",
            "give it a private final_estimator, or use a VotingClassifier",
        )
    if parameters.get("oob_score"):
        return OwnFit(
            "stores an exact score on private rows, which is not private at any ε",
            "set oob_score=False",
        )
    if callable(parameters.get("max_features")):
        return OwnFit(
            "calls max_features on private rows, which is not private at any ε", "give it a number"
        )
    return None


def folds_by_labels(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Indicate whether a meta-estimator may stratify folds, so that one label moves other rows."""
    name, cv = _known_name(wrapper), parameters.get("cv")
    if isinstance(cv, KFold | PredefinedSplit) or str(cv) == "prefit":
        return False
    if name in ("RegressorChain", "StackingRegressor"):
        return not isinstance(cv, int | None)
    return name == "StackingClassifier" or (name == "ClassifierChain" and cv is not None)


def n_fits(wrapper: Any, parameters: dict[str, Any]) -> str | None:
    """Return the number of fits of each part to the same rows, or None if it is unknown."""
    fits = N_FITS.get(_known_name(wrapper))
    members = parameters.get("n_estimators")
    return str(members) if fits == UNKNOWN_N_FITS and isinstance(members, int) else fits


def sets_seeds(wrapper: Any) -> str:
    """Return how a meta-estimator, or a parent class, sets seeds of its parts, or ""."""
    for parent in type(wrapper).__mro__:
        if _is_scikit_learn(parent) and parent.__name__ in SEEDS:
            return SEEDS[parent.__name__]
    return ""


def was_fitted_before(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Indicate whether a meta-estimator uses its parts as fitted before."""
    return fits_nothing(wrapper, parameters) or str(parameters.get("cv")) == "prefit"


def fits_nothing(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Indicate whether `fit` of a meta-estimator fits neither its part nor anything else."""
    name = _known_name(wrapper)
    return name == "FrozenEstimator" or (
        name == "SelectFromModel" and parameters.get("prefit") is True
    )


def _known_name(wrapper: Any) -> str:
    """Return the class name if the class is scikit-learn's own, else ""."""
    return type(wrapper).__name__ if _is_scikit_learn(type(wrapper)) else ""


def _is_scikit_learn(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "sklearn"
