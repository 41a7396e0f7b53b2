"""Persons are read in the first pass, and later passes must deliver their rows in the same order."""

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


def test_groups_need_an_order():
    rows = open_rows(pl.from_arrow(TABLE).lazy().sort("age"))
    model = SemiPrivateClassifier(max_rows_per_group=1)
    with pytest.raises(ValueError, match="Groups require rows in a fixed order"):
        model.fit(
            rows[NUMBERS], rows["income"], X_public=PUBLIC[NUMBERS], groups=np.arange(N) % 1000
        )


class Faulty:
    """Record batches of which one pass breaks in the middle."""

    def __init__(self, breaks_in=None, how=None):
        self.breaks_in, self.how = breaks_in, how
        self.passes = 0

    def __call__(self):
        self.passes += 1
        broken = self.passes == self.breaks_in
        for number, batch in enumerate(TABLE.to_batches(400)):
            yield self.how(batch) if broken and number == 3 else batch


def raises(batch):
    raise OSError(f"cannot read {batch['pay'][0]}")


def other_type(batch):
    return batch.set_column(5, "known", batch["known"].cast(pa.string()))


def lacks_a_column(batch):
    return batch.drop_columns("known")


def shorter(batch):
    return batch.slice(1)


@pytest.mark.parametrize("how", [raises, other_type, lacks_a_column, shorter])
def test_a_fault_in_any_pass_is_one_error_and_at_most_one_charge(name, how):
    usual = Faulty()
    fitted(name, open_rows(usual))
    opened = Faulty()
    rows = open_rows(opened)
    rows.n_rows  # noqa: B018 - what is counted is counted once, here
    begun = opened.passes
    charges = []
    for breaks_in in range(begun + 1, usual.passes + 1):
        faulty = Faulty(breaks_in, how)
        rows, budget = open_rows(faulty), PrivacyBudget(10, 1e-3, for_tests=True)
        model, wanted, label = FITS[name]
        model = clone(model).set_params(random_state=0, budget=budget)
        y = () if label is None else (rows[label],)
        with pytest.raises(ReadError) as refused:
            model.fit(rows[wanted], *y, X_public=PUBLIC[wanted])
        assert str(refused.value).endswith(".")
        assert not any(char.isdigit() for char in str(refused.value))
        assert not [of for of in vars(model) if of.endswith("_") or of.startswith("_")]
        charges.append(len(budget.ledger))
    # labels first, if there are any, then all columns once before anything is spent
    assert charges[: 1 + (FITS[name][2] is not None)] == [0] * (1 + (FITS[name][2] is not None))
    assert set(charges) <= {0, 1}


def test_a_failed_fit_leaves_the_fitted_model(tmp_path):
    model = fitted("trees", in_memory())
    before = dict(vars(model))
    rows = open_rows(Faulty(4, raises))
    with pytest.raises(ReadError):
        model.fit(rows[["known"]], rows["income"], X_public=PUBLIC[["known"]])
    assert vars(model) == before


@pytest.mark.parametrize("make", [parquet, dask_rows])
def test_a_value_that_will_not_do_is_found_before_anything_is_spent(make, cluster, tmp_path):
    budget = PrivacyBudget(1, for_tests=True)
    model = SemiPrivateClassifier(budget=budget, epsilon=1)
    rows = make(tmp_path)
    public = PUBLIC[["years", "known"]].set_axis(["age", "known"], axis=1)
    with pytest.raises(ValueError, match=r"Columns? age.* must contain numbers only") as refused:
        model.fit(rows[["age", "known"]], rows["income"], X_public=public)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert len(budget.ledger) == 0
    assert not [of for of in vars(model) if of.endswith("_")]


