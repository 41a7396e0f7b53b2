"""One fit for each kind of estimator, on the same people in any container."""

from functools import cache

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from skpublicdp import (
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from skpublicdp.hypotheses import Halfspaces
from skpublicdp.query_release import CustomQueries, MarginalQueries, StumpQueries, ThresholdQueries
from tests.data.containers import cut, pick


def people(n, seed):
    """Whole numbers, floats and text, some of all missing, dates, a label and an outcome."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(17, 90, n), rng.gamma(9, 4.5, n)
    jobs = ["clerk", "nurse", "pilot", "smith"][: 3 if seed else 4]  # one has no public row
    pay = 3.0 * age + hours + rng.normal(0, 20, n)
    some = rng.random((3, n)) < 0.05
    return pa.table(
        {
            "age": pa.array(age, mask=some[0]),
            "years": age // 2,
            "hours": pa.array(hours, mask=some[1]),
            "job": pa.array(rng.choice(jobs, n).tolist(), mask=some[2]),
            "joined": pa.array(rng.integers(10_000, 20_000, n) * 86_400_000, pa.timestamp("ms")),
            "known": hours,
            "income": np.where(pay > 200, ">50K", "<=50K"),
            "pay": pay,
        }
    )


N = 320
CUTS = (0, 70, 70, 180, N)
"""Where parts begin; one has no rows."""
TABLE, PUBLIC = people(N, 0), people(150, 1).to_pandas()
PARTS = cut(TABLE, CUTS)
FRAME = TABLE.to_pandas()

NUMBERS, MIXED = ["known", "joined"], ["age", "hours", "job", "joined"]
WHOLE = ["known", "job", "years", "joined"]


def busy(X):
    return np.column_stack([np.asarray(X["known"]) > at for at in (30, 45)])


FITS = {
    "trees": (SemiPrivateClassifier(epsilon=1), NUMBERS, "income"),
    "halfspaces": (SemiPrivateClassifier(Halfspaces(directions=50)), NUMBERS, "income"),
    "boosting": (SemiPrivateBoostingClassifier(epsilon=2), MIXED, "income"),
    "regression": (SemiPrivateBoostingRegressor(outcome_bounds=(0, 400)), MIXED, "pay"),
    "logistic": (SemiPrivateLogisticRegression(epsilon=5), MIXED, "income"),
    "linear": (SemiPrivateLinearRegression(outcome_bounds=(0, 400)), MIXED, "pay"),
    "pairs": (PAPQueryRelease(MarginalQueries(k=2)), WHOLE, None),
    "cdf": (PAPQueryRelease(ThresholdQueries()), ["known"], None),
    "stumps": (PAPQueryRelease(StumpQueries()), NUMBERS, None),
    "custom": (PAPQueryRelease(CustomQueries(busy)), NUMBERS, None),
}
"""Names of estimators: the estimator, its columns, and its labels."""


def unfitted(name, **parameters):
    """Return an estimator with a seed and further parameters."""
    return clone(FITS[name][0]).set_params(random_state=0, **parameters)


def fit(model, name, rows, *, reverse=True, **options):
    """Fit an estimator to rows in a container, and to public rows in another order of columns."""
    _, columns, label = FITS[name]
    y = () if label is None else (rows[label],)
    public = PUBLIC[columns[::-1] if reverse else columns]
    return model.fit(pick(rows, columns), *y, X_public=public, **options)


def fitted(name, rows, **parameters):
    """Return an estimator with further parameters that was fitted to rows in a container."""
    return fit(unfitted(name, **parameters), name, rows)


def bits(name, model):
    """Return all that a model says, of rows in pandas."""
    X, said = FRAME[FITS[name][1]], [str(model.privacy_)]
    if name in ("trees", "halfspaces"):
        said += [str(model.hypothesis_), model.cover_size_]
    elif name in ("boosting", "regression"):
        ask = model.predict_proba if name == "boosting" else model.interval
        said += [model.explain(), ask(X).tobytes(), model.intercept_]
    elif name in ("logistic", "linear"):
        said += [str(model.predict(X)), model.coef_.tobytes(), model.intercept_]
    elif name == "pairs":
        said += [np.asarray(model.table(["job", "joined"])["fraction"]).tobytes()]
    elif name == "custom":
        said += [model.answer([[0], [1]]).tobytes()]
    else:
        said += [model.cdf(np.linspace(10, 80, 50), column="known").tobytes()]
    return repr(said)


@cache
def trained(name):
    """Return the estimator of the frame in memory, of which public rows have the same columns."""
    return fit(unfitted(name), name, FRAME, reverse=False)


@cache
def expected(name):
    """Return what the estimator of the frame in memory says."""
    return bits(name, trained(name))
