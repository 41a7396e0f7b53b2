"""The house: imports run one way, and files stay small."""

import ast
from pathlib import Path

import pytest

import skpublicdp

PACKAGE = Path(skpublicdp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
SKLEARN_PRIVATE_ALLOWED = {"sklearn.utils._param_validation"}  # what contrib packages use

# package or module -> what of skpublicdp it may import
FLOORS = {
    "exceptions": set(),
    "guarantees": {"guarantees", "mechanisms"},
    "mechanisms": {"mechanisms"},
    "accounting": {"accounting"},
    "hypotheses": {"hypotheses", "mechanisms", "exceptions", "guarantees"},
    "public": {"exceptions"},
    "labelled": {"public", "exceptions"},
    "schema": {"public"},
    "tables": {"public", "schema"},
    "progress": set(),
    "base_learner": {"exceptions", "public"},
    "sanitizers": {"sanitizers", "mechanisms", "accounting", "public", "exceptions"},
    "rounds": {"accounting", "guarantees", "hypotheses", "mechanisms"},
}
ESTIMATORS = {
    "semi_private",
    "boosting",
    "generic_learner",
    "ppm",
    "preprocessing",
    "query_release",
}
LEARNERS_OF_LEARNERS = {"active", "label_boost"}  # they run a base learner
ON_TOP = {"plotting"}  # may import estimators, and nothing of the package imports it


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module


def imports_at_the_top(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield getattr(node, "module", None) or node.names[0].name


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    here = room(path)
    inside = {m.split(".")[1] for m in imports(path) if m.startswith("skpublicdp.")}
    if here in FLOORS:
        assert inside <= FLOORS[here]
    elif here in ESTIMATORS:
        # a package may import itself
        assert not inside & ((ESTIMATORS - {here}) | LEARNERS_OF_LEARNERS | ON_TOP)
    elif here in LEARNERS_OF_LEARNERS:
        assert not inside & ((LEARNERS_OF_LEARNERS - {here}) | ON_TOP)
    elif here in ON_TOP:
        assert "mechanisms" not in inside  # it shows what was drawn and draws nothing
    else:
        assert here == "__init__"
        assert not inside & ON_TOP


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_dependencies_stay_public(path):
    modules = set(imports(path))
    if room(path) == "mechanisms":
        assert not any(module.startswith(("sklearn", "scipy", "joblib")) for module in modules)
    if room(path) == "hypotheses":
        selection = {"skpublicdp.mechanisms.selection", "skpublicdp.mechanisms.randomness"}
        assert not modules & selection  # families only: no ε, no draws
    at_import = {*imports_at_the_top(path)}
    assert not any(module.startswith("matplotlib") for module in at_import)  # it is optional
    for module in modules:
        private = module.startswith("sklearn") and "._" in module
        assert not private or module in SKLEARN_PRIVATE_ALLOWED


def test_files_hold_one_noun():
    assert {path.name for path in FILES if len(path.read_text().splitlines()) > 450} == set()
