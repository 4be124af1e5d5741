"""The parts of a bubble, each by itself: journal, state machine, store, ghosts, neighbours, views,
limiter, wire."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import foretold
from examples.luciferase.__main__ import main as play
from examples.luciferase.bugs import BUGS, PRESENT, REPAIRED, planted
from examples.luciferase.clock import RateLimiter, TestClock
from examples.luciferase.entity import Entity, Region, checked_id
from examples.luciferase.fsm import EntityMigrationStateMachine, State
from examples.luciferase.ghosts import GhostStateManager
from examples.luciferase.journal import ABORTED, APPLIED, Journal
from examples.luciferase.neighbours import Neighbours, where
from examples.luciferase.results import DEFAULT, HASTY, PATIENT, Profile
from examples.luciferase.store import CELL, EntityStore
from examples.luciferase.views import View, ViewMonitor
from examples.luciferase.wire import Endpoint

E = Entity("e", (1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
HERE = ("127.0.0.1", 1)


# --- journal --------------------------------------------------------------------------------------


def leaves(journal: Journal, ticket: str) -> None:
    """The entity leaves under this ticket; its token is the first letter."""
    journal.write(
        op="out", ticket=ticket, token=ticket[:1], to="b", at=HERE, entity=E.to_list()
    )  # fmt: skip


def test_a_journal_brings_back_what_there_was(tmp_path: Path) -> None:
    """A new process finds owned entities in a new epoch, those in flight, decisions and tokens."""
    journal = Journal(str(tmp_path))
    journal.write(op="own", entity=E.to_list())
    leaves(journal, "t.1")
    journal.write(op="back", ticket="t.1")
    leaves(journal, "t.2")
    journal.write(op="gone", ticket="t.2")
    journal.write(op="in", ticket="x.1", entity=E.to_list())
    journal.write(op="no", ticket="y.1")
    journal.write(op="done", ticket="x.1")
    leaves(journal, "u.1")
    before = journal.ledger
    journal.close()
    again = Journal(str(tmp_path))
    after = again.ledger
    again.close()
    assert list(after.leaving) == ["u.1"]
    assert (after.leaving["u.1"].destination, after.leaving["u.1"].address) == ("b", HERE)
    assert after.tickets == {"x.1": APPLIED, "y.1": ABORTED}
    assert (list(after.applied), list(after.confirmed), after.attempts) == (
        ["t"],
        ["x.1"],
        {"t": 2, "u": 1},
    )
    assert (before.boots, after.boots) == (1, 2)


def test_each_start_is_a_new_epoch(tmp_path: Path) -> None:
    """A version that was told before a crash is older than all versions after it."""
    journal = Journal(str(tmp_path))
    journal.write(op="own", entity=E.to_list())
    told = journal.ledger.owned["e"].next_word()
    journal.close()
    again = Journal(str(tmp_path))
    assert again.ledger.owned["e"].stamp > told
    again.close()


@pytest.mark.parametrize("damage", [b"", b"0", b"00000000 {}", b"deadbeef {}\n", b'"\xff"\n'])
def test_a_torn_tail_is_cut_off(tmp_path: Path, damage: bytes) -> None:
    """What a crash left of the last record is gone, and what is written next can be read."""
    journal = Journal(str(tmp_path))
    journal.write(op="own", entity=E.to_list())
    journal.close()
    with open(journal.path, "ab") as file:
        file.write(damage)
    again = Journal(str(tmp_path))
    leaves(again, "t.1")
    again.close()
    last = Journal(str(tmp_path))
    last.close()
    assert list(last.ledger.leaving) == ["t.1"]


def test_nothing_is_known_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk refuses to sync, memory does not change."""

    def fails(fd: int) -> None:
        raise OSError("disk")

    async def main() -> bool:
        journal = Journal("/data")
        journal.write(op="own", entity=E.to_list())
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="disk"):
            leaves(journal, "t.1")
        monkeypatch.undo()
        return "e" in journal.ledger.owned and not journal.ledger.leaving

    assert foretold.run(main).value


def test_tokens_are_forgotten_by_name(tmp_path: Path) -> None:
    """A token that has outlived its purpose leaves no trace in any table."""
    journal = Journal(str(tmp_path))
    journal.write(op="in", ticket="x.1", entity=E.to_list())
    journal.write(op="done", ticket="x.1")
    journal.write(op="forget", name="x.1")
    journal.close()
    assert (journal.ledger.tickets, journal.ledger.confirmed) == ({}, {})


# --- state machine --------------------------------------------------------------------------------


def test_only_the_transitions_of_the_drawing() -> None:
    """Each state leads to exactly the states that the drawing shows."""
    ways = {
        (now, to)
        for now in State
        for to in State
        if _allows(now, to)
    }  # fmt: skip
    assert ways == {
        (State.OWNED, State.MIGRATING_OUT),
        (State.MIGRATING_OUT, State.DEPARTED),
        (State.MIGRATING_OUT, State.ROLLBACK_OWNED),
        (State.DEPARTED, State.GHOST),
        (State.ROLLBACK_OWNED, State.OWNED),
        (State.GHOST, State.MIGRATING_IN),
        (State.MIGRATING_IN, State.OWNED),
        (State.MIGRATING_IN, State.GHOST),
    }


