"""`ConformalClassifier` and `ConformalRegressor`, which calibrate fitted estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import Draw, exact_fraction
from skpublicdp.conformal.score_quantile import count_thresholds, draw_threshold, plan_quantile
from skpublicdp.data.labels import refuse_types
from skpublicdp.data.outcomes import read_outcome_bounds
from skpublicdp.data.streaming import Chunk
from skpublicdp.data.tables import table_height
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.metrics.counts import RowCounter, read_scored_rows
from skpublicdp.metrics.label_tables import (
    call_estimator,
    check_label_kinds,
    label_codes,
    outcome_column,
    score_column,
)
from skpublicdp.metrics.score_release import (
    SCORE_ASSUMPTIONS,
    UNPROTECTED_STEPS,
    labels_of_estimator,
)
from skpublicdp.model_selection.checks import unprotected_line
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers, Mask


@dataclass(frozen=True, eq=False)
class LabelScoreCounter:
    """Function that counts rows by the first threshold whose prediction set has their label."""

    estimator: Any  # fitted classifier
    labels: list[Any]  # labels of its columns of probabilities
    min_probabilities: Floats  # (n_thresholds,): decreasing; the last admits every label

    def __call__(self, chunk: Chunk) -> Integers:
        """Return the counts of one batch of streamed rows."""
        return self.count(chunk.X, chunk.y, table_height(chunk.X))

    def count(self, X: Any, y: Any, n: int, by: Any = None) -> Integers:
        """Return the number of rows in each bin. Rows of unknown labels are in the last bin."""
        n_bins = len(self.min_probabilities)
        if not n:  # some estimators reject an empty X
            return np.zeros(n_bins, dtype=np.int64)
        codes = label_codes("y", y, self.labels)
        n_labels = len(self.labels)
        result = call_estimator(self.estimator, "predict_proba", X, n=n, width=n_labels)
        probabilities = score_column("predict_proba", result.ravel())
        probabilities = probabilities.reshape(n, n_labels)
        own_probability = probabilities[np.arange(n), codes]
        own_probability = np.where(codes >= 0, own_probability, np.nan)
        # a missing probability follows all thresholds in this order
        increasing = -self.min_probabilities[:-1]
        bins = np.searchsorted(increasing, -own_probability)
        counts = np.bincount(bins, minlength=n_bins)
        return counts.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ResidualScoreCounter:
    """Function that counts rows by the first threshold whose interval contains their outcome."""

    estimator: Any  # fitted regressor
    half_widths: Floats  # (n_thresholds,): increasing; the last is infinite

    def __call__(self, chunk: Chunk) -> Integers:
        """Return the counts of one batch of streamed rows."""
        return self.count(chunk.X, chunk.y, table_height(chunk.X))

    def count(self, X: Any, y: Any, n: int, by: Any = None) -> Integers:
        """Return the number of rows in each bin. Rows of missing outcomes are in the last bin."""
        n_bins = len(self.half_widths)
        if not n:  # some estimators reject an empty X
            return np.zeros(n_bins, dtype=np.int64)
        outcomes = outcome_column("y", y)
        predictions = call_estimator(self.estimator, "predict", X, n=n)
        predicted = outcome_column("predict", predictions)
        # bisection with the intervals of `predict_interval`, which are nested in spite of rounding
        low = np.zeros(n, dtype=np.intp)
        high = np.full(n, n_bins - 1)
        for _ in range(n_bins.bit_length()):
            middle = (low + high) // 2
            half_widths = self.half_widths[middle]
            is_covered = intervals_contain(predicted, half_widths, outcomes)
            high = np.where(is_covered, middle, high)
            next_low = np.minimum(middle + 1, high)
            low = np.where(is_covered, low, next_low)
        counts = np.bincount(high, minlength=n_bins)
        return counts.astype(np.int64)


def intervals_contain(predicted: Floats, half_widths: Floats, outcomes: Floats) -> Mask:
    """Return whether each interval contains its outcome."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinite numbers of private rows
        low, high = predicted - half_widths, predicted + half_widths
    return np.asarray((low <= outcomes) & (outcomes <= high))


def probability_thresholds(n_thresholds: int) -> Floats:
    """Return decreasing probabilities, closer to each other around 1/2 than at 0 and 1.

    They are u² / (u² + (1 - u)²) for equally spaced u in (0, 1). The last is 0.
    """
    u = 1 - np.arange(1, n_thresholds + 1) / n_thresholds
    return np.asarray(u * u / (u * u + (1 - u) * (1 - u)))


def half_width_thresholds(n_thresholds: int, width: float) -> Floats:
    """Return the half widths u³ · width for equally spaced u in (0, 1], followed by infinity.

    All common widths differ from the next one by a few percent.
    """
    u = np.arange(1, n_thresholds) / (n_thresholds - 1)
    return np.append(width * (u * u * u), np.inf)


