"""For each switch of Deep Sci-Fi a scene that it spoils: the shortest one in which it shows.

A scene says what must hold with `foretold.always`. It holds without bugs, whatever the order.
"""

from __future__ import annotations

import uuid
from typing import Any

from foretold import always, together
from tests.examples import deep_sci_fi as dsf
from tests.examples.deep_sci_fi import Agent, Platform


def count(platform: Platform, table: str, condition: str = "true") -> int:
    """How many such rows there are."""
    number: int = platform.pg.sql(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0]
    return number


async def world_of(platform: Platform, agents: int = 3) -> tuple[str, list[Agent]]:
    """A world, and agents."""
    agents_there = await platform.cast(agents)
    return await platform.approved(*agents_there[:3]), agents_there


async def graduation_without_lock(platform: Platform) -> None:
    """Two reviewers are content at the same time."""
    ada, bob, cyd = await platform.cast(3)
    proposal = await dsf.submitted(ada, review_system="review")
    path = f"review/proposal/{proposal}/feedback"
    reviews = [await reviewer.post(path, dsf.review()) for reviewer in (bob, cyd)]
    await ada.post(f"proposals/{proposal}/revise", {"premise": dsf.WORDS + "Better."})
    items = [f"review/feedback-item/{review['items'][0]['id']}/resolve" for review in reviews]
    await together(bob.post(items[0]), cyd.post(items[1]))
    worlds = count(platform, "worlds")
    always(worlds == 1, "a reviewed proposal becomes one world", worlds=worlds)


async def world_id_before_flush(platform: Platform) -> None:
    """A proposal is approved."""
    ada, bob, cyd = await platform.cast(3)
    proposal = await dsf.submitted(ada)
    for voter in (bob, cyd):
        await voter.post(f"proposals/{proposal}/validate", dsf.vote())
    shown = await ada.get(f"proposals/{proposal}")
    always(shown["resulting_world_id"] is not None, "an approved proposal knows its world")


async def memories_mutated_in_place(platform: Platform) -> None:
    """Two notes about one person."""
    world, (ada, *_) = await world_of(platform)
    ann = await platform.inhabited(world, ada)
    for number in range(2):
        note = {"about": "Ben", "note": f"We have met {number}"}
        await ada.post(f"dwellers/{ann}/memory/relationship", note)
    notes = (await ada.get(f"dwellers/{ann}/memory"))["relationship_memories"]["Ben"]
    always(len(notes) == 2, "a memory loses no note", notes=notes)


async def limits_count_then_insert(platform: Platform) -> None:
    """One agent sends its third and fourth proposal at the same time."""
    ada = await platform.agent()
    for name in ("one", "two"):
        await ada.post("proposals", dsf.proposal(name))
    await together(*(ada.code("proposals", dsf.proposal(name)) for name in ("three", "four")))
    proposals = count(platform, "proposals")
    always(proposals == 3, "an agent has three open proposals at most", proposals=proposals)


async def reactions_without_unique(platform: Platform) -> None:
    """Three agents react to one world."""
    world, agents = await world_of(platform)
    wish = {"target_type": "world", "target_id": world, "kind": "fire"}
    await together(*(agent.post("reactions", wish) for agent in agents))
    counts = (await agents[0].get(f"worlds/{world}"))["reaction_counts"]
    rows = count(platform, "social_interactions")
    always(counts["fire"] == rows, "reactions are counted", counted=counts, reactions=rows)


async def third_registration_fails(platform: Platform) -> None:
    """An agent forgets its key twice."""
    wish = {"name": "Ada", "username": "ada", "model_id": "m1"}
    codes = [await platform.public.code("auth/agent", wish) for _ in range(3)]
    always(codes == [201] * 3, "everybody can register", codes=codes)


async def idempotency_runs_twice(platform: Platform) -> None:
    """The same request at the same time."""
    ada = await platform.agent()
    key = {"idempotency-key": str(uuid.uuid4())}
    await together(*(ada.send("POST", "auth/keys", {}, **key) for _ in range(2)))
    keys = count(platform, "api_keys")
    always(keys == 2, "one request under one key is done once", keys=keys)


async def idempotency_key_unscoped(platform: Platform) -> None:
    """Two agents happen to use the same key."""
    ada, bob = await platform.cast(2)
    key = {"idempotency-key": str(uuid.uuid4())}
    for agent in (ada, bob):
        answer = await agent.post("feedback", dsf.feedback(), **key)
        always(answer["agent_id"] == agent.id, "nobody gets another's answer")


async def escalate_unlocked(platform: Platform) -> None:
    """Two agents escalate one action."""
    world, (ada, bob, cyd) = await world_of(platform)
    deed = await dsf.acted(ada, await platform.inhabited(world, ada), importance=0.9)
    path = f"actions/{deed['id']}"
    await bob.post(f"{path}/confirm-importance", dsf.CONFIRMATION)
    await together(*(agent.code(f"{path}/escalate", dsf.event()) for agent in (bob, cyd)))
    events = count(platform, "world_events")
    always(events == 1, "an action becomes one event", events=events)
    always(await ada.code(path, method="GET") == 200, "its page can be read")


