"""Progress callbacks, on versions of scikit-learn that have them."""

from __future__ import annotations

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(fit):  # type: ignore[no-untyped-def]
        """Return `fit` as it is."""
        return fit


def stage_reporter(estimator):  # type: ignore[no-untyped-def]
    """Return a function to be called with the name of each stage of a fit that ends.

    It hands no data to a callback, private rows least of all.
    """
    if not hasattr(estimator, "_init_callback_context"):
        return lambda name: None
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator)

    def report(name: str) -> None:
        stage = context.subcontext(task_name=name)
        stage.call_on_fit_task_begin(estimator=estimator)
        stage.call_on_fit_task_end(estimator=estimator)

    return report
