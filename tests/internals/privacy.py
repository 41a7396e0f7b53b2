"""Internal names of privacy that tests use."""

from skpublicdp.privacy import ledger as ledger_module
from skpublicdp.privacy import ticket
from skpublicdp.privacy.ledger import (
    Ledger,
    noise_is_representable,
    public_computation,
    public_seed,
)
from skpublicdp.privacy.stage_budget import StageBudget, make_stage_budget
from skpublicdp.privacy.ticket import new_ticket
