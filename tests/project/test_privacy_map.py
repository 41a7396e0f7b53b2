"""The map of privacy claims names pages, functions, tests and seeded defects that exist."""

import importlib
import re
from functools import reduce

from tests import ROOT
from tests.mutants import MUTANTS
from tests.project.test_theory import names_in
from tests.proofs import PAGES, spending_functions

PAGE = ROOT / "docs" / "proofs" / "map.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {int(row[1]): row[0] for row in re.finditer(r"^\| (\d+) \|.*$", TEXT, re.MULTILINE)}
CHECKS = {int(line[1]): line[0] for line in re.finditer(r"^- (\d+): .*$", TEXT, re.MULTILINE)}
ROLE = r"{py:\w+}`~(skpublicdp\.[\w.]+)`"


def anchors(page):
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def resolve(name):
    """Return the function or method of a full name."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[length:], module)
    raise LookupError(name)


def test_every_row_has_a_proof_a_function_and_a_check():
    assert list(ROWS) == list(CHECKS) == list(range(1, len(ROWS) + 1))
    for row in ROWS.values():
        assert len(row.split(" | ")) == 6, row
        assert re.search(ROLE, row), row
        assert ".md" in row or "each page" in row, row
    for line in CHECKS.values():
        assert ".py::" in line, line
        assert line.count("seeded defect") == 1, line


def test_sections_exist():
    links = re.findall(r"\]\(([\w/]+\.md)(?:#([^)]*))?\)", TEXT)
    assert len(links) > 50
    assert [name for name, _ in links if not (PAGE.parent / name).exists()] == []


def test_links_between_proofs_lead_to_sections():
    sections = {page.name: anchors(page) for page in PAGE.parent.glob("*.md")}
    broken = []
    for page in PAGE.parent.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name, anchor in re.findall(r"\]\((\w+\.md)?#([^)\s]+)\)", text):
            if anchor not in sections[name or page.name]:
                broken.append(f"{page.name}: {name}#{anchor}")
    assert broken == []


def test_functions_exist():
    for name in re.findall(ROLE, TEXT):
        resolve(name)


def test_tests_exist():
    named = re.findall(r"`([\w/]+\.py)::([\w:]+)`", TEXT)
    assert len(named) >= len(CHECKS)
    files = {file: names_in(file) for file, _ in named}
    assert not [f"{file}::{name}" for file, name in named if name not in files[file]]


def test_defects_exist():
    seeded = set(re.findall(r"seeded defect: \*(.*)\*$", TEXT, re.MULTILINE))
    assert len(seeded) > 30
    assert seeded <= {mutant.name for mutant in MUTANTS}


def test_every_spending_function_has_a_row():
    named = set(re.findall(ROLE, "\n".join(ROWS.values())))
    assert sorted(set(spending_functions()) - named) == []


def test_proof_pages_of_private_answers_are_on_the_map():
    # lower bounds and error bounds release nothing
    without_release = {"lower_bounds", "guarantees", "mixtures", "map"}
    pages = {page.stem for page in PAGES} - without_release
    assert sorted(page for page in pages if f"({page}.md" not in TEXT) == []
