"""Tables of engines that only `make engines` installs, for the contract suites of rows."""

import importlib.util

IBIS_BACKENDS = ["polars", "sqlite", "duckdb"] if importlib.util.find_spec("ibis") else []
"""Engines behind ibis; DuckDB of a version that ibis reads."""


def ibis_table(backend, table):
    """Return a pyarrow table as one of ibis, in a new database of an engine."""
    import ibis

    return getattr(ibis, backend).connect().create_table("people", table)


def named(make, name, *args):
    """Return a function of a directory that calls make(*args, directory), under a name."""

    def call(directory=None):
        return make(*args, directory)

    call.__name__ = name
    return call
