"""verify_privacy: claimed and attained privacy over all neighbours in tiny domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skpublicdp.audit.data_sets import Domain
from skpublicdp.audit.enumerated_runs import TooManyOutcomesError
from skpublicdp.audit.enumeration import verify_by_enumeration
from skpublicdp.audit.replay import verify_by_replay
from skpublicdp.audit.verification import ALL_OUTCOMES, Verification
from skpublicdp.audit.verifier import Verifier


def verify_privacy(
    make_estimator: Callable[[], Any],
    domain: ArrayLike,
    n: int,
    *,
    labels: Sequence[Any] | None = None,
    fit_params: Mapping[str, Any] | None = None,
    rows_per_person: int | None = None,
    look: Callable[[Any], Any] | None = None,
    max_fits: int = 2000,
    name: str | None = None,
) -> Verification:
    """Compare the claimed privacy of an estimator with the privacy it attains on tiny datasets.

    If the outcomes of all draws can be enumerated, the estimator is fitted to every dataset of n
    rows from a tiny domain, once for each combination of outcomes. In this case, the probability of
    everything observable is known exactly. Otherwise, the estimator is fitted to a sample of
    datasets. The values that the estimator releases are replayed in fits of neighbours: everything
    else must be equal, and the inputs of mechanisms may differ by at most the declared sensitivity.

    Both methods also check each use of private rows. Each use must have a ledger entry that was
    written in advance and states its exact cost. The random bits of each use must come from the
    ledger's source, and the receipt must cover the use.

    Parameters
    ----------
    make_estimator : callable
        Function that returns a new estimator, preferably with ``random_state=None``. The estimator
        must access private rows through `skpublicdp.privacy.ledger.Ledger`. After `fit`, it should
        have a receipt `privacy_`; without a receipt, its claim is ε = 0.
    domain : array-like or data frame, shape (k, n_features)
        All possible feature vectors of a row.
    n : int
        Number of private rows, or of persons.
    labels : sequence, optional
        All possible labels of a row. If `labels` is omitted, `fit` is called without `y`.
    fit_params : dict, optional
        Additional arguments of `fit`, such as `X_public`, which are the same for all datasets. If
        one of these arguments is an array of length n, the order of rows is part of the dataset.
    rows_per_person : int, optional
        Number of rows of each person. If given, neighbours differ in one person instead of one row,
        and `groups` is passed to `fit`.
    look : callable, optional
        Function that accepts a fitted estimator and returns further observable values. Attributes,
        `repr`, warnings, errors, printed text and predictions are observed in every case.
    max_fits : int, default=2000
        Approximate maximum number of fits.
    name : str, optional
        Name of the result; the default is the class name.

    Returns
    -------
    Verification
        Result with `holds`, `claimed`, `attained`, `witness` and `findings`.

    Raises
    ------
    ValueError
        If `fit` fails on every dataset. Also if there are too many outcomes to enumerate and some
        draws are not released, as in `LabelBoostClassifier`, because such draws cannot be replayed.
    TypeError
        If `make_estimator` is neither a class nor a function.

    See Also
    --------
    audit_privacy : A lower bound on ε from many runs, based on released values only.

    Notes
    -----
    `Ledger` is patched during the verification, so no other estimator may be fitted at the same
    time. A verification only covers the given domain; the proofs cover larger domains. Running
    times are not observed.

    References
    ----------
    T. Cebere, D. Erb, D. Desfontaines, A. Bellet and J. Fitzsimons (2026). Privacy in theory, bugs
    in practice: grey-box auditing of differential privacy libraries. arXiv 2602.17454.

    Examples
    --------
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.audit import verify_privacy
    >>> from skpublicdp.hypotheses import Thresholds
    >>> verify_privacy(
    ...     lambda: SemiPrivateClassifier(Thresholds(), epsilon=1, classes=[0, 1]),
    ...     domain=[[0.0], [1.0]],
    ...     n=2,
    ...     labels=[0, 1],
    ...     fit_params={"X_public": [[0.5], [1.5]]},
    ... )
    Verification of SemiPrivateClassifier: holds
      claimed     ε = 1
      attained    ε = 0.7634
      witness     all outcomes: 10 data sets, 24 pairs of neighbours, ... fits
      use         exponential mechanism, exact draw: 100% of its budget
    """
    if not callable(make_estimator):
        raise TypeError(
            "make_estimator must be a class or a function that returns a new estimator; got an "
            f"object of {type(make_estimator).__name__}."
        )
    fit_params = dict(fit_params or {})
    ordered = any(np.ndim(value) == 1 and len(value) == n for value in fit_params.values())
    data_sets = Domain(domain, labels, n, rows_per_person, ordered)
    verifier = Verifier(make_estimator, data_sets, fit_params, look, max_fits)
    _run_checks(verifier)
    return verifier.result(name or type(make_estimator()).__name__)


def _run_checks(verifier: Verifier) -> None:
    """Enumerate all outcomes if possible, otherwise replay recorded outcomes, and check budgets."""
    data_set, recorder = verifier.record_success()
    noisy = any(call.kind == "noise" for call in recorder.calls)
    _, claimed_delta = verifier.claimed or (0.0, 0.0)
    # noise is bounded by its sensitivity, which does not determine an exact δ
    if not (noisy and claimed_delta):
        try:
            verify_by_enumeration(verifier)
        except TooManyOutcomesError:
            if any(call.secret for call in recorder.calls):
                raise ValueError(
                    f"max_fits={verifier.max_fits} is too small to enumerate all outcomes, and "
                    "replaying a fit is impossible because some draws are not released. Pass a "
                    "larger max_fits or fewer rows."
                ) from None
    if verifier.witness != ALL_OUTCOMES:  # later steps may depend on noisy values
        verify_by_replay(verifier)
    verifier.check_budget(data_set)
    verifier.check_seed(data_set)