def test_a_file_cut_short_between_passes(tmp_path):
    rows, budget = parquet(tmp_path), PrivacyBudget(1, for_tests=True)
    rows.n_rows  # noqa: B018
    whole = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(whole[: len(whole) // 2])
    model = SemiPrivateClassifier(budget=budget, epsilon=1)
    with pytest.raises(ReadError, match="Parquet files could not be read"):
        model.fit(rows[NUMBERS], rows["income"], X_public=PUBLIC[NUMBERS])
    assert len(budget.ledger) == 0
    with pytest.raises(NotFittedError):
        model.predict(rows[NUMBERS])


def test_columns_that_change_between_passes(tmp_path):
    rows = parquet(tmp_path)
    rows.n_rows  # noqa: B018
    other = part(2).set_column(5, "known", part(2)["known"].cast(pa.float32()))
    pq.write_table(other, tmp_path / "2.parquet")
    with pytest.raises(ReadError, match="must not change during a fit"):
        fitted("cdf", rows)


def test_a_filtered_dataset_stays_filtered(tmp_path):
    parquet(tmp_path)
    rows = open_rows(ds.dataset(tmp_path).filter(ds.field("years") > 20))
    taken = TABLE.filter(ds.field("years") > 20)
    assert rows.n_rows == len(taken) < N
    model = fitted("cdf", rows)
    assert bits("cdf", model) == bits("cdf", fitted("cdf", Frame(taken)))


def test_parquet_is_not_read_ahead(tmp_path):
    """Arrow itself would read up to 1 GB."""
    table = pa.table({"a": np.random.default_rng(0).normal(size=800_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=40_000)
    rows, before, most = open_rows(tmp_path / "a.parquet"), pa.total_allocated_bytes(), 0
    for number, _ in enumerate(rows.map(lambda chunk: None)):
        if number % 400 == 0:
            time.sleep(0.1)
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < table.nbytes / 4


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
        return dask_part(i)


def survives(name, reads, directory):
    budget = PrivacyBudget(10, 1e-3, for_tests=True)
    ddf = dd.from_map(Deadly(directory, reads), range(4), meta=TABLE.slice(0, 0).to_pandas())
    model = fitted(name, open_rows(ddf), budget=budget)
    if FITS[name][2] is not None or reads < 2:  # without labels there are two passes at least
        assert len(os.listdir(directory)) > reads + 1  # killed, and read again
    assert len(budget.ledger) == 1
    alone = fitted(name, in_memory(), budget=PrivacyBudget(10, 1e-3, for_tests=True))
    assert bits(name, model) == bits(name, alone)


def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(cluster, tmp_path):
    survives("trees", 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("reads", range(3))
def test_a_worker_killed_in_any_pass_changes_nothing(cluster, tmp_path, name, reads):
    survives(name, reads, tmp_path)


class Many:
    """Partitions of so many rows, made on the workers."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, i):
        return people(self.rows, i).to_pandas()


def bytes_sent(monkeypatch, rows, name, persons):
    """Bytes of all that one fit sends to workers."""
    sent, compute = [], distributed.Client.compute

    def noting(self, tasks, *args, **kwargs):
        sent.append(len(cloudpickle.dumps(tasks)))
        return compute(self, tasks, *args, **kwargs)

    ddf = dd.from_map(Many(rows), range(4), meta=TABLE.slice(0, 0).to_pandas())
    model, wanted, label = FITS[name]
    with monkeypatch.context() as patch:
        patch.setattr(distributed.Client, "compute", noting)
        y = () if label is None else (ddf[label],)
        model = clone(model).set_params(random_state=0, max_rows_per_group=2 if persons else None)
        groups = np.arange(4 * rows) % rows if persons else None
        model.fit(ddf[wanted], *y, X_public=PUBLIC[wanted], groups=groups)
    return sent


@pytest.mark.parametrize(
    ("name", "persons"),
    [("trees", False), ("boosting", False), ("boosting", True), ("pairs", False)],
)
def test_what_is_sent_to_workers_does_not_grow_with_the_rows(cluster, monkeypatch, name, persons):
    few, many = (bytes_sent(monkeypatch, rows, name, persons) for rows in (200, 3000))
    # of a mask, a task gets the part for its own rows; a message holds all four tasks
    assert max(many) < max(few) + 2000 + 4 * 3000 * persons


def test_work_goes_to_the_workers(cluster, monkeypatch):
    """Boosting gets codes back, of one byte or two for each value."""
    got, result = [], dask_reader.DaskReader._result

    def noting(self, future):
        found = result(self, future)
        got.append(len(cloudpickle.dumps(found)))
        return found

    monkeypatch.setattr(dask_reader.DaskReader, "_result", noting)
    fitted("boosting", dask_rows(None))
    assert sum(got) < (2 * len(MIXED) + 3) * N
