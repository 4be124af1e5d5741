"""Unix sockets: what is sent is there at once, and their addresses are files.

Honest about: files that stay when their socket is closed, abstract names, unnamed ends, buffers
that push back, hang-ups, messages that keep their bounds (SOCK_SEQPACKET, SOCK_DGRAM).
Left out: descriptors and credentials sent along (SCM_RIGHTS, SCM_CREDENTIALS), rights of files.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

from foretold.trace import encode
from foretold.world.net.chunks import take
from foretold.world.net.tcp import CLOSED, DEAD, OPEN, TcpEnd
from foretold.world.net.udp import UdpEnd
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.net.network import Network
    from foretold.world.net.stack import Stack

BUFFER_BYTES = 212_992
PER_MESSAGE_BYTES = 768
"""What the kernel charges a send buffer for one message besides its content, about."""
PIECE_BYTES = 32_768
"""A stream is kept in pieces of at most this size."""
DATAGRAMS_MAX = 11
"""So many wait at a receiver before its senders have to (net.unix.max_dgram_qlen is 10)."""


class UnixEnd(TcpEnd):
    """One end of a connection within a host: a stream, or a sequence of packets."""

    def __init__(self, network: Network, stack: Stack, number: int, side: str) -> None:
        super().__init__(network, stack, number, side)
        self.send_limit = self.receive_limit = BUFFER_BYTES
        self.packets = False
        self.truncated = False
        """Whether the packet received last was longer than its reader wanted."""
        self.hung_up = False
        """The peer has closed its end."""
        self.used_bytes = 0
        """Of this end's send buffer: what the peer has not read."""
        self._charges: deque[int] = deque()

    def _unix_peer(self) -> UnixEnd:
        peer = self.peer
        assert isinstance(peer, UnixEnd), "both ends are of one kind"
        return peer

    def readable(self) -> bool:
        return bool(self.received) or super().readable()

    def writable(self) -> bool:
        if self.state != OPEN or self.hung_up or 4 * self.used_bytes <= self.send_limit:
            return True
        self._wants_room = True
        return False

    def receive(self, size: int, *, peek: bool = False) -> bytes:
        if not self.received:
            if self.state == CLOSED:
                raise os_error(errno.EINVAL)
            return self._nothing_to_receive()
        if peek:
            return b"".join(self.received)[:size] if not self.packets else self.received[0][:size]  # type: ignore[return-value]  # packets are bytes
        chunks = len(self.received)
        if self.packets:
            whole = bytes(self.received.popleft())
            self.received_bytes -= len(whole)
            chunk = whole[:size]
            self.truncated = len(whole) > size
        else:
            chunk = take(self.received, size)
            self.received_bytes -= len(chunk)
        for _ in range(chunks - len(self.received)):
            self._unix_peer().gets_room(self._charges.popleft())
        return chunk

    def _nothing_to_receive(self) -> bytes:
        self.take_error()  # before the end of the stream, unlike TCP
        return super()._nothing_to_receive()

    def gets_room(self, size: int) -> None:
        """The peer has read a message."""
        self.used_bytes -= size
        if self._wants_room:
            self._wants_room = False
            self._changed()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        if self.state not in (OPEN, DEAD):
            raise os_error(errno.ENOTCONN)
        if self.state == DEAD or self.fin_wanted or self.hung_up or self._unix_peer().eof_received:
            raise os_error(errno.EPIPE)
        size, room = len(data), self.send_limit - self.used_bytes
        if self.packets and size > self.send_limit - PER_MESSAGE_BYTES:
            raise os_error(errno.EMSGSIZE)
        if room <= 0 or (self.packets and size + PER_MESSAGE_BYTES > room):
            self._wants_room = True
            raise os_error(errno.EAGAIN)
        step, sent = size if self.packets else PIECE_BYTES, 0
        while self.packets or (sent < size and self.used_bytes < self.send_limit):
            piece = bytes(memoryview(data)[sent : sent + step])
            charge = len(piece) + PER_MESSAGE_BYTES
            self.used_bytes += charge
            self._unix_peer().takes(piece, charge)
            sent += len(piece)
            if self.packets:
                break
        return sent

    def takes(self, data: bytes, charge: int) -> None:
        """Something was sent: it is here at once."""
        self.received.append(data)
        self.received_bytes += len(data)
        self._charges.append(charge)
        self._note("received", data)
        self._changed()

    def shutdown_write(self) -> None:
        if self.state != OPEN:
            raise os_error(errno.ENOTCONN)
        if not self.fin_wanted:
            self.fin_wanted = True
            self._unix_peer().fin_arrives()

    def close(self) -> None:
        if self.closed_by_program:
            return
        self.closed_by_program = True
        self.on_change = None
        self._hang_up(reset=bool(self.received))

    def abort(self) -> None:
        self._hang_up(reset=True)

    def _hang_up(self, *, reset: bool) -> None:
        if self.state == OPEN and self._unix_peer().state == OPEN:
            peer = self._unix_peer()
            peer.hung_up = peer.eof_received = True
            peer.error = errno.ECONNRESET if reset else peer.error
            peer._note("reset" if reset else "end of stream", b"")
            peer._changed()
        self._die()


