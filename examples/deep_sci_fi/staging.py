"""The platform where it is deployed: the machine's rules, as a smoke test of a running server.

    foretold explore examples.deep_sci_fi.staging:Staging --url http://127.0.0.1:8000

There is no database to look into, no clock to set and no fault: answers are judged, and nothing
else. Agents are those whose keys DEEP_SCI_FI_KEYS lists, with commas. If there are fewer than
three, the others are registered: a minute's wait where the server lets only two in. With
DEEP_SCI_FI_ADMIN_KEY they are administrators as well.
"""

import asyncio
import os
import uuid
from datetime import UTC, datetime
from typing import Any, ClassVar

import foretold
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.canon import Canon, Opinions
from examples.deep_sci_fi.machine.community import Feed, Feedback, Stories
from examples.deep_sci_fi.machine.dwelling import Characters, Deeds, Dwelling
from examples.deep_sci_fi.machine.platform import EVERYTHING, Agent
from examples.deep_sci_fi.machine.scenery import REGIONS, WORDS
from examples.deep_sci_fi.machine.things import Thing
from examples.deep_sci_fi.machine.worlds import Criticising, Proposing, Revising, Suggesting

AGENTS = 3
"""Two of them can approve what the third one has proposed."""
TEXT = {"description": WORDS}
KNOWN: dict[str, list[tuple[str, str]]] = {}
"""For each server, the ids and keys of our agents: a search registers them once."""


class Staging(
    Proposing,
    Revising,
    Criticising,
    Suggesting,
    Canon,
    Opinions,
    Dwelling,
    Deeds,
    Characters,
    Stories,
    Feedback,
    Feed,
):
    """All that agents do to proposals, worlds, dwellers and stories."""

    actors = AGENTS
    steps = 100
    weights: ClassVar = {"propose": 3, "validate": 6, "submit": 4, "settle": 3}

    async def serve(self) -> None:
        """It runs already."""
        if getattr(self.world, "url", None) is None:
            raise foretold.UsageError(
                "this machine is for a server that runs: --url http://127.0.0.1:8000. For a "
                "simulated one: foretold explore examples.deep_sci_fi.machine:DeepSciFi"
            )
        self.web = await self.world.web(None)

    async def accounts(self) -> list[Agent]:
        """By their keys, or newly registered; the same in all runs."""
        url: Any = getattr(self.world, "url", "")
        if url not in KNOWN:
            keys = list(filter(None, os.environ.get("DEEP_SCI_FI_KEYS", "").split(",")))[:AGENTS]
            async with self.web.client("newcomer") as client:
                while len(keys) < AGENTS:
                    keys.append(await self._register(client))
                KNOWN[url] = [(await self._whose(client, key), key) for key in keys]
        agents = []
        for number, (name, key) in enumerate(KNOWN[url], 1):
            agent = Agent(number)
            agent.id, agent.key = name, key
            agents.append(agent)
        return agents

    async def _register(self, client: Any) -> str:
        body = {"name": "Smoke test", "username": "smoke-test", "model_id": "foretold"}
        answer = await client.post("/api/auth/agent", json=body)
        while answer.status_code == 429:
            await asyncio.sleep(float(answer.headers["retry-after"]))
            answer = await client.post("/api/auth/agent", json=body)
        foretold.always(answer.status_code < 500, "whoever wants to can register")
        return str(self.judge(answer)["api_key"])

    async def _whose(self, client: Any, key: str) -> str:
        answer = await client.get("/api/auth/me", headers={"x-api-key": key})
        return str(self.judge(answer)["id"])

    async def setup(self) -> None:
        await super().setup()
        self.run = uuid.uuid4()
        self.focus = EVERYTHING
        for actor, agent in zip(self.cast, self.agents, strict=False):
            actor.agent = agent

    @foretold.initialize(target=things.proposals)
    async def there_are_proposals(self) -> Any:
        """Those of our own agents, from the runs before: an agent may have three that are open."""
        ours = {agent.id for agent in self.agents}
        return foretold.multiple(
            *(
                Thing(
                    row["id"],
                    row["agent_id"],
                    row["status"],
                    system=row["review_system"],
                    revision=row["revision_count"],
                )
                for row in await self.get(self.cast[0], "proposals?limit=100")
                if row["agent_id"] in ours
            )
        )

    @foretold.initialize(target=things.worlds)
    async def there_are_worlds(self) -> Any:
        """Whatever the platform shows; on a new one, a first world."""
        author, *voters = self.cast
        rows = await self.get(author, "worlds")
        if rows:
            return foretold.multiple(*(Thing(row["id"]) for row in rows))
        proposal = await self._propose(author, "Dew", "vote")
        await self.submit(author, proposal, force=True)
        made = [await self._validate("approve", voter, proposal) for voter in voters]
        for name in REGIONS:
            await self.post(author, f"dwellers/worlds/{made[-1]}/regions", {"name": name, **TEXT})
        return made[-1]

    async def _propose(self, actor: Any, name: str, system: str) -> Thing:
        """Under a name that no run before has given."""
        return await super()._propose(actor, f"{name} {self.fresh_key()}", system)

    async def send(
        self, actor: Any, method: str, path: str, body: Any = None, **headers: str
    ) -> Any:
        """Idempotency keys are those of this run: the server remembers what others were for."""
        if "idempotency-key" in headers:
            key = uuid.uuid5(self.run, headers["idempotency-key"])
            headers["idempotency-key"] = str(key)
        return await super().send(actor, method, path, body, **headers)

    async def admin(self, actor: Any, method: str, path: str, body: Any = None) -> Any:
        """With the key that was given, if one was."""
        key = os.environ.get("DEEP_SCI_FI_ADMIN_KEY")
        if not key:
            raise foretold.Refused("nobody here is an administrator")
        return self.judge(await self.send(actor, method, path, body, **{"x-api-key": key}))

    def in_the_feed(self) -> list[str]:
        """Nobody can tell: there is no database to look into."""
        return []

    def now(self) -> datetime:
        """By the real clock."""
        return datetime.now(UTC)
