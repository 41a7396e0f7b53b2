"""Check that error messages about invalid private rows do not depend on their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skpublicdp.audit import Verification
from tests.audit.case import Case
from tests.audit.catalogue import catalogue
from tests.internals.audit import ERRORS, Domain, FitRecorder, fit_once

UNDECLARED_LABELS = ((7, 8), ("seven", "eight"))
"""Numeric and text labels that no estimator of the catalogue declares in `classes`."""


def verify_refusals() -> Verification:
    """Check that errors reveal neither values, nor the number, nor the positions of invalid rows.

    Of each class in the catalogue, the case with the most columns is checked: its error may name a
    column.

    Returns
    -------
    Verification
        Its `findings` quote pairs of errors that differ.
    """
    case_of_class: dict[str, Case] = {}
    for case in sorted(catalogue(), key=lambda case: -np.shape(case.domain)[1]):
        case_of_class.setdefault(case.name.split(",")[0], case)
    findings = tuple(
        finding for case in case_of_class.values() for finding in _message_differences(case)
    )
    return Verification("errors about rows", 0.0, 0.0, 0.0, 0.0, ERRORS, 0, 0, 0, (), findings)


def _message_differences(case: Case) -> Iterator[str]:
    """Yield a finding for each type of fault whose error message depends on the invalid rows.

    The message must be equal for all invalid values, numbers of invalid rows and positions.
    """
    for fault, variants in _with_invalid_values(case).items():
        errors = []
        for rows in variants:
            with FitRecorder():
                fit = fit_once(case.make, rows, case.fit_params, np.array(case.domain), None)
            if fit.failure is None:  # the estimator accepts these rows
                break
            errors.append(f"{type(fit.failure).__name__}: {fit.failure}")
        for error in errors[1:]:
            if error != errors[0]:
                pair = f"“{errors[0]}” and “{error}”"
                yield f"{case.name}: the error about {fault} depends on the rows: {pair}"
                break


def _with_invalid_values(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return arguments of `fit` with invalid rows: several variants, by type of fault.

    Variants differ in the invalid value, and in the number and positions of invalid rows.
    """
    # at least two rows, so that the number of invalid rows can differ
    domain = Domain(case.domain, case.labels, max(case.n, 2), case.rows_per_person, ordered=False)
    rows = domain.arguments(domain.sample(1, np.random.default_rng(0))[0])
    nan, inf = np.nan, np.inf
    variants: dict[str, list[dict[str, Any]]] = {}
    last_column = np.shape(rows["X"])[1] - 1
    # the first value of the first row, the last value of the last row, or both
    cell_sets = ([(0, 0)], [(-1, last_column)], [(0, 0), (-1, last_column)])
    for fault, values in (("missing numbers", (nan, inf)), ("text", ("left", "right"))):
        table = np.asarray(rows["X"], dtype=object if fault == "text" else float)
        variants[fault] = [
            rows | {"X": _with_value(table, cells, value)}
            for cells in cell_sets
            for value in values
        ]
    if case.labels is not None:
        y = np.asarray(rows["y"])
        undeclared_numbers, undeclared_texts = UNDECLARED_LABELS
        invalid: tuple[Any, Any] = undeclared_numbers
        if np.issubdtype(y.dtype, np.floating):
            invalid = (nan, inf)
        elif np.issubdtype(y.dtype, np.str_):
            invalid = undeclared_texts
            y = y.astype("U9")  # wide enough for the undeclared labels
        variants["undeclared labels"] = [
            rows | {"y": _with_value(y, indices, value)}
            for indices in ([0], [-1], [0, -1])
            for value in invalid
        ]
    return variants


def _with_value(array: Any, indices: list[Any], value: Any) -> Any:
    """Return a copy of an array in which the entries at some indices have a given value."""
    changed = array.copy()
    for index in indices:
        changed[index] = value
    return changed
