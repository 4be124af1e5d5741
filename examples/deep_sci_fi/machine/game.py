"""The rules of the game, as SQL: after every commit each of these finds nothing."""

from typing import Any

import foretold
from examples.deep_sci_fi.machine.platform import Platform

ENOUGH = """
    select p.id, p.status from {proposals} p join lateral (
      select count(*) filter (where verdict = 'approve') as approvals,
             count(*) filter (where verdict = 'reject') as rejections,
             count(*) filter (
               where verdict = 'strengthen' and of_revision = p.revision_count) as gate
      from {votes} v where v.proposal_id = p.id) votes on true
    where {wrong}"""
UNDECIDED = """p.status = 'validating' and
    (rejections >= 2 or approvals >= 2 and rejections = 0 and gate = 0)"""
TOO_SOON = """p.status = 'approved' and (approvals < 2 or rejections > 0)
    or p.status = 'rejected' and rejections < 2"""


class Game(Platform):
    """What must hold on the platform, as its database tells."""

    # --- proposals -------------------------------------------------------------------------------

    @foretold.invariant(
        sql=ENOUGH.format(proposals="proposals", votes="validations", wrong=UNDECIDED),
        over="select count(*) from validations",
    )
    def enough_votes_decide(self, rows: Any) -> None:
        """A proposal with enough votes is decided, at once."""

    @foretold.invariant(
        sql=ENOUGH.format(
            proposals="proposals",
            votes="validations",
            wrong=f"p.review_system = 'vote' and ({TOO_SOON})",
        ),
        over="select count(*) from proposals where status in ('approved', 'rejected')",
    )
    def a_world_needs_two_approvals(self, rows: Any) -> None:
        """A proposal is approved by two approvals, and rejected by two rejections."""

    @foretold.invariant(
        sql=ENOUGH.format(
            proposals="dweller_proposals", votes="dweller_validations", wrong=UNDECIDED
        ),
        over="select count(*) from dweller_validations",
    )
    def enough_votes_decide_on_dwellers(self, rows: Any) -> None:
        """A proposed dweller with enough votes is decided, at once."""

    @foretold.invariant(
        sql=ENOUGH.format(
            proposals="dweller_proposals", votes="dweller_validations", wrong=TOO_SOON
        ),
        over="select count(*) from dweller_validations",
    )
    def a_dweller_needs_two_approvals(self, rows: Any) -> None:
        """A proposed dweller is approved by two approvals, and rejected by two rejections."""

    @foretold.invariant(
        sql="""select p.id, p.status, p.resulting_world_id, w.id as world
               from proposals p full join worlds w on w.proposal_id = p.id
               where (p.status = 'approved') <> (w.id is not null)
                  or p.resulting_world_id is distinct from w.id""",
        over="select count(*) from worlds",
    )
    def approved_means_one_world(self, rows: Any) -> None:
        """An approved proposal has its world, no other proposal has one, and none has two."""

    @foretold.invariant(
        sql="""select p.id, count(r.id) as reviewers from proposals p
               left join review_feedback r on r.content_id = p.id
               where p.review_system = 'review' and p.status = 'approved'
               group by p.id having count(r.id) < 2""",
        over="select count(*) from review_feedback",
    )
    def graduation_needs_two_reviewers(self, rows: Any) -> None:
        """A reviewed proposal becomes a world after two reviewers."""

    @foretold.invariant(
        sql="""select p.id, v.agent_id from proposals p join validations v on v.proposal_id = p.id
               where p.status = 'draft' or v.agent_id = p.agent_id
               union all
               select a.id, v.agent_id from aspects a
               join aspect_validations v on v.aspect_id = a.id
               where a.status = 'draft' or v.agent_id = a.agent_id""",
        over="select count(*) from validations",
    )
    def votes_are_on_others_submitted_work(self, rows: Any) -> None:
        """Nobody votes on a draft, or on their own work."""

    @foretold.invariant(
        sql="""select agent_id, count(*) as open from proposals
               where status in ('draft', 'validating') group by agent_id having count(*) > 3
               union all
               select agent_id, count(*) from dweller_proposals
               where status in ('draft', 'validating') group by agent_id having count(*) > 5
               union all
               select inhabited_by, count(*) from dwellers where inhabited_until > now()
               group by inhabited_by having count(*) > 5""",
        over="select count(*) from proposals where status in ('draft', 'validating')",
    )
    def nobody_has_too_much(self, rows: Any) -> None:
        """An agent has three open proposals, five of dwellers, and five dwellers at most."""

    @foretold.invariant(
        sql="""select agent_id, name, count(*) as times from proposals
               group by agent_id, name having count(*) > 1""",
        over="select count(*) from proposals",
    )
    def a_proposal_is_made_once(self, rows: Any) -> None:
        """The same proposal, sent twice, is one row."""

    # --- aspects, events -------------------------------------------------------------------------

    @foretold.invariant(
        sql="""select a.id from aspects a join aspect_validations v on v.aspect_id = a.id
               where v.verdict = 'approve' and v.updated_canon_summary is null
               union all
               select a.id from aspects a where a.status in ('approved', 'rejected')
                 and not exists (select from aspect_validations v where v.aspect_id = a.id
                                 and v.verdict = case a.status when 'approved' then 'approve'
                                                 else 'reject' end)""",
        over="select count(*) from aspect_validations",
    )
    def an_approved_aspect_updates_the_canon(self, rows: Any) -> None:
        """Who approves an aspect says what is true in the world from then on."""

    @foretold.invariant(
        sql="""select a.id, a.type from aspects a join worlds w on w.id = a.world_id
               where a.status = 'approved' and a.type = 'region' and not w.regions
                 @> jsonb_build_array(jsonb_build_object('name', a.content->>'name'))
               union all
               select a.id, a.type from aspects a join worlds w on w.id = a.world_id
               join aspect_validations v on v.aspect_id = a.id and v.verdict = 'approve'
               where a.type = 'event' and jsonb_typeof(v.approved_timeline_entry) = 'object'
                 and not w.causal_chain @> jsonb_build_array(v.approved_timeline_entry)""",
        over="select count(*) from aspects where status = 'approved'",
    )
    def an_approved_aspect_is_part_of_its_world(self, rows: Any) -> None:
        """A region that was approved is one of its world's, an event is in the timeline."""

    @foretold.invariant(
        sql="""select w.id, step from worlds w, jsonb_array_elements(causal_chain)
                 with ordinality as one(step, place)
               join lateral (select step as next, place as at
                 from jsonb_array_elements(w.causal_chain) with ordinality as two(step, place)) n
               on n.at = one.place + 1 where (step->>'year')::int > (next->>'year')::int
               union all
               select w.id, to_jsonb(region->>'name') from worlds w,
                 jsonb_array_elements(regions) as all_of(region)
               group by w.id, region->>'name' having count(*) > 1""",
        over="select sum(jsonb_array_length(causal_chain)) from worlds",
    )
    def timelines_are_in_order(self, rows: Any) -> None:
        """The chain of a world is in the order of years; regions have different names."""

    @foretold.invariant(
        sql="""select origin_action_id as id, count(*) || ' events' as wrong from world_events
               where origin_action_id is not null group by origin_action_id having count(*) > 1
               union all
               select id, 'decided by nobody, or by who proposed it' from world_events
               where proposed_by = decided_by or (status = 'pending') <> (decided_by is null)
               union all
               select e.id, 'of an action that is not confirmed' from world_events e
               join dweller_actions a on a.id = origin_action_id
               where a.importance_confirmed_by is null or a.importance_confirmed_by = a.actor_id
                  or not a.escalation_eligible
               union all
               select id, 'eligible by its importance' from dweller_actions
               where escalation_eligible <> (importance >= 0.8)""",
        over="select count(*) from world_events",
    )
    def an_action_becomes_one_event(self, rows: Any) -> None:
        """An action that matters and is confirmed by somebody else becomes one event; who has
        proposed an event does not decide on it."""

    @foretold.invariant(
        sql="""select e.id from world_events e join dwellers d on d.world_id = e.world_id
               where e.origin = 'escalation' and d.created_at < e.created_at and not exists (
                 select from world_event_propagations p
                 where p.event_id = e.id and p.dweller_id = d.id)""",
        over="select count(*) from world_events where origin = 'escalation'",
    )
    def everybody_remembers_an_event(self, rows: Any) -> None:
        """What has become an event is known to all who lived there."""

    # --- dwellers --------------------------------------------------------------------------------

    @foretold.invariant(
        sql="""select d.id, d.name, d.is_available, d.inhabited_by, t.agent_id as tenant
               from dwellers d left join tenancies t on t.dweller_id = d.id and t.ended_at is null
               where d.inhabited_by is distinct from t.agent_id
                  or d.is_available <> (d.inhabited_by is null)
               union all
               select dweller_id, count(*) || ' inhabitants', null, null, null from tenancies
               where ended_at is null group by dweller_id having count(*) > 1""",
        over="select count(*) from tenancies",
    )
    def a_dweller_has_one_inhabitant(self, rows: Any) -> None:
        """A dweller has one inhabitant at most, and is free only if it has none."""

    @foretold.invariant(
        sql="""select a.id, d.name from dweller_actions a
               join dwellers d on d.id in (a.dweller_id, a.target_dweller_id)
               where not exists (select from jsonb_array_elements(d.episodic_memories) e
                                 where e->>'action' = a.id::text)""",
        over="select count(*) from dweller_actions",
    )
    def dwellers_remember_what_they_did(self, rows: Any) -> None:
        """A dweller remembers each of its actions, and what others have done to it."""

    # --- counters --------------------------------------------------------------------------------

    @foretold.invariant(
        sql="""select w.id, 'dwellers' as what, w.dweller_count as counted from worlds w
               where dweller_count <> (select count(*) from dwellers where world_id = w.id)
               union all
               select w.id, 'comments', w.comment_count from worlds w
               where comment_count <> (select count(*) from comments where world_id = w.id)
               union all
               select w.id, 'followers', w.follower_count from worlds w
               where follower_count <> (select count(*) from social_interactions
                                        where target_id = w.id and kind = 'follow')
               union all
               select w.id, k.kind, (k.number)::int from worlds w, jsonb_each_text(reaction_counts)
                 as k(kind, number)
               where k.number::int <> (select count(*) from social_interactions s
                                       where s.target_id = w.id and s.kind = k.kind)
               union all
               select s.id, 'reactions', s.reaction_count from stories s
               where reaction_count <> (select count(*) from social_interactions
                                        where target_id = s.id)""",
        over="select count(*) from social_interactions",
    )
    def counters_count(self, rows: Any) -> None:
        """Dwellers, comments, followers and reactions are as many as their counters say."""

    @foretold.invariant(
        sql="""select user_id, text, count(*) as times from comments where text like 'Comment %'
               group by user_id, text having count(*) > 1""",
        over="select count(*) from comments",
    )
    def a_comment_is_made_once(self, rows: Any) -> None:
        """What was sent again under its idempotency key is not done again."""

    # --- stories, feedback, suggestions ----------------------------------------------------------

    @foretold.invariant(
        sql="""select s.id, s.revision_count from stories s where status = 'acclaimed' and (
                 revision_count < 1 or 2 > (select count(*) from story_reviews r where
                   r.story_id = s.id and recommend_acclaim and author_responded))
               union all
               select s.id, s.revision_count from stories s where status = 'published'
                 and revision_count > 0
                 and 2 <= (select count(*) from story_reviews r where r.story_id = s.id
                           and recommend_acclaim)
                 and not exists (select from story_reviews r where r.story_id = s.id
                                 and not author_responded)""",
        over="select count(*) from story_reviews",
    )
    def acclaim_is_deserved(self, rows: Any) -> None:
        """A story is acclaimed when two recommend it, all reviews are answered, and it was revised;
        and not before."""

    @foretold.invariant(
        sql="""select s.id, s.author_id as who from stories s join story_reviews r
                 on r.story_id = s.id and r.reviewer_id = s.author_id
               union all
               select s.id, s.author_id from stories s join review_feedback r
                 on r.content_id = s.id and r.reviewer_id = s.author_id
               union all
               select p.id, p.agent_id from proposals p join review_feedback r
                 on r.content_id = p.id and r.reviewer_id = p.agent_id
               union all
               select s.id, s.suggested_by from revision_suggestions s join proposals p
                 on p.id = s.target_id and p.agent_id = s.suggested_by
               union all
               select s.id, s.suggested_by from revision_suggestions s join aspects a
                 on a.id = s.target_id and a.agent_id = s.suggested_by""",
        over="select count(*) from review_feedback",
    )
    def nobody_reviews_their_own(self, rows: Any) -> None:
        """Nobody reviews their own work, or makes suggestions to themselves."""

    @foretold.invariant(
        sql="""select f.id, f.upvote_count, f.upvoters from feedback f
               where upvote_count <> jsonb_array_length(upvoters)
                  or upvoters @> to_jsonb(agent_id::text)
                  or (select count(distinct who) from jsonb_array_elements(upvoters) as u(who))
                     <> jsonb_array_length(upvoters)""",
        over="select count(*) from feedback where upvote_count > 0",
    )
    def upvotes_count_once(self, rows: Any) -> None:
        """Each upvote counts, an agent has one, and none for its own feedback."""

    @foretold.invariant(
        sql="""select f.id, f.status from feedback f
               where (resolution_notes is not null) <> (status in ('resolved', 'wont_fix'))""",
        over="select count(*) from feedback where status in ('resolved', 'wont_fix')",
    )
    def what_is_resolved_says_why(self, rows: Any) -> None:
        """Feedback that is resolved or will not be fixed says why, and stays so."""

    @foretold.invariant(
        sql="""select s.id, s.status, s.decided_by from revision_suggestions s
               where (status in ('accepted', 'rejected')) <> (decided_by is not null)
               union all
               select s.id, s.status, s.decided_by from revision_suggestions s
               left join proposals p on p.id = s.target_id
               left join aspects a on a.id = s.target_id
               where s.status = 'accepted' and s.decided_by <> coalesce(p.agent_id, a.agent_id)
                 and jsonb_array_length(s.upvoters) < 3""",
        over="select count(*) from revision_suggestions where status <> 'pending'",
    )
    def a_suggestion_is_decided_once(self, rows: Any) -> None:
        """A suggestion is accepted, rejected or withdrawn, by who may; and one of these alone."""
