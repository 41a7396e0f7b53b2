"""Imports of optional packages, which are made only when a container needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def explain_missing(package: str, extra: str) -> Iterator[None]:
    """Replace an optional package's ImportError with an error that names the extra to install.

    The new error is raised outside of the handler, so that the traceback shows a single error.
    """
    try:
        yield
    except ImportError:
        is_missing = True
    else:
        is_missing = False
    if is_missing:
        raise ImportError(
            f"{package} must be installed to read these rows. Run `pip install '.[{extra}]'` in "
            "the folder of the sources."
        )


def pyarrow() -> Any:
    """Return the module pyarrow, after importing pyarrow.dataset."""
    with explain_missing("pyarrow", "arrow"):
        import pyarrow
        import pyarrow.dataset
    return pyarrow


def dask() -> Any:
    """Return the module dask."""
    with explain_missing("dask", "dask"):
        import dask
    return dask
