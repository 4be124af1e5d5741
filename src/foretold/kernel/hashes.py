"""Sets of tasks, futures, threads, locks, streams and cancel scopes have one order in each run.

Such objects hash by their address, which differs from process to process, and with it the order in
which a set yields them (`asyncio.wait`, anyio's cancelled children, an executor's threads, a chat
server's set of writers). In a run each of them gets a number when it is made (`numbers.py`), and
hashes by that.

An object's hash must not change while it lives: it would be lost in every set that holds it. So the
number is given **at creation or never**. What was made outside a run keeps its address, in a run
too; what was made in a run keeps its number after it. If such an object still lives when the
patches are removed, the classes keep their `__hash__` (which answers as the original does for all
others) until a later removal finds none.

Tasks and futures of our own loop have a `__hash__` already; they are left alone, down to the C
function that makes them, since they are made on the hot path.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import gc
import sys
import threading
import weakref
from _thread import get_ident
from asyncio import futures, mixins, tasks
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from foretold.kernel.computer import running
from foretold.kernel.libraries import anyio, asyncpg
from foretold.kernel.numbers import numbers
from foretold.kernel.swap import Changes, Setting, init_slot, set_init_slot

_ATTRIBUTE = "_foretold_number"

_token: Final = object()
"""Each numbered object refers to it, so its reference count tells whether any of them is left."""
_token_refs_alone: Final = sys.getrefcount(_token)
_ROUNDS_MAX: Final = 4

# --- objects that take an attribute ----------------------------------------------------------


def hash_by_number(self: object) -> int:
    """As `__hash__`: the number, or the address of what was made outside a run."""
    # Past any __getattribute__ or __getattr__ of a subclass, which may not be ready yet.
    try:
        number: int = object.__getattribute__(self, _ATTRIBUTE)[0]
    except AttributeError:
        return object.__hash__(self)
    numbers.note_asked(number)
    return number


def _number(self: object) -> None:
    """Number a new object, unless its class hashes in a way of its own, or it is not new."""
    if type(self).__hash__ is not hash_by_number:
        return
    try:
        object.__getattribute__(self, _ATTRIBUTE)
    except AttributeError:
        object.__setattr__(self, _ATTRIBUTE, (numbers.next(), _token))


# --- objects that have only slots ------------------------------------------------------------

_numbers_by_id: Final[dict[int, int]] = {}


def hash_by_id(self: object) -> int:
    """As `__hash__`, for objects that cannot carry their number themselves."""
    number = _numbers_by_id.get(id(self))
    if number is None:
        return object.__hash__(self)
    numbers.note_asked(number)
    return number


def _number_by_id(self: object) -> None:
    if id(self) not in _numbers_by_id:
        _numbers_by_id[id(self)] = numbers.next()


def forget_id(self: object) -> None:
    """As `__del__`: the address will soon belong to another object."""
    _numbers_by_id.pop(id(self), None)


# --- what the module asyncio.tasks calls `set` and `list` ------------------------------------


def _set_in_order(items: Iterable[Any] = ()) -> Collection[Any]:
    """As `set` for the module `asyncio.tasks`, where `as_completed` starts what `set(coroutines)`
    yields, in that order. Coroutines hash by their address, and cannot be given a number."""
    given = list(items)
    return dict.fromkeys(given) if any(map(asyncio.iscoroutine, given)) else set(given)


def _list_in_order(items: Iterable[Any] = ()) -> list[Any]:
    """As `list` for the module `asyncio.tasks`, where `all_tasks()` makes its set of what
    `list(table)` yields. The tables hold the tasks of all loops in the process, and so the place of
    a task in them depends on the addresses of those that another thread's loop has."""
    return sorted(items, key=hash) if isinstance(items, _TABLES) else list(items)


_TABLES: Final = (weakref.WeakSet, set)
_NAMES_IN_TASKS: Final = {"set": _set_in_order, "list": _list_in_order}


# --- classes ---------------------------------------------------------------------------------

# The pure Python futures and tasks are those of asyncio where its C part is missing.
_FUTURES: Final = tuple(
    dict.fromkeys((asyncio.Future, futures._PyFuture))  # type: ignore[attr-defined]  # private: no stub has it
)
_TASKS: Final = tuple(
    dict.fromkeys((asyncio.Task, tasks._PyTask))  # type: ignore[attr-defined]  # private: no stub has it
)


# What asyncio itself keeps in no set, but programs do: subscribers by their queues, clients by
# their writers.
_STREAMS: Final = (asyncio.StreamReader, asyncio.StreamWriter)
_LOCKS: Final = (
    asyncio.Queue,
    asyncio.Lock,
    asyncio.Event,
    asyncio.Semaphore,
    asyncio.Condition,
    asyncio.Barrier,
)
_BASE_OF_LOCKS: Final[type] = mixins._LoopBoundMixin


def _numbering_init(kind: type, number: Callable[[object], None]) -> Setting:
    original: Callable[..., None] = kind.__init__  # type: ignore[misc]  # of this class, not of an instance

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **names: Any) -> None:  # noqa: N807  # it becomes the method
        # Before the original, since that may put the object into a set (threading._dangling).
        if not _pauses and get_ident() in running:
            number(self)
        original(self, *args, **names)
        if issubclass(kind, _FUTURES) and self._source_traceback:
            del self._source_traceback[-1]  # in debug mode: the user made it, not this function

    return Setting(kind, "__init__", __init__)


