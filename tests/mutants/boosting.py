"""Defects of boosting: sums, looks, trees and what is kept of them."""

from tests.mutants.mutant import (
    FLOATS,
    LEAK,
    SCALE,
    SENSITIVITY,
    STRUCTURE,
    UNPAID,
    Mutant,
    Patch,
)

CLASSIFIER, REGRESSOR = "SemiPrivateBoostingClassifier", "SemiPrivateBoostingRegressor"

MUTANTS = (
    Mutant(
        "residuals that are not limited to one half",
        SCALE,
        "boosting/model.py",
        "    exact = 2 * MAX_GRADIENT * scale * (outcome - probability)\n",
        "    exact = 2 * MAX_GRADIENT * (outcome - probability)\n",
        (f"{CLASSIFIER}, rounds",),
    ),
    Mutant(
        "residuals that are added up before rounding",
        FLOATS,
        "boosting/model.py",
        "    return integers.astype(np.int64)\n\n\ndef boosting_weights",
        "    return exact if len(exact) == 1 else integers.astype(np.int64)\n\n\n"
        "def boosting_weights",
        (f"{CLASSIFIER}, rounds",),
    ),
    Mutant(
        "outcome residuals that are added up before rounding",
        FLOATS,
        "boosting/loss.py",
        "        return np.rint(gradients, out=gradients), hessians\n",
        "        return gradients, hessians\n",
        (f"{REGRESSOR}, trees grown",),
    ),
    Patch(
        "outcomes that are not clipped to their bounds",
        SCALE,
        "_to_levels",
        """def replacement(outcomes, low, high):
    levels = np.rint(TARGET_LEVELS * (outcomes - low) / (high - low))
    return (levels / TARGET_LEVELS).astype(np.float32)
""",
        (REGRESSOR,),
    ),
    Mutant(
        "exact label counts",
        UNPAID,
        "boosting/histograms.py",
        """        proof=BOOSTING_PROOF,
    ).values
    n = rows.n
""",
        """        proof=BOOSTING_PROOF,
    ).values
    counts = rows.sum_over_chunks(count_chunk)
    n = rows.n
""",
        (f"{CLASSIFIER}, rounds",),
    ),
    Mutant(
        "a drift statistic computed from exact counts",
        UNPAID,
        "boosting/covariate_shift.py",
        "            counts.values[is_tested],\n",
        "            (indicators @ bin_counts)[is_tested],\n",
        (f"{CLASSIFIER}, drift",),
    ),
    Mutant(
        "cells at quantiles of private rows",
        STRUCTURE,
        "boosting/training_data.py",
        "        X_public=encoded,\n        n_private",
        """        X_public=np.concatenate(
            [encoded, np.quantile(dataset.to_arrays()[0], [0.25, 0.5, 0.75], axis=0)]
        ),
        n_private""",
        (f"{CLASSIFIER}, pure",),
    ),
    Mutant(
        "a one-hot category that depends on a count of private rows",
        STRUCTURE,
        "data/one_hot.py",
        "        codes[is_other] = other\n",
        "        codes[is_other & (is_other.sum() > 4)] = other\n",
        (f"{CLASSIFIER}, one-hot",),
    ),
    Mutant(
        "a row that moves between two cells but is counted once",
        SENSITIVITY,
        "boosting/outcome_histogram.py",
        '    sensitivity, name = Sensitivity(2, 2), "noisy histogram of residuals"\n',
        '    sensitivity, name = Sensitivity(1, 1), "noisy histogram of residuals"\n',
        (REGRESSOR,),
    ),
    Patch(
        "a sensitivity of sums that ignores the accompanying counts",
        SENSITIVITY,
        "HistogramStrategy.sensitivity",
        "lambda self, *, counts: original(self, counts=False)",
        (f"{CLASSIFIER}, pure",),
    ),
    Mutant(
        "votes with the sensitivity of a row of weight 1",
        SENSITIVITY,
        "boosting/private_trees.py",
        "            event,\n            MAX_ROW_WEIGHT,\n",
        "            event,\n            1,\n",
        (f"{CLASSIFIER}, votes",),
    ),
    Mutant(
        "a grown tree with the sensitivity of a single residual",
        SENSITIVITY,
        "boosting/newton.py",
        "            2 * (MAX_GRADIENT + len(gradients)),\n",
        "            MAX_GRADIENT // 2,\n",
        (f"{CLASSIFIER}, trees grown",),
    ),
    Mutant(
        "rows subsampled by their values",
        STRUCTURE,
        "boosting/newton.py",
        "training.rows.take(ledger.subset(training.rows.n, n_rows)))\n",
        "training.rows.take(training.rows.columns[0].argsort(kind='stable')[:n_rows]))\n",
        (f"{CLASSIFIER}, some rows",),
    ),
    Mutant(
        "growth that stops when an exact sum is small",
        UNPAID,
        "boosting/newton.py",
        "            if posterior.gain <= 0:\n                break\n        return share\n",
        """            residuals, _ = self.loss.gradient_hessian(self.margins, self.data.rows.y)
            if abs(residuals.sum()) < residuals.shape[1]:
                break
        return share
""",
        (f"{CLASSIFIER}, trees grown",),
    ),
    Mutant(
        "label counts stored in an attribute",
        LEAK,
        "boosting/classifier.py",
        "        self.classes_ = training.classes\n        return self\n",
        """        self.classes_ = training.classes
        self.class_count_ = np.bincount(training.rows.y, minlength=len(training.classes))
        return self
""",
        (f"{CLASSIFIER}, pure",),
    ),
    Patch(
        "leaf sums for a row that leaves a leaf but enters none",
        SENSITIVITY,
        "LEAF_SENSITIVITY",
        "Sensitivity(MAX_GRADIENT, MAX_GRADIENT**2)",
        (f"{CLASSIFIER}, three labels, trees",),
    ),
    Mutant(
        "squared residuals with the sensitivity of residuals",
        SENSITIVITY,
        "boosting/outcome_histogram.py",
        "        Sensitivity(MAX_GRADIENT**2, MAX_GRADIENT**4),\n",
        "        Sensitivity(MAX_GRADIENT, MAX_GRADIENT**2),\n",
        (f"{REGRESSOR}, trees grown",),
    ),
    Patch(
        "half bins of many columns with the sensitivity of one column",
        SENSITIVITY,
        "BinSplitter.__post_init__",
        """def replacement(self):
    original(self)
    self._sensitivity = self.loss.sensitivity
""",
        (f"{CLASSIFIER}, trees grown",),
    ),
    Patch(
        "unclipped margins of a public model in the stacking sums",
        SCALE,
        "_ModelPair.clipped",
        "lambda self, directions: directions / self.lengths[:, None, None]",
        (f"{CLASSIFIER}, public model",),
    ),
    Patch(
        "two stacking sums with the sensitivity of one product",
        SENSITIVITY,
        "STACKING_SENSITIVITY",
        "Sensitivity(LARGEST_PRODUCT, LARGEST_PRODUCT**2)",
        (f"{CLASSIFIER}, public model",),
    ),
    Mutant(
        "a public model centred on private rows",
        LEAK,
        "boosting/stacking.py",
        "        margins = np.array([boosted, rows.public_margins[:, chunk].astype(np.int64)])\n",
        "        margins = np.array([boosted, rows.public_margins[:, chunk].astype(np.int64)])\n"
        "        margins[1] += int(-margins[1].mean())\n",
        (f"{CLASSIFIER}, public model",),
    ),
    Mutant(
        "a linear model's margins that depend on the other rows",
        LEAK,
        "boosting/linear_stage.py",
        "        deviations = self.linear.columns.deviations(rows)\n",
        "        deviations = self.linear.columns.deviations(rows - rows.mean(axis=0))\n",
        (f"{CLASSIFIER}, many numbers and columns",),
    ),
)
