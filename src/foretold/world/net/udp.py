"""UDP: datagrams that may be lost, doubled or reordered, and never split.

Left out: multicast and broadcast (a send to such an address raises), and fragmentation of large
datagrams as a cause of loss.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.tape import Stream
from foretold.trace import encode
from foretold.world.net.stack import ANY
from foretold.world.net.tcp import os_error

if TYPE_CHECKING:
    from foretold.world.net.network import Network
    from foretold.world.net.stack import Stack

DATAGRAM_BYTES_MAX = 65_507
OVERHEAD_BYTES = 42
PER_DATAGRAM_BYTES = 512
"""What the kernel charges a receive buffer for one datagram besides its content, about."""


class UdpEnd:
    """One datagram socket."""

    def __init__(self, network: Network, stack: Stack, number: int) -> None:
        self.network = network
        self.stack = stack
        self.number = number
        self.local: Any = None
        self.remote: Any = None
        self.received: deque[tuple[bytes, Any]] = deque()
        self.received_bytes = 0
        self.error = 0
        self.closed = False
        self.on_change: Callable[[], object] | None = None
        self._stream: Stream | None = None

    def choices(self) -> Stream:
        if self._stream is None:
            self._stream = self.network.tape.stream("net", f"{self.stack.name}:u{self.number}")
        return self._stream

    def readable(self) -> bool:
        return bool(self.received or self.error)

    def writable(self) -> bool:
        return True

    def bind(self, address: Any) -> None:
        self.local = address
        self.stack.udp.setdefault((address[0], address[1]), []).append(self)

    def send(self, data: bytes, address: Any) -> int:
        if self.error:
            number, self.error = self.error, 0
            raise os_error(number)
        if len(data) > DATAGRAM_BYTES_MAX:
            raise os_error(errno.EMSGSIZE)
        target = self.network.find(self.stack, address[0])
        if target is not None:
            self._transmit(bytes(data), address, target)
        return len(data)

    def _transmit(self, data: bytes, address: Any, target: Stack) -> None:
        path, stream = self.network.path(self.stack, target), self.choices()
        now_ns = self.stack.now_ns()
        if path.cut or (path.loss and stream.chance(path.loss, "datagram lost")):
            return
        copies = 1
        if path.duplication and stream.chance(path.duplication, "datagram doubled"):
            copies = 2
        for _ in range(copies):
            if path.reordering and stream.chance(path.reordering, "datagram overtaken"):
                self._send_on(data, address, target, now_ns + path.detour_ns())
            elif path.keeps:
                path.waiting.append(lambda when_ns: self._send_on(data, address, target, when_ns))
            else:
                self._send_on(data, address, target, now_ns)

    def _send_on(self, data: bytes, address: Any, target: Stack, now_ns: int) -> None:
        path = self.network.path(self.stack, target)
        when_ns = path.arrival_ns(now_ns, len(data) + OVERHEAD_BYTES, self.choices())
        source = self.local
        if source[0] in ANY.values():
            source = (self.stack.source_for(address[0]), *source[1:])
        self.network.wire.at(when_ns, self._arrive, data, source, address, target)

    def _arrive(self, data: bytes, source: Any, address: Any, target: Stack) -> None:
        if target.dead or self.network.path(self.stack, target).cut:
            return
        any_ip = "::" if ":" in address[0] else "0.0.0.0"
        found = target.udp.get((address[0], address[1])) or target.udp.get((any_ip, address[1]))
        if not found:
            self._unreachable(target)
            return
        found[0].deliver(data, source)

    def _unreachable(self, target: Stack) -> None:
        """Nobody listens: the other kernel says so, and a connected socket hears of it."""
        back = self.network.path(target, self.stack)
        if self.remote is None or not back.open:
            return
        if back.loss and self.choices().chance(back.loss, "answer lost"):
            return
        wire = self.network.wire
        wire.at(back.arrival_ns(wire.now_ns, OVERHEAD_BYTES, self.choices()), self._refused)

    def _refused(self) -> None:
        if not self.closed and not self.stack.dead:
            self.error = errno.ECONNREFUSED
            self._changed()

    def deliver(self, data: bytes, source: Any) -> None:
        if self.closed or (self.remote is not None and source[:2] != self.remote[:2]):
            return
        charged = len(data) + PER_DATAGRAM_BYTES
        if self.received_bytes + charged > self.network.buffer_limits[0]:
            return  # the receive buffer is full: the kernel drops it
        self.received.append((data, source))
        self.received_bytes += charged
        self.stack.kernel.trace.note(
            "net", self.stack.name, f"u{self.number}", "datagram", encode(data)
        )
        self._changed()

    truncated = False
    """Whether the datagram received last was longer than its reader wanted."""

    def receive(self, size: int, *, peek: bool = False) -> tuple[bytes, Any]:
        if self.error:
            number, self.error = self.error, 0
            raise os_error(number)
        if not self.received:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data, source = self.received[0]
        self.truncated = len(data) > size
        if not peek:
            self.received.popleft()
            self.received_bytes -= len(data) + PER_DATAGRAM_BYTES
        return data[:size], source

    def close(self) -> None:
        self.closed = True
        if self.local is not None:
            bound = self.stack.udp.get(self.local[:2], [])
            if self in bound:
                bound.remove(self)
            if not bound:
                self.stack.udp.pop(self.local[:2], None)

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()
