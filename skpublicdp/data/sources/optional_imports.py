"""Import optional packages only when a container needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def explain_missing(package: str, extra: str) -> Iterator[None]:
    """Raise an error that names the extra to install if an import fails.

    It is raised outside the handler, so that the traceback shows one error.
    """
    try:
        yield
    except ImportError:
        is_missing = True
    else:
        is_missing = False
    if is_missing:
        raise ImportError(
            f"{package} must be installed to read these rows; run "
            f"`pip install 'skpublicdp[{extra}]'`."
        )


def pyarrow() -> Any:
    """Import pyarrow with its datasets."""
    with explain_missing("pyarrow", "arrow"):
        import pyarrow
        import pyarrow.dataset
    return pyarrow


def dask() -> Any:
    """Import Dask."""
    with explain_missing("dask", "dask"):
        import dask
    return dask
