"""Defects of query release and of scores."""

from tests.mutants.mutant import LEAK, SENSITIVITY, STRUCTURE, UNPAID, Mutant

MUTANTS = (
    Mutant(
        "a table sensitivity for one changed cell instead of two",
        SENSITIVITY,
        "query_release/marginals/release.py",
        "TABLE_SENSITIVITY = Sensitivity(2, 2)\n",
        "TABLE_SENSITIVITY = Sensitivity(1, 1)\n",
        ("PAPQueryRelease, marginals, pure",),
    ),
    Mutant(
        "weighted tables with the sensitivity of an added row",
        SENSITIVITY,
        "query_release/marginals/weights.py",
        "    return Sensitivity(WEIGHT_UNITS * absolute, WEIGHT_UNITS**2 * squared)\n",
        "    return Sensitivity(WEIGHT_UNITS * absolute // 2, WEIGHT_UNITS**2 * squared // 4)\n",
        ("PAPQueryRelease, marginals, weights",),
    ),
    Mutant(
        "weights divided by their exact sum",
        UNPAID,
        "query_release/marginals/weights.py",
        "    total, squares = (noisy.values / WEIGHT_UNITS).tolist()\n",
        "    total, squares = (count() / WEIGHT_UNITS).tolist()\n",
        ("PAPQueryRelease, marginals, weights",),
    ),
    Mutant(
        "weights divided by the largest private weight",
        SENSITIVITY,
        "query_release/marginals/weights.py",
        "        finite = np.where(np.isfinite(shares), shares, 0.0)\n",
        "        finite = shares / max(float(shares.max()), 1e-9)\n",
        ("PAPQueryRelease, marginals, weights",),
    ),
    Mutant(
        "many queries with the sensitivity of a single query",
        SENSITIVITY,
        "query_release/query_list.py",
        "ledger.noise, Sensitivity(n_queries, n_queries)\n",
        "ledger.noise, Sensitivity(1, 1)\n",
        ("PAPQueryRelease, custom, pure",),
    ),
    Mutant(
        "noise scaled to the number of nonzero counts",
        SENSITIVITY,
        "query_release/query_list.py",
        "ledger.noise, Sensitivity(n_queries, n_queries)\n",
        "ledger.noise, Sensitivity(*[int(np.count_nonzero(counts)) or 1] * 2)\n",
        ("PAPQueryRelease, custom, pure",),
    ),
    Mutant(
        "a column type that depends on the values of other rows",
        SENSITIVITY,
        "query_release/queries/custom.py",
        "self._schema.decode_rowwise(X) if",
        "self._schema.decode(X) if",
        ("PAPQueryRelease, custom of a frame",),
    ),
    Mutant(
        "missing numbers that are counted only if there are several",
        SENSITIVITY,
        "query_release/discretize.py",
        "            if self.bins.has_missing(position):\n",
        """            if self.bins.has_missing(position) and np.isnan(column).sum() > 1:
""",
        ("PAPQueryRelease, missing numbers of a frame",),
    ),
    Mutant(
        "a sensitivity that ignores the blocks of cells",
        SENSITIVITY,
        "query_release/cdf/strategies.py",
        "np.concatenate([cells, blocks]), Sensitivity(4, 4))\n",
        "np.concatenate([cells, blocks]), Sensitivity(2, 2))\n",
        ("PAPQueryRelease, thresholds, pure",),
    ),
    Mutant(
        "cells split where exact counts are large",
        UNPAID,
        "query_release/cdf/release.py",
        "    masses = np.diff(prefix_sums, prepend=0.0, append=1.0)\n    refined, refinement_share",
        """    masses = np.diff(prefix_sums, prepend=0.0, append=1.0)
    masses = grid.tabulate(private) / n
    refined, refinement_share""",
        ("PAPQueryRelease, thresholds, cells refined",),
    ),
    Mutant(
        "weights fitted to exact counts",
        UNPAID,
        "query_release/marginals/release.py",
        "        values, variance = noisy.values / total, noisy.variance / total**2\n",
        "        values, variance = counts[columns] / total, noisy.variance / total**2\n",
        ("PAPQueryRelease, marginals, pure",),
    ),
    Mutant(
        "steps proportional to the exact error",
        UNPAID,
        "query_release/pmw/release.py",
        "        step = plan.rate if is_too_low else -plan.rate\n",
        """        rate = plan.rate * abs(deficit[query]) / n
        step = rate if is_too_low else -rate
""",
        ("PAPQueryRelease, thresholds, pmw",),
    ),
    Mutant(
        "rounds that stop when the exact error is small",
        UNPAID,
        "query_release/pmw/release.py",
        "        deficit = counts - expected\n",
        """        deficit = counts - expected
        if np.abs(deficit).max() < 0.1 * n:
            return cover.normalize_blocks(log_weights)
""",
        ("PAPQueryRelease, thresholds, pmw",),
    ),
    Mutant(
        "a cover built from private rows for the rounds",
        STRUCTURE,
        "query_release/pmw/release.py",
        "    cover = queries.build_cover(X_public)\n",
        "    cover = queries.build_cover(np.concatenate([X_public, rows.to_arrays()[0]]))\n",
        ("PAPQueryRelease, thresholds, pmw",),
    ),
    Mutant(
        "a table that contains only the rows with one label",
        LEAK,
        "query_release/label_parts.py",
        "        positive=np.where(selector, points, fillers[0]),\n",
        "        positive=points[is_positive] if is_positive.any() else points,\n",
        ("learner_from_label_parts, pure",),
    ),
    Mutant(
        "a private row used as a filler",
        SENSITIVITY,
        "query_release/label_parts.py",
        "        negative=np.where(selector, fillers[0], points),\n",
        "        negative=np.where(selector, points[0], points),\n",
        ("learner_from_label_parts, pure",),
    ),
    Mutant(
        "an error message about a table that quotes a value",
        LEAK,
        "query_release/label_parts.py",
        "    points: Floats = read_array(X, np.float64, ensure_all_finite=False)\n",
        "    points = np.asarray(X, dtype=np.float64)\n",
        ("errors about rows",),
    ),
    Mutant(
        "an accuracy released without noise",
        UNPAID,
        "metrics/noisy_counts.py",
        "    return NoisyCount(int(noisy.values[0]), n, noisy, ",
        "    return NoisyCount(int(exact[0]), n, noisy, ",
        ("private_scores, pure",),
    ),
    Mutant(
        "a confusion matrix with the sensitivity of an added row",
        SENSITIVITY,
        "metrics/noisy_counts.py",
        "    noisy = ledger.add_noise(flat, TABLE_SENSITIVITY, noise,",
        "    noisy = ledger.add_noise(flat, COUNT_SENSITIVITY, noise,",
        ("private_confusion_matrix, pure",),
    ),
    Mutant(
        "a curve with edges at quantiles of private scores",
        STRUCTURE,
        "metrics/score_release.py",
        "_make_bins(noise.own or noise.table, n_persons, counter, threshold)\n",
        """_make_bins(
            noise.own or noise.table,
            rows.n,
            counter,
            min(max(float(sorted(rows.X[:, 0])[rows.n // 2]), 0.01), 0.99),
        )
""",
        ("private_scores, pure",),
    ),
    Mutant(
        "a receipt that states the number of positive rows",
        LEAK,
        "metrics/score_release.py",
        "        privacy=ledger.receipt(assumptions=assumptions),\n    )\n    _warn_if_implausible",
        """        privacy=ledger.receipt(
            assumptions=(*assumptions, f"{exact.table[1].sum()} rows are positive")
        ),
    )
    _warn_if_implausible""",
        ("private_scores, pure",),
    ),
    Mutant(
        "counts of other labels with the sensitivity of a single table",
        SENSITIVITY,
        "metrics/label_tables.py",
        "    sensitivity = others_sensitivity(n_labels)\n",
        "    sensitivity = TABLE_SENSITIVITY\n",
        ("private_scores, three labels, pure",),
    ),
    Mutant(
        "sums of powers with the sensitivity of the largest sum alone",
        SENSITIVITY,
        "metrics/residual_sums.py",
        "Sensitivity(3 * (1 << 20) + len(SUM_UNITS), int((SUM_RANGES**2).sum()))\n",
        "Sensitivity(1 << 20, 1 << 40)\n",
        ("private_scores, outcomes, pure",),
    ),
    Mutant(
        "outcomes clipped at the largest private outcome",
        STRUCTURE,
        "metrics/residual_sums.py",
        "predicted, self.bounds)\n",
        "predicted, (self.bounds[0], max(self.bounds[1], float(outcomes.max()))))\n",
        ("private_scores, outcomes, pure",),
    ),
)
