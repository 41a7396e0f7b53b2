"""The bill of materials lists what the package needs, in the versions that are installed."""

import importlib.util
import json
import re
import tomllib
from importlib.metadata import version

import pytest

from tests import ROOT

SCRIPT = ROOT / ".ci" / "sbom.py"
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not SCRIPT.exists(), reason="the source archive has no script"),
]


@pytest.fixture(scope="module")
def sbom():
    pytest.importorskip("packaging")
    spec = importlib.util.spec_from_file_location("sbom", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs_of(bill, name):
    """Return the names that a component depends on."""
    (ref,) = {each["ref"] for each in bill["dependencies"] if f"/{name}@" in each["ref"]}
    (needs,) = [each["dependsOn"] for each in bill["dependencies"] if each["ref"] == ref]
    return {re.split("[/@]", need)[1] for need in needs}


@pytest.mark.parametrize("extras", [(), ("data",)])
def test_it_lists_the_needs_of_each_component(sbom, extras):
    bill = sbom.bill_of_materials(frozenset(extras))
    assert json.dumps(bill) == json.dumps(sbom.bill_of_materials(frozenset(extras)))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    components = [bill["metadata"]["component"], *bill["components"]]
    assert all(each["version"] == version(each["name"]) for each in components)
    references = [each["bom-ref"] for each in components]
    assert len(set(references)) == len(references)
    assert {each["ref"] for each in bill["dependencies"]} == set(references)
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} <= set(references)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"]]
    for extra in extras:
        declared += project["optional-dependencies"][extra]
    names = {sbom.normalised(re.match(r"[\w.-]+", text)[0]) for text in declared}
    assert needs_of(bill, "skpublicdp") == names
    assert {"numpy", "threadpoolctl"} <= needs_of(bill, "scikit-learn")
    licences = {each["name"]: json.dumps(each.get("licenses")) for each in components}
    assert "BSD" in licences["skpublicdp"]
    assert "BSD" in licences["scikit-learn"]
