"""A loop with a network: asyncio's own selector loop on simulated sockets.

Transports, servers, happy eyeballs, TLS, flow control and all `sock_*` methods are asyncio's own
code, unmodified; only the selector, the sockets and the names under it are the world's.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
from asyncio import base_events, unix_events
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from foretold.kernel.actors import Stepper, WorldTask
from foretold.kernel.handles import StepHandle
from foretold.kernel.libraries import asyncpg, sqlalchemy
from foretold.kernel.loop import WorldLoop
from foretold.kernel.timed import LOOKED_AT, NEVER_NS, first_of
from foretold.world.net.descriptors import FIRST, refuse_real
from foretold.world.net.selector import READ, WRITE, WorldSelector
from foretold.world.net.wire import goal_of

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew
    from foretold.world.host import Host

_SENDFILE_BLOCK = 16 * 1024


class IoHandle(StepHandle):
    """The callback of a reader or writer. It is made ready once at a time, however often its
    socket is found ready before it has run."""

    __slots__ = ("fd", "queued", "real", "real_args", "woken")

    def __init__(self, callback: Callable[..., object], args: Any, loop: HostLoop) -> None:
        super().__init__(self._fire, (), loop, None)
        self.fd = -1
        self.real, self.real_args, self.queued = callback, args, False
        self.woken: list[tuple[Stepper, int]] | None = None
        """For `add_reader` and `add_writer`: the tasks that it woke, and how far each was."""

    def _fire(self) -> None:
        self.queued = False
        try:
            if self.woken is None:
                self.real(*self.real_args)
            else:
                self._fire_once_per_wait(self.woken)
        finally:
            self._loop.selector.look_again(self.fd)

    def _fire_once_per_wait(self, woken: list[tuple[Stepper, int]]) -> None:
        ready = self._loop._ready
        before = len(ready)
        self.real(*self.real_args)
        owners = [getattr(h._callback, "__self__", None) for h in islice(ready, before, None)]
        woken[:] = [(o.actor, o.actor.steps) for o in owners if isinstance(o, WorldTask)]

    def may_fire(self) -> bool:
        """Not twice, before the tasks that it woke have run: asyncio polls only after that, and
        programs rely on it (`add_reader(fd, future.set_result, None)`, removed by who awaits)."""
        if self.woken:
            self.woken = [(a, n) for a, n in self.woken if a.steps == n and not a.ended]
        return not self.woken


_selector_loop: Any = unix_events._UnixSelectorEventLoop  # typeshed omits what we borrow from it


class HostLoop(WorldLoop, _selector_loop):  # type: ignore[misc]  # as above
    _signal_handlers: dict[int, Any]
    _check_closed: Callable[[], None]
    _ensure_fd_no_transport: Callable[[Any], None]
    _check_signal: Callable[[int], None]

    def __init__(self, host: Host) -> None:
        self.host = host
        self.selector = WorldSelector(host.descriptors)
        super().__init__(host.kernel, selector=self.selector)

    def is_nested(self) -> bool:
        """Whether it is the program that runs this loop, by `asyncio.run`."""
        return self is not self.host.loop

    def _check_thread(self) -> None:
        """In debug mode: nobody but the thread that runs a loop may call `call_soon`. What another
        host or the wire does to this one, such as SIGTERM, is the world's doing."""
        if self.host.world.acting_host is self.host:
            super()._check_thread()

    # A simulated loop is woken by what happens in its world, not by writing to itself.

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> IoHandle:
        return self._watch(fd, READ, IoHandle(callback, args, self))

    def _add_writer(self, fd: Any, callback: Callable[..., object], *args: Any) -> IoHandle:
        return self._watch(fd, WRITE, IoHandle(callback, args, self))

    def add_reader(  # type: ignore[override]  # typeshed wants a TypeVarTuple
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        self._ensure_fd_no_transport(fd)
        self._add_reader(fd, callback, *args).woken = []

    def add_writer(  # type: ignore[override]  # typeshed wants a TypeVarTuple
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        self._ensure_fd_no_transport(fd)
        self._add_writer(fd, callback, *args).woken = []

    def _watch(self, fd: Any, event: int, handle: IoHandle) -> IoHandle:
        self._check_closed()
        self._refuse_real(fd, "loop.add_reader" if event == READ else "loop.add_writer")
        if self.kernel.outside is None:
            self.host.world.outside.open()
        key = self.selector.key_of(fd)
        reader, writer = key.data if key is not None else (None, None)
        former = reader if event == READ else writer
        data = (handle, writer) if event == READ else (reader, handle)
        if key is None:
            key = self.selector.register(fd, event, data)
        else:
            key = self.selector.modify(fd, key.events | event, data)
        handle.fd = key.fd
        if former is not None:
            former.cancel()
        return handle

    def _refuse_real(self, fd: Any, call: str) -> None:
        number = fd if isinstance(fd, int) else int(fd.fileno())
        if number < 0:
            raise ValueError(f"Invalid file descriptor: {number}")
        if number < FIRST:
            refuse_real(self.host, f"{call}(…) on the real descriptor {number}")

    async def connect_read_pipe(self, protocol_factory: Any, pipe: Any) -> Any:
        self._refuse_real(pipe, "loop.connect_read_pipe")
        return await super().connect_read_pipe(protocol_factory, pipe)

    async def connect_write_pipe(self, protocol_factory: Any, pipe: Any) -> Any:
        self._refuse_real(pipe, "loop.connect_write_pipe")
        return await super().connect_write_pipe(protocol_factory, pipe)

    # --- what arrives from outside ---------------------------------------------------------------

    def next_alarm_ns(self) -> int | None:
        if self._timer_cancelled_count:
            self._drop_cancelled_timers()
        when_ns = self._due_ns if self.kernel.crew is None else self.next_wake_ns()
        return when_ns if when_ns < NEVER_NS else None

    def first_alarm_ns(self) -> int:
        """When the next alarm of the loop itself is due."""
        if self._timer_cancelled_count:
            self._drop_cancelled_timers()
        return self._due_ns

    def _soon_after(self, when_ns: int, within_ns: int) -> list[int]:
        found, end_ns = super()._soon_after(when_ns, within_ns), when_ns + within_ns
        stack, queue = self.host.stack, self.host.world.outside.wire.queue
        if queue and queue[0][0] <= end_ns:
            first = first_of(queue, LOOKED_AT, (end_ns + 1,))
            soon = [entry for entry in first if when_ns < entry[0]]
            found += [entry[0] - when_ns for entry in soon if goal_of(entry) is stack]
        return found

    def poll(self) -> None:
        """Make ready who waits for a socket that is ready. In which order is the tape's choice.

        A socket whose callbacks are all in the queue is looked at again when they have run.
        """
        selector = self.selector
        found = selector.poll()
        if not found:
            return
        if len(found) > 1:
            found = self.host.network_choices().shuffle(found, "which socket first")
        for key, mask in found:
            reader, writer = key.data
            again = False
            if mask & READ and reader is not None and not reader.queued:
                again = not self._queue(reader)
            if mask & WRITE and writer is not None and not writer.queued:
                again = not self._queue(writer) or again
            if not again:
                selector.stirred.pop(key.fd, None)

    def _queue(self, handle: IoHandle) -> bool:
        if handle.woken and not handle.may_fire():
            return False
        handle.queued = True
        self._ready.append(handle)
        return True

    def get_ready(self) -> bool:
        """Move to the ready queue what is due at this host's time. False if there is nothing."""
        if self.selector.stirred:
            self.poll()
        if self._due_ns <= self._clock.ns:
            self._collect_due_timers()
        if self.has_ready():
            self.wake_up()
            return True
        return False

    def has_ready(self) -> bool:
        """Whether something could run now."""
        scheduler = self.scheduler
        return bool(self._ready) or (scheduler is not None and scheduler.size > 0)

    def has_work(self) -> bool:
        return super().has_work() or bool(self.selector.stirred)

    def _wait_as_a_thread(self, crew: Crew) -> bool:
        went_on = super()._wait_as_a_thread(crew)
        if self.kernel.outside is None and self.selector.stirred:
            self.poll()  # nobody else looks at them before the next iteration
        return went_on

    def _process_is_threaded(self) -> None:
        self.kernel.outside = self.host.world.outside  # it looks at this loop's sockets as well

    def abandon(self) -> None:
        """The process is gone: its transports have no last words about not having been closed."""
        transports: Any = self._transports  # asyncio's own table
        hushed: set[int] = set()
        for transport in list(transports.values()):
            over_tls: Any = getattr(transport._protocol, "_app_transport", None)
            if over_tls is not None:
                over_tls._closed = True
            transport._closing, transport._sock = True, None
            hushed |= asyncpg.hush(transport._protocol)
        if hushed:
            sqlalchemy.hush(hushed)

    def forget(self) -> None:
        """Let go of all that was to run here: the process died, and somebody may hold the loop."""
        self._ready.clear()
        self._signal_handlers.clear()
        self._exception_handler = self._task_factory = self._default_executor = None

    # --- names -----------------------------------------------------------------------------------

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        dns = self.host.world.dns
        if host is not None and not dns.is_ip(host):
            await self._look_up()
        return dns.getaddrinfo(self.host, host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        await self._look_up()
        return self.host.world.dns.getnameinfo(sockaddr, flags)

    async def _look_up(self) -> None:
        """A look-up is at least a turn of the loop, as the executor's thread would be."""
        seconds = self.host.world.dns.slow_s
        await asyncio.sleep(seconds)

    # --- signals ---------------------------------------------------------------------------------

    def add_signal_handler(  # type: ignore[override]  # typeshed wants a TypeVarTuple
        self, sig: int, callback: Callable[..., Any], *args: Any
    ) -> None:
        given: Any = callback
        if asyncio.iscoroutine(given) or inspect.iscoroutinefunction(given):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        self._check_signal(sig)
        self._check_closed()
        if sig in (signal.SIGKILL, signal.SIGSTOP):
            raise RuntimeError(f"sig {sig} cannot be caught")
        self._signal_handlers[sig] = (callback, args)
        self.host.signals[sig] = lambda number, frame: self.call_soon(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        self._check_signal(sig)
        if self._signal_handlers.pop(sig, None) is None:
            return False
        self.host.signals.pop(sig, None)
        return True

    # --- files through sockets -------------------------------------------------------------------

    # `os.sendfile` is the host's, so that the native way is asyncio's own. The other way reads the
    # file in a thread: here it is read on the spot.

    async def _sock_sendfile_fallback(
        self, sock: Any, file: Any, offset: int, count: int | None
    ) -> int:
        sent = 0
        for block in self._blocks_of(file, offset, count):
            await self.sock_sendall(sock, block)
            sent += len(block)
        return sent

    async def _sendfile_fallback(
        self, transport: Any, file: Any, offset: int, count: int | None
    ) -> int:
        sent = 0
        protocol = base_events._SendfileFallbackProtocol(transport)  # type: ignore[attr-defined]  # typeshed omits it
        try:
            for block in self._blocks_of(file, offset, count):
                await protocol.drain()
                transport.write(block)
                sent += len(block)
        finally:
            await protocol.restore()
        return sent

    def _blocks_of(self, file: Any, offset: int, count: int | None) -> Iterator[bytes]:
        """The file's content, after which it stands behind what was sent."""
        if offset:
            file.seek(offset)
        sent = 0
        try:
            while count is None or sent < count:
                size = _SENDFILE_BLOCK if count is None else min(_SENDFILE_BLOCK, count - sent)
                block = file.read(size)
                if not block:
                    return
                yield block
                sent += len(block)
        finally:
            if sent and hasattr(file, "seek"):
                file.seek(offset + sent)

    async def _make_subprocess_transport(self, *args: Any, **kwargs: Any) -> Any:
        self.host.escaped(
            "asyncio.create_subprocess_exec(…)",
            "another process runs in real time, and its answers are not on the tape",
            'world.host("worker").start(main)  # a process of the simulated world',
        )
