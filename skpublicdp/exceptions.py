"""Exceptions and warnings of the package, and a function that issues warnings."""

import sys
import warnings

INTERNAL_PACKAGES = ("skpublicdp", "sklearn", "joblib")
"""Packages that are skipped in the search for the line of code to which a warning points."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to a line of the user's code."""
    level, frame = 1, sys._getframe()  # level 1 is the line in this function
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        INTERNAL_PACKAGES
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class PrivacyBudgetError(RuntimeError):
    """A fit requires more privacy budget than remains. No budget was spent, and no noise was drawn.

    No private row was read, unless another process spent the remaining budget during the fit.
    """


class CoverSizeError(ValueError):
    """The table of a cover would not fit into memory.

    The message states the size of the table and suggests a remedy.
    """


class NoPublicDataWarning(UserWarning):
    """There are no public rows, or some columns have too few public values."""


class SlicedPublicDataWarning(UserWarning):
    """`X_public` has as many rows as `X`, so cross-validation may have split `X_public` as well."""


class TooFewRowsWarning(UserWarning):
    """With so few private rows for ε, no accuracy bound holds, or the noise hides all effects."""


class UnprovedWarning(UserWarning):
    """The requested accuracy guarantee is proved for another learner, but not for this one."""


class AmbiguousLabelWarning(UserWarning):
    """The label -1, which could also mark unlabelled rows, is interpreted as a class."""


class DriftWarning(UserWarning):
    """Released counts of private rows differ from the counts predicted by the public rows."""


class LargeDeltaWarning(UserWarning):
    """δ is so large that even publishing some of the rows would satisfy differential privacy."""


class LargeEpsilonWarning(UserWarning):
    """ε is so large that an attacker who knows all other rows can almost always infer the last."""


class SeededRandomnessWarning(UserWarning):
    """A fit that is charged to a budget has a `random_state`, so its noise can be reproduced."""


class UnmeasuredWarning(UserWarning):
    """No released table measured the query, so the answer comes from a model of the tables."""


class UncoveredBoundsWarning(UserWarning):
    """The bins of a histogram do not cover the column's bounds, so some rows may not be counted.

    Also given if many survey weights exceed their declared maximum.
    """


class SyntheticTailsWarning(UserWarning):
    """Synthetic numbers are confined to the range of the public rows, but the bounds are wider."""


class UnknownCategoriesWarning(UserWarning):
    """Most values of a categorical column are categories that did not occur in `fit`."""


class ReadError(RuntimeError):
    """Rows could not be read or counted.

    The cause of the error is withheld, since it may quote a private value.
    """
