"""Internal names of `skpublicdp._internal` that tests use."""

from skpublicdp._internal.coupling import couples_rows
from skpublicdp._internal.html_repr import public_settings
from skpublicdp._internal.redaction import call_or_raise
from skpublicdp._internal.reproducible import significant, stable_floor, with_stable_signs
