"""`world.external`: scripted answers, recorded calls, failures of its own, and the story."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

import httpx
import pytest

import foretold
from foretold.errors import UsageError
from foretold.services.external.certificate import authority, certificate_of
from foretold.world.faults.external import FAILURES
from foretold.world.world import World

HOST = "pay.example.com"


async def outcome(method: str, path: str, **options: Any) -> Any:
    """The status, or the name of what was raised."""
    async with httpx.AsyncClient(base_url=f"https://{HOST}", timeout=5) as client:
        try:
            return (await client.request(method, path, **options)).status_code
        except httpx.TransportError as error:
            return type(error).__name__


def test_every_form_of_an_answer() -> None:
    """JSON, text, bytes, a status, a pair, a function; each with its type."""

    def counts(call: Any) -> Any:
        return 201, {"n": len(call.query), "host": call.headers["host"]}

    answers = {
        "GET /json": {"a": [1]},
        "GET /text": "plain",
        "GET /bytes": b"\x00\x01",
        "GET /status": 404,
        "GET /pair": (503, "busy"),
        "GET /empty": (204, None),
        "GET /xml": (200, "<a/>", {"Content-Type": "text/xml", "X-Left": "3"}),
        "POST /function": counts,
    }

    async def main(world: World) -> dict[str, Any]:
        world.external(HOST, answers)
        found = {}
        async with httpx.AsyncClient(base_url=f"https://{HOST}") as client:
            for route in answers:
                method, path = route.split()
                got = await client.request(method, f"{path}?a=b")
                found[path] = got.status_code, got.headers.get("content-type"), got.content
        return found

    assert foretold.run(main, seed=1).value == {
        "/json": (200, "application/json", b'{"a": [1]}'),
        "/text": (200, "text/plain; charset=utf-8", b"plain"),
        "/bytes": (200, "application/octet-stream", b"\x00\x01"),
        "/status": (404, None, b""),
        "/pair": (503, "text/plain; charset=utf-8", b"busy"),
        "/empty": (204, None, b""),
        "/xml": (200, "text/xml", b"<a/>"),
        "/function": (201, "application/json", b'{"n": 3, "host": "pay.example.com"}'),
    }


def test_a_recorder_takes_all_and_a_script_is_complete() -> None:
    """Without answers each call gets 200; with some, a call that has none fails the run."""

    async def recorder(world: World) -> Any:
        api = world.external(HOST)
        assert await outcome("PUT", "/hooks/7", json={"a": 1}) == 200
        api.answer("PUT /hooks/{id}", 410)
        assert await outcome("PUT", "/hooks/7") == 410
        return [(str(call), call.body, call.status) for call in api.calls]

    assert foretold.run(recorder, seed=1).value == [
        ("PUT /hooks/7", b'{"a":1}', 200),
        ("PUT /hooks/7", b"", 410),
    ]

    async def script(world: World) -> Any:
        world.external(HOST, {"GET /known": {}})
        return await outcome("GET", "/other")

    with pytest.raises(UsageError, match=r"main called GET /other of pay\.example\.com, and no "):
        foretold.run(script, seed=1)


def test_a_function_that_returns_nothing_fails_the_run() -> None:
    """Its author has forgotten the answer: the program must not read `null`."""
    calls: list[Any] = []

    async def main(world: World) -> Any:
        world.external(HOST, {"POST /charge": calls.append})
        return await outcome("POST", "/charge")

    with pytest.raises(UsageError, match=r"'POST /charge' of pay\.example\.com returned nothing"):
        foretold.run(main, seed=1)


def test_headers_of_an_answer() -> None:
    """Where a thing is, how many calls are left."""

    async def main(world: World) -> str:
        world.external(HOST, {"POST /jobs": (202, None, {"Location": "/jobs/7"})})
        async with httpx.AsyncClient(base_url=f"https://{HOST}") as client:
            return (await client.post("/jobs")).headers["location"]

    assert foretold.run(main, seed=1).value == "/jobs/7"


def test_a_script_that_raises_fails_the_run() -> None:
    """It is the test's own mistake, and the program must not swallow it."""

    async def main(world: World) -> Any:
        world.external(HOST, {"GET /x": lambda call: call.json})
        return await outcome("GET", "/x")

    with pytest.raises(ValueError, match="Expecting value") as raised:
        foretold.run(main, seed=1)
    assert raised.value.__notes__[0].endswith("raised by the script of pay.example.com for GET /x")


