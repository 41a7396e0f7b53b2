"""Static checks of pipelines for unprotected steps, repeated fits, seeds and coupled rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any, NamedTuple

from sklearn.compose import ColumnTransformer
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from skpublicdp.model_selection.candidates import (
    fits_no_private_rows,
    is_active_step,
    is_scikit_learn_class,
    may_couple_rows,
)
from skpublicdp.model_selection.splitters import PublicKFold, PublicShuffleSplit
from skpublicdp.preprocessing import PublicFit

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


UNDECLARED_PROTECTION = (
    "these declare no protection, and are assumed to satisfy the (ε, δ) charged to them"
)
"""Assumption, stated in the receipt of a search, about learners without `protects_all_rows`."""

ROWWISE_STEPS = "these steps are assumed to transform each row independently of other rows"
"""Assumption, stated in the receipt of a search, about steps with a user-defined function."""


class Finding(NamedTuple):
    """A privacy problem of a pipeline step, found by `check_pipeline`.

    Attributes
    ----------
    step : str
        Name of the step, preceded by the names of the steps that contain it and separated by dots.
    problem : str
        Description of the problem.
    remedy : str
        The recommended change.
    """

    step: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.step}: {self.problem}; {self.remedy}."


def check_pipeline(pipeline: Any) -> list[Finding]:
    """List the steps of a pipeline that use private rows without protection, or more than once.

    The pipeline is not fitted: the findings depend only on the types and parameters of its steps.
    Nested estimators of meta-estimators, such as `StackingClassifier`, are also checked. The list
    also includes models and seeds of the meta-estimators themselves, functions that may use other
    rows to compute a row, previously fitted steps, a `memory` that writes private rows to disk, and
    pipelines that do not transform the `X_public` passed to `fit`.

    Parameters
    ----------
    pipeline : Pipeline or estimator
        The estimator to check, which can be fitted or unfitted.

    Returns
    -------
    list of Finding
        The step, the problem and the remedy of each finding. The list is empty if each step
        declares protection.

    See Also
    --------
    skpublicdp.PublicFit : Fits a step to the public rows only.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpublicdp import PublicFit, SemiPrivateClassifier
    >>> from skpublicdp.model_selection import check_pipeline
    >>> public = {"transform_input": ["X_public"]}
    >>> steps = PublicFit(StandardScaler()), SemiPrivateClassifier()
    >>> check_pipeline(make_pipeline(*steps, **public))
    []
    >>> steps = StandardScaler(), SemiPrivateClassifier()
    >>> for finding in check_pipeline(make_pipeline(*steps, **public)):
    ...     print(finding)
    standardscaler: StandardScaler is fitted to private rows; wrap it in PublicFit.
    """
    findings = [issue.finding for issue in _issues(pipeline, _root_name(pipeline))]
    if isinstance(pipeline, Pipeline):
        findings += _untransformed_public_rows(pipeline)
    return findings


def unprotected_line(estimators: Iterable[Any], meaning: str) -> tuple[str, ...]:
    """Return the receipt line "meaning: steps" for unprotected steps, or an empty tuple."""
    return _receipt_line(estimators, meaning, "unprotected")


def coupling_line(estimators: Iterable[Any]) -> tuple[str, ...]:
    """Return a receipt line for the steps that may use other rows to compute a row, or ()."""
    return _receipt_line(estimators, ROWWISE_STEPS, "coupling")


def _receipt_line(estimators: Iterable[Any], meaning: str, kind: str) -> tuple[str, ...]:
    """Return the line "meaning: steps" for all steps with a given kind of issue, or ()."""
    steps = [
        issue.finding.step
        for estimator in estimators
        for issue in _issues(estimator, _root_name(estimator))
        if issue.kind == kind
    ]
    return (f"{meaning}: {', '.join(dict.fromkeys(steps))}",) if steps else ()


def _root_name(estimator: Any) -> str:
    """Return the name of the outermost estimator in findings; for a pipeline, it is empty."""
    return "" if isinstance(estimator, Pipeline) else type(estimator).__name__


def _untransformed_public_rows(pipeline: Pipeline) -> list[Finding]:
    """Return a list with one finding if `X_public` would reach the learner untransformed."""
    *earlier_steps, (name, learner) = pipeline.steps
    transforms = any(is_active_step(step) for _, step in earlier_steps)
    routes_public_rows = "X_public" in (getattr(pipeline, "transform_input", None) or ())
    takes_public_rows = is_active_step(learner) and "X_public" in signature(learner.fit).parameters
    if routes_public_rows or not takes_public_rows or not transforms:
        return []
    return [
        Finding(
            name,
            f"the steps before {type(learner).__name__} transform X, but not the X_public passed "
            "to fit",
            'pass transform_input=["X_public"] to Pipeline, or mark public rows by is_public',
        )
    ]


class _Issue(NamedTuple):
    """A privacy problem of a step, together with the kind of the problem."""

    kind: str  # "unprotected" and "seed" mean that the result is not private for any ε
    finding: Finding


def _issues(step: Any, name: str) -> Iterator[_Issue]:
    """Yield the privacy problems of a step and of its nested steps.

    `name` is the name of the step in findings.
    """
    if not is_active_step(step) or isinstance(step, str):  # None, "drop" and "passthrough"
        return
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        if isinstance(step, Pipeline):
            yield from _cache_issues(step, name)
        for nested_name, nested_step in _named_steps(step):
            yield from _issues(nested_step, _path(name, nested_name))
    elif hasattr(step, "fit_resample"):
        problem = (
            f"{type(step).__name__} may repeat a row k times or create new rows from it, so the "
            "later steps may cost k·ε"
        )
        remedy = "remove it, or resample only public rows, before they are passed to fit"
        yield _Issue("cost", Finding(name, problem, remedy))
    elif may_couple_rows(step):
        yield _coupling_issue(step, name)
    elif _is_protected(step):
        yield from _package_step_issues(step, name)
    elif any(map(_is_private, _inner_estimators(step))):
        yield from _meta_estimator_issues(step, name)
    elif fits_nothing(step, _parameters(step)):
        yield _earlier_fit_issue(step, name)
    else:
        yield _unprotected_step_issue(step, name)


def _named_steps(step: Any) -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline, union or column transformer, fitted or not."""
    if isinstance(step, Pipeline):
        return list(step.steps)
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    transformers = [(name, transformer) for name, transformer, _ in step.transformers]
    return [*transformers, ("remainder", step.remainder)]


