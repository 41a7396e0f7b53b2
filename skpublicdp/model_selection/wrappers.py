"""Facts about scikit-learn's meta-estimators: what they fit themselves, how often, and seeds."""

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
"""What a meta-estimator fits itself to private rows, and what to do instead."""

SEVERAL = "k"
"""A number of fits that the parameters do not say."""

FITS_NOTHING: dict[str, str] = {
    "BaggingClassifier": SEVERAL,
    "BaggingRegressor": SEVERAL,
    "ClassifierChain": SEVERAL,
    "FixedThresholdClassifier": "1",
    "MultiOutputClassifier": SEVERAL,
    "MultiOutputRegressor": SEVERAL,
    "OneVsRestClassifier": SEVERAL,
    "OutputCodeClassifier": SEVERAL,
    "RegressorChain": SEVERAL,
    "RFE": SEVERAL,
    "SelectFromModel": "1",
    "StackingClassifier": SEVERAL,
    "StackingRegressor": SEVERAL,
    "TransformedTargetRegressor": "1",
    "VotingClassifier": "1",
    "VotingRegressor": "1",
}
"""Number of fits of each part, of meta-estimators that look at private rows through parts alone."""

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
    """Something that a meta-estimator itself computes from private rows.

    Attributes
    ----------
    problem : str
        What it is.
    remedy : str
        What to do instead; ``{learner}`` stands for the private estimator in it.
    """

    problem: str
    remedy: str


def own_fit(wrapper: Any, parameters: dict[str, Any]) -> OwnFit | None:
    """Return what a meta-estimator itself fits to private rows, or None."""
    name = _known_name(wrapper)
    if name in OWN_FITS:
        problem, remedy = OWN_FITS[name]
        judge = callable(parameters.get("scoring")) and name != "TunedThresholdClassifierCV"
        rest = " unless scoring looks at public rows only" if judge else ""
        return OwnFit(f"{problem}, which is not private at any ε{rest}", remedy)
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
    """Indicate whether a meta-estimator may cut folds by labels, where one label moves others."""
    name, cv = _known_name(wrapper), parameters.get("cv")
    if isinstance(cv, KFold | PredefinedSplit) or str(cv) == "prefit":
        return False
    if name in ("RegressorChain", "StackingRegressor"):
        return not isinstance(cv, int | None)
    return name == "StackingClassifier" or (name == "ClassifierChain" and cv is not None)


def n_fits(wrapper: Any, parameters: dict[str, Any]) -> str | None:
    """Return how often each part is fitted to the same rows, or None if nothing is known of it."""
    fits = FITS_NOTHING.get(_known_name(wrapper))
    members = parameters.get("n_estimators")
    return str(members) if fits == SEVERAL and isinstance(members, int) else fits


def sets_seeds(wrapper: Any) -> str:
    """Return what a meta-estimator, or one that it inherits from, does to seeds, or nothing."""
    for parent in type(wrapper).__mro__:
        if _is_scikit_learn(parent) and parent.__name__ in SEEDS:
            return SEEDS[parent.__name__]
    return ""


def was_fitted_before(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Indicate whether a meta-estimator takes its parts as they are, fitted."""
    return fits_nothing(wrapper, parameters) or str(parameters.get("cv")) == "prefit"


def fits_nothing(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Indicate whether `fit` of a meta-estimator fits neither its part nor anything else."""
    name = _known_name(wrapper)
    return name == "FrozenEstimator" or (
        name == "SelectFromModel" and parameters.get("prefit") is True
    )


def _known_name(wrapper: Any) -> str:
    """Return the name of scikit-learn's own class; a subclass of it may do anything."""
    return type(wrapper).__name__ if _is_scikit_learn(type(wrapper)) else ""


def _is_scikit_learn(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "sklearn"
