"""A small service with a client, a model and a machine, for the tests of prophecies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException
from hypothesis import strategies as st

import foretold

ANSWER = foretold.Prophecy(
    "answer", ok=None, lost="request_lost", lost_after="response_lost", twice="delivered_twice"
)


def make_app() -> tuple[FastAPI, dict[str, int]]:
    """The application, and what it has stored: how often each name was asked for."""
    app = FastAPI()
    stored: dict[str, int] = {}

    @app.post("/users/{name}", status_code=201)
    async def create(name: str) -> str:
        stored[name] = stored.get(name, 0) + 1
        if stored[name] > 1:
            raise HTTPException(409, "username_exists")
        return name

    @app.get("/slow")
    async def slow() -> None:
        import asyncio

        await asyncio.sleep(60)

    return app, stored


class Auth:
    """The model: what is foretold is one of its inputs."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.users: list[str] = []
        self.error: str | None = None

    def create(self, name: str, answer: str) -> None:
        self.error = "timeout" if answer in ("lost", "lost_after") else None
        if answer == "lost":
            return
        exists = name in self.stored
        self.stored = sorted({*self.stored, name})
        if answer == "twice" and not exists:
            exists = foretold.either(
                False, True
            )  # the second delivery may be the first that counts
        if self.error is None and exists:
            self.error = "username_exists"
        elif self.error is None:
            self.users.append(name)


class Accounts(foretold.Machine):
    """One client against the model."""

    model = Auth
    steps = 5
    quiet_s = 0.0
    bug = ""

    async def setup(self) -> None:
        app, self.stored = make_app()
        self.web = await self.world.web(app)
        self.http = self.web.client("client")
        self.users: list[str] = []
        self.error: str | None = None
        self.system_error: str | None = None

    async def teardown(self) -> None:
        await self.http.aclose()

    @foretold.rule(name=st.sampled_from(["ada", "bob"]), answer=ANSWER)
    async def create(self, name: str, answer: str) -> None:
        self.error = self.system_error = None
        try:
            got = await self.http.post(f"/users/{name}")
        except httpx.TransportError:
            if self.bug == "stored":
                self.users.append(name)
            self.system_error = "timeout"
            return
        if got.status_code == 409:
            self.error = "username_exists"
        else:
            self.users.append(name)

    @foretold.refines
    def as_auth(self, prophecy: Mapping[str, str]) -> dict[str, Any]:
        foreseen = prophecy.get("answer") in ("lost", "lost_after")
        return {
            "stored": sorted(self.stored),
            "users": self.users,
            "error": self.system_error if foreseen else self.error,
        }
