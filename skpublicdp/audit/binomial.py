"""audit_privacy: lower bounds on ε and μ from many runs, using exact binomial bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri

from skpublicdp.audit.epsilon_bounds import clopper_pearson
from skpublicdp.audit.recorder import Recorder
from skpublicdp.audit.sensitivity import log_noise, log_partition_function, member_errors
from skpublicdp.typing import Floats

N_THRESHOLDS = 65
"""Number of quantiles of the statistic used as candidate thresholds."""


@dataclass(frozen=True, repr=False)
class BinomialAudit:
    """Lower bounds on ε and μ obtained by an attack, together with the claimed values.

    Attributes
    ----------
    name : str
        Name of the attacked estimator.
    claimed, claimed_delta : float
        The ε and δ stated in the receipt.
    claimed_mu : float
        The μ of Gaussian differential privacy stated in the receipt, or infinity.
    epsilon : float
        Lower confidence bound on ε at the claimed δ; 0 if the attack does not prove any privacy
        loss.
    mu : float
        Lower confidence bound on μ.
    confidence : float
        Probability with which both bounds hold.
    n_runs : int
        Number of fits to each of the two datasets.
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
        """The lower bound `epsilon`, under the name used in `Verification`."""
        return self.epsilon

    @property
    def holds(self) -> bool:
        """Whether neither bound exceeds its claimed value."""
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
    """Compute a lower bound on ε from many runs of an estimator on two neighbouring datasets.

    An attacker uses a statistic to guess which of the two datasets was fitted. The first half of
    the runs determines the threshold of the statistic, and the second half measures the error
    rates. Clopper-Pearson bounds on the two error rates yield lower bounds on ε and μ.

    Parameters
    ----------
    make_estimator : callable
        Function that returns a new estimator with independent randomness (``random_state=None``).
        independent randomness (``random_state=None``).
    rows, neighbour : dict
        Arguments of `fit` for two datasets that differ in one row.
    statistic : callable, optional
        Function that maps a fitted estimator to a number that tends to be larger for `rows`. The
        default is the privacy loss of all outputs of the ledger, computed by replaying them, which
        is the most powerful statistic. Since this statistic includes outputs that are not released,
        a statistic must be passed if rows have secret random roles.
    n_runs : int, default=500
        Number of fits to each dataset.
    confidence : float, default=0.999
        Probability, in (0, 1), with which both bounds hold.
    name : str, optional
        Name of the result; the default is the class name.

    Returns
    -------
    BinomialAudit
        Result with `epsilon`, `mu`, `claimed` and `holds`.

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
    data_sets = [rows, neighbour]
    values = np.empty((2, n_runs))
    receipt = None
    for run in range(n_runs):
        for side, arguments in enumerate(data_sets):
            if statistic is not None:
                fitted = make_estimator().fit(**arguments)
                values[side, run] = statistic(fitted)
            else:
                fitted, loss = _fit_with_loss(make_estimator, arguments, data_sets[1 - side])
                values[side, run] = loss if side == 0 else -loss
            receipt = fitted.privacy_
    assert receipt is not None
    n_training = n_runs // 2
    delta = float(receipt.delta)
    threshold, above = _best_threshold(values[:, :n_training], delta, confidence)
    errors = _test_errors(values[:, n_training:], threshold, above)
    epsilon, mu = _lower_bounds(errors, delta, confidence)
    return BinomialAudit(
        name or type(make_estimator()).__name__,
        float(receipt.epsilon), delta, receipt.mu, epsilon, mu, confidence, n_runs,
    )  # fmt: skip


class _TestErrors(NamedTuple):
    """Error counts of a test that detects runs on one of the two datasets."""

    false_alarms: int  # number of runs on the other dataset that the test incorrectly detects
    misses: int  # number of runs on the dataset itself that the test does not detect
    n_runs: int  # number of runs on each of the two datasets


def _best_threshold(values: Floats, delta: float, confidence: float) -> tuple[float, bool]:
    """Return the threshold and direction (above) of the test with the largest bounds.

    The candidates are quantiles of the statistic in both directions. The candidates are ranked
    first by the bound on μ, since the bound on ε at a small δ is 0 for most candidates.
    """
    thresholds = np.unique(np.quantile(values, np.linspace(0, 1, N_THRESHOLDS)))
    candidates = list(itertools.product(thresholds.tolist(), (True, False)))

    def mu_and_epsilon(candidate: tuple[float, bool]) -> tuple[float, float]:
        """Return the bounds on μ and ε for a given threshold and direction."""
        epsilon, mu = _lower_bounds(_test_errors(values, *candidate), delta, confidence)
        return mu, epsilon

    return max(candidates, key=mu_and_epsilon)


def _test_errors(values: Floats, threshold: float, above: bool) -> _TestErrors:
    """Return the error counts of a test that compares the statistic with a threshold."""
    n_runs = values.shape[1]
    is_detected = values >= threshold if above else values < threshold
    n_detected_rows, n_detected_neighbour = is_detected.sum(axis=1).tolist()
    if above:
        return _TestErrors(n_detected_neighbour, n_runs - n_detected_rows, n_runs)
    return _TestErrors(n_detected_rows, n_runs - n_detected_neighbour, n_runs)


def _lower_bounds(errors: _TestErrors, delta: float, confidence: float) -> tuple[float, float]:
    """Return lower confidence bounds (ε, μ) from the errors of a test.

    Let a be the false alarm rate and b the miss rate. Then (ε, δ)-privacy requires 1 - b <= e^ε a +
    δ and 1 - a <= e^ε b + δ, and μ-Gaussian privacy requires μ >= Φ^-1(1 - a) - Φ^-1(b). Both rates
    are replaced by their upper Clopper-Pearson bounds.
    """
    _, alarm_rate = clopper_pearson(errors.false_alarms, errors.n_runs, confidence)
    _, miss_rate = clopper_pearson(errors.misses, errors.n_runs, confidence)
    true_positive_excess, true_negative_excess = 1 - miss_rate - delta, 1 - alarm_rate - delta
    epsilon = max(
        math.log(true_positive_excess / alarm_rate) if true_positive_excess > 0 else 0.0,
        math.log(true_negative_excess / miss_rate) if true_negative_excess > 0 else 0.0,
    )
    mu = 0.0
    if max(alarm_rate, miss_rate) < 1:
        mu = float(ndtri(1 - alarm_rate) - ndtri(miss_rate))
    return max(epsilon, 0.0), max(mu, 0.0)


def _fit_with_loss(
    make_estimator: Callable[[], Any], rows: Mapping[str, Any], neighbour: Mapping[str, Any]
) -> tuple[Any, float]:
    """Return a fitted estimator, and the privacy loss ln P / P' of its ledger's outputs.

    P and P' are the probabilities of the outputs on `rows` and on `neighbour`. The inputs on which
    P' depends are obtained by a replay on `neighbour`.
    """
    with Recorder() as recorder:
        fitted = make_estimator().fit(**rows)
    with Recorder(recorder.outcomes) as replay_recorder:
        make_estimator().fit(**neighbour)
    loss = 0.0
    for call, neighbour_call in zip(recorder.calls, replay_recorder.calls, strict=True):
        if call.kind == "draw":
            rate = float(call.epsilon / (2 * Fraction(call.sensitivity)))
            errors = member_errors(call.exact_input, call.outcome)
            neighbour_errors = member_errors(neighbour_call.exact_input, call.outcome)
            loss += rate * (neighbour_errors - errors)
            loss += float(
                log_partition_function(neighbour_call.exact_input, rate)
                - log_partition_function(call.exact_input, rate)
            )
        elif call.kind == "noise":
            loss += log_noise(call, call.outcome - call.exact_input)
            loss -= log_noise(call, call.outcome - neighbour_call.exact_input)
        elif call.kind != "seed":
            raise ValueError(
                "audit_privacy requires the argument statistic for estimators that assign secret "
                "random roles to rows."
            )
    return fitted, loss
