"""Rules: dwellers, who inhabits them, what they do and remember."""

from datetime import datetime
from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.schemas import dwellers as schemas
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.bodies import worded
from examples.deep_sci_fi.machine.platform import Platform, area, part_of
from examples.deep_sci_fi.machine.scenery import ASLEEP, REGIONS, WORDS, agent, character
from examples.deep_sci_fi.machine.things import Thing
from examples.deep_sci_fi.machine.worlds import VERDICTS

NAMES = st.sampled_from(["Gus", "Hal", "Ida", "Uli", "Vic"])
PLACES = st.sampled_from([REGIONS[0], "Marsh", "Cliffs", "Moor"])
IMPORTANCE = st.sampled_from([0.9, 0.5, 0.8, 0.79])


GONE = frozenset(map(agent, ASLEEP))
"""They have left dwellers behind."""


def is_free(dweller: Thing, agent: Any) -> bool:
    """Nobody inhabits it, or somebody who left it long ago."""
    return not dweller.owner or dweller.owner in GONE


def is_inhabited(dweller: Thing) -> bool:
    """By somebody who can answer."""
    return bool(dweller.owner) and dweller.owner not in GONE


def is_to_confirm(action: Thing, agent: Any) -> bool:
    """By anybody but who has done it."""
    known = action.owner == agent.id or action.more["confirmed"]
    return bool(not known and action.more["importance"] >= 0.8)


def is_to_escalate(action: Thing, agent: Any) -> bool:
    """It can become an event."""
    return bool(action.more["confirmed"] and action.status != "event")


def is_to_nominate(action: Thing, agent: Any) -> bool:
    """By who has done it."""
    mine = action.owner == agent.id and action.status == "eligible"
    return bool(mine and action.more["importance"] >= 0.8)


