"""PrivacyBudget: what it admits, what it says is left, and that all copies are one purse."""

import copy
import json
import math
import multiprocessing
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import joblib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skpublicdp import PrivacyBudget, SemiPrivateClassifier
from skpublicdp.accounting import (
    Approximate,
    Draw,
    Either,
    Gaussian,
    Pure,
    Steps,
    Subsampled,
    basic_price,
    exact_fraction,
    gaussian_epsilon,
    gaussian_mu_squared,
    mu_squared_price,
    zcdp_rho,
)
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.plotting import BudgetDisplay
from tests.internals.accounting import from_text
from tests.privacy.test_budget_filters import (
    MILLIONTH,
    TENTH,
    caps,
    single,
    spend_all,
    tree,
    unsure,
)

# corner cases


def test_ten_tenths_are_one():
    budget = PrivacyBudget(1.0)
    assert len(spend_all(budget, [TENTH] * 12)) == 10
    assert budget.spent() == (1.0, 0.0)
    assert budget.remaining("pure") == budget.remaining("draw") == 0.0


def test_pure_or_gdp():
    whole = PrivacyBudget(1, 1e-6)
    assert whole.spend(Draw(Fraction(1))) == 1
    assert whole.spent() == (1.0, 0.0)
    assert whole.remaining("draw") == whole.remaining("pure") == whole.remaining("gaussian") == 0.0

    small = PrivacyBudget(1, 1e-6)
    assert len(spend_all(small, [TENTH] * 20)) == 14
    assert small.spent().epsilon < 1
    assert small.spent().delta == 1e-6
    # alone, either of the two refuses one of these
    assert spend_all(PrivacyBudget(1, 1e-6, accountant="gdp"), [Draw(Fraction(1))]) == []
    assert len(spend_all(PrivacyBudget(1, 1e-6, accountant="pure"), [TENTH] * 20)) == 10


def test_two_fits_of_one_are_less_than_two():
    noise = Gaussian(gaussian_mu_squared(Fraction(1), MILLIONTH))
    budget = PrivacyBudget(1.5, 1e-6)
    assert spend_all(budget, [noise] * 3) == [noise] * 2
    assert budget.spent().epsilon == pytest.approx(1.4679, abs=1e-4)
    assert spend_all(PrivacyBudget(1, 1e-6), [noise] * 2) == [noise]  # exactly all of it


def test_what_costs_nothing_is_no_fit():
    noise = Gaussian(gaussian_mu_squared(Fraction(1), MILLIONTH))
    assert spend_all(PrivacyBudget(1, 1e-6), [Steps(()), noise, Steps(())]) == [
        Steps(()), noise, Steps(()),
    ]  # fmt: skip


def test_what_is_mixed_adds_up():
    """Noise has no ε of its own; one fit of it is given one, several share a part of the cap."""
    noise = Gaussian(gaussian_mu_squared(Fraction(1), MILLIONTH))
    budget = PrivacyBudget(3, 1e-6)
    fits = [noise, Draw(Fraction(1)), Pure(Fraction(4, 5))]
    assert spend_all(budget, [*fits, TENTH]) == fits
    alone = gaussian_epsilon(noise.mu_squared, MILLIONTH / 30)  # 1.166
    assert budget.spent() == (pytest.approx(Fraction(9, 5) + exact_fraction(alone)), 1e-6)
    assert budget.remaining("pure") == pytest.approx(1.2 - alone)
    assert spend_all(PrivacyBudget(3, 1e-6, accountant="gdp"), fits) == [noise]

    several = PrivacyBudget(3, 1e-6)
    assert spend_all(several, [noise, noise, Draw(Fraction(1))]) == [
        noise,
        noise,
        Draw(Fraction(1)),
    ]
    sixteenths = math.floor(16 * (1 - gaussian_epsilon(2 * noise.mu_squared, MILLIONTH / 450) / 3))
    assert several.remaining("pure") == pytest.approx(3 * sixteenths / 16 - 1)


