"""What extension modules and their libraries ask of a host: the time, sleep, random bytes, what is
in its files, and what becomes of their ways out of the world. (See kernel/native/extensions.py for
who asks.)

A clock that C code reads does not move time. Allocators and thread pools look at clocks whenever
they like, so the number of their looks would be the machine's choice. Two looks still never give
the same instant: each is a nanosecond later than the one before, until the host's time moves on. C
code that looks again and again without end (it waits) moves it.

Each library has a stream of random bytes of its own, because many draw a seed once in the life of
the process: the first run would shift what all others draw. For the same reason nothing of it is in
the trace.
"""

from __future__ import annotations

import errno
import re
import sys
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import EscapedWorld
from foretold.kernel import real
from foretold.kernel.computer import Computer
from foretold.kernel.native import extensions
from foretold.kernel.threads.baton import StrandEnded, strands
from foretold.kernel.waiting import traceback_of
from foretold.kernel.watchdog import watchdog
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.importtime import ImportTime

_WALL, _MONOTONIC, _PROCESSOR = range(3)
_NETWORK, _FILES, _PROCESSES, _THREADS, _WAITING, _GONE = range(6)
LOOKS_MAX = 1_000
"""So often C code may look at a clock that stands still, before it counts as a loop that waits."""

_WHY: Final = {
    _NETWORK: "the real network, which the library uses in C, answers when and as it likes",
    _FILES: "what one run leaves on the real disk is found by the next run",
    _PROCESSES: "another process runs in real time, and its answers are not on the tape",
    _THREADS: "the operating system decides when a thread of the library runs, not the tape",
    _WAITING: "it waits in real time for a real descriptor, while virtual time stands still",
    _GONE: 'isolation="fork" and workers=… copy a process without the threads that a library has '
    "started in it: nobody ends this wait",
}
_CLIENT = "use a client that is written in Python (httpx, aiohttp, grpclib, redis)"
_ONCE = (
    "make the same call once before the run, at the top of the module: the library keeps its "
    'threads (but not in a copy of the process: workers=1, and no isolation="fork")'
)
_COMPUTES: Final = ("_argon2_cffi_bindings/",)
"""Libraries whose threads compute and have ended when the call returns: nothing that a program can
see depends on when they run."""
_OFF: Final = {
    "duckdb": 'duckdb.connect(config={"threads": 1, "async_threads": 0})',
    "grpc": "use grpclib: it is written in Python, and needs no threads",
    "numpy": 'os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported',
    "polars": _ONCE,
    "pyarrow": _ONCE,
    "pycares": "await asyncio.get_running_loop().getaddrinfo(name, port)  # on the world's network",
    "scipy/fft": "scipy.fft.fft(x, workers=1)",
    "tokenizers": 'os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the run',
    "zstandard": "zstandard.ZstdCompressor(threads=0)",
}
"""How a library is used without threads of its own."""
_SETTING = "switch the library's threads off, if it has a setting for that"
_INSTEAD: Final = {
    _NETWORK: f"{_CLIENT}: it is on the simulated network",
    _FILES: "let it write to memory (io.BytesIO, ':memory:'), and write that with open()",
    _PROCESSES: 'world.host("worker").start(main)  # a process of the simulated world',
    _THREADS: f"{_SETTING}; or {_ONCE}",
    _WAITING: f"{_CLIENT}: it waits in virtual time",
    _GONE: f'{_SETTING}; or search in one process: workers=1, and no isolation="fork"',
}
_ENGINES: Final = {
    "gevent/": "leave gevent and monkey.patch_all() out of the test: plain threads, time.sleep and "
    "sockets are simulated",
    "uvloop/": "make the loop inside of the run: uvloop.run(main()) there gives the world's loop",
}
"""Libraries that are loops, and were set up before the run."""


def _instead_of(library: str, matter: int) -> str:
    known = {} if matter not in (_THREADS, _GONE) else _OFF
    engines = (words for name, words in _ENGINES.items() if library.startswith(name))
    hints = (words for name, words in known.items() if name in library)
    return next(engines, next(hints, _INSTEAD[matter]))


def escape_of(library: str, call: str, matter: int, instead: str = "") -> EscapedWorld:
    """The error for a way out that a library has taken."""
    instead = instead or _instead_of(library, matter)
    what = f"{call} by {library} would leave the simulated world."
    if matter == _GONE:
        what = f"{library} waits for threads that are not in this process."
    return EscapedWorld(f"{what}\n{_WHY[matter]}\nInstead: {instead}")


def _has_threads_of_c() -> bool:
    """Whether this process has threads beside those of the run and our own."""
    ours = (len(strands) or 1) + watchdog.is_alive
    return len(real.listdir("/proc/self/task")) > ours


