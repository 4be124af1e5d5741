"""What an answer tells about a thing stays true until something changes it: `foretold.Mirror`.

    class Board(foretold.Machine):
        tasks = foretold.Mirror(sql="select id, status, owner from tasks")

        @foretold.rule(task=...)
        async def finish(self, actor, task):
            with self.tasks.changing(task) as told:
                told(await self.post(actor, f"/tasks/{task}/finish"))

With `sql`, the rows are read after each commit that may have changed them. An answer must tell of
each thing what its row said at one instant between the request and the answer, so that changes by
others, lost answers and late duplicates raise no false alarm.

Without `sql`, earlier answers are all that is known. A call that may change a thing says so
(`changing`). The mirror then knows nothing of the thing until the call has told what came of it. It
knows nothing either if several calls change the thing at once, or if the outcome of one is unknown:
then it waits until the thing is read again, and until no late copy of a request can come.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from foretold.arguments import check_number
from foretold.errors import PropertyViolated, Refused, UsageError
from foretold.spec.machine.known import Fields, KnownByAnswers, KnownByRows, Source
from foretold.spec.machine.sql import server_of
from foretold.world.world import CALL

if TYPE_CHECKING:
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course
    from foretold.spec.machine.machine import Machine

F = TypeVar("F", bound=Callable[..., Any])

P_PAGE = 0.25
"""So often the page of a thing is read after a call that has told something about it."""
PAGES_MAX = 12
"""So many pages are read at the end of a run; those that were told of last."""
SETTLE_S = 60.0
REPEATS = frozenset({"delivered_twice", "late_duplicate"})
"""Faults after which a request that has succeeded may come once more."""
_STATE = "_foretold_mirrors"


class Mirror:
    """What is known about the things of one kind, as an attribute of a `foretold.Machine`."""

    written = "foretold.Mirror"

    def __init__(
        self,
        *,
        sql: str | None = None,
        key: str = "id",
        host: str | None = None,
        once: Iterable[str] = (),
        settle_s: float = SETTLE_S,
    ) -> None:
        given: object = sql
        if given is not None and (not isinstance(given, str) or not given.strip()):
            raise UsageError(
                'Mirror(sql=…) is a query for all rows, such as "select id, status from tasks"; '
                f"got {sql!r}"
            )
        named: object = key
        if not isinstance(named, str) or not named:
            raise UsageError(f"Mirror(key=…) names the field of the id, such as 'id'; got {key!r}")
        if host is not None and sql is None:
            raise UsageError("host= belongs to sql=: foretold.Mirror(sql=…, host=…)")
        self.once = (once,) if isinstance(once, str) else tuple(once)
        """Columns that do not change any more when they are set."""
        if self.once and sql is None:
            raise UsageError("once= belongs to sql=: foretold.Mirror(sql=…, once=…)")
        check_number("settle_s", settle_s, at_least=0)
        self.sql = (sql or "").strip().rstrip(";")
        self.key = key
        self.host = host or ""
        self.settle_s = settle_s
        self.name = "mirror"
        self.reads = ""
        """The method that reads the page of a thing."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def spoken(self) -> str:
        """In messages."""
        return f"the mirror {self.name}"

    def page(self, function: F) -> F:
        """Decorate the method `(self, actor, key)` that reads the page of one thing: what the page
        tells is compared as well, after some calls and at the end."""
        self.reads = function.__name__
        return function

    @overload
    def __get__(self, machine: None, owner: type) -> Mirror: ...
    @overload
    def __get__(self, machine: Machine, owner: type) -> Reflection: ...
    def __get__(self, machine: Machine | None, owner: type) -> Mirror | Reflection:
        if machine is None:
            return self
        states: dict[str, Reflection] = vars(machine).setdefault(_STATE, {})
        if self.name not in states:
            states[self.name] = Reflection(self, machine)
        return states[self.name]


