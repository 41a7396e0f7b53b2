"""Inputs of a search, validated, split into private and public rows, and transformed by steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skpublicdp._internal.coupling import couples_rows
from skpublicdp._internal.redaction import call_or_raise, call_silently
from skpublicdp.data.inputs import bounds_of_description, public_labels
from skpublicdp.data.labels import (
    UNLABELLED,
    LabelReader,
    check_length,
    encode_labels,
    is_unlabelled,
    require_target,
)
from skpublicdp.data.public_rows import is_described, mark_described
from skpublicdp.data.roles import RowChooser, cap_rows_per_group, split_roles
from skpublicdp.data.schema import column_names
from skpublicdp.data.tables import Table, take_rows
from skpublicdp.data.validation import as_numbers
from skpublicdp.model_selection.candidates import Candidate, has_row_function
from skpublicdp.preprocessing import PublicFit, stack_public_rows


def _with_declared_types(X: Any, table: Table | None) -> Any:
    """Return validated rows in their original container, or None if there are none.

    A list does not declare its types, so the values in it are read as numbers.
    """
    if table is None or hasattr(X, "shape"):
        return None if table is None else table.native
    return as_numbers(table)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class TransformedRows:
    """Private and public rows, transformed by the pipeline steps before a learner."""

    steps: list[tuple[str, Any]]  # fitted steps before the learner, together with their names
    X: Any  # private rows, at most `max_rows_per_group` for each person
    # All public rows, or None. Rows from a description are marked by `mark_described`.
    X_public: Any


class SearchRows:
    """Validated inputs of `SemiPrivateSearchCV.fit`, with features for each candidate.

    Parameters
    ----------
    search : estimator
        The search, whose parameters `classes` and `max_rows_per_group` are used.
    ledger : Ledger, optional
        Ledger of the search, which chooses the rows of each person.
    X, y, X_public, y_public, is_public, groups
        See `SemiPrivateSearchCV.fit`.

    Attributes
    ----------
    classes : ndarray
        The sorted labels.
    y : ndarray
        Labels of the private rows.
    codes : ndarray of intp
        Label codes of the private rows.
    y_public : ndarray or None
        Labels of all public rows, with -1 for unlabelled rows. None if there are no labelled public
        rows.
    labelled, public_codes : ndarray of intp
        Indices of the labelled rows among all public rows, and their label codes.
    n_public : int
        Number of public rows.
    described : bool
        Whether separate public rows were generated from a description.
    described_bounds : dict of str to tuple
        Bounds of the columns that the description declares.
    """

    def __init__(
        self,
        search: Any,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        y_public: Any = None,
        is_public: Any = None,
        groups: Any = None,
        ledger: RowChooser | None = None,
    ) -> None:
        require_target(search, y)
        roles = split_roles(
            search, X, X_public=X_public, is_public=is_public, numeric=False, groups=groups
        )
        self._mask = roles.is_public
        self._X = _with_declared_types(X, roles.table)
        self._X_public = _with_declared_types(X_public, roles.separate)
        is_counted = cap_rows_per_group(search.max_rows_per_group, groups, ~self._mask, ledger)
        labels = LabelReader(search.classes)
        separate = public_labels(X_public, y_public, labels.column)
        labels.check_public(y, separate)
        self._y = labels.column(y)
        check_length(self._y, len(self._mask))
        self._private_indices = np.flatnonzero(is_counted)
        public_parts = [self._y[self._mask], *separate]
        encoded = encode_labels(self._y[is_counted], public_parts, search.classes)
        self.codes, self.public_codes, is_labelled, self.classes = encoded
        self.y = self.classes[self.codes]
        self.described = is_described(X_public)
        self.described_bounds = bounds_of_description(X_public, column_names(roles.table))
        sizes = [table.shape[0] for table in roles.public_tables]
        self.n_public = sum(sizes)
        self.labelled = np.flatnonzero(is_labelled)
        if len(self.labelled) < self.n_public and is_unlabelled(self.classes).any():
            # -1 is itself a label and cannot mark unlabelled rows, so no public label is used
            self.labelled = self.labelled[:0]
            self.public_codes = self.public_codes[:0]
        self.y_public = self._public_labels() if len(self.labelled) else None
        self._cache: dict[tuple[Any, ...], TransformedRows] = {}

    def __len__(self) -> int:
        return len(self.codes)

    def _public_labels(self) -> NDArray[Any]:
        """Return the labels of all public rows, with -1 for unlabelled rows."""
        kind = self.classes.dtype.kind
        unlabelled_mark = str(UNLABELLED) if kind in "OU" else UNLABELLED
        labels = np.full(self.n_public, unlabelled_mark, dtype=object)
        labels[self.labelled] = self.classes[self.public_codes]
        return labels

    def features(self, candidate: Candidate) -> TransformedRows:
        """Return the rows transformed by a candidate's steps, which are fitted to public rows.

        The result is cached under the settings of the steps.
        """
        if candidate.features not in self._cache:
            self._cache[candidate.features] = self._transform(candidate)
        return self._cache[candidate.features]

    def check_steps(self, candidate: Candidate) -> None:
        """Raise an error if a step uses other public rows to compute a public row.

        No private row is read, so a rejected search is not charged to the budget.

        Raises
        ------
        ValueError
            If a step's result for a public row depends on other public rows.
        """
        if self.n_public < 2 or not any(has_row_function(step) for _, step in candidate.steps):
            return
        public_indices = np.flatnonzero(self._mask)
        tables = [take_rows(self._X, public_indices)] if len(public_indices) else []
        labels = self._y[public_indices] if self._X_public is None else None
        if self._X_public is not None:
            tables.append(self._X_public)
        rows, error = call_silently(stack_public_rows, tables)
        for name, step in candidate.steps:
            fitted = clone(step)
            if isinstance(step, PublicFit) and error is None:
                mask = np.ones(self.n_public, dtype=bool)
                _, error = call_silently(fitted.fit, rows, labels, is_public=mask)
            if error is not None:  # of this or the previous step; `features` raises it later
                return
            transform = fitted.transform
            if has_row_function(step) and couples_rows(transform, rows, self.n_public, take_rows):
                raise ValueError(
                    "Every step before the learner must process each row independently, but the "
                    f"result of step {name!r} for a public row depends on other public rows. If "
                    "the step uses statistics of the rows, replace it with a transformer within "
                    "PublicFit."
                )
            rows, error = call_silently(fitted.transform, rows)

    def _transform(self, candidate: Candidate) -> TransformedRows:
        """Fit a candidate's steps to public rows, and transform all rows with these steps."""
        X, X_public = self._X, self._X_public
        steps = []
        for name, step in candidate.steps:
            fitted = clone(step)
            if isinstance(step, PublicFit):
                fitted.fit(X, self._y, X_public=X_public, is_public=self._mask)
            elif not hasattr(fitted, "transform"):
                raise ValueError(
                    "Every step before the learner must have a transform method, but step "
                    f"{name!r} does not."
                )
            refusal = ValueError(
                f"Step {name!r} failed to transform the rows; its message is withheld, because it "
                "may quote private values. Try the step on public rows."
            )
            X = call_or_raise(fitted.transform, X, error=refusal)  # hides its warnings, too
            X_public = None if X_public is None else fitted.transform(X_public)
            steps.append((name, fitted))
        public_tables = [take_rows(X, np.flatnonzero(self._mask))] if self._mask.any() else []
        if X_public is not None:
            public_tables.append(X_public)
        all_private = len(self._private_indices) == len(self._mask)
        private_rows = X if all_private else take_rows(X, self._private_indices)
        public_rows = stack_public_rows(public_tables) if public_tables else None
        if self.described:  # a learner treats the rows as in a fit without a search
            # steps change the columns, and the bounds of the description apply to its own columns
            bounds = {} if steps else self.described_bounds
            public_rows = mark_described(public_rows, bounds)
        return TransformedRows(steps, private_rows, public_rows)
