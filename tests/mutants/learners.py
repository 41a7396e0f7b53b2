"""Defects of covers, rules, searches, learners from few labels, and of how rows are read."""

from tests.mutants.mutant import (
    CHARGE,
    LEAK,
    RANDOMNESS,
    SENSITIVITY,
    STRUCTURE,
    UNPAID,
    Mutant,
    Patch,
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
    Patch(
        "a cover without the rules that have the most errors",
        STRUCTURE,
        "StumpCover.family",
        """def replacement(self, table):
    errors = original(self, table).errors
    return Leaf(errors[errors < max(1, errors.max())])
""",
        ("SemiPrivateClassifier, stumps",),
    ),
    Patch(
        "prior weights computed from private rows",
        STRUCTURE,
        "TreeCover.family",
        """def replacement(self, table):
    seen = table.sum(axis=0).reshape(len(self.splits) + 1, -1)[1:, 0]
    family = original(self, table)
    return dataclasses.replace(family, prior=family.prior * (1 + seen))
""",
        ("SemiPrivateClassifier, trees of depth 1",),
    ),
    Patch(
        "the best candidate instead of a drawn one",
        UNPAID,
        "RuleSearch.draw",
        """def replacement(self, cover, event):
    _, size = original(self, cover, event)
    family = cover.family(self.tabulate(cover))
    return cover.hypothesis(min(family.members(), key=lambda member: member[1])[0]), size
""",
        ("SemiPrivateClassifier, in rounds",),
    ),
    Patch(
        "a row with a large weight that is counted once",
        SENSITIVITY,
        "PPMHalfspaceClassifier._prepare",
        """def replacement(self, rows, ledger):
    return dataclasses.replace(original(self, rows, ledger), sensitivity=1)
""",
        ("PPMHalfspaceClassifier, weights",),
    ),
    Patch(
        "an error count with half the required noise",
        SENSITIVITY,
        "_n_errors",
        "lambda *args: 2 * original(*args)",
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
    Patch(
        "class weights computed from exact label counts",
        STRUCTURE,
        "integer_class_weights",
        """def replacement(class_weight, rows):
    if class_weight == "balanced":
        return _small_integers(len(rows.y_public), int(rows.y_private.sum()) or 1)
    return original(class_weight, rows)
""",
        ("PPMHalfspaceClassifier, balanced",),
    ),
    Patch(
        "halfspaces through private rows",
        STRUCTURE,
        "PPMHalfspaceClassifier._cover",
        """def replacement(self, rows, supports):
    return original(self, rows, np.concatenate([supports, rows.X_private]))
""",
        ("PPMHalfspaceClassifier",),
    ),
    Patch(
        "labelled rows among the sanitized rows",
        CHARGE,
        "GenericLearnerClassifier._synthesise",
        """def replacement(self, rows, *args):
    every_row = np.concatenate([rows.X_unlabelled, rows.X_labelled])
    return original(self, dataclasses.replace(rows, X_unlabelled=every_row), *args)
""",
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
    Patch(
        "a sanitizer that spends a person's budget on each row",
        CHARGE,
        "GenericLearnerClassifier._configure",
        """def replacement(self, sanitizer, bounds, ledger):
    original(self, sanitizer, bounds, ledger)
    sanitizer.set_params(epsilon=self.epsilon)
""",
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
    Patch(
        "many-valued columns identified by an exact count",
        UNPAID,
        "draw_many_valued_columns",
        "lambda other_counts, epsilon, ledger: other_counts > ledger.n_private / 5",
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
        "        n_lower=int(noisy.values[0]),\n",
        "        n_lower=int(count[0]),\n",
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
    Patch(
        "relabelled rows stored in an attribute",
        LEAK,
        "LabelBoostClassifier._store",
        """def replacement(self, labelled, *args):
    original(self, labelled, *args)
    self.transduction_ = labelled.y
""",
        ("LabelBoostClassifier, no round",),
    ),
    Patch(
        "a receipt that states the number of labellings",
        LEAK,
        "relabel",
        """def replacement(hypotheses, X, y, classes, epsilon, ledger):
    family = all_labelings(hypotheses, X, classes).family(y)
    ledger.annotate(f"one of {family.size} labelings", Draw(epsilon), RELABELLING_PROOF)
    return original(hypotheses, X, y, classes, epsilon, ledger)
""",
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
    Patch(
        "a publicly known subset",
        RANDOMNESS,
        "SubsamplingPlan.draw_queries",
        """def replacement(self, ledger):
    import numpy as np

    if self.roles == "random":
        return np.random.default_rng(0).choice(self.n_pool, self.n_queried, replace=False)
    return original(self, ledger)
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
        "    chosen_kind = kinds[chosen]\n",
        "    chosen_kind = kinds[int(np.argmin(errors))]\n",
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
    Patch(
        "a warning that states a count of private rows",
        LEAK,
        "read_label_status",
        """def replacement(*args, **options):
    rows = original(*args, **options)
    n_private_label = int(rows.y_private.sum())
    if 2 * n_private_label < len(rows.y_private):
        warnings.warn(f"only {n_private_label} rows have the private label", stacklevel=2)
    return rows
""",
        ("PPMHalfspaceClassifier",),
    ),
    Patch(
        "classes taken from the labels that occur",
        LEAK,
        "encode_labels",
        "lambda private, public, classes: original(private, public, None)",
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
    Patch(
        "labels released as they are if all released labels are equal",
        LEAK,
        "release_labels",
        """def replacement(codes, ledger):
    released = original(codes, ledger)
    return released if len(set(released.tolist())) > 1 else codes
""",
        ("LabelPrivateClassifier",),
    ),
    Mutant(
        "public features in the order of private labels",
        STRUCTURE,
        "label_privacy/classifier.py",
        "            positions = np.arange(n_public, dtype=np.intp) * n // n_public\n",
        "            positions = np.argsort(np.asarray(y) == 0, kind='stable')[:n_public]\n",
        ("LabelPrivateClassifier, private estimator",),
    ),
    Mutant(
        "a public model of private columns",
        LEAK,
        "label_privacy/private_columns.py",
        "if i not in self._positions]",
        "if i in self._positions]",
        ("PrivateColumnsClassifier",),
    ),
    Mutant(
        "rows in the order of a private column",
        STRUCTURE,
        "label_privacy/private_columns.py",
        "        table, codes = table.take(order)",
        "        order = np.argsort(table.column(self._positions[0]).astype(str), kind='stable')\n"
        "        table, codes = table.take(order)",
        ("PrivateColumnsClassifier",),
    ),
    Mutant(
        "candidates fitted to private rows",
        STRUCTURE,
        "rules/private_selection.py",
        "PublicRows(rows.X_public, ",
        "PublicRows(rows.to_arrays()[0], ",
        ("PrivateSelectionClassifier",),
    ),
    Mutant(
        "votes on many points with the sensitivity of one",
        SENSITIVITY,
        "rules/private_votes.py",
        "Sensitivity(2 * len(points), 2 * len(points))",
        "Sensitivity(2, 2)",
        ("PrivateVotesClassifier",),
    ),
    Patch(
        "blocks of rows that depend on the order of values",
        SENSITIVITY,
        "count_votes",
        """def replacement(estimator, X, codes, points, classes, n_blocks):
    order = np.lexsort((codes, X[:, 0]))
    return original(estimator, X[order], codes[order], points, classes, n_blocks)
""",
        ("PrivateVotesClassifier",),
    ),
    Mutant(
        "an error of a classifier on a block of private rows",
        LEAK,
        "rules/private_votes.py",
        "    return votes if failure is None else frequent\n",
        """    if failure is not None:
        raise failure
    return votes
""",
        ("PrivateVotesClassifier, careless classifier",),
    ),
    Mutant(
        "a student of the exact votes",
        UNPAID,
        "rules/private_votes.py",
        "        copies = copies_of_points(self.votes_)\n",
        "        copies = copies_of_points(count_votes(\n"
        "            estimator, X_private, codes, points, classes, self.n_blocks_))\n",
        ("PrivateVotesClassifier",),
    ),
)