class ConformalPredictor(
    ProgressMixin, HTMLReprMixin, VersionedMixin, MetaEstimatorMixin, BaseEstimator
):
    """Base class of the conformal estimators, which releases one quantile of conformity scores."""

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
        "coverage": PROBABILITY,
    }

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 - routed without being asked for

    # the receipt covers the threshold, and not the rows to which the estimator was fitted
    _receipt_covers_estimator = False

    estimator: Any
    coverage: float | Fraction
    epsilon: float | Fraction
    max_rows_per_group: int | None

    def _release_threshold(
        self,
        X: Any,
        y: Any,
        groups: Any,
        make_counter: Callable[[int, Any], tuple[RowCounter, Floats]],
    ) -> float:
        """Set `privacy_` and `coverage_`, and return the drawn threshold.

        The function `make_counter` returns the counter of rows and its thresholds, given the number
        of thresholds and an object with the type of the labels.
        """
        check_parameters(self)
        event = Draw(exact_fraction(self.epsilon))
        # a seed of the fitted estimator has no effect here
        ledger = Ledger.from_estimator(self, event=event, seeded_parts=False)
        if hasattr(self.estimator, "fit"):
            check_is_fitted(self.estimator)
        rows = read_scored_rows(X, y, groups, self.max_rows_per_group, ledger)
        epsilon, _ = ledger.per_row(ledger.epsilon)
        counter, thresholds = make_counter(count_thresholds(rows.n, epsilon), rows.y_type)
        ledger.read(rows.n)
        plan = plan_quantile(rows.n, epsilon, exact_fraction(self.coverage))
        if plan is None:
            warn(
                f"{rows.n} rows are too few for prediction sets with a coverage of "
                f"{float(self.coverage):g} at epsilon = {float(self.epsilon):g}. The sets contain "
                "all labels or outcomes, and no privacy budget was spent. Pass more rows, or "
                "decrease coverage.",
                TooFewRowsWarning,
            )
            index, self.coverage_ = len(thresholds) - 1, 1.0
        else:
            index = draw_threshold(rows.count(counter), plan, ledger)
            self.coverage_ = plan.coverage
        self.privacy_ = ledger.receipt(
            assumptions=SCORE_ASSUMPTIONS + unprotected_line([self.estimator], UNPROTECTED_STEPS)
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator, name):
                setattr(self, name, getattr(self.estimator, name))
        return float(thresholds[index])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the estimator.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n,)
            Labels or outcomes.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator.predict(X))

    def __sklearn_tags__(self) -> Any:
        """Return the tags, with the estimator's input tags."""
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


