"""Entries of the Deployments Registry, checked against the facts of its published schema."""

import json
import re
from datetime import date
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp import (
    LabelBoostClassifier,
    PAPQueryRelease,
    PrivacyBudget,
    PrivateVotesClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import Gaussian, Mechanism, PrivacyReceipt, Pure
from tests.internals.accounting import PRODUCT_TYPES, TO_WRITE

pytestmark = pytest.mark.once

NUMBER = (int, float)
PURE = Pure(Fraction(1))
# The schema deployments-schema.yaml of opendp/deployments-registry-data at commit 3e9c812: the path
# of each field, its type, its allowed values, and whether it is required. No others are allowed.
PRODUCTS = [
    *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
    *("Interactive API", "SQL queries"),
]
STATUS = [
    *("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    *("Approved (Update Requested)", "Approved (Pending)"),
]
SECTORS = ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
VARIANTS = ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]
SCHEMA = [
    ("url_slug", str, None, True),
    ("status", str, STATUS, True),
    ("tier", int, [1, 2, 3], True),
    ("deployment", dict, None, True),
    ("deployment/basic", dict, None, True),
    ("deployment/basic/name", str, None, True),
    ("deployment/basic/data_curators", list, None, True),
    ("deployment/basic/intended_use", str, None, True),
    ("deployment/basic/data_product_type", str, PRODUCTS, True),
    ("deployment/basic/data_product_region", str, None, True),
    ("deployment/basic/description", str, None, True),
    ("deployment/basic/publication_date", str, None, True),
    ("deployment/basic/data_product_sector", str, SECTORS, False),
    ("deployment/dp_variant", dict, None, False),
    ("deployment/dp_variant/variant_name", str, VARIANTS, False),
    ("deployment/dp_variant/data_domain", str, None, False),
    ("deployment/dp_variant/unprotected_quantities", str, None, False),
    ("deployment/privacy_loss", dict, None, False),
    ("deployment/privacy_loss/privacy_unit", str, None, False),
    ("deployment/privacy_loss/privacy_unit_details", str, None, False),
    ("deployment/privacy_loss/privacy_parameters", dict, None, False),
    ("deployment/privacy_loss/privacy_parameters/epsilon", NUMBER, None, False),
    ("deployment/privacy_loss/privacy_parameters/delta", (*NUMBER, str), None, False),
    ("deployment/privacy_loss/privacy_parameters/rho", NUMBER, None, False),
    ("deployment/privacy_loss/privacy_parameters_details", object, None, False),
    ("deployment/deployment_model", dict, None, False),
    (
        "deployment/deployment_model/model_name",
        str,
        ["Local", "Central", "Shuffle", "Federated", "Varies"],
        False,
    ),
    ("deployment/deployment_model/model_name_details", str, None, False),
    ("deployment/deployment_model/actors", str, None, False),
    ("deployment/deployment_model/release_type", str, ["One release", "Many releases"], False),
    ("deployment/deployment_model/release_type_details", str, None, False),
    ("deployment/deployment_model/data_source_type", str, ["Static", "Dynamic"], False),
    ("deployment/deployment_model/data_source_type_details", object, None, False),
    ("deployment/deployment_model/access_type", str, ["Interactive", "Non-interactive"], False),
    ("deployment/deployment_model/access_type_details", str, None, False),
    ("deployment/accounting", dict, None, False),
    ("deployment/accounting/post_processing", str, None, False),
    ("deployment/accounting/composition", str, None, False),
    ("deployment/implementation", dict, None, False),
    ("deployment/implementation/preprocessing_and_hyperparameter_tuning", str, None, False),
    ("deployment/implementation/mechanisms", str, None, False),
    ("deployment/implementation/justification", str, None, False),
    ("deployment/administrative", dict, None, False),
    ("deployment/administrative/sources", str, None, False),
    ("deployment/administrative/notes", str, None, False),
    ("deployment/administrative/registry_authors", list, None, True),
]


def values_of(entry, prefix=""):
    """Yield the path and the value of every field."""
    for name, value in entry.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from values_of(value, f"{prefix}{name}/")


def faults(entry):
    """Return the paths of fields that the schema does not admit, and of those that are missing."""
    entry = json.loads(json.dumps(entry))  # a file: tuples and numbers of NumPy are not allowed
    rules = {path: rule for path, *rule in SCHEMA}
    values = dict(values_of(entry))
    wrong = [path for path in values if path not in rules]
    for path, (kind, allowed, required) in rules.items():
        value = values.get(path)
        if path not in values:
            parent = path.rpartition("/")[0]
            wrong += [path] if required and (not parent or parent in values) else []
        else:
            names = kind is not list or (value and all(isinstance(item, str) for item in value))
            fits = isinstance(value, kind) and not isinstance(value, bool)
            if not (fits and names and (allowed is None or value in allowed)):
                wrong.append(path)
    published = values.get("deployment/basic/publication_date", "")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", published):
        wrong.append("deployment/basic/publication_date")
    return wrong


def receipt_of(epsilon=1.0, delta=0.0, event=PURE, n=1, **others):
    mechanism = Mechanism("noise", epsilon, delta, "a paper", event)
    values = {"unit": "replace one private row", "n_private": 500, "n_public": 20}
    return PrivacyReceipt(
        epsilon=epsilon,
        delta=delta,
        mechanisms=(mechanism,) * n,
        event=event,
        **values | {"secure_randomness": True} | others,
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_entries_of_fits_follow_the_schema():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(600, 2)), rng.normal(size=(80, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    some = np.where(np.arange(600) < 500, X[:, 0] > 0, -1)
    budget = PrivacyBudget(2, 1e-5, for_tests=True)
    people = np.arange(600) // 2
    for estimator in (
        SemiPrivateClassifier(random_state=0).fit(X, y, X_public=public),
        SemiPrivateClassifier(max_rows_per_group=2, random_state=0).fit(
            X, y, X_public=public, groups=people
        ),
        PrivateVotesClassifier(random_state=0).fit(X, y, X_public=public),
        SemiPrivateBoostingClassifier(delta=1e-6, budget=budget, random_state=0).fit(
            X, y, X_public=public
        ),
        PAPQueryRelease(bounds=(-5, 5), delta=1e-6, random_state=0).fit(X, X_public=public),
        LabelBoostClassifier(random_state=0).fit(X, some, X_public=public),
    ):
        entry = estimator.privacy_.to_registry()
        assert faults(entry) == []
        receipt, deployment = estimator.privacy_, entry["deployment"]
        assert deployment["privacy_loss"]["privacy_parameters"]["epsilon"] == receipt.epsilon
        assert receipt.unit in deployment["privacy_loss"]["privacy_unit_details"]
        assert receipt.in_words() in deployment["privacy_loss"]["privacy_parameters_details"]
        for mechanism in receipt.mechanisms:
            assert mechanism.name in deployment["implementation"]["mechanisms"]
        for assumption in receipt.assumptions:
            assert assumption in deployment["dp_variant"]["unprotected_quantities"]
        assert "must not be published" in deployment["administrative"]["notes"]


def test_what_follows_from_the_receipt():
    deployment = receipt_of().to_registry()["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}
    assert deployment["privacy_loss"]["privacy_unit"] == "row"
    assert (
        "The number of private rows (500). The 20 public rows"
        in (deployment["dp_variant"]["unprotected_quantities"])
    )
    assert deployment["accounting"]["composition"].startswith("1 mechanism. Other fits")
    assert "- 1 × noise: ε = 1, δ = 0 alone (a paper)" in deployment["implementation"]["mechanisms"]
    assert "secure generator" in deployment["implementation"]["mechanisms"]
    assert "published" not in deployment["administrative"]["notes"]

    noise = Gaussian(Fraction(1, 50))
    several = receipt_of(0.5, 1e-6, noise, n=3, n_public=0, entry=4, for_tests=True)
    deployment = several.to_registry()["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5, "delta": 1e-6}
    assert (
        "ρ = 0.01 and μ-GDP with μ = 0.1414"
        in (deployment["privacy_loss"]["privacy_parameters_details"])
    )
    assert "There are no public rows." in deployment["dp_variant"]["unprotected_quantities"]
    assert "3 mechanisms under one plan" in deployment["accounting"]["composition"]
    assert "fit 4 of a privacy budget" in deployment["accounting"]["composition"]
    assert "- 3 × noise" in deployment["implementation"]["mechanisms"]
    assert "for tests and gives no protection" in deployment["administrative"]["notes"]

    persons = receipt_of(unit="replace one person, up to 4 private rows")
    assert persons.to_registry()["deployment"]["privacy_loss"]["privacy_unit"] == "person"


def test_examples_fit_the_product():
    model = receipt_of().to_registry()["deployment"]
    tables = receipt_of().to_registry(data_product_type="Summary statistics")["deployment"]
    assert "such as predictions" in model["accounting"]["post_processing"]
    assert "answers, tables and synthetic rows" in tables["accounting"]["post_processing"]
    assert "residuals of boosting" in model["implementation"]["mechanisms"]
    assert "boosting" not in tables["implementation"]["mechanisms"]
    assert "Floating point is used only" in tables["implementation"]["mechanisms"]


def test_what_the_curator_writes():
    entry = receipt_of().to_registry(
        name="Shares of smokers, by age",
        data_curators=["Office of Health"],
        description="One table",
        intended_use="Planning",
        data_product_type="Summary statistics",
        data_product_region="Utopia",
        publication_date="2026-03-01",
        registry_authors=("A. Person", "B. Person"),
    )
    assert faults(entry) == []
    assert entry["url_slug"] == "shares-of-smokers-by-age-office-of-health-2026"
    assert entry["deployment"]["basic"] == {
        "name": "Shares of smokers, by age",
        "data_curators": ["Office of Health"],
        "intended_use": "Planning",
        "data_product_type": "Summary statistics",
        "data_product_region": "Utopia",
        "description": "One table",
        "publication_date": "2026-03-01",
    }
    assert entry["deployment"]["administrative"]["registry_authors"] == ["A. Person", "B. Person"]
    draft = receipt_of().to_registry()
    texts = [value for _, value in values_of(draft) if value in (TO_WRITE, [TO_WRITE])]
    assert len(texts) == 6  # all that a receipt does not know, but the type and the date
    assert draft["deployment"]["basic"]["publication_date"] == date.today().isoformat()


def test_allowed_types_are_those_of_the_schema():
    assert sorted(PRODUCT_TYPES) == sorted(PRODUCTS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data_product_type": "Model"}, "data_product_type .*'Model'"),
        ({"publication_date": "1/1/2026"}, "publication_date must"),
        ({"publication_date": date(2026, 1, 1)}, "publication_date must"),
        ({"publication_date": "2026-13-01"}, "publication_date must"),
        ({"data_curators": "Office"}, "data_curators must"),
        ({"registry_authors": []}, "registry_authors must"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        receipt_of().to_registry(**values)


def test_the_check_finds_faults():
    entry = receipt_of().to_registry()
    for path, value in (
        ("surprise", 1),
        ("tier", 0),
        ("status", "New"),
        ("deployment/basic/name", 3),
        ("deployment/basic/data_curators", []),
        ("deployment/basic/publication_date", "1/1/2026"),
        ("deployment/privacy_loss/privacy_parameters/epsilon", "1"),
        ("deployment/privacy_loss/privacy_parameters/mu", 1),
    ):
        broken = json.loads(json.dumps(entry))
        *parents, last = path.split("/")
        inner = broken
        for name in parents:
            inner = inner[name]
        inner[last] = value
        assert faults(broken) == [path], path
    del entry["deployment"]["basic"]["name"]
    assert faults(entry) == ["deployment/basic/name"]
