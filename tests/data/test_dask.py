"""Dask: what is sent to workers and computed by them, on a cluster of two processes or on none."""

import os
import pickle
import signal
import warnings
from collections import UserDict
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest

from skpublicdp import PrivacyBudget
from skpublicdp.data import open_rows
from skpublicdp.exceptions import ReadError
from tests.data import models
from tests.data.containers import (
    LABELLED,
    PARTS,
    SUMS,
    Killer,
    N,
    dask_frame,
    dd,
    pd,
    split,
    sums,
)
from tests.data.internals import NotNumbersError, as_rows, worker_readers
from tests.data.models import FITS, FRAME, bits, expected, fit, fitted, unfitted

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.usefixtures("small_chunks"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]

FULL = [i for i, part in enumerate(PARTS) if part.num_rows]


def part(i):
    return PARTS[i].to_pandas()


def partitions(make=part):
    return dd.from_map(make, range(len(PARTS)), meta=part(0))


def height(chunk):
    return np.array([len(chunk.X)])


# Without a cluster


def test_large_partitions_are_cut_in_threads(monkeypatch):
    monkeypatch.setattr(worker_readers, "rows_per_chunk", lambda columns: 100)
    with dask.config.set(scheduler="threads"):
        rows = as_rows(*LABELLED["dask_and_array"](None))
        np.testing.assert_array_equal(rows.fold(sums), SUMS)
        assert max(rows.map(height)) == 100
        np.testing.assert_array_equal(rows.fold(height), [N])


@pytest.mark.parametrize("shared", [False, True])
def test_each_partition_is_computed_once_in_a_pass(shared):
    """Rows and labels together, and what several partitions are made of once, too."""
    loaded = []

    def load(i, *others):
        loaded.append(i)
        return part(i)

    common = dask.delayed(load, pure=False)(0)
    delayed = [dask.delayed(load)(i, common) for i in range(len(PARTS))]
    ddf = dd.from_delayed(delayed, meta=part(0), verify_meta=False) if shared else partitions(load)
    # one task for rows and labels: else Dask reads columns by themselves
    rows = as_rows(*split(open_rows(ddf.map_partitions(pd.DataFrame.copy, meta=part(0)))))
    assert rows.n_rows == N
    loaded.clear()
    np.testing.assert_array_equal(rows.fold(sums), SUMS)
    assert sorted(loaded) == sorted(FULL + [0] * shared)


def test_rows_and_labels_are_counted_together_and_labels_read_no_rows():
    loaded, tasks = [], []

    def load(i):
        loaded.append(i)
        return part(i)

    def scheduler(graph, keys, **options):
        tasks.extend(keys)
        return dask.get(graph, keys)

    y = dd.from_map(lambda i: part(i)["label"], range(len(PARTS)), meta=part(0)["label"])
    with dask.config.set(scheduler=scheduler):
        rows = as_rows(partitions(load).map_partitions(pd.DataFrame.copy, meta=part(0)), y)
        assert rows.n_rows == rows._labels.n_rows == N
        assert len(tasks) == len(loaded) == len(PARTS)
        list(rows.map_labels(np.asarray))
        assert len(loaded) == len(PARTS)


