"""Deep Sci-Fi as a machine: what agents do at the same time, and what must hold.

    foretold explore examples.deep_sci_fi.machine:DeepSciFi
    foretold explore examples.deep_sci_fi.machine:DeepSciFi --plant

The second line shows whether it would find anything: it plants the 32 mistakes of `app/bugs.py`,
one by one. Three to five agents, driven by up to five programs, use every endpoint.

    scenery.py      what is there when a run begins
    platform.py     who talks to the platform, and how its answers are judged
    worlds.py, canon.py, dwelling.py, community.py, agents.py      rules, by area
    tries.py        rules: old keys, what others have reviewed, what was sent before, one memory
    bodies.py       bodies of requests: now and then whatever the models allow
    rights.py       who may not do something is refused, whichever rule has tried
    game.py, bounds.py      the rules of the game, in SQL, after every commit
    history.py      no status is skipped
    promises.py     at the end: what agents were told is so, and what must come has come
    callbacks.py    what is posted to the agents' own servers
    told.py         every answer says what the database says
    pages.py        every page is read; who has no key is refused everywhere, and changes nothing
"""

import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

import foretold
from examples.deep_sci_fi.machine import scenery, things
from examples.deep_sci_fi.machine.agents import Accounts, Always, Inbox
from examples.deep_sci_fi.machine.bodies import BODIES
from examples.deep_sci_fi.machine.bounds import Bounds
from examples.deep_sci_fi.machine.canon import Canon, Judging, Opinions
from examples.deep_sci_fi.machine.community import Feed, Feedback, Stories
from examples.deep_sci_fi.machine.dwelling import Characters, Sweeping
from examples.deep_sci_fi.machine.game import Game
from examples.deep_sci_fi.machine.history import BORN, History
from examples.deep_sci_fi.machine.pages import Pages
from examples.deep_sci_fi.machine.platform import APP
from examples.deep_sci_fi.machine.promises import Promises
from examples.deep_sci_fi.machine.rights import Rights
from examples.deep_sci_fi.machine.things import Thing
from examples.deep_sci_fi.machine.tries import Keys, Reading, Remembering, Repeating
from examples.deep_sci_fi.machine.worlds import Criticising, Proposing, Revising, Suggesting


def known(table: str, bundle: Any, owner: str = "agent_id", **more: str) -> Any:
    """What the scenery has of one kind, for the rules to work with."""

    def there(self: Any) -> Any:
        rows = list(enumerate(getattr(scenery, table)(), 1))
        return foretold.multiple(*(_thing(table, n, row, owner, more) for n, row in rows))

    there.__name__ = f"there_are_{bundle.name}"
    return foretold.initialize(target=bundle)(there)


def _thing(kind: str, number: int, row: dict[str, Any], owner: str, more: dict[str, str]) -> Thing:
    status = row.get("status") or row.get("escalation_status") or BORN.get(kind, "draft")
    known = {name: row.get(column) for name, column in more.items()}
    return Thing(scenery.identity(kind, number), row.get(owner) or "", status, **known)


def _done(what: str, rows: Iterable[dict[str, Any]], who: str, agent: Any) -> set[str]:
    return {row[what] for row in rows if row[who] == agent.id}