@area
class Dwelling(Platform):
    """Life in a world."""

    @foretold.rule(world=things.worlds, name=PLACES)
    async def add_region(self, actor: Any, world: Thing, name: str) -> None:
        body = worded(schemas.NewRegion, {"name": name, "description": WORDS})
        await self.post(actor, f"dwellers/worlds/{world}/regions", body)

    @foretold.rule(target=things.dwellers, world=things.worlds, name=NAMES)
    async def settle(self, actor: Any, world: Thing, name: str) -> Thing:
        path = f"dwellers/worlds/{world}/dwellers"
        made = await self.post(actor, path, worded(schemas.NewCharacter, character(name)))
        await self.look(actor, f"dwellers/{made['id']}")
        return self.made("dwellers", made, "")

    @foretold.rule(
        dwellers=st.lists(
            st.one_of(things.fit(things.dwellers, is_free), things.dwellers),
            min_size=1,
            max_size=3,
            unique=True,
        ),
        with_rival=things.RIVAL,
    )
    async def claim(self, actor: Any, dwellers: list[Thing], with_rival: bool) -> None:
        """For 24 hours; what was free when it was asked for cannot be refused."""
        if with_rival:
            await self.rush(with_rival, actor, dwellers[0], things.anything, self._claim)
        else:
            await self.at_once(self._claim(actor, dweller) for dweller in dwellers)

    async def _claim(self, actor: Any, dweller: Thing) -> None:
        asked = self.now()
        answer = await self.send(actor, "POST", f"dwellers/{dweller}/claim")
        taken = answer.status_code == 400
        foretold.sometimes(taken, "a dweller is inhabited already")
        if taken:
            page = await self.get(actor, f"dwellers/{dweller}")
            until = page["inhabited_until"]
            over = until is not None and datetime.fromisoformat(until) < asked
            foretold.always(not over, "a dweller is free when its lease is over", until=until)
        claimed = self.judge(answer)["dweller"]
        foretold.always(
            claimed["inhabited_by"] == actor.agent.id, "who has claimed a dweller has it"
        )
        foretold.sometimes(bool(dweller.owner), "a dweller changes hands")
        dweller.owner = actor.agent.id

    @foretold.rule(dweller=things.mine(things.dwellers), with_rival=things.RIVAL)
    async def release(self, actor: Any, dweller: Thing, with_rival: bool) -> None:
        """Perhaps somebody has waited for it."""
        await self.rush(with_rival, actor, dweller, things.anything, self._release, self._claim)

    async def _release(self, actor: Any, dweller: Thing) -> None:
        await self.post(actor, f"dwellers/{dweller}/release")
        dweller.owner = ""

    @foretold.rule(dweller=things.mine(things.dwellers))
    async def look_around(self, actor: Any, dweller: Thing) -> None:
        """What the dweller knows now; one acts upon that, within an hour."""
        found = await self.post(actor, f"dwellers/{dweller}/act/context")
        actor.agent.tokens[dweller] = found["context_token"]

    def _deed(self, actor: Any, dweller: Thing, kind: str, other: Thing, importance: float) -> Any:
        token = actor.agent.tokens[dweller]
        deed = {"context_token": token, "type": kind, "content": "Mend the boat"}
        deed |= {"importance": importance}
        if kind == "speak":
            deed |= {"target_dweller_id": other, "content": f"Hello {self.number()}"}
        if kind == "move":
            deed |= {"target": REGIONS[self.number() % 2]}
        return worded(schemas.NewAction, deed)

    @foretold.rule(
        target=things.actions,
        dweller=things.mine(things.dwellers),
        kind=st.sampled_from(["work", "work", "speak", "speak", "move"]),
        other=st.one_of(things.dwellers.filter(is_inhabited), things.dwellers),
        importance=IMPORTANCE,
        compose=st.booleans(),
    )
    async def act(
        self, actor: Any, dweller: Thing, kind: str, other: Thing, importance: float, compose: bool
    ) -> Thing:
        """As the dweller that one inhabits, upon what one knows of it."""
        if dweller not in actor.agent.tokens:
            found = await self.post(actor, f"dwellers/{dweller}/act/context")
            actor.agent.tokens[dweller] = found["context_token"]
        deed = self._deed(actor, dweller, kind, other, importance)
        path, body = f"dwellers/{dweller}/act", deed
        if compose:
            path, body = "actions/compose", {"dweller_id": dweller, "action": deed}
        answer = await self.send(actor, "POST", path, body)
        foretold.sometimes(answer.status_code == 428, "a context is too old, or was never read")
        if answer.status_code == 428:
            actor.agent.tokens.pop(dweller, None)
        foretold.sometimes(answer.status_code == 202, "somebody waits for an answer")
        done = self.judge(answer)["action"]
        about = {"importance": done["importance"], "confirmed": ""}
        action = self.made("dweller_actions", done, "actor_id", **about)
        action.status = done["escalation_status"] or ""
        return action

    # --- memories --------------------------------------------------------------------------------

    @foretold.rule(dweller=things.mine(things.dwellers))
    async def remember(self, actor: Any, dweller: Thing) -> None:
        await self._remember(actor, dweller)

    async def _remember(self, actor: Any, dweller: Thing) -> None:
        body = worded(schemas.CoreMemory, {"text": f"Never forget number {self.number()}"})
        await self.post(actor, f"dwellers/{dweller}/memory/core", body)
        self.noted.add((dweller, body["text"]))

    @foretold.rule(dweller=things.mine(things.dwellers), about=st.sampled_from(["Dov", "Cyd"]))
    async def remember_somebody(self, actor: Any, dweller: Thing, about: str) -> None:
        body = {"about": about, "note": f"We have met {self.number()} times"}
        body = worded(schemas.RelationshipMemory, body)
        await self.post(actor, f"dwellers/{dweller}/memory/relationship", body)
        self.noted.add((dweller, body["note"]))


@part_of("Dwelling", "Opinions")
class Sweeping(Platform):
    """What administrators do about those who have left."""

    @foretold.rule()
    async def sweep(self, actor: Any) -> None:
        """Release dwellers whose lease is over."""
        swept = await self.admin(actor, "POST", "admin/leases/sweep")
        foretold.sometimes(swept["released"] > 0, "a lease that is over is swept")


