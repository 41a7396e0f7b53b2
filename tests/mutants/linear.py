"""Defects of linear models: lengths of rows, sensitivities of sums, and axes."""

from tests.mutants.mutant import LEAK, SCALE, SENSITIVITY, UNPAID, Mutant, Patch

LOGISTIC, LINEAR = "SemiPrivateLogisticRegression", "SemiPrivateLinearRegression"

MUTANTS = (
    Patch(
        "rows of a linear model whose length is not bounded",
        SCALE,
        "_shorten",
        """def replacement(vectors, lengths, factor, limit):
    return np.rint(factor * vectors), np.ones(len(vectors))
""",
        (f"{LOGISTIC}, any rows",),
    ),
    Mutant(
        "rows of a linear model whose intercept is outside of the length",
        SCALE,
        "linear/row_encoder.py",
        "        intercept = np.trunc(self.intercept * weights)\n",
        "        intercept = np.trunc(16 * self.intercept * weights)\n",
        (f"{LOGISTIC}, corrections",),
    ),
    Mutant(
        "label sums with the sensitivity of an added row",
        SENSITIVITY,
        "linear/row_encoder.py",
        "    squared = levels**2 * max(same_target, opposite_target)\n",
        "    squared = levels**2 * max(same_target, opposite_target) // 4\n",
        (f"{LOGISTIC}, any rows",),
    ),
    Mutant(
        "sums of outcomes with the sensitivity of labels",
        SENSITIVITY,
        "linear/row_encoder.py",
        "    levels = loss.levels\n    same_target",
        "    levels = 1\n    same_target",
        (LINEAR,),
    ),
    Mutant(
        "a correction with the sensitivity of an added row",
        SENSITIVITY,
        "linear/row_encoder.py",
        "    return Sensitivity(2 * max_row_sum, 4 * limit**2)\n",
        "    return Sensitivity(2 * max_row_sum, limit**2)\n",
        (f"{LOGISTIC}, any rows",),
    ),
    Mutant(
        "columns scaled by private rows",
        LEAK,
        "linear/linear_fit.py",
        "        data.schema,\n        data.X_public,\n",
        "        data.schema,\n        data.to_arrays()[0],\n",
        (f"{LOGISTIC}, corrections",),
    ),
    Mutant(
        "an exact mean of private rows",
        UNPAID,
        "linear/linear_fit.py",
        "        row_sums=values[end : end + n_axes] * row_unit,\n",
        "        row_sums=table[end : end + n_axes] * row_unit,\n",
        (f"{LOGISTIC}, corrections",),
    ),
    Mutant(
        "class sums with the sensitivity of an added row",
        SENSITIVITY,
        "linear/row_encoder.py",
        "    same_label = 4 * limit**2 + intercept**2\n",
        "    same_label = limit**2 + intercept**2\n",
        (f"{LOGISTIC}, three labels, any rows",),
    ),
    Mutant(
        "residuals times rows that are not shortened",
        SCALE,
        "linear/softmax_rows.py",
        "        terms[~is_short] = 0\n        return terms\n",
        "        return 4 * terms\n",
        (f"{LOGISTIC}, three labels",),
    ),
)