def test_failures_are_set_aside():
    """A fit of which (ε, δ) is known is as dear as a pure one, and takes a tenth of δ in all."""
    unsure = Approximate(Fraction(1), MILLIONTH / 20)
    noise = Gaussian(gaussian_mu_squared(Fraction(1, 2), MILLIONTH))
    budget = PrivacyBudget(3, 1e-6)
    assert spend_all(budget, [unsure, noise, unsure, unsure]) == [unsure, noise, unsure]
    assert budget.remaining("approximate", MILLIONTH / 10**6) == 0.0
    pure = PrivacyBudget(3, 1e-6)
    spend_all(pure, [Pure(Fraction(1)), noise, Pure(Fraction(1))])
    assert (budget.spent(), budget.remaining("pure")) == (pure.spent(), pure.remaining("pure"))
    first = PrivacyBudget(3, 1e-6)
    assert first.remaining("approximate") == 3.0
    assert spend_all(first, [Approximate(Fraction(1), MILLIONTH), TENTH]) == [
        Approximate(Fraction(1), MILLIONTH)
    ]
    assert first.spent() == (1.0, 1e-6)
    for accountant in ("gdp", "zcdp"):
        none = PrivacyBudget(3, 1e-6, accountant=accountant)
        assert spend_all(none, [unsure]) == []
        assert none.remaining("approximate") == 0.0


def test_terms_are_checked():
    for bad in (0, -1, math.inf, math.nan, "much", "1", None, 1j, [1.0]):
        with pytest.raises(ValueError, match=rf"epsilon must .*{re.escape(repr(bad))}"):
            PrivacyBudget(bad)
    for bad in (-1e-9, 1, math.nan, "x", None, [0.0]):
        with pytest.raises(ValueError, match=rf"delta must .*{re.escape(repr(bad))}"):
            PrivacyBudget(1, bad)
    with pytest.raises(ValueError, match="accountant"):
        PrivacyBudget(1, 1e-6, accountant="rdp")
    with pytest.raises(ValueError, match="positive delta"):
        PrivacyBudget(1, accountant="gdp")
    assert PrivacyBudget(Fraction(1, 3)).epsilon == 1 / 3
    assert PrivacyBudget(Decimal("0.3"), Decimal("1e-6")).delta == 1e-6


# what remains

kinds = st.sampled_from(["pure", "draw", "gaussian", "approximate"])


def a_fit(budget, kind, epsilon, delta):
    epsilon = exact_fraction(epsilon)
    if kind == "draw":
        return Draw(epsilon)
    if kind == "pure":
        return Pure(epsilon)
    if budget.accountant == "pure" or kind == "approximate":
        return Approximate(epsilon, delta)
    if budget.accountant == "zcdp":
        return Gaussian(2 * zcdp_rho(epsilon, delta))
    return Gaussian(gaussian_mu_squared(epsilon, delta))


@settings(max_examples=30)
@given(
    caps,
    st.lists(st.one_of(single, unsure), max_size=5),
    kinds,
    st.sampled_from([None, Fraction(1, 10**7)]),
)
def test_remaining_inverts_spending(cap, events, kind, delta):
    epsilon, most, accountant = cap
    budget = PrivacyBudget(epsilon, most, accountant=accountant)
    spend_all(budget, events)
    delta = delta if kind in ("gaussian", "approximate") else None
    left = budget.remaining(kind, delta)
    is_summed = kind == "approximate" or accountant == "pure"
    at = delta or most * (Fraction(1, 10) if kind == "approximate" and budget.ledger else 1)
    if is_summed and delta is None:  # what earlier fits left
        at -= sum(basic_price(entry.event)[1] for entry in budget.ledger)
    if kind in ("gaussian", "approximate") and at <= 0:
        assert left == 0.0
        return
    if left:
        more = math.nextafter(left * (1 + 2**-40), math.inf)
        with pytest.raises(PrivacyBudgetError):
            budget.check(a_fit(budget, kind, more, at))
        budget.spend(a_fit(budget, kind, left, at))
        assert budget.remaining(kind, delta) <= 1e-6
    with pytest.raises(PrivacyBudgetError):
        budget.check(a_fit(budget, kind, 0.001, at))


def test_remaining_says_the_decimal_that_fits():
    budget = PrivacyBudget(1.0)
    for epsilon in (0.1, 0.2, 0.4):
        budget.spend(Draw(exact_fraction(epsilon)))
    assert budget.remaining("pure") == 0.3
    assert PrivacyBudget(0.1).remaining("pure") == 0.1


