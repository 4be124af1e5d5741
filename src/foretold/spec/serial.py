"""The serial oracle: calls at the same time must end as some serial order of them ends.

    await foretold.serially(pg, lambda: withdraw(60), lambda: withdraw(60))

No invariant is needed. The calls are run one after the other, in each order; then against each
other, statement by statement, in every order of their statements up to a bound; always from the
same beginning. Rows and results must be those of a serial order, but for ids and times
(`alike.py`). A call that was refused or aborted has to have changed nothing: then the others count
alone. That is a call that has raised, or gave a response that refuses it, or whose last transaction
was aborted by the database because of the others. What differs between two tries of the same serial
order is not held against anybody.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any, Final

from foretold.arguments import check_whole
from foretold.errors import NotSerial, PropertyViolated, UsageError
from foretold.spec.alike import (
    Ending,
    Made,
    alike,
    differences,
    ending_of,
    invented,
    renamed,
    shown_result,
    shown_results,
    timeless,
)
from foretold.world.current import current_world
from foretold.world.omens import BOUND, Bound

ORDERS_MAX: Final = 200
PATIENCE_NS: Final = 250_000_000
"""So long, of virtual time, a call waits at the gate for the others to come there."""
QUIET_S: Final = 1.0
NUMBERS_SKIPPED: Final = 1_009
"""So many numbers of each sequence are left out where a serial order is tried a second time."""
NAME_CHARS_MAX: Final = 30
REFUSED: Final = 400
"""Responses with this status or a higher one are refusals."""

Work = Callable[[], Awaitable[Any]]


async def serially(
    pg: Any, *calls: Work, orders: int = ORDERS_MAX, ignore: Collection[str] = ()
) -> int:
    """Run calls against each other on the real database, and compare with every serial order.

    `calls` are async functions without arguments. `orders` bounds how many orders of their
    statements are tried; `ignore` names columns that may differ. Raises `NotSerial` if an order
    ends as no serial order does. Returns how many orders were tried.
    """
    _check(calls)
    check_whole("orders", orders, at_least=1, example=ORDERS_MAX)
    trial = _Trial(pg._gateway, calls, ignore)
    turns, tried = _Turns(), 0
    while tried < orders:
        tried += 1
        ended, failed, schedule = await trial.together(turns.next)
        if not await trial.is_explained(ended, failed):
            raise _violated(await trial.not_serial(ended, schedule))
        if not turns.turn():
            break
    return tried


class _Turns:
    """Every order in turn, as an odometer counts. Time passes between two tries, so that a program
    may do something else then: what does not fit any more is left out, and nothing is claimed."""

    def __init__(self) -> None:
        self._digits: list[list[int]] = []
        self._position = 0

    def next(self, bound: int) -> int:
        """Which of so many goes on."""
        if self._position == len(self._digits):
            self._digits.append([0, bound])
        digit = self._digits[self._position]
        digit[:] = min(digit[0], bound - 1), bound
        self._position += 1
        return digit[0]

    def turn(self) -> bool:
        """Go to the next order; False when all have been."""
        del self._digits[self._position :]
        self._position = 0
        while self._digits:
            self._digits[-1][0] += 1
            if self._digits[-1][0] < self._digits[-1][1]:
                return True
            self._digits.pop()
        return False


async def same(one: Work, other: Work, *, ignore: Collection[str] = ()) -> Any:
    """Two ways that must end alike: a retry and a single call, a batch and its parts, with a
    restart between and without. Both begin with the databases as they are now. Returns what `one`
    gave."""
    _check((one, other))
    databases = list(current_world().services.get("postgres", ()))
    before = [each.moment() for each in databases]
    gave, endings = [], []
    for work in (one, other):
        for database, moment in zip(databases, before, strict=True):
            database.restore(moment)
        result, _ = await _outcome(work)
        await current_world().clock.advance(QUIET_S)
        gave.append(result)
        endings.append(ending_of([result], databases, ignore))
    if not alike(*endings):
        names = ("the first", "the second")
        lines = ["two ways that must end alike do not"]
        lines += [
            f"  {name} gave {shown_result(each.results[0])}"
            for name, each in zip(names, endings, strict=True)
        ]
        lines += [f"  {each}" for each in differences(endings[0], endings[1], names)]
        raise _violated(PropertyViolated("\n".join(lines)))
    return gave[0][1] if gave[0][0] == "gave" else None


def _violated(error: PropertyViolated) -> PropertyViolated:
    current_world().fail(error)
    return error


def _check(calls: Sequence[Any]) -> None:
    for each in calls:
        if inspect.iscoroutine(each):
            each.close()  # or it would be reported as never awaited besides
    for each in calls:
        if inspect.isawaitable(each) or not callable(each):
            raise UsageError(
                f"calls are async functions without arguments, since each is called many times; "
                f"got {each!r}.\n  wrong: serially(pg, withdraw(60), withdraw(60))\n"
                "  right: serially(pg, lambda: withdraw(60), lambda: withdraw(60))"
            )
    if len(calls) < 2:
        raise UsageError("serially needs two calls at least: one alone is in order")


async def _outcome(work: Work) -> tuple[tuple[str, Any], bool]:
    """What came of a call, and whether it has failed."""
    try:
        return ("gave", await work()), False
    except Exception as error:
        code = _sqlstate(error)
        if isinstance(error, UsageError):
            raise
        return ("raised", f"{type(error).__name__} {code}".strip()), True


def is_refusal(given: Any) -> bool:
    """Whether a call gave the response of a service that refused it."""
    status = getattr(given, "status_code", None)
    return isinstance(status, int) and status >= REFUSED


def _sqlstate(error: BaseException | None) -> str:
    """The code of a database's error, whichever driver or ORM it came through."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            found = getattr(error, name, None)
            if isinstance(found, str):
                return found
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__
    return ""


