"""httpx over HTTP/2, unmodified, against a small server made of the h2 library and streams."""

from __future__ import annotations

import asyncio
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx

import foretold
from tests.compat import tls
from tests.compat.scene import check, for_each, scenario

BODY = bytes(range(256)) * 800
"""More than the windows of HTTP/2 (64 KiB) let pass at once."""


class Connection:
    """One client: each request is answered by a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config=config)
        self.paths: dict[int, str] = {}
        self.bodies: dict[int, bytes] = {}
        self.wider = asyncio.Condition()
        self.answers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the client hangs up."""
        self.h2.initiate_connection()
        self.flush()
        while data := await self.reader.read(65_536):
            for event in self.h2.receive_data(data):
                await self.handle(event)
            self.flush()
        self.writer.close()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def handle(self, event: Any) -> None:
        """What arrived."""
        if isinstance(event, h2.events.RequestReceived):
            self.paths[event.stream_id] = dict(event.headers)[b":path"].decode()
            self.bodies[event.stream_id] = b""
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            task = asyncio.create_task(self.answer(event.stream_id))
            self.answers.add(task)
            task.add_done_callback(self.answers.discard)
        elif isinstance(event, h2.events.WindowUpdated):
            async with self.wider:
                self.wider.notify_all()

    async def answer(self, stream: int) -> None:
        """The body comes back, or the number in the path after some tenths of a second."""
        body, number = self.bodies[stream], self.paths[stream].rpartition("/")[2]
        if number.isdigit():
            await asyncio.sleep(0.1 * (int(number) % 3))
            body = number.encode()
        self.h2.send_headers(stream, [(":status", "200"), ("content-length", str(len(body)))])
        while body:
            async with self.wider:
                await self.wider.wait_for(lambda: self.h2.local_flow_control_window(stream) > 0)
            size = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            self.h2.send_data(stream, body[:size])
            body = body[size:]
            self.flush()
            await self.writer.drain()
        self.h2.end_stream(stream)
        self.flush()


async def start(world: foretold.World) -> tuple[httpx.AsyncClient, list[Any]]:
    """A client, and the list of the connections that the server sees."""
    api, peers = world.host("api"), list[Any]()

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername"))
        await Connection(reader, writer).run()

    async def main() -> None:
        async with await asyncio.start_server(session, "0.0.0.0", 443, ssl=tls.HTTP2) as server:
            await server.serve_forever()

    api.start(main)
    await api.listening(443)
    client = httpx.AsyncClient(
        base_url="https://api", verify=tls.CLIENT_OF_HTTP2, http1=False, http2=True, trust_env=False
    )
    return client, peers


@scenario
async def multiplexed(world: foretold.World) -> None:
    """Nine requests at a time share one connection; each gets its own answer."""
    client, peers = await start(world)
    async with client:
        answers = await asyncio.gather(*(client.get(f"/later/{n}") for n in range(9)))
    assert [answer.text for answer in answers] == [str(n) for n in range(9)]
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert len(peers) == 1


@scenario
async def flow_control(world: foretold.World) -> None:
    """Two bodies of 200 KiB each way, at a time, through windows of 64 KiB."""
    client, _ = await start(world)
    async with client:
        answers = await asyncio.gather(*(client.post("/echo", content=BODY) for _ in range(2)))
    assert [answer.content for answer in answers] == [BODY, BODY]


@for_each(multiplexed, flow_control)
def test_http2(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
