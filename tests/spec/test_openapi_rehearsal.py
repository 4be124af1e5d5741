"""Storms of an API whose state is in a database are rehearsed: many are tried in one run, and those
that look odd have runs of their own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

import foretold
from foretold.spec.machine.rehearsal import SECONDS, TRIES, StormNumber

SCHEMA = "create table visits (place text primary key, count int not null);" + "".join(
    f"insert into visits values ('{place}', 0);" for place in ("cellar", "roof")
)
RIGHT, RACY, CACHED = "right", "racy", "cached"


class Count(BaseModel):
    """What a counter shows."""

    count: int


def application(dsn: str, sort: str) -> FastAPI:
    """Counts visits. `cached`: from memory, which is right as long as nobody else writes."""
    app, known, one_by_one = FastAPI(), dict[str, int](), asyncio.Lock()

    async def counted(place: str) -> int:
        connection = await asyncpg.connect(dsn)
        try:
            if sort == RIGHT:
                sql = "update visits set count = count + 1 where place = $1 returning count"
                return int(await connection.fetchval(sql, place))
            sql = "select count from visits where place = $1"
            count = known[place] if place in known else await connection.fetchval(sql, place)
            sql = "update visits set count = $2 where place = $1"
            await connection.execute(sql, place, count + 1)
            if sort == CACHED:
                known[place] = count + 1
            return int(count) + 1
        finally:
            await connection.close()

    async def visit(place: str) -> Count:
        if sort != CACHED:
            return Count(count=await counted(place))
        async with one_by_one:
            return Count(count=await counted(place))

    @app.post("/cellar", status_code=201)
    async def cellar() -> Count:
        return await visit("cellar")

    @app.post("/roof", status_code=201)
    async def roof() -> Count:
        return await visit("roof")

    return app


def machine(sort: str) -> Any:
    """A machine for such an application, of which every run ends in a storm."""

    class Visits(foretold.openapi(application("", sort), steps=3)):  # type: ignore[misc]  # made at run time
        storms = 1.0

        async def serve(self) -> Any:
            pg = await self.world.postgres(schema=SCHEMA)
            return application(pg.dsn, sort)

    return Visits


def test_a_race_is_found_in_the_first_run() -> None:
    """Of many pairs two visits of one place are tried as well, and the statements one by one. The
    tape that is left says which storm it is, and needs no rehearsal."""
    failure = foretold.explore(machine(RACY), runs=1, seed=1).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotSerial)
    assert "gave .count = 1; " in str(failure.exception)
    assert "storm" in json.loads(str(failure.tape.settings["machine"]))
    with pytest.raises(foretold.NotSerial):
        foretold.replay(machine(RACY), failure.tape)
    foretold.replay(machine(RIGHT), failure.tape)


@pytest.mark.parametrize("sort", [RIGHT, CACHED])
def test_nobody_is_accused_by_a_rehearsal(sort: str) -> None:
    """Rows are put back after a try, memory is not: a service with a cache looks odd then. In a run
    of its own it does not."""
    foretold.explore(machine(sort), runs=6, seed=1).raise_failure()


def test_a_rehearsal_is_deterministic() -> None:
    """One tape, one run; of a right service and of one that is suspected all the time."""
    for sort in (RIGHT, CACHED):
        foretold.run(machine(sort), seed=3)  # the first run of a program is cold
        assert len({foretold.run(machine(sort), seed=3).digest for _ in range(2)}) == 1


def test_numbers_of_storms() -> None:
    """As they stand on a tape."""
    every = [
        StormNumber(first, second, attempt)
        for first in range(3)
        for second in range(SECONDS)
        for attempt in range(TRIES)
    ]
    assert [StormNumber.read(each.on_tape) for each in every] == every
    assert [each.on_tape for each in every] == list(range(len(every)))


@pytest.mark.parametrize("storm", ["1", -1, True])
def test_a_tape_with_another_storm_is_refused(storm: Any) -> None:
    """A tape file may have been changed by hand."""
    tape = foretold.Tape.seeded(1, {"machine": json.dumps({"storm": storm})})
    with pytest.raises(foretold.TapeError, match="is not the number of a storm"):
        foretold.run(machine(RIGHT), tape=tape)
