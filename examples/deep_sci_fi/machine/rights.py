"""Whoever does what only others may is refused: every answer to every request is looked at.

Rules dare something now and then (see `things.fit`): they answer for somebody else, or act when a
lease is over. Here is what must become of that, in one place for all of them. Whose a thing is
never changes, so the database can be asked afterwards, however late or often a request has come.
Who inhabits a dweller does change: that is asked before, and a request that was let in although
nothing has changed since is a mistake.
"""

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import foretold
from examples.deep_sci_fi.machine.platform import Platform

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
VOTED_ON = ("proposals", "aspects", "dweller-proposals")
OWNERS_DO = {
    *(f"{content}/ID/{deed}" for content in VOTED_ON for deed in ("submit", "revise")),
    "stories/ID/revise",
    "stories/ID/reviews/ID/respond",
    "suggestions/ID/withdraw",
    "review/feedback-item/ID/resolve",
    "review/feedback-item/ID/reopen",
    "auth/keys/ID/revoke",
    "notifications/ID/read",
    "actions/ID/nominate",
}
OTHERS_DO = {
    *(f"{content}/ID/validate" for content in VOTED_ON),
    *(f"suggestions/on/{content}/ID" for content in ("proposal", "aspect")),
    *(
        f"review/{content}/ID/feedback"
        for content in ("proposal", "aspect", "dweller_proposal", "story")
    ),
    "suggestions/ID/upvote",
    "stories/ID/review",
    "actions/ID/confirm-importance",
    "events/ID/approve",
    "events/ID/reject",
    "feedback/ID/upvote",
}
ADDRESSEES_DO = {"suggestions/ID/reject", "review/feedback-item/ID/respond"}
INHABITANTS_DO = {
    "dwellers/ID/act",
    "dwellers/ID/act/context",
    "dwellers/ID/memory/core",
    "dwellers/ID/memory/relationship",
    "actions/compose",
}
COLUMNS = {
    "proposals": "agent_id",
    "aspects": "agent_id",
    "dweller_proposals": "agent_id",
    "stories": "author_id",
    "revision_suggestions": "suggested_by",
    "api_keys": "user_id",
    "notifications": "user_id",
    "dweller_actions": "actor_id",
    "world_events": "proposed_by",
    "feedback": "agent_id",
}
CONTENTS = " union all ".join(
    f"select id, {COLUMNS[table]} as owner from {table}"
    for table in ("proposals", "aspects", "dweller_proposals", "stories")
)
OWNERS = (
    " union all ".join(f"select id::text, {who}::text from {t}" for t, who in COLUMNS.items())
    + """ union all select i.id::text, r.reviewer_id::text
          from feedback_items i join review_feedback r on r.id = i.review_id"""
)
"""For each id, whose it is: its author's, or of who has raised it."""
ADDRESSEES = f"""with contents as ({CONTENTS})
    select s.id::text, c.owner::text from revision_suggestions s
    join contents c on c.id = s.target_id union all
    select i.id::text, c.owner::text from feedback_items i
    join review_feedback r on r.id = i.review_id join contents c on c.id = r.content_id"""
"""For suggestions and wishes, whose work they are about."""
TENANCY = """select inhabited_by::text, inhabited_until, last_context_token::text, last_context_at,
    (select count(*) from tenancies t where t.dweller_id = d.id),
    (select count(*) from dweller_actions a where a.dweller_id = d.id)
    from dwellers d where id = $1::text::uuid"""
CONTEXT = timedelta(hours=1)


class Tenancy(NamedTuple):
    """What there is to know of a dweller before somebody acts for it."""

    by: str | None
    until: datetime | None
    token: str | None
    read_at: datetime | None
    tenancies: int
    actions: int

    def ends_before(self, now: datetime, agent: str) -> bool:
        """The agent does not inhabit it, or its lease is over."""
        return self.by != agent or (self.until is not None and self.until <= now)

    def is_stale(self, now: datetime, token: str) -> bool:
        """The context was not read under this token, or too long ago."""
        return self.token != token or (self.read_at is not None and self.read_at + CONTEXT <= now)


