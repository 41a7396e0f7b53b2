"""Errors and warnings with a meaning of their own, and the one function that warns."""

import sys
import warnings

INSIDE = ("skpublicdp", "sklearn", "joblib")
"""A warning names the first line that is in none of these."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's own line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class PrivacyBudgetError(RuntimeError):
    """More was asked for than a budget holds; nothing was spent or drawn.

    No private row was read either, unless others spent in the meantime what was left.
    """


class CoverSizeError(ValueError):
    """A cover's table would not fit in memory; the message names its size and the remedy."""


class NoPublicDataWarning(UserWarning):
    """No public rows were given, or too little is known of some columns."""


class SlicedPublicDataWarning(UserWarning):
    """`X_public` has as many rows as `X`, which is what a cross-validation that cut it leaves."""


class TooFewRowsWarning(UserWarning):
    """So few private rows, for ε, that no theorem holds or that noise hides all they could show."""


class UnprovedWarning(UserWarning):
    """What was asked for is promised by a theorem about another learner."""


class AmbiguousLabelWarning(UserWarning):
    """-1 may mark unlabelled rows or be one of two labels; it is read as a label."""


class DriftWarning(UserWarning):
    """Released counts of private rows are not what the public rows lead to expect."""


class LargeDeltaWarning(UserWarning):
    """δ is so large for the number of rows that publishing some of them would satisfy it."""


class LargeEpsilonWarning(UserWarning):
    """ε is so large that whoever knows all other rows can almost always identify the last one."""


class SeededRandomnessWarning(UserWarning):
    """A fit charged to a budget has a `random_state`: its noise can be repeated, hence undone."""


class UnmeasuredWarning(UserWarning):
    """An answer comes from a model of released tables, none of which was about the question."""


class UncoveredBoundsWarning(UserWarning):
    """The bins of a histogram do not cover the bounds of the column: some rows are in no bin."""


class UnknownCategoriesWarning(UserWarning):
    """Most values of a categorical column given to a fitted model are no category of its fit."""


class ReadError(RuntimeError):
    """Rows could not be read or counted; what failed is not quoted, as it may quote a value."""
