"""Model cards: whole pages that need nothing else, and say nothing that is secret."""

import ast
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import skpublicdp
from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    LabelPrivateClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
    SubsamplingActiveLearner,
)
from skpublicdp.accounting import Pure
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.accounting import PROOF_TITLES, receipts
from tests.internals.plotting import NOTE_SECTIONS
from tests.internals.shared import public_settings

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")  # draws without a display

from skpublicdp.plotting import (  # noqa: E402
    BudgetDisplay,
    CDFDisplay,
    MarginalDisplay,
    ShapeDisplay,
    report,
)
from tests import ROOT  # noqa: E402

SEED = 987654321
NASTY = "<script>alert('x')</script>&amp;\"'"
VOID = {"meta", "img", "br", "input", "hr", "link"}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = np.where(X[:, 0] > 0, "yes", "no")
PUBLIC = RNG.normal(size=(80, 2))


class Page(HTMLParser):
    """Reads a page strictly: tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href", "action", "data"}]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def fitted(kind):
    boosting = SemiPrivateBoostingClassifier(random_state=SEED, epsilon=3)
    return {
        "tree": lambda: SemiPrivateClassifier(random_state=SEED).fit(X, Y, X_public=PUBLIC),
        "boosting": lambda: boosting.fit(X, Y, X_public=PUBLIC),
        "no public rows": lambda: boosting.set_params(epsilon=8, bounds=(-4, 4)).fit(X, Y),
        "three": lambda: boosting.fit(X, np.arange(600) % 3, X_public=PUBLIC),
        "votes": lambda: SemiPrivateBoostingClassifier(method="votes", random_state=SEED).fit(
            X, Y, X_public=PUBLIC
        ),
        "regressor": lambda: SemiPrivateBoostingRegressor(
            outcome_bounds=(-3, 3), random_state=SEED
        ).fit(X, X[:, 0], X_public=PUBLIC),
        "logistic": lambda: SemiPrivateLogisticRegression(random_state=SEED).fit(
            X, Y, X_public=PUBLIC
        ),
        "linear": lambda: SemiPrivateLinearRegression(
            outcome_bounds=(-3, 3), random_state=SEED
        ).fit(X, X[:, 0], X_public=PUBLIC),
        "generic": lambda: GenericLearnerClassifier(random_state=SEED).fit(
            X, np.where(np.arange(600) < 400, X[:, 0] > 0, -1), X_public=PUBLIC
        ),
        "ppm": lambda: PPMHalfspaceClassifier(private_label="no", random_state=SEED).fit(X, Y),
        "active": lambda: _active(),
        "boost": lambda: LabelBoostClassifier(random_state=SEED).fit(
            X, np.where(np.arange(600) < 500, X[:, 0] > 0, -1), X_public=PUBLIC
        ),
        "release": lambda: PAPQueryRelease(bounds=(-5, 5), random_state=SEED).fit(
            X[:, :1], X_public=PUBLIC[:, :1]
        ),
        "search": lambda: SemiPrivateSearchCV(
            SemiPrivateClassifier(), {"alpha": [0.05, 0.2]}, random_state=SEED
        ).fit(X, Y, X_public=PUBLIC),
        "sanitizer": lambda: QuantileSanitizer(bounds=(-5, 5), random_state=SEED).fit(X),
    }[kind]()


def _active():
    learner = SubsamplingActiveLearner(random_state=SEED)
    asked = learner.query(X)
    y = np.full(len(X), -1)
    y[asked] = X[asked, 0] > 0
    return learner.fit(X, y, X_public=PUBLIC)


# topics of NIST SP 800-226, sections 2 to 4, in its order
NIST = [
    *("Privacy parameters", "Unit of privacy", "Differentially private algorithms", "Utility"),
    *("Bias", "Query model", "Threat model", "Mechanism implementation"),
    *("Data security and access control", "Data collection exposure"),
]
KINDS = [
    *("tree", "boosting", "three", "votes", "regressor", "generic", "ppm", "active", "boost"),
    *("release", "search", "sanitizer", "no public rows", "logistic", "linear"),
]
quiet = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.one_in(2)
@quiet
@pytest.mark.parametrize("kind", KINDS)
def test_every_estimator_has_a_page_of_its_own(kind, tmp_path):
    estimator = fitted(kind)
    path = report(estimator, tmp_path / "card.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    # nothing is loaded or run, and every picture is inside
    assert not {"script", "link", "iframe", "object", "form"} & set(page.tags)
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    for link in page.links:
        ElementTree.fromstring(b64decode(link.partition("base64,")[2]))
    assert not re.search(r"https?://|url\(", text)
    drawn = {"boosting", "three", "votes", "regressor", "release", "no public rows"}
    assert bool(page.links) == (kind in drawn)
    # what it must say
    assert type(estimator).__name__ in page.text
    assert estimator.privacy_.in_words() in page.text
    assert estimator.privacy_.unit in page.text
    for mechanism in estimator.privacy_.mechanisms:
        assert mechanism.name in page.text
    assert "The randomness was seeded" in page.text
    if hasattr(estimator, "guarantee_reason_"):
        assert estimator.guarantee_reason_ in page.text
    if hasattr(estimator, "hypothesis_"):
        assert str(estimator.hypothesis_) in page.text
    if hasattr(estimator, "explain"):
        assert estimator.explain() in page.text
    if hasattr(estimator, "drift_"):
        drift = estimator.drift_
        assert ("was not compared" if drift is None else f"drift_ is {drift:.1f}") in page.text
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert ("Synthetic rows" in page.text) == (kind == "sanitizer")
    shown = "Model" if is_classifier(estimator) or is_regressor(estimator) else "Release"
    assert headings == [shown, *NIST, "Settings"]
    assert f"<title>{shown} card: {type(estimator).__name__}</title>" in text
    percent = float(estimator.privacy_.in_words().split("at most ")[1].split("%")[0])
    assert f"at most {percent - 50:.1f} percentage points over guessing" in page.text
    # who knows the seed can undo the protection
    assert str(SEED) not in text
    # the same page again
    assert report(estimator, str(tmp_path / "again.html")).read_text(encoding="utf-8") == text


@quiet
def test_the_risk_names_what_the_attacker_guesses_between(tmp_path):
    X = pd.DataFrame({"sex": ["f", "m"] * 150, "ill": ["no", "no", "yes"] * 100})
    release = PAPQueryRelease(random_state=0).fit(X, X_public=X[:50].copy())
    partly = release.calibrate({"sex": {"f": 1, "m": 1}}, from_private_rows=True)
    labels = LabelPrivateClassifier(LogisticRegression(), random_state=0)
    labels.fit(np.arange(300.0)[:, None], X["ill"])
    pairs = {"two persons with equal public columns": partly, "two labels": labels}
    for pair, model in ({"two persons": release} | pairs).items():
        text = report(model, tmp_path / "card.html").read_text(encoding="utf-8")
        assert f"points over guessing between {pair}</td>" in text


@quiet
def test_a_release_lists_what_it_uses_and_nothing_about_boosting(tmp_path):
    release = fitted("release")
    text = report(release, tmp_path / "card.html").read_text(encoding="utf-8")
    assert "values outside the bounds -5 to 5 count as the nearer bound" in text
    settings = text.partition("<h2>Settings</h2>")[2]
    assert "<th>trust</th>" in settings
    assert "beta" not in settings
    assert "residuals of boosting" not in text
    assert "Running times are not protected." in text
    paper = PAPQueryRelease(method="pmw", bounds=(-5, 5), alpha=0.3, random_state=SEED)
    paper = paper.fit(X[:, :1], X_public=PUBLIC[:, :1])
    settings = report(paper, tmp_path / "card.html").read_text(encoding="utf-8")
    settings = settings.partition("<h2>Settings</h2>")[2]
    assert "<th>alpha</th><td>0.3</td>" in settings
    assert "<th>beta</th>" in settings
    assert "trust" not in settings
    model = report(fitted("boosting"), tmp_path / "card.html").read_text(encoding="utf-8")
    assert "residuals of boosting" in model


@quiet
@pytest.mark.parametrize("kind", KINDS)
def test_a_card_can_be_used_without_the_repository(kind, tmp_path):
    """Its reader sees which version it is of, and titles of proof pages instead of paths."""
    estimator = fitted(kind)
    page = Page(report(estimator, tmp_path / "card.html").read_text(encoding="utf-8"))
    assert f"written by skpublicdp {skpublicdp.__version__}." in page.text
    assert f"the documentation of skpublicdp {skpublicdp.__version__}" in page.text
    assert "reviewed by anyone outside the project" in page.text
    assert ".md" not in page.text
    for mechanism in estimator.privacy_.mechanisms:
        for name in re.findall(r"docs/proofs/(\w+)\.md", mechanism.reference):
            assert f"proof page “{PROOF_TITLES[name]}”" in page.text


def test_titles_are_those_of_the_proof_pages():
    """Every page that the package names as a proof is there, under its heading."""
    sources = Path(skpublicdp.__file__).parent.rglob("*.py")
    strings = [
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = {
        name
        for text in strings
        if len(text) < 100 and text.endswith(".md")
        for name in re.findall(r"docs/proofs/(\w+)\.md$", text)
    }
    assert named == set(PROOF_TITLES)
    proofs = ROOT / "docs" / "proofs"
    for name, title in PROOF_TITLES.items():
        heading = (proofs / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
        assert heading == f"# {title}"


def test_proofs_are_links_where_the_documentation_has_an_address(monkeypatch):
    text = "<somebody>; docs/proofs/moments.md"
    title = PROOF_TITLES["moments"]
    assert receipts._proof_html(text) == f"&lt;somebody&gt;; proof page “{title}”"
    monkeypatch.setattr(receipts, "DOCUMENTATION_URL", "https://docs.example/0.2/")
    link = f'<a href="https://docs.example/0.2/proofs/moments.html">{title}</a>'
    assert receipts._proof_html(text) == f"&lt;somebody&gt;; proof page “{link}”"


SCALED = [("spread", PublicFit()), ("rule", SemiPrivateClassifier(random_state=SEED))]


def around(kind):
    """A fitted pipeline or search, what it names, and the learner inside."""
    if kind == "pipeline":
        with sklearn.config_context(enable_metadata_routing=True):
            found = Pipeline(SCALED, transform_input=["X_public"]).fit(X, Y, X_public=PUBLIC)
        return found, ["spread", "StandardScaler, fitted to public rows alone"], found[-1]
    if kind == "leaking":
        steps = [("hidden", StandardScaler()), ("skipped", "passthrough"), SCALED[1]]
        found = Pipeline(steps).fit(X, Y, rule__X_public=PUBLIC)
        return found, ["does not cover the steps before the learner. If hidden learned"], found[-1]
    if kind == "grid":
        grid = {"rule__alpha": [0.1, 0.2]}
        mask = np.arange(len(X)) < 100
        with sklearn.config_context(enable_metadata_routing=True):
            found = GridSearchCV(Pipeline(SCALED), grid, cv=2).fit(X, Y, is_public=mask)
        return found, ["spread", "does not cover GridSearchCV"], found.best_estimator_[-1]
    unseeded = Pipeline([SCALED[0], ("rule", SemiPrivateClassifier())])
    found = SemiPrivateSearchCV(unseeded, {"rule__alpha": [0.1, 0.2]}, random_state=SEED)
    found = found.fit(X, Y, X_public=PUBLIC)
    return found, ["spread", "SemiPrivateSearchCV"], found


@quiet
@pytest.mark.parametrize("kind", ["pipeline", "leaking", "grid", "private search"])
def test_a_card_of_what_is_inside_a_pipeline_or_a_search(kind, tmp_path):
    given, named, learner = around(kind)
    text = report(given, tmp_path / "card.html").read_text(encoding="utf-8")
    page = Page(text)
    assert f"<h1>{type(learner).__name__}</h1>" in text
    assert str(learner.privacy_.n_private) in page.text
    assert str(given.predict(X[:1])[0]) in page.text
    for text_part in named:
        assert text_part in page.text
    assert ("does not cover the steps" in page.text) == (kind == "leaking")
    assert ("does not cover GridSearchCV" in page.text) == (kind == "grid")


@quiet
@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_show_rule_and_receipt_below_the_diagram(kind):
    estimator = fitted(kind)
    diagram = sklearn.utils.estimator_html_repr(estimator)
    for shown in (estimator._repr_html_(), estimator._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in shown
        below = shown[shown.rindex("</style>") :] if shown.rindex("</style>") > 0 else shown
        assert estimator.privacy_._repr_html_() in below
        card = shown[shown.index(estimator.privacy_._repr_html_()) :]
        assert not re.search("<script", card)
    assert "Privacy receipt" not in diagram
    assert estimator._repr_mimebundle_()["text/plain"] == repr(estimator)
    with sklearn.config_context(display="text"):
        assert not hasattr(estimator, "_repr_html_")
        assert "text/html" not in estimator._repr_mimebundle_()


def test_text_is_escaped(tmp_path):
    rows = pd.DataFrame({NASTY: X[:, 0], "b": np.where(X[:, 1] > 0, NASTY, "fine")})
    labels = np.where(X[:, 0] > 0, NASTY, "no")
    clf = SemiPrivateBoostingClassifier(random_state=0, epsilon=3)
    clf.fit(rows[100:], labels[100:], X_public=rows[:100].copy())
    page = Page(report(clf, tmp_path / "card.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert NASTY in page.text
    tree = SemiPrivateClassifier(random_state=0)
    tree.fit(rows[[NASTY]][100:], labels[100:], X_public=rows[[NASTY]][:100].copy())
    page = Page(report(tree, tmp_path / "card.html").read_text(encoding="utf-8"))
    assert NASTY in page.text
    below = tree._repr_html_().split("What was learned")[1]
    assert "<script" not in below


MATHEMATICS = ["$\\frac{$", "$$x$$", "$10 to $20", "\\$1", "a_$1"]


def drawn_texts(figure):
    """Return the texts of a figure as they are drawn, after drawing them."""
    figure.canvas.draw()
    texts = figure.findobj(matplotlib.text.Text)
    parsed = [text._preprocess_math(text.get_text()) for text in texts]
    assert not any(is_math for _, is_math in parsed)
    return {text for text, _ in parsed}


@pytest.mark.parametrize("name", MATHEMATICS)
def test_dollar_signs_are_no_mathematics(name, tmp_path):
    """Names with dollar signs are drawn as they are, in figures of every kind."""
    rows = pd.DataFrame({name: X[:, 0], "b": np.where(X[:, 1] > 0, name, "fine")})
    labels = np.where(X[:, 0] > 0, name, "no")
    public, rows, labels = rows[:100].copy(), rows[100:], labels[100:]
    clf = SemiPrivateBoostingClassifier(random_state=0, epsilon=9).fit(
        rows, labels, X_public=public
    )
    release = PAPQueryRelease(random_state=0).fit(rows, X_public=public)
    column = PAPQueryRelease(random_state=0).fit(rows[[name]], X_public=public[[name]])
    for fitted_object in (clf, release, column):
        report(fitted_object, tmp_path / "card.html")
    budget = PrivacyBudget(9)
    budget.group(name).spend(Pure(1), who=name)
    displays = (
        (BudgetDisplay.from_budget(budget), {name}),
        (ShapeDisplay.from_estimator(clf, target=name), {name, f"log-odds of {name}"}),
        (MarginalDisplay.from_estimator(release, name), {name}),
        (MarginalDisplay.from_estimator(release, "b"), {name, "fine"}),
        (CDFDisplay.from_estimator(column), {name}),
    )
    for display, expected in displays:
        assert expected <= drawn_texts(display.figure_)
        matplotlib.pyplot.close(display.figure_)


def test_settings_hold_no_seed_and_no_rows():
    inner = SemiPrivateClassifier(random_state=SEED)
    given = dict(public_settings(SubsamplingActiveLearner(inner, random_state=SEED)))
    assert "random_state" not in given
    assert str(SEED) not in str(given)
    assert "SemiPrivateClassifier" in given.values()
    given = dict(
        public_settings(SemiPrivateClassifier(bounds=np.zeros((2, 2)), classes=["a", "b"]))
    )
    assert given["bounds"] == "ndarray"
    assert given["classes"] == "a, b"


def test_what_has_no_card(tmp_path):
    with pytest.raises(NotFittedError):
        report(SemiPrivateClassifier(), tmp_path / "card.html")
    with pytest.raises(TypeError, match="got Logistic"):
        report(LogisticRegression().fit(X, Y), tmp_path / "card.html")
    assert not list(tmp_path.iterdir())


def test_scores_groups_and_texts_of_the_curator(tmp_path):
    clf = SemiPrivateClassifier(random_state=0).fit(X[100:], Y[100:], X_public=X[:100])
    by = np.where(X[:, 1] > 0, "<east>", "west")
    scores = private_scores(clf, X, Y, by=by, by_values=["<east>", "west"], random_state=0)
    texts = {
        "title": "Risk <1>",
        "intended_use": "To plan <beds>.",
        "contact": "ethics & co",
        "notes": {name: f"note of {name}" for name in NOTE_SECTIONS},
    }
    html = report(clf, tmp_path / "card.html", scores=scores, **texts).read_text(encoding="utf-8")
    assert "<h1>Risk &lt;1&gt;</h1>" in html
    assert "To plan &lt;beds&gt;." in html
    assert "ethics &amp; co" in html
    assert all(html.count(f"note of {name}") == 1 for name in NOTE_SECTIONS)
    assert "To be written by the curator" not in html
    assert "does not state the accuracy" not in html
    low, high = scores.interval("accuracy")
    assert f"{scores.accuracy:.3f} [{low:.3f}, {high:.3f}]" in html
    for group, point in scores.rates_by_group().items():
        row = html.split(f"<td>{group.replace('<', '&lt;').replace('>', '&gt;')}</td>")[1]
        assert row.startswith(f"<td>{point.n_rows:.0f}</td><td>{point.sensitivity:.3f} [")
    assert "(ε, δ) = (1, 0), which adds up" in html
    plain = report(clf, tmp_path / "card.html").read_text(encoding="utf-8")
    assert "does not state the accuracy" in plain
    assert plain.count("To be written by the curator") == 2


def test_scores_of_a_regressor_are_on_its_card(tmp_path):
    outcomes = np.clip(X[:, 0], -2, 2)
    reg = SemiPrivateBoostingRegressor(bounds=None, outcome_bounds=(-2, 2), random_state=0)
    reg = reg.fit(X[100:], outcomes[100:], X_public=X[:100])
    scores = private_scores(reg, X, outcomes, random_state=0)
    html = report(reg, tmp_path / "card.html", scores=scores).read_text(encoding="utf-8")
    assert f"<th>mae</th><td>{scores.mae:.3f} [" in html


def test_what_a_card_does_not_take(tmp_path):
    clf = SemiPrivateClassifier(random_state=0).fit(X[100:], Y[100:], X_public=X[:100])
    with pytest.raises(ValueError, match="notes must have keys among"):
        report(clf, tmp_path / "card.html", notes={"colour": "blue"})
    with pytest.raises(TypeError, match="result of private_scores; got float"):
        report(clf, tmp_path / "card.html", scores=0.9)
    assert not list(tmp_path.iterdir())
