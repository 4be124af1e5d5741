"""Crash: a host's power is cut, and it is started again a while later, over what its disk has kept.

No `finally` runs, no FIN is sent, and what was not synced may be lost or torn: see
`world/disk/crash.py`. Only hosts that were started with a function can be: a coroutine runs once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kill import restart
from foretold.world.faults.kind import OnHost, Undo
from foretold.world.faults.nemesis import Ground


class Crash(OnHost):
    """A tripped fuse, a kernel panic, a virtual machine that is taken away."""

    name = "crash"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        for_good = host.ending is not None
        host.crash()
        return partial(restart, ground, host, for_good, host.turns)
