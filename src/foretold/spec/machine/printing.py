"""A run as a short program of the user's own rules.

    orders_1 = actor1.buy(item=0)
    together:
        actor1.cancel(order=orders_1)
        actor2.pay(order=orders_1)  # refused: no such order
    fault: the connection of web to postgres is cut
    the invariant nothing_is_charged_twice failed

Calls stand together if one began before the other had ended. Values that came from a bundle have
the name under which the program made them, here and in the rest of the story. What an initializer
has only put into bundles is the same in every run: of that, what is used is said once, below.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from foretold.trace.content import without_addresses
from foretold.trace.events import Fault

if TYPE_CHECKING:
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course

VALUE_CHARS_MAX = 120
SAID_CHARS_MAX = 100
LINES_MAX = 60
_DEPTH_MAX = 4
ID_CHARS_MIN = 8


def call_text(course: Course, call: Call) -> str:
    """`actor2.buy(item=3)`; without the actor, if there is only one."""
    who = f"{call.who}." if len(course.actors) > 1 else ""
    return f"{who}{call.name}({call.shown or arguments_text(call)})"


def arguments_text(call: Call) -> str:
    """The arguments of a call as a program would give them."""
    names = {id(kept.value): kept.called for kept in call.references}
    return ", ".join(
        f"{name}={_value_text(call.arguments[name], names)}"
        for name in (*call.rule.arguments, *call.rule.prophecies)
        if name in call.arguments
    )


def _value_text(value: Any, names: dict[int, str], depth: int = 0) -> str:
    if names and id(value) in names:
        return names[id(value)]
    if names and depth < _DEPTH_MAX and type(value) in (list, tuple):
        inner = ", ".join(_value_text(each, names, depth + 1) for each in value)
        if type(value) is list:
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return _shortened(_repr(value), VALUE_CHARS_MAX)


def _repr(value: Any) -> str:
    try:
        return without_addresses(repr(value))
    except Exception as broken:
        return f"<{type(value).__name__} whose repr raises {type(broken).__name__}>"


def _shortened(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


# ---------------------------------------------------------------- the program


def program_text(course: Course) -> str:
    """All calls of a run, in order, with the faults between them, and how it ended."""
    faults = [(e.time_ns, e.text) for e in course.world.trace.events if isinstance(e, Fault)]
    lines: list[str] = []
    made = _made(course)
    for group in _together(made):
        first_ns = min(call.began_ns for call in group)
        while faults and faults[0][0] < first_ns:
            lines.append(f"fault: {faults.pop(0)[1]}")
        lines += _group_lines(course, group, faults)
    lines += [f"fault: {text}" for _, text in faults if course.failure is None]
    if course.seen_failing:
        lines.append(course.seen_failing)
    if len(lines) > LINES_MAX:
        head = LINES_MAX // 3
        left_out = len(lines) - LINES_MAX
        lines[head : head + left_out] = [f"… {left_out} lines left out"]
    calls = f"{len(made)} call{'s' * (len(made) != 1)} of {type(course.machine).__name__}'s rules"
    lines = [f"The program, {calls}:", *(f"  {line}" for line in lines)]
    return "\n".join([*lines, *_provided(course, made)])


def _made(course: Course) -> list[Call]:
    return [call for call in course.calls if call.began and not _only_provides(call)]


def calls_in(course: Course) -> list[str]:
    """The same calls, each by itself."""
    return [call_text(course, call) for call in _made(course)]


def _only_provides(call: Call) -> bool:
    """An initializer without arguments that puts things into bundles: it does so in every run."""
    return call.number < 0 and bool(call.handed_over) and not call.rule.arguments


def _provided(course: Course, made: Sequence[Call]) -> Iterable[str]:
    """What of that the program uses."""
    used = {id(kept) for call in made for kept in call.references}
    found = [
        f"{kept.name}, which is {_shortened(_repr(kept.value), VALUE_CHARS_MAX)} ({call.name})"
        for call in course.calls
        if _only_provides(call)
        for kept in call.handed_over
        if id(kept) in used
    ]
    if found:
        yield "There from the beginning, in every run:"
        yield from (f"  {each}" for each in found)


def names_in(course: Course) -> dict[str, str]:
    """For ids that lie in bundles their names there, for those that were given to actors
    `actor1.account`; for tasks the calls, without a number if no other call reads the same."""
    found: dict[str, str] = {}
    for call in course.calls:
        for kept in call.handed_over:
            for text in _ids_of(kept.value):
                found.setdefault(text, kept.called)
    for actor in course.actors:
        for name, value in actor.belongings():
            for text in _ids_of(value):
                found.setdefault(text, f"{actor.name}.{name}")
    tasks = Counter(_who(course, call) for call in course.calls)
    for call in course.calls:
        if tasks[_who(course, call)] == 1:
            found[f"{_who(course, call)}-{call.number}"] = _who(course, call)
    return found


def _who(course: Course, call: Call) -> str:
    return f"{call.actor.name}." * (len(course.actors) > 1) + call.name


def _ids_of(value: Any) -> Iterable[str]:
    """The text of an id: the value itself, or its `id`. Short ones would be found by chance."""
    own = value.get("id") if isinstance(value, dict) else getattr(value, "id", None)
    for each in (value, own):
        text = str(each) if isinstance(each, str | uuid.UUID) else ""
        if len(text) >= ID_CHARS_MIN and " " not in text and any(c.isdigit() for c in text):
            yield text


def _together(calls: Sequence[Call]) -> Iterable[list[Call]]:
    """Calls in the order in which they began, those that overlap in one group."""
    group: list[Call] = []
    end: float = 0
    for call in sorted(calls, key=lambda call: call.began):
        if group and call.began > end:
            yield group
            group, end = [], 0
        group.append(call)
        end = max(end, call.ended or float("inf"))
    if group:
        yield group


def _group_lines(course: Course, group: list[Call], faults: list[tuple[int, str]]) -> Iterable[str]:
    indent = "" if len(group) == 1 else "    "
    if indent:
        yield "together:"
    last_ns = max(call.ended_ns for call in group) if all(c.ended for c in group) else float("inf")
    for call in group:
        while indent and faults and faults[0][0] < call.began_ns:
            yield f"{indent}fault: {faults.pop(0)[1]}"
        yield indent + _line(course, call)
    while faults and faults[0][0] <= last_ns:
        yield f"{indent}fault: {faults.pop(0)[1]}"


def _line(course: Course, call: Call) -> str:
    made = "".join(f"{', '.join(names)} = " for names in call.produced if names)
    said = _outcome(course, call)
    return f"{made}{call_text(course, call)}" + (f"  # {said}" if said else "")


def _outcome(course: Course, call: Call) -> str:
    error = call.error
    if error is not None and error is course.failure:
        return f"fails: {_error_text(error)}"
    if call.outcome == "running":
        return "still under way"
    if error is not None:
        word = {"refused": "refused", "failed": "failed"}.get(call.outcome, "nothing to be done")
        said = str(error) if call.outcome == "refused" else _error_text(error)
        first = _shortened(said.partition("\n")[0], SAID_CHARS_MAX)
        return f"{word}: {first}" if first else word
    if call.result is None or not any(call.produced):
        return ""
    return _shortened(_repr(call.result), SAID_CHARS_MAX)


def _error_text(error: BaseException) -> str:
    said = str(error).strip().partition("\n")[0]
    return _shortened(f"{type(error).__name__}: {said}" if said else type(error).__name__, 120)
