"""How rows are read: no more of a file than is asked for, and few results at a time."""

import numpy as np
import pandas as pd
import pytest

from skpublicdp.data.sources import dask_reader
from skpublicdp.data.streaming import as_rows, open_rows
from skpublicdp.exceptions import ReadError

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
dd = pytest.importorskip("dask.dataframe")

N = 1000
NUMBERS = np.arange(N)
WORDS = np.array([f"word {k % 7}" for k in range(N)], dtype=object)


def people(rows=slice(None)):
    return pa.table({"number": NUMBERS[rows], "word": WORDS[rows], "label": NUMBERS[rows] % 2})


def damaged(path, kept, **options):
    """A file of ten row groups, of which one can be read."""
    pq.write_table(people(), path, row_group_size=100, use_dictionary=False, **options)
    group = pq.ParquetFile(path).metadata
    content = bytearray(path.read_bytes())
    for number in {*range(10)} - kept:
        for column in range(3):
            chunk = group.row_group(number).column(column)
            start = chunk.data_page_offset
            content[start : start + chunk.total_compressed_size] = bytes(
                chunk.total_compressed_size
            )
    path.write_bytes(content)


def test_rows_are_taken_from_their_row_groups_alone(tmp_path):
    damaged(tmp_path / "a.parquet", {3, 5})
    damaged(tmp_path / "b.parquet", {0})
    rows = open_rows(str(tmp_path / "*.parquet"))
    rows = as_rows(rows.drop("label"), rows["label"])
    positions = [599, 300, 1007, 399, 300]
    found = rows.take_chunk(positions)
    assert found.X["number"].to_pylist() == [p % N for p in positions]
    assert found.X["word"].to_pylist() == [WORDS[p % N] for p in positions]
    assert found.X.schema == rows.empty().schema
    assert np.asarray(found.y).tolist() == [p % 2 for p in positions]
    with pytest.raises(ReadError, match="could not be read"):
        rows.take([200])
    with pytest.raises(ReadError, match="could not be read"):
        rows.fold(lambda chunk: np.array([len(chunk.X["word"].to_pylist())]))


def test_text_of_files_comes_in_dictionaries_only_to_those_who_ask(tmp_path):
    pq.write_table(people(slice(0, 600)), tmp_path / "a.parquet", row_group_size=150)
    stored = people(slice(600, N)).set_column(
        1, "word", people(slice(600, N))["word"].combine_chunks().dictionary_encode()
    )
    pq.write_table(stored, tmp_path / "b.parquet")
    rows = open_rows([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    rows = as_rows(rows.drop("label"), rows["word"])
    (plain,) = rows.map(lambda chunk: chunk)
    assert plain.X.schema == rows.empty().schema
    (read,) = rows.map(lambda chunk: chunk, keep_dictionaries=True)
    assert pa.types.is_dictionary(read.X["word"].type)
    for chunk in (plain, read):  # labels are never in dictionaries
        assert chunk.y.type == pa.string()
        assert chunk.X["word"].to_pylist() == chunk.y.to_pylist() == WORDS.tolist()


PLANS = {
    "a scan": (lambda frame: frame, True),
    "filters and columns": (
        lambda frame: frame.filter(pl.col("a") > 1).with_columns(z=2 * pl.col("a")).drop("b"),
        True,
    ),
    "names of other steps": (
        lambda frame: frame.filter(pl.col("b") != "SORT\nJOIN").rename({"a": "SORT BY"}),
        None,  # either will do
    ),
    "a sort": (lambda frame: frame.sort("a"), False),
    "a join": (lambda frame: frame.join(frame, on="a"), False),
    "groups": (lambda frame: frame.group_by("a").len(), False),
    "distinct rows": (lambda frame: frame.unique(), False),
    "somebody's function": (lambda frame: frame.map_batches(lambda part: part[::-1]), False),
    "a filtered sort": (lambda frame: frame.sort("a").filter(pl.col("a") > 1), False),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("scan", ["memory", "parquet", "csv"])
def test_lazy_frames_have_an_order_if_no_step_may_change_it(name, scan, tmp_path):
    table = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    table.write_parquet(tmp_path / "t.parquet")
    table.write_csv(tmp_path / "t.csv")
    frame = {
        "memory": table.lazy(),
        "parquet": pl.scan_parquet(tmp_path / "t.parquet"),
        "csv": pl.scan_csv(tmp_path / "t.csv"),
    }[scan]
    plan, ordered = PLANS[name]
    found = open_rows(plan(frame)).ordered
    assert ordered is None or found == ordered


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
    monkeypatch.setattr(dask_reader, "_client", lambda: client)
    frame = dd.from_pandas(pd.DataFrame({"a": range(100)}), npartitions=50)
    reader = dask_reader.DaskReader(frame)
    assert reader.n_rows == 100
    assert client.calls <= 13
    assert client.most <= 8
    assert client.waiting == 0
    client.calls = 0
    rows = as_rows(frame)
    passes = rows.map(lambda chunk: chunk.X["a"].tolist())
    assert [value for part in passes for value in part] == list(range(100))
    early = rows.map(lambda chunk: chunk.start)
    next(early)
    early.close()
    assert client.waiting == 0
