"""The page for operations teams agrees with the sources. No page installs from an index."""

import json
import re
import tomllib

import numpy as np
import pytest

import skpublicdp
from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression
from tests import ROOT

PAGE = ROOT / "docs" / "user_guide" / "operations.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "tests" / "messages.txt",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").glob("*/*.md"),
]
FROM_AN_INDEX = re.compile(r"pip install (?:-U |--upgrade )?'?skpublicdp\b")

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="needs the sources of the package"
)


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_supported_versions_are_those_of_the_package():
    rows = dict(
        re.findall(r"^\| ([\w-]+) \| ([\d., ]+)(?: or later)? \|$", PAGE.read_text("utf-8"), re.M)
    )
    python = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    assert rows.pop("Python").split(", ") == python
    assert rows == dict(requirement.split(">=") for requirement in project()["dependencies"])


@pytest.mark.filterwarnings("ignore")
def test_the_versions_of_formats_are_those_of_the_package():
    text = (ROOT / "docs" / "user_guide" / "stability.md").read_text(encoding="utf-8")
    receipts = re.findall(r"format of receipts, now version (\d+)", text)
    models = re.findall(r"now version (\d+) of boosting and version (\d+) of linear models", text)
    X, y = np.arange(40.0).reshape(-1, 1), np.arange(40) % 2
    boosting = SemiPrivateBoostingClassifier(random_state=0).fit(X, y, X_public=X.copy())
    linear = SemiPrivateLogisticRegression(random_state=0).fit(X, y, X_public=X.copy())
    assert receipts == [str(boosting.privacy_.to_dict()["version"])]
    assert models == [tuple(str(json.loads(m.to_json())["version"]) for m in (boosting, linear))]


def test_the_version_of_the_citation_is_that_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [skpublicdp.__version__]
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert latest[1] == skpublicdp.__version__.partition(".dev")[0]


def test_its_targets_and_files_exist():
    text = PAGE.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`?make ([\w-]+)", text))
    assert {"sbom", "wheel", "audit"} <= targets
    assert targets <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for path in re.findall(r"`((?:tests|skpublicdp)/[\w/.]+|\w+\.(?:md|cff))`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_installs_from_an_index_where_nothing_is_published(page):
    assert not FROM_AN_INDEX.findall(page.read_text(encoding="utf-8"))
