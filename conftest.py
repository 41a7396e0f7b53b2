"""What holds for each test, each page and each docstring that runs: it leaves nothing behind."""

import gc
import os
import random
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_limits

import skpublicdp  # noqa: F401 - loads the libraries that have threads

# on small matrices threads wait for each other, and sums would depend on how many there are
threadpool_limits(1)
# the limit holds for this thread alone: workers, and threads of theirs, read the environment
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

collect_ignore = ["docs/conf.py"]  # imports Sphinx, which only the site needs

_n_cases = Counter()  # cases collected so far of each test


def pytest_itemcollected(item):
    """Mark all but one in k cases of a test with ``one_in(k)`` as slow.

    If a parameter has k values, the kept cases take turns among them.
    """
    marker = item.get_closest_marker("one_in")
    if marker is None:
        return
    (k,) = marker.args
    test = item.nodeid.split("[")[0]
    index = _n_cases[test]
    _n_cases[test] += 1
    if (index + index // k) % k:
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Hide what collection made from the garbage collector, which searches it again and again."""
    gc.collect()
    gc.freeze()


KEPT = ("PYTEST_", "PYSPARK_", "SPARK_")
"""Beginnings of variables that pytest changes while a test runs, and that sessions of Spark set, of
which all tests of a process share one."""


def _restore_environment(before):
    """Change the environment back, but for the variables of pytest and Spark."""
    for name in os.environ.keys() | before.keys():
        if name.startswith(KEPT) or os.environ.get(name) == before.get(name):
            continue
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]


def _restore_matplotlib(settings):
    """Close all figures, and restore settings or, if there were none, those of the first import.

    Matplotlib is not imported for that, as it takes a second and need not be there.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None:
        return
    if settings is None:
        matplotlib.rc_file_defaults()  # which leaves the backend alone
    else:
        dict.update(matplotlib.rcParams, settings)


def _settings_of_matplotlib():
    """Return the settings of matplotlib but for its backend, or None if nobody imported it."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None:
        return None
    settings = dict(matplotlib.rcParams.copy())
    settings.pop("backend", None)
    return settings


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    """Undo what a test changes for its whole process, and start it from the same global seeds."""
    folder, environment = os.getcwd(), dict(os.environ)
    settings = _settings_of_matplotlib()
    random.seed(20260)  # not 0, which a test of a seeded defect sets
    np.random.seed(20260)  # noqa: NPY002 - for tests that use it without a seed of their own
    with (
        warnings.catch_warnings(),
        np.printoptions(),
        np.errstate(),
        sklearn.config_context(),
    ):
        yield
    os.chdir(folder)
    _restore_environment(environment)
    _restore_matplotlib(settings)
