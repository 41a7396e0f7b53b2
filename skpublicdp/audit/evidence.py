"""verify_all: verification of all mechanisms and public estimators of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from skpublicdp.audit.attacks import attacks
from skpublicdp.audit.binomial import BinomialAudit
from skpublicdp.audit.catalogue import catalogue
from skpublicdp.audit.refusals import verify_refusals
from skpublicdp.audit.samplers import sampler_checks
from skpublicdp.audit.verification import Verification

Check: TypeAlias = Callable[[], Verification | BinomialAudit]

FAILED = "it failed"
"""Beginning of a finding about a check that raised an error and verified nothing."""

COLUMNS = ("estimator", "claimed ε", "δ", "attained ε", "witness")


def verify_all(*names: str) -> Iterator[Verification | BinomialAudit]:
    """Verify draws, noise, random bits and budgets, then every public estimator.

    Parameters
    ----------
    *names : str
        Names of the checks to run, as in the table; all by default.

    Yields
    ------
    Verification or BinomialAudit
        Each has `name`, `claimed`, `attained`, `witness`, `findings` and `holds`. A check that
        raises an error does not hold.

    Raises
    ------
    ValueError
        If a name is not in the table.

    See Also
    --------
    verify_privacy : Verifies one estimator, also one of your own.

    Notes
    -----
    All checks take a few minutes on one core. ``python -m skpublicdp.audit [NAME ...]`` prints the
    results as a table with a verdict below it, and its exit code is 1 if a check does not hold. All
    randomness is seeded or replayed, so that repeated calls return equal results.

    Examples
    --------
    >>> from skpublicdp.audit import verify_all
    >>> next(verify_all())
    Verification of exact draws: holds
    >>> [verification.holds for verification in verify_all("PublicFit")]
    [True]
    """
    for name, check in select_checks(*names).items():
        yield run_check(name, check)


def select_checks(*names: str) -> dict[str, Check]:
    """Return the checks with the given names, in their order, or all checks without names."""
    checks = _checks()
    for name in names:
        if name not in checks:
            raise ValueError(f"names must be names in the table of verify_all(); got {name!r}.")
    return {name: checks[name] for name in names or checks}


def run_check(name: str, check: Check) -> Verification | BinomialAudit:
    """Return the result of a check. An error becomes the finding of a verification."""
    try:
        return check()
    except Exception as error:
        findings = (f"{FAILED}: {error!r}",)
        return Verification(name, 0.0, 0.0, 0.0, 0.0, "none", 0, 0, 0, (), findings)


def _checks() -> dict[str, Check]:
    """Return the checks of `verify_all` by name, in the order of its table."""
    cases = {case.name: case.verify for case in catalogue()}
    return {**sampler_checks(), "errors about rows": verify_refusals, **cases, **attacks()}


def table(results: Iterable[Verification | BinomialAudit]) -> Iterator[str]:
    """Yield the lines of a Markdown table of the results of `verify_all`, as they arrive."""
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


def verdict(results: Sequence[Verification | BinomialAudit]) -> str:
    """Return one line with the number of checks and the names of violated ones.

    Examples
    --------
    >>> from skpublicdp.audit import verify_all
    >>> verdict([*verify_all("PublicFit")])
    '1 check, no violation.'
    """
    violated = [result.name for result in results if not result.holds]
    checks = "1 check" if len(results) == 1 else f"{len(results)} checks"
    if not violated:
        return f"{checks}, no violation."
    return f"{checks}, {len(violated)} violated: {'; '.join(violated)}."
