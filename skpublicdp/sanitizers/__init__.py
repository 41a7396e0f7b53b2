"""Synthetic rows from private ones, to build covers on."""

from skpublicdp.sanitizers.blr_sanitizer import BLRSanitizer
from skpublicdp.sanitizers.quantile_sanitizer import QuantileSanitizer
from skpublicdp.sanitizers.quantiles import Column

__all__ = ["BLRSanitizer", "Column", "QuantileSanitizer"]
