"""A snapshot as bytes: what a world needs in order to go on.

    magic, checksum of the rest, length of the JSON | JSON | the archetypes' bitmaps, in whole words

Equal worlds give equal bytes. A snapshot that was cut short or damaged is recognised.
"""

import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from examples.cardinal.archetype import EntityId
from examples.cardinal.bitmap import Bitmap
from examples.cardinal.bugs import planted
from examples.cardinal.codec import builder, encoder
from examples.cardinal.state import State

HEADER = struct.Struct("<4sIQ")
MAGIC = b"CRD1"


class BadSnapshot(ValueError):
    """It was torn, damaged, or made by a world with other components."""


@dataclass(frozen=True)
class Snapshot:
    """Decoded, but not yet applied to a state."""

    height: int
    timestamp_s: float
    applied: int
    """The number of the last command that is part of it."""
    body: dict[str, Any]
    bitmaps: Any
    events: list[Any] = field(default_factory=list)


def encode(state: State, height: int, timestamp_s: float, applied: int, events: list[Any]) -> bytes:
    """The world after a tick."""
    archetypes, bitmaps = [], b""
    registry = state.registry
    for each in state.archetypes:
        words = each.components.to_words()
        columns = []
        for component, column in each.columns.items():
            columns.append(list(map(encoder(registry.type_of(component)), column)))
        archetypes.append([len(bitmaps), len(words), each.entities, columns])
        bitmaps += words
    body = {
        "height": height,
        "timestamp_s": timestamp_s,
        "applied": applied,
        "components": registry.names(),
        "next_id": state.next_id,
        "free": list(state.free),
        "archetypes": archetypes,
        "events": events,
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    rest = text + bitmaps
    return HEADER.pack(MAGIC, zlib.crc32(rest), len(text)) + rest


def check_whole(data: Any) -> tuple[memoryview, int]:
    """What follows the header, and the length of its text. Raises if anything is missing."""
    view = memoryview(data)
    try:
        magic, checksum, length = HEADER.unpack_from(view)
    except struct.error as error:
        raise BadSnapshot(str(error)) from error
    rest = view[HEADER.size :]
    if magic != MAGIC:
        raise BadSnapshot("this is not a snapshot")
    if zlib.crc32(rest) != checksum and not planted("torn_snapshot_accepted"):
        raise BadSnapshot("the checksum is wrong: it was torn or damaged")
    return rest, length


def decode(data: Any) -> Snapshot:
    """Reads a snapshot. `data` is any buffer, and stays the caller's."""
    rest, length = check_whole(data)
    try:
        body = json.loads(bytes(rest[:length]))
        height, applied = body["height"], body["applied"]
        return Snapshot(height, body["timestamp_s"], applied, body, rest[length:], body["events"])
    except (ValueError, KeyError) as error:
        raise BadSnapshot(str(error)) from error


def apply(snapshot: Snapshot, state: State) -> None:
    """Make the state what it was."""
    body = snapshot.body
    if body["components"] != state.registry.names():
        raise BadSnapshot("the snapshot has other components than the world")
    state.clear()
    for offset, size, entities, columns in body["archetypes"]:
        bitmap = Bitmap.from_words(snapshot.bitmaps[offset : offset + size])
        home = state.archetype_of(bitmap)
        home.components = bitmap
        home.entities[:] = map(EntityId, entities)
        for row, entity in enumerate(home.entities):
            home.rows.set(entity, row)
            state.where.set(entity, home.number)
        for component, column in zip(bitmap, columns):  # noqa: B905  # check_world compares them
            make = builder(state.registry.type_of(component))
            home.columns[component][:] = map(make, column)
    state.next_id = body["next_id"]
    if not planted("restore_forgets_free_list"):
        state.free.extend(map(EntityId, body["free"]))
