"""What goes wrong on Spark's executors: the same table, or one sentence that quotes no row."""

import os
import signal

import numpy as np
import pytest

from skpublicdp._internal.redaction import NotNumbersError
from skpublicdp.data.streaming import as_rows
from tests.data.engines import SPARK, spark_session
from tests.data.test_rows_faults import EXPECTED, SECRET, N, quoting, refusal, sums, table

pytestmark = pytest.mark.skipif(not SPARK, reason="needs pyspark and Java")


def people():
    """The rows of `table` in three partitions."""
    return spark_session().createDataFrame(table()).repartition(3)


class Killer:
    """Kills the process that it works in, as often as it is told."""

    def __init__(self, directory, times):
        self.directory, self.times = str(directory), times

    def __call__(self, chunk):
        deaths = len(os.listdir(self.directory))
        if 300 in chunk.X["a"].to_pylist() and deaths < self.times:
            open(os.path.join(self.directory, str(deaths)), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return sums(chunk)


def test_a_worker_killed_in_the_middle_counts_no_row_twice(tmp_path):
    rows = as_rows(people())
    assert rows.fold(Killer(tmp_path, 1)).tolist() == EXPECTED
    assert len(os.listdir(tmp_path)) == 1
    parts = list(rows.map(Killer(tmp_path, 2)))
    assert len(os.listdir(tmp_path)) == 2
    assert np.sum(parts, axis=0).tolist() == EXPECTED


def test_workers_that_are_killed_again_and_again_are_one_sentence(tmp_path):
    rows = as_rows(people())
    text = refusal(lambda: rows.fold(Killer(tmp_path, 9)))
    assert text.startswith(
        "The rows of the Spark DataFrame could not be read; try to run an action on it"
    )
    assert rows.fold(sums).tolist() == EXPECTED


def test_a_source_that_fails_in_the_middle_is_one_sentence():
    frame = people().selectExpr(f"if(a = 400, 'x{SECRET}', a) as a").selectExpr("cast(a as long)")
    for use in (lambda rows: rows.fold(sums), lambda rows: list(rows.map(sums))):
        text = refusal(lambda use=use: use(as_rows(frame)))
        assert text.startswith("The rows of the Spark DataFrame could not be read; ")


def refusing(chunk):
    raise NotNumbersError("Column 'a' must contain numbers.")


def test_a_chunk_that_fails_is_one_sentence():
    rows = as_rows(people())
    for use in (rows.fold, lambda f: list(rows.map(f))):
        text = refusal(lambda use=use: use(quoting_always))
        assert text.startswith("A chunk of rows could not be processed; ")
        given = refusal(lambda use=use: use(refusing), NotNumbersError)
        assert given == "Column 'a' must contain numbers."
    assert rows.fold(sums).tolist() == EXPECTED


def quoting_always(chunk):
    """Fail on all chunks: positions are those in partitions."""
    return quoting(type(chunk)(chunk.X, chunk.y, N))


@pytest.mark.parametrize("change", ["fewer", "more"])
def test_rows_that_are_not_those_that_were_counted(change, tmp_path):
    """A table whose file is written anew once rows are counted."""
    switch = str(tmp_path / "switch")

    def changing(batches):
        for batch in batches:
            if os.path.exists(switch):
                batch = batch.slice(1)
                if change == "more":
                    yield batch
            yield batch

    frame = people()
    rows = as_rows(frame.mapInArrow(changing, frame.schema))
    assert rows.n_rows == N
    open(switch, "w").close()
    for use in (lambda: rows.fold(sums), lambda: list(rows.map(sums))):
        text = refusal(use)
        assert text.startswith("The Spark DataFrame must return the same rows in every pass; ")


def test_duplicate_names_are_refused():
    frame = people().selectExpr("a", "b as a")
    assert "'a' occurs more than once" in refusal(lambda: as_rows(frame), ValueError)


def test_names_may_be_anything():
    frame = people().selectExpr("a as `odd.name`", "b as `with``tick`")
    assert as_rows(frame).fold(sums, columns=["with`tick", "odd.name"]).tolist() == EXPECTED[::-1]


def test_positions_need_an_order():
    with pytest.raises(
        ValueError, match="fixed order, but the Spark DataFrame does not guarantee one"
    ):
        as_rows(people()).take([0])
