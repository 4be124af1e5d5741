"""TCP as a program sees it through Linux: one `TcpEnd` per socket.

Honest about: the handshake's round trip, segments that need not match writes, finite buffers on
both sides that push back, half-close, resets where Linux sends one (data for a closed socket, a
socket closed with unread data, no listener), silence where it does not (a dead host, a cut path),
retransmission until the kernel gives up, keep-alive probes.
Left out: congestion control, Nagle's algorithm, out-of-band data.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.tape import Stream
from foretold.trace import encode
from foretold.world.net.chunks import take
from foretold.world.net.path import Path
from foretold.world.net.wire import Timer

if TYPE_CHECKING:
    from foretold.world.net.network import Network
    from foretold.world.net.stack import Stack

S = 1_000_000_000
RTO_NS_MIN = 200_000_000
RTO_NS_MAX = 120 * S
GIVE_UP_NS = 924_600_000_000
"""How long Linux retransmits before ETIMEDOUT (tcp_retries2 = 15)."""
SYN_GIVE_UP_NS = 127 * S
"""tcp_syn_retries = 6: 1 + 2 + 4 + 8 + 16 + 32 + 64 seconds."""
SEGMENT_BYTES = (65_483, 1_448, 16_384, 4_096, 536)
"""The largest segment of a connection, drawn for each: with offload, over Ethernet, odd ones."""
BULK_BYTES, BULK_SEGMENT_BYTES = 65_536, 16_384
"""With so much to send, segments travel and are read in bundles at least this large, as the offload
of Linux makes them (TSO, GRO). It also keeps large transfers cheap to simulate."""
BURST_BYTES = 65_536
"""Segments that follow each other closely take equally long, up to so many bytes."""
HEADER_BYTES = 66
SHOWN_BYTES = 128
"""Up to so many the trace holds the bytes themselves: cheaper than a digest, and readable."""
TLS_HANDSHAKE = b"\x16\x03"

CLOSED, CONNECTING, OPEN, DEAD = "closed", "connecting", "open", "dead"


def os_error(number: int) -> OSError:
    """The exception that Python raises for an errno."""
    return OSError(number, os.strerror(number))


Message = tuple[int, int, Callable[..., object], tuple[Any, ...]]
"""When it was first sent, its size, and what happens when it arrives."""


class TcpEnd:
    """One end of a connection, as the kernel of its host keeps it."""

    def __init__(self, network: Network, stack: Stack, number: int, side: str) -> None:
        self.network = network
        self.stack = stack
        self.number = number
        self.side = side
        self.state = CLOSED
        self.local: Any = None
        self.remote: Any = None
        self.peer: TcpEnd | None = None
        self.error = 0
        """A pending errno, reported once."""
        self.was_reset = False
        self.secret = False
        """Whether what arrives is TLS, from the first handshake record on."""
        self.on_change: Callable[[], object] | None = None
        """Told whenever the socket may have become readable or writable."""
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
        self.send_limit, self.receive_limit = network.buffer_limits
        self.keepalive_s: tuple[float, float, int] | None = None
        self.user_timeout_ns = 0
        """TCP_USER_TIMEOUT: how long to go on without an answer; 0 for as long as usual."""
        self.failed_to_connect = False
        self._linger_s: int | None = None
        self._unacknowledged: deque[tuple[int, int]] = deque()
        self._unacknowledged_bytes = 0
        self._last_arrival_ns = 0
        self._delay_ns = self._burst_bytes = 0
        self._boot = stack.boots
        self._sent = self._delivered = 0
        """Numbers of what was last sent, and of what last reached the other side in order."""
        self._lost: dict[int, Message] = {}
        """What did not get through and is to be sent again."""
        self._early: dict[int, Message] = {}
        """What has arrived before something that was lost."""
        self._last_heard_ns = 0
        self._segment_bytes = self._bulk_bytes = SEGMENT_BYTES[0]
        self._stream: Stream | None = None
        self._out: Path | None = None
        """The path to the peer, from the moment at which the peer is known."""
        self._label = f"net {stack.name} {number}{side}"
        self._give_up: Timer | None = None
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
        acknowledged = self._unacknowledged
        if acknowledged:
            now = self.stack.now_ns()
            while acknowledged and acknowledged[0][0] <= now:
                self._unacknowledged_bytes -= acknowledged.popleft()[1]
        return self.send_limit - self.outgoing_bytes - self._unacknowledged_bytes

    def _want_room(self) -> None:
        self._wants_room = True
        if self._unacknowledged:
            self._tell_when_room(self._unacknowledged[0][0])

    def _tell_when_room(self, when_ns: int) -> None:
        if self._room_due_ns is None or when_ns < self._room_due_ns:
            self._room_due_ns = when_ns
            self.network.wire.at(when_ns, self._room_came, when_ns)

    def _room_came(self, when_ns: int) -> None:
        if self._room_due_ns == when_ns:
            self._room_due_ns = None
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
        self._opened_window(len(chunk))
        return chunk

    def _nothing_to_receive(self) -> bytes:
        if self.error:
            self.take_error()
        if self.eof_received or self.was_reset or self.state == DEAD:
            return b""
        if self.state != OPEN:
            raise os_error(errno.ENOTCONN)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Take as much of `data` as there is room for; returns how much."""
        if self.error:
            self.take_error()
        if self.was_reset or self.fin_wanted or self.state == DEAD:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if self.state != OPEN:
            raise os_error(errno.EAGAIN if self.state == CONNECTING else errno.EPIPE)
        size = len(data)
        if not size:
            return 0
        room = self.room()
        if room <= 0:
            self._want_room()
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        taken = bytes(data) if size <= room else bytes(memoryview(data)[:room])
        size = len(taken)
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
            self.fin_wanted = True
            self._transmit(self.stack.now_ns())

    def close(self) -> None:
        """The program, or the kernel after the process has died, closes the socket."""
        if self.closed_by_program:
            return
        self.closed_by_program = True
        self.on_change = None
        if self.state == CONNECTING:
            self._die()
        elif self.state == OPEN:
            if self.received_bytes or self._linger_s == 0:
                self.abort()  # Linux resets a connection that is closed with unread data
            else:
                self.fin_wanted = True
                self._transmit(self.stack.now_ns())
                self._leave_port()

    def abort(self) -> None:
        """Reset the connection: the peer gets ECONNRESET."""
        if self.state == OPEN:
            self._send_reset()
        self._die()

    def linger(self, seconds: int | None) -> None:
        """SO_LINGER: with 0 seconds, `close` resets the connection."""
        self._linger_s = seconds

    # --- on the wire -----------------------------------------------------------------------------

    def _peer(self) -> TcpEnd:
        assert self.peer is not None, "an open connection has two ends"
        return self.peer

    def _path(self) -> Path:
        if self._out is None:
            self._out = self.network.path(self.stack, self._peer().stack)
        return self._out

    def choices(self) -> Stream:
        """Where this end's choices come from: a stream of its own."""
        if self._stream is None:
            name = f"{self.stack.name}:{self.number}{self.side}"
            self._stream = self.network.tape.stream("net", name)
        return self._stream

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
            segment = self._cut_segment(min(window, size))
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

    def _cut_segment(self, size: int) -> bytes:
        chunk = take(self.outgoing, size)
        self.outgoing_bytes -= len(chunk)
        return chunk

    def _send_segment(self, segment: bytes, now_ns: int) -> None:
        self._unacknowledged_bytes += len(segment)
        # Bandwidth is what programs get: headers are not counted.
        self._send(now_ns, len(segment), self._peer().segment_arrives, segment)

    def _send_reset(self) -> None:
        """Once: nobody acknowledges a reset, so that a lost one is not sent again."""
        peer, path = self._peer(), self._path()
        stream = self.choices()
        if not path.open or (path.loss and stream.chance(path.loss, "reset lost")):
            return
        when_ns = path.arrival_ns(self.stack.now_ns(), HEADER_BYTES, stream)
        when_ns = self._last_arrival_ns = max(when_ns, self._last_arrival_ns + 1)
        self.network.wire.at(when_ns, self._reset_travels, peer)

    def _reset_travels(self, peer: TcpEnd) -> None:
        if self._path().open and not peer.stack.dead:
            peer.reset_arrives()

    def _send(self, now_ns: int, size: int, arrives: Callable[..., object], *content: Any) -> None:
        """Reliably and in order: what is lost or cut off is sent again."""
        self._sent = number = self._sent + 1
        self._put_on_wire(number, now_ns, (now_ns, size, arrives, content))

    def _put_on_wire(self, number: int, now_ns: int, message: Message) -> None:
        path = self._out or self._path()
        if path.cut or path.held:
            self._lose(number, message, path)
            return
        stream = self._stream or self.choices()
        if path.loss:
            now_ns += self._retransmissions_ns(path, stream)
        size = message[1]
        if now_ns > self._last_arrival_ns or self._burst_bytes <= 0:
            self._delay_ns = path.delay_ns(stream)
            self._burst_bytes = BURST_BYTES
        self._burst_bytes -= size
        when_ns = path.departure_ns(now_ns, size) + self._delay_ns
        if when_ns <= self._last_arrival_ns:
            when_ns = self._last_arrival_ns + 1
        self._last_arrival_ns = when_ns
        self.network.wire.at(when_ns, self._arrive, number, message)

    def _retransmissions_ns(self, path: Path, stream: Stream) -> int:
        lost_ns, timeout_ns = 0, RTO_NS_MIN
        while lost_ns < GIVE_UP_NS and stream.chance(path.loss, "segment lost"):
            lost_ns += timeout_ns
            timeout_ns = min(2 * timeout_ns, RTO_NS_MAX)
        return lost_ns

    def _arrive(self, number: int, message: Message) -> None:
        """It reaches the other host, unless the path was cut meanwhile or that host is dead."""
        path = self._out or self._path()
        if path.cut or path.held or self._peer().stack.dead:
            self._lose(number, message, path)
        elif number != self._delivered + 1:
            self._early[number] = message
        else:
            self._deliver(message)
            while self._early and (following := self._early.pop(self._delivered + 1, None)):
                self._deliver(following)

    def _deliver(self, message: Message) -> None:
        self._delivered += 1
        if self._give_up is not None and not self._lost:
            self._called_off()
        message[2](*message[3])

    def _lose(self, number: int, message: Message, path: Path) -> None:
        """Keep it until it can be sent again: the path is open again, or the host is up."""
        if not self._lost:
            peer = self._peer().stack
            (peer.waiting if peer.dead else path.waiting).append(self._try_again)
            self._was_held = path.held and not path.cut and not peer.dead
        self._lost[number] = message
        self._expect_answer(message[0])

    _was_held = False

    def _expect_answer(self, since_ns: int) -> None:
        """Nothing comes back: one day the kernel gives up."""
        if self._give_up is None and self.state == OPEN:
            limit_ns = self.user_timeout_ns or GIVE_UP_NS
            self._give_up = self.network.wire.timer(since_ns + limit_ns, self._gave_up)

    def _try_again(self, now_ns: int) -> None:
        """The way is open: what was held goes at once, what was lost with its retransmission."""
        due_ns = now_ns if self._was_held else self._retransmission_ns(now_ns)
        self.network.wire.at(due_ns, self._send_again, due_ns)

    def _retransmission_ns(self, now_ns: int) -> int:
        """When Linux next retransmits: 0.2 s after the loss, and then in doubling intervals."""
        due_ns = min(message[0] for message in self._lost.values())
        timeout_ns = RTO_NS_MIN
        while due_ns <= now_ns:
            due_ns += timeout_ns
            timeout_ns = min(2 * timeout_ns, RTO_NS_MAX)
        return due_ns

    def _send_again(self, now_ns: int) -> None:
        lost, self._lost = self._lost, {}
        if self.state == DEAD or self.stack.dead or self._boot != self.stack.boots:
            return  # nobody is left who could retransmit
        for number in sorted(lost):
            self._put_on_wire(number, now_ns, lost[number])

    def _called_off(self) -> None:
        if self._give_up is not None:
            self._give_up.called_off = True
            self._give_up = None

    def _gave_up(self) -> None:
        self._give_up = None
        self._fail(errno.ETIMEDOUT)

    # --- what arrives from the other side --------------------------------------------------------

    def segment_arrives(self, segment: bytes) -> None:
        sender = self._peer()
        now_ns = self.network.wire.now_ns
        if self.state != OPEN or self.closed_by_program:
            self._refuse(sender)
            return
        self._last_heard_ns = now_ns
        self.received.append(segment)
        size = len(segment)
        self.received_bytes += size
        back = self._out or self._path()
        if back.cut or back.held:
            sender._expect_answer(now_ns)
            back.waiting.append(lambda when_ns: sender.acknowledged(size, when_ns))
        else:
            sender.acknowledged(size, now_ns + back.low_ns)
        self._note("received", segment)
        if self.on_change is not None:
            self.on_change()

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

    def _answer_ns(self, now_ns: int) -> int:
        """When an acknowledgement sent now is back at the peer."""
        return now_ns + self.network.path(self.stack, self._peer().stack).low_ns

    def acknowledged(self, size: int, when_ns: int) -> None:
        self._unacknowledged.append((when_ns, size))
        if self._give_up is not None and not self._lost:
            self._called_off()
        if self._wants_room:
            self._tell_when_room(when_ns)

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
        if self.state != OPEN:
            return
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
            self._fail(errno.EPIPE if self.fin_received else errno.ECONNRESET)

    def _refuse(self, sender: TcpEnd) -> None:
        """Data for a socket that is closed: Linux answers with a reset."""
        if sender.state == OPEN and self.network.path(self.stack, sender.stack).open:
            self.network.wire.at(self._answer_ns(self.network.wire.now_ns), sender.reset_arrives)

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