def _allows(now: State, to: State) -> bool:
    fsm = EntityMigrationStateMachine(TestClock())
    fsm.initialize("e", now)
    return fsm.transition("e", to)


def test_a_context_lives_as_long_as_the_migration() -> None:
    """It begins with the migration, counts from there, and a later migration gets a new one."""
    clock = TestClock(100)
    fsm = EntityMigrationStateMachine(clock)
    fsm.initialize("e")
    assert not fsm.transition("unknown", State.MIGRATING_OUT)
    fsm.transition("e", State.MIGRATING_OUT, view_id=7)
    assert (fsm.contexts["e"].began_ns, fsm.contexts["e"].view_id) == (100_000_000, 7)
    fsm.view_changed(["e", "unknown"])
    assert (fsm.state("e"), fsm.contexts) == (State.ROLLBACK_OWNED, {})
    assert fsm.counts()[State.ROLLBACK_OWNED] == 1
    clock.advance(50)
    fsm.transition("e", State.OWNED)
    fsm.transition("e", State.MIGRATING_OUT, view_id=8)
    assert fsm.contexts["e"].began_ns == 150_000_000
    fsm.forget("e")
    assert (fsm.entity_count(), fsm.contexts) == (0, {})


# --- store ----------------------------------------------------------------------------------------


def test_table_and_index_agree() -> None:
    """After every kind of change an entity is in the table and in one cell, or in neither."""
    store = EntityStore()
    store.add(Entity("e", (1.0, 0.0, 0.0)))
    store.push("e", CELL)
    assert store.near((CELL + 1, 0.0, 0.0)) == ["e"]
    assert store.near((1.0, 0.0, 0.0)) == []
    store.advance(lambda entity: (-1.0, 0.0, 0.0))
    assert (store.census(), store.near((-1.0, 0.0, 0.0))) == ((1, 1), ["e"])
    store.remove("e")
    store.push("e", CELL)
    assert store.census() == (0, 0)
    assert "e" not in store


# --- ghosts ---------------------------------------------------------------------------------------

BOUNDS = Region((0.0, 0.0, 0.0), 10.0)


def word(number: int, epoch: int = 0, x: float = 0.0) -> list[object]:
    """What the owner says of the entity."""
    return Entity("e", (x, 0.0, 0.0), (10.0, 0.0, 0.0), (epoch, number)).to_list()


def test_a_ghost_ages() -> None:
    """Created, active, stale after 300 ms, gone after 500; a word makes it young again."""
    clock = TestClock()
    ghosts = GhostStateManager(clock)
    ghosts.hear(word(1), "a", BOUNDS)
    states = [ghosts.ghosts["e"].state.name]
    for _ in range(4):
        ghosts.cull()
        states.append(ghosts.ghosts["e"].state.name)
        clock.advance(100)
    ghosts.hear(word(2), "a", BOUNDS)
    states.append(ghosts.ghosts["e"].state.name)
    assert states == ["CREATED", "ACTIVE", "ACTIVE", "ACTIVE", "STALE", "ACTIVE"]
    clock.advance(500)
    assert ghosts.cull() == ["e"]
    assert not ghosts.is_ghost("e")


def test_a_ghost_never_goes_back() -> None:
    """Older and equal versions change nothing, not even after the ghost has expired; a new epoch
    counts from the beginning."""
    clock = TestClock()
    ghosts = GhostStateManager(clock)
    assert ghosts.hear(word(5), "a", BOUNDS)
    assert not ghosts.hear(word(5), "a", BOUNDS)
    assert not ghosts.hear(word(4), "a", BOUNDS)
    clock.advance(500)
    ghosts.cull()
    assert not ghosts.hear(word(4), "a", BOUNDS)
    assert ghosts.duplicates == 3
    assert ghosts.hear(word(1, epoch=1), "b", BOUNDS)
    ghosts.forget("e", (2, 0))
    assert not ghosts.hear(word(9, epoch=1), "b", BOUNDS)


def test_dead_reckoning_stays_in_bounds() -> None:
    """A ghost moves on with its velocity and stops at the edge of its owner's region."""
    clock = TestClock()
    ghosts = GhostStateManager(clock)
    ghosts.hear(word(1), "a", BOUNDS)
    clock.advance(400)
    assert ghosts.estimate("e") == (4.0, 0.0, 0.0)
    clock.advance(9_000)
    assert ghosts.estimate("e") == (10.0, 0.0, 0.0)


def test_ghosts_are_bounded() -> None:
    """The oldest ghost makes room for a new one."""
    ghosts = GhostStateManager(TestClock(), ghosts_max=2)
    for name in ("a", "b", "c"):
        ghosts.hear(Entity(name, (0.0, 0.0, 0.0)).to_list(), "x", BOUNDS)
    assert list(ghosts.ghosts) == ["b", "c"]


