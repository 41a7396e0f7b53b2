"""Attacks on mechanisms of the package, whose lower bounds on ε must not exceed the claim."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skpublicdp.audit.binomial import BinomialAudit, audit_privacy
from skpublicdp.audit.catalogue import BITS, PUBLIC, TWO
from skpublicdp.audit.subjects import PublishedScore, matrix_of
from skpublicdp.hypotheses import Thresholds
from skpublicdp.rules.semi_private import SemiPrivateClassifier

ALWAYS = 1 - 1e-6
"""Confidence level of bounds that are computed at every run."""


def attacks() -> dict[str, Callable[[], BinomialAudit]]:
    """Return attacks by name: on a draw, and on noise of both kinds, each with a seed."""
    labelled = [{"X": [[0.0]], "y": [label], "X_public": PUBLIC} for label in TWO]
    scored = [{"X": np.array(BITS), "y": np.array(["no", label])} for label in ("yes", "no")]

    def rule(rng: Any) -> Any:
        return SemiPrivateClassifier(Thresholds(), epsilon=4, classes=TWO, random_state=rng)

    def matrix(delta: float) -> Callable[[Any], Any]:
        return lambda rng: PublishedScore(matrix_of, epsilon=4, delta=delta, random_state=rng)

    def label(fitted: Any) -> Any:
        return -fitted.predict([[0.0]])[0]

    def right(fitted: Any) -> Any:
        return fitted.found_.value[1, 1]

    def attack(
        name: str, make: Any, rows: tuple[Any, Any], statistic: Any, n_runs: int
    ) -> BinomialAudit:
        made = partial(make, np.random.default_rng(20))
        return audit_privacy(made, *rows, statistic, n_runs=n_runs, confidence=ALWAYS, name=name)

    planned: dict[str, tuple[Any, ...]] = {
        "a draw, attacked": (rule, labelled, label, 300),
        "Laplace noise, attacked": (matrix(0), scored, right, 1000),
        "Gaussian noise, attacked": (matrix(0.1), scored, right, 1000),
    }
    return {name: partial(attack, name, *settings) for name, settings in planned.items()}
