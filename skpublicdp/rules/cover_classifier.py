"""CoverClassifier: base class of the classifiers that draw one rule from a cover."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    N_JOBS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import REPLACE_FEATURES, REPLACE_ONE, Draw, exact_fraction
from skpublicdp.data.batch_predict import ScoreMixin
from skpublicdp.data.public_rows import public_data_assumptions
from skpublicdp.data.validation import check_rows
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, DecisionTrees, Hypothesis, HypothesisClass
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_search import DrawnRule, RuleSearch, search_cover
from skpublicdp.rules.population_guarantee import warn_if_vacuous
from skpublicdp.typing import Codes

MIN_REFERENCE_ROWS, MAX_REFERENCE_ROWS = 1000, 20_000
"""Minimum and maximum number of rows in a sample that replaces public rows.

Larger samples hardly improve the cover."""

COVER_PARAMETERS: dict[str, Any] = {
    "beta": PROBABILITY,
    "n_jobs": N_JOBS,
    **SPENDING_PARAMETERS,
    **GROUP_PARAMETERS,
}
"""Constraints on the parameters shared by all of these classifiers."""


class CoverClassifier(
    ScoreMixin, ProgressMixin, HTMLReprMixin, VersionedMixin, ClassifierMixin, BaseEstimator
):
    """Base class of classifiers that draw one rule from a cover, using errors on private rows.

    `_fit` implements the complete fit. A subclass defines how to read its rows (`_read`), which
    cover and which scored rows to use (`_prepare`), which assumptions the receipt states, and which
    error bound applies.
    """

    epsilon: float | Fraction
    beta: float

    def _fit(self, X: Any, y: Any, *, X_public: Any, **inputs: Any) -> Self:
        """Read the rows, draw a rule from the cover, and compute its error bound.

        The privacy budget is charged before any row is read. Only the drawn rule and the points of
        a sanitizer depend on values of private rows.
        """
        check_parameters(self)
        ledger = self._open_ledger()
        rows = self._read(X, y, X_public=X_public, ledger=ledger, **inputs)
        ledger.read(rows.n_private, rows.n_public)
        search = self._prepare(rows, ledger)
        drawn = search_cover(search, beta=self.beta)
        self._store_rule(rows, drawn.hypothesis, drawn.cover)
        self.certificate_ = drawn.certificate
        described = public_data_assumptions(X_public)
        self.privacy_ = ledger.receipt(
            unit=REPLACE_FEATURES if getattr(rows, "label_decides", False) else REPLACE_ONE,
            assumptions=self._assumptions(rows, described),
            secure=self._is_secure(search),
        )
        guarantee = self._guarantee(rows, search, drawn, bool(described), ledger.rows_per_person)
        self.guarantee_, self.guarantee_reason_ = guarantee
        self._warn_if_weak(guarantee, rows, search)
        return self

    def _open_ledger(self) -> Ledger:
        """Return the ledger of a fit with privacy budget ε."""
        return Ledger.from_estimator(self, event=Draw(exact_fraction(self.epsilon)))

    def _read(self, X: Any, y: Any, **inputs: Any) -> Any:
        """Return the validated rows of a fit, together with `classes` and the row counts."""
        raise NotImplementedError

    def _prepare(self, rows: Any, ledger: Ledger) -> RuleSearch:
        """Return the cover and the rows on which its rules are scored."""
        raise NotImplementedError

    def _is_secure(self, search: Any) -> bool:
        """Return whether all randomness outside the ledger came from a secure generator."""
        return True

    def _assumptions(self, rows: Any, described: tuple[str, ...]) -> tuple[str, ...]:
        """Return the assumptions that the receipt states.

        `described` lists the assumptions about public rows that were generated from a description.
        """
        raise NotImplementedError

    def _guarantee(
        self, rows: Any, search: Any, drawn: DrawnRule, described: bool, rows_per_person: int
    ) -> Promise:
        """Return the bound on the excess population error, or the reason why there is no bound.

        `described` indicates whether the public rows were generated from a description.
        """
        raise NotImplementedError

    def _warn_if_weak(self, guarantee: Promise, rows: Any, search: Any) -> None:
        """Warn if the bound is vacuous."""
        warn_if_vacuous(guarantee, rows.n_private, rows.n_public, float(self.epsilon))

    def _store_rule(self, rows: Any, hypothesis: Hypothesis, cover: Cover) -> None:
        """Set the fitted attributes after a rule has been drawn from a cover."""
        self.classes_ = rows.classes
        self.hypothesis_ = hypothesis
        self.cover_size_ = cover.size

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            A label of `classes_` for each row.
        """
        check_is_fitted(self)
        codes = self.hypothesis_.predict(check_rows(self, X, reset=False))
        return self.classes_[self._label_codes(codes)]

    def _label_codes(self, codes: Codes) -> Codes:
        """Return the index in `classes_` of the drawn rule's prediction for each row."""
        return codes


def class_or_default(hypotheses: HypothesisClass | None) -> HypothesisClass:
    """Return the parameter `hypotheses`, or the default class of decision trees if it is None."""
    return DecisionTrees() if hypotheses is None else hypotheses


def may_be_known(fact: str, classes: ArrayLike | None) -> str:
    """Return the assumption that a given fact about private rows and the set of labels are public.

    The set of labels is omitted if the parameter `classes` specifies it independently of the rows.
    """
    label_set = "" if classes is not None else " and the set of labels in y"
    return f"{fact}{label_set} may be known"


def n_reference_rows(alpha: float) -> int:
    """Return the size of the sample that replaces public rows.

    The sample contains two rows for each quantile at spacing alpha, within fixed limits.
    """
    return int(min(max(2 / alpha, MIN_REFERENCE_ROWS), MAX_REFERENCE_ROWS))
