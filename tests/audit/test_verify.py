"""The public verifier: correct estimators hold, and every kind of seeded defect is detected."""

import logging
import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

import skpublicdp
from skpublicdp import SemiPrivateClassifier, accounting
from skpublicdp.accounting import (
    REPLACE_FEATURES,
    REPLACE_ONE,
    REPLACE_ROW,
    Draw,
    Gaussian,
    Pure,
    Sensitivity,
    Steps,
    plan_delta,
)
from skpublicdp.audit import Verification, audit_privacy, verify_privacy
from skpublicdp.hypotheses import Thresholds
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.audit import __main__ as command
from tests.audit import checks, summary
from tests.audit.catalogue import catalogue
from tests.audit.checks import run_check, table
from tests.helpers import two_up
from tests.internals.audit import (
    Domain,
    IncomparableError,
    PrivacyLosses,
    canonical_form,
    describe_difference,
    error_range,
    first_difference,
    gaussian_delta,
    log_partition_function,
    member_errors,
)
from tests.internals.mechanisms import Choice, Lazy, Leaf, OneOf, Product, random_bits
from tests.internals.privacy import Ledger, public_computation

BITS = [[0.0], [1.0]]
ENTRY = {"name": "counts", "proof": "none"}
COUNT_SENSITIVITY = Sensitivity(2, 2)


class Counts(BaseEstimator):
    """Release of the numbers of rows that are 0 and 1, by Laplace or Gaussian noise."""

    def __init__(self, epsilon=1.0, delta=0.0, random_state=None, budget=None):
        self.epsilon, self.delta = epsilon, delta
        self.random_state, self.budget = random_state, budget

    def fit(self, X, *, X_public=None):
        ledger = Ledger.from_estimator(self)
        self.values_ = self.release(self.count(X), ledger)
        self.after(X, X_public, ledger)
        self.privacy_ = ledger.receipt()
        return self

    def count(self, X):
        return np.bincount(X[:, 0].astype(int), minlength=2)

    def release(self, counts, ledger):
        return ledger.add_noise(counts, COUNT_SENSITIVITY, ledger.event, **ENTRY).values

    def after(self, X, X_public, ledger):
        pass


class Mode(Counts):
    """The more frequent one of two values, by the exponential mechanism."""

    def release(self, counts, ledger):
        event = Draw(Fraction(self.epsilon))
        ledger.plan(event)
        return ledger.draw(Leaf(-counts), event, 1, **ENTRY)


class Around(Counts):
    """Protection of persons by a learner that protects single rows."""

    max_rows_per_group = 2

    def fit(self, X, groups):
        ledger = Ledger.from_estimator(self)
        paid = ledger.sub_ledger(ledger.event, **ENTRY)
        self.values_ = Counts(*map(self.share, paid.per_row(paid.epsilon, paid.delta))).fit(X)
        self.privacy_ = self.receipt(ledger)
        return self

    def share(self, budget):
        return budget

    def receipt(self, ledger):
        return ledger.receipt()


class Relabels(Mode):
    """Two draws that a theorem pays for; the first may swap the counts of the second."""

    def release(self, counts, ledger):
        paid = ledger.sub_ledger(ledger.event, name="both", proof="none", by_theorem=True)
        epsilon = Fraction(self.epsilon) / 2
        swapped = paid.draw(Leaf(np.array([0, 0])), Draw(epsilon), 1, **ENTRY)
        swapped ^= int(counts[0] > 1)  # the same member, and another rule
        return Mode(epsilon).release(counts[::-1] if swapped else counts, Ledger(epsilon))


def verified(kind, n=3, **settings):
    return verify_privacy(kind, BITS, n, **settings)


