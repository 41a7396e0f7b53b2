"""Record and replay fits between neighbours with dp-recorder (Re:cord-play, Cebere et al. 2026).

Its `audit_spec` wraps the two functions that release private answers, `Ledger.draw` and
`Ledger.add_noise`. A fit is recorded and replayed on a neighbouring dataset with frozen outputs.
The auditor then checks the inputs of both functions against the declared sensitivity, and compares
all visible parts of the fitted estimator with `ensure_equality`. The costs given by the declared
sensitivity and the noise scale are composed with dp-accounting, on which dp-recorder builds, and
compared with the receipt.

dp-recorder has one test defect for each of its six classes of bugs. The same six defects are
planted in copies of this package, and each must be found. ``python benchmarks/witnesses_recorder.py
CASE ...`` prints the findings in each case.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
from dp_recorder.auditing.audit_primitives import Auditor, audit_spec, ensure_equality
from dp_recorder.auditing.metrics import dist_l2
from witnesses_accounting import NOT_STEPS, epsilons
from witnesses_table import ABOVE, FOUND, HOLDS, MISSED, Row

from skpublicdp.accounting import Draw, Gaussian, Pure, Steps
from skpublicdp.audit.data_sets import Domain
from skpublicdp.audit.observe import Observation, canonical_form
from skpublicdp.audit.recorder import replaced
from skpublicdp.audit.sensitivity import error_range
from skpublicdp.privacy.ledger import Ledger
from tests.audit.catalogue import catalogue

TOOL = "dp-recorder 0.1.0"
N_PAIRS = 4
SKIPPED = ("SubsamplingActiveLearner", "LabelBoostClassifier", "PublicFit")
"""Cases without private answers, or with secret draws, which cannot be replayed."""

IN_PARALLEL = (*NOT_STEPS, "QuantileSanitizer")
"""Cases whose private answers do not compose: the medians of the two halves use disjoint rows."""

PLANTED = {
    "non-private access": "label counts stored in an attribute",
    "domain inference": "classes taken from the labels that occur",
    "double spending": "two tables that each spend the entire budget",
    "pathological input": "missing numbers that are counted only if there are several",
    "noise miscalibration": "Laplace noise scaled to the Euclidean sensitivity",
    "sensitivity miscalibration": "outcomes that are not clipped to their bounds",
}
"""Class of bugs in dp-recorder's own tests, and the planted defect from tests/mutants."""

DOUBLE_SPENDING = {
    "metrics/noisy_counts.py": (
        "accuracy, tables = noise.scaled(share), noise.scaled(1 - share)",
        "accuracy, tables = noise, noise",
    ),
    "privacy/ledger.py": (
        "self._remaining = options[0] if len(options) == 1 else max(options, key=mu_squared_price)",
        "pass",
    ),
}
"""Text replacements that spend a budget twice, which only the ledger would refuse."""


def rows():
    for case in catalogue():
        if not case.name.startswith(SKIPPED):
            n_pairs, findings = audited(case)
            yield Row(
                "recorder", TOOL, case.name, findings[0] if findings else "nothing found", math.nan,
                math.nan, float(len(findings)), float(n_pairs), ABOVE if findings else HOLDS,
            )  # fmt: skip
    yield from planted()


def planted():
    """Yield a row for each planted defect, audited in a copy of the package."""
    from tests.mutants.boosting import MUTANTS as BOOSTING
    from tests.mutants.copies import copy_with_audit
    from tests.mutants.core import MUTANTS as CORE
    from tests.mutants.learners import MUTANTS as LEARNERS
    from tests.mutants.releases import MUTANTS as RELEASES

    mutants = {one.name: one for one in (*CORE, *BOOSTING, *LEARNERS, *RELEASES)}
    for kind, name in PLANTED.items():
        with tempfile.TemporaryDirectory() as folder:
            mutant = mutants.get(name)
            copy_with_audit(folder, mutant)
            if mutant is None:
                for file, (old, new) in DOUBLE_SPENDING.items():
                    path = Path(folder) / "skpublicdp" / file
                    text = path.read_text(encoding="utf-8")
                    assert text.count(old) == 1, old
                    path.write_text(text.replace(old, new), encoding="utf-8")
            found = _run_copy(folder, mutant.cases if mutant else ("private_scores, pure",))
        verdict = FOUND if found else MISSED
        subject = f"planted: {kind}: {name}"
        yield Row(
            "recorder", TOOL, subject, found or "nothing found", math.nan, math.nan,
            float(bool(found)), math.nan, verdict,
        )  # fmt: skip


def _run_copy(folder, cases):
    """Return the first finding in a copy of the package, or an empty string."""
    here = str(Path(__file__).parent)
    recorder = next(path for path in sys.path if (Path(path) / "dp_recorder").exists())
    path = os.pathsep.join([folder, here, recorder])
    variables = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *cases]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.strip().split("\n")[0]


def audited(case):
    """Return the number of replayed pairs of neighbours, and the findings."""
    domain = Domain(case.domain, case.labels, case.n, case.rows_per_person, False)
    rng = np.random.default_rng(3)
    n_pairs, findings = 0, {}
    for data_set in domain.sample(N_PAIRS, rng):
        for neighbour in rng.permutation(domain.neighbours(data_set))[:N_PAIRS]:
            auditor, neighbour = Auditor(), tuple(int(kind) for kind in neighbour)
            try:
                receipt = fitted(case, domain, data_set, auditor)
            except Exception:  # a data set that cannot be fitted
                continue
            n_pairs += 1
            if not auditor.log[-1].call_id:  # a fit without exits
                continue
            auditor.set_replay()
            try:
                fitted(case, domain, neighbour, auditor)
                auditor.validate_records()
            except (AssertionError, RuntimeError) as error:
                findings[_short(error)] = None
            except Exception as error:  # of a defect
                findings[f"replay fails: {error}"] = None
    if n_pairs and not findings and not case.name.startswith(IN_PARALLEL):
        findings |= dict.fromkeys(spent(auditor, receipt))
    return n_pairs, list(findings)


