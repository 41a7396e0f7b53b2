"""Polytopes of few sides, as rules."""

from __future__ import annotations

import numpy as np

from skpublicdp.hypotheses.base import (
    Hypothesis,
    PublicSample,
)
from skpublicdp.hypotheses.halfspace_sets import HalfspaceSet, joined
from skpublicdp.hypotheses.halfspaces import weighted_sum
from skpublicdp.typing import Codes, Floats


class Polytope(Hypothesis):
    """The first label inside all of some halfspaces, the second outside.

    Parameters
    ----------
    flat : HalfspaceSet
        Halfspaces that all members of the cover share.
    sides : HalfspaceSet
        Its own halfspaces.
    inside : int
        Code of the label inside; outside it is the last one.
    public : PublicSample
        Where the names are from.

    Attributes
    ----------
    normals : ndarray of float64, shape (n_halfspaces, n_features)
        Normals, pointing inwards. The largest coefficient of each is 1 or -1.
    offsets : ndarray of float64, shape (n_halfspaces,)
        A row is inside where ``normals @ x >= offsets``.
    sides : HalfspaceSet
        See above.
    """

    def __init__(
        self, flat: HalfspaceSet, sides: HalfspaceSet, inside: int, public: PublicSample
    ) -> None:
        self.sides = sides
        self._pool = joined(flat, sides)
        self.normals = self._pool.normals
        self.offsets = self._pool.offsets
        self._outside = len(public.classes) - 1
        self._inside = inside
        self._names = public.feature_names
        self._labels = [str(label) for label in public.classes]

    def predict(self, X: Floats) -> Codes:
        """Return the code of each row."""
        inside = self._pool.contains(X).all(axis=0)
        return np.where(inside, self._inside, self._outside).astype(np.intp)

    def rule(self) -> str:
        """Return the intersection as an if / else; numbers have six digits."""
        inside, outside = self._labels[self._inside], self._labels[self._outside]
        if inside == outside or not len(self.offsets):
            return f"predict {inside}"
        conditions = [
            f"{weighted_sum(normal, self._names)} >= {offset + 0.0:.6g}"
            for normal, offset in zip(self.normals, self.offsets, strict=True)
        ]
        condition = "\n   and ".join(conditions)
        return f"if {condition} (≈):\n    predict {inside}\nelse:\n    predict {outside}"
