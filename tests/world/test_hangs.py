"""Programs that never come back are ended: by an error that says where they stand, within a limit.

The limit is real time, because that is what is tested. It is small; the assertions do not depend on
how long anything took. On a busy machine a program may begin to hang only shortly before its limit:
then the watchdog waits until it is clear that it stands still.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import math
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.kernel.watchdog import RunCut, Watch, watchdog
from foretold.world.current import current_world
from foretold.world.world import World
from tests.helpers import run_of

LIMIT_S = 0.4
libc = ctypes.CDLL(None)


def line_with(text: str) -> int:
    """The number of the line of this file that holds a text, for the first time."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


async def spins() -> None:
    """Never comes back to the loop."""
    while True:
        pass  # spins


def catches_all() -> None:
    """Catches whatever is raised in it, for ever."""
    while True:
        try:
            sum(range(1_000))  # catches all
        except BaseException:
            continue


async def catches_all_twice() -> None:
    """And so does its caller."""
    while True:
        try:
            catches_all()
        except:  # noqa: E722  # the mistake that is tested
            continue


async def waits_in_c() -> None:
    """Waits in real time, in a system call."""
    libc.pause()  # waits in C


async def spins_in_a_thread() -> None:
    """A thread never waits for anything."""
    await asyncio.to_thread(catches_all)


async def waits_in_c_in_a_thread() -> None:
    """A thread waits in C, and no signal wakes it: a lock that is never given back."""

    def work() -> None:
        mutex = ctypes.create_string_buffer(128)
        libc.pthread_mutex_lock(mutex)
        libc.pthread_mutex_lock(mutex)  # waits in a thread

    await asyncio.to_thread(work)


async def spins_on_a_host(world: foretold.World) -> None:
    """Another process of the world never comes back."""
    await world.host("other").start(spins)


async def spins_at_its_end() -> None:
    """It is over, and what it leaves behind does not end."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            while True:
                pass  # stubborn

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(1)
    assert not task.done()


def plain() -> None:
    """A main that is no coroutine, and a thread that nobody joins before it hangs."""
    threading.Thread(target=catches_all).start()


HANGS: dict[str, tuple[Callable[..., Any], str]] = {
    "a loop": (spins, "spins"),
    "a loop that catches all": (catches_all_twice, "catches all"),
    "a system call": (waits_in_c, "waits in C"),
    "a thread": (spins_in_a_thread, "catches all"),
    "a lock of C": (waits_in_c_in_a_thread, "waits in a thread"),
    "a host": (spins_on_a_host, "spins"),
    "the end": (spins_at_its_end, "stubborn"),
    "a plain main": (plain, "catches all"),
}


async def holds() -> int:
    """A program that ends."""
    await asyncio.gather(asyncio.sleep(2), asyncio.to_thread(sum, [1, 2]))
    return 3


@pytest.mark.parametrize("kind", HANGS)
def test_a_hang_is_ended(kind: str) -> None:
    """The error says who stands where, and its traceback ends in the program's own line. The next
    run of the process is as if nothing had been."""
    before = run_of(holds).digest
    main, mark = HANGS[kind]
    with pytest.raises(foretold.Hang, match="wall_s_max") as caught:
        foretold.run(main, wall_s_max=LIMIT_S)
    places = {(frame.filename, frame.lineno) for frame in traceback.extract_tb(caught.tb)}
    line = line_with(f"# {mark}")
    around = {(__file__, n) for n in range(line - 2, line + 3)}
    assert places & around
    assert any(f"runs at {file}:{n}" in str(caught.value) for file, n in around)
    done = run_of(holds)
    assert (done.value, done.digest) == (3, before)


@pytest.mark.parametrize(
    ("progresses_until_s", "kind"),
    [(0, foretold.Hang), (5, foretold.Hang), (10, foretold.Hang), (99, None)],
)
def test_standing_still_is_told_from_taking_long(
    progresses_until_s: int, kind: type | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run over its limit stands still if it made no progress for a good part of it. If it stopped
    just before, that is waited for. Here a nap is half a second, and each look is one nap after the
    last."""
    now_s = 0.0
    monkeypatch.setattr("foretold.kernel.real.monotonic", lambda: now_s)
    monkeypatch.setattr("foretold.kernel.real.process_time", lambda: 0.0)
    watch = Watch(
        10,
        lambda: int(min(now_s, progresses_until_s) * 1e9),
        lambda: None,
        lambda: "Where it stands:",
    )
    while watch.error is None:
        now_s += watch.nap_s
        watch.look(math.inf)
    assert type(watch.error) is (kind or foretold.LimitExceeded)
    assert 10 <= now_s < 14


