"""The page of theorems names functions and tests that exist."""

import ast
import importlib
import re

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
