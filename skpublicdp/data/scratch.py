"""Scratch arrays: in memory if small, otherwise mapped from an anonymous temporary file."""

from __future__ import annotations

import math
import mmap
import os
import shutil
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

IN_MEMORY = 2**28
"""Bytes up to which an array is ordinary memory."""


def scratch_array(
    shape: tuple[int, ...], dtype: DTypeLike, *, limit: int = IN_MEMORY
) -> NDArray[Any]:
    """Return a new array of zeros for codes of private rows.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    dtype : dtype
        A type of fixed width.
    limit : int, default=2**28
        Bytes up to which the array is ordinary memory. A larger one is mapped from a temporary
        file that its owner alone may read and that has no name, so that it is gone when the array
        is, or the process, even after a crash. `TMPDIR` says where.

    Returns
    -------
    ndarray of the shape
        Writable.

    Raises
    ------
    OSError
        If the directory for temporary files has no room.

    Examples
    --------
    >>> codes = scratch_array((4, 2), np.uint8)
    >>> codes[:2] = 7
    >>> codes.sum()
    np.uint64(28)
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size <= limit:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile(prefix="skpublicdp-") as file:
        if not _reserve(file.fileno(), size):
            raise OSError(
                f"Codes of the rows need {size / 1e9:.2g} GB of disk in {tempfile.gettempdir()}, "
                "which has less; set the environment variable TMPDIR to a directory that has room."
            )
        return np.frombuffer(mmap.mmap(file.fileno(), size), kind).reshape(shape)


def _reserve(descriptor: int, size: int) -> bool:
    """Claim the space now: a sparse file that meets a full disk later kills the process."""
    if shutil.disk_usage(tempfile.gettempdir()).free < size:
        return False
    try:
        os.truncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True
