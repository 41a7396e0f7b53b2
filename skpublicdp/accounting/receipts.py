"""Privacy receipts: a fit's guarantee and mechanisms, stated in public numbers only."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.html import Html, named_list, table
from skpublicdp.accounting.events import (
    Event,
    from_text,
    mu_squared_price,
    rho_price,
    to_text,
)
from skpublicdp.accounting.plans import plan_delta
from skpublicdp.accounting.registry import TO_WRITE, registry_entry

REPLACE_ONE = "replace one private row (features and label)"
"""Unit of privacy: neighbouring data sets differ by the replacement of one private row."""

REPLACE_ROW = "replace one private row"
"""Unit of privacy of releases, which have no labels apart from the columns of their rows."""

REPLACE_FEATURES = "replace the features of one private row (its label is not protected)"
"""Unit of privacy if the label of a row decides whether the row is private."""

REPLACE_LABEL = "replace the label of one private row (its features are not protected)"
"""Unit of privacy if the features of all rows are public."""

REPLACE_PERSON = "replace one person"
"""Beginning of the unit's description if all rows of each person are protected
(`max_rows_per_group`)."""

CURVE_POINTS = 24
"""Number of ε values whose pairs (ε, δ(ε)) bound a trade-off curve."""

MAX_CURVE_EPSILON = 100.0
"""Largest of these ε values. Larger values would not change a curve visibly."""

MIN_PLAN_EPSILON = 1e-12
"""Smallest ε at which δ(ε) of the plan is computed. Smaller values would need a very fine grid."""

MAX_EXP_ARGUMENT = 700.0
"""Largest argument for which `math.exp` does not overflow, rounded down."""

DELTA_ROUNDING_MARGIN = 1e-12
"""Relative increase in δ that covers the rounding errors of a few float operations."""

RECEIPT_FORMAT = "skpublicdp privacy receipt"
"""Name of the JSON format of receipts."""

RECEIPT_VERSION = 1
"""Version of this format, which increases if a field is removed or changes its meaning."""

DOCUMENTATION_URL = ""
"""URL of the published documentation with a trailing slash; empty until publication."""

PROOF_TITLES = {
    "generic_learner": "Learning from unlabelled private rows",
    "label_boost": "Relabelling private rows",
    "label_privacy": "Private labels and private columns",
    "linear": "Linear models: noisy sums along public axes",
    "mixtures": "Errors on mixtures of private and public populations",
    "marginals": "Marginals",
    "moments": "Boosting: noisy histograms and drawn trees",
    "multiplicative_weights": "Multiplicative weights",
    "prediction_sets": "Prediction sets",
    "prefix_sums": "Prefix sums of one column",
    "scores": "Scores",
    "search": "A search for one ε",
    "second_moments": "Second moments",
    "selection": "The exact draw",
    "subsampling": "Active learning by subsampling",
    "votes": "Any classifier",
}
"""Title of each page under docs/proofs that a receipt refers to."""

_PROOF_PAGE = re.compile(r"docs/proofs/(\w+)\.md")


def unit_of_persons(rows_per_person: int, unit_of_rows: str) -> str:
    """Describe the unit of privacy if all rows of each person are protected.

    `unit_of_rows` is the unit without this protection.
    """
    parts = {
        REPLACE_FEATURES: " (features only: labels are not protected)",
        REPLACE_LABEL: " (labels only: features are not protected)",
    }
    unit = f"{REPLACE_PERSON}, up to {rows_per_person} private rows"
    return unit + parts.get(unit_of_rows, "")


PUBLIC_FEATURES = "the features of all rows are public"
"""Assumption of a receipt whose unit is the label of a row."""


def receipt_for_labels(receipt: PrivacyReceipt, rows_per_person: int | None) -> PrivacyReceipt:
    """Return the receipt of a fit whose public rows are the features of its private rows."""
    unit = REPLACE_LABEL
    if rows_per_person is not None:
        unit = unit_of_persons(rows_per_person, unit)
    assumption = f"{PUBLIC_FEATURES}, of which {receipt.n_public} serve as public rows"
    return replace(receipt, unit=unit, assumptions=(assumption, *receipt.assumptions))


COLUMNS_NOT_PROTECTED = " (columns not protected: "
"""Part of the unit's description if some columns of the private rows are public."""

PUBLIC_COLUMNS = "all private rows have public values of"
"""Beginning of the assumption of such a receipt, before the names of the columns."""


