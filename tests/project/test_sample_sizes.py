"""The page of sample sizes has the numbers of the functions, and those of the committed CSV."""

import importlib

import pandas as pd
import pytest

from tests import ROOT

BENCHMARKS = ROOT / "benchmarks"
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not BENCHMARKS.exists(), reason="an sdist has no benchmarks"),
]


@pytest.fixture
def sizes(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("sample_sizes")


def test_the_csv_has_the_numbers_of_the_functions(sizes):
    table = pd.read_csv(sizes.SIZES)
    committed = table[table["kind"] != "simulation"].reset_index(drop=True)
    now = pd.DataFrame(sizes.function_sizes())
    pd.testing.assert_frame_equal(committed, now)


def test_the_page_has_the_numbers_of_the_csv(sizes):
    page = sizes.PAGE.read_text(encoding="utf-8")
    assert sizes.with_tables(page, pd.read_csv(sizes.SIZES)) == page


def test_what_was_enough_lies_between_the_bounds(sizes):
    table = pd.read_csv(sizes.SIZES)
    wide = table.pivot_table("size", ["learner", "rows", "alpha"], "kind")
    simulated = wide.dropna(subset="simulation")
    assert (simulated["simulation"] <= simulated["ours"]).all()
    assert not (simulated["simulation"] < simulated["lower bound"]).any()


def test_a_simulation_that_is_run(sizes, monkeypatch):
    """With few runs: none fails with more rows than are enough, and all do with too few."""
    simulations = importlib.import_module("sample_size_simulations")
    monkeypatch.setattr(simulations, "N_RUNS", 3)
    assert simulations.private_failures(2000, 0.2, 0) == 0
    assert simulations.stump_failures(100, 0.2, 0) == 1
