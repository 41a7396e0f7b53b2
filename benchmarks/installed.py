"""Test every estimator of an installed wheel with only its required dependencies.

``make wheel`` runs this script outside the checkout, in an environment with only the wheel.
"""

import importlib.util
import sys
import warnings
from importlib.metadata import version
from importlib.resources import files

import numpy as np

import skpublicdp
from skpublicdp.data import describe_columns
from skpublicdp.metrics import private_scores
from skpublicdp.query_release import RegressionRelease

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, X_public = rng.normal(size=(400, 2)), rng.normal(size=(50, 2))
y = np.where(X[:, 0] + rng.normal(size=400) > 0, 1, 0)

assert version("skpublicdp") == skpublicdp.__version__
assert "site-packages" in skpublicdp.__file__, skpublicdp.__file__
assert files("skpublicdp").joinpath("py.typed").is_file()
for optional in ("pandas", "matplotlib", "polars", "pyarrow"):
    assert importlib.util.find_spec(optional) is None, f"{optional} is installed"

for name in skpublicdp.__all__:
    made = getattr(skpublicdp, name)
    if name in ("PrivacyBudget", "__version__"):
        continue
    if name.startswith(("Conformal", "LabelPrivate", "PrivateColumns")):
        continue
    arguments = {"SemiPrivateSearchCV": [skpublicdp.SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}]}
    settings = {
        "SemiPrivateBoostingRegressor": {"outcome_bounds": (0, 1)},
        "SemiPrivateLinearRegression": {"outcome_bounds": (0, 1)},
        "SubsamplingActiveLearner": {"n_labels": 50},
    }
    estimator = made(*arguments.get(name, []), **settings.get(name, {}))
    if name == "PAPQueryRelease":
        estimator.fit(X, X_public=X_public)
    else:
        estimator.fit(X, y, X_public=X_public)
    print(name)

RegressionRelease().fit(X, X_public=X_public).regression(0)
learner = skpublicdp.SemiPrivateLinearRegression(outcome_bounds=(0, 1)).fit(X[:200], y[:200])
skpublicdp.ConformalRegressor(learner).fit(X[200:], y[200:])
classifier = skpublicdp.SemiPrivateLogisticRegression().fit(X[:200], y[:200])
skpublicdp.ConformalClassifier(classifier).fit(X[200:], y[200:])
skpublicdp.LabelPrivateClassifier(classifier).fit(X, y)
skpublicdp.PrivateColumnsClassifier(classifier, private_columns=[0]).fit(X, y, X_public=X_public)
skpublicdp.PrivateColumnsRegressor(learner, private_columns=[0]).fit(X, y, X_public=X_public)

budget = skpublicdp.PrivacyBudget(3.0, 1e-5)
model = skpublicdp.SemiPrivateBoostingClassifier(budget=budget)
model.fit(X, y, X_public=describe_columns({"a": (-3, 3), "b": (-3, 3)}))
print(private_scores(model, X, y, epsilon=1.0, budget=budget))
print(f"Python {sys.version.split()[0]}: all estimators work")
