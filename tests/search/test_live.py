"""A machine against a running server: real sockets, real time, and only servers that are meant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

import foretold
from foretold.cli.verbs import app
from foretold.errors import UsageError
from foretold.report.live import smoke_json, smoke_text
from foretold.search.checking.live import check_url, explore_url
from foretold.search.checking.live_hosts import fenced, may_ask
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
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST.", "::1", "::ffff:127.0.0.1"):
        assert may_ask(host, ())
    for host in ("example.com", "10.0.0.1", "0.0.0.0", "127.0.0.1.example.com", "localhost.evil"):
        assert not may_ask(host, ())
    assert may_ask("Staging.example.com", ["staging.example.com"])
    with pytest.raises(UsageError, match="--allow-host staging"):
        check_url("https://staging/api", ())
    assert check_url("https://staging/api/", ["staging"]) == "https://staging/api"
    wrong_ports = ("http://127.0.0.1:99999", "http://127.0.0.1:0", "http://127.0.0.1:http")
    for wrong in ("127.0.0.1:8000", "ftp://localhost/", "http://", "http://[::1", *wrong_ports):
        with pytest.raises(UsageError, match="is not the URL"):
            check_url(wrong, ())


class Curious(Box):
    """It asks others, each time in another way."""

    async def go(self, actor: Any) -> None:
        """One of the ways."""

    @foretold.rule()
    async def add(self, actor: Any) -> None:
        await self.go(actor)


class Follows(Curious):
    """Goes where it is sent."""

    async def go(self, actor: Any) -> None:
        await actor.web.get("/numbers", follow_redirects=True)


class Names(Curious):
    """Asks a client of the world for something else than it is there for."""

    async def go(self, actor: Any) -> None:
        await actor.web.get("https://other.example.com/numbers")


class Brings(Curious):
    """Has a client of its own, and takes no notice of its errors."""

    async def go(self, actor: Any) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            with contextlib.suppress(Exception):
                await client.get("http://192.0.2.1:9/")


class Blocks(Curious):
    """Uses a plain socket."""

    async def go(self, actor: Any) -> None:
        with socket.socket() as plain:
            plain.connect_ex(("192.0.2.1", 9))


class OverUdp(Curious):
    """Datagrams are connected as well."""

    async def go(self, actor: Any) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(asyncio.DatagramProtocol, None, ("192.0.2.1", 9))


@pytest.mark.parametrize("machine", [Follows, Names, Brings, Blocks, OverUdp])
def test_others_are_not_asked_by_whatever_means(machine: type[Box]) -> None:
    """Refused before anything is sent, and told even if the machine does not let it show. (The
    addresses are reserved for examples: should the fence fail, nobody is there.)"""
    before = socket.socket.connect, socket.getaddrinfo
    said = r"not asked.*--allow-host (other\.|192\.0\.2\.1)"
    with (
        serving(redirect="https://other.example.com/numbers") as server,
        pytest.raises(UsageError, match=said),
    ):
        explore_url(machine, server.url, runs=3, seed=1)
    assert (socket.socket.connect, socket.getaddrinfo) == before


def test_a_redirect_that_nobody_follows_asks_nobody() -> None:
    """It is an answer like any other: here a refusal, since it is not documented."""
    with serving(redirect="https://other.example.com/numbers") as server:
        smoke = explore_url(Api, server.url, runs=3, seed=1)
    assert smoke.error is None
    assert smoke.tally.rules["list_numbers"].refused > 1
    assert smoke.tally.rules["add_number"].succeeded > 1


def test_a_named_host_is_asked_at_its_addresses() -> None:
    """The fence sees addresses, the user names hosts: what a name means is noted."""
    with fenced(["localhost.example"]) as fence:
        looked_up = fence.resolving(lambda host, port: [(2, 1, 6, "", ("192.0.2.7", port))])
        looked_up("localhost.example", 80)
        looked_up("other.example", 81)
        fence.check("192.0.2.7", "a connection")
        with pytest.raises(UsageError, match="not asked"):
            fence.check("192.0.2.8", "a connection")


def test_nobody_listens() -> None:
    """A port that was free a moment ago: the words say what to do."""
    with serving() as server:
        url = server.url
    with pytest.raises(UsageError, match=r"nothing listens there.*uvicorn"):
        explore_url(Api, url)


def test_functions_are_no_machines() -> None:
    """What they do is not said by rules, so no server could be put in their place."""
    with pytest.raises(UsageError, match="--url needs a machine"):
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
    assert "--workers does not work with --url" in refused.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--url", "http://127.0.0.1:1", "--plant"], "--plant does not work with --url"),
        (["--url", "http://127.0.0.1:1", "--mutant", "x"], "--mutant does not work with --url"),
        (["--url", "http://127.0.0.1:1", "--keep-going"], "--keep-going does not work with --url"),
        (["--url", "http://127.0.0.1:1", "--junit", "x"], "--junit does not work with --url"),
        (["--allow-host", "staging"], "--allow-host staging needs --url"),
    ],
)
def test_options_without_meaning_are_refused(options: list[str], said: str) -> None:
    """Rather than ignored: who plants mutants would think that they were caught."""
    result = CliRunner().invoke(app, ["explore", "box.py:Api", *options], prog_name="foretold")
    assert (result.exit_code, said in result.output) == (2, True), result.output
