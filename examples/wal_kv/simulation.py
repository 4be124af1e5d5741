"""The store on a host whose power is cut again and again.

foretold explore examples.wal_kv.simulation:forgetful
foretold explore examples.wal_kv.simulation:careful
"""

import asyncio

import foretold
from examples.wal_kv.store import ForgetfulStore, Store

FOLDER = "/var/lib/store"
KEYS = ("apple", "banana", "cherry")
CRASHES_MAX = 3


class Ledger:
    """What the clients know, who live elsewhere and see no crash: what they have tried to put, and
    what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, bytes] = {}
        self.open: dict[str, list[bytes]] = {key: [] for key in KEYS}
        """Values that were put after the acknowledged one, and may be there or not."""
        self.puts = 0

    async def put(self, store: Store, key: str) -> None:
        self.puts += 1
        value = b"%05d" % self.puts + b"." * foretold.choose((0, 400, 1_500), "size")
        self.open[key].append(value)
        await store.put(key, value)
        self.acknowledged[key] = value
        self.open[key] = self.open[key][self.open[key].index(value) + 1 :]

    def check(self, store: Store) -> None:
        """After a crash: each key has what was acknowledged, or something that was put later."""
        for key in KEYS:
            found = store.get(key)
            allowed = [self.acknowledged.get(key), *self.open[key]]
            foretold.always(
                found in allowed,
                f"{key} has lost a write that was acknowledged",
                found=found and found[:5],
                acknowledged=(allowed[0] or b"")[:5],
            )
            if found is not None:  # the crash has decided what became of those under way
                self.acknowledged[key] = found
            self.open[key] = []


async def serve(kind: type[Store], ledger: Ledger) -> None:
    store = kind(FOLDER)
    store.recover()
    ledger.check(store)
    async with asyncio.TaskGroup() as group:
        group.create_task(store.commit_for_ever())
        for key in KEYS:
            group.create_task(put_for_ever(store, ledger, key))


async def put_for_ever(store: Store, ledger: Ledger, key: str) -> None:
    """One client for each key."""
    while True:
        await ledger.put(store, key)
        await asyncio.sleep(foretold.between(0, 4, "pause") / 1_000)


async def survive(world: foretold.World, kind: type[Store]) -> None:
    ledger = Ledger()
    host = world.host("store")

    async def main() -> None:
        await serve(kind, ledger)

    host.start(main)
    for _ in range(foretold.between(1, CRASHES_MAX, "crashes")):
        await asyncio.sleep(foretold.between(1, 30, "until the crash") / 1_000)
        foretold.sometimes(bool(host.disk.unsynced()), "a crash with something to lose")
        host.crash()
        host.restart()
    await asyncio.sleep(0.001)
    foretold.sometimes(ledger.puts > 10, "more than ten puts")
    host.kill()


@foretold.simulate(runs=2000)
async def forgetful(world: foretold.World) -> None:
    await survive(world, ForgetfulStore)


@foretold.simulate(runs=2000)
async def careful(world: foretold.World) -> None:
    await survive(world, Store)
