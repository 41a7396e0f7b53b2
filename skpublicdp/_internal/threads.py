"""Context managers shared by threads, such as the one that limits BLAS to one thread in a fit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class RefCountedContext:
    """Context manager that lets several threads use a process-wide setting simultaneously.

    The first thread enters an inner context, and the last thread exits this context. If an earlier
    thread exited the inner context, the old setting would be restored while other threads still
    need the new one.

    Parameters
    ----------
    make : callable
        Function that returns a new inner context manager, which changes the setting.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0  # number of threads that use the setting

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._context = self._make()
                self._context.__enter__()
            self._n_inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._context.__exit__(None, None, None)


@cache
def _controller() -> Any:
    """Return the controller of BLAS thread pools, cached because creating one is slow."""
    return ThreadpoolController()


one_blas_thread = RefCountedContext(lambda: _controller().limit(limits=1, user_api="blas"))
"""Context that limits BLAS to one thread, since the matrices of a fit are too small to benefit from
more threads."""
