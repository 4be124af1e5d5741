"""The computer that a module's top level sees when it is first imported inside a run.

It is the host at the moment at which the world began, for every run the same: its clocks stand at
their start, its randomness follows from the module's name. (See kernel/imports.py for why.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from foretold.tape.streams import generator_for
from foretold.world.extensions import ImportCalls

if TYPE_CHECKING:
    from foretold.world.host import Host


class ImportTime:
    def __init__(self, host: Host, module: str) -> None:
        self.host = host
        self.calls = host.calls
        self._module = module
        self._random = generator_for(0, f"import {module}")

    def wall_ns(self) -> int:
        return int(self.host.world.settings.epoch_s * 1e9)

    def monotonic_ns(self) -> int:
        return self.host.kernel.clock.start_ns

    def cpu_ns(self) -> int:
        return 0

    def sleep_ns(self, ns: int) -> None:
        """It takes no time, in this run as in those that find the module there."""

    def entropy(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def pid(self) -> int:
        return self.host.pid()

    def node(self) -> int:
        return self.host.node()

    is_importing = True

    def spin(self) -> None:
        self.host.spin()

    def answer(self, call: str) -> Callable[..., Any] | None:
        if call == "extensions":
            return lambda: ImportCalls(self)
        return self.host.answer(call)

    @property
    def instead(self) -> str:
        """What helps against all that a module does when it is imported."""
        return f"import {self._module}  # before the run, at the top of the test's module"

    def escaped(self, call: str, why: str, instead: str) -> NoReturn:
        self.host.escaped(call, why, self.instead)


def import_time(host: Host, module: str) -> ImportTime | None:
    """None for modules of which the host has a copy of its own: it imports them in every run."""
    return None if host.modules.is_own(module) else ImportTime(host, module)
