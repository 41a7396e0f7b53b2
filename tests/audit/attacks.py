"""Attacks on mechanisms of the package, whose lower bounds on ε must not exceed the claim."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skpublicdp import SemiPrivateClassifier
from skpublicdp.audit import BinomialAudit, audit_privacy
from skpublicdp.hypotheses import Thresholds
from tests.audit.case import BITS, LABELS, PUBLIC_LINE
from tests.audit.subjects import PublishedScore, release_confusion_matrix

ATTACK_CONFIDENCE = 1 - 1e-6
"""Confidence level of the bounds. It is high, since they are computed in every audit."""


def attacks() -> dict[str, Callable[[], BinomialAudit]]:
    """Return seeded attacks by name: on a draw, on Laplace noise and on Gaussian noise."""
    labelled = [{"X": [[0.0]], "y": [label], "X_public": PUBLIC_LINE} for label in LABELS]
    scored = [{"X": np.array(BITS), "y": np.array(["no", label])} for label in ("yes", "no")]

    def make_rule(rng: Any) -> Any:
        """Return a learner of thresholds whose randomness comes from a generator."""
        return SemiPrivateClassifier(Thresholds(), epsilon=4, classes=LABELS, random_state=rng)

    def matrix_with(delta: float) -> Callable[[Any], Any]:
        """Return a function from a generator to the release of a confusion matrix with this δ."""
        return lambda rng: PublishedScore(
            release_confusion_matrix, epsilon=4, delta=delta, random_state=rng
        )

    def predicted_zero(fitted: Any) -> Any:
        """Return minus the prediction at 0, which is larger for label 0."""
        return -fitted.predict([[0.0]])[0]

    def true_positives(fitted: Any) -> Any:
        """Return the noisy number of true positives."""
        return fitted.score_.value[1, 1]

    def run_attack(
        name: str, make: Any, rows: tuple[Any, Any], statistic: Any, n_runs: int
    ) -> BinomialAudit:
        """Return the audit of an estimator with seeded randomness."""
        make_seeded = partial(make, np.random.default_rng(20))  # one generator for all runs
        return audit_privacy(
            make_seeded, *rows, statistic, n_runs=n_runs, confidence=ATTACK_CONFIDENCE, name=name
        )

    settings: dict[str, tuple[Any, ...]] = {
        "a draw, attacked": (make_rule, labelled, predicted_zero, 300),
        "Laplace noise, attacked": (matrix_with(0), scored, true_positives, 1000),
        "Gaussian noise, attacked": (matrix_with(0.1), scored, true_positives, 1000),
    }
    return {name: partial(run_attack, name, *arguments) for name, arguments in settings.items()}
