"""SubsamplingActiveLearner: Algorithm SubSampling of Beimel, Nissim and Stemmer (2015)."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import has_fit_parameter

from skpublicdp.accounting import REPLACE_ONE, Mechanism, PrivacyReceipt, exact_fraction
from skpublicdp.active.plan import make_plan
from skpublicdp.base_learner import DelegatesToBase, check_base, fit_base
from skpublicdp.mechanisms.randomness import random_bits
from skpublicdp.mechanisms.subsets import random_order
from skpublicdp.public import (
    check_rows,
    encode_labels,
    is_unlabelled,
    label_column,
)
from skpublicdp.semi_private import SemiPrivateClassifier


class SubsamplingActiveLearner(DelegatesToBase, ClassifierMixin, BaseEstimator):
    """Private classifier that asks for a few labels in a large pool of private rows.

    `query` draws the rows whose labels are wanted, `fit` takes the labels and runs a private base
    learner on a secret random part of the pool. Because nobody knows who is in that part, the base
    learner may use a larger budget than `epsilon`: the larger the pool, the fewer labels are
    needed. This is Algorithm 4 (SubSampling) of [1]_; Claim 5.7 there, sharpened, is its privacy.

    Parameters
    ----------
    estimator : classifier, default=None
        Base learner: any private classifier with a parameter `epsilon`; ``None`` means
        `SemiPrivateClassifier()`. If its `fit` takes `is_labelled` it is semi-supervised and gets
        unlabelled rows too, marked by -1 and by that mask. Any other one gets the rows asked for.
    n_labels : int, default=100
        How many labels to ask for; the whole pool where it is smaller.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy budget of one `query` and `fit`: ε > 0, read as an exact fraction, and δ in [0, 1).
    base_epsilon : float or "auto", default="auto"
        Budget of the base learner. ``"auto"`` is the largest one allowed on the rows it gets.
    n_subsample : int, default=None
        How many rows, labelled or not, a semi-supervised base learner gets; all where the pool is
        smaller. By default as many as allow the base learner `base_epsilon`, or with ``"auto"`` an
        ε of 1 (of `epsilon` where that is more), but not fewer than are labelled. Other base
        learners get the rows asked for.
    roles : {"random", "paper"}, default="random"
        Which of those rows are asked for: a uniform choice, or as in the paper those that come
        first in the pool, at a higher price.
    transcript_private : bool, default=False
        Whether the guarantee has to hold against those who know which rows were asked for. The
        base learner then gets `epsilon` and no more, and by default all unlabelled rows.
    classes : array-like, default=None
        All possible labels. By default those that occur in `y` where it is read, whose set is then
        taken to be public knowledge.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so.

    Attributes
    ----------
    estimator_ : classifier
        The fitted base learner.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    queried_indices_ : ndarray of int
        Rows to be labelled, increasing. `fit` deletes it: who is told it must be trusted like the
        owner of the pool. With `transcript_private` it stays.
    privacy_ : PrivacyReceipt
        What was spent, and which definition of an active learner's privacy holds.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    See Also
    --------
    SemiPrivateClassifier : The default base learner.
    skpublicdp.guarantees.n_subsampling : Pool size that a base learner's budget needs.

    Notes
    -----
    Neighbouring data sets differ by replacing one row of the pool, features and label, where every
    row is thought to have a label (Definition 5.3 of [1]_). The size of the pool and the number of
    labels are not protected. Between `query` and `fit` the object holds the rows asked for and is
    itself a secret; afterwards nothing that depends on private rows is stored save `estimator_`.

    The default number of rows is that of Theorem 5.8: at ε = 1 for the base learner the number of
    labels it needs is free of `epsilon`. Fewer rows allow the base learner more, by the logarithm
    only, and more rows take from the labelled ones, which are the scarce ones. A base learner that
    has no use for unlabelled rows is best served by the rows asked for and nothing else.

    The rows are handed over in a random order, labelled ones first, so a base learner may be
    private over sequences of rows or over sets of them. It must be private whatever the rows are:
    it may not fail for some of them. One with a parameter `classes` is told the labels; another one
    gets one more row for each label, all at the median of `X_public` or at zero.

    References
    ----------
    .. [1] A. Beimel, K. Nissim and U. Stemmer (2015). Learning privately with labeled and
       unlabeled examples. SODA. Definitions 5.3 and 5.4, Theorems 5.5 and 5.8, Claim 5.7.
    .. [2] B. Balle, G. Barthe and M. Gaboardi (2018). Privacy amplification by subsampling.
       NeurIPS. Theorem 9.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.active import SubsamplingActiveLearner
    >>> from skpublicdp.hypotheses import Thresholds
    >>> rng = np.random.default_rng(0)
    >>> pool = rng.normal(size=(20_000, 1))
    >>> learner = SubsamplingActiveLearner(
    ...     SemiPrivateClassifier(Thresholds()), n_labels=100, epsilon=0.1, random_state=0
    ... )
    >>> asked = learner.query(pool)
    >>> y = np.full(len(pool), -1)
    >>> y[asked] = pool[asked, 0] > 0.5  # somebody labels these rows
    >>> learner = learner.fit(pool, y, X_public=rng.normal(size=(300, 1)))
    >>> learner.score(pool, pool[:, 0] > 0.5) > 0.9
    True
    >>> learner.privacy_.epsilon, round(learner.privacy_.mechanisms[0].epsilon, 2)
    (0.1, 3.09)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_labels": [Interval(Integral, 1, None, closed="left")],
        "epsilon": [Interval(Real, 0, 1 << 20, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "base_epsilon": [StrOptions({"auto"}), Interval(Real, 0, 1 << 20, closed="right")],
        "n_subsample": [Interval(Integral, 1, None, closed="left"), None],
        "roles": [StrOptions({"random", "paper"})],
        "transcript_private": ["boolean"],
        "classes": ["array-like", None],
        "random_state": ["random_state", np.random.Generator],
    }

    # public rows are routed without being asked for: there is nothing else they could be meant for
    __metadata_request__fit = {"X_public": True, "y_public": True}  # noqa: RUF012

    def __init__(
        self,
        estimator=None,
        *,
        n_labels=100,
        epsilon=1.0,
        delta=0.0,
        base_epsilon="auto",
        n_subsample=None,
        roles="random",
        transcript_private=False,
        classes=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.n_labels = n_labels
        self.epsilon = epsilon
        self.delta = delta
        self.base_epsilon = base_epsilon
        self.n_subsample = n_subsample
        self.roles = roles
        self.transcript_private = transcript_private
        self.classes = classes
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def query(self, X, y=None):
        """Draw the rows whose labels are wanted.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            The pool. Nothing but its size decides.
        y : Ignored
            Not used; here by convention.

        Returns
        -------
        ndarray of int, shape (n_labels,)
            Positions in `X`, increasing; a secret unless `transcript_private`.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        """
        X = check_rows(self, X, reset=True)
        plan = self._plan(len(X))
        self.queried_indices_ = plan.ask(random_bits(self.random_state))
        self._pending = plan
        return self.queried_indices_.copy()

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, X_public=None, y_public=None):
        """Learn from the labels that `query` asked for.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            The pool, all private, in the order that `query` had it.
        y : array-like, shape (n,)
            Labels of the rows asked for; any value, such as -1, elsewhere. Without `query`, which
            `fit` then does itself, the labels of all rows: those not asked for are not used.
        X_public : array-like of float, shape (m, n_features), optional
            Public rows, handed on to a base learner that takes them.
        y_public : array-like, shape (m,), optional
            Their labels, likewise.

        Returns
        -------
        self : SubsamplingActiveLearner
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        """
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        X = check_rows(self, X, reset=True)
        check_consistent_length(X, y)
        public = self._public_rows(X_public, len(X))
        bits = random_bits(self.random_state)
        plan = self._plan(len(X))
        # drawn anyhow: with a seed, the same rows as in query, and what follows does not repeat it
        asked = plan.ask(bits)
        pending = getattr(self, "_pending", None)
        if pending is not None:
            if pending != plan:
                raise ValueError(
                    f"fit must get the {pending.pool} rows and the parameters that query had; got "
                    f"{plan.pool} rows and perhaps other parameters: call query again."
                )
            asked = self.queried_indices_
            # a label that was not asked for must not even choose the type of the others
            codes, classes = self._read_labels(label_column(_safe_indexing(y, asked)))
        else:
            codes, classes = self._read_labels(label_column(y))
            codes = codes[asked]

        others = np.delete(np.arange(len(X)), asked)[plan.rest(asked, bits)]
        order, others = random_order(len(asked), bits), others[random_order(len(others), bits)]
        rows = X[asked[order]], classes[codes[order]], X[others]
        self.estimator_ = self._fit_base(plan, rows, classes, public, y_public, bits)
        self.classes_ = classes
        self.privacy_ = self._receipt(plan, pending is not None, public, bits.secure)
        # with the rows asked for in sight, the smaller epsilon would not hold
        self.__dict__.pop("_pending", None)
        self.__dict__.pop("queried_indices_", None)
        if self.transcript_private:
            self.queried_indices_ = asked
        return self

    def _base(self):
        return SemiPrivateClassifier() if self.estimator is None else self.estimator

    def _plan(self, pool):
        estimator = self._base()
        check_base(estimator)
        return make_plan(
            pool,
            n_labels=self.n_labels,
            epsilon=exact_fraction(self.epsilon),
            delta=exact_fraction(self.delta),
            base=None if self.base_epsilon == "auto" else exact_fraction(self.base_epsilon),
            n_subsample=self.n_subsample,
            roles=self.roles,
            transcript_private=self.transcript_private,
            semi_supervised=has_fit_parameter(estimator, "is_labelled"),
        )

    def _read_labels(self, y):
        """Return (codes, classes) of rows that all have a label."""
        codes, _, _, classes = encode_labels(y, [y[:0]], self.classes)
        # -1 among more labels than two is the mark of a row without one, as in the other learners
        if self.classes is None and len(classes) != 2 and is_unlabelled(classes).any():
            raise ValueError(
                "y must hold a label in every row that query asked for, or in all rows without "
                "query; list -1 in classes if it is a label."
            )
        return codes, classes

    def _fit_base(self, plan, rows, classes, public, y_public, bits):
        X, y, X_other = rows
        base = self._base()
        if "classes" not in base.get_params(deep=False):
            # rows that nobody gave: else it would tell by what it knows which labels were drawn
            centre = np.zeros(X.shape[1]) if public is None else np.median(public, axis=0)
            X, y = np.vstack([X, np.tile(centre, (len(classes), 1))]), np.append(y, classes)
        return fit_base(
            base,
            plan.base_epsilon,
            np.vstack([X, X_other]),
            np.concatenate([y, _marks(len(X_other), classes)]),
            delta=plan.base_delta,
            random_state=None if bits.secure else bits.bits(31),
            classes=classes,
            is_labelled=np.arange(len(X) + len(X_other)) < len(X),
            X_public=public,
            y_public=y_public,
        )

    def _receipt(self, plan, queried, public, secure):
        name, settings = type(self.estimator_).__name__, self.estimator_.get_params(deep=False)
        base = f"ε = {plan.base_epsilon:.4g}, δ = {plan.base_delta:.4g}"
        assumptions = [
            f"{name} is ({base})-differentially private, as it was asked to be",
            "the numbers of rows, of labels and of rows drawn may be known",
        ]
        if self.classes is None:
            where = "in the rows asked for" if queried else "in y"
            assumptions.append(f"the set of labels {where} may be known")
        if self.transcript_private:
            assumptions.append(
                "who was asked for may be known: it is part of the output (Definition 5.4 and "
                "Theorem 5.5 of Beimel, Nissim and Stemmer 2015)"
            )
        else:
            assumptions.append(
                "who was asked for and who was drawn stay secret (Definition 5.3 of Beimel, Nissim "
                f"and Stemmer 2015); for those who know it, and gave labels, it is {base}"
            )
        of_base = getattr(self.estimator_, "privacy_", None)
        return PrivacyReceipt(
            epsilon=plan.epsilon,
            delta=plan.delta,
            unit=REPLACE_ONE,
            n_private=plan.pool,
            n_public=0 if public is None else len(public),
            mechanisms=(
                Mechanism(
                    f"{name} on {plan.drawn} rows drawn from {plan.pool}, {plan.asked} labelled",
                    plan.base_epsilon,
                    plan.base_delta,
                    "Balle, Barthe and Gaboardi (2018), Theorem 9; docs/proofs/subsampling.md",
                ),
            ),
            secure_randomness=secure
            and getattr(of_base, "secure_randomness", settings.get("random_state") is None),
            assumptions=tuple(assumptions),
        )


def _marks(n, classes):
    """Return labels of the kind of `classes` for rows without one; no base learner reads them."""
    mark = {"b": False, "U": "-1", "O": "-1"}.get(classes.dtype.kind, -1)
    return np.full(n, mark, dtype=object if classes.dtype.kind == "O" else None)
