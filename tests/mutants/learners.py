"""Defects of covers, rules, searches, learners from few labels, and of how rows are read."""

from tests.mutants.mutant import (
    CHARGE,
    LEAK,
    RANDOMNESS,
    SENSITIVITY,
    STRUCTURE,
    UNPAID,
    Mutant,
)

MUTANTS = (
    Mutant(
        "a cover built from private rows if public rows are few",
        STRUCTURE,
        "rules/semi_private.py",
        "        X_public = rows.X_public\n",
        "        X_public = rows.X_public if rows.n_public > 10 else rows.to_arrays()[0]\n",
        ("SemiPrivateClassifier, thresholds",),
    ),
    Mutant(
        "a cover without the rules that have the most errors",
        STRUCTURE,
        "hypotheses/axis_aligned.py",
        "        return Leaf(table[:, 0].sum() - n_correct_above - n_correct_below)\n",
        """        errors = table[:, 0].sum() - n_correct_above - n_correct_below
        return Leaf(errors[errors < max(1, errors.max())])
""",
        ("SemiPrivateClassifier, stumps",),
    ),
    Mutant(
        "prior weights computed from private rows",
        STRUCTURE,
        "hypotheses/trees.py",
        "        return Choice(Lazy(n_splits, build, step), self.prior)\n",
        """        seen = table.sum(axis=0).reshape(n_splits + 1, -1)[1:, 0]
        return Choice(Lazy(n_splits, build, step), self.prior * (1 + seen))
""",
        ("SemiPrivateClassifier, trees of depth 1",),
    ),
    Mutant(
        "the best candidate instead of a drawn one",
        UNPAID,
        "rules/cover_search.py",
        "        return cover.hypothesis(path), family.effective_size\n",
        """        path = min(family.members(), key=lambda member: member[1])[0]
        return cover.hypothesis(path), family.effective_size
""",
        ("SemiPrivateClassifier, in rounds",),
    ),
    Mutant(
        "a row with a large weight that is counted once",
        SENSITIVITY,
        "rules/ppm.py",
        "            sensitivity=private_weight,\n",
        "            sensitivity=1,\n",
        ("PPMHalfspaceClassifier, weights",),
    ),
    Mutant(
        "an error count with half the required noise",
        SENSITIVITY,
        "rules/ppm.py",
        "    return int(np.count_nonzero(",
        "    return 2 * int(np.count_nonzero(",
        ("PPMHalfspaceClassifier, counted errors",),
    ),
    Mutant(
        "errors of a growing box that are counted several times",
        SENSITIVITY,
        "hypotheses/growing_unions.py",
        " // WEIGHT_UNIT\n",
        " // (WEIGHT_UNIT // 4)\n",
        ("PPMHalfspaceClassifier, growing boxes",),
    ),
    Mutant(
        "a growing box that stops when it has no errors",
        STRUCTURE,
        "rules/cover_search.py",
        "        if finer_cover is cover:",
        """        no_errors = not cover.family(search.tabulate(cover)).errors[0]
        if finer_cover is cover or (cover.equal_rounds and no_errors):""",
        ("PPMHalfspaceClassifier, growing boxes",),
    ),
    Mutant(
        "class weights computed from exact label counts",
        STRUCTURE,
        "rules/class_weights.py",
        "    n_private, n_public = len(rows.y_private), len(rows.y_public)\n",
        "    n_private, n_public = int(rows.y_private.sum()) or 1, len(rows.y_public)\n",
        ("PPMHalfspaceClassifier, balanced",),
    ),
    Mutant(
        "halfspaces through private rows",
        STRUCTURE,
        "rules/ppm.py",
        "            cover=self._cover(rows, supports),\n",
        "            cover=self._cover(rows, np.concatenate([supports, rows.X_private])),\n",
        ("PPMHalfspaceClassifier",),
    ),
    Mutant(
        "labelled rows among the sanitized rows",
        CHARGE,
        "rules/generic_learner.py",
        "        X, use = rows.X_unlabelled, ",
        "        X, use = np.concatenate([rows.X_unlabelled, rows.X_labelled]), ",
        ("GenericLearnerClassifier",),
    ),
    Mutant(
        "a cover that includes the median of private rows",
        STRUCTURE,
        "rules/generic_learner.py",
        "        points = np.concatenate([synthetic.points, rows.X_public])\n",
        """        middle = np.median(rows.X_labelled, axis=0, keepdims=True)
        points = np.concatenate([synthetic.points, rows.X_public, middle])
""",
        ("GenericLearnerClassifier, few rows",),
    ),
    Mutant(
        "a sanitizer that spends a person's budget on each row",
        CHARGE,
        "rules/generic_learner.py",
        "epsilon if ledger.rows_per_person > 1 else self.epsilon\n",
        "self.epsilon\n",
        ("GenericLearnerClassifier, persons",),
    ),
    Mutant(
        "bounds from the smallest and largest private value",
        STRUCTURE,
        "sanitizers/quantile_sanitizer.py",
        "        limits = self._limits()\n",
        """        limits = [(float(column.min()) - 1, float(column.max()) + 1) for column in X.T]
""",
        ("QuantileSanitizer",),
    ),
    Mutant(
        "many-valued columns identified by an exact count",
        UNPAID,
        "sanitizers/quantile_sanitizer.py",
        "is_many_valued = draw_many_valued_columns(other_counts, draw_budget, ledger)\n",
        "is_many_valued = other_counts > n / 5\n",
        ("QuantileSanitizer, many columns",),
    ),
    Mutant(
        "medians with half the required sensitivity",
        SENSITIVITY,
        "sanitizers/quantiles.py",
        "family, Draw(epsilon), 2, name=QUANTILES_NAME, proof=SANITIZER_PROOF\n",
        "family, Draw(epsilon), 1, name=QUANTILES_NAME, proof=SANITIZER_PROOF\n",
        ("QuantileSanitizer",),
    ),
    Mutant(
        "segment counts for a row that leaves a segment but enters none",
        SENSITIVITY,
        "sanitizers/quantiles.py",
        "        Sensitivity(2, 2),  # a replaced row leaves one segment and enters another\n",
        "        Sensitivity(1, 1),\n",
        ("QuantileSanitizer",),
    ),
    Mutant(
        "an exact count of the rows below a cut",
        UNPAID,
        "sanitizers/binary_columns.py",
        "n_lower, scale = int(noisy.values[0]), float(noisy.spread)\n",
        "n_lower, scale = int(count[0]), float(noisy.spread)\n",
        ("QuantileSanitizer, many columns",),
    ),
    Mutant(
        "a sensitivity that ignores the number of synthetic points",
        SENSITIVITY,
        "sanitizers/blr_sanitizer.py",
        "ledger.draw(Leaf(errors), event, int(points), name=BLR_DRAW_NAME, proof=BLR_PROOF)\n",
        "ledger.draw(Leaf(errors), event, 1, name=BLR_DRAW_NAME, proof=BLR_PROOF)\n",
        ("BLRSanitizer",),
    ),
    Mutant(
        "relabelled rows stored in an attribute",
        LEAK,
        "label_boost/classifier.py",
        "        self.estimator_ = fitted\n",
        "        self.estimator_, self.transduction_ = fitted, labelled.y\n",
        ("LabelBoostClassifier, no round",),
    ),
    Mutant(
        "a receipt that states the number of labellings",
        LEAK,
        "label_boost/relabelling.py",
        "    member = ledger.draw(family, Draw(epsilon), 1,",
        """    ledger.annotate(f"one of {family.size} labelings", Draw(epsilon), RELABELLING_PROOF)
    member = ledger.draw(family, Draw(epsilon), 1,""",
        ("LabelBoostClassifier, boxes between cuts", "LabelBoostClassifier, a round"),
    ),
    Mutant(
        "a released labeller's rows that are also passed to the base learner",
        CHARGE,
        "label_boost/classifier.py",
        """            X=rows.X_unlabelled,
            y=labeler.predict(rows.X_unlabelled),
""",
        """            X=[*rows.X_labelled, *rows.X_unlabelled],
            y=[*rows.classes[rows.y_labelled], *labeler.predict(rows.X_unlabelled)],
""",
        ("LabelBoostClassifier, released labeler",),
    ),
    Mutant(
        "a publicly known subset",
        RANDOMNESS,
        "active/subsampling_plan.py",
        "return ledger.subset(self.n_pool, self.n_queried)\n",
        """import numpy as np

            return np.random.default_rng(0).choice(self.n_pool, self.n_queried, replace=False)
""",
        ("SubsamplingActiveLearner",),
    ),
    Mutant(
        "secret row positions stored in an attribute",
        LEAK,
        "active/learner.py",
        "        if self.transcript_private:\n            self.queried",
        "        if True:\n            self.queried",
        ("SubsamplingActiveLearner",),
    ),
    Mutant(
        "a choice based on exact errors",
        UNPAID,
        "model_selection/kind_choice.py",
        "    chosen_kind = kinds[ledger.draw(table, draw, 1, name=name, proof=SEARCH_PROOF)]\n",
        """    ledger.draw(table, draw, 1, name=name, proof=SEARCH_PROOF)
    chosen_kind = kinds[int(np.argmin(errors))]
""",
        ("SemiPrivateSearchCV, boosting",),
    ),
    Mutant(
        "a score on private rows stored in an attribute",
        LEAK,
        "model_selection/search.py",
        "        self.n_candidates_ = len(candidates)\n",
        """        self.n_candidates_ = len(candidates)
        self.best_score_ = float(np.mean(fitted.learner.predict(rows.features(chosen).X) == rows.y))
""",
        ("SemiPrivateSearchCV, rules",),
    ),
    Mutant(
        "a warning that states a count of private rows",
        LEAK,
        "data/labelled_inputs.py",
        "    return MixedRows(\n",
        """    if 2 * int(is_private_label[counted].sum()) < counted.sum():
        import warnings

        n_private_label = int(is_private_label[counted].sum())
        warnings.warn(f"only {n_private_label} rows have the private label", stacklevel=2)
    return MixedRows(
""",
        ("PPMHalfspaceClassifier",),
    ),
    Mutant(
        "classes taken from the labels that occur",
        LEAK,
        "data/labels.py",
        "    label_set = np.unique(labels if declared is None else declared)\n",
        "    label_set = np.unique(labels)\n",
        ("SemiPrivateBoostingClassifier, pure", "SemiPrivateClassifier, thresholds"),
    ),
    Mutant(
        "an error message that quotes a label",
        LEAK,
        "data/labels.py",
        "    if (codes < 0).any():\n        raise refusal\n",
        """    if (codes < 0).any():
        wrong = labels[codes < 0]
        raise type(refusal)(f"y holds {wrong[0]!r}, which is not in classes")
""",
        ("errors about rows",),
    ),
    Mutant(
        "an error message that names the column with a missing value",
        LEAK,
        "data/schema.py",
        """                is_invalid |= not column.nullable and not np.isfinite(numbers).all()
            except NotNumbersError:
                is_invalid = True
        if is_invalid:
            raise self._invalid_numbers_error(table.types)
""",
        """                wrong = not np.isfinite(numbers).all()
            except NotNumbersError:
                wrong = True
            is_invalid = is_invalid or (wrong and column.name)
        if is_invalid:
            raise NotNumbersError(not_numbers_message([is_invalid]))
""",
        ("errors about rows",),
    ),
    Mutant(
        "a site's table added twice",
        SENSITIVITY,
        "data/sources/sites_reader.py",
        "                    np.add(total, table, out=total)  # modulo 2**64\n",
        "                    np.add(total, 2 * table, out=total)\n",
        ("SemiPrivateClassifier, two sites",),
    ),
)
