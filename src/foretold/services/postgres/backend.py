"""One process of the real server, and the real connection to it.

While it works on a group of messages, virtual time stands still and nobody else of the world runs.
It is read from until it has answered, or says that it can't go on: it waits for a lock (the server
itself says so on this connection: `log_lock_waits`), or it sleeps (the preload library says so).
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import ForetoldError
from foretold.kernel import fence, real
from foretold.kernel.patches import patches
from foretold.services.postgres import protocol
from foretold.services.postgres.protocol import (
    ANSWERS,
    COPY_ENDS,
    COPY_IN,
    ERROR,
    FLUSH,
    FUNCTION_CALL,
    IDLE,
    KEY_DATA,
    NOTICE,
    QUERY,
    READY,
    SYNC,
    Group,
)
from foretold.services.postgres.session import AHEAD, COPIED, SIMPLE

if TYPE_CHECKING:
    from foretold.services.postgres.cluster import Cluster
    from foretold.services.postgres.session import Session

RECEIVE_BYTES = SEND_BYTES = 1 << 18
SILENCE_MS = 20
"""So long a backend is waited for before somebody asks whether it is blocked. (It has said so much
earlier, unless the program has turned such notices off.)"""
SILENCE_MS_MAX = 120_000
LOOKS: Final = 40
"""So often we look for an answer before we wait for it: some fifty microseconds."""
LOG: Final = b"SLOG\0"
WAITS: Final = b"still waiting for "

_CALLS: Final = 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1)

DONE, BLOCKED, SLEEPING, GONE = "done", "blocked", "sleeping", "gone"


class BackendLost(ForetoldError):
    """The server's process does not answer any more."""