class TestCorrectEstimators:
    def test_laplace_noise_attains_its_claim(self):
        result = verified(Counts)
        assert result.holds, result
        assert result.attained == pytest.approx(1)
        assert result.witness == "all draws, noise by sensitivity"
        assert result.rows() == [{"use": "counts", "kind": "noise", "share": pytest.approx(1)}]

    def test_gaussian_noise_attains_its_claim(self):
        result = verified(lambda: Counts(2.0, 1e-5), max_fits=60)
        assert result.holds, result
        assert result.attained == pytest.approx(2, abs=1e-4)
        assert result.attained_delta == pytest.approx(1e-5, rel=1e-3)
        assert result.witness == "replay"

    def test_a_draw_is_verified_exactly(self):
        """With one row, the counts are (1, 0) or (0, 1); probabilities differ by e^(ε/2)."""
        result = verified(Mode, 1)
        assert result.holds, result
        assert result.attained == pytest.approx(1 / 2, rel=1e-12)
        assert result.witness == "all outcomes"
        assert (result.n_data_sets, result.n_pairs) == (2, 1)

    def test_trials_on_public_rows_are_no_use_of_private_rows(self):
        X_public = np.linspace(0, 3, 12)[:, None]
        search = SemiPrivateSearchCV(
            SemiPrivateClassifier(Thresholds()), {"alpha": [0.3, 0.5]}, classes=[0, 1]
        )
        result = verify_privacy(
            lambda: clone(search),
            [[0.0], [2.0]],
            2,
            labels=[0, 1],
            fit_params={"X_public": X_public, "y_public": X_public[:, 0] > 1},
        )
        assert result.holds, result
        assert result.witness == "all outcomes"
        (use,) = result.rows()
        assert use["kind"] == "draw"

    def test_secret_roles_reduce_the_loss(self):
        """With a secret choice of one of two rows, the loss is ln((1 + e^(ε/2)) / 2)."""

        class OneOfTwo(Mode):
            def release(self, counts, ledger):
                rows = np.repeat([0, 1], counts)[ledger.subset(int(counts.sum()), 1)]
                return super().release(np.bincount(rows, minlength=2), ledger)

        result = verified(OneOfTwo, 2)
        assert result.holds, result
        assert result.attained == pytest.approx(math.log((1 + math.exp(1 / 2)) / 2))

    def test_persons(self):
        class Persons(Counts):
            max_rows_per_group = 2

            def fit(self, X, groups):
                return super().fit(X)

        result = verified(Persons, 2, rows_per_person=2)
        assert result.holds, result
        assert result.attained == pytest.approx(1)
        assert result.n_data_sets == 6  # two of three possible persons

    @pytest.mark.parametrize("delta", [0, 1e-5])
    def test_an_inner_learner_of_rows_inside_a_learner_of_persons(self, delta):
        """Theorem 2.2 of Dwork and Roth (2014): ε/k for one row is ε for k rows."""
        result = verified(lambda: Around(2.0, delta), 2, rows_per_person=2, max_fits=100)
        assert result.holds, result
        assert result.attained == pytest.approx(2) if not delta else 1 < result.attained < 2
        assert result.uses[0]["share"] == pytest.approx(1)

    def test_a_secret_draw_may_change_all_later_steps(self):
        result = verified(Relabels, 2, max_fits=100)
        assert result.holds, result
        with pytest.raises(ValueError, match="max_fits=8"):
            verified(Relabels, 2, max_fits=8)

    def test_a_draw_within_a_part_that_a_theorem_pays_for(self):
        """The draw is released, like the medians of a level. It is replayed and its loss counts."""

        class Parts(Mode):
            def release(self, counts, ledger):
                half = Draw(Fraction(self.epsilon) / 2)
                paid = ledger.sub_ledger(half, name="parts", proof="none", by_theorem=True)
                return paid.draw(Leaf(-self.weight * counts), half, 1, **ENTRY)

            weight = 1

        result = verified(Parts, 6, max_fits=12)
        assert result.holds, result
        assert result.witness == "replay"
        result = verified(with_defect(Parts, weight=2), 6, max_fits=12)
        assert "counts: the privacy loss exceeds its ledger entry" in result.findings

    def test_an_estimator_in_place_of_a_class_is_refused(self):
        with pytest.raises(TypeError, match="class or a function"):
            verify_privacy(Fraction(1, 2), [[0.0], [1.0]], 2)

    def test_a_fit_that_always_fails(self):
        with pytest.raises(ValueError, match="fit must succeed"):
            verified(lambda: Counts(epsilon="much"))


# seeded defects: (estimator, part of the finding)


def with_defect(base=Counts, **methods):
    return type("Defect", (base,), methods)


