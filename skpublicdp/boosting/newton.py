"""Newton boosting for large budgets: the start, finer bins, and passes over all terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.additive_fit import fit_histograms
from skpublicdp.boosting.additive_posterior import WeightedPublicRows
from skpublicdp.boosting.bin_splits import (
    BinSplits,
    apply_tree,
    candidate_splits,
    joint_gradient_sums,
    refine_splits,
    tree_cover,
)
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import (
    MAX_FINE_BINS,
    BinCodes,
    Binner,
    ColumnBins,
    refine_bins,
    refine_scores,
)
from skpublicdp.boosting.budget_split import (
    BALANCED_FOR_NEWTON,
    CLASS_COUNT_SHARE,
    N_BINS,
    N_PASSES,
    additive_share,
    can_afford_boosting,
    subsample_size,
    tree_share,
)
from skpublicdp.boosting.fitted_model import FittedModel, LogisticFit, mean_variances
from skpublicdp.boosting.histograms import BOOSTING_PROOF, count_sensitivity
from skpublicdp.boosting.loss import Loss, OutcomeLoss, OutcomeRange, sum_packed
from skpublicdp.boosting.model import MARGIN_UNIT, MAX_GRADIENT, AdditiveModel, null_model
from skpublicdp.boosting.outcome_histogram import noisy_dispersion, noisy_start, restrict_outcomes
from skpublicdp.boosting.term_posterior import (
    ALLOCATION_STEPS,
    PUBLIC_PSEUDO_ROWS,
    TermPosterior,
    allocation_grid,
    neyman_allocation,
    piecewise_linear_guess,
    smoothing_prior,
)
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.data.binning import snap_to_edges
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats, Integers

SPLIT_LEVELS = 6
"""Number of split levels. Each initial bin is split into at most 2^6 bins."""

BIN_SPLIT_SHARE = Fraction(8, 100)
"""Share of the budget spent on all split levels together."""

ROWS_PER_SPLIT_NOISE = 1500
"""Minimum ratio of the number of rows to the standard deviation of the noise, in rows, in the
gradient sum of a half bin. If the ratio is smaller, no bin is split."""

MAX_P_VALUE = 0.008
"""Largest p-value of a chi-squared test for equal mean gradients at which a split is kept."""

MIN_CUT_FRACTION, MAX_CUT_FRACTION = 0.3, 0.7
"""Range of candidate cuts, as fractions of the bin width. The range excludes cuts that would create
a very narrow half."""


@dataclass(eq=False, repr=False)  # a repr would print private rows
class BinSplitter:
    """Adaptive splitter that divides the bins of numeric columns in two, level by level."""

    training: TrainingData
    data: BinnedData
    loss: Loss
    ledger: Ledger  # ledger that records the privacy loss of each release and draws the noise
    # Budget of Newton boosting. All split levels together spend the fraction `BIN_SPLIT_SHARE` of
    # this budget.
    budget: StageBudget
    gradient_variance: float  # ratio of the variance of a row's gradient to the hessian

    def __post_init__(self) -> None:
        self._level_budget = self.budget.fraction(BIN_SPLIT_SHARE / SPLIT_LEVELS)
        X_public = self.training.X_public
        self._columns = [
            position
            for position, bins in enumerate(self.data.binner.columns)
            # columns with few distinct values are treated as codes rather than quantities
            if not bins.column.categorical and len(np.unique(X_public[:, position])) > N_BINS
        ]
        n_columns, sensitivity = len(self._columns), self.loss.sensitivity
        self._sensitivity = Sensitivity(
            n_columns * sensitivity.absolute, n_columns * sensitivity.squared
        )

    def is_affordable(self, effective_rows: float) -> bool:
        """Indicate whether the noise of a single level is small relative to the number of rows."""
        if not self._columns:
            return False
        variance = self._level_budget.variance(self.ledger.for_person(self._sensitivity))
        return effective_rows * 2 * MAX_GRADIENT >= ROWS_PER_SPLIT_NOISE * math.sqrt(variance)

    def split(self, margins: NDArray[np.int32]) -> BinnedData:
        """Split the bins level by level, and return the data in the final bins.

        Parameters
        ----------
        margins : ndarray of int32, shape (n_targets, n)
            Margins of the private rows.
        """
        # a public seed suffices, since the candidate cuts are public
        generator = np.random.default_rng(0)
        for _ in range(SPLIT_LEVELS):
            cuts = {column: self._candidate_cuts(column, generator) for column in self._columns}
            measured = self.ledger.add_noise(
                self._half_sums(cuts, margins),
                self._sensitivity,
                self._level_budget.event,
                name="noisy gradient and hessian histogram of half bins",
                proof=BOOSTING_PROOF,
            )
            sums = measured.values / (2 * MAX_GRADIENT)
            self._split_significant(cuts, sums, measured.variance / (2 * MAX_GRADIENT) ** 2)
        return self.data

    def _candidate_cuts(self, column: int, generator: np.random.Generator) -> Floats:
        """Return a random cut inside each interval of a numeric column, shape (n_bins - 1,).

        A point is drawn uniformly from the middle part of the interval and moved to the nearest
        fine cut. The outermost intervals end at the smallest and the largest public value. If
        either end of an interval is infinite, the cut is not finite.
        """
        cuts = self.data.binner.columns[column].cuts
        values = self.training.X_public[:, column]
        is_finite = np.isfinite(values)
        finite = values[is_finite]
        low = np.minimum(finite.min(), cuts[:1])
        high = np.maximum(finite.max(), cuts[-1:])
        edges = np.concatenate([low, cuts, high])
        n_intervals = len(edges) - 1
        fractions = generator.uniform(MIN_CUT_FRACTION, MAX_CUT_FRACTION, n_intervals)
        with np.errstate(over="ignore", invalid="ignore"):
            widths = np.diff(edges)
            points = edges[:-1] + fractions * widths
        fine_bins = self.data.rows.fine_binner.columns[column]
        return snap_to_edges(fine_bins.cuts, points)

    def _half_sums(self, cuts: dict[int, Floats], margins: NDArray[np.int32]) -> Integers:
        """Return the gradient and hessian sums of both halves of every bin.

        The result, shape (2 * n_targets, n_halves), has the gradient sums of all targets, followed
        by the hessian sums. Within each column, the halves of bin i have the indices 2 i and 2 i +
        1.
        """
        rows, loss = self.data.rows, self.loss
        halves_by_column = {
            column: self._half_of_fine_bin(column, candidates)
            for column, candidates in cuts.items()
        }

        def sum_chunk(chunk: slice) -> Integers:
            """Return the sums over a single chunk of rows, shape (2, n_targets, n_halves)."""
            packed = loss.packed_gradient_hessian(margins[:, chunk], rows.y[chunk])
            sums = []
            for column, half_of_fine_bin in halves_by_column.items():
                fine_bins = rows.columns[column][chunk]
                half_of_row = np.take(half_of_fine_bin, fine_bins)
                # the last fine bin contains the missing values and belongs to the first half of the
                # last bin
                n_halves = int(half_of_fine_bin[-1]) + 2
                sums.append(sum_packed(half_of_row, n_halves, packed))
            return np.concatenate(sums, axis=2)

        table: Integers = rows.sum_over_chunks(sum_chunk)
        return table.reshape(-1, table.shape[-1])

    def _half_of_fine_bin(self, column: int, candidates: Floats) -> BinCodes:
        """Return the half bin containing each fine bin of a column, shape (n_fine_bins,).

        The lower half of bin i is numbered 2 i, and the upper half 2 i + 1. The last bin and the
        last fine bin contain the missing values, and this bin is not split.
        """
        bin_of_fine_bin = self.data.bin_of_fine_bin[column]
        bins = bin_of_fine_bin.astype(np.intp)
        fine_binner = self.data.rows.fine_binner
        fine_cuts = fine_binner.columns[column].cuts
        fine_bin_starts = np.concatenate([[-np.inf], fine_cuts, [-np.inf]])
        cut_of_bin = np.append(candidates, np.inf)
        is_upper_half = fine_bin_starts >= cut_of_bin[bins]
        halves = 2 * bins + is_upper_half
        max_half = halves[-1] + 1
        return halves.astype(np.min_scalar_type(max_half))

    def _split_significant(self, cuts: dict[int, Floats], sums: Floats, variance: float) -> None:
        """Split each bin whose halves have significantly different ratios of gradient to hessian.

        Significance is determined by a chi-squared test with one degree of freedom per target.
        """
        columns = list(self.data.binner.columns)
        n_targets = self.loss.n_targets
        start = 0
        for position, candidates in cuts.items():
            bins = columns[position]
            size = len(candidates) + 1
            stop = start + 2 * size
            # both with the shape (n_targets, size, 2), for the two halves of each bin
            gradients, hessians = sums[:, start:stop].reshape(2, n_targets, size, 2)
            start = stop
            # noise can make a hessian negative, but the hessian is used as a denominator
            hessians = np.maximum(self.loss.hessian_unit * hessians, 0.05)
            # Wald test of equal Newton steps of the two halves
            gradient_variances = variance + self.gradient_variance * hessians
            variances = (gradient_variances / hessians**2).sum(axis=-1)
            differences = (gradients / hessians) @ [1, -1]  # lower half minus upper half
            statistic = (differences**2 / variances).sum(axis=0)
            is_split = chi2.sf(statistic, n_targets) < MAX_P_VALUE
            is_split = is_split[:-1]  # the bin of missing values cannot be split
            # a bin between neighbouring floats or with an infinite end cannot be cut
            is_new_cut = ~np.isin(candidates, bins.cuts)
            is_split &= np.isfinite(candidates) & is_new_cut
            new_cuts = np.union1d(bins.cuts, candidates[is_split])
            n_bins = len(new_cuts) + 2
            columns[position] = ColumnBins(bins.column, new_cuts, n_bins, bins.bin_of_category)
        self.data = self.training.with_bins(Binner(tuple(columns)))


MAX_INTERACTION_TREES = 30
"""Maximum number of trees for each depth."""

LAST_PASSES_SHARE = Fraction(1, 4)
"""Share of the budget reserved for the passes after the trees."""

LEAF_SUMS_SHARE = Fraction(1, 3)
"""Budget for a tree's noisy leaf sums, as a multiple of the budget for drawing the tree."""