class Backend:
    """A connection to a process of the server."""

    def __init__(self, cluster: Cluster, code: int, parameters: dict[str, str]) -> None:
        self.cluster = cluster
        self.parameters = parameters
        self.pid = 0
        self.state = IDLE
        self.skipping = False
        """After an error the server skips all until Sync."""
        self.stopped = False
        self.code = code
        self.accepted = False
        """Whether the server has let the session begin."""
        self.is_clean = True
        """Whether it waits for a new message, and has said all about earlier ones."""
        self.is_new = False
        """Whether nothing is left in it of the session that it has just served."""
        self.has_own_settings = False
        """The program has made up a setting (`app.user`): PostgreSQL never forgets that again."""
        self.greeting: list[bytes] = []
        """What the server said when the session began."""
        self._buffer = bytearray()
        self._messages: deque[bytes] = deque()
        self._unsent = bytearray()
        """What the server has not taken yet: it wants to be read from first, or to get a lock."""
        self._poll = real.poll()
        with fence.passage():
            self._socket = real.Socket(socket.AF_UNIX)
            self._socket.connect(cluster.socket_path)
        self._wanted = select.POLLIN
        self._poll.register(self._socket.fileno(), self._wanted)
        if cluster.page is not None:
            self._poll.register(cluster.page.notify_fd, select.POLLIN)
        options = f"{parameters.get('options', '')} -c client_min_messages=log".strip()
        self.send(protocol.startup(code, {**parameters, "options": options}.items()))

    def greet(self) -> bool:
        """Read what the server says to a new session. False if it refuses."""
        outcome, self.greeting = self.read(lambda m: m[:1] in (READY, ERROR))
        for message in self.greeting:
            if message[:1] == KEY_DATA:
                self.pid = int.from_bytes(message[5:9], "big")
        accepted = outcome == DONE and self.greeting[-1][:1] == READY
        if accepted and self.cluster.page is not None:
            self.cluster.page.watch(self.pid)
        return accepted

    # --- talking ---------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Give the server something to do. What it does not take at once, it gets while it is read
        from."""
        self._unsent += data
        self._push()

    def _push(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                del unsent[: self._socket.send(unsent[:SEND_BYTES], socket.MSG_DONTWAIT)]
            wanted = select.POLLIN
        except BlockingIOError:
            wanted = select.POLLIN | select.POLLOUT
        except OSError:  # it is gone, and reading will tell
            unsent.clear()
            wanted = select.POLLIN
        if wanted != self._wanted:
            self._wanted = wanted
            self._poll.modify(self._socket.fileno(), wanted)

    def read(
        self, is_last: Callable[[bytes], bool], is_blocked: Callable[[], bool] | None = None
    ) -> tuple[str, list[bytes]]:
        """Messages until `is_last`, or until the server can't go on."""
        found: list[bytes] = []
        silent_ms = 0
        while True:
            outcome = self._take(found, is_last)
            if outcome is not None:
                return outcome, found
            if self._receive_soon():
                continue
            ready = self._poll.poll(SILENCE_MS)
            if not ready:
                silent_ms += SILENCE_MS
                if is_blocked is not None and is_blocked() and self._is_still() and is_blocked():
                    return BLOCKED, found
                if silent_ms >= SILENCE_MS_MAX:
                    raise BackendLost(
                        f"PostgreSQL has not answered for {silent_ms // 1_000} real seconds, and "
                        "does not wait for a lock. Does a statement of the program take so long?"
                    )
                continue
            if len(ready) == 1 and ready[0][0] != self._socket.fileno():
                if self._is_asleep():
                    return SLEEPING, found
                continue
            if self._unsent:
                self._push()
            if self._receive() is False:
                return GONE, found

    def _take(self, found: list[bytes], is_last: Callable[[bytes], bool]) -> str | None:
        messages = self._messages
        while messages:
            message = messages.popleft()
            if message[:1] == NOTICE and message.startswith(LOG, 5):
                if WAITS in message:
                    return BLOCKED
                continue  # the program has not asked for those
            found.append(message)
            if message[:1] == READY:
                self.state, self.skipping = message[5:6], False
            if is_last(message):
                return DONE
        return None

    def _receive(self) -> bool | None:
        """Hear what it has said. None if that is nothing, False if it has hung up."""
        try:
            data = self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return False
        self._buffer += data
        self._messages.extend(protocol.split(self._buffer))
        return bool(data)

    def _receive_soon(self) -> bool:
        """The answer to a short statement takes less time than to fall asleep and to be woken. With
        one core for both, looking makes way for the server."""
        if self._unsent:
            return False
        for _ in range(LOOKS):
            heard = self._receive()
            if heard is not None:
                return heard
            real.sched_yield()
        return False

    def _is_still(self) -> bool:
        """Whether it has come to rest, with nothing to read from it. It may have been asked before
        it had said that it waits, or before it saw a signal: the machine is busy with others."""
        page = self.cluster.page
        while page is not None and not page.is_waiting(self.pid):
            if self._has_data():
                return False
            real.sleep(0)
        return not self._has_data()

    def _has_data(self) -> bool:
        mine = self._socket.fileno()
        return any(fd == mine and ready & ~select.POLLOUT for fd, ready in self._poll.poll(0))

    def _is_asleep(self) -> bool:
        page = self.cluster.page
        return page is not None and self.pid in page.read_notices()

    def ask(self, data: bytes) -> list[bytes]:
        """Have something done that can't block."""
        self.send(data)
        outcome, messages = self.read(lambda message: message[:1] == READY)
        if outcome != DONE:
            raise BackendLost(f"foretold sent PostgreSQL a statement of its own, and {outcome}")
        return messages

    def is_alive(self) -> bool:
        """Whether it still answers. A signal that was sent to it before takes effect first."""
        self.send(protocol.message(SYNC))
        outcome, _ = self.read(lambda message: message[:1] == READY)
        return outcome == DONE

    # --- signals ---------------------------------------------------------------------------------

    def is_called(self) -> bool:
        """Whether it was sent a signal that it will see when it goes on, of those that end a
        statement or a session. It must have been at a standstill by then."""
        return bool(int(self._status().get("ShdPnd", "0"), 16) & _CALLS)

    def come_to_a_standstill(self) -> None:
        """It was told to stop; wait until it has."""
        while self._status().get("State", "T")[:1] not in ("T", "Z", "X"):
            real.sleep(0)

    def _status(self) -> dict[str, str]:
        """What the kernel knows about it; nothing if it is gone."""
        with patches.outside(), contextlib.suppress(OSError):
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            return {name: value.strip() for name, _, value in (x.partition(":") for x in lines)}
        return {}

    def stop(self) -> None:
        """It goes no further, whatever locks it is given, until it is let go."""
        self.stopped = True
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self.stopped:
            self.stopped = False
            self._wake(signal.SIGCONT)

    def cancel(self) -> None:
        """Cancel the statement, as a request to cancel would."""
        self._wake(signal.SIGINT)

    def terminate(self) -> None:
        """End the session, as an administrator would."""
        self._signal(signal.SIGTERM)

    def _wake(self, number: int) -> None:
        if self.cluster.page is not None:
            self.cluster.page.stir(self.pid)
        self._signal(number)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            real.kill(self.pid, number)

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session, and wait until nothing is left of it: its locks are free then."""
        if self.pid and self.cluster.page is not None:
            self.cluster.page.forget(self.pid)
        self._socket.settimeout(None)
        with contextlib.suppress(OSError), fence.passage():
            if self.stopped or not self.is_clean:  # at work, or asleep: it would not look up
                self.terminate()
                self.go_on()
                self._signal(signal.SIGCONT)  # somebody else may have stopped it
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(RECEIVE_BYTES):
                pass
        self._socket.close()

    def hang_up(self) -> None:
        """Close our end, and wait for nothing."""
        self._socket.close()


class ExpectedAnswer:
    """What the server will say to a group: called with each message, it tells whether that is the
    last one. It may be interrupted and go on."""

    def __init__(self, backend: Backend, group: Group, session: Session) -> None:
        self._backend = backend
        self._copying = session.copying
        self._is_counted = group.last == FLUSH or self._is_silent(group, session)
        self._left = 0
        if group.last == FLUSH and not backend.skipping and not session.is_in_copy:
            self._left = group.expected() + (session.copying == COPIED)

    def _is_silent(self, group: Group, session: Session) -> bool:
        """Whether the server says nothing to it, although it ends as others do that it answers."""
        last = group.last
        if last in COPY_ENDS:  # after a simple query there is no Sync to come that is answered
            return session.copying != SIMPLE
        if last == SYNC:
            return session.is_in_copy
        return last in (QUERY, FUNCTION_CALL) and self._backend.skipping

    @property
    def is_empty(self) -> bool:
        """Whether the server says nothing at all."""
        return self._is_counted and not self._left

    def __call__(self, message: bytes) -> bool:
        kind = message[:1]
        if not self._is_counted:
            return kind == READY or (kind == COPY_IN and self._copying != AHEAD)
        if kind == ERROR:
            self._backend.skipping = True
            self._left = 0
        elif message[0] in ANSWERS:
            self._left -= 1
        return self._left <= 0


def keyed(parameters: dict[str, str]) -> tuple[Any, ...]:
    """What two sessions must have in common to be served by one process, one after the other."""
    return tuple(sorted(parameters.items()))
