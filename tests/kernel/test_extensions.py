"""C libraries ask the C library; in a run the world answers, and nothing is changed afterwards.

The library is planted.c, compiled here. It asks for all that extension modules ask for.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pydantic_core
import pytest

import foretold
from foretold.kernel.native import build, calls, extensions, images
from foretold.kernel.patches import patches
from tests.kernel.fake_computer import FakeComputer, a_run
from tests.kernel.pages import rights_at

SOURCE = Path(__file__).with_name("planted.c")
WALL, MONOTONIC = 0, 1
EPOCH_S = 1_767_225_600
WAYS = ("socket", "SYS_socket", "open", "fopen", "mkdir", "system", "fork", "pthread_create")
NAMES = frozenset({
    "clock_gettime", "time", "usleep", "getrandom", "getentropy", "syscall", "open", "open64",
    "socket", "pthread_create", "fork", "system", "fopen", "fopen64", "mkdir",
})  # fmt: skip


@functools.cache
def path_of_planted() -> str:
    """The library, built once."""
    source = SOURCE.read_bytes()
    build.library("planted", source)
    return str(build.kept_path("planted", source))


@functools.cache
def planted() -> Any:
    """The library, loaded before any run."""
    library = ctypes.CDLL(path_of_planted())
    for name in ("planted_clock", "planted_time", "planted_wait"):
        getattr(library, name).restype = ctypes.c_int64
    library.planted_random.restype = ctypes.c_uint64
    return library


@pytest.fixture(autouse=True)
def _built() -> None:
    """Before any run: inside of one there is no compiler."""
    planted()


def tables() -> dict[int, int]:
    """What stands in each import of each library, read in another way than by what changes it."""
    found = {}
    for image in images.loaded(lambda path: True):
        for _, slot, _ in image.imports(NAMES):
            found[slot] = ctypes.c_size_t.from_address(slot).value
    return found


def hooks() -> set[int]:
    """The addresses of our functions, as they stand in the tables while a session lasts."""
    before = tables()
    with patches.installed():
        return {word for slot, word in tables().items() if before.get(slot) != word}


def test_every_table_is_as_it_was() -> None:
    """Inside a session imports lead to us; outside each holds what the dynamic linker put there."""
    with patches.installed():
        pass  # the first one lets the dynamic linker look up what is used
    before = tables()
    rights = {slot: rights_at(slot) for slot in before}
    with patches.installed():
        inside = tables()
    after = tables()
    assert {slot: after[slot] for slot in before} == before
    assert sum(inside[slot] != word for slot, word in before.items()) >= len(NAMES) / 2
    assert {slot: rights_at(slot) for slot in before} == rights
    assert set(rights.values()) == {"r--p", "rw-p"}


def test_a_run_that_fails_leaves_nothing() -> None:
    """Whatever becomes of a run."""

    def main() -> None:
        planted().planted_escape(b"socket", b"")
        raise ValueError

    seen = []
    for _ in range(2):  # the first one lets the dynamic linker look up what is used
        with pytest.raises(foretold.EscapedWorld):
            foretold.run(main)
        seen.append(tables())
    assert {slot: seen[1][slot] for slot in seen[0]} == seen[0]
    assert not set(seen[0].values()) & hooks()


def test_clocks_are_the_worlds() -> None:
    """Wall clock, monotonic clock and seconds are those that Python sees."""

    def main() -> Any:
        library = planted()
        return (
            library.planted_clock(WALL) / 1e9 - time.time(),
            library.planted_clock(MONOTONIC) / 1e9 - time.monotonic(),
            library.planted_time(),
        )

    wall, monotonic, seconds = foretold.run(main).value
    assert abs(wall) < 1
    assert abs(monotonic) < 1
    assert seconds == EPOCH_S


def test_looking_at_a_clock_does_not_move_time() -> None:
    """Allocators look when they like. Two looks differ all the same."""

    def main(looks: int) -> Any:
        library = planted()
        seen = [library.planted_clock(MONOTONIC) for _ in range(looks)]
        assert seen == sorted(set(seen))
        return time.monotonic_ns()

    assert len({foretold.run(lambda n=n: main(n)).value for n in (0, 1, 50)}) == 1


def test_a_loop_that_waits_for_a_clock_ends() -> None:
    """C code that looks at a clock again and again moves it."""
    assert foretold.run(lambda: planted().planted_spin(5)).value


def test_sleeps_take_virtual_time() -> None:
    """An hour in C takes no real time, and others go on meanwhile."""

    def main() -> Any:
        done: list[float] = []

        def other() -> None:
            time.sleep(600)
            done.append(time.monotonic())

        thread = threading.Thread(target=other)
        thread.start()
        began = time.monotonic()
        for _ in range(4):
            planted().planted_sleep(900_000_000)
        thread.join()
        return time.monotonic() - began, done[0] - began

    slept_s, other_s = foretold.run(main).value
    assert 3_600 <= slept_s < 3_601
    assert 600 <= other_s < 601


def test_a_thread_that_is_ended_leaves_its_sleep() -> None:
    """Of a process that was killed, and of one that has ended: nobody sleeps in real time."""
    ended: list[str] = []

    def sleep(name: str) -> None:
        try:
            planted().planted_sleep(900_000_000)
        finally:
            ended.append(name)

    async def victim() -> None:
        await asyncio.to_thread(sleep, "killed")

    async def main(world: foretold.World) -> str:
        threading.Thread(target=sleep, args=["daemon"], daemon=True).start()
        host = world.host("other")
        host.start(victim)
        await asyncio.sleep(1)
        host.kill()
        return "done"

    assert foretold.run(main).value == "done"
    assert "daemon" in ended


@pytest.mark.parametrize("clock", [WALL, MONOTONIC])
def test_a_wait_with_a_deadline_times_out(clock: int) -> None:
    """The deadline is one of the world's clock, which is not that of the machine."""
    moved_ns = foretold.run(lambda: planted().planted_wait(clock, 20)).value
    assert 20_000_000 <= moved_ns < 30_000_000


