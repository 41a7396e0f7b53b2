"""Internal names of privacy that tests use."""

from skpublicdp.privacy import budget as budget_module
from skpublicdp.privacy import ledger as ledger_module
from skpublicdp.privacy.budget import new_ticket
from skpublicdp.privacy.ledger import (
    Ledger,
    noise_is_representable,
    public_computation,
    public_seed,
)
