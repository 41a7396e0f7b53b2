"""Random sessions: the cap holds, failures leave nothing, and no sentence quotes a value."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz import Session

pytestmark = pytest.mark.filterwarnings("ignore")


def test_short_sessions():
    short = settings(max_examples=60, stateful_step_count=8, phases=[Phase.generate])
    run_state_machine_as_test(Session, settings=short)


@pytest.mark.slow
def test_a_hundred_thousand_steps():
    run_state_machine_as_test(
        Session, settings=settings(max_examples=5000, stateful_step_count=20, derandomize=False)
    )
