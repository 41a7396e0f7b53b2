"""Package version in the state of fitted estimators, and a warning if another version loads it."""

from __future__ import annotations

from typing import Any

from skpublicdp.exceptions import InconsistentVersionWarning, warn

VERSION_KEY = "_skpublicdp_version"
"""Entry of a pickled state with the package version that fitted an estimator.

After loading in another version, it is an attribute until the next fit, so that copies keep it."""


def package_version() -> str:
    """Return the version of this package."""
    from skpublicdp import __version__  # the package imports its estimators first

    return __version__


def state_format(version: str) -> str:
    """Return the part of a version that determines the state of fitted estimators."""
    # development versions may change it at any time
    return version if "dev" in version else ".".join(version.split(".")[:2])


class VersionedMixin:
    """Mixin that pickles an estimator with a version, and warns if another one loads it."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {VERSION_KEY: package_version(), **state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved, current = state.get(VERSION_KEY, "0.1 or earlier"), package_version()
        if saved == current:
            state = {name: value for name, value in state.items() if name != VERSION_KEY}
        super_setstate: Any = super().__setstate__  # type: ignore[misc]
        super_setstate(state)
        is_fitted = any(name.endswith("_") and not name.startswith("_") for name in state)
        if is_fitted and state_format(saved) != state_format(current):
            warn(
                f"{type(self).__name__} was fitted with version {saved} of skpublicdp and is used "
                f"with version {current}. Its predictions and receipts may differ or fail: use the "
                "version that fitted it, or fit it again.",
                InconsistentVersionWarning,
            )
