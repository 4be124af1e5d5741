"""The seam: all that a program can ask of the machine it runs on, and who answers.

Clock, sleep, entropy and identity of a real computer are asked for in a hundred ways (`time.time`,
`datetime.now`, `uuid4`, …). The modules beside this one catch those ways, and each of them ends
here, in a method of `Computer`. Whoever implements these few methods *is* the computer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol

FIRST: Final = 1 << 24
"""Descriptors of a simulated computer are numbers from here on: no real one of this process is that
large, since Linux allows at most 2**20 by default. So a mistake cannot touch a real file."""

Answer = Callable[..., Any]


class Answers(dict[str, "Answer | None"]):
    """Who answers a call, by its name. `find` is asked once for each."""

    def __init__(self, find: Callable[[str], Answer | None]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> Answer | None:
        found = self[name] = self._find(name)
        return found


class Computer(Protocol):
    """What a program can ask of the machine it runs on; implemented by the world, per run."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970. Each call moves virtual time on, as in reality."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that is never set."""

    def cpu_ns(self) -> int:
        """Processor time used so far (`process_time`, `thread_time`)."""

    def sleep_ns(self, ns: int) -> None:
        """`time.sleep`. May raise, for instance because the host is dead."""

    def entropy(self, n: int) -> bytes:
        """`n` bytes that no program can foresee, and the tape does."""

    def pid(self) -> int:
        """The process id that the program sees."""

    def node(self) -> int:
        """The 48-bit hardware address, for `uuid1`."""

    calls: Answers
    """Who answers each call of the table (syscalls/)."""
    is_importing: bool
    """Whether the top level of a module asks, which the next runs find there."""

    def spin(self) -> None:
        """The program asks for something that costs nothing, perhaps in a loop."""

    def answer(self, call: str) -> Callable[..., Any] | None:
        """Who answers a call that would leave the world, such as `socket.getaddrinfo`; or None."""

    def escaped(self, call: str, why: str, instead: str) -> NoReturn:
        """The program reached for the real world: record it, and raise `EscapedWorld`."""


running: Final[dict[int, Computer]] = {}
"""The computer that each thread of the run in progress lives on, by thread ident.

Empty between runs. A thread that is not in here lives in the real world, and sees it unchanged.
"""

computer_of: Final = running.get
"""`computer_of(get_ident())` is all that a patched function pays to learn where it is. (Bound once:
as `running.get(…)` it took 60 ns longer, half as much again.)"""
