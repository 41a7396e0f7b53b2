"""Exceptions and warnings of the package, and the function that issues warnings."""

import sys
import warnings

INTERNAL_PACKAGES = ("skpublicdp", "sklearn", "joblib")
"""A warning points to the innermost line of code outside these packages."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the line of the user's code."""
    level, frame = 1, sys._getframe()  # level 1 is the line in this function
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        INTERNAL_PACKAGES
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class PrivacyBudgetError(RuntimeError):
    """A fit needs more than the remaining budget. Nothing was spent or drawn.

    No private row was read, unless another process spent the remaining budget during the fit.
    """


class CoverSizeError(ValueError):
    """The table of a cover would not fit in memory. The message names its size and a remedy."""


class NoPublicDataWarning(UserWarning):
    """There are no public rows, or they show too few values of some columns."""


class SlicedPublicDataWarning(UserWarning):
    """`X_public` has as many rows as `X`, so a cross-validation may have sliced it."""


class TooFewRowsWarning(UserWarning):
    """There are too few private rows for ε: no accuracy bound holds, or noise hides all effects."""


class UnprovedWarning(UserWarning):
    """The requested accuracy guarantee is proved for another learner, but not for this one."""


class AmbiguousLabelWarning(UserWarning):
    """The label -1 may mark unlabelled rows or be a class. It is read as a class."""


class DriftWarning(UserWarning):
    """Released counts of private rows differ from the counts that public rows predict."""


class LargeDeltaWarning(UserWarning):
    """δ is so large that publishing some of the rows would satisfy the definition of privacy."""


class LargeEpsilonWarning(UserWarning):
    """ε is so large that an attacker who knows all other rows can almost always find the last."""


class SeededRandomnessWarning(UserWarning):
    """A fit that a budget pays for has a `random_state`, so its noise can be reproduced."""


class UnmeasuredWarning(UserWarning):
    """An answer comes from a model of the released tables, and no table measured the query."""


class UncoveredBoundsWarning(UserWarning):
    """The bins of a histogram do not cover the bounds of the column, so rows may be in no bin."""


class SyntheticTailsWarning(UserWarning):
    """Synthetic numbers end with the public rows, and the bounds of the column are wider."""


class UnknownCategoriesWarning(UserWarning):
    """Most values of a categorical column are not among the categories of `fit`."""


class ReadError(RuntimeError):
    """Rows could not be read or counted. The cause is not quoted, as it may quote a value."""
