"""Cross-validation splitters that train on public rows and test on labelled private rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from skpublicdp.data.labels import is_unlabelled, label_column
from skpublicdp.data.roles import check_index, check_mask, is_missing_person
from skpublicdp.data.tables import count_rows

RowIndices = NDArray[np.intp]


class _PublicTrainingSplitter(BaseCrossValidator):
    """Base class of splitters that test on labelled private rows and train on all other rows."""

    # metadata routing passes the masks without a request, since they have no other use
    __metadata_request__split = {  # noqa: RUF012
        "groups": True,
        "is_public": True,
        "is_labelled": True,
    }

    n_splits: int
    random_state: Any
    is_public: Any

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **masks: Any) -> int:
        """Return the number of splits. All arguments are ignored.

        Returns
        -------
        int
            `n_splits`.
        """
        return int(self.n_splits)

    def split(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        is_public: Any = None,
        is_labelled: Any = None,
    ) -> Iterator[tuple[RowIndices, RowIndices]]:
        """Yield the row indices of the training set and the test set of each split.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows; only their number is used.
        y : array-like, shape (n,), optional
            Labels. The folds do not depend on the labels; see Raises.
        groups : array-like, shape (n,), optional
            Person identifier of each row. All private rows of a person are in the same test set.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows, which are in the training set of every split.
        is_labelled : array-like of bool, shape (n,), optional
            Marks the labelled rows. All other rows are in the training set of every split.

        Yields
        ------
        train, test : ndarray of intp
            Row indices in increasing order.

        Raises
        ------
        ValueError
            If there are too few testable rows, if `y` contains -1 and other labels but no mask is
            given, or if the index of a pandas mask differs from the index of a DataFrame `X`.
        """
        self._check()
        n = count_rows(X) or 0
        public_mask = self.is_public if is_public is None else is_public
        if public_mask is None and is_labelled is None and y is not None:
            _check_no_unlabelled_rows(type(self).__name__, y)
        check_index(X, is_public=public_mask, is_labelled=is_labelled, groups=groups)
        is_tested = ~check_mask(public_mask, n)
        if is_labelled is not None:
            is_tested &= check_mask(is_labelled, n, name="is_labelled")
        rows = np.flatnonzero(is_tested)
        for test_indices in self._tests(*_number_units(rows, groups, n)):
            test = np.sort(rows[test_indices])
            yield np.setdiff1d(np.arange(n), test), test

    @abstractmethod
    def _tests(self, unit_of_row: RowIndices, n_units: int) -> Iterator[RowIndices]:
        """Yield the test set of each split as indices into the testable rows."""

    def _check(self) -> None:
        """Raise ValueError if `n_splits` is invalid."""
        is_integer = isinstance(self.n_splits, int | np.integer) and not isinstance(
            self.n_splits, bool
        )
        if not is_integer or self.n_splits < self._MIN_SPLITS:
            raise ValueError(
                f"n_splits must be an integer of at least {self._MIN_SPLITS}; "
                f"got {self.n_splits!r}."
            )

    _MIN_SPLITS = 1

    def _too_few_units_error(self, n_units: int, needed: int) -> ValueError:
        """Return the error for fewer testable units (rows or persons) than a split needs."""
        return ValueError(
            f"{type(self).__name__} requires at least {needed} labelled private rows (or persons) "
            f"for testing; got {n_units}."
        )


class PublicKFold(_PublicTrainingSplitter):
    """Splitter that divides the labelled private rows into K folds.

    Public rows always belong to the training set. scikit-learn's splitters assign public rows to
    test folds. As a result, a fit may have no public rows, and unlabelled rows (-1) are counted as
    errors. The default splitter for classifiers also stratifies by the private labels. In contrast,
    the folds of this class depend only on the number of rows and on the masks.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether rows, or persons, are assigned to folds at random.
    random_state : int, RandomState or None, default=None
        Seed of the shuffle.
    is_public : array-like of bool, shape (n,), default=None
        Marks the public rows. The mask is only needed if metadata routing is disabled, in which
        case scikit-learn does not pass it to `split`.

    See Also
    --------
    PublicShuffleSplit : A splitter with random test sets of a given size.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.model_selection import PublicKFold
    >>> is_public = np.array([True, False, False, True, False, False])
    >>> for train, test in PublicKFold(2).split(np.zeros((6, 1)), is_public=is_public):
    ...     print(train, test)
    [0 3 4 5] [1 2]
    [0 1 2 3] [4 5]
    """

    _MIN_SPLITS = 2

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        is_public: Any = None,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.is_public = is_public

    def _tests(self, unit_of_row: RowIndices, n_units: int) -> Iterator[RowIndices]:
        """Yield the test rows of each fold. Folds have approximately equal numbers of rows."""
        if n_units < self.n_splits:
            raise self._too_few_units_error(n_units, self.n_splits)
        order = np.arange(n_units)
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(n_units)
        sizes = np.bincount(unit_of_row, minlength=n_units)
        fold_of_unit = np.empty(n_units, dtype=np.intp)
        if sizes.max() == 1:
            for fold, units in enumerate(np.array_split(order, self.n_splits)):
                fold_of_unit[units] = fold
        else:
            # greedy: persons in decreasing order of rows, each into the smallest fold
            rows_in_fold = np.zeros(self.n_splits, dtype=np.intp)
            for unit in order[np.argsort(-sizes[order], kind="stable")]:
                smallest = int(rows_in_fold.argmin())
                fold_of_unit[unit] = smallest
                rows_in_fold[smallest] += sizes[unit]
        for fold in range(self.n_splits):
            yield np.flatnonzero(fold_of_unit[unit_of_row] == fold)


class PublicShuffleSplit(_PublicTrainingSplitter):
    """Splitter with random test sets of labelled private rows.

    Public rows always belong to the training set.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float, default=0.2
        Fraction, in (0, 1), of the labelled private rows, or of the persons with these rows, in
        each test set.
    random_state : int, RandomState or None, default=None
        Seed of the splits.
    is_public : array-like of bool, shape (n,), default=None
        See `PublicKFold`.

    See Also
    --------
    PublicKFold : A splitter that uses folds instead of random splits.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.model_selection import PublicShuffleSplit
    >>> is_public = np.array([True, False, False, True, False, False])
    >>> splits = PublicShuffleSplit(2, test_size=0.5, random_state=0)
    >>> [len(test) for _, test in splits.split(np.zeros((6, 1)), is_public=is_public)]
    [2, 2]
    """

    def __init__(
        self,
        n_splits: int = 10,
        *,
        test_size: float = 0.2,
        random_state: Any = None,
        is_public: Any = None,
    ) -> None:
        self.n_splits = n_splits
        self.test_size = test_size
        self.random_state = random_state
        self.is_public = is_public

    def _tests(self, unit_of_row: RowIndices, n_units: int) -> Iterator[RowIndices]:
        """Yield the test rows of each split, which are all rows of randomly chosen units."""
        if not 0 < self.test_size < 1:
            raise ValueError(f"test_size must be in (0, 1); got {self.test_size!r}.")
        if n_units < 2:
            raise self._too_few_units_error(n_units, 2)
        n_test_units = min(max(1, round(self.test_size * n_units)), n_units - 1)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            test_units = rng.permutation(n_units)[:n_test_units]
            yield np.flatnonzero(np.isin(unit_of_row, test_units))


def _number_units(rows: RowIndices, groups: Any, n: int) -> tuple[RowIndices, int]:
    """Return the unit of each testable row, and the total number of units.

    Each unit is a person, or a single row if there are no `groups`. Units are numbered in the order
    in which they first occur.
    """
    if groups is None:
        return np.arange(len(rows)), len(rows)
    persons = np.asarray(groups)
    if persons.shape != (n,):
        raise ValueError(
            f"groups must identify one person per row of X, shape ({n},); got shape "
            f"{persons.shape}."
        )
    unit_of_person: dict[Any, int] = {}
    for person in persons[rows].tolist():
        if is_missing_person(person):
            raise ValueError(
                "groups must identify a person for every row used for testing, but at least one is "
                "missing."
            )
        unit_of_person.setdefault(person, len(unit_of_person))
    units = np.array([unit_of_person[person] for person in persons[rows].tolist()], dtype=np.intp)
    return units, len(unit_of_person)


def _check_no_unlabelled_rows(name: str, y: Any) -> None:
    """Raise ValueError if `y` contains -1 and two other labels: -1 then means unlabelled."""
    labels = label_column(y)
    unlabelled = is_unlabelled(labels)
    real_labels = labels[~unlabelled]
    if unlabelled.any() and len(real_labels) and (real_labels != real_labels[0]).any():
        raise ValueError(
            f"y contains -1 in addition to at least two other labels, so {name} requires the mask "
            "of public rows: enable metadata routing, which passes is_public, or set the parameter "
            "is_public. If -1 is a label, pass is_labelled=numpy.ones(len(y), dtype=bool)."
        )
