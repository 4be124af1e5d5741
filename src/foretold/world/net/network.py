"""The network of a world, and the verbs that a test has for it.

Faults by hand: `partition` and `repair`, `hold` and `release`, `clog`, `slow`, `reset`, and the
quality of a path: `latency`, `loss`, `duplication`, `reordering`, `bandwidth`, `buffers`. Each is
something a real network does. Never: a connection that gets bytes it was not sent, or in another
order.
"""

from __future__ import annotations

import errno
from _thread import get_ident
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from foretold import handles
from foretold.arguments import check_number, check_whole, known_words
from foretold.errors import UsageError
from foretold.kernel.clock import to_ns
from foretold.kernel.computer import running
from foretold.tape import Tape
from foretold.trace.events import WORLD, Late
from foretold.trace.record import Trace
from foretold.world.net.delivery import HEADER_BYTES
from foretold.world.net.path import Path
from foretold.world.net.stack import Listener, Stack
from foretold.world.net.tcp import CONNECTING, DEAD, SYN_GIVE_UP_NS, TcpEnd
from foretold.world.net.udp import UdpEnd
from foretold.world.net.unix import UnixDatagrams, UnixEnd
from foretold.world.net.wire import Wire
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.kernel.kernel import Kernel
    from foretold.world.knowledge import Knowledge

LATENCY_S = (0.000_2, 0.002)
SEND_BUFFER, RECEIVE_BUFFER = 212_992, 131_072
UNREACHABLE_NS = 3_000_000_000
"""How long Linux asks for the hardware address of a host that is not there."""
SYN_RETRY_NS = 1_000_000_000

SECONDS_MAX = 1_000_000_000
"""30 years: what is longer would not end, and is a mistake."""
FACTOR_MAX = 1_000_000_000
BYTES_PER_S_MIN = 0.001

HostName = Any
"""A host, or its name."""