# --- neighbours, views, limits --------------------------------------------------------------------


def test_neighbours_are_added_inside_and_dropped_beyond_the_margin() -> None:
    """A bubble at the edge of the area is not added and dropped again and again."""
    table = Neighbours("me", BOUNDS, interest=30.0)

    def hears(x: float) -> list[str]:
        table.heard("other", where(Region((x, 0.0, 0.0), 10.0), HERE), 0)
        return list(table.known)

    assert hears(51.0) == []
    assert hears(50.0) == ["other"]
    assert hears(60.0) == ["other"]
    assert hears(60.1) == []
    assert not table.heard("me", where(BOUNDS, HERE), 0)


def test_the_nearest_come_first() -> None:
    """An acceptor names the ten nearest bubbles, without the one that asks."""
    table = Neighbours("me", BOUNDS, interest=1_000.0)
    for number in range(12):
        table.heard(f"b{number}", where(Region((30.0 * number, 0.0, 0.0), 10.0), HERE), 0)
    nearest = table.nearest(Region((0.0, 0.0, 0.0), 10.0), without="b0")
    assert [each.name for each in nearest] == [f"b{number}" for number in range(1, 11)]
    table.cull(3_000_000_000)
    assert table.known == {}


def test_a_view_is_stable_after_its_ticks() -> None:
    """Older views are ignored, a new one counts anew, and a bubble that is not a member is never
    in a stable view."""
    monitor = ViewMonitor("a", stable_ticks=2)

    def stable_after(ticks: int) -> bool:
        for _ in range(ticks):
            monitor.tick()
        return monitor.is_stable

    assert monitor.adopt(View(3, {"a": HERE}))
    assert [stable_after(1), stable_after(1)] == [False, True]
    assert not monitor.adopt(View(2, {}))
    assert stable_after(0)
    assert monitor.adopt(View(4, {"b": HERE}))
    assert not stable_after(5)


def test_a_limiter_fills_with_its_own_clock() -> None:
    """A burst, then as many as time allows."""
    clock = TestClock()
    limiter = RateLimiter(clock, per_second=10, burst=2)
    assert [limiter.take() for _ in range(3)] == [True, True, False]
    clock.advance(100)
    assert [limiter.take() for _ in range(2)] == [True, False]


def test_profiles_are_consistent() -> None:
    """Three phases fit into the total, and a lock into a phase."""
    assert [each.total_ms for each in (DEFAULT, PATIENT, HASTY)] == [300, 1500, 150]
    with pytest.raises(ValueError, match="three phases of 101 ms exceed 300 ms"):
        Profile(phase_ms=101)
    with pytest.raises(ValueError, match="less than a phase"):
        Profile(lock_ms=100)
    with pytest.raises(ValueError, match="1 to 36"):
        checked_id("")


def test_every_switch_has_a_name() -> None:
    """Ten that are there today, five that were repaired; all are off outside a search."""
    assert (len(PRESENT), len(REPAIRED), len(BUGS)) == (10, 5, 15)
    assert not any(map(planted, BUGS))


# --- wire -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 3])
def test_a_request_is_sent_until_it_is_answered(lost: int) -> None:
    """The handler may see a request several times; the caller gets one answer, or None in time."""

    async def main() -> tuple[object, int, object]:
        here, there = Endpoint("here"), Endpoint("there")
        seen = []

        def echo(message: dict[str, object]) -> dict[str, object] | None:
            seen.append(message["n"])
            return {"n": message["n"]} if len(seen) > lost else None

        there.handlers["echo"] = echo
        await here.open(("127.0.0.1", 0))
        address = await there.open(("127.0.0.1", 0))
        answer = await here.ask(address, "echo", within_s=1.0, every_s=0.1, n=7)
        silent = await here.ask(address, "unknown", within_s=0.3, every_s=0.1)
        here.close()
        there.close()
        assert here.tell(address, "echo") is False
        return answer and answer["n"], len(seen), silent

    assert foretold.run(main).value == (7, lost + 1, None)


def test_it_runs_on_the_real_network(capsys: pytest.CaptureFixture[str]) -> None:
    """Real sockets on loopback, ports from the kernel, journals in a folder of their own."""
    play(["--bubbles", "3", "--entities", "12", "--seconds", "0.3"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed[:3]] == ["bubble1", "bubble2", "bubble3"]
    ticks = [int(line.split()[1]) for line in printed[:3]]
    assert min(ticks) > 0


def test_a_bubble_ends_when_it_is_cancelled() -> None:
    """The process closes its socket and its journal, and nothing is left behind."""

    async def main() -> list[str]:
        task = asyncio.ensure_future(_alone())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [each.get_name() for each in asyncio.all_tasks() - {asyncio.current_task()}]

    assert foretold.run(main).value == []


async def _alone() -> None:
    from examples.luciferase.bubble import Bubble, BubbleConfig

    config = BubbleConfig("a", ("127.0.0.1", 7000), BOUNDS, "/data", ("127.0.0.1", 7001))
    await Bubble(config).run()
