"""Properties are tried on the same examples at every run, and never against a clock."""

from hypothesis import settings
from threadpoolctl import threadpool_limits

import skpublicdp  # noqa: F401 - loads the libraries that have threads

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")
# on small matrices threads wait for each other, and sums would depend on how many there are
threadpool_limits(1)