class UnixDatagrams(UdpEnd):
    """A unix datagram socket, or one end of a pair of them. Nothing is lost: who sends waits."""

    def __init__(self, network: Network, stack: Stack, number: int) -> None:
        super().__init__(network, stack, number)
        self.peer: UnixDatagrams | None = None
        self.shut_read = self.shut_write = False
        self._waiting: list[UnixDatagrams] = []

    @property
    def full(self) -> bool:
        return len(self.received) >= DATAGRAMS_MAX

    def readable(self) -> bool:
        return bool(self.received or self.error or self.shut_read)

    def writable(self) -> bool:
        if self.peer is None or self.peer.closed or not self.peer.full:
            return True
        self.peer.wake_for_room(self)
        return False

    def wake_for_room(self, sender: UnixDatagrams) -> None:
        if sender not in self._waiting:
            self._waiting.append(sender)

    def connect_to(self, target: UnixDatagrams, address: Any) -> None:
        self.peer, self.remote = target, address

    def send(self, data: bytes, address: Any) -> int:
        """To a socket's address, or to the peer if that is None."""
        target = self._peer_now() if address is None else self._find(address)
        if self.shut_write or target.shut_read:
            raise os_error(errno.EPIPE)
        if target.peer is not None and target.peer is not self:
            raise os_error(errno.EPERM)
        if len(data) > BUFFER_BYTES - PER_MESSAGE_BYTES:
            raise os_error(errno.EMSGSIZE)
        if target.full:
            target.wake_for_room(self)
            raise os_error(errno.EAGAIN)
        target.takes(data, self.local)
        return len(data)

    def _peer_now(self) -> UnixDatagrams:
        if self.peer is None:
            raise os_error(errno.ENOTCONN)
        if self.peer.closed:  # said once: from then on there is no peer
            self.peer = self.remote = None
            raise os_error(errno.ECONNREFUSED)
        return self.peer

    def _find(self, address: Any) -> UnixDatagrams:
        end = self.stack.unix.find(address).end
        if not isinstance(end, UnixDatagrams):
            raise os_error(errno.EPROTOTYPE)
        return end

    def takes(self, data: bytes, source: Any) -> None:
        """Something was sent: it is here at once."""
        self.received.append((data, source, None))
        self.stack.kernel.trace.note(
            "net", self.stack.name, f"u{self.number}", "datagram", encode(data)
        )
        self._changed()

    def receive(self, size: int, *, peek: bool = False) -> tuple[bytes, Any]:
        if not self.received:
            if self.shut_read:
                return b"", None
            raise os_error(errno.EAGAIN)
        data, source, _ = self.received[0]
        self.truncated = len(data) > size
        if not peek:
            self.received.popleft()
            waiting, self._waiting = self._waiting, []
            for sender in waiting:
                sender._changed()
        return data[:size], source

    def close(self) -> None:
        self.closed = True
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender._changed()
