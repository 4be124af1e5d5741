"""Keeps the last few snapshots, and of the backlog what a restore of any of them needs."""

from examples.cardinal.bugs import planted
from examples.cardinal.commands import Backlog
from examples.cardinal.snapshot import BadSnapshot, Snapshot, decode
from examples.cardinal.stores import SnapshotStore

KEPT = 3
"""Snapshots. Storage may tear the newest, or show a list from before it was written."""


class Keeper:
    """Between a world and its store."""

    def __init__(self, store: SnapshotStore, backlog: Backlog) -> None:
        self.store = store
        self._backlog = backlog
        self._applied: dict[int, int] = {}
        """For each snapshot that can be read, up to which command it goes."""
        self._to_newest = planted("backlog_trimmed_to_newest")

    async def save(self, data: bytes, applied: int) -> None:
        """Store it, then forget what no restore can need any more."""
        number = max(self._applied, default=0) + 1
        await self.store.save(number, data)
        self._applied[number] = applied
        while len(self._applied) > KEPT:
            oldest = min(self._applied)
            await self.store.delete(oldest)
            del self._applied[oldest]
        if len(self._applied) > 1 or self._to_newest:  # one alone may be torn
            known = self._applied.values()
            self._backlog.trim(max(known) if self._to_newest else min(known))

    async def newest(self) -> Snapshot | None:
        """The newest that can be read. Those that cannot are deleted."""
        self._applied = {}
        found = None
        for number in await self.store.numbers():
            try:
                snapshot = decode(await self.store.load(number))
            except BadSnapshot:
                await self.store.delete(number)
                continue
            self._applied[number] = snapshot.applied
            found = snapshot
        return found

    async def clear(self) -> None:
        for number in await self.store.numbers():
            await self.store.delete(number)
        self._applied = {}
