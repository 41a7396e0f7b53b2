"""The rounds of LabelBoost on private rows, and the receipt of their privacy costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import exact_fraction
from skpublicdp.base_learner import add_row_per_label, mechanism_event
from skpublicdp.data.binning import column_medians
from skpublicdp.data.inputs import LabelledRows
from skpublicdp.data.schema import parse_bounds
from skpublicdp.data.validation import feature_names
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import HypothesisClass
from skpublicdp.hypotheses.base import assumptions_of_class
from skpublicdp.label_boost.plan import (
    LabelBoostPlan,
    rounds_delta,
    rounds_epsilon,
)
from skpublicdp.label_boost.relabelling import RELABELLING_PROOF, relabel
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats


class RowsForBase(NamedTuple):
    """Labelled rows used to fit the base learner, and the base learner's privacy budget."""

    X: Floats  # (n, n_features): private rows
    y: NDArray[Any]  # (n,): labels of the rows; like the rows, they are private
    # privacy budget of the base learner
    epsilon: float
    delta: float
    may_lack_labels: bool  # whether some label of the fit may be missing in `y`
    n_rounds: int  # number of rounds that relabelled rows
    labeler: Any  # the released classifier that labelled the rows, or None
    # ``guarantee(base, n)`` returns the error bound of the base learner after fitting to n rows
    guarantee: Callable[[Any, int], Promise]

    def with_every_label(self, base: Any, classes: NDArray[Any], centre: Floats) -> RowsForBase:
        """Return these rows, plus one additional row per label if labels may be missing.

        A base learner with a parameter `classes` does not need additional rows.
        """
        if not self.may_lack_labels:
            return self
        X, y = add_row_per_label(base, self.X, self.y, classes, centre)
        return self._replace(X=X, y=y)


def rows_for_base_learner(
    plan: LabelBoostPlan, hypotheses: HypothesisClass, rows: LabelledRows, ledger: Ledger
) -> tuple[Floats, Codes]:
    """Run the rounds of Algorithm 3 and return the rows and codes for the base learner."""
    X, y = rows.X_labelled, rows.y_labelled
    X_unlabelled = rows.X_unlabelled
    new_by_round = _new_rows_by_round(plan, len(X_unlabelled), ledger)
    for relabelling, new in zip(plan.rounds, new_by_round, strict=True):
        sampled = ledger.subset(len(X), relabelling.sampled_labelled)
        X_sampled, y_sampled = X[sampled], y[sampled]
        # the labelled rows come first, as `relabel` requires
        X_new = X_unlabelled[new]
        X = np.concatenate([X_sampled, X_new])
        y = relabel(
            hypotheses,
            X,
            y_sampled,
            classes=rows.classes,
            epsilon=relabelling.epsilon,
            ledger=ledger,
        )
    sampled = ledger.subset(len(X), plan.base_rows)
    if plan.rounds:
        # amplification by subsampling holds for sets, but a base learner may depend on the order
        order = ledger.order(plan.base_rows)
        sampled = sampled[order]
    return X[sampled], y[sampled]


def _new_rows_by_round(plan: LabelBoostPlan, n_unlabelled: int, ledger: Ledger) -> list[Codes]:
    """Return the positions of the unlabelled rows sampled in each round.

    Sampling all rows together and dividing them in random order has the same distribution as
    sampling from blocks of a random order, one block of `n_new` rows for each round.
    """
    sizes = [relabelling.sampled_new for relabelling in plan.rounds]
    sampled = ledger.subset(n_unlabelled, sum(sizes))[ledger.order(sum(sizes))]
    return np.split(sampled, np.cumsum(sizes))[:-1]


def public_centre(learner: Any, X_public: Floats | None, bounds: Any) -> Floats:
    """Return the public point where one row of each label is added, shape (n_features,).

    In each column, the point is the centre of the bounds, the median of the public rows, or zero,
    whichever is available first. The point is independent of private rows.
    """
    centre = np.zeros(learner.n_features_in_) if X_public is None else column_medians(X_public)
    for column, (low, high) in parse_bounds(bounds, feature_names(learner)).items():
        centre[column] = low / 2 + high / 2  # low + high may overflow
    return centre


BASE_PROOF = "its own"

LABELER_STAGE = "labeler, drawn by its errors on the labelled rows"


def base_stage_name(base: object) -> str:
    """Return the name of the base learner's stage in the receipt."""
    return f"base learner {type(base).__name__}"


def receipt_assumptions(learner: Any) -> tuple[str, ...]:
    """Return the assumptions that the receipt of a `LabelBoostClassifier` states."""
    label_set = "" if learner.classes is not None else ", and the set of labels,"
    assumptions = [
        f"which rows are labelled{label_set} may be known",
        "the base learner is private with its given budget for all possible rows",
    ]
    if learner.release_labeler:
        assumptions.append("the two stages use disjoint rows, so their costs do not add up")
    elif learner.max_rows_per_group is not None:
        assumptions.append(
            "the costs of the stages apply to one row, the total applies to a person"
        )
    return (*assumptions, *assumptions_of_class(learner.hypotheses))


def record_stages(ledger: Ledger, plan: LabelBoostPlan, n_classes: int, base: object) -> None:
    """Record the stages of a fit in the receipt, each with the cost of all steps from it onwards.

    The costs are those for one row, and `ledger` is the ledger of the entire procedure.
    """
    base_epsilon, base_delta = exact_fraction(plan.base_epsilon), exact_fraction(plan.base_delta)
    costs = zip(
        plan.rounds,
        rounds_epsilon(plan.rounds, base_epsilon, n_classes),
        rounds_delta(plan.rounds, base_delta),
        strict=True,
    )
    for number, (relabelling, epsilons, delta) in enumerate(costs, start=1):
        event = mechanism_event(exact_fraction(max(epsilons)), delta)
        name = (
            f"round {number}, {relabelling.sampled_labelled} of {relabelling.n_labelled} labelled "
            f"and {relabelling.sampled_new} of {relabelling.n_new} unlabelled rows relabelled by a "
            f"draw at ε₀ = {float(relabelling.epsilon):g}, and all later steps"
        )
        ledger.annotate(name, event, RELABELLING_PROOF)
    ledger.annotate(base_stage_name(base), mechanism_event(base_epsilon, base_delta), BASE_PROOF)