class DeepSciFi(
    Pages,
    Repeating,
    Proposing,
    Revising,
    Criticising,
    Suggesting,
    Canon,
    Judging,
    Opinions,
    Remembering,
    Sweeping,
    Characters,
    Stories,
    Feedback,
    Feed,
    Accounts,
    Inbox,
    Always,
    Keys,
    Reading,
    Rights,
    Game,
    Bounds,
    History,
    Promises,
):
    """The whole platform."""

    covers = foretold.openapi(APP)
    generates = BODIES
    weights: ClassVar = {
        "validate": 4,
        "propose": 3,
        "claim": 3,
        "resolve_wish": 6,
        "review": 0.5,
        "add_wish": 0.8,
        "reopen_wish": 1.5,
        "read_reviews": 0.8,
        "escalate": 3,
        "upvote": 3,
        "react": 3,
        "accept": 2.5,
        "withdraw": 3,
        "revise": 2,
        "give_feedback": 2,
        "review_story": 3,
        "answer_review": 3,
        "remember_somebody": 2,
        "release": 2,
        "decide_feedback": 2,
        "wait": 0.7,
        "trespass": 0.3,
        "use_key": 0.4,
        "read_feed": 0.5,
        "browse": 1.5,
        "send_again": 0.8,
        "propose_twice": 0.5,
        "comment": 3,
        "submit": 6,
        "register": 2,
        "follow": 1.5,
        "add_key": 0.6,
        "revoke_key": 0.6,
        "revoke_any_key": 0.6,
        "beat": 0.6,
        "announce_maintenance": 0.6,
        "read_notifications": 0.6,
        "dismiss": 0.8,
        "sweep": 0.6,
        "act": 3,
        "look_around": 1.5,
        "add_region": 1.5,
        "confirm": 2,
        "nominate": 1.5,
        "approve_event": 1.5,
        "submit_aspect": 1.5,
        "write_story": 2,
        "validate_aspect": 2,
        "revise_aspect": 1.5,
    }

    async def setup(self) -> None:
        await super().setup()
        self.begun = self._proposals()

    there_are_worlds = known("worlds", things.worlds, "")
    there_are_aspects = known("aspects", things.aspects, kind="type")
    there_are_dwellers = known("dwellers", things.dwellers, "inhabited_by")
    there_are_dweller_proposals = known("dweller_proposals", things.dweller_proposals)
    there_are_actions = known(
        "dweller_actions",
        things.actions,
        "actor_id",
        importance="importance",
        confirmed="importance_confirmed_by",
    )
    there_are_events = known("world_events", things.events, "proposed_by")
    there_are_stories = known("stories", things.stories, "author_id")
    there_are_notifications = known("notifications", things.notes, "user_id")
    there_is_feedback = known("feedback", things.feedback, upvoters="upvoters")

    @foretold.initialize(targets=(things.proposals,))
    def there_are_proposals(self) -> Any:
        """With who has reviewed them."""
        for agent in self.agents:
            reviews, votes = scenery.review_feedback(), scenery.validations()
            agent.reviewed = _done("content_id", reviews, "reviewer_id", agent)
            agent.voted = _done("proposal_id", votes, "agent_id", agent)
            agent.recommended = _done("story_id", scenery.story_reviews(), "reviewer_id", agent)
            agent.tokens = {
                scenery.identity("dwellers", dweller): scenery.context_token(dweller)
                for dweller, by in scenery.INHABITED.items()
                if by == agent.number and dweller in scenery.READ
            }
        return foretold.multiple(*self.begun)

    @foretold.initialize(target=things.story_reviews)
    def there_are_story_reviews(self) -> Any:
        """Those that wait for an answer."""
        stories = [
            _thing("stories", n, row, "author_id", {}) for n, row in enumerate(scenery.stories(), 1)
        ]
        about = {str(story): story for story in stories}
        return foretold.multiple(
            *(
                Thing(scenery.identity("story_reviews", n), "", story=about[row["story_id"]])
                for n, row in enumerate(scenery.story_reviews(), 1)
                if not row["author_responded"]
            )
        )

    @foretold.initialize(target=things.keys)
    def there_are_keys(self) -> Any:
        """The spare ones; who revokes all of its keys can do nothing more."""
        rows = list(enumerate(scenery.api_keys(), 1))[scenery.AGENTS :]
        return foretold.multiple(
            *(
                Thing(scenery.identity("api_keys", n), row["user_id"], text=scenery.key_text(n - 1))
                for n, row in rows
            )
        )

    @foretold.initialize(target=things.items)
    def there_are_items(self) -> Any:
        """Of the reviewed proposals; each review has one."""
        contents = {str(proposal): proposal for proposal in self.begun}
        for number, review in enumerate(scenery.review_feedback(), 1):
            content = contents[review["content_id"]]
            about = {"raiser": review["reviewer_id"], "content": content, "of_revision": 0}
            key = scenery.identity("feedback_items", number)
            item = Thing(key, content.owner, scenery.wish_status(number), **about)
            content.more.setdefault("items", []).append(item)
        items = (content.more.get("items", []) for content in self.begun)
        return foretold.multiple(*itertools.chain.from_iterable(items))

    @foretold.initialize(target=things.suggestions)
    def there_are_suggestions(self) -> Any:
        """For some proposals."""
        targets = {str(proposal): proposal for proposal in self.begun}
        return foretold.multiple(
            *(
                Thing(
                    scenery.identity("revision_suggestions", number),
                    row["suggested_by"],
                    "pending",
                    target=targets[row["target_id"]],
                    upvotes=len(row["upvoters"]),
                )
                for number, row in enumerate(scenery.revision_suggestions(), 1)
            )
        )

    def _proposals(self) -> list[Thing]:
        rows = enumerate(scenery.proposals(), 1)
        more = {"system": "review_system", "revision": "revision_count"}
        found = [_thing("proposals", n, row, "agent_id", more) for n, row in rows]
        for proposal in found:
            proposal.more["system"] = proposal.more["system"] or "vote"
            proposal.more["revision"] = proposal.more["revision"] or 0
        found[scenery.DOUBTED - 1].more["doubted"] = True
        return found
