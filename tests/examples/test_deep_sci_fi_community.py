"""Deep Sci-Fi without any bug, second half: what agents say about worlds and each other's work."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import foretold
from tests.examples import deep_sci_fi as dsf
from tests.examples.deep_sci_fi import Platform, on_platform


@on_platform
async def test_events(platform: Platform) -> None:
    """Proposed by one, decided by another; the canon follows."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    path = f"events/worlds/{world}/events"
    assert await ada.code(path, dsf.event(year_in_world=2029)) == 400
    assert await ada.code(path, dsf.event(year_in_world=2111)) == 400
    assert await ada.code(path, dsf.event(title="Why")) == 422
    event = (await ada.post(path, dsf.event(year_in_world=2110)))["id"]
    assert await ada.code(f"events/{event}/approve", dsf.CANON) == 400
    assert await bob.code(f"events/{event}/approve", {"canon_update": "short"}) == 422
    canon = {"canon_update": dsf.WORDS + "Now flooded."}
    assert (await bob.post(f"events/{event}/approve", canon))["status"] == "approved"
    assert await cyd.code(f"events/{event}/reject", {"reason": dsf.WORDS}) == 400
    assert (await ada.get(f"worlds/{world}"))["canon_summary"] == canon["canon_update"]
    other = (await ada.post(path, dsf.event(title="A drought")))["id"]
    assert await ada.code(f"events/{other}/reject", {"reason": dsf.WORDS}) == 400
    await bob.post(f"events/{other}/reject", {"reason": dsf.WORDS})
    assert (await ada.get(f"events/{other}"))["decided_by"] == bob.id
    assert [e["year_in_world"] for e in await ada.get(path)] == [2095, 2110]


@on_platform
async def test_composed_actions(platform: Platform) -> None:
    """Who composes too soon waits longer each time, and the wait is remembered."""
    ada, bob, cyd = await platform.cast(3)
    ann = await platform.inhabited(await platform.approved(ada, bob, cyd), ada)
    token = (await ada.post(f"dwellers/{ann}/act/context"))["context_token"]

    async def compose(text: str) -> Any:
        wish = {"dweller_id": ann, "action": dsf.action(token, content=text)}
        return await ada.send("POST", "actions/compose", wish)

    assert (await compose("one")).status_code == 201
    waits = [(await compose("two")).headers["retry-after"] for _ in range(5)]
    assert waits == ["2", "4", "8", "16", "16"]
    await asyncio.sleep(17)
    assert (await compose("two")).status_code == 201
    theirs = {"dweller_id": ann, "action": dsf.action(token)}
    assert await bob.code("actions/compose", theirs) == 403


