"""Deep Sci-Fi, what is easily forgotten: who was here, what was sent again, what a page without a
parent says, what the document tells."""

from __future__ import annotations

import re
import uuid
from typing import Any

from tests.examples import deep_sci_fi as dsf
from tests.examples.deep_sci_fi import Platform, on_platform

NOBODY = "00000000-0000-4000-8000-000000000000"


# --- who was here --------------------------------------------------------------------------------


def seen(platform: Platform, agent: dsf.Agent) -> tuple[Any, Any]:
    """When the agent was last active, and its key last used."""
    find = f"""SELECT last_active_at, last_used_at FROM users JOIN api_keys ON user_id = users.id
               WHERE users.id = '{agent.id}'"""
    (found,) = platform.pg.sql(find)
    return tuple(found)


@on_platform
async def test_every_call_of_an_agent_is_noted(platform: Platform) -> None:
    """Also one that is refused, cannot be read, or was answered before; others' calls are not."""
    ada, bob = await platform.cast(2)
    key = {"idempotency-key": str(uuid.uuid4())}
    await ada.send("POST", "feedback", dsf.feedback(), **key)
    await bob.post("heartbeat", {})
    calls: list[tuple[int, str, str, Any, dict[str, str]]] = [
        (200, "GET", "auth/me", None, {}),
        (404, "POST", f"proposals/{NOBODY}/submit", None, {}),
        (422, "POST", "proposals", {}, {}),
        (429, "POST", "feedback", dsf.feedback(), {}),
        (201, "POST", "feedback", dsf.feedback(), key),
    ]
    untouched = seen(platform, bob)
    for code, method, path, body, headers in calls:
        before = seen(platform, ada)
        platform.later(seconds=1)
        assert (await ada.send(method, path, body, **headers)).status_code == code
        assert all(new > old for new, old in zip(seen(platform, ada), before, strict=True)), path
    assert seen(platform, bob) == untouched


@on_platform
async def test_a_refusal_counts_also_if_it_cannot_be_noted(platform: Platform) -> None:
    """The only commit of a refused request is its note. If it fails the answer is as it was, and
    nothing of the request is left."""
    ada = await platform.agent()
    platform.later(seconds=1)
    platform.pg.fail_next("lost_before_commit")
    assert await ada.code(f"proposals/{NOBODY}/submit") == 404
    assert seen(platform, ada) == (None, None)
    assert await ada.code(f"proposals/{NOBODY}/submit") == 404
    assert None not in seen(platform, ada)
    assert platform.pg.sql("SELECT count(*) FROM proposals")[0][0] == 0


@on_platform
async def test_administrators_have_idempotency_keys(platform: Platform) -> None:
    """PATCH, too: the same again is answered the same, though it would not be allowed twice."""
    ada = await platform.agent()
    path = f"feedback/{(await ada.post('feedback', dsf.feedback()))['id']}/status"
    ends = {"status": "resolved", "resolution_notes": dsf.WORDS}
    key = {"idempotency-key": str(uuid.uuid4())}
    first, again = [await platform.admin.send("PATCH", path, ends, **key) for _ in "ab"]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    assert await platform.admin.code(path, ends, "PATCH") == 400
    other = {**ends, "status": "wont_fix"}
    assert (await platform.admin.send("PATCH", path, other, **key)).status_code == 422
    bad = {"idempotency-key": "no uuid"}
    assert (await platform.admin.send("PATCH", path, ends, **bad)).status_code == 400
    told = [news["kind"] for news in (await ada.get("notifications"))["notifications"]]
    assert told == ["feedback_status"]


# --- what is kept --------------------------------------------------------------------------------


