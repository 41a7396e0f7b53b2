"""Run sacroml's membership attacks on fitted classifiers with and without privacy.

Attacks: LiRA (likelihood ratio of shadow models), worst case (a forest on the probabilities of rows
whose membership is known) and structural (degrees of freedom, k-anonymity, class disclosure). The
claim is the receipt's upper bound on the area under the ROC curve of any membership attack.
"""

from __future__ import annotations

import logging
import math
import tempfile
from importlib.metadata import version

import numpy as np
from sacroml.attacks.likelihood_attack import LIRAAttack
from sacroml.attacks.structural_attack import StructuralAttack
from sacroml.attacks.target import Target
from sacroml.attacks.worst_case_attack import WorstCaseAttack
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from witnesses_table import HOLDS, row

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.hypotheses import Halfspaces

TOOL = f"sacroml {version('sacroml')}"
N = 400
"""Number of training rows and of test rows; half as many rows are public."""

N_SHADOWS = 30
STANDARD_ERRORS = 3
"""Number of standard errors subtracted from each area (0.13% each, for fewer than 12 areas)."""

RISKS = "structural: risks flagged, of 6"

logging.disable(logging.WARNING)


class WithPublicRows(ClassifierMixin, BaseEstimator):
    """Classifier whose `fit` adds public rows, which sacroml does not support."""

    def __init__(self, estimator, X_public, random_state=1):
        self.estimator, self.X_public, self.random_state = estimator, X_public, random_state

    def fit(self, X, y):
        """Fit with the public rows."""
        estimator = clone(self.estimator).set_params(random_state=self.random_state)
        self.fitted_ = estimator.fit(X, y, X_public=self.X_public)
        self.classes_ = self.fitted_.classes_
        return self

    def predict(self, X):
        """Return the predictions."""
        return self.fitted_.predict(X)

    def predict_proba(self, X):
        """Return the probabilities, which are 0 or 1 for a single rule."""
        if hasattr(self.fitted_, "predict_proba"):
            return self.fitted_.predict_proba(X)
        return np.eye(2)[self.fitted_.predict(X).astype(int)]


def rows():
    X, y = make_classification(
        2 * N + N // 2, 6, n_informative=4, n_redundant=0, flip_y=0.2, random_state=0
    )
    train, test, public = X[:N], X[N : 2 * N], X[2 * N :]
    labels = y[:N], y[N : 2 * N]

    def boosting(epsilon):
        return SemiPrivateBoostingClassifier(epsilon=epsilon, delta=1e-6, classes=(0, 1))

    def rule(epsilon):
        return SemiPrivateClassifier(
            Halfspaces("directions", directions=20), epsilon=epsilon, classes=(0, 1)
        )

    free = areas(HistGradientBoostingClassifier(random_state=1), train, test, labels)
    subjects = {
        "SemiPrivateBoostingClassifier": boosting,
        "SemiPrivateClassifier, halfspaces": rule,
    }
    for name, make in subjects.items():
        for epsilon in (1.0, 8.0):
            model = WithPublicRows(make(epsilon), public)
            found = areas(model, train, test, labels)
            receipt = model.fit(train, labels[0]).fitted_.privacy_
            alpha = np.linspace(0, 1, 2001)
            limit = 1 - float(np.trapezoid(receipt.trade_off(alpha), alpha))
            for attack, area in found.items():
                subject = f"{name}, ε = {epsilon:g}"
                is_area = attack != RISKS
                claim = (limit, receipt.delta) if is_area else (math.nan, math.nan)
                line = row("attacks", TOOL, subject, attack, *claim, area, free[attack])
                error = math.sqrt((2 * N + 1) / (12 * N * N))
                if is_area and area - STANDARD_ERRORS * error <= limit:
                    line = line._replace(verdict=HOLDS)
                yield line


def areas(model, train, test, labels):
    """Return the area under the ROC curve of each attack on a model, and the structural risks."""
    fitted = model.fit(train, labels[0])
    target = Target(
        model=fitted, dataset_name="made", X_train=train, y_train=labels[0], X_test=test,
        y_test=labels[1],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for title, attack in {
            "LiRA": LIRAAttack(folder, False, n_shadow_models=N_SHADOWS),
            "worst case": WorstCaseAttack(folder, False, n_reps=3),
        }.items():
            output = attack.attack(target)
            instances = output["attack_experiment_logger"]["attack_instance_logger"]
            found[title] = float(np.mean([one["AUC"] for one in instances.values()]))
        output = StructuralAttack(folder, False).attack(target)
        risks = output["metadata"]["global_metrics"]
        found[RISKS] = float(sum(bool(value) for name, value in risks.items() if "_risk" in name))
    return found
