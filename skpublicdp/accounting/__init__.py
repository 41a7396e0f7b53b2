"""Budgets: receipts, zCDP and its conversions, amplification by subsampling."""

from skpublicdp.accounting.amplification import base_epsilon, subsampled_epsilon
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
    "Mechanism",
    "PrivacyReceipt",
    "base_epsilon",
    "exact_fraction",
    "exponential_rho",
    "gaussian_rho",
    "pure_rho",
    "subsampled_epsilon",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