TREE_SAMPLE_ROWS = 1 << 17
"""Maximum size of the random sample of rows used to draw a tree, which limits the run time."""

MAX_SPLITS_OF_DEPTH = {2: 600, 3: 48}
"""Maximum number of candidate splits, for each tree depth. The size of the joint split table is
this number to the power of the depth."""


@dataclass(eq=False, repr=False)
class _BoostedTerm:
    """Column or tree of the model, with its scores and with the bins or leaves of all rows."""

    posterior: TermPosterior  # posterior distribution of the term's scores
    public_bins: BinCodes  # (m,): bins of the public rows
    # function that maps a slice of the private rows to bins, shape (n_rows_of_slice,)
    bins_of_rows: Callable[[slice], BinCodes]
    tree: DecisionTree | None = None  # the tree, or None for a column

    @property
    def integer_scores(self) -> Integers:
        """Scores rounded to integer multiples of 1 / MARGIN_UNIT, shape (n_targets, size)."""
        return np.rint(MARGIN_UNIT * self.posterior.scores).astype(np.int64)


@dataclass(eq=False, repr=False)  # a repr would print private rows
class NewtonBooster:
    """Newton boosting of one term (column bins or tree leaves) at a time.

    An update releases noisy gradient and hessian sums over the bins of a term, takes a Newton step
    to the posterior mean of the term's scores, and adjusts the margins of all rows.
    """

    start: AdditiveModel  # initial scores
    data: BinnedData
    margins: NDArray[np.int32]  # (n_targets, n): margins of the private rows, updated in place
    row_weights: Floats  # (m,): weights of the public rows, which sum to 1
    n_public: float  # effective number of public rows, or 0 if there is only a reference grid
    loss: Loss
    ledger: Ledger  # ledger that records the privacy loss of each release and draws the noise
    gradient_variance: float  # ratio of the variance of a row's gradient to the hessian
    # Posterior variance of each column's centred initial scores, averaged over the public rows. If
    # empty, `error_covariances` do not include the errors of the initial scores.
    start_variances: Sequence[float] = ()

    def __post_init__(self) -> None:
        self._public_margins = self.start.raw_predict(self.data.public_codes)
        self._n_columns = len(self.data.binner.columns)
        # columns first, then trees
        self._terms = [self._column_term(position) for position in range(self._n_columns)]

    @property
    def model(self) -> AdditiveModel:
        """Initial model, updated with the current integer scores of columns and all new trees."""
        scores = [term.integer_scores for term in self._terms]
        trees = (term.tree for term in self._terms if term.tree is not None)
        return replace(
            self.start,
            scores=np.hstack(scores[: self._n_columns]),
            trees=(*self.start.trees, *trees),
            leaf_scores=(*self.start.leaf_scores, *scores[self._n_columns :]),
        )

    @property
    def covariances(self) -> list[Floats]:
        """Posterior covariance of each term's scores. Columns precede trees.

        The covariance of a term with `size` bins or leaves has shape (n_targets, size, size).
        """
        return [term.posterior.covariance for term in self._terms]

    @property
    def error_covariances(self) -> list[Floats]:
        """Expected products of the errors of each term's scores, in the format of `covariances`."""
        return [term.posterior.error_covariance for term in self._terms]

    @property
    def public_bins(self) -> list[BinCodes]:
        """Bins or leaves of the public rows in each term. Columns precede trees."""
        return [term.public_bins for term in self._terms]

    def fit(
        self,
        budget: StageBudget,
        effective_rows: float,
        splits: BinSplits | None,
        max_passes: int | None,
        all_data: BinnedData | None = None,
    ) -> None:
        """Spend a budget on one pass over all columns, on new trees, and on further passes.

        As many rows with balanced labels as `effective_rows` would carry as much information as the
        actual rows. If `all_data` is given, the last pass uses these rows, and all other passes use
        a subsample.
        """
        # if there are trees, at least one pass follows them
        min_passes = 1 if splits is None else 2
        n_passes = max(min(N_PASSES, max_passes or N_PASSES), min_passes)
        generator = np.random.default_rng(0)  # a public seed that determines the order of terms
        pass_share = Fraction(1, n_passes)
        if n_passes == 1:
            self._use_all_rows(all_data)
        for position in generator.permutation(self._n_columns).tolist():
            self.update_term(position, budget.fraction(pass_share / self._n_columns))
        unspent_share = 1 - pass_share

        if splits is not None:
            persons = effective_rows / self.ledger.rows_per_person
            for cover in self._tree_covers(splits):
                unspent_share = self._add_trees(budget, unspent_share, persons, cover)

        for passes_left in range(n_passes - 1, 0, -1):
            is_on_all_rows = passes_left == 1 and all_data is not None
            if is_on_all_rows:
                for term in self._terms[: self._n_columns]:
                    term.posterior.reset_statistics()  # sums over all rows have another scale
            allocation = self._allocate(budget.fraction(unspent_share), passes_left)
            pass_share = unspent_share / passes_left
            unspent_share -= pass_share
            order = generator.permutation(len(self._terms)).tolist()
            if is_on_all_rows:
                # the leaves contain enough rows for the sampling error to be negligible, so trees
                # are updated on the subsample, before the columns
                order.sort(key=lambda position: position < self._n_columns)
            for position in order:
                if is_on_all_rows and position < self._n_columns:
                    self._use_all_rows(all_data)
                    is_on_all_rows = False
                if allocation[position]:
                    share = pass_share * allocation[position]
                    self.update_term(position, budget.fraction(share))

    def _allocate(self, budget: StageBudget, n_passes: int) -> list[Fraction]:
        """Divide the budget of a pass among the terms by Neyman allocation.

        The allocation minimises the total expected loss of all terms after the remaining passes.

        Parameters
        ----------
        n_passes : int
            Number of remaining passes, all of which use the same allocation.
        """
        sensitivity = self.ledger.for_person(self.loss.sensitivity)
        equal_budget = budget.fraction(Fraction(1, n_passes * len(self._terms)))
        steps = ALLOCATION_STEPS
        # use coarser steps if the noise of the smallest allocation cannot be sampled
        while steps > 1 and not noise_is_representable(
            equal_budget.fraction(Fraction(1, steps)).event, sensitivity
        ):
            steps //= 2
        units = allocation_grid(len(self._terms), steps)
        shares = units / units[-1] / n_passes  # fraction of the budget that a term may have
        # the precision of Laplace noise is proportional to ε², and that of Gaussian noise to μ²
        relative_precisions = shares**2 if budget.pure else shares
        precisions = n_passes * relative_precisions * (2 * MAX_GRADIENT) ** 2
        precisions /= budget.variance(sensitivity)
        losses = np.array([term.posterior.expected_loss(precisions) for term in self._terms])
        return neyman_allocation(losses, units)

    def _use_all_rows(self, all_data: BinnedData | None) -> None:
        """Replace the subsample with all private rows and their margins under the current model.

        If no subsample was used, which ``None`` indicates, nothing changes.
        """
        if all_data is None:
            return
        self.data, self.margins = all_data, all_data.margins(self.model)
        for position, term in enumerate(self._terms):
            if term.tree is None:
                term.bins_of_rows = partial(all_data.codes_of_column, position)
            else:
                term.bins_of_rows = all_data.leaf_indexer(term.tree.splits)

    def update_term(self, position: int, budget: StageBudget) -> TermPosterior:
        """Release the gradient and hessian sums of a term, and take a Newton step on its scores.

        The margins of private and public rows are updated accordingly. Columns precede trees in the
        positions of the terms.
        """
        term = self._terms[position]
        bins_of_rows, size = term.bins_of_rows, term.posterior.scores.shape[1]
        rows, margins, loss = self.data.rows, self.margins, self.loss

        def sum_chunk(chunk: slice) -> Integers:
            """Return the sums over one chunk of rows, shape (2, n_targets, size)."""
            packed = loss.packed_gradient_hessian(margins[:, chunk], rows.y[chunk])
            return sum_packed(bins_of_rows(chunk), size, packed)

        measured = self.ledger.add_noise(
            rows.sum_over_chunks(sum_chunk),
            self.loss.sensitivity,
            budget.event,
            name="noisy gradient and hessian histogram",
            proof=BOOSTING_PROOF,
        )
        gradients, hessians = measured.values / (2 * MAX_GRADIENT)
        hessians = self.loss.hessian_unit * hessians
        old_scores = term.integer_scores
        variance = measured.variance / (2 * MAX_GRADIENT) ** 2
        expected = self._expected_hessians(term.public_bins, size)
        term.posterior.update(gradients, hessians, variance, expected, self.gradient_variance)
        change = term.integer_scores - old_scores
        self.data.add_scores(margins, change, bins_of_rows)
        self._public_margins += change[:, term.public_bins]
        return term.posterior

    def _expected_hessians(self, public_bins: BinCodes, size: int) -> Floats:
        """Use the public rows to predict the hessian sums of a term over the private rows.

        `PUBLIC_PSEUDO_ROWS` average public rows are added to every bin.
        """
        _, hessians = self.loss.gradient_hessian(self._public_margins)
        hessians = self.loss.hessian_unit * hessians / (2 * MAX_GRADIENT)
        weighted = self.row_weights * hessians  # (n_targets, m)
        mean_hessians = weighted.sum(axis=1, keepdims=True)
        pseudo_weight = PUBLIC_PSEUDO_ROWS / max(self.n_public, 1.0)
        by_target = [np.bincount(public_bins, row, minlength=size) for row in weighted]
        hessians_of_bins = np.array(by_target, dtype=np.float64)  # (n_targets, size), per row
        # at least 1e-9, since the sums are used as denominators
        hessians_of_bins += pseudo_weight * mean_hessians + 1e-9
        return self.data.rows.n * hessians_of_bins

    def _add_trees(
        self, budget: StageBudget, share: Fraction, persons: float, cover: TreeCover
    ) -> Fraction:
        """Draw trees and fit their leaf values until a tree does not improve the model.

        A tree improves the model if the log Bayes factor in favour of its leaf values, compared
        with zero values, is positive. The share `tree_share` of the budget is spent on drawing a
        tree, and `LEAF_SUMS_SHARE` times this amount is spent on its leaf sums. The unspent share
        of the budget is given and returned. As many persons with balanced labels as `persons` would
        provide as much information as the actual persons.
        """
        n = self.data.rows.n
        n_rows = min(n, TREE_SAMPLE_ROWS)
        draw_share = tree_share(budget, persons * n_rows / n, cover.size)
        if draw_share is None:  # any affordable draw would be too noisy to find a good tree
            return share
        share_of_tree = draw_share * (1 + LEAF_SUMS_SHARE)
        for _ in range(MAX_INTERACTION_TREES):
            if share - share_of_tree < LAST_PASSES_SHARE:
                break
            # the set is random, since neighbouring tables need not have the same order of rows
            sample = np.arange(n) if n_rows == n else self.ledger.subset(n, n_rows)
            tree = self._draw_tree(cover, budget.fraction(draw_share), sample)
            self._terms.append(self._tree_term(tree))
            leaf_budget = budget.fraction(draw_share * LEAF_SUMS_SHARE)
            posterior = self.update_term(len(self._terms) - 1, leaf_budget)
            share -= share_of_tree
            if posterior.gain <= 0:
                break
        return share

    def _draw_tree(
        self, cover: TreeCover, budget: StageBudget, sample: NDArray[np.intp]
    ) -> DecisionTree:
        """Draw a tree by the exponential mechanism, which uses sums of gradients as utilities.

        Each row contributes to a tree's utility the gradient for the label of the leaf that the row
        reaches.
        """
        gradients, _ = self.loss.gradient_hessian(self.margins[:, sample], self.data.rows.y[sample])
        codes, sizes = self.data.codes(sample), self.data.binner.sizes
        splits, depth = cover.splits, cover.max_depth
        sums = [joint_gradient_sums(splits, depth, codes, sizes, values) for values in gradients]
        table = np.array(sums)
        if len(table) == 1:  # two labels have opposite gradients
            table = np.concatenate([-table, table])
        path = self.ledger.draw(
            cover.family(table),
            budget.draw_as_gaussian,
            # a row adds the gradients of all other labels to the errors of a leaf; the sum of these
            # gradients is minus the gradient of the row's label, up to one rounding error for each
            # label
            2 * (MAX_GRADIENT + len(gradients)),
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return cover.hypothesis(path)

    def _tree_covers(self, splits: BinSplits) -> Iterator[TreeCover]:
        """Yield a cover for each depth, which contains all trees on the most balanced splits."""
        if not len(splits):
            return
        binner, codes = self.data.binner, self.data.public_codes
        labels = np.arange(max(self.loss.n_targets, 2))
        # at any depth, a split that divides the public rows more evenly has a larger prior
        prior = tree_cover(splits, codes, binner.names, labels, depth=2).prior
        by_prior = np.argsort(-prior, kind="stable")
        for depth, max_splits in MAX_SPLITS_OF_DEPTH.items():
            indices = np.sort(by_prior[:max_splits])
            yield tree_cover(splits[indices], codes, binner.names, labels, depth)

    def _column_term(self, position: int) -> _BoostedTerm:
        """Return the term of a column with its initial scores."""
        binner = self.data.binner
        bins = binner.columns[position]
        start, stop = binner.offsets[position], binner.offsets[position + 1]
        scores = self.start.scores[:, start:stop] / MARGIN_UNIT
        public_bins = self.data.public_codes[position]
        kernel = np.eye(bins.size)  # scores of categories are independent
        guess = scores.copy()
        if not bins.column.categorical:
            n_intervals = bins.size - 1  # the last bin is for missing values
            mass = np.bincount(public_bins, self.row_weights, minlength=bins.size)
            mass = mass[:n_intervals]
            mass = mass / max(mass.sum(), 1e-9)
            public_ranks = np.cumsum(mass) - mass / 2
            # with public ranks alone, an interval that contains nearly all rows would be close to
            # all other intervals, and the prior would smooth across this interval; the ranks are
            # therefore averaged with ranks among the intervals
            index_ranks = (np.arange(n_intervals) + 0.5) / n_intervals
            ranks = (public_ranks + index_ranks) / 2
            kernel = smoothing_prior(ranks)
            for target_scores in guess:
                target_scores[:-1] = piecewise_linear_guess(target_scores[:-1], ranks)
        variance = self.start_variances[position] if self.start_variances else None
        posterior = self._posterior(
            kernel, scores, guess, public_bins=public_bins, start_variance=variance
        )
        bins_of_rows = partial(self.data.codes_of_column, position)
        return _BoostedTerm(posterior, public_bins, bins_of_rows)

    def _tree_term(self, tree: DecisionTree) -> _BoostedTerm:
        """Return the term of a new tree with leaf scores of 0."""
        n_leaves = len(tree.leaves)
        scores = np.zeros((self.loss.n_targets, n_leaves))
        public_leaves = apply_tree(tree.splits, self.data.public_codes)
        posterior = self._posterior(np.eye(n_leaves), scores, scores, public_leaves)
        return _BoostedTerm(posterior, public_leaves, self.data.leaf_indexer(tree.splits), tree)

    def _posterior(
        self,
        kernel: Floats,  # (size, size)
        scores: Floats,  # (n_targets, size)
        guess: Floats,  # (n_targets, size)
        public_bins: BinCodes,  # (m,)
        start_variance: float | None = None,
    ) -> TermPosterior:
        """Return the initial posterior of a term."""
        shares = np.bincount(public_bins, self.row_weights, minlength=len(kernel))
        public_rows = (shares * self.n_public).astype(np.float64)
        factor = self.loss.hessian_factor
        return TermPosterior(kernel, scores, guess, public_rows, factor, start_variance)


def fit_newton(
    training: TrainingData,
    ledger: Ledger,
    budget: StageBudget,
    loss: Loss,
    *,
    trees: bool,
    max_rounds: int | None,
) -> FittedModel:
    """Fit the additive posterior with part of a budget, and run Newton boosting with the rest.

    1. Release the class balance or, for regression, the range of the outcomes. If the table is
       large, draw a random sample of the rows, which is used by all steps except the last boosting
       pass.
    2. If there are public rows, test for covariate shift and fit the additive posterior.
    3. Refine the bins by adding cuts at quantiles of the public rows.
    4. For regression, release the residual variance, and clip large residuals.
    5. Split the bins whose halves have significantly different noisy sums.
    6. Starting from the scores of the additive posterior, run Newton boosting: one pass over the
       columns, then trees, then further passes.
    """
    # 1. class balance or range of the outcomes, and a sample of the rows
    outcome_range, class_balance, first_share = noisy_start(training, ledger, budget)
    balance_factor = min(1.0, class_balance / BALANCED_FOR_NEWTON)
    sample = _sample_rows(training, ledger, budget, loss=loss, balance_factor=balance_factor)
    effective_rows = sample.rows.n * balance_factor

    # 2. covariate shift and additive posterior
    start_share = _start_share(sample, ledger, budget, effective_rows=effective_rows)
    start_share = min(start_share, 1 - first_share)
    start_budget = budget.fraction(start_share)
    start = _fit_start(sample, outcome_range, ledger, start_budget, class_balance, max_rounds)
    budget = budget.fraction(1 - first_share - start_share)
    if not budget.amount:
        return start.with_loss(loss)

    # 3. finer bins
    coarse, weights = start.data.binner, start.design.weights
    data = sample.with_bins(refine_bins(coarse, sample.X_public, weights))
    model = _refined_model(start.model, coarse, data.binner)
    model = loss.from_logistic(model, data.public_codes, weights, outcome_range)

    # 4. residual variance, which is known for labels and released for outcomes
    final_loss, gradient_variance = loss, loss.gradient_variance
    if isinstance(loss, OutcomeLoss):
        variance_budget = budget.fraction(CLASS_COUNT_SHARE)
        dispersion = noisy_dispersion(model, data, weights, loss, ledger, variance_budget)
        budget = budget.fraction(1 - CLASS_COUNT_SHARE)
        loss = loss.clipped(dispersion.upper)
        gradient_variance = loss.relative_gradient_variance(
            dispersion.estimate, model.raw_predict(data.public_codes), weights
        )

    # 5. bins split at significant differences
    margins = data.margins(model)
    splitter = BinSplitter(sample, data, loss, ledger, budget, gradient_variance)
    if splitter.is_affordable(effective_rows):
        unsplit, data = data.binner, splitter.split(margins)
        model = _refined_model(model, unsplit, data.binner)
        budget = budget.fraction(1 - BIN_SPLIT_SHARE)

    # 6. Newton boosting
    n_public = start.design.effective_size if training.n_joint_public else 0.0
    start_variances = _start_variances(start, final_loss) if loss.has_intervals else []
    booster = NewtonBooster(
        start=model,
        data=data,
        margins=margins,
        row_weights=weights,
        n_public=n_public,
        loss=loss,
        ledger=ledger,
        gradient_variance=gradient_variance,
        start_variances=start_variances,
    )
    splits = None
    if trees:  # chosen on coarse bins but expressed in finer bins
        coarse_splits = candidate_splits(coarse, start.data.public_codes)
        splits = refine_splits(coarse_splits, coarse, data.binner)
    all_data = None if sample is training else replace(data, rows=training.rows)
    booster.fit(budget, effective_rows, splits, max_rounds, all_data)
    variance = float(mean_variances(booster.public_bins, booster.covariances, weights).sum())
    return FittedModel(
        model=booster.model,
        data=data,
        loss=final_loss,
        covariances=booster.covariances,
        drift=start.drift,
        row_weights=weights,
        variance=variance,
        error_covariances=booster.error_covariances,
    )


def _sample_rows(
    training: TrainingData, ledger: Ledger, budget: StageBudget, loss: Loss, balance_factor: float
) -> TrainingData:
    """Return a random sample of at most half of the rows, or all rows if there are too few.

    The `balance_factor` is the number of effective rows per actual row, which is smaller for
    unbalanced classes.
    """
    n_updates = N_PASSES * len(training.rows.columns)
    update_budget = budget.fraction(Fraction(1, n_updates))
    sensitivity = ledger.for_person(loss.sensitivity)
    noise_variance = update_budget.variance(sensitivity) / (2 * MAX_GRADIENT) ** 2
    n_effective_rows = subsample_size(noise_variance, MAX_FINE_BINS)
    n_rows = math.ceil(n_effective_rows / balance_factor)
    if 2 * n_rows > training.rows.n:
        return training
    # the set is random, since neighbouring tables need not have the same order of rows
    return replace(training, rows=training.rows.take(ledger.subset(training.rows.n, n_rows)))


def _start_share(
    training: TrainingData, ledger: Ledger, budget: StageBudget, effective_rows: float
) -> Fraction:
    """Return the share of the budget to spend on the initial additive fit."""
    if not training.n_joint_public:  # the reference grid has independent columns
        return Fraction(0)
    columns = ledger.for_person(count_sensitivity(len(training.rows.columns)))
    gain = training.loss.clipping_gain
    if not can_afford_boosting(budget, gain * effective_rows, columns):
        return Fraction(1)  # one label is too rare for boosting
    m = WeightedPublicRows.from_data(training.binned).effective_size
    return additive_share(budget, effective_rows, m, columns)


def _fit_start(
    training: TrainingData,
    outcome_range: OutcomeRange,
    ledger: Ledger,
    budget: StageBudget,
    class_balance: float,
    max_rounds: int | None,
) -> LogisticFit:
    """Spend a budget on the initial additive fit.

    Without a budget, the initial model is constant and predicts the mean of the outcomes or, for
    classification, equal probabilities.
    """
    if budget.amount:
        training = restrict_outcomes(training, outcome_range)
        fit = fit_histograms(
            training, ledger, budget, Fraction(1), class_balance, max_rounds, outcome_range
        )
        return replace(fit.result(), outcome_range=outcome_range)
    data = training.binned
    null = null_model(data.binner.offsets, training.n_targets)
    null = replace(null, intercepts=null.intercepts + outcome_range.mean_margin)
    design = WeightedPublicRows.from_data(data)
    return LogisticFit(null, data, design, covariances=[], outcome_range=outcome_range)


def _start_variances(start: LogisticFit, loss: Loss) -> list[float]:
    """Return the posterior variance of each column's initial scores in units of a loss.

    The scores are centred, and their variances are averaged over the public rows. The list is empty
    without an initial fit.
    """
    columns = zip(start.data.public_codes, start.with_loss(loss).covariances, strict=False)
    weights = start.design.weights
    return [
        float(mean_variances([codes], [covariance], weights).sum()) for codes, covariance in columns
    ]


def _refined_model(model: AdditiveModel, coarse: Binner, fine: Binner) -> AdditiveModel:
    """Return the same model, expressed in bins that refine the `coarse` bins."""
    return replace(model, scores=refine_scores(model.scores, coarse, fine), offsets=fine.offsets)
