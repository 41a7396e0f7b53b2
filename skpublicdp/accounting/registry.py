"""Entries for the Differential Privacy Deployments Registry, generated from receipts.

The registry (github.com/opendp/deployments-registry-data) collects descriptions of published data
products in one YAML format. The fields about privacy follow from a receipt. The curator must write
the fields about the product.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skpublicdp.accounting.receipts import PrivacyReceipt

TO_WRITE = "To be written by the curator"
"""Placeholder text for fields that cannot be derived from a receipt."""

PRODUCT_TYPES = (
    "Machine learning model",
    "Summary statistics",
    "Synthetic data",
    "Dataset",
    "Interactive API",
    "SQL queries",
)
"""Types of data products in the schema of the registry."""


def implementation_note(*, is_model: bool) -> str:
    """Return a statement about floating-point arithmetic and side channels.

    It is used in cards and registry entries. Only models can result from boosting or be linear.
    """
    models = (
        " The residuals of boosting and the rows of linear models are computed in floating point, "
        "each from one private row, public rows and released values alone, and are rounded to "
        "integers before they are added up."
    )
    return (
        "Every draw and every noise value is determined in exact integer and rational arithmetic. "
        "Floating point is used only where an error bound proves that the result is the same."
        f"{models if is_model else ''} Running times are not protected."
    )


def registry_entry(
    receipt: PrivacyReceipt,
    *,
    name: str,
    data_curators: Iterable[str],
    description: str,
    intended_use: str,
    data_product_type: str,
    data_product_region: str,
    publication_date: str | None,
    registry_authors: Iterable[str],
) -> dict[str, Any]:
    """Return the registry entry for a receipt, as documented in `PrivacyReceipt.to_registry`."""
    if data_product_type not in PRODUCT_TYPES:
        raise ValueError(
            f"data_product_type must be one of {', '.join(PRODUCT_TYPES)}; "
            f"got {data_product_type!r}."
        )
    is_model = data_product_type == PRODUCT_TYPES[0]
    examples = "predictions" if is_model else "answers, tables and synthetic rows"
    published = _check_date(publication_date)
    curators = _check_names("data_curators", data_curators)
    authors = _check_names("registry_authors", registry_authors)
    basic = {
        "name": name,
        "data_curators": curators,
        "intended_use": intended_use,
        "data_product_type": data_product_type,
        "data_product_region": data_product_region,
        "description": description,
        "publication_date": published,
    }
    return {
        "url_slug": "-".join([_slug(name), _slug(" ".join(curators)), published[:4]]),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": _describe_variant(receipt),
            "privacy_loss": _describe_loss(receipt),
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The curator holds the rows and fits the product to them.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": f"All computations on released values, such as {examples}.",
                "composition": _describe_composition(receipt),
            },
            "implementation": {"mechanisms": _describe_mechanisms(receipt, is_model=is_model)},
            "administrative": {"registry_authors": authors, "notes": _notes(receipt)},
        },
    }


def _check_date(value: str | None) -> str:
    """Return a date in the format YYYY-MM-DD, or raise if it is invalid; None means today."""
    if value is None:
        return date.today().isoformat()
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise ValueError(
            f"publication_date must be a string such as '2026-01-31'; got {value!r}."
        ) from None


def _check_names(field: str, names: Iterable[str]) -> list[str]:
    """Return the names as a list, or raise if there are none or if a single string is given."""
    listed = [] if isinstance(names, str) else list(names)
    if not listed:
        raise ValueError(f"{field} must be a list that contains at least one name; got {names!r}.")
    return listed


def _slug(text: str) -> str:
    """Return a string in lower case, with its words joined by hyphens."""
    return re.sub(r"[\W_]+", "-", text.lower()).strip("-")


def _describe_variant(receipt: PrivacyReceipt) -> dict[str, str]:
    """Return the privacy variant, the data domain and the unprotected quantities."""
    public = f"The {receipt.n_public} public rows, which are used without noise."
    omitted = f"The number of private rows that were left out ({receipt.n_omitted})."
    columns = f"declared columns and equal {receipt._public_values}"
    same = {"labels": "same features", "columns": columns}
    unprotected = [
        f"The number of private rows ({receipt.n_private}).",
        *([omitted] if receipt.n_omitted else []),
        public if receipt.n_public else "There are no public rows.",
        *(f"The guarantee assumes that {assumption}." for assumption in receipt.assumptions),
    ]
    return {
        "variant_name": "Approximate DP" if receipt.delta else "Pure DP",
        "data_domain": (
            f"All tables of {receipt.n_private} private rows with the "
            f"{same.get(receipt.protects, 'declared columns')}. The "
            f"{receipt.n_public} public rows are identical in all tables."
        ),
        "unprotected_quantities": " ".join(unprotected),
    }


def _describe_loss(receipt: PrivacyReceipt) -> dict[str, Any]:
    """Return the privacy unit and the privacy parameters."""
    parameters = {"epsilon": receipt.epsilon}
    if receipt.delta:
        parameters["delta"] = receipt.delta
    details = [receipt.in_words()]
    if math.isfinite(receipt.rho) and math.isfinite(receipt.mu):
        details.append(
            f"The plan is also ρ-zCDP with ρ = {receipt.rho:.4g} and μ-GDP with "
            f"μ = {receipt.mu:.4g}."
        )
    return {
        "privacy_unit": receipt._kind_of_unit,
        "privacy_unit_details": (
            f"Adjacent data sets differ in one unit: {receipt.unit}. Both have the same number of "
            "private rows."
        ),
        "privacy_parameters": parameters,
        "privacy_parameters_details": " ".join(details),
    }


def _describe_composition(receipt: PrivacyReceipt) -> str:
    """Describe how the privacy losses of mechanisms and of several fits are composed."""
    n_mechanisms = len(receipt.mechanisms)
    sentences = [
        f"{n_mechanisms} mechanisms under one plan that was fixed before private rows were read, "
        "by adaptive sequential composition."
        if n_mechanisms > 1
        else f"{n_mechanisms or 'No'} mechanism.",
        "Other fits on the same rows are not included and add their own privacy loss."
        if receipt.entry is None
        else f"This is fit {receipt.entry} of a privacy budget, which bounds all fits together.",
    ]
    return " ".join(sentences)


def _describe_mechanisms(receipt: PrivacyReceipt, *, is_model: bool) -> str:
    """Return the distinct mechanisms as a Markdown list, with notes on their implementation."""
    from skpublicdp import __version__

    lines = [
        f"- {count} × {mechanism.name}: ε = {mechanism.epsilon:g}, δ = {mechanism.delta:g} alone "
        f"({mechanism.reference})"
        for mechanism, count in receipt._counted_mechanisms()
    ]
    randomness = "secure generator of the operating system"
    if not receipt.secure_randomness:
        randomness = "seeded generator"
    return "\n".join(
        [
            *lines,
            "",
            f"Library: skpublicdp {__version__}. Randomness: {randomness}. "
            f"{implementation_note(is_model=is_model)}",
        ]
    )


def _notes(receipt: PrivacyReceipt) -> str:
    """Return the caveats that readers of the entry should know."""
    notes = ["The fields about privacy were written from the privacy receipt of the fit."]
    if not receipt.secure_randomness:
        notes.append("The randomness was seeded, so this fit must not be published.")
    if receipt.for_tests:
        notes.append("The budget of this fit is for tests and gives no protection.")
    return " ".join(notes)