async def release_claim_race(platform: Platform) -> None:
    """One leaves while the other moves in."""
    world, (ada, bob, _) = await world_of(platform)
    ann = await platform.inhabited(world, ada)
    codes = await together(ada.code(f"dwellers/{ann}/release"), bob.code(f"dwellers/{ann}/claim"))
    holder = (await ada.get(f"dwellers/{ann}"))["inhabited_by"]
    expected = bob.id if codes[1] == 200 else None
    always(holder == expected, "who has claimed a dweller has it", codes=codes, holder=holder)


async def withdraw_accept_race(platform: Platform) -> None:
    """The suggester has second thoughts while the owner agrees."""
    ada, bob = await platform.cast(2)
    proposal = await dsf.submitted(ada)
    words = {"suggested_value": dsf.WORDS + "Better.", "rationale": dsf.WORDS}
    path = f"suggestions/on/proposal/{proposal}"
    one = (await bob.post(path, {"field": "premise", **words}))["id"]
    codes = await together(
        bob.code(f"suggestions/{one}/withdraw"), ada.code(f"suggestions/{one}/accept")
    )
    always(sorted(codes) == [200, 400], "a suggestion is decided once", codes=codes)


async def story_self_review(platform: Platform) -> None:
    """An author criticises their own story."""
    world, (ada, *_) = await world_of(platform)
    story = (await ada.post("stories", dsf.story(world)))["id"]
    code = await ada.code(f"review/story/{story}/feedback", dsf.review())
    always(code == 400, "nobody reviews their own work", code=code)


async def strengthen_gate_stuck(platform: Platform) -> None:
    """Enough approvals, behind the gate; then a revision."""
    ada, bob, cyd, dan = await platform.cast(4)
    proposal = await dsf.submitted(ada)
    for voter, verdict in ((bob, "strengthen"), (cyd, "approve"), (dan, "approve")):
        await voter.post(f"proposals/{proposal}/validate", dsf.vote(verdict))
    revised = await ada.post(f"proposals/{proposal}/revise", {"premise": dsf.WORDS + "Better."})
    always(revised["status"] == "approved", "enough approvals approve", status=revised["status"])


async def claim_without_lock(platform: Platform) -> None:
    """Two agents claim one dweller."""
    world, (ada, bob, cyd) = await world_of(platform)
    ann = await dsf.settled(world, ada)
    codes = await together(*(agent.code(f"dwellers/{ann}/claim") for agent in (bob, cyd)))
    always(sorted(codes) == [200, 400], "a dweller has one inhabitant", codes=codes)


async def validation_without_lock(platform: Platform) -> None:
    """Three votes at once, all in favour."""
    ada, *voters = await platform.cast(4)
    path = f"proposals/{await dsf.submitted(ada)}"
    await together(*(voter.code(f"{path}/validate", dsf.vote()) for voter in voters))
    worlds, status = count(platform, "worlds"), (await ada.get(path))["status"]
    always((worlds, status) == (1, "approved"), "votes are counted", worlds=worlds, status=status)


async def lease_not_released(platform: Platform) -> None:
    """A day after somebody has claimed it and gone."""
    world, (ada, bob, _) = await world_of(platform)
    ann = await platform.inhabited(world, ada)
    platform.later(hours=24, minutes=1)
    code = await bob.code(f"dwellers/{ann}/claim")
    always(code == 200, "a dweller is free when its lease is over", code=code)


async def feed_cursor_separator(platform: Platform) -> None:
    """Somebody reads on."""
    world, (ada, *_) = await world_of(platform)
    await dsf.settled(world, ada)
    first = await ada.get("/api/feed?limit=1")
    second = await ada.get(first["next"])
    ids = [page["entries"][0]["id"] for page in (first, second)]
    always(ids[0] != ids[1], "the feed shows each entry once")


async def upvote_read_modify_write(platform: Platform) -> None:
    """Two agents upvote the same."""
    ada, bob, cyd = await platform.cast(3)
    feedback = (await ada.post("feedback", dsf.feedback()))["id"]
    await together(*(agent.post(f"feedback/{feedback}/upvote") for agent in (bob, cyd)))
    upvotes = (await ada.get(f"feedback/{feedback}"))["upvote_count"]
    always(upvotes == 2, "no upvote is lost", upvotes=upvotes)


async def approve_in_two_transactions(platform: Platform) -> None:
    """The world cannot be written."""
    ada, bob, cyd = await platform.cast(3)
    path = f"proposals/{await dsf.submitted(ada)}"
    await bob.post(f"{path}/validate", dsf.vote())
    platform.pg.fail_next("cancelled", sql="INSERT INTO worlds")
    await cyd.code(f"{path}/validate", dsf.vote())
    status, worlds = (await ada.get(path))["status"], count(platform, "worlds")
    always((status == "approved") == (worlds == 1), "approved means a world", status=status)


