"""Shrinking by several processes gives what a single one gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.search.failures import ahead
from foretold.search.planning import allowance
from tests.search.test_campaign import children
from tests.search.test_shrink import large_order, lost_on_the_wire, operations, value_and_order

PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "values": (large_order, {}),
    "values and order": (value_and_order, {}),
    "operations": (operations, {}),
    "a message that is late": (lost_on_the_wire, {}),
}


def searched(main: Callable[..., Any], workers: int, **settings: Any) -> foretold.Failure:
    """The failure that a search finds."""
    failure = foretold.explore(
        main, runs=500, seed=1, workers=workers, confirm=False, **settings
    ).failure
    assert failure is not None
    return failure


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of these tests are too short to be worth it."""
    monkeypatch.setattr(ahead, "RUN_S_MIN", 0.0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_does_not_depend_on_the_number_of_processes(name: str) -> None:
    """The same tape, after the same number of runs, told in the same words."""
    main, settings = PROGRAMS[name]
    alone = searched(main, 1, **settings)
    helped = searched(main, 2, **settings)
    assert helped.tape.choices == alone.tape.choices
    assert list(helped.tape.schedule) == list(alone.tape.schedule)
    assert (helped.digest, helped.shrink_runs) == (alone.digest, alone.shrink_runs)
    assert str(helped.story) == str(alone.story)


@pytest.mark.usefixtures("eager")
def test_others_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all runs are made elsewhere, and their processor time counts."""
    worked: list[float] = []
    noted = allowance.note_work

    def note_work(cpu_s: float) -> None:
        worked.append(cpu_s)
        noted(cpu_s)

    monkeypatch.setattr(ahead, "note_work", note_work)
    failure = searched(operations, 2)
    assert len(worked) > 0.75 * failure.shrink_runs > 100
    assert sum(worked) > 0


@pytest.mark.usefixtures("eager")
def test_no_process_is_left() -> None:
    """Whoever runs something that nobody asks for any more is ended."""
    before = children()
    searched(operations, 2)
    assert children() == before
    assert ahead._run is None, "nor is the program kept alive"


PARENT = os.getpid()


async def dies_on_the_way() -> None:
    """Fails for large numbers. Elsewhere, smaller ones end the process."""
    number = foretold.between(0, 1_000, "number")
    if 100 < number < 500 and real.getpid() != PARENT:
        os.abort()
    assert number < 500


@pytest.mark.usefixtures("eager")
def test_a_run_that_ends_its_process_is_another_failure() -> None:
    """The worker is replaced, and shrinking goes on."""
    failure = searched(dies_on_the_way, 2)
    assert [choice.value for choice in failure.tape.choices["workload"]] == [500]


def test_short_runs_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is forked for them."""
    monkeypatch.setattr(ahead.Ahead, "_start", lambda *given: pytest.fail("not worth it"))
    monkeypatch.setattr(ahead, "RUN_S_MIN", 10.0)
    searched(large_order, 2)
