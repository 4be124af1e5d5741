"""A machine against a running server: real sockets, real time, and only servers that are meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.errors import UsageError
from foretold.report.live import smoke_json, smoke_text
from foretold.search.live import check_url, explore_url, may_ask
from tests.cli.command import foretold as command
from tests.search.live_server import SCHEMA, serving

Api = foretold.openapi(SCHEMA, name="Api")


class Box(foretold.Machine):
    """A machine that asks for `world.web`, as it would in a simulated world."""

    actors = 2

    async def setup(self) -> None:
        web = await self.world.web(None)
        for actor in self.cast:
            actor.web = web.client(actor)
        self.added = 0

    async def teardown(self) -> None:
        for actor in self.cast:
            await actor.web.aclose()

    @foretold.rule()
    async def add(self, actor: Any) -> None:
        assert (await actor.web.post("/numbers")).status_code == 200
        self.added += 1

    @foretold.invariant(when="quiet")
    async def all_are_there(self) -> int:
        numbers = (await self.cast[0].web.get("/numbers")).json()
        assert len(numbers) >= self.added
        return len(numbers)

    @foretold.invariant(sql="select 1")
    def nothing_in_the_database(self, rows: Any) -> None:
        """Only a simulated database can be looked into."""
        raise AssertionError("never asked")


def test_a_machine_from_a_schema_runs_against_a_server() -> None:
    """All operations succeed, ids flow, and what it did is counted."""
    with serving() as server:
        smoke = explore_url(Api, server.url, runs=4, seed=1)
    assert smoke.error is None
    assert (smoke.runs, smoke.idle) == (4, [])
    assert server.numbers
    assert "held in 4 runs against http://127.0.0.1:" in smoke_text(smoke, target="x:Api")


def test_a_machine_of_ones_own_runs_against_a_server() -> None:
    """The very class that runs in a simulated world, options and all."""
    with serving() as server:
        smoke = explore_url(Box, server.url, runs=2, options='{"steps":5}')
    assert smoke.error is None
    assert smoke.tally.rules["add"].succeeded == len(server.numbers)
    assert smoke.tally.invariants["all_are_there"].ranged
    assert "nothing_in_the_database" not in smoke.tally.invariants


def test_a_failure_is_told_with_its_program() -> None:
    """Planted: numbers can't be read. Nothing is shrunk, and the seed is named."""
    with serving(breaks=True) as server:
        smoke = explore_url(Api, server.url, runs=5, seed=1)
    told = smoke_text(smoke, target="x:Api")
    assert "PropertyViolated: GET /numbers/" in told
    assert "was answered with 500" in told
    assert "The program, " in told
    assert f"--seed {smoke.failed_seed} --runs 1" in told
    data = json.loads(smoke_json(smoke, target="x:Api", exit_code=1))
    assert data["failure"]["kind"] == "PropertyViolated"


def test_only_this_machine_is_asked_unless_a_host_is_named() -> None:
    """By name or address; a name that only looks like loopback is none."""
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST.", "::1"):
        assert may_ask(host, ())
    for host in ("example.com", "10.0.0.1", "0.0.0.0", "127.0.0.1.example.com", "localhost.evil"):
        assert not may_ask(host, ())
    assert may_ask("Staging.example.com", ["staging.example.com"])
    with pytest.raises(UsageError, match="--allow-host staging"):
        check_url("https://staging/api", ())
    assert check_url("https://staging/api/", ["staging"]) == "https://staging/api"
    for wrong in ("127.0.0.1:8000", "ftp://localhost/", "http://"):
        with pytest.raises(UsageError, match="is no URL"):
            check_url(wrong, ())


def test_a_redirect_to_another_host_is_not_followed() -> None:
    """It is told, with the host's name: perhaps it is meant."""
    with serving(redirect="https://other.example.com/numbers") as server:
        with pytest.raises(UsageError, match=r"redirects to https://other.*--allow-host other"):
            explore_url(Api, server.url, runs=3, seed=1)
        named = explore_url(Api, server.url, runs=1, seed=1, allowed=["other.example.com"])
    assert named.tally.rules["list_numbers"].succeeded == 0


def test_nobody_listens() -> None:
    """A port that was free a moment ago: the words say what to do."""
    with serving() as server:
        url = server.url
    with pytest.raises(UsageError, match=r"nobody listens there.*uvicorn"):
        explore_url(Api, url)


def test_functions_are_no_machines() -> None:
    """What they do is not said by rules, so no server could be put in their place."""
    with pytest.raises(UsageError, match="--url is for machines"):
        explore_url(test_nobody_listens, "http://127.0.0.1:1")


def test_the_command(tmp_path: Path) -> None:
    """Exit codes 0 and 2, JSON, and options that have no meaning here."""
    tmp_path.joinpath("schema.json").write_text(json.dumps(SCHEMA), "utf-8")
    tmp_path.joinpath("box.py").write_text(
        "import foretold, pathlib\n"
        "Api = foretold.openapi(pathlib.Path(__file__).with_name('schema.json'))\n",
        "utf-8",
    )
    target = ("explore", "box.py:Api", "--runs", "3", "--seed", "1")
    with serving() as server:
        held = command(tmp_path, *target, "--url", server.url, "--steps", "9", "--json")
        refused = command(tmp_path, *target, "--url", server.url, "--workers", "2")
    assert held.code == 0, held.err
    assert json.loads(held.out)["runs"] == 3
    assert refused.code == 2
    assert "--workers has no meaning with --url" in refused.err
