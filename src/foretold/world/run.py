"""One run: from a tape to a verdict."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import inspect
import math
import os
import sys
import typing
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, overload

from foretold.arguments import nearest, signature_of
from foretold.errors import BackgroundFailure, ForetoldError, HostDied, RunDiscarded, UsageError
from foretold.kernel.branches import Branches
from foretold.kernel.clock import to_ns
from foretold.kernel.interrupt import interrupts
from foretold.kernel.loop import WorldLoop
from foretold.kernel.numbers import numbers
from foretold.kernel.patches import patches
from foretold.kernel.policy import WorldPolicy, current_policy, set_policy
from foretold.kernel.reach import Feature, Reach
from foretold.kernel.schedulers.profile import Profile
from foretold.kernel.session import begin_run, note_failure, session
from foretold.kernel.threads import executors
from foretold.kernel.threads.ending import end_strands, end_threads, join_threads
from foretold.kernel.threads.stacks import note_failed_main
from foretold.kernel.watchdog import RunCut, watchdog
from foretold.platforms import unwarned
from foretold.tape import Tape, load
from foretold.trace import encode
from foretold.trace.record import Trace
from foretold.world.current import enter, leave, world_or_none
from foretold.world.ending import (
    GRACE_S,
    begin_ending_all,
    end_all,
    now_ns,
    report_raised,
    report_started_too_late,
    report_unseen,
)
from foretold.world.faults import FaultSet
from foretold.world.programs import program_of
from foretold.world.settings import Settings
from foretold.world.standing import standing, watch_over
from foretold.world.takedown import close_loops, take_down
from foretold.world.tally import Tally
from foretold.world.world import World

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import TypeVar

    from foretold.keywords import OneRun, Own
    from foretold.spec.machine.machine import Machine

    T = TypeVar("T", default=Any)
else:
    T = typing.TypeVar("T")  # Python 3.11 and 3.12 know no default

Main = Callable[..., Any]
JUDGE = "foretold_judge"
"""An attribute of a main: a function of a tape and its settings that is called before the run, and
gives the judge of it. That one has `verdict`, a function of a run that held, and of a function that
makes another run which is watched in the same way. It may make runs to compare with, and gives the
run that counts, with what is wrong with it. `close` is called in any case."""


@dataclass(slots=True)
class Run(Generic[T]):
    """What one run gave."""

    value: T
    """What its main has returned."""
    tape: Tape
    trace: Trace
    virtual_s: float
    steps: int
    choices: int
    """How many choices could matter, on all hosts. 0: another tape could not change this run."""
    error: BaseException | None = None
    path: str = ""
    """A digest of what happened without its times, if the search wanted to know."""
    discarded: str = ""
    """Why the run says nothing: a strategy gave no value."""
    broken_holds: int = 0
    """Holds of the tape that ended before what they waited for had happened."""
    reached: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    """`sometimes` points that were passed but never true."""
    threads_left: tuple[str, ...] = ()
    """Daemon threads that had not ended when their process did: name, file and line."""
    notes: list[str] = field(default_factory=list)
    """What is no failure and deserves a look all the same; such threads are among it."""
    features: set[Feature] = field(default_factory=set)
    """What the run reached, if that was asked for (`kernel/reach.py`)."""
    calls: Sequence[str] | None = None
    """The calls of rules that a machine has made, of a run with detail; None if there is none."""
    opening: str = ""
    """What goes first in its story, if it was run in detail."""
    names: dict[str, str] | None = None
    """How the story calls ids and tasks, if it was run in detail by a machine."""
    profile: Profile | None = None
    """How long the run was and who did how much, if the search wanted to know."""
    tally: Tally = field(default_factory=Tally)
    """How often each rule, invariant and fault came to something."""
    first_only: bool = False
    """Of a replay: it failed as the first run of the process, and the same tape held after it."""

    @property
    def digest(self) -> str:
        return self.trace.digest


@overload
def run(main: type[Machine], **settings: Unpack[OneRun]) -> Run[None]: ...
@overload
def run(main: Callable[..., Coroutine[Any, Any, T]], **settings: Unpack[OneRun]) -> Run[T]: ...
@overload
def run(main: Callable[..., T], **settings: Unpack[OneRun]) -> Run[T]: ...
def run(
    main: Main,
    *,
    seed: int = 0,
    tape: Tape | str | os.PathLike[str] | None = None,
    order: str | None = None,
    strategy: str | None = None,
    faults: FaultSet | str | None = None,
    preempt: str | Sequence[str] | None = None,
    exact_time: bool | None = None,
    epoch_s: float | None = None,
    monotonic_s: float | None = None,
    background_errors: str | None = None,
    steps_max: int | None = None,
    virtual_s_max: float | None = None,
    wall_s_max: float | None = None,
    **own: Unpack[Own],
) -> Run:
    """Run `main` once in a world of its own and return what it gave; raises what it raises.

    `main` is an async or a plain function that takes no argument, or the world; or a
    `foretold.Machine`, which takes `steps`, `actors` and `weights` besides. The run is a
    function of `seed` (or of `tape`, a tape or the path of its file) and the code alone. `faults`
    says which faults foretold may inject: `foretold.faults.network`, for instance.
    `main` runs once. The first run of a process is cold (caches are empty, modules are not imported
    yet), while searches and replays count warm runs. With
    `preempt="lines"` threads may be interrupted between any two lines of your own code, with
    `preempt=["shop"]` between those of the modules named; without it, at locks and waits.
    """
    changes = {
        "order": order,
        "strategy": strategy,
        "faults": faults,
        "preempt": preempt,
        "exact_time": exact_time,
        "epoch_s": epoch_s,
        "monotonic_s": monotonic_s,
        "background_errors": background_errors,
        "steps_max": steps_max,
        "virtual_s_max": virtual_s_max,
        "wall_s_max": wall_s_max,
        **own,
    }
    changes = settings_for(main, changes, run)
    if tape is None:
        settings = Settings().with_changes(**changes)
        read = Tape.seeded(seed, settings.on_tape())
    else:
        read = tape_given(tape, "foretold.run(main, tape=tape)").fresh()
        settings = Settings.from_tape(read.settings).with_changes(**changes)
        read.settings = settings.on_tape()
    done = execute(bind_main(main), read, settings)
    if done.error is not None:
        raise done.error
    if done.discarded:
        raise RunDiscarded(done.discarded)
    return done


def tape_given(tape: object, call: str) -> Tape:
    """The tape itself, where a `Tape` or the path of a tape file is welcome."""
    if isinstance(tape, str | os.PathLike):
        return load(tape).tape
    if isinstance(tape, Tape):
        return tape
    raise UsageError(
        f"{call} takes a Tape, such as failure.tape, or the path of a tape file; got {tape!r}"
    )


def settings_for(
    main: Main, given: Mapping[str, Any], caller: Callable[..., Any]
) -> dict[str, Any]:
    """Settings for the runs of `main`: one that has settings of its own (a machine) adds them.
    `caller` is the function of foretold that they were given to."""
    own = getattr(main, "foretold_settings", None)
    settings = dict(given) if own is None else own(given)
    known = [each.name for each in fields(Settings)]
    for name in settings:
        if name not in known:
            meant = nearest(name, (*known, *inspect.signature(caller).parameters))
            said = f"foretold.{caller.__name__} does not know the setting {name!r}.{meant}"
            raise UsageError(said)
    return settings


def bind_main(main: Main) -> Callable[[World], Any]:
    """`main` as a function of the world, whether it wants the world or not."""
    given: Any = program_of(main)
    main = given
    if hasattr(given, "foretold_target"):  # it knows itself how it is run: a machine
        target: Callable[[World], Any] = given.foretold_target()
        return target
    if inspect.iscoroutine(given):
        given.close()
        raise UsageError(
            "foretold.run needs the function, not what it returns: it is called once for each "
            "run.\n  wrong: foretold.run(main())\n  right: foretold.run(main)"
        )
    if not callable(main):
        raise UsageError(f"foretold.run needs a function to run, got {main!r}")
    try:
        parameters = list(signature_of(main).parameters.values())
    except (TypeError, ValueError):
        return lambda world: main()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.default is p.empty and p.kind in positional]
    keywords = [p for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    if len(required) > 1 or any(p.name != "world" for p in keywords):
        names = ", ".join(p.name for p in required + keywords)
        if names == "scope, receive, send":
            raise UsageError(
                f"{main!r} is an ASGI application, which does nothing by itself. Serve it in the "
                "world, and send requests:\n"
                "  async def main(world):\n"
                "      web = await world.web(app)\n"
                '      await web.client("ada").get("/")\n'
                "If it has an OpenAPI document: foretold.explore(foretold.openapi(app))"
            )
        raise UsageError(
            f"main takes no argument, or the world; this one wants ({names}). "
            "Bind the others: functools.partial(main, …) or a lambda."
        )
    if required:
        return main
    if keywords:
        return lambda world: main(world=world)
    return lambda world: main()


def execute(
    main: Callable[[World], Any],
    tape: Tape,
    settings: Settings,
    *,
    recording: bool = False,
    detail: bool = False,
    learning: bool = False,
    sink: Callable[[str], object] | None = None,
    trace: Trace | None = None,
    feedback: bool = False,
    branches: Branches | None = None,
) -> Run:
    """Run `main` on `tape` and return the verdict. Never raises what the program raises.

    `trace` is for who wants to see more of the run than `detail` and `sink` show. With `feedback`,
    what the run reached is collected from it, and with `branches` those it took in the user's code;
    with `learning` the run says what a search wants to know for those that follow.
    """
    _refuse_nesting()
    tape = tape.fresh(recording=recording)
    if tape.audit is not None:
        tape.audit.begin()
    trace = Trace(detail=detail, sink=sink) if trace is None else trace
    reach = Reach(lambda: set().union(*tape.cast.values())) if feedback else None
    trace.listener = None if reach is None else reach.note
    trace.accesses = [] if feedback else None
    if learning:
        trace.keep_path()
    with _judged(main, tape, settings) as judge:
        with session():
            begin_run()
            try:
                done = _execute(main, World(tape, trace, settings), learning, branches)
            except RunCut:  # while it was taken down
                error = watchdog.cut()
                known = error.escape or error
                done = Run(None, tape, trace, virtual_s=0, steps=0, choices=1, error=known)
            finally:
                watchdog.end()
                interrupts.standing = None
        if reach is not None:
            done.features = reach.features
        if branches is not None:
            done.features |= branches.features
        if judge is not None and done.error is None and not done.discarded:

            def again(tape: Tape, settings: Settings) -> Run:
                watched: Any = {"recording": recording, "detail": detail, "learning": learning}
                return execute(main, tape, settings, sink=sink, feedback=feedback, **watched)

            done = judge.verdict(done, again)
    if done.error is not None:
        note_failure()
    return done


@contextlib.contextmanager
def _judged(main: Any, tape: Tape, settings: Settings) -> Iterator[Any]:
    """The judge of a run, if it has one."""
    begin = getattr(main, JUDGE, None)
    judge = None if begin is None else begin(tape, settings)
    try:
        yield judge
    finally:
        if judge is not None:
            judge.close()


def _execute(
    main: Callable[[World], Any], world: World, learning: bool, branches: Branches | None
) -> Run:
    """A frame of its own: it is gone, and the world with it, when the session is tidied up."""
    wall_s_max = world.settings.wall_s_max
    wall_s_max = math.inf if wall_s_max is None else wall_s_max
    interrupts.standing = lambda: standing(world)
    with _inside(world):
        # Not before: a run that is cut while its world is made would leave parts of it behind.
        if wall_s_max < math.inf or watchdog.is_watching:
            watchdog.begin(watch_over(world, wall_s_max))
        world.begin_faults()
        kernel = world.home.kernel
        watched = contextlib.nullcontext() if branches is None else branches.watching(kernel.notes)
        with watched:
            value, error = _run_to_its_end(world, main)
        discarded = isinstance(error, RunDiscarded)
        if world.tape.audit is not None:
            kernels = [host.kernel for host in world.hosts.values()]
            world.tape.audit.conclude(kernels, random=world.was_random)
        if not any(crew.threaded for crew in world.outside.crews()):
            world.tape.settings.pop("preempt", None)  # nothing that could have been interrupted
        told = dict.fromkeys(note for host in world.hosts.values() for note in host.kernel.notes)
        left = [f"a thread was left running at the end: {each}" for each in world.threads_left]
        return Run(
            value,
            world.tape,
            world.trace,
            virtual_s=world.virtual_s,
            steps=kernel.steps_so_far(kernel.grant),
            choices=world.choices,
            path=world.trace.path,
            error=None if discarded else _verdict(world, error),
            discarded=str(error) if discarded else "",
            broken_holds=sum(host.kernel.broken_holds for host in world.hosts.values()),
            reached=dict(world.reached),
            missed=[point for point, hit in world.expected.items() if not hit],
            threads_left=tuple(world.threads_left),
            notes=[*told, *left],
            calls=world.calls() if world.calls and world.trace.detail else None,
            opening=world.opening() if world.opening and world.trace.detail else "",
            names=world.names() if world.names and world.trace.detail else None,
            profile=world.profile() if learning else None,
            tally=world.tally,
        )


def _refuse_nesting() -> None:
    if world_or_none() is not None:
        raise UsageError(
            "foretold.run was called from inside a run: worlds cannot be nested. Call it from a "
            "plain test function, or use the world you are in (foretold.current_world())."
        )
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UsageError(
            "foretold.run starts a loop of its own and was called from inside a running one.\n"
            "  wrong: async def test_x(): foretold.run(main)\n"
            "  right: def test_x(): foretold.run(main)"
        )


@contextlib.contextmanager
def _inside(world: World) -> Iterator[None]:
    """This thread lives in `world`, which is taken down at the end, whatever happens."""
    numbers.begin_run(world.tape)
    former_policy = current_policy()
    with _coroutines_watched(world), patches.active(world.home):
        enter(world)
        set_policy(WorldPolicy(lambda: world.acting_host.another_loop(), former_policy))
        try:
            yield
        finally:
            world.sealed = True
            world.trace.seal()
            try:
                with _left_open(world), contextlib.ExitStack() as rest:
                    rest.callback(take_down, world)  # the last, whoever of those before fails
                    for finish in reversed(world.at_end):
                        rest.callback(finish)
                    rest.callback(executors.open_again)
                    end_threads(world.outside.crews())
                    end_strands(world.dead_threads)
            finally:
                close_loops([*world.living_loops(), *world.graves])  # cut while it was taken down?
                set_policy(former_policy)
                leave()


@contextlib.contextmanager
def _left_open(world: World) -> Iterator[None]:
    """That a killed process has closed nothing is no mistake of the program; nor that a thread has
    not, that was cut off where it stood; nor that another host has not, whose process ended."""
    alone = len(world.hosts) == 1 and not world.graves
    alone = alone and not any(crew.threaded for crew in world.outside.crews())
    with contextlib.nullcontext() if alone else unwarned(ResourceWarning):
        yield


def _run_to_its_end(world: World, main: Callable[[World], Any]) -> tuple[Any, BaseException | None]:
    value: Any = None
    error: BaseException | None = None
    try:
        # In a context of its own: what a plain main sets is not there in the next run.
        value = contextvars.copy_context().run(_call, world, main)
    except RunCut:
        error = watchdog.cut()
        _leave_loops(world)
    except KeyboardInterrupt:
        raise  # of the person who watches, not of the program
    except BaseException as raised:
        error = raised
    try:
        world.main_returned()
        if isinstance(error, HostDied) or not isinstance(error, ForetoldError):
            _finish_hosts_too(world)
        with _left_open(world):
            gc.collect()
        report_unseen(world.home.kernel)
        world.aftermath.settle()
    except RunCut:
        error = error or watchdog.cut()
        _leave_loops(world)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        error = error or raised
    return value, error


def _leave_loops(world: World) -> None:
    """The run was cut at any line, perhaps where asyncio was just leaving a loop."""
    for loop in world.living_loops():
        loop._thread_id = None
    asyncio._set_running_loop(None)
    sys.set_asyncgen_hooks(None, None)


def _call(world: World, main: Callable[[World], Any]) -> Any:
    world.home.in_plain_main = True
    try:
        result = main(world)
    except Exception as error:
        note_failed_main(world.home.kernel.crew, error)
        raise
    world.home.in_plain_main = False
    if inspect.isasyncgen(result) or inspect.isgenerator(result):
        raise UsageError(
            f"main returned a generator, {result.__name__}: it contains a `yield`, so its code did "
            "not run. Use return, or await."
        )
    if not inspect.isawaitable(result):
        world.trace.note("main returned", encode(result))
        return result
    loop = world.home.loop
    if not inspect.iscoroutine(result):
        result = _await(result)
    return loop.run_until_complete(
        loop.create_task(result, name=getattr(result, "__name__", None) or "main")
    )


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _finish_hosts_too(world: World) -> None:
    """The test's own program ends first: the others still answer its last words. Should it wait
    for ever, they are ended nevertheless, and it is left alone with what it waits for."""
    if not world.live_hosts():
        _finish(world, world.home.loop)
        return
    when_ns = now_ns(world) + to_ns(GRACE_S)
    late = world.wire.timer(when_ns, begin_ending_all, world)
    _finish(world, world.home.loop)
    late.called_off = True
    world.home_exits()
    world.home.another_loop().run_until_complete(end_all(world))


def _finish(world: World, loop: WorldLoop) -> None:
    """As `asyncio.run` ends: cancel what is left, wait for it, close asynchronous generators."""
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(_gathered(left))
    report_raised(left)
    crew = world.home.kernel.crew
    if len(loop._asyncgens) or (crew is not None and crew.living()):
        # With threads always: main's end may tell some of them to go, by callbacks yet to be run.
        loop.run_until_complete(loop.shutdown_asyncgens())
    if loop.has_executor():
        loop.run_until_complete(loop.shutdown_default_executor())
    world.threads_left += join_threads(crew)
    if asyncio.all_tasks(loop):
        # What was cancelled has started something, which nobody will cancel. It may do what it can
        # at once, as in asyncio.run; then the loop is closed, and it is destroyed.
        loop.run_until_complete(world.clock.settle())
        report_started_too_late(loop)


async def _gathered(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _coroutines_watched(world: World) -> Iterator[None]:
    """A coroutine that is never awaited is a failure of the run, not a warning on the terminal."""
    former = warnings._warn_unawaited_coroutine  # type: ignore[attr-defined]  # what CPython calls

    def never_awaited(coro: Any) -> None:
        if world_or_none() is not world:
            former(coro)
        elif not world.sealed:
            world.background.append(
                BackgroundFailure(f"coroutine {coro.__qualname__!r} was never awaited")
            )

    warnings._warn_unawaited_coroutine = never_awaited  # type: ignore[attr-defined]  # as above
    try:
        yield
    finally:
        warnings._warn_unawaited_coroutine = former  # type: ignore[attr-defined]  # as above


def _verdict(world: World, error: BaseException | None) -> BaseException | None:
    """Which failure the run is known by. A recorded one counts even if the program swallowed it."""
    if world.failures:
        first = world.failures[0]
        if error is not None and first.__context__ is None and first not in _causes(error):
            first.__context__ = error
        return first
    if error is not None:
        return error
    if world.background and world.settings.background_errors == "fail":
        return world.background[0]
    return None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An exception and all that it was raised from, or during."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
