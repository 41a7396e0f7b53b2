"""What a fitted learner promises in the population; the proof is docs/proofs/guarantees.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skpublicdp.data.description import assumed_of
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.guarantees import (
    Cuts,
    Promise,
    cover_radius,
    cuts_radius,
    dichotomies_radius,
    sampling_error,
    uniform_error,
    vc_dimension,
)
from skpublicdp.hypotheses import Cover, FiniteClass, Union
from skpublicdp.hypotheses.splits import stump_growth
from skpublicdp.rounds import Drawn

NO_PUBLIC = "there are no public rows, so the cover comes from a grid that looks at no data"
DESCRIBED = "the public rows were written from a description, which is no sample of the population"
MADE_UP = "values of public rows were spread over what bounds or types say, which is no sample"
PERSONS = "a person may have several rows, which are not independent"
ROUNDS = "each draw after the first is from a cover that earlier draws chose"
UNKNOWN = "how near the cover comes to every rule of the class is not known"
STEPS = "steps before the learner were fitted to the public rows, which are then not independent"
CHOSEN = "the same rows chose among the candidates before"
ADDED = "the base learner was given rows of its own for labels that might not occur"
NO_LAW = "no theorem bounds the error of this learner in the population"


def nothing(why: str) -> Promise:
    """Promise nothing, and say why."""
    return Promise(None, f"Nothing is proved: {why}.")


def assuming(promised: Promise, hypotheses: Any) -> Promise:
    """Add to the reason that the VC dimension of a finite class was declared, if it was."""
    classes = hypotheses.classes if isinstance(hypotheses, Union) else [hypotheses]
    finite = [one for one in classes if isinstance(one, FiniteClass)]
    declared = [int(one.vc_dimension) for one in finite if one.vc_dimension is not None]
    if promised.bound is None or not declared:
        return promised
    condition = f", if the VC dimension of FiniteClass is at most {max(declared)}, as declared."
    return Promise(promised.bound, promised.reason.removesuffix(".") + condition)


def doubt_of(X_public: Any, *, several: bool) -> str:
    """Return what is in the way of any promise, or nothing, if persons may have several rows."""
    if several:
        return PERSONS
    return DESCRIBED if assumed_of(X_public) else ""


def warn_if_empty(promise: Promise, n_private: int, n_public: int, epsilon: float) -> None:
    """Warn where a promise is 1, which is none; all of that is public."""
    if promise.bound is not None and promise.bound >= 1:
        warn(
            f"guarantee_ is 1, so nothing is promised for {n_private} private and {n_public} "
            f"public rows at ε = {epsilon:g}; guarantee_reason_ has its parts: give more rows, or "
            "rules from a smaller class.",
            TooFewRowsWarning,
        )


def cover_error(
    cover: Cover, hypotheses: Any, n_features: int, n_classes: int, m: int, beta: float
) -> float | None:
    """Bound the share of the population on which a rule and the nearest member disagree.

    Parameters
    ----------
    cover : Cover
        The cover.
    hypotheses : HypothesisClass
        What it covers.
    n_features, n_classes : int
        Columns and labels.
    m : int
        Public rows that the cover was built on, drawn independently.
    beta : float
        Probability with which the bound may fail.

    Returns
    -------
    float or None
        None where no bound is known.
    """
    if cover.cuts is not None:
        return _cut_error(cover.cuts, m, beta)
    # growth functions are those of two labels
    if cover.radius is None or n_classes > 2 or not hasattr(hypotheses, "growth"):
        return None
    if cover.radius == 0:
        return dichotomies_radius(m, beta / 2, hypotheses.growth(2 * m, n_features))
    d = max(vc_dimension(hypotheses, n_features), 1)
    return cover_radius(m, d, beta / 2, cover.radius)


def _cut_error(cuts: Cuts, m: int, beta: float) -> float:
    if not cuts.per_rule:
        return 0.0
    # a third for each of the three bounds, of which the public rows say which are needed
    missed = cuts.allowed if cuts.missed else 0
    error = cuts_radius(m, beta / 3, cuts.per_rule, columns=cuts.columns, missed=missed)
    if cuts.merged:
        pairs = dichotomies_radius(m, beta / 3, stump_growth(2 * m, cuts.columns))
        error += cuts.per_rule * pairs
    return min(error, 1.0)


def promise(
    cover: Cover,
    drawn: Drawn,
    near: Callable[[float], float | None],
    *,
    n: int,
    beta: float,
    public_weight: int = 0,
    n_labelled: int = 0,
    growth: int | None = None,
) -> Promise:
    """Add up what the cover, sampling and the draw may cost in the population.

    Parameters
    ----------
    cover : Cover
        The first cover.
    drawn : Drawn
        What was drawn.
    near : callable
        ``near(beta)`` bounds how far any rule of the class is from the nearest member, or is None.
    n : int
        Private rows scored, drawn independently of the cover.
    beta : float
        Probability with which the promise may fail.
    public_weight, n_labelled : int
        Weight and number of the labelled public rows in the score.
    growth : int, optional
        In how many ways the class labels twice as many rows, for two labels.

    Returns
    -------
    Promise
        The promise.
    """
    if drawn.cover is not cover:
        return nothing(ROUNDS)
    exact = cover.cuts is not None and not cover.cuts.per_rule
    left = beta if exact else beta / 2
    radius = 0.0 if exact else near(beta / 2)
    if radius is None:
        return nothing(UNKNOWN)
    draw = drawn.certificate.at(left / 4)
    public = public_weight * n_labelled
    if not public:
        sampling = sampling_error(n, 3 * left / 4, cover.size)
    else:
        # they chose the cover, so only what holds for the whole class is true of their errors
        error = 1.0 if growth is None else 2 * uniform_error(n_labelled, left / 8, growth)
        private = sampling_error(n, left / 2, cover.size)
        sampling = (n * private + public * min(error, 1.0)) / (n + public)
    bound = radius + sampling + draw
    reason = (
        f"With probability {1 - beta:g} over all rows and the draw, if rows are independent and "
        f"of one population: at most {radius:.3g} for the cover, {sampling:.3g} for sampling and "
        f"{draw:.3g} for the draw"
    )
    return Promise(
        min(bound, 1.0),
        f"{reason}." if bound < 1 else f"{reason}, which for so few rows promises nothing.",
    )


def inherited(base: Any, beta: float | None = None) -> Promise:
    """Return what a fitted base learner promises, whose rows are independent as the user's are.

    Parameters
    ----------
    base : classifier
        The fitted base learner.
    beta : float, optional
        Probability with which the promise may fail; its own by default.

    Returns
    -------
    Promise
        Its promise, or nothing where it makes none or one that may fail more often.
    """
    name = type(base).__name__
    if not hasattr(base, "guarantee_reason_"):
        return nothing(f"{name} promises nothing of the population")
    own = getattr(base, "beta", None)
    if base.guarantee_ is not None and beta is not None and not (own and own <= beta):
        return nothing(
            f"what {name} promises may fail more often than its part of beta; set its beta to "
            f"{beta:g} or less"
        )
    return Promise(base.guarantee_, base.guarantee_reason_)
