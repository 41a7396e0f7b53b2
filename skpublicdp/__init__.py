"""Learning on private data with the help of public data, under differential privacy."""

from skpublicdp.ppm import PPMHalfspaceClassifier
from skpublicdp.preprocessing import PublicFit
from skpublicdp.query_release import PAPQueryRelease
from skpublicdp.semi_private import SemiPrivateClassifier

__version__ = "0.1.0"

__all__ = [
    "PAPQueryRelease",
    "PPMHalfspaceClassifier",
    "PublicFit",
    "SemiPrivateClassifier",
    "__version__",
]
