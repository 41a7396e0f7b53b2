"""PublicFit, a wrapper that fits a transformer on public rows only."""

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
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.redaction import call_or_raise
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.data.public_rows import (
    DescribedRows,
    is_described,
    mark_described,
    reference_sample,
    warn_no_public,
)
from skpublicdp.data.roles import (
    check_index,
    check_mask,
    check_separate,
    refuse_same_rows,
    warn_if_sliced,
)
from skpublicdp.data.schema import column_names
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    NUMBER,
    Table,
    concatenate_tables,
    is_frame,
    take_rows,
)
from skpublicdp.data.validation import (
    check_container,
    check_types,
    declared_kinds,
    infer_public_kind,
    read_array,
    read_table,
)

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _available_if_transformer_has(method: str) -> Callable[[_Method], _Method]:
    """Return a decorator that makes a method available only if the transformer has `method`."""

    def check(self: PublicFit) -> bool:
        """Return True, or raise AttributeError if the transformer does not have the method."""
        fitted_transformer = getattr(self, "transformer_", None)
        getattr(fitted_transformer or self._transformer_or_default(), method)
        return True

    return available_if(check)


def _has_output_container(wrapper: PublicFit) -> bool:
    """Indicate whether the container of transformed rows can be set, as in scikit-learn."""
    transformer = wrapper._transformer_or_default()
    return hasattr(transformer, "set_output") or hasattr(transformer, "get_feature_names_out")


_available_if_output_can_be_set: Callable[[_Method], _Method] = available_if(_has_output_container)


