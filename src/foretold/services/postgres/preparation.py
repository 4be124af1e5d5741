"""The computer that the function of a schema sees, or a migration: the real one, except for what
it may store in rows.

The date and random bytes are the same in every process: the time of a row, its uuid, the salt of a
password. So a run that reads them can be replayed elsewhere. Files, the network, sleeping and
monotonic clocks are the machine's own, because a driver waits for a real server meanwhile.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from foretold.errors import EscapedWorld
from foretold.kernel import fence, real
from foretold.kernel.computer import Answers, running
from foretold.kernel.native import extensions
from foretold.tape.streams import generator_for
from foretold.world.extensions import CallsOutsideRuns

BEGINS_US: Final = 1_767_139_200_000_000  # a day before worlds begin
_SEED: Final = 20_260_101


class Preparation:
    """A `Computer` for the thread that makes a schema."""

    is_importing = False

    def __init__(self) -> None:
        self.calls = Answers(lambda call: None)
        self._random = generator_for(_SEED, "schema")
        self._looks = 0

    @contextmanager
    def answers_this_thread(self) -> Iterator[None]:
        """Inside, the calling thread asks here; whatever is not answered here reaches out."""
        running[get_ident()] = self
        extensions.join_thread()
        try:
            with fence.passage():
                yield
        finally:
            running.pop(get_ident(), None)

    def wall_ns(self) -> int:
        self._looks += 1
        return (BEGINS_US + self._looks) * 1_000

    def monotonic_ns(self) -> int:
        return real.monotonic_ns()

    def cpu_ns(self) -> int:
        return real.process_time_ns()

    def sleep_ns(self, ns: int) -> None:
        real.sleep(ns / 1e9)

    def entropy(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def pid(self) -> int:
        return real.getpid()

    def node(self) -> int:
        return 0x02_00_5E_00_00_00  # as on every host

    def spin(self) -> None:
        """Real time passes by itself."""

    def answer(self, call: str) -> Callable[..., Any] | None:
        return (lambda: _OfExtensions(self)) if call == "extensions" else None

    def escaped(self, call: str, why: str, instead: str) -> NoReturn:
        raise EscapedWorld(f"{call} does not work in the function of a schema.\n{why}")


class _OfExtensions(CallsOutsideRuns):
    def failed(self, error: BaseException) -> None:
        """What went wrong here is raised by the library itself."""
