"""Growth: what a first fit leaves of the budget goes to visits of blocks, columns and drawn trees.

Every step is noise, or a draw that is accounted as noise: what is asked next, and whether anything
is, may depend on all that was released (docs/proofs/moments.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import BinSplits, apply_tree, joint_gradient_sums, tree_cover
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import Codes
from skpublicdp.boosting.budget_split import N_PASSES, StageBudget, tree_share
from skpublicdp.boosting.histograms import PROOF
from skpublicdp.boosting.loss import Loss, sum_packed
from skpublicdp.boosting.model import MARGIN_UNIT, MAX_GRADIENT, AdditiveModel
from skpublicdp.boosting.neyman_allocation import (
    ALLOCATION_STEPS,
    allocation_grid,
    neyman_allocation,
)
from skpublicdp.boosting.term_posterior import (
    TermPosterior,
    piecewise_linear_guess,
    smoothing_prior,
)
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_INTERACTION_TREES = 30

LAST_PASSES_SHARE = Fraction(1, 4)
"""Share of the budget that trees leave for visits."""

TREE_SAMPLE_ROWS = 1 << 17
"""A tree is drawn on so many rows at most, evenly spread; each tree on the next ones."""

MAX_SPLITS_OF_DEPTH = {2: 600, 3: 48}
"""How many questions trees of a depth may ask: tables grow with a power of that."""


class NewtonBooster:
    """Scores of cells and leaves, visited one block at a time.

    Parameters
    ----------
    model : AdditiveModel
        Where to begin.
    cells : BinnedData
        Private and public rows as cells.
    margins : ndarray of int32, shape (n_targets, n)
        Those of the private rows, which move along with the scores.
    row_weights : ndarray of float64, shape (m,)
        Weights of the public rows, of sum 1.
    n_public : float
        How many public rows of equal weight say as much; 0 if they are a mere reference.
    loss : Loss
        What is fitted.
    ledger : Ledger
        Pays.
    sampling : float
        Variance of a residual beside its slope.
    """

    def __init__(
        self,
        model: AdditiveModel,
        cells: BinnedData,
        margins: NDArray[np.int32],
        row_weights: Floats,
        n_public: float,
        loss: Loss,
        ledger: Ledger,
        sampling: float,
    ) -> None:
        self._model, self._cells, self._margins = model, cells, margins
        self._row_weights, self._n_public = row_weights, n_public
        self._loss, self._ledger, self._sampling = loss, ledger, sampling
        self._public_margins = model.raw_predict(cells.public_codes)
        self._trees: list[DecisionTree] = []
        self._terms: list[TermPosterior] = []
        # the cell of each row, for each block
        self._bin_of_row: list[Callable[[slice], Codes]] = []
        self._bin_of_public_row: list[Codes] = []
        starts = cells.binner.offsets
        for position, feature in enumerate(cells.binner.columns):
            line = cells.public_codes[position]
            kernel = np.eye(feature.size)
            scores = model.scores[:, starts[position] : starts[position + 1]] / MARGIN_UNIT
            guess = scores.copy()
            if not feature.column.categorical:
                ranks = self._ranks(line, feature.size - 1)
                kernel = smoothing_prior(ranks)
                for of_target in guess:  # the last cell is for missing values
                    of_target[:-1] = piecewise_linear_guess(of_target[:-1], ranks)
            self._add(kernel, scores, guess, partial(cells.codes_of_column, position), line)
        self._n_columns = len(self._terms)

    @property
    def model(self) -> AdditiveModel:
        """The model so far."""
        return self._so_far()

    def _so_far(self) -> AdditiveModel:
        scores = [_integers(block) for block in self._terms]
        return replace(
            self._model,
            scores=np.hstack(scores[: self._n_columns]),
            trees=(*self._model.trees, *self._trees),
            leaf_scores=(*self._model.leaf_scores, *scores[self._n_columns :]),
        )

    @property
    def covariances(self) -> list[Floats]:
        """What is believed of the scores of each block, columns first, (n_targets, size, size)."""
        return [block.covariance for block in self._terms]

    def fit(
        self,
        budget: StageBudget,
        effective: float,
        asked: BinSplits | None,
        most: int | None,
        whole: BinnedData | None = None,
    ) -> None:
        """Spend a budget.

        Parameters
        ----------
        budget : StageBudget
            All of it.
        effective : float
            How many rows with even labels would say as much.
        asked : Questions, optional
            What trees may ask; without it none is drawn.
        most : int, optional
            Most sweeps over all columns.
        whole : BinnedData, optional
            Rows of the last sweep over columns, if there are more of them than so far.
        """
        # after trees there is one more sweep at least
        sweeps = max(min(N_PASSES, most or N_PASSES), 1 if asked is None else 2)
        order = np.random.default_rng(0)
        left, first = Fraction(1), Fraction(1, sweeps)
        if sweeps == 1:
            self._use_all_rows(whole)
        for which in order.permutation(self._n_columns).tolist():
            self.update_term(which, budget.fraction(first / self._n_columns))
        left -= first
        if asked is not None:
            persons = effective / self._ledger.rows_per_person
            for cover in self._tree_covers(asked):
                left = self._grow_trees(budget, left, persons, cover)
        for more in range(sweeps - 1, 0, -1):
            widened = more == 1 and whole is not None
            for block in self._terms[: self._n_columns] if widened else ():
                block.reset_statistics()  # sums to come are of more rows
            shares, now = self._allocate(budget.fraction(left), more), left / more
            left -= now
            visited = [w for w in order.permutation(len(self._terms)).tolist() if shares[w]]
            if widened:
                # a leaf has so many rows that more hardly help: only columns see them all
                for which in (w for w in visited if w >= self._n_columns):
                    self.update_term(which, budget.fraction(now * shares[which]))
                self._use_all_rows(whole)
                visited = [w for w in visited if w < self._n_columns]
            for which in visited:
                self.update_term(which, budget.fraction(now * shares[which]))

    def _allocate(self, budget: StageBudget, sweeps: int) -> list[Fraction]:
        """Part a budget for so many sweeps, all alike, among the blocks."""
        moved = self._ledger.for_person(self._loss.sensitivity)
        finest, equal = ALLOCATION_STEPS, budget.fraction(Fraction(1, sweeps * len(self._terms)))
        while finest > 1 and not drawable(equal.fraction(Fraction(1, finest)).event, moved):
            finest //= 2
        units = allocation_grid(len(self._terms), finest)
        visits = units / units[-1] / sweeps
        precisions = sweeps * (visits**2 if budget.pure else visits) * (2 * MAX_GRADIENT) ** 2
        precisions /= budget.variance(moved)
        return neyman_allocation(
            np.array([block.expected_loss(precisions) for block in self._terms]), units
        )

    def _use_all_rows(self, whole: BinnedData | None) -> None:
        """Go on with all rows."""
        if whole is None:
            return
        self._cells, self._margins = whole, whole.margins(self._so_far())
        self._bin_of_row = [
            *(partial(whole.codes_of_column, position) for position in range(self._n_columns)),
            *(whole.leaf_indexer(tree.splits) for tree in self._trees),
        ]

    def update_term(self, which: int, budget: StageBudget) -> TermPosterior:
        """Release the sums of a block, and move its scores."""
        block, line = self._terms[which], self._bin_of_row[which]
        size = block.scores.shape[1]
        rows, margins = self._cells.rows, self._margins

        def of_chunk(at: slice) -> Integers:
            return sum_packed(
                line(at), size, self._loss.packed_gradient_hessian(margins[:, at], rows.y[at])
            )

        measured = self._ledger.add_noise(
            rows.sum_over_chunks(of_chunk),
            self._loss.sensitivity,
            budget.event,
            name="noisy sums of residuals and slopes over cells",
            proof=PROOF,
        )
        sums, slopes = measured.values / (2 * MAX_GRADIENT)
        before = _integers(block)
        variance = measured.variance / (2 * MAX_GRADIENT) ** 2
        block.update(sums, slopes, variance, self._expected(which, size), self._sampling)
        change = _integers(block) - before
        self._cells.add_scores(margins, change, line)
        self._public_margins += change[:, self._bin_of_public_row[which]]
        return block

    def _expected(self, which: int, size: int) -> Floats:
        """Return the sums of slopes that public rows lead to expect, a third of a row besides."""
        _, slopes = self._loss.gradient_hessian(self._public_margins)
        weighed, line = (
            self._row_weights * slopes / (2 * MAX_GRADIENT),
            self._bin_of_public_row[which],
        )
        found = np.array([np.bincount(line, of_target, minlength=size) for of_target in weighed])
        found += 0.3 / max(self._n_public, 1.0) * weighed.sum(axis=1, keepdims=True) + 1e-9
        return self._cells.rows.n * found

    def _grow_trees(
        self, budget: StageBudget, left: Fraction, persons: float, cover: TreeCover
    ) -> Fraction:
        """Draw trees until one explains nothing; return what is left of the budget."""
        n = self._cells.rows.n
        rows = min(n, TREE_SAMPLE_ROWS)
        share = tree_share(budget, persons * rows / n, cover.size)
        if share is None:
            return left
        for _ in range(MAX_INTERACTION_TREES):
            if left - share * Fraction(4, 3) < LAST_PASSES_SHARE:
                break
            # at random: fixed places hold other rows where a table is sorted by a value
            chosen = np.arange(n) if rows == n else self._ledger.subset(n, rows)
            tree = self._draw(cover, budget.fraction(share), chosen)
            self._trees.append(tree)
            none = np.zeros((self._loss.n_targets, len(tree.leaves)))
            public_line = apply_tree(tree.splits, self._cells.public_codes)
            line = self._cells.leaf_indexer(tree.splits)
            self._add(np.eye(len(tree.leaves)), none, none, line, public_line)
            block = self.update_term(len(self._terms) - 1, budget.fraction(share / 3))
            left -= share * Fraction(4, 3)
            if block.gain <= 0:
                break
        return left

    def _draw(
        self, cover: TreeCover, budget: StageBudget, chosen: NDArray[np.intp]
    ) -> DecisionTree:
        """Draw a tree with large sums of residuals in its leaves, each towards its label."""
        residuals, _ = self._loss.gradient_hessian(
            self._margins[:, chosen], self._cells.rows.y[chosen]
        )
        codes, sizes = self._cells.codes(chosen), self._cells.binner.sizes
        table = np.array(
            [
                joint_gradient_sums(cover.splits, cover.max_depth, codes, sizes, line)
                for line in residuals
            ]
        )
        if len(table) == 1:
            table = np.concatenate([-table, table])
        path = self._ledger.draw(
            cover.family(table),
            budget.draw_as_gaussian,
            # a row counts for a label by the residuals of all others: its own, and how far their
            # sum is from 0, each being rounded
            2 * (MAX_GRADIENT + len(residuals)),
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return cover.hypothesis(path)

    def _tree_covers(self, asked: BinSplits) -> Iterator[TreeCover]:
        """Yield trees of each depth, with the questions that part the public rows most evenly."""
        if not len(asked):
            return
        features, codes = self._cells.binner, self._cells.public_codes
        labels = np.arange(max(self._loss.n_targets, 2))
        prior = tree_cover(asked, codes, features.names, labels, 2).prior
        for depth, most in MAX_SPLITS_OF_DEPTH.items():
            few = np.sort(np.argsort(-prior, kind="stable")[:most])
            yield tree_cover(asked[few], codes, features.names, labels, depth)

    def _add(
        self,
        kernel: Floats,
        scores: Floats,
        guess: Floats,
        line: Callable[[slice], Codes],
        public_line: Codes,
    ) -> None:
        size = len(kernel)
        rows = np.bincount(public_line, self._row_weights, minlength=size) * self._n_public
        stretch = self._loss.hessian_factor
        self._terms.append(TermPosterior(kernel, scores, guess, rows.astype(np.float64), stretch))
        self._bin_of_row.append(line)
        self._bin_of_public_row.append(public_line)

    def _ranks(self, public_line: Codes, bins: int) -> Floats:
        """Return where cells lie: half by public mass, half by their number.

        By mass alone all others would be neighbours of a cell that has nearly all rows.
        """
        mass = np.bincount(public_line, self._row_weights, minlength=bins + 1)[:bins]
        mass = mass / max(mass.sum(), 1e-9)
        ranks: Floats = (np.cumsum(mass) - mass / 2 + (np.arange(bins) + 0.5) / bins) / 2
        return ranks


def _integers(block: TermPosterior) -> Integers:
    return np.rint(MARGIN_UNIT * block.scores).astype(np.int64)
