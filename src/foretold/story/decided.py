"""What decides whether a run fails, in words: the end of a story."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foretold.kernel.waiting import innermost_of_package, is_library
from foretold.story.decision import DecidingStep, Decision, Pair
from foretold.story.moments import runs_to
from foretold.story.tale import Side
from foretold.story.words import (
    callback_in_words,
    duration,
    ended_how,
    ordinal,
    short,
    source_line,
)
from foretold.tape import CALLBACKS
from foretold.trace import Place
from foretold.trace.events import Ended, Who
from foretold.world.world import DEFAULT_HOST

FRAMES_MAX = 6
NO_NAMES: Mapping[Who, str] = {}


Names = Mapping[Who, str]
"""What a story calls its tasks, where that is not their own name."""


def decision_text(decision: Decision, names: Names = NO_NAMES) -> str:
    """The critical pair with both stacks; or that there is none, and what is to blame instead;
    empty if that is not known."""
    if decision.times is not None:
        return "\n".join(_time_lines(decision, names))
    if decision.pair is not None:
        head = "These two steps decide it. In this order it fails; the other way round it holds"
        return "\n".join([f"{head} (that was run as well):", *_pair_lines(decision.pair, names)])
    if decision.values is not None:
        fails, holds = decision.values
        return f"A value decides it, not an order: it fails with {fails}, and holds with {holds}."
    if decision.needs_faults:
        return "The faults decide it: without them it holds (that was run as well)."
    if decision.orders_tried:
        if decision.orders_tried == 1:
            return "It also fails in the one other order that was tried."
        return f"It also fails in each of {decision.orders_tried} other orders that were tried."
    return ""  # nothing is known, which is not worth a line


def sides_of(pair: Pair, names: Names = NO_NAMES) -> tuple[Side, Side]:
    """The two steps as data."""
    return _side(pair.first, names), _side(pair.second, names)


def _side(step: DecidingStep, names: Names) -> Side:
    _, actor, count = step.key
    if actor == CALLBACKS:
        return Side("", _callback(step, names), "")
    who = _called(step, names)
    place = step.place or (step.stack[-1] if step.stack else None)
    return Side(who, "starts" if count == 1 else "goes on", short(place))


def _callback(step: DecidingStep, names: Names) -> str:
    called = step.callback
    if called is None or not called.is_timeout:
        return callback_in_words(called, step.key[2])
    of = f" of {_task(called.host, called.whose, names)}" if called.whose else ""
    return f"a timeout{of} expires"


def _called(step: DecidingStep, names: Names) -> str:
    return _task(*step.key[:2], names)


def _task(host: str, actor: str, names: Names) -> str:
    own = actor if host == DEFAULT_HOST else f"{host}/{actor}"
    return names.get((host, actor), own)


def _time_lines(decision: Decision, names: Names) -> Iterator[str]:
    assert decision.times is not None, "asked for where time decides"
    took, less = map(duration, decision.times)
    less = f"one of {less}" if less != took else "a little less"
    said = f"Time decides it: it fails with a delay of {took}, and holds with {less}"
    both = "where these two come the other way round (that was run as well):"
    if decision.expired is not None:
        whose = _task(decision.expired.host, decision.expired.whose, names)
        yield f"{said}."
        said = f"With the longer one a timeout of {whose} expires, with the shorter one it does not"
    if decision.pair is None:
        yield f"{said}."
    else:
        yield f"{said}, {both}"
        yield from _pair_lines(decision.pair, names)


def _pair_lines(pair: Pair, names: Names) -> Iterator[str]:
    yield from _step_lines(1, pair.first, names)
    yield from _step_lines(2, pair.second, names)


def _step_lines(number: int, step: DecidingStep, names: Names) -> Iterator[str]:
    _, actor, count = step.key
    if actor == CALLBACKS:
        yield f"  {number}. {_callback(step, names)}"
        return
    who = _called(step, names)
    verb = "starts" if count == 1 else "goes on"
    if count > 1 and step.leads is not None and _is_in_packages(step):
        # A pool's thread between two jobs: the frames of the pool tell nobody anything.
        text = source_line(step.leads)
        said = f"{verb} in a package, and comes next to {short(step.leads)}"
        yield f"  {number}. {who} ({ordinal(count)} step) {said}" + (f": {text}" if text else "")
        return
    yield f"  {number}. {who} ({ordinal(count)} step) {verb}{_how_far(step)}"
    places = _telling(step.stack)
    for place in places[-FRAMES_MAX:] if count > 1 else ():
        text = source_line(place)
        yield f"       at {short(place)} in {_name(place)}" + (f": {text}" if text else "")


def _how_far(step: DecidingStep) -> str:
    if step.to is None:
        return ", and never again" if step.is_last else ""
    if isinstance(step.to, Ended):
        return f", {ended_how(step.to.outcome)}"
    if (
        step.to.place is not None
        and is_library(step.to.place.file)
        and not _is_librarys(step.place)
    ):
        return ", and leaves the lines of the program"
    far = "" if step.to.place == step.place else runs_to(step.to.place, step.place)
    inside = f" (in {short(step.to.inner)})" if step.to.inner is not None else ""
    return (far or ", is back at this line") + inside


def _is_in_packages(step: DecidingStep) -> bool:
    """None of its lines is the user's own."""
    return bool(step.stack) and all(is_library(place.file) for place in step.stack)


def _is_librarys(place: Place | None) -> bool:
    return place is not None and is_library(place.file)


def _telling(stack: Sequence[Place]) -> list[Place]:
    """The lines of the user's own, and in which line of a package the last of them waits: the bug
    may be the package's."""
    own = [place for place in stack if not is_library(place.file)]
    inner = innermost_of_package(list(stack))
    return [*own, inner] if own and inner is not None else own or list(stack)


def _name(place: Place) -> str:
    """`main.<locals>.alice` is `alice` to whoever wrote it."""
    return place.function.rpartition(".<locals>.")[2]
