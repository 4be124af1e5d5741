"""Whom a run against a URL may ask: this machine, and hosts that the user has named.

A machine makes many requests that change things, and not all by clients of `world.web`: its own
code may use any other. So while it runs, `socket.connect` itself refuses all others. What C
libraries connect by themselves (libpq) is not seen.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Collection, Iterator
from typing import Any

from foretold.errors import UsageError
from foretold.kernel.swap import Changes, ModuleName, Setting


def may_ask(host: str, allowed: Collection[str]) -> bool:
    """Whether a host is this machine itself, or was named by the user."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name in {each.lower().rstrip(".") for each in allowed}:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


class Fence:
    """Refuses connections to others."""

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = allowed
        self._addresses: set[str] = set()
        """What names of allowed hosts were found to mean."""
        self.refused: UsageError | None = None
        """The first refusal: whoever asks may swallow it, or wrap it up."""

    def check(self, host: str, what: str) -> None:
        """Raise a `UsageError` if this host may not be asked."""
        if may_ask(host, self._allowed) or host in self._addresses:
            return
        for name in self._allowed:
            with contextlib.suppress(OSError):
                socket.getaddrinfo(name, None)  # it is noted below
        if host in self._addresses:
            return
        error = UsageError(
            f"{what}: that is another host, which is not asked. If it is meant, name it: "
            f"--allow-host {host}"
        )
        self.refused = self.refused or error
        raise error

    def connecting(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        """`socket.connect` that asks first."""

        def fenced(sock: socket.socket, address: Any) -> Any:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                host, port = str(address[0]), address[1]
                self.check(host, f"a connection to {host}, port {port}")
            return connect(sock, address)

        return fenced

    def resolving(self, resolve: Callable[..., Any]) -> Callable[..., Any]:
        """`socket.getaddrinfo` that notes what allowed names mean."""

        def noted(host: Any, *rest: Any, **more: Any) -> Any:
            found = resolve(host, *rest, **more)
            if isinstance(host, str) and may_ask(host, self._allowed):
                self._addresses |= {str(address[0]) for *_, address in found}
            return found

        return noted


@contextlib.contextmanager
def fenced(allowed: Collection[str]) -> Iterator[Fence]:
    """While this lasts, no socket of Python's connects to another host."""
    fence = Fence(allowed)
    changes = Changes()
    changes.apply(
        Setting(socket.socket, "connect", fence.connecting(socket.socket.connect)),
        Setting(socket.socket, "connect_ex", fence.connecting(socket.socket.connect_ex)),
        ModuleName(socket, "getaddrinfo", fence.resolving(socket.getaddrinfo)),
    )
    try:
        yield fence
    finally:
        changes.undo()
