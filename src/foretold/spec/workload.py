"""What a workload chooses: values from the tape, anywhere in a run. They shrink."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence, Set, Sized
from typing import TYPE_CHECKING, Any, TypeVar

from foretold.arguments import printable
from foretold.errors import RunDiscarded, UsageError
from foretold.kernel.numbers import WITHOUT_ORDER
from foretold.tape import WORKLOAD, Stream
from foretold.trace import encode
from foretold.trace.events import Chose
from foretold.world.current import world_or_none
from foretold.world.omens import BOUND
from foretold.world.world import World

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def _world_for(call: str) -> World:
    world = world_or_none()
    if world is None:
        raise UsageError(
            f"foretold.{call} draws from the tape of a run, and there is no run here. "
            "Call it inside foretold.run, foretold.explore or a @foretold.simulate test."
        )
    return world


def _source(world: World) -> Stream:
    """A call of a storm has choices of its own: they are the same in each order of the calls."""
    bound = BOUND.get()
    party = () if bound is None or not bound.party else (bound.party,)
    return world.tape.stream(WORKLOAD, *party)


def _into_digest(world: World, call: str, label: str | None, value: object) -> None:
    world.trace.note(f"{call} {label or ''} = {encode(value)}")


def _note(world: World, call: str, label: str | None, value: object) -> None:
    _into_digest(world, call, label, value)
    if world.trace.detail:
        world.home.kernel.keep(Chose, label=printable(label or call), value=repr(value))


def choose(options: Sequence[T], label: str | None = None) -> T:
    """One of `options`, by the tape. The first is the calm one."""
    world = _world_for("choose(options)")
    _check_options(options)
    value = _source(world).pick(options, label)
    _note(world, "choose", label, value)
    return value


def choose_unseen(options: Sequence[T], label: str) -> T:
    """The same for foretold itself: its user knows nothing of this choice, so no story tells it.
    What comes of it (a request) is told."""
    world = _world_for("choose(options)")
    value = _source(world).pick(options, label)
    _into_digest(world, "choose", label, value)
    return value


def _check_options(options: object) -> None:
    if isinstance(options, int | float):
        instead = "For a whole number write foretold.between(low, high)."
    elif isinstance(options, Mapping):
        instead = "Write choose(list(options)) for a key, choose(list(options.values())) otherwise."
    elif isinstance(options, Set):
        instead = "A set has no order that is the same in each process: write choose(sorted(…))."
    elif not (isinstance(options, Sized) and hasattr(type(options), "__getitem__")):
        instead = "Write choose(list(…)) if it can be iterated over."
    elif len(options) == 0:
        raise UsageError(
            f"foretold.choose({options!r}) has nothing to choose from: give it one option at least"
        )
    else:
        return
    raise UsageError(
        f"foretold.choose picks from a sequence, such as choose(['a', 'b']); got "
        f"{encode(options)}. {instead}"
    )


def between(low: int, high: int, label: str | None = None) -> int:
    """A whole number from `low` to `high`, both included. `low` is the calm one."""
    world = _world_for("between(low, high)")
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise UsageError(
                f"foretold.between takes whole numbers, got {bound!r}. "
                "For others write foretold.draw(st.floats(low, high))."
            )
    value = _source(world).between(low, high, label)
    _note(world, "between", label, value)
    return value


def draw(strategy: SearchStrategy[T], label: str | None = None) -> T:
    """A value of a Hypothesis strategy, every part of it chosen by the tape."""
    world = _world_for("draw(strategy)")
    from foretold.spec import hypothesis_adapter

    source, shared = _source(world), shared_of(world)
    try:
        value = hypothesis_adapter.draw(strategy, source, label, shared)
    except hypothesis_adapter.StepDiscarded as discarded:
        raise RunDiscarded(str(discarded)) from discarded
    _note(world, "draw", label, value)
    return value


def shared_of(world: World) -> dict[Any, Any]:
    """What all draws of the run have in common; it is tidied up when the run is over."""
    from foretold.spec import hypothesis_adapter

    shared = world.shared
    if hypothesis_adapter.PUT_OFF not in shared:
        shared[hypothesis_adapter.PUT_OFF] = []
        world.at_end.append(lambda: hypothesis_adapter.clean_up(shared))
    return shared


def _refuse_what_cannot_be_awaited(given: Sequence[object]) -> None:
    wrong = [each for each in given if not inspect.isawaitable(each)]
    if not wrong:
        return
    for each in given:
        if inspect.iscoroutine(each):
            each.close()  # or it would be reported as never awaited besides
    raise UsageError(
        f"foretold.together takes coroutines, tasks and futures, each as an argument of its own; "
        f"got {wrong[0]!r}.\n  wrong: together(work), together([work(), work()])\n"
        "  right: together(work(), work()), together(*[work(), work()])"
    )


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """Run all at once; the results in the order of the arguments.

    If some raise, the first exception (in time) is raised as it is, after all have ended. If the
    caller is cancelled, all are.
    """
    _refuse_what_cannot_be_awaited(awaitables)
    finished: list[asyncio.Future[Any]] = []
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    for task in tasks:
        task.add_done_callback(finished.append)
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    # All exceptions are looked at, so that asyncio does not report the others as never retrieved.
    failed = [t for t in finished if t.cancelled() or t.exception() is not None]
    if failed:
        await failed[0]
    return [task.result() for task in tasks]


WITHOUT_ORDER.add(together.__code__)  # the sets that `wait` makes of the tasks are not looked at
