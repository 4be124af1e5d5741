"""foretold's own connection: a query that comes again is planned once, and tells the truth."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foretold.errors import PostgresError
from foretold.services.postgres import side as of_sides
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.side import SideConnection

COUNT = "select count(*) from thing"
PLANS = "select count(*) from pg_prepared_statements"


@pytest.fixture
def side(cluster: Cluster) -> Iterator[SideConnection]:
    """A connection, and a table of its own."""
    found = cluster.connect()
    found.simple("create temp table thing (id int)")
    yield found
    found.close()


def test_a_query_is_planned_once(side: SideConnection) -> None:
    """However often it is asked; what it finds is what is there now."""
    assert side.again(COUNT) == [["0"]]
    side.simple("insert into thing values (1), (2)")
    assert [side.again(COUNT) for _ in range(9)] == [[["2"]]] * 9
    assert side.simple(PLANS) == [["1"]]


def test_several_are_asked_at_once(side: SideConnection) -> None:
    """Also one twice, and one that finds nothing; if one is wrong, none has an answer."""
    side.simple("insert into thing values (1), (2)")
    nothing = "select id from thing where id > 2"
    assert side.all_again([COUNT, nothing, COUNT]) == [[["2"]], [], [["2"]]]
    with pytest.raises(PostgresError, match="division by zero"):
        side.all_again(["select 7", "select 1 / 0 from thing", COUNT])
    assert side.all_again(["select 7", COUNT]) == [[["7"]], [["2"]]]
    assert side.all_again([]) == []


def test_it_follows_changes_of_the_schema(side: SideConnection) -> None:
    """A plan that has become wrong is made anew by the server."""
    side.again(COUNT)
    side.simple("insert into thing values (1); drop table thing; create temp table thing (x text)")
    assert side.again(COUNT) == [["0"]]
    side.simple("drop table thing")
    with pytest.raises(PostgresError, match='relation "thing" does not exist'):
        side.again(COUNT)
    side.simple("create temp table thing (id int)")
    assert side.again(COUNT) == [["0"]]


def test_a_wrong_query_is_an_error_each_time(side: SideConnection) -> None:
    """When it is read, and when it is run; the connection goes on."""
    for sql, words in (("selec 1", "syntax error"), ("select 1 / 0", "division by zero")):
        for _ in range(3):
            with pytest.raises(PostgresError, match=words):
                side.again(sql)
    assert side.again(COUNT) == [["0"]]


def test_there_is_an_end_to_what_is_kept(
    side: SideConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that asks something new each time fills no server's memory."""
    monkeypatch.setattr(of_sides, "_PREPARED_MAX", 5)
    assert [side.again(f"select {number}") for number in range(9)] == [[[str(n)]] for n in range(9)]
    assert side.simple(PLANS) == [["5"]]
