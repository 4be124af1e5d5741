"""Deep Sci-Fi without any bug: each area does what it should, and refuses what it should.

The application is the real one, on the real PostgreSQL, under uvicorn; agents speak HTTP.
"""

from __future__ import annotations

import asyncio

from tests.examples import deep_sci_fi as dsf
from tests.examples.deep_sci_fi import Platform, on_platform


@on_platform
async def test_registration(platform: Platform) -> None:
    """Taken usernames get digits, keys work in both headers, expire and can be revoked."""
    wish = {"name": "Ada", "username": "Ada Lovelace!", "model_id": "m1"}
    first, second, third = [await platform.public.post("auth/agent", wish) for _ in range(3)]
    assert first["agent"]["username"] == "ada-lovelace"
    assert second["agent"]["username"].startswith("ada-lovelace-")
    assert first["warning"] is None
    assert "ada-lovelace" in third["warning"]
    ada = dsf.Agent(platform.client, key=first["api_key"])
    assert (await ada.get("auth/me"))["id"] == first["agent"]["id"]
    bearer = {"authorization": f"Bearer {ada.key}"}
    assert (await platform.public.send("GET", "auth/me", **bearer)).status_code == 200
    assert await platform.public.code("auth/me", method="GET") == 401
    assert await dsf.Agent(platform.client, key="dsf_x").code("auth/me", method="GET") == 401
    other = await ada.post("auth/keys", {"expires_in_hours": 1})
    ada.key = other["api_key"]
    await ada.post("heartbeat", {})
    platform.later(hours=1, seconds=1)
    assert await ada.code("heartbeat", {}) == 401
    ada.key = first["api_key"]
    third_key = await ada.post("auth/keys", {})
    await ada.post(f"auth/keys/{third_key['key']['id']}/revoke")
    ada.key = third_key["api_key"]
    assert await ada.code("heartbeat", {}) == 401


@on_platform
async def test_votes_make_a_world(platform: Platform) -> None:
    """Draft, validating, approved with its world; the owner is told, the public reads it."""
    ada, bob, cyd = await platform.cast(3)
    draft = (await ada.post("proposals", dsf.proposal()))["id"]
    assert await bob.code(f"proposals/{draft}/validate", dsf.vote()) == 400
    assert await bob.code(f"proposals/{draft}/submit") == 403
    assert (await ada.post(f"proposals/{draft}/submit"))["status"] == "validating"
    assert await ada.code(f"proposals/{draft}/submit") == 400
    assert await ada.code(f"proposals/{draft}/validate", dsf.vote()) == 400
    assert await bob.code(f"proposals/{draft}/validate", dsf.vote(weaknesses=[])) == 400
    first = await bob.post(f"proposals/{draft}/validate", dsf.vote())
    assert (first["proposal_status"], first["world_id"]) == ("validating", None)
    assert await bob.code(f"proposals/{draft}/validate", dsf.vote()) == 400
    world_id = (await cyd.post(f"proposals/{draft}/validate", dsf.vote()))["world_id"]
    shown = await platform.public.get(f"proposals/{draft}")
    assert (shown["status"], shown["resulting_world_id"]) == ("approved", world_id)
    assert (await platform.public.get(f"worlds/{world_id}"))["proposal_id"] == draft
    assert await ada.code(f"proposals/{draft}/revise", {"premise": dsf.WORDS}) == 400
    assert len(await ada.get(f"proposals/{draft}/validations")) == 2
    kinds = [news["kind"] for news in (await ada.get("notifications"))["notifications"]]
    assert kinds == ["proposal_validated", "proposal_validated", "proposal_approved"]
    namesake = (await bob.post("proposals", dsf.proposal()))["id"]
    assert await bob.code(f"proposals/{namesake}/submit") == 409
    assert await bob.code(f"proposals/{namesake}/submit?force=true") == 200
    assert len(await platform.public.get("proposals?status=approved")) == 1
    assert len(await platform.public.get("worlds")) == 1


@on_platform
async def test_rejections_and_limbo(platform: Platform) -> None:
    """Two rejections reject; one rejection keeps any number of approvals in limbo."""
    ada, *others = await platform.cast(5)
    proposal = await dsf.submitted(ada)
    verdicts = ["approve", "reject", "approve", "reject"]
    path = f"proposals/{proposal}/validate"
    votes = [
        await voter.post(path, dsf.vote(verdict))
        for voter, verdict in zip(others, verdicts, strict=True)
    ]
    assert [v["proposal_status"] for v in votes] == ["validating"] * 3 + ["rejected"]
    assert platform.pg.sql("SELECT count(*) FROM worlds")[0][0] == 0


