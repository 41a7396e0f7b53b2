"""Bounds on the excess population error of fitted learners (docs/proofs/guarantees.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from skpublicdp.data.public_rows import public_data_assumptions
from skpublicdp.exceptions import TooFewRowsWarning, is_in_search, warn
from skpublicdp.guarantees import (
    Cuts,
    Promise,
    cover_radius,
    cuts_radius,
    dichotomies_radius,
    finite_excess,
    sampling_error,
    uniform_error,
    vc_dimension,
)
from skpublicdp.guarantees.population import capped_guarantee
from skpublicdp.hypotheses import Cover, FiniteClass, Union
from skpublicdp.hypotheses.splits import stump_growth
from skpublicdp.rules.cover_search import DrawnRule

NO_PUBLIC_ROWS = "there are no public rows, so the cover is a fixed grid"
WRITTEN_FROM_DESCRIPTION = (
    "the public rows were created from a description and are not a sample of the population"
)
SYNTHETIC_VALUES = (
    "some values of the public rows were filled in from bounds or types and are not a sample of "
    "the population"
)
DEPENDENT_ROWS = "a person may have several rows, which are not independent"
ADAPTIVE_COVER = "every draw after the first uses a cover that depends on earlier draws"
LABELS_UNDER_SHIFT = "labelled public rows are scored, but their population differs (smoothness)"
UNKNOWN_COVER_RADIUS = "the radius of the cover is not known"
FITTED_STEPS = (
    "earlier steps of the pipeline were fitted to the public rows, which makes these rows dependent"
)
PRIOR_SELECTION = "the same rows were already used to choose among the candidates"
ADDED_ROWS = "rows for labels that might not occur were added to the rows of the base learner"
NO_THEOREM = "no theorem bounds the error of this learner in the population"
"""Reasons for a missing bound; each completes the sentence "No error bound is proved: ..."."""


_UNPROVED = "No error bound is proved: "


def no_guarantee(why: str) -> Promise:
    """Return a `Promise` without a bound; `why` completes "No error bound is proved: ..."."""
    return Promise(None, f"{_UNPROVED}{why}.")


def why_unproved(guarantee: Promise) -> str:
    """Return the reason that was passed to `no_guarantee`."""
    return guarantee.reason.removeprefix(_UNPROVED).removesuffix(".")


def with_class_assumptions(guarantee: Promise, hypotheses: Any) -> Promise:
    """Return a guarantee whose reason states the declared VC dimension of a `FiniteClass`, if any.

    The bound assumes that the declared VC dimension is correct, since it is not checked. A
    guarantee without a bound or without a declared dimension is returned unchanged.
    """
    classes = hypotheses.classes if isinstance(hypotheses, Union) else [hypotheses]
    finite_classes = [member for member in classes if isinstance(member, FiniteClass)]
    declared = [
        int(finite.vc_dimension) for finite in finite_classes if finite.vc_dimension is not None
    ]
    if guarantee.bound is None or not declared:
        return guarantee
    condition = f", if the VC dimension of FiniteClass is at most {max(declared)}, as declared."
    return Promise(guarantee.bound, guarantee.reason.removesuffix(".") + condition)


def why_no_guarantee(X_public: Any, *, several: bool) -> str:
    """Return the reason why the rows of a fit do not permit a population bound, or "" if they do.

    `several` indicates whether a person may have several rows, which are then dependent.
    """
    if several:
        return DEPENDENT_ROWS
    return WRITTEN_FROM_DESCRIPTION if public_data_assumptions(X_public) else ""


def warn_if_vacuous(guarantee: Promise, n_private: int, n_public: int, epsilon: float) -> None:
    """Warn if the bound on the excess error is 1, which is vacuous.

    The warning text depends on public numbers only. In a search of scikit-learn, nobody reads the
    bounds of the candidates.
    """
    if guarantee.bound is not None and guarantee.bound >= 1 and not is_in_search():
        warn(
            f"No accuracy bound holds for {n_private} private and {n_public} public rows at ε = "
            f"{epsilon:g}. Privacy is unaffected, and guarantee_reason_ lists the terms of the "
            "bound. Use more rows or a smaller hypothesis class.",
            TooFewRowsWarning,
        )


def cover_error(
    cover: Cover,
    hypotheses: Any,
    n_features: int,
    n_classes: int,
    m: int,
    beta: float,
    *,
    fixed_rule: bool = False,
) -> float | None:
    """Return an upper bound on the distance from any rule of a class to the nearest cover member.

    The distance between two rules is the probability that they predict different labels. With
    `fixed_rule`, the bound is for a single rule of the class, which does not depend on any row.
    """
    if cover.cuts is not None:
        return _cut_error(cover.cuts, m, beta, fixed_rule=fixed_rule)
    # the growth functions count the labellings with two labels
    if cover.radius is None or n_classes > 2 or not hasattr(hypotheses, "growth"):
        return None
    if cover.radius == 0:
        growth = hypotheses.growth(2 * m, n_features)
        return dichotomies_radius(m, beta / 2, growth, fixed_rule=fixed_rule)
    d = max(vc_dimension(hypotheses, n_features), 1)
    return cover_radius(m, d, beta / 2, cover.radius)


def _cut_error(cuts: Cuts, m: int, beta: float, *, fixed_rule: bool) -> float:
    """Return the `cover_error` bound for a cover whose thresholds are values of public rows."""
    if not cuts.per_rule:
        return 0.0
    # Three events share beta: a threshold in every gap, thresholds that skip values, and merged
    # columns. Each share is beta / 3 even if fewer events apply, since the public rows determine
    # the applicable events.
    max_skipped = cuts.allowed if cuts.missed else 0
    error = cuts_radius(
        m,
        beta / 3,
        cuts.per_rule,
        columns=cuts.columns,
        missed=max_skipped,
        fixed_rule=fixed_rule,
    )
    if cuts.merged:
        stump_error = dichotomies_radius(m, beta / 3, stump_growth(2 * m, cuts.columns))
        error += cuts.per_rule * stump_error
    return min(error, 1.0)


def excess_error_guarantee(
    cover: Cover,
    drawn: DrawnRule,
    radius_at: Callable[[float], float | None],
    *,
    n: int,
    beta: float,
    public_weight: int = 0,
    n_labelled: int = 0,
    growth: int | None = None,
    hypotheses: Any = None,
    best_error: float | None = None,
    epsilon: float = math.inf,
    smoothness: float = 1.0,
) -> Promise:
    """Return the guarantee of a drawn rule: the sum of cover radius, sampling error and draw error.

    Parameters
    ----------
    cover : Cover
        The initial cover of the search.
    drawn : DrawnRule
        The result of `search_cover`.
    radius_at : callable
        ``radius_at(beta)`` returns an upper bound on the distance from any rule of the class to the
        nearest member of the cover. The bound holds with probability 1 - beta. ``None`` if no bound
        is known.
    n : int
        Number of scored private rows, which are drawn independently of the cover.
    beta : float
        Probability with which the bound may fail.
    public_weight, n_labelled : int
        Weight and number of the labelled public rows in the score.
    growth : int, optional
        Growth function of the class for two labels, evaluated at 2 n_labelled rows.
    hypotheses : HypothesisClass, optional
        The hypothesis class. If the bound uses a declared VC dimension, the reason states this.
    best_error : float, optional
        Assumed bound on the population error of the best rule. Only used without labelled public
        rows, since the small-error bound is for independent rows.
    epsilon : float
        Privacy budget of the draw, for `best_error`.
    smoothness : float
        Assumed σ: the density of the private rows is at most 1/σ times that of the public rows.
    """
    if drawn.cover is not cover:
        return no_guarantee(ADAPTIVE_COVER)
    is_exact = is_whole_class(cover)  # its radius is 0, and needs no share of beta
    remaining_beta = beta if is_exact else beta / 2
    radius = 0.0 if is_exact else radius_at(beta / 2)
    if radius is None:
        return no_guarantee(UNKNOWN_COVER_RADIUS)
    total_public_weight = public_weight * n_labelled
    if smoothness < 1 and total_public_weight:
        return no_guarantee(LABELS_UNDER_SHIFT)
    radius = min(1.0, radius / smoothness)
    population = "one population"
    if smoothness < 1:
        population = (
            f"two populations, where the density of private rows is at most {1 / smoothness:.3g} "
            "times that of public rows, as smoothness declares"
        )
    if best_error is not None and not total_public_weight:
        size = drawn.certificate.effective_size
        guarantee = _small_error_guarantee(
            population, best_error, radius, n, beta, remaining_beta, epsilon=epsilon, size=size
        )
        return with_class_assumptions(guarantee, hypotheses) if cover.cuts is None else guarantee
    draw_error = drawn.certificate.at(remaining_beta / 4)
    if total_public_weight:
        # the public rows determined the cover, so their errors require uniform convergence over
        # the class
        public_error = (
            1.0 if growth is None else 2 * uniform_error(n_labelled, remaining_beta / 8, growth)
        )
        private_error = sampling_error(n, remaining_beta / 2, cover.size)
        # the score is a weighted mean over public and private rows, and so is the bound on its
        # error
        total_error = n * private_error + total_public_weight * min(public_error, 1.0)
        mean_sampling_error = total_error / (n + total_public_weight)
    else:
        mean_sampling_error = sampling_error(n, 3 * remaining_beta / 4, cover.size)
    reason = (
        f"With probability {1 - beta:g} over all rows and the draw, if the rows are independent "
        f"draws from {population}, the excess error is at most {radius:.3g} for the cover, plus "
        f"{mean_sampling_error:.3g} for sampling and {draw_error:.3g} for the draw"
    )
    guarantee = capped_guarantee(radius + mean_sampling_error + draw_error, reason)
    uses_vc_dimension = growth is not None or cover.cuts is None
    return with_class_assumptions(guarantee, hypotheses) if uses_vc_dimension else guarantee


def _small_error_guarantee(
    population: str,
    best_error: float,
    radius: float,
    n: int,
    beta: float,
    remaining_beta: float,
    *,
    epsilon: float,
    size: int,
) -> Promise:
    """Return the bound on the error minus `best_error`, if some rule has at most this error.

    The parameter `remaining_beta` is the part of `beta` for sampling and the draw.
    """
    cover_best_error = best_error + radius
    excess = 1.0
    if cover_best_error < 1:
        excess = finite_excess(n, remaining_beta, epsilon, size, best_error=cover_best_error)
    reason = (
        f"With probability {1 - beta:g} over all rows and the draw, if the rows are independent "
        f"draws from {population}, and some rule of the class has an error of at most "
        f"{best_error:g}, as best_error declares, the error is at most {best_error:g} plus "
        f"{radius:.3g} for the cover and {excess:.3g} for sampling and the draw"
    )
    return capped_guarantee(radius + excess, reason)


def is_whole_class(cover: Cover) -> bool:
    """Return whether the cover contains every rule of the class, as for a `FiniteClass`."""
    return cover.cuts is not None and not cover.cuts.per_rule


def base_learner_guarantee(base: Any, beta: float | None = None) -> Promise:
    """Return the guarantee that a fitted base learner states about its population error."""
    name = type(base).__name__
    if not hasattr(base, "guarantee_reason_"):
        return no_guarantee(f"{name} does not state a bound on its error in the population")
    for declared, default in (("best_error", None), ("smoothness", 1.0)):
        if beta is not None and getattr(base, declared, default) != default:
            return no_guarantee(
                f"the bound of {name} relies on {declared}, which was not declared for these rows"
            )
    base_beta = getattr(base, "beta", None)
    is_too_weak = beta is not None and (not base_beta or base_beta > beta)
    if base.guarantee_ is not None and is_too_weak:
        return no_guarantee(
            f"the bound of {name} may fail with a probability above {beta:g}, its share of beta; "
            f"set its beta to {beta:g} or less"
        )
    return Promise(base.guarantee_, base.guarantee_reason_)