@on_platform
async def test_stories(platform: Platform) -> None:
    """Reviewed, answered, revised, acclaimed; unanswered reviews stop new stories."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    ann = await dsf.settled(world, ada)
    told = dsf.story(world, perspective="third_person_limited")
    assert await ada.code("stories", told) == 400
    assert await ada.code("stories", dsf.story(world, content="x" * 99)) == 422
    story = (await ada.post("stories", {**told, "dweller_id": ann}))["id"]
    again = await ada.send("POST", "stories", {**told, "dweller_id": ann})
    assert (again.status_code, again.json()["id"]) == (200, story)
    path = f"stories/{story}"
    assert await ada.code(f"{path}/review", dsf.story_review()) == 400
    first = (await bob.post(f"{path}/review", dsf.story_review()))["review"]["id"]
    assert await bob.code(f"{path}/review", dsf.story_review()) == 409
    assert await ada.code("stories", dsf.story(world, title="The sequel")) == 428
    second = (await cyd.post(f"{path}/review", dsf.story_review()))["review"]["id"]
    assert await bob.code(f"{path}/reviews/{first}/respond", dsf.REPLY) == 403
    await ada.post(f"{path}/reviews/{first}/respond", dsf.REPLY)
    assert await ada.code(f"{path}/reviews/{first}/respond", dsf.REPLY) == 409
    assert await bob.code(f"{path}/revise", {"title": "Not yours"}) == 403
    assert (await ada.post(f"{path}/revise", {"title": "With the stream"}))["status"] == "published"
    last = await ada.post(f"{path}/reviews/{second}/respond", dsf.REPLY)
    assert last["story_status"] == "acclaimed"
    assert (await bob.post(f"{path}/react", {}))["count"] == 1
    assert (await bob.post(f"{path}/react", {})) == {"reacted": False, "count": 0}
    await ada.post("stories", dsf.story(world, title="The sequel"))
    assert len(await platform.public.get(f"stories?world_id={world}")) == 2
    assert len(await platform.public.get(f"{path}/reviews")) == 2


@on_platform
async def test_suggestions(platform: Platform) -> None:
    """The owner first; after four hours the crowd, with three upvotes."""
    ada, bob, cyd, dan, eva = await platform.cast(5)
    proposal = await dsf.submitted(ada)
    path = f"suggestions/on/proposal/{proposal}"
    better = dsf.WORDS + "Better."
    wish = {"field": "premise", "suggested_value": better, "rationale": dsf.WORDS}
    assert await ada.code(path, wish) == 400
    assert await bob.code(path, {**wish, "field": "status"}) == 400
    assert await bob.code(path, {**wish, "suggested_value": "short"}) == 400
    one = (await bob.post(path, wish))["id"]
    assert await bob.code(path, wish) == 429
    assert await cyd.code(f"suggestions/{one}/accept") == 403
    await ada.post(f"suggestions/{one}/accept")
    assert await bob.code(f"suggestions/{one}/withdraw") == 400
    shown = await ada.get(f"proposals/{proposal}")
    assert (shown["premise"], shown["revision_count"]) == (better, 1)
    two = (await bob.post(path, {**wish, "suggested_value": better + "!"}))["id"]
    assert await bob.code(f"suggestions/{two}/upvote") == 400
    for fan in (cyd, dan):
        await fan.post(f"suggestions/{two}/upvote")
    assert await dan.code(f"suggestions/{two}/upvote") == 400
    platform.later(hours=4, minutes=1)
    assert await cyd.code(f"suggestions/{two}/accept") == 403
    await eva.post(f"suggestions/{two}/upvote")
    assert (await cyd.post(f"suggestions/{two}/accept"))["status"] == "accepted"
    three = (await bob.post(path, {**wish, "field": "image_prompt"}))["id"]
    assert await bob.code(f"suggestions/{three}/reject") == 403
    await ada.post(f"suggestions/{three}/reject")
    four = (await bob.post(path, {**wish, "field": "scientific_basis"}))["id"]
    assert await cyd.code(f"suggestions/{four}/withdraw") == 403
    await bob.post(f"suggestions/{four}/withdraw")
    statuses = [suggestion["status"] for suggestion in await ada.get(path)]
    assert statuses == ["accepted", "accepted", "rejected", "withdrawn"]


@on_platform
async def test_feedback(platform: Platform) -> None:
    """Upvotes once and not one's own; administrators lead it forward, to an end."""
    ada, bob, cyd = await platform.cast(3)
    feedback = (await ada.post("feedback", dsf.feedback()))["id"]
    assert await ada.code("feedback", dsf.feedback()) == 429
    assert await ada.code(f"feedback/{feedback}/upvote") == 400
    for fan in (bob, cyd):
        await fan.post(f"feedback/{feedback}/upvote")
    assert await cyd.code(f"feedback/{feedback}/upvote") == 400
    shown = await platform.public.get(f"feedback/{feedback}")
    assert (shown["upvote_count"], shown["upvoters"]) == (2, [bob.id, cyd.id])
    path = f"feedback/{feedback}/status"

    async def decide(who: dsf.Agent, status: str, notes: str | None = None) -> int:
        return await who.code(path, {"status": status, "resolution_notes": notes}, "PATCH")

    assert await decide(platform.public, "acknowledged") == 401
    assert await decide(ada, "acknowledged") == 403
    assert await decide(platform.admin, "acknowledged") == 200
    assert await decide(platform.admin, "new") == 400
    assert await decide(platform.admin, "resolved") == 400
    assert await decide(platform.admin, "resolved", dsf.WORDS) == 200
    for status in ("new", "in_progress", "wont_fix"):
        assert await decide(platform.admin, status, dsf.WORDS) == 400
    assert await bob.code(f"feedback/{feedback}/upvote") == 400
    assert len(await platform.public.get("feedback?status=resolved")) == 1
    assert (await platform.admin.get("admin/stats"))["feedback"] == 1
    assert await ada.code("admin/stats", method="GET") == 403


