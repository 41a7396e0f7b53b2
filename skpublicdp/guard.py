"""Silence around other people's code, and around conversions, where they meet private rows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.threads import Shared


class RefusedError(ValueError):
    """Something in private rows will not do; what it is, is not quoted."""


class NotNumbersError(RefusedError, TypeError):
    """Some value is no number; Python and numpy call some of those a type, others a value."""


def _drop() -> Any:
    """Drop all warnings. Recorded, and not only ignored: code inside may change the filters."""
    return warnings.catch_warnings(record=True, action="ignore")


_SHARED = Shared(_drop)
_OWN_FILTERS = getattr(sys.flags, "context_aware_warnings", False)
"""Whether each thread has filters of its own, as in Python without the lock."""


def attempt(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """Return (result, None) or (None, error) of a call, and let nothing else out of it.

    Neither filters of warnings nor numpy's error state, as the user has set them, play a part.
    """
    with _drop() if _OWN_FILTERS else _SHARED, np.errstate(all="ignore"):
        try:
            return call(*args, **kwargs), None
        except Exception as error:
            return None, error


def guarded(call: Callable[..., Any], *args: Any, error: Exception, **kwargs: Any) -> Any:
    """Call other people's code on private rows, or convert these; whatever fails is `error`."""
    result, failure = attempt(call, *args, **kwargs)
    if failure is None:
        return result
    del failure  # it may quote a value
    raise error


ANYTHING: dict[str, Any] = {
    "ensure_2d": False,
    "allow_nd": True,
    "ensure_all_finite": False,
    "ensure_min_samples": 0,
    "ensure_min_features": 0,
}
"""Arguments with which `check_array` converts and checks nothing."""
