"""What the pages claim: of the estimator beside it, exactly, and with what nobody has checked."""

import re
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="needs the sources of the package"
)

UNREVIEWED = "not been reviewed by anyone outside the project"

FALSE = (
    r"one exact draw by these counts",
    r"all that is ever told",
    r"no float decides",
    r"never a float",
    r"never a rounded float",
    r"only thing that (looks|spends)",
    r"only step of `fit` that spends",
    # a percentage without the odds that it holds at
    r"is right at most",
    r"whoever guesses",
)
"""Sentences that hold for one estimator or at even odds, and were written for all."""


def text_of(*path):
    """Return a file in one line, without the markup of emphasis."""
    text = (ROOT.joinpath(*path)).read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", text.replace("*", ""))


def sources():
    """Return everything that a reader may see, but for the changes and the generated site."""
    folders = {"docs": ("*.md", "*.svg"), "examples": ("*.py", "*.rst"), "skpublicdp": ("*.py",)}
    paths = [*ROOT.glob("*.md")]
    for folder, patterns in folders.items():
        paths += [path for kind in patterns for path in (ROOT / folder).rglob(kind)]
    hidden = {"_build", "auto_examples", "generated", "results"}
    paths = [path.relative_to(ROOT) for path in paths if path.name != "CHANGELOG.md"]
    return [path for path in paths if not hidden & set(path.parts)]


def test_no_page_says_of_all_what_holds_for_one():
    paths = sources()
    assert {Path("README.md"), Path("docs/index.md"), Path("docs/_static/idea.svg")} <= set(paths)
    texts = {str(path): text_of(path) for path in paths}
    found = [
        (path, claim)
        for path, text in texts.items()
        for claim in FALSE
        if re.search(claim, text, re.IGNORECASE)
    ]
    assert not found


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_first_pages_say_what_each_estimator_releases(page):
    """Before or beside the first snippet of boosting: rounds of noise, and a δ."""
    text = text_of(page)
    for name, said in {
        "SemiPrivateClassifier": ("one draw of the exponential mechanism", "pure ε"),
        "SemiPrivateBoostingRegressor": ("in several rounds", "δ"),
        "PAPQueryRelease": ("measurements", "δ"),
    }.items():
        places = [match.end() for match in re.finditer(rf"\b{name}`", text)]
        beside = [text[place : place + 320] for place in places]
        assert any(all(words in part for words in said) for part in beside), name


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/user_guide/faq.md"])
def test_pages_say_where_floating_point_takes_part(page):
    text = text_of(page)
    assert "exact integer and rational arithmetic" in text
    assert re.search(r"esiduals of boosting|oosting's residuals", text)
    assert "rounded to integers before they are added up" in text


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_proved_stands_beside_not_reviewed(page):
    text = text_of(page)
    place = text.index("proved")
    assert UNREVIEWED in text[place : place + 600]
