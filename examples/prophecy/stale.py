"""Clients that look at a page for a while: what they see may be stale, and the model knows it.

    foretold explore examples.prophecy.stale:Page
    foretold explore examples.prophecy.stale:Page --plant

The model has the document and, beside it, what each client has on its screen (an auxiliary client
model). So "your page is stale" is a domain error that the model foresees exactly.
"""

from typing import Any

import httpx
from fastapi import FastAPI, HTTPException

import foretold

BUGS = {"blind_write": "the server does not ask which version a client has seen"}


def make_app() -> tuple[FastAPI, dict[str, int]]:
    app, document = FastAPI(), {"version": 1, "edits": 0}

    @app.get("/page")
    async def read() -> dict[str, int]:
        return document

    @app.put("/page/{version}")
    async def edit(version: int) -> dict[str, int]:
        if version != document["version"] and not foretold.mutant("blind_write"):
            raise HTTPException(409, "your page is stale")
        document["version"] += 1
        document["edits"] += 1
        return document

    return app, document


class Pages:
    """The document, and what each client has on its screen."""

    def __init__(self) -> None:
        self.version = 1
        self.edits = 0
        self.screens: dict[str, int] = {}

    def read(self, actor: str) -> None:
        self.screens[actor] = self.version

    def edit(self, actor: str) -> None:
        if self.screens.get(actor, 1) != self.version:
            raise foretold.Refused("your page is stale")
        self.version += 1
        self.edits += 1
        self.screens[actor] = self.version


class Page(foretold.Machine):
    """Two clients and one document."""

    actors = 2
    steps = 8
    quiet_s = 0.0
    model = Pages

    async def setup(self) -> None:
        app, self.document = make_app()
        self.web = await self.world.web(app)
        for actor in self.cast:
            actor.http = self.web.client(actor)
            actor.seen = 1

    async def teardown(self) -> None:
        for actor in self.cast:
            await actor.http.aclose()

    @foretold.rule()
    async def read(self, actor: Any) -> None:
        actor.seen = (await actor.http.get("/page")).json()["version"]

    @foretold.rule()
    async def edit(self, actor: Any) -> None:
        answer: httpx.Response = await actor.http.put(f"/page/{actor.seen}")
        if answer.status_code == 409:
            raise foretold.Refused(answer.json()["detail"])
        actor.seen = answer.json()["version"]

    @foretold.refines
    def as_pages(self, history: list[Any]) -> dict[str, Any]:
        """Who has done nothing yet has no screen in the model."""
        acted = {done.actor for done in history if done.outcome == "succeeded"}
        screens = {actor.name: actor.seen for actor in self.cast if actor.name in acted}
        return {**self.document, "screens": screens}
