"""Commands: what players ask for. They wait until the next tick takes all of them at once.

A command that was accepted is done once, whatever happens to the process. It gets a number and
goes into the *backlog*, which outlives the process. A snapshot says up to which number commands are
part of it. What came later is taken from the backlog when that snapshot is restored.
"""

import json
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from examples.cardinal.bugs import planted
from examples.cardinal.codec import build, fields_of, plain

T = TypeVar("T")
PERSONA = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)


class Rejected(ValueError):
    """The command is not accepted: it is unknown, sent to somebody else, or by nobody."""


class InboxFull(Rejected):
    """Too many commands wait for the next tick: send it again later."""


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """What a persona asks of the world at an address."""

    name: str
    address: str
    persona: str
    payload: T


class Backlog(Protocol):
    """Accepted commands, in a place that outlives the process."""

    def append(self, number: int, command: Command[Any]) -> None: ...

    def trim(self, number: int) -> None:
        """Those up to this number are not needed any more."""

    def since(self, number: int) -> list[tuple[int, Command[Any]]]:
        """Those after this number, ascending."""

    def last(self) -> int:
        """The largest number that was ever appended."""


class MemoryBacklog:
    """For tests, and for worlds that may forget."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Command[Any]]] = []
        self._last = 0

    def append(self, number: int, command: Command[Any]) -> None:
        self._kept.append((number, command))
        self._last = number

    def trim(self, number: int) -> None:
        self._kept = [each for each in self._kept if each[0] > number]

    def since(self, number: int) -> list[tuple[int, Command[Any]]]:
        return [each for each in self._kept if each[0] > number]

    def last(self) -> int:
        return self._last


class FileBacklog(MemoryBacklog):
    """One line for each command, synced before it counts as accepted. Trimming writes a new file
    beside the old one and renames it."""

    def __init__(self, path: str, kinds: dict[str, type]) -> None:
        super().__init__()
        self._path = path
        self._kinds = kinds
        self._read()
        self._file = self._write()

    def _read(self) -> None:
        try:
            with open(self._path, encoding="utf-8") as file:
                lines = file.read().split("\n")[:-1]  # the last one is torn, or empty
        except FileNotFoundError:
            return
        for line in lines:
            number, *rest = json.loads(line)
            if rest:
                name, address, persona, payload = rest
                made: Any = build(self._kinds[name], payload)
                super().append(number, Command(name, address, persona, made))
            self._last = number

    def _write(self) -> Any:
        """A file with what is kept; its first line says how far numbers have gone."""
        folder = os.path.dirname(self._path) or "."
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            file.write(json.dumps([self._last]) + "\n")
            for number, command in self._kept:
                file.write(_line(number, command))
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path + ".new", self._path)
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return open(self._path, "a", encoding="utf-8")  # it stays open

    def append(self, number: int, command: Command[Any]) -> None:
        self._file.write(_line(number, command))
        self._file.flush()
        os.fsync(self._file.fileno())
        super().append(number, command)

    def trim(self, number: int) -> None:
        super().trim(number)
        self._file.close()
        self._file = self._write()

    def close(self) -> None:
        self._file.close()


def _line(number: int, command: Command[Any]) -> str:
    fields = [command.name, command.address, command.persona, plain(command.payload)]
    return json.dumps([number, *fields]) + "\n"


class CommandManager:
    """A queue for each kind of command. Any thread may enqueue."""

    def __init__(self, address: str, backlog: Backlog, waiting_max: int) -> None:
        self.address = address
        self.backlog = backlog
        self.waiting_max = waiting_max
        self.kinds: dict[str, type] = {}
        self.applied = 0
        """The number of the last command that a tick has taken."""
        self._waiting: list[tuple[int, Command[Any]]] = []
        self._taken: dict[type, list[Command[Any]]] = {}
        self._lock = threading.Lock()
        self._trims_early = planted("commands_lost_by_crash")
        self._takes_all = planted("commands_doubled_by_crash")

    def register(self, kind: type) -> None:
        fields_of(kind)
        known = self.kinds.setdefault(kind.__name__, kind)
        if known is not kind:
            raise ValueError(f"there are two commands called {kind.__name__}")

    def command(self, persona: str, payload: Any) -> Command[Any]:
        """One for this world."""
        return Command(type(payload).__name__, self.address, persona, payload)

    def enqueue(self, command: Command[Any]) -> int:
        """Its number. When this returns, the command will be done."""
        kind = self.kinds.get(command.name)
        if kind is None or not isinstance(command.payload, kind):
            raise Rejected(f"no command is called {command.name!r} here")
        if command.address != self.address:
            raise Rejected(f"this is {self.address}, and the command is for {command.address!r}")
        if not PERSONA.fullmatch(command.persona):
            raise Rejected(f"{command.persona!r} is no persona")
        with self._lock:
            if len(self._waiting) >= self.waiting_max:
                raise InboxFull(f"{self.waiting_max} commands wait for the next tick")
            number = max(self.backlog.last(), self.applied) + 1
            self.backlog.append(number, command)
            self._waiting.append((number, command))
        return number

    def drain(self) -> None:
        """Take all that wait; `of` gives them until the next time."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        self._taken = {}
        for number, command in waiting:
            self._taken.setdefault(type(command.payload), []).append(command)
            self.applied = number
        if self._trims_early and waiting:
            self.backlog.trim(self.applied)

    def of(self, kind: type[T]) -> list[Command[T]]:
        return list(self._taken.get(kind, ()))

    def taken(self) -> list[Command[Any]]:
        """All of this tick, kind by kind."""
        return [command for each in self._taken.values() for command in each]

    def waiting(self) -> Sequence[Command[Any]]:
        return [command for _, command in self._waiting]

    def restore(self, applied: int) -> None:
        """Go on from a snapshot that holds the commands up to this number."""
        with self._lock:
            self.applied = applied
            self._waiting = self.backlog.since(0 if self._takes_all else applied)
            self._taken = {}

    def clear(self) -> None:
        """Forget all commands, those in the backlog as well."""
        with self._lock:
            self.applied = self.backlog.last()
            self.backlog.trim(self.applied)
            self._waiting, self._taken = [], {}