def test_remaining_delta():
    budget = PrivacyBudget(1, 1e-6, accountant="pure")
    assert budget.remaining("gaussian") == 1.0
    budget.spend(Approximate(Fraction(1, 2), MILLIONTH * 3 / 4))
    assert budget.remaining("gaussian") == budget.remaining("gaussian", 2.5e-7) == 0.5
    assert budget.remaining("gaussian", 1e-6) == 0.0
    budget.spend(Approximate(Fraction(1, 4), MILLIONTH / 4))
    assert budget.remaining("gaussian") == 0.0
    assert budget.remaining("pure") == 0.25
    with pytest.raises(ValueError, match="delta must lie"):
        budget.remaining("gaussian", 0)
    with pytest.raises(ValueError, match="delta must be a"):
        budget.remaining("gaussian", "x")
    with pytest.raises(ValueError, match="kind='draw'"):
        budget.remaining("draw", 1e-6)
    with pytest.raises(ValueError, match="kind must be one of"):
        budget.remaining("laplace")


@pytest.mark.parametrize(("share", "left"), [(Fraction(1, 10), True), (Fraction(11, 100), False)])
def test_only_a_first_fit_may_take_more_than_a_tenth_of_delta(share, left):
    budget = PrivacyBudget(9, 1e-6)
    budget.spend(Approximate(Fraction(1, 2), share * MILLIONTH))
    assert [epsilon > 0 for epsilon in budget.remaining()] == [left, left, left, False]
    for event in (TENTH, Pure(Fraction(1, 10)), Gaussian(Fraction(1, 100))):
        if left:
            budget.spend(event)
        else:
            message = refusal(budget, event)
            assert figures(message)[:3] == ["δ = 1.1e-07", "ε = 9", "δ = 1e-06"]
            assert "after the first" in message


# refusals


def refusal(budget, event):
    before = budget.ledger
    for ask in (budget.check, budget.spend):
        with pytest.raises(PrivacyBudgetError) as caught:
            ask(event)
    assert budget.ledger == before
    return str(caught.value)


def figures(message):
    """Return the values of ε and δ in a message, in order."""
    return re.findall(r"[εδ] = \d[\d.e-]*\d|[εδ] = \d", message)


def test_refusals_say_what_was_asked_what_is_left_and_what_to_do():
    budget = PrivacyBudget(1.0)
    budget.spend(Draw(Fraction(2, 3)))
    message = refusal(budget, Draw(Fraction(1, 2)))
    assert figures(message) == ["ε = 0.5", "ε = 0.3333", "ε = 1", "δ = 0"]
    assert "a smaller epsilon" in message
    assert "ε = 0.5, and δ" not in refusal(budget, Approximate(Fraction(1, 2), MILLIONTH))
    used, new = budget, PrivacyBudget(1.0)
    for asked in (used, new):
        message = refusal(asked, Approximate(Fraction(1, 4), MILLIONTH))
        assert figures(message) == ["δ = 1e-06", "ε = 1"]
        assert "delta=0" in message
        assert ("create the budget" in message) == (asked is new)
    assert "Spend Approximate" in refusal(budget, Gaussian(MILLIONTH))
    budget.spend(Pure(Fraction(1, 3)))
    message = refusal(budget, TENTH)
    assert figures(message) == ["ε = 0.1", "ε = 1", "δ = 0"]
    assert "nothing is left" in message


def test_refusals_of_noise():
    budget = PrivacyBudget(1, 1e-6)
    noise = Gaussian(gaussian_mu_squared(Fraction(4, 5), MILLIONTH))
    budget.spend(noise)
    message = refusal(budget, noise)
    assert figures(message) == ["ε = 0.8", "δ = 1e-06", "ε = 0.5442", "ε = 1", "δ = 1e-06"]
    assert "a smaller epsilon" in message
    message = refusal(budget, Approximate(Fraction(1, 9), MILLIONTH))
    assert figures(message) == ["δ = 1e-06", "δ = 1e-07", "ε = 1", "δ = 1e-06"]
    assert "a smaller delta" in message
    assert "this Gaussian noise" in refusal(budget, Subsampled(Fraction(1, 9), noise))
    gdp = PrivacyBudget(1, 1e-6, accountant="gdp")
    assert "only as (ε, δ)" in refusal(gdp, Approximate(Fraction(1, 9), MILLIONTH))
    pure = PrivacyBudget(1, 1e-6, accountant="pure")
    assert "ε = 1 is left" in refusal(pure, Approximate(Fraction(2), MILLIONTH))


