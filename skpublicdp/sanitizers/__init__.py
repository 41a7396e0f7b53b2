"""Sanitizers, which release synthetic versions of private rows for building covers."""

from skpublicdp.sanitizers.blr_sanitizer import BLRSanitizer
from skpublicdp.sanitizers.quantile_sanitizer import QuantileSanitizer
from skpublicdp.sanitizers.quantiles import QuantileColumn

__all__ = ["BLRSanitizer", "QuantileColumn", "QuantileSanitizer"]
