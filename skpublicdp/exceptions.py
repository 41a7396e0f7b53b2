"""Exceptions and warnings of the package, and a function that issues warnings."""

import re
import sys
import types
import warnings

INTERNAL_PACKAGES = ("skpublicdp", "sklearn", "joblib")
"""Packages that are skipped in the search for the line of code to which a warning points."""

SHOWN_ONCE = ("default", "module", "once")
"""Actions of warning filters that do not repeat a warning."""

_NUMBER = re.compile(r"(?<![\w.])(?<!epsilon = )(?<!ε = )[-+]?\d[\d,.]*(?:e[-+]?\d+)?")
"""Numbers in a message, except ε and digits in names, such as x0."""

_issued: set[tuple[type[Warning], str, tuple[str, int]]] = set()
"""Category, message without numbers and line of each warning that this process has shown."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to a line of the user's code, once per process, line and setting.

    A search fits hundreds of times, and Python would repeat the warning whenever a number in it
    changes, such as the number of rows. Messages for the same line that differ only in numbers
    other than ε are therefore issued once. Filters with the action "always" or "error" are followed
    each time.
    """
    level, frame = 1, sys._getframe()  # level 1 is the line in this function
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        INTERNAL_PACKAGES
    ):
        level, frame = level + 1, frame.f_back
    line = (frame.f_code.co_filename, frame.f_lineno)
    key = (category, _NUMBER.sub("", message), line)
    is_shown_once = _filter_action(message, category, frame) in SHOWN_ONCE
    if is_shown_once and key in _issued:
        return
    warnings.warn(message, category, stacklevel=level)
    if is_shown_once:
        _issued.add(key)


def is_in_search() -> bool:
    """Indicate whether scikit-learn's model selection runs the current fit."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
            return True
        frame = frame.f_back
    return False


def _filter_action(message: str, category: type[Warning], frame: types.FrameType) -> str:
    """Return the action of the first warning filter that matches, such as "default" or "error"."""
    filters = getattr(warnings, "_get_filters", lambda: warnings.filters)()
    module = frame.f_globals.get("__name__", "")
    for action, text, filtered, modules, line in filters:
        matches = (
            issubclass(category, filtered)
            and (text is None or re.match(text, message))
            and (modules is None or re.match(modules, module))
            and line in (0, frame.f_lineno)
        )
        if matches:
            return str(action)
    return str(getattr(warnings, "defaultaction", "default"))


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


class OmittedRowsWarning(UserWarning):
    """Some persons have more than `max_rows_per_group` rows, of which the rest is left out."""


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


class BinnedNumberWarning(UserWarning):
    """A number in a query represents its bin, which contains other numbers as well."""


class UncoveredBoundsWarning(UserWarning):
    """The bins of a histogram do not cover the column's bounds, so some rows may not be counted.

    Also given if many survey weights exceed their declared maximum.
    """


class SyntheticTailsWarning(UserWarning):
    """Synthetic numbers are confined to the range of the public rows, but the bounds are wider."""


class TextColumnWarning(UserWarning):
    """The public values of a text column look like dates, amounts or free text."""


class UnknownCategoriesWarning(UserWarning):
    """Most values of a categorical column are categories that did not occur in `fit`."""


class ImplausibleScoreWarning(UserWarning):
    """A released score is far below chance, so labels may be coded differently."""


class InconsistentVersionWarning(UserWarning):
    """A fitted estimator is loaded in another minor or development version than its own."""


class ReadError(RuntimeError):
    """Rows could not be read or counted.

    The cause of the error is withheld, since it may quote a private value.
    """