def receipt_with_public_columns(receipt: PrivacyReceipt, names: Sequence[str]) -> PrivacyReceipt:
    """Return the receipt of a release together with exact numbers about some public columns."""
    unit, _, earlier = receipt.unit.partition(COLUMNS_NOT_PROTECTED)
    earlier_names = []
    if earlier:
        earlier_names = earlier.removesuffix(")").split(", ")
    columns = ", ".join(dict.fromkeys([*earlier_names, *names]))
    unit += f"{COLUMNS_NOT_PROTECTED}{columns})"
    assumptions = [f"{PUBLIC_COLUMNS} {columns}"]
    for text in receipt.assumptions:
        if not text.startswith(PUBLIC_COLUMNS):
            assumptions.append(text)
    return replace(receipt, unit=unit, assumptions=tuple(assumptions))


COLUMNS_PROTECTED = ", and all columns but "
"""Part of the unit's description if only some columns of the private rows are private."""


def receipt_for_private_columns(
    receipt: PrivacyReceipt, names: Sequence[str], model_lines: Iterable[str], targets: str
) -> PrivacyReceipt:
    """Return the receipt of a fit that protects some columns only, and whose targets are public.

    `model_lines` contains the assumptions about public models, which replace those of the private
    estimator. `targets` is "labels" or "outcomes".
    """
    columns = ", ".join(names)
    assumptions = [f"all columns but {columns} are public in all rows, and so are the {targets}"]
    assumptions += model_lines
    for text in receipt.assumptions:
        if not text.startswith("public_model"):
            assumptions.append(text)
    unit = receipt.unit.replace(REPLACE_ONE, REPLACE_ROW)
    unit += f" (not protected: {targets}{COLUMNS_PROTECTED}{columns})"
    return replace(receipt, unit=unit, assumptions=tuple(assumptions))