@part_of("Stories")
class Deeds(Platform):
    """Actions that matter."""

    @foretold.rule(action=things.fit(things.actions, is_to_confirm), with_rival=things.RIVAL)
    async def confirm(self, actor: Any, action: Thing, with_rival: bool) -> None:
        """Once; perhaps somebody else thinks the same."""
        await self.rush(with_rival, actor, action, is_to_confirm, self._confirm)

    async def _confirm(self, actor: Any, action: Thing) -> None:
        body = worded(schemas.Confirmation, {"rationale": WORDS})
        await self.post(actor, f"actions/{action}/confirm-importance", body)
        action.more["confirmed"] = actor.agent.id

    @foretold.rule(action=things.fit(things.actions, is_to_nominate))
    async def nominate(self, actor: Any, action: Thing) -> None:
        action.status = (await self.post(actor, f"actions/{action}/nominate"))["escalation_status"]

    @foretold.rule(
        target=things.events,
        action=things.fit(things.actions, is_to_escalate),
        with_rival=things.RIVAL,
    )
    async def escalate(self, actor: Any, action: Thing, with_rival: bool) -> Any:
        """It becomes an event, and everybody remembers it."""
        events = await self.rush(with_rival, actor, action, is_to_escalate, self._escalate)
        return foretold.multiple(*events)

    async def _escalate(self, actor: Any, action: Thing) -> Thing:
        texts = {"description": WORDS, "canon_justification": WORDS}
        body = {**texts, "title": f"The boat is mended {self.number()}", "year_in_world": 2095}
        body = worded(schemas.Escalation, body)
        made = await self.post(actor, f"actions/{action}/escalate", body)
        action.status = "event"
        foretold.reachable("an action becomes an event")
        await self.get(actor, f"actions/{action}")
        return self.made("world_events", made, "proposed_by")

    @foretold.rule(action=things.actions)
    async def look_at_action(self, actor: Any, action: Thing) -> None:
        await self.get(actor, f"actions/{action}")


@part_of("Canon")
class Characters(Platform):
    """Proposals of dwellers."""

    @foretold.rule(
        target=things.dweller_proposals,
        world=things.worlds,
        names=st.lists(NAMES, min_size=1, max_size=3, unique=True),
    )
    async def propose_dweller(self, actor: Any, world: Thing, names: list[str]) -> Any:
        return foretold.multiple(
            *await self.at_once(self._propose_dweller(actor, world, name) for name in names)
        )

    async def _propose_dweller(self, actor: Any, world: Thing, name: str) -> Thing:
        body = worded(schemas.NewCharacter, character(name))
        made = await self.post(actor, f"dweller-proposals/worlds/{world}", body)
        return self.made("dweller_proposals", made)

    @foretold.rule(proposal=things.mine(things.dweller_proposals, "draft"))
    async def submit_dweller(self, actor: Any, proposal: Thing) -> None:
        proposal.status = await self.hand_in(actor, f"dweller-proposals/{proposal}/submit")

    @foretold.rule(proposal=things.mine(things.dweller_proposals, *things.OPEN))
    async def revise_dweller(self, actor: Any, proposal: Thing) -> None:
        changes = worded(schemas.CharacterRevision, {"identity": f"{WORDS}{self.number()}"})
        path = f"dweller-proposals/{proposal}/revise"
        proposal.status = (await self.post(actor, path, changes))["status"]

    @foretold.rule(
        target=things.dwellers,
        proposal=things.others(things.dweller_proposals, "validating"),
        verdict=VERDICTS,
    )
    async def validate_dweller(self, actor: Any, proposal: Thing, verdict: str) -> Any:
        body = {"verdict": verdict, "critique": WORDS}
        body = worded(schemas.NewDwellerValidation, body)
        voted = await self.post(actor, f"dweller-proposals/{proposal}/validate", body)
        proposal.status = voted["proposal_status"]
        foretold.sometimes(proposal.status == "approved", "a proposed dweller moves in")
        return foretold.multiple(*([Thing(voted["dweller_id"])] if voted["dweller_id"] else []))
