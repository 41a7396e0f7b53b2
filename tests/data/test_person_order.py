"""Persons are read in the first pass, and later passes must have their rows in the same order."""

import numpy as np
import pytest

from skpublicdp import PAPQueryRelease, SemiPrivateClassifier
from skpublicdp.data import open_rows
from skpublicdp.exceptions import ReadError
from skpublicdp.query_release import MarginalQueries
from tests.data.internals import ORDER_CHANGED
from tests.kit import Recorder

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.OmittedRowsWarning")


@pytest.mark.parametrize("text", [False, True])
def test_persons_on_workers(text):
    """Workers compare their slices of the column of persons with the first pass."""
    n = 1200
    rng = np.random.default_rng(0)
    persons = np.arange(n) % 500
    names = np.array([f"person {who}" for who in persons], dtype=object) if text else persons
    frame = pd.DataFrame({"x": rng.normal(size=n), "person": names})
    frame["y"] = (frame["x"] > 0).astype(int)
    rows = open_rows(dd.from_pandas(frame, npartitions=3, sort=False))
    models = []
    for source in (rows, frame):
        model = SemiPrivateClassifier(max_rows_per_group=1, random_state=0)
        X_public = pd.DataFrame({"x": np.linspace(-2, 2, 40)})
        models.append(
            model.fit(source[["x"]], source["y"], X_public=X_public, groups=source["person"])
        )
    assert str(models[0].hypothesis_) == str(models[1].hypothesis_)
    mask = np.ones(n, dtype=bool)
    for others in (np.roll(names, 1), names[::-1]):
        masked = rows[["x"]].with_mask(mask, rows["person"], others)
        with pytest.raises(ReadError, match="groups"):
            masked.fold(lambda chunk: np.array([1]))


class Reordered:
    """Batches of ten rows of each of 100 persons, which change their order after some passes.

    The rows of the first person then have the positions of the first rows of ten persons.
    """

    def __init__(self, value, n_passes, text):
        person = np.repeat(np.arange(100), 10)
        names = [f"person {who}" for who in person] if text else person
        self.table = pa.table({"value": np.where(person == 0, value, 0.0), "person": names})
        self.order = np.arange(1000)
        self.order[:100:10], self.order[:10] = np.arange(10), np.arange(0, 100, 10)
        self.n_passes = n_passes
        self.n_calls = 0

    def __call__(self):
        self.n_calls += 1
        order = np.arange(1000) if self.n_calls <= self.n_passes else self.order
        return iter(self.table.take(pa.array(order)).to_batches(max_chunksize=100))


@pytest.mark.parametrize("text", [False, True])
def test_a_pass_in_another_order_is_refused(text):
    public, queries = (
        pa.table({"value": [0.0, 1.0, 0.0, 1.0]}),
        MarginalQueries(workload=[["value"]]),
    )

    def count(n_passes):
        """Return how far the table moves, or the refusal, and the number of passes."""
        counts = []
        for value in (0.0, 1.0):
            source = Reordered(value, n_passes, text)
            rows = open_rows(source)
            release = PAPQueryRelease(
                queries, bounds={"value": (0, 1)}, max_rows_per_group=1, random_state=0
            )
            try:
                with Recorder() as recorder:
                    release.fit(rows[["value"]], X_public=public, groups=rows["person"])
            except ReadError as error:
                return str(error), source.n_calls
            call, *_ = recorder.calls_of("noise")
            counts.append(call.exact_input)
        return np.abs(counts[1] - counts[0]).sum(), source.n_calls

    moved, n_passes = count(n_passes=100)
    assert moved == 2  # the one row of the first person changes its cell
    moves = [count(n)[0] for n in range(n_passes + 1)]
    assert {2, ORDER_CHANGED} == set(moves)
    assert moves[-2:] == [ORDER_CHANGED, 2]