class Graph(UserDict):
    """A graph that counts how often all its keys are asked for."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


def test_graphs_of_many_partitions_are_walked_once():
    graph = Graph({("part", i): (part, i) for i in range(1000)})
    delayed = [SimpleNamespace(dask=graph, key=key) for key in graph]
    graph.walks = 0
    alone = as_rows(partitions())._reader._embed_graphs(delayed)
    assert [one.graph for one in alone] == [{key: graph[key]} for key in graph.data]
    assert graph.walks <= 2


class Client:
    """A cluster that computes at once and counts what nobody has asked for yet."""

    def __init__(self):
        self.calls, self.most, self.waiting = 0, 0, 0

    def nthreads(self):
        return {"one": 1, "two": 2}

    def compute(self, tasks):
        self.calls += 1
        self.waiting += len(tasks)
        self.most = max(self.most, self.waiting)
        return [Future(self, task.compute(scheduler="sync")) for task in tasks]


class Future:
    def __init__(self, client, value):
        self.client, self.value = client, value

    def result(self):
        return self.value

    def release(self):
        self.client.waiting -= 1


def test_few_results_wait_and_few_messages_are_sent(monkeypatch):
    client = Client()
    monkeypatch.setattr(worker_readers, "_client", lambda: client)
    rows = as_rows(dd.from_pandas(pd.DataFrame({"a": range(100)}), npartitions=50))
    assert rows.n_rows == 100
    assert client.calls <= 13
    assert client.most <= 8
    assert client.waiting == 0
    values = rows.map(lambda chunk: chunk.X["a"].tolist())
    assert [value for chunk in values for value in chunk] == list(range(100))
    early = rows.map(lambda chunk: chunk.start)
    next(early)
    early.close()
    assert client.waiting == 0


@pytest.mark.parametrize("name", FITS)
def test_the_tasks_of_every_estimator_may_travel(name):
    n_tasks = []

    def scheduler(graph, keys, **options):
        n_tasks.append(len(keys))
        return dask.get(*pickle.loads(cloudpickle.dumps((graph, keys))))

    with dask.config.set(scheduler=scheduler):
        assert bits(name, fitted(name, dask_frame(models.PARTS))) == expected(name)
    assert len(n_tasks) > 1


# On a cluster


def process(chunk):
    return os.getpid()


def first_process(chunk):
    """A table whose sum tells the process only if there is one chunk."""
    return np.array([os.getpid() if chunk.start == 0 else 0])


def test_work_is_done_where_the_rows_are(cluster, tmp_path):
    for name in LABELLED:
        if name.startswith("dask") and name != "dask_unequal":
            rows = as_rows(*LABELLED[name](tmp_path))
            assert os.getpid() not in set(rows.map(process)), name
            assert os.getpid() not in {*rows.fold(first_process)}, name
            np.testing.assert_array_equal(rows.fold(sums), SUMS)


@pytest.mark.parametrize("name", ["dask", "dask_array"])
def test_what_workers_hold_is_not_computed_anew(cluster, name):
    X, y = LABELLED[name](None)
    held = X.persist(), y.persist()
    asked, apart = (as_rows(rows)._reader._partitions([0]) for rows in (X, held[0]))
    assert isinstance(apart[0], type(dask.delayed(0)).__base__)
    # one array of which all are cut is work that they share
    assert (type(asked[0]) is type(apart[0])) == (name == "dask_array")
    np.testing.assert_array_equal(as_rows(*held).fold(sums), SUMS)


def quoting(chunk):
    warnings.warn("odd value 73019", UserWarning, stacklevel=1)
    raise ValueError("odd value 73019")


def refusing(chunk):
    raise NotNumbersError("Column 'a' must contain numbers.")


def test_a_chunk_that_fails_on_a_worker_is_one_error(cluster):
    rows = as_rows(partitions())
    for use in (rows.fold, lambda task: list(rows.map(task))):
        for task, error in ((quoting, ReadError), (refusing, NotNumbersError)):
            with pytest.raises(error) as raised:
                use(task)
            assert raised.value.__cause__ is raised.value.__context__ is None
            assert "73019" not in str(raised.value)
    np.testing.assert_array_equal(rows.fold(height), [N])


@pytest.mark.parametrize("name", ["trees", "boosting", "pairs"])
def test_the_model_is_that_of_the_frame(cluster, name):
    assert bits(name, fitted(name, dask_frame(models.PARTS))) == expected(name)


class Many:
    """Partitions of so many rows, made on the workers."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, i):
        return models.people(self.rows, i).to_pandas()


