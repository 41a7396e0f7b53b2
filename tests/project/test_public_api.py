"""The public names, kept in a list: what leaves it breaks somebody's code."""

import importlib
import pkgutil

import skpublicdp
from tests import ROOT

LISTED = ROOT / "tests" / "public_api.txt"


def public_names():
    """Every name in `__all__` of the package and of its rooms."""
    names = [f"skpublicdp.{name}" for name in skpublicdp.__all__]
    for module in pkgutil.walk_packages(skpublicdp.__path__, "skpublicdp."):
        if module.ispkg:
            room = importlib.import_module(module.name)
            names += [f"{module.name}.{name}" for name in getattr(room, "__all__", [])]
    return sorted(names)


def test_public_names_are_those_listed():
    """A name goes only after it was deprecated for a minor version: see CONTRIBUTING.md."""
    assert public_names() == LISTED.read_text(encoding="utf-8").split()


def test_every_public_name_is_there_and_documented():
    for name in public_names():
        module, _, own = name.rpartition(".")
        thing = getattr(importlib.import_module(module), own)
        assert isinstance(thing, str) or (getattr(thing, "__doc__", None) or "").strip(), name