@on_platform
async def test_the_strengthen_gate(platform: Platform) -> None:
    """A wish for improvement holds approvals back until there is a revision, which decides."""
    ada, bob, cyd, dan = await platform.cast(4)
    proposal = await dsf.submitted(ada)
    for voter, verdict in ((bob, "strengthen"), (cyd, "approve"), (dan, "approve")):
        voted = await voter.post(f"proposals/{proposal}/validate", dsf.vote(verdict))
        assert voted["proposal_status"] == "validating"
    assert await bob.code(f"proposals/{proposal}/revise", {"premise": dsf.WORDS}) == 403
    revised = await ada.post(f"proposals/{proposal}/revise", {"premise": dsf.WORDS + "More."})
    assert (revised["status"], revised["revision_count"]) == ("approved", 1)
    assert revised["resulting_world_id"] is not None


@on_platform
async def test_bounds(platform: Platform) -> None:
    """What is too short, too long, too early or unknown is refused with 422."""
    ada = await platform.agent()
    wrong: list[dsf.Json] = [
        {"premise": "short"},
        {"year_setting": 2029},
        {"year_setting": 2501},
        {"causal_chain": [dsf.step(2030)] * 2},
        {"causal_chain": [dsf.step(2025)] * 3},
        {"scientific_basis": "x" * 49},
        {"name": "x"},
        {"name": "x" * 51},
        {"image_prompt": "x" * 29},
        {"image_prompt": "x" * 1001},
        {"citations": ["x"] * 11},
        {"premise": "x" * 50 + "\0"},
        {"misspelt": 1},
    ]
    for changes in wrong:
        assert await ada.code("proposals", dsf.proposal(**changes)) == 422, changes
    assert await ada.code("proposals", dsf.proposal(name="x" * 50)) == 201
    assert await ada.code("proposals", dsf.proposal(name="x" * 50)) == 409
    assert await ada.code("proposals/no-uuid/submit") == 422
    nobody = "00000000-0000-4000-8000-000000000000"
    assert await ada.code(f"proposals/{nobody}/submit") == 404


@on_platform
async def test_limits_of_the_game(platform: Platform) -> None:
    """Three open proposals; two registrations, ten pieces of feedback a minute."""
    ada = await platform.agent()
    await platform.agent()
    third = {"name": "C", "username": "c"}
    refused = await platform.public.send("POST", "auth/agent", third)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 61
    for name in ("one", "two", "three"):
        await ada.post("proposals", dsf.proposal(name))
    assert await ada.code("proposals", dsf.proposal("four")) == 429
    codes = [await ada.code("feedback", dsf.feedback(f"Title {n}")) for n in range(11)]
    assert codes == [201] * 10 + [429]
    await asyncio.sleep(61)
    assert await ada.code("feedback", dsf.feedback("Title 11")) == 201
    assert await platform.public.code("auth/agent", third) == 201


@on_platform
async def test_heartbeat(platform: Platform) -> None:
    """12, 24 and 168 hours, or 2, 4 and 48 cycles; the inactive cannot submit."""
    ada = await platform.agent()
    draft = (await ada.post("proposals", dsf.proposal()))["id"]
    assert (await ada.get("heartbeat"))["status"] == "new"
    await ada.post("heartbeat", {})
    seen = []
    for hours in (0, 12, 12, 144):
        platform.later(hours=hours, minutes=1)
        seen.append((await ada.get("heartbeat"))["status"])
        if seen[-1] == "inactive":
            assert await ada.code(f"proposals/{draft}/submit") == 403
    assert seen == ["active", "warning", "inactive", "dormant"]
    await ada.post("heartbeat/maintenance", {"hours": 1, "reason": "sleep"})
    assert (await ada.get("heartbeat"))["status"] == "maintenance"
    await ada.post("heartbeat", {"expected_cycle_hours": 0.5})
    platform.later(hours=2, minutes=1)
    assert (await ada.get("heartbeat"))["status"] == "inactive"
    await ada.post("heartbeat", {})
    await ada.post(f"proposals/{draft}/submit")


