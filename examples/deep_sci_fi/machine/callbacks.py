"""What the platform posts to the agents' own servers: true, to the right one, and all of it.

Some agents have left an address (see scenery.py). Their servers stand outside of the platform's
system: `world.external`. Now and then one of them fails.
"""

import functools
import json
from typing import Any

import foretold
from examples.deep_sci_fi.machine import scenery
from examples.deep_sci_fi.machine.platform import Platform

ROUTE = "POST /notifications"
TROUBLE = (None, None, "slow", "500", "lost", "broken", "429")
"""What befalls one or two calls in a run."""
NOTE = """select user_id::text, kind, data = $2::text::jsonb from notifications
    where id = $1::text::uuid"""
DUE = """select n.id::text, n.sent_at is not null from notifications n
    join users u on u.id = n.user_id where u.callback_token is not null and n.kind <> 'welcome'"""
MINUTES_MAX = 10
"""So long it takes at most until a post is tried again, with some to spare."""


class Callbacks(Platform):
    """Agents hear of what concerns them."""

    async def serve(self) -> None:
        self.posted: set[str] = set()
        self.strange: list[str] = []
        self.servers = [
            self.world.external(
                scenery.callback_host(number), {ROUTE: functools.partial(self._receive, number)}
            )
            for number in scenery.CALLED_BACK
        ]
        await super().serve()

    async def setup(self) -> None:
        await super().setup()
        for server in self.servers[:2]:
            trouble = foretold.choose(TROUBLE, "an agent's server")
            if trouble is not None:
                server.fail_next(trouble)

    def _receive(self, number: int, call: Any) -> dict[str, Any]:
        """An agent's server: what it is told must be in the database, and must be for it."""
        said, me = call.json, scenery.agent(number)
        rows = list(self.pg.sql(NOTE, said["id"], json.dumps(said["data"])))
        right = [tuple(row) for row in rows] == [(me, said["kind"], True)]
        if not right or call.headers.get("authorization") != f"Bearer {scenery.token(number)}":
            self.strange.append(f"agent {number} was told {said}, and there is {rows}")
        foretold.sometimes(said["id"] in self.posted, "an agent is told twice")
        self.posted.add(said["id"])
        return {}

    @foretold.invariant()
    def what_is_posted_is_so(self) -> int:
        """Agents are told what is committed, with their token, and nobody else is."""
        assert not self.strange, "; ".join(self.strange)
        return len(self.posted)

    @foretold.invariant(when="end")
    async def every_notification_is_posted(self) -> int:
        """However often servers fail, each agent is told in the end, and that is noted."""
        due = await self.all_posted()
        lost = sorted(key for key, noted in due.items() if key not in self.posted)
        assert not lost, f"never posted: {lost}"
        unnoted = sorted(key for key, noted in due.items() if not noted)
        assert not unnoted, f"posted, and not noted: {unnoted}"
        return len(due)

    async def all_posted(self) -> dict[str, bool]:
        """What was to be posted, and whether that is noted; when nothing is left to do."""
        for _ in range(MINUTES_MAX):
            if all(self._due().values()):
                break
            await self.world.clock.advance(60)
        return self._due()

    def _due(self) -> dict[str, bool]:
        return dict(map(tuple, self.pg.sql(DUE)))