class ConformalClassifier(ClassifierMixin, ConformalPredictor):
    """Prediction sets of a fitted classifier, calibrated on private rows.

    The prediction set of a row contains all labels whose predicted probability is at least
    `min_probability_`. This number is a quantile of the probabilities that the classifier assigns
    to the labels of the calibration rows. It is released once, with ε-differential privacy. The
    set of a new row contains its label with probability at least `coverage`, for any classifier and
    any distribution of the rows.

    Parameters
    ----------
    estimator : classifier
        Classifier or pipeline with `predict_proba`, which was fitted to other rows, with or without
        privacy. It is not fitted again. Wrap it in scikit-learn's `FrozenEstimator` if copies made
        by `clone`, for example in cross-validation, must keep its fit.
    coverage : float, default=0.9
        Lowest probability, in (0, 1), with which a prediction set contains the label of a new row.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    random_state : int, numpy Generator or RandomState, default=None
        With ``None``, random numbers come from the operating system's secure generator. Any other
        value makes the fit reproducible, which is intended for tests and papers only, and is
        recorded in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If this number is set, privacy is guaranteed for persons
        instead of rows. In this case, `fit` requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Budget from which the cost of each fit is deducted. If the budget is insufficient, `fit`
        raises an error before reading any private row.

    Attributes
    ----------
    min_probability_ : float
        Lowest predicted probability of a label in a prediction set. If it is 0, every set contains
        all labels.
    coverage_ : float
        Proved coverage, which is at least `coverage`. It is 1 if every set contains all labels,
        because there are too few rows.
    classes_ : ndarray, shape (n_classes,)
        Labels of the classifier.
    privacy_ : PrivacyReceipt
        Privacy receipt of the calibration.
    n_features_in_ : int
        Number of features, if the classifier has this attribute.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if the classifier has this attribute.

    Warns
    -----
    TooFewRowsWarning
        If there are too few rows for `coverage` and `epsilon`. Sets then contain all labels, and no
        budget is spent.

    See Also
    --------
    ConformalRegressor : Prediction intervals of a regressor.
    skpublicdp.metrics.private_scores : Metrics of a fitted estimator on private rows.

    Notes
    -----
    The coverage is an average over calibration rows, draws and new rows. It is proved for
    calibration rows and new rows that are exchangeable, such as independent rows of one population,
    if the labels are among `classes_` (docs/proofs/prediction_sets.md). Rows to which the
    classifier was fitted are not exchangeable with new rows. Several rows of one person are not
    exchangeable in general, so use ``max_rows_per_group=1`` if persons have several rows.

    If the accuracy of the classifier is higher than `coverage`, some sets are empty.

    Neighbouring data sets differ in one row, including its label. The number of rows is public.

    References
    ----------
    .. [1] A. Angelopoulos, S. Bates, T. Zrnic and M. Jordan (2022). Private prediction sets.
       Harvard Data Science Review.
    .. [2] M. Sadinle, J. Lei and L. Wasserman (2019). Least ambiguous set-valued classifiers with
       bounded error levels. JASA.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp import ConformalClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=4000), [-0.5, 0.5])
    >>> clf = LogisticRegression().fit(X[:1000], y[:1000])     # of public rows
    >>> sets = ConformalClassifier(clf, coverage=0.95, random_state=0)
    >>> sets.fit(X[1000:3000], y[1000:3000]).predict_set([[-2, 0], [0.5, 0]])
    array([[ True, False, False],
           [False,  True,  True]])
    >>> covered = sets.predict_set(X[3000:])[np.arange(1000), y[3000:]]
    >>> bool(0.93 < covered.mean() < 0.98)
    True
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **ConformalPredictor._parameter_constraints,
        "estimator": [HasMethods(["predict", "predict_proba"])],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float | Fraction = 0.9,
        epsilon: float | Fraction = 1.0,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.epsilon = epsilon
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Calibrate the prediction sets, spending the privacy budget ε.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Private rows to which the classifier was not fitted, in any container that it accepts.
        y : array-like of shape (n,), or a column of the same streamed rows
            Labels of the rows.
        groups : array-like of shape (n,), or a column of the same streamed rows, default=None
            Person to whom each row belongs, used with `max_rows_per_group`. Persons are public.

        Returns
        -------
        self : ConformalClassifier
            The calibrated classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The error message contains no private values.
        NotFittedError
            If `estimator` is not fitted.
        PrivacyBudgetError
            If `budget` is insufficient.
        """

        def make_counter(n_thresholds: int, y_type: Any) -> tuple[RowCounter, Floats]:
            """Return the counter of rows, and the probabilities that may be drawn."""
            labels = labels_of_estimator(self.estimator, None)
            check_label_kinds(labels, y=y_type)
            thresholds = probability_thresholds(n_thresholds)
            return LabelScoreCounter(self.estimator, labels, thresholds), thresholds

        self.min_probability_ = self._release_threshold(X, y, groups, make_counter)
        self.classes_ = np.asarray(self.estimator.classes_)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the classifier, which are not calibrated.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of `classes_`.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator.predict_proba(X), dtype=np.float64)

    def predict_set(self, X: Any) -> Mask:
        """Return the prediction set of each row.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of bool, shape (n, n_classes)
            Whether the set of a row contains each label, in the order of `classes_`.
        """
        probabilities = self.predict_proba(X)
        if self.min_probability_ == 0:
            return np.ones(probabilities.shape, dtype=bool)
        return np.asarray(probabilities >= self.min_probability_)


