"""Pace: how fast virtual time passes while code runs, and how late a loop is now and then.

Every step and every read of a clock takes a little time. And a loop is late: a rare step takes up
to some milliseconds (a garbage collection, a page fault, a busy neighbour), so that timers and
deliveries that lie close together fall into one batch. Both are choices of the tape; the calm
ones are the smallest, and no slow step.

Chance alone seldom makes a step late by just as much as it takes for two timers to meet. But a loop
under load finds several due at once all the time, and a wake-up that meets a cancellation is where
pools and locks break. So in some runs lateness is aimed: the loop sleeps on after what should have
woken it, until something that comes soon after it is there as well. Linux does that too: `epoll`
takes whole milliseconds, and a busy machine wakes nobody on time. Or one of the next steps is slow,
until something that comes soon after it is there as well: then that is in the next batch, behind
what the steps until then have made ready. Threads that wait for a time are woken late as well.

Never injected here: a slow step so long that a healthy time limit expires by it (`SLOW_NS_MAX`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from foretold.kernel.actors import Stepper
from foretold.kernel.audit import Audit, StepAt
from foretold.kernel.clock import VirtualClock
from foretold.kernel.schedulers.profile import UNKNOWN, Profile
from foretold.tape import Slow, Tape
from foretold.tape.schedule import SLOW_NS_MAX
from foretold.tape.streams import TapeRandom

STEP_NS = (1_000, 3_000, 10_000, 40_000)
READ_NS = (1_000, 2_000, 7_000)
SLOW_GAP_STEPS = (0, 1_000, 200, 40, 12)
"""Mean number of steps between two slow ones; 0 means never."""
SLOW_NS_MIN = 20_000
SLOW_PER_RUN = (0, 0.5, 1, 2, 4)
"""In a short run, if its length is known: so many slow steps in all."""
TOGETHER = (0.0, 0.5, *[1.0] * 10)
"""How often the loop wakes late if it meets something by that; drawn once a run. In most runs
it does: without that, pools and locks that break so break in a tenth of the runs only."""
TOGETHER_NS = (2_000_000, 4_000_000, 4_000_000, SLOW_NS_MAX)
"""By how much at most; drawn once a run."""
AWAKE = (0.0, 0.3)
"""In every other run the loop may also be late some steps after it has woken; then it is not late
so often when it wakes. Drawn once a run, if something is known of the program: what is found by the
first run of a search is mostly found by what meets as the loop wakes."""
AWAKE_STEPS = (1, 1, 2, 2, 3, 4, 6, 10)
"""How many steps later."""
NEVER = 1 << 62
Soon = Callable[[int, int], Sequence[int]]
"""How long after an instant further things come, up to a time after it."""


@functools.lru_cache(maxsize=64)
def _gaps(steps: int) -> tuple[int, ...]:
    """Mean distances of slow steps among which one is drawn, for a run of so many steps."""
    if not steps:
        return SLOW_GAP_STEPS
    wanted = (int(steps / count) + 1 if count else 0 for count in SLOW_PER_RUN)
    return tuple(map(min, SLOW_GAP_STEPS, wanted))


class Pace:
    def __init__(
        self, host: str, tape: Tape, clock: VirtualClock, profile: Profile = UNKNOWN
    ) -> None:
        self._host = host
        self._tape = tape
        self._clock = clock
        self._generator: TapeRandom | None = None
        self._gap = 0
        self._by_key: dict[tuple[str, int], Slow] = {}
        self._asleep_by_key: dict[tuple[str, int], Slow] = {}
        self._chance_from_ns: int | None = None
        """From when on slow steps are drawn, if the tape is the beginning of a run."""
        # Not for a seeded tape: it would draw its slow steps at other moments.
        self._audit: Audit | None = tape.audit if tape.scheduled_by_key else None
        self.can_wake_late = False
        """Whether `at_wake` wants to be asked."""
        self._together = self._awake = 0.0
        self._together_ns = 0
        self._aimed: Soon | None = None
        self._last_slow: tuple[str, int] | None = None
        self._last_asked: tuple[str, int] | None = None
        if clock.exact or tape.origin == "enumerated":
            return  # enumerated are the choices of the program, not how fast its steps are
        drawn = tape.stream("pace", host)
        clock.step_ns = drawn.pick(STEP_NS, "cost of a step")
        clock.read_ns = drawn.pick(READ_NS, "cost of reading a clock")
        tape.configuration[f"cost of a step on {host}"] = f"{clock.step_ns / 1e3:g} µs"
        if tape.scheduled_by_key:
            for slow in tape.schedule.slows.values():
                if slow.host == host:
                    entries = self._asleep_by_key if slow.asleep else self._by_key
                    entries[slow.actor, slow.step] = slow
            self.can_wake_late = bool(self._asleep_by_key)
            if tape.continuation is not None:
                self._chance_from_ns = tape.continuation.from_ns
                self._generator = TapeRandom(0)
                self._generator.seed(f"{tape.continuation.seed}/pace/{host}")
                self._gap = self._generator.choice(SLOW_GAP_STEPS)
        else:
            self._gap = drawn.pick(_gaps(profile.steps), "steps between slow ones")
            tape.configuration[f"slow steps on {host}"] = (
                f"1 in {self._gap}" if self._gap else "none"
            )
            self._generator = TapeRandom(drawn.choose(1 << 32, "which steps are slow"))
            aimed = tape.stream("pace", host, "together")
            self._together = aimed.pick(TOGETHER, "how often the loop wakes late")
            self._aim = TapeRandom(aimed.choose(1 << 32, "when it wakes late"))
            self._together_ns = aimed.pick(TOGETHER_NS, "how late it wakes")
            if profile.steps:
                self._awake = aimed.pick(AWAKE, "how often it is late only after it has woken")
            self.can_wake_late = self._together > 0

    def steps_until_next(self) -> int:
        """After how many steps `after_step` wants to be asked."""
        if self._by_key or self._chance_from_ns is not None or self._audit is not None:
            return 1
        if self._generator is None or not self._gap:
            return NEVER
        return 1 + int(self._generator.random() * 2 * self._gap)

    def after_step(self, actor: Stepper) -> int:
        """By how many nanoseconds the step just made was slow."""
        if self._audit is not None:
            self._audit.steps.append(StepAt(self._host, actor.name, actor.steps, self._clock.ns))
        if self._chance_from_ns is not None and self._clock.ns >= self._chance_from_ns:
            ns = self._slow_ns() if self._gap and self._by_chance() * self._gap < 1 else 0
        elif self._by_key:
            slow = self._by_key.get((actor.name, actor.steps))
            ns = slow.ns if slow is not None else 0
        elif self._aimed is not None:
            ns, self._aimed = self._one_of(self._aimed(self._clock.ns, self._together_ns)), None
        elif self._generator is not None and self._chance_from_ns is None:
            ns = self._slow_ns()
        else:
            return 0
        if ns:
            self._write(actor, ns, asleep=False)
            self._clock.ns += ns
        return ns

    def at_wake(self, actor: Stepper, when_ns: int, soon: Soon) -> int:
        """Something wakes the loop at `when_ns`. It has slept since the last step, one of `actor`.
        Returns by how many nanoseconds the loop wakes late. `soon` knows what else comes."""
        key = (actor.name, actor.steps)
        # A sleep is named by the step before it. If nothing was done in between, the name is taken.
        if not actor.steps or key in (self._last_slow, self._last_asked):
            return 0
        self._last_asked = key
        self._aimed = None
        if not self._together:
            slow = self._asleep_by_key.get(key)
            ns = slow.ns if slow is not None else 0
        elif self._aim.random() < self._together:
            ns = self._aim_at(when_ns, soon)
        else:
            ns = 0
        if ns:
            self._write(actor, ns, asleep=True)
        return ns

    def _aim_at(self, when_ns: int, soon: Soon) -> int:
        if self._awake:
            self._aimed = soon
            if self._aim.random() < self._awake:
                return 0
        return self._one_of(soon(when_ns, self._together_ns))

    def _one_of(self, later: Sequence[int]) -> int:
        return later[int(self._aim.random() * len(later))] if later else 0

    def steps_until_aimed(self) -> int:
        """After how many steps from here `after_step` wants to be asked: the loop has just woken,
        and if something comes soon after one of its next steps, that step lasts until then."""
        if self._aimed is None:
            return NEVER
        return AWAKE_STEPS[int(self._aim.random() * len(AWAKE_STEPS))]

    def _write(self, actor: Stepper, ns: int, *, asleep: bool) -> None:
        self._last_slow = (actor.name, actor.steps)
        if self._tape.recording:
            self._tape.written.add(Slow(self._host, actor.name, actor.steps, ns, asleep))

    def _by_chance(self) -> float:
        assert self._generator is not None, "only asked where slow steps are drawn"
        return self._generator.random()

    def _slow_ns(self) -> int:
        """Log-uniform: as many slow steps around 50 µs as around 5 ms."""
        return int(SLOW_NS_MIN * (SLOW_NS_MAX / SLOW_NS_MIN) ** self._by_chance())
