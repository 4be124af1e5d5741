"""A connection between a client and the server, which carries HTTP messages and not their bytes.

It behaves as a connection over TCP does: what is sent arrives in its order, after the latency of
the path between the two hosts; who ends says so (FIN), a power cut says nothing, and whoever sends
to a process that is gone is told so (RST). Partitions, holds and clogs of the path apply to it.
Never: a message that arrives in part. Bytes are beneath it: take `through="uvicorn"` for those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretold.services.web.answer import HttpAnswer
    from foretold.services.web.cycle import Cycle
    from foretold.services.web.pool import Slot
    from foretold.services.web.process import ServerProcess
    from foretold.tape import Stream
    from foretold.world.host import Host
    from foretold.world.net.path import Path

SEGMENT_BYTES = 1_448


class End:
    """One side of a connection, as the stack of its host keeps it."""

    __slots__ = ("link", "number", "peer", "port", "side", "stack")

    def __init__(self, link: Link, stack: Any, side: str) -> None:
        self.link, self.stack, self.side = link, stack, side
        self.number, self.port = id(self), 0
        self.peer: End | None = None

    def close(self) -> None:
        """The process closes it, or is gone."""
        self.link.ended(self, silently=False)

    def vanish(self) -> None:
        """The power of its host is cut."""
        self.link.ended(self, silently=True)

    def reset_arrives(self) -> None:
        """Somebody on the way has broken the connection."""
        self.link.broken(self)


class Link:
    """One connection, from when it was accepted."""

    __slots__ = (
        "address", "answer", "back", "choices", "client", "client_clock", "cycle", "idle_since_ns",
        "keep_alive", "last_back_ns", "last_there_ns", "place", "process", "server",
        "server_clock", "there", "wire",
    )  # fmt: skip

    def __init__(
        self, process: ServerProcess, client: Host, address: Any, choices: Stream, place: Slot
    ) -> None:
        host = process.host
        world = host.world
        self.process = process
        self.address = address
        self.choices = choices
        self.place = place
        self.wire = world.wire
        self.client_clock, self.server_clock = client.kernel.clock, host.kernel.clock
        self.there: Path = world.network.path(client.stack, host.stack)
        self.back: Path = world.network.path(host.stack, client.stack)
        self.last_there_ns = self.last_back_ns = self.idle_since_ns = 0
        self.keep_alive = True
        """The server has not said that it will close."""
        self.answer: HttpAnswer | None = None
        self.cycle: Cycle | None = None
        self.client: End | None = End(self, client.stack, "c")
        self.server: End | None = End(self, host.stack, "s")
        self.client.peer, self.server.peer = self.server, self.client
        client.stack.ends[id(self.client)] = self.client  # type: ignore[assignment]  # an end of ours
        host.stack.ends[id(self.server)] = self.server  # type: ignore[assignment]  # as above
        process.links.add(self)

    # --- on its way ------------------------------------------------------------------------------

    def to_server(self, size: int, arrives: Callable[..., object], *args: Any) -> None:
        """Send something to the server now."""
        told = self._telling(self.client, self.server, arrives)
        self._go_there(max(self.client_clock.ns, self.wire.now_ns), size, told, args)

    def _go_there(self, now_ns: int, size: int, arrives: Any, args: tuple[Any, ...]) -> None:
        path = self.there
        if path.cut or path.held or path.clogged_until_ns:
            path.waiting.append(lambda then_ns: self._go_there(then_ns, size, arrives, args))
            return
        when_ns = path.arrival_ns(now_ns, size, self.choices)
        self.last_there_ns = when_ns = max(when_ns, self.last_there_ns)
        self.wire.at(when_ns, self._at_server, arrives, args)

    def _at_server(self, arrives: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.server is not None:
            arrives(*args)
        elif not self.process.host.stack.dead and self.client is not None:
            self.to_client(0, self._reset_by_server)

    def goal_of(self, name: str, args: Any) -> object:
        """The stack that the method `name` reaches when it is called from the wire."""
        end = {"_at_server": self.server, "_at_client": self.client}.get(name)
        return None if end is None else end.stack

    def to_client(self, size: int, arrives: Callable[..., object], *args: Any) -> int:
        """Send something to the client now; when it arrives, or 0 if nobody knows."""
        now_ns = max(self.server_clock.ns, self.wire.now_ns)
        told = self._telling(self.server, self.client, arrives)
        return self._go_back(now_ns, size, told, args)

    def _telling(
        self, source: End | None, target: End | None, arrives: Callable[..., object]
    ) -> Callable[..., object]:
        """What arrives, with what the sender knows of events now."""
        network = self.process.host.world.network
        if network.knowledge is None or source is None or target is None:
            return arrives
        known, name = network.knowledge.of(source.stack.name), target.stack.name

        def arrive(*args: Any) -> None:
            if network.knowledge is not None:
                network.knowledge.learns(name, known)
            arrives(*args)

        return arrive

    def _go_back(self, now_ns: int, size: int, arrives: Any, args: tuple[Any, ...]) -> int:
        path = self.back
        if path.cut or path.held or path.clogged_until_ns:
            path.waiting.append(lambda then_ns: self._go_back(then_ns, size, arrives, args))
            return 0
        when_ns = path.arrival_ns(now_ns, size, self.choices)
        self.last_back_ns = when_ns = max(when_ns, self.last_back_ns)
        self.wire.at(when_ns, self._at_client, arrives, args)
        return when_ns

    def _at_client(self, arrives: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.client is not None:
            arrives(*args)

    # --- its end ---------------------------------------------------------------------------------

    def ended(self, end: End, *, silently: bool) -> None:
        """One side has ended, and the other hears of it unless the power is gone."""
        if end is self.client:
            self.drop_client()
            if not silently:
                self.to_server(0, self._left_by_client)
        elif end is self.server:
            self.drop_server()
            if not silently:
                self.to_client(0, self.closed_by_server)

    def close_client(self) -> None:
        if self.client is not None:
            self.ended(self.client, silently=False)

    def close_server(self) -> None:
        if self.server is not None:
            self.ended(self.server, silently=False)

    def broken(self, end: End) -> None:
        """A reset has come to this side."""
        if end is self.client:
            self._reset_by_server()
        elif end is self.server:
            self._left_by_client()

    def drop_client(self) -> None:
        """The client's side is no more."""
        if self.client is not None:
            self.client.stack.ends.pop(id(self.client), None)
            self.client = None

    def drop_server(self) -> None:
        """The server's side is no more."""
        if self.server is not None:
            self.server.stack.ends.pop(id(self.server), None)
            self.server = None
            self.process.links.discard(self)

    def _left_by_client(self) -> None:
        cycle = self.cycle
        self.drop_server()
        if cycle is not None:
            cycle.client_left()

    def closed_by_server(self) -> None:
        """The client hears that the server has hung up."""
        answer = self.answer
        self.drop_client()
        if answer is not None:
            answer.closed()

    def _reset_by_server(self) -> None:
        answer = self.answer
        self.drop_client()
        if answer is not None:
            answer.reset()