def watch(course: Course) -> list[Reflection]:
    """The machine is set up: its mirrors are compared from here on."""
    found = [
        each.__get__(course.machine, type(course.machine)) for each in course.blueprint.mirrors
    ]
    for each in found:
        each.begin(course)
    return found


class AskedThing:
    """One request: what its answer tells is compared when it is told."""

    def __init__(self, reflection: Reflection, keys: tuple[str, ...] = ()) -> None:
        self._reflection = reflection
        self.keys = keys
        self.began = reflection.turn
        self.heard: dict[str, Fields | None] = {}
        self.before: dict[str, Fields | None] = {}

    def __call__(self, answer: Any) -> Any:
        """The answer told this: a JSON value. Every object in it that has the key of a known thing
        is compared, at any depth. Gives the answer back."""
        reflection = self._reflection
        if not isinstance(answer, Mapping | list | tuple | str | int | float | None):
            raise UsageError(
                f"{reflection.mirror.spoken} is told JSON, such as told(answer.json()); got "
                f"{answer!r}"
            )
        for thing in reflection.things_in(answer):
            reflection.hear(self, thing, "told")
        return answer

    def made(self, answer: Any) -> Any:
        """The same for an object that was made by this request: it must exist."""
        self._check_thing(answer)
        self._reflection.hear(self, answer, "made")
        return self(answer)

    def sent(self, body: Any, thing: Any) -> Any:
        """The request has sent this body, and `thing`, an object of the answer, is what came of it.
        The fields of the body that the thing has as well must be stored as they were sent; null is
        left out, since it often means "unchanged". Gives the thing back."""
        self._check_thing(thing)
        if not isinstance(body, Mapping):
            raise UsageError(
                f"{self._reflection.mirror.spoken} is told what a request has sent as an object, "
                f"such as told.sent({{'title': 'x'}}, answer.json()); got {body!r}"
            )
        self(thing)
        key = self._reflection.mirror.key
        given = {name: value for name, value in body.items() if value is not None}
        self._reflection.hear(self, {**given, key: thing[key]}, "sent")
        return thing

    def _check_thing(self, thing: Any) -> None:
        mirror = self._reflection.mirror
        if not isinstance(thing, Mapping) or mirror.key not in thing:
            raise UsageError(
                f"{mirror.spoken} was told what a request has made or changed, but that is not an "
                f"object with the field {mirror.key!r}: {thing!r}"
            )


