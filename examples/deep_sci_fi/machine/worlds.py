"""Rules: proposals of worlds, votes, critical review, suggestions."""

import functools
from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.schemas import community
from examples.deep_sci_fi.app.schemas import worlds as schemas
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.bodies import worded
from examples.deep_sci_fi.machine.platform import Platform, also_in, area, part_of
from examples.deep_sci_fi.machine.scenery import WORDS, chain
from examples.deep_sci_fi.machine.things import Thing

VERDICTS = st.sampled_from(["approve"] * 6 + ["strengthen", "reject"])
NAMES = st.sampled_from(["Tide", "Ash", "Loam", "Fern", "Uphill", "Sand", "Rime", "Mist"])
ITEM = foretold.from_model(community.NewItem, description=st.just(WORDS))


def vote(verdict: str) -> dict[str, Any]:
    """On a proposal of a world."""
    words = {"critique": WORDS, "research_conducted": WORDS * 2}
    return {"verdict": verdict, **words, "weaknesses": ["rivers"] if verdict == "approve" else []}


def is_to_vote_on(proposal: Thing, agent: Any) -> bool:
    """By others than its owner, once."""
    done = proposal.owner == agent.id or proposal in agent.voted
    return not done and proposal.more["system"] == "vote" and proposal.status == "validating"


def was_reviewed(proposal: Thing, agent: Any) -> bool:
    """By this agent."""
    return str(proposal) in agent.reviewed


def is_decided(content: Thing) -> bool:
    """There is nothing left to wish for."""
    return content.status in ("approved", "rejected")


def is_to_resolve(item: Thing, agent: Any) -> bool:
    """By this agent, who has raised it."""
    content: Thing = item.more["content"]
    mine = item.more["raiser"] == agent.id and item.status in ("open", "addressed")
    revised = content.more.get("revision", 0) > item.more["of_revision"]
    return bool(mine and revised and not is_decided(content))


def was_settled(item: Thing, agent: Any) -> bool:
    """This agent has raised it, and may think again."""
    mine = item.more["raiser"] == agent.id and not is_decided(item.more["content"])
    return bool(mine and item.status not in ("open", "addressed"))


def may_accept(suggestion: Thing, agent: Any) -> bool:
    """The owner of the target, or anybody if three others want it."""
    known = suggestion.more["target"].owner == agent.id or suggestion.more["upvotes"] >= 3
    return bool(known and suggestion.status == "pending")


def was_suggested_to(suggestion: Thing, agent: Any) -> bool:
    """This agent decides."""
    return bool(suggestion.more["target"].owner == agent.id and suggestion.status == "pending")


def is_to_back(suggestion: Thing, agent: Any) -> bool:
    """By others."""
    return suggestion.owner != agent.id and suggestion.status == "pending"


@area
class Proposing(Platform):
    """How worlds come about."""

    @foretold.rule(
        target=things.proposals,
        names=st.lists(NAMES, min_size=1, max_size=3, unique=True),
        system=st.sampled_from(["vote", "vote", "review"]),
    )
    async def propose(self, actor: Any, names: list[str], system: str) -> Any:
        """A world of one's own, or several."""
        return foretold.multiple(
            *await self.at_once(self._propose(actor, name, system) for name in names)
        )

    def world_called(self, name: str, system: str = "vote") -> dict[str, Any]:
        """A proposal."""
        texts = dict.fromkeys(("premise", "scientific_basis", "image_prompt"), WORDS)
        about = {"name": name, "year_setting": 2100, "causal_chain": chain(), **texts}
        return {**about, "review_system": system}

    async def _propose(self, actor: Any, name: str, system: str) -> Thing:
        body = worded(schemas.NewProposal, self.world_called(name, system))
        answer = await self.send(actor, "POST", "proposals", body)
        foretold.sometimes(answer.status_code == 429, "an agent has three open proposals")
        made = self.judge(answer)
        await self.look(actor, f"proposals/{made['id']}")
        return self.made("proposals", made, system=made["review_system"])

    @foretold.rule(proposal=things.mine(things.proposals, "draft"), force=st.booleans())
    @also_in("Reviewing", "Suggesting")
    async def submit(self, actor: Any, proposal: Thing, force: bool) -> None:
        path = f"proposals/{proposal}/submit?force={force}".lower()
        proposal.status = await self.hand_in(actor, path)

    @foretold.rule(
        target=things.worlds,
        proposal=st.one_of(
            *[things.fit(things.proposals, is_to_vote_on)] * 6,
            things.others(things.proposals, "draft"),
        ),
        verdict=VERDICTS,
        with_rival=things.RIVAL,
    )
    async def validate(self, actor: Any, proposal: Thing, verdict: str, with_rival: bool) -> Any:
        """Vote on it, some too soon; the deciding vote makes a world."""
        vote = functools.partial(self._validate, verdict)
        made = await self.rush(with_rival, actor, proposal, is_to_vote_on, vote)
        return foretold.multiple(*(world for world in made if world))

    async def _validate(self, verdict: str, actor: Any, proposal: Thing) -> Thing | None:
        actor.agent.voted.add(proposal)
        if proposal.more.get("doubted") and foretold.choose((True, False), "doubts it as well"):
            verdict = "reject"
        body = worded(schemas.NewValidation, vote(verdict))
        voted = await self.post(actor, f"proposals/{proposal}/validate", body)
        proposal.status = voted["proposal_status"]
        proposal.more["doubted"] = proposal.more.get("doubted") or body["verdict"] == "reject"
        foretold.sometimes(proposal.status == "approved", "a proposal is approved")
        foretold.sometimes(proposal.status == "rejected", "a proposal is rejected")
        return Thing(voted["world_id"]) if voted["world_id"] else None


