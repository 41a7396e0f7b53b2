"""reduce_public_data: a reduction from private to semi-private learning, for lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted, check_random_state

from skpublicdp.data.batch_predict import ScoreMixin

Dummy = Callable[[int, Any], Any]


def reduce_public_data(
    learner: Any,
    dummy: Dummy,
    *,
    n_private: int,
    n_public: int,
    labelled: bool = False,
    random_state: Any = None,
) -> ReducedLearner:
    """Return a private learner without public rows that is built from a semi-private learner.

    If the semi-private learner were accurate with few public rows, the private learner would also
    be accurate. However, there is no accurate private learner of thresholds. Therefore, the number
    of public rows that a semi-private learner of thresholds requires is at least of order 1/alpha.

    Parameters
    ----------
    learner : classifier
        Classifier whose `fit` has a parameter `X_public`, and `y_public` if `labelled`.
    dummy : callable
        Function that accepts a number of rows and a RandomState and returns features of dummy rows,
        shape (n, n_features): D0 of the paper. The labels of dummy rows are fair coin tosses.
    n_private : int
        Number of private rows that `learner` receives, including real rows and dummies.
    n_public : int
        Number of public rows that `learner` receives, all of which are dummies.
    labelled : bool, default=False
        Whether the public dummies have labels (Remark 1 of the paper).
    random_state : int, RandomState or None, default=None
        Determines the positions of the real rows. Privacy holds for any value.

    Returns
    -------
    ReducedLearner
        A classifier with methods `fit(X, y)` and `predict`.

    Raises
    ------
    ValueError
        If a number of rows is below one.

    See Also
    --------
    skpublicdp.guarantees.n_public_lower : The resulting lower bound on the number of public rows.

    References
    ----------
    Alon, Bassily and Moran (2019), Algorithms 2, 3 and 4; Lemma 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.audit import reduce_public_data
    >>> from skpublicdp.hypotheses import Thresholds
    >>> def dummies(n, generator):
    ...     return generator.random((n, 1))
    >>> X = np.random.default_rng(0).random((2000, 1)) + 1  # right of all dummies
    >>> y = (X[:, 0] > 1.5).astype(int)
    >>> learner = SemiPrivateClassifier(Thresholds(), classes=(0, 1), random_state=0)
    >>> private = reduce_public_data(
    ...     learner, dummies, n_private=20_000, n_public=20, random_state=0
    ... )
    >>> private.fit(X, y).score(X, y) < 0.6  # dummies do not suggest a threshold
    True
    """
    for name, value in (("n_private", n_private), ("n_public", n_public)):
        if not value >= 1:
            raise ValueError(f"{name} must be at least 1; got {value!r}.")
    return ReducedLearner(
        learner,
        dummy,
        n_private=n_private,
        n_public=n_public,
        labelled=labelled,
        random_state=random_state,
    )


class ReducedLearner(ScoreMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """The private learner B of Alon, Bassily and Moran (2019), Algorithm 2.

    Parameters
    ----------
    learner, dummy, n_private, n_public, labelled, random_state
        Parameters as in `reduce_public_data`.

    Attributes
    ----------
    learner_ : classifier
        The fitted semi-private learner.
    classes_ : ndarray of shape (2,)
        The sorted labels.
    """

    def __init__(
        self,
        learner: Any,
        dummy: Dummy,
        *,
        n_private: int,
        n_public: int,
        labelled: bool = False,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.dummy = dummy
        self.n_private = n_private
        self.n_public = n_public
        self.labelled = labelled
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the learner to real rows mixed with dummies, using dummies as public rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Private rows. Each row is used at most once, so the result is as private as the learner
            (Claim 4.5). With ``n_private / (10 n_public)`` rows, as in the paper, the probability
            of running out of rows is below 0.01.
        y : array-like of shape (n,)
            Labels, with two distinct values unless the learner has a parameter `classes`.

        Raises
        ------
        ValueError
            If the number of distinct labels is not two.
        """
        X, y = np.asarray(X), np.asarray(y)
        classes = getattr(self.learner, "classes", None)
        labels = np.unique(y if classes is None else np.asarray(classes))
        if len(labels) != 2:
            raise ValueError(
                f"The learner must have two distinct labels; got {len(labels)}. Set its parameter "
                "classes."
            )
        generator = check_random_state(self.random_state)
        p_real = 1 / (100 * self.n_public)  # Algorithm 2, step 2
        is_real = _mark_real_rows(self.n_private, len(X), p_real, generator)
        X_private, y_private = self._dummies(len(is_real), labels, generator)
        n_real = int(is_real.sum())
        X_private[is_real], y_private[is_real] = X[:n_real], y[:n_real]  # Algorithm 3, 5 and 8
        X_public, y_public = self._dummies(self.n_public, labels, generator)  # Algorithm 4
        public = {"X_public": X_public}
        if self.labelled:
            public["y_public"] = y_public
        self.learner_ = clone(self.learner).fit(X_private, y_private, **public)
        self.classes_ = labels
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels."""
        check_is_fitted(self)
        return self.learner_.predict(X)

    def _dummies(
        self, n: int, labels: NDArray[Any], generator: Any
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return n dummy rows, shape (n, n_features), and fair coin tosses as their labels."""
        X = np.array(self.dummy(n, generator), dtype=np.float64)
        return X, labels[generator.randint(2, size=n)]


def _mark_real_rows(n: int, n_real: int, p_real: float, generator: Any) -> NDArray[np.bool_]:
    """Return a mask that marks the real rows, as opposed to dummies, of a sample.

    Each row is real with probability `p_real`. The sample ends once the available real rows are
    used up (Algorithm 3, step 2), so the mask has at most n entries.
    """
    is_real: NDArray[np.bool_] = generator.random_sample(n) < p_real
    n_used = np.cumsum(is_real)
    if n_used[-1] < n_real:
        return is_real
    last = int(np.searchsorted(n_used, n_real))
    return is_real[: last + 1]
