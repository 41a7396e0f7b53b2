"""The built site works in a real browser, on a desk and on a phone, without a network."""

import builtins
import importlib
import re
import sys
from html.parser import HTMLParser
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import sklearn.base
from PIL import Image, ImageStat

import skpublicdp
from tests import ROOT
from tests.site.conftest import SIZES

WORDS = {  # what a reader types, and pages of the guide that answer it
    "monitor": ("in_service", "scores"),
    "threshold": ("in_service", "scores"),
    "latency": ("serving",),
    "text": ("embeddings", "text_and_codes"),
    "embedding": ("embeddings",),
    "weights": ("query_release", "publish_survey"),
    "household": ("query_release",),
    "Excel": ("publish_survey",),
    "drift": ("in_service", "scores"),
    "ROC": ("scores",),
    "audit": ("why_believe_it",),
    "budget": ("budget",),
    "synthetic": ("query_release",),
}
OTHER_WORDS = ("hyperparameter", "ProgressBar", "polars", "groups")
NEEDS = {  # what a reader has: what is said there, and what to use
    "text and missing values": ("Predict a class", "SemiPrivateBoostingClassifier"),
    "a number": ("Predict a number", "SemiPrivateBoostingRegressor"),
    "embeddings": ("Predict from embeddings", "SemiPrivateLogisticRegression"),
    "one rule": ("Get one rule", "SemiPrivateClassifier"),
    "status goes with the label": ("only one class is public", "PPMHalfspaceClassifier"),
    "labels cost money": ("each label costs money", "SubsamplingActiveLearner"),
    "few labels": ("many rows without a label", "LabelBoostClassifier"),
    "labels alone": ("Protect only the labels", "LabelPrivateClassifier"),
    "statistics": ("Publish statistics", "PAPQueryRelease"),
    "synthetic rows": ("Publish synthetic rows", "MarginalQueries"),
    "no public rows": ("with known ranges and categories", "describe_columns"),
    "nothing known": ("without any knowledge about the columns", "GenericLearnerClassifier"),
    "hyperparameters": ("Choose hyperparameters", "SemiPrivateSearchCV"),
    "scores": ("Publish an accuracy", "private_scores"),
}
SAMPLE = ("SemiPrivateClassifier", "PAPQueryRelease")
"""Pages of the reference are all alike; a browser opens these."""

PUBLIC = (
    "skpublicdp",
    "skpublicdp.accounting",
    "skpublicdp.audit",
    "skpublicdp.data",
    "skpublicdp.guarantees",
    "skpublicdp.hypotheses",
    "skpublicdp.metrics",
    "skpublicdp.model_selection",
    "skpublicdp.plotting",
    "skpublicdp.query_release",
    "skpublicdp.sanitizers",
)

MADE = ("_modules", "_static", "api/generated", "auto_examples/backreferences")

UNSET = """[...document.querySelectorAll('.math')]
    .filter(math => !math.querySelector('mjx-container')).map(math => math.textContent)"""
FAULTY = """[...document.querySelectorAll('mjx-merror')].map(error => error.textContent)"""
BLANK = """Promise.all([...document.images].map(image => {
    image.loading = 'eager';
    return image.decode().then(() => null, () => image.src);
})).then(found => found.filter(source => source !== null))"""
TOO_WIDE = """document.documentElement.scrollWidth - document.documentElement.clientWidth"""
BROKEN_NAMES = """[...document.querySelectorAll('article td code .pre')]
    .filter(name => /^[A-Z]\\w+$/.test(name.textContent) && name.getClientRects().length > 1)
    .map(name => name.textContent)"""
CUT = """[...document.querySelectorAll('article pre')]
    .filter(block => block.scrollWidth > block.clientWidth + 1).map(block => block.innerText)"""
TYPESET = "window.MathJax?.startup?.promise ?? null"


