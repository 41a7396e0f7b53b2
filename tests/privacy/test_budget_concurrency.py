"""Many processes spend at once and are killed at random: the cap holds, and no entry is lost."""

import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from fractions import Fraction

import pytest

from skpublicdp import PrivacyBudget
from skpublicdp.accounting import Draw
from skpublicdp.exceptions import PrivacyBudgetError
from tests import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="attempts are forked")

ASKED = (("", 1), ("", 2), ("north", 2), ("south", 3))
"""Group and hundredths of ε of an attempt; those on everybody count in both groups."""


def work(path, cap, log, worker, attempts):
    """Fork attempts one after the other, and kill each third of them; runs in a process."""
    budget = PrivacyBudget(cap, path=path)
    chance = random.Random(worker)
    gc.freeze()  # a child copies no page of what is only collected
    usual = 0.01
    for attempt in range(attempts):
        group, size = chance.choice(ASKED)
        purse = budget.group(group) if group else budget
        started, child = time.perf_counter(), os.fork()
        if not child:
            spend(purse, f"{worker}/{attempt}", group, size, log)
        if attempt % 3:
            os.waitpid(child, 0)
            usual = 0.9 * usual + 0.1 * (time.perf_counter() - started)
        else:
            time.sleep(chance.uniform(0, 0.9 * usual))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def spend(purse, who, group, size, log):
    """Try once, say what came of it, and end."""
    try:
        purse.spend(Draw(Fraction(size, 100)), who=who)
        outcome = "spent"
        # the second of each worker, which is not killed, dies between its entry and its word
        if who.endswith("/1"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.002)  # others are killed there by chance
    except PrivacyBudgetError as error:
        outcome = "refused" if " is left of the budget " in str(error) else repr(error)
    except BaseException as error:
        outcome = repr(error)
    os.write(log, f"{who}|{group}|{size}|{outcome}\n".encode())
    os._exit(0)


def run(folder, n_workers, attempts, cap):
    """Run workers at once; return what attempts said of themselves."""
    # workers are forked before there is a budget: they share what was imported and nothing else
    program = (
        "import os, sys; from fractions import Fraction\n"
        "from tests.privacy.test_budget_concurrency import work\n"
        "path, cap, log, n_workers, attempts = sys.argv[1:]\n"
        "log = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)\n"
        "workers = range(int(n_workers))\n"
        "number = next((worker for worker in workers if not os.fork()), None)\n"
        "if number is not None:\n"
        "    work(path, Fraction(cap), log, number, int(attempts))\n"
        "else:\n"
        "    sys.exit(max(os.waitstatus_to_exitcode(os.wait()[1]) != 0 for _ in workers))"
    )
    told = (folder / "budget.sqlite", cap, folder / "log", n_workers, attempts)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, told)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [line.split("|") for line in (folder / "log").read_text().splitlines()]


def check(folder, n_workers, attempts):
    """Let a cap refuse some of all attempts, and look at what is in the file."""
    cap = n_workers * attempts * Fraction(9, 1000)  # of 15, on average, if all were admitted
    said = run(folder, n_workers, attempts, cap)
    budget = PrivacyBudget(cap, path=folder / "budget.sqlite")
    entries = budget.ledger

    # about a third did not live to say anything, so kills hit at all moments
    killed = n_workers * attempts - len(said)
    assert n_workers * attempts / 20 < killed <= n_workers * ((attempts + 2) // 3 + 1)
    assert {outcome for *_, outcome in said} == {"spent", "refused"}

    # no entry is lost, none is there twice, and none that was refused
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    written = {entry.who: (entry.group or "", str(entry.event.epsilon * 100)) for entry in entries}
    assert len(written) == len(entries)
    for who, group, size, outcome in said:
        assert written.get(who) == ((group, size) if outcome == "spent" else None)
    lived = {who for who, *_ in said}
    assert any(who not in lived for who in written)  # killed, and has spent

    # totals are what entries say, and within the cap; what was refused would still pass it
    spent = defaultdict(Fraction)
    for entry in entries:
        spent[entry.group or ""] += entry.event.epsilon
    for group in ("north", "south"):
        total, purse = spent[""] + spent[group], budget.group(group)
        assert total <= cap
        assert purse.spent().epsilon == float(total)
        assert purse.remaining("pure") == float(cap - total)
    for _, group, size, outcome in said:
        if outcome == "refused":
            with pytest.raises(PrivacyBudgetError):
                (budget.group(group) if group else budget).check(Draw(Fraction(int(size), 100)))
    return len(entries), killed


def test_spending_at_once_and_being_killed(tmp_path):
    check(tmp_path, 4, 30)


@pytest.mark.slow
def test_eight_processes_a_thousand_attempts_each(tmp_path):
    started = time.perf_counter()
    entries, killed = check(tmp_path, 8, 1000)
    print(f"{entries} entries, {killed} killed, {time.perf_counter() - started:.0f} s")


FITS = """
import sys, threading
import numpy as np
from skpublicdp import PrivacyBudget, SemiPrivateClassifier
from skpublicdp.exceptions import PrivacyBudgetError

path, n_threads, n_fits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
X, X_public = rng.normal(size=(400, 1)), rng.normal(size=(60, 1))
y, gate = (X[:, 0] > 0).astype(int), threading.Barrier(n_threads)

def work():
    budget = PrivacyBudget(1.0, path=path)
    gate.wait()
    for _ in range(n_fits // n_threads):
        try:
            SemiPrivateClassifier(epsilon=0.1, budget=budget).fit(X, y, X_public=X_public)
            sys.stdout.write("admitted\\n")
        except PrivacyBudgetError:
            sys.stdout.write("refused\\n")

threads = [threading.Thread(target=work) for _ in range(n_threads)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("workers", [[(8, 16)], [(2, 4), (3, 6), (3, 6)]], ids=str)
def test_of_sixteen_fits_of_a_tenth_ten_are_admitted(workers, tmp_path):
    """In 8 threads of one process, and in 8 threads of 3 processes."""
    path = tmp_path / "budget.sqlite"
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", FITS, path, str(n_threads), str(n_fits)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for n_threads, n_fits in workers
    ]
    said = [line for process in processes for line in process.communicate()[0].split()]
    assert all(process.returncode == 0 for process in processes)
    assert sorted(said) == ["admitted"] * 10 + ["refused"] * 6
    budget = PrivacyBudget(1.0, path=path)
    assert len(budget.ledger) == 10
    assert budget.remaining("pure") == 0