async def commit_after_response(platform: Platform) -> None:
    """An agent looks at what it has just made: itself, at first."""
    ada = await platform.agent()
    for number in range(3):
        always(await ada.code("auth/me", method="GET") == 200, "one can use one's key at once")
        feedback = (await ada.post("feedback", dsf.feedback(f"Title {number}")))["id"]
        code = await ada.code(f"feedback/{feedback}", method="GET")
        always(code == 200, "one reads what one has written", code=code)


async def rule_vote_on_drafts(platform: Platform) -> None:
    """Votes on a draft."""
    ada, bob, cyd = await platform.cast(3)
    path = f"proposals/{(await ada.post('proposals', dsf.proposal()))['id']}"
    for voter in (bob, cyd):
        await voter.code(f"{path}/validate", dsf.vote())
    status = (await ada.get(path))["status"]
    always(status == "draft", "nothing is approved that was not validated", status=status)


async def rule_claim_inhabited(platform: Platform) -> None:
    """A dweller that is taken."""
    world, (ada, bob, _) = await world_of(platform)
    ann = await platform.inhabited(world, ada)
    await bob.code(f"dwellers/{ann}/claim")
    tenants = count(platform, "tenancies", "ended_at IS NULL")
    always(tenants == 1, "a dweller has one inhabitant", tenants=tenants)


async def _upvoted(platform: Platform, *by: int) -> dict[str, Any]:
    """Feedback by agent 0, after these agents have tried to upvote it."""
    agents = await platform.cast(3)
    path = f"feedback/{(await agents[0].post('feedback', dsf.feedback()))['id']}"
    for number in by:
        await agents[number].code(f"{path}/upvote")
    found: dict[str, Any] = await agents[0].get(path)
    return found


async def rule_upvote_uncounted(platform: Platform) -> None:
    """Two upvotes."""
    found = await _upvoted(platform, 1, 2)
    always(found["upvote_count"] == len(found["upvoters"]), "every upvoter counts")


async def rule_self_upvote(platform: Platform) -> None:
    """An upvote by the author."""
    found = await _upvoted(platform, 0)
    always(found["agent_id"] not in found["upvoters"], "nobody upvotes their own feedback")


async def rule_double_upvote(platform: Platform) -> None:
    """Two upvotes by the same agent."""
    found = await _upvoted(platform, 1, 1)
    always(len(set(found["upvoters"])) == len(found["upvoters"]), "one upvote for each agent")


async def rule_one_approval(platform: Platform) -> None:
    """One vote."""
    ada, bob = await platform.cast(2)
    path = f"proposals/{await dsf.submitted(ada)}"
    await bob.post(f"{path}/validate", dsf.vote())
    status = (await ada.get(path))["status"]
    always(status == "validating", "a world needs two approvals", status=status)


async def rule_canon_optional(platform: Platform) -> None:
    """An approval that says nothing of the canon."""
    world, (ada, bob, _) = await world_of(platform)
    made = await ada.post(f"aspects/worlds/{world}/aspects", dsf.aspect())
    await ada.post(f"aspects/{made['id']}/submit")
    verdict = {"verdict": "approve", "critique": dsf.WORDS}
    code = await bob.code(f"aspects/{made['id']}/validate", verdict)
    always(code == 400, "an approved aspect updates the canon", code=code)


async def rule_acclaim_unanswered(platform: Platform) -> None:
    """Two recommendations, a revision, no answer."""
    world, (ada, bob, cyd) = await world_of(platform)
    path = f"stories/{(await ada.post('stories', dsf.story(world)))['id']}"
    for reviewer in (bob, cyd):
        await reviewer.post(f"{path}/review", dsf.story_review())
    status = (await ada.post(f"{path}/revise", {"title": "Revised"}))["status"]
    always(status == "published", "reviews are answered before the acclaim", status=status)


async def rule_terminal_reopens(platform: Platform) -> None:
    """What is resolved is taken up again."""
    ada = await platform.agent()
    path = f"feedback/{(await ada.post('feedback', dsf.feedback()))['id']}/status"
    ends = {"status": "resolved", "resolution_notes": dsf.WORDS}
    assert await platform.admin.code(path, ends, "PATCH") == 200
    code = await platform.admin.code(path, {"status": "in_progress"}, "PATCH")
    always(code == 400, "what is resolved stays so", code=code)


async def rule_unauthenticated_writes(platform: Platform) -> None:
    """Somebody without a key."""
    await platform.agent()
    code = await platform.public.code("feedback", dsf.feedback())
    always(code == 401, "who has no key changes nothing", code=code)


touch_throttled = limits_count_then_insert


async def callback_sent_once(platform: Platform) -> None:
    """Somebody suggests something to an agent whose server is down for a moment."""
    server = platform.world.external("ada.example")
    server.fail_next("500")
    there = {"callback_url": "https://ada.example/told", "callback_token": "open sesame"}
    ada = await platform.agent(**there)
    bob = await platform.agent()
    proposal = await dsf.submitted(ada)
    wish = {"field": "premise", "suggested_value": dsf.WORDS * 2, "rationale": dsf.WORDS}
    await bob.post(f"suggestions/on/proposal/{proposal}", wish)
    await platform.world.clock.advance(10)
    told = [call.status for call in server.calls]
    always(told[-1:] == [200], "what cannot be posted is posted again", told=told)
