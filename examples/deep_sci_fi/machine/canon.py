"""Rules: what becomes of worlds: aspects, events, followers, comments, reactions."""

from typing import Any

import httpx
from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.schemas import community
from examples.deep_sci_fi.app.schemas import worlds as schemas
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.bodies import worded
from examples.deep_sci_fi.machine.platform import Busy, Platform, area, part_of
from examples.deep_sci_fi.machine.scenery import WORDS
from examples.deep_sci_fi.machine.things import Thing
from examples.deep_sci_fi.machine.worlds import VERDICTS

TITLES = st.sampled_from(["Pumps of old", "A new dam", "The long rain"])
REACTIONS = foretold.from_model(community.React)


def step(year: int) -> dict[str, Any]:
    """Of a timeline."""
    return {"year": year, "event": f"The year {year} happens", "reasoning": WORDS}


def is_to_decide(event: Thing, agent: Any) -> bool:
    """By anybody but who has proposed it."""
    return event.owner != agent.id and event.status == "pending"


@area
class Canon(Platform):
    """What is true in a world, and what others think of it."""

    @foretold.rule(
        target=things.aspects,
        world=things.worlds,
        kind=st.sampled_from(["technology", "region", "event"]),
        title=TITLES,
    )
    async def add_aspect(self, actor: Any, world: Thing, kind: str, title: str) -> Thing:
        content = {"name": f"Place {self.number()}", "description": WORDS}
        texts = {"title": title, "premise": WORDS, "canon_justification": WORDS}
        entry = step(2060) if kind == "event" else None
        body = {"type": kind, **texts, "content": content, "proposed_timeline_entry": entry}
        body = worded(schemas.NewAspect, body)
        made = await self.post(actor, f"aspects/worlds/{world}/aspects", body)
        return self.made("aspects", made, kind=made["type"])

    @foretold.rule(aspect=things.mine(things.aspects, "draft"))
    async def submit_aspect(self, actor: Any, aspect: Thing) -> None:
        aspect.status = await self.hand_in(actor, f"aspects/{aspect}/submit")

    @foretold.rule(aspect=things.mine(things.aspects, *things.OPEN))
    async def revise_aspect(self, actor: Any, aspect: Thing) -> None:
        changes = worded(schemas.AspectRevision, {"premise": f"{WORDS}{self.number()}"})
        await self.post(actor, f"aspects/{aspect}/revise", changes)

    # --- events ----------------------------------------------------------------------------------

    @foretold.rule(
        target=things.events,
        world=things.worlds,
        title=TITLES,
        year=st.one_of(st.integers(2028, 2111), st.sampled_from([2029, 2030, 2110, 2111])),
    )
    async def propose_event(self, actor: Any, world: Thing, title: str, year: int) -> Thing:
        texts = {"title": title, "description": WORDS, "canon_justification": WORDS}
        body = worded(schemas.NewEvent, {**texts, "year_in_world": year})
        made = await self.post(actor, f"events/worlds/{world}/events", body)
        return self.made("world_events", made, "proposed_by")

    @foretold.rule(event=things.fit(things.events, is_to_decide), with_rival=things.RIVAL)
    async def approve_event(self, actor: Any, event: Thing, with_rival: bool) -> None:
        """Perhaps somebody else is about to reject it."""
        await self.rush(with_rival, actor, event, is_to_decide, self._approve, self._reject)

    async def _approve(self, actor: Any, event: Thing) -> None:
        body = worded(schemas.EventApproval, {"canon_update": f"{WORDS} Since {self.number()}."})
        event.status = (await self.post(actor, f"events/{event}/approve", body))["status"]

    @foretold.rule(event=things.fit(things.events, is_to_decide))
    async def reject_event(self, actor: Any, event: Thing) -> None:
        await self._reject(actor, event)

    async def _reject(self, actor: Any, event: Thing) -> None:
        body = worded(schemas.EventRejection, {"reason": WORDS})
        event.status = (await self.post(actor, f"events/{event}/reject", body))["status"]


@part_of("Canon", "Suggesting")
class Judging(Platform):
    """What is to be true in a world."""

    @foretold.rule(
        aspect=things.others(things.aspects, "validating"),
        verdict=VERDICTS,
        summary=st.sampled_from([True, True, True, False]),
    )
    async def validate_aspect(self, actor: Any, aspect: Thing, verdict: str, summary: bool) -> None:
        """One vote decides; who approves also says what is true from now on."""
        body: dict[str, Any] = {"verdict": verdict, "critique": WORDS}
        if summary:
            body["updated_canon_summary"] = f"{WORDS} Since {self.number()}."
        if aspect.more["kind"] == "event":
            body["approved_timeline_entry"] = step(2060)
        body = worded(schemas.NewAspectValidation, body)
        voted = await self.post(actor, f"aspects/{aspect}/validate", body)
        aspect.status = voted["aspect_status"]
        foretold.sometimes(aspect.status == "approved", "an aspect is approved")


@area
class Opinions(Platform):
    """Followers, comments, reactions."""

    @foretold.rule(world=things.worlds, with_rival=things.RIVAL)
    async def follow(self, actor: Any, world: Thing, with_rival: bool) -> None:
        await self.rush(with_rival, actor, world, things.anything, self._follow, self._comment)

    async def _follow(self, actor: Any, world: Thing) -> None:
        await self.post(actor, f"worlds/{world}/follow")

    async def _comment(self, actor: Any, world: Thing) -> None:
        made = await self.once(actor, f"worlds/{world}/comments", self._words())
        self.made("comments", made, "user_id")

    def _words(self) -> dict[str, Any]:
        return worded(schemas.NewComment, {"text": f"Comment {self.number()}"})

    @foretold.rule(world=things.worlds, impatient=st.booleans(), with_rival=things.RIVAL)
    async def comment(self, actor: Any, world: Thing, impatient: bool, with_rival: bool) -> None:
        """Once, under a key of its own; the impatient send it a second time meanwhile."""
        if not impatient:
            await self.rush(with_rival, actor, world, things.anything, self._comment)
            return
        path, body = f"worlds/{world}/comments", self._words()
        key = {"idempotency-key": self.fresh_key()}
        answers = await foretold.together(*(self._try(actor, path, body, key) for _ in range(2)))
        good = [answer.json() for answer in answers if answer is not None and answer.is_success]
        codes = [answer.status_code for answer in answers if answer is not None]
        foretold.sometimes(409 in codes, "a request is sent again while it is in progress")
        same = len({answer["id"] for answer in good}) <= 1
        foretold.always(same, "one idempotency key has one answer", answers=good)

    async def _try(self, actor: Any, path: str, body: Any, key: dict[str, str]) -> Any:
        try:
            return await self.send(actor, "POST", path, body, **key)
        except (httpx.TransportError, Busy):
            return None

    @foretold.rule(world=things.worlds, wish=REACTIONS)
    async def react(self, actor: Any, world: Thing, wish: Any) -> None:
        body = {"target_type": "world", "target_id": world, "kind": wish.kind}
        body = worded(community.ReactTo, body)
        await self.post(actor, "reactions", body)
