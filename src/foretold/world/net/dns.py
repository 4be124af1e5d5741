"""Names: each host is known by its own, and asks for others'.

Faults that live here: a name that is not found for a while, and slow resolution. Never a name that
resolves to the wrong host.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foretold.errors import UsageError

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.net.network import Network
    from foretold.world.net.stack import Stack

SERVICES = {
    "ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "http": 80, "pop3": 110,
    "ntp": 123, "imap2": 143, "ldap": 389, "https": 443, "submission": 587, "ldaps": 636,
    "imaps": 993, "pop3s": 995, "mysql": 3306, "postgresql": 5432, "amqp": 5672, "redis": 6379,
}  # fmt: skip
"""What a host knows of services, the same on every machine."""


def not_known() -> socket.gaierror:
    """What getaddrinfo raises for a name that nobody has."""
    return socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def _no_such_family() -> socket.gaierror:
    return socket.gaierror(socket.EAI_ADDRFAMILY, "Address family for hostname not supported")


class Dns:
    def __init__(self, network: Network) -> None:
        self._network = network
        self.aliases: dict[str, str] = {}
        """Further names of hosts."""
        self.missing: set[str] = set()
        """Names that are not found, as a fault."""
        self.slow_s = 0.0
        """How long each look-up takes, as a fault."""

    def addresses(self, host: Host, name: str | bytes | None, passive: bool) -> list[str]:
        """All addresses of a name as `host` sees it; Linux prefers IPv4 to private IPv6."""
        if name is None:
            return ["0.0.0.0", "::"] if passive else ["127.0.0.1", "::1"]
        name = _text(name)
        if is_ip(name):
            return [name]
        plain = name.rstrip(".").lower()
        if plain in self.missing:
            raise not_known()
        if plain in _LOOPBACK:
            return ["127.0.0.1", "::1"]
        plain = self.aliases.get(plain, plain)
        found = self._network.by_name.get(plain)
        if found is None:
            self._note_unknown(host, plain)
            raise not_known()
        return [found.ipv4, found.ipv6]

    def _note_unknown(self, host: Host, name: str) -> None:
        """A program may make anything of this error: `Connection error.`, or a 503."""
        if "." in name and all(map(_LABEL.fullmatch, name.split("."))):
            host.kernel.notes[
                f"{host.name} has looked up the name {name}, which no host of this world has. "
                f'world.external("{name}", {{…}}) adds one with scripted answers'
            ] = None

    def is_ip(self, name: Any) -> bool:
        """Whether `name` needs no look-up; be it that it is none."""
        return not isinstance(name, str | bytes) or is_ip(_text(name))

    def numeric(self, host: Host, name: str | bytes, family: int) -> str:
        """The address that `connect(("name", port))` uses."""
        six = family == socket.AF_INET6
        for address in self.addresses(host, name, passive=False):
            if (":" in address) == six:
                return address
        raise _no_such_family()

    def getaddrinfo(
        self,
        host: Host,
        name: str | bytes | None,
        port: str | bytes | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[Any, ...]]:
        """As the C library answers."""
        if isinstance(name, str):
            name.encode("idna")  # as Python does with text: it must be possible
        elif name is not None and not isinstance(name, bytes):
            raise TypeError("getaddrinfo() argument 1 must be string or None")
        number = port_number(port)
        if name is None and port is None:
            raise not_known()
        if flags & socket.AI_NUMERICHOST and name is not None and not is_ip(_text(name)):
            raise not_known()
        found = []
        for address in self.addresses(host, name, bool(flags & socket.AI_PASSIVE)):
            address, _, scope = address.partition("%")
            six = ":" in address
            its = socket.AF_INET6 if six else socket.AF_INET
            if family not in (0, its):
                continue
            canonical = os.fsdecode(name) if flags & socket.AI_CANONNAME and name else ""
            for kind, protocol in _kinds(type, proto):
                zone = int(scope) if scope.isdigit() else 0
                target = (address, number, 0, zone) if six else (address, number)
                found.append((its, kind, protocol, canonical, target))
        if not found:
            raise _no_such_family()
        return found

    def getnameinfo(self, address: Any, flags: int) -> tuple[str, str]:
        """The name behind an address."""
        ip, port = address[0], address[1]
        name = ip
        if not flags & socket.NI_NUMERICHOST:
            stack = self._network.by_ip.get(ip)
            if stack is not None:
                name = stack.name
            elif ip in ("127.0.0.1", "::1"):
                name = "localhost"
            elif flags & socket.NI_NAMEREQD:
                raise not_known()
        service = str(port)
        if not flags & socket.NI_NUMERICSERV:
            service = next((s for s, number in SERVICES.items() if number == port), service)
        return name, service


_LOOPBACK = ("localhost", "ip6-localhost", "localhost.localdomain")
_LABEL = re.compile(r"\w([\w-]{0,61}\w)?")
_NAME_CHARS_MAX = 253


def check_host_name(name: object, others: Mapping[str, Stack]) -> None:
    """A host is found by its name, so the name must be one that can be looked up, and no other's.
    Case makes no difference to that: `others` are known by their names in small letters."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"a host has a name, such as world.host('api'); got {name!r}")
    if is_ip(name) or name.lower() in _LOOPBACK:
        raise UsageError(
            f"a host cannot be called {name!r}: that leads to an address, not to this host. Give "
            "it a name, such as world.host('api'); its address is host.ip"
        )
    if len(name) > _NAME_CHARS_MAX or not all(map(_LABEL.fullmatch, name.split("."))):
        raise UsageError(
            f"{name!r} cannot be looked up as a host's name: letters, digits, '-' and '_', at most "
            "63 of them between two dots. Write world.host('api'), or world.host('api.example.com')"
        )
    if (other := others.get(name.lower())) is not None:
        raise UsageError(
            f"world.host({name!r}): there is a host {other.name!r} already, and a name is looked "
            f"up without regard to case. Write world.host({other.name!r}) for that one, or choose "
            "another name"
        )


def _text(name: str | bytes) -> str:
    """A name as its host is called. The C library takes any bytes, and so do we: which letters they
    stand for (`xn--…`) has changed from IDNA 2003 to 2008, and Python's codec knows 2003 alone."""
    if isinstance(name, str) and "xn--" not in name.lower():
        return name
    try:
        text = name if isinstance(name, str) else name.decode("ascii")
        return ".".join(map(_label_text, text.split(".")))
    except UnicodeError:
        raise not_known() from None


def _label_text(label: str) -> str:
    return label[4:].encode().decode("punycode") if label[:4].lower() == "xn--" else label


def is_ip(text: str) -> bool:
    """Whether `text` is an address rather than a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def port_number(port: str | bytes | int | None) -> int:
    """A port given as a number, its digits, or the name of a service."""
    if port is None:
        return 0
    if isinstance(port, int):
        return port
    text = port.decode() if isinstance(port, bytes) else port
    if text.isdigit():
        return int(text)
    if text in SERVICES:
        return SERVICES[text]
    raise socket.gaierror(socket.EAI_SERVICE, "Servname not supported for ai_socktype")


def _kinds(type: int, proto: int) -> list[tuple[socket.SocketKind, int]]:
    known = [
        (socket.SOCK_STREAM, socket.IPPROTO_TCP),
        (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
        (socket.SOCK_RAW, 0),
    ]
    return [(k, p) for k, p in known if type in (0, k) and proto in (0, p)]