def sensitivity_of_one(self, counts, ledger):
    return ledger.add_noise(counts, Sensitivity(1, 1), ledger.event, **ENTRY).values


def unpaid_second_release(self, X, X_public, ledger):
    other = Ledger(self.epsilon)
    self.more_ = Counts.release(self, self.count(X), other)


def no_entry(self, counts, ledger):
    return counts + ledger._sample_noise(ledger.event, Fraction(2), counts)


def before_the_entry(self, counts, ledger):
    drawn = ledger._sample_noise(ledger.event, Fraction(2), counts)
    ledger._enter(ledger.event, **ENTRY)
    return counts + drawn


def known_seed(self, counts, ledger):
    ledger._bits = random_bits(7)
    return Counts.release(self, counts, ledger)


def one_seed_for_all(self, counts, ledger):
    ledger._sample_noise = lambda event, spread, counts: np.zeros_like(counts)
    return Counts.release(self, counts, ledger)


def global_noise(self, counts, ledger):
    np.random.seed(0)  # noqa: NPY002
    return Counts.release(self, counts, ledger)


def unscaled(self, counts, ledger):
    noisy = Counts.release(self, counts, ledger)
    self.exact_ = lambda: counts.sum() * 0 + counts[0]
    return noisy


def floats(self, X):
    shares = np.where(X[:, 0] > 0, 0.6, 0.4)
    return np.array([round(shares.sum()), 0], dtype=np.int64)


def cover_of_rows(self, counts, ledger):
    event = Draw(Fraction(self.epsilon))
    ledger.plan(event)
    return ledger.draw(Leaf(-counts[counts > 0]), event, 1, **ENTRY)


def warn(self, X, X_public, ledger):
    if self.count(X)[0] > 1:
        warnings.warn("few rows are 1", stacklevel=2)


def fail(self, X, X_public, ledger):
    if self.count(X)[0] > 2:
        raise ValueError("there is no 1")


def say(self, X, X_public, ledger):
    print("sum", X.sum())


def log(self, X, X_public, ledger):
    logging.getLogger("skpublicdp").info("sum %d", X.sum())


def store(self, X, X_public, ledger):
    self.n_ones_ = int(X.sum())


def store_type(self, X, X_public, ledger):
    self.kind_ = "int" if X.all() else "float"


def publish(self, X, X_public, ledger):
    X_public[0, 0] = X.sum()


def remember(self, X, X_public, ledger):
    self.order_ = [float(value) for value in X[:1, 0]]


def branch_on_rows(self, X, X_public, ledger):
    """Branch on private rows."""
    if self.count(X)[0] > 1:
        ledger.sub_ledger(Pure(Fraction(0)), **ENTRY)
        self.values_ = self.values_ * 2


def private_rows_declared_public(self, X, X_public, ledger):
    with public_computation():
        self.mode_ = Mode(epsilon=50, random_state=0).fit(X).values_


def unseeded_in_public(self, X, X_public, ledger):
    with public_computation():
        self.mode_ = Mode().fit(X).values_


def understate(self, X, X_public, ledger):
    ledger.epsilon = Fraction(1, 2)


def deny_the_seed(self, X, X_public, ledger):
    ledger.__class__ = type("Liar", (Ledger,), {"secure": True})


DEFECTS = {
    "wrong sensitivity": (with_defect(release=sensitivity_of_one), "exceeds its ledger entry"),
    "unpaid second release": (with_defect(after=unpaid_second_release), None),
    "no entry": (with_defect(release=no_entry), "no ledger entry"),
    "drawn before its entry": (with_defect(release=before_the_entry), "no ledger entry"),
    "noise from a known seed": (with_defect(release=known_seed), "ledger's source"),
    "no noise": (with_defect(release=one_seed_for_all), "distinguishable"),
    "a global generator": (with_defect(release=global_noise), "global random generator"),
    "a closure": (with_defect(release=unscaled), "distinguishable"),
    "sums of floats": (with_defect(count=floats), "depends on other rows"),
    "a cover of private rows": (with_defect(release=cover_of_rows), None),
    "a warning": (with_defect(after=warn), "warnings"),
    "an error": (with_defect(after=fail), "distinguishable"),
    "printed": (with_defect(after=say), "printed"),
    "logged": (with_defect(after=log), "printed"),
    "a count in an attribute": (with_defect(after=store), "n_ones_"),
    "a type in an attribute": (with_defect(after=store_type), "kind_"),
    "public rows are changed": (with_defect(after=publish), "arguments"),
    "a row in an attribute": (with_defect(after=remember), "order_"),
    "a branch on private rows": (with_defect(after=branch_on_rows), "distinguishable"),
    "private rows declared public": (
        with_defect(after=private_rows_declared_public),
        "distinguishable",
    ),
    "a draw declared public": (with_defect(after=unseeded_in_public), None),
    "a receipt with a smaller epsilon": (with_defect(after=understate), "costs more"),
}


