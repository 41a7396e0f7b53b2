"""Seeded defects: each is found by the public verifier, and a clean package is found clean."""

import itertools

import pytest

from skpublicdp.audit import verify_all
from skpublicdp.audit.evidence import _checks
from tests.mutants import MUTANTS, Mutant, caught, copies, planted

pytestmark = pytest.mark.once

CLEAN = ("random choices", "SemiPrivateClassifier, thresholds")
QUICK = (
    "a remainder in place of rejection",
    "a draw before its entry",
    "an error that quotes a label",
)
START = "        cover = self._cover(rows)\n"


def broken(new):
    return Mutant("broken", "", "rules/semi_private.py", START, f"        {new}\n{START}", ())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_planted(mutant):
    compile(planted(mutant), mutant.file, "exec")
    assert set(mutant.cases) <= _checks().keys()


def test_there_are_forty_and_some_in_every_room():
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    rooms = {mutant.file.split("/")[0] for mutant in MUTANTS}
    inside = {path.parent.name for path in copies.PACKAGE.glob("*/__init__.py")}
    assert inside - rooms == {"_internal", "audit", "guarantees", "plotting"}  # they spend nothing


def test_a_name_that_is_not_in_the_table():
    with pytest.raises(ValueError, match="names must be names in the table"):
        next(verify_all("PublicFit", "nobody"))


def test_text_that_is_gone_is_told():
    gone = Mutant("gone", "", "privacy/ledger.py", "no such text", "", ())
    with pytest.raises(ValueError, match=r"privacy/ledger.py must hold the text of 'gone' once"):
        planted(gone)


def test_a_clean_copy_is_clean():
    assert caught(None, CLEAN) is None


@pytest.mark.parametrize("name", QUICK)
def test_it_is_found(name):
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    assert caught(mutant).case in mutant.cases


def test_a_copy_that_does_not_run_is_no_violation(monkeypatch):
    monkeypatch.setattr(copies, "planted", lambda mutant: "no python")
    with pytest.raises(ValueError, match="at least be imported"):
        caught(broken(""))


def test_an_error_is_no_violation(tmp_path, monkeypatch):
    """What fails everywhere is not verified, and nothing is found by that."""
    package = tmp_path / "skpublicdp"
    copies.shutil.copytree(copies.PACKAGE, package)
    (package / "rules" / "semi_private.py").write_text(
        planted(broken("raise KeyError")), encoding="utf-8"
    )
    assert copies._violation(str(tmp_path), CLEAN[1:]) is None


def page_rows():
    page = copies.PACKAGE.parent / "docs" / "user_guide" / "why_believe_it.md"
    *_, listed = page.read_text(encoding="utf-8").partition("<!-- make mutants -->\n")
    lines = itertools.takewhile(lambda line: line.startswith("|"), listed.splitlines())
    return [line.strip("| ").split(" | ") for line in lines][2:]


def test_the_page_lists_them_all():
    rows = page_rows()
    assert [row[:2] for row in rows] == [[mutant.name, mutant.kind] for mutant in MUTANTS]
    assert all(row[2] in mutant.cases for row, mutant in zip(rows, MUTANTS, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_all_are_found_as_the_page_says(mutant):
    found = caught(mutant)
    assert [mutant.name, mutant.kind, found.case, found.witness] in page_rows()
