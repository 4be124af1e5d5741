"""A host's network stack: its addresses, its ports, who listens and who is connected."""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from foretold.world.net.delivery import S
from foretold.world.net.dns import is_ip
from foretold.world.net.tcp import TcpEnd
from foretold.world.net.unixnames import UnixNames
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.kernel.kernel import Kernel
    from foretold.world.net.network import Network
    from foretold.world.net.udp import UdpEnd

EPHEMERAL_FIRST, EPHEMERAL_LAST = 32_768, 60_999
ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
TIME_WAIT_NS = 60 * S
"""How long a port stays taken by a connection that this side was the first to close."""


class Listener:
    """A listening socket's queue of connections that are ready to be accepted."""

    def __init__(self, stack: Stack, address: Any, backlog: int) -> None:
        self.stack = stack
        self.address = address
        self.backlog = max(1, backlog)
        self.queue: deque[TcpEnd] = deque()
        self.dual = False
        """An IPv6 listener that answers IPv4 as well."""
        self.closed = False
        self.expected = 0
        """Handshakes that were answered and are not over."""
        self.on_change: Callable[[], object] | None = None
        self.claim: BoundAddress | None = None
        """Its address, whose options the connections inherit."""

    @property
    def full(self) -> bool:
        return len(self.queue) + self.expected > self.backlog

    def offer(self, end: TcpEnd) -> None:
        """A connection is established and waits to be accepted."""
        self.expected -= 1
        if self.closed:
            end.abort()
            return
        self.queue.append(end)
        if self.on_change is not None:
            self.on_change()

    def close(self) -> None:
        """Nobody accepts any more; those who wait are reset, as Linux does."""
        self.closed = True
        self.stack.forget_listener(self)
        while self.queue:
            self.queue.popleft().abort()


class BoundAddress(NamedTuple):
    """A socket's claim to an address; a stream socket's whether it listens or not."""

    ip: str
    reuse_port: bool
    reuse_address: bool
    only_six: bool

    def overlaps(self, other: BoundAddress) -> bool:
        """Whether there is an address that both mean."""
        if (":" in self.ip) == (":" in other.ip):
            return self.ip == other.ip or {self.ip, other.ip} & set(ANY.values()) != set()
        six, four = (self, other) if ":" in self.ip else (other, self)
        return six.ip == "::" and not six.only_six and bool(four.ip)

    def shares_datagrams(self, other: BoundAddress) -> bool:
        """Whether two datagram sockets may have one address: both must have asked for it."""
        both_addresses = self.reuse_address and other.reuse_address
        return both_addresses or (self.reuse_port and other.reuse_port)


Owner = tuple[int, str]
"""A stream socket by its number and side. (The object itself would be kept alive for a minute.)"""


