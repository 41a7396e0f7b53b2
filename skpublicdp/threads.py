"""Contexts that threads share; one of them is a single thread for linear algebra."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class Shared:
    """A context of the whole process: the first thread that comes enters it, the last one leaves.

    One that left earlier would restore what others still want changed.

    Parameters
    ----------
    make : callable
        Returns what to enter.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._lock, self._inside = make, threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._context = self._make()
                self._context.__enter__()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._context.__exit__(None, None, None)


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks at all libraries that are loaded: once is enough


one_blas_thread = Shared(lambda: _controller().limit(limits=1, user_api="blas"))
"""While something is fitted its matrices are small: waiting threads cost more than they save."""
