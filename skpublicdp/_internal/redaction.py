"""Redaction of errors and warnings that can quote private rows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp._internal.threads import RefCountedContext


class RefusedError(ValueError):
    """A private row contains an invalid value, which the message does not quote."""


class NotNumbersError(RefusedError, TypeError):
    """A value is not a number.

    The exception is also a TypeError, because Python raises this type for some values.
    """

    # names of the columns in which numbers could be declared as missing
    names: tuple[str, ...] = ()


def _without_warnings() -> Any:
    """Return a context manager that suppresses all warnings.

    Warnings are recorded rather than filtered, since code inside the context can change the
    filters.
    """
    return warnings.catch_warnings(record=True, action="ignore")


_SHARED_FILTERS = RefCountedContext(_without_warnings)
_FILTERS_ARE_PER_THREAD = getattr(sys.flags, "context_aware_warnings", False)
"""Whether each thread has its own warning filters, as it does in free-threaded Python."""


def call_silently(
    call: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, BaseException | None]:
    """Call a function without showing warnings, and return (result, None) or (None, error).

    The result does not depend on the user's warning filters or on numpy's error state. Errors that
    are not an `Exception` are returned as well, because libraries written in Rust raise such errors
    when they fail, and the message can quote a value. Only KeyboardInterrupt, SystemExit and
    GeneratorExit are raised.
    """
    with (
        _without_warnings() if _FILTERS_ARE_PER_THREAD else _SHARED_FILTERS,
        np.errstate(all="ignore"),
    ):
        try:
            return call(*args, **kwargs), None
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            return None, error


def call_or_raise(call: Callable[..., Any], *args: Any, error: Exception, **kwargs: Any) -> Any:
    """Return the result of a call that reads private rows.

    If the call fails, `error` is raised instead of the original exception, which may quote a value.
    """
    result, failure = call_silently(call, *args, **kwargs)
    if failure is None:
        return result
    del failure, args, kwargs  # they may contain private values, which a debugger would show
    raise error


NO_CHECKS: dict[str, Any] = {
    "ensure_2d": False,
    "allow_nd": True,
    "ensure_all_finite": False,
    "ensure_min_samples": 0,
    "ensure_min_features": 0,
}
"""Arguments with which `check_array` converts its input without any validation."""
