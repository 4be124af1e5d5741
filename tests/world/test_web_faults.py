"""`foretold.faults.web`: what each failure does to the client and to the application, and that a
search finds the bugs that only they bring out."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Header, Request
from starlette.requests import ClientDisconnect

import foretold
from foretold.errors import UsageError
from foretold.world.faults.web import FAILURES
from foretold.world.world import World

WAYS = pytest.mark.parametrize("through", ["asgi", "uvicorn"])
SEEDS = range(24)
SENT = {"amount": 5, "padding": "x" * 50}


def application(log: list[Any]) -> FastAPI:
    """Notes what it gets; takes a few milliseconds in two steps."""
    app = FastAPI()

    @app.post("/pay")
    async def pay(request: Request) -> dict[str, str]:
        log.append("enters")
        try:
            body = await request.json()
        except ClientDisconnect:
            log.append("cut off")
            raise
        assert body == SENT
        await asyncio.sleep(0.001)
        log.append("works")
        await asyncio.sleep(0.001)
        log.append("done")
        return {"answer": "y" * 50}

    return app


async def outcome(client: httpx.AsyncClient) -> Any:
    """The status, or the name of what was raised."""
    try:
        answer = await client.post("/pay", json=SENT)
        return answer.status_code, answer.json()["answer"][:1]
    except httpx.TransportError as error:
        return type(error).__name__


def struck(
    kind: str, through: str, seed: int, clients: int = 1
) -> tuple[list[Any], list[Any], Any]:
    """What clients saw, what the application did, and the counts; one request is struck."""
    log: list[Any] = []

    async def main(world: World) -> Any:
        web = await world.web(application(log), through=through)
        web.fail_next(kind)
        made = [web.client(f"client {number}") for number in range(clients)]
        found = await asyncio.gather(*map(outcome, made))
        await asyncio.sleep(40)
        for client in made:
            await client.aclose()
        return found, world.tally.faults[kind]

    found, count = foretold.run(main, seed=seed).value
    assert count.injected == 1
    return found, log, count


LOST = {"RemoteProtocolError", "ReadError", "ReadTimeout"}
OK = (200, "y")


@WAYS
def test_a_lost_request_never_comes(through: str) -> None:
    """The application sees nothing; the client one of the errors of a real connection."""
    seen = set()
    for seed in SEEDS:
        (found,), log, count = struck("request_lost", through, seed)
        assert log == []
        assert count.effect == 1
        seen.add(found)
    assert seen == {*LOST, "ConnectError"}


@WAYS
def test_a_lost_response_comes_after_the_work(through: str) -> None:
    """The application has done all of it; the client can't know."""
    seen = set()
    for seed in SEEDS:
        (found,), log, count = struck("response_lost", through, seed)
        assert log == ["enters", "works", "done"]
        assert count.effect == 1
        seen.add(found)
    assert seen == LOST


@WAYS
def test_a_request_is_delivered_twice(through: str) -> None:
    """Both are worked on, near each other or overlapping; the client has one response."""
    orders = set()
    for seed in SEEDS:
        found, log, count = struck("delivered_twice", through, seed)
        assert found == [OK]
        assert log.count("done") == 2
        assert count.effect == 1
        orders.add(tuple(log))
    assert len(orders) > 1, "some overlap, some do not"


@WAYS
def test_a_duplicate_comes_late(through: str) -> None:
    """After the client had its response."""
    for seed in SEEDS:
        found, log, count = struck("late_duplicate", through, seed)
        assert found == [OK]
        assert log == ["enters", "works", "done"] * 2
        assert count.effect == 1


@pytest.mark.usefixtures("one_session")
@WAYS
def test_a_client_goes_in_the_middle(through: str) -> None:
    """While its request is worked on, or before all of it was sent. The application may hear of it;
    it is not stopped by it."""
    logs, effects = set(), 0
    for seed in range(30):
        (found,), log, count = struck("client_gone", through, seed)
        assert found in ("ReadError", OK)
        assert count.effect == (found == "ReadError")
        logs.add(tuple(log))
        effects += count.effect
    assert effects >= 8
    assert logs == {("enters", "works", "done"), ("enters", "cut off")}


