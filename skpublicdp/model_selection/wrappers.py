"""Facts about scikit-learn's meta-estimators that `check_pipeline` uses.

For each meta-estimator, these facts describe its own computations on private rows, the number of
times it fits each nested estimator, and whether it sets seeds in its clones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.model_selection import KFold, PredefinedSplit

from skpublicdp.model_selection.splitters import PublicKFold, PublicShuffleSplit

FIT_ALONE = "fit {learner} outside it"
PUBLIC_FIT = "wrap it in PublicFit"
"""Remedies shared by several meta-estimators."""

SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
"""scikit-learn's searches, whose only use of private rows is to fit and to score."""

OWN_FITS: dict[str, tuple[str, str]] = {
    "CalibratedClassifierCV": (
        "fits calibrators to private labels",
        "use the probabilities of {learner} without calibration, or calibrate on public rows only",
    ),
    "TunedThresholdClassifierCV": (
        "tunes a threshold by using exact scores on private rows",
        "use FixedThresholdClassifier with a public threshold",
    ),
    "AdaBoostClassifier": ("weights rows by exact errors on private rows", FIT_ALONE),
    "AdaBoostRegressor": ("weights rows by exact errors on private rows", FIT_ALONE),
    "RANSACRegressor": ("chooses rows by their exact residuals and stores their mask", FIT_ALONE),
    "RFECV": ("selects columns by using exact scores on private rows", PUBLIC_FIT),
    "SequentialFeatureSelector": (
        "selects columns by using exact scores on private rows",
        PUBLIC_FIT,
    ),
    "SelfTrainingClassifier": (
        "stores the private labels, and refits on private rows with predicted labels",
        FIT_ALONE,
    ),
    "IterativeImputer": ("imputes missing values with statistics of private rows", PUBLIC_FIT),
    "OneVsOneClassifier": (
        "fits each of its classifiers to the private rows with two of the labels, which reveals "
        "the exact number of these rows",
        "use OneVsRestClassifier",
    ),
    "GradientBoostingClassifier": ("fits its own trees to private rows", FIT_ALONE),
    "GradientBoostingRegressor": ("fits its own trees to private rows", FIT_ALONE),
    **dict.fromkeys(
        SEARCHES,
        ("selects parameters by using exact scores on private rows", "use SemiPrivateSearchCV"),
    ),
}
"""Problem and remedy, by class name, of meta-estimators that use private rows themselves."""

UNKNOWN_N_FITS = "k"
"""Placeholder for a number of fits that cannot be determined from the parameters."""

N_FITS: dict[str, str] = {
    **dict.fromkeys(SEARCHES, UNKNOWN_N_FITS),
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
"""Number of fits of each nested estimator, for meta-estimators without other computations."""

SEEDS: dict[str, str] = {
    **dict.fromkeys(
        ("AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor"),
        "sets a 31-bit seed in each nested estimator and stores it in the fitted object",
    ),
    "RANSACRegressor": "makes {learner} draw from numpy's generator and stores the generator's "
    "state in the fitted object",
}
"""Meta-estimators that set the `random_state` of their clones.

All other meta-estimators leave `random_state` unchanged."""


class OwnFit(NamedTuple):
    """A meta-estimator's own computation on private rows, outside its nested estimators."""

    problem: str  # description of the computation
    remedy: str  # Recommended change. ``{learner}`` stands for the nested private estimator.


def find_own_fit(wrapper: Any, parameters: dict[str, Any]) -> OwnFit | None:
    """Return the computation that a meta-estimator itself performs on private rows, or None.

    `parameters` are the constructor parameters of the meta-estimator.
    """
    name = _scikit_learn_name(wrapper)
    if name in OWN_FITS:
        problem, remedy = OWN_FITS[name]
        if name in SEARCHES and has_private_scorer(parameters):
            return None  # its scores are private releases
        has_callable_scoring = (
            callable(parameters.get("scoring")) and name != "TunedThresholdClassifierCV"
        )
        exception = " unless scoring uses public rows only" if has_callable_scoring else ""
        return OwnFit(f"{problem}, which is not private at any ε{exception}", remedy)
    if name.startswith("Stacking") and parameters.get("final_estimator") is None:
        return OwnFit(
            "fits an unprotected final estimator to private labels, which is not private at any ε",
            "set final_estimator to a private estimator, or use a VotingClassifier",
        )
    if parameters.get("oob_score"):
        return OwnFit(
            "stores an exact score on private rows, which is not private at any ε",
            "set oob_score=False",
        )
    if callable(parameters.get("max_features")):
        return OwnFit(
            "calls max_features on private rows, which is not private at any ε",
            "set max_features to a number",
        )
    return None


def has_private_scorer(parameters: dict[str, Any]) -> bool:
    """Return whether every score of a meta-estimator is a private release."""
    return getattr(parameters.get("scoring"), "is_private", False) is True


def folds_may_depend_on_labels(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Return whether a meta-estimator may assign private rows to folds by their labels.

    Stratified folds contain approximately equal fractions of each label. Changing one label can
    then move other rows to other folds.
    """
    name, cv = _scikit_learn_name(wrapper), parameters.get("cv")
    by_position = KFold | PredefinedSplit | PublicKFold | PublicShuffleSplit
    if isinstance(cv, by_position) or str(cv) == "prefit":
        return False  # or no folds
    if name in SEARCHES:
        return True  # their default splitter for classifiers is stratified
    is_default_splitter = isinstance(cv, int | None)  # `KFold` for regressors
    match name:
        case "RegressorChain" | "StackingRegressor":
            return not is_default_splitter
        case "StackingClassifier":
            return True  # its default splitter is stratified
        case "ClassifierChain":
            return cv is not None  # without cv it has no folds
    return False


def n_fits(wrapper: Any, parameters: dict[str, Any]) -> str | None:
    """Return, as text, how often each nested estimator is fitted to the same rows.

    The result is `UNKNOWN_N_FITS` if the parameters do not determine the number, and None for
    unknown classes.
    """
    fits = N_FITS.get(_scikit_learn_name(wrapper))
    n_estimators = parameters.get("n_estimators")
    is_known = fits == UNKNOWN_N_FITS and isinstance(n_estimators, int)
    return str(n_estimators) if is_known else fits


def seed_problem(wrapper: Any) -> str:
    """Return the problem with the seeds that a meta-estimator sets in its clones, or ""."""
    for parent in type(wrapper).__mro__:
        if _is_scikit_learn(parent) and parent.__name__ in SEEDS:
            return SEEDS[parent.__name__]
    return ""


def uses_earlier_fit(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Return whether a meta-estimator uses previously fitted nested estimators."""
    return fits_nothing(wrapper, parameters) or str(parameters.get("cv")) == "prefit"


def fits_nothing(wrapper: Any, parameters: dict[str, Any]) -> bool:
    """Return whether a meta-estimator only uses fitted estimators and fits nothing itself."""
    name = _scikit_learn_name(wrapper)
    return name == "FrozenEstimator" or (
        name == "SelectFromModel" and parameters.get("prefit") is True
    )


def _scikit_learn_name(wrapper: Any) -> str:
    """Return the class name if the class is scikit-learn's own, and "" otherwise."""
    return type(wrapper).__name__ if _is_scikit_learn(type(wrapper)) else ""


def _is_scikit_learn(class_: type) -> bool:
    """Return whether a class is defined in scikit-learn."""
    return class_.__module__.split(".")[0] == "sklearn"
