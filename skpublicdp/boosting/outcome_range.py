"""Outcome range, the interval within the declared bounds that contains most private outcomes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skpublicdp.boosting.model import MARGIN_UNIT, TARGET_LEVELS
from skpublicdp.typing import Floats


class OutcomeRange(NamedTuple):
    """Range of encoded outcomes, contained in [0, 1]."""

    # ends of the range, which are multiples of 1 / TARGET_LEVELS
    low: float = 0.0
    high: float = 1.0
    mean: float = 0.5  # estimated mean outcome, between `low` and `high`

    @property
    def width(self) -> float:
        """Length of the range."""
        return self.high - self.low

    @property
    def balance(self) -> float:
        """Class balance 4 p (1 - p), where p is the mean outcome's position within the range."""
        p = (self.mean - self.low) / self.width
        return 4 * p * (1 - p)

    @property
    def mean_margin(self) -> int:
        """Logistic margin of the mean's position within the range, in units of 1 / MARGIN_UNIT."""
        p = min(max((self.mean - self.low) / self.width, 0.01), 0.99)
        return round(MARGIN_UNIT * math.log(p / (1 - p)))

    def encode(self, y: Floats) -> Floats:
        """Clip outcomes to the range, scale them to [0, 1], and round them to encoding levels."""
        shares = np.clip((y - self.low) / self.width, 0.0, 1.0)
        return np.rint(TARGET_LEVELS * shares) / TARGET_LEVELS


DECLARED_RANGE = OutcomeRange()
"""The declared bounds."""