@on_platform
async def test_aspects(platform: Platform) -> None:
    """One approval with a new canon summary; regions and timeline entries enter the world."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    path = f"aspects/worlds/{world}/aspects"
    assert await bob.code(path, dsf.aspect("region", content={"name": "Hills"})) == 400
    assert await bob.code(path, dsf.aspect("event")) == 400
    region = (await bob.post(path, dsf.aspect("region")))["id"]
    assert await bob.code(path, dsf.aspect("region")) == 429
    await bob.post(f"aspects/{region}/submit")
    await bob.post(f"aspects/{region}/revise", {"premise": dsf.WORDS + "Indeed."})
    verdict = {"verdict": "approve", "critique": dsf.WORDS}
    canon = {**verdict, "updated_canon_summary": dsf.WORDS + "With hills."}
    assert await bob.code(f"aspects/{region}/validate", canon) == 400
    assert await cyd.code(f"aspects/{region}/validate", verdict) == 400
    assert (await cyd.post(f"aspects/{region}/validate", canon))["aspect_status"] == "approved"
    entry = dsf.step(2060)
    wish = dsf.aspect("event", title="A discovery", proposed_timeline_entry=entry)
    event = (await bob.post(path, wish))["id"]
    await bob.post(f"aspects/{event}/submit")
    assert await cyd.code(f"aspects/{event}/validate", canon) == 400
    late = {**canon, "approved_timeline_entry": dsf.step(2101)}
    assert await cyd.code(f"aspects/{event}/validate", late) == 400
    await cyd.post(f"aspects/{event}/validate", {**canon, "approved_timeline_entry": entry})
    shown = await platform.public.get(f"worlds/{world}")
    assert [step["year"] for step in shown["causal_chain"]] == [2030, 2050, 2060, 2090]
    assert [region["name"] for region in shown["regions"]] == ["Hills"]
    assert shown["canon_summary"] == canon["updated_canon_summary"]
    other = (await bob.post(path, dsf.aspect(title="Another one")))["id"]
    await bob.post(f"aspects/{other}/submit")
    no = {"verdict": "reject", "critique": dsf.WORDS}
    assert (await cyd.post(f"aspects/{other}/validate", no))["aspect_status"] == "rejected"
    assert len(await platform.public.get(path)) == 3


@on_platform
async def test_dwellers(platform: Platform) -> None:
    """Regions, creation, claim, lease and release; five dwellers an agent at most."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    nowhere = dsf.character(origin_region="Nowhere")
    assert await ada.code(f"dwellers/worlds/{world}/dwellers", nowhere) == 400
    ann = await dsf.settled(world, ada)
    region = {"name": "Delta", "description": dsf.WORDS}
    assert await ada.code(f"dwellers/worlds/{world}/regions", region) == 400
    assert await ada.code(f"dwellers/worlds/{world}/dwellers", dsf.character()) == 429
    assert await ada.code(f"dwellers/worlds/{world}/dwellers", dsf.character(age=201)) == 422
    claimed = await bob.post(f"dwellers/{ann}/claim")
    assert (claimed["held"], claimed["dweller"]["inhabited_by"]) == (1, bob.id)
    assert await cyd.code(f"dwellers/{ann}/claim") == 400
    assert await cyd.code(f"dwellers/{ann}/release") == 403
    platform.later(hours=24, minutes=1)
    assert await bob.code(f"dwellers/{ann}/act/context") == 403
    await cyd.post(f"dwellers/{ann}/claim")
    assert (await cyd.post(f"dwellers/{ann}/release"))["is_available"] is True
    names = ["Bea", "Col", "Dee", "Eve", "Flo"]
    more = [await dsf.settled(world, ada, name) for name in names]
    codes = [await bob.code(f"dwellers/{dweller}/claim") for dweller in (ann, *more)]
    assert codes == [200] * 5 + [429]
    assert (await platform.public.get(f"worlds/{world}"))["dweller_count"] == 6
    free = await platform.public.get(f"dwellers/worlds/{world}/dwellers?available=true")
    assert [dweller["id"] for dweller in free] == more[-1:]
    platform.later(hours=24, minutes=1)
    assert (await platform.admin.post("admin/leases/sweep"))["released"] == 5
    open_ones = "SELECT count(*) FROM tenancies WHERE ended_at IS NULL"
    assert platform.pg.sql(open_ones)[0][0] == 0


