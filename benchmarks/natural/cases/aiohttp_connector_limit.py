"""aiohttp 3.10.10: a connection becomes free, and no waiter is told (aio-libs/aiohttp#9670).

Requests share one connection; some have a short timeout. Opening a connection takes a moment.
Releases up to 3.14.5 still lose the wake-up of a waiter that is told and cancelled in one batch. So
the repaired program adds what is missing there: a waiter that gives up wakes the next one.
"""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

from patterns import all_end, pause

KIND = "test"
BUGGY = (
    "aiohttp==3.10.10",
    "multidict==6.1.0",
    "yarl==1.17.1",
    "propcache==0.2.0",
    "frozenlist==1.5.0",
    "aiosignal==1.3.1",
    "attrs==24.2.0",
    "aiohappyeyeballs==2.4.3",
    "idna==3.10",
)
FIXED = (
    "aiohttp==3.11.18",
    "multidict==6.1.0",
    "yarl==1.18.3",
    "propcache==0.2.1",
    "frozenlist==1.5.0",
    "aiosignal==1.3.1",
    "attrs==24.2.0",
    "aiohappyeyeballs==2.4.3",
    "idna==3.10",
)


class Protocol:
    """As much of an open connection as the pool looks at."""

    transport = None
    should_close = False

    def is_connected(self) -> bool:
        return True

    def close(self) -> None:
        pass


async def main(*, hands_on: bool = False) -> None:
    import aiohttp
    from aiohttp.client_reqrep import ConnectionKey

    class Connector(aiohttp.BaseConnector):
        async def _create_connection(self, *about: Any) -> Any:
            await asyncio.sleep(0.001)
            return Protocol()

        async def _wait_for_available_connection(self, *about: Any) -> None:
            above: Any = super()  # the method came with 3.11
            try:
                await above._wait_for_available_connection(*about)
            except BaseException:
                if hands_on:
                    self._release_waiter()
                raise

    connector = Connector(limit=1)
    key = ConnectionKey("shop.test", 80, False, True, None, None, None)
    timeout = aiohttp.ClientTimeout()

    async def request(number: int) -> None:
        await pause(0.01)
        patience_s = random.uniform(0, 0.01) if number % 2 else None
        try:
            async with asyncio.timeout(patience_s):
                wanted: Any = SimpleNamespace(connection_key=key)
                connection = await connector.connect(wanted, [], timeout)
        except TimeoutError:
            return
        await pause(0.003)
        connection.release()

    await all_end([asyncio.create_task(request(number)) for number in range(8)])
    await connector.close()


async def repaired() -> None:
    await main(hands_on=True)
