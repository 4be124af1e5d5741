"""A host's network stack: its addresses, its ports, who listens and who is connected."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from foretold.world.net.tcp import TcpEnd, os_error

if TYPE_CHECKING:
    from foretold.kernel.kernel import Kernel
    from foretold.world.net.network import Network
    from foretold.world.net.udp import UdpEnd

EPHEMERAL_FIRST, EPHEMERAL_LAST = 32_768, 60_999
ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


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


class Bound(NamedTuple):
    """A stream socket's claim to an address, whether it listens or not."""

    ip: str
    owner: object
    reuse_port: bool
    reuse_address: bool
    only_six: bool

    def overlaps(self, other: Bound) -> bool:
        """Whether there is an address that both mean."""
        if (":" in self.ip) == (":" in other.ip):
            return self.ip == other.ip or {self.ip, other.ip} & set(ANY.values()) != set()
        six, four = (self, other) if ":" in self.ip else (other, self)
        return six.ip == "::" and not six.only_six and bool(four.ip)


class Stack:
    """The sockets of one host, as its kernel keeps them."""

    def __init__(self, network: Network, name: str, number: int, kernel: Kernel) -> None:
        self.network = network
        self.name = name
        self.kernel = kernel
        self.ipv4 = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self.ipv6 = f"fd00::{number:x}"
        self.dead = False
        self.waiting: list[Callable[[int], object]] = []
        """What others send to this host while it is dead."""
        self.listeners: dict[tuple[str, int], list[Listener]] = {}
        self.unix_listeners: dict[str, Listener] = {}
        self.unix_paths: set[str] = set()
        """Paths that a socket is bound to, or was: the file stays until it is unlinked."""
        self.udp: dict[tuple[str, int], list[UdpEnd]] = {}
        self.ends: dict[int, TcpEnd] = {}
        """Connections, until both the program and the kernel are done with them."""
        self.bound: dict[int, list[Bound]] = {}
        """Stream sockets by their port."""
        self.boots = 0
        self._next_port = EPHEMERAL_FIRST

    def now_ns(self) -> int:
        """This host's monotonic time, which all hosts share but for what they are late."""
        return self.kernel.clock.ns

    # --- addresses -------------------------------------------------------------------------------

    def own(self, ip: str) -> bool:
        """Whether `ip` is one of this host's, or its loopback."""
        if ip in (self.ipv4, self.ipv6, "::1"):
            return True
        return ip.startswith("127.") and _is_ip(ip)

    def source_for(self, remote_ip: str) -> str:
        """The address this host uses to talk to `remote_ip`."""
        if ":" in remote_ip:
            return "::1" if remote_ip == "::1" else self.ipv6
        return "127.0.0.1" if remote_ip.startswith("127.") else self.ipv4

    # --- ports -----------------------------------------------------------------------------------

    def free_port(self, *, udp: bool = False) -> int:
        """An ephemeral port that nobody on this host uses."""
        used: Any = {port for _, port in self.udp} if udp else self.bound
        for _ in range(EPHEMERAL_LAST - EPHEMERAL_FIRST + 1):
            port = self._next_port
            self._next_port = port + 1 if port < EPHEMERAL_LAST else EPHEMERAL_FIRST
            if port not in used:
                return port
        raise os_error(errno.EADDRINUSE)

    def check_address(self, ip: str) -> None:
        """EADDRNOTAVAIL for what is no address of this host."""
        if ip not in ANY.values() and not self.own(ip):
            raise os_error(errno.EADDRNOTAVAIL)

    def check_udp(self, ip: str, port: int, *, shared: bool) -> None:
        """EADDRINUSE as the kernel would say for datagrams."""
        claim = Bound(ip, None, False, False, True)
        for bound, bound_port in self.udp:
            other = Bound(bound, None, False, False, True)
            if bound_port == port and not shared and claim.overlaps(other):
                raise os_error(errno.EADDRINUSE)

    def bind(self, port: int, claim: Bound) -> None:
        """Give a stream socket its address, or EADDRINUSE."""
        self._check_claim(port, claim)
        self.bound.setdefault(port, []).append(claim)

    def _check_claim(self, port: int, claim: Bound) -> None:
        for other in self.bound.get(port, ()):
            if other.owner is claim.owner or not claim.overlaps(other):
                continue
            if claim.reuse_port and other.reuse_port:
                continue
            if claim.reuse_address and other.reuse_address and not self._listens(other, port):
                continue
            raise os_error(errno.EADDRINUSE)

    def _listens(self, claim: Bound, port: int) -> bool:
        return (claim.ip, port) in self.listeners

    def unbind(self, port: int, owner: object) -> None:
        """The socket is closed: its address is free."""
        left = [claim for claim in self.bound.get(port, ()) if claim.owner is not owner]
        if left:
            self.bound[port] = left
        else:
            self.bound.pop(port, None)

    # --- listening -------------------------------------------------------------------------------

    def listen(self, ip: str, port: int, backlog: int) -> Listener:
        """Begin to listen. Several may share an address with SO_REUSEPORT."""
        listener = Listener(self, (ip, port), backlog)
        self.listeners.setdefault((ip, port), []).append(listener)
        self.network.listening_changed(self)
        return listener

    def listen_unix(self, path: str, backlog: int) -> Listener:
        listener = Listener(self, path, backlog)
        self.unix_listeners[path] = listener
        return listener

    def forget_listener(self, listener: Listener) -> None:
        if isinstance(listener.address, str):
            if self.unix_listeners.get(listener.address) is listener:
                del self.unix_listeners[listener.address]
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
        for listener in list(self.unix_listeners.values()):
            listener.close()
        for end in list(self.ends.values()):
            end.close()
        self.udp.clear()
        self.bound.clear()

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
        self.udp.clear()
        self.bound.clear()
        self.ends.clear()

    def regain_power(self, now_ns: int) -> None:
        """Up again: it answers, if only with resets."""
        self.dead = False
        self.boots += 1
        waiting, self.waiting = self.waiting, []
        for again in waiting:
            again(now_ns)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
