"""Every snippet runs in the environment that its page asks for: it imports nothing else."""

import ast
import doctest
import re
import sys
import tomllib

import pytest

from tests import ROOT

PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *(ROOT / "docs").glob("user_guide/*.md")]
BARE = "getting_started.md"
USUAL = {"data", "plot"}
"""What getting_started says that the other pages need."""

MODULES = {"scikit-learn": "sklearn"}
"""Distributions whose module has another name."""

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="needs the sources of the package"
)


def modules(requirements):
    """Return what requirements such as ``dask[distributed]>=2025`` let a program import."""
    found = set()
    for requirement in requirements:
        name, extras = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", requirement).groups()
        found |= {MODULES.get(name, name), *(extras or "").split(",")}
    return found


def imported(code):
    """Return the top-level modules that a snippet imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def missing(page):
    """Return what the snippets of a page import and the page does not ask for."""
    text = page.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = set() if page.name == BARE else set(USUAL)
    if page.name != BARE:
        for extras in re.findall(r"pip install '[^']*\[([\w,]+)\]'", text):
            asked |= set(extras.split(","))
    there = modules(project["dependencies"]) | {"skpublicdp"} | sys.stdlib_module_names
    for extra in asked:
        there |= modules(project["optional-dependencies"][extra])
    snippets = doctest.DocTestParser().get_examples(text)
    return {name for snippet in snippets for name in imported(snippet.source)} - there


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_import_what_their_page_asks_for(page):
    assert not missing(page)


def test_what_is_not_asked_for_is_found(tmp_path):
    page = tmp_path / "some.md"
    page.write_text(">>> import pandas as pd, duckdb\n>>> from sklearn import svm\n")
    assert missing(page) == {"duckdb"}
    page.write_text("`pip install '.[duckdb]'`\n\n>>> import duckdb\n")
    assert missing(page) == set()
    page = tmp_path / BARE
    page.write_text("`pip install '.[data]'` is for other pages\n\n>>> import pandas\n")
    assert missing(page) == {"pandas"}


def test_python_blocks_are_all_run():
    """What doctest does not see, nobody tries."""
    for page in PAGES:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.M)
        for language, block in blocks:
            # tests/boosting/test_javascript.py runs the program
            assert language in ("python", "sh", "console", "javascript"), page
            assert (language == "python") == block.startswith(">>> "), (page.name, block)
            assert "doctest: +SKIP" not in block, page
