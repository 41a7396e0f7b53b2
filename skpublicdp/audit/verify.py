"""verify_privacy: claimed and attained privacy over all neighbours of tiny data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skpublicdp.audit.data_sets import Domain
from skpublicdp.audit.enumerated_runs import TooManyOutcomesError
from skpublicdp.audit.enumeration import OutcomeEnumerator
from skpublicdp.audit.replay import Replayer
from skpublicdp.audit.verification import ALL_OUTCOMES, Verification


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
    """Compare what an estimator claims with what it attains over neighbouring data sets.

    Where its draws can be listed, it is fitted to all data sets of n rows of a tiny domain, once
    for each way in which all draws can fall out; the probability of everything that can be seen of
    it is then known exactly. Elsewhere it is fitted to some data sets, what it released is dictated
    to fits of their neighbours, all else must be equal, and what is asked of the ledger may move no
    further than is paid for. In both cases every use of the private rows must have an entry in the
    ledger that is written before it, pays for it and is used up, take its randomness from the
    ledger's source, and be covered by the receipt.

    Parameters
    ----------
    make_estimator : callable
        Returns a new estimator; best one with ``random_state=None``. It must use private rows
        through `skpublicdp.privacy.ledger.Ledger` and have a receipt `privacy_` after `fit`;
        without one, nothing is claimed to be spent.
    domain : array-like or data frame, shape (k, n_features)
        What the features of a row may be.
    n : int
        Number of private rows, or of persons.
    labels : sequence, optional
        What the label of a row may be. Without it `fit` gets no `y`.
    fit_params : dict, optional
        What else `fit` gets, such as `X_public`; the same for all data sets. With an array that is
        as long as the data it matters who stands where.
    rows_per_person : int, optional
        Replaces persons, of so many rows each, instead of rows; `fit` then gets `groups`.
    look : callable, optional
        Of a fitted estimator, returns more that can be seen of it. What it stores, prints as, warns
        of and predicts is looked at anyhow.
    max_fits : int, default=2000
        How often to fit, at most or very nearly.
    name : str, optional
        What to call it; by default the name of its class.

    Returns
    -------
    Verification
        With `holds`, `claimed`, `attained`, `witness` and `findings`.

    Raises
    ------
    ValueError
        If `fit` fails on every data set, or if not all of its outcomes can be listed and some draws
        are not released, as those of `LabelBoostClassifier`: they cannot be dictated.
    TypeError
        If `make_estimator` is no class or function.

    See Also
    --------
    audit_privacy : A lower bound from many runs, which looks at what comes out alone.
    verify_all : All estimators of the package.

    Notes
    -----
    It patches `Ledger` while it runs, so nothing else may be fitted meanwhile. A verification says
    nothing of larger domains; that is what the proofs are for. Time is not looked at.

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
    given = dict(fit_params or {})
    ordered = any(np.ndim(of) == 1 and len(of) == n for of in given.values())
    subject = Domain(domain, labels, n, rows_per_person, ordered)
    verifier = _Verifier(make_estimator, subject, given, look, max_fits)
    verifier.run()
    return verifier.result(name or type(make_estimator()).__name__)


class _Verifier(OutcomeEnumerator, Replayer):
    """Lists all outcomes where that can be done, and replays the rest."""

    def run(self) -> None:
        first, recorder = self._fit_without_failure()
        noisy = any(call.kind == "noise" for call in recorder.calls)
        if not (noisy and self._claimed and self._claimed[1]):
            try:
                self._enumerate()
            except TooManyOutcomesError:
                if any(call.secret for call in recorder.calls):
                    raise ValueError(
                        f"max_fits={self._max_fits} is too small to list all outcomes, and draws "
                        "that are not released cannot be replayed: give a larger max_fits, or "
                        "fewer rows."
                    ) from None
                self._witness = ""
        if self._witness != ALL_OUTCOMES:  # numbers with noise may lead anywhere
            self._replay()
        self._check_budget(first)
        self._check_seed(first)
