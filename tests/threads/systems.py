"""Larger programs with threads: a migration with states, many locks, readers beside writers.

As in `kernels.py`, each takes `fixed`. All of them race at their locks. Executors are shut down
before anything is asserted, nothing sleeps, polls, or waits for real time.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.threads.kernels import Kernel

# --- six threads migrate entities ------------------------------------------------------------

LEGAL = {
    "settled": {"leaving"},
    "leaving": {"moving"},
    "moving": {"settled"},
}
"""Which state may follow which."""


class Entity:
    """Something that lives in exactly one place, and moves in three transitions."""

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place, self.state = name, place, "settled"
        self.history = ["settled"]

    def go(self, state: str) -> None:
        """One transition."""
        self.state = state
        self.history.append(state)


class Places:
    """Who lives where. Every access is under one lock; the mistake is to look under it, let it go,
    and act under it again."""

    def __init__(self, fixed: bool) -> None:
        self.fixed = fixed
        self.lock = threading.Lock()
        self.entities = [Entity(name, "east") for name in ("ann", "bob", "cem")]
        self.living = {"east": ["ann", "bob", "cem"], "west": list[str]()}

    def _begin(self, entity: Entity, target: str) -> bool:
        """Whether it is ours to move."""
        if self.fixed:
            with self.lock:
                if entity.state != "settled" or entity.place == target:
                    return False
                entity.go("leaving")
                return True
        with self.lock:
            ours = entity.state == "settled" and entity.place != target
        if ours:
            with self.lock:
                entity.go("leaving")
        return ours

    def migrate(self, entity: Entity, target: str) -> bool:
        """Move it, unless somebody else does already."""
        if not self._begin(entity, target):
            return False
        with self.lock:
            entity.go("moving")
            self.living[entity.place].remove(entity.name)
        with self.lock:
            self.living[target].append(entity.name)
            entity.place = target
            entity.go("settled")
        return True

    def look(self) -> None:
        """Each entity is in one place, or on its way and in none."""
        with self.lock:
            for entity in self.entities:
                found = [place for place, names in self.living.items() if entity.name in names]
                assert found == ([] if entity.state == "moving" else [entity.place])

    def check(self) -> None:
        """All is over: everybody has arrived by legal transitions."""
        self.look()
        for entity in self.entities:
            assert entity.state == "settled"
            for before, after in zip(entity.history, entity.history[1:], strict=False):
                assert after in LEGAL[before], entity.history
        assert sorted(self.living["east"] + self.living["west"]) == ["ann", "bob", "cem"]


def migration(fixed: bool) -> None:
    """Two threads for each of two entities that migrate, two that look."""
    places = Places(fixed)
    ann, bob, _ = places.entities
    with ThreadPoolExecutor(6) as pool:
        moves = [pool.submit(places.migrate, who, "west") for who in (ann, bob, ann, bob)]
        looks = [pool.submit(places.look) for _ in range(2)]
    moved = [move.result() for move in moves]
    for look in looks:
        look.result()
    places.check()
    assert sum(moved) == 2
    assert places.living["east"] == ["cem"]


# --- twenty threads take several locks -------------------------------------------------------


def twenty(fixed: bool) -> None:
    """Each moves money round three of six accounts and locks all three. The mistake: they are
    locked in the order in which the money goes."""
    locks = [threading.Lock() for _ in range(6)]
    balances = [100] * 6

    def move(number: int) -> None:
        ring = [(number + step) % 6 for step in (0, 2, 3)]
        order = sorted(ring) if fixed else ring
        first, second, third = (locks[index] for index in order)
        with first, second, third:
            for taken, given in zip(ring, ring[1:] + ring[:1], strict=True):
                balances[taken] -= number
                balances[given] += number

    with ThreadPoolExecutor(20) as pool:
        moves = [pool.submit(move, number) for number in range(20)]
    for one in moves:
        one.result()
    assert balances == [100] * 6


# --- readers beside writers ------------------------------------------------------------------


class Stock:
    """0 <= count <= 100, for whoever looks. The mistake: to write first and to correct then."""

    def __init__(self, fixed: bool) -> None:
        self.fixed, self.lock, self.count = fixed, threading.Lock(), 50

    def change(self, by: int) -> None:
        """Add or take, but never beyond a limit."""
        with self.lock:
            wanted = self.count + by
            self.count = min(100, max(0, wanted)) if self.fixed else wanted
        with self.lock:
            self.count = min(100, max(0, self.count))

    def read(self) -> int:
        """What somebody sees who looks now."""
        with self.lock:
            return self.count


def readers(fixed: bool) -> None:
    """Four writers and four readers; in the end the count is right, whatever readers saw."""
    stock = Stock(fixed)

    def write(steps: list[int]) -> None:
        for step in steps:
            stock.change(step)

    def watch() -> list[int]:
        return [stock.read() for _ in range(3)]

    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write, steps) for steps in ([40, -30], [-60, 20], [30], [-10])]
        watched = [pool.submit(watch) for _ in range(4)]
    for written in writes:
        written.result()
    seen = [count for one in watched for count in one.result()]
    assert 0 <= stock.count <= 100
    assert all(0 <= count <= 100 for count in seen), seen


SYSTEMS = (
    Kernel("migration, 6 threads", migration),
    Kernel("several locks, 20 threads", twenty),
    Kernel("readers and writers", readers),
)
