"""Every page is read, and leaves nothing out; who has no key is shown every door, and told 401."""

from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.models import Base
from examples.deep_sci_fi.machine import scenery, things
from examples.deep_sci_fi.machine.callbacks import Callbacks
from examples.deep_sci_fi.machine.platform import APP
from examples.deep_sci_fi.machine.promises import Promises
from examples.deep_sci_fi.machine.told import Told

PAGES_OF: dict[str, Any] = {
    "proposals/{}": things.proposals,
    "proposals/{}/validations": things.proposals,
    "review/proposal/{}/status": things.proposals,
    "review/aspect/{}/status": things.aspects,
    "suggestions/on/proposal/{}": things.proposals,
    "suggestions/on/aspect/{}": things.aspects,
    "worlds/{}": things.worlds,
    "worlds/{}/comments": things.worlds,
    "aspects/worlds/{}/aspects": things.worlds,
    "aspects/{}": things.aspects,
    "events/worlds/{}/events": things.worlds,
    "events/{}": things.events,
    "dweller-proposals/worlds/{}": things.worlds,
    "dweller-proposals/{}": things.dweller_proposals,
    "dwellers/worlds/{}/dwellers": things.worlds,
    "dwellers/worlds/{}/dwellers?available=true": things.worlds,
    "dwellers/{}": things.dwellers,
    "dwellers/{}/memory": things.dwellers,
    "actions/{}": things.actions,
    "stories/{}": things.stories,
    "stories/{}/reviews": things.stories,
    "stories?world_id={}": things.worlds,
    "feedback/{}": things.feedback,
}
PLAIN = ("auth/me", "heartbeat", "notifications", "proposals", "worlds", "stories", "feedback")
PAGES = st.one_of(
    *(st.tuples(st.just(path), found) for path, found in PAGES_OF.items()),
    *[st.tuples(st.sampled_from(PLAIN), st.just(""))] * 5,
)

_NEWEST = "order by created_at desc, id limit 100"
_OLDEST = "order by created_at, id limit 100"
LISTS = {
    "proposals?limit=100": f"select id from proposals {_NEWEST}",
    "proposals?status=validating&limit=100": (
        f"select id from proposals where status = 'validating' {_NEWEST}"
    ),
    "worlds?limit=100": f"select id from worlds {_NEWEST}",
    "stories?limit=100": f"select id from stories {_NEWEST}",
    "stories?world_id={worlds}&limit=100": (
        f"select id from stories where world_id = '{{worlds}}' {_NEWEST}"
    ),
    "feedback?limit=100": (
        "select id from feedback order by upvote_count desc, created_at, id limit 100"
    ),
    "feedback?status=resolved&limit=100": (
        "select id from feedback where status = 'resolved'"
        " order by upvote_count desc, created_at, id limit 100"
    ),
    "worlds/{worlds}/comments?limit=100": (
        f"select id from comments where world_id = '{{worlds}}' {_OLDEST}"
    ),
    "aspects/worlds/{worlds}/aspects?limit=100": (
        f"select id from aspects where world_id = '{{worlds}}' {_NEWEST}"
    ),
    "events/worlds/{worlds}/events?limit=100": (
        "select id from world_events where world_id = '{worlds}'"
        " order by year_in_world, created_at, id limit 100"
    ),
    "dweller-proposals/worlds/{worlds}?limit=100": (
        f"select id from dweller_proposals where world_id = '{{worlds}}' {_NEWEST}"
    ),
    "dwellers/worlds/{worlds}/dwellers?limit=100": (
        f"select id from dwellers where world_id = '{{worlds}}' {_OLDEST}"
    ),
    "proposals/{proposals}/validations": (
        f"select id from validations where proposal_id = '{{proposals}}' {_OLDEST}"
    ),
    "stories/{stories}/reviews": (
        f"select id from story_reviews where story_id = '{{stories}}' {_OLDEST}"
    ),
    "suggestions/on/proposal/{proposals}": (
        f"select id from revision_suggestions where target_id = '{{proposals}}' {_OLDEST}"
    ),
    "suggestions/on/aspect/{aspects}": (
        f"select id from revision_suggestions where target_id = '{{aspects}}' {_OLDEST}"
    ),
}
"""Pages that are lists, and what must be in them, in this order."""
LISTS_READ = 4
OWNERS = ("worlds", "proposals", "stories", "aspects")
REVIEWED = """select (select count(*) from review_feedback where content_id = p.id),
    (select count(*) from feedback_items i join review_feedback r on r.id = i.review_id
     where r.content_id = p.id and i.status in ('open', 'addressed')), p.id::text
    from proposals p where review_system = 'review' order by p.id"""
UNREAD = """select count(*) from notifications
    where user_id = $1::text::uuid and read_at is null"""

