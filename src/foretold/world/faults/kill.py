"""Kill: a host's process dies, its kernel closes its sockets; a while later it is started again.

Only hosts that were started with a function can be: a coroutine runs once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnHost, Undo
from foretold.world.faults.nemesis import Ground


class Kill(OnHost):
    """The out-of-memory killer, a deployment."""

    name = "kill"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        host.kill()
        return partial(restart, ground, host)


def restart(ground: Ground, host: Any) -> None:
    """Start a host again that was killed or has crashed, unless the run is over."""
    if not ground.is_over:
        ground.wake(host)
        host.restart()
        ground.world.note_fault(f"restart {host.name}")


KILL = Kill()
