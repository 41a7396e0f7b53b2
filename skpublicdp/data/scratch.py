"""Scratch arrays, which are in memory if small, and otherwise in an anonymous temporary file."""

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
"""Maximum size, in bytes, of an array in ordinary memory."""


def scratch_array(
    shape: tuple[int, ...], dtype: DTypeLike, *, limit: int = IN_MEMORY
) -> NDArray[Any]:
    """Return a new writable array of zeros for codes of private rows.

    A large array is mapped from an unnamed temporary file that only its owner can read. The system
    deletes this file when the array is deleted or when the process ends, even if it crashes.

    Examples
    --------
    >>> codes = scratch_array((4, 2), np.uint8)
    >>> codes[:2] = 7
    >>> codes.sum()
    np.uint64(28)
    """
    dtype = np.dtype(dtype)
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes <= limit:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile(prefix="skpublicdp-") as file:
        if not _reserve(file.fileno(), n_bytes):
            raise OSError(
                f"The encoded rows require {n_bytes / 1000000000.0:.2g} GB of disk space, but less "
                f"is free in {tempfile.gettempdir()}. Set the environment variable TMPDIR to a "
                "directory with more space."
            )
        return np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype).reshape(shape)


def _reserve(descriptor: int, size: int) -> bool:
    """Allocate disk space for a file, and indicate whether the allocation succeeded.

    Without this allocation, the file would be sparse, and a full disk would later kill the process.
    """
    if shutil.disk_usage(tempfile.gettempdir()).free < size:
        return False
    try:
        os.truncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True
