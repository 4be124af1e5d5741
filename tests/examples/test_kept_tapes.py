"""Each planted mistake has a tape that fails with the mistake and holds without it.

All 32 switches of Deep Sci-Fi have one of their scene, a dozen also one of the machine; all bugs of
the shop and of Luciferase have one, and all of Cardinal have one of each game. They guard what
guards: rules, invariants and faults still find these mistakes.
`kept_tapes.py` says how the tapes are made, and how to record them anew.
"""

from __future__ import annotations

import os

import pytest

from examples.cardinal import simulation as cardinal
from examples.cardinal.bugs import BUGS as OF_CARDINAL
from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.machine import DeepSciFi
from examples.deep_sci_fi.schema_machine import DeepSciFiApi
from examples.luciferase.bugs import BUGS as OF_LUCIFERASE
from examples.luciferase.machine import Luciferase
from examples.shop.bugs import BUGS
from examples.shop.machine import Shop
from tests.examples import test_deep_sci_fi_bugs as scenes
from tests.examples.kept_tapes import Shelf, noted

BY_MACHINE = (
    "feed_cursor_separator",
    "graduation_without_lock",
    "limits_count_then_insert",
    "memories_mutated_in_place",
    "release_claim_race",
    "rule_canon_optional",
    "rule_claim_inhabited",
    "rule_one_approval",
    "rule_self_upvote",
    "rule_vote_on_drafts",
    "third_registration_fails",
    "world_id_before_flush",
)
"""Switches with a tape of the machine as well. To record one takes up to some minutes."""
BY_SCHEMA = ("idempotency_key_unscoped", "rule_unauthenticated_writes")
"""Those of `test_deep_sci_fi_openapi.py` that shrink to a small tape in few runs."""
SHELVES = (
    Shelf("scenes", bugs.KNOWN, scenes.main_for, runs_max=40),
    Shelf("DeepSciFi", BY_MACHINE, lambda bug: DeepSciFi, runs_max=500),
    Shelf("DeepSciFiApi", BY_SCHEMA, lambda bug: DeepSciFiApi, runs_max=60),
    Shelf("Shop", BUGS, lambda bug: Shop, runs_max=300),
    Shelf("Adventure", OF_CARDINAL, lambda bug: cardinal.Adventure, runs_max=200, seed=2),
    Shelf("Market", OF_CARDINAL, lambda bug: cardinal.Market, runs_max=200, seed=2),
    Shelf("Luciferase", OF_LUCIFERASE, lambda bug: Luciferase, runs_max=300, seed=1),
)
BYTES_MAX = 20_000
"""Of a file: a few calls, and what they need to meet."""
ANEW = (
    "If the application, its machine or the engine was meant to change like that, record it anew: "
    "FORETOLD_REWRITE=1 pytest tests/examples/test_kept_tapes.py -k {bug}"
)


@pytest.mark.parametrize(
    ("shelf", "bug"),
    [pytest.param(shelf, bug, id=f"{shelf.name}-{bug}") for shelf in SHELVES for bug in shelf.bugs],
)
def test_a_mistake_shows_on_its_tape(shelf: Shelf, bug: str) -> None:
    """With the switch on the run fails as was noted; with no switch on, the same choices hold."""
    if os.environ.get("FORETOLD_REWRITE"):
        shelf.record(bug)
    file = shelf.stored(bug)
    how = ANEW.format(bug=bug)
    on = shelf.run(bug, file.tape, mutant=bug)
    assert on.error is not None, f"the tape of {bug} does not show the mistake any more. {how}"
    assert noted(on.error) == file.failure, f"the tape of {bug} fails differently. {how}"
    off = shelf.run(bug, file.tape, mutant=None)
    assert off.error is None, f"the tape of {bug} fails also where there is no mistake: {off.error}"


@pytest.mark.parametrize("shelf", SHELVES, ids=lambda shelf: shelf.name)
def test_there_is_one_small_tape_for_each_mistake(shelf: Shelf) -> None:
    """None is forgotten, none is left over, and each is a few choices that a person can read."""
    sizes = {path.stem: path.stat().st_size for path in shelf.folder.iterdir()}
    assert sizes.keys() == set(shelf.bugs)
    assert max(sizes.values()) <= BYTES_MAX, sizes
    for bug in sizes:
        assert shelf.stored(bug).tape.settings["mutant"] == bug