@on_platform
async def test_actions_of_dwellers(platform: Platform) -> None:
    """Context tokens, repeated deeds, moves, and threads of conversation."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    ann = await platform.inhabited(world, ada)
    ben = await platform.inhabited(world, bob, "Ben")
    token = (await ada.post(f"dwellers/{ann}/act/context"))["context_token"]
    path = f"dwellers/{ann}/act"
    assert await ada.code(path, dsf.action(world)) == 428
    assert await bob.code(path, dsf.action(token)) == 403
    assert await ada.code(path, dsf.action(token)) == 201
    assert await ada.code(path, dsf.action(token)) == 429
    assert await ada.code(path, dsf.action(token, type="move", target="Nowhere")) == 400
    assert await ada.code(path, dsf.action(token, type="move", target="Delta")) == 201
    assert await ada.code(path, dsf.action(token, type="speak")) == 400
    speak = dsf.action(token, type="speak", target_dweller_id=ben, content="Hello Ben")
    said = (await ada.post(path, speak))["action"]["id"]
    context = await bob.post(f"dwellers/{ben}/act/context")
    assert context["unanswered"] == [said]
    talk = dsf.action(context["context_token"], type="speak", target_dweller_id=ann)
    elsewhere = await bob.send("POST", f"dwellers/{ben}/act", {**talk, "content": "Nice day"})
    assert elsewhere.status_code == 202
    assert said in elsewhere.json()["warning"]
    platform.later(minutes=10, seconds=1)
    assert await bob.code(f"dwellers/{ben}/act", {**talk, "content": "Rain"}) == 403
    reply = {**talk, "content": "Hello Ann", "in_reply_to_action_id": said}
    assert await bob.code(f"dwellers/{ben}/act", reply) == 201
    platform.later(hours=1)
    assert await ada.code(path, dsf.action(token, content="Too late")) == 428
    memories = await ada.get(f"dwellers/{ann}/memory")
    assert [m["kind"] for m in memories["episodic_memories"]] == [
        "work",
        "move",
        "speak",
        "heard speak",
        "heard speak",
    ]


@on_platform
async def test_memories(platform: Platform) -> None:
    """Core memories and notes about others: nothing is lost, only the inhabitant writes."""
    ada, bob, cyd = await platform.cast(3)
    ann = await platform.inhabited(await platform.approved(ada, bob, cyd), ada)
    await ada.post(f"dwellers/{ann}/memory/core", {"text": "I was born here"})
    for number in range(3):
        note = {"about": "Ben", "note": f"We met {number} times"}
        await ada.post(f"dwellers/{ann}/memory/relationship", note)
    assert await bob.code(f"dwellers/{ann}/memory/core", {"text": "You were not"}) == 403
    memories = await platform.public.get(f"dwellers/{ann}/memory")
    assert memories["core_memories"] == ["I was born here"]
    assert len(memories["relationship_memories"]["Ben"]) == 3


@on_platform
async def test_dweller_proposals(platform: Platform) -> None:
    """Two approvals make a dweller; five open ones an agent at most."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    await dsf.settled(world, ada)
    path = f"dweller-proposals/worlds/{world}"
    names = [f"Person {number}" for number in range(6)]
    codes = [await ada.code(path, dsf.character(name)) for name in names]
    assert codes == [201] * 5 + [429]
    proposal = (await ada.get(path))[0]["id"]
    verdict = {"verdict": "approve", "critique": dsf.WORDS}
    assert await bob.code(f"dweller-proposals/{proposal}/validate", verdict) == 400
    await ada.post(f"dweller-proposals/{proposal}/submit")
    await ada.post(f"dweller-proposals/{proposal}/revise", {"identity": dsf.WORDS})
    await bob.post(f"dweller-proposals/{proposal}/validate", verdict)
    voted = await cyd.post(f"dweller-proposals/{proposal}/validate", verdict)
    assert voted["proposal_status"] == "approved"
    assert (await ada.get(f"dwellers/{voted['dweller_id']}"))["created_by"] == ada.id
    assert (await ada.get(f"worlds/{world}"))["dweller_count"] == 2
    assert (await ada.get(f"dweller-proposals/{proposal}"))["status"] == "approved"


@on_platform
async def test_escalation(platform: Platform) -> None:
    """What matters, is confirmed by another and escalated becomes an event, once."""
    ada, bob, cyd = await platform.cast(3)
    world = await platform.approved(ada, bob, cyd)
    ann = await platform.inhabited(world, ada)
    minor = await dsf.acted(ada, ann, content="Sing", importance=0.79)
    assert await bob.code(f"actions/{minor['id']}/confirm-importance", dsf.CONFIRMATION) == 400
    deed = (await dsf.acted(ada, ann, importance=0.8))["id"]
    wish = dsf.event()
    assert await bob.code(f"actions/{deed}/escalate", wish) == 400
    assert await ada.code(f"actions/{deed}/confirm-importance", dsf.CONFIRMATION) == 400
    assert await bob.code(f"actions/{deed}/nominate") == 403
    assert (await ada.post(f"actions/{deed}/nominate"))["nomination_count"] == 1
    await bob.post(f"actions/{deed}/confirm-importance", dsf.CONFIRMATION)
    assert await cyd.code(f"actions/{deed}/confirm-importance", dsf.CONFIRMATION) == 400
    assert await bob.code(f"actions/{deed}/escalate", {**wish, "year_in_world": 2111}) == 400
    event = await bob.post(f"actions/{deed}/escalate", wish)
    assert (event["origin"], event["status"]) == ("escalation", "pending")
    assert await cyd.code(f"actions/{deed}/escalate", wish) == 400
    assert (await cyd.get(f"actions/{deed}"))["event_id"] == event["id"]
    core = (await ada.get(f"dwellers/{ann}/memory"))["core_memories"]
    assert core == ["2095: The great flood"]
    assert await bob.code(f"events/{event['id']}/approve", dsf.CANON) == 400
    await cyd.post(f"events/{event['id']}/approve", dsf.CANON)
    assert (await cyd.get(f"actions/{deed}"))["action"]["escalation_status"] == "accepted"
