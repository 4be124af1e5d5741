"""UDP: datagrams that may be lost, doubled or reordered, and never split.

They are reordered only on a path that has this fault: elsewhere those of one flow (from one address
to another) arrive in their order, and on a loopback all do.

Left out: multicast and broadcast (a send to such an address raises), and fragmentation of large
datagrams as a cause of loss.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from foretold.tape import Stream
from foretold.trace import encode
from foretold.world.net.addresses import mapped, unmapped
from foretold.world.net.stack import ANY, BoundAddress
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.knowledge import Known
    from foretold.world.net.network import Network
    from foretold.world.net.stack import Stack

DATAGRAM_BYTES_MAX = 65_507
OVERHEAD_BYTES = 42
PER_DATAGRAM_BYTES = 768
"""What the kernel charges a receive buffer for one datagram besides its content, about."""
FLOWS_MAX = 1_024
SHARING = 60
"""Which of several sockets gets a flow is drawn as one of so many, counted round and round."""


class UdpEnd:
    def __init__(self, network: Network, stack: Stack, number: int) -> None:
        self.network = network
        self.stack = stack
        self.number = number
        self.local: Any = None
        self.claim = BoundAddress("", False, False, False)
        """Its address, IPv4 if it is one in IPv6's clothes."""
        self.remote: Any = None
        self.peer_address: Any = None
        """The remote one, in the same way."""
        self.received: deque[tuple[bytes, Any, Known | None]] = deque()
        self.received_bytes = 0
        self.receive_limit = network.datagram_limits[1]
        self.error = 0
        self.closed = False
        self.on_change: Callable[[], object] | None = None
        self._stream: Stream | None = None
        self._flows: dict[tuple[str, int], int] = {}
        """When the last datagram arrives, by where it goes."""
        self._turns: dict[tuple[str, int], int] = {}

    def choices(self) -> Stream:
        if self._stream is None:
            self._stream = self.network.tape.stream("net", f"{self.stack.name}:u{self.number}")
        return self._stream

    def readable(self) -> bool:
        return bool(self.received or self.error)

    def writable(self) -> bool:
        return True

    def bind(self, address: Any, claim: BoundAddress) -> None:
        self.local, self.claim = address, claim
        self.stack.udp.setdefault((claim.ip, address[1]), []).append(self)

    def connect(self, address: Any) -> None:
        """Speak to one address alone. A socket that was bound to any has its own from now on."""
        ip, port = self._plain(address)
        if self.local[0] in ANY.values():
            own = self.stack.source_for(ip)
            self._leave()
            self.bind(self._shown((own, self.local[1])), self.claim._replace(ip=own))
        self.peer_address = (ip, port)
        self.remote = self._shown(self.peer_address)

    def hears(self, source: Any) -> bool:
        """Whether it takes what comes from there: who is connected hears its peer alone."""
        return self.remote is None or source == self.peer_address

    def _shown(self, address: Any) -> Any:
        """An address as this socket's family writes it."""
        ip, port = address
        return (ip, port) if len(self.local) == 2 else (mapped(ip), port, 0, 0)

    def _plain(self, address: Any) -> tuple[str, int]:
        """Where that leads, as IPv4 if it is: Linux takes "any" for the host itself."""
        ip = unmapped(address[0])
        through = self.claim.ip
        if ip != address[0] and (self.claim.only_six or (":" in through and through != "::")):
            raise os_error(errno.ENETUNREACH)
        if ip in ANY.values():
            ip = "::1" if ":" in ip else "127.0.0.1"
        return ip, address[1]

    def send(self, data: bytes, address: Any) -> int:
        if self.error:
            number, self.error = self.error, 0
            raise os_error(number)
        if len(data) > DATAGRAM_BYTES_MAX:
            raise os_error(errno.EMSGSIZE)
        to = self._plain(address)
        target = self.network.find(self.stack, to[0])
        if target is not None:
            self._transmit(bytes(data), to, target)
        return len(data)

    def _transmit(self, data: bytes, to: tuple[str, int], target: Stack) -> None:
        path, stream = self.network.path(self.stack, target), self.choices()
        if not path.carries_datagrams:
            back = self.network.path(target, self.stack)
            path.carries_datagrams = back.carries_datagrams = True
        if path.cut or (path.loss and stream.chance(path.loss, "datagram lost")):
            return
        knowledge = self.network.knowledge
        known = None if knowledge is None else knowledge.of(self.stack.name)
        copies = 1
        if path.duplication and stream.chance(path.duplication, "datagram doubled"):
            copies = 2
        for _ in range(copies):
            detour = bool(path.reordering) and stream.chance(path.reordering, "datagram overtaken")
            send_on = partial(self._send_on, data, to, target, detour, known)
            if path.keeps:
                path.waiting.append(send_on)
            else:
                send_on(self.stack.now_ns())

    def _send_on(
        self,
        data: bytes,
        to: tuple[str, int],
        target: Stack,
        detour: bool,
        known: Known | None,
        now_ns: int,
    ) -> None:
        path = self.network.path(self.stack, target)
        when_ns = path.arrival_ns(now_ns, len(data) + OVERHEAD_BYTES, self.choices())
        if detour:
            when_ns += path.detour_ns()
        elif target is self.stack:
            when_ns = path.in_order_ns(when_ns)
        else:
            when_ns = self._in_order_ns(to, when_ns, now_ns)
        ip = self.claim.ip
        source = (self.stack.source_for(to[0]) if ip in ANY.values() else ip, self.local[1])
        self.network.wire.at(when_ns, self._arrive, data, source, to, target, known)

    def _in_order_ns(self, to: tuple[str, int], when_ns: int, now_ns: int) -> int:
        """Datagrams of one flow take the same way: none overtakes another by chance alone."""
        flows = self._flows
        if len(flows) > FLOWS_MAX:  # those that are over
            flows = self._flows = {key: ns for key, ns in flows.items() if ns > now_ns}
        flows[to] = when_ns = max(when_ns, flows.get(to, 0))
        return when_ns

    def goal_of(self, name: str, args: Any) -> object:
        """The stack that the method `name` reaches when it is called from the wire."""
        return args[3] if name == "_arrive" else None

    def _arrive(
        self, data: bytes, source: Any, to: tuple[str, int], target: Stack, known: Known | None
    ) -> None:
        if target.dead or self.network.path(self.stack, target).cut:
            return
        found = target.datagrams_for(*to, source)
        if not found:
            self._unreachable(target)
        elif len(found) == 1:
            found[0].deliver(data, source, known)
        else:
            if to not in self._turns:  # always the same for one flow, as by Linux's hash
                self._turns[to] = self.choices().choose(SHARING, "which socket")
            found[self._turns[to] % len(found)].deliver(data, source, known)

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

    def deliver(self, data: bytes, source: Any, known: Known | None = None) -> None:
        if self.closed:
            return
        charged = len(data) + PER_DATAGRAM_BYTES
        if self.received and self.received_bytes + charged > self.receive_limit:
            return  # the receive buffer is full: the kernel drops it
        self.received.append((data, self._shown(source), known))
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
            raise os_error(errno.EAGAIN)
        data, source, known = self.received[0]
        self.truncated = len(data) > size
        if known is not None and self.network.knowledge is not None:
            self.network.knowledge.learns(self.stack.name, known)
        if not peek:
            self.received.popleft()
            self.received_bytes -= len(data) + PER_DATAGRAM_BYTES
        return data[:size], source

    def close(self) -> None:
        self.closed = True
        if self.local is not None:
            self._leave()

    def _leave(self) -> None:
        place = (self.claim.ip, self.local[1])
        bound = self.stack.udp.get(place, [])
        if self in bound:
            bound.remove(self)
        if not bound:
            self.stack.udp.pop(place, None)

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()
