"""Evaluate synthetic rows of NIST's ACS excerpts and copied private rows with sdmetrics.

Private rows are a random half of Massachusetts 2019, the other half is held out, and public rows
are from 2018. DATA is the folder of the tables. Without it, this part is skipped.
"""

from __future__ import annotations

import math
import os
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from sdmetrics.reports.single_table import QualityReport
from sdmetrics.single_table import DCROverfittingProtection
from witnesses_table import HOLDS, MissingError, Row

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries

TOOL = f"sdmetrics {version('sdmetrics')}"
COLUMNS = (
    *("PUMA", "SEX", "MSP", "RAC1P", "NOC", "EDU", "OWN_RENT", "INDP_CAT", "PINCP_DECILE"),
    *("DENSITY", "DREM", "DPHY", "DEYE", "DEAR"),
)
N_ROWS = 1000
"""Number of synthetic rows, and of private and held-out rows used for the distances."""


def rows():
    folder = os.environ.get("DATA")
    if not folder:
        raise MissingError("DATA, the folder of the ACS excerpts")
    frames = {
        year: pd.read_csv(Path(folder) / f"acs_ma_{year}.csv.gz", dtype=str, keep_default_na=False)[
            list(COLUMNS)
        ]
        for year in (2018, 2019)
    }
    order = np.random.default_rng(0).permutation(len(frames[2019]))
    shuffled = frames[2019].iloc[order].reset_index(drop=True)
    half = len(shuffled) // 2
    private, held_out = shuffled[:half], shuffled[half:].reset_index(drop=True)
    # an equal number of rows on both sides of the distances
    near, far = private[:N_ROWS].reset_index(drop=True), held_out[:N_ROWS].reset_index(drop=True)
    metadata = {"columns": {name: {"sdtype": "categorical"} for name in COLUMNS}}
    made = {}
    for epsilon in (1.0, 8.0):
        release = PAPQueryRelease(MarginalQueries(k=2), epsilon=epsilon, delta=1e-9, random_state=1)
        release.fit(private, X_public=frames[2018])
        made[f"PAPQueryRelease, ε = {epsilon:g}"] = release.sample(N_ROWS)
    made["private rows, copied"] = near.copy()
    for subject, synthetic in made.items():
        synthetic = synthetic.astype(str)
        quality = QualityReport()
        quality.generate(held_out, synthetic, metadata, verbose=False)
        protection = DCROverfittingProtection.compute_breakdown(
            real_training_data=near, synthetic_data=synthetic, real_validation_data=far,
            metadata=metadata, table_name=None,
        )  # fmt: skip
        yield Row(
            "rows", TOOL, subject, "", math.nan, math.nan,
            float(protection["score"]), float(quality.get_score()), HOLDS,
        )  # fmt: skip
