"""Mistakes that can be switched on one at a time. Each is one that a real distributed simulation
has or had: the first ten are there today, the last five were repaired.

A product would not have this file. Here it shows that the machine (`machine.py`) notices each:

    foretold explore examples.luciferase.simulation:Luciferase --plant
"""

import foretold

BUGS = {
    "prepare_timeout_loses": "prepare times out after the removal and does not restore the entity",
    "commit_timeout_doubles": "a commit that times out restores the entity without asking",
    "applied_forgets_token": "the answer ALREADY_APPLIED removes the token, so a third call runs",
    "key_without_time": "the key of a migration outlives it, so A to B to A to B is refused",
    "total_timeout_never_fires": "each attempt resets the start that the total limit counts from",
    "transition_not_atomic": "a transition gets, validates and puts: two threads both succeed",
    "view_change_leaves_context": "a rollback by a view change keeps the context and its deadline",
    "counts_without_rollback": "the count of states has no entry for ROLLBACK_OWNED and raises",
    "sent_means_delivered": "a datagram that was sent counts as delivered, as in the fake channel",
    "ghost_goes_back": "a ghost takes an update that is older than what it has",
    "index_gap": "an entity leaves one cell of the index before it enters the other",
    "stop_leaves_tick": "`stop` returns while a tick is still running",
    "view_checked_early": "the view is checked when a migration begins, not when it commits",
    "migration_leak": "a migration that was rolled back stays in the table of those under way",
    "limiter_reads_wall_clock": "the rate limiter ignores the injected clock",
}
PRESENT = tuple(BUGS)[:10]
REPAIRED = tuple(BUGS)[10:]


def planted(bug: str) -> bool:
    """Whether the bubbles have this bug in this run."""
    assert bug in BUGS, bug
    return foretold.mutant(bug)
