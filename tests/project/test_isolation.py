"""Pages and tests share a process, and none depends on what another one left behind."""

import pytest

from tests import ROOT

pytest_plugins = ["pytester"]
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not (ROOT / "conftest.py").exists(), reason="needs the sources"),
]

CHANGES = """
>>> import os, random, tempfile, warnings
>>> import matplotlib, numpy as np, sklearn
>>> matplotlib.use("Agg")
>>> import matplotlib.pyplot as plt
>>> figures = [plt.figure() for _ in range(20)]
>>> print(plt.get_fignums()[-1], random.random(), np.random.random())
20 0.925041037700498 0.9256480941062639
>>> plt.rcParams["lines.linewidth"] = 17.0
>>> warnings.simplefilter("ignore")
>>> os.environ["LEFT_BEHIND"] = "1"
>>> del os.environ["TO_BE_KEPT"]
>>> os.environ["TO_BE_EQUAL"] = "changed"
>>> os.chdir(tempfile.gettempdir())
>>> _ = np.seterr(divide="raise")
>>> np.set_printoptions(precision=1)
>>> sklearn.set_config(enable_metadata_routing=True)
"""
"""A page that opens as many figures as matplotlib allows, and changes all that is shared."""

LOOKS = """
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn


@pytest.mark.parametrize("again", [False, True])
def test_nothing_is_left(again):
    assert not plt.get_fignums()
    assert plt.rcParams["lines.linewidth"] != 17.0
    plt.rcParams["lines.linewidth"] = 17.0
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard")
    assert "LEFT_BEHIND" not in os.environ
    assert os.environ["TO_BE_KEPT"] == "1"
    assert os.environ["TO_BE_EQUAL"] == "equal"
    assert os.getcwd() == os.environ["FOLDER"]
    assert np.geterr()["divide"] != "raise"
    assert np.get_printoptions()["precision"] == 8
    assert not sklearn.get_config()["enable_metadata_routing"]
"""


def test_a_page_leaves_nothing_behind(pytester, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("TO_BE_KEPT", "1")
    monkeypatch.setenv("TO_BE_EQUAL", "equal")
    monkeypatch.setenv("FOLDER", str(pytester.path))
    pytester.makeconftest((ROOT / "conftest.py").read_text(encoding="utf-8"))
    for name in ("a_page", "b_page"):
        (pytester.path / f"{name}.md").write_text(CHANGES, encoding="utf-8")
    (pytester.path / "test_looks.py").write_text(LOOKS, encoding="utf-8")
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")
    pages = ("a_page.md", "b_page.md", "test_looks.py")
    # in this process, modules of matplotlib would be imported twice by the tests that follow
    result = pytester.runpytest_subprocess("--doctest-glob=*.md", "-W", "error", *plugins, *pages)
    result.assert_outcomes(passed=4)
