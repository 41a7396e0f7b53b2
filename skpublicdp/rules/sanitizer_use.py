"""Check of the sanitizer of a `GenericLearnerClassifier`, and a record of its privacy cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from sklearn.base import clone

from skpublicdp.accounting import Approximate, exact_fraction
from skpublicdp.accounting.events import NO_EVENT
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers import QuantileSanitizer
from skpublicdp.typing import Floats


class SanitizerUse(NamedTuple):
    """Facts about a fitted sanitizer that the receipt and the guarantee of the learner state.

    Attributes
    ----------
    depends_on_rows : bool
        Whether its sample depends on the rows. A sanitizer with too few rows may ignore them.
    secure_randomness : bool
        Whether it drew from a secure generator, not from a seed.
    """

    depends_on_rows: bool
    secure_randomness: bool


class SyntheticPoints(NamedTuple):
    """Points that replace the unlabelled rows of a `GenericLearnerClassifier` in its cover.

    Attributes
    ----------
    points : ndarray of float64, shape (n_points, n_features)
        Sample of the sanitizer, or of a data-independent reference distribution.
    secure_randomness : bool
        Whether their randomness is from a secure generator.
    depends_on_rows : bool
        Whether they depend on the unlabelled rows.
    """

    points: Floats
    secure_randomness: bool
    depends_on_rows: bool


def unfitted_sanitizer(sanitizer: Any) -> tuple[Any, Fraction]:
    """Return an unfitted copy of the parameter `sanitizer` of a learner, and its δ.

    None means a `QuantileSanitizer`. δ is 0 if the sanitizer has no parameter `delta`.
    """
    copy = QuantileSanitizer() if sanitizer is None else clone(sanitizer)
    parameters = copy.get_params(deep=False)
    if "epsilon" not in parameters:
        raise ValueError(
            "sanitizer must have a parameter epsilon, its privacy budget; "
            f"{type(copy).__name__} has none."
        )
    if parameters.get("budget") is not None:
        raise ValueError("sanitizer must have no budget of its own; give it to the learner.")
    return copy, exact_fraction(parameters.get("delta") or 0)


def record_sanitizer(sanitizer: Any, ledger: Ledger) -> SanitizerUse:
    """Copy the mechanisms of a fitted sanitizer into the receipt of a ledger.

    Raises ValueError if the sanitizer's own receipt exceeds the ε and δ that it was given.

    A sanitizer without a receipt is taken to use its rows.
    """
    parameters = sanitizer.get_params(deep=False)
    receipt = getattr(sanitizer, "privacy_", None)
    if receipt is None:
        is_unseeded = parameters.get("random_state") is None
        return SanitizerUse(depends_on_rows=True, secure_randomness=is_unseeded)
    if receipt.epsilon > float(parameters["epsilon"]) or receipt.delta > float(ledger.delta):
        raise ValueError("sanitizer must not spend more than its parameters epsilon and delta.")
    for mechanism in receipt.mechanisms:
        event = mechanism.event or Approximate(
            exact_fraction(mechanism.epsilon), exact_fraction(mechanism.delta)
        )
        ledger.annotate(f"on the unlabelled rows: {mechanism.name}", event, mechanism.reference)
    depends_on_rows = bool(receipt.epsilon or receipt.delta)
    if not depends_on_rows:
        ledger.annotate("on the unlabelled rows: too few, not used", NO_EVENT, "its own receipt")
    return SanitizerUse(depends_on_rows, receipt.secure_randomness)
