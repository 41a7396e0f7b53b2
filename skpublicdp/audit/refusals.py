"""Check that errors about invalid private rows do not depend on their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skpublicdp.audit.catalogue import Case, catalogue
from skpublicdp.audit.data_sets import Domain
from skpublicdp.audit.observed_fit import FitRecorder, fit_once
from skpublicdp.audit.verification import ERRORS, Verification

UNLISTED = ((7, 8), ("seven", "eight"))
"""Labels outside of every list of classes, as numbers and as words."""


def verify_refusals() -> Verification:
    """Check that an error reveals neither values, nor number, nor place of invalid rows.

    Returns
    -------
    Verification
        Its `findings` name what an error reveals.
    """
    widest: dict[str, Case] = {}  # where there are more columns, an error may name one
    for case in sorted(catalogue(), key=lambda case: -np.shape(case.domain)[1]):
        widest.setdefault(case.name.split(",")[0], case)
    found = tuple(finding for case in widest.values() for finding in _message_differences(case))
    return Verification("errors about rows", 0.0, 0.0, 0.0, 0.0, ERRORS, 0, 0, 0, (), found)


def _message_differences(case: Case) -> Iterator[str]:
    for kind, variants in _with_invalid_values(case).items():
        errors = []
        for rows in variants:
            with FitRecorder():
                attempt = fit_once(case.make, rows, case.fit_params, np.array(case.domain), None)
            if attempt.failure is None:  # it takes such rows
                break
            errors.append(f"{type(attempt.failure).__name__}: {attempt.failure}")
        for one in errors[1:]:
            if one != errors[0]:
                pair = f"“{errors[0]}” and “{one}”"
                yield f"{case.name}: the error about {kind} depends on the rows: {pair}"
                break


def _with_invalid_values(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return tables with invalid rows, several of each kind."""
    domain = Domain(case.domain, case.labels, max(case.n, 2), case.rows_per_person, ordered=False)
    rows = domain.arguments(domain.sample(1, np.random.default_rng(0))[0])
    nan, inf = np.nan, np.inf
    spoilt: dict[str, list[dict[str, Any]]] = {}
    last = np.shape(rows["X"])[1] - 1
    for kind, values in (("missing numbers", (nan, inf)), ("text", ("left", "right"))):
        table = np.asarray(rows["X"], dtype=object if kind == "text" else float)
        places = ([(0, 0)], [(-1, last)], [(0, 0), (-1, last)])
        spoilt[kind] = [rows | {"X": _with(table, at, value)} for at in places for value in values]
    if case.labels is not None:
        y = np.asarray(rows["y"])
        outcomes = y.dtype.kind == "f"
        wrong = (nan, inf) if outcomes else UNLISTED[y.dtype.kind == "U"]
        wide = y.astype("U9") if y.dtype.kind == "U" else y
        spoilt["labels of no list"] = [
            rows | {"y": _with(wide, at, value)} for at in ([0], [-1], [0, -1]) for value in wrong
        ]
    return spoilt


def _with(table: Any, places: list[Any], value: Any) -> Any:
    found = table.copy()
    for place in places:
        found[place] = value
    return found