def _settings_for(kind: type) -> Iterator[Setting]:
    if kind.__dictoffset__:
        yield Setting(kind, "__hash__", hash_by_number)
        yield _numbering_init(kind, _number)
    elif not hasattr(kind, "__del__"):
        yield Setting(kind, "__hash__", hash_by_id)
        yield Setting(kind, "__del__", forget_id)
        yield _numbering_init(kind, _number_by_id)


def _subclasses(kind: type) -> Iterator[type]:
    subclass: type
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


_SETTINGS: Final = (
    *(
        setting
        for kind in (threading.Thread, concurrent.futures.Future, *_FUTURES, *_STREAMS)
        for setting in _settings_for(kind)
    ),
    # A task inherits the hash of futures, but makes itself.
    *(_numbering_init(kind, _number) for kind in _TASKS),
    Setting(_BASE_OF_LOCKS, "__hash__", hash_by_number),  # once for all of them: that is faster
    *(_numbering_init(kind, _number) for kind in _LOCKS),
)

_changes: Final = Changes()
_adopted: Final[set[str]] = set()
"""The libraries whose classes have a hash of ours already."""


def _makers() -> list[tuple[type, int | None]]:
    """Classes that need no number, with the C function that makes their instances."""
    return [
        (subclass, init_slot(subclass))
        for kind in _FUTURES
        for subclass in _subclasses(kind)
        if any("__hash__" in vars(base) for base in subclass.__mro__[:-1])  # all but object
    ]


def install() -> None:
    """Let new objects of these classes be numbered in runs."""
    if not _changes:
        makers = _makers()
        _changes.apply(*_SETTINGS)
        vars(tasks).update(_NAMES_IN_TASKS)
        for subclass, slot in makers:
            set_init_slot(subclass, slot)


def _left() -> int:
    """How many numbered objects are alive."""
    return len(_numbers_by_id) + sys.getrefcount(_token) - _token_refs_alone


def _collect_numbered() -> None:
    """Free what is garbage. What a finalizer brings back for a moment needs another round, and does
    not count in the first."""
    in_vain = 0
    for _ in range(_ROUNDS_MAX):
        if not _left() or in_vain == 2:
            return
        in_vain = 0 if gc.collect() else in_vain + 1


def remove() -> None:
    """Undo `install`, unless a numbered object would change its hash by that."""
    _collect_numbered()
    if not _left():
        _changes.undo()
        for name in _NAMES_IN_TASKS:
            vars(tasks).pop(name, None)
        _adopted.clear()


def adopt_libraries() -> None:
    """Classes of libraries, once these are imported."""
    if "anyio" not in _adopted and (scope := anyio.cancel_scope()) is not None:
        _changes.apply(*_settings_for(scope))
        _adopted.add("anyio")
    if "asyncpg" not in _adopted and (state := asyncpg.statement_state()) is not None:
        _changes.apply(Setting(state, "__hash__", asyncpg.hash_by_name))
        _adopted.add("asyncpg")


def _outlives_its_loop(reference: weakref.ref[asyncio.Task[Any]]) -> bool:
    task = reference()
    return task is None or task.get_loop().is_closed()


def _leave_out_the_past() -> None:
    """Tasks that are left of former runs have the numbers that this one gives again: with equal
    hashes in it, the table of all tasks is slow. It is cleaned, and by that made small again, but
    not replaced: a thread with a loop of its own may be about to add a task to it."""
    known: Any = vars(tasks).get("_scheduled_tasks", vars(tasks).get("_all_tasks"))  # 3.11: latter
    if known is not None:
        seen = list(known.data)  # in one go, because of that thread
        known.data.difference_update([task for task in seen if _outlives_its_loop(task)])


def tasks_in(*loops: asyncio.AbstractEventLoop) -> list[asyncio.Task[Any]]:
    """What `asyncio.all_tasks` has of these loops, in the order of the hashes. That one hashes the
    tasks of all loops; a world of many hosts has many of them, and ends its hosts one by one."""
    table: Any = vars(tasks).get("_scheduled_tasks", vars(tasks).get("_all_tasks"))  # 3.11: latter
    if sys.version_info >= (3, 14) or table is None:
        return sorted((task for loop in loops for task in asyncio.all_tasks(loop)), key=hash)
    own = set(loops)
    left = [
        task
        for reference in list(table.data)
        if (task := reference()) is not None and task.get_loop() in own and not task.done()
    ]
    eager = vars(tasks).get("_eager_tasks", ())
    left += [task for task in eager if task.get_loop() in own and not task.done()]
    return sorted(left, key=hash)


def leave_the_list(loop: asyncio.AbstractEventLoop) -> None:
    """What is left of a run is no longer among asyncio's tasks. In Python 3.14 a task that was made
    before a fork and is freed after it cuts all others out of the list of their thread."""
    if sys.version_info >= (3, 14):
        for task in asyncio.all_tasks(loop):
            asyncio._unregister_task(task)


_pauses = 0


def pause() -> None:
    """What is made from here on gets no number: a module is imported, in this run by chance."""
    global _pauses
    _pauses += 1


def go_on() -> None:
    """The end of a `pause`."""
    global _pauses
    _pauses -= 1


def is_paused() -> bool:
    """Whether a module is being imported."""
    return _pauses > 0


def begin_run() -> None:
    """A run does not depend on the ones before it."""
    _leave_out_the_past()
    anyio.load_backend()
    adopt_libraries()
