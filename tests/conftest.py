"""Properties are tried on the same examples at every run, and never against a clock.

The profile "thorough", which `make test-slow` uses, tries more of them.
"""

import os

import numpy as np
import pytest
from hypothesis import settings

from tests.internals.data import roles

COMMON = {"deadline": None, "derandomize": True, "database": None}
settings.register_profile("repeatable", max_examples=40, **COMMON)
settings.register_profile("thorough", max_examples=400, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def keep_first_rows(monkeypatch):
    """Persons keep their first rows, which is one of the choices that a fit may draw."""
    monkeypatch.setattr(roles, "random_ranks", lambda n, ledger: np.arange(n))
