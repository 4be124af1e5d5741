"""TCP as a program sees it through Linux: one `TcpEnd` per socket.

Honest about: the handshake's round trip, segments that need not match writes, finite buffers on
both sides that push back, half-close, resets where Linux sends one (data for a closed socket, a
socket closed with unread data, no listener), silence where it does not (a dead host, a cut path),
retransmission until the kernel gives up, keep-alive probes.
Left out: congestion control, Nagle's algorithm, out-of-band data.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.trace import encode
from foretold.world.net.chunks import take
from foretold.world.net.delivery import HEADER_BYTES, RTO_NS_MIN, Delivery, S
from foretold.world.net.wire import Timer
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.knowledge import Known
    from foretold.world.net.network import Network
    from foretold.world.net.path import Path
    from foretold.world.net.stack import Stack

SYN_GIVE_UP_NS = 127 * S
"""tcp_syn_retries = 6: 1 + 2 + 4 + 8 + 16 + 32 + 64 seconds."""
SEGMENT_BYTES = (65_483, 1_448, 16_384, 4_096, 536)
"""The largest segment of a connection, drawn for each: with offload, over Ethernet, odd ones."""
BULK_BYTES, BULK_SEGMENT_BYTES = 65_536, 16_384
"""With so much to send, segments travel and are read in bundles at least this large, as the offload
of Linux makes them (TSO, GRO). It also keeps large transfers cheap to simulate."""
SHOWN_BYTES = 128
"""Up to so many the trace holds the bytes themselves: cheaper than a digest, and readable."""
TLS_HANDSHAKE = b"\x16\x03"

CLOSED, CONNECTING, OPEN, DEAD = "closed", "connecting", "open", "dead"


class TcpEnd(Delivery):
    """One end of a connection, as the kernel of its host keeps it."""

    def __init__(self, network: Network, stack: Stack, number: int, side: str) -> None:
        super().__init__(network, stack, number, side)
        self.state = CLOSED
        self.local: Any = None
        self.remote: Any = None
        self.error = 0
        """A pending errno, reported once."""
        self.was_reset = False
        self.secret = False
        """Whether what arrives is TLS, from the first handshake record on."""
        self.on_change: Callable[[], object] | None = None
        """Told whenever the socket may have become readable or writable."""
        self.on_send: Callable[[], object] | None = None
        """Told when the program sends something; for stories, which name who it was."""
        self.received: deque[bytes | memoryview] = deque()
        self.received_bytes = 0
        self.eof_received = self.fin_received = False
        self.outgoing: deque[bytes | memoryview] = deque()
        """Accepted from the program, not yet on the wire."""
        self.outgoing_bytes = 0
        self.inflight_bytes = 0
        """On the wire or in the peer's receive buffer as far as this side knows."""
        self.fin_wanted = self.fin_sent = False
        self.over = False
        """Both sides have sent their FIN."""
        self.port: int | None = None
        """The port that this socket or connection holds on its host."""
        self.closed_by_program = False
        self.deaf = False
        """Nothing that arrives will be read: it is closed, or shut down in both directions."""
        self.send_limit, self.receive_limit = network.buffer_limits
        self.keepalive_s: tuple[float, float, int] | None = None
        self.failed_to_connect = False
        self.sent_bytes = self.read_bytes = 0
        """By the program, on this end, in all."""
        self.told: list[tuple[int, Known]] = []
        """What was known when that byte was sent, as long as the peer has not read it."""
        self._linger_s: int | None = None
        self._unacknowledged: deque[tuple[int, int]] = deque()
        self._unacknowledged_bytes = 0
        self._last_heard_ns = 0
        self._segment_bytes = self._bulk_bytes = SEGMENT_BYTES[0]
        self._label = f"net {stack.name} {number}{side}"
        self._probing: Timer | None = None
        self._wants_room = False
        self._room_due_ns: int | None = None

    # --- what the program asks -------------------------------------------------------------------

    def readable(self) -> bool:
        return bool(self.received_bytes or self.eof_received or self.error or self.was_reset)

    def writable(self) -> bool:
        if self.state == CONNECTING:
            return False
        if self.error or self.was_reset or self.state != OPEN:
            return True
        if self.room() > 0:
            return True
        self._want_room()
        return False

    @property
    def connected(self) -> bool:
        """Whether there is a peer whose name can be told."""
        return self.state == OPEN and not self.over

    def room(self) -> int:
        """How many bytes the send buffer takes now."""
        if self._unacknowledged:
            self._free_acknowledged(self.stack.now_ns())
        return self.send_limit - self.outgoing_bytes - self._unacknowledged_bytes

    def _free_acknowledged(self, now_ns: int) -> None:
        acknowledged = self._unacknowledged
        while acknowledged and acknowledged[0][0] <= now_ns:
            self._unacknowledged_bytes -= acknowledged.popleft()[1]

    def _want_room(self) -> None:
        self._wants_room = True
        if self._unacknowledged:
            self._wake_when_room(self._unacknowledged[0][0])

    def _wake_when_room(self, when_ns: int) -> None:
        if self._room_due_ns is None or when_ns < self._room_due_ns:
            self._room_due_ns = when_ns
            self.network.wire.at(when_ns, self._room_came, when_ns)

    def _room_came(self, when_ns: int) -> None:
        if self._room_due_ns == when_ns:
            self._room_due_ns = None
        self._free_acknowledged(when_ns)  # the clock of a host whose threads all wait is behind
        if self._wants_room:
            self._wants_room = False
            self._changed()

    def take_error(self) -> None:
        """Raise the pending error, if there is one."""
        if self.error:
            number, self.error = self.error, 0
            raise os_error(number)

    def receive(self, size: int, *, peek: bool = False) -> bytes:
        """What has arrived, at most `size` bytes; b"" at the end of the stream."""
        if not self.received_bytes:
            return self._nothing_to_receive()
        if peek:
            return b"".join(self.received)[:size]
        chunk = take(self.received, size)
        self.received_bytes -= len(chunk)
        self.read_bytes += len(chunk)
        if self.network.knowledge is not None:
            self.network.knowledge.reads(self)
        self._opened_window(len(chunk))
        return chunk

    def _nothing_to_receive(self) -> bytes:
        if self.error and not self.fin_received:  # Linux: after a FIN only its end is told
            self.take_error()
        if self.fin_received and self.network.knowledge is not None:
            self.network.knowledge.reads(self, to_the_end=True)
        if self.eof_received or self.was_reset or self.state == DEAD:
            return b""
        if self.state != OPEN:
            raise os_error(errno.ENOTCONN)
        raise os_error(errno.EAGAIN)

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Take as much of `data` as there is room for; returns how much."""
        if self.error:
            self.take_error()
        if self.was_reset or self.fin_wanted or self.state == DEAD:
            raise os_error(errno.EPIPE)
        if self.state != OPEN:
            raise os_error(errno.EAGAIN if self.state == CONNECTING else errno.EPIPE)
        size = len(data)
        if not size:
            return 0
        if self.on_send is not None:
            self.on_send()
        room = self.room()
        if room <= 0:
            self._want_room()
            raise os_error(errno.EAGAIN)
        taken = bytes(data) if size <= room else bytes(memoryview(data)[:room])
        size = len(taken)
        if self.network.knowledge is not None:
            self.network.knowledge.sends(self)
        self.sent_bytes += size
        window = self._peer().receive_limit - self.inflight_bytes
        if size <= window and size <= self._segment_bytes and not self.outgoing_bytes:
            self.inflight_bytes += size  # the common case: one segment, at once
            self._send_segment(taken, self.stack.kernel.clock.ns)
        else:
            self.outgoing.append(taken)
            self.outgoing_bytes += size
            self._transmit(self.stack.now_ns())
        return size

    def shutdown_write(self) -> None:
        """No more will be sent; the peer reads the end of the stream after all data."""
        if self.state != OPEN:
            raise os_error(errno.ENOTCONN)
        if not self.fin_wanted:
            self._want_fin()
            self._transmit(self.stack.now_ns())
        self.deaf = self.eof_received

    def _want_fin(self) -> None:
        self.fin_wanted = True
        if self.network.knowledge is not None:
            self.network.knowledge.sends(self)

    def shutdown_read(self) -> None:
        """The program reads the end of the stream. What arrives is kept, as Linux does, until the
        other direction is shut down as well."""
        self.eof_received = True
        self.deaf = self.fin_wanted

    def close(self) -> None:
        """The program, or the kernel after the process has died, closes the socket."""
        if self.closed_by_program:
            return
        self.closed_by_program = self.deaf = True
        self.on_change = None
        if self.state == CONNECTING:
            self._die()
        elif self.state == OPEN:
            if self.received_bytes or self._linger_s == 0:
                self.abort()  # Linux resets a connection that is closed with unread data
            else:
                self._want_fin()
                self._transmit(self.stack.now_ns())
                self._leave_port()

    def abort(self) -> None:
        """Reset the connection: the peer gets ECONNRESET."""
        if self.state == OPEN:
            now_ns = self.stack.now_ns()
            self._break_off(now_ns, says_so=True)
        self._die()

    def linger(self, seconds: int | None) -> None:
        """SO_LINGER: with 0 seconds, `close` resets the connection."""
        self._linger_s = seconds

    # --- on the wire -----------------------------------------------------------------------------

    def is_up(self) -> bool:
        """Whether there still is a kernel that knows of this end as of a living one."""
        return self.state == OPEN and not self.stack.dead and self._boot == self.stack.boots

    def open(self, peer: TcpEnd, now_ns: int) -> None:
        """The handshake is over for this end."""
        self.peer = peer
        self.state = OPEN
        self._last_heard_ns = now_ns
        self._segment_bytes = self.choices().pick(SEGMENT_BYTES, "largest segment")
        self._bulk_bytes = max(self._segment_bytes, BULK_SEGMENT_BYTES)
        self._arm_keepalive(now_ns)
        self._changed()

    def _transmit(self, now_ns: int) -> None:
        """Put on the wire what the peer's window allows."""
        peer = self._peer()
        while self.outgoing_bytes:
            window = peer.receive_limit - self.inflight_bytes
            if window <= 0:
                return
            size = self._segment_bytes if self.outgoing_bytes < BULK_BYTES else self._bulk_bytes
            segment = take(self.outgoing, min(window, size))
            self.outgoing_bytes -= len(segment)
            self.inflight_bytes += len(segment)
            self._send_segment(segment, now_ns)
        if self.fin_wanted and not self.fin_sent:
            self.fin_sent = True
            self._closed_first = not self.fin_received
            self._send(now_ns, HEADER_BYTES, peer.fin_arrives)
            self._leave_port()
            if self.closed_by_program:
                self.stack.ends.pop(id(self), None)

    _closed_first = False

    def _leave_port(self) -> None:
        """Who closes first is left with TIME_WAIT, or with FIN_WAIT2 if the other never does."""
        if not self.fin_sent:
            return
        if self.fin_received:
            self.over = True
            if not self._closed_first:
                self.stack.unbind(self)
                return
        if self.over or self.closed_by_program:
            self.stack.linger(self)

    def _send_segment(self, segment: bytes, now_ns: int) -> None:
        self._unacknowledged_bytes += len(segment)
        # Bandwidth is what programs get: headers are not counted.
        self._send(now_ns, len(segment), self._peer().segment_arrives, segment)

    def _gave_up(self) -> None:
        self._give_up = None
        self._fail(errno.ETIMEDOUT)

    # --- what arrives from the other side --------------------------------------------------------

    def segment_arrives(self, segment: bytes) -> None:
        sender = self._peer()
        now_ns = self.network.wire.now_ns
        if self.state != OPEN or self.deaf:
            self._refuse(sender)  # nobody will ever read it
            if not self.closed_by_program:  # shut down in both directions: Linux gives up on it too
                self._fail(errno.ECONNRESET)
            return
        self._last_heard_ns = now_ns
        self.received.append(segment)
        size = len(segment)
        self.received_bytes += size
        if self.sent_bytes:
            self._heard(size, now_ns)
        back = self._out or self._path()
        if back.cut or back.held:
            self._acknowledge_later(sender, size, back)
        else:
            sender.acknowledged(size, now_ns + back.low_ns)
        self._note("received", segment)
        if self.on_change is not None:
            self.on_change()

    def _acknowledge_later(self, sender: TcpEnd, size: int, back: Path) -> None:
        """When the path is open again. If this end is gone by then, the sender learns that."""
        sender._expect_answer(self.network.wire.now_ns)
        is_lost = back.cut

        def acknowledge(when_ns: int) -> None:
            if is_lost and not self.is_up():
                self._peer_retransmits(when_ns, RTO_NS_MIN)
            else:
                sender.acknowledged(size, when_ns)

        back.waiting.append(acknowledge)

    def _note(self, what: str, content: bytes) -> None:
        """Put what crossed the seam into the trace.

        Of TLS the size alone: a server's session tickets are sealed with a key that was made when
        its context was, before the run; what is inside was noted where it was plain.
        """
        if self.secret or content.startswith(TLS_HANDSHAKE):
            self.secret = True  # from here on: STARTTLS comes after lines that are plain
            shown = f"<{len(content)} bytes of TLS>"
        else:
            shown = repr(content) if len(content) <= SHOWN_BYTES else encode(content)
        self.network.trace.note(f"{self._label} {what} {shown}")

    def acknowledged(self, size: int, when_ns: int) -> None:
        self._unacknowledged.append((when_ns, size))
        if self._give_up is not None:
            self._answered()
        if self._wants_room:
            self._wake_when_room(when_ns)

    def _opened_window(self, size: int) -> None:
        """The program has read: tell the peer that there is room again, if it waits for that."""
        peer = self.peer
        if peer is None:
            return
        if peer.outgoing_bytes:
            back = self.network.path(self.stack, peer.stack)
            if back.open:
                when_ns = self.stack.now_ns() + back.low_ns
                self.network.wire.at(when_ns, peer.window_opens, size)
            else:
                back.waiting.append(lambda now_ns: peer.window_opens(size))
        else:
            peer.inflight_bytes -= size

    def window_opens(self, size: int) -> None:
        self.inflight_bytes -= size
        if self.state == OPEN and not self.stack.dead:
            self._transmit(self.network.wire.now_ns)

    def fin_arrives(self) -> None:
        sender = self._peer()
        if self.state != OPEN:
            self._refuse(sender)
            return
        sender._answered()
        self.eof_received = self.fin_received = True
        self._leave_port()
        self._note("end of stream", b"")
        self._changed()

    def reset_arrives(self) -> None:
        if self.stack.dead or self.state not in (OPEN, CONNECTING):
            return
        self._note("reset", b"")
        if self.state == CONNECTING:
            self._fail(errno.ECONNREFUSED)
        else:  # in CLOSE_WAIT, Linux reports EPIPE instead
            waits_for_close = self.fin_received and not self.fin_sent
            self._fail(errno.EPIPE if waits_for_close else errno.ECONNRESET)

    def _fail(self, number: int) -> None:
        if self.state == DEAD:
            return
        self.failed_to_connect = self.state == CONNECTING
        self._die()
        self.error = number
        self.was_reset = True
        self._changed()

    def _die(self) -> None:
        self.state = DEAD
        if self.port is not None:
            self.stack.unbind(self)
        self._called_off()
        self.outgoing.clear()
        self.outgoing_bytes = 0
        self.stack.ends.pop(id(self), None)
        if self._probing is not None:
            self._probing.called_off = True

    def vanish(self) -> None:
        """The host has lost its power: nothing is sent, nobody is told."""
        if self.state == OPEN:
            self._break_off(self.network.now_ns())
        self.on_change = None
        self.closed_by_program = True
        self._die()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # --- keep-alive ------------------------------------------------------------------------------

    def keep_alive(self, idle_s: float, interval_s: float, probes: int) -> None:
        """SO_KEEPALIVE: ask a silent peer whether it is still there."""
        self.keepalive_s = (idle_s, interval_s, probes)
        if self.state == OPEN:
            self._arm_keepalive(self.stack.now_ns())

    def _arm_keepalive(self, now_ns: int) -> None:
        if self.keepalive_s is not None:
            self._probe_at(now_ns + int(self.keepalive_s[0] * S), 0)

    def _probe_at(self, due_ns: int, unanswered: int) -> None:
        if self._probing is not None:
            self._probing.called_off = True
        self._probing = self.network.wire.vain_timer(
            due_ns, self._is_answered, self._probe, unanswered
        )

    def _is_answered(self) -> bool:
        """Whether a probe would find the peer as it should be, and change nothing."""
        peer = self._peer()
        there, back = self._path(), self.network.path(peer.stack, self.stack)
        return there.open and back.open and not peer.stack.dead and peer.state == OPEN

    def _probe(self, unanswered: int) -> None:
        if self.state != OPEN or self.keepalive_s is None or self.stack.dead:
            return
        idle_s, interval_s, probes = self.keepalive_s
        now_ns = self.network.wire.now_ns
        due_ns = self._last_heard_ns + int(idle_s * S)
        if now_ns < due_ns:
            self._probe_at(due_ns, 0)
            return
        self.room()  # which forgets what has been acknowledged
        if self._unacknowledged_bytes or self._lost or self._held:
            # Linux sends no probes then: it retransmits.
            self._probe_at(now_ns + int(idle_s * S), 0)
            return
        peer = self._peer()
        there, back = self._path(), self.network.path(peer.stack, self.stack)
        if there.open and back.open and not peer.stack.dead:
            if peer.state != OPEN:
                self._fail(errno.ECONNRESET)
                return
            self._last_heard_ns = now_ns
            self._arm_keepalive(now_ns)
        elif unanswered >= probes:
            self._fail(errno.ETIMEDOUT)
        else:
            self._probe_at(now_ns + int(interval_s * S), unanswered + 1)