class _Trial:
    """The calls, and how they end in serial orders."""

    def __init__(self, gateway: Any, calls: Sequence[Work], ignore: Collection[str]) -> None:
        self._gateway = gateway
        self._calls = calls
        self._names = [_name(n, work) for n, work in enumerate(calls)]
        self._ignore = ignore
        self._before = gateway.moment()
        self._serial: dict[tuple[tuple[int, ...], bool], Ending] = {}
        self._made: Made = {}
        """The fields that are known to differ in each try."""

    async def in_order(self, order: tuple[int, ...], *, shaken: bool = False) -> Ending:
        """How the calls end one after the other; those that are not in the order do not happen.
        `shaken`: once more, so at another time and with other randomness, and with other numbers
        from sequences."""
        if (order, shaken) not in self._serial:
            self._gateway.restore(self._before)
            if shaken:
                self._gateway.skip_numbers(NUMBERS_SKIPPED)
            results: list[Any] = [None] * len(self._calls)
            for number in order:
                results[number], _ = await _outcome(self._calls[number])
            await self._settle()
            self._serial[order, shaken] = self._ending(results)
        return self._serial[order, shaken]

    async def together(self, choose: Callable[[int], int]) -> tuple[Ending, list[int], list[str]]:
        """How they end against each other; which of them have failed; and in which order their
        statements were executed."""
        self._gateway.restore(self._before)
        parties = [str(number) for number in range(1, len(self._calls) + 1)]
        gate = Turnstile(self._gateway, parties, choose)
        self._gateway.gate = gate
        try:
            each = zip(parties, self._names, self._calls, strict=True)
            done = await asyncio.gather(*(_through(gate, *one) for one in each))
        finally:
            self._gateway.gate = None
        await self._settle()
        failed = [number for number, (_, has_failed) in enumerate(done) if has_failed]
        return self._ending([result for result, _ in done]), failed, gate.schedule

    async def _settle(self) -> None:
        await current_world().clock.advance(QUIET_S)

    def _ending(self, results: Sequence[Any]) -> Ending:
        return ending_of(results, [self._gateway], self._ignore)

    async def is_explained(self, ended: Ending, failed: list[int]) -> bool:
        if await self._fits(ended, failed):
            return True
        forth = tuple(range(len(self._calls)))
        pairs = [
            (await self.in_order(order), await self.in_order(order, shaken=True))
            for order in (forth, forth[::-1])
        ]
        made = invented(pairs)
        if made is None:
            note = (
                "foretold.serially: the same calls in the same serial order end in another way "
                "when they are made again, so the orders of their statements were not compared"
            )
            current_world().home.kernel.notes[note] = None
            return True
        # Each try has its own randomness and its own time: which of them is at work is not known.
        self._made = dict.fromkeys(made)
        return bool(made) and await self._fits(ended, failed)

    async def _fits(self, ended: Ending, failed: list[int]) -> bool:
        ended = renamed(ended, self._made)
        for order in orders_of(len(self._calls), failed):
            serial = renamed(await self.in_order(order), self._made)
            if alike(without(serial, failed), without(ended, failed)):
                return True
            if len(order) == len(self._calls) and alike(serial, ended):
                return True
        return False

    async def not_serial(self, ended: Ending, schedule: list[str]) -> NotSerial:
        known = {
            order: renamed(await self.in_order(order), self._made)
            for order in orders_of(len(self._calls), [])
        }
        found = NotSerial(not_serial(self._names, renamed(ended, self._made), known, schedule))
        found.is_of_tries = True
        return found


def orders_of(calls: int, optional: Collection[int]) -> Iterator[tuple[int, ...]]:
    """All serial orders; where some calls may have been aborted, those without them as well."""
    yield from itertools.permutations(range(calls))
    if optional:
        yield from itertools.permutations([n for n in range(calls) if n not in optional])


def explains(
    together: Ending, optional: Collection[int], serial: Callable[[tuple[int, ...]], Ending]
) -> bool:
    """Whether calls at the same time have ended as in some serial order. The `optional` ones were
    refused or have failed: they may count as not made, or be refused for another reason."""
    calls = len(together.results)
    return any(
        _are_alike(together, serial(order), optional, is_whole=len(order) == calls)
        for order in orders_of(calls, optional)
    )