class Stack:
    """The sockets of one host, as its kernel keeps them."""

    def __init__(self, network: Network, name: str, number: int, kernel: Kernel) -> None:
        self.network = network
        self.name = name
        self.kernel = kernel
        self.ipv4 = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self.ipv6 = f"fd00::{number:x}"
        self.aliases: set[str] = set()
        """Further addresses of this host."""
        self.dead = False
        self.waiting: list[Callable[[int], object]] = []
        """What others send to this host while it is dead."""
        self.listeners: dict[tuple[str, int], list[Listener]] = {}
        self.unix_listeners: list[Listener] = []
        self.unix = UnixNames(self)
        self.udp: dict[tuple[str, int], list[UdpEnd]] = {}
        self.ends: dict[int, TcpEnd] = {}
        """Connections, until both the program and the kernel are done with them."""
        self.bound: dict[int, dict[Owner, BoundAddress]] = {}
        """Who has which port: stream sockets and their connections, also those in TIME_WAIT."""
        self._lingering: dict[Owner, tuple[int, int]] = {}
        """Connections in TIME_WAIT: their port, and until when; in this order."""
        self.boots = 0
        self._next_port = EPHEMERAL_FIRST

    def now_ns(self) -> int:
        """This host's monotonic time, which all hosts share but for what they are late."""
        return self.kernel.clock.ns

    # --- addresses -------------------------------------------------------------------------------

    def own(self, ip: str) -> bool:
        """Whether `ip` is one of this host's, or its loopback."""
        if ip in (self.ipv4, self.ipv6, "::1") or ip in self.aliases:
            return True
        return ip.startswith("127.") and is_ip(ip)

    def source_for(self, remote_ip: str) -> str:
        """The address this host uses to talk to `remote_ip`."""
        if ":" in remote_ip:
            return "::1" if remote_ip == "::1" else self.ipv6
        return "127.0.0.1" if remote_ip.startswith("127.") else self.ipv4

    # --- ports -----------------------------------------------------------------------------------

    def free_port(self, *, udp: bool = False) -> int:
        """An ephemeral port that nobody on this host uses."""
        self._end_time_wait()
        used: Any = {port for _, port in self.udp} if udp else self.bound
        for _ in range(EPHEMERAL_LAST - EPHEMERAL_FIRST + 1):
            port = self._next_port
            self._next_port = port + 1 if port < EPHEMERAL_LAST else EPHEMERAL_FIRST
            if port not in used:
                return port
        for port in () if udp else range(EPHEMERAL_FIRST, EPHEMERAL_LAST + 1):
            if all(owner in self._lingering for owner in self.bound[port]):
                return port  # as tcp_tw_reuse lets Linux do
        raise os_error(errno.EADDRINUSE)

    def check_address(self, ip: str) -> None:
        """EADDRNOTAVAIL for what is no address of this host."""
        if ip not in ANY.values() and not self.own(ip):
            raise os_error(errno.EADDRNOTAVAIL)

    def check_udp(self, claim: BoundAddress, port: int) -> None:
        """EADDRINUSE as the kernel would say for datagrams."""
        for (_, bound_port), ends in self.udp.items():
            for end in ends if bound_port == port else ():
                if claim.overlaps(end.claim) and not claim.shares_datagrams(end.claim):
                    raise os_error(errno.EADDRINUSE)

    def datagrams_for(self, ip: str, port: int, source: Any) -> list[UdpEnd]:
        """Who may get a datagram. An exact address comes before any, who is connected to the sender
        before who is not; then Linux takes the one that was bound last, unless the port is shared
        (SO_REUSEPORT)."""
        places = [(ip, port), (ANY[socket.AF_INET6 if ":" in ip else socket.AF_INET], port)]
        if ":" not in ip:
            places.append(("::", port))
        for place in places:
            hearing = [
                end
                for end in self.udp.get(place, ())
                if end.hears(source) and (":" in ip or not end.claim.only_six)
            ]
            found = [end for end in hearing if end.remote is not None] or hearing
            if found:
                return found if found[-1].claim.reuse_port else found[-1:]
        return []

    def bind(self, end: TcpEnd, port: int, claim: BoundAddress) -> None:
        """Give a stream socket its address, or EADDRINUSE."""
        self._end_time_wait()
        for owner, other in self.bound.get(port, {}).items():
            if not self._may_share(claim, other, port, owner in self._lingering):
                raise os_error(errno.EADDRINUSE)
        self.hold(end, port, claim)

    def _may_share(
        self, claim: BoundAddress, other: BoundAddress, port: int, lingers: bool
    ) -> bool:
        if not claim.overlaps(other) or (claim.reuse_port and other.reuse_port):
            return True
        both = claim.reuse_address and other.reuse_address
        return both and (lingers or (other.ip, port) not in self.listeners)

    def hold(self, end: TcpEnd, port: int, claim: BoundAddress) -> None:
        """A socket or a connection has this port from now on."""
        self.bound.setdefault(port, {})[end.number, end.side] = claim
        end.port = port

    def unbind(self, end: TcpEnd) -> None:
        """The socket is closed, or the connection is over: its address is free."""
        if end.port is not None:
            self._forget((end.number, end.side), end.port)
            end.port = None

    def linger(self, end: TcpEnd) -> None:
        """The connection is over for the program. In TIME_WAIT its port stays taken for a while."""
        if end.port is None:
            return
        owner = (end.number, end.side)
        self._lingering.pop(owner, None)
        now_ns = max(self.now_ns(), self.network.wire.now_ns)
        self._lingering[owner] = (end.port, now_ns + TIME_WAIT_NS)
        self._end_time_wait()

    def _end_time_wait(self) -> None:
        now_ns = self.now_ns()
        while self._lingering:
            owner, (port, until_ns) = next(iter(self._lingering.items()))
            if until_ns > now_ns:
                return
            self._forget(owner, port)

    def _forget(self, owner: Owner, port: int) -> None:
        self._lingering.pop(owner, None)
        owners = self.bound.get(port, {})
        owners.pop(owner, None)
        if not owners:
            self.bound.pop(port, None)

    # --- listening -------------------------------------------------------------------------------

    def listen(self, end: TcpEnd, ip: str, port: int, backlog: int) -> Listener:
        """Begin to listen. Several may share an address with SO_REUSEPORT."""
        claim = self.bound[port][end.number, end.side]
        for sharing in self.listeners.values():
            other = sharing[0].claim
            if sharing[0].address[1] != port or claim.reuse_port or other is None:
                continue
            if claim.overlaps(other):
                raise os_error(errno.EADDRINUSE)
        listener = Listener(self, (ip, port), backlog)
        listener.claim = claim
        self.listeners.setdefault((ip, port), []).append(listener)
        self.network.listening_changed(self)
        return listener

    def listen_unix(self, path: str | bytes, backlog: int) -> Listener:
        listener = Listener(self, path, backlog)
        self.unix_listeners.append(listener)
        return listener

    def forget_listener(self, listener: Listener) -> None:
        if listener in self.unix_listeners:
            self.unix_listeners.remove(listener)
            return
        sharing = self.listeners.get(listener.address, [])
        if listener in sharing:
            sharing.remove(listener)
        if not sharing:
            self.listeners.pop(listener.address, None)

    def listener_for(self, ip: str, port: int, chooser: TcpEnd) -> Listener | None:
        """Who answers at this address; one of several by the tape if the port is shared."""
        any_ip = ANY[socket.AF_INET6 if ":" in ip else socket.AF_INET]
        found = self.listeners.get((ip, port)) or self.listeners.get((any_ip, port))
        if not found and ":" not in ip:
            found = [x for x in self.listeners.get(("::", port), []) if x.dual]
        if not found:
            return None
        return chooser.choices().pick(found, "which listener") if len(found) > 1 else found[0]

    def is_listening(self, port: int) -> bool:
        return any(bound == port for _, bound in self.listeners)

    # --- the end of a process or of a host -------------------------------------------------------

    def close_all(self) -> None:
        """The process has died: its kernel closes its sockets."""
        for listener in [x for group in self.listeners.values() for x in group]:
            listener.close()
        for listener in list(self.unix_listeners):
            listener.close()
        for end in list(self.ends.values()):
            end.close()
        self.unix.process_died()
        self.udp.clear()
        self._close_ports()

    def _close_ports(self) -> None:
        """Only connections in TIME_WAIT keep theirs."""
        for port, owners in list(self.bound.items()):
            for owner in [owner for owner in owners if owner not in self._lingering]:
                self._forget(owner, port)

    def lose_power(self) -> None:
        """The host is dead: no socket of it says another word."""
        self.dead = True
        for group in self.listeners.values():
            for listener in group:
                listener.closed = True
                for end in listener.queue:
                    end.vanish()
        for end in list(self.ends.values()):
            end.vanish()
        self.listeners.clear()
        self.unix_listeners.clear()
        self.unix.process_died()
        self.udp.clear()
        self.bound.clear()
        self._lingering.clear()
        self.ends.clear()

    def regain_power(self, now_ns: int) -> None:
        """Up again: it answers, if only with resets."""
        self.dead = False
        self.boots += 1
        waiting, self.waiting = self.waiting, []
        for again in waiting:
            again(now_ns)
