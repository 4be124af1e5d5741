"""Where tasks wait, and for what: for deadlocks, stories and reports."""

from __future__ import annotations

import asyncio
import os
import sysconfig
import threading
import types
from collections.abc import Iterable
from typing import Any

from foretold.arguments import printable
from foretold.errors import Deadlock, Waiting
from foretold.kernel import real
from foretold.kernel.computer import running
from foretold.kernel.libraries import anyio
from foretold.trace import Place

_STDLIB = sysconfig.get_paths()["stdlib"]
_SITE = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"])
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FRAMES_MAX = 200
_CALLERS_MAX = 8
_FLOOR = "execute"
"""The function of `world/run.py` in which a run begins: below it are those who asked for it."""


def await_chain(coro: Any) -> list[Place]:
    """The lines at which a suspended coroutine waits, the outermost first."""
    places: list[Place] = []
    while coro is not None and len(places) < _FRAMES_MAX:
        frame = frame_of(coro)
        if frame is not None:
            code = frame.f_code
            places.append(Place(code.co_filename, frame.f_lineno, code.co_qualname))
        coro = awaited_by(coro)
    return places


def frame_of(coro: Any) -> types.FrameType | None:
    """The frame of a coroutine or generator that is not over."""
    for name in ("cr_frame", "gi_frame", "ag_frame"):
        frame = getattr(coro, name, None)
        if isinstance(frame, types.FrameType):
            return frame
    return None


def awaited_by(coro: Any) -> Any:
    """What a suspended coroutine or generator waits for, as it says itself."""
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        inner = getattr(coro, name, None)
        if inner is not None:
            return inner
    return None


def is_library(file: str) -> bool:
    """True for files that the user did not write: the standard library, packages, ourselves."""
    return file.startswith(("<", _OURS, _STDLIB, *_SITE))


def is_installed(file: str) -> bool:
    """True for files of installed packages."""
    return file.startswith(_SITE)


def is_ours(file: str) -> bool:
    """True for the files of foretold itself."""
    return file.startswith(_OURS)


def is_floor(code: types.CodeType) -> bool:
    """Whether a run begins here."""
    return code.co_name == _FLOOR and is_ours(code.co_filename)


