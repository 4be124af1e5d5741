"""What a shard answers, whatever the network: commands, queries, personas.

Both faces (`nats_face.py`, `http_face.py`) call it with what they have read, and send on what it
gives. Whoever asks for something wrong gets an `error` and a sentence, never a broken connection.
"""

import hashlib
import hmac
from typing import Any

from examples.cardinal.codec import BadPayload, build_named, fields_of, plain
from examples.cardinal.commands import PERSONA, Command, Rejected
from examples.cardinal.component import UnknownComponent
from examples.cardinal.events import Event
from examples.cardinal.world import World


class Personas:
    """Names that players act under. Whoever claims one first gets its token."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._claimed: set[str] = set()

    def claim(self, name: str) -> str:
        if not PERSONA.fullmatch(name):
            raise Rejected(f"{name!r} is no persona: 1 to 64 letters, digits and _ . : -")
        if name in self._claimed:
            raise Rejected(f"{name} belongs to somebody else")
        self._claimed.add(name)
        return self.token(name)

    def token(self, name: str) -> str:
        """Made from the secret, so a server that starts again knows it still."""
        return hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()

    def check(self, name: str, token: str) -> None:
        if not hmac.compare_digest(self.token(name).encode(), token.encode()):
            raise Rejected(f"this is not the token of {name}")


class Gateway:
    """The world for those outside."""

    def __init__(self, world: World, personas: Personas) -> None:
        self.world = world
        self.personas = personas

    def command(self, name: str, request: Any, *, trusted: bool = False) -> dict[str, Any]:
        """Accept a command: its number, or an error. A trusted sender needs no token: another
        shard, which acts under its own address."""
        try:
            fields = request if isinstance(request, dict) else {}
            persona, token = str(fields.get("persona", "")), str(fields.get("token", ""))
            if not trusted:
                self.personas.check(persona, token)
            kind = self.world.commands.kinds.get(name)
            if kind is None:
                raise Rejected(f"no command is called {name!r} here")
            payload = build_named(kind, fields.get("payload"))
            command: Command[Any] = Command(name, self.world.options.address, persona, payload)
            return {"number": self.world.commands.enqueue(command)}
        except (Rejected, BadPayload) as error:
            return {"error": str(error)}

    def query(self, request: Any) -> dict[str, Any]:
        """Entities with some components: `{"find": ["Health"], "exactly": false}`."""
        fields = request if isinstance(request, dict) else {}
        state, names = self.world.core.state, fields.get("find", [])
        if not isinstance(names, list):
            return {"error": "`find` is a list of components"}
        try:
            wanted = [state.registry.id_of(str(name)) for name in names]
        except UnknownComponent as error:
            return {"error": str(error)}
        find = state.exactly if fields.get("exactly") else state.containing
        rows = state.rows(find(wanted), wanted)
        entities = [
            {"entity": entity} | {n: named(v) for n, v in zip(names, values, strict=True)}
            for entity, *values in rows
        ]
        return {"height": self.world.height, "entities": entities}

    def claim(self, name: str) -> dict[str, Any]:
        try:
            return {"persona": name, "token": self.personas.claim(name)}
        except Rejected as error:
            return {"error": str(error)}


def named(value: Any) -> dict[str, Any]:
    """A dataclass with the names of its fields, as players see it."""
    kind: type = type(value)
    return {name: plain(getattr(value, name)) for name, _ in fields_of(kind)}


def told(event: Event) -> dict[str, Any]:
    """An event as others see it."""
    name = type(event.payload).__name__
    return {"event": name, "height": event.height, "to": event.address} | {
        "payload": named(event.payload)
    }
