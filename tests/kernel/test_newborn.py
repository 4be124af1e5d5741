"""New threads: in some runs each goes on at once, in others all begin together."""

from __future__ import annotations

import threading

import pytest

from tests.helpers import again, run_of

STRATEGIES = ("random", "pct", "delays")


def starting() -> list[str]:
    """Main starts three threads; who did something first?"""
    log: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            log.append(threading.current_thread().name)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    log.append("all started")
    for thread in threads:
        thread.join()
    return log


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_tape_draws_whether_new_threads_wait(strategy: str) -> None:
    """Both happen, and often; whichever it is, a recording repeats it."""
    first = []
    for seed in range(40):
        done = run_of(starting, seed, order="any", strategy=strategy, recording=True)
        assert again(starting, done.tape.recorded()).digest == done.digest
        first.append(done.value[0])
    assert first.count("all started") >= 20
    assert first.count("all started") <= 38


def test_calm_threads_wait_for_nobody() -> None:
    """In calm order a new thread goes on as soon as it is started."""
    names = [f"Thread-{number} (work)" for number in (1, 2, 3)]
    assert run_of(starting, order="any", strategy="fifo").value == [*names, "all started"]


@pytest.mark.usefixtures("one_session")
def test_nobody_waits_for_ever() -> None:
    """Main spins, without ever waiting, until a new thread has done its work."""

    def main() -> None:
        lock, done = threading.Lock(), list[bool]()

        def work() -> None:
            with lock:
                done.append(True)

        threading.Thread(target=work).start()
        while not done:
            with lock:
                pass

    for strategy in STRATEGIES:
        for seed in range(10):
            found = run_of(main, seed, order="any", strategy=strategy, steps_max=20_000)
            assert found.error is None
