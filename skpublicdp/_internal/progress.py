"""Progress of a fit, for the logger `skpublicdp` and for scikit-learn's callbacks.

Both receive public facts only: names of stages, numbers of passes over the rows, and the privacy
costs that the receipt lists. They receive no rows, no chunks, and no numbers of rows but those of
the receipt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin as ProgressMixin
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    class ProgressMixin:  # type: ignore[no-redef]
        """Mixin that offers no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


__all__ = [
    "ProgressMixin",
    "pass_over_rows",
    "report",
    "reported_fit",
    "with_callbacks",
    "without_progress",
]

LOGGER = logging.getLogger("skpublicdp")
LOGGER.addHandler(logging.NullHandler())  # silent, unless the user configures logging


class _RunningFit:
    """A fit that reports its progress; `task` is its scikit-learn callback context, if any."""

    def __init__(self, estimator: Any, task: Any) -> None:
        self.estimator, self.task = estimator, task
        self.n_passes = 0


_RUNNING_FIT: ContextVar[_RunningFit | None] = ContextVar("running fit", default=None)

_IS_MUTED = ContextVar("_IS_MUTED", default=False)


@contextmanager
def without_progress() -> Iterator[None]:
    """Context manager for fits whose number or progress depends on private rows."""
    token = _IS_MUTED.set(True)
    try:
        yield
    finally:
        _IS_MUTED.reset(token)


def report(event: str, who: str) -> None:
    """Report a privacy cost before the answer that it pays for is computed."""
    with _task(event, who, max_subtasks=0):
        pass


@contextmanager
def pass_over_rows() -> Iterator[None]:
    """Report a pass over all rows, if a fit is running."""
    fit = _RUNNING_FIT.get()
    if fit is None:
        yield
        return
    fit.n_passes += 1
    who = type(fit.estimator).__name__
    # with an unknown number of subtasks, a pass has a progress bar of its own
    with _task(f"pass {fit.n_passes} over the rows", who, max_subtasks=None):
        yield


@contextmanager
def _task(name: str, who: str, *, max_subtasks: int | None) -> Iterator[None]:
    """Log a task, and report its start and end to the callbacks of the running fit."""
    if _IS_MUTED.get():
        yield
        return
    LOGGER.info("%s: %s", who, name)
    fit = _RUNNING_FIT.get()
    if fit is None or fit.task is None:
        yield
        return
    task = fit.task.subcontext(task_name=name, max_subtasks=max_subtasks)
    task.call_on_fit_task_begin(estimator=fit.estimator)
    try:
        yield
    finally:
        task.call_on_fit_task_end(estimator=fit.estimator)


@contextmanager
def reported_fit(estimator: Any) -> Iterator[None]:
    """Report the start of a fit, and its end unless it fails.

    The method that enters this context must be decorated with `with_callbacks`.
    """
    if _IS_MUTED.get():
        yield
        return
    name, task = type(estimator).__name__, None
    # scikit-learn's callbacks are experimental, so a fit without callbacks does not depend on them
    if hasattr(estimator, "set_callbacks") and any("callback" in key for key in vars(estimator)):
        task = estimator._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=estimator)
    LOGGER.info("%s: fit starts", name)
    token = _RUNNING_FIT.set(_RunningFit(estimator, task))
    try:
        yield
    finally:
        _RUNNING_FIT.reset(token)
    LOGGER.info("%s: fit ends", name)
    if task is not None:
        task.call_on_fit_task_end(estimator=estimator)
