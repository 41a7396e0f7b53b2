"""Budgets: receipts, zCDP, Gaussian differential privacy, amplification by subsampling."""

from skpublicdp.accounting.amplification import (
    base_delta,
    base_epsilon,
    subsample_size,
    subsampled_epsilon,
)
from skpublicdp.accounting.gdp import gaussian_delta, gaussian_epsilon, gaussian_mu_squared
from skpublicdp.accounting.plans import (
    Draw,
    Either,
    Gaussian,
    Steps,
    largest_scale,
    plan_delta,
)
from skpublicdp.accounting.receipts import (
    REPLACE_ONE,
    Mechanism,
    PrivacyReceipt,
    exact_fraction,
)
from skpublicdp.accounting.zcdp import (
    exponential_rho,
    gaussian_rho,
    pure_rho,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

__all__ = [
    "REPLACE_ONE",
    "Draw",
    "Either",
    "Gaussian",
    "Mechanism",
    "PrivacyReceipt",
    "Steps",
    "base_delta",
    "base_epsilon",
    "exact_fraction",
    "exponential_rho",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu_squared",
    "gaussian_rho",
    "largest_scale",
    "plan_delta",
    "pure_rho",
    "subsample_size",
    "subsampled_epsilon",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
