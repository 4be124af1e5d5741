"""The ticket of a restaurant's kitchen: an aggregate whose state is its events.

`apply` builds the state from events; the functions below it decide which events a command gives, or
refuse it. Nothing here waits, reads a clock or talks to anybody.

`foretold.mutant(name)` marks planted mistakes. They are off unless a test switches one on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import foretold

MINUTES = {"steak": 20, "burger": 10}
MINUTES_ELSE = 5
RECEIVED, COOKING, COMPLETED = "RECEIVED", "COOKING", "COMPLETED"
OPEN, CLOSED = "OPEN", "CLOSED"
WORKFLOW = "System:Workflow"

Event = tuple[str, dict[str, Any]]


class Refused(foretold.Refused):
    """A rule of the business says no."""


@dataclass
class Item:
    id: str
    name: str
    course: int
    status: str = RECEIVED


@dataclass
class Ticket:
    id: str
    status: str = OPEN
    version: int = 0
    items: dict[str, Item] = field(default_factory=dict)
    fired: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    commands: set[str] = field(default_factory=set)
    """Which commands have changed it: one that is sent again changes nothing."""

    @property
    def courses(self) -> list[int]:
        return sorted({item.course for item in self.items.values()})

    def of_course(self, course: int) -> list[Item]:
        return [item for item in self.items.values() if item.course == course]

    def is_served(self) -> bool:
        return all(item.status == COMPLETED for item in self.items.values())

    def view(self) -> dict[str, Any]:
        items = [
            {"name": item.name, "course": item.course, "status": item.status}
            for item in self.items.values()
        ]
        return {"id": self.id, "status": self.status, "items": items}


def folded(ticket: str, history: Iterable[tuple[str, dict[str, Any], str]]) -> Ticket:
    """The state that events lead to."""
    state = Ticket(ticket)
    for name, data, command in history:
        apply(state, name, data)
        state.version += 1
        state.commands.add(command)
    return state


def apply(state: Ticket, name: str, data: dict[str, Any]) -> None:
    if name == "TicketCreated":
        for item in data["items"]:
            state.items[item["item"]] = Item(item["item"], item["name"], item["course"])
    elif name == "CourseFired":
        state.fired.append(data["course"])
    elif name == "ItemStarted":
        state.items[data["item"]].status = COOKING
    elif name == "ItemCompleted":
        state.items[data["item"]].status = COMPLETED
        if foretold.mutant("ticket_reopens"):
            state.status = OPEN
    elif name == "CourseDone":
        state.done.append(data["course"])
    elif name == "TicketClosed":
        state.status = CLOSED


# What commands give


def created(ticket: str, courses: Sequence[Sequence[str]]) -> list[Event]:
    if not any(courses):
        raise Refused("an order has one item at least")
    if any(not course for course in courses) and not foretold.mutant("empty_course"):
        raise Refused("a course has one item at least")
    items, number = [], 0
    for course, names in enumerate(courses, 1):
        for name in names:
            number += 1
            items.append({"item": f"{ticket}/{number}", "name": name, "course": course})
    return [("TicketCreated", {"ticket": ticket, "items": items})]


def fired(state: Ticket, course: int, by: str) -> list[Event]:
    _must_exist(state)
    _must_be_open(state)
    if course not in state.courses:
        raise Refused(f"{state.id} has no course {course}")
    if course in state.fired:
        raise Refused(f"course {course} of {state.id} is fired already")
    events: list[Event] = [("CourseFired", {"ticket": state.id, "course": course, "by": by})]
    for item in state.of_course(course):
        minutes = MINUTES.get(item.name, MINUTES_ELSE)
        told = {"ticket": state.id, "item": item.id, "name": item.name}
        events.append(("ItemStarted", {**told, "minutes": minutes}))
    return events


def completed(state: Ticket, item: str) -> list[Event]:
    """By the item's id, or by its name: then the first that is on the fire. The ticket closes with
    its last item."""
    _must_exist(state)
    named = [each for each in state.items.values() if item in (each.id, each.name)]
    if not named:
        raise Refused(f"{state.id} has no {item}")
    on_fire = [each for each in named if each.status == COOKING]
    if foretold.mutant("unstarted_completes"):
        on_fire = [each for each in named if each.status != COMPLETED]
    if foretold.mutant("ticket_reopens") and not on_fire:
        on_fire = named[:1]
    if not on_fire:
        raise Refused(f"{item} of {state.id} is not on the fire")
    chosen = on_fire if foretold.mutant("equal_names_together") else on_fire[:1]
    events: list[Event] = []
    for each in chosen:
        told = {"ticket": state.id, "item": each.id, "name": each.name, "course": each.course}
        events.append(("ItemCompleted", told))
    left = [e for e in state.items.values() if e.status != COMPLETED and e not in chosen]
    if not left and state.status == OPEN:
        events.append(("TicketClosed", {"ticket": state.id}))
    return events


def course_done(state: Ticket, course: int) -> list[Event]:
    """All of a course is served, and nobody has said so yet."""
    over = all(item.status == COMPLETED for item in state.of_course(course))
    if not over or course in state.done:
        return []
    return [("CourseDone", {"ticket": state.id, "course": course})]


def closed(state: Ticket) -> list[Event]:
    _must_exist(state)
    _must_be_open(state)
    if not state.is_served():
        raise Refused(f"{state.id} has items that are not served")
    return [("TicketClosed", {"ticket": state.id})]


def _must_exist(state: Ticket) -> None:
    if not state.version:
        raise Refused(f"there is no {state.id}")


def _must_be_open(state: Ticket) -> None:
    if state.status == CLOSED:
        raise Refused(f"{state.id} is closed")
