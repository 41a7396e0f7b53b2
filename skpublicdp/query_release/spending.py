"""Privacy budget of a release, i.e. its ledger and the default value of δ."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skpublicdp.accounting import Steps
from skpublicdp.accounting.rounding import written_below
from skpublicdp.data.roles import check_mask
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.data.tables import count_rows
from skpublicdp.privacy.ledger import Ledger

LARGEST_DEFAULT_DELTA = Fraction(1, 10**6)
"""Upper bound on δ for ``delta=None``, since 1/n² alone would be too large for few rows."""


def open_ledger(estimator: Any, X: Any, is_public: Any) -> Ledger:
    """Return the ledger of a fit, using the ε and δ of the estimator.

    The default δ depends on the number of private rows, which is not protected.
    """
    if estimator.method == "public":  # no private value is used, and nothing is spent
        return Ledger.from_estimator(estimator, delta=0, event=Steps(()))
    delta = estimator.delta
    if delta is None:
        if is_streamed(X):
            n_private = as_rows(X).n_rows
        else:
            n = count_rows(X) or 0  # an invalid X raises an error when it is read
            n_private = n - int(check_mask(is_public, n).sum())
        delta = default_delta(n_private)
    return Ledger.from_estimator(estimator, delta=delta)


def default_delta(n: int) -> float:
    """Return the default δ for n private rows (``delta=None``), rounded down to a float.

    Examples
    --------
    >>> default_delta(2), default_delta(10_000)
    (1e-06, 1e-08)
    """
    return written_below(min(LARGEST_DEFAULT_DELTA, Fraction(1, max(n, 1) ** 2)))