class Rights(Platform):
    """Who is let in, and who is not."""

    async def setup(self) -> None:
        self.owners: dict[str, str] = {}
        self.addressees: dict[str, str] = {}
        await super().setup()

    async def send(
        self, actor: Any, method: str, path: str, body: Any = None, **headers: str
    ) -> Any:
        """And what was answered must be fair, if the agent has spoken for itself."""
        shape = ID.sub("ID", path.split("?")[0])
        if method != "POST" or "x-api-key" in headers:
            return await super().send(actor, method, path, body, **headers)
        if shape in INHABITANTS_DO:
            return await self._send_as_dweller(actor, path, body, **headers)
        answer = await super().send(actor, method, path, body, **headers)
        if answer.is_success:
            self._check(actor.agent.id, shape, path)
            if shape == "suggestions/ID/accept":
                self._check_deadline(actor.agent.id, answer.json())
            if shape == "dwellers/ID/claim":
                held = answer.json()["held"]
                foretold.always(held <= 5, "an agent has five dwellers at most", held=held)
        elif shape in OWNERS_DO | ADDRESSEES_DO:
            refused = answer.status_code == 403
            foretold.sometimes(refused, "who is not the owner is refused")
        return answer

    def _check(self, agent: str, shape: str, path: str) -> None:
        """The agent was let in: is it the owner, or somebody else, as it should be?"""
        if shape in ADDRESSEES_DO:
            whose = self._whose(path, self.addressees, ADDRESSEES)
            fair = agent == whose
        elif shape in OWNERS_DO:
            whose = self._whose(path, self.owners, OWNERS)
            fair = agent == whose
        elif shape in OTHERS_DO:
            whose = self._whose(path, self.owners, OWNERS)
            fair = agent != whose
        else:
            return
        foretold.always(
            fair or whose is None,
            "the platform refuses what is not the agent's to do",
            request=path,
            agent=agent,
            owner=whose,
        )

    def _check_deadline(self, agent: str, suggestion: Any) -> None:
        """It was accepted before it was answered: was that the owner, or late enough?"""
        owner = self._whose(suggestion["id"], self.addressees, ADDRESSEES)
        late = self.now() > datetime.fromisoformat(suggestion["owner_deadline"])
        fair = late or owner in (None, agent)
        foretold.always(fair, "until the deadline only the owner accepts", agent=agent, owner=owner)

    def _whose(self, path: str, known: dict[str, str], query: str) -> str | None:
        key = ID.findall(path)[0]
        if key not in known:
            known.update(dict(map(tuple, self.pg.sql(query))))
        return known.get(key)

    async def _send_as_dweller(self, actor: Any, path: str, body: Any, **headers: str) -> Any:
        agent, now = actor.agent.id, self.now()
        dweller = ID.findall(path)[0] if path != "actions/compose" else str(body["dweller_id"])
        before = self._tenancy(dweller)
        answer = await super().send(actor, "POST", path, body, **headers)
        if before is None or not answer.is_success:
            return answer
        deed = (body or {}).get("action", body or {})
        if before.ends_before(now, agent):
            after = self._tenancy(dweller) or before
            told = {"request": path, "agent": agent, "inhabitant": before.by, "until": before.until}
            mine = int("context_token" in deed)
            renewed = after.tenancies > before.tenancies or after.actions - mine > before.actions
            foretold.always(renewed, "who does not inhabit a dweller does not act for it", **told)
        if "context_token" in deed:
            stale = before.is_stale(now, deed["context_token"])
            told = {"request": path, "agent": agent, "read": before.read_at}
            foretold.always(not stale, "one acts upon what was read within the hour", **told)
        return answer

    def _tenancy(self, dweller: str) -> Tenancy | None:
        return next((Tenancy(*row) for row in self.pg.sql(TENANCY, dweller)), None)
