"""redis-py 4.5.2: the answer to a cancelled command goes to whoever asks next (redis-py#2665).

Customers look up their own balance over one connection; some give up.
"""

import asyncio

from patterns import pause, some_give_up

KIND = "test"
BUGGY = ("redis==4.5.2", "async-timeout==4.0.3")
FIXED = ("redis==4.5.5", "async-timeout==4.0.3")
CHANCE = False


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that knows GET: the value of a key is its name."""
    try:
        while head := await reader.readline():
            words = []
            for _ in range(int(head[1:])):
                await reader.readline()
                words.append((await reader.readline()).strip())
            await pause(0.002)
            value = words[-1]
            writer.write(b"$%d\r\n%b\r\n" % (len(value), value))
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def main() -> None:
    from redis import asyncio as redis

    server = await asyncio.start_server(answer, "127.0.0.1", 6379)
    client = redis.Redis(single_connection_client=True)
    crossed: list[tuple[str, bytes]] = []

    async def customer(name: str) -> None:
        await pause(0.01)
        value = await client.get(name)
        if value != name.encode():
            crossed.append((name, value))

    tasks = [asyncio.create_task(customer(f"customer-{number}")) for number in range(6)]
    await some_give_up(tasks, 2, 0.015)
    await asyncio.wait(tasks, timeout=30)
    await client.close()
    server.close()
    assert not crossed, f"asked for one, got another: {crossed[0]}"
