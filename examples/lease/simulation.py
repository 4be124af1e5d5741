"""The lease service and two workers, each on a host of its own, on a network that has faults.

foretold explore examples.lease.simulation:split_brain
foretold explore examples.lease.simulation:careful
"""

from collections.abc import Awaitable, Callable

import foretold
from examples.lease.service import PORT, serve
from examples.lease.worker import CarefulWorker, Worker

SECONDS = 6.0


class Store:
    """What both workers write to. A write under an older grant than the last one is a split brain:
    somebody else was given the lease, and has used it."""

    def __init__(self) -> None:
        self.grant = 0
        self.writer = ""

    def write(self, worker: str, grant: int) -> None:
        foretold.always(
            grant >= self.grant,
            f"{worker} writes, though the lease is {self.writer}'s",
            grant=grant,
            newest=self.grant,
        )
        self.grant, self.writer = grant, worker


Trouble = Callable[[foretold.World, Store], Awaitable[None]]


async def nothing(world: foretold.World, store: Store) -> None:
    """No trouble besides that of the network."""


async def work(world: foretold.World, kind: type[Worker], trouble: Trouble = nothing) -> None:
    store = Store()
    async with world.calm():
        service = world.host("lease")
        service.start(serve)
        await service.listening(PORT)
    workers = [world.host("worker-a"), world.host("worker-b")]
    for host in workers:
        host.start(kind(host.name, store.write).run)
    await trouble(world, store)
    await world.clock.advance(SECONDS)
    foretold.sometimes(store.grant > 1, "the lease changes hands")


@foretold.simulate(runs=2000, faults=foretold.faults.network)
async def split_brain(world: foretold.World) -> None:
    await work(world, Worker)


@foretold.simulate(runs=2000, faults=foretold.faults.network)
async def careful(world: foretold.World) -> None:
    await work(world, CarefulWorker)