@part_of("Proposing", "Reviewing", "Suggesting")
class Revising(Platform):
    """What authors do about what others say."""

    @foretold.rule(proposal=things.mine(things.proposals, *things.OPEN))
    async def revise(self, actor: Any, proposal: Thing) -> None:
        changes = {"premise": f"{WORDS}{self.number()}"}
        changes = worded(schemas.ProposalRevision, changes)
        before = proposal.status
        revised = await self.post(actor, f"proposals/{proposal}/revise", changes)
        proposal.status, proposal.more["revision"] = revised["status"], revised["revision_count"]
        decided = before == "validating" and proposal.status == "approved"
        foretold.sometimes(decided, "a revision opens the gate, and a proposal is approved")


@area
class Reviewing(Platform):
    """Critical review: a world when two reviewers have nothing left to wish for."""

    @foretold.rule(
        target=things.items,
        proposal=things.others(things.proposals, "validating"),
        wishes=st.lists(ITEM, min_size=1, max_size=2),
    )
    async def review(self, actor: Any, proposal: Thing, wishes: Any) -> Any:
        return await self._review(actor, "proposal", proposal, "feedback", wishes)

    async def _review(self, actor: Any, kind: str, content: Thing, way: str, wishes: Any) -> Any:
        wanted = [wish.model_dump() for wish in wishes]
        body = worded(community.NewReview, {"items": wanted})
        given = await self.post(actor, f"review/{kind}/{content}/{way}", body)
        actor.agent.reviewed.add(str(content))
        self.made("review_feedback", given)
        about = {"raiser": given["reviewer_id"], "content": content}
        found = [
            Thing(
                item["id"], content.owner, item["status"], of_revision=item["of_revision"], **about
            )
            for item in given["items"][-len(body["items"]) :]
        ]
        content.more.setdefault("items", []).extend(found)
        return foretold.multiple(*found)

    @foretold.rule(
        target=things.items, proposal=things.fit(things.proposals, was_reviewed), wish=ITEM
    )
    async def add_wish(self, actor: Any, proposal: Thing, wish: Any) -> Any:
        return await self._review(actor, "proposal", proposal, "add-feedback", [wish])

    @foretold.rule(item=things.mine(things.items, "open"), dispute=st.booleans())
    async def answer_wish(self, actor: Any, item: Thing, dispute: bool) -> None:
        body = worded(community.ItemReply, {"text": WORDS, "dispute": dispute})
        self._hear(item, await self.post(actor, f"review/feedback-item/{item}/respond", body))

    @foretold.rule(item=things.fit(things.items, is_to_resolve), with_rival=things.RIVAL)
    async def resolve_wish(self, actor: Any, item: Thing, with_rival: bool) -> None:
        """Its raiser is content; perhaps another reviewer is, too."""
        await self.rush(with_rival, actor, item, is_to_resolve, self._resolve)

    async def _resolve(self, actor: Any, item: Thing) -> None:
        self._hear(item, await self.post(actor, f"review/feedback-item/{item}/resolve"))

    @foretold.rule(item=things.fit(things.items, was_settled))
    async def reopen_wish(self, actor: Any, item: Thing) -> None:
        body = worded(community.Reply, {"text": WORDS})
        self._hear(item, await self.post(actor, f"review/feedback-item/{item}/reopen", body))

    def _hear(self, item: Thing, changed: Any) -> None:
        item.status = changed["item"]["status"]
        content = item.more["content"]
        content.status = changed["content_status"]
        foretold.sometimes(changed["world_id"] is not None, "a reviewed proposal graduates")

    @foretold.rule(proposal=things.proposals)
    async def read_reviews(self, actor: Any, proposal: Thing) -> None:
        await self.see_reviews(actor, "proposal", proposal)

    async def see_reviews(self, actor: Any, kind: str, content: Thing) -> None:
        """Who might still write one is blind; owners and reviewers see everything."""
        had_reviewed = str(content) in actor.agent.reviewed
        found = await self.get(actor, f"review/{kind}/{content}/feedback")
        me, reviewers = actor.agent.id, {review["reviewer_id"] for review in found["reviews"]}
        sees = self.is_mine(actor, content) or had_reviewed
        foretold.sometimes(found["blind"], "a reader of reviews is blind")
        foretold.always(not (found["blind"] and sees), "owners and reviewers see all reviews")
        fair = found["blind"] or self.is_mine(actor, content) or me in reviewers
        foretold.always(fair, "who has not reviewed sees nothing of what others wrote")


