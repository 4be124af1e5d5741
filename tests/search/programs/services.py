"""Bugs of small services: leases, reconnects, replies that come late."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import foretold
from tests.search.programs.registry import bug, step


@bug
async def everybody_reconnects(fixed: bool) -> None:
    """The connection breaks; each of its users makes a new one."""
    made, state, lock = [0], {"up": False}, asyncio.Lock()

    async def connect() -> None:
        await step(2)
        made[0] += 1
        state["up"] = True

    async def user(delay: int) -> None:
        await step(delay)
        if not state["up"]:
            if not fixed:
                await connect()
                return
            async with lock:
                if not state["up"]:
                    await connect()

    await asyncio.gather(user(0), user(6), user(12))
    assert made[0] == 1


@bug
async def lease_has_run_out(fixed: bool) -> None:
    """Time is looked at before the write is sent; when it arrives the lease may be another's."""
    loop, writes = asyncio.get_running_loop(), list[int]()
    lease = {"token": 1, "until": loop.time() + 0.010}

    def accept(token: int) -> None:
        if not fixed or token >= max(writes, default=0):
            writes.append(token)

    async def holder() -> None:
        await asyncio.sleep(0.004)
        if loop.time() < lease["until"]:
            await asyncio.sleep(0.0055)  # on its way
            accept(1)

    async def successor() -> None:
        await asyncio.sleep(lease["until"] - loop.time())
        await asyncio.sleep(0.0005)
        accept(2)

    await asyncio.gather(holder(), successor(), step(20))
    assert writes == sorted(writes)


@bug
async def reply_to_another_question(fixed: bool) -> None:
    """A client that gave up waiting reads the late reply as the answer to its next question."""
    world = foretold.current_world()
    world.network.latency(0.001, 0.050)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(line)
        writer.close()

    async def server() -> None:
        await asyncio.start_server(serve, "0.0.0.0", 7000)

    await world.host("server").start(server)
    reader, writer = await asyncio.open_connection("server", 7000)
    for number in range(3):
        writer.write(b"%d\n" % number)
        try:
            async with asyncio.timeout(0.090):
                answer = await reader.readline()
                while fixed and int(answer) != number:
                    answer = await reader.readline()
        except TimeoutError:
            continue
        assert int(answer) == number
    writer.close()


@bug
async def update_lost_on_the_wire(fixed: bool) -> None:
    """Two clients read a counter and write it back; their messages take their time."""
    world = foretold.current_world()
    world.network.latency(0.001, 0.050)
    counter = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if line == b"get\n":
            writer.write(b"%d\n" % counter[0])
        elif line == b"add\n":
            counter[0] += 1
            writer.write(b"ok\n")
        else:
            counter[0] = int(line)
            writer.write(b"ok\n")
        writer.close()

    async def server() -> None:
        await asyncio.start_server(serve, "0.0.0.0", 7000)

    async def call(line: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("server", 7000)
        writer.write(line)
        answer = await reader.readline()
        writer.close()
        return answer

    async def add(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await call(b"add\n" if fixed else b"%d\n" % (int(await call(b"get\n")) + 1))

    await world.host("server").start(server)
    await asyncio.gather(add(0), add(0.2))
    assert counter[0] == 2


@bug
async def filled_up_twice(fixed: bool) -> None:
    """Two callers of a rate limiter see that time has passed, and both fill the bucket."""
    bucket, allowed, lock = {"tokens": 0, "filled": False}, [0], asyncio.Lock()

    async def fill() -> None:
        if not bucket["filled"]:
            await step()
            bucket["tokens"] += 1
            bucket["filled"] = True

    async def call(delay: int) -> None:
        await step(delay)
        if fixed:
            async with lock:
                await fill()
        else:
            await fill()
        if bucket["tokens"]:
            bucket["tokens"] -= 1
            allowed[0] += 1

    await asyncio.gather(call(0), call(4), call(9))
    assert allowed[0] == 1


@bug
async def flushed_between(fixed: bool) -> None:
    """A debounced save: the timer of the first change fires while the second is being made."""
    loop = asyncio.get_running_loop()
    draft, saved = {"text": ""}, list[str]()
    timers = list[asyncio.TimerHandle]()

    def save() -> None:
        saved.append(draft["text"])

    async def change(text: str) -> None:
        if fixed:
            for timer in timers:
                timer.cancel()
            draft["text"] = text
        else:
            draft["text"] = "…"  # being replaced
            await asyncio.sleep(0)
            draft["text"] = text
            for timer in timers:
                timer.cancel()
        timers.append(loop.call_later(0.010, save))

    await change("one")
    await asyncio.sleep(0.0097)
    busy = asyncio.create_task(step(20))
    await change("two")
    await asyncio.sleep(0.05)
    await busy
    assert "…" not in saved


@bug
async def elected_twice(fixed: bool) -> None:
    """Two candidates ask three voters, who grant each request for the term they see."""
    votes, leaders = [dict[int, str]() for _ in range(3)], list[tuple[int, str]]()
    terms = itertools.count(1)

    async def ask(voter: dict[int, str], term: int, who: str) -> bool:
        await step()
        if fixed:
            return voter.setdefault(term, who) == who
        granted = term not in voter
        await step()
        if granted:
            voter[term] = who
        return granted

    async def stand(who: str, delay: int) -> None:
        await step(delay)
        term = next(terms) if delay == 0 else 1
        granted = [await ask(voter, term, who) for voter in votes]
        if sum(granted) >= 2:
            leaders.append((term, who))

    await asyncio.gather(stand("a", 0), stand("b", 9))
    assert len(leaders) <= 1


@bug
async def ends_before_it_has_begun(fixed: bool) -> None:
    """`stop` looks for the task of a service that is still starting, finds none, and is content."""
    running = dict[str, asyncio.Task[None]]()
    starting = asyncio.Event()

    async def serve() -> None:
        await asyncio.Event().wait()

    async def start() -> None:
        await step(2)
        running["it"] = asyncio.create_task(serve())
        starting.set()

    async def stop() -> None:
        if fixed:
            await starting.wait()
        else:
            await step(6)
        if "it" in running:
            running.pop("it").cancel()

    await asyncio.gather(start(), stop())
    assert not running
