"""Prediction rules defined by polytopes, which are intersections of a few halfspaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skpublicdp.hypotheses.base import (
    Hypothesis,
    PublicSample,
)
from skpublicdp.hypotheses.halfspace_sets import HalfspaceSet, concatenate_sets, open_complements
from skpublicdp.hypotheses.halfspaces import weighted_sum
from skpublicdp.typing import Codes, Floats


class Polytope(Hypothesis):
    """Rule that predicts the first label inside an intersection of halfspaces, the second outside.

    Parameters
    ----------
    flat : HalfspaceSet
        Halfspaces that all members of the cover share. The intersection of these halfspaces is an
        affine subspace.
    sides : HalfspaceSet
        Halfspaces specific to this member.
    inside : int
        Label code predicted inside; the last label is predicted outside.
    public : PublicSample
        Source of the feature and label names.

    Attributes
    ----------
    normals : ndarray of float64, shape (n_halfspaces, n_features)
        Normals, pointing inwards. Each normal is scaled to make its largest coefficient 1 or -1.
    offsets : ndarray of float64, shape (n_halfspaces,)
        A row is inside where ``normals @ x >= offsets``.
    sides : HalfspaceSet
        Halfspaces of this member.
    faces : HalfspaceSet
        Pool halfspaces that define this member; these are its sides, unless the first label is
        predicted inside a union of halfspaces.
    inside : int
        Label code predicted inside the polytope.
    """

    def __init__(
        self, flat: HalfspaceSet, sides: HalfspaceSet, inside: int, public: PublicSample
    ) -> None:
        self.sides = self.faces = sides
        self._halfspaces = concatenate_sets(flat, sides)
        self.normals = self._halfspaces.normals
        self.offsets = self._halfspaces.offsets
        self._outside = len(public.classes) - 1
        self.inside = inside
        self._names = public.feature_names
        self._labels = [str(label) for label in public.classes]

    def predict(self, X: Floats) -> Codes:
        """Return the predicted label code of each row."""
        inside = self._halfspaces.contains(X).all(axis=0)
        return np.where(inside, self.inside, self._outside).astype(np.intp)

    def rule(self) -> str:
        """Return the intersection as an if/else statement; numbers are rounded to six digits."""
        inside, outside = self._labels[self.inside], self._labels[self._outside]
        if inside == outside or not len(self.offsets):
            return f"predict {inside}"
        conditions = [
            f"{weighted_sum(normal, self._names)} >= {offset + 0.0:.6g}"
            for normal, offset in zip(self.normals, self.offsets, strict=True)
        ]
        return if_else(conditions, inside, outside)


class HalfspaceUnion(Polytope):
    """Rule that predicts the first label in a union of closed halfspaces, and the second elsewhere.

    The second label is therefore predicted inside a polytope without its boundary.

    Parameters
    ----------
    faces : HalfspaceSet
        One or more closed halfspaces.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(self, faces: HalfspaceSet, public: PublicSample) -> None:
        super().__init__(faces[:0], open_complements(faces), 1, public)
        self._outside = 0
        self.faces = faces

    def rule(self) -> str:
        """Return the open polytope as an if/else statement; numbers are rounded to six digits."""
        conditions = [
            f"{weighted_sum(normal, self._names)} < {offset + 0.0:.6g}"
            for normal, offset in zip(self.faces.normals, self.faces.offsets, strict=True)
        ]
        covered, elsewhere = self._labels
        return if_else(conditions, elsewhere, covered)


def if_else(conditions: Sequence[str], inside: str, outside: str) -> str:
    """Return a rule that predicts one label if all conditions hold, and another one otherwise."""
    condition = "\n   and ".join(conditions)
    return f"if {condition} (≈):\n    predict {inside}\nelse:\n    predict {outside}"
