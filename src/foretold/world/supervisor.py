"""A supervisor: what systemd or Kubernetes is to the hosts of a world.

It starts a process again that was killed, or whose host has crashed, a while after that. It leaves
alone what the test has stopped (`await host.stop()`), and what has returned. A main that raises
still fails the run: a restart would hide a bug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretold.arguments import check_number
from foretold.kernel.clock import to_ns
from foretold.world.ending import now_ns
from foretold.world.faults.aim import Aim, aim_at

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.world import World


class Supervisor:
    def __init__(self, world: World, names: tuple[str, ...], after_s: float) -> None:
        check_number("supervise's after_s", after_s, at_least=0)
        self._world = world
        self._aim = Aim(aim_at("supervise", *names))
        self._after_ns = to_ns(after_s)

    def was_killed(self, host: Host) -> None:
        """A process is dead, and nobody has started it again yet."""
        if host.programs and self._aim.hits(host.name):
            when_ns = now_ns(self._world) + self._after_ns
            self._world.wire.timer(when_ns, self._restart, host, host.turns)

    def _restart(self, host: Host, turns: int) -> None:
        if host.turns == turns and not self._world.ending:  # else somebody else has
            clock = host.kernel.clock
            clock.ns = max(clock.ns, self._world.wire.now_ns)
            host.restart()
