"""What agents are told is what the database says: every answer to every request is compared.

The answers of the platform have the fields of its tables, and so have the bodies of requests. So a
mirror of each table compares all of them: an answer tells, and a body has sent, what its row said
at one instant between the request and the answer. Whose a thing is, who has decided on it and what
has become of it (the columns that refer to other rows) is set once.
"""

import contextlib
from typing import Any

import foretold
from examples.deep_sci_fi.app.models import Base
from examples.deep_sci_fi.machine.platform import Platform
from examples.deep_sci_fi.machine.rights import ID

STATUS = {"content_status": "status"}
MEMORIES = {name: name for name in ("core_memories", "episodic_memories", "relationship_memories")}
ABOUT: dict[str, dict[str, str]] = {
    "proposals/ID/validate": {"proposal_status": "status", "world_id": "resulting_world_id"},
    "dweller-proposals/ID/validate": {
        "proposal_status": "status",
        "dweller_id": "resulting_dweller_id",
    },
    "aspects/ID/validate": {"aspect_status": "status"},
    "stories/ID/review": {"story_status": "status"},
    "stories/ID/reviews/ID/respond": {"story_status": "status"},
    "review/proposal/ID/status": {**STATUS, "world_id": "resulting_world_id"},
    "review/aspect/ID/status": STATUS,
    "review/dweller_proposal/ID/status": STATUS,
    "review/story/ID/status": STATUS,
    "dwellers/ID/memory": MEMORIES,
    "dwellers/ID/memory/core": MEMORIES,
    "dwellers/ID/memory/relationship": MEMORIES,
    "worlds/ID/follow": {"follower_count": "follower_count"},
}
"""For some requests, which fields of the answer are columns of the row that the path names."""
REWORDED = ("auth/agent",)
"""Where bodies are not stored as they are: usernames are made unique."""
CHANGES_HANDS = "inhabited_by"


def rows(columns: str = "*", *, of: str) -> foretold.Mirror:
    """The rows of one table."""
    linked = [each.name for each in Base.metadata.tables[of].columns if each.foreign_keys]
    once = [name for name in linked if columns == "*" and name != CHANGES_HANDS]
    return foretold.Mirror(sql=f"select {columns} from {of}", once=once)


class Told(Platform):
    """Answers and rows say the same."""

    proposals = rows(of="proposals")
    validations = rows(of="validations")
    worlds = rows(of="worlds")
    aspects = rows(of="aspects")
    aspect_votes = rows(of="aspect_validations")
    events = rows(of="world_events")
    dweller_proposals = rows(of="dweller_proposals")
    dwellers = rows(of="dwellers")
    actions = rows(of="dweller_actions")
    stories = rows(of="stories")
    story_reviews = rows(of="story_reviews")
    feedback = rows(of="feedback")
    suggestions = rows(of="revision_suggestions")
    reviews = rows(of="review_feedback")
    wishes = rows(of="feedback_items")
    comments = rows(of="comments")
    entries = rows(of="feed_events")
    keys = rows("id, prefix, expires_at, is_revoked", of="api_keys")
    notes = rows("id, kind, data, read_at", of="notifications")
    accounts_kept = rows("id, username, name, model_id", of="users")

    @proposals.page
    async def page_of_proposals(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"proposals/{key}")

    @aspects.page
    async def page_of_aspects(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"aspects/{key}")

    @dweller_proposals.page
    async def page_of_dweller_proposals(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"dweller-proposals/{key}")

    @dwellers.page
    async def page_of_dwellers(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"dwellers/{key}")

    @stories.page
    async def page_of_stories(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"stories/{key}")

    @feedback.page
    async def page_of_feedback(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"feedback/{key}")

    @events.page
    async def page_of_events(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"events/{key}")

    @worlds.page
    async def page_of_worlds(self, actor: Any, key: str) -> Any:
        return await self.get(actor, f"worlds/{key}")

    async def send(
        self, actor: Any, method: str, path: str, body: Any = None, **headers: str
    ) -> Any:
        """And what was answered must be so. A stored answer, under an idempotency key, is old."""
        with contextlib.ExitStack() as asking:
            mirrors = (getattr(self, name) for name in MIRRORS)
            asked = [asking.enter_context(mirror.asking()) for mirror in mirrors]
            answer = await super().send(actor, method, path, body, **headers)
        if answer.is_success and "idempotency-key" not in headers:
            said = answer.json()
            told = [said, _about(path, said), _consequence(path, body, said)]
            thing = _made_or_changed(said) if _is_stored(path, answer) else None
            for tell in asked:
                tell(told)
                if thing is not None and body:
                    tell.sent(body.get("action", body), thing)
        return answer


MIRRORS = tuple(name for name, value in vars(Told).items() if isinstance(value, foretold.Mirror))


def _is_stored(path: str, answer: Any) -> bool:
    """Whether what was sent is stored as it is; who sends a story again gets the first one."""
    return path not in REWORDED and not (path == "stories" and answer.status_code == 200)


def _made_or_changed(said: Any) -> dict[str, Any] | None:
    """The row that a request was about: the answer itself, or the one object in it."""
    if not isinstance(said, dict) or "id" in said:
        return said if isinstance(said, dict) else None
    found = [each for each in said.values() if isinstance(each, dict) and "id" in each]
    return found[0] if len(found) == 1 else None


def _consequence(path: str, body: Any, said: Any) -> dict[str, Any]:
    """What the request has changed elsewhere."""
    if path.endswith("/accept"):
        return {"id": said["target_id"], said["field"]: said["suggested_value"]}
    deed = said.get("action") if isinstance(said, dict) else None
    if deed is not None and body is not None and deed["type"] == "move":
        return {"id": deed["dweller_id"], "current_region": deed["target"]}
    return {}


def _about(path: str, said: Any) -> dict[str, Any]:
    """What the answer tells of the row that the path names."""
    path = path.split("?")[0].removeprefix("/api/")
    columns = ABOUT.get(ID.sub("ID", path))
    if columns is None:
        return {}
    told = {column: said[name] for name, column in columns.items() if name in said}
    return {"id": ID.findall(path)[0], **told}