@dataclass(frozen=True)
class Mechanism:
    """One use of the private rows.

    Attributes
    ----------
    name : str
        Name of the mechanism.
    epsilon, delta : float
        Privacy cost (ε, δ) of this mechanism alone.
    reference : str
        Reference to the privacy proof.
    event : Event, optional
        Privacy event, from which the cost of a composition is computed.
    """

    name: str
    epsilon: float
    delta: float
    reference: str
    event: Event | None = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class PrivacyReceipt:
    """Privacy guarantee and mechanisms of one fit, computed from public numbers only.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee: the fitted object is (epsilon, delta)-differentially private.
    unit : str
        Unit of privacy, i.e. how neighbouring data sets differ.
    n_private, n_public : int
        Numbers of protected and of unprotected rows that were used.
    mechanisms : tuple of Mechanism
        All uses of the private rows.
    secure_randomness : bool
        False if the randomness is seeded. The fit can then be repeated, and the guarantee does not
        hold against an attacker who knows the seed.
    assumptions : tuple of str
        Facts that the guarantee assumes to be public.
    event : Event
        The plan of the fit, used to compose this fit with other fits.
    entry : int or None
        Number of the fit in its `PrivacyBudget`.
    for_tests : bool
        Whether the budget admits any number of seeded fits and therefore provides no protection.
    n_omitted : int
        Number of private rows that were left out because of `max_rows_per_group`.

    See Also
    --------
    skpublicdp.PrivacyBudget : A budget shared by many fits.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Draw
    >>> one = PrivacyReceipt(1.0, 0.0, "row", 100, 10, (), True, event=Draw(Fraction(1)))
    >>> round(one.mu, 2), round(one.rho, 3)
    (0.63, 0.125)
    >>> print(one.in_words())
    Suppose an attacker knows every other row and considers this person and one other person equally
    likely. From this result they can tell which one it was at most 62.3% of the time; guessing
    blindly gives 50%.
    """

    epsilon: float
    delta: float
    unit: str
    n_private: int
    n_public: int
    mechanisms: tuple[Mechanism, ...]
    secure_randomness: bool
    assumptions: tuple[str, ...] = ()
    event: Event = field(kw_only=True)
    entry: int | None = None
    for_tests: bool = False
    n_omitted: int = 0

    @property
    def mu(self) -> float:
        """The fit's μ of Gaussian differential privacy, or infinity if there is none."""
        return math.sqrt(mu_squared_price(self.event))

    @property
    def rho(self) -> float:
        """The fit's ρ of zero-concentrated differential privacy, or infinity."""
        return float(rho_price(self.event))

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest δ that is proved for a given ε.

        The result is the smaller of two bounds: the plan's δ(ε), and the δ implied by the guarantee
        (ε₀, δ). If ε < ε₀, the second bound is δ + (1 - δ) (e^ε₀ - e^ε) / (1 + e^ε₀).
        """
        delta_of_plan = 1.0
        if self.epsilon > MIN_PLAN_EPSILON:
            delta_of_plan = plan_delta(self.event, Fraction(epsilon))
        exp_guarantee = math.exp(min(self.epsilon, MAX_EXP_ARGUMENT))
        increase = (exp_guarantee - math.exp(epsilon)) * (1 - self.delta)
        implied_delta = self.delta + max(0.0, increase / (1 + exp_guarantee))
        implied_delta *= 1 + DELTA_ROUNDING_MARGIN
        return min(delta_of_plan, implied_delta, 1.0)

    @property
    def risk(self) -> float:
        """An attacker's largest possible success rate, minus the rate of blind guessing (1/2).

        The attacker is assumed to know every other row and to consider two persons equally likely.
        The risk is δ(0) / 2, since δ(0) bounds the total variation distance of the results. A risk
        of 0.05 means 5 percentage points better than guessing.
        """
        return self.delta_at(0.0) / 2

    def trade_off(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """Return lower bounds on the type II error of a membership test, given the type I error.

        Parameters
        ----------
        alpha : array-like of float
            Type I errors, in [0, 1], of a test of one person's row against another row.

        Returns
        -------
        ndarray of float64
            Smallest type II errors: the trade-off function (Dong, Roth and Su 2019, Definition
            2.1), supported at `CURVE_POINTS` values of ε.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from skpublicdp.accounting import Draw
        >>> one = PrivacyReceipt(1.0, 0.0, "row", 100, 10, (), True, event=Draw(Fraction(1)))
        >>> one.trade_off([0.05, 0.5]).round(2)
        array([0.87, 0.27])
        """
        alpha = np.asarray(alpha, dtype=np.float64)
        if not ((alpha >= 0) & (alpha <= 1)).all():
            raise ValueError("alpha must lie in [0, 1].")
        type_2_error = np.zeros_like(alpha)
        for epsilon in np.linspace(0, min(self.epsilon, MAX_CURVE_EPSILON), CURVE_POINTS):
            delta, exp_epsilon = self.delta_at(float(epsilon)), math.exp(epsilon)
            # (ε, δ) bounds both errors, with either data set as the null hypothesis
            lower_bounds = (1 - delta - exp_epsilon * alpha, (1 - delta - alpha) / exp_epsilon)
            for bound in lower_bounds:
                type_2_error = np.maximum(type_2_error, bound)
        return type_2_error

    def in_words(self) -> str:
        """State the guarantee in plain words, as a bound on an attacker's success rate.

        Returns
        -------
        str
            With neighbouring data sets equally likely beforehand, the best guess from the result is
            right with probability at most 1/2 + `risk`. The percentage is rounded up. This bound
            does not apply to other prior odds.
        """
        success_percent = 50 * (1 + 2 * self.risk)
        percentage = f"{math.ceil(10 * success_percent) / 10:.1f}"  # rounded up
        assumption = {
            "row": "knows every other row and considers this person and one other person",
            "person": "knows all rows of everybody else and considers this person and one other "
            "person",
            "label": "knows all features and every other label, and considers two possibilities "
            "for the labels of this person",
        }[self._kind_of_unit]
        if self.protects == "columns":
            assumption += f", whose {self._public_values} are equal,"
        sentence = (
            f"Suppose an attacker {assumption} equally likely. From this result they can tell "
            f"which one it was at most {percentage}% of the time; guessing blindly gives 50%."
        )
        if not self.secure_randomness:
            sentence += " This does not hold against an attacker who knows or guesses the seed."
        return sentence

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per mechanism, in a form that can be converted to a data frame.

        Returns
        -------
        list of dict
            Dicts with the keys ``mechanism``, ``epsilon``, ``delta`` and ``proof``.
        """
        return [
            {"mechanism": m.name, "epsilon": m.epsilon, "delta": m.delta, "proof": m.reference}
            for m in self.mechanisms
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain dicts, lists, strings and numbers, ready for JSON.

        Returns
        -------
        dict
            The fields documented in docs/user_guide/reports.md. The field ``"version"`` increases
            whenever a field is removed or changes its meaning. New fields may be added without a
            new version.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from skpublicdp.accounting import Draw
        >>> one = PrivacyReceipt(1.0, 0.0, "row", 100, 10, (), True, event=Draw(Fraction(1)))
        >>> fields = one.to_dict()
        >>> fields["format"], fields["version"]
        ('skpublicdp privacy receipt', 1)
        >>> PrivacyReceipt.from_dict(fields) == one
        True
        """
        fields = ("name", "epsilon", "delta", "reference")
        mechanisms = [
            {name: getattr(m, name) for name in fields} | {"event": m.event and to_text(m.event)}
            for m in self.mechanisms
        ]
        return {
            "format": RECEIPT_FORMAT,
            "version": RECEIPT_VERSION,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "n_private": self.n_private,
            "n_public": self.n_public,
            "mechanisms": mechanisms,
            "secure_randomness": self.secure_randomness,
            "assumptions": list(self.assumptions),
            "event": to_text(self.event),
            "entry": self.entry,
            "for_tests": self.for_tests,
            "n_omitted": self.n_omitted,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> PrivacyReceipt:
        """Return the receipt from a dict made by `to_dict`.

        Parameters
        ----------
        fields : dict
            Fields of a receipt. A receipt without the field ``"version"`` has version 1. Unknown
            fields are ignored.

        Returns
        -------
        PrivacyReceipt
            The receipt.

        Raises
        ------
        ValueError
            If the version of the fields is not supported.
        """
        version = fields.get("version", RECEIPT_VERSION)
        if version != RECEIPT_VERSION:
            raise ValueError(
                f"The receipt must be in format version {RECEIPT_VERSION}; got version {version}."
            )
        plain = {name: value for name, value in fields.items() if name in cls.__dataclass_fields__}
        parsed = {
            "mechanisms": tuple(
                Mechanism(**values | {"event": values["event"] and from_text(values["event"])})
                for values in fields["mechanisms"]
            ),
            "assumptions": tuple(fields["assumptions"]),
            "event": from_text(fields["event"]),
        }
        return cls(**plain | parsed)

    def to_registry(
        self,
        *,
        name: str = TO_WRITE,
        data_curators: Iterable[str] = (TO_WRITE,),
        description: str = TO_WRITE,
        intended_use: str = TO_WRITE,
        data_product_type: str = "Machine learning model",
        data_product_region: str = TO_WRITE,
        publication_date: str | None = None,
        registry_authors: Iterable[str] = (TO_WRITE,),
    ) -> dict[str, Any]:
        """Return the entry of this fit in the Differential Privacy Deployments Registry.

        The fields about privacy are derived from the receipt: variant, privacy unit and parameters,
        unprotected quantities (including the public rows), mechanisms and composition. The
        parameters are the fields about the published product, under their names in the registry.

        Parameters
        ----------
        name, description, intended_use : str
            Name, description and intended use of the product. By default, this field and the
            following ones contain a note asking the curator to write the text.
        data_curators : list of str
            Institutions that publish the product; at least one is required.
        data_product_type : str, default="Machine learning model"
            "Machine learning model", "Summary statistics", "Synthetic data", "Dataset",
            "Interactive API" or "SQL queries".
        data_product_region : str
            Region from which the rows originate, or whose laws apply.
        publication_date : str, optional
            Date of publication as YYYY-MM-DD. By default today.
        registry_authors : list of str
            Authors of the entry; at least one is required.

        Returns
        -------
        dict
            The entry, which consists of plain dicts, lists, strings and numbers. Its status is
            "Draft". The output of `json.dumps` is also valid YAML, the format of the registry.

        Raises
        ------
        ValueError
            If the type, the date or a list of names is not allowed.

        References
        ----------
        github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from skpublicdp.accounting import Draw
        >>> one = PrivacyReceipt(1.0, 0.0, "row", 100, 10, (), True, event=Draw(Fraction(1)))
        >>> entry = one.to_registry(name="Risk score", data_curators=["Office of Health"])
        >>> entry["deployment"]["dp_variant"]["variant_name"]
        'Pure DP'
        >>> entry["deployment"]["dp_variant"]["unprotected_quantities"]
        'The number of private rows (100). The 10 public rows, which are used without noise.'
        """
        return registry_entry(
            self,
            name=name,
            data_curators=data_curators,
            description=description,
            intended_use=intended_use,
            data_product_type=data_product_type,
            data_product_region=data_product_region,
            publication_date=publication_date,
            registry_authors=registry_authors,
        )

    @property
    def protects(self) -> str:
        """What is protected of each private row: "rows", "labels", "features" or "columns".

        The value is "labels" if all features are public, "features" if no label is protected, and
        "columns" if some columns are public.
        """
        if COLUMNS_NOT_PROTECTED in self.unit or COLUMNS_PROTECTED in self.unit:
            return "columns"
        if self.unit.endswith("features are not protected)"):
            return "labels"
        is_feature = self.unit.endswith(("label is not protected)", "labels are not protected)"))
        return "features" if is_feature else "rows"

    @property
    def _public_values(self) -> str:
        """What is equal in neighbouring data sets if some columns are public."""
        if COLUMNS_PROTECTED not in self.unit:
            return "public columns"
        targets = self.unit.partition("(not protected: ")[2].partition(COLUMNS_PROTECTED)[0]
        return f"{targets} and public columns"

    @property
    def _kind_of_unit(self) -> str:
        """Unit of privacy in one word: "label", "person" or "row"."""
        if self.protects == "labels":
            return "label"
        return "person" if self.unit.startswith(REPLACE_PERSON) else "row"

    def __repr__(self) -> str:
        mechanisms = [
            f"{_times_prefix(count)}{m.name} (ε = {m.epsilon:g}, δ = {m.delta:g})"
            for m, count in self._counted_mechanisms()
        ]
        return "\n".join(
            [
                f"PrivacyReceipt: ε = {self.epsilon:g}, δ = {self.delta:g}",
                *(f"  {name:<11} {text}" for name, text in self._lines(mechanisms or ["none"])),
            ]
        )

    def _repr_html_(self) -> str:
        return (
            f"<div><p><b>Privacy receipt: ε = {self.epsilon:g}, δ = {self.delta:g}.</b> "
            f"{escape(self.in_words())}</p>{self._mechanisms_html()}"
            f"{named_list(self._lines([]))}</div>"
        )

    def _mechanisms_html(self) -> str:
        """Return the table of mechanisms as HTML."""
        rows = (
            (_times_prefix(n) + m.name, f"{m.epsilon:g}", f"{m.delta:g}", _proof_html(m.reference))
            for m, n in self._counted_mechanisms()
        )
        return table(rows, header=("mechanism", "ε", "δ", "proof"))

    def _lines_html(self, *names: str) -> str:
        """Return, as HTML, the lines of the receipt that have one of the given field names."""
        return named_list((name, text) for name, text in self._lines([]) if name in names)

    def _counted_mechanisms(self) -> Iterable[tuple[Mechanism, int]]:
        """Return the distinct mechanisms in order of first use, with the number of uses of each."""
        return Counter(self.mechanisms).items()

    def _lines(self, mechanisms: list[str]) -> Iterable[tuple[str, str]]:
        """Return the lines of the receipt as pairs of field name and text.

        Only the first mechanism has a field name; the others have "". `mechanisms` contains the
        texts of the mechanisms, or is empty for HTML, which shows a table instead.
        """
        randomness = (
            "operating system's secure generator"
            if self.secure_randomness
            else "seeded, repeatable: for tests and papers, not for release"
        )
        scope = "this fit alone; other fits on the same rows add their own ε and δ"
        if self.entry is not None:
            scope = f"this fit, entry {self.entry} of its budget, which adds up all fits"
        if self.for_tests:
            scope = f"this fit, entry {self.entry} of a budget for tests, without any protection"
        rows = f"{self.n_private} private, {self.n_public} public"
        if self.n_omitted:
            rows += f"; {self.n_omitted} private rows were left out by max_rows_per_group"
        lines = [
            ("unit", self.unit),
            ("rows", rows),
            *zip(("mechanisms", *[""] * len(mechanisms)), mechanisms, strict=False),
        ]
        sum_of_epsilons = sum(m.epsilon for m in self.mechanisms)
        if sum_of_epsilons > self.epsilon * (1 + 1e-9):  # not for a rounding error
            total = (
                f"ε = {self.epsilon:g}, δ = {self.delta:g}, which is less than the sum: each "
                "mechanism is listed with its individual cost"
            )
            lines.append(("together", total))
        lines += [("randomness", randomness), ("scope", scope)]
        lines += [("assumes", assumption) for assumption in self.assumptions]
        return lines


def _times_prefix(count: int) -> str:
    """Return a prefix such as "3 × " for a mechanism used three times, or "" for one use."""
    return f"{count} × " if count > 1 else ""


def _proof_html(reference: str) -> Html:
    """Return a mechanism's reference as HTML, in which titles replace the paths of proof pages.

    Titles are links if `DOCUMENTATION_URL` is set. All other text is escaped.

    Examples
    --------
    >>> _proof_html("McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md")
    'McSherry and Talwar (2007), Theorem 6; proof page “The exact draw”'
    """
    return Html(_PROOF_PAGE.sub(_page_html, escape(reference)))


def _page_html(match: re.Match[str]) -> str:
    """Return the title of a matched proof page as HTML, linked if the page is published."""
    page = match[1]
    title = escape(PROOF_TITLES.get(page, page))
    if DOCUMENTATION_URL:
        address = escape(f"{DOCUMENTATION_URL}proofs/{page}.html")
        title = f'<a href="{address}">{title}</a>'
    return f"proof page “{title}”"
