"""Workflows, hooks and templates of the repository call what exists, on the supported versions."""

import re
import tomllib

import pytest

from tests import ROOT

yaml = pytest.importorskip("yaml")

GITHUB = ROOT / ".github"
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not GITHUB.exists(), reason="the source archive has no workflows"),
]

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs():
    """Return (job, steps) of all workflows, by file and name."""
    return {
        f"{path.stem}, {name}": job
        for path in sorted((GITHUB / "workflows").glob("*.yml"))
        for name, job in read(path)["jobs"].items()
    }


def commands(job):
    """Return the commands of a job, for each entry of its matrix."""
    lines = [step["run"] for step in job["steps"] if "run" in step]
    for name, values in job.get("strategy", {}).get("matrix", {}).items():
        lines = [
            line.replace(f"${{{{ matrix.{name} }}}}", value) for line in lines for value in values
        ]
    return lines


def versions(job):
    """Return the Python versions of a job."""
    settings = [step.get("with", {}) for step in job["steps"]]
    pinned = [given["python-version"] for given in settings if "python-version" in given]
    matrix = job.get("strategy", {}).get("matrix", {}).get("python", [])
    if image := re.fullmatch(r"python:([\d.]+)", job.get("container", "")):
        pinned.append(image[1])
    return matrix or pinned


def classified_versions():
    pattern = r"Programming Language :: Python :: (3\.\d+)"
    return [found[1] for c in PROJECT["project"]["classifiers"] if (found := re.match(pattern, c))]


def test_jobs_only_call_targets_of_the_makefile():
    called = [line for job in jobs().values() for line in commands(job)]
    assert len(called) > 5
    for line in called:
        make, target, *settings = line.split()
        assert make == "make"
        assert target in TARGETS
        assert settings == ["PYTHON=python"]


def test_the_python_versions_are_those_of_the_package():
    supported = classified_versions()
    assert versions(jobs()["tests, test"]) == supported
    assert all(set(versions(job)) <= set(supported) for job in jobs().values())
    assert all(versions(job) for job in jobs().values() if commands(job))
    oldest = supported[0]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert versions(jobs()["tests, oldest"]) == [oldest]


def test_jobs_may_only_read():
    for path in (GITHUB / "workflows").glob("*.yml"):
        assert read(path)["permissions"] == {"contents": "read"}


def test_only_the_release_may_write():
    """It attests what it has built, and publishes it only for a tag, without a stored password."""
    wanted = {name: job["permissions"] for name, job in jobs().items() if "permissions" in job}
    assert wanted == {
        "release, build": {"contents": "read", "id-token": "write", "attestations": "write"},
        "release, publish": {"id-token": "write"},
    }
    publish = jobs()["release, publish"]
    assert publish["needs"] == "build"
    assert publish["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
    assert "secrets" not in (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_the_release_attests_and_publishes_what_it_has_built():
    build, publish = jobs()["release, build"]["steps"], jobs()["release, publish"]["steps"]
    called = [line.split()[1] for line in commands(jobs()["release, build"])]
    assert called == ["wheel", "sbom"]
    packages = "dist/*.whl\ndist/*.tar.gz\n"
    attested = [step["with"] for step in build if "actions/attest" in step.get("uses", "")]
    assert [given["subject-path"] for given in attested] == [packages, packages]
    assert attested[1]["sbom-path"] == "dist/sbom.json"
    assert {"name": "packages", "path": packages} in [step.get("with") for step in build]
    assert publish[0]["with"] == {"name": "packages", "path": "dist"}


def test_actions_are_pinned():
    steps = [step for job in jobs().values() for step in job["steps"] if "uses" in step]
    assert all(re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", step["uses"]) for step in steps)


def test_the_source_archive_has_no_workflows():
    """It has what users run: the package, tests, benchmarks, pages and examples."""
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert not [pattern for pattern in included if pattern.startswith(("/.", "."))]