def _nested_estimators(wrapper: Any) -> list[tuple[str, Any]]:
    """Return the named estimators among the parameters of a meta-estimator."""
    estimators = []
    for name, value in _parameters(wrapper).items():
        if _is_estimator(value):
            estimators.append((name, value))
        if not isinstance(value, list | tuple):
            continue
        for index, entry in enumerate(value):
            fields = entry if isinstance(entry, tuple) else (entry,)
            label = fields[0] if isinstance(fields[0], str) else f"{name}[{index}]"
            estimators.extend((label, field) for field in fields if _is_estimator(field))
    return estimators


def _inner_estimators(step: Any) -> list[Any]:
    """Return the estimators that a step contains, without their names."""
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        return [nested for _, nested in _named_steps(step) if _is_estimator(nested)]
    return [nested for _, nested in _nested_estimators(step)]


def _parameters(step: Any) -> dict[str, Any]:
    """Return the constructor parameters of a step, excluding those of nested estimators."""
    return step.get_params(deep=False) if hasattr(step, "get_params") else {}


def _is_estimator(value: Any) -> bool:
    """Return whether a parameter value is an estimator object rather than a class."""
    return hasattr(value, "fit") and not isinstance(value, type)


def _path(name: str, nested_name: str) -> str:
    """Return the name of a nested step, preceded by the names of its containers, with dots."""
    return f"{name}.{nested_name}" if name else nested_name


def _is_protected(step: Any) -> bool:
    """Return whether a step's fit either uses no private rows or protects its rows."""
    # hasattr(step, ...) would query the inner estimator of FrozenEstimator and other delegates
    declares = hasattr(type(step), "protects_all_rows") or "protects_all_rows" in vars(step)
    if _is_from_this_package(step) or (declares and step.protects_all_rows is True):
        return True
    return hasattr(step, "__sklearn_tags__") and fits_no_private_rows(step)


def _is_from_this_package(step: Any) -> bool:
    """Return whether the class of a step is defined in skpublicdp."""
    return type(step).__module__.startswith("skpublicdp.")


def _is_private(estimator: Any) -> bool:
    """Return whether an estimator or one of its nested estimators has a privacy budget."""
    if _is_protected(estimator) and "epsilon" in _parameters(estimator):
        return True
    return any(map(_is_private, _inner_estimators(estimator)))


def _private_name(estimator: Any) -> str:
    """Return the class name of the first private estimator within an estimator."""
    if _is_protected(estimator) and "epsilon" in _parameters(estimator):
        return type(estimator).__name__
    return _private_name(next(filter(_is_private, _inner_estimators(estimator))))


def _unprotected_step_issue(step: Any, name: str) -> _Issue:
    """Return the issue of a step without private estimators that is fitted to private rows."""
    class_name = type(step).__name__
    problem, remedy = f"{class_name} is fitted to private rows", "wrap it in PublicFit"
    if not hasattr(step, "transform"):
        problem += " and declares no protection"
        remedy = "use a private estimator, such as SemiPrivateClassifier"
    return _Issue("unprotected", Finding(name, problem, remedy))


