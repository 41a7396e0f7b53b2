"""Rows that several sites hold: one model, bit for bit that of pooled rows, from tables alone."""

import multiprocessing
import pickle
import pickletools
import re
import traceback
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skpublicdp import (
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.boosting import newton_fit
from skpublicdp.data import Site, open_rows, open_sites
from skpublicdp.data.sources.sites_reader import SiteObject
from skpublicdp.exceptions import DriftWarning, ReadError
from skpublicdp.hypotheses import (
    Conjunctions,
    DecisionTrees,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    Union,
)
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release import (
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)

pytest.importorskip("cloudpickle")

CUTS = (0, 700, 700, 701, 2000)
"""Where the rows of the sites begin. One site has no rows, and one has a single row."""
PERSON_CUTS = (0, 702, 702, 1200, 2000)
"""The same, with all rows of a person at one site."""


def table(n, seed):
    """Numbers with gaps, texts, a label of two and of three values, an outcome and persons."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, n),
            "weight": rng.normal(70, 15, n).round(1),
            "job": rng.choice(["nurse", "cook", "clerk", "judge"], n, p=[0.5, 0.3, 0.15, 0.05]),
        }
    )
    margin = (frame["age"] > 60) * 1.0 + (frame["job"] == "cook") + rng.normal(0, 0.3, n)
    frame["ill"] = (margin > 0.8).astype(int)
    frame["stage"] = np.select([margin > 1.2, margin > 0.4], ["late", "early"], "none")
    frame["cost"] = margin
    frame["person"] = [f"p{i // 3}" for i in range(n)]
    frame["weight"] = frame["weight"].where(rng.random(n) > 0.1)
    return frame


ROWS, PUBLIC, NEW = table(2000, 0), table(300, 1), table(200, 2)
FEATURES = ["age", "weight", "job"]


class Wire:
    """A site behind a network: tasks and answers cross it as bytes, and all of them are kept."""

    def __init__(self, site):
        self.site, self.tasks, self.answers = site, [], []

    def answer(self, task):
        assert isinstance(task, bytes)
        answer = pickle.dumps(self.site.answer(task))
        self.tasks.append(task)
        self.answers.append(pickle.loads(answer))
        return self.answers[-1]


class Masked:
    """A site of secure aggregation: it adds masks to its tables, which cancel in the sum."""

    def __init__(self, site, position, n_sites):
        self.site, self.position, self.n_sites, self.n_tasks = site, position, n_sites, 0

    def _mask(self, shape):
        total = np.zeros(shape, np.int64)
        for other in range(self.n_sites):
            if other != self.position:
                pair = sorted((self.position, other))
                rng = np.random.default_rng([*pair, self.n_tasks])
                mask = rng.integers(-(2**63), 2**63 - 1, shape, dtype=np.int64)
                total += mask if self.position < other else -mask
        return total

    def answer(self, task):
        answer = self.site.answer(task)
        self.n_tasks += 1
        return answer._replace(tables=tuple(t + self._mask(t.shape) for t in answer.tables))


def parts(frame=ROWS, cuts=CUTS):
    return [frame.iloc[start:stop].reset_index(drop=True) for start, stop in pairwise(cuts)]


def pooled_and_sites(frame=ROWS, cuts=CUTS, wrap=Wire):
    return open_rows(frame), open_sites([wrap(Site(part)) for part in parts(frame, cuts)])


def numbers(model):
    """What a fitted estimator predicts and has spent, except for assumptions about its rows."""
    receipt = model.privacy_
    result = [receipt.epsilon, receipt.delta, receipt.mechanisms, receipt.n_private]
    for name in ("predict", "predict_proba"):
        if hasattr(model, name):
            result.append(getattr(model, name)(NEW[FEATURES]).tolist())
    result.append(repr(getattr(model, "hypothesis_", None)))
    return result


def fits(make, y, *, labelled=False, features=FEATURES):
    """Return the fits of the pooled rows and of the sites."""
    arguments = {"y_public": PUBLIC[y]} if labelled else {}
    models = []
    for source in pooled_and_sites():
        model = make().fit(
            source[list(features)], source[y], X_public=PUBLIC[list(features)], **arguments
        )
        models.append(model)
    return models


RULES = {
    "stumps": (Stumps(), ["age", "weight", "size"]),
    "trees": (DecisionTrees(), ["age", "weight", "size"]),
    "conjunctions": (Conjunctions(), ["age", "weight", "size"]),
    "union": (Union([Stumps(), DecisionTrees(1)]), ["age", "weight", "size"]),
    "thresholds": (Thresholds(), ["age"]),
    "intervals": (Intervals(), ["age"]),
    "rectangles": (Rectangles(), ["age", "size"]),
    "halfspaces": (Halfspaces(), ["age", "size"]),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_are_those_of_the_pooled_rows(name):
    hypotheses, features = RULES[name]
    rows, public = (
        frame.assign(size=frame["cost"].round(2), weight=frame["weight"].fillna(70.0))
        for frame in (ROWS, PUBLIC)
    )
    models = []
    for source in pooled_and_sites(rows):
        model = SemiPrivateClassifier(hypotheses, random_state=0)
        model.fit(source[features], source["ill"], X_public=public[features])
        models.append((repr(model.hypothesis_), model.privacy_.mechanisms, model.classes_.tolist()))
    assert models[0] == models[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("epsilon", "delta", "method", "labelled"),
    [
        (0.5, 0, "auto", False),
        (0.5, 1e-6, "auto", True),
        (20.0, 0, "auto", True),
        (20.0, 1e-6, "auto", False),
        (20.0, 1e-6, "moments", False),
        (0.5, 0, "votes", False),
        (0.5, 0, "votes", True),
    ],
)
def test_boosting_is_that_of_the_pooled_rows(epsilon, delta, method, labelled):
    def make():
        return SemiPrivateBoostingClassifier(
            epsilon=epsilon, delta=delta, method=method, random_state=3
        )

    pooled, distributed = fits(make, "ill", labelled=labelled)
    assert numbers(pooled) == numbers(distributed)


BOOSTING = {
    "three labels": ({}, "stage"),
    "three labels, pure": ({"delta": 0.0}, "stage"),
    "three labels, large": ({"epsilon": 30.0}, "stage"),
    "declared labels": ({"classes": ["none", "early", "late", "other"]}, "stage"),
    "a public model": ({"public_model": LogisticRegression(), "epsilon": 4.0}, "ill"),
    "monotone": ({"monotonic_cst": {"age": 1}}, "ill"),
    "threads": ({"n_jobs": 2, "epsilon": 20.0}, "ill"),
}


@pytest.mark.parametrize("name", BOOSTING)
def test_settings_of_boosting(name):
    settings, y = BOOSTING[name]
    is_model = "public_model" in settings
    features = ["age"] if is_model else FEATURES
    settings = {"delta": 1e-6, "random_state": 4} | settings
    pooled, distributed = fits(
        lambda: SemiPrivateBoostingClassifier(**settings), y, labelled=is_model, features=features
    )
    X = NEW[features]
    assert pooled.predict_proba(X).tolist() == distributed.predict_proba(X).tolist()
    assert pooled.privacy_.mechanisms == distributed.privacy_.mechanisms


def test_sampled_rows_are_those_of_the_pooled_rows(monkeypatch):
    """Random samples of the rows, which large tables have, have the same members."""
    monkeypatch.setattr(newton_fit, "subsample_size", lambda noise, size: 600)
    monkeypatch.setattr("skpublicdp.boosting.newton_boosting.TREE_SAMPLE_ROWS", 300)
    pooled, distributed = fits(
        lambda: SemiPrivateBoostingClassifier(epsilon=50, delta=1e-6, random_state=5), "ill"
    )
    assert pooled.trees_, "no tree was drawn from a sample"
    assert numbers(pooled) == numbers(distributed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("epsilon", "labelled"), [(0.5, True), (20.0, False)])
def test_regression_is_that_of_the_pooled_rows(epsilon, labelled):
    pooled, distributed = fits(
        lambda: SemiPrivateBoostingRegressor(
            outcome_bounds=(-1, 3), epsilon=epsilon, delta=1e-6, random_state=6
        ),
        "cost",
        labelled=labelled,
    )
    assert numbers(pooled) == numbers(distributed)
    intervals = [model.interval(NEW[FEATURES]).tolist() for model in (pooled, distributed)]
    assert intervals[0] == intervals[1]


def test_persons_are_those_of_the_pooled_rows():
    def rule():
        return SemiPrivateClassifier(Stumps(), max_rows_per_group=2, random_state=7)

    def boosting():
        return SemiPrivateBoostingClassifier(
            max_rows_per_group=2, epsilon=9, delta=1e-6, random_state=7
        )

    rows = ROWS.assign(weight=ROWS["weight"].fillna(70.0))
    for make in (rule, boosting):
        features = ["age"] if make is rule else FEATURES
        models = []
        for source in pooled_and_sites(rows, PERSON_CUTS):
            model = make().fit(
                source[features],
                source["ill"],
                X_public=PUBLIC[features],
                groups=source["person"],
            )
            models.append(model)
        pooled, distributed = models
        assert pooled.privacy_.n_private == distributed.privacy_.n_private < 2000
        assert pooled.privacy_.mechanisms == distributed.privacy_.mechanisms
        assert pooled.predict(NEW[features]).tolist() == distributed.predict(NEW[features]).tolist()
        assert "all rows of a person are at one site" in distributed.privacy_.assumptions


RELEASES = {
    "tables": (MarginalQueries(2), FEATURES, {}),
    "tables, exponential weights": (MarginalQueries(2), FEATURES, {"method": "pmw"}),
    "stumps": (StumpQueries(), ["age", "cost"], {}),
    "rectangles": (RectangleQueries(), ["age", "cost"], {}),
    "one column": (ThresholdQueries(), ["age"], {}),
    "intervals": (IntervalQueries(), ["age"], {"delta": 1e-6}),
    "persons": (MarginalQueries(2), FEATURES, {"max_rows_per_group": 3}),
}


@pytest.mark.parametrize("name", RELEASES)
def test_releases_are_those_of_the_pooled_rows(name):
    queries, features, settings = RELEASES[name]
    rows, public = (frame.assign(weight=frame["weight"].fillna(70.0)) for frame in (ROWS, PUBLIC))
    samples = []
    for source in pooled_and_sites(rows, PERSON_CUTS):
        groups = {"groups": source["person"]} if "max_rows_per_group" in settings else {}
        release = PAPQueryRelease(queries, random_state=8, bounds=None, **settings)
        release.fit(source[features], X_public=public[features], **groups)
        samples.append((release.sample(100).to_numpy().tolist(), release.privacy_.mechanisms))
    assert samples[0] == samples[1]


@pytest.mark.parametrize("persons", [False, True])
def test_scores_are_those_of_the_pooled_rows(persons):
    model = SemiPrivateBoostingClassifier(random_state=9, delta=1e-6)
    model.fit(PUBLIC[FEATURES], PUBLIC["ill"], X_public=NEW[FEATURES])
    scores = []
    for source in pooled_and_sites(ROWS, PERSON_CUTS):
        groups = {"groups": source["person"], "max_rows_per_group": 2} if persons else {}
        released = private_scores(
            model, source[FEATURES], source["ill"], delta=1e-6, random_state=1, **groups
        )
        scores.append((released.accuracy, released.interval("accuracy"), released.roc_auc))
    assert scores[0] == scores[1]


def test_masks_of_secure_aggregation_cancel():
    frames = [part for part in parts() if len(part)]
    masked = [Masked(Site(part), position, len(frames)) for position, part in enumerate(frames)]
    models = []
    for source in (open_rows(ROWS), open_sites(masked)):
        model = SemiPrivateBoostingClassifier(epsilon=9, delta=1e-6, random_state=1)
        models.append(model.fit(source[FEATURES], source["ill"], X_public=PUBLIC[FEATURES]))
    assert numbers(models[0]) == numbers(models[1])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["array of objects", "arrow", "parquet", "polars", "columns"])
def test_sites_may_have_sources_of_their_own(kind, tmp_path):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    pq = pytest.importorskip("pyarrow.parquet")

    # a column without values at a site has no type of its own
    schema = pa.Schema.from_pandas(ROWS, preserve_index=False)

    def source(position, part):
        whole = pa.Table.from_pandas(part, schema=schema, preserve_index=False)
        if kind == "parquet":
            pq.write_table(whole, tmp_path / f"{position}.parquet", row_group_size=50)
            return tmp_path / f"{position}.parquet"
        if kind == "columns":
            return open_rows(part).drop("person")
        return {"array of objects": part, "arrow": whole, "polars": pl.from_pandas(part)}[kind]

    opened = [Site(source(*entry)) for entry in enumerate(parts())]
    rows, model = open_sites(opened), SemiPrivateBoostingClassifier(epsilon=9, random_state=1)
    model.fit(rows[FEATURES], rows["ill"], X_public=PUBLIC[FEATURES])
    pooled = SemiPrivateBoostingClassifier(epsilon=9, random_state=1)
    pooled.fit(ROWS[FEATURES], ROWS["ill"], X_public=PUBLIC[FEATURES])
    predictions = model.predict_proba(pa.Table.from_pandas(NEW[FEATURES]).to_pandas())
    if kind in ("array of objects", "columns"):
        assert predictions.tolist() == pooled.predict_proba(NEW[FEATURES]).tolist()
    else:
        assert predictions.shape == (200, 2)


def test_all_sites_together_need_not_have_a_gap_each():
    """Where no number is missing at the first site its column holds integers, and floats here."""
    weight = ROWS["weight"].round().where(np.arange(2000) >= 700, 70.0)
    rows = ROWS.assign(weight=weight)
    frames = parts(rows)
    frames[0] = frames[0].astype({"weight": int})
    opened = open_sites([Site(frame) for frame in frames])
    models = []
    for source in (open_rows(rows), opened):
        model = SemiPrivateBoostingClassifier(epsilon=9, random_state=1)
        with pytest.warns(DriftWarning):
            model.fit(source[FEATURES], source["ill"], X_public=PUBLIC[FEATURES])
        models.append(model)
    assert numbers(models[0]) == numbers(models[1])


def _serve(pipe, part):
    """Answer the tasks that come through a pipe, until one is empty."""
    site = Site(part)
    while task := pipe.recv():
        pipe.send(site.answer(task))


class Remote:
    """Client of a site in another process."""

    def __init__(self, part):
        context = multiprocessing.get_context("spawn")
        self.pipe, pipe = context.Pipe()
        self.process = context.Process(target=_serve, args=(pipe, part))
        self.process.start()

    def answer(self, task):
        self.pipe.send(task)
        return self.pipe.recv()

    def close(self):
        self.pipe.send(b"")
        self.process.join(30)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_sites_in_processes_of_their_own(epsilon):
    clients = [Remote(part) for part in parts() if len(part)]
    try:
        models = []
        for source in (open_rows(ROWS), open_sites(clients)):
            model = SemiPrivateBoostingClassifier(epsilon=epsilon, delta=1e-6, random_state=1)
            models.append(model.fit(source[FEATURES], source["ill"], X_public=PUBLIC[FEATURES]))
        assert numbers(models[0]) == numbers(models[1])
    finally:
        for client in clients:
            client.close()


# what crosses the network


def fitted_over_wires(estimator, y="ill", **arguments):
    wires = [Wire(Site(part)) for part in parts()]
    rows = open_sites(wires)
    estimator.fit(rows[FEATURES], rows[y], X_public=PUBLIC[FEATURES], **arguments)
    return wires


@pytest.mark.parametrize(
    "estimator",
    [
        SemiPrivateBoostingClassifier(epsilon=20, delta=1e-6, random_state=0, classes=[0, 1]),
        SemiPrivateBoostingClassifier(method="votes", random_state=0, classes=[0, 1]),
        SemiPrivateBoostingClassifier(epsilon=20, random_state=0, classes=[0, 1, 2]),
    ],
    ids=["Newton", "votes", "three labels"],
)
def test_sites_send_integer_tables_and_public_facts(estimator):
    wires = fitted_over_wires(estimator)
    shapes = {
        tuple(table.shape for answer in wire.answers for table in answer.tables)
        for wire in wires
        if len(wire.answers) > 1
    }
    assert len(shapes) == 1, "shapes of tables depend on the rows of a site"
    for wire, part in zip(wires, parts(), strict=True):
        description, *rest = wire.answers
        assert description.facts.n_rows == len(part)
        if not len(part):
            assert not rest
            continue
        assert not len(description.facts.empty)
        tables = [table for answer in rest for table in answer.tables]
        assert {table.dtype for table in tables} == {np.dtype(np.int64)}
        facts = [answer.facts for answer in rest if answer.facts not in (None, True, False)]
        assert [labels.tolist() for labels in facts[0]] == [estimator.classes]
        assert len(facts) == 1


def containers(frame, tmp_path):
    """Return a frame in many containers, with its rows wherever a container may keep them."""
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    pq, duckdb = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("duckdb")
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(arrow, tmp_path / "rows.parquet")
    position = arrow.column_names.index("name")
    codes = arrow["name"].combine_chunks().dictionary_encode()
    attributed = frame.astype({"name": pd.ArrowDtype(pa.string())}).set_index(frame["name"])
    attributed.attrs["note"] = frame["name"].iloc[0]
    noted = pa.schema([field.with_metadata({"note": "secret"}) for field in arrow.schema])
    return {
        "Arrow with notes": arrow.cast(noted),
        "pandas": frame,
        "pandas of Arrow": attributed,
        "Arrow": arrow,
        "Arrow with a dictionary": arrow.set_column(position, "name", codes),
        "record batches": arrow.to_batches(),
        "Parquet": tmp_path / "rows.parquet",
        "polars": pl.from_pandas(frame),
        "polars categories": pl.from_pandas(frame).with_columns(
            pl.col("name").cast(pl.Categorical)
        ),
        "lazy polars": pl.from_pandas(frame).lazy(),
        "DuckDB": duckdb.connect().from_arrow(arrow),
    }


def test_no_private_text_leaves_a_site(tmp_path):
    """Not even with an empty slice, whose pickle may hold the memory of the whole table."""
    frame = ROWS[["age", "ill"]].assign(name=[f"secret {i}" for i in range(len(ROWS))])
    public = pd.DataFrame({"age": np.arange(20, 90), "name": "anybody"})
    for kind, rows in containers(frame, tmp_path).items():
        wire = Wire(Site(rows))
        opened = open_sites([wire])
        model = SemiPrivateBoostingClassifier(random_state=0, classes=[0, 1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # public rows of one name
            model.fit(opened[["age", "name"]], opened["ill"], X_public=public)
        assert len(wire.answers) > 3
        for answer in wire.answers:
            assert b"secret" not in pickle.dumps(answer), kind


def test_tasks_do_not_depend_on_rows_of_other_sites():
    """Under one seed and large noise-free ε the tasks still hold released values alone.

    A task is the same for all sites, up to numbers of rows and random positions. It contains no
    row, no ledger and no source of randomness.
    """
    wires = fitted_over_wires(
        SemiPrivateBoostingClassifier(epsilon=20, delta=1e-6, random_state=0, classes=[0, 1])
    )
    modules = set()
    for task in wires[0].tasks:
        strings = [arg for _, arg, _ in pickletools.genops(task) if isinstance(arg, str)]
        modules |= {text for text in strings if text.startswith("skpublicdp.")}
    assert modules
    assert not {name for name in modules if ".privacy" in name or ".mechanisms.ran" in name}


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_labels_of_one_chunk_or_site_are_not_sent(monkeypatch, classes):
    """A chunk or a site may have a single row, whose label its neighbour does not have."""
    monkeypatch.setattr("skpublicdp.data.streaming.rows_per_chunk", lambda n_columns: 50)
    views = []
    for label in (0, 1):
        rows = ROWS[["age", "ill"]].copy()
        rows.loc[[700, 1999], "ill"] = label  # the row of one site, and of the last chunk
        wires = [Wire(Site(part)) for part in parts(rows, (0, 700, 701, 1849, 2000))]
        opened = open_sites(wires)  # the last site has three chunks and one row
        model = SemiPrivateClassifier(Stumps(), classes=classes, random_state=0)
        model.fit(opened[["age"]], opened["ill"], X_public=PUBLIC[["age"]])
        tasks = [re.sub(rb"[0-9a-f]{16}-\d+", b"", task) for wire in wires for task in wire.tasks]
        facts = [answer.facts for answer in wires[-1].answers[1:]]
        views.append((tasks, repr(facts)))
    assert views[0] == views[1]


def test_a_ledger_is_never_sent():
    with pytest.raises(TypeError, match="draws the noise of its process"):
        pickle.dumps(Ledger(1, 0, random_state=0))


def test_sites_forget_what_a_fit_stored():
    site = Site(ROWS)
    rows = open_sites([site])
    for _ in range(3):
        SemiPrivateBoostingClassifier(random_state=0).fit(
            rows[FEATURES], rows["ill"], X_public=PUBLIC[FEATURES]
        )
        rows.fold(lambda chunk: np.array([len(chunk.X)]))
        assert list(site._objects) == ["rows"]


@pytest.mark.parametrize("kind", [ValueError, BaseException], ids=["error", "panic"])
def test_what_a_site_raises_quotes_no_row(kind):
    def failing(chunk):
        raise kind(f"odd value {chunk.X['age'].iloc[0]}")

    with pytest.raises(ReadError, match="could not") as failure:
        open_sites([Site(ROWS)]).fold(failing)
    assert "odd" not in "".join(traceback.format_exception(failure.value))


def test_a_site_refuses_to_send_other_values():
    rows = open_sites([Site(ROWS)])
    with pytest.raises(ReadError, match="failed to complete"):
        rows.fold(lambda chunk: chunk.X[["age"]].to_numpy().astype(float))
    with pytest.raises(ReadError, match="rows never leave their sites"):
        next(rows.map(lambda chunk: chunk))
    with pytest.raises(ReadError, match="rows never leave their sites"):
        rows.take([0])
    with pytest.raises(ReadError, match="rows never leave their sites"):
        list(open_sites([Site(ROWS)]).drop("ill")[["age"]].map(lambda chunk: chunk.X))


def test_predictions_and_searches_need_rows():
    rows = open_sites([Site(ROWS)])
    X, y = rows[["age"]], rows["ill"]
    model = SemiPrivateClassifier(Stumps(), random_state=0).fit(X, y, X_public=PUBLIC[["age"]])
    with pytest.raises(ReadError, match="rows never leave their sites"):
        model.predict(X)
    search = SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}, random_state=0)
    with pytest.raises((ReadError, TypeError, ValueError)):
        search.fit(X, y, X_public=PUBLIC[["age"]])


# what must agree


def test_columns_must_agree():
    first, second = parts(cuts=(0, 900, 2000))
    with pytest.raises(ValueError, match="same columns in the same order; site 0 has age"):
        open_sites([Site(first), Site(second[[*second.columns[::-1]]])])
    with pytest.raises(ValueError, match="Column age must have the same type at all sites"):
        open_sites([Site(first), Site(second.astype({"age": str}))])
    job = pd.CategoricalDtype(["nurse", "cook", "clerk", "judge"])
    other = pd.CategoricalDtype(["nurse", "cook", "clerk", "judge", "king"])
    with pytest.raises(ValueError, match=r"Column job .* different declared categories"):
        open_sites([Site(first.astype({"job": job})), Site(second.astype({"job": other}))])
    with pytest.raises(ValueError, match="at least one site"):
        open_sites([])
    with pytest.raises(ValueError, match="column names"):
        Site(np.zeros((3, 2)))


def test_versions_must_agree(monkeypatch):
    old = Site(ROWS)

    class Old(Wire):
        def answer(self, task):
            answer = super().answer(task)
            return answer._replace(facts=answer.facts._replace(versions=("3.1", "0.0.1")))

    for pair in ([Site(ROWS), Old(old)], [Old(old)]):
        with pytest.raises(ValueError, match=r"same versions; .*Python 3.1 and skpublicdp 0.0.1"):
            open_sites(pair)


def test_labels_and_persons_are_columns_of_the_sites():
    rows, others = open_sites([Site(ROWS)]), open_sites([Site(ROWS)])
    model = SemiPrivateClassifier(Stumps(), random_state=0)
    for y in (ROWS["ill"], others["ill"]):
        with pytest.raises(ValueError, match="columns of the same open_sites"):
            model.fit(rows[["age"]], y, X_public=PUBLIC[["age"]])
    model = SemiPrivateClassifier(Stumps(), max_rows_per_group=2, random_state=0)
    for groups in (ROWS["person"], others["person"]):
        with pytest.raises(ValueError, match="groups must be a column"):
            model.fit(rows[["age"]], rows["ill"], X_public=PUBLIC[["age"]], groups=groups)
    model.set_params(max_rows_per_group=None)
    with pytest.raises(ValueError, match="groups was passed, but max_rows_per_group"):
        model.fit(rows[["age"]], rows["ill"], X_public=PUBLIC[["age"]], groups=rows["person"])


def test_errors_quote_no_private_value():
    rows = ROWS.astype({"ill": object})
    rows.loc[1500, "ill"] = "a secret"
    opened = open_sites([Site(part) for part in parts(rows)])
    for classes in (None, [0, 1]):
        model = SemiPrivateClassifier(Stumps(), classes=classes, random_state=0)
        with pytest.raises(ValueError, match="labels") as failure:
            model.fit(opened[["age"]], opened["ill"], X_public=PUBLIC[["age"]])
        assert "secret" not in str(failure.value)
        assert failure.value.__cause__ is None
        assert failure.value.__context__ is None


def test_a_restarted_site_is_reported():
    site = Site(ROWS)
    rows = open_sites([site])
    handle = SiteObject(rows.sites.group, rows.sites.group.keep(np.zeros, 3))
    site._objects.pop(handle.key)
    with pytest.raises(ReadError, match="was restarted"):
        rows.sites.group.add_up(np.sum, handle)


def test_positions_are_split():
    reader = open_sites([Site(part) for part in parts()]).sites
    split = reader.split_positions(np.array([0, 5, 699, 700, 729, 730, 1999]))
    assert [own.tolist() for own in split.values] == [[0, 5, 699], [0], [28, 29, 1298]]
