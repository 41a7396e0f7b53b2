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

from skpublicdp.boosting.blocks import Block, smooth_kernel, through_steps
from skpublicdp.boosting.features import Codes
from skpublicdp.boosting.loss import Loss, sums_over
from skpublicdp.boosting.moments import PROOF
from skpublicdp.boosting.plan import SWEEPS, Budget, tree_share
from skpublicdp.boosting.questions import Questions, explained, leaves, tree_cover
from skpublicdp.boosting.rows import Cells
from skpublicdp.boosting.scores import HALF, UNIT, Model
from skpublicdp.boosting.shares import FINEST, amounts, least_risk
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_TREES = 30

LAST_SWEEPS = Fraction(1, 4)
"""Share of the budget that trees leave for visits."""

TREE_ROWS = 1 << 17
"""A tree is drawn on so many rows at most, evenly spread; each tree on the next ones."""

QUESTIONS = {2: 600, 3: 48}
"""How many questions trees of a depth may ask: tables grow with a power of that."""


class Growth:
    """Scores of cells and leaves, visited one block at a time.

    Parameters
    ----------
    model : Model
        Where to begin.
    cells : Cells
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
        model: Model,
        cells: Cells,
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
        self._public_margins = model.margins(cells.public_codes)
        self._trees: list[DecisionTree] = []
        self._blocks: list[Block] = []
        # the cell of each row, for each block
        self._lines: list[Callable[[slice], Codes]] = []
        self._public_lines: list[Codes] = []
        starts = cells.features.offsets
        for position, feature in enumerate(cells.features.features):
            line = cells.public_codes[position]
            kernel = np.eye(feature.size)
            scores = model.scores[:, starts[position] : starts[position + 1]] / UNIT
            guess = scores.copy()
            if not feature.column.categorical:
                ranks = self._ranks(line, feature.size - 1)
                kernel = smooth_kernel(ranks)
                for of_target in guess:  # the last cell is for missing values
                    of_target[:-1] = through_steps(of_target[:-1], ranks)
            self._add(kernel, scores, guess, partial(cells.line, position), line)
        self._n_columns = len(self._blocks)

    @property
    def model(self) -> Model:
        """The model so far."""
        return self._so_far()

    def _so_far(self) -> Model:
        scores = [_integers(block) for block in self._blocks]
        return replace(
            self._model,
            scores=np.hstack(scores[: self._n_columns]),
            trees=(*self._model.trees, *self._trees),
            leaf_scores=(*self._model.leaf_scores, *scores[self._n_columns :]),
        )

    @property
    def covariances(self) -> list[Floats]:
        """What is believed of the scores of each block, columns first, (n_targets, size, size)."""
        return [block.covariance for block in self._blocks]

    def run(
        self,
        budget: Budget,
        effective: float,
        asked: Questions | None,
        most: int | None,
        whole: Cells | None = None,
    ) -> None:
        """Spend a budget.

        Parameters
        ----------
        budget : Budget
            All of it.
        effective : float
            How many rows with even labels would say as much.
        asked : Questions, optional
            What trees may ask; without it none is drawn.
        most : int, optional
            Most sweeps over all columns.
        whole : Cells, optional
            Rows of the last sweep over columns, if there are more of them than so far.
        """
        # after trees there is one more sweep at least
        sweeps = max(min(SWEEPS, most or SWEEPS), 1 if asked is None else 2)
        order = np.random.default_rng(0)
        left, first = Fraction(1), Fraction(1, sweeps)
        if sweeps == 1:
            self._widen(whole)
        for which in order.permutation(self._n_columns).tolist():
            self.visit(which, budget.part(first / self._n_columns))
        left -= first
        if asked is not None:
            persons = effective / self._ledger.rows_per_person
            for cover in self._covers(asked):
                left = self._grow_trees(budget, left, persons, cover)
        for more in range(sweeps - 1, 0, -1):
            widened = more == 1 and whole is not None
            for block in self._blocks[: self._n_columns] if widened else ():
                block.forget()  # sums to come are of more rows
            shares, now = self._shares(budget.part(left), more), left / more
            left -= now
            visited = [w for w in order.permutation(len(self._blocks)).tolist() if shares[w]]
            if widened:
                # a leaf has so many rows that more hardly help: only columns see them all
                for which in (w for w in visited if w >= self._n_columns):
                    self.visit(which, budget.part(now * shares[which]))
                self._widen(whole)
                visited = [w for w in visited if w < self._n_columns]
            for which in visited:
                self.visit(which, budget.part(now * shares[which]))

    def _shares(self, budget: Budget, sweeps: int) -> list[Fraction]:
        """Part a budget for so many sweeps, all alike, among the blocks."""
        moved = self._ledger.for_person(self._loss.moved)
        finest, equal = FINEST, budget.part(Fraction(1, sweeps * len(self._blocks)))
        while finest > 1 and not drawable(equal.part(Fraction(1, finest)).event, moved):
            finest //= 2
        units = amounts(len(self._blocks), finest)
        visits = units / units[-1] / sweeps
        precisions = sweeps * (visits**2 if budget.pure else visits) * (2 * HALF) ** 2
        precisions /= budget.variance(moved)
        return least_risk(np.array([block.risks(precisions) for block in self._blocks]), units)

    def _widen(self, whole: Cells | None) -> None:
        """Go on with all rows."""
        if whole is None:
            return
        self._cells, self._margins = whole, whole.margins(self._so_far())
        self._lines = [
            *(partial(whole.line, position) for position in range(self._n_columns)),
            *(whole.leaf_lines(tree.splits) for tree in self._trees),
        ]

    def visit(self, which: int, budget: Budget) -> Block:
        """Release the sums of a block, and move its scores."""
        block, line = self._blocks[which], self._lines[which]
        size = block.scores.shape[1]
        rows, margins = self._cells.rows, self._margins

        def of_chunk(at: slice) -> Integers:
            return sums_over(line(at), size, self._loss.packed(margins[:, at], rows.y[at]))

        measured = self._ledger.add_noise(
            rows.fold(of_chunk),
            self._loss.moved,
            budget.event,
            name="noisy sums of residuals and slopes over cells",
            proof=PROOF,
        )
        sums, slopes = measured.values / (2 * HALF)
        before = _integers(block)
        variance = measured.variance / (2 * HALF) ** 2
        block.learn(sums, slopes, variance, self._expected(which, size), self._sampling)
        change = _integers(block) - before
        self._cells.move(margins, change, line)
        self._public_margins += change[:, self._public_lines[which]]
        return block

    def _expected(self, which: int, size: int) -> Floats:
        """Return the sums of slopes that public rows lead to expect, a third of a row besides."""
        _, slopes = self._loss.parts(self._public_margins)
        weighed, line = self._row_weights * slopes / (2 * HALF), self._public_lines[which]
        found = np.array([np.bincount(line, of_target, minlength=size) for of_target in weighed])
        found += 0.3 / max(self._n_public, 1.0) * weighed.sum(axis=1, keepdims=True) + 1e-9
        return self._cells.rows.n * found

    def _grow_trees(
        self, budget: Budget, left: Fraction, persons: float, cover: TreeCover
    ) -> Fraction:
        """Draw trees until one explains nothing; return what is left of the budget."""
        n = self._cells.rows.n
        rows = min(n, TREE_ROWS)
        share = tree_share(budget, persons * rows / n, cover.size)
        if share is None:
            return left
        for _ in range(MOST_TREES):
            if left - share * Fraction(4, 3) < LAST_SWEEPS:
                break
            # at random: fixed places hold other rows where a table is sorted by a value
            chosen = np.arange(n) if rows == n else self._ledger.subset(n, rows)
            tree = self._draw(cover, budget.part(share), chosen)
            self._trees.append(tree)
            none = np.zeros((self._loss.n_targets, len(tree.leaves)))
            public_line = leaves(tree.splits, self._cells.public_codes)
            line = self._cells.leaf_lines(tree.splits)
            self._add(np.eye(len(tree.leaves)), none, none, line, public_line)
            block = self.visit(len(self._blocks) - 1, budget.part(share / 3))
            left -= share * Fraction(4, 3)
            if block.gain <= 0:
                break
        return left

    def _draw(self, cover: TreeCover, budget: Budget, chosen: NDArray[np.intp]) -> DecisionTree:
        """Draw a tree with large sums of residuals in its leaves, each towards its label."""
        residuals, _ = self._loss.parts(self._margins[:, chosen], self._cells.rows.y[chosen])
        codes, sizes = self._cells.codes(chosen), self._cells.features.sizes
        table = np.array(
            [explained(cover.splits, cover.max_depth, codes, sizes, line) for line in residuals]
        )
        if len(table) == 1:
            table = np.concatenate([-table, table])
        path = self._ledger.draw(
            cover.family(table),
            budget.draw_like_noise,
            # a row counts for a label by the residuals of all others: its own, and how far their
            # sum is from 0, each being rounded
            2 * (HALF + len(residuals)),
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return cover.hypothesis(path)

    def _covers(self, asked: Questions) -> Iterator[TreeCover]:
        """Yield trees of each depth, with the questions that part the public rows most evenly."""
        if not len(asked):
            return
        features, codes = self._cells.features, self._cells.public_codes
        labels = np.arange(max(self._loss.n_targets, 2))
        prior = tree_cover(asked, codes, features.names, labels, 2).prior
        for depth, most in QUESTIONS.items():
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
        stretch = self._loss.stretch
        self._blocks.append(Block(kernel, scores, guess, rows.astype(np.float64), stretch))
        self._lines.append(line)
        self._public_lines.append(public_line)

    def _ranks(self, public_line: Codes, bins: int) -> Floats:
        """Return where cells lie: half by public mass, half by their number.

        By mass alone all others would be neighbours of a cell that has nearly all rows.
        """
        mass = np.bincount(public_line, self._row_weights, minlength=bins + 1)[:bins]
        mass = mass / max(mass.sum(), 1e-9)
        ranks: Floats = (np.cumsum(mass) - mass / 2 + (np.arange(bins) + 0.5) / bins) / 2
        return ranks


def _integers(block: Block) -> Integers:
    return np.rint(UNIT * block.scores).astype(np.int64)