class ConformalRegressor(RegressorMixin, ConformalPredictor):
    """Prediction intervals of a fitted regressor, calibrated on private rows.

    The prediction interval of a row extends by `half_width_` on either side of the prediction. This
    number is a quantile of the absolute residuals of the calibration rows. It is released once,
    with ε-differential privacy. The interval of a new row contains its outcome with probability at
    least `coverage`, for any regressor and any distribution of the rows.

    Parameters
    ----------
    estimator : regressor
        Regressor or pipeline that was fitted to other rows, with or without privacy. It is not
        fitted again. Wrap it in scikit-learn's `FrozenEstimator` if copies made by `clone`, for
        example in cross-validation, must keep its fit.
    coverage : float, default=0.9
        Lowest probability, in (0, 1), with which an interval contains the outcome of a new row.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    outcome_bounds : pair of float, default=None
        Public bounds of the outcomes, whose distance is the largest finite half width. Outcomes may
        lie outside of the bounds. The default is the attribute `outcome_bounds_` of the estimator.
    random_state : int, numpy Generator or RandomState, default=None
        With ``None``, random numbers come from the operating system's secure generator. Any other
        value makes the fit reproducible, which is intended for tests and papers only, and is
        recorded in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If this number is set, privacy is guaranteed for persons
        instead of rows. In this case, `fit` requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Budget from which the cost of each fit is deducted. If the budget is insufficient, `fit`
        raises an error before reading any private row.

    Attributes
    ----------
    half_width_ : float
        Half of the length of each prediction interval, which may be infinite.
    coverage_ : float
        Proved coverage, which is at least `coverage`. It is 1 if intervals are infinite because
        there are too few rows.
    privacy_ : PrivacyReceipt
        Privacy receipt of the calibration.
    n_features_in_ : int
        Number of features, if the regressor has this attribute.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if the regressor has this attribute.

    Warns
    -----
    TooFewRowsWarning
        If there are too few rows for `coverage` and `epsilon`. Intervals are then infinite, and no
        budget is spent.

    See Also
    --------
    ConformalClassifier : Prediction sets of a classifier.
    skpublicdp.metrics.private_scores : Metrics of a fitted estimator on private rows.

    Notes
    -----
    The coverage is an average over calibration rows, draws and new rows. It is proved for
    calibration rows and new rows that are exchangeable, such as independent rows of one population
    (docs/proofs/prediction_sets.md). Rows to which the regressor was fitted are not exchangeable
    with new rows. Several rows of one person are not exchangeable in general, so use
    ``max_rows_per_group=1`` if persons have several rows.

    Neighbouring data sets differ in one row, including its outcome. The number of rows is public.

    References
    ----------
    .. [1] A. Angelopoulos, S. Bates, T. Zrnic and M. Jordan (2022). Private prediction sets.
       Harvard Data Science Review.
    .. [2] J. Lei, M. G'Sell, A. Rinaldo, R. Tibshirani and L. Wasserman (2018). Distribution-free
       predictive inference for regression. JASA.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skpublicdp import ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = X[:, 0] + rng.normal(size=4000)
    >>> reg = LinearRegression().fit(X[:1000], y[:1000])       # of public rows
    >>> intervals = ConformalRegressor(reg, outcome_bounds=(-5, 5), random_state=0)
    >>> low, high = intervals.fit(X[1000:3000], y[1000:3000]).predict_interval(X[3000:]).T
    >>> bool(0.88 < ((low <= y[3000:]) & (y[3000:] <= high)).mean() < 0.93)
    True
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **ConformalPredictor._parameter_constraints,
        "estimator": [HasMethods(["predict"])],
        "outcome_bounds": ["array-like", None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float | Fraction = 0.9,
        epsilon: float | Fraction = 1.0,
        outcome_bounds: ArrayLike | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.epsilon = epsilon
        self.outcome_bounds = outcome_bounds
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Calibrate the prediction intervals, spending the privacy budget ε.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Private rows to which the regressor was not fitted, in any container that it accepts.
        y : array-like of shape (n,), or a column of the same streamed rows
            Outcomes of the rows. No interval contains a missing outcome.
        groups : array-like of shape (n,), or a column of the same streamed rows, default=None
            Person to whom each row belongs, used with `max_rows_per_group`. Persons are public.

        Returns
        -------
        self : ConformalRegressor
            The calibrated regressor.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The error message contains no private values. The
            error is also raised if no outcome bounds are available.
        NotFittedError
            If `estimator` is not fitted.
        PrivacyBudgetError
            If `budget` is insufficient.
        """

        def make_counter(n_thresholds: int, y_type: Any) -> tuple[RowCounter, Floats]:
            """Return the counter of rows, and the half widths that may be drawn."""
            refuse_types(y_type, "outcomes, finite numbers")
            low, high = self._read_bounds()
            thresholds = half_width_thresholds(n_thresholds, high - low)
            return ResidualScoreCounter(self.estimator, thresholds), thresholds

        self.half_width_ = self._release_threshold(X, y, groups, make_counter)
        return self

    def predict_interval(self, X: Any) -> Floats:
        """Return the prediction interval of each row.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of float64, shape (n, 2)
            Lower and upper end of each interval.
        """
        predicted = self.predict(X).astype(np.float64)
        if self.half_width_ == np.inf:  # also for predictions that are infinite or missing
            return np.full((len(predicted), 2), [-np.inf, np.inf])
        return np.column_stack([predicted - self.half_width_, predicted + self.half_width_])

    def _read_bounds(self) -> tuple[float, float]:
        """Return the outcome bounds, or raise ValueError if there are none."""
        bounds = self.outcome_bounds
        if bounds is None:
            bounds = getattr(self.estimator, "outcome_bounds_", None)
        if bounds is None:
            raise ValueError(
                "outcome_bounds must be given, because the estimator has no outcome_bounds_."
            )
        return read_outcome_bounds(bounds)