def _cache_issues(pipeline: Pipeline, name: str) -> Iterator[_Issue]:
    """Yield the issue of a pipeline that caches transformed rows on disk."""
    transforms = any(is_active_step(step) for _, step in pipeline.steps[:-1])
    if pipeline.memory is not None and transforms:
        problem = "memory writes transformed private rows to disk without protection"
        yield _Issue("memory", Finding(name or "Pipeline", problem, "set memory=None"))


def _coupling_issue(step: Any, name: str, function: str = "") -> _Issue:
    """Return the issue of a step whose function may use other rows to compute a row.

    `function` is the function's name in the finding; the default is the class name of the step.
    """
    problem = (
        f"the result of {function or type(step).__name__} for a row must depend on that row "
        "alone, which cannot be verified"
    )
    remedy = "if it uses statistics of the rows, replace it with a transformer within PublicFit"
    return _Issue("coupling", Finding(name, problem, remedy))


def _earlier_fit_issue(step: Any, name: str) -> _Issue:
    """Return the issue of a step whose nested estimators were previously fitted to unknown rows."""
    estimators = _inner_estimators(step)
    fitted = type(estimators[0]).__name__ if len(estimators) == 1 else "its estimators"
    problem = (
        f"{type(step).__name__} does not refit {fitted}, and it is unknown which rows were used in "
        "the earlier fit"
    )
    remedy = "make sure that no private rows were used"
    if any(map(_is_private, estimators)):
        remedy = "make sure that the budget counts the earlier fit"
    return _Issue("fitted before", Finding(name, problem, remedy))


def _package_step_issues(step: Any, name: str) -> Iterator[_Issue]:
    """Yield the issues of coupled rows and of earlier fits in a step from this package."""
    if not _is_from_this_package(step):
        return
    if not getattr(step, "_receipt_covers_estimator", True):
        if not _is_private_fit(_unfrozen(step.estimator)):
            yield _earlier_fit_issue(step, name)
        return
    for nested_name, nested_step in _nested_estimators(step):
        # the transformer of a PublicFit is reported under the name of its step
        path = name if isinstance(step, PublicFit) else _path(name, nested_name)
        for issue in _issues(nested_step, path):
            if issue.kind in ("coupling", "fitted before"):
                yield issue


def _meta_estimator_issues(wrapper: Any, name: str) -> Iterator[_Issue]:
    """Yield the issues of a meta-estimator around a private estimator, and nested issues."""
    class_name, parameters = type(wrapper).__name__, _parameters(wrapper)
    if class_name == "FixedThresholdClassifier" and _is_released(parameters["estimator"]):
        return  # it fits nothing: a constant is applied to scores that the receipt covers
    learner = _private_name(wrapper)
    is_prefitted = fits_nothing(wrapper, parameters) or str(parameters.get("cv")) == "prefit"
    if is_prefitted:
        yield _earlier_fit_issue(wrapper, name)
        if fits_nothing(wrapper, parameters):
            return
    nested_issues = _nested_issues(wrapper, name, is_prefitted=is_prefitted)
    yield from (issue for _, issue in nested_issues)
    function = parameters.get("func")
    if function is not None and may_couple_rows(FunctionTransformer(function)):
        yield _coupling_issue(wrapper, name, "func")

    wrapper_fit = find_own_fit(wrapper, parameters)
    unprotected = sorted(
        {nested for nested, issue in nested_issues if issue.kind in ("unprotected", "seed")}
    )
    if wrapper_fit is not None:
        yield _unprotected_issue(
            name, f"{class_name} {wrapper_fit.problem}", wrapper_fit.remedy.format(learner=learner)
        )
    elif unprotected:
        names = ", ".join(unprotected)
        problem = f"{class_name} is not private at any ε, because it contains {names}"
        yield _unprotected_issue(name, problem, "protect these estimators, or remove them")
    if has_private_scorer(parameters) and parameters["scoring"].random_state is not None:
        problem = f"{class_name} uses a private scorer with a seed, so the noise can be removed"
        yield _Issue("seed", Finding(name, problem, "set random_state=None in the scorer"))
    seeds = seed_problem(wrapper) if _has_settable_seed(wrapper) else ""
    if seeds:
        repetition = ", and rows are repeated within a fit" if parameters.get("bootstrap") else ""
        seeding = seeds.format(learner=learner)
        problem = f"{class_name} {seeding}, so the noise can be removed{repetition}"
        remedy = f"fit {learner} outside it, with random_state=None"
        yield _Issue("seed", Finding(name, problem, remedy))
    if wrapper_fit is None and not unprotected:
        nested = any(issue.kind == "cost" for _, issue in nested_issues)
        yield from _repeated_fit_issues(wrapper, name, learner, seeds=bool(seeds), nested=nested)


