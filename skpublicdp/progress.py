"""Progress callbacks, on versions of scikit-learn that have them."""

from __future__ import annotations

from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(fit):  # type: ignore[no-untyped-def]
        """Return `fit` as it is."""
        return fit


WRAPPERS = 1 if hasattr(CallbackSupportMixin, "set_callbacks") else 0
"""Frames that `with_callbacks` puts between `fit` and its caller."""


class Stages:
    """Tells callbacks of the stages of a fit, and hands them no data, private rows least of all.

    Parameters
    ----------
    estimator : CallbackSupportMixin
        What is fitted.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._root = self._stage = None
        if WRAPPERS:
            self._root = estimator._init_callback_context(max_subtasks=None)
            self._root.call_on_fit_task_begin(estimator=estimator)

    def begin(self, name: str) -> None:
        """End the stage before, and begin another one."""
        if self._root is not None:
            self._end_stage()
            self._stage = self._root.subcontext(task_name=name)
            self._stage.call_on_fit_task_begin(estimator=self._estimator)

    def end(self) -> None:
        """End the last stage, and the fit."""
        if self._root is not None:
            self._end_stage()
            self._root.call_on_fit_task_end(estimator=self._estimator)

    def _end_stage(self) -> None:
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
