"""Text that can be written to files."""

from __future__ import annotations

from typing import Any


def is_valid_text(value: Any) -> bool:
    """Indicate whether a value can be written to files in UTF-8, i.e. has no lone surrogates."""
    try:
        str(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
