"""anyio 4.3.0: giving up on TaskGroup.start() cancels the whole group (agronholm/anyio#685).

A supervisor starts services that take their time; each start has a limit.
"""

from patterns import pause

KIND = "test"
BUGGY = ("anyio==4.3.0", "sniffio==1.3.1")
FIXED = ("anyio==4.4.0", "sniffio==1.3.1")


async def main() -> None:
    import anyio
    from anyio.abc import TaskStatus

    up: list[str] = []

    async def service(*, task_status: TaskStatus[None]) -> None:
        await pause(0.01)
        task_status.started()
        await anyio.sleep(0.05)
        up.append("service")

    async def watch() -> None:
        await anyio.sleep(1)
        up.append("watch")

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        for _ in range(3):
            with anyio.move_on_after(0.009):
                await group.start(service)
    assert "watch" in up, "one service did not start in time, and all others were cancelled"
