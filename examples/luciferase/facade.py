"""The same ideas in one process, without sockets: what small tests of time, loss and rollback use.

`FakeNetworkChannel` is two ends and a queue between them. `CrossProcessMigration` moves an entity
between two objects in the two phases that `migration.py` makes between two processes. Both take
their time from an injected clock, and the channel takes its losses from injected dice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from examples.luciferase.clock import Clock, SystemClock
from examples.luciferase.entity import checked_id
from examples.luciferase.ghosts import BUCKET_MS
from examples.luciferase.results import DEFAULT, Migrated, Profile, Result

# --- a network ------------------------------------------------------------------------------------


class FakeNetworkChannel:
    """From one node to another. The sender does not see whether a message was lost."""

    def __init__(self, a: str, b: str, dice: Callable[[], float] | None = None) -> None:
        self.ends = (a, b)
        self._dice = dice or random.Random(f"{a} {b}").random
        self._clock: Clock = SystemClock()
        self._loss = 0.0
        self._latency_ms = 0
        self._flying: list[tuple[int, Any]] = []

    def set_clock(self, clock: Clock) -> None:
        self._clock = clock

    def set_packet_loss(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"a share of packets is between 0 and 1, not {share}")
        self._loss = share

    def set_latency(self, millis: int) -> None:
        self._latency_ms = millis

    def send(self, message: Any) -> None:
        if self._loss == 0 or self._dice() >= self._loss:
            self._flying.append((self._clock.millis() + self._latency_ms, message))

    def receive(self) -> Any:
        """The first message that has arrived, or None."""
        now_ms = self._clock.millis()
        for place, (arrives_ms, message) in enumerate(self._flying):
            if arrives_ms <= now_ms:
                del self._flying[place]
                return message
        return None

    def send_with_retry(self, message: Any, max_retries: int) -> Sent:
        """Send until the other end has it, which acknowledges over a channel that loses nothing."""
        for attempt in range(1, max_retries + 2):
            self.send(message)
            received = self.receive()
            if received is not None:
                return Sent(attempt, received)
        return Sent(max_retries + 1, None)


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a message."""

    attempts: int
    received: Any

    @property
    def is_success(self) -> bool:
        return self.received is not None


# --- time -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that began, and may take so long."""

    clock: Clock
    began_ns: int
    limit_ms: float

    def elapsed_ms(self) -> float:
        return (self.clock.nanos() - self.began_ns) / 1e6

    def is_timed_out(self) -> bool:
        return self.elapsed_ms() > self.limit_ms

    def elapsed_since(self, earlier: Operation) -> float:
        """How long after the other one this began, in milliseconds."""
        return (self.began_ns - earlier.began_ns) / 1e6


def start_operation(clock: Clock, limit_ms: float = DEFAULT.phase_ms) -> Operation:
    return Operation(clock, clock.nanos(), limit_ms)


class BucketScheduler:
    """Runs what is due at the boundary of a bucket of 100 ms."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._due: list[tuple[int, Callable[[], None]]] = []

    def schedule(self, event: Callable[[], None], at_ms: int) -> None:
        if at_ms % BUCKET_MS:
            raise ValueError(f"{at_ms} ms is not the boundary of a bucket")
        self._due.append((at_ms, event))

    def run_due(self) -> int:
        """Run what is due, in order of time. How many events that were."""
        now_ms = self.clock.millis()
        due = sorted((each for each in self._due if each[0] <= now_ms), key=lambda each: each[0])
        self._due = [each for each in self._due if each[0] > now_ms]
        for _, event in due:
            event()
        return len(due)


# --- migration ------------------------------------------------------------------------------------


class LocalBubble:
    """A bubble without a process."""

    def __init__(self, name: str, *entities: str) -> None:
        self.name = name
        self.entities = set(entities)
        self.fails_on_add = False

    def set_fail_on_add(self, fails: bool) -> None:
        self.fails_on_add = fails

    def contains(self, entity: str) -> bool:
        return entity in self.entities

    def add(self, entity: str) -> bool:
        if self.fails_on_add:
            return False
        self.entities.add(entity)
        return True

    def remove(self, entity: str) -> bool:
        if entity not in self.entities:
            return False
        self.entities.remove(entity)
        return True


@dataclass(slots=True)
class DedupStore:
    """Tokens that were used, for a while."""

    lifetime_ms: int = 300_000
    used_ms: dict[str, int] = field(default_factory=dict)

    def put_if_absent(self, token: str, now_ms: int) -> bool:
        since_ms = self.used_ms.get(token)
        if since_ms is not None and now_ms - since_ms < self.lifetime_ms:
            return False
        self.used_ms[token] = now_ms
        return True

    def remove(self, token: str) -> None:
        self.used_ms.pop(token, None)


class CrossProcessMigration:
    """Two phases between two bubbles: remove, then add, or put back."""

    def __init__(
        self, dedup: DedupStore, metrics: Counter[Result], profile: Profile = DEFAULT
    ) -> None:
        self.dedup = dedup
        self.metrics = metrics
        self.profile = profile
        self._clock: Clock = SystemClock()

    def set_clock(self, clock: Clock) -> None:
        self._clock = clock

    def start_migration(self, entity: str, source: LocalBubble, to: LocalBubble) -> Operation:
        """A migration that goes on elsewhere, for whoever watches its time."""
        _check(entity, source, to)
        return start_operation(self._clock, self.profile.phase_ms)

    def check_timeout(self, migration: Operation) -> bool:
        return migration.is_timed_out()

    def migrate(self, entity: str, source: LocalBubble, to: LocalBubble, token: str) -> Migrated:
        _check(entity, source, to)
        ended = self._migrate(entity, source, to, token)
        self.metrics[ended.result] += 1
        return ended

    def _migrate(self, entity: str, source: LocalBubble, to: LocalBubble, token: str) -> Migrated:
        if not self.dedup.put_if_absent(token, self._clock.millis()):
            return Migrated(Result.ALREADY_APPLIED)
        if not source.remove(entity):
            self.dedup.remove(token)
            return Migrated(Result.PREPARE_FAILED, "not here")
        if to.add(entity):
            return Migrated(Result.SUCCESS)
        self.dedup.remove(token)  # so that a retry is possible
        if source.add(entity):
            return Migrated(Result.COMMIT_FAILED, is_rolled_back=True)
        return Migrated(Result.ROLLBACK_FAILED)


def _check(entity: str, source: LocalBubble, to: LocalBubble) -> None:
    checked_id(entity)
    if source is to:
        raise ValueError(f"{entity} is to migrate from {source.name} to itself")
