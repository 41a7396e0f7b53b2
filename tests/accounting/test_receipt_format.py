"""Receipts in JSON: version 1 of the format stays readable, and says what the page documents."""

import json
import re
from fractions import Fraction

import pytest

from skpublicdp.accounting import Draw, Gaussian, Mechanism, PrivacyReceipt, Steps
from tests import ROOT

pytestmark = pytest.mark.once

NOISE, DRAW = Gaussian(Fraction(1, 50)), Draw(Fraction(1, 10))
RECEIPT = PrivacyReceipt(
    epsilon=1.0,
    delta=1e-6,
    unit="replace one private row (features and label)",
    n_private=100,
    n_public=10,
    mechanisms=(
        Mechanism("noise", 0.5, 1e-6, "a paper", NOISE),
        Mechanism("of another package", 0.5, 0.0, "its manual"),
    ),
    secure_randomness=True,
    assumptions=("the number of rows is public",),
    event=Steps((NOISE, DRAW)),
    entry=3,
)
# as version 1 wrote it at first: these lines do not change, since files of this version exist
VERSION_1 = r"""
{
  "format": "skpublicdp privacy receipt",
  "version": 1,
  "epsilon": 1.0,
  "delta": 1e-06,
  "unit": "replace one private row (features and label)",
  "n_private": 100,
  "n_public": 10,
  "mechanisms": [
    {
      "name": "noise",
      "epsilon": 0.5,
      "delta": 1e-06,
      "reference": "a paper",
      "event": "[\"Gaussian\", \"1/50\"]"
    },
    {
      "name": "of another package",
      "epsilon": 0.5,
      "delta": 0.0,
      "reference": "its manual",
      "event": null
    }
  ],
  "secure_randomness": true,
  "assumptions": [
    "the number of rows is public"
  ],
  "event": "[\"Steps\", [\"Gaussian\", \"1/50\"], [\"Draw\", \"1/10\"]]",
  "entry": 3,
  "for_tests": false
}
"""


ADDED = {"n_omitted": 0}
"""Fields that were added to version 1."""


def test_version_1_is_written_as_ever():
    assert RECEIPT.to_dict() == json.loads(VERSION_1) | ADDED


def test_version_1_is_read():
    fields = json.loads(VERSION_1)
    assert PrivacyReceipt.from_dict(fields) == RECEIPT
    del fields["format"], fields["version"]  # before there was a version
    assert PrivacyReceipt.from_dict(fields) == RECEIPT
    assert PrivacyReceipt.from_dict(fields | {"added_later": 1}) == RECEIPT


def test_other_versions_are_refused():
    for version in (0, 2):
        fields = RECEIPT.to_dict() | {"version": version}
        with pytest.raises(ValueError, match=f"got version {version}"):
            PrivacyReceipt.from_dict(fields)


def test_every_field_is_documented():
    page = (ROOT / "docs" / "user_guide" / "reports.md").read_text(encoding="utf-8")
    table = page.partition("| field | type | meaning |")[2].partition("\n\n")[0]
    fields = RECEIPT.to_dict()
    documented = {}
    for row in table.splitlines()[2:]:
        names, kind, meaning = (cell.strip() for cell in row.strip("|").split("|"))
        for name in re.findall("`([a-z_]+)`", names):
            documented[name] = kind
        if names == "`mechanisms`":
            for inner in fields["mechanisms"][0]:
                assert f"`{inner}`" in meaning
    assert list(documented) == list(fields)
    kinds = {str: "string", bool: "boolean", int: "integer", list: "list", float: "number"}
    for name, value in fields.items():
        assert documented[name].startswith(kinds[type(value)])