@pytest.mark.usefixtures("one_session")
@WAYS
def test_a_client_goes_though_its_request_never_enters(through: str) -> None:
    """The process dies while half of a request is on its way: the client leaves all the same, and
    nothing waits for ever."""

    async def main(world: World) -> Any:
        web = await world.web(application([]), through=through)
        async with web.client() as client:
            assert await outcome(client) == OK
            world.network.latency(0.01, 0.01)
            web.fail_next("client_gone")
            sent = asyncio.create_task(outcome(client))
            await asyncio.sleep(0.005)
            web.host.kill()
            found = await sent
        return found, tuple(web.failures)

    seen = {foretold.run(main, seed=seed).value for seed in range(12)}
    assert ("ReadError", ("client_gone",)) in seen, "it stood in the middle of its request"
    assert ("RemoteProtocolError", ()) in seen, "it had sent all, and hears that the server is gone"


@pytest.mark.usefixtures("one_session")
@WAYS
def test_a_server_is_restarted_with_requests_in_flight(through: str) -> None:
    """Who is inside gets an error and its work is cut off where it is; later it is up again."""
    logs, effects = set(), 0
    for seed in range(20):
        found, log, count = struck("server_restart", through, seed, clients=2)
        effects += count.effect or 0
        if count.effect:
            assert set(found) & {"RemoteProtocolError", "ReadError"}
        logs.add(tuple(log))
    assert effects >= 8
    assert any("done" not in log for log in logs)


@WAYS
def test_a_server_is_up_again_after_its_restart(through: str) -> None:
    """A client that tries again has its answer in the end."""

    async def main(world: World) -> int:
        web = await world.web(application([]), through=through)
        web.fail_next("server_restart")
        tries = 1
        async with web.client() as client:
            while await outcome(client) != OK:
                tries += 1
                await asyncio.sleep(0.5)
        await asyncio.sleep(10)
        assert web.host.loops
        return tries

    assert max(foretold.run(main, seed=seed).value for seed in range(8)) > 1


@WAYS
def test_a_slow_client_sends_in_pieces(through: str) -> None:
    """The application waits for the rest of the body, with all that it holds meanwhile."""
    began_ended = []

    def slow(log: list[Any]) -> FastAPI:
        app = application(log)

        @app.middleware("http")
        async def watch(request: Request, call_next: Any) -> Any:
            loop = asyncio.get_running_loop()
            began = loop.time()
            answer = await call_next(request)
            began_ended.append(loop.time() - began)
            return answer

        return app

    async def main(world: World) -> None:
        web = await world.web(slow([]), through=through)
        web.fail_next("slow_client")
        async with web.client() as client:
            assert await outcome(client) == OK

    for seed in range(6):
        foretold.run(main, seed=seed)
    assert all(taken > 0.05 for taken in began_ended)
    assert len(began_ended) == 6


@pytest.mark.usefixtures("one_session")
@WAYS
def test_a_request_enters_while_another_is_held_inside(through: str) -> None:
    """One is suspended, the other begins and ends, the first goes on: S0.24."""
    inside, effects = 0, 0
    for seed in range(20):
        found, log, count = struck("request_inside", through, seed, clients=2)
        assert found == [OK, OK]
        effects += count.effect or 0
        first, last = log.index("enters", 1), len(log) - 1 - log[::-1].index("done")
        inside += log[first:last].count("done") == 1 and log[:first].count("done") == 0
    assert effects >= 15
    assert inside >= 8


# --- drawn ---------------------------------------------------------------------------------------


class Bank:
    """Charges an account; `honour` is what the double charge lacks."""

    def __init__(self, *, honour: bool) -> None:
        self.charged: list[str] = []
        self.known: set[str] = set()
        self.app = FastAPI()

        @self.app.post("/charge")
        async def charge(idempotency_key: str = Header()) -> None:
            if honour and idempotency_key in self.known:
                return
            self.known.add(idempotency_key)
            await asyncio.sleep(0.001)
            self.charged.append(idempotency_key)


