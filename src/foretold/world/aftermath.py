"""What goes wrong after the test's main has returned, and which part of it fails the run.

The test has its answer by then; what follows is the end of the processes, which foretold brings
about. Production logs of a shutdown are read with care, and so are these:

- A violated property (`always`, an invariant, an escape) and an `AssertionError` fail the run. So
  does every exception that nobody catches, and a task that is destroyed while it is pending.
- An exception about a lost connection does not count on a host that lost a peer because foretold
  stopped that peer first. Both must be established: the host had a connection to the peer when the
  peer was asked to end, or has tried to connect since; and the exception is of the sort that a lost
  peer causes (`is_of_a_lost_peer`).
- A message of an object about itself, without an exception ("Unclosed client session"), does not
  count once the main that held it ends. While the program goes on it does: that is a leak.

What does not count is told once, as a note. What counts has a note that says when it happened.
"""

from __future__ import annotations

import asyncio
import errno
import re
import sys
from asyncio import base_events
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import ForetoldError
from foretold.kernel.waiting import is_installed

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.net.stack import Stack
    from foretold.world.world import World

LOST: Final = (ConnectionError, EOFError, TimeoutError)
_LOST_ERRNOS: Final = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENOTCONN, errno.ETIMEDOUT}
)
_SEVERAL: Final = "Multiple exceptions: "
"""How asyncio begins the text of its OSError for an attempt at several addresses."""
_LOST_NAMES: Final = re.compile(
    "Connect|Closed|Timeout|TimedOut|Network|Unavailable|Unreachable|RemoteProtocol|StreamLost"
    "|StreamTerminated|NoServers|Reset"
)
_ABOUT: Final = ("exception", "task", "future", "handle", "asyncgen")
_run_until_complete_cb: Final = vars(base_events)["_run_until_complete_cb"]


class Aftermath:
    """The end of one run: who was stopped, who lost whom by it, who complained."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._going: dict[str, None] = {}
        """Hosts that foretold has asked to end, in this order; the test's own is the first."""
        self._lost: dict[str, dict[str, None]] = {}
        """For each host the peers that it lost by that."""
        self._complaints: list[tuple[BaseException, Any, int]] = []
        """Messages of objects about themselves, the main that was running, and its step."""

    # --- who lost whom ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Main has returned: the test's own host ends first."""
        self.world.network.on_attempt = self._note_attempt
        self.goes(self.world.home)

    def goes(self, host: Host) -> None:
        """Foretold ends this host, or it is gone: whoever is connected to it now loses it."""
        self._going[host.name] = None
        for stack in self.world.network.stacks.values():
            for end in stack.ends.values():
                if end.peer is not None:
                    self._note_attempt(stack, end.peer.stack)

    def _note_attempt(self, source: Stack, target: Stack) -> None:
        if source is not target and self._is_gone(target.name):
            self._lost.setdefault(source.name, {})[target.name] = None

    def _is_gone(self, name: str) -> bool:
        """Asked to end, or dead and never restarted: the faults of a run end with its main."""
        host = self.world.hosts[name]
        return name in self._going or host.stack.dead or not host.loops

    # --- what counts -----------------------------------------------------------------------------

    def excuses(self, host: Host, error: BaseException) -> bool:
        """Whether an exception on `host` does not count; it is told as a note then."""
        lost = self._lost.get(host.name)
        if not self.world.ending or not lost or not is_of_a_lost_peer(error):
            return False
        said = str(error).split("\n")[0]
        host.kernel.notes[
            f"after the test's main had returned, {host.name} raised {type(error).__name__} "
            f"({said}). It was connected to {_listed(lost)}, or has tried to connect, which the "
            "end of the run had stopped before: this does not fail the run"
        ] = None
        return True

    def mark_late(self, error: BaseException, word: str = "raised") -> None:
        """An exception counts: if it comes after the end, it says so. `word`: what is known to have
        happened then. A task that ended long ago may be noticed only when it is collected."""
        note = f"foretold: {word} after the test's main had returned, while the run was being ended"
        if self.world.ending and note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    # --- objects that complain of not having been closed -----------------------------------------

    def is_last_word(self, host: Host, context: Mapping[str, Any], message: str) -> bool:
        """Whether this is an object's message about itself while its process is being ended."""
        if any(context.get(name) is not None for name in _ABOUT):
            return False
        if not self.world.ending and host.ending is None:
            return False
        self._note_left_open(host, message)
        return True

    def complained(self, context: Mapping[str, Any], error: BaseException) -> None:
        """Something counts for now. If an object complained as its main ended, it will not: that
        main was still running then, by a hair."""
        task: Any = _current_task()
        if task is None or any(context.get(name) is not None for name in _ABOUT):
            return
        actor = getattr(task, "actor", None)
        if actor is not None and self._is_main(task):
            self._complaints.append((error, task, actor.steps))

    def _is_main(self, task: Any) -> bool:
        if any(each.task is task for host in self.world.hosts.values() for each in host.mains):
            return True
        return any(callback is _run_until_complete_cb for callback, _ in task._callbacks or ())

    def settle(self) -> None:
        """The run is over: take back what was the last word of a main."""
        for error, task, step in self._complaints:
            if task.done() and task.actor.steps == step and error in self.world.background:
                self.world.background.remove(error)
                self._note_left_open(task.get_loop().host, str(error))
        self._complaints.clear()

    def _note_left_open(self, host: Host, message: str) -> None:
        host.kernel.notes[
            f"left open when host {host.name} ended: {message.splitlines()[0]}. A program that "
            "goes on would leak it"
        ] = None


def _current_task() -> Any:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def is_of_a_lost_peer(error: BaseException) -> bool:
    """A lost connection, a time limit, what a library makes of them, or what was raised from such.

    Never an assertion, and never a plain `KeyError` or `ValueError`: the program has made that.
    """
    if isinstance(error, AssertionError | ForetoldError):
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_of_a_lost_peer, error.exceptions))
    if isinstance(error, LOST) or any(map(is_a_librarys, type(error).__mro__)):
        return True
    if isinstance(error, OSError) and (
        error.errno in _LOST_ERRNOS or str(error).startswith(_SEVERAL)
    ):
        return True
    cause = error.__cause__
    if cause is None and type(error).__module__ != "builtins":
        cause = error.__context__  # an exception of the program's own, raised about another
    return cause is not None and is_of_a_lost_peer(cause)


def is_a_librarys(kind: type, *, any_name: bool = False) -> bool:
    """Whether an installed package defines this class, and says by its name what it is about:
    aiohttp's `ServerDisconnectedError` is neither a `ConnectionError` nor raised from one."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    fits = any_name or _LOST_NAMES.search(kind.__name__) is not None
    return fits and is_installed(file or "")


def _listed(names: Mapping[str, None]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
