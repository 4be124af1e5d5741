"""The platform where it is deployed: the machine's rules, as a smoke test of a running server.

    foretold explore examples.deep_sci_fi.staging:Staging --url http://127.0.0.1:8000

There is no database to look into, no clock to set and no fault, and others use the server as well:
answers are judged by other answers. What never changes is the same on every page (a mirror), and a
status that was told is never taken back.

Agents are those whose keys DEEP_SCI_FI_KEYS lists, with commas. If there are fewer than three, the
others are registered: a minute's wait where the server lets only two in. With DEEP_SCI_FI_ADMIN_KEY
they are administrators as well.
"""

import asyncio
import os
import uuid
from datetime import UTC, datetime
from typing import Any, ClassVar

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.canon import Canon, Opinions
from examples.deep_sci_fi.machine.community import Feed, Feedback, Stories
from examples.deep_sci_fi.machine.dwelling import Characters, Deeds, Dwelling
from examples.deep_sci_fi.machine.history import NEXT
from examples.deep_sci_fi.machine.platform import EVERYTHING, Agent
from examples.deep_sci_fi.machine.scenery import REGIONS, WORDS
from examples.deep_sci_fi.machine.things import Thing
from examples.deep_sci_fi.machine.worlds import Criticising, Proposing, Revising, Suggesting

AGENTS = 3
"""Two of them can approve what the third one has proposed."""
TEXT = {"description": WORDS}
FIXED = ("created_at", "agent_id", "author_id", "proposed_by", "suggested_by", "target_id", "type")
"""Fields of answers that stay as they are for as long as the thing exists."""
AFTER: dict[str, set[str]] = {}
"""For each status, what may be told later, of whatever kind the thing is."""
for following in NEXT.values():
    for status, nexts in following.items():
        AFTER.setdefault(status, {status}).update(nexts)
for _ in range(len(AFTER)):
    for reached in AFTER.values():
        reached.update(*(AFTER[status] for status in tuple(reached)))
PAGES = st.one_of(
    *(
        st.tuples(st.just(path), found)
        for path, found in (
            ("proposals/{}", things.proposals),
            ("proposals/{}/validations", things.proposals),
            ("review/proposal/{}/status", things.proposals),
            ("suggestions/on/proposal/{}", things.proposals),
            ("worlds/{}", things.worlds),
            ("aspects/worlds/{}/aspects", things.worlds),
            ("events/worlds/{}/events", things.worlds),
            ("dwellers/worlds/{}/dwellers", things.worlds),
        )
    ),
    st.tuples(st.sampled_from(["proposals", "stories", "feedback", "worlds"]), st.just("")),
)
KNOWN: dict[str, list[tuple[str, str]]] = {}
"""For each server, the ids and keys of our agents: a search registers them once."""


def objects(said: Any) -> list[dict[str, Any]]:
    """All things with an id that an answer tells of."""
    if isinstance(said, dict):
        return [said] * ("id" in said) + [each for part in said.values() for each in objects(part)]
    return [each for part in said for each in objects(part)] if isinstance(said, list) else []


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

    things_told = foretold.Mirror()
    actors = AGENTS
    steps = 100
    weights: ClassVar = {"propose": 3, "validate": 6, "submit": 4, "settle": 3, "reread": 6}

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
        self.turn = 0
        self.told: dict[str, tuple[int, str]] = {}
        """For each thing, the status that was told last, and when."""
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
        self.turn += 1
        began = self.turn
        with self.things_told.asking() as told:
            answer = await super().send(actor, method, path, body, **headers)
            if answer.is_success and "idempotency-key" not in headers:
                found = objects(answer.json())
                told(
                    [
                        {name: each[name] for name in ("id", *FIXED) if name in each}
                        for each in found
                    ]
                )
                self._compare_statuses(began, found)
        return answer

    def _compare_statuses(self, began: int, found: list[dict[str, Any]]) -> None:
        """Whoever asks after a status was told is told that one, or one that may follow it."""
        self.turn += 1
        for each in found:
            status = each.get("status")
            when, before = self.told.get(each["id"], (0, status))
            if status not in AFTER or began <= when:
                continue
            foretold.always(
                status in AFTER.get(str(before), ()),
                "a status that was told is not taken back",
                thing=each["id"],
                before=before,
                now=status,
            )
            self.told[each["id"]] = (self.turn, status)

    @foretold.rule(page=PAGES)
    async def reread(self, actor: Any, page: tuple[str, str]) -> None:
        """Pages say what others were told."""
        path, thing = page
        await self.get(actor, path.format(thing))

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
