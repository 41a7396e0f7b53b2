"""Metadata files of other packages: what they give, and what they do not."""

import json
import sys
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest

from skpublicdp import SemiPrivateBoostingClassifier
from skpublicdp.data import describe_columns
from tests.data.internals import read_metadata

yaml = pytest.importorskip("yaml")

DPSYNTH = """
age:
  clip_to_range: true
  dtype: int
  max_value: 90.0
  min_value: 17.0
  type: NumericalAttribute
wage:
  clip_to_range: false
  dtype: float
  max_value: 200000
  min_value: 0
job:
  out_of_domain_index: 0
  possible_values: [clerk, nurse]
city:
  default_value: <OOD>
  public_possible_values: []
  type: OpenSetCategoricalAttribute
state:
  public_possible_values: [BE, ZH]
  type: OpenSetCategoricalAttribute
notes:
  max_tokens: 256
anything: {}
"""

CSVW = {
    "@context": "http://www.w3.org/ns/csvw",
    "url": "people.csv",
    "tableSchema": {
        "datatype": {"base": "integer", "minimum": "0", "maximum": "9"},
        "columns": [
            {
                "name": "age",
                "titles": "Age",
                "required": True,
                "datatype": {"base": "integer", "minimum": 17, "maximum": "90"},
            },
            {"titles": {"en": ["Hours"]}, "datatype": {"base": "double", "minInclusive": 1}},
            {"name": "wage", "datatype": {"base": "decimal", "minExclusive": 0, "maximum": 9}},
            {
                "name": "day",
                "datatype": {"base": "date", "minimum": "2020-01-01", "maximum": "2024-12-31"},
            },
            {
                "name": "at",
                "datatype": {
                    "base": "dateTime",
                    "minimum": "2020-01-01T00:00:00Z",
                    "maximum": "2020-01-02T01:30:00+01:00",
                },
            },
            {"name": "married", "datatype": "boolean"},
            {"name": "job", "datatype": {"base": "string", "maxLength": 20}},
            {"name": "inherits"},
            {"name": "one", "datatype": {"base": "int", "minimum": 1, "maximum": 1}},
            {"name": "row", "virtual": True, "datatype": "integer"},
        ],
    },
}

CSVW_EO = {
    "@context": ["http://www.w3.org/ns/csvw"],
    "tables": [
        {
            "tableSchema": {
                "columns": [
                    {"name": "species", "datatype": "string", "keyValues": ["Adelie", "Gentoo"]},
                    {"name": "bill", "datatype": "double", "minimum": 30, "maximum": 65},
                ]
            }
        }
    ],
}


def written(directory, content):
    if isinstance(content, str):
        path = directory / "domain.yaml"
        path.write_text(dedent(content))
    else:
        path = directory / "people.csv-metadata.json"
        path.write_text(json.dumps(content))
    return path


def test_dpsynth(tmp_path):
    found = read_metadata(written(tmp_path, DPSYNTH))
    assert found.description == {
        "age": (17, 90),
        "wage": (0.0, 200000.0),
        "job": ["clerk", "nurse"],
        "state": ["BE", "ZH"],
    }
    assert [type(end) for end in (*found.description["age"], *found.description["wage"])] == [
        *(int, int, float, float)
    ]
    assert found.nullable == {"wage"}
    assert found.not_given == dict.fromkeys(
        ["city", "notes", "anything"], "no categories are given"
    )


def test_csvw(tmp_path):
    found = read_metadata(written(tmp_path, CSVW))
    dates = {name: found.description.pop(name) for name in ("day", "at")}
    assert [end.isoformat() for end in dates["day"]] == [
        *("2020-01-01T00:00:00", "2024-12-31T00:00:00")
    ]
    assert [end.isoformat() for end in dates["at"]] == [
        *("2020-01-01T00:00:00", "2020-01-02T00:30:00")
    ]
    assert found.description == {
        "Age": (17, 90),
        "wage": (0.0, 9.0),
        "married": [False, True],
        "inherits": (0, 9),
    }
    assert found.nullable == {"Hours", "wage", "day", "at", "married", "job", "inherits", "one"}
    assert found.not_given == {
        "Hours": "no lower and upper bound are given",
        "job": "no categories are given",
        "one": "the lower and the upper bound are equal",
    }
    extended = read_metadata(written(tmp_path, CSVW_EO))
    assert extended.description == {"species": ["Adelie", "Gentoo"], "bill": (30.0, 65.0)}


@pytest.mark.parametrize("content", [DPSYNTH, CSVW, CSVW_EO])
def test_parsed_content_is_read_like_the_file(content, tmp_path):
    parsed = yaml.safe_load(content) if isinstance(content, str) else content
    if content is DPSYNTH:  # without its type, a dict of numbers has shares of categories
        del parsed["anything"], parsed["notes"]
        parsed["wage"]["type"] = "NumericalAttribute"
    rows = describe_columns(parsed)
    from_file = describe_columns(str(written(tmp_path, content)))
    assert rows.columns.keys() == from_file.columns.keys()
    for name, values in rows.columns.items():
        np.testing.assert_array_equal(values, from_file.columns[name])


