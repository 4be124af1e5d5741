"""The nemesis: which faults a run has, and when they strike. All of it by the tape.

Swarm: a run does not have a little of everything. It draws a few kinds out of those that were asked
for, and bursts in which they strike; other runs draw others. Each kind, and each single
fault, has a stream of its own, so that the shrinker takes away one and shifts none of the others.

A test may be over in a hundredth of a second or go on for a minute. So there are faults of two
sorts: bursts in the first seconds, counted from the begin of the run; and single ones *at the
opening*, on a logarithmic scale from a tenth of a millisecond on, counted from when there is
something to strike: a first word between two hosts, a first host, a first disk in use.

The budget, which keeps a run survivable: at most `AT_A_TIME_MAX` faults at one time, never two that
change the same thing, each over after seconds, `TIMES_MAX` of each kind, `FAULTS_MAX` in a run.
What lies beyond is left out. Inside `world.calm()` the nemesis stands still (what it had broken is
repaired), and after `world.heal()` it is gone.

It is driven by the wire and not by a task: it holds up nothing, and a world that waits for ever is
still found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from foretold.kernel.clock import to_ns
from foretold.tape import Stream, Tape

if TYPE_CHECKING:
    from foretold.world.faults.aim import Aim
    from foretold.world.faults.kind import Kind
    from foretold.world.net.path import Path
    from foretold.world.net.wire import Timer
    from foretold.world.world import World

AT_A_TIME_MAX = 3
TIMES_MAX = 6
FAULTS_MAX = 20
QUIET_RUNS = 1 / 8
KIND_SHARES = (1 / 6, 1 / 3, 2 / 3)
"""With which probability a kind is in a run: few kinds, some, most of them."""
KINDS_MIN = 2
"""So many kinds a run has on average at least, if so many were asked for."""
STRETCHES_S = (1.0, 3.0, 5.0, 10.0, 30.0)
"""Within which time, counted without calm passages, the faults of a run strike."""
MOMENTS = 1_000
BURSTS_MAX = 4
PAIRS = 60
"""A pair is drawn as one of so many, counted round and round."""
AFTER_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5)
"""Faults come in bursts, so many seconds after the burst began: most bugs that need two faults need
them close together, and on the same way."""
OPENING_RUNS = 3 / 4
OPENING_TIMES_MAX = 2
OPENING_S = (0.0, 1e-4, 3e-4, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""So long after the first word faults strike at the opening. A request between two hosts takes one
or two milliseconds; above a second the bursts take over."""


class PlannedStrike(NamedTuple):
    """A fault that is planned, at an instant of the nemesis' own time."""

    at_ns: int
    kind: Kind
    choices: Stream
    opens: bool = False
    """It is one of those at the opening."""


@dataclass(eq=False, slots=True)
class OngoingFault:
    steps: Iterator[float]
    timer: Timer | None = None
    opens: bool = False


@dataclass(slots=True)
class Ground:
    """What a fault can strike, and what is taken already."""

    world: World
    taken: set[tuple[str, Any]] = field(default_factory=set)
    ended: bool = False
    last: tuple[str, str] | None = None
    """Where a fault struck last."""
    aim: Aim | None = None
    """Only this part of it is struck."""
    whole: Ground | None = None
    parts: dict[Aim, Ground] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether the run is over."""
        return (self.whole or self).ended

    def aimed(self, aim: Aim) -> Ground:
        """The part of it that an aim leaves; what is taken there is taken here."""
        if aim not in self.parts:
            self.parts[aim] = Ground(self.world, self.taken, aim=aim, whole=self)
        return self.parts[aim]

    def hits(self, host: Any) -> bool:
        """Whether faults may strike this host."""
        return self.aim is None or self.aim.hits(host.name)

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of hosts that have spoken to each other, in the order in which they began to."""
        spoken = [key for key in self.world.network._paths if key[0] != key[1]]
        pairs = [pair for n, pair in enumerate(spoken) if pair[::-1] not in spoken[:n]]
        return pairs if self.aim is None else [pair for pair in pairs if self.aim.hits_pair(*pair)]

    def paths(self, a: str, b: str) -> list[Path]:
        """The way there, and the way back."""
        return self.world.network._both(a, b)

    def take_pair(
        self, what: str, is_untouched: Callable[[Path], bool], choices: Stream
    ) -> tuple[str, str] | None:
        """One of the pairs for which `what` is as it should be; nobody else gets it meanwhile.

        What is drawn does not depend on other faults: one that is taken away shifts nothing here.
        """
        as_last = choices.boolean("the same pair as last")
        number = choices.choose(PAIRS, "between")
        free = [
            pair
            for pair in self.pairs()
            if (what, pair) not in self.taken and all(map(is_untouched, self.paths(*pair)))
        ]
        if not free:
            return None
        if not as_last or self.last not in free:
            self.last = free[number % len(free)]
        pair = self.last
        assert pair is not None, "it is one of those that are free"
        self.taken.add((what, pair))
        return pair

    def take_host(self, choices: Stream) -> Any:
        """A host that runs, is not the test's own, and can be started again; or None."""
        free = [
            host
            for host in self.world.live_hosts()
            if host.main is not None and not host.paused and ("host", host.name) not in self.taken
            if self.hits(host)
        ]
        if not free:
            return None
        host = choices.pick(free, "host")
        self.taken.add(("host", host.name))
        self.wake(host)
        return host

    def take_standby(self, choices: Stream) -> Any:
        """A host that stands by; or None."""
        free = [host for host in self.world.hosts.values() if host.reserve and self.hits(host)]
        if not free:
            return None
        host = choices.pick(free, "host")
        self.wake(host)
        return host

    def take_disk(self, what: str, choices: Stream) -> Any:
        """A host that uses files and whose disk has no trouble of this sort; or None."""
        free = [
            host
            for host in self.world.hosts.values()
            if host.has_disk and (what, host.name) not in self.taken and self.hits(host)
        ]
        if not free:
            return None
        host = choices.pick(free, "disk of")
        self.taken.add((what, host.name))
        return host

    def give_back(self, what: str, taken: Any) -> None:
        self.taken.discard((what, taken))

    def wake(self, host: Any) -> None:
        """Something happens to this host: its clock is not behind that."""
        clock = host.kernel.clock
        clock.ns = max(clock.ns, self.world.wire.now_ns)

    def unclog(self, a: str, b: str) -> None:
        for path in self.paths(a, b):
            self.world.network.unclog(path)

    def known_names(self) -> list[str]:
        """Names of hosts that somebody has spoken to."""
        names = dict.fromkeys(name.lower() for pair in self.pairs() for name in pair)
        return [name for name in names if self.aim is None or self.aim.hits(name)]


