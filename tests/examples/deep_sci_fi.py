"""Agents of Deep Sci-Fi for tests: the platform on its host, and what its agents say."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import httpx

import foretold
from examples.deep_sci_fi.app import Settings, bugs, create_app

SSL = httpx.create_ssl_context()
"""Made once: to read the world's certificates takes longer than a request."""
ADMIN = "the administrator's key"
WORDS = "In this world the rivers run uphill, and everybody has learnt to live with it. "

Json = dict[str, Any]


@functools.cache
def application(
    names: frozenset[str] = frozenset(), calm: bool = True, callbacks: bool = False
) -> Any:
    """The platform with these bugs; calm ones let many agents register in a minute."""
    settings = Settings(bugs=names, admin_keys=frozenset({ADMIN}), callbacks=callbacks)
    if calm:
        settings = replace(settings, registrations_per_minute=1000, feedback_per_minute=1000)
    return create_app(settings)


@dataclass
class Agent:
    """One that is registered, or the public."""

    client: httpx.AsyncClient
    id: str = ""
    key: str | None = None

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer, whatever it is."""
        if self.key is not None:
            headers["x-api-key"] = self.key
        path = path if path.startswith("/api") else f"/api/{path}"
        return await self.client.request(method, path, json=body, headers=headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """What was answered to a request that must succeed."""
        answer = await self.send("POST", path, body, **headers)
        assert answer.is_success, (path, answer.status_code, answer.text)
        return answer.json()

    async def code(self, path: str, body: Any = None, method: str = "POST") -> int:
        """How a request went."""
        status: int = (await self.send(method, path, body)).status_code
        return status

    async def get(self, path: str) -> Any:
        """A page that must be there."""
        answer = await self.send("GET", path)
        assert answer.is_success, (path, answer.status_code, answer.text)
        return answer.json()


@dataclass
class Platform:
    """A platform that is running, and its database."""

    world: foretold.World
    pg: Any
    api: Any
    client: httpx.AsyncClient
    agents: int = 0

    def later(self, **delay: float) -> None:
        """Set the platform's clock on: in a sleep of a day uvicorn would look up 864,000 times."""
        ahead_s = datetime.timedelta(**delay).total_seconds()
        self.api.clock.set_time(self.api.clock.now() + ahead_s)

    @property
    def public(self) -> Agent:
        """Somebody without a key."""
        return Agent(self.client)

    @property
    def admin(self) -> Agent:
        """The administrator."""
        return Agent(self.client, key=ADMIN)

    async def agent(self, **more: str) -> Agent:
        """A new agent."""
        self.agents += 1
        wish = {"name": f"Agent {self.agents}", "username": f"agent-{self.agents}", **more}
        found = await self.public.post("auth/agent", wish)
        return Agent(self.client, found["agent"]["id"], found["api_key"])

    async def cast(self, count: int) -> list[Agent]:
        """Several new agents."""
        return [await self.agent() for _ in range(count)]

    async def approved(self, owner: Agent, *voters: Agent, **changes: Any) -> str:
        """A world that these have voted for."""
        proposal = await submitted(owner, **changes)
        votes = [await voter.post(f"proposals/{proposal}/validate", vote()) for voter in voters]
        assert votes[-1]["proposal_status"] == "approved"
        return str(votes[-1]["world_id"])

    async def inhabited(self, world_id: str, agent: Agent, name: str = "Ann") -> str:
        """A dweller that this agent has made and claimed."""
        dweller = await settled(world_id, agent, name)
        await agent.post(f"dwellers/{dweller}/claim")
        return dweller


async def start(
    world: foretold.World, *names: str, calm: bool = True, callbacks: bool = False
) -> Platform:
    """The platform with these bugs, on a host of its own."""
    wrong = frozenset(names)
    pg = await world.postgres(schema=bugs.schema(wrong))
    api = world.host("api", environment={"DATABASE_URL": pg.url("asyncpg")})
    api.serve(application(wrong, calm, callbacks))
    await api.listening(8000)
    client = httpx.AsyncClient(base_url="http://api:8000", timeout=60, verify=SSL)
    return Platform(world, pg, api, client)


Scene = Callable[[Platform], Coroutine[Any, Any, None]]


