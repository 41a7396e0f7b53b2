"""PublicFit: any transformer, fitted on the public rows only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import all_or_nothing, check_parameters
from skpublicdp._internal.redaction import call_or_raise
from skpublicdp.data.containers import check_container
from skpublicdp.data.description import DescribedRows
from skpublicdp.data.kinds import infer_public_kind
from skpublicdp.data.reference import reference_sample, warn_no_public
from skpublicdp.data.roles import check_index, check_mask, warn_if_sliced
from skpublicdp.data.schema import column_names
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    NUMBER,
    Table,
    is_frame,
    stack_frames,
    take_rows,
)
from skpublicdp.data.validation import (
    check_separate,
    check_types,
    declared_kinds,
    read_array,
    read_table,
)

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _if_inner_has(method: str) -> Callable[[_Method], _Method]:
    def check(self: PublicFit) -> bool:
        getattr(getattr(self, "transformer_", None) or self._inner(), method)
        return True

    decorator: Callable[[_Method], _Method] = available_if(check)
    return decorator


class PublicFit(HTMLReprMixin, TransformerMixin, BaseEstimator):
    """Fits a transformer on the public rows, transforms everything with it.

    A scaler, an encoder or a selector fitted on private rows leaks their statistics. Wrapped in
    this class it never sees them, so it spends no privacy. Its `transform` must treat each row on
    its own, as nearly all do: with one that lets rows influence each other (`NMF` with
    ``solver="mu"``, `IterativeImputer` with ``sample_posterior=True``, statistics of the batch in a
    `FunctionTransformer`) one private row would move others, which no receipt covers. Nor may a row
    decide which type all of them get. Its warnings are dropped and its errors replaced, for they
    may tell of private rows.

    Parameters
    ----------
    transformer : transformer, default=None
        Any scikit-learn transformer, a `ColumnTransformer` or a `Pipeline` of transformers
        included; ``None`` means `StandardScaler()`.

    Attributes
    ----------
    transformer_ : transformer
        The fitted copy.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If there are no public rows: the transformer is then fitted on a standard-normal reference
        that looks at no data, which leaves a scaler without effect.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.

    See Also
    --------
    SemiPrivateClassifier : A private classifier to put behind it.

    Notes
    -----
    With metadata routing enabled, ``Pipeline(steps, transform_input=["X_public"])`` hands the
    later steps the *transformed* public rows; without `transform_input` they get the raw ones.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from skpublicdp import PublicFit
    >>> scaler = PublicFit(MinMaxScaler())
    >>> scaler.fit_transform([[5.0], [20.0]], X_public=[[0.0], [10.0], [5.0]])
    array([[0.5],
           [2. ]])
    """

    _in_memory_since = "transformers take whole tables"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "transformer": [HasMethods(["fit", "transform"]), None],
    }

    __metadata_request__fit = {"X_public": True, "is_public": True}  # noqa: RUF012

    _kinds: tuple[str, ...]

    def __init__(self, transformer: Any = None) -> None:
        self.transformer = transformer

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, X_public: Any = None, is_public: Any = None) -> Self:
        """Fit the transformer on the public rows.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows. Only those marked by `is_public` are looked at.
        y : array-like, shape (n,), optional
            Labels. Those of the rows marked by `is_public` reach the transformer, when these are
            all the public rows there are.
        X_public : array-like, DataFrame or DescribedRows, shape (m, n_features), optional
            Separate public rows, of the columns of `X`.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`.

        Returns
        -------
        self : PublicFit
            The fitted transformer.

        Raises
        ------
        ValueError
            If an input is not as described, or if there are no public rows and `X` is not numeric.
        """
        check_parameters(self)
        checked = self._checked(X, reset=True)
        n, self._container = checked.shape[0], Table(checked).container
        check_index(X, is_public=is_public)
        mask = check_mask(is_public, n)
        parts, labels = [], None
        if mask.any():
            marked = np.flatnonzero(mask)
            # from the rows as they were given: what a conversion of all rows makes of the public
            # ones (a number type, the width of a text) may depend on a private row
            parts.append(self._checked(take_rows(X, marked), reset=False))
            labels = None if y is None else take_rows(y, marked)
        if X_public is not None:
            X_public = self._written_out(X_public)
            parts.append(self._checked_public(checked, X_public))
            labels = None
        if not parts:
            parts.append(self._reference(self._checked(X, reset=False)))
        self._kinds = _kinds_of_public(self._kinds, parts)
        try:
            self.transformer_: Any = clone(self._inner()).fit(stack_public_rows(parts), labels)
        except Exception as error:
            raise self._unfitted(parts[0], error) from None
        return self

    def transform(self, X: Any) -> Any:
        """Transform rows.

        Parameters
        ----------
        X : array-like, DataFrame or DescribedRows, shape (n, n_features)
            Rows, private or public.

        Returns
        -------
        array-like, shape (n, n_features_out)
            What the transformer returns.
        """
        check_is_fitted(self)
        X = self._checked(self._written_out(X), reset=False)
        return self._silently("transform", X)

    @_if_inner_has("inverse_transform")
    def inverse_transform(self, X: Any) -> Any:
        """Undo the transformation.

        Parameters
        ----------
        X : array-like, shape (n, n_features_out)
            Transformed rows.

        Returns
        -------
        array-like, shape (n, n_features)
            What the transformer returns.
        """
        check_is_fitted(self)
        return self._silently("inverse_transform", X)

    @_if_inner_has("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the transformed columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns, where the rows had none.

        Returns
        -------
        ndarray of str
            Names.
        """
        check_is_fitted(self)
        names: NDArray[np.object_] = self.transformer_.get_feature_names_out(input_features)
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner())
        tags.input_tags = inner.input_tags
        if inner.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = inner.transformer_tags.preserves_dtype
        return tags

    def _inner(self) -> Any:
        return StandardScaler() if self.transformer is None else self.transformer

    def _written_out(self, X: Any) -> Any:
        """Return rows that may be described in the container that `fit` got."""
        if isinstance(X, DescribedRows):
            return X.in_container(self._container, getattr(self, "feature_names_in_", None))
        return X

    def _checked_public(self, X: Any, X_public: Any) -> Any:
        """Check separate public rows, of the columns of checked rows."""
        try:
            public = self._checked(X_public, reset=False, name="X_public")
        except (TypeError, ValueError) as error:
            raise type(error)(f"X_public is not usable: {error}") from None
        if sparse.issparse(X) or sparse.issparse(public):
            warn_if_sliced(X.shape[0], public.shape[0])
        else:
            check_separate(Table(X), Table(public))
        return public

    def _unfitted(self, public: Any, error: Exception) -> ValueError:
        """Return what is said where the transformer cannot be fitted."""
        name = type(self._inner()).__name__
        told = str(error).split("\n")[0]
        if not sparse.issparse(public):
            table = Table(public)
            for column, type_ in zip(column_names(table), table.types, strict=True):
                if type_.kind not in (NUMBER, BOOLEAN):
                    held = "objects" if type_.kind == ANYTHING else type_.kind
                    told = (
                        f"column {column} holds {held}, which it may not take; encode it, or "
                        "choose the columns by a ColumnTransformer."
                    )
                    break
        return ValueError(f"{name} could not be fitted to the public rows: {told}")

    def _checked(self, X: Any, *, reset: bool, name: str = "X") -> Any:
        """Check the shape, the names and, for plain arrays, the values; keep a frame a frame."""
        tags = get_tags(self._inner()).input_tags
        check_container(self, X, name, accept_sparse=tags.sparse)
        if is_frame(X):
            apart = name == "X_public"  # compared with X by check_separate
            return read_table(
                self, X, reset=reset, numeric=False, name=name, kinds=not apart
            ).native
        if isinstance(X, np.ndarray) and X.ndim == 2:
            check_types(Table(X))
        dtype: Any
        if (tags.string or tags.categorical) and not declared_kinds(X) <= set("biuf"):
            dtype = object
        else:
            # a list has no type but that of its values, which a private one would decide
            dtype = "numeric" if hasattr(X, "dtype") else np.float64
        X = read_array(
            X,
            dtype,
            accept_sparse=tags.sparse,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            name=name,
        )
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self._kinds = ()  # arrays have no kinds of columns
        return X

    def _silently(self, method: str, X: Any) -> Any:
        """Call the transformer on rows that may be private: it may warn of one, and quote it."""
        name = type(self.transformer_).__name__
        refusal = ValueError(
            f"{name}.{method} failed on these rows, and what it says of them is withheld. For "
            "categories that no public row has, give an encoder handle_unknown='ignore'."
        )
        return call_or_raise(getattr(self.transformer_, method), X, error=refusal)

    def _reference(self, X: Any) -> Any:
        warn_no_public("the transformer is fitted on a standard-normal reference")
        table = Table(X)
        if not all(type_.kind in (NUMBER, BOOLEAN) for type_ in table.types):
            raise ValueError(
                "PublicFit needs public rows to fit a transformer of columns that are not "
                "numeric; pass X_public or is_public."
            )
        return table.container.build([*reference_sample(X.shape[1]).T])


def _kinds_of_public(kinds: tuple[str, ...], parts: Sequence[Any]) -> tuple[str, ...]:
    """Return the kinds of columns, from public values where a column type declares none."""
    if not kinds:
        return kinds
    tables = [Table(part) for part in parts]
    return tuple(
        infer_public_kind(np.concatenate([table.column(i).astype(object) for table in tables]))
        if kind == ANYTHING
        else kind
        for i, kind in enumerate(kinds)
    )


def stack_public_rows(parts: Sequence[Any]) -> Any:
    """Put public rows of one container below each other."""
    if len(parts) == 1:
        return parts[0]
    if all(map(is_frame, parts)):
        return stack_frames(parts)
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts).tocsr()
    return np.concatenate([np.asarray(part) for part in parts])
