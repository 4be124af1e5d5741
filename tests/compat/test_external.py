"""`world.external` with unmodified clients: each trusts the scripted host by its own default
context, made before the run or in it."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from typing import Any

import aiohttp
import httpx
import pytest
import requests

import foretold
from tests.compat.scene import check, for_each, scenario

HOST = "api.openai.com"
CHAT = f"https://{HOST}/v1/chat"
MADE_BEFORE = ssl.create_default_context()
"""As libraries make theirs when they are imported."""


def script(world: Any) -> Any:
    """Says again what it is told; files have names."""

    def chat(call: Any) -> dict[str, Any]:
        return {"said": call.json["say"], "by": call.sender, "key": call.headers["x-key"]}

    def file(call: Any) -> bytes:
        return bytes(call.parameters["name"], "utf-8") * 50_000

    return world.external(HOST, {"POST /v1/chat": chat, "GET /v1/files/{name}": file})


def check_calls(api: Any, *paths: str) -> None:
    """These calls came, in this order, and were answered."""
    assert [(call.path, call.status) for call in api.calls] == [(path, 200) for path in paths]


KEY = {"x-key": "k"}
ANSWER = {"said": "hello", "by": "main", "key": "k"}


@scenario
async def with_httpx(world: Any) -> None:
    """Two calls over one connection, and a large body."""
    api = script(world)
    async with httpx.AsyncClient(headers=KEY) as client:
        assert (await client.post(CHAT, json={"say": "hello"})).json() == ANSWER
        file = await client.get(f"https://{HOST}/v1/files/a%20b")
        assert file.content == b"a b" * 50_000
    check_calls(api, "/v1/chat", "/v1/files/a%20b")


@scenario
async def with_aiohttp(world: Any) -> None:
    """aiohttp has made its context when it was imported."""
    api = script(world)
    async with aiohttp.ClientSession(headers=KEY) as session:
        async with session.post(CHAT, json={"say": "hello"}) as response:
            assert await response.json() == ANSWER
        async with session.get(f"https://{HOST}/v1/files/b", ssl=MADE_BEFORE) as response:
            assert await response.read() == b"b" * 50_000
    check_calls(api, "/v1/chat", "/v1/files/b")


@scenario
def with_requests(world: Any) -> None:
    """A blocking client; so has requests."""
    api = script(world)
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(CHAT, json={"say": "hello"}, headers=KEY, timeout=60)
        assert answer.json() == ANSWER
        file = session.get(f"https://{HOST}/v1/files/c", timeout=60)
        assert file.content == b"c" * 50_000
    check_calls(api, "/v1/chat", "/v1/files/c")


@scenario
def with_urllib(world: Any) -> None:
    """The standard library, with TLS and without."""
    api = script(world)
    body = json.dumps({"say": "hello"}).encode()
    request = urllib.request.Request(CHAT, body, KEY)
    with urllib.request.urlopen(request, context=ssl.create_default_context()) as answer:
        assert json.load(answer) == ANSWER
    with urllib.request.urlopen(f"http://{HOST}/v1/files/d") as answer:
        assert answer.read() == b"d" * 50_000
    check_calls(api, "/v1/chat", "/v1/files/d")


@scenario
async def from_a_host_of_its_own(world: Any) -> None:
    """The application calls from its own host, several times at once."""
    api = script(world)

    async def main() -> list[str]:
        async with httpx.AsyncClient(headers=KEY, timeout=60) as client:
            asked = [client.post(CHAT, json={"say": str(number)}) for number in range(4)]
            answers = [answer.json() for answer in await asyncio.gather(*asked)]
        assert {answer["by"] for answer in answers} == {"worker"}
        return [answer["said"] for answer in answers]

    assert await world.host("worker").start(main) == ["0", "1", "2", "3"]
    check_calls(api, *["/v1/chat"] * 4)


ALL = (with_httpx, with_aiohttp, with_requests, with_urllib, from_a_host_of_its_own)


@for_each(*ALL)
def test_clients(main: Any) -> None:
    """On several tapes, in both orders."""
    check(main, seeds=range(2))


def test_a_run_is_the_same_again() -> None:
    """Keys, certificates and handshakes follow from the tape alone."""
    runs = [foretold.run(with_httpx, seed=seed).trace.digest for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_no_context_trusts_more_after_the_run() -> None:
    """What the program has made before the run is as it was."""
    before = MADE_BEFORE.cert_store_stats()
    foretold.run(with_aiohttp, seed=1)
    assert MADE_BEFORE.cert_store_stats() == before
    assert not any("foretold" in str(each) for each in MADE_BEFORE.get_ca_certs())


def test_a_name_is_still_checked() -> None:
    """A certificate is good for its own host; and a name that is not scripted is not found."""

    async def main(world: Any) -> list[str]:
        api = world.external(HOST)
        reached = []
        async with httpx.AsyncClient() as client:
            for url, name in (
                (f"https://{api.host.ip}/", ""),
                (f"https://{HOST}/", "other.example.com"),
                ("https://elsewhere.example.com/", ""),
            ):
                extensions = {"sni_hostname": name} if name else {}
                with pytest.raises(httpx.ConnectError) as raised:
                    await client.get(url, extensions=extensions)
                reached.append(str(raised.value))
        async with httpx.AsyncClient(verify=False) as client:
            assert (await client.get(f"https://{api.host.ip}/")).status_code == 200
        return reached

    by_ip, by_name, unknown = foretold.run(main, seed=1).value
    assert "CERTIFICATE_VERIFY_FAILED" in by_ip
    assert "CERTIFICATE_VERIFY_FAILED" in by_name
    assert "Name or service not known" in unknown