class TestDefects:
    @pytest.mark.parametrize("name", DEFECTS)
    def test_is_detected(self, name):
        kind, finding_text = DEFECTS[name]
        public = {"X_public": np.array([[0.5]])}
        result = verify_privacy(kind, BITS, 3, fit_params=public, max_fits=150)
        assert not result.holds
        assert finding_text is None or finding_text in "; ".join(result.findings), result
        assert "VIOLATED" in repr(result)

    def test_a_seed_that_is_denied(self):
        kind = with_defect(after=deny_the_seed)
        result = verified(lambda: kind(random_state=0))
        assert "the receipt describes seeded randomness as secure" in result.findings

    def test_charged_too_late(self, monkeypatch):
        def late(self, family, event, sensitivity, *, name, proof):
            path = self._sample_member(family, event.epsilon, sensitivity)
            self._enter(event, name, proof)
            return path

        monkeypatch.setattr(Ledger, "draw", late)
        result = verified(Mode, 1)
        assert result.findings == ("counts: drawn before it was charged",)

    def test_a_persons_budget_for_each_row(self):
        result = verified(
            with_defect(Around, share=lambda self, budget: 2 * budget), 2, rows_per_person=2
        )
        assert result.attained == pytest.approx(2)
        assert not result.holds

    @pytest.mark.parametrize("unit", [REPLACE_ONE, REPLACE_ROW, REPLACE_FEATURES])
    def test_a_receipt_for_rows(self, unit):
        kind = with_defect(Around, receipt=lambda self, ledger: Ledger(1).receipt(unit=unit))
        finding_text = "the receipt covers single rows only, although max_rows_per_group is set"
        assert finding_text in verified(kind, 2, rows_per_person=2).findings

    def test_half_a_person(self, monkeypatch):
        class Persons(Counts):
            max_rows_per_group = 2

            def fit(self, X, groups):
                return super().fit(X)

        monkeypatch.setattr(Ledger, "for_person", lambda self, sensitivity: sensitivity)
        assert verified(Persons, 2, rows_per_person=2).attained == pytest.approx(2)


class TestAttacks:
    ROWS = {"X": np.array([[0.0], [1.0]])}, {"X": np.array([[1.0], [1.0]])}

    @pytest.mark.parametrize("statistic", [None, lambda fitted: fitted.values_[0]])
    def test_bounds_are_below_the_claim(self, statistic):
        rng = np.random.default_rng(0)
        result = audit_privacy(
            lambda: Counts(3.0, random_state=rng), *self.ROWS, statistic, n_runs=300
        )
        assert result.holds
        assert 0.5 < result.epsilon < 3
        assert 0.5 < result.mu < result.claimed_mu

    def test_a_claim_that_is_too_small(self):
        rng = np.random.default_rng(0)
        kind = with_defect(release=lambda self, counts, ledger: counts, after=unpaid_second_release)
        kind.after = lambda self, X, X_public, ledger: Counts.release(self, self.count(X), ledger)
        result = audit_privacy(
            lambda: kind(random_state=rng), *self.ROWS, lambda fitted: fitted.values_[0], n_runs=100
        )
        assert not result.holds
        assert "VIOLATED" in repr(result)

    def test_secret_roles_need_a_statistic(self):
        class Roles(Counts):
            def count(self, X):
                return super().count(X[Ledger(1).subset(len(X), 1)])

        with pytest.raises(ValueError, match="secret random roles"):
            audit_privacy(Roles, *self.ROWS, n_runs=2)