@settings(max_examples=30)
@given(caps, st.lists(single, max_size=6), st.one_of(tree, unsure))
def test_what_a_refusal_says_is_left_would_be_admitted(cap, events, event):
    epsilon, delta, accountant = cap
    budget = PrivacyBudget(epsilon, delta, accountant=accountant)
    spend_all(budget, events)
    try:
        budget.check(event)
    except PrivacyBudgetError as error:
        words = str(error)
        assert len(words.split(". ")) <= 2
        before, is_left, _ = words.partition(" is left ")
        if is_left and "ε = " in before and "nothing" not in words:
            left = before.split("ε = ")[-1]
            kind = "draw" if isinstance(event, Draw) else "pure"
            kind = "gaussian" if "as much as" in words else kind
            if isinstance(event, Approximate):
                kind, delta = "approximate", event.delta
            budget.check(a_fit(budget, kind, float(left), delta))


# groups


def test_groups_have_the_whole_budget_each():
    budget = PrivacyBudget(1.0)
    north, south = budget.group("north"), budget.group("south")
    north.spend(Draw(Fraction(7, 10)))
    south.spend(Draw(Fraction(4, 10)))
    assert (north.remaining("pure"), south.remaining("pure"), budget.remaining("pure")) == (
        0.3,
        0.6,
        0.3,
    )
    assert budget.spent() == north.spent() == (0.7, 0.0)
    assert south.spent() == (0.4, 0.0)
    budget.spend(Draw(Fraction(3, 10)))  # on everybody: counts for all
    assert (north.remaining("pure"), south.remaining("pure")) == (0.0, 0.3)
    assert budget.group("east").remaining("pure") == 0.7
    with pytest.raises(PrivacyBudgetError, match="nothing is left"):
        budget.spend(TENTH)
    with pytest.raises(PrivacyBudgetError, match="nothing is left"):
        north.spend(TENTH)
    assert [entry.group for entry in budget.ledger] == ["north", "south", None]
    assert [spent.epsilon for spent in budget.history()] == [0.7, 0.7, 1.0]
    assert [spent.epsilon for spent in south.history()] == [0.0, 0.4, 0.7]
    assert south.group is not None
    assert repr(south).endswith("group='south')")


# one purse


