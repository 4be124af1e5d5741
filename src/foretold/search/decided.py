"""What decides whether a run fails, in words: the end of a story."""

from __future__ import annotations

from collections.abc import Iterator

from foretold.kernel.waiting import is_library
from foretold.search.moments import rounded, runs_to
from foretold.search.pair import Decision, Pair, Step
from foretold.search.words import (
    callback_in_words,
    duration,
    ended_how,
    ordinal,
    short,
    source_line,
)
from foretold.tape import CALLBACKS
from foretold.trace import Place
from foretold.world.world import DEFAULT_HOST

FRAMES_MAX = 6


def decision_text(decision: Decision) -> str:
    """The critical pair with both stacks; or that there is none, and what is to blame instead;
    empty if that is not known."""
    if decision.times is not None:
        return "\n".join(_time_lines(decision))
    if decision.pair is not None:
        head = "These two steps decide it. In this order it fails; the other way round it holds"
        return "\n".join([f"{head} (that was run as well):", *_pair_lines(decision.pair)])
    if decision.values is not None:
        fails, holds = decision.values
        return f"A value decides it, not an order: it fails with {fails}, and holds with {holds}."
    if decision.needs_faults:
        return "The faults decide it: without them it holds (that was run as well)."
    if decision.orders_tried:
        return f"In none of {decision.orders_tried} other orders that were tried does it hold."
    return ""  # nothing is known, which is not worth a line


def _time_lines(decision: Decision) -> Iterator[str]:
    assert decision.times is not None, "asked for where time decides"
    took, less = map(_length, decision.times)
    less = f"one of {less}" if less != took else "a little less"
    said = f"Time decides it: it fails with a delay of {took}, and holds with {less}"
    if decision.pair is None:
        yield f"{said}."
    else:
        yield f"{said}, where these two come the other way round (that was run as well):"
        yield from _pair_lines(decision.pair)


def _pair_lines(pair: Pair) -> Iterator[str]:
    yield from _step_lines(1, pair.first)
    yield from _step_lines(2, pair.second)


def _step_lines(number: int, step: Step) -> Iterator[str]:
    host, actor, count = step.key
    if actor == CALLBACKS:
        yield f"  {number}. {callback_in_words(step.text, count)}"
        return
    who = actor if host == DEFAULT_HOST else f"{host}/{actor}"
    verb = "starts" if count == 1 else "goes on"
    yield f"  {number}. {who} ({ordinal(count)} step) {verb}{_how_far(step)}"
    places = [place for place in step.stack if not is_library(place.file)] or list(step.stack)
    for place in places[-FRAMES_MAX:] if count > 1 else ():
        text = source_line(place)
        yield f"       at {short(place)} in {_name(place)}" + (f": {text}" if text else "")


def _how_far(step: Step) -> str:
    if step.to is None:
        return ", and never again" if step.is_last else ""
    if step.to.kind == "ended":
        return f", {ended_how(step.to.text)}"
    far = "" if step.to.place == step.place else runs_to(step.to.place, step.place)
    return far or ", is back at this line"


def _length(text: str) -> str:
    """How long something took, from what the trace noted about a slow step or a late message."""
    _, _, times = text.partition(": ")
    return duration(int(times.partition(" ns")[0])) if times else rounded(text)


def _name(place: Place) -> str:
    """`main.<locals>.alice` is `alice` to whoever wrote it."""
    return place.function.rpartition(".<locals>.")[2]
