"""More rules of the game, as SQL: who has decided, how far one may go, what comes of what."""

from typing import Any

import foretold
from examples.deep_sci_fi.app.models import CHARACTER_FIELDS
from examples.deep_sci_fi.machine.platform import Platform
from examples.deep_sci_fi.machine.rights import CONTENTS
from examples.deep_sci_fi.machine.scenery import ago

CONCERNED = f"""{CONTENTS} union all select id, proposed_by from world_events
    union all select id, agent_id from feedback"""
ABOUT = ("proposal", "aspect", "target", "story", "event", "content", "feedback")
"""Where a notification says what it is about."""
TOLD_OF = {
    "proposal_validated": ("validations", "proposal_id", "proposal"),
    "aspect_validated": ("aspect_validations", "aspect_id", "aspect"),
    "story_reviewed": ("story_reviews", "story_id", "story"),
    "reviewed": ("review_feedback", "content_id", "content"),
    "suggestion": ("revision_suggestions", "target_id", "target"),
}
"""For some kinds of notifications, of which rows they tell; of those that are new in this run."""
UNTOLD = " union all ".join(
    f"""select {about}, '{kind}' as kind, count(*) as due from {table} t
        where created_at > '{ago(0.5)}' group by {about} having count(*) <> (
          select count(*) from notifications n
          where n.kind = '{kind}' and n.data->>'{name}' = t.{about}::text)"""
    for kind, (table, about, name) in TOLD_OF.items()
)
WORLD = ("name", "premise", "year_setting", "scientific_basis", "image_prompt", "citations")


def _copied(names: tuple[str, ...], made: str, by: str, proposal: str = "p") -> str:
    """The columns of something that was made from a proposal differ from the proposal's."""
    ours = ", ".join(f"{made}.{name}" for name in (*names, by))
    theirs = ", ".join(f"{proposal}.{name}" for name in (*names, "agent_id"))
    return f"({ours}) is distinct from ({theirs})"


class Bounds(Platform):
    """What the database tells of who was allowed to do what, and when."""

    @foretold.invariant(
        sql="""select s.id, s.status, s.decided_by, s.owner_deadline from revision_suggestions s
               left join proposals p on p.id = s.target_id
               left join aspects a on a.id = s.target_id
               where s.decided_by <> coalesce(p.agent_id, a.agent_id)
                 and (s.status = 'rejected' or
                      s.status = 'accepted' and s.owner_deadline > now() + interval '1 s')
               union all
               select s.id, s.status, s.suggested_by, null from revision_suggestions s
               where upvoters @> to_jsonb(suggested_by::text)
                  or (select count(distinct who) from jsonb_array_elements(upvoters) as u(who))
                     <> jsonb_array_length(upvoters)""",
        over="select count(*) from revision_suggestions where decided_by is not null",
    )
    def the_owner_has_four_hours(self, rows: Any) -> None:
        """Until the deadline nobody else accepts a suggestion, and nobody else ever rejects one; an
        upvote of it counts once, and not for one's own."""

    @foretold.invariant(
        sql=f"""select a.id, a.responder_id from feedback_responses a
                join feedback_items i on i.id = a.item_id
                join review_feedback r on r.id = i.review_id
                join ({CONTENTS}) c on c.id = r.content_id
                where a.responder_id not in (c.owner, r.reviewer_id)""",
        over="select count(*) from feedback_responses",
    )
    def wishes_are_answered_by_those_concerned(self, rows: Any) -> None:
        """Who answers a wish is the owner of the work, or who has raised it."""

    @foretold.invariant(
        sql="""select e.id, e.year_in_world, w.name from world_events e
               join worlds w on w.id = e.world_id
               where year_in_world not between (w.causal_chain->0->>'year')::int
                                           and w.year_setting + 10""",
        over="select count(*) from world_events",
    )
    def events_have_their_time(self, rows: Any) -> None:
        """An event lies between the first step of its world and ten years after the present."""

    @foretold.invariant(
        sql="""select id, actor_id from dweller_actions where importance_confirmed_by = actor_id
                  or importance_confirmed_by is not null and not escalation_eligible""",
        over="select count(*) from dweller_actions where importance_confirmed_by is not null",
    )
    def somebody_else_says_what_matters(self, rows: Any) -> None:
        """Who has done something does not confirm that it matters, and what matters little is not
        confirmed at all."""

    @foretold.invariant(
        sql="""select d.id, e.title from world_event_propagations p
               join dwellers d on d.id = p.dweller_id join world_events e on e.id = p.event_id
               where not d.core_memories @> to_jsonb(concat(e.year_in_world, ': ', e.title))""",
        over="select count(*) from world_event_propagations",
    )
    def an_event_is_not_forgotten(self, rows: Any) -> None:
        """What has become an event is among the core memories of those who were told."""

    @foretold.invariant(
        sql=f"""select w.id, w.name from worlds w join proposals p on p.id = w.proposal_id
                where {_copied(WORLD, "w", "created_by")}
                union all
                select d.id, d.name from dwellers d
                join dweller_proposals p on p.resulting_dweller_id = d.id
                where {_copied((*CHARACTER_FIELDS, "world_id"), "d", "created_by")}""",
        over="select count(*) from worlds",
    )
    def what_was_proposed_is_what_is_made(self, rows: Any) -> None:
        """A world and a dweller are what their proposals said, and belong to who proposed them."""

    @foretold.invariant(
        sql=f"""select n.id, n.kind, 0 as due from notifications n
                join ({CONCERNED}) c
                  on c.id::text in ({", ".join(f"n.data->>'{name}'" for name in ABOUT)})
                where n.user_id <> c.owner
                union all {UNTOLD}""",
        over="select count(*) from notifications where kind <> 'welcome'",
    )
    def those_concerned_are_told(self, rows: Any) -> None:
        """Each vote, review and suggestion is told to the owner of the work, once, and what is told
        concerns who is told."""