@on_platform
async def test_critical_review(platform: Platform) -> None:
    """Blind until one has reviewed; a world when two reviewers have nothing left to wish."""
    ada, bob, cyd, dan = await platform.cast(4)
    proposal = await dsf.submitted(ada, review_system="review")
    assert await bob.code(f"proposals/{proposal}/validate", dsf.vote()) == 400
    path = f"review/proposal/{proposal}"
    assert await ada.code(f"{path}/feedback", dsf.review()) == 400
    assert await bob.code(f"{path}/feedback", {"items": []}) == 422
    assert await bob.code(f"{path}/add-feedback", dsf.review()) == 400
    one = (await bob.post(f"{path}/feedback", dsf.review(2)))["items"]
    assert await bob.code(f"{path}/feedback", dsf.review()) == 409
    assert (await cyd.get(f"{path}/feedback")) == {"reviews": [], "blind": True}
    two = (await cyd.post(f"{path}/feedback", dsf.review()))["items"]
    for reader, seen in ((ada, 2), (bob, 2), (cyd, 2), (dan, 0), (platform.public, 2)):
        assert len((await reader.get(f"{path}/feedback"))["reviews"]) == seen
    items = [f"review/feedback-item/{item['id']}" for item in one + two]
    assert await bob.code(f"{items[0]}/resolve") == 400
    assert await bob.code(f"{items[0]}/respond", dsf.REPLY) == 403
    for item in items:
        await ada.post(f"{item}/respond", dsf.REPLY)
    assert await ada.code(f"{items[0]}/respond", dsf.REPLY) == 409
    await ada.post(f"proposals/{proposal}/revise", {"premise": dsf.WORDS + "Better."})
    assert await cyd.code(f"{items[0]}/resolve") == 403
    await bob.post(f"{items[0]}/resolve")
    assert (await bob.post(f"{items[0]}/reopen", dsf.REPLY))["item"]["status"] == "open"
    assert (await ada.get(f"{path}/status"))["open_items"] == 3
    await ada.post(f"{items[0]}/respond", {**dsf.REPLY, "dispute": True})
    await cyd.post(f"{items[2]}/resolve")
    done = await bob.post(f"{items[1]}/resolve")
    assert done["content_status"] == "approved"
    assert (await ada.get(f"worlds/{done['world_id']}"))["proposal_id"] == proposal
    assert await bob.code(f"{items[1]}/reopen", dsf.REPLY) == 400
    assert await dan.code(f"{path}/feedback", dsf.review()) == 400


@on_platform
async def test_reviews_of_stories(platform: Platform) -> None:
    """Their authors own them: they cannot review them, see all, and answer."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    story = (await ada.post("stories", dsf.story(world)))["id"]
    path = f"review/story/{story}/feedback"
    assert await ada.code(path, dsf.review()) == 400
    item = (await bob.post(path, dsf.review()))["items"][0]["id"]
    assert len((await ada.get(path))["reviews"]) == 1
    assert (await ada.post(f"review/feedback-item/{item}/respond", dsf.REPLY))["world_id"] is None


@on_platform
async def test_worlds_are_followed_and_talked_about(platform: Platform) -> None:
    """Counters agree with what is counted, also when several agents come at once."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    reaction = {"target_type": "world", "target_id": world, "kind": "mind"}
    for path, body in (("reactions", reaction), (f"worlds/{world}/follow", None)):
        await foretold.together(*(agent.post(path, body) for agent in (ada, bob, cyd)))
        await ada.post(path, body)
    words = {"text": "How do boats go down?"}
    await foretold.together(*(a.post(f"worlds/{world}/comments", words) for a in (ada, bob)))
    shown = await platform.public.get(f"worlds/{world}")
    assert (shown["reaction_counts"], shown["follower_count"]) == ({"mind": 2}, 2)
    assert shown["comment_count"] == len(await ada.get(f"worlds/{world}/comments")) == 2
    assert platform.pg.sql("SELECT count(*) FROM social_interactions")[0][0] == 4


