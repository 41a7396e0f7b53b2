"""Properties are tried on the same examples at every run, and never against a clock.

The profile "thorough", which `make test-slow` uses, tries more of them.
"""

import os

from hypothesis import settings

COMMON = {"deadline": None, "derandomize": True, "database": None}
settings.register_profile("repeatable", max_examples=40, **COMMON)
settings.register_profile("thorough", max_examples=400, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
