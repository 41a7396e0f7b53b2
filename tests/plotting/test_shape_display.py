"""The shapes that are drawn are those of the classifier, cell by cell."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.plotting import ShapeDisplay
from tests.internals.plotting import find_limits

pytestmark = pytest.mark.filterwarnings(
    "ignore:The public rows contain fewer than two different values of same"
)
matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
matplotlib.use("Agg")  # draws without a display

RNG = np.random.default_rng(0)
N, N_PUBLIC = 4000, 300


def people(n):
    X = pd.DataFrame(
        {
            "job": RNG.choice(["farm", "shop", "sea"], size=n),
            "age": RNG.integers(18, 90, size=n),
            "wage": np.where(RNG.random(n) < 0.2, np.nan, RNG.exponential(size=n)),
            "same": np.ones(n),
        }
    )
    score = (X["job"] == "sea") + 0.05 * (X["age"] - 50) + X["wage"].isna()
    return X, np.where(score + RNG.logistic(size=n) > 0.5, "rich", "poor")


X, Y = people(N)
X_PUBLIC, _ = people(N_PUBLIC)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def clf():
    return SemiPrivateBoostingClassifier(random_state=0).fit(X, Y, X_public=X_PUBLIC)


@pytest.fixture(scope="module")
def clf_three():
    y = np.where(X["age"] > 70, "old", Y)
    return SemiPrivateBoostingClassifier(random_state=0).fit(X, y, X_public=X_PUBLIC)


@pytest.fixture(scope="module")
def clf_pairs():
    y = np.where((X["age"] > 50) ^ (X["job"] == "sea"), "rich", "poor")
    return SemiPrivateBoostingClassifier(random_state=0, epsilon=3).fit(X, y, X_public=X_PUBLIC)


def shape_of(clf, name):
    (shape,) = (shape for shape in clf.shapes_ if shape.name == name)
    return shape


def drawn_steps(display, panel):
    return display.steps_[panel].get_data(), display.bands_[panel].get_data()


def test_steps_are_the_scores_between_the_cuts(clf):
    shape = shape_of(clf, "age")
    display = ShapeDisplay.from_estimator(clf, "age")
    (scores, edges, _), (above, band_edges, below) = drawn_steps(display, 0)
    np.testing.assert_array_equal(scores, shape.scores[0, :-1])
    np.testing.assert_array_equal(edges[1:-1], shape.cuts)
    np.testing.assert_array_equal(edges, band_edges)
    np.testing.assert_allclose(above - scores, 2 * shape.deviations[0, :-1])
    np.testing.assert_allclose(scores - below, 2 * shape.deviations[0, :-1])
    assert X_PUBLIC["age"].min() <= edges[0] < shape.cuts[0]
    assert shape.cuts[-1] < edges[-1] <= X_PUBLIC["age"].max()
    assert display.missing_ == display.bars_ == [None]  # no age is missing among the public rows
    assert display.axes_[0].get_title() == "age"
    assert display.axes_[0].get_ylabel() == "log-odds of rich"


def test_missing_numbers_are_apart(clf):
    shape = shape_of(clf, "wage")
    display = ShapeDisplay.from_estimator(clf, "wage")
    (point, _, (error,)) = display.missing_[0].lines
    ((place, height),) = point.get_xydata()
    assert height == shape.scores[0, -1] != 0
    assert place > display.steps_[0].get_data().edges[-1]
    ((_, low), (_, high)) = error.get_segments()[0]
    half = 2 * shape.deviations[0, -1]
    np.testing.assert_allclose([low, high], [height - half, height + half])
    ticks = [tick.get_text() for tick in display.axes_[0].get_xticklabels()]
    assert ticks[-1] == "missing"
    assert len(shape.scores[0]) == len(display.steps_[0].get_data().values) + 1


def test_bars_are_the_categories(clf):
    shape = shape_of(clf, "job")
    display = ShapeDisplay.from_estimator(clf, "job")
    (bars,) = display.bars_
    triples = zip(shape.cells, shape.scores[0], shape.deviations[0], strict=True)
    of_cell = {cell: (score, deviation) for cell, score, deviation in triples}
    labels = [tick.get_text() for tick in display.axes_[0].get_yticklabels()]
    assert sorted(labels) == ["farm", "sea", "shop"]  # no other one was seen
    assert labels[-1] == "sea"
    segments = bars.errorbar.lines[2][0].get_segments()
    for label, bar, ((low, _), (high, _)) in zip(labels, bars, segments, strict=True):
        score, deviation = of_cell[label]
        assert bar.get_width() == score
        np.testing.assert_allclose([low, high], [score - 2 * deviation, score + 2 * deviation])
    assert display.steps_ == display.bands_ == [None]
    assert display.axes_[0].get_xlabel() == "log-odds of rich"


def test_the_most_important_come_first(clf):
    display = ShapeDisplay.from_estimator(clf)
    order = np.argsort(-clf.feature_importances_)
    assert [axes.get_title() for axes in display.axes_] == [*clf.feature_names_in_[order]]
    assert display.figure_.axes == [*display.axes_]
    columns = [f"c{k}" for k in range(8)]
    many, public = RNG.normal(size=(500, 8)), RNG.normal(size=(50, 8))
    y = (many[:, 3] > 0).astype(int)
    wide = SemiPrivateBoostingClassifier(random_state=0, epsilon=10)
    wide.fit(pd.DataFrame(many, columns=columns), y, X_public=pd.DataFrame(public, columns=columns))
    display = ShapeDisplay.from_estimator(wide)
    assert len(display.axes_) == 6
    assert display.axes_[0].get_title() == "c3"


def test_targets(clf, clf_three):
    display = ShapeDisplay.from_estimator(clf, ["age", "job"], target="poor")
    scores = display.steps_[0].get_data().values
    np.testing.assert_array_equal(scores, -shape_of(clf, "age").scores[0, :-1])
    labels = [tick.get_text() for tick in display.axes_[1].get_yticklabels()]
    assert labels[0] == "sea"
    assert display.axes_[0].get_ylabel() == "log-odds of poor"
    for k, label in enumerate(clf_three.classes_):
        display = ShapeDisplay.from_estimator(clf_three, "age", target=label)
        shape = shape_of(clf_three, "age")
        (scores, _, _), (above, _, _) = drawn_steps(display, 0)
        np.testing.assert_array_equal(scores, shape.scores[k, :-1])
        np.testing.assert_allclose(above - scores, 2 * shape.deviations[k, :-1])
        assert display.axes_[0].get_ylabel() == f"log-odds of {label}"


def test_pairs_are_heat_maps(clf_pairs):
    (pair,) = (pair for pair in clf_pairs.pairs_ if set(pair.names) == {"age", "job"})
    display = ShapeDisplay.from_estimator(clf_pairs, [("age", "job"), "age"])
    assert [axes.get_title() for axes in display.axes_] == [" & ".join(pair.names), "age"]
    assert display.maps_[1] is None
    assert display.steps_[0] is display.bars_[0] is display.bands_[0] is display.missing_[0] is None
    colors = display.maps_[0].get_array()
    assert len(colors) < pair.scores[0].size  # cells that are alike are one
    shown = {round(float(value), 12) for value in colors.ravel()}
    seen = np.ones(pair.scores[0].shape, dtype=bool)
    for axis, cells in enumerate(pair.cells):
        away = [k for k, cell in enumerate(cells) if cell in ("(other)", "(missing)")]
        seen[(slice(None),) * axis + (away,)] = False
    assert shown == {round(float(value), 12) for value in pair.scores[0][seen]}
    assert display.maps_[0].get_clim()[1] == np.abs(colors).max() == -display.maps_[0].get_clim()[0]
    numbers = {
        f"{score:+.2f} ± {2 * deviation:.2f}"
        for score, deviation in zip(pair.scores[0][seen], pair.deviations[0][seen], strict=True)
    }
    assert {text.get_text() for text in display.axes_[0].texts} == numbers
    # the other way round, and with the sign of the other label
    other = ShapeDisplay.from_estimator(clf_pairs, [("job", "age")], target="poor")
    assert (other.maps_[0].get_array() == -colors).all()
    assert ShapeDisplay.from_estimator(clf_pairs).axes_[0].get_title() == " & ".join(pair.names)


def test_many_fields_are_hatched_where_unsure(clf_pairs):
    pair = clf_pairs.pairs_[0]
    scores = np.arange(49.0).reshape(1, 7, 7) - 24
    deviations, shares = np.full((1, 7, 7), 5.2), np.full((7, 7), 1 / 49)
    cells = tuple(f"c{k}" for k in range(7))
    wide = replace(
        pair,
        cells=(cells, cells),
        cuts=(np.empty(0),) * 2,
        scores=scores,
        deviations=deviations,
        shares=shares,
    )
    display = ShapeDisplay([wide]).plot()
    assert not display.axes_[0].texts
    hatched = {(int(p.get_x()), int(p.get_y())) for p in display.axes_[0].patches}
    assert hatched == {(x, y) for x in range(7) for y in range(7) if abs(scores[0, x, y]) <= 10.4}
    colors = display.maps_[0].get_array().reshape(7, 7)
    np.testing.assert_array_equal(colors.T, scores[0])


def test_votes_have_pairs_alone():
    votes = SemiPrivateBoostingClassifier(method="votes", random_state=0)
    votes.fit(X, Y, X_public=X_PUBLIC)
    display = ShapeDisplay.from_estimator(votes)
    assert None not in display.maps_
    texts = [text.get_text() for axes in display.axes_ for text in axes.texts]
    assert not any("±" in text for text in texts)  # nobody knows how sure votes are


def test_dates_are_written_as_dates():
    when = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), "D"))
    rows = pd.DataFrame({"when": when.where(RNG.random(N) < 0.9)})
    y = when > pd.Timestamp("2021-06-01")
    clf = SemiPrivateBoostingClassifier(random_state=0).fit(rows, y, X_public=rows[:300].copy())
    ticks = ShapeDisplay.from_estimator(clf).axes_[0].get_xticklabels()
    texts = [tick.get_text() for tick in ticks]
    assert texts[-1] == "missing"
    assert len(texts) > 2
    assert all(text.startswith("202") and len(text) == 10 for text in texts[:-1])
    assert texts[:-1] == sorted(texts[:-1])


def test_draws_where_and_how_it_is_told(clf):
    _, (left, right) = plt.subplots(1, 2)
    display = ShapeDisplay.from_estimator(
        clf,
        ["age", "job"],
        ax=[left, right],
        step_kwargs={"linewidth": 5},
        band_kwargs={"color": "red"},
        bar_kwargs={"height": 0.2},
    )
    assert (display.axes_[0], display.axes_[1]) == (left, right)
    assert display.figure_ is left.figure
    assert display.steps_[0].get_linewidth() == 5
    assert display.bands_[0].get_facecolor() == (1, 0, 0, 1)
    assert display.bars_[1][0].get_height() == pytest.approx(0.2)
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "± 2 standard deviations"
    ]
    assert right.get_legend() is None
    assert display.plot() is display
    assert left not in display.axes_
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["± 2 standard deviations"]
    _, (left, right) = plt.subplots(1, 2)
    ShapeDisplay.from_estimator(clf, ["job", "age"], ax=[left, right])
    assert left.get_legend() is None  # bands need a word more than error bars do
    assert right.get_legend() is not None
    _, alone = plt.subplots()
    assert ShapeDisplay.from_estimator(clf, "job", ax=alone).axes_.tolist() == [alone]
    bare = ShapeDisplay(clf.shapes_).plot()
    assert bare.axes_[1].get_ylabel() == "log-odds"
    assert bare.steps_[1].get_data().edges[0] == find_limits(clf.shapes_[1].cuts)[0]


def test_says_what_is_wrong(clf, clf_three, clf_pairs):
    for feature in ("town", 4, -1, None, 1.5):
        with pytest.raises(ValueError, match="below 4"):
            ShapeDisplay.from_estimator(clf, [feature])
    with pytest.raises(ValueError, match="at least one column"):
        ShapeDisplay.from_estimator(clf, [])
    with pytest.raises(ValueError, match="'idle'"):
        ShapeDisplay.from_estimator(clf, target="idle")
    with pytest.raises(ValueError, match="got None"):
        ShapeDisplay.from_estimator(clf_three)
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="each of 2"):
        ShapeDisplay.from_estimator(clf, ["age", "job"], ax=ax)
    with pytest.raises(ValueError, match="not fitted"):
        ShapeDisplay.from_estimator(SemiPrivateBoostingClassifier())
    numbers = RNG.normal(size=(300, 2))
    y = (numbers[:, 0] > 0).astype(int)
    tree = SemiPrivateClassifier(random_state=0).fit(numbers, y, X_public=RNG.normal(size=(50, 2)))
    with pytest.raises(ValueError, match="got SemiPrivateC"):
        ShapeDisplay.from_estimator(tree)
    votes = SemiPrivateBoostingClassifier(method="votes", random_state=0)
    votes.fit(X[["age"]], Y, X_public=X_PUBLIC[["age"]])
    with pytest.raises(ValueError, match="no such terms"):
        ShapeDisplay.from_estimator(votes)
    with pytest.raises(ValueError, match="age & same"):
        ShapeDisplay.from_estimator(clf_pairs, [("age", "same")])
    with pytest.raises(ValueError, match="'town'"):
        ShapeDisplay.from_estimator(clf_pairs, [("age", "town")])


def test_names_what_to_install(clf, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    expected = "requires matplotlib. Install it with `pip install matplotlib`."
    with pytest.raises(ImportError, match=f"^ShapeDisplay.from_estimator {expected}"):
        ShapeDisplay.from_estimator(clf)
    with pytest.raises(ImportError, match=f"^ShapeDisplay.plot {expected}"):
        ShapeDisplay(clf.shapes_).plot()