def shopping(*, honour: bool) -> Any:
    """Three people pay, and try again until they have an answer."""

    async def main(world: World) -> None:
        bank = Bank(honour=honour)
        web = await world.web(bank.app)

        async def pay(name: str) -> None:
            async with web.client(name) as client:
                for _ in range(20):
                    try:
                        await client.post("/charge", headers={"idempotency-key": name})
                        return
                    except httpx.TransportError:
                        await asyncio.sleep(0.5)

        await foretold.together(*(pay(name) for name in ("ada", "bob", "eve")))
        await asyncio.sleep(40)  # until what is late has come
        twice = [name for name in bank.known if bank.charged.count(name) > 1]
        foretold.always(not twice, "nobody is charged twice", twice=sorted(twice))

    return main


def test_a_double_charge_is_found_and_shrunk_to_one_fault() -> None:
    """A payment that is not idempotent: found in some ten runs, told with the one fault that it
    takes."""
    faults = foretold.faults.web.only("response_lost", "request_lost", "slow_client")
    outcome = foretold.explore(shopping(honour=False), runs=200, faults=faults)
    assert outcome.failure is not None
    assert outcome.runs <= 60
    assert len([fault for fault in outcome.failure.faults if "lost" in fault]) == 1
    assert "response lost: POST /charge of" in outcome.failure.story
    assert "→ 200" in outcome.failure.story, "requests are told, too"


def test_the_correction_survives_all_kinds() -> None:
    """With idempotency keys no fault charges twice; each kind strikes and has its effect."""
    outcome = foretold.explore(shopping(honour=True), runs=600, faults=foretold.faults.web)
    assert outcome.failure is None
    counts = outcome.tally.faults
    assert set(counts) == set(FAILURES)
    assert {name for name, count in counts.items() if not count.effect} == set()


@pytest.mark.usefixtures("one_session")
def test_a_run_has_some_kinds_and_not_all() -> None:
    """Swarm: which kinds a run has is drawn, and stands on its tape in words."""
    runs = [
        foretold.run(shopping(honour=True), seed=seed, faults=foretold.faults.web)
        for seed in range(12)
    ]
    on = [{name for name, how in run.tape.configuration.items() if how == "on"} for run in runs]
    assert len({frozenset(kinds) for kinds in on}) > 4
    assert any(len(kinds) < len(FAILURES) for kinds in on)


def test_the_quiet_run_has_no_fault() -> None:
    """0 is none: on the tape of zeros nothing strikes."""
    tape = foretold.Tape("recorded", settings={"faults": str(foretold.faults.web)})
    done = foretold.run(shopping(honour=False), tape=tape)
    assert done.tape.settings["faults"]


def test_no_fault_in_calm_passages_and_after_heal() -> None:
    """Set-up and final checks are left alone."""

    async def main(world: World) -> list[str]:
        web = await world.web(application([]))
        async with web.client() as client:
            async with world.calm():
                for _ in range(20):
                    assert await outcome(client) == OK
            await world.heal()
            for _ in range(20):
                assert await outcome(client) == OK
        failures: list[str] = web.failures
        return failures

    for seed in range(8):
        assert foretold.run(main, seed=seed, faults=foretold.faults.web).value == []


def test_failures_by_hand_name_their_request() -> None:
    """`method` and `path` say which request is meant; others pass."""

    async def main(world: World) -> None:
        web = await world.web(application([]))
        web.fail_next("request_lost", path="/pay", method="post")
        async with web.client() as client:
            assert (await client.get("/pay")).status_code == 405
            assert (await client.post("/other")).status_code == 404
            assert await outcome(client) != OK
            assert await outcome(client) == OK
        assert web.failures == ["request_lost"]
        with pytest.raises(UsageError, match="Did you mean 'response_lost'"):
            web.fail_next("respons_lost")

    foretold.run(main)


def test_a_set_of_web_faults_combines_like_others() -> None:
    """`only`, `without`, `+`, and by name."""
    web = foretold.faults.web
    assert list(web) == list(FAILURES)
    assert "client_gone" not in web.without("client_gone")
    both = web.only("response_lost") + foretold.faults.postgres.only("db_restart")
    assert set(both) == {"response_lost", "db_restart"}
    with pytest.raises(UsageError, match="Did you mean 'client_gone'"):
        web.only("client_gon")