class Nemesis:
    def __init__(self, world: World, kinds: list[Kind]) -> None:
        self.world = world
        self.ground = Ground(world)
        self.planned: list[PlannedStrike] = []
        self.at_opening: list[PlannedStrike] = []
        """Those that count from when there is something to strike."""
        self.occasional: list[str] = []
        """Kinds of this run that wait for no instant."""
        self.timed = [kind for kind in kinds if not kind.on_occasion]
        """Kinds that strike at an instant, whether this run has them or not."""
        self.drawn: set[str] = set()
        """The kinds that this run has."""
        self._plan(kinds)
        self.going_on: list[OngoingFault] = []
        self.struck = 0
        self._timer: Timer | None = None
        self._spent_ns = 0
        """The nemesis' own time: how much has passed outside of calm passages."""
        self._since_ns = 0
        self._stands_still = True

    def go_on(self) -> None:
        """The run begins, or a calm passage is over."""
        self._since_ns = self._now_ns()
        self._stands_still = False
        self._arm()

    def open(self, what: str) -> None:
        """From now on there is something to strike of this sort; later calls change nothing."""
        opened = [strike for strike in self.at_opening if strike.kind.strikes == what]
        if not opened:
            return
        self.at_opening = [strike for strike in self.at_opening if strike.kind.strikes != what]
        passed_ns = 0 if self._stands_still else self._now_ns() - self._since_ns
        own_ns = self._spent_ns + max(0, passed_ns)
        self.planned += [strike._replace(at_ns=own_ns + strike.at_ns) for strike in opened]
        self.planned.sort(key=lambda strike: strike.at_ns)
        if not self._stands_still:
            self._arm()

    def forget_plans(self) -> None:
        """Nothing strikes by itself: somebody else says when (`soon`)."""
        self.planned.clear()
        self.at_opening.clear()
        self._disarm()

    def soon(self, kind: Kind, after_s: float, choices: Stream) -> None:
        """This kind strikes in a while."""
        if self._stands_still:
            return
        own_ns = self._spent_ns + max(0, self._now_ns() - self._since_ns)
        self.planned.append(PlannedStrike(own_ns + to_ns(after_s), kind, choices))
        self.planned.sort(key=lambda strike: strike.at_ns)
        self._arm()

    def on_occasion(self, kinds: Sequence[str]) -> list[str]:
        """Which of these kinds may strike now, for somebody who has an occasion for them."""
        if self._stands_still or self.struck >= FAULTS_MAX:
            return []
        return [kind for kind in kinds if kind in self.occasional]

    def last(self, steps: Iterator[float]) -> None:
        """A fault that struck on its occasion goes on for a while, and is undone like others."""
        self.going_on.append(OngoingFault(steps))
        self._step(self.going_on[-1])

    def stand_still(self) -> None:
        """A calm passage begins: what was broken is repaired, and nothing strikes."""
        self._disarm()
        self._stands_still = True
        self._spent_ns += max(0, self.world.now_ns() - self._since_ns)
        for fault in list(self.going_on):
            self._end(fault)

    def stop(self) -> None:
        """No more faults in this run."""
        self.planned.clear()
        self.at_opening.clear()
        self.stand_still()

    def finish(self) -> None:
        """The run is over: nothing is put right any more that would make something happen."""
        self.ground.ended = True
        self.stop()

    def _now_ns(self) -> int:
        return max(self.world.now_ns(), self.world.wire.now_ns)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.called_off = True
            self._timer = None

    def _arm(self) -> None:
        self._disarm()
        if self.planned:
            when_ns = self._since_ns + max(0, self.planned[0].at_ns - self._spent_ns)
            self._timer = self.world.wire.timer(when_ns, self._strike)

    def _strike(self) -> None:
        strike = self.planned.pop(0)
        if not strike.opens and len(self.going_on) == AT_A_TIME_MAX:
            self._make_room()
        if len(self.going_on) < AT_A_TIME_MAX and self.struck < FAULTS_MAX:
            self.struck += 1
            fault = OngoingFault(
                strike.kind.strike(self.ground, strike.choices), opens=strike.opens
            )
            self.going_on.append(fault)
            noted = self.world.faults_noted
            self._step(fault)
            self._count(strike.kind, noted, fault)
        self._arm()

    def _count(self, kind: Kind, noted: int, fault: OngoingFault) -> None:
        """A strike that found nothing to strike is none. One that waits for its occasion counts,
        and has no effect before that."""
        tally = self.world.tally
        waits = kind.effect == "told" and fault in self.going_on
        if self.world.faults_noted > noted or waits:
            tally.fault(kind.name, "injected")
            if kind.effect != "unknown":
                tally.fault(kind.name, "effect", int(kind.effect == "at once"))

    def _make_room(self) -> None:
        """What is left of the opening ends early for a burst, which is worth more as a whole."""
        for fault in self.going_on:
            if fault.opens:
                self._end(fault)
                return

    def _step(self, fault: OngoingFault) -> None:
        """Let a fault go on to its next stage, or to its end."""
        fault.timer = None
        lasts_s = next(fault.steps, None)
        if not lasts_s:
            self._end(fault)
        else:
            when_ns = self.world.wire.now_ns + to_ns(lasts_s)
            fault.timer = self.world.wire.timer(when_ns, self._step, fault)

    def _end(self, fault: OngoingFault) -> None:
        if fault.timer is not None:
            fault.timer.called_off = True
        self.going_on.remove(fault)
        fault.steps.close()  # type: ignore[attr-defined]  # a generator: its finally repairs

    def _plan(self, kinds: list[Kind]) -> None:
        """Draw what will strike, and when. Whom it strikes is drawn when it does."""
        tape = self.world.tape
        swarm = tape.stream("fault")
        if tape.origin == "enumerated" or not swarm.chance(1 - QUIET_RUNS, "any faults"):
            return
        least = min(1.0, KINDS_MIN / len(kinds))
        share = max(least, swarm.pick(KIND_SHARES, "share of the kinds"))
        stretch_ns = to_ns(swarm.pick(STRETCHES_S, "stretch of time"))
        bursts = [
            stretch_ns * swarm.choose(MOMENTS, "burst") // MOMENTS
            for _ in range(1 + swarm.choose(BURSTS_MAX, "bursts"))
        ]
        opening = swarm.chance(OPENING_RUNS, "faults at the opening")
        for kind in kinds:
            drawn = tape.stream("fault", kind.name).chance(share, f"{kind.name} at all")
            tape.configuration[f"fault {kind.name}"] = "on" if drawn else "off"
            if drawn:
                self.drawn.add(kind.name)
            if drawn and kind.on_occasion:
                self.occasional.append(kind.name)
            elif drawn:
                self.planned += _in_bursts(tape, kind, bursts)
                self.at_opening += _at_opening(tape, kind) if opening else []
        self.planned.sort(key=lambda strike: strike.at_ns)


def _in_bursts(tape: Tape, kind: Kind, bursts: list[int]) -> Iterator[PlannedStrike]:
    for number in range(1, TIMES_MAX + 1):
        choices = tape.stream("fault", kind.name, number)
        if choices.boolean("strikes"):
            after_s = choices.pick(AFTER_S, "after the burst began")
            yield PlannedStrike(choices.pick(bursts, "burst") + to_ns(after_s), kind, choices)


def _at_opening(tape: Tape, kind: Kind) -> Iterator[PlannedStrike]:
    for number in range(1, OPENING_TIMES_MAX + 1):
        choices = tape.stream("fault", kind.name, f"opening {number}")
        if choices.boolean("strikes"):
            at_ns = to_ns(choices.pick(OPENING_S, "after the first word"))
            yield PlannedStrike(at_ns, kind, choices, opens=True)