KINDS = {
    "key_id": "api_keys",
    "notification_id": "notifications",
    "proposal_id": "proposals",
    "content_id": "proposals",
    "target_id": "proposals",
    "item_id": "feedback_items",
    "suggestion_id": "revision_suggestions",
    "world_id": "worlds",
    "aspect_id": "aspects",
    "event_id": "world_events",
    "dweller_id": "dwellers",
    "action_id": "dweller_actions",
    "story_id": "stories",
    "review_id": "story_reviews",
    "feedback_id": "feedback",
}
FILLED = {name: scenery.identity(kind, 2 - (kind == "worlds")) for name, kind in KINDS.items()}
FILLED |= {"content_type": "proposal", "target_type": "proposal"}
DOORS = [
    (method.upper(), path.format(**FILLED))
    for path, methods in APP.openapi()["paths"].items()
    for method in methods
    if method != "get" and path != "/api/auth/agent"
]
"""All operations that change something; registration is for everybody."""
OFFICES = [door for door in DOORS if "/admin/" in door[1] or door[0] == "PATCH"]
OFFICES.append(("GET", "/api/admin/stats"))
"""What only administrators may do."""
DOORS_TRIED = 8
OFFICES_TRIED = 2
LATE_S = 40
"""So late nothing comes any more that was sent twice."""
EVERYTHING = " union all ".join(
    f"select '{table}', md5(coalesce(string_agg(t::text, '|' order by t::text), '')) from {table} t"
    for table in Base.metadata.tables
)


class Pages(Told, Promises, Callbacks):
    """What readers see, and what strangers may do."""

    @foretold.rule(page=PAGES)
    async def browse(self, actor: Any, page: tuple[str, str]) -> None:
        """Any page; the mirrors compare what it says."""
        path, thing = page
        said = await self.get(actor, path.format(thing))
        if path == "auth/me":
            mine = said["id"] == actor.agent.id
            foretold.always(mine, "agents are told who they are", agent=actor.agent.id, told=said)

    @foretold.invariant(when="end")
    async def pages_leave_nothing_out(self) -> int:
        """A list shows what there is, in its order."""
        reader: Any = self.cast[0]
        there = {kind: self._ids(f"select id from {kind} order by id") for kind in OWNERS}
        about = {kind: foretold.choose(ids, kind) for kind, ids in there.items()}
        total = 0
        for _ in range(LISTS_READ):
            page = foretold.choose(tuple(LISTS), "page")
            path, due = page.format(**about), self._ids(LISTS[page].format(**about))
            shown = [row["id"] for row in await self._patient(reader, path)]
            assert shown == due, f"GET {path} shows {shown}, and there are {due}"
            total += len(due)
        return total

    @foretold.invariant(when="end")
    async def pages_count_right(self) -> int:
        """The administrator's numbers, what is unread, and how far a review is."""
        reader: Any = self.cast[0]
        counts = await self.patiently(lambda: self.admin(reader, "GET", "admin/stats"))
        stored = {name: self.pg.sql(f"select count(*) from {name}")[0][0] for name in counts}
        assert counts == stored, f"the administrator is told {counts}, and there are {stored}"
        unread = (await self._patient(reader, "notifications"))["count"]
        due = self.pg.sql(UNREAD, reader.agent.id)[0][0]
        assert unread == min(due, 50), f"{due} notifications are unread, and the page says {unread}"
        reviewers, wishes, key = foretold.choose(self.pg.sql(REVIEWED), "reviewed")
        page = await self._patient(reader, f"review/proposal/{key}/status")
        said = (page["reviewers"], page["open_items"])
        assert said == (reviewers, wishes), f"review of {key}: {said}, and {reviewers, wishes}"
        return len(counts)

    @foretold.invariant(when="end")
    async def who_has_no_key_changes_nothing(self) -> int:
        """Every door is closed to who has no key: 401, and no row is another. So are those of the
        administrators to agents: 403."""
        await self.world.clock.advance(LATE_S)
        await self.all_posted()
        rows = self.pg.sql(EVERYTHING)
        for _ in range(DOORS_TRIED):
            rows = await self._try_door(foretold.choose(DOORS, "door"), "", 401, rows)
        agent: Any = self.cast[0]
        for _ in range(OFFICES_TRIED):
            office = foretold.choose(OFFICES, "office")
            rows = await self._try_door(office, agent.agent.key, 403, rows)
        return DOORS_TRIED + OFFICES_TRIED

    async def _try_door(self, door: tuple[str, str], key: str, expected: int, before: Any) -> Any:
        """What is there afterwards: the same as before, or it fails."""
        method, path = door
        stranger, headers = self.cast[0], {"x-api-key": key}
        answer = await self.patiently(lambda: self.send(stranger, method, path, {}, **headers))
        code, after = answer.status_code, self.pg.sql(EVERYTHING)
        who = "an agent's key" if key else "no key"
        assert code == expected, f"{method} {path} with {who}: {code} instead of {expected}"
        changed = [was[0] for was, now in zip(before, after, strict=True) if was[1] != now[1]]
        assert not changed, f"{method} {path} with {who} gives {code} and changes {changed}"
        return after

    def _ids(self, query: str) -> list[str]:
        return [str(row[0]) for row in self.pg.sql(query)]

    async def _patient(self, reader: Any, path: str) -> Any:
        return await self.patiently(lambda: self.get(reader, path))