def test_time_in_which_the_machine_slept_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that comes late counts as two naps, unless this process has computed all the while."""
    now_s = worked_s = 0.0
    monkeypatch.setattr("foretold.kernel.real.monotonic", lambda: now_s)
    monkeypatch.setattr("foretold.kernel.real.process_time", lambda: worked_s)
    watch = Watch(10, lambda: 0, lambda: None, lambda: "")
    now_s = 1_000.0
    watch.look(math.inf)
    after_sleep = watch.error
    now_s, worked_s = 2_000.0, 1_000.0
    watch.look(math.inf)
    assert (after_sleep, type(watch.error)) == (None, foretold.Hang)


def test_a_watchdog_that_the_system_keeps_waiting_sees_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process has computed all the while, and the run got on: it took too long, and did not
    stand still."""
    now_s = 0.0
    monkeypatch.setattr("foretold.kernel.real.monotonic", lambda: now_s)
    monkeypatch.setattr("foretold.kernel.real.process_time", lambda: now_s)
    watch = Watch(10, lambda: int(now_s * 1e9), lambda: None, lambda: "")
    now_s = 1_000.0
    watch.look(math.inf)
    assert type(watch.error) is foretold.LimitExceeded


async def never_waits() -> None:
    """Comes back to the loop, for ever."""
    while True:
        await asyncio.sleep(0)  # never waits


@pytest.mark.parametrize("limit", [{"wall_s_max": LIMIT_S}, {"steps_max": 5_000}])
def test_a_limit_says_where_tasks_stand(limit: dict[str, Any]) -> None:
    """So does the error of a run that makes steps, and no progress."""
    with pytest.raises(foretold.LimitExceeded) as caught:
        foretold.run(never_waits, **limit)
    assert type(caught.value) is foretold.LimitExceeded
    assert f"never_waits waits at {__file__}:{line_with('# never waits')}" in str(caught.value)


def test_others_are_listed() -> None:
    """Who waits is told as well: the question is often who should have gone on."""

    async def main() -> None:
        asyncio.create_task(asyncio.sleep(5), name="sleeper")  # noqa: RUF006  # ends with the run
        await asyncio.sleep(0.1)
        await spins()

    with pytest.raises(foretold.Hang) as caught:
        foretold.run(main, wall_s_max=LIMIT_S)
    assert "sleeper waits at" in str(caught.value)


def test_a_thread_without_a_line_of_the_program() -> None:
    """As those of native libraries are: it is listed, and the line that waits for it. That nobody
    gives back the lock is not known."""

    async def main() -> None:
        threading.Thread(target=libc.pause, name="native").start()  # waits for the thread

    with pytest.raises(foretold.Hang) as caught:
        foretold.run(main, wall_s_max=LIMIT_S)
    said = str(caught.value)
    assert re.search(r"native runs at .*threading\.py:\d+", said)
    line = line_with("start()  # waits for the thread")
    assert f"waits at {__file__}:{line} for a lock\n" in f"{said}\n"


def test_it_is_told_with_the_first_failure() -> None:
    """What was recorded before the run hung is still the verdict."""

    async def main() -> None:
        try:
            foretold.always(False, "first")
        except AssertionError:
            await spins()

    with pytest.raises(foretold.PropertyViolated, match="first"):
        foretold.run(main, wall_s_max=LIMIT_S)


ENDS_ITS_PROCESS = """\
import ctypes
import foretold

libc = ctypes.CDLL(None)


async def main():
    mutex = ctypes.create_string_buffer(128)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


if __name__ == "__main__":
    foretold.explore(main, wall_s_max=0.3, save_to="tapes")
"""