@handles.shown_as(handles.Network)
class Network:
    """All hosts' stacks and the paths between them. `handles.Network` says what is for users."""

    def __init__(self, tape: Tape, trace: Trace, wire: Wire) -> None:
        self.tape = tape
        self.trace = trace
        self.wire = wire
        self.stacks: dict[str, Stack] = {}
        self.by_ip: dict[str, Stack] = {}
        self.by_name: dict[str, Stack] = {}
        """By their names in small letters."""
        self.buffer_limits = (SEND_BUFFER, RECEIVE_BUFFER)
        self.datagram_limits = (SEND_BUFFER, SEND_BUFFER)
        """The same for UDP, whose two buffers are equally large on Linux."""
        self.on_listening: list[Callable[[Stack], object]] = []
        self.on_fault: Callable[..., object] | None = None
        self.on_first_talk: Callable[[], object] | None = None
        """Called when a host first has something to say to another."""
        self.on_attempt: Callable[[Stack, Stack], object] | None = None
        """Called when a host tries to connect to another, if somebody wants to know."""
        self._paths: dict[tuple[str, str], Path] = {}
        self._default = Path(to_ns(LATENCY_S[0]), to_ns(LATENCY_S[1]))
        """What a path between two hosts is like as long as nobody says otherwise."""
        self._connections = 0
        self.knowledge: Knowledge | None = None
        """What hosts know of each other's events, from the first event on."""

    def add_host(self, name: str, kernel: Kernel) -> Stack:
        stack = Stack(self, name, len(self.stacks) + 1, kernel)
        self.stacks[name] = self.by_name[name.lower()] = stack
        self.by_ip[stack.ipv4] = self.by_ip[stack.ipv6] = stack
        return stack

    def path(self, source: Stack, target: Stack) -> Path:
        """The way from one host to another, or to itself."""
        key = (source.name, target.name)
        found = self._paths.get(key)
        if found is None:
            is_loopback = source is target
            found = Path(0, 0) if is_loopback else replace(self._default, waiting=[], usual={})
            self._paths[key] = found
            if self.trace.detail:
                found.on_late = partial(self._keep_late, source, target, found)
            if self.on_first_talk is not None and source is not target:
                told, self.on_first_talk = self.on_first_talk, None
                told()
        return found

    def _keep_late(self, source: Stack, target: Stack, path: Path, takes_ns: int) -> None:
        """For the story: this message is slower than it could be, by the tape."""
        now_ns = max(source.now_ns(), self.wire.now_ns)
        late = partial(Late, source=source.name, target=target.name)
        told = late(now_ns, source.name, WORLD, took_ns=takes_ns, usual_ns=path.low_ns)
        self.trace.keep(told)

    def find(self, source: Stack, ip: str) -> Stack | None:
        """The host that has this address, seen from `source`."""
        return source if source.own(ip) else self.by_ip.get(ip)

    # --- connecting ------------------------------------------------------------------------------

    def new_end(self, stack: Stack, side: str = "c") -> TcpEnd:
        """A socket that can be connected."""
        self._connections += 1
        return TcpEnd(self, stack, self._connections, side)

    def new_unix_end(self, stack: Stack, *, packets: bool) -> UnixEnd:
        """A unix socket that can be connected."""
        self._connections += 1
        end = UnixEnd(self, stack, self._connections, "c")
        end.packets = packets
        return end

    def new_unix_datagrams(self, stack: Stack) -> UnixDatagrams:
        self._connections += 1
        return UnixDatagrams(self, stack, self._connections)

    def new_datagrams(self, stack: Stack) -> UdpEnd:
        self._connections += 1
        return UdpEnd(self, stack, self._connections)

    def connect(self, end: TcpEnd, local: Any, remote: Any) -> None:
        """Begin a handshake. It ends on the wire, well or badly."""
        end.state = CONNECTING
        end.local, end.remote = local, remote
        end.stack.ends[id(end)] = end
        target = self.find(end.stack, remote[0])
        now_ns = end.stack.now_ns()
        if local == remote:
            self.wire.at(now_ns + self.path(end.stack, end.stack).low_ns, self._meet_itself, end)
            return
        if target is None:
            self.wire.at(now_ns + UNREACHABLE_NS, self._give_up, end, errno.EHOSTUNREACH)
            return
        self._send_syn(end, target, now_ns, now_ns)

    def _meet_itself(self, end: TcpEnd) -> None:
        """Both SYNs cross: a socket that connects to its own port talks to itself."""
        if end.state == CONNECTING:
            end.open(end, self.wire.now_ns)

    def _give_up(self, end: TcpEnd, error: int) -> None:
        if end.state == CONNECTING:
            end._fail(error)

    def _send_syn(self, end: TcpEnd, target: Stack, now_ns: int, first_ns: int) -> None:
        if end.state != CONNECTING:
            return
        if now_ns - first_ns >= SYN_GIVE_UP_NS:
            end._fail(errno.ETIMEDOUT)
            return
        path, stream = self.path(end.stack, target), end.choices()
        if path.keeps and not path.cut:
            path.waiting.append(lambda then_ns: self._send_syn(end, target, then_ns, first_ns))
            self.wire.at(first_ns + SYN_GIVE_UP_NS, self._give_up, end, errno.ETIMEDOUT)
        elif path.cut or (path.loss and stream.chance(path.loss, "SYN lost")):
            self._syn_again(end, target, now_ns, first_ns)
        else:
            when_ns = path.arrival_ns(now_ns, HEADER_BYTES, stream)
            self.wire.at(when_ns, self._syn_arrives, end, target, now_ns, first_ns)

    def _syn_again(self, end: TcpEnd, target: Stack, sent_ns: int, first_ns: int) -> None:
        """No answer comes: the next attempt is after 1 s, then 2, 4 and so on."""
        again_ns = max(self.wire.now_ns, sent_ns + SYN_RETRY_NS + (sent_ns - first_ns))
        self.wire.at(again_ns, self._send_syn, end, target, again_ns, first_ns)

    def _syn_arrives(self, end: TcpEnd, target: Stack, sent_ns: int, first_ns: int) -> None:
        back = self.path(target, end.stack)
        if end.state != CONNECTING:
            return
        if self.on_attempt is not None:
            self.on_attempt(end.stack, target)
        if target.dead or self.path(end.stack, target).cut or back.cut:
            self._syn_again(end, target, sent_ns, first_ns)
            return
        listener = target.listener_for(end.remote[0], end.remote[1], end)
        if listener is None:
            self._refuse_syn(end, back)
        elif listener.full:  # Linux drops the SYN; the client tries again
            self._syn_again(end, target, sent_ns, first_ns)
        else:
            self._answer_syn(end, target, listener, sent_ns, first_ns)

    def _refuse_syn(self, end: TcpEnd, back: Path) -> None:
        """Nobody listens: the answer is a reset."""

        def leaves(now_ns: int) -> None:
            when_ns = back.arrival_ns(now_ns, HEADER_BYTES, end.choices())
            self.wire.at(when_ns, end.reset_arrives)

        back.pass_on(leaves, self.wire.now_ns)

    def _answer_syn(
        self, end: TcpEnd, target: Stack, listener: Listener, sent_ns: int, first_ns: int
    ) -> None:
        server = TcpEnd(self, target, end.number, "s")
        server.local, server.remote = end.remote, end.local
        if listener.dual and ":" not in end.remote[0]:
            server.local, server.remote = map(_mapped, (end.remote, end.local))
        target.ends[id(server)] = server
        if listener.claim is not None:
            target.hold(server, end.remote[1], listener.claim._replace(ip=server.local[0]))
        listener.expected += 1
        back = self.path(target, end.stack)

        def leaves(now_ns: int) -> None:
            when_ns = back.arrival_ns(now_ns, HEADER_BYTES, server.choices())
            self.wire.at(when_ns, self._synack_arrives, end, server, listener, sent_ns, first_ns)

        back.pass_on(leaves, self.wire.now_ns)

    def _synack_arrives(
        self, end: TcpEnd, server: TcpEnd, listener: Listener, sent_ns: int, first_ns: int
    ) -> None:
        now_ns = self.wire.now_ns
        there = self.path(end.stack, server.stack)
        if self.path(server.stack, end.stack).cut or end.state != CONNECTING or end.stack.dead:
            listener.expected -= 1
            server.vanish()
            self._syn_again(end, server.stack, sent_ns, first_ns)
            return
        if server.state != DEAD:
            server.open(end, now_ns)
        server.peer = end
        end.open(server, now_ns)
        self.trace.note("net", end.stack.name, f"{end.number}", "connected", str(end.remote))
        if there.open and not there.keeps:
            when_ns = there.arrival_ns(now_ns, HEADER_BYTES, end.choices())
            self.wire.at(when_ns, listener.offer, server)
            end._last_arrival_ns = when_ns
        else:
            there.waiting.append(lambda when_ns: listener.offer(server))

    def connect_unix(self, end: UnixEnd, stack: Stack, address: Any) -> None:
        """Unix sockets connect at once or not at all."""
        owner = stack.unix.find(address)
        if not isinstance(owner.end, UnixEnd) or owner.end.packets != end.packets:
            raise os_error(errno.EPROTOTYPE)
        listener = owner.listener
        if listener is None:
            raise os_error(errno.ECONNREFUSED)
        if listener.full:
            raise os_error(errno.EAGAIN)
        server = UnixEnd(self, stack, end.number, "s")
        server.packets = end.packets
        server.local, server.remote = owner.bound, end.local or ""
        end.local, end.remote = end.local or "", owner.bound
        self.join(end, server)
        listener.expected += 1
        listener.offer(server)

    def join(self, one: TcpEnd, other: TcpEnd) -> None:
        """Two ends on one host that are connected from the start."""
        now_ns = one.stack.now_ns()
        for end, peer in ((one, other), (other, one)):
            end.stack.ends[id(end)] = end
            end.open(peer, now_ns)

    def listening_changed(self, stack: Stack) -> None:
        """Somebody began to listen."""
        for told in list(self.on_listening):
            told(stack)

    # --- the verbs -------------------------------------------------------------------------------

    def _stack(self, host: HostName) -> Stack:
        name = host if isinstance(host, str) else getattr(host, "name", host)
        if not isinstance(name, str) or name not in self.stacks:
            known = known_words(name, self.stacks)
            raise UsageError(f"there is no host {name!r} in this world; there are {known}")
        return self.stacks[name]

    def _between(self, between: tuple[HostName, HostName] | None) -> Iterator[Path]:
        """The paths meant, and for all of them also what later ones will be like.

        All: those between hosts. A computer's loopback is no network, unless it is the only one: a
        program whose client and server share the one host would ask for something and get nothing.
        """
        if between is None:
            yield self._default
            if len(self.stacks) == 1:
                (alone,) = self.stacks.values()
                yield self.path(alone, alone)
            for key, path in self._paths.items():
                if key[0] != key[1]:
                    yield path
            return
        given: Any = between
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise UsageError(
                f"between is a pair of hosts, such as between=('api', 'db'); got {between!r}"
            )
        one, other = map(self._stack, between)
        yield self.path(one, other)
        yield self.path(other, one)

    def _both(self, a: HostName, b: HostName, *, one_way: bool = False) -> list[Path]:
        one, other = self._stack(a), self._stack(b)
        paths = [self.path(one, other)]
        return paths if one_way else [*paths, self.path(other, one)]

    def _note(self, text: str, *hosts: str, **facts: bool) -> None:
        self.trace.note("fault", text)
        if self.on_fault is not None:
            self.on_fault(text, hosts, **facts)

    def _where(self, between: tuple[HostName, HostName] | None) -> str:
        if between is None:
            return "everywhere"
        one, other = map(self._stack, between)
        return f"{one.name} <-> {other.name}"

    def _set_share(self, what: str, p: float, between: tuple[HostName, HostName] | None) -> None:
        for path in self._between(between):
            path.set(**{what: p})
        how = f"of {p * 100:g}%" if p else "over"
        self._note(f"{what} {self._where(between)} {how}")

    def latency(
        self,
        low_s: float,
        high_s: float | None = None,
        between: tuple[HostName, HostName] | None = None,
    ) -> None:
        high_s = low_s if high_s is None else high_s
        check_number("latency's low_s", low_s, above=0)
        check_number("latency's high_s", high_s, at_least=low_s, at_most=SECONDS_MAX)
        for path in self._between(between):
            path.set(low_ns=to_ns(low_s), high_ns=to_ns(high_s))
        said = f"latency {self._where(between)} of {low_s:g} to {high_s:g} s"
        self._note(said, is_setting=True)

    def loss(self, p: float, between: tuple[HostName, HostName] | None = None) -> None:
        check_number("loss", p, at_least=0, below=1)
        self._set_share("loss", p, between)

    def duplication(self, p: float, between: tuple[HostName, HostName] | None = None) -> None:
        check_number("duplication", p, at_least=0, at_most=1)
        self._set_share("duplication", p, between)

    def reordering(self, p: float, between: tuple[HostName, HostName] | None = None) -> None:
        check_number("reordering", p, at_least=0, at_most=1)
        self._set_share("reordering", p, between)

    def bandwidth(
        self, bytes_per_s: float | None, between: tuple[HostName, HostName] | None = None
    ) -> None:
        if bytes_per_s is not None:
            check_number("bandwidth (if not None)", bytes_per_s, above=0, at_least=BYTES_PER_S_MIN)
        for path in self._between(between):
            path.bytes_per_s = bytes_per_s
        how = "without limit" if bytes_per_s is None else f"of {bytes_per_s:g} bytes per s"
        self._note(f"bandwidth {self._where(between)} {how}", is_setting=True)

    def buffers(self, send: int, receive: int) -> None:
        check_whole("send", send, at_least=1, example=65_536)
        check_whole("receive", receive, at_least=1, example=65_536)
        self.buffer_limits = self.datagram_limits = (send, receive)

    def partition(self, a: HostName, b: HostName, *, one_way: bool = False) -> None:
        for path in self._both(a, b, one_way=one_way):
            path.cut = True
        self._note(
            f"partition {self._stack(a).name} {'->' if one_way else '<->'} {self._stack(b).name}"
        )

    def repair(self, a: HostName, b: HostName) -> None:
        for path in self._both(a, b):
            path.cut = False
            self._resume(path)
        self._note(f"repair {self._stack(a).name} <-> {self._stack(b).name}", is_over=True)

    def hold(self, a: HostName, b: HostName) -> None:
        for path in self._both(a, b):
            path.held = True
        self._note(f"hold {self._stack(a).name} <-> {self._stack(b).name}")

    def release(self, a: HostName, b: HostName) -> None:
        for path in self._both(a, b):
            path.held = False
            self._resume(path)
        self._note(f"release {self._stack(a).name} <-> {self._stack(b).name}", is_over=True)

    def clog(self, a: HostName, b: HostName, seconds: float) -> None:
        check_number("clog's seconds", seconds, at_least=0, at_most=SECONDS_MAX)
        until_ns = self.now_ns() + to_ns(seconds)
        for path in self._both(a, b):
            path.clogged_until_ns = max(path.clogged_until_ns, until_ns)
            is_vain = partial(_is_empty, path)
            self.wire.vain_timer(path.clogged_until_ns, is_vain, self._end_clog, path)
        self._note(f"clog {self._stack(a).name} <-> {self._stack(b).name} for {seconds:g} s")

    def _end_clog(self, path: Path) -> None:
        if path.clogged_until_ns <= self.wire.now_ns:
            self.unclog(path)

    def unclog(self, path: Path) -> None:
        """End a clog before its time; all that waits for it goes on."""
        path.clogged_until_ns = 0
        self._resume(path)

    def slow(self, a: HostName, b: HostName, factor: float) -> None:
        check_number("slow's factor", factor, above=0, at_most=FACTOR_MAX)
        for path in self._both(a, b):
            path.set(factor=factor)
        self._note(f"slow {self._stack(a).name} <-> {self._stack(b).name} by {factor:g}")

    def reset(self, a: HostName, b: HostName) -> None:
        one, other = self._stack(a), self._stack(b)
        for end in list(one.ends.values()) + list(other.ends.values()):
            if end.peer is not None and {end.stack, end.peer.stack} == {one, other}:
                end.reset_arrives()
        self._note(f"reset {one.name} <-> {other.name}")

    def heal(self) -> None:
        """Repair and release everything."""
        for path in (self._default, *self._paths.values()):
            path.cut = path.held = False
            path.clogged_until_ns, path.factor, path.loss = 0, 1.0, 0.0
            path.duplication = path.reordering = 0.0
            self._resume(path)

    def _resume(self, path: Path) -> None:
        if path.open and not path.clogged_until_ns:
            waiting, path.waiting = path.waiting, []
            for again in waiting:
                again(self.now_ns())

    def now_ns(self) -> int:
        """The instant of whoever uses a verb: the host whose code runs, or the wire."""
        stack = getattr(running.get(get_ident()), "stack", None)
        return max(self.wire.now_ns, stack.now_ns() if isinstance(stack, Stack) else 0)


def _mapped(address: Any) -> Any:
    """An IPv4 address as an IPv6 socket shows it."""
    return (f"::ffff:{address[0]}", address[1], 0, 0)


def _is_empty(path: Path) -> bool:
    return not path.waiting
