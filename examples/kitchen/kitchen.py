"""The application: commands, and what follows from their events, on one event bus.

    commands      PlaceOrder, StartCooking, StartCourse, CompleteItem, FinishItem, CloseTicket
    projectors    the board (all tickets), one view for each station
    scheduler     an item on the fire completes by the clock, unless the chef was faster
    process       when a course is done, the next one is fired by "System:Workflow"
    mail          when a ticket is closed, its waiter gets a mail

A command reads the events of its ticket, decides, and appends; if somebody else was faster, it
tries again (an optimistic lock). What was appended is then published, in that order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import foretold
from examples.kitchen import tickets
from examples.kitchen.tickets import WORKFLOW, Event, Refused, Ticket, folded
from foretold.harness import SimulationWorld, intent, observer, query
from foretold.harness.bus import Published
from foretold.world.log import CAUSE, CORRELATION

MINUTE_MS = 60_000
TRIES_MAX = 200
MAIL_TRIES_MAX = 8
STATIONS = {"burger": "Grill", "steak": "Grill", "fries": "Fryer", "coke": "Bar"}
Decide = Callable[[Ticket], list[Event]]
History = list[tuple[str, dict[str, Any], str]]


class Conflict(Exception):
    """Somebody else has changed the ticket meanwhile."""


class Store(Protocol):
    async def load(self, ticket: str) -> History: ...
    async def append(
        self, ticket: str, version: int, events: list[Event], command: str
    ) -> None: ...
    async def all_tickets(self) -> list[str]: ...


class Mail(Protocol):
    async def send(self, to: str, subject: str) -> None: ...
    def sent(self) -> list[tuple[str, str]]: ...


class Kitchen:
    """One restaurant."""

    ports: ClassVar[dict[str, type]] = {"store": Store, "mail": Mail}

    def __init__(self, world: SimulationWorld) -> None:
        self.world, self.bus, self.clock = world, world.bus, world.clock
        self.store: Any = world.ports.store
        self.mail: Any = world.ports.mail
        self.board: dict[str, str] = {}
        self.stations: dict[str, list[str]] = {name: [] for name in STATIONS.values()}
        self.timers: dict[str, Any] = {}
        self.waiters: dict[str, str] = {}
        self.published: dict[str, int] = {}
        self.origins: dict[str, tuple[int | None, str]] = {}
        """Which event, and which conversation, a command comes from."""
        for name in ("TicketCreated", "TicketClosed"):
            self.bus.subscribe(name, self._project_board)
        self.bus.subscribe("TicketCreated", self._project_stations)
        self.bus.subscribe("ItemStarted", self._schedule)
        self.bus.subscribe("ItemCompleted", self._call_off)
        self.bus.subscribe("ItemCompleted", self._pace)
        self.bus.subscribe("TicketClosed", self._tell_waiter)

    # Commands

    @intent
    async def PlaceOrder(  # noqa: N802  # as the scenarios call it
        self, actor: str, items: list[str] | None = None, courses: list[list[str]] | None = None
    ) -> str:
        ticket = self.world.ids.next("ticket")
        self.waiters[ticket] = actor
        order = courses if courses is not None else [items or []]
        await self._command("PlaceOrder", ticket, lambda state: tickets.created(ticket, order))
        return ticket

    @intent(cap="cook")
    async def StartCooking(self, actor: str, ticket: str) -> None:  # noqa: N802  # as above
        await self._command("StartCooking", ticket, lambda state: tickets.fired(state, 1, actor))

    @intent(cap="cook")
    async def StartCourse(self, actor: str, ticket: str, course: int) -> None:  # noqa: N802  # as above
        await self._command(
            "StartCourse", ticket, lambda state: tickets.fired(state, course, actor)
        )

    @intent(cap="cook")
    async def CompleteItem(self, ticket: str, item: str) -> None:  # noqa: N802  # as above
        await self._command("CompleteItem", ticket, lambda state: tickets.completed(state, item))

    @intent(cap="cook")
    async def FinishItem(self, ticket: str, item: str) -> None:  # noqa: N802  # as above
        await self._command("FinishItem", ticket, lambda state: tickets.completed(state, item))

    @intent(cap="close")
    async def CloseTicket(self, ticket: str) -> None:  # noqa: N802  # as above
        await self._command("CloseTicket", ticket, tickets.closed)

    async def _command(self, name: str, ticket: str, decide: Decide) -> None:
        try:
            await self.change(ticket, decide)
        except Refused as refused:
            foretold.event("RuleViolated", intent=name, ticket=ticket, why=str(refused))
            if not foretold.mutant("runner_swallows"):
                raise
        if foretold.mutant("settle_jumps"):
            await self.clock.run_until_idle()

    async def change(self, ticket: str, decide: Decide) -> None:
        """Decide on what the ticket is now, append, publish. Try again if it was another one by
        then, or if nobody knows whether the store has got it."""
        command = self.world.ids.next("command")
        self.origins[command] = (CAUSE.get(), CORRELATION.get())
        for tried in range(TRIES_MAX):
            try:
                state = folded(ticket, await self.store.load(ticket))
                if command not in state.commands and (events := decide(state)):
                    await self.store.append(ticket, state.version, events, command)
                await self._publish(ticket)
                return
            except (Conflict, ConnectionError):
                await asyncio.sleep(min(tried, 10) / 1_000)
        raise Refused(f"{ticket} is changed all the time")

    async def _publish(self, ticket: str) -> None:
        """The outbox: whoever comes by publishes what was appended and is not published yet, in the
        order of the store. Its own answer may have overtaken that of an earlier command."""
        history = await self.store.load(ticket)
        new = history[self.published.get(ticket, 0) :]
        self.published[ticket] = max(len(history), self.published.get(ticket, 0))
        await self.bus.deliver(
            [Published(name, data, *self.origins[command]) for name, data, command in new]
        )

    # Queries

    @query
    async def GetTicket(self, ticket: str) -> dict[str, Any]:  # noqa: N802  # as above
        state = folded(ticket, await self.store.load(ticket))
        if not state.version:
            raise Refused(f"there is no {ticket}")
        return state.view()

    @query
    async def GetTicketStatus(self, ticket: str) -> str:  # noqa: N802  # as above
        return str((await self.GetTicket(ticket))["status"])

    @query
    def StationView(self, station: str) -> list[str]:  # noqa: N802  # as above
        return list(self.stations.get(station, []))

    @query
    def Board(self) -> dict[str, str]:  # noqa: N802  # as above
        return dict(self.board)

    @query
    def Mails(self) -> list[str]:  # noqa: N802  # as above
        return sorted({subject for _, subject in self.mail.sent()})

    async def inspect_state(self, entity: str) -> Ticket:
        return folded(entity, await self.store.load(entity))

    # What follows from events

    def _project_board(self, event: Published) -> None:
        closes = event.name == "TicketClosed"
        self.board[event.data["ticket"]] = tickets.CLOSED if closes else tickets.OPEN

    def _project_stations(self, event: Published) -> None:
        for item in event.data["items"]:
            if item["name"] in STATIONS:
                self.stations[STATIONS[item["name"]]].append(item["name"])

    def _schedule(self, event: Published) -> None:
        ticket, item = event.data["ticket"], event.data["item"]

        async def complete() -> None:
            self.timers.pop(item, None)
            await self.change(ticket, lambda state: _if_cooking(state, item))

        self.timers[item] = self.clock.schedule(complete, event.data["minutes"] * MINUTE_MS)

    def _call_off(self, event: Published) -> None:
        timer = self.timers.pop(event.data["item"], None)
        if timer is not None:
            timer.cancel()

    async def _pace(self, event: Published) -> None:
        ticket, course = event.data["ticket"], event.data["course"]
        await self.change(ticket, lambda state: self._next_course(state, course))

    def _next_course(self, state: Ticket, course: int) -> list[Event]:
        done = tickets.course_done(state, course)
        if not done or course + 1 not in state.courses or course + 1 in state.fired:
            return done
        return [*done, *tickets.fired(state, course + 1, WORKFLOW)]

    async def _tell_waiter(self, event: Published) -> None:
        ticket = event.data["ticket"]
        for tried in range(MAIL_TRIES_MAX):
            try:
                await self.mail.send(self.waiters.get(ticket, "expo"), f"{ticket} is served")
                return
            except OSError:
                if foretold.mutant("mail_not_retried"):
                    return
                await asyncio.sleep(0.1 * (tried + 1))

    # What must hold whenever nobody is at work

    @observer
    async def the_board_is_what_the_events_say(self) -> None:
        said = {}
        for ticket in await self.store.all_tickets():
            history = await self.store.load(ticket)
            state = folded(ticket, history)
            said[ticket] = state.status
            assert state.status == tickets.OPEN or state.is_served(), f"{ticket} closed too early"
            completed = [data["item"] for name, data, _ in history if name == "ItemCompleted"]
            assert len(completed) == len(set(completed)), f"{ticket} has an item completed twice"
            assert state.courses == list(range(1, len(state.courses) + 1)), f"{ticket} has a gap"
        assert self.board == said

    @observer
    async def the_log_is_what_was_appended(self) -> None:
        for ticket in self.board:
            appended = [name for name, _, _ in await self.store.load(ticket)]
            told = [e.name for e in self.world.log if e.data.get("ticket") == ticket]
            assert [name for name in told if name != "RuleViolated"] == appended


def _if_cooking(state: Ticket, item: str) -> list[Event]:
    """The chef may have been faster than the clock."""
    cooking = state.items[item].status == tickets.COOKING
    return tickets.completed(state, item) if cooking else []
