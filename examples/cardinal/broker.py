"""A small NATS server, for simulations and for machines without the real one.

It speaks what `nats-py` needs: INFO, CONNECT, PING, SUB, UNSUB, PUB, queue groups and wildcards. It
has no headers, no JetStream, no accounts. The end-to-end test uses the real `nats-server`.
"""

import asyncio
import json
from dataclasses import dataclass

INFO = {"server_id": "cardinal", "version": "2.10.0", "max_payload": 1_048_576, "headers": False}


@dataclass(frozen=True)
class Subscription:
    """Who wants what."""

    writer: asyncio.StreamWriter
    number: str
    pattern: tuple[str, ...]
    group: str


class Broker:
    """All connections and subscriptions."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    async def serve(self, host: str = "0.0.0.0", port: int = 4222) -> asyncio.Server:
        return await asyncio.start_server(self._session, host, port)

    async def main(self) -> None:
        """Serve until the host is stopped."""
        async with await self.serve() as server:
            await server.serve_forever()

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
        try:
            while line := await reader.readline():
                await self._obey(line.decode().split(), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._subscriptions = [s for s in self._subscriptions if s.writer is not writer]
            writer.close()

    async def _obey(
        self, words: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        verb, rest = words[0].upper(), words[1:]
        if verb == "PING":
            writer.write(b"PONG\r\n")
        elif verb == "SUB":
            group = rest[1] if len(rest) == 3 else ""
            pattern = tuple(rest[0].split("."))
            self._subscriptions.append(Subscription(writer, rest[-1], pattern, group))
        elif verb == "UNSUB" and len(rest) == 1:
            gone = (writer, rest[0])
            self._subscriptions = [s for s in self._subscriptions if (s.writer, s.number) != gone]
        elif verb == "PUB":
            payload = (await reader.readexactly(int(rest[-1]) + 2))[:-2]
            self._publish(rest[0], rest[1] if len(rest) == 3 else "", payload)

    def _publish(self, subject: str, reply: str, payload: bytes) -> None:
        """To every subscriber, but to one only of each queue group."""
        words, served = tuple(subject.split(".")), set()
        for each in list(self._subscriptions):
            if not matches(each.pattern, words) or (each.group and each.group in served):
                continue
            served.add(each.group)
            head = " ".join(filter(None, ["MSG", subject, each.number, reply, str(len(payload))]))
            each.writer.write(head.encode() + b"\r\n" + payload + b"\r\n")


def matches(pattern: tuple[str, ...], subject: tuple[str, ...]) -> bool:
    """`*` is one word, `>` is all that follow."""
    for place, word in enumerate(pattern):
        if word == ">":
            return len(subject) > place
        if place >= len(subject) or word not in ("*", subject[place]):
            return False
    return len(pattern) == len(subject)
