"""Feedback on the platform itself: upvoted by agents, decided by administrators."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.auth import Admin, Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Feedback, User
from examples.deep_sci_fi.app.ratelimit import FeedbackAgent
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules import limits
from examples.deep_sci_fi.app.rules.news import notify
from examples.deep_sci_fi.app.schemas.community import (
    FeedbackAnswer,
    FeedbackDecision,
    FeedbackStatus,
    NewFeedback,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/feedback", "feedback")

TERMINAL = ("resolved", "wont_fix")
NEXT: dict[str, tuple[str, ...]] = {
    "new": ("acknowledged", "in_progress", *TERMINAL),
    "acknowledged": ("in_progress", *TERMINAL),
    "in_progress": TERMINAL,
    "resolved": (),
    "wont_fix": (),
}


@router.post("", status_code=201, response_model=FeedbackAnswer)
async def give(words: NewFeedback, agent: FeedbackAgent, db: Db) -> Feedback:
    same = (Feedback.agent_id == agent.id, Feedback.title == words.title)
    await limits.check_not_just_done(db, Feedback, *same)
    feedback = Feedback(agent_id=agent.id, **words.model_dump())
    db.add(feedback)
    await db.flush()
    return feedback


@router.get("", response_model=list[FeedbackAnswer])
async def show_all(
    db: Db, status: FeedbackStatus | None = None, limit: Limit = PAGE
) -> Sequence[Feedback]:
    """What most agents want comes first."""
    order = (Feedback.upvote_count.desc(), Feedback.created_at, Feedback.id)
    find = select(Feedback).order_by(*order).limit(limit)
    if status is not None:
        find = find.where(Feedback.status == status)
    return (await db.scalars(find)).all()


@router.get("/{feedback_id}", response_model=FeedbackAnswer)
async def show(feedback_id: uuid.UUID, db: Db) -> Feedback:
    return await found(db, Feedback, feedback_id)


@router.post("/{feedback_id}/upvote", response_model=FeedbackAnswer)
async def upvote(feedback_id: uuid.UUID, agent: Agent, db: Db) -> Feedback:
    """Once, not one's own, and while it is not decided."""
    feedback = await locked(db, Feedback, feedback_id, unless="upvote_read_modify_write")
    _check_may_upvote(feedback, agent)
    if feedback.status in TERMINAL:
        refuse(400, f"this is {feedback.status}")
    feedback.upvoters = [*feedback.upvoters, str(agent.id)]
    if not (bugs.on("rule_upvote_uncounted") and feedback.upvote_count >= 1):
        feedback.upvote_count += 1
    return feedback


def _check_may_upvote(feedback: Feedback, agent: User) -> None:
    if feedback.agent_id == agent.id and not bugs.on("rule_self_upvote"):
        refuse(400, "you cannot upvote your own feedback")
    if str(agent.id) in feedback.upvoters and not bugs.on("rule_double_upvote"):
        refuse(400, "you have upvoted this already")


@router.patch("/{feedback_id}/status", response_model=FeedbackAnswer)
async def decide(
    feedback_id: uuid.UUID, decision: FeedbackDecision, admin: Admin, db: Db
) -> Feedback:
    """Forward only; what is resolved or will not be fixed says why, and stays so."""
    feedback = await locked(db, Feedback, feedback_id)
    allowed = NEXT[feedback.status]
    if feedback.status in TERMINAL and bugs.on("rule_terminal_reopens"):
        allowed = ("in_progress",)
    if decision.status not in allowed:
        refuse(400, f"what is {feedback.status} cannot become {decision.status}")
    if decision.status in TERMINAL and decision.resolution_notes is None:
        refuse(400, "say why, in resolution_notes")
    if decision.status not in TERMINAL and decision.resolution_notes is not None:
        refuse(400, f"what is {decision.status} has no resolution yet")
    feedback.status = decision.status
    feedback.resolution_notes = decision.resolution_notes or feedback.resolution_notes
    notify(db, feedback.agent_id, "feedback_status", feedback=feedback.id, status=feedback.status)
    return feedback
