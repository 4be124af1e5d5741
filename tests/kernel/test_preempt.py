"""`preempt="lines"`: races between lines that no lock separates."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import foretold
from foretold.search.planning.portfolio import plans_for, settings_of
from tests.helpers import again, run_of

HERE = [__name__]


def count(locked: bool) -> None:
    """Two threads add one, in two lines."""
    lock, total = threading.Lock(), 0

    def add() -> None:
        nonlocal total
        seen = total
        total = seen + 1

    def add_locked() -> None:
        with lock:
            add()

    work = add_locked if locked else add
    threads = [threading.Thread(target=work, name=f"adder {n}") for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 2


def racy() -> None:
    """No lock: an update can be lost between the two lines."""
    count(locked=False)


def correct() -> None:
    """With a lock around them."""
    count(locked=True)


@pytest.mark.parametrize("preempt", ["lines", HERE], ids=["all own code", "this module"])
def test_a_race_between_lines_is_found(preempt: Any) -> None:
    """Where it may be; and told as a delay or two, at the lines between two locks."""
    assert not foretold.explore(racy, runs=100, preempt="locks").failures
    (failure,) = foretold.explore(racy, runs=400, preempt=preempt).failures
    assert 1 <= len(failure.delays) <= 2
    assert "adder 1 was held" in failure.story
    assert "total = seen + 1" in failure.story


def test_a_search_interrupts_lines_by_itself() -> None:
    """Nobody has to ask for it. What a seed says does not depend on who makes its run."""
    found = foretold.explore(racy, runs=100, seed=1)
    assert found.failure is not None
    assert ("preempt", "lines") in settings_of(found.failure.seed, plans_for(None, "portfolio"))
    assert not foretold.explore(correct, runs=200, seed=1).failures


def test_what_is_asked_for_comes_first() -> None:
    """Modules that are named, or "locks", hold for every run of a search."""
    plans = plans_for(None, "portfolio")
    for seed in range(100):
        for asked in ("lines: shop", "lines", "locks"):
            assert "preempt" not in dict(settings_of(seed, plans, preempt=asked))
    kinds = [dict(settings_of(seed, plans)) for seed in range(3600)]
    for order in ("asyncio", "any"):
        of_order = [kind for kind in kinds if kind["order"] == order]
        assert sum("preempt" in kind for kind in of_order) == len(of_order) * 2 / 3


def test_a_debugger_keeps_lines_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no line can be told, no tape says that lines were: it would not repeat elsewhere."""
    monkeypatch.setattr("foretold.kernel.threads.preempt.can_interrupt", lambda: False)
    assert not foretold.explore(racy, runs=100, seed=1).failures


def test_long_computations_are_looked_at_ever_less() -> None:
    """A thread that computes for long is interrupted less and less often."""

    def switches_of(lines: int) -> int:
        def compute() -> None:
            for _ in range(lines):
                pass

        def main() -> None:
            threads = [threading.Thread(target=compute) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return max(run_of(main, seed, preempt="lines").choices for seed in range(4))

    few, many = switches_of(5_000), switches_of(100_000)
    assert few < many < 4 * few


def test_a_lock_protects_lines() -> None:
    """Interrupted wherever, the correct program stays correct."""
    assert not foretold.explore(correct, runs=120, preempt="lines").failures


def test_other_modules_are_left_alone() -> None:
    """Lines count only where the user said so."""
    assert not foretold.explore(racy, runs=100, preempt=["json", "queue"]).failures


@pytest.mark.usefixtures("one_session")
def test_one_seed_one_run() -> None:
    """Equal seeds give equal digests, and recordings replay to the last step."""
    digests = set()
    for seed in range(50):
        done = run_of(racy, seed, recording=True, preempt="lines")
        assert run_of(racy, seed, preempt="lines").digest == done.digest
        replayed = again(racy, done.tape.recorded())
        assert (replayed.digest, repr(replayed.error)) == (done.digest, repr(done.error))
        digests.add(done.digest)
    assert len(digests) > 10


def test_nothing_is_left_in_place() -> None:
    """No tool of sys.monitoring, no trace function, for the rest of the process."""
    traced = sys.gettrace()
    run_of(correct, preempt="lines")
    assert sys.gettrace() is traced
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        assert "foretold" not in [monitoring.get_tool(tool) for tool in range(6)]


@pytest.mark.parametrize("wrong", [["a b"], [], [3], "every line"])
def test_wrong_names_are_refused(wrong: Any) -> None:
    """With a sentence that shows the right way."""
    with pytest.raises(foretold.UsageError, match="preempt names modules"):
        foretold.run(correct, preempt=wrong)
