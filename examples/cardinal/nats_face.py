"""A shard on NATS.

    cardinal.ADDRESS.command.NAME   request: a player's command; the answer is its number
    cardinal.ADDRESS.message.NAME   request: a command of another shard
    cardinal.ADDRESS.query          request: entities with some components
    cardinal.ADDRESS.persona        request: claim a name, get its token
    cardinal.ADDRESS.event.NAME     published: what happened, when the tick is over

A message to another shard is a request as well: it is delivered when the other shard has accepted
the command. No tick waits for that: each shard has a queue and a task of its own here. A message
that is not answered within `ANSWER_S`, or finds the queue full, is logged and lost.
"""

import asyncio
import json
import logging
from typing import Any

import nats

from examples.cardinal.events import DEFAULT, INTER_SHARD, Event
from examples.cardinal.gateway import Gateway, named, told

ANSWER_S = 2.0


OUTBOX_MAX = 1000
LOG = logging.getLogger("cardinal")


class NotDelivered(RuntimeError):
    """The other shard has refused the message, or too many wait for it."""


class NatsFace:
    """Subscribes for a shard, and publishes its events."""

    def __init__(self, gateway: Gateway, url: str) -> None:
        self._gateway = gateway
        self._url = url
        self._address = gateway.world.options.address
        self._client: Any = None
        self._outboxes: dict[str, asyncio.Queue[Event]] = {}
        self._senders: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect; from here on commands are accepted."""
        prefix = f"cardinal.{self._address}"
        self._client = await nats.connect(self._url, max_reconnect_attempts=-1)
        await self._client.subscribe(f"{prefix}.command.*", cb=self._on_command)
        await self._client.subscribe(f"{prefix}.message.*", cb=self._on_message)
        await self._client.subscribe(f"{prefix}.query", cb=self._on_query)
        await self._client.subscribe(f"{prefix}.persona", cb=self._on_persona)
        handlers = self._gateway.world.events.handlers
        handlers[DEFAULT].append(self._publish)
        handlers[INTER_SHARD].append(self._send)
        await self._client.flush()

    async def close(self) -> None:
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        await self._client.close()

    async def _on_command(self, message: Any) -> None:
        name = message.subject.rpartition(".")[2]
        await _answer(message, self._gateway.command(name, _read(message)))

    async def _on_message(self, message: Any) -> None:
        name = message.subject.rpartition(".")[2]
        await _answer(message, self._gateway.command(name, _read(message), trusted=True))

    async def _on_query(self, message: Any) -> None:
        await _answer(message, self._gateway.query(_read(message)))

    async def _on_persona(self, message: Any) -> None:
        asked = _read(message)
        name = asked.get("persona") if isinstance(asked, dict) else None
        await _answer(message, self._gateway.claim(str(name)))

    async def _publish(self, event: Event) -> None:
        subject = f"cardinal.{self._address}.event.{type(event.payload).__name__}"
        await self._client.publish(subject, json.dumps(told(event)).encode())

    def _send(self, event: Event) -> None:
        outbox = self._outboxes.get(event.address)
        if outbox is None:
            outbox = self._outboxes[event.address] = asyncio.Queue(OUTBOX_MAX)
            self._senders.append(asyncio.ensure_future(self._deliver_from(outbox)))
        if outbox.full():
            raise NotDelivered(f"{OUTBOX_MAX} messages wait for {event.address}")
        outbox.put_nowait(event)

    async def _deliver_from(self, outbox: asyncio.Queue[Event]) -> None:
        while True:
            event = await outbox.get()
            try:
                await self._deliver(event)
            except Exception as error:
                LOG.warning("%s was not delivered to %s: %r", event.payload, event.address, error)

    async def _deliver(self, event: Event) -> None:
        name = type(event.payload).__name__
        request = {"persona": self._address, "payload": named(event.payload)}
        subject = f"cardinal.{event.address}.message.{name}"
        answer = await self._client.request(subject, json.dumps(request).encode(), ANSWER_S)
        if "error" in (said := json.loads(answer.data)):
            raise NotDelivered(str(said["error"]))


def _read(message: Any) -> Any:
    try:
        return json.loads(message.data)
    except ValueError:
        return None


async def _answer(message: Any, answer: dict[str, Any]) -> None:
    if message.reply:
        await message.respond(json.dumps(answer).encode())