@on_platform
async def test_the_feed(platform: Platform) -> None:
    """Newest first; page after page each entry once, whatever the size of a page."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    for name in ("Ann", "Ben", "Cay", "Dee"):
        await dsf.settled(world, ada, name)
    for limit in (1, 2, 5):
        pages, path = [], f"/api/feed?limit={limit}"
        while path:
            page = await platform.public.get(path)
            pages += page["entries"]
            path = page["next"]
        assert [entry["headline"].split()[0] for entry in pages] == [
            "Dee",
            "Cay",
            "Ben",
            "Ann",
            "A",
        ]
    assert await platform.public.code("feed?cursor=nonsense", method="GET") == 400


@on_platform
async def test_idempotency_keys(platform: Platform) -> None:
    """One effect and one answer for each key of each agent, also if both requests are at once."""
    ada, bob = await platform.cast(2)
    key = {"idempotency-key": str(uuid.uuid4())}
    first = await ada.send("POST", "feedback", dsf.feedback(), **key)
    again = await ada.send("POST", "feedback", dsf.feedback(), **key)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    other = await ada.send("POST", "feedback", dsf.feedback("Other title"), **key)
    assert other.status_code == 422
    assert (await bob.send("POST", "feedback", dsf.feedback(), **key)).status_code == 201
    bad = {"idempotency-key": "not a uuid"}
    assert (await ada.send("POST", "feedback", dsf.feedback(), **bad)).status_code == 400
    assert (await platform.public.send("POST", "feedback", {}, **key)).status_code == 401
    wish, new = dsf.feedback("Twice at once"), {"idempotency-key": str(uuid.uuid4())}
    both = await foretold.together(*(ada.send("POST", "feedback", wish, **new) for _ in "ab"))
    assert {answer.status_code for answer in both} <= {201, 409}
    assert platform.pg.sql("SELECT count(*) FROM feedback")[0][0] == 3


@on_platform
async def test_a_refused_request_may_be_repeated(platform: Platform) -> None:
    """A refusal is not kept under the key: what was wrong may have changed."""
    ada = await platform.agent()
    draft = (await ada.post("proposals", dsf.proposal()))["id"]
    await ada.post("heartbeat", {})
    platform.later(hours=25)
    key = {"idempotency-key": str(uuid.uuid4())}
    assert (await ada.send("POST", f"proposals/{draft}/submit", **key)).status_code == 403
    await ada.post("heartbeat", {})
    assert (await ada.send("POST", f"proposals/{draft}/submit", **key)).status_code == 200


@on_platform
async def test_a_database_that_fails(platform: Platform) -> None:
    """Whatever happens to the connection, the answer is 503, and nothing is done halfway."""
    ada = await platform.agent()
    faults = ["cancelled", "serialization", "deadlock", "lost_before", "lost_after"]
    faults += ["lost_before_commit", "lost_after_commit", "too_many_connections", "restart"]
    for number, fault in enumerate(faults):
        platform.pg.fail_next(fault)
        wish = dsf.feedback(f"Title {number}")
        key = {"idempotency-key": str(uuid.uuid4())}
        codes: list[int] = []
        while not codes or codes[-1] == 503:
            await asyncio.sleep(1)
            codes.append((await ada.send("POST", "feedback", wish, **key)).status_code)
        assert codes[-1] == 201, (fault, codes)
    assert platform.pg.sql("SELECT count(*) FROM feedback")[0][0] == len(faults)


def test_the_public_changes_nothing() -> None:
    """Every endpoint that changes something refuses whoever has no key, before anything else."""
    paths = dsf.application().openapi()["paths"]
    writing = [
        (method, path)
        for path, operations in paths.items()
        for method in operations
        if method != "get" and path != "/api/auth/agent"
    ]
    assert len(writing) > 45

    async def main(world: foretold.World) -> None:
        platform = await dsf.start(world)
        async with platform.client:
            for method, path in writing:
                words = {"target_type": "proposal", "content_type": "proposal"}
                for name in path.split("{")[1:]:
                    words.setdefault(name.split("}")[0], str(uuid.uuid4()))
                code = await platform.public.code(path.format(**words), {}, method.upper())
                assert code == 401, (method, path, code)

    foretold.run(main, seed=0)
