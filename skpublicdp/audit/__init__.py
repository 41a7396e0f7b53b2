"""Privacy audits: exact verification on tiny data, statistical lower bounds, and attacks."""

from skpublicdp.audit.binomial import BinomialAudit, audit_privacy
from skpublicdp.audit.reduction import reduce_public_data
from skpublicdp.audit.tracing import TracingAttack, tracing_attack
from skpublicdp.audit.verification import Verification
from skpublicdp.audit.verify import verify_privacy

__all__ = [
    "BinomialAudit",
    "TracingAttack",
    "Verification",
    "audit_privacy",
    "reduce_public_data",
    "tracing_attack",
    "verify_privacy",
]
