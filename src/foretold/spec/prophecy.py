"""`foretold.Prophecy`: somebody else's decision, named, and made before the call that it decides.

    answer = foretold.Prophecy(
        "answer", ok=None, lost="request_lost", lost_after="response_lost", late="response_late"
    )

    @foretold.rule(username=names, fate=answer)
    async def create_user(self, username, fate): ...

Which outcome it is, is drawn with the arguments of the call, from a stream of its own; the first is
the calm one. The outcome configures the real world: the request really is lost, the query really is
cancelled. The rule gets its name, and so does the model's method of the same name; a refinement
mapping sees it, too.

It is strict. A system error that was not foretold fails the run (`Unforeseen`), and so does a
prophecy that did not come true before its call was over (`Unfulfilled`). Which faults can be
foretold, and which never: `world/omens.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from foretold.arguments import known_words
from foretold.errors import PropertyViolated, Unforeseen, Unfulfilled, UsageError
from foretold.spec.machine.calls import Call
from foretold.spec.machine.course import COMPANIONS, Companion, Course
from foretold.world.current import current_world
from foretold.world.faults import FaultSet
from foretold.world.omens import BOUND, KINDS, Bound, Omen

if TYPE_CHECKING:
    from contextvars import Token

    from foretold.tape import Stream
    from foretold.world.tally import Tally

STREAM: Final = "prophecy"
RIGHT: Final = 'foretold.Prophecy("answer", ok=None, lost="request_lost", cut="response_lost")'


class Prophecy:
    """How something that others decide will end, known before it begins."""

    def __init__(self, name: str, /, **outcomes: str | FaultSet | None) -> None:
        given: Any = name
        if not isinstance(given, str) or not given:
            raise UsageError(f"a prophecy has a name; got {name!r}.\n  right: {RIGHT}")
        self.name = name
        self.outcomes: dict[str, str | None] = {
            outcome: _kind(name, outcome, given) for outcome, given in outcomes.items()
        }
        if len(outcomes) < 2 or next(iter(self.outcomes.values())) is not None:
            raise UsageError(
                f"the prophecy {name!r} needs two outcomes at least, of which the first is the "
                f"calm one, where nothing happens: None.\n  right: {RIGHT}"
            )
        self._aim = ""

    def __repr__(self) -> str:
        return f"<prophecy {self.name}: {', '.join(self.outcomes)}>"

    def on(self, text: str) -> Prophecy:
        """The same, for those requests (`"POST /users"`) or statements of SQL alone that contain
        the text. Otherwise it comes true at the first that the call makes."""
        given: Any = text
        if not isinstance(given, str) or not given:
            raise UsageError(
                f"on({text!r}): a prophecy is aimed at a text.\n"
                f'  right: {self.name}.on("POST /users"), or {self.name}.on("insert into account")'
            )
        aimed = copy.copy(self)
        aimed._aim = text
        return aimed

    @property
    def calm(self) -> str:
        return next(iter(self.outcomes))

    @contextmanager
    def foretell(self, outcome: str | None = None) -> Iterator[str]:
        """Draw an outcome from the tape, or take the one that is given, for all that is done
        within. For tests without a machine:

            with answer.foretell() as fate:
                await client.create_user("ada")
        """
        world = current_world()
        stream = world.tape.stream(STREAM)
        fate = self.draw(stream) if outcome is None else self._checked(outcome)
        bound = bound_for(world, {self.name: self}, {self.name: fate})
        token = BOUND.set(bound)
        try:
            yield fate
        finally:
            BOUND.reset(token)
        complaint = judged(bound, f"foretell({fate!r})")
        if complaint is not None:
            world.fail(complaint)
            raise complaint

    def draw(self, stream: Stream) -> str:
        """One of the outcomes. Seeded tapes take the calm one in half of the cases."""
        names = list(self.outcomes)
        weights = [len(names) - 1, *[1] * (len(names) - 1)]
        return names[stream.weighted(weights, self.name)]

    def declare(self, tally: Tally) -> None:
        """Each outcome stands in the table of faults, drawn or not."""
        for outcome, kind in self.outcomes.items():
            if kind is not None:
                tally.fault(f"{STREAM} {self.name}: {outcome}", "effect", 0)

    def omen(self, outcome: str) -> Omen | None:
        """What has to come true; None if nothing is to happen."""
        kind = self.outcomes[outcome]
        return None if kind is None else Omen(self.name, outcome, kind, self._aim)

    def _checked(self, outcome: str) -> str:
        if outcome not in self.outcomes:
            known = known_words(outcome, self.outcomes)
            raise UsageError(
                f"the prophecy {self.name!r} has no outcome {outcome!r}; it has {known}"
            )
        return outcome


def _kind(name: str, outcome: str, given: Any) -> str | None:
    """The kind of fault that an outcome stands for."""
    if isinstance(given, FaultSet) and len(given) == 1:
        given = next(iter(given))
    if given is None or given in KINDS:
        return None if given is None else str(given)
    raise UsageError(
        f"the prophecy {name!r}: the outcome {outcome!r} is None, or a fault that can strike one "
        f"call; got {given!r}. There are {known_words(given, KINDS)}\n  right: {RIGHT}"
    )


def bound_for(world: Any, prophecies: Mapping[str, Prophecy], fates: Mapping[str, str]) -> Bound:
    """What is foretold for one call."""
    sorts = {KINDS[k] for p in prophecies.values() for k in p.outcomes.values() if k is not None}
    bound = Bound.within(BOUND.get(), frozenset(sorts))
    for parameter, prophecy in prophecies.items():
        prophecy.declare(world.tally)
        omen = prophecy.omen(fates[parameter])
        if omen is not None:
            row = f"{STREAM} {prophecy.name}: {omen.outcome}"
            world.tally.fault(row, "injected")
            omen.on_true = lambda row=row: world.tally.fault(row, "effect")
            bound.omens.append(omen)
    return bound


def judged(bound: Bound, call: str) -> PropertyViolated | None:
    """The call is over. What is wrong with what was foretold for it, if anything is."""
    if bound.unforeseen:
        return unforeseen(call, bound.unforeseen[0], bound.omens)
    if bound.pending:
        told = " and ".join(map(str, bound.pending))
        lines = [f"{call} was over, and what was foretold for it had not come true: {told}"]
        if came_true := [each for each in bound.omens if each.came_true]:
            lines += [
                f"{' and '.join(map(str, came_true))} did, and may have left no room for it.",
                "  right: one prophecy with all outcomes, of which each call gets one: "
                'foretold.Prophecy("fate", ok=None, lost="request_lost", cancelled="db_cancelled")',
            ]
        return Unfulfilled("\n".join(lines))
    return None


def unforeseen(call: str, what: str, omens: list[Omen]) -> Unforeseen:
    """A system error that nothing had foretold."""
    told = " and ".join(map(str, omens)) if omens else "nothing"
    return Unforeseen(f"{call}: {what}, which was not foretold ({told} was)")


class Prophet(Companion):
    """Binds what is foretold to each call of a machine, and judges when the call is over."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._bound: dict[int, tuple[Bound, Token[Bound | None]]] = {}
        self._stutters_left = course.machine.stutters
        for rule in course.blueprint.all_rules:
            for prophecy in rule.prophecies.values():
                prophecy.declare(course.tally)

    def began(self, call: Call) -> None:
        if call.rule.prophecies:
            bound = bound_for(self._course.world, call.rule.prophecies, call.fates)
            self._bound[call.began] = bound, BOUND.set(bound)

    def returned(self, call: Call) -> None:
        found = self._bound.pop(call.began, None)
        if found is None:
            return
        bound, token = found
        BOUND.reset(token)
        if call.outcome == "discarded":
            return
        about = f"{call.actor.name}.{call.name}"
        complaint = judged(bound, about)
        struck = any(each.came_true for each in bound.omens)
        if complaint is None and call.outcome == "failed" and not struck:
            what = f"it raised {type(call.error).__name__}: {call.error}".removesuffix(": ")
            complaint = unforeseen(about, what, bound.omens)
        if isinstance(complaint, Unforeseen) and self._may_stutter(call):
            return
        if complaint is not None:
            self._course.fail(complaint, "judged by its prophecy")
            raise complaint

    def _may_stutter(self, call: Call) -> bool:
        """Whether the run may have one more system error that was not foretold. It is counted."""
        self._stutters_left -= 1
        if self._stutters_left < 0:
            return False
        self._course.tally.fault(f"stutter of {call.name}", "injected")
        call.stuttered = True
        return True

    async def quiet(self) -> None: ...

    async def end(self) -> None: ...


def _companion(course: Course) -> Companion | None:
    rules = course.blueprint.all_rules
    return Prophet(course) if any(rule.prophecies for rule in rules) else None


COMPANIONS.insert(0, _companion)  # before the model, which compares what was judged here