def stream_name(library: str) -> str:
    """A library as the tape calls it: without what differs between machines and versions."""
    folder, _, file = library.rpartition("/")
    name = re.split(r"[-.]", file)[0] or file
    return f"{folder.split('.')[0].split('/')[0]}.{name}" if folder else name


class ExtensionCalls:
    """Who answers C code on one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen_ns = self._looks = 0

    def now(self, kind: int) -> int:
        host, clock = self._host, self._host.kernel.clock
        clock.reads += 1
        clock.read_in_c = True
        if clock.ns != self._seen_ns:
            self._looks = 0
        self._looks += 1
        if self._looks > LOOKS_MAX:
            self._looks = LOOKS_MAX  # from here on each look moves time, until others do
            host.monotonic_ns()
        self._seen_ns = clock.ns
        moved_ns = 0 if clock.exact else self._looks
        if kind == _WALL:
            return clock.wall_now_ns() + moved_ns
        if kind == _MONOTONIC:
            return clock.ns + moved_ns
        return clock.ns - clock.start_ns - clock.idle_ns + moved_ns

    def sleep_ns(self, ns: int) -> None:
        """So long from the instant that C code has seen, which is later than the host's."""
        self._host.sleep_ns(ns + LOOKS_MAX)

    def entropy(self, library: str, n: int) -> bytes:
        host = self._host
        host.entropy_drawn += 1
        stream = host.world.tape.stream("entropy", host.name, "native", stream_name(library))
        return stream.bytes(n, "entropy")

    def descriptor(self, call: str, fd: int | str, *args: Any) -> Any:
        """A call about a descriptor of the host, as Python would make it. A path is opened only if
        a file is there: libraries look for many that are not, in the first run of a process."""
        if isinstance(fd, str) and not self._host.has_file(fd):
            raise os_error(errno.ENOENT)
        answer = self._host.calls[f"{'fcntl' if call == 'fcntl' else 'os'}.{call}"]
        assert answer is not None, "a host answers all of these"
        return answer(fd, *args)

    def escaped(self, library: str, call: str, matter: int, instead: str = "") -> bool:
        """Tell the world, which fails the run. Returns whether the call may be made all the same.

        It is not raised in the program: the next line of Python may be one that the library calls
        in the middle of its work, and few libraries survive an exception there.
        """
        if matter == _GONE and _has_threads_of_c():
            return True
        if matter == _THREADS and library.startswith(_COMPUTES):
            return True
        there = traceback_of(get_ident(), without_ours=True)
        error = escape_of(library, call, matter, instead).with_traceback(there)
        self._host.world.fail(error)
        watchdog.hurry(error)
        return False

    def are_not_led(self, why: str) -> None:
        """The hooks cannot be built on this machine. A run that C code could leave says so."""
        modules = extensions.extension_modules(len(sys.modules))
        if modules:
            shown = ", ".join(modules[:3]) + (", …" if len(modules) > 3 else "")
            self._host.kernel.notes[
                f"extension modules ({shown}) see the real clock, randomness and network: {why}"
            ] = None

    def failed(self, error: BaseException) -> None:
        """What ended a call cannot pass through C: it is noted, and raised behind it."""
        if not isinstance(error, StrandEnded | KeyboardInterrupt):
            self._host.world.fail(error)
        extensions.throw(error)


class CallsOutsideRuns:
    """What C code asks of a computer that is no host: the time, sleep and random bytes."""

    def __init__(self, computer: Computer) -> None:
        self._computer = computer

    def now(self, kind: int) -> int:
        computer = self._computer
        if kind == _WALL:
            return computer.wall_ns()
        return computer.monotonic_ns() if kind == _MONOTONIC else computer.cpu_ns()

    def sleep_ns(self, ns: int) -> None:
        self._computer.sleep_ns(ns)

    def entropy(self, library: str, n: int) -> bytes:
        return self._computer.entropy(n)


class ImportCalls(CallsOutsideRuns):
    """Who answers C code while a module is imported: as if it had been when the world began."""

    _computer: ImportTime

    def descriptor(self, call: str, fd: int | str, *args: Any) -> Any:
        calls: Any = self._computer.host.answer("extensions")
        return calls().descriptor(call, fd, *args)

    def escaped(self, library: str, call: str, matter: int) -> bool:
        """Threads that a library starts when it is loaded would have been there before the run."""
        if matter in (_THREADS, _WAITING, _GONE):
            return True
        calls: Any = self._computer.host.answer("extensions")
        return bool(calls().escaped(library, call, matter, self._computer.instead))

    def failed(self, error: BaseException) -> None:
        calls: Any = self._computer.host.answer("extensions")
        calls().failed(error)