class Links(HTMLParser):
    """The targets, the resources and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.resources, self.links = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if found.get("href"):
            kept = self.links if tag == "a" else self.resources
            if found.get("rel") != "canonical":
                kept.append(found["href"])
        if found.get("src"):
            self.resources.append(found["src"])


def local(url):
    """Return whether a link leads to a file of the site."""
    parts = urlsplit(url)
    return not parts.scheme and not parts.netloc


@pytest.fixture(scope="module")
def pages(site):
    found = sorted(site.rglob("*.html"))
    return {path: Links(path.read_text()) for path in found if "_static" not in path.parts}


def written(site):
    """Return the pages that somebody wrote, and a few of the reference."""
    paths = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    sample = [
        path for path in paths if path.startswith("api/") and Path(path).stem.endswith(SAMPLE)
    ]
    return [path for path in paths if not path.startswith(MADE)] + sample


def test_nothing_comes_from_elsewhere(pages):
    elsewhere = {url for page in pages.values() for url in page.resources if not local(url)}
    assert not {url for url in elsewhere if not url.startswith("data:")}


def test_every_link_leads_somewhere(pages):
    broken = set()
    for path, page in pages.items():
        for url in filter(local, page.links + page.resources):
            parts = urlsplit(url)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ids = pages[target].ids if target in pages else set()
            if not target.exists() or (
                ids and parts.fragment and unquote(parts.fragment) not in ids
            ):
                broken.add((path.name, url))
    assert not broken


@pytest.mark.parametrize("part", range(8))
def test_every_page_opens(open_page, site, part):
    page, wide = open_page(), {}
    for path in written(site)[part::8]:
        page.set_viewport_size(SIZES["desktop"])
        page.goto(path)
        page.evaluate(TYPESET)
        checks = {"formulas": UNSET, "faulty formulas": FAULTY, "pictures": BLANK, "cut code": CUT}
        for name, script in checks.items():
            found = page.evaluate(script)
            assert not found, f"{name} of {path}: {found}"
        for size in SIZES:
            page.set_viewport_size(SIZES[size])
            if over := page.evaluate(TOO_WIDE):
                wide[path, size] = over
    assert not open_page.wrong
    assert not wide, f"pages that scroll sideways, and by how many pixels: {wide}"


def hits(page, word):
    """Return the addresses that a search finds, the first ones first."""
    page.goto(f"search.html?q={word}")
    page.wait_for_selector("#search-results > p, #search-results .search-summary")
    page.wait_for_function("!document.title.includes('Searching')")
    page.wait_for_timeout(300)
    links = page.locator("#search-results ul.search > li > a").all()
    return [urlsplit(link.get_attribute("href")).path for link in links]


def test_search(open_page):
    page = open_page()
    first = {word: [Path(path).stem for path in hits(page, word)[:5]] for word in WORDS}
    lost = {word: found for word, found in first.items() if not set(WORDS[word]) & set(found)}
    assert not lost
    assert all(hits(page, word) for word in OTHER_WORDS)
    assert not open_page.wrong


def test_the_first_screen_has_the_picture(open_page):
    page = open_page()
    page.set_viewport_size({"width": 1300, "height": 800})
    page.goto("index.html")
    box = page.locator("svg.idea:not(.tall)").bounding_box()
    assert box["y"] + box["height"] < 800
    page.set_viewport_size(SIZES["phone"])
    assert page.locator("svg.tall").is_visible()


def test_landing_page_leads_to_every_estimator(pages, site):
    links = {urlsplit(url).path for url in pages[site / "index.html"].links}
    for name in skpublicdp.__all__:
        if name.endswith(("Classifier", "Regressor", "Learner", "Release", "Budget")):
            own_name = getattr(skpublicdp, name).__name__  # one class has two names
            assert f"api/generated/skpublicdp.{own_name}.html" in links
    assert {"user_guide/getting_started.html", "auto_examples/index.html"} <= links


def test_every_public_name_has_a_page(site):
    modules = [importlib.import_module(module) for module in PUBLIC]
    described = set()
    for path in (site / "api" / "generated").glob("*.html"):
        module, _, name = path.stem.rpartition(".")
        while module not in sys.modules:  # name is in a class or a module that is not imported
            module, _, outer = module.rpartition(".")
            name = f"{outer}.{name}"
        described.add(id(attrgetter(name)(sys.modules[module])))
    missing = [
        f"{module.__name__}.{name}"
        for module in modules
        for name in module.__all__
        if name != "__version__" and id(getattr(module, name)) not in described
    ]
    assert not missing, "these belong on a page of docs/api"


@pytest.mark.parametrize(
    ("path", "shown"), [("index", "import"), ("user_guide/budget", "Traceback")]
)
def test_code_is_copied_without_prompts_and_output(open_page, path, shown):
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{path}.html")
    block = page.locator("article div.highlight", has_text=shown).first
    block.hover()
    block.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()").strip()
    lines = block.locator("pre").inner_text().splitlines()
    typed = [line[4:] for line in lines if line.startswith((">>> ", "... "))]
    assert copied.splitlines() == typed
    assert len(typed) < len([line for line in lines if line])  # outputs stay behind
    compile(copied, "copied", "exec")


def test_every_block_of_code_can_be_copied(open_page):
    page = open_page()
    for path in ("index", "user_guide/boosting", "auto_examples/quickstart"):
        page.goto(f"{path}.html")
        page.wait_for_selector("button.copybtn", state="attached")
        blocks = page.locator("article div.highlight > pre")
        assert blocks.count() == page.locator("article div.highlight > button.copybtn").count() > 1


@pytest.mark.parametrize("need", NEEDS)
def test_a_click_from_the_landing_page(open_page, need):
    """Each need has a line there, whose links lead to all that a reader wants to know of it."""
    said, name = NEEDS[need]
    page = open_page()
    page.goto("index.html")
    line = page.locator(".tasks tr", has_text=said)
    links = {text: line.get_by_role("link", name=text) for text in (name, "guide", "example")}
    assert all(link.is_visible() for link in links.values())
    addresses = {text: link.evaluate("link => link.href") for text, link in links.items()}
    line.get_by_role("link", name="results").click()

    page.wait_for_load_state()
    told = section(page)
    assert re.search(r"[εδ]|seconds", told)
    assert re.search(r"\d", told)
    for text, address in addresses.items():
        page.goto(address)
        code = page.locator("article .highlight", has_text=f"{name}(")
        code.locator("button.copybtn").first.wait_for(state="attached")
        if text == name:
            assert page.locator("article dt.sig", has_text=name).first.is_visible()
        else:
            assert code.first.is_visible()
    assert not open_page.wrong


def section(page):
    """Return the text of the part of a page that its address names, or of all of it."""
    fragment = unquote(urlsplit(page.url).fragment)
    part = page.locator(f"[id='{fragment}']" if fragment else "article").first
    part.locator("h1, h2, h3").first.wait_for()
    return part.inner_text()


def brightness(picture):
    """Return the mean lightness of a screenshot, between 0 and 255."""
    return ImageStat.Stat(Image.open(BytesIO(picture)).convert("L")).mean[0]


@pytest.mark.parametrize(
    "path",
    [
        "index", "comparison", "user_guide/hypotheses", "user_guide/query_release",
        "auto_examples/index", "auto_examples/adult_queries", "auto_examples/hypothesis_classes",
    ],
)  # fmt: skip
def test_pictures_follow_the_theme(open_page, path):
    for theme in ("light", "dark"):
        page = open_page(theme=theme)
        page.goto(f"{path}.html")
        assert not page.evaluate(BLANK)
        whole = brightness(page.screenshot())
        assert whole > 180 if theme == "light" else whole < 75
        for picture in page.locator("article img").all():
            found = brightness(picture.screenshot())
            where = f"{picture.get_attribute('src')}: {found}"
            assert found > 128 if theme == "light" else found < 110, where


def test_the_theme_can_be_switched(open_page):
    page, found = open_page(theme="light"), set()
    page.goto("index.html")
    for wanted in ("light", "dark"):
        page.locator("button.theme-switch-button").first.click()
        page.locator(f"button[data-mode={wanted}]").first.click()
        found.add((wanted, page.evaluate("document.documentElement.dataset.theme")))
    assert found == {("light", "light"), ("dark", "dark")}
    page.goto("comparison.html")  # and stays so on other pages
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_diagram_follows_the_theme(open_page):
    fills = {}
    for theme in ("light", "dark"):
        page = open_page(theme=theme)
        page.goto("index.html")
        rect = page.locator("svg.idea:not(.tall) rect.open").first
        fills[theme] = rect.evaluate("box => getComputedStyle(box).fill")
    assert fills["light"] != fills["dark"]
    assert not open_page.wrong


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_screenshots(open_page, site, size, theme):
    """Keep pictures for people to look at."""
    folder = site.parent / "screenshots"
    page = open_page(size, theme)
    for path in ("index", "user_guide/getting_started", "auto_examples/index", "api/estimators"):
        page.goto(f"{path}.html")
        page.evaluate(TYPESET)
        out = folder / f"{path.replace('/', '-')}-{size}-{theme}.png"
        page.screenshot(path=out, full_page=True)
        assert out.stat().st_size > 10_000
    assert not open_page.wrong


def test_the_gallery_has_a_card_for_each_example(open_page):
    page = open_page()
    page.goto("auto_examples/index.html")
    cards = page.locator("article .example")
    links = [card.locator("a").first.get_attribute("href") for card in cards.all()]
    examples = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    assert sorted(Path(link).stem for link in links) == examples
    assert page.locator("article h2").count() > 4
    for card in cards.all():
        assert len(card.locator(".sd-card-text").last.inner_text().split()) > 5
        assert card.locator("img").bounding_box()["width"] > 280


def test_api_pages_have_source_and_examples(pages, site):
    folder = site / "api" / "generated"
    for name in ("SemiPrivateClassifier", "SemiPrivateBoostingClassifier", "PAPQueryRelease"):
        links = [urlsplit(url).path for url in pages[folder / f"skpublicdp.{name}.html"].links]
        assert any("_modules/skpublicdp/" in link for link in links)
        assert any("auto_examples/" in link and "index" not in link for link in links)


def test_the_reference_has_signatures(site):
    text = (site / "api" / "estimators.html").read_text()
    for name in ("SemiPrivateClassifier", "PublicFit"):
        assert re.search(rf"{name}</span></code></a>\s*\(", text)


def test_the_reference_has_what_is_inherited(pages, site):
    entries = (
        "SemiPrivateClassifier.score",
        "SemiPrivateLogisticRegression.get_params",
        "SubsamplingActiveLearner.decision_function",
        "PAPQueryRelease.set_output",
        "PAPQueryRelease.fit_transform",
        "StatisticsRelease",
    )
    for entry in entries:
        path = site / "api" / "generated" / f"skpublicdp.{entry.split('.')[0]}.html"
        assert f"skpublicdp.{entry}" in pages[path].ids


def test_the_reference_shows_public_bases(site):
    """A base has a page here, which its name links to, or is public elsewhere."""
    elsewhere = {*vars(sklearn.base), *vars(builtins), "ABC", "Protocol", "NamedTuple"}
    found = set()
    for path in (site / "api" / "generated").glob("*.html"):
        for bases in re.findall(r"<p>Bases: (.*?)</p>", path.read_text()):
            unlinked = re.sub(r"<a .*?</a>", "", bases)
            found |= set(re.findall(r"(\w+)</span></code>", unlinked)) - elsewhere
    assert not found


@pytest.mark.parametrize("size", SIZES)
def test_class_names_in_tables_are_whole(open_page, size):
    page = open_page(size)
    for path in ("index", "api/estimators", "user_guide/theory", "limitations"):
        page.goto(f"{path}.html")
        broken = page.evaluate(BROKEN_NAMES)
        assert not broken, f"{path}: {broken}"


def test_titles_are_not_cut(open_page):
    page = open_page()
    page.set_viewport_size({"width": 1300, "height": 900})
    for name in ("skpublicdp.SemiPrivateBoostingClassifier", "skpublicdp.SubsamplingActiveLearner"):
        page.goto(f"api/generated/{name}.html")
        for part in ("article h1", ".prev-next-title"):
            for title in page.locator(part).all():
                assert title.evaluate("title => title.scrollWidth <= title.clientWidth + 1")
                right = title.evaluate("title => title.parentElement.getBoundingClientRect().right")
                box = title.bounding_box()
                assert box["x"] + box["width"] <= right + 1
