"""Small chunks, Dask in this process, and a Dask cluster, which takes seconds to start."""

import multiprocessing
from multiprocessing import forkserver

import pytest

from tests.data.internals import streaming


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 100 rows, which none of the parts are made of, and Dask without a cluster."""
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 100)
    monkeypatch.setattr(streaming, "MIN_CHUNK_ROWS", 16)
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(scope="module")
def worker_processes():
    """Two processes, which end with the module: idle ones would still watch themselves."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    settings = {"distributed.worker.profile.enabled": False}
    if "forkserver" in multiprocessing.get_all_start_methods():
        # one process imports the package, and workers are copies of it
        multiprocessing.set_forkserver_preload(["distributed", "dask.dataframe", "skpublicdp"])
        forkserver.ensure_running()
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(small_chunks, worker_processes):
    """A client of both processes, which is what Dask computes with until the test ends."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(worker_processes) as client:
        client.wait_for_workers(2)  # a test before may have killed one
        yield client
