"""The page of theorems names functions and tests that exist."""

import ast
import importlib
import re

import pytest

from tests import ROOT

TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "user_guide" / "theory.md").read_text(encoding="utf-8")


def names_in(file):
    """Return the tests and classes of a file, those within classes as Class::test."""
    found = set()
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            found |= {f"{node.name}::{part.name}" for part in node.body if hasattr(part, "name")}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_tests_exist():
    named = re.findall(r"`([\w/]+\.py)::([\w:]+)`", PAGE)
    assert len(named) > 60
    files = {file: names_in(file) for file, _ in named}
    assert not [f"{file}::{name}" for file, name in named if name not in files[file]]


def test_functions_exist():
    targets = re.findall(r"{py:\w+}`[^`]*?~?(skpublicdp\.[\w.]+)>?`", PAGE)
    assert len(targets) > 40
    for target in targets:
        module, name = target.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name), target


def test_every_theorem_of_the_guarantees_is_there():
    import skpublicdp.guarantees as room

    functions = [name for name in room.__all__ if name.islower()]
    assert not [name for name in functions if f"guarantees.{name}" not in PAGE]


RESULTS = {
    "Limits of private learning with access to public data": """
        Definitions 2.1, 2.2, 2.3, 2.4, 2.7; Lemmas 2.5, 2.6, 3.2, 3.3, 4.4;
        Theorems 3.1, 4.1, 4.2, 4.3; Claims 4.5, 4.6; Remark 1; Algorithms 1, 2, 3, 4""",
    "Private query release assisted by public data": """
        Definitions 1, 2, 5, 6, 8, 12, 16; Claim 3; Fact 4; Lemmas 7, 11, 17, 18; Remark 9;
        Theorems 10, 13, 14, 15; Algorithms 1, 2, 3""",
    "Learning from mixtures of private and public populations": """
        Definitions 2.1, 3.1, 3.2; Lemmas 4.1, 4.3; Observation 4.2; Corollary 4.4; Claim 4.5;
        Theorem 4.6; Algorithms 1, 2""",
    "Learning privately with labeled and unlabeled examples": """
        Definitions 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 3.1, 5.1, 5.3, 5.4, A.2, B.1;
        Observations 3.2, 4.7; Theorems 3.3, 4.13, 4.14, 4.16, 5.5, 5.6, 5.8, A.3;
        Theorems B.2, B.3, B.4, B.5, B.6; Corollaries 3.4, 4.17, 4.18; Lemmas 4.1, 4.6, 4.12;
        Claims 4.2, 4.3, 4.5, 4.8, 4.9, 4.11, 5.7; Remarks 4.4, 4.10, 4.15, 5.2;
        Proposition A.1; Algorithms 1, 2, 3, 4, 5""",
}
"""Every numbered result of the four papers, by the heading of the paper's section.

Remark 1 of the first paper is in its full version only.
"""

NOT_IMPLEMENTED = {("Corollary", "3.4"), ("Corollary", "4.18"), ("Remark", "4.10")}

KINDS = "Definition|Lemma|Theorem|Claim|Remark|Corollary|Corollarie|Observation|Fact|Proposition"
NAMED = re.compile(rf"({KINDS}|Algorithm)s? ((?:[AB]?\.?\d+(?:\.\d+)?(?:, | and |-)?)+)")
NUMBER = r"[AB]?\.?\d+(?:\.\d+)?"


def results_in(text):
    """Return the results that a text names, as pairs of kind and number; ranges count."""
    found = set()
    for kind, numbers in NAMED.findall(text):
        kind = kind.replace("Corollarie", "Corollary")
        for first, last in re.findall(rf"({NUMBER})(?:-({NUMBER}))?", numbers):
            prefix, _, start = first.rpartition(".")
            end = int((last or first).rpartition(".")[2])
            dot = "." if prefix else ""
            found |= {(kind, f"{prefix}{dot}{number}") for number in range(int(start), end + 1)}
    return found


def section(heading):
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_ranges_and_lists_are_read():
    text = "Definitions 2.1-2.3 and A.2, Theorem 4.6; Algorithms 2-4, Corollaries 3.4 and 4.18"
    assert results_in(text) == {
        *(("Definition", number) for number in ("2.1", "2.2", "2.3", "A.2")),
        ("Theorem", "4.6"),
        *(("Algorithm", number) for number in "234"),
        ("Corollary", "3.4"),
        ("Corollary", "4.18"),
    }


@pytest.mark.parametrize("paper", RESULTS)
def test_every_result_of_a_paper_has_a_row_and_a_line_of_tests(paper):
    """And no row names a result that the paper does not have."""
    rows, lines = set(), set()
    for line in section(paper).splitlines():
        if line.startswith("| "):
            rows |= results_in(line.split(" | ")[0])
        elif line.startswith("- "):
            lines |= results_in(line.split(": ")[0])
    every = results_in(RESULTS[paper])
    omitted = NOT_IMPLEMENTED & every
    assert rows == every - omitted
    assert lines == every - omitted
    assert omitted <= results_in(section("Results of the papers that are not implemented"))


def test_nothing_else_is_not_implemented():
    """The section refers to results that are there, and omits three, and a part of a fourth."""
    named = results_in(section("Results of the papers that are not implemented"))
    assert named == NOT_IMPLEMENTED | {
        ("Corollary", "4.17"),
        ("Theorem", "3.3"),
        ("Theorem", "4.14"),
    }