def bytes_sent(monkeypatch, rows, name, has_persons):
    """Return the bytes of each message that one fit sends to workers."""
    sent, compute = [], distributed.Client.compute

    def noting(self, tasks, *args, **kwargs):
        sent.append(len(cloudpickle.dumps(tasks)))
        return compute(self, tasks, *args, **kwargs)

    ddf = dd.from_map(Many(rows), range(4), meta=FRAME[:0])
    groups = {"groups": np.arange(4 * rows) % rows} if has_persons else {}
    with monkeypatch.context() as patch:
        patch.setattr(distributed.Client, "compute", noting)
        model = unfitted(name, max_rows_per_group=2 if has_persons else None)
        fit(model, name, ddf, **groups)
    return sent


@pytest.mark.parametrize(
    ("name", "has_persons"),
    [("trees", False), ("boosting", False), ("boosting", True), ("pairs", False)],
)
def test_what_is_sent_to_workers_does_not_grow_with_the_rows(
    cluster, monkeypatch, name, has_persons
):
    few, many = (bytes_sent(monkeypatch, rows, name, has_persons) for rows in (100, 1500))
    # of a mask, a task gets the part for its own rows; a message holds all four tasks
    assert max(many) < max(few) + 2000 + 4 * 1500 * has_persons


def test_few_bytes_come_back_from_the_workers(cluster, monkeypatch):
    """Boosting gets codes back, of one byte or two for each value."""
    got, result = [], worker_readers.DaskReader._result

    def noting(self, future):
        found = result(self, future)
        got.append(len(cloudpickle.dumps(found)))
        return found

    monkeypatch.setattr(worker_readers.DaskReader, "_result", noting)
    ddf = dd.from_map(Many(600), range(4), meta=FRAME[:0])
    fit(unfitted("boosting"), "boosting", ddf)
    assert sum(got) < (2 * len(models.MIXED) + 3) * 4 * 600


class Deadly:
    """Partitions of which one kills its worker, once, when it has been read so often before."""

    def __init__(self, directory, reads):
        self.directory, self.reads = str(directory), reads

    def __call__(self, i):
        if i == 2:
            reads = len(os.listdir(self.directory))
            open(os.path.join(self.directory, str(reads)), "w").close()
            if reads == self.reads:
                os.kill(os.getpid(), signal.SIGKILL)
        return models.PARTS[i].to_pandas()


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("trees", 2),
        *(
            pytest.param(name, reads, marks=pytest.mark.slow)
            for name in FITS
            for reads in range(3)
            if (name, reads) != ("trees", 2)
        ),
    ],
)
def test_a_worker_killed_in_any_pass_changes_nothing(cluster, tmp_path, name, reads):
    budget = PrivacyBudget(10, 1e-3, for_tests=True)
    ddf = dd.from_map(Deadly(tmp_path, reads), range(4), meta=FRAME[:0])
    model = fitted(name, open_rows(ddf), budget=budget)
    if FITS[name][2] is not None or reads < 2:  # without labels there are two passes at least
        assert len(os.listdir(tmp_path)) > reads + 1  # killed, and read again
    assert len(budget.ledger) == 1
    alone = fitted(name, FRAME, budget=PrivacyBudget(10, 1e-3, for_tests=True))
    assert bits(name, model) == bits(name, alone)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_counts_no_row_twice(cluster, tmp_path):
    rows = as_rows(*split(partitions()))
    np.testing.assert_array_equal(rows.fold(Killer(tmp_path, 1)), SUMS)
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.slow
def test_workers_that_are_killed_again_and_again_are_one_error(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.cluster.scheduler, "allowed_failures", 0)
    rows = as_rows(*split(partitions()))
    with pytest.raises(ReadError, match="Dask collection") as raised:
        rows.fold(Killer(tmp_path, 9))
    assert raised.value.__cause__ is raised.value.__context__ is None
    np.testing.assert_array_equal(rows.fold(sums), SUMS)