# formulas of the verifier


@given(st.floats(0.05, 5), st.floats(0, 5))
def test_gaussian_delta_equals_the_accounting(mu, epsilon):
    expected = accounting.gaussian_delta(Fraction(mu) ** 2, Fraction(epsilon))
    assert float(gaussian_delta(mu, epsilon)) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(st.lists(st.floats(0.01, 2), min_size=1, max_size=4), st.floats(0, 2), st.floats(0, 3))
@settings(max_examples=30)
def test_losses_add_up_as_in_the_accounting(epsilons, mu, at):
    """Pure steps beside Gaussian noise: `plan_delta` bounds them from above, and closely."""
    losses = PrivacyLosses([(-epsilon, epsilon) for epsilon in epsilons], mu**2)
    plan = Steps((*(Pure(Fraction(e)) for e in epsilons), Gaussian(Fraction(mu) ** 2)))
    assert losses.delta(at) <= plan_delta(plan, Fraction(at)) * 1.001 + 1e-12
    if not mu:
        assert losses.epsilon(0) == pytest.approx(sum(epsilons))
        assert losses.delta(two_up(sum(epsilons))) < 1e-12


def test_randomized_response():
    """With probability e^ε / (1 + e^ε) the truth: δ at 0 is the total variation distance."""
    assert PrivacyLosses([(-1.0, 1.0)]).delta(0) == pytest.approx(math.tanh(0.5))
    assert PrivacyLosses([(-1.0, 1.0)]).epsilon(math.tanh(0.5) + 1e-9) == 0


def families(rng, errors):
    """One of each kind of node; errors come from a function of a shape."""
    yield Leaf(errors(4))
    yield Choice(Leaf(errors((3, 2))), prior=rng.integers(1, 9, 3))
    yield Product([Leaf(errors(3)), Choice(Leaf(errors((2, 2))))])
    yield OneOf([Leaf(errors(2)), Product([Leaf(errors(2)), Leaf(errors(2))])], prior=(2, 5))
    table = errors((5, 3))
    yield Choice(Lazy(5, lambda start, stop: Leaf(table[start:stop]), 2))


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_ranges_and_partition_functions_equal_sums_over_members(seed):
    rng = np.random.default_rng(seed)
    pairs = [
        list(families(np.random.default_rng(seed), lambda shape: rng.integers(0, 9, shape)))
        for _ in range(2)
    ]
    for one, other in zip(*pairs, strict=True):
        moved = [
            mine[1] - yours[1] for mine, yours in zip(one.members(), other.members(), strict=True)
        ]
        low, high = error_range(one, other)
        assert (int(low), int(high)) == (min(moved), max(moved))
        mass = sum(prior * math.exp(-0.7 * errors) for _, errors, prior in one.members())
        assert float(log_partition_function(one, 0.7)) == pytest.approx(math.log(mass))
        for path, errors, _ in one.members():
            assert member_errors(one, path) == errors


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Leaf(np.zeros(2, int)), Leaf(np.zeros(3, int))),
        (Leaf(np.zeros(2, int)), Product([Leaf(np.zeros(2, int))])),
        (Choice(Leaf(np.zeros((2, 1), int)), (1, 2)), Choice(Leaf(np.zeros((2, 1), int)), (2, 1))),
    ],
)
def test_families_that_differ_in_more_than_errors(one, other):
    with pytest.raises(IncomparableError):
        error_range(one, other)


# observations


def test_the_first_difference_of_forms():
    def form(number, closure):
        values = [number, np.array([1.0, np.nan])]
        return canonical_form({"a": {"b": values}, "f": lambda: closure})

    assert form(1, 2) == form(1, 2)
    assert describe_difference(form(1, 2), form(3, 2)) == "['a']['b'][0]: 1 and 3"
    assert describe_difference(form(1, 2), form(1, 5)).endswith(": 2 and 5")
    assert describe_difference(
        canonical_form(np.zeros(2)), canonical_form(np.zeros(2, int))
    ).startswith(" (type and shape): float64")
    assert describe_difference(canonical_form(1), canonical_form(1.0)) == " (type): int and float"
    loop = []
    loop.append(loop)
    assert canonical_form(loop) == canonical_form(loop)