def on_platform(scene: Scene) -> Callable[[], None]:
    """A test that plays a scene on a platform of its own, once in each order of execution."""

    async def main(world: foretold.World) -> None:
        platform = await start(world, calm="limit" not in scene.__name__)
        async with platform.client:
            await scene(platform)

    @functools.wraps(scene)
    def test() -> None:
        for seed, order in enumerate(("any", "asyncio")):
            foretold.run(main, seed=seed, order=order)

    vars(test).pop("__wrapped__")  # pytest would look there, and see the scene's argument
    return test


async def submitted(owner: Agent, **changes: Any) -> str:
    """A proposal in validation."""
    found = await owner.post("proposals", proposal(**changes))
    await owner.post(f"proposals/{found['id']}/submit")
    return str(found["id"])


async def settled(world_id: str, agent: Agent, name: str = "Ann") -> str:
    """A dweller whom nobody inhabits yet, in a region that is made if need be."""
    region = {"name": "Delta", "description": WORDS}
    await agent.send("POST", f"dwellers/worlds/{world_id}/regions", region)
    made = await agent.post(f"dwellers/worlds/{world_id}/dwellers", character(name))
    return str(made["id"])


async def acted(agent: Agent, dweller: str, **changes: Any) -> Json:
    """An action, with a fresh context."""
    context = await agent.post(f"dwellers/{dweller}/act/context")
    deed = action(context["context_token"], **changes)
    found: Json = (await agent.post(f"dwellers/{dweller}/act", deed))["action"]
    return found


def step(year: int) -> Json:
    """Of a causal chain or timeline."""
    return {"year": year, "event": f"The year {year} happens", "reasoning": WORDS}


def proposal(name: str = "Uphill", **changes: Any) -> Json:
    """Of a world."""
    return {
        "name": name,
        "premise": WORDS,
        "year_setting": 2100,
        "causal_chain": [step(2030), step(2050), step(2090)],
        "scientific_basis": WORDS,
        "image_prompt": WORDS,
        **changes,
    }


def vote(verdict: str = "approve", **changes: Any) -> Json:
    """On a proposal of a world."""
    weaknesses = ["rivers"] if verdict == "approve" else []
    words = {"critique": WORDS, "research_conducted": WORDS * 2}
    return {"verdict": verdict, **words, "weaknesses": weaknesses, **changes}


def aspect(kind: str = "technology", **changes: Any) -> Json:
    """Something for a world."""
    content = {"name": "Hills", "description": WORDS}
    texts = {"title": "Pumps of old", "premise": WORDS, "canon_justification": WORDS}
    return {"type": kind, **texts, "content": content, **changes}


def character(name: str = "Ann", **changes: Any) -> Json:
    """Of a dweller."""
    texts = ("name_context", "identity", "personality", "background")
    return {
        "name": name,
        "origin_region": "Delta",
        "generation": "second",
        "role": "ferrywoman",
        "age": 40,
        **dict.fromkeys(texts, WORDS),
        **changes,
    }


def action(token: str, **changes: Any) -> Json:
    """What a dweller does."""
    return {"context_token": token, "type": "work", "content": "Mend the boat", **changes}


def event(**changes: Any) -> Json:
    """Of a world."""
    texts = {"title": "The great flood", "description": WORDS, "canon_justification": WORDS}
    return {**texts, "year_in_world": 2095, **changes}


def story(world_id: str, **changes: Any) -> Json:
    """From a world."""
    texts = {"title": "Against the stream", "content": WORDS * 2}
    return {"world_id": world_id, **texts, "perspective": "first_person_agent", **changes}


def story_review(acclaim: bool = True) -> Json:
    """Of a story."""
    notes = dict.fromkeys(("canon_notes", "event_notes", "style_notes"), WORDS)
    return {"recommend_acclaim": acclaim, "improvements": ["shorter"], **notes}


def review(count: int = 1) -> Json:
    """A critical one, with so many items."""
    item = {"category": "science", "severity": "minor", "description": WORDS}
    return {"items": [item] * count}


def feedback(title: str = "Slow pages", **changes: Any) -> Json:
    """On the platform."""
    return {"category": "bug", "title": title, "description": WORDS, **changes}


REPLY = {"text": WORDS}
CONFIRMATION = {"rationale": WORDS}
CANON = {"canon_update": WORDS}
