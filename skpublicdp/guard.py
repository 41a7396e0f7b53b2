"""Silence around other people's code, and around conversions, where they meet private rows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np


class RefusedError(ValueError):
    """Something in private rows will not do; what it is, is not quoted."""


class NotNumbersError(RefusedError, TypeError):
    """Some value is no number; Python and numpy call some of those a type, others a value."""


class _Silence:
    """Drops all warnings while anybody is inside: threads share the filters, so the last restores.

    Recorded, and not only ignored: code inside may change the filters.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters = _drop()
                self._filters.__enter__()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


def _drop() -> Any:
    return warnings.catch_warnings(record=True, action="ignore")


_SHARED = _Silence()
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
