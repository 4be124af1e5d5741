"""Leave and restart: a host is asked to end (SIGTERM), says goodbye, and is started again.

`leave`: it stays away for a while. `restart`: it comes back as soon as its process is gone, as in a
rolling deployment. Never: a goodbye that is cut short by us (a process that needs more than a
minute for it is killed, as `host.stop()` does), or the return of a host that the test has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from foretold.tape import Stream
from foretold.world.ending import GRACE_S, ProcessEnding, begin_ending
from foretold.world.faults.kill import restart
from foretold.world.faults.kind import LASTS_S, Kind
from foretold.world.faults.nemesis import Ground

AT_ONCE_S = 1e-6


class Leave(Kind):
    """A host leaves the others for a while."""

    name = "leave"
    strikes = "host"
    effect = "at once"
    aims = True
    lasts_s: tuple[float, ...] = LASTS_S

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        host = ground.take_host(choices)
        if host is None:
            return
        try:
            lasts_s = choices.pick(self.lasts_s, "lasts")
            if host.ending is not None:
                return  # the test has asked it to
            ground.world.note_fault(f"{self.name} {host.name}", host.name)
            turns = host.turns
            ending = begin_ending(host, GRACE_S)
            try:
                yield lasts_s
            finally:
                ending.when_gone(partial(_come_back, ground, host, ending, turns))
        finally:
            ground.give_back("host", host.name)


class Restart(Leave):
    """The next version is deployed."""

    name = "restart"
    lasts_s = (AT_ONCE_S,)


def _come_back(ground: Ground, host: Any, ending: ProcessEnding, turns: int) -> None:
    """Its process is gone: by itself, or somebody has killed it, who knows whether it comes back.
    The end of a process counts as one turn."""
    if ending.by_itself or ending.was_too_slow:
        restart(ground, host, False, turns + 1)
