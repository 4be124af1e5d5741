"""A socket as the kernel keeps it: what one or several descriptors stand for."""

from __future__ import annotations

import select
import socket
import stat
from typing import TYPE_CHECKING, Any

from foretold.world.net.descriptors import Descriptors, OpenDescriptor
from foretold.world.net.stack import Listener
from foretold.world.net.tcp import CLOSED, CONNECTING, DEAD, TcpEnd
from foretold.world.net.udp import UdpEnd
from foretold.world.net.unix import UnixDatagrams, UnixEnd

if TYPE_CHECKING:
    from foretold.world.host import Host

IN, OUT, ERR, HUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP
RDHUP = select.EPOLLRDHUP


class SocketFile(OpenDescriptor):
    def __init__(self, host: Host, family: int, type: int, proto: int, end: TcpEnd | UdpEnd):
        super().__init__(host)
        self.mode = stat.S_IFSOCK | 0o777
        self.family, self.type, self.proto = family, type, proto
        self.options: dict[tuple[int, int], int] = {}
        self.bound: Any = None
        self.listener: Listener | None = None
        self.connect_reported = True
        """Linux says once that a connect has succeeded, then that there is a connection already."""
        self.attach(end)

    def attach(self, end: TcpEnd | UdpEnd) -> None:
        self.end = end
        end.on_change = self.stir

    def readable(self) -> bool:
        if self.listener is not None:
            return bool(self.listener.queue)
        end = self.end
        return end.readable() or (isinstance(end, TcpEnd) and end.state == CLOSED)

    def writable(self) -> bool:
        return self.listener is None and self.end.writable()

    def events(self) -> int:
        if self.listener is not None:
            return IN if self.listener.queue else 0
        end = self.end
        if isinstance(end, TcpEnd):
            return _stream_events(end)
        found = IN if end.readable() else 0
        if isinstance(end, UnixDatagrams) and end.shut_read:
            found |= RDHUP | (HUP if end.shut_write else 0)
        return found | (OUT if end.writable() else 0) | (ERR if end.error else 0)

    def read(self, size: int) -> bytes:
        end = self.end
        return end.receive(size) if isinstance(end, TcpEnd) else end.receive(size)[0]

    def write(self, data: bytes) -> int:
        end = self.end
        return end.send(data) if isinstance(end, TcpEnd) else end.send(data, end.remote)

    def is_in_use(self, table: Descriptors) -> bool:
        """Whether a living process has it open, in a run that is not over."""
        if table.process_is_over or self.host.world.sealed:
            return False
        if self.listener is not None:
            return not self.listener.closed
        end = self.end
        return not (end.closed_by_program if isinstance(end, TcpEnd) else end.closed)

    def released(self) -> None:
        stack = self.host.stack
        if self.listener is not None:
            self.listener.close()
        else:
            self.end.close()
        if self.family == socket.AF_UNIX:
            if self.bound is not None:
                stack.unix.released(self)
        elif isinstance(self.end, TcpEnd) and self.end.state == CLOSED:
            stack.unbind(self.end)


def _stream_events(end: TcpEnd) -> int:
    if end.state == CLOSED:
        return OUT | HUP
    if end.state == CONNECTING:
        return 0
    dead = end.state == DEAD or (isinstance(end, UnixEnd) and end.hung_up)
    found = IN if end.readable() or dead else 0
    found |= RDHUP if end.eof_received or dead else 0
    found |= HUP if dead or (end.eof_received and end.fin_wanted) else 0
    return found | (OUT if end.writable() or end.fin_wanted else 0) | (ERR if end.error else 0)
