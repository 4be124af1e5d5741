"""What must become true, and what must be true at every instant: without a timer that polls.

    await foretold.eventually(lambda: cluster.leader, within_s=5)
    await foretold.converges(every_entity_has_one_owner, within_s=2)
    with foretold.throughout(lambda: foretold.unique(owners(), things=ENTITIES)): ...

A predicate that waits for nothing is looked at after everything that happens: after each turn of
each host, and after whatever the wire brings. So a condition that holds for one instant is seen,
and the answer comes at the instant at which it is true. One that has to wait (`async def`) is a
program itself, and part of what happens: it is asked again and again, with pauses that grow.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from foretold.arguments import check_number
from foretold.errors import PropertyViolated, UsageError
from foretold.kernel.clock import NS
from foretold.trace import encode
from foretold.world.current import current_world
from foretold.world.hosttask import resolve, wake

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.world import World

PAUSE_S = 0.001
PAUSES = 64
"""The longest pause between two looks at an async predicate is its time divided by this."""


async def eventually(predicate: Callable[[], Any], message: str = "", *, within_s: float) -> Any:
    """Wait until `predicate()` is true, for at most `within_s` virtual seconds; give its value.

    A false value and an AssertionError mean "not yet". If its time is up the run fails, and the
    failure says what was seen last, and since when.
    """
    sight = _Sight(predicate, message, "eventually", within_s)
    if not await sight.until(True, within_s):
        raise sight.failed(f"not so within {within_s:g} s of virtual time")
    return sight.value


async def converges(
    predicate: Callable[[], Any], message: str = "", *, within_s: float, stays_s: float = 1.0
) -> Any:
    """All faults stop (`world.heal()`); within `within_s` virtual seconds `predicate()` becomes
    true, and stays true for `stays_s` from then on.

    A false value and an AssertionError mean "not yet". A condition that is true at one instant and
    false again later has not converged: it counts anew.
    """
    sight = _Sight(predicate, message, "converges", within_s)
    check_number("converges' stays_s", stays_s, at_least=0)
    world = sight.world
    if not world.healed:
        await world.heal()
    deadline_ns = world.outside.now_ns + round(within_s * NS)
    after = f"within {within_s:g} s of virtual time after faults had stopped"
    again = ""
    while await sight.until(True, max(0, deadline_ns - world.outside.now_ns) / NS):
        since_ns = sight.since_ns
        if not stays_s or not await sight.until(False, stays_s):
            return sight.value
        again = f", but only from {_s(world, since_ns)} to {_s(world, sight.since_ns)}"
        if sight.since_ns >= deadline_ns:
            break
    raise sight.failed(f"so {after}{again}" if again else f"not so {after}")


@contextmanager
def throughout(check: Callable[[], Any]) -> Iterator[None]:
    """Within the block, `check()` holds at every instant: after each turn of each host, and after
    whatever the wire brings. It raises, or returns False, if it does not.

        with foretold.throughout(lambda: foretold.unique(owners(), in_flight=moving())):
            ...
    """
    world = current_world()
    given: object = check
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise UsageError(
            f"throughout takes a plain function, which is called at every instant; got {check!r}.\n"
            "  right: with foretold.throughout(lambda: stock >= 0): …"
        )
    found: list[BaseException] = []

    def look(host: Host) -> None:
        error = None if found else _error_of(check)
        if error is not None:
            found.append(error)
            error.add_note(f"foretold: seen at {_s(world, world.outside.now_ns)} on {host.name}")
            world.fail(error, at=host)

    world.outside.watch(look)
    try:
        yield
    finally:
        world.outside.watchers.remove(look)
        if not found and not world.sealed:
            look(world.acting_host)
    if found:
        raise found[0]


def _error_of(check: Callable[[], Any]) -> BaseException | None:
    try:
        if check() is not False:
            return None
        return PropertyViolated(f"{_words(check)}: not so at this instant")
    except Exception as error:
        return error


class _Sight:
    """A predicate, and what was seen of it."""

    def __init__(
        self, predicate: Callable[[], Any], message: str, verb: str, within_s: object
    ) -> None:
        if not callable(predicate):
            raise UsageError(
                f"{verb} takes a function, which is called again and again; got {predicate!r}.\n"
                f"  right: await foretold.{verb}(lambda: cluster.leader, within_s=5)"
            )
        check_number(f"{verb}'s within_s", within_s, above=0)
        self.world: World = current_world()
        self.words = message or _words(predicate)
        self.value: Any = None
        self.since_ns = 0
        """When it was first seen as it was seen last."""
        self._predicate = predicate
        self._seen: tuple[bool, str] | None = None
        self._error: AssertionError | None = None
        self._looks = 0
        self._pause_s = PAUSE_S

    async def until(self, wanted: bool, within_s: float) -> bool:
        """Wait until it is true, or until it is false. False: that did not come in time."""
        found: list[bool | BaseException] = []

        def look() -> bool:
            try:
                answer = self._ask()
                if answer is wanted:
                    found.append(True)
            except BaseException as error:  # a mistake of the predicate: raised where it waits
                found.append(error)
            return bool(found)

        first = self._ask()
        if inspect.isawaitable(first):
            return await self._until_it_says(wanted, within_s, first)
        if first is wanted:
            return True
        await self._happens(look, within_s)
        if not found and not look():
            return False
        if isinstance(found[0], BaseException):
            raise found[0]
        return True

    def _ask(self) -> bool | Awaitable[Any]:
        try:
            value = self._predicate()
        except AssertionError as error:
            return self._saw(error)
        return value if inspect.isawaitable(value) else self._saw(value)

    def _saw(self, value: Any) -> bool:
        self._looks += 1
        self._error = value if isinstance(value, AssertionError) else None
        is_true = self._error is None and bool(value)
        self.value = value if is_true else None
        told = "" if is_true else f"it returned {encode(value)}"
        if self._error is not None:
            told = f"{type(value).__name__}: {value}" if str(value) else type(value).__name__
        if self._seen != (is_true, told):
            self._seen, self.since_ns = (is_true, told), self.world.outside.now_ns
        return is_true

    async def _happens(self, is_it: Callable[[], bool], within_s: float) -> None:
        """Wait until something happens after which `is_it`, or for so long."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        is_known = False

        def look(host: Host) -> None:
            nonlocal is_known
            if not is_known and not over.done() and is_it():
                is_known = True
                wake(over)

        alarm = loop.call_later(within_s, resolve, over)
        outside = self.world.outside
        outside.watch(look)
        try:
            await over
        finally:
            outside.watchers.remove(look)
            alarm.cancel()

    async def _until_it_says(self, wanted: bool, within_s: float, asked: Awaitable[Any]) -> bool:
        deadline_ns = self.world.outside.now_ns + round(within_s * NS)
        while await self._answer(asked) is not wanted:
            left_s = (deadline_ns - self.world.outside.now_ns) / NS
            if left_s <= 0:
                return False
            await asyncio.sleep(min(self._pause_s, left_s))
            self._pause_s = min(2 * self._pause_s, max(PAUSE_S, within_s / PAUSES))
            asked = self._predicate()
        return True

    async def _answer(self, asked: Awaitable[Any]) -> bool:
        try:
            return self._saw(await asked)
        except AssertionError as error:
            return self._saw(error)

    def failed(self, said: str) -> PropertyViolated:
        """The run has failed: what was seen last, and since when."""
        world, seen = self.world, "" if self._seen is None else self._seen[1]
        hint = ""
        if seen == "it returned None":
            hint = "\n  A predicate returns whether it is so: def …(): return stock == 0"
        looks = f"{self._looks} look{'s' * (self._looks != 1)}"
        error = PropertyViolated(
            f"{self.words.rstrip('.')}: {said}.\n  last seen, from {_s(world, self.since_ns)} to "
            f"{_s(world, world.outside.now_ns)} ({looks}): {seen}{hint}"
        )
        error.__cause__ = self._error
        world.fail(error)
        return error


def _s(world: World, ns: int) -> str:
    return f"{round((ns - world.home.kernel.clock.start_ns) / NS, 6):.12g} s"


def _words(function: Callable[..., Any]) -> str:
    """What a function says in its docstring, or its name."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_name == "<lambda>":
        return f"the condition at {PurePath(code.co_filename).name}:{code.co_firstlineno}"
    told = (inspect.getdoc(function) or "") if code is not None else ""
    name = getattr(function, "__name__", type(function).__name__)
    return told.split("\n\n")[0].replace("\n", " ").rstrip(".") or name.replace("_", " ")
