"""One thread for linear algebra while something is fitted: its matrices are small."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks at all libraries that are loaded: once is enough


class _OneThread:
    """Limits BLAS from when the first of several fits begins until the last one ends.

    The limit is the whole process's: fits on other threads must not restore it, nor find a
    restored one half-way.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limit is not None:
                self._limit.restore_original_limits()


one_blas_thread = _OneThread()
"""A context in which linear algebra takes one thread: waiting ones cost more than they save."""
