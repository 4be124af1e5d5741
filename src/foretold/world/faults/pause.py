"""Pause: a host's programs stand still for a while; its kernel goes on.

A stopped container, a long garbage collection.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnHost, Undo
from foretold.world.faults.nemesis import Ground


class Pause(OnHost):
    name = "pause"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        host.pause()
        turns = host.turns

        def undo() -> None:
            if host.turns == turns:  # else the test has done something about it
                ground.wake(host)
                host.resume()

        return undo
