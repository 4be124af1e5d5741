"""A process of the server that is killed or stopped during a statement ends the run, no more.

The signal comes from outside, as from an administrator or from a kernel that is out of memory; it
is sent when the process has not begun with the statement, so that there is no race.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.errors import ServiceError
from foretold.kernel import real
from foretold.services.postgres import protocol
from foretold.services.postgres.backend import Backend, BackendLost
from foretold.services.postgres.kept import _kept
from foretold.services.postgres.pool import BackendPool
from foretold.services.postgres.state import Database
from foretold.world.world import World
from tests.postgres.scenarios import SCHEMA, connect

MARK = "SELECT 'the statement'::text"
Hit = Callable[[int], list[int]]


async def main(world: World) -> Any:
    """One session, one statement."""
    pg = await world.postgres(schema=SCHEMA)
    (connection,) = await connect(pg, 1)
    return await connection.fetchval(MARK)  # asks


@pytest.fixture
def hit(monkeypatch: pytest.MonkeyPatch) -> Hit:
    """Sends a signal to the process that gets the statement: to the first one."""

    def arm(number: int) -> list[int]:
        pids: list[int] = []
        send = Backend.send

        def send_and_hit(self: Backend, data: bytes) -> None:
            if MARK.encode() not in data or pids:
                send(self, data)
                return
            pids.append(self.pid)
            real.kill(self.pid, signal.SIGSTOP)
            send(self, data)
            real.kill(self.pid, number)

        monkeypatch.setattr(Backend, "send", send_and_hit)
        return pids

    foretold.run(main)  # the server is there
    return arm


def state_of(pid: int) -> str:
    """What the kernel says about a process; Z if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_process_is_killed(hit: Hit) -> None:
    """That is no failure of the program: the error names the service and shows its log. The server
    ends all other processes after such a death; the next run gets a new one."""
    pids = hit(signal.SIGKILL)
    with pytest.raises(ServiceError, match="killed, or it crashed") as caught:
        foretold.run(main)
    assert "terminated by signal 9" in str(caught.value)
    assert [state_of(pid) for pid in pids] == ["Z"]
    assert foretold.run(main).value == "the statement"


def test_a_server_that_is_lost_between_two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen when the next run wants it: that run begins with a new one."""
    foretold.run(main)
    lost: list[Database] = []

    def reset(self: Database) -> None:
        lost.append(self)
        raise ServiceError("PostgreSQL has closed a connection of foretold's own.")

    monkeypatch.setattr(Database, "reset", reset)
    assert foretold.run(main).value == "the statement"
    assert len(lost) == 1


def test_a_server_that_is_lost_as_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not used again."""

    def give_back(self: BackendPool, backend: Backend) -> None:
        backend.close()
        raise BackendLost("gone")

    with monkeypatch.context() as patch:
        patch.setattr(BackendPool, "give_back", give_back)
        with pytest.raises(BackendLost):
            foretold.run(main)
    before = list(_kept.values())
    assert foretold.run(main).value == "the statement"
    assert not any(kept in before for kept in _kept.values() if kept.schema == SCHEMA)


def test_a_process_is_stopped(hit: Hit) -> None:
    """The run ends within its limit and says which line waits. The process is ended with it, and
    the next run holds."""
    pids = hit(signal.SIGSTOP)
    with pytest.raises(foretold.LimitExceeded) as caught:
        foretold.run(main, wall_s_max=1)
    lines = Path(__file__).read_text("utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# asks"))
    assert f"main waits at {__file__}:{line}" in str(caught.value)
    assert pids
    assert not [pid for pid in pids if state_of(pid) == "T"]
    assert foretold.run(main).value == "the statement"


@pytest.mark.parametrize(
    ("last", "is_one"),
    [
        (protocol.error_response("57P01", "terminating connection", severity="FATAL"), True),
        (protocol.error_response("57P02", "a crash of another process", severity="FATAL"), False),
        (protocol.error_response("22012", "division by zero"), False),
        (protocol.ready(b"I"), False),
    ],
    ids=["ended by somebody", "a crash", "an error", "no error"],
)
def test_the_last_words_of_a_process(last: bytes, is_one: bool) -> None:
    """A session that an administrator ends is told so; one whose server crashes is not ended by
    anybody."""
    assert protocol.is_farewell([protocol.ready(b"I"), last]) is is_one
    assert not protocol.is_farewell([])


def test_a_run_is_taken_down_although_its_server_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the run is left open when a service raises as it ends."""
    loops: list[Any] = []

    async def noting(world: World) -> None:
        await main(world)
        loops.extend(host.loop for host in world.hosts.values())

    def give_back(self: BackendPool, backend: Backend) -> None:
        backend.close()
        raise BackendLost("gone")

    monkeypatch.setattr(BackendPool, "give_back", give_back)
    with pytest.raises(BackendLost):
        foretold.run(noting)
    assert len(loops) == 2
    assert all(loop.is_closed() for loop in loops)