class Fitted:
    """Object with given attributes, like a fitted estimator."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


NUMBERS = np.arange(6.0).reshape(2, 3)
OTHER = NUMBERS + np.array([[0, 0, 0], [0, 0.5, 0]])


@pytest.mark.parametrize(
    ("one", "other", "finding_text"),
    [
        (Fitted(n_=3), Fitted(n_=4), "estimator.n_: 3 and 4"),
        (Fitted(n_=0.1), Fitted(n_=0.25), "estimator.n_: 0.10000000000000001 and 0.25"),
        (Fitted(n_=np.int64(3)), Fitted(n_=np.int64(7)), "estimator.n_: 3 and 7"),
        (Fitted(n_=3), Fitted(n_=3.0), "estimator.n_ (type): int and float"),
        (Fitted(t_={"a": [1, 2]}), Fitted(t_={"a": [1, 5]}), "estimator.t_['a'][1]: 2 and 5"),
        (Fitted(t_=[1]), Fitted(t_=[1, 5]), "estimator.t_ (number of parts): 1 and 2"),
        (Fitted(t_=NUMBERS), Fitted(t_=OTHER), "estimator.t_, entry 4: 4.0 and 4.5"),
        (
            Fitted(t_=NUMBERS),
            Fitted(t_=NUMBERS[:1]),
            "estimator.t_ (type and shape): float64 (2, 3) and float64 (1, 3)",
        ),
        (
            Fitted(t_=np.array(["a", 1], dtype=object)),
            Fitted(t_=np.array(["a", 2], dtype=object)),
            "estimator.t_.values[1]: 1 and 2",
        ),
    ],
)
def test_findings_name_attributes_and_entries(one, other, finding_text):
    """A finding uses names that a user knows: attributes, keys and entries."""
    seen = [canonical_form({"error": "", "object": fitted}) for fitted in (one, other)]
    assert first_difference(*seen) == finding_text


def test_findings_name_the_part_of_a_fit():
    def seen(**parts):
        return canonical_form({"error": "", "warnings": [], **parts, "object": Fitted(n_=1)})

    assert (
        first_difference(seen(predict=[0]), seen(predict=[1])) == "estimator.predict(X)[0]: 0 and 1"
    )
    assert first_difference(seen(repr=["a"]), seen(repr=["b"])) == "repr(estimator)[0]: 'a' and 'b'"
    failed = canonical_form({"error": "ValueError('no')", "warnings": []})
    assert first_difference(seen(), failed) == "the error of fit: no error and ValueError('no')"
    warned = canonical_form({"error": "", "warnings": ["few"], "object": Fitted(n_=1)})
    assert first_difference(seen(), warned).startswith(
        "the warnings of fit (number of parts): 0 and"
    )


def test_all_data_sets_and_their_neighbours():
    domain = Domain(BITS, None, 2, None, ordered=False)
    assert list(domain) == [(0, 0), (0, 1), (1, 1)]
    assert domain.size == 3
    assert domain.neighbours((0, 1)) == [(1, 1), (0, 0)]
    labelled = Domain(BITS, ("a", "b"), 2, None, ordered=True)
    assert (labelled.size, len(list(labelled))) == (16, 16)
    assert len(labelled.neighbours((0, 0))) == 6
    assert labelled.arguments((0, 3))["y"].tolist() == ["a", "b"]


# the committed table, and its summary on the page


def committed_rows():
    return {row[0]: row for row in summary.rows(summary.CHECKS)}


def test_every_public_estimator_is_in_the_table():
    named = " ".join(case.name for case in catalogue())
    for name in skpublicdp.__all__:
        thing = getattr(skpublicdp, name)
        # one class has two names
        assert not hasattr(thing, "fit") or thing.__name__ in named
    for module in (skpublicdp.sanitizers, skpublicdp.metrics):
        for name in module.__all__:
            if hasattr(getattr(module, name), "fit") or name.startswith("private_"):
                assert name in named or name == "private_accuracy_score"  # of the same table
    assert committed_rows().keys() == checks.all_checks().keys()


QUICK = [
    *("SemiPrivateClassifier, thresholds", "SemiPrivateClassifier, persons", "BLRSanitizer"),
    *("PAPQueryRelease, custom of a frame", "PAPQueryRelease, custom"),
    *("private_scores, pure", "private_confusion_matrix"),
]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_the_table_equals_the_results(name):
    (case,) = (case for case in catalogue() if case.name == name)
    result = case.verify()
    assert result.holds, result
    *_, line = table([result])
    assert line == f"| {' | '.join(committed_rows()[name])} |"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_of_the_table():
    result = [run_check(name, check) for name, check in checks.all_checks().items()]
    assert all(each.holds for each in result), [each for each in result if not each.holds]
    text = summary.CHECKS.read_text(encoding="utf-8")
    assert text == "\n".join([*table(result), "", checks.verdict(result), ""])


def test_the_page_shows_the_committed_tables():
    text = summary.PAGE.read_text(encoding="utf-8")
    assert summary.with_summaries(text) == text
    for command_line in ("make audit", "make mutants"):
        assert f"<!-- {command_line} -->\n| " in text
    last_line = summary.CHECKS.read_text(encoding="utf-8").splitlines()[-1]
    assert f"...\n{last_line}\n" in text


def test_a_summary_has_the_check_that_is_closest_to_its_claim():
    """A violation has a row of its own, so other checks do not hide it."""

    def shown(*rows):
        lines = summary.summary_of_checks([row.split(" | ") for row in rows]).splitlines()
        return lines[2:]

    one, two = "One, a | 1 | 0 | 0.5 | replay", "One, b | 8 | 0 | 6 | replay"
    attack = "Two | 4 | 0.1 | ≥ 3 | attack"
    assert shown(one, two, attack) == [
        "| One, b | 2 | 8 | 0 | 6 | replay |",
        "| Two | 1 | 4 | 0.1 | ≥ 3 | attack |",
    ]
    violated = "One, c | 8 | 0 | 7 | replay: **VIOLATED**: a count"
    assert len(shown(one, violated, two)) == 2
    free = ("None, a | 0 | 0 | 0 | replay", "None, b | — | — | — | samples")
    assert len(shown(*free)) == 2


@pytest.mark.parametrize(
    ("findings", "code", "verdict"),
    [((), 0, "2 checks, no violation."), (("something",), 1, "2 checks, 1 violated: one.")],
)
def test_the_command(monkeypatch, capsys, findings, code, verdict):
    """The output is the table and a verdict; standard error shows the running check."""
    result = Verification("one", 1.0, 0.0, 0.5, 0.0, "replay", 1, 1, 1, (), findings)
    fine = Verification("two", 1.0, 0.0, 0.5, 0.0, "replay", 1, 1, 1)
    monkeypatch.setattr(checks, "all_checks", lambda: {"one": lambda: result, "two": lambda: fine})
    assert command.main() == code
    out, err = capsys.readouterr()
    assert ("VIOLATED" in out) == bool(code)
    assert out.splitlines()[-2:] == ["", verdict]
    assert err.splitlines() == ["1/2 one", "2/2 two"]


def test_the_command_stops_at_names_that_are_not_in_the_table():
    with pytest.raises(ValueError, match="'nobody'"):
        command.main("PublicFit", "nobody")


def test_a_check_that_raises_does_not_hold(monkeypatch, capsys):
    monkeypatch.setattr(checks, "all_checks", lambda: {"broken": lambda: 1 / 0})
    assert command.main() == 1
    assert capsys.readouterr().out.endswith("\n1 check, 1 violated: broken.\n")


def test_the_page_explains_every_claim_that_is_large():
    """A large ε reaches a branch at few rows: the page says which one, for each."""
    text = summary.PAGE.read_text(encoding="utf-8")
    explained = text.split("## Large ε in the table")[1].split("\n## ")[0]
    rows = committed_rows()
    claims = {float(rows[case.name][1]) for case in catalogue()}
    listed = re.findall(r"^\| ([\d, ]+) \|", explained, re.MULTILINE)
    listed = {float(claim.replace(",", "")) for cell in listed for claim in cell.split(", ")}
    assert listed == {claim for claim in claims if claim >= 10}
