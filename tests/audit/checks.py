"""All checks of the audit by name, and the table of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from skpublicdp.audit import BinomialAudit, Verification
from tests.audit.attacks import attacks
from tests.audit.catalogue import catalogue
from tests.audit.refusals import verify_refusals
from tests.audit.samplers import sampler_checks

Result: TypeAlias = Verification | BinomialAudit

FAILED = "it failed"
"""Beginning of a finding about a check that raised an error and verified nothing."""

COLUMNS = ("estimator", "claimed ε", "δ", "attained ε", "witness")


def all_checks() -> dict[str, Callable[[], Result]]:
    """Return the checks by name: draws, noise, bits and budgets, then every public estimator."""
    cases = {case.name: case.verify for case in catalogue()}
    return {**sampler_checks(), "errors about rows": verify_refusals, **cases, **attacks()}


def run_check(name: str, check: Callable[[], Result]) -> Result:
    """Return the result of a check. An error becomes the finding of a verification."""
    try:
        return check()
    except Exception as error:
        findings = (f"{FAILED}: {error!r}",)
        return Verification(name, 0.0, 0.0, 0.0, 0.0, "none", 0, 0, 0, (), findings)


def table(results: Iterable[Result]) -> Iterator[str]:
    """Yield the lines of a Markdown table of the results, as they arrive."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|--:|--:|--:|---|"
    for result in results:
        claims = f"{result.claimed:g} | {result.claimed_delta:g} | {result.attained:.3g}"
        if isinstance(result, BinomialAudit):
            claims = f"{result.claimed:g} | {result.claimed_delta:g} | ≥ {result.attained:.3g}"
        elif not result.n_fits:
            claims = "— | — | —"
        witness = result.witness
        if not result.holds:
            reason = "; ".join(result.findings) or "the attained ε exceeds the claimed ε"
            witness = f"{witness}: **VIOLATED**: {reason}"
        yield f"| {result.name} | {claims} | {witness} |"


def verdict(results: Sequence[Result]) -> str:
    """Return one line with the number of checks and the names of violated ones."""
    violated = [result.name for result in results if not result.holds]
    checks = "1 check" if len(results) == 1 else f"{len(results)} checks"
    if not violated:
        return f"{checks}, no violation."
    return f"{checks}, {len(violated)} violated: {'; '.join(violated)}."
