"""Properties are tried on the same examples at every run, and never against a clock."""

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from skpublicdp.data import persons  # also loads the libraries that have threads

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")
# on small matrices threads wait for each other, and sums would depend on how many there are
threadpool_limits(1)


@pytest.fixture
def keep_first_rows(monkeypatch):
    """Persons keep their first rows, which is one of the choices that a fit may draw."""
    monkeypatch.setattr(persons, "random_ranks", lambda n, ledger: np.arange(n))
