"""What a bubble must not forget: a journal on its disk, and the ledger that it adds up to.

Every change is one record. `Ledger.write` makes the record durable first and applies it to memory
then, so memory never knows more than the disk, and a restart finds exactly what there was.

    own   an entity is created here                     in    one arrives, under this ticket
    out   one leaves under this ticket, perhaps         no    this ticket is refused for good
    gone  it has arrived there                          done  the source knows what became of it
    back  it has not and never will                     boot  the process starts
    forget  a token or a ticket has outlived its purpose
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field
from typing import Any

from examples.luciferase.entity import Entity

Record = dict[str, Any]
APPLIED, ABORTED = "applied", "aborted"


@dataclass(slots=True)
class Leaving:
    """An entity that has left its source and is not yet known to have arrived."""

    ticket: str
    token: str
    destination: str
    address: tuple[str, int]
    entity: Entity


@dataclass(slots=True)
class Ledger:
    """Who owns what, as far as this bubble is concerned."""

    owned: dict[str, Entity] = field(default_factory=dict)
    leaving: dict[str, Leaving] = field(default_factory=dict)
    """By ticket: migrations whose end the source does not know."""
    tickets: dict[str, str] = field(default_factory=dict)
    """At the destination: what was decided about a ticket, for good."""
    confirmed: dict[str, bool] = field(default_factory=dict)
    """Tickets whose source knows the decision: only these may be forgotten."""
    applied: dict[str, bool] = field(default_factory=dict)
    """At the source: tokens whose migration succeeded."""
    attempts: dict[str, int] = field(default_factory=dict)
    boots: int = 0

    def apply(self, record: Record) -> None:
        getattr(self, f"_{record['op']}")(record)

    def _boot(self, record: Record) -> None:
        self.boots += 1
        for entity in self.owned.values():
            entity.next_epoch()

    def _own(self, record: Record) -> None:
        entity = Entity.from_list(record["entity"])
        self.owned[entity.id] = entity

    def _out(self, record: Record) -> None:
        entity = Entity.from_list(record["entity"])
        del self.owned[entity.id]
        token, ticket = record["token"], record["ticket"]
        self.attempts[token] = self.attempts.get(token, 0) + 1
        self.leaving[ticket] = Leaving(ticket, token, record["to"], tuple(record["at"]), entity)

    def _gone(self, record: Record) -> None:
        self.applied[self.leaving.pop(record["ticket"]).token] = True

    def _back(self, record: Record) -> None:
        entity = self.leaving.pop(record["ticket"]).entity
        entity.next_epoch()
        self.owned[entity.id] = entity

    def _in(self, record: Record) -> None:
        self.tickets[record["ticket"]] = APPLIED
        self._own(record)
        self.owned[record["entity"][0]].next_epoch()

    def _no(self, record: Record) -> None:
        self.tickets[record["ticket"]] = ABORTED

    def _done(self, record: Record) -> None:
        if record["ticket"] in self.tickets:
            self.confirmed[record["ticket"]] = True

    def _forget(self, record: Record) -> None:
        for table in (self.applied, self.attempts, self.tickets, self.confirmed):
            table.pop(record["name"], None)


class Journal:
    """The file. A record is a line with a checksum; a torn last line is cut off at the start."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "journal")
        os.makedirs(folder, exist_ok=True)
        self.ledger = Ledger()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT)
        self._recover()
        _sync_folder(folder)
        _sync_folder(os.path.dirname(folder))
        self.write(op="boot")

    def write(self, **record: Any) -> None:
        """Make a record durable, then apply it."""
        text = json.dumps(record)
        line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
        while line:
            line = line[os.write(self._fd, line) :]
        os.fsync(self._fd)
        self.ledger.apply(record)

    def close(self) -> None:
        os.close(self._fd)

    def _recover(self) -> None:
        data = os.read(self._fd, os.fstat(self._fd).st_size)
        end = 0
        for line in data.splitlines(keepends=True):
            record = _record_of(line)
            if record is None:
                break
            self.ledger.apply(record)
            end += len(line)
        os.ftruncate(self._fd, end)
        os.lseek(self._fd, end, os.SEEK_SET)


def _record_of(line: bytes) -> Record | None:
    """The record, if the line is whole."""
    if not line.endswith(b"\n") or line[8:9] != b" ":
        return None
    text = line[9:-1]
    if f"{zlib.crc32(text):08x}".encode() != line[:8]:
        return None
    record: Record = json.loads(text)
    return record


def _sync_folder(folder: str) -> None:
    """A file's name is durable when its folder was synced."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
