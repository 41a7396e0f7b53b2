"""Posteriors of tables whose codes are combined into fewer codes, such as bins of ages into two.

A combined cell is a sum of cells. Its posterior is that of the same release, if the table had been
counted with the combined codes: the estimates, the public fractions, the noisy values and the noise
variances of its cells are added. Its margins are collapsed in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.intervals import TablePosterior
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.marginals.shrinkage import MIN_INDEPENDENCE_ESTIMATE, CellBatch
from skpublicdp.query_release.marginals.table import MIN_UNEXPLAINED_SHARE
from skpublicdp.typing import Floats

Groups = Mapping[int, NDArray[np.integer]]
"""New code of each code, by column. Columns that are not listed keep their codes."""


def collapse_table(table: Floats, columns: Attributes, groups: Groups) -> Floats:
    """Return a table in which the cells with the same new codes are added."""
    for axis, column in enumerate(columns):
        if column in groups:
            indicators = np.eye(groups[column].max() + 1)[groups[column]]  # (n_codes, n_groups)
            table = np.moveaxis(np.tensordot(table, indicators, axes=(axis, 0)), -1, axis)
    return table


def collapse_posterior(posterior: TablePosterior, groups: Groups) -> TablePosterior:
    """Return the posterior of a table in which cells are combined.

    Deviations from the margins are of the size that a single cell of the same fraction has. This is
    larger than for independent deviations, since neighbouring codes may deviate together.
    """
    columns, cells, shape = posterior.columns, posterior.cells, posterior.estimate.shape

    def add(flat: Floats) -> Floats:
        """Return the sums of the cells with the same new codes."""
        return collapse_table(flat.reshape(shape), columns, groups)

    estimate, sizes = add(posterior.estimate), add(np.ones(posterior.estimate.size))
    is_measured = cells.precisions > 0
    noise = add(np.divide(1, cells.precisions, out=np.zeros(is_measured.size), where=is_measured))
    values, public = add(cells.values), add(cells.public)
    if len(columns) == 1:
        # the fractions sum to 1, which removes the share of each cell in the total noise
        removed = noise / noise.sum() if is_measured.any() else sizes / sizes.sum()
        values = values + removed * (1 - values.sum())
        residual_noise_share = 1 - removed
        unexplained_share = 1 - np.maximum(estimate, public)
    else:
        residual_noise_share = unexplained_share = np.ones(estimate.shape)
        for axis in range(len(shape)):
            others = tuple(other for other in range(len(shape)) if other != axis)
            margin = estimate.sum(axis=others, keepdims=True)
            share = sizes.sum(axis=others, keepdims=True) / sizes.sum()
            residual_noise_share = residual_noise_share * (1 - share)
            unexplained_share = unexplained_share * (1 - margin)
    batch = CellBatch(
        independence_estimate=np.maximum(
            add(cells.independence_estimate), MIN_INDEPENDENCE_ESTIMATE
        ),
        public=public,
        unexplained_share=np.maximum(unexplained_share, MIN_UNEXPLAINED_SHARE),
        values=values,
        precisions=np.divide(1, noise, out=np.zeros(noise.shape), where=noise > 0),
        residual_noise_share=residual_noise_share,
    )
    return replace(
        posterior,
        cells=CellBatch(*(array.ravel() for array in batch)),
        estimate=estimate,
        margins=[collapse_posterior(margin, groups) for margin in posterior.margins],
    )


def collapse_measurement(
    release: MarginalRelease, columns: Attributes, groups: Groups
) -> tuple[Floats, Floats]:
    """Return the noisy fractions of combined cells, projected to the sum 1, and their variances."""
    measured = release.measured[columns]
    sizes = collapse_table(np.ones(measured.values.shape), columns, groups)
    shares = sizes / sizes.sum()
    values = collapse_table(measured.values, columns, groups)
    return values + shares * (1 - values.sum()), measured.variance * sizes * (1 - shares)
