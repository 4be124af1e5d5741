"""Join: a host that stood by (`host.standby(main)`) is started in the middle of the run, and stays.

Autoscaling, a machine that was being repaired. Never: a host that the test has started itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretold.tape import Stream
from foretold.world.faults.kind import Kind
from foretold.world.faults.nemesis import Ground


class Join(Kind):
    name = "join"
    strikes = "host"
    effect = "at once"
    aims = True

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        host = ground.take_standby(choices)
        if host is not None:
            ground.world.note_fault(f"join {host.name}", host.name)
            host.start(host.reserve)
        yield 0.0
