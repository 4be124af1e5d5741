"""Rules: stories, feedback on the platform, the feed."""

import json
from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.schemas import community as schemas
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.bodies import worded
from examples.deep_sci_fi.machine.canon import REACTIONS
from examples.deep_sci_fi.machine.platform import Platform, area
from examples.deep_sci_fi.machine.scenery import WORDS
from examples.deep_sci_fi.machine.things import Thing

TITLES = st.sampled_from(["Slow pages", "Dark mode", "Lost my key"])
KEYS = ("6f8a2b9e-3f0c-4e5b-9a52-0d6a4c1f7e10", "c2d4f7a1-58b3-4c9e-8d1f-2b7e9a6c3f54")
"""Idempotency keys that several agents happen to use."""
FEED = "select id::text from feed_events order by created_at desc, id desc"
DECISIONS = st.sampled_from(["acknowledged", "in_progress", "resolved", "wont_fix"])


def is_to_answer(review: Thing, agent: Any) -> bool:
    """By the author of the story."""
    return bool(review.more["story"].owner == agent.id and review.status != "answered")


def is_to_upvote(wish: Thing, agent: Any) -> bool:
    """By others, once, while nothing is decided."""
    done = wish.owner == agent.id or agent.id in wish.more["upvoters"]
    return not done and wish.status in ("new", "acknowledged", "in_progress")


def is_to_review(story: Thing, agent: Any) -> bool:
    """By others, once."""
    return story.owner != agent.id and str(story) not in agent.recommended


@area
class Stories(Platform):
    """What agents write about worlds."""

    @foretold.rule(
        target=things.stories, world=things.worlds, title=st.sampled_from(["Downhill", "A bridge"])
    )
    async def write_story(self, actor: Any, world: Thing, title: str) -> Thing:
        texts = {"title": title, "content": WORDS * 2, "perspective": "first_person_agent"}
        body = worded(schemas.NewStory, {"world_id": world, **texts})
        answer = await self.send(actor, "POST", "stories", body)
        foretold.sometimes(answer.status_code == 428, "reviews have to be answered first")
        made = self.judge(answer)
        await self.look(actor, f"stories/{made['id']}")
        return self.made("stories", made, "author_id")

    @foretold.rule(story=things.mine(things.stories))
    async def revise_story(self, actor: Any, story: Thing) -> None:
        body = worded(schemas.StoryRevision, {"title": f"Revised {self.number()}"})
        self._hear_of_story(
            story, (await self.post(actor, f"stories/{story}/revise", body))["status"]
        )

    def _hear_of_story(self, story: Thing, status: str) -> None:
        foretold.sometimes(status == "acclaimed", "a story is acclaimed")
        story.status = status

    @foretold.rule(
        target=things.story_reviews,
        story=things.fit(things.stories, is_to_review),
        acclaim=st.sampled_from([True, True, False]),
    )
    async def review_story(self, actor: Any, story: Thing, acclaim: bool) -> Thing:
        notes = dict.fromkeys(("canon_notes", "event_notes", "style_notes"), WORDS)
        body = {"recommend_acclaim": acclaim, "improvements": ["shorter"], **notes}
        body = worded(schemas.NewStoryReview, body)
        given = await self.post(actor, f"stories/{story}/review", body)
        actor.agent.recommended.add(str(story))
        self._hear_of_story(story, given["story_status"])
        return self.made("story_reviews", given["review"], "reviewer_id", story=story)

    @foretold.rule(review=things.fit(things.story_reviews, is_to_answer))
    async def answer_review(self, actor: Any, review: Thing) -> None:
        story: Thing = review.more["story"]
        path = f"stories/{story}/reviews/{review}/respond"
        body = worded(schemas.Reply, {"text": WORDS})
        self._hear_of_story(story, (await self.post(actor, path, body))["story_status"])
        review.status = "answered"

    @foretold.rule(story=things.stories, wish=REACTIONS)
    async def react_to_story(self, actor: Any, story: Thing, wish: Any) -> None:
        body = worded(schemas.React, {"kind": wish.kind})
        await self.post(actor, f"stories/{story}/react", body)


@area
class Feedback(Platform):
    """What agents think of the platform itself."""

    @foretold.rule(target=things.feedback, title=TITLES, key=st.sampled_from([None, *KEYS]))
    async def give_feedback(self, actor: Any, title: str, key: str | None) -> Thing:
        """Some send a key that others use as well: that is nobody's business."""
        body = {"category": "bug", "title": title, "description": WORDS}
        body = worded(schemas.NewFeedback, body)
        sent = actor.agent.sent.setdefault(key or "", set())
        sent.add(json.dumps(body))
        headers = {"idempotency-key": key} if key else {}
        answer = await self.send(actor, "POST", "feedback", body, **headers)
        strange = answer.status_code == 422 and len(sent) == 1
        foretold.always(not strange, "another agent's idempotency key is nobody's business")
        given = self.judge(answer)
        mine = given["agent_id"] == actor.agent.id
        foretold.always(mine, "nobody gets another's answer", key=key, answer=given)
        await self.look(actor, f"feedback/{given['id']}")
        return self.made("feedback", given, upvoters=[])

    @foretold.rule(
        wish=st.one_of(things.fit(things.feedback, is_to_upvote), things.feedback),
        with_rival=things.RIVAL,
    )
    async def upvote(self, actor: Any, wish: Thing, with_rival: bool) -> None:
        await self.rush(with_rival, actor, wish, is_to_upvote, self._upvote)

    async def _upvote(self, actor: Any, wish: Thing) -> None:
        found = await self.post(actor, f"feedback/{wish}/upvote")
        foretold.always(actor.agent.id in found["upvoters"], "an upvoter is listed")
        self.upvoted.add((wish, actor.agent.id))
        wish.more["upvoters"] = found["upvoters"]

    @foretold.rule(wish=things.fit(things.feedback, things.anything), status=DECISIONS)
    async def decide_feedback(self, actor: Any, wish: Thing, status: str) -> None:
        """By an administrator: forward only, and what is over says why."""
        over = status in ("resolved", "wont_fix")
        body = {"status": status, **({"resolution_notes": WORDS} if over else {})}
        body = worded(schemas.FeedbackDecision, body)
        wish.status = (await self.admin(actor, "PATCH", f"feedback/{wish}/status", body))["status"]


class Feed(Platform):
    """What the public reads; in all runs."""

    def in_the_feed(self) -> list[str]:
        """All that is there now, the newest first."""
        return [row[0] for row in self.pg.sql(FEED)]

    @foretold.rule(size=st.integers(1, 2))
    async def read_feed(self, actor: Any, size: int) -> None:
        """Page by page; each entry is shown once, and none is left out that was there before."""
        there = self.in_the_feed()
        seen: list[str] = []
        following: str | None = f"feed?limit={size}"
        for _ in range(3):
            foretold.sometimes(bool(seen), "the feed has a second page")
            page = await self.get(actor, following or "")
            seen += [entry["id"] for entry in page["entries"]]
            following = page["next"]
            if following is None:
                break
        foretold.always(len(set(seen)) == len(seen), "the feed shows each entry once", seen=seen)
        last = max((place for place, key in enumerate(there) if key in seen), default=0)
        due = there if following is None else there[:last]
        skipped = [key for key in due if key not in seen]
        foretold.always(not skipped, "the feed leaves no entry out", seen=seen, skipped=skipped)
