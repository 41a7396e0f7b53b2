"""Rows that are streamed: the same models, predictions and refusals as those of rows in memory."""

import os
import signal
import time
from functools import cache

import cloudpickle
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from skpublicdp import (
    PAPQueryRelease,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.data import open_rows, streaming
from skpublicdp.data.sources import dask_reader
from skpublicdp.data.sources.chunk_task import ORDER_CHANGED
from skpublicdp.exceptions import ReadError
from skpublicdp.hypotheses import Halfspaces
from skpublicdp.query_release import (
    CustomQueries,
    MarginalQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.data.engines import IBIS_BACKENDS, SPARK, ibis_table, named, spark_frame
from tests.kit import Recorder

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

# one job has no public row
pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")

N, N_PUBLIC = 2400, 150
CUTS = (0, 500, 500, 1300, N)
"""Where partitions begin; one has no rows."""


def people(n, seed):
    """Whole numbers, floats and text, some of all missing, dates, a label and an outcome."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(17, 90, n), rng.gamma(9, 4.5, n)
    jobs = ["clerk", "nurse", "pilot", "smith"][: 3 if seed else 4]  # one has no public row
    pay = 3.0 * age + hours + rng.normal(0, 20, n)
    some = rng.random((3, n)) < 0.05
    return pa.table(
        {
            "age": pa.array(age, mask=some[0]),
            "years": age // 2,
            "hours": pa.array(hours, mask=some[1]),
            "job": pa.array(rng.choice(jobs, n).tolist(), mask=some[2]),
            "joined": pa.array(rng.integers(10_000, 20_000, n) * 86_400_000, pa.timestamp("ms")),
            "known": hours,
            "income": np.where(pay > 200, ">50K", "<=50K"),
            "pay": pay,
        }
    )


TABLE, PUBLIC = people(N, 0), people(N_PUBLIC, 1).to_pandas()
NUMBERS, MIXED = ["known", "joined"], ["age", "hours", "job", "joined"]
WHOLE = ["known", "job", "years", "joined"]


def reversed_columns(frame):
    return frame[frame.columns[::-1]]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 700)


def part(i):
    return TABLE.slice(CUTS[i], CUTS[i + 1] - CUTS[i])


def parquet(directory):
    for i in range(len(CUTS) - 1):
        pq.write_table(part(i), directory / f"{i}.parquet", row_group_size=300)
    return open_rows(str(directory / "*.parquet"))


def dataset(directory):
    parquet(directory)
    return open_rows(ds.dataset(directory))


def batches(directory):
    return open_rows(lambda: (batch for i in range(4) for batch in part(i).to_batches(170)))


def relation(directory):
    return open_rows("select * from t", connection=duckdb.connect().register("t", TABLE))


def ibis_rows(backend, directory):
    return open_rows(ibis_table(backend, TABLE))


def spark_rows(directory):
    return open_rows(spark_frame([part(i) for i in (0, 2, 3)]).repartition(3))


class Stream:
    """A table of an engine that returns its batches in another order on each pass."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def to_pyarrow_batches(self):
        batches = TABLE.to_batches(170)
        self.rng.shuffle(batches)
        return pa.RecordBatchReader.from_batches(TABLE.schema, batches)


def stream(directory):
    return open_rows(Stream())


def lazy(directory):
    return open_rows(pl.from_arrow(TABLE).lazy())


def dask_part(i):
    return part(i).to_pandas()


def dask_frame(directory=None):
    return dd.from_map(dask_part, range(4), meta=TABLE.slice(0, 0).to_pandas())


def dask_rows(directory):
    return open_rows(dask_frame())


class Frame:
    """A frame in memory as if it were opened."""

    def __init__(self, frame):
        self.frame = frame

    def __getitem__(self, columns):
        if isinstance(self.frame, pa.Table) and isinstance(columns, list):
            return self.frame.select(columns)
        return self.frame[columns]


def polars_frame(directory):
    return Frame(pl.from_arrow(TABLE))


def arrow_table(directory):
    return Frame(TABLE)


def in_memory(directory=None):
    return Frame(TABLE.to_pandas())


STREAMS = [
    *(parquet, dataset, batches, relation, lazy, stream, dask_rows),
    *(named(ibis_rows, f"ibis_{backend}", backend) for backend in IBIS_BACKENDS),
    *([spark_rows] if SPARK else []),
]
CONTAINERS = [*STREAMS, polars_frame, arrow_table]


@pytest.fixture(params=CONTAINERS, ids=lambda make: make.__name__)
def rows(request, tmp_path):
    if request.param is dask_rows:
        request.getfixturevalue("cluster")
    return request.param(tmp_path)


def busy(X):
    return np.column_stack([np.asarray(X["known"]) > at for at in (30, 45)])


FITS = {
    "trees": (SemiPrivateClassifier(epsilon=1), NUMBERS, "income"),
    "halfspaces": (SemiPrivateClassifier(Halfspaces(directions=50)), NUMBERS, "income"),
    "boosting": (SemiPrivateBoostingClassifier(epsilon=2), MIXED, "income"),
    "regression": (SemiPrivateBoostingRegressor(outcome_bounds=(0, 400)), MIXED, "pay"),
    "pairs": (PAPQueryRelease(MarginalQueries(k=2)), WHOLE, None),
    "cdf": (PAPQueryRelease(ThresholdQueries()), ["known"], None),
    "stumps": (PAPQueryRelease(StumpQueries()), NUMBERS, None),
    "custom": (PAPQueryRelease(CustomQueries(busy)), NUMBERS, None),
}


@pytest.fixture(params=FITS)
def name(request):
    return request.param


def fitted(name, rows, *, columns=None, public=PUBLIC, **parameters):
    model, wanted, label = FITS[name]
    model = clone(model).set_params(random_state=0, **parameters)
    wanted = wanted if columns is None else columns
    y = () if label is None else (rows[label],)
    return model.fit(rows[wanted], *y, X_public=public[FITS[name][1]])


def bits(name, model):
    """All that a model says, of rows in pandas."""
    X = TABLE.to_pandas()[FITS[name][1]]
    said = [str(model.privacy_)]
    if name in ("trees", "halfspaces"):
        said += [str(model.hypothesis_), model.cover_size_]
    elif name in ("boosting", "regression"):
        ask = model.predict_proba if name == "boosting" else model.interval
        said += [model.explain(), ask(X).tobytes(), model.intercept_]
    elif name == "pairs":
        said += [np.asarray(model.table([i, j])["fraction"]).tobytes() for i, j in ((0, 2), (1, 3))]
    elif name == "custom":
        said += [model.answer([[0], [1]]).tobytes()]
    else:
        said += [model.cdf(np.linspace(10, 80, 50), column="known").tobytes()]
    return repr(said)


@cache
def expected(name):
    return bits(name, fitted(name, in_memory()))


def test_the_model_is_that_of_the_frame(rows, name):
    assert bits(name, fitted(name, rows)) == expected(name)


@pytest.mark.parametrize("make", [parquet, relation, polars_frame, arrow_table])
def test_columns_go_by_their_names(make, tmp_path, name):
    rows, usual = make(tmp_path), FITS[name][1]
    public = reversed_columns(PUBLIC)[usual[::-1]]
    model, _, label = FITS[name]
    y = () if label is None else (rows[label],)
    model = clone(model).set_params(random_state=0)
    model.fit(rows[usual], *y, X_public=public)
    assert bits(name, model) == expected(name)


PREDICTIONS = [
    ("trees", "predict"),
    ("halfspaces", "predict"),
    ("boosting", "predict"),
    ("boosting", "predict_proba"),
    ("boosting", "decision_function"),
    ("regression", "predict"),
    ("regression", "interval"),
]


@cache
def trained(name):
    return fitted(name, in_memory())


@pytest.mark.parametrize(("name", "method"), PREDICTIONS)
def test_predictions_are_those_of_the_frame(rows, name, method):
    model, wanted = trained(name), FITS[name][1]
    said = getattr(model, method)
    if isinstance(rows, Frame) or rows.ordered:
        found = said(rows[wanted[::-1]])  # and columns go by their names
        np.testing.assert_array_equal(found, said(in_memory()[wanted]))
    else:
        with pytest.raises(ValueError, match="Predictions require rows in a fixed order"):
            said(rows[wanted])


@pytest.mark.parametrize("name", ["trees", "boosting", "regression"])
def test_scores_are_those_of_the_frame(rows, name):
    model, (_, wanted, label), frame = trained(name), FITS[name], TABLE.to_pandas()
    predicted = model.predict(frame[wanted])
    by_hand = (
        r2_score(frame[label], predicted)
        if name == "regression"
        else np.mean(predicted == frame[label])
    )
    assert model.score(rows[wanted], rows[label]) == pytest.approx(by_hand, rel=1e-12)
    weights = np.arange(N) % 2
    if isinstance(rows, Frame) or rows.ordered:
        weighted = model.score(rows[wanted], rows[label], sample_weight=weights)
        odd = model.score(frame[wanted][1::2], frame[label][1::2])
        assert weighted == pytest.approx(odd, rel=1e-12)


def test_a_dask_frame_or_a_relation_is_passed_as_it_is(cluster, tmp_path):
    ddf, model = dask_frame(), trained("trees")
    again = clone(model).fit(ddf[NUMBERS], ddf["income"], X_public=PUBLIC[NUMBERS])
    assert str(again.hypothesis_) == str(model.hypothesis_)
    labels = model.predict(ddf[NUMBERS])
    assert labels.tolist() == model.predict(TABLE.to_pandas()[NUMBERS]).tolist()
    assert model.score(ddf[NUMBERS], ddf["income"]) == np.mean(labels == TABLE["income"])
    plain = duckdb.from_arrow(TABLE.select(NUMBERS[::-1]))
    assert model.predict(plain).tolist() == labels.tolist()


@pytest.mark.parametrize("make", [parquet, dask_rows, batches])
def test_the_kept_rows_of_a_person_are_those_of_a_table_in_memory(make, tmp_path, request, name):
    if make is dask_rows:
        request.getfixturevalue("cluster")
    model, wanted, label = FITS[name]
    persons, rows, frame = np.arange(N) % 1000, make(tmp_path), in_memory()
    models = []
    for source_ in (rows, frame):
        y = () if label is None else (source_[label],)
        one = clone(model).set_params(random_state=0, max_rows_per_group=1)
        models.append(one.fit(source_[wanted], *y, X_public=PUBLIC[wanted], groups=persons))
    assert bits(name, models[0]) == bits(name, models[1])
    assert models[0].privacy_.n_private == 1000


def test_persons_may_be_a_column(tmp_path):
    table = TABLE.append_column("person", pa.array(np.arange(N) % 1000))
    pq.write_table(table, tmp_path / "p.parquet")
    rows = open_rows(tmp_path / "p.parquet")
    model = SemiPrivateClassifier(max_rows_per_group=1, random_state=0)
    model.fit(rows[NUMBERS], rows["income"], X_public=PUBLIC[NUMBERS], groups=rows["person"])
    assert model.privacy_.n_private == 1000


@pytest.mark.parametrize("text", [False, True])
def test_persons_on_workers(cluster, text):
    """Workers compare their slices of the column of persons with the first pass."""
    persons = np.arange(N) % 1000
    names = np.array([f"person {who}" for who in persons], dtype=object) if text else persons
    frame = TABLE.to_pandas().assign(person=names)
    rows = open_rows(dd.from_pandas(frame, npartitions=3, sort=False))
    models = []
    for source in (rows, frame):
        model = SemiPrivateClassifier(max_rows_per_group=1, random_state=0)
        X, y, groups = source[NUMBERS], source["income"], source["person"]
        models.append(model.fit(X, y, X_public=PUBLIC[NUMBERS], groups=groups))
    assert str(models[0].hypothesis_) == str(models[1].hypothesis_)
    mask = np.ones(N, dtype=bool)
    for others in (np.roll(names, 1), names[::-1]):
        masked = rows[NUMBERS].with_mask(mask, rows["person"], others)
        with pytest.raises(ReadError, match="the same order in every pass if groups is used"):
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
