"""A case of the catalogue, and the tiny data sets that cases share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skpublicdp.audit import Verification, verify_privacy

# possible private rows of one and of two features
BITS, LINE = [[0.0], [1.0]], [[0.0], [1.0], [2.0]]
PLANE = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
LABELS = (0, 1)

# public rows
PUBLIC_LINE = np.array([[0.5], [1.5], [0.2]])
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
ONE_HOT = np.repeat(np.eye(2), 15, axis=0)
NORMAL_POINTS = np.random.default_rng(0).normal(1, 1, (30, 2))

# rows of so many numbers that boosting fits a linear model first
WIDE_ROWS = np.linspace([-1.0, 0.0, 2.0], [1.0, 0.0, -1.0], 40).T.tolist()
WIDE_POINTS = np.random.default_rng(0).normal(size=(60, 40))


@dataclass(frozen=True)
class Case:
    """Case of the audit: an estimator, and the tiny domain on which it is verified.

    Attributes
    ----------
    name : str
        Class of the estimator, and its settings.
    make : callable
        Returns a new estimator.
    domain, n, labels, fit_params, rows_per_person, look, max_fits
        Arguments of `verify_privacy`.
    """

    name: str
    make: Callable[[], Any]
    domain: Any
    n: int
    labels: Any = None
    fit_params: dict[str, Any] = field(default_factory=dict)
    rows_per_person: int | None = None
    look: Callable[[Any], Any] | None = None
    max_fits: int = 200

    def verify(self) -> Verification:
        """Return the verification of the estimator on the domain of the case."""
        return verify_privacy(
            self.make, self.domain, self.n,
            labels=self.labels, fit_params=self.fit_params, rows_per_person=self.rows_per_person,
            look=self.look, max_fits=self.max_fits, name=self.name,
        )  # fmt: skip
