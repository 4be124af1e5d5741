"""Which calls a rehearsal tries, and which with each other.

Two calls disturb each other if they are about the same thing, and few calls of a large API are. So
the second call of a pair is not drawn like any other. It is one of these:

    twin     the same call again, by another user or by the same one
    other    a call of the same rule by the same user, about whatever: limits count those
    sibling  a call of the same rule by another user, about a thing that came in the same answer:
             the last two open items of one review
    related  a call of another rule about the same thing
    reader   a call that only reads, about the same thing

A run looks at some of the rules, in an order of its tape, and draws each several times: most calls
of a large API are refused, because the thing is in another state or belongs to somebody else.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from foretold.spec.machine.rehearsal import SECONDS, StormNumber

if TYPE_CHECKING:
    from foretold.spec.machine.bundles import Kept
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course
    from foretold.spec.machine.rules import Rule
    from foretold.tape import Stream

STREAM: Final = "machine"
RULES_MAX: Final = 14
"""So many rules a run looks at."""
USERS: Final = (1, 2)
"""How likely a related call is made by the same user, and by another one."""


def twin(number: int, first: Call, user: Any) -> Call:
    """The same call again."""
    arguments = dict(first.arguments)
    if first.rule.wants_actor:
        arguments["actor"] = user
    return type(first)(
        number,
        first.rule,
        user,
        arguments,
        first.fates,
        references=first.references,
        shown=first.shown,
    )


class Pairs:
    """The calls of one run's rehearsal. What others draw, and what comes of them, has no say."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._acts_twice = course.machine.foretold_acts_twice

    @functools.cached_property
    def rules(self) -> list[Rule]:
        """Those that may change something."""
        course, eager = self._course, self._course.machine.foretold_eagerness
        rules = [rule for rule in course.blueprint.rules if course.is_wanted(rule)]
        rules = [rule for rule in rules if eager(rule.name) >= 1] or rules
        return self._stream("rules").shuffle(rules, "which first")[:RULES_MAX]

    def first(self, number: StormNumber) -> Call | None:
        """One rule after the other, and again: what is seldom drawn may be what goes wrong."""
        with self._course.nothing_taken():
            stream = self._stream("first", number.first)
            rule = self.rules[number.first % len(self.rules)]
            return self._made(1, stream, rule, self._anybody(stream))

    def seconds(self, number: StormNumber) -> list[int]:
        """In which order they are tried."""
        return self._stream("seconds", number.first).shuffle(list(range(SECONDS)), "which first")

    def second(self, number: StormNumber, first: Call) -> Call | None:
        """A call to go with the first; None if there is none of that sort."""
        sort, place = number.sort
        stream = self._stream("second", number.first, number.second)
        with self._course.nothing_taken():
            actor = self._anybody(stream, but=first.actor)
            same = sort in ("twin again", "other") or (
                sort == "related" and not stream.weighted(USERS, "by whom")
            )
            if same and not self._acts_twice:
                return None
            call = self._drawn(sort, place, stream, first, first.actor if same else actor)
        if call is not None and same:
            call.actor, call.user = actor, first.actor
        return call

    def reader(self, stream_key: int, user: Any) -> Call | None:
        """A call of this user that changes nothing, if there is one."""
        stream = self._stream("reader", stream_key)
        with self._course.nothing_taken():
            readers = [rule for rule in self._all_rules if rule.name in self._readers]
            calls = (self._made(3, stream, rule, user) for rule in readers)
            return next((call for call in calls if call is not None), None)

    def _drawn(self, sort: str, place: int, stream: Stream, first: Call, user: Any) -> Call | None:
        course = self._course
        if sort in ("twin", "twin again"):
            return twin(course.options.steps + 2, first, user)
        if sort == "other":
            return self._made(2, stream, first.rule, user)
        if sort == "sibling":
            return self._sibling(stream, first, user)
        rules = self._about(first, is_reading=sort == "reader")
        if not rules:
            return None
        with course.near(first.references):
            call = self._made(2, stream, rules[place % len(rules)], user)
        return call if call is not None and things_of(first) & things_of(call) else None

    def _sibling(self, stream: Stream, first: Call, user: Any) -> Call | None:
        beside = self._course.beside(first.references)
        if not beside:
            return None
        with self._course.near(beside):
            return self._made(2, stream, first.rule, user)

    def _about(self, first: Call, *, is_reading: bool) -> list[Rule]:
        """The rules that can be about the same things, in an order of the tape."""
        names = self._course.machine.foretold_about([kept.value for kept in first.references])
        return [
            rule
            for rule in self._all_rules
            if rule.name in names and rule is not first.rule
            if (rule.name in self._readers) == is_reading
        ]

    @functools.cached_property
    def _all_rules(self) -> list[Rule]:
        wanted = [rule for rule in self._course.blueprint.rules if self._course.is_wanted(rule)]
        return self._stream("about").shuffle(wanted, "which first")

    @functools.cached_property
    def _readers(self) -> frozenset[str]:
        return frozenset(self._course.machine.foretold_reads())

    def _made(self, place: int, stream: Stream, rule: Rule, user: Any) -> Call | None:
        course = self._course
        if not course.is_possible(rule, user):
            return None
        return course.make_call(course.options.steps + place, stream, rule, user)

    def _anybody(self, stream: Stream, but: Any = None) -> Any:
        actors = [actor for actor in self._course.actors if actor is not but]
        return actors[stream.choose(len(actors), "actor")]

    def _stream(self, *keys: str | int) -> Stream:
        return self._course.world.tape.stream(STREAM, "storm", *keys)


def things_of(call: Call) -> set[Any]:
    """What it is about: an id may have come from several bundles."""
    references: Sequence[Kept] = call.references
    values = [kept.value for kept in references]
    return {each if isinstance(each, str | int) else id(each) for each in values}