def traceback_of(ident: int, *, without_ours: bool = False) -> types.TracebackType | None:
    """A traceback that leads to where a thread stands, from the beginning of the run; or to where
    it has called into code of ours."""
    frame, found = real.current_frames().get(ident), None
    while without_ours and frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    while frame is not None and not is_floor(frame.f_code):
        found = types.TracebackType(found, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return found


def users_place(places: list[Place]) -> Place | None:
    """The innermost line of the user's own; else the innermost of all, unless it is ours."""
    for place in reversed(places):
        if not is_library(place.file):
            return place
    return places[-1] if places and not is_ours(places[-1].file) else None


def raised_at(error: BaseException) -> Place | None:
    """The innermost line of the user's own in a traceback, if there is one."""
    cause = error.__cause__
    if isinstance(cause, StopIteration | StopAsyncIteration) and _is_for_stop(error):
        return raised_at(cause)
    places = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(Place(code.co_filename, traceback.tb_lineno, code.co_qualname))
        traceback = traceback.tb_next
    own = (
        each for each in reversed(places) if not (is_library(each.file) or _is_nowhere(each.file))
    )
    return next(own, None)


def _is_for_stop(error: BaseException) -> bool:
    """Python makes it of a `StopIteration` that leaves a coroutine, where that is awaited; what is
    wrong is inside of it."""
    text = str(error) if type(error) is RuntimeError else ""
    return text.startswith(("coroutine raised ", "generator raised ", "async generator raised "))


def _is_nowhere(file: str) -> bool:
    """A frame of Cython's names the file as it was where the package was built."""
    return not os.path.isabs(file) and not os.path.exists(file)


def is_machinery(places: list[Place]) -> bool:
    """Whether it is we who wait, with nothing of the program's under way: the conductor of a
    machine, who waits for its actors."""
    others = [place.file for place in places if not _is_stdlib(place.file)]
    return bool(others) and all(map(is_ours, others))


def _is_stdlib(file: str) -> bool:
    return file.startswith(_STDLIB) and not file.startswith((_OURS, *_SITE))


def users_callers(places: list[Place]) -> tuple[Place, ...]:
    """The user's lines above the innermost of them, the nearest first; a few of them."""
    own = [place for place in places if not is_library(place.file)]
    return tuple(own[-2 : -2 - _CALLERS_MAX : -1])


def running_stack(frame: types.FrameType | None) -> list[Place]:
    """The lines at which code runs that was called here, up to where we have called the user's; the
    outermost first."""
    places: list[Place] = []
    own = False
    while frame is not None and len(places) < _FRAMES_MAX:
        code = frame.f_code
        if own and is_ours(code.co_filename):
            break
        own = own or not is_library(code.co_filename)
        places.append(Place(code.co_filename, frame.f_lineno, code.co_qualname))
        frame = frame.f_back
    return places[::-1]


def waits_in_package(places: list[Place]) -> bool:
    """Whether the user's innermost line has called a third party's code, which waits."""
    for place in reversed(places):
        if place.file.startswith(_SITE):
            return any(not is_library(outer.file) for outer in places)
        if not is_library(place.file):
            return False
    return False


def innermost_of_package(places: list[Place]) -> Place | None:
    """The line of a package in which the user's line waits: the bug may be the package's."""
    inner = next((place for place in reversed(places) if not _is_stdlib(place.file)), None)
    return inner if inner is not None and is_installed(inner.file) else None


def whose_timeout(callback: Any, args: Any, loop: Any) -> str | None:
    """If this callback of a timer says that a timeout has expired: the name of the task that set
    it, or empty if that is not known. None for all other callbacks."""
    owner = getattr(callback, "__self__", None)
    name = getattr(callback, "__qualname__", "")
    if name == "Timeout._on_timeout":  # asyncio.timeout
        return _actor_of(getattr(owner, "_task", None))
    if name == anyio.TIMEOUT:
        return _actor_of(getattr(owner, "_host_task", None))
    # Of asyncio.wait. In a partial it is no timeout; nor is it one if what was awaited is there.
    if name == "_release_waiter" and args and not args[0].done():
        waiting = (t for t in asyncio.all_tasks(loop) if getattr(t, "_fut_waiter", None) is args[0])
        return _actor_of(next(waiting, None))
    return None


def _actor_of(task: Any) -> str:
    actor = getattr(task, "actor", None)
    return actor.name if actor is not None else ""


def place_of_task(task: asyncio.Task[Any]) -> Place | None:
    """The user's line at which a task waits."""
    return users_place(await_chain(task.get_coro()))


def describe_wait(task: asyncio.Task[Any]) -> str:
    """What a task waits for, in words."""
    places = await_chain(task.get_coro())
    inner = places[-1] if places else None
    waiter = getattr(task, "_fut_waiter", None)
    if inner is not None and is_library(inner.file):
        module = os.path.splitext(os.path.basename(inner.file))[0]
        return f"{inner.function}() in {module}"
    if isinstance(waiter, asyncio.Task):
        return f"the task {printable(waiter.get_name())}"
    if waiter is not None:
        return "a future that nothing resolves"
    return "its first step" if inner is None else "its next step"


def wait_line(who: str, place: Place | None, what: str) -> str:
    """One line of a deadlock: who waits where for what."""
    where = str(place) if place else "an unknown line"
    return f"  {printable(who)} waits at {where} for {what}"


def _order_of_creation(task: Any) -> tuple[str, int]:
    """What the names of actors are given by; a set of tasks has another order."""
    actor = getattr(task, "actor", None)
    if actor is None:
        return ("", hash(task))  # one that somebody made by hand
    kernel = task.get_loop().kernel
    return (kernel.host, [*kernel.register.by_name].index(actor.name))


Blocked = tuple[Waiting, list[str]]
"""A thread that waits, and the lines from which it came there."""


def deadlock_of(
    host: str,
    tasks: Iterable[asyncio.Task[Any]],
    threads: Iterable[Blocked] = (),
    services: Iterable[str] = (),
) -> Deadlock:
    """The error for a host on which nothing can ever run again. `services` are lines about who
    waits in one."""
    why = f"nothing can run and nothing is scheduled, yet {host} is not done"
    return deadlock_among(tasks, why, threads=threads, services=services)


def deadlock_among(
    tasks: Iterable[asyncio.Task[Any]],
    why: str,
    remedy: str | None = None,
    threads: Iterable[Blocked] = (),
    services: Iterable[str] = (),
) -> Deadlock:
    """The error for tasks of which none will go on: why, and where each of them waits."""
    tasks = sorted(tasks, key=_order_of_creation)
    theirs = [task for task in tasks if not is_machinery(await_chain(task.get_coro()))]
    waiting: list[Blocked] = [(_wait_of(task), []) for task in theirs or tasks]
    waiting += threads
    lines = [line for each, callers in waiting for line in (wait_text(each), *callers)]
    lines += services
    listed = "\n".join(lines) or "  (no task is left; main waits for a future)"
    said = f"{why}. Waiting:\n{listed}"
    error = Deadlock(f"{said}\n{remedy}" if remedy else said)
    error.why, error.waiting = f"{why}.", tuple(each for each, _ in waiting)
    others = _threads_from_before()
    if others:  # a note: it differs between processes, and the message is part of the run
        error.add_note(
            f"Threads from before the run are not in it, and end no wait: {', '.join(others)}. If "
            "the program waits for one of them, start it inside the run."
        )
    return error


def _threads_from_before() -> list[str]:
    active: dict[int, threading.Thread] = vars(threading)["_active"]
    others = [thread for ident, thread in active.items() if ident not in running]
    dummy = vars(threading)["_DummyThread"]  # one that Python has not started
    main = threading.main_thread()
    return [each.name for each in others if each is not main and type(each) is not dummy]


def _wait_of(task: asyncio.Task[Any]) -> Waiting:
    actor, name = getattr(task, "actor", None), task.get_name()
    kernel = getattr(task.get_loop(), "kernel", None)
    host = "" if kernel is None else kernel.host
    called = name if actor is None else actor.name
    return Waiting(name, (host, called), place_of_task(task), describe_wait(task))


def wait_text(each: Waiting) -> str:
    """One line of the list."""
    return wait_line(each.name, None if each.place is None else Place(*each.place), each.what)
