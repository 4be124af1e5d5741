"""The table of accusations: planted mistakes of known cause, and whom their stories accuse.

For each race the guilty pair is known: what one had read, and the other changed. For a mistake that
one request makes by itself, any pair would be innocent. The stories are those of the kept tapes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foretold.kernel.session import session
from foretold.story.story import tell_run
from foretold.story.tale import Story
from tests.examples.kept_tapes import Shelf
from tests.examples.test_kept_tapes import SHELVES
from tests.helpers import again

GUILTY = {
    ("scenes", "claim_without_lock"): "dwellers",
    ("scenes", "escalate_unlocked"): "world_events",
    ("scenes", "graduation_without_lock"): "proposals",
    ("scenes", "idempotency_runs_twice"): "idempotency_keys",
    ("scenes", "limits_count_then_insert"): "proposals",
    ("scenes", "reactions_without_unique"): "worlds",
    ("scenes", "release_claim_race"): "dwellers",
    ("scenes", "touch_throttled"): "proposals",
    ("scenes", "upvote_read_modify_write"): "feedback",
    ("scenes", "validation_without_lock"): "proposals",
    ("scenes", "withdraw_accept_race"): "revision_suggestions",
    ("DeepSciFi", "graduation_without_lock"): "proposals",
    ("DeepSciFi", "limits_count_then_insert"): "dwellers",
    ("DeepSciFiApi", "idempotency_key_unscoped"): "idempotency_keys",
    ("Shop", "lost_update"): "item",
    ("Shop", "oversell"): "item",
    ("Shop", "skipped_state"): "orders",
    ("Shop", "check_then_insert"): "customer",
}
"""Races: the table of which one had read what the other changed. All others are no races."""
UNNAMED = {("Shop", "check_then_insert")}
"""Races whose pair is not told: the second INSERT is refused, so its transaction is not kept."""
SMOKE = {
    ("scenes", "upvote_read_modify_write"),
    ("scenes", "escalate_unlocked"),
    ("scenes", "rule_self_upvote"),
    ("Shop", "oversell"),
}
NAMED_MIN = 0.95
"""Of all mistakes, the share whose story accuses the guilty and nobody else."""


def cases() -> Iterator[tuple[Shelf, str]]:
    """All mistakes that have a tape."""
    for shelf in SHELVES:
        for bug in sorted(shelf.bugs):
            yield shelf, bug


def story_of(shelf: Shelf, bug: str) -> Story:
    """What is told of the kept tape."""
    tape = shelf.stored(bug).tape
    settings = {**tape.settings, "mutant": bug}
    done = again(shelf.program(bug), tape.derived(settings=settings), detail=True)
    assert done.error is not None, (shelf.name, bug)
    return tell_run(done)[0]


def accused(story: Story) -> str | None:
    """The table that the accused have read and changed; None if nobody is accused."""
    if story.pair is None:
        return None
    read, changed = story.pair
    assert read.did.removeprefix("read ") == changed.did.removeprefix("changed ")
    return changed.did.removeprefix("changed ")


@pytest.mark.parametrize(("shelf", "bug"), [(s, b) for s, b in cases() if (s.name, b) in SMOKE])
def test_the_guilty_are_named_first(shelf: Shelf, bug: str) -> None:
    """A smoke of the table below."""
    story = story_of(shelf, bug)
    guilty = GUILTY.get((shelf.name, bug))
    assert accused(story) == guilty
    assert story.startswith("In the database") == (guilty is not None)


@pytest.mark.soak
def test_the_table_of_accusations() -> None:
    """All of them: no story accuses an innocent one, and nearly all name the guilty."""
    wrong, named, total = [], 0, 0
    with session():
        for shelf, bug in cases():
            total += 1
            key, found = (shelf.name, bug), accused(story_of(shelf, bug))
            guilty = GUILTY.get(key)
            named += found == guilty
            if found not in (None, guilty) or (found is None and guilty and key not in UNNAMED):
                wrong.append((key, found, guilty))
    assert not wrong
    assert total >= 40
    assert named / total >= NAMED_MIN, f"{named} of {total}"
