"""Newton boosting of binned columns and interaction trees, one term at a time, with noisy sums.

Each step either adds Gaussian or Laplace noise, or draws a tree, which is accounted for like such
noise. Therefore the choice of the next step may depend on all values released so far
(docs/proofs/moments.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import (
    BinSplits,
    apply_tree,
    joint_gradient_sums,
    tree_cover,
)
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import (
    BinCodes,
)
from skpublicdp.boosting.budget_split import (
    N_PASSES,
    StageBudget,
    tree_share,
)
from skpublicdp.boosting.histograms import (
    BOOSTING_PROOF,
)
from skpublicdp.boosting.loss import Loss, sum_packed
from skpublicdp.boosting.model import MARGIN_UNIT, MAX_GRADIENT, AdditiveModel
from skpublicdp.boosting.term_posterior import (
    ALLOCATION_STEPS,
    PUBLIC_PSEUDO_ROWS,
    TermPosterior,
    allocation_grid,
    neyman_allocation,
    piecewise_linear_guess,
    smoothing_prior,
)
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.typing import Floats, Integers

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

        Parameters
        ----------
        effective_rows : float
            Number of rows with balanced labels that would carry as much information as the actual
            rows.
        splits : BinSplits, optional
            Candidate splits for interaction trees, or None for a model without trees.
        max_passes : int, optional
            Maximum number of passes over all columns.
        all_data : BinnedData, optional
            All rows, used for the last pass over the columns. The other passes use a subsample.
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

        The margins of private and public rows are updated accordingly.

        Parameters
        ----------
        position : int
            Position of the term among all terms, in which columns precede trees.

        Returns
        -------
        TermPosterior
            The updated posterior.
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
        tree, and `LEAF_SUMS_SHARE` times this amount is spent on its leaf sums.

        Parameters
        ----------
        share : Fraction
            Share of the budget that is still unspent.
        persons : float
            Number of persons with balanced labels who would provide as much information as the
            actual persons.
        cover : TreeCover
            Candidate trees.
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

        Parameters
        ----------
        cover : TreeCover
            Candidate trees.
        sample : ndarray of intp
            Indices of the private rows from which the utilities are computed.
        """
        gradients, _ = self.loss.gradient_hessian(self.margins[:, sample], self.data.rows.y[sample])
        codes, sizes = self.data.codes(sample), self.data.binner.sizes
        table = np.array(
            [
                joint_gradient_sums(cover.splits, cover.max_depth, codes, sizes, values)
                for values in gradients
            ]
        )
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
