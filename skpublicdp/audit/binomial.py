"""audit_privacy: what an attacker reaches, from many true runs and exact binomial bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from skpublicdp.audit.epsilon_bounds import clopper_pearson
from skpublicdp.audit.recorder import Recorder
from skpublicdp.audit.sensitivity import log_noise, log_partition_function, member_errors
from skpublicdp.typing import Floats


@dataclass(frozen=True, repr=False)
class BinomialAudit:
    """What an attack on true runs reached, beside what is claimed.

    Attributes
    ----------
    name : str
        What was attacked.
    claimed, claimed_delta : float
        ε and δ of the receipt.
    claimed_mu : float
        The μ of Gaussian differential privacy that the receipt states, or infinity.
    epsilon : float
        With the confidence below, ε at the claimed δ is no smaller; 0 where nothing was seen.
    mu : float
        Likewise for μ.
    confidence : float
        Of both bounds.
    n_runs : int
        How often each of the two data sets was fitted.
    """

    name: str
    claimed: float
    claimed_delta: float
    claimed_mu: float
    epsilon: float
    mu: float
    confidence: float
    n_runs: int

    witness: ClassVar[str] = "attack"
    findings: ClassVar[tuple[str, ...]] = ()

    @property
    def attained(self) -> float:
        """The same as `epsilon`: at least so much."""
        return self.epsilon

    @property
    def holds(self) -> bool:
        """Whether the attack stays below the claim."""
        return self.epsilon <= self.claimed and self.mu <= self.claimed_mu

    def __repr__(self) -> str:
        delta = f" at δ = {self.claimed_delta:g}" if self.claimed_delta else ""
        return "\n".join(
            [
                f"Audit of {self.name}: {'holds' if self.holds else 'VIOLATED'}",
                f"  claimed     ε = {self.claimed:g}{delta}, μ = {self.claimed_mu:.4g}",
                f"  reached     ε > {self.epsilon:.4g}{delta}, μ > {self.mu:.4g}",
                f"  witness     {self.n_runs} runs on each of two data sets, exact binomial bounds "
                f"of {self.confidence:.6g}",
            ]
        )


def audit_privacy(
    make_estimator: Callable[[], Any],
    rows: Mapping[str, Any],
    neighbour: Mapping[str, Any],
    statistic: Callable[[Any], float] | None = None,
    *,
    n_runs: int = 500,
    confidence: float = 0.999,
    name: str | None = None,
) -> BinomialAudit:
    """Attack an estimator: run it many times on two neighbouring data sets and tell them apart.

    Half of the runs choose a threshold for the statistic, the other half tell how often it errs.
    Clopper-Pearson bounds of both kinds of error bound ε and μ from below.

    Parameters
    ----------
    make_estimator : callable
        Returns a new estimator that draws true randomness: ``random_state=None``.
    rows, neighbour : dict
        Arguments of `fit` for two data sets that differ in one row.
    statistic : callable, optional
        Of a fitted estimator, a number that tends to be larger for `rows`. By default the privacy
        loss of all that left the ledger, the best statistic there is, found by replay; it sees what
        stays inside, too, so where rows have secret random roles give a statistic.
    n_runs : int, default=500
        How often to fit each of the two.
    confidence : float, default=0.999
        Probability with which both bounds hold, in (0, 1).
    name : str, optional
        What to call it; by default the name of its class.

    Returns
    -------
    BinomialAudit
        With `epsilon`, `mu`, `claimed` and `holds`.

    References
    ----------
    Jagielski, Ullman and Oprea (2020), Auditing differentially private machine learning. Nasr et
    al. (2023), Tight auditing of differentially private machine learning.

    Examples
    --------
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.audit import audit_privacy
    >>> from skpublicdp.hypotheses import Thresholds
    >>> rows, neighbour = (
    ...     {"X": [[0.0]], "y": [label], "X_public": [[0.0], [1.0]]} for label in (0, 1)
    ... )
    >>> audit_privacy(
    ...     lambda: SemiPrivateClassifier(Thresholds(), epsilon=4, alpha=0.5, classes=[0, 1]),
    ...     rows,
    ...     neighbour,
    ...     n_runs=200,
    ... )
    Audit of SemiPrivateClassifier: holds
      claimed     ε = 4, μ = ...
      reached     ε > ..., μ > ...
      witness     200 runs on each of two data sets, exact binomial bounds of 0.999
    """
    fits = [rows, neighbour]
    values = np.empty((2, n_runs))
    receipt = None
    for run in range(n_runs):
        for side, arguments in enumerate(fits):
            if statistic is not None:
                fitted = make_estimator().fit(**arguments)
                values[side, run] = statistic(fitted)
            else:
                fitted, lost = _attacked(make_estimator, arguments, fits[1 - side])
                values[side, run] = lost if side == 0 else -lost
            receipt = fitted.privacy_
    assert receipt is not None
    half = n_runs // 2
    delta = float(receipt.delta)
    threshold, above = _threshold(values[:, :half], delta, confidence)
    epsilon, mu = _bounds(*_errors(values[:, half:], threshold, above), delta, confidence)
    return BinomialAudit(
        name or type(make_estimator()).__name__,
        float(receipt.epsilon), delta, receipt.mu, epsilon, mu, confidence, n_runs,
    )  # fmt: skip


def _threshold(values: Floats, delta: float, confidence: float) -> tuple[float, bool]:
    """Return the threshold, and the side of it, that does best."""
    places = np.unique(np.quantile(values, np.linspace(0, 1, 65)))
    tried = [(place, above) for place in places.tolist() for above in (True, False)]
    return max(
        tried, key=lambda each: _bounds(*_errors(values, *each), delta, confidence)[::-1]
    )  # μ tells more: ε at a small δ is 0 for most


def _errors(values: Floats, threshold: float, above: bool) -> tuple[int, int, int]:
    """Return false alarms, misses and runs of the test that says `rows` above a threshold."""
    said = values >= threshold if above else values < threshold
    if above:
        return int(said[1].sum()), int((~said[0]).sum()), values.shape[1]
    return int(said[0].sum()), int((~said[1]).sum()), values.shape[1]


def _bounds(
    alarms: int, misses: int, n: int, delta: float, confidence: float
) -> tuple[float, float]:
    """Bound ε and μ from below by the errors of a test (Clopper and Pearson 1934)."""
    alarm, miss = (clopper_pearson(errors, n, confidence)[1] for errors in (alarms, misses))
    hit, quiet = 1 - miss - delta, 1 - alarm - delta
    epsilon = max(
        math.log(hit / alarm) if hit > 0 else 0.0, math.log(quiet / miss) if quiet > 0 else 0.0
    )
    mu = float(ndtri(1 - alarm) - ndtri(miss)) if max(alarm, miss) < 1 else 0.0
    return max(epsilon, 0.0), max(mu, 0.0)


def _attacked(
    make_estimator: Callable[[], Any], rows: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[Any, float]:
    """Fit, and return ln P / P' of what left the ledger, P' being that of the neighbour."""
    with Recorder() as recorder:
        fitted = make_estimator().fit(**rows)
    with Recorder(recorder.outcomes) as again:
        make_estimator().fit(**others)
    lost = 0.0
    for mine, yours in zip(recorder.calls, again.calls, strict=True):
        if mine.kind == "draw":
            rate = float(mine.epsilon / (2 * Fraction(mine.sensitivity)))
            moved = member_errors(yours.exact_input, mine.outcome) - member_errors(
                mine.exact_input, mine.outcome
            )
            lost += rate * moved
            lost += float(
                log_partition_function(yours.exact_input, rate)
                - log_partition_function(mine.exact_input, rate)
            )
        elif mine.kind == "noise":
            lost += log_noise(mine, mine.outcome - mine.exact_input)
            lost -= log_noise(mine, mine.outcome - yours.exact_input)
        elif mine.kind != "seed":
            raise ValueError(
                "audit_privacy needs a statistic where rows have secret random roles: pass one."
            )
    return fitted, lost
