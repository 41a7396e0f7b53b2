"""Internal names of accounting that tests use."""

from skpublicdp.accounting import amplification, gdp, plans, receipts, zcdp
from skpublicdp.accounting.cap import BudgetCap
from skpublicdp.accounting.events import (
    DRAW_MU_SQUARED_RATE,
    NO_EVENT,
    from_text,
    remaining_plans,
    to_text,
    without_failures,
)
from skpublicdp.accounting.filters import ZERO_SPENT, Filter, SpentTotals
from skpublicdp.accounting.hockey_stick import CurveGrid, _gaussian_delta
from skpublicdp.accounting.plans import equal_draws
from skpublicdp.accounting.receipts import PROOF_TITLES
from skpublicdp.accounting.registry import PRODUCT_TYPES, TO_WRITE
from skpublicdp.accounting.rounding import fraction_above, fraction_below
