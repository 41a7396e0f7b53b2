"""Training data: the inputs of `fit`, validated, encoded and split into private and public rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skpublicdp.boosting.additive_posterior import PublicLabels
from skpublicdp.boosting.bin_splits import candidate_splits, tree_cover
from skpublicdp.boosting.binned import NO_MARGINS, BinnedData, FineBinnedRows, encode_rows
from skpublicdp.boosting.binner import BinCodes, Binner, make_binner
from skpublicdp.boosting.budget_split import MIN_NUMERIC_COLUMNS, N_BINS
from skpublicdp.boosting.loss import OUTCOME_LOSSES, Loss
from skpublicdp.boosting.monotone import Directions, validate_monotonic_cst
from skpublicdp.boosting.public_model import (
    PublicMargins,
    TargetScale,
    in_container_of,
    make_public_margins,
)
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import LabelReader, TargetReader, Targets
from skpublicdp.data.one_hot import ColumnRun, fold_rows, folded_schema
from skpublicdp.data.outcomes import RegressionTarget
from skpublicdp.data.public_rows import DESCRIBED
from skpublicdp.data.roles import RowChooser
from skpublicdp.data.schema import Schema
from skpublicdp.hypotheses.trees import TreeCover
from skpublicdp.typing import Floats, Mask


@dataclass(frozen=True)
class LossTarget(RegressionTarget):
    """Reader of a numeric target for a loss, which can require certain bounds."""

    loss: str = "squared_error"

    def usable_bounds(self, bounds: tuple[float, float], public: Floats) -> tuple[float, float]:
        """Return the bounds that the loss needs."""
        declared = self.bounds is not None
        return OUTCOME_LOSSES[self.loss].usable_bounds(bounds, public, declared=declared)


BinnedChunk: TypeAlias = tuple[list[BinCodes], NDArray[Any], NDArray[np.int16]]
"""Chunk of binned rows, with an array of fine bins for each column, targets and public margins."""


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class TrainingData:
    """Private and public rows of one fit."""

    # Columns, determined from public rows. Adjacent one-hot columns are combined into a single
    # categorical column.
    schema: Schema
    # Training rows with their targets. For voting trees, the training rows include the labelled
    # public rows.
    rows: FineBinnedRows
    # (m, n_columns): encoded public rows. Columns without public values are filled from a reference
    # sample. Without public rows, the array is a reference grid.
    X_public: Floats
    n_private: int  # number of private rows
    n_public: int  # number of public rows
    # Sorted labels, or None for a regression. The targets of a regression are multiples of 1 /
    # TARGET_LEVELS between 0 and 1.
    classes: NDArray[Any] | None
    loss: Loss  # loss for the target
    # the two outcomes that are encoded as 0 and 1
    outcome_bounds: tuple[float, float] | None = None
    assumptions: tuple[str, ...] = ()  # assumptions about the columns, listed in the receipt
    public_labels: PublicLabels | None = None  # labels or targets of public rows
    # (n_columns,): monotone constraints of the columns of `schema`
    directions: Directions | None = None
    # Public model, with its margins on the public rows. The margins of private rows are stored in
    # `rows`.
    public_margins: PublicMargins | None = None
    # (n_columns,): mask of the columns of `schema` without synthetic public values. Only these
    # columns are used to report a drift of the public rows. By default all columns.
    has_actual_values: Mask | None = None
    # whether the public rows were generated from a description of the columns
    is_described: bool = False
    # the rows as they were read, if a linear model may be fitted to them before boosting
    dataset: Dataset | None = None

    @property
    def n_targets(self) -> int:
        """Number of targets: one per label if there are more than two labels, and otherwise 1."""
        return self.loss.n_targets

    @property
    def n_joint_public(self) -> int:
        """Number of public rows that show how columns are related, which is 0 if generated.

        In rows that are generated from a description, columns are independent, as they are in the
        reference grid.
        """
        return 0 if self.is_described else self.n_public

    @cached_property
    def public(self) -> FineBinnedRows:
        """The public rows in fine bins.

        The targets of public rows are not used, so they are set to zero.
        """
        m = len(self.X_public)
        chunks = [(self.X_public, np.zeros(m))]
        return FineBinnedRows.from_encoded(self.rows.fine_binner, chunks, m, np.uint8)

    @cached_property
    def binned(self) -> BinnedData:
        """All rows, with at most `N_BINS` bins per column, cut at quantiles of public rows."""
        return self.bin(N_BINS)

    def bin(self, max_bins: int, weights: Floats | None = None) -> BinnedData:
        """Return all rows in new bins, cut at (weighted) quantiles of the public rows."""
        return self.with_bins(make_binner(self.schema, self.X_public, max_bins, weights))

    def candidate_trees(self, data: BinnedData, columns: Mask | None = None) -> TreeCover:
        """Return all trees of depth 2 on the bins of `data` with the labels of this target.

        The trees can be restricted to splits of some columns.
        """
        labels = np.arange(2) if self.classes is None else self.classes
        codes = data.public_codes
        splits = candidate_splits(data.binner, codes)
        if columns is not None:
            is_kept = columns[splits.features]
            if is_kept.any():
                splits = splits[np.flatnonzero(is_kept)]
        return tree_cover(splits, codes, data.binner.names, labels, depth=2)

    def with_bins(self, binner: Binner) -> BinnedData:
        """Return all rows binned by `binner`, after moving its cuts to the nearest fine cuts."""
        return BinnedData.from_fine_bins(binner, self.rows, self.public)


def read_training_data(
    estimator: Any,
    X: Any,
    y: Any,
    target_reader: TargetReader | None = None,
    *,
    X_public: Any = None,
    y_public: Any = None,
    is_public: Any = None,
    groups: Any = None,
    ledger: RowChooser | None = None,
    train_on_public_labels: bool = False,
) -> TrainingData:
    """Validate the inputs of `fit`, split them into private and public rows, and encode them.

    With `train_on_public_labels`, labelled public rows also serve as training rows if there are two
    labels.
    """
    target_reader = target_reader or LabelReader(estimator.classes, min_classes=2)
    dataset = read_fit_inputs(
        estimator,
        X,
        y,
        target_reader,
        X_public=X_public,
        y_public=y_public,
        is_public=is_public,
        groups=groups,
        ledger=ledger,
        nullable=True,
        use_reference=True,
        min_public_rows=N_BINS,
        find_one_hot=True,
    )
    targets = dataset.targets
    directions = validate_monotonic_cst(estimator.monotonic_cst, dataset.schema)
    runs = dataset.one_hot_runs
    if directions is not None:  # constrained columns remain separate
        runs = tuple(run for run in runs if not directions[slice(*run)].any())
        directions = np.delete(
            directions, [i for start, stop in runs for i in range(start + 1, stop)]
        )
    schema = folded_schema(dataset.schema, dataset.X_public, runs)
    classes, loss = targets.classes, estimator._target_loss(targets.classes)
    encoded = fold_rows(schema.columns, dataset.X_public)
    fine_binner = make_binner(schema, encoded, max_bins=None)
    # label codes have the smallest sufficient type, and outcomes are floats
    dtype = targets.private.dtype if classes is None else np.min_scalar_type(len(classes) - 1)
    public_labels = _public_labels(targets, dataset.is_synthetic)
    public_model = _public_model_parameter(estimator, directions)
    suits_linear = estimator.method == "auto" and _suits_linear_model(dataset, schema, loss)
    suits_linear &= isinstance(public_model, str)
    if suits_linear:  # which is fitted to public labels, too
        public_model = None
    public_margins = make_public_margins(
        public_model,
        in_container_of(X_public, dataset.schema),
        fine_binner,
        dataset.X_public,
        public_labels,
        TargetScale(classes, targets.bounds, loss),
    )
    labelled: list[BinnedChunk] = []
    if train_on_public_labels and classes is not None and len(classes) == 2:
        X_labelled, margins = dataset.X_labelled, NO_MARGINS
        if public_margins is not None:
            margins = public_margins.margins(X_labelled)
        X_folded = fold_rows(schema.columns, X_labelled)
        labelled = [(*encode_rows(fine_binner, dtype, X_folded, targets.public), margins)]
    n_jobs = estimator.n_jobs
    private = encoded_chunks(dataset, fine_binner, public_margins, dtype, n_jobs)
    rows = FineBinnedRows.from_codes(
        fine_binner,
        chain(private, labelled),
        n=dataset.n_private + sum(len(y) for _, y, _ in labelled),
        dtype=dtype,
        n_jobs=n_jobs,
        n_margins=0 if public_margins is None else len(public_margins.of_public),
    )
    return TrainingData(
        schema=schema,
        rows=rows,
        X_public=encoded,
        n_private=dataset.n_private,
        n_public=dataset.n_public,
        classes=classes,
        loss=loss,
        outcome_bounds=targets.bounds,
        assumptions=dataset.assumptions,
        is_described=DESCRIBED in dataset.assumptions,
        public_labels=public_labels,
        directions=directions,
        public_margins=public_margins,
        has_actual_values=_columns_without_synthetic_values(dataset, runs),
        dataset=dataset if suits_linear else None,
    )


def _suits_linear_model(dataset: Dataset, schema: Schema, loss: Loss) -> bool:
    """Indicate whether the table has many numbers, and public rows that show their axes."""
    n_numbers = int(schema.numeric.sum())
    has_joint_rows = dataset.n_public >= N_BINS and DESCRIBED not in dataset.assumptions
    return loss.glm_unit > 0 and has_joint_rows and n_numbers >= MIN_NUMERIC_COLUMNS


def _columns_without_synthetic_values(dataset: Dataset, runs: Sequence[ColumnRun]) -> Mask | None:
    """Return a mask of the columns without synthetic values, or None if these are all columns.

    The mask refers to the folded schema, in which each run of one-hot columns is a single column.
    """
    if not dataset.spread_columns:
        return None
    n_columns = len(dataset.schema.columns)
    is_actual = np.array([i not in dataset.spread_columns for i in range(n_columns)])
    dropped = [i for start, stop in runs for i in range(start + 1, stop)]
    return np.delete(is_actual, dropped)


def _public_model_parameter(estimator: Any, directions: Directions | None) -> Any:
    """Return the parameter `public_model`, replacing ``"auto"`` with None if it would be of no use.

    A public model that is not monotone would violate monotone constraints. Voting trees are already
    trained on the labelled public rows.
    """
    parameter = estimator.public_model
    if not isinstance(parameter, str):
        if parameter is not None and directions is not None:
            raise ValueError(
                "public_model must be None or 'auto' if monotonic_cst is set, because the "
                "constraints cannot be enforced on an arbitrary model."
            )
        return parameter
    return None if directions is not None or estimator.method == "votes" else parameter


def encoded_chunks(
    dataset: Dataset,
    fine_binner: Binner,
    public_margins: PublicMargins | None,
    dtype: DTypeLike,
    n_jobs: int | None,
) -> Iterator[BinnedChunk]:
    """Yield the fine bins, targets and public margins of the private rows, chunk by chunk."""
    if public_margins is None:
        for codes, y in dataset.codes(fine_binner.source_encoders, dtype, n_jobs):
            yield fine_binner.fold(codes), y, NO_MARGINS
        return
    public = deepcopy(public_margins)  # an estimator might store the rows that it predicts

    def encode_chunk(X: Floats, y: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return the fine bins, targets and public margins of one chunk of encoded rows."""
        return (*encode_rows(fine_binner, dtype, fine_binner.fold_rows(X), y), public.margins(X))

    yield from dataset.map(encode_chunk, n_jobs)


def _public_labels(targets: Targets, is_imputed: NDArray[np.bool_]) -> PublicLabels | None:
    """Return the labels or outcomes of public rows. More than two classes are one-hot encoded.

    Rows with an imputed value are excluded, since their labels were not observed together with the
    imputed value.
    """
    rows = np.flatnonzero(targets.has_target)
    is_observed = ~is_imputed[rows]
    if not is_observed.any():
        return None
    y = targets.public[is_observed].astype(np.float64)[None]
    n_classes = 0 if targets.classes is None else len(targets.classes)
    if n_classes > 2:
        y = (y == np.arange(n_classes)[:, None]).astype(np.float64)
    return PublicLabels(rows[is_observed], y)
