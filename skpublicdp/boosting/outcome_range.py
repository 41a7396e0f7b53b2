"""Outcome range: the part of the declared bounds in which most private outcomes lie."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skpublicdp.boosting.model import MARGIN_UNIT, TARGET_LEVELS
from skpublicdp.typing import Floats


class OutcomeRange(NamedTuple):
    """Range of encoded outcomes, within [0, 1].

    Attributes
    ----------
    low, high : float
        Multiples of 1 / TARGET_LEVELS.
    mean : float
        Estimated mean of the outcomes, between them.
    """

    low: float = 0.0
    high: float = 1.0
    mean: float = 0.5

    @property
    def width(self) -> float:
        """Length of the range."""
        return self.high - self.low

    @property
    def balance(self) -> float:
        """4 p (1 - p) for the mean p of the outcomes, relative to the range."""
        p = (self.mean - self.low) / self.width
        return 4 * p * (1 - p)

    @property
    def mean_margin(self) -> int:
        """Logistic margin of the mean relative to the range, in units of 1 / MARGIN_UNIT."""
        p = min(max((self.mean - self.low) / self.width, 0.01), 0.99)
        return round(MARGIN_UNIT * math.log(p / (1 - p)))

    def encode(self, y: Floats) -> Floats:
        """Return outcomes clipped to the range and scaled to [0, 1], as multiples of a level."""
        shares = np.clip((y - self.low) / self.width, 0.0, 1.0)
        levels: Floats = np.rint(TARGET_LEVELS * shares) / TARGET_LEVELS
        return levels


DECLARED_RANGE = OutcomeRange()
"""The declared bounds."""
