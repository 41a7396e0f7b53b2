"""Privacy accounting: events and their prices in (ε, δ), zCDP and GDP, plans, and receipts."""

from skpublicdp.accounting.amplification import (
    base_delta,
    base_epsilon,
    subsample_size,
    subsampled_delta,
    subsampled_epsilon,
)
from skpublicdp.accounting.events import (
    Approximate,
    Draw,
    Either,
    Event,
    Gaussian,
    Noise,
    Pure,
    Sensitivity,
    Steps,
    Subsampled,
    basic_price,
    mu_squared_price,
    rho_price,
)
from skpublicdp.accounting.gdp import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu_squared,
    pure_mu_squared,
)
from skpublicdp.accounting.measurements import Measurement, noise_scale
from skpublicdp.accounting.plans import largest_scale, plan_delta
from skpublicdp.accounting.receipts import (
    REPLACE_FEATURES,
    REPLACE_LABEL,
    REPLACE_ONE,
    REPLACE_ROW,
    Mechanism,
    PrivacyReceipt,
)
from skpublicdp.accounting.risk import epsilon_from_risk, risk_from_epsilon
from skpublicdp.accounting.rounding import exact_fraction
from skpublicdp.accounting.zcdp import zcdp_epsilon, zcdp_rho

__all__ = [
    "REPLACE_FEATURES",
    "REPLACE_LABEL",
    "REPLACE_ONE",
    "REPLACE_ROW",
    "Approximate",
    "Draw",
    "Either",
    "Event",
    "Gaussian",
    "Measurement",
    "Mechanism",
    "Noise",
    "PrivacyReceipt",
    "Pure",
    "Sensitivity",
    "Steps",
    "Subsampled",
    "base_delta",
    "base_epsilon",
    "basic_price",
    "epsilon_from_risk",
    "exact_fraction",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu_squared",
    "largest_scale",
    "mu_squared_price",
    "noise_scale",
    "plan_delta",
    "pure_mu_squared",
    "rho_price",
    "risk_from_epsilon",
    "subsample_size",
    "subsampled_delta",
    "subsampled_epsilon",
    "zcdp_epsilon",
    "zcdp_rho",
]