@on_platform
async def test_a_world_has_all_that_its_proposal_had(platform: Platform) -> None:
    """The prompt of its image and its citations are copied and shown as well."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd, citations=["A book", "A letter"])
    shown = await platform.public.get(f"worlds/{world}")
    proposal = await platform.public.get(f"proposals/{shown['proposal_id']}")
    for name in ("premise", "scientific_basis", "image_prompt", "citations"):
        assert shown[name] == proposal[name], name
    assert shown["citations"] == ["A book", "A letter"]


@on_platform
async def test_where_to_call_an_agent(platform: Platform) -> None:
    """Address and token are kept; the token is shown to nobody."""
    there = {"callback_url": "https://ada.example/", "callback_token": "open sesame"}
    wish = {"name": "Ada", "username": "ada", **there}
    answer = await platform.public.send("POST", "auth/agent", wish)
    assert answer.status_code == 201
    assert "sesame" not in answer.text
    (kept,) = platform.pg.sql("SELECT callback_url, callback_token FROM users")
    assert tuple(kept) == tuple(there.values())


@on_platform
async def test_only_what_has_ended_has_a_resolution(platform: Platform) -> None:
    """Notes come with the end of feedback, neither before it nor without it."""
    ada = await platform.agent()
    path = f"feedback/{(await ada.post('feedback', dsf.feedback()))['id']}/status"
    for status in ("acknowledged", "in_progress"):
        noted = {"status": status, "resolution_notes": dsf.WORDS}
        assert await platform.admin.code(path, noted, "PATCH") == 400
        assert await platform.admin.code(path, {"status": status}, "PATCH") == 200
    ends = {"status": "wont_fix", "resolution_notes": dsf.WORDS}
    assert await platform.admin.code(path, ends, "PATCH") == 200


# --- pages ---------------------------------------------------------------------------------------

UNDER = (
    "aspects/worlds/{}/aspects",
    "dwellers/worlds/{}/dwellers",
    "events/worlds/{}/events",
    "dweller-proposals/worlds/{}",
    "worlds/{}/comments",
    "proposals/{}/validations",
    "stories/{}/reviews",
    "suggestions/on/proposal/{}",
    "suggestions/on/aspect/{}",
)


@on_platform
async def test_what_is_not_there_has_no_lists(platform: Platform) -> None:
    """404, not an empty list, which would say that the parent is there and has nothing."""
    codes = {p: await platform.public.code(p.format(NOBODY), method="GET") for p in UNDER}
    assert set(codes.values()) == {404}, codes
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    for path in UNDER[:5]:
        assert await platform.public.get(path.format(world)) == []
    missing = await platform.public.send("GET", f"dweller-proposals/{NOBODY}")
    assert missing.json()["detail"] == f"there is no dweller proposal {NOBODY}"


@on_platform
async def test_actions_are_composed_under_two_names(platform: Platform) -> None:
    """`POST /api/actions` and `…/compose` are one: who used either waits before using the other."""
    ada, bob, cyd = await platform.cast(3)
    ann = await platform.inhabited(await platform.approved(ada, bob, cyd), ada)
    token = (await ada.post(f"dwellers/{ann}/act/context"))["context_token"]
    wish = {"dweller_id": ann, "action": dsf.action(token)}
    assert (await ada.post("actions", wish))["action"]["dweller_id"] == ann
    more = {"dweller_id": ann, "action": dsf.action(token, content="Sail")}
    assert [await ada.code(path, more) for path in ("actions", "actions/compose")] == [429, 429]
    assert await platform.public.code("actions", wish) == 401


# --- the document --------------------------------------------------------------------------------


def operations() -> dict[tuple[str, str], dsf.Json]:
    """All that the document describes."""
    paths = dsf.application().openapi()["paths"]
    return {(method, path): what for path, ops in paths.items() for method, what in ops.items()}


def test_the_document_says_who_needs_a_key() -> None:
    """Then /docs has an Authorize button: two schemes, for all that changes something except a
    registration, and for pages of one's own. Reviews can be read without."""
    document = dsf.application().openapi()
    schemes = document["components"]["securitySchemes"]
    assert {scheme["type"] for scheme in schemes.values()} == {"apiKey", "http"}
    assert all(re.fullmatch(r"[\w.-]+", name) for name in schemes)
    either: list[dsf.Json] = [{name: []} for name in schemes]
    for (method, path), operation in operations().items():
        names = [parameter["name"] for parameter in operation.get("parameters", [])]
        assert not {"x-api-key", "authorization"} & {name.lower() for name in names}
        free = path == "/api/auth/agent"
        assert ("Idempotency-Key" in names) == (method != "get" and not free), path
        if method != "get":
            assert operation.get("security") == (None if free else either), path
    assert operations()["get", "/api/auth/me"]["security"] == either
    reading = operations()["get", "/api/review/{content_type}/{content_id}/feedback"]
    assert reading["security"] == [*either, {}]
    assert "security" not in operations()["get", "/api/worlds"]


def test_the_document_says_how_requests_are_refused() -> None:
    """A key, a missing row, a conflict, a limit, a database that is away; and once only, however
    often the document is asked for."""
    for (_, path), operation in operations().items():
        codes = set(operation["responses"])
        assert "503" in codes, path
        assert ("security" in operation) <= ("401" in codes), path
        assert ("{" in path) <= ("404" in codes), path
    told = operations()["post", "/api/dwellers/{dweller_id}/act"]["responses"]
    refusals = {"400", "401", "403", "404", "409", "422", "428", "429", "503"}
    assert set(told) == {"201", "202"} | refusals
    assert set(operations()["post", "/api/stories"]["responses"]) == {"200", "201"} | refusals
    assert dsf.application().openapi() is dsf.application().openapi()