def _short(error):
    """Return a message of dp-recorder without its quoted values."""
    text = str(error).replace("|", "/")
    return re.split(r" \(Call|\n", text)[0].strip()


def fitted(case, domain, data_set, auditor):
    """Fit a case under an auditor, declare all visible results, and return the receipt."""
    with auditor, exits(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = case.make().fit(**domain.arguments(data_set), **case.fit_params)
        for name, value in visible(domain, estimator).items():
            ensure_equality(**{name: value})  # of several values at once it compares the first
    return estimator.privacy_


def visible(domain, estimator):
    """Return a string for each public attribute and each method result."""
    observation = Observation()
    observation.record(estimator, domain.values(), None)
    for name in ("object", "sample"):  # the attributes follow; synthetic rows are random
        observation.shown.pop(name, None)
    attributes = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
    shown = observation.shown | attributes
    return {name: str(canonical_form(value)) for name, value in shown.items()}


@contextlib.contextmanager
def exits():
    """Instrument the ledger's functions that release private answers."""
    sample_noise, sample_member = Ledger._sample_noise, Ledger._sample_member
    add_noise = Ledger.add_noise
    declared = {}

    def noise_with_limit(ledger, table, sensitivity, event, **entry):
        declared["limit"] = ledger.for_person(sensitivity)
        return add_noise(ledger, table, sensitivity, event, **entry)

    def noise(ledger, event, scale, table):
        limit = declared["limit"]
        is_gaussian = isinstance(event, Gaussian)
        instrumented = _gaussian if is_gaussian else _laplace
        size = math.sqrt(limit.squared) if is_gaussian else float(limit.absolute)
        _current["sample"] = lambda values: sample_noise(ledger, event, scale, values)
        values = np.asarray(table, dtype=np.float64).ravel()
        released = instrumented(values, size, str(event), str(scale), table.shape)
        return np.asarray(np.asarray(released).reshape(table.shape) - table, dtype=np.int64)

    def member(ledger, family, epsilon, sensitivity):
        _current["draw"] = lambda one: sample_member(ledger, one, epsilon, sensitivity)
        return _draw({"family": family}, sensitivity, str(epsilon))

    def frozen(name):
        """Return a random choice of the ledger, such as a subset, that a replay repeats."""
        choose = getattr(Ledger, name)

        def choice(ledger, *arguments):
            _current["choose"] = lambda: choose(ledger, *arguments)
            return _choice(np.zeros(1), 0.0, name, str(arguments))

        return choice

    with (
        replaced(Ledger, "subset", frozen("subset")),
        replaced(Ledger, "order", frozen("order")),
        replaced(Ledger, "indices", frozen("indices")),
        replaced(Ledger, "uniform_below", frozen("uniform_below")),
        replaced(Ledger, "add_noise", noise_with_limit),
        replaced(Ledger, "_sample_noise", noise),
        replaced(Ledger, "_sample_member", member),
    ):
        yield


_current = {}


def _with_noise(values, shape):
    noise = _current["sample"](np.asarray(values).reshape(shape).astype(np.int64))
    return np.asarray(values) + np.asarray(noise).ravel()


def _l1(first, second):
    return float(np.abs(np.asarray(first) - np.asarray(second)).sum())


def _largest_move(first, second):
    """Return the largest change of a member's error count, or infinity if the members differ."""
    try:
        ends = error_range(first["family"], second["family"])
    except Exception:
        return math.inf
    return float(max(np.max(np.abs(end)) for end in ends))


@audit_spec("Laplace", "values", "limit", _l1)
def _laplace(values, limit, event, scale, shape):
    return _with_noise(values, shape)


@audit_spec("Gaussian", "values", "limit", dist_l2)
def _gaussian(values, limit, event, scale, shape):
    return _with_noise(values, shape)


@audit_spec("draw", "family", "limit", _largest_move)
def _draw(family, limit, epsilon):
    return _current["draw"](family["family"])


@audit_spec("choice", "nothing", "limit", _l1)
def _choice(nothing, limit, name, arguments):
    return _current["choose"]()


def spent(auditor, receipt):
    """Yield a finding if the total cost of the recorded answers exceeds the receipt."""
    events = [entry for entry in auditor.log if entry.kind not in ("EQ", "choice")]
    costs = [cost(entry) for entry in events]
    low, _ = epsilons(Steps(tuple(costs)), receipt.epsilon, receipt.delta)
    if low > receipt.epsilon * (1 + 1e-6):
        yield f"the exits cost ε = {low:.4g} together; claimed {receipt.epsilon:.4g}"


def cost(entry):
    """Return the cost of an answer from its declared sensitivity and its noise scale."""
    limit = Fraction(entry.sensitivity_val)
    if entry.kind == "Laplace":
        return Pure(limit / Fraction(entry.params["scale"]))
    if entry.kind == "Gaussian":
        return Gaussian(limit**2 / Fraction(entry.params["scale"]))
    return Draw(Fraction(entry.params["epsilon"]))


if __name__ == "__main__":
    named = {case.name: case for case in catalogue()}
    for name in sys.argv[1:]:
        with contextlib.redirect_stdout(io.StringIO()):
            _, found = audited(named[name])
        if found:
            print(f"{name}: {found[0]}"[:200])
