"""Seeded defects: the public verifier detects each, and reports none in the package itself."""

import builtins
import symtable
import sys
import types
from fractions import Fraction

import pytest

from tests.audit import summary
from tests.audit.checks import all_checks
from tests.mutants import MUTANTS, Mutant, Patch, copies, detect

pytestmark = pytest.mark.once

CLEAN = ("random choices", "SemiPrivateClassifier, thresholds")
QUICK = (
    "a remainder instead of rejection sampling",
    "a draw before its ledger entry",
    "an error message that quotes a label",
)
START = "        return class_or_default(self.hypotheses).build_cover(\n"


def broken(new):
    return Mutant("broken", "", "rules/semi_private.py", START, f"        {new}\n{START}", ())


def undefined_names(source):
    """Return the names that functions of a module read and nothing defines."""
    module = symtable.symtable(source, "", "exec")
    tables, read = [module], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        read |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return read - {*module.get_identifiers(), *vars(builtins), "__file__"}


def test_undefined_names():
    source = "import math\ndef f(x):\n    y = math.pi + len(x)\n    return [z + gone for z in y]\n"
    assert undefined_names(source) == {"gone"}


def test_the_replaced_names_and_texts_exist():
    checks, faults = all_checks().keys(), {}
    for mutant in MUTANTS:
        try:
            source = mutant.source()
            compile(source, mutant.file, "exec")
        except (SyntaxError, ValueError) as error:
            faults[mutant.name] = str(error)
            continue
        if undefined := undefined_names(source):  # it would raise an error, which detects nothing
            faults[mutant.name] = f"undefined: {undefined}"
        if unknown := set(mutant.cases) - checks:
            faults[mutant.name] = f"no checks: {unknown}"
    assert faults == {}


def test_there_are_at_least_forty_and_some_in_every_package():
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    packages_with_defects = {mutant.file.split("/")[0] for mutant in MUTANTS}
    packages = {path.parent.name for path in copies.PACKAGE.glob("*/__init__.py")}
    without_spending = {"_internal", "audit", "guarantees", "plotting"}
    assert packages - packages_with_defects == without_spending


def test_replaced_text_that_is_missing():
    gone = Mutant("gone", "", "privacy/ledger.py", "no such text", "", ())
    with pytest.raises(ValueError, match="'gone'"):
        gone.source()


@pytest.mark.parametrize("target", ["no_such_function", "Ledger.no_such_method"])
def test_patched_name_that_is_missing(target):
    with pytest.raises(ValueError, match=target):
        Patch("gone", "", target, "None", ()).source()


def test_a_patch_takes_the_name_of_the_original():
    for target, new in (
        ("_error_rate", "lambda *args: -original(*args)"),
        ("Ledger.for_person", "def replacement(self, sensitivity):\n    return original\n"),
    ):
        module = types.ModuleType("copy")
        patched = Patch("patched", "", target, new, ())
        source = patched.source()
        assert source.startswith((copies.PACKAGE / patched.file).read_text(encoding="utf-8"))
        sys.modules[module.__name__] = module
        try:
            exec(source, vars(module))
        finally:
            del sys.modules[module.__name__]
        if target == "_error_rate":
            assert module._error_rate(Fraction(4), 1) == -2
        else:
            assert module.Ledger(1, 0).for_person(None).__name__ == "for_person"


def test_a_clean_copy_is_clean():
    assert detect(None, CLEAN) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", QUICK)
def test_it_is_detected(name):
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    assert detect(mutant).case in mutant.cases


def test_a_copy_that_does_not_run_is_no_violation(monkeypatch):
    monkeypatch.setattr(Mutant, "source", lambda mutant: "no python")
    with pytest.raises(ValueError, match="cannot be imported"):
        detect(broken(""))


def test_an_error_is_no_violation(tmp_path, monkeypatch):
    """A check that raises an error verifies nothing and detects nothing."""
    copies.copy_with_audit(str(tmp_path), broken("raise KeyError"))
    assert copies._violation(str(tmp_path), CLEAN[1:]) is None


def test_the_committed_table_lists_them_all():
    rows = summary.rows(summary.DEFECTS)
    assert [row[:2] for row in rows] == [[mutant.name, mutant.kind] for mutant in MUTANTS]
    assert all(row[2] in mutant.cases for row, mutant in zip(rows, MUTANTS, strict=True))
    page = summary.PAGE.read_text(encoding="utf-8")
    assert f"Therefore {len(MUTANTS)} defects were seeded" in page


def test_a_summary_counts_the_defects_of_a_class():
    rows = [row.split(" | ") for row in ("a | leak | A | replay", "b | scale | B | samples")]
    rows.append(["c", "leak", "C", "all outcomes"])
    assert summary.summary_of_defects(rows).splitlines()[2:] == [
        "| leak | 2 | a | all outcomes; replay |",
        "| scale | 1 | b | samples |",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_all_are_detected_as_in_the_table(mutant):
    detection = detect(mutant)
    row = [mutant.name, mutant.kind, detection.case, detection.witness]
    assert row in summary.rows(summary.DEFECTS)
