"""verify_all: everything the package offers, verified in one go."""

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
"""How findings begin that are no more than an error."""

COLUMNS = ("estimator", "claimed ε", "δ", "attained ε", "witness")


def verify_all(*names: str) -> Iterator[Verification | BinomialAudit]:
    """Verify draws, noise, random bits and budgets, then every public estimator.

    Parameters
    ----------
    *names : str
        What to verify, by the names in the table; everything by default.

    Yields
    ------
    Verification or BinomialAudit
        One after the other; each has `name`, `claimed`, `attained`, `witness`, `findings` and
        `holds`. What cannot be fitted at all does not hold.

    Raises
    ------
    ValueError
        If a name is not in the table.

    See Also
    --------
    verify_privacy : One estimator, also one of your own.

    Notes
    -----
    It takes minutes on one core. ``python -m skpublicdp.audit`` prints the results as a table with
    a verdict below it, and returns 1 if anything does not hold; names may follow. All randomness
    is seeded, or dictated: two calls find the same.

    Examples
    --------
    >>> from skpublicdp.audit import verify_all
    >>> next(verify_all())
    Verification of exact draws: holds
    >>> [found.holds for found in verify_all("PublicFit")]
    [True]
    """
    for name, check in select_checks(*names).items():
        yield run_check(name, check)


def select_checks(*names: str) -> dict[str, Check]:
    """Return the checks of some names, in their order, or all checks."""
    checks = _checks()
    for name in names:
        if name not in checks:
            raise ValueError(f"names must be those in the table of verify_all(); got {name!r}.")
    return {name: checks[name] for name in names or checks}


def run_check(name: str, check: Check) -> Verification | BinomialAudit:
    """Run a check. An error is a finding: nothing is verified then."""
    try:
        return check()
    except Exception as error:
        findings = (f"{FAILED}: {error!r}",)
        return Verification(name, 0.0, 0.0, 0.0, 0.0, "none", 0, 0, 0, (), findings)


def _checks() -> dict[str, Check]:
    """Return all there is to verify, by name and in order."""
    cases = {case.name: case.verify for case in catalogue()}
    return {**sampler_checks(), "errors about rows": verify_refusals, **cases, **attacks()}


def table(found: Iterable[Verification | BinomialAudit]) -> Iterator[str]:
    """Write a table in Markdown, line by line.

    Parameters
    ----------
    found : iterable
        Of `verify_all`.

    Yields
    ------
    str
        The lines.
    """
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|--:|--:|--:|---|"
    for each in found:
        claims = f"{each.claimed:g} | {each.claimed_delta:g} | {each.attained:.3g}"
        if isinstance(each, BinomialAudit):
            claims = f"{each.claimed:g} | {each.claimed_delta:g} | ≥ {each.attained:.3g}"
        elif not each.n_fits:
            claims = "— | — | —"
        why = "; ".join(getattr(each, "findings", ())) or "more is lost than is claimed"
        said = each.witness if each.holds else f"{each.witness}: **VIOLATED**: {why}"
        yield f"| {each.name} | {claims} | {said} |"


def verdict(results: Sequence[Verification | BinomialAudit]) -> str:
    """Return one line that sums up all checks.

    Examples
    --------
    >>> from skpublicdp.audit import verify_all
    >>> verdict([*verify_all("PublicFit")])
    '1 check, nothing violated.'
    """
    violated = [result.name for result in results if not result.holds]
    checks = "1 check" if len(results) == 1 else f"{len(results)} checks"
    if not violated:
        return f"{checks}, nothing violated."
    return f"{checks}, {len(violated)} violated: {'; '.join(violated)}."