@pytest.mark.parametrize("how", range(4))
def test_randomness_comes_from_the_tape(how: int) -> None:
    """By every way: the same seed gives the same, another seed does not, and it is not real."""

    def main() -> Any:
        return [planted().planted_random(how) for _ in range(2)]

    one, same, other = (foretold.run(main, seed=seed).value for seed in (1, 1, 2))
    assert one == same != other
    assert one[0] != one[1]
    assert main() != main()


def test_a_function_that_a_library_has_looked_up_in_a_run_is_put_back() -> None:
    """It keeps the address, which is one of ours. Afterwards it has that of the C library, and in
    the next run it is led to us again."""
    library = planted()
    library.planted_looked_up.restype = ctypes.c_uint64
    kept = ctypes.c_void_p.in_dll(library, "planted_kept")
    original = ctypes.cast(ctypes.CDLL(None).getrandom, ctypes.c_void_p).value
    kept.value = None
    drawn = []
    for _ in range(3):
        drawn.append(foretold.run(library.planted_looked_up, seed=1).value)
        assert kept.value == original
    assert len(set(drawn)) == 1
    assert library.planted_looked_up() != drawn[0]


def test_a_librarys_draws_shift_nothing_else() -> None:
    """Many libraries draw a seed in the first run of a process alone."""

    def main(draws: int) -> Any:
        for _ in range(draws):
            planted().planted_random(0)
        import os

        return os.urandom(8)

    runs = [foretold.run(lambda n=n: main(n), seed=3) for n in (0, 1, 2)]
    assert len({run.value for run in runs}) == 1
    assert len({run.digest for run in runs}) == 1


@pytest.mark.parametrize("how", WAYS)
def test_ways_out_are_told_though_nobody_looks(how: str, tmp_path: Path) -> None:
    """The library swallows the errno. The run fails, names library and call, and the line."""

    def main() -> None:
        planted().planted_escape(how.encode(), str(tmp_path / "new").encode())

    with pytest.raises(foretold.EscapedWorld, match=rf"{how}.* by planted-") as caught:
        foretold.run(main)
    assert "Instead: " in str(caught.value)
    shown = traceback.extract_tb(caught.value.__traceback__)
    assert shown[-1].filename == __file__
    assert shown[-1].name == "main"
    assert not list(tmp_path.iterdir())
    assert planted().planted_escape(how.encode(), str(tmp_path / "new").encode()) == 0


def test_a_file_of_the_host_is_a_file_in_c_too() -> None:
    """A library gets the number of a file that Python has opened. It reads and writes that file, on
    the simulated disk, by every call that takes a number; afterwards the number means nothing."""
    numbers: list[int] = []

    def main() -> Any:
        with open("file", "w+b", buffering=0) as file:
            numbers.append(file.fileno())
            failed_at = planted().planted_file(file.fileno())
        with open("file") as file:
            return failed_at, file.read()

    assert foretold.run(main).value == (0, "One-two-thre")
    assert planted().planted_file(numbers[0])