class PublicFit(ProgressMixin, HTMLReprMixin, VersionedMixin, TransformerMixin, BaseEstimator):
    """Fit a transformer on the public rows, and transform all rows with it.

    A scaler, an encoder or a selector that is fitted on private rows leaks statistics of these
    rows. A transformer wrapped in this class is fitted on public rows alone, so it spends no
    privacy budget. The method `transform` must treat each row independently, as it does in nearly
    all transformers. Exceptions are `NMF` with ``solver="mu"``, `IterativeImputer` with
    ``sample_posterior=True`` and batch statistics in a `FunctionTransformer`. With these
    transformers, a single private row would affect the results for other rows, which no receipt
    covers. Similarly, the type of the result must not depend on the values in a row. The
    transformer's warnings are suppressed and its errors are replaced, since they may quote private
    rows.

    Parameters
    ----------
    transformer : transformer, default=None
        Any scikit-learn transformer, including a `ColumnTransformer` or a `Pipeline` of
        transformers. With ``None``, a `StandardScaler()` is used.

    Attributes
    ----------
    transformer_ : transformer
        Copy of the transformer that was fitted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if the column names of `X` are strings.

    Warns
    -----
    NoPublicDataWarning
        If there are no public rows. The transformer is then fitted on a data-independent standard
        normal reference sample, so that a scaler has no effect.
    SlicedPublicDataWarning
        If `X_public` and `X` have the same number of rows, in which case cross-validation would
        split `X_public` too.

    See Also
    --------
    SemiPrivateClassifier : Private classifier that can be fitted to the transformed rows.

    Notes
    -----
    With metadata routing enabled, ``Pipeline(steps, transform_input=["X_public"])`` passes the
    *transformed* public rows to later steps. Without `transform_input`, later steps receive the
    untransformed public rows.

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

    _in_memory_since = "transformers require whole tables"

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
            Rows. Only the values in rows marked by `is_public` are read.
        y : array-like, shape (n,), optional
            Labels. The labels of rows marked by `is_public` are passed to the transformer, unless
            there are separate public rows.
        X_public : array-like, DataFrame or DescribedRows, shape (m, n_features), optional
            Separate public rows, with the columns of `X`.
        is_public : array-like of bool, shape (n,), optional
            Mask of the public rows of `X`.

        Returns
        -------
        self : PublicFit
            The fitted transformer.

        Raises
        ------
        ValueError
            If an input is invalid, or if there are no public rows and `X` is not numeric.
        """
        check_parameters(self)
        self._refuse_nested_wrappers()
        refuse_same_rows(X, X_public)
        validated = self._validate(X, reset=True)
        table = Table(validated)
        n, self._container = validated.shape[0], table.container
        self._time_zones = [type_.time_zone for type_ in table.types]
        check_index(X, is_public=is_public)
        public_mask = check_mask(is_public, n)
        public_parts, labels = [], None
        if public_mask.any():
            public_positions = np.flatnonzero(public_mask)
            # rows are selected before any conversion, since converting all rows can depend on a
            # private row, for example through a numeric type or the width of text
            public_parts.append(self._validate(take_rows(X, public_positions), reset=False))
            labels = None if y is None else take_rows(y, public_positions)
        if X_public is not None:
            X_public = self._in_fit_container(X_public)
            public_parts.append(self._validate_separate(validated, X_public))
            labels = None
        if not public_parts:
            public_parts.append(self._reference(self._validate(X, reset=False)))
        self._kinds = _infer_object_kinds(self._kinds, public_parts)
        try:
            transformer = clone(self._transformer_or_default())
            self._set_inner_output(transformer)
            self.transformer_: Any = transformer.fit(stack_public_rows(public_parts), labels)
        except Exception as error:  # its message may be shown, since it concerns public rows
            raise self._fit_error(public_parts[0], error) from error
        return self

    def transform(self, X: Any) -> Any:
        """Transform rows.

        Parameters
        ----------
        X : array-like, DataFrame or DescribedRows, shape (n, n_features)
            Rows to transform, which can be private or public.

        Returns
        -------
        array-like, shape (n, n_features_out)
            Transformed rows, in the type that the transformer returns.
        """
        check_is_fitted(self)
        if is_described(X):
            rows = self._in_fit_container(X)
            if rows is X:
                rows = take_rows(X, np.arange(X.shape[0]))  # a copy, which is not marked
            # the inner call applies set_output, which would replace a marked table by another one
            return mark_described(self.transform(rows))
        return self._call_redacted("transform", self._validate(X, reset=False))

    @_available_if_transformer_has("inverse_transform")
    def inverse_transform(self, X: Any) -> Any:
        """Undo the transformation.

        Parameters
        ----------
        X : array-like, shape (n, n_features_out)
            Transformed rows.

        Returns
        -------
        array-like, shape (n, n_features)
            Rows, in the type that the transformer returns.
        """
        check_is_fitted(self)
        return self._call_redacted("inverse_transform", X)

    @_available_if_transformer_has("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the transformed columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, used if the rows passed to `fit` had no column names.

        Returns
        -------
        ndarray of str
            Names.
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    @_available_if_output_can_be_set
    def set_output(self, *, transform: str | None = None) -> PublicFit:
        """Set the container of the rows that `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            Container. With ``None``, it remains unchanged.

        Returns
        -------
        self : PublicFit
            The wrapper.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
            if hasattr(self, "transformer_"):
                self._set_inner_output(self.transformer_)
        return self

    def _set_inner_output(self, transformer: Any) -> None:
        """Pass the setting of `set_output` to a transformer without names of output columns.

        This includes pipelines in which one step has no names. The result of any other transformer
        is converted by scikit-learn.
        """
        output = getattr(self, "_sklearn_output_config", {}).get("transform")
        steps = [step for _, step in getattr(transformer, "steps", [("", transformer)])]
        has_names = all(
            hasattr(step, "get_feature_names_out") or step == "passthrough" for step in steps
        )
        if output is not None and not has_names:
            transformer.set_output(transform=output)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        transformer = get_tags(self._transformer_or_default())
        tags.input_tags = transformer.input_tags
        if transformer.transformer_tags is not None:
            preserves_dtype = transformer.transformer_tags.preserves_dtype
            tags.transformer_tags.preserves_dtype = preserves_dtype
        return tags

    def _transformer_or_default(self) -> Any:
        """Return the parameter `transformer` or, if it is None, an unfitted `StandardScaler`."""
        return StandardScaler() if self.transformer is None else self.transformer

    def _refuse_nested_wrappers(self) -> None:
        """Raise ValueError if the transformer contains another PublicFit.

        The inner wrapper would receive only public rows, without a mask, and take them for private.
        """
        transformer = self._transformer_or_default()
        parameters: dict[str, Any] = getattr(transformer, "get_params", dict)()
        for name, step in [("transformer", transformer), *parameters.items()]:
            if isinstance(step, PublicFit):
                raise ValueError(
                    f"PublicFit must not contain another PublicFit, but {name} is one. Remove the "
                    "inner wrapper: the outer one fits all of its steps on public rows only."
                )

    def _in_fit_container(self, X: Any) -> Any:
        """Convert rows from `describe_columns` to the kind of container used in `fit`.

        Other rows are returned unchanged.
        """
        if isinstance(X, DescribedRows):
            names = getattr(self, "feature_names_in_", None)
            return X.in_container(self._container, names, self._time_zones)
        return X

    def _validate_separate(self, X: Any, X_public: Any) -> Any:
        """Return the validated rows of `X_public`, whose columns must be those of `X`."""
        try:
            public = self._validate(X_public, reset=False, name="X_public")
        except (TypeError, ValueError) as error:
            raise type(error)(f"X_public is not usable: {error}") from None
        if sparse.issparse(X) or sparse.issparse(public):
            warn_if_sliced(X.shape[0], public.shape[0])
        else:
            check_separate(Table(X), Table(public))
        return public

    def _fit_error(self, public: Any, error: Exception) -> ValueError:
        """Return the error to raise if the transformer cannot be fitted to the public rows.

        The message quotes the transformer's error, which concerns public rows only. If values could
        not be converted, it also names the first column that is not numeric.

        Parameters
        ----------
        public : array, sparse matrix or DataFrame
            Public rows, of which only the column types are read.
        error : Exception
            Error raised by the transformer.
        """
        name = type(self._transformer_or_default()).__name__
        reason = " ".join(str(error).split()).rstrip(".")
        if not isinstance(error, ValueError):
            reason = f"{type(error).__name__}: {reason}"
        is_about_values = any(
            word in reason for word in ("convert", "DType", "dtype", "operand", "isnan", "sequence")
        )
        if is_about_values and not sparse.issparse(public):
            table = Table(public)
            for column, type_ in zip(column_names(table), table.types, strict=True):
                if type_.kind not in (NUMBER, BOOLEAN):
                    kind = "objects" if type_.kind == ANYTHING else type_.kind
                    reason = (
                        f"{reason}. Column {column} contains {kind}: encode this column, or select "
                        "columns with a ColumnTransformer"
                    )
                    break
        return ValueError(f"{name} could not be fitted to the public rows: {reason}.")

    def _validate(self, X: Any, *, reset: bool, name: str = "X") -> Any:
        """Return rows as an array, a sparse matrix or a frame, after validation.

        The shape is always validated, together with the column names of frames and the values of
        arrays.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame
            Rows.
        reset : bool
            Whether to set the feature names and the column kinds, as in `fit`.
        name : str
            Name of the argument in messages.
        """
        tags = get_tags(self._transformer_or_default()).input_tags
        check_container(self, X, name, accept_sparse=tags.sparse)
        if is_frame(X):
            # check_separate compares the kinds of X and X_public
            compare_kinds = name != "X_public"
            table = read_table(self, X, reset=reset, numeric=False, name=name, kinds=compare_kinds)
            return table.native
        if isinstance(X, np.ndarray) and X.ndim == 2:
            check_types(Table(X))
        dtype: Any
        are_declared_numbers = declared_kinds(X) <= set("biuf")  # numpy's kinds of numbers
        if (tags.string or tags.categorical) and not are_declared_numbers:
            dtype = object
        else:
            # numpy infers the type of a list from its values, so the type would depend on private
            # values
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
            self._kinds = ()  # all columns of an array have the same type
        return X

    def _call_redacted(self, method: str, X: Any) -> Any:
        """Call a method of the fitted transformer on the rows `X`.

        The rows can be private and messages may quote them, so warnings are suppressed and errors
        are replaced.
        """
        name = type(self.transformer_).__name__
        refusal = ValueError(
            f"{name}.{method} failed on these rows; its message is withheld, because it may quote "
            "private values. If the rows contain categories that do not occur in the public rows, "
            "pass handle_unknown='ignore' to the encoder."
        )
        return call_or_raise(getattr(self.transformer_, method), X, error=refusal)

    def _reference(self, X: Any) -> Any:
        """Return reference rows that replace missing public rows, in a container like that of `X`.

        The reference rows are standard normal and do not depend on any data. A warning is issued.
        """
        warn_no_public("the transformer is fitted on a standard-normal reference")
        table = Table(X)
        if not all(type_.kind in (NUMBER, BOOLEAN) for type_ in table.types):
            raise ValueError(
                "PublicFit requires public rows to fit a transformer to non-numeric columns. Pass "
                "X_public or is_public."
            )
        return table.container.build([*reference_sample(X.shape[1]).T])


def _infer_object_kinds(kinds: tuple[str, ...], public_parts: Sequence[Any]) -> tuple[str, ...]:
    """Return the kinds of all columns. For dtype object, they are inferred from public values."""
    if not kinds:
        return kinds
    tables = [Table(part) for part in public_parts]

    def public_kind(position: int) -> str:
        """Return the common kind of the public values in a column."""
        columns = [table.column(position).astype(object) for table in tables]
        return infer_public_kind(np.concatenate(columns))

    return tuple(
        public_kind(position) if kind == ANYTHING else kind for position, kind in enumerate(kinds)
    )


def stack_public_rows(parts: Sequence[Any]) -> Any:
    """Concatenate the rows of arrays, of sparse matrices or of frames from the same library."""
    if len(parts) == 1:
        return parts[0]
    if all(map(is_frame, parts)):
        return concatenate_tables(parts)
    if any(sparse.issparse(rows) for rows in parts):
        return sparse.vstack(parts).tocsr()
    return np.concatenate([np.asarray(rows) for rows in parts])
