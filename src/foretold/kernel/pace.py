"""Pace: how fast virtual time passes while code runs, and how late a loop is now and then.

Every step and every read of a clock takes a little time. And a loop is late: a rare step takes up
to some milliseconds (a garbage collection, a page fault, a busy neighbour), so that timers and
deliveries that lie close together fall into one batch. Both are choices of the tape; the calm
ones are the smallest, and no slow step.

Never injected here: a slow step so long that a healthy time limit expires by it (`SLOW_NS_MAX`).
"""

from __future__ import annotations

import functools

from foretold.kernel.actors import Actor
from foretold.kernel.clock import VirtualClock
from foretold.kernel.schedulers.profile import UNKNOWN, Profile
from foretold.tape import Slow, Tape
from foretold.tape.streams import TapeRandom

STEP_NS = (1_000, 3_000, 10_000, 40_000)
READ_NS = (1_000, 2_000, 7_000)
SLOW_GAP_STEPS = (0, 1_000, 200, 40, 12)
"""Mean number of steps between two slow ones; 0 means never."""
SLOW_NS_MAX = 8_000_000
SLOW_NS_MIN = 20_000
SLOW_PER_RUN = (0, 0.5, 1, 2, 4)
"""In a short run, if its length is known: so many slow steps in all."""
NEVER = 1 << 62


@functools.lru_cache(maxsize=64)
def _gaps(steps: int) -> tuple[int, ...]:
    """Mean distances of slow steps among which one is drawn, for a run of so many steps."""
    if not steps:
        return SLOW_GAP_STEPS
    wanted = (int(steps / count) + 1 if count else 0 for count in SLOW_PER_RUN)
    return tuple(map(min, SLOW_GAP_STEPS, wanted))


class Pace:
    """Decides what a step costs on one host."""

    def __init__(
        self, host: str, tape: Tape, clock: VirtualClock, profile: Profile = UNKNOWN
    ) -> None:
        self._host = host
        self._tape = tape
        self._clock = clock
        self._generator: TapeRandom | None = None
        self._gap = 0
        self._by_key: dict[tuple[str, int], Slow] = {}
        self._chance_from_ns: int | None = None
        """From when on slow steps are drawn, if the tape is the beginning of a run."""
        if clock.exact or tape.origin == "enumerated":
            return  # enumerated are the choices of the program, not how fast its steps are
        drawn = tape.stream("pace", host)
        clock.step_ns = drawn.pick(STEP_NS, "cost of a step")
        clock.read_ns = drawn.pick(READ_NS, "cost of reading a clock")
        tape.configuration[f"cost of a step on {host}"] = f"{clock.step_ns / 1e3:g} µs"
        if tape.scheduled_by_key:
            self._by_key = {
                (s.actor, s.step): s for s in tape.schedule.slows.values() if s.host == host
            }
            if tape.continuation is not None:
                self._chance_from_ns = tape.continuation.from_ns
                self._generator = TapeRandom(f"{tape.continuation.seed}/pace/{host}")
                self._gap = self._generator.choice(SLOW_GAP_STEPS)
        else:
            self._gap = drawn.pick(_gaps(profile.steps), "steps between slow ones")
            tape.configuration[f"slow steps on {host}"] = (
                f"1 in {self._gap}" if self._gap else "none"
            )
            self._generator = TapeRandom(drawn.choose(1 << 32, "which steps are slow"))

    def steps_until_next(self) -> int:
        """After how many steps `after_step` wants to be asked."""
        if self._by_key or self._chance_from_ns is not None:
            return 1
        if self._generator is None or not self._gap:
            return NEVER
        return 1 + int(self._generator.random() * 2 * self._gap)

    def after_step(self, actor: Actor) -> int:
        """By how many nanoseconds the step just made was slow."""
        if self._chance_from_ns is not None and self._clock.ns >= self._chance_from_ns:
            ns = self._slow_ns() if self._gap and self._by_chance() * self._gap < 1 else 0
        elif self._by_key:
            slow = self._by_key.get((actor.name, actor.steps))
            ns = slow.ns if slow is not None else 0
        elif self._generator is not None and self._chance_from_ns is None:
            ns = self._slow_ns()
        else:
            return 0
        if ns and self._tape.recording:
            self._tape.written.add(Slow(self._host, actor.name, actor.steps, ns))
        self._clock.ns += ns
        return ns

    def _by_chance(self) -> float:
        assert self._generator is not None, "only asked where slow steps are drawn"
        return self._generator.random()

    def _slow_ns(self) -> int:
        """Log-uniform: as many slow steps around 50 µs as around 5 ms."""
        return int(SLOW_NS_MIN * (SLOW_NS_MAX / SLOW_NS_MIN) ** self._by_chance())