def _is_released(estimator: Any) -> bool:
    """Return whether a frozen estimator is a private fit with a receipt, and has no issues."""
    fitted = _unfrozen(estimator)
    return fitted is not estimator and _is_private_fit(fitted)


def _unfrozen(estimator: Any) -> Any:
    """Return the estimator inside a frozen estimator, and other estimators unchanged."""
    if not fits_nothing(estimator, _parameters(estimator)):
        return estimator
    inner = _inner_estimators(estimator)
    return inner[0] if inner else estimator


def _is_private_fit(fitted: Any) -> bool:
    """Return whether an estimator is a private fit with a receipt, and has no issues."""
    learner = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    has_receipt = getattr(learner, "privacy_", None) is not None
    return has_receipt and not any(_issues(fitted, _root_name(fitted)))


def _nested_issues(wrapper: Any, name: str, *, is_prefitted: bool) -> list[tuple[str, _Issue]]:
    """Return the issues of the estimators nested in a meta-estimator, with their names.

    If a meta-estimator does not fit its nested estimators, only its final estimator is checked.
    """
    nested_issues: list[tuple[str, _Issue]] = []
    for nested_name, nested_step in _nested_estimators(wrapper):
        if is_prefitted and nested_name != "final_estimator":
            continue
        issues = list(_issues(nested_step, _path(name, nested_name)))
        if nested_name == "transformer" and is_scikit_learn_class(wrapper):  # of the target
            remedy = "use func and inverse_func with public constants instead"
            issues = [_Issue(issue.kind, issue.finding._replace(remedy=remedy)) for issue in issues]
        nested_issues += [(nested_name, issue) for issue in issues]
    return nested_issues


def _repeated_fit_issues(
    wrapper: Any, name: str, learner: str, *, seeds: bool, nested: bool
) -> Iterator[_Issue]:
    """Yield the issues of repeated private fits to the same rows.

    Parameters
    ----------
    wrapper : estimator
        The meta-estimator.
    name, learner : str
        Name of the meta-estimator, and class of its private estimator.
    seeds : bool
        Whether the meta-estimator sets seeds. In this case, the noise is known, regardless of the
        number of fits.
    nested : bool
        Whether a nested estimator also repeats fits.
    """
    class_name, parameters = type(wrapper).__name__, _parameters(wrapper)
    fits = n_fits(wrapper, parameters)
    n_private = sum(map(_is_private, _inner_estimators(wrapper)))
    remedy = f"fit {learner} once, or give it a budget that counts the fits"
    if fits is None:
        seeding = ", and set seeds in its clones" if "random_state" in parameters else ""
        problem = (
            f"{class_name} is an unknown class, which may itself learn from private rows, fit "
            f"{learner} any number of times{seeding}"
        )
        yield _unprotected_issue(name, problem, f"fit {learner} outside it")
    elif seeds:
        return  # a budget cannot account for noise with a known seed
    elif folds_may_depend_on_labels(wrapper, parameters):
        problem = (
            f"{class_name} fits {learner} in folds that may be stratified; changing one label then "
            "moves other rows to different folds, which costs more than the sum of the fits"
        )
        yield _Issue("cost", Finding(name, problem, "set cv=KFold() and a budget"))
    elif fits == "1" and n_private > 1:
        problem = (
            f"{class_name} fits {n_private} private estimators to the same rows, and their ε add up"
        )
        yield _Issue(
            "cost", Finding(name, problem, "keep one of them, or give all of them a budget")
        )
    elif fits != "1":
        count = "several" if nested or fits == UNKNOWN_N_FITS else fits
        cost = "k·ε, where k is the number of fits" if count == "several" else f"{fits}·ε"
        problem = f"{class_name} fits {learner} {count} times to the same rows, which costs {cost}"
        if has_private_scorer(parameters):
            problem += ", plus the ε of every score"
            remedy = f"fit {learner} once, or give it and the scorer the same budget"
        yield _Issue("cost", Finding(name, problem, remedy))


def _unprotected_issue(name: str, problem: str, remedy: str) -> _Issue:
    """Return an issue of kind "unprotected": the step is not private for any ε."""
    return _Issue("unprotected", Finding(name, problem, remedy))


def _has_settable_seed(wrapper: Any) -> bool:
    """Return whether an estimator nested in a meta-estimator has a `random_state`."""
    return any(
        parameter.rsplit("__", 1)[-1] == "random_state"
        for estimator in _inner_estimators(wrapper)
        if hasattr(estimator, "get_params")
        for parameter in estimator.get_params()
    )
