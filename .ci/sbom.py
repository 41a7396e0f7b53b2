"""Print a software bill of materials: what the package needs, as installed in this environment.

``python .ci/sbom.py [EXTRA ...] > sbom.json`` writes CycloneDX 1.6 as JSON. It only reads the
metadata of installed packages, so it works offline, and equal environments give equal bytes.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import sysconfig
import uuid
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement

PACKAGE = "skpublicdp"


def normalised(name: str) -> str:
    """Return the name of a package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reference(installed: Distribution) -> str:
    """Return the package URL of an installed package."""
    return f"pkg:pypi/{normalised(installed.name)}@{installed.version}"


def required(installed: Distribution, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return the packages that an installed package needs here, with their extras."""
    needed: dict[str, frozenset[str]] = {}
    for text in installed.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            name = normalised(requirement.name)
            needed[name] = needed.get(name, frozenset()) | requirement.extras
    return needed


def closure(extras: frozenset[str]) -> dict[str, tuple[Distribution, set[str]]]:
    """Return the installed package and all that it needs, each with its direct needs."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(PACKAGE, extras)]
    while waiting:
        name, wanted = entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        installed = distribution(name)
        needed = required(installed, wanted)
        found.setdefault(name, (installed, set()))[1].update(needed)
        waiting += needed.items()
    return found


def licenses(installed: Distribution) -> list[dict[str, object]]:
    """Return the licence of a package, as its metadata states it."""
    metadata = installed.metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    texts = [text for text in metadata.get_all("Classifier", []) if text.startswith("License ::")]
    names = [text.split(" :: ")[-1] for text in texts if text != "License :: OSI Approved"]
    if not names and (name := metadata.get("License")) and "\n" not in name:
        names = [name]
    return [{"license": {"name": name}} for name in names]


def component(installed: Distribution) -> dict[str, object]:
    """Return the component of an installed package."""
    described = {
        "type": "library",
        "bom-ref": reference(installed),
        "name": normalised(installed.name),
        "version": installed.version,
        "purl": reference(installed),
        "licenses": licenses(installed),
    }
    return {key: value for key, value in described.items() if value}


def bill_of_materials(extras: frozenset[str] = frozenset()) -> dict[str, object]:
    """Return the bill of materials of the package with some of its extras."""
    packages = dict(sorted(closure(extras).items()))
    root, _ = packages[PACKAGE]
    references = {name: reference(installed) for name, (installed, _) in packages.items()}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(root),
            "properties": [
                {"name": "python", "value": platform.python_version()},
                {"name": "platform", "value": sysconfig.get_platform()},
            ],
        },
        "components": [
            component(installed) for name, (installed, _) in packages.items() if name != PACKAGE
        ],
        "dependencies": [
            {"ref": references[name], "dependsOn": sorted(references[each] for each in needed)}
            for name, (_, needed) in packages.items()
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return {**bill, "serialNumber": f"urn:uuid:{number}"}


if __name__ == "__main__":
    json.dump(bill_of_materials(frozenset(sys.argv[1:])), sys.stdout, indent=2)
    sys.stdout.write("\n")