def test_copies_are_the_same_purse():
    budget = PrivacyBudget(1.0)
    again = pickle.loads(pickle.dumps(budget))
    assert again == budget
    assert hash(again) == hash(budget)
    assert again is not budget
    for one in (clone(budget), copy.copy(budget), copy.deepcopy(budget), again):
        one.spend(TENTH)
    estimator = SemiPrivateClassifier(budget=budget.group("north"))
    for one in (clone(estimator), copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        one.budget.spend(TENTH)
    assert [entry.group for entry in again.ledger] == [None] * 4 + ["north"] * 3
    assert budget.spent().epsilon == 0.7
    assert budget != PrivacyBudget(1.0)
    assert budget != budget.group("north")
    assert budget != 1.0


def test_threads_share_it():
    budget = PrivacyBudget(1.0)
    gate, refused = threading.Barrier(8), []

    def work():
        gate.wait()
        for _ in range(3):
            try:
                budget.spend(TENTH)
            except PrivacyBudgetError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(budget.ledger) == 10
    assert len(refused) == 14


def spend_a_tenth(budget):
    budget.spend(TENTH, who=f"process {os.getpid()}")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize(
    "method", sorted({"fork", "spawn"} & {*multiprocessing.get_all_start_methods()})
)
def test_processes_share_it(method):
    budget = PrivacyBudget(1.0)
    budget.spend(TENTH)
    context = multiprocessing.get_context(method)
    # a spawned process imports everything anew: one is enough to find the file
    n_children = 2 if method == "fork" else 1
    children = [context.Process(target=spend_a_tenth, args=(budget,)) for _ in range(n_children)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert len(budget.ledger) == 1 + n_children
    assert len({entry.who for entry in budget.ledger}) == 1 + n_children
    assert os.path.exists(budget.path)  # children do not clean up what is not theirs


def test_workers_of_joblib_share_it():
    budget = PrivacyBudget(1.0)
    joblib.Parallel(n_jobs=2)(joblib.delayed(spend_a_tenth)(budget) for _ in range(4))
    assert budget.spent().epsilon == 0.4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_path_outlives_the_process_and_a_temporary_file_goes_with_it_alone(tmp_path):
    """One process does both; a child that it forks ends first, and takes no file along."""
    path = tmp_path / "project budget #1?.sqlite"
    program = (
        "import os, sys; from fractions import Fraction; from skpublicdp import PrivacyBudget\n"
        "from skpublicdp.accounting import Draw\n"
        "PrivacyBudget(1, 1e-6, path=sys.argv[1]).spend(Draw(Fraction(1, 4)), who='before')\n"
        "budget = PrivacyBudget(1.0)\n"
        "child = os.fork()\n"
        "sys.exit() if not child else os.waitpid(child, 0)\n"
        "assert budget.ledger == []; print(budget.path)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True)
    assert not os.path.exists(done.stdout.decode().strip())
    budget = PrivacyBudget(1.0, Fraction(1, 10**6), path=path)
    budget.spend(Draw(Fraction(1, 4)))
    assert [entry.who for entry in budget.ledger] == ["before", ""]
    assert budget.spent().epsilon == 0.5
    assert sorted(os.listdir(tmp_path)) == [path.name]
    for wrong in ((2.0, 1e-6, "auto"), (1.0, 1e-5, "auto"), (1.0, 1e-6, "gdp"), (1.0, 0.0, "auto")):
        with pytest.raises(PrivacyBudgetError) as caught:
            PrivacyBudget(*wrong[:2], path=path, accountant=wrong[2])
        for term in ("epsilon=1,", "delta=1e-06,", "accountant='auto'", "for_tests=False"):
            assert term in str(caught.value)
    assert budget.spent().epsilon == 0.5


def test_a_copy_that_cannot_reach_its_file_refuses(tmp_path):
    budget = PrivacyBudget(1.0, path=tmp_path / "one")
    far = pickle.loads(pickle.dumps(budget))
    os.remove(budget.path)
    calls = (
        lambda: far.spend(TENTH),
        lambda: far.check(TENTH),
        far.spent,
        far.remaining,
        far.group("north").remaining,
        lambda: far.ledger,
        lambda: SemiPrivateClassifier(budget=far).fit(None, None),
    )
    for call in calls:
        with pytest.raises(PrivacyBudgetError) as caught:
            call()
        assert "cannot be used" in str(caught.value)
    assert not os.path.exists(budget.path)  # none was made, either
    assert repr(far) == "PrivacyBudget(epsilon=1, delta=0, accountant='pure')"
    # a new budget in its place is another one
    new = PrivacyBudget(1.0, path=tmp_path / "one")
    with pytest.raises(PrivacyBudgetError, match="it was replaced"):
        far.spend(TENTH)
    assert new.ledger == []


def test_a_file_that_is_none_refuses(tmp_path):
    (tmp_path / "text").write_text("no database at all, but long enough to be taken for one" * 99)
    for path in (tmp_path / "text", tmp_path / "missing" / "file", tmp_path):
        with pytest.raises(PrivacyBudgetError, match="path must be"):
            PrivacyBudget(1.0, path=path)


@pytest.mark.parametrize(
    "total",
    ['["1/2", "0", "1/8", "11/28"]', '["1/2", "0", "1/8", "1/2", "1/2", "0", "1"]', '{"rho": "1"}'],
)
def test_a_file_of_other_prices_refuses(tmp_path, total):
    budget = PrivacyBudget(1.0, path=tmp_path / "one")
    budget.spend(Pure(Fraction(1, 2)))
    with closing(sqlite3.connect(tmp_path / "one")) as file:
        file.execute("UPDATE entries SET total = ?", (total,))
        file.commit()
    for use in (budget.spent, budget.remaining, lambda: budget.check(Pure(Fraction(1, 9)))):
        with pytest.raises(PrivacyBudgetError, match="earlier version"):
            use()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_file_that_cannot_be_written_refuses(tmp_path):
    budget = PrivacyBudget(1.0, path=tmp_path / "one")
    os.chmod(budget.path, 0o400)
    with pytest.raises(PrivacyBudgetError, match="cannot be used"):
        budget.spend(TENTH)


def test_entries_are_spent_together_with_their_total(tmp_path):
    """A spending that dies before its commit leaves nothing; its sum is what entries say."""
    budget = PrivacyBudget(1, 1e-6, path=tmp_path / "one", accountant="gdp")
    budget.spend(TENTH, ticket="one query")
    with pytest.raises(PrivacyBudgetError, match="one fit only"):
        pickle.loads(pickle.dumps(budget)).group("north").spend(TENTH, ticket="one query")
    assert len(budget.ledger) == 1
    assert budget.spend(TENTH) == 2
    total = sum(mu_squared_price(entry.event) for entry in budget.ledger)
    room = gaussian_mu_squared(Fraction(1), MILLIONTH) - total
    assert mu_squared_price(Draw(exact_fraction(budget.remaining("draw")))) <= room
    assert mu_squared_price(Draw(exact_fraction(budget.remaining("draw") * 1.0001))) > room


# what it says


def test_entries_say_who_when_what_and_how_many():
    budget = PrivacyBudget(2.0)
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert budget.spend(Pure(Fraction(1, 3)), who="somebody", n_rows=12) == 1
    assert budget.group("north").spend(Steps((TENTH, Either((TENTH,))))) == 2
    first, second = budget.ledger
    assert first[2:] == ("somebody", Pure(Fraction(1, 3)), 12, None, False)
    assert before <= datetime.fromisoformat(first.time) <= datetime.now(UTC)
    assert second[2:] == ("", Steps((TENTH, Either((TENTH,)))), 0, "north", False)


def test_to_dict_is_plain():
    budget = PrivacyBudget(2, 1e-6)
    budget.spend(TENTH, who="somebody", n_rows=12)
    plain = json.loads(json.dumps(budget.to_dict()))
    assert {name: plain[name] for name in ("epsilon", "delta", "accountant", "spent")} == {
        "epsilon": 2.0,
        "delta": 1e-6,
        "accountant": "auto",
        "spent": [0.1, 0.0],
    }
    (entry,) = plain["entries"]
    assert (entry["number"], entry["who"], entry["n_rows"], entry["group"]) == (
        1,
        "somebody",
        12,
        None,
    )
    assert from_text(entry["event"]) == TENTH


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    budget = PrivacyBudget(1.0)
    empty = budget.plot()
    assert empty.line_.get_data().values.tolist() == [1.0]
    for epsilon, who in ((1, "a"), (2, "a"), (3, "b"), (1, "a")):
        budget.spend(Draw(Fraction(epsilon, 10)), who=who)
    display = budget.plot(ax=empty.ax_)
    assert isinstance(display, BudgetDisplay)
    assert display.ax_ is empty.ax_
    assert display.line_.get_data().values == pytest.approx([1, 0.9, 0.7, 0.4, 0.3])
    assert [text.get_text() for text in display.ax_.texts] == ["a", "b", "a"]
    assert [text.get_position()[0] for text in display.ax_.texts] == [1, 3, 4]
    assert display.ax_.get_ylabel() == "ε not spent of 1"
    assert display.cap_.get_ydata()[0] == 1.0
    crowded = BudgetDisplay([0.1] * 20, epsilon=1, delta=1e-6, who=["a", "b"] * 10).plot(
        line_kwargs={"linewidth": 3}, cap_kwargs={"color": "black"}
    )
    assert crowded.ax_.texts == [] or not list(crowded.ax_.texts)
    assert crowded.ax_.get_ylabel() == "ε not spent of 1 at δ = 1e-06"
    matplotlib.pyplot.close("all")