STRUCK = {
    "external_slow": ("ReadTimeout", 1, None),
    "external_429": (429, 0, 429),
    "external_500": (500, 0, 500),
    "external_broken": ("ReadError", 0, None),
    "external_lost": ("ReadError", 1, None),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_each_failure(kind: str) -> None:
    """What the caller sees, whether the call had its effect, and what was written down."""
    effects: list[Any] = []

    def charge(call: Any) -> dict[str, Any]:
        effects.append(call)
        return {}

    async def main(world: World) -> Any:
        api = world.external(HOST, {"POST /charge": charge})
        api.fail_next(kind, path="/charge")
        seen = await outcome("POST", "/charge")
        await asyncio.sleep(200)
        (call,) = api.calls
        assert (call.fault, api.failures) == (kind, [kind])
        assert world.tally.faults[kind].effect == 1
        assert await outcome("POST", "/charge") == 200
        return seen, len(effects) - 1, call.status

    found = foretold.run(main, seed=8).value
    if kind == "external_500":
        assert found[0] in (500, 502, 503)
        found = (500, found[1], 500)
    assert found == STRUCK[kind]


def test_a_refusal_says_when_to_come_back() -> None:
    """429 has Retry-After, as real ones have."""

    async def main(world: World) -> Any:
        world.external(HOST).fail_next("429")
        async with httpx.AsyncClient() as client:
            return (await client.get(f"https://{HOST}/")).headers["retry-after"]

    assert foretold.run(main, seed=1).value in ("1", "5", "60")


async def charges(world: World, *, key: bool) -> None:
    """A program that tries again until it is told that it has charged."""
    ledger: dict[str, int] = {}

    def charge(call: Any) -> dict[str, Any]:
        number = call.headers.get("idempotency-key", str(len(ledger)))
        ledger[number] = call.json["amount"]
        return {}

    world.external(HOST, {"POST /charge": charge})
    async with httpx.AsyncClient(timeout=5) as client:
        for number in range(3):
            headers = {"idempotency-key": f"order-{number}"} if key else {}
            for _ in range(20):
                try:
                    sent = {"amount": 5}
                    await client.post(f"https://{HOST}/charge", json=sent, headers=headers)
                except httpx.TransportError:
                    await asyncio.sleep(1)
                else:
                    break
    assert sum(ledger.values()) <= 15


def test_a_search_finds_a_charge_that_is_made_twice() -> None:
    """Only an answer that is lost after its effect shows it; the story says what was sent."""

    async def without_key(world: World) -> None:
        await charges(world, key=False)

    faults = foretold.faults.external.only("external_lost")
    found = foretold.explore(without_key, runs=40, seed=1, faults=faults, confirm=False)
    assert found.failure is not None
    story = str(found.failure.story)
    assert "breaks the connection after a call had its effect: POST /charge of main" in story
    assert 'pay.example.com, is called by main: POST /charge {"amount":5}' in story
    assert "pay.example.com, answers main: POST /charge → 200" in story


def test_a_program_that_has_a_key_survives() -> None:
    """The same faults, and nothing to find."""

    async def with_key(world: World) -> None:
        await charges(world, key=True)

    found = foretold.explore(
        with_key, runs=30, seed=1, faults=foretold.faults.external, confirm=False
    )
    assert found.failure is None
    assert found.tally.faults["external_lost"].injected


def test_the_host_can_be_away() -> None:
    """It can be killed and started again, paused and resumed, as other hosts."""

    async def main(world: World) -> list[Any]:
        api = world.external(HOST)
        seen = [await outcome("GET", "/")]
        api.host.kill()
        seen.append(await outcome("GET", "/"))
        api.host.restart()
        seen.append(await outcome("GET", "/"))
        api.host.pause()
        waiting = asyncio.ensure_future(outcome("GET", "/"))
        await asyncio.sleep(2)
        assert not waiting.done()
        api.host.resume()
        return [*seen, await waiting]

    assert foretold.run(main, seed=1).value == [200, "ConnectError", 200, 200]


@pytest.mark.parametrize(
    ("name", "answers", "said"),
    [
        ("https://a.example.com/v1", None, r"right|host alone, such as world.external\('a.exam"),
        (HOST, {"/charge": {}}, "answers by route"),
        (HOST, ["GET /"], "answers by route"),
        (HOST, {"GET /a?b=c": {}}, r'would fit no call\. Write "GET /a" with a function'),
        (HOST, {"GET /": object()}, r"JSON, a text, bytes, a status, \(status, body\)"),
        (HOST, {"GET /": outcome}, "is an async function"),
        (HOST, {"GET /": 999}, "a status from 200 to 599; got 999"),
        (HOST, {"GET /": None}, "got None. A status such as 204 has no body"),
        (HOST, {"GET /": (200, "a", "b", "c")}, "JSON arrays are lists"),
        (HOST, {"GET /": (200, "a", {"etag": 1})}, "headers of a scripted answer are a dict"),
        (HOST, {"GET /": (200, "a", {"Content-Length": "1"})}, "without content-length"),
        ("main", None, "there is a program on that host already"),
    ],
)
def test_what_cannot_be_scripted_is_refused(name: Any, answers: Any, said: str) -> None:
    """A mistake is told at once."""

    async def main(world: World) -> None:
        world.external(name, answers)

    with pytest.raises(UsageError, match=said):
        foretold.run(main, seed=1)


def test_an_unknown_failure_is_refused() -> None:
    """With the names that there are."""

    async def main(world: World) -> None:
        world.external(HOST).fail_next("slwo")

    with pytest.raises(UsageError, match="external_slow"):
        foretold.run(main, seed=1)


def test_certificates_pass_the_strict_checks_of_openssl() -> None:
    """Python 3.13 asks for them by default. A certificate is good for one name."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=authority())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert certificate_of(HOST) == certificate_of(HOST.upper())
    assert certificate_of(HOST) != certificate_of("other.example.com")

    async def main(world: World) -> Any:
        world.external(HOST)
        world.trusted[HOST] = client
        async with httpx.AsyncClient(verify=client) as made:
            return (await made.get(f"https://{HOST}/")).status_code

    assert foretold.run(main, seed=1).value == 200


async def fails_later() -> None:
    """A webhook that is sent by a task of its own."""
    async with httpx.AsyncClient() as client:
        (await client.post(f"https://{HOST}/hook")).raise_for_status()


@pytest.mark.parametrize("keeps", [False, True])
def test_a_task_that_is_not_awaited_fails_the_run(keeps: bool) -> None:
    """Fire and forget: the exception is told, and no more than is known about when it came."""
    kept: list[Any] = []

    async def main(world: World) -> None:
        world.external(HOST).fail_next("500")
        task = asyncio.create_task(fails_later(), name="webhook")
        kept.append(task if keeps else None)
        del task
        await asyncio.sleep(60)

    with pytest.raises(httpx.HTTPStatusError) as raised:
        foretold.run(main, seed=1)
    notes = "\n".join(raised.value.__notes__)
    assert "Task exception was never retrieved (task webhook)" in notes
    assert ("noticed after the test's main had returned" in notes) == keeps
    assert "raised after the test's main" not in notes


def test_a_name_that_no_host_has_is_noted() -> None:
    """A program may turn the failed look-up into anything, so the run says which name it was."""

    async def main(world: World) -> Any:
        async with httpx.AsyncClient() as client:
            with contextlib.suppress(httpx.ConnectError):
                await client.get("https://api.example.org/v1")
            with contextlib.suppress(httpx.ConnectError):
                await client.get("http://nobody/")

    (note,) = foretold.run(main, seed=1).notes
    assert note == (
        "main has looked up the name api.example.org, which no host of this world has. "
        'world.external("api.example.org", {…}) adds one with scripted answers'
    )