def test_other_threads_are_in_the_real_world() -> None:
    """A thread that was there before the run sees the real clock, and may open sockets."""
    ask, answer = threading.Event(), threading.Event()
    seen: list[Any] = []

    def real() -> None:
        ask.wait()
        seen.append(planted().planted_time())
        seen.append(planted().planted_escape(b"socket", b""))
        answer.set()

    planted()
    thread = threading.Thread(target=real)
    thread.start()

    def main() -> None:
        with patches.outside():
            ask.set()
            answer.wait()

    foretold.run(main)
    thread.join()
    assert abs(seen[0] - time.time()) < 100
    assert seen[1] == 0


LATER = """
import ctypes, sys
import foretold

def main():
    library = ctypes.CDLL(sys.argv[1])
    return library.planted_time()

print(foretold.run(main).value)
"""


def test_what_ends_a_call_of_a_stand_in_is_raised_behind_the_library() -> None:
    """libpq asks functions of ours that are written in Python. What one of them throws must not be
    raised in it, nor in those that the library calls before it returns: there it would be lost."""
    asked: list[str] = []

    class Ended(BaseException):
        pass

    class Calls:
        def time(self, *args: int) -> int:
            asked.append("time")
            raise Ended("while it asked")

        def failed(self, error: BaseException) -> None:
            extensions.throw(error)

    class Asked(FakeComputer):
        def answer(self, call: str) -> Any:
            return Calls if call == "native" else super().answer(call)

    address = ctypes.cast(ctypes.CDLL(None).time, ctypes.c_void_p).value
    assert address is not None
    stand_in = ctypes.c_void_p(calls.NativeStandIn("time", address).address)
    with a_run(Asked()), pytest.raises(Ended, match="while it asked"):
        planted().planted_ask(stand_in, 3)
        asked.append("the program went on")
    assert asked == ["time"] * 3


def test_a_library_that_is_loaded_in_the_run_counts() -> None:
    """In a process that has never seen it."""
    command = [sys.executable, "-c", LATER, path_of_planted()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == EPOCH_S


def test_a_function_that_ctypes_has_looked_up_before_is_led() -> None:
    """ctypes keeps addresses. They are looked at when they are called."""
    libc = ctypes.CDLL(None)
    known = libc.time
    assert foretold.run(lambda: (known(None), ctypes.CDLL(None).time(None))).value == (
        EPOCH_S,
        EPOCH_S,
    )

    def main() -> None:
        libc.socket(2, 1, 0)

    with pytest.raises(foretold.EscapedWorld, match=r"socket\(\) by ctypes"):
        foretold.run(main)


HANG = """
import ctypes, sys, threading
import foretold

library = ctypes.CDLL(sys.argv[1])
foretold.run(library.planted_hang)
"""


def test_a_library_that_waits_for_its_own_thread_is_told() -> None:
    """The main thread sits in C for ever. What the library did is said, and the process ends, long
    before the limit on real time."""
    done = subprocess.run(
        [sys.executable, "-c", HANG, path_of_planted()], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "work on threads of its own (pthread_create) by planted-" in done.stderr
    assert "does not come back, so this process is ended" in done.stderr


GROWING = """
import ctypes, sys
import foretold

library = ctypes.CDLL(sys.argv[1])
for _ in range(2):
    try:
        foretold.run(library.planted_growing)
        print("silent")
    except foretold.EscapedWorld as error:
        print(str(error).splitlines()[0])
"""


def test_a_pool_of_an_earlier_run_that_grows_is_told() -> None:
    """In the second run it is the library's own thread that starts another, before the program
    uses the library: what that thread does is no reason to think that the run was told."""
    command = [sys.executable, "-c", GROWING, path_of_planted()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.partition(" by ")[0] for line in done.stdout.splitlines()] == [
        "work on threads of its own (pthread_create)"
    ] * 2


POOL = """
import ctypes, sys
import foretold

library = ctypes.CDLL(sys.argv[1])
print(library.planted_pool())

def main():
    return library.planted_pool()

print(foretold.run(main).value)
found = foretold.explore(main, runs=1, isolation="fork", shrink=False).failures
print(*[each.exception for each in found])
"""


def test_a_pool_that_a_fork_has_left_behind_is_told() -> None:
    """A library's threads from before the run may be used in it. In a fork they do not exist: the
    library would wait for ever, in silence."""
    command = [sys.executable, "-c", POOL, path_of_planted()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1\n2\n")
    assert "waits for threads that are not in this process" in done.stdout
    assert 'workers=1, and no isolation="fork"' in done.stdout


def test_without_a_compiler_the_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on, and the note names modules that could leave the world."""
    monkeypatch.setattr(extensions, "_library", lambda: None)
    monkeypatch.setattr(extensions, "missing", "there is no C compiler on PATH")
    assert pydantic_core.__name__ in sys.modules
    (note,) = foretold.run(lambda: None).notes
    assert note.startswith("extension modules (")
    assert note.endswith("there is no C compiler on PATH")