class Reflection:
    """A mirror in one run: `self.tasks` in the methods of a machine."""

    def __init__(self, mirror: Mirror, machine: Machine) -> None:
        self.mirror = mirror
        self._machine = machine
        self._course: Course | None = None
        self._latest: dict[str, str] = {}
        """For each call, the thing that it has told of last."""
        self._told: dict[str, None] = {}
        """The things that were told of, the latest last."""
        self._known: KnownByRows | KnownByAnswers = KnownByAnswers(mirror, lambda: False)

    @property
    def turn(self) -> int:
        """Changes are numbered."""
        return self._known.turn

    def begin(self, course: Course) -> None:
        """Compare from now on."""
        self._course = course
        course.tally.invariant(self.mirror.name, checked=False)
        if self.mirror.sql:
            servers = course.world.services.get("postgres", [])
            server = servers[server_of(self.mirror, servers)]
            report = functools.partial(self._report, course, server.host)
            tables = course.checks.tables_of(server)
            self._known = KnownByRows(self.mirror, server, tables, report)
        else:
            self._known = KnownByAnswers(self.mirror, lambda: _may_repeat(course.world))

    # --- what rules say --------------------------------------------------------------------------

    @contextlib.contextmanager
    def asking(self) -> Iterator[AskedThing]:
        """A request that changes nothing of what this mirror keeps; with `sql`, any request."""
        yield AskedThing(self)

    @contextlib.contextmanager
    def changing(self, *keys: Any) -> Iterator[AskedThing]:
        """A request that may change these things."""
        asked = AskedThing(self, tuple(map(str, keys)))
        self._known.begin(asked)
        is_settled = False
        try:
            yield asked
            is_settled = True
        except Refused:
            asked.heard = dict(asked.before)  # as it was
            is_settled = True
            raise
        finally:
            self._known.end(asked, is_settled)

    # --- comparing -------------------------------------------------------------------------------

    def _report(self, course: Course, host: Any, error: Exception) -> None:
        """A commit has changed what must not change, or made the query unfit."""
        if course.failure is None:
            # Not raised: the server acts here, and no task of the program.
            course.world.fail(error, at=host)
            course.fail(error)

    def hear(self, asked: AskedThing, thing: Fields, source: Source) -> None:
        """An answer has told this about a thing, or its request has sent it."""
        if self._course is None:
            return  # the machine is being set up
        key = str(thing[self.mirror.key])
        told = {name: value for name, value in thing.items() if name != self.mirror.key}
        judged = self._known.judge(asked, key, told, source)
        if judged.wrong:
            said = "sent for" if source == "sent" else "told about"
            error = PropertyViolated(f"what was {said} {self.mirror.name} {key} {judged.wrong}")
            self._course.world.fail(error)
            raise error
        if judged.compared:
            self._course.tally.invariant(self.mirror.name, over=1)
        if judged.compared or key in asked.keys:
            self._latest[CALL.get()] = key
            self._told.pop(key, None)
            self._told[key] = None

    def things_in(self, answer: Any) -> Iterator[Fields]:
        """The objects that may be things of this mirror."""
        return _objects(answer, self.mirror.key, self._known)

    async def look(self, call: Call) -> None:
        """After a call that has told of a thing: perhaps its page is read."""
        key = self._latest.pop(str(call.number), None)
        if key is None or not self.mirror.reads or self._course is None or call.number < 1:
            return
        if self._course.world.tape.stream("mirror", self.mirror.name, call.number).chance(
            P_PAGE, "read its page"
        ):
            await self._read(call.actor, key)

    async def at_end(self) -> None:
        """All calls are over: the pages of what was told of."""
        if self.mirror.reads and self._course is not None:
            for key in list(self._told)[-PAGES_MAX:]:
                await self._read(self._machine.cast[0], key)

    async def _read(self, actor: Any, key: str) -> None:
        """What the page says; who cannot read it just now knows nothing."""
        assert self._course is not None, "asked for by its callers"
        with self.asking() as told:
            try:
                page = getattr(self._machine, self.mirror.reads)(actor, key)
                page = await page if inspect.isawaitable(page) else page
            except Exception as error:
                if isinstance(error, Refused) or self._course.is_tolerated(error):
                    return
                raise
            told(page)


def _may_repeat(world: Any) -> bool:
    """Whether a request of this run may be delivered twice."""
    nemesis = getattr(world, "nemesis", None)
    return nemesis is not None and not REPEATS.isdisjoint(nemesis.drawn)


def _objects(
    value: Any,
    key: str,
    known: KnownByRows | KnownByAnswers,
    outer: frozenset[str] = frozenset(),
) -> Iterator[Fields]:
    """All objects with such a field. `outer`: the known fields of the thing that they are in.

    An object inside a thing may be of another kind, and have the number of a thing by chance: an
    order tells of its owner. It is taken for a thing only if it has all those fields as well.
    """
    if isinstance(value, Mapping):
        if key in value and isinstance(value[key], str | int):
            columns = known.columns()
            names = frozenset(value if columns is None else columns & value.keys())
            if names >= outer:
                yield value
                if known.knows(str(value[key])):
                    outer = names
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            if type(each) not in _LEAVES:
                yield from _objects(each, key, known, outer)


_LEAVES = frozenset((str, int, float, bool, type(None)))
"""Most of what answers tell. Two dozen mirrors may look at each."""