def test_c_code_that_never_returns_ends_the_process(tmp_path: Path) -> None:
    """There is no other way to end it. Before that, what is known is said and the tape is kept."""
    Path(tmp_path, "locked.py").write_text(ENDS_ITS_PROCESS, "utf-8")
    done = subprocess.run(
        [sys.executable, "locked.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"main runs at {Path(tmp_path, 'locked.py')}:10" in done.stderr
    [tape] = tmp_path.glob("tapes/*.tape")
    assert f"foretold replay {tape.relative_to(tmp_path)}" in done.stderr


async def lies_in_c() -> None:
    """No signal wakes it, and it is the driver itself."""
    mutex = ctypes.create_string_buffer(128)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # lies in C


@pytest.mark.parametrize("how", [{"isolation": "fork"}, {"workers": 2}])
def test_a_child_that_hangs_in_c_is_told_of(how: dict[str, Any]) -> None:
    """In a process that can be ended it is, and the search reports it with the line."""
    failure = foretold.explore(lies_in_c, runs=1, wall_s_max=0.2, **how).failure
    assert failure is not None
    assert f"lies_in_c runs at {__file__}:{line_with('# lies in C')}" in str(failure.exception)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages that follow the limit come soon."""
    monkeypatch.setattr("foretold.kernel.watchdog.GRACE_S_MIN", 0.1)
    monkeypatch.setattr("foretold.kernel.last_resort.GAP_S", 0.1)


async def backtracks() -> None:
    """Computes in C, lets no other thread run, and asks for signals."""
    re.match("(a+)+$", "a" * 60 + "b")  # backtracks


async def counts() -> None:
    """The same, without asking."""
    sum(itertools.count())  # counts


async def counts_in_a_thread() -> None:
    """And so does a thread of the program."""

    def work() -> None:
        sum(itertools.count())  # counts in a thread

    await asyncio.to_thread(work)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("how", [{}, {"isolation": "fork"}, {"workers": 2}])
def test_c_code_that_asks_for_signals(how: dict[str, Any]) -> None:
    """It is interrupted like Python code, though the watchdog cannot run beside it. More than once:
    the first run is not counted, and the next one is ended in the same way."""
    failure = foretold.explore(backtracks, runs=1, wall_s_max=0.4, **how).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Hang)
    assert f"backtracks runs at {__file__}:{line_with('# backtracks')}" in str(failure.exception)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("how", [{"isolation": "fork"}, {"workers": 2}])
@pytest.mark.parametrize("main", [counts, counts_in_a_thread])
def test_c_code_that_keeps_the_interpreter(main: Callable[..., Any], how: dict[str, Any]) -> None:
    """Nothing but a kill ends it. The line is known all the same."""
    failure = foretold.explore(main, runs=1, wall_s_max=0.4, **how).failure
    assert failure is not None
    mark = main.__name__.replace("_", " ")
    line = line_with(f"sum(itertools.count())  # {mark}")
    assert f'File "{__file__}", line {line}' in str(failure.exception)
    assert "killed by SIGKILL" in str(failure.exception)


KEEPS_THE_INTERPRETER = """\
import itertools
import foretold
import foretold.kernel.last_resort
import foretold.kernel.watchdog

foretold.kernel.watchdog.GRACE_S_MIN = foretold.kernel.last_resort.GAP_S = 0.1


async def main():
    sum(itertools.count())


foretold.explore(main, wall_s_max=0.4)
"""


def test_c_code_that_keeps_the_interpreter_of_the_search(tmp_path: Path) -> None:
    """The process is killed. Before that it prints where it is, also in the run that does not count
    and whose output is dropped."""
    Path(tmp_path, "counts.py").write_text(KEEPS_THE_INTERPRETER, "utf-8")
    done = subprocess.run(
        [sys.executable, "counts.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    assert f'File "{Path(tmp_path, "counts.py")}", line 10 in main' in done.stderr


@pytest.mark.parametrize("how", [{}, {"isolation": "fork"}, {"workers": 2}])
def test_a_search_finds_a_hang(how: dict[str, Any]) -> None:
    """It is a failure like others, except that it is not run again and again to be shrunk."""
    outcome = foretold.explore(spins, runs=3, wall_s_max=LIMIT_S, **how)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.exception, foretold.Hang)
    assert outcome.failure.signature.place.startswith(__file__)
    assert outcome.failure.shrink_runs == 0


async def some_hang() -> None:
    """Some runs hang; the others draw as well."""
    if foretold.between(0, 3) == 1:
        await spins()


def test_a_search_goes_on_after_a_hang() -> None:
    """With `keep_going` the runs after it are made."""
    outcome = foretold.explore(some_hang, runs=6, seed=2, wall_s_max=0.2, keep_going=True)
    assert outcome.failure is not None
    assert outcome.runs == 6


def test_the_watchdog_is_one_thread() -> None:
    """However many runs there are: one that began with each would cost more than many runs do."""
    run_of(holds)
    keeper = watchdog._keeper
    for _ in range(3):
        run_of(holds)
    assert keeper is not None
    assert watchdog._keeper is keeper


def test_without_a_limit_nobody_watches() -> None:
    """`wall_s_max=inf` is honoured, too."""
    assert run_of(holds, wall_s_max=float("inf")).value == 3
    assert watchdog._watch is None


def test_a_world_is_there_before_it_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search whose time is up cuts a run at its first line. Its loop is closed all the same."""
    loops: list[asyncio.AbstractEventLoop] = []

    def cut(watch: Watch) -> None:
        loops.extend(current_world().living_loops())
        raise RunCut

    monkeypatch.setattr(watchdog, "begin", cut)
    with pytest.raises(foretold.LimitExceeded, match="broken off"):
        foretold.run(holds)
    assert loops
    assert all(loop.is_closed() for loop in loops)


def test_a_cut_of_the_end_leaves_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is cut while it is taken down, before its loops were closed."""
    loops: list[asyncio.AbstractEventLoop] = []

    def cut(world: World) -> None:
        loops.extend(world.living_loops())
        raise RunCut

    monkeypatch.setattr("foretold.world.run.take_down", cut)
    with pytest.raises(foretold.LimitExceeded, match="broken off"):
        foretold.run(holds)
    assert loops
    assert all(loop.is_closed() for loop in loops)
