"""Kill: a host's process dies, its kernel closes its sockets; a while later it is started again.

Only hosts that were started with a function can be: a coroutine runs once. Never: one that the test
itself has ended comes back.
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
        for_good = host.ending is not None
        host.kill()
        return partial(restart, ground, host, for_good, host.turns)


def restart(ground: Ground, host: Any, for_good: bool, turns: int) -> None:
    """Start a host again that we have killed or crashed, unless it was on its way out already, the
    test has done something about it since (started it, or ended it for good), or the run is over.
    """
    if not ground.is_over and not for_good and host.turns == turns:
        ground.wake(host)
        host.restart()