@part_of("Reviewing", "Canon")
class Examining(Reviewing):
    """What somebody wants to add to a world can be reviewed as well."""

    @foretold.rule(
        target=things.items, aspect=things.others(things.aspects, "validating"), wish=ITEM
    )
    async def review_aspect(self, actor: Any, aspect: Thing, wish: Any) -> Any:
        return await self._review(actor, "aspect", aspect, "feedback", [wish])

    @foretold.rule(
        target=things.items,
        proposal=things.others(things.dweller_proposals, "validating"),
        wish=ITEM,
    )
    async def review_character(self, actor: Any, proposal: Thing, wish: Any) -> Any:
        return await self._review(actor, "dweller_proposal", proposal, "feedback", [wish])


@part_of("Reviewing", "Stories")
class Criticising(Examining):
    """And so can stories."""

    @foretold.rule(target=things.items, story=things.stories, wish=ITEM)
    async def criticise(self, actor: Any, story: Thing, wish: Any) -> Any:
        """A critical review of a story, which is a word more than other reviews."""
        return await self._review(actor, "story", story, "feedback", [wish])


@area
class Suggesting(Platform):
    """What others would change."""

    @foretold.rule(
        target=things.suggestions, proposal=things.others(things.proposals, *things.OPEN)
    )
    async def suggest(self, actor: Any, proposal: Thing) -> Thing:
        return await self._suggest(actor, "proposal", proposal)

    async def _suggest(self, actor: Any, kind: str, target: Thing) -> Thing:
        text = f"{WORDS} Suggestion {self.number()}."
        body = {"field": "premise", "suggested_value": text, "rationale": WORDS}
        body = worded(community.NewSuggestion, body)
        made = await self.post(actor, f"suggestions/on/{kind}/{target}", body)
        return self.made("revision_suggestions", made, "suggested_by", target=target, upvotes=0)

    @foretold.rule(target=things.suggestions, aspect=things.others(things.aspects, *things.OPEN))
    async def suggest_for_aspect(self, actor: Any, aspect: Thing) -> Thing:
        return await self._suggest(actor, "aspect", aspect)

    @foretold.rule(suggestion=things.fit(things.suggestions, may_accept))
    async def accept(self, actor: Any, suggestion: Thing) -> None:
        """By the owner; or by anybody, when the owner's time is over and three want it."""
        await self._accept(actor, suggestion)

    async def _accept(self, actor: Any, suggestion: Thing) -> None:
        target: Thing = suggestion.more["target"]
        mine = self.is_mine(actor, target)
        made = await self.post(actor, f"suggestions/{suggestion}/accept")
        suggestion.status = made["status"]
        foretold.sometimes(not mine, "the crowd accepts a suggestion")

    @foretold.rule(suggestion=things.fit(things.suggestions, was_suggested_to))
    async def reject_suggestion(self, actor: Any, suggestion: Thing) -> None:
        suggestion.status = (await self.post(actor, f"suggestions/{suggestion}/reject"))["status"]

    @foretold.rule(suggestion=things.mine(things.suggestions, "pending"), with_rival=things.RIVAL)
    async def withdraw(self, actor: Any, suggestion: Thing, with_rival: bool) -> None:
        """Perhaps when somebody is about to accept it."""
        await self.rush(with_rival, actor, suggestion, may_accept, self._withdraw, self._accept)

    async def _withdraw(self, actor: Any, suggestion: Thing) -> None:
        suggestion.status = (await self.post(actor, f"suggestions/{suggestion}/withdraw"))["status"]

    @foretold.rule(suggestion=things.fit(things.suggestions, is_to_back), with_rival=things.RIVAL)
    async def upvote_suggestion(self, actor: Any, suggestion: Thing, with_rival: bool) -> None:
        await self.rush(with_rival, actor, suggestion, is_to_back, self._back)

    async def _back(self, actor: Any, suggestion: Thing) -> None:
        await self.post(actor, f"suggestions/{suggestion}/upvote")
        self.backed.add((suggestion, actor.agent.id))
        suggestion.more["upvotes"] += 1
