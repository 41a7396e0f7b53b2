"""One Dask cluster for all tests of rows: its processes take seconds to start."""

import pytest


@pytest.fixture(scope="package")
def worker_processes():
    """Two processes, which end with the folder: idle ones would still watch themselves."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def cluster(worker_processes):
    """A client of the processes, which is what Dask computes with until the module ends."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(worker_processes) as client:
        yield client