def test_descriptions_of_our_own_are_no_metadata():
    for own in (
        {"job": {"min_value": 1, "max_value": 9}, "type": {"a": 1, "b": 2}},
        {"columns": {"a": 1, "type": 2}},
        {"tables": (0, 9), "engine": ["a", "b"]},
        {},
        [("age", 17, 90)],
    ):
        assert read_metadata(own) is None
    shares = describe_columns({"job": {"min_value": 1, "max_value": 9}}, size=10).columns["job"]
    assert (shares == "max_value").sum() == 9


def test_what_is_not_given_is_said_and_can_be_completed(tmp_path):
    content = "age: {min_value: 17, max_value: 90}\nwage: {min_value: 0}\njob: {max_tokens: 3}\n"
    path = written(tmp_path, content + "married: {possible_values: [false, true]}\n")
    rows = describe_columns(path)
    assert repr(rows).startswith("<300 described rows of age, married; not wage")
    rng = np.random.default_rng(0)
    staff = pd.DataFrame(
        {
            "age": rng.integers(17, 90, 3000),
            "wage": rng.uniform(0, 10**5, 3000),
            "married": rng.random(3000) < 0.5,
            "job": rng.choice(["clerk", "nurse"], 3000),
        }
    )
    late = np.where(staff["age"] > 40, "yes", "no")
    clf = SemiPrivateBoostingClassifier(epsilon=3.0, random_state=0)
    with pytest.raises(ValueError, match="wage"):
        clf.fit(staff, late, X_public=rows)
    rows = describe_columns(path, columns={"job": ["clerk", "nurse"], "wage": (0, 10**5)})
    assert "job" not in rows.not_given
    assert rows.columns["wage"].max() <= 10**5
    assert clf.fit(staff, late, X_public=rows).score(staff, late) > 0.9


def test_files_of_other_formats(tmp_path):
    for content in ("age: [17, 90]\n", "a: {b: {c: 1}}\n", "- 1\n", ""):
        with pytest.raises(ValueError, match="metadata"):
            describe_columns(written(tmp_path, content))
    with pytest.raises(FileNotFoundError):
        describe_columns(tmp_path / "none.yaml")
    with pytest.raises(ValueError, match="table"):
        describe_columns(CSVW_EO | {"tables": CSVW_EO["tables"] * 2})
    with pytest.raises(ValueError, match="schema"):
        describe_columns(CSVW | {"tableSchema": "schema.json"})
    with pytest.raises(ValueError, match="Column age must be described by"):
        describe_columns({"age": {"type": "int", "lower": 17, "upper": 90}})
    nothing = {"job": {"type": "OpenSetCategoricalAttribute"}}
    with pytest.raises(ValueError, match="column"):
        describe_columns(nothing)


def test_yaml_needs_its_package(tmp_path, monkeypatch):
    path = written(tmp_path, DPSYNTH)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match="PyYAML"):
        describe_columns(path)
    assert describe_columns(written(tmp_path, CSVW)).shape == (300, 6)


BAD_FILES = {
    "nested categories": ("yaml", "g:\n  possible_values: [[1, 2], [3]]\n", "column g .*a list"),
    "a dict as category": ("yaml", "g:\n  possible_values: [{a: 1}]\n", "column g .*a dict"),
    "huge bound": ("yaml", f"g:\n  min_value: 0\n  max_value: 1{'0' * 4000}\n", "column g .*large"),
    "infinite bound": ("yaml", "g:\n  min_value: 0\n  max_value: .inf\n", "column g .*infinite"),
    "text as bound": ("yaml", "g:\n  min_value: low\n  max_value: 3\n", "column g .*low"),
    "list as bound": ("yaml", "g:\n  min_value: [1]\n  max_value: 3\n", "column g .*invalid"),
    "a number as categories": ("yaml", "g:\n  possible_values: 3\n", "column g .*invalid"),
    "twice": (
        "yaml",
        "g:\n  possible_values: [1]\ng:\n  possible_values: [2]\n",
        "'g' occurs twice",
    ),
    "broken": ("yaml", "g: [1, 2\n", "valid YAML"),
    "tags": ("yaml", "g: !!python/object/apply:os.getcwd []\n", "valid YAML"),
    "json twice": (
        "json",
        '{"g": {"possible_values": [1]}, "g": {"possible_values": [2]}}',
        "'g' occurs twice",
    ),
    "json huge": ("json", f'{{"columns": {{"g": {"9" * 5000}}}}}', "valid JSON"),
    "json deep": ("json", "[" * 100_000, "nested too deeply"),
    "json broken": ("json", '{"columns": ', "valid JSON"),
    "csvw twice": (
        "json",
        json.dumps(
            {
                "@context": "http://www.w3.org/ns/csvw",
                "tableSchema": {"columns": 2 * [{"name": "g", "datatype": "boolean"}]},
            }
        ),
        "'g' occurs twice",
    ),
    "csvw date": (
        "json",
        json.dumps(
            {
                "@context": "http://www.w3.org/ns/csvw",
                "tableSchema": {
                    "columns": [
                        {"name": "g", "datatype": {"base": "date", "minimum": 1, "maximum": "x"}}
                    ]
                },
            }
        ),
        "column g .*invalid",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_with_errors_are_refused_with_their_cause(name, tmp_path):
    suffix, text, message = BAD_FILES[name]
    path = tmp_path / f"file.{suffix}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        describe_columns(path)


def test_files_in_another_encoding_are_refused_with_their_cause(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_bytes("größe: 3".encode("latin-1"))
    with pytest.raises(ValueError, match="valid YAML in UTF-8"):
        describe_columns(path)