def _are_alike(
    together: Ending, serial: Ending, optional: Collection[int], *, is_whole: bool
) -> bool:
    left_out = [n for n in optional if not is_whole or serial.results[n][0] != "gave"]
    together, serial = without(together, left_out), without(serial, left_out)
    if not is_whole:  # that somebody was here is noted of a refused call as well
        together, serial = timeless(together, serial)
    return alike(together, serial)


def without(ending: Ending, calls: Collection[int]) -> Ending:
    """An ending in which it does not matter what these calls gave."""
    results = tuple(() if n in calls else row for n, row in enumerate(ending.results))
    return ending._replace(results=results)


def not_serial(
    calls: Sequence[str],
    ended: Ending,
    serial: dict[tuple[int, ...], Ending],
    schedule: Sequence[str] = (),
) -> str:
    """The serial endings, the odd one, and what differs from the nearest."""
    names, lines = _named(calls)
    told = shown_results([ended, *serial.values()])
    lines.append(f"  together: {_results(names, told[0])}")
    alike: dict[str, list[tuple[int, ...]]] = {}
    for order, results in zip(serial, told[1:], strict=True):
        alike.setdefault(_results(names, results), []).append(order)
    for text, orders in alike.items():
        more = f" (and {len(orders) - 1} more orders)" if len(orders) > 1 else ""
        lines.append(f"  {_arrows(names, orders[0])}{more}: {text}")
    nearest = min(serial.values(), key=lambda each: len(list(differences(ended, each, ("", "")))))
    which = next(order for order, each in serial.items() if each is nearest)
    sides = ("together", _arrows(names, which))
    lines += [f"  {each}" for each in differences(ended, nearest, sides)]
    if schedule:
        lines += ["  the statements, in their order:", *(f"    {each}" for each in schedule)]
    return "\n".join(lines)


def _named(calls: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    """What the calls are called from here on, and the first lines, which say that."""
    end = "at the same time end as no serial order of them ends"
    if all(len(each) <= NAME_CHARS_MAX for each in calls) and len(set(calls)) == len(calls):
        return calls, [f"{' and '.join(calls)} {end}"]
    names = [f"call {number}" for number, _ in enumerate(calls, 1)]
    said = [f"  {name}: {each}" for name, each in zip(names, calls, strict=True)]
    return names, [f"{len(calls)} calls {end}", *said]


def _arrows(names: Sequence[str], order: Sequence[int]) -> str:
    return " → ".join(names[n] for n in order)


def _results(names: Sequence[str], results: Sequence[str]) -> str:
    return "; ".join(f"{n}: {each}" for n, each in zip(names, results, strict=True))


def _name(number: int, work: Any) -> str:
    name = getattr(work, "__name__", "")
    plain = name if name and name != "<lambda>" else "call"
    return f"{plain} {number + 1}"


async def _through(
    gate: Turnstile, party: str, name: str, work: Work
) -> tuple[tuple[str, Any], bool]:
    """Make a call whose statements come to the gate."""
    current_world().home.kernel.keep_call(name)
    bound = Bound(frozenset(), party=party)
    token = BOUND.set(bound)
    try:
        ended, has_failed = await _outcome(work)
        return ended, has_failed or bound.is_aborted or is_refusal(ended[1])
    finally:
        BOUND.reset(token)
        gate.leave(party)


class Turnstile:
    """Lets the statements of several calls through one by one, in an order that is chosen."""

    def __init__(
        self, gateway: Any, parties: Collection[str], choose: Callable[[int], int]
    ) -> None:
        self._gateway = gateway
        self._choose = choose
        self._under_way = set(parties)
        self._at: dict[str, list[Any]] = {}
        """Sessions that wait to be let through, by the call that they work for."""
        self._due = False
        self.schedule: list[str] = []

    def leave(self, party: str) -> None:
        self._under_way.discard(party)
        self._look()

    def __call__(self, session: Any) -> bool:
        party = "" if session.bound is None else session.bound.party
        begins = [sql.lstrip()[:5].upper() for sql in session.executes]
        if not party or not begins or all(word in ("BEGIN", "START") for word in begins):
            return False
        self._at.setdefault(party, []).append(session)
        self._gateway.later(PATIENCE_NS, self._let_through, session)
        self._look()
        return True

    def _look(self) -> None:
        """If all who are under way are here, or wait for each other, one may go on."""
        blocked = {s.bound.party for s in self._gateway.waits.blocked if s.bound is not None}
        if self._at and not self._due and self._under_way <= {*self._at, *blocked}:
            self._due = True
            self._gateway.later(0, self._let_through, None)

    def _let_through(self, late: Any) -> None:
        """One of those who are here, as chosen. `late`: only if this one still waits."""
        self._due = self._due and late is not None
        here = {party: [s for s in its if s.doing != "over"] for party, its in self._at.items()}
        self._at = {party: its for party, its in sorted(here.items()) if its}
        if not self._at or (late is not None and not any(late in s for s in self._at.values())):
            return
        parties = list(self._at)
        party = parties[self._choose(len(parties)) if len(parties) > 1 else 0]
        session = self._at[party].pop(0)
        if not self._at[party]:
            del self._at[party]
        self.schedule.append(f"{party}: {'; '.join(session.executes)}")
        session.on_wait = self._look
        self._gateway.carry_out(session)
