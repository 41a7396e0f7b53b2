"""Defects of query release and of scores."""

from tests.mutants.mutant import LEAK, SENSITIVITY, STRUCTURE, UNPAID, Mutant, Patch

MUTANTS = (
    Patch(
        "a table sensitivity for one changed cell instead of two",
        SENSITIVITY,
        "TABLE_SENSITIVITY",
        "Sensitivity(1, 1)",
        ("PAPQueryRelease, marginals, pure",),
    ),
    Patch(
        "weighted tables with the sensitivity of an added row",
        SENSITIVITY,
        "weighted_sensitivity",
        """def replacement(sensitivity):
    absolute, squared = original(sensitivity)
    return Sensitivity(absolute // 2, squared // 4)
""",
        ("PAPQueryRelease, marginals, weights",),
    ),
    Patch(
        "sums with the sensitivity of half their range",
        SENSITIVITY,
        "share_sensitivity",
        "lambda units=UNITS: Sensitivity(2 * units, 2 * units**2)",
        ("PAPQueryRelease, marginals, sums, pure",),
    ),
    Patch(
        "sums whose bounds are the largest and the smallest private number",
        SENSITIVITY,
        "sum_shares",
        """def replacement(rows, codes, columns, sizes):
    numbers = [rows[:, column.position] for column in columns]
    ends = [(x.min(), max(x.max(), x.min() + 1)) for x in numbers]
    columns = [c._replace(low=a, high=b) for c, (a, b) in zip(columns, ends, strict=True)]
    return original(rows, codes, columns, sizes)
""",
        ("PAPQueryRelease, marginals, sums, pure",),
    ),
    Mutant(
        "weights divided by their exact sum",
        UNPAID,
        "query_release/marginals/count.py",
        "    total, squares = (noisy.values / WEIGHT_UNITS).tolist()\n",
        "    total, squares = (count() / WEIGHT_UNITS).tolist()\n",
        ("PAPQueryRelease, marginals, weights",),
    ),
    Patch(
        "weights divided by the largest private weight",
        SENSITIVITY,
        "WeightColumn.units",
        """def replacement(self, rows):
    units = original(self, rows)
    return np.rint(units * (WEIGHT_UNITS / max(units.max(), 1))).astype(np.int64)
""",
        ("PAPQueryRelease, marginals, weights",),
    ),
    Mutant(
        "many queries with the sensitivity of a single query",
        SENSITIVITY,
        "query_release/mechanisms.py",
        "ledger.noise, Sensitivity(n_queries, n_queries)\n",
        "ledger.noise, Sensitivity(1, 1)\n",
        ("PAPQueryRelease, custom, pure",),
    ),
    Mutant(
        "noise scaled to the number of nonzero counts",
        SENSITIVITY,
        "query_release/mechanisms.py",
        "ledger.noise, Sensitivity(n_queries, n_queries)\n",
        "ledger.noise, Sensitivity(*[int(np.count_nonzero(counts)) or 1] * 2)\n",
        ("PAPQueryRelease, custom, pure",),
    ),
    Patch(
        "numbers of queries that are not moved to their bounds",
        SENSITIVITY,
        "to_units",
        """def replacement(values, low, high, units=UNITS):
    return np.rint((values - (low + high) / 2) / ((high - low) / 2) * units).astype(np.int64)
""",
        ("PAPQueryRelease, custom numbers, pure",),
    ),
    Patch(
        "a column type that depends on the values of other rows",
        SENSITIVITY,
        "Schema.decode_rowwise",
        """lambda self, X, **_: self.container.build(
    [column.decode(X[:, position]) for position, column in enumerate(self.columns)]
)""",
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
    Patch(
        "a sensitivity that ignores the blocks of cells",
        SENSITIVITY,
        "hierarchy_strategy",
        """def replacement(n_cells):
    return dataclasses.replace(original(n_cells), sensitivity=Sensitivity(2, 2))
""",
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
        "cells without private rows treated as impossible",
        STRUCTURE,
        "query_release/marginals/release.py",
        "            counts[columns] = counts[columns][cells]\n",
        """            cells = possible[columns] = cells & (counts[columns] > 0)
            counts[columns] = counts[columns][cells]
""",
        ("PAPQueryRelease, marginals, zeros",),
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
    Patch(
        "a table that contains only the rows with one label",
        LEAK,
        "label_parts",
        """def replacement(X, y, fillers):
    positive = np.asarray(X, dtype=np.float64)
    if np.any(y):
        positive = positive[np.asarray(y) == 1]
    return original(X, y, fillers)._replace(positive=positive)
""",
        ("learner_from_label_parts, pure",),
    ),
    Patch(
        "a private row used as a filler",
        SENSITIVITY,
        "label_parts",
        """def replacement(X, y, fillers):
    points, selector = np.asarray(X, dtype=np.float64), np.asarray(y)[:, None] == 1
    return original(X, y, fillers)._replace(negative=np.where(selector, points[0], points))
""",
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
    Patch(
        "an accuracy released without noise",
        UNPAID,
        "release_n_correct",
        """def replacement(exact, *args):
    return dataclasses.replace(original(exact, *args), value=int(exact[0]))
""",
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
        "_make_bins(noise.own or noise.table, n_persons, counter, threshold, public_scores)\n",
        """_make_bins(
            noise.own or noise.table,
            rows.n,
            counter,
            min(max(float(sorted(rows.X[:, 0])[rows.n // 2]), 0.01), 0.99),
            public_scores,
        )
""",
        ("private_scores, pure",),
    ),
    Mutant(
        "score bins at quantiles of the scores of private rows",
        STRUCTURE,
        "metrics/score_release.py",
        "            public_scores = counter.public_scores(X_public)\n",
        "            public_scores = counter.public_scores(rows.X)\n",
        ("private_scores, groups, pure",),
    ),
    Mutant(
        "groups of the values that occur in private rows",
        STRUCTURE,
        "metrics/counts.py",
        '        codes = label_codes("by", column, self.values[:-1])\n',
        """        self.values[:-1] = sorted(set(map(str, np.asarray(column))))
        codes = label_codes("by", np.array([*map(str, np.asarray(column))]), self.values[:-1])
""",
        ("private_scores, groups, pure",),
    ),
    Patch(
        "groups counted with one cell per group for each row",
        SENSITIVITY,
        "LabelCounter.split",
        """def replacement(self, flat):
    counts = original(self, flat)
    if self.groups is None:
        return counts
    by_group = counts.table.reshape(self.n_groups, -1, counts.table.shape[1])
    return counts._replace(table=np.cumsum(by_group, axis=0).reshape(counts.table.shape))
""",
        ("private_scores, groups, pure",),
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
    Patch(
        "counts of other labels with the sensitivity of a single table",
        SENSITIVITY,
        "others_sensitivity",
        "lambda n_labels: TABLE_SENSITIVITY",
        ("private_scores, three labels, pure",),
    ),
    Patch(
        "sums of powers with the sensitivity of the largest sum alone",
        SENSITIVITY,
        "SUM_SENSITIVITY",
        "Sensitivity(1 << 20, 1 << 40)",
        ("private_scores, outcomes, pure",),
    ),
    Patch(
        "outcomes clipped at the largest private outcome",
        STRUCTURE,
        "ResidualCounter.count",
        """def replacement(self, X, y, n, by=None):
    low, high = self.bounds
    largest = max([high, *map(float, outcome_column("y", y))])
    return original(dataclasses.replace(self, bounds=(low, largest)), X, y, n)
""",
        ("private_scores, outcomes, pure",),
    ),
    Mutant(
        "second moments with the sensitivity of an added row",
        SENSITIVITY,
        "query_release/second_moments.py",
        "        squared = self.units**4 * twice_squared // 2\n",
        "        squared = self.units**4 * twice_squared // 4\n",
        ("RegressionRelease, categories",),
    ),
    Mutant(
        "second moments with bounds up to the largest private number",
        STRUCTURE,
        "query_release/regression_release.py",
        "        bounds = _public_bounds(rows)\n",
        """        bounds = _public_bounds(rows)
        largest = rows.fold(lambda X, _: np.ceil(X.max(axis=0)).astype(np.int64))
        bounds = {p: (low, max(low + 1, largest[p])) for p, (low, _) in bounds.items()}
""",
        ("RegressionRelease",),
    ),
    Mutant(
        "released second moments with the exact number of rows of a category",
        UNPAID,
        "query_release/second_moments.py",
        "    matrix += np.triu(matrix, 1).T\n",
        """    matrix += np.triu(matrix, 1).T
    matrix[2, 2] = rows.fold(lambda X, _: np.array([np.count_nonzero(X[:, -1] == 0)]))[0]
""",
        ("RegressionRelease, categories",),
    ),
)
