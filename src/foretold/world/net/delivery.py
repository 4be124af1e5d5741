"""How one end of a connection gets its segments to the other: reliably and in order.

What is lost, cut off or sent to a dead host is sent again with TCP's retransmissions, each of which
meets the network as it is at that instant. What is held or clogged waits in the network, whatever
becomes of its sender, a reset too. A reset that is lost is gone: nobody acknowledges one. But a
peer whose own data was not acknowledged either retransmits that, and is answered with a reset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.tape import Stream
from foretold.world.net.path import Path
from foretold.world.net.wire import Timer

if TYPE_CHECKING:
    from foretold.world.net.network import Network
    from foretold.world.net.stack import Stack
    from foretold.world.net.tcp import TcpEnd

S = 1_000_000_000
RTO_NS_MIN = 200_000_000
RTO_NS_MAX = 120 * S
GIVE_UP_NS = 924_600_000_000
"""How long Linux retransmits before ETIMEDOUT (tcp_retries2 = 15)."""
ACK_DELAY_NS = 40_000_000
"""Linux waits so long with the acknowledgement of a request, for an answer that could carry it. It
does so on connections on which it has answered before, and for one small segment."""
ACK_DELAYED_BYTES = 1_448
ACKNOWLEDGED, NOT_SOON = -1, 1 << 62
BURST_BYTES = 65_536
"""Segments that follow each other closely take equally long, up to so many bytes."""
HEADER_BYTES = 66

Message = tuple[int, int, Callable[..., object], tuple[Any, ...]]
"""When it was first sent, its size, and what happens when it arrives."""


class Delivery:
    def __init__(self, network: Network, stack: Stack, number: int, side: str) -> None:
        self.network = network
        self.stack = stack
        self.number = number
        self.side = side
        self.peer: TcpEnd | None = None
        self.user_timeout_ns = 0
        """TCP_USER_TIMEOUT: how long to go on without an answer; 0 for as long as usual."""
        self._boot = stack.boots
        self._last_arrival_ns = 0
        self._delay_ns = self._burst_bytes = 0
        self._sent = self._delivered = 0
        """Numbers of what was last sent, and of what last reached the other side in order."""
        self._lost: dict[int, Message] = {}
        """What did not get through and is to be sent again."""
        self._held: dict[int, Message] = {}
        """What waits in the network until that lets it go."""
        self._early: dict[int, Message] = {}
        """What has arrived before something that was lost."""
        self._stream: Stream | None = None
        self._out: Path | None = None
        """The path to the peer, from the moment at which the peer is known."""
        self._give_up: Timer | None = None
        self._ack_due_ns = 0
        """When the peer knows that what it last sent has arrived, if this end sends nothing. 0 if
        nothing has arrived since this end has sent something."""

    _peer_again_ns = 0
    """Not 0: if a reset of this end is lost, the peer retransmits after so long."""
    _reset_held = False
    """A reset waits in the network, behind the segments."""
    _insisting = False
    """The peer's kernel knows nothing of this connection, and its reset was lost."""

    def _heard(self, size: int, now_ns: int) -> None:
        """Something has arrived after this end has answered before."""
        if self._ack_due_ns or size > ACK_DELAYED_BYTES:
            self._ack_due_ns = ACKNOWLEDGED
        else:
            self._ack_due_ns = now_ns + ACK_DELAY_NS

    def is_up(self) -> bool:
        """Whether there still is a kernel that knows of this end as of a living one."""
        raise NotImplementedError

    def reset_arrives(self) -> None:
        """The other side says that there is no connection."""
        raise NotImplementedError

    def _gave_up(self) -> None:
        raise NotImplementedError

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

    # --- segments --------------------------------------------------------------------------------

    def _send(self, now_ns: int, size: int, arrives: Callable[..., object], *content: Any) -> None:
        """Reliably and in order: what is lost or cut off is sent again."""
        self._sent = number = self._sent + 1
        self._put_on_wire(number, now_ns, (now_ns, size, arrives, content))

    def _put_on_wire(self, number: int, now_ns: int, message: Message) -> None:
        path = self._out or self._path()
        if path.cut or path.held or path.clogged_until_ns:
            self._keep(number, message, path)
            return
        stream = self._stream or self.choices()
        if path.loss and stream.chance(path.loss, "segment lost"):
            self._send_later(number, now_ns, message)
            return
        size = message[1]
        if now_ns > self._last_arrival_ns or self._burst_bytes <= 0:
            self._delay_ns = path.delay_ns(stream)
            self._burst_bytes = BURST_BYTES
        self._burst_bytes -= size
        when_ns = now_ns if path.bytes_per_s is None else path.departure_ns(now_ns, size)
        when_ns += self._delay_ns
        if when_ns <= self._last_arrival_ns:
            # Between hosts, two segments are two events. Within one, they are there when the
            # program has sent them, also if its clock stands still.
            when_ns = self._last_arrival_ns + (path.high_ns > 0)
        self._last_arrival_ns = when_ns
        self._ack_due_ns = 0
        self.network.wire.at(when_ns, self._arrive, number, message)

    def goal_of(self, name: str, args: Any) -> object:
        """The stack that the method `name` reaches when it is called from the wire."""
        return self.peer.stack if name == "_arrive" and self.peer is not None else None

    def _arrive(self, number: int, message: Message) -> None:
        """It reaches the other host, unless the path was cut meanwhile or that host is dead."""
        path = self._out or self._path()
        if path.cut or path.held or self._peer().stack.dead:
            self._keep(number, message, path)
        elif number != self._delivered + 1:
            self._early[number] = message
        else:
            self._delivered = number
            message[2](*message[3])
            while self._early and (following := self._early.pop(self._delivered + 1, None)):
                self._delivered += 1
                following[2](*following[3])

    def _keep(self, number: int, message: Message, path: Path) -> None:
        """It cannot go on: it waits in the network, or it is lost."""
        peer = self._peer().stack
        if path.cut or peer.dead:
            if self._ack_due_ns > message[0]:
                self._ack_due_ns = NOT_SOON
            if not self._lost:
                (peer.waiting if peer.dead else path.waiting).append(self._try_again)
            self._lost[number] = message
        else:
            self._wait_in_network(path)
            self._held[number] = message
        self._expect_answer(message[0])

    def _wait_in_network(self, path: Path) -> None:
        if not self._held and not self._reset_held:
            path.waiting.append(self._released)

    def _released(self, now_ns: int) -> None:
        """The network lets go what it held, in its order."""
        held, self._held = self._held, {}
        for number in sorted(held):
            self._put_on_wire(number, max(now_ns, held[number][0]), held[number])
        if self._reset_held:
            self._reset_held = False
            self._reset_leaves(now_ns)

    # --- retransmission --------------------------------------------------------------------------

    def _send_later(self, number: int, now_ns: int, message: Message) -> None:
        """This one was lost by chance: it is sent again in its time."""
        due_ns = _retransmission_ns(message[0], now_ns)
        if self._ack_due_ns > now_ns:
            self._ack_due_ns = due_ns
        self._expect_answer(message[0])
        self.network.wire.at(due_ns, self._retransmit, number, due_ns, message)

    def _retransmit(self, number: int, now_ns: int, message: Message) -> None:
        if self.is_up():
            self._put_on_wire(number, now_ns, message)

    def _try_again(self, now_ns: int) -> None:
        """The way is open again, or the host is up: the next retransmission gets through."""
        first_ns = min(message[0] for message in self._lost.values())
        due_ns = _retransmission_ns(first_ns, now_ns)
        self.network.wire.at(due_ns, self._send_again, due_ns)

    def _send_again(self, now_ns: int) -> None:
        lost, self._lost = self._lost, {}
        for number in sorted(lost):
            self._retransmit(number, now_ns, lost[number])

    def _expect_answer(self, since_ns: int) -> None:
        """Nothing comes back: one day the kernel gives up."""
        if self._give_up is None and self.is_up():
            limit_ns = self.user_timeout_ns or GIVE_UP_NS
            self._give_up = self.network.wire.timer(since_ns + limit_ns, self._gave_up)

    def _answered(self) -> None:
        """Something came back: as long as nothing else is missing, there is no giving up."""
        if not self._lost and not self._held:
            self._called_off()

    def _called_off(self) -> None:
        if self._give_up is not None:
            self._give_up.called_off = True
            self._give_up = None

    # --- resets ----------------------------------------------------------------------------------

    def _break_off(self, now_ns: int, *, says_so: bool = False) -> None:
        """This end goes. The peer sends again what was not acknowledged, if it hears nothing."""
        self._peer_again_ns = RTO_NS_MIN if self._ack_due_ns > now_ns else 0
        if says_so:
            self._send_reset(now_ns)
        else:
            self._reset_lost(now_ns)

    def _send_reset(self, now_ns: int) -> None:
        """Tell the peer that there is no connection."""
        path, stream = self._path(), self.choices()
        if path.cut or (path.loss and stream.chance(path.loss, "reset lost")):
            self._reset_lost(now_ns)
        elif path.keeps:
            self._hold_reset(path)
        else:
            self._reset_leaves(now_ns)

    def _hold_reset(self, path: Path) -> None:
        self._wait_in_network(path)
        self._reset_held = True

    def _reset_leaves(self, now_ns: int) -> None:
        when_ns = self._path().arrival_ns(now_ns, HEADER_BYTES, self.choices())
        when_ns = self._last_arrival_ns = max(when_ns, self._last_arrival_ns + 1)
        self.network.wire.at(when_ns, self._reset_travels)

    def _reset_travels(self) -> None:
        path, peer = self._path(), self._peer()
        if path.cut:
            self._reset_lost(self.network.wire.now_ns)
        elif path.held:
            self._hold_reset(path)
        elif not peer.stack.dead:
            peer.reset_arrives()

    def _reset_lost(self, now_ns: int) -> None:
        """The peer hears nothing. It retransmits, if it has something to retransmit."""
        if self._peer_again_ns:
            self._peer_retransmits(now_ns, self._peer_again_ns)

    def _peer_retransmits(self, now_ns: int, timeout_ns: int) -> None:
        """Until somebody tells the peer that this end is gone."""
        peer = self._peer()
        if peer.is_up():
            peer._expect_answer(now_ns)
            peer._insist_later(now_ns, timeout_ns)

    def _refuse(self, sender: TcpEnd, timeout_ns: int = RTO_NS_MIN) -> None:
        """Something for a connection that is closed or unknown: Linux answers with a reset."""
        sender._insisting = False
        if sender.is_up():
            self._peer_again_ns = timeout_ns
            self._send_reset(self.network.wire.now_ns)

    def _insist_later(self, now_ns: int, timeout_ns: int) -> None:
        if not self._insisting:
            self._insisting = True
            next_ns = min(2 * timeout_ns, RTO_NS_MAX)
            self.network.wire.at(now_ns + timeout_ns, self._insist, next_ns)

    def _insist(self, timeout_ns: int) -> None:
        """A retransmission to a host that will answer with a reset, if it gets there."""
        self._insisting = False
        if not self.is_up():
            return
        path, peer, wire = self._path(), self._peer(), self.network.wire
        if path.open and not peer.stack.dead:
            self._insisting = True
            wire.at(wire.now_ns + path.low_ns, peer._refuse, self, timeout_ns)
        else:
            self._insist_later(wire.now_ns, timeout_ns)


def _retransmission_ns(first_ns: int, now_ns: int) -> int:
    """When Linux next retransmits: 0.2 s after the first time, and then in doubling intervals."""
    due_ns, timeout_ns = first_ns, RTO_NS_MIN
    while due_ns <= now_ns:
        due_ns += timeout_ns
        timeout_ns = min(2 * timeout_ns, RTO_NS_MAX)
    return due_ns
